"""The frame of every plot: axes, styles of curves, legend, title, and what has to be said below."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.report.plots.labels import wrapped
from pbdist.report.sheet import COLOURS, LINES, MARKERS, new_sheet, styled
from pbdist.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LN10 = float(np.log(10.0))
#: Width and height of a sheet, inches.
SIZE = (8.2, 4.4)
#: Inches: of a letter of the title, left of the axes, of a line of the legend, and of what is above and below it.
_LETTER, _MARGIN, _LINE, _AROUND = 0.085, 0.9, 0.17, 1.1
#: Letters of a title that has hardly any room.
_FEWEST = 24
_NOTES = "pbdist-notes"
#: The notes in a text below axes, each as it was before it was broken into lines.
_TOLD: "WeakKeyDictionary[Any, tuple[str, ...]]" = WeakKeyDictionary()
#: The fewest decades of an axis.
_LEAST = 0.3
#: Farther down than any axis, in decades.
_DEEP = 1e6
#: From this ratio of the largest to the smallest amount on an axis is logarithmic.
_WIDE = 8.0
#: A δ below which nothing is drawn, unless it is asked for.
LOWEST = 1e-40


def axes_for(axes: "Axes | None", size: tuple[float, float] = SIZE) -> "Axes":
    """Return the axes given, or those of a new sheet."""
    if axes is not None:
        return axes
    sheet = new_sheet(*size)
    with styled():
        made: Axes = sheet.subplots()
    return made


def style_of(axes: "Axes", position: int) -> dict[str, Any]:
    """Return the style of one more curve: colour, line and marker, told apart without the colour."""
    index = position + len(axes.get_legend_handles_labels()[0])
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": LINES[index % len(LINES)],
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 4.5,
        "markerfacecolor": COLOURS[index % len(COLOURS)] if index < len(MARKERS) else "white",
    }


def decimal_axis(axes: "Axes") -> None:
    """Make the vertical axis one of decimal logarithms, which says the numbers themselves."""
    from pbdist.report.plots.decades import decades  # noqa: PLC0415 -- imports matplotlib, an optional package

    decades(axes.yaxis)


def draw_points(axes: "Axes", places: Any, low: FloatArray, high: FloatArray, label: str) -> dict[str, Any]:
    """Draw bounds at single places: markers at upper bounds, bars down to lower ones, thin lines between; gaps stay.

    A lower bound of -inf is a bar down to the end of the axis.
    """
    style = style_of(axes, 0)
    drawn, known = (np.where(np.isfinite(values), values, np.nan) for values in (high, low))
    # What is missing is not a number, so that the line has a gap.
    axes.plot(places, drawn, label=label, **style, linewidth=0.7)
    axes.vlines(places, np.where(np.isneginf(low), drawn - _DEEP, known), drawn, color=style["color"], linewidth=1.2)
    axes.plot(places, known, linestyle="none", marker="_", markersize=7.0, color=style["color"])
    return style


def amounts_axis(axes: "Axes", amounts: FloatArray) -> None:
    """Make the horizontal axis one of amounts: logarithmic where they vary much, with plain numbers."""
    positive = amounts[np.isfinite(amounts) & (amounts > 0.0)]
    if positive.size and positive.size == amounts.size and float(positive.max()) > _WIDE * float(positive.min()):
        from pbdist.report.plots.decades import plain_logarithms  # noqa: PLC0415 -- imports matplotlib

        axes.set_xscale("log")
        plain_logarithms(axes.xaxis)


def lowest_place(lowest: float) -> float:
    """Return where on an axis of decimal logarithms a δ is, that no picture reaches below; 0 is endless."""
    if not 0.0 <= lowest < 1.0:
        raise InvalidInputError(f"lowest: expected a δ from 0 to below 1, got {shown(lowest)}")
    return float(np.log10(lowest)) if lowest else -np.inf


def finish(axes: "Axes", *, title: str, x: str, y: str, notes: Iterable[str], legend: bool) -> None:
    """Write title, axes' names, legend beside the axes and notes below them; notes of earlier curves stay."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    letters = _letters(axes)
    if title:
        axes.set_title(textwrap.fill(title, letters), loc="left")
    told = tuple(dict.fromkeys((*take_notes(axes), *notes)))
    lines = [line for note in told for line in textwrap.wrap(note, letters)]
    if lines:
        below = axes.annotate(
            "\n".join(lines),
            xy=(0.0, 0.0),
            xycoords=("axes fraction", axes.xaxis.label),
            xytext=(0.0, -4.0),
            textcoords="offset points",
            va="top",
            fontsize=7.5,
            annotation_clip=False,
        )
        below.set_gid(_NOTES)
        _TOLD[below] = told
    if legend:
        _legend(axes)


def take_notes(axes: "Axes") -> tuple[str, ...]:
    """Take the notes away from below axes, and return them."""
    found = [text for text in axes.texts if text.get_gid() == _NOTES]
    for text in found:
        text.remove()
    return tuple(note for text in found for note in _TOLD[text])


def _letters(axes: "Axes") -> int:
    """Return how many letters of a title have room above the axes, and the legend where they are the only ones."""
    sheet = axes.get_figure(root=True)
    if sheet is None:
        return _FEWEST
    alone = len(sheet.axes) == 1
    room = sheet.get_figwidth() * (1.0 if alone else axes.get_position().width) - (_MARGIN if alone else 0.0)
    return max(_FEWEST, int(room / _LETTER))


def _legend(axes: "Axes") -> None:
    """Write the legend beside the axes, where it covers no data; a sheet of its own grows with it."""
    handles, labels = axes.get_legend_handles_labels()
    texts = [wrapped(label) for label in labels]
    sheet = axes.get_figure(root=True)
    if not handles or sheet is None:
        return
    axes.legend(handles, texts, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, handlelength=3.5)
    needed = _LINE * sum(text.count("\n") + 1 for text in texts) + _AROUND
    if len(sheet.axes) == 1 and sheet.get_figheight() < needed:
        sheet.set_figheight(needed)


def height_limits(
    upper: Sequence[FloatArray], lower: Sequence[FloatArray], lowest: float = -np.inf
) -> tuple[float, float] | None:
    """Return the ends of an axis of decimal logarithms that shows all upper bounds, and lower ones close to them.

    What lies below `lowest` is left out, unless a curve would be.
    """
    tops = [float(np.max(values[np.isfinite(values)])) for values in upper if np.isfinite(values).any()]
    highs, lows = (np.concatenate([*values, np.empty(0)]) for values in (upper, lower))
    highs, lows = highs[np.isfinite(highs)], lows[np.isfinite(lows)]
    if not highs.size:
        highs = lows
    if not highs.size:
        return None
    if tops and min(tops) > lowest:
        highs = np.maximum(highs, lowest)
    low, high = float(highs.min()), float(highs.max())
    if lows.size:
        low = min(low, max(float(lows.min()), low - 2.0))
    if high - low < _LEAST:
        middle = 0.5 * (low + high)
        low, high = middle - 0.5 * _LEAST, middle + 0.5 * _LEAST
    margin = 0.04 * (high - low)
    return low - margin, high + margin
