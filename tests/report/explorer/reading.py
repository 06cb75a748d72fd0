"""Read packed arrays as a page does."""

import base64
from typing import Any

import numpy as np

DTYPES = {"f8": "<f8", "u4": "<u4", "u1": "|u1"}


def unpacked(packed: dict[str, str]) -> Any:
    ((kind, text),) = packed.items()
    return np.frombuffer(base64.b64decode(text), dtype=DTYPES[kind])
