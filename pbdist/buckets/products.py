"""Spectra of the chunks of giant vectors and the sums of their products, as tasks that write slices of frequencies.

A task that transforms holds some chunks at all frequencies; a task that adds up products holds all chunks at some
frequencies. What goes from the ones to the others lies in the store.
"""

from dataclasses import dataclass

import numpy as np

from pbdist.buckets.blocked_vectors import VectorStore
from pbdist.buckets.layout import Work
from pbdist.fourier.chunk_plan import Run
from pbdist.fourier.chunked_convolution import Windows, block_sums, chunk_spectra, reach, run_windows, widths
from pbdist.fourier.vectors import Chunks
from pbdist.types import ComplexArray, FloatArray

#: Frequencies of a slice, at least: numpy adds up a few of them in another order.
_FEWEST_FREQUENCIES = 64
#: Complex numbers that are worth a task.
_SHORTEST_TASK = 1 << 20


@dataclass(frozen=True, eq=False)
class RunSums:
    """Where the sums of a run's blocks lie.

    Attributes
    ----------
    tilt, start, stop
        Those of the run.
    width
        What `widths` returned.
    names
        For each group of blocks its first block, the one after its last, and the names of its slices, in order.
    """

    tilt: float
    start: int
    stop: int
    width: FloatArray
    names: tuple[tuple[int, int, tuple[str, ...]], ...]


@dataclass(frozen=True, eq=False)
class _Spectra:
    """Some chunks to be transformed, where to cut the frequencies, and the name of each slice."""

    store: VectorStore
    chunks: Chunks
    start: int
    stop: int
    tilt: float
    cuts: tuple[tuple[int, int], ...]
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Products:
    """A slice of frequencies: the names of the spectra of x and of y (none if it is x), and of the groups' sums."""

    store: VectorStore
    x: tuple[str, ...]
    y: tuple[str, ...]
    windows: Windows
    groups: tuple[tuple[int, int], ...]
    names: tuple[str, ...]
    frequencies: int


def _cut(start: int, stop: int, step: int) -> list[tuple[int, int]]:
    """Cut a range into parts of `step`; the last one may be shorter."""
    return [(first, min(first + step, stop)) for first in range(start, stop, step)]


def run_sums(run: Run, chunks: tuple[Chunks, Chunks], work: Work, name: str) -> RunSums:
    """Add up the products of all blocks of a run; all names that are written begin with `name`.

    The chunks of x and of y are one object if the vectors are the same.
    """
    store, mapper, layout = work.store, work.mapper, work.layout
    chunks_x, chunks_y = chunks
    same = chunks_x is chunks_y
    chunk = chunks_x.shape[1]
    reach_x, reach_y = reach(run)
    held = reach_x[1] - reach_x[0] + (0 if same else reach_y[1] - reach_y[0])
    wide = max(_FEWEST_FREQUENCIES, layout.spectra // max(1, held))
    narrow = max(_FEWEST_FREQUENCIES, _SHORTEST_TASK // max(1, held), -(-chunk // (2 * mapper.parallel)))
    slices = -(-(chunk + 1) // min(wide, narrow))
    cuts = tuple((part * (chunk + 1) // slices, (part + 1) * (chunk + 1) // slices) for part in range(slices))
    rows = max(1, layout.task // chunk)
    share = max(1, _SHORTEST_TASK // chunk, -(-held // (2 * mapper.parallel)))

    tasks = [
        _Spectra(
            store, one, start, stop, run.tilt, cuts, tuple(f"{name}/{side}{start}-{part}" for part in range(slices))
        )
        for side, one, (begin, end) in (("x", chunks_x, reach_x), ("y", chunks_y, (0, 0) if same else reach_y))
        for start, stop in _cut(begin, end, min(rows, share))
    ]
    norms = list(mapper.map(_write_spectra, tasks))
    of_x = [position for position, task in enumerate(tasks) if task.chunks is chunks_x]
    of_y = [position for position, task in enumerate(tasks) if task.chunks is not chunks_x]
    norms_x, norms_y = (np.concatenate([np.zeros(0), *(norms[position] for position in side)]) for side in (of_x, of_y))
    windows = run_windows(run)
    width = widths(run, windows, chunk, norms_x, norms_x if same else norms_y)

    groups = tuple(_cut(0, len(windows), rows))
    products = [
        _Products(
            store,
            tuple(tasks[position].names[part] for position in of_x),
            tuple(tasks[position].names[part] for position in of_y),
            windows,
            groups,
            tuple(f"{name}/s{begin}-{part}" for begin, _ in groups),
            stop - start,
        )
        for part, (start, stop) in enumerate(cuts)
    ]
    for _ in mapper.map(_write_products, products):
        pass
    for task in tasks:
        for written in task.names:
            store.remove(written)
    names = tuple(
        (run.start + start, run.start + stop, tuple(part.names[group] for part in products))
        for group, (start, stop) in enumerate(groups)
    )
    return RunSums(run.tilt, run.start, run.stop, width, names)


def _write_spectra(task: _Spectra) -> FloatArray:
    spectra, norms = chunk_spectra(task.chunks, task.start, task.stop, task.tilt)
    for (start, stop), name in zip(task.cuts, task.names, strict=True):
        task.store.write(name, np.ascontiguousarray(spectra[:, start:stop]))
    return norms


def _write_products(task: _Products) -> None:
    x = _gathered(task, task.x)
    y = _gathered(task, task.y) if task.y else x
    symmetric = not task.y
    for (start, stop), name in zip(task.groups, task.names, strict=True):
        task.store.write(name, block_sums(x, y, task.windows[start:stop], symmetric=symmetric))


def _gathered(task: _Products, names: tuple[str, ...]) -> ComplexArray:
    """Read the spectra of consecutive chunks, without holding them twice."""
    first = task.store.read(names[0]) if names else np.zeros((0, task.frequencies), dtype=np.complex128)
    if len(names) <= 1:
        return first
    # None of the other groups is longer.
    result = np.empty((len(names) * first.shape[0], task.frequencies), dtype=np.complex128)
    end = first.shape[0]
    result[:end] = first
    del first
    for name in names[1:]:
        part = task.store.read(name)
        result[end : end + part.shape[0]] = part
        end += part.shape[0]
    return result[:end]
