"""Tilted leaves: each weight is on its side of the mass that it stands for, whatever the tilt."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest

from pbdist.mechanisms import ElementaryPair, Gaussian, Histogram, Laplace, SubsampledGaussian
from pbdist.pld.few_frequencies import tilted_leaf
from pbdist.pld.lattice import Dominating
from pbdist.pld.leaf import Lattice, leaf_state
from pbdist.pld.state import Masses, PairState
from pbdist.types import Direction

LATTICES = [
    Lattice(0.05, 1, (-60, 90), -60, 90),
    Lattice(0.01, 8, (-40, 80), -400, 480),
    Lattice(0.013, 4, (0, 0), -60, 100),
    Lattice(0.5, 16, (-16, 32), -32, 64),
]
PAIRS = [
    Gaussian(1.0),
    Laplace(0.7),
    SubsampledGaussian(1.0, 0.1),
    Histogram([4, 2, 1], [1, 2, 4]),
    Histogram([5, 3, 0, 1], [3, 5, 1, 0]),
]


def state_of(pair: ElementaryPair, lattice: Lattice) -> PairState:
    return leaf_state(pair.scaled_loss_masses(lattice.edges), lattice, tuple(Direction))


@pytest.mark.slow
@pytest.mark.parametrize("tilt", [0.0, pytest.param(0.37, marks=pytest.mark.nightly), 12.0, 300.0])
@pytest.mark.parametrize("lattice", LATTICES, ids=str)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_weights_are_on_their_sides(pair: ElementaryPair, lattice: Lattice, tilt: float) -> None:
    state = state_of(pair, lattice)
    compared = 0
    for direction in Direction:
        leaf = tilted_leaf(state, direction, tilt, exact=True)
        if leaf is None:
            continue
        assert np.all(leaf.totals == pytest.approx(1.0, abs=1e-9))
        dominating = [part for part in leaf.parts if part.rows == slice(0, 1)]
        events = [part for part in leaf.parts if part.rows == slice(1, 3)]
        rows = [row if direction is Direction.A_TO_B else row.swapped() for row in state.dominating.rows]
        rows = [row for row in rows if row.u.any()]
        named = [row for row in state.exact[direction].rows if row.own.any() or row.other.any()]
        with mpmath.workdps(50):
            # What underflows beside weights of sum 1 is less than the rounding of any sum.
            least = mpmath.mpf(2) ** -1000
            upper, own, other = (
                mpmath.exp(mpmath.mpf(float(leaf.log_scale[row])) + side * mpmath.mpf(float(leaf.log_scale_error[row])))
                for row, side in ((0, 1), (1, -1), (2, 1))
            )
            for part, row in zip(dominating, rows, strict=True):
                for place, u, weight in zip(part.positions, row.u.tolist(), part.weights[0].tolist(), strict=True):
                    loss = mpmath.mpf(leaf.spacing) * (leaf.first + round(place))
                    wanted = mpmath.mpf(u) * mpmath.exp((mpmath.mpf(tilt) + 0.5) * loss)
                    assert upper * (mpmath.mpf(weight) + least) >= wanted
                    assert weight < 1e-290 or u < 1e-299 or upper * weight <= wanted * (1 + mpmath.mpf(10) ** -9)
                    compared += 1
            for part, row in zip(events, named, strict=True):
                for k, place in enumerate(part.positions):
                    # The event's name, near the one that it had.
                    name = mpmath.mpf(leaf.spacing) * (leaf.first + round(place) + mpmath.mpf(leaf.halves[1]) / 2)
                    label = mpmath.mpf(row.spacing) * (row.first + k) + mpmath.mpf(row.label)
                    assert abs(name - label) <= leaf.spacing
                    a = mpmath.mpf(float(row.own[k])) * mpmath.exp(label / 2)
                    b = mpmath.mpf(float(row.other[k])) * mpmath.exp(-label / 2)
                    weight_a, weight_b = (mpmath.mpf(float(each)) for each in part.weights[:, k])
                    assert own * (weight_a - least) <= a * mpmath.exp(tilt * name)
                    assert other * (weight_b + least) >= b * mpmath.exp((tilt + 1) * name)
                    compared += 1
    # Steep tilts leave nothing but what is no full float.
    assert compared > 5 or tilt > 100.0


def test_without_exact_masses_there_is_one_row() -> None:
    leaf = tilted_leaf(state_of(Laplace(1.0), LATTICES[1]), Direction.A_TO_B, 0.5, exact=False)
    assert leaf is not None
    assert len(leaf.halves) == leaf.log_scale.size == leaf.totals.size == 1


def test_masses_of_the_rows_are_those_of_the_directions() -> None:
    """Without a tilt the sums are P_A's and P_B's of the first, and of the second input."""
    state = state_of(SubsampledGaussian(1.0, 0.3), Lattice(0.01, 1, (-400, 800), -400, 800))
    for direction in Direction:
        leaf = tilted_leaf(state, direction, 0.0, exact=True)
        assert leaf is not None
        sums = leaf.totals * np.exp(leaf.log_scale)
        assert sums[0] >= 1.0 - 1e-3
        assert sums[1] <= 1.0 + 1e-12


def test_next_to_nothing_counts_from_above_and_is_none_from_below() -> None:
    state = state_of(Gaussian(1.0), LATTICES[0])
    core = state.dominating.core
    faint = Dominating(core.spacing, core.first, np.where(np.arange(core.size) == 3, 1e-310, core.u))
    changed = replace(state, dominating=Masses((faint,), state.dominating.infinite))
    events = state.exact[Direction.A_TO_B].core
    own = np.where(np.arange(events.size) == 5, 1e-295, events.own)
    exact = {Direction.A_TO_B: Masses((replace(events, own=own),), (0.0, 0.0))}
    leaf = tilted_leaf(replace(changed, exact=exact), Direction.A_TO_B, 0.5, exact=True)
    assert leaf is not None
    upper, exact_masses = leaf.parts
    assert upper.weights[0, 3] * np.exp(leaf.log_scale[0] - core.losses[3]) >= 1e-301
    assert np.flatnonzero(exact_masses.weights[0] == 0.0).tolist() == [5]
    assert exact_masses.weights[1, 5] > 0.0


def test_rows_without_any_mass_are_declined() -> None:
    state = state_of(Gaussian(1.0), LATTICES[0])
    core = state.dominating.core
    nothing = Masses((Dominating(core.spacing, core.first, np.zeros(core.size)),), (1.0, 1.0))
    assert tilted_leaf(replace(state, dominating=nothing), Direction.A_TO_B, 0.5, exact=False) is None
    events = state.exact[Direction.A_TO_B].core
    empty = {Direction.A_TO_B: Masses((replace(events, own=np.zeros(events.size)),), (0.0, 0.0))}
    assert tilted_leaf(replace(state, exact=empty), Direction.A_TO_B, 0.5, exact=True) is None
