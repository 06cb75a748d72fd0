"""The place where a store lies, a folder or a prefix of an object store: its bytes are read and written only here."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from pbdist.errors import InvalidInputError, MissingDependencyError
from pbdist.store.files import (
    MOST_DOCUMENT,
    PARTIAL,
    Entry,
    Folder,
    IrregularError,
    check_content,
    check_document,
    is_frame,
    never,
)
from pbdist.store.metadata import METADATA, check_metadata
from pbdist.store.objects import SCHEME, ObjectPlace


class Place(Protocol):
    """Files under one folder or prefix, by names with ``/`` between their parts. Small and picklable.

    Every failure is an `OSError` with a text of one line. A document (``zarr.json``) has at most `MOST_DOCUMENT` bytes.
    """

    @property
    def url(self) -> str:
        """An absolute path or a URL, from which `place_at` makes this place in any process that sees the storage."""

    def read(self, name: str, most: int = MOST_DOCUMENT) -> bytes:
        """Return the content of a file.

        Raises
        ------
        FileNotFoundError
            There is none.
        OversizeError
            It has more than `most` bytes; it is not read.
        """

    def read_range(self, name: str, start: int | None, length: int) -> bytes:
        """Return `length` bytes of a file from `start` on, or its last ones with None; fewer where it ends before.

        A `FileNotFoundError` where there is no such file.
        """

    def write(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all, and to the disk."""

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that does not exist yet; return False, and change nothing, where it does.

        Of several processes that call it at the same time, one gets True.
        """

    def exchange(self, name: str, old: bytes, new: bytes) -> bool:
        """Replace the content `old` of a file by `new`; return False, and change nothing, where it is not `old`.

        Of several processes that call it at the same time with the same `old`, at most one gets True.
        """

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def remove_all(self, names: Sequence[str]) -> None:
        """Remove some files, those that are there, in any order."""

    def names(self, under: str = "") -> Iterator[tuple[str, int]]:
        """Yield the name and the size in bytes of every file, if given only of those below the folder `under`."""

    def walk(self, under: str = "") -> Iterator[Entry]:
        """Yield all entries, also links and others that do not belong in a store."""

    def inner(self, name: str) -> "Place":
        """Return the place of a folder inside this one."""

    def zarr_store(self, most: Callable[[str], int]) -> Store:
        """Return a read-only zarr store of the same files; `most` gives the most bytes of a file by its name."""


@dataclass(frozen=True)
class LocalPlace:
    """A folder of a file system that every process of a run sees; it need not exist.

    No link below the top of the store is followed: nothing behind one is read, written or removed.
    """

    #: Its absolute path.
    url: str
    #: The path of the store that it lies in, which may be a link or lie behind one; empty where it is the top itself.
    top: str = ""
    #: Whether what is no regular file counts as missing when it is read, instead of as an error: a check lists all.
    lenient: bool = False
    #: Whether a missing top is an error, because the store is gone; else it is made as all missing folders are.
    kept: bool = field(default=False, compare=False)

    def read(self, name: str, most: int = MOST_DOCUMENT) -> bytes:
        """Return the content of a file."""
        with self._leniently():
            return self._folder.read(self._below(name), most)

    def read_range(self, name: str, start: int | None, length: int) -> bytes:
        """Return a part of a file."""
        with self._leniently():
            return self._folder.read_range(self._below(name), start, length)

    def write(self, name: str, data: bytes) -> None:
        """Write a file beside it whose name ends in ``.partial``, and rename it."""
        check_document(name, data)
        self._folder.write(self._below(name), [data])

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that does not exist yet."""
        check_document(name, data)
        return self._folder.create(self._below(name), data)

    def exchange(self, name: str, old: bytes, new: bytes) -> bool:
        """Replace a file: it is moved away, which only one process can do, and written again."""
        return self._folder.exchange(self._below(name), old, new)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._folder.remove(self._below(name))

    def remove_all(self, names: Sequence[str]) -> None:
        """Remove some files, those that are there."""
        for name in names:
            self.remove(name)

    def remove_empty(self, name: str) -> None:
        """Remove the folders in a folder, and then that, as far as they are empty."""
        below = self._below(name)
        for folder in (*(entry.name for entry in self._folder.entries(below) if entry.kind == "folder"), below):
            self._folder.remove_empty(folder)

    def names(self, under: str = "") -> Iterator[tuple[str, int]]:
        """Yield names and sizes of regular files, sorted folder by folder."""
        for entry in self.walk(under):
            if entry.kind == "file":
                yield entry.name, entry.size

    def walk(self, under: str = "", *, passed: Callable[[str], bool] = never) -> Iterator[Entry]:
        """Yield all entries, folder by folder, and follow no link; `passed` as in `Folder.walk`."""
        start = len(self._below("x")) - 1
        try:
            for entry in self._folder.walk(self._below(under), passed=passed):
                yield entry._replace(name=entry.name[start:]) if start else entry
        except IrregularError:
            if not self.lenient:
                raise

    def inner(self, name: str) -> "LocalPlace":
        """Return the place of a folder inside this one."""
        return replace(self, url=f"{self.url}/{name}", top=self.top or self.url)

    def zarr_store(self, most: Callable[[str], int]) -> Store:
        """Return a read-only zarr store of the same files."""
        return _FolderStore(self._folder, self._below(""), most)

    @contextmanager
    def _leniently(self) -> Iterator[None]:
        try:
            yield
        except IrregularError as error:
            if self.lenient:
                raise FileNotFoundError(str(error)) from error
            raise

    @property
    def _folder(self) -> Folder:
        return Folder(self.top or self.url, self.kept)

    def _below(self, name: str) -> str:
        """Return the name of a file in the whole store."""
        inside = self.url[len(self.top) + 1 :] if self.top else ""
        return f"{inside}/{name}" if inside and name else inside or name


def place_at(where: "str | Path | Place") -> Place:
    """Return the place of a path or of a URL ``s3://BUCKET/PREFIX``; a place is returned as it is.

    Raises
    ------
    InvalidInputError
        The URL has no bucket or no prefix, or is of another kind; or there is no text, or a null character in it.
    MissingDependencyError
        The package for object stores is not installed.
    """
    if not isinstance(where, str | Path):
        return where
    text = str(where)
    if not text.startswith(SCHEME):
        # Nothing is what a shell makes of a variable that is not set.
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


def probe(place: Place, size: int = 0) -> None:
    """Write a file of some bytes and remove it; an `OSError` says why that cannot be done."""
    # A file that is left behind is removed at the end of a run, by the end of its name.
    name = f"probe.{uuid4().hex}{PARTIAL}"
    # Bytes that no file system makes smaller.
    place.write(name, os.urandom(size))
    place.remove(name)


class _FolderStore(Store):
    """The files of `folder`, or of the folder `inside` it, for zarr and xarray to read; no link is followed."""

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(self, folder: Folder, inside: str, most: Callable[[str], int]) -> None:
        super().__init__(read_only=True)
        self._folder, self._prefix, self._most = folder, f"{inside}/" if inside else "", most

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FolderStore) and (self._folder, self._prefix) == (other._folder, other._prefix)

    def __hash__(self) -> int:
        return hash((self._folder, self._prefix))

    def __repr__(self) -> str:
        return f"FolderStore({self._folder.path}/{self._prefix})"

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        try:
            data = await asyncio.to_thread(self._folder.read, self._prefix + key, self._most(key))
        except FileNotFoundError:
            return None
        if key.rpartition("/")[2] == METADATA:
            check_metadata(data)
        part = _cut(data, byte_range)
        if is_frame(part):
            check_content(part)
        return prototype.buffer.from_bytes(part)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        return await asyncio.to_thread(self._folder.kind, self._prefix + key) == "file"

    async def set(self, key: str, value: Buffer) -> None:
        del value
        raise ValueError(f"{key}: expected a store that is written to, got one that is read")

    async def delete(self, key: str) -> None:
        raise ValueError(f"{key}: expected a store that is written to, got one that is read")

    async def list(self) -> AsyncIterator[str]:
        async for name in self.list_prefix(""):
            yield name

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        for entry in await asyncio.to_thread(lambda: list(self._folder.walk(self._inside(prefix)))):
            if entry.kind == "file":
                yield entry.name.removeprefix(self._prefix)

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        for entry in await asyncio.to_thread(self._folder.entries, self._inside(prefix)):
            if entry.kind in {"file", "folder"}:
                yield entry.name.rpartition("/")[2]

    def _inside(self, prefix: str) -> str:
        return f"{self._prefix}{prefix}".strip("/")


def _cut(data: bytes, byte_range: ByteRequest | None) -> bytes:
    if isinstance(byte_range, RangeByteRequest):
        return data[byte_range.start : byte_range.end]
    if isinstance(byte_range, OffsetByteRequest):
        return data[byte_range.offset :]
    if isinstance(byte_range, SuffixByteRequest):
        return data[max(0, len(data) - byte_range.suffix) :]
    return data
