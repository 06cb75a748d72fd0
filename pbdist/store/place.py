"""Where a store lies, a folder or a prefix of an object store: the only thing that reads and writes its bytes."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import zarr.abc.store

from pbdist.errors import InvalidInputError, MissingDependencyError
from pbdist.store.folder import PARTIAL, Entry, Folder
from pbdist.store.folder_store import FolderStore
from pbdist.store.irregular import MOST_DOCUMENT, IrregularError, check_document
from pbdist.store.objects import SCHEME, ObjectPlace

__all__ = ["PARTIAL", "LocalPlace", "ObjectPlace", "Place", "place_at", "with_patience"]


class Place(Protocol):
    """Files under one folder or prefix, by names with ``/`` between their parts. Small and picklable.

    Every failure but a missing file is an `OSError`, whose text is one line. What is written as a document, a
    ``zarr.json``, has at most `MOST_DOCUMENT` bytes.
    """

    @property
    def url(self) -> str:
        """An absolute path or a URL, which `place_at` takes in any process that sees the same storage."""

    def read(self, name: str, most: int = MOST_DOCUMENT) -> bytes:
        """Return the content of a file.

        Raises
        ------
        FileNotFoundError
            There is none.
        OversizeError
            It has more than `most` bytes, and is not read.
        """

    def write(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all; it is on the disk when this returns."""

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that does not exist yet; return False, and change nothing, where it does.

        Of several processes that call it at the same time one gets True.
        """

    def exchange(self, name: str, old: bytes, new: bytes) -> bool:
        """Write a file whose content is `old`; return False, and change nothing, where it is another or missing.

        Of several processes that call it at the same time with the same `old` at most one gets True.
        """

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def names(self, under: str = "") -> Iterator[tuple[str, int]]:
        """Yield the name and the size in bytes of every file, those below the folder `under` alone if it is given."""

    def walk(self, under: str = "") -> Iterator[Entry]:
        """Yield all that there is, links too and whatever else does not belong there."""

    def inner(self, name: str) -> "Place":
        """Return the place of a folder inside this one."""

    def zarr_store(self, most: Callable[[str], int]) -> zarr.abc.store.Store:
        """Return a zarr store that reads the same files, and writes none; `most` says how many bytes one may have."""


@dataclass(frozen=True)
class LocalPlace:
    """A folder of a file system that every process of a run sees; it need not exist.

    No link below the top of the store is followed: neither read, nor written, nor removed is anything behind one.

    Attributes
    ----------
    url
        Its absolute path.
    top
        That of the store that it lies in, which may be a link itself or lie behind one; empty where it is the top.
    lenient
        Whether a link, or whatever is no regular file, counts as missing when it is read, and is no error: for a check,
        which tells of all of them.
    kept
        Whether the top is never made: where it is gone, so is what was to be written to. Else every folder that is
        missing is made.
    """

    url: str
    top: str = ""
    lenient: bool = False
    kept: bool = field(default=False, compare=False)

    def read(self, name: str, most: int = MOST_DOCUMENT) -> bytes:
        """Return the content of a file."""
        try:
            return self._folder.read(self._below(name), most)
        except IrregularError as error:
            if self.lenient:
                raise FileNotFoundError(str(error)) from error
            raise

    def write(self, name: str, data: bytes) -> None:
        """Write a file by way of one beside it whose name ends in ``.partial``, and a rename."""
        check_document(name, data)
        self._folder.write(self._below(name), [data])

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that does not exist yet."""
        check_document(name, data)
        return self._folder.create(self._below(name), data)

    def exchange(self, name: str, old: bytes, new: bytes) -> bool:
        """Write a file whose content is `old`: it is moved away, which one process alone can do, and made anew."""
        return self._folder.exchange(self._below(name), old, new)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._folder.remove(self._below(name))

    def names(self, under: str = "") -> Iterator[tuple[str, int]]:
        """Yield names and sizes, sorted folder by folder; of links and what else is no regular file none."""
        for entry in self.walk(under):
            if entry.kind == "file":
                yield entry.name, entry.size

    def walk(self, under: str = "", *, open_only: bool = False) -> Iterator[Entry]:
        """Yield all that there is, folder by folder, and follow no link; `open_only` as in `Folder.walk`."""
        start = len(self._below("x")) - 1
        try:
            for entry in self._folder.walk(self._below(under), open_only=open_only):
                yield entry._replace(name=entry.name[start:]) if start else entry
        except IrregularError:
            if not self.lenient:
                raise

    def inner(self, name: str) -> "LocalPlace":
        """Return the place of a folder inside this one."""
        return replace(self, url=f"{self.url}/{name}", top=self.top or self.url)

    def zarr_store(self, most: Callable[[str], int]) -> zarr.abc.store.Store:
        """Return a zarr store that reads the same files."""
        return FolderStore(self._folder, self._below(""), most)

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
        The URL has no bucket or no prefix, or is of another kind.
    MissingDependencyError
        The package for object stores is not installed.
    """
    if not isinstance(where, str | Path):
        return where
    text = str(where)
    if not text.startswith(SCHEME):
        if "://" in text:
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
    """Return the same place, which is waited for that long where it cannot be reached; a folder never is."""
    return replace(place, patience=seconds) if isinstance(place, ObjectPlace) else place
