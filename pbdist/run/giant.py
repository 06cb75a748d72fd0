"""Compute giant cells, too large for one worker, in blocks on all workers; keep the blocks beside the store."""

import io
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from pbdist.arguments import DEFAULT_BUCKETS, half_width_of
from pbdist.buckets import Layout, Mapper, VectorStore, Work, layout_within
from pbdist.errors import BatchError, InvalidInputError
from pbdist.progress import report
from pbdist.quantities import size
from pbdist.run.events import TASK, Executor, Failure
from pbdist.run.task import Receipt, ScratchError, Task, cell_bounds, run_task
from pbdist.store import LocalPlace, ObjectPlace, Place
from pbdist.study import Cell, StudySpec
from pbdist.table import BoundsTable

#: What a worker's process takes before it computes anything.
BASE_BYTES = 220 << 20
#: The part of a worker's memory that is used: Dask gives no tasks to a worker that takes more than 80 %.
_USABLE = 0.78
#: Those of the checksum, so many that numbers are aligned; and of NumPy's header, at most.
_CHECKSUM_BYTES, _MAX_HEADER = 8, 256
#: The end of the names of blocks: no other file is ever removed.
_BLOCK = ".pbdist-block"

Item = TypeVar("Item")
Result = TypeVar("Result")


class Scratch(VectorStore):
    """Holds the arrays of one cell beside a store, in ``.NAME.scratch``; they may be lost in a crash of the machine.

    The place is that of a part of the store.
    """

    def __init__(self, place: Place, part: str = "") -> None:
        folder, _, name = place.url.removesuffix(f"/{part}").rpartition("/")
        url = f"{folder}/.{name}.scratch"
        self._place = replace(place, url=url) if isinstance(place, ObjectPlace) else LocalPlace(url)

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return an array."""
        with _scratch_errors():
            return _decoded(self._place.read(f"{name}{_BLOCK}"), name)

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Keep an array, whole or not at all."""
        header, data = _encoded(array)
        with _scratch_errors():
            if isinstance(self._place, LocalPlace):
                # Without waiting for the disk.
                target = Path(f"{self._place.url}/{name}{_BLOCK}")
                target.parent.mkdir(parents=True, exist_ok=True)
                temporary = target.with_name(f"{uuid4().hex}{_BLOCK}")
                with temporary.open("wb") as file:
                    file.writelines((header, data))
                temporary.replace(target)
            else:
                self._place.write(f"{name}{_BLOCK}", header + data)

    def remove(self, name: str) -> None:
        """Forget an array."""
        self._place.remove(f"{name}{_BLOCK}")

    def clear(self) -> None:
        """Remove every block."""
        for name, _ in list(self._place.names()):
            if name.endswith(_BLOCK):
                self._place.remove(name)
        if isinstance(self._place, LocalPlace):
            for folder, _, _ in os.walk(self._place.url, topdown=False):
                with suppress(OSError):  # Other files are in it.
                    os.rmdir(folder)


@contextmanager
def _scratch_errors() -> Iterator[None]:
    """Mark errors of the scratch: no cell is to blame."""
    try:
        yield
    except OSError as error:
        raise ScratchError(f"a block of a giant cell: {error}") from error


def run_giant_task(task: Task, *, executor: Executor, pause: float) -> tuple[Receipt | Failure, ...]:
    """Compute the cells of a task on all workers; write and commit them from this process, as `run_task` does."""
    mapper, scratch = ExecutorMapper(executor), Scratch(task.head.place, task.head.part)

    def bounds(settings: StudySpec, cell: Cell) -> BoundsTable:
        memory = executor.worker_bytes
        if memory is None:
            raise InvalidInputError("memory: cells too large for one worker need workers with a memory limit")
        return compute(settings, cell, mapper, scratch, memory)

    return run_task(task, pause=pause, bounds=bounds)


def compute(study: StudySpec, cell: Cell, mapper: Mapper, scratch: Scratch, worker_bytes: int) -> BoundsTable:
    """Compute a cell of privacy buckets in blocks; bit for bit the table of `cell_bounds`.

    This process itself holds a few numbers for each block; with ``keep_states`` also 32 bytes for each bucket,
    direction and r. The scratch must be seen by every worker. It is emptied before and afterwards.
    """
    # A new name: a worker of an earlier run may still write blocks.
    work = Work(scratch, mapper, layout_of(study, worker_bytes), name=uuid4().hex)
    scratch.clear()
    try:
        return cell_bounds(study, cell, work)
    finally:
        # The next cell removes what stays; an error here would hide the result.
        with suppress(OSError):
            scratch.clear()


class ExecutorMapper:
    """Does the same work on many items wherever an executor, which must be started, computes; reports each item."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    @property
    def parallel(self) -> int:
        """How many items are worked on at the same time."""
        return self._executor.parallelism

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the result of each item, in the order of the items.

        A `ScratchError` where blocks cannot be read or written, a `BatchError` where an item fails otherwise.
        """
        early: dict[int, Result] = {}
        following = 0
        for count, done in enumerate(self._executor.run(partial(_second, function), enumerate(items)), start=1):
            if isinstance(done.result, Failure):
                raise (ScratchError if done.result.store else BatchError)(done.result.cause)
            early[done.item[0]] = done.result
            report(TASK, count, len(items))
            while following in early:
                yield early.pop(following)
                following += 1


def _second(function: Callable[[Item], Result], numbered: tuple[int, Item]) -> Result:
    return function(numbered[1])


def layout_of(study: StudySpec, worker_bytes: int) -> Layout:
    """Return sizes of blocks and tasks that fit into a worker's memory; an error with both figures where none fit."""
    return layout_within(_buckets(study), int(worker_bytes * _USABLE) - BASE_BYTES)


def check_room(study: StudySpec, store: Place, worker_bytes: int) -> None:
    """Refuse giant cells whose blocks workers, or the disk of the store, have no room for."""
    layout_of(study, worker_bytes)
    if isinstance(store, LocalPlace):
        # The ladder, a result, its partner and two squared lists; spectra of both vectors, sums and their finer cuts.
        needed = 8 * (_buckets(study) + 1) * (4 * (study.compositions[-1].bit_length() + 4) + 4 + 4 + 8)
        folder = next(path for path in (Path(store.url), *Path(store.url).absolute().parents) if path.is_dir())
        if (free := shutil.disk_usage(folder).free) < needed:
            room = f"need {size(needed)} on the disk of the store, and {size(free)} are free in {folder}"
            raise InvalidInputError(f"buckets: cells that no worker's memory holds {room}")


def _buckets(study: StudySpec) -> int:
    return 2 * half_width_of(DEFAULT_BUCKETS if study.buckets is None else study.buckets)


def _encoded(array: npt.NDArray[Any]) -> tuple[bytes, memoryview]:
    """Return a header, a CRC-32 and that of NumPy's own format, and the bytes of an array."""
    array, header = np.ascontiguousarray(array), io.BytesIO()
    data = array.reshape(-1).view(np.uint8).data
    npy.write_array_header_1_0(header, npy.header_data_from_array_1_0(array))
    checksum = zlib.crc32(data, zlib.crc32(header.getvalue()))
    return checksum.to_bytes(_CHECKSUM_BYTES) + header.getvalue(), data


def _decoded(content: bytes, name: str) -> npt.NDArray[Any]:
    view = memoryview(content)[_CHECKSUM_BYTES:]
    if not view or zlib.crc32(view) != int.from_bytes(content[:_CHECKSUM_BYTES]):
        raise OSError(f"{name}: expected an array of a giant cell, got a damaged file")
    header = io.BytesIO(view[:_MAX_HEADER])
    npy.read_magic(header)
    shape, _, kind = npy.read_array_header_1_0(header)
    return np.frombuffer(view[header.tell() :], dtype=kind).reshape(shape)
