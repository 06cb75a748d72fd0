"""What bounds of masses add for rounding, against fractions."""

from fractions import Fraction

import numpy as np
import pytest

from pbdist.mechanisms import MassBounds
from pbdist.mechanisms.masses import SMALLEST_MASS, UNIT_ROUNDOFF, rounded_up
from pbdist.mechanisms.sampling import _product


@pytest.mark.parametrize("error", [0.0, 3.0 * UNIT_ROUNDOFF, 1e-13, 1e-6, 0.01, 0.24])
def test_masses_that_err_as_much_as_is_told_are_enclosed(error: float) -> None:
    computed = np.random.default_rng(0).random(200) + 1e-3
    told = Fraction(error)
    for bounds in (MassBounds.around(computed, error), MassBounds.around(computed, error, occupied=computed > 0.0)):
        for value, low, high in zip(computed.tolist(), bounds.lower.tolist(), bounds.upper.tolist(), strict=True):
            assert Fraction(low) <= Fraction(value) / (1 + told)
            assert Fraction(value) / (1 - told) <= Fraction(high)


def test_what_underflows_may_be_anything_between_nothing_and_the_least_mass() -> None:
    bounds = MassBounds.around(np.array([0.0, 1e-310, 0.5 * SMALLEST_MASS, 0.5]), 0.0)
    np.testing.assert_array_equal(bounds.lower[:3], 0.0)
    assert np.all(bounds.upper[:3] >= 2.0 * SMALLEST_MASS)


def test_numbers_are_rounded_up_on_both_sides_of_0() -> None:
    for value in (1.0, -1.0, 0.1, -0.1, -1e300):
        assert Fraction(rounded_up(value)) >= Fraction(value) + 4 * Fraction(UNIT_ROUNDOFF) * abs(Fraction(value))


def test_shifts_of_groups_are_rounded_to_their_side() -> None:
    for count in range(2, 200):
        low, high = (Fraction(_product(count, 0.1, up=up)) for up in (False, True))
        assert low <= count * Fraction(0.1) <= high
