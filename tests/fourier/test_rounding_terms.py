"""What convolutions allow for rounding: no term of the bounds that are proved is missing."""

import math
from fractions import Fraction
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest

from pbdist.fourier.chunked_convolution import norm_bits, run_windows, widths
from pbdist.fourier.convolution import Rounding, add_towers, convolve, plain_error, rounded, scale_back
from pbdist.fourier.tilts import Run as TiltedRun
from pbdist.fourier.tilts import _most, _run, _Stack, max_plus, segments_of
from pbdist.fourier.transform import forward, good_length, inverse, transform_error
from pbdist.fourier.vectors import Run
from tests.fourier.convolution_truth import assert_within_bound, exact_convolution

U = Fraction(2) ** -53


def transforms_error(length: int) -> mpmath.mpf:
    """ε of the module's assumption."""
    return mpmath.mpf(transform_error(length))


@pytest.mark.parametrize("length", [2, 15, 16, 360, 1000, 1024])
def test_a_pulse_is_transformed_within_half_of_what_is_assumed(length: int) -> None:
    worst = 0.0
    with mpmath.workdps(30):
        for place in {1, length // 3, length - 1}:
            pulse = np.zeros(length)
            pulse[place] = math.sqrt(0.5)
            found = forward(pulse, length)
            for m in range(0, length // 2 + 1, max(1, length // 40)):
                exact = mpmath.mpf(math.sqrt(0.5)) * mpmath.expjpi(mpmath.mpf(-2 * place * m) / length)
                worst = max(worst, float(abs(complex(found[m] - exact))))
            assert np.max(np.abs(inverse(found, length) - pulse)) <= transform_error(length)
    assert worst <= 0.5 * transform_error(length) * math.sqrt(0.5)


def test_the_error_of_transforms_grows_with_each_pass() -> None:
    # Units of rounding that a pass of radix 2, 3 and 5 costs at most: see the module.
    for length in [good_length(size) for size in (2, 9, 125, 1000, 65_536, 1 << 20)]:
        passes, rest = 0.0, length
        for radix, cost in ((2, 7.0), (3, 8.0), (5, 13.8)):
            while rest % radix == 0:
                rest, passes = rest // radix, passes + cost
        assert transform_error(length) >= 1.5 * passes * float(U)


@pytest.mark.parametrize("tilt", [0.0, 0.25, -0.25])
@pytest.mark.parametrize("present", [True, False])
def test_a_block_is_as_wide_as_is_proved(tilt: float, present: bool) -> None:
    chunk, first, last = 8, np.array([0, 0, 0, 1]), np.array([0, 1, 2, 2])
    run = Run(tilt, 0, 4, first, last, np.array([-5.0, -np.inf, -60.0, -np.inf]))
    norms_x, norms_y = np.array([0.0, 3.0, -2.0]), np.array([1.0, -4.0, 2.0])
    if not present:
        norms_x[:] = -np.inf
    found = widths(run, run_windows(run), chunk, norms_x, norms_y)
    with mpmath.workdps(40):
        power = mpmath.mpf(2)
        swing = abs(tilt) * (chunk - 1)
        most = chunk * power**swing
        length = 2 * chunk
        lost = 4 * power ** (300 - 1074) * most * (4 * length * mpmath.log(length, 2) + most)
        for block, width in enumerate(found.tolist()):
            pairs = range(int(first[block]), int(last[block]) + 1)
            terms = 3 * transforms_error(length) + (len(pairs) + 40) * mpmath.mpf(2) ** -53
            products = sum(power ** (norms_x[p] + norms_y[block - p]) for p in pairs) if present else 0
            neglected = run.neglected[block] + (2 * swing if tilt < 0.0 else 0)
            proved = terms * products + len(pairs) * lost + (power**neglected if neglected > -math.inf else 0)
            assert mpmath.mpf(width) >= proved


def test_norms_are_rounded_up() -> None:
    rows = np.random.default_rng(0).random((40, 16))
    rows[20:] *= 1e-200
    with mpmath.workdps(40):
        for part in (rows, rows[:20]):
            for row, found in zip(part.tolist(), norm_bits(part).tolist(), strict=True):
                assert mpmath.mpf(found) >= mpmath.log(sum(mpmath.mpf(x) ** 2 for x in row), 2) / 2


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("scale", [0, -600])
def test_a_tilted_run_is_as_wide_as_is_proved(same: bool, scale: int) -> None:
    random = np.random.default_rng(1)
    x, y = (_Stack.of(rows, 4) for rows in random.random((2, 2, 12)) * 2.0**scale)
    y = x if same else y
    run = TiltedRun(0.25, 1.0, 1.0 if same else 2.0, 0, 6)
    values, bound = np.zeros((2, 23)), np.full((2, 23), np.inf)
    _run(x, y, [run], (values, bound))
    with mpmath.workdps(40):
        power = mpmath.mpf(2)
        for row in range(2):
            norms = mpmath.mpf(1)
            for stack in (x, y):
                norms *= mpmath.sqrt(sum((w * power ** (i / 4)) ** 2 for i, w in enumerate(stack.rows[row].tolist())))
            terms = 3 * transforms_error(good_length(23)) + 41 * mpmath.mpf(2) ** -53
            for j, found in enumerate(bound[row].tolist()):
                assert mpmath.mpf(found) >= terms * norms / power ** (mpmath.mpf(j) / 4)


def test_a_plain_convolution_errs_by_what_is_proved() -> None:
    x, y = np.random.default_rng(2).random((2, 50))
    exact = [mpmath.sqrt(sum(mpmath.mpf(each) ** 2 for each in vector.tolist())) for vector in (x, y)]
    terms = 3 * transforms_error(good_length(99)) + 41 * mpmath.mpf(2) ** -53
    assert mpmath.mpf(plain_error(x, y)) >= terms * exact[0] * exact[1]


def test_rounding_to_a_side_is_outwards() -> None:
    random = np.random.default_rng(3)
    values, bound = random.random(200), random.random(200) * 1e-3
    ups = rounded(values, bound, Rounding.UP, math.inf)
    downs = rounded(values, bound, Rounding.DOWN, math.inf)
    for value, slack, up, down in zip(values.tolist(), bound.tolist(), ups.tolist(), downs.tolist(), strict=True):
        assert Fraction(down) <= max(Fraction(value) - Fraction(slack), 0)
        assert Fraction(value) + Fraction(slack) <= Fraction(up)


def test_direct_sums_of_what_underflows_are_within_their_bound() -> None:
    random = np.random.default_rng(4)
    for scale in (1.0, 1e-155, 1e-160):
        x, y = random.random((2, 30)) * scale
        assert_within_bound(*convolve(x, y), exact_convolution(x, y))


def test_scaling_back_loses_no_more_than_is_told() -> None:
    values = np.random.default_rng(5).random(50) * 2.0**-1000
    found = values.copy(), np.zeros(50)
    scale_back(found, -70)
    for value, scaled, bound in zip(values.tolist(), *(each.tolist() for each in found), strict=True):
        assert abs(Fraction(value) / 2**70 - Fraction(scaled)) <= Fraction(bound)


def test_towers_are_added_within_their_bound() -> None:
    x, y = np.random.default_rng(6).random((2, 20))
    towers, heights = np.array([1, 4, 5, 11]), x[[1, 4, 5, 11]]
    plan = SimpleNamespace(towers=(towers, np.zeros(0, np.int64)), heights=(heights, np.zeros(0)))
    values, bound = np.zeros(39), np.zeros(39)
    add_towers((values, bound), x, y, plan, 0)
    alone = np.zeros(20)
    alone[towers] = heights
    assert_within_bound(values, bound, exact_convolution(alone, y))


def test_no_element_exceeds_its_terms_times_the_largest_product() -> None:
    for x, y in ((np.ones(12), np.ones(12)), np.random.default_rng(7).random((2, 12)) ** 20):
        most = _most(max_plus(*(segments_of(each, 4) for each in (x, y))), 4, 12, 23)
        assert np.all(np.convolve(x, y) <= most * (1.0 + 1e-12))
