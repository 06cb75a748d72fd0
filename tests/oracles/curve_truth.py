"""Exact trade-off curves and Rényi divergences: Neyman and Pearson in fractions, closed forms in mpmath."""

from collections.abc import Sequence
from fractions import Fraction
from math import comb

import mpmath

from pbdist.mechanisms import Gaussian, Laplace, Pair, RandomizedResponse, SubsampledGaussian

Outcomes = list[tuple[Fraction, Fraction]]


def response_outcomes(p: float, compositions: int) -> Outcomes:
    """The outcomes of r-fold randomized response: how often the truth was told."""
    truth = Fraction(p)
    return [
        (
            comb(compositions, k) * truth**k * (1 - truth) ** (compositions - k),
            comb(compositions, k) * (1 - truth) ** k * truth ** (compositions - k),
        )
        for k in range(compositions + 1)
    ]


def composed(outcomes: Outcomes, compositions: int) -> Outcomes:
    """All outcomes of r-fold composition."""
    found: Outcomes = [(Fraction(1), Fraction(1))]
    for _ in range(compositions):
        merged: dict[Fraction | None, tuple[Fraction, Fraction]] = {}
        for a, b in found:
            for c, d in outcomes:
                x, y = a * c, b * d
                if x or y:
                    # Outcomes of one likelihood ratio are one outcome to any test.
                    key = None if x == 0 else y / x
                    old = merged.get(key, (Fraction(0), Fraction(0)))
                    merged[key] = (old[0] + x, old[1] + y)
        found = list(merged.values())
    return found


def swapped(outcomes: Outcomes) -> Outcomes:
    return [(b, a) for a, b in outcomes]


def smallest_type_two(outcomes: Outcomes, alpha: float) -> Fraction:
    """The exact type II error of the best test (Neyman & Pearson): reject where P_B / P_A is largest."""
    left, missed = Fraction(alpha), sum((b for _, b in outcomes), Fraction(0))
    free = [(a, b) for a, b in outcomes if a == 0]
    missed -= sum((b for _, b in free), Fraction(0))
    for a, b in sorted(((a, b) for a, b in outcomes if a > 0), key=lambda one: one[1] / one[0], reverse=True):
        share = min(left / a, Fraction(1))
        left -= share * a
        missed -= share * b
    return missed


def gaussian_type_two(scale: float, compositions: int, alpha: float) -> mpmath.mpf:
    """Φ(Φ^-1(1 - α) - μ√r), to 40 digits and more."""
    with mpmath.workdps(60):
        if alpha in (0.0, 1.0):
            return mpmath.mpf(1 - alpha)
        shift = mpmath.sqrt(compositions) / mpmath.mpf(scale)
        quantile = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(alpha))
        return mpmath.ncdf(quantile - shift)


def divergence(pair: Pair, order: float) -> mpmath.mpf:
    """D_α(A‖B) of one round by its closed form; of subsampled noise for whole α above 1."""
    with mpmath.workdps(60):
        alpha = mpmath.mpf(order)
        if isinstance(pair, Gaussian):
            return alpha * (mpmath.mpf(pair.sensitivity) / pair.scale) ** 2 / 2
        if isinstance(pair, Laplace):
            size = mpmath.mpf(pair.sensitivity) / pair.scale
            if order == 1.0:
                return size + mpmath.exp(-size) - 1
            ways = alpha * mpmath.exp((alpha - 1) * size) + (alpha - 1) * mpmath.exp(-alpha * size)
            return mpmath.log(ways / (2 * alpha - 1)) / (alpha - 1)
        if isinstance(pair, RandomizedResponse):
            return finite_divergence(response_outcomes(pair.p, 1), order)
        if isinstance(pair, SubsampledGaussian):
            q, v = mpmath.mpf(pair.rate), (mpmath.mpf(pair.sensitivity) / pair.scale) ** 2
            whole = int(order)
            moments = (
                mpmath.binomial(whole, k) * (1 - q) ** (whole - k) * q**k * mpmath.exp(v * k * (k - 1) / 2)
                for k in range(whole + 1)
            )
            return mpmath.log(mpmath.fsum(moments)) / (alpha - 1)
        raise TypeError(pair)


def finite_divergence(outcomes: Sequence[tuple[Fraction, Fraction]], order: float) -> mpmath.mpf:
    """D_α(A‖B) of a finite pair, to 40 digits and more."""
    with mpmath.workdps(60):
        alpha, total = mpmath.mpf(order), mpmath.mpf(0)
        for x, y in outcomes:
            a, b = (mpmath.mpf(value.numerator) / value.denominator for value in (x, y))
            if a == 0:
                continue
            if b == 0:
                return mpmath.inf
            total += a * mpmath.log(a / b) if order == 1.0 else a**alpha * b ** (1 - alpha)
        return total if order == 1.0 else mpmath.log(total) / (alpha - 1)
