"""Discrete Laplace and discrete Gaussian noise: masses by their definitions, bounds against exact values."""

import json
import math
import random

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Poisson,
    Product,
    RandomizedResponse,
    privacy_bounds,
)
from pbdist.mechanisms import pair_from_canonical
from pbdist.mechanisms.counts import discrete_gaussian_total
from pbdist.types import Direction
from pbdist.verify.exact_power import flint_module
from tests.effort import times
from tests.strategies import examples, integer_noise

mpmath.mp.dps = 50

NO_EDGES = np.array([0.0])


# -- masses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.02, 0.05, 0.3, 0.499, 0.5, 0.501, 1.0, 2.7, 40.0, 1000.0, 1e6])
def test_total_of_the_discrete_gaussian(scale):
    total, error = discrete_gaussian_total(scale)
    with mpmath.workdps(50):
        exact = mpmath.jtheta(3, 0, mpmath.exp(-1 / (2 * mpmath.mpf(scale) ** 2))) if scale < 10.0 else None
        if exact is None:
            # Poisson's summation formula; the first dual term is below e^-1900.
            exact = mpmath.mpf(scale) * mpmath.sqrt(2 * mpmath.pi)
        assert abs(total / exact - 1) < error < 1e-14


def discrete_masses(pair, reach):
    """P(N = k) for k = -reach .. reach."""
    scale = mpmath.mpf(pair.scale)
    if isinstance(pair, DiscreteLaplace):
        p = mpmath.exp(-1 / scale)
        return [(1 - p) / (1 + p) * p ** abs(k) for k in range(-reach, reach + 1)]
    weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * scale**2)) for k in range(-reach, reach + 1)]
    total = mpmath.fsum(weights)
    return [weight / total for weight in weights]


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.05, 0.21, 1.0, 3.3, 9.0])
@pytest.mark.parametrize("sensitivity", [1, 2, 7])
@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
def test_discrete_atoms_agree_with_their_definition(kind, scale, sensitivity):
    pair = kind(scale, sensitivity)
    reach = math.ceil((45.0 if kind is DiscreteGaussian else 120.0) * max(scale, 0.2)) + sensitivity + 2
    with mpmath.workdps(60):
        noise = discrete_masses(pair, reach)
    a = {k: noise[k + reach] for k in range(-reach, reach + 1)}
    for direction in Direction:
        masses = pair.directed_loss_masses(NO_EDGES, direction)
        for threshold in (-0.61803, -0.2718, -0.0314, 0.01234, 0.2345, 0.57721, 1.61803):
            exact = [mpmath.mpf(0), mpmath.mpf(0)]
            for k in range(-reach + sensitivity, reach + 1):
                p, q = (a[k], a[k - sensitivity])[:: 1 if direction is Direction.A_TO_B else -1]
                if p > q * mpmath.exp(threshold):
                    exact[0] += p
                    exact[1] += q
            above = masses.atom_loss > threshold
            for bounds, value in zip((masses.atoms_a, masses.atoms_b), exact, strict=True):
                assert math.fsum(bounds.lower[above]) <= value + mpmath.mpf("1e-40")
                assert math.fsum(bounds.upper[above]) >= value - mpmath.mpf("1e-40")
                assert math.fsum(bounds.upper[above]) - value < 1e-12


def test_deep_atoms_of_the_discrete_laplace_keep_their_masses():
    pair = DiscreteLaplace(0.01, 40)
    masses = pair.scaled_loss_masses(NO_EDGES)
    with mpmath.workdps(60):
        p = mpmath.exp(-1 / mpmath.mpf(0.01))
        for k in range(41):
            exact = p**k / (1 + p) * (1 if k in (0, 40) else 1 - p)
            factor = mpmath.exp(mpmath.mpf(float(masses.atoms_log_scale_a[k])))
            for bound, below in ((masses.masses.atoms_a.lower[k], True), (masses.masses.atoms_a.upper[k], False)):
                value = mpmath.mpf(float(bound)) * factor
                assert value <= exact if below else exact <= value
                assert abs(value / exact - 1) < 1e-11
    backwards = pair.scaled_loss_masses(NO_EDGES, Direction.B_TO_A)
    np.testing.assert_array_equal(backwards.atoms_log_scale_b, masses.atoms_log_scale_a)


@pytest.mark.parametrize(
    "pair",
    [
        DiscreteLaplace(1e-3),
        DiscreteLaplace(0.01, 7),
        DiscreteGaussian(0.05),
        DiscreteGaussian(0.1, 3),
        Poisson(1e-30),
    ],
    ids=str,
)
def test_next_to_no_noise_reveals_the_input(pair):
    bounds = privacy_bounds(pair, compositions=[1, 9], epsilon=[0.0, 1.0], direction="each")
    assert np.all(bounds["delta_lower"].values >= 0.999)
    assert np.all(bounds["delta_upper"].values >= 1.0 - 1e-9)


@examples(60)
@given(integer_noise(), st.sampled_from(Direction))
def test_no_event_is_lost_or_counted_twice(pair, direction):
    edges = np.linspace(-1.0, 1.0, 9)
    masses = pair.directed_loss_masses(edges, direction)
    for atoms, only in ((masses.atoms_a, masses.only_a), (masses.atoms_b, masses.only_b)):
        lower, upper = math.fsum([*atoms.lower, *only.lower]), math.fsum([*atoms.upper, *only.upper])
        assert lower <= 1.0 <= upper
        assert upper - lower < 3e-12
    finite = np.isfinite(masses.atom_loss) & (masses.atoms_a.lower > 0.0) & (masses.atoms_b.lower > 0.0)
    ratio = np.log(masses.atoms_a.upper[finite]) - np.log(masses.atoms_b.lower[finite])
    np.testing.assert_allclose(ratio, masses.atom_loss[finite], atol=1e-10, rtol=1e-12)
    mirrored = pair.directed_loss_masses(-edges[::-1], direction.opposite)
    np.testing.assert_array_equal(mirrored.atoms_b.upper, masses.atoms_a.upper)
    assert pair_from_canonical(json.loads(json.dumps(pair.canonical()))) == pair


# -- bounds against exact values -----------------------------------------------------------------------------------


def assert_encloses(bounds, index, truth, slack=0):
    assert mpmath.mpf(float(bounds["delta_lower"].values[index])) <= truth + slack
    assert mpmath.mpf(float(bounds["delta_upper"].values[index])) >= truth - slack


def lattice_deltas(pair, r, epsilons):
    """δ of the r-fold composition, whose loss is a function of the sum of the noise, and what each may be off by."""
    bits = 400
    s, scale = pair.sensitivity, mpmath.mpf(pair.scale)
    if isinstance(pair, DiscreteLaplace):
        p = mpmath.exp(-1 / scale)
        a = [1 / (1 + p), *((1 - p) / (1 + p) * p**k for k in range(1, s)), p**s / (1 + p)]
        b, unit = a[::-1], 1 / scale
    else:
        reach = math.ceil(22.0 * pair.scale) + 2
        noise = discrete_masses(pair, reach + s)
        a, b = noise[s:], noise[: len(noise) - s]
        unit = s / (2 * scale**2)
    # The loss of outcome i, in units: of the discrete Gaussian k = i - reach.
    losses = [s - 2 * i if isinstance(pair, DiscreteLaplace) else s - 2 * (i - reach) for i in range(len(a))]
    flint = flint_module()
    p_sum, q_sum = ((flint.fmpz_poly([int(x * 2**bits) for x in side])) ** r for side in (a, b))
    one = mpmath.mpf(2) ** (bits * r)
    masses = [
        (r * losses[0] - 2 * place, int(p_sum[place]) / one, int(q_sum[place]) / one) for place in range(p_sum.length())
    ]
    found = []
    for epsilon in map(mpmath.mpf, epsilons):
        y = mpmath.exp(epsilon)
        total = mpmath.fsum(p - y * q for index, p, q in masses if index * unit > epsilon)
        found.append((total, mpmath.mpf("1e-90") * y * r))
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning")
@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
def test_compositions_on_a_lattice_are_bracketed(kind, record_property):
    draw = random.Random(f"{kind.__name__} 3")  # noqa: S311
    compared = 0
    extremes = [0.1, 300.0] if kind is DiscreteLaplace else []
    while compared < times(400):
        scale = draw.choice([0.3, 0.5, 1.0, 2.0, 3.7, draw.uniform(0.2, 6.0), *extremes])
        pair = kind(scale, draw.choice([1, 1, 2, 3]))
        rounds = sorted({1, 2, draw.randint(3, 40)})
        top = pair.sensitivity / scale * math.sqrt(rounds[-1]) * draw.choice([1.0, 4.0])
        epsilon = sorted({0.0, *(draw.uniform(0.0, top) for _ in range(5)), draw.choice([1, 2]) / scale})
        more = draw.choice([{}, {"tolerance": 1e-5}, {"tolerance": 0.1}, {"factor": 1.05}, {"buckets": 400}])
        bounds = privacy_bounds(pair, compositions=rounds, epsilon=epsilon, direction="each", **more)
        with mpmath.workdps(60 + 130):
            for i, r in enumerate(rounds):
                for j, (truth, slack) in enumerate(lattice_deltas(pair, r, epsilon)):
                    for direction in (0, 1):
                        assert_encloses(bounds, (direction, i, j), truth, slack)
                        compared += 1
    record_property("cases", compared)


@pytest.mark.parametrize(
    ("discrete", "continuous"),
    [
        (DiscreteGaussian(200.0), Gaussian(200.0)),
        (DiscreteLaplace(200.0), Laplace(200.0)),
        (Poisson(40_000.0), Gaussian(200.0)),
    ],
    ids=str,
)
def test_wide_noise_is_like_continuous_noise(discrete, continuous):
    grid = {"compositions": [1000], "epsilon": [0.0, 0.3]}
    found, like = (privacy_bounds(pair, **grid)["delta_lower"].values for pair in (discrete, continuous))
    np.testing.assert_allclose(found, like, rtol=0.02)


# -- descriptions --------------------------------------------------------------------------------------------------


def test_discrete_laplace_noise_of_sensitivity_1_is_randomized_response():
    assert DiscreteLaplace(1.0).loss_masses(NO_EDGES).atom_loss.tolist() == [1.0, -1.0]


def test_noise_of_either_side_is_the_same():
    assert DiscreteLaplace(3).symmetric
    assert DiscreteGaussian(3).symmetric
    assert not Poisson(3).symmetric
    assert Product(DiscreteLaplace(3), RandomizedResponse(0.6)).symmetric
