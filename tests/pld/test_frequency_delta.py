"""δ from few frequencies, against exact products of leaves on their lattice."""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.pld.few_frequencies import (
    _TERM,
    Frequencies,
    Part,
    TiltedLeaf,
    _one_minus,
    _Series,
    few_frequencies,
    largest_factor,
    log_finite_lower,
    log_finite_upper,
    unit_roots,
)
from tests.effort import times
from tests.pld.test_few_frequencies import BITS, ROWS, ball, dyadic, leaf_of, product_of, shaped
from tests.strategies import examples

pytestmark = pytest.mark.slow

DOMINATING, EXACT_A, EXACT_B = range(ROWS)


@dataclass(frozen=True, eq=False)
class Case:
    """A leaf and its r-fold composition."""

    leaf: TiltedLeaf
    compositions: int
    known: Frequencies
    shift: float
    _products: dict[int, list[flint.fmpz]] = field(default_factory=dict)

    def product(self, row: int) -> list[flint.fmpz]:
        if row not in self._products:
            self._products[row] = product_of([(self.leaf, self.compositions)], row).coeffs()
        return self._products[row]

    def position(self, row: int, index: int) -> Fraction:
        """Loss or label of an element of the product, exactly."""
        lowest = self.compositions * (2 * self.leaf.first + self.leaf.halves[row])
        return Fraction(self.leaf.spacing) / 2 * (lowest + 2 * index)

    def level(self, row: int) -> flint.arb:
        """κ, as far on its bad side as its error says."""
        sign = -1 if row == EXACT_A else 1
        moved = exact(float(self.leaf.log_scale[row])) + sign * exact(float(self.leaf.log_scale_error[row]))
        return self.compositions * moved

    @property
    def ends(self) -> tuple[float, float]:
        """Where the window begins and ends."""
        origin = 0.5 * self.known.spacing * self.known.start[0]
        return origin, origin + self.known.length * self.known.spacing

    @property
    def highest(self) -> float:
        """No loss exceeds this."""
        last = float(self.position(DOMINATING, self.compositions * self.leaf.last))
        return last + 1e-12 * (1.0 + abs(last))


def exact(value: float | Fraction) -> flint.arb:
    fraction = Fraction(value)
    return flint.arb(flint.fmpq(fraction.numerator, fraction.denominator))


def dominating_delta(case: Case, epsilon: float) -> flint.arb:
    """δ of the dominating masses, ε lowered by how far their losses may be off."""
    lowered = Fraction(epsilon) - Fraction(case.shift)
    weights, spacing = case.product(DOMINATING), Fraction(case.leaf.spacing)
    first = max(math.floor((lowered - case.position(DOMINATING, 0)) / spacing) + 1, 0)
    assert case.position(DOMINATING, first) > lowered
    if first >= len(weights):
        return flint.arb(0)
    series = flint.arb_poly(weights[first:])
    tilt = Fraction(case.leaf.tilt)
    start = case.position(DOMINATING, first)
    plain, reduced = (series((-exact(rate * spacing)).exp()) for rate in (tilt, tilt + 1))
    level = case.level(DOMINATING) - exact(tilt * start)
    return level.exp() * (plain - exact(lowered - start).exp() * reduced) / (1 << BITS)


def exact_delta(case: Case, epsilon: float, *, threshold: bool) -> flint.arb:
    """The largest Σ (a - e^ε b) over any labels.

    With `threshold` the b are the a times e^-label, so that these labels are those above ε.
    """
    factor = exact(epsilon).exp()
    spacing = Fraction(case.leaf.spacing)
    tilt, start = Fraction(case.leaf.tilt), case.position(EXACT_A, 0)
    a, b = case.product(EXACT_A), case.product(EXACT_B)
    level_a = (case.level(EXACT_A) - exact(tilt * start)).exp() / (1 << BITS)
    level_b = factor * (case.level(EXACT_B) - exact((tilt + 1) * start)).exp() / (1 << BITS)
    fall_a, fall_b = ((-exact(rate * spacing)).exp() for rate in (tilt, tilt + 1))
    if threshold:
        first = max(math.floor((Fraction(epsilon) - start) / spacing) + 1, 0)
        finite = fall_a**first * level_a * flint.arb_poly(a[first:] or [0])(fall_a)
        finite -= fall_b**first * level_b * flint.arb_poly(b[first:] or [0])(fall_b)
        return finite
    finite = flint.arb(0)
    for index in range(max(len(a), len(b))):
        if index < len(a):
            gain = a[index] * level_a - (b[index] * level_b if index < len(b) else 0)
            finite += max(gain, flint.arb(0)) if not gain.contains(0) else abs(gain)
        level_a, level_b = level_a * fall_a, level_b * fall_b
    return finite


def drawn_leaf(draw: np.random.Generator, *, plain: bool, tilt: float) -> TiltedLeaf:
    """`plain`: without any error, its exact masses those of the dominating pair."""
    size = int(draw.integers(10, 30))
    width = float(draw.choice([0.01, 0.05 * draw.random() + 1e-3, 0.25]))
    shape = str(draw.choice(["flat", "atoms", "bell", "noise"]))
    base = np.array([shaped(draw, shape, size)] * ROWS)
    if draw.random() < 0.5:
        base = base[:, ::-1]
    if not plain:
        base = base * (1.0 + 0.2 * draw.random(base.shape))
    half = 0 if plain else int(draw.integers(-2, 3))
    scale = np.full(ROWS, draw.uniform(-0.02, 0.0)) if plain else draw.uniform(-0.02, 0.0, ROWS)
    error = np.zeros(ROWS) if plain or draw.random() < 0.3 else np.full(ROWS, float(draw.choice([1e-12, 1e-5])))
    first = -(size // 2) + int(draw.integers(-2, 3))
    weights = dyadic(base)
    if draw.random() < 0.3:
        # Every third place in a part of its own.
        far = np.zeros_like(weights)
        far[:, ::3] = 0.5 * weights[:, ::3]
        parts = (Part(slice(0, ROWS), 0, 1, weights - far), Part(slice(0, ROWS), 0, 3, far[:, ::3]))
    else:
        parts = (Part(slice(0, ROWS), 0, 1, weights),)
    return TiltedLeaf(width, tilt, first, (0, half, half), parts, scale, error)


def case_of(draw: np.random.Generator, *, plain: bool, tilt: float) -> Case | None:
    leaf = drawn_leaf(draw, plain=plain, tilt=tilt)
    compositions = int(draw.integers(120 if plain else 80, 301))
    shift = 0.0 if plain else float(draw.choice([0.0, 1e-10, 0.3 * leaf.spacing]))
    outside = 10.0 ** -draw.uniform(10.0, 13.0) if plain else 10.0 ** -draw.uniform(3.0, 12.0)
    known = few_frequencies([(leaf, compositions)], outside, extended=bool(draw.random() < 0.3))
    return None if known is None else Case(leaf, compositions, known, shift)


def asked(draw: np.random.Generator, case: Case, count: int) -> list[float]:
    """ε at the weights' middle, on places and next to them, between, at the ends of the window, and beyond."""
    spacing = case.leaf.spacing
    origin, end = case.ends
    middle = 0.5 * (origin + end)
    on = origin + spacing * int(draw.integers(0, case.known.length))
    inside = [on, np.nextafter(on, np.inf), np.nextafter(on, -np.inf), on + spacing * draw.random()]
    special = [origin, end, end - spacing, origin - 1e-9, origin - 30.0 * spacing, end + 3.0, 0.0, 2.0 * end + 1.0]
    near = [middle + (end - origin) * draw.uniform(-0.15, 0.15) for _ in range(count)]
    chosen = [*near, *inside, *(float(each) for each in draw.choice(special, 3))]
    return [float(each) for each in draw.permutation(chosen)]


def brackets(case: Case, epsilon: list[float]) -> list[tuple[float, float, float, float]]:
    """ε, bounds from below and above, and what errors are worth in the upper one."""
    values = np.array(epsilon)
    upper, error = log_finite_upper(case.known, values, case.shift, case.highest)
    lower = log_finite_lower(case.known, values)
    assert all(each.shape == values.shape and not np.any(np.isnan(each)) for each in (lower, upper, error))
    return list(zip(epsilon, lower.tolist(), upper.tolist(), error.tolist(), strict=True))


@pytest.fixture(autouse=True)
def _digits() -> None:
    flint.ctx.prec = 320


TILTS = [0.0, 0.0, 0.3, 2.0, 7.0, 60.0]


def test_of_a_pair_on_the_lattice_the_bounds_meet() -> None:
    draw = np.random.default_rng(1)
    cases = narrow = points = 0
    rounds = times(72)
    for round_ in range(rounds):
        case = case_of(draw, plain=True, tilt=TILTS[round_ % 6] * (1.0 + 0.5 * draw.random()))
        if case is None:
            continue
        cases += 1
        for eps, lower, upper, error in brackets(case, asked(draw, case, 5)):
            points += 1
            truth = dominating_delta(case, eps)
            below = exact_delta(case, eps, threshold=True)
            assert truth.overlaps(below)
            assert exact(upper).exp() >= truth if math.isfinite(upper) else truth <= 0, (round_, eps)
            assert lower == -math.inf or exact(lower).exp() <= below, (round_, eps)
            # No more is lost than is told to be: up to a few times, and some rounding.
            worth = exact(error).exp()
            if math.isfinite(upper):
                assert exact(upper).exp() <= (truth + 2.01 * worth) * exact(1.0 + 1e-8), (round_, eps)
            inside = abs(eps - 0.5 * sum(case.ends)) < 0.3 * (case.ends[1] - case.ends[0])
            if inside and error < lower - math.log(1e8):
                narrow += 1
                assert upper - lower < 1e-6, (round_, eps)
    assert cases > rounds // 2, cases
    assert narrow > 0.2 * points, (narrow, points)


def test_whatever_lies_within_the_errors_is_bracketed() -> None:
    """Each part by itself: the rows are of pairs of their own, and the worst that their errors allow."""
    draw = np.random.default_rng(2)
    cases = told = 0
    rounds = times(72)
    for round_ in range(rounds):
        case = case_of(draw, plain=False, tilt=TILTS[round_ % 6] * (1.0 + 0.5 * draw.random()))
        if case is None:
            continue
        cases += 1
        for eps, lower, upper, _ in brackets(case, asked(draw, case, 3)[:8]):
            truth = dominating_delta(case, eps)
            assert exact(upper).exp() >= truth if math.isfinite(upper) else truth <= 0, (round_, eps)
            if lower > -math.inf:
                told += 1
                assert exact(lower).exp() <= exact_delta(case, eps, threshold=False), (round_, eps)
    assert cases > rounds // 2, cases
    assert told > 1.4 * rounds, told


def test_beyond_the_highest_loss_nothing_is_left() -> None:
    draw = np.random.default_rng(3)
    cases = 0
    for _ in range(12):
        case = case_of(draw, plain=True, tilt=0.5)
        if case is None:
            continue
        cases += 1
        for beyond in (case.highest * (1.0 + 1e-9) + 1e-9, 3.0 * abs(case.highest) + 1.0):
            ((_, lower, upper, _),) = brackets(case, [beyond])
            assert lower == upper == -math.inf
    assert cases > 5


@examples(100)
@given(st.floats(0.0, 1e6), st.floats(1e-9, 1e3))
def test_the_largest_factor_is_no_smaller_than_any(tilt: float, y: float) -> None:
    value = (-exact(tilt) * exact(y)).exp() * -(-exact(y)).expm1()
    assert exact(largest_factor(tilt)) >= value
    if tilt > 0.0:
        best = (1 + 1 / exact(tilt)).log()
        assert exact(largest_factor(tilt)) <= exact(1.0 + 1e-9) * (-exact(tilt) * best).exp() * -(-best).expm1()


@examples(80)
@given(
    st.one_of(st.floats(0.0, 1e-3), st.floats(0.0, 300.0)),
    st.integers(0, 2**31),
    st.one_of(st.integers(2, 50), st.integers(1000, 2**31)),
    st.integers(-60, 0),
)
def test_differences_from_1_keep_their_digits(decay: float, numerator: int, length: int, scale: int) -> None:
    decay = math.ldexp(decay, scale)
    root = unit_roots(np.array([numerator, 1, length // 2]), length)
    found = _one_minus(decay, root)
    for index, value in zip((numerator, 1, length // 2), found, strict=True):
        turned = flint.acb(flint.fmpq(2 * (index % length), length)).exp_pi_i()
        truth = (1 - turned) - turned * flint.acb((-exact(decay)).expm1())
        off = abs(flint.acb(ball(value.real), ball(value.imag)) - truth)
        # A term of a series has one of these, a root and a handful of products.
        assert off <= exact(0.2 * _TERM) * abs(truth), (decay, index, length)


def test_sums_are_rounded_no_more_than_they_say() -> None:
    """Of coefficients as they are: all factors e^(-rate · i) from some place on, whose transforms are series."""
    draw = np.random.default_rng(4)
    worst = 0.0
    for case in range(24):
        count = int(draw.choice([1, 2, 9, 60]))
        length = int(draw.integers(2 * count + 1, 4 * count + 5)) if case % 2 else int(draw.integers(10**3, 10**9))
        tilt = float(draw.choice([0.0, 1e-9, 0.7, 30.0]))
        width = float(draw.choice([1e-12, 1e-3, 1.0]))
        coefficients = draw.uniform(-1.0, 1.0, (ROWS, count)) * np.exp(1j * draw.uniform(0.0, 7.0, count))
        size = np.max(np.abs(coefficients), axis=-1)
        among = range(1, count) if case % 4 < 2 else 1 + draw.permutation(min(length // 2, 10**5))[: count - 1]
        orders = np.sort(np.append(np.array(among, dtype=np.int64), 0))
        none = np.zeros(ROWS)
        known = Frequencies(width, tilt, (-8, -8, -8), length, orders, coefficients, size, none, none, none)
        first = np.array([0, 1, length // 3, length - 1, length])
        for row, place, rate in ((DOMINATING, 0, tilt), (EXACT_B, 1, tilt + 1.0)):
            series = _Series(known, [row, row])
            found = series.decaying(first, series.roots(first))[place]
            bound = series.rounding[place]
            for begin, value in zip(first.tolist(), found.tolist(), strict=True):
                truth = series_by_definition(known, row, begin, rate * width)
                missed = float(abs(exact(value) - truth).upper())
                assert missed <= bound, (case, row, begin)
                worst = max(worst, missed / bound)
    assert worst > 1e-3


def test_subnormal_decays_change_no_sum() -> None:
    none, first = np.zeros(ROWS), np.array([0, 2, 4, 5])
    coefficients = np.full((ROWS, 3), 0.25 + 0.125j)
    found = []
    for tilt in (0.0, 5e-324, 1e-300):
        known = Frequencies(0.01, tilt, (0, 0, 0), 5, np.arange(3), coefficients, none + 0.3, none, none, none)
        found.append([series.decaying(first, series.roots(first)) for series in known.series])
    assert np.all(np.isfinite(found))
    np.testing.assert_array_equal(found[1:], found[:1] * 2)


def series_by_definition(known: Frequencies, row: int, first: int, decay: float) -> flint.arb:
    """Σ_{m >= first} w(m) e^(-decay (m - first)), w the real trigonometric polynomial of the coefficients."""
    total, length = flint.arb(0), known.length
    for order, coefficient in zip(known.orders.tolist(), known.coefficients[row].tolist(), strict=True):
        turned = flint.acb(flint.fmpq(2 * order, length)).exp_pi_i()
        step = turned * (-exact(decay)).exp()
        terms = length - first
        series = flint.acb(terms) if order == 0 and decay == 0.0 else (1 - step**terms) / (1 - step)
        value = flint.acb(exact(coefficient.real), exact(coefficient.imag)) * turned**first * series
        total += value.real * (1 if order == 0 else 2)
    return total / length


def test_what_is_compared_with_keeps_its_digits() -> None:
    """The weights of a product sum to the power of the sum, to 170 bits."""
    leaf = leaf_of(dyadic(np.random.default_rng(5).random((ROWS, 20))))
    power = product_of([(leaf, 300)], 0)
    whole = Fraction(sum(map(int, power.coeffs())), 1 << BITS)
    expected = sum(map(Fraction, leaf.parts[0].weights[0].tolist())) ** 300
    assert abs(whole - expected) < Fraction(1, 1 << (BITS - 30))
