"""Many states composed on an evolving grid, against exact powers of whole-numbered weights."""

import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.buckets.tight.composition import compose
from pbdist.buckets.tight.delta import log_delta_lower, log_delta_upper
from pbdist.buckets.tight.ladder import RADIX, STEP, Ladder, _packed, stages_of
from pbdist.buckets.tight.state import (
    DOMINATING,
    EXACT_A,
    EXACT_B,
    HIGHEST,
    LOG_TOTAL_A,
    LOG_TOTAL_B,
    LOG_TOTAL_DOMINATING,
    RATE_A,
    RATE_B,
    RATE_DOMINATING,
    ROWS,
    SCALARS,
    TiltedMasses,
    joined,
)
from pbdist.errors import PrecisionError
from tests.strategies import examples

LONGEST = 1 << 20
OUTSIDE = 1e-13
#: Weights are whole multiples of 2 to minus this, and sum to 1.
BITS = 12


@contextmanager
def digits(bits: int) -> Iterator[None]:
    before, flint.ctx.prec = flint.ctx.prec, bits
    try:
        yield
    finally:
        flint.ctx.prec = before


@dataclass(frozen=True)
class Grid:
    """A pair whose losses are whole multiples of a width: all three rows of its state are the same weights.

    Attributes
    ----------
    weights : tuple of int
        In units of 2^-BITS; P_A mass e^(κ - θℓ) times that, P_B mass e^(κ - (θ+1)ℓ) times that.
    origin : int
        Position of the first, in widths.
    rate : float
        What only A has is e^rate - 1 times the finite P_A mass.
    """

    weights: tuple[int, ...]
    origin: int
    width: float
    tilt: float
    scale: float = 0.0
    rate: float = 0.0

    @property
    def state(self) -> TiltedMasses:
        weights = np.array(self.weights, dtype=np.float64) * 2.0**-BITS
        with digits(200):
            log_a, log_b = (float(composition([(self, 1)]).finite_mass(-side).log().mid()) for side in (0.0, 1.0))
        additive = np.zeros((1, SCALARS))
        # A little to the side of each.
        slack = 1e-15 * (1.0 + abs(log_a) + abs(log_b))
        additive[0, LOG_TOTAL_DOMINATING] = log_a + self.rate + slack
        additive[0, LOG_TOTAL_A] = log_a + self.rate - slack
        additive[0, LOG_TOTAL_B] = log_b + slack
        additive[0, [RATE_DOMINATING, RATE_A]] = self.rate * (1.0 + 1e-15), self.rate * (1.0 - 1e-15)
        additive[0, RATE_B] = 0.0
        additive[0, HIGHEST] = (self.origin + len(self.weights) - 1) * self.width + 1e-9 * self.width
        return TiltedMasses(
            width=self.width,
            tilt=self.tilt,
            stride=1,
            origins=((2 * self.origin, 2 * self.origin),),
            weights=np.stack([weights] * ROWS)[None],
            log_scale=np.full((1, ROWS), self.scale),
            log_scale_error=np.zeros((1, ROWS)),
            error=np.zeros((1, ROWS)),
            additive=additive,
        )

    @property
    def mean(self) -> float:
        return self.width * (self.origin + sum(j * w for j, w in enumerate(self.weights)) * 2.0**-BITS)

    @property
    def variance(self) -> float:
        losses = self.width * (self.origin + np.arange(len(self.weights)))
        return float((losses - self.mean) ** 2 @ np.array(self.weights)) * 2.0**-BITS


@dataclass(frozen=True)
class Composition:
    """The exact composition: its weights are whole multiples of 2^-bits."""

    weights: tuple[int, ...]
    bits: int
    origin: int
    width: float
    tilt: float
    scale: flint.arb
    rate: flint.arb

    def finite_mass(self, tilt: float = 0.0, first: int = 0) -> flint.arb:
        """E_A[e^(tilt L)] of the finite losses from the element `first` on."""
        width = flint.arb(self.width)
        power = flint.arb(tilt) - flint.arb(self.tilt)
        step = (power * width).exp()
        total = flint.arb(0)
        for weight in reversed(self.weights[first:]):
            total = total * step + flint.arb(weight)
        exponent = power * width * (self.origin + first) + self.scale - self.bits * flint.arb(2).log()
        return total * exponent.exp()

    def infinite_mass(self) -> flint.arb:
        return self.finite_mass() * (self.rate.exp() - 1)

    def log_delta(self, epsilon: float) -> flint.arb:
        """ln δ(ε); -inf as nan's place where there is nothing above."""
        first = math.floor(Fraction(epsilon) / Fraction(self.width)) + 1 - self.origin
        delta = self.infinite_mass()
        if first < len(self.weights):
            first = max(first, 0)
            delta += self.finite_mass(0.0, first) - flint.arb(epsilon).exp() * self.finite_mass(-1.0, first)
        return delta.log() if delta > 0 else flint.arb("-inf")


@cache
def power(weights: tuple[int, ...], count: int) -> flint.fmpz_poly:
    return flint.fmpz_poly(list(weights)) ** count


def composition(factors: Sequence[tuple[Grid, int]]) -> Composition:
    product = flint.fmpz_poly([1])
    size = 1
    for grid, count in factors:
        product *= power(grid.weights, count)
        size += count * (len(grid.weights) - 1)
    found = [int(x) for x in product.coeffs()]
    with digits(300):
        return Composition(
            weights=tuple(found + [0] * (size - len(found))),
            bits=BITS * sum(count for _, count in factors),
            origin=sum(count * grid.origin for grid, count in factors),
            width=factors[0][0].width,
            tilt=factors[0][0].tilt,
            scale=sum((flint.arb(grid.scale) * count for grid, count in factors), flint.arb(0)),
            rate=sum((flint.arb(grid.rate) * count for grid, count in factors), flint.arb(0)),
        )


def grids(
    draw: random.Random, number: int, *, size: int, width: float, tilt: float, rate: float = 0.0, apart: int = 3
) -> list[Grid]:
    """Smooth weights with a single rise and fall, more or less, on one grid."""
    result: list[Grid] = []
    for _ in range(number):
        place = np.arange(size) - draw.uniform(0.35, 0.65) * (size - 1)
        shape = np.exp(-0.5 * (place / (draw.uniform(0.18, 0.26) * size)) ** 2)
        raw = np.floor(shape * np.array([draw.uniform(0.8, 1.2) for _ in range(size)]) * 2.0**BITS / shape.sum() * 0.8)
        raw[size // 2] += 2.0**BITS - raw.sum()
        origin = -(size // 2) + draw.randint(-apart, apart)
        result.append(Grid(tuple(int(x) for x in raw), origin, width, tilt, draw.uniform(-0.2, 0.2), rate))
    return result


def ladder(leaves: int, *, coarsens: bool, extended: bool = False, limit: float = math.inf) -> Ladder:
    return Ladder(leaves, OUTSIDE, limit, coarsens, LONGEST, extended)


def check_weights(state: TiltedMasses, exact: Composition, *, most: float) -> None:
    """On the leaves' own grid: each row is the exact one within its error, and on its side of it but for that."""
    assert state.stride == 1
    with digits(300):
        unit = flint.arb(2) ** -exact.bits
        for row in range(ROWS):
            start = (state.origins[0][min(row, 1)] - 2 * exact.origin) // 2
            assert state.origins[0][min(row, 1)] == 2 * (exact.origin + start)
            error, named = float(state.error[0, row]), float(state.log_scale_error[0, row])
            assert error + named <= most
            factor = unit * (exact.scale - flint.arb(float(state.log_scale[0, row]))).exp()
            found = dict(enumerate(state.weights[0, row].tolist(), start))
            total = missed = wrong = flint.arb(0)
            for index in {*range(len(exact.weights)), *found}:
                weight = flint.arb(exact.weights[index] if 0 <= index < len(exact.weights) else 0) * factor
                over = flint.arb(found.get(index, 0.0)) - weight
                total += weight
                missed += abs(over)
                if (over > 0) == (row == EXACT_A):
                    wrong += abs(over)
            slack = total * flint.arb(named).expm1() if named else flint.arb(0)
            assert 0.5 < float(total) < 2.0
            assert wrong <= error + slack + flint.arb(1e-60), (row, wrong, error, named)
            assert missed <= error + slack + flint.arb(most), (row, missed)


def check_bounds(state: TiltedMasses, exact: Composition, epsilon: Sequence[float]) -> list[float]:
    """The bounds of a state hold for the exact composition; return upper / lower - 1 for each ε."""
    asked = np.array(epsilon)
    lower, (upper, _) = log_delta_lower(state, asked), log_delta_upper(state, asked)
    with digits(400):
        for at, below, above in zip(epsilon, lower.tolist(), upper.tolist(), strict=True):
            truth = exact.log_delta(at)
            if not truth.is_finite():
                assert below == -math.inf
                continue
            assert below == -math.inf or flint.arb(below) <= truth, (at, below, truth)
            assert flint.arb(above) >= truth, (at, above, truth)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.expm1(upper - lower).tolist()


def around(factors: Sequence[tuple[Grid, int]], *deviations: float) -> list[float]:
    """ε so many deviations from the tilted mean."""
    mean = sum(count * grid.mean for grid, count in factors)
    deviation = math.sqrt(sum(count * grid.variance for grid, count in factors))
    return [mean + x * deviation for x in deviations]


def estimate(factors: Sequence[tuple[Grid, int]]) -> float:
    """Section 7 of docs/tight.md, for a leaf that is exact: what the coarsenings widen the bracket by."""
    leaves = sum(count for _, count in factors)
    first = factors[0][0]
    variance = sum(count * grid.variance for grid, count in factors)
    sharpness = first.tilt * (first.tilt + 1.0) + 1.0 / variance + 1.0 / math.sqrt(variance)
    return (stages_of(leaves, coarsens=True) + 1) * leaves * first.width**2 / 8.0 * sharpness


# -- powers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("tilt", [0.0, 1.5])
def test_powers_on_the_leaves_grid_are_the_exact_ones(tilt: float, extended: bool) -> None:
    draw = random.Random(f"ladder powers {tilt}")  # noqa: S311
    rounds = [1, 2, 3, 15, 16, 17, 63, 64, 255, 256, 1025]
    [grid] = grids(draw, 1, size=5, width=0.25, tilt=tilt)
    found = dict(ladder(max(rounds), coarsens=False, extended=extended).powers(grid.state, 1, rounds))
    assert sorted(found) == rounds
    for r, state in found.items():
        check_weights(state, composition([(grid, r)]), most=1e-13 * r if extended else 1e-11 * r)


DIGITS = [1, 2, 15, 16, 17, 63, 64, 65, 100, 128, 255, 256, 257, 272, 300]


@pytest.mark.parametrize(("tilt", "rate"), [(0.0, 0.0), (0.4, 1e-7), (6.0, 0.0)])
def test_powers_in_any_digits_bound_the_exact_ones(tilt: float, rate: float) -> None:
    """Theorems 9 to 15 together: every number r takes its own way through the stages."""
    draw = random.Random(f"ladder digits {tilt}")  # noqa: S311
    [grid] = grids(draw, 1, size=33, width=0.004, tilt=tilt, rate=rate)
    found = dict(ladder(max(DIGITS), coarsens=True).powers(grid.state, 1, DIGITS))
    assert sorted(found) == DIGITS
    for r, state in found.items():
        assert state.stride == STEP ** stages_of(r, coarsens=True)
        assert state.count == 1
        exact = composition([(grid, r)])
        epsilon = around([(grid, r)], -2.0, 0.0, 1.0)
        loose = check_bounds(state, exact, [*epsilon, *around([(grid, r)], -30.0, 4.0, 12.0), 1e3])
        if r >= 2:
            assert max(loose[: len(epsilon)]) <= 3.0 * estimate([(grid, r)]) + 1e-9, r


def test_large_digits_bound_the_exact_ones() -> None:
    grid = Grid((1 << (BITS - 2), 1 << (BITS - 1), 1 << (BITS - 2)), -1, 0.003, 0.7)
    rounds = [0x111, 0xF0F, 0x1001, 0x10F1]
    for r, state in ladder(max(rounds), coarsens=True).powers(grid.state, 1, rounds):
        loose = check_bounds(state, composition([(grid, r)]), around([(grid, r)], -1.0, 0.0, 2.0))
        assert max(loose[:2]) <= 3.0 * estimate([(grid, r)]) + 1e-9


def coarsened_squares(r: int, width: float) -> float:
    """Σ of the squares of the new spacings over all that is made coarser on the way to r."""
    stages = stages_of(r, coarsens=True)
    return sum((r // RADIX**t + 1) * (STEP**t * width) ** 2 for t in range(1, stages + 1))


def test_totals_and_moments_tell_the_number() -> None:
    """Too many for an exact power: what adds up is that of exactly r states.

    Theorem 12: both totals of the dominating pair are kept by coarser grids. The split of a loss between two positions
    W apart raises the mean by at most W²/8 (Hoeffding's lemma), and adds at most about W²/4 to the variance.
    """
    draw = random.Random("ladder totals")  # noqa: S311
    [grid] = grids(draw, 1, size=17, width=1e-4, tilt=0.0, rate=1e-9)
    rounds = sorted({*DIGITS, 4095, 4096, 65537, 0xABCDE, 10**6, *(draw.randint(1, 10**6) for _ in range(12))})
    leaf = grid.state
    one = {side: float(composition([(grid, 1)]).finite_mass(-float(side)).log().mid()) for side in (0, 1)}
    for r, state in ladder(max(rounds), coarsens=True).powers(leaf, 1, rounds):
        assert np.allclose(state.additive[0, :HIGHEST], r * leaf.additive[0, :HIGHEST], rtol=1e-12, atol=0.0)
        assert state.additive[0, HIGHEST] >= r * leaf.additive[0, HIGHEST] * (1.0 - 1e-12)
        # P_A masses of two rows, which are the weights, and P_B masses of two.
        for row, side in ((DOMINATING, 0), (EXACT_A, 0), (DOMINATING, 1), (EXACT_B, 1)):
            masses = state.weights[0, row] * np.exp(-side * state.positions(row))
            found = math.log(float(masses.sum())) + float(state.log_scale[0, row])
            assert found == pytest.approx(r * one[side], rel=1e-10, abs=1e-8)
        loss, weight = state.positions(DOMINATING), state.weights[0, DOMINATING]
        total = float(weight.sum())
        mean = float(weight @ loss) / total
        variance = float(weight @ (loss - mean) ** 2) / total
        squares = coarsened_squares(r, grid.width)
        small = 1e-7 * math.sqrt(r * grid.variance)
        assert r * grid.mean - small <= mean <= r * grid.mean + squares / 8.0 + small
        assert r * grid.variance * (1.0 - 1e-4) <= variance <= (r * grid.variance + squares / 4.0) * (1.0 + 1e-4)


def test_a_stack_goes_through_the_stages_together() -> None:
    """Both directions of a pair are two members of one state."""
    draw = random.Random("ladder stack")  # noqa: S311
    pairs = grids(draw, 3, size=21, width=0.01, tilt=0.8)
    rounds = [1, 20, 70, 300]
    for r, state in ladder(300, coarsens=True).powers(joined([pair.state for pair in pairs]), 1, rounds):
        assert state.count == 3
        for member, pair in enumerate(pairs):
            loose = check_bounds(
                state.members(slice(member, member + 1)), composition([(pair, r)]), around([(pair, r)], -1.0, 1.0)
            )
            assert max(loose) <= 3.0 * estimate([(pair, r)]) + 1e-9


def test_repeated_and_unordered_rounds() -> None:
    [grid] = grids(random.Random("order"), 1, size=9, width=0.01, tilt=0.0)  # noqa: S311
    forwards = dict(ladder(500, coarsens=True).powers(grid.state, 1, [3, 64, 500]))
    backwards = dict(ladder(500, coarsens=True).powers(grid.state, 1, [500, 3, 64, 3]))
    assert sorted(forwards) == sorted(backwards) == [3, 64, 500]
    for r, state in forwards.items():
        assert np.array_equal(state.weights, backwards[r].weights)


# -- rounds of different states --------------------------------------------------------------------------------


@st.composite
def rounds_of_stacks(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Sizes of stacks, and how often the members of each occur."""
    size = st.sampled_from([1, 1, 2, 3, 5, 8, 16, 17]) | st.integers(1, 40)
    count = st.sampled_from([1, 1, 2, 3, 8, 15, 16, 17, 33, 48]) | st.integers(1, 70)
    stacks = draw(st.lists(st.tuples(size, count), min_size=1, max_size=4))
    while sum(k * n for k, n in stacks) > 500:
        stacks = [(max(k // 2, 1), max(n // 2, 1)) for k, n in stacks]
    return stacks


def drawn_round(
    draw: random.Random, stacks: Sequence[tuple[int, int]], *, size: int, width: float, tilt: float, apart: int = 3
) -> tuple[list[tuple[Grid, int]], list[tuple[TiltedMasses, int]]]:
    # A few different grids: their powers are computed once.
    kinds = grids(draw, 4, size=size, width=width, tilt=tilt, apart=apart)
    chosen = [([draw.choice(kinds) for _ in range(k)], n) for k, n in stacks]
    number = dict.fromkeys(kinds, 0)
    for members, n in chosen:
        for grid in members:
            number[grid] += n
    return (
        [(grid, n) for grid, n in number.items() if n],
        [(joined([grid.state for grid in members]), n) for members, n in chosen],
    )


@examples(12)
@given(stacks=rounds_of_stacks(), seed=st.integers(0, 2**32), tilt=st.sampled_from([0.0, 0.6]), final=st.booleans())
def test_a_round_on_the_leaves_grid_is_the_exact_product(
    stacks: list[tuple[int, int]], seed: int, tilt: float, final: bool
) -> None:
    factors, items = drawn_round(random.Random(seed), stacks, size=5, width=0.5, tilt=tilt)  # noqa: S311
    leaves = sum(k * n for k, n in stacks)
    state, counted = ladder(leaves, coarsens=False).round(items, final=final)
    assert counted == leaves
    assert state.count == 1
    check_weights(state, composition(factors), most=1e-11 * leaves)


@examples(30)
@given(
    stacks=rounds_of_stacks(), seed=st.integers(0, 2**32), tilt=st.sampled_from([0.0, 0.5, 6.0]), final=st.booleans()
)
def test_a_round_bounds_the_exact_product(stacks: list[tuple[int, int]], seed: int, tilt: float, final: bool) -> None:
    factors, items = drawn_round(random.Random(seed), stacks, size=21, width=0.01, tilt=tilt)  # noqa: S311
    leaves = sum(k * n for k, n in stacks)
    state, counted = ladder(leaves, coarsens=True).round(items, final=final)
    assert counted == leaves
    assert state.count == 1
    assert state.stride >= STEP ** (leaves >= 128)
    assert final or leaves < RADIX // 2 or state.stride > 1
    loose = check_bounds(state, composition(factors), around(factors, -20.0, -1.0, 0.0, 1.0, 6.0, 60.0))
    if leaves > 1:
        # A result that is made coarser once more has one more stage.
        assert max(loose[1:4]) <= 8.0 * estimate(factors) + 1e-9


@pytest.mark.parametrize("stacks", [[(1, 300)], [(2, 170), (5, 16)], [(1, 257), (20, 2), (3, 33)], [(300, 1)]], ids=str)
def test_rounds_of_several_stages(stacks: list[tuple[int, int]]) -> None:
    """Counts with digits of their own, and what is left over of a stack."""
    leaves = sum(k * n for k, n in stacks)
    factors, items = drawn_round(random.Random(f"{stacks}"), stacks, size=5, width=0.5, tilt=0.2)  # noqa: S311
    state, counted = ladder(leaves, coarsens=False).round(items, final=True)
    assert counted == leaves
    check_weights(state, composition(factors), most=1e-11 * leaves)
    factors, items = drawn_round(random.Random(f"{stacks}"), stacks, size=21, width=0.01, tilt=0.5)  # noqa: S311
    state, counted = ladder(leaves, coarsens=True).round(items, final=True)
    assert counted == leaves
    loose = check_bounds(state, composition(factors), around(factors, -20.0, -1.0, 0.0, 1.0, 6.0))
    assert max(loose[1:4]) <= 8.0 * estimate(factors) + 1e-9


def test_a_round_is_what_one_by_one_composition_gives() -> None:
    draw = random.Random("one by one")  # noqa: S311
    kinds = grids(draw, 150, size=4, width=0.3, tilt=0.3)
    result = compose([(kinds[0].state, 1), (kinds[1].state, 1)], OUTSIDE / 150, LONGEST).normalised()
    for grid in kinds[2:]:
        result = compose([(result, 1), (grid.state, 1)], OUTSIDE / 150, LONGEST).normalised()
    state, leaves = ladder(150, coarsens=False).round([(joined([grid.state for grid in kinds]), 1)], final=True)
    assert leaves == 150
    for row in range(ROWS):
        sums: list[dict[int, float]] = []
        for each in (result, state):
            start = each.origins[0][min(row, 1)]
            scale = math.exp(float(each.log_scale[0, row] - result.log_scale[0, row]))
            sums.append({start + 2 * j: w * scale for j, w in enumerate(each.weights[0, row].tolist())})
        missed = math.fsum(abs(sums[0].get(key, 0.0) - sums[1].get(key, 0.0)) for key in {*sums[0], *sums[1]})
        errors = sum(float(each.error[0, row] + each.log_scale_error[0, row]) for each in (result, state))
        assert missed <= 1.1 * errors + 1e-12
        assert errors < 1e-8


def test_rounds_are_powers_of_the_round() -> None:
    """What is composed of a round, and of its result, is one composition."""
    draw = random.Random("rounds of rounds")  # noqa: S311
    factors, items = drawn_round(draw, [(6, 3), (1, 10), (12, 1)], size=13, width=0.01, tilt=0.5)
    leaves = 6 * 3 + 10 + 12
    rounds = [1, 2, 9, 30]
    whole = ladder(leaves * 30, coarsens=True)
    state, counted = whole.round(items, final=False)
    assert counted == leaves
    assert state.stride == STEP
    for r, power_state in whole.powers(state, leaves, rounds):
        repeated = [(grid, n * r) for grid, n in factors]
        loose = check_bounds(power_state, composition(repeated), around(repeated, -1.0, 0.0, 1.0))
        assert max(loose) <= 8.0 * estimate(repeated) + 1e-9


@pytest.mark.parametrize("coarsens", [False, True])
@pytest.mark.parametrize("deviations", [-1.0, 1.0, 5.0])
def test_what_lies_above_a_limit_is_merged(deviations: float, coarsens: bool) -> None:
    """The bounds hold for every ε; below the limit little is lost, where the rest hardly ever falls that far."""
    draw = random.Random(f"limit {deviations}")  # noqa: S311
    stacks = [(3, 20), (10, 4), (30, 1)]
    factors, items = drawn_round(draw, stacks, size=15, width=0.02, tilt=0.3, apart=0)
    [limit] = around(factors, deviations)
    state, leaves = ladder(130, coarsens=coarsens, limit=limit).round(items, final=True)
    assert leaves == 130
    last = state.positions(DOMINATING)[np.flatnonzero(state.weights[0, DOMINATING])[-1]]
    assert last <= limit + state.spacing
    assert state.additive[0, RATE_DOMINATING] > 0.0
    exact = composition(factors)
    check_bounds(state, exact, around(factors, -10.0, -2.0, 0.0, 2.0, 8.0))
    assert float(exact.finite_mass().log().mid()) == pytest.approx(
        math.log(float(np.exp(-0.3 * state.positions(DOMINATING)) @ state.weights[0, DOMINATING]))
        + float(state.log_scale[0, DOMINATING] + state.additive[0, RATE_DOMINATING]),
        abs=0.02,
    )


# -- parts -----------------------------------------------------------------------------------------------------


def test_stages() -> None:
    expected = {1: 0, 63: 0, 64: 1, 1023: 1, 1024: 2, 16383: 2, 16384: 3, 2**62: 15}
    for leaves, stages in expected.items():
        assert stages_of(leaves, coarsens=True) == stages
        assert stages_of(leaves, coarsens=False) == 0


@examples(200)
@given(counts=st.lists(st.integers(1, RADIX), max_size=60))
def test_packed_groups_hold_everything_in_order(counts: list[int]) -> None:
    [grid] = grids(random.Random(0), 1, size=3, width=1.0, tilt=0.0)  # noqa: S311
    items = [(replace(grid, scale=float(index)).state, count) for index, count in enumerate(counts)]
    groups = _packed(items)
    assert [(id(state), count) for group in groups for state, count in group] == [(id(s), n) for s, n in items]
    sizes = [sum(count for _, count in group) for group in groups]
    assert all(0 < size <= RADIX for size in sizes)
    # No group could have taken the first of the next.
    for size, following in zip(sizes, groups[1:], strict=False):
        assert size + following[0][1] > RADIX


def test_too_long_transforms_are_refused() -> None:
    [grid] = grids(random.Random(1), 1, size=9, width=0.1, tilt=0.0)  # noqa: S311
    short = Ladder(10**6, OUTSIDE, math.inf, False, 256, False)
    with pytest.raises(PrecisionError, match="at most 256 buckets"):
        dict(short.powers(grid.state, 1, [10**6]))
    with pytest.raises(PrecisionError, match="at most 256 buckets"):
        short.round([(grid.state, 10**6)], final=True)


def test_the_rows_are_told_apart() -> None:
    """The check of the checks: a row moved to its wrong side, or one leaf too many, is noticed."""
    [grid] = grids(random.Random(5), 1, size=5, width=0.25, tilt=0.3)  # noqa: S311
    [(_, state)] = ladder(40, coarsens=False).powers(grid.state, 1, [40])
    check_weights(state, composition([(grid, 40)]), most=1e-9)
    for row, factor in ((DOMINATING, 1.0 - 1e-8), (EXACT_A, 1.0 + 1e-8), (EXACT_B, 1.0 - 1e-8)):
        moved = state.weights.copy()
        moved[0, row] *= factor
        with pytest.raises(AssertionError):
            check_weights(replace(state, weights=moved), composition([(grid, 40)]), most=1e-9)
    for r in (39, 41):
        with pytest.raises(AssertionError):
            check_bounds(state, composition([(grid, r)]), around([(grid, r)], -1.0, 0.0, 1.0))
