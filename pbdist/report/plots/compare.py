"""Settings compared: the ratio of their δ, and the noise that each needs for the same δ."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.errors import InvalidInputError, OffGridError, shown
from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query.noise_choice import NoiseGroup, noise_groups
from pbdist.report.plots.bounds import Rounds, bounds_at, delta_over_rounds, graphs_of, middle_epsilon, wide_note
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
    style_of,
    wide_axis,
)
from pbdist.report.plots.selection import MAX_CURVES, Sources, StoredSetting, chosen, one_of
from pbdist.types import COMPOSITIONS, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Settings that are read for a comparison of noise.
_MAX_SETTINGS = 4096


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
    two δ to be at least and at most. Over noise a thick line is the least tabulated noise that is proved to meet a δ,
    a thin one the most below it that is refuted, and nothing is said of noise between them.

    Parameters
    ----------
    bounds, mechanism, axes, **noise
        As for `epsilon_delta`, and so are the errors; several sources by their names compare stores.
    over
        ``"epsilon"``, or ``"noise"``: a curve for all settings that differ in their amount of noise alone.
    compositions
        A stored r; by default the largest one.
    epsilon
        Over noise: ε in nats, by default the middle one.
    reference
        Over ε: the setting that the others are compared with, by its label in the legend, its mechanism or its
        source's name; by default the first one.
    lowest
        A δ below which nothing is compared; 0 for all there is.

    Returns
    -------
    matplotlib.axes.Axes
        Over ε the vertical axis holds log10 of the ratio, over noise the horizontal one log10 of δ.
    """
    if over not in ("epsilon", "noise"):
        raise InvalidInputError(f"over: expected 'epsilon' or 'noise', got {shown(over)}")
    for name, value, other in (("epsilon", epsilon, "noise"), ("reference", reference, "epsilon")):
        if value is not None and over != other:
            raise InvalidInputError(
                f"{name}: expected none over {over}, got {shown(value)}: it belongs to over={other}"
            )
    count = MAX_CURVES if over == "epsilon" else _MAX_SETTINGS
    settings = chosen(bounds, mechanism=mechanism, noise=noise, most=count)
    r = int(max(settings[0].compositions)) if compositions is None else compositions
    end = math.log(lowest) if lowest else -np.inf
    if over == "epsilon":
        return _ratios(settings, r, reference, end, axes)
    return _needed(settings, r, middle_epsilon(settings) if epsilon is None else epsilon, end, axes)


def _ratios(
    settings: Sequence[StoredSetting], r: int, reference: str | None, end: float, axes: "Axes | None"
) -> "Axes":
    graphs = graphs_of(settings, r)
    if len(graphs) < 2:
        raise InvalidInputError("mechanism: expected at least two settings to compare, got one")
    missing = [(np.isnan(graph.log_upper), graph.setting.gap) for graph in graphs]
    refuse_nothing(missing)
    title, labels = labelled([graph.columns for graph in graphs])
    first = 0
    if reference is not None:
        names = [{label, *map(str, graph.columns.values())} for label, graph in zip(labels, graphs, strict=True)]
        first = next((row for row, told in enumerate(names) if reference in told), -1)
        if first < 0:
            raise InvalidInputError(f"reference: expected one of {'; '.join(labels)}, got {shown(reference)}")
    axes = axes_for(axes)
    faint = unknown = 0
    every = []
    axes.axhline(0.0, color="black", linewidth=1.0, linestyle="--", label=f"{labels[first]} (the reference)")
    for row, (graph, label) in enumerate(zip(graphs, labels, strict=True)):
        if row == first:
            continue
        epsilon = np.union1d(graph.epsilon, graphs[first].epsilon)
        (lower, upper), (least, most) = bounds_at(graph, epsilon), bounds_at(graphs[first], epsilon)
        with np.errstate(invalid="ignore"):
            low, high = lower - most, upper - least
        # Of a lower bound that is not known as of one that is 0.
        low = np.where(np.isnan(low) & ~np.isnan(upper) & ~np.isnan(most), -np.inf, low)
        high = np.where(np.isnan(high) & ~np.isnan(upper) & ~np.isnan(most), np.inf, high)
        hidden = np.minimum(upper, most) < end
        nothing = np.isneginf(low) & np.isposinf(high) & ~hidden
        faint, unknown = faint + int(hidden.sum()), unknown + int(nothing.sum())
        low, high = (np.where(hidden | nothing, np.nan, one) / LN10 for one in (low, high))
        every += [low, high]
        draw_points(axes, epsilon, low, high, label)
    values = np.concatenate([*every, [0.0]])
    values = values[np.isfinite(values)]
    if values.size < 2:
        raise OffGridError("bounds: expected ratios to draw, got none: no δ of the reference is known and above 0")
    spare = max(0.04 * float(np.ptp(values)), 0.01)
    axes.set_ylim(float(values.min()) - spare, float(values.max()) + spare)
    decimal_axis(axes)
    wide_axis(axes, np.concatenate([graph.epsilon for graph in graphs]), ratio=30.0)
    notes = gap_notes(missing)
    if unknown:
        notes.append(f"{counted(unknown, 'ratio')} not drawn, of which no bound is known")
    if faint:
        notes.append(f"{counted(faint, 'ratio')} not drawn, of δ below {math.exp(end):.3g}")
    if any(np.isposinf(one).any() for one in every):
        notes.append("arrows start at the least ratio: the lower bound of the reference is 0 there, or not known")
    notes += setting_notes(labels, [graph.setting for graph in graphs])
    name = labels[first] if len(labels[first]) <= 24 else "the reference"
    finish(axes, title, x="ε, in nats", y=f"δ / δ of {name}", notes=[*notes, GUIDE], legend=True)
    return axes


def _needed(settings: Sequence[StoredSetting], r: int, epsilon: float, end: float, axes: "Axes | None") -> "Axes":
    groups = _groups(settings)
    points = [[_at(setting, r, epsilon) for setting in mine] for _, mine in groups]
    lowers = [np.concatenate([one.lower for one in found]) for found in points]
    uppers = [np.concatenate([one.upper for one in found]) for found in points]
    # A group has one reason for all of its gaps.
    reasons = [next((one.gap for one in mine if one.gap), "") for _, mine in groups]
    missing = [(np.isnan(high), reason) for high, reason in zip(uppers, reasons, strict=True)]
    refuse_nothing(missing)
    several = len({mine[0].columns.get("study") for _, mine in groups}) > 1
    columns = [
        {**({"study": mine[0].columns["study"]} if several else {}), "mechanism": group.label, **group.fixed}
        for group, mine in groups
    ]
    title, labels = labelled(columns)
    every = np.concatenate([*lowers, *uppers])
    every = every[np.isfinite(every)]
    shown_part = every[every >= end] if np.any(every >= end) else every
    if not shown_part.size:
        raise OffGridError("bounds: expected a δ above 0 to compare at, got none")
    axes = axes_for(axes)
    spare = max(0.5, 0.05 * float(np.ptp(shown_part)))
    ends = float(shown_part.min()) - spare, min(0.0, float(shown_part.max()) + spare)
    for (group, _), low, high, label in zip(groups, lowers, uppers, labels, strict=True):
        _draw_stairs(axes, label or title, np.array(group.amounts), (low, high), ends)
    decimal_axis(axes, "x")
    axes.set_xlim(ends[0] / LN10, ends[1] / LN10)
    wide_axis(axes, np.concatenate([group.amounts for group, _ in groups]), "y")
    notes = gap_notes(missing)
    faint = int(sum((high < ends[0]).sum() for high in uppers))
    if faint:
        notes.append(f"of {faint:,} setting{'s' * (faint > 1)} δ is smaller than what is drawn")
    notes += wide_note(sum(one.wide for found in points for one in found))
    notes += setting_notes([""] * len(settings), settings)
    notes.append("thick: the least tabulated noise proved to meet a δ; thin: the most below it that is refuted")
    finish(
        axes,
        title,
        f"r = {r:,}",
        equal_to("ε", epsilon),
        x="δ that is to be met, a probability",
        y=groups[0][0].what,
        notes=notes,
        legend=True,
    )
    return axes


def _groups(settings: Sequence[StoredSetting]) -> list[tuple[NoiseGroup, list[StoredSetting]]]:
    """Return settings that differ in their amount of noise alone, of one kind of amount."""
    groups: list[tuple[NoiseGroup, list[StoredSetting]]] = []
    for study in dict.fromkeys(setting.columns.get("study", "") for setting in settings):
        mine = [setting for setting in settings if setting.columns.get("study", "") == study]
        columns: dict[str, list[Any]] = {
            name: [setting.columns.get(name, "" if is_text(name) else math.nan) for setting in mine]
            for name in known_columns()
        }
        columns["pair"] = [setting.pair for setting in mine]
        groups += [(group, [mine[cell] for cell in group.cells]) for group in noise_groups(columns) if group.what]
    whats = list(dict.fromkeys(group.what for group, _ in groups))
    if len(whats) != 1:
        told = "; ".join(whats) or "none"
        raise InvalidInputError(f"mechanism: expected settings with one kind of amount, got {told}: choose one")
    if len(groups) > MAX_CURVES:
        raise InvalidInputError(f"mechanism: expected at most {MAX_CURVES} curves in one plot, got {len(groups)}")
    return groups


def _draw_stairs(
    axes: "Axes", label: str, amounts: FloatArray, bounds: tuple[FloatArray, FloatArray], ends: tuple[float, float]
) -> None:
    """Draw over δ the least noise that meets it, and the most below that which is refuted."""
    low, high = bounds
    places = np.unique(np.clip([*high[~np.isnan(high)], *low[~np.isnan(low)], *ends], *ends))
    meets, refuted = needed_noise(amounts, low, high, places)
    style = style_of(axes)
    at = places / LN10
    # Where the line starts and where it falls.
    marks = np.flatnonzero(np.isfinite(meets) & (np.diff(np.nan_to_num(meets, nan=-1.0), prepend=-2.0) != 0.0))
    axes.plot(at, meets, drawstyle="steps-post", label=label, markevery=marks.tolist(), **style)
    axes.plot(at, refuted, drawstyle="steps-post", color=style["color"], linewidth=0.7)
    axes.fill_between(at, refuted, meets, step="post", color=style["color"], alpha=0.15, linewidth=0.0)


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


def _at(setting: StoredSetting, r: int, epsilon: float) -> Rounds:
    """Return the bounds on ln δ of a setting at one point."""
    row = one_of(setting.compositions.tolist(), r, COMPOSITIONS)
    lower, upper = (values[:, row : row + 1] for values in (setting.log_lower, setting.log_upper))
    rounds = setting.compositions[row : row + 1]
    return delta_over_rounds(replace(setting, compositions=rounds, log_lower=lower, log_upper=upper), epsilon)
