"""The (r, ε) that are asked for: saddle points of δ's exponent, and what each is to be computed with.

Nothing here is a bound. The estimates: at the saddle point θ of ε, δ is about e^{rK(θ) - θε} √V / (1 + z²) with
V = rK'' and z = θ√V; adding a variance v to the loss, P_A and P_B totals kept, moves ln δ by at most about
v (θ(θ+1) + 1/V + 1/√V) / 2. A leaf's grid of width h adds h²/6 to the dominating pair and takes h²/12 from the exact
masses; so does, relative to the variance then reached, each coarsening.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pbdist.buckets.tight.ladder import stages_of
from pbdist.fourier.transform import EXTENDED_ROUNDOFF
from pbdist.pld.profile import LossProfile, saddle_points
from pbdist.types import Direction, FloatArray, IntArray

__all__ = ["Means", "Point", "points_of"]

#: Rounding that a composition of r leaves may cost, relative to the sum of its weights, is about this times r.
_ROUNDING, _EXTENDED_ROUNDING = 2e-13, 2e-16
#: The same where few frequencies are left, and the number of leaves from which on they may be.
_FEW_ROUNDING, _FEW_EXTENDED_ROUNDING, _MANY = 1.5e-13, 1e-16, 128
#: How many saddle points are found one by one; the others lie between them.
_SADDLES = 48
#: By how much the width shrinks from one pass to the next at least and at most.
_LEAST, _MOST = 1.4, 16.0
#: Whether this machine computes with more digits than float64.
_EXTENDED = EXTENDED_ROUNDOFF < 1e-18


@dataclass(frozen=True)
class Means:
    """What a point is to be computed with.

    Attributes
    ----------
    factor : float
        By what the estimated width is to be multiplied.
    extended : bool
        Whether the transforms are to be in extended precision.
    few : bool
        Whether the composition may be known by few frequencies, on the leaf's own grid.
    apart : bool
        Whether rare losses far above all others are told apart (`rare`).
    """

    factor: float = 1.0
    extended: bool = False
    few: bool = True
    apart: bool = False

    def changed(self, ratio: float, attempt: int, *, rounds: bool) -> "Means":
        """Return what a point is to be computed with the next time.

        After a bracket `ratio` times the tolerance in some `attempt`, counted from 0, much of it from rounding or not.
        """
        if not rounds:
            return replace(self, factor=self.factor / min(max(math.sqrt(ratio / 0.75), _LEAST), _MOST))
        # What a first pass found out about δ narrows windows and tilts; then more digits, then fewer elements.
        if attempt == 0 and not self.extended:
            return self
        if _EXTENDED and not self.extended:
            return replace(self, extended=True)
        if self.few:
            return replace(self, few=False)
        return replace(self, factor=self.factor * _MOST)


@dataclass(frozen=True)
class Point:
    """One (r, ε) that is asked for, by its places in the table, with its saddle point.

    Attributes
    ----------
    direction : Direction
    row, column : int
    leaves : int
        Number of leaves of r rounds.
    epsilon, tilt, variance : float
        ε, θ and V.
    excess : float
        About ln(e^{rK(θ) - θε} / δ).
    slope : float
        rK'(θ) - ε: above 0 where no tilt is needed, below where a smaller one than the saddle point's is enough.
    log_delta : float
        About ln δ.
    means : Means
        What it is to be computed with.
    """

    direction: Direction
    row: int
    column: int
    leaves: int
    epsilon: float
    tilt: float
    variance: float
    excess: float
    slope: float
    log_delta: float
    means: Means

    def sharpness(self) -> float:
        """By how much a unit of added variance moves ln δ, at most about."""
        return 0.5 * (self.tilt * (self.tilt + 1.0) + 1.0 / self.variance + 1.0 / math.sqrt(self.variance))

    def excess_at(self, tilt: float) -> float:
        """About ln(e^{rK(θ) - θε} / δ) at another tilt."""
        return self.excess + self.slope * (tilt - self.tilt) + 0.5 * self.variance * (tilt - self.tilt) ** 2

    def width(self, tolerance: float, *, coarsens: bool) -> float:
        """Loss width with which the bracket is about 0.75 of the tolerance."""
        stages = 1.0 + stages_of(self.leaves, coarsens=coarsens and not self.means.few)
        return self.means.factor * math.sqrt(0.75 * tolerance / (0.25 * self.leaves * self.sharpness() * stages))

    @property
    def rounding(self) -> float:
        """What rounding costs, about, relative to the sum of the weights."""
        few, extended = self.means.few, self.means.extended
        if few:
            return (_FEW_EXTENDED_ROUNDING if extended else _FEW_ROUNDING) * self.leaves
        return (_EXTENDED_ROUNDING if extended else _ROUNDING) * self.leaves

    def without_few(self, tolerance: float) -> "Point":
        """The same point, to be computed by transforms."""
        means = replace(self.means, few=False)
        return replace(self, means=_feasible(means, self.leaves, self.excess, tolerance))

    def reach(self, budget: float) -> float:
        """Return how much further the tilt may be until the excess has grown by the budget."""
        slope = abs(self.slope)
        return (math.sqrt(slope**2 + 2.0 * self.variance * budget) - slope) / self.variance


def points_of(
    direction: Direction,
    profiles: Sequence[tuple[LossProfile, int]],
    rounds: IntArray,
    epsilon: FloatArray,
    *,
    leaves: int,
    tolerance: float,
    wanted: Mapping[tuple[int, int], Means],
    known: FloatArray,
    floor: FloatArray | None = None,
) -> list[Point]:
    """Find the saddle points of some (row, column) of a table over rounds and ε.

    Parameters
    ----------
    direction : Direction
    profiles : sequence of (LossProfile, int)
        The pairs of a round that have finite losses, and how often each occurs.
    rounds : ndarray of int64, shape (R,)
    epsilon : ndarray, shape (E,)
        Nats.
    leaves : int
        Number of leaves of a round.
    tolerance : float
        Relative bracket that is aimed at: where rounding would cost much of it, extended precision is used at once.
    wanted : mapping of (int, int) to Means
        The points, and what each is to be computed with.
    known : ndarray, shape (R, E)
        Logarithms of the best lower bounds so far, -inf where there is none.
    floor : ndarray, shape (R, E), optional
        About the logarithms of what infinite and far losses alone are worth; by the profiles if not given.
    """
    if not wanted:
        return []
    parts = list(profiles)
    ratio = np.array([epsilon[column] / float(rounds[row]) for row, column in wanted])
    knots = np.unique(ratio)
    if knots.size > _SADDLES:
        knots = knots[np.unique(np.linspace(0, knots.size - 1, _SADDLES).astype(int))]
    highest = (
        sum(count * float(profile.loss[-1]) for profile, count in parts) if all(p.loss.size for p, _ in parts) else 0.0
    )
    if parts:
        usual = sum(count * profile.cumulant(0.0)[1] for profile, count in parts)
        # No tilt lifts the mean to the largest loss.
        found = saddle_points(parts, np.minimum(knots, highest - 1e-4 * (highest - usual)))
    else:
        found = (np.zeros_like(knots), np.ones_like(knots), np.zeros_like(knots), np.zeros_like(knots))
    tilts, curvatures, slopes, leasts = (np.interp(ratio, knots, values) for values in found)
    infinite = sum(count * profile.only_a for profile, count in parts)
    points: list[Point] = []
    for (row, column), tilt, curvature, slope, least in zip(
        wanted, tilts.tolist(), curvatures.tolist(), slopes.tolist(), leasts.tolist(), strict=True
    ):
        r, loss = int(rounds[row]), float(epsilon[column])
        saddle = _Saddle(tilt, r * least, r * slope, max(r * curvature, 1e-280))
        excess = saddle.excess
        log_infinite = min(math.log(r * infinite), 0.0) if infinite > 0.0 else -math.inf
        if floor is not None:
            log_infinite = max(log_infinite, float(floor[row, column]))
        log_delta = max(saddle.exponent - excess, log_infinite, float(known[row, column]))
        # Finite losses need only be known as well as infinite ones are.
        level = min(log_infinite + 0.5 * math.log(0.1 * tolerance / (_FEW_ROUNDING * r * leaves)), 0.0)
        if saddle.exponent < max(level, log_infinite):
            saddle = _enough(parts, r, loss, tilt, max(level, log_infinite))
            excess = max(saddle.exponent - log_infinite, 0.0) + 1.0
        if known[row, column] > -math.inf:
            excess = max(excess, saddle.exponent - float(known[row, column]) + 1.0)
        points.append(
            Point(
                direction,
                row,
                column,
                r * leaves,
                loss,
                saddle.tilt,
                saddle.variance,
                excess,
                saddle.slope,
                log_delta,
                _feasible(wanted[row, column], r * leaves, excess, tolerance),
            )
        )
    return points


@dataclass(frozen=True)
class _Saddle:
    """A tilt θ, and the exponent F = rK(θ) - θε there with its derivatives."""

    tilt: float
    exponent: float
    slope: float
    variance: float

    @property
    def excess(self) -> float:
        """About ln(e^F / δ) at a saddle point."""
        z = self.tilt * math.sqrt(self.variance)
        return math.log1p(z * z) - 0.5 * min(math.log(self.variance), 0.0) + 1.0


def _enough(
    parts: Sequence[tuple[LossProfile, int]], rounds: int, epsilon: float, largest: float, level: float
) -> _Saddle:
    """Return about the least tilt with which finite losses count for no more than infinite ones, of mass e^level."""
    low, high = 0.0, largest
    for _ in range(20):
        tilt = 0.5 * (low + high)
        exponent, slope, variance = (
            rounds * sum(count * profile.cumulant(tilt)[order] for profile, count in parts) for order in range(3)
        )
        if exponent - tilt * epsilon > level:
            low = tilt
        else:
            high = tilt
    return _Saddle(tilt, exponent - tilt * epsilon, slope - epsilon, max(variance, 1e-280))


def _feasible(means: Means, leaves: int, excess: float, tolerance: float) -> Means:
    """Return the means with which rounding does not cost much of the tolerance."""

    def costly(rounding: float) -> bool:
        return math.log(rounding * leaves / (0.15 * tolerance)) + excess > 0.0

    few = means.few and leaves >= _MANY and not costly(_FEW_EXTENDED_ROUNDING)
    extended = means.extended or costly(_FEW_ROUNDING if few else _ROUNDING)
    return means if (few, extended) == (means.few, means.extended) else replace(means, few=few, extended=extended)
