"""`dpsgd`: bounds on ε of a run of DP-SGD, from its records, batches, epochs and phases."""

import math
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.metadata import version
from itertools import product
from typing import Any

import numpy as np

from pbdist.accounting.accountant import check_keys, step_of
from pbdist.accounting.events import EventPairs
from pbdist.arguments import MAX_COMPOSITIONS, check_either, checked_delta, checked_numbers
from pbdist.errors import InvalidInputError, PrecisionWarning, shown
from pbdist.mechanisms import Adjacency
from pbdist.mechanisms.declaration import checked_integer
from pbdist.progress import reported
from pbdist.quantities import counted
from pbdist.results import EpsilonBounds
from pbdist.rounding import exact, rounded_down, rounded_up
from pbdist.tables import Printed, Sheet

#: The assumptions of the bounds, and the runs that they do not hold for.
ASSUMED = (
    "Assumed: Poisson sampling, each record is in a batch with probability batch / examples, independently of the"
    " others and of other steps; neighbours are add-or-remove, with one record more or less."
)
NOT_BOUNDED = (
    "Not bounded: shuffled records cut into batches of fixed size, and neighbours of which one record is replaced."
)
STEPS = (
    "Steps: an epoch is one over the sampling rate, rounded up, as with a data loader that keeps the last batch; a"
    " fraction of an epoch is rounded up too. If you train fewer, give steps."
)
#: How to read both bounds.
READ = (
    "The run is (ε, δ)-private with the upper ε. For these steps, with every noisy gradient seen, no analysis can prove"
    " an ε below the lower one."
)
READ_EACH = READ.replace("the upper ε", "the larger of both upper ε").replace(
    "below the lower one", "below the larger lower one"
)
#: Records of a data set, at most.
_MAX_EXAMPLES = 10**15
_PHASE_KEYS = ("epochs", "steps", "batch", "sample_rate", "noise_multiplier")


def steps_of_epochs(epochs: float, sample_rate: Fraction) -> int:
    """Return how many steps some epochs are: pbdist's one rule, for fractions of epochs too.

    An epoch is 1 / sample_rate steps, rounded up, and so are the steps of all epochs. They are never fewer than are
    trained, whether the last batch of an epoch remains, as by a data loader of PyTorch or Opacus, dropped, or filled
    with records of the next epoch: with n records and batches of b, ceil(e * ceil(n / b)) >= ceil(e * n / b).
    """
    # The decimal fraction that is meant: the float64 of 0.1 is a little more, and would take a step more.
    return math.ceil(Fraction(repr(epochs)) * math.ceil(1 / sample_rate))


@dataclass(frozen=True)
class TrainingPhase:
    """Steps in a row with the same sampling rate and noise multiplier.

    Attributes
    ----------
    sample_rate : Fraction
        The probability with which a record is in a batch.
    steps : int
    epochs : float, optional
        How many epochs these steps are; None where steps were given.
    noise_multiplier : float, optional
        None where it is sized.
    """

    sample_rate: Fraction
    steps: int
    epochs: float | None = None
    noise_multiplier: float | None = None

    @property
    def rates(self) -> tuple[float, float]:
        """The sampling rate, rounded down and up to floats."""
        near = float(self.sample_rate)
        low = near if Fraction(near) <= self.sample_rate else math.nextafter(near, 0.0)
        return low, near if Fraction(near) >= self.sample_rate else math.nextafter(near, 1.0)

    def cut(self, steps: int) -> "TrainingPhase":
        """Return the first steps of the phase."""
        return replace(self, steps=steps, epochs=steps / math.ceil(1 / self.sample_rate))


@dataclass(frozen=True)
class Training:
    """A run of DP-SGD, and the moments at which ε is bounded.

    Attributes
    ----------
    examples : int
        Records of the data set.
    runs : tuple of tuple of TrainingPhase
        The phases up to each moment.
    delta : tuple of float
        δ of the bounds.
    own_delta : bool
        Whether δ was given; else it is one over `examples`.
    """

    examples: int
    runs: tuple[tuple[TrainingPhase, ...], ...]
    delta: tuple[float, ...]
    own_delta: bool

    @property
    def phases(self) -> tuple[TrainingPhase, ...]:
        """The phases of the longest run."""
        return self.runs[self.steps.index(max(self.steps))]

    @property
    def steps(self) -> tuple[int, ...]:
        """How many steps there are up to each moment."""
        return tuple(sum(phase.steps for phase in run) for run in self.runs)

    @property
    def epochs(self) -> tuple[float, ...] | None:
        """How many epochs these are; None where steps were given."""
        lengths = [[phase.epochs for phase in run if phase.epochs is not None] for run in self.runs]
        return tuple(map(math.fsum, lengths)) if list(map(len, lengths)) == list(map(len, self.runs)) else None

    @property
    def sample_rate(self) -> float:
        """The probability with which a record is in a batch, rounded up; of several phases that of the last one."""
        return self.phases[-1].rates[1]

    @property
    def batch(self) -> int | float:
        """Records of a batch on average; of several phases those of the last one."""
        return _number(self.phases[-1].sample_rate * self.examples)

    @property
    def given(self) -> dict[str, Any]:
        """What all moments have in common."""
        if len(self.phases) > 1:
            return {"examples": self.examples}
        noise = self.phases[-1].noise_multiplier
        found = {"examples": self.examples, "batch": self.batch, "rate": float(self.phases[-1].sample_rate)}
        return found if noise is None else {**found, "noise_multiplier": noise}

    @property
    def adjacency(self) -> Adjacency:
        """One record is added or removed."""
        return Adjacency.ADD_OR_REMOVE

    def columns(self, **axes: Sequence[float]) -> dict[str, list[Any]]:
        """Return all combinations of the moments and of other values as columns, the last varying fastest.

        With several phases, the settings of the last one come first; then the epochs, where they were given, and the
        steps.
        """
        epochs = self.epochs
        rows: list[dict[str, Any]] = []
        for index, run in enumerate(self.runs):
            row = {
                "phase": len(run),
                "noise_multiplier": run[-1].noise_multiplier,
                "batch": _number(run[-1].sample_rate * self.examples),
            }
            row = (row if len(self.phases) > 1 else {}) | ({} if epochs is None else {"epochs": epochs[index]})
            row["steps"] = self.steps[index]
            rows += [{**row, **dict(zip(axes, point, strict=True))} for point in product(*axes.values())]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def over_time(self, moments: int) -> "Training":
        """Return the same run with about so many moments, closest at its start, and the end of each phase."""
        ends = np.cumsum([phase.steps for phase in self.phases], dtype=object).tolist()
        spaced = (-(-ends[-1] * index**2 // moments**2) for index in range(1, moments))
        # Not next to the end of a phase.
        wanted = {*ends, *(one for one in spaced if min(abs(one - end) for end in ends) > ends[-1] // (8 * moments))}
        runs = []
        for end in sorted(wanted):
            before = [phase.cut(phase.steps) for phase, last in zip(self.phases, ends, strict=True) if last < end]
            left = end - sum(phase.steps for phase in before)
            runs.append((*before, self.phases[len(before)].cut(left)))
        return replace(self, runs=tuple(runs))

    @property
    def notes(self) -> tuple[str, ...]:
        """The assumptions, in sentences."""
        steps = () if self.epochs is None else (STEPS,)
        default = () if self.own_delta else (f"δ is 1 / {self.examples}, as none was given: a smaller one is safer.",)
        return (ASSUMED, NOT_BOUNDED, *steps, *default)

    def sentence(self, promises: Sequence[tuple[str, float]], noise: str = "", more: str = "") -> str:
        """Return a sentence for a paper: what was trained, with which accountant, what it assumes, what is promised.

        ε is given as printed, and so is `noise`, the noise multiplier where the phases have none; `more` ends the
        sentence.
        """
        parts = []
        for phase in self.phases:
            steps, batch = counted(phase.steps, "step"), f"{float(phase.sample_rate * self.examples):.10g}"
            epochs = "" if phase.epochs is None else f"{exact(phase.epochs)} epoch{'s' * (phase.epochs != 1)}"
            length = f"{epochs} ({steps})" if epochs else steps
            multiplier = noise if phase.noise_multiplier is None else exact(phase.noise_multiplier)
            parts.append(f"{length} with expected batch {batch} and noise multiplier {multiplier}")
        private = "- and ".join(f"({epsilon}, {_short(delta)})" for epsilon, delta in promises)
        return (
            f"We trained with DP-SGD on {counted(self.examples, 'record')}: {', then '.join(parts)}. With Poisson"
            f" sampling, and for neighbouring data sets that differ in one record added or removed, the training is"
            f" {private}-differentially private by the certified accountant of pbdist {version('pbdist')}{more}."
        )


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


def _short(delta: float) -> str:
    """Return δ in few digits, rounded up where it has more."""
    return exact(delta) if len(exact(delta)) < 8 else rounded_up(delta, 4)


class Answered(Printed):
    """Answers as a table with notes, which ``print`` and notebooks show as the command does."""

    training: Training

    @property
    @abstractmethod
    def sentence(self) -> str:
        """What a paper can say of the run."""

    def json(self) -> str:
        """Return everything as JSON: every digit, those of bounds rounded outwards."""
        return self.sheet.json({"notes": list(self.training.notes), "sentence": self.sentence})


@dataclass(frozen=True, eq=False, repr=False)
class DpsgdEpsilon(Answered):
    """ε of a run of DP-SGD, and its assumptions; ``print`` shows it as a table.

    Attributes
    ----------
    training : Training
        Records, phases and δ.
    epsilon : EpsilonBounds
        Of shape (moments, δ), with a leading axis of the removal and the addition of a record for the direction
        "each".
    """

    training: Training
    epsilon: EpsilonBounds

    @property
    def sentence(self) -> str:
        """What a paper can say of the whole run, ε rounded up; empty if no ε was found that meets every δ."""
        sides = self.epsilon.lower, self.epsilon.upper
        end = self.training.steps.index(max(self.training.steps))
        lower, upper = (side.reshape(-1, *side.shape[-2:])[:, end].max(axis=0) for side in sides)
        if np.isinf(upper).any():
            return ""
        promises = [
            (rounded_up(epsilon, 4), delta) for epsilon, delta in zip(upper.tolist(), self.training.delta, strict=True)
        ]
        tight = " and ".join(rounded_down(epsilon, 4) for epsilon in lower.tolist())
        # At a δ that is rounded up ε may be below the lower bound.
        whole = all(_short(delta) == exact(delta) for delta in self.training.delta)
        return self.training.sentence(promises, more=f" (lower bound on ε for these steps: {tight})" if whole else "")

    @property
    def sheet(self) -> Sheet:
        """A row for each moment and δ; the notes end with a sentence for a paper."""
        # All points in one axis, after that of the directions if any.
        shape = (2, -1) if self.epsilon.lower.ndim > 2 else (-1,)
        arrays = {name: each.reshape(shape) for name, each in vars(self.epsilon).items() if hasattr(each, "reshape")}
        points = self.training.columns(delta=self.training.delta)
        question = {"mechanism": "DP-SGD", **self.training.given, **points}
        sheet = replace(self.epsilon, **arrays, question=question).sheet
        read = () if self.epsilon.unknown.all() else (READ_EACH if self.epsilon.lower.ndim > 2 else READ,)
        paper = (f"For a paper: {self.sentence}",) if self.sentence else ()
        so_far = ("epochs", "steps") if len(self.training.phases) > 1 else ()
        columns = (replace(one, head=f"{one.head} so far") if one.name in so_far else one for one in sheet.columns)
        return replace(sheet, columns=tuple(columns), notes=(*sheet.notes, *read, *self.training.notes, *paper))

    def over_time(self, moments: int = 24) -> "DpsgdEpsilon":
        """Return ε at about so many moments, closest at the start, where ε rises fastest, and after each phase."""
        with warnings.catch_warnings():
            # `within_tolerance` has it.
            warnings.simplefilter("ignore", PrecisionWarning)
            return _bounded(self.training.over_time(moments))


def dpsgd(
    *,
    examples: int,
    batch: int | None = None,
    sample_rate: float | None = None,
    noise_multiplier: float | None = None,
    epochs: Any = None,
    steps: Any = None,
    phases: Sequence[Mapping[str, Any]] | None = None,
    delta: Any = None,
    tolerance: float | None = None,
    direction: str = "both",
    strict: bool = False,
) -> DpsgdEpsilon:
    """Bound ε of a run of DP-SGD from both sides.

    Each step draws every record with the sampling rate as its probability, independently (Poisson sampling), clips each
    gradient, and adds Gaussian noise to their sum. Neighbours are data sets with one record more or less. Nothing is
    proved here for shuffled batches of fixed size.

    Parameters
    ----------
    examples : int
        Records of the data set.
    batch : int
        Records of a batch on average, at most `examples`; the sampling rate is batch / examples.
    sample_rate : float, optional
        The sampling rate, in (0, 1], in place of `batch`.
    noise_multiplier : float
        Standard deviation of the noise, divided by the norm to which gradients are clipped; above 0.
    epochs, steps : number or array_like
        How long the run is: give one of the two, as one number or several. An epoch is 1 / sampling rate steps, rounded
        up, and the steps of all epochs are rounded up too.
    phases : sequence of mapping, optional
        In place of ``epochs`` and ``steps``, where the noise or the batch changes: for each phase its ``epochs`` or
        ``steps``, and its ``batch`` or ``sample_rate`` and ``noise_multiplier`` where they differ from those above. ε
        is bounded after each phase.
    delta : float or array_like of float, optional
        Above 0 and below 1; by default one over `examples`, the largest that anybody should use.
    tolerance : float, optional
        ``upper / lower - 1`` that is aimed at, 1e-3 by default.
    direction : {"both", "each"}, optional
        ``"each"``: the removal of a record, A||B, and the addition, B||A, separately.
    strict : bool, optional
        Whether a tolerance that is missed is an error.

    Returns
    -------
    DpsgdEpsilon
        The bounds, their assumptions, and a sentence for a paper.

    Raises
    ------
    InvalidInputError
        An argument is out of its range; before any computation.
    PrecisionError
        If `strict`, and the tolerance is missed.

    Warns
    -----
    PrecisionWarning
        If the tolerance is missed; the bounds hold.

    Examples
    --------
    >>> from pbdist.accounting import dpsgd
    >>> run = dpsgd(examples=60_000, batch=256, noise_multiplier=1.1, epochs=[15, 60], delta=1e-5)
    >>> run.training.steps
    (3525, 14100)
    >>> bool((run.epsilon.upper <= 1.001 * run.epsilon.lower).all())
    True
    >>> phases = [{"epochs": 10, "noise_multiplier": 1.2}, {"epochs": 5, "batch": 512, "noise_multiplier": 0.9}]
    >>> print(f"{dpsgd(examples=60_000, batch=256, phases=phases, delta=1e-5).epsilon.upper[-1, 0]:.3f}")
    1.746
    """
    given = {"batch": batch, "sample_rate": sample_rate, "noise_multiplier": noise_multiplier}
    training = checked_training(examples, delta, {"epochs": epochs, "steps": steps, **given}, phases)
    return _bounded(training, tolerance=tolerance, direction=direction, strict=strict)


def _bounded(training: Training, **settings: Any) -> DpsgdEpsilon:
    """Return the bounds on ε at each moment of a run."""
    delta = list(training.delta)
    found = [_pairs_of(run).epsilon(delta, **settings) for run in reported("moment", training.runs)]
    names = [name for name, value in vars(found[0]).items() if isinstance(value, np.ndarray)]
    arrays: Any = {name: np.stack([getattr(one, name) for one in found], axis=-2) for name in names}
    for array in arrays.values():
        array.setflags(write=False)
    # Of the shape of the answers, so that no moment is taken for a direction.
    points = np.meshgrid(np.array(training.steps, dtype=object), training.delta, indexing="ij")
    question = dict(zip(("steps", "delta"), points, strict=True))
    return DpsgdEpsilon(training, replace(found[0], **arrays, question=question))


def _pairs_of(run: Sequence[TrainingPhase]) -> EventPairs:
    """Return the worst case of a run: where a rate is no float, the rates next to it enclose it.

    The larger the rate, the more is revealed: a sample is one of a larger sample.
    """
    lower, upper = (
        tuple((step_of(phase.noise_multiplier, phase.rates[side]), phase.steps) for phase in run) for side in (0, 1)
    )
    return EventPairs(upper, lower, Adjacency.ADD_OR_REMOVE)


def checked_training(
    examples: Any, delta: Any, given: Mapping[str, Any], phases: Any = None, *, sized: bool = False
) -> Training:
    """Return a run, checked, of the arguments of `dpsgd`, or with a noise multiplier that is to be `sized`.

    `given` holds those that a phase may have too. What is refused is refused by its name.
    """
    records = _whole("examples", examples, _MAX_EXAMPLES)
    if phases is None:
        runs: list[tuple[TrainingPhase, ...]] = [(phase,) for phase in _lengths(records, given, sized=sized)]
    else:
        parts = _checked_phases(records, given, phases)
        runs = [tuple(parts[: index + 1]) for index in range(len(parts))]
    if delta is None and records == 1:
        raise InvalidInputError("delta: give a number above 0 and below 1: 1 / examples, the default, is 1 here")
    wanted = (1.0 / records,) if delta is None else tuple(checked_delta(delta).tolist())
    return Training(records, tuple(runs), wanted, delta is not None)


def _checked_phases(examples: int, given: Mapping[str, Any], phases: Any) -> list[TrainingPhase]:
    """Return phases, checked; what one does not say is as given for all."""
    if not isinstance(phases, list | tuple) or not phases:
        raise InvalidInputError(f"phases: expected a list of at least one phase, got {shown(phases)}")
    for name in ("epochs", "steps"):
        if given[name] is not None:
            raise InvalidInputError(f"{name}: cannot be combined with phases, which have their own")
    found = []
    for index, phase in enumerate(phases):
        field = f"phases[{index}]"
        check_keys(field, phase, _PHASE_KEYS, needed=False)
        own = {"batch", "sample_rate"} & phase.keys()
        shared = {name: value for name, value in given.items() if not own or name not in ("batch", "sample_rate")}
        try:
            (one,) = _lengths(examples, {**dict.fromkeys(_PHASE_KEYS), **shared, **phase})
        except InvalidInputError as error:
            raise InvalidInputError(f"{field}.{error}") from None
        except ValueError:
            raise InvalidInputError(f"{field}: expected one number of epochs or steps, got several") from None
        found.append(one)
    if sum(phase.steps for phase in found) > MAX_COMPOSITIONS:
        raise InvalidInputError("phases: expected at most 2^62 steps in all, got more")
    return found


def _lengths(examples: int, given: Mapping[str, Any], *, sized: bool = False) -> list[TrainingPhase]:
    """Return a phase of each of the lengths that are given."""
    epochs, steps, batch = given["epochs"], given["steps"], given["batch"]
    check_either(epochs=epochs, steps=steps)
    check_either(batch=batch, sample_rate=given["sample_rate"])
    if batch is None:
        # One over a whole number if it is its float, else the decimal fraction that is meant, as of epochs.
        near = step_of(1.0, given["sample_rate"]).rate
        whole = Fraction(1, round(1 / Fraction(near)))
        rate = whole if near == float(whole) else Fraction(repr(near))
    else:
        rate = Fraction(_whole("batch", batch, examples), examples)
    if not sized and given["noise_multiplier"] is None:
        raise InvalidInputError("noise_multiplier: expected a number above 0, got none")
    noise = None if sized else step_of(given["noise_multiplier"], 1.0).scale
    if epochs is None:
        counted = [_whole("steps", one, MAX_COMPOSITIONS) for one in _listed(steps)]
        if not counted:
            raise InvalidInputError("steps: expected at least one number, got none")
        return [TrainingPhase(rate, number, None, noise) for number in counted]
    lengths = checked_numbers("epochs", epochs, "finite numbers above 0", lambda one: 0.0 < one < math.inf).tolist()
    for one in lengths:
        if steps_of_epochs(one, rate) > MAX_COMPOSITIONS:
            raise InvalidInputError(f"epochs: expected at most 2^62 steps in all, got {shown(one)} epochs")
    return [TrainingPhase(rate, steps_of_epochs(one, rate), one, noise) for one in lengths]


def _listed(value: Any) -> Sequence[Any]:
    """Return several values as a list, and one as a list of it."""
    found = value.tolist() if hasattr(value, "tolist") else value
    return found if isinstance(found, list | tuple) else [found]


def _whole(field: str, value: Any, maximum: int) -> int:
    """Return a whole number from 1 to a maximum, under a name without an owner."""
    try:
        return checked_integer("", field, value, minimum=1, maximum=maximum)
    except InvalidInputError as error:
        raise InvalidInputError(str(error).removeprefix(".")) from None
    except (OverflowError, ValueError):
        # Infinite, or no number.
        raise InvalidInputError(f"{field}: expected a whole number from 1 to {maximum}, got {shown(value)}") from None
