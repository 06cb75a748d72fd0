"""What a cell takes with privacy buckets: projected from the lengths of its vectors."""

import math

from pbdist.arguments import DEFAULT_BUCKETS
from pbdist.study.cost import CellCost
from pbdist.study.spec import Cell, StudySpec

__all__ = ["cell_cost"]

# Seconds, measured on one core of a 2-core machine for 2,000 to 2^22 buckets; right within a factor of 2.
#: Choosing the factor between buckets; a leaf of one direction; each of its buckets.
_SECONDS_PER_CHOICE, _SECONDS_PER_LEAF, _SECONDS_PER_LEAF_BUCKET = 0.07, 0.005, 1.0e-7
#: A composition step; an element of one of its FFTs, to be multiplied by log2 of their length, all other work in it.
_SECONDS_PER_STEP, _SECONDS_PER_FFT_POINT = 0.009, 1.2e-9
#: FFTs of one composition step: four self-convolutions of two transforms each.
_FFTS_PER_STEP = 8
#: One bucket of one (r, ε), upper and lower bound.
_SECONDS_PER_BUCKET_AND_POINT = 6.0e-9
#: Vectors of float64 held at once: as long as the state, and as long as an FFT.
_STATE_VECTORS, _FFT_VECTORS = 10, 6
#: Arrays of a kept state.
_KEPT_VECTORS = 4


def cell_cost(study: StudySpec, cell: Cell) -> CellCost:
    """Return what a cell is projected to take on one core."""
    states = 0
    if study.keep_states:
        directions = 1 if cell.pair.symmetric else 2
        states = directions * len(study.compositions) * 8 * _KEPT_VECTORS * _vector_lengths(study)[0]
    return CellCost(_seconds(study, cell), _peak_bytes(study), states)


def _seconds(study: StudySpec, cell: Cell) -> float:
    state, transform = _vector_lengths(study)
    step = _SECONDS_PER_STEP + _FFTS_PER_STEP * _SECONDS_PER_FFT_POINT * transform * math.log2(transform)
    points = len(study.compositions) * len(study.epsilon)
    evaluation = _SECONDS_PER_BUCKET_AND_POINT * state * points
    leaf = _SECONDS_PER_LEAF + _SECONDS_PER_LEAF_BUCKET * state
    choice = _SECONDS_PER_CHOICE if cell.factor is None else 0.0
    return choice + (1 if cell.pair.symmetric else 2) * (leaf + _steps(study) * step + evaluation)


def _peak_bytes(study: StudySpec) -> int:
    state, transform = _vector_lengths(study)
    # The states of the ladder live until the last r that uses them is done, in the worst case all of them.
    ladder = study.compositions[-1].bit_length() + (len(study.compositions) if study.keep_states else 0)
    return 8 * ((_STATE_VECTORS + _KEPT_VECTORS * ladder) * state + _FFT_VECTORS * transform)


def _vector_lengths(study: StudySpec) -> tuple[int, int]:
    """Return the length of a state's vector, and of a transform of its convolution."""
    buckets = DEFAULT_BUCKETS if study.buckets is None else study.buckets
    return buckets, 2 ** math.ceil(math.log2(2 * buckets))


def _steps(study: StudySpec) -> int:
    """Return the number of composition steps of one direction: the ladder, and the binary digits of every r."""
    ladder = study.compositions[-1].bit_length() - 1
    return ladder + sum(r.bit_count() - 1 for r in study.compositions)
