"""Values that others publish as if they were bounds, and that are none: central limit theorems.

They are here to be compared with certified bounds, which refute them where they are too small.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import Pair, SubsampledGaussian
from pbdist.pld.loss_profile import loss_profile
from pbdist.types import FloatArray


def gaussian_parameter(components: Sequence[tuple[Pair, int]], rounds: int) -> float:
    """Return μ of the Gaussian differential privacy that a composition tends to; an approximation.

    Of sampled Gaussian noise q √(r (e^(1/σ²) - 1)) (Bu, Dong, Long & Su 2020, Corollary 5.4), of anything else
    2 Σ E L / √(Σ Var L) for the losses L of all rounds (Dong, Roth & Su 2022, Theorem 5.2).
    """
    factors = [(factor, count) for pair, count in components for factor in pair.factors]
    if all(isinstance(factor, SubsampledGaussian) for factor, _ in factors):
        total = 0.0
        for factor, count in factors:
            if isinstance(factor, SubsampledGaussian):
                exponent = (factor.sensitivity / factor.scale) ** 2
                total += count * factor.rate**2 * math.expm1(exponent) if exponent < 700.0 else math.inf
        return _told(math.sqrt(rounds * total))
    mean = variance = 0.0
    for factor, count in factors:
        profile = loss_profile(factor, 1.0, 1.0)
        if profile.only_a > 0.0 or profile.only_b > 0.0 or not profile.loss.size:
            raise InvalidInputError(f"theorem: expected a mechanism whose losses are finite, got {shown(factor)}")
        _, means, variances, _ = profile.moments(np.array([0.0]))
        mean, variance = mean + count * float(means[0]), variance + count * float(variances[0])
    return _told(2.0 * math.sqrt(rounds) * mean / math.sqrt(variance) if variance > 0.0 else 0.0)


def _told(mu: float) -> float:
    """Refuse what the limit says nothing of in float64."""
    if not 1e-150 < mu < 1e150:
        raise InvalidInputError(f"mechanism: expected losses whose limit theorem float64 holds, got μ = {mu:.3g}")
    return mu


def gaussian_log_delta(mu: float, wanted: FloatArray) -> FloatArray:
    """Return ln δ of μ-Gaussian differential privacy: δ = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ)."""
    first, second = log_ndtr(0.5 * mu - wanted / mu), wanted + log_ndtr(-0.5 * mu - wanted / mu)
    with np.errstate(divide="ignore"):
        return np.asarray(first + np.log(-np.expm1(np.minimum(second - first, 0.0))))


def clt_log_delta(components: Sequence[tuple[Pair, int]], rounds: int, wanted: FloatArray) -> FloatArray:
    """Return ln δ of a composition by the central limit theorem; neither an upper nor a lower bound."""
    return gaussian_log_delta(gaussian_parameter(components, rounds), wanted)
