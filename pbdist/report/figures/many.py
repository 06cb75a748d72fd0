"""Make many figures at once, each in a process of its own."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

#: How often processes are looked at, seconds.
_PAUSE = 0.1
#: How long a process may take to end in good order, seconds.
_GOOD_ORDER = 10.0


@dataclass(frozen=True)
class Ended:
    """How the process of one figure ended.

    Attributes
    ----------
    name
        What it was called.
    code
        Its exit code.
    output, error
        What it printed.
    seconds
        How long it took.
    """

    name: str
    code: int
    output: str
    error: str
    seconds: float


@dataclass(eq=False)
class _Running:
    name: str
    process: subprocess.Popen[str]
    output: IO[str]
    error: IO[str]
    since: float

    def ended(self) -> Ended:
        printed, problems = _read(self.output), _read(self.error)
        return Ended(self.name, self.process.returncode, printed, problems, time.monotonic() - self.since)


def at_once(
    commands: Sequence[tuple[str, Sequence[str]]],
    workers: int,
    ended: Callable[[Ended], None],
    running: Callable[[Sequence[str]], None] = lambda _: None,
) -> None:
    """Run ``python -m pbdist ARGUMENTS`` for each (name, arguments), at most `workers` at once, in their order.

    `ended` is called as each ends, `running` with the names of those at work whenever they change. If this is
    interrupted, all of them are ended before it returns.
    """
    left, at_work = list(commands), list[_Running]()
    try:
        while left or at_work:
            while left and len(at_work) < workers:
                name, arguments = left.pop(0)
                at_work.append(_started(name, arguments))
                running([one.name for one in at_work])
            done = [one for one in at_work if one.process.poll() is not None]
            for one in done:
                at_work.remove(one)
                ended(one.ended())
                running([other.name for other in at_work])
            if not done:
                time.sleep(_PAUSE)
    finally:
        for one in at_work:
            one.process.terminate()
        for one in at_work:
            try:
                one.process.wait(_GOOD_ORDER)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
            one.ended()


def _started(name: str, arguments: Sequence[str]) -> _Running:
    output, error = _file(), _file()
    command = [sys.executable, "-m", "pbdist", *arguments]
    # A session of its own: Ctrl-C reaches this process alone, which ends the others.
    process = subprocess.Popen(command, stdout=output, stderr=error, text=True, start_new_session=True)  # noqa: S603
    return _Running(name, process, output, error, time.monotonic())


def _file() -> IO[str]:
    """Return an unnamed file, which `_read` closes."""
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")


def _read(file: IO[str]) -> str:
    """Return all of a file that is open, and close it."""
    with file:
        file.seek(0)
        return file.read()
