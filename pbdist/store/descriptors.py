"""What is done in one open folder by its descriptor: no link is followed."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple
from uuid import uuid4

from pbdist.store.irregular import kind_of

__all__ = [
    "LISTED",
    "PARTIAL",
    "PASSED",
    "Entry",
    "entries",
    "opened",
    "put_back",
    "read_up_to",
    "unlink",
    "written_beside",
    "written_exclusively",
]

#: What the name of a file ends in that is being written, or that a killed process has left behind.
PARTIAL = ".partial"

#: For a folder that is only passed through, which need not be one that may be listed.
PASSED = os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
#: For a folder that is listed, or brought to the disk.
LISTED = os.O_DIRECTORY | os.O_RDONLY
#: A named pipe that somebody puts there at the last moment must not make it wait.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class Entry(NamedTuple):
    """What a folder has under a name: ``file``, ``folder``, or what else it is; and its bytes, of a file."""

    name: str
    kind: str
    size: int


def opened(folder: int, name: str, flags: int, *, make: bool) -> int:
    """Return a descriptor of a folder in another one."""
    if make:
        with suppress(FileNotFoundError):
            return os.open(name, flags, dir_fd=folder)
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
    return os.open(name, flags, dir_fd=folder)


def read_up_to(folder: int, name: str, most: int) -> bytes:
    """Return the first bytes of a file."""
    descriptor = os.open(name, _READ, dir_fd=folder)
    try:
        content = piece = os.read(descriptor, most)
        while piece and len(content) < most:
            piece = os.read(descriptor, most - len(content))
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
    """Give a file its name back, unless there is another of that name by now."""
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
    """Return what lies in a folder, each name with `prefix` before it: files first, then folders, and these sorted."""
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
