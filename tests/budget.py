"""CPU seconds of every test: ``--cpu-times FILE`` writes them, ``--cpu-budget`` fails where a test takes too many.

Seconds of child processes count, but not those of Dask's workers, which outlive a test. Those of fixtures are not
judged: which test pays for a shared fixture depends on which is run first.
"""

import json
import resource
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

__all__ = ["ELSEWHERE", "CpuTimes", "cpu_seconds", "over_budget"]

#: Seconds of one case, and of all cases of a function, that a test of the quick run may take.
QUICK_CASE, QUICK_FUNCTION = 0.3, 0.6
#: Seconds that a test of the default run may take, if its mark `slow` states no reason for more.
DEFAULT_CASE = 2.0
_NAME = "cpu_seconds"
#: Seconds of processes of `tests.processes`, which are not children of this one.
ELSEWHERE: list[float] = []


def cpu_seconds() -> float:
    """Return what this process and its ended children have taken so far."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime + sum(ELSEWHERE)


def over_budget(tests: Iterable[tuple[str, float, bool, bool]]) -> list[str]:
    """Return a line for each test that takes too long, from names, CPU seconds, whether slow, and whether excused."""
    found = []
    functions: dict[str, float] = defaultdict(float)
    for name, seconds, slow, excused in tests:
        if not slow:
            functions[name.partition("[")[0]] += seconds
        if seconds > DEFAULT_CASE and not excused:
            found.append(f"{name}: {seconds:.2f} CPU s; make it quicker, or give its mark `slow` a reason")
        elif seconds > QUICK_CASE and not slow:
            found.append(f"{name}: {seconds:.2f} CPU s; mark it as slow")
    for name, seconds in functions.items():
        if seconds > QUICK_FUNCTION:
            found.append(f"{name}: {seconds:.2f} CPU s in all cases; mark it as slow")
    return found


class CpuTimes:
    """Measures each phase of each test where it runs, and judges them where the session was started."""

    def __init__(self, path: Path | None, *, judge: bool) -> None:
        self._path, self._judge = path, judge
        self._phases: dict[str, dict[str, Any]] = defaultdict(dict)
        self._before = 0.0

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, Any, None]:
        self._before = cpu_seconds()
        yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, None]:
        outcome = yield
        now = cpu_seconds()
        slow = item.get_closest_marker("slow")
        measured = {
            "seconds": now - self._before,
            "slow": slow is not None,
            "excused": slow is not None and "reason" in slow.kwargs,
        }
        self._before = now
        outcome.get_result().user_properties = [*item.user_properties, (_NAME, measured)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        measured = dict(report.user_properties).get(_NAME)
        if isinstance(measured, dict):
            test = self._phases[report.nodeid]
            test.update(slow=measured["slow"], excused=measured["excused"])
            test[str(report.when)] = measured["seconds"]
            test[f"{report.when}_wall"] = report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self._over():
            terminalreporter.write_line(f"over budget: {line}", red=True)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._path is not None:
            self._path.write_text(json.dumps(self._phases, indent=0), encoding="utf-8")
        if self._over() and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _over(self) -> list[str]:
        if not self._judge:
            return []
        tests = self._phases.items()
        return over_budget((name, one["call"], one["slow"], one["excused"]) for name, one in tests if "call" in one)
