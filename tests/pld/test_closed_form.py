"""Rounds of Gaussian noise in closed form, against their δ in 60 digits and more, and against the general engine."""

import math
import random
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pbdist
from pbdist.arguments import Request
from pbdist.errors import PrecisionError
from pbdist.mechanisms import ElementaryPair, Gaussian, Laplace, SubsampledGaussian
from pbdist.pld import engine
from pbdist.pld.closed_form import gaussian_bounds, gaussian_ratio, gaussian_width
from pbdist.pld.engine import TightBounds, tight_bounds
from pbdist.types import FloatArray
from tests.effort import times
from tests.strategies import examples

pytestmark = pytest.mark.slow

Rational = Fraction | int


def digits_for(variance: Rational, epsilon: float) -> int:
    """Digits with which 60 of the result are left, by the sizes of what is subtracted and exponentiated."""
    size = 0.5 * (math.log10(variance.numerator) - math.log10(variance.denominator))
    loss = math.log10(epsilon) if epsilon > 0.0 else -math.inf
    steps = (2.0 * (loss - size), 2.0 * size, -size, loss - 2.0 * size)
    return 60 + math.ceil(2.0 * sum(max(step, 0.0) for step in steps))


def log_delta(variance: Rational, epsilon: float) -> mpmath.mpf:
    """ln δ of the pair N(0, 1), N(μ, 1) for μ² = variance (Balle & Wang 2018, Theorem 8)."""
    with mpmath.workdps(digits_for(variance, epsilon)):
        mu = mpmath.sqrt(mpmath.mpf(variance.numerator) / variance.denominator)
        loss = mpmath.mpf(epsilon)
        return +mpmath.log(mpmath.ncdf(mu / 2 - loss / mu) - mpmath.exp(loss) * mpmath.ncdf(-mu / 2 - loss / mu))


def variance_of(pair: Gaussian, rounds: int = 1) -> Fraction:
    return rounds * (Fraction(pair.sensitivity) / Fraction(pair.scale)) ** 2


def holds(lower: float, upper: float, truth: mpmath.mpf) -> bool:
    """Whether the truth lies between; a NaN never does."""
    return bool((lower == -math.inf or mpmath.mpf(lower) <= truth) and mpmath.mpf(upper) >= truth)


def bounds(ratio: float, rounds: int, epsilon: float) -> tuple[float, float]:
    lower, upper = gaussian_bounds(ratio, np.array([rounds]), np.array([epsilon]))
    return float(lower[0, 0]), float(upper[0, 0])


def one(
    pair: ElementaryPair, epsilon: list[float], rounds: list[int] | None = None, **arguments: object
) -> TightBounds:
    return tight_bounds({pair: 1}, np.array(rounds or [1]), np.array(epsilon), Request(**arguments))  # type: ignore[arg-type]


def brackets(found: TightBounds) -> FloatArray:
    result: FloatArray = np.expm1(found.log_upper - found.log_lower)
    return result


def test_the_formula_is_the_divergence() -> None:
    """By the definition, ∫ (φ(x) - e^ε φ(x - μ))_+ dx; and of two pairs by what the first outcome leaves of ε."""
    with mpmath.workdps(30):
        for mu, epsilon in ((0.5, 0.25), (3.0, 2.0), (2.0, 0.0)):
            end = mpmath.mpf(mu) / 2 - epsilon / mpmath.mpf(mu)
            found = mpmath.quad(
                lambda x, mu=mu, e=epsilon: mpmath.npdf(x) - mpmath.exp(e) * mpmath.npdf(x - mu),
                [end - 40, end - 8, end - 2, end],
            )
            assert mpmath.almosteq(mpmath.log(found), log_delta(Fraction(mu) ** 2, epsilon), rel_eps=1e-20)

        def of_both(x: mpmath.mpf) -> mpmath.mpf:
            left = 5 - (mpmath.mpf(9) / 2 - 3 * x)
            return mpmath.npdf(x) * (mpmath.ncdf(2 - left / 4) - mpmath.exp(left) * mpmath.ncdf(-2 - left / 4))

        found = mpmath.quad(of_both, [-25, -12, -7, -4, -2, 0, 2, 5, 12])
        assert mpmath.almosteq(mpmath.log(found), log_delta(25, 5.0), rel_eps=1e-15)


def test_random_bounds_hold() -> None:
    draw = random.Random("gaussian")  # noqa: S311
    resolved = 0
    cases = times(4000)
    for _ in range(cases):
        ratio = 10.0 ** draw.uniform(-9.0, 2.0)
        rounds = int(2.0 ** draw.uniform(0.0, 40.0))
        if draw.random() < 0.7:
            ratio /= math.sqrt(rounds)
        variance = rounds * Fraction(ratio) ** 2
        mu = math.sqrt(float(variance))
        at = draw.choice([0.0, 10.0 ** draw.uniform(-8.0, 3.0), abs(0.5 * mu * mu + draw.uniform(-12.0, 50.0) * mu)])
        lower, upper = bounds(ratio, rounds, at)
        assert holds(lower, upper, log_delta(variance, at)), (ratio, rounds, at)
        resolved += upper - lower <= 1e-3
    # Most of them are far from vacuous.
    assert resolved > 0.64 * cases


@examples(150)
@given(data=st.data())
def test_any_mixture_of_gaussians_holds(data: st.DataObject) -> None:
    """Different pairs with counts; the exact μ² is a rational number."""
    sizes = st.floats(1e-4, 1e4) | st.sampled_from([0.1, 1.0, 3.0, 7.3])
    pairs = data.draw(st.lists(st.builds(Gaussian, sizes, sensitivity=sizes), min_size=1, max_size=5, unique=True))
    counts = {pair: data.draw(st.sampled_from([1, 2, 3, 17, 1000, 2**20])) for pair in pairs}
    rounds = data.draw(st.sampled_from([1, 2, 5]) | st.integers(1, 2**40))
    variance = sum((variance_of(pair, count) for pair, count in counts.items()), Fraction(0))
    ratio = gaussian_ratio(counts)
    assert ratio is not None
    with mpmath.workdps(60):
        exact = mpmath.sqrt(mpmath.mpf(variance.numerator) / variance.denominator)
        assert abs(ratio - exact) <= 8 * mpmath.mpf(2) ** -53 * exact
    total = rounds * variance
    mu = math.sqrt(float(total))
    usual = st.floats(-8.0, 30.0).map(lambda deviations: abs(0.5 * mu * mu + deviations * mu))
    epsilon = data.draw(st.lists(usual | st.floats(1e-8, 1e3), max_size=3))
    lower, upper = gaussian_bounds(ratio, np.array([rounds]), np.array([0.0, *epsilon]))
    for column, at in enumerate([0.0, *epsilon]):
        assert holds(float(lower[0, column]), float(upper[0, column]), log_delta(total, at))


def test_many_different_pairs_together() -> None:
    draw = random.Random("many gaussians")  # noqa: S311
    counts: dict[ElementaryPair, int] = {}
    for _ in range(700):
        counts[Gaussian(draw.uniform(0.5, 60.0), sensitivity=draw.uniform(0.1, 2.0))] = draw.randint(1, 9)
    variance = sum((variance_of(pair, count) for pair, count in counts.items()), Fraction(0))  # type: ignore[arg-type]
    rounds, epsilon = np.array([1, 3]), np.array([0.0, 30.0, 300.0, 900.0])
    found = tight_bounds(counts, rounds, epsilon, Request(tolerance=1e-9, strict=False))
    for row, column in np.ndindex(2, 4):
        truth = log_delta(int(rounds[row]) * variance, float(epsilon[column]))
        for axis in range(2):
            cell = (axis, row, column)
            assert holds(float(found.log_lower[cell]), float(found.log_upper[cell]), truth)
            assert float(found.log_upper[cell] - found.log_lower[cell]) <= 1e-8


@pytest.mark.parametrize("decades", [16, 60, 300, 1000])
@pytest.mark.parametrize("mu", [1, 5, 30])
def test_deep_tails_are_told(mu: int, decades: int) -> None:
    low, high = 0.0, 1e5
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if log_delta(mu * mu, middle) > -decades * math.log(10.0) else (low, middle)
    truth = log_delta(mu * mu, low)
    assert float(truth) == pytest.approx(-decades * math.log(10.0), rel=1e-6)
    for ratio, rounds in ((float(mu), 1), (mu / 1024.0, 1 << 20), (mu * 2.0**-20, 1 << 40)):
        lower, upper = bounds(ratio, rounds, low)
        assert holds(lower, upper, truth)
        assert math.expm1(upper - lower) <= 1e-6


def test_extreme_scales_hold() -> None:
    resolved = 0
    for scale in (1e-30, 1e-12, 1.0, 1e12, 1e30):
        for sensitivity in (1e-30, 1e-11, 1.0, 2e12, 1e30):
            pair = Gaussian(scale, sensitivity=sensitivity)
            ratio = gaussian_ratio({pair: 1})
            assert ratio is not None
            for rounds in (1, 2**40, 2**62):
                for epsilon in (0.0, 1e-300, 1e-8, 1.0, 1e3):
                    lower, upper = bounds(ratio, rounds, epsilon)
                    assert holds(lower, upper, log_delta(variance_of(pair, rounds), epsilon)), (pair, rounds, epsilon)
                    assert upper <= 1e-12
                    resolved += upper - lower < 1e-3
    assert resolved > 60


@pytest.mark.parametrize("ratio", [1e-9, 1e-3, 1.0, 100.0])
def test_bounds_of_a_table_are_those_of_its_points(ratio: float) -> None:
    rounds, epsilon = np.array([1, 9, 2**40]), np.array([0.0, 1e-8, 0.5, 40.0, 1e3])
    lower, upper = gaussian_bounds(ratio, rounds, epsilon)
    assert lower.shape == upper.shape == (3, 5)
    for row, column in np.ndindex(3, 5):
        single = bounds(ratio, int(rounds[row]), float(epsilon[column]))
        assert (float(lower[row, column]), float(upper[row, column])) == pytest.approx(single, rel=1e-12, abs=1e-12)


# -- what goes which way ---------------------------------------------------------------------------------------


def refused(*_: object) -> tuple[FloatArray, FloatArray]:
    raise AssertionError


@pytest.mark.parametrize(
    "counts",
    [
        {Gaussian(1.0, truncate=(-9.0, 9.0)): 1},
        {Gaussian(1.0): 3, Gaussian(1.0, truncate=(-40.0, 40.0)): 1},
        {Gaussian(1.0): 1, Laplace(2.0): 1},
        {SubsampledGaussian(1.0, 1.0): 1},
    ],
    ids=str,
)
def test_other_rounds_have_no_closed_form(counts: dict[ElementaryPair, int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert gaussian_ratio(counts) is None
    monkeypatch.setattr(engine, "gaussian_bounds", refused)
    epsilon = [0.0, 1.0, 4.0]
    found = tight_bounds(counts, np.array([1, 2]), np.array(epsilon), Request(tolerance=1e-3))
    assert np.all(brackets(found) <= 1e-3)
    # The untruncated noise among them, by itself, is a part of the round.
    alone = [pair for pair in counts if isinstance(pair, Gaussian) and pair.truncate is None]
    for row, r in enumerate((1, 2)):
        for column, at in enumerate(epsilon):
            for pair in alone:
                assert log_delta(variance_of(pair, r * counts[pair]), at) <= found.log_upper[0, row, column]


def test_truncation_far_out_changes_nothing_that_is_told() -> None:
    """Beyond 20 scales lie less than e^-200: the general engine and the closed form tell of the same δ."""
    truncated = tight_bounds(
        {Gaussian(1.0, truncate=(-21.0, 21.0)): 2},
        np.array([1, 7]),
        np.array([0.0, 3.0, 12.0]),
        Request(tolerance=1e-4),
    )
    closed = tight_bounds({Gaussian(1.0): 2}, np.array([1, 7]), np.array([0.0, 3.0, 12.0]), Request(tolerance=1e-4))
    assert np.all(truncated.log_lower <= closed.log_upper)
    assert np.all(closed.log_lower <= truncated.log_upper)
    assert np.all(brackets(truncated) <= 1e-4)


@pytest.mark.parametrize("arguments", [{"width": 0.01}, {"buckets": 2000}], ids=str)
def test_a_given_width_goes_the_general_way(arguments: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "gaussian_bounds", refused)
    found = one(Gaussian(2.0), [0.0, 1.0], [1, 5], tolerance=1e-3, **arguments)
    for row, r in enumerate((1, 5)):
        for column, at in enumerate((0.0, 1.0)):
            truth = log_delta(variance_of(Gaussian(2.0), r), at)
            for axis in range(2):
                cell = (axis, row, column)
                assert holds(float(found.log_lower[cell]), float(found.log_upper[cell]), truth)
    with pytest.raises(AssertionError):
        one(Gaussian(2.0), [0.0, 1.0], [1, 5], tolerance=1e-3)


def test_one_truncated_pair_is_enough() -> None:
    counts: dict[ElementaryPair, int] = {Gaussian(float(scale)): 1 for scale in range(1, 50)}
    assert gaussian_ratio(counts) == pytest.approx(math.sqrt(sum(1.0 / s**2 for s in range(1, 50))), rel=1e-15)
    assert gaussian_ratio({**counts, Gaussian(1.0, truncate=(-30.0, 30.0)): 1}) is None
    assert gaussian_ratio({**counts, Laplace(1.0): 1}) is None


# -- beside the general engine ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pair", "rounds", "epsilon", "tolerance"),
    [
        (Gaussian(1.0), [1, 2, 30], [0.0, 0.5, 4.0, 30.0], 1e-3),
        (Gaussian(20.0), [1, 64, 5000], [0.0, 0.2, 1.0, 8.0], 1e-3),
        pytest.param(Gaussian(3.0, sensitivity=0.7), [40], [0.0, 1.0, 5.0, 20.0], 1e-5, marks=pytest.mark.nightly),
        (Gaussian(0.3), [1, 4], [1.0, 20.0, 200.0], 1e-2),
        (Gaussian(1000.0), [10, 10**6], [1e-3, 1e-2, 0.04], 1e-4),
    ],
    ids=str,
)
def test_the_closed_form_lies_within_the_engines_bracket(
    pair: Gaussian, rounds: list[int], epsilon: list[float], tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = one(pair, epsilon, rounds, tolerance=tolerance)
    with monkeypatch.context() as patched:
        patched.setattr(engine, "gaussian_ratio", lambda _counts: None)
        general = one(pair, epsilon, rounds, tolerance=tolerance, strict=False)
    # Below 10^-130 nothing is promised but that they hold.
    told = closed.log_lower > math.log(1e-130)
    assert np.all(brackets(general)[told] <= tolerance)
    assert np.all(brackets(closed) <= 0.01 * tolerance)
    assert np.all(general.log_lower <= closed.log_lower)
    assert np.all(closed.log_upper <= general.log_upper)
    # The bracket that both report has the same truth in it.
    for row, r in enumerate(rounds):
        for column, at in enumerate(epsilon):
            truth = log_delta(variance_of(pair, r), at)
            for found in (closed, general):
                assert holds(float(found.log_lower[1, row, column]), float(found.log_upper[1, row, column]), truth)


@pytest.mark.parametrize("scale", [1e4, 1e10, 1e16, 1e28])
@pytest.mark.parametrize("deviations", [0.0, 1e-3, 0.5, 4.0])
def test_where_little_is_left_of_the_difference_of_two_tails(scale: float, deviations: float) -> None:
    """The second form, by an interval of width μ, keeps all digits."""
    pair, epsilon = Gaussian(scale), deviations / scale
    lower, upper = bounds(1.0 / scale, 1, epsilon)
    assert math.expm1(upper - lower) < 1e-9
    truth = log_delta(variance_of(pair), epsilon)
    assert holds(lower, upper, truth)
    found = one(pair, [epsilon], tolerance=0.01)
    assert float(found.log_lower[0, 0, 0]) == lower
    assert float(found.log_upper[0, 0, 0]) == upper


@pytest.mark.parametrize("scale", [1e6, 1e8, 1e11])
@pytest.mark.parametrize("deviations", [0.0, 1.0, 8.0])
def test_with_the_engine_nothing_is_lost(scale: float, deviations: float) -> None:
    epsilon = deviations / scale
    lower, upper = bounds(1.0 / scale, 1, epsilon)
    found = one(Gaussian(scale), [epsilon], tolerance=1e-6, strict=False)
    assert lower <= float(found.log_lower[0, 0, 0])
    assert float(found.log_upper[0, 0, 0]) <= upper
    truth = log_delta(variance_of(Gaussian(scale)), epsilon)
    assert holds(float(found.log_lower[1, 0, 0]), float(found.log_upper[1, 0, 0]), truth)


def test_what_neither_way_reaches_is_refused_by_name() -> None:
    # Cut far out, it has no closed form.
    pair = Gaussian(1e12, truncate=(-3.8e13, 3.8e13))
    with pytest.raises(PrecisionError, match=r"^tolerance: expected upper / lower - 1 <= 0.001 .* at r = 1, ε = 1e-12"):
        one(pair, [1e-12], tolerance=1e-3)


# -- the width that is reported --------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [1e-3, *(pytest.param(each, marks=pytest.mark.nightly) for each in (1e-2, 1e-4))])
@pytest.mark.parametrize(
    ("pair", "rounds", "epsilon"),
    [
        (Gaussian(1.0), [1], [0.0, 1.0, 3.0]),
        (Gaussian(20.0), [500], [0.1, 1.0]),
        (Gaussian(4.0), [100], [0.0, 2.0, 30.0]),
        (Gaussian(0.3), [1, 3], [1.0, 20.0]),
        (Gaussian(1000.0), [10], [0.001, 0.01]),
    ],
    ids=str,
)
def test_a_grid_of_the_reported_width_has_about_the_tolerance(
    pair: Gaussian, rounds: list[int], epsilon: list[float], tolerance: float
) -> None:
    closed = pbdist.privacy_bounds(pair, compositions=rounds, epsilon=epsilon, tolerance=tolerance)
    width = closed.attrs["loss_width"]
    assert width > 0.0
    ratio = gaussian_ratio({pair: 1})
    assert ratio is not None
    assert width == gaussian_width(ratio, np.array(rounds), np.array(epsilon), 1, tolerance)
    grid = pbdist.privacy_bounds(pair, compositions=rounds, epsilon=epsilon, factor=math.exp(width), floor=0.0)
    worst = float(np.max(np.expm1(grid.log_delta_upper - grid.log_delta_lower)))
    assert 0.1 * tolerance < worst < 3.0 * tolerance
    assert np.all(grid.log_delta_lower <= closed.log_delta_upper)
    assert np.all(closed.log_delta_lower <= grid.log_delta_upper)


def test_the_width_is_that_of_a_leaf() -> None:
    """It shrinks with the root of the leaves, however these are shared out, and of the tolerance."""
    rounds, epsilon = np.array([4]), np.array([1.0])
    once = gaussian_width(0.2, rounds, epsilon, 1, 1e-3)
    assert gaussian_width(0.2, rounds, epsilon, 9, 1e-3) == pytest.approx(once / 3.0)
    assert gaussian_width(0.2, rounds, epsilon, 1, 1e-5) == pytest.approx(once / 10.0)
    assert gaussian_width(0.1, 4 * rounds, epsilon, 1, 1e-3) == pytest.approx(once / 2.0)
    split = tight_bounds({Gaussian(5.0): 1, Gaussian(10.0): 4}, rounds, epsilon, Request(tolerance=1e-3)).width
    assert split == pytest.approx(gaussian_width(math.sqrt(0.08), rounds, epsilon, 5, 1e-3))
    for at in ([0.0], [1e-300], [1e3], [0.0, 1e3]):
        for ratio in (1e-9, 1.0, 1e3):
            assert gaussian_width(ratio, np.array([1, 2**40]), np.array(at), 1, 1e-3) > 0.0
