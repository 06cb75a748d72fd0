"""Bounds on a pair's Rényi divergence from one grid of losses, and how to refine the grid."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, LossMasses, ScaledLossMasses
from pbdist.renyi.bins import (
    LogMasses,
    Order,
    bin_terms_above,
    down,
    event_terms_above,
    log_unit_of,
    terms_below,
    up,
)
from pbdist.types import Direction, FloatArray

#: At most so many bins in a grid.
MOST_BINS = 1_000_000
#: The smallest edge of a first grid.
_SMALLEST_EDGE = 1e-13

_ROUGH_SIDE: FloatArray = np.geomspace(_SMALLEST_EDGE, 1e10, 1600)
#: The first grid: edges a thirtieth apart.
ROUGH_EDGES: FloatArray = np.concatenate((-_ROUGH_SIDE[::-1], [0.0], _ROUGH_SIDE))


@dataclass(frozen=True)
class LossWindow:
    """Where the bins lie, and how fine they are.

    Attributes
    ----------
    low, high
        The outermost edges are -low and high, nats.
    finer
        Divides every width.
    """

    low: float
    high: float
    finer: float = 1.0

    def edges(self, guess: float, alpha: float, tolerance: float) -> FloatArray:
        """Return edges, 0 among them, for a divergence of about `guess`.

        Near 0 the bins are as wide as the standard deviation of a loss of that divergence allows; further out their
        width grows with the loss, up to where e^(α L) would vary too much within a bin.
        """
        core = math.sqrt(tolerance * guess / alpha) / self.finer
        widest = max(core, math.sqrt(tolerance) / alpha / self.finer)
        growth = math.sqrt(1.5 * tolerance) / self.finer
        sides = [_side(reach, core, widest, growth) for reach in (self.low, self.high)]
        return np.concatenate((-sides[0][::-1], [0.0], sides[1]))

    def adapted(self, *, longer: bool, deeper: bool, dense: bool) -> "LossWindow":
        """Return the next window: longer above or below where an end decides, finer where the bins do."""
        high, low = (side * (1.4 if more else 1.0) for side, more in ((self.high, longer), (self.low, deeper)))
        return LossWindow(low, high, self.finer * (1.0 if (longer or deeper) and not dense else 1.5))


def _side(reach: float, core: float, widest: float, growth: float) -> FloatArray:
    """Return increasing edges from near 0 to `reach`, with the widths of `LossWindow.edges`."""
    parts, last = [], 0.0
    for step, end in ((core, core / growth), (None, widest / growth), (widest, reach)):
        stop = min(end, reach)
        if stop <= last:
            continue
        if step is None:
            count = min(math.ceil(math.log(stop / last) / math.log1p(growth)), MOST_BINS)
            part = last * np.exp(np.linspace(0.0, math.log(stop / last), count + 1)[1:])
        else:
            count = math.ceil(min((stop - last) / step, MOST_BINS))
            part = np.linspace(last, stop, count + 1)[1:]
        parts.append(part)
        last = float(part[-1])
    return np.unique(np.concatenate(parts))


@dataclass(frozen=True)
class Interval:
    """A lower and an upper bound."""

    lower: float
    upper: float


class RenyiTerms:
    """The contributions of bins, of single events and of the ends, on one grid.

    Attributes
    ----------
    above_gap, below_gap, inner_gap
        Differences of upper and lower bounds above the last edge, below the first one, and in between.
    whole
        What they are compared with: the sum; a multiple of it where it is far above 1, as only its logarithm counts.
    events_only
        Whether no event is spread over bins: then a finer grid gains nothing.
    unknown
        Whether the upper bound is infinite on every grid.
    infinite
        P_A mass of infinite losses, rounded up, that the bounds are without; 0 unless `finite`.
    """

    def __init__(
        self, pair: ElementaryPair, alpha: float, direction: Direction, edges: FloatArray, *, finite: bool = False
    ) -> None:
        scaled = pair.scaled_loss_masses(edges, direction)
        bins, events = _log_masses(scaled)
        masses = scaled.masses
        self._pair, self._direction, self._edges = pair, direction, edges
        self.events_only = not (np.any(masses.bins_a.upper > 0.0) or np.any(masses.bins_b.upper > 0.0))
        self._nothing_above = not np.any(masses.bins_a.upper[1:] > 0.0)
        tail: float = -math.inf
        if float(masses.bins_a.upper[-1]) > 0.0:
            tail = _log_tail(pair, alpha, float(edges[-1]), masses.loss_error, direction)
        self.order = Order(alpha, log_unit_of(alpha, bins, events))
        error = masses.loss_error
        low = np.concatenate(([-np.inf], edges[:-1])) - error
        upper_bins = bin_terms_above(self.order, bins.at(slice(0, -1)), low, edges + error)
        lower_bins = terms_below(self.order, bins)
        only_a, only_b = float(masses.only_a.upper[0]), masses.only_b
        faint = _faint_terms(pair, self.order, scaled, direction)
        self.infinite = 0.0
        if faint is None and finite:
            self.infinite, faint = _apart(self.order, masses)
        if faint is None:
            upper_events = event_terms_above(self.order, events, masses.atom_loss, error)
            self.unknown = only_a > 0.0 or bool(np.any(np.isinf(upper_events)))
        else:
            known = np.isfinite(masses.atom_loss)
            upper_events = event_terms_above(self.order, events.at(known), masses.atom_loss[known], error)
            upper_events = np.append(upper_events, faint)
            self.unknown, only_a = False, 0.0
            if finite:
                events = events.at(known)
        lower_events = terms_below(self.order, events)
        tail_term: float = _exponential(tail - self.order.log_unit)
        lonely = [float(only_b.lower[0]) * self.order.at_nothing, float(only_b.upper[0]) * self.order.at_nothing]
        slack = (bins.a_upper.size + events.a_upper.size + 64.0) * UNIT_ROUNDOFF
        self.lower: float = (math.fsum((np.sum(lower_bins), np.sum(lower_events), lonely[0]))) * (1.0 - slack)
        self.upper: float = (
            math.fsum((np.sum(upper_bins), np.sum(upper_events), lonely[1], tail_term)) * (1.0 + slack) + 1e-280
        )
        if only_a > 0.0:
            self.upper = math.inf
        self._upper_bins = upper_bins
        self.above_gap = tail_term - float(lower_bins[-1])
        self.below_gap = float(upper_bins[0] - lower_bins[0])
        self.inner_gap = self.upper - self.lower - self.above_gap - self.below_gap
        self.excess = _excess_of(pair, alpha, direction)
        # Only the logarithm of the sum counts.
        least = max(self.lower, 1e-300)
        self.whole = least * max(1.0, self.order.log_unit + math.log(least))

    def window(self, share: float) -> LossWindow:
        """Return a window outside which the upper bounds are at most that share of `whole`."""
        enough = share * self.whole
        first = int(np.argmax(np.append(np.cumsum(self._upper_bins), np.inf) > enough))
        sides = -float(self._edges[max(first - 1, 0)]), self._reach(math.log(enough) + self.order.log_unit)
        return LossWindow(*(max(side, _SMALLEST_EDGE) for side in sides))

    def _reach(self, log_enough: float) -> float:
        """Return the first edge above which the events contribute at most that much."""
        if self._nothing_above:
            return 0.0
        first, last = self._edges.size // 2 + 1, self._edges.size - 1
        while first < last:
            middle = (first + last) // 2
            tail = _log_tail(self._pair, self.order.alpha, float(self._edges[middle]), 0.0, self._direction)
            first, last = (first, middle) if tail <= log_enough else (middle + 1, last)
        return float(self._edges[first])

    def bounds(self) -> Interval:
        """Return the bounds on the divergence."""
        if self.order.alpha == 1.0:
            return Interval(down(self.lower + self.excess[0]), up(self.upper + self.excess[1]))
        unit = self.order.log_unit
        if unit == 0.0:
            logs = math.log1p(self.lower + self.excess[0]), math.log1p(self.upper + self.excess[1])
        else:
            # The 1 and the excess are below e^-400 here.
            logs = _log_in_unit(self.lower, unit), _log_in_unit(self.upper + 1e-150, unit)
        return Interval(down(logs[0] / self.order.tilt), up(logs[1] / self.order.tilt))


def _faint_terms(pair: ElementaryPair, order: Order, scaled: ScaledLossMasses, direction: Direction) -> float | None:
    """Upper bound on the contribution of events without a loss of their own; None without events, or without a bound.

    Events of negative loss contribute at most φ(0) for each unit of P_B mass, the others at most their moment.
    """
    masses = scaled.masses
    without = ~np.isfinite(masses.atom_loss)
    if not (np.any(without) or float(masses.only_a.upper[0]) > 0.0):
        return None
    if order.alpha == 1.0:
        # L <= e^(L - 1).
        moment = pair.log_faint_moment(1.0, direction) - 1.0
    else:
        moment = pair.log_faint_moment(order.tilt * (1.0 + 2.0 * UNIT_ROUNDOFF), direction)
    if moment == math.inf:
        return None
    negative = float(np.sum(masses.atoms_b.upper[without])) * order.at_nothing
    return (_exponential(moment - order.log_unit) + negative) * (1.0 + masses.atom_loss.size * UNIT_ROUNDOFF)


def _apart(order: Order, masses: LossMasses) -> tuple[float, float | None]:
    """Return the P_A mass of events whose loss is infinite, or may be, and what the others have to add without them.

    Both are rounded up. F without some events, plus φ(0) of their P_B mass, is at least the moment less 1 of the
    others: Theorem 51 of docs/theory.md. None where there is no such event.
    """
    without = ~np.isfinite(masses.atom_loss)
    infinite = float(masses.only_a.upper[0]) + float(np.sum(masses.atoms_a.upper[without]))
    rounded = 1.0 + (masses.atom_loss.size + 8.0) * UNIT_ROUNDOFF
    if infinite == 0.0:
        return 0.0, None
    return infinite * rounded, float(np.sum(masses.atoms_b.upper[without])) * order.at_nothing * rounded


def _log_masses(scaled: ScaledLossMasses) -> tuple[LogMasses, LogMasses]:
    masses = scaled.masses
    bins = LogMasses.of(
        (masses.bins_a.lower, masses.bins_a.upper, masses.bins_b.lower, masses.bins_b.upper),
        (scaled.log_scale_a, scaled.log_scale_b),
    )
    events = LogMasses.of(
        (masses.atoms_a.lower, masses.atoms_a.upper, masses.atoms_b.lower, masses.atoms_b.upper),
        (scaled.atoms_log_scale_a, scaled.atoms_log_scale_b),
    )
    return bins, events


def _log_tail(pair: ElementaryPair, alpha: float, edge: float, loss_error: float, direction: Direction) -> float:
    """Upper bound of the logarithm of the contribution of the events above an edge.

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
    """Bounds on what totals other than 1 add; both 0 where they are 1."""
    a, b = pair.mass_excess if direction is Direction.A_TO_B else pair.mass_excess[::-1]
    exact = a - b if alpha == 1.0 else b + Fraction(alpha) * (a - b)
    value = float(exact)
    return value - 4.0 * UNIT_ROUNDOFF * abs(value), value + 4.0 * UNIT_ROUNDOFF * abs(value)


def _exponential(log: float) -> float:
    if log == -math.inf:
        return 0.0
    return math.exp(log) * (1.0 + 8.0 * UNIT_ROUNDOFF * (1.0 + abs(log))) if log < 700.0 else math.inf


def _log_in_unit(value: float, unit: float) -> float:
    return math.log(value) + unit if value > 0.0 else 0.0
