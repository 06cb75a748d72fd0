"""Tables of tight bounds: pairs on a lattice, of which everything is known, and what is asked of a table."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

import flint
import numpy as np
import pytest

from pbdist.arguments import Request
from pbdist.errors import PrecisionError
from pbdist.mechanisms import (
    ApproximateDP,
    ElementaryPair,
    Gaussian,
    Histogram,
    Laplace,
    NoisyCount,
    Pair,
    Product,
    RandomizedResponse,
    SubsampledGaussian,
    factor_counts,
)
from pbdist.pld import engine, question
from pbdist.pld.engine import TightBounds, tight_bounds
from pbdist.pld.loss_profile import LossProfile, loss_profile
from pbdist.table import bounds_table
from pbdist.types import Direction, FloatArray

pytestmark = pytest.mark.slow

Number = Fraction | float
DIGITS = 600


@contextmanager
def many_digits() -> Iterator[None]:
    before, flint.ctx.prec = flint.ctx.prec, DIGITS
    try:
        yield
    finally:
        flint.ctx.prec = before


@dataclass(frozen=True)
class Lattice:
    """A pair whose finite losses are multiples of one number.

    Attributes
    ----------
    ratio : Fraction or None
        e to that number; None where the number itself is given.
    step : float
        The number, rounded where it follows from the ratio.
    cells : mapping of int to (Fraction, Fraction)
        P_A and P_B masses by multiple, or only their sums where the masses follow from these.
    only : (Fraction, Fraction)
        Masses that only A and only B have.
    """

    pair: ElementaryPair
    ratio: Fraction | None
    step: float
    cells: Mapping[int, tuple[Fraction, Fraction]]
    only: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))

    @property
    def highest(self) -> int:
        return max(self.cells)

    @property
    def spacing(self) -> float:
        """The largest number of which all losses are multiples."""
        return math.gcd(*self.cells) * self.step

    def masses(self) -> dict[int, tuple[flint.arb, flint.arb]]:
        """Enclosures of the masses."""
        if self.ratio is not None:
            return {k: (_ball(a), _ball(b)) for k, (a, b) in self.cells.items()}
        small = (-flint.arb(self.step)).exp()
        likely = _ball(1 - self.only[0]) / (1 + small)
        return {1: (likely, likely * small), -1: (likely * small, likely)}


def _ball(value: Fraction) -> flint.arb:
    return flint.arb(value.numerator) / flint.arb(value.denominator)


def response(p: float) -> Lattice:
    truth = Fraction(p)
    ratio = truth / (1 - truth)
    cells = {1: (truth, 1 - truth), -1: (1 - truth, truth)}
    if ratio < 1:
        ratio, cells = 1 / ratio, {-k: masses for k, masses in cells.items()}
    return Lattice(RandomizedResponse(p), ratio, math.log(ratio), cells)


def revealing(epsilon: float, delta: float) -> Lattice:
    none = (Fraction(0), Fraction(0))
    return Lattice(ApproximateDP(epsilon, delta), None, epsilon, {1: none, -1: none}, (Fraction(delta),) * 2)


def histogram(p: Sequence[int], q: Sequence[int], ratio: Fraction) -> Lattice:
    cells: dict[int, tuple[Fraction, Fraction]] = {}
    only = [Fraction(0), Fraction(0)]
    for a, b in ((Fraction(a, sum(p)), Fraction(b, sum(q))) for a, b in zip(p, q, strict=True)):
        if a and b:
            k = round(math.log(a / b) / math.log(ratio))
            assert a / b == ratio**k
            before = cells.get(k, (Fraction(0), Fraction(0)))
            cells[k] = before[0] + a, before[1] + b
        else:
            only[a == 0] += a + b
    return Lattice(Histogram(p, q), ratio, math.log(ratio), cells, (only[0], only[1]))


class Truth:
    """δ of r rounds of pairs on one lattice, as enclosures."""

    def __init__(self, parts: Sequence[tuple[Lattice, int]], rounds: int) -> None:
        polynomials = [flint.arb_poly([1]), flint.arb_poly([1])]
        whole = [flint.arb(1), flint.arb(1)]
        lowest = 0
        with many_digits():
            for part, count in parts:
                masses, first = part.masses(), min(part.cells)
                lowest += first * count * rounds
                for side in (0, 1):
                    zero = (flint.arb(0), flint.arb(0))
                    row = [masses.get(k, zero)[side] for k in range(first, part.highest + 1)]
                    polynomials[side] *= flint.arb_poly(row) ** (count * rounds)
                    finite = sum((pair[side] for pair in masses.values()), flint.arb(0))
                    whole[side] *= finite ** (count * rounds)
            rows = [polynomial.coeffs() for polynomial in polynomials]
            size = max(map(len, rows))
            self.rows = [row + [flint.arb(0)] * (size - len(row)) for row in rows]
            # Everything else is infinite; nothing at all where no pair has any.
            revealed = [any(part.only[side] for part, _ in parts) for side in (0, 1)]
            self.infinite = [1 - whole[side] if revealed[side] else flint.arb(0) for side in (0, 1)]
        self.highest = lowest + size - 1

    def delta(self, epsilon: float, direction: Direction) -> flint.arb:
        side = 0 if direction is Direction.A_TO_B else 1
        y = flint.arb(epsilon).exp()
        terms = (a - y * b for a, b in zip(self.rows[side], self.rows[1 - side], strict=True))
        return sum((term.max(flint.arb(0)) for term in terms), self.infinite[side])


def check(
    found: TightBounds, parts: Sequence[tuple[Lattice, int]], rounds: Sequence[int], asked: Sequence[float]
) -> None:
    """Every bound of the table holds; no tolerance but that of the enclosure, 600 binary digits."""
    for row, r in enumerate(rounds):
        truth = Truth(parts, r)
        with many_digits():
            for axis, direction in enumerate(Direction):
                for column, at in enumerate(asked):
                    lower, upper = (float(x[axis, row, column]) for x in (found.log_lower, found.log_upper))
                    delta = truth.delta(at, direction)
                    which = (r, at, direction, lower, upper, delta)
                    if delta.rad() >= delta.mid():
                        # Zero, as far as all these digits tell.
                        assert lower == -math.inf, which
                        continue
                    assert lower == -math.inf or flint.arb(lower) <= delta.log(), which
                    # δ is 1 at most, which no enclosure knows.
                    assert upper >= 0.0 or flint.arb(upper) >= delta.log(), which


def brackets(found: TightBounds) -> FloatArray:
    lower, upper = found.log_lower, found.log_upper
    with np.errstate(invalid="ignore", over="ignore"):
        result: FloatArray = np.where(upper == lower, 0.0, np.expm1(upper - lower))
    return result


def bounds(
    parts: Sequence[tuple[Lattice, int]], rounds: Sequence[int], asked: Sequence[float], **arguments: object
) -> TightBounds:
    counts = factor_counts([(part.pair, count) for part, count in parts])
    return tight_bounds(counts, np.array(rounds), np.array(asked), Request(**arguments))  # type: ignore[arg-type]


def on_and_between(step: float, highest: int, number: int) -> list[float]:
    """0, some multiples of the step as floats, and places between two of them, below the largest loss."""
    chosen = sorted({int(x) for x in np.linspace(0, max(highest - 1, 0), number)})
    return sorted({k * step for k in chosen} | {(k + part) * step for k in chosen for part in (0.3, 0.5)})


PAIRS = [
    [(response(0.75), 1)],
    [(response(0.1), 1)],
    [(response(0.50390625), 1)],
    [(revealing(0.5, 1e-5), 1)],
    [(revealing(0.1, 0.0), 1)],
    [(revealing(3.0, 0.1), 1)],
    [(histogram([4, 2, 1], [1, 2, 4], Fraction(2)), 1)],
    [(histogram([8, 4, 2, 1, 1], [1, 2, 1, 8, 4], Fraction(2)), 1)],
    [(histogram([4, 2, 1, 1, 0], [1, 2, 4, 0, 1], Fraction(2)), 1)],
    [(histogram([9, 8], [8, 9], Fraction(9, 8)), 1)],
]
NAMES = [str(parts[0][0].pair) for parts in PAIRS]
MANY = [1, 2, 3, 7, 20, 64, 128, 200]


@pytest.fixture(autouse=True, scope="module")
def _lattices_alone() -> Iterator[None]:
    """Have outcomes composed on lattices, also where they are so few, or one round, that they are summed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine._Table, "_exact_rows", lambda _: None)
        yield


@pytest.mark.parametrize("parts", PAIRS, ids=NAMES)
def test_on_a_lattice_the_grid_costs_nothing(parts: Sequence[tuple[Lattice, int]]) -> None:
    """A tolerance that no grid would reach but the right one, by the right one in each case."""
    lattice = parts[0][0]
    for r in MANY:
        asked = on_and_between(lattice.step, lattice.highest * r, 8)
        found = bounds(parts, [r], asked, tolerance=1e-8)
        assert np.all(brackets(found) <= 1e-8)
        # Where nearly all mass is infinite that alone tells enough.
        if np.any(found.log_lower < -1e-7):
            assert found.width == pytest.approx(lattice.spacing, rel=1e-12)
        check(found, parts, [r], asked)


@pytest.mark.parametrize("parts", PAIRS, ids=NAMES)
def test_rounding_is_all_that_is_left(parts: Sequence[tuple[Lattice, int]]) -> None:
    """It grows with the leaves, and where δ is a small part of the masses, as between close losses."""
    lattice = parts[0][0]
    for r in (1, 3, 20, 200):
        asked = on_and_between(lattice.step, lattice.highest * r, 4)
        found = bounds(parts, [r], asked, tolerance=1e-12, strict=False)
        assert np.all(brackets(found) <= 1e-11 * (1.0 + 2.0 * r / min(lattice.step, 1.0)))
        check(found, parts, [r], asked)


def test_little_leaves_are_known_to_twelve_digits() -> None:
    for parts, most in ((PAIRS[1], 2), (PAIRS[5], 23), (PAIRS[8], 60)):
        for r in range(1, most, 3):
            asked = [k * parts[0][0].step for k in range(parts[0][0].highest * r)]
            found = bounds(parts, [r], asked, tolerance=1e-12, strict=False)
            assert np.all(brackets(found) <= 1e-11)
            check(found, parts, [r], asked)


@pytest.mark.parametrize("parts", PAIRS, ids=NAMES)
def test_the_usual_tolerance_is_kept(parts: Sequence[tuple[Lattice, int]]) -> None:
    lattice = parts[0][0]
    rounds = [1, 5, 33]
    asked = on_and_between(lattice.step, lattice.highest * 5, 5)
    found = bounds(parts, rounds, asked, tolerance=1e-3)
    good = (brackets(found) <= 1e-3) | (found.log_upper < -600.0) | (found.log_lower == -math.inf)
    assert np.all(good)
    # Lower bounds of nothing are those beyond the largest loss.
    beyond = np.array(asked) >= lattice.step * lattice.highest * np.array(rounds)[:, None] * (1.0 - 1e-9)
    revealed = any(lattice.only)
    assert np.array_equal(found.log_lower[0] == -math.inf, beyond & (not revealed))
    check(found, parts, rounds, asked)


@pytest.mark.parametrize("parts", PAIRS, ids=NAMES)
def test_at_the_largest_loss_and_beyond_it(parts: Sequence[tuple[Lattice, int]]) -> None:
    """No tolerance can be met where δ is 0 but for the rounding of ε: that is no error."""
    lattice = parts[0][0]
    for r in (1, 2, 7, 64, 200):
        top = lattice.step * lattice.highest * r
        asked = [top, math.nextafter(top, 0.0), math.nextafter(top, math.inf), 1.000001 * top, 2.0 * top, 1e4 + top]
        found = bounds(parts, [r], asked, tolerance=1e-3)
        check(found, parts, [r], asked)
        infinite = any(lattice.only)
        if infinite:
            assert np.all(brackets(found) <= 1e-3)
            continue
        # Nothing is left, and at the loss itself next to nothing.
        assert np.all(found.log_upper[..., 3:] == -math.inf)
        assert np.all(found.log_lower[..., 2:] == -math.inf)
        assert np.all(found.log_upper[..., :3] < -12.0)


def test_products_on_one_lattice_are_known_as_well() -> None:
    two, three = histogram([2, 1], [1, 2], Fraction(2)), histogram([4, 2, 2], [2, 2, 4], Fraction(2))
    far = histogram([8, 2, 1, 1, 0], [4, 2, 2, 1, 3], Fraction(2))
    for parts in ([(two, 3)], [(two, 1), (three, 1)], [(two, 2), (three, 1), (far, 1)]):
        mechanism = Product(*(part.pair for part, count in parts for _ in range(count)))
        for r in (1, 6, 25):
            asked = on_and_between(math.log(2.0), sum(part.highest * count for part, count in parts) * r, 5)
            found = tight_bounds(
                factor_counts([(mechanism, 1)]), np.array([r]), np.array(asked), Request(tolerance=1e-8)
            )
            assert np.all(brackets(found) <= 1e-8)
            assert found.width == pytest.approx(math.log(2.0))
            check(found, parts, [r], asked)


def test_products_of_several_lattices_hold() -> None:
    """Losses of ln 4 and of ln 2: the tolerance is met, by the grids that it takes."""
    parts = [(histogram([4, 2, 1], [1, 2, 4], Fraction(2)), 1), (histogram([2, 1], [1, 2], Fraction(2)), 2)]
    asked = [0.0, 1.0, 4.0 * math.log(2.0), 10.0]
    found = bounds(parts, [5, 20], asked, tolerance=1e-3)
    assert np.all(brackets(found) <= 1e-3)
    check(found, parts, [5, 20], asked)


# -- a width that is given -------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [PAIRS[0], PAIRS[3], PAIRS[7], PAIRS[8]], ids=str)
def test_any_width_gives_bounds(parts: Sequence[tuple[Lattice, int]]) -> None:
    lattice = parts[0][0]
    rounds = [1, 4, 30]
    asked = on_and_between(lattice.step, 4 * lattice.highest, 4)
    loosest: dict[float, float] = {}
    for share in (0.01, 0.1, 0.25, 0.5, 1.0, 1.7, 2.0, 10.0):
        found = bounds(parts, rounds, asked, tolerance=1e-9, width=share * lattice.spacing)
        assert found.width == share * lattice.spacing
        check(found, parts, rounds, asked)
        loosest[share] = float(np.max(brackets(found)[:, 1, : 3 * lattice.highest]))
    # Parts of the lattice are as good as itself: every loss lies on the grid.
    for share in (0.1, 0.25, 0.5, 1.0):
        assert loosest[share] <= 1e-10
    # Others are not, and the worse the wider.
    assert 0.01 < loosest[1.7] < loosest[10.0]
    assert 0.01 < loosest[2.0] < loosest[10.0]


@pytest.mark.parametrize("buckets", [4, 16, 1000])
def test_a_number_of_cells_gives_bounds(buckets: int) -> None:
    for parts in (PAIRS[0], PAIRS[7]):
        asked = on_and_between(parts[0][0].step, 3 * parts[0][0].highest, 4)
        found = bounds(parts, [1, 9], asked, tolerance=1e-3, buckets=buckets)
        check(found, parts, [1, 9], asked)
    # Of a loss without atoms: the more cells the better.
    counts: dict[ElementaryPair, int] = {Laplace(2.0): 1}
    few, more = (
        tight_bounds(counts, np.array([4]), np.array([0.1, 0.5]), Request(tolerance=1e-3, buckets=n))
        for n in (buckets, 4 * buckets)
    )
    assert more.width < few.width
    assert np.all(few.log_lower <= more.log_upper)
    assert np.all(more.log_lower <= few.log_upper)
    assert np.max(brackets(more)) < np.max(brackets(few))


def test_a_given_width_promises_nothing() -> None:
    found = tight_bounds({Laplace(1.0): 1}, np.array([3]), np.array([0.5]), Request(tolerance=1e-9, width=0.3))
    assert brackets(found)[0, 0, 0] > 1e-2
    assert found.width == 0.3


# -- what is shared, kept and refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "counts",
    [
        {RandomizedResponse(0.6): 2},
        {Laplace(1.5): 1, ApproximateDP(0.1, 1e-6): 1},
        {Gaussian(2.0): 1, Laplace(3.0): 1},
        {Gaussian(2.0): 3},
    ],
    ids=str,
)
def test_both_directions_of_symmetric_pairs_are_one(counts: dict[ElementaryPair, int]) -> None:
    found = tight_bounds(counts, np.array([1, 3]), np.array([0.0, 0.4]), Request(tolerance=1e-3))
    assert np.array_equal(found.log_lower[0], found.log_lower[1])
    assert np.array_equal(found.log_upper[0], found.log_upper[1])
    assert np.all(brackets(found) <= 1e-3)


def test_both_directions_of_others_are_two() -> None:
    counts: dict[ElementaryPair, int] = {SubsampledGaussian(1.0, 0.3): 1, RandomizedResponse(0.6): 1}
    found = tight_bounds(counts, np.array([2]), np.array([0.0, 0.8]), Request(tolerance=1e-3))
    # At ε = 0 both are the same number, the total variation; else not.
    assert found.log_lower[0, 0, 0] <= found.log_upper[1, 0, 0]
    assert found.log_lower[1, 0, 0] <= found.log_upper[0, 0, 0]
    assert found.log_lower[0, 0, 1] > found.log_upper[1, 0, 1]


def test_order_and_repeats_of_a_table() -> None:
    counts: dict[ElementaryPair, int] = {Laplace(3.0): 2}
    found = tight_bounds(counts, np.array([9, 1, 9]), np.array([0.5, 0.0, 0.5]), Request(tolerance=1e-3))
    assert np.all(brackets(found) <= 1e-3)
    assert np.allclose(found.log_lower[:, 0], found.log_lower[:, 2], rtol=0.0, atol=1e-3)
    assert np.allclose(found.log_upper[:, :, 0], found.log_upper[:, :, 2], rtol=0.0, atol=1e-3)
    assert np.all(found.log_lower[:, :, 1] > found.log_upper[:, :, 0])
    assert np.all(found.log_lower[:, 0] > found.log_upper[:, 1])


def test_no_more_than_everything() -> None:
    """δ is 1 at most, also for masses that sum to more."""
    found = tight_bounds({Gaussian(0.01): 1}, np.array([1, 50]), np.array([0.0]), Request(tolerance=1e-3))
    assert np.all(found.log_upper <= 0.0)
    over = Histogram([0.5, 0.5 + 5e-10], [0.5 + 5e-10, 0.5])
    limit = tight_bounds({over: 1}, np.array([1]), np.array([0.0]), Request(tolerance=1e-3))
    assert np.all(limit.log_upper <= 0.0)
    revealed = tight_bounds(
        {Histogram([1.0 + 5e-10, 0.0], [0.0, 1.0]): 1}, np.array([3]), np.array([2.0]), Request(tolerance=1e-3)
    )
    assert np.all(revealed.log_upper == 0.0)
    assert np.all(revealed.log_lower <= 0.0)
    assert np.all(revealed.log_lower >= -1e-3)


REFUSAL = re.compile(
    r"tolerance: expected upper / lower - 1 <= (?P<tolerance>\S+) for every r and ε, got (?P<got>\S+)"
    r" at r = (?P<r>\d+), ε = (?P<epsilon>\S+) \(ln δ between (?P<lower>\S+) and (?P<upper>\S+)\)"
    r" with loss buckets of (?P<width>\S+) nats; allow a larger tolerance,"
    r" or pass `factor` instead of a tolerance"
)


def test_what_is_refused_names_what_was_reached() -> None:
    """The worst point of the table, with the bounds that are returned where none are promised."""
    counts: dict[ElementaryPair, int] = {RandomizedResponse(0.50390625): 1}
    rounds, epsilon = np.array([1, 20]), np.array([0.0, 0.1, 0.29])
    arguments = {"tolerance": 1e-14}
    with pytest.raises(PrecisionError) as refused:
        tight_bounds(counts, rounds, epsilon, Request(**arguments))
    told = REFUSAL.fullmatch(str(refused.value))
    assert told is not None, str(refused.value)
    found = tight_bounds(counts, rounds, epsilon, Request(strict=False, **arguments))
    reached = brackets(found)
    # Of r = 1 nothing lies beyond the single loss: that is excused.
    worst = float(np.max(reached[np.isfinite(reached)]))
    assert float(told["tolerance"]) == 1e-14 < worst
    assert float(told["got"]) == pytest.approx(worst, rel=1e-2)
    row, column = rounds.tolist().index(int(told["r"])), epsilon.tolist().index(float(told["epsilon"]))
    assert reached[0, row, column] == worst
    assert float(told["lower"]) == pytest.approx(float(found.log_lower[0, row, column]), rel=1e-5)
    assert float(told["upper"]) == pytest.approx(float(found.log_upper[0, row, column]), rel=1e-5)
    assert float(told["width"]) == pytest.approx(found.width, rel=1e-2)
    check(found, [(response(0.50390625), 1)], [1, 20], [0.0, 0.1, 0.29])


@pytest.mark.parametrize(
    ("pair", "epsilon", "tolerance", "reached"),
    [
        (Laplace(2.0), 0.3, 1e-15, 1e-9),
        (Histogram([7, 5, 3], [3, 4, 8]), 0.2, 1e-15, 1e-9),
        (Laplace(1e12), 1e-13, 1e-3, 0.2),
    ],
    ids=str,
)
def test_what_is_not_promised_is_returned(
    pair: ElementaryPair, epsilon: float, tolerance: float, reached: float
) -> None:
    """Tolerances beyond what float64 tells."""
    one, asked = np.array([1]), np.array([epsilon])
    with pytest.raises(PrecisionError, match=r"^tolerance: expected upper / lower - 1 <= "):
        tight_bounds({pair: 1}, one, asked, Request(tolerance=tolerance))
    found = tight_bounds({pair: 1}, one, asked, Request(tolerance=tolerance, strict=False))
    assert tolerance < np.max(brackets(found)) <= reached
    usual = tight_bounds({pair: 1}, one, asked, Request(tolerance=0.2))
    assert np.all(usual.log_lower <= found.log_upper)
    assert np.all(found.log_lower <= usual.log_upper)


# -- counts ----------------------------------------------------------------------------------------------------


def test_factors_are_counted() -> None:
    a, b, c = Laplace(1.0), Gaussian(2.0), RandomizedResponse(0.3)
    counted = factor_counts([(Product(a, b, a), 3), (b, 2), (Product(Product(c, a), b), 5), (Laplace(1), 7)])
    assert counted == {a: 3 * 2 + 5 + 7, b: 3 + 2 + 5, c: 5}
    assert list(counted) == [a, b, c]
    assert factor_counts([]) == {}
    assert factor_counts([(c, 2**62)]) == {c: 2**62}


@pytest.mark.parametrize(
    ("components", "counts"),
    [
        ([(Product(Laplace(2.0), RandomizedResponse(0.6)), 2)], {RandomizedResponse(0.6): 2, Laplace(2.0): 2}),
        ([(RandomizedResponse(0.75), 1), (RandomizedResponse(0.75), 5)], {RandomizedResponse(0.75): 6}),
    ],
    ids=str,
)
def test_one_round_however_it_is_told(
    components: Sequence[tuple[Pair, int]], counts: dict[ElementaryPair, int]
) -> None:
    asked = np.array([0.0, 0.7])
    one, other = (
        tight_bounds(each, np.array([1, 4]), asked, Request(tolerance=1e-3))
        for each in (factor_counts(components), counts)
    )
    assert np.all(one.log_lower <= other.log_upper)
    assert np.all(other.log_lower <= one.log_upper)
    assert np.all(brackets(one) <= 1e-3)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_a_count_is_as_many_rounds(count: int) -> None:
    """n of a pair in a round, r rounds: as n r rounds of one."""
    lattice = PAIRS[7][0][0]
    asked = on_and_between(lattice.step, 8 * lattice.highest, 5)
    found = tight_bounds({lattice.pair: count}, np.array([1, 24 // count]), np.array(asked), Request(tolerance=1e-3))
    check(found, [(lattice, count)], [1, 24 // count], asked)
    check(found, [(lattice, 1)], [count, 24], asked)


@pytest.mark.parametrize("epsilon", [1e205, 1e250])
def test_no_loss_is_so_large_that_nothing_is_left_of_unbounded_ones(epsilon: float) -> None:
    """What stands for no limit of the losses is no limit: δ is above 0, however little of it there is."""
    pair = SubsampledGaussian(4.0, 0.01)
    with np.errstate(over="ignore", invalid="ignore"):
        found = tight_bounds({pair: 1}, np.array([1]), np.array([epsilon]), Request(tolerance=1e-3, strict=False))
    assert np.all(found.log_upper[0] > -np.inf)


def test_a_lattice_gets_a_pass_for_a_point_of_its_own() -> None:
    """Next to the largest loss a tilt that serves others, too, does not do."""
    asked = np.linspace(0.0, 219.0, 16)
    found = tight_bounds({RandomizedResponse(0.75): 1}, np.array([200]), asked, Request(tolerance=1e-3))
    assert np.all(found.log_upper - found.log_lower <= math.log1p(1e-3))


def test_losses_of_thousands_of_nats_tell_everything() -> None:
    """A sees 100 and 101, B 102 and 103, but for e^-1000."""
    pair = NoisyCount(Laplace(1e-3), 100.0, 2)
    found = bounds_table([(pair, 1)], compositions=[1, 1000], epsilon=[0.69])
    assert np.all(found.delta_lower <= 1.0)
    assert np.all(found.delta_lower >= 1.0 - 1e-8)
    assert np.all(found.delta_upper >= 1.0 - 1e-300)


def test_losses_are_pictured_once_for_all_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def profile(pair: ElementaryPair, target: float, rare: float, beyond: float, *, rough: bool) -> LossProfile:
        seen.append(pair)
        return loss_profile(pair, target, rare, beyond, rough=rough)

    monkeypatch.setattr(question, "loss_profile", profile)
    tight_bounds({Laplace(10.0): 1}, np.array([1, 50]), np.array([0.05]), Request(tolerance=1e-2, floor=1e-40))
    assert len(seen) == 1


def test_a_last_row_that_transforms_bound_leaves_nothing_to_a_ladder() -> None:
    """A slow row makes a ladder worth a thought, of which there is none when every row is bounded."""
    rounds, asked = 64 << np.arange(6), np.geomspace(0.05, 20.0, 61)
    request = Request(tolerance=1e-3, floor=1e-20)
    found = tight_bounds({SubsampledGaussian(0.5065144398, 0.001): 1}, rounds, asked, request)
    assert np.all(found.log_lower <= found.log_upper)
