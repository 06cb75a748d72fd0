"""Products of powers in frequency space against exact integers: the stated bound on the 1-norm holds."""

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pbdist.fourier.spectrum import product_of_powers
from pbdist.fourier.transform import good_length
from pbdist.types import FloatArray

flint = pytest.importorskip("flint")


def exact_window(factors: Sequence[tuple[FloatArray, int]], length: int, start: int, size: int) -> list[Fraction]:
    """The circular convolution of the floats as the numbers that they are."""

    def folded(polynomial: Any) -> Any:
        coefficients = polynomial.coeffs()
        sums = [flint.fmpz(0)] * length
        for position, value in enumerate(coefficients):
            sums[position % length] += value
        return flint.fmpz_poly(sums)

    product = flint.fmpz_poly([1])
    shift = 0
    for vector, exponent in factors:
        masses = [Fraction(x) for x in vector.tolist()]
        bits = max(mass.denominator for mass in masses).bit_length() - 1
        square = folded(flint.fmpz_poly([int(mass * (1 << bits)) for mass in masses]))
        shift += bits * exponent
        for digit in reversed(f"{exponent:b}"):
            if digit == "1":
                product = folded(product * square)
            square = folded(square * square)
    coefficients = [int(x) for x in product.coeffs()]
    coefficients += [0] * (length - len(coefficients))
    return [Fraction(coefficients[(start + i) % length], 1 << shift) for i in range(size)]


def distance(values: FloatArray, exact: Sequence[Fraction]) -> Fraction:
    return sum((abs(Fraction(v) - e) for v, e in zip(values.tolist(), exact, strict=True)), Fraction(0))


def vector(draw: random.Random, n: int, kind: str) -> FloatArray:
    x = np.arange(n, dtype=np.float64)
    noise = np.array([draw.random() for _ in range(n)])
    if kind == "smooth":
        return np.exp(-((x - 0.4 * n) ** 2) / (0.02 * n * n + 1.0)) * draw.choice([1.0, 1e-3, 7.0])
    if kind == "rough":
        return noise
    if kind == "spiky":
        return np.where(noise > 0.9, noise, 1e-9 * noise)
    if kind == "sparse":
        return np.where(noise > 0.85, 1.0, 0.0)
    if kind == "one":
        return np.where(x == draw.randrange(n), 1.0, 0.0)
    if kind == "steep":
        return noise * 10.0 ** (-300.0 * x / n)
    # A comb has a spectrum of as many peaks, none of which decays.
    return np.where(x % 4 == 0, 1.0, 0.0)


KINDS = ("smooth", "rough", "spiky", "sparse", "one", "steep", "comb")


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_is_within_the_bound(kind: str) -> None:
    draw = random.Random(f"spectrum {kind}")  # noqa: S311
    for _ in range(50):
        factors = []
        for _ in range(draw.choice([1, 1, 2, 3])):
            n = draw.choice([1, 2, 5, 17, 40, 64])
            exponent = draw.choice([1, 2, 3, 7, 16, 31, 64]) if kind != "steep" else draw.choice([1, 2, 3])
            other = draw.choice(KINDS[:5]) if factors else kind
            w = vector(draw, n, other)
            factors.append((w / w.sum() if w.sum() > 0.0 and draw.random() < 0.8 else w, exponent))
        longest = max(w.size for w, _ in factors)
        length = good_length(draw.choice([longest, 2 * longest + 3, 128]))
        start = draw.choice([0, 0, length // 2, length - 1, length + 5])
        size = draw.choice([length, max(1, length // 3), 1])
        values, error = product_of_powers(factors, length, start, size)
        assert values.shape == (size,)
        assert np.all(values >= 0.0)
        assert math.isfinite(float(error))
        # Powers below the smallest float vanish, bound and all.
        missed = distance(values, exact_window(factors, length, start, size))
        assert missed <= Fraction(float(error)) + Fraction(1, 10**300), (
            kind,
            [(w.size, d) for w, d in factors],
            length,
            float(missed),
            error,
        )


@pytest.mark.parametrize("exponents", [(1,), (5,), (16,), (3, 4), (1, 1, 1)])
def test_a_stack_is_so_many_vectors(exponents: tuple[int, ...]) -> None:
    generator = np.random.default_rng(len(exponents) + exponents[0])
    stacks = [generator.random((2, 3, 20)) / 20.0 for _ in exponents]
    factors = list(zip(stacks, exponents, strict=True))
    values, error = product_of_powers(factors, 60, 7, 50)
    assert values.shape == (2, 3, 50)
    assert error.shape == (2, 3)
    for member in range(2):
        for row in range(3):
            single = [(np.ascontiguousarray(stack[member, row]), exponent) for stack, exponent in factors]
            missed = distance(values[member, row], exact_window(single, 60, 7, 50))
            assert missed <= Fraction(float(error[member, row]))


def test_the_same_vector_twice_is_transformed_once_and_counts_twice() -> None:
    w = np.array([0.5, 0.25, 0.25])
    twice, _ = product_of_powers([(w, 2), (w, 3)], 16, 0, 16)
    once, error = product_of_powers([(w, 5)], 16, 0, 16)
    assert float(np.sum(np.abs(twice - once))) <= 2.0 * float(error)


def test_the_bound_is_small_for_smooth_powers() -> None:
    """The high frequencies of a smooth vector vanish, and the errors of its power with them."""
    x = np.linspace(-6.0, 6.0, 2001)
    smooth = np.exp(-0.5 * x * x)
    smooth /= smooth.sum()
    _, error = product_of_powers([(smooth, 64)], good_length(20_000), 0, 20_000)
    assert float(error) <= 1e-11
    _, error = product_of_powers([(smooth, 1)], 2048, 0, 2001)
    assert float(error) <= 1e-12


def test_what_wraps_around_lands_on_the_circle() -> None:
    values, error = product_of_powers([(np.array([0.0, 0.0, 1.0]), 3)], 4, 0, 4)
    np.testing.assert_allclose(values, [0.0, 0.0, 1.0, 0.0], atol=1e-14)
    moved, _ = product_of_powers([(np.array([0.0, 0.0, 1.0]), 3)], 4, 2, 4)
    np.testing.assert_allclose(moved, [1.0, 0.0, 0.0, 0.0], atol=1e-14)
    assert 0.0 < float(error) < 1e-13


def test_some_exponent_is_needed() -> None:
    with pytest.raises(ValueError, match="expected at least one exponent"):
        product_of_powers([], 4, 0, 4)
