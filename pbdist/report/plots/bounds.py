"""Plots of stored bounds: δ over ε, δ or ε over r, and how wide the bounds are."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pbdist.errors import InvalidInputError, OffGridError, PrecisionWarning
from pbdist.mechanisms import checked_adjacency
from pbdist.query.convex_delta import Curve
from pbdist.report.plots.frame import (
    GUIDE,
    LN10,
    LOWEST,
    axes_for,
    counted,
    decimal_axis,
    draw_points,
    equal_to,
    finish,
    gap_notes,
    labelled,
    refuse_nothing,
    setting_notes,
    show_decades,
    style_of,
    wide_axis,
    width_note,
)
from pbdist.report.plots.selection import MAX_CURVES, Sources, StoredSetting, chosen, named, one_of
from pbdist.results import log_relative_width
from pbdist.study.fields import nearest_exponential, nearest_match
from pbdist.types import COMPOSITIONS, DELTA, DIRECTION, Adjacency, FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDE = 30.0


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
    axes: "Axes | None" = None,
    **noise: Any,
) -> "Axes":
    """Draw δ over ε: for each setting and number of rounds the band between the bounds.

    At stored ε these are the stored bounds. Between them they are what convexity in e^ε proves, and no straight lines;
    where a stored point is missing the band has a gap. At most 12 curves are drawn by one call.

    Parameters
    ----------
    bounds
        ``pbdist.open_study(..)``, its ``bounds`` or a selection of these, or what `pbdist.privacy_bounds` returns;
        or several of them, by the names that the legend should say.
    mechanism, **noise
        Which settings: a label, and parameters, each with one value or several; by default all.
    compositions
        Which stored r; by default all, or the largest one where there would be too many curves.
    direction
        ``"both"``: the larger of the two directions. ``"each"``: a curve for each.
    target
        ε in nats and δ, marked as a cross of two lines.
    lowest
        A δ below which the axis does not reach, unless a whole curve lies there; 0 for all there is.
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
    settings = chosen(bounds, mechanism=mechanism, noise=noise, direction=direction)
    graphs = graphs_of(settings, compositions)
    missing = [(np.isnan(graph.log_upper), graph.setting.gap) for graph in graphs]
    refuse_nothing(missing)
    axes = axes_for(axes)
    title, labels = labelled([graph.columns for graph in graphs])
    earlier = [np.asarray(line.get_ydata(), dtype=np.float64) * LN10 for line in axes.lines]
    for graph, label in zip(graphs, labels, strict=True):
        _draw_graph(axes, graph, label or title)
    wide_axis(axes, np.concatenate([graph.epsilon for graph in graphs]), ratio=_WIDE)
    uppers, lowers = [graph.log_upper for graph in graphs], [graph.log_lower for graph in graphs]
    hidden = show_decades(axes, [*uppers, *earlier], lowers, lowest)
    if target is not None:
        axes.axvline(target[0], color="black", linewidth=0.8, linestyle=":")
        words = f"target: {equal_to('ε', target[0])}, {equal_to('δ', target[1])}"
        axes.axhline(math.log10(target[1]), color="black", linewidth=0.8, linestyle=":", label=words)
    notes = [*gap_notes(missing), *width_note(lowers, uppers, axes.get_ylim()[0] * LN10), *hidden]
    notes += setting_notes(labels, [graph.setting for graph in graphs])
    finish(axes, title, x="ε, in nats", y="δ, a probability", notes=notes)
    return axes


def graphs_of(settings: Sequence[StoredSetting], compositions: int | Sequence[int] | None) -> list[Graph]:
    """Return the curves of settings at some r: all, or the largest one of each where all would be too many."""
    wanted = None if compositions is None else np.atleast_1d(np.asarray(compositions)).tolist()
    if wanted is None and sum(one.compositions.size * len(one.directions) for one in settings) > MAX_CURVES:
        wanted = [max(int(r) for setting in settings for r in setting.compositions)]
    graphs = []
    for setting in settings:
        stored = setting.compositions.tolist()
        rows = range(len(stored)) if wanted is None else [one_of(stored, r, COMPOSITIONS) for r in wanted]
        for row in rows:
            for axis, name in enumerate(setting.directions):
                way = {DIRECTION: name.replace("||", "‖")} if name != "both" else {}
                columns = {**setting.columns, **way, COMPOSITIONS: int(stored[row])}
                values = setting.log_lower[axis, row], setting.log_upper[axis, row]
                graphs.append(Graph(columns, setting.epsilon, *values, setting))
    if len(graphs) > MAX_CURVES:
        raise InvalidInputError(f"compositions: expected at most {MAX_CURVES} curves in one plot, got {len(graphs)}")
    return graphs


#: Points between stored ones at which what is proved there is drawn: about so many of a curve, and between two.
_FINE, _MAX_BETWEEN = 160, 16
#: What is less than the thickness of a line, as a part of a curve's height.
_THIN = 2e-3
#: Points by which δ has fallen between two stored ones: at most so many, down to so many nats below the left one.
_MAX_FALLS, _DEEPEST = 24, 600.0
#: A longer span, nats, has its points at equal distances only.
_MAX_SPAN = 600.0
#: Of a logarithm of a mass that is not known to be 0: more than any histogram has.
_ANY_MASS = 1e3
_MARKED = 12


def bounds_at(graph: Graph, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds on ln δ at any ε that the stored ones prove; NaN next to missing points.

    At stored ε they are the stored ones.
    """
    known, low = ~np.isnan(graph.log_upper), ~np.isnan(graph.log_lower)
    lower, upper = (np.full(epsilon.shape, np.nan) for _ in range(2))
    if known.any():
        mass = 0.0 if graph.setting.exact_masses else _ANY_MASS
        curve = Curve(graph.epsilon[known], graph.log_upper[known], graph.epsilon[low], graph.log_lower[low], mass)
        upper = curve.log_upper(epsilon)
        lower = curve.log_lower(epsilon) if low.any() else lower
    right = np.minimum(np.searchsorted(graph.epsilon, epsilon, side="left"), graph.epsilon.size - 1)
    stored = graph.epsilon[right] == epsilon
    left = np.where(stored, right, np.maximum(right - 1, 0))
    gap = ~(known[left] & known[right])
    lower[gap], upper[gap] = np.nan, np.nan
    lower[stored], upper[stored] = graph.log_lower[right[stored]], graph.log_upper[right[stored]]
    return lower, upper


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
    """Return what the stored bounds of a curve prove between them; NaN next to missing points."""
    fine = _fine(graph)
    lower, upper = bounds_at(graph, fine)
    doubled = np.repeat(lower, 2)
    stairs = doubled[[0, *range(2, doubled.size)]]
    stored = (2 * np.flatnonzero(np.isin(fine, graph.epsilon))).tolist()
    return _Line(np.repeat(fine, 2)[:-1], stairs, np.repeat(upper, 2)[:-1], stored)


def _fine(graph: Graph) -> FloatArray:
    """Return stored ε with points between them.

    Some are equally far apart. At others the chord over e^ε between the upper bounds has fallen by equal factors, so
    that it is nearly straight between them on an axis of powers of ten.
    """
    epsilon, high = graph.epsilon, graph.log_upper
    even = max(1, min(_MAX_BETWEEN, math.ceil(_FINE / max(1, epsilon.size - 1))))
    finite = high[np.isfinite(high)]
    # A chord of an exponential that falls by x nats is x²/8 nats off at most.
    most = math.sqrt(8.0 * _THIN * max(1.0, float(np.ptp(finite)) if finite.size else 1.0))
    found = [epsilon]
    for left, right, top, bottom in zip(epsilon, epsilon[1:], high, high[1:], strict=False):
        if math.isnan(top) or math.isnan(bottom):
            continue
        span = float(right - left)
        fall = min(float(top - bottom), _DEEPEST) if math.isfinite(top) else 0.0
        steps = span * np.arange(1, even) / even
        falls = min(_MAX_FALLS, math.ceil(fall / most))
        if falls > 1:
            part = np.expm1(-fall * np.arange(1, falls) / falls) / np.expm1(-fall)
            # y = y₁ + part (y₂ - y₁), by logarithms.
            steps = np.concatenate((steps, np.log1p(part * np.expm1(min(span, _MAX_SPAN)))))
        between = left + steps
        found.append(between[(between > left) & (between < right)])
    return np.unique(np.concatenate(found))


def _draw_graph(axes: "Axes", graph: Graph, label: str) -> None:
    style = style_of(axes)
    line = proved_line(graph)
    there = [place for place in line.stored if np.isfinite(line.upper[place])]
    if not there:
        axes.plot([], [], label=f"{label}: {graph.setting.gap or 'δ is 0'}", **style)
        return
    # Markers of curves that lie close together stand at different places.
    every = max(1, len(there) // _MARKED)
    marks = there[len(axes.collections) % every :: every]
    low, high = line.lower / LN10, np.where(np.isneginf(line.upper), np.nan, line.upper / LN10)
    filled = np.where(np.isneginf(low), float(np.nanmin(high)) - 1e3, low)
    axes.fill_between(line.epsilon, filled, high, color=style["color"], alpha=0.25, linewidth=0.0)
    edge = np.where(np.isneginf(low), np.nan, low)
    axes.plot(line.epsilon, edge, color=style["color"], linestyle=style["linestyle"], linewidth=0.7)
    axes.plot(line.epsilon, high, label=label, markevery=marks, **style)


@dataclass(frozen=True, eq=False)
class Rounds:
    """Bounds of one setting at some r: natural logarithms of δ, or ε in nats. `gap` says why some are missing."""

    columns: Mapping[str, Any]
    rounds: IntArray
    lower: FloatArray
    upper: FloatArray
    gap: str
    attained: bool
    adjacency: Adjacency = Adjacency.AS_STATED
    #: How many answers are wider than the tolerance.
    wide: int = 0


def compositions(
    bounds: Sources,
    *,
    epsilon: float | None = None,
    exp_epsilon: float | None = None,
    delta: float | None = None,
    mechanism: str | None = None,
    lowest: float = LOWEST,
    axes: "Axes | None" = None,
    **noise: Any,
) -> "Axes":
    """Draw δ over r at one ε, or ε over r at one δ.

    Every number is proved; a bar joins lower and upper bound. The thin lines between numbers of rounds only guide the
    eye. Missing points are gaps.

    Parameters
    ----------
    bounds
        ``pbdist.open_study(..)``, which may be asked at any ε and δ; its ``bounds`` or what `pbdist.privacy_bounds`
        returns, for δ at their own ε; what `pbdist.epsilon_bounds` returns, for ε at its own δ; or several of one kind,
        by the names that the legend should say.
    epsilon, exp_epsilon, delta
        At most one: ε in nats, e^ε or δ. By default the middle ε there is, or of `pbdist.epsilon_bounds` the first δ.
    mechanism, lowest, axes, **noise
        As for `epsilon_delta`, and so are what is returned, of δ, and the errors.
    """
    if sum(value is not None for value in (epsilon, exp_epsilon, delta)) > 1:
        raise InvalidInputError("delta: expected at most one of epsilon, exp_epsilon and delta, got several")
    sources = [source for _, source in named(bounds)]
    if all(isinstance(source, xr.Dataset) and "epsilon_upper" in source for source in sources):
        return _draw_rounds(*_of_epsilon_bounds(bounds, delta), axes_for(axes), of_epsilon=True)
    settings = chosen(bounds, mechanism=mechanism, noise=noise)
    if delta is not None:
        if not 0.0 < delta < 1.0:
            raise InvalidInputError(f"delta: expected a number between 0 and 1, got {delta!r}")
        found = [_epsilon_over_rounds(setting, delta) for setting in settings]
        return _draw_rounds(found, equal_to("δ", delta), axes_for(axes), of_epsilon=True)
    at = equal_to("e^ε", exp_epsilon) if exp_epsilon is not None else ""
    if exp_epsilon is not None:
        if not exp_epsilon >= 1.0:
            raise InvalidInputError(f"exp_epsilon: expected a number of at least 1, got {exp_epsilon!r}")
        epsilon = math.log(exp_epsilon)
    if epsilon is None:
        epsilon = middle_epsilon(settings)
    found = [delta_over_rounds(setting, epsilon, exp_epsilon) for setting in settings]
    return _draw_rounds(found, at or equal_to("ε", epsilon), axes_for(axes), lowest=lowest)


def middle_epsilon(settings: Sequence[StoredSetting]) -> float:
    """Return the ε that is taken where none is given: the middle one of the first setting."""
    return float(settings[0].epsilon[settings[0].epsilon.size // 2])


def delta_over_rounds(setting: StoredSetting, epsilon: float, exp_epsilon: float | None = None) -> Rounds:
    """Return the bounds on ln δ of a setting at one ε and all stored r; of a study also at an ε that is not stored."""
    stored, study = tuple(setting.epsilon.tolist()), setting.study
    index = nearest_match(stored, epsilon) if exp_epsilon is None else nearest_exponential(stored, exp_epsilon)
    if index is not None:
        lower, upper = (values.max(axis=0)[:, index] for values in (setting.log_lower, setting.log_upper))
        told = setting.columns, setting.compositions, lower, upper, setting.gap
        return Rounds(*told, setting.attained, setting.adjacency)
    if study is None:
        near = ", ".join(f"{value:.10g}" for value in stored[:12])
        raise InvalidInputError(f"epsilon: expected one of {near}, got {epsilon!r}: an opened study answers any ε")

    def ask(r: int) -> tuple[float, float]:
        found = study.delta(str(setting.columns["mechanism"]), compositions=r, epsilon=epsilon, **setting.asked)
        return float(found.log_lower), float(found.log_upper)

    return _asked(setting, ask)


def _epsilon_over_rounds(setting: StoredSetting, delta: float) -> Rounds:
    """Return the bounds on ε of a setting at one δ and all stored r; of a Dataset it is refused."""
    study = setting.study
    if study is None:
        raise InvalidInputError("delta: expected an opened study, or the Dataset of epsilon_bounds, for ε at a δ")

    def ask(r: int) -> tuple[float, float]:
        found = study.epsilon(str(setting.columns["mechanism"]), compositions=r, delta=delta, **setting.asked)
        return float(found.lower), float(found.upper)

    return _asked(setting, ask)


def _asked(setting: StoredSetting, ask: Callable[[int], tuple[float, float]]) -> Rounds:
    """Return the answers of a study at all r at which it has a point; others are gaps."""
    lower, upper = (np.full(setting.compositions.shape, np.nan) for _ in range(2))
    wide = 0
    for row, r in enumerate(setting.compositions.tolist()):
        if np.isnan(setting.log_upper[:, row]).all():
            continue
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", PrecisionWarning)
            try:
                lower[row], upper[row] = ask(int(r))
            except OffGridError:
                continue
        wide += any(issubclass(one.category, PrecisionWarning) for one in told)
    found = setting.columns, setting.compositions, lower, upper, setting.gap
    return Rounds(*found, setting.attained, setting.adjacency, wide)


def _of_epsilon_bounds(bounds: Sources, delta: float | None) -> tuple[list[Rounds], str]:
    found = []
    for name, source in named(bounds):
        one = source.expand_dims([dim for dim in (COMPOSITIONS, DELTA) if dim not in source.dims])  # type: ignore[union-attr]
        if delta is None:
            delta = float(one[DELTA].values[0])
        index = nearest_match(tuple(sorted(one[DELTA].values.tolist())), delta)
        if index is None or DIRECTION in one.dims:
            there = one[DELTA].values.tolist()
            raise InvalidInputError(f"delta: expected one of {there}, of the larger direction, got {delta!r}")
        one = one.sortby(DELTA).transpose(COMPOSITIONS, DELTA)
        lower, upper = (one[f"epsilon_{side}"].values[:, index] for side in ("lower", "upper"))
        told = {"study": name} if name else {}, one[COMPOSITIONS].values, lower, upper, ""
        found.append(Rounds(*told, not np.isnan(lower).all(), checked_adjacency(one.attrs.get("adjacency"))))
    return found, "δ" if delta is None else equal_to("δ", delta)


def _draw_rounds(
    found: Sequence[Rounds], at: str, axes: "Axes", *, of_epsilon: bool = False, lowest: float = LOWEST
) -> "Axes":
    missing = [(np.isnan(one.upper), one.gap) for one in found]
    refuse_nothing(missing)
    title, labels = labelled([one.columns for one in found])
    scale = 1.0 if of_epsilon else LN10
    for one, label in zip(found, labels, strict=True):
        name = label or title or "bounds"
        draw_points(axes, one.rounds, one.lower / scale, one.upper / scale, name)
    wide_axis(axes, np.concatenate([one.rounds for one in found]), base=2)
    notes = gap_notes(missing)
    lowers, uppers = [one.lower for one in found], [one.upper for one in found]
    if of_epsilon:
        values = np.concatenate(uppers)
        wide_axis(axes, values[values > 0.0], "y", ratio=_WIDE)
        unknown = int(np.isposinf(values).sum())
        if unknown:
            points = f"{unknown:,} point{'s' * (unknown > 1)}"
            notes.append(f"no upper bound on ε is known at {points} (arrows): the stored ε do not reach it")
    else:
        hidden = show_decades(axes, uppers, lowers, lowest)
        notes += [*width_note(lowers, uppers), *hidden]
    notes += wide_note(sum(one.wide for one in found))
    notes += [*setting_notes(labels, found), GUIDE]
    finish(axes, title, at, x="r, rounds", y="ε, in nats" if of_epsilon else "δ, a probability", notes=notes)
    return axes


def wide_note(wide: int) -> list[str]:
    """Return how many answers of studies are wider than the tolerance."""
    where = "it lies" if wide == 1 else "they lie"
    return [f"{counted(wide, 'answer')} wider than the tolerance: {where} between stored points"] if wide else []


def brackets(
    bounds: Sources,
    *,
    epsilon: float | None = None,
    mechanism: str | None = None,
    lowest: float = LOWEST,
    axes: "Axes | None" = None,
    **noise: Any,
) -> "Axes":
    """Draw the width of the brackets, upper / lower - 1 of δ, over r.

    Parameters
    ----------
    bounds, mechanism, axes, **noise
        As for `epsilon_delta`, and so are the errors.
    epsilon
        ε in nats; by default at each r the widest bracket of all stored ε.
    lowest
        A δ below which brackets do not count.

    Returns
    -------
    matplotlib.axes.Axes
        The vertical axis holds log10 of upper / lower - 1.
    """
    settings = chosen(bounds, mechanism=mechanism, noise=noise)
    floor = math.log(lowest) if lowest else -np.inf
    title, labels = labelled([setting.columns for setting in settings])
    widths, missing, faint = [], [], 0
    for setting in settings:
        if epsilon is None:
            lower, upper = setting.log_lower.max(axis=0), setting.log_upper.max(axis=0)
        else:
            found = delta_over_rounds(setting, epsilon)
            lower, upper = found.lower[:, np.newaxis], found.upper[:, np.newaxis]
        width = np.where(upper >= floor, log_relative_width(lower, upper), np.nan)
        # The widest of those that are known.
        widest = np.max(np.where(np.isnan(width), -np.inf, width), axis=1)
        widths.append(np.where(np.isneginf(widest), np.nan, widest))
        missing.append((np.isnan(upper).all(axis=1), setting.gap))
        faint += int(np.all(upper < floor, axis=1).sum())
    notes = [*gap_notes(missing), *setting_notes(labels, settings)]
    every = np.concatenate(widths)
    if np.isnan(every).all():
        why = "; ".join(notes) or f"no δ above {lowest:g}"
        raise OffGridError(f"bounds: expected brackets to draw, got none: {why}")
    axes = axes_for(axes)
    for setting, width, label in zip(settings, widths, labels, strict=True):
        place = np.log10(np.where((width > 0.0) & np.isfinite(width), width, np.nan))
        name = label or title or "brackets"
        axes.plot(setting.compositions, place, label=name, **style_of(axes), linewidth=0.7)
    for tolerance in sorted(
        {one.study.spec.required_tolerance or 0.0 for one in settings if one.study is not None} - {0.0}
    ):
        words = f"tolerance {tolerance:g}"
        axes.axhline(math.log10(tolerance), color="black", linewidth=1.0, linestyle="--", label=words)
    wide_axis(axes, np.concatenate([setting.compositions for setting in settings]), base=2)
    decimal_axis(axes)
    for count, why in (
        (int(np.isinf(every).sum()), "where the lower bound is 0"),
        (int((every == 0.0).sum()), "where the bounds are equal"),
        (faint, f"with δ below {lowest:g}"),
    ):
        if count:
            notes.append(f"{counted(count, 'point')} not drawn, {why}")
    at = equal_to("ε", epsilon) if epsilon is not None else f"the widest of all ε with δ > {lowest:g}"
    finish(axes, title, at, x="r, rounds", y="upper / lower - 1, a ratio", notes=[*notes, GUIDE])
    return axes
