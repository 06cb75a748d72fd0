"""What a cell takes with the tight method: projected from what its first pass will be like.

The lengths are those of `pbdist.buckets.tight.forecast`; seconds and bytes for each element were measured, on one core
of a 2-core machine, over all mechanisms, tolerances from 0.1 to 1e-5, 1 to 2^18 compositions and 1 to 589 points. How
often a grid is refined depends on the pair: the seconds are those of a typical cell, the bytes those of the worst.
"""

import math
from collections.abc import Sequence

import numpy as np

from pbdist.buckets.arguments import DEFAULT_TOLERANCE
from pbdist.buckets.tight.forecast import GroupForecast, tight_forecast
from pbdist.errors import PbdistError
from pbdist.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoisyCount,
    Pair,
    Poisson,
    Product,
    Reversed,
)
from pbdist.study.cost import CellCost
from pbdist.study.spec import Cell, StudySpec

__all__ = ["cell_cost"]

#: A cell, and each of its points where a closed form gives them.
_SECONDS_PER_CELL, _SECONDS_PER_CLOSED_POINT = 1.0e-3, 3.0e-7
#: A group for each direction and family; one r of it; one point of it.
_SECONDS_PER_GROUP, _SECONDS_PER_ROUNDS, _SECONDS_PER_POINT = 1.5e-3, 3.5e-4, 8.0e-5
#: A cell of a leaf; an outcome.
_SECONDS_PER_LEAF_CELL, _SECONDS_PER_OUTCOME = 1.2e-7, 2.0e-6
#: Of a mixture of two distributions beside that: a cell in extended precision, and a point whose δ is next to nothing.
_SECONDS_PER_SAMPLED_CELL, _SECONDS_PER_FAINT_POINT = 2.0e-6, 1.0e-3
#: A frequency and cell; an element of a transform, to be multiplied by log2 of the length; with more digits.
_SECONDS_PER_FREQUENCY, _SECONDS_PER_ELEMENT, _SECONDS_PER_EXTENDED = 7.0e-9, 4.5e-9, 1.3e-8
#: A kept state, to be computed and written: its vectors, of pairs whose directions are alike and of others, and places
#: of each; what the climb takes at its peak, however many there are.
_STATE_VECTORS, _STATE_PLACES = (3, 5), 16_000
_SECONDS_PER_STATE, _SECONDS_PER_STATE_BYTE, _BYTES_PER_CLIMB = 0.2, 1.0e-8, 300_000_000

#: Bytes of a cell of a leaf, also of a mixture, and where few frequencies are looked for; of an element of the longest
#: vector, and in extended precision; of an outcome, and for each point that is looked for, up to so many.
_BYTES_PER_LEAF_CELL, _BYTES_PER_SAMPLED_CELL, _BYTES_PER_FEW_CELL = 400, 1850, 270
_BYTES_PER_ELEMENT, _BYTES_PER_EXTENDED = 120, 1950
_BYTES_PER_OUTCOME, _BYTES_PER_OUTCOME_AND_POINT, _MOST_SADDLES = 400, 130, 48
#: The grid may become so many times finer, up to what is allowed; more so where outcomes lie anywhere.
_REFINED, _REFINED_OUTCOMES, _MOST_CELLS, _MOST_ELEMENTS, _MOST_EXTENDED = 4.0, 16.0, 2**18, 2**22, 2**18

#: Grids are thinned to this many r and ε, and pairs of more outcomes are looked at without their outcomes.
_MOST_ROUNDS, _MOST_EPSILON, _MOST_OUTCOMES = 10, 12, 2000
#: Fewer outcomes than this are atoms of noise that is spread otherwise.
_FEW_OUTCOMES = 16
#: Where a stand-in for Gaussian noise is cut, in standard deviations: it must have no closed form.
_CUT = 37.0


def cell_cost(study: StudySpec, cell: Cell) -> CellCost:
    """Return what a cell is projected to take on one core."""
    rounds, epsilon = _thinned(study.compositions, _MOST_ROUNDS), _thinned(study.epsilon, _MOST_EPSILON)
    more_rounds = len(study.compositions) / len(rounds)
    more_points = more_rounds * len(study.epsilon) / len(epsilon)
    fixed = study.buckets is not None or cell.factor is not None
    outcomes = sum(pair.outcomes for pair in cell.pair.factors)
    try:
        groups = tight_forecast(
            cell.pair if outcomes <= _MOST_OUTCOMES else _without_outcomes(cell.pair),
            np.array(rounds, dtype=np.int64),
            np.array(epsilon, dtype=np.float64),
            tolerance=DEFAULT_TOLERANCE if study.tolerance is None else study.tolerance,
            width=None if cell.factor is None else math.log1p(cell.factor - 1.0),
            buckets=study.buckets,
            keep_states=False,
        )
    except PbdistError:
        # What cannot be computed is told by the run, which computes the rest.
        groups = []
    seconds = _SECONDS_PER_CELL + sum(_group_seconds(group, more_rounds, more_points) for group in groups)
    if outcomes > _MOST_OUTCOMES:
        seconds += _SECONDS_PER_OUTCOME * outcomes * sum(group.directions for group in groups)
    if not groups:
        seconds += _SECONDS_PER_CLOSED_POINT * len(study.compositions) * len(study.epsilon)
    states = 0
    if study.keep_states:
        vectors = _STATE_VECTORS[0 if cell.pair.symmetric else 1]
        states = 8 * vectors * _STATE_PLACES * len(study.compositions)
        seconds += _SECONDS_PER_STATE * len(study.compositions) + _SECONDS_PER_STATE_BYTE * states
    refined = _REFINED_OUTCOMES if outcomes > _FEW_OUTCOMES else _REFINED
    peak = max((_group_bytes(group, 1.0 if fixed else refined) for group in groups), default=0.0)
    per_outcome = _BYTES_PER_OUTCOME + _BYTES_PER_OUTCOME_AND_POINT * min(
        len(study.compositions) * len(study.epsilon), _MOST_SADDLES
    )
    if study.keep_states:
        peak += _BYTES_PER_CLIMB
    return CellCost(seconds, round(peak) + 2 * states + per_outcome * outcomes, states)


def _group_seconds(group: GroupForecast, more_rounds: float, more_points: float) -> float:
    transforms = group.stages * _transform(group.stage_length) + more_rounds * sum(map(_transform, group.lengths))
    seconds = (
        _SECONDS_PER_GROUP * group.directions * group.families
        + _SECONDS_PER_LEAF_CELL * group.cells
        + _SECONDS_PER_OUTCOME * group.outcomes
        + _SECONDS_PER_POINT * more_points * group.points
        + _SECONDS_PER_ROUNDS * more_rounds * group.directions * group.rounds
        + _SECONDS_PER_FREQUENCY * more_rounds * group.frequencies * group.cells
        + (_SECONDS_PER_EXTENDED if group.extended else _SECONDS_PER_ELEMENT) * group.directions * transforms
    )
    if group.sampled:
        seconds += _SECONDS_PER_FAINT_POINT * more_points * group.faint
        seconds += _SECONDS_PER_SAMPLED_CELL * group.cells if group.extended else 0.0
    return seconds


def _transform(length: float) -> float:
    return length * math.log2(length + 2.0)


def _group_bytes(group: GroupForecast, refined: float) -> float:
    """Return the peak memory of a group whose grid becomes at most so many times finer, up to a limit."""
    cells, length = group.cells / (group.directions * group.families), max(group.stage_length, *group.lengths, 0.0)
    cells = max(min(refined * cells, _MOST_CELLS), cells)
    length = max(min(refined * length, _MOST_ELEMENTS), length)
    per_cell = _BYTES_PER_SAMPLED_CELL if group.sampled else _BYTES_PER_LEAF_CELL
    if group.few:
        per_cell += _BYTES_PER_FEW_CELL
    transform = _BYTES_PER_EXTENDED * min(length, _MOST_EXTENDED) if group.extended else _BYTES_PER_ELEMENT * length
    # Several families are composed one direction at a time.
    return (1 if group.families > 1 else group.directions) * (per_cell * cells + transform)


def _thinned(values: Sequence[float], most: int) -> list[float]:
    """Return at most so many of the values, the first and the last one among them."""
    if len(values) <= most:
        return list(values)
    return [values[round(place * (len(values) - 1) / (most - 1))] for place in range(most)]


def _without_outcomes(pair: Pair) -> Pair:
    """Return a pair whose losses are alike, but spread: counts that many are close to what they round."""
    if isinstance(pair, Product):
        return Product(*map(_without_outcomes, pair.pairs))
    if isinstance(pair, Reversed):
        return Product(*map(Reversed, _without_outcomes(pair.pair).factors))
    if isinstance(pair, DiscreteLaplace):
        return Laplace(pair.scale, float(pair.sensitivity))
    if isinstance(pair, NoisyCount) and not isinstance(pair.noise, Gaussian):
        return type(pair.noise)(pair.noise.scale, float(pair.shift))
    if isinstance(pair, NoisyCount):
        scale, sensitivity = pair.noise.scale, pair.shift
    elif isinstance(pair, Poisson | DiscreteGaussian):
        scale = math.sqrt(pair.mean) if isinstance(pair, Poisson) else pair.scale
        sensitivity = pair.sensitivity
    else:
        return pair
    return Gaussian(scale, float(sensitivity), (-_CUT * scale, _CUT * scale))
