"""Wait for a store that cannot be written now, and give up in the end; the listener is called once for each outage."""

import threading
import time
from datetime import UTC, datetime

from pbdist.run.events import Listener, StoreReached, StoreUnreachable, one_line
from pbdist.store import Place, Trouble, probe, trouble_of, with_patience
from pbdist.study.plan import duration

#: How long a run waits for a store that cannot be reached or has no room, in seconds, by default.
OUTAGE_SECONDS = 900.0
#: How long of that a single request is retried in the middle of a task, before the task ends.
REQUEST_SECONDS = 120.0
#: The pause after the first probe, and the longest: each is twice the one before.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
#: What a probe writes to a store that had no room, at least: several workers write at the same time.
_ROOM_BYTES = 2**20


class Outage:
    """Whether the store of a run can be written, as far as this process knows.

    The listener is called at the beginning and the end of an outage, by several threads, one at a time.
    """

    def __init__(self, place: Place, listener: Listener, patience: float) -> None:
        # Probed again and again: a single probe need not wait.
        self._place = with_patience(place, 0.0)
        self._listener, self._patience = listener, patience
        self._lock = threading.Lock()
        self._began: float | None = None
        self._full = self._waiting = False
        #: The time from which on no batch could be written, by failures that may pass.
        self._fruitless: float | None = None
        #: The pause before a batch is tried again, though the last probe had found nothing wrong.
        self._pause = 0.0

    def notice(self, error: OSError | None) -> None:
        """Note why the lock of the store could not be refreshed; None when it was."""
        with self._lock:
            if error is None and not self._waiting:
                self._end()
            elif error is not None and trouble_of(error) in {Trouble.PASSING, Trouble.FULL}:
                self._begin(one_line(error), full=trouble_of(error) is Trouble.FULL)

    def written(self) -> None:
        """Note that a batch was written."""
        self._fruitless, self._pause = None, 0.0

    def wait(self, cause: str, room: int | None = None) -> str | None:
        """Wait until the store can be written again, after a batch failed for `cause`; return why not, or None.

        Parameters
        ----------
        cause
            The failure, on one line.
        room
            After a failure for want of room: how many bytes there must be room for. None after another one.
        """
        now = time.monotonic()
        self._fruitless = self._fruitless or now
        with self._lock:
            self._waiting = True
        try:
            refusal = self._probe(now + self._patience, cause, room)
        finally:
            with self._lock:
                self._waiting = False
        if refusal is not None:
            return refusal
        with self._lock:
            self._end()
        # If it goes on, this process can write to the store, and the workers cannot.
        spent = time.monotonic() - self._fruitless
        return None if spent < self._patience else f"the store {_lacks(room is not None, spent)}: {cause}"

    def _probe(self, deadline: float, reason: str, room: int | None) -> str | None:
        """Write to the store until that works or the deadline has come; the outage begins if the first try fails."""
        # A task that began in an outage fails at its end, when nothing is wrong any more: that is no outage.
        time.sleep(self._pause)
        self._pause = min(max(_FIRST_PAUSE, 2.0 * self._pause), _LONGEST_PAUSE)
        pause, began = _FIRST_PAUSE, time.monotonic()
        while True:
            try:
                probe(self._place, 0 if room is None else max(room, _ROOM_BYTES))
            except OSError as error:
                cause, trouble = one_line(error), trouble_of(error)
                if trouble is Trouble.LASTING:
                    return f"the store cannot be written: {cause}"
            else:
                return None
            with self._lock:
                self._begin(reason, full=trouble is Trouble.FULL)
            left = deadline - time.monotonic()
            if left <= 0.0:
                return f"the store {_lacks(trouble is Trouble.FULL, time.monotonic() - began)}: {cause}"
            time.sleep(min(pause, left))
            pause = min(2.0 * pause, _LONGEST_PAUSE)

    def _begin(self, cause: str, *, full: bool) -> None:
        if self._began is None:
            self._began, self._full = time.monotonic(), full
            since = datetime.now(UTC).isoformat(timespec="seconds")
            self._listener(StoreUnreachable(since, cause, self._patience, full))

    def _end(self) -> None:
        if self._began is not None:
            began, self._began = self._began, None
            self._listener(StoreReached(time.monotonic() - began, self._full))


def _lacks(full: bool, seconds: float) -> str:
    return f"{'had no room' if full else 'could not be reached'} for {duration(seconds)}"
