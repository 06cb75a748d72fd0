"""End a command on a signal, at any moment, with one line and exit code 130.

A command that only reads ends at once. In a command that holds a store or workers, the block `in_good_order` raises
`KeyboardInterrupt`, so that they are released.
"""

import atexit
import os
import signal
import sys
import time
from _thread import get_ident, start_new_thread

TYPE_CHECKING = False  # As in `typing`, which takes longer to import than this module to run.
if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED = 130
LINE = "pbdist: interrupted: the same command goes on where this one stopped\n"
#: For a command that saves nothing before its end.
ANEW = "pbdist: interrupted: the same command begins anew\n"
_SHOW_CURSOR = "\x1b[?25h\x1b[K"
_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: How often the exception is raised again if it was dropped, as Python does in a finalizer.
_AGAIN_SECONDS = 0.1
#: Another signal within this time counts as the first one: some senders send two.
_PATIENCE_SECONDS = 2.0
#: How long a command may take to release its store and workers, as to cancel jobs and pods.
_DEADLINE_SECONDS = 60.0


class _Watch:
    """The signals that have come."""

    def __init__(self) -> None:
        #: What is printed at the end, once.
        self.lines = [LINE]
        #: How many blocks `in_good_order` have been entered, and when the first signal came in one.
        self.blocks = 0
        self.came: float | None = None
        #: Whether this process sends the next signal to itself.
        self._own = False
        self._number = 0
        #: The main thread of a process that watches its signals.
        self.main = 0

    def start(self) -> None:
        """Watch the signals from now on; one that is ignored, as under nohup, stays ignored."""
        self.main = get_ident()
        for number in _NUMBERS:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, self._handle)
                # Called last before the modules are destroyed, when the handler could print nothing.
                atexit.register(signal.signal, number, signal.SIG_DFL)

    def _handle(self, number: int, frame: "FrameType | None") -> None:
        """End the process, or raise `KeyboardInterrupt` in a block `in_good_order`."""
        if not self.blocks:
            self.end()
            return
        if self._own:
            self._own = False
        elif self.came is None:
            self.came, self._number = time.monotonic(), number
            _be_quiet()
            start_new_thread(self._insist, ())
        elif time.monotonic() - self.came > _PATIENCE_SECONDS:
            self._abandon()
        if self.lines and not _is_under_way() and not _would_be_lost(frame):
            raise KeyboardInterrupt

    def end(self) -> None:
        """Print the line and end the process, unless that is already happening."""
        try:
            line = self.lines.pop()
        except IndexError:
            return
        # Without stderr its file number may belong to another file.
        if sys.__stderr__ is not None:
            try:  # noqa: SIM105 -- contextlib takes longer to import than this module to run
                # The progress bar hides the cursor, and a line may stand there.
                os.write(2, f"{_SHOW_CURSOR if os.isatty(2) else ''}{line}".encode())
            except OSError:
                pass
        os._exit(INTERRUPTED)

    def _insist(self) -> None:
        """Raise the exception again if it was dropped, and end the process if it takes too long."""
        while time.monotonic() - (self.came or 0.0) < _DEADLINE_SECONDS:
            time.sleep(_AGAIN_SECONDS)
            self._own = True
            signal.pthread_kill(self.main, self._number)
        self._abandon()

    def _abandon(self) -> None:
        """Kill child processes and end this one. Workers end by themselves when it is gone."""
        processes = sys.modules.get("multiprocessing")
        for child in processes.active_children() if processes else ():
            child.kill()
        self.end()


_watch = _Watch()


watch = _watch.start


def end_if_watched() -> None:
    """End the process, if it watches its signals."""
    if _watch.main:
        _watch.end()


def begins_anew() -> None:
    """Print, if the process is ended from now on, that the command begins anew."""
    if _watch.lines:
        _watch.lines[0] = ANEW


class in_good_order:  # noqa: N801 -- used like a function
    """A block in which a signal raises `KeyboardInterrupt`, so that the command gives back its store and workers.

    After a signal the process ends with the block, however the block ends. Without `watch` the block does nothing.
    """

    def __enter__(self) -> None:
        """Begin the block."""
        _watch.blocks += 1

    def __exit__(self, *_: object) -> None:
        """End the process if a signal came."""
        _watch.blocks -= 1
        if _watch.came is not None:
            _watch.end()


def _be_quiet() -> None:
    """Silence the tracebacks of threads, callbacks and finalizers that are cut short."""
    import logging
    import threading
    import warnings

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _: None
    threading.excepthook = lambda _: None


def _is_under_way() -> bool:
    """Whether the main thread is handling a `KeyboardInterrupt`."""
    error = sys.exception()
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def _would_be_lost(frame: "FrameType | None") -> bool:
    """Whether an exception would be dropped here, replaced, or leave behind a context that was just entered.

    Python drops it in finalizers; some extension modules replace it by an `ImportError`.
    """
    if frame is not None and frame.f_globals.get("__name__") == "contextlib":
        return True
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
