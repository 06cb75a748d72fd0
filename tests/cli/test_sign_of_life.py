"""A sign of life: after a while, with the steps and an estimate, on a terminal and elsewhere."""

import io
import re
import sys
import time
from contextlib import suppress

import pytest

from pbdist import Accountant, size
from pbdist.cli import main
from pbdist.cli import output as module
from pbdist.cli.output import sign_of_life, warn
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import DiscreteGaussian, Gaussian
from pbdist.progress import heard_by, report


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, *, seconds: float, fails: bool = False) -> str:
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
def test_a_long_computation_is_shown_and_cleared(monkeypatch: pytest.MonkeyPatch, *, fails: bool) -> None:
    monkeypatch.setattr(module, "_FIRST", 0.01)
    text = printed(monkeypatch, Terminal(), seconds=20.0, fails=fails)
    assert text.startswith("computing for 0 s: r = 8 of 64\x1b[K\r")
    assert text.endswith("\x1b[K")


def test_without_a_terminal_it_is_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST", 0.01)
    assert printed(monkeypatch, io.StringIO(), seconds=20.0).startswith("computing for 0 s: r = 8 of 64\n")


@pytest.mark.parametrize("stderr", [Terminal(), io.StringIO()])
def test_a_quick_one_is_not(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO) -> None:
    monkeypatch.setattr(module, "_FIRST", 60.0)
    assert "computing" not in printed(monkeypatch, stderr, seconds=0.0)


def test_the_time_that_is_left_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    steps = module.Steps()
    steps.hear("r =", 8, 64)
    now[0] = 104.0
    assert str(steps) == "computing for 4 s: r = 8 of 64"
    steps.projected = lambda: 34.0
    assert str(steps) == "computing for 4 s: r = 8 of 64, about 30 s left"
    # Of several parts the whole is estimated, once one is done.
    steps = module.Steps()
    steps.part("target", 0, 3)
    assert str(steps) == "computing for 0 s: target 1 of 3"
    now[0] = 114.0
    steps.part("target", 1, 3)
    steps.hear("r =", 1, 2)
    assert str(steps) == "computing for 10 s: target 2 of 3: r = 1 of 2, about 20 s left"
    # Parts of parts count too, and are forgotten at the end.
    steps.part("bound", 2, 4)
    assert str(steps) == "computing for 10 s: target 2 of 3: bound 3 of 4, about 10 s left"
    steps.part("bound", 4, 4)
    assert str(steps) == "computing for 10 s: target 2 of 3, about 20 s left"
    # A single part is not worth a word; a projection that is over no longer counts.
    steps.part("target", 0, 1)
    steps.projected = lambda: 5.0
    assert str(steps) == "computing for 10 s"


@pytest.mark.parametrize(("begun", "expected"), [(True, "2 4 8 16 32 64"), (False, "11 22 44 88")])
def test_without_a_terminal_lines_come_early_and_then_seldom(
    monkeypatch: pytest.MonkeyPatch, expected: str, *, begun: bool
) -> None:
    """Early where a step was reported: before that, modules are imported, and the input may be refused in one line."""
    now, stderr = [0.0], io.StringIO()

    class BegunSteps(module.Steps):
        def __init__(self) -> None:
            super().__init__()
            self.begun = begun

    class Clock:
        def wait(self, seconds: float) -> bool:
            now[0] += seconds
            return now[0] > 100.0

        def set(self) -> None:
            pass

    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(module, "_FIRST", 2.0)
    monkeypatch.setattr(module, "Steps", BegunSteps)
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "Event", Clock)
    with sign_of_life():
        pass
    assert stderr.getvalue() == "".join(f"computing for {seconds} s\n" for seconds in expected.split())


def test_a_search_counts_its_bounds() -> None:
    found: list[tuple[str, int, int]] = []
    with heard_by(lambda *_: None, lambda *part: found.append(part)):
        size(Gaussian, compositions=4, epsilon=1.0, delta=1e-3)
        size(DiscreteGaussian, compositions=4, epsilon=1.0, delta=1e-3)
    assert found[0] == ("bound", 0, 5)
    assert [done for name, done, of in found if (name, of) == ("bound", 40)][:3] == [0, 1, 2]
    assert all(done < of for _, done, of in found)


def test_other_lines_are_written_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for stderr, begin in ((Terminal(), "\x1b[K"), (io.StringIO(), "")):
        monkeypatch.setattr(sys, "stderr", stderr)
        warn("wide")
        assert stderr.getvalue() == f"{begin}pbdist: warning: wide\n"


@pytest.mark.parametrize(
    "question", [["delta", "--epsilon", "0.1", "1"], ["epsilon", "--delta", "1e-6"], ["delta", "--exp-epsilon", "2"]]
)
def test_bounds_are_projected_before_their_first_step(monkeypatch: pytest.MonkeyPatch, question: list[str]) -> None:
    stderr = io.StringIO()

    def wait_for_a_sign(*_: object, **__: object) -> None:
        until = time.monotonic() + 20.0
        while time.monotonic() < until and "left" not in stderr.getvalue():
            time.sleep(0.005)
        raise InvalidInputError("enough")

    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(module, "_FIRST", 0.01)
    monkeypatch.setattr(Accountant, question[0], wait_for_a_sign)
    slow = ["--family", "RandomAllocation", "--scale", "2", "--steps", "50000", "100000", "--compositions", "100"]
    assert main([*question, *slow, "--tolerance", "1e-6"]) == 2
    assert re.search(r"computing for \d+ s: mechanism 1 of 2, about \d+ s left\n", stderr.getvalue())
