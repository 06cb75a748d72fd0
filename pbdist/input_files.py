"""Input files: only regular files of a limited size are read, as a named pipe would wait for ever."""

import errno
from pathlib import Path
from typing import BinaryIO

from pbdist.errors import InvalidInputError


def opened_input(path: Path, most: int) -> BinaryIO:
    """Open a regular file of at most `most` bytes for reading.

    The ``strerror`` of an `OSError` says what the path is instead, or how large the file is.
    """
    size = path.stat().st_size
    if not path.is_file():
        raise OSError(errno.EINVAL, "a folder" if path.is_dir() else "no regular file", str(path))
    if size > most:
        raise OSError(errno.EFBIG, f"{size:,} bytes, more than the {most:,} that are allowed", str(path))
    return path.open("rb")


def read_input(path: Path, most: int) -> bytes:
    """Return the content of a file of at most `most` bytes; errors as in `opened_input`."""
    with opened_input(path, most) as file:
        return file.read()


def check_outside(path: Path, store: str | Path, field: str) -> None:
    """Refuse a path inside a store, which holds only its own files; the `InvalidInputError` names `field`."""
    if "://" not in str(store) and path.resolve().is_relative_to(Path(store).resolve()):
        raise InvalidInputError(f"{field}: expected a path outside the store, got {path}")
