"""Allow one driver of a store at a time: by a lock beside a local store, by a lease beside one in an object store."""

import errno
import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pbdist.errors import InvalidInputError, StoreTakenError
from pbdist.store.documents import read_or_none
from pbdist.store.files import kind_of, refusal
from pbdist.store.objects import PATIENCE_SECONDS, ObjectPlace, patiently
from pbdist.store.place import LocalPlace, Place, place_at, with_patience

#: A holder counts as alive for so long after it has refreshed its lock.
STALE_SECONDS = 90.0
#: Bytes of a lock.
LOCK_BYTES = 640


@dataclass(frozen=True)
class Holder:
    """The process that writes to a store."""

    #: Where it runs, and its number there.
    host: str
    process: int
    #: The time of its start, in UTC.
    since: str
    #: Identify the system that numbers its processes, and the process among later ones of the same number; empty where
    #: not known.
    machine: str
    started: str
    #: The time of its last refresh, in seconds since 1970 by its own clock.
    alive: float

    def describe(self) -> str:
        """Return where it runs and since when."""
        return f"process {self.process} on {self.host} since {self.since}"

    @property
    def gone(self) -> bool:
        """Whether it is certain that the process has ended."""
        return bool(self.machine) and self.machine == _machine() and _started(self.process) != self.started

    @property
    def stale(self) -> bool:
        """Whether its last refresh is older than `STALE_SECONDS`, if the clocks agree."""
        return abs(time.time() - self.alive) > STALE_SECONDS

    def unaged(self) -> "Holder":
        """Return it without the time of its last refresh: who it is."""
        return replace(self, alive=0.0)

    def encoded(self) -> bytes:
        """Return it as JSON of a fixed length."""
        return json.dumps(asdict(self), sort_keys=True).encode().ljust(LOCK_BYTES)


def decoded(content: bytes | None) -> Holder | None:
    """Return the holder that the content of a lock names; None where it is damaged or there is none."""
    try:
        found = Holder(**json.loads(content or b""))
    except (ValueError, TypeError, RecursionError):
        return None
    values = asdict(found).values()
    kinds = (str, int, str, str, str, float)
    return found if all(type(value) is kind for value, kind in zip(values, kinds, strict=True)) else None


def myself() -> Holder:
    """Return this process."""
    now = time.time()
    since = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    process = os.getpid()
    return Holder(socket.gethostname(), process, since, _machine(), _started(process), now)


def _machine() -> str:
    """Return the identity of the system that numbers this process: the boot, and the namespace of process numbers."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(process: int) -> str:
    """Return the start of a process, in ticks since that of the system; empty where there is no such process."""
    try:
        # The name, in brackets, may hold blanks.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


#: How often, and at which interval in seconds, a lock that is missing is read again: a refresh of a lease in a folder
#: moves it away for a moment. As often the lease of a holder that seems dead is read.
_LOOKS, _PAUSE = 5, 0.2


@dataclass(frozen=True)
class Fence:
    """Who holds a store, for the workers of its run. Small and picklable."""

    #: The place and the name of the lock.
    place: Place
    name: str
    #: Its holder, at no certain time.
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


#: The holder refreshes its lock at this interval.
REFRESH_SECONDS = 15.0
#: The interval after a refresh that failed: shorter than a waiting process watches a lease before it takes it.
_AGAIN_SECONDS = 3.0
#: A link that appears there at the last moment is not followed, and a named pipe is not waited for.
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: How often to try to take a lease that changes hands meanwhile.
_ATTEMPTS = 5
#: The answers of a file system without such locks.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class Held:
    """The hold of this process, the `holder`, on a store; `lock` is the place and the name of the lock."""

    def __init__(self, holder: Holder, lock: tuple[Place, str], patience: float = 0.0) -> None:
        self.holder, self._lock = holder, lock
        self._patience = patience
        self._watcher: Callable[[OSError | None], object] = lambda _: None
        self._lost = threading.Event()
        # One at a time: during an exchange in a folder the lease is missing for a moment.
        self._showing = threading.Lock()
        self._show: Callable[[], object] = lambda: None

    @property
    def lost(self) -> bool:
        """Whether another process has taken over, because this one could not refresh its lock for long."""
        return self._lost.is_set()

    @property
    def fence(self) -> Fence:
        """What the workers of this process look at before they write."""
        place, name = self._lock
        return Fence(with_patience(place, PATIENCE_SECONDS), name, self.holder.unaged())

    def show(self) -> None:
        """Refresh the lock: show that this process is alive."""
        with self._showing:
            self._show()

    def confirmed(self) -> bool:
        """Refresh, and return whether this process still holds the store: it may have been stopped for long."""
        patiently(self._patience, self.show)
        return not self.lost

    def watched_by(self, watcher: Callable[[OSError | None], object]) -> None:
        """Call `watcher` in another thread after each refresh, with the error that kept it from succeeding, or None."""
        self._watcher = watcher

    def showing(self) -> bool:
        """Refresh, and call the watcher; return whether the refresh succeeded."""
        try:
            self.show()
        except OSError as error:
            self._watcher(error)
            return False
        self._watcher(None)
        return True

    def shown_by(self, show: Callable[[], object]) -> None:
        """Set how the lock is refreshed."""
        self._show = show

    def lose(self) -> None:
        """Record that another process has taken over."""
        self._lost.set()


@contextmanager
def hold(
    where: str | Path | Place, *, refresh: float = REFRESH_SECONDS, patience: float = PATIENCE_SECONDS
) -> Iterator[Held]:
    """Be the one driver of a store, which need not exist yet, inside a ``with`` block.

    In a folder the lock is `flock` on a hidden file beside the store, which the system releases when the process ends.
    In an object store, and where the file system has no such locks, it is a lease beside the store, refreshed while the
    process runs. Another process takes it over at once where its holder has certainly ended; else where it was not
    refreshed for `STALE_SECONDS`, nor while that process watched it.

    Parameters
    ----------
    where
        The store.
    refresh
        The interval of refreshes, in seconds.
    patience
        For how many seconds requests to take the lease are tried again. Refreshes are tried again without end.

    Raises
    ------
    InvalidInputError
        Another process holds the store; the text names it.
    OSError
        The lock cannot be written.
    """
    store = place_at(where)
    if isinstance(store, LocalPlace) and os.path.islink(store.url) and not os.path.exists(store.url):
        raise refusal(store.url, "store", "link", os.readlink(store.url))
    place, name = _lock_of(store)
    held = Held(myself(), (place, name), patience)
    if isinstance(place, LocalPlace):
        path = Path(place.url, name)
        try:
            descriptor = _flock(path, store.url)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        else:
            try:
                os.pwrite(descriptor, held.holder.encoded(), 0)
                # For workers on other machines, which look at it over a network.
                os.fsync(descriptor)
                held.shown_by(lambda: os.pwrite(descriptor, _now(held), 0))
                with _refreshing(held, refresh):
                    yield held
            finally:
                # An error here, where the store is gone, must not hide the one that ended the block.
                with suppress(OSError):
                    path.unlink(missing_ok=True)
                os.close(descriptor)
            return
    # After an outage all begins again: what was seen of the lease before it is out of date.
    patiently(patience, lambda: _take_lease(place, name, held, store.url, refresh))
    try:
        held.shown_by(lambda: _refresh_lease(place, name, held))
        with _refreshing(held, refresh):
            yield held
    finally:
        with suppress(OSError):
            # This process may have been stopped for so long that another one has taken over.
            held.show()
            if not held.lost:
                place.remove(name)


def holder(where: str | Path | Place) -> Holder | None:
    """Return the process that writes to a store, None where there is none; the lock is only read."""
    place, name = _lock_of(place_at(where))
    found = decoded(patiently(PATIENCE_SECONDS, lambda: read_or_none(place, name, LOCK_BYTES)))
    return None if found is None or found.gone or found.stale else found


def check_lock(where: str | Path | Place) -> None:
    """Refuse a store whose lock is not a regular file with one name, by an `IrregularError`."""
    place, name = _lock_of(place_at(where))
    if isinstance(place, LocalPlace):
        _check_regular(Path(place.url, name))


def _lock_of(place: Place) -> tuple[Place, str]:
    """Return the place and the name of the lock of a store: a hidden file or object beside it.

    Requests to an object store are not tried again there, because a late refresh is of no use.
    """
    url = os.path.realpath(place.url) if isinstance(place, LocalPlace) else place.url
    folder, _, name = url.rpartition("/")
    lock = LocalPlace(folder or "/") if isinstance(place, LocalPlace) else ObjectPlace(folder, patience=0.0)
    return lock, f".{name}.lock"


def _flock(path: Path, store: str) -> int:
    """Return the descriptor of the lock file, locked; an `InvalidInputError` where another process has locked it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        _check_regular(path)
        descriptor = os.open(path, _LOCK_FLAGS, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The holder before may have removed the file that was opened here.
            if os.path.lexists(path) and os.path.samestat(os.lstat(path), os.fstat(descriptor)):
                return descriptor
        except BlockingIOError as error:
            found = decoded(os.pread(descriptor, LOCK_BYTES, 0))
            os.close(descriptor)
            raise _refusal(store, found) from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _check_regular(path: Path) -> None:
    """Refuse a link, a file with another name, or other irregular file as the lock, before it is opened."""
    # Without a folder around it there is no lock.
    with suppress(FileNotFoundError, NotADirectoryError):
        found = os.lstat(path)
        kind = kind_of(found.st_mode)
        if kind != "file":
            raise refusal(str(path), "file", kind, os.readlink(path) if kind == "link" else None)
        if found.st_nlink > 1:
            raise refusal(str(path), "file", "file that has another name too")


def _take_lease(place: Place, name: str, held: Held, store: str, refresh: float) -> None:
    for _ in range(_ATTEMPTS):
        if place.create(name, held.holder.encoded()):
            return
        content = read_or_none(place, name, LOCK_BYTES)
        if content is None:
            continue
        if content == held.holder.encoded():
            # Written by an earlier request, whose answer was lost.
            return
        found = decoded(content)
        if found is not None and not found.gone and not found.stale:
            raise _refusal(store, found)
        watched = found is not None and not found.gone
        if watched:
            # It is stale by its clock or by this one: a holder that is alive refreshes it now. After an outage here
            # meanwhile, all begins again.
            for _ in range(_LOOKS):
                time.sleep(1.5 * refresh / _LOOKS)
                if read_or_none(place, name, LOCK_BYTES) != content:
                    break
        if place.exchange(name, content, held.holder.encoded()):
            return
        if watched:
            break
    raise _refusal(store, decoded(read_or_none(place, name, LOCK_BYTES)))


def _refresh_lease(place: Place, name: str, held: Held) -> None:
    while not held.lost:
        now = replace(held.holder, alive=time.time())
        if place.exchange(name, held.holder.encoded(), now.encoded()):
            held.holder = now
            return
        found = decoded(read_or_none(place, name))
        if found is None or found.unaged() != held.holder.unaged():
            held.lose()
        elif found == held.holder:
            # A watching process has moved it away for a moment: the next refresh will do.
            return
        else:
            # The answer to an earlier request was lost: its refresh is the last one.
            held.holder = found


def _now(held: Held) -> bytes:
    held.holder = replace(held.holder, alive=time.time())
    return held.holder.encoded()


@contextmanager
def _refreshing(held: Held, seconds: float) -> Iterator[None]:
    """Refresh the lock again and again, in a thread."""
    over = threading.Event()

    def loop() -> None:
        pause = seconds
        while not over.wait(pause):
            pause = seconds if held.showing() else min(seconds, _AGAIN_SECONDS)

    thread = threading.Thread(target=loop, name="pbdist-hold", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _refusal(store: str, found: Holder | None) -> InvalidInputError:
    by = "another process" if found is None else found.describe()
    return InvalidInputError(f"{store}: expected a store at rest, got one that a run writes to: {by}")
