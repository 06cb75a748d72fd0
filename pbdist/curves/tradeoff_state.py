r"""Trade-off curves read off a state of a pair, at all type I errors at once.

*Below*, the promise: lines T_B - H(y) - y α (`pbdist.curves.tradeoff`) with the upper bounds on H that the state gives
(Theorem 21 in docs/pld.md), at the slopes y where the dominating pair's own curve has its corners. That any y will do
is proved there; with these only what masses were rounded up by, and the shift, tell the bound from that curve.

*Above* there is a test. Exact rows are masses of disjoint events: q at most P_B(E) and p at least P_A(E) under B||A.
Rejecting "A" at some of these events, at the last one with a probability, has a type I error of at most Σ p, and a type
II error of at most T_B - Σ q. Likewise accepting "A" at some of the events under A||B, with p at most P_A(E) and q at
least P_B(E), has the errors T_A - Σ p and Σ q at most. Which events are taken is a choice: those of the largest ratio
first (Neyman & Pearson).
"""

from collections.abc import Mapping

import numpy as np

from pbdist.curves.tradeoff import SupportCurve, Wholes, opposite
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld import LARGEST_EPSILON, PairState, lower_deltas, upper_deltas
from pbdist.pld.lattice import LOST_TO_UNDERFLOW
from pbdist.types import Direction, FloatArray

__all__ = ["state_tradeoff"]

_U = UNIT_ROUNDOFF
#: Corners at most that are looked at for one curve.
_MOST_CORNERS = 20_000


def state_tradeoff(
    state: PairState, test: Direction, alpha: FloatArray, wholes: Mapping[Direction, Wholes]
) -> tuple[FloatArray, FloatArray]:
    """Bound the smallest type II error at each type I error.

    Parameters
    ----------
    state : PairState
        With exact rows of both directions.
    test : Direction
        A||B: the type I error is made under A, the type II error under B.
    alpha : ndarray, shape (K,)
        From 0 to 1.
    wholes : mapping
        Of `wholes_of`, for the rounds of the state.

    Returns
    -------
    lower, upper : ndarray, shape (K,)
    """
    epsilon = _corners(state, test, alpha)
    lower, upper = (
        np.stack([read(state, epsilon, direction) for direction in Direction]) for read in (lower_deltas, upper_deltas)
    )
    curve = SupportCurve.from_deltas(epsilon, test, lower, upper, dict(wholes))
    below, above = curve.lower_bound(alpha)[0], curve.upper_bound(alpha)[0]
    null, alternative = wholes[test], wholes[opposite(test)]
    for found in (
        _rejecting(state, opposite(test), alpha, alternative),
        _accepting(state, test, alpha, null),
        # A test that looks at nothing.
        alternative.total_upper * np.maximum(1.0 - alpha / null.total_upper, 0.0) + 8.0 * _U * alternative.total_upper,
    ):
        above = np.minimum(above, found)
    return below, np.maximum(above, below)


def _corners(state: PairState, test: Direction, alpha: FloatArray) -> FloatArray:
    """The ε at which the curve of the dominating pair has its corners next to each α, increasing; only a choice."""
    sign = 1.0 if test is Direction.A_TO_B else -1.0
    losses = np.concatenate([sign * row.losses for row in state.dominating.rows])
    masses = np.concatenate([row.u for row in state.dominating.rows]) * np.exp(0.5 * losses)
    order = np.argsort(losses, kind="stable")
    losses = losses[order]
    # Rejected is what has a small loss; its mass under the hypothesis is the slope.
    slopes = np.cumsum(masses[order])
    place = np.searchsorted(slopes, alpha)
    near = np.unique(np.clip((place[:, None] + np.arange(-2, 3)).ravel(), 0, losses.size - 1))
    near = near[:: max(1, -(-near.size // _MOST_CORNERS))]
    corners = np.abs(losses[near])
    found = np.concatenate(([0.0], corners, corners + state.shift))
    return np.unique(found[found <= LARGEST_EPSILON])


def _events(state: PairState, direction: Direction) -> tuple[FloatArray, FloatArray]:
    """Masses `own` from below and `other` from above of all events, those of the largest ratio first."""
    masses = state.exact[direction]
    own, other = [np.array([masses.infinite[0]])], [np.array([masses.infinite[1]])]
    for row in masses.rows:
        a, b = row.plain
        own.append(a)
        other.append(b)
    a, b = np.concatenate(own), np.concatenate(other)
    told = a > 0.0
    a, b = a[told], b[told]
    with np.errstate(divide="ignore", over="ignore"):
        order = np.argsort(-(a / b), kind="stable")
    return a[order], b[order]


def _sums(values: FloatArray, side: float) -> FloatArray:
    """Sums of the first 0, 1, .. values, rounded to that side."""
    return np.concatenate(([0.0], np.cumsum(values))) * (1.0 + side * (values.size + 16.0) * _U)


def _rejecting(state: PairState, direction: Direction, alpha: FloatArray, alternative: Wholes) -> FloatArray:
    """Type II errors of tests that reject at some of the events of (B, A)."""
    power, error = _events(state, direction)
    powers, errors = _sums(power, -1.0), _sums(error, 1.0)
    last = np.searchsorted(errors, alpha, side="right") - 1
    inside = np.minimum(last, power.size - 1)
    share = np.zeros(alpha.shape)
    if power.size:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            share = (alpha - errors[last]) / error[inside] * (1.0 - 8.0 * _U)
        share = np.where(last < power.size, np.clip(np.nan_to_num(share, nan=0.0, posinf=1.0), 0.0, 1.0), 0.0)
        share = share * power[inside]
    found = alternative.total_upper - (powers[last] + share) * (1.0 - 8.0 * _U)
    return np.asarray(np.maximum(found, 0.0) + 8.0 * _U * alternative.total_upper)


def _accepting(state: PairState, direction: Direction, alpha: FloatArray, null: Wholes) -> FloatArray:
    """Type II errors of tests that accept at some of the events of (A, B)."""
    kept, missed = _events(state, direction)
    keeps, misses = _sums(kept, -1.0), _sums(missed, 1.0)
    needed = np.maximum(null.total_upper - alpha, 0.0) + 4.0 * _U * (null.total_upper + alpha)
    last = np.searchsorted(keeps, needed, side="left")
    found = np.full(alpha.shape, np.inf)
    possible = last < keeps.size
    place = last[possible]
    before = np.maximum(place - 1, 0)
    if kept.size:
        share = (needed[possible] - keeps[before]) / kept[np.minimum(before, kept.size - 1)] * (1.0 + 8.0 * _U)
        share = np.where(place > 0, np.clip(share, 0.0, 1.0), 0.0)
        found[possible] = (misses[before] + share * missed[np.minimum(before, kept.size - 1)]) * (1.0 + 8.0 * _U)
    # Of rejecting, and of what is needed here, rounding counts for more.
    found += LOST_TO_UNDERFLOW
    return np.where(alpha >= null.total_upper, 0.0, found)
