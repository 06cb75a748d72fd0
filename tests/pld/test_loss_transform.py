"""The soft cut, its transforms and what they leave out, against many digits."""

import math
import random

import mpmath
import numpy as np
import pytest

from pbdist.pld.loss_transform import SoftCut, TransformLine
from tests.effort import times
from tests.pld.transforms import subsampled

pytestmark = pytest.mark.slow


def exact_part(z: mpmath.mpc, cut: SoftCut) -> mpmath.mpc:
    away = (z - mpmath.mpf(cut.outcome)) / mpmath.mpf(cut.blur)
    return mpmath.erfc((-away if cut.large else away) / mpmath.sqrt(2)) / 2


@pytest.mark.parametrize("large", [True, False])
def test_a_part_is_off_by_no_more_than_it_says(large: bool) -> None:
    draw = random.Random(f"part {large}")  # noqa: S311
    with mpmath.workdps(40):
        for _ in range(40):
            cut = SoftCut(draw.uniform(0.5, 20.0), draw.choice([0.01, 0.05, 0.1, 0.4]), large)
            above = draw.uniform(0.0, cut.strip)
            y = np.array([cut.outcome + cut.blur * draw.uniform(-30.0, 30.0) for _ in range(5)] + [cut.outcome])
            log_modulus, phase, error = cut.at(y, above)
            for place, outcome in enumerate(y.tolist()):
                known = exact_part(mpmath.mpc(outcome, above), cut)
                found = mpmath.exp(mpmath.mpc(log_modulus[place], phase[place]))
                assert abs(found / known - 1) <= error[place] + 1e-15, (cut, outcome, above)
                assert error[place] < 1e-10
                # What section 15 of docs/pld.md says of lines.
                real = exact_part(mpmath.mpf(outcome), cut)
                assert abs(known) <= mpmath.exp(cut.log_growth(above)) * real * (1 + mpmath.mpf(10) ** -30)
                assert float(cut.log_real(y)[place]) == pytest.approx(float(mpmath.log(real)), rel=1e-12, abs=1e-13)


def test_two_parts_are_all() -> None:
    y = np.linspace(1.0, 5.0, 41)
    total = sum(np.exp(SoftCut(3.0, 0.1, large).log_real(y)) for large in (True, False))
    np.testing.assert_allclose(total, 1.0, rtol=1e-14)


def exact_transform(ratio: float, rate: float, w: mpmath.mpc, cut: SoftCut) -> mpmath.mpc:
    """On the real line the trapezoidal rule's error is far below 10^-20 with this step."""
    mu, q = mpmath.mpf(ratio), mpmath.mpf(rate)
    step = mpmath.mpf(cut.blur) / 6
    low, high = cut.range(-16.0, float(mpmath.re(w)) * ratio, 14.0)
    total = mpmath.mpc(0)
    for place in range(math.floor((low - 1.0) / step), math.ceil((high + 1.0) / step) + 1):
        y = step * place
        loss = mpmath.log1p(q * mpmath.expm1(mu * y - mu * mu / 2))
        total += mpmath.exp(w * loss - y * y / 2) * exact_part(y, cut)
    return total * step / mpmath.sqrt(2 * mpmath.pi)


@pytest.mark.parametrize("large", [True, False])
@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_transforms_of_parts_are_off_by_no_more_than_they_say(large: bool, part: int) -> None:
    draw = random.Random(f"transform of a part {large} {part}")  # noqa: S311
    with mpmath.workdps(30):
        for _ in range(times(1)):
            ratio, rate = draw.choice([0.3, 0.8, 1.0, 1.7]), 10.0 ** draw.uniform(-4.5, -1.5)
            transform = subsampled(ratio, rate)
            loss = draw.choice([0.001, 0.05, 0.3, 1.0])
            cut = SoftCut(transform.outcome(loss), 0.1 if loss > 0.01 else 0.01, large)
            exponent = 1.0 + draw.uniform(0.0, 3.0) / loss
            line = TransformLine(transform, exponent, cut)
            spacing = draw.choice([0.37, 3.0]) / loss
            logarithms, doubts = line.logarithms(spacing, 3)
            for place in (0, 1, 2):
                t = spacing * place
                scale = mpmath.mpf(line.log_scale) + 1j * mpmath.mpf(t) * mpmath.log1p(-mpmath.mpf(rate))
                known = mpmath.exp(mpmath.mpc(complex(logarithms[place])) + scale)
                off = abs(exact_transform(ratio, rate, mpmath.mpc(exponent, t), cut) / known - 1)
                assert off <= math.expm1(doubts[place]), (ratio, rate, exponent, t, large)
                # Later it has fallen to nothing.
                assert place > 0 or doubts[place] < 1e-10
            whole = float(transform.log_real(np.array([exponent]), cut)[0])
            exact = float(mpmath.log(mpmath.re(exact_transform(ratio, rate, mpmath.mpc(exponent, 0), cut))))
            assert whole == pytest.approx(exact, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("large", [True, False])
def test_the_largest_of_all_higher_frequencies_is_bounded(large: bool) -> None:
    transform = subsampled(0.8, 0.003)
    line = TransformLine(transform, 6.0, SoftCut(transform.outcome(0.2), 0.1, large))
    logarithms, doubts = line.logarithms(0.5, 4000)
    for place in (0, 7, 80, 900):
        least = logarithms[place:].real + np.log(np.maximum(2.0 - np.exp(np.minimum(doubts[place:], 1.0)), 1e-300))
        assert np.all(least <= line.log_largest(0.5 * place) + 1e-12)
