"""What a cell takes with the tight method: projected by what its engines are chosen by (`pbdist.pld.cost`).

How often a lattice is refined depends on the pair: the seconds are those of a typical cell, the bytes those of the
worst.
"""

import math
from collections.abc import Sequence

import numpy as np

from pbdist.arguments import DEFAULT_TOLERANCE
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
from pbdist.pld import factor_counts
from pbdist.pld.cost import Cost, table_cost
from pbdist.pld.question import Question
from pbdist.study.cost import CellCost
from pbdist.study.spec import Cell, StudySpec

__all__ = ["cell_cost"]

#: A cell, and each of its points.
_SECONDS_PER_CELL, _SECONDS_PER_POINT = 1.0e-3, 3.0e-7
#: An outcome; its bytes.
_SECONDS_PER_OUTCOME, _BYTES_PER_OUTCOME = 2.0e-6, 2000
#: What the climbs take by which states are made close everywhere, at their peak; a kept state, to be written.
_BYTES_PER_CLIMB = 250_000_000
_SECONDS_PER_STATE, _SECONDS_PER_STATE_BYTE = 0.005, 1.0e-8
#: Grids are thinned to this many r and ε, and pairs of more outcomes are looked at without their outcomes.
_MOST_ROUNDS, _MOST_EPSILON, _MOST_OUTCOMES = 10, 12, 2000
#: Where a stand-in for Gaussian noise is cut, in standard deviations: it must have no closed form.
_CUT = 37.0


def cell_cost(study: StudySpec, cell: Cell) -> CellCost:
    """Return what a cell is projected to take on one core."""
    rounds, epsilon = _thinned(study.compositions, _MOST_ROUNDS), _thinned(study.epsilon, _MOST_EPSILON)
    outcomes = sum(pair.outcomes for pair in cell.pair.factors)
    pair = cell.pair if outcomes <= _MOST_OUTCOMES else _without_outcomes(cell.pair)
    question = Question(
        factor_counts([(pair, 1)]),
        np.array(rounds, dtype=np.int64),
        np.array(epsilon, dtype=np.float64),
        DEFAULT_TOLERANCE if study.tolerance is None else study.tolerance,
        study.floor,
        together=study.direction == "both",
    )
    width = None if cell.factor is None else math.log1p(cell.factor - 1.0)
    try:
        cost = table_cost(question, width=width, places=study.buckets, keep_states=study.keep_states)
    except PbdistError:
        # What cannot be computed is told by the run, which computes the rest.
        cost = Cost(0.0, 0, 0)
    more = len(study.compositions) / len(rounds)
    points = len(study.compositions) * len(study.epsilon)
    seconds = _SECONDS_PER_CELL + _SECONDS_PER_POINT * points + cost.seconds
    if outcomes > _MOST_OUTCOMES:
        seconds += _SECONDS_PER_OUTCOME * outcomes * len(question.directions)
    states = 0
    if study.keep_states:
        states = round(more * cost.state_bytes)
        seconds += _SECONDS_PER_STATE * len(study.compositions) + _SECONDS_PER_STATE_BYTE * states
    climbs = _BYTES_PER_CLIMB if study.keep_states else 0
    return CellCost(seconds, cost.peak_bytes + climbs + 2 * states + _BYTES_PER_OUTCOME * outcomes, states)


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
