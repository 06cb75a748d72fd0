"""The convolution's public functions against exact integer arithmetic, and what they refuse."""

import re

import numpy as np
import pytest

from pbdist.errors import InvalidInputError
from pbdist.fourier import Rounding, convolve, rounded_convolution
from tests.fourier.convolution_truth import (
    SHAPES,
    UNIT_BITS,
    assert_relatively_accurate,
    assert_within_bound,
    exact_convolution,
    integers,
    shape,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "size", [1, 2, 17, 255, 1024, *(pytest.param(size, marks=pytest.mark.nightly) for size in (3, 64, 3001))]
)
@pytest.mark.parametrize("name", SHAPES)
def test_the_error_never_exceeds_the_stated_bound(name, size):
    random = np.random.default_rng(size)
    x = shape(name, size, random)
    for y in (x, shape(name, max(1, size - 7), random), shape("gaussian", max(1, size // 9), random)):
        truth = exact_convolution(x, y)
        assert_within_bound(*convolve(x, y), truth)
        up, down = (rounded_convolution(x, y, side) for side in Rounding)
        for above, below, exact in zip(integers(up), integers(down), truth, strict=True):
            assert below << UNIT_BITS <= exact <= above << UNIT_BITS


@pytest.mark.slow
@pytest.mark.parametrize("size", [8192, pytest.param(1 << 16, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    "name", ["gaussian", "widest gaussian", "two-sided exponential", "atoms and a flat middle", "constant"]
)
def test_smooth_vectors_keep_their_relative_accuracy(name, size):
    x = shape(name, size, None)
    values, bound = convolve(x, x)
    truth = exact_convolution(x, x)
    assert_within_bound(values, bound, truth)
    assert_relatively_accurate(values, truth, error=1e-10)
    assert_relatively_accurate(values + bound, truth, error=1e-8)


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "denormal"])
def test_a_bound_is_hardly_coarser_than_that_of_one_transform(name):
    random = np.random.default_rng(11)
    x, y = shape(name, 40_000, random), shape(name, 30_000, random)[::-1].copy()
    for second in (x, y):
        values, bound = convolve(x, second)
        whole = 1e-11 * np.linalg.norm(x / x.max()) * np.linalg.norm(second / second.max())
        assert np.max(bound / x.max() / second.max()) <= whole
        assert np.all(values + bound >= 0.0)


def test_nothing_outside_the_support():
    x = np.zeros(5000)
    x[2000:3500] = 1.0
    values, bound = convolve(x, x)
    outside = np.ones(values.size, dtype=bool)
    outside[4000:6999] = False
    assert not values[outside].any()
    assert not bound[outside].any()
    empty, no_bound = convolve(np.zeros(10), x)
    assert not empty.any()
    assert not no_bound.any()


def test_short_and_sparse_vectors_keep_their_relative_accuracy():
    random = np.random.default_rng(7)
    sparse = np.zeros(60_000)
    sparse[[0, 17, 59_999]] = 1e-120, 0.5, 1e-9
    values, bound = convolve(sparse, random.random(60_000))
    assert np.all(bound <= 1e-14 * values)


@pytest.mark.slow
def test_atoms_do_not_hide_what_lies_beside_them():
    x = np.full(20_000, 1e-12)
    x[[0, 7000, 7001, 19_999]] = 0.3, 0.2, 0.1, 0.4
    values, bound = convolve(x, x)
    assert np.all(bound <= 1e-12 * values)
    assert_relatively_accurate(values, exact_convolution(x, x), error=1e-13)


@pytest.mark.parametrize("name", ["widest gaussian", "two-sided exponential", "uniform random", "constant"])
def test_the_same_input_gives_the_same_bits(name):
    x = shape(name, 50_000, np.random.default_rng(3))
    results = []
    for offset in (0, 1, 3):
        place = np.empty(x.size + offset)[offset:]
        place[:] = x
        results.append(convolve(place, place))
    for values, bound in results[1:]:
        np.testing.assert_array_equal(values, results[0][0])
        np.testing.assert_array_equal(bound, results[0][1])


def _with(value):
    x = np.ones(5)
    x[3] = value
    return x


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (_with(-1e-300), "expected y finite and non-negative, got -1e-300 at position 3"),
        (_with(np.nan), "expected y finite and non-negative, got nan at position 3"),
        (_with(np.inf), "expected y finite and non-negative, got inf at position 3"),
        (np.ones((2, 2)), "expected y as a non-empty vector of float64, got float64 of shape (2, 2)"),
        (np.ones(3, dtype=np.int64), "expected y as a non-empty vector of float64, got int64 of shape (3,)"),
        (np.ones(0), "expected y as a non-empty vector of float64, got float64 of shape (0,)"),
        ([1.0, 2.0], "expected y as a non-empty vector of float64, got [1.0, 2.0]"),
        (
            np.full(4, 1e300),
            "expected vectors whose convolution is below 2^1022, got largest elements 1e+10 and 1e+300",
        ),
    ],
)
def test_what_is_no_mass_is_refused(y, message):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        convolve(np.full(3, 1e10), y)
    with pytest.raises(InvalidInputError):
        rounded_convolution(y, y, Rounding.UP)
