r"""Rényi divergences and exponential moments of one pair, from both sides.

D_α(A‖B) = ln(Σ P_A^α P_B^(1-α)) / (α - 1), in nats; that of order 1 is the Kullback-Leibler divergence. Gaussian noise,
continuous or discrete, has a closed form (`closed_form`). For any other pair, bins bound F = Σ P_B φ(P_A / P_B), with a
moment in closed form above the last edge (`terms`). Section 10 of docs/theory.md has the bounds, and what a histogram's
totals add.
"""

import math

import numpy as np

from pbdist.errors import PrecisionError, shown
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair
from pbdist.renyi.terms import MOST_BINS, ROUGH_EDGES, Interval, RenyiTerms
from pbdist.rounding import rounded_down, rounded_up
from pbdist.types import Direction

#: A divergence of at most this may be 0.
_NEGLIGIBLE = 1e-24
#: At most so many grids are tried.
_MOST_GRIDS = 60
#: So many grids in a row may fail to bring the bounds a tenth closer.
_PATIENCE = 6


def divergence_bounds(
    pair: ElementaryPair, alpha: float, direction: Direction, tolerance: float
) -> tuple[float, float]:
    """Return lower and upper bound on the divergence of order α of one pair.

    If upper / lower - 1 cannot be brought to the tolerance, a `PrecisionError` names order, direction and the bounds.
    """
    best = closest_bounds(pair, alpha, direction, tolerance)
    if best.upper > best.lower * (1.0 + tolerance) and abs(best.upper) > _NEGLIGIBLE:
        raise PrecisionError(
            f"tolerance: the divergence of order {alpha!r} of {shown(pair)}, {direction.value}, lies between"
            f" {rounded_down(best.lower)} and {rounded_up(best.upper)}, a relative {tolerance:.3g} was asked for"
        )
    return best.lower, best.upper


def closest_bounds(pair: ElementaryPair, alpha: float, direction: Direction, tolerance: float) -> Interval:
    """Return bounds on the divergence of order α of one pair, as close as can be computed if not within `tolerance`.

    What is no number, or an upper bound below the lower one, bounds nothing.
    """
    found = _closest(pair, alpha, direction, tolerance)
    if found.lower <= found.upper:
        return found
    return Interval(-math.inf, math.inf)


def finite_moment_above(
    pair: ElementaryPair, order: float, direction: Direction, tolerance: float
) -> tuple[float, float]:
    """Return upper bounds on (α - 1) D_α over the finite losses of a pair, and on the P_A mass of infinite losses.

    The first is ln E_A[e^((α-1) L); L < ∞], α being `order`, infinite where nothing is known. An event whose loss may
    be infinite counts as infinite.
    """
    known = pair.renyi_divergence(order)
    if known is None:
        found, infinite = _on_grids(pair, order, direction, tolerance, finite=True)
        divergence = found.upper
    else:
        divergence, infinite = known[1], 0.0
    moment = (order - 1.0) * divergence
    return math.inf if math.isnan(moment) else moment + 4.0 * UNIT_ROUNDOFF * abs(moment), infinite


def _closest(pair: ElementaryPair, alpha: float, direction: Direction, tolerance: float) -> Interval:
    known = pair.renyi_divergence(alpha)
    if known is not None:
        return Interval(*known)
    only = pair.directed_loss_masses(np.zeros(1), direction).only_a
    if float(only.lower[0]) > 0.0 or pair.always_reveals(direction):
        return Interval(math.inf, math.inf)
    return _on_grids(pair, alpha, direction, tolerance, finite=False)[0]


def _on_grids(
    pair: ElementaryPair, alpha: float, direction: Direction, tolerance: float, *, finite: bool
) -> tuple[Interval, float]:
    """Return bounds on the divergence, with `finite` of finite losses alone, and the mass of infinite ones."""
    rough = RenyiTerms(pair, alpha, direction, ROUGH_EDGES, finite=finite)
    best, infinite = rough.bounds(), rough.infinite
    guess = max(best.lower, 1e-28)
    window = rough.window(0.05 * tolerance)
    closest, idle = math.inf, 0
    for _ in range(_MOST_GRIDS):
        edges = window.edges(guess, alpha, tolerance)
        if edges.size > MOST_BINS:
            break
        terms = RenyiTerms(pair, alpha, direction, edges, finite=finite)
        infinite = max(infinite, terms.infinite)
        found = terms.bounds()
        best = Interval(max(best.lower, found.lower), min(best.upper, found.upper))
        if best.upper <= best.lower * (1.0 + tolerance) or abs(best.upper) <= _NEGLIGIBLE:
            break
        gap = best.upper / best.lower - 1.0 if best.lower > 0.0 else math.inf
        closest, idle = (gap, 0) if gap < 0.9 * closest else (closest, idle + (gap < math.inf))
        if (best.upper == math.inf and terms.unknown) or idle > _PATIENCE or terms.events_only:
            break
        enough = tolerance * terms.whole
        window = window.adapted(
            longer=terms.above_gap > 0.1 * enough,
            deeper=terms.below_gap > 0.1 * enough,
            dense=terms.inner_gap > 0.5 * enough,
        )
        guess = max(best.lower, guess)
    return best, infinite
