"""The pictures of a report on a store: the (ε, δ) graph, noise against δ at a goal, δ over r."""

import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from string import ascii_uppercase
from typing import Any

import numpy as np

from pbdist.bounds.delta import privacy_bounds
from pbdist.errors import (
    InvalidInputError,
    MissingDependencyError,
    OffGridError,
    PbdistError,
    PrecisionWarning,
)
from pbdist.mechanisms import Pair
from pbdist.mechanisms.columns import known_columns
from pbdist.query.lookup import is_set
from pbdist.query.noise_choice import NoiseChoice
from pbdist.query.study import Study
from pbdist.report.pages.document import Block, Bullets, Heading, Paragraph, Picture, epsilon_text, plain
from pbdist.report.pages.noise_blocks import group_in_words, setting_in_words, spread
from pbdist.report.pages.words import goal_in_words, parameters
from pbdist.report.plots import compositions, epsilon_delta
from pbdist.report.plots.frame import LOWEST, axes_for, take_notes
from pbdist.report.plots.noise import draw_choices
from pbdist.report.sheet import plain as no_mathematics
from pbdist.report.sheet import saved
from pbdist.study import Target as Goal
from pbdist.study.columns import cell_columns

#: So many curves stay apart; so many groups of settings, of each at least so many to be worth a picture.
_MOST_CURVES, _MOST_GROUPS, _LEAST_SETTINGS = 6, 4, 3
#: Values of ε at which bounds are computed for a picture.
_COMPUTED = 33
#: Letters of a label in a legend, and of a line of it.
_LONGEST, _LINE = 60, 26
#: Words of notes on what is not there; these stand in the text, where they are never cut.
_OF_GAPS = ("missing", "not computed", "damaged", "no lower bound")


def pictures(
    study: Study, choices: dict[Goal, tuple[NoiseChoice, ...]], kind: str, told: Callable[[str], None]
) -> Iterator[Block]:
    """Yield the pictures as files of a kind (``svg`` or ``pdf``); where one cannot be drawn, a sentence says why."""
    yield Heading("Pictures")
    try:
        if not choices:
            cells = spread(len(study.spec.cells), _MOST_CURVES)
            yield from _curves(study, cells, study.spec.compositions[-1], goal=None, kind=kind, told=told)
        for goal, found in choices.items():
            r = min(study.spec.compositions, key=lambda value: abs(value - goal.compositions))
            cells = _answered(found) or spread(len(study.spec.cells), _MOST_CURVES)
            yield from _curves(study, cells, r, goal=goal, kind=kind, told=told)
            yield from _noise(found, goal, kind)
    except MissingDependencyError as error:
        yield Paragraph(f"There are no pictures: {plain(str(error))}")


def _curves(
    study: Study, cells: Sequence[int], r: int, *, goal: Goal | None, kind: str, told: Callable[[str], None]
) -> Iterator[Block]:
    at = f"{r:,} rounds"
    told(f"drawing: {at}")
    target = None if goal is None else (goal.epsilon, goal.delta)
    title = f"δ over ε after {at}"
    what = (
        "The band of each noise setting lies between the lower and the upper bound on δ; where it is a line, they are"
        " close."
    )
    goal_lines = "" if goal is None else " The two straight lines cross at the goal."

    def over_epsilon(axes: Any, label: str, noise: dict[str, Any], *, last: bool) -> None:
        shown = target if last else None
        epsilon_delta(study, mechanism=label, compositions=r, target=shown, axes=axes, **noise)

    yield from _drawn(study, cells, over_epsilon, title=title, what=what + goal_lines, kind=kind)
    if len(study.spec.compositions) < 2:
        return
    epsilon = study.spec.epsilon[len(study.spec.epsilon) // 2] if goal is None else goal.epsilon
    title = f"δ over the number of rounds at ε = {epsilon_text(epsilon)}"
    what = "At each number of rounds that is tabulated a bar joins the bounds; the lines between only guide the eye."

    def over_rounds(axes: Any, label: str, noise: dict[str, Any], **_: bool) -> None:
        compositions(study, epsilon=epsilon, mechanism=label, axes=axes, **noise)

    yield from _drawn(study, cells, over_rounds, title=title, what=what, kind=kind)


def _drawn(
    study: Study, cells: Sequence[int], draw: Callable[..., None], *, title: str, what: str, kind: str
) -> Iterator[Block]:
    """Yield a picture of some settings, drawn one by one into the same axes, and what its letters stand for."""
    axes = axes_for(None)
    columns = cell_columns([study.spec.cells[cell] for cell in cells])
    key = []
    limits = []
    for row, cell in enumerate(cells):
        known = {
            name: columns[name][row]
            for name in known_columns()
            if name in columns and name not in ("mechanism", "factor")
        }
        noise = {name: value for name, value in known.items() if is_set(value)}
        setting, letter = study.spec.cells[cell], ascii_uppercase[row]
        before = axes.get_legend_handles_labels()[0]
        try:
            draw(axes, setting.label, noise, last=row == len(cells) - 1)
        except (OffGridError, InvalidInputError) as error:
            key.append(f"{letter}, not drawn: {setting_in_words(setting)}: {plain(str(error))}")
            continue
        limits.append(axes.get_ylim())
        _rename(axes, before, f"{letter}: {_short(setting.label)}")
        key.append(f"{letter}: {setting_in_words(setting)}. {_taken_notes(axes)}".rstrip(". ") + ".")
    if limits:
        # All curves have room, not the last one alone.
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
        yield _picture(
            axes,
            title,
            f"{what} A δ below {LOWEST:g} is not drawn."
            f" Noise settings: {len(limits):,}, lettered as listed after the picture.",
            kind,
        )
    else:
        yield Paragraph(f"{title}: there is no picture.")
    yield Bullets(tuple(key))


def computed_picture(named_pairs: Sequence[tuple[str, Pair]], goal: Goal, kind: str) -> Iterator[Block]:
    """Yield the (ε, δ) graph of pairs, whose bounds are computed now; of many the first ones."""
    shown = list(zip(ascii_uppercase, named_pairs[:_MOST_CURVES], strict=False))
    grid = np.linspace(0.0, 2.0 * goal.epsilon or 1.0, _COMPUTED)
    try:
        with warnings.catch_warnings():
            # The picture shows how wide they are.
            warnings.simplefilter("ignore", PrecisionWarning)
            bounds = {
                letter: privacy_bounds(pair, compositions=goal.compositions, epsilon=grid)
                for letter, (_, pair) in shown
            }
        axes = epsilon_delta(bounds, target=(goal.epsilon, goal.delta), axes=axes_for(None)) if bounds else None
    except (MissingDependencyError, PbdistError) as error:
        yield Paragraph(f"There is no picture: {plain(str(error))}")
        return
    if axes is None:
        yield Paragraph("There is no picture, as no noise was found.")
        return
    notes = _taken_notes(axes)
    what = (
        f"The band of each noise lies between the lower and the upper bound on δ, computed at {_COMPUTED} values of ε."
        " The two straight lines cross at the goal."
    )
    yield _picture(axes, f"δ over ε after {goal.compositions:,} rounds", f"{what} {notes}".strip(), kind)
    yield Bullets(tuple(f"{letter}: {name}: {parameters(pair.canonical())}" for letter, (name, pair) in shown))


def _answered(choices: Sequence[NoiseChoice]) -> list[int]:
    """Return the cells of the answers, those that will do first."""
    do = [choice.smallest.cell for choice in choices if choice.smallest is not None]
    not_do = [choice.refuted.cell for choice in choices if choice.refuted is not None]
    # A third of the curves is for those that are refuted, if there are as many.
    few = not_do[: _MOST_CURVES // 3]
    return [*do[: _MOST_CURVES - len(few)], *few, *not_do[len(few) :]][:_MOST_CURVES]


def _rename(axes: Any, before: Sequence[Any], name: str) -> None:
    """Name the curve that was added: what is in a store does not decide how wide a legend is."""
    added = [handle for handle in axes.get_legend_handles_labels()[0] if handle not in before]
    curves = [handle for handle in added if not str(handle.get_label()).startswith("target")]
    for handle in curves[:1]:
        handle.set_label(no_mathematics("\n".join(textwrap.wrap(name, _LINE))))


def _short(label: str) -> str:
    told = plain(label)
    return told if len(told) <= _LONGEST else f"{told[: _LONGEST - 1]}…"


def _taken_notes(axes: Any) -> str:
    """Take the notes out of a drawing, and return in one sentence those of them that tell of what is not there."""
    lacking = [note for note in take_notes(axes) if any(word in note for word in _OF_GAPS)]
    told = "; ".join(lacking)
    return told[:1].upper() + told[1:]


def _noise(choices: Sequence[NoiseChoice], goal: Goal, kind: str) -> Iterator[Block]:
    """Yield noise against δ at a goal, for groups of settings with the same kind of amount."""
    worth = [choice for choice in choices if choice.what and len(choice.tried) >= _LEAST_SETTINGS]
    for what in dict.fromkeys(choice.what for choice in worth):
        groups = [one for one in worth if one.what == what]
        letters = [replace(one, label=ascii_uppercase[row], fixed={}) for row, one in enumerate(groups[:_MOST_GROUPS])]
        title = f"δ over the {what}, for {goal_in_words(goal)}"
        axes = axes_for(None)
        try:
            draw_choices(letters, axes, delta=goal.delta, at="")
        except OffGridError as error:
            yield Paragraph(f"{title}: there is no picture. {plain(str(error))}")
            continue
        _taken_notes(axes)
        described = (
            "Each tabulated noise setting with its bounds: those that will do, refuted ones and undecided ones have"
            f" markers of their own. Nothing is said between them. Groups of settings: {len(letters)} of {len(groups)}."
        )
        yield _picture(axes, title, described, kind)
        yield Bullets(tuple(f"{told.label}: {group_in_words(one)}" for told, one in zip(letters, groups, strict=False)))


def _picture(axes: Any, title: str, described: str, kind: str) -> Picture:
    for place in ("left", "center", "right"):
        axes.set_title("", loc=place)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, handlelength=3.5)
    sheet: Any = axes.figure
    with warnings.catch_warnings():
        # A letter that the font lacks is drawn as a box; the text after the picture has it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        return Picture(title, described, saved(sheet, kind), kind)
