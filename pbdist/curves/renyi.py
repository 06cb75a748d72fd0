r"""Rényi divergences of a mechanism, from both sides.

D_α(A‖B) = ln(Σ P_A^α P_B^(1-α)) / (α - 1), and the Kullback-Leibler divergence Σ P_A ln(P_A / P_B) for α = 1, in nats.
Of independent pairs it is the sum: r compositions have r times that of one. It is infinite where A shows what B cannot.

Gaussian noise, continuous or discrete, has a closed form (`renyi_closed_form`). For any other pair, bins bound
F = Σ P_B φ(P_A / P_B), with a moment in closed form above the last edge (`renyi_terms`). Section 10 of docs/theory.md
has the bounds, and what a histogram's totals add.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pbdist.arguments import checked_components, checked_compositions, checked_numbers, checked_precision
from pbdist.curves.renyi_closed_form import always_reveals, closed_form_bounds
from pbdist.curves.renyi_terms import MOST_BINS, ROUGH_EDGES, Interval, RenyiTerms
from pbdist.curves.tradeoff_table import CurveTable
from pbdist.errors import PrecisionError, shown
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, Pair
from pbdist.types import Direction, FloatArray

__all__ = ["LARGEST_ORDER", "checked_orders", "closest_bounds", "divergence_bounds", "renyi_table"]

#: Orders beyond this are refused.
LARGEST_ORDER = 1e6
#: A divergence of at most this may be 0.
_NEGLIGIBLE = 1e-24
#: At most so many grids are tried.
_MOST_GRIDS = 60
#: So many grids in a row may fail to bring the bounds a tenth closer.
_PATIENCE = 6


def checked_orders(order: Any) -> FloatArray:
    """Return orders from 1 to `LARGEST_ORDER`, shape (K,), or raise `InvalidInputError`."""
    return checked_numbers(
        "order",
        order,
        f"1 or numbers from 1.000001 to {LARGEST_ORDER:g}",
        lambda value: value == 1.0 or 1.0 + 1e-6 <= value <= LARGEST_ORDER,
    )


def renyi_table(components: Sequence[tuple[Pair, int]], *, compositions: Any, order: Any, tolerance: Any) -> CurveTable:
    """Bound the Rényi divergence for every r and order asked for.

    Parameters
    ----------
    components : sequence of (Pair, int)
        What one round consists of.
    compositions : array_like of int, shape (R,)
    order : array_like of float, shape (K,)
    tolerance : float
        Largest upper / lower - 1.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.
    PrecisionError
        If the tolerance is not reached.
    """
    parts = checked_components(components)
    rounds = checked_compositions(compositions)
    orders = checked_orders(order)
    ratio = checked_precision(tolerance, None, None).tolerance
    one = np.zeros((2, len(Direction), orders.size))
    for factor, count in ((factor, count) for pair, count in parts for factor in pair.factors):
        sides = (Direction.A_TO_B,) if factor.symmetric else tuple(Direction)
        found = np.array(
            [[divergence_bounds(factor, alpha, side, ratio) for alpha in orders.tolist()] for side in sides]
        )
        # A symmetric pair's one side stands for both.
        one += float(count) * np.moveaxis(found, 2, 0)
    terms = 4.0 * UNIT_ROUNDOFF * (4.0 + sum(len(pair.factors) for pair, _ in parts))
    total = one[:, :, None, :] * rounds.astype(np.float64)[:, None]
    # A divergence is negative only of a histogram whose masses do not sum to 1.
    lower, upper = (
        np.where(total[side] * sign > 0.0, 1.0 + terms, 1.0 - terms) * total[side] for side, sign in ((0, -1), (1, 1))
    )
    return CurveTable(rounds, orders, lower, upper)


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
            f" {best.lower:.6g} and {best.upper:.6g}, a relative {tolerance:.3g} was asked for"
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


def _closest(pair: ElementaryPair, alpha: float, direction: Direction, tolerance: float) -> Interval:
    known = closed_form_bounds(pair, alpha)
    if known is not None:
        return Interval(*known)
    only = pair.directed_loss_masses(np.zeros(1), direction).only_a
    if float(only.lower[0]) > 0.0 or always_reveals(pair, direction):
        return Interval(math.inf, math.inf)
    rough = RenyiTerms(pair, alpha, direction, ROUGH_EDGES)
    best = rough.bounds()
    guess = max(best.lower, 1e-28)
    window = rough.window(0.05 * tolerance)
    closest, idle = math.inf, 0
    for _ in range(_MOST_GRIDS):
        edges = window.edges(guess, alpha, tolerance)
        if edges.size > MOST_BINS:
            break
        terms = RenyiTerms(pair, alpha, direction, edges)
        found = terms.bounds()
        best = Interval(max(best.lower, found.lower), min(best.upper, found.upper))
        if best.upper <= best.lower * (1.0 + tolerance) or abs(best.upper) <= _NEGLIGIBLE:
            return best
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
    return best
