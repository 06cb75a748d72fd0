"""Plans against brute force, in whole numbers: all pairs of neighbouring databases, in both orders, no violation."""

import math
from fractions import Fraction

import pytest

from tests.effort import SEED, times
from tests.granularity.release.release_worlds import KINDS, drawn_world

RATIOS = (Fraction(1), Fraction(5, 4), Fraction(2), Fraction(9, 2))
#: Plans of each of 8 kinds of granularity.
MANY = 10


def check(kind: str, seed: int) -> None:
    world = drawn_world(kind, seed)
    losses = [math.log(ratio) for ratio in RATIOS]
    # δ falls with ε: below ln of the ratio it is at least the truth there, above it at most.
    epsilon = [(1.0 - 2.0**-40) * loss for loss in losses] + [(1.0 + 2.0**-40) * loss for loss in losses]
    found = world.plan.privacy_bounds(compositions=1, epsilon=epsilon)
    upper, lower = found.delta_upper.to_numpy()[0, :4], found.delta_lower.to_numpy()[0, 4:]
    for ratio, high, low in zip(RATIOS, upper, lower, strict=True):
        truth = world.largest_delta(ratio)
        assert truth <= Fraction(float(high)), (kind, seed, ratio, float(truth), high)
        assert math.isnan(low) or low == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_plans_hold(kind: str) -> None:
    for seed in range(times(MANY)):
        check(kind, MANY * 100 * SEED + seed)
