"""Starting what has processes of its own, so that a signal of the terminal reaches this process and not those."""

import os
import signal
import threading
from collections.abc import Callable
from multiprocessing import resource_tracker
from typing import Final, Generic, TypeVar

__all__ = ["SHELTERED", "start_sheltered"]

Thing = TypeVar("Thing")

#: What a terminal or a batch system sends to all processes at once: the driver ends the others in good order.
SHELTERED: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
#: How long a start that is given up is waited for: pods take half a minute to be removed.
_GIVE_UP_SECONDS = 40.0
#: The tracker removes what a process leaves behind that ends in the middle of its work, and would warn of it.
_WARNINGS, _UNTOLD = "PYTHONWARNINGS", "ignore:resource_tracker:UserWarning"


def start_sheltered(start: Callable[[threading.Event], Thing], stop: Callable[[Thing], object]) -> Thing:
    """Return what `start` returns: called in a thread in which signals are blocked, and with it in all that it starts.

    The signals of this thread stay as they are, so that an interrupt ends the waiting at once.

    Parameters
    ----------
    start
        Called with the event that it is given up, as it is on an interrupt; it should then return, or raise, soon.
    stop
        Called with what was started although it was given up.

    Raises
    ------
    BaseException
        What `start` raises, or what the waiting is interrupted by.
    """
    starting = _Start(start, stop)
    try:
        threading.Thread(target=starting.run, name="pbdist-start", daemon=True).start()
        starting.over.wait()
        return starting.result()
    except BaseException:
        starting.give_up()
        raise


class _Start(Generic[Thing]):
    def __init__(self, start: Callable[[threading.Event], Thing], stop: Callable[[Thing], object]) -> None:
        self._start, self._stop = start, stop
        self._given_up = threading.Event()
        self._started: list[Thing] = []
        self._errors: list[BaseException] = []
        #: Not the end of the thread: an interrupt of `Thread.join` makes it seem to have come.
        self.over = threading.Event()

    def run(self) -> None:
        """Start it, in a thread of its own."""
        try:
            _block_signals()
            self._started.append(self._start(self._given_up))
            if self._given_up.is_set():
                self._undo()
        except BaseException as error:  # noqa: BLE001 -- raised in the thread that waits
            self._errors.append(error)
        finally:
            self.over.set()

    def result(self) -> Thing:
        """Return what was started, or raise what was raised."""
        if self._errors:
            raise self._errors[0]
        return self._started[0]

    def give_up(self) -> None:
        """Undo it, now or when there is something to be undone."""
        self._given_up.set()
        self.over.wait(_GIVE_UP_SECONDS)
        if self.over.is_set():
            self._undo()

    def _undo(self) -> None:
        try:
            started = self._started.pop()
        except IndexError:
            return
        self._stop(started)


def _block_signals() -> None:
    """Block the signals in this thread, for good: Python's tracker of resources would unblock them at its start."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SHELTERED)
    before = os.environ.get(_WARNINGS)
    os.environ[_WARNINGS] = f"{before},{_UNTOLD}" if before else _UNTOLD
    try:
        resource_tracker.ensure_running()
    finally:
        if before is None:
            del os.environ[_WARNINGS]
        else:
            os.environ[_WARNINGS] = before
    signal.pthread_sigmask(signal.SIG_BLOCK, SHELTERED)
