"""What the cells of a study take, in seconds and bytes: one cell of each class of similar ones is projected."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pbdist.arguments import DEFAULT_BUCKETS, DEFAULT_TOLERANCE
from pbdist.enclosures import Fineness, any_enclosed, enclosed_counts
from pbdist.errors import PbdistError
from pbdist.mechanisms import RandomAllocation, factor_counts
from pbdist.pld.cost import Cost, table_cost
from pbdist.pld.question import Question
from pbdist.study.alike import alike_cells
from pbdist.study.spec import Cell, StudySpec
from pbdist.types import IntArray


@dataclass(frozen=True)
class CellCost:
    """Time and memory of one cell.

    Attributes
    ----------
    seconds
        Projected time on one core.
    peak_bytes
        Projected memory of a worker process while it computes the cell, without that of the process itself.
    state_bytes
        Upper estimate of all its kept states; 0 where none are kept.
    """

    seconds: float
    peak_bytes: int
    state_bytes: int


def cell_costs(study: StudySpec) -> tuple[list[CellCost], IntArray]:
    """Return the cost of one cell of each class of similar ones, and the class of each cell."""
    class_of, examples = alike_cells(study.cells)
    return [cell_cost(study, study.cells[example]) for example in examples], class_of


def cell_cost(study: StudySpec, cell: Cell) -> CellCost:
    """Return what one cell of a study is projected to take."""
    return _tight_cost(study, cell) if study.method == "tight" else _bucket_cost(study, cell)


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
#: Arrays of a kept state.
_KEPT_VECTORS = 4


def _bucket_cost(study: StudySpec, cell: Cell) -> CellCost:
    """Return the cost of a cell by the method of privacy buckets."""
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


#: A cell, and each of its points.
_SECONDS_PER_CELL, _SECONDS_PER_POINT = 1.0e-3, 3.0e-7
#: An outcome; its bytes.
_SECONDS_PER_OUTCOME, _BYTES_PER_OUTCOME = 2.0e-6, 2000
#: Peak memory of the climbs that make states close everywhere; writing a kept state, and each of its bytes.
_BYTES_PER_CLIMB = 250_000_000
_SECONDS_PER_STATE, _SECONDS_PER_STATE_BYTE = 0.005, 1.0e-8
#: Grids are thinned to this many r and ε; pairs of more outcomes are projected without their outcomes.
_MOST_ROUNDS, _MOST_EPSILON, _MOST_OUTCOMES = 10, 12, 2000
#: Of enclosures, the coarse and the fine ones: a product of sums of ratios, and more of it for finer ones; and those
#: that are good enough for a projection.
_SECONDS_PER_ENCLOSED_PRODUCT, _SECONDS_PER_RESOLUTION = 0.06, 2.0e-4
_PICTURE = Fineness(resolution=25.0, lost=1e-14, matters=1e-8)


def _tight_cost(study: StudySpec, cell: Cell) -> CellCost:
    """Return the cost of a cell by the tight method; of the worst of several pairs, that of one after the other."""
    if cell.pair.several:
        costs = [_tight_cost(study, replace(cell, pair=pair)) for pair in cell.pair.alternatives]
        return CellCost(sum(one.seconds for one in costs), max(one.peak_bytes for one in costs), 0)
    rounds, epsilon = _thinned(study.compositions, _MOST_ROUNDS), _thinned(study.epsilon, _MOST_EPSILON)
    factors = cell.pair.factors
    outcomes = sum(factor.outcomes for factor in factors)
    if outcomes > _MOST_OUTCOMES:
        factors = tuple(factor.cost_stand_in for factor in factors)
    counts = factor_counts([(factor, 1) for factor in factors])
    if any_enclosed(counts):
        counts = enclosed_counts(counts, _PICTURE)
    question = Question(
        counts,
        np.array(rounds, dtype=np.int64),
        np.array(epsilon, dtype=np.float64),
        DEFAULT_TOLERANCE if study.tolerance is None else study.tolerance,
        study.floor,
        joint_directions=study.direction == "both",
    )
    width = None if cell.factor is None else math.log1p(cell.factor - 1.0)
    try:
        cost = table_cost(question, width=width, positions=study.buckets, keep_states=study.keep_states)
    except PbdistError:
        # The run reports the cell that cannot be computed, and computes the others.
        cost = Cost(0.0, 0, 0)
    more = len(study.compositions) / len(rounds)
    points = len(study.compositions) * len(study.epsilon)
    seconds = _SECONDS_PER_CELL + _SECONDS_PER_POINT * points + cost.seconds + _seconds_of_enclosures(study, cell)
    if outcomes > _MOST_OUTCOMES:
        seconds += _SECONDS_PER_OUTCOME * outcomes * len(question.directions)
    states = 0
    if study.keep_states:
        states = round(more * cost.state_bytes)
        seconds += _SECONDS_PER_STATE * len(study.compositions) + _SECONDS_PER_STATE_BYTE * states
    climbs = _BYTES_PER_CLIMB if study.keep_states else 0
    return CellCost(seconds, cost.peak_bytes + climbs + 2 * states + _BYTES_PER_OUTCOME * outcomes, states)


def _seconds_of_enclosures(study: StudySpec, cell: Cell) -> float:
    """Return what the enclosures of a cell take; the finest one is about as fine as the tolerance says."""
    tolerance = DEFAULT_TOLERANCE if study.tolerance is None else study.tolerance
    products = 0
    for factor in cell.pair.factors:
        inner = factor.inner
        if isinstance(inner, RandomAllocation):
            products += inner.steps.bit_length() + inner.steps.bit_count() - 2
    return products * (_SECONDS_PER_ENCLOSED_PRODUCT + _SECONDS_PER_RESOLUTION / math.sqrt(tolerance))


def _thinned(values: Sequence[float], most: int) -> list[float]:
    """Return at most `most` of the values, with the first and the last."""
    if len(values) <= most:
        return list(values)
    return [values[round(index * (len(values) - 1) / (most - 1))] for index in range(most)]
