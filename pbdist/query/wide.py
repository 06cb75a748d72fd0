"""Why answers are wider than the study's tolerance: in a few words for each, and a sentence on the widest of all."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pbdist.arguments import MAX_COMPOSITIONS
from pbdist.query.answers import Questions
from pbdist.query.judging import BETWEEN, FACTOR, MISSED, between, missed_by
from pbdist.query.refine import next_rounds
from pbdist.results import ENCLOSED, NO_LOWER, log_relative_width, relative_width
from pbdist.store.layout import BOUNDS
from pbdist.study import StudySpec
from pbdist.study.spec import log_floor
from pbdist.types import BoolArray, FloatArray, TextArray

_LARGER_ALONE = "the study judges the larger of the two directions alone"
_CLOSEST = "as close as the bounds on δ tell there"

#: How a sentence on an answer ends that is wide for such a reason, and what the user can do about it.
_ENDS: Mapping[str, str] = {
    BETWEEN: "it lies between stored points: refine=True (pbdist query --refine) computes it",
    MISSED: "the study itself missed the tolerance there",
}
_TOO_FAR = "the stored points lie too far from it: refine=True (pbdist query --refine) computes closer ones"


def why_delta(
    study: StudySpec,
    asked: Questions,
    epsilon: FloatArray,
    answers: FloatArray,
    *,
    judged: tuple[BoolArray, FloatArray],
    stored: BoolArray,
) -> tuple[TextArray, str | None]:
    """Return why answers on δ are wide, empty text for those that are not, and the sentence on the widest.

    `answers` are the arrays of `BOUNDS`; `judged` says which are within the tolerance, and how wide they are; `stored`,
    shape (n,), which points are stored.
    """
    within, width = judged
    lower, upper = (answers[list(BOUNDS).index(name)] for name in ("delta_lower", "delta_upper"))
    # Directions apart: the larger of them alone is judged, and nothing that is computed is meant to be closer.
    alone = np.zeros(stored.shape, dtype=bool)
    if within.ndim > 1 and study.direction == "both":
        alone = (stored | _larger_is_close(study, answers)) & asked.attained
    # Without a lower bound only the study itself can tell how closely a point was computed.
    cases = {
        NO_LOWER: ~asked.attained,
        BETWEEN: ~stored & asked.attained,
        MISSED: stored & asked.attained,
        ENCLOSED: stored & asked.attained & asked.enclosed,
        _LARGER_ALONE: alone,
        FACTOR: ~_sought(asked),
    }
    why = _worded(within, cases)
    missed = ~within & _sought(asked)

    def worst(index: tuple[int, ...]) -> str:
        n, end = index[-1], str(why[index])
        end = _ENDS.get(end, end)
        between_them = int(np.count_nonzero(missed & (why == BETWEEN)))
        if why[index] != BETWEEN and between_them:
            end += f"; {between_them:,} of the others lie between stored points: refine=True (--refine) computes them"
        at = f"{_setting(asked, n)}, r = {int(asked.compositions[n])}, ε = {float(epsilon[n]):.6g}"
        known = between("δ", math.nan if end == NO_LOWER else float(lower[index]), float(upper[index]))
        return f"{at}: {known}" if end == NO_LOWER else f"{at}: {known}: {end}"

    return why, missed_by(missed, width, study, "delta_upper / delta_lower - 1", worst)


def why_epsilon(
    study: StudySpec, asked: Questions, delta: FloatArray, bounds: tuple[FloatArray, FloatArray], *, refined: bool
) -> tuple[BoolArray | None, TextArray | None, str | None]:
    """Return which answers on ε are within the tolerance, why the others are wide, and the sentence on the widest.

    None where the study has no tolerance.
    """
    closest = np.full(delta.size, refined)

    def point(n: int) -> str:
        return f"r = {int(asked.compositions[n])}"

    return _why_indirect(study, asked, delta, bounds, names=("epsilon", "ε"), point=point, closest=closest)


def why_rounds(
    study: StudySpec,
    asked: Questions,
    epsilon: FloatArray,
    delta: FloatArray,
    bounds: tuple[Any, FloatArray],
    *,
    refined: bool,
) -> tuple[BoolArray | None, TextArray | None, str | None]:
    """Return the same of answers on r."""
    if study.sought is None:
        return None, None, None
    closest = np.full(delta.size, refined) | _next_is_stored(asked, epsilon, *bounds)

    def point(n: int) -> str:
        return f"ε = {float(epsilon[n]):.6g}"

    return _why_indirect(study, asked, delta, bounds, names=("compositions", "r"), point=point, closest=closest)


def _why_indirect(
    study: StudySpec,
    asked: Questions,
    delta: FloatArray,
    bounds: tuple[Any, FloatArray],
    *,
    names: tuple[str, str],
    point: Callable[[int], str],
    closest: BoolArray,
) -> tuple[BoolArray | None, TextArray | None, str | None]:
    if study.sought is None:
        return None, None, None
    lower, upper = bounds
    width = relative_width(lower, upper)
    within = np.asarray(width <= study.sought)
    why = _worded(within, {BETWEEN: ~closest, _CLOSEST: closest, FACTOR: ~_sought(asked), NO_LOWER: ~asked.attained})

    def worst(index: tuple[int, ...]) -> str:
        n, end = index[-1], str(why[index])
        known = between(names[1], math.nan if end == NO_LOWER else float(lower[index]), float(upper[index]))
        end = _TOO_FAR if end == BETWEEN else end
        at = f"{_setting(asked, n)}, {point(n)}, δ = {float(delta[n]):g}"
        return f"{at}: {known}" if end == NO_LOWER else f"{at}: {known}: {end}"

    missed = ~within & _sought(asked)
    return within, why, missed_by(missed, width, study, f"{names[0]}_upper / {names[0]}_lower - 1", worst)


def _larger_is_close(study: StudySpec, answers: FloatArray) -> BoolArray:
    """Return at which points the larger of the two directions is within the tolerance."""
    lower, upper = (answers[list(BOUNDS).index(name)].max(axis=0) for name in ("log_delta_lower", "log_delta_upper"))
    return np.asarray((log_relative_width(lower, upper) <= (study.sought or 0.0)) | (upper <= log_floor(study)))


def _worded(within: BoolArray, cases: Mapping[str, BoolArray]) -> TextArray:
    """Return for each answer the last text whose case holds, empty text where it is within; each case of shape (n,)."""
    why = np.full(within.shape, "", dtype=object)
    for text, holds in cases.items():
        why[~within & holds] = text
    return why


def _next_is_stored(asked: Questions, epsilon: FloatArray, lower: Any, upper: FloatArray) -> BoolArray:
    """Return where the r that would be computed next is stored at that ε: its bounds lie on both sides of δ."""
    found = np.zeros(epsilon.size, dtype=bool)
    for index in np.flatnonzero(lower < upper).tolist():
        points, r = asked.settings[int(asked.setting[index])].equal, next_rounds(int(lower[index]), float(upper[index]))
        if points is not None and r <= MAX_COMPOSITIONS:
            found[index] = bool(points.stored(np.array([r]), epsilon[[index]])[0][0])
    return found


def _sought(asked: Questions) -> BoolArray:
    """Return which questions the study's tolerance is for: a cell with a factor of its own has none."""
    return np.array([setting.cell.factor is None for setting in asked.settings], dtype=bool)[asked.setting]


def _setting(asked: Questions, index: int) -> str:
    return asked.settings[int(asked.setting[index])].cell.describe()
