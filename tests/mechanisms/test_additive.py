"""Truncated noise whose supports meet, miss one another or overlap by less than floats can tell."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist import Gaussian, Laplace, Reversed, privacy_bounds, tradeoff_bounds
from pbdist.mechanisms.additive import AdditiveNoise
from pbdist.types import Direction
from tests.mechanisms.noise_masses import gaussian_mass, laplace_mass

mpmath.mp.dps = 80

H = 1024.0 + 2.0**-42
CUT = (-0.99 * 2.0**-43, H)

#: Supports that overlap by a sliver, though the rounded sum says that they only touch.
OVERLAPPING = [
    Laplace(2.0, H, CUT),
    Gaussian(200.0, H, CUT),
    Laplace(9169198.748746166, 0.7931695654840232, (1048576.0, 1048576.7931695655)),
    Laplace(0.001, 412.1001772895071, (-2.5180492767923564e-14, 412.1001772895071)),
    Laplace(6712.255953644237, 2.4380638651997684, (-145.92092362168023, -143.48285975648045)),
    Laplace(2.8291458353102676, 0.005235045176179217, (3.9947649548310964, 4.000000000007276)),
    Laplace(807948439.077095, 1.0, (33554431.000000115, 33554432.00000012)),
    Gaussian(69252372.05291255, 4.445381896989311, (-223021622.39586166, -223021617.95047975)),
]
#: Supports that touch, or miss one another by less than a float's distance.
APART = [
    Laplace(2.0, 2.0, (-1.0, 1.0)),
    Laplace(2.0, H, (0.0, H)),
    Laplace(2.0, 1024.0, (0.01 * 2.0**-43, 1024.0)),
    Gaussian(3.0, 5.0, (-2.5, 2.5)),
]


def _mass(noise: AdditiveNoise, low: Fraction, high: Fraction, mean: Fraction) -> mpmath.mpf:
    """Mass of [low, high] under the untruncated noise."""
    if high <= low:
        return mpmath.mpf(0)

    mass = gaussian_mass if isinstance(noise, Gaussian) else laplace_mass
    return mass(*(mpmath.mpf(x.numerator) / x.denominator for x in (low - mean, high - mean)), noise.scale)


def _own_masses(noise: AdditiveNoise) -> tuple[mpmath.mpf, mpmath.mpf]:
    """The masses that only A, and that only B, has: of exact ends."""
    assert noise.truncate is not None
    low, high = (Fraction(end) for end in noise.truncate)
    s = Fraction(noise.sensitivity)
    kept = _mass(noise, low, high, Fraction(0))
    only_a = _mass(noise, low, min(s + low, high), Fraction(0)) / kept
    only_b = _mass(noise, max(high, s + low), s + high, s) / kept
    return only_a, only_b


@pytest.mark.parametrize("noise", OVERLAPPING, ids=repr)
def test_a_sliver_is_nobodys_own(noise: AdditiveNoise) -> None:
    low, high = noise.truncate or (0.0, 0.0)
    # The case: rounded, the border of the supports is not below the end.
    assert Fraction(noise.sensitivity) + Fraction(low) < Fraction(high)
    masses = noise.loss_masses(np.array([0.0]))
    for bounds, exact in zip((masses.only_a, masses.only_b), _own_masses(noise), strict=True):
        assert mpmath.mpf(float(bounds.lower[0])) <= exact <= mpmath.mpf(float(bounds.upper[0]))


@pytest.mark.parametrize("noise", APART, ids=repr)
def test_supports_that_only_touch_have_all_their_mass_alone(noise: AdditiveNoise) -> None:
    masses = noise.loss_masses(np.array([0.0]))
    for bounds in (masses.only_a, masses.only_b):
        assert float(bounds.lower[0]) == float(bounds.upper[0]) == 1.0
    assert not masses.bins_a.upper.any()
    assert not masses.bins_b.upper.any()


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{}, {"method": "buckets", "buckets": 1000}, {"buckets": 100}], ids=repr)
@pytest.mark.parametrize("noise", OVERLAPPING + APART, ids=repr)
def test_delta_of_slivers_lies_between(noise: AdditiveNoise, arguments: dict[str, object]) -> None:
    """δ is at most the own mass with all that is common, and at least the own mass."""
    for pair, directions in ((noise, list(Direction)), (Reversed(noise), list(Direction)[::-1])):
        bounds = privacy_bounds(pair, compositions=1, epsilon=[0.0, 600.0], direction="each", **arguments)
        for direction, own in zip(directions, _own_masses(noise), strict=True):
            found = bounds.sel(direction=direction.value)
            for lower, upper in zip(found.delta_lower.values[0], found.delta_upper.values[0], strict=True):
                # The common part is a sliver: at e^600 nothing of it is left, at e^0 at most all of it.
                assert mpmath.mpf(float(upper)) >= own
                assert float(upper) <= 1.0
                assert float(lower) >= float(own) * (1.0 - 1e-6) - 1e-12
            assert mpmath.mpf(float(found.delta_lower.values[0, 1])) <= own * (1 + mpmath.mpf(10) ** -40)


def test_the_trade_off_curve_inherits_it() -> None:
    noise = OVERLAPPING[0]
    curve = tradeoff_bounds(noise, compositions=1, type_one_error=0.0, direction="each")
    own_a, own_b = _own_masses(noise)
    for test, own in (("A||B", own_b), ("B||A", own_a)):
        # Without an error of the first kind, what both can show is the error of the second kind.
        found = curve.sel(direction=test)
        exact = 1 - own
        assert mpmath.mpf(float(found.type_two_error_lower.item())) <= exact
        assert exact <= mpmath.mpf(float(found.type_two_error_upper.item()))
