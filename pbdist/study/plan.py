"""What a study will take: batches of cells, seconds and bytes, from the study alone. Nothing is run.

The projections do not depend on the machine, so that the same study always has the same batches and the same store.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np

from pbdist.notebook import html_of_fields
from pbdist.study.costs import CellCost, cell_costs
from pbdist.study.spec import StudySpec
from pbdist.types import FloatArray, IntArray

#: A batch should take about this long, in seconds: long against a task's overhead, short against a lost worker.
_BATCH_SECONDS = 5.0
#: Batches that take longer than this may hold no more than this share of the work, unless single cells take so long.
_LONG_SECONDS, _LONG_SHARE = 10.0, 0.1
#: No batch holds more than this share of a study, so that several workers finish together.
_SMALLEST_SHARE = 16
#: Bytes of a chunk of bounds, of which a worker holds some copies.
_CHUNK_BYTES = 2**25
#: Bytes of a worker process before it computes anything.
_BASE_BYTES = 250 * 2**20
#: Arrays of the bounds, and how often a worker holds those of a batch: as tables, as one array, and encoded.
_BOUND_ARRAYS, _BOUND_COPIES = 4, 3
#: Bytes of the metadata of a store, of each batch, of each cell, and of each kept state.
_STORE_BYTES, _BATCH_BYTES, _CELL_BYTES, _STATE_BYTES = 60_000, 8_000, 300, 6_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive cells that are computed and stored together: one chunk of the store.

    `index` is its number, `stop` the cell after the last, `seconds` the projected time on one core, `partly` whether
    the store has some of its cells from an earlier attempt.
    """

    index: int
    start: int
    stop: int
    seconds: float
    partly: bool = False


class Batches(Sequence[Batch]):
    """The batches in the order of their submission: the longest first, so that none is left for the end.

    Each is made when it is accessed, so that a million of them take megabytes. Every batch but the last has `length`
    cells; `cell_seconds` is the projected time of each cell.
    """

    def __init__(self, length: int, cell_seconds: FloatArray) -> None:
        self.length = length
        self.cells = cell_seconds.size
        self._seconds: FloatArray = np.add.reduceat(cell_seconds, np.arange(0, self.cells, length))
        self._order = np.argsort(-self._seconds, kind="stable")

    def __len__(self) -> int:
        """Return the number of batches."""
        return self._seconds.size

    @overload
    def __getitem__(self, index: int) -> Batch: ...
    @overload
    def __getitem__(self, index: slice) -> list[Batch]: ...
    def __getitem__(self, index: int | slice) -> Batch | list[Batch]:
        """Return a batch by its rank in the order, or a list of them."""
        found = self._order[index]
        return [self.of(chunk) for chunk in found.tolist()] if isinstance(index, slice) else self.of(int(found))

    def __iter__(self) -> Iterator[Batch]:
        """Iterate in order."""
        return (self.of(int(chunk)) for chunk in self._order)

    def __eq__(self, other: object) -> bool:
        """Whether the batches are the same, with the same projections."""
        if not isinstance(other, Batches):
            return NotImplemented
        return self.length == other.length and np.array_equal(self._seconds, other._seconds)

    __hash__ = None  # type: ignore[assignment]  # as of any sequence that holds an array

    def of(self, index: int) -> Batch:
        """Return the batch of a chunk's number."""
        start = index * self.length
        return Batch(index, start, min(start + self.length, self.cells), float(self._seconds[index]))

    @property
    def seconds(self) -> FloatArray:
        """Projected seconds in order."""
        return self._seconds[self._order]


@dataclass(frozen=True)
class Plan:
    """A study cut into batches, and what it is projected to take.

    Attributes
    ----------
    study
        The study.
    cells_per_batch
        The length of a chunk along the cells.
    batches
        In the order of their submission, the longest first.
    seconds
        Projected time on one core.
    worker_bytes
        Projected peak memory of one worker process, the largest of any cell.
    store_bytes
        Upper estimate of the size of the store, before compression.
    cell_seconds, cell_bytes
        Of each cell in the order of the study: projected time on one core, and peak memory of a worker process.
    """

    study: StudySpec
    cells_per_batch: int
    batches: Batches
    seconds: float
    worker_bytes: int
    store_bytes: int
    cell_seconds: FloatArray = field(compare=False, repr=False)
    cell_bytes: IntArray = field(compare=False, repr=False)

    def _repr_html_(self) -> str:
        """Return what the study will take as a small table, for notebooks."""
        fields = {
            **self.study.told(),
            "batches": f"{len(self.batches):,} of up to {self.cells_per_batch:,} cells",
            "time": f"about {duration(self.seconds)} on one core",
            "memory": f"up to {size(self.worker_bytes)} a worker",
            "store": f"up to {size(self.store_bytes)}",
        }
        return html_of_fields(f"Plan of the study {self.study.name}", fields)


def plan_study(study: StudySpec, cells_per_batch: int | None = None) -> Plan:
    """Return the plan of a study: a function of the study, and of the batch length where a store already has one."""
    costs, class_of = cell_costs(study)
    cell_seconds = np.array([cost.seconds for cost in costs])[class_of]
    points_bytes = 8 * 2 * len(study.compositions) * len(study.epsilon)
    length = batch_length(cell_seconds, points_bytes) if cells_per_batch is None else cells_per_batch
    process_bytes = _BASE_BYTES + _BOUND_ARRAYS * _BOUND_COPIES * points_bytes * min(length, len(study.cells))
    cell_bytes = process_bytes + np.array([cost.peak_bytes for cost in costs], dtype=np.int64)[class_of]
    batches = Batches(length, cell_seconds)
    return Plan(
        study=study,
        cells_per_batch=length,
        batches=batches,
        seconds=float(cell_seconds.sum()),
        worker_bytes=int(cell_bytes.max()),
        store_bytes=_store_bytes(study, len(batches), costs, class_of),
        cell_seconds=cell_seconds,
        cell_bytes=cell_bytes,
    )


class Planner:
    """Plans each study once: a study of the same digest and batch length gets the plan that was made before."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, int | None], Plan] = {}

    def plan(self, study: StudySpec, cells_per_batch: int | None = None) -> Plan:
        """Return the plan of a study, as `plan_study`; it may be that of an equal study of another name."""
        key = study.digest, cells_per_batch
        if key not in self._made:
            made = plan_study(study, cells_per_batch)
            self._made[key] = self._made[study.digest, made.cells_per_batch] = made
        return self._made[key]


def batch_length(cell_seconds: FloatArray, cell_bytes: int) -> int:
    """Return how many cells a batch has: a power of 2, a function of the projections alone.

    The largest with which a second of work is, on average, in a batch of at most 5 s, and few are in one of more than
    10 s: some long cells among many short ones do not make all batches small. `cell_bytes` is what one cell takes in a
    chunk of bounds.
    """
    most = max(1, min(cell_seconds.size // _SMALLEST_SHARE, _CHUNK_BYTES // cell_bytes))
    length = 1 << (most.bit_length() - 1)
    total = float(cell_seconds.sum())
    long_work = float(cell_seconds[cell_seconds > _LONG_SECONDS].sum()) + _LONG_SHARE * total
    while length > 1:
        seconds = np.add.reduceat(cell_seconds, np.arange(0, cell_seconds.size, length))
        typical = float(seconds @ seconds) / total
        if typical <= _BATCH_SECONDS and float(seconds[seconds > _LONG_SECONDS].sum()) <= long_work:
            break
        length //= 2
    return length


def _store_bytes(study: StudySpec, batches: int, costs: Sequence[CellCost], class_of: IntArray) -> int:
    points = 2 * len(study.compositions) * len(study.epsilon)
    total = _STORE_BYTES + _BATCH_BYTES * batches + len(study.cells) * (_CELL_BYTES + (8 * _BOUND_ARRAYS + 1) * points)
    if study.keep_states:
        members = np.bincount(class_of, minlength=len(costs)).tolist()
        total += sum(count * cost.state_bytes for count, cost in zip(members, costs, strict=True))
        total += 2 * len(study.cells) * len(study.compositions) * _STATE_BYTES
    return total


def duration(seconds: float) -> str:
    """Return seconds as text: ``12.5 s``, ``3.4 min``, ``7.25 h``, ``11.2 days``."""
    for least, unit, length in ((172_800.0, "days", 86_400.0), (7_200.0, "h", 3_600.0), (120.0, "min", 60.0)):
        if seconds >= least:
            return f"{_short(seconds / length)} {unit}"
    return f"{_short(seconds)} s"


def size(count: float) -> str:
    """Return bytes as text: ``812 B``, ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{_short(count)} {unit}"
        count /= 1024
    return f"{_short(count)} TiB"


def _short(value: float) -> str:
    """Return three digits, or all before the point; never an exponent."""
    return f"{value:.0f}" if value >= 999.5 else f"{value:.3g}"
