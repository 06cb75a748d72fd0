"""ε of a δ by exact transforms: a guess from saddle points, and bounds on δ that are close near a guess."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from pbdist.pld.large_losses import LossCuts
from pbdist.pld.loss_transform import rounds_of
from pbdist.pld.question import Question
from pbdist.pld.smoothing import Smoothed, SmoothedBounds, Tilts
from pbdist.pld.transform_rows import MOST_EXCESS, SUMMED, TransformRows
from pbdist.types import FloatArray

#: Points of a look for an ε, and looks.
_POINTS, _LOOKS, _HALVINGS = 17, 5, 9

#: Logarithms of lower and upper bounds on δ at some ε.
_Reader = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


def transform_reader(question: Question, finer: float) -> _Reader | None:
    """Return a function that bounds the larger ln δ of the directions asked for, closest near the only point.

    `finer` is that of `TransformRows`. None where too many frequencies were needed.
    """
    rows = TransformRows(question, finer=finer)
    readers: list[_Reader] = []
    for row in rows.sides(0):
        side = row.smoothed
        if readers and row.chernoff[0] < rows.log_floor:
            # It is too small to matter.
            readers.append(partial(_from_above, side))
            continue
        best = _best_of_parts(rows, question, side) or _best(rows, side)
        if best is None or _missed(best, question):
            best = _best_of_parts(rows, question, side, missed=True) or best
        if best is None:
            return None
        readers.append(best)
    return partial(_largest, readers)


def _best(rows: TransformRows, side: Smoothed) -> _Reader | None:
    """Return the closest bounds of a direction at the only point."""
    best: SmoothedBounds | None = None
    least = math.inf
    for group in rows.groups(side, np.arange(1), MOST_EXCESS):
        for bounds, lower, upper in rows.passes(side, group, np.full(1, -np.inf), np.zeros(1)):
            if best is None or upper[0] - lower[0] < least:
                best, least = bounds, float(upper[0] - lower[0])
    return None if best is None else best.bounds


def _missed(reader: _Reader, question: Question) -> bool:
    """Whether the bounds at the only point are farther apart than is wanted."""
    lower, upper = reader(question.epsilon)
    return bool(upper[0] > lower[0] + math.log1p(question.tolerance))


def _best_of_parts(rows: TransformRows, question: Question, side: Smoothed, *, missed: bool = False) -> _Reader | None:
    """Return bounds by parts of the losses, where they are needed: with `missed` where one tilt has missed."""
    cuts = rows.cuts.get(side.rounds)
    if cuts is None or not cuts.needed(side, question.epsilon, missed=missed)[0]:
        return None
    found = cuts.part(side.number, question.epsilon, question.tolerance)
    parts = next(cuts.both(side.number, float(question.epsilon[0]))) if found is None else (found[0],)
    best = [each for part in parts if (each := _best(rows, part)) is not None]
    return partial(_sum, best) if len(best) == len(parts) else None


def _largest(readers: Sequence[_Reader], epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    found = [each(epsilon) for each in readers]
    return np.max([each[0] for each in found], axis=0), np.max([each[1] for each in found], axis=0)


def _sum(readers: Sequence[_Reader], epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    found = [each(epsilon) for each in readers]
    lower = np.logaddexp.reduce([each[0] for each in found]) - SUMMED
    return lower, np.minimum(np.logaddexp.reduce([each[1] for each in found]) + SUMMED, 0.0)


def _from_above(side: Smoothed, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    return np.full(epsilon.size, -np.inf), side.chernoff(epsilon)


def guessed_epsilon(question: Question, delta: float, largest: float) -> tuple[float, float] | None:
    """Return about the ε that meets δ in the directions asked for, and the slope of ln δ; None beyond `largest`."""
    number, wanted = int(question.rounds[0]), math.log(delta)
    best = 0.0, -1.0
    for direction in question.directions:
        rounds = rounds_of(question.counts, direction)
        if rounds is None:
            return None
        end = 1.0
        while True:
            side = Smoothed(rounds, number, Tilts.of(rounds, number, end))
            if side.saddle(np.array([end]))[1][0] < wanted:
                break
            end *= 4.0
            if end > largest:
                return None
        low = 0.0
        for _ in range(_LOOKS):
            points = np.linspace(low, end, _POINTS)
            met = side.saddle(points)[1] < wanted
            first = int(np.argmax(met))
            low, end = float(points[max(first - 1, 0)]), float(points[first])
        end = min(end, _guessed_by_parts(Smoothed(rounds, number, Tilts.of(rounds, number, end)), wanted, end))
        if end > best[0]:
            best = end, -max(float(side.saddle(np.array([end]))[0][0]), 1e-3)
    return best


def _guessed_by_parts(side: Smoothed, wanted: float, end: float) -> float:
    """Return about the ε of a ln δ by parts of losses where these are needed, and the end otherwise."""
    point = np.array([end])
    if not LossCuts.serves(side.rounds):
        return end
    cuts = LossCuts(side.rounds, side.tilts)
    if not cuts.needed(side, point)[0]:
        return end
    low, high = 0.0, end
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if not cuts.sees(middle):
            break
        low, high = (middle, high) if cuts.log_delta_of_both(side.number, middle) > wanted else (low, middle)
    return high
