"""Plots of stored bounds: δ over ε, and δ or ε over r."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import checked_adjacency
from pbdist.query.convex_delta import Curve as ConvexDelta
from pbdist.query.study import BETWEEN
from pbdist.report.plots import frame
from pbdist.report.plots.frame import LN10, LOWEST, equal_to
from pbdist.report.plots.selection import MAX_CURVES, Curve, Sources, StoredSetting, chosen, named, row_of
from pbdist.results import DeltaBounds, EpsilonBounds
from pbdist.study.fields import nearest_exponential, nearest_match
from pbdist.types import COMPOSITIONS, DELTA, DIRECTION, FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: An axis of ε is logarithmic if its values vary by more.
_RATIO = 30.0
#: Points at which a curve is drawn between stored ε: about so many of each kind, and so many between two at most.
_FINE, _MAX_BETWEEN = 160, 24
#: Nats by which δ falls, and ε rises, between two of them at most.
_DEEPEST = 600.0
#: The upper bound on the logarithm of a mass that is not known to be 1: more than any histogram has.
_ANY_MASS = 1e3
_MARKED = 12


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
        or several of them in a dictionary, whose keys stand in the legend.
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
    curves = curves_of(settings, compositions)
    axes, title, labels, notes = frame.begin(curves, axes)
    earlier = [np.asarray(line.get_ydata(), dtype=np.float64) * LN10 for line in axes.lines]
    for one, label in zip(curves, labels, strict=True):
        _draw_band(axes, one, label or title)
    frame.wide_axis(axes, np.concatenate([one.places for one in curves]), ratio=_RATIO)
    uppers, lowers = [one.upper for one in curves], [one.lower for one in curves]
    hidden = frame.show_decades(axes, [*uppers, *earlier], lowers, lowest)
    if target is not None:
        axes.axvline(target[0], color="black", linewidth=0.8, linestyle=":")
        words = f"target: {equal_to('ε', target[0])}, {equal_to('δ', target[1])}"
        axes.axhline(math.log10(target[1]), color="black", linewidth=0.8, linestyle=":", label=words)
    notes += [*frame.width_note(lowers, uppers, axes.get_ylim()[0] * LN10), *hidden]
    notes += frame.setting_notes(labels, curves)
    frame.finish(axes, title, x="ε, in nats", y="δ, a probability", notes=notes)
    return axes


def curves_of(settings: Sequence[StoredSetting], compositions: int | Sequence[int] | None) -> list[Curve]:
    """Return ln δ over ε of settings at some r: all, or the largest one where all would be too many."""
    wanted = None if compositions is None else np.atleast_1d(np.asarray(compositions)).tolist()
    if wanted is None and sum(one.compositions.size * len(one.directions) for one in settings) > MAX_CURVES:
        wanted = [max(int(r) for setting in settings for r in setting.compositions)]
    curves = []
    for setting in settings:
        stored = setting.compositions.tolist()
        for row in range(len(stored)) if wanted is None else [row_of(stored, r) for r in wanted]:
            for axis, name in enumerate(setting.directions):
                columns: Any = {DIRECTION: name.replace("||", "‖")} if name != "both" else {}
                values = setting.log_lower[axis, row], setting.log_upper[axis, row]
                curves.append(setting.curve(setting.epsilon, *values, **columns, compositions=int(stored[row])))
    if len(curves) > MAX_CURVES:
        raise InvalidInputError(f"compositions: expected at most {MAX_CURVES} curves in one plot, got {len(curves)}")
    return curves


def bounds_at(curve: Curve, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the bounds on ln δ that the stored ones prove at any ε; NaN next to missing points.

    At stored ε they are the stored ones.
    """
    known, below = ~np.isnan(curve.upper), ~np.isnan(curve.lower)
    lower, upper = (np.full(epsilon.shape, np.nan) for _ in range(2))
    if known.any():
        points = curve.places[known], curve.upper[known], curve.places[below], curve.lower[below]
        convex = ConvexDelta(*points, 0.0 if curve.exact_masses else _ANY_MASS)
        upper = convex.log_upper(epsilon)
        lower = convex.log_lower(epsilon) if below.any() else lower
    right = np.minimum(np.searchsorted(curve.places, epsilon, side="left"), curve.places.size - 1)
    stored = curve.places[right] == epsilon
    left = np.where(stored, right, np.maximum(right - 1, 0))
    gap = ~(known[left] & known[right])
    lower[gap], upper[gap] = np.nan, np.nan
    lower[stored], upper[stored] = curve.lower[right[stored]], curve.upper[right[stored]]
    return lower, upper


def proved_line(curve: Curve) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ε, lower and upper bounds on ln δ, so that straight lines between them are bounds; NaN at gaps.

    Each ε but the last stands twice, so that the lower bound is a staircase: right behind an ε it falls to what holds
    up to the next one. Between neighbouring ε the upper bound is above a straight line by less than a line's thickness.
    """
    fine = _fine(curve)
    lower, upper = bounds_at(curve, fine)
    doubled = np.repeat(lower, 2)
    return np.repeat(fine, 2)[:-1], doubled[[0, *range(2, doubled.size)]], np.repeat(upper, 2)[:-1]


def _fine(curve: Curve) -> FloatArray:
    """Return stored ε with points between them.

    Some are equally far apart. At others the chord over e^ε between the upper bounds has fallen by equal factors, so
    that it is nearly straight between them on an axis of powers of ten.
    """
    epsilon, high = curve.places, curve.upper
    count = max(2, min(_MAX_BETWEEN, _FINE // max(1, epsilon.size - 1)))
    part = np.arange(1, count) / count
    found = [epsilon]
    for left, right, top, bottom in zip(epsilon, epsilon[1:], high, high[1:], strict=False):
        if math.isnan(top) or math.isnan(bottom):
            continue
        fall = max(min(float(top - bottom), _DEEPEST), 1e-9) if math.isfinite(top) else 1e-9
        # y = y₁ + part (y₂ - y₁), by logarithms; of a longer span e^ε is no float.
        falls = np.expm1(-fall * part) / np.expm1(-fall)
        steep = left + np.log1p(falls * np.expm1(min(float(right - left), _DEEPEST)))
        found += [left + (right - left) * part, steep[(steep > left) & (steep < right)]]
    return np.unique(np.concatenate(found))


def _draw_band(axes: "Axes", curve: Curve, label: str) -> None:
    style = frame.style_of(axes)
    places, low, high = proved_line(curve)
    known = 2 * np.flatnonzero(np.isin(places[::2], curve.places) & np.isfinite(high[::2]))
    if not known.size:
        axes.plot([], [], label=f"{label}: {curve.gap or 'δ is 0'}", **style)
        return
    # Markers of curves that lie close together stand at different places.
    every = max(1, known.size // _MARKED)
    marks = known[len(axes.collections) % every :: every].tolist()
    low, high = low / LN10, np.where(np.isneginf(high), np.nan, high / LN10)
    filled = np.where(np.isneginf(low), float(np.nanmin(high)) - 1e3, low)
    axes.fill_between(places, filled, high, color=style["color"], alpha=0.25, linewidth=0.0)
    edge = np.where(np.isneginf(low), np.nan, low)
    axes.plot(places, edge, color=style["color"], linestyle=style["linestyle"], linewidth=0.7)
    axes.plot(places, high, label=label, markevery=marks, **style)


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
        ``pbdist.open_study(..)``, for any ε and δ; its ``bounds`` or what `pbdist.privacy_bounds` returns, for δ at
        their own ε; what `pbdist.epsilon_bounds` returns, for ε at its own δ; or several of one kind in a dictionary.
    epsilon, exp_epsilon, delta
        At most one: ε in nats, e^ε or δ. By default the middle ε there is, or of `pbdist.epsilon_bounds` the first δ.
    mechanism, lowest, axes, **noise
        As for `epsilon_delta`, and so are what is returned, of δ, and the errors.
    """
    if sum(value is not None for value in (epsilon, exp_epsilon, delta)) > 1:
        raise InvalidInputError("delta: give only one of epsilon, exp_epsilon and delta")
    if delta is not None and not 0.0 < delta < 1.0:
        raise InvalidInputError(f"delta: expected a number between 0 and 1, got {delta!r}")
    if exp_epsilon is not None and not exp_epsilon >= 1.0:
        raise InvalidInputError(f"exp_epsilon: expected a number of at least 1, got {exp_epsilon!r}")
    if all(isinstance(source, xr.Dataset) and "epsilon_upper" in source for _, source in named(bounds)):
        curves, delta = _of_epsilon_bounds(bounds, delta)
    else:
        settings = chosen(bounds, mechanism=mechanism, noise=noise)
        if exp_epsilon is not None:
            epsilon = math.log(exp_epsilon)
        elif epsilon is None and delta is None:
            epsilon = float(settings[0].epsilon[settings[0].epsilon.size // 2])
        curves = [
            _delta_over_rounds(one, epsilon, exp_epsilon) if epsilon is not None else _epsilon_over_rounds(one, delta)
            for one in settings
        ]
    at = next(
        equal_to(name, value)
        for name, value in (("δ", delta), ("e^ε", exp_epsilon), ("ε", epsilon))
        if value is not None
    )
    of_delta = delta is None
    axes, title, labels, notes = frame.begin(curves, axes)
    scale = LN10 if of_delta else 1.0
    for one, label in zip(curves, labels, strict=True):
        frame.draw_points(axes, one.places, one.lower / scale, one.upper / scale, label or title or "bounds")
    frame.wide_axis(axes, np.concatenate([one.places for one in curves]), base=2)
    lowers, uppers = [one.lower for one in curves], [one.upper for one in curves]
    if of_delta:
        hidden = frame.show_decades(axes, uppers, lowers, lowest)
        notes += [*frame.width_note(lowers, uppers), *hidden]
    else:
        values = np.concatenate(uppers)
        frame.wide_axis(axes, values[values > 0.0], "y", ratio=_RATIO)
        unknown = int(np.isposinf(values).sum())
        if unknown:
            points = f"{unknown:,} point{'s' * (unknown > 1)}"
            notes.append(f"no upper bound on ε is known at {points} (arrows): the stored ε do not reach it")
    notes += [*frame.wide_note(curves), *frame.setting_notes(labels, curves), frame.GUIDE]
    frame.finish(axes, title, at, x="r, rounds", y="δ, a probability" if of_delta else "ε, in nats", notes=notes)
    return axes


def _delta_over_rounds(setting: StoredSetting, epsilon: float, exp_epsilon: float | None = None) -> Curve:
    """Return the bounds on ln δ of a setting at one ε and all stored r; of a study also at an ε that is not stored."""
    stored, study = tuple(setting.epsilon.tolist()), setting.study
    index = nearest_match(stored, epsilon) if exp_epsilon is None else nearest_exponential(stored, exp_epsilon)
    if index is not None:
        lower, upper = (values.max(axis=0)[:, index] for values in (setting.log_lower, setting.log_upper))
        return setting.curve(setting.compositions, lower, upper)
    if study is None:
        near = ", ".join(f"{value:.10g}" for value in stored[:12])
        raise InvalidInputError(f"epsilon: expected one of {near}, got {epsilon!r}: an opened study answers any ε")

    return _over_rounds(
        setting, lambda r: study.delta(compositions=r, epsilon=epsilon, strict="silent", **setting.query)
    )


def _epsilon_over_rounds(setting: StoredSetting, delta: float | None) -> Curve:
    """Return the bounds on ε of a setting at one δ and all stored r; of a Dataset it is refused."""
    study = setting.study
    if study is None:
        raise InvalidInputError("delta: expected an opened study, or the Dataset of epsilon_bounds, for ε at a δ")

    return _over_rounds(setting, lambda r: study.epsilon(compositions=r, delta=delta, strict="silent", **setting.query))


def _over_rounds(setting: StoredSetting, ask: Callable[[IntArray], DeltaBounds | EpsilonBounds]) -> Curve:
    """Return the answers of a study at all r at which it has a point; others are gaps."""
    lower, upper = (np.full(setting.compositions.shape, np.nan) for _ in range(2))
    there = ~np.isnan(setting.log_upper).all(axis=(0, 2))
    wide = 0
    if there.any():
        found = ask(setting.compositions[there])
        if isinstance(found, DeltaBounds):
            lower[there], upper[there] = found.log_lower, found.log_upper
        else:
            lower[there], upper[there] = found.lower, found.upper
        wide = 0 if found.why_wide is None else int(np.count_nonzero(found.why_wide == BETWEEN))
    return setting.curve(setting.compositions, lower, upper, wide=wide)


def _of_epsilon_bounds(bounds: Sources, delta: float | None) -> tuple[list[Curve], float]:
    """Return the curves of Datasets of `pbdist.epsilon_bounds` at a δ, by default the first one, and that δ."""
    curves = []
    for name, source in named(bounds):
        one = source.expand_dims([dim for dim in (COMPOSITIONS, DELTA) if dim not in source.dims])  # type: ignore[union-attr]
        delta = float(one[DELTA].values[0]) if delta is None else delta
        index = nearest_match(tuple(sorted(one[DELTA].values.tolist())), delta)
        if index is None or DIRECTION in one.dims:
            known = one[DELTA].values.tolist()
            raise InvalidInputError(f"delta: expected one of {known}, of the larger direction, got {delta!r}")
        one = one.sortby(DELTA).transpose(COMPOSITIONS, DELTA)
        lower, upper = (one[f"epsilon_{side}"].values[:, index] for side in ("lower", "upper"))
        adjacency = checked_adjacency(one.attrs.get("adjacency"))
        attained = not np.isnan(lower).all()
        columns = {"study": name} if name else {}
        curves.append(Curve(columns, one[COMPOSITIONS].values, lower, upper, "", attained, adjacency))
    assert delta is not None  # noqa: S101 -- there is at least one source
    return curves, delta
