"""Staircase noise: masses and moments against its density, every shift by brute force, compositions exactly."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest

from pbdist import Staircase, epsilon_bounds, privacy_bounds, renyi_bounds

mpmath.mp.dps = 50

#: ε, sensitivity and split: each side of 1/2, 1/2 itself, and the extremes.
SETTINGS = [
    (1.0, 1.0, None),
    (0.01, 1.0, None),
    (4.0, 2.5, None),
    (1.3604393916487809, 1.0, 0.38693768399131611),
    (0.7, 0.3, 0.5),
    (0.7, 1.0, 0.81),
    (2.0, 1.0, 1e-12),
    (2.0, 1.0, 1.0 - 2.0**-53),
    (1e-30, 1.0, 0.3),
    (400.0, 1.0, None),
]
STAIRS = [Staircase(*setting) for setting in SETTINGS]
TAME = [stair for stair in STAIRS if 0.005 < stair.epsilon < 10]


class Density:
    """The density of the noise from its definition, in 50 digits, on whole pieces of constant height."""

    def __init__(self, stair: Staircase) -> None:
        self.s, self.g, self.q = mpmath.mpf(stair.sensitivity), mpmath.mpf(stair.split), mpmath.exp(-stair.epsilon)
        # As far out as leaves a mass below 1e-30.
        self.stretches = math.ceil(70.0 / stair.epsilon) + 1
        whole = 2 * sum(self.q**k * (self.g * self.s + self.q * (1 - self.g) * self.s) for k in range(self.stretches))
        self.a = 1 / whole

    def __call__(self, x: mpmath.mpf) -> mpmath.mpf:
        stretch = mpmath.floor(abs(x) / self.s)
        falls = 0 if abs(x) - stretch * self.s < self.g * self.s else 1
        return self.a * self.q ** (stretch + falls)

    def steps(self) -> list[mpmath.mpf]:
        """Where the density falls or rises, in order."""
        right = [(k + self.g) * self.s for k in range(self.stretches)]
        return sorted([-x for x in right] + right)

    def shifted(self, d: mpmath.mpf) -> list[tuple[mpmath.mpf, mpmath.mpf]]:
        """The masses of (N, N + d) on the pieces between all steps of both densities."""
        ends = sorted({*self.steps(), *(x + d for x in self.steps())})
        middles = [((x + y) / 2, y - x) for x, y in pairwise(ends)]
        return [(self(m) * width, self(m - d) * width) for m, width in middles]


def delta_of(masses: list[tuple[mpmath.mpf, mpmath.mpf]], epsilon: float) -> mpmath.mpf:
    y = mpmath.exp(epsilon)
    return sum((max(a - y * b, mpmath.mpf(0)) for a, b in masses), mpmath.mpf(0))


def atoms_of(stair: Staircase) -> dict[float, tuple[float, float, float, float]]:
    found = stair.loss_masses(np.array([0.0]))
    return {
        loss: values
        for loss, *values in zip(
            found.atom_loss.tolist(),
            found.atoms_a.lower.tolist(),
            found.atoms_a.upper.tolist(),
            found.atoms_b.lower.tolist(),
            found.atoms_b.upper.tolist(),
            strict=True,
        )
    }


def exact_masses(stair: Staircase) -> dict[float, mpmath.mpf]:
    """P_A masses of Theorem 31, in 50 digits."""
    g, q = mpmath.mpf(stair.split), mpmath.exp(-mpmath.mpf(stair.epsilon))
    steps = g + q * (1 - g)
    above = ((2 * g * (1 - q) + q) if 2 * g <= 1 else 1) / (2 * steps)
    return {stair.epsilon: above, 0.0: 1 - above * (1 + q), -stair.epsilon: above * q}


@pytest.mark.parametrize("stair", STAIRS, ids=repr)
def test_masses_enclose_the_closed_form_and_are_close(stair: Staircase) -> None:
    # 1 - p (1 + q) cancels: 50 digits are enough for what is left of 1e-30.
    with mpmath.workdps(400):
        exact = exact_masses(stair)
        for loss, (lower_a, upper_a, lower_b, upper_b) in atoms_of(stair).items():
            assert lower_a <= exact[loss] <= upper_a
            assert lower_b <= exact[-loss] <= upper_b
            assert upper_a <= lower_a * (1 + 1e-13)
    assert (0.0 in atoms_of(stair)) == (stair.split != 0.5)


@pytest.mark.parametrize("stair", [s for s in TAME if s.epsilon > 0.5 and 1e-6 < s.split < 0.999], ids=repr)
def test_masses_are_integrals_of_the_density(stair: Staircase) -> None:
    masses = Density(stair).shifted(mpmath.mpf(stair.sensitivity))
    by_loss = dict.fromkeys(atoms_of(stair), mpmath.mpf(0))
    for a, b in masses[1:-1]:
        if min(a, b) < mpmath.mpf(10) ** -28:
            continue
        (loss,) = [each for each in (stair.epsilon, 0.0, -stair.epsilon) if abs(mpmath.log(a / b) - each) < 1e-20]
        by_loss[loss] += a
    for loss, (lower, upper, _, _) in atoms_of(stair).items():
        assert lower * (1 - 1e-13) <= by_loss[loss] <= upper * (1 + 1e-13)


@pytest.mark.nightly
@pytest.mark.parametrize("stair", [s for s in TAME if s.epsilon > 0.5], ids=repr)
@pytest.mark.parametrize("part", [0.02, 0.3, 0.77, 0.999])
def test_smaller_shifts_are_dominated(stair: Staircase, part: float) -> None:
    density = Density(stair)
    whole = density.shifted(mpmath.mpf(stair.sensitivity))
    smaller = density.shifted(mpmath.mpf(stair.sensitivity) * part)
    for epsilon in (0.0, 0.1, 0.6 * stair.epsilon, stair.epsilon, 1.5 * stair.epsilon):
        for direction in (1, -1):
            mine, its = ([pair[::direction] for pair in masses] for masses in (smaller, whole))
            assert delta_of(mine, epsilon) <= delta_of(its, epsilon) + mpmath.mpf(10) ** -25
    # The total variation is the mass of half a shift on either side.
    half = mpmath.mpf(stair.sensitivity) * part / 2
    inner = [x for x in density.steps() if -half < x < half]
    mass = sum((y - x) * density((x + y) / 2) for x, y in pairwise([-half, *inner, half]))
    assert abs(delta_of(smaller, 0.0) - mass) < mpmath.mpf(10) ** -25


def exact_composition(stair: Staircase, r: int, epsilon: float) -> mpmath.mpf:
    """δ of r rounds, as a sum over how often each loss occurs."""
    masses = exact_masses(stair)
    above, level, below = (masses[loss] for loss in (stair.epsilon, 0.0, -stair.epsilon))
    delta = mpmath.mpf(0)
    for i in range(r + 1):
        for k in range(r - i + 1):
            gain = 1 - mpmath.exp(mpmath.mpf(epsilon) - (i - k) * mpmath.mpf(stair.epsilon))
            if gain > 0:
                ways = math.comb(r, i) * math.comb(r - i, k)
                delta += ways * above**i * below**k * level ** (r - i - k) * gain
    return delta


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tight", "buckets"])
@pytest.mark.parametrize("stair", TAME, ids=repr)
def test_compositions_against_multinomials(stair: Staircase, method: str) -> None:
    rounds = [1, 2, 7, 40]
    epsilon = [0.0, 0.8 * stair.epsilon, stair.epsilon, 2.7 * stair.epsilon]
    bounds = privacy_bounds(stair, compositions=rounds, epsilon=epsilon, method=method)
    for i, r in enumerate(rounds):
        for j, each in enumerate(epsilon):
            exact = exact_composition(stair, r, each)
            lower, upper = bounds.delta_lower.values[i, j], bounds.delta_upper.values[i, j]
            assert lower <= exact <= upper
            assert method == "buckets" or upper <= 1.001 * lower or upper < 1e-12


def test_epsilon_and_renyi_divergence() -> None:
    stair = Staircase(1.0)
    found = epsilon_bounds(stair, compositions=20, delta=1e-5)
    lower, upper = found.epsilon_lower.item(), found.epsilon_upper.item()
    assert exact_composition(stair, 20, lower * (1 - 1e-9)) >= 1e-5 >= exact_composition(stair, 20, upper)
    assert upper <= 1.001 * lower
    masses = exact_masses(stair)
    moment = sum(mass * mpmath.exp(2 * mpmath.mpf(loss)) for loss, mass in masses.items())
    divergence = renyi_bounds(stair, compositions=1, order=3.0)
    assert divergence.renyi_lower.item() <= mpmath.log(moment) / 2 <= divergence.renyi_upper.item()


@pytest.mark.slow
@pytest.mark.parametrize("stair", TAME, ids=repr)
def test_moments_are_those_of_the_density(stair: Staircase) -> None:
    density = Density(stair)
    ends = [mpmath.mpf(0), *(x for x in density.steps() if x > 0)]
    for power, told in ((1, stair.mean_absolute_noise), (2, stair.noise_variance)):
        exact = 2 * sum(
            density((x + y) / 2) * (y ** (power + 1) - x ** (power + 1)) / (power + 1) for x, y in pairwise(ends)
        )
        assert told == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0])
def test_the_default_split_has_the_least_mean_size(epsilon: float) -> None:
    best = Staircase(epsilon)
    assert best.mean_absolute_noise == pytest.approx(math.exp(epsilon / 2) / math.expm1(epsilon), rel=1e-13)
    for factor in (0.5, 0.98, 1.02, 1.5):
        assert Staircase(epsilon, split=best.split * factor).mean_absolute_noise > best.mean_absolute_noise


def test_the_sensitivity_changes_the_cost_alone() -> None:
    one, three = Staircase(0.8), Staircase(0.8, 3.0)
    assert one != three
    assert three.mean_absolute_noise == pytest.approx(3.0 * one.mean_absolute_noise, rel=1e-15)
    assert three.noise_variance == pytest.approx(9.0 * one.noise_variance, rel=1e-15)
    assert atoms_of(one) == atoms_of(three)
