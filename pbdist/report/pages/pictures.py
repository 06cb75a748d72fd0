"""The pictures of a report: the (ε, δ) graph of the answers, and of a store δ over the noise and over r."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from string import ascii_uppercase
from typing import Any, TypeAlias

import numpy as np

from pbdist.errors import MissingDependencyError, PbdistError
from pbdist.query.noise_choice import NoiseChoice
from pbdist.query.study import Study
from pbdist.report import plots
from pbdist.report.pages.answers import grouped_choices, setting_in_words, spread, stored_bounds
from pbdist.report.pages.document import Block, Paragraph, Picture, epsilon_text, named, plain
from pbdist.report.pages.words import target_in_words
from pbdist.report.sheet import saved
from pbdist.study import Target

#: The most curves of a picture, and the fewest settings of a picture over the noise.
_MAX_CURVES, _MIN_SETTINGS = 6, 3
#: By their letters in the legend: the sources of curves, None if nothing is computed, and their words.
Curves: TypeAlias = Mapping[str, tuple[Any, str]]


def curves_of(study: Study, choices: Sequence[NoiseChoice]) -> Curves:
    """Return the settings of the answers, those that meet the target first; without answers some settings, evenly."""
    shown = [group[0] for group in grouped_choices(study, choices)]
    met = [choice.smallest.cell for choice in shown if choice.smallest is not None]
    refuted = [choice.refuted.cell for choice in shown if choice.refuted is not None]
    # A third of the curves is for those that are refuted, if there are as many.
    few = refuted[: _MAX_CURVES // 3]
    cells = [*met[: _MAX_CURVES - len(few)], *few, *refuted[len(few) :]][:_MAX_CURVES]
    cells = cells or spread(len(study.spec.cells), _MAX_CURVES)
    curves: dict[str, tuple[Any, str]] = {}
    for letter, (cell, (_, upper)) in zip(ascii_uppercase, stored_bounds(study, cells).items(), strict=False):
        computed = not np.isnan(upper).all()
        words = f"{letter}: {setting_in_words(study.spec.cells[cell])}{'' if computed else ', not computed'}"
        curves[letter] = study.bounds.isel(cell=[cell]) if computed else None, words
    return curves


def epsilon_delta(curves: Curves, compositions: int, target: Target | None) -> Block:
    """Return the (ε, δ) graph of some noises, with the target, and the words of its letters."""
    point = None if target is None else (target.epsilon, target.delta)
    lines = "" if target is None else " The straight lines cross at the target."
    return _of_curves(
        partial(plots.epsilon_delta, compositions=compositions, target=point),
        curves,
        f"δ over ε after {compositions:,} round{'' if compositions == 1 else 's'}",
        f"The band of each noise lies between the bounds on δ; where it is a line, they are close.{lines}",
    )


def over_rounds(curves: Curves, epsilon: float) -> Block:
    """Return δ over the stored numbers of rounds."""
    return _of_curves(
        partial(plots.compositions, epsilon=epsilon),
        curves,
        f"δ over the number of rounds at ε = {epsilon_text(epsilon)}",
        "At each tabulated number of rounds a bar joins the bounds; the lines between only guide the eye.",
    )


def over_noise(study: Study, choices: Sequence[NoiseChoice], target: Target) -> Iterator[Block]:
    """Yield δ over the noise at a target, a picture for each label with enough settings."""
    labels = dict.fromkeys(one.label for one in choices if one.what and len(one.tried) >= _MIN_SETTINGS)
    for label in list(labels)[:_MAX_CURVES]:
        yield _picture(
            partial(plots.noise, study, mechanism=label, **asdict(target)),
            f"δ over the noise of {named(label)}, for {target_in_words(target)}",
            "Each tabulated setting with its bounds and its verdict. Nothing is said between them.",
        )


def _of_curves(draw: Callable[[Any], Any], curves: Curves, title: str, about: str) -> Block:
    drawn = {name: source for name, (source, _) in curves.items() if source is not None}
    key = "; ".join(words for _, words in curves.values())
    if not drawn:
        return Paragraph(f"{title}: there is no picture. {key}.")
    return _picture(partial(draw, drawn), title, f"{about} {key}.")


def _picture(draw: Callable[[], Any], title: str, about: str) -> Block:
    """Return a picture; where it cannot be drawn, a sentence that says why."""
    try:
        with warnings.catch_warnings():
            # A letter that the font lacks is drawn as a box; the text after the picture has it.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            return Picture(title, about, saved(draw().figure, "svg"))
    except (MissingDependencyError, PbdistError) as error:
        return Paragraph(f"{title}: there is no picture. {plain(str(error))}")
