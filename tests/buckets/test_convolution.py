"""The convolution kernel against exact integer arithmetic."""

import flint
import numpy as np
import pytest

from pbdist.buckets.convolution import Rounding, convolve, rounded_convolution

#: Every float64 is a whole multiple of this.
_UNIT_BITS = 1074


def _integers(values):
    """The float64 values as exact integers, in units of 2^-1074."""
    result = []
    for value in values.tolist():
        numerator, denominator = value.as_integer_ratio()
        result.append(numerator << (_UNIT_BITS - denominator.bit_length() + 1))
    return result


def _exact(x, y):
    """Exact convolution in units of 2^-2148."""
    product = flint.fmpz_poly(_integers(x)) * flint.fmpz_poly(_integers(y))
    coefficients = [int(c) for c in product.coeffs()]
    return coefficients + [0] * (x.size + y.size - 1 - len(coefficients))


def _shape(name, size, random):
    position = np.linspace(-1.0, 1.0, size)
    match name:
        case "gaussian":
            return np.exp(-30.0 * position**2)
        case "narrow gaussian":
            return np.exp(-600.0 * position**2)
        case "atoms and a flat middle":
            values = np.full(size, 1e-4)
            values[0], values[-1] = 0.5, 0.3
            return values
        case "two atoms":
            values = np.zeros(size)
            values[size // 3], values[-1] = 0.4, 0.6
            return values
        case "uniform random":
            return random.random(size)
        case "300 orders of magnitude":
            return 10.0 ** random.uniform(-300.0, 0.0, size)
        case "sparse":
            values = np.zeros(size)
            values[random.integers(0, size, max(1, size // 50))] = random.random(max(1, size // 50))
            return values
        case "constant":
            return np.full(size, 1.0 / size)
        case "denormal":
            return random.random(size) * 1e-308
    raise ValueError(name)


SHAPES = [
    "gaussian",
    "narrow gaussian",
    "atoms and a flat middle",
    "two atoms",
    "uniform random",
    "300 orders of magnitude",
    "sparse",
    "constant",
    "denormal",
]


@pytest.mark.parametrize("size", [1, 2, 3, 17, 64, 255, 1024, 3001, 8192])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_error_never_exceeds_the_stated_bound(shape, size):
    random = np.random.default_rng(size)
    x = _shape(shape, size, random)
    y = _shape(shape, max(1, size - 7), random)
    for first, second in ((x, x), (x, y)):
        values, bound = convolve(first, second)
        truth = _exact(first, second)
        up = rounded_convolution(first, second, Rounding.UP)
        down = rounded_convolution(first, second, Rounding.DOWN)
        assert values.shape == bound.shape == (first.size + second.size - 1,)
        for value, limit, above, below, exact in zip(
            _signed(values), _integers(bound), _integers(up), _integers(down), truth, strict=True
        ):
            assert abs((value << _UNIT_BITS) - exact) <= limit << _UNIT_BITS
            assert below << _UNIT_BITS <= exact <= above << _UNIT_BITS


def _signed(values):
    return [
        value if sign >= 0 else -value for value, sign in zip(_integers(np.abs(values)), np.sign(values), strict=True)
    ]


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
