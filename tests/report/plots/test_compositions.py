"""δ and ε over r: stored bounds, answers of the study, gaps, bounds that are not known."""

import numpy as np
import pytest

import pbdist
from pbdist.errors import InvalidInputError
from pbdist.report.plots import compositions
from tests.report.plots.pictures import PLAN, curves, notes


def test_delta_over_r_is_as_stored(study):
    axes = compositions(study, epsilon=0.5, mechanism="Gaussian")
    stored = study.bounds.sel(mechanism="Gaussian", scale=4.0, epsilon=0.5).max("direction").squeeze("cell")
    x, y = curves(axes)["scale 4"].get_data()
    assert x.tolist() == [1, 4, 16]
    assert np.array_equal(y, np.exp(stored.log_delta_upper.values))
    assert axes.get_xlabel() == "r, rounds"
    assert axes.get_title(loc="left") == "Gaussian, ε = 0.5"
    assert notes(axes)[-1] == "lines between points guide the eye and are no bounds"


def test_delta_between_stored_epsilon_is_what_the_study_proves(study):
    with pytest.warns(pbdist.PrecisionWarning):
        found = study.delta("Gaussian", scale=4.0, compositions=[1, 4, 16], epsilon=0.7)
    axes = compositions(study, epsilon=0.7, mechanism="Gaussian", scale=4.0)
    assert np.array_equal(axes.lines[0].get_ydata(), np.exp(found.log_upper))
    with pytest.raises(InvalidInputError, match=r"epsilon: expected one of 0, 0.25, .*or an opened study"):
        compositions(study.bounds, epsilon=0.7, mechanism="Gaussian", scale=4.0)


def test_epsilon_over_r_and_no_upper_bound(study):
    with pytest.warns(pbdist.PrecisionWarning):
        found = study.epsilon("Gaussian", scale=4.0, compositions=[1, 4, 16], delta=1e-5)
    assert np.isinf(found.upper).any()
    axes = compositions(study, delta=1e-5, mechanism="Gaussian", scale=4.0)
    assert axes.get_ylabel() == "ε, in nats"
    y = axes.lines[0].get_ydata()
    assert np.array_equal(np.isnan(y), np.isinf(found.upper))
    assert np.array_equal(y[np.isfinite(y)], found.upper[np.isfinite(found.upper)])
    assert any(line.startswith("no upper bound on ε is known at") for line in notes(axes))
    arrows = axes.lines[-1]
    assert np.array_equal(arrows.get_ydata()[np.isinf(found.upper)], found.lower[np.isinf(found.upper)])


def test_epsilon_bounds_are_drawn_as_they_are():
    bounds = pbdist.epsilon_bounds(pbdist.Gaussian(20.0), compositions=[1, 4, 64], delta=[1e-5, 1e-8])
    axes = compositions(bounds, delta=1e-8)
    assert np.array_equal(axes.lines[0].get_ydata(), bounds.epsilon_upper.sel(delta=1e-8).values)
    assert axes.get_title(loc="left") == "δ = 1e-8"
    with pytest.raises(InvalidInputError, match="delta: expected one of"):
        compositions(bounds, delta=1e-6)


def test_a_missing_r_is_a_gap(study):
    bounds = study.bounds.sel(mechanism="Gaussian", scale=4.0).load()
    for name in ("log_delta_lower", "log_delta_upper"):
        bounds[name].loc[{"compositions": 4}] = np.nan
    axes = compositions(bounds, epsilon=0.5)
    assert np.isnan(axes.lines[0].get_ydata()).tolist() == [False, True, False]
    assert notes(axes)[0] == "1 of 3 points is not computed"


def test_no_lower_bound_has_no_bar(finished_store):
    axes = compositions(pbdist.open_study(finished_store(PLAN)), epsilon=0.5, mechanism="unknown")
    bars = [one for one in axes.collections[0].get_segments() if one.size and np.isfinite(one).all()]
    assert bars == []
    assert any("no lower bound is known" in line for line in notes(axes))


def test_one_quantity_at_a_time(study):
    with pytest.raises(InvalidInputError, match="delta: give only one of"):
        compositions(study, delta=1e-5, epsilon=0.5)
    with pytest.raises(InvalidInputError, match="delta: expected a number between 0 and 1"):
        compositions(study, delta=0.0)
    with pytest.raises(InvalidInputError, match="exp_epsilon: expected a number of at least 1"):
        compositions(study, exp_epsilon=0.5)
