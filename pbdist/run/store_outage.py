"""Wait for a store that cannot be reached, and give up in the end; the listener is called once for each outage."""

import threading
import time
from datetime import UTC, datetime

from pbdist.run.events import Listener, StoreReached, StoreUnreachable
from pbdist.run.executor import one_line
from pbdist.store import Place, Trouble, probe, trouble_of, with_patience
from pbdist.study.plan import duration

__all__ = ["OUTAGE_SECONDS", "REQUEST_SECONDS", "Outage"]

#: How long a run waits for a store that cannot be reached, in seconds, by default.
OUTAGE_SECONDS = 900.0
#: How long of that a single request is retried in the middle of a task, before the task ends.
REQUEST_SECONDS = 120.0
#: The pause after the first probe, and the longest: each is twice the one before.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0


class Outage:
    """Whether the store of a run can be reached, as far as this process knows.

    The listener is called at the beginning and the end of an outage, by several threads, one at a time.
    """

    def __init__(self, place: Place, listener: Listener, patience: float) -> None:
        # Probed again and again: a single probe need not wait.
        self._place = with_patience(place, 0.0)
        self._listener, self._patience = listener, patience
        self._lock = threading.Lock()
        self._began: float | None = None
        self._waiting = False
        #: The time from which on no batch could be written, by passing failures.
        self._fruitless: float | None = None

    def notice(self, error: OSError | None) -> None:
        """Note why the lock of the store could not be refreshed; None when it was."""
        with self._lock:
            if error is None and not self._waiting:
                self._end()
            elif error is not None and trouble_of(error) is Trouble.PASSING:
                self._begin(one_line(error))

    def written(self) -> None:
        """Note that a batch was written."""
        self._fruitless = None

    def wait(self, cause: str) -> str | None:
        """Wait until the store can be written again, after a batch failed for `cause`; return why not, or None."""
        now = time.monotonic()
        self._fruitless = self._fruitless or now
        with self._lock:
            self._waiting = True
            self._begin(cause)
        try:
            refusal = self._probe(now + self._patience)
        finally:
            with self._lock:
                self._waiting = False
        if refusal is not None:
            return refusal
        with self._lock:
            self._end()
        # If it goes on, this process reaches the store, and the workers do not.
        spent = time.monotonic() - self._fruitless
        return None if spent < self._patience else f"the store could not be reached for {duration(spent)}: {cause}"

    def _probe(self, deadline: float) -> str | None:
        pause, began = _FIRST_PAUSE, time.monotonic()
        while True:
            try:
                probe(self._place)
            except OSError as error:
                cause = one_line(error)
                if trouble_of(error) is Trouble.LASTING:
                    return f"the store cannot be written: {cause}"
            else:
                return None
            left = deadline - time.monotonic()
            if left <= 0.0:
                return f"the store could not be reached for {duration(time.monotonic() - began)}: {cause}"
            time.sleep(min(pause, left))
            pause = min(2.0 * pause, _LONGEST_PAUSE)

    def _begin(self, cause: str) -> None:
        if self._began is None:
            self._began = time.monotonic()
            since = datetime.now(UTC).isoformat(timespec="seconds")
            self._listener(StoreUnreachable(since, cause, self._patience))

    def _end(self) -> None:
        if self._began is not None:
            began, self._began = self._began, None
            self._listener(StoreReached(time.monotonic() - began))
