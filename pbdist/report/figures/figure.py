"""A figure as a value: what it shows over what, its panels and curves, and the study that has its bounds."""

import csv
import io
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import laplace, norm

from pbdist.arguments import DEFAULT_FLOOR, DEFAULT_TOLERANCE
from pbdist.bounds.curves import renyi_bounds
from pbdist.errors import InvalidInputError, PrecisionWarning, shown
from pbdist.mechanisms import UNIT_ROUNDOFF, ApproximateDP, Gaussian, Laplace, Pair, SubsampledGaussian
from pbdist.pld.engine import delta_above
from pbdist.study import Cell, StudySpec
from pbdist.theorems import earlier_bounds
from pbdist.theorems.api import VuvuzelaRound, conversation, dialing, earlier_epsilon
from pbdist.theorems.renyi import sampled_gaussian_divergence
from pbdist.types import FloatArray

if TYPE_CHECKING:
    from pbdist.query import Study

DELTA, RENYI, PROBABILITY = "delta", "renyi", "probability"
COMPOSITIONS, ORDER, OUTPUT = "compositions", "order", "output"
#: The names of a loss: ε itself, and e^ε.
LOSSES = ("epsilon", "exp_epsilon")
#: ε that a study of curves over r is computed at; its states answer all others.
_LOSSES_OF_STATES = 16
#: ε that a study is computed at where ε between them is bounded by convexity.
_LOSSES_BETWEEN = 61

PROTOCOLS: dict[str, Callable[[float, float], VuvuzelaRound]] = {"dialing": dialing, "conversation": conversation}


@dataclass(frozen=True)
class Promise:
    """What Vuvuzela's authors promise of Laplace noise on one of their protocols."""

    #: One of `PROTOCOLS`.
    protocol: str
    #: Of the noise, in messages.
    mean: float
    scale: float

    def after(self, rounds: int) -> tuple[float, float]:
        """Return (ε', δ') after that many rounds, as the authors compute them."""
        return PROTOCOLS[self.protocol](self.mean, self.scale).composed(rounds)


@dataclass(frozen=True)
class Curve:
    """One curve of a panel."""

    #: What the legend says.
    label: str
    #: The worst-case pair that is bounded; None of a promise without one.
    pair: Pair | None
    #: A theorem of `pbdist.THEOREMS`, or of `pbdist.report.figures.figure.FORMULAS`; None for certified bounds.
    theorem: str | None = None
    #: What Vuvuzela's authors promise, instead of a theorem.
    promise: Promise | None = None
    #: The δ at which ε is sought, instead of the figure's.
    delta: float | None = None
    #: Whether Rényi divergences are read off the kept states of the study.
    from_states: bool = False

    @property
    def certified(self) -> bool:
        """Whether these are our bounds."""
        return self.theorem is None and self.promise is None


@dataclass(frozen=True)
class Panel:
    """Curves over one pair of axes."""

    #: What distinguishes the panel; empty where there is one.
    title: str
    #: In the order of the legend.
    curves: tuple[Curve, ...]
    #: r of a panel over something else.
    compositions: int


@dataclass(frozen=True)
class Figure:
    """What a figure file says."""

    #: Texts; the name is that of the files and of the store.
    name: str
    title: str
    caption: str
    source: str
    #: ``delta``, ``epsilon``, ``exp_epsilon``, ``renyi`` or ``probability``.
    shows: str
    #: ``epsilon``, ``exp_epsilon``, ``compositions``, ``order`` or ``output``.
    over: str
    #: The points on that axis, increasing.
    values: FloatArray
    #: At least one.
    panels: tuple[Panel, ...]
    #: Of a figure over r: the δ at which ε is sought, or the promise whose ε or δ is taken at each r.
    delta: float | None = None
    matching: Promise | None = None
    #: Of a figure over r: the largest ε that is sought, nats.
    largest: float | None = None
    #: ε in nats and δ that are wanted; drawn as a region.
    target: tuple[float, float] | None = None
    #: Where the axis of δ ends; None for the smallest δ drawn.
    lowest: float | None = None
    #: As of a study.
    method: str = "tight"
    tolerance: float = DEFAULT_TOLERANCE
    floor: float = DEFAULT_FLOOR
    buckets: int | None = None

    @property
    def over_rounds(self) -> bool:
        """Whether the number of compositions is the axis."""
        return self.over == COMPOSITIONS

    @property
    def losses(self) -> FloatArray:
        """The points of an axis of losses, as ε in nats."""
        return np.array([math.log(x) for x in self.values]) if self.over == "exp_epsilon" else self.values

    @property
    def keeps_states(self) -> bool:
        """Whether the study keeps its states, which answer any ε.

        Where a promise tells another δ or ε at each r they are not kept: of wide counts after many rounds they take
        minutes, and δ between stored ε is bounded closely enough.
        """
        return self.shows == RENYI or (self.over_rounds and self.matching is None)

    @cached_property
    def study(self) -> StudySpec | None:
        """The study that has the certified bounds of all panels; None where no curve needs one."""
        needed = [c for panel in self.panels for c in panel.curves if c.certified and c.pair is not None]
        if self.shows == PROBABILITY or (self.shows == RENYI and not any(c.from_states for c in needed)):
            return None
        cells: dict[Pair, Cell] = {}
        for curve in needed:
            if curve.pair is not None:
                cells.setdefault(curve.pair, Cell(curve.label, curve.pair, None))
        if self.over_rounds:
            rounds = tuple(int(r) for r in self.values)
        else:
            rounds = tuple(sorted({panel.compositions for panel in self.panels}))
        tight = self.method == "tight"
        return StudySpec(
            name=self.name,
            cells=tuple(cells.values()),
            method=self.method,
            tolerance=self.tolerance if tight else None,
            buckets=self.buckets,
            compositions=rounds,
            epsilon=self._grid(),
            keep_states=self.keeps_states,
            floor=self.floor if tight else DEFAULT_FLOOR,
            direction="both" if tight else "each",
            description=self.title,
        )

    def _promised(self) -> Iterator[float]:
        """Yield the ε of the promises that are drawn, so that ours are known there too."""
        for panel in self.panels:
            for curve in panel.curves:
                if curve.promise is not None:
                    yield curve.promise.after(panel.compositions)[0]

    def _grid(self) -> tuple[float, ...]:
        """The ε of the study, in nats."""
        if self.over in LOSSES:
            return tuple(sorted(set(self.losses.tolist()) | set(self._promised())))
        largest = 1.0 if self.largest is None else self.largest
        if self.keeps_states:
            return tuple(np.linspace(0.0, largest, _LOSSES_OF_STATES).tolist())
        between = {math.log(x) for x in np.linspace(1.0, math.exp(largest), _LOSSES_BETWEEN).tolist()}
        told = {self.matching.after(int(r))[0] for r in self.values} if self.matching is not None else set()
        return tuple(sorted(between | told))


def densities(pair: Pair, outputs: FloatArray) -> Iterator[tuple[str, FloatArray, FloatArray]]:
    """Yield A and B of one round: name, outputs, and densities at them, or probabilities of all outcomes.

    Of Gaussian and Laplace noise at `outputs`; of M_{ε,δ} at its four outcomes, which are numbered from 0. They are
    float64 values for drawing, no bounds.

    Raises
    ------
    InvalidInputError
        For other mechanisms.
    """
    if isinstance(pair, ApproximateDP):
        likely = (1.0 - pair.delta) / (1.0 + math.exp(-pair.epsilon))
        unlikely = (1.0 - pair.delta) / (1.0 + math.exp(pair.epsilon))
        masses = np.array([pair.delta, likely, unlikely, 0.0])
        yield "A", np.arange(4.0), masses
        yield "B", np.arange(4.0), masses[::-1].copy()
        return
    if not isinstance(pair, Gaussian | Laplace):
        raise InvalidInputError(f"mechanism: expected Gaussian, Laplace or ApproximateDP to draw, got {shown(pair)}")
    for name, mean in (("A", 0.0), ("B", pair.sensitivity)):
        yield name, outputs, _density(pair, outputs - mean)


def _density(pair: Gaussian | Laplace, draw: FloatArray) -> FloatArray:
    """Return the density of noise about its mean, truncated as the pair's."""
    noise = norm if isinstance(pair, Gaussian) else laplace
    density = np.asarray(noise.pdf(draw, scale=pair.scale))
    if pair.truncate is None:
        return density
    low, high = pair.truncate
    inside = (draw >= low) & (draw <= high)
    return np.where(inside, density / np.diff(noise.cdf([low, high], scale=pair.scale)), 0.0)


#: Formulas of Rényi divergences beside the theorems, from a pair and orders to values in nats.
FORMULAS: dict[str, str] = {
    "moments-accountant": "D_α of sampled Gaussian noise at whole orders (Mironov, Talwar & Zhang 2019, section 3.3)"
}


@dataclass(frozen=True, eq=False)
class CurvePoints:
    """The points of one curve."""

    #: Whose they are.
    panel: Panel
    curve: Curve
    #: Points on the horizontal axis, in its unit.
    x: FloatArray
    #: Certified bounds; of earlier work `lower` is not a number, and `upper` is its value.
    lower: FloatArray
    upper: FloatArray
    #: Their natural logarithms, where the axis shows δ or a probability.
    log_lower: FloatArray
    log_upper: FloatArray
    #: Whether the values are no bounds.
    approximate: bool = False
    #: Which of two distributions, of probabilities; else empty.
    name: str = ""

    @property
    def kind(self) -> str:
        """What the values are, in a word: ``certified``, ``promise``, the theorem's name, or ``distribution``."""
        if self.name:
            return "distribution"
        return "promise" if self.curve.promise is not None else self.curve.theorem or "certified"


def curve_points(
    figure: Figure, study: "Study | None", told: Callable[[str], None] = lambda _: None
) -> list[CurvePoints]:
    """Return the points of all curves of a figure, in the order of its panels.

    Parameters
    ----------
    figure
        The figure.
    study
        Its opened study; None where it has none.
    told
        Called with the label of each curve before it is computed.

    Raises
    ------
    InvalidInputError
        A theorem says nothing of a mechanism.
    """
    found: list[CurvePoints] = []
    for panel in figure.panels:
        for curve in panel.curves:
            told(curve.label)
            found.extend(points_of(figure, panel, curve, study))
    return found


def points_of(figure: Figure, panel: Panel, curve: Curve, study: "Study | None") -> Sequence[CurvePoints]:
    """Return the points of one curve, or of both of its distributions; as `curve_points`."""
    if curve.promise is not None:
        return [_promised(figure, panel, curve, curve.promise)]
    if curve.pair is None:
        raise InvalidInputError(f"curve {shown(curve.label)}: expected a mechanism or a promise, got neither")
    if figure.shows == PROBABILITY:
        return [
            _valued(panel, curve, outputs, values, name=name)
            for name, outputs, values in densities(curve.pair, figure.values)
        ]
    if figure.shows == RENYI:
        return [_divergences(figure, panel, curve, curve.pair, study)]
    if curve.theorem is not None:
        return [_by_theorem(figure, panel, curve, curve.pair, curve.theorem)]
    if study is None:
        raise InvalidInputError(f"curve {shown(curve.label)}: expected an opened study, got none")
    return [_certified(figure, panel, curve, curve.pair, study)]


def _valued(panel: Panel, curve: Curve, x: FloatArray, values: FloatArray, **more: object) -> CurvePoints:
    """Return the points of values that have no lower bound."""
    nothing = np.full(x.shape, np.nan)
    with np.errstate(divide="ignore"):
        return CurvePoints(panel, curve, x, nothing, values, nothing, np.log(values), **more)  # type: ignore[arg-type]


def _promised(figure: Figure, panel: Panel, curve: Curve, promise: Promise) -> CurvePoints:
    """Return Vuvuzela's own values: one point of δ(ε), or a curve over r."""
    if not figure.over_rounds:
        epsilon, delta = promise.after(panel.compositions)
        at = math.exp(epsilon) if figure.over == "exp_epsilon" else epsilon
        return _valued(panel, curve, np.array([at]), np.array([delta]))
    pairs = np.array([promise.after(int(r)) for r in figure.values])
    return _valued(panel, curve, figure.values, pairs[:, 1] if figure.shows == DELTA else _shown(figure, pairs[:, 0]))


def _shown(figure: Figure, epsilon: FloatArray) -> FloatArray:
    """Return ε as the axis has it."""
    with np.errstate(over="ignore"):
        return np.exp(epsilon) if figure.shows == "exp_epsilon" else epsilon


def _wanted_delta(figure: Figure, curve: Curve) -> FloatArray:
    """Return the δ at which ε is sought, for each r."""
    if curve.delta is None and figure.matching is not None:
        return np.array([figure.matching.after(int(r))[1] for r in figure.values])
    return np.full(figure.values.shape, figure.delta if curve.delta is None else curve.delta, dtype=np.float64)


def _wanted_epsilon(figure: Figure) -> FloatArray:
    """Return the ε at which δ is sought, for each r."""
    if figure.matching is None:
        return np.zeros(figure.values.shape)
    return np.array([figure.matching.after(int(r))[0] for r in figure.values])


def _by_theorem(figure: Figure, panel: Panel, curve: Curve, pair: Pair, theorem: str) -> CurvePoints:
    name = "approximate" if theorem == "clt" else "upper"
    approximate = theorem == "clt"
    if not figure.over_rounds:
        found = earlier_bounds(pair, compositions=panel.compositions, epsilon=figure.losses, theorem=theorem)
        log_delta = found[f"log_delta_{name}"].values.ravel()
        nothing = np.full(log_delta.shape, np.nan)
        values = found[f"delta_{name}"].values.ravel()
        return CurvePoints(panel, curve, figure.values, nothing, values, nothing, log_delta, approximate)
    rounds = [int(r) for r in figure.values]
    if figure.shows == DELTA:
        logs = [
            float(earlier_bounds(pair, compositions=r, epsilon=e, theorem=theorem)[f"log_delta_{name}"].item())
            for r, e in zip(rounds, _wanted_epsilon(figure).tolist(), strict=True)
        ]
        nothing = np.full(len(logs), np.nan)
        log_delta = np.array(logs)
        values = delta_above(log_delta)
        return CurvePoints(panel, curve, figure.values, nothing, values, nothing, log_delta, approximate)
    losses = earlier_epsilon(pair, compositions=rounds, delta=_wanted_delta(figure, curve).tolist(), theorem=theorem)
    return _valued(panel, curve, figure.values, _shown(figure, losses), approximate=approximate)


def _certified(figure: Figure, panel: Panel, curve: Curve, pair: Pair, study: "Study") -> CurvePoints:
    """Return our bounds, from the store."""
    with warnings.catch_warnings():
        # The width is drawn.
        warnings.simplefilter("ignore", PrecisionWarning)
        if figure.shows == DELTA:
            rounds = figure.values.astype(np.int64) if figure.over_rounds else panel.compositions
            losses = _wanted_epsilon(figure) if figure.over_rounds else figure.losses
            delta = study.delta(pair, compositions=rounds, epsilon=losses)
            lower, upper = np.asarray(delta.lower), np.asarray(delta.upper)
            logs = np.asarray(delta.log_lower), np.asarray(delta.log_upper)
            return CurvePoints(panel, curve, figure.values, lower, upper, logs[0], logs[1])
        rounds = figure.values.astype(np.int64)
        epsilon = study.epsilon(pair, compositions=rounds, delta=_wanted_delta(figure, curve))
    lower, upper = _shown(figure, np.asarray(epsilon.lower)), _shown(figure, np.asarray(epsilon.upper))
    if figure.shows == "exp_epsilon":
        # An exponential is off by less than 2u; e^ε is at least 1.
        lower, upper = np.maximum(lower * (1.0 - 4.0 * UNIT_ROUNDOFF), 1.0), upper * (1.0 + 4.0 * UNIT_ROUNDOFF)
    with np.errstate(divide="ignore"):
        return CurvePoints(panel, curve, figure.values, lower, upper, np.log(lower), np.log(upper))


def _divergences(figure: Figure, panel: Panel, curve: Curve, pair: Pair, study: "Study | None") -> CurvePoints:
    """Return Rényi divergences: by a formula, or our bounds from the pair or from kept states."""
    if curve.theorem is not None:
        if not isinstance(pair, SubsampledGaussian):
            raise InvalidInputError(f"theorem: expected sampled Gaussian noise for {curve.theorem}, got {shown(pair)}")
        values = panel.compositions * np.array([sampled_gaussian_divergence(pair, float(a)) for a in figure.values])
        return _valued(panel, curve, figure.values, values)
    if curve.from_states:
        if study is None:
            raise InvalidInputError(f"curve {shown(curve.label)}: expected an opened study, got none")
        bounds = study.renyi(pair, compositions=panel.compositions, order=figure.values, from_states=True)
        lower, upper = np.asarray(bounds.lower).ravel(), np.asarray(bounds.upper).ravel()
    else:
        table = renyi_bounds(pair, compositions=panel.compositions, order=figure.values)
        lower, upper = table.renyi_lower.values.ravel(), table.renyi_upper.values.ravel()
    with np.errstate(divide="ignore"):
        return CurvePoints(panel, curve, figure.values, lower, upper, np.log(lower), np.log(upper))


def figure_csv(figure: Figure, points: Iterable[CurvePoints]) -> str:
    """Return the points of a figure's curves as CSV, one line each; the same points give the same bytes.

    Columns: ``panel``, ``curve``, ``kind`` (``certified``, the name of a theorem, ``promise`` or ``distribution``; with
    ``, no bound`` where a theorem proves none), the horizontal axis under its name, and of what the figure shows
    ``.._lower`` and ``.._upper``; of δ also ``log_delta_lower`` and ``log_delta_upper``, natural logarithms that tell
    of values below float64 too. Earlier work has no lower value. Numbers are written so that they are read as the same
    float64.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    shown = figure.shows
    columns = [f"{shown}_lower", f"{shown}_upper"]
    if shown == DELTA:
        columns += ["log_delta_lower", "log_delta_upper"]
    writer.writerow(["panel", "curve", "kind", figure.over, *columns])
    for curve in points:
        kind = f"{curve.kind}, no bound" if curve.approximate else curve.kind
        label = f"{curve.curve.label}: {curve.name}" if curve.name else curve.curve.label
        for values in zip(curve.x, curve.lower, curve.upper, curve.log_lower, curve.log_upper, strict=True):
            told = values[: len(columns) + 1]
            writer.writerow([curve.panel.title, label, kind, *(_written(float(value)) for value in told)])
    return text.getvalue()


def _written(value: float) -> str:
    """Return the shortest text that is read as the same number; nothing for what is no number."""
    if math.isnan(value):
        return ""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


#: Relative slack for values of theorems that are known to nine digits.
_DIGITS = 1e-9


def contradictions(figure: Figure, points: Iterable[CurvePoints]) -> Iterator[str]:
    """Yield a sentence for each curve that contradicts ours of the same mechanism in the same panel.

    A valid bound is at least our lower bound; ours is at most any valid one, but for the figure's tolerance where its
    δ exceeds the floor. Approximations are not judged: they may well be refuted.
    """
    if figure.shows == PROBABILITY:
        return
    found = list(points)
    ours = [one for one in found if one.curve.certified]
    others = [one for one in found if not one.curve.certified and not one.approximate]
    for mine, other in product(ours, others):
        same = mine.panel is other.panel and mine.curve.pair == other.curve.pair
        if same and mine.curve.delta == other.curve.delta:
            yield from _compared(figure, mine, other)


def _compared(figure: Figure, mine: CurvePoints, other: CurvePoints) -> Iterator[str]:
    # A single point lies between ours: what is shown does not rise with ε there.
    left = np.searchsorted(mine.x, other.x, side="right") - 1
    right = np.searchsorted(mine.x, other.x, side="left")
    inside = (left >= 0) & (right < mine.x.size)
    lower, upper = mine.lower[right[inside]], mine.upper[left[inside]]
    theirs, x = other.upper[inside], other.x[inside]
    refuted = lower > theirs * (1.0 + _DIGITS)
    slack = (figure.tolerance if figure.method == "tight" else np.inf) + _DIGITS
    # Beyond the largest ε of the figure ours is not sought.
    sought = np.inf
    if figure.shows in LOSSES and figure.largest is not None:
        sought = np.exp(figure.largest) if figure.shows == "exp_epsilon" else figure.largest
    looser = (upper > theirs * (1.0 + slack)) & (upper > figure.floor) & np.isfinite(theirs) & (theirs <= sought)
    where = f"{figure.name}, {mine.panel.title or 'its panel'}"
    for wrong, text in ((refuted, "lies below the lower bound of"), (looser, "lies below the upper bound of")):
        if wrong.any():
            at = float(x[wrong][0])
            yield f"{where}: {other.curve.label!r} {text} {mine.curve.label!r} at {figure.over} {at:g}"
