"""Progress on the terminal: a live bar, or plain lines where nobody watches."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from pbdist.run.events import BatchFailed, BatchFinished, Event, RunFinished, RunStarted

__all__ = ["ProgressDisplay"]

#: Seconds between two lines where the output is not a terminal.
_LINE_SECONDS = 5.0


class ProgressDisplay:
    """Shows events: cells done, rate, time left, and the dashboard's address. A context manager.

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
            TextColumn("cells"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None
        self._began = self._told = 0.0
        self._total = self._before = self._done = 0
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
                self._advance(event.cells)
            case BatchFailed():
                if event.cause not in self._causes:
                    self._causes.add(event.cause)
                    self._print(f"failed: {event.cause}")
                self._advance(event.cells)
            case RunFinished():
                self._print(f"{event.cells - event.failed_cells} of {event.cells} cells are in the store")

    def _start(self, event: RunStarted) -> None:
        dashboard = f", dashboard at {event.dashboard}" if event.dashboard else ""
        self._print(f"computing on {event.workers}{dashboard}")
        if event.cells_before:
            self._print(f"{event.cells_before} of {event.cells} cells are in the store already")
        self._began = self._told = time.monotonic()
        self._total, self._before = event.cells, event.cells_before
        self._task = self._progress.add_task("cells", total=event.cells, completed=event.cells_before, rate="")

    def _advance(self, cells: int) -> None:
        self._done += cells
        now = time.monotonic()
        rate = self._done / max(now - self._began, 1e-9)
        if self._task is not None:
            self._progress.update(self._task, advance=cells, rate=f"{rate:.2g}/s")
        if not self._console.is_terminal and now - self._told >= _LINE_SECONDS:
            self._told = now
            reached = self._before + self._done
            left = (self._total - reached) / rate
            self._print(f"{reached} of {self._total} cells, {rate:.2g} cells/s, about {left:.0f} s left")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
