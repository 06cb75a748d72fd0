"""Mechanisms on samples: what their bounds enclose, and enumerations: sums of batches, masses of cells, their δ."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
from scipy import special

from pbdist import (
    FixedBatchGaussian,
    GaussianMixture,
    SubsampledGaussianGroup,
    SubsampledLaplace,
    TruncatedPoissonGaussian,
)
from pbdist.mechanisms import Pair
from tests.oracles.sampling_truth import LabelledTruth, ShiftTruth, cut_exactly

__all__ = ["densities", "hockey_stick", "sums_of_batches", "truths"]


def truths(pair: Pair) -> tuple[ShiftTruth | LabelledTruth, ShiftTruth]:
    """What upper and what lower bounds of a mechanism are about."""
    with mpmath.workdps(40):
        s, kind = mpmath.mpf(getattr(pair, "sensitivity", 1.0)), "Gaussian"
        if isinstance(pair, TruncatedPoissonGaussian):
            q = Fraction(pair.rate)
            cut, used = cut_exactly(pair.examples, q, pair.batch)
            inclusion = (1 - cut) * q + used
            parts = [(1 - cut, ShiftTruth(kind, pair.scale, [0, s], [1 - q, q]))]
            if cut:
                parts.append((cut, ShiftTruth(kind, pair.scale, [0, 2 * s], [1 - used / cut, used / cut])))
            return LabelledTruth(parts), ShiftTruth(kind, pair.scale, [0, s], [1 - inclusion, inclusion])
        if isinstance(pair, GaussianMixture):
            shifts, weights = list(pair.shifts), list(pair.weights)
        elif isinstance(pair, SubsampledGaussianGroup):
            q, size = Fraction(pair.rate), pair.group_size
            # The sensitivity is a float, and so are few of its multiples.
            shifts = [s * j for j in range(size + 1)]
            weights = [math.comb(size, j) * q**j * (1 - q) ** (size - j) for j in range(size + 1)]
        elif isinstance(pair, FixedBatchGaussian):
            q = Fraction(pair.batch, pair.examples)
            shifts, weights = [0, 2 * s], [1 - q, q]
        else:
            assert isinstance(pair, SubsampledLaplace)
            q, kind = Fraction(pair.rate), "Laplace"
            shifts, weights = [0, s], [1 - q, q]
        found = ShiftTruth(kind, pair.scale, shifts, weights)
    return found, found


#: Outcomes at which densities are summed: so many deviations from all means, and steps a deviation.
REACH, STEPS = 9.0, 40


def densities(means: list[dict[float, float]], scale: float) -> list[np.ndarray]:
    """Masses of small cells under mixtures of Gaussian noise about some means, each with a probability.

    Cells are a map of the outcomes, so that their δ is at most the exact one.
    """
    places = [mean for one in means for mean in one]
    x = np.arange(min(places) - REACH * scale, max(places) + REACH * scale, scale / STEPS)
    ends = np.concatenate(([-np.inf], x, [np.inf]))
    return [np.diff(sum(w * special.ndtr((ends - m) / scale) for m, w in one.items())) for one in means]


def hockey_stick(a: np.ndarray, b: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum())


def sums_of_batches(values: np.ndarray, batch: int) -> dict[float, float]:
    """Sums of all batches of a fixed size, with their probabilities."""
    sums = [float(sum(chosen)) for chosen in itertools.combinations(values.tolist(), batch)]
    return {each: sums.count(each) / len(sums) for each in set(sums)}
