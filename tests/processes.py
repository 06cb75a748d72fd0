"""Programs in a process of their own that begins with the imports done: a fork of a server that waits.

A process that Python starts anew imports for a second or two; this one runs at once. Not for tests of what is
imported, of variables that Python reads when it starts, or of the process that a user starts.
"""

import os
import signal
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from functools import cache
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import NoReturn, Self

from tests.budget import ELSEWHERE, cpu_seconds

__all__ = ["Running", "run_code", "start_code"]

#: A guard against a process that hangs.
_MAX_SECONDS = 240.0
#: pytest's own script is imported again by each process.
_PRELOADED = (
    *("pbdist.cli", "pbdist.export", "pbdist.query", "pbdist.run", "pbdist.verify.store"),
    *("pytest", "tests.processes"),
)


class Running:
    """A process; a context manager that kills it at its end."""

    def __init__(self, code: str, arguments: tuple[str, ...]) -> None:
        self._arguments = arguments
        self._folder = tempfile.TemporaryDirectory()
        place = self._folder.name, str(Path.cwd()), dict(os.environ)
        self._process = _processes().Process(target=_begin, args=(code, arguments, *place))
        self._process.start()
        #: Its number, for signals.
        self.pid = self._process.pid or 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        if used := self.printed("cpu"):
            ELSEWHERE.append(float(used))
        self._folder.cleanup()

    @property
    def code(self) -> int | None:
        """The exit code, negative for the number of a signal; None before the end."""
        return self._process.exitcode

    def printed(self, name: str = "out") -> str:
        """Return what it has printed so far to ``out`` or ``err``."""
        with suppress(FileNotFoundError):
            return Path(self._folder.name, name).read_text(encoding="utf-8")
        return ""

    def wait(self) -> "subprocess.CompletedProcess[str]":
        """Wait for its end."""
        self._process.join(_MAX_SECONDS)
        out, err = self.printed("out"), self.printed("err")
        if self.code is None:
            raise subprocess.TimeoutExpired(self._arguments, _MAX_SECONDS, out, err)
        return subprocess.CompletedProcess(self._arguments, self.code, out, err)


def start_code(code: str, *arguments: object) -> Running:
    """Start a program as ``python -c`` does."""
    return Running(code, tuple(map(str, arguments)))


def run_code(code: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """As `start_code`, until its end."""
    with start_code(code, *arguments) as running:
        return running.wait()


@cache
def _processes() -> ForkServerContext:
    context = get_context("forkserver")
    context.set_forkserver_preload(list(_PRELOADED))
    return context


def _begin(program: str, arguments: tuple[str, ...], folder: str, cwd: str, environment: dict[str, str]) -> NoReturn:
    # A cluster may have started the server, with these signals blocked.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number, name in ((1, "out"), (2, "err")):
        opened = os.open(Path(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    # Standard error line by line, as Python has it.
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    # The server was started with the environment of then.
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv = ["-c", *arguments]
    code = 0
    try:
        exec(program, {"__name__": "__main__"})  # noqa: S102 -- the program of a test
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:  # noqa: BLE001 -- as the interpreter does
        traceback.print_exc()
        code = 1
    Path(folder, "cpu").write_text(str(cpu_seconds()))
    sys.exit(code)  # type: ignore[arg-type]
