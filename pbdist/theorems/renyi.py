"""Theorems that start from one round: its exact δ, and its Rényi and concentrated differential privacy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import UNIT_ROUNDOFF, DiscreteGaussian, ElementaryPair, Gaussian, Pair, SubsampledGaussian
from pbdist.pld.closed_form import log_delta_above
from pbdist.renyi import closest_bounds
from pbdist.table import bounds_table
from pbdist.types import Direction, FloatArray

#: The first ε at which δ of a round is computed, nats.
_PROBES: FloatArray = np.geomspace(1e-9, 1e4, 261)
#: Below this many nats a δ of one round makes no difference to that of any number of rounds that is computed here.
_FAINT = -230.0
#: Parts into which the interval is cut in which the largest loss lies, and how often.
_PARTS, _CUTS = 17, 12


class RoundPrivacy:
    """δ(ε) of one pair, the larger of the two directions, from above.

    `largest` is the ε, in nats, from which on δ falls no more, or is below 1e-100.
    """

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self._farthest = math.inf
        self.largest = self._largest()
        self._farthest = 2.0 * self.largest

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Return natural logarithms of upper bounds on δ at ε >= 0, shape (E,); -inf where δ is 0."""
        # δ does not rise with ε; far beyond all losses it is constant.
        distinct, inverse = np.unique(np.minimum(epsilon, self._farthest), return_inverse=True)
        if len(self.pair.factors) > 1:
            return _composed(self.pair, distinct)[inverse]
        factor = self.pair.factors[0]
        sides = (Direction.A_TO_B,) if factor.symmetric else tuple(Direction)
        return np.max([log_delta_above(factor, distinct, side) for side in sides], axis=0)[inverse]  # type: ignore[no-any-return]

    def grid(self, parts: int) -> FloatArray:
        """Return ε from a thousandth of the largest loss up to it, denser towards it, increasing."""
        upper = 1.0 - np.geomspace(1e-9, 0.5, parts // 2)[::-1]
        return self.largest * np.unique(np.concatenate((np.geomspace(1e-3, 0.5, parts // 2), upper, [1.0])))

    def _largest(self) -> float:
        """Return the first ε known at which δ is not above its last value; no bound depends on it."""
        probes, high = _PROBES, math.inf
        for _ in range(_CUTS):
            values = np.maximum(self.log_delta(probes), _FAINT)
            last = max(float(values[-1]), _FAINT)
            first = int(np.argmax(values <= last + 1e-12))
            if first == 0 or len(self.pair.factors) > 1:
                return float(probes[first])
            if float(probes[first]) > high:
                # Rounding decides between probes that are so close.
                break
            low, high = float(probes[first - 1]), float(probes[first])
            if high <= low * (1.0 + 1e-14):
                break
            inner = np.linspace(low, high, _PARTS)
            probes = np.unique(np.append(inner, _PROBES[-1]))
        return high


def _composed(pair: Pair, epsilon: FloatArray) -> FloatArray:
    """Return upper bounds on ln δ of a product of pairs."""
    table = bounds_table(
        [(pair, 1)], compositions=1, epsilon=epsilon, strict=False, joint_directions=True, tolerance=1e-4
    )
    return np.asarray(table.log_delta_upper[:, 0].max(axis=0))


_U = UNIT_ROUNDOFF
#: Orders of the moments accountant.
_ORDERS: FloatArray = np.unique(
    np.concatenate((1.0 + np.geomspace(1e-3, 1.0, 13), np.geomspace(2.0, 64.0, 36), np.geomspace(64.0, 4096.0, 19)))
)
#: Relative width of a divergence that is good enough.
_WIDTH = 1e-3


@dataclass(frozen=True, eq=False)
class Moments:
    """Rényi divergences of one round."""

    #: α > 1, increasing.
    order: FloatArray
    #: Upper bounds, nats, finite.
    divergence: FloatArray

    def log_delta(self, rounds: int, wanted: FloatArray, *, improved: bool) -> FloatArray:
        """Return the best δ of all orders after some rounds.

        δ <= e^((α - 1)(D_α - ε)) (Abadi et al. 2016, Theorem 2; Mironov 2017, Proposition 3). Improved: times
        (1 - 1/α)^α / (α - 1) (Canonne, Kamath & Steinke 2020, Proposition 12).
        """
        total = self.divergence * rounds * (1.0 + 4.0 * _U)
        log = (self.order - 1.0)[:, None] * (total[:, None] - wanted)
        if improved:
            log = log + log_improvement(self.order)[:, None]
        best = np.min(
            log + 32.0 * _U * (1.0 + self.order[:, None] * (1.0 + total[:, None] + wanted)), axis=0, initial=0.0
        )
        return np.asarray(best)


def moments_of(components: Sequence[tuple[Pair, int]]) -> Moments:
    """Return the divergences of a round at the orders at which they are finite."""
    total = np.zeros(_ORDERS.size)
    for factor, count in ((factor, count) for pair, count in components for factor in pair.factors):
        total += count * np.array([divergence_above(factor, order) for order in _ORDERS.tolist()])
    known = np.isfinite(total)
    return Moments(_ORDERS[known], np.maximum(total[known], 0.0) * rounded_sum(components))


def rounded_sum(components: Sequence[tuple[Pair, int]]) -> float:
    """Return a factor that covers the roundings of a sum over all pairs: one each for products and additions."""
    return 1.0 + 4.0 * _U * (4.0 + sum(len(pair.factors) for pair, _ in components))


def divergence_above(pair: ElementaryPair, order: float) -> float:
    """Return an upper bound of the larger of the two directions."""
    sides = (Direction.A_TO_B,) if pair.symmetric else tuple(Direction)
    return max(closest_bounds(pair, order, side, _WIDTH).upper for side in sides)


def log_improvement(order: FloatArray) -> FloatArray:
    """Return ln((1 - 1/α)^α / (α - 1)) for α > 1, to 16u (1 + ln α).

    For α below 2, where α - 1 is exact, as (α - 1) ln(α - 1) - α ln α: the other form takes the logarithm of a
    difference next to 0 there.
    """
    above = order - 1.0
    near = np.minimum(above, 1.0)
    small = near * np.log(near) - (1.0 + near) * np.log1p(near)
    return np.where(order < 2.0, small, order * np.log1p(-1.0 / order) - np.log(above))


#: α at which the divergences of pairs with bounded losses, and of sampled Gaussian noise, are computed. For the latter
#: closed forms are close at larger orders.
_CURVE_ORDERS: FloatArray = 1.0 + np.geomspace(1e-2, 1e3, 61)
_SAMPLED_ORDERS: FloatArray = 1.0 + np.geomspace(1e-2, 1e2, 9)
#: α - 1 where an interval begins: in steps of at most 0.2 % of α, and at all orders above.
STARTS: FloatArray = np.unique(
    np.concatenate(([0.0], np.sinh(np.linspace(0.1, 14.5, 16_384)) ** 2, _CURVE_ORDERS - 1.0, _SAMPLED_ORDERS - 1.0))
)


@dataclass(frozen=True, eq=False)
class RenyiCurve:
    """D_α <= rho α + excess_j on the interval j of `STARTS`; and D_α <= alone α."""

    rho: float
    alone: float
    #: Of any sign; all 0 where a closed form bounds D by rho α.
    excess: FloatArray


def curve_of(components: Sequence[tuple[Pair, int]]) -> RenyiCurve:
    """Return the curve of one round, the sum of those of its pairs.

    Losses that are infinite, or have no bound and no closed form, are an `InvalidInputError`.
    """
    curves = [(_curve(factor), float(count)) for pair, count in components for factor in pair.factors]
    rounding = rounded_sum(components)
    excess = sum((count * curve.excess for curve, count in curves), np.zeros(STARTS.size))
    size = sum((count * np.abs(curve.excess) for curve, count in curves), np.zeros(STARTS.size))
    return RenyiCurve(
        sum(count * curve.rho for curve, count in curves) * rounding,
        sum(count * curve.alone for curve, count in curves) * rounding,
        excess + (rounding - 1.0) * size,
    )


def _curve(pair: ElementaryPair) -> RenyiCurve:
    pair = pair.inner
    if isinstance(pair, SubsampledGaussian) and pair.rate < 1.0:
        rho = _gaussian(pair)
        return RenyiCurve(rho, rho, _sampled_excess(pair, rho))
    if isinstance(pair, SubsampledGaussian) or (isinstance(pair, Gaussian | DiscreteGaussian) and _whole(pair)):
        rho = _gaussian(pair)
        return RenyiCurve(rho, rho, np.zeros(STARTS.size))
    return _bounded(pair)


def _gaussian(pair: Gaussian | DiscreteGaussian | SubsampledGaussian) -> float:
    """Return s² / (2σ²): Bun & Steinke 2016, Lemma 2.5; Canonne, Kamath & Steinke 2020, Theorem 4."""
    return 0.5 * (pair.sensitivity / pair.scale) ** 2 * (1.0 + 8.0 * _U)


def _whole(pair: Pair) -> bool:
    return getattr(pair, "truncate", None) is None


def _bounded(pair: ElementaryPair) -> RenyiCurve:
    privacy = RoundPrivacy(pair)
    # Where δ is 0 no loss is larger.
    largest = privacy.largest * (1.0 + 1e-9)
    if privacy.log_delta(np.array([largest]))[0] > -np.inf:
        raise InvalidInputError(
            f"theorem: expected a mechanism that some (ξ, ρ) fits, got {shown(pair)}, whose losses have no bound"
        )
    ends = STARTS[1:]
    by_response = _response_moment(ends, largest) / ends * (1.0 + 4.0 * _U)
    excess = np.append(np.minimum(_by_chords(pair, _CURVE_ORDERS, largest), np.minimum(by_response, largest)), largest)
    alone = min(float(np.max(excess / (1.0 + STARTS))), largest * math.tanh(0.5 * largest))
    return RenyiCurve(0.0, alone * (1.0 + 8.0 * _U), excess)


def _by_chords(pair: ElementaryPair, orders: FloatArray, largest: float) -> FloatArray:
    """Return upper bounds on D at the right ends of all intervals but the last; the largest loss may be infinite."""
    divergence = np.array([divergence_above(pair, order) for order in orders.tolist()])
    # It does not fall with the order: a later bound that is smaller holds before.
    divergence = np.minimum.accumulate(np.maximum(divergence, 0.0)[::-1])[::-1]
    known = np.isfinite(divergence)
    tilt = np.append(0.0, orders[known] - 1.0)
    moment = np.append(0.0, divergence[known]) * tilt
    inside = STARTS[1:] <= tilt[-1]
    ends, beyond = STARTS[1:][inside], STARTS[1:][~inside]
    found = np.concatenate((np.interp(ends, tilt, moment), moment[-1] + largest * (beyond - tilt[-1])))
    return found / STARTS[1:] * (1.0 + 16.0 * _U)


def _response_moment(tilt: FloatArray, largest: float) -> FloatArray:
    """Return F(t) of randomized response with odds e^M, t > 0, rounded up.

    tM + ln(1 + (e^(-2tM) - 1) / (e^M + 1)): the logarithm's argument is at least 1/2, and off by 8u of 2tM at most.
    """
    size = tilt * largest
    odds = math.exp(largest) if largest < 700.0 else math.inf
    return np.asarray(size + np.log1p(np.expm1(-2.0 * size) / (odds + 1.0)) + 32.0 * _U * size)


def _sampled_excess(pair: SubsampledGaussian, rho: float) -> FloatArray:
    ends, order = STARTS[1:], 1.0 + STARTS
    computed = _by_chords(pair, _SAMPLED_ORDERS, math.inf)
    computed = computed - rho * order[:-1] + 8.0 * _U * (computed + rho * order[:-1])
    hidden = gain_of_sampling(STARTS, pair.rate, rho)
    removed = hidden + np.append(hidden[1:] / ends, 0.0)
    closed = -np.minimum(removed, gain_of_adding(STARTS, pair.rate, rho)) * (1.0 - 4.0 * _U)
    return np.append(np.minimum(computed, closed[:-1]), closed[-1])


def gain_of_adding(tilt: FloatArray, rate: float, rho: float) -> FloatArray:
    """Return (1 - q) ρ + (1 - q²) ρ t, of B‖A, rounded down."""
    return (1.0 - rate) * rho * (1.0 + (1.0 + rate) * tilt) * (1.0 - 16.0 * _U)


def gain_of_sampling(tilt: FloatArray, rate: float, rho: float) -> FloatArray:
    """Return h(t) = -ln(1 + (1 - q)(e^(-tρ) - 1)) >= 0, of A‖B, rounded down.

    With the argument 1 + z, z is off by 4u |z|, and its logarithm by that over 1 + z and by its own rounding.
    """
    z = np.maximum((1.0 - rate) * np.expm1(-rho * tilt), 2.0 * _U - 1.0)
    found = -np.log1p(z)
    return np.maximum(found - 8.0 * _U * (found - z / (1.0 + z)), 0.0)


#: Slopes of lines that are tried: those of chords of the curve between so many points.
_POINTS = 129
#: The least logarithm of a δ that is not 0, and the largest order looked at.
_FAINTEST, _LARGEST_ORDER = -1e308, 1e280


@dataclass(frozen=True, eq=False)
class Concentrated:
    """Lines with D_α <= ξ + ρ α for all α > 1: each is (ξ, ρ)-zero-concentrated differential privacy.

    Bun & Steinke 2016, Definition 1.1. ξ may be negative: both conversions use only D_α - ξ <= ρ α, and so are those of
    ξ = 0 at ε - ξ.
    """

    #: ρ >= 0; in order of falling ρ, but for the last line, the one whose ξ is 0.
    xi: FloatArray
    rho: FloatArray

    def log_delta(self, rounds: int, wanted: FloatArray, *, improved: bool) -> FloatArray:
        """Return ln δ after some rounds, of the best line for each ε.

        By Bun & Steinke 2016, Lemma 3.6; improved, by Canonne, Kamath & Steinke 2020, Proposition 12.
        """
        xi = self.xi * rounds
        # Upwards, and the rest of ε downwards.
        gap = wanted - (xi + 4.0 * _U * np.abs(xi))[:, None]
        gap = np.where(xi[:, None] == 0.0, gap, np.nextafter(gap, -np.inf))
        rho = self.rho * rounds * (1.0 + 4.0 * _U)
        found = _by_tail(gap, rho[:, None])
        if not improved:
            return np.asarray(np.min(found, axis=0))
        best = found.argmin(axis=0)
        chosen = _by_order(gap[best, np.arange(wanted.size)], rho[best])
        return np.minimum(chosen, _by_order(gap[-1], rho[-1:])) if self.rho.size > 1 else chosen


def concentrated_of(components: Sequence[tuple[Pair, int]]) -> Concentrated:
    """Return lines above the Rényi curve of a round, the sum of those of its pairs.

    For a slope ρ that is at least the curve's own, the least ξ is the largest of D_α - ρ α: on an interval of α the
    excess of the curve, less what the slope adds, is largest at its left end. Rounds multiply both ξ and ρ.
    """
    curve = curve_of(components)
    if not curve.excess.any():
        return Concentrated(np.zeros(1), np.array([curve.rho]))
    order = 1.0 + STARTS
    slopes = _slopes(curve.excess, order)
    xi = [
        np.max(curve.excess - slope * order + 8.0 * _U * (np.abs(curve.excess) + slope * order))
        for slope in slopes.tolist()
    ]
    return Concentrated(np.append(xi, 0.0), np.append((curve.rho + slopes) * (1.0 + 4.0 * _U), curve.alone))


def _slopes(excess: FloatArray, order: FloatArray) -> FloatArray:
    """Return slopes of chords, that of the least line through 0, and 0, falling."""
    at = np.linspace(0, order.size - 1, _POINTS).astype(np.int64)
    chords = np.diff(excess[at]) / np.diff(order[at])
    return np.unique(np.maximum(np.concatenate((chords, [0.0, np.max(excess / order)])), 0.0))[::-1]


def _by_tail(gap: FloatArray, rho: FloatArray) -> FloatArray:
    """Return upper bounds on ln δ for D_α <= ρ α at ε = gap; they broadcast.

    P_A(L > z) <= e^(-(z - ρ)² / (4ρ)) for z >= ρ, by the best order, and δ <= ∫ e^(ε - z) P_A(L > z) dz from ε on. With
    t = (ε - ρ) / (2ρ) >= 0, δ <= e^(-ρ t²) min(1, √(πρ), 1/(1 + t), 2/(1 + t + √((1 + t)² + 4/(πρ)))).
    """
    some = np.where(rho > 0.0, rho, 1.0)
    with np.errstate(over="ignore"):
        t = np.maximum(gap * (1.0 - 4.0 * _U) - some, 0.0) / (2.0 * some) * (1.0 - 8.0 * _U)
        factor = np.minimum.reduce(
            np.broadcast_arrays(
                1.0,
                np.sqrt(math.pi * some),
                1.0 / (1.0 + t),
                2.0 / (1.0 + t + np.sqrt((1.0 + t) ** 2 + 4.0 / (math.pi * some))),
            )
        )
        log = -(some * t) * t * (1.0 - 16.0 * _U) + np.log(np.maximum(factor, 1e-300)) * (1.0 - 4.0 * _U) + 64.0 * _U
    log = np.where(gap > some, np.clip(log, _FAINTEST, 0.0), 0.0)
    # Without a slope no loss is above 0.
    return np.where(rho > 0.0, log, np.where(gap >= 0.0, -np.inf, 0.0))


def _by_order(gap: FloatArray, rho: FloatArray) -> FloatArray:
    """Return upper bounds on ln δ for D_α <= ρ α at ε = gap, shape (E,), at about the best α."""
    some = np.where(rho > 0.0, rho, 1.0)
    near = np.clip((gap - some) / (2.0 * some), 1e-6, _LARGEST_ORDER)
    around = np.multiply.outer(np.geomspace(0.05, 20.0, 201), near)
    everywhere = np.broadcast_to(np.geomspace(1e-4, 1e6, 201)[:, None], around.shape)
    order = 1.0 + np.concatenate((around, everywhere))
    total = some * order
    # Beyond all floats is no number, which bounds nothing.
    with np.errstate(over="ignore", invalid="ignore"):
        log = (order - 1.0) * (total - gap) + log_improvement(order)
        log = log + 32.0 * _U * (1.0 + order * (1.0 + total + np.abs(gap)))
    best = np.clip(np.fmin.reduce(log, axis=0, initial=0.0), _FAINTEST, 0.0)
    return np.where(rho > 0.0, best, np.where(gap >= 0.0, -np.inf, 0.0))
