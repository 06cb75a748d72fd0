"""`Accountant`: bounds on the privacy loss of a run so far, and after more of the same steps."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Self

import numpy as np

from pbdist.arguments import (
    MAX_COMPOSITIONS,
    check_direction,
    check_flag,
    checked_compositions,
    checked_delta,
    checked_epsilon,
    checked_tolerance,
)
from pbdist.bounds.delta import delta_missed, epsilon_within, why_wide
from pbdist.errors import InvalidInputError, shown
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
from pbdist.quantities import counted
from pbdist.results import DeltaBounds, EpsilonBounds, frozen, warn_or_raise
from pbdist.suggestions import did_you_mean
from pbdist.table import bounds_table, epsilon_table_of
from pbdist.types import IntArray, JsonValue

#: Pairs, and how often each occurs.
Counted = tuple[tuple[Pair, int], ...]

#: The pair of a history without steps, which reveals nothing.
NOTHING = Histogram((1,), (1,))
#: The names of the pair's parameters in a step of DP-SGD.
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


def _neighbours_of(pair: Pair) -> object:
    """Return what decides the neighbours of a pair, equal for pairs of which `adjacency_together` needs one only."""
    if pair.alternatives != (pair,):
        return pair
    return pair.adjacency, tuple((type(one), one.adjacency, one.removal) for one in pair.factors)


#: The kind of document, and the version of its format. A key that is added later is optional, and none changes its
#: meaning; a document that older versions would misread gets a new version.
KIND, FORMAT = "accountant", 1
_KEYS, _PHASE_KEYS = ("pbdist", "format", "adjacency", "phases"), ("pair", "count")


def check_keys(field: str, value: Any, keys: tuple[str, ...], *, needed: bool = True) -> None:
    """Refuse a value that is no mapping of these keys, or has not all of them if they are `needed`."""
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


#: Tables that are remembered, at most.
_REMEMBERED = 32

_epsilon_table = lru_cache(maxsize=_REMEMBERED)(epsilon_table_of)
_delta_table = lru_cache(maxsize=_REMEMBERED)(partial(bounds_table, strict=False))


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


def projected_seconds(
    pairs: Sequence[Pair], compositions: Sequence[int], epsilon: Sequence[float], tolerance: float, direction: str
) -> float:
    """Return about how many seconds bounds on δ of some pairs take by themselves."""
    # Nothing else of this room needs them.
    from pbdist.study import Cell, StudySpec  # noqa: PLC0415
    from pbdist.study.plan import cell_cost  # noqa: PLC0415

    rounds, losses = (tuple(sorted({*one})) for one in (compositions, epsilon))
    cells = [Cell("", pair, None) for pair in pairs]
    study = StudySpec("", cells, "tight", tolerance, None, rounds, losses, direction=direction)
    return sum(cell_cost(study, cell).seconds for cell in cells)


@dataclass(frozen=True, eq=False)
class _Question:
    """A checked question about a history: a round of pairs, and each number of rounds and δ or ε once."""

    components: Counted
    #: Arguments of the table, beside the round.
    settings: Mapping[str, Any]
    #: Row and column of the table for each point of the answer.
    places: tuple[IntArray, IntArray]
    #: The columns of the printed question.
    columns: Mapping[str, Any]

    @property
    def pairs(self) -> list[Pair]:
        """The pairs of the round."""
        return [pair for pair, _ in self.components]

    def read(self, values: Any) -> Any:
        """Return the values of the points from those of the table, in its last two axes."""
        return frozen(values[(..., *self.places)])


class Accountant:
    """Counts the steps of a run, and bounds its ε and δ so far from both sides.

    A history is a sequence of *phases*: a worst-case pair, and how often in a row it was run. What a step computes may
    depend on what earlier ones have released. Its pair may not: the bounds hold for noise, sampling rates and numbers
    of steps that are decided without the data. A run that stops early because of what it has seen has spent at most
    what all its steps would have spent.

    Answers depend on the steps alone: not on their order, nor on how they were counted. Two accountants are equal if
    their phases are; equal phases in a row count as one.

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
        #: One pair for each statement on neighbours: all phases would take too long to check at each step.
        self._stating: dict[object, Pair] = {}

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

        Pairs whose parameters determine the neighbours ("as-stated") are taken to have the neighbours of the others.
        """
        return adjacency_together(list(self._stating.values()), "Accountant")

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
            A parameter is out of its range, or the history has other neighbours. Nothing is counted then.
        """
        return self._added(step_of(noise_multiplier, sample_rate), steps, "steps")

    def add(self, pair: Pair, count: int = 1) -> Self:
        """Count runs of any mechanism.

        Parameters
        ----------
        pair : Pair
            Its worst-case pair. Together with steps of DP-SGD, A must be the output with the record and B the output
            without it; `Reversed` swaps them. A `WorstOf` of several pairs can only be the sole pair.
        count : int, optional
            How often it is run; 0 changes nothing.

        Returns
        -------
        Accountant
            This one.

        Raises
        ------
        InvalidInputError
            ``pair`` is not a pair, its neighbours are not those of the history, or there are too many steps. Nothing is
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
        """Add a phase, merged with the last one where their pairs are equal; errors name the field."""
        total = count + self._steps
        if total > MAX_COMPOSITIONS:
            raise InvalidInputError(f"{field}: expected at most 2^62 steps in all, got {total}")
        last = self._phases[-1].pair if self._phases else None
        if last == pair:
            self._phases[-1] = Phase(pair, self._phases[-1].count + count)
        else:
            adjacency_together([*self._stating.values(), pair], field)
            # The worst of several is the only phase, so that it is enough to look at the last one.
            if last is not None and (last.enclosing_pairs is None or pair.enclosing_pairs is None):
                raise InvalidInputError(
                    f"{field}: the worst of several pairs cannot be composed with other mechanisms: pass it alone, not"
                    f" {type(pair).__name__} after {type(last).__name__}"
                )
            self._stating.setdefault(_neighbours_of(pair), pair)
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
            How often the whole history is run, at least 1: for a history of one epoch, ``repeats=[15, 60]`` bounds ε
            after 15 and after 60 epochs. It is broadcast with `delta`.
        tolerance : float, optional
            ``upper / lower - 1`` that is aimed at, 1e-3 by default.
        direction : {"both", "each"}, optional
            ``"both"``: the ε that meets δ in both directions. ``"each"``: both, along a leading axis of A||B and B||A;
            for the neighbours "add-or-remove" these are the removal and the addition.
        strict : bool, optional
            Whether a tolerance that is missed is an error.

        Returns
        -------
        EpsilonBounds
            ``lower <= ε <= upper``, nats, and the neighbours that they are about. For a history without steps ε is 0.
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
            If the tolerance is missed; the bounds hold. In its text, r counts repetitions of the shortest round whose
            repetition is the whole history.
        """
        question = self._question("delta", delta, repeats, tolerance=tolerance, direction=direction, strict=strict)
        table = _epsilon_table(question.components, **question.settings)
        within, why, missed = epsilon_within(table, question.settings["tolerance"], question.pairs)
        warn_or_raise(missed, strict=strict)
        arrays = (table.lower, table.upper, within, why)
        # Together both directions have the same bounds.
        lower, upper, met, why = (question.read(each[0] if direction == "both" else each) for each in arrays)
        judged: Any = {"within_tolerance": met, "why_wide": why, "adjacency": self.adjacency}
        return EpsilonBounds(lower, upper, **judged, question=question.columns)

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
            As for `epsilon`; the tolerance is that of δ.

        Returns
        -------
        DeltaBounds
            ``lower <= δ <= upper``, their natural logarithms, and the neighbours that they are about. For a history
            without steps δ is 0.

        Errors and warnings are those of `epsilon`.
        """
        question = self._question("epsilon", epsilon, repeats, tolerance=tolerance, direction=direction, strict=strict)
        table = _delta_table(question.components, **question.settings)
        bounds = [table.delta_lower, table.delta_upper, table.log_delta_lower, table.log_delta_upper]
        within: Any = np.ones(table.delta_lower.shape, bool) if table.within is None else table.within
        closest: Any = within if table.closest is None else table.closest
        if direction == "both":
            bounds = [each.max(axis=0) for each in bounds]
            within, closest = within.all(axis=0), closest.all(axis=0)
        why = why_wide(question.pairs, within, closest, (bounds[0] == 0.0) & (bounds[1] >= 1.0))
        points = table.compositions, table.epsilon
        warn_or_raise(delta_missed(points, bounds, within, why, question.settings["tolerance"]), strict=strict)
        lower, upper, log_lower, log_upper, met, why = map(question.read, (*bounds, within, why))
        judged: Any = {"within_tolerance": met, "why_wide": why, "adjacency": self.adjacency}
        return DeltaBounds(lower, upper, log_lower, log_upper, **judged, question=question.columns)

    def _question(
        self, field: str, values: Any, repeats: Any, *, tolerance: Any, direction: Any, strict: Any
    ) -> "_Question":
        """Return a question about the history, checked; `field` is the name of the values, "delta" or "epsilon"."""
        check_direction(direction)
        check_flag("strict", strict)
        tolerance = checked_tolerance(tolerance)
        given = _checked(field, values, partial(checked_delta, zero=True) if field == "delta" else checked_epsilon)
        times = _checked("repeats", repeats, checked_compositions)
        try:
            given, times = np.broadcast_arrays(given, times)
        except ValueError:
            raise InvalidInputError(
                f"repeats: expected a shape that broadcasts with shape {given.shape} of {field}, got {times.shape}"
            ) from None
        components, once = round_of(self._phases)
        most = int(times.max(initial=1)) * once * sum(count for _, count in components)
        if most > MAX_COMPOSITIONS:
            raise InvalidInputError(f"repeats: expected at most 2^62 steps in all, got {most}")
        numbers, row = np.unique(times, return_inverse=True)
        known, column = np.unique(given, return_inverse=True)
        settings = {
            "compositions": tuple(once * number for number in numbers.tolist()),
            field: tuple(known.tolist()),
            "tolerance": tolerance,
            "joint_directions": direction == "both",
        }
        columns = {"repeats": times, field: given} if (times != 1).any() else {field: given}
        return _Question(components, settings, (row.reshape(given.shape), column.reshape(given.shape)), columns)

    def to_document(self) -> dict[str, JsonValue]:
        """Return the history as values for `json.dump`; `from_document` is the inverse."""
        phases: list[JsonValue] = [{"pair": one.pair.canonical(), "count": one.count} for one in self._phases]
        return {"pbdist": KIND, "format": FORMAT, "adjacency": self.adjacency.value, "phases": phases}

    @classmethod
    def from_document(cls, document: Mapping[str, JsonValue]) -> Self:
        """Return the accountant of a document.

        Raises
        ------
        InvalidInputError
            The document is not that of an accountant, or has another format; the text names the field.
        """
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
        found = cls()
        for index, phase in enumerate(phases):
            field = f"phases[{index}]"
            check_keys(field, phase, _PHASE_KEYS)
            count = phase["count"]
            if type(count) is not int or not 1 <= count <= MAX_COMPOSITIONS:
                raise InvalidInputError(f"{field}.count: expected a whole number from 1 to 2^62, got {shown(count)}")
            try:
                pair = pair_from_canonical(phase["pair"])
            except InvalidInputError as error:
                raise InvalidInputError(f"{field}.pair: {error}") from None
            found._count(pair, count, field)
        stated, known = document["adjacency"], found.adjacency.value
        if stated != known:
            raise InvalidInputError(f"adjacency: expected {known}, as the phases state, got {shown(stated)}")
        return found

    def __eq__(self, other: object) -> bool:
        return self.phases == other.phases if isinstance(other, Accountant) else NotImplemented

    def __copy__(self) -> Self:
        """Return an accountant of the same steps that goes on by itself."""
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__)
        found._phases, found._stating = [*self._phases], {**self._stating}
        return found

    # It changes: it is no key.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._described()})"

    def _described(self) -> str:
        number = len(self.phases)
        if not number:
            return "no steps"
        return f"{counted(self.steps, 'step')} in {counted(number, 'phase')}, neighbours: {self.adjacency}"
