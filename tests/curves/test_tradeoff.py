"""Trade-off curves against Neyman and Pearson in exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist import ApproximateDP, Gaussian, Histogram, NoisyCount, PrecisionError, RandomizedResponse
from pbdist.curves.tradeoff import SupportCurve, wholes_of
from pbdist.curves.tradeoff_table import total_variation_table, tradeoff_table
from pbdist.mechanisms import Laplace, Reversed
from pbdist.types import Direction
from tests.oracles import exact_truth
from tests.oracles.curve_truth import composed, gaussian_type_two, response_outcomes, smallest_type_two, swapped
from tests.oracles.truth import bracketed_exp, histogram
from tests.strategies import CountedPair, counted_pairs, examples

ERRORS = (0.0, 1e-12, 1e-4, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999, 1.0)


def rounded_bounds(value: Fraction) -> tuple[float, float]:
    nearest = float(value)
    return max(0.0, math.nextafter(nearest, -math.inf)), math.nextafter(nearest, math.inf)


@given(
    counted_pairs(),
    st.integers(1, 4),
    st.lists(st.floats(0.0, 8.0), min_size=1, max_size=12, unique=True),
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4),
    st.floats(0.0, 0.2),
)
@examples(150)
def test_any_epsilon_bound_any_curve(pair: CountedPair, r: int, losses: list, alphas: list, width: float) -> None:
    table = exact_truth.composed_outcomes([(pair.table, r)])
    epsilon = np.sort(np.array(losses))
    lower, upper = (np.zeros((2, epsilon.size)) for _ in range(2))
    for axis, direction in enumerate(Direction):
        for place, value in enumerate(epsilon.tolist()):
            below, above = bracketed_exp(value)
            lower[axis, place] = rounded_bounds(exact_truth.table_hockey_stick(table, above, direction))[0]
            upper[axis, place] = rounded_bounds(exact_truth.table_hockey_stick(table, below, direction))[1]
    # Looser bounds are bounds.
    lower[:, ::2] *= 1.0 - width
    upper[:, 1::2] = np.minimum(upper[:, 1::2] * (1.0 + width), 1.0)
    wholes = wholes_of([(histogram(pair), 1)], r)
    outcomes = composed(list(zip(pair.p, pair.q, strict=True)), r)
    alpha = np.array([*alphas, 0.0, 1.0])
    for test, sides in ((Direction.A_TO_B, outcomes), (Direction.B_TO_A, swapped(outcomes))):
        curve = SupportCurve.from_deltas(epsilon, test, lower, upper, wholes)
        below, above = curve.lower_bound(alpha)[0], curve.upper_bound(alpha)[0]
        for value, least, most in zip(alpha.tolist(), below.tolist(), above.tolist(), strict=True):
            exact = smallest_type_two(sides, value)
            assert Fraction(least) <= exact <= Fraction(most), (pair, r, value)


@pytest.mark.parametrize(("p", "r"), [(0.6, 1), (0.75, 3), (0.52, 40), (0.9, 6), (0.999, 2), (0.5, 4), (1.0, 2)])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-5])
def test_randomized_response_against_fractions(p: float, r: int, tolerance: float) -> None:
    table = tradeoff_table([(RandomizedResponse(p), 1)], compositions=r, type_one_error=ERRORS, tolerance=tolerance)
    outcomes = response_outcomes(p, r)
    assert float(np.max(table.upper - table.lower)) <= tolerance
    for place, alpha in enumerate(ERRORS):
        exact = smallest_type_two(outcomes, alpha)
        for axis in range(2):
            assert Fraction(table.lower[axis, 0, place]) <= exact <= Fraction(table.upper[axis, 0, place])


@pytest.mark.slow
def test_gaussian_against_the_closed_form() -> None:
    random = np.random.default_rng(5)
    compared = 0
    for scale in (0.3, 1.0, 2.5, 10.0, 60.0, 3000.0):
        alpha = np.sort(np.concatenate(([0.0, 1e-9, 1.0 - 1e-9, 1.0], random.uniform(size=36))))
        for tolerance in (1e-3, 1e-6):
            table = tradeoff_table(
                [(Gaussian(scale), 1)], compositions=[1, 7, 64], type_one_error=alpha, tolerance=tolerance
            )
            for row, r in enumerate((1, 7, 64)):
                for place, value in enumerate(alpha.tolist()):
                    exact = gaussian_type_two(scale, r, value)
                    assert table.lower[0, row, place] <= exact <= table.upper[0, row, place], (scale, r, value)
                    assert table.upper[0, row, place] - table.lower[0, row, place] <= tolerance
                    compared += 1
    assert compared == 6 * 2 * 3 * 40


@given(counted_pairs(), st.integers(1, 3), st.lists(st.floats(0.0, 1.0), min_size=1, max_size=3))
@examples(12)
def test_tables_of_histograms_against_fractions(pair: CountedPair, r: int, alphas: list) -> None:
    table = tradeoff_table([(histogram(pair), 1)], compositions=r, type_one_error=alphas, tolerance=1e-2)
    outcomes = composed(list(zip(pair.p, pair.q, strict=True)), r)
    for axis, sides in enumerate((outcomes, swapped(outcomes))):
        for place, alpha in enumerate(alphas):
            exact = smallest_type_two(sides, alpha)
            assert Fraction(table.lower[axis, 0, place]) <= exact <= Fraction(table.upper[axis, 0, place])


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("p", "q"),
    [
        ((0.5, 0.5 + 9e-10), (0.2, 0.8)),
        ((0.5, 0.5 - 9e-10), (0.2, 0.8 + 5e-10)),
        ((0.7, 0.3, 9e-10), (0.1, 0.9 + 9e-10, 0.0)),
    ],
)
def test_masses_that_do_not_sum_to_one(p: tuple[float, ...], q: tuple[float, ...], reverse: bool) -> None:
    pair = Reversed(Histogram(p, q)) if reverse else Histogram(p, q)
    one = [(Fraction(a), Fraction(b)) for a, b in zip(p, q, strict=True)]
    alphas = [0.0, 1e-10, 0.1, 0.5, 1.0 - 1e-10, 1.0]
    for r in (1, 5):
        table = tradeoff_table([(pair, 1)], compositions=r, type_one_error=alphas, tolerance=1e-4)
        distance = total_variation_table([(pair, 1)], compositions=r, tolerance=1e-4)
        outcomes = composed(swapped(one) if reverse else one, r)
        for axis, sides in enumerate((outcomes, swapped(outcomes))):
            for place, alpha in enumerate(alphas):
                # No error is more than 1, nor is a distance.
                exact = min(smallest_type_two(sides, alpha), Fraction(1))
                assert Fraction(table.lower[axis, 0, place]) <= exact <= Fraction(table.upper[axis, 0, place])
            variation = min(sum(max(a - b, Fraction(0)) for a, b in sides), Fraction(1))
            assert Fraction(distance.lower[axis, 0, 0]) <= variation <= Fraction(distance.upper[axis, 0, 0])


def test_what_reveals_the_input_is_missed_by_no_test() -> None:
    pair = ApproximateDP(0.1, 0.01)
    table = tradeoff_table([(pair, 2)], compositions=3, type_one_error=0.0, tolerance=1e-6)
    exact = Fraction(99, 100) ** 6
    assert table.lower[0, 0, 0] <= exact <= table.upper[0, 0, 0]
    assert table.upper[0, 0, 0] - table.lower[0, 0, 0] < 1e-12
    count = NoisyCount(Laplace(2.0), 4.0, 1)
    known = wholes_of([(count, 1)], 1)
    assert known[Direction.B_TO_A].alone_upper == 0.0
    assert known[Direction.A_TO_B].alone_lower == pytest.approx(0.5 * math.exp(-2.0), rel=1e-12)


@pytest.mark.slow
def test_a_tolerance_out_of_reach_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pbdist.curves.tradeoff_table._STATE_FRACTIONS", ())
    monkeypatch.setattr("pbdist.curves.tradeoff_table._CUTS", 1)
    with pytest.raises(PrecisionError, match="for the trade-off curve after 8 compositions, got "):
        tradeoff_table([(Laplace(2.0), 1)], compositions=8, type_one_error=[0.1, 0.5], tolerance=1e-6)
