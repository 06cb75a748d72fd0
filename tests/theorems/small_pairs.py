"""Random pairs of few outcomes, with their exact masses."""

import itertools
import math
from fractions import Fraction

import numpy as np

from pbdist import Histogram


def random_pair(rng: np.random.Generator) -> tuple[Histogram, list[Fraction], list[Fraction]]:
    """Draw two distributions without zeros; some have ratios next to 1, some ratios of thousands."""
    size = int(rng.integers(2, 5))
    if rng.random() < 0.3:
        counts = 10_000 + rng.integers(-40, 41, (2, size))
    else:
        counts = 1 + rng.integers(0, 10 ** rng.integers(1, 5), (2, size))
    masses = [[Fraction(int(count), int(side.sum())) for count in side] for side in counts]
    return Histogram(*(tuple(side.tolist()) for side in counts)), *masses


def exact_delta(sides: list[tuple[list[Fraction], list[Fraction]]], epsilon: float) -> float:
    """The larger direction's Σ max(0, P - e^ε Q) over all outcomes of a sequence of pairs."""
    factor = Fraction(math.exp(epsilon))
    total = [Fraction(0), Fraction(0)]
    for outcome in itertools.product(*(list(zip(a, b, strict=True)) for a, b in sides)):
        p, q = (math.prod((one[side] for one in outcome), start=Fraction(1)) for side in (0, 1))
        total[0] += max(Fraction(0), p - factor * q)
        total[1] += max(Fraction(0), q - factor * p)
    return float(max(total))
