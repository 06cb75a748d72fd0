"""Compute giant cells, too large for one worker, in blocks on all workers; keep the blocks beside the store."""

import os
import re
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from pbdist.arguments import DEFAULT_BUCKETS, half_width_of
from pbdist.buckets import (
    Layout,
    Mapper,
    VectorStore,
    Work,
    layout_within,
)
from pbdist.errors import BatchError, InvalidInputError, StoreUnreachableError
from pbdist.progress import Hearer
from pbdist.run.batch import Receipt, Task, fill
from pbdist.run.events import CellWatch, Executor, Failure, worker_name
from pbdist.store import PATIENCE_SECONDS, BatchWriter, LocalPlace, ObjectPlace, Place, Trouble, place_at, with_patience
from pbdist.store.files import PARTIAL, Folder
from pbdist.study import Cell, StudySpec
from pbdist.table import BoundsTable, bounds_table

#: What a worker's process takes before it computes anything.
BASE_BYTES = 220 << 20
#: The part of a worker's memory that is used: Dask gives no tasks to a worker that takes more than 80 %.
_USABLE = 0.78
#: Magic bytes, CRC-32 of all bytes after it, kind of number, number of dimensions, their lengths.
_HEADER = struct.Struct("<4sIcB2xQQ")
_MAGIC = b"PBV1"
_AFTER_CHECKSUM = 8
#: The end of the names of blocks, also of those being written: no other file is ever removed.
_BLOCK = ".pbdist-block"
_BLOCK_FILE = re.compile(rf"{re.escape(_BLOCK)}(\.[0-9a-f]{{32}}{re.escape(PARTIAL)})?$")
_KINDS = {b"d": np.dtype("<f8"), b"D": np.dtype("<c16")}

Item = TypeVar("Item")
Result = TypeVar("Result")


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


def run_giant_batch(task: Task, *, executor: Executor, pause: float) -> Receipt:
    """Compute the cells of the only batch of a task on all workers; write and commit them from this process.

    `pause` is the time between two reports of a cell, see `CellWatch`.

    Raises
    ------
    OSError
        The results, or the blocks, cannot be written.
    """
    began = time.perf_counter()
    (batch,), (cells,), settings = task.batches, task.cells, task.head.settings
    memory = executor.worker_bytes
    if memory is None:
        raise InvalidInputError("memory_limit: expected workers with a limit, for cells too large for one, got none")
    place = task.head.place
    patience = place.patience if isinstance(place, ObjectPlace) else 0.0
    scratch = scratch_of(place.url.removesuffix(f"/{task.head.part}"), patience)
    writer = BatchWriter(task.head, batch, cells)
    with CellWatch(task.head.part, pause) as watch:
        mapper = ExecutorMapper(executor, watch.detail)
        computing, failures = fill(
            writer,
            batch,
            cells,
            lambda cell: compute(settings, cell, mapper, scratch, memory, check=task.head.check),
            task.refused,
            watch=watch,
        )
    written = writer.commit()
    return Receipt(batch.index, time.perf_counter() - began, computing, written, failures, worker_name())


def compute(
    study: StudySpec,
    cell: Cell,
    mapper: Mapper,
    scratch: Scratch,
    worker_bytes: int,
    *,
    check: Callable[[], object] = lambda: None,
) -> BoundsTable:
    """Compute a cell of privacy buckets in blocks; bit for bit the table of `pbdist.table.bounds_table`.

    This process itself holds a few numbers for each block; with ``keep_states`` also 32 bytes for each bucket,
    direction and r. The scratch must be seen by every worker. It is emptied before and afterwards, unless `check`
    raises an `OSError`: it does where another run may have its blocks there.

    Raises
    ------
    InvalidInputError
        The study has another method, or the smallest blocks are too large for a worker; the text has both figures.
    """
    if study.method != "buckets":
        raise InvalidInputError(f"giant cell: expected method buckets, got {study.method}")
    # A new name: a worker of an earlier run may still write blocks.
    work = Work(scratch, mapper, layout_of(study, worker_bytes), name=uuid4().hex)
    check()
    scratch.clear()
    try:
        return bounds_table(
            [(cell.pair, 1)],
            method="buckets",
            compositions=study.compositions,
            epsilon=study.epsilon,
            buckets=study.buckets,
            factor=cell.factor,
            keep_states=study.keep_states,
            work=work,
        )
    finally:
        # The next cell, or the end of the run, removes what stays; an error here would hide the result.
        with suppress(OSError):
            check()
            scratch.clear()


class ExecutorMapper:
    """Does the same work on many items wherever an executor, which must be started, computes.

    `told` is called with what is counted, how many items of a map are done, and how many there are.
    """

    def __init__(self, executor: Executor, told: Hearer | None = None) -> None:
        self._executor, self._told = executor, told

    @property
    def parallel(self) -> int:
        """How many items are worked on at the same time."""
        return self._executor.parallelism

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the result of each item, in the order of the items.

        Raises
        ------
        StoreUnreachableError, OSError
            An item cannot read or write its blocks.
        BatchError
            An item fails otherwise, or kills its workers.
        WorkersLostError
            The workers are gone.
        """
        early: dict[int, Result] = {}
        following = 0
        for count, done in enumerate(self._executor.run(partial(_second, function), enumerate(items)), start=1):
            if isinstance(done.result, Failure):
                if done.result.trouble is Trouble.PASSING and done.result.errno is None:
                    raise StoreUnreachableError(done.result.cause)
                if done.result.errno is not None:
                    raise OSError(done.result.errno, done.result.cause)
                raise BatchError(done.result.cause)
            early[done.item[0]] = done.result
            if self._told is not None:
                self._told("task", count, len(items))
            while following in early:
                yield early.pop(following)
                following += 1


def _second(function: Callable[[Item], Result], numbered: tuple[int, Item]) -> Result:
    return function(numbered[1])


def layout_of(study: StudySpec, worker_bytes: int) -> Layout:
    """Return sizes of blocks and tasks that fit into a worker's memory.

    Raises
    ------
    InvalidInputError
        None fit; the text has both figures.
    """
    return layout_within(_buckets(study), int(worker_bytes * _USABLE) - BASE_BYTES)


def scratch_bytes(study: StudySpec) -> int:
    """Return an upper bound on the bytes that a cell takes on its scratch at any one time."""
    size = _buckets(study) + 1
    rungs = study.compositions[-1].bit_length()
    # The ladder, a result, its partner and two squared lists; spectra of both vectors, sums and their finer cuts.
    return 8 * size * (4 * (rungs + 4) + 4 + 4 + 8)


def _buckets(study: StudySpec) -> int:
    return 2 * half_width_of(DEFAULT_BUCKETS if study.buckets is None else study.buckets)


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
