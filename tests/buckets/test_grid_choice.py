"""The choice of a loss width: what is left out of the search changes nothing."""

import numpy as np
import pytest

from pbdist.buckets import grid_choice
from pbdist.buckets.grid_choice import choose_loss_width
from pbdist.mechanisms import (
    ApproximateDP,
    Gaussian,
    Histogram,
    Laplace,
    NoisyCount,
    Pair,
    Poisson,
    RandomizedResponse,
    SubsampledGaussian,
)

COMPONENTS: list[list[tuple[Pair, int]]] = [
    [(Gaussian(3.0), 1)],
    [(Laplace(2.0), 1)],
    [(Laplace(2.0, truncate=(-10.0, 11.0)), 2)],
    [(SubsampledGaussian(0.7, 0.14), 1)],
    [(SubsampledGaussian(1.0, 0.01), 2), (Laplace(20.0), 1)],
    [(NoisyCount(Gaussian(20.0), 100.0, 2), 1)],
    [(Poisson(30.0), 1)],
    [(RandomizedResponse(0.7), 3)],
    [(ApproximateDP(0.5, 1e-5), 1)],
    [(Histogram((5, 3, 2, 1), (1, 3, 4, 2)), 1)],
    [(RandomizedResponse(0.5), 1)],
]


@pytest.mark.slow
@pytest.mark.parametrize("components", COMPONENTS, ids=repr)
@pytest.mark.parametrize(
    ("rounds", "half_width"),
    [
        (1, 30),
        (37, 400),
        *(pytest.param(*many, marks=pytest.mark.nightly) for many in ((1, 5000), (5000, 60), (100_000, 20_000))),
    ],
)
def test_what_is_not_looked_at_is_not_the_best(
    components: list[tuple[Pair, int]], rounds: int, half_width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = choose_loss_width(components, rounds, half_width)
    monkeypatch.setattr(grid_choice, "_ROUNDED_DOWN", 0.0)
    monkeypatch.setattr(grid_choice, "_different", lambda sides: sides)
    assert choose_loss_width(components, rounds, half_width) == found


def test_little_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    growth = grid_choice._growth

    def counted(*arguments: object) -> object:
        looks.append(arguments)
        return growth(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(grid_choice, "_growth", counted)
    for pair in (Laplace(2.0), Laplace(2.0, truncate=(-10.0, 11.0)), RandomizedResponse(0.7)):
        choose_loss_width([(pair, 1)], 64, 400)
        # Most of the mass has the largest loss: there is one range.
        assert len(looks) <= 2
        looks.clear()


def test_a_pair_whose_directions_differ_is_looked_at_from_both() -> None:
    pair = Histogram((9, 1), (2, 8))
    sides = [[grid_choice._profile(pair, 1, direction)] for direction in grid_choice.Direction]
    assert grid_choice._different(sides) == sides
    assert np.isfinite(choose_loss_width([(pair, 1)], 10, 100))
