"""ε for a given δ, against the inverse of the closed form of Gaussian noise."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from pbdist import epsilon_bounds, privacy_bounds
from pbdist.mechanisms import (
    ApproximateDP,
    DiscreteGaussian,
    ElementaryPair,
    Gaussian,
    Histogram,
    Laplace,
    MetricDP,
    RandomizedResponse,
    SubsampledGaussian,
    SubsampledLaplace,
)
from pbdist.pld.inversion import _crossings_near, _Search, epsilon_table
from pbdist.pld.many_rounds import spacing_for
from pbdist.pld.question import Shared
from pbdist.types import Direction


def gaussian_delta(mu: mpmath.mpf, epsilon: float) -> mpmath.mpf:
    loss = mpmath.mpf(epsilon)
    return mpmath.ncdf(mu / 2 - loss / mu) - mpmath.exp(loss) * mpmath.ncdf(-mu / 2 - loss / mu)


@pytest.mark.parametrize("scale", [0.7, 20.0])
def test_gaussian_epsilon_lies_between(scale: float) -> None:
    """δ falls with ε: it exceeds what was asked for at the lower bound, and does not at the upper one."""
    rounds, deltas = np.array([1, 10, 1000]), np.array([1e-2, 1e-6, 1e-20])
    found = epsilon_table({Gaussian(scale): 1}, rounds, deltas, tolerance=1e-3)
    np.testing.assert_array_equal(found.lower[0], found.lower[1])
    with mpmath.workdps(60):
        for row, r in enumerate(rounds.tolist()):
            mu = mpmath.sqrt(r) / mpmath.mpf(scale)
            for column, delta in enumerate(deltas.tolist()):
                low, high = found.lower[0, row, column], found.upper[0, row, column]
                assert low <= high
                assert low == 0.0 or gaussian_delta(mu, float(low)) > delta
                assert gaussian_delta(mu, float(high)) <= delta
                assert high <= low * (1.0 + 2e-3) + 1e-9
    assert np.all(np.diff(found.upper[0], axis=0) > -1e-3 * found.upper[0, 1:])
    assert np.all(np.diff(found.upper[0], axis=1) > 0.0)


def test_what_no_epsilon_meets_is_infinite() -> None:
    found = epsilon_table({ApproximateDP(1.0, 1e-3): 1}, np.array([1, 4]), np.array([1e-4, 0.5]), tolerance=1e-2)
    assert np.all(np.isinf(found.upper[0, :, 0]))
    assert np.all(np.isfinite(found.upper[0, :, 1]))
    # With mass 1e-3 alone at infinity, δ = 1e-3 is met from the loss on.
    one = epsilon_table({ApproximateDP(1.0, 1e-3): 1}, np.array([1]), np.array([1.1e-3]), tolerance=1e-2)
    truth = math.log((0.999 * math.e / (1.0 + math.e) - 1e-4) / (0.999 / (1.0 + math.e)))
    assert one.lower[0, 0, 0] <= truth <= one.upper[0, 0, 0] <= truth * 1.02


def test_directions_are_apart() -> None:
    found = epsilon_table({Histogram([9, 1], [5, 5]): 1}, np.array([1]), np.array([0.1]), tolerance=1e-3)
    # 0.9 - 0.5 e^ε = 0.1 one way, 0.5 - 0.1 e^ε = 0.1 the other.
    for axis, truth in enumerate((math.log(1.6), math.log(4.0))):
        assert found.lower[axis, 0, 0] <= truth * (1 + 1e-12)
        assert truth * (1 - 1e-12) <= found.upper[axis, 0, 0] <= truth * 1.01


def test_epsilon_of_thousands_of_nats_is_known_from_both_sides():
    """Beyond what a ladder reads, and where one period of a transform is short beside ε."""
    bounds = epsilon_bounds(SubsampledGaussian(0.5, 0.05), compositions=100_000, delta=1e-8)
    lower, upper = float(bounds.epsilon_lower.max()), float(bounds.epsilon_upper.max())
    assert 2400.0 < lower <= upper <= lower * (1.0 + 2e-4)
    # δ is above 10^-8 a little below it, and below it a little above.
    near = privacy_bounds(SubsampledGaussian(0.5, 0.05), compositions=100_000, epsilon=[0.999 * lower, 1.001 * upper])
    larger = near.delta_lower.values.ravel(), near.delta_upper.values.ravel()
    assert larger[0][0] > 1e-8 > larger[1][1]


@pytest.mark.parametrize(("rounds", "epsilon"), [(700, 1.0), (1000, 1.0), (50_000, 0.1)])
def test_large_epsilon_of_randomized_response_is_told(rounds, epsilon):
    """Of ε up to 690 nats, against the exact sum over how often the unlikely answer is given."""
    pair = RandomizedResponse(1.0 / (1.0 + math.exp(-epsilon)))
    found = epsilon_bounds(pair, compositions=rounds, delta=1e-5)
    low, high = found.epsilon_lower.item(), found.epsilon_upper.item()
    assert 300.0 < low <= high <= low * 1.0001
    number = np.arange(rounds + 1)
    masses = binom.pmf(number, rounds, 1.0 - pair.p)
    losses = (rounds - 2.0 * number) * math.log(pair.p / (1.0 - pair.p))
    for value, above in ((low * (1 - 1e-9), True), (high * (1 + 1e-9), False)):
        delta = float(np.sum(masses * np.maximum(0.0, -np.expm1(np.minimum(value - losses, 0.0)))))
        assert (delta > 1e-5) == above


@pytest.mark.parametrize(("scale", "rounds", "delta"), [(5.1, 7, 1.2e-7), (1.0, 3, 1.8e-12), (0.5, 4, 1e-9)])
def test_next_to_the_largest_loss_no_engine_runs(
    monkeypatch: pytest.MonkeyPatch, scale: float, rounds: int, delta: float
) -> None:
    """There ladders took seconds; the event that all rounds have their largest losses says enough."""
    monkeypatch.setattr(_Search, "by_engines", lambda _: pytest.fail("an engine ran"))
    found = epsilon_bounds(Laplace(scale), compositions=rounds, delta=delta)
    lower, upper = float(found.epsilon_lower.item()), float(found.epsilon_upper.item())
    assert 0.0 < lower < upper <= rounds / scale * (1.0 + 1e-12)
    assert upper - lower <= 1e-4 * upper
    with mpmath.workdps(60):
        assert mpmath.mpf(2) ** -rounds * -mpmath.expm1(mpmath.mpf(lower) - rounds / mpmath.mpf(scale)) > delta
    assert privacy_bounds(Laplace(scale), compositions=rounds, epsilon=upper).delta_lower.item() <= delta


def discrete_gaussian_delta(scale: float, rounds: int, epsilon: float, delta: float) -> mpmath.mpf:
    """The loss of rounds depends on the sum of the outcomes alone."""
    reach = int(scale * (math.sqrt(-2.0 * math.log(delta)) + 3.0))
    single = np.array(
        [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(scale) ** 2)) for k in range(-reach, reach + 1)]
    )
    total = np.array([mpmath.mpf(1)])
    for _ in range(rounds):
        total = np.convolve(total, single / single.sum())
    limit = scale**2 * mpmath.mpf(epsilon)
    middle = total.size // 2
    losses = [(mpmath.mpf(rounds) / 2 - k - limit) / mpmath.mpf(scale) ** 2 for k in range(-middle, middle + 1)]
    return sum(-mass * mpmath.expm1(-loss) for mass, loss in zip(total, losses, strict=True) if loss > 0)


@pytest.mark.parametrize(
    ("scale", "rounds", "delta"), [(2.7, 4, 1e-10), (2.7, 5, 1e-9), (2.0, 6, 1e-12), (5.0, 2, 1e-30)]
)
def test_epsilon_of_few_rounds_of_discrete_noise(scale: float, rounds: int, delta: float) -> None:
    """Next to an atom δ falls so steeply that frequencies alone miss the tolerance."""
    found = epsilon_bounds(DiscreteGaussian(scale), compositions=rounds, delta=delta, strict=True)
    lower, upper = float(found.epsilon_lower.max()), float(found.epsilon_upper.max())
    with mpmath.workdps(60):
        assert discrete_gaussian_delta(scale, rounds, lower, delta) > delta
        assert discrete_gaussian_delta(scale, rounds, upper, delta) <= delta


@pytest.mark.parametrize("step", [1e-9, 1e-3, 0.3])
def test_what_secants_have_read_is_between(step: float) -> None:
    """Of ln δ that falls by steps, as next to atoms, and with bounds some way apart."""
    draw = np.random.default_rng(4)
    served = 0
    for _ in range(50):
        truth, slope, apart = draw.uniform(0.5, 20.0), -draw.uniform(0.5, 5.0), 10.0 ** draw.uniform(-9.0, -1.0)

        def reader(points, truth=truth, slope=slope, apart=apart):  # type: ignore[no-untyped-def]
            log_delta = slope * step * np.floor((points - truth) / step)
            return log_delta - apart, log_delta + apart

        guess = np.array([truth * draw.uniform(0.9, 1.1)])
        found, ends = _crossings_near(reader, guess, np.array([slope]), np.zeros((1, 2)), 1e-4)
        served += int(found[0])
        low, high = ends[0].tolist()
        assert low == 0.0 or reader(low)[0] > 0.0
        assert high == math.inf or reader(high)[1] <= 0.0
        assert low < high
        assert not found[0] or 0.0 < low < high < math.inf
    assert served > {1e-9: 25, 1e-3: 0, 0.3: -1}[step]


@pytest.mark.parametrize(
    ("pair", "rounds", "delta"),
    [(Laplace(4.045404850807277), 16, 9.5e-8), (MetricDP(1.2735115201985123), 13, 1.035e-4)],
)
def test_guesses_next_to_an_atom_at_the_largest_loss_ask_for_no_fine_lattice(
    pair: ElementaryPair, rounds: int, delta: float
) -> None:
    search = _Search({pair: 1}, rounds, delta, (Direction.A_TO_B,), aim=1e-4, shared=Shared())
    guess, slope = search.guess
    question = search.question(guess, slope)
    assert guess == pytest.approx(rounds * question.exponents(Direction.A_TO_B).largest_mean)
    assert spacing_for(question, rounds) == 0.0


def test_guesses_at_the_steepest_tilt_of_smooth_losses_are_read_all_the_same() -> None:
    pair = SubsampledLaplace(0.6208432026256703, 6.208796001928445e-06)
    found = epsilon_table({pair: 1}, np.array([55]), np.array([3.26e-6]), tolerance=1e-3)
    assert np.all(found.lower > 8e-5)
    assert np.all(found.upper <= 1.001 * found.lower)
