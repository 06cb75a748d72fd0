"""Where a store lies, a folder or a prefix of an object store: the only thing that reads and writes its bytes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import zarr.abc.store
import zarr.storage

from pbdist.errors import InvalidInputError, MissingDependencyError
from pbdist.store.objects import SCHEME, ObjectPlace

__all__ = ["PARTIAL", "LocalPlace", "ObjectPlace", "Place", "place_at"]

#: What the name of a file ends in that is being written, or that a killed process has left behind.
PARTIAL = ".partial"


class Place(Protocol):
    """Files under one folder or prefix, by names with ``/`` between their parts. Small and picklable.

    Every failure but a missing file is an `OSError`, whose text is one line.
    """

    @property
    def url(self) -> str:
        """An absolute path or a URL, which `place_at` takes in any process that sees the same storage."""

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises
        ------
        FileNotFoundError
            There is none.
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

    def inner(self, name: str) -> "Place":
        """Return the place of a folder inside this one."""

    def zarr_store(self) -> zarr.abc.store.Store:
        """Return a zarr store that reads the same files, and writes none."""


@dataclass(frozen=True)
class LocalPlace:
    """A folder of a file system that every process of a run sees; it need not exist.

    Attributes
    ----------
    url
        Its absolute path.
    """

    url: str

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        try:
            return Path(self.url, name).read_bytes()
        except (NotADirectoryError, IsADirectoryError) as error:
            # A file where a folder belongs, or a folder: not the file that is asked for.
            raise FileNotFoundError(error.errno, error.strerror, error.filename) from error

    def write(self, name: str, data: bytes) -> None:
        """Write a file by way of one beside it whose name ends in ``.partial``, and a rename."""
        path = Path(self.url, name)
        _make_way(path)
        with _written_beside(path, data) as temporary:
            temporary.replace(path)
        _to_disk(path.parent)

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that does not exist yet."""
        path = Path(self.url, name)
        with _written_beside(path, data) as temporary:
            try:
                path.hardlink_to(temporary)
            except FileExistsError:
                return False
            except OSError:
                # A file system without hard links.
                return _written_exclusively(path, data)
        _to_disk(path.parent)
        return True

    def exchange(self, name: str, old: bytes, new: bytes) -> bool:
        """Write a file whose content is `old`: it is moved away, which one process alone can do, and made anew."""
        path = Path(self.url, name)
        taken = path.with_name(f"{path.name}.{uuid4().hex}{PARTIAL}")
        try:
            path.rename(taken)
        except FileNotFoundError:
            return False
        try:
            content = taken.read_bytes()
            # What somebody else has written meanwhile goes back.
            done = self.create(name, new if content == old else content)
        finally:
            taken.unlink(missing_ok=True)
        return done and content == old

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError, NotADirectoryError):
            Path(self.url, name).unlink()

    def names(self, under: str = "") -> Iterator[tuple[str, int]]:
        """Yield names and sizes, sorted folder by folder."""
        for folder, folders, files in os.walk(Path(self.url, under), onerror=_but_missing):
            folders.sort()
            inner = os.path.relpath(folder, self.url).replace(os.sep, "/")
            for file in sorted(files):
                with suppress(FileNotFoundError):  # removed meanwhile
                    size = os.lstat(os.path.join(folder, file)).st_size
                    yield (file if inner == "." else f"{inner}/{file}"), size

    def inner(self, name: str) -> "LocalPlace":
        """Return the place of a folder inside this one."""
        return LocalPlace(f"{self.url}/{name}")

    def zarr_store(self) -> zarr.abc.store.Store:
        """Return a zarr store that reads the same files."""
        return zarr.storage.LocalStore(self.url, read_only=True)


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


def _make_way(path: Path) -> None:
    """Remove an empty folder where a file belongs.

    Raises
    ------
    OSError
        Something else is in the way, which may be somebody's: the text says what to remove.
    """
    if path.is_dir() and not path.is_symlink():
        try:
            path.rmdir()
        except OSError as error:
            text = f"{path}: expected a file or nothing, got a folder that is not empty: remove it"
            raise IsADirectoryError(text) from error
    folder = path.parent
    while not folder.is_dir():
        if os.path.lexists(folder):
            raise NotADirectoryError(f"{folder}: expected a folder or nothing, got a file: remove it")
        folder = folder.parent


@contextmanager
def _written_beside(path: Path, data: bytes) -> Iterator[Path]:
    """Yield a new file with that content, on the disk, in the folder of `path`; afterwards it is gone."""
    temporary = path.with_name(f"{path.name}.{uuid4().hex}{PARTIAL}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _written_exclusively(path: Path, data: bytes) -> bool:
    try:
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        return False
    return True


def _to_disk(folder: Path) -> None:
    """Bring the entries of a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _but_missing(error: OSError) -> None:
    """Raise what `os.walk` would keep to itself; a folder that is not there has no files."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error
