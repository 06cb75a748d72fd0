"""Rényi divergences against closed forms and exact sums."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist import (
    ApproximateDP,
    DiscreteGaussian,
    Gaussian,
    Histogram,
    InvalidInputError,
    Laplace,
    NoisyCount,
    Poisson,
    PrecisionError,
    Product,
    RandomizedResponse,
    SubsampledGaussian,
)
from pbdist.curves.renyi import renyi_table
from pbdist.mechanisms import MassBounds, Reversed
from pbdist.renyi import divergence_bounds
from pbdist.renyi.divergence import LogMasses, Order, bin_terms_above, terms_below
from pbdist.table import bounds_table
from pbdist.types import Direction
from pipelines.figures.formulas import state_renyi_bounds
from tests.oracles.curve_truth import divergence, finite_divergence
from tests.oracles.truth import histogram
from tests.strategies import CountedPair, counted_pairs, examples

ORDERS = (1.0, 1.000001, 1.01, 1.5, 2.0, 3.0, 8.0, 32.0, 256.0)


@pytest.mark.parametrize(
    "pair",
    [
        Gaussian(20.0),
        Gaussian(0.2, 3.0),
        Gaussian(1e8),
        Gaussian(0.05),
        Laplace(20.0),
        Laplace(0.01),
        Laplace(1e6),
        RandomizedResponse(0.6),
        RandomizedResponse(0.5 + 1e-7),
        RandomizedResponse(1e-280),
        RandomizedResponse(1.0 - 2.0**-53),
    ],
    ids=repr,
)
def test_closed_forms(pair) -> None:
    for order in ORDERS:
        exact = divergence(pair, order)
        for direction in Direction:
            lower, upper = divergence_bounds(pair, order, direction, 1e-3)
            assert lower <= exact <= upper <= lower * 1.001, (order, direction)


@pytest.mark.parametrize("pair", [Gaussian(3.0), Laplace(20.0), Laplace(0.2), RandomizedResponse(0.6)], ids=repr)
def test_closed_forms_to_a_millionth(pair) -> None:
    for order in (1.0, 1.5, 2.0, 32.0):
        lower, upper = divergence_bounds(pair, order, Direction.A_TO_B, 1e-6)
        assert lower <= divergence(pair, order) <= upper <= lower * (1.0 + 1e-6), order


@pytest.mark.parametrize(
    "pair",
    [
        SubsampledGaussian(4.0, 0.01),
        SubsampledGaussian(1.0, 1e-5),
        SubsampledGaussian(0.5, 0.3),
        SubsampledGaussian(2.0, 1.0),
    ],
    ids=repr,
)
def test_subsampled_noise_against_the_binomial_sum(pair: SubsampledGaussian) -> None:
    for order in (2.0, 3.0, 8.0, 32.0, 256.0):
        lower, upper = divergence_bounds(pair, order, Direction.A_TO_B, 1e-3)
        assert lower <= divergence(pair, order) <= upper <= lower * 1.001, order


@pytest.mark.slow
@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("order", [1.0, 1.5, 4.25])
def test_subsampled_noise_against_an_integral(order: float, direction: Direction) -> None:
    pair = SubsampledGaussian(1.5, 0.2)
    with mpmath.workdps(30):
        q, scale, alpha = mpmath.mpf(pair.rate), mpmath.mpf(pair.scale), mpmath.mpf(order)

        def masses(x: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
            b = mpmath.npdf(x, 0, scale)
            a = (1 - q) * b + q * mpmath.npdf(x, 1, scale)
            return (a, b) if direction is Direction.A_TO_B else (b, a)

        def term(x: mpmath.mpf) -> mpmath.mpf:
            a, b = masses(x)
            return a * mpmath.log(a / b) if order == 1.0 else a**alpha * b ** (1 - alpha)

        total = mpmath.quad(term, mpmath.linspace(-24, 30, 19))
        exact = total if order == 1.0 else mpmath.log(total) / (alpha - 1)
    lower, upper = divergence_bounds(pair, order, direction, 1e-4)
    assert lower <= exact <= upper <= lower * 1.0001


@given(counted_pairs(), st.sampled_from(ORDERS), st.integers(1, 1000))
@examples(150)
def test_histograms_against_their_sums(pair: CountedPair, order: float, r: int) -> None:
    sides = list(zip(pair.p, pair.q, strict=True)), list(zip(pair.q, pair.p, strict=True))
    try:
        table = renyi_table([(histogram(pair), 1)], compositions=r, order=order, tolerance=1e-2)
    except PrecisionError:
        # Divergences next to nothing, of counts in the billions.
        assert min(finite_divergence(side, order) for side in sides) < 1e-8 * order
        return
    for axis, side in enumerate(sides):
        exact = r * finite_divergence(side, order)
        # Where nothing differs, the exact sum is 0 but for mpmath's rounding.
        assert table.lower[axis, 0, 0] <= exact + mpmath.mpf("1e-45")
        assert exact <= table.upper[axis, 0, 0]


def test_masses_that_do_not_sum_to_one() -> None:
    for p, q in (((0.5, 0.5 + 9e-10), (0.2, 0.8)), ((0.5, 0.5), (0.5, 0.5 - 9e-10)), ((0.1, 0.9), (0.1, 0.9 + 8e-10))):
        one = [(Fraction(a), Fraction(b)) for a, b in zip(p, q, strict=True)]
        for order in ORDERS:
            for pair, side in ((Histogram(p, q), one), (Reversed(Histogram(q, p)), one)):
                try:
                    lower, upper = divergence_bounds(pair, order, Direction.A_TO_B, 1e-3)
                except PrecisionError:
                    assert abs(finite_divergence(side, order)) < 1e-6
                    continue
                assert lower <= finite_divergence(side, order) <= upper


def test_sums_of_rounds_and_of_factors() -> None:
    response, noise = RandomizedResponse(0.7), Gaussian(3.0)
    table = renyi_table(
        [(Product(response, noise), 2), (noise, 1)], compositions=[1, 10**6], order=[1.0, 4.0], tolerance=1e-4
    )
    for row, r in enumerate((1, 10**6)):
        for column, order in enumerate((1.0, 4.0)):
            exact = r * (2 * divergence(response, order) + 3 * divergence(noise, order))
            for axis in range(2):
                assert table.lower[axis, row, column] <= exact <= table.upper[axis, row, column]


def test_infinite_where_the_input_is_revealed() -> None:
    for pair in (ApproximateDP(0.1, 1e-9), Gaussian(5.0, truncate=(-9.0, 9.0)), NoisyCount(Laplace(9.0), 50.0, 2)):
        for order in (1.0, 2.0):
            assert divergence_bounds(pair, order, Direction.A_TO_B, 1e-3) == (math.inf, math.inf)
    backwards = divergence_bounds(NoisyCount(Laplace(9.0), 50.0, 2), 2.0, Direction.B_TO_A, 1e-3)
    assert 0.0 < backwards[0] <= backwards[1] < math.inf
    # What underflows may be there or not.
    with pytest.raises(PrecisionError, match=r"of order 2\.0 of .*, A\|\|B, lies between .* and inf"):
        divergence_bounds(Histogram([1e-300, 0.5, 0.5], [0.0, 0.4, 0.6]), 2.0, Direction.A_TO_B, 1e-3)


def test_no_divergence_at_all() -> None:
    for order in ORDERS:
        lower, upper = divergence_bounds(RandomizedResponse(0.5), order, Direction.A_TO_B, 1e-3)
        assert lower <= 0.0 <= upper < 1e-24


@pytest.mark.parametrize("order", [0.5, 1.0 + 1e-9, math.nan, math.inf, "two", [[1.0]], []])
def test_orders_that_are_refused(order: object) -> None:
    with pytest.raises(InvalidInputError, match="order: "):
        renyi_table([(Gaussian(1.0), 1)], compositions=1, order=order, tolerance=1e-3)


_WEIGHTS = st.lists(st.tuples(st.floats(-1.0, 1.0), st.floats(1e-6, 1.0)), min_size=1, max_size=5)


@given(_WEIGHTS, st.floats(-3.0, 3.0), st.floats(1e-9, 2.0), st.sampled_from(ORDERS))
@examples(300)
def test_a_bin_of_any_events(events: list, start: float, width: float, order: float) -> None:
    """Events of losses within a bin, in mpmath: their contribution lies between the bounds from their masses."""
    with mpmath.workdps(50):
        alpha, total, a_mass, b_mass = mpmath.mpf(order), mpmath.mpf(0), mpmath.mpf(0), mpmath.mpf(0)
        for place, weight in events:
            loss = mpmath.mpf(start) + mpmath.mpf(width) * (mpmath.mpf(place) + 1) / 2
            b, x = mpmath.mpf(weight), mpmath.exp(loss)
            total += b * ((x * loss - x + 1) if order == 1.0 else x**alpha - 1 - alpha * (x - 1))
            a_mass, b_mass = a_mass + b * x, b_mass + b
        ends = [
            np.array([float(mass * (1 + side * mpmath.mpf(2) ** -52))]) for mass in (a_mass, b_mass) for side in (-1, 1)
        ]
    masses = LogMasses.of(MassBounds(ends[0], ends[1]), MassBounds(ends[2], ends[3]))
    size = Order(order, 600.0 if order == 256.0 else 0.0)
    unit = mpmath.exp(size.log_unit)
    low, high = np.array([start - 1e-12]), np.array([start + width + 1e-12])
    assert float(terms_below(size, masses)[0]) * unit <= total
    assert total <= mpmath.mpf(float(bin_terms_above(size, masses, low, high)[0])) * unit + mpmath.mpf("1e-280")


@pytest.mark.parametrize("factor", [1.01, 1.2])
@pytest.mark.parametrize(
    "pair",
    [RandomizedResponse(0.6), Laplace(5.0), Gaussian(4.0), Histogram([1, 0, 5, 4], [2, 1, 3, 4])],
    ids=repr,
)
def test_bucket_lists(pair, factor: float) -> None:
    rounds, orders = (1, 2, 4, 7, 16), np.array([1.0, 1.5, 2.0, 8.0, 64.0])
    table = bounds_table(
        [(pair, 1)], compositions=rounds, epsilon=0.0, method="buckets", buckets=400, factor=factor, keep_states=True
    )
    finite = 0
    for direction in Direction:
        for r in rounds:
            lower, upper = state_renyi_bounds(table.states[direction, r], orders)
            for place, order in enumerate(orders.tolist()):
                if isinstance(pair, Histogram):
                    sides = [tuple(Fraction(value, 10) for value in side) for side in (pair.p, pair.q)]
                    order_of = sides if direction is Direction.A_TO_B else sides[::-1]
                    exact = finite_divergence(list(zip(*order_of, strict=True)), order)
                else:
                    exact = divergence(pair, order)
                assert lower[place] <= r * exact <= upper[place], (direction, r, order)
                assert lower[place] > -1e-9
                finite += upper[place] < math.inf
    if isinstance(pair, RandomizedResponse | Laplace) and factor == 1.2:
        assert finite > 20


def _count_masses(pair) -> list[tuple[mpmath.mpf, mpmath.mpf]]:
    """Masses of whole-numbered noise, far beyond what float64 resolves."""
    if isinstance(pair, Poisson):
        mean, s = mpmath.mpf(pair.mean), pair.sensitivity
        noise = [mpmath.exp(-mean)]
        for k in range(1, int(12 * pair.mean) + 400):
            noise.append(noise[-1] * mean / k)
        return [(noise[k], noise[k - s] if k >= s else mpmath.mpf(0)) for k in range(len(noise))]
    if isinstance(pair, DiscreteGaussian):
        scale, s = mpmath.mpf(pair.scale), pair.sensitivity
        reach = int(80 * pair.scale) + 80
        noise = {k: mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * scale**2)) for k in range(-reach - s, reach + s + 1)}
        total = mpmath.fsum(noise.values())
        return [(noise[k] / total, noise[k - s] / total) for k in range(-reach, reach + 1)]
    mean, scale, s = mpmath.mpf(pair.mean), mpmath.mpf(pair.noise.scale) * mpmath.sqrt(2), pair.shift

    def draws(low: float, high: float) -> mpmath.mpf:
        """Mass of draws, from the side on which nothing cancels."""
        side = -1 if high <= pair.mean else 1
        ends = sorted(side * (mpmath.mpf(end) - mean) / scale for end in (low, high))
        return (mpmath.erfc(ends[0]) - mpmath.erfc(ends[1])) / 2

    last = int(pair.mean + 60 * pair.noise.scale)
    if pair.reading == "clamp-and-ceil":
        noise = [draws(-math.inf, 0), *(draws(k - 1, k) for k in range(1, last))]
    else:
        noise = [draws(k, k + 1) / draws(0, math.inf) for k in range(last)]
    return [(noise[k], noise[k - s] if k >= s else mpmath.mpf(0)) for k in range(last)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "pair",
    [
        Poisson(3.0),
        Poisson(40.0, 3),
        DiscreteGaussian(0.6),
        DiscreteGaussian(7.0, 3),
        NoisyCount(Gaussian(2.0), 5.0, 1),
        NoisyCount(Gaussian(1.5), 70.0, 2),
        NoisyCount(Gaussian(3.0), 9.0, 2, "redraw-and-floor"),
    ],
    ids=repr,
)
def test_counts_that_never_end(pair) -> None:
    with mpmath.workdps(50):
        masses = [(b, a) for a, b in _count_masses(pair) if b]
        for order in (1.0, 1.5, 2.0, 6.0):
            alpha = mpmath.mpf(order)
            if order == 1.0:
                exact = mpmath.fsum(a * mpmath.log(a / b) for a, b in masses)
            else:
                exact = mpmath.log(mpmath.fsum(a**alpha * b ** (1 - alpha) for a, b in masses)) / (alpha - 1)
            lower, upper = divergence_bounds(pair, order, Direction.B_TO_A, 1e-3)
            assert lower <= exact <= upper, order
            reversed_pair = divergence_bounds(Reversed(pair), order, Direction.A_TO_B, 1e-3)
            assert reversed_pair == (lower, upper)
    if not isinstance(pair, DiscreteGaussian):
        assert divergence_bounds(pair, 2.0, Direction.A_TO_B, 1e-3) == (math.inf, math.inf)
