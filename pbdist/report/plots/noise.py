"""Noise against δ at one target: what is proved to meet it, what is refuted, and what is undecided."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.query import Study, Verdict
from pbdist.query.noise_choice import NoiseChoice, TabulatedNoise, noise_choices
from pbdist.query.stored import NOT_COMPUTED
from pbdist.report.plots import frame
from pbdist.report.plots.frame import LOWEST, equal_to
from pbdist.report.plots.selection import Curve, opened
from pbdist.report.sheet import LINES
from pbdist.rounding import exact
from pbdist.study import Target

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Marker, colours of its edge and face, and words of each verdict; the words are in the legend, so that neither of the
#: others is needed.
_VERDICTS: Mapping[Verdict, tuple[str, str, str, str]] = {
    Verdict.MEETS: ("o", "#009E73", "#009E73", "meets the target (upper bound)"),
    Verdict.REFUTED: ("x", "#D55E00", "#D55E00", "refuted (lower bound)"),
    Verdict.UNDECIDED: ("D", "#0072B2", "white", "undecided (upper bound)"),
}
#: More groups of settings in one plot cannot be distinguished.
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
        The target: r, one of ε in nats and e^ε, and δ. What is not given is that of the study's first target; without
        one the largest stored r, the middle stored ε, and 1e-5.
    mechanism, **noise
        Which settings: a label, and parameters that are not the amount of noise; by default all. At most 4 groups that
        differ in more than their amount of noise are drawn.
    lowest, axes
        As for `epsilon_delta`, and so are what is returned and the errors.
    """
    study = opened(study)
    if delta is not None and not 0.0 < delta < 1.0:
        raise InvalidInputError(f"delta: expected a number between 0 and 1, got {shown(delta)}")
    own = own_target(study)
    if epsilon is None and exp_epsilon is None:
        epsilon = own.epsilon
    r = own.compositions if compositions is None else compositions
    delta = own.delta if delta is None else delta
    point: dict[str, Any] = {"compositions": r, "epsilon": epsilon, "exp_epsilon": exp_epsilon, "mechanism": mechanism}
    found = noise_choices(study, **point, delta=delta)
    choices = picked(found, noise, MAX_GROUPS)
    at = f"r = {r:,}, {equal_to('e^ε', exp_epsilon) if epsilon is None else equal_to('ε', epsilon)}"  # type: ignore[arg-type]
    gaps = study.gaps([one.cell for choice in choices for one in choice.tried if one.verdict is Verdict.MISSING])
    return draw_choices(choices, axes, delta=delta, at=at, lowest=lowest, gaps=gaps)


def own_target(study: Study) -> Target:
    """Return the first target of a study; without one the largest stored r, the middle stored ε, and 1e-5."""
    r, grid = study.spec.compositions, study.spec.epsilon
    return next(iter(study.spec.targets), Target(compositions=max(r), epsilon=grid[len(grid) // 2], delta=1e-5))


def picked(found: Sequence[NoiseChoice], noise: Mapping[str, Any], most: int) -> list[NoiseChoice]:
    """Return the groups that have an amount of noise, and the parameters given: 1 to `most`, of one kind of amount."""
    groups = [choice for choice in found if choice.what]
    if not groups:
        labels = ", ".join(dict.fromkeys(choice.label for choice in found))
        raise InvalidInputError(f"mechanism: expected one with an amount of noise, got {labels}")
    for name, wanted in noise.items():
        values = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
        known = ", ".join(dict.fromkeys(str(choice.fixed.get(name, "none")) for choice in groups))
        groups = [choice for choice in groups if choice.fixed.get(name) in values]
        if not groups:
            raise InvalidInputError(f"{name}: expected one of {known}, got {shown(wanted)}")
    if len(groups) > most:
        names = dict.fromkeys(["mechanism", *(name for one in groups for name in one.fixed)])
        raise InvalidInputError(
            f"mechanism: expected at most {most} groups of settings in one plot, got {len(groups)}: choose by"
            f" {', '.join(names)}"
        )
    return groups


def over_amounts(choice: NoiseChoice, **columns: str) -> Curve:
    """Return the bounds on ln δ of a group over its amounts of noise."""
    amounts, lower, upper = (
        np.array([getattr(one, name) for one in choice.tried]) for name in ("amount", "lower", "upper")
    )
    attained = not np.any(np.isnan(lower) & ~np.isnan(upper))
    about = {**columns, "mechanism": choice.label, **choice.fixed}
    with np.errstate(divide="ignore"):
        logs = np.log(lower), np.log(upper)
    return Curve(about, amounts, *logs, attained=attained, adjacency=choice.adjacency)


def draw_choices(
    choices: Sequence[NoiseChoice],
    axes: "Axes | None",
    *,
    delta: float,
    at: str,
    lowest: float = LOWEST,
    gaps: Mapping[int, str] | None = None,
) -> "Axes":
    """Draw what a study proves of the noise settings of some groups at a target δ.

    `at` is the rest of the title, and `gaps` says why cells are missing.
    """
    frame.one_amount(choices)
    tried = [one for choice in choices for one in choice.tried]
    curves = [over_amounts(choice) for choice in choices]
    axes, title, labels, _ = frame.begin(curves, axes)
    labels = labels if len(choices) > 1 else [""]
    uppers, lowers = ([np.exp(getattr(one, side)) for one in curves] for side in ("upper", "lower"))
    frame.wide_axis(axes, [one.amount for one in tried])
    hidden = frame.delta_axis(axes, [*uppers, np.array([delta])], lowers, lowest)
    bottom = axes.get_ylim()[0]

    def mark(settings: Sequence[TabulatedNoise], label: str, **style: Any) -> None:
        """Mark settings at the bound that their verdict rests on; those with a smaller δ on the lower edge."""
        if settings:
            amounts, places = zip(*((one.amount, max(_place(one), bottom)) for one in settings), strict=True)
            axes.plot(amounts, places, linestyle="none", label=label, clip_on=False, **style)

    for position, (choice, one, label) in enumerate(zip(choices, curves, labels, strict=True)):
        line = {"color": "0.45", "linestyle": LINES[position % len(LINES)], "linewidth": 0.8, "zorder": 1.0}
        places = np.array(list(map(_place, choice.tried)))
        axes.plot(one.places, np.maximum(places, bottom), label=label or "_settings", **line)
        axes.vlines(one.places, lowers[position], uppers[position], color="0.35", linewidth=1.2)
        if choice.smallest is not None:
            ring = {"markersize": 13.0, "markerfacecolor": "none", "markeredgecolor": "black"}
            mark([choice.smallest], "_least" if position else "least noise that meets it", marker="o", **ring)
    for verdict, (marker, colour, face, words) in _VERDICTS.items():
        style = {"color": colour, "markerfacecolor": face, "markersize": 6.0, "markeredgewidth": 1.6, "zorder": 3.0}
        mark([one for one in tried if one.verdict is verdict], words, marker=marker, **style)
    axes.axhline(delta, color="black", linewidth=1.0, linestyle="--", label=f"target: {equal_to('δ', delta)}")
    notes = [_sentence(choice, label) for choice, label in zip(choices, labels, strict=True)]
    notes += frame.gap_notes((np.isnan([one.upper]), (gaps or {}).get(one.cell, NOT_COMPUTED)) for one in tried)
    edge = sum(_place(one) < bottom for one in tried)
    if edge:
        notes.append(f"{edge:,} of {len(tried):,} settings have a smaller δ, and are drawn on the lower edge")
    notes += [*hidden, *frame.setting_notes(labels, curves)]
    frame.finish(axes, title, at, x=choices[0].what, y="δ, a probability", notes=notes, legend=True)
    return axes


def _place(one: TabulatedNoise) -> float:
    """Return the bound that the verdict rests on."""
    return one.lower if one.verdict is Verdict.REFUTED else one.upper


def _sentence(choice: NoiseChoice, label: str) -> str:
    start = f"{label}: " if label else ""
    if choice.smallest is None:
        return f"{start}no tabulated setting is proved to meet the target"
    start += f"{exact(choice.smallest.amount)} is the least tabulated noise proved to meet the target"
    if choice.refuted is None:
        return f"{start}; less {'noise is not stored' if choice.smallest is choice.tried[0] else 'is not refuted'}"
    return f"{start}; {exact(choice.refuted.amount)} is refuted, and nothing is said between"
