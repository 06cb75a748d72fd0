"""What a study will take: batches of cells, and their projected time, memory and bytes. Pure: nothing is run.

The projections depend on the study alone, never on the machine, so that the same study is always cut into the same
batches, and the same store comes out.
"""

from dataclasses import dataclass

from pbdist.study import plan_buckets, plan_tight
from pbdist.study.spec import Cell, StudySpec

__all__ = ["Batch", "Plan", "plan_study"]

#: Bytes of a worker process before it computes anything.
_BASE_BYTES = 250 * 2**20
#: Arrays of the bounds.
_BOUND_ARRAYS = 4
#: Bytes of the metadata of a store, of each cell, of each kept state.
_STORE_BYTES, _CELL_BYTES, _STATE_BYTES = 40_000, 300, 6_000

#: A batch is to take about this long, in seconds: long against a task's overhead, short against a lost worker.
_BATCH_SECONDS = 5.0
#: No batch is to hold more than this share of a study, so that several workers finish together.
_SMALLEST_SHARE = 16


@dataclass(frozen=True)
class Batch:
    """Consecutive cells that are computed and stored together: one chunk of the store.

    Attributes
    ----------
    index
        The number of the chunk.
    start, stop
        The first cell, and the one after the last.
    seconds
        Projected time on one core.
    """

    index: int
    start: int
    stop: int
    seconds: float


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
        In the order in which they are to be submitted: the longest first, so that none is left for the end.
    seconds
        Projected time on one core.
    worker_bytes
        Projected peak memory of one worker process.
    store_bytes
        Upper estimate of the size of the store, before compression.
    """

    study: StudySpec
    cells_per_batch: int
    batches: tuple[Batch, ...]
    seconds: float
    worker_bytes: int
    store_bytes: int


def plan_study(study: StudySpec) -> Plan:
    """Return the plan of `study`: a function of the study alone."""
    costs = [_cell_seconds(study, cell) for cell in study.cells]
    typical = sorted(costs)[len(costs) // 2]
    by_time = max(1, round(_BATCH_SECONDS / typical))
    length = max(1, min(by_time, len(costs) // _SMALLEST_SHARE))
    batches = [
        Batch(index, start, min(start + length, len(costs)), sum(costs[start : start + length]))
        for index, start in enumerate(range(0, len(costs), length))
    ]
    return Plan(
        study=study,
        cells_per_batch=length,
        batches=tuple(sorted(batches, key=lambda batch: (-batch.seconds, batch.index))),
        seconds=sum(costs),
        worker_bytes=_worker_bytes(study),
        store_bytes=_store_bytes(study),
    )


def _cell_seconds(study: StudySpec, cell: Cell) -> float:
    if study.method == "tight":
        return plan_tight.cell_seconds(study, cell)
    return plan_buckets.cell_seconds(study, cell)


def _worker_bytes(study: StudySpec) -> int:
    bounds = 8 * 2 * _BOUND_ARRAYS * len(study.compositions) * len(study.epsilon)
    if study.method == "buckets":
        return _BASE_BYTES + bounds + plan_buckets.cell_bytes(study)
    return _BASE_BYTES + bounds + max(plan_tight.cell_bytes(study, cell) for cell in study.cells)


def _store_bytes(study: StudySpec) -> int:
    points = 2 * len(study.compositions) * len(study.epsilon)
    total = _STORE_BYTES + len(study.cells) * (_CELL_BYTES + 8 * _BOUND_ARRAYS * points)
    if study.keep_states:
        total += len(study.compositions) * sum(
            (1 if cell.pair.symmetric else 2) * (_STATE_BYTES + _kept_bytes(study, cell)) for cell in study.cells
        )
    return total


def _kept_bytes(study: StudySpec, cell: Cell) -> int:
    """Return the bytes of one kept state."""
    return plan_tight.state_bytes(study, cell) if study.method == "tight" else plan_buckets.state_bytes(study)
