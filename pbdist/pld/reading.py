r"""Reading δ off a state: any ε, both directions, from suffix sums.

*Above.* H(A*‖B*; ε) = Σ_{ℓ > ε} (a*(ℓ) - e^ε b*(ℓ)) + a*(∞) rises with every mass. Losses were moved by up to η, so
it is read at ε - η: for every set S of outcomes A(S) - e^ε B(S) <= A(S) - e^{ε-η} B''(S), and B(S) - e^ε A(S) <= e^η
(B''(S) - e^{ε-η} A(S)).

*Below.* A(S) - e^ε B(S) for the events S in which a exceeds e^ε b.

Next to ε what is summed is a difference of nearly equal numbers: there it is taken place by place, as a (1 -
e^{ε-ℓ}).
"""

import math
from typing import cast

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld.lattice import LOST_TO_UNDERFLOW, Dominating, Exact
from pbdist.pld.state import PairState
from pbdist.types import Direction, FloatArray

__all__ = ["LARGEST_EPSILON", "LARGEST_SHIFT", "lower_deltas", "upper_deltas"]

_U = UNIT_ROUNDOFF
#: Up to here e^ε times a mass of which digits are lost is below 1e-50.
LARGEST_EPSILON = 600.0
#: Losses that are known worse than this, nats, tell nothing.
LARGEST_SHIFT = 1.0
#: Places next to ε that are looked at one by one, on either side.
_NEAR = 256


def upper_deltas(state: PairState, epsilon: FloatArray, direction: Direction) -> FloatArray:
    """Upper bounds on δ at every ε, shape (E,), nats, from 0 to `LARGEST_EPSILON`."""
    masses, shift = state.dominating, state.shift
    if not shift <= LARGEST_SHIFT:
        return np.ones(epsilon.size)
    result = np.zeros(epsilon.size)
    for row in masses.rows:
        directed = row if direction is Direction.A_TO_B else row.swapped()
        result += _above(directed, epsilon - (shift + 8.0 * _U * (epsilon + row.reach + shift)))
    infinite = masses.infinite[list(Direction).index(direction)]
    # Of A nothing was moved but its losses.
    moved = 1.0 if direction is Direction.A_TO_B else math.exp(shift)
    result = (result + infinite) * moved * (1.0 + 64.0 * _U)
    if infinite == 0.0:
        # No finite loss exceeds these ε.
        highest = state.highest if direction is Direction.A_TO_B else -state.lowest
        result = np.where(epsilon - shift * (1.0 + 8.0 * _U) >= highest, -LOST_TO_UNDERFLOW, result)
    return cast("FloatArray", np.clip(result + LOST_TO_UNDERFLOW, 0.0, 1.0))


def lower_deltas(state: PairState, epsilon: FloatArray, direction: Direction) -> FloatArray:
    """Lower bounds on δ at every ε, shape (E,)."""
    masses = state.exact[direction]
    own, other = masses.infinite
    result: FloatArray = np.maximum(own - np.exp(epsilon) * other * (1.0 + 16.0 * _U), 0.0)
    for row in masses.rows:
        result = result + _below(row, epsilon)
    # What is no full float may have been rounded up.
    return np.clip(result * (1.0 - 64.0 * _U) - LOST_TO_UNDERFLOW, 0.0, 1.0)


def _above(row: Dominating, epsilon: FloatArray) -> FloatArray:
    losses, size = row.losses, row.size
    a, b = row.u * np.exp(0.5 * losses), row.u * np.exp(-0.5 * losses)
    rounding = (size + 16.0 + 4.0 * row.reach) * _U
    a_beyond, b_beyond = _suffix_sums(a) * (1.0 + rounding), _suffix_sums(b) * (1.0 - rounding)
    start = np.searchsorted(losses, epsilon, side="right")
    stop = np.minimum(start + _NEAR, size)
    places = start[:, None] + np.arange(_NEAR)
    inside = places < size
    places = np.minimum(places, size - 1)
    gap = np.where(inside, epsilon[:, None] - losses[places], 0.0)
    near = np.sum(a[places] * -np.expm1(np.minimum(gap, 0.0)), axis=1) * (1.0 + rounding)
    rest = a_beyond[stop] - np.exp(epsilon) * b_beyond[stop] * (1.0 - 8.0 * _U)
    result: FloatArray = near + np.maximum(rest, 0.0)
    return result


def _below(row: Exact, epsilon: FloatArray) -> FloatArray:
    labels, size = row.labels, row.size
    a, b = row.plain
    rounding = (size + 16.0) * _U
    a_beyond, b_beyond = _suffix_sums(a) * (1.0 - rounding), _suffix_sums(b) * (1.0 + rounding)
    growth = np.exp(epsilon) * (1.0 + 8.0 * _U)
    middle = np.searchsorted(labels, epsilon)
    start, stop = np.maximum(middle - _NEAR, 0), np.minimum(middle + _NEAR, size)
    places = start[:, None] + np.arange(2 * _NEAR)
    inside = places < stop[:, None]
    places = np.minimum(places, size - 1)
    terms = a[places] - growth[:, None] * b[places]
    near = np.sum(np.where(inside, np.maximum(terms, 0.0), 0.0), axis=1) * (1.0 - 4.0 * _NEAR * _U)
    result: FloatArray = near + np.maximum(a_beyond[stop] - growth * b_beyond[stop], 0.0)
    return result


def _suffix_sums(values: FloatArray) -> FloatArray:
    """Return the sums of everything from each place on, shape (n + 1,)."""
    result = np.zeros(values.size + 1)
    result[:-1] = np.cumsum(values[::-1])[::-1]
    return result
