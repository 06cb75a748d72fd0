"""Start workers so that signals of the terminal reach only the driver, which then ends them in good order.

Every worker of a local cluster loads this module before it works: see `dask_setup`.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing import resource_tracker
from typing import Any, Final, Generic, TypeVar

Thing = TypeVar("Thing")

#: A terminal or a batch system sends them to all processes at once.
SHELTERED: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
#: How long to wait for a start that was given up: pods take half a minute to be removed.
_GIVE_UP_SECONDS = 40.0
#: Seconds that a worker lives on after SIGTERM or SIGHUP.
_ALONE_SECONDS = 1
#: Python's tracker of resources removes what a killed process leaves behind, and would warn of it.
_WARNINGS, _UNTOLD = "PYTHONWARNINGS", "ignore:resource_tracker:UserWarning"


def start_sheltered(start: Callable[[threading.Event], Thing], stop: Callable[[Thing], object]) -> Thing:
    """Return what `start` returns, called in a thread in which signals are blocked, as in all processes that it starts.

    This thread handles signals as before. An interrupt ends the wait at once: the event that `start` was called with is
    set, and `start` should return or raise soon; `stop` is called with what was started all the same.
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
    """A start in a thread of its own, which may be given up."""

    def __init__(self, start: Callable[[threading.Event], Thing], stop: Callable[[Thing], object]) -> None:
        self._start, self._stop = start, stop
        self._given_up = threading.Event()
        self._started: list[Thing] = []
        self._errors: list[BaseException] = []
        #: Set at the end. The thread is not joined: an interrupted `Thread.join` marks a thread that runs as ended.
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
        """Undo the start, now or as soon as there is something to undo."""
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
    """Block the signals in this thread for good: Python's tracker of resources unblocks them when it starts."""
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


def dask_setup(worker: Any) -> None:  # noqa: ARG001 -- as Dask calls it
    """Have the worker ended by the driver, which gets the same signals. Dask calls this when the worker starts.

    The worker ignores Ctrl-C, and ends a second after SIGTERM or SIGHUP: if it ended before the driver acts, its nanny
    would report a lost worker and start another one. It does not log that its scheduler is gone; the driver reports
    what goes wrong in a task.
    """
    logging.getLogger("distributed.worker").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        # The alarm ends the process.
        signal.signal(number, lambda *_: signal.alarm(_ALONE_SECONDS) and None)
    # `start_sheltered` has blocked them in this process.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SHELTERED)
