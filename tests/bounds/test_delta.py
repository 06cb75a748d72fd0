"""`privacy_bounds`: what it returns, and what it refuses."""

import math
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from pbdist import (
    ApproximateDP,
    DiscreteGaussian,
    Gaussian,
    Histogram,
    InvalidInputError,
    Laplace,
    NoisyCount,
    Product,
    RandomizedResponse,
    SubsampledGaussian,
    privacy_bounds,
)

pytestmark = pytest.mark.slow

NAMES = ["delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper"]


def test_dimensions_of_vectors():
    bounds = privacy_bounds(Gaussian(10.0), compositions=[1, 5, 8], epsilon=[0.0, 0.5], buckets=2000)
    assert isinstance(bounds, xr.Dataset)
    assert list(bounds) == NAMES
    for name in NAMES:
        assert bounds[name].dims == ("compositions", "epsilon")
        assert bounds[name].dtype == np.float64
    assert bounds.compositions.values.tolist() == [1, 5, 8]
    assert bounds.epsilon.values.tolist() == [0.0, 0.5]
    assert bounds.sel(compositions=5, epsilon=0.5).delta_upper.ndim == 0


def test_dimensions_of_scalars_and_directions():
    bounds = privacy_bounds(RandomizedResponse(0.6), compositions=3, epsilon=0.1, buckets=100)
    assert bounds.sizes == {"compositions": 1, "epsilon": 1}
    each = privacy_bounds(SubsampledGaussian(1.0, 0.1), compositions=3, epsilon=0.1, buckets=1000, direction="each")
    assert each.delta_upper.dims == ("direction", "compositions", "epsilon")
    assert each.direction.values.tolist() == ["A||B", "B||A"]
    both = privacy_bounds(SubsampledGaussian(1.0, 0.1), compositions=3, epsilon=0.1, buckets=1000)
    for name in NAMES:
        np.testing.assert_array_equal(both[name], each[name].max("direction"))


def test_order_and_repeats_of_compositions_do_not_matter():
    pair = Laplace(5.0, truncate=(-40.0, 40.0))
    together = privacy_bounds(pair, compositions=[7, 1, 12, 7], epsilon=[0.3, 0.0], buckets=2000, method="buckets")
    assert together.compositions.values.tolist() == [7, 1, 12, 7]
    ordered = privacy_bounds(pair, compositions=[1, 7, 12], epsilon=[0.0, 0.3], buckets=2000, method="buckets")
    np.testing.assert_array_equal(together.delta_upper.values[[1, 0, 2]][:, ::-1], ordered.delta_upper)
    np.testing.assert_array_equal(together.delta_lower[0], together.delta_lower[3])


def test_a_delta_of_zero_has_the_logarithm_minus_infinity():
    # Four rounds of Laplace noise are pure 4 s / scale DP.
    bounds = privacy_bounds(Laplace(10.0), compositions=4, epsilon=[0.3, 0.41], buckets=4000)
    assert bounds.delta_upper.values[0, 1] == 0.0
    assert bounds.log_delta_upper.values[0, 1] == -math.inf
    assert bounds.delta_lower.values[0, 0] > 0.0


def test_logarithms_are_rounded_outwards():
    bounds = privacy_bounds(
        Gaussian(3.0), compositions=[1, 9], epsilon=np.linspace(0.0, 3.0, 13), buckets=4000, method="buckets"
    )
    upper, lower = bounds.delta_upper.values, bounds.delta_lower.values
    assert np.all(bounds.log_delta_upper.values >= np.log(upper))
    positive = lower > 0.0
    assert np.all(bounds.log_delta_lower.values[positive] <= np.log(lower[positive]))
    np.testing.assert_allclose(np.exp(bounds.log_delta_upper.values), upper, rtol=1e-13)


def test_the_tight_bounds_and_their_logarithms_agree():
    bounds = privacy_bounds(Gaussian(3.0), compositions=[1, 9], epsilon=np.linspace(0.0, 3.0, 13))
    np.testing.assert_allclose(np.exp(bounds.log_delta_upper.values), bounds.delta_upper.values, rtol=1e-13)
    np.testing.assert_allclose(np.exp(bounds.log_delta_lower.values), bounds.delta_lower.values, rtol=1e-13)
    assert np.all(bounds.delta_upper.values <= bounds.delta_lower.values * (1.0 + 1e-3))


def test_delta_never_exceeds_one():
    revealing = privacy_bounds(
        Histogram([1, 0], [0, 1]), compositions=[1, 50], epsilon=[0.0, 30.0], buckets=10, method="buckets"
    )
    assert np.all(revealing.delta_upper.values == 1.0)
    assert np.all(revealing.log_delta_upper.values == 0.0)
    assert np.all(revealing.delta_lower.values > 1.0 - 1e-10)


def test_the_analytic_gaussian_lies_between_the_bounds():
    # δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) with μ = √r s / scale (Balle & Wang 2018, Theorem 8).
    import mpmath

    scale, epsilons, rounds = 4.0, [0.0, 0.25, 1.0, 3.0], [1, 2, 3, 10, 100]
    bounds = privacy_bounds(Gaussian(scale, sensitivity=1.0), compositions=rounds, epsilon=epsilons, buckets=20_000)
    with mpmath.workdps(40):
        for row, r in enumerate(rounds):
            mu = mpmath.sqrt(r) / mpmath.mpf(scale)
            for column, epsilon in enumerate(epsilons):
                exact = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
                assert mpmath.mpf(float(bounds.delta_lower[row, column])) <= exact
                assert exact <= mpmath.mpf(float(bounds.delta_upper[row, column]))
                assert float(bounds.delta_upper[row, column]) <= float(exact) * 1.02 + 1e-12


def test_the_worst_case_of_epsilon_and_delta():
    # Lemma 1 of Meiser & Mohammadi 2018 on M_{ε,δ}: one round has exactly (ε, δ), and at ε = 0 total variation.
    bounds = privacy_bounds(ApproximateDP(0.5, 1e-3), compositions=1, epsilon=[0.0, 0.5, 2.0], buckets=1000)
    exact = [1e-3 + 0.999 * math.tanh(0.25), 1e-3, 1e-3]
    for column, value in enumerate(exact):
        assert bounds.delta_lower.values[0, column] <= value * (1.0 + 1e-15)
        assert bounds.delta_upper.values[0, column] >= value * (1.0 - 1e-15)
        assert bounds.delta_upper.values[0, column] == pytest.approx(value, rel=1e-9)


def test_a_sequence_is_composed_together():
    laplace, gauss = Laplace(8.0), Gaussian(9.0)
    kind = {"compositions": [1, 4], "epsilon": [0.0, 0.2, 0.9], "buckets": 4000}
    sequence = privacy_bounds([(laplace, 3), (gauss, 2)], **kind)
    product = privacy_bounds(Product(laplace, gauss, laplace, gauss, laplace), **kind)
    # Two routes to one truth.
    assert np.all(sequence.delta_lower.values <= product.delta_upper.values)
    assert np.all(product.delta_lower.values <= sequence.delta_upper.values)
    np.testing.assert_allclose(sequence.delta_upper, product.delta_upper, rtol=0.05, atol=2e-5)
    once = privacy_bounds(laplace, **kind)
    as_sequence = privacy_bounds([(laplace, 1)], **kind)
    np.testing.assert_array_equal(once.delta_upper, as_sequence.delta_upper)


def test_bounds_from_different_grids_never_contradict():
    pair = NoisyCount(Laplace(5.0), 30.0, 2)
    kind = {"compositions": [1, 16, 100], "epsilon": [0.0, 0.4, 1.0, 5.0], "direction": "each"}
    grids = [{"buckets": 100}, {"buckets": 1000}, {"factor": 1.001}, {"factor": 3.0}, {"method": "buckets"}, {}]
    results = [privacy_bounds(pair, **kind, **grid) for grid in grids]
    lower = np.max([result.delta_lower.values for result in results], axis=0)
    upper = np.min([result.delta_upper.values for result in results], axis=0)
    assert np.all(lower <= upper)


def test_the_vuvuzela_reading_makes_the_difference():
    # Dialing noise 8k / 500 after 1,024 rounds at ε = ln 2; ⌈max(0, X)⌉ reveals the input with 1024 P(X <= 1).
    kind = {"compositions": 1024, "epsilon": math.log(2.0)}
    clamped = privacy_bounds(NoisyCount(Laplace(500.0), 8000.0, 2), **kind)
    redrawn = privacy_bounds(NoisyCount(Laplace(500.0), 8000.0, 2, "redraw-and-floor"), **kind)
    inside = privacy_bounds(NoisyCount(Laplace(500.0), 8000.0, 2, "shift-inside"), **kind)
    revealing = 1.0 - (1.0 - 0.5 * math.exp(-7999.0 / 500.0)) ** 1024
    assert revealing * (1.0 - 1e-9) <= float(clamped.delta_upper.squeeze()) <= 5.8e-5
    assert float(clamped.delta_lower.squeeze()) >= 5.76e-5
    assert 2.3e-7 < float(redrawn.delta_lower.squeeze()) <= float(redrawn.delta_upper.squeeze()) < 2.33e-7
    assert float(inside.delta_upper.squeeze()) < 2e-9


@pytest.mark.parametrize("rounds", [16, pytest.param(65_536, marks=pytest.mark.nightly)])
def test_products_are_squared_like_sequences(rounds):
    # Vuvuzela's conversation, low noise: single requests and pairs, seen together in 65,536 rounds.
    single, paired = NoisyCount(Laplace(7300.0), 150_000.0, 2), NoisyCount(Laplace(3650.0), 75_000.0, 1)
    kind = {"compositions": rounds, "epsilon": [0.3, math.log(2.0)], "method": "buckets"}
    product = privacy_bounds(Product(single, paired), **kind)
    sequence = privacy_bounds([(single, 1), (paired, 1)], **kind)
    for name in NAMES:
        np.testing.assert_array_equal(product[name], sequence[name])
    np.testing.assert_allclose(product.delta_upper, product.delta_lower, rtol=0.02)
    assert rounds < 65_536 or 7.7e-5 < float(product.delta_upper[0, 1]) < 7.9e-5
    eight = privacy_bounds(Product(*[RandomizedResponse(0.75)] * 8), compositions=1, epsilon=1.5, buckets=100)
    assert float(eight.delta_lower.squeeze()) > 0.76
    assert float(eight.delta_upper.squeeze()) < 0.78


def test_tiny_masses_keep_the_bound_of_the_transform():
    # P_B masses below 1e-162, whose squares vanish, on vectors long enough for the Fourier transform.
    losses, others = np.linspace(380.0, 460.0, 4000), np.linspace(-1.0, 1.0, 1500)
    far = Histogram([1.0 / 4000] * 4000 + [0.0], [*(np.exp(-losses) / 4000), 1.0])
    weights = np.exp(-others)
    near = Histogram([1.0 / 1500] * 1500, weights / weights.sum())
    shift = math.log(weights.sum() / 1500)
    bounds = privacy_bounds(
        [(far, 1), (near, 1)],
        compositions=1,
        epsilon=[400.0, 440.0],
        buckets=200_000,
        factor=math.exp(480 / 1e5),
        direction="each",
        method="buckets",
    )
    total = losses[:, None] + others[None, :] + shift
    for column, epsilon in enumerate((400.0, 440.0)):
        exact = float(np.mean(np.maximum(0.0, -np.expm1(epsilon - total))))
        assert bounds.delta_lower.values[0, 0, column] <= exact * (1.0 + 1e-9)
        assert exact * (1.0 - 1e-9) <= bounds.delta_upper.values[0, 0, column] <= 1.0


@pytest.mark.parametrize("pair", [RandomizedResponse(0.5000001), Gaussian(1e12), Laplace(1e9, truncate=(-1e10, 1e10))])
def test_astronomically_many_compositions_stay_bounds(pair):
    bounds = privacy_bounds(pair, compositions=[2**40, 2**62], epsilon=[0.0, 1.0, 50.0], buckets=1000, method="buckets")
    assert np.all(bounds.delta_lower.values <= bounds.delta_upper.values)
    assert np.all(bounds.delta_upper.values <= 1.0)


@pytest.mark.nightly
def test_many_different_pairs_are_composed():
    """The 2020 Census: ρ = 3.65 over eight levels, ten discrete Gaussian noises each (arXiv 2410.09296)."""
    shares = [2.0, 27.4, 8.5, 13.1, 13.1, 23.8, 11.8, 0.3]
    levels = [(DiscreteGaussian(math.sqrt(5.0 / (3.65 * share / 100.0)), 1), 10) for share in shares]
    bounds = privacy_bounds(levels, compositions=1, epsilon=20.838545)
    # Computed apart, by the ladder of another engine: between 2.8914e-11 and 2.8923e-11.
    assert 2.889e-11 < bounds.delta_lower.item() <= 2.8923e-11
    assert 2.8914e-11 <= bounds.delta_upper.item() < 2.894e-11
    assert bool(bounds.within_tolerance.all())


def test_probabilities_that_sum_to_more_than_one_have_their_limit():
    # Taken as the masses they are, they grow without end.
    pair = Histogram([0.5, 0.5 + 1e-10], [0.5, 0.5])
    bounds = privacy_bounds(pair, compositions=1000, epsilon=0.0, buckets=100, method="buckets")
    assert float(bounds.delta_upper.squeeze()) >= (1.0 + 1e-10) ** 1000 - 1.0
    for arguments in ({}, {"buckets": 100, "method": "buckets"}):
        with pytest.raises(InvalidInputError, match=r"compositions: expected fewer than 1e\+10 of a Histogram whose"):
            privacy_bounds(pair, compositions=2**62, epsilon=0.0, **arguments)


def test_settings_are_recorded():
    bounds = privacy_bounds(Gaussian(3.0), compositions=2, epsilon=0.1, buckets=1002, factor=1.01, method="buckets")
    assert bounds.attrs["factor"] == pytest.approx(1.01)
    assert bounds.attrs["loss_width"] == pytest.approx(math.log(1.01))
    # n = 501 would be odd: the grid has at least as many buckets as asked for.
    assert bounds.attrs["buckets"] == 1004
    assert bounds.delta_upper.attrs["long_name"]


@pytest.mark.parametrize(
    ("arguments", "field", "came"),
    [
        ({"compositions": 0}, "compositions", "0"),
        ({"compositions": [1, -3]}, "compositions", "-3"),
        ({"compositions": 1.5}, "compositions", "1.5"),
        ({"compositions": []}, "compositions", "[]"),
        ({"compositions": math.nan}, "compositions", "nan"),
        ({"compositions": 2**63}, "compositions", str(2**63)),
        ({"epsilon": -0.1}, "epsilon", "-0.1"),
        ({"epsilon": [0.1, math.nan]}, "epsilon", "nan"),
        ({"epsilon": math.inf}, "epsilon", "inf"),
        ({"epsilon": "one"}, "epsilon", "'one'"),
        ({"epsilon": "0.5"}, "epsilon", "'0.5'"),
        ({"epsilon": True}, "epsilon", "True"),
        ({"epsilon": 1j}, "epsilon", "1j"),
        ({"epsilon": 10**400}, "epsilon", "1000"),
        ({"compositions": [[1], [2, 3]]}, "compositions", "[[1], [2, 3]]"),
        ({"compositions": np.zeros((30, 30))}, "compositions", "array"),
        ({"buckets": 10**30}, "buckets", "1000"),
        ({"factor": "1.1"}, "factor", "'1.1'"),
        ({"factor": 10**400}, "factor", "1000"),
        ({"method": np.zeros(3)}, "method", "array"),
        ({"epsilon": []}, "epsilon", "[]"),
        ({"buckets": 0}, "buckets", "0"),
        ({"buckets": 7}, "buckets", "7"),
        ({"buckets": -2}, "buckets", "-2"),
        ({"buckets": 10.5}, "buckets", "10.5"),
        ({"factor": 1.0}, "factor", "1.0"),
        ({"factor": 0.5}, "factor", "0.5"),
        ({"factor": math.nan}, "factor", "nan"),
        ({"factor": math.inf}, "factor", "inf"),
        ({"method": "magic"}, "method", "'magic'"),
        ({"direction": "A"}, "direction", "'A'"),
        ({"mechanism": 3}, "mechanism", "3"),
        ({"mechanism": []}, "mechanism", "none"),
        ({"mechanism": [(Laplace(1.0), 0)]}, "mechanism[0]", "0"),
        ({"mechanism": [Laplace(1.0)]}, "mechanism[0]", "Laplace"),
        ({"mechanism": [("Laplace", 1)]}, "mechanism[0]", "'Laplace'"),
    ],
)
def test_bad_input_is_named(arguments, field, came):
    good = {"mechanism": Laplace(1.0), "compositions": 1, "epsilon": 0.0, "buckets": 10}
    with pytest.raises(InvalidInputError) as caught:
        privacy_bounds(**(good | arguments))
    text = str(caught.value)
    assert text.startswith(field)
    assert came in text
    assert "\n" not in text
    assert len(text) < 300


def test_a_first_answer_imports_little() -> None:
    """A fresh process imports xarray and pandas only where a Dataset is built, and nothing that draws or stores."""
    program = """
import sys
from pbdist.mechanisms import SubsampledGaussian
from pbdist.table import bounds_table
pair = SubsampledGaussian(2.0, 0.01)
bounds_table([(pair, 1)], compositions=[100], epsilon=[1.0])
assert not {"xarray", "pandas", "scipy.linalg"} & set(sys.modules)
assert len(sys.modules) < 620, len(sys.modules)
from pbdist import privacy_bounds
privacy_bounds(pair, compositions=100, epsilon=1.0)
assert not {"matplotlib", "zarr", "distributed", "bokeh", "scipy.stats", "scipy.optimize"} & set(sys.modules)
assert len(sys.modules) < 1400, len(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
