"""Mechanisms compared at one number of rounds: δ over ε, or δ over the amount of noise at one ε."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query.noise_choice import NoiseGroup, noise_groups
from pbdist.report.plots.compositions import GUIDE, delta_over_rounds
from pbdist.report.plots.epsilon_delta import draw_graphs, graphs_of
from pbdist.report.plots.frame import (
    LN10,
    LOWEST,
    amounts_axis,
    axes_for,
    decimal_axis,
    draw_points,
    finish,
    height_limits,
    lowest_place,
)
from pbdist.report.plots.labels import labelled
from pbdist.report.plots.notes import NO_LOWER, gap_notes, neighbours_notes, refuse_nothing, width_note, zero_note
from pbdist.report.plots.selection import MOST_CURVES, Sources, StoredSetting, chosen, one_of
from pbdist.rounding import exact
from pbdist.types import COMPOSITIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    refuse_nothing(missing, "bounds")
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
        title=", ".join(part for part in (title, f"r = {r:,}, ε = {exact(epsilon)}") if part),
        x=whats[0],
        y="δ, a probability",
        notes=[*notes, GUIDE],
        legend=len(drawn.get_legend_handles_labels()[0]) > 1,
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
