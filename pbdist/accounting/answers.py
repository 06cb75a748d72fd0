"""Bounds on ε and δ of a history, and of several repeats of it, as arrays; the last tables are remembered."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from pbdist.accounting.history import Round
from pbdist.arguments import (
    MAX_COMPOSITIONS,
    check_direction,
    check_strict,
    checked_compositions,
    checked_delta,
    checked_epsilon,
    checked_tolerance,
)
from pbdist.bounds.delta import delta_missed, epsilon_within, why_wide
from pbdist.errors import InvalidInputError, PrecisionError, PrecisionWarning
from pbdist.mechanisms import Adjacency, Pair
from pbdist.results import DeltaBounds, EpsilonBounds
from pbdist.table import BoundsTable, EpsilonTable, bounds_table, epsilon_table_of
from pbdist.types import BoolArray, FloatArray, IntArray

#: Why an answer is wide.
#: So many tables are remembered.
_REMEMBERED = 32
#: Frames from a warning to who asked an accountant.
_DEPTH = 4


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of a history, checked.

    Attributes
    ----------
    values : ndarray
        δ or ε, broadcast with `repeats`.
    repeats : ndarray of int64
        How often the history is run, of the same shape.
    tolerance : float
    together : bool
        Whether the larger of the two directions is asked for, and not each.
    strict : bool
        Whether a tolerance that is missed is an error.
    """

    values: FloatArray
    repeats: IntArray
    tolerance: float
    together: bool
    strict: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer, with a leading axis of the directions where each is asked for."""
        return self.values.shape if self.together else (2, *self.values.shape)


def asked(field: str, values: Any, *, repeats: Any, tolerance: Any, direction: Any, strict: Any) -> Question:
    """Return a question, checked; `field` is "delta" or "epsilon", of which the values are.

    Raises
    ------
    InvalidInputError
        An argument is out of its range, or the values and the repeats do not broadcast.
    """
    check_direction(direction)
    check_strict(strict)
    aimed = checked_tolerance(tolerance)
    given = _checked(field, values, partial(checked_delta, zero=True) if field == "delta" else checked_epsilon)
    times = _checked("repeats", repeats, checked_compositions)
    try:
        shaped = np.broadcast_arrays(given, times)
    except ValueError:
        raise InvalidInputError(
            f"repeats: expected a shape that goes with the shape {given.shape} of {field}, got {times.shape}"
        ) from None
    return Question(shaped[0], shaped[1], aimed, direction == "both", strict)


def _checked(field: str, given: Any, check: Callable[[Any], Any]) -> Any:
    """Return an array of any shape, checked as one of a single axis."""
    try:
        flat = np.ravel(given)
    except ValueError:
        flat = given
    try:
        return check(flat).reshape(np.shape(given))
    except InvalidInputError as error:
        raise InvalidInputError(f"{field}: {str(error).partition(': ')[2]}") from None


def epsilon_of(history: Round | None, question: Question, adjacency: Adjacency) -> EpsilonBounds:
    """Return the bounds on ε of a history; without any step it is 0, exactly.

    Raises
    ------
    InvalidInputError
        The history is too long.
    PrecisionError
        If that is asked for, and the tolerance is missed.

    Warns
    -----
    PrecisionWarning
        If the tolerance is missed.
    """
    if history is None:
        nothing = _frozen(np.zeros(question.shape))
        met = _everywhere(question)
        return EpsilonBounds(nothing, nothing, met, _frozen(np.full(met.shape, "", dtype=object)), adjacency)
    rounds, values, places = _grid(history, question)
    table = _epsilon_table(history.components, rounds, values, question.tolerance, question.together)
    pairs = [pair for pair, _ in history.components]
    within, why, missed = epsilon_within(table, question.tolerance, pairs)
    _tell(missed, question)
    axis = 0 if question.together else slice(None)
    lower, upper, met, why = (_frozen(each[(axis, *places)]) for each in (table.lower, table.upper, within, why))
    return EpsilonBounds(lower, upper, met, why, adjacency)


def delta_of(history: Round | None, question: Question, adjacency: Adjacency) -> DeltaBounds:
    """Return the bounds on δ of a history; without any step it is 0, exactly.

    Errors and warnings are those of `epsilon_of`.
    """
    if history is None:
        nothing, endless = _frozen(np.zeros(question.shape)), _frozen(np.full(question.shape, -np.inf))
        met = _everywhere(question)
        why = _frozen(np.full(met.shape, "", dtype=object))
        return DeltaBounds(nothing, nothing, endless, endless, met, why, adjacency)
    rounds, values, places = _grid(history, question)
    table = _delta_table(history.components, rounds, values, question.tolerance, question.together)
    within: BoolArray = np.ones(table.delta_lower.shape, bool) if table.within is None else table.within
    bounds: Sequence[FloatArray] = [table.delta_lower, table.delta_upper, table.log_delta_lower, table.log_delta_upper]
    if question.together:
        bounds, within = [each.max(axis=0) for each in bounds], np.all(within, axis=0)
    points = table.compositions, table.epsilon
    pairs = [pair for pair, _ in history.components]
    closest = within if table.closest is None else table.closest
    if question.together and table.closest is not None:
        closest = np.all(closest, axis=0)
    why = why_wide(pairs, within, closest, (bounds[0] == 0.0) & (bounds[1] >= 1.0))
    _tell(delta_missed(points, bounds, within, why, question.tolerance), question)
    lower, upper, log_lower, log_upper, met, why = (_frozen(each[(..., *places)]) for each in (*bounds, within, why))
    return DeltaBounds(lower, upper, log_lower, log_upper, met, why, adjacency)


def _grid(history: Round, question: Question) -> tuple[tuple[int, ...], tuple[float, ...], tuple[IntArray, IntArray]]:
    """Return the numbers of rounds and the values that are asked for, each once, and which ones each point has."""
    most = int(question.repeats.max(initial=1)) * history.repeats
    if most * sum(count for _, count in history.components) > MAX_COMPOSITIONS:
        raise InvalidInputError(f"repeats: expected at most 2^62 steps in all, got {most} times a round of several")
    repeats, row = np.unique(question.repeats, return_inverse=True)
    values, column = np.unique(question.values, return_inverse=True)
    shape = question.values.shape
    rounds = tuple(history.repeats * times for times in repeats.tolist())
    return rounds, tuple(values.tolist()), (row.reshape(shape), column.reshape(shape))


@lru_cache(maxsize=_REMEMBERED)
def _epsilon_table(
    components: tuple[tuple[Pair, int], ...],
    rounds: tuple[int, ...],
    delta: tuple[float, ...],
    tolerance: float,
    together: bool,
) -> EpsilonTable:
    return epsilon_table_of(
        components, compositions=rounds, delta=delta, tolerance=tolerance, joint_directions=together
    )


@lru_cache(maxsize=_REMEMBERED)
def _delta_table(
    components: tuple[tuple[Pair, int], ...],
    rounds: tuple[int, ...],
    epsilon: tuple[float, ...],
    tolerance: float,
    together: bool,
) -> BoundsTable:
    return bounds_table(
        components,
        compositions=rounds,
        epsilon=epsilon,
        tolerance=tolerance,
        joint_directions=together,
        strict=False,
        accept_unimprovable=True,
    )


def _tell(missed: str | None, question: Question) -> None:
    """Warn of bounds that miss the tolerance, or raise the error of it."""
    if missed is None:
        return
    if question.strict:
        raise PrecisionError(missed)
    warnings.warn(missed, PrecisionWarning, stacklevel=_DEPTH)


def _everywhere(question: Question) -> Any:
    return _frozen(np.ones(question.shape, bool))


def _frozen(values: Any) -> Any:
    """Return an array of any shape, also without an axis, that nobody can change."""
    array = np.asarray(values)
    array.setflags(write=False)
    return array
