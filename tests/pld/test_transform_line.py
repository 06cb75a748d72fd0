"""The transform of a subsampled Gaussian's losses, against the trapezoidal rule on the real line in many digits."""

import math
import random

import mpmath
import numpy as np
import pytest

from pbdist.pld.loss_transform import LossTransform
from pbdist.pld.transform_line import TransformLine


def exact(ratio: float, rate: float, w: mpmath.mpc) -> mpmath.mpc:
    """χ(w): on the real line the rule's error is far below 10^-25 with these steps."""
    mu, q = mpmath.mpf(ratio), mpmath.mpf(rate)
    reach = 15 + max(float(mpmath.re(w)), 0.0) * ratio
    low = -15 - max(-float(mpmath.re(w)), 0.0) * ratio * 0.5
    step = mpmath.mpf(1) / math.ceil(12 + 4 * abs(float(mpmath.im(w))) * min(ratio, 3.0) + 4 * ratio)
    total = mpmath.mpc(0)
    for place in range(math.floor(low / step), math.ceil(reach / step) + 1):
        y = step * place
        loss = mpmath.log1p(q * mpmath.expm1(mu * y - mu * mu / 2))
        total += mpmath.exp(w * loss - y * y / 2)
    return total * step / mpmath.sqrt(2 * mpmath.pi)


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 1, *(pytest.param(part, marks=pytest.mark.nightly) for part in (2, 3))])
def test_it_is_off_by_no_more_than_it_says(part: int) -> None:
    draw = random.Random(f"transform {part}")  # noqa: S311
    with mpmath.workdps(40):
        for _ in range(4):
            ratio, rate = draw.choice([0.05, 0.5, 1.0, 1.7]), 10.0 ** draw.uniform(-6.0, -0.2)
            exponent = draw.choice([1.0, draw.uniform(1.0, 12.0), -draw.uniform(0.0, 12.0)])
            line = TransformLine(LossTransform(ratio, rate), exponent)
            spacing = draw.choice([0.37, 3.0, 21.0])
            logarithms, doubts = line.logarithms(spacing, 3)
            for place in (0, 1, 2):
                t = spacing * place
                scale = mpmath.mpf(line.log_scale) + 1j * mpmath.mpf(t) * mpmath.log1p(-mpmath.mpf(rate))
                known = mpmath.exp(mpmath.mpc(complex(logarithms[place])) + scale)
                off = abs(exact(ratio, rate, mpmath.mpc(exponent, t)) / known - 1)
                assert off <= math.expm1(doubts[place]), (ratio, rate, exponent, t)
                assert doubts[place] < 1e-9


def test_rare_sampling_is_known_better_than_floats_near_one() -> None:
    """χ is next to 1, and what it differs by is known to many digits: so are powers of many rounds."""
    with mpmath.workdps(40):
        line = TransformLine(LossTransform(1.25, 1e-7), 3.0)
        logarithms, doubts = line.logarithms(2.0, 2)
        assert abs(logarithms[1]) < 1e-5
        assert doubts[1] < 1e-18
        scale = mpmath.mpf(line.log_scale) + 2j * mpmath.log1p(-mpmath.mpf(1e-7))
        known = mpmath.mpc(complex(logarithms[1])) + scale
        assert abs(mpmath.log(exact(1.25, 1e-7, mpmath.mpc(3, 2))) - known) < 1e-18


@pytest.mark.parametrize("exponent", [1.0, 8.5, -7.25])
def test_the_largest_of_all_higher_frequencies_is_bounded(exponent: float) -> None:
    line = TransformLine(LossTransform(0.8, 0.03), exponent)
    logarithms, _ = line.logarithms(0.5, 4000)
    for place in (0, 7, 80, 900):
        assert np.all(logarithms[place:].real <= line.log_largest(0.5 * place) + 1e-12)


@pytest.mark.parametrize(
    ("ratio", "rate", "exponent"), [(0.5, 0.02, 1.5), (0.5, 0.3, 1.2), (1.0, 0.5, 1.3), (0.3, 0.05, -2.0)]
)
def test_what_has_fallen_to_nothing_is_not_said_to_be_there(ratio: float, rate: float, exponent: float) -> None:
    """At high frequencies χ is far below the rounding of G, which is nearly -1: the doubt must tell."""
    line = TransformLine(LossTransform(ratio, rate), exponent)
    logarithms, doubts = line.logarithms(1.0, 6000)
    for place in (100, 500, 1500, 3000, 5900):
        own = doubts[place:]
        least = np.exp(logarithms[place:].real) * (2.0 - np.exp(np.minimum(own, 1.0)))
        assert np.all(least <= np.exp(line.log_largest(float(place))) * (1.0 + 1e-9))


def test_the_real_line_is_the_complex_one_at_frequency_0() -> None:
    transform = LossTransform(0.9, 0.2)
    for exponent in (1.0, 5.0, 40.0, -1.0, -30.0):
        line = TransformLine(transform, exponent)
        whole = line.logarithms(1.0, 1)[0][0].real + line.log_scale
        assert whole == pytest.approx(float(transform.log_real(np.array([exponent]))[0]), rel=1e-11, abs=1e-11)


def test_what_is_not_looked_at_is_not_bounded() -> None:
    """Where nearly every record is sampled no bound is known on what lies below the outcomes that are looked at."""
    _, doubts = TransformLine(LossTransform(0.01, 1.0 - 2.0**-53), -3.0).logarithms(1.0, 2)
    assert np.all(np.isinf(doubts))
