"""The pictures of a report: the (ε, δ) graph of the answers, and of a store δ over the noise and over r."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from xarray import Dataset

from pbdist.errors import MissingDependencyError, PbdistError
from pbdist.query.noise_choice import NoiseChoice
from pbdist.query.stored import PointState
from pbdist.query.study import Study
from pbdist.report import plots
from pbdist.report.pages.answers import grouped_choices
from pbdist.report.pages.document import Block, Paragraph, Picture, epsilon_text
from pbdist.report.pages.words import target_in_words
from pbdist.report.plots.selection import Sources
from pbdist.report.sheet import saved, styled
from pbdist.study import Target

#: The most curves of a picture, and the fewest settings of a picture over the noise.
_MAX_CURVES, _MIN_SETTINGS = 6, 3


def bounds_of(study: Study, choices: Sequence[NoiseChoice]) -> Dataset:
    """Return the bounds of the answers that are computed, those that meet the target first; without any some others."""
    shown = [group[0] for group in grouped_choices(study, choices)]
    met = [choice.smallest.cell for choice in shown if choice.smallest is not None]
    refuted = [choice.refuted.cell for choice in shown if choice.refuted is not None]
    # A third of the curves is for those that are refuted, if there are as many.
    few = refuted[: _MAX_CURVES // 3]
    cells = np.array([*met[: _MAX_CURVES - len(few)], *few, *refuted[len(few) :]][:_MAX_CURVES], dtype=np.int64)
    if not cells.size:
        cells = np.unique(np.linspace(0, len(study.spec.cells) - 1, _MAX_CURVES).astype(np.int64))
    computed = (study.checked.read(cells).states == PointState.COMPUTED).any(axis=(1, 2))
    return study.bounds.isel(cell=cells[computed])


def epsilon_delta(bounds: Sources, compositions: int, target: Target | None) -> Block:
    """Return the (ε, δ) graph of some noises, with the target."""
    point = None if target is None else (target.epsilon, target.delta)
    lines = "" if target is None else " The straight lines cross at the target."
    return _picture(
        partial(plots.epsilon_delta, bounds, compositions=compositions, target=point),
        f"δ over ε after {compositions:,} round{'' if compositions == 1 else 's'}",
        f"The band of each noise lies between the bounds on δ; where it is a line, they are close.{lines}",
    )


def over_rounds(bounds: Sources, epsilon: float) -> Block:
    """Return δ over the stored numbers of rounds."""
    return _picture(
        partial(plots.compositions, bounds, epsilon=epsilon),
        f"δ over the number of rounds at ε = {epsilon_text(epsilon)}",
        "At each tabulated number of rounds a bar joins the bounds; the lines between only guide the eye.",
    )


def over_noise(study: Study, choices: Sequence[NoiseChoice], target: Target) -> Iterator[Block]:
    """Yield δ over the noise at a target, a picture for each label with enough settings."""
    labels = dict.fromkeys(one.label for one in choices if one.what and len(one.tried) >= _MIN_SETTINGS)
    for label in list(labels)[:_MAX_CURVES]:
        yield _picture(
            partial(plots.noise, study, mechanism=label, **asdict(target)),
            f"δ over the noise of {label}, for {target_in_words(target)}",
            "Each tabulated setting with its bounds and its verdict. Nothing is said between them.",
        )


def _picture(draw: Callable[[], Any], title: str, about: str) -> Block:
    """Return a picture with the names of its curves; where it cannot be drawn, a sentence that says why."""
    try:
        with styled(), warnings.catch_warnings():
            # A letter that the font lacks is drawn as a box; the text after the picture has it.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            axes = draw()
            curves = "; ".join([axes.get_title(loc="left"), *axes.get_legend_handles_labels()[1]])
            return Picture(title, about, saved(axes.figure, "svg"), curves)
    except (MissingDependencyError, PbdistError) as error:
        return Paragraph(f"{title}: there is no picture. {error}")
