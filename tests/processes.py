"""Commands and programs in a process of their own that begins with the imports done: a fork of a server that waits.

A process that Python starts anew imports for a second or two; this one runs at once. Not for tests of what is
imported, of variables that Python reads when it starts, or of the process that a user starts.
"""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import NoReturn, Self

from tests.budget import ELSEWHERE, cpu_seconds

__all__ = ["Running", "run_code", "run_command", "start_code", "start_command"]

#: A guard against a process that hangs.
_MAX_SECONDS = 240.0
#: pytest's own script is imported again by each process.
_PRELOADED = (
    *("pbdist.cli", "pbdist.export", "pbdist.query", "pbdist.run", "pbdist.verify.store"),
    *("pytest", "tests.processes"),
)

Environment = Mapping[str, str | None]


class Running:
    """A process; a context manager that kills it at its end."""

    def __init__(self, do: Callable[[tuple[str, ...]], object], arguments: tuple[str, ...], **settings: object) -> None:
        self._arguments = arguments
        self._folder = tempfile.TemporaryDirectory()
        context = _processes()
        self._process = context.Process(target=_begin, args=(do, arguments, self._folder.name, settings))
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


def start_command(
    *arguments: object,
    cwd: Path | str | None = None,
    env: Environment | None = None,
    memory: int | None = None,
    strict: bool = False,
) -> Running:
    """Start ``pbdist`` with these arguments.

    Parameters
    ----------
    cwd : Path or str, optional
        The folder to run in, by default this process's.
    env : mapping, optional
        Variables that differ from this process's; None removes one.
    memory : int, optional
        The most bytes of address space.
    strict : bool
        Whether warnings are errors, as with ``python -W error``.
    """
    environment = {name: value for name, value in {**os.environ, **(env or {})}.items() if value is not None}
    settings = {"cwd": str(cwd or Path.cwd()), "environment": environment, "memory": memory, "strict": strict}
    return Running(_command, tuple(map(str, arguments)), **settings)


def run_command(*arguments: object, **settings: object) -> "subprocess.CompletedProcess[str]":
    """As `start_command`, until its end."""
    with start_command(*arguments, **settings) as running:  # type: ignore[arg-type]
        return running.wait()


def start_code(code: str, *arguments: object) -> Running:
    """Start a program as ``python -c`` does."""
    return Running(_code, (code, *map(str, arguments)), cwd=str(Path.cwd()), environment=dict(os.environ))


def run_code(code: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """As `start_code`, until its end."""
    with start_code(code, *arguments) as running:
        return running.wait()


def _command(arguments: tuple[str, ...]) -> object:
    from pbdist.cli import main

    sys.argv = ["pbdist", *arguments]
    return main(list(arguments))


def _code(arguments: tuple[str, ...]) -> None:
    sys.argv = ["-c", *arguments[1:]]
    exec(arguments[0], {"__name__": "__main__"})  # noqa: S102 -- the program of a test


@cache
def _processes() -> ForkServerContext:
    context = get_context("forkserver")
    context.set_forkserver_preload(list(_PRELOADED))
    return context


def _begin(
    do: Callable[[tuple[str, ...]], object], arguments: tuple[str, ...], folder: str, settings: dict[str, object]
) -> NoReturn:
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
    os.environ.update(settings["environment"])  # type: ignore[call-overload]
    os.chdir(str(settings["cwd"]))
    if isinstance(memory := settings.get("memory"), int):
        resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if settings.get("strict"):
        warnings.simplefilter("error")
    try:
        code = do(arguments) or 0
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:  # noqa: BLE001 -- as the interpreter does
        traceback.print_exc()
        code = 1
    Path(folder, "cpu").write_text(str(cpu_seconds()))
    sys.exit(code)  # type: ignore[arg-type]
