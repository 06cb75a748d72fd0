"""What a study will take: batches of cells, and their projected time, memory and bytes. Pure: nothing is run.

The projections depend on the study alone, never on the machine, so that the same study is always cut into the same
batches, and the same store comes out. One cell of each class of alike ones is looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pbdist.study.batches import Batch, Batches, alike_cells, batch_length
from pbdist.study.cost import CellCost
from pbdist.study.method_costs import bucket_cost, tight_cost
from pbdist.study.spec import Cell, StudySpec
from pbdist.types import FloatArray, IntArray

__all__ = ["Batch", "Plan", "cell_cost", "plan_study"]

#: Bytes of a worker process before it computes anything.
_BASE_BYTES = 250 * 2**20
#: Arrays of the bounds, and how often a worker holds those of a batch: as tables, as one array, and encoded.
_BOUND_ARRAYS, _BOUND_COPIES = 4, 3
#: Bytes of the metadata of a store, of each batch, of each cell, and of each kept state.
_STORE_BYTES, _BATCH_BYTES, _CELL_BYTES, _STATE_BYTES = 60_000, 8_000, 300, 6_000


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
        Projected peak memory of one worker process, the largest of any cell.
    store_bytes
        Upper estimate of the size of the store, before compression.
    cell_seconds, cell_bytes
        Of each cell in the order of the study: projected time on one core, and peak memory of a worker process.
    """

    study: StudySpec
    cells_per_batch: int
    batches: Sequence[Batch]
    seconds: float
    worker_bytes: int
    store_bytes: int
    cell_seconds: FloatArray = field(compare=False, repr=False)
    cell_bytes: IntArray = field(compare=False, repr=False)


def plan_study(study: StudySpec, cells_per_batch: int | None = None) -> Plan:
    """Return the plan of a study: a function of the study alone.

    Parameters
    ----------
    study : StudySpec
    cells_per_batch : int, optional
        The length of a batch, where a store has one already.
    """
    class_of, examples = alike_cells(study.cells)
    costs = [cell_cost(study, study.cells[example]) for example in examples]
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


def cell_cost(study: StudySpec, cell: Cell) -> CellCost:
    """Return what one cell of a study is projected to take."""
    return tight_cost(study, cell) if study.method == "tight" else bucket_cost(study, cell)


def _store_bytes(study: StudySpec, batches: int, costs: Sequence[CellCost], class_of: IntArray) -> int:
    points = 2 * len(study.compositions) * len(study.epsilon)
    total = _STORE_BYTES + _BATCH_BYTES * batches + len(study.cells) * (_CELL_BYTES + (8 * _BOUND_ARRAYS + 1) * points)
    if study.keep_states:
        members = np.bincount(class_of, minlength=len(costs)).tolist()
        total += sum(count * cost.state_bytes for count, cost in zip(members, costs, strict=True))
        total += 2 * len(study.cells) * len(study.compositions) * _STATE_BYTES
    return total
