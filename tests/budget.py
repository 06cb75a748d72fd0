"""CPU seconds of every test, its child processes and its set-up included: ``pytest --cpu-times FILE``."""

import json
import resource
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

__all__ = ["CpuTimes", "cpu_seconds"]

_NAME = "cpu_seconds"


def cpu_seconds() -> float:
    """Return what this process and its ended children have taken so far."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class CpuTimes:
    """Measures each phase of each test where it runs, and writes a JSON document where the session was started."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.phases: dict[str, dict[str, float]] = defaultdict(dict)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, None]:
        outcome = yield
        spent = cpu_seconds() - getattr(item, "_cpu_before", cpu_seconds())
        item._cpu_before = cpu_seconds()  # type: ignore[attr-defined]
        outcome.get_result().user_properties = [*item.user_properties, (_NAME, spent)]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, None]:
        item._cpu_before = cpu_seconds()  # type: ignore[attr-defined]
        yield

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        spent = dict(report.user_properties).get(_NAME)
        if isinstance(spent, float):
            self.phases[report.nodeid][report.when or ""] = spent
            self.phases[report.nodeid][f"{report.when}_wall"] = report.duration

    def pytest_sessionfinish(self) -> None:
        if self.path is not None:
            self.path.write_text(json.dumps(self.phases, indent=0), encoding="utf-8")
