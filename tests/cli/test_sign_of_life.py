"""A sign of life: on a terminal, after a while, and nowhere else."""

import io
import sys
import time
from contextlib import suppress

import pytest

from pbdist.cli import output as module
from pbdist.cli.output import sign_of_life
from pbdist.progress import report


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, *, seconds: float, fails: bool = False) -> str:
    monkeypatch.setattr(sys, "stderr", stderr)
    with suppress(KeyError), sign_of_life():
        report("r =", 8, 64)
        until = time.monotonic() + seconds
        while time.monotonic() < until and "computing" not in stderr.getvalue():
            time.sleep(0.005)
        if fails:
            raise KeyError
    return stderr.getvalue()


@pytest.mark.parametrize("fails", [False, True])
def test_a_long_computation_is_told_and_cleared(monkeypatch: pytest.MonkeyPatch, *, fails: bool) -> None:
    monkeypatch.setattr(module, "_FIRST", 0.01)
    text = told(monkeypatch, Terminal(), seconds=20.0, fails=fails)
    assert text.startswith("computing for 0 s: r = 8 of 64\x1b[K\r")
    assert text.endswith("\x1b[K")


def test_a_quick_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST", 60.0)
    assert "computing" not in told(monkeypatch, Terminal(), seconds=0.0)


def test_nothing_is_told_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST", 0.0)
    assert told(monkeypatch, io.StringIO(), seconds=0.05) == ""
