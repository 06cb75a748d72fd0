"""Rényi divergences of a mechanism, from both sides.

D_α(A‖B) = ln(Σ P_A^α P_B^(1-α)) / (α - 1), and the Kullback-Leibler divergence Σ P_A ln(P_A / P_B) for α = 1, in nats.
Of independent pairs it is the sum: r compositions have r times that of one. It is infinite where A shows what B cannot.

The divergences of single pairs are those of `pbdist.renyi`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pbdist.arguments import checked_components, checked_compositions, checked_numbers, checked_tolerance
from pbdist.buckets.state import BucketState
from pbdist.curves.tradeoff import Wholes
from pbdist.curves.tradeoff_table import CurveTable
from pbdist.mechanisms import UNIT_ROUNDOFF, MassBounds, Pair
from pbdist.pld import PairState
from pbdist.pld.lattice import LOST_TO_UNDERFLOW
from pbdist.renyi import divergence_bounds
from pbdist.renyi.divergence import LogMasses, Order, a_term, b_term, down, log_unit_of, share_at_end, terms_below, up
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
    return CurveTable(rounds, orders, lower, upper)


_U = UNIT_ROUNDOFF
#: Masses below the normal floats lose less than this.
_UNDERFLOW = 1e-290
#: Events of labels below this, nats, are left out of both halves.
_MIN_LABEL = -1.0


def state_renyi_bounds(state: BucketState, orders: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound D_α(A‖B) of the pair that a bucket list was built from: section 10 of docs/theory.md.

    `orders` are those of `checked_orders`; bounds are in nats, shape (K,). The upper bound is infinite where the bucket
    ∞ may hold anything of P_A.
    """
    bounds = [_bounds(state, alpha) for alpha in orders.tolist()]
    return np.array([lower for lower, _ in bounds]), np.array([upper for _, upper in bounds])


def _bounds(state: BucketState, alpha: float) -> tuple[float, float]:
    beyond = (state.infinity_a_lower, state.infinity_a_upper, 0.0, state.infinity_b_upper)
    a_lower, a_upper = np.append(state.a_lower, beyond[0]), np.append(state.a_upper, beyond[1])
    b_lower, b_upper = np.append(state.b_real_lower, beyond[2]), np.append(state.b_upper, beyond[3])
    masses = LogMasses.of(MassBounds(a_lower, a_upper), MassBounds(b_lower, b_upper))
    order = Order(alpha, log_unit_of(alpha, masses))
    slack = (masses.a_lower.size + 64.0) * _U
    # Σ P_A^α P_B^(1-α) = F + α T_A - (α - 1) T_B: lower values for T_A, upper ones for T_B.
    total_a = (float(np.sum(state.a_lower)) + beyond[0]) * (1.0 - slack)
    total_b = (float(np.sum(state.b_upper)) + beyond[3]) * (1.0 + slack)
    plain = total_a - total_b if alpha == 1.0 else alpha * total_a - order.tilt * total_b
    plain -= 8.0 * _U * alpha * (total_a + total_b)
    lower = float(np.sum(terms_below(order, masses))) * (1.0 - slack) + plain * math.exp(-order.log_unit)
    finite = masses.at(slice(0, -1))
    upper = math.inf if beyond[1] > 0.0 else _above(state, finite, order)
    if alpha == 1.0:
        return lower, upper
    return (_unscaled(lower, order, -1.0) if lower > 0.0 else -math.inf), _unscaled(upper, order, 1.0)


def _above(state: BucketState, masses: LogMasses, order: Order) -> float:
    n, h = state.grid.half_width, state.grid.loss_width
    error = (state.loss_error + 8.0 * _U * (n + state.window) * h) * (1.0 + 4.0 * _U)
    index = np.arange(-n, n + 1, dtype=np.float64)
    low, high = (index - state.window) * h - error, index * h + error
    share = share_at_end(masses.b_lower, masses.a_upper, low, high - low)
    present = masses.a_upper > -math.inf
    slack = 1.0 + (index.size + 64.0) * _U
    if order.alpha == 1.0:
        spread = state.a_upper * share * (high - low)
        base = np.where(low > 0.0, state.a_upper, state.a_lower) * low
        size = float(np.sum(np.abs(base)))
        return float(np.sum(base)) + float(np.sum(spread)) * slack + size * (slack - 1.0)
    # In units of e^((α-1) high), from the upper end: 1 with the share, e^((α-1)(low - high)) without.
    fall = np.exp(-order.tilt * (high - low) * (1.0 - 4.0 * _U)) * (1.0 + 8.0 * _U)
    weight, relative = order.weight(masses.a_upper, high)
    with np.errstate(over="ignore"):
        terms = np.where(present, (fall + share * (1.0 - fall)) * weight * (1.0 + relative + 16.0 * _U), 0.0)
        return float(np.sum(terms)) * slack


def _unscaled(value: float, order: Order, side: float) -> float:
    if value == math.inf:
        return math.inf
    result = math.log(value) + order.log_unit
    return result / order.tilt + side * 16.0 * _U * (1.0 + abs(result)) / order.tilt


def pair_state_renyi_bounds(
    state: PairState, orders: FloatArray, direction: Direction, wholes: Mapping[Direction, Wholes]
) -> tuple[FloatArray, FloatArray]:
    """Bound D_α(A‖B), or D_α(B‖A), of the pair that a state was built from: section 10 of docs/theory.md.

    The state has exact rows of both directions; `orders` are those of `checked_orders`, and `wholes` those of
    `wholes_of` for the rounds of the state. Bounds are in nats, shape (K,); the upper one is infinite where anything
    may reveal the first of the two.
    """
    own, other = _events(state, direction)
    above = LogMasses(own, np.full_like(own, np.inf), np.full_like(own, -np.inf), other)
    own, other = _events(state, direction.opposite)
    below = LogMasses(np.full_like(own, -np.inf), other, own, np.full_like(own, np.inf))
    bounds = []
    for alpha in orders.tolist():
        order = Order(alpha, log_unit_of(alpha, above))
        slack = (above.a_lower.size + below.a_lower.size + 64.0) * _U
        lower = (float(np.sum(terms_below(order, above))) + float(np.sum(terms_below(order, below)))) * (1.0 - slack)
        bounds.append((_from_below(order, lower, direction, wholes), _from_above(order, state, direction, wholes)))
    return np.array([low for low, _ in bounds]), np.array([high for _, high in bounds])


def _events(state: PairState, direction: Direction) -> tuple[FloatArray, FloatArray]:
    """Logarithms of the masses of events: `own` from below, `other` from above."""
    masses = state.exact[direction]
    own, other, label = [np.array([masses.infinite[0]])], [np.array([masses.infinite[1]])], [np.zeros(1)]
    for row in masses.rows:
        chosen = row.labels >= _MIN_LABEL
        own.append(row.own[chosen])
        other.append(row.other[chosen])
        label.append(row.labels[chosen])
    a, b, half = np.concatenate(own), np.concatenate(other), 0.5 * np.concatenate(label)
    there = a > 2.0 * _UNDERFLOW
    a, b, half = a[there] - _UNDERFLOW, b[there] + _UNDERFLOW, half[there]
    slack = 8.0 * _U * (1.0 + np.abs(half))
    log_a, log_b = np.log(a), np.log(b)
    return (
        log_a + half - slack - 4.0 * _U * np.abs(log_a),
        log_b - half + slack + 4.0 * _U * np.abs(log_b),
    )


def _from_below(order: Order, terms: float, direction: Direction, wholes: Mapping[Direction, Wholes]) -> float:
    own, other = wholes[direction], wholes[direction.opposite]
    a, b = own.total_lower - 1.0, other.total_upper - 1.0
    if order.alpha == 1.0:
        return down(terms + (a - b) - 4.0 * _U * (abs(a) + abs(b)))
    excess = order.alpha * a - order.tilt * b - 8.0 * _U * order.alpha * (abs(a) + abs(b))
    return down(_log(terms, excess, order.log_unit, -1.0) / order.tilt)


def _from_above(order: Order, state: PairState, direction: Direction, wholes: Mapping[Direction, Wholes]) -> float:
    axis = list(Direction).index(direction)
    if state.dominating.infinite[axis] > 0.0:
        return math.inf
    terms, count = state.dominating.infinite[1 - axis] * order.at_nothing * (1.0 + 16.0 * _U), 64.0
    for row in state.dominating.rows:
        there = row.u > 0.0
        size = np.abs(row.losses[there]) * (1.0 + 4.0 * _U)
        log_u = np.log(row.u[there])
        log_mass = log_u + 0.5 * size + 8.0 * _U * (1.0 + np.abs(log_u) + size)
        positive = (row.losses[there] > 0.0) == (direction is Direction.A_TO_B)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            terms += float(np.sum(a_term(order, log_mass[positive], size[positive])))
            terms += float(np.sum(b_term(order, log_mass[~positive], size[~positive])))
        count += there.size
    # What masses below the normal floats have lost: at worst all of it at the largest loss.
    highest = max(state.highest if direction is Direction.A_TO_B else -state.lowest, 0.0)
    with np.errstate(over="ignore"):
        lost = a_term(order, np.array([math.log(_UNDERFLOW) + 0.5 * highest]), np.array([highest]))
    terms = terms * (1.0 + count * _U) + float(lost[0]) + order.alpha * LOST_TO_UNDERFLOW
    if not terms < math.inf:
        return math.inf
    first, second = wholes[direction], wholes[direction.opposite]
    a, b, eta = first.total_upper - 1.0, second.total_lower - 1.0, state.shift * (1.0 + 8.0 * _U)
    growth = math.expm1(eta) * (1.0 + 8.0 * _U)
    alpha, tilt = order.alpha, order.tilt
    if direction is Direction.A_TO_B:
        moved = growth * second.total_upper
        if alpha == 1.0:
            return up(terms + (a - b) + moved + eta * first.total_upper)
        excess, more = alpha * a - tilt * b + tilt * moved, eta
    else:
        moved = growth * first.total_upper
        if alpha == 1.0:
            divergence = terms + (a - b) + moved
            return up(divergence + growth * (divergence + 2.0 * second.total_upper) + eta * first.total_upper)
        excess, more = alpha * a - tilt * b + alpha * moved, alpha * eta / tilt
    excess += 8.0 * _U * alpha * (abs(a) + abs(b) + moved)
    return up(_log(terms, excess, order.log_unit, 1.0) / tilt + more)


def _log(terms: float, excess: float, unit: float, side: float) -> float:
    """Logarithm of 1 + excess + terms, these in units of e^unit, rounded to that side; 0 or less is -inf."""
    if unit == 0.0:
        whole = terms + excess + side * 4.0 * _U * (terms + abs(excess))
        return math.log1p(whole) if whole > -1.0 else -math.inf
    # The 1 and the excess are below e^-400 here.
    whole = terms + (1e-150 if side > 0.0 else 0.0)
    return math.log(whole) + unit if whole > 0.0 else -math.inf
