"""Listeners of a run: a live bar or plain lines on the terminal, and a log of one JSON object a line."""

import dataclasses
import json
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from pbdist.errors import InvalidInputError, printable
from pbdist.quantities import counted, duration, size
from pbdist.run import events
from pbdist.types import JsonValue

#: Seconds between two lines where the output is not a terminal.
_LINE_SECONDS = 5.0
#: Failures of so many different causes are shown as they come; the log and the store have all of them.
_MAX_CAUSES = 10
#: The time since a worker's last report is shown from so many seconds on.
_SILENT_SECONDS = 25.0


class _Bar(Progress):
    """A bar, and under it the cells at work, each on a line of its own."""

    event: events.StillComputing | None = None
    event_at = 0.0

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return what is shown; called several times a second."""
        yield from super().get_renderables()
        event, since = self.event, time.monotonic() - self.event_at
        if event is not None:
            for text in [*(_at_work(cell, since) for cell in event.at_work), *_more(event)]:
                yield Text(f"  {printable(text)}", no_wrap=True, overflow="ellipsis")


class ProgressDisplay:
    """Shows events: cells done and at work, rate, time left, failures, bytes, the dashboard. A context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = _Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[counts]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("cells", visible=False, counts="")
        self._began = self._printed = 0.0
        #: Cells of the study, and those of them that were left at the start.
        self._cells = self._left = 0
        self._done = self._failed = self._written = 0
        #: Projected seconds on one core of what was left at the start, and of the batches of it that are done.
        self._projected = self._projected_done = 0.0
        self._causes: set[str] = set()

    def __enter__(self) -> Self:
        """Start the display."""
        self._progress.start()
        return self

    def __exit__(self, *error: Any) -> None:
        """Stop the display; its last state stays, without cells at work."""
        self._progress.event = None
        self._progress.stop()

    def __call__(self, event: events.Event) -> None:
        """Show an event."""
        match event:
            case events.Notice():
                self._print(event.text)
            case events.RunStarted():
                self._start(event)
            case events.BatchFinished():
                self._projected_done += event.projected_seconds
                self._written += event.written_bytes
                self._forget(event)
                self._advance(event.cells)
            case events.StillComputing():
                self._show_work(event)
            case events.CellFailed():
                self._fail(1, event.cause, f"{event.setting}: {event.cause}")
            case events.BatchFailed():
                self._fail(event.cells, event.cause, event.cause)
                self._projected -= event.projected_seconds
                self._advance(event.cells)
            case events.RunFinished():
                self._finish(event)

    def _start(self, event: events.RunStarted) -> None:
        dashboard = f", dashboard at {event.dashboard}" if event.dashboard else ""
        self._print(f"computing on {event.workers}{dashboard}")
        if event.cells_before:
            parts = f"; a setting counts in each of the {event.parts} parts that have it" if event.parts > 1 else ""
            self._print(f"{event.cells_before:,} of {event.cells:,} cells are in the store already{parts}")
        self._cells, self._left = event.cells, event.cells - event.cells_before
        left = f"{counted(self._left, 'cell')} in {counted(event.batches, 'batch', 'batches')}"
        on = "one core" if event.parallelism == 1 else f"{event.parallelism} workers"
        self._print(f"to compute: {left}, projected: {duration(event.elapsed_seconds)} on {on}")
        self._projected = event.seconds
        self._began = self._printed = time.monotonic()
        self._progress.update(self._task, visible=True, total=event.cells, completed=event.cells_before)

    def _advance(self, cells: int) -> None:
        self._done += cells
        now, counts = time.monotonic(), self._counts()
        self._progress.update(self._task, advance=cells, counts=counts)
        if not self._console.is_terminal and now - self._printed >= _LINE_SECONDS:
            self._printed = now
            self._print(f"{self._cells - self._left + self._done:,} of {self._cells:,} cells, {counts}")

    def _show_work(self, event: events.StillComputing) -> None:
        """Show the cells at work, under the bar or in a line."""
        self._progress.event, self._progress.event_at = event, time.monotonic()
        counts = self._counts() if self._done else f"after {duration(round(event.seconds))}"
        self._progress.update(self._task, counts=counts, refresh=True)
        if self._console.is_terminal:
            return
        self._printed = self._progress.event_at
        cells = [*(_at_work(cell) for cell in event.at_work), *_more(event)]
        at_work = f"; at work: {'; '.join(cells)}" if cells else ""
        self._print(f"{event.cells_done:,} of {event.cells:,} cells, {counts}{at_work}")

    def _forget(self, batch: events.BatchFinished) -> None:
        """Stop showing the cells of a batch."""
        event = self._progress.event
        if event is not None:
            left = (x for x in event.at_work if x.part != batch.part or not batch.first <= x.cell < batch.stop)
            self._progress.event = dataclasses.replace(event, at_work=tuple(left))

    def _counts(self) -> str:
        """Return rate, time left, failures and bytes."""
        now, event = time.monotonic(), self._progress.event
        elapsed, done = now - self._began, self._done / self._left
        if self._projected > 0.0 and self._projected_done > 0.0:
            # The longest batches come first, so that the share of batches would say too little.
            done = min(1.0, self._projected_done / self._projected)
        left = elapsed * (1.0 - done) / done
        if event is not None and event.at_work:
            # A cell that takes longer than is projected for all that is left: as long again.
            left = max(left, event.at_work[0].seconds + now - self._progress.event_at - left)
        texts = [f"{self._done / max(elapsed, 1e-9):.2g} cells/s", f"about {duration(round(left))} left"]
        if self._failed:
            texts.append(f"{self._failed:,} failed")
        return ", ".join([*texts, size(self._written)])

    def _fail(self, cells: int, cause: str, text: str) -> None:
        """Count failures; each cause is shown once."""
        self._failed += cells
        if cause in self._causes or len(self._causes) > _MAX_CAUSES:
            return
        self._causes.add(cause)
        self._print(f"failed: {text}" if len(self._causes) <= _MAX_CAUSES else "failed: for still more causes")

    def _finish(self, event: events.RunFinished) -> None:
        texts = [f"{event.cells - event.failed_cells:,} of {event.cells:,} cells are in the store"]
        if event.failed_cells:
            texts.append(f"{event.failed_cells:,} failed")
        if self._left:
            texts += [duration(event.seconds), f"{size(event.written_bytes)} written"]
        self._print(", ".join(texts))

    def _print(self, text: str) -> None:
        # Settings, causes and names of machines are what others wrote.
        self._console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


def _at_work(cell: events.Report, since: float = 0.0) -> str:
    """Return a cell at work as text, `since` seconds after its event."""
    part = f" of {cell.part}" if cell.part else ""
    texts = [f"cell {cell.cell}{part}: {cell.setting} for {duration(round(cell.seconds + since))}"]
    if cell.step:
        texts.append(cell.step)
    if cell.silent_seconds >= _SILENT_SECONDS:
        texts.append(f"last heard of {duration(round(cell.silent_seconds + since))} ago")
    return ", ".join(texts)


def _more(event: events.StillComputing) -> list[str]:
    return [f"and {event.more:,} more"] if event.more else []


class RunLog:
    """Appends a line for each event to a file. A context manager.

    Guaranteed: a reader sees whole lines while the run goes on, and what an earlier run has written stays. A line that
    cannot be written does not stop the run, see `problem`.

    Each line has ``time`` (UTC, ISO 8601), ``event`` (the event's name, as in ``batch_finished``) and the fields of the
    event. The last line of a run that ends early is ``run_stopped`` with its ``cause``. A file that cannot be opened
    is an `InvalidInputError`.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        try:
            # Each line is written when it ends.
            self._file = self._path.open("a", buffering=1, encoding="ascii")
        except OSError as error:
            problem = f"expected the path of a file to append to, got {self._path}: {error.strerror}"
            raise InvalidInputError(f"--log: {problem}") from error
        self._finished = False
        #: What went wrong, as one sentence; None where every line was written.
        self.problem: str | None = None

    def __enter__(self) -> Self:
        """Return the log."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Write why the run stopped, if it ended early, and close the file."""
        if error is not None and not self._finished:
            self._write("run_stopped", {"cause": events.one_line(error)})
        with suppress(OSError):
            self._file.close()

    def __call__(self, event: events.Event) -> None:
        """Append an event."""
        self._finished = isinstance(event, events.RunFinished)
        self._write(re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower(), dataclasses.asdict(event))

    def _write(self, name: str, fields: dict[str, JsonValue]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            self._file.write(json.dumps({"time": now, "event": name, **fields}) + "\n")
        except OSError as error:
            self.problem = f"{self._path}: not all of its lines could be written: {error.strerror}"
