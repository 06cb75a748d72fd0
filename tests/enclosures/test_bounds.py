"""Bounds of enclosed pairs through the public functions: published noise, other mechanisms beside, what is refused."""

import math

import mpmath
import numpy as np
import pytest

from pbdist import (
    Gaussian,
    InvalidInputError,
    RandomAllocation,
    Reversed,
    epsilon_bounds,
    privacy_bounds,
    renyi_bounds,
    tradeoff_bounds,
)


def test_one_step_is_the_gaussian_mechanism() -> None:
    asked = {"compositions": [1, 8], "epsilon": [0.0, 0.5, 2.0]}
    one, gaussian = privacy_bounds(RandomAllocation(1.5, 1), **asked), privacy_bounds(Gaussian(1.5), **asked)
    assert np.allclose(one.delta_upper, gaussian.delta_upper, rtol=2e-3)
    assert (one.delta_lower <= gaussian.delta_upper).all()
    assert (gaussian.delta_lower <= one.delta_upper).all()


def test_beside_another_mechanism_and_reversed() -> None:
    """The product with a mechanism that reveals little lies between the pair alone and the sum of both ε's."""
    alone = privacy_bounds(RandomAllocation(1.0, 8), compositions=2, epsilon=1.0, direction="each")
    beside = privacy_bounds(
        [(RandomAllocation(1.0, 8), 1), (Gaussian(50.0), 1)], compositions=2, epsilon=1.0, direction="each"
    )
    assert (beside.delta_upper >= alone.delta_lower).all()
    assert (beside.delta_lower <= 1.3 * alone.delta_upper).all()
    turned = privacy_bounds(Reversed(RandomAllocation(1.0, 8)), compositions=2, epsilon=1.0, direction="each")
    assert np.allclose(turned.delta_upper[::-1], alone.delta_upper, rtol=2e-3)


@pytest.mark.slow
def test_epsilon_meets_its_tolerance_and_less_noise_is_worse() -> None:
    found = [epsilon_bounds(RandomAllocation(scale, 32), compositions=4, delta=1e-5) for scale in (1.0, 1.1)]
    for bounds in found:
        assert bounds.within_tolerance.all()
        assert 0.0 < bounds.epsilon_lower.item() < bounds.epsilon_upper.item()
    assert found[1].epsilon_upper.item() < found[0].epsilon_lower.item()


def test_it_is_better_than_all_steps_and_worse_than_none() -> None:
    """A record in one of t steps is in between: no step, and a step that is known."""
    found = privacy_bounds(RandomAllocation(2.0, 16), compositions=1, epsilon=0.25)
    known = privacy_bounds(Gaussian(2.0), compositions=1, epsilon=0.25)
    assert 0.0 < found.delta_lower.item() <= found.delta_upper.item() < known.delta_lower.item()


def two_step_delta(scale: float, epsilon: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Return both divergences of two steps, E (ΣY / 2 - e^ε)_+ and E (1 - e^ε ΣY / 2)_+, without any cancellation.

    Of one ratio, given the other one, both have the closed form of Black and Scholes.
    """
    mu = 1 / mpmath.mpf(scale)

    def ratio(z: mpmath.mpf) -> mpmath.mpf:
        return mpmath.exp(mu * z - mu * mu / 2)

    def over(z: mpmath.mpf) -> mpmath.mpf:
        left = 2 * mpmath.exp(epsilon) - ratio(z)
        if left <= 0:
            return mpmath.npdf(z) * (1 - left)
        end = mpmath.log(left) / mu + mu / 2
        return mpmath.npdf(z) * (mpmath.ncdf(mu - end) - left * mpmath.ncdf(-end))

    def under(z: mpmath.mpf) -> mpmath.mpf:
        left = 2 * mpmath.exp(-epsilon) - ratio(z)
        if left <= 0:
            return mpmath.mpf(0)
        end = mpmath.log(left) / mu + mu / 2
        return mpmath.npdf(z) * (left * mpmath.ncdf(end) - mpmath.ncdf(end - mu))

    above, below = (mpmath.log(2 * mpmath.exp(sign * epsilon)) / mu + mu / 2 for sign in (1, -1))
    forth = mpmath.quad(over, [-20, -5, 0, 5, above, above + 5, above + 20])
    back = mpmath.quad(under, [below - 30, below - 10, below - 3, below - 1, below - 1e-3, below])
    return forth / 2, back * mpmath.exp(epsilon) / 2


@pytest.mark.slow(reason="pairs of enclosures, and the integral over both steps")
@pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning")
@pytest.mark.parametrize(
    ("scale", "epsilon"),
    [(0.1, [50.0]), *(pytest.param(scale, [30.0, 50.0], marks=pytest.mark.nightly) for scale in (0.1, 0.15))],
)
def test_with_little_noise_something_is_known_from_above(scale: float, epsilon: list[float]) -> None:
    """Enclosures tell nothing of the addition of a record there: Gaussian noise around it does (Theorem 48)."""
    pair = RandomAllocation(scale, 2)
    bounds = privacy_bounds(pair, compositions=1, epsilon=epsilon, direction="each")
    for j, each in enumerate(epsilon):
        with mpmath.workdps(20):
            truths = two_step_delta(scale, each)
        for axis, truth in enumerate(truths):
            lower, upper = (float(side.values[axis, 0, j]) for side in (bounds.delta_lower, bounds.delta_upper))
            assert lower <= truth * (1 + 1e-6)
            assert truth * (1 - 1e-6) <= upper, (each, axis)
    found = epsilon_bounds(pair, compositions=1, delta=1e-5)
    assert 0.0 < found.epsilon_lower.item() <= found.epsilon_upper.item() <= 2.0 * found.epsilon_lower.item()


def test_what_needs_exact_masses_is_refused() -> None:
    pair = RandomAllocation(1.0, 8)
    with pytest.raises(InvalidInputError, match="RandomAllocation"):
        privacy_bounds(pair, compositions=2, epsilon=0.5, method="buckets")
    with pytest.raises(InvalidInputError, match="RandomAllocation"):
        renyi_bounds(pair, compositions=2, order=2.0)
    with pytest.raises(InvalidInputError, match="RandomAllocation"):
        tradeoff_bounds(pair, compositions=2, type_one_error=0.1)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ((0.0, 8), "RandomAllocation.scale"),
        ((math.nan, 8), "RandomAllocation.scale"),
        ((1.0, 0), "RandomAllocation.steps"),
        ((1.0, 2.5), "RandomAllocation.steps"),
        ((0.01, 8), "RandomAllocation.scale"),
        ((1.0, 8, -1.0), "RandomAllocation.sensitivity"),
    ],
)
def test_parameters_out_of_range(parameters: tuple[float, ...], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        RandomAllocation(*parameters)  # type: ignore[arg-type]
