"""Bounds in closed form: rounds of Gaussian noise alone, revealed mass, and lower bounds where δ is nearly 1.

The composition of untruncated Gaussian pairs of ratios μ_i = sensitivity_i / scale_i is the pair N(0, 1), N(μ, 1) with
μ² = Σ μ_i², of which δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) (Theorem 19 in ``docs/pld.md``). Section 6 there has the
others.
"""

import math
from collections.abc import Mapping

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, Gaussian, LossMasses, scaled_gaussian_interval
from pbdist.mechanisms.intervals import gaussian_interval
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

#: Relative rounding of the common μ: quotients, squares, counts, sum and root come to less than half of it.
_RATIO_ERROR = 16.0 * UNIT_ROUNDOFF
#: Below this μ and ε a second form of the difference is computed, where its masses are above the other number.
_NARROW, _SMALLEST_TOLD = 1e-3, 1e-280
_U = UNIT_ROUNDOFF
#: Loss edges, nats, and exponents that are tried.
_PROBES: FloatArray = np.geomspace(1e-9, 1e3, 97)
_EDGES: FloatArray = np.concatenate((-_PROBES[::-1], [0.0], _PROBES))
_EXPONENTS: FloatArray = np.linspace(0.04, 0.96, 24)
#: Where ln(1 - δ) is not below this with one exponent, the others are not tried.
_NEARLY = -1.0

#: Masses of the pairs of a round in one direction, and how often each occurs.
_Masses = list[tuple[LossMasses, int]]


def gaussian_ratio(counts: Mapping[ElementaryPair, int]) -> float | None:
    """Return μ of one round, within 8u; None unless it consists of untruncated Gaussian noise."""
    squares: list[float] = []
    for pair, count in counts.items():
        if not isinstance(pair, Gaussian) or pair.truncate is not None:
            return None
        squares.append(count * (pair.sensitivity / pair.scale) ** 2)
    return math.sqrt(math.fsum(squares))


def gaussian_bounds(ratio: float, rounds: IntArray, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound ln δ of r rounds from both sides, shape (R, E), for μ of one round (Theorem 19, docs/pld.md).

    Where rounding leaves nothing of the difference they are -inf and the logarithm of P_A's bound.
    """
    whole = ratio * np.sqrt(rounds.astype(np.float64))[:, None]
    smaller, larger = whole * (1.0 - _RATIO_ERROR), whole * (1.0 + _RATIO_ERROR)
    shift = (8.0 * np.abs(epsilon) + 2.0 * larger**2) * UNIT_ROUNDOFF
    lower = _log_difference(smaller, epsilon + np.zeros_like(smaller), np.zeros_like(smaller), upper=False)
    upper = _log_difference(larger, epsilon - shift, shift, upper=True)
    narrow: BoolArray = (whole < _NARROW) & (epsilon < _NARROW)
    if narrow.any():
        better = _log_narrow(smaller, epsilon, np.zeros_like(shift), upper=False)
        lower = np.where(narrow, np.maximum(lower, better), lower)
        better = _log_narrow(larger, epsilon, shift, upper=True)
        upper = np.where(narrow, np.minimum(upper, better), upper)
    return lower, upper


def _log_narrow(mu: FloatArray, epsilon: FloatArray, shift: FloatArray, *, upper: bool) -> FloatArray:
    """Logarithm of the same difference, by the mass of the interval [t - mu, t] for t = mu/2 - (epsilon - shift)/mu."""
    half, middle = 0.5 * mu, (epsilon - shift) / mu
    between, between_error = gaussian_interval(-half, half, 1.0, middle)
    mass_b, error_b = gaussian_interval(np.full_like(middle, -np.inf), -half + np.zeros_like(middle), 1.0, middle)
    side = 1.0 if upper else -1.0
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        growth = np.expm1(epsilon - 2.0 * shift if upper else epsilon)
        taken = growth * mass_b * (1.0 - side * np.sign(growth) * (error_b + 16.0 * UNIT_ROUNDOFF))
        left = between * (1.0 + side * (between_error + 8.0 * UNIT_ROUNDOFF)) - taken
        # Two roundings of what is subtracted, of either size.
        left = left + side * 4.0 * UNIT_ROUNDOFF * (between + np.abs(taken))
        told = (between > _SMALLEST_TOLD) & np.isfinite(left) & (left > 0.0)
        result = np.log(np.where(told, left, 1.0))
    result = result + side * 16.0 * UNIT_ROUNDOFF * (1.0 + np.abs(result))
    return np.where(told, result, np.inf if upper else -np.inf)


def gaussian_width(ratio: float, rounds: IntArray, epsilon: FloatArray, leaves: int, tolerance: float) -> float:
    """Return a loss width of the leaves, nats, with which a grid would give about that relative bracket everywhere."""
    variance = (ratio * ratio * rounds.astype(np.float64))[:, None]
    with np.errstate(over="ignore"):
        sharpness = _sharpness(variance, epsilon)
        widths = np.sqrt(6.0 * tolerance / (leaves * rounds[:, None] * sharpness))
    # No loss is so large that its grid has no width.
    return max(float(np.min(widths)), 1e-300)


def _sharpness(variance: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Return twice by how much a unit of added variance moves ln δ, about."""
    tilt = np.maximum(epsilon / variance - 0.5, 0.0)
    result: FloatArray = tilt * (tilt + 1.0) + 1.0 / variance + 1.0 / np.sqrt(variance)
    return result


def _log_difference(mu: FloatArray, loss: FloatArray, shift: FloatArray, *, upper: bool) -> FloatArray:
    """Logarithm of P_A(x <= t) - e^(loss - shift) P_B(x <= t) for t at that loss, from its side."""
    with np.errstate(over="ignore"):
        end = 0.5 * mu - loss / mu
    start = np.full_like(end, -np.inf)
    mass, error, log_scale = scaled_gaussian_interval(start, end, 1.0, np.stack((np.zeros_like(mu), mu)))
    side = 1.0 if upper else -1.0
    resolved: BoolArray = mass > 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(mass) + log_scale
        bounded = np.array([1.0, -1.0]).reshape(2, *([1] * mu.ndim))
        slack = 1.2 * error + 8.0 * UNIT_ROUNDOFF * (1.0 + np.abs(logs))
        log_a, log_b = logs + side * bounded * slack
        exponent = loss - shift + log_b - log_a
        exponent -= side * 8.0 * UNIT_ROUNDOFF * (np.abs(loss) + np.abs(log_a) + np.abs(log_b))
        left = -np.expm1(np.minimum(exponent, 0.0))
        left *= 1.0 + side * 16.0 * UNIT_ROUNDOFF
        result = log_a + np.log(left)
        result += side * 8.0 * UNIT_ROUNDOFF * (1.0 + np.abs(result))
    if upper:
        # Nothing of B taken off is an upper bound as well. Where float64 does not resolve P_A(x <= t) it is at most
        # e^(-t²/2) for t < 0; t is off by far less than a part in 2^20, and so is its square, and -1e300 is above it.
        unresolved = -0.5 * np.minimum(np.minimum(end, 0.0) ** 2 * (1.0 - 2.0**-20), 2e300)
        return np.where(resolved[0], np.where(resolved[1] & np.isfinite(result), result, log_a), unresolved)
    return np.where(resolved[0] & resolved[1] & np.isfinite(result), result, -np.inf)


def log_revealed_mass(counts: Mapping[ElementaryPair, int], rounds: IntArray, direction: Direction) -> FloatArray:
    """Logarithms of lower bounds on the P_A mass of outcomes that P_B lacks, after some numbers of rounds, shape (R,).

    Of factors of masses M, of which m has none of P_B, it is Π M^d (1 - Π (1 - m/M)^d) (Theorem 9, docs/pld.md).
    """
    masses = [(pair.directed_loss_masses(np.zeros(1), direction), count) for pair, count in counts.items()]
    return _log_revealed(masses, rounds)


def log_least_known(counts: Mapping[ElementaryPair, int], rounds: IntArray, epsilon: FloatArray) -> FloatArray:
    """Logarithms of lower bounds on δ, shape (2, R, E): by revealed mass, and near 0 where δ is nearly 1."""
    masses = [(pair.directed_loss_masses(_EDGES, Direction.A_TO_B), count) for pair, count in counts.items()]
    swapped = [(each.swapped(), count) for each, count in masses]
    return np.stack(
        [
            np.maximum(_log_revealed(own, rounds)[:, None], _nearly_all(own, rounds, epsilon))
            for own in (masses, swapped)
        ]
    )


def _log_revealed(pairs: _Masses, rounds: IntArray) -> FloatArray:
    log_total = rate = size = 0.0
    for masses, count in pairs:
        parts = (masses.only_a.lower, masses.bins_a.lower, masses.atoms_a.lower)
        only, *others = (float(np.sum(part)) * (1.0 - (part.size + 4.0) * _U) for part in parts)
        total = (only + sum(others)) * (1.0 - 8.0 * _U)
        if only > 0.0:
            rate += count * (-math.log1p(-only / total) if only < total else math.inf)
        if total > 0.0:
            log_total += count * math.log(total)
            size += count * (abs(math.log(total)) + 2.0)
    if rate == 0.0:
        return np.full(rounds.size, -np.inf)
    r = rounds.astype(np.float64)
    result = r * (log_total - 16.0 * _U * size) + np.log(-np.expm1(-rate * r * (1.0 - 32.0 * _U)))
    return np.asarray(result - 16.0 * _U * (1.0 + np.abs(result)))


def _nearly_all(pairs: _Masses, rounds: IntArray, epsilon: FloatArray) -> FloatArray:
    """Logarithms of lower bounds on δ, shape (R, E), of use where it is near 1.

    With T the P_A mass of all, δ >= T - e^{λε} Σ a^{1-λ} b^λ for 0 < λ < 1, and upper values of bins bound the sum
    (section 6 of docs/pld.md, "nearly all").
    """
    r = rounds.astype(np.float64)[:, None, None]
    for exponents in (np.array([0.5]), _EXPONENTS):
        log_sum, error = _shared(pairs, exponents)
        shared = np.min(r * log_sum + epsilon[:, None] * exponents + r * error, axis=-1)
        if not (shared < _NEARLY).any():
            return np.full(shared.shape, -np.inf)
    parts = [(masses.only_a.lower, masses.bins_a.lower, masses.atoms_a.lower, count) for masses, count in pairs]
    log_total = sum(
        count * math.log(max(sum(float(np.sum(part)) for part in masses), 1e-300)) for *masses, count in parts
    )
    total = r[:, :, 0] * (log_total - error)
    slack = 1e-12 * (1.0 + np.abs(np.maximum(shared, -1e300)))
    with np.errstate(divide="ignore"):
        result = total + np.log1p(-np.exp(np.minimum(shared + slack - total, 0.0)))
    return np.asarray(result - 1e-12 * (1.0 + np.abs(total)))


def _shared(pairs: _Masses, exponents: FloatArray) -> tuple[FloatArray, float]:
    """Return ln Σ a^{1-λ} b^λ of a round from upper values, and by how much it and ln T may be off."""
    result, error = np.zeros(exponents.size), 0.0
    for masses, count in pairs:
        own = np.concatenate((masses.bins_a.upper, masses.atoms_a.upper))
        other = np.concatenate((masses.bins_b.upper, masses.atoms_b.upper))
        both = (own > 0.0) & (other > 0.0)
        each = np.multiply.outer(1.0 - exponents, np.log(own[both])) + np.multiply.outer(exponents, np.log(other[both]))
        result += count * np.logaddexp.reduce(each, axis=1)
        # Logarithms of masses are at most 750 in size; sums are made one by one.
        error += count * _U * (4.0 * own.size + 4000.0)
    return result, error
