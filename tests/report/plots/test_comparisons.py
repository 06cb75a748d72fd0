"""Mechanisms compared over ε and over noise; the width of brackets over r."""

import numpy as np
import pytest

import pbdist
from pbdist.errors import InvalidInputError, OffGridError
from pbdist.report.plots import brackets, compare
from pbdist.results import log_relative_width
from tests.report.plots.pictures import BRACKETED, LN10, PLAN, curves, notes


def test_one_r_for_all(study):
    axes = compare(study)
    assert axes.get_title(loc="left") == "r = 16"
    assert list(curves(axes)) == [
        *(f"Gaussian, scale {scale}" for scale in (2, 4, 8, 16)),
        "RandomizedResponse, p = 0.6",
    ]


def test_over_noise(study):
    axes = compare(study, over="noise", mechanism="Gaussian", compositions=4, epsilon=0.5)
    stored = study.bounds.sel(mechanism="Gaussian", compositions=4, epsilon=0.5).max("direction")
    x, y = axes.lines[0].get_data()
    assert x.tolist() == stored.scale.values.tolist()
    assert np.array_equal(y, stored.log_delta_upper.values / LN10)
    assert axes.get_xlabel() == "scale of the noise, in counts"
    with pytest.raises(InvalidInputError, match="one kind of amount"):
        compare(study, over="noise", compositions=4)
    with pytest.raises(InvalidInputError, match="over: expected 'epsilon' or 'noise'"):
        compare(study, over="r")


def test_several_stores_are_told_by_their_names(study, finished_store):
    other = pbdist.open_study(finished_store(BRACKETED))
    axes = compare({"one": study, "two": other.bounds}, compositions=4)
    assert {label.split(",")[0] for label in curves(axes)} == {"one", "two"}


def test_widths_are_upper_by_lower_less_one(finished_store):
    study = pbdist.open_study(finished_store(BRACKETED))
    epsilon = study.spec.epsilon[0]
    axes = brackets(study, epsilon=epsilon, mechanism="Laplace")
    stored = study.bounds.sel(mechanism="Laplace", scale=3.0, epsilon=epsilon).max("direction").squeeze("cell")
    width = log_relative_width(stored.log_delta_lower.values, stored.log_delta_upper.values)
    y = curves(axes)["scale 3"].get_ydata()
    assert np.allclose(y[width > 0.0], np.log10(width[width > 0.0]), rtol=1e-15)
    assert np.isnan(y[width == 0.0]).all()
    assert curves(axes)["tolerance 0.01"].get_ydata()[0] == pytest.approx(-2.0)
    assert axes.get_ylabel() == "upper / lower - 1, a ratio"
    widest = brackets(study, mechanism="Laplace")
    assert "the widest of all ε with δ > 1e-40" in widest.get_title(loc="left")
    both = curves(widest)["scale 3"].get_ydata()
    assert np.all(np.nan_to_num(both, nan=-99.0) >= np.nan_to_num(y, nan=-99.0))


def test_without_a_lower_bound_there_is_no_bracket(finished_store):
    study = pbdist.open_study(finished_store(PLAN))
    with pytest.raises(OffGridError, match="no lower bound is known"):
        brackets(study, mechanism="unknown")
    assert any(line.startswith("unknown") for line in notes(brackets(study)))
