"""The signals that end a command, at whatever moment they come: one line, and exit code 130.

Of a command that only reads, nothing is left to be done: the process ends where it is. One that holds something (a
store, workers) ends `in_good_order`: `KeyboardInterrupt` is raised in it, and what comes later is waited for.
"""

import atexit
import os
import signal
import sys
import time
from _thread import get_ident, start_new_thread

TYPE_CHECKING = False  # As in `typing`, whose import would take longer than all that is done here.
if TYPE_CHECKING:
    from types import FrameType

__all__ = ["INTERRUPTED", "LINE", "end_if_watched", "in_good_order", "watch"]

INTERRUPTED = 130
LINE = "pbdist: interrupted: the same command goes on where this one stopped\n"
_SHOW_CURSOR = "\x1b[?25h"
_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: How often it is looked whether the exception still is under way: Python drops it in a finalizer, for one.
_AGAIN_SECONDS = 0.1
#: What a further signal within this time means is what the first one has said: some senders send two.
_PATIENCE_SECONDS = 2.0
#: How long jobs and pods may take to be cancelled.
_DEADLINE_SECONDS = 60.0


class _Watch:
    """What has come so far, in a process whose signals are watched."""

    def __init__(self) -> None:
        self._main = get_ident()
        self._number = 0
        self._came: float | None = None
        #: Whether the next signal is one of this process to itself.
        self._own = False
        self._line = [LINE]
        #: How many blocks must be left in good order.
        self.held = 0

    @property
    def came(self) -> bool:
        """Whether a signal came in a block that is left in good order."""
        return self._came is not None

    def handle(self, number: int, frame: "FrameType | None") -> None:
        """End the process, or the block that must be left in good order."""
        if not self.held:
            self.end()
            return
        if self._own:
            self._own = False
        elif self._came is None:
            self._came, self._number = time.monotonic(), number
            _be_quiet()
            start_new_thread(self._insist, ())
        elif time.monotonic() - self._came > _PATIENCE_SECONDS:
            self._abandon()
        if self._line and not _is_under_way() and not _would_be_lost(frame):
            raise KeyboardInterrupt

    def end(self) -> None:
        """Tell it and end the process, unless that is what already happens."""
        try:
            line = self._line.pop()
        except IndexError:
            return
        _tell(line)
        os._exit(INTERRUPTED)

    def _insist(self) -> None:
        """Raise the exception again where it was dropped, and end the process if it takes too long."""
        while time.monotonic() - (self._came or 0.0) < _DEADLINE_SECONDS:
            time.sleep(_AGAIN_SECONDS)
            self._own = True
            signal.pthread_kill(self._main, self._number)
        self._abandon()

    def _abandon(self) -> None:
        """End the process with what is left of it. Workers end by themselves when it is gone."""
        processes = sys.modules.get("multiprocessing")
        for child in processes.active_children() if processes else ():
            child.kill()
        self.end()


_watch: _Watch | None = None


def watch() -> None:
    """Watch the signals from now on; one that is ignored, as under nohup, stays ignored."""
    global _watch  # noqa: PLW0603 -- a process has its signals once
    _watch = _Watch()
    for number in _NUMBERS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _watch.handle)
            # The last function that is called before the modules are taken apart, which nothing can be told from.
            atexit.register(signal.signal, number, signal.SIG_DFL)


def end_if_watched() -> None:
    """End a process that watches its signals, as one of them has asked for."""
    if _watch is not None:
        _watch.end()


class in_good_order:  # noqa: N801 -- used like a function
    """A block that is left by `KeyboardInterrupt` on a signal, so that what it holds is given back.

    The process ends with the block, whatever else the block has ended with. Without `watch` it changes nothing.
    """

    def __enter__(self) -> None:
        """Begin the block."""
        if _watch is not None:
            _watch.held += 1

    def __exit__(self, *_: object) -> None:
        """End the process if a signal came."""
        if _watch is not None:
            _watch.held -= 1
            if _watch.came:
                _watch.end()


def _tell(line: str) -> None:
    # Without stderr its number may be that of any file.
    if sys.__stderr__ is not None:
        try:  # noqa: SIM105 -- contextlib takes longer to import than all that is done here
            # What shows progress on a terminal hides the cursor.
            os.write(2, f"{_SHOW_CURSOR if os.isatty(2) else ''}{line}".encode())
        except OSError:
            pass


def _be_quiet() -> None:
    """Say nothing of what is cut short from now on: threads, callbacks and finalizers complain with tracebacks."""
    import logging
    import threading
    import warnings

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    sys.unraisablehook = threading.excepthook = _ignore


def _ignore(_: object) -> None:
    pass


def _is_under_way() -> bool:
    """Whether what runs in the main thread is run because of an interrupt."""
    error = sys.exception()
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def _would_be_lost(frame: "FrameType | None") -> bool:
    """Whether an exception would be dropped here, become another one, or leave behind what was just entered.

    Extensions of numpy and others make an `ImportError` of it, and Python drops it in a finalizer.
    """
    if frame is not None and frame.f_globals.get("__name__") == "contextlib":
        return True
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
