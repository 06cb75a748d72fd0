r"""Rényi divergences of a mechanism, from both sides.

D_α(A‖B) = ln(Σ P_A^α P_B^(1-α)) / (α - 1), and the Kullback-Leibler divergence Σ P_A ln(P_A / P_B) for α = 1, in nats.
Of independent pairs it is the sum: r compositions have r times that of one. It is infinite where A shows what B cannot.

Of one pair, the loss cells of `pbdist.buckets.renyi_cells` bound F = Σ P_B φ(P_A / P_B); for α > 1 the sum in the
logarithm is 1 + F, for α = 1 F is the divergence, where
masses sum to 1; a histogram's totals T_A, T_B add T_B - 1 + α (T_A - T_B), and T_A - T_B for α = 1.
Above the last edge a moment in closed form bounds what is left (`ElementaryPair.log_tail_moment`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from pbdist.buckets.arguments import checked_components, checked_compositions, checked_precision
from pbdist.buckets.renyi_cells import (
    LogMasses,
    Order,
    cell_terms_above,
    log_unit_of,
    point_terms_above,
    terms_below,
)
from pbdist.buckets.renyi_window import MOST_CELLS, ROUGH_EDGES, SMALLEST_EDGE, LossWindow
from pbdist.buckets.tradeoff import mass_excess, opposite
from pbdist.buckets.tradeoff_table import CurveTable
from pbdist.errors import InvalidInputError, PrecisionError, shown
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, Pair, ScaledLossMasses
from pbdist.types import Direction, FloatArray

__all__ = ["LARGEST_ORDER", "checked_orders", "divergence_bounds", "renyi_table"]

#: Orders beyond this are refused.
LARGEST_ORDER = 1e6
#: A divergence of at most this is not told from 0.
_NEGLIGIBLE = 1e-24
_MOST_ROUNDS = 60
#: Rounds in a row that may go without bringing the bounds a tenth closer.
_PATIENCE = 6


def checked_orders(order: Any) -> FloatArray:
    """Return orders from 1 to `LARGEST_ORDER`, shape (K,).

    Raises
    ------
    InvalidInputError
        If it is anything else.
    """
    try:
        given = np.atleast_1d(np.asarray(order))
        values = given.astype(np.float64) if given.dtype.kind in "iuf" else None
    except ValueError:
        values = None
    if values is None or values.ndim != 1 or values.size == 0:
        raise InvalidInputError(f"order: expected numbers from 1 to {LARGEST_ORDER:g}, got {shown(order)}")
    for value in values.tolist():
        if not (value == 1.0 or 1.0 + 1e-6 <= value <= LARGEST_ORDER):
            raise InvalidInputError(
                f"order: expected 1 or numbers from 1.000001 to {LARGEST_ORDER:g}, got {shown(value)}"
            )
    return values


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

    Raises
    ------
    PrecisionError
        If upper / lower - 1 cannot be brought to the tolerance.
    """
    only = pair.directed_loss_masses(np.zeros(1), direction).only_a
    if float(only.lower[0]) > 0.0:
        return math.inf, math.inf
    rough = _Terms(pair, alpha, direction, ROUGH_EDGES)
    best = rough.bounds()
    guess = max(best.lower, 1e-28)
    window = rough.window(0.05 * tolerance)
    closest, idle = math.inf, 0
    for _ in range(_MOST_ROUNDS):
        edges = window.edges(guess, alpha, tolerance)
        if edges.size > MOST_CELLS:
            break
        terms = _Terms(pair, alpha, direction, edges)
        found = terms.bounds()
        best = _Bounds(max(best.lower, found.lower), min(best.upper, found.upper))
        if best.upper <= best.lower * (1.0 + tolerance) or abs(best.upper) <= _NEGLIGIBLE:
            return best.lower, best.upper
        gap = best.upper / best.lower - 1.0 if best.lower > 0.0 else math.inf
        closest, idle = (gap, 0) if gap < 0.9 * closest else (closest, idle + (gap < math.inf))
        if (best.upper == math.inf and terms.unknown) or idle > _PATIENCE or terms.points_only:
            break
        enough = tolerance * terms.whole
        window = window.adapted(
            longer=terms.above_gap > 0.1 * enough,
            deeper=terms.below_gap > 0.1 * enough,
            dense=terms.inner_gap > 0.5 * enough,
        )
        guess = max(best.lower, guess)
    raise PrecisionError(
        f"tolerance: the divergence of order {alpha:g} of {shown(pair)}, {direction.value}, lies between"
        f" {best.lower:.6g} and {best.upper:.6g}, a relative {tolerance:.3g} was asked for"
    )


@dataclass(frozen=True)
class _Bounds:
    lower: float
    upper: float


class _Terms:
    """The contributions of cells, of single events and of the ends, as `LossWindow` needs to know them.

    Attributes
    ----------
    above_gap, below_gap, inner_gap
        What upper and lower bounds differ by above the last edge, below the first one, and in between.
    whole
        What they are relative to: the sum, or its multiple by as much as a logarithm far above 1 forgives.
    points_only
        Whether no event is spread over cells, so that none of them need be finer.
    unknown
        Whether the upper bound is infinite for what no window mends.
    """

    def __init__(self, pair: ElementaryPair, alpha: float, direction: Direction, edges: FloatArray) -> None:
        scaled = pair.scaled_loss_masses(edges, direction)
        cells, points = _log_masses(scaled)
        masses = scaled.masses
        self._pair, self._direction, self._edges = pair, direction, edges
        self.points_only = not (np.any(masses.cells_a.upper > 0.0) or np.any(masses.cells_b.upper > 0.0))
        self._nothing_above = not np.any(masses.cells_a.upper[1:] > 0.0)
        tail = -math.inf
        if float(masses.cells_a.upper[-1]) > 0.0:
            tail = _log_tail(pair, alpha, float(edges[-1]), masses.loss_error, direction)
        self.order = Order(alpha, log_unit_of(alpha, cells, points))
        error = masses.loss_error
        low = np.concatenate(([-np.inf], edges[:-1])) - error
        upper_cells = cell_terms_above(self.order, cells.at(slice(0, -1)), low, edges + error)
        lower_cells = terms_below(self.order, cells)
        upper_points = point_terms_above(self.order, points, masses.atom_loss, error)
        lower_points = terms_below(self.order, points)
        tail_term = _exponential(tail - self.order.log_unit)
        only_a, only_b = float(masses.only_a.upper[0]), masses.only_b
        self.unknown = only_a > 0.0 or bool(np.any(np.isinf(upper_points)))
        lonely = [float(only_b.lower[0]) * self.order.at_nothing, float(only_b.upper[0]) * self.order.at_nothing]
        slack = (cells.a_upper.size + points.a_upper.size + 64.0) * UNIT_ROUNDOFF
        self.lower = (math.fsum((np.sum(lower_cells), np.sum(lower_points), lonely[0]))) * (1.0 - slack)
        self.upper = (
            math.fsum((np.sum(upper_cells), np.sum(upper_points), lonely[1], tail_term)) * (1.0 + slack) + 1e-280
        )
        if only_a > 0.0:
            self.upper = math.inf
        self._upper_cells = upper_cells
        self.above_gap = tail_term - float(lower_cells[-1])
        self.below_gap = float(upper_cells[0] - lower_cells[0])
        self.inner_gap = self.upper - self.lower - self.above_gap - self.below_gap
        self.excess = _excess_of(pair, alpha, direction)
        # The logarithm of a sum far above 1 forgives more.
        known = max(self.lower, 1e-300)
        exponent = self.order.log_unit + math.log(known)
        self.whole = known * max(1.0, exponent)

    def window(self, share: float) -> LossWindow:
        """Return a window outside which the upper bounds are at most that share of the whole."""
        enough = share * self.whole
        first = int(np.argmax(np.append(np.cumsum(self._upper_cells), np.inf) > enough))
        sides = -float(self._edges[max(first - 1, 0)]), self._reach(math.log(enough) + self.order.log_unit)
        return LossWindow(*(max(side, SMALLEST_EDGE) for side in sides))

    def _reach(self, log_enough: float) -> float:
        """Return the first edge above which no more lies."""
        if self._nothing_above:
            return 0.0
        first, last = self._edges.size // 2 + 1, self._edges.size - 1
        while first < last:
            middle = (first + last) // 2
            tail = _log_tail(self._pair, self.order.alpha, float(self._edges[middle]), 0.0, self._direction)
            first, last = (first, middle) if tail <= log_enough else (middle + 1, last)
        return float(self._edges[first])

    def bounds(self) -> _Bounds:
        """Return the bounds on the divergence."""
        if self.order.alpha == 1.0:
            return _Bounds(_down(self.lower + self.excess[0]), _up(self.upper + self.excess[1]))
        unit = self.order.log_unit
        if unit == 0.0:
            logs = math.log1p(self.lower + self.excess[0]), math.log1p(self.upper + self.excess[1])
        else:
            # The 1 and the excess are below e^-400 here.
            logs = _log_in_unit(self.lower, unit), _log_in_unit(self.upper + 1e-150, unit)
        return _Bounds(_down(logs[0] / self.order.tilt), _up(logs[1] / self.order.tilt))


def _log_masses(scaled: ScaledLossMasses) -> tuple[LogMasses, LogMasses]:
    masses = scaled.masses
    cells = LogMasses.of(
        (masses.cells_a.lower, masses.cells_a.upper, masses.cells_b.lower, masses.cells_b.upper),
        (scaled.log_scale_a, scaled.log_scale_b),
    )
    points = LogMasses.of(
        (masses.atoms_a.lower, masses.atoms_a.upper, masses.atoms_b.lower, masses.atoms_b.upper),
        (scaled.atoms_log_scale_a, scaled.atoms_log_scale_b),
    )
    return cells, points


def _log_tail(pair: ElementaryPair, alpha: float, edge: float, loss_error: float, direction: Direction) -> float:
    """Upper bound of the logarithm of what the events above an edge contribute.

    Their losses are at least the edge less the error, hence positive: P_B < P_A there, and P_B φ(P_A / P_B) is at most
    P_A e^((α-1) L); for α = 1 at most P_A L <= P_A e^(s L - 1) / s for any s > 0, taken as 1 / edge.
    """
    start = edge - 2.0 * loss_error - 4.0 * UNIT_ROUNDOFF * edge
    if start < 0.0:
        return math.inf
    if alpha > 1.0:
        return pair.log_tail_moment((alpha - 1.0) * (1.0 + 2.0 * UNIT_ROUNDOFF), start, direction)
    moment = pair.log_tail_moment(1.0 / edge, start, direction)
    if not math.isfinite(moment):
        return moment
    return moment + math.log(edge) - 1.0 + 1e-14 * (1.0 + abs(moment) + abs(math.log(edge)))


def _excess_of(pair: ElementaryPair, alpha: float, direction: Direction) -> tuple[float, float]:
    """Bounds on what totals beside 1 add, both 0 where they are 1."""
    a, b = (mass_excess(pair, side) for side in (direction, opposite(direction)))
    exact = a - b if alpha == 1.0 else b + Fraction(alpha) * (a - b)
    value = float(exact)
    return value - 4.0 * UNIT_ROUNDOFF * abs(value), value + 4.0 * UNIT_ROUNDOFF * abs(value)


def _exponential(log: float) -> float:
    if log == -math.inf:
        return 0.0
    return math.exp(log) * (1.0 + 8.0 * UNIT_ROUNDOFF * (1.0 + abs(log))) if log < 700.0 else math.inf


def _log_in_unit(value: float, unit: float) -> float:
    return math.log(value) + unit if value > 0.0 else 0.0


def _down(value: float) -> float:
    return value - 16.0 * UNIT_ROUNDOFF * abs(value)


def _up(value: float) -> float:
    return value + 16.0 * UNIT_ROUNDOFF * abs(value)
