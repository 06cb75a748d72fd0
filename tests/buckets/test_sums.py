"""Sums of masses: as exact as the exactly rounded sum, but for next to nothing."""

from fractions import Fraction

import numpy as np
import pytest

from pbdist.buckets.sums import accurate_sum
from pbdist.mechanisms import UNIT_ROUNDOFF


@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 8193, 30_001])
def test_long_sums_are_rounded_once(size):
    rng = np.random.default_rng(size)
    for values in (
        rng.random(size),
        np.exp(rng.uniform(-600.0, 0.0, size)),
        np.full(size, 0.1),
        rng.random(size) ** 40,
    ):
        exact = sum(map(Fraction, values.tolist()), Fraction(0))
        found = Fraction(accurate_sum(values))
        assert abs(found - exact) <= Fraction(UNIT_ROUNDOFF * (1.0 + 2.0**-20)) * exact
