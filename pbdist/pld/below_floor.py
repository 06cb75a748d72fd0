"""Upper bounds for what lies below the floor, from one tilt for each r: Chernoff's, which is all that is asked for."""

import math

import numpy as np

from pbdist.pld.exponents import SaddlePoints
from pbdist.pld.leaf import leaf_state
from pbdist.pld.many_rounds import chernoff_bound, lattices_for
from pbdist.pld.question import Question
from pbdist.pld.reading import LARGEST_SHIFT
from pbdist.types import BoolArray, Direction, FloatArray

__all__ = ["bounds_below_floor"]

#: By how many nats δ seems to be less than the floor.
_LESS = 2.0
#: Spacing, in deviations of a leaf's loss under the tilt.
_SPACING = 0.1


def bounds_below_floor(question: Question) -> FloatArray:
    """Return logarithms of upper bounds on δ, shape (2, R, E): 0 where δ does not seem to lie below the floor."""
    shape = (2, question.rounds.size, question.epsilon.size)
    result = np.zeros(shape)
    if question.floor <= 0.0:
        return result
    level = math.log(question.floor) - _LESS
    deep = {
        direction: np.array([_deep(question, direction, r, level) for r in question.rounds.tolist()])
        for direction in question.directions
    }
    if question.together:
        # Where the larger direction does not, the smaller one is bounded with it.
        everywhere: BoolArray = np.all(list(deep.values()), axis=0)
        deep = dict.fromkeys(deep, everywhere)
    for axis, direction in enumerate(question.directions):
        exponents = question.exponents(direction)
        for row, r in enumerate(question.rounds.tolist()):
            columns = np.flatnonzero(deep[direction][row])
            if columns.size:
                epsilon = question.epsilon[columns]
                nearest = np.array([min(float(epsilon.min()), exponents.deepest(r, level))])
                result[axis, row, columns] = _bounds(
                    question, direction, exponents.saddle_points(r, nearest), r, epsilon
                )
    if question.symmetric:
        result[1] = result[0]
    return result


def _deep(question: Question, direction: Direction, rounds: int, level: float) -> BoolArray:
    saddles = question.saddle_points(direction, rounds)
    return np.asarray((saddles.log_delta < level) | ~saddles.told.astype(bool))


def _bounds(
    question: Question, direction: Direction, nearest: SaddlePoints, rounds: int, epsilon: FloatArray
) -> FloatArray:
    """Bound ln δ at some ε by the tilt of one."""
    tilt = float(nearest.tilt[0])
    spacing = _SPACING * math.sqrt(float(nearest.variance[0]) / (rounds * question.leaves))
    nothing = np.zeros(epsilon.size)
    chosen = lattices_for(question, spacing, question.top) if spacing > 0.0 else None
    if chosen is None:
        return nothing
    factors = [
        (leaf_state(pair.scaled_loss_masses(lattice.edges), lattice, ()), count * rounds)
        for (pair, count), lattice in zip(question.counts.items(), chosen.lattices, strict=True)
    ]
    shift = sum(power * state.shift for state, power in factors) * (1.0 + 1e-12)
    if not shift <= LARGEST_SHIFT:
        return nothing
    return chernoff_bound(factors, direction, tilt, epsilon, shift)
