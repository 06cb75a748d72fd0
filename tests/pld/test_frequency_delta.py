"""δ from few frequencies, against exact products of leaves on the grid; and the engine both ways."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.buckets.tight import engine
from pbdist.buckets.tight.frequencies import FewFrequencies, few_frequencies, unit_roots
from pbdist.buckets.tight.frequency_delta import _TERM, _one_minus, _Points, log_deltas
from pbdist.buckets.tight.state import (
    DOMINATING,
    EXACT_A,
    EXACT_B,
    HIGHEST,
    LOG_TOTAL_A,
    LOG_TOTAL_B,
    LOG_TOTAL_DOMINATING,
    LOSS_SHIFT,
    RATE_A,
    RATE_B,
    RATE_DOMINATING,
    ROWS,
    SCALARS,
    TiltedMasses,
)
from pbdist.buckets.tight.table import TightBounds, factor_counts, tight_bounds
from pbdist.mechanisms import (
    ApproximateDP,
    Gaussian,
    Laplace,
    NoisyCount,
    Pair,
    Product,
    SubsampledGaussian,
)
from pbdist.types import FloatArray
from tests.buckets.tight.test_frequencies import BITS, ball, dyadic, product_of, shaped
from tests.strategies import examples


@dataclass(frozen=True, eq=False)
class Case:
    """A leaf and its r-fold composition, which is what its weights less `surplus` and more of it, are within T."""

    leaf: TiltedMasses
    compositions: int
    known: FewFrequencies
    surplus: FloatArray
    _products: dict[tuple[int, int], list[flint.fmpz]] = field(default_factory=dict)

    def product(self, member: int, row: int) -> list[flint.fmpz]:
        """The true weights, the worst for the bounds: more of `DOMINATING` and of `EXACT_B`, less of `EXACT_A`."""
        extra = -self.surplus[row] if row == EXACT_A else self.surplus[row]
        if (member, row) not in self._products:
            found = product_of([(self.leaf, self.compositions)], member, row, extra)
            self._products[member, row] = found.coeffs()
        return self._products[member, row]

    def position(self, member: int, row: int, index: int) -> Fraction:
        """Exactly, of an element of the product."""
        origin = self.compositions * self.leaf.origins[member][min(row, 1)]
        return Fraction(self.leaf.width) / 2 * (origin + 2 * self.leaf.stride * index)

    def level(self, member: int, row: int) -> flint.arb:
        """κ, as far on its bad side as its error says."""
        sign = -1 if row == EXACT_A else 1
        moved = exact(float(self.leaf.log_scale[member, row])) + sign * exact(
            float(self.leaf.log_scale_error[member, row])
        )
        return self.compositions * moved

    def column(self, member: int, column: int) -> Fraction:
        return self.compositions * Fraction(float(self.leaf.additive[member, column]))


def exact(value: float | Fraction) -> flint.arb:
    fraction = Fraction(value)
    return flint.arb(flint.fmpq(fraction.numerator, fraction.denominator))


def infinite(case: Case, member: int, total: int, rate: int) -> flint.arb:
    """M (1 - e^-ρ)."""
    return exact(case.column(member, total)).exp() * -((-exact(case.column(member, rate))).expm1())


def dominating_delta(case: Case, member: int, epsilon: float) -> flint.arb:
    """δ of the dominating pair, ε lowered by how far its losses may be off."""
    lowered = Fraction(epsilon) - case.column(member, LOSS_SHIFT)
    weights = case.product(member, DOMINATING)
    spacing = Fraction(case.leaf.width) * case.leaf.stride
    first = max(math.floor((lowered - case.position(member, DOMINATING, 0)) / spacing) + 1, 0)
    assert case.position(member, DOMINATING, first) > lowered
    result = infinite(case, member, LOG_TOTAL_DOMINATING, RATE_DOMINATING)
    if first >= len(weights):
        return result
    series = flint.arb_poly(weights[first:])
    tilt = Fraction(case.leaf.tilt)
    start = case.position(member, DOMINATING, first)
    plain, reduced = (series((-exact(rate * spacing)).exp()) for rate in (tilt, tilt + 1))
    level = case.level(member, DOMINATING) - exact(tilt * start)
    return result + level.exp() * (plain - exact(lowered - start).exp() * reduced) / (1 << BITS)


def exact_delta(case: Case, member: int, epsilon: float, *, threshold: bool) -> flint.arb:
    """The largest Σ (a - e^ε b) over any labels, and infinity where that is positive.

    With `threshold` the b are the a times e^-label, so that these labels are those above ε.
    """
    factor = exact(epsilon).exp()
    spacing = Fraction(case.leaf.width) * case.leaf.stride
    tilt, start = Fraction(case.leaf.tilt), case.position(member, EXACT_A, 0)
    a, b = case.product(member, EXACT_A), case.product(member, EXACT_B)
    level_a = (case.level(member, EXACT_A) - exact(tilt * start)).exp() / (1 << BITS)
    level_b = factor * (case.level(member, EXACT_B) - exact((tilt + 1) * start)).exp() / (1 << BITS)
    fall_a, fall_b = ((-exact(rate * spacing)).exp() for rate in (tilt, tilt + 1))
    if threshold:
        first = max(math.floor((Fraction(epsilon) - start) / spacing) + 1, 0)
        finite = fall_a**first * level_a * flint.arb_poly(a[first:] or [0])(fall_a)
        finite -= fall_b**first * level_b * flint.arb_poly(b[first:] or [0])(fall_b)
    else:
        finite = flint.arb(0)
        for index in range(max(len(a), len(b))):
            if index < len(a):
                gain = a[index] * level_a - (b[index] * level_b if index < len(b) else 0)
                finite += max(gain, flint.arb(0)) if not gain.contains(0) else abs(gain)
            level_a, level_b = level_a * fall_a, level_b * fall_b
    at_infinity = infinite(case, member, LOG_TOTAL_A, RATE_A) - factor * infinite(case, member, LOG_TOTAL_B, RATE_B)
    return finite + max(at_infinity, flint.arb(0))


def leaf_of(draw: np.random.Generator, *, plain: bool, tilt: float, members: int) -> TiltedMasses:
    """States of members of their own; `plain`: without any error, its exact masses those of the dominating pair."""
    size, stride = int(draw.integers(10, 30)), int(draw.choice([1, 1, 4, 3]))
    width = float(draw.choice([0.01, 0.05 * draw.random() + 1e-3, 0.25])) / stride
    shape = str(draw.choice(["flat", "atoms", "bell", "noise"]))
    base = np.array([[shaped(draw, shape, size)] * ROWS for _ in range(members)])
    if members == 2:
        # The other direction is about the mirrored one.
        base[1] = base[0, :, ::-1]
    if not plain:
        base *= 1.0 + 0.2 * draw.random(base.shape)
    origins = []
    scale = np.zeros((members, ROWS))
    additive = np.zeros((members, SCALARS))
    for member in range(members):
        origin = -2 * stride * (size // 2) + int(draw.integers(-5, 6))
        origins.append((origin, origin if plain else origin - int(draw.integers(0, 2 * stride))))
        last = 0.5 * width * (origin + 2 * stride * (size - 1))
        additive[member, HIGHEST] = last + 1e-12 * (1.0 + abs(last))
        scale[member] = draw.uniform(-0.02, 0.0) if plain else draw.uniform(-0.02, 0.0, ROWS)
    return TiltedMasses(
        width=width,
        tilt=tilt,
        stride=stride,
        origins=tuple(origins),
        weights=dyadic(base),
        log_scale=scale,
        log_scale_error=np.zeros((members, ROWS)),
        error=np.zeros((members, ROWS)),
        additive=additive,
    )


def case_of(draw: np.random.Generator, *, plain: bool, tilt: float, members: int) -> Case | None:
    leaf = leaf_of(draw, plain=plain, tilt=tilt, members=members)
    compositions = int(draw.integers(120 if plain else 80, 301))
    surplus = np.zeros((ROWS, leaf.size))
    if not plain:
        changed = draw.random()
        if changed < 0.5:
            heavy = np.flatnonzero(np.min(leaf.weights, axis=(0, 1)) > 1e-3)
            wrong = draw.permutation(ROWS)[: draw.integers(1, ROWS + 1)]
            surplus[wrong, draw.choice(heavy)] = 2.0 ** -draw.integers(11, 40)
            leaf = replace(leaf, error=np.tile(surplus.sum(axis=-1), (members, 1)))
        if changed > 0.3:
            leaf = replace(leaf, log_scale_error=np.full((members, ROWS), float(draw.choice([1e-12, 1e-5]))))
        leaf.additive[:, LOSS_SHIFT] = draw.choice([0.0, 1e-10, 0.3 * leaf.width])
    if plain and draw.random() < 0.4:
        # Infinite losses are A's alone.
        leaf.additive[:, [LOG_TOTAL_DOMINATING, LOG_TOTAL_A]] = draw.uniform(-1e-3, 1e-3)
        leaf.additive[:, [RATE_DOMINATING, RATE_A]] = draw.choice([1e-12, 1e-5])
    if not plain and draw.random() < 0.6:
        for total, rate in ((LOG_TOTAL_DOMINATING, RATE_DOMINATING), (LOG_TOTAL_A, RATE_A), (LOG_TOTAL_B, RATE_B)):
            leaf.additive[:, total] = draw.uniform(-1e-3, 1e-3)
            leaf.additive[:, rate] = draw.choice([0.0, 1e-12, 1e-5])
    outside = 10.0 ** -draw.uniform(10.0, 13.0) if plain else 10.0 ** -draw.uniform(3.0, 12.0)
    known = few_frequencies([(leaf, compositions)], outside, extended=bool(draw.random() < 0.3))
    return None if known is None else Case(leaf, compositions, known, surplus)


def asked(draw: np.random.Generator, case: Case, member: int, count: int) -> list[float]:
    """ε at the weights' middle, on positions and next to them, between, at the ends of the window, and beyond."""
    spacing = case.leaf.spacing
    origin = case.known.state.origins[member][0] * 0.5 * case.leaf.width
    end = origin + case.known.length * spacing
    middle = 0.5 * (origin + end)
    on = origin + spacing * int(draw.integers(0, case.known.length))
    inside = [on, np.nextafter(on, np.inf), np.nextafter(on, -np.inf), on + spacing * draw.random()]
    special = [origin, end, end - spacing, origin - 1e-9, origin - 30.0 * spacing, end + 3.0, 0.0, 2.0 * end + 1.0]
    near = [middle + (end - origin) * draw.uniform(-0.15, 0.15) for _ in range(count)]
    chosen = [*near, *inside, *(float(each) for each in draw.choice(special, 3))]
    return [float(each) for each in draw.permutation(chosen)]


def brackets(case: Case, epsilon: Sequence[Sequence[float]]) -> list[tuple[int, float, float, float, float]]:
    """Member, ε, and what one call tells of all of them, in an order of no meaning."""
    members = [member for member, values in enumerate(epsilon) for _ in values]
    values = [each for part in epsilon for each in part]
    order = np.random.default_rng(len(values)).permutation(len(values))
    found = log_deltas(case.known, np.array(members)[order], np.array(values)[order])
    assert all(each.shape == (len(values),) and not np.any(np.isnan(each)) for each in found)
    return [
        (members[place], values[place], float(lower), float(upper), float(error))
        for place, lower, upper, error in zip(order.tolist(), *found, strict=True)
    ]


@pytest.fixture(autouse=True)
def _digits() -> None:
    flint.ctx.prec = 320


TILTS = [0.0, 0.0, 0.3, 2.0, 7.0, 60.0]


def test_of_a_pair_on_the_grid_the_bounds_meet() -> None:
    draw = np.random.default_rng(1)
    cases = narrow = points = 0
    for round_ in range(36):
        members = 1 + round_ % 2
        case = case_of(draw, plain=True, tilt=TILTS[round_ % 6] * (1.0 + 0.5 * draw.random()), members=members)
        if case is None:
            continue
        cases += 1
        epsilon = [asked(draw, case, member, 3 + 2 * member) for member in range(members)]
        for member, eps, lower, upper, error in brackets(case, epsilon):
            points += 1
            truth = dominating_delta(case, member, eps)
            below = exact_delta(case, member, eps, threshold=True)
            assert truth.overlaps(below)
            assert exact(upper).exp() >= truth if math.isfinite(upper) else truth <= 0, (round_, eps)
            assert lower == -math.inf or exact(lower).exp() <= below, (round_, eps)
            # No more is lost than is told to be: up to a few times, and some rounding.
            worth = exact(error).exp()
            if math.isfinite(upper):
                assert exact(upper).exp() <= (truth + 2.01 * worth) * exact(1.0 + 1e-8), (round_, eps)
            inside = abs(eps - 0.5 * sum(end_points(case, member))) < 0.3 * abs(np.diff(end_points(case, member))[0])
            if inside and error < lower - math.log(1e8):
                narrow += 1
                assert upper - lower < 1e-6, (round_, eps)
    assert cases > 20, cases
    assert narrow > 0.2 * points, (narrow, points)


def end_points(case: Case, member: int) -> tuple[float, float]:
    origin = case.known.state.origins[member][0] * 0.5 * case.leaf.width
    return origin, origin + case.known.length * case.leaf.spacing


def test_whatever_lies_within_the_errors_is_bracketed() -> None:
    """Each part by itself: the rows are of pairs of their own, and the worst that their errors allow."""
    draw = np.random.default_rng(2)
    cases = told = 0
    for round_ in range(30):
        members = 1 + round_ % 2
        case = case_of(draw, plain=False, tilt=TILTS[round_ % 6] * (1.0 + 0.5 * draw.random()), members=members)
        if case is None:
            continue
        cases += 1
        epsilon = [asked(draw, case, member, 2 + member)[: 6 + member] for member in range(members)]
        for member, eps, lower, upper, _ in brackets(case, epsilon):
            truth = dominating_delta(case, member, eps)
            assert exact(upper).exp() >= truth if math.isfinite(upper) else truth <= 0, (round_, eps)
            if lower > -math.inf:
                told += 1
                assert exact(lower).exp() <= exact_delta(case, member, eps, threshold=False), (round_, eps)
    assert cases > 18, cases
    assert told > 50, told


def test_beyond_the_highest_loss_only_infinity_is_left() -> None:
    draw = np.random.default_rng(3)
    found: set[bool] = set()
    for _ in range(12):
        case = case_of(draw, plain=True, tilt=0.5, members=1)
        if case is None:
            continue
        highest = float(case.known.state.additive[0, HIGHEST])
        (_, _, lower, upper, _), *_ = brackets(case, [[highest * (1.0 + 1e-9) + 1e-9]])
        left = infinite(case, 0, LOG_TOTAL_DOMINATING, RATE_DOMINATING)
        found.add(bool(left > 0))
        assert lower <= upper
        if left > 0:
            assert exact(1.0 - 1e-9) * exact(upper).exp() <= left <= exact(upper).exp()
        else:
            assert upper == -math.inf
    assert found == {False, True}


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
        # A series has two of these, and a handful of products.
        assert off <= exact(0.2 * _TERM) * abs(truth), (decay, index, length)


def test_sums_are_rounded_no_more_than_they_say() -> None:
    """Of coefficients as they are: all factors e^(-rate · i) from some position on, whose transforms are series."""
    draw = np.random.default_rng(4)
    worst = 0.0
    for case in range(24):
        count, members = int(draw.choice([1, 2, 9, 60])), int(draw.integers(1, 3))
        length = int(draw.integers(2 * count + 1, 4 * count + 5)) if case % 2 else int(draw.integers(10**3, 10**9))
        tilt = float(draw.choice([0.0, 1e-9, 0.7, 30.0]))
        width = float(draw.choice([1e-12, 1e-3, 1.0]))
        coefficients = draw.uniform(-1.0, 1.0, (members, ROWS, count)) * np.exp(1j * draw.uniform(0.0, 7.0, count))
        state = replace(leaf_of(draw, plain=True, tilt=tilt, members=members), width=width, stride=1)
        size = np.max(np.abs(coefficients), axis=-1)
        known = FewFrequencies(state, length, coefficients, size)
        chosen = draw.integers(0, members, 5)
        points = _Points(known, chosen)
        first = np.array([0, 1, length // 3, length - 1, length])
        roots = points.roots(first)
        for row, rate in ((DOMINATING, tilt), (EXACT_B, tilt + 1.0)):
            found = points.total(row, roots, points.series(first, roots, rate))
            bound = points.rounding(row)
            for place, member in enumerate(chosen.tolist()):
                truth = series_by_definition(coefficients[member, row], int(first[place]), length, rate * width)
                missed = float(abs(exact(float(found[place])) - truth).upper())
                assert missed <= bound[place], (case, row, place)
                worst = max(worst, missed / float(bound[place]))
    assert worst > 1e-3


def series_by_definition(coefficients: Any, first: int, length: int, decay: float) -> flint.arb:
    """Σ_{m >= first} w(m) e^(-decay (m - first)), w the real trigonometric polynomial of the coefficients."""
    total = flint.arb(0)
    for order, coefficient in enumerate(coefficients.tolist()):
        turned = flint.acb(flint.fmpq(2 * order, length)).exp_pi_i()
        step = turned * (-exact(decay)).exp()
        terms = length - first
        series = flint.acb(terms) if order == 0 and decay == 0.0 else (1 - step**terms) / (1 - step)
        value = flint.acb(exact(coefficient.real), exact(coefficient.imag)) * turned**first * series
        total += value.real * (1 if order == 0 else 2)
    return total / length


DP_SGD = SubsampledGaussian(scale=4.0, rate=0.01)
TABLES: dict[str, tuple[list[tuple[Pair, int]], list[int], list[float], int]] = {
    "dp-sgd": ([(DP_SGD, 1)], [500, 2000, 8000], [0.1, 0.4], 3),
    "dp-sgd, very many": ([(SubsampledGaussian(scale=4.0, rate=0.001), 1)], [1_000_000], [0.3, 1.0], 1),
    "laplace": ([(Laplace(scale=30.0), 1)], [2000, 30_000], [0.5, 2.0, 12.0], 2),
    "count, rounded laplace": ([(NoisyCount(Laplace(scale=200.0), 1000.0, 2), 1)], [1000], [0.5], 0),
    "count": ([(NoisyCount(Gaussian(scale=60.0), 400.0, 2), 1)], [500, 9000], [1.0, 9.0], 1),
    "truncated": ([(Gaussian(scale=20.0, truncate=(-80.0, 80.0)), 1)], [200, 2000], [0.5, 2.0], 2),
    "product": ([(Product(Laplace(scale=30.0), SubsampledGaussian(scale=2.0, rate=0.01)), 1)], [3000], [0.5, 3.0], 1),
    "heterogeneous": ([(DP_SGD, 2), (Laplace(scale=50.0), 1), (Gaussian(scale=50.0), 1)], [64, 200], [0.5, 2.0], 1),
    "a stack": (
        [(Gaussian(scale=50.0 + i), 1) for i in range(150)] + [(Laplace(scale=60.0), 3)],
        [1, 20],
        [0.1, 1.0],
        1,
    ),
    "with a failure": ([(DP_SGD, 1), (ApproximateDP(0.001, 1e-8), 1)], [1000], [0.1, 1.0], 1),
}


@dataclass
class Calls:
    """How often few frequencies were asked for, and how often they did."""

    asked: int = 0
    found: int = 0


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    counted = Calls()

    def counting(*arguments: Any, **options: Any) -> FewFrequencies | None:
        found = few_frequencies(*arguments, **options)
        counted.asked += 1
        counted.found += found is not None
        return found

    monkeypatch.setattr(engine, "few_frequencies", counting)
    return counted


def assert_consistent(one: TightBounds, other: TightBounds) -> None:
    for first, second in ((one, other), (other, one), (one, one), (other, other)):
        assert np.all(first.log_lower <= second.log_upper)


@pytest.mark.parametrize("name", TABLES)
def test_both_ways_are_consistent(name: str, calls: Calls) -> None:
    components, rounds, epsilon, least = TABLES[name]
    for tolerance in (1e-2, 3e-4):
        calls.asked = calls.found = 0
        few, ladder = (
            tight_bounds(
                factor_counts(components),
                np.array(rounds),
                np.array(epsilon),
                tolerance=tolerance,
                keep_states=keep_states,
            )
            for keep_states in (False, True)
        )
        # By the ladder alone nothing is asked.
        assert calls.found >= least, name
        assert set(few.states) == set()
        assert len(ladder.states) > 0
        assert_consistent(few, ladder)
        for found in (few, ladder):
            told = found.log_upper > -600.0
            assert np.all(found.log_upper[told] - found.log_lower[told] <= math.log1p(tolerance))


def test_the_ladder_asks_for_no_few_frequencies(calls: Calls) -> None:
    counts = factor_counts([(DP_SGD, 1)])
    many, few = np.array([4000]), np.array([100])
    tight_bounds(counts, many, np.array([0.4]), tolerance=1e-2, keep_states=True)
    tight_bounds(counts, few, np.array([0.1]), tolerance=1e-2)
    assert calls.asked == 0
    tight_bounds(counts, many, np.array([0.4]), tolerance=1e-2)
    assert calls.found == calls.asked > 0


def test_given_widths_are_consistent(calls: Calls) -> None:
    """Coarse grids, on which brackets are wide, and fine ones."""
    found = [
        tight_bounds(factor_counts([(DP_SGD, 1)]), np.array([2000]), np.array([0.1, 0.5]), tolerance=1e-2, **chosen)
        for chosen in ({"buckets": 200}, {"buckets": 20_000}, {"width": 3e-4}, {"width": 1e-3, "keep_states": True})
    ]
    assert calls.found >= 3
    for one in found:
        for other in found:
            assert_consistent(one, other)


def test_a_factor_without_any_loss_but_0() -> None:
    components: list[tuple[Pair, int]] = [(DP_SGD, 1), (ApproximateDP(0.0, 1e-9), 1)]
    arguments = (factor_counts(components), np.array([1000]), np.array([0.1, 1.0]))
    assert_consistent(
        tight_bounds(*arguments, tolerance=1e-2), tight_bounds(*arguments, tolerance=1e-2, keep_states=True)
    )


def test_what_is_compared_with_keeps_its_digits() -> None:
    """The weights of a product sum to the power of the sum, to 170 bits."""
    draw = np.random.default_rng(5)
    leaf = leaf_of(draw, plain=True, tilt=0.0, members=1)
    power = product_of([(leaf, 300)], 0, 0)
    whole = Fraction(sum(map(int, power.coeffs())), 1 << BITS)
    expected = sum(map(Fraction, leaf.weights[0, 0].tolist())) ** 300
    assert abs(whole - expected) < Fraction(1, 1 << (BITS - 30))
