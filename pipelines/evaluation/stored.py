"""Certified bounds from the stores of the figures, and what earlier work says there."""

import math
import warnings
from functools import cache
from pathlib import Path

import numpy as np

from pbdist import PrecisionWarning, open_study
from pbdist.mechanisms import Pair
from pbdist.query import Study
from pipelines.evaluation.claim import Interval
from pipelines.figures.figure import Curve, Figure, Panel, Points
from pipelines.figures.paper import FIGURES

__all__ = ["READINGS", "Stored"]

#: The readings of noise on a count.
READINGS = ("clamp-and-ceil", "redraw-and-floor", "shift-inside")


class Stored:
    """The figures, by name, and the bounds in their stores, which are in the folder `stores`."""

    #: The names of all figures, in order.
    names = tuple(FIGURES)

    def __init__(self, stores: Path) -> None:
        self.folder = stores

    def figure(self, name: str) -> Figure:
        """Return a figure by its name."""
        return FIGURES[name]

    @cache  # noqa: B019 -- one object for a run
    def study(self, name: str) -> Study:
        """Return the opened study of a figure or of a pipeline."""
        return open_study(self.folder / f"{name}.zarr")

    @cache  # noqa: B019
    def points(self, name: str, label: str, panel: str = "") -> tuple[Points, ...]:
        """Return the points of a curve by its label, of both its distributions where those are drawn."""
        figure = self.figure(name)
        found, curve = self.curve(name, label, panel)
        return tuple(figure.points_of(found, curve, None if figure.study is None else self.study(name)))

    def _pair(self, name: str, label: str, panel: str) -> tuple[Panel, Pair]:
        """Return the pair of a curve, and its panel."""
        found, curve = self.curve(name, label, panel)
        if curve.pair is None:
            raise KeyError(f"{name}: {label!r} has no mechanism")
        return found, curve.pair

    def curve(self, name: str, label: str, panel: str = "") -> tuple[Panel, Curve]:
        """Return a curve by its label, of the panel with that title."""
        for one in self.figure(name).panels:
            for curve in one.curves:
                if one.title == panel and curve.label == label:
                    return one, curve
        raise KeyError(f"{name}: no curve {label!r} in panel {panel!r}")

    def delta(self, name: str, label: str, exp_epsilon: float, panel: str = "") -> Interval:
        """Return certified bounds on δ of a curve of δ over e^ε, at any e^ε."""
        found, pair = self._pair(name, label, panel)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrecisionWarning)
            # A stored ε is found by its own value.
            bounds = self.study(name).delta(pair, compositions=found.compositions, epsilon=math.log(exp_epsilon))
        return Interval(float(bounds.lower), float(bounds.upper))

    def delta_at_promise(self, name: str, label: str, promise: str, panel: str = "") -> tuple[Interval, float, float]:
        """Return certified bounds on δ at the ε of a promise, and the promise's e^ε and δ."""
        found, pair = self._pair(name, label, panel)
        _, promised = self.curve(name, promise, panel)
        if promised.promise is None:
            raise KeyError(f"{name}: {promise!r} is no promise")
        epsilon, delta = promised.promise.after(found.compositions)
        bounds = self.study(name).delta(pair, compositions=found.compositions, epsilon=epsilon)
        return Interval(float(bounds.lower), float(bounds.upper)), math.exp(epsilon), delta

    def line(self, name: str, label: str, panel: str = "") -> Points:
        """Return the points of one curve."""
        [points] = self.points(name, label, panel)
        return points

    def ratio(
        self, name: str, other: str, ours: str = "certified bounds", floor: float = 1e-9, panel: str = ""
    ) -> tuple[Interval, Interval]:
        """Return bounds on the least and on the largest ratio of a curve to the truth, where both are above the floor.

        The first lies between theirs / our upper and theirs / our lower bound, and so does the second. Points at which
        a theorem says nothing (δ = 1, or no ε) are left out.
        """
        mine, theirs = self.line(name, ours, panel), self.line(name, other, panel)
        known = np.isfinite(theirs.upper) & np.isfinite(mine.upper) & (mine.upper > floor) & (mine.lower > 0.0)
        if self._is_delta(name):
            known &= theirs.upper < 1.0
        low, high = theirs.upper[known] / mine.upper[known], theirs.upper[known] / mine.lower[known]
        least = Interval(float(low.min()), float(high.min()))
        return least, Interval(float(low.max()), float(high.max()))

    def _is_delta(self, name: str) -> bool:
        return self.figure(name).shows == "delta"
