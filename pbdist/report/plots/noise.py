"""Noise against δ at one target: what is proved to meet it, what is refuted, and what is undecided."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.query import Study, Verdict
from pbdist.query.noise_choice import NoiseChoice, TabulatedNoise, noise_choices
from pbdist.query.settings import neighbours_words
from pbdist.query.stored import NOT_COMPUTED
from pbdist.report.plots.frame import (
    LN10,
    LOWEST,
    NO_LOWER,
    axes_for,
    equal_to,
    finish,
    gap_notes,
    labelled,
    refuse_nothing,
    show_decades,
    wide_axis,
)
from pbdist.report.sheet import LINES
from pbdist.rounding import exact

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Marker, colour and words of each verdict; the words stand in the legend, so that neither of the others is needed.
_VERDICTS: Mapping[Verdict, tuple[str, str, str, str]] = {
    Verdict.MEETS: ("o", "#009E73", "#009E73", "meets the target (upper bound)"),
    Verdict.REFUTED: ("x", "#D55E00", "#D55E00", "refuted (lower bound)"),
    Verdict.UNDECIDED: ("D", "#0072B2", "white", "undecided (upper bound)"),
}
#: More groups of settings in one plot cannot be told apart.
MAX_GROUPS = 4


def noise(
    study: Study,
    *,
    compositions: int | None = None,
    epsilon: float | None = None,
    exp_epsilon: float | None = None,
    delta: float | None = None,
    mechanism: str | None = None,
    lowest: float = LOWEST,
    axes: "Axes | None" = None,
    **noise: Any,
) -> "Axes":
    """Draw δ over the amount of noise at a target, with what is proved of each tabulated setting.

    A setting that meets the target is drawn at its upper bound, a refuted one at its lower bound, an undecided one at
    its upper bound; a bar joins the two. The least noise that meets the target is ringed. Between settings nothing is
    said.

    Parameters
    ----------
    study
        ``pbdist.open_study(..)``.
    compositions, epsilon, exp_epsilon, delta
        The target: r, one of ε in nats and e^ε, and δ. By default the largest stored r, the middle stored ε, and the
        power of ten that divides the settings best; the title tells them.
    mechanism, **noise
        Which settings: a label, and parameters that are not the amount of noise; by default all. At most 4 groups that
        are alike but for their amount of noise are drawn.
    lowest, axes
        As for `epsilon_delta`, and so are what is returned and the errors.
    """
    if not isinstance(study, Study):
        raise InvalidInputError(f"study: expected an opened study, got {shown(study)}")
    if delta is not None and not 0.0 < delta < 1.0:
        raise InvalidInputError(f"delta: expected a number between 0 and 1, got {shown(delta)}")
    told = _target(study, compositions, epsilon, exp_epsilon)
    found = noise_choices(study, **told, delta=0.5 if delta is None else delta, mechanism=mechanism)
    if delta is None:
        delta = _dividing(found)
        found = noise_choices(study, **told, delta=delta, mechanism=mechanism)
    picked = _picked(found, noise)
    if len(picked) > MAX_GROUPS:
        raise InvalidInputError(
            f"mechanism: expected at most {MAX_GROUPS} groups of settings in one plot, got {len(picked)}: choose by"
            f" {', '.join(dict.fromkeys(['mechanism', *(name for one in picked for name in one.fixed)]))}"
        )
    loss = equal_to("ε", told["epsilon"]) if told["epsilon"] is not None else equal_to("e^ε", told["exp_epsilon"])
    at = f"r = {told['compositions']:,}, {loss}"
    missing = [one.cell for choice in picked for one in choice.tried if one.verdict is Verdict.MISSING]
    gaps = study.gaps(missing)
    return draw_choices(picked, axes_for(axes), delta=delta, at=at, lowest=lowest, gaps=gaps)


def _target(study: Study, compositions: int | None, epsilon: float | None, exp_epsilon: float | None) -> dict[str, Any]:
    if epsilon is None and exp_epsilon is None:
        epsilon = study.spec.epsilon[len(study.spec.epsilon) // 2]
    if compositions is None:
        compositions = max(study.spec.compositions)
    return {"compositions": compositions, "epsilon": epsilon, "exp_epsilon": exp_epsilon}


def _dividing(found: Sequence[NoiseChoice]) -> float:
    """Return the power of ten next to the middle of the upper bounds."""
    uppers = [one.upper for choice in found for one in choice.tried if 0.0 < one.upper < 1.0]
    return 1e-5 if not uppers else min(0.1, 10.0 ** round(math.log10(float(np.median(uppers)))))


def _picked(found: Sequence[NoiseChoice], noise: Mapping[str, Any]) -> list[NoiseChoice]:
    """Return the groups that have an amount, and the parameters given."""
    comparable = [choice for choice in found if choice.what]
    if not comparable:
        labels = ", ".join(dict.fromkeys(choice.label for choice in found))
        raise InvalidInputError(f"mechanism: expected one with an amount of noise, got {labels}")
    for name, wanted in noise.items():
        values = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
        left = [choice for choice in comparable if choice.fixed.get(name) in values]
        if not left:
            there = ", ".join(dict.fromkeys(str(choice.fixed.get(name, "none")) for choice in comparable))
            raise InvalidInputError(f"{name}: expected one of {there}, got {shown(wanted)}")
        comparable = left
    return comparable


def draw_choices(
    choices: Sequence[NoiseChoice],
    axes: "Axes",
    *,
    delta: float,
    at: str,
    lowest: float = LOWEST,
    gaps: Mapping[int, str] | None = None,
) -> "Axes":
    """Draw what a study proves of the noise settings of some groups at a target δ into axes.

    `at` is the rest of the title, and `gaps` says why cells are missing.

    Raises
    ------
    InvalidInputError
        Their amounts are not of one kind.
    OffGridError
        Nothing is computed.
    """
    whats = list(dict.fromkeys(choice.what for choice in choices))
    if len(whats) != 1:
        raise InvalidInputError(
            f"mechanism: expected settings with one kind of amount, got {'; '.join(whats)}: choose one"
        )
    tried = [one for choice in choices for one in choice.tried]
    missing = [(np.array([one.verdict is Verdict.MISSING]), (gaps or {}).get(one.cell, NOT_COMPUTED)) for one in tried]
    refuse_nothing(missing)
    title, labels = labelled([{"mechanism": choice.label, **choice.fixed} for choice in choices])
    labels = labels if len(choices) > 1 else [""]
    for position, (choice, label) in enumerate(zip(choices, labels, strict=True)):
        line = {"color": "0.45", "linestyle": LINES[position % len(LINES)], "linewidth": 0.8}
        places = [_log(_place(one)) / LN10 for one in choice.tried]
        axes.plot([one.amount for one in choice.tried], places, label=label or "_settings", zorder=1.0, **line)
        if choice.smallest is not None:
            ring = {"markersize": 13.0, "markerfacecolor": "none", "markeredgecolor": "black"}
            words = "least noise that meets it" if position == 0 else "_least"
            _mark(axes, [choice.smallest], "o", words, **ring)
    for one in tried:
        if one.upper > 0.0:
            low, high = _log(one.lower) / LN10, _log(one.upper) / LN10
            axes.vlines(one.amount, high - 1e3 if one.lower == 0.0 else low, high, color="0.35", linewidth=1.2)
    for verdict, (marker, colour, face, words) in _VERDICTS.items():
        mine = [one for one in tried if one.verdict is verdict]
        style = {"color": colour, "markerfacecolor": face, "markersize": 6.0, "markeredgewidth": 1.6, "zorder": 3.0}
        _mark(axes, mine, marker, words, **style)
    words = f"target: {equal_to('δ', delta)}"
    axes.axhline(math.log10(delta), color="black", linewidth=1.0, linestyle="--", label=words)
    notes = [_sentence(choice, label) for choice, label in zip(choices, labels, strict=True)]
    notes += gap_notes(missing)
    nothing = sum(_place(one) == 0.0 for one in tried)
    if nothing:
        notes.append(f"δ is 0 at {nothing:,} of {len(tried):,} settings, which are drawn on the lower edge")
    if any(math.isnan(one.lower) and not math.isnan(one.upper) for one in tried):
        notes.append(NO_LOWER)
    told = [(choice.label, choice.adjacency) for choice in choices]
    notes += [neighbours_words(told)] if any(relation.definite for _, relation in told) else []
    wide_axis(axes, [one.amount for one in tried])
    lower, upper = (np.array([_log(getattr(one, side)) for one in tried]) for side in ("lower", "upper"))
    notes += show_decades(axes, [upper, np.array([math.log(delta)])], [lower], lowest)
    finish(axes, title, at, x=choices[0].what, y="δ, a probability", notes=notes, legend=True)
    return axes


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else math.nan


def _place(one: TabulatedNoise) -> float:
    """Return the bound that the verdict rests on."""
    return one.lower if one.verdict is Verdict.REFUTED else one.upper


def _mark(axes: "Axes", settings: Sequence[TabulatedNoise], marker: str, words: str, **style: Any) -> None:
    """Mark settings at the bound that their verdict rests on; those with a δ of 0 on the lower edge."""
    for at_zero in (False, True):
        drawn = [one for one in settings if (_place(one) == 0.0) is at_zero]
        if not drawn:
            continue
        edge: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "clip_on": False} if at_zero else {}
        places = [0.0 if at_zero else _log(_place(one)) / LN10 for one in drawn]
        label = words if drawn[0] is settings[0] else "_more"
        axes.plot([one.amount for one in drawn], places, linestyle="none", marker=marker, label=label, **style, **edge)


def _sentence(choice: NoiseChoice, label: str) -> str:
    start = f"{label}: " if label else ""
    if choice.smallest is None:
        return f"{start}no tabulated setting is proved to meet the target"
    told = f"{start}{exact(choice.smallest.amount)} is the least tabulated noise proved to meet the target"
    if choice.refuted is None:
        return f"{told}; less is not refuted"
    return f"{told}; {exact(choice.refuted.amount)} is refuted, and nothing is said between"
