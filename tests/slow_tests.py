"""Which tests are slow, by measurement: ``pytest --durations=0 --durations-min=0.05 | python -m tests.slow_tests``.

A test function is slow if one of its cases takes more than 0.4 s, or all of them more than a second. The list is
``tests/slow.txt``; `tests/conftest.py` marks the functions in it, and `pytest -m "not slow"` leaves them out. The setup
of fixtures does not count: which test pays for a shared fixture depends on which is run first. Tests of a fixture that
takes seconds are marked with ``pytest.mark.slow`` in their file, and so are single cases of a function.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

__all__ = ["LIST", "slow_functions"]

LIST = Path(__file__).with_name("slow.txt")
#: Seconds of one case, and of all cases of a function.
_ONE, _ALL = 0.4, 1.0
#: Soundness from end to end is looked at in every run; their long cases are marked in these files.
_ALWAYS = (
    "tests/test_exact_values.py",
    "tests/test_tight_soundness.py::test_a_few",
    "tests/hostile/test_soundness.py::test_a_few",
)
_LINE = re.compile(r"\s*([0-9.]+)s call\s+(tests/\S+?::[^\s\[]+)")


def slow_functions(lines: Iterable[str]) -> list[str]:
    """Return the functions that are slow by what pytest says of durations."""
    longest: dict[str, float] = defaultdict(float)
    total: dict[str, float] = defaultdict(float)
    for line in lines:
        found = _LINE.match(line)
        if found:
            seconds, name = float(found.group(1)), found.group(2)
            longest[name] = max(longest[name], seconds)
            total[name] += seconds
    names = (name for name in total if longest[name] > _ONE or total[name] > _ALL)
    return sorted(name for name in names if not name.startswith(_ALWAYS))


if __name__ == "__main__":
    LIST.write_text("".join(f"{name}\n" for name in slow_functions(sys.stdin)), encoding="utf-8")
