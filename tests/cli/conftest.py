"""No sign of life on stderr, however slow the machine is; tests of it set the time themselves."""

import pytest

from pbdist.cli import output


@pytest.fixture(autouse=True)
def without_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_FIRST", 600.0)
