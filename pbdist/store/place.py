"""Where a store lies, a folder or a prefix of an object store (S3), and which process writes to it.

Its files are read and written only here.
"""

import errno
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar
from uuid import uuid4

from filelock import FileLock, Timeout

from pbdist.errors import InvalidInputError, MissingDependencyError, StoreRefusedError, StoreUnreachableError

if TYPE_CHECKING:
    from obstore.store import S3Store

SCHEME = "s3://"
#: For how many seconds a request to an object store is tried again where somebody waits for the answer.
PATIENCE_SECONDS = 20.0
#: The first and the longest pause between two attempts, and the longest time of one request, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE, _REQUEST_SECONDS = 0.25, 15.0, 300.0
#: obstore gives up after this many attempts, or when the time is over.
_MAX_RETRIES = 10_000
#: Errors of obstore that mean no answer, or a request that may succeed later.
_PASSING_TEXT = re.compile(r"HTTP error: (?!builder)|status code: (5\d\d|408|409|429)\b")
_REMEDY = "check the name of the bucket, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL"
#: Requests to an object store at the same time.
_MAX_AT_ONCE = 32
#: How long a process that only looks may have the lock, in seconds.
_LOOK_SECONDS = 0.5

Item = TypeVar("Item")
Result = TypeVar("Result")


class Place(Protocol):
    """Files under one folder or prefix, by names with ``/`` between their parts. Small and picklable.

    Every failure is an `OSError` with a text of one line.
    """

    @property
    def url(self) -> str:
        """An absolute path or a URL, from which `place_at` makes this place in any process that sees the storage."""

    def read(self, name: str) -> bytes:
        """Return the content of a file; a `FileNotFoundError` where there is none."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all."""

    def create(self, folder: str, files: "dict[str, bytes]") -> bool:
        """Write some files, the last of which completes them, into a folder that does not have that one yet.

        Return False where it is there. The folder of an empty name is the place itself.
        """

    def remove(self, name: str) -> None:
        """Remove a file, if it is there, and its folder if that is empty then."""

    def names(self, under: str = "") -> Iterator[tuple[str, int]]:
        """Yield the name and the size in bytes of every file, if given only of those below the folder `under`."""

    def folders(self) -> list[str]:
        """Return the names of the folders that lie directly here, sorted."""

    def inner(self, name: str) -> "Place":
        """Return the place of a folder inside this one."""

    def at_once(self, do: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield what `do` returns for each item, in order; several at the same time where requests take long."""


@dataclass(frozen=True)
class LocalPlace:
    """A folder of a file system that every process of a run sees; it need not exist."""

    #: Its absolute path.
    url: str
    #: The path of the store that it lies in; empty where it is the store itself.
    store: str = ""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with open(f"{self.url}/{name}", "rb") as file:
            return file.read()

    def write(self, name: str, data: bytes) -> None:
        """Write a file beside the store, and rename it."""
        top = self.store or self.url
        if not os.path.isdir(top):
            # A worker does not create a store again that somebody has moved.
            raise FileNotFoundError(f"{top}: the store is gone")
        temporary = _written(self._temporary / uuid4().hex, data)
        target = f"{self.url}/{name}"
        try:
            with suppress(FileNotFoundError):
                os.replace(temporary, target)
                return
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.replace(temporary, target)
        except (IsADirectoryError, NotADirectoryError, FileExistsError) as error:
            problem = "a folder is where a file of the store belongs, or the reverse: move it away"
            raise type(error)(f"{target}: {problem}") from None
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            raise OSError(f"{top}: a store cannot be a mount point: use a folder below it") from None

    def create(self, folder: str, files: dict[str, bytes]) -> bool:
        """Write some files, which appear by one rename."""
        target = f"{self.url}/{folder}" if folder else self.url
        temporary = self._temporary / uuid4().hex
        for name, data in files.items():
            _written(temporary / name, data)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            os.rename(temporary, target)
        except OSError:
            # Another process was faster.
            if not os.path.exists(f"{target}/{list(files)[-1]}"):
                raise
            return False
        return True

    def remove(self, name: str) -> None:
        """Remove a file, if it is there, and its folder if that is empty then."""
        path = Path(f"{self.url}/{name}")
        with suppress(FileNotFoundError):
            path.unlink()
            # Not empty, or shared with others.
            with suppress(OSError):
                path.parent.rmdir()

    def names(self, under: str = "") -> Iterator[tuple[str, int]]:
        """Yield names and sizes of files, folder by folder."""
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(f"{self.url}/{under}") as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                name = f"{under}/{entry.name}" if under else entry.name
                size = 0
                if entry.is_dir(follow_symlinks=False) or (entry.is_symlink() and os.path.isdir(entry.path)):
                    yield from self.names(name)
                    continue
                # That of a link to nothing is not known.
                with suppress(OSError):
                    size = entry.stat().st_size
                yield name, size

    def folders(self) -> list[str]:
        """Return the names of the folders that lie directly here."""
        try:
            with os.scandir(self.url) as entries:
                return sorted(entry.name for entry in entries if os.path.isdir(entry.path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def inner(self, name: str) -> "LocalPlace":
        """Return the place of a folder inside this one."""
        return replace(self, url=f"{self.url}/{name}", store=self.store or self.url)

    def at_once(self, do: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield what `do` returns for each item, in order."""
        return map(do, items)

    def forget_temporary(self) -> None:
        """Remove what killed processes have left beside the store: for the only one that writes to it."""
        shutil.rmtree(self._temporary, ignore_errors=True)

    @property
    def _temporary(self) -> Path:
        # On the file system of the store, and not in it: the store has the same files after a kill.
        store = Path(os.path.realpath(self.store or self.url))
        return store.with_name(f".{store.name}.partial")


def _written(path: Path, data: bytes) -> Path:
    """Write a new file to the disk."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError:
        with suppress(OSError):
            path.unlink()
        raise
    return path


@dataclass(frozen=True)
class ObjectPlace:
    """A prefix in a bucket of an object store that speaks S3; the environment (``AWS_..``) has its options.

    obstore tries requests again. One that does not succeed within `patience` seconds is a `StoreUnreachableError`, one
    that is refused a `StoreRefusedError`.
    """

    #: ``s3://BUCKET/PREFIX``.
    url: str
    patience: float = field(default=PATIENCE_SECONDS, compare=False)

    def read(self, name: str) -> bytes:
        """Return the content of an object."""
        with _as_os_errors(self.url, name):
            return bytes(self._objects.get(name).bytes())

    def write(self, name: str, data: bytes) -> None:
        """Write an object."""
        with _as_os_errors(self.url, name):
            self._objects.put(name, data)

    def create(self, folder: str, files: dict[str, bytes]) -> bool:
        """Write some objects, the last one by a request that fails where it exists."""
        *others, last = files
        start = f"{folder}/" if folder else ""
        with suppress(FileNotFoundError):
            self.read(f"{start}{last}")
            return False
        list(self.at_once(lambda name: self.write(f"{start}{name}", files[name]), others))
        try:
            with _as_os_errors(self.url, f"{start}{last}"):
                self._objects.put(f"{start}{last}", files[last], mode="create")
        except FileExistsError:
            # Written by a request before, whose answer was lost, or by another process.
            return self.read(f"{start}{last}") == files[last]
        return True

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        with suppress(FileNotFoundError), _as_os_errors(self.url, name):
            self._objects.delete(name)

    def names(self, under: str = "") -> Iterator[tuple[str, int]]:
        """Yield names and sizes in alphabetical order."""
        with _as_os_errors(self.url, under):
            for page in self._objects.list(f"{under}/" if under else None):
                yield from ((item["path"], item["size"]) for item in page)

    def folders(self) -> list[str]:
        """Return the names of the prefixes that lie directly here."""
        with _as_os_errors(self.url, ""):
            return sorted(str(name).rstrip("/") for name in self._objects.list_with_delimiter()["common_prefixes"])

    def inner(self, name: str) -> "ObjectPlace":
        """Return the place of a folder inside this one."""
        return replace(self, url=f"{self.url}/{name}")

    def at_once(self, do: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield what `do` returns for each item, in order; several requests at the same time."""
        if len(items) < 2:
            yield from map(do, items)
            return
        with ThreadPoolExecutor(min(_MAX_AT_ONCE, len(items))) as threads:
            yield from threads.map(do, items)

    @property
    def _objects(self) -> "S3Store":
        # A client keeps the endpoint and the keys of the environment that it was made in.
        settings = frozenset(item for item in os.environ.items() if item[0].startswith("AWS_"))
        return _client(self.url, self.patience, settings)


def place_at(where: "str | Path | Place") -> Place:
    """Return the place of a path or of a URL ``s3://BUCKET/PREFIX``; a place is returned as it is.

    Raises
    ------
    InvalidInputError
        The URL has no bucket or no prefix, or is of another kind; or the text is empty, or has a null character.
    MissingDependencyError
        The package for object stores is not installed.
    """
    if not isinstance(where, str | Path):
        return where
    text = str(where)
    if not text.startswith(SCHEME):
        # A shell makes an empty text of a variable that is not set.
        if not text or "\0" in text or "://" in text:
            raise InvalidInputError(f"store: expected a path or a URL s3://BUCKET/PREFIX, got {text!r}")
        return LocalPlace(os.path.abspath(text))
    bucket, _, prefix = text.removeprefix(SCHEME).partition("/")
    parts = [part for part in prefix.split("/") if part]
    if not bucket or not parts or {".", ".."} & set(parts):
        raise InvalidInputError(f"store: expected a path or a URL s3://BUCKET/PREFIX, got {text!r}")
    if find_spec("obstore") is None:
        raise MissingDependencyError("a store at s3:// needs obstore: pip install 'pbdist[s3]'")
    return ObjectPlace("/".join([f"{SCHEME}{bucket}", *parts]))


def with_patience(place: Place, seconds: float) -> Place:
    """Return the same place; requests to an object store are then tried again for that many seconds."""
    return replace(place, patience=seconds) if isinstance(place, ObjectPlace) else place


def read_or_none(place: Place, name: str) -> bytes | None:
    """Return the content of a file, None where there is none."""
    try:
        return place.read(name)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


@cache
def _client(url: str, patience: float, environment: frozenset[tuple[str, str]]) -> "S3Store":
    from obstore.store import S3Store  # noqa: PLC0415 -- an optional package

    settings = dict(environment)
    bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
    endpoint = settings.get("AWS_ENDPOINT_URL_S3") or settings.get("AWS_ENDPOINT_URL") or ""
    seconds = timedelta(seconds=_REQUEST_SECONDS)
    return S3Store(
        bucket,
        prefix=prefix or None,
        region=settings.get("AWS_REGION") or settings.get("AWS_DEFAULT_REGION") or "us-east-1",
        # Without TLS only where the endpoint says so.
        client_options={
            "allow_http": endpoint.startswith("http://"),
            "connect_timeout": timedelta(seconds=20),
            "timeout": seconds,
        },
        retry_config={
            "max_retries": _MAX_RETRIES,
            "retry_timeout": timedelta(seconds=patience),
            "backoff": {
                "init_backoff": timedelta(seconds=_FIRST_PAUSE),
                "max_backoff": timedelta(seconds=_LONGEST_PAUSE),
                "base": 2,
            },
        },
    )


@contextmanager
def _as_os_errors(url: str, name: str) -> Iterator[None]:
    """Turn the errors of obstore into an `OSError` of one line.

    `FileExistsError` and `FileNotFoundError` are about the object; `StoreUnreachableError`: no answer, or not now;
    `StoreRefusedError`: any other answer.
    """
    from obstore import exceptions  # noqa: PLC0415 -- an optional package

    where = f"{url}/{name}".rstrip("/")
    try:
        yield
    except (StoreUnreachableError, StoreRefusedError):
        raise
    except (exceptions.BaseError, OSError, ValueError) as error:
        text = str(error)
        if isinstance(error, FileExistsError | exceptions.AlreadyExistsError):
            raise FileExistsError(f"{where}: an object is there already") from error
        if isinstance(error, FileNotFoundError | exceptions.NotFoundError) and "NoSuchBucket" not in text:
            raise FileNotFoundError(f"{where}: no such object") from error
        message = f"{where}: the object store does not answer as it should: {_cause(text)}: {_REMEDY}"
        if _PASSING_TEXT.search(text):
            raise StoreUnreachableError(message) from error
        raise StoreRefusedError(message) from error


def _cause(text: str) -> str:
    """Return on one short line the answer of an object store, or why there is none."""
    answer = re.search(r"<Code>(.*?)</Code>(?:\s*<Message>(.*?)</Message>)?", text, re.DOTALL)
    cause = ": ".join(part for part in answer.groups() if part) if answer else text.split("Debug source", maxsplit=1)[0]
    return " ".join(cause.split())[:300]


@contextmanager
def hold(place: Place, patience: float = _LOOK_SECONDS) -> Iterator[None]:
    """Be the only process that writes to a store in a folder; in an object store several may write the same bytes.

    An `InvalidInputError` where another process writes to it, and does not end within `patience` seconds.
    """
    if not isinstance(place, LocalPlace):
        yield
        return
    path = _path(place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Where no file can be made, the lock would wait as if another process had it.
        path.touch()
        lock = FileLock(path)
        lock.acquire(timeout=patience)
    except Timeout as error:
        held = f"another process writes to the store ({_described(path)}): wait for its end, or stop it"
        raise InvalidInputError(f"{place.url}: {held}") from error
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
