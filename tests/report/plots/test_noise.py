"""Noise against δ at a target: each setting at the bound that its verdict rests on, in words too."""

import math

import numpy as np
import pytest

import pbdist
from pbdist.errors import InvalidInputError
from pbdist.query.noise_choice import NoiseChoice, TabulatedNoise, noise_choices
from pbdist.report.plots import noise
from pbdist.report.plots.noise import draw_choices
from pbdist.report.sheet import new_sheet
from pbdist.results import Verdict
from tests.batches import damage_batch
from tests.report.plots.pictures import GAUSSIAN, PLAN, curves, notes

TARGET = {"compositions": 4, "epsilon": 1.0, "delta": 1e-5}


def test_verdicts_are_drawn_as_judged(study):
    axes = noise(study, mechanism="Gaussian", **TARGET)
    (choice,) = noise_choices(study, mechanism="Gaussian", **TARGET)
    drawn = curves(axes)
    for verdict, label, marker, side in (
        (Verdict.MEETS, "meets the target (upper bound)", "o", "upper"),
        (Verdict.REFUTED, "refuted (lower bound)", "x", "lower"),
    ):
        mine = [one for one in choice.tried if one.verdict is verdict]
        assert mine
        assert drawn[label].get_marker() == marker
        assert drawn[label].get_xdata().tolist() == [one.amount for one in mine]
        assert np.allclose(drawn[label].get_ydata(), [getattr(one, side) for one in mine], rtol=1e-15)
    assert len({drawn[label].get_color() for label in drawn if "bound" in label}) == 2
    assert drawn["target: δ = 1e-5"].get_ydata()[0] == 1e-5
    ring = drawn["least noise that meets it"]
    assert ring.get_xdata() == [choice.smallest.amount]
    assert notes(axes)[0].startswith(
        f"{choice.smallest.amount:g} is the least tabulated noise proved to meet the target"
    )
    assert axes.get_xlabel() == "scale of the noise, in counts"


def test_nothing_is_cut_by_the_frame_and_ticks_have_one_form():
    tried = (
        TabulatedNoise(0, "", 8000.0, 1e-5, 1e-5, Verdict.MEETS),
        TabulatedNoise(1, "", 20000.0, 1e-37, 1e-37, Verdict.MEETS),
    )
    axes = draw_choices([NoiseChoice("Laplace", "mean", {}, tried)], new_sheet(8, 4).subplots(), delta=1e-4, at="r = 1")
    low, high = np.log10(axes.get_ylim())
    room = 0.03 * (high - low)
    assert low + room < -37 < -4 < high - room
    axes.figure.canvas.draw()
    assert "20,000" in [one.get_text() for one in axes.get_xticklabels()]
    assert notes(axes)[0] == "8000 is the least tabulated noise proved to meet the target; less noise is not stored"


def test_noise_is_told_exactly_and_a_shortened_target_says_so():
    # Rounded, the noise would be less than what is proved.
    amount, delta = 3.1415924, 1.2345643e-5
    tried = (TabulatedNoise(0, "", amount, 0.0, 1e-6, Verdict.MEETS),)
    choice = NoiseChoice("Laplace", "scale", {}, tried)
    axes = draw_choices([choice], new_sheet(8, 4).subplots(), delta=delta, at="r = 1")
    assert notes(axes)[0].startswith(f"{amount!r} is the least tabulated noise proved to meet the target")
    assert "target: δ ≈ 1.235e-5" in curves(axes)


def test_undecided_and_missing_settings_are_told_apart():
    tried = (
        TabulatedNoise(0, "", 1.0, 1e-3, 2e-3, Verdict.REFUTED),
        TabulatedNoise(1, "", 2.0, 1e-6, 1e-4, Verdict.UNDECIDED),
        TabulatedNoise(2, "", 3.0, math.nan, math.nan, Verdict.MISSING),
        TabulatedNoise(3, "", 4.0, 1e-8, 2e-8, Verdict.MEETS),
    )
    choice = NoiseChoice("counts", "scale of the noise, in counts", {}, tried)
    axes = draw_choices([choice], new_sheet(6.0, 4.0).subplots(), delta=1e-5, at="r = 1")
    undecided = curves(axes)["undecided (upper bound)"]
    assert (undecided.get_marker(), undecided.get_markerfacecolor()) == ("D", "white")
    assert undecided.get_ydata() == pytest.approx([1e-4])
    assert 3.0 not in [x for line in axes.lines if line.get_linestyle() == "None" for x in line.get_xdata()]
    assert "1 of 4 points is not computed" in notes(axes)
    bars = np.concatenate([one for bar in axes.collections for one in bar.get_segments() if len(one) == 2])
    assert np.isclose(bars.reshape(-1, 2), [2.0, 1e-6], atol=0.0).all(axis=1).any()


def test_a_damaged_setting_is_left_out_and_told(store_copy):
    store = store_copy(GAUSSIAN)
    opened = pbdist.open_study(store)
    damage_batch(store, 1)
    gaps = opened.gaps(range(5))
    assert gaps == {1: "damaged"}
    axes = noise(pbdist.open_study(store), mechanism="Gaussian", **TARGET)
    assert "1 of 4 points is missing: damaged files" in notes(axes)
    assert 4.0 not in [x for label, line in curves(axes).items() if "bound" in label for x in line.get_xdata()]


def test_a_target_that_is_not_given_is_chosen_and_told(study):
    axes = noise(study, mechanism="Gaussian")
    assert axes.get_title(loc="left") == "Gaussian, r = 16, ε = 0.5"
    assert any(label.startswith("target: δ = ") for label in curves(axes))


@pytest.mark.slow
def test_no_lower_bound_and_nothing_that_does(finished_store):
    plans = PLAN.replace("epsilon: 0.5, delta: 0}", "epsilon: [0.25, 0.5], delta: 0}")
    study = pbdist.open_study(finished_store(plans))
    axes = noise(study, mechanism="Laplace", compositions=4, epsilon=0.5, delta=1e-9)
    assert notes(axes) == ["no tabulated setting is proved to meet the target"]


def test_what_cannot_be_compared_is_refused(study):
    with pytest.raises(
        InvalidInputError,
        match=r"one kind of amount, got .*counts\); .* \(probability of a lie\): choose one label",
    ):
        noise(study, **TARGET)
    with pytest.raises(InvalidInputError, match="delta: expected a number between 0 and 1, got 0"):
        noise(study, mechanism="Gaussian", delta=0)
    with pytest.raises(InvalidInputError, match="study: expected an opened study"):
        noise(study.bounds, **TARGET)
    with pytest.raises(InvalidInputError, match=r"rate: expected one of none, got 0\.5"):
        noise(study, mechanism="Gaussian", rate=0.5, **TARGET)


def test_a_delta_of_0_stands_on_the_lower_edge_and_is_told():
    tried = (
        TabulatedNoise(0, "a", 1.0, 0.3, 0.4, Verdict.REFUTED),
        TabulatedNoise(1, "b", 2.0, 0.0, 0.0, Verdict.MEETS),
        TabulatedNoise(2, "c", 3.0, 0.0, 0.0, Verdict.MEETS),
    )
    choice = NoiseChoice("Laplace", "scale of the noise, in counts", {}, tried)
    axes = draw_choices([choice], new_sheet(6.0, 4.0).subplots(), delta=1e-5, at="r = 1")
    meets, ring = (curves(axes)[label] for label in ("meets the target (upper bound)", "least noise that meets it"))
    assert meets.get_xdata().tolist() == [2.0, 3.0]
    assert ring.get_xdata().tolist() == [2.0]
    for line in (meets, ring):
        assert set(line.get_ydata()) == {axes.get_ylim()[0]}
    assert axes.get_xlim()[1] >= 3.0
    assert "2 of 3 settings have a smaller δ, and are drawn on the lower edge" in " ".join(notes(axes))
