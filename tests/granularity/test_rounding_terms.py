"""Sensitivities of groups are rounded up, against fractions."""

from fractions import Fraction

import numpy as np

from pbdist.granularity.upward import float_above, float_below
from pbdist.mechanisms.declaration import times_above


def test_products_are_the_least_float_that_is_not_below() -> None:
    random = np.random.default_rng(0)
    for value in random.random(100).tolist():
        times = int(random.integers(2, 1000))
        exact = Fraction(value) * times
        found = times_above(value, times)
        assert Fraction(float(np.nextafter(found, 0.0))) < exact <= Fraction(found)


def test_fractions_lie_between_neighbouring_floats() -> None:
    random = np.random.default_rng(0)
    for numerator, denominator in random.integers(1, 10**9, (100, 2)).tolist():
        exact = Fraction(numerator, denominator)
        assert Fraction(float_below(exact)) <= exact <= Fraction(float_above(exact))
