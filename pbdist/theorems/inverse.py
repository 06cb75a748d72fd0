"""ε after r compositions by theorems of earlier work, from their δ."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from scipy.optimize import brentq

from pbdist.arguments import check_choice, check_totals, checked_components, checked_compositions, components_of
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import Pair
from pbdist.theorems.api import THEOREMS, bound_by
from pbdist.types import FloatArray

#: The first ε that are looked at, nats.
_FIRST: FloatArray = np.concatenate(([0.0], np.geomspace(1e-9, 1e6, 16)))
#: How closely ε is sought, relative to it; and steps upwards where the δ found is still above the one wanted.
_CLOSE, _STEPS = 1e-10, 40
#: ln δ where δ is 0.
_NOTHING = -1e9


def earlier_epsilon(
    mechanism: Pair | Iterable[tuple[Pair, int]], *, compositions: Sequence[int], delta: Sequence[float], theorem: str
) -> FloatArray:
    """Bound the least ε with which δ is met after r compositions from above, by a theorem of earlier work.

    Parameters
    ----------
    mechanism, theorem
        As for `earlier_bounds`.
    compositions, delta
        Numbers of compositions r, and for each a δ above 0 and below 1.

    Returns
    -------
    numpy.ndarray
        For each, an ε >= 0, nats, at which the theorem's δ is at most the wanted one; infinite if it is at none
        up to 1e6. Where δ falls steadily with ε it is within 1e-9 of the least, relative to it. Of ``"clt"`` it is an
        approximation, as its δ is.

    Raises
    ------
    InvalidInputError
        As `earlier_bounds`.
    """
    check_choice("theorem", theorem, tuple(THEOREMS))
    parts = checked_components(components_of(mechanism))
    rounds = checked_compositions(compositions)
    check_totals(parts, rounds)
    if len(delta) != rounds.size:
        raise InvalidInputError(f"delta: expected one for each of {rounds.size} compositions, got {len(delta)}")
    for value in delta:
        if not 0.0 < value < 1.0:
            raise InvalidInputError(f"delta: expected numbers above 0 and below 1, got {shown(value)}")
    bound = bound_by(theorem, parts)
    # Below the logarithm: that of δ is rounded to nearest.
    limits = [math.nextafter(math.log(d) - 4e-16, -math.inf) for d in delta]
    return np.array([_least(bound, int(r), limit) for r, limit in zip(rounds, limits, strict=True)])


def _least(bound: Callable[[int, FloatArray], FloatArray], rounds: int, limit: float) -> float:
    """Return about the least ε with ln δ <= limit; never one where ln δ is above it."""

    def above(epsilon: float) -> float:
        return max(float(bound(rounds, np.array([epsilon]))[0]), _NOTHING) - limit

    met = bound(rounds, _FIRST) <= limit
    if not met.any():
        return math.inf
    first = int(np.argmax(met))
    if first == 0:
        return 0.0
    low, high = float(_FIRST[first - 1]), float(_FIRST[first])
    if above(low) <= 0.0 or above(high) > 0.0:
        # A search with fewer points may find another best (ε, δ) of a round.
        return high
    root = float(brentq(above, low, high, xtol=1e-300, rtol=_CLOSE, maxiter=200))
    for step in range(_STEPS):
        epsilon = root * (1.0 + _CLOSE * (2.0**step - 1.0))
        if epsilon < high and above(epsilon) <= 0.0:
            return epsilon
    return high
