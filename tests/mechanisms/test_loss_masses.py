"""Masses on bins: every event counted, each bin enclosing the exact integral, in both directions."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist import privacy_bounds
from pbdist.mechanisms import (
    READINGS,
    ApproximateDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    FixedBatchGaussian,
    Gaussian,
    GaussianMixture,
    Histogram,
    KaryRandomizedResponse,
    Laplace,
    LaplaceSum,
    NoisyCount,
    Poisson,
    RandomizedResponse,
    Staircase,
    SubsampledGaussian,
    SubsampledLaplace,
    TruncatedPoissonGaussian,
)
from pbdist.mechanisms.outcomes import masses_of_outcomes
from pbdist.types import Direction
from tests.mechanisms.noise_masses import gaussian_mass, laplace_mass

mpmath.mp.dps = 50

PAIRS = [
    (Laplace(200.0), 0.006),
    (Laplace(200.0, truncate=(-2500.0, 2500.0)), 0.006),
    (Laplace(7.0, sensitivity=0.3, truncate=(-25.1, 31.7)), 0.05),
    (Laplace(2.0, sensitivity=3.0, truncate=(0.5, 9.0)), 2.0),
    (LaplaceSum((200.0, 100.0)), 0.006),
    (LaplaceSum((2.0, 2.0), 3.0), 1.2),
    (LaplaceSum((2.0, 1e-3), 1.0), 0.6),
    (Gaussian(282.842712474619), 0.04),
    (Gaussian(282.842712474619, truncate=(-2500.0, 2500.0)), 0.04),
    (Gaussian(1.5, sensitivity=0.7, truncate=(-1.1, 0.3)), 2.0),
    (SubsampledGaussian(4.0, 0.01), 0.3),
    (SubsampledGaussian(1.0, 1.0), 30.0),
    (SubsampledGaussian(0.7, 0.999, sensitivity=2.0), 30.0),
    (SubsampledGaussian(40.0, 1e-6), 1e-6),
    (SubsampledLaplace(2.0, 0.05), 0.02),
    (SubsampledLaplace(0.5, 1.0), 1.0),
    (GaussianMixture(4.0, (0.0, 1.0, 2.0), (0.81, 0.18, 0.01)), 0.1),
    (GaussianMixture(1.0, (0.5, 2.0), (0.5, 0.5)), 2.0),
    (FixedBatchGaussian(2.0, 10, 100).upper_pair, 0.1),
    (TruncatedPoissonGaussian(2.0, 0.1, 12, 100).upper_pair, 0.1),
    (RandomizedResponse(0.51), 0.1),
    (RandomizedResponse(0.0), 0.1),
    (Staircase(0.3), 0.5),
    (KaryRandomizedResponse(0.5, 4), 1.5),
    (KaryRandomizedResponse(0.0, 3), 0.1),
    (BoundedRange(0.3), 0.5),
    (BoundedRange(0.3), 0.2),
    (ApproximateDP(0.3, 1e-5), 0.5),
    (ApproximateDP(0.0, 0.0), 0.5),
    (Histogram([3, 0, 1, 6], [0, 2, 1, 7]), 1.0),
    (Histogram([0.25, 0.75], [0.5, 0.5]), 1.0),
    (DiscreteLaplace(200.0), 0.006),
    (DiscreteLaplace(0.7, 5), 8.0),
    (DiscreteGaussian(200.0, 2), 0.1),
    (DiscreteGaussian(0.3), 20.0),
    (Poisson(0.01), 10.0),
    (Poisson(300.0, 3), 2.0),
    (Poisson(25_000.0), 0.1),
    (Poisson(400.0, 40), 3.0),
    *[(NoisyCount(Laplace(500.0), 8000.0, 2, reading), 0.006) for reading in READINGS],
    *[(NoisyCount(Laplace(3.0), 4.5, 3, reading), 1.0) for reading in READINGS],
    *[(NoisyCount(Gaussian(320.0), 1600.0, 2, reading), 0.1) for reading in READINGS],
    *[(NoisyCount(Gaussian(2.5), 3.25, 1, reading), 5.0) for reading in READINGS],
    *[(NoisyCount(DiscreteLaplace(3.0), 4, 3, reading), 1.0) for reading in READINGS],
    *[(NoisyCount(DiscreteGaussian(320.0), 1600, 2, reading), 0.1) for reading in READINGS],
]


def _sums(bounds):
    return math.fsum(bounds.lower), math.fsum(bounds.upper)


@pytest.mark.slow
@pytest.mark.parametrize(("pair", "reach"), PAIRS, ids=lambda value: repr(value)[:60])
@pytest.mark.parametrize("direction", Direction)
def test_every_event_is_counted(pair, reach, direction):
    edges = np.linspace(-reach, reach, 81)
    masses = pair.directed_loss_masses(edges, direction)
    for groups in (
        (masses.bins_a, masses.atoms_a, masses.only_a),
        (masses.bins_b, masses.atoms_b, masses.only_b),
    ):
        lower, upper = (math.fsum(part) for part in zip(*(_sums(group) for group in groups), strict=True))
        # Lower masses never exceed 1, upper masses never miss any of it, and both are close.
        assert lower <= 1.0 <= upper
        assert upper - lower < 3e-12
    for group in (masses.bins_a, masses.bins_b, masses.atoms_a, masses.atoms_b, masses.only_a, masses.only_b):
        assert np.all(group.lower <= group.upper)
        assert np.all(group.lower >= 0.0)
    assert 0.0 <= masses.loss_error < 1e-10


@pytest.mark.parametrize(("pair", "reach"), PAIRS, ids=lambda value: repr(value)[:60])
def test_directions_mirror_one_another(pair, reach):
    edges = np.linspace(-reach, 0.7 * reach, 57)
    forward = pair.directed_loss_masses(edges, Direction.A_TO_B)
    backward = pair.directed_loss_masses(-edges[::-1], Direction.B_TO_A)
    np.testing.assert_array_equal(forward.bins_a.upper, backward.bins_b.upper[::-1])
    np.testing.assert_array_equal(forward.bins_b.lower, backward.bins_a.lower[::-1])
    np.testing.assert_array_equal(forward.atom_loss, -backward.atom_loss)
    np.testing.assert_array_equal(forward.only_a.upper, backward.only_b.upper)


def _location(pair, loss):
    """The outcome of that loss: along x losses of samples rise, others fall."""
    scale = mpmath.mpf(pair.scale)
    if isinstance(pair, SubsampledGaussian):
        q = mpmath.mpf(pair.rate)
        excess = (mpmath.exp(loss) - (1 - q)) / q
        return scale**2 * mpmath.log(excess) + mpmath.mpf(1) / 2 if excess > 0 else -mpmath.inf
    if isinstance(pair, Laplace):
        return min(max((1 - scale * loss) / 2, mpmath.mpf(0)), mpmath.mpf(1))
    return mpmath.mpf(1) / 2 - scale**2 * loss


def _exact_bin(pair, low, high):
    """P_A and P_B of the losses from low to high."""
    x0, x1 = (_location(pair, loss) for loss in (low, high))
    mass, scale, sampled = laplace_mass if isinstance(pair, Laplace) else gaussian_mass, mpmath.mpf(pair.scale), None
    if isinstance(pair, SubsampledGaussian):
        sampled = mpmath.mpf(pair.rate)
    else:
        x0, x1 = x1, x0
    kept = 1
    if not sampled and pair.truncate is not None:
        first, last = (mpmath.mpf(end) for end in pair.truncate)
        # Where both distributions live.
        x0, x1 = (min(max(x, 1 + first), last) for x in (x0, x1))
        kept = mass(first, last, scale)
    here, moved = (mass(x0, x1, scale, mean) / kept for mean in (0, 1))
    return ((1 - sampled) * here + sampled * moved, here) if sampled else (here, moved)


#: Bins so far out that their masses are no floats.
FAINT = [
    (pair, np.concatenate((np.linspace(-reach, -1.0, 31), np.linspace(1.0, reach, 31))), direction)
    for pair, reach in ((Gaussian(0.02), 9e4), (SubsampledGaussian(0.02, 0.3), 9e4), (Laplace(0.001), 1200.0))
    for direction in Direction
]
BINS = [
    (SubsampledGaussian(scale, rate), np.linspace(-reach, reach, 41), Direction.A_TO_B)
    for scale, rate, reach in (
        (4.0, 0.01, 0.9),
        (4.0, 0.01, 0.02),
        (1.0, 0.3, 0.9),
        (1.0, 1.0, 0.9),
        (2.0, 1e-9, 4e-9),
        (0.3, 0.999, 12.0),
        (0.05, 0.2, 760.0),
    )
] + [
    (kind(200.0, truncate=truncate), np.linspace(-0.0049, 0.0049, 15), Direction.A_TO_B)
    for kind in (Laplace, Gaussian)
    for truncate in (None, (-2500.0, 2500.0), (-100.1, 300.7))
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pair", "edges", "direction"),
    BINS + FAINT,
    ids=lambda value: f"{value[-1]:g}" if isinstance(value, np.ndarray) else str(value)[:60],
)
def test_bins_enclose_the_exact_integrals(pair, edges, direction):
    plain, scaled = pair.directed_loss_masses(edges, direction), pair.scaled_loss_masses(edges, direction)
    slack, sign, faint = mpmath.mpf(plain.loss_error), 1 if direction is Direction.A_TO_B else -1, 0
    assert scaled.masses.loss_error == plain.loss_error
    for index in range(1, edges.size):
        for outwards, side in ((1, "lower"), (-1, "upper")):
            low, high = edges[index - 1] - outwards * slack, edges[index] + outwards * slack
            a, b = _exact_bin(pair, low, high) if sign > 0 else _exact_bin(pair, -high, -low)[::-1]
            for exact, name, log_scale in ((a, "bins_a", scaled.log_scale_a), (b, "bins_b", scaled.log_scale_b)):
                value, known = (
                    mpmath.mpf(float(getattr(getattr(masses, name), side)[index])) for masses in (plain, scaled.masses)
                )
                known *= mpmath.exp(mpmath.mpf(float(log_scale[index])))
                # Inwards the end points may be moved off the common support altogether.
                assert max(value, known) <= exact if side == "lower" else min(value, known) >= exact
                faint += bool(0 < exact < mpmath.mpf("1e-300") and known > 0)
    assert faint > 10 or all(pair is not other for other, *_ in FAINT)


def test_truncation_tears_the_ends_apart():
    masses = Laplace(200.0, truncate=(-2500.0, 2500.0)).loss_masses(np.array([0.0]))
    exact = (mpmath.exp(mpmath.mpf(-2499) / 200) - mpmath.exp(mpmath.mpf(-2500) / 200)) / 2
    exact /= 1 - mpmath.exp(mpmath.mpf(-2500) / 200)
    for bounds in (masses.only_a, masses.only_b):
        assert mpmath.mpf(float(bounds.lower[0])) <= exact <= mpmath.mpf(float(bounds.upper[0]))
    # Disjoint supports: everything reveals the input.
    apart = Laplace(1.0, sensitivity=5.0, truncate=(-1.0, 1.0)).loss_masses(np.array([0.0]))
    assert apart.only_a.lower[0] > 1.0 - 1e-14
    assert apart.bins_a.upper.sum() == 0.0
    assert apart.atoms_a.upper.sum() == 0.0


def _count_probabilities(pair, largest):
    """Exact P(N = k), k = 0 .. largest, under A and under B, from the masses of the draws."""
    mass = gaussian_mass if isinstance(pair.noise, Gaussian) else laplace_mass

    def drawn(low, high):
        return mass(low, high, pair.noise.scale, pair.mean)

    def clamped(moved):
        return [drawn(-math.inf, -moved), *(drawn(k - 1 - moved, k - moved) for k in range(1, largest + 1))]

    if pair.reading == "shift-inside":
        return clamped(0), clamped(pair.shift)
    if pair.reading == "clamp-and-ceil":
        noise = clamped(0)
    else:
        kept = drawn(0, math.inf)
        noise = [drawn(k, k + 1) / kept for k in range(largest + 1)]
    return noise, [mpmath.mpf(0)] * pair.shift + noise[: largest + 1 - pair.shift]


@pytest.mark.slow
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(
    ("noise", "mean", "shift"),
    [(Laplace(3.0), 7.0, 2), (Laplace(1.5), 2.5, 3), (Gaussian(2.5), 6.0, 1), (Gaussian(4.0), 3.3, 2)],
    ids=str,
)
def test_noisy_counts_agree_with_their_definition(noise, mean, shift, reading):
    pair = NoisyCount(noise, mean, shift, reading)
    a, b = _count_probabilities(pair, 260 if isinstance(noise, Laplace) else 80)
    for direction, (p, q) in zip(Direction, ((a, b), (b, a)), strict=True):
        masses = pair.directed_loss_masses(np.array([0.0]), direction)
        own = sum((x for x, y in zip(p, q, strict=True) if y == 0), mpmath.mpf(0))
        assert mpmath.mpf(float(masses.only_a.lower[0])) <= own <= mpmath.mpf(float(masses.only_a.upper[0]))
        assert float(masses.only_a.upper[0]) - float(own) < 1e-13
        # P_A mass of all counts with a loss above each threshold that no loss is close to.
        for threshold in (-0.61803, -0.2718, -0.0314, 0.01234, 0.2345, 0.57721, 1.61803):
            exact = sum(
                (x for x, y in zip(p, q, strict=True) if y > 0 and x > y * mpmath.exp(threshold)), mpmath.mpf(0)
            )
            above = masses.atom_loss > threshold
            lower, upper = math.fsum(masses.atoms_a.lower[above]), math.fsum(masses.atoms_a.upper[above])
            assert mpmath.mpf(lower) <= exact + mpmath.mpf("1e-25")
            # Laplace noise beyond the largest count that was summed.
            assert exact <= mpmath.mpf(upper) + mpmath.mpf("1e-25")
            assert upper - lower < 1e-12


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e-3])
@pytest.mark.parametrize("mean", [1000.0, 1e12, 1000.5])
def test_noise_narrower_than_a_count_is_not_lost(scale, mean):
    bounds = privacy_bounds(NoisyCount(Gaussian(scale), mean, 3), compositions=1, epsilon=1.0, buckets=100)
    assert float(bounds.delta_lower.squeeze()) > 1.0 - 1e-9


def test_laplace_counts_need_few_atoms():
    masses = NoisyCount(Laplace(20_000.0), 450_000.0, 2).loss_masses(np.array([0.0]))
    assert masses.atom_loss.size < 10


def test_revealing_mass_of_the_published_dialing_noise():
    # P(N < 2) = P(X <= 1) = e^(-7999/500) / 2.
    masses = NoisyCount(Laplace(500.0), 8000.0, 2).loss_masses(np.array([0.0]))
    exact = mpmath.exp(mpmath.mpf(-7999) / 500) / 2
    assert mpmath.mpf(float(masses.only_a.lower[0])) <= exact <= mpmath.mpf(float(masses.only_a.upper[0]))
    assert NoisyCount(Laplace(500.0), 8000.0, 2, "shift-inside").loss_masses(np.array([0.0])).only_a.upper[0] == 0.0


def test_faint_outcomes_are_counted_once():
    for p, q, epsilon, exact in (
        ((0.5, 0.5), (1e-285, 1.0), 0.0, 0.5),
        ((1e-6, 1.0 - 1e-6), (1e-300, 1.0), 5.0, 1e-6),
    ):
        bounds = privacy_bounds(Histogram(p, q), compositions=1, epsilon=epsilon, buckets=100, direction="each")
        assert float(bounds.delta_lower[0].squeeze()) == pytest.approx(exact, rel=1e-12)
        assert float(bounds.delta_upper[0].squeeze()) == pytest.approx(exact, rel=1e-12)
    # The tight method leaves out what its tolerance allows.
    for method, least in (("buckets", 0.999999), ("tight", 0.9999)):
        many = privacy_bounds(
            RandomizedResponse(5e-324), compositions=[1000, 2**20], epsilon=1.0, method=method, buckets=100
        )
        assert np.all(many.delta_lower.values > least)


def test_histogram_masses_are_taken_as_they_are():
    p = [0.1] * 10
    assert sum(map(Fraction, p)) > 1
    masses = Histogram(p, [0.05, 0.15] * 5).loss_masses(np.array([0.0]))
    assert np.all(masses.atoms_a.lower <= 0.1)
    assert np.all(masses.atoms_a.upper >= 0.1)
    assert Histogram(p, p).total_mass[0] > 1.0
    assert Histogram([1] * 3, [1] * 3).total_mass == (1.0, 1.0)


def test_what_is_credited_to_faint_outcomes_is_no_mass_of_others():
    # Their loss is taken as -inf, their real one is about -34: nothing may be credited to them in proportion.
    a, b = np.array([1e-285, 1.0]), np.array([1e-270, 1.0])
    masses = masses_of_outcomes(np.array([0.0]), a, b, error_a=2.0**-53, error_b=2.0**-53)
    faint = masses.atom_loss == -np.inf
    assert faint.sum() == 1
    assert masses.atoms_a.lower[faint].sum() == 0.0
    assert masses.atoms_a.upper[faint].sum() >= 1e-285
    assert masses.only_a.upper[0] >= 1e-285
    assert masses.atoms_b.lower[faint].sum() > 0.0
    mirrored = masses_of_outcomes(np.array([0.0]), b, a, error_a=2.0**-53, error_b=2.0**-53)
    assert mirrored.atoms_b.lower[mirrored.atom_loss == np.inf].sum() == 0.0


def test_masses_that_underflow_are_not_lost():
    pair = Histogram([1, 10**400], [10**400, 1])
    masses = pair.loss_masses(np.array([0.0]))
    # The losses are known from the counts, however faint the masses are.
    assert abs(masses.atom_loss + 400.0 * math.log(10.0) * np.array([1.0, -1.0])).max() <= masses.loss_error < 1e-11
    assert masses.atoms_a.lower[0] == 0.0 < masses.atoms_a.upper[0] < 1e-280
    assert masses.atoms_a.lower[1] <= 1.0 <= masses.atoms_a.upper[1]
    assert masses.only_a.upper[0] == masses.only_b.upper[0] == 0.0
    # Told apart from their factors, they are known to some digits.
    scaled = pair.scaled_loss_masses(np.array([0.0]))
    assert scaled.atoms_log_scale_a[0] == pytest.approx(-400.0 * math.log(10.0), rel=1e-14)
    assert 1.0 - 1e-11 < scaled.masses.atoms_a.lower[0] < 1.0 < scaled.masses.atoms_a.upper[0] < 1.0 + 1e-11
    # Tilted masses are rounded by some u of the losses, which are 921 nats a round here.
    for method, least in (("buckets", 1.0 - 1e-12), ("tight", 1.0 - 1e-10)):
        bounds = privacy_bounds(pair, compositions=[1, 9], epsilon=[0.0, 600.0], buckets=100, method=method)
        assert np.all(bounds.delta_lower.values > least)


@pytest.mark.parametrize(
    ("pair", "reach"),
    [
        (SubsampledGaussian(4.0, 0.01), 0.03),
        (SubsampledGaussian(0.8, 0.2), 6.0),
        (SubsampledGaussian(0.05, 0.6), 720.0),
        (SubsampledGaussian(3.0, 1e-7), 3e-7),
        (SubsampledGaussian(0.7, 0.9999999), 14.0),
        (SubsampledGaussian(0.7, 1.0), 14.0),
        (Gaussian(0.9), 12.0),
        (Gaussian(1e-3), 7e5),
        (Laplace(0.3, sensitivity=0.7), 2.3),
    ],
    ids=str,
)
def test_end_points_lie_at_the_losses_asked_for(pair, reach):
    s, scale = mpmath.mpf(pair.sensitivity), mpmath.mpf(pair.scale)

    def exact_loss(x):
        if isinstance(pair, Laplace):
            return (s - 2 * x) / scale
        v = (x - s / 2) * s / scale**2
        q = mpmath.mpf(getattr(pair, "rate", 1.0))
        return mpmath.log(1 - q + q * mpmath.exp(v)) if isinstance(pair, SubsampledGaussian) else -v

    edges = np.sort(np.random.default_rng(5).uniform(-reach, reach, 400))
    if isinstance(pair, SubsampledGaussian) and pair.rate < 1.0:
        # Close to the smallest loss, and close to 0.
        near = math.log1p(-pair.rate) * (1.0 + np.concatenate((np.logspace(-16, -3, 27), -np.logspace(-16, -3, 27))))
        edges = np.sort(np.concatenate((edges, near, np.logspace(-12, -1, 12) * pair.rate)))
    bound = mpmath.mpf(pair.loss_masses(edges).loss_error)
    for edge, x in zip(edges, pair._location(edges), strict=True):
        if math.isfinite(x):
            assert abs(exact_loss(mpmath.mpf(float(x))) - mpmath.mpf(float(edge))) <= bound
        else:
            assert mpmath.mpf(float(edge)) - mpmath.log1p(-mpmath.mpf(pair.rate)) <= bound
