"""Values known to 19 digits and more, each within the bounds of the default 100,000 buckets."""

import json
import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import xarray as xr

import pbdist
from pbdist.mechanisms import Gaussian, Histogram, Pair, RandomizedResponse, SubsampledGaussian

pytestmark = pytest.mark.slow

CASES: dict[str, dict[str, Any]] = {
    case["name"]: case
    for case in json.loads((Path(__file__).parent / "exact_values.json").read_text(encoding="utf-8"))["cases"]
}
#: Each with the cases of one table.
TABLES: list[tuple[Pair, tuple[str, ...]]] = [
    (Gaussian(scale=200 * math.sqrt(2)), ("gaussian",)),
    (Gaussian(scale=200 * math.sqrt(2)), ("gaussian_many",)),
    (RandomizedResponse(p=0.51), ("randomized_response",)),
    (SubsampledGaussian(scale=4, rate=0.01), ("dpsgd_remove", "dpsgd_add")),
]
#: How far off δ is, relatively, as .51 is no float; few outcomes are summed exactly.
OFF = {"randomized_response": 2e-14}
DELTAS = ("delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper")


def deltas(name: str) -> dict[float, mpmath.mpf]:
    with mpmath.workdps(50):
        return {float(epsilon): mpmath.mpf(delta) for epsilon, delta in CASES[name]["delta"].items()}


def directions(name: str) -> tuple[str, ...]:
    direction = CASES[name]["direction"]
    return ("A||B", "B||A") if direction == "both" else (direction,)


def assert_within(cell: xr.Dataset, truth: mpmath.mpf, what: str, allowance: mpmath.mpf | float = 0.0) -> None:
    with mpmath.workdps(50):
        lower, upper, log_lower, log_upper = (mpmath.mpf(float(cell[name])) for name in DELTAS)
        assert 0 <= lower <= truth + allowance, (what, lower, truth)
        assert truth - allowance <= upper, (what, truth, upper)
        assert log_lower <= mpmath.log(truth + allowance), (what, log_lower, truth)
        assert mpmath.log(truth - allowance) <= log_upper, (what, truth, log_upper)


@pytest.mark.parametrize("setting", [{}, {"tolerance": 1e-5}, {"buckets": 100_000}], ids=str)
@pytest.mark.parametrize(("pair", "names"), TABLES, ids=str)
def test_exact_values_lie_within_the_bounds(pair: Pair, names: tuple[str, ...], setting: dict[str, Any]) -> None:
    """Every figure, in both directions; within the tolerance, and within 1/200 for the usual number of buckets."""
    cases = [CASES[name] for name in names]
    epsilon = [*deltas(names[0])]
    told = {
        float(case["epsilon_at_delta_1e-5"]): case["direction"] for case in cases if "epsilon_at_delta_1e-5" in case
    }
    bounds = pbdist.privacy_bounds(
        pair, compositions=cases[0]["compositions"], epsilon=[*epsilon, *told], direction="each", **setting
    ).squeeze("compositions")
    for name in names:
        for direction in directions(name):
            for asked, delta in deltas(name).items():
                cell = bounds.sel(direction=direction, epsilon=asked)
                assert_within(cell, delta, f"{direction} ε = {asked}", allowance=OFF.get(name, 0.0) * delta)
    for asked, direction in told.items():
        # The nearest float moves ε by 2e-16 and δ by as much relatively; a bracket so tight is far out of reach.
        cell = bounds.sel(direction=direction, epsilon=asked)
        assert_within(cell, mpmath.mpf(1e-5), f"{direction} ε = {asked}", allowance=1e-20)
    known = bounds.sel(epsilon=epsilon)
    bracket = np.expm1(known["log_delta_upper"].values - known["log_delta_lower"].values)
    assert np.all(bracket <= (5e-3 if "buckets" in setting else setting.get("tolerance", 1e-3))), bracket


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
    ("outermost", "as_counts"), [(0, True), (0, False), pytest.param(4000, False, marks=pytest.mark.nightly)]
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
    bounds = pbdist.privacy_bounds(pair, compositions=rounds, epsilon=[*exact], buckets=100_000, direction="each")
    for direction in ("A||B", "B||A"):
        for epsilon, delta in exact.items():
            with mpmath.workdps(50):
                allowance = mpmath.mpf("1.001") * rounds * (error_a + error_b) * mpmath.exp(epsilon)
            cell = bounds.sel(direction=direction, epsilon=epsilon).squeeze("compositions")
            assert_within(cell, delta, f"{direction} ε = {epsilon}", allowance)


# -- by buckets: sums that other tools get wrong, far below the rounding errors of a plain transform ------------------


def randomized_response_delta(p: float, rounds: int, epsilon: float) -> mpmath.mpf:
    """The binomial sum Σ C(r, k) max(0, p^k (1-p)^(r-k) - e^ε (1-p)^k p^(r-k)), to 60 significant digits."""
    with mpmath.workdps(80):
        likely, y = mpmath.mpf(p), mpmath.exp(mpmath.mpf(epsilon))
        ratio = likely / (1 - likely)
        total = mpmath.mpf(0)
        weight = (1 - likely) ** rounds  # C(r, k) p^k (1-p)^(r-k) for k = 0
        for k in range(rounds + 1):
            # P_A / P_B = ratio^(2k - r).
            part = 1 - y / ratio ** (2 * k - rounds)
            if part > 0:
                total += weight * part
            weight *= ratio * (rounds - k) / (k + 1)
        return total


@pytest.mark.parametrize(
    ("p", "rounds", "epsilon", "magnitude"), [(0.51, 4000, 64.4, 1.2e-134), (0.6, 500, 76.0, 1.7e-5)]
)
@pytest.mark.parametrize("on_the_grid", [False, True])
def test_two_outcome_witnesses(p: float, rounds: int, epsilon: float, magnitude: float, on_the_grid: bool) -> None:
    truth = randomized_response_delta(p, rounds, epsilon)
    assert float(truth) == pytest.approx(magnitude, rel=0.05)
    assert truth > 0
    bounds = pbdist.privacy_bounds(
        RandomizedResponse(p),
        compositions=rounds,
        epsilon=epsilon,
        buckets=20_000,
        method="buckets",
        factor=p / (1 - p) if on_the_grid else None,
        direction="each",
    )
    for direction in ("A||B", "B||A"):
        cell = bounds.sel(direction=direction).squeeze()
        with mpmath.workdps(80):
            assert 0 <= mpmath.mpf(float(cell["delta_lower"])) <= truth * (1 - mpmath.mpf(10) ** -50)
            assert mpmath.mpf(float(cell["delta_upper"])) >= truth * (1 + mpmath.mpf(10) ** -50)
            assert mpmath.mpf(float(cell["log_delta_lower"])) <= mpmath.log(truth)
            assert mpmath.mpf(float(cell["log_delta_upper"])) >= mpmath.log(truth)
