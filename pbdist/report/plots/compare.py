"""Settings compared: the ratio of their δ, and the noise that each needs for the same δ."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.errors import InvalidInputError, OffGridError, shown
from pbdist.quantities import counted
from pbdist.query import noise_choices
from pbdist.report.plots import frame
from pbdist.report.plots.bounds import bounds_at, curves_of
from pbdist.report.plots.frame import LOWEST
from pbdist.report.plots.noise import over_amounts, own_target, picked
from pbdist.report.plots.selection import MAX_CURVES, Curve, Sources, StoredSetting, chosen, named, opened
from pbdist.rounding import brief
from pbdist.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def compare(
    bounds: Sources,
    *,
    over: str = "epsilon",
    compositions: int | None = None,
    epsilon: float | None = None,
    reference: str | None = None,
    mechanism: str | None = None,
    lowest: float = LOWEST,
    axes: "Axes | None" = None,
    **noise: Any,
) -> "Axes":
    """Compare settings at one r: their δ over that of a reference, or the noise that each needs for the same δ.

    Over ε the points are the ε that are stored of either setting; a bar joins what the bounds prove the ratio of the
    two δ to be at least and at most. Over noise a thick line is the least tabulated noise that is proved to meet the δ
    on the horizontal axis, a thin one the most below it that is refuted, and nothing is said of noise between them.

    Parameters
    ----------
    bounds, mechanism, axes, **noise
        As for `epsilon_delta`, over noise as for `noise`, and so are the errors; several sources by their names compare
        stores.
    over
        ``"epsilon"``, or ``"noise"``: a curve for all settings that differ in their amount of noise alone.
    compositions
        Over ε a stored r, by default the largest one; over noise any, by default as of `noise`.
    epsilon
        Over noise: ε in nats, by default as of `noise`.
    reference
        Over ε: the setting that the others are compared with, by its label in the legend, its mechanism or its
        source's name; by default the first one.
    lowest
        A δ below which nothing is compared; 0 for all there is.
    """
    if over not in ("epsilon", "noise"):
        raise InvalidInputError(f"over: expected 'epsilon' or 'noise', got {shown(over)}")
    name, value, other = ("epsilon", epsilon, "noise") if over == "epsilon" else ("reference", reference, "epsilon")
    if value is not None:
        raise InvalidInputError(f"{name}: belongs to over {other}, and not to over {over}: leave it out")
    end = math.log(lowest) if lowest else -np.inf
    if over == "noise":
        point = {"compositions": compositions, "epsilon": epsilon, "mechanism": mechanism}
        return _noise_needed(bounds, point, noise, end, axes)
    settings = chosen(bounds, mechanism=mechanism, noise=noise)
    r = int(max(settings[0].compositions)) if compositions is None else compositions
    return _ratios(settings, r, reference, end, axes)


def _ratios(
    settings: Sequence[StoredSetting], r: int, reference: str | None, end: float, axes: "Axes | None"
) -> "Axes":
    curves = curves_of(settings, r)
    if len(curves) < 2:
        raise InvalidInputError("mechanism: expected at least two settings to compare, got one")
    _, labels = frame.labelled([one.columns for one in curves])
    names = [{label, *map(str, one.columns.values())} for label, one in zip(labels, curves, strict=True)]
    first = next((row for row, known in enumerate(names) if reference is None or reference in known), None)
    if first is None:
        raise InvalidInputError(f"reference: expected one of {'; '.join(labels)}, got {shown(reference)}")
    axes, title, _, notes = frame.begin(curves, axes)
    axes.axhline(1.0, color="black", linewidth=1.0, linestyle="--", label=f"{labels[first]} (the reference)")
    faint = unknown = 0
    ratios = []
    for row, (one, label) in enumerate(zip(curves, labels, strict=True)):
        if row == first:
            continue
        epsilon = np.union1d(one.places, curves[first].places)
        (lower, upper), (least, most) = bounds_at(one, epsilon), bounds_at(curves[first], epsilon)
        with np.errstate(invalid="ignore"):
            low, high = lower - most, upper - least
        # A lower bound that is not known counts as one of 0.
        known = ~np.isnan(upper) & ~np.isnan(most)
        low = np.where(np.isnan(low) & known, -np.inf, low)
        high = np.where(np.isnan(high) & known, np.inf, high)
        hidden = np.minimum(upper, most) < end
        nothing = np.isneginf(low) & np.isposinf(high) & ~hidden
        faint, unknown = faint + int(hidden.sum()), unknown + int(nothing.sum())
        low, high = (np.where(hidden | nothing, np.nan, np.exp(side)) for side in (low, high))
        ratios += [low, high]
        frame.draw_points(axes, epsilon, low, high, label)
    values = np.concatenate([*ratios, [1.0]])
    values = values[np.isfinite(values) & (values > 0.0)]
    if values.size < 2:
        raise OffGridError("bounds: expected ratios to draw, got none: no δ of the reference is known and above 0")
    frame.wide_axis(axes, values, "y")
    frame.wide_axis(axes, np.concatenate([one.places for one in curves]), ratio=30.0)
    if unknown:
        notes.append(f"{counted(unknown, 'ratio')} not drawn, of which no bound is known")
    if faint:
        notes.append(f"{counted(faint, 'ratio')} not drawn, of δ below {brief(math.exp(end), 3)}")
    if any(np.isposinf(one).any() for one in ratios):
        notes.append("arrows start at the least ratio: the lower bound of the reference is 0 there, or not known")
    notes += [*frame.setting_notes(labels, curves), frame.GUIDE]
    name = labels[first] if len(labels[first]) <= 24 else "the reference"
    frame.finish(axes, title, x="ε, in nats", y=f"δ / δ of {name}", notes=notes, legend=True)
    return axes


def _noise_needed(
    bounds: Sources, point: Mapping[str, Any], noise: Mapping[str, Any], end: float, axes: "Axes | None"
) -> "Axes":
    sources = [(name, opened(source)) for name, source in named(bounds)]
    own = own_target(sources[0][1])
    r = own.compositions if point["compositions"] is None else point["compositions"]
    epsilon = own.epsilon if point["epsilon"] is None else point["epsilon"]
    groups = []
    for name, study in sources:
        # Its δ decides nothing here: all bounds are drawn.
        found = noise_choices(study, compositions=r, epsilon=epsilon, delta=0.5, mechanism=point["mechanism"])
        groups += [(name, choice) for choice in picked(found, noise, MAX_CURVES)]
    frame.one_amount([choice for _, choice in groups])
    if len(groups) > MAX_CURVES:
        raise InvalidInputError(f"mechanism: expected at most {MAX_CURVES} curves in one plot, got {len(groups)}")
    curves = [over_amounts(choice, **({"study": name} if name else {})) for name, choice in groups]
    axes, title, labels, notes = frame.begin(curves, axes)
    every = np.concatenate([side for one in curves for side in (one.lower, one.upper)])
    every = every[np.isfinite(every)]
    drawn = every[every >= end] if np.any(every >= end) else every
    if not drawn.size:
        raise OffGridError("bounds: expected a δ above 0 to compare at, got none")
    spare = max(0.5, 0.05 * float(np.ptp(drawn)))
    ends = float(drawn.min()) - spare, min(0.0, float(drawn.max()) + spare)
    for one, label in zip(curves, labels, strict=True):
        _draw_stairs(axes, one, label or title, ends)
    axes.set_xscale("log")
    axes.set_xlim(*map(math.exp, ends))
    frame.wide_axis(axes, np.concatenate([one.places for one in curves]), "y")
    faint = int(sum((one.upper < ends[0]).sum() for one in curves))
    if faint:
        notes.append(f"of {counted(faint, 'setting')} δ is smaller than what is drawn")
    notes += frame.setting_notes(labels, curves)
    notes.append("thick: the least tabulated noise proved to meet a δ; thin: the most below it that is refuted")
    at = f"r = {r:,}", frame.equal_to("ε", epsilon)
    what = groups[0][1].what
    frame.finish(axes, title, *at, x="δ that is to be met, a probability", y=what, notes=notes, legend=True)
    return axes


def _draw_stairs(axes: "Axes", curve: Curve, label: str, ends: tuple[float, float]) -> None:
    """Draw over δ the least noise that meets it, and the most below that which is refuted."""
    values = np.concatenate((curve.upper, curve.lower, ends))
    places = np.unique(np.clip(values[~np.isnan(values)], *ends))
    meets, refuted = needed_noise(curve.places, curve.lower, curve.upper, places)
    # Where the line starts and where it falls.
    marks = 2 * np.flatnonzero(np.isfinite(meets) & (np.diff(np.nan_to_num(meets, nan=-1.0), prepend=-2.0) != 0.0))
    at = np.repeat(np.exp(places), 2)[1:]
    meets, refuted = (np.repeat(stairs, 2)[:-1] for stairs in (meets, refuted))
    style = frame.style_of(axes)
    axes.plot(at, meets, label=label, markevery=marks.tolist(), **style)
    axes.plot(at, refuted, color=style["color"], linewidth=0.7)
    axes.fill_between(at, refuted, meets, color=style["color"], alpha=0.15, linewidth=0.0)


def needed_noise(
    amounts: FloatArray, low: FloatArray, high: FloatArray, places: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return for each ln δ the least amount whose upper bound is at most that, and the most below it that is refuted.

    NaN where there is none.
    """
    met, no = high[:, np.newaxis] <= places, low[:, np.newaxis] > places
    meets = np.min(np.where(met, amounts[:, np.newaxis], np.inf), axis=0)
    refuted = np.max(np.where(no & (amounts[:, np.newaxis] < meets), amounts[:, np.newaxis], -np.inf), axis=0)
    return np.where(np.isinf(meets), np.nan, meets), np.where(np.isinf(refuted), np.nan, refuted)
