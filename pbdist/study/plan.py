"""What a study will take: batches of cells, and their projected time, memory and bytes. Pure: nothing is run.

The projections depend on the study alone, never on the machine, so that the same study is always cut into the same
batches, and the same store comes out.
"""

import math
from dataclasses import dataclass

from pbdist.mechanisms.pair import Pair
from pbdist.study.spec import Cell, StudySpec

__all__ = ["Batch", "Plan", "plan_study"]

# Seconds, measured on one core of a 2-core machine for 20,000 to 400,000 buckets; right within a factor of 2.
#: One element of an FFT of length 1, to be multiplied by log2 of the length; all other work of a step is in it.
_SECONDS_PER_FFT_POINT = 4.4e-10
#: FFTs of one composition step: four self-convolutions of two transforms each.
_FFTS_PER_STEP = 8
#: One bucket of one (r, ε), upper and lower bound.
_SECONDS_PER_BUCKET_AND_POINT = 6.0e-9
#: A leaf, and each of its buckets.
_SECONDS_PER_LEAF, _SECONDS_PER_LEAF_BUCKET = 0.05, 1.0e-7
#: Bytes of a worker process before it computes anything.
_BASE_BYTES = 250 * 2**20
#: Vectors of float64 held at once: as long as the state, and as long as an FFT.
_STATE_VECTORS, _FFT_VECTORS = 10, 6
#: Arrays of a kept state, and of the bounds.
_KEPT_VECTORS, _BOUND_ARRAYS = 4, 4
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


def _vector_lengths(study: StudySpec) -> tuple[int, int]:
    """Return the length of a state's vector, and of a transform of its convolution."""
    return study.buckets, 2 ** math.ceil(math.log2(2 * study.buckets))


def _directions(pair: Pair) -> int:
    return 1 if pair.symmetric else 2


def _steps(study: StudySpec) -> int:
    """Return the number of composition steps of one direction: the ladder, and the binary digits of every r."""
    ladder = study.compositions[-1].bit_length() - 1
    return ladder + sum(r.bit_count() - 1 for r in study.compositions)


def _cell_seconds(study: StudySpec, cell: Cell) -> float:
    state, transform = _vector_lengths(study)
    step = _FFTS_PER_STEP * _SECONDS_PER_FFT_POINT * transform * math.log2(transform)
    points = len(study.compositions) * len(study.epsilon)
    evaluation = _SECONDS_PER_BUCKET_AND_POINT * state * points
    leaf = _SECONDS_PER_LEAF + _SECONDS_PER_LEAF_BUCKET * state
    return _directions(cell.pair) * (leaf + _steps(study) * step + evaluation)


def _worker_bytes(study: StudySpec) -> int:
    state, transform = _vector_lengths(study)
    # The states of the ladder live until the last r that uses them is done, in the worst case all of them.
    ladder = study.compositions[-1].bit_length() + (len(study.compositions) if study.keep_states else 0)
    vectors = (_STATE_VECTORS + _KEPT_VECTORS * ladder) * state + _FFT_VECTORS * transform
    bounds = 2 * _BOUND_ARRAYS * len(study.compositions) * len(study.epsilon)
    return _BASE_BYTES + 8 * (vectors + bounds)


def _store_bytes(study: StudySpec) -> int:
    points = 2 * len(study.compositions) * len(study.epsilon)
    total = _STORE_BYTES + len(study.cells) * (_CELL_BYTES + 8 * _BOUND_ARRAYS * points)
    if study.keep_states:
        state, _ = _vector_lengths(study)
        states = sum(_directions(cell.pair) for cell in study.cells) * len(study.compositions)
        total += states * (_STATE_BYTES + 8 * _KEPT_VECTORS * state)
    return total
