"""Plots of stored bounds: δ over ε, and δ or ε over r."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import checked_adjacency
from pbdist.quantities import counted
from pbdist.query.convex_delta import Curve as ConvexDelta
from pbdist.report.plots import frame
from pbdist.report.plots.frame import LOWEST, equal_to
from pbdist.report.plots.selection import MAX_CURVES, Curve, Sources, StoredSetting, chosen, named, row_of
from pbdist.rounding import brief
from pbdist.study.fields import nearest_exponential, nearest_match
from pbdist.types import COMPOSITIONS, DELTA, DIRECTION, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: An axis of ε is logarithmic if its values vary by more.
_RATIO = 30.0
#: Parts of the way from a stored ε to the next at which a curve is drawn: near the next one the chord between upper
#: bounds falls steeply. Of a fine grid fewer, so that a curve has about so many points.
_PARTS: FloatArray = np.union1d(np.linspace(0.0, 1.0, 9)[1:-1], 1.0 - 0.7 ** np.arange(1.0, 25.0))
_POINTS = 150
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
        The vertical axis is a logarithmic one of δ.

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
    uppers, lowers = [one.upper for one in curves], [one.lower for one in curves]
    hidden = frame.delta_axis(axes, list(map(np.exp, uppers)), list(map(np.exp, lowers)), lowest)
    for one, label in zip(curves, labels, strict=True):
        _draw_band(axes, one, label or title)
    frame.wide_axis(axes, np.concatenate([one.places for one in curves]), ratio=_RATIO)
    if target is not None:
        axes.axvline(target[0], color="black", linewidth=0.8, linestyle=":")
        words = f"target: {equal_to('ε', target[0])}, {equal_to('δ', target[1])}"
        axes.axhline(target[1], color="black", linewidth=0.8, linestyle=":", label=words)
    where = "the stored points; between them the band is wider"
    notes += [*frame.width_note(lowers, uppers, math.log(axes.get_ylim()[0]), where), *hidden]
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
    parts = _PARTS[:: -max(1, curve.places.size * _PARTS.size // _POINTS)]
    between = np.add.outer(np.zeros(parts.size), curve.places[:-1]) + np.multiply.outer(parts, np.diff(curve.places))
    fine = np.union1d(curve.places, between)
    lower, upper = bounds_at(curve, fine)
    return np.repeat(fine, 2)[:-1], np.append(lower[:1], np.repeat(lower[1:], 2)), np.repeat(upper, 2)[:-1]


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
    low, high = np.exp(low), np.exp(high)
    axes.fill_between(places, low, high, color=style["color"], alpha=0.25, linewidth=0.0)
    axes.plot(places, low, color=style["color"], linestyle=style["linestyle"], linewidth=0.7)
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
    every = {"epsilon": epsilon, "exp_epsilon": exp_epsilon, "delta": delta}
    given = {name: value for name, value in every.items() if value is not None}
    if len(given) > 1:
        raise InvalidInputError("delta: give only one of epsilon, exp_epsilon and delta")
    if delta is not None and not 0.0 < delta < 1.0:
        raise InvalidInputError(f"delta: expected a number between 0 and 1, got {delta!r}")
    if exp_epsilon is not None and not exp_epsilon >= 1.0:
        raise InvalidInputError(f"exp_epsilon: expected a number of at least 1, got {exp_epsilon!r}")
    if all(isinstance(source, xr.Dataset) and "epsilon_upper" in source for _, source in named(bounds)):
        curves, delta = _of_epsilon_bounds(bounds, delta)
        given = {"delta": delta}
    else:
        settings = chosen(bounds, mechanism=mechanism, noise=noise)
        given = given or {"epsilon": float(settings[0].epsilon[settings[0].epsilon.size // 2])}
        curves = [_over_rounds(one, *next(iter(given.items()))) for one in settings]
    ((quantity, value),) = given.items()
    at = equal_to({"epsilon": "ε", "exp_epsilon": "e^ε", "delta": "δ"}[quantity], value)
    axes, title, labels, notes = frame.begin(curves, axes)
    lowers, uppers = [one.lower for one in curves], [one.upper for one in curves]
    if delta is None:
        notes += frame.width_note(lowers, uppers, -np.inf, "the points drawn")
        lowers, uppers = list(map(np.exp, lowers)), list(map(np.exp, uppers))
        notes += frame.delta_axis(axes, uppers, lowers, lowest)
    for one, low, high, label in zip(curves, lowers, uppers, labels, strict=True):
        frame.draw_points(axes, one.places, low, high, label or title or "bounds")
    frame.wide_axis(axes, np.concatenate([one.places for one in curves]), base=2)
    if delta is not None:
        values = np.concatenate(uppers)
        frame.wide_axis(axes, values[values > 0.0], "y", ratio=_RATIO)
        unknown = int(np.isposinf(values).sum())
        if unknown:
            points = counted(unknown, "point")
            notes.append(f"no upper bound on ε is known at {points} (arrows): the stored ε do not reach it")
    notes += [*frame.setting_notes(labels, curves), frame.GUIDE]
    y = "δ, a probability" if delta is None else "ε, in nats"
    frame.finish(axes, title, at, x="r, rounds", y=y, notes=notes)
    return axes


def _over_rounds(setting: StoredSetting, name: str, value: float) -> Curve:
    """Return bounds over all stored r: on ε at a δ, or on ln δ at an ε or e^ε, which an opened study answers all."""
    study, places = setting.study, setting.compositions
    if name != "delta":
        stored = tuple(setting.epsilon.tolist())
        index = nearest_match(stored, value) if name == "epsilon" else nearest_exponential(stored, value)
        if index is not None:
            lower, upper = (values.max(axis=0)[:, index] for values in (setting.log_lower, setting.log_upper))
            return setting.curve(places, lower, upper)
    if study is None:
        known = "" if name == "delta" else f" one of {', '.join(brief(each, 10) for each in stored[:12])}, or"
        raise InvalidInputError(f"{name}: expected{known} an opened study, which answers any {name}, got {value!r}")
    lower, upper = (np.full(places.shape, np.nan) for _ in range(2))
    there = ~np.isnan(setting.log_upper).all(axis=(0, 2))
    if there.any():
        ask: Any = study.epsilon if name == "delta" else study.delta
        found = ask(compositions=places[there], strict="silent", **{name: value}, **setting.query)
        prefix = "" if name == "delta" else "log_"
        lower[there], upper[there] = getattr(found, f"{prefix}lower"), getattr(found, f"{prefix}upper")
    return setting.curve(places, lower, upper)


def _of_epsilon_bounds(bounds: Sources, delta: float | None) -> tuple[list[Curve], float]:
    """Return the curves of Datasets of `pbdist.epsilon_bounds` at a δ, by default the first one, and that δ."""
    curves = []
    wanted = math.nan if delta is None else delta
    for name, source in named(bounds):
        one = source.expand_dims([dim for dim in (COMPOSITIONS, DELTA) if dim not in source.dims])  # type: ignore[union-attr]
        known = one[DELTA].values.tolist()
        wanted = known[0] if math.isnan(wanted) else wanted
        index = nearest_match(tuple(sorted(known)), wanted)
        if index is None or DIRECTION in one.dims:
            raise InvalidInputError(f"delta: expected one of {known}, of the larger direction, got {wanted!r}")
        one = one.sortby(DELTA).transpose(COMPOSITIONS, DELTA)
        lower, upper = (one[f"epsilon_{side}"].values[:, index] for side in ("lower", "upper"))
        relation = checked_adjacency(one.attrs.get("adjacency"))
        columns, attained = {"study": name} if name else {}, not np.isnan(lower).all()
        curves.append(Curve(columns, one[COMPOSITIONS].values, lower, upper, attained=attained, adjacency=relation))
    return curves, wanted
