"""The (ε, δ) graph: for each setting the band between the bounds on δ."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.errors import InvalidInputError
from pbdist.query.convex_delta import Curve
from pbdist.report.plots.frame import (
    LN10,
    LOWEST,
    axes_for,
    decimal_axis,
    finish,
    height_limits,
    lowest_place,
    style_of,
)
from pbdist.report.plots.labels import labelled
from pbdist.report.plots.notes import NO_LOWER, gap_notes, neighbours_notes, refuse_nothing, width_note, zero_note
from pbdist.report.plots.selection import MOST_CURVES, Sources, StoredSetting, chosen, one_of
from pbdist.rounding import exact
from pbdist.types import COMPOSITIONS, DIRECTION, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Points between stored ones at which what is proved there is drawn: about so many of a curve, and between two.
_FINE, _MOST_BETWEEN = 160, 16
#: What is less than the thickness of a line, as a part of a curve's height.
_THIN = 2e-3
#: Points by which δ has fallen between two stored ones: at most so many, down to so many nats below the left one.
_MOST_FALLS, _DEEPEST = 24, 600.0
#: A longer span, nats, has its points at equal distances only.
_MOST_SPAN = 600.0
#: From this ratio of the largest to the smallest ε on its axis is logarithmic.
_WIDE = 30.0
#: Of a logarithm of a mass that is not known to be 0: more than any histogram has.
_ANY_MASS = 1e3
_MARKED = 12


@dataclass(frozen=True, eq=False)
class Graph:
    """One curve of δ over ε: natural logarithms of bounds at stored ε."""

    columns: Mapping[str, Any]
    epsilon: FloatArray
    log_lower: FloatArray
    log_upper: FloatArray
    setting: StoredSetting


def epsilon_delta(
    bounds: Sources,
    *,
    mechanism: str | None = None,
    compositions: int | Sequence[int] | None = None,
    direction: str = "both",
    target: tuple[float, float] | None = None,
    lowest: float = LOWEST,
    most: int = MOST_CURVES,
    axes: "Axes | None" = None,
    **noise: Any,
) -> "Axes":
    """Draw δ over ε: for each setting and number of rounds the band between the bounds.

    At stored ε these are the stored bounds. Between them they are what convexity in e^ε proves, and no straight lines;
    where a stored point is missing the band has a gap.

    Parameters
    ----------
    bounds
        ``pbdist.open_study(..)``, its ``bounds`` or a selection of these, or what `pbdist.privacy_bounds` returns;
        or several of them, by the names that the legend should say.
    mechanism, **noise
        Which settings: a label, and parameters, each with one value or several; by default all.
    compositions
        Which stored r; by default all, or the largest one where there would be more curves than `most`.
    direction
        ``"both"``: the larger of the two directions. ``"each"``: a curve for each.
    target
        ε in nats and δ, marked as a cross of two lines.
    lowest
        A δ below which the axis does not reach, unless a whole curve lies there; 0 for all there is.
    most
        The most curves that are drawn.
    axes
        Where to draw; by default axes of a new figure, ``.figure`` of what is returned.

    Returns
    -------
    matplotlib.axes.Axes
        The vertical axis holds log10 of δ, as δ may be far below 1e-300: a line at a δ is
        ``axes.axhline(math.log10(delta))``.

    Raises
    ------
    InvalidInputError
        Nothing is chosen, or too much.
    OffGridError
        All of it is missing.
    StoreDamagedError
        The values cannot be read.
    MissingDependencyError
        matplotlib is not installed.
    """
    if target is not None and not (0.0 < target[1] <= 1.0 and target[0] >= 0.0):
        raise InvalidInputError(f"target: expected an ε of at least 0 and a δ above 0, got {target!r}")
    graphs = graphs_of(
        chosen(bounds, mechanism=mechanism, noise=noise, direction=direction, most=most), compositions, most
    )
    return draw_graphs(graphs, axes_for(axes), target=target, lowest=lowest)


def graphs_of(settings: Sequence[StoredSetting], compositions: int | Sequence[int] | None, most: int) -> list[Graph]:
    """Return the curves of settings at some r: all, or the largest one of each where all would be too many."""
    wanted = None if compositions is None else np.atleast_1d(np.asarray(compositions)).tolist()
    if wanted is None and sum(setting.compositions.size * len(setting.directions) for setting in settings) > most:
        wanted = [max(int(r) for setting in settings for r in setting.compositions)]
    graphs = [
        Graph(
            columns={
                **setting.columns,
                **({DIRECTION: name.replace("||", "‖")} if name != "both" else {}),
                COMPOSITIONS: int(setting.compositions[row]),
            },
            epsilon=setting.epsilon,
            log_lower=setting.log_lower[axis, row],
            log_upper=setting.log_upper[axis, row],
            setting=setting,
        )
        for setting in settings
        for row in (
            range(setting.compositions.size)
            if wanted is None
            else [one_of(setting.compositions.tolist(), r, COMPOSITIONS) for r in wanted]
        )
        for axis, name in enumerate(setting.directions)
    ]
    if len(graphs) > most:
        raise InvalidInputError(f"compositions: expected at most {most} curves in one plot, got {len(graphs)}")
    return graphs


def draw_graphs(
    graphs: Sequence[Graph],
    axes: "Axes",
    *,
    target: tuple[float, float] | None = None,
    lowest: float = LOWEST,
    shared: str | None = None,
) -> "Axes":
    """Draw curves of δ over ε into axes."""
    missing = [(np.isnan(graph.log_upper), graph.setting.gap) for graph in graphs]
    refuse_nothing(missing, "bounds")
    title, labels = labelled([graph.columns for graph in graphs])
    earlier = [line.get_ydata() for line in axes.lines]
    for graph, label in zip(graphs, labels, strict=True):
        _draw(axes, graph, label if len(graphs) > 1 else title)
    stored = np.concatenate([graph.epsilon for graph in graphs])
    if stored.min() > 0.0 and stored.max() > _WIDE * stored.min():
        axes.set_xscale("log")
    decimal_axis(axes)
    limits = height_limits(
        [graph.log_upper / LN10 for graph in graphs] + [np.asarray(one, dtype=np.float64) for one in earlier],
        [graph.log_lower / LN10 for graph in graphs],
        lowest_place(lowest),
    )
    if limits is not None:
        axes.set_ylim(*limits)
    if target is not None:
        _draw_target(axes, target)
    notes = [
        *gap_notes(missing),
        *width_note(
            (g.log_lower for g in graphs),
            (g.log_upper for g in graphs),
            -np.inf if limits is None else limits[0] * LN10,
        ),
        *zero_note(g.log_upper for g in graphs),
    ]
    if limits is not None and any(
        (graph.log_upper[np.isfinite(graph.log_upper)] < limits[0] * LN10).any() for graph in graphs
    ):
        notes.append(f"what lies below δ = {lowest:g} is not drawn")
    unattained = [label for graph, label in zip(graphs, labels, strict=True) if not graph.setting.attained]
    if unattained:
        notes.append(NO_LOWER if len(unattained) == len(graphs) else f"{'; '.join(unattained)}: {NO_LOWER}")
    notes += neighbours_notes((graph.columns, graph.setting.adjacency) for graph in graphs)
    finish(
        axes,
        title=title if shared is None else shared,
        x="ε, in nats",
        y="δ, a probability",
        notes=notes,
        legend=len(axes.get_legend_handles_labels()[0]) > 1,
    )
    return axes


@dataclass(frozen=True, eq=False)
class _Line:
    """What is proved of one curve, ready to draw: ε, lower and upper bounds on ln δ, and the places of stored ε.

    Each ε but the last stands twice, so that the lower bound is a staircase: right behind an ε it falls to what holds
    up to the next one. A straight line between two of its values would be no bound. Between neighbouring ε the upper
    bound is above a straight line by less than a line's thickness.
    """

    epsilon: FloatArray
    lower: FloatArray
    upper: FloatArray
    stored: list[int]


def proved_line(graph: Graph) -> _Line:
    """Return what the stored bounds of a curve prove between them; NaN next to missing points.

    At stored ε it is the stored bounds.
    """
    fine, places = _fine(graph)
    known, low = ~np.isnan(graph.log_upper), ~np.isnan(graph.log_lower)
    lower, upper = (np.full(fine.shape, np.nan) for _ in range(2))
    if known.any():
        mass = 0.0 if graph.setting.exact_masses else _ANY_MASS
        curve = Curve(graph.epsilon[known], graph.log_upper[known], graph.epsilon[low], graph.log_lower[low], mass)
        upper = curve.log_upper(fine)
        lower = curve.log_lower(fine) if low.any() else lower
    # Between a stored point and a missing one nothing is drawn.
    right = np.minimum(np.searchsorted(graph.epsilon, fine, side="left"), graph.epsilon.size - 1)
    left = np.where(graph.epsilon[right] == fine, right, np.maximum(right - 1, 0))
    gap = ~(known[left] & known[right])
    lower[gap], upper[gap] = np.nan, np.nan
    lower[places], upper[places] = graph.log_lower, graph.log_upper
    doubled = np.repeat(lower, 2)
    return _Line(
        np.repeat(fine, 2)[:-1],
        doubled[[0, *range(2, doubled.size)]],
        np.repeat(upper, 2)[:-1],
        [2 * place for place in places],
    )


def _fine(graph: Graph) -> tuple[FloatArray, list[int]]:
    """Return stored ε with points between them, and the places of the stored ones.

    Some are equally far apart. At others the chord over e^ε between the upper bounds has fallen by equal factors, so
    that it is nearly straight between them on an axis of powers of ten.
    """
    epsilon, high = graph.epsilon, graph.log_upper
    even = max(1, min(_MOST_BETWEEN, math.ceil(_FINE / max(1, epsilon.size - 1))))
    finite = high[np.isfinite(high)]
    # A chord of an exponential that falls by x nats is x²/8 nats off at most.
    most = math.sqrt(8.0 * _THIN * max(1.0, float(np.ptp(finite)) if finite.size else 1.0))
    grid: list[float] = []
    places: list[int] = []
    for index in range(epsilon.size):
        places.append(len(grid))
        grid.append(float(epsilon[index]))
        if index == epsilon.size - 1 or math.isnan(high[index]) or math.isnan(high[index + 1]):
            continue
        span = float(epsilon[index + 1] - epsilon[index])
        fall = min(float(high[index] - high[index + 1]), _DEEPEST) if math.isfinite(high[index]) else 0.0
        steps = span * np.arange(1, even) / even
        falls = min(_MOST_FALLS, math.ceil(fall / most))
        if falls > 1:
            levels = fall * np.arange(1, falls) / falls
            part = np.expm1(-levels) / np.expm1(-fall)
            # y = y₁ + part (y₂ - y₁), by logarithms.
            steps = np.concatenate((steps, np.log1p(part * np.expm1(min(span, _MOST_SPAN)))))
        between = np.unique(epsilon[index] + steps)
        grid += between[(between > epsilon[index]) & (between < epsilon[index + 1])].tolist()
    return np.array(grid), places


def _draw(axes: "Axes", graph: Graph, label: str) -> None:
    style = style_of(axes, 0)
    line = proved_line(graph)
    fine, lower, upper = line.epsilon, line.lower, line.upper
    there = [place for place in line.stored if np.isfinite(upper[place])]
    if not there:
        axes.plot([], [], label=f"{label}: {graph.setting.gap or 'δ is 0'}", **style)
        return
    # Markers of curves that lie close together stand at different places.
    every = max(1, len(there) // _MARKED)
    marks = there[len(axes.collections) % every :: every]
    low, high = lower / LN10, upper / LN10
    bottom = float(np.nanmin(high[np.isfinite(high)])) - 1e3
    filled = np.where(np.isneginf(low), bottom, low)
    high = np.where(np.isneginf(high), np.nan, high)
    axes.fill_between(fine, filled, high, color=style["color"], alpha=0.25, linewidth=0.0)
    axes.plot(
        fine, np.where(np.isneginf(low), np.nan, low), color=style["color"], linestyle=style["linestyle"], linewidth=0.7
    )
    axes.plot(fine, high, label=label, markevery=marks, **style)


def _draw_target(axes: "Axes", target: tuple[float, float]) -> None:
    epsilon, delta = target
    axes.axvline(epsilon, color="black", linewidth=0.8, linestyle=":")
    axes.axhline(
        math.log10(delta),
        color="black",
        linewidth=0.8,
        linestyle=":",
        label=f"target: ε = {exact(epsilon)}, δ = {exact(delta)}",
    )
