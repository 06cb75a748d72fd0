"""The privacy loss distribution of a kept state: all of its mass, and both infinities."""

import math

import numpy as np
import pytest

import pbdist
from pbdist.errors import InvalidInputError, OffGridError
from pbdist.report.plots import losses
from pbdist.report.plots.losses import binned, masses_of
from pbdist.store import open_parts, read_state
from pbdist.types import Direction
from tests.report.plots.pictures import GAUSSIAN, KEPT, curves, notes

BUCKETS = KEPT.replace("keep_states: true", "keep_states: true\nmethod: buckets\nbuckets: 2000")
#: What the Laplace distribution of scale 2, cut at ±10, has where the other one, moved by 1, has nothing.
CUT = (math.exp(-4.5) - math.exp(-5.0)) / (2.0 * (1.0 - math.exp(-5.0)))


@pytest.mark.slow
@pytest.mark.parametrize("text", [KEPT, BUCKETS])
def test_both_corners_hold_what_one_input_alone_can_give(finished_store, text):
    study = pbdist.open_study(finished_store(text))
    stored = open_parts(study.where)[0]
    state = read_state(stored, 0, Direction.A_TO_B, 1)
    masses = masses_of(state)
    for corner in (masses.above, masses.below):
        assert corner.lower <= CUT * (1.0 + 1e-12)
        assert CUT * (1.0 - 1e-12) <= corner.upper <= 1.001 * CUT
    assert masses.above.lower >= 0.999 * CUT
    axes = losses(study, mechanism="Laplace", compositions=1)
    high = curves(axes)["A at +∞: impossible under B"]
    low = curves(axes)["B at -∞: impossible under A"]
    assert high.get_ydata()[0] == pytest.approx(math.log10(masses.above.upper))
    assert low.get_ydata()[0] == pytest.approx(math.log10(masses.below.upper))
    edges = axes.patches[0].get_data().edges
    assert low.get_xdata()[0] < edges[0] < edges[-1] < high.get_xdata()[0]
    axes.figure.draw_without_rendering()
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert (labels[0], labels[-1]) == ("-∞", "+∞")
    assert any(line.startswith("at +∞: A has at least") for line in notes(axes))
    assert axes.get_xlabel() == "privacy loss, in nats"


@pytest.mark.parametrize("text", [KEPT, BUCKETS])
def test_bars_hold_all_mass(finished_store, text):
    study = pbdist.open_study(finished_store(text))
    stored = open_parts(study.where)[0]
    for cell in (0, 1):
        masses = masses_of(read_state(stored, cell, Direction.A_TO_B, 4))
        edges, a, b = binned(masses, 0.0)
        assert np.all(np.diff(edges) > 0.0)
        assert a.size <= 400
        assert a.sum() == pytest.approx(masses.a.sum(), rel=1e-12)
        # What is finite and what is infinite is everything.
        assert 1.0 - 1e-9 <= a.sum() + masses.above.upper <= 1.0 + 1e-4
        assert 1.0 - 1e-9 <= b.sum() + masses.below.upper <= 1.02
        # A state is about losses: the heavier side of A is at large ones.
        places = 0.5 * (edges[1:] + edges[:-1])
        assert np.sum(places * a) > np.sum(places * b)


def test_drawn_bars_are_the_sums(finished_store):
    study = pbdist.open_study(finished_store(KEPT))
    axes = losses(study, mechanism="SubsampledGaussian", compositions=4, lowest=1e-12)
    masses = masses_of(read_state(open_parts(study.where)[0], 1, Direction.A_TO_B, 4))
    edges, a, b = binned(masses, 1e-12)
    for patch, values in zip(axes.patches, (a, b), strict=True):
        found = patch.get_data()
        assert np.array_equal(found.edges, edges)
        there = values > 0.0
        assert np.allclose(found.values[there], np.log10(values[there]), rtol=1e-14)
        assert np.all(found.values[~there] == found.baseline)
    assert "losses of a mass below 1e-12 are not drawn" in notes(axes)


def test_without_a_state_it_says_so(finished_store):
    study = pbdist.open_study(finished_store(GAUSSIAN))
    with pytest.raises(OffGridError, match=r"expected a saved state of Gaussian\(scale=2.*keep_states: true"):
        losses(study, mechanism="Gaussian", scale=2.0)
    with pytest.raises(InvalidInputError, match="expected at most 1 settings in one plot, got 4: choose by scale"):
        losses(study, mechanism="Gaussian")
