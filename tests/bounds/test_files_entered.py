"""How many of the package's files one answer crosses, and whether files call each other back and forth."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import pbdist
from pbdist import SubsampledGaussian, privacy_bounds

_ROOT = str(Path(pbdist.__file__).parent)
#: Files that an answer may enter, from the public function to the innermost sum.
_MOST_FILES = 18


def _calls_between_files(answer: Callable[[], Any]) -> tuple[set[str], set[tuple[str, str]]]:
    """Return the files of the package that a call enters, and which file calls which."""
    entered: set[str] = set()
    calls: set[tuple[str, str]] = set()

    def look(frame: FrameType, event: str, _: Any) -> None:
        callee = frame.f_code.co_filename
        if event != "call" or not callee.startswith(_ROOT):
            return
        entered.add(callee)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(_ROOT):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != callee:
            calls.add((caller.f_code.co_filename, callee))

    sys.setprofile(look)
    try:
        answer()
    finally:
        sys.setprofile(None)
    return entered, calls


@pytest.mark.parametrize(
    ("scale", "rate", "compositions", "epsilon"),
    [
        (1.0, 0.01, 1000, 1.0),
        (0.8, 0.001, 16384, 2.0),
        (2.0, 0.02, [100, 1000], [0.1, 0.5, 1.0]),
    ],
)
def test_an_answer_on_dp_sgd_crosses_few_files(scale: float, rate: float, compositions: Any, epsilon: Any) -> None:
    pair = SubsampledGaussian(scale, rate)
    entered, calls = _calls_between_files(lambda: privacy_bounds(pair, compositions=compositions, epsilon=epsilon))
    names = sorted(str(Path(name).relative_to(_ROOT)) for name in entered)
    assert "bounds/delta.py" in names
    assert len(names) <= _MOST_FILES, names
    assert not [(one, other) for one, other in calls if one < other and (other, one) in calls]
