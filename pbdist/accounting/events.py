"""Read dp-accounting's events: compositions become worst-case pairs with counts; other events are refused."""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from numbers import Integral, Real
from typing import Any, Self, TypeVar

import numpy as np

from pbdist.accounting.accountant import Accountant, Counted
from pbdist.arguments import MAX_COMPOSITIONS, checked_tolerance
from pbdist.errors import InvalidInputError, PrecisionWarning, printable, shown
from pbdist.mechanisms import (
    Adjacency,
    ApproximateDP,
    DiscreteLaplace,
    FixedBatchGaussian,
    Gaussian,
    GaussianMixture,
    Histogram,
    Laplace,
    Pair,
    RandomizedResponse,
    SubsampledGaussian,
    SubsampledLaplace,
    TruncatedPoissonGaussian,
)
from pbdist.results import ENCLOSED, DeltaBounds, EpsilonBounds, relative_width

#: The pair of an event that reveals the data: every δ is 1.
REVEALED = ApproximateDP(epsilon=0.0, delta=1.0)


class EventRefusedError(InvalidInputError):
    """No worst-case pair is known for an event: the text names the event and the reason.

    Attributes
    ----------
    event : object
        The refused event; where events are nested, the innermost one that is the reason.
    """

    def __init__(self, text: str, event: Any) -> None:
        super().__init__(text)
        self.event = event


@dataclass(frozen=True)
class EventPairs:
    """The worst case of an event: pairs, and how often each occurs.

    In every pair A is the output with the record, B the output without it or with its replacement. Iterating gives the
    pairs of an exact event, as ``pbdist.epsilon_bounds`` and the others take them.

    Attributes
    ----------
    upper : tuple of (Pair, int)
        Pairs whose composition dominates the event: its upper bounds hold for the event. Empty if nothing is revealed.
    lower : tuple of (Pair, int)
        Pairs whose composition the event dominates, for some neighbouring datasets: its lower bounds hold for the
        event.
    adjacency : Adjacency
        The neighbours that the bounds are about.
    """

    upper: Counted
    lower: Counted
    adjacency: Adjacency

    @property
    def exact(self) -> bool:
        """Whether one composition is the worst case from both sides; if not, two of them enclose it."""
        return self.upper == self.lower

    @property
    def total(self) -> bool:
        """Whether some event reveals the data."""
        return any(pair == REVEALED for pair, _ in self.lower)

    def __iter__(self) -> Iterator[tuple[Pair, int]]:
        """Yield the pairs and their counts; refused where the event is not exact."""
        if not self.exact:
            raise InvalidInputError(
                "EventPairs: expected one worst case, got one that two compositions enclose: ask for upper, for lower,"
                " or for the bounds by epsilon and delta"
            )
        return iter(self.upper)

    def times(self, count: int) -> Self:
        """Return the pairs of several runs of the event; more than 2^62 are refused."""
        upper, lower = (tuple((pair, one * count) for pair, one in side if count) for side in (self.upper, self.lower))
        if any(one > MAX_COMPOSITIONS for _, one in (*upper, *lower)):
            raise InvalidInputError(f"count: expected a number of repeats with at most 2^62 runs in all, got {count}")
        return type(self)(upper, lower, self.adjacency)

    def epsilon(
        self, delta: Any, *, tolerance: float | None = None, direction: str = "both", strict: bool = False
    ) -> EpsilonBounds:
        """Bound ε(δ) of the event from both sides; arguments, errors and warnings as of `Accountant.epsilon`."""
        found: EpsilonBounds = self._enclosed("epsilon", delta, tolerance, direction=direction, strict=strict)
        return found

    def delta(
        self, epsilon: Any, *, tolerance: float | None = None, direction: str = "both", strict: bool = False
    ) -> DeltaBounds:
        """Bound δ(ε) of the event from both sides; arguments, errors and warnings as of `Accountant.delta`."""
        found: DeltaBounds = self._enclosed("delta", epsilon, tolerance, direction=direction, strict=strict)
        return found

    def _enclosed(self, name: str, values: Any, tolerance: float | None, **settings: Any) -> Any:
        """Return upper bounds of the one composition, and lower ones of the other, as of `Accountant` by that name."""
        above = getattr(accountant_of(self.upper), name)(values, tolerance=tolerance, **settings)
        if self.exact:
            return replace(above, adjacency=self.adjacency)
        with warnings.catch_warnings():
            # One warning of a missed tolerance is enough.
            if not np.all(above.within_tolerance):
                warnings.simplefilter("ignore", PrecisionWarning)
            below = getattr(accountant_of(self.lower), name)(values, tolerance=tolerance, **settings)
        wide = relative_width(below.lower, above.upper) > checked_tolerance(tolerance)
        missed = ~above.within_tolerance, ~below.within_tolerance, wide
        why = np.select(missed, (above.why_wide, below.why_wide, ENCLOSED), "")
        lower = {name: value for name, value in vars(below).items() if name.endswith("lower")}
        return replace(above, **lower, within_tolerance=why == "", why_wide=why, adjacency=self.adjacency)

    def __str__(self) -> str:
        """Return the pairs and their counts; where two compositions enclose the event, both."""
        texts = [" + ".join(f"{count:,} x {pair!r}" for pair, count in pairs) for pairs in (self.upper, self.lower)]
        neighbours = f"neighbours: {self.adjacency}"
        if self.exact:
            return f"{texts[0] or 'nothing is revealed'}, {neighbours}"
        return f"from above {texts[0]}, from below {texts[1] or 'nothing'}, {neighbours}"


def accountant_of(pairs: Counted) -> Accountant:
    """Return an accountant that has counted the pairs."""
    found = Accountant()
    for pair, count in pairs:
        found = found.add(pair, count)
    return found


def composed(parts: list[EventPairs], adjacency: Adjacency) -> EventPairs:
    """Return the pairs of several events, equal ones together, in the order in which they first occur."""
    upper, lower = Counter[Pair](), Counter[Pair]()
    for part in parts:
        for counts, side in ((upper, part.upper), (lower, part.lower)):
            for pair, count in side:
                counts[pair] += count
    return EventPairs(tuple(upper.items()), tuple(lower.items()), adjacency)


def refusal(name: str, why: str, event: Any) -> EventRefusedError:
    """Return the error that refuses an event."""
    return EventRefusedError(printable(f"{name}: expected an event with a known worst-case pair, got {why}"), event)


Made = TypeVar("Made", bound=Pair)


@dataclass(frozen=True)
class Reading:
    """An event, the name of its class, and the neighbours that it is read for; `inner` reads an event in it."""

    name: str
    event: Any
    adjacency: Adjacency
    inner: Callable[[Any], EventPairs]

    def number(self, field: str) -> float:
        """Return a parameter as the float64 that it is; one that is no float64 is refused."""
        value = getattr(self.event, field)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise self.refused(f"{field} {shown(value)}, which is no number")
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if not math.isfinite(found) or found != value:
            raise self.refused(f"{field} {shown(value)}, which is no finite float64")
        return found + 0.0

    def noise(self, field: str) -> float:
        """Return a parameter that is at least 0."""
        found = self.number(field)
        if found < 0.0:
            raise self.refused(f"{field} {shown(found)}, which is below 0")
        return found

    def probability(self, field: str) -> float:
        """Return a parameter in [0, 1]."""
        found = self.number(field)
        if not 0.0 <= found <= 1.0:
            raise self.refused(f"{field} {shown(found)}, which is no probability")
        return found

    def whole(self, field: str, value: Any, minimum: int) -> int:
        """Return a parameter that is a whole number of at least `minimum`."""
        if isinstance(value, bool) or not isinstance(value, Integral) or not minimum <= int(value) <= MAX_COMPOSITIONS:
            raise self.refused(f"{field} {shown(value)}, which is no whole number from {minimum} to 2^62")
        return int(value)

    def several(self, field: str) -> tuple[Any, ...]:
        """Return a parameter that is a sequence."""
        value = getattr(self.event, field)
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise self.refused(f"{field} {shown(value)}, which is no sequence")
        return tuple(value)

    def refused(self, why: str) -> InvalidInputError:
        """Return the error that refuses the event."""
        return refusal(self.name, why, self.event)

    def check_adjacency(self, known: tuple[Adjacency, ...], why: str) -> None:
        """Refuse the event for other neighbours."""
        if self.adjacency not in known:
            raise self.refused(f"one for {self.adjacency.value} neighbours: {why}")

    def exactly(self, make: Callable[[], Pair], count: int = 1) -> EventPairs:
        """Return a pair, which is the worst case; what the pair refuses is refused under the event's name."""
        pairs = ((self.made(make), count),)
        return EventPairs(pairs, pairs, self.adjacency)

    def between(self, upper: Pair, lower: Pair) -> EventPairs:
        """Return a pair that dominates the worst case, and one that it dominates."""
        return EventPairs(((upper, 1),), ((lower, 1),), self.adjacency)

    @property
    def nothing(self) -> EventPairs:
        """No pairs: nothing is revealed."""
        return EventPairs((), (), self.adjacency)

    @property
    def everything(self) -> EventPairs:
        """The pairs of an event that reveals the data."""
        return self.exactly(lambda: REVEALED)

    def shown_with(self, chance: Fraction) -> EventPairs:
        """The pairs of an event that reveals a record with a chance, at least: as private as one that always does.

        Otherwise nothing is seen; for neighbours of which a record is replaced, the other record is in its place.
        """
        seen, whole = chance.as_integer_ratio()
        if self.adjacency is Adjacency.REPLACE_ONE:
            pair = Histogram((whole - seen, seen, 0), (whole - seen, 0, seen))
        else:
            pair = Histogram((whole - seen, seen), (1, 0))
        return self.between(REVEALED, pair)

    def made(self, make: Callable[[], Made]) -> Made:
        """Return a pair; what it refuses is refused under the event's name."""
        try:
            return make()
        except InvalidInputError as error:
            raise self.refused(f"parameters that its pair refuses: {error}") from error


#: The neighbours for which a sum moves by one value: one record more or less, or one in place of nothing.
ONE_VALUE = (Adjacency.ADD_OR_REMOVE, Adjacency.ZERO_OUT)

#: What a Poisson sample makes of a pair, by the pair's kind.
_SAMPLED: Mapping[type, Callable[[Any, float], Pair]] = {
    Gaussian: lambda pair, rate: SubsampledGaussian(pair.scale, rate, pair.sensitivity),
    Laplace: lambda pair, rate: SubsampledLaplace(pair.scale, rate, pair.sensitivity),
}


def poisson_sampled(reading: Reading) -> EventPairs:
    """The pair of the sampled noise; a rate of 1 is no sampling, and with a rate of 0 nothing is seen.

    A record in place of nothing changes no other one's chance to be sampled: it is as if it were added.
    """
    rate = reading.probability("sampling_probability")
    inner = reading.inner(reading.event.event)
    if rate == 0.0 or not inner.upper:
        return reading.nothing
    if rate == 1.0:
        return inner
    if inner.total:
        return reading.shown_with(Fraction(rate))
    reading.check_adjacency(ONE_VALUE, "no pair of a sample of a replaced record is proved here")
    pair = _only(reading, inner, tuple(_SAMPLED))
    return reading.exactly(lambda: _SAMPLED[type(pair)](pair, rate))


def fixed_batch(reading: Reading) -> EventPairs:
    """The pair that dominates batches of a fixed size, and the one that some neighbours follow: Theorem 39."""
    examples = reading.whole("source_dataset_size", reading.event.source_dataset_size, 0)
    batch = reading.whole("sample_size", reading.event.sample_size, 0)
    if batch > examples:
        raise reading.refused(f"sample_size {batch}, which is more than source_dataset_size {examples}")
    inner = reading.inner(reading.event.event)
    if batch == 0 or not inner.upper:
        return reading.nothing
    reading.check_adjacency((Adjacency.REPLACE_ONE,), "a batch of a fixed size has another record in its place")
    if batch == examples:
        return inner
    if inner.total:
        return reading.shown_with(Fraction(batch, examples))
    pair = _only(reading, inner, (Gaussian,))
    # The pair of one batch counts the norm of a value, of which two lie between a record and another one.
    mechanism = reading.made(lambda: FixedBatchGaussian(pair.scale, batch, examples, 0.5 * pair.sensitivity))
    return reading.between(mechanism.upper_pair, mechanism.lower_pair)


def truncated_batch(reading: Reading) -> EventPairs:
    """The pair that dominates samples that are cut, and the one that some neighbours follow: Theorem 38.

    The size of the data set is that of the larger neighbour, as dp-accounting computes with it.
    """
    noise = reading.noise("noise_multiplier")
    rate = reading.probability("sampling_probability")
    batch = reading.whole("truncated_batch_size", reading.event.truncated_batch_size, 0)
    examples = reading.whole("dataset_size", reading.event.dataset_size, 0)
    if rate == 0.0 or batch == 0 or examples == 0:
        return reading.nothing
    reading.check_adjacency((Adjacency.ADD_OR_REMOVE,), "no pair of samples that are cut is proved here")
    if noise == 0.0:
        # A record of the sample stays in it at least as often as it would among all records.
        return reading.shown_with(Fraction(rate) * min(Fraction(batch, examples), Fraction(1)))
    if batch >= examples:
        return reading.exactly(lambda: SubsampledGaussian(noise, rate))
    mechanism = reading.made(lambda: TruncatedPoissonGaussian(noise, rate, batch, examples))
    return reading.between(mechanism.upper_pair, mechanism.lower_pair)


def _only(reading: Reading, inner: EventPairs, kinds: tuple[type, ...]) -> Any:
    """Return the one pair of the event that is run on the sample, of one of some kinds; all else is refused."""
    if inner.exact and len(inner.upper) == 1:
        ((pair, count),) = inner.upper
        if count == 1 and type(pair) in kinds:
            return pair
    names = " or ".join(f"{kind.__name__}DpEvent" for kind in kinds)
    raise reading.refused(f"a sample of {shown(reading.event.event)}, which is not a single {names} with noise")


#: By how many norms of a value a sum moves: by one for a record that comes, goes, or is left out; by two for another.
_DISTANCE = {Adjacency.ADD_OR_REMOVE: 1, Adjacency.ZERO_OUT: 1, Adjacency.REPLACE_ONE: 2}


def _additive(kind: Callable[..., Pair]) -> Callable[[Reading], EventPairs]:
    """Theorem 81: however many coordinates, the worst sum moves along one line, or in one of them, by all it can."""

    def rule(reading: Reading) -> EventPairs:
        noise = reading.noise("noise_multiplier")
        if noise == 0.0:
            return reading.everything
        return reading.exactly(lambda: kind(noise, sensitivity=float(_DISTANCE[reading.adjacency])))

    return rule


def _discrete_laplace(reading: Reading) -> EventPairs:
    """Theorem 81, and Theorem 11 where 1 / noise_parameter lies between two float64 numbers."""
    inverse = reading.noise("noise_parameter")
    if inverse == 0.0:
        raise reading.refused("noise_parameter 0.0, with which no such noise exists")
    shift = reading.whole("sensitivity", reading.event.sensitivity, 0) * _DISTANCE[reading.adjacency]
    if shift == 0:
        return reading.nothing
    upper, lower = (reading.made(partial(DiscreteLaplace, scale, shift)) for scale in _inverses(inverse))
    return reading.between(upper, lower)


def _inverses(value: float) -> tuple[float, float]:
    """Return the largest float64 that is at most 1 / value, and the smallest that is at least that."""
    if 1.0 / value == math.inf:
        return math.inf, math.inf
    near, exact = 1.0 / value, 1 / Fraction(value)
    least = near if near <= exact else math.nextafter(near, 0.0)
    most = near if near >= exact else math.nextafter(near, math.inf)
    return least, most


def _randomized_response(reading: Reading) -> EventPairs:
    """Theorems 40 and 82: exact counts of the outcomes; the pair itself where there are two."""
    noise = reading.probability("noise_parameter")
    buckets = reading.whole("num_buckets", reading.event.num_buckets, 1)
    reading.check_adjacency(
        (Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT),
        "it has one answer for each record, and so shows how many there are",
    )
    if buckets == 1 or noise == 1.0:
        return reading.nothing
    half = 0.5 * noise
    if reading.adjacency is Adjacency.REPLACE_ONE and buckets == 2 and 2.0 * half == noise:
        # A lie has the probability noise / 2; renaming the outcomes makes it the truth.
        return reading.exactly(lambda: RandomizedResponse(half))
    # In units of 1 / (buckets * whole) each other outcome has the mass `blind`, the true one the rest.
    blind, whole = noise.as_integer_ratio()
    true = buckets * whole - (buckets - 1) * blind
    if reading.adjacency is Adjacency.ZERO_OUT:
        return reading.exactly(lambda: Histogram((true, (buckets - 1) * blind), (1, buckets - 1)))
    rest = (buckets - 2) * blind
    return reading.exactly(lambda: Histogram((true, blind, rest), (blind, true, rest)))


def _mixture(reading: Reading) -> EventPairs:
    """The pair says what it is the worst case of; A is what is seen with the record."""
    scale = reading.noise("standard_deviation")
    shifts, weights = reading.several("sensitivities"), reading.several("sampling_probs")
    reading.check_adjacency(ONE_VALUE, "its two distributions are those with and without a record")
    if not shifts:
        raise reading.refused("no shift")
    if all(shift == 0 for shift in shifts):
        return reading.nothing
    shifts, weights = _in_order(shifts, weights)
    if scale == 0.0:
        reading.made(lambda: GaussianMixture(1.0, shifts, weights))
        seen = max(Fraction(weight) for shift, weight in zip(shifts, weights, strict=True) if shift != 0)
        return reading.shown_with(seen / sum(map(Fraction, weights)))
    return reading.exactly(lambda: GaussianMixture(scale, shifts, weights))


def _in_order(shifts: tuple[Any, ...], weights: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the same mixture with rising shifts, and without those that never occur; what is wrong with it stays."""
    numbers = all(isinstance(one, Real) and math.isfinite(one) for one in (*shifts, *weights))
    if not numbers or len(shifts) != len(weights) or not any(weights):
        return shifts, weights
    parts = sorted((part for part in zip(shifts, weights, strict=True) if part[1] != 0), key=lambda part: part[0])
    return tuple(shift for shift, _ in parts), tuple(weight for _, weight in parts)


def _tree(reading: Reading) -> EventPairs:
    """Theorem 83: a record is in as many nodes as the tree of its leaf has levels, each with noise of its own."""
    noise = reading.noise("noise_multiplier")
    given = reading.event.step_counts
    counts = (given,) if isinstance(given, Real) else reading.several("step_counts")
    steps = [reading.whole("step_counts", count, 0) for count in counts]
    if not steps:
        raise reading.refused("step_counts of no tree")
    reading.check_adjacency((Adjacency.ZERO_OUT,), "a record that comes or goes moves those after it to other leaves")
    levels = max(steps).bit_length()
    if levels == 0:
        return reading.nothing
    return reading.everything if noise == 0.0 else reading.exactly(lambda: Gaussian(noise), levels)


#: The rule of each kind that is not a composition.
RULES: Mapping[str, Callable[[Reading], EventPairs]] = {
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "GaussianDpEvent": _additive(Gaussian),
    "LaplaceDpEvent": _additive(Laplace),
    "MixtureOfGaussiansDpEvent": _mixture,
    "NoOpDpEvent": lambda reading: reading.nothing,
    "NonPrivateDpEvent": lambda reading: reading.everything,
    "PoissonSampledDpEvent": poisson_sampled,
    "RandomizedResponseDpEvent": _randomized_response,
    "SampledWithoutReplacementDpEvent": fixed_batch,
    "SingleEpochTreeAggregationDpEvent": _tree,
    "TruncatedSubsampledGaussianDpEvent": truncated_batch,
}

#: Why each other kind is refused.
REFUSED: Mapping[str, str] = {
    "RepeatAndSelectDpEvent": "the best of a random number of runs, of which only Rényi divergences are bounded",
    "SampledWithReplacementDpEvent": "batches drawn with replacement, of which no pair is known",
    "UnsupportedDpEvent": "one whose description says that it has none",
    "ZCDpEvent": "bounds on Rényi divergences, which say nothing of a pair",
}


_MODULE = "dp_accounting.dp_event"
_COMPOSED, _REPEATED = "ComposedDpEvent", "SelfComposedDpEvent"
#: The neighbours that events can be read for.
_ADJACENCIES = (Adjacency.ADD_OR_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT)
#: The most events that are nested in one another, apart from compositions.
_DEEPEST = 20

#: Every kind of event that is known, by the name of its class.
KINDS = frozenset({*RULES, *REFUSED, _COMPOSED, _REPEATED})


def from_dp_event(event: Any, *, adjacency: Adjacency | str = Adjacency.ADD_OR_REMOVE) -> EventPairs:
    """Return the worst-case pairs of an event of dp-accounting, and how often each occurs.

    They are the exact worst case or, for batches of a fixed size, truncated samples and parameters that are not float64
    numbers, two compositions that provably enclose it: Theorems 1, 36 to 40 and 81 to 83 of docs/theory.md. All other
    kinds are refused by name, and so is a class that dp-accounting does not define; none is approximated.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        The event.
    adjacency : Adjacency or str, optional
        For which neighbours: "add-or-remove", "replace-one" or "zero-out", which dp-accounting calls
        ``ADD_OR_REMOVE_ONE``, ``REPLACE_ONE`` and ``REPLACE_SPECIAL``.

    Returns
    -------
    EventPairs
        Pairs and counts, which ``pbdist.epsilon_bounds`` takes as they are, with ``compositions=1``; and bounds on ε
        and on δ.

    Raises
    ------
    EventRefusedError
        No pair is known for an event or for those neighbours, or a parameter is out of its range; the text says which.
    InvalidInputError
        The adjacency is none of these.

    Examples
    --------
    >>> import dp_accounting
    >>> from pbdist.accounting import from_dp_event
    >>> step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    >>> run = from_dp_event(dp_accounting.SelfComposedDpEvent(step, 1000))
    >>> list(run)
    [(SubsampledGaussian(scale=1.0, rate=0.01, sensitivity=1.0), 1000)]
    >>> print(f"{run.epsilon(1e-5).upper:.3f}")
    1.828
    """
    if adjacency not in _ADJACENCIES:
        raise InvalidInputError(f"adjacency: expected one of {', '.join(_ADJACENCIES)}, got {shown(adjacency)}")
    return _read(event, Adjacency(adjacency), 0)


def _read(event: Any, adjacency: Adjacency, depth: int) -> EventPairs:
    """Return the pairs of an event that is nested so deeply in others."""
    if depth > _DEEPEST:
        raise refusal(_name_of(event), f"one in more than {_DEEPEST} others", event)
    parts = [_leaf(leaf, adjacency, depth).times(count) for leaf, count in _leaves(event)]
    return composed(parts, adjacency)


def _leaf(event: Any, adjacency: Adjacency, depth: int) -> EventPairs:
    """Return the pairs of an event that is no composition."""
    name = _name_of(event)
    if name in RULES:
        return RULES[name](Reading(name, event, adjacency, lambda inner: _read(inner, adjacency, depth + 1)))
    raise refusal(name, REFUSED.get(name, f"{shown(event)}, which is none of {_MODULE}"), event)


def _leaves(event: Any) -> Iterator[tuple[Any, int]]:
    """Yield the events that are composed, in order, and how often each occurs; none that occurs 0 times is left out.

    Compositions may be nested as deeply as memory allows.
    """
    waiting = [(event, 1)]
    while waiting:
        current, count = waiting.pop()
        name = _name_of(current)
        if name == _REPEATED:
            repeats = current.count
            whole = type(repeats) is int or (hasattr(repeats, "__index__") and not isinstance(repeats, bool))
            if not whole or int(repeats) < 0 or count * int(repeats) > MAX_COMPOSITIONS:
                raise refusal(
                    name, f"count {shown(repeats)}: expected a whole number from 0, 2^62 runs in all", current
                )
            waiting.append((current.event, count * int(repeats)))
        elif name == _COMPOSED:
            inner = current.events
            if isinstance(inner, str | bytes) or not isinstance(inner, Iterable):
                raise refusal(name, f"events {shown(inner)}, which are no sequence", current)
            waiting += [(one, count) for one in reversed(list(inner))]
        else:
            yield current, count


def _name_of(event: Any) -> str:
    """Return the name of an event's class; classes that are not of dp-accounting have the name of their module too."""
    module, name = type(event).__module__, type(event).__qualname__
    return name if module == _MODULE else f"{module}.{name}"
