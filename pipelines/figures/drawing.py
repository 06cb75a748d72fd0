"""Draw a figure: bands between certified bounds, lines of earlier work, dots of what is no bound."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from pbdist import open_study
from pbdist.query import Study
from pbdist.report.pages.files import write_whole
from pbdist.report.plots import epsilon_delta
from pbdist.report.plots.frame import delta_axis, draw_points, finish, style_of, take_notes, wide_axis
from pbdist.report.sheet import new_sheet, saved, styled
from pbdist.run import SerialExecutor, run_study
from pipelines.figures.figure import Figure, Points
from pipelines.figures.paper import FIGURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw", "make"]

#: Width and height of a panel, inches, and letters of the title above it.
_WIDTH, _HEIGHT, _LETTERS = 3.6, 3.1, 46
_NAMES = {
    "delta": "δ, a probability",
    "exp_epsilon": "$e^ε$",
    "compositions": "r, rounds",
    "order": "order α",
    "renyi": "Rényi divergence $D_α$, in nats",
    "probability": "density or probability",
    "output": "output of one round",
}


def make(name: str, out: Path, stores: Path) -> list[str]:
    """Write the files of a figure; return sentences on curves that contradict each other."""
    figure = FIGURES[name]
    study = None
    if figure.study is not None:
        study = open_study(run_study(figure.study, stores / f"{name}.zarr", SerialExecutor(), lambda _: None).place)
    points = figure.points(study)
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / f"{name}.csv", figure.as_csv(points).encode())
    for kind in ("svg", "png"):
        write_whole(out / f"{name}.{kind}", draw(figure, points, study, kind))
    return list(figure.contradictions(points))


def draw(figure: Figure, points: list[Points], study: Study | None, kind: str) -> bytes:
    """Return the figure as an SVG or PNG file; the same points give the same bytes with the same matplotlib."""
    count = len(figure.panels)
    columns = 2 if count in {2, 4} else min(3, count)
    rows = math.ceil(count / columns)
    with styled():
        sheet = new_sheet(max(5.0, _WIDTH * columns), _HEIGHT * rows + 0.9)
        grid = sheet.subplots(rows, columns, squeeze=False).ravel()
        handles: dict[str, Any] = {}
        for axes, panel in zip(grid, figure.panels, strict=False):
            _draw_panel(axes, figure, [one for one in points if one.panel is panel], study)
            drawn, labels = axes.get_legend_handles_labels()
            handles = dict(zip(labels, drawn, strict=True)) | handles
        for axes in grid[count:]:
            axes.set_axis_off()
        sheet.suptitle(figure.title, fontsize=10.0, wrap=True)
        sheet.legend(handles.values(), handles, loc="outside lower center", ncols=min(3, columns + 1), frameon=False)
        return saved(sheet, kind)


def _draw_panel(axes: "Axes", figure: Figure, points: list[Points], study: Study | None) -> None:
    notes: list[str] = []
    if figure.shows == "delta" and not figure.over_rounds:
        notes = _over_losses(axes, figure, points, study)
    elif figure.shows == "probability":
        for one in points:
            if one.x.size > 4:
                axes.plot(one.x, one.upper, label=one.label, **style_of(axes) | {"marker": ""})
            else:
                place = one.x + (0.2 if one.name == "B" else -0.2)
                axes.bar(place, one.upper, width=0.4, label=one.label, color=style_of(axes)["color"])
                axes.set_xticks(one.x)
    else:
        notes = _over_rounds(axes, figure, points)
    names = _NAMES[figure.over], _NAMES[figure.shows]
    finish(axes, points[0].panel.title, x=names[0], y=names[1], notes=notes, legend=False)


def _over_losses(axes: "Axes", figure: Figure, points: list[Points], study: Study | None) -> list[str]:
    """Draw δ over e^ε: the band that a study proves, at stored ε and between them, and the lines of earlier work."""
    assert study is not None and figure.study is not None  # noqa: S101, PT018
    cells = [cell.pair for cell in figure.study.cells]
    ours = {
        one.label: study.bounds.isel(cell=[cells.index(one.curve.pair)])
        for one in points
        if one.curve.certified and one.curve.pair
    }
    epsilon_delta(ours, compositions=points[0].panel.compositions, lowest=figure.lowest, axes=axes)
    for legend in filter(None, [axes.get_legend()]):
        legend.remove()
    notes = take_notes(axes)
    low, high = axes.get_ylim()
    for one in (one for one in points if not one.curve.certified):
        _line(axes, one, np.log(one.x), np.where(one.upper > 0.0, one.upper, np.nan))
        high = max(high, *np.minimum(one.upper, 1.05))
    axes.set_ylim(low, high)
    if figure.target is not None:
        ends = [0.0, math.log(figure.target[0])]
        axes.fill_between(ends, low, figure.target[1], color="#009E73", alpha=0.15, lw=0, label="target")
    axes.set_xscale("function", functions=(np.exp, np.log))
    axes.set_xlim(figure.losses[0], figure.losses[-1])
    first, last = float(figure.values[0]), float(figure.values[-1])
    ticks = [x for x in np.asarray(MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(first, last)) if x >= 1.0]
    axes.set_xticks(np.log(ticks), [f"{x:g}" for x in ticks])
    axes.set_xlim(figure.losses[0], figure.losses[-1])
    return list(notes)


def _over_rounds(axes: "Axes", figure: Figure, points: list[Points]) -> list[str]:
    """Draw δ or e^ε over r, or divergences over orders: bounds at each point, which lines join for the eye alone."""
    notes: list[str] = []
    if figure.shows == "delta":
        notes += delta_axis(axes, [one.upper for one in points], [one.lower for one in points], figure.lowest)
    for one in points:
        if one.curve.certified:
            draw_points(axes, one.x, one.lower, one.upper, one.label)
            unmet = int(np.isposinf(one.upper).sum())
            if unmet:
                why = "δ not met" if figure.shows == "exp_epsilon" else "from below alone (arrows)"
                notes.append(f"{one.label}: {why} at {unmet} of {one.x.size} points")
        else:
            _line(axes, one, one.x, np.where(np.isfinite(one.upper), one.upper, np.nan))
    if figure.shows != "delta":
        values = np.concatenate([one.upper for one in points])
        if figure.shows == "renyi":
            axes.set_yscale("log")
        if figure.shows == "exp_epsilon":
            drawn = values[values <= figure.largest]
            top = figure.largest if np.any(values > figure.largest) else 1.05 * float(drawn.max()) - 0.05
            axes.set_ylim(1.0 - 0.04 * (top - 1.0), top)
    if figure.over_rounds:
        wide_axis(axes, figure.values, base=2)
    return notes


def _line(axes: "Axes", one: Points, x: Any, y: Any) -> None:
    style = style_of(axes) | ({"linestyle": ":"} if one.approximate else {})
    style |= {"linestyle": "none", "markersize": 7.0} if one.x.size == 1 else {"markevery": max(1, one.x.size // 12)}
    axes.plot(x, y, label=f"{one.label} (no bound)" if one.approximate else one.label, linewidth=1.1, **style)
