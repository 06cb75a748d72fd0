"""Mechanisms of every kind in a study: found by their parameters, between stored ones, and verified."""

import math
from typing import Any

import pytest

from pbdist import (
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    KaryRandomizedResponse,
    LaplaceSum,
    NoisyCount,
    PrecisionWarning,
    Staircase,
    open_study,
    privacy_bounds,
)
from pbdist.cli import main
from pbdist.mechanisms import Pair
from tests.studies import Finished

STUDY = """\
format: 1
name: kinds
mechanisms:
  - {kind: LaplaceSum, scales: [[10, 20], [4, 4]], sensitivity: [1, 3]}
  - {label: one, kind: LaplaceSum, scales: [7, 2]}
  - {kind: KaryRandomizedResponse, p: [0.5, 0.6], k: [3, 4]}
  - {kind: BoundedRange, eta: [0.1, 0.2]}
  - {kind: Staircase, epsilon: [0.5, 1]}
  - {label: wide, kind: Staircase, epsilon: 1, split: 0.45, sensitivity: 2}
  - {kind: NoisyCount, noise: {kind: DiscreteLaplace, scale: [0.5, 1]}, mean: [3, 5], shift: 1}
  - label: gauss
    kind: NoisyCount
    noise: {kind: DiscreteGaussian, scale: 1}
    mean: 3
    shift: 1
    reading: redraw-and-floor
compositions: [1, 8]
epsilon: [0, 0.5]
"""
#: Cells in their order, and the noise that the store names.
CELLS: list[tuple[Pair, str]] = [
    *((LaplaceSum(scales, s), "LaplaceSum") for scales in ((20.0, 10.0), (4.0, 4.0)) for s in (1.0, 3.0)),
    (LaplaceSum((7.0, 2.0)), "LaplaceSum"),
    *((KaryRandomizedResponse(p, k), "") for p in (0.5, 0.6) for k in (3, 4)),
    *((BoundedRange(eta), "") for eta in (0.1, 0.2)),
    *((Staircase(epsilon), "Staircase") for epsilon in (0.5, 1.0)),
    (Staircase(1.0, 2.0, 0.45), "Staircase"),
    *((NoisyCount(DiscreteLaplace(b), mean, 1), "DiscreteLaplace") for b in (0.5, 1.0) for mean in (3, 5)),
    (NoisyCount(DiscreteGaussian(1.0), 3, 1, "redraw-and-floor"), "DiscreteGaussian"),
]


@pytest.mark.slow
def test_cells_are_the_mechanisms(finished_store: Finished) -> None:
    study = open_study(finished_store(STUDY))
    assert [cell.pair for cell in study.spec.cells] == [pair for pair, _ in CELLS]
    assert study.bounds.noise.values.tolist() == [noise for _, noise in CELLS]
    assert study.bounds.scale.values.tolist()[:5] == [20.0, 20.0, 4.0, 4.0, 7.0]


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
@pytest.mark.parametrize(
    ("label", "asked", "pair"),
    [
        ("LaplaceSum", {"scale": 20.0, "sensitivity": 3.0}, LaplaceSum((10.0, 20.0), 3.0)),
        ("KaryRandomizedResponse", {"p": 0.5, "k": 4}, KaryRandomizedResponse(0.5, 4)),
        ("Staircase", {"pair_epsilon": 0.5}, Staircase(0.5)),
        ("wide", {"sensitivity": 2.0}, Staircase(1.0, 2.0, 0.45)),
        ("NoisyCount", {"scale": 1.0, "mean": 5.0}, NoisyCount(DiscreteLaplace(1.0), 5, 1)),
        ("BoundedRange", {"eta": 0.2}, BoundedRange(0.2)),
    ],
)
def test_a_cell_is_found_by_its_parameters(
    label: str, asked: dict[str, Any], pair: Pair, finished_store: Finished
) -> None:
    found = open_study(finished_store(STUDY)).delta(label, compositions=8, epsilon=0.5, **asked)
    there = privacy_bounds(pair, compositions=8, epsilon=0.5)
    assert found.upper == pytest.approx(there.delta_upper.item(), rel=2e-3)
    if pair.attained_by_some:
        assert found.lower <= there.delta_upper.item()
        assert there.delta_lower.item() <= found.upper
    else:
        assert math.isnan(found.lower)


@pytest.mark.parametrize("pair", [LaplaceSum((15.0, 10.0), 3.0), KaryRandomizedResponse(0.55, 4)], ids=repr)
def test_a_pair_between_two_stored_ones_is_bounded_by_them(pair: Pair, finished_store: Finished) -> None:
    study = open_study(finished_store(STUDY))
    with pytest.warns(PrecisionWarning):
        between = study.delta(pair, compositions=8, epsilon=0.5)
    there = privacy_bounds(pair, compositions=8, epsilon=0.5)
    assert 0.0 < float(between.lower) <= there.delta_upper.item()
    assert there.delta_lower.item() <= float(between.upper) < 1.0


@pytest.mark.slow(reason="a store of every kind of mechanism is verified")
def test_the_store_is_asked_and_verified(finished_store: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(finished_store(STUDY))
    assert main(["verify", store]) == 0
    capsys.readouterr()
    for label, parameters, words in (
        ("BoundedRange", ["--eta", "0.1"], "not known"),
        ("KaryRandomizedResponse", ["--p", "0.6", "--k", "3"], "one record replaced"),
    ):
        asked = ["query", store, "--mechanism", label, *parameters, "--compositions", "8", "--epsilon", "0"]
        assert main(asked) == 0
        assert words in capsys.readouterr().out
