"""Settings compared by ratios of δ and by the noise that they need."""

import math

import numpy as np
import pytest

import pbdist
from pbdist.errors import InvalidInputError
from pbdist.report.plots import compare, noise
from pbdist.report.plots.compare import needed_noise
from tests.report.plots.pictures import BRACKETED, GAUSSIAN, PLAN, curves, notes


def test_ratios_enclose_those_of_the_true_deltas(study):
    axes = compare(study, mechanism="Gaussian", compositions=4, reference="scale 8")
    assert axes.get_title(loc="left") == "Gaussian, r = 4"
    assert axes.get_ylabel() == "δ / δ of scale 8"
    drawn = curves(axes)
    assert list(drawn) == ["scale 8 (the reference)", "scale 2", "scale 4", "scale 16"]
    bounds = {
        scale: study.bounds.sel(mechanism="Gaussian", scale=scale, compositions=4).max("direction")
        for scale in (4.0, 8.0)
    }
    mine, theirs = (bounds[scale].squeeze("cell") for scale in (4.0, 8.0))
    x, y = drawn["scale 4"].get_data()
    assert x.tolist() == [0.0, 0.25, 0.5, 1.0, 2.0]
    assert np.allclose(y, np.exp(mine.log_delta_upper - theirs.log_delta_lower), rtol=1e-15)
    bars = axes.collections[1].get_segments()
    low = np.exp(mine.log_delta_lower - theirs.log_delta_upper)
    assert np.allclose([bar[:, 1].min() for bar in bars], low, rtol=1e-15)


def test_different_grids_are_compared_at_what_is_proved_between_their_points():
    fine, coarse = np.linspace(0.0, 1.0, 5), [0.0, 1.0]
    sources = {
        "less": pbdist.privacy_bounds(pbdist.Gaussian(4.0), compositions=1, epsilon=fine),
        "more": pbdist.privacy_bounds(pbdist.Gaussian(5.0), compositions=1, epsilon=coarse),
    }
    axes = compare(sources)
    assert list(curves(axes)) == ["less (the reference)", "more"]
    x, high = curves(axes)["more"].get_data()
    assert x.tolist() == fine.tolist()
    truth = [
        pbdist.privacy_bounds(pbdist.Gaussian(scale), compositions=1, epsilon=fine).log_delta_upper.values[0]
        for scale in (5.0, 4.0)
    ]
    ratio = np.exp(truth[0] - truth[1])
    low = np.array([bar[:, 1].min() for bar in axes.collections[0].get_segments()])
    assert np.all(low <= ratio * (1.0 + 1e-12))
    assert np.all(ratio <= high * (1.0 + 1e-12))
    assert np.allclose(high[[0, -1]], ratio[[0, -1]])


def test_an_unknown_reference_and_options_of_the_other_axis_are_refused(study):
    with pytest.raises(InvalidInputError, match=r"reference: expected one of Gaussian, scale 2; .*, got 'Laplace'"):
        compare(study, reference="Laplace")
    with pytest.raises(InvalidInputError, match="epsilon: belongs to over noise, and not to over epsilon"):
        compare(study, epsilon=0.5)
    with pytest.raises(InvalidInputError, match="expected at least two settings to compare, got one"):
        compare(study, mechanism="RandomizedResponse")
    with pytest.raises(InvalidInputError, match="over: expected 'epsilon' or 'noise'"):
        compare(study, over="r")
    with pytest.raises(InvalidInputError, match="one kind of amount"):
        compare(study, over="noise", compositions=4)


def test_without_a_lower_bound_of_the_reference_only_the_least_ratio_is_drawn(finished_store):
    axes = compare(pbdist.open_study(finished_store(PLAN)), compositions=4)
    drawn = next(line for label, line in curves(axes).items() if label.startswith("Laplace"))
    assert np.isnan(drawn.get_ydata()).all()
    assert any("not known" in note for note in notes(axes))
    assert any("no lower bound is known" in note for note in notes(axes))


def test_the_noise_that_is_needed_is_the_least_tabulated_that_meets(study):
    axes = compare(study, over="noise", mechanism="Gaussian", compositions=4, epsilon=0.5)
    assert axes.get_ylabel() == "scale of the noise, in counts"
    x, y = curves(axes)["Gaussian"].get_data()
    stored = study.bounds.sel(mechanism="Gaussian", compositions=4, epsilon=0.5).max("direction")
    uppers = np.sort(stored.log_delta_upper.values)
    for place in np.concatenate((0.5 * (uppers[1:] + uppers[:-1]), [uppers[0] - 0.01])):
        meets = stored.scale.values[stored.log_delta_upper.values <= place]
        needed = y[np.searchsorted(x, np.exp(place), side="right") - 1]
        assert needed == meets.min() if meets.size else math.isnan(needed)


def test_a_target_of_the_study_is_what_both_kinds_of_plots_over_noise_are_about(finished_store):
    targets = "targets:\n  - {epsilon: 0.25, delta: 1.0e-3, compositions: 4}\n"
    study = pbdist.open_study(finished_store(GAUSSIAN + targets))
    for axes in (compare(study, over="noise", mechanism="Gaussian"), noise(study, mechanism="Gaussian")):
        assert axes.get_title(loc="left") == "Gaussian, r = 4, ε = 0.25"


def test_between_what_meets_and_what_is_refuted_nothing_is_said():
    amounts = np.array([1.0, 2.0, 3.0, 4.0])
    low, high = np.array([-1.0, -3.0, -5.0, np.nan]), np.array([-0.9, -2.0, -5.0, np.nan])
    meets, refuted = needed_noise(amounts, low, high, np.array([-6.0, -5.0, -2.5, -2.0, -0.5]))
    assert np.array_equal(meets, [np.nan, 3.0, 3.0, 2.0, 1.0], equal_nan=True)
    assert np.array_equal(refuted, [3.0, 2.0, 1.0, 1.0, np.nan], equal_nan=True)


def test_several_stores_are_told_by_their_names(study, finished_store):
    other = pbdist.open_study(finished_store(BRACKETED))
    axes = compare({"one": study, "two": other.bounds}, compositions=4)
    assert {label.split(",")[0] for label in curves(axes)} == {"one", "two"}
