"""What a worker tells of a cell that takes long, while it computes it."""

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
from pbdist.study import Batch, Cell

__all__ = ["CellWatch", "Report", "Send", "told_by", "worker_name"]

#: A setting is cut there: one line may tell of several.
_LONGEST_SETTING = 100


@dataclass(frozen=True)
class Report:
    """What a worker tells of a cell that it computes.

    Attributes
    ----------
    part, batch, cell
        The part of the store, and the numbers of the batch and of the cell in it.
    setting
        The noise setting, as short text.
    seconds
        For how long the worker has been at it.
    step
        The last step that was reached, as text; empty where none was told of.
    worker
        Who computes it.
    over
        Whether it is computed no longer.
    """

    part: str
    batch: int
    cell: int
    setting: str
    seconds: float
    step: str
    worker: str
    over: bool = False


#: Hands a report on; it may be called in any thread, does not wait, and a report may be lost.
Send = Callable[[Report], None]

_send: ContextVar[Send | None] = ContextVar("pbdist_send", default=None)


@contextmanager
def told_by(send: Send) -> Iterator[None]:
    """Have reports of what this thread computes handed on by `send`, until the block is left."""
    token = _send.set(send)
    try:
        yield
    finally:
        _send.reset(token)


def worker_name() -> str:
    """Return the host and the process, for the log."""
    return f"{socket.gethostname()}:{os.getpid()}"


class _AtWork:
    """A cell that is being computed."""

    def __init__(self, batch: Batch, number: int, cell: Cell) -> None:
        self.batch, self.number, self.cell = batch, number, cell
        self.began = time.monotonic()
        self.step = self.detail = ""
        #: How far each count has come, and which time it is that it goes that way.
        self._counts: dict[str, tuple[int, int]] = {}

    def hear(self, what: str, reached: int, of: int) -> None:
        before, times = self._counts.get(what, (reached, 1))
        times += reached < before
        self._counts[what] = reached, times
        # One direction after the other, or a finer lattice.
        again = f" (time {times})" if times > 1 else ""
        self.step, self.detail = f"{what} {reached:,} of {of:,}{again}", ""


class CellWatch:
    """Reports the cell that a thread is at, from another thread: never one that takes less than `seconds`.

    However many cells there are, and whatever steps they tell of, there is at most one report in `seconds`, and one
    more for each cell that was reported, when it is over. Where nobody is told (see `told_by`) it does nothing. A
    context manager.

    Parameters
    ----------
    part
        The part of the store that the cells belong to.
    seconds
        The time between two reports.
    """

    def __init__(self, part: str, seconds: float) -> None:
        self._part, self._seconds, self._send = part, seconds, _send.get()
        self._at: _AtWork | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="pbdist-cell-watch", daemon=True)

    def __enter__(self) -> Self:
        """Begin to watch."""
        if self._send is not None:
            try:
                self._thread.start()
            except BaseException:
                # An interrupt may come when it has just been started.
                self._over.set()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End it; the last report is sent."""
        self._over.set()
        if self._send is not None:
            self._thread.join()

    @contextmanager
    def at(self, batch: Batch, number: int, cell: Cell) -> Iterator[None]:
        """Watch the computation of a cell, which is the block."""
        self._at = found = _AtWork(batch, number, cell)
        try:
            with heard_by(found.hear):
                yield
        finally:
            self._at = None

    def detail(self, what: str, reached: int, of: int) -> None:
        """Take note of how far the work on the next step has come."""
        found = self._at
        if found is not None:
            found.detail = f"{what} {reached:,} of {of:,}"

    def _tell(self) -> None:
        told: _AtWork | None = None
        while not self._over.wait(self._seconds):
            found = self._at
            if told is not None and told is not found:
                self._report(told, over=True)
                told = None
            if found is not None and time.monotonic() - found.began >= self._seconds:
                self._report(found)
                told = found
        if told is not None:
            self._report(told, over=True)

    def _report(self, found: _AtWork, *, over: bool = False) -> None:
        if self._send is None:
            return
        setting = found.cell.describe()
        if len(setting) > _LONGEST_SETTING:
            setting = f"{setting[:_LONGEST_SETTING]}.."
        step = ", ".join(text for text in (found.step, found.detail) if text)
        seconds = time.monotonic() - found.began
        self._send(Report(self._part, found.batch.index, found.number, setting, seconds, step, worker_name(), over))
