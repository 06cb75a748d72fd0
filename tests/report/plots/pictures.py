"""Small stores that plots are tried on, and what is read off their artists."""

import numpy as np

#: Gaussian noise in closed form: quick, and δ far below what a float64 holds.
GAUSSIAN = """\
format: 1
name: gaussian
mechanisms:
  - {kind: Gaussian, scale: [2, 4, 8, 16]}
  - {kind: RandomizedResponse, p: 0.6}
compositions: [1, 4, 16]
epsilon: [0, 0.25, 0.5, 1, 2]
"""
#: With brackets that are not closed.
BRACKETED = """\
format: 1
name: bracketed
mechanisms:
  - {kind: Laplace, scale: [2, 3]}
tolerance: 0.01
compositions: [1, 4, 16]
epsilon: [0, 0.5, 1]
"""
#: What plans declare makes a lower bound known, or not.
PLAN = """\
format: 1
name: plans
mechanisms:
  - label: unknown
    kind: ReleasePlan
    granularity: unbounded
    blocks: {partition: [one, two]}
    analyses: [{name: count, reads_each: all, pair: {kind: ApproximateDP, epsilon: 0.5, delta: 0}}]
  - {kind: Laplace, scale: 2}
compositions: [1, 4]
epsilon: [0, 0.5, 1]
"""
KEPT = """\
format: 1
name: kept
mechanisms:
  - {kind: Laplace, scale: 2, truncate: [-10, 10]}
  - {kind: SubsampledGaussian, scale: 1, rate: 0.1}
compositions: [1, 4]
epsilon: [0, 0.5, 1]
keep_states: true
"""


def notes(axes):
    """What is said below a plot."""
    return [line for text in axes.texts if text.get_gid() == "pbdist-notes" for line in text.get_text().split("\n")]


def curves(axes):
    """The labelled lines of a plot."""
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


def at(places, values, wanted):
    """The value at a place that a line has exactly."""
    return values[np.flatnonzero(places == wanted)]
