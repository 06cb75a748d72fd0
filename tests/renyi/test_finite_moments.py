"""Moments of finite losses beside infinite ones: against exact sums over outcomes."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist.mechanisms import (
    ApproximateDP,
    FinitePair,
    Gaussian,
    GaussianMixture,
    Histogram,
    Laplace,
    LossMasses,
    MassBounds,
    NoisyCount,
)
from pbdist.renyi import divergence_bounds, finite_moment_above
from pbdist.types import Direction
from tests.effort import SEED, times

ORDERS = (1.0 + 2.0**-10, 1.5, 2.0, 8.0, 64.0)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_moments_of_drawn_outcomes(part: int) -> None:
    rng = np.random.default_rng((SEED, part))
    with mpmath.workdps(50):
        for _ in range(times(40)):
            size = int(rng.integers(2, 6))
            p, q = ((rng.integers(0, 3, size) * rng.integers(1, 1000, size)).tolist() for _ in "AB")
            p[0], q[0] = max(p[0], 1), max(q[0], 1)
            pair = Histogram(tuple(p), tuple(q))
            masses = [(Fraction(a, sum(p)), Fraction(b, sum(q))) for a, b in zip(p, q, strict=True)]
            for direction in Direction:
                sided = masses if direction is Direction.A_TO_B else [(b, a) for a, b in masses]
                revealed = sum((a for a, b in sided if b == 0), Fraction(0))
                for order in ORDERS:
                    found, infinite = finite_moment_above(pair, order, direction, 1e-6)
                    exact = mpmath.fsum(
                        (mpmath.mpf(a.numerator) / a.denominator) ** order
                        * (mpmath.mpf(b.numerator) / b.denominator) ** (1.0 - order)
                        for a, b in sided
                        if a > 0 and b > 0
                    )
                    assert infinite >= revealed
                    assert infinite <= float(revealed) * (1.0 + 1e-9)
                    assert mpmath.exp(mpmath.mpf(found)) >= exact
                    # What is infinite is counted once in the moment, too.
                    assert mpmath.exp(mpmath.mpf(found)) <= (exact + order * revealed) * (1.0 + 1e-3) + 1e-6


def test_without_infinite_losses_it_is_the_divergence() -> None:
    for pair in (Laplace(3.0), Gaussian(2.0), GaussianMixture(8.0, (0.0, 1.0, 3.0), (0.99, 0.009, 0.001))):
        for order in (1.5, 2.0, 20.0):
            moment, infinite = finite_moment_above(pair, order, Direction.A_TO_B, 1e-3)
            lower, upper = divergence_bounds(pair, order, Direction.A_TO_B, 1e-3)
            assert infinite == 0.0
            assert (order - 1.0) * lower <= moment <= (order - 1.0) * upper * (1.0 + 1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_events_whose_loss_is_unknown_are_left_out(order: float) -> None:
    bins, none = MassBounds.zeros(2), MassBounds.zeros(1)
    a, b = (MassBounds.around(np.array(masses), 0.0) for masses in ((0.6, 0.4), (0.5, 0.5)))
    pair = FinitePair(LossMasses(bins, bins, np.array([math.log(1.2), math.nan]), a, b, none, none, 1e-15))
    found, infinite = finite_moment_above(pair, order, Direction.A_TO_B, 1e-6)
    assert 0.4 <= infinite < 0.4 * (1.0 + 1e-9)
    with mpmath.workdps(50):
        assert mpmath.exp(mpmath.mpf(found)) >= mpmath.mpf(0.6) * mpmath.mpf(1.2) ** (order - 1.0)


def test_what_is_revealed_is_apart() -> None:
    moment, infinite = finite_moment_above(ApproximateDP(0.5, 1e-9), 3.0, Direction.A_TO_B, 1e-3)
    assert math.isfinite(moment)
    assert 1e-9 <= infinite < 1.001e-9
    moment, infinite = finite_moment_above(NoisyCount(Laplace(9.0), 50.0, 2), 2.0, Direction.A_TO_B, 1e-3)
    assert 0.0 < moment < 1.0
    assert 0.0 < infinite < 0.1
