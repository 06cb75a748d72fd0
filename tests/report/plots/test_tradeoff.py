"""Trade-off curves: the bounds at their points, and between them what a curve that falls must be."""

import numpy as np
import pytest
from scipy.stats import norm

import pbdist
from pbdist.errors import InvalidInputError
from pbdist.report.plots import tradeoff
from pbdist.report.plots.selection import Curve
from pbdist.report.plots.tradeoff import proved_errors
from tests.report.plots.pictures import KEPT, curves, notes

ALPHA = [0.0, 0.01, 0.05, 0.1, 0.3, 0.6, 0.9, 1.0]


def truth(alpha, mu):
    """β of Gaussian noise (Dong, Roth & Su 2022)."""
    return norm.cdf(norm.ppf(1.0 - alpha) - mu)


@pytest.mark.parametrize("direction", ["both", "each"])
def test_the_truth_lies_between_the_stairs(direction):
    bounds = pbdist.tradeoff_bounds(
        pbdist.Gaussian(20.0), compositions=100, type_one_error=ALPHA, direction=direction, tolerance=1e-2
    )
    axes = tradeoff(bounds)
    line = curves(axes)["r = 100"]
    (path,) = axes.collections[0].get_paths()
    assert set(ALPHA) <= set(np.unique(path.vertices[:, 0]).tolist())
    lower, upper = (bounds[f"type_two_error_{side}"].values.reshape(-1, len(ALPHA)) for side in ("lower", "upper"))
    places, low, high = proved_errors(Curve({}, np.array(ALPHA), lower.min(axis=0), upper.min(axis=0)))
    assert np.array_equal(line.get_data(), (places, low))
    fine = np.unique(np.concatenate((np.linspace(0.0, 1.0, 1001), ALPHA)))
    # Of stairs both values at a place are bounds: between them either side.
    inside = ~np.isin(fine, ALPHA)
    assert np.all(np.interp(fine[inside], places, low) <= truth(fine[inside], 0.5) + 1e-12)
    assert np.all(np.interp(fine[inside], places, high) >= truth(fine[inside], 0.5) - 1e-12)
    for alpha, least, most in zip(ALPHA, lower.min(axis=0), upper.min(axis=0), strict=True):
        assert least in low[places == alpha]
        assert most in high[places == alpha]


def test_a_study_is_asked_and_its_curve_is_named(finished_store):
    study = pbdist.open_study(finished_store(KEPT))
    axes = tradeoff(study, compositions=4)
    assert len([label for label in curves(axes) if "no test" not in label]) == 2
    assert axes.get_title(loc="left") == "r = 4"
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "type I error α, a probability",
        "least type II error β(α)",
    )
    assert notes(axes)[0].startswith("upper - lower is at most ")
    with pytest.raises(InvalidInputError, match="the Dataset of tradeoff_bounds"):
        tradeoff(study.bounds)
