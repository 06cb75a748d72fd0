"""That the benchmark of many workers still runs; how fast it is, is told and not asserted."""

from collections.abc import Callable

import pytest

from tests.benchmarks.many_workers import measure


@pytest.mark.ci
@pytest.mark.timeout(900)
def test_tasks_with_a_hundred_workers(record_property: Callable[[str, object], None]) -> None:
    found = measure(100, 500, 4)
    assert found.workers == 100
    assert found.driver > 0.0
    record_property("tasks_per_second", found.rate)
