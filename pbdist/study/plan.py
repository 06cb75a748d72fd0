"""What a study will take: batches of cells, seconds and bytes, from the study alone. Nothing is run.

The projections do not depend on the machine, so that the same study always has the same batches and the same store.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pbdist.arguments import DEFAULT_BUCKETS, DEFAULT_TOLERANCE
from pbdist.enclosures import Fineness, enclosed_counts
from pbdist.errors import PbdistError
from pbdist.mechanisms import Pair, RandomAllocation, factor_counts
from pbdist.pld.cost import Cost, table_cost
from pbdist.pld.question import Question
from pbdist.quantities import duration, size
from pbdist.study.columns import Block, Cell, CellTable, Column, fields_of
from pbdist.study.spec import StudySpec
from pbdist.tables import Column as SheetColumn
from pbdist.tables import Printed, Sheet
from pbdist.types import FloatArray, IntArray

#: Classes of similar cells, at most; sizes are halved no more than so often to get there.
_MAX_CLASSES, _MAX_MERGERS = 200, 11
#: Sizes are binary orders of floats; that of 0 is below all others.
_OF_ZERO = -2000


def similar_cells(cells: Sequence[Cell]) -> tuple[IntArray, tuple[int, ...]]:
    """Return the class of each cell, and the number of one cell of each class: the middle one.

    Cells of a class have mechanisms of the same kind, and parameters of the same size.
    """
    numbers: dict[Hashable, int] = {}
    class_of = np.concatenate([_classes(block, numbers) for block in CellTable.of(cells).blocks])
    for _ in range(_MAX_MERGERS):
        if len(numbers) <= _MAX_CLASSES:
            break
        coarser = Column.of(map(_coarser, numbers))
        class_of, numbers = coarser.codes[class_of], {key: row for row, key in enumerate(coarser.values)}
    order, counts = np.argsort(class_of, kind="stable"), np.bincount(class_of, minlength=len(numbers))
    return class_of, tuple(order[np.cumsum(counts) - counts + counts // 2].tolist())


def _classes(block: Block, numbers: dict[Hashable, int]) -> IntArray:
    """Return the number of the key of each cell; new keys get new numbers.

    A key has an item for each parameter. So cells have the same key if the first cells with each of their values have;
    but for `Pair.cost_class`, which may depend on several parameters.
    """
    varying: list[tuple[Column, Callable[[Any], Hashable]]] = [
        (column, _key_of) for column in block.columns.values() if len(column.values) > 1
    ]
    varying += [(block.factor, _key_of_factor)] if len(block.factor.values) > 1 else []
    found = np.zeros(block.size, dtype=np.int64)
    for column, key_of in varying:
        codes, first, value = np.unique(column.codes, return_index=True, return_inverse=True)
        values = (key_of(column.values[code]) for code in codes.tolist())
        keys = Column.of(zip(values, map(_own_class_of, block.taken(first).pairs()), strict=True))
        found = found * len(keys.values) + keys.codes[value]
    if block.kind is not None and block.kind.cost_class is not Pair.cost_class and len(varying) > 1:
        keys = Column.of(map(_own_class_of, block.pairs()))
        found = found * len(keys.values) + keys.codes
    _, first, which = np.unique(found, return_index=True, return_inverse=True)
    number_of = np.empty(first.size, dtype=np.int64)
    for place in np.argsort(first).tolist():
        number_of[place] = numbers.setdefault(_key_of(block.cell(first[place])), len(numbers))
    return number_of[which]


def _key_of(value: Any) -> Any:
    """Return the kinds of what a value is made of, and the binary orders of its numbers."""
    kind: Any = type(value)
    if kind is float or kind is int:
        return math.frexp(value)[1] if value else _OF_ZERO
    if kind is Cell:
        return _key_of(value.pair), _key_of_factor(value.factor)
    if isinstance(value, Pair):
        return kind, *map(_key_of, fields_of(value).values()), *_own_class_of(value)
    if kind is tuple:
        # Of more values than two their number counts.
        long = len(value) > 2 and not isinstance(value[0], Pair)
        return _key_of(len(value)) if long else tuple(map(_key_of, value))
    return value


def _key_of_factor(factor: float | None) -> Any:
    return _key_of(None if factor is None else factor - 1.0)


def _own_class_of(pair: Pair) -> tuple[Hashable, ...]:
    """Return what else decides on the cost of a pair, beside the sizes of its parameters."""
    return pair.symmetric, *(one if type(one) is int else _key_of(one) for one in pair.cost_class())


def _coarser(key: Hashable) -> Hashable:
    if isinstance(key, tuple):
        return tuple(map(_coarser, key))
    return key >> 1 if type(key) is int else key


def cell_costs(study: StudySpec) -> tuple[list[Cost], IntArray]:
    """Return the cost of one cell of each class of similar ones, and the class of each cell."""
    class_of, examples = similar_cells(study.cells)
    return [cell_cost(study, study.cells[example]) for example in examples], class_of


def cell_cost(study: StudySpec, cell: Cell) -> Cost:
    """Return what one cell of a study is projected to take."""
    try:
        return _tight_cost(study, cell) if study.method == "tight" else _bucket_cost(study, cell)
    except Exception:  # noqa: BLE001 -- whatever a mechanism raises, its cell fails when it is computed, and no other
        return Cost(1.0, 1 << 28)


# Seconds, measured on one core of a 2-core machine for 2,000 to 2^22 buckets; right within a factor of 2.
#: Choosing the factor between buckets; a leaf of one direction; each of its buckets.
_SECONDS_PER_CHOICE, _SECONDS_PER_LEAF, _SECONDS_PER_LEAF_BUCKET = 0.07, 0.005, 1.0e-7
#: A composition step; an element of one of its FFTs, times log2 of their length, with all other work of the step.
_SECONDS_PER_STEP, _SECONDS_PER_FFT_POINT = 0.009, 1.2e-9
#: FFTs of one composition step: four self-convolutions of two transforms each.
_FFTS_PER_STEP = 8
#: One bucket of one (r, ε), upper and lower bound.
_SECONDS_PER_BUCKET_AND_POINT = 6.0e-9
#: Vectors of float64 held at once: as long as the state, and as long as an FFT.
_STATE_VECTORS, _FFT_VECTORS = 10, 6
#: Arrays of a saved state.
_SAVED_VECTORS = 4


def _bucket_cost(study: StudySpec, cell: Cell) -> Cost:
    """Return the cost of a cell by the method of privacy buckets."""
    rounds, directions = study.compositions, 1 if cell.pair.symmetric else 2
    state = study.buckets or DEFAULT_BUCKETS
    transform = 2 ** math.ceil(math.log2(2 * state))
    # The ladder, and the binary digits of every r.
    ladder = rounds[-1].bit_length()
    steps = ladder - 1 + sum(r.bit_count() - 1 for r in rounds)
    step = _SECONDS_PER_STEP + _FFTS_PER_STEP * _SECONDS_PER_FFT_POINT * transform * math.log2(transform)
    evaluation = _SECONDS_PER_BUCKET_AND_POINT * state * (len(rounds) * len(study.epsilon))
    leaf = _SECONDS_PER_LEAF + _SECONDS_PER_LEAF_BUCKET * state
    choice = _SECONDS_PER_CHOICE if cell.factor is None else 0.0
    saved = len(rounds) if study.keep_states else 0
    # The states of the ladder live until the last r that uses them is done, in the worst case all of them.
    peak = 8 * ((_STATE_VECTORS + _SAVED_VECTORS * (ladder + saved)) * state + _FFT_VECTORS * transform)
    seconds = choice + directions * (leaf + steps * step + evaluation)
    return Cost(seconds, peak, directions * saved * 8 * _SAVED_VECTORS * state)


#: A cell, and each of its points.
_SECONDS_PER_CELL, _SECONDS_PER_POINT = 1.0e-3, 3.0e-7
#: An outcome; its bytes.
_SECONDS_PER_OUTCOME, _BYTES_PER_OUTCOME = 2.0e-6, 2000
#: Peak memory of the climbs that make states close everywhere; writing a saved state, and each of its bytes.
_BYTES_PER_CLIMB = 250_000_000
_SECONDS_PER_STATE, _SECONDS_PER_STATE_BYTE = 0.005, 1.0e-8
#: Grids are thinned to this many r and ε; pairs of more outcomes are projected without their outcomes.
_MAX_ROUNDS, _MAX_EPSILON, _MAX_OUTCOMES = 10, 12, 2000
#: Of enclosures, the coarse and the fine ones: a product of sums of ratios, and more of it for finer ones; and those
#: that are good enough for a projection.
_SECONDS_PER_ENCLOSED_PRODUCT, _SECONDS_PER_RESOLUTION = 0.06, 2.0e-4
_PICTURE = Fineness(resolution=25.0, lost=1e-14, matters=1e-8)


def _tight_cost(study: StudySpec, cell: Cell) -> Cost:
    """Return the cost of a cell by the tight method; of the worst of several pairs, that of one after the other."""
    if cell.pair.is_worst_of_several:
        return sum((_tight_cost(study, replace(cell, pair=pair)) for pair in cell.pair.alternatives), Cost(0.0, 0))
    rounds, factors = _thinned(study.compositions, _MAX_ROUNDS), cell.pair.factors
    outcomes = sum(factor.outcomes for factor in factors)
    if outcomes > _MAX_OUTCOMES:
        factors = tuple(factor.cost_stand_in for factor in factors)
    counts = factor_counts([(factor, 1) for factor in factors])
    counts = enclosed_counts(counts, _PICTURE)
    tolerance = study.tolerance or DEFAULT_TOLERANCE
    question = Question(
        counts,
        np.array(rounds, dtype=np.int64),
        np.array(_thinned(study.epsilon, _MAX_EPSILON)),
        tolerance,
        study.floor,
        joint_directions=study.direction == "both",
    )
    width = None if cell.factor is None else math.log1p(cell.factor - 1.0)
    try:
        cost = table_cost(question, width=width, positions=study.buckets, keep_states=study.keep_states)
    except PbdistError:
        # The run reports the cell that cannot be computed, and computes the others.
        cost = Cost(0.0, 0)
    points = len(study.compositions) * len(study.epsilon)
    seconds = _SECONDS_PER_CELL + _SECONDS_PER_POINT * points + cost.seconds
    # The finest enclosure is about as fine as the tolerance says.
    steps = [pair.steps for factor in cell.pair.factors if isinstance(pair := factor.inner, RandomAllocation)]
    products = sum(number.bit_length() + number.bit_count() - 2 for number in steps)
    seconds += products * (_SECONDS_PER_ENCLOSED_PRODUCT + _SECONDS_PER_RESOLUTION / math.sqrt(tolerance))
    if outcomes > _MAX_OUTCOMES:
        seconds += _SECONDS_PER_OUTCOME * outcomes * len(question.directions)
    peak = cost.peak_bytes + _BYTES_PER_OUTCOME * outcomes
    if not study.keep_states:
        return Cost(seconds, peak)
    states = round(len(study.compositions) / len(rounds) * cost.state_bytes)
    seconds += _SECONDS_PER_STATE * len(study.compositions) + _SECONDS_PER_STATE_BYTE * states
    return Cost(seconds, peak + _BYTES_PER_CLIMB + 2 * states, states)


def _thinned(values: Sequence[float], most: int) -> list[float]:
    """Return at most `most` of the values, with the first and the last."""
    count = min(most, len(values))
    return [values[round(index * (len(values) - 1) / max(1, count - 1))] for index in range(count)]


#: A batch should take about this long, in seconds: long against a task's overhead, short against a lost worker.
_BATCH_SECONDS = 5.0
#: Batches that take longer than this may hold no more than this share of the work, unless single cells take so long.
_LONG_SECONDS, _LONG_SHARE = 10.0, 0.1
#: No batch holds more than this share of a study, so that several workers finish together.
_SMALLEST_SHARE = 16
#: Bytes of a chunk of bounds, of which a worker holds some copies.
_CHUNK_BYTES = 2**25
#: Bytes of a worker process before it computes anything.
BASE_BYTES = 250 * 2**20
#: Arrays of the bounds, and how often a worker holds those of a batch: as tables, as one array, and encoded.
_BOUND_ARRAYS, _BOUND_COPIES = 4, 3
#: Bytes of the metadata of a store, of each batch, of each cell, and of each saved state.
_STORE_BYTES, _BATCH_BYTES, _CELL_BYTES, _STATE_BYTES = 60_000, 8_000, 300, 6_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Cells from ``start`` to before ``stop``, computed and stored together: one chunk of the store."""

    index: int
    start: int
    stop: int
    #: The projected time on one core.
    seconds: float


@dataclass(frozen=True)
class Plan(Printed):
    """A study cut into batches, and what it is projected to take; it prints as `pbdist plan` does."""

    #: The study.
    study: StudySpec
    #: The length of a chunk along the cells.
    cells_per_batch: int
    #: Projected time on one core.
    seconds: float
    #: Projected peak memory of one worker process, the largest of any cell.
    worker_bytes: int
    #: Upper estimate of the size of the store, before compression.
    store_bytes: int
    #: Of each cell in the order of the study: projected time on one core, and peak memory of a worker process.
    cell_seconds: FloatArray = field(compare=False, repr=False)
    cell_bytes: IntArray = field(compare=False, repr=False)

    @cached_property
    def batch_seconds(self) -> FloatArray:
        """Projected time of each batch on one core, in the order of the study."""
        return _seconds_of_batches(self.cell_seconds, self.cells_per_batch)

    @property
    def batches(self) -> list[Batch]:
        """The batches in the order of their submission: the longest first, so that none is left for the end."""
        seconds, length, cells = self.batch_seconds, self.cells_per_batch, self.cell_seconds.size
        return [
            Batch(index, index * length, min((index + 1) * length, cells), float(seconds[index]))
            for index in np.argsort(-seconds, kind="stable").tolist()
        ]

    @property
    def points(self) -> int:
        """The number of points (cell, r, ε)."""
        return len(self.study.cells) * len(self.study.compositions) * len(self.study.epsilon)

    @property
    def added_points(self) -> int:
        """How many of them targets off the grids add, since every r is computed with every ε."""
        study = self.study
        rounds = len(study.compositions) - len(study.target_compositions)
        return self.points - len(study.cells) * rounds * (len(study.epsilon) - len(study.target_epsilon))

    @property
    def sheet(self) -> Sheet:
        """What the study computes and will take, as `pbdist plan` prints it."""
        study, seconds = self.study, self.batch_seconds
        ends = dict.fromkeys(f"{end:.3g}" for end in (seconds.min(), seconds.max()))
        rows = {
            **study.summary(),
            "points (cell, r, ε)": f"{self.points:,}",
            **({"points that targets off the grids add": f"{self.added_points:,}"} if self.added_points else {}),
            "batches": f"{seconds.size:,}, cells in each: {self.cells_per_batch:,}",
            "projected time of a batch, one core": f"{' to '.join(ends)} s",
            "projected time of the study, one core": duration(self.seconds),
            "projected peak memory of a worker": size(self.worker_bytes),
            "projected size of the store, at most": size(self.store_bytes),
            "bucket states": "saved" if study.keep_states else "not saved",
            "study digest": study.digest[:16],
        }
        columns = SheetColumn("what", "what", number=False), SheetColumn("how_much", "how much")
        return Sheet(columns, tuple(rows.items()), (": ".join(filter(None, (study.name, study.description))),))


def plan_study(study: StudySpec, cells_per_batch: int | None = None) -> Plan:
    """Return the plan of a study: a function of the study, and of the batch length where a store already has one."""
    costs, class_of = cell_costs(study)
    cell_seconds = np.array([cost.seconds for cost in costs])[class_of]
    cells, points = len(study.cells), 2 * len(study.compositions) * len(study.epsilon)
    length = batch_length(cell_seconds, 8 * points) if cells_per_batch is None else cells_per_batch
    process_bytes = BASE_BYTES + _BOUND_ARRAYS * _BOUND_COPIES * 8 * points * min(length, cells)
    cell_bytes = process_bytes + np.array([cost.peak_bytes for cost in costs], dtype=np.int64)[class_of]
    store_bytes = _STORE_BYTES + _BATCH_BYTES * -(-cells // length)
    store_bytes += cells * (_CELL_BYTES + (8 * _BOUND_ARRAYS + 1) * points)
    if study.keep_states:
        store_bytes += 2 * cells * len(study.compositions) * _STATE_BYTES
        store_bytes += sum(cost.state_bytes * count for cost, count in zip(costs, np.bincount(class_of), strict=True))
    seconds, worker_bytes = float(cell_seconds.sum()), int(cell_bytes.max())
    return Plan(study, length, seconds, worker_bytes, int(store_bytes), cell_seconds, cell_bytes)


class Planner:
    """Plans each study once: a study of the same digest and batch length has the plan that was made before."""

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
        seconds = _seconds_of_batches(cell_seconds, length)
        typical = float(seconds @ seconds) / total
        if typical <= _BATCH_SECONDS and float(seconds[seconds > _LONG_SECONDS].sum()) <= long_work:
            break
        length //= 2
    return length


def _seconds_of_batches(cell_seconds: FloatArray, length: int) -> FloatArray:
    seconds: FloatArray = np.add.reduceat(cell_seconds, np.arange(0, cell_seconds.size, length))
    return seconds


def elapsed(batch_seconds: Sequence[float] | FloatArray, workers: int) -> float:
    """Return the projected time of batches on so many workers: no less than that of the longest batch."""
    seconds = np.asarray(batch_seconds, dtype=np.float64)
    return max(float(seconds.max(initial=0.0)), float(seconds.sum()) / workers)
