"""Counts under noise: every reading against its definition, of discrete noise outcome by outcome in 60 digits."""

from collections.abc import Iterator

import mpmath
import numpy as np
import pytest

from pbdist import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoisyCount,
    privacy_bounds,
    size,
)
from pbdist.mechanisms import READINGS
from tests import effort
from tests.effort import times
from tests.mechanisms.noise_masses import gaussian_mass, laplace_mass
from tests.oracles.outcome_pairs import Outcomes, epsilons_about, violations

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    """Whatever other modules set."""
    with mpmath.workdps(60):
        yield


def noise_masses(noise: DiscreteLaplace | DiscreteGaussian, left_out: int = -70) -> dict[int, mpmath.mpf]:
    """P(N = k) by the definition, for all k of a mass above a power of 10."""
    scale = mpmath.mpf(noise.scale)

    def weight(k: int) -> mpmath.mpf:
        return mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * scale**2) if isinstance(noise, DiscreteGaussian) else -k / scale)

    found = {0: mpmath.mpf(1)}
    k = 0
    while weight(k) > mpmath.mpf(10) ** left_out:
        k += 1
        found[k] = found[-k] = weight(k)
    total = sum(found.values())
    return {k: mass / total for k, mass in found.items()}


def counts_of(pair: NoisyCount, left_out: int = -70) -> tuple[dict[int, mpmath.mpf], dict[int, mpmath.mpf]]:
    """What an observer sees without and with the shift, by the definition of the reading: masses by count."""
    masses = noise_masses(pair.noise, left_out)  # type: ignore[arg-type]
    draws = {int(pair.mean) + k: mass for k, mass in masses.items()}

    def seen(true_count: int, *, inside: int = 0) -> dict[int, mpmath.mpf]:
        found: dict[int, mpmath.mpf] = {}
        for draw, mass in draws.items():
            if pair.reading == "redraw-and-floor" and draw < 0:
                continue
            count = true_count + max(0, draw + inside)
            found[count] = found.get(count, mpmath.mpf(0)) + mass
        total = sum(found.values())
        return {count: mass / total for count, mass in found.items()}

    return seen(0), seen(0, inside=pair.shift) if pair.reading == "shift-inside" else seen(pair.shift)


def outcomes_of(pair: NoisyCount) -> Outcomes:
    """The same as a list."""
    a, b = counts_of(pair)
    return [(a.get(count, mpmath.mpf(0)), b.get(count, mpmath.mpf(0))) for count in sorted({*a, *b})]


def drawn(rng: np.random.Generator) -> NoisyCount:
    kind = DiscreteLaplace if rng.random() < 0.5 else DiscreteGaussian
    small = kind is DiscreteLaplace
    noise = kind(float(rng.choice([rng.uniform(0.15, 0.6 if small else 2.0), 10.0 ** rng.uniform(-1.0, 0.1)])))
    mean = int(rng.choice([0, 1, 2, int(rng.integers(0, 12)), -1 if noise.scale > 0.3 else 0]))
    reading = str(rng.choice(READINGS))
    return NoisyCount(noise, mean, int(rng.choice([1, 1, 2, 3, 7])), reading)


def test_drawn_counts_against_enumeration() -> None:
    rng, wrong = np.random.default_rng([46, effort.SEED]), 0
    for _ in range(times(12)):
        pair = drawn(rng)
        outcomes = outcomes_of(pair)
        rounds = (1, 2) if len(outcomes) < 50 else (1,)
        # e^50 times what is left out, 1e-70, is still nothing.
        wrong += violations(pair, outcomes, epsilons_about(outcomes, rng, 50.0)[:3], rounds=rounds)
    assert wrong == 0


def test_the_masses_of_drawn_counts_enclose_their_definition() -> None:
    """Every count of its own, or the two stretches of constant loss: sums of exact masses by their losses."""
    rng, tiny = np.random.default_rng([47, effort.SEED]), mpmath.mpf(10) ** -270
    for _ in range(times(15)):
        pair = drawn(rng)
        side_a, side_b = counts_of(pair, -1500)
        found = pair.loss_masses(np.zeros(1))
        alone = [] if pair.reading == "shift-inside" else [side_a.get(count, 0) for count in range(pair.shift)]
        only_a = sum(alone, mpmath.mpf(0))
        assert found.only_a.lower[0] <= only_a + tiny
        assert only_a <= found.only_a.upper[0] + tiny
        outcomes = [(side_a[count], side_b[count]) for count in {*side_a} & {*side_b}]
        losses = np.array([float(mpmath.log(a / b)) for a, b in outcomes])
        for loss in np.unique(found.atom_loss[np.isfinite(found.atom_loss)]):
            near = np.abs(found.atom_loss - loss) <= 1e-9 * (1 + abs(loss))
            told = np.flatnonzero(np.abs(losses - loss) <= 1e-9 * (1 + abs(loss)))
            exact = [outcomes[index] for index in told.tolist()]
            for bounds, side in ((found.atoms_a, 0), (found.atoms_b, 1)):
                mass = sum((outcome[side] for outcome in exact), mpmath.mpf(0))
                assert sum(bounds.lower[near]) * (1 - 1e-14) <= mass + tiny
                assert mass <= sum(bounds.upper[near]) * (1 + 1e-14) + tiny
        for bounds in (found.atoms_a, found.atoms_b):
            assert sum(bounds.upper) <= sum(bounds.lower) * (1 + 1e-10) + 1e-270


@pytest.mark.parametrize("noise", [DiscreteLaplace(3.0), DiscreteGaussian(2.5), DiscreteLaplace(0.02)], ids=repr)
def test_intervals_of_whole_draws(noise: DiscreteLaplace | DiscreteGaussian) -> None:
    mean = 4.0
    masses = noise_masses(noise)
    ends = [(-np.inf, -3.0), (-np.inf, 4.0), (-np.inf, np.inf), (0.0, np.inf), (4.0, 4.0), (5.0, 9.0), (-2.0, 30.0)]
    ends += [(6.0, np.inf), (-7.0, -7.0), (1.0, 3.0), (4.0, np.inf)]
    first, last = (np.array(side) for side in zip(*ends, strict=True))
    found, error = noise.interval(first, last, mean)
    for low, high, mass, relative in zip(first, last, found, error, strict=True):
        exact = sum((each for k, each in masses.items() if low <= k + mean <= high), mpmath.mpf(0))
        assert exact < 1e-60 or abs(mpmath.mpf(float(mass)) - exact) <= exact * mpmath.mpf(float(relative))
        assert exact < 1e-60 or relative < 1e-12


@pytest.mark.parametrize("mean", [-2, 0, 1, 9, 40])
@pytest.mark.parametrize("noise", [DiscreteLaplace(0.5), DiscreteLaplace(6.0), DiscreteGaussian(3.0)], ids=repr)
def test_expected_counts(noise: DiscreteLaplace | DiscreteGaussian, mean: int) -> None:
    draws = {mean + k: mass for k, mass in noise_masses(noise).items()}
    clamped = sum((mass * draw for draw, mass in draws.items() if draw > 0), mpmath.mpf(0))
    kept = sum((mass for draw, mass in draws.items() if draw >= 0), mpmath.mpf(0))
    for reading in READINGS:
        exact = clamped / kept if reading == "redraw-and-floor" else clamped
        assert NoisyCount(noise, mean, 2, reading).expected_count == pytest.approx(float(exact), rel=1e-11)


@pytest.mark.parametrize("mean", [-4.0, 0.0, 0.25, 1.0, 7.5, 300.0])
@pytest.mark.parametrize(
    "noise", [Laplace(0.3), Laplace(2.5), Laplace(40.0), Gaussian(1.25), Gaussian(30.0), Gaussian(250.0)]
)
def test_expected_count_of_every_reading(noise: Laplace | Gaussian, mean: float) -> None:
    with mpmath.workdps(30):
        last = int(max(mean, 0.0) + (35 if isinstance(noise, Laplace) else 9) * noise.scale) + 2
        mass = gaussian_mass if isinstance(noise, Gaussian) else laplace_mass
        # P(X >= count), which is P(X > count).
        kept, *more = (mass(count, mpmath.inf, noise.scale, mean) for count in range(last))
        from_one = mpmath.fsum(more)
        truth = {
            "clamp-and-ceil": kept + from_one,
            "shift-inside": kept + from_one,
            "redraw-and-floor": from_one / kept,
        }
        for reading, expected in truth.items():
            found = NoisyCount(noise, mean, 3, reading).expected_count
            assert abs(found / expected - 1) < 1e-11, (reading, found, expected)


def test_far_from_0_the_count_is_the_noise() -> None:
    """Where no draw is cut, counts of a shift of 1 under discrete noise are that noise itself."""
    for noise in (DiscreteLaplace(5.0), DiscreteGaussian(4.0)):
        mine, its = (
            privacy_bounds(pair, compositions=[1, 20], epsilon=[0.0, 0.5, 2.0])
            for pair in (NoisyCount(noise, 3000, 1, "shift-inside"), noise)
        )
        np.testing.assert_allclose(mine.delta_upper, its.delta_upper, rtol=2e-3, atol=1e-40)


@pytest.mark.parametrize("reading", READINGS)
def test_many_counts_of_a_large_mean(reading: str) -> None:
    pair = NoisyCount(DiscreteGaussian(320.0), 1600, 2, reading)
    found = privacy_bounds(pair, compositions=[1, 64], epsilon=[0.01, 0.1])
    # Rounded Gaussian noise is close to it.
    close = privacy_bounds(NoisyCount(Gaussian(320.0), 1600, 2, reading), compositions=[1, 64], epsilon=[0.01, 0.1])
    np.testing.assert_allclose(found.delta_upper, close.delta_upper, rtol=0.05)
    assert found.within_tolerance.all()


def test_its_scale_is_sized_at_a_mean() -> None:
    found = size(
        NoisyCount,
        noise="DiscreteLaplace",
        mean=60,
        shift=1,
        reading="shift-inside",
        compositions=4,
        epsilon=1.0,
        delta=1e-4,
    )
    bounds = privacy_bounds(found.mechanism, compositions=4, epsilon=1.0)
    assert bounds.delta_upper.item() <= 1e-4
    assert isinstance(found.mechanism.noise, DiscreteLaplace)  # type: ignore[attr-defined]
