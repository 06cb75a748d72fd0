"""What tests need of the machine: they skip where it is missing, and fail where CI is meant to have it."""

import os
from typing import NoReturn

import pytest

__all__ = ["missing"]


def missing(reason: str) -> NoReturn:
    """Skip a test for this reason; fail it where the environment variable PBDIST_CI is set."""
    if os.environ.get("PBDIST_CI"):
        pytest.fail(f"CI is meant to have this: {reason}")
    pytest.skip(reason)
