"""The frame of every plot: axes, styles of curves, short labels, title, legend and notes below them."""

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.errors import InvalidInputError, OffGridError, shown
from pbdist.query.settings import neighbours_words
from pbdist.report.plots.selection import Curve
from pbdist.report.sheet import COLOURS, LINES, MARKERS, new_sheet, plain, styled
from pbdist.results import log_relative_width
from pbdist.rounding import brief, rounded_up
from pbdist.types import COMPOSITIONS, DIRECTION, BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pbdist.query.noise_choice import NoiseChoice

#: A δ below which nothing is drawn, unless `lowest` says so.
LOWEST = 1e-40
GUIDE = "lines between points guide the eye and are no bounds"
NO_LOWER = "no lower bound is known: no change is declared to attain the pairs that dominate it"
#: How a parameter is written; others by their names.
_WRITTEN = {
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
#: Written only where nothing else tells curves apart.
_IMPLIED = ("kind", "noise", "made_of")
_DIGITS = 4


def number(value: float, digits: int = _DIGITS) -> str:
    """Return a number with few digits, after ≈ where they are not all of it."""
    if not math.isfinite(value) or value == 0.0:
        return f"{value:g}"
    if float(value).is_integer() and abs(value) < 1e7:
        text = f"{value:,.0f}"
    elif 1e-3 <= abs(value) < 1e7:
        text = f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        part, _, power = f"{value:.{digits - 1}e}".partition("e")
        text = f"{part.rstrip('0').rstrip('.')}e{int(power)}"
    return text if float(text.replace(",", "")) == value else f"≈{text}"


def equal_to(name: str, value: float) -> str:
    """Return that a quantity has a value, in few digits: ``ε = 0.5``, or ``ε ≈ 0.6931``."""
    return f"{name} = {number(value)}".replace("= ≈", "≈ ")


def labelled(curves: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """Return what curves have in common, and for each what tells it from the others; curves with equal texts count."""
    names = list(dict.fromkeys(name for curve in curves for name in curve))
    if all(curve.get("sensitivity", 1.0) == 1.0 for curve in curves):
        names = [name for name in names if name != "sensitivity"]
    common = [name for name in names if len({curve.get(name) for curve in curves}) == 1]
    varying = [name for name in names if name not in common]
    if curves and len({curve.get("study") for curve in curves} - {None}) == len(curves):
        # Names that a caller chose for each.
        varying, common = ["study"], [name for name in common if name != "study"]
    labels: list[str] = []
    for shown_names in ([name for name in varying if name not in _IMPLIED], varying):
        if len(set(labels)) < len(curves):
            labels = [_written(curve, shown_names, curves) for curve in curves]
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({position})".strip() for position, label in enumerate(labels, 1)]
    shared = _written(curves[0], [name for name in common if name not in _IMPLIED], curves) if curves else ""
    return plain(shared), [plain(label) for label in labels]


def _written(curve: Mapping[str, Any], names: Sequence[str], curves: Sequence[Mapping[str, Any]]) -> str:
    """Return parameters of a curve, numbers with as many digits as tell them from those of other curves."""
    parts = []
    for name in names:
        value = curve.get(name, "")
        if not isinstance(value, str):
            others = {one[name] for one in curves if not isinstance(one.get(name, ""), str)}
            wanted = (n for n in range(_DIGITS, 18) if len({number(one, n) for one in others}) == len(others))
            value = number(value, next(wanted, 17))
        written = _WRITTEN.get(name, f"{name.replace('_', ' ')} {{}}").format(value)
        parts += [written.replace("= ≈", "≈ ")] if name in curve else []
    return ", ".join(parts).replace(", and ", " and ")


#: Width and height of a sheet, inches.
SIZE = (7.0, 4.4)
#: Inches: of a letter of the title, a legend and a note; left of the axes; in height of a legend's and a note's line.
_LETTER, _SMALL, _TINY, _MARGIN, _LINE, _NOTE = 0.086, 0.06, 0.056, 0.7, 0.165, 0.125
#: Letters of a title that has hardly any room.
_FEWEST = 24
_NOTES = "pbdist-notes"


def begin(curves: Sequence[Curve], axes: "Axes | None") -> tuple["Axes", str, list[str], list[str]]:
    """Return axes, what curves have in common, their labels, and notes on gaps; refuse nothing but gaps."""
    notes = gap_notes([(np.asarray(np.isnan(np.atleast_2d(one.upper)).any(axis=0)), one.gap) for one in curves])
    if all(np.isnan(one.upper).all() for one in curves):
        raise OffGridError(
            f"bounds: expected bounds to draw, got none: {'; '.join(notes) or 'no points'}: choose stored ones"
        )
    return axes_for(axes), *labelled([one.columns for one in curves]), notes


def axes_for(axes: "Axes | None") -> "Axes":
    """Return the axes given, or those of a new sheet."""
    if axes is not None:
        return axes
    sheet = new_sheet(*SIZE)
    with styled():
        made: Axes = sheet.subplots()
    return made


def style_of(axes: "Axes") -> dict[str, Any]:
    """Return the style of one more curve: colour, line and marker, distinct without the colour."""
    index = len(axes.get_legend_handles_labels()[0])
    colour = COLOURS[index % len(COLOURS)]
    return {
        "color": colour,
        "linestyle": LINES[index % len(LINES)],
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 4.5,
        "markerfacecolor": colour if index < len(MARKERS) else "white",
    }


def wide_axis(axes: "Axes", values: Any, which: str = "x", *, ratio: float = 8.0, base: float = 10.0) -> None:
    """Make an axis logarithmic where its positive values vary by more than `ratio`, with plain numbers within 10^6."""
    numbers = np.asarray(values, dtype=np.float64)
    numbers = numbers[np.isfinite(numbers)]
    least, most = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 0.0)
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter  # noqa: PLC0415 -- an optional package

    axis: Any = getattr(axes, f"{which}axis")
    if least > 0.0 and most > ratio * least:
        getattr(axes, f"set_{which}scale")("log", base=base)
        if most > 1e6 * least:
            return
        fine = most < 100.0 * least and base == 10.0
        axis.set_major_locator(LogLocator(base=base, subs=(1.0, 2.0, 5.0) if fine else (1.0,)))
        axis.set_minor_formatter(NullFormatter())
    elif most < 1e3:
        return
    axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def draw_points(axes: "Axes", places: Any, low: FloatArray, high: FloatArray, label: str) -> None:
    """Draw bounds at single places: markers at upper bounds, bars down to lower ones, thin lines between; gaps stay.

    Without an upper bound there is an arrow at the lower one.
    """
    style = style_of(axes) | ({"markersize": 2.5} if len(places) > 24 else {})
    drawn = np.where(np.isfinite(high) & (high > 0.0), high, np.nan)
    axes.plot(places, drawn, label=label, **style, linewidth=0.7)
    axes.vlines(places, low, drawn, color=style["color"], linewidth=1.2)
    ends = np.where(low > 0.0, low, np.nan)
    axes.plot(places, ends, linestyle="none", marker="_", markersize=7.0, color=style["color"])
    if np.isposinf(high).any():
        arrows = np.where(np.isposinf(high), ends, np.nan)
        axes.plot(places, arrows, linestyle="none", marker=r"$\uparrow$", markersize=9.0, color=style["color"])


def finish(axes: "Axes", *title: str, x: str, y: str, notes: Iterable[str], legend: bool | None = None) -> None:
    """Write the parts of the title, the names of the axes, the legend and the notes below them; earlier notes stay.

    `legend` is by default whether there are several curves. A sheet of these axes alone grows with what is below.
    """
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    sheet: Any = axes.get_figure(root=True)
    alone = len(sheet.axes) == 1
    place = axes.get_subplotspec()
    columns = 1 if place is None else place.get_gridspec().ncols
    room = sheet.get_figwidth() / columns - _MARGIN
    letters = max(_FEWEST, int(room / _LETTER))
    # Sizes of letters are those that lines are broken for, whatever the style is.
    axes.set_title(
        textwrap.fill(", ".join(filter(None, title)), letters, break_on_hyphens=False), loc="left", fontsize=9.0
    )
    anchor: Any = axes.xaxis.label
    handles, labels = axes.get_legend_handles_labels()
    rows = 0
    if handles and (len(handles) > 1 if legend is None else legend):
        most = max(_FEWEST, int(room / _SMALL) - 7)
        texts = ["\n".join(textwrap.wrap(label, most, break_on_hyphens=False)) for label in labels]
        width = 7 + max(len(line) for text in texts for line in text.split("\n"))
        abreast = max(1, min(len(texts), int(room / _SMALL / width)))
        anchor = axes.legend(
            handles, texts, loc="upper center", bbox_to_anchor=(0.5, 0.0), borderaxespad=4.2, ncols=abreast,
            frameon=False, handlelength=2.8, columnspacing=1.2, fontsize=8.0,
        )  # fmt: skip
        rows = math.ceil(len(texts) / abreast) + sum(text.count("\n") for text in texts)
    whole = tuple(dict.fromkeys((*take_notes(axes), *filter(None, notes))))
    lines = [line for note in whole for line in textwrap.wrap(note, max(_FEWEST, int(room / _TINY)))]
    if lines:
        below: Any = axes.annotate(
            "\n".join(lines), (0.0, 0.0), (0.0, -3.0), xycoords=("axes fraction", anchor),
            textcoords="offset points", va="top", fontsize=7.0, annotation_clip=False,
        )  # fmt: skip
        below.set_gid(_NOTES)
        below.notes = whole
    needed = min(3.2, 0.66 * sheet.get_figwidth()) + 0.7 + _LINE * rows + _NOTE * len(lines)
    if alone and sheet.get_figheight() < needed:
        sheet.set_figheight(needed)


def take_notes(axes: "Axes") -> tuple[str, ...]:
    """Take the notes away from below axes, and return them as they were before they were broken into lines."""
    found: list[Any] = [text for text in axes.texts if text.get_gid() == _NOTES]
    for text in found:
        text.remove()
    return tuple(note for text in found for note in text.notes)


def delta_axis(
    axes: "Axes", upper: Sequence[FloatArray], lower: Sequence[FloatArray], lowest: float = LOWEST
) -> list[str]:
    """Make the vertical axis one of δ for curves that are still to be drawn; return notes on what it does not show.

    It ends at `lowest` where some upper bounds lie below, but those of no whole curve; else it shows all of them, and
    lower bounds close to them.
    """
    if not 0.0 <= lowest < 1.0:
        raise InvalidInputError(f"lowest: expected a δ from 0 to below 1, got {shown(lowest)}")
    earlier = axes.get_ylim() if axes.lines else ()
    axes.set_yscale("log")
    axes.set_autoscaley_on(False)
    highs, lows = (np.concatenate([*values, np.empty(0)]) for values in (upper, lower))
    nothing, count = int((highs == 0.0).sum()), highs.size
    notes = [f"δ is 0, or below 1e-308, at {nothing:,} of {count:,} points"] if nothing else []
    highs, lows = highs[highs > 0.0], lows[lows > 0.0]
    if not highs.size:
        return notes
    tops = [values[values > 0.0].max() for values in upper if np.any(values > 0.0)]
    bottom, top = float(highs.min()), float(highs.max())
    cut = bottom < lowest < min(tops)
    if lows.size:
        bottom = min(bottom, max(float(lows.min()), bottom / 100.0))
    # A margin, so that the frame cuts no marker.
    margin = max(1.4, (top / (lowest if cut else bottom)) ** 0.04)
    ends = [lowest if cut else bottom / margin, min(margin * top, max(1.1, margin**0.5)), *earlier]
    axes.set_ylim(min(ends), max(ends))
    if highs.min() < min(ends):
        notes.append(f"what lies below δ = {brief(min(ends))} is not drawn")
    return notes


#: What names the curves of a store.
_NAMES = ("study", "mechanism")
_REASONS = {"failed": "missing: they could not be computed", "damaged": "missing: damaged files"}


def gap_notes(missing: Iterable[tuple[BoolArray, str]]) -> list[str]:
    """Return how many points have no bounds, and why; `missing` has for each curve where, and the reason."""
    counts: Counter[str] = Counter()
    total = 0
    for where, reason in missing:
        total += where.size
        counts[reason or "not computed"] += int(np.count_nonzero(where))
    return [
        f"{count:,} of {total:,} points {'is' if count == 1 else 'are'} {_REASONS.get(reason, reason)}"
        for reason, count in counts.items()
        if count
    ]


def setting_notes(labels: Sequence[str], curves: Sequence[Curve]) -> list[str]:
    """Return which settings have no lower bound, and for which neighbours they are; nothing where none says it."""
    without = [label for label, one in zip(labels, curves, strict=True) if not one.attained]
    notes = [NO_LOWER if len(without) == len(labels) else f"{'; '.join(without)}: {NO_LOWER}"] if without else []
    names = [" ".join(str(one.columns[name]) for name in _NAMES if name in one.columns) for one in curves]
    relations = [(name, one.adjacency) for name, one in zip(names, curves, strict=True)]
    return [*notes, neighbours_words(relations)] if any(one.adjacency.definite for one in curves) else notes


def one_amount(choices: "Sequence[NoiseChoice]") -> None:
    """Refuse settings whose amounts of noise are not of one kind."""
    if len({one.what for one in choices}) != 1:
        found = "; ".join(dict.fromkeys(f"{one.label} ({one.what})" for one in choices)) or "none"
        raise InvalidInputError(f"mechanism: expected settings with one kind of amount, got {found}: choose one label")


def width_note(
    log_lower: Sequence[FloatArray], log_upper: Sequence[FloatArray], lowest: float, where: str
) -> list[str]:
    """Return how wide brackets are at some points: upper / lower - 1, rounded up; nothing where none is known.

    Those with an upper bound below `lowest`, a natural logarithm, do not count.
    """
    lower, upper = np.concatenate([*log_lower, np.empty(0)]), np.concatenate([*log_upper, np.empty(0)])
    known = ~np.isnan(lower) & (upper >= lowest)
    width = log_relative_width(lower[known], upper[known])
    finite, endless = width[np.isfinite(width)], int(np.isinf(width).sum())
    notes = []
    if finite.size:
        most = float(finite.max())
        text = rounded_up(most, 2) if most < 1e4 else f"10^{math.ceil(math.log10(most))}"
        notes.append(f"upper / lower - 1 is at most {text} at {where}")
    if endless:
        notes.append(f"the lower bound is 0 at {endless:,} of {known.sum():,} points")
    return ["; ".join(notes)] if notes else []
