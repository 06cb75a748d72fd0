"""The cells that are being computed, as far as the driver has been told, and the clock by which it tells of them."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pbdist.run.cell_watch import Report
from pbdist.run.events import CellAtWork

__all__ = ["TOLD_EVERY", "CellsAtWork", "pause_between_reports", "regularly"]

#: How often a run tells how far it is, in seconds.
TOLD_EVERY = 30.0
#: How often a worker reports a cell at most, in seconds, and how many reports a second all workers may send together.
_REPORT_SECONDS, _MOST_REPORTS = 5.0, 50.0
#: Reports between two lines of a run, at least.
_LEAST_REPORTS = 1.5


def pause_between_reports(told_every: float, parallelism: int) -> float:
    """Return how many seconds a worker lets pass between two reports."""
    pause = max(_REPORT_SECONDS, parallelism / _MOST_REPORTS)
    return min(pause, told_every / _LEAST_REPORTS)


class CellsAtWork:
    """What was last reported of each cell that takes long.

    Parameters
    ----------
    is_left
        Whether a batch, by part and number, is still to be computed: a report may come late, or not at all.
    """

    def __init__(self, is_left: Callable[[str, int], bool]) -> None:
        self._is_left = is_left
        self._last: dict[tuple[str, int], tuple[float, Report]] = {}
        self._lock = threading.Lock()

    def take(self, arrived: float, report: Report) -> None:
        """Take note of a report that came at that time of the monotonic clock."""
        with self._lock:
            if report.over:
                self._last.pop((report.part, report.cell), None)
            else:
                self._last[report.part, report.cell] = arrived, report

    def cells(self) -> list[CellAtWork]:
        """Return what is at work now, the longest first."""
        now = time.monotonic()
        with self._lock:
            for key, (_, told) in list(self._last.items()):
                if not self._is_left(told.part, told.batch):
                    del self._last[key]
            last = list(self._last.values())
        found = [
            CellAtWork(
                part=told.part,
                cell=told.cell,
                setting=told.setting,
                seconds=told.seconds + now - at,
                step=told.step,
                silent_seconds=now - at,
                worker=told.worker,
            )
            for at, told in last
        ]
        return sorted(found, key=lambda cell: (-cell.seconds, cell.part, cell.cell))


@contextmanager
def regularly(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Call `act` every so many seconds, in a thread of its own, until the block is left."""
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(seconds):
            act()

    thread = threading.Thread(target=go_on, name="pbdist-clock", daemon=True)
    try:
        # An interrupt may come at any moment.
        thread.start()
        yield
    finally:
        over.set()
        if thread.is_alive():
            thread.join()
