"""DP-SGD in the words of those who train: records, batches and epochs; the pair of a step, and how many there are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from pbdist.arguments import MAX_COMPOSITIONS, check_either, checked_delta, checked_numbers
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import Adjacency, Pair, SubsampledGaussian, WorstOf
from pbdist.mechanisms.declaration import checked_integer

#: What is taken for granted of a run, and what the bounds do not hold for.
ASSUMED = (
    "Assumed: Poisson sampling, each record is in a batch with probability batch / examples, independently of the"
    " others and of other steps; neighbours are add-or-remove, with one record more or less."
)
NOT_BOUNDED = (
    "Not bounded: shuffled records cut into batches of fixed size, and neighbours of which one record is replaced."
)
#: What a step of DP-SGD calls the parameters of its pair.
_FIELDS = {"scale": "noise_multiplier", "rate": "sample_rate"}
#: Records of a data set, at most.
_MOST_EXAMPLES = 10**15


def step_of(noise_multiplier: Any, sample_rate: Any) -> SubsampledGaussian:
    """Return the worst-case pair of one step of DP-SGD, for one record added or removed.

    Raises
    ------
    InvalidInputError
        A parameter is out of its range; by the name it has here.
    """
    try:
        return SubsampledGaussian(scale=noise_multiplier, rate=sample_rate)
    except InvalidInputError as error:
        field, _, problem = str(error).removeprefix("SubsampledGaussian.").partition(": ")
        raise InvalidInputError(f"{_FIELDS[field]}: {problem}") from None


@dataclass(frozen=True)
class Training:
    """A run of DP-SGD.

    Attributes
    ----------
    examples
        Records of the data set.
    batch
        Records of a batch on average.
    epochs
        Numbers of epochs; None where steps were given.
    steps
        How many steps these are: epochs · examples / batch, rounded up.
    delta
        δ that are asked for.
    own_delta
        Whether they were given; else δ is one over `examples`.
    """

    examples: int
    batch: int
    epochs: tuple[float, ...] | None
    steps: tuple[int, ...]
    delta: tuple[float, ...]
    own_delta: bool

    @property
    def sample_rate(self) -> float:
        """The probability with which a record is in a batch: batch / examples, rounded up."""
        return self._rates[1]

    @property
    def _rates(self) -> tuple[float, float]:
        """The sampling rate, rounded down and up."""
        exact, rate = Fraction(self.batch, self.examples), self.batch / self.examples
        low = rate if Fraction(rate) <= exact else math.nextafter(rate, 0.0)
        return low, rate if Fraction(rate) >= exact else math.nextafter(rate, 1.0)

    def step(self, noise_multiplier: Any) -> Pair:
        """Return one step: where the rate is no float, bounds are of the rates next to it.

        Raises
        ------
        InvalidInputError
            The noise multiplier is out of its range.
        """
        low, high = (step_of(noise_multiplier, rate) for rate in self._rates)
        # The larger the rate, the more is revealed: a sample is one of a larger sample.
        return high if low == high else WorstOf(high, low, attained=(False, True))

    @property
    def adjacency(self) -> Adjacency:
        """One record is added or removed."""
        return Adjacency.ADD_OR_REMOVE

    def columns(self, **axes: Sequence[float]) -> dict[str, list[float]]:
        """Return all combinations of the numbers of steps and of other values as columns, the last varying fastest.

        Where epochs were given they are the first column.
        """
        lengths = [("steps", self.steps)] if self.epochs is None else [("epochs", self.epochs), ("steps", self.steps)]
        names = [*(name for name, _ in lengths), *axes]
        runs = zip(*(values for _, values in lengths), strict=True)
        rows = [(*run, *point) for run, point in product(runs, product(*axes.values()))]
        return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}

    @property
    def notes(self) -> tuple[str, ...]:
        """What is taken for granted, in sentences."""
        told = () if self.epochs is None else ("Steps: epochs * examples / batch, rounded up.",)
        default = () if self.own_delta else (f"δ is 1 / {self.examples}, as none was given: a smaller one is safer.",)
        return (ASSUMED, NOT_BOUNDED, *told, *default)


def checked_training(examples: Any, batch: Any, epochs: Any, steps: Any, delta: Any) -> Training:
    """Return a run, checked; exactly one of epochs and steps is given, and δ is one over `examples` if it is not.

    Raises
    ------
    InvalidInputError
        An argument is out of its range; the text names it.
    """
    check_either(epochs=epochs, steps=steps)
    records = _whole("examples", examples, _MOST_EXAMPLES)
    drawn = _whole("batch", batch, records)
    if epochs is None:
        given, counted = None, tuple(_whole("steps", one, MAX_COMPOSITIONS) for one in _listed(steps))
        if not counted:
            raise InvalidInputError("steps: expected at least one number, got none")
    else:
        given = tuple(checked_numbers("epochs", epochs, "finite numbers above 0", _is_positive).tolist())
        # The decimal fraction that is meant: the float64 of 0.1 is a little more, and would take a step more.
        counted = tuple(math.ceil(Fraction(repr(one)) * records / drawn) for one in given)
        for one, number in zip(given, counted, strict=True):
            if number > MAX_COMPOSITIONS:
                raise InvalidInputError(f"epochs: expected at most 2^62 steps, got {number} in {one!r} epochs")
    if delta is None and records == 1:
        raise InvalidInputError("delta: expected a number above 0 and below 1 for one record, got none")
    wanted = (1.0 / records,) if delta is None else tuple(checked_delta(delta).tolist())
    return Training(records, drawn, given, counted, wanted, delta is not None)


def _is_positive(value: float) -> bool:
    return 0.0 < value < math.inf


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
