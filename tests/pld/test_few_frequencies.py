"""Compositions by few frequencies, against products of polynomials in integers and transforms in balls."""

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import fft

from pbdist.fourier.transform import EXTENDED_ROUNDOFF
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld import few_frequencies as characteristic
from pbdist.pld.few_frequencies import (
    Frequencies,
    Part,
    TiltedLeaf,
    _far,
    _low,
    _Moments,
    _seen,
    _squares,
    _summed,
    _window,
    few_frequencies,
    unit_roots,
)
from pbdist.types import FloatArray, IntArray
from tests.effort import times
from tests.strategies import examples

pytestmark = pytest.mark.slow

#: Bits after the point of exact weights, and of exact products, which are cut off there.
GRAIN, BITS = 50, 200
#: More than cutting off and float64 can be worth where a test compares sums.
TINY = 1e-15

#: Dominating masses, and exact ones of P_A and P_B.
ROWS = 3

Factors = list[tuple[TiltedLeaf, int]]


def dyadic(weights: FloatArray) -> FloatArray:
    """Whole multiples of 2^-50 that sum to about 1 along the last axis."""
    return np.rint(weights / weights.sum(axis=-1, keepdims=True) * 2.0**GRAIN) / 2.0**GRAIN


def leaf_of(
    weights: FloatArray, *, first: int = -7, width: float = 0.01, tilt: float = 0.0, half: int = 1
) -> TiltedLeaf:
    """A leaf of those weights, shape (3, n), on neighbouring places."""
    return TiltedLeaf(
        width, tilt, first, (0, half, half), (Part(slice(0, ROWS), 0, 1, weights),), np.zeros(ROWS), np.zeros(ROWS)
    )


def parted(draw: np.random.Generator, leaf: TiltedLeaf) -> TiltedLeaf:
    """The same, some of it in parts of their own: some rows, or places some steps apart."""
    whole = dense(leaf)
    chosen = draw.random()
    if chosen < 0.4:
        return leaf
    if chosen < 0.6:
        parts = [Part(slice(0, 1), 0, 1, whole[:1]), Part(slice(1, ROWS), 0, 1, whole[1:])]
        return replace(leaf, parts=tuple(parts))
    stride, begin = int(draw.choice([2, 3, 8])), int(draw.integers(0, whole.shape[1]))
    rows = slice(0, ROWS) if draw.random() < 0.5 else slice(1, ROWS)
    core = whole.copy()
    far = 0.5 * whole[rows, begin::stride]
    core[rows, begin::stride] -= far
    return replace(leaf, parts=(Part(slice(0, ROWS), 0, 1, core), Part(rows, begin, stride, far)))


def dense(leaf: TiltedLeaf) -> FloatArray:
    """All weights on neighbouring places, from the lowest one on."""
    whole = np.zeros((ROWS, leaf.last + 1))
    for part in leaf.parts:
        whole[part.rows, part.first : part.last + 1 : part.stride] += part.weights
    return whole


def shaped(draw: np.random.Generator, shape: str, size: int) -> FloatArray:
    """Weights like those of leaves, and unlike them."""
    index = np.arange(float(size))
    if shape == "bell":
        return np.exp(-0.5 * ((index - size * draw.uniform(0.3, 0.7)) / (size * draw.uniform(0.08, 0.3) + 0.3)) ** 2)
    if shape == "flat":
        return np.ones(size)
    if shape == "atoms":
        # The loss of Laplace noise: both ends, and an exponential between them.
        weights = np.exp(-index / size) * draw.uniform(0.2, 3.0) / size
        weights[0], weights[-1] = draw.uniform(0.2, 1.0), draw.uniform(0.2, 1.0)
        return weights
    if shape == "skewed":
        tail = np.exp(-index / (draw.uniform(0.05, 0.3) * size)) + 1e-4 * draw.random() * (1.0 + index) ** -3.0
        return tail if draw.random() < 0.5 else tail[::-1]
    if shape == "noise":
        return draw.random(size) + 1e-3
    if shape == "sparse":
        return draw.random(size) ** 12 + 1e-9
    if shape == "two scales":
        # A few per cent far from the rest: the fourth moment is large, and the transform does not fall for long.
        wide = np.exp(-0.5 * ((index - 0.5 * size) / (0.3 * size)) ** 2)
        narrow = np.exp(-0.5 * ((index - 0.5 * size) / 1.5) ** 2)
        return narrow / narrow.sum() + draw.uniform(0.005, 0.1) * wide / wide.sum()
    if shape == "far part":
        # Of which the exponent that is claimed near 0 is nearly the true one.
        share, place = draw.uniform(0.02, 0.1), 0.2 * size
        parts = [np.exp(-0.5 * ((index - middle) / (0.06 * size)) ** 2) for middle in (place, 0.9 * size)]
        return parts[0] + share * parts[1]
    if shape == "even":
        return draw.random(size) * (index % 2 == 0)
    if shape == "nearly even":
        return draw.random(size) * np.where(index % 2 == 0, 1.0, draw.uniform(0.0, 0.3))
    raise ValueError(shape)


def rows_of(draw: np.random.Generator, shape: str, size: int) -> FloatArray:
    """Rows of that shape that are alike, as those of leaves are, or each of its own now and then."""
    weights = np.array([shaped(draw, shape, size) for _ in range(ROWS)])
    if draw.random() < 0.85:
        weights[1:] = weights[:1] * (1.0 + 0.05 * draw.random((ROWS - 1, size)))
    return dyadic(weights)


def polynomial(weights: FloatArray) -> flint.fmpz_poly:
    """The weights, whole multiples of 2^-60, as numerators over 2^`BITS`."""
    numerators = [int(weight * 2.0**60) for weight in weights.tolist()]
    assert all(numerator / 2**60 == weight for numerator, weight in zip(numerators, weights.tolist(), strict=True))
    return flint.fmpz_poly([numerator << (BITS - 60) for numerator in numerators])


def power_of(base: flint.fmpz_poly, exponent: int) -> flint.fmpz_poly:
    """The power, cut off after each multiplication: off by less than 2^-`BITS` times the length for each factor."""
    result: flint.fmpz_poly | None = None
    while True:
        if exponent & 1:
            result = base if result is None else result * base // (1 << BITS)
        exponent >>= 1
        if not exponent:
            assert result is not None
            return result
        base = base * base // (1 << BITS)


def product_of(factors: Factors, row: int) -> flint.fmpz_poly:
    """The composition, as numerators over 2^`BITS`."""
    result = flint.fmpz_poly([1 << BITS])
    for leaf, power in factors:
        result = result * power_of(polynomial(dense(leaf)[row]), power) // (1 << BITS)
    return result


def floats_of(product: flint.fmpz_poly, factors: Factors) -> FloatArray:
    """The elements of a product, with all zeros at its end."""
    size = 1 + sum(power * leaf.last for leaf, power in factors)
    values = [int(each) / (1 << BITS) for each in product.coeffs()]
    return np.array(values + [0.0] * (size - len(values)))


def start_of(known: Frequencies, factors: Factors, row: int) -> int:
    """The element of the product at which the window of a row starts, from the places that are told."""
    lowest = sum(power * (2 * leaf.first + leaf.halves[row]) for leaf, power in factors)
    start, rest = divmod(known.start[row] - lowest, 2)
    assert rest == 0
    return start


def known_weights(known: Frequencies, row: int) -> FloatArray:
    """The weights that few coefficients stand for, by their definition."""
    spectrum = np.zeros(known.length // 2 + 1, dtype=np.clongdouble)
    spectrum[known.orders] = known.coefficients[row]
    if 2 * known.orders[-1] == known.length:
        # It has no pair: twice its half.
        spectrum[-1] *= 2.0
    return fft.irfft(spectrum, known.length)


def worst_distance(exact: FloatArray, known: Frequencies, row: int, start: int) -> float:
    """The largest |Σ g w* - Σ g w| over *all* factors g that rise to at most 1 and fall again.

    Every such g is a mixture of intervals, so that it is the largest over these: of differences of cumulative sums.
    """
    low, high = min(start, 0), max(exact.size, start + known.length)
    difference = np.zeros(high - low, dtype=np.longdouble)
    difference[-low : exact.size - low] = exact
    difference[start - low : start - low + known.length] -= known_weights(known, row)
    sums = np.concatenate(([np.longdouble(0.0)], np.cumsum(difference)))
    return float(np.max(sums) - np.min(sums))


def ball(value: np.floating) -> flint.arb:
    """A number of either precision, exactly."""
    high = float(value)
    return flint.arb(high) + flint.arb(float(value - np.longdouble(high)))


def distance(value: np.complexfloating, exact: flint.acb) -> float:
    """How far a computed number is from an exact one, rounded up."""
    return float(abs(flint.acb(ball(value.real), ball(value.imag)) - exact).upper())


@pytest.fixture(autouse=True)
def _digits() -> None:
    flint.ctx.prec = 256


WHOLE = st.one_of(
    st.integers(-(2**62), 2**62), st.integers(-1000, 1000), st.integers(0, 62).map(lambda exponent: (1 << exponent) - 1)
)


@pytest.mark.parametrize("extended", [False, True])
@examples(100)
@given(st.lists(WHOLE, min_size=1, max_size=20), st.one_of(st.integers(1, 40), st.integers(1, 2**50)))
def test_roots_of_unity(extended: bool, numerators: list[int], denominator: int) -> None:
    # Multiples of the halves, quarters and thirds of the circle besides, and their neighbours.
    numerators += [denominator * part // 12 + next_to for part in range(13) for next_to in (-1, 0, 1)]
    found = unit_roots(np.array(numerators, dtype=np.int64), denominator, extended=extended)
    unit = EXTENDED_ROUNDOFF if extended else UNIT_ROUNDOFF
    for numerator, root in zip(numerators, found, strict=True):
        angle = flint.fmpq(2 * (numerator % denominator), denominator)
        exact = flint.acb(angle).exp_pi_i()
        assert distance(root, exact) <= 21.0 * unit, (numerator, denominator)
        # Few digits are lost next to 1, where differences from it are taken.
        if min(numerator % denominator, -numerator % denominator) * 4 < denominator:
            off = abs(ball(root.imag) - exact.imag).upper()
            assert off <= 21.0 * unit * abs(exact.imag).lower() or off == 0, (numerator, denominator)


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 64, 65, 127, 131, 257, 600])
def test_the_summed_frequencies(size: int, extended: bool) -> None:
    # Balls that are turned grow.
    flint.ctx.prec = 1024
    draw = np.random.default_rng(size)
    unit = EXTENDED_ROUNDOFF if extended else UNIT_ROUNDOFF
    worst = 0.0
    for shape, length, highest in [
        ("noise", size, 0),
        ("sparse", size + 1, 5),
        ("skewed", 7919, 11),
        ("flat", 10**9, 5),
    ]:
        plain = leaf_of(dyadic(np.array([shaped(draw, shape, size) for _ in range(ROWS)])))
        for leaf in (plain, parted(draw, plain), parted(draw, plain)):
            orders = np.unique(np.append(draw.integers(0, length // 2 + 1, highest // 2), np.arange(highest + 1)))
            found, bound = _summed(leaf, length, orders, extended=extended)
            assert found.shape == (ROWS, orders.size)
            weights = dense(leaf)
            for row in range(ROWS):
                exact = flint.acb_poly(weights[row].tolist())
                total = float(np.sum(weights[row]))
                for place, frequency in enumerate(orders.tolist()):
                    root = flint.acb(flint.fmpq(-2 * frequency, length)).exp_pi_i()
                    missed = distance(found[row, place], exact(root)) / (unit * total)
                    worst = max(worst, missed)
                    assert missed <= bound * (1.0 + 1e-9), (shape, frequency)
    # The precision is the one that is asked for, and what is compared is not the same sum twice.
    assert size == 1 or 0.0 < worst < 100.0


def exact_moments(weights: Sequence[float], centre: float) -> list[Fraction]:
    total = sum(map(Fraction, weights))
    return [
        sum((Fraction(w) * (i - Fraction(centre)) ** p for i, w in enumerate(weights) if w > 0.0), Fraction(0)) / total
        for p in range(5)
    ]


#: Weights of one row, from 2^-200 up, some of them 0.
ROW = st.lists(
    st.one_of(
        st.just(0.0),
        st.floats(1e-3, 1.0),
        st.tuples(st.floats(0.5, 1.0), st.integers(0, 200)).map(lambda pair: math.ldexp(*pair)).map(lambda x: 1.0 / x),
    ),
    min_size=1,
    max_size=24,
)


@examples(60)
@given(st.lists(ROW, min_size=3, max_size=3), st.integers(0, 20_000), st.floats(0.05, 20.0))
def test_moments_are_bounds(rows: list[list[float]], offset: int, factor: float) -> None:
    """Of rows that may be few atoms far from the lowest place, and from one another."""
    size = max(map(len, rows)) + offset
    weights = np.zeros((ROWS, size))
    for row, values in enumerate(rows):
        weights[row, offset : offset + len(values)] = values
        weights[row, offset + len(values) // 2] += 0.25
    moments = _Moments(leaf_of(weights))
    centre = float(moments.centre)
    rates = factor / np.sqrt(np.maximum(moments.second.max(keepdims=True), 0.0) + 1e-2)
    for row in range(ROWS):
        _, first, second, third, fourth = exact_moments(weights[row].tolist(), centre)
        variance, spread = second - first**2, (fourth - 4 * first * third + 3 * second**2) / 12
        lost = Fraction(40.0 * moments.noise)
        assert Fraction(float(moments.second[row])) <= variance <= Fraction(float(moments.second_above[row]))
        assert Fraction(float(moments.second[row])) >= variance - lost * second
        assert Fraction(float(moments.second_above[row])) <= variance + lost * second
        assert spread <= Fraction(float(moments.fourth[row])) <= spread + lost * fourth
        for sign in (1.0, -1.0):
            bound = float(moments.log_exponential(rates, sign)[row, 0])
            with mpmath.workdps(40):
                rate, middle = sign * mpmath.mpf(float(rates[0])), mpmath.mpf(centre)
                exact = mpmath.log(
                    mpmath.fsum(
                        mpmath.mpf(weight) * mpmath.exp(rate * (index - middle))
                        for index, weight in enumerate(weights[row].tolist())
                        if weight > 0.0
                    )
                )
                # What the logarithm's own rounding is worth is added where it is used.
                assert bound >= exact - mpmath.mpf(10) ** -15 * (1 + abs(exact))


def test_moments_of_leaves_are_close_bounds() -> None:
    """Where rows are alike, nothing is lost: also far from the lowest place, and of many elements."""
    draw = np.random.default_rng(3)
    for shape, size in itertools.product(["bell", "skewed", "atoms", "sparse", "noise"], [3, 50, 200]):
        weights = rows_of(draw, shape, size)
        padded = np.zeros((ROWS, size + 4096))
        padded[..., 4000 : 4000 + size] = weights
        for each in (leaf_of(weights), leaf_of(padded), parted(draw, leaf_of(weights))):
            moments = _Moments(each)
            for row in range(ROWS):
                values = dense(each)[row].tolist()
                _, first, second, third, fourth = exact_moments(values, float(moments.centre))
                variance, spread = second - first**2, (fourth - 4 * first * third + 3 * second**2) / 12
                few = Fraction(1, 10**6)
                assert variance * (1 - few) <= Fraction(float(moments.second[row])) <= variance
                assert variance <= Fraction(float(moments.second_above[row])) <= variance * (1 + few)
                assert spread <= Fraction(float(moments.fourth[row])) <= spread * (1 + few)


def test_the_exponential_moment_of_an_atom_far_away_is_bounded() -> None:
    """Also where its factor is no float: then by infinity, of which no window is made."""
    weights = np.zeros((ROWS, 15_051))
    weights[..., :101] = np.exp(-0.5 * ((np.arange(101.0) - 50.0) / 10.0) ** 2)
    weights /= weights.sum(axis=-1)[..., None]
    weights[..., -1] += 2e-10
    moments = _Moments(leaf_of(weights))
    for rate in (0.01, 0.03, 0.0399, 0.0401, 0.06, 10.0):
        bound = float(moments.log_exponential(np.array([rate]), 1.0)[0, 0])
        # The atom alone, in the middle of which the others lie.
        assert bound >= math.log(2e-10) + rate * (15_050.0 - float(moments.centre))
        below = float(moments.log_exponential(np.array([rate]), -1.0)[0, 0])
        assert 0.0 <= below < math.inf


def random_factors(draw: np.random.Generator, shapes: Sequence[str], *, longest: int, most: int = 400) -> Factors:
    """One to three leaves of one to three parts."""
    number = int(draw.choice([1, 1, 2, 3]))
    factors: Factors = []
    for _ in range(number):
        rows = rows_of(draw, str(draw.choice(shapes)), int(draw.integers(3, longest)))
        leaf = leaf_of(rows, first=int(draw.integers(-20, 20)), half=int(draw.integers(-3, 4)))
        factors.append((parted(draw, leaf), math.ceil(int(draw.integers(16, most + 1)) / number)))
    return factors


def test_windows_leave_out_no_more_than_they_say() -> None:
    draw = np.random.default_rng(4)
    narrow = met = 0
    for case in range(60):
        factors = random_factors(draw, ["bell", "atoms", "skewed", "noise", "sparse"], longest=40)
        if case % 3 == 0:
            # Also few compositions, of which nothing is normal.
            factors = [(leaf, 1 + case % 5) for leaf, _ in factors]
        outside = 10.0 ** -draw.uniform(0.5, 14.0)
        found = _window(factors, [_Moments(leaf) for leaf, _ in factors], outside)
        assert found is not None
        starts, length = found
        assert starts[1] == starts[2]
        assert length >= max(leaf.last + 1 for leaf, _ in factors)
        for row, first in enumerate(starts):
            exact = product_of(factors, row)
            whole = floats_of(exact, factors).size
            values = exact.coeffs()
            assert 0 <= first < whole
            left = sum(map(int, values[:first])) + sum(map(int, values[first + length :]))
            assert Fraction(left, 1 << BITS) <= Fraction(outside) / 2, (case, row)
            met += left > 0
            narrow += length < 0.5 * whole
    assert met > 40
    assert narrow > 60


def test_windows_are_about_as_short_as_can_be() -> None:
    draw = np.random.default_rng(5)
    for shape, power in itertools.product(["bell", "noise"], [64, 400]):
        leaf = leaf_of(rows_of(draw, shape, 60))
        moments = _Moments(leaf)
        found = _window([(leaf, power)], [moments], 1e-9)
        assert found is not None
        deviation = math.sqrt(power * float(np.max(moments.second)))
        # The rows may be some deviations apart; 6.4 of them have 1e-10 beyond them for the normal.
        rows = power * (dense(leaf) @ np.arange(60.0))
        assert found[1] <= 2.0 * 10.0 * deviation + float(np.ptp(rows)) + 60.0


def test_no_row_without_weight() -> None:
    weights = rows_of(np.random.default_rng(6), "bell", 9)
    weights[2] = 0.0
    assert few_frequencies([(leaf_of(weights), 16)], 1e-3) is None


def left_out(factors: Factors, length: int, kept: IntArray) -> FloatArray:
    """Σ |Π ŵ^d| / (j s) over the frequencies j that are left out, shape (3,), in extended precision."""
    product: FloatArray = np.ones(1, dtype=np.longdouble)
    for leaf, power in factors:
        weights = dense(leaf).astype(np.longdouble)
        spectrum = np.abs(fft.rfft(weights, length, axis=-1)) / np.sum(weights, axis=-1, keepdims=True)
        product = product * spectrum**power
    others = np.setdiff1d(np.arange(length // 2 + 1), kept)
    return np.sum(product[..., others] / others, axis=-1).astype(np.float64)


@pytest.mark.parametrize("way", ["roughly", "thoroughly", "all"])
def test_frequencies_left_out_are_worth_no_more_than_the_bound(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "thoroughly":
        monkeypatch.setattr(characteristic, "_LONGEST_OF_EVERY", 0)
    draw = np.random.default_rng(7)
    shapes = ["bell", "flat", "atoms", "skewed", "noise", "sparse", "nearly even", "two scales", "far part", "even"]
    kept: dict[str, int] = dict.fromkeys(shapes, 0)
    some = close = 0
    for shape, _ in itertools.product(shapes, range(times(50))):
        factors = random_factors(draw, [shape], longest=80, most=1000)
        moments = [_Moments(leaf) for leaf, _ in factors]
        outside = 10.0 ** -draw.uniform(0.5, 12.0)
        window = _window(factors, moments, outside)
        assert window is not None
        length = window[1] + int(draw.integers(0, 3))
        found = _seen(factors, length, outside) if way == "all" else _low(factors, moments, length, outside)
        if found is None:
            continue
        kept[shape] += 1
        orders, bound = found
        assert orders[0] == 0
        assert np.all(np.diff(orders) > 0)
        exact = left_out(factors, length, orders)
        assert bound.shape == exact.shape
        # What is 1e-19 of the transform is rounding.
        assert np.all(exact <= bound + 1e-17)
        assert np.all(bound <= outside * 1.01)
        some += orders.size <= length // 4
        close += bool(np.any(exact > 1e-3 * bound))
    if way == "all":
        assert kept == dict.fromkeys(shapes, times(50))
        assert some > 5 * times(50)
    else:
        # Of a lattice every second frequency is as large as the first: none of the highest may be left out.
        assert kept["even"] == 0
        usual = {"even", "two scales"} if way == "thoroughly" else set(shapes) - {"bell", "noise", "flat"}
        assert all(kept[shape] >= 5 for shape in set(shapes) - usual), kept
    assert close > 10, close


@pytest.mark.parametrize("size", [2, 3, 17, 64, pytest.param(250, marks=pytest.mark.nightly)])
def test_no_frequency_is_larger_than_the_bound_between_two(size: int) -> None:
    """Also between the frequencies that are looked at: of waves whose period is no divisor of anything."""
    draw = np.random.default_rng((8, size))
    close = 0
    for wave, fine in itertools.product([0.0, 1.0, 0.7], [2, 5, 16]):
        phase = draw.uniform(0.3, math.pi)
        base = np.array([shaped(draw, str(draw.choice(["bell", "flat", "noise"])), size) for _ in range(ROWS)])
        leaf = leaf_of(dyadic(base * (1.0 + wave * np.cos(phase * np.arange(size)))))
        for each in (leaf, parted(draw, leaf)):
            length = fine * size + int(draw.integers(0, 4))
            bound = _squares(each, each.dense(1 << 17), _Moments(each).second_above, length)
            step = 2.0 * math.pi / length
            weights = dense(each)
            for m in range(bound.shape[1]):
                angles = np.linspace(m * step, min((m + 1) * step, math.pi), 41)
                transform = weights @ np.exp(-1j * np.multiply.outer(np.arange(weights.shape[1]), angles))
                largest = np.max(np.abs(transform / np.sum(weights, axis=-1)[..., None]) ** 2, axis=-1)
                assert np.all(largest <= bound[:, m] + 1e-15)
                close += bool(np.any(largest > 0.9 * bound[:, m]))
    assert close > min(4 * size, 400)


def test_places_too_far_apart_for_a_transform_count_with_all_their_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(18)
    leaf = leaf_of(dyadic(np.array([shaped(draw, "bell", 60) for _ in range(ROWS)])))
    far = Part(slice(0, ROWS), 1000, 64, np.full((ROWS, 5), 2.0**-12))
    both = replace(leaf, parts=(*leaf.parts, far))
    monkeypatch.setattr(characteristic, "_LONGEST_LOOK", 512)
    length = 1009
    bound = _squares(both, both.dense(512), _Moments(both).second_above, length)
    weights = dense(both)
    angles = np.linspace(0.0, math.pi, 4001)
    transform = weights @ np.exp(-1j * np.multiply.outer(np.arange(weights.shape[1]), angles))
    squares = np.abs(transform / np.sum(weights, axis=-1)[..., None]) ** 2
    places = np.minimum((angles * length / (2.0 * math.pi)).astype(int), bound.shape[1] - 1)
    # An angle next to a multiple may be that of the interval before.
    below = np.maximum(places - 1, 0)
    assert np.all(squares <= np.maximum(bound[:, places], bound[:, below]) + 1e-15)


@pytest.mark.parametrize("checked_every", [1, 64])
def test_from_the_end_that_is_found_nothing_is_larger(checked_every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where some of the factors are enough, and no more are looked at."""
    monkeypatch.setattr(characteristic, "_AT_ONCE", checked_every)
    draw = np.random.default_rng(28)
    told = 0
    looks = [characteristic._ROUGH, characteristic._FINE]
    for shape, look in itertools.product(["bell", "noise", "two scales", "atoms", "nearly even"], looks):
        shapes = [shape] if checked_every > 1 else [shape] * 4
        factors = random_factors(draw, shapes, longest=80, most=1000)
        moments = [_Moments(leaf) for leaf, _ in factors]
        enough = -draw.uniform(2.0, 30.0)
        monkeypatch.setattr(characteristic, "_LONGEST_LOOK", int(draw.choice([3000, 1 << 17])))
        found = _far(factors, moments, draw.uniform(0.0, 0.5), enough, look)
        if found is None:
            continue
        told += 1
        end, bound = found
        assert np.all(bound <= enough)
        angles = np.linspace(min(end, math.pi), math.pi, 3001)
        logs = np.zeros((ROWS, angles.size))
        for leaf, power in factors:
            weights = dense(leaf)
            transform = weights @ np.exp(-1j * np.multiply.outer(np.arange(weights.shape[1]), angles))
            logs += power * np.log(np.abs(transform) / np.sum(weights, axis=-1)[:, None] + 1e-16)
        assert np.all(logs.max(axis=1) <= bound + 1e-9)
    assert told >= 4


def compared(factors: Factors, known: Frequencies) -> float:
    """Assert what `few_frequencies` says; return the largest distance of all rows, relative to their errors."""
    largest = 0.0
    for row in range(ROWS):
        exact = floats_of(product_of(factors, row), factors)
        missed = worst_distance(exact, known, row, start_of(known, factors, row))
        error = float(known.error[row])
        assert missed <= error + TINY, (row, missed, error)
        largest = max(largest, missed / error)
        size = np.abs(known.coefficients[row])
        assert np.all(size <= known.size[row] * (1.0 + 1e-15))
    return largest


@pytest.mark.parametrize("extended", [False, True])
def test_sums_with_factors_that_rise_and_fall_are_within_the_error(
    extended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim itself, for all such factors at once, with frequencies by transforms and one by one."""
    draw = np.random.default_rng(9 + extended)
    cases = some = close = 0
    for _ in range(times(60)):
        factors = random_factors(
            draw, ["bell", "flat", "atoms", "skewed", "noise", "sparse", "nearly even", "two scales"], longest=60
        )
        outside = 10.0 ** -draw.uniform(0.3, 12.0)
        cases += 1
        monkeypatch.setattr(characteristic, "_TRANSFORM_COST", draw.choice([1e-9, 40.0, 1e9]))
        # Also where much is left out.
        monkeypatch.setattr(characteristic, "_SEEN_FRACTION", draw.choice([0.1, 1e6]))
        known = few_frequencies(factors, outside, extended=extended)
        if known is None or known.orders.size > known.length // 2:
            continue
        some += 1
        largest = compared(factors, known)
        close += largest > 0.01
    assert some > 0.4 * cases, (some, cases)
    assert close > 0.06 * cases, close


def test_of_every_frequency_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same claim for few rounds, atoms and lattices, of windows of even and of odd lengths."""
    draw = np.random.default_rng(31)
    lengths, close = [], 0
    monkeypatch.setattr(characteristic, "_low", lambda *_: None)
    monkeypatch.setattr(characteristic, "_SEEN_FRACTION", 0.0)
    for _ in range(times(60)):
        factors = random_factors(draw, ["bell", "flat", "atoms", "noise", "sparse", "two scales"], longest=60, most=20)
        monkeypatch.setattr(characteristic, "_TRANSFORM_COST", draw.choice([1e-9, 40.0, 1e9]))
        known = few_frequencies(factors, 10.0 ** -draw.uniform(6.0, 12.0))
        assert known is not None
        assert known.orders.size == known.coefficients.shape[-1] == known.length // 2 + 1
        lengths.append(known.length)
        close += compared(factors, known) > 1e-4
    assert {length % 2 for length in lengths} == {0, 1}
    assert close > 0.1 * len(lengths)


def test_a_window_too_long_for_every_frequency_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    factors = [(leaf_of(rows_of(np.random.default_rng(0), "flat", 60)), 2)]
    assert few_frequencies(factors, 1e-9) is not None
    monkeypatch.setattr("pbdist.pld.few_frequencies._LONGEST_OF_EVERY", 100)
    assert few_frequencies(factors, 1e-9) is None


def test_where_more_digits_take_too_long_fewer_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    factors = [(leaf_of(rows_of(np.random.default_rng(0), "flat", 60)), 300)]
    extended = few_frequencies(factors, 1e-15, extended=True)
    monkeypatch.setattr(characteristic, "_MAX_WORK", 1)
    known = few_frequencies(factors, 1e-15, extended=True)
    assert extended is not None
    assert known is not None
    if EXTENDED_ROUNDOFF < UNIT_ROUNDOFF:
        assert np.all(known.error > 10.0 * extended.error)
    compared(factors, known)


def test_thousands_of_frequencies_are_computed_without_more_digits() -> None:
    pair = np.zeros((ROWS, 4801))
    pair[..., [0, 1, 2400, 4799, 4800]] = 0.2
    factors = [(leaf_of(dyadic(pair)), 3)]
    plain, extended = (few_frequencies(factors, 1e-9, extended=extended) for extended in (False, True))
    assert plain is not None
    assert extended is not None
    assert extended.orders.size > characteristic._MOST_EXTENDED
    np.testing.assert_array_equal(extended.coefficients, plain.coefficients)


def test_labels_that_are_not_places_are_told() -> None:
    """Rows of halves drift apart from the first one, and the ends are where it says they are."""
    rows = rows_of(np.random.default_rng(12), "flat", 20)
    for half in (-1, 0, 1, 2):
        leaf = leaf_of(rows, half=half)
        known = few_frequencies([(leaf, 300)], 1e-6)
        assert known is not None
        compared([(leaf, 300)], known)
        assert known.start[1] == known.start[2]
        assert (known.start[1] - known.start[0] - 300 * half) % 2 == 0


@pytest.mark.parametrize(("power", "outside"), [(20_000, 1e-6), (5_000, 1e-9), (20_000, 1e-17)])
def test_many_compositions(power: int, outside: float) -> None:
    weights = rows_of(np.random.default_rng(power), "flat", 10)
    factors = [(leaf_of(weights), power)]
    known, extended = (few_frequencies(factors, outside, extended=extended) for extended in (False, True))
    assert known is not None
    assert extended is not None
    exact = floats_of(product_of(factors, 1), factors)
    start = start_of(known, factors, 1)
    missed = worst_distance(exact, known, 1, start)
    error = float(known.error[1])
    assert missed <= error
    assert known.coefficients.shape[-1] < 200
    if outside > 1e-10:
        assert error < 10.0 * outside
    else:
        # What is left is rounding, 20,000-fold, and not the sum's own.
        assert 1e-14 < missed < error < 1e-5
        if EXTENDED_ROUNDOFF < UNIT_ROUNDOFF:
            assert worst_distance(exact, extended, 1, start) < 0.1 * missed
            assert float(extended.error[1]) < 1e-2 * error


@pytest.mark.parametrize("total", [0.99, 1.01])
def test_weights_need_not_sum_to_1(total: float) -> None:
    weights = np.rint(rows_of(np.random.default_rng(13), "flat", 30) * total * 2.0**GRAIN) / 2.0**GRAIN
    factors = [(leaf_of(weights), 400)]
    known, plain = few_frequencies(factors, 1e-7), few_frequencies([(leaf_of(weights / total), 400)], 1e-7)
    assert known is not None
    assert plain is not None
    compared(factors, known)
    np.testing.assert_allclose(known.error, plain.error * total**400 + 2e-7 * (1.0 - total**400), rtol=0.5)
    np.testing.assert_allclose(known.coefficients[:, 0], total**400 * plain.coefficients[:, 0], rtol=1e-9)


def test_scales_are_added() -> None:
    draw = np.random.default_rng(14)
    scales, errors = [draw.uniform(-700.0, 700.0, ROWS) for _ in "ab"], [draw.random(ROWS) * 1e-9 for _ in "ab"]
    leaves = [
        replace(leaf_of(rows_of(draw, "flat", 30)), log_scale=scale, log_scale_error=error)
        for scale, error in zip(scales, errors, strict=True)
    ]
    known = few_frequencies([(leaves[0], 300), (leaves[1], 200)], 1e-6)
    assert known is not None
    for row in range(ROWS):
        exact = 300 * Fraction(scales[0][row]) + 200 * Fraction(scales[1][row])
        moved = 300 * Fraction(errors[0][row]) + 200 * Fraction(errors[1][row])
        told = Fraction(float(known.log_scale_error[row]))
        assert abs(Fraction(float(known.log_scale[row])) - exact) + moved <= told <= 2 * moved + 1


def test_high_frequencies_are_kept_where_they_matter() -> None:
    draw = random.Random(14)  # noqa: S311
    atom = np.zeros((ROWS, 9))
    atom[..., 4] = 1.0
    pair = np.zeros((ROWS, 9))
    pair[..., [0, 8]] = 0.5
    lattice = np.zeros((ROWS, 91))
    lattice[..., ::3] = [draw.random() for _ in range(31)]
    lattice = dyadic(lattice)
    # One composition of what has hard ends.
    flat = np.full((ROWS, 47), 2.0**-6)
    for weights, power in [(atom, 300), (pair, 300), (pair, 1), (lattice, 1), (lattice, 400), (flat, 1)]:
        known = few_frequencies([(leaf_of(weights), power)], 1e-3)
        assert known is not None
        assert 4 * known.orders[-1] > known.length
        compared([(leaf_of(weights), power)], known)


def test_a_factor_that_is_one_atom_moves_the_others() -> None:
    atom = np.zeros((ROWS, 9))
    atom[..., 4] = 1.0
    factors = [(leaf_of(rows_of(np.random.default_rng(15), "flat", 30)), 200), (leaf_of(atom), 200)]
    known = few_frequencies(factors, 1e-6)
    assert known is not None
    compared(factors, known)


def test_an_atom_far_away_is_within_the_window_or_the_error() -> None:
    bell = np.rint(np.exp(-0.5 * ((np.arange(101.0) - 50.0) / 10.0) ** 2) / 25.0 * 2.0**GRAIN) / 2.0**GRAIN
    bell[50] += 1.0 - bell.sum()
    far = np.zeros(14_051)
    far[:101] = bell
    far[-1] = math.ldexp(round(math.ldexp(5e-10, 60)), -60)
    apart = Part(slice(0, ROWS), 14_050, 1, np.full((ROWS, 1), far[-1]))
    near = leaf_of(np.tile(bell, (ROWS, 1)))
    for first in (leaf_of(np.tile(far, (ROWS, 1))), replace(near, parts=(*near.parts, apart))):
        factors = [(first, 1), (near, 399)]
        known = few_frequencies(factors, 5e-11)
        assert known is not None
        compared(factors, known)
