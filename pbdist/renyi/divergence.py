"""Rényi divergences and exponential moments of one pair, from both sides.

D_α(A‖B) = ln(Σ P_A^α P_B^(1-α)) / (α - 1), in nats; that of order 1 is the Kullback-Leibler divergence. Gaussian noise,
continuous or discrete, has a closed form (`closed_form`). For any other pair, bins bound F = Σ P_B φ(P_A / P_B), with a
moment in closed form above the last edge (`terms`). Section 10 of docs/theory.md has the bounds, and the effect of a
histogram's totals.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pbdist.errors import PrecisionError, shown
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, LossMasses, MassBounds, ScaledLossMasses
from pbdist.rounding import rounded_down, rounded_up
from pbdist.types import BoolArray, Direction, FloatArray

_U = UNIT_ROUNDOFF
#: Exponents up to here need no unit.
_PLAIN_EXPONENT = 500.0


@dataclass(frozen=True)
class Order:
    """The order α of a divergence, and the exponent κ of the unit in which its terms are counted."""

    #: At least 1; 1 is the Kullback-Leibler divergence.
    alpha: float
    #: κ >= 0; 0 for α = 1.
    log_unit: float = 0.0

    @property
    def tilt(self) -> float:
        """The exponent α - 1, exact for α up to 2 and rounded once beyond."""
        return self.alpha - 1.0

    @property
    def at_nothing(self) -> float:
        """φ(0): the contribution of events that A lacks, for each unit of P_B mass, in the unit of the terms."""
        return (self.tilt if self.alpha > 1.0 else 1.0) * math.exp(-self.log_unit)

    def share(self, loss: FloatArray) -> tuple[FloatArray, FloatArray]:
        """χ(L) for L >= 0, and a bound on its error; L itself enters for α = 1: χ(L) = ψ(L) = L + e^-L - 1."""
        if self.alpha == 1.0:
            first, second = loss, np.expm1(-loss)
        else:
            power = self.tilt * loss
            first, second = -np.expm1(-power), self.tilt * np.exp(-power) * np.expm1(-loss)
        # The product α - 1 times L, off by 2u, enters each term by at most as much as the term itself.
        return np.maximum(first + second, 0.0), 16.0 * _U * (np.abs(first) + np.abs(second))

    def below_one(self, depth: FloatArray) -> tuple[FloatArray, FloatArray]:
        """φ(e^-ℓ) for ℓ >= 0, possibly infinite, in the unit of the terms, and a bound on its error."""
        unit, x = math.exp(-self.log_unit), np.exp(-depth)
        if self.alpha == 1.0:
            first, second = -np.where(np.isfinite(depth), depth, 0.0) * x, -np.expm1(-depth)
        else:
            # Both of the order of α - 1, so that neither is lost where that is small.
            first, second = x * np.expm1(-self.tilt * depth), -self.tilt * np.expm1(-depth)
        return np.maximum(first + second, 0.0) * unit, 16.0 * _U * (np.abs(first) + np.abs(second)) * unit

    def weight(self, log_mass: FloatArray, loss: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mass times e^((α-1) L - κ), and a bound on its relative error; log masses are exact, possibly -inf."""
        power = self.tilt * loss
        exponent = log_mass + power - self.log_unit
        error = 4.0 * _U * (1.0 + np.where(np.isfinite(log_mass), np.abs(log_mass), 0.0) + 2.0 * np.abs(power))
        with np.errstate(under="ignore", over="ignore"):
            # A weight that underflows is at most the smallest normal number.
            value = np.where(log_mass > -math.inf, np.maximum(np.exp(exponent), 1e-300), 0.0)
        return value, error + 4.0 * _U * self.log_unit


@dataclass(frozen=True, eq=False)
class LogMasses:
    """Natural logarithms of lower and upper P_A and P_B masses, rounded outwards; -inf for 0."""

    a_lower: FloatArray
    a_upper: FloatArray
    b_lower: FloatArray
    b_upper: FloatArray

    @classmethod
    def of(
        cls, a: MassBounds, b: MassBounds, scale_a: FloatArray | float = 0.0, scale_b: FloatArray | float = 0.0
    ) -> "LogMasses":
        """Take logarithms of masses, with those of the factors of a and of b."""
        logs = []
        for index, values in enumerate((a.lower, a.upper, b.lower, b.upper)):
            with np.errstate(divide="ignore"):
                log = np.log(values)
            scale = (scale_a, scale_b)[index // 2]
            slack = 4.0 * _U * (1.0 + np.where(values > 0.0, np.abs(log), 0.0) + np.abs(scale))
            logs.append(log + scale + (slack if index % 2 else -slack))
        return cls(*logs)

    def at(self, chosen: BoolArray | slice) -> "LogMasses":
        """Return some of them."""
        return LogMasses(self.a_lower[chosen], self.a_upper[chosen], self.b_lower[chosen], self.b_upper[chosen])


def log_unit_of(alpha: float, *masses: LogMasses) -> float:
    """Return an exponent κ with which the lower bounds do not leave float64; upper ones may be infinite."""
    if alpha == 1.0:
        return 0.0
    largest = 0.0
    for part in masses:
        present = (part.a_lower > -math.inf) & (part.b_upper > -math.inf)
        log_a, log_b = part.a_lower[present], part.b_upper[present]
        largest = max(largest, float(np.max(log_a + (alpha - 1.0) * (log_a - log_b), initial=0.0)))
    return largest if largest > _PLAIN_EXPONENT else 0.0


def terms_below(order: Order, masses: LogMasses) -> FloatArray:
    """Lower bounds on the contribution of each bin or event."""
    terms = np.zeros(masses.a_lower.shape)
    above = (masses.a_lower > masses.b_upper) & (masses.b_upper > -math.inf)
    loss = masses.a_lower[above] - masses.b_upper[above]
    # The difference rounds once: a smaller loss only lowers the bound.
    loss *= 1.0 - 4.0 * _U
    share, error = order.share(loss)
    weight, relative = order.weight(masses.a_lower[above], loss)
    weight = np.where(weight > 2e-300, weight, 0.0)
    terms[above] = np.maximum(share - error, 0.0) * weight * (1.0 - relative - 8.0 * _U)
    under = masses.b_lower > masses.a_upper
    # Infinite where A has no mass.
    depth = (masses.b_lower[under] - masses.a_upper[under]) * (1.0 - 4.0 * _U)
    value, error = order.below_one(depth)
    terms[under] = np.maximum(value - error, 0.0) * _exp(masses.b_lower[under], -1.0)
    return np.maximum(terms, 0.0)


def bin_terms_above(order: Order, masses: LogMasses, low: FloatArray, high: FloatArray) -> FloatArray:
    """Upper bounds on the contribution of bins whose losses lie in [low, high]; high finite, low perhaps not."""
    terms = np.empty(low.shape)
    positive = low + high > 0.0
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        terms[positive] = _by_a(order, masses.at(positive), low[positive], high[positive])
        terms[~positive] = _by_b(order, masses.at(~positive), low[~positive], high[~positive])
    return _known(terms)


def _known(terms: FloatArray) -> FloatArray:
    """Upper bounds: a NaN, from infinite times 0, has none."""
    return np.where(np.isnan(terms), np.inf, terms)


def event_terms_above(order: Order, masses: LogMasses, loss: FloatArray, loss_error: float) -> FloatArray:
    """Upper bounds on the contribution of single events, of losses known to within `loss_error` or infinite.

    The smaller of two bounds: by the loss, and by the masses alone (b φ(a / b) is convex, hence largest in a corner of
    the ranges of a and b). Infinite where the loss is and b may be 0.
    """
    size = np.where(np.isfinite(loss), np.abs(loss), 0.0) + loss_error
    by_a, by_b = a_term(order, masses.a_upper, size), b_term(order, masses.b_upper, size)
    # The sign of a loss within its error is not known.
    unknown = np.abs(loss) <= loss_error
    by_loss = np.where(unknown, np.maximum(by_a, by_b), np.where(loss > 0.0, by_a, by_b))
    by_loss = np.where(np.isfinite(loss), by_loss, np.inf)
    with np.errstate(invalid="ignore"):
        above, under = (masses.a_upper - masses.b_lower), (masses.b_upper - masses.a_lower)
    finite = np.isfinite(above)
    ratio = np.where(finite, np.maximum(above, 0.0), 0.0) * (1.0 + 4.0 * _U)
    by_masses = np.where(finite, a_term(order, masses.a_upper, ratio), np.where(above > 0.0, np.inf, 0.0))
    under = np.where(np.isnan(under), 0.0, np.maximum(under, 0.0)) * (1.0 + 4.0 * _U)
    return np.minimum(_known(by_loss), _known(np.maximum(by_masses, b_term(order, masses.b_upper, under))))


def a_term(order: Order, log_mass: FloatArray, loss: FloatArray) -> FloatArray:
    """Return a ψ(L) for L >= 0, rounded up."""
    share, error = order.share(loss)
    weight, relative = order.weight(log_mass, loss)
    return (share + error) * weight * (1.0 + relative + 8.0 * _U)


def b_term(order: Order, log_mass: FloatArray, depth: FloatArray) -> FloatArray:
    """Return b φ(e^-ℓ) for ℓ >= 0, rounded up."""
    value, error = order.below_one(depth)
    return (value + error) * _exp(log_mass, 1.0)


def _by_a(order: Order, masses: LogMasses, low: FloatArray, high: FloatArray) -> FloatArray:
    """The first form of Theorem 12.

    At a ``low`` just below 0, e^|l| α (α-1) and e^-|l| α (α-1) bound ψ'' on either side of 0, so that ψ(l) is at
    most e^(2|l|) ψ(|l|). f is a mean of ψ(l) and ψ(high), in which it is monotone.
    """
    depth = np.abs(low)
    small, small_error = order.share(depth)
    small = (small + small_error) * np.exp(2.0 * np.maximum(-low, 0.0)) * (1.0 + 8.0 * _U)
    # In units of e^((α-1) high).
    small = small * np.exp(-order.tilt * (high - depth) * (1.0 - 4.0 * _U)) * (1.0 + 8.0 * _U)
    large, large_error = order.share(high)
    part = share_at_end(masses.b_lower, masses.a_upper, low, high - low)
    value = small + part * np.maximum(large + large_error - small, 0.0)
    weight, relative = order.weight(masses.a_upper, high)
    return np.where(masses.a_upper > -math.inf, value * weight * (1.0 + relative + 16.0 * _U), 0.0)


def _by_b(order: Order, masses: LogMasses, low: FloatArray, high: FloatArray) -> FloatArray:
    """The second form of Theorem 12; at a ``high`` just above 0, φ(e^h) is at most e^(2 α h) φ(e^-h), as in `_by_a`."""
    small, small_error = order.below_one(np.abs(high))
    small = (small + small_error) * np.exp(2.0 * order.alpha * np.maximum(high, 0.0)) * (1.0 + 8.0 * _U)
    large, large_error = order.below_one(-low)
    part = share_at_end(masses.a_lower, masses.b_upper, -high, high - low)
    value = small + part * np.maximum(large + large_error - small, 0.0)
    return np.where(masses.b_upper > -math.inf, value * _exp(masses.b_upper, 1.0) * (1.0 + 16.0 * _U), 0.0)


def share_at_end(log_other: FloatArray, log_mass: FloatArray, shift: FloatArray, width: FloatArray) -> FloatArray:
    """Return (1 - other e^shift / mass) / (1 - e^-width), rounded up and at most 1."""
    with np.errstate(invalid="ignore"):
        inner = log_other - log_mass + shift
    slack = 8.0 * _U * (1.0 + np.abs(shift) + _size(log_other) + _size(log_mass))
    rest = np.where(log_other > -math.inf, np.exp(np.minimum(inner, 0.0) - slack), 0.0)
    scale = -np.expm1(-width * (1.0 - 4.0 * _U)) * (1.0 - 8.0 * _U)
    return np.clip((1.0 - rest) / scale, 0.0, 1.0)


def _size(logs: FloatArray) -> FloatArray:
    return np.where(np.isfinite(logs), np.abs(logs), 0.0)


def _exp(logs: FloatArray, side: float) -> FloatArray:
    """Exponentials rounded to that side."""
    value = np.exp(logs + side * 8.0 * _U * (1.0 + _size(logs)))
    if side > 0.0:
        return np.where(logs > -math.inf, np.maximum(value, 1e-300), 0.0)
    return np.where(value > 2e-300, value, 0.0)


def down(value: float) -> float:
    """Return a lower bound of a number computed with a few roundings."""
    return value - 16.0 * _U * abs(value)


def up(value: float) -> float:
    """Return an upper bound of a number computed with a few roundings."""
    return value + 16.0 * _U * abs(value)


#: At most so many bins in a grid.
MAX_BINS = 1_000_000
#: The smallest edge of a first grid.
_SMALLEST_EDGE = 1e-13

_ROUGH_SIDE: FloatArray = np.geomspace(_SMALLEST_EDGE, 1e10, 1600)
#: The first grid: edges a thirtieth apart.
ROUGH_EDGES: FloatArray = np.concatenate((-_ROUGH_SIDE[::-1], [0.0], _ROUGH_SIDE))


@dataclass(frozen=True)
class LossWindow:
    """Where the bins lie, and how fine they are."""

    #: The outermost edges are -low and high, nats.
    low: float
    high: float
    #: Divides every width.
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
            count = min(math.ceil(math.log(stop / last) / math.log1p(growth)), MAX_BINS)
            part = last * np.exp(np.linspace(0.0, math.log(stop / last), count + 1)[1:])
        else:
            count = math.ceil(min((stop - last) / step, MAX_BINS))
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

    `above_gap`, `below_gap` and `inner_gap` are upper less lower bounds above the last edge, below the first one, and
    in between; they are compared with `whole`: the sum, or a multiple of it where it is far above 1, as only its
    logarithm counts. With `events_only` no event is spread over bins, and a finer grid gains nothing; with `unknown`
    the upper bound is infinite on every grid. `infinite` is the P_A mass of infinite losses, rounded up, which the
    bounds do not count; 0 unless `finite`.
    """

    def __init__(
        self, pair: ElementaryPair, alpha: float, direction: Direction, edges: FloatArray, *, finite: bool = False
    ) -> None:
        scaled = pair.scaled_loss_masses(edges, direction)
        masses = scaled.masses
        bins = LogMasses.of(masses.bins_a, masses.bins_b, scaled.log_scale_a, scaled.log_scale_b)
        events = LogMasses.of(masses.atoms_a, masses.atoms_b, scaled.atoms_log_scale_a, scaled.atoms_log_scale_b)
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
    """Return the P_A mass of events whose loss is infinite, or may be, and what the bound adds without them.

    Both are rounded up. F without some events, plus φ(0) of their P_B mass, is at least the moment less 1 of the
    others: Theorem 51 of docs/theory.md. None where there is no such event.
    """
    without = ~np.isfinite(masses.atom_loss)
    infinite = float(masses.only_a.upper[0]) + float(np.sum(masses.atoms_a.upper[without]))
    rounded = 1.0 + (masses.atom_loss.size + 8.0) * UNIT_ROUNDOFF
    if infinite == 0.0:
        return 0.0, None
    return infinite * rounded, float(np.sum(masses.atoms_b.upper[without])) * order.at_nothing * rounded


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
    """Bounds on the effect of totals other than 1; both 0 where they are 1."""
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


#: A divergence of at most this may be 0.
_NEGLIGIBLE = 1e-24
#: At most so many grids are tried.
_MAX_GRIDS = 60
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
            f" {rounded_down(best.lower)} and {rounded_up(best.upper)}, wider than a relative {tolerance:.3g}"
        )
    return best.lower, best.upper


def closest_bounds(pair: ElementaryPair, alpha: float, direction: Direction, tolerance: float) -> Interval:
    """Return bounds on the divergence of order α of one pair, as close as can be computed if not within `tolerance`."""
    known = pair.renyi_divergence(alpha)
    if known is not None:
        found = Interval(*known)
    else:
        only_a = pair.directed_loss_masses(np.zeros(1), direction).only_a.lower
        revealed = float(only_a[0]) > 0.0 or pair.always_reveals(direction)
        nothing = Interval(math.inf, math.inf)
        found = nothing if revealed else _on_grids(pair, alpha, direction, tolerance, finite=False)[0]
    # A NaN, or an upper bound below the lower one, bounds nothing.
    return found if found.lower <= found.upper else Interval(-math.inf, math.inf)


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


def _on_grids(
    pair: ElementaryPair, alpha: float, direction: Direction, tolerance: float, *, finite: bool
) -> tuple[Interval, float]:
    """Return bounds on the divergence, with `finite` of finite losses alone, and the mass of infinite ones."""
    rough = RenyiTerms(pair, alpha, direction, ROUGH_EDGES, finite=finite)
    best, infinite = rough.bounds(), rough.infinite
    guess = max(best.lower, 1e-28)
    window = rough.window(0.05 * tolerance)
    closest, idle = math.inf, 0
    for _ in range(_MAX_GRIDS):
        edges = window.edges(guess, alpha, tolerance)
        if edges.size > MAX_BINS:
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
