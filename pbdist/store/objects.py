"""Read and write a store in an object store (S3) with obstore, an optional package that is imported when it is used."""

import errno
import os
import random
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import zarr.abc.store
import zarr.storage

from pbdist.errors import (
    NotAStoreError,
    StoreDamagedError,
    StoreFormatError,
    StoreMismatchError,
    StoreRefusedError,
    StoreTakenError,
    StoreUnreachableError,
)
from pbdist.store.files import (
    HEAD_BYTES,
    MOST_DOCUMENT,
    Entry,
    OversizeError,
    at_once,
    check_content,
    check_document,
    is_frame,
)

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import S3Store
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

Result = TypeVar("Result")

#: For how many seconds a request is tried again where somebody waits for the answer.
PATIENCE_SECONDS = 20.0
#: The first and the longest pause between two attempts, in seconds; each is twice the one before.
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 15.0
#: Answers of a network file system that is away at the moment, and of a disk that cannot be read.
_PASSING = frozenset(
    {
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EIO,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENOTCONN,
        errno.ESHUTDOWN,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)
#: Failures of one file that every other file will have too.
_LASTING = frozenset({errno.EROFS, errno.EFBIG, errno.EACCES, errno.EPERM})
#: There is no room until somebody makes some.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
#: The store is gone, or it is another one.
_GONE = (NotAStoreError, StoreDamagedError, StoreFormatError, StoreMismatchError)


class Trouble(Enum):
    """A failure that keeps every batch from being written: it passes by itself, when there is room again, or never."""

    PASSING = "passing"
    FULL = "full"
    LASTING = "lasting"


def trouble_of(error: BaseException) -> Trouble | None:
    """Return whether a failure of the store as a whole may pass, is a full disk, or lasts; None for a single file's."""
    if isinstance(error, StoreUnreachableError):
        return Trouble.PASSING
    if isinstance(error, (StoreRefusedError, StoreTakenError, *_GONE)):
        return Trouble.LASTING
    number = error.errno if isinstance(error, OSError) else None
    kinds = {Trouble.PASSING: _PASSING, Trouble.FULL: _FULL, Trouble.LASTING: _LASTING}
    return next((trouble for trouble, numbers in kinds.items() if number in numbers), None)


def patiently(seconds: float, request: Callable[[], Result]) -> Result:
    """Return the result of a request, which is made again for that long while it raises `StoreUnreachableError`."""
    began, pause = time.monotonic(), FIRST_PAUSE
    while True:
        try:
            return request()
        except StoreUnreachableError:
            left = began + seconds - time.monotonic()
            if left <= 0.0:
                raise
        # Many workers that lost the store at the same moment must not all come back at the same moment.
        time.sleep(min(left, pause * random.uniform(0.75, 1.25)))  # noqa: S311 -- no secret
        pause = min(2.0 * pause, LONGEST_PAUSE)


SCHEME = "s3://"
#: Seconds that a request may take: one that is tried again, and one (always a small one) that is not.
_REQUEST_SECONDS, _ONE_REQUEST_SECONDS = 300.0, 10.0
#: How often zarr's reader tries a request again: as often as its time allows.
_MOST_RETRIES = 10_000
#: Texts of errors that may pass: no answer of the object store, or one that says that the request may succeed later.
_PASSING_TEXT = re.compile(r"HTTP error: (?!builder)|status code: (5\d\d|408|409|429)\b")
#: The answer to a request for a part that an object does not have.
_NO_RANGE = re.compile(r"got: InvalidRange\b|status code: 416\b")
#: The client's words for the whole object instead of the part, as an empty one has no parts.
_WHOLE = "got: Generic S3 error: Received non-partial response when range requested"


@dataclass(frozen=True)
class ObjectPlace:
    """A prefix in a bucket of an object store that speaks S3; the environment (``AWS_..``) has its options.

    A request that does not reach it is tried again, after longer and longer pauses, and is a `StoreUnreachableError`
    after `patience` seconds. A request that it refuses is a `StoreRefusedError` at once.
    """

    #: ``s3://BUCKET/PREFIX``.
    url: str
    #: For how many seconds a request is tried again; with 0 it is made once, with a short time limit.
    patience: float = field(default=PATIENCE_SECONDS, compare=False)

    def read(self, name: str, most: int = MOST_DOCUMENT) -> bytes:
        """Return the content of an object."""

        def request(_: bool) -> bytes:
            found = self._objects.get(name)
            if found.meta["size"] > most:
                raise OversizeError(f"{self.url}/{name}", found.meta["size"], most)
            return bytes(found.bytes())

        return self._tried(name, request)

    def read_range(self, name: str, start: int | None, length: int) -> bytes:
        """Return a part of an object."""
        options: GetOptions = {"range": {"suffix": length} if start is None else (start, start + length)}
        try:
            return self._tried(name, lambda _: bytes(self._objects.get(name, options=options).bytes()))
        except StoreRefusedError as error:
            # An object that ends before the part has nothing there.
            if _NO_RANGE.search(str(error)):
                return b""
            if _WHOLE not in str(error):
                raise
            data = self.read(name)
            begin = max(0, len(data) - length) if start is None else start
            return data[begin : begin + length]

    def write(self, name: str, data: bytes) -> None:
        """Write an object."""
        check_document(name, data)
        self._tried(name, lambda _: self._objects.put(name, data))

    def create(self, name: str, data: bytes) -> bool:
        """Write an object that does not exist yet, by a conditional request."""
        check_document(name, data)

        def request(again: bool) -> bool:
            try:
                with _as_os_errors(self.url, name):
                    self._objects.put(name, data, mode="create")
            except FileExistsError:
                # Written by the request before, whose answer was lost; or by another process.
                return again and bytes(self._objects.get(name).bytes()) == data
            return True

        return self._tried(name, request)

    def exchange(self, name: str, old: bytes, new: bytes) -> bool:
        """Replace the content `old` of an object, by a conditional request."""
        from obstore.exceptions import PreconditionError  # noqa: PLC0415 -- an optional package

        def request(again: bool) -> bool:
            found = self._objects.get(name)
            version, size = found.meta["e_tag"], found.meta["size"]
            # An object of another size is not read.
            content = bytes(found.bytes()) if size in (len(old), len(new)) else None
            if again and content == new:
                return True  # Done by the request before, whose answer was lost.
            if version is None or content != old:
                return False
            try:
                self._objects.put(name, new, mode={"e_tag": version})
            except PreconditionError:
                return False
            return True

        try:
            return self._tried(name, request)
        except FileNotFoundError:
            return False

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        with suppress(FileNotFoundError):
            self._tried(name, lambda _: self._objects.delete(name))

    def remove_all(self, names: Sequence[str]) -> None:
        """Remove some objects, those that are there: by one request for up to a thousand, where the server knows it."""
        if not names:
            return
        try:
            self._tried("", lambda _: self._objects.delete(list(names)))
        except StoreRefusedError:
            for _ in at_once(self.remove, names):
                pass

    def names(self, under: str = "") -> Iterator[tuple[str, int]]:
        """Yield names and sizes in alphabetical order."""
        pages: Iterator[list[tuple[str, int]]] | None = None
        last: str | None = None

        def request(again: bool) -> list[tuple[str, int]] | None:
            nonlocal pages
            if pages is None or again:
                # A new listing, from the last name on.
                pages = self._pages(under, last)
            return next(pages, None)

        while (page := self._tried(under, request)) is not None:
            for name, size in page:
                last = name
                yield name, size

    def walk(self, under: str = "") -> Iterator[Entry]:
        """Yield all objects."""
        for name, size in self.names(under):
            yield Entry(name, "file", size)

    def inner(self, name: str) -> "ObjectPlace":
        """Return the place of a folder inside this one."""
        return replace(self, url=f"{self.url}/{name}")

    def zarr_store(self, most: Callable[[str], int]) -> zarr.abc.store.Store:  # noqa: ARG002 -- zarr's own client reads
        """Return a read-only zarr store of the same objects, of any size; it tries again by itself."""
        return _Reader(_objects(self.url, self.patience, retried=True), read_only=True)

    @property
    def _objects(self) -> "S3Store":
        return _objects(self.url, self.patience)

    def _tried(self, name: str, request: Callable[[bool], Result]) -> Result:
        """Return the result of a request; its argument is whether it was made before."""
        made = 0

        def once() -> Result:
            nonlocal made
            made += 1
            with _as_os_errors(self.url, name):
                return request(made > 1)

        return patiently(self.patience, once)

    def _pages(self, under: str, after: str | None) -> Iterator[list[tuple[str, int]]]:
        for page in self._objects.list(f"{under}/" if under else None, offset=after):
            yield [(item["path"], item["size"]) for item in page]


class _Reader(zarr.storage.ObjectStore["S3Store"]):
    """A zarr store with the errors of `ObjectPlace`."""

    async def get(
        self, key: str, prototype: "BufferPrototype", byte_range: "ByteRequest | None" = None
    ) -> "Buffer | None":
        with self._as_os_errors(key):
            found = await super().get(key, prototype, byte_range)
        head = b"" if found is None else found[:HEAD_BYTES].to_bytes()
        if is_frame(head):
            check_content(head)
        return found

    async def _listed(self, prefix: str) -> AsyncGenerator[str, None]:
        with self._as_os_errors(prefix):
            async for name in super().list_dir(prefix):
                yield name

    def list_dir(self, prefix: str) -> AsyncGenerator[str, None]:
        return self._listed(prefix)

    def _as_os_errors(self, name: str) -> AbstractContextManager[None]:
        return _as_os_errors(f"{SCHEME}{self.store.config['bucket']}/{self.store.prefix or ''}", name)


def _objects(url: str, patience: float, *, retried: bool = False) -> "S3Store":
    """Return the client of a prefix, one in each process; with `retried` it tries again by itself.

    A client keeps the endpoint and the keys of the environment that it was made in: another environment has another.
    """
    return _client(url, patience, retried, frozenset(item for item in os.environ.items() if item[0].startswith("AWS_")))


@cache
def _client(url: str, patience: float, retried: bool, environment: frozenset[tuple[str, str]]) -> "S3Store":
    from obstore.store import S3Store  # noqa: PLC0415 -- an optional package

    settings = dict(environment)
    seconds = timedelta(seconds=_REQUEST_SECONDS if patience else _ONE_REQUEST_SECONDS)
    bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
    endpoint = settings.get("AWS_ENDPOINT_URL_S3") or settings.get("AWS_ENDPOINT_URL") or ""
    return S3Store(
        bucket,
        prefix=prefix or None,
        region=settings.get("AWS_REGION") or settings.get("AWS_DEFAULT_REGION") or "us-east-1",
        # Without TLS only where the endpoint says so.
        client_options={
            "allow_http": endpoint.startswith("http://"),
            "connect_timeout": min(seconds, timedelta(seconds=20)),
            "timeout": seconds,
        },
        retry_config={
            "max_retries": _MOST_RETRIES if retried else 0,
            "retry_timeout": timedelta(seconds=patience),
            "backoff": {
                "init_backoff": timedelta(seconds=FIRST_PAUSE),
                "max_backoff": timedelta(seconds=LONGEST_PAUSE),
                "base": 2,
            },
        },
    )


@contextmanager
def _as_os_errors(url: str, name: str) -> Iterator[None]:
    """Turn the errors of the client of an object store into an `OSError` of one line.

    `FileExistsError` and `FileNotFoundError` are about the object; `StoreUnreachableError`: no answer, or not now;
    `StoreRefusedError`: any other answer.
    """
    from obstore import exceptions  # noqa: PLC0415 -- an optional package

    where = f"{url}/{name}".rstrip("/")
    try:
        yield
    except (OversizeError, StoreUnreachableError, StoreRefusedError):
        raise
    except (exceptions.BaseError, OSError, ValueError) as error:
        text = str(error)
        if isinstance(error, FileExistsError | exceptions.AlreadyExistsError):
            raise FileExistsError(f"{where}: expected no object, got one") from error
        if isinstance(error, FileNotFoundError | exceptions.NotFoundError) and "NoSuchBucket" not in text:
            raise FileNotFoundError(f"{where}: expected an object, got none") from error
        message = f"{where}: expected to reach the object store, got: {_cause(text)}"
        if _PASSING_TEXT.search(text):
            raise StoreUnreachableError(message) from error
        raise StoreRefusedError(message) from error


def _cause(text: str) -> str:
    """Return on one short line the answer of an object store, or why there is none."""
    answer = re.search(r"<Code>(.*?)</Code>(?:\s*<Message>(.*?)</Message>)?", text, re.DOTALL)
    cause = ": ".join(part for part in answer.groups() if part) if answer else text.split("Debug source", maxsplit=1)[0]
    return " ".join(cause.split())[:300]
