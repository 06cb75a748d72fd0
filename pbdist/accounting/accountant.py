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
from pbdist.mechanisms import (
    Adjacency,
    Histogram,
    Pair,
    SubsampledGaussian,
    adjacency_together,
    factor_counts,
    pair_from_canonical,
)
from pbdist.mechanisms.declaration import checked_integer
from pbdist.notebook import html_table
from pbdist.results import DeltaBounds, EpsilonBounds
from pbdist.suggestions import did_you_mean
from pbdist.table import bounds_table, epsilon_table_of
from pbdist.types import IntArray, JsonValue

#: Pairs, and how often each occurs.
Counted = tuple[tuple[Pair, int], ...]

#: What reveals nothing: a history without steps is as private.
NOTHING = Histogram((1,), (1,))
#: What a step of DP-SGD calls the parameters of its pair.
_FIELDS = {"scale": "noise_multiplier", "rate": "sample_rate"}


def step_of(noise_multiplier: Any, sample_rate: Any) -> SubsampledGaussian:
    """Return the worst-case pair of one step of DP-SGD, for one record added or removed, or refuse a parameter."""
    try:
        return SubsampledGaussian(scale=noise_multiplier, rate=sample_rate)
    except InvalidInputError as error:
        field, _, problem = str(error).removeprefix("SubsampledGaussian.").partition(": ")
        raise InvalidInputError(f"{_FIELDS[field]}: {problem}") from None


@dataclass(frozen=True)
class Phase:
    """A pair, and how often in a row it was run."""

    pair: Pair
    count: int


def round_of(phases: Sequence[Phase]) -> tuple[Counted, int]:
    """Return a round of pairs that is the whole history when it is repeated, and how often.

    The losses of independent steps add up, so that their order does not matter: δ is that of the product distributions
    (Meiser & Mohammadi 2018, Corollary 1). Histories with the same steps have the same round: each pair once, in the
    order of the canonical forms, and repeated as often as the greatest common divisor of their counts.
    """
    if not phases:
        return ((NOTHING, 1),), 1
    # The factors of products one by one; what has two sides as a whole.
    counts: dict[Pair, int] = dict(
        factor_counts([(one.pair, one.count) for one in phases if not one.pair.is_worst_of_several]).items()
    )
    for one in phases:
        if one.pair.is_worst_of_several:
            counts[one.pair] = counts.get(one.pair, 0) + one.count
    repeats = math.gcd(*counts.values())
    parts = [(pair, count // repeats) for pair, count in counts.items()]
    if len(parts) > 1:
        parts.sort(key=lambda part: json.dumps(part[0].canonical(), sort_keys=True))
    return tuple(parts), repeats


def _what_it_says(pair: Pair) -> object:
    """Return what `adjacency_together` asks of a pair; the worst of several is asked itself."""
    if pair.alternatives != (pair,):
        return pair
    return pair.adjacency, tuple((type(one), one.adjacency, one.removal) for one in pair.factors)


#: What the document is, and the version of its format. A key that is added later is optional, and none changes its
#: meaning; a document that older versions would misread gets a new version.
KIND, FORMAT = "accountant", 1
_KEYS, _PHASE_KEYS = ("pbdist", "format", "adjacency", "phases"), ("pair", "count")
#: The most bytes of a file, and levels in a document: what is done with a pair takes longer with every level.
_MAX_BYTES, _MAX_LEVELS = 64 << 20, 16


def phases_of(document: Any) -> Iterator[Phase]:
    """Yield the phases of a document, checked one by one; what they say together is not checked here."""
    if _deeper(document, _MAX_LEVELS):
        raise InvalidInputError(f"document: expected at most {_MAX_LEVELS} levels of nesting, got more")
    check_keys("", document, _KEYS)
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
        check_keys(field, phase, _PHASE_KEYS)
        count = phase["count"]
        if type(count) is not int or not 1 <= count <= MAX_COMPOSITIONS:
            raise InvalidInputError(f"{field}.count: expected a whole number from 1 to 2^62, got {shown(count)}")
        try:
            yield Phase(pair_from_canonical(phase["pair"]), count)
        except InvalidInputError as error:
            raise InvalidInputError(f"{field}.pair: {error}") from None


def _deeper(value: Any, levels: int) -> bool:
    """Whether mappings and lists are nested in more levels."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else None
    return inner is not None and (levels == 0 or any(_deeper(one, levels - 1) for one in inner))


def check_keys(field: str, value: Any, keys: tuple[str, ...], *, needed: bool = True) -> None:
    """Refuse what is no mapping of these keys, and if they are `needed` of all of them."""
    whole, inside = field or "document", f"{field}." if field else ""
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{whole}: expected a mapping of {', '.join(keys)}, got {shown(value)}")
    for key in value:
        if key not in keys:
            raise InvalidInputError(
                f"{whole}: expected the keys {', '.join(keys)}, got {shown(key)}{did_you_mean(key, keys)}"
            )
    for key in keys if needed else ():
        if key not in value:
            raise InvalidInputError(f"{inside}{key}: expected a value, got none")


#: So many tables are remembered.
_REMEMBERED = 32
#: Frames from a warning to who asked an accountant.
_DEPTH = 3

_epsilon_table = lru_cache(maxsize=_REMEMBERED)(epsilon_table_of)
_delta_table = lru_cache(maxsize=_REMEMBERED)(partial(bounds_table, strict=False, accept_unimprovable=True))


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of a history, checked: of a round of pairs the numbers of repetitions, and δ or ε, each once.

    `places` says which number and which value each point of the answer has.
    """

    components: Counted
    rounds: tuple[int, ...]
    values: tuple[float, ...]
    places: tuple[IntArray, IntArray]
    tolerance: float
    together: bool
    strict: bool

    def tell(self, missed: str | None) -> None:
        """Warn of bounds that miss the tolerance, or raise the error of it."""
        if missed is not None and self.strict:
            raise PrecisionError(missed)
        if missed is not None:
            warnings.warn(missed, PrecisionWarning, stacklevel=_DEPTH)


def asked(
    phases: Sequence[Phase], field: str, values: Any, *, repeats: Any, tolerance: Any, direction: Any, strict: Any
) -> Question:
    """Return a question, checked; `field` is "delta" or "epsilon", of which the values are."""
    check_direction(direction)
    check_strict(strict)
    aimed = checked_tolerance(tolerance)
    given = _checked(field, values, partial(checked_delta, zero=True) if field == "delta" else checked_epsilon)
    times = _checked("repeats", repeats, checked_compositions)
    try:
        given, times = np.broadcast_arrays(given, times)
    except ValueError:
        raise InvalidInputError(
            f"repeats: expected a shape that goes with the shape {given.shape} of {field}, got {times.shape}"
        ) from None
    components, once = round_of(phases)
    most = int(times.max(initial=1)) * once
    if most * sum(count for _, count in components) > MAX_COMPOSITIONS:
        raise InvalidInputError(f"repeats: expected at most 2^62 steps in all, got {most} times a round of several")
    numbers, row = np.unique(times, return_inverse=True)
    known, column = np.unique(given, return_inverse=True)
    return Question(
        components,
        tuple(once * number for number in numbers.tolist()),
        tuple(known.tolist()),
        (row.reshape(given.shape), column.reshape(given.shape)),
        aimed,
        direction == "both",
        strict,
    )


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


def _columns(**given: Any) -> dict[str, Any]:
    """Return what was asked as arrays, for the table of the answer; one repetition goes without saying."""
    arrays = dict(zip(given, np.broadcast_arrays(*given.values()), strict=True))
    return {name: array for name, array in arrays.items() if name != "repeats" or (array != 1).any()}


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
        self._phases: list[Phase] = []
        self._steps = 0
        #: One pair of all those that say the same of neighbours: to look through all phases at each step takes time.
        self._tellers: dict[object, Pair] = {}

    @property
    def phases(self) -> tuple[Phase, ...]:
        """What was run, in order: pairs, and how often in a row each was."""
        return tuple(self._phases)

    @property
    def steps(self) -> int:
        """How many steps were counted."""
        return self._steps

    @property
    def adjacency(self) -> Adjacency:
        """The neighbours that all answers are about, `pbdist.mechanisms.Adjacency`.

        Pairs of which the parameters decide what neighbours are ("as-stated") are taken to be stated for the
        neighbours of the others.
        """
        return adjacency_together(list(self._tellers.values()), "Accountant")

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
            self._count(pair, times, "Accountant")
        return self

    def _count(self, pair: Pair, count: int, field: str) -> None:
        """Add a phase, merged with the last one where their pairs are equal; what is refused, by the field, is not."""
        total = count + self._steps
        if total > MAX_COMPOSITIONS:
            raise InvalidInputError(f"{field}: expected at most 2^62 steps in all, got {total}")
        last = self._phases[-1].pair if self._phases else None
        if last == pair:
            self._phases[-1] = Phase(pair, self._phases[-1].count + count)
        else:
            adjacency_together([*self._tellers.values(), pair], field)
            # The worst of several is the only phase, so that it is enough to look at the last one.
            if last is not None and (last.enclosing_pairs is None or pair.enclosing_pairs is None):
                raise InvalidInputError(
                    f"{field}: expected the worst of several pairs alone, got {type(pair).__name__} after"
                    f" {type(last).__name__}: which pair is followed in the one says nothing of the other"
                )
            self._tellers.setdefault(_what_it_says(pair), pair)
            self._phases.append(Phase(pair, count))
        self._steps = total

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
        question = asked(
            self._phases, "delta", delta, repeats=repeats, tolerance=tolerance, direction=direction, strict=strict
        )
        table = _epsilon_table(
            question.components,
            compositions=question.rounds,
            delta=question.values,
            tolerance=question.tolerance,
            joint_directions=question.together,
        )
        within, why, missed = epsilon_within(table, question.tolerance, [pair for pair, _ in question.components])
        question.tell(missed)
        at = (0 if question.together else slice(None), *question.places)
        lower, upper, met, why = (_frozen(each[at]) for each in (table.lower, table.upper, within, why))
        return EpsilonBounds(lower, upper, met, why, self.adjacency, asked=_columns(repeats=repeats, delta=delta))

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

        Errors and warnings are those of `epsilon`.
        """
        question = asked(
            self._phases, "epsilon", epsilon, repeats=repeats, tolerance=tolerance, direction=direction, strict=strict
        )
        table = _delta_table(
            question.components,
            compositions=question.rounds,
            epsilon=question.values,
            tolerance=question.tolerance,
            joint_directions=question.together,
        )
        bounds = [table.delta_lower, table.delta_upper, table.log_delta_lower, table.log_delta_upper]
        within: Any = np.ones(table.delta_lower.shape, bool) if table.within is None else table.within
        closest: Any = within if table.closest is None else table.closest
        if question.together:
            bounds = [each.max(axis=0) for each in bounds]
            within, closest = within.all(axis=0), closest.all(axis=0)
        why = why_wide(
            [pair for pair, _ in question.components], within, closest, (bounds[0] == 0.0) & (bounds[1] >= 1.0)
        )
        points = table.compositions, table.epsilon
        question.tell(delta_missed(points, bounds, within, why, question.tolerance))
        at = (..., *question.places)
        lower, upper, log_lower, log_upper, met, why = (_frozen(each[at]) for each in (*bounds, within, why))
        given = _columns(repeats=repeats, epsilon=epsilon)
        return DeltaBounds(lower, upper, log_lower, log_upper, met, why, self.adjacency, asked=given)

    def to_document(self) -> dict[str, JsonValue]:
        """Return the history as what JSON takes; `from_document` is the inverse."""
        phases: list[JsonValue] = [{"pair": one.pair.canonical(), "count": one.count} for one in self._phases]
        return {"pbdist": KIND, "format": FORMAT, "adjacency": self.adjacency.value, "phases": phases}

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
            found._count(phase.pair, phase.count, f"phases[{index}]")
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
            It cannot be written; what was at the place is as it was.
        """
        place = Path(path)
        if place.name in ("", ".."):
            raise InvalidInputError(f"path: expected that of a file, got {shown(str(place))}")
        unfinished = place.with_name(f".{place.name}.{uuid4().hex}.partial")
        try:
            with unfinished.open("x", encoding="utf-8") as file:
                json.dump(self.to_document(), file, indent=1, allow_nan=False)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(place)
        finally:
            unfinished.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the accountant that was saved in a file.

        Raises
        ------
        InvalidInputError
            The file cannot be read, is too large, or holds no accountant; the text names the file and the field.
        """
        try:
            return cls.from_document(json.loads(read_input(Path(path), _MAX_BYTES)))
        except OSError as error:
            problem = f"expected a readable file of an accountant, got: {error.strerror}"
        except InvalidInputError as error:
            problem = str(error)
        except (ValueError, RecursionError) as error:
            # No JSON, no UTF-8, too deep, or a number of more digits than Python reads.
            problem = f"document: expected JSON, got: {shown(str(error))}"
        raise InvalidInputError(f"{path}: {problem}")

    def __eq__(self, other: object) -> bool:
        return self.phases == other.phases if isinstance(other, Accountant) else NotImplemented

    def __copy__(self) -> Self:
        """Return an accountant of the same steps that goes on by itself."""
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__)
        found._phases, found._tellers = [*self._phases], {**self._tellers}
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
