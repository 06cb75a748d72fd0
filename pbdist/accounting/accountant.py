"""`Accountant`: what a run has spent so far, from both sides, and what it would have spent after more of the same."""

import json
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import numpy as np

from pbdist.accounting.training import step_of
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
from pbdist.errors import InvalidInputError, PrecisionError, PrecisionWarning, shown
from pbdist.input_files import read_input
from pbdist.mechanisms import Adjacency, Pair, adjacency_together, factor_counts, pair_from_canonical
from pbdist.mechanisms.declaration import checked_integer
from pbdist.notebook import html_table
from pbdist.results import DeltaBounds, EpsilonBounds
from pbdist.suggestions import did_you_mean
from pbdist.table import bounds_table, epsilon_table_of
from pbdist.types import BoolArray, FloatArray, IntArray, JsonValue


@dataclass(frozen=True)
class Phase:
    """A pair, and how often in a row it was run."""

    pair: Pair
    count: int


@dataclass(frozen=True)
class Round:
    """A sequence of pairs that is run some times: the whole history, whatever the order of its steps was.

    Attributes
    ----------
    components : tuple of (Pair, int)
        The pairs, each once, in the order of their canonical forms; and how often each occurs in a round.
    repeats : int
        How often the round is run: the greatest common divisor of how often each pair was.
    """

    components: tuple[tuple[Pair, int], ...]
    repeats: int


def round_of(phases: Sequence[Phase]) -> Round | None:
    """Return the round that a history repeats; None for a history without steps.

    The losses of independent steps add up, so that their order does not matter: δ is that of the product distributions
    (Meiser & Mohammadi 2018, Corollary 1). Histories with the same steps have the same round.
    """
    if not phases:
        return None
    if len(phases) == 1 and phases[0].pair.several:
        return Round(((phases[0].pair, 1),), phases[0].count)
    counts = _counts(phases)
    repeats = math.gcd(*counts.values())
    parts: list[tuple[Pair, int]] = [(pair, count // repeats) for pair, count in counts.items()]
    if len(parts) > 1:
        parts.sort(key=lambda part: json.dumps(part[0].canonical(), sort_keys=True))
    return Round(tuple(parts), repeats)


def _counts(phases: Sequence[Phase]) -> dict[Pair, int]:
    """Return how often each pair was run: the factors of products one by one, what has two sides as a whole."""
    whole = [(one.pair, one.count) for one in phases if not one.pair.several]
    counts: dict[Pair, int] = dict(factor_counts(whole).items())
    for phase in phases:
        if phase.pair.several:
            counts[phase.pair] = counts.get(phase.pair, 0) + phase.count
    return counts


class History:
    """Phases in order, and beside them what each further step asks of all: to look through them takes time."""

    def __init__(self) -> None:
        self._phases: list[Phase] = []
        #: How many steps there are.
        self.steps = 0
        #: One pair of all those that say the same of neighbours.
        self._tellers: dict[object, Pair] = {}

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases; equal ones in a row are one."""
        return tuple(self._phases)

    @property
    def adjacency(self) -> Adjacency:
        """The neighbours that all pairs are about together, as `adjacency_together`."""
        return adjacency_together(list(self._tellers.values()), "Accountant")

    def copy(self) -> Self:
        """Return a history of the same phases that goes on by itself."""
        found = type(self)()
        found._phases, found.steps, found._tellers = [*self._phases], self.steps, {**self._tellers}
        return found

    def add(self, pair: Pair, count: int, field: str) -> None:
        """Add a phase, merged with the last one where their pairs are equal.

        Raises
        ------
        InvalidInputError
            Under the name `field`: there are too many steps, the pair is about other neighbours than the history, or it
            is the worst of several in a sequence with others. Nothing is added then.
        """
        total = count + self.steps
        if total > MAX_COMPOSITIONS:
            raise InvalidInputError(f"{field}: expected at most 2^62 steps in all, got {total}")
        last = self._phases[-1].pair if self._phases else None
        if last == pair:
            self._phases[-1] = Phase(pair, self._phases[-1].count + count)
        else:
            self._check_goes_with_others(pair, field)
            self._tellers.setdefault(_what_it_says(pair), pair)
            self._phases.append(Phase(pair, count))
        self.steps = total

    def _check_goes_with_others(self, pair: Pair, field: str) -> None:
        adjacency_together([*self._tellers.values(), pair], field)
        # The worst of several is the only phase, so that it is enough to look at the last one.
        for one in (self._phases[-1].pair, pair) if self._phases else ():
            if one.sides is None:
                raise InvalidInputError(
                    f"{field}: expected the worst of several pairs alone, got {_named(pair)} after"
                    f" {_named(self._phases[-1].pair)}: which pair is followed in the one says nothing of the other"
                )


def _what_it_says(pair: Pair) -> object:
    """Return what `adjacency_together` asks of a pair; the worst of several is asked itself."""
    if pair.alternatives != (pair,):
        return pair
    return pair.adjacency, tuple((type(one), one.adjacency, one.removal) for one in pair.factors)


def _named(pair: Pair) -> str:
    return type(pair).__name__


#: What the document is, and the version of its format. A key that is added later is optional, and none changes its
#: meaning; a document that older versions would misread gets a new version.
KIND, FORMAT = "accountant", 1
_WHOLE = "document"
_KEYS = ("pbdist", "format", "adjacency", "phases")
_PHASE_KEYS = ("pair", "count")
#: The most bytes of a file, levels in a document, and values in it.
_MOST_BYTES, _MOST_LEVELS, _MOST_VALUES = 64 << 20, 50, 4_000_000


def document_of(phases: Sequence[Phase], adjacency: str) -> dict[str, JsonValue]:
    """Return a history as a document."""
    return {
        "pbdist": KIND,
        "format": FORMAT,
        "adjacency": adjacency,
        "phases": [{"pair": phase.pair.canonical(), "count": phase.count} for phase in phases],
    }


def phases_of(document: Any) -> Iterator[Phase]:
    """Yield the phases of a document, checked one by one; what they say together is not checked here.

    Raises
    ------
    InvalidInputError
        Under the name of the field: it is missing, unknown, or not what is expected.
    """
    _check_size(document)
    _check_keys(_WHOLE, document, _KEYS)
    if document["pbdist"] != KIND:
        raise InvalidInputError(f"pbdist: expected {KIND}, got {shown(document['pbdist'])}")
    if type(document["format"]) is not int or document["format"] != FORMAT:
        raise InvalidInputError(
            f"format: expected {FORMAT}, which this version of pbdist reads, got {shown(document['format'])}"
        )
    phases = document["phases"]
    if not isinstance(phases, list | tuple):
        raise InvalidInputError(f"phases: expected a list, got {shown(phases)}")
    for index, phase in enumerate(phases):
        field = f"phases[{index}]"
        _check_keys(field, phase, _PHASE_KEYS)
        count = phase["count"]
        if type(count) is not int or not 1 <= count <= MAX_COMPOSITIONS:
            raise InvalidInputError(f"{field}.count: expected a whole number from 1 to 2^62, got {shown(count)}")
        try:
            yield Phase(pair_from_canonical(phase["pair"]), count)
        except InvalidInputError as error:
            raise InvalidInputError(f"{field}.pair: {error}") from None


def _check_keys(field: str, value: Any, keys: tuple[str, ...]) -> None:
    """Refuse what is no mapping of exactly these keys."""
    inside = "" if field == _WHOLE else f"{field}."
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{field}: expected a mapping of {', '.join(keys)}, got {shown(value)}")
    for key in value:
        if key not in keys:
            raise InvalidInputError(
                f"{field}: expected the keys {', '.join(keys)}, got {shown(key)}{did_you_mean(key, keys)}"
            )
    for key in keys:
        if key not in value:
            raise InvalidInputError(f"{inside}{key}: expected a value, got none")


def _check_size(document: Any) -> None:
    """Refuse more levels or values than a document has, before anything goes through them."""
    left = [(document, 1)]
    values = 0
    while left:
        value, level = left.pop()
        inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
        values += 1 + len(inner)
        if level > _MOST_LEVELS:
            raise InvalidInputError(f"document: expected at most {_MOST_LEVELS} levels of nesting, got more")
        if values > _MOST_VALUES:
            raise InvalidInputError(f"document: expected at most {_MOST_VALUES:,} values, got more")
        left += [(one, level + 1) for one in inner if isinstance(one, Mapping | list | tuple)]


def read_document(path: Path) -> JsonValue:
    """Return what a JSON file says.

    Raises
    ------
    InvalidInputError
        It cannot be read, is too large, or is no JSON.
    """
    try:
        return json.loads(read_input(path, _MOST_BYTES), object_pairs_hook=_once, parse_constant=_no_constant)
    except OSError as error:
        raise InvalidInputError(f"expected a readable file of an accountant, got: {error.strerror}") from error
    except RecursionError:
        raise InvalidInputError(f"document: expected at most {_MOST_LEVELS} levels of nesting, got more") from None
    except InvalidInputError:
        raise
    except ValueError as error:
        # No JSON, no UTF-8, or a number of more digits than Python reads.
        raise InvalidInputError(f"document: expected JSON, got: {shown(str(error))}") from None


def write_document(path: Path, document: Mapping[str, JsonValue]) -> None:
    """Write a document as JSON to a file beside its place, and rename it once it is whole and on the disk.

    Raises
    ------
    InvalidInputError
        The path names no file.
    OSError
        It cannot be written; what was at the place is as it was.
    """
    if path.name in ("", ".."):
        raise InvalidInputError(f"path: expected that of a file, got {shown(str(path))}")
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}.partial")
    try:
        with unfinished.open("x", encoding="utf-8") as file:
            json.dump(document, file, indent=1, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return a mapping in which no key occurs twice."""
    found: dict[str, JsonValue] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidInputError(f"document: expected each key once, got {shown(key)} again")
        found[key] = value
    return found


def _no_constant(name: str) -> JsonValue:
    raise InvalidInputError(f"document: expected finite numbers, got {name}")


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
    table = _epsilon_table(
        history.components,
        compositions=rounds,
        delta=values,
        tolerance=question.tolerance,
        joint_directions=question.together,
    )
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
    table = _delta_table(
        history.components,
        compositions=rounds,
        epsilon=values,
        tolerance=question.tolerance,
        joint_directions=question.together,
    )
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


_epsilon_table = lru_cache(maxsize=_REMEMBERED)(epsilon_table_of)
_delta_table = lru_cache(maxsize=_REMEMBERED)(partial(bounds_table, strict=False, accept_unimprovable=True))


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


class Accountant:
    """Counts the steps of a run, and tells its ε and δ so far from both sides.

    A history is a sequence of *phases*: a worst-case pair, and how often in a row it was run. What a step computes may
    depend on what earlier ones have released. Its pair may not: the bounds hold for noise, sampling rates and numbers
    of steps that are decided without the data. A run that stops early, for what it has seen, has spent at most what it
    would have with all its steps.

    Answers depend on the steps alone: not on their order, nor on how they were counted. Two accountants are equal if
    their phases are, where equal phases in a row are one.

    Examples
    --------
    >>> from pbdist import Accountant
    >>> run = Accountant()
    >>> for epoch in range(2):
    ...     run = run.step(noise_multiplier=1.1, sample_rate=0.01, steps=100)
    >>> run
    Accountant(200 steps in 1 phase, neighbours: add-or-remove)
    >>> spent = run.epsilon(1e-5)
    >>> bool(spent.lower <= spent.upper <= 1.001 * spent.lower), str(spent.adjacency)
    (True, 'add-or-remove')
    """

    def __init__(self) -> None:
        self._history = History()

    @property
    def phases(self) -> tuple[Phase, ...]:
        """What was run, in order: pairs, and how often in a row each was."""
        return self._history.phases

    @property
    def steps(self) -> int:
        """How many steps were counted."""
        return self._history.steps

    @property
    def adjacency(self) -> Adjacency:
        """The neighbours that all answers are about, `pbdist.mechanisms.Adjacency`.

        Pairs of which the parameters decide what neighbours are ("as-stated") are taken to be stated for the
        neighbours of the others.
        """
        return self._history.adjacency

    def step(self, *, noise_multiplier: float, sample_rate: float, steps: int = 1) -> Self:
        """Count steps of DP-SGD: Gaussian noise on a Poisson sample, for one record added or removed.

        Parameters
        ----------
        noise_multiplier : float
            Standard deviation of the noise, divided by the norm to which each record's gradient is clipped; above 0.
        sample_rate : float
            The probability with which each record is in a batch, independently of the others; in (0, 1].
        steps : int, optional
            How many; 0 changes nothing.

        Returns
        -------
        Accountant
            This one.

        Raises
        ------
        InvalidInputError
            A parameter is out of its range, or the history is about other neighbours. Nothing is counted then.
        """
        return self._added(step_of(noise_multiplier, sample_rate), steps, "steps")

    def add(self, pair: Pair, count: int = 1) -> Self:
        """Count runs of any mechanism.

        Parameters
        ----------
        pair : Pair
            Its worst-case pair. Beside steps of DP-SGD its A must be what comes of the data with the record, and its B
            that of the data without it; `Reversed` turns a pair round. A `WorstOf` of several can only be alone.
        count : int, optional
            How often it is run; 0 changes nothing.

        Returns
        -------
        Accountant
            This one.

        Raises
        ------
        InvalidInputError
            It is no pair, the pair is about other neighbours than the history, or there are too many steps. Nothing is
            counted then.
        """
        given: Any = pair
        if not isinstance(given, Pair):
            raise InvalidInputError(f"Accountant.pair: expected a mechanism, got {shown(pair)}")
        return self._added(pair, count, "count")

    def _added(self, pair: Pair, count: Any, field: str) -> Self:
        times = checked_integer("Accountant", field, count, minimum=0, maximum=MAX_COMPOSITIONS)
        if times:
            self._history.add(pair, times, "Accountant")
        return self

    def epsilon(
        self,
        delta: Any,
        *,
        repeats: Any = 1,
        tolerance: float | None = None,
        direction: str = "both",
        strict: bool = False,
    ) -> EpsilonBounds:
        """Bound ε(δ) of the history from both sides: the smallest ε with which (ε, δ) is met.

        Parameters
        ----------
        delta : float or array_like of float
            δ, from 0 to below 1.
        repeats : int or array_like of int, optional
            How often the whole history is run, at least 1: of one epoch, ``repeats=[15, 60]`` tells ε after 15 and
            after 60 epochs. It is broadcast with `delta`.
        tolerance : float, optional
            ``upper / lower - 1`` that is aimed at, 1e-3 by default.
        direction : {"both", "each"}, optional
            ``"both"``: ε with which both directions are met. ``"each"``: both, along a leading axis of A||B and B||A;
            for the neighbours "add-or-remove" these are the removal and the addition.
        strict : bool, optional
            Whether a tolerance that is missed is an error.

        Returns
        -------
        EpsilonBounds
            ``lower <= ε <= upper``, nats, and the neighbours that they are about. Of a history without steps ε is 0.
            The same question about the same steps has the same answer, bit for bit.

        Raises
        ------
        InvalidInputError
            An argument is out of its range.
        PrecisionError
            If `strict`, and the tolerance is missed.

        Warns
        -----
        PrecisionWarning
            If the tolerance is missed; the bounds hold. In its text r is how often a round is run that has each pair
            as seldom as the history allows.
        """
        question = asked("delta", delta, repeats=repeats, tolerance=tolerance, direction=direction, strict=strict)
        return epsilon_of(round_of(self.phases), question, self.adjacency)

    def delta(
        self,
        epsilon: Any,
        *,
        repeats: Any = 1,
        tolerance: float | None = None,
        direction: str = "both",
        strict: bool = False,
    ) -> DeltaBounds:
        """Bound δ(ε) of the history from both sides.

        Parameters
        ----------
        epsilon : float or array_like of float
            ε >= 0, nats.
        repeats, tolerance, direction, strict
            As of `epsilon`; the tolerance is one of δ.

        Returns
        -------
        DeltaBounds
            ``lower <= δ <= upper``, their natural logarithms, and the neighbours that they are about. Of a history
            without steps δ is 0.

        Raises
        ------
        InvalidInputError
            An argument is out of its range.
        PrecisionError
            If `strict`, and the tolerance is missed.

        Warns
        -----
        PrecisionWarning
            If the tolerance is missed; the bounds hold.
        """
        question = asked("epsilon", epsilon, repeats=repeats, tolerance=tolerance, direction=direction, strict=strict)
        return delta_of(round_of(self.phases), question, self.adjacency)

    def to_document(self) -> dict[str, JsonValue]:
        """Return the history as what JSON takes; `from_document` is the inverse."""
        return document_of(self.phases, self.adjacency.value)

    @classmethod
    def from_document(cls, document: Mapping[str, JsonValue]) -> Self:
        """Return the accountant of a document.

        Raises
        ------
        InvalidInputError
            It is no document of an accountant, or one of another format; the text names the field.
        """
        found = cls()
        for index, phase in enumerate(phases_of(document)):
            found._history.add(phase.pair, phase.count, f"phases[{index}]")
        told, known = document["adjacency"], found.adjacency.value
        if told != known:
            raise InvalidInputError(f"adjacency: expected {known}, which the phases are about, got {shown(told)}")
        return found

    def save(self, path: str | Path) -> None:
        """Write the history to a JSON file, in place of what is there.

        The file is written beside its place and renamed once it is whole: a kill at any moment leaves the old or the
        new one.

        Raises
        ------
        InvalidInputError
            The path names no file.
        OSError
            It cannot be written.
        """
        write_document(Path(path), self.to_document())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the accountant that was saved in a file.

        Raises
        ------
        InvalidInputError
            The file cannot be read, is too large, or holds no accountant; the text names the file and the field.
        """
        try:
            return cls.from_document(read_document(Path(path)))
        except InvalidInputError as error:
            raise InvalidInputError(f"{path}: {error}") from None

    def __eq__(self, other: object) -> bool:
        return self.phases == other.phases if isinstance(other, Accountant) else NotImplemented

    def __copy__(self) -> Self:
        """Return an accountant of the same steps that goes on by itself."""
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__)
        found._history = self._history.copy()
        return found

    # It changes: it is no key.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._told()})"

    def _told(self) -> str:
        number = len(self.phases)
        if not number:
            return "no steps"
        phases = "1 phase" if number == 1 else f"{number} phases"
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        return f"{steps} in {phases}, neighbours: {self.adjacency}"

    def _repr_html_(self) -> str:
        """Return the phases as a small table, for notebooks."""
        rows = ((index, phase.pair, phase.count) for index, phase in enumerate(self.phases, 1))
        return html_table(f"{type(self).__name__}: {self._told()}", rows, ("phase", "pair", "steps"))
