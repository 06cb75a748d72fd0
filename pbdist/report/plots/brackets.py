"""How far apart the bounds are: upper / lower - 1 over the number of rounds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.errors import OffGridError
from pbdist.report.plots.compositions import GUIDE, delta_over_rounds, rounds_axis
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
from pbdist.report.plots.notes import NO_LOWER, gap_notes
from pbdist.report.plots.selection import MOST_CURVES, Sources, StoredSetting, chosen
from pbdist.results import log_relative_width
from pbdist.rounding import exact
from pbdist.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
            **style_of(axes, 0),
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
        title=", ".join(part for part in (title, at) if part),
        x="r, rounds",
        y="upper / lower - 1, a ratio",
        notes=[*notes, GUIDE],
        legend=len(axes.get_legend_handles_labels()[0]) > 1,
    )
    return axes
