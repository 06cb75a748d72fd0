"""One driver at a time: a lock beside a local store, a lease beside one in an object store."""

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

from pbdist.errors import InvalidInputError
from pbdist.store.heads import read_or_none
from pbdist.store.irregular import kind_of, refusal
from pbdist.store.outages import PATIENCE_SECONDS, patiently
from pbdist.store.place import LocalPlace, ObjectPlace, Place, place_at

__all__ = ["REFRESH_SECONDS", "STALE_SECONDS", "Held", "Holder", "check_lock", "hold", "holder"]

#: How often the holder shows that it is alive, and for how long without that it is taken to be.
REFRESH_SECONDS, STALE_SECONDS = 15.0, 90.0
#: How soon it tries again to show it where that did not succeed: sooner than another one that looks on gives up.
_AGAIN_SECONDS = 3.0
#: How often the lease of a holder is looked at that seems dead, while it is waited for.
_LOOKS = 5
#: Bytes of a lock.
_LENGTH = 640
#: A link that is put there at the last moment is not followed, a named pipe not waited for.
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: How often a lease is tried that changes hands meanwhile.
_ATTEMPTS = 5
#: What a file system answers that has no such locks.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


@dataclass(frozen=True)
class Holder:
    """The process that writes to a store.

    Attributes
    ----------
    host, process
        Where it runs, and its number there.
    since
        When it has begun, in UTC.
    machine, started
        What tells the system that counts its processes from others, and the process from a later one of that number;
        empty where that is not known.
    alive
        When it was last seen alive, in seconds since 1970 by its own clock.
    """

    host: str
    process: int
    since: str
    machine: str
    started: str
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
        """Whether it has not shown for long that it is alive, if the clocks agree."""
        return abs(time.time() - self.alive) > STALE_SECONDS

    def encoded(self) -> bytes:
        """Return it as JSON, of a length that stays."""
        return json.dumps(asdict(self), sort_keys=True).encode().ljust(_LENGTH)


class Held:
    """That this process holds a store.

    Attributes
    ----------
    holder
        This process.
    """

    def __init__(self, holder: Holder, patience: float = 0.0) -> None:
        self.holder = holder
        self._patience = patience
        self._watcher: Callable[[OSError | None], object] = lambda _: None
        self._lost = threading.Event()
        # One at a time: while a lease is exchanged in a folder it is not there.
        self._showing = threading.Lock()
        self._show: Callable[[], object] = lambda: None

    @property
    def lost(self) -> bool:
        """Whether another process has taken over, because this one could not show for long that it is alive."""
        return self._lost.is_set()

    def show(self) -> None:
        """Show that this process is alive."""
        with self._showing:
            self._show()

    def confirmed(self) -> bool:
        """Whether this process holds the store now: asked anew, as it may have been stopped for long.

        Raises
        ------
        OSError
            The lease cannot be read.
        """
        patiently(self._patience, self.show)
        return not self.lost

    def watched_by(self, watcher: Callable[[OSError | None], object]) -> None:
        """Have `watcher` called, in another thread, with what keeps this process from showing that it is alive.

        With None as long as nothing does.
        """
        self._watcher = watcher

    def showing(self) -> bool:
        """Show that this process is alive, and tell the watcher; return whether that was possible."""
        try:
            self.show()
        except OSError as error:
            self._watcher(error)
            return False
        self._watcher(None)
        return True

    def shown_by(self, show: Callable[[], object]) -> None:
        """Tell how this process shows that it is alive."""
        self._show = show

    def lose(self) -> None:
        """Take note of that."""
        self._lost.set()


@contextmanager
def hold(
    where: str | Path | Place, *, refresh: float = REFRESH_SECONDS, patience: float = PATIENCE_SECONDS
) -> Iterator[Held]:
    """Be the one driver of a store, which need not be there yet, for as long as the context lasts.

    In a folder the lock is `flock` on a hidden file beside the store: the system releases it when the process ends,
    however it ends. In an object store, and where the file system has no such locks, it is a lease beside the store:
    refreshed while the process runs; taken over at once where it is certain that its holder has ended, else when it
    was not refreshed for `STALE_SECONDS`, nor while this process looked on.

    Parameters
    ----------
    where
        The store.
    refresh
        How often this process shows that it is alive, in seconds.
    patience
        How long an object store is waited for that cannot be reached, in seconds. While the store is held nothing ends
        the wait: what is not there is shown as soon as it is.

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
    held = Held(_myself(), patience)
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
                held.shown_by(lambda: os.pwrite(descriptor, _now(held), 0))
                with _refreshing(held, refresh):
                    yield held
            finally:
                # A store that is gone by now hides nothing that is to be told.
                with suppress(OSError):
                    path.unlink(missing_ok=True)
                os.close(descriptor)
            return
    # Whatever was seen before the store could not be reached says nothing afterwards.
    patiently(patience, lambda: _take_lease(place, name, held, store.url, refresh))
    try:
        held.shown_by(lambda: _refresh_lease(place, name, held))
        with _refreshing(held, refresh):
            yield held
    finally:
        with suppress(OSError):
            if not held.lost:
                place.remove(name)


def holder(where: str | Path | Place) -> Holder | None:
    """Return the process that writes to a store, None where there is none; only looks, and never takes the lock.

    Raises
    ------
    OSError
        The object store cannot be reached.
    """
    place, name = _lock_of(place_at(where))
    found = _decoded(patiently(PATIENCE_SECONDS, lambda: read_or_none(place, name)))
    return None if found is None or found.gone or found.stale else found


def check_lock(where: str | Path | Place) -> None:
    """Refuse a store whose lock is a link, or what else is no regular file of its own; only looks.

    Raises
    ------
    IrregularError
        It is.
    """
    place, name = _lock_of(place_at(where))
    if isinstance(place, LocalPlace):
        _check_regular(Path(place.url, name))


def _lock_of(place: Place) -> tuple[Place, str]:
    """Return where the lock of a store is: a hidden file or object beside it.

    A request of an object store is not tried again there: what comes too late is worth nothing.
    """
    url = os.path.realpath(place.url) if isinstance(place, LocalPlace) else place.url
    folder, _, name = url.rpartition("/")
    lock = LocalPlace(folder or "/") if isinstance(place, LocalPlace) else ObjectPlace(folder, patience=0.0)
    return lock, f".{name}.lock"


def _flock(path: Path, store: str) -> int:
    """Return the descriptor of the lock file, locked.

    Raises
    ------
    InvalidInputError
        Another process has locked it.
    IrregularError
        A link is there, or what else is no regular file, or a file that has another name too: to write the lock would
        be to write there.
    OSError
        There are no locks here.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        _check_regular(path)
        descriptor = os.open(path, _LOCK_FLAGS, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it before may have removed the file that was opened here.
            if os.path.lexists(path) and os.path.samestat(os.lstat(path), os.fstat(descriptor)):
                return descriptor
        except BlockingIOError as error:
            found = _decoded(os.pread(descriptor, _LENGTH, 0))
            os.close(descriptor)
            raise _refusal(store, found) from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _check_regular(path: Path) -> None:
    """Refuse what is no lock: looked at before it is opened, which a named pipe or a device would notice."""
    # Where the folder around it is none, there is no lock; that it cannot be made is told by who makes it.
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
        content = read_or_none(place, name)
        if content is None:
            continue
        if content == held.holder.encoded():
            # Of an earlier request, whose answer was lost.
            return
        found = _decoded(content)
        if found is not None and not found.gone and not found.stale:
            raise _refusal(store, found)
        watched = found is not None and not found.gone
        if watched:
            # By its clock or by this one it is stale: a holder that is alive shows it now. Where the store cannot be
            # reached from here meanwhile, all of this begins anew.
            for _ in range(_LOOKS):
                time.sleep(1.5 * refresh / _LOOKS)
                if read_or_none(place, name) != content:
                    break
        if place.exchange(name, content, held.holder.encoded()):
            return
        if watched:
            break
    raise _refusal(store, _decoded(read_or_none(place, name)))


def _refresh_lease(place: Place, name: str, held: Held) -> None:
    while not held.lost:
        now = replace(held.holder, alive=time.time())
        if place.exchange(name, held.holder.encoded(), now.encoded()):
            held.holder = now
            return
        found = _decoded(read_or_none(place, name))
        if found is None or replace(found, alive=0.0) != replace(held.holder, alive=0.0):
            held.lose()
        elif found == held.holder:
            # Taken for a moment by somebody who looks on: not now, but soon.
            return
        else:
            # The answer to an earlier request was lost, so that it was not known here which was the last that was done.
            held.holder = found


def _now(held: Held) -> bytes:
    held.holder = replace(held.holder, alive=time.time())
    return held.holder.encoded()


@contextmanager
def _refreshing(held: Held, seconds: float) -> Iterator[None]:
    """Show again and again, in a thread, that this process is alive."""
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


def _decoded(content: bytes | None) -> Holder | None:
    try:
        return Holder(**json.loads(content or b""))
    except (ValueError, TypeError):
        return None


def _myself() -> Holder:
    now = time.time()
    since = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    process = os.getpid()
    return Holder(socket.gethostname(), process, since, _machine(), _started(process), now)


def _machine() -> str:
    """Return what tells the system that counts this process from others: the boot, and the space of process numbers."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(process: int) -> str:
    """Return when a process has started, in ticks since the system has; empty where there is no such process."""
    try:
        # The name, in brackets, may hold blanks.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
