"""Draw a figure: one style for all, legible without colours."""

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.report.figures.figure import COMPOSITIONS, DELTA, LOSSES, PROBABILITY, RENYI, CurvePoints, Figure, Panel
from pbdist.report.sheet import COLOURS, MARKERS, new_sheet, plain, saved, styled
from pbdist.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What `draw` makes.
FORMATS = ("svg", "png")
_EARLIER = ("--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
_CERTIFIED = ("-", (0, (7, 1.5)), (0, (3, 1.5)), (0, (1.5, 1.5)))
_COLUMNS = 3
#: Letters of the title over each column of panels.
_LINE = 54
#: Width and height of a panel, inches.
_PANEL = (4.3, 3.3)
_NAMES = {
    DELTA: "δ",
    "epsilon": "ε (nats)",
    "exp_epsilon": "$e^ε$",
    COMPOSITIONS: "number of compositions r",
    "order": "order α",
    RENYI: "Rényi divergence $D_α$ (nats)",
    PROBABILITY: "density or probability",
    "output": "output of one round",
}
#: No axis goes below this.
_SMALLEST = 1e-300
#: From this ratio of the largest to the smallest value on, an axis of ε or e^ε is logarithmic.
_WIDE = 30.0


def draw(figure: Figure, points: Sequence[CurvePoints], kind: str) -> bytes:
    """Return the figure as an SVG or PNG file; the same points give the same bytes with the same matplotlib.

    Certified bounds are bands from lower to upper between two lines, earlier bounds broken lines, and what is no bound
    is dotted and called so. A target is a green region.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    """
    with styled():
        panels = figure.panels
        columns = min(_COLUMNS, len(panels)) if len(panels) != 4 else 2
        rows = math.ceil(len(panels) / columns)
        sheet = new_sheet(_PANEL[0] * columns, _PANEL[1] * rows + 0.9)
        grid = sheet.subplots(rows, columns, squeeze=False)
        styles = _styles(points)
        for axes, panel in zip(grid.ravel(), panels, strict=False):
            _draw_panel(axes, figure, panel, [one for one in points if one.panel is panel], styles)
        for axes in grid.ravel()[len(panels) :]:
            axes.set_axis_off()
        handles: dict[str, Any] = {}
        for axes in grid.ravel():
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        sheet.suptitle(textwrap.fill(plain(figure.title), _LINE * columns), fontsize=10.5)
        sheet.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(3, columns + 1))
    return saved(sheet, kind)


def _key(points: CurvePoints) -> str:
    """What the legend says of a curve."""
    label = f"{points.curve.label}: {points.name}" if points.name else points.curve.label
    return plain(f"{label} (no bound)" if points.approximate else label)


def _styles(points: Sequence[CurvePoints]) -> dict[str, dict[str, Any]]:
    """Return the style of each label: the same in all panels."""
    found: dict[str, dict[str, Any]] = {}
    numbers = {True: 0, False: 0}
    for one in points:
        if _key(one) in found:
            continue
        solid = one.curve.certified
        number = numbers[solid]
        numbers[solid] += 1
        lines = _CERTIFIED if solid else _EARLIER
        style: dict[str, Any] = {
            "color": COLOURS[len(found) % len(COLOURS)],
            "linestyle": ":" if one.approximate else lines[number % len(lines)],
        }
        if not solid:
            style |= {"marker": MARKERS[number % len(MARKERS)], "markersize": 3.5}
        found[_key(one)] = style
    return found


def _draw_panel(
    axes: "Axes", figure: Figure, panel: Panel, points: Sequence[CurvePoints], styles: dict[str, dict[str, Any]]
) -> None:
    for one in points:
        _draw_curve(axes, figure, one, styles[_key(one)])
    if panel.title:
        axes.set_title(plain(panel.title))
    axes.set_xlabel(_NAMES[figure.over])
    shown = "probability" if figure.shows == PROBABILITY and figure.values.size < 2 else _NAMES[figure.shows]
    axes.set_ylabel(shown)
    if figure.over_rounds:
        axes.set_xscale("log", base=2)
    _scale(axes, figure, points)
    ours = [one for one in points if one.curve.certified and figure.shows in LOSSES]
    unmet = [(_key(one), int(np.isinf(one.upper).sum()), one.x.size) for one in ours if np.isinf(one.upper).any()]
    if unmet:
        text = "\n".join(f"{label}: not met at {number} of {size} r" for label, number, size in unmet)
        axes.text(0.03, 0.97, text, transform=axes.transAxes, va="top", fontsize=8.0)
    if figure.target is not None and figure.shows == DELTA:
        _draw_target(axes, figure, figure.target)


def _draw_curve(axes: "Axes", figure: Figure, one: CurvePoints, style: dict[str, Any]) -> None:
    label = _key(one)
    if figure.shows == PROBABILITY and one.x.size <= 4:
        axes.bar(one.x + (0.2 if one.name == "B" else -0.2), one.upper, width=0.4, label=label, color=style["color"])
        axes.set_xticks(one.x)
        return
    if not one.curve.certified or one.name:
        x, y = _drawn(one.x, one.upper)
        every = max(1, x.size // 12)
        alone = {"linestyle": "none", "markersize": 7.0} if x.size == 1 else {}
        plain = {"marker": None} if one.name else {"markevery": every}
        axes.plot(x, y, label=label, **(style | plain | alone))
        return
    if np.isinf(one.upper).all() and figure.shows not in LOSSES:
        # Nothing is known from above.
        axes.plot(one.x, one.lower, label=f"{label} (from below)", **style)
        return
    high = np.where(np.isfinite(one.upper), one.upper, np.nan)
    low = np.where(np.isfinite(one.upper), one.lower, np.nan)
    if figure.shows == DELTA:
        high, low = np.maximum(high, _SMALLEST), np.maximum(low, _SMALLEST)
    axes.fill_between(one.x, low, high, color=style["color"], alpha=0.25, linewidth=0.0)
    axes.plot(one.x, low, color=style["color"], linestyle=style["linestyle"], linewidth=0.8)
    axes.plot(one.x, high, label=label, **style)


def _drawn(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Leave out what has no place on the sheet."""
    kept: BoolArray = np.isfinite(y) & (y > 0.0)
    return x[kept], y[kept]


def _scale(axes: "Axes", figure: Figure, points: Sequence[CurvePoints]) -> None:
    """Choose the scale and the ends of the vertical axis."""
    if figure.shows == PROBABILITY:
        return
    values = np.concatenate([np.concatenate((one.upper, one.lower)) for one in points])
    values = values[np.isfinite(values) & (values > 0.0)]
    top = math.inf
    if figure.shows in LOSSES and figure.largest is not None:
        # What is not sought is not drawn.
        top = math.exp(figure.largest) if figure.shows == "exp_epsilon" else figure.largest
        if values.size and float(values.max()) > top:
            axes.set_ylim(top=top)
    values = values[values <= top]
    if figure.shows == DELTA:
        axes.set_yscale("log")
        lowest = figure.lowest or (max(float(values.min()), _SMALLEST) if values.size else 1e-12)
        axes.set_ylim(lowest, 1.5 * min(1.0, max(float(values.max()), lowest * 10.0)) if values.size else 1.5)
    elif values.size and float(values.max()) > _WIDE * float(values.min()):
        axes.set_yscale("log")
    elif figure.shows == "exp_epsilon":
        axes.set_ylim(bottom=1.0)


def _draw_target(axes: "Axes", figure: Figure, target: tuple[float, float]) -> None:
    epsilon, delta = target
    right = math.exp(epsilon) if figure.over == "exp_epsilon" else epsilon
    left, bottom = float(figure.values[0]), axes.get_ylim()[0]
    if delta > bottom:
        axes.fill_between([left, right], bottom, delta, color="#009E73", alpha=0.15, linewidth=0.0, label="target")
