"""What the tight method adds for rounding, term by term, against fifty digits."""

import math
import random
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist.fourier.transform import good_length
from pbdist.mechanisms import Histogram, LossMasses, MassBounds, RandomizedResponse, ScaledLossMasses
from pbdist.pld import many_rounds
from pbdist.pld.closed_form import _log_narrow, _log_revealed, log_some_infinite
from pbdist.pld.engine import _Table, delta_above, delta_below, log_above, log_below
from pbdist.pld.fallback import _log_bound, _with_error
from pbdist.pld.few_frequencies import (
    _SHORT,
    _low,
    _Moments,
    _seen,
    _squares,
    _summed,
    _window,
    few_frequencies,
    largest_factor,
    log_finite_lower,
    log_finite_upper,
)
from pbdist.pld.inversion import _crossings_near, _Search
from pbdist.pld.lattice import Dominating, Exact
from pbdist.pld.leaf import Bins, Lattice, _beyond, leaf_state, split_bins
from pbdist.pld.loss_transform import TransformLine
from pbdist.pld.many_rounds import Composition, Tilt, point_reader
from pbdist.pld.question import Question, Shared
from pbdist.pld.state import Masses, PairState, _suffix_sums, _terms, lower_deltas, product, upper_deltas
from pbdist.types import Direction, FloatArray
from tests.pld.test_few_frequencies import dyadic, leaf_of
from tests.pld.transforms import subsampled

A_TO_B, B_TO_A = Direction


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(50):
        yield


def mpf(values: FloatArray) -> list[mpmath.mpf]:
    return [mpmath.mpf(value) for value in values.tolist()]


def question(pair: Histogram | RandomizedResponse, rounds: int, epsilon: list[float]) -> Question:
    return Question({pair: 1}, np.array([rounds]), np.array(epsilon), 1e-3, 0.0, False)


# -- logarithms ----------------------------------------------------------------------------------------------------


def test_logarithms_of_delta_are_rounded_outwards() -> None:
    deltas = np.exp(np.random.default_rng(0).uniform(-700.0, 0.0, 200))
    for value, below, above in zip(mpf(deltas), mpf(log_below(deltas)), mpf(log_above(deltas)), strict=True):
        assert below < mpmath.log(value) < above


def test_delta_of_a_logarithm_is_rounded_outwards() -> None:
    random = np.random.default_rng(0)
    logs = np.concatenate((random.uniform(-2.0, 0.0, 100), random.uniform(-760.0, -700.0, 100)))
    for value, below, above in zip(mpf(logs), mpf(delta_below(logs)), mpf(delta_above(logs)), strict=True):
        assert below <= mpmath.exp(value) <= above


def test_bounds_are_handed_on_in_the_direction_in_which_delta_falls() -> None:
    table = _Table(question(RandomizedResponse(0.75), 1, [0.0, 3.0, 1.0, 2.0]))
    lower, upper = np.array([-5.0, -8.0, -9.0, -3.0]), np.array([-1.0, -2.5, -2.0, -2.0])
    table.take([0], np.tile(lower, (2, 1))[:, None], np.tile(upper, (2, 1))[:, None])
    np.testing.assert_array_equal(table.log_lower[0, 0], [-3.0, -8.0, -3.0, -3.0])
    np.testing.assert_array_equal(table.log_upper[0, 0], [-1.0, -2.5, -2.0, -2.0])


# -- states --------------------------------------------------------------------------------------------------------


def state_of(
    u: FloatArray,
    *,
    first: int = -2,
    spacing: float = 0.25,
    shift: float = 0.0,
    infinite: tuple[float, float] = (0.0, 0.0),
    exact: tuple[float, float] = (0.0, 0.0),
) -> PairState:
    """Dominating masses, and the same as exact ones of the direction A||B."""
    core, events = Dominating(spacing, first, u), Exact(spacing, first, 0.0, u, u)
    lowest, highest = spacing * first, spacing * (first + u.size - 1)
    return PairState(Masses((core,), infinite), {A_TO_B: Masses((events,), exact)}, shift, lowest, highest)


def exact_delta(state: PairState, epsilon: mpmath.mpf, direction: Direction) -> mpmath.mpf:
    """Σ a max(0, 1 - e^(ε - ℓ)) of the dominating masses."""
    row = state.dominating.core
    total, half = mpmath.mpf(0), mpmath.mpf(row.spacing) / 2
    sign = 1 if direction is A_TO_B else -1
    for position, u in enumerate(mpf(row.u), row.first):
        loss = 2 * half * sign * position
        if loss > epsilon:
            total += u * mpmath.exp(loss / 2) * -mpmath.expm1(epsilon - loss)
    return total


EPSILON = np.array([0.0, 0.1, 0.7, 1.2, 1.26, 1.3])


@pytest.mark.parametrize("infinite", [(0.0, 0.0), (1e-9, 0.02)])
@pytest.mark.parametrize("shift", [0.0, 1e-3, 0.05])
@pytest.mark.parametrize("direction", Direction)
def test_losses_that_have_moved_are_bounded_from_above(
    direction: Direction, shift: float, infinite: tuple[float, float]
) -> None:
    for seed in range(4):
        state = state_of(np.random.default_rng(seed).random(8) * 0.05, shift=shift, infinite=infinite)
        moved = mpmath.exp(shift) if direction is B_TO_A else 1
        beyond = mpmath.mpf(infinite[list(Direction).index(direction)])
        for value, found in zip(mpf(EPSILON), mpf(upper_deltas(state, EPSILON, direction)), strict=True):
            assert found >= moved * (exact_delta(state, value - shift, direction) + beyond)


def test_exact_masses_are_bounded_from_below() -> None:
    for seed in range(10):
        state = state_of(np.random.default_rng(seed).random(8) * 0.05)
        for value, found in zip(mpf(EPSILON), mpf(lower_deltas(state, EPSILON, A_TO_B)), strict=True):
            assert found <= exact_delta(state, value, A_TO_B)


def test_an_event_beyond_all_losses_is_bounded_from_below() -> None:
    state = state_of(np.zeros(1), exact=(0.3, 1e-30))
    assert mpmath.mpf(float(lower_deltas(state, np.zeros(1), A_TO_B)[0])) <= mpmath.mpf(0.3) - mpmath.mpf(1e-30)


@pytest.mark.slow
@pytest.mark.parametrize("above", [True, False])
def test_long_sums_lose_no_more_than_is_allowed_for(above: bool) -> None:
    # Sums of blocks beside which one large mass is alone in the last one: each, at a bit less than half a unit in the
    # last place of that mass, is lost; those of A are so for bounds from above, and those of B for bounds from below.
    blocks, width = 100, 102
    first = 10**10 if above else 10**8
    half = 0.5e-9 * np.arange(float(first), float(first + blocks * width + 1))
    u = 0.49 / width * 2.0**-54 * np.exp(-half if above else half)
    u[-1] = (0.25 if above else 0.33) * math.exp(-half[-1])
    state = state_of(u, first=first, spacing=1e-9)
    if above:
        assert exact_delta(state, mpmath.mpf(0), A_TO_B) <= mpf(upper_deltas(state, np.zeros(1), A_TO_B))[0]
    else:
        assert exact_delta(state, mpmath.mpf(0), A_TO_B) >= mpf(lower_deltas(state, np.zeros(1), A_TO_B))[0]


def test_masses_that_underflow_are_counted() -> None:
    state = state_of(np.array([5e-324]), first=1, spacing=0.4)
    assert mpf(upper_deltas(state, np.zeros(1), A_TO_B))[0] >= exact_delta(state, mpmath.mpf(0), A_TO_B)


def test_a_product_is_infinite_where_a_factor_is() -> None:
    one = state_of(np.array([0.3, 0.1, 0.2]), first=-1, shift=1e-3, infinite=(0.2, 0.3))
    two = state_of(np.array([0.2, 0.4]), first=0, shift=2e-3, infinite=(0.1, 0.05))
    found = product(one, two, None)
    assert Fraction(found.shift) >= Fraction(one.shift) + Fraction(two.shift)
    for axis, sign in ((0, 1), (1, -1)):
        finite, whole = mpmath.mpf(1), mpmath.mpf(1)
        for state in (one, two):
            row = state.dominating.core
            half = mpmath.mpf(row.spacing) / 2
            sums = sum(u * mpmath.exp(sign * half * place) for place, u in enumerate(mpf(row.u), row.first))
            finite, whole = finite * sums, whole * (sums + mpmath.mpf(state.dominating.infinite[axis]))
        assert found.dominating.infinite[axis] >= whole - finite


def test_atoms_of_a_leaf_have_moved_by_both_errors_or_reveal_their_input() -> None:
    a, b = np.array([0.3, 0.1]), np.array([float(0.3 * mpmath.exp(-1 - mpmath.mpf(1.9e-9))), 1e-290])
    bins, none, atoms = MassBounds.zeros(18), MassBounds.zeros(1), (MassBounds(a, a), MassBounds(b, b))
    masses = LossMasses(bins, bins, np.array([1.0 + 0.95e-9, math.inf]), *atoms, none, none, 1e-9)
    state = leaf_state(ScaledLossMasses.unscaled(masses), Lattice(0.25, 1, (-8, 8), -8, 8), ())
    truth = mpmath.mpf(0.3) - mpmath.e * mpmath.mpf(float(b[0])) + mpmath.mpf(0.1)
    assert upper_deltas(state, np.ones(1), A_TO_B)[0] >= truth


def test_what_lies_beyond_a_lattice_or_is_hardly_known_is_split_from_above() -> None:
    stays, infinite = _beyond((0.1, 0.2), (0.01, 0.02), 1.0)
    assert stays >= mpmath.mpf(0.02) * mpmath.exp(0.5)
    assert infinite >= mpmath.mpf(0.2) - mpmath.mpf(0.01) * mpmath.e
    masses, grow = (np.array([0.2]), np.array([0.201])), mpmath.exp(mpmath.mpf(0.5) / 4)
    low, high, _ = split_bins(Bins(np.zeros(1, np.int64), *masses, *masses), 0.5, 1e-9, 0.0)
    least = (mpmath.mpf(0.201) * grow - mpmath.mpf(0.2) / grow) / (grow**2 - grow**-2)
    assert min(low[0], high[0]) >= least


# -- many rounds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [1, 1000, 10**7])
def test_the_mass_of_infinite_losses_is_rounded_to_its_side(power: int) -> None:
    random = np.random.default_rng(power)
    for _ in range(20):
        parts = [(float(1.0 - random.random() * 1e-9), float(random.random() * 1e-8), power) for _ in range(2)]
        total, finite = mpmath.mpf(1), mpmath.mpf(1)
        for inner, infinite, times in parts:
            total *= (mpmath.mpf(inner) + mpmath.mpf(infinite)) ** times
            finite *= mpmath.mpf(inner) ** times
        truth = mpmath.log(total - finite)
        assert log_some_infinite(parts, -1.0) <= truth <= log_some_infinite(parts, 1.0)


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(("power", "shift"), [(1, 0.0), (3, 0.01), (10**8, 0.0)])
def test_chernoffs_bound_is_rounded_up(direction: Direction, power: int, shift: float) -> None:
    for seed in range(8):
        random = np.random.default_rng(seed)
        # Sums next to 1, so that no bound is cut at 1.
        u = random.random(3)
        half = 0.125 * np.arange(-1.0, 2.0)
        u *= (1.0 - 1.0 / power * random.random()) / max(np.dot(u, np.exp(half)), np.dot(u, np.exp(-half)))
        state, tilt, epsilon = state_of(u, first=-1), 0.0 if power > 10 else 2.0, 0.1
        state = PairState(state.dominating, {}, shift / power, state.lowest, state.highest)
        found = Composition([(replace(state, shift=shift / power), power)], direction).chernoff_bound(
            tilt, np.array([epsilon])
        )[0]
        sign = 1 if direction is A_TO_B else -1
        total = sum(
            mass * mpmath.exp(mpmath.mpf(0.25) * sign * place * (mpmath.mpf(tilt) + mpmath.mpf(0.5)))
            for place, mass in enumerate(mpf(u), -1)
        )
        factor = mpmath.mpf(tilt) ** tilt / (1 + mpmath.mpf(tilt)) ** (1 + tilt)
        proved = mpmath.log(factor) + power * mpmath.log(total) - tilt * (mpmath.mpf(epsilon) - shift)
        assert found >= min(proved + (shift if direction is B_TO_A else 0), 0)


def test_the_other_directions_masses_have_moved_too() -> None:
    # The same masses in both directions.
    state, shift = state_of(np.exp(-0.1 * np.arange(-4.0, 5.0) ** 2) / 7.0, first=-4), 0.05
    factors = [(replace(state, shift=shift / 300), 300)]
    epsilon, tilt = np.array([0.5, 3.0]), Tilt(1.0, np.arange(2), 1e-9, extended=False)
    one, other = (
        composed.read(composed.frequencies(tilt, below=False), epsilon, below=False)[1]
        for composed in (Composition(factors, direction) for direction in Direction)
    )
    assert np.all(one < -shift)
    assert np.all(other - one >= shift * (1.0 - 1e-9))


def test_the_reader_of_one_epsilon_allows_for_losses_that_have_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = replace(question(Histogram((26, 50, 25), (25, 50, 26)), 5000, [2.0]), requested=(B_TO_A,))
    found: list[float] = []
    leaves = many_rounds._leaves(asked, many_rounds.spacing_for(asked, 5000), 5000) or []
    for moved in (0.0, 1e-5):
        made = [(replace(state, shift=moved), count) for state, count in leaves]
        monkeypatch.setattr(many_rounds, "_leaves", lambda *_, made=made: made)
        found += [reader(asked.epsilon)[1][0] for reader in [point_reader(asked, 1.0)] if reader]
    assert found[1] - found[0] >= 0.05 * (1.0 - 1e-9)


@pytest.mark.parametrize("beside", [0.0, 0.2])
def test_no_frequency_is_larger_than_what_a_transform_shows(beside: float) -> None:
    weights, length = np.random.default_rng(0).random((3, 9)), 30
    leaf = leaf_of(weights)
    found = _squares(leaf, (weights, np.full(3, beside)), np.zeros(3), length)
    for row, squares in zip(weights, found, strict=True):
        total, exact = sum(mpf(row)), []
        for place in range(length // 2 + 1):
            value = sum(each * mpmath.expjpi(mpmath.mpf(-2 * place * at) / length) for at, each in enumerate(mpf(row)))
            exact.append(min((abs(value) + beside) / total, 1) ** 2)
        assert np.all(squares >= exact)
        assert np.all(squares[:-1] >= exact[1:])


def test_moments_of_differences_are_rounded_outwards() -> None:
    for seed in range(20):
        weights = np.random.default_rng(seed).random((1, 9)) + np.zeros((3, 1))
        moments = _Moments(leaf_of(weights))
        masses = [Fraction(each) for each in weights[0].tolist()]
        pairs = [(i - j, one * two) for i, one in enumerate(masses) for j, two in enumerate(masses)]
        second, fourth = (sum(d**k * mass for d, mass in pairs) / sum(masses) ** 2 for k in (2, 4))
        assert Fraction(float(moments.second[0])) <= second / 2 <= Fraction(float(moments.second_above[0]))
        assert Fraction(float(moments.fourth[0])) >= fourth / 24


@pytest.mark.parametrize(("power", "outside"), [(1000, 1e-3), (10**6, 1e-12)])
def test_sums_of_few_frequencies_allow_for_all_that_is_left_out(power: int, outside: float) -> None:
    leaf = leaf_of(dyadic(np.random.default_rng(0).random((1, 9)) + np.zeros((3, 1))))
    factors, moments = [(leaf, power)], [_Moments(leaf)]
    known = few_frequencies(factors, outside)
    length = good_length(_window(factors, moments, outside)[1])
    found = _seen(factors, length, outside) if length <= _SHORT else _low(factors, moments, length, outside)
    orders, left_out = found
    rounding = power * _summed(leaf, length, orders, extended=False)[1] * 2.0**-53
    whole = leaf.totals**power
    assert np.all(known.error >= 2.0 * outside + whole * (left_out + rounding) * (1.0 - 1e-9))
    assert power > 1000 or np.all(left_out > 100.0 * rounding)


def test_errors_of_few_frequencies_move_both_bounds_outwards() -> None:
    tilt, epsilon = 0.5, np.array([0.5, 1.0])
    weights = dyadic(np.exp(-0.1 * np.arange(-4.0, 5.0) ** 2) + np.zeros((3, 1)))
    known = few_frequencies([(leaf_of(weights, first=-4, width=0.05, tilt=tilt, half=0), 300)], 1e-9)
    none = replace(known, error=np.full(3, 1e-300), size=np.zeros(3), log_scale_error=np.zeros(3))
    one = 1e-4

    def moved(row: int) -> np.ndarray:
        return np.array([one if place == row else 1e-300 for place in range(3)])

    above = log_finite_upper(none, epsilon, 0.0, 1e9)[0]
    worth = one * np.exp(-tilt * epsilon)
    more = np.exp(log_finite_upper(replace(none, error=moved(0)), epsilon, 0.0, 1e9)[0]) - np.exp(above)
    assert np.all(more >= worth * largest_factor(tilt) * (1.0 - 1e-6))
    # Each of the sums over frequencies is rounded.
    large = replace(none, size=np.full(3, 1e10))
    more = np.exp(log_finite_upper(large, epsilon, 0.0, 1e9)[0]) - np.exp(above)
    assert np.all(more >= 2.0 * 1e10 * 2.0**-53 * np.exp(-tilt * epsilon))
    below = np.exp(log_finite_lower(none, epsilon))
    for row in (1, 2):
        less = below - np.exp(log_finite_lower(replace(none, error=moved(row)), epsilon))
        # ε lies within a bin of the first label.
        assert np.all(less >= worth * math.exp(-0.1))
    assert np.all(below - np.exp(log_finite_lower(large, epsilon)) >= 1e10 * 2.0**-53 * np.exp(-tilt * epsilon - 0.1))
    # Logarithms are off by the errors of their scales.
    off = replace(none, log_scale_error=np.full(3, 0.01))
    assert np.all(log_finite_upper(off, epsilon, 0.0, 1e9)[0] - above >= 0.01 * (1.0 - 1e-9))
    assert np.all(log_finite_lower(off, epsilon) < np.log(below) - 0.02)


# -- closed forms --------------------------------------------------------------------------------------------------


def test_little_gaussian_differences_are_rounded_outwards() -> None:
    random = np.random.default_rng(0)
    mu = 10.0 ** random.uniform(-6.0, -3.0, 60)
    epsilon = mu * random.uniform(0.0, 3.0, 60)
    below, above = (_log_narrow(mu, epsilon, np.zeros(60), upper=upper) for upper in (False, True))
    for m, value, low, high in zip(*map(mpf, (mu, epsilon, below, above)), strict=True):
        delta = mpmath.ncdf(m / 2 - value / m) - mpmath.exp(value) * mpmath.ncdf(-m / 2 - value / m)
        assert low <= mpmath.log(delta) <= high


def test_revealed_mass_is_that_from_below() -> None:
    none, only = MassBounds.zeros(1), MassBounds(np.array([0.1]), np.array([0.2]))
    atoms = MassBounds.around(np.array([0.8]), 0.0)
    masses = LossMasses(none, none, np.zeros(1), atoms, atoms, only, none, 0.0)
    assert _log_revealed([(masses, 1)], np.array([1]))[0] <= mpmath.log(mpmath.mpf(0.1))


# -- ε, and the largest loss ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("aim", [1e-14, 1e-4])
def test_ends_next_to_a_guess_are_on_the_safe_sides(aim: float) -> None:
    """Bounds that fall by lines of different slopes: the lower one is above ln δ, the upper one below, both rounded."""
    draw = np.random.default_rng(3)
    root, log_delta = draw.uniform(0.1, 5.0, 400), -draw.uniform(1.0, 50.0, 400)
    slope, apart = draw.uniform(5.0, 50.0, 400), draw.choice([0.0, 1e-6], 400)

    def reader(points: FloatArray) -> tuple[FloatArray, FloatArray]:
        upper = log_delta[:, None] - slope[:, None] * (points - root[:, None])
        return upper - apart[:, None], upper

    slack = 8.0 * 2.0**-53 * (1.0 + np.abs(log_delta))
    levels = np.stack((log_delta + slack, log_delta - slack), axis=1)
    found, ends = _crossings_near(reader, 1.001 * root, -slope, levels, aim)
    assert np.count_nonzero(found) > 30
    lower, upper = reader(ends)
    assert np.all(lower[found, 0] > log_delta[found] + slack[found])
    assert np.all(upper[found, 1] <= log_delta[found] - slack[found])


def test_epsilon_is_read_off_the_bounds_that_prove_it() -> None:
    for delta in (0.3, 0.05, 1e-9):
        search = _Search({RandomizedResponse(0.75): 1}, 1, delta, (A_TO_B,), aim=1e-6, shared=Shared())
        assert search.levels[1] <= mpmath.log(mpmath.mpf(delta)) <= search.levels[0]
        # ln δ lies within 0.01 of -ε.
        search._read(lambda epsilon: (-epsilon - 0.01, -epsilon + 0.01), 0.0, 100.0)
        assert 0.0 < search._low < search._high < math.inf
        assert mpmath.exp(-mpmath.mpf(search._low) - 0.01) > delta >= mpmath.exp(-mpmath.mpf(search._high) + 0.01)
    search = _Search({RandomizedResponse(0.75): 1}, 1, 0.1, (A_TO_B,), aim=1e-6, shared=Shared())
    search._read(lambda epsilon: (np.full_like(epsilon, -1.0), np.zeros_like(epsilon)), 0.0, 100.0)
    assert search._high == math.inf


def test_an_epsilon_is_found_where_little_more_than_the_revealed_mass_is_met() -> None:
    # More outcomes than are summed one by one, of which two rounds reveal .19.
    pair = Histogram((7,) * 40 + (2,) * 40 + (40,), (3,) * 40 + (7,) * 40 + (0,))
    search = _Search({pair: 1}, 2, 0.19002, (A_TO_B,), aim=1e-6, shared=Shared())
    assert not search.settled()
    search.by_engines()
    low, high = search.bracket
    assert low <= mpmath.log((mpmath.mpf(0.49) + mpmath.mpf(0.19) - mpmath.mpf(0.19002)) / mpmath.mpf(0.09)) <= high


@pytest.mark.parametrize("direction", Direction)
def test_the_largest_loss_has_the_error_of_the_losses(direction: Direction) -> None:
    pair = RandomizedResponse(0.7)
    error = pair.directed_loss_masses(np.array([2.0]), direction).loss_error
    assert error > 0.0
    assert Fraction(_with_error(pair, 2.0, direction)) >= 2 + Fraction(error)
    # ln(7 / 3) lies beyond.
    assert _with_error(pair, 0.8, direction) == math.inf


def test_delta_near_the_largest_loss_is_rounded_up() -> None:
    epsilon = np.random.default_rng(0).uniform(0.0, 4.0, 100)
    for pair, rounds in ((RandomizedResponse(0.7), 3), (Histogram((0.7, 0.3 + 1e-10), (0.3, 0.7)), 10**6)):
        excess = mpmath.mpf(float(pair.mass_excess[0]))
        asked = question(pair, rounds, epsilon.tolist())
        found = _log_bound(asked, A_TO_B, np.array([[float(rounds)]]), np.array([[4.0]]))[0]
        for value, log in zip(mpf(epsilon), mpf(found), strict=True):
            assert log >= mpmath.log(-mpmath.expm1(value - 4)) + rounds * mpmath.log1p(excess)


# -- transforms ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "rate", "exponent", "spacing"), [(1.0, 0.1, 3.0, 0.01), (3.0, 0.5, 1.0, 0.01), (0.05, 0.5, 1.0, 0.1)]
)
def test_transforms_at_many_frequencies_are_within_their_error(
    ratio: float, rate: float, exponent: float, spacing: float
) -> None:
    line = TransformLine(subsampled(ratio, rate), exponent)
    values, errors = line._values(spacing * np.arange(2500.0))
    # One by one no exponential is a product of others.
    for place in range(1, 2500, 250):
        (alone,), (doubt,) = line._values(spacing * np.array([float(place)]))
        assert abs(values[place] - alone) <= errors[place] + doubt


def test_losses_of_complex_outcomes_are_within_their_error() -> None:
    transform, y = subsampled(2.0, 0.1), np.linspace(-5.0, 40.0, 99)
    odds = mpmath.mpf(0.1) / (1 - mpmath.mpf(0.1))
    for place, *found in zip(mpf(y), *map(mpf, transform.excess(y, 0.4)), strict=True):
        truth = mpmath.log1p(odds * mpmath.exp(2 * mpmath.mpc(place, 0.4) - 2))
        assert abs(mpmath.mpc(*found[:2]) - truth) <= found[2]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 24, 25, 26, 1000])
def test_suffix_sums_are_within_their_error(size: int) -> None:
    draw = random.Random(f"suffix sums {size}")  # noqa: S311
    values = [math.ldexp(draw.random(), -draw.randrange(40)) for _ in range(size)]
    found = _suffix_sums(np.array(values))
    assert found.shape == (size + 1,)
    for start, total in enumerate(found.tolist()):
        exact = sum(map(Fraction, values[start:]), Fraction())
        assert abs(Fraction(total) - exact) <= _terms(size) * Fraction(2) ** -53 * exact
