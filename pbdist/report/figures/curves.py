"""The points of a figure's curves: certified bounds from its store, values of earlier work as they are computed."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pbdist.bounds.curves import renyi_bounds
from pbdist.errors import InvalidInputError, PrecisionWarning, shown
from pbdist.mechanisms import UNIT_ROUNDOFF, Pair, SubsampledGaussian
from pbdist.pld.engine import delta_above
from pbdist.report.figures.densities import densities
from pbdist.report.figures.figure import DELTA, PROBABILITY, RENYI, Curve, Figure, Panel, Promise
from pbdist.theorems import earlier_bounds
from pbdist.theorems.inverse import earlier_epsilon
from pbdist.theorems.renyi import sampled_gaussian_divergence
from pbdist.types import FloatArray

if TYPE_CHECKING:
    from pbdist.query import Study

#: Formulas of Rényi divergences beside the theorems, from a pair and orders to values in nats.
FORMULAS: dict[str, str] = {
    "moments-accountant": "D_α of sampled Gaussian noise at whole orders (Mironov, Talwar & Zhang 2019, section 3.3)"
}


@dataclass(frozen=True, eq=False)
class CurvePoints:
    """The points of one curve.

    Attributes
    ----------
    panel, curve
        Whose they are.
    x
        Points on the horizontal axis, in its unit.
    lower, upper
        Certified bounds; of earlier work `lower` is not a number, and `upper` is its value.
    log_lower, log_upper
        Their natural logarithms, where the axis shows δ or a probability.
    approximate
        Whether the values are no bounds.
    name
        Which of two distributions, of probabilities; else empty.
    """

    panel: Panel
    curve: Curve
    x: FloatArray
    lower: FloatArray
    upper: FloatArray
    log_lower: FloatArray
    log_upper: FloatArray
    approximate: bool = False
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
