"""Who writes to a store in a folder: a lock that the system releases when its process ends."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from pbdist.errors import InvalidInputError
from pbdist.store.place import LocalPlace, Place

#: How long a process that only looks may have the lock, in seconds.
_LOOK_SECONDS = 0.5


@contextmanager
def hold(place: Place, patience: float = _LOOK_SECONDS) -> Iterator[None]:
    """Be the only process that writes to a store in a folder; in an object store several may write the same bytes.

    Raises
    ------
    InvalidInputError
        Another process writes to it, and does not end within `patience` seconds; or its folder cannot be written to.
    """
    if not isinstance(place, LocalPlace):
        yield
        return
    path = _path(place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        lock.acquire(timeout=patience)
    except Timeout as error:
        found = _described(path)
        raise InvalidInputError(
            f"{place.url}: another process writes to the store ({found}): wait for its end, or stop it"
        ) from error
    except OSError as error:
        raise InvalidInputError(f"store: expected a path to create a store at, got {place.url}: {error}") from error
    try:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        # In place: the lock is on this file.
        with suppress(OSError):
            path.write_text(f"process {os.getpid()} on {socket.gethostname()} since {since}", encoding="utf-8")
        yield
    finally:
        # Of killed processes.
        place.forget_temporary()
        # Still held: whoever waits for it makes a new one.
        path.unlink(missing_ok=True)
        lock.release()


def holder(place: Place) -> str | None:
    """Return in words which process writes to a store, None where there is none or it is not known."""
    if not isinstance(place, LocalPlace) or not _path(place).is_file():
        return None
    lock = FileLock(_path(place))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return _described(_path(place))
    except OSError:
        return None
    lock.release()
    return None


def _described(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip() or "unknown"
    except OSError:
        return "unknown"


def _path(place: LocalPlace) -> Path:
    store = Path(os.path.realpath(place.url))
    return store.with_name(f".{store.name}.lock")
