"""Convolutions of several rows by tilts: within their bounds of exact sums, and declined where tilts do not serve."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.fourier import convolve_by_tilts
from pbdist.types import FloatArray
from tests.strategies import examples


def exact(x: FloatArray, y: FloatArray, places: list[int]) -> list[Fraction]:
    """Elements of the exact convolution."""
    xs, ys = [Fraction(value) for value in x.tolist()], [Fraction(value) for value in y.tolist()]
    return [
        sum((xs[i] * ys[k - i] for i in range(max(0, k - len(ys) + 1), min(k, len(xs) - 1) + 1)), Fraction(0))
        for k in places
    ]


def assert_within(found: tuple[FloatArray, FloatArray], x: FloatArray, y: FloatArray, places: list[int]) -> None:
    values, bound = found
    for row in range(x.shape[0]):
        for place, truth in zip(places, exact(x[row], y[row], places), strict=True):
            error = abs(Fraction(float(values[row, place])) - truth)
            assert error <= Fraction(float(bound[row, place])), (row, place)


def bell(size: int, deviation: float, bits: float) -> FloatArray:
    """A bell with a shoulder that falls by so many bits."""
    places = np.arange(size) - 0.4 * size
    return np.exp(-0.5 * (places / deviation) ** 2) + np.exp2(-bits * np.arange(size) / size) * 1e-6


@examples(60)
@given(
    size=st.integers(60, 300),
    other=st.integers(60, 300),
    deviation=st.floats(3.0, 60.0),
    bits=st.floats(0.0, 200.0),
    exponent=st.integers(-200, 200),
    seed=st.integers(0, 10**6),
)
def test_every_element_is_within_its_bound(
    size: int, other: int, deviation: float, bits: float, exponent: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    x = np.stack([bell(size, deviation, bits) * (1.0 + 0.01 * draw.random(size)) for _ in range(2)])
    y = np.stack([bell(other, 2.0 * deviation, bits) * (1.0 + 0.01 * draw.random(other)) for _ in range(2)])
    x *= math.ldexp(1.0, exponent)
    found = convolve_by_tilts(x, y)
    if found is None:
        return
    places = sorted({0, 1, size + other - 2, *draw.integers(0, size + other - 1, 12).tolist()})
    assert_within(found, x, y, places)


def test_ordinary_rows_are_served_and_known_well() -> None:
    x = np.stack([bell(2000, 90.0, 150.0), bell(2000, 90.0, 150.0) * 1.001])
    found = convolve_by_tilts(x, x)
    assert found is not None
    values, bound = found
    assert np.all(bound <= 1e-7 * values)
    assert float(np.sum(bound)) <= 1e-9 * float(np.sum(values))
    assert_within(found, x, x, [0, 5, 700, 1600, 1605, 2500, 3997, 3998])


def test_rows_of_zeros_and_holes() -> None:
    x = np.stack([bell(400, 20.0, 100.0), np.zeros(400)])
    x[:, 100:110] = 0.0
    found = convolve_by_tilts(x, x)
    assert found is not None
    assert_within(found, x, x, [0, 50, 105, 210, 400, 798])


def test_what_lies_far_below_something_else_need_not_be_known() -> None:
    """Two heaps with a hole between them: no tilt sees into the hole, and none has to."""
    x = np.zeros((1, 2000))
    x[0, :100], x[0, 1200:] = 1e-60, 1e-5 * np.exp2(-np.arange(800) / 10.0)
    beside = np.zeros(2000)
    beside[100:1200] = 1.0
    assert convolve_by_tilts(x, x) is None
    found = convolve_by_tilts(x, x, (beside, beside))
    assert found is not None
    assert_within(found, x, x, [0, 1300, 2400, 3000])


@pytest.mark.parametrize("size", [1, 10, 40])
def test_few_elements_are_left_to_direct_sums(size: int) -> None:
    assert convolve_by_tilts(np.ones((2, size)), np.ones((2, size))) is None


def test_the_same_rows_give_the_same_bits() -> None:
    x = np.stack([bell(900, 40.0, 90.0)] * 3)
    first, second = convolve_by_tilts(x, x), convolve_by_tilts(x.copy(), x.copy())
    assert first is not None
    assert second is not None
    # A square is that of the same spectrum.
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[0][0], first[0][2])
