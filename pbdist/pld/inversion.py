"""ε as a function of δ, read off the states of a ladder."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair
from pbdist.pld.choice import chosen_lattices, chosen_spacings
from pbdist.pld.profile import loss_profile
from pbdist.pld.reading import LARGEST_EPSILON, lower_deltas, upper_deltas
from pbdist.pld.state import PairState
from pbdist.pld.table import MOST_LEAVES, MOST_PAIRS, climbed
from pbdist.types import Direction, FloatArray

__all__ = ["ladder_epsilon"]

#: Climbs at most, and by how much the spacing shrinks at least and at most.
_CLIMBS, _LEAST, _MOST, _GOAL = 4, 0.7, 0.05, 0.5
#: Points of one look between two ε, and looks.
_POINTS, _LOOKS = 17, 9
#: No ladder looks for a smaller δ.
_LEAST_DELTA = 1e-120
#: Brackets of δ, relative, that a first climb aims at.
_FINEST, _COARSEST = 2e-6, 1e-2


def ladder_epsilon(
    counts: Mapping[ElementaryPair, int],
    rounds: int,
    delta: float,
    axes: tuple[int, ...],
    *,
    guess: float,
    slope: float,
    aim: float,
) -> tuple[float, float] | None:
    """Bound the smallest ε with which the larger δ of some directions is at most `delta`, after a number of rounds.

    Every ε at which the upper bound on δ is at most `delta` is an upper bound, every one at which the lower bound
    exceeds it a lower one, however it is found.

    Parameters
    ----------
    counts : mapping of ElementaryPair to int
    rounds : int
    delta : float
    axes : tuple of int
        0 for A||B, 1 for B||A.
    guess, slope : float
        About ε, nats, and the slope of ln δ there, below 0.
    aim : float
        Largest upper / lower - 1.

    Returns
    -------
    (float, float) or None
        0 where nothing is known from below, infinity from above; None where the ladder does not serve.
    """
    leaves = rounds * sum(counts.values())
    if (
        not 0.0 < guess <= 0.5 * LARGEST_EPSILON
        or leaves > MOST_LEAVES
        or len(counts) > MOST_PAIRS
        or delta < _LEAST_DELTA
    ):
        return None
    tolerance = min(max(_GOAL * aim * guess * -slope, _FINEST), _COARSEST)
    directions = tuple(tuple(Direction)[axis] for axis in axes)
    # Rare losses may move ε far from what a rough picture tells.
    largest = min(4.0 * guess, LARGEST_EPSILON)
    asked = np.array([guess])
    profiles = [(loss_profile(pair, guess / (rounds * sum(counts.values()))), count) for pair, count in counts.items()]
    spacings = chosen_spacings(profiles, np.array([rounds]), asked, tolerance, min(1e-3 * delta, 1e-6))
    if not np.all(np.isfinite(spacings)):
        return None
    low, high = 0.0, math.inf
    for _ in range(_CLIMBS):
        chosen = chosen_lattices(profiles, rounds, largest, spacings, tolerance=tolerance, floor=1e-3 * delta)
        if chosen is None:
            return (low, high) if high < math.inf else None
        state = next((state for _, state in climbed(counts, chosen, [rounds], directions)), None)
        if state is None:
            return None
        new_low, new_high = _ends(state, directions, delta, largest)
        low, high = max(low, new_low), min(high, new_high)
        if high == 0.0 or high - low <= aim * high < math.inf or high == math.inf:
            break
        ratio = (high - low) / (aim * high)
        spacings = spacings * min(max(math.sqrt(_GOAL / ratio), _MOST), _LEAST)
        tolerance = max(tolerance * min(_GOAL / ratio, 1.0), _FINEST)
    return low, high


def _ends(state: PairState, directions: tuple[Direction, ...], delta: float, largest: float) -> tuple[float, float]:
    """Find the largest ε at which δ certainly exceeds `delta`, and the smallest at which it certainly does not."""
    slack = 8.0 * UNIT_ROUNDOFF

    def exceeds(epsilon: FloatArray) -> FloatArray:
        lower = np.max([lower_deltas(state, epsilon, direction) for direction in directions], axis=0)
        return np.asarray(lower > delta * (1.0 + slack))

    def misses(epsilon: FloatArray) -> FloatArray:
        upper = np.max([upper_deltas(state, epsilon, direction) for direction in directions], axis=0)
        return np.asarray(upper > delta * (1.0 - slack))

    low, _ = _crossing(exceeds, largest)
    _, high = _crossing(misses, largest)
    return low, high


def _crossing(holds: Callable[[FloatArray], FloatArray], largest: float) -> tuple[float, float]:
    """Return neighbouring ε of which the first fulfils a condition, or 0, and the second does not, or infinity."""
    inner, outer = 0.0, largest
    ends = holds(np.array([0.0, largest]))
    if not ends[0]:
        return 0.0, 0.0
    if ends[1]:
        return largest, math.inf
    for _ in range(_LOOKS):
        points = np.linspace(inner, outer, _POINTS)
        held = holds(points[1:-1])
        last = int(np.argmin(np.append(held, False)))
        inner, outer = float(points[last]), float(points[last + 1])
        if outer - inner <= 1e-12 * outer:
            break
    return inner, outer
