"""Random pairs of few outcomes, with their exact masses."""

from fractions import Fraction

import numpy as np

from pbdist import Histogram
from pbdist.types import Direction
from tests.oracles.exact_truth import composed_outcomes, outcomes
from tests.oracles.truth import enclosed_truth


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
    """The larger direction's δ of a sequence of pairs."""
    table = composed_outcomes([(outcomes(a, b), 1) for a, b in sides])
    return float(max(enclosed_truth(table, epsilon, direction)[0] for direction in Direction))
