"""ε over the epochs or steps of a training run: what is drawn are the bounds of the run."""

import re
from fractions import Fraction

import numpy as np

from pbdist.accounting import dpsgd
from pbdist.report.plots import training


def test_the_band_is_that_of_the_bounds_at_each_moment() -> None:
    phases = [{"epochs": 2, "noise_multiplier": 3.0}, {"epochs": 1, "batch": 200, "noise_multiplier": 2.0}]
    run = dpsgd(examples=1000, batch=100, phases=phases, delta=[1e-4, 1e-6])
    axes = training(run, moments=5)
    curve = run.over_time(5)
    assert curve.training.epochs is not None
    for index, line in enumerate(axes.get_lines()[:2]):
        assert np.asarray(line.get_xdata()).tolist() == [0.0, *curve.training.epochs]
        assert np.asarray(line.get_ydata()).tolist() == [0.0, *curve.epsilon.upper[:, index]]
        band = axes.collections[index].get_paths()[0].vertices
        assert set(curve.epsilon.lower[:, index]) <= set(np.asarray(band)[:, 1])
    assert axes.get_xlim()[1] >= 3.0
    title = axes.get_title(loc="left").replace("\n", " ").replace("\u00a0", " ")
    assert "noise multiplier 3, batch 100, then noise multiplier 2, batch 200" in title
    told = " ".join(text.get_text().replace("\n", " ") for text in axes.texts)
    for words in ("between the lower and the upper bound", "a phase ends", "Poisson sampling", "added or removed"):
        assert words in told


def test_a_title_names_a_common_batch_once_and_three_phases_at_most() -> None:
    phases = [{"epochs": 1, "noise_multiplier": float(noise)} for noise in (8, 6, 7, 9, 5)]
    run = dpsgd(examples=1000, batch=100, phases=phases, delta=1e-4)
    axes = training(run, moments=2)
    assert " ".join(axes.get_title(loc="left").split()) == (
        "DP-SGD on 1,000 records, batch 100, noise multiplier 8, then noise multiplier 6, then noise multiplier 7, then"
        " 2 more"
    )
    assert not any(line.endswith("noise") for line in axes.get_title(loc="left").split("\n"))
    (label,) = axes.get_legend_handles_labels()[1]
    number = re.fullmatch(r"δ = 0.0001, ε at most (\S+) after all epochs", label)
    assert number
    assert Fraction(number[1]) >= Fraction(run.epsilon.upper.max())
    assert axes.get_legend().get_texts()[0].get_text() == label


def test_steps_that_were_given_are_drawn_and_the_larger_direction_is_named() -> None:
    run = dpsgd(examples=1000, batch=100, noise_multiplier=4.0, steps=[500, 2000], delta=1e-4, direction="each")
    axes = training(run, moments=2)
    assert axes.get_xlabel() == "steps"
    assert np.asarray(axes.get_lines()[0].get_xdata()).tolist() == [0, 500, 2000]
    assert "after all steps" in axes.get_legend_handles_labels()[1][0]
    said = " ".join(text.get_text() for text in axes.texts)
    assert "the larger one of both directions is drawn" in said
