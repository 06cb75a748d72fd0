"""A study file with grids of every kind of mechanism, and its cells made one by one."""

from itertools import product
from pathlib import Path

from pbdist.mechanisms import (
    ApproximateDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Histogram,
    KaryRandomizedResponse,
    Laplace,
    LaplaceSum,
    NoisyCount,
    Pair,
    Poisson,
    Product,
    RandomizedResponse,
    Reversed,
    Staircase,
    SubsampledGaussian,
)
from pbdist.study import Cell, StudySpec, load_study
from tests.studies import write_study

__all__ = ["EVERY_KIND", "cells_of_every_kind", "every_kind"]

EVERY_KIND = """\
format: 1
name: every
mechanisms:
  - {kind: Laplace, scale: [2, 3.5], sensitivity: [1, 2, 4], truncate: [null, [-9, 9], [-8, 12]], label: "50 %"}
  - {kind: Gaussian, scale: {geomspace: [1, 4, 3]}, sensitivity: [0.5, 2]}
  - {kind: RandomizedResponse, p: {linspace: [0.1, 1, 10]}}
  - {kind: KaryRandomizedResponse, p: [0.25, 0.5], k: [3, 4, 1000]}
  - {kind: BoundedRange, eta: [0.1, 0.5]}
  - {kind: SubsampledGaussian, scale: [4, 5], rate: [1e-2, 2e-3, 1], sensitivity: 2}
  - {kind: ApproximateDP, epsilon: [0, 0.5], delta: [0, 1e-5, 1e-6]}
  - {kind: LaplaceSum, scales: [[1, 2], [3, 2]], sensitivity: [1, 2]}
  - {kind: Histogram, p: [1, 3, 0], q: [2, 1, 1]}
  - kind: NoisyCount
    shift: [1, 2]
    reading: [shift-inside, clamp-and-ceil]
    settings:
      - {mean: [80, 81.5, 500], noise: {kind: Laplace, scale: [5, 6]}}
      - {mean: 60, noise: {kind: Gaussian, scale: 11}}
      - {mean: [-2, 60], noise: {kind: Gaussian, scale: [3, 400]}}
      - {mean: [3, 60], noise: {kind: DiscreteLaplace, scale: [3, 4]}}
      - {mean: 8, noise: {kind: DiscreteGaussian, scale: 2}}
  - {kind: Poisson, mean: [25e3, 5e4], sensitivity: [1, 3]}
  - {kind: DiscreteLaplace, scale: [20, 21], sensitivity: [1, 2]}
  - {kind: DiscreteGaussian, scale: [20.5, 9], sensitivity: [2, 1]}
  - {kind: Staircase, epsilon: [0.5, 1], sensitivity: [1, 3]}
  - {kind: Staircase, label: given split, epsilon: [0.5, 1], split: [0.25, 0.5]}
  - {kind: Product, pairs: [{kind: Laplace, scale: [7, 8]}, {kind: RandomizedResponse, p: [0.6, 0.7]},
     {kind: Reversed, pair: {kind: Poisson, mean: 8}}]}
  - {kind: Reversed, pair: {kind: Poisson, mean: [8, 9]}}
  - {kind: Laplace, label: one, scale: 2}
compositions: [1, 2]
epsilon: [0, 0.5]
method: buckets
buckets: 10
factors: [auto, 1.5]
"""


def every_kind(folder: Path) -> StudySpec:
    """Return the study."""
    return load_study(write_study(folder, EVERY_KIND))


def cells_of_every_kind() -> tuple[Cell, ...]:
    """Return its cells, in the order that docs/studies.md promises."""
    found: list[tuple[str, Pair]] = []

    def add(label: str, *pairs: Pair) -> None:
        found.extend((label, pair) for pair in pairs)

    cuts = (None, (-9, 9), (-8, 12))
    add("50 %", *(Laplace(*values) for values in product((2, 3.5), (1, 2, 4), cuts)))
    add("Gaussian", *(Gaussian(*values) for values in product((1, 2, 4), (0.5, 2))))
    add("RandomizedResponse", *(RandomizedResponse(tenth / 10) for tenth in range(1, 11)))
    add("KaryRandomizedResponse", *(KaryRandomizedResponse(*v) for v in product((0.25, 0.5), (3, 4, 1000))))
    add("BoundedRange", BoundedRange(0.1), BoundedRange(0.5))
    add("SubsampledGaussian", *(SubsampledGaussian(*values, 2) for values in product((4, 5), (1e-2, 2e-3, 1))))
    add("ApproximateDP", *(ApproximateDP(*values) for values in product((0, 0.5), (0, 1e-5, 1e-6))))
    add("LaplaceSum", *(LaplaceSum(*values) for values in product(((1, 2), (3, 2)), (1, 2))))
    add("Histogram", Histogram([1, 3, 0], [2, 1, 1]))
    for noises, means in (
        ((Laplace(5), Laplace(6)), (80, 81.5, 500)),
        ((Gaussian(11),), (60,)),
        ((Gaussian(3), Gaussian(400)), (-2, 60)),
        ((DiscreteLaplace(3), DiscreteLaplace(4)), (3, 60)),
        ((DiscreteGaussian(2),), (8,)),
    ):
        readings = ("shift-inside", "clamp-and-ceil")
        add("NoisyCount", *(NoisyCount(*values) for values in product(noises, means, (1, 2), readings)))
    add("Poisson", *(Poisson(*values) for values in product((25e3, 5e4), (1, 3))))
    add("DiscreteLaplace", *(DiscreteLaplace(*values) for values in product((20, 21), (1, 2))))
    add("DiscreteGaussian", *(DiscreteGaussian(*values) for values in product((20.5, 9), (2, 1))))
    add("Staircase", *(Staircase(*values) for values in product((0.5, 1), (1, 3))))
    add("given split", *(Staircase(epsilon, split=split) for epsilon, split in product((0.5, 1), (0.25, 0.5))))
    for scale, p in product((7, 8), (0.6, 0.7)):
        add("Product", Product(Laplace(scale), RandomizedResponse(p), Reversed(Poisson(8))))
    add("Reversed", *(Reversed(Poisson(mean)) for mean in (8, 9)))
    add("one", Laplace(2))
    return tuple(Cell(label, pair, factor) for label, pair in found for factor in (None, 1.5))
