"""The frame of every plot: axes, styles of curves, legend, title, and what has to be said below."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from pbdist.errors import InvalidInputError, OffGridError, shown
from pbdist.query.settings import neighbours_words
from pbdist.report.sheet import COLOURS, LINES, MARKERS, new_sheet, plain, styled
from pbdist.results import log_relative_width
from pbdist.rounding import exact, rounded_up
from pbdist.types import COMPOSITIONS, DIRECTION, Adjacency, BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: How a parameter is told; others by their names.
SPOKEN = {
    COMPOSITIONS: "r = {}",
    DIRECTION: "{}",
    "mechanism": "{}",
    "study": "{}",
    "reading": "{}",
    "p": "p = {}",
    "k": "{} answers",
    "eta": "η = {}",
    "pair_p": "A = {}",
    "pair_q": "B = {}",
    "pair_epsilon": "ε of a use {}",
    "pair_delta": "δ of a use {}",
    "truncate_low": "cut at {}",
    "truncate_high": "and {}",
}
#: Told only where nothing else tells curves apart.
_IMPLIED = ("kind", "noise", "made_of")
#: Letters of a line of the legend.
_WIDTH = 30


def labelled(curves: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """Return what curves have in common, and for each what tells it from the others; curves with equal texts count."""
    names = list(dict.fromkeys(name for curve in curves for name in curve))
    if all(curve.get("sensitivity", 1.0) == 1.0 for curve in curves):
        names = [name for name in names if name != "sensitivity"]
    alike = [name for name in names if len({curve.get(name) for curve in curves}) == 1]
    shared = {name: curves[0][name] for name in alike if name in curves[0] and name not in _IMPLIED} if curves else {}
    different = [name for name in names if name not in alike]
    told = [name for name in different if name not in _IMPLIED]
    labels = [_told(curve, told) for curve in curves]
    if len(set(labels)) < len(labels):
        labels = [_told(curve, different) for curve in curves]
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({position + 1})".strip() for position, label in enumerate(labels)]
    return plain(_told(shared, list(shared))), [plain(label) for label in labels]


def number(value: float) -> str:
    """Return a number of the input as it is: rounded, it would name noise that the bounds are not proved for."""
    return f"{value:,}" if isinstance(value, int) else exact(value)


def wrapped(label: str, width: int = _WIDTH) -> str:
    """Return a label in lines that are no wider than a legend."""
    return "\n".join(textwrap.wrap(label, width, break_long_words=False)) or label


def _told(curve: Mapping[str, Any], names: Sequence[str]) -> str:
    parts = []
    for name in names:
        if name not in curve:
            continue
        value = curve[name]
        text = value if isinstance(value, str) else number(value)
        parts.append(SPOKEN.get(name, f"{name.replace('_', ' ')} {{}}").format(text))
    return ", ".join(parts)


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


def axes_for(axes: "Axes | None") -> "Axes":
    """Return the axes given, or those of a new sheet."""
    if axes is not None:
        return axes
    sheet = new_sheet(*SIZE)
    with styled():
        made: Axes = sheet.subplots()
    return made


def style_of(axes: "Axes") -> dict[str, Any]:
    """Return the style of one more curve: colour, line and marker, told apart without the colour."""
    index = len(axes.get_legend_handles_labels()[0])
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
    style = style_of(axes)
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


def finish(axes: "Axes", *title: str, x: str, y: str, notes: Iterable[str], legend: bool = False) -> None:
    """Write the parts of the title, axes' names, legend beside the axes and notes below them; earlier notes stay.

    Without `legend` there is one where there are several curves.
    """
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    letters = _letters(axes)
    if any(title):
        axes.set_title(textwrap.fill(", ".join(filter(None, title)), letters), loc="left")
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
    if legend or len(axes.get_legend_handles_labels()[0]) > 1:
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


NO_LOWER = "no lower bound is known: no change is declared to attain the pairs that dominate it"
#: What names the curves of a store.
_NAMES = ("study", "mechanism")
_REASONS = {
    "not computed": "not computed",
    "failed": "missing: they could not be computed",
    "damaged": "missing: damaged files",
}


def gap_notes(missing: Iterable[tuple[BoolArray, str]]) -> list[str]:
    """Return how many points have no bounds, and why; `missing` has for each curve where, and the reason."""
    counts: Counter[str] = Counter()
    total = 0
    for where, reason in missing:
        total += where.size
        count = int(np.count_nonzero(where))
        if count:
            counts[reason or "not computed"] += count
    return [
        f"{count:,} of {total:,} points {'is' if count == 1 else 'are'} {_REASONS.get(reason, reason)}"
        for reason, count in counts.items()
    ]


def neighbours_notes(found: Iterable[tuple[Mapping[str, Any], Adjacency]]) -> list[str]:
    """Return for which neighbours curves are, and whether they compare; nothing where none says it.

    `found` has for each curve the parameters that name it, and the relation.
    """
    told = [(" ".join(str(one[name]) for name in _NAMES if name in one), relation) for one, relation in found]
    return [neighbours_words(told)] if any(relation.definite for _, relation in told) else []


def unattained_note(labels: Sequence[str], attained: Sequence[bool]) -> list[str]:
    """Return of which curves no lower bound is known."""
    without = [label for label, known in zip(labels, attained, strict=True) if not known]
    return [] if not without else [NO_LOWER if len(without) == len(labels) else f"{'; '.join(without)}: {NO_LOWER}"]


def refuse_nothing(missing: Sequence[tuple[BoolArray, str]]) -> None:
    """Refuse a picture without a single bound.

    Raises
    ------
    OffGridError
        All points are missing.
    """
    if all(where.all() for where, _ in missing):
        raise OffGridError(f"bounds: expected bounds to draw, got none: {'; '.join(gap_notes(missing)) or 'no points'}")


def width_note(log_lower: Iterable[FloatArray], log_upper: Iterable[FloatArray], lowest: float = -np.inf) -> list[str]:
    """Return how wide brackets are: upper / lower - 1, rounded up; nothing where none has a lower bound.

    Those with an upper bound below `lowest`, a natural logarithm, do not count.
    """
    lower, upper = np.concatenate([*log_lower, np.empty(0)]), np.concatenate([*log_upper, np.empty(0)])
    known = ~np.isnan(lower) & (upper >= lowest)
    if not known.any():
        return []
    width = log_relative_width(lower[known], upper[known])
    endless = int(np.isinf(width).sum())
    finite = width[np.isfinite(width)]
    told = []
    if finite.size:
        told.append(f"upper / lower - 1 is at most {rounded_up(float(finite.max()), 2)} at the points drawn")
    if endless:
        told.append(f"the lower bound is 0 at {endless:,} of {known.sum():,} points")
    return ["; ".join(told)]


def zero_note(log_upper: Iterable[FloatArray]) -> list[str]:
    """Return at how many points δ is 0, which no axis of powers of ten has."""
    upper = np.concatenate([*log_upper, np.empty(0)])
    count = int(np.isneginf(upper).sum())
    return [f"δ is 0 at {count:,} of {upper.size:,} points, which no axis of powers of ten has"] if count else []
