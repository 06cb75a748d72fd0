"""Poisson noise: masses by their definition, bounds against exact values."""

import math
import random
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist import Poisson, privacy_bounds
from pbdist.mechanisms.counts import poisson_masses
from pbdist.mechanisms.masses import SMALLEST_MASS
from pbdist.types import Direction
from tests.effort import times
from tests.oracles.truth import ProductTruth

mpmath.mp.dps = 50

NO_EDGES = np.array([0.0])


def poisson_mass(k, mean):
    with mpmath.workdps(60):
        mu = mpmath.mpf(mean)
        return mpmath.exp(k * mpmath.log(mu) - mu - mpmath.loggamma(k + 1))


def test_poisson_masses_are_known_to_their_error():
    draw = random.Random(1)  # noqa: S311
    worst = compared = 0
    for _ in range(1200):
        mean = 10.0 ** draw.uniform(-4.0, 10.5)
        if draw.random() < 0.3:
            mean = float(math.ceil(mean))
        spread = draw.uniform(-36.0, 36.0) * math.sqrt(mean)
        k = max(0, round(mean + spread + draw.choice([0, 1, 250]) * draw.random()))
        if draw.random() < 0.2:
            k = draw.randint(0, 60)
        mass, error = poisson_masses(np.array([float(k)]), mean)
        exact = poisson_mass(k, mean)
        if exact < SMALLEST_MASS:
            assert mass[0] <= 2.0 * SMALLEST_MASS
            continue
        worst = max(worst, abs(mpmath.mpf(float(mass[0])) / exact - 1) / error[0])
        compared += 1
        assert error[0] < 1e-11
    assert compared > 800
    assert worst < 0.6


@pytest.mark.parametrize("mean", [1e-9, 0.01, 1.0, 7.5, 20.5, 300.0, 1e4, 2e7, 1e10])
def test_next_to_nothing_of_the_poisson_noise_is_left_out(mean):
    first, last = Poisson(mean)._noise_range()
    with mpmath.workdps(30):
        for k, inwards in ((first - 1, -1), (last + 1, 1)):
            if k >= 0:
                # The masses beyond fall at least geometrically, with the ratio of the first two.
                ratio = k / mpmath.mpf(mean) if inwards < 0 else mpmath.mpf(mean) / (k + 1)
                assert poisson_mass(k, mean) / (1 - ratio) < SMALLEST_MASS


@pytest.mark.slow
@pytest.mark.parametrize("mean", [1e-3, 0.01, 0.9, 3.0, 40.25, 1000.0])
@pytest.mark.parametrize("sensitivity", [1, 2, 5, 17, 40])
def test_poisson_atoms_agree_with_their_definition(mean, sensitivity):
    masses = Poisson(mean, sensitivity).loss_masses(NO_EDGES)
    own = sum(poisson_mass(k, mean) for k in range(sensitivity))
    assert masses.only_a.lower[0] <= own <= masses.only_a.upper[0]
    assert masses.only_a.upper[0] - own < 1e-12
    assert masses.only_b.lower[0] == 0.0
    assert masses.only_b.upper[0] < 1e-270
    finite = np.isfinite(masses.atom_loss)
    losses = masses.atom_loss[finite]
    order = np.argsort(-losses)
    # The loss falls from count to count.
    first = max(sensitivity, Poisson(mean, sensitivity)._noise_range()[0])
    if sensitivity <= 16:
        assert finite.all()
    else:
        first = next(
            k for k in range(first, 5000) if min(poisson_mass(k, mean), poisson_mass(k - sensitivity, mean)) > 1e-280
        )
    mu = mpmath.mpf(mean)
    for step, index in enumerate(order.tolist()):
        k = first + step
        if step % 7:
            continue
        a, b = poisson_mass(k, mean), poisson_mass(k - sensitivity, mean)
        loss = sensitivity * mpmath.log(mu) - mpmath.loggamma(k + 1) + mpmath.loggamma(k - sensitivity + 1)
        assert abs(mpmath.mpf(float(losses[index])) - loss) <= masses.loss_error
        for exact, bounds in ((a, masses.atoms_a), (b, masses.atoms_b)):
            assert bounds.lower[finite][index] <= exact <= bounds.upper[finite][index]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning")
def test_compositions_of_poisson_noise_are_bracketed(record_property):
    draw = random.Random(5)  # noqa: S311
    compared = 0
    while compared < times(300):
        mean, s = draw.choice([0.01, 0.2, 1.0, 2.5, draw.uniform(0.05, 3.0)]), draw.choice([1, 1, 2])
        # As many counts as have a mass above 1e-25, in units of 2^-300.
        last = next(k for k in range(1000) if k > mean and poisson_mass(k, mean) < 1e-25)
        with mpmath.workdps(100):
            noise = [int(poisson_mass(k, mean) * 2**300) for k in range(last)]
        a, b = noise + [0] * s, [0] * s + noise
        # Of A the counts beyond are left out; these are in the slack.
        a = [int(poisson_mass(k, mean) * 2**300) for k in range(last + s)]
        r = draw.choice([1, 2, 2, 3])
        left_out = Fraction(4, 10**25)
        truth = ProductTruth(
            [(tuple(zip(a, b, strict=True)), r)], [(2**300, 2**300)], 2 * r * (left_out + Fraction(last + s, 2**170))
        )
        epsilon = sorted({0.0, *(draw.uniform(0.0, 2.5 * r * s) for _ in range(4))})
        more = draw.choice([{}, {"tolerance": 1e-4}, {"factor": 1.01}, {"buckets": 1000}])
        bounds = privacy_bounds(Poisson(mean, s), compositions=[r], epsilon=epsilon, direction="each", **more)
        for axis, direction in enumerate(Direction):
            for j, asked in enumerate(epsilon):
                smallest, largest = truth.at(asked, direction)
                assert Fraction(float(bounds["delta_lower"].values[axis, 0, j])) <= largest
                assert Fraction(float(bounds["delta_upper"].values[axis, 0, j])) >= smallest
                compared += 1
    record_property("cases", compared)
