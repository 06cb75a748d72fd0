"""The sum of two Laplace noises: masses and losses against its density, δ of one round, and enumerated compositions."""

import math

import mpmath
import numpy as np
import pytest

from pbdist import (
    Laplace,
    LaplaceSum,
    Product,
    privacy_bounds,
    renyi_bounds,
)
from pbdist.mechanisms import ScaledLossMasses
from pbdist.types import Direction
from tests.effort import SEED, times
from tests.oracles.laplace_sum_truth import LaplaceSumTruth

pytestmark = pytest.mark.slow

#: Scales apart, equal, next to each other as floats and nearly so, and far apart; sensitivities small and large.
PAIRS = [
    LaplaceSum((7300.0, 3650.0), 3.0),
    LaplaceSum((1.0, 1.0), 1.0),
    LaplaceSum((1.0, math.nextafter(1.0, 0.0)), 2.5),
    LaplaceSum((3.0, 3.0 * (1.0 - 1e-9)), 0.1),
    LaplaceSum((0.7, 0.3), 8.0),
    LaplaceSum((2.0, 1.9), 90.0),
    LaplaceSum((1.0, 1e-3), 1.0),
    LaplaceSum((1.0, 1e-7), 0.2),
    LaplaceSum((1.0, 0.04), 1e-6),
    LaplaceSum((0.2, 0.1), 300.0),
]


def drawn_pair(rng: np.random.Generator) -> LaplaceSum:
    """Scales of any nearness, and a sensitivity about as large as one of them."""
    first = 10.0 ** rng.uniform(-3.0, 3.0)
    second = (
        first
        * [
            1.0,
            rng.uniform(0.1, 1.0),
            1.0 - 10.0 ** rng.uniform(-16.0, -1.0),
            10.0 ** rng.uniform(-6.0, 0.0),
            1.0 - 2.0**-53,
        ][int(rng.integers(5))]
    )
    near = first if rng.random() < 0.7 else second
    return LaplaceSum((first, second) if rng.random() < 0.5 else (second, first), near * 10.0 ** rng.uniform(-3.0, 1.3))


# -- the density ---------------------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("scales", [(1.0, 0.5), (2.0, 1.7), (1.5, 1.5), (1.0, 0.02)])
def test_the_density_is_the_convolution(scales: tuple[float, float]) -> None:
    truth = LaplaceSumTruth(LaplaceSum(scales))
    with mpmath.workdps(20):
        first, second = map(mpmath.mpf, scales)
        for x in (0.0, 0.3, 2.0):
            inner = sorted({mpmath.mpf(0), mpmath.mpf(x)})
            found = mpmath.quad(
                lambda y, x=x: mpmath.exp(-abs(y) / first - abs(x - y) / second) / (4 * first * second),
                [-60, -10, -1, -0.1, *inner, x + 0.1, x + 1, x + 10, x + 60],
            )
            assert abs(found - truth.density(mpmath.mpf(x))) < 1e-12
            assert abs(mpmath.diff(truth.above, mpmath.mpf(x + 0.1)) + truth.density(mpmath.mpf(x + 0.1))) < 1e-9


def checked_intervals(pair: LaplaceSum, ends: np.ndarray, mean: float) -> float:
    """Check masses of intervals between outcomes; return the smallest."""
    smallest = 1.0
    with LaplaceSumTruth(pair) as truth:
        exact_mean = mpmath.mpf(mean)
        for scaled in (False, True):
            mass, error, log_scale = pair.interval(ends[:-1], ends[1:], mean, scaled=scaled)
            assert np.all(log_scale <= 0.0)
            assert scaled or not log_scale.any()
            for i in range(mass.size):
                low, high = (mpmath.mpf(float(end)) - exact_mean for end in ends[i : i + 2])
                exact = truth.mass(low, high)
                found = mpmath.mpf(float(mass[i])) * mpmath.exp(mpmath.mpf(float(log_scale[i])))
                if exact < mpmath.mpf(10) ** -290 and not scaled:
                    assert found < 1e-290
                    continue
                assert abs(found - exact) <= mpmath.mpf(float(error[i])) * exact
                smallest = min(smallest, float(exact))
    return smallest


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
@pytest.mark.parametrize("mean", [0.0, 0.1, -17.3])
def test_masses_of_intervals_are_as_accurate_as_they_say(pair: LaplaceSum, mean: float) -> None:
    unit = pair.scales[0] * np.array([1e-12, 1e-7, 1e-3, 0.1, 1.0, 5.0, 40.0, 599.0, 601.0, 650.0, 2000.0])
    unit = np.concatenate((unit, pair.scales[1] * np.array([1e-3, 0.3, 2.0, 2.0 + 1e-9, 30.0])))
    ends = np.unique(np.concatenate((-unit, [0.0], unit, unit + 1e-10 * unit))) + mean
    smallest = checked_intervals(pair, np.concatenate(([-np.inf], ends, [np.inf])), mean)
    assert smallest == 0.0
    _, error, _ = pair.interval(ends[:-1], ends[1:], mean)
    assert error.max() < 1e-12


def test_masses_of_drawn_intervals() -> None:
    rng = np.random.default_rng(SEED)
    for _ in range(times(40)):
        pair = drawn_pair(rng)
        size = pair.scales[int(rng.integers(2))] * 10.0 ** rng.uniform(-6.0, 2.5, 12)
        checked_intervals(pair, np.unique(size * rng.choice([-1.0, 1.0], 12)), 0.3 * float(rng.random()))


def test_outcomes_far_beyond_all_scales_have_no_mass() -> None:
    pair = LaplaceSum((1e-30, 1e-30), 1e30)
    ends = np.array([-np.inf, -1e300, -1.0, 1.0, 1e300, np.inf])
    for scaled in (False, True):
        mass, _, _ = pair.interval(ends[:-1], ends[1:], 0.0, scaled=scaled)
        assert mass.tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]


# -- losses --------------------------------------------------------------------------------------------------------


def edges_for(pair: LaplaceSum, rng: np.random.Generator, number: int = 12) -> np.ndarray:
    """Edges everywhere, many of them near 0, where x turns from inside to outside, and near the bound on all losses."""
    largest = pair.sensitivity / pair.scales[0]
    with LaplaceSumTruth(pair) as truth:
        middle = float(truth.loss(mpmath.mpf(0)))
    near = 10.0 ** rng.uniform(-16.0, -0.5, number)
    some = np.concatenate(
        (
            largest * rng.uniform(0.0, 1.1, number),
            largest * (1.0 - near),
            middle * rng.uniform(0.0, 1.0, number),
            middle * (1.0 + near),
            largest * near,
            [0.0, largest, middle],
        )
    )
    return np.unique(np.concatenate((-some, some)))


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
def test_bins_enclose_the_exact_integrals(pair: LaplaceSum) -> None:
    edges = edges_for(pair, np.random.default_rng(SEED), 2)
    scaled = pair.scaled_loss_masses(edges, Direction.A_TO_B)
    assert scaled.masses.loss_error < 1e-13 * pair.sensitivity / pair.scales[0]
    with LaplaceSumTruth(pair) as truth:
        check_bins(truth, edges, scaled, mpmath.mpf(scaled.masses.loss_error))
    # Reflection exchanges the distributions.
    mirrored = pair.scaled_loss_masses(-edges[::-1], Direction.B_TO_A)
    np.testing.assert_array_equal(mirrored.masses.bins_a.upper, scaled.masses.bins_b.upper[::-1])
    np.testing.assert_array_equal(mirrored.log_scale_b, scaled.log_scale_a[::-1])


def check_bins(truth: LaplaceSumTruth, edges: np.ndarray, scaled: ScaledLossMasses, slack: mpmath.mpf) -> None:
    """The masses of both above each loss are those of the exact half-lines, up to the error of losses."""
    masses = scaled.masses
    sides = [
        (masses.bins_a, scaled.log_scale_a, masses.atoms_a, scaled.atoms_log_scale_a),
        (masses.bins_b, scaled.log_scale_b, masses.atoms_b, scaled.atoms_log_scale_b),
    ]
    for kind, outwards in (("lower", 1), ("upper", -1)):
        places = [truth.last_above(mpmath.mpf(edge) - outwards * slack) for edge in edges.tolist()]
        for mean, (bins, log_scale, atoms, atoms_scale) in zip((mpmath.mpf(0), truth.s), sides, strict=True):
            own, of_atoms = (
                [mpmath.mpf(float(x)) * mpmath.exp(mpmath.mpf(float(y))) for x, y in zip(*each, strict=True)]
                for each in ((getattr(bins, kind), log_scale), (getattr(atoms, kind), atoms_scale))
            )
            for i, (edge, x) in enumerate(zip(edges.tolist(), places, strict=True)):
                above = masses.atom_loss > edge - (0.0 if kind == "lower" else 2.0 * masses.loss_error)
                found = mpmath.fsum([*own[i + 1 :], *(each for each, yes in zip(of_atoms, above, strict=True) if yes)])
                exact = mpmath.mpf(0) if x is None else truth.mass(-mpmath.inf, x - mean)
                assert found <= exact if kind == "lower" else found >= exact


def test_losses_at_end_points_of_drawn_pairs() -> None:
    rng = np.random.default_rng(SEED + 1)
    for _ in range(times(10)):
        pair = drawn_pair(rng)
        edges = edges_for(pair, rng)
        masses, x = pair.loss_masses(edges), pair._location(edges)
        assert np.all(x[1:] <= x[:-1] + 1e-13 * pair.sensitivity)
        largest = mpmath.mpf(pair.sensitivity) / mpmath.mpf(pair.scales[0])
        with LaplaceSumTruth(pair) as truth:
            for edge, place in zip(edges.tolist(), x.tolist(), strict=True):
                exact = truth.loss(mpmath.mpf(place)) if math.isfinite(place) else -largest * mpmath.sign(place)
                # No loss lies beyond the largest, whatever the edge.
                wanted = min(max(mpmath.mpf(edge), -largest), largest)
                assert abs(exact - wanted) <= masses.loss_error
        assert masses.loss_error <= 1e-13 * float(largest)


def test_ends_keep_their_order_and_do_not_depend_on_others() -> None:
    for pair in PAIRS:
        largest = pair.sensitivity / pair.scales[0]
        edges = np.linspace(-1.05 * largest, 1.05 * largest, 5001)
        assert pair.keeps_order(edges)
        together = pair._location(edges)
        np.testing.assert_array_equal(together[2000:3003], pair._location(edges[2000:3003]))
        assert not pair.keeps_order(edges[::-1])


def test_a_scale_far_below_the_other_leaves_atoms_at_the_largest_loss() -> None:
    for pair in PAIRS:
        masses = pair.loss_masses(np.array([0.0]))
        assert (masses.atom_loss.size == 2) == (pair.scales[0] > 33.0 * pair.scales[1])
    near = LaplaceSum((1.0, 1e-9), 1.0)
    bounds, single = (
        privacy_bounds(pair, compositions=[1, 30], epsilon=[0.0, 0.4, 1.0]) for pair in (near, Laplace(1.0))
    )
    np.testing.assert_allclose(bounds.delta_upper.values, single.delta_upper.values, rtol=1e-3, atol=1e-13)


# -- δ ---------------------------------------------------------------------------------------------------------------


def check_one_round(rng: np.random.Generator, method: str) -> None:
    pair = drawn_pair(rng)
    largest = pair.sensitivity / pair.scales[0]
    parts = [10.0 ** rng.uniform(-6.0, 0.0), rng.uniform(0.0, 1.0), rng.choice([0.0, 0.9 * rng.random(), 1.5])]
    # Next to the bound on all losses it takes long.
    if rng.random() < 0.1:
        parts += [1.0 - 10.0 ** rng.uniform(-9.0, -0.5), 1.0]
    epsilon = np.unique(largest * np.array(parts))
    options = {"buckets": 2000} if method == "buckets" else {"tolerance": float(rng.choice([1e-2, 1e-3]))}
    bounds = privacy_bounds(pair, compositions=1, epsilon=epsilon, method=method, direction="each", **options)
    with LaplaceSumTruth(pair) as truth:
        for j, each in enumerate(epsilon.tolist()):
            exact = truth.delta(mpmath.mpf(each))
            for direction in range(2):
                lower, upper = (bound.values[direction, 0, j] for bound in (bounds.delta_lower, bounds.delta_upper))
                assert lower <= exact <= upper, (pair, each, lower, upper)
            within = method == "buckets" or bounds.within_tolerance.values[:, 0, j].all()
            # They are close below nine tenths of the bound on all losses, where neither that nor δ is very small.
            assert within or each > 0.9 * largest or largest < 1e-3 or exact < 1e-9, (pair, each)


@pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning")
@pytest.mark.parametrize(
    ("part", "method", "number"),
    [
        (0, "tight", 2),
        *(pytest.param(part, "tight", 10, marks=pytest.mark.nightly) for part in range(1, 10)),
        (10, "buckets", 3),
    ],
)
def test_one_round_of_drawn_pairs(part: int, method: str, number: int) -> None:
    """About a thousand with effort 11."""
    rng = np.random.default_rng((SEED, part))
    for _ in range(times(number)):
        check_one_round(rng, method)


def enumerated(pair: LaplaceSum, cells: int) -> tuple[np.ndarray, ...]:
    """Masses of (A, B) on many intervals of x in float64 and the losses at their ends, from the density as written."""
    b1, b2 = pair.scales
    s = pair.sensitivity
    x = np.concatenate(([-np.inf], np.linspace(-38.0 * b1, s + 38.0 * b1, cells - 1), [np.inf]))

    def below(z: np.ndarray) -> np.ndarray:
        t = np.minimum(np.abs(z), 1e4 * b1)
        tail = np.exp(-t / b1) * (2.0 + t / b1) / 4.0
        if b1 != b2:
            tail = (b1**2 * np.exp(-t / b1) - b2**2 * np.exp(-t / b2)) / (2.0 * (b1**2 - b2**2))
        return np.where(z < 0.0, tail, 1.0 - tail)

    def log_density(z: np.ndarray) -> np.ndarray:
        t = np.abs(z)
        if b1 == b2:
            return np.log1p(t / b1) - t / b1
        return np.log(b1 - b2 * np.exp(-t * (1.0 / b2 - 1.0 / b1))) - t / b1

    # From either side, so that small masses keep their digits.
    def masses(shift: float) -> np.ndarray:
        left, right = np.diff(below(x - shift)), -np.diff(below(shift - x))
        return np.where(x[1:] < shift, left, right)

    with np.errstate(invalid="ignore"):
        loss = np.where(np.isinf(x), -np.sign(x) * s / b1, log_density(x) - log_density(x - s))
    return masses(0.0), masses(s), loss[1:], loss[:-1]


def composed_delta(pair: LaplaceSum, rounds: int, epsilon: list[float], cells: int) -> list[tuple[float, float]]:
    """δ from below and from above: losses on a whole lattice, convolved one by one.

    From below the masses of A and of B that come to the same place are compared, from above losses are rounded up.
    """
    a, b, low, high = enumerated(pair, cells)
    assert abs(a.sum() - 1.0) + abs(b.sum() - 1.0) < 1e-12
    width = 2.0 * pair.sensitivity / pair.scales[0] / cells

    def all_rounds(masses: np.ndarray, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = np.ceil(losses / width).astype(np.int64)
        one = np.bincount(place - place.min(), masses)
        found = one
        for _ in range(rounds - 1):
            found = np.convolve(found, one)
        return found, width * (int(place.min()) * rounds + np.arange(found.size))

    own, other = (all_rounds(masses, low)[0] for masses in (a, b))
    above, loss = all_rounds(a, high)
    return [
        (
            float(np.maximum(own - math.exp(each) * other, 0.0).sum()),
            float(above @ np.maximum(0.0, -np.expm1(each - loss))),
        )
        for each in epsilon
    ]


@pytest.mark.parametrize(
    ("pair", "rounds"),
    [
        (LaplaceSum((2.0, 1.0), 3.0), 2),
        (LaplaceSum((1.0, 1.0), 0.5), 3),
        (LaplaceSum((1.0, 1.0 - 1e-4), 1.0), 5),
        (LaplaceSum((1.0, 0.2), 0.3), 8),
        (LaplaceSum((3.0, 0.02), 1.0), 4),
        pytest.param(LaplaceSum((5.0, 4.0), 1.0), 40, marks=pytest.mark.nightly),
    ],
    ids=repr,
)
@pytest.mark.parametrize("method", ["tight", "buckets"])
def test_compositions_against_an_enumeration(pair: LaplaceSum, rounds: int, method: str) -> None:
    largest = pair.sensitivity / pair.scales[0]
    epsilon = [0.0, 0.1 * rounds * largest, 0.35 * rounds * largest]
    options = {"buckets": 4000} if method == "buckets" else {"tolerance": 1e-4}
    bounds = privacy_bounds(pair, compositions=rounds, epsilon=epsilon, method=method, **options)
    for j, (low, high) in enumerate(composed_delta(pair, rounds, epsilon, 6000 if rounds < 10 else 3000)):
        lower, upper = bounds.delta_lower.values[0, j], bounds.delta_upper.values[0, j]
        # The enumeration itself is rounded; from below it is close.
        assert lower <= high + 1e-13
        assert low - 1e-13 <= upper
        assert lower <= low * (1.0 + 1e-3)
        assert method == "buckets" or upper <= lower * (1.0 + 1e-4)


@pytest.mark.parametrize("first", [1.0, 0.3])
def test_nearly_equal_scales_are_as_equal_ones(first: float) -> None:
    grid = {"compositions": [1, 20], "epsilon": [0.0, 0.3, 2.0], "tolerance": 1e-4}
    equal = privacy_bounds(LaplaceSum((first, first)), **grid)
    for second in (math.nextafter(first, 0.0), first * (1.0 - 1e-12), math.nextafter(first, 2.0)):
        found = privacy_bounds(LaplaceSum((first, second)), **grid)
        np.testing.assert_allclose(found.delta_upper, equal.delta_upper, rtol=2e-4)
        np.testing.assert_allclose(found.delta_lower, equal.delta_lower, rtol=2e-4)


@pytest.mark.parametrize("scales", [(20.0, 10.0), (5.0, 5.0), (3.0, 0.05)])
def test_a_sum_hides_more_than_its_parts(scales: tuple[float, float]) -> None:
    """It is a function of both, and of either noise with a further one added."""
    grid = {"compositions": [2, 50], "epsilon": [0.0, 0.1, 0.2]}
    summed = privacy_bounds(LaplaceSum(scales, 3.0), **grid)
    apart = Product(Laplace(scales[0], 2.0), Laplace(scales[1], 1.0))
    for other in (apart, Laplace(scales[0], 3.0), Laplace(scales[1], 3.0)):
        assert np.all(summed.delta_lower.values <= privacy_bounds(other, **grid).delta_upper.values)
    both = privacy_bounds(apart, **grid)
    assert np.all(summed.delta_upper.values < both.delta_lower.values)


@pytest.mark.nightly
@pytest.mark.parametrize("scales", [(2.0, 1.0), (1.0, 1.0), (1.0, 0.01)])
def test_smaller_shifts_are_dominated(scales: tuple[float, float]) -> None:
    whole = LaplaceSumTruth(LaplaceSum(scales, 1.5))
    with whole:
        for part in (0.01, 0.4, 0.95):
            smaller = LaplaceSumTruth(LaplaceSum(scales, 1.5 * part))
            for epsilon in (0.0, 0.1, 0.5, 1.2):
                assert smaller.delta(mpmath.mpf(epsilon)) <= whole.delta(mpmath.mpf(epsilon))


@pytest.mark.parametrize("pair", [LaplaceSum((2.0, 1.0), 3.0), LaplaceSum((1.0, 1.0), 0.2), LaplaceSum((1.0, 0.01))])
def test_renyi_divergences(pair: LaplaceSum) -> None:
    orders = [1.0, 2.0, 12.0]
    found = renyi_bounds(pair, compositions=1, order=orders)
    truth = LaplaceSumTruth(pair)
    with mpmath.workdps(20):
        knots = [-60, -20, -5, -1, -0.1, 0, pair.sensitivity / 2, pair.sensitivity]
        knots += [pair.sensitivity + x for x in (0.1, 1, 5, 20, 60)]
        for order, lower, upper in zip(
            orders, found.renyi_lower.values.ravel(), found.renyi_upper.values.ravel(), strict=True
        ):

            def integrand(x: mpmath.mpf, order: float = order) -> mpmath.mpf:
                loss = truth.loss(x)
                return truth.density(x) * (loss if order == 1.0 else mpmath.expm1((order - 1) * loss))

            moment = mpmath.quad(integrand, knots)
            exact = moment if order == 1.0 else mpmath.log1p(moment) / (order - 1)
            assert lower <= exact * (1 + 1e-9)
            assert exact <= upper * (1 + 1e-9)


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair.scales[0] < 33.0 * pair.scales[1]], ids=repr)
def test_the_picture_is_that_of_the_losses(pair: LaplaceSum) -> None:
    loss, log_mass = pair.loss_picture(0.0) or (np.zeros(0), np.zeros(0))
    assert np.all(np.diff(loss) > 0.0)
    largest = pair.sensitivity / pair.scales[0]
    own, other = np.exp(log_mass), np.exp(log_mass - loss)
    assert own.sum() == pytest.approx(1.0, rel=1e-9)
    # A thousand nats are drawn in few points.
    near = 0.3 if largest > 100.0 else 1e-2
    assert other.sum() == pytest.approx(1.0, rel=near)
    # As much as the divergence of order 1, whatever the total of P_B.
    divergence = renyi_bounds(pair, compositions=1, order=1.0).renyi_upper.item()
    assert other.sum() - own.sum() + own @ loss == pytest.approx(divergence, rel=near)
    assert 0.98 * largest < loss[-1] <= largest


@pytest.mark.parametrize(("second", "sensitivity"), [(1.0, 1.0), (0.9, 3.5), (0.1, 1.0)])
def test_bounds_are_close_next_to_the_largest_loss(second: float, sensitivity: float) -> None:
    found = privacy_bounds(LaplaceSum((1.0, second), sensitivity), compositions=4, epsilon=4 * 0.98 * sensitivity)
    assert found.within_tolerance.all()


# -- the description ---------------------------------------------------------------------------------------------------
