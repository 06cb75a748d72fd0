"""What holds for all tests."""

import signal
from collections.abc import Iterator

import pytest

from tests.slow_tests import LIST


@pytest.fixture(scope="session", autouse=True)
def signals_as_in_a_terminal() -> Iterator[None]:
    """Processes that tests start must get the signals that are sent to them: a shell ignores some in the background."""
    ignored = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_IGN
    ]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what was measured to be slow."""
    slow = set(LIST.read_text(encoding="utf-8").split())
    for item in items:
        if item.nodeid.partition("[")[0] in slow:
            item.add_marker(pytest.mark.slow)
