"""Input files: only regular files of a limited size are read.

A named pipe would wait forever, a device never ends, and a sparse file of terabytes costs nothing to make.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pbdist.errors import InvalidInputError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
#: Without waiting for the other end of a named pipe that takes the file's place at the last moment.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def opened_input(path: Path, most: int) -> Iterator[BinaryIO]:
    """Yield a regular file, opened for reading; links to it are followed.

    The ``strerror`` of an `OSError` says what the path is instead, or that it has more than `most` bytes.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "a path with a null character", str(path))
    # Before it is opened: that alone makes some devices do something.
    _check(path, os.stat(path), most)
    with os.fdopen(os.open(path, _READ), "rb") as file:
        _check(path, os.fstat(file.fileno()), most)
        yield file


def read_input(path: Path, most: int) -> bytes:
    """Return the content of a file of at most `most` bytes; errors as in `opened_input`."""
    with opened_input(path, most) as file:
        content = file.read(most + 1)
    if len(content) > most:
        # It has grown since.
        raise _too_large(path, len(content), most)
    return content


def check_outside(path: Path, store: str | Path, field: str) -> None:
    """Refuse a path inside a store, which holds only its own files; the `InvalidInputError` names `field`."""
    if "://" not in str(store) and path.resolve().is_relative_to(Path(store).resolve()):
        raise InvalidInputError(f"{field}: expected a path outside the store, got {path}")


def _check(path: Path, found: os.stat_result, most: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, _KINDS.get(stat.S_IFMT(found.st_mode), "no regular file"), str(path))
    if found.st_size > most:
        raise _too_large(path, found.st_size, most)


def _too_large(path: Path, size: int, most: int) -> OSError:
    return OSError(errno.EFBIG, f"{size:,} bytes, more than the {most:,} that are allowed", str(path))
