"""Plots of stored bounds: δ over ε, over r, how wide they are, and studies beside each other."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pbdist.errors import InvalidInputError, OffGridError, PrecisionWarning, shown
from pbdist.mechanisms import checked_adjacency
from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query.convex_delta import Curve
from pbdist.query.noise_choice import NoiseGroup, noise_groups
from pbdist.report.plots.frame import (
    LN10,
    LOWEST,
    NO_LOWER,
    amounts_axis,
    axes_for,
    decimal_axis,
    draw_points,
    finish,
    gap_notes,
    height_limits,
    labelled,
    lowest_place,
    neighbours_notes,
    refuse_nothing,
    style_of,
    unattained_note,
    width_note,
    zero_note,
)
from pbdist.report.plots.selection import MOST_CURVES, Sources, StoredSetting, chosen, named, one_of
from pbdist.results import log_relative_width
from pbdist.rounding import exact
from pbdist.study.grids import nearest_exponential, nearest_match
from pbdist.types import COMPOSITIONS, DELTA, DIRECTION, Adjacency, BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Said of every plot over r.
GUIDE = "lines between points guide the eye and are no bounds"
_WIDE = 30.0


@dataclass(frozen=True, eq=False)
class Rounds:
    """Bounds of one setting at some r: natural logarithms of δ, or ε in nats. `gap` says why some are missing."""

    columns: Mapping[str, Any]
    rounds: IntArray
    lower: FloatArray
    upper: FloatArray
    gap: str
    attained: bool
    wide: int = 0
    adjacency: Adjacency = Adjacency.AS_STATED


def compositions(
    bounds: Sources,
    *,
    epsilon: float | None = None,
    exp_epsilon: float | None = None,
    delta: float | None = None,
    mechanism: str | None = None,
    lowest: float = LOWEST,
    most: int = MOST_CURVES,
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
    mechanism, **noise
        Which settings: a label, and parameters, each with one value or several; by default all.
    lowest
        A δ below which the axis does not reach, unless a whole curve lies there; 0 for all there is.
    most
        The most curves that are drawn.
    axes
        Where to draw; by default axes of a new figure, ``.figure`` of what is returned.

    Returns
    -------
    matplotlib.axes.Axes
        Of δ the vertical axis holds log10 of δ.

    Raises
    ------
    InvalidInputError, OffGridError, StoreDamagedError, MissingDependencyError
        As `epsilon_delta`.
    """
    if sum(value is not None for value in (epsilon, exp_epsilon, delta)) > 1:
        raise InvalidInputError("delta: expected at most one of epsilon, exp_epsilon and delta, got several")
    told = [source for _, source in named(bounds)]
    if all(isinstance(source, xr.Dataset) and "epsilon_upper" in source for source in told):
        return draw_rounds(*_of_epsilon_bounds(bounds, delta), axes_for(axes), of_epsilon=True)
    settings = chosen(bounds, mechanism=mechanism, noise=noise, most=most)
    if delta is not None:
        if not 0.0 < delta < 1.0:
            raise InvalidInputError(f"delta: expected a number between 0 and 1, got {delta!r}")
        found = [epsilon_over_rounds(setting, delta) for setting in settings]
        return draw_rounds(found, f"δ = {exact(delta)}", axes_for(axes), of_epsilon=True)
    if exp_epsilon is not None:
        if not exp_epsilon >= 1.0:
            raise InvalidInputError(f"exp_epsilon: expected a number of at least 1, got {exp_epsilon!r}")
        epsilon = math.log(exp_epsilon)
    if epsilon is None:
        stored = settings[0].epsilon
        epsilon = float(stored[stored.size // 2])
    found = [delta_over_rounds(setting, epsilon, exp_epsilon) for setting in settings]
    at = f"ε = {exact(epsilon)}" if exp_epsilon is None else f"e^ε = {exact(exp_epsilon)}"
    return draw_rounds(found, at, axes_for(axes), lowest=lowest)


def delta_over_rounds(setting: StoredSetting, epsilon: float, exp_epsilon: float | None = None) -> Rounds:
    """Return the bounds on ln δ of a setting at one ε and all stored r; of a study also at an ε that is not stored."""
    index = nearest_match(tuple(setting.epsilon.tolist()), epsilon)
    if exp_epsilon is not None:
        index = nearest_exponential(tuple(setting.epsilon.tolist()), exp_epsilon)
    if index is not None:
        lower, upper = (values.max(axis=0)[:, index] for values in (setting.log_lower, setting.log_upper))
        told = (setting.columns, setting.compositions, lower, upper, setting.gap, setting.attained)
        return Rounds(*told, adjacency=setting.adjacency)
    if setting.study is None:
        near = ", ".join(f"{value:.10g}" for value in setting.epsilon[:12])
        raise InvalidInputError(f"epsilon: expected one of {near}, got {epsilon!r}: an opened study answers any ε")

    study = setting.study

    def ask(r: int) -> tuple[float, float]:
        found = study.delta(str(setting.columns["mechanism"]), compositions=r, epsilon=epsilon, **setting.asked)
        return float(found.log_lower), float(found.log_upper)

    return _asked(setting, ask)


def epsilon_over_rounds(setting: StoredSetting, delta: float) -> Rounds:
    """Return the bounds on ε of a setting at one δ and all stored r; of a Dataset it is refused."""
    if setting.study is None:
        raise InvalidInputError("delta: expected an opened study, or the Dataset of epsilon_bounds, for ε at a δ")

    study = setting.study

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
    found = (setting.columns, setting.compositions, lower, upper, setting.gap, setting.attained)
    return Rounds(*found, wide=wide, adjacency=setting.adjacency)


def _of_epsilon_bounds(bounds: Sources, delta: float | None) -> tuple[list[Rounds], str]:
    found = []
    for name, source in named(bounds):
        one = source.expand_dims([dim for dim in (COMPOSITIONS, DELTA) if dim not in source.dims])  # type: ignore[union-attr]
        if delta is None:
            delta = float(one[DELTA].values[0])
        index = nearest_match(tuple(sorted(one[DELTA].values.tolist())), delta)
        if index is None or "direction" in one.dims:
            raise InvalidInputError(
                f"delta: expected one of {one[DELTA].values.tolist()}, of the larger direction, got {delta!r}"
            )
        one = one.sortby(DELTA).transpose(COMPOSITIONS, DELTA)
        lower, upper = (one[f"epsilon_{side}"].values[:, index] for side in ("lower", "upper"))
        columns = {"study": name} if name else {}
        told = (columns, one[COMPOSITIONS].values, lower, upper, "", not np.isnan(lower).all())
        found.append(Rounds(*told, adjacency=checked_adjacency(one.attrs.get("adjacency"))))
    return found, "δ" if delta is None else f"δ = {exact(delta)}"


def draw_rounds(
    found: Sequence[Rounds], at: str, axes: "Axes", *, of_epsilon: bool = False, lowest: float = LOWEST
) -> "Axes":
    """Draw bounds over r into axes."""
    missing = [(np.isnan(one.upper), one.gap) for one in found]
    refuse_nothing(missing)
    title, labels = labelled([one.columns for one in found])
    scale = 1.0 if of_epsilon else LN10
    for one, label in zip(found, labels, strict=True):
        low, high = one.lower / scale, one.upper / scale
        style = draw_points(axes, one.rounds, low, high, label if len(found) > 1 else title or "bounds")
        # Of a lower bound alone.
        endless = np.where(np.isposinf(high), low, np.nan)
        if np.isfinite(endless).any():
            axes.plot(one.rounds, endless, linestyle="none", marker=r"$\uparrow$", markersize=9.0, color=style["color"])
    rounds_axis(axes, [one.rounds for one in found])
    notes = gap_notes(missing)
    highs, lows = [one.upper / scale for one in found], [one.lower / scale for one in found]
    if of_epsilon:
        _epsilon_axis(axes, highs)
        unknown = sum(int(np.isposinf(one.upper).sum()) for one in found)
        if unknown:
            notes.append(f"no upper bound on ε is known at {unknown:,} points (arrows): the stored ε do not reach it")
    else:
        decimal_axis(axes)
        limits = height_limits(highs, lows, lowest_place(lowest))
        if limits is not None:
            axes.set_ylim(*limits)
            if any((one[np.isfinite(one)] < limits[0]).any() for one in highs):
                notes.append(f"what lies below δ = {lowest:g} is not drawn")
        notes += width_note((one.lower for one in found), (one.upper for one in found))
        notes += zero_note(one.upper for one in found)
    wide = sum(one.wide for one in found)
    if wide:
        notes.append(f"{wide:,} answers are wider than the tolerance: they lie between stored points")
    notes += unattained_note(labels, [one.attained for one in found])
    notes += neighbours_notes((one.columns, one.adjacency) for one in found)
    finish(
        axes,
        title,
        at,
        x="r, rounds",
        y="ε, in nats" if of_epsilon else "δ, a probability",
        notes=[*notes, GUIDE],
    )
    return axes


def rounds_axis(axes: "Axes", rounds: Sequence[IntArray]) -> None:
    """Make the horizontal axis one of r: in powers of two where r varies much."""
    every = np.concatenate(rounds)
    if every.max() >= 8 * every.min():
        from pbdist.report.plots.decades import plain_logarithms  # noqa: PLC0415 -- imports matplotlib

        axes.set_xscale("log", base=2)
        plain_logarithms(axes.xaxis, 2.0)


def _epsilon_axis(axes: "Axes", highs: Sequence[FloatArray]) -> None:
    values = np.concatenate(highs)
    values = values[np.isfinite(values) & (values > 0.0)]
    if values.size and float(values.max()) > _WIDE * float(values.min()):
        axes.set_yscale("log")


@dataclass(frozen=True, eq=False)
class Widths:
    """upper / lower - 1 of one setting at its r; NaN where nothing is computed, or nothing counts."""

    setting: StoredSetting
    width: FloatArray
    missing: BoolArray
    faint: int


def brackets(
    bounds: Sources,
    *,
    epsilon: float | None = None,
    mechanism: str | None = None,
    lowest: float = LOWEST,
    most: int = MOST_CURVES,
    axes: "Axes | None" = None,
    **noise: Any,
) -> "Axes":
    """Draw the width of the brackets, upper / lower - 1 of δ, over r.

    Parameters
    ----------
    bounds
        As for `epsilon_delta`.
    epsilon
        ε in nats; by default at each r the widest bracket of all stored ε whose upper bound is above `lowest`.
    mechanism, **noise
        Which settings: a label, and parameters, each with one value or several; by default all.
    lowest
        A δ below which brackets do not count.
    most
        The most curves that are drawn.
    axes
        Where to draw; by default axes of a new figure, ``.figure`` of what is returned.

    Returns
    -------
    matplotlib.axes.Axes
        The vertical axis holds log10 of upper / lower - 1.

    Raises
    ------
    InvalidInputError, OffGridError, StoreDamagedError, MissingDependencyError
        As `epsilon_delta`.
    """
    found = [
        _widths(setting, epsilon, lowest) for setting in chosen(bounds, mechanism=mechanism, noise=noise, most=most)
    ]
    return _draw(found, axes_for(axes), epsilon, lowest)


def _widths(setting: StoredSetting, epsilon: float | None, lowest: float) -> Widths:
    floor = lowest_place(lowest) * LN10
    if epsilon is not None:
        one = delta_over_rounds(setting, epsilon)
        width = np.where(one.upper >= floor, log_relative_width(one.lower, one.upper), np.nan)
        return Widths(setting, width, np.isnan(one.upper), int(np.sum(one.upper < floor)))
    lower, upper = setting.log_lower.max(axis=0), setting.log_upper.max(axis=0)
    width = np.where(upper >= floor, log_relative_width(lower, upper), np.nan)
    known = ~np.isnan(width)
    widest = np.max(np.where(known, width, -np.inf), axis=1)
    return Widths(setting, np.where(known.any(axis=1), widest, np.nan), np.all(np.isnan(upper), axis=1), 0)


def _draw(found: Sequence[Widths], axes: "Axes", epsilon: float | None, lowest: float) -> "Axes":
    missing = [(one.missing, one.setting.gap) for one in found]
    if all(np.isnan(one.width).all() for one in found):
        why = NO_LOWER if all(not one.setting.attained for one in found) else f"no δ above {lowest:g}"
        raise OffGridError(f"bounds: expected brackets to draw, got none: {'; '.join(gap_notes(missing)) or why}")
    title, labels = labelled([one.setting.columns for one in found])
    drawn = []
    for one, label in zip(found, labels, strict=True):
        with np.errstate(divide="ignore"):
            place = np.log10(one.width)
        drawn.append(np.where(np.isfinite(place), place, np.nan))
        axes.plot(
            one.setting.compositions,
            drawn[-1],
            label=label if len(found) > 1 else title or "brackets",
            **style_of(axes),
            linewidth=0.7,
        )
    sought = {one.setting.study.spec.sought for one in found if one.setting.study is not None}
    for tolerance in sorted(value for value in sought if value is not None):
        axes.axhline(
            math.log10(tolerance), color="black", linewidth=1.0, linestyle="--", label=f"tolerance {tolerance:g}"
        )
        drawn.append(np.array([math.log10(tolerance)]))
    rounds_axis(axes, [one.setting.compositions for one in found])
    decimal_axis(axes)
    limits = height_limits(drawn, [])
    if limits is not None:
        axes.set_ylim(*limits)
    width = np.concatenate([one.width for one in found])
    notes = gap_notes(missing)
    if np.isinf(width).any():
        notes.append(f"the lower bound is 0 at {int(np.isinf(width).sum()):,} points, which are not drawn")
    if np.any(width == 0.0):
        notes.append(f"the bounds are equal at {int(np.sum(width == 0.0)):,} points, which are not drawn")
    faint = sum(one.faint for one in found)
    if faint:
        notes.append(f"{faint:,} points with δ below {lowest:g} are not drawn")
    unattained = [label for one, label in zip(found, labels, strict=True) if not one.setting.attained]
    if unattained:
        notes.append(f"{'; '.join(unattained)}: {NO_LOWER}")
    at = f"ε = {exact(epsilon)}" if epsilon is not None else f"the widest of all ε with δ > {lowest:g}"
    finish(
        axes,
        title,
        at,
        x="r, rounds",
        y="upper / lower - 1, a ratio",
        notes=[*notes, GUIDE],
    )
    return axes


#: Points between stored ones at which what is proved there is drawn: about so many of a curve, and between two.
_FINE, _MOST_BETWEEN = 160, 16
#: What is less than the thickness of a line, as a part of a curve's height.
_THIN = 2e-3
#: Points by which δ has fallen between two stored ones: at most so many, down to so many nats below the left one.
_MOST_FALLS, _DEEPEST = 24, 600.0
#: A longer span, nats, has its points at equal distances only.
_MOST_SPAN = 600.0
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
    refuse_nothing(missing)
    title, labels = labelled([graph.columns for graph in graphs])
    earlier = [line.get_ydata() for line in axes.lines]
    for graph, label in zip(graphs, labels, strict=True):
        _draw_graph(axes, graph, label if len(graphs) > 1 else title)
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
    notes += unattained_note(labels, [graph.setting.attained for graph in graphs])
    notes += neighbours_notes((graph.columns, graph.setting.adjacency) for graph in graphs)
    finish(
        axes,
        title if shared is None else shared,
        x="ε, in nats",
        y="δ, a probability",
        notes=notes,
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


def _draw_graph(axes: "Axes", graph: Graph, label: str) -> None:
    style = style_of(axes)
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


#: Settings that are read for a comparison over noise.
_MOST_SETTINGS = 4096


def compare(
    bounds: Sources,
    *,
    over: str = "epsilon",
    compositions: int | None = None,
    epsilon: float | None = None,
    mechanism: str | None = None,
    direction: str = "both",
    target: tuple[float, float] | None = None,
    lowest: float = LOWEST,
    most: int = MOST_CURVES,
    axes: "Axes | None" = None,
    **noise: Any,
) -> "Axes":
    """Draw δ of several mechanisms at one r: over ε, or over the amount of noise at one ε.

    Parameters
    ----------
    bounds
        As for `epsilon_delta`; several sources by their names compare stores.
    over
        ``"epsilon"``, or ``"noise"``: a curve for all settings that differ in their amount of noise alone.
    compositions
        A stored r; by default the largest one.
    epsilon
        Over noise: ε in nats, by default the middle one.
    mechanism, **noise
        Which settings: a label, and parameters, each with one value or several; by default all.
    direction
        Over ε: as for `epsilon_delta`.
    target
        Over ε: ε in nats and δ, marked as a cross of two lines.
    lowest
        A δ below which the axis does not reach, unless a whole curve lies there; 0 for all there is.
    most
        The most curves that are drawn.
    axes
        Where to draw; by default axes of a new figure, ``.figure`` of what is returned.

    Returns
    -------
    matplotlib.axes.Axes
        The vertical axis holds log10 of δ.

    Raises
    ------
    InvalidInputError, OffGridError, StoreDamagedError, MissingDependencyError
        As `epsilon_delta`.
    """
    if over not in ("epsilon", "noise"):
        raise InvalidInputError(f"over: expected 'epsilon' or 'noise', got {shown(over)}")
    count = most if over == "epsilon" else _MOST_SETTINGS
    settings = chosen(bounds, mechanism=mechanism, noise=noise, direction=direction, most=count)
    r = int(max(settings[0].compositions)) if compositions is None else compositions
    if over == "epsilon":
        return draw_graphs(graphs_of(settings, r, most), axes_for(axes), target=target, lowest=lowest)
    if epsilon is None:
        epsilon = float(settings[0].epsilon[settings[0].epsilon.size // 2])
    return _over_noise(settings, (r, epsilon), axes_for(axes), most=most, lowest=lowest)


def _over_noise(
    settings: Sequence[StoredSetting], point: tuple[int, float], drawn: "Axes", *, most: int, lowest: float
) -> "Axes":
    r, epsilon = point
    studies = list(dict.fromkeys(setting.columns.get("study", "") for setting in settings))
    groups: list[tuple[NoiseGroup, list[StoredSetting]]] = []
    for study in studies:
        mine = [setting for setting in settings if setting.columns.get("study", "") == study]
        columns: dict[str, list[Any]] = {
            name: [setting.columns.get(name, "" if is_text(name) else math.nan) for setting in mine]
            for name in known_columns()
        }
        columns["pair"] = [setting.pair for setting in mine]
        groups += [(group, [mine[cell] for cell in group.cells]) for group in noise_groups(columns) if group.what]
    whats = list(dict.fromkeys(group.what for group, _ in groups))
    if len(whats) != 1:
        raise InvalidInputError(
            f"mechanism: expected settings with one kind of amount, got {'; '.join(whats) or 'none'}: choose one"
        )
    if len(groups) > most:
        raise InvalidInputError(f"mechanism: expected at most {most} curves in one plot, got {len(groups)}")
    at = [[_at(setting, r, epsilon) for setting in mine] for _, mine in groups]
    lower, upper = ([np.array([one[side] for one in points]) for points in at] for side in (0, 1))
    # A group has one reason for all of its gaps.
    missing = [
        (np.isnan(high), next((one.gap for one in mine if one.gap), ""))
        for high, (_, mine) in zip(upper, groups, strict=True)
    ]
    refuse_nothing(missing)
    named = [
        {**({"study": mine[0].columns["study"]} if len(studies) > 1 else {}), "mechanism": group.label, **group.fixed}
        for group, mine in groups
    ]
    title, labels = labelled(named)
    for (group, _), low, high, label in zip(groups, lower, upper, labels, strict=True):
        draw_points(drawn, np.array(group.amounts), low / LN10, high / LN10, label or title)
    amounts_axis(drawn, np.concatenate([group.amounts for group, _ in groups]))
    decimal_axis(drawn)
    limits = height_limits([high / LN10 for high in upper], [low / LN10 for low in lower], lowest_place(lowest))
    if limits is not None:
        drawn.set_ylim(*limits)
    notes = [*gap_notes(missing), *width_note(lower, upper), *zero_note(upper)]
    if any(not one.attained for _, mine in groups for one in mine):
        notes.append(NO_LOWER)
    notes += neighbours_notes((one.columns, one.adjacency) for _, mine in groups for one in mine)
    finish(
        drawn,
        title,
        f"r = {r:,}, ε = {exact(epsilon)}",
        x=whats[0],
        y="δ, a probability",
        notes=[*notes, GUIDE],
    )
    return drawn


def _at(setting: StoredSetting, r: int, epsilon: float) -> tuple[float, float]:
    """Return the bounds on ln δ of a setting at one point."""
    row = one_of(setting.compositions.tolist(), r, COMPOSITIONS)
    one = replace(
        setting,
        compositions=setting.compositions[row : row + 1],
        log_lower=setting.log_lower[:, row : row + 1],
        log_upper=setting.log_upper[:, row : row + 1],
    )
    found = delta_over_rounds(one, epsilon)
    return float(found.lower[0]), float(found.upper[0])
