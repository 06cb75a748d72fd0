"""Keep the workers of a run that has lost its store from writing there: each looks who holds it before it writes.

A run may lose its store while its workers go on: it was stopped for so long that it seemed dead, or it was killed. What
such a worker writes is older than what the next run has made of the store. So tasks carry who held the store when they
were made (a fencing token), and the lock is read directly before each write.
"""

import time
from dataclasses import dataclass

from pbdist.errors import StoreTakenError
from pbdist.store.documents import read_or_none
from pbdist.store.holders import LOCK_BYTES, Holder, decoded
from pbdist.store.place import Place

#: How often, and at which interval in seconds, a lock that is missing is read again: a refresh of a lease in a folder
#: moves it away for a moment.
_LOOKS, _PAUSE = 5, 0.2


@dataclass(frozen=True)
class Fence:
    """Who holds a store, for the workers of its run. Small and picklable.

    Attributes
    ----------
    place, name
        The place and the name of the lock.
    holder
        Its holder, at no certain time.
    """

    place: Place
    name: str
    holder: Holder

    def look(self) -> None:
        """Note whether this process sees the lock, at its first call; errors as of `check`."""
        if self not in _seen:
            self.check()

    def check(self) -> None:
        """Refuse to go on where another run has taken the store over.

        A lock that this process has never seen, because only the store itself is shared with it, refuses nothing.

        Raises
        ------
        StoreTakenError
            The lock names another holder, or is gone: the next run has ended too, or the folder is no longer there.
        OSError
            The lock cannot be read now.
        """
        for look in range(_LOOKS):
            if look:
                time.sleep(_PAUSE)
            found = self._found()
            if found == self.holder:
                _seen.add(self)
                return
            if found is not None or self not in _seen:
                break
        if found is not None or self in _seen:
            by = f"at work: {found.describe()}" if found else "that has ended meanwhile, or nothing there any more"
            raise StoreTakenError(f"{self._store}: expected to be the one run that writes to it, got another one {by}")

    def _found(self) -> Holder | None:
        try:
            found = decoded(read_or_none(self.place, self.name, LOCK_BYTES))
        except PermissionError:
            # Its folder is closed to this process.
            return None
        return None if found is None else found.unaged()

    @property
    def _store(self) -> str:
        return f"{self.place.url}/{self.name.removeprefix('.').removesuffix('.lock')}"


#: The fences whose locks this process has seen.
_seen: set[Fence] = set()
