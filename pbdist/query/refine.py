"""The points of δ that queries compute: those that a store lacks, and the ones next to an ε or r.

What is computed is added to the store. Which points are chosen decides how close the bounds are, never whether
they hold. A point that cannot be computed is left out; its question is answered by what is known without it.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from pbdist.arguments import MAX_COMPOSITIONS, SMALLEST_TOLERANCE
from pbdist.errors import InvalidInputError, PbdistError, PrecisionError
from pbdist.progress import reported
from pbdist.quantities import size
from pbdist.query.answers import Losses, Questions, bound_compositions, bound_delta, bound_epsilon
from pbdist.store import Refinement, StoredStudy, add_refinement, hold, read_refinements
from pbdist.store.layout import BOUNDS
from pbdist.study import Cell, StudySpec
from pbdist.study.plan import cell_cost
from pbdist.table import BoundsTable, bounds_table, epsilon_table_of
from pbdist.types import BoolArray, FloatArray

#: A cell, r and ε.
Point = tuple[Cell, int, float]
#: Has points computed and stored, and returns the same questions to the store that has them.
Again = Callable[[Iterable[Point]], Questions]
#: Why the points of a question, by its index, could not be computed.
Failures = dict[int, PbdistError]

#: How long to wait while another process writes to the store: another query takes a moment, a run does not end.
_PATIENCE_SECONDS = 60.0
#: How closely ε is narrowed down at most, relative to it, and in how many steps after the first.
_CLOSE, _STEPS = 2e-3, 5
#: By which factor the next ε is larger where no upper bound met δ.
_FURTHER = 1.25
#: How often the number of compositions is doubled or halved, at most.
_HALVINGS = 130
_LOG_LOWER, _LOG_UPPER = (list(BOUNDS).index(name) for name in ("log_delta_lower", "log_delta_upper"))


class UncomputableError(InvalidInputError):
    """A point that takes more memory than there is, or more than the engine computes."""


def refine(
    stored: StoredStudy, study: StudySpec, points: Iterable[Point], known: Sequence[Refinement] = ()
) -> tuple[Refinement, ...]:
    """Compute some points as the study would, add them to its store, and return all refinements of the store.

    Guaranteed: whenever this process ends, each group of points that is computed together is in the store as a whole or
    not at all. Several processes may add the same points: then one of them does, or all. No other file is changed.

    `stored` is the first part of the store, `known` the refinements that were read before. An `UncomputableError` or a
    `PrecisionError` where there is no bound, an `InvalidInputError` while another process goes on writing.
    """
    groups = _groups(points)
    for cell, compositions, epsilon in groups:
        _check_memory(replace(study, cells=(cell,), compositions=compositions, epsilon=epsilon), cell)
    # Before anything is computed: a run that is at work holds the store for long.
    with hold(stored.place, _PATIENCE_SECONDS):
        pass
    for cell, compositions, epsilon in reported("setting", groups):
        table = _computed(study, cell, compositions, epsilon)
        with hold(stored.place, _PATIENCE_SECONDS):
            add_refinement(stored, study, cell, table)
    return read_refinements(stored, known)


def _groups(points: Iterable[Point]) -> list[tuple[Cell, tuple[int, ...], tuple[float, ...]]]:
    """Return exactly these points as few products of r and ε, each of one cell."""
    losses: dict[tuple[Cell, int], set[float]] = {}
    for cell, r, epsilon in points:
        losses.setdefault((cell, r), set()).add(epsilon)
    rounds: dict[tuple[Cell, tuple[float, ...]], list[int]] = {}
    for (cell, r), values in losses.items():
        rounds.setdefault((cell, tuple(sorted(values))), []).append(r)
    return [(cell, tuple(sorted(compositions)), epsilon) for (cell, epsilon), compositions in rounds.items()]


def _computed(study: StudySpec, cell: Cell, compositions: Sequence[int], epsilon: Sequence[float]) -> BoundsTable:
    try:
        table = bounds_table(
            [(cell.pair, 1)],
            compositions=compositions,
            epsilon=epsilon,
            method=study.method,
            tolerance=study.tolerance,
            buckets=study.buckets,
            factor=cell.factor,
            joint_directions=study.direction == "both",
            floor=study.floor,
            # Bounds that miss the tolerance hold and are stored, as in a run.
            strict=False,
        )
    except InvalidInputError as error:
        raise UncomputableError(str(error)) from error
    if np.isnan([getattr(table, name) for name in BOUNDS]).any():
        raise PbdistError(f"{cell.describe()}: a bound is not a number")
    return table


def _check_memory(study: StudySpec, cell: Cell) -> None:
    needed = cell_cost(study, cell).peak_bytes
    allowed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    if needed > allowed:
        raise UncomputableError(
            f"refine: expected points that need at most {size(allowed)}, got {size(needed)} for {cell.describe()}:"
            " add them to the study and run it on more machines"
        )


def narrow_epsilon(
    questions: Questions, delta: FloatArray, again: Again, tolerance: float | None
) -> tuple[Questions, Failures]:
    """Have points computed next to ε(δ), where it is not known within the tolerance, or 0.2 %, yet.

    The first two are the bounds on ε of a computation that stores nothing; a third one, a little further, gives the
    slope. The others, in `_STEPS` steps, make up for the width of the brackets there.
    """
    close = _CLOSE if tolerance is None else min(_CLOSE, tolerance)
    _, upper, open_ = _open(questions, delta, close)
    points: list[tuple[int, Point]] = []
    failed: Failures = {}
    reach = np.full(delta.size, np.inf)
    # Without lower bounds there is nothing to close in on from below.
    attained = questions.attained
    for index in np.flatnonzero(open_).tolist():
        cell, r, _ = questions.point(index, 0.0)
        try:
            found = epsilon_table_of(
                [(cell.pair, 1)], compositions=r, delta=delta[index], tolerance=max(0.5 * close, SMALLEST_TOLERANCE)
            )
        except (PrecisionError, InvalidInputError) as error:
            failed[index] = error
            continue
        lowest = found.lower if found.computed_lower is None else found.computed_lower
        low, high = float(lowest.max()), float(found.upper.max())
        if not attained[index] and upper[index] <= high * (1.0 + close):
            continue
        reach[index] = 1.02 * high + 1e-6
        known = [low] if not np.isfinite(high) else [low, high, float(reach[index])]
        points += [(index, (cell, r, value)) for value in known]
    for step in range(_STEPS + 1):
        if step:
            lower, upper, open_ = _open(questions, delta, close)
            open_[list(failed)] = False
            open_ &= attained | np.isinf(upper)
            # Where no upper bound met δ, as brackets are wide, larger ε are tried.
            beyond = open_ & np.isinf(upper) & np.isfinite(reach)
            reach[beyond] *= _FURTHER
            open_ &= np.isfinite(upper) & (upper > 0.0)
            tried = _crossings(questions, delta, lower, np.where(open_, upper, 0.0))
            points = [
                (index, questions.point(index, float(values[index])))
                for values, there in [
                    *((values, open_ & (values > lower) & (values < upper)) for values in tried),
                    (reach, beyond),
                ]
                for index in np.flatnonzero(there).tolist()
            ]
        if not points:
            break
        questions = _with_points(questions, points, again, failed)
    return questions, failed


def _crossings(questions: Questions, delta: FloatArray, lower: FloatArray, upper: FloatArray) -> list[FloatArray]:
    """Return two ε between others, next to the one at which a line through the brackets at these meets δ."""
    first, last = (bound_delta(questions, Losses.exactly(values)).values.max(axis=1) for values in (lower, upper))
    with np.errstate(invalid="ignore", divide="ignore"):
        middle = (first[_LOG_LOWER] + first[_LOG_UPPER]) / 2.0
        slope = ((last[_LOG_LOWER] + last[_LOG_UPPER]) / 2.0 - middle) / (upper - lower)
        width = 0.6 * np.minimum(first[_LOG_UPPER] - first[_LOG_LOWER], last[_LOG_UPPER] - last[_LOG_LOWER])
        return [lower + (np.log(delta) + sign * width - middle) / slope for sign in (1.0, -1.0)]


def narrow_compositions(
    questions: Questions, losses: Losses, delta: FloatArray, again: Again
) -> tuple[Questions, Failures]:
    """Have points computed until the largest number of compositions that meets (ε, δ) is known or cannot be decided."""
    settled: BoolArray = np.zeros(delta.size, dtype=bool)
    # Without lower bounds nothing is refuted: the largest r that upper bounds allow is narrowed down, below these r.
    attained = questions.attained
    not_allowed = np.full(delta.size, np.inf)
    tried: set[tuple[int, int]] = set()
    failed: Failures = {}
    for _ in range(_HALVINGS):
        lower, upper = bound_compositions(questions, losses, delta)
        for index, r in tried:
            if not attained[index] and r > lower[index]:
                not_allowed[index] = min(not_allowed[index], r - 1.0)
        upper = np.minimum(upper, not_allowed)
        settled |= lower >= upper
        points: list[tuple[int, Point]] = []
        for index in np.flatnonzero(~settled).tolist():
            r = next_compositions(int(lower[index]), float(upper[index]))
            if (index, r) in tried or r > MAX_COMPOSITIONS:
                # Computed, and neither allowed nor refuted: the bounds at that r are on both sides of δ.
                settled[index] = True
                continue
            tried.add((index, r))
            points.append((index, (questions.cell(index), r, float(losses.nearest[index]))))
        if not points:
            break
        questions = _with_points(questions, points, again, failed)
        settled[list(failed)] = True
    return questions, failed


def _with_points(questions: Questions, points: list[tuple[int, Point]], again: Again, failed: Failures) -> Questions:
    """Have points computed, each given with the index of its question; note in `failed` which cannot be, and why."""
    try:
        return again(point for _, point in points)
    except (PrecisionError, UncomputableError):
        # One by one: the others are computed all the same.
        pass
    for index, point in points:
        try:
            questions = again([point])
        except (PrecisionError, UncomputableError) as error:
            failed[index] = error
    return questions


def next_compositions(allowed: int, refuted: float) -> int:
    """Return the r to compute next, between those that are known."""
    if not np.isfinite(refuted):
        return max(1, 2 * allowed)
    return (allowed + int(refuted) + 1) // 2


def _open(questions: Questions, delta: FloatArray, close: float) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the bounds on ε, the larger of the two directions, and where they are not close."""
    both_lower, both_upper, bounded = bound_epsilon(questions, delta)
    lower, upper = both_lower.max(axis=0), both_upper.max(axis=0)
    with np.errstate(invalid="ignore"):
        return lower, upper, ~bounded | np.isinf(upper) | ~(upper - lower <= close * lower)
