"""The command line, and its end on Ctrl-C, SIGTERM or SIGHUP. Everything heavy is imported when it is used."""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

__all__ = ["main"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What is said of a command that saves results before its end.
GOES_ON = ": the same command goes on where this one stopped"
#: A second signal within this time, in seconds, counts as the first one: `timeout`, for one, sends two.
_PATIENCE = 2.0
_SHOW_CURSOR = "\x1b[?25h\x1b[K"
#: When the first signal came.
_came: list[float] = []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code, as the help of each command explains it.

    With `arguments`, for a call from Python, the signal handlers of the process stay. Without, it takes the arguments
    of the process, and Ctrl-C, SIGTERM and SIGHUP end it with one line and exit code 130. A signal that is ignored, as
    under nohup, stays ignored.
    """
    usual = signal.SIG_DFL, signal.default_int_handler
    handled = [one for one in _SIGNALS if arguments is None and signal.getsignal(one) in usual]
    for number in handled:
        signal.signal(number, _interrupt)
    try:
        from pbdist.cli.entry import run_command

        code = run_command(arguments)
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
        return code
    except BaseException as error:
        # Some libraries make another error of an interrupt, as in the middle of an import.
        if not _came:
            raise
        _end(str(error) if isinstance(error, KeyboardInterrupt) else "")


def _interrupt(*_: object) -> None:
    """Raise `KeyboardInterrupt` on the first signal, so that stores and workers are released; end on a later one."""
    if not _came:
        _came.append(time.monotonic())
        raise KeyboardInterrupt
    if time.monotonic() - _came[0] > _PATIENCE:
        _end("")


def _end(what: str) -> NoReturn:
    # The progress bar hides the cursor.
    line = f"{_SHOW_CURSOR if os.isatty(2) else ''}pbdist: interrupted{what}\n"
    with suppress(OSError):
        os.write(2, line.encode())
    # Nothing waits for threads that are cut short.
    os._exit(130)
