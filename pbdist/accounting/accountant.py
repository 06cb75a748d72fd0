"""`Accountant`: what a run has spent so far, from both sides, and what it would have spent after more of the same."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pbdist.accounting.answers import asked, delta_of, epsilon_of
from pbdist.accounting.document import document_of, phases_of, read_document, write_document
from pbdist.accounting.history import History, Phase, round_of
from pbdist.accounting.training import step_of
from pbdist.arguments import MAX_COMPOSITIONS
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import Adjacency, Pair, validation
from pbdist.notebook import html_table
from pbdist.results import DeltaBounds, EpsilonBounds
from pbdist.types import JsonValue


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
        times = validation.integer("Accountant", field, count, minimum=0, maximum=MAX_COMPOSITIONS)
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
