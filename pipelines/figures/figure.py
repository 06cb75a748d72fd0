"""A figure as a value: its panels and curves, the study that has its bounds, and their points."""

import csv
import io
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import laplace, norm

from pbdist import Gaussian, Laplace, PrecisionWarning, SubsampledGaussian, earlier_bounds
from pbdist.arguments import DEFAULT_FLOOR, DEFAULT_TOLERANCE
from pbdist.bounds.curves import renyi_bounds
from pbdist.buckets.state import BucketState
from pbdist.mechanisms import UNIT_ROUNDOFF, Pair
from pbdist.query import Study
from pbdist.store import read_state
from pbdist.study import Cell, StudySpec
from pbdist.theorems.api import earlier_epsilon
from pbdist.types import Direction, FloatArray
from pipelines.figures.formulas import sampled_gaussian_divergence, state_renyi_bounds, vuvuzela

__all__ = ["Curve", "Figure", "Panel", "Points", "Promise"]

#: Relative slack for values of theorems that are known to nine digits.
_DIGITS = 1e-9


@dataclass(frozen=True)
class Promise:
    """What Vuvuzela's authors promise of Laplace noise on one of their protocols, in messages."""

    protocol: str
    mean: float
    scale: float

    def after(self, rounds: int) -> tuple[float, float]:
        """Return (ε', δ') after that many rounds, as the authors compute them."""
        return vuvuzela(2.0 if self.protocol == "dialing" else 4.0, self.mean, self.scale, rounds)


@dataclass(frozen=True)
class Curve:
    """One curve: certified bounds of a pair, or what a theorem or a promise says."""

    label: str
    #: None of a promise that is compared with nothing.
    pair: Pair | None
    #: A theorem of `pbdist.THEOREMS`, or ``moments-accountant`` of Rényi divergences.
    theorem: str | None = None
    promise: Promise | None = None
    #: The δ of ε, instead of the figure's.
    delta: float | None = None
    #: Whether Rényi divergences are read off the saved states of the study.
    from_states: bool = False

    @property
    def certified(self) -> bool:
        """Whether these are our bounds."""
        return self.theorem is None and self.promise is None


@dataclass(frozen=True)
class Panel:
    """Curves over one pair of axes."""

    title: str
    curves: tuple[Curve, ...]
    #: r of a panel that is not over r.
    compositions: int = 1


@dataclass(frozen=True, eq=False)
class Points:
    """The points of one curve; of earlier work `lower` is not a number, and `upper` its value."""

    panel: Panel
    curve: Curve
    x: FloatArray
    lower: FloatArray
    upper: FloatArray
    log_lower: FloatArray
    log_upper: FloatArray
    #: Which of two distributions; else empty.
    name: str = ""

    @property
    def approximate(self) -> bool:
        """Whether the values are no bounds."""
        return self.curve.theorem == "clt"

    @property
    def label(self) -> str:
        """What the data and the legend call the curve."""
        return f"{self.curve.label}: {self.name}" if self.name else self.curve.label


@dataclass(frozen=True, eq=False)
class Figure:
    """What is drawn, and with which precision it is computed."""

    name: str
    title: str
    caption: str
    source: str
    panels: tuple[Panel, ...]
    #: The points of the horizontal axis.
    values: FloatArray
    #: ``delta``, ``exp_epsilon``, ``renyi`` or ``probability``, over ``exp_epsilon``, ``compositions``, ``order`` or
    #: ``output``.
    shows: str = "delta"
    over: str = "exp_epsilon"
    #: Over r: the δ of ε, or the promise whose ε or δ is taken at each r; the largest e^ε.
    delta: float | None = None
    matching: Promise | None = None
    largest: float = math.inf
    #: e^ε and δ that are wanted; drawn as a region.
    target: tuple[float, float] | None = None
    #: Where the axis of δ ends.
    lowest: float = 1e-40
    tolerance: float = DEFAULT_TOLERANCE
    floor: float = DEFAULT_FLOOR
    #: None for the tight method.
    buckets: int | None = None

    @property
    def over_rounds(self) -> bool:
        """Whether the number of compositions is the axis."""
        return self.over == "compositions"

    @cached_property
    def losses(self) -> FloatArray:
        """The points of an axis of e^ε as ε in nats."""
        return np.array([math.log(x) for x in self.values])

    @cached_property
    def study(self) -> StudySpec | None:
        """The study that has the certified bounds of all panels; None where no curve needs one."""
        needed = [curve for panel in self.panels for curve in panel.curves if curve.certified]
        if self.shows == "probability":
            return None
        cells: dict[Pair, Cell] = {}
        for curve in needed:
            if curve.pair is not None:
                cells.setdefault(curve.pair, Cell(curve.label, curve.pair, None))
        rounds = map(int, self.values) if self.over_rounds else sorted({one.compositions for one in self.panels})
        tight = self.buckets is None
        return StudySpec(
            name=self.name,
            cells=tuple(cells.values()),
            method="tight" if tight else "buckets",
            tolerance=self.tolerance if tight else None,
            buckets=self.buckets,
            compositions=tuple(rounds),
            epsilon=self._grid(),
            # States answer any ε. Of wide counts after many rounds they would take minutes.
            keep_states=self.shows == "renyi" or (self.over_rounds and self.matching is None),
            floor=self.floor if tight else DEFAULT_FLOOR,
            direction="both" if tight else "each",
            description=self.title,
        )

    def _grid(self) -> tuple[float, ...]:
        if self.over == "exp_epsilon":
            curves = [(panel.compositions, curve.promise) for panel in self.panels for curve in panel.curves]
            promised = {promise.after(r)[0] for r, promise in curves if promise is not None}
            return tuple(sorted({*self.losses.tolist(), *promised}))
        largest = math.log(self.largest) if math.isfinite(self.largest) else 1.0
        if self.matching is None:
            return tuple(np.linspace(0.0, largest, 16).tolist())
        between = {math.log(x) for x in np.linspace(1.0, math.exp(largest), 61).tolist()}
        return tuple(sorted(between | {self.matching.after(int(r))[0] for r in self.values}))

    def points(self, study: Study | None) -> list[Points]:
        """Return the points of all curves, in the order of the panels; `study` is the opened study, if it has one."""
        return [one for panel in self.panels for curve in panel.curves for one in self.points_of(panel, curve, study)]

    def points_of(self, panel: Panel, curve: Curve, study: Study | None) -> list[Points]:
        """Return the points of one curve, or of both of its distributions."""
        if curve.promise is not None:
            return [self._promised(panel, curve, curve.promise)]
        assert curve.pair is not None  # noqa: S101
        if self.shows == "probability":
            return [_valued(panel, curve, x, y, name) for name, x, y in _densities(curve.pair, self.values)]
        if self.shows == "renyi":
            return [self._divergences(panel, curve, curve.pair, study)]
        if curve.theorem is not None:
            return [self._by_theorem(panel, curve, curve.pair, curve.theorem)]
        assert study is not None  # noqa: S101
        return [self._certified(panel, curve, curve.pair, study)]

    def _taken(self, side: int) -> FloatArray:
        """Return ε (0) or δ (1) of the promise at each r."""
        assert self.matching is not None  # noqa: S101
        return np.array([self.matching.after(int(r))[side] for r in self.values])

    def _wanted_delta(self, curve: Curve) -> FloatArray:
        if self.matching is not None and curve.delta is None:
            return self._taken(1)
        return np.full(self.values.shape, self.delta if curve.delta is None else curve.delta)

    def _promised(self, panel: Panel, curve: Curve, promise: Promise) -> Points:
        if not self.over_rounds:
            epsilon, delta = promise.after(panel.compositions)
            return _valued(panel, curve, np.array([math.exp(epsilon)]), np.array([delta]))
        pairs = np.array([promise.after(int(r)) for r in self.values])
        return _valued(panel, curve, self.values, pairs[:, 1] if self.shows == "delta" else np.exp(pairs[:, 0]))

    def _by_theorem(self, panel: Panel, curve: Curve, pair: Pair, theorem: str) -> Points:
        if self.shows != "delta":
            wanted = self._wanted_delta(curve).tolist()
            rounds = [int(r) for r in self.values]
            found = earlier_epsilon(pair, compositions=rounds, delta=wanted, theorem=theorem)
            with np.errstate(over="ignore"):
                return _valued(panel, curve, self.values, np.exp(found))
        name = "approximate" if theorem == "clt" else "upper"
        bounds = earlier_bounds(pair, compositions=panel.compositions, epsilon=self.losses, theorem=theorem)
        values, logs = (bounds[f"{kind}_{name}"].values.ravel() for kind in ("delta", "log_delta"))
        nothing = np.full(logs.shape, np.nan)
        return Points(panel, curve, self.values, nothing, values, nothing, logs)

    def _certified(self, panel: Panel, curve: Curve, pair: Pair, study: Study) -> Points:
        with warnings.catch_warnings():
            # The width is drawn.
            warnings.simplefilter("ignore", PrecisionWarning)
            rounds = self.values.astype(np.int64) if self.over_rounds else panel.compositions
            if self.shows == "delta":
                found = study.delta(
                    pair, compositions=rounds, epsilon=self._taken(0) if self.over_rounds else self.losses
                )
                lower, upper = np.asarray(found.lower), np.asarray(found.upper)
                logs = np.asarray(found.log_lower), np.asarray(found.log_upper)
                return Points(panel, curve, self.values, lower, upper, *logs)
            epsilons = study.epsilon(pair, compositions=rounds, delta=self._wanted_delta(curve))
        with np.errstate(over="ignore"):
            # An exponential is off by less than 2u; e^ε is at least 1.
            lower = np.maximum(np.exp(epsilons.lower) * (1.0 - 4.0 * UNIT_ROUNDOFF), 1.0)
            upper = np.exp(epsilons.upper) * (1.0 + 4.0 * UNIT_ROUNDOFF)
        return Points(panel, curve, self.values, lower, upper, np.log(lower), np.log(upper))

    def _divergences(self, panel: Panel, curve: Curve, pair: Pair, study: Study | None) -> Points:
        if curve.theorem is not None:
            assert isinstance(pair, SubsampledGaussian)  # noqa: S101
            each = np.array([sampled_gaussian_divergence(pair, float(order)) for order in self.values])
            return _valued(panel, curve, self.values, panel.compositions * each)
        if curve.from_states:
            assert study is not None  # noqa: S101
            cell = [one.pair for one in study.spec.cells].index(pair)
            states = [read_state(study.parts[0], cell, side, panel.compositions) for side in Direction]
            found = [state_renyi_bounds(state, self.values) for state in states if isinstance(state, BucketState)]
            lower, upper = np.max(found, axis=0)
        else:
            table = renyi_bounds(pair, compositions=panel.compositions, order=self.values)
            lower, upper = table.renyi_lower.values.ravel(), table.renyi_upper.values.ravel()
        with np.errstate(divide="ignore"):
            return Points(panel, curve, self.values, lower, upper, np.log(lower), np.log(upper))

    def as_csv(self, points: list[Points]) -> str:
        """Return the points as CSV, one line each, in numbers that are read as the same float64."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        columns = [f"{self.shows}_lower", f"{self.shows}_upper"]
        columns += ["log_delta_lower", "log_delta_upper"] if self.shows == "delta" else []
        writer.writerow(["panel", "curve", "kind", self.over, *columns])
        for one in points:
            curve = one.curve
            kind = "distribution" if one.name else "promise" if curve.promise else curve.theorem or "certified"
            head = [one.panel.title, one.label, f"{kind}, no bound" if one.approximate else kind]
            for values in zip(one.x, one.lower, one.upper, one.log_lower, one.log_upper, strict=True):
                writer.writerow([*head, *(_written(float(value)) for value in values[: len(columns) + 1])])
        return text.getvalue()

    def contradictions(self, points: list[Points]) -> Iterator[str]:
        """Yield a sentence for each curve that contradicts ours of the same mechanism in the same panel.

        A valid bound is at least our lower bound; ours is at most any valid one, but for the tolerance where its δ
        exceeds the floor. Approximations are not judged.
        """
        ours = [one for one in points if one.curve.certified and not one.name]
        others = [one for one in points if not one.curve.certified and not one.approximate]
        for mine, other in ((mine, other) for mine in ours for other in others if mine.panel is other.panel):
            if (mine.curve.pair, mine.curve.delta) == (other.curve.pair, other.curve.delta):
                yield from self._compared(mine, other)

    def _compared(self, mine: Points, other: Points) -> Iterator[str]:
        # A single point lies between ours: what is shown does not rise with ε there.
        left = np.searchsorted(mine.x, other.x, side="right") - 1
        right = np.searchsorted(mine.x, other.x, side="left")
        inside = (left >= 0) & (right < mine.x.size)
        lower, upper = mine.lower[right[inside]], mine.upper[left[inside]]
        theirs, x = other.upper[inside], other.x[inside]
        refuted = lower > theirs * (1.0 + _DIGITS)
        slack = (self.tolerance if self.buckets is None else np.inf) + _DIGITS
        # Beyond the largest ε of the figure ours is not computed.
        within = np.isfinite(theirs) & (theirs <= (self.largest if self.shows == "exp_epsilon" else np.inf))
        looser = (upper > theirs * (1.0 + slack)) & (upper > self.floor) & within
        for wrong, side in ((refuted, "lower"), (looser, "upper")):
            if wrong.any():
                at = f"{self.name}, {mine.panel.title or 'its panel'}, {self.over} {float(x[wrong][0]):g}"
                yield f"{at}: {other.label!r} lies below the {side} bound of {mine.label!r}"


def _valued(panel: Panel, curve: Curve, x: FloatArray, values: FloatArray, name: str = "") -> Points:
    """Return the points of values that have no lower bound."""
    nothing = np.full(x.shape, np.nan)
    with np.errstate(divide="ignore"):
        return Points(panel, curve, x, nothing, values, nothing, np.log(values), name)


def _densities(pair: Pair, outputs: FloatArray) -> Iterator[tuple[str, FloatArray, FloatArray]]:
    """Yield A and B of one round: densities of noise, or the four probabilities of M(ε, δ)."""
    if not isinstance(pair, Gaussian | Laplace):
        epsilon, delta = pair.epsilon, pair.delta  # type: ignore[attr-defined]
        likely, unlikely = ((1.0 - delta) / (1.0 + math.exp(sign * epsilon)) for sign in (-1.0, 1.0))
        masses = np.array([delta, likely, unlikely, 0.0])
        yield "A", np.arange(4.0), masses
        yield "B", np.arange(4.0), masses[::-1].copy()
        return
    noise = norm if isinstance(pair, Gaussian) else laplace
    low, high = pair.truncate or (-np.inf, np.inf)
    for name, mean in (("A", 0.0), ("B", pair.sensitivity)):
        draw = outputs - mean
        density = noise.pdf(draw, scale=pair.scale) / np.diff(noise.cdf([low, high], scale=pair.scale))
        yield name, outputs, np.where((draw >= low) & (draw <= high), density, 0.0)


def _written(value: float) -> str:
    """Return the shortest text that is read as the same number; nothing for what is no number."""
    if math.isnan(value):
        return ""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
