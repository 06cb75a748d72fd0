"""What a few bounds on a convex function say of all of it, against exact rational values."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pbdist.query.convex_delta import Curve, log_above, log_below
from tests import strategies
from tests.oracles.truth import bracketed_exp, brackets_log

GRID = np.array([0.0, 0.1, 0.3, 0.35, 1.0, 2.5])


def delta(outcomes: list[tuple[int, int]], epsilon: float) -> tuple[Fraction, Fraction]:
    """Rational numbers around δ, at most 1, by Σ max(0, a - e^ε b) of masses in thousandths, which may exceed 1."""
    below, above = bracketed_exp(epsilon)
    # Next to 0 that bracket, of some 60 digits, reaches below 1.
    below = max(below, 1 + Fraction(epsilon))
    sums = (sum((max(Fraction(0), (a - y * b) / 1000) for a, b in outcomes), Fraction(0)) for y in (above, below))
    return tuple(min(each, Fraction(1)) for each in sums)  # type: ignore[return-value]


def stored(outcomes: list[tuple[int, int]], widths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of lower and upper bounds on the grid, of different widths, as a store has them: at most 0."""
    values = [delta(outcomes, float(epsilon)) for epsilon in GRID]
    lower = log_below(np.array([math.nextafter(float(low), 0.0) for low, _ in values]) * (1 - widths))
    upper = log_above(np.array([math.nextafter(float(high), 9.0) for _, high in values]) * (1 + widths))
    return np.minimum(lower, 0.0), np.minimum(upper, 0.0)


@strategies.examples(300)
@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), min_size=1, max_size=5),
    st.lists(st.sampled_from([0.0, 1e-9, 1e-3, 0.5]), min_size=6, max_size=6),
    st.lists(st.one_of(st.floats(0.0, 4.0), st.sampled_from(GRID.tolist())), min_size=1, max_size=8),
    st.integers(1, 63),
    st.integers(1, 63),
)
@example([(1, 1)], [0.0] * 6, [2.225073858507203e-309], 1, 1)
@example([(201, 0), (400, 0), (400, 0)], [0.0] * 6, [0.0], 1, 1)
@example([(400, 300)] * 5, [0.0] * 6, [0.0, 0.1, 0.2], 9, 9)
def test_bounds_hold_between_and_beyond_the_points(
    outcomes: list[tuple[int, int]], widths: list[float], asked: list[float], with_lower: int, with_upper: int
) -> None:
    lower, upper = stored(outcomes, np.array(widths))
    low, high = (np.array([bool(mask >> i & 1) for i in range(6)]) for mask in (with_lower, with_upper))
    mass = Fraction(sum(a for a, _ in outcomes), 1000)
    log_mass = float(log_above(np.array([float(mass)]))[0]) if mass else 0.0
    curve = Curve(GRID[high], upper[high], GRID[low], lower[low], log_mass)
    epsilon = np.array(asked)
    below, above = curve.log_lower(epsilon), curve.log_upper(epsilon)
    for value, log_lower, log_upper in zip(asked, below.tolist(), above.tolist(), strict=True):
        assert brackets_log(log_lower, log_upper, delta(outcomes, value)), (value, log_lower, log_upper)
    for log_delta in (-0.3, -1.0, -3.0):
        given_delta = np.array([log_delta])
        most, least = curve.epsilon_upper(given_delta), curve.epsilon_lower(given_delta)
        if np.isfinite(most[0]):
            assert curve.log_upper(most)[0] <= log_delta
        assert least[0] == 0.0 or curve.log_lower(least)[0] > log_delta
        assert least[0] <= most[0]


def test_the_answers_at_the_points_are_the_points() -> None:
    logs = -3.0 - 400.0 * GRID
    curve = Curve(GRID, logs, GRID, logs - 1e-3)
    np.testing.assert_array_equal(curve.log_upper(GRID), logs)
    np.testing.assert_array_equal(curve.log_lower(GRID), logs - 1e-3)
    # Beyond the last one the upper bound stays, and the line through the last two is continued.
    assert curve.log_upper(np.array([1e6]))[0] == -1003.0
    assert curve.log_lower(np.array([1e6]))[0] == -np.inf


def test_straight_lines_in_the_exponential_of_epsilon() -> None:
    # δ = max(0, 1 - e^ε / 4): lines are met exactly, but for rounding.
    grid = np.log([1.0, 2.0, 3.0, 3.5])
    logs = np.log([0.75, 0.5, 0.25, 0.125])
    curve = Curve(grid, log_above(np.exp(logs)), grid, log_below(np.exp(logs)))
    epsilon = np.log([1.5, 2.2, 3.2, 3.75, 3.99])
    truth = np.log(1.0 - np.exp(epsilon) / 4.0)
    np.testing.assert_allclose(curve.log_lower(epsilon), truth, rtol=1e-12)
    np.testing.assert_allclose(curve.log_upper(epsilon)[:3], truth[:3], rtol=1e-12)
    assert curve.log_lower(np.array([math.log(4.5)]))[0] == -np.inf
    wanted = np.log([0.6, 0.3, 0.2])
    np.testing.assert_allclose(np.exp(curve.epsilon_upper(wanted)), [1.6, 2.8, 3.2], rtol=1e-9)
    np.testing.assert_allclose(
        np.exp(curve.epsilon_lower(np.append(wanted, math.log(0.05)))), [1.6, 2.8, 3.2, 3.8], rtol=1e-9
    )
    assert curve.epsilon_upper(np.array([math.log(0.05)]))[0] == np.inf


def test_far_below_what_floats_hold() -> None:
    grid, logs = np.array([700.0, 1500.0, 1501.0]), np.array([-800.0, -3000.0, -3010.0])
    curve = Curve(grid, logs, grid, logs - 0.01)
    found = curve.log_upper(np.array([0.0, 699.0, 1000.0, 1500.5, 2000.0]))
    assert found[0] <= 0.0
    # The straight line from 1 at e^ε = 0: 1 - e^-1 of the way at 699.
    assert found[1] == pytest.approx(math.log1p(-math.exp(-1.0)), rel=1e-10)
    assert found[2] == pytest.approx(-800.0, abs=1e-9)
    assert -3000.5 < found[3] < -3000.0
    assert found[4] == -3010.0
    assert np.all(curve.log_lower(np.array([0.0, 699.0, 1500.5])) <= curve.log_upper(np.array([0.0, 699.0, 1500.5])))


def test_a_bad_point_is_cut_off_by_a_line_past_it() -> None:
    grid = np.array([0.0, 0.1, 0.2])
    curve = Curve(grid, np.log([0.5, 0.49, 0.3]), grid, np.log([0.499, 0.2, 0.299]))
    without = Curve(grid[[0, 2]], np.log([0.5, 0.3]), grid[[0, 2]], np.log([0.499, 0.299]))
    epsilon = np.linspace(0.0, 0.2, 21)
    np.testing.assert_array_equal(curve.log_upper(epsilon), without.log_upper(epsilon))
    assert np.all(curve.log_lower(epsilon) >= without.log_lower(epsilon))


def test_no_points_say_nothing() -> None:
    none = np.empty(0)
    curve = Curve(none, none, none, none)
    asked = np.array([0.0, 2.0])
    np.testing.assert_array_equal(curve.log_upper(asked), [0.0, 0.0])
    np.testing.assert_array_equal(curve.log_lower(asked), [-np.inf, -np.inf])
    np.testing.assert_array_equal(curve.epsilon_upper(np.array([-1.0])), [np.inf])
    np.testing.assert_array_equal(curve.epsilon_lower(np.array([-1.0])), [0.0])
