"""The log of a run: one JSON object a line, appended as things happen, beside the store and never in it."""

import dataclasses
import errno
import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from pbdist.errors import InvalidInputError
from pbdist.run.events import Event, RunFinished
from pbdist.run.executor import one_line
from pbdist.types import JsonValue

__all__ = ["RunLog"]


class RunLog:
    """Appends a line for each event to a file. A context manager.

    Guaranteed: a line is handed to the system by one call, so that who reads the file while the run goes on sees whole
    lines; and what an earlier run has written stays as it is. That a line cannot be written stops nothing: `problem`
    tells of it.

    Each line has ``time`` (UTC, ISO 8601), ``event`` (the event's name, as in ``batch_finished``) and the fields of the
    event. A run that ends before its time has ``run_stopped`` with its ``cause`` as last line.

    Parameters
    ----------
    path
        The file; created where there is none.

    Raises
    ------
    InvalidInputError
        The file cannot be opened.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            problem = f"expected the path of a file to append to, got {self._path}: {error.strerror}"
            raise InvalidInputError(f"--log: {problem}") from error
        self._finished = False
        self._lost = 0
        self._cause = ""

    @property
    def problem(self) -> str | None:
        """What went wrong, as one sentence; None where every line was written."""
        return f"{self._path}: {self._lost} of its lines could not be written: {self._cause}" if self._lost else None

    def __enter__(self) -> Self:
        """End the line that a machine may have gone down in."""
        with suppress(OSError):
            length = os.fstat(self._file).st_size
            if length and os.pread(self._file, 1, length - 1) != b"\n":
                os.write(self._file, b"\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Tell why the run stopped, if it did before its time, and close the file."""
        try:
            if error is not None and not self._finished:
                self._write("run_stopped", {"cause": one_line(error)})
        finally:
            os.close(self._file)

    def __call__(self, event: Event) -> None:
        """Append an event."""
        self._finished = isinstance(event, RunFinished)
        self._write(_name(type(event)), dataclasses.asdict(event))

    def _write(self, name: str, fields: dict[str, JsonValue]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        # ASCII: no character of a setting or a traceback ends a line for some reader, or cannot be encoded.
        line = json.dumps({"time": now, "event": name, **fields}).encode("ascii") + b"\n"
        try:
            self._append(line)
        except OSError as error:
            self._lost += 1
            self._cause = error.strerror or one_line(error)

    def _append(self, line: bytes) -> None:
        written = os.write(self._file, line)
        if written < len(line):
            # A full disk takes the beginning of a line: take it back, unless another run has written after it.
            end = os.lseek(self._file, 0, os.SEEK_CUR)
            if os.fstat(self._file).st_size == end:
                os.ftruncate(self._file, end - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _name(event: type[Event]) -> str:
    """Return ``batch_finished`` for `BatchFinished`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in event.__name__).lstrip("_")
