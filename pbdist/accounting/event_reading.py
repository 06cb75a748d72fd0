"""An event of dp-accounting as it is read: its parameters, checked, and its refusal by name."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeVar

from pbdist.accounting.event_pairs import REVEALED, EventPairs, refusal
from pbdist.arguments import MAX_COMPOSITIONS
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import Adjacency, Pair

Made = TypeVar("Made", bound=Pair)


@dataclass(frozen=True)
class Reading:
    """An event, what it is called, and the neighbours that it is read for.

    Attributes
    ----------
    name : str
        The name of its class.
    event : object
        The event.
    adjacency : Adjacency
        Add-or-remove, replace-one or zero-out.
    inner : callable
        Reads the event in another one, for the same neighbours.
    """

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
            raise self.refused(f"it for {self.adjacency.value} neighbours: {why}")

    def exactly(self, make: Callable[[], Pair], count: int = 1) -> EventPairs:
        """Return a pair, which is the worst case; what the pair refuses is refused under the event's name."""
        pairs = ((self.made(make), count),)
        return EventPairs(pairs, pairs, self.adjacency)

    def between(self, upper: Callable[[], Pair], lower: Callable[[], Pair]) -> EventPairs:
        """Return a pair that dominates the worst case, and one that it dominates."""
        return EventPairs(((self.made(upper), 1),), ((self.made(lower), 1),), self.adjacency)

    @property
    def nothing(self) -> EventPairs:
        """The pairs of what reveals nothing."""
        return EventPairs((), (), self.adjacency)

    @property
    def everything(self) -> EventPairs:
        """The pairs of what shows the data as it is."""
        return self.exactly(lambda: REVEALED)

    def made(self, make: Callable[[], Made]) -> Made:
        """Return a pair; what it refuses is refused under the event's name."""
        try:
            return make()
        except InvalidInputError as error:
            raise self.refused(f"parameters that its pair refuses: {error}") from error
