"""Arrays of a giant cell on a disk or an object store, for as long as the cell is computed."""

import os
import re
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from pbdist.buckets.blocked import VectorStore
from pbdist.store.place import PARTIAL, LocalPlace, Place, place_at

__all__ = ["FolderScratch", "PlaceScratch", "Scratch", "scratch_at", "scratch_of"]

#: Magic bytes, CRC-32 of all that follows it, kind of number, number of dimensions, their lengths.
_HEADER = struct.Struct("<4sIcB2xQQ")
_MAGIC = b"PBV1"
_AFTER_CHECKSUM = 8
#: What the names of its files end in, those being written too: nothing else is ever removed.
_BLOCK = ".pbdist-block"
_BLOCK_FILE = re.compile(rf"{re.escape(_BLOCK)}(\.[0-9a-f]{{32}}{re.escape(PARTIAL)})?$")
_KINDS = {b"d": np.dtype("<f8"), b"D": np.dtype("<c16")}


class Scratch(VectorStore, Protocol):
    """Holds the arrays of one cell in files."""

    def clear(self) -> None:
        """Remove everything."""


class FolderScratch:
    """Arrays as files in a folder that every worker sees; nothing is kept from a crash of the machine.

    Parameters
    ----------
    folder : str
        Its absolute path; it need not exist.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return an array."""
        return _decoded((Path(self._folder) / f"{name}{_BLOCK}").read_bytes(), name)

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Keep an array, whole or not at all."""
        path = Path(self._folder) / f"{name}{_BLOCK}"
        partial = path.with_name(f"{path.name}.{uuid4().hex}{PARTIAL}")
        header, data = _encoded(array)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as file:
                file.write(header)
                file.write(data)
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise

    def remove(self, name: str) -> None:
        """Forget an array."""
        (Path(self._folder) / f"{name}{_BLOCK}").unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove every block, and the folders that are empty then."""
        for folder, _, files in os.walk(self._folder, topdown=False):
            for file in files:
                if _BLOCK_FILE.search(file):
                    Path(folder, file).unlink(missing_ok=True)
            with suppress(OSError):  # Something of somebody else's is in it.
                Path(folder).rmdir()


class PlaceScratch:
    """Arrays as files of a `Place`.

    Parameters
    ----------
    place : Place
        Where; nothing else lies there.
    """

    def __init__(self, place: Place) -> None:
        self._place = place

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return an array."""
        return _decoded(self._place.read(f"{name}{_BLOCK}"), name)

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Keep an array, whole or not at all."""
        header, data = _encoded(array)
        self._place.write(f"{name}{_BLOCK}", header + data)

    def remove(self, name: str) -> None:
        """Forget an array."""
        self._place.remove(f"{name}{_BLOCK}")

    def clear(self) -> None:
        """Remove every block."""
        for name, _ in list(self._place.names()):
            if _BLOCK_FILE.search(name):
                self._place.remove(name)


def scratch_at(where: str) -> Scratch:
    """Return the scratch at a path or a URL, which every worker sees; what else lies there stays."""
    place = place_at(where)
    return FolderScratch(place.url) if isinstance(place, LocalPlace) else PlaceScratch(place)


def scratch_of(store: str) -> Scratch:
    """Return the scratch beside a store, at the same path or URL but for the name, ``.NAME.scratch``."""
    folder, _, name = store.rpartition("/")
    return scratch_at(f"{folder}/.{name}.scratch")


def _encoded(array: npt.NDArray[Any]) -> tuple[bytes, bytes | memoryview]:
    kind = array.dtype.char.encode()
    if kind not in _KINDS or array.ndim not in (1, 2):
        raise ValueError(f"scratch: expected a vector or matrix of float64 or complex128, got {array.dtype}")
    contiguous = np.ascontiguousarray(array, dtype=_KINDS[kind])
    data = contiguous.reshape(-1).view(np.uint8).data
    shape = (*array.shape, 0)[:2]
    unchecked = _HEADER.pack(_MAGIC, 0, kind, array.ndim, *shape)
    checksum = zlib.crc32(data, zlib.crc32(unchecked[_AFTER_CHECKSUM:]))
    return _HEADER.pack(_MAGIC, checksum, kind, array.ndim, *shape), data


def _decoded(content: bytes, name: str) -> npt.NDArray[Any]:
    view = memoryview(content)
    damaged = OSError(f"{name}: expected an array of a giant cell, got a damaged file")
    if len(view) < _HEADER.size:
        raise damaged
    magic, checksum, kind, dimensions, rows, columns = _HEADER.unpack(view[: _HEADER.size])
    if magic != _MAGIC or zlib.crc32(view[_AFTER_CHECKSUM:]) != checksum:
        raise damaged
    shape = (rows, columns)[:dimensions]
    return np.frombuffer(view[_HEADER.size :], dtype=_KINDS[kind]).reshape(shape)
