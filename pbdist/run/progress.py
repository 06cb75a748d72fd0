"""Progress on the terminal: a live bar, or plain lines where nobody watches."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from pbdist.run.events import (
    BatchFailed,
    BatchFinished,
    CellFailed,
    CleanUpFailed,
    Event,
    RunFinished,
    RunStarted,
    StoreReached,
    StoreUnreachable,
    WorkerRefused,
)
from pbdist.study.amounts import duration, size

__all__ = ["ProgressDisplay"]

#: Seconds between two lines where the output is not a terminal.
_LINE_SECONDS = 5.0
#: Failures of so many different causes are told as they come; the end of the run, its log and the store know all.
_MOST_CAUSES = 10


class ProgressDisplay:
    """Shows events: cells done, rate, time left, failures, bytes, and the dashboard's address. A context manager.

    Parameters
    ----------
    console
        Where to show them.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None
        self._started: RunStarted | None = None
        self._began = self._told = 0.0
        self._done = self._failed = self._written = 0
        #: Of what is left at the start, projected seconds on one core: all, and those of the batches that are done.
        self._projected = self._projected_done = 0.0
        self._causes: set[str] = set()

    def __enter__(self) -> Self:
        """Start the display."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the display, leaving its last state."""
        self._progress.stop()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case RunStarted():
                self._start(event)
            case BatchFinished():
                self._projected_done += event.projected_seconds
                self._written += event.written_bytes
                self._advance(event.cells)
            case CellFailed():
                self._fail(1, event.cause, f"{event.setting}: {event.cause}")
            case BatchFailed():
                self._fail(event.cells, event.cause, event.cause)
                if self._started is not None:
                    # It takes no more time, and its share of the projection is not known.
                    self._projected -= self._started.seconds * event.cells / self._cells_left(self._started)
                self._advance(event.cells)
            case StoreUnreachable():
                wait = f"trying again for {duration(event.patience)}"
                self._print(f"the store cannot be reached since {event.since}: {event.cause}: {wait}")
            case StoreReached():
                self._print(f"the store is reached again after {duration(event.seconds)}")
            case WorkerRefused():
                self._print(f"refused: {event.cause}")
            case CleanUpFailed():
                self._print(f"left behind: {event.cause}")
            case RunFinished():
                self._finish(event)

    def _start(self, event: RunStarted) -> None:
        dashboard = f", dashboard at {event.dashboard}" if event.dashboard else ""
        self._print(f"computing on {event.workers}{dashboard}")
        if event.cells_before:
            self._print(f"{event.cells_before:,} of {event.cells:,} cells are in the store already")
        left = f"{self._cells_left(event):,} cells in {event.batches:,} batches"
        self._print(f"to compute: {left}, projected: {duration(event.seconds)} on one core")
        self._started, self._projected = event, event.seconds
        self._began = self._told = time.monotonic()
        self._task = self._progress.add_task("cells", total=event.cells, completed=event.cells_before, told="")

    def _advance(self, cells: int) -> None:
        if self._started is None or self._task is None:
            return
        self._done += cells
        now = time.monotonic()
        told = self._counts(self._started, now - self._began)
        self._progress.update(self._task, advance=cells, told=told)
        if not self._console.is_terminal and now - self._told >= _LINE_SECONDS:
            self._told = now
            reached = self._started.cells_before + self._done
            self._print(f"{reached:,} of {self._started.cells:,} cells, {told}")

    def _counts(self, started: RunStarted, elapsed: float) -> str:
        """Return rate, time left, failures and bytes."""
        done = self._done / self._cells_left(started)
        if self._projected > 0.0 and self._projected_done > 0.0:
            # The longest batches come first: the projection knows how much shorter the others are, the clock how fast
            # the workers are.
            done = min(1.0, self._projected_done / self._projected)
        told = [
            f"{self._done / max(elapsed, 1e-9):.2g} cells/s",
            f"about {duration(round(elapsed * (1.0 - done) / done))} left",
        ]
        if self._failed:
            told.append(f"{self._failed:,} failed")
        return ", ".join([*told, size(self._written)])

    def _fail(self, cells: int, cause: str, text: str) -> None:
        """Count failures; each cause is told once."""
        self._failed += cells
        if cause in self._causes or len(self._causes) > _MOST_CAUSES:
            return
        self._causes.add(cause)
        self._print(f"failed: {text}" if len(self._causes) <= _MOST_CAUSES else "failed: for still more causes")

    def _finish(self, event: RunFinished) -> None:
        told = [f"{event.cells - event.failed_cells:,} of {event.cells:,} cells are in the store"]
        if event.failed_cells:
            told.append(f"{event.failed_cells:,} failed")
        if self._started is not None:
            told.append(duration(event.seconds))
            if event.worker_seconds > 0.0:
                told.append(f"kernels {event.kernel_seconds / event.worker_seconds:.0%} of worker time")
            told.append(f"{size(event.written_bytes)} written")
        self._print(", ".join(told))

    @staticmethod
    def _cells_left(started: RunStarted) -> int:
        return max(1, started.cells - started.cells_before)

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
