r"""Rényi divergences of a pair's state, composed as it is: from a state alone, without the pair that it was made of.

With φ of `pbdist.curves.renyi_cells` and F = Σ B φ(A / B), Σ A^α B^(1-α) = F + α T_A - (α - 1) T_B for α > 1, and
the Kullback-Leibler divergence is F + T_A - T_B.

*Above.* F of a post-processing is no larger (φ is convex), so F(A‖B″) <= F(A*‖B*) with the dominating pair and B″ of
`pbdist.pld.state`, e^-η B <= B″ <= e^η B. At a loss ℓ both masses of the pair are multiples of u, and b φ(e^ℓ) rises
with u; what B* has at -∞ adds φ(0) times that. Infinite where A* has anything at +∞. Then, under A‖B,

    Σ A^α B^(1-α) <= e^((α-1)η) Σ A^α B″^(1-α),    T_B″ >= e^-η T_B,
    Σ A ln(A / B) <= Σ A ln(A / B″) + η T_A,

and under B‖A, where B″ is the first of the two,

    Σ B^α A^(1-α) <= e^(αη) Σ B″^α A^(1-α),    T_B″ <= e^η T_B,
    Σ B ln(B / A) <= η T_B + K + (e^η - 1) (K + 2 T_A / e),    K = Σ B″ ln(B″ / A):

with L = ln(B″ / A), B L is at most e^η B″ L where L > 0 and e^-η B″ L elsewhere, and Σ B″ max(0, -L) <= T_A / e, for
x ln(1 / x) is at most 1 / e.

*Below.* φ is the sum of φ₊(x), which is φ from x = 1 on and 0 below, and φ₋; both are convex. Of each F is at least
that of any disjoint events (data processing), and it need not be the same events: b φ₊(a / b) rises with a and falls
with b, so that the exact rows of A‖B bound the first half, and b φ₋(a / b) falls with a and rises with b, so that those
of B‖A bound the other one.
"""

import math
from collections.abc import Mapping

import numpy as np

from pbdist.curves.renyi_cells import LogMasses, Order, a_term, b_term, log_unit_of, terms_below
from pbdist.curves.tradeoff import Wholes, opposite
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld import PairState
from pbdist.pld.lattice import LOST_TO_UNDERFLOW
from pbdist.types import Direction, FloatArray

__all__ = ["pair_state_renyi_bounds"]

_U = UNIT_ROUNDOFF
#: More than what masses lose that are no full floats.
_UNDERFLOW = 1e-290
#: Events of labels below this, nats, are left out of both halves.
_LEAST_LABEL = -1.0


def pair_state_renyi_bounds(
    state: PairState, orders: FloatArray, direction: Direction, wholes: Mapping[Direction, Wholes]
) -> tuple[FloatArray, FloatArray]:
    """Bound D_α(A‖B), or D_α(B‖A).

    Parameters
    ----------
    state : PairState
        With exact rows of both directions.
    orders : ndarray, shape (K,)
        α >= 1, of `pbdist.curves.renyi.checked_orders`.
    direction : Direction
    wholes : mapping
        Of `pbdist.curves.tradeoff.wholes_of`, for the rounds of the state.

    Returns
    -------
    lower, upper : ndarray, shape (K,)
        Nats. The upper bound is infinite where anything may reveal the first of the two.
    """
    own, other = _events(state, direction)
    above = LogMasses(own, np.full_like(own, np.inf), np.full_like(own, -np.inf), other)
    own, other = _events(state, opposite(direction))
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
        told = row.labels >= _LEAST_LABEL
        own.append(row.own[told])
        other.append(row.other[told])
        label.append(row.labels[told])
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
    own, other = wholes[direction], wholes[opposite(direction)]
    a, b = own.total_lower - 1.0, other.total_upper - 1.0
    if order.alpha == 1.0:
        return _down(terms + (a - b) - 4.0 * _U * (abs(a) + abs(b)))
    excess = order.alpha * a - order.tilt * b - 8.0 * _U * order.alpha * (abs(a) + abs(b))
    return _down(_log(terms, excess, order.log_unit, -1.0) / order.tilt)


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
    # Masses that are no full floats may have lost so much: at worst all of it at the largest loss.
    highest = max(state.highest if direction is Direction.A_TO_B else -state.lowest, 0.0)
    with np.errstate(over="ignore"):
        lost = a_term(order, np.array([math.log(_UNDERFLOW) + 0.5 * highest]), np.array([highest]))
    terms = terms * (1.0 + count * _U) + float(lost[0]) + order.alpha * LOST_TO_UNDERFLOW
    if not terms < math.inf:
        return math.inf
    first, second = wholes[direction], wholes[opposite(direction)]
    a, b, eta = first.total_upper - 1.0, second.total_lower - 1.0, state.shift * (1.0 + 8.0 * _U)
    growth = math.expm1(eta) * (1.0 + 8.0 * _U)
    alpha, tilt = order.alpha, order.tilt
    if direction is Direction.A_TO_B:
        moved = growth * second.total_upper
        if alpha == 1.0:
            return _up(terms + (a - b) + moved + eta * first.total_upper)
        excess, more = alpha * a - tilt * b + tilt * moved, eta
    else:
        moved = growth * first.total_upper
        if alpha == 1.0:
            divergence = terms + (a - b) + moved
            return _up(divergence + growth * (divergence + 2.0 * second.total_upper) + eta * first.total_upper)
        excess, more = alpha * a - tilt * b + alpha * moved, alpha * eta / tilt
    excess += 8.0 * _U * alpha * (abs(a) + abs(b) + moved)
    return _up(_log(terms, excess, order.log_unit, 1.0) / tilt + more)


def _log(terms: float, excess: float, unit: float, side: float) -> float:
    """Logarithm of 1 + excess + terms, these in units of e^unit, rounded to that side; 0 or less is -inf."""
    if unit == 0.0:
        whole = terms + excess + side * 4.0 * _U * (terms + abs(excess))
        return math.log1p(whole) if whole > -1.0 else -math.inf
    # The 1 and the excess are below e^-400 here.
    whole = terms + (1e-150 if side > 0.0 else 0.0)
    return math.log(whole) + unit if whole > 0.0 else -math.inf


def _down(value: float) -> float:
    return value - 16.0 * _U * abs(value)


def _up(value: float) -> float:
    return value + 16.0 * _U * abs(value)
