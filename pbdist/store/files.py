"""One file in an open folder: read, written and listed by the folder's descriptor, so that no link is followed.

What is no regular file (a link, a named pipe, a socket, a device) and what is too large is an error.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple
from uuid import uuid4

from pbdist.errors import InvalidInputError, StoreDamagedError

#: The most bytes of a document: to read one as JSON takes up to 25 times its size. The largest are the commit record of
#: a batch with many kept states, 2 kB for each cell and r, and refinements of many points.
MOST_DOCUMENT = 64 << 20
#: The end of the name of a file that is being written, or that a killed process has left behind.
PARTIAL = ".partial"

#: For a folder that is only passed through, which need not be one that may be listed.
PASSED = os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
#: For a folder that is listed, or brought to the disk.
LISTED = os.O_DIRECTORY | os.O_RDONLY
#: Without waiting for a named pipe that appears there at the last moment.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW

_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
}


class IrregularError(StoreDamagedError):
    """A link, a named pipe, a socket or a device where a store has a file or a folder."""


class OversizeError(StoreDamagedError):
    """A file is larger than what belongs there can be; `size` is its bytes."""

    def __init__(self, path: str, size: int, most: int) -> None:
        super().__init__(f"{path}: expected a file of at most {most:,} bytes, got {size:,} bytes: run the study again")
        self.size = size


class Entry(NamedTuple):
    """A name in a folder, its kind (``file``, ``folder``, ``link``, ..), and the bytes of a file."""

    name: str
    kind: str
    size: int


def kind_of(mode: int) -> str:
    """Return ``file``, ``folder``, ``link`` and so on, by the mode that `os.lstat` gives."""
    return _KINDS.get(stat.S_IFMT(mode), "device")


def refusal(path: str, expected: str, kind: str, target: str | None = None) -> IrregularError:
    """Return the error that says what is at a path, for example a link to `target`, and what to do about it."""
    if kind == "link":
        kind = "link" if target is None else f"link to {target!r}"
        advice = "put what it leads to in its place, or remove it"
    else:
        advice = "remove it"
    return IrregularError(f"{path}: expected a {expected} or nothing, got a {kind}: {advice}")


def check_document(name: str, data: bytes) -> None:
    """Refuse to write a document that is too large to be read again."""
    if name.endswith("zarr.json") and len(data) > MOST_DOCUMENT:
        raise InvalidInputError(f"{name}: expected a document of at most {MOST_DOCUMENT:,} bytes, got {len(data):,}")


def opened(folder: int, name: str, flags: int, *, make: bool) -> int:
    """Return a descriptor of a folder in another one; with `make` it is made where it is missing, and on the disk."""
    if make:
        with suppress(FileNotFoundError):
            return os.open(name, flags, dir_fd=folder)
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
        # What is written there would be lost with it. Here it may be open only to be passed through.
        settle(".", folder)
    return os.open(name, flags, dir_fd=folder)


def settle(path: str, folder: int | None = None) -> None:
    """Bring the names in a folder to the disk; its path may start from another, open one."""
    descriptor = os.open(path, LISTED, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_up_to(folder: int, name: str, most: int, start: int = 0) -> bytes:
    """Return so many bytes of a file, or fewer where it ends before."""
    descriptor = os.open(name, _READ, dir_fd=folder)
    try:
        content = piece = os.pread(descriptor, most, start)
        while piece and len(content) < most:
            piece = os.pread(descriptor, most - len(content), start + len(content))
            content += piece
        return content
    finally:
        os.close(descriptor)


@contextmanager
def written_beside(folder: int, name: str, pieces: Sequence[bytes | memoryview], *, durable: bool) -> Iterator[str]:
    """Yield the name of a new file with that content in the same folder; afterwards it is gone."""
    temporary = f"{name}.{uuid4().hex}{PARTIAL}"
    try:
        with os.fdopen(os.open(temporary, _NEW, 0o666, dir_fd=folder), "wb") as file:
            for piece in pieces:
                file.write(piece)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        yield temporary
    finally:
        unlink(folder, temporary)


def written_exclusively(folder: int, name: str, data: bytes) -> bool:
    """Write a file that does not exist yet; return False, and change nothing, where it does."""
    try:
        with os.fdopen(os.open(name, _NEW, 0o666, dir_fd=folder), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        return False
    return True


def put_back(folder: int, taken: str, name: str) -> None:
    """Give a file its name back, unless another file has that name by now."""
    try:
        os.link(taken, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return
    except OSError:
        # A file system without hard links.
        os.rename(taken, name, src_dir_fd=folder, dst_dir_fd=folder)


def unlink(folder: int, name: str) -> None:
    """Remove a file, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def entries(folder: int, prefix: str) -> list[Entry]:
    """Return the entries of a folder, each name with `prefix` before it: first files, then folders, each sorted."""
    found = []
    with os.scandir(folder) as listing:
        for entry in listing:
            with suppress(FileNotFoundError):  # removed meanwhile
                if entry.is_dir(follow_symlinks=False):
                    found.append(Entry(prefix + entry.name, "folder", 0))
                    continue
                status = entry.stat(follow_symlinks=False)
                kind = kind_of(status.st_mode)
                found.append(Entry(prefix + entry.name, kind, status.st_size if kind == "file" else 0))
    return sorted(found, key=lambda entry: (entry.kind == "folder", entry.name))
