"""Rényi divergences of a mechanism, from both sides.

D_α(A‖B) = ln(Σ P_A^α P_B^(1-α)) / (α - 1), and the Kullback-Leibler divergence Σ P_A ln(P_A / P_B) for α = 1, in nats.
Of independent pairs it is the sum: r compositions have r times that of one. It is infinite where A shows what B cannot.

The divergences of single pairs are those of `pbdist.renyi`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pbdist.arguments import checked_components, checked_compositions, checked_numbers, checked_tolerance
from pbdist.curves.tradeoff_table import CurveTable
from pbdist.mechanisms import UNIT_ROUNDOFF, Pair
from pbdist.renyi import divergence_bounds
from pbdist.types import Direction, FloatArray

#: Orders beyond this are refused.
LARGEST_ORDER = 1e6


def checked_orders(order: Any) -> FloatArray:
    """Return orders from 1 to `LARGEST_ORDER`, shape (K,), or raise `InvalidInputError`."""
    return checked_numbers(
        "order",
        order,
        f"1 or numbers from 1.000001 to {LARGEST_ORDER:g}",
        lambda value: value == 1.0 or 1.0 + 1e-6 <= value <= LARGEST_ORDER,
    )


def renyi_table(components: Sequence[tuple[Pair, int]], *, compositions: Any, order: Any, tolerance: Any) -> CurveTable:
    """Bound the Rényi divergence for every r and order.

    `tolerance` is the largest upper / lower - 1; a missed one raises a `PrecisionError`.
    """
    parts = checked_components(components)
    rounds = checked_compositions(compositions)
    orders = checked_orders(order)
    ratio = checked_tolerance(tolerance)
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
    if not all(pair.attained_by_some for pair, _ in parts):
        lower = np.zeros_like(lower)
    return CurveTable(rounds, orders, lower, upper)
