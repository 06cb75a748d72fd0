"""Cells that take long: workers report them while they compute, the driver keeps the last report of each."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from pbdist.progress import heard_by
from pbdist.run.events import CellAtWork
from pbdist.study import Batch, Cell

#: How often a run sends `StillComputing`, in seconds, by default.
TOLD_EVERY = 30.0
#: The least time between two reports of a worker, in seconds, and the most reports a second of all workers together.
_LEAST_PAUSE, _MOST_REPORTS = 5.0, 50.0
#: Reports of a cell between two events of a run, at least.
_LEAST_REPORTS = 1.5
#: Longer descriptions of cells are cut: one line may hold several.
_LONGEST_SETTING = 100


@dataclass(frozen=True)
class Report:
    """A worker's report of the cell that it computes.

    Attributes
    ----------
    part, batch, cell
        The part of the store, and the numbers of the batch and of the cell in it.
    setting
        The cell's description, as short text.
    seconds
        How long the worker has been computing it.
    step
        The last step that was reached, as text; empty where none was reported.
    worker
        The name of the worker.
    over
        Whether the computation has ended.
    """

    part: str
    batch: int
    cell: int
    setting: str
    seconds: float
    step: str
    worker: str
    over: bool = False


#: Passes a report on. May be called in any thread and does not wait; a report may be lost.
Send = Callable[[Report], None]

_send: ContextVar[Send | None] = ContextVar("pbdist_send", default=None)


@contextmanager
def reported_by(send: Send) -> Iterator[None]:
    """Have reports of what this thread computes sent by `send`, until the block is left."""
    token = _send.set(send)
    try:
        yield
    finally:
        _send.reset(token)


def worker_name() -> str:
    """Return the host and the number of this process."""
    return f"{socket.gethostname()}:{os.getpid()}"


class _Computation:
    """The computation of a cell, and its last step."""

    def __init__(self, batch: Batch, number: int, cell: Cell) -> None:
        self.batch, self.number, self.cell = batch, number, cell
        self.began = time.monotonic()
        self.step = self.detail = ""
        #: How far each count has come, and how often it has started anew.
        self._counts: dict[str, tuple[int, int]] = {}

    def hear(self, what: str, reached: int, of: int) -> None:
        before, times = self._counts.get(what, (reached, 1))
        times += reached < before
        self._counts[what] = reached, times
        # For the second direction, or a finer lattice.
        again = f" (time {times})" if times > 1 else ""
        self.step, self.detail = f"{what} {reached:,} of {of:,}{again}", ""


class CellWatch:
    """Reports the cell that a thread computes, from another thread, if it takes longer than `seconds`.

    There is at most one report in `seconds`, and one more at the end of each reported cell. Without `reported_by`
    there are none. A context manager; `part` is the part of the store that the cells belong to.
    """

    def __init__(self, part: str, seconds: float) -> None:
        self._part, self._seconds, self._send = part, seconds, _send.get()
        self._current: _Computation | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="pbdist-cell-watch", daemon=True)

    def __enter__(self) -> Self:
        """Begin to watch."""
        if self._send is not None:
            try:
                self._thread.start()
            except BaseException:
                # An interrupt may come when the thread has just started.
                self._over.set()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Send the last report and end."""
        self._over.set()
        if self._send is not None:
            self._thread.join()

    @contextmanager
    def at(self, batch: Batch, number: int, cell: Cell) -> Iterator[None]:
        """Watch the computation of a cell, which is the block."""
        self._current = found = _Computation(batch, number, cell)
        try:
            with heard_by(found.hear):
                yield
        finally:
            self._current = None

    def detail(self, what: str, reached: int, of: int) -> None:
        """Note how far the work on the next step has come."""
        found = self._current
        if found is not None:
            found.detail = f"{what} {reached:,} of {of:,}"

    def _watch(self) -> None:
        reported: _Computation | None = None
        while not self._over.wait(self._seconds):
            found = self._current
            if reported is not None and reported is not found:
                self._report(reported, over=True)
                reported = None
            if found is not None and time.monotonic() - found.began >= self._seconds:
                self._report(found)
                reported = found
        if reported is not None:
            self._report(reported, over=True)

    def _report(self, found: _Computation, *, over: bool = False) -> None:
        if self._send is None:
            return
        setting = found.cell.describe()
        if len(setting) > _LONGEST_SETTING:
            setting = f"{setting[:_LONGEST_SETTING]}.."
        step = ", ".join(text for text in (found.step, found.detail) if text)
        seconds = time.monotonic() - found.began
        self._send(Report(self._part, found.batch.index, found.number, setting, seconds, step, worker_name(), over))


def pause_between_reports(event_seconds: float, parallelism: int) -> float:
    """Return the time between two reports of a worker, where the run sends an event every `event_seconds`."""
    pause = max(_LEAST_PAUSE, parallelism / _MOST_REPORTS)
    return min(pause, event_seconds / _LEAST_REPORTS)


class CellsAtWork:
    """The last report of each cell that takes long, in the driver.

    `is_left` says of a batch, by part and number, whether it is still to be computed: reports may come late, or never.
    """

    def __init__(self, is_left: Callable[[str, int], bool]) -> None:
        self._is_left = is_left
        self._last: dict[tuple[str, int], tuple[float, Report]] = {}
        self._lock = threading.Lock()

    def take(self, arrived: float, report: Report) -> None:
        """Note a report that came at that time of the monotonic clock."""
        with self._lock:
            if report.over:
                self._last.pop((report.part, report.cell), None)
            else:
                self._last[report.part, report.cell] = arrived, report

    def cells(self) -> list[CellAtWork]:
        """Return the cells at work now, the longest first."""
        now = time.monotonic()
        with self._lock:
            for key, (_, report) in list(self._last.items()):
                if not self._is_left(report.part, report.batch):
                    del self._last[key]
            last = list(self._last.values())
        found = [
            CellAtWork(
                part=report.part,
                cell=report.cell,
                setting=report.setting,
                seconds=report.seconds + now - arrived,
                step=report.step,
                silent_seconds=now - arrived,
                worker=report.worker,
            )
            for arrived, report in last
        ]
        return sorted(found, key=lambda cell: (-cell.seconds, cell.part, cell.cell))


@contextmanager
def regularly(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Call `act` every `seconds`, in a thread of its own, until the block is left."""
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
