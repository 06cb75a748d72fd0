"""What an event of dp-accounting is in pbdist: its worst-case pairs with counts, and the bounds that follow."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from pbdist.accounting.accountant import Accountant
from pbdist.arguments import MAX_COMPOSITIONS
from pbdist.errors import InvalidInputError, printable
from pbdist.mechanisms import Adjacency, ApproximateDP, Pair
from pbdist.results import DeltaBounds, EpsilonBounds

#: Pairs, and how often each occurs.
Counted = tuple[tuple[Pair, int], ...]

#: The pair of what shows the data as it is: every δ is 1.
REVEALED = ApproximateDP(epsilon=0.0, delta=1.0)


class EventRefusedError(InvalidInputError):
    """No worst-case pair is known for an event: the text names the event, and says why.

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

    In every pair A is what is seen with the record, B what is seen without it, or with its replacement. Iterating
    gives the pairs of an exact event, as ``pbdist.epsilon_bounds`` and the others take them.

    Attributes
    ----------
    upper : tuple of (Pair, int)
        Their composition dominates the event: upper bounds of it hold for the event. None of them, if nothing is
        revealed.
    lower : tuple of (Pair, int)
        The event is at least as bad as their composition, for some neighbouring datasets: lower bounds of it hold for
        the event.
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
        """Whether something shows the data as it is."""
        return any(pair == REVEALED for pair, _ in self.lower)

    def __iter__(self) -> Iterator[tuple[Pair, int]]:
        """Yield the pairs and their counts.

        Raises
        ------
        InvalidInputError
            The event is not exact.
        """
        if not self.exact:
            raise InvalidInputError(
                "EventPairs: expected one worst case, got one that two compositions enclose: ask for upper, for lower,"
                " or for the bounds by epsilon and delta"
            )
        return iter(self.upper)

    def times(self, count: int) -> Self:
        """Return the pairs of several runs of the event.

        Raises
        ------
        InvalidInputError
            They are more than 2^62.
        """
        return type(self)(_times(self.upper, count), _times(self.lower, count), self.adjacency)

    def epsilon(self, delta: Any, *, tolerance: float | None = None) -> EpsilonBounds:
        """Bound ε(δ) of the event from both sides; arguments, errors and warnings as of `Accountant.epsilon`."""
        above = accountant_of(self.upper).epsilon(delta, tolerance=tolerance)
        below = above if self.exact else accountant_of(self.lower).epsilon(delta, tolerance=tolerance)
        within = above.within_tolerance if self.exact else None
        return EpsilonBounds(below.lower, above.upper, within, adjacency=self.adjacency)

    def delta(self, epsilon: Any, *, tolerance: float | None = None) -> DeltaBounds:
        """Bound δ(ε) of the event from both sides; arguments, errors and warnings as of `Accountant.delta`."""
        above = accountant_of(self.upper).delta(epsilon, tolerance=tolerance)
        below = above if self.exact else accountant_of(self.lower).delta(epsilon, tolerance=tolerance)
        return DeltaBounds(
            below.lower,
            above.upper,
            below.log_lower,
            above.log_upper,
            above.within_tolerance if self.exact else None,
            adjacency=self.adjacency,
        )


def accountant_of(pairs: Counted) -> Accountant:
    """Return an accountant that has counted the pairs."""
    found = Accountant()
    for pair, count in pairs:
        found = found.add(pair, count)
    return found


def composed(parts: list[EventPairs], adjacency: Adjacency) -> EventPairs:
    """Return the pairs of several events, equal ones together, in the order in which they first occur."""
    return EventPairs(_merged([part.upper for part in parts]), _merged([part.lower for part in parts]), adjacency)


def refusal(name: str, why: str, event: Any) -> EventRefusedError:
    """Return the error that refuses an event."""
    return EventRefusedError(printable(f"{name}: expected an event with a known worst-case pair, got {why}"), event)


def _merged(parts: list[Counted]) -> Counted:
    counts: dict[Pair, int] = {}
    for part in parts:
        for pair, count in part:
            counts[pair] = counts.get(pair, 0) + count
    return tuple(counts.items())


def _times(pairs: Counted, count: int) -> Counted:
    found = tuple((pair, one * count) for pair, one in pairs) if count else ()
    if any(one > MAX_COMPOSITIONS for _, one in found):
        raise InvalidInputError(f"count: expected at most 2^62 runs of an event in all, got {count} times")
    return found
