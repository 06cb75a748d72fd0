"""`tradeoff_bounds`, `total_variation_bounds`, `renyi_bounds`: what they return, and what they refuse."""

import math

import numpy as np
import pytest

import pbdist
from pbdist import Gaussian, InvalidInputError, RandomizedResponse, SubsampledGaussian, privacy_bounds


def test_dimensions_names_and_units() -> None:
    pair = SubsampledGaussian(2.0, 0.2)
    curve = pbdist.tradeoff_bounds(pair, compositions=[1, 4], type_one_error=[0.1, 0.5, 0.9], direction="each")
    assert list(curve) == ["type_two_error_lower", "type_two_error_upper"]
    assert curve.type_two_error_lower.dims == ("direction", "compositions", "type_one_error")
    assert curve.direction.values.tolist() == ["A||B", "B||A"]
    both = pbdist.tradeoff_bounds(pair, compositions=[1, 4], type_one_error=[0.1, 0.5, 0.9])
    assert both.type_two_error_upper.dims == ("compositions", "type_one_error")
    assert np.array_equal(both.type_two_error_lower, curve.type_two_error_lower.min("direction"))
    assert curve.attrs == {"tolerance": 1e-3, "adjacency": "add-or-remove"}
    distance = pbdist.total_variation_bounds(pair, compositions=[1, 4])
    assert distance.total_variation_lower.dims == ("compositions",)
    divergences = pbdist.renyi_bounds(pair, compositions=4, order=[1, 2])
    assert divergences.renyi_upper.dims == ("compositions", "order")
    assert divergences.renyi_upper.attrs == {
        "long_name": "certified upper bound on the Rényi divergence",
        "units": "nat",
    }
    for dataset in (curve, distance, divergences):
        for variable in [*dataset.data_vars.values(), dataset.compositions]:
            assert variable.attrs["long_name"]
            assert variable.attrs["units"]


def test_the_two_tests_are_inverse_to_each_other() -> None:
    pair = SubsampledGaussian(0.8, 0.3)
    alpha = np.linspace(0.0, 1.0, 21)
    curve = pbdist.tradeoff_bounds(pair, compositions=3, type_one_error=alpha, tolerance=1e-5, direction="each")
    forwards = curve.sel(direction="A||B", compositions=3)
    back = pbdist.tradeoff_bounds(
        pair, compositions=3, type_one_error=forwards.type_two_error_upper.values, tolerance=1e-5, direction="each"
    ).sel(direction="B||A", compositions=3)
    # β falls: at no less than the other's type I error it is at most its type II error.
    assert (back.type_two_error_lower.values <= alpha).all()
    assert (back.type_two_error_upper.values >= alpha - 0.02).all()


def test_curves_agree_with_delta() -> None:
    pair, r, epsilon = Gaussian(3.0), 5, np.array([0.0, 0.3, 1.0])
    delta = privacy_bounds(pair, compositions=r, epsilon=epsilon)
    distance = pbdist.total_variation_bounds(pair, compositions=r)
    assert distance.total_variation_upper.item() == delta.delta_upper.values[0, 0]
    alpha = np.linspace(0.0, 1.0, 41)
    curve = pbdist.tradeoff_bounds(pair, compositions=r, type_one_error=alpha)
    for lower, loss in zip(delta.delta_lower.values[0], epsilon, strict=True):
        # (ε, δ) is the line 1 - δ - e^ε α below the curve, and it touches it.
        assert (
            curve.type_two_error_upper.values[0] + math.exp(loss) * alpha >= 1.0 - delta.delta_upper.values.max()
        ).all()
        assert float(np.min(curve.type_two_error_upper.values[0] + math.exp(loss) * alpha)) <= 1.0 - lower + 0.02


@pytest.mark.parametrize(
    ("function", "arguments", "field"),
    [
        ("tradeoff_bounds", {"type_one_error": 1.5}, "type_one_error"),
        ("tradeoff_bounds", {"type_one_error": "a"}, "type_one_error"),
        ("tradeoff_bounds", {"type_one_error": 0.5, "tolerance": 0.0}, "tolerance"),
        ("tradeoff_bounds", {"type_one_error": 0.5, "direction": "A"}, "direction"),
        ("total_variation_bounds", {"direction": "A"}, "direction"),
        ("total_variation_bounds", {"tolerance": 2.0}, "tolerance"),
        ("renyi_bounds", {"order": 0.5}, "order"),
        ("renyi_bounds", {"order": 2.0, "tolerance": 2.0}, "tolerance"),
        ("renyi_bounds", {"order": 2.0, "compositions": 0}, "compositions"),
        ("renyi_bounds", {"order": 2.0, "mechanism": "Gaussian"}, "mechanism"),
    ],
)
def test_what_is_refused(function: str, arguments: dict, field: str) -> None:
    given = {"mechanism": RandomizedResponse(0.6), "compositions": 2, **arguments}
    with pytest.raises(InvalidInputError, match=f"^{field}"):
        getattr(pbdist, function)(**given)
