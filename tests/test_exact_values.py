"""Values known to 19 digits and more, each within the bounds of the default 100,000 buckets."""

import json
import math
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import xarray as xr

import pbdist
from pbdist.mechanisms import Gaussian, Histogram, Pair, RandomizedResponse, SubsampledGaussian

CASES: dict[str, dict[str, Any]] = {
    case["name"]: case
    for case in json.loads((Path(__file__).parent / "exact_values.json").read_text(encoding="utf-8"))["cases"]
}
PAIRS: dict[str, Pair] = {
    "gaussian": Gaussian(scale=200 * math.sqrt(2)),
    "gaussian_many": Gaussian(scale=200 * math.sqrt(2)),
    "randomized_response": RandomizedResponse(p=0.51),
    "dpsgd_remove": SubsampledGaussian(scale=4, rate=0.01),
    "dpsgd_add": SubsampledGaussian(scale=4, rate=0.01),
}
DELTAS = ("delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper")


def deltas(name: str) -> dict[float, mpmath.mpf]:
    with mpmath.workdps(50):
        return {float(epsilon): mpmath.mpf(delta) for epsilon, delta in CASES[name]["delta"].items()}


def directions(name: str) -> tuple[str, ...]:
    direction = CASES[name]["direction"]
    return ("A||B", "B||A") if direction == "both" else (direction,)


@cache
def bounds_of(pair: Pair, compositions: int, epsilon: tuple[float, ...]) -> xr.Dataset:
    """The bounds of one pair, both directions; the two subsampled cases share one."""
    return pbdist.privacy_bounds(
        pair, compositions=compositions, epsilon=list(epsilon), buckets=100_000, direction="each"
    )


def bounds_for(name: str) -> xr.Dataset:
    epsilon = [*deltas(name)]
    if "epsilon_at_delta_1e-5" in CASES[name]:
        epsilon += [float(CASES[other]["epsilon_at_delta_1e-5"]) for other in ("dpsgd_remove", "dpsgd_add")]
    return bounds_of(PAIRS[name], CASES[name]["compositions"], tuple(epsilon))


def assert_within(cell: xr.Dataset, truth: mpmath.mpf, what: str, allowance: mpmath.mpf | float = 0.0) -> None:
    with mpmath.workdps(50):
        lower, upper, log_lower, log_upper = (mpmath.mpf(float(cell[name])) for name in DELTAS)
        assert 0 <= lower <= truth + allowance, (what, lower, truth)
        assert truth - allowance <= upper, (what, truth, upper)
        assert log_lower <= mpmath.log(truth + allowance), (what, log_lower, truth)
        assert mpmath.log(truth - allowance) <= log_upper, (what, truth, log_upper)


@pytest.mark.parametrize(
    "name", [name if name == "randomized_response" else pytest.param(name, marks=pytest.mark.slow) for name in PAIRS]
)
def test_exact_values_lie_within_the_bounds(name: str) -> None:
    bounds = bounds_for(name).squeeze("compositions")
    for direction in directions(name):
        for epsilon, delta in deltas(name).items():
            cell = bounds.sel(direction=direction, epsilon=epsilon)
            assert_within(cell, delta, f"{name} {direction} ε = {epsilon}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dpsgd_remove", "dpsgd_add"])
def test_exact_epsilon_of_a_given_delta(name: str) -> None:
    (direction,) = directions(name)
    # The nearest float moves ε by 2e-16 and δ by as much relatively; a bracket so tight is far out of reach.
    epsilon = float(CASES[name]["epsilon_at_delta_1e-5"])
    cell = bounds_for(name).squeeze("compositions").sel(direction=direction, epsilon=epsilon)
    assert_within(cell, mpmath.mpf(1e-5), f"{name} {direction} ε = {epsilon}", allowance=1e-20)


@pytest.mark.slow
def test_bracket_of_the_gaussian_is_tight() -> None:
    bounds = bounds_for("gaussian").squeeze("compositions").sel(epsilon=slice(None, 0.3))
    assert bounds.sizes["epsilon"] == 7
    relative = (bounds["delta_upper"] - bounds["delta_lower"]) / bounds["delta_lower"]
    assert float(relative.max()) <= 5e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_log_variables_agree_with_the_plain_ones(name: str) -> None:
    bounds = bounds_for(name)
    for side in ("lower", "upper"):
        delta, log_delta = bounds[f"delta_{side}"].values, bounds[f"log_delta_{side}"].values
        normal = delta > 1e-300
        np.testing.assert_allclose(np.exp(log_delta[normal]), delta[normal], rtol=1e-12)
        assert np.all(log_delta[~normal] < math.log(1e-299))


# -- the Laplace distribution in unit bins ---------------------------------------------------------------------
#
# With X ~ Laplace(0, s) for A and 1 + X for B, the bin (k-1, k] has P_A/P_B = e^(1/s) for every k <= 0, e^(-1/s) for
# every k >= 2, and 1 for k = 1. Outcomes of one ratio may be merged without changing any δ, so folding both tails into
# the outermost bins leaves nothing out.


def laplace_bins(outermost: int) -> tuple[list[mpmath.mpf], list[mpmath.mpf]]:
    """P_A and P_B of the bins -outermost .. outermost + 2, the tails folded into the first and the last."""
    scale = CASES["laplace_unit_bins"]["pair"]["scale"]

    def mass_below(x: float) -> mpmath.mpf:
        if x <= 0:
            return mpmath.exp(mpmath.mpf(x) / scale) / 2
        return 1 - mpmath.exp(-mpmath.mpf(x) / scale) / 2

    edges = [-math.inf, *range(-outermost, outermost + 2), math.inf]
    p = [mass_below(right) - mass_below(left) for left, right in pairwise(edges)]
    q = [mass_below(right - 1) - mass_below(left - 1) for left, right in pairwise(edges)]
    return p, q


def distance(masses: list[mpmath.mpf], taken: list[Fraction]) -> mpmath.mpf:
    """Σ |mass - taken|."""
    return mpmath.fsum(
        abs(mass - mpmath.mpf(value.numerator) / value.denominator) for mass, value in zip(masses, taken, strict=True)
    )


@pytest.mark.parametrize(
    ("outermost", "as_counts"), [(0, True), (0, False), pytest.param(4000, False, marks=pytest.mark.slow)]
)
def test_laplace_in_unit_bins(outermost: int, as_counts: bool) -> None:
    """The masses given are rounded; r-fold, that moves δ by no more than r (Σ|ΔP_A| + e^ε Σ|ΔP_B|).

    For |Σ max(0, P - y Q) - Σ max(0, P' - y Q')| <= Σ|P - P'| + y Σ|Q - Q'|, and a product's distance is at most the
    sum of its factors' distances where the totals are 1 (but for 1e-12 here).
    """
    rounds = CASES["laplace_unit_bins"]["compositions"]
    with mpmath.workdps(50):
        p, q = laplace_bins(outermost)
        if as_counts:
            counts = [[int(mpmath.nint(mass * 2**62)) for mass in masses] for masses in (p, q)]
            pair = Histogram(*(tuple(count) for count in counts))
            taken = [[Fraction(count, sum(row)) for count in row] for row in counts]
        else:
            floats = [[float(mass) for mass in masses] for masses in (p, q)]
            pair = Histogram(*(tuple(row) for row in floats))
            taken = [[Fraction(mass) for mass in row] for row in floats]
        error_a, error_b = distance(p, taken[0]), distance(q, taken[1])
        assert error_a + error_b < mpmath.mpf(10) ** -14
    exact = deltas("laplace_unit_bins")
    bounds = bounds_of(pair, rounds, tuple(exact)).squeeze("compositions")
    for direction in ("A||B", "B||A"):
        for epsilon, delta in exact.items():
            with mpmath.workdps(50):
                allowance = mpmath.mpf("1.001") * rounds * (error_a + error_b) * mpmath.exp(epsilon)
            cell = bounds.sel(direction=direction, epsilon=epsilon)
            assert_within(cell, delta, f"{direction} ε = {epsilon}", allowance)


# -- what the default method promises --------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [None, 1e-5])
@pytest.mark.parametrize("name", PAIRS)
def test_exact_values_within_the_tolerance(name: str, tolerance: float | None) -> None:
    """Every figure lies within, both directions, at the default tolerance and at 1e-5."""
    bounds = pbdist.privacy_bounds(
        PAIRS[name],
        compositions=CASES[name]["compositions"],
        epsilon=list(deltas(name)),
        tolerance=tolerance,
        direction="each",
    ).squeeze("compositions")
    for direction in directions(name):
        for epsilon, delta in deltas(name).items():
            assert_within(bounds.sel(direction=direction, epsilon=epsilon), delta, f"{name} {direction} ε = {epsilon}")
    bracket = np.expm1(bounds["log_delta_upper"].values - bounds["log_delta_lower"].values)
    assert np.all(bracket <= (1e-3 if tolerance is None else tolerance)), bracket


def gaussian_epsilon(mu: mpmath.mpf, log_delta: mpmath.mpf) -> float:
    """The float next to the ε at which ln δ of a Gaussian pair is so much."""
    low, high = mpmath.mpf(0), mu * mu / 2 + 80 * mu
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if log_gaussian(mu, middle) > log_delta else (low, middle)
    return float(low)


def log_gaussian(mu: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    return mpmath.log(mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("exponent", [16, 40, 100, 300, 1000])
@pytest.mark.parametrize(("scale", "rounds"), [(1, 1000), (10, 100), (1, 1), (1, 2), (1, 3)])
def test_tiny_deltas_of_a_gaussian(scale: int, rounds: int, exponent: int) -> None:
    with mpmath.workdps(60):
        mu = mpmath.sqrt(rounds) / scale
        epsilon = gaussian_epsilon(mu, -exponent * mpmath.log(10))
        cell = pbdist.privacy_bounds(Gaussian(float(scale)), compositions=rounds, epsilon=epsilon).squeeze()
        lower, upper = (float(cell[key]) for key in ("log_delta_lower", "log_delta_upper"))
        assert mpmath.mpf(lower) <= log_gaussian(mu, mpmath.mpf(epsilon)) <= mpmath.mpf(upper)
        assert math.expm1(upper - lower) <= 1e-3
