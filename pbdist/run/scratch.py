"""Keep the arrays of a giant cell on a disk or in an object store while it is computed."""

import os
import re
import struct
import zlib
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pbdist.buckets.blocked import VectorStore
from pbdist.store.folder import Folder
from pbdist.store.outages import PATIENCE_SECONDS
from pbdist.store.place import PARTIAL, LocalPlace, Place, place_at, with_patience

__all__ = ["FolderScratch", "PlaceScratch", "Scratch", "refuse_linked_scratch", "scratch_at", "scratch_of"]

#: Magic bytes, CRC-32 of all bytes after it, kind of number, number of dimensions, their lengths.
_HEADER = struct.Struct("<4sIcB2xQQ")
_MAGIC = b"PBV1"
_AFTER_CHECKSUM = 8
#: The end of the names of its files, also of those being written: no other file is ever removed.
_BLOCK = ".pbdist-block"
_BLOCK_FILE = re.compile(rf"{re.escape(_BLOCK)}(\.[0-9a-f]{{32}}{re.escape(PARTIAL)})?$")
_KINDS = {b"d": np.dtype("<f8"), b"D": np.dtype("<c16")}


class Scratch(VectorStore, Protocol):
    """Holds the arrays of one cell in files."""

    def clear(self) -> None:
        """Remove everything."""


class FolderScratch:
    """Arrays as files in a folder that every worker sees; they may be lost in a crash of the machine.

    The files lie in `inside`, a folder in `folder`, or in `folder` itself. `folder` is an absolute path below which no
    link is followed; it need not exist.
    """

    def __init__(self, folder: str, inside: str = "") -> None:
        # The folder of a store is not created: without it there is no store either.
        self._folder, self._inside = Folder(folder, kept=bool(inside)), inside

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return an array."""
        return _decoded(self._folder.read(self._file(name), _most_bytes()), name)

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Keep an array, whole or not at all."""
        self._folder.write(self._file(name), _encoded(array), durable=False)

    def remove(self, name: str) -> None:
        """Forget an array."""
        self._folder.remove(self._file(name))

    def clear(self) -> None:
        """Remove every block, and folders that are then empty."""
        found = list(self._folder.walk(self._inside))
        for entry in found:
            if entry.kind == "file" and _BLOCK_FILE.search(entry.name):
                self._folder.remove(entry.name)
        for entry in reversed(found):
            if entry.kind == "folder":
                self._folder.remove_empty(entry.name)
        if self._inside:
            self._folder.remove_empty(self._inside)
        else:
            with suppress(OSError):  # Other files are in it.
                os.rmdir(self._folder.path)

    def _file(self, name: str) -> str:
        return f"{self._inside}/{name}{_BLOCK}" if self._inside else f"{name}{_BLOCK}"


class PlaceScratch:
    """Arrays as files of a `Place` in which nothing else lies."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return an array."""
        return _decoded(self._place.read(f"{name}{_BLOCK}", _most_bytes()), name)

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


def scratch_at(where: str, patience: float = PATIENCE_SECONDS) -> Scratch:
    """Return the scratch at a path or a URL that every worker sees; other files there stay.

    Requests to an object store are retried for `patience` seconds.
    """
    place = with_patience(place_at(where), patience)
    return FolderScratch(place.url) if isinstance(place, LocalPlace) else PlaceScratch(place)


def scratch_of(store: str, patience: float = PATIENCE_SECONDS) -> Scratch:
    """Return the scratch beside a store, ``.NAME.scratch`` in the same folder or prefix; links are not followed."""
    folder, _, name = store.rpartition("/")
    inside = f".{name}.scratch"
    if isinstance(place_at(store), LocalPlace):
        return FolderScratch(folder or "/", inside)
    return scratch_at(f"{folder}/{inside}", patience)


def refuse_linked_scratch(store: Place) -> None:
    """Raise `IrregularError` if the scratch beside a store is a link, a named pipe, a socket or a device."""
    if isinstance(store, LocalPlace):
        folder, _, name = store.url.rpartition("/")
        Folder(folder or "/").entries(f".{name}.scratch")


def _most_bytes() -> int:
    """Return the most bytes of a block: the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


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
