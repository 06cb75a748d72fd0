"""Compositions by few frequencies, against products of polynomials in integers and transforms in balls."""

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import fft

from pbdist.buckets.tight.frequencies import (
    FewFrequencies,
    _beyond,
    _kept,
    _lowest,
    _Moments,
    _window,
    few_frequencies,
    unit_roots,
)
from pbdist.buckets.tight.state import ROWS, SCALARS, TiltedMasses
from pbdist.fourier.transform import EXTENDED_ROUNDOFF
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray
from tests.strategies import examples

#: Bits after the point of exact weights, and of exact products, which are cut off there.
GRAIN, BITS = 50, 200
#: More than cutting off and float64 can be worth where a test compares sums.
TINY = 1e-15

Factors = list[tuple[TiltedMasses, int]]


def dyadic(weights: FloatArray) -> FloatArray:
    """Whole multiples of 2^-50 that sum to about 1 along the last axis."""
    return np.rint(weights / weights.sum(axis=-1, keepdims=True) * 2.0**GRAIN) / 2.0**GRAIN


def stack_of(weights: FloatArray, *, width: float = 0.01, tilt: float = 0.0, stride: int = 1) -> TiltedMasses:
    """States of those weights, of shape (k, 3, n), and no error, that start at different positions."""
    count = len(weights)
    return TiltedMasses(
        width=width,
        tilt=tilt,
        stride=stride,
        origins=tuple((-2 * member - weights.shape[-1], 3 - weights.shape[-1]) for member in range(count)),
        weights=weights,
        log_scale=np.zeros((count, ROWS)),
        log_scale_error=np.zeros((count, ROWS)),
        error=np.zeros((count, ROWS)),
        additive=np.zeros((count, SCALARS)),
    )


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


def rows_of(draw: np.random.Generator, shape: str, size: int, count: int) -> FloatArray:
    """Stacks of that shape, whose rows are alike, as those of leaves are, or each of its own now and then."""
    weights = np.array([[shaped(draw, shape, size) for _ in range(ROWS)] for _ in range(count)])
    if draw.random() < 0.85:
        weights[:, 1:] = weights[:, :1] * (1.0 + 0.05 * draw.random((count, ROWS - 1, size)))
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


def product_of(factors: Factors, member: int | None, row: int, extra: FloatArray | None = None) -> flint.fmpz_poly:
    """The composition of one member of each stack, or of all (None), as numerators over 2^`BITS`."""
    result = flint.fmpz_poly([1 << BITS])
    for state, power in factors:
        for index in range(state.count) if member is None else (member,):
            weights = state.weights[index, row] + (0.0 if extra is None else extra[: state.size])
            result = result * power_of(polynomial(weights), power) // (1 << BITS)
    return result


def floats_of(product: flint.fmpz_poly, factors: Factors, member: int | None) -> FloatArray:
    """The elements of a product, with all zeros at its end."""
    chosen = slice(None) if member is None else slice(member, member + 1)
    size = 1 + sum(power * (state.size - 1) * len(state.origins[chosen]) for state, power in factors)
    values = [int(each) / (1 << BITS) for each in product.coeffs()]
    return np.array(values + [0.0] * (size - len(values)))


def starts_of(known: FewFrequencies, factors: Factors, member: int, *, together: bool) -> tuple[int, int]:
    """Where the windows of the dominating row and of the two others start, from the positions that a state tells."""
    found: list[int] = []
    for side in (0, 1):
        whole = sum(
            power * sum(each[side] for each in (state.origins if together else state.origins[member : member + 1]))
            for state, power in factors
        )
        start, rest = divmod(known.state.origins[member][side] - whole, 2 * known.state.stride)
        assert rest == 0
        found.append(start)
    return found[0], found[1]


def known_weights(known: FewFrequencies, member: int, row: int) -> FloatArray:
    """The weights that few coefficients stand for, by their definition."""
    spectrum = np.zeros(known.length // 2 + 1, dtype=np.clongdouble)
    coefficients = known.coefficients[member, row]
    spectrum[: coefficients.size] = coefficients
    return fft.irfft(spectrum, known.length)


def worst_distance(exact: FloatArray, known: FewFrequencies, member: int, row: int, start: int) -> float:
    """The largest |Σ g w* - Σ g w| over *all* factors g that rise to at most 1 and fall again.

    Every such g is a mixture of intervals, so that it is the largest over these: of differences of cumulative sums.
    """
    low, high = min(start, 0), max(exact.size, start + known.length)
    difference = np.zeros(high - low, dtype=np.longdouble)
    difference[-low : exact.size - low] = exact
    difference[start - low : start - low + known.length] -= known_weights(known, member, row)
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
def test_the_lowest_frequencies(size: int, extended: bool) -> None:
    draw = np.random.default_rng(size)
    unit = EXTENDED_ROUNDOFF if extended else UNIT_ROUNDOFF
    worst = 0.0
    for shape, length, highest in [
        ("noise", size, 0),
        ("sparse", size + 1, 5),
        ("skewed", 7919, 11),
        ("flat", 10**9, 5),
    ]:
        weights = np.array([[shaped(draw, shape, size) for _ in range(ROWS)] for _ in range(2)])
        found, bound = _lowest(weights, length, highest, extended=extended)
        assert found.shape == (2, ROWS, highest + 1)
        for member, row in itertools.product(range(2), range(ROWS)):
            exact = flint.acb_poly(weights[member, row].tolist())
            total = float(np.sum(weights[member, row]))
            for frequency in range(highest + 1):
                root = flint.acb(flint.fmpq(-2 * frequency, length)).exp_pi_i()
                missed = distance(found[member, row, frequency], exact(root)) / (unit * total)
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
    """Of rows that may be few atoms far from the origin of the vector, and from one another."""
    size = max(map(len, rows)) + offset
    weights = np.zeros((1, ROWS, size))
    for row, values in enumerate(rows):
        weights[0, row, offset : offset + len(values)] = values
        weights[0, row, offset + len(values) // 2] += 0.25
    moments = _Moments(weights)
    centre = float(moments.centre[0])
    rates = factor / np.sqrt(np.maximum(moments.second.max(axis=-1), 0.0) + 1e-2)[:, None]
    for row in range(ROWS):
        _, first, second, third, fourth = exact_moments(weights[0, row].tolist(), centre)
        variance, spread = second - first**2, (fourth - 4 * first * third + 3 * second**2) / 12
        lost = Fraction(20.0 * moments.noise)
        assert Fraction(float(moments.second[0, row])) <= variance <= Fraction(float(moments.second_above[0, row]))
        assert Fraction(float(moments.second[0, row])) >= variance - lost * second
        assert Fraction(float(moments.second_above[0, row])) <= variance + lost * second
        assert spread <= Fraction(float(moments.fourth[0, row])) <= spread + lost * fourth
        for sign in (1.0, -1.0):
            bound = float(moments.log_exponential(rates, sign)[0, row, 0])
            with mpmath.workdps(40):
                rate, middle = sign * mpmath.mpf(float(rates[0, 0])), mpmath.mpf(centre)
                exact = mpmath.log(
                    mpmath.fsum(
                        mpmath.mpf(weight) * mpmath.exp(rate * (index - middle))
                        for index, weight in enumerate(weights[0, row].tolist())
                        if weight > 0.0
                    )
                )
                assert bound >= exact - mpmath.mpf(10) ** -15 * abs(exact)


def test_moments_of_leaves_are_close_bounds() -> None:
    """Where rows are alike, nothing is lost: also far from the vector's first element, and of many elements."""
    draw = np.random.default_rng(3)
    for shape, size in itertools.product(["bell", "skewed", "atoms", "sparse", "noise"], [3, 50, 200]):
        weights = rows_of(draw, shape, size, 2)
        padded = np.zeros((2, ROWS, size + 4096))
        padded[..., 4000 : 4000 + size] = weights
        for each in (weights, padded):
            moments = _Moments(each)
            for member, row in itertools.product(range(2), range(ROWS)):
                values = each[member, row].tolist()
                _, first, second, third, fourth = exact_moments(values, float(moments.centre[member]))
                variance, spread = second - first**2, (fourth - 4 * first * third + 3 * second**2) / 12
                few = Fraction(1, 10**6)
                assert variance * (1 - few) <= Fraction(float(moments.second[member, row])) <= variance
                assert variance <= Fraction(float(moments.second_above[member, row])) <= variance * (1 + few)
                assert spread <= Fraction(float(moments.fourth[member, row])) <= spread * (1 + few)


def test_the_exponential_moment_of_an_atom_far_away_is_bounded() -> None:
    """Also where its factor is no float: then by infinity, of which no window is made."""
    weights = np.zeros((1, ROWS, 15_051))
    weights[..., :101] = np.exp(-0.5 * ((np.arange(101.0) - 50.0) / 10.0) ** 2)
    weights /= weights.sum(axis=-1)[..., None]
    weights[..., -1] += 2e-10
    moments = _Moments(weights)
    for rate in (0.01, 0.03, 0.0399, 0.0401, 0.06, 10.0):
        bound = float(moments.log_exponential(np.array([[rate]]), 1.0)[0, 0, 0])
        # The atom alone, in the middle of which the others lie.
        assert bound >= math.log(2e-10) + rate * (15_050.0 - float(moments.centre[0]))
        below = float(moments.log_exponential(np.array([[rate]]), -1.0)[0, 0, 0])
        assert 0.0 <= below < math.inf


def random_factors(
    draw: np.random.Generator, shapes: Sequence[str], *, longest: int, most: int = 400
) -> tuple[Factors, bool]:
    """One to three stacks of up to three members, and whether these are all to be composed."""
    together = bool(draw.random() < 0.4)
    number = int(draw.choice([1, 1, 2, 3]))
    members = int(draw.choice([1, 1, 2, 3]))
    factors: Factors = []
    for _ in range(number):
        count = int(draw.integers(1, 4)) if together else members
        size = int(draw.integers(3, longest))
        rows = rows_of(draw, str(draw.choice(shapes)), size, count)
        leaves = count * number if together else number
        factors.append((stack_of(rows), math.ceil(int(draw.integers(16, most + 1)) / leaves)))
    return factors, together


def members_of(factors: Factors, *, together: bool) -> list[int | None]:
    return [None] if together else list(range(factors[0][0].count))


def test_windows_leave_out_no_more_than_they_say() -> None:
    draw = np.random.default_rng(4)
    narrow = met = 0
    for case in range(60):
        factors, together = random_factors(draw, ["bell", "atoms", "skewed", "noise", "sparse"], longest=40)
        if case % 3 == 0:
            # Also few compositions, of which nothing is normal.
            factors = [(state, 1 + case % 5) for state, _ in factors]
        outside = 10.0 ** -draw.uniform(0.5, 14.0)
        found = _window(factors, [_Moments(state.weights) for state, _ in factors], outside, together)
        assert found is not None
        starts, length = found
        assert length >= max(state.size for state, _ in factors)
        for member, (start, row) in itertools.product(range(len(starts)), zip((0, 1, 1), range(ROWS), strict=True)):
            chosen = members_of(factors, together=together)[member]
            exact = product_of(factors, chosen, row)
            whole = floats_of(exact, factors, chosen).size
            values = exact.coeffs()
            first = starts[member][start]
            assert 0 <= first < whole
            left = sum(map(int, values[:first])) + sum(map(int, values[first + length :]))
            assert Fraction(left, 1 << BITS) <= Fraction(outside) / 2, (case, row)
            met += left > 0
            narrow += length < 0.5 * whole
    assert met > 60
    assert narrow > 100


def test_windows_are_about_as_short_as_can_be() -> None:
    draw = np.random.default_rng(5)
    for shape, power in itertools.product(["bell", "noise"], [64, 400]):
        state = stack_of(rows_of(draw, shape, 60, 1))
        moments = _Moments(state.weights)
        found = _window([(state, power)], [moments], 1e-9, False)
        assert found is not None
        deviation = math.sqrt(power * float(np.max(moments.second)))
        # The rows may be some deviations apart; 6.4 of them have 1e-10 beyond them for the normal.
        rows = power * (state.weights[0] @ np.arange(60.0))
        assert found[1] <= 2.0 * 10.0 * deviation + float(np.ptp(rows)) + 60.0


def test_no_window_without_weight() -> None:
    weights = rows_of(np.random.default_rng(6), "bell", 9, 2)
    weights[1, 2] = 0.0
    state = stack_of(weights)
    assert _window([(state, 16)], [_Moments(weights)], 1e-6, False) is None
    assert few_frequencies([(state, 16)], 1e-3) is None


def left_out(factors: Factors, length: int, highest: int, *, together: bool) -> FloatArray:
    """Σ |Π ŵ^d| / (j s) over the frequencies j that are left out, shape (k, 3), in extended precision."""
    product: FloatArray = np.ones(1, dtype=np.longdouble)
    for state, power in factors:
        weights = state.weights.astype(np.longdouble)
        spectrum = np.abs(fft.rfft(weights, length, axis=-1)) / np.sum(weights, axis=-1, keepdims=True)
        each = spectrum**power
        product = product * (np.multiply.reduce(each, axis=0)[None] if together else each)
    orders = np.arange(highest + 1, length // 2 + 1)
    return np.sum(product[..., highest + 1 :] / orders, axis=-1).astype(np.float64)


def test_frequencies_left_out_are_worth_no_more_than_the_bound() -> None:
    draw = np.random.default_rng(7)
    shapes = ["bell", "flat", "atoms", "skewed", "noise", "sparse", "nearly even", "two scales", "far part", "even"]
    kept: dict[str, int] = dict.fromkeys(shapes, 0)
    cases = close = 0
    for shape, _ in itertools.product(shapes, range(20)):
        factors, together = random_factors(draw, [shape], longest=80, most=1000)
        moments = [_Moments(state.weights) for state, _ in factors]
        outside = 10.0 ** -draw.uniform(0.5, 12.0)
        window = _window(factors, moments, outside, together)
        assert window is not None
        length = window[1] + int(draw.integers(0, 3))
        found = _kept(factors, moments, length, outside, together)
        cases += 1
        if found is None:
            continue
        kept[shape] += 1
        highest, bound = found
        assert 0 < highest < length // 2
        exact = left_out(factors, length, highest, together=together)
        assert bound.shape == exact.shape
        # What is 1e-19 of the transform is rounding.
        assert np.all(exact <= bound + 1e-17)
        assert np.all(bound <= outside * 1.01)
        close += bool(np.any(exact > 1e-3 * bound))
    # Of a lattice every second frequency is as large as the first: nothing may be left out.
    assert kept["even"] == 0
    assert all(kept[shape] >= 5 for shape in shapes if shape not in {"even", "two scales"}), kept
    assert close > 10, close


@pytest.mark.parametrize("finest", [0.25, 1.0 / 64.0])
def test_no_frequency_far_from_0_is_larger_than_the_bound(finest: float) -> None:
    """Also between the frequencies that are looked at: of waves whose period is no divisor of anything."""
    draw = np.random.default_rng(8)
    close = 0
    for size, wave, near in itertools.product([2, 3, 17, 64, 250], [0.0, 0.0, 1.0, 0.7], [0.05, 0.4, 1.5]):
        phase = draw.uniform(0.3, math.pi)
        base = np.array([[shaped(draw, str(draw.choice(["bell", "flat", "noise"])), size) for _ in range(ROWS)]])
        weights = base * (1.0 + wave * np.cos(phase * np.arange(size)))
        second = _Moments(weights).second_above
        bound, seen = _beyond(weights, second, near, finest)
        angles = np.concatenate(
            (np.linspace(near, math.pi, 3001), np.clip(phase + np.linspace(-0.1, 0.1, 301), near, math.pi))
        )
        transform = weights @ np.exp(-1j * np.multiply.outer(np.arange(size), angles))
        largest = np.max(np.abs(transform / np.sum(weights, axis=-1)[..., None]) ** 2, axis=-1)
        assert np.all(largest <= bound + 1e-15)
        assert np.all(seen <= bound + 1e-15)
        close += bool(np.any(largest > 0.9 * bound))
    assert close > 20


def compared(factors: Factors, known: FewFrequencies, *, together: bool, extra: FloatArray | None = None) -> float:
    """Assert what `few_frequencies` says; return the largest distance of all rows, relative to their errors."""
    largest = 0.0
    for member in range(known.state.count):
        chosen = None if together else member
        starts = starts_of(known, factors, member, together=together)
        for row in range(ROWS):
            exact = floats_of(product_of(factors, chosen, row, extra), factors, chosen)
            missed = worst_distance(exact, known, member, row, starts[min(row, 1)])
            error = float(known.state.error[member, row])
            assert missed <= error + TINY, (member, row, missed, error)
            largest = max(largest, missed / error)
            size = np.abs(known.coefficients[member, row])
            assert np.all(size <= known.size[member, row] * (1.0 + 1e-15))
    return largest


@pytest.mark.parametrize("extended", [False, True])
def test_sums_with_factors_that_rise_and_fall_are_within_the_error(extended: bool) -> None:
    """The claim itself, for all such factors at once."""
    draw = np.random.default_rng(9 + extended)
    cases = some = close = 0
    for _ in range(35):
        factors, together = random_factors(
            draw, ["bell", "flat", "atoms", "skewed", "noise", "sparse", "nearly even", "two scales"], longest=60
        )
        outside = 10.0 ** -draw.uniform(0.3, 12.0)
        cases += 1
        known = few_frequencies(factors, outside, together=together, extended=extended)
        if known is None:
            continue
        some += 1
        largest = compared(factors, known, together=together)
        close += largest > 0.01
    assert some > 0.4 * cases, (some, cases)
    assert close > 3, close


def test_errors_of_the_factors_are_carried() -> None:
    """Whatever weights within the errors are the true ones."""
    draw = np.random.default_rng(11)
    some = 0
    for shape, power in itertools.product(["bell", "noise", "atoms"], [120, 200, 400]):
        weights = rows_of(draw, shape, 25, 1)
        extra = np.zeros(25)
        extra[draw.integers(0, 25)] = 2.0 ** -draw.integers(8, 30)
        error = np.full((1, ROWS), float(extra.sum()))
        state = stack_of(weights)
        wrong = TiltedMasses(**{**vars(state), "error": error})
        known = few_frequencies([(wrong, power)], 1e-7)
        plain = few_frequencies([(state, power)], 1e-7)
        if known is None or plain is None:
            continue
        some += 1
        compared([(state, power)], known, together=False, extra=extra)
        exact = floats_of(product_of([(state, power)], 0, 0, extra), [(state, power)], 0)
        # The error that is carried matters.
        starts = starts_of(plain, [(state, power)], 0, together=False)
        missed = worst_distance(exact, plain, 0, 0, starts[0])
        assert missed > plain.state.error[0, 0] or extra.sum() < 1e-7
    assert some > 5


@pytest.mark.parametrize(("power", "outside"), [(20_000, 1e-6), (5_000, 1e-9), (20_000, 1e-17)])
def test_many_compositions(power: int, outside: float) -> None:
    weights = rows_of(np.random.default_rng(power), "flat", 10, 1)
    factors = [(stack_of(weights), power)]
    known, extended = (few_frequencies(factors, outside, extended=extended) for extended in (False, True))
    assert known is not None
    assert extended is not None
    exact = floats_of(product_of(factors, 0, 1), factors, 0)
    start = starts_of(known, factors, 0, together=False)[1]
    missed = worst_distance(exact, known, 0, 1, start)
    error = float(known.state.error[0, 1])
    assert missed <= error
    assert known.coefficients.shape[-1] < 200
    if outside > 1e-10:
        assert error < 10.0 * outside
    else:
        # What is left is rounding, 20,000-fold, and not the sum's own.
        assert 1e-14 < missed < error < 1e-5
        if EXTENDED_ROUNDOFF < UNIT_ROUNDOFF:
            assert worst_distance(exact, extended, 0, 1, start) < 0.1 * missed
            assert float(extended.state.error[0, 1]) < 1e-2 * error


def test_weights_that_do_not_sum_to_1_are_normalised() -> None:
    weights = rows_of(np.random.default_rng(13), "flat", 30, 2)
    state = stack_of(weights * 0.7)
    known, plain = (few_frequencies([(each, 400)], 1e-7) for each in (state, stack_of(weights)))
    assert known is not None
    assert plain is not None
    np.testing.assert_allclose(known.coefficients, plain.coefficients, atol=1e-12)
    np.testing.assert_allclose(known.state.log_scale, 400.0 * math.log(0.7) + plain.state.log_scale, rtol=1e-12)
    assert known.state.origins == plain.state.origins


def test_nothing_of_what_has_many_frequencies() -> None:
    draw = random.Random(14)  # noqa: S311
    atom = np.zeros((1, ROWS, 9))
    atom[..., 4] = 1.0
    pair = np.zeros((1, ROWS, 9))
    pair[..., [0, 8]] = 0.5
    lattice = np.zeros((1, ROWS, 91))
    lattice[..., ::3] = [draw.random() for _ in range(31)]
    lattice /= lattice.sum(axis=-1)[..., None]
    for weights, power in [(atom, 300), (pair, 300), (lattice, 400), (pair, 1), (lattice, 1)]:
        assert few_frequencies([(stack_of(weights), power)], 1e-3) is None
    # One composition of what has hard ends.
    assert few_frequencies([(stack_of(np.full((1, ROWS, 50), 0.02)), 1)], 1e-3) is None


def test_a_factor_that_is_one_atom_moves_the_others() -> None:
    atom = np.zeros((1, ROWS, 9))
    atom[..., 4] = 1.0
    factors = [(stack_of(rows_of(np.random.default_rng(15), "flat", 30, 1)), 200), (stack_of(atom), 200)]
    known = few_frequencies(factors, 1e-6)
    assert known is not None
    compared(factors, known, together=False)


def test_an_atom_far_away_is_within_the_window_or_the_error() -> None:
    bell = np.rint(np.exp(-0.5 * ((np.arange(101.0) - 50.0) / 10.0) ** 2) / 25.0 * 2.0**GRAIN) / 2.0**GRAIN
    bell[50] += 1.0 - bell.sum()
    far = np.zeros(14_051)
    far[:101] = bell
    far[-1] = math.ldexp(round(math.ldexp(5e-10, 60)), -60)
    factors = [(stack_of(np.tile(each, (1, ROWS, 1))), power) for each, power in ((far, 1), (bell, 399))]
    known = few_frequencies(factors, 5e-11, together=True)
    assert known is not None
    compared(factors, known, together=True)
