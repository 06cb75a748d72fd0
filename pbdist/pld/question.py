"""The question that a table of bounds answers, with rough profiles of a round's losses. Nothing here is a bound."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pbdist.mechanisms import BEYOND, ElementaryPair, PairCounts
from pbdist.pld.loss_profile import Exponents, LossProfile, SaddlePoints, loss_profile
from pbdist.pld.loss_transform import Lines, Rounds
from pbdist.types import Direction, FloatArray, IntArray

#: Part of the tolerance, at the floor, that windows may take.
_WINDOW_FRACTION = 0.1
#: Part of the tolerance that may be left open where lower bounds are known.
_OPEN_FRACTION = 0.1
#: Up to here, nats, a single ε is rounded up for profiles.
_ROUNDED = 256.0
#: Part of the floor that profiles show.
_SHOWN_FRACTION = 1e-6

#: Logarithms of lower and upper bounds on δ at some ε.
Reader = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


def largest_of(readers: Sequence[Reader], epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound the largest of several ln δ."""
    lower, upper = (np.max(each, axis=0) for each in zip(*(reader(epsilon) for reader in readers), strict=True))
    return lower, upper


@dataclass(frozen=True, eq=False)
class Shared:
    """Caches shared by all questions about the same pairs, number of rounds and δ."""

    #: Profiles of pairs, by the losses up to which they are seen and the deviations beyond.
    profiles: dict[tuple[ElementaryPair, float, float, float], LossProfile] = field(default_factory=dict)
    #: Guesses of an ε, by direction and by the ε and tolerance for which the pairs are seen.
    guesses: dict[tuple[Direction, float, float], tuple[float, float]] = field(default_factory=dict)
    #: Transforms of a round, by tilt; cuts of its losses, by number of tilts.
    lines: dict[Rounds, Lines] = field(default_factory=dict)
    cuts: dict[tuple[Rounds, int], Any] = field(default_factory=dict)
    #: Tilts of a round, and the ε up to which they serve this number of rounds.
    tilts: dict[Rounds, tuple[float, Any]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Question:
    """A question: bounds on δ at every r and ε."""

    #: What one round consists of.
    counts: PairCounts
    #: Shape (R,).
    rounds: IntArray
    #: Nats. Shape (E,).
    epsilon: FloatArray
    #: Largest upper / lower - 1 aimed at.
    tolerance: float
    #: Where an upper bound is at most that, nothing more is aimed at.
    floor: float
    #: Whether the larger direction alone is to meet the tolerance.
    joint_directions: bool
    #: The requested directions; by default both.
    requested: tuple[Direction, ...] = tuple(Direction)
    #: Whether profiles also show losses that are too rare to matter.
    whole: bool = False
    #: About how steeply ln δ falls at the ε, at most, a nat; 0 where that is not known.
    steepness: float = 0.0
    #: Shared with all questions that are made from this one.
    shared: Shared = field(default_factory=Shared, repr=False)
    _exponents: dict[Direction, Exponents] = field(default_factory=dict, init=False, repr=False)
    _saddles: dict[tuple[Direction, int], SaddlePoints] = field(default_factory=dict, init=False, repr=False)

    def beside(self, log_least: float) -> "Question":
        """Raise the floor to a small part of e^`log_least`, where every δ is known to be at least that."""
        floor = _OPEN_FRACTION * self.tolerance * math.exp(min(log_least, 0.0))
        return replace(self, floor=floor) if floor > self.floor else self

    @property
    def largest(self) -> float:
        """The largest ε, nats."""
        return float(self.epsilon.max())

    @property
    def top(self) -> int:
        """The largest number of rounds."""
        return int(self.rounds.max())

    @cached_property
    def leaves(self) -> int:
        """Number of leaves of a round."""
        return sum(self.counts.values())

    @cached_property
    def symmetric(self) -> bool:
        """Whether both directions are the same."""
        return all(pair.symmetric for pair in self.counts)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The requested directions that differ."""
        return self.requested[: 1 if self.symmetric else 2]

    @cached_property
    def profiles(self) -> list[tuple[LossProfile, int]]:
        """The losses of each pair, usual ones of many rounds and rare ones of one; and how often it occurs."""
        # Rounded up, so that an ε nearby is seen in the same way.
        seen = self.largest
        if self.rounds.size == self.epsilon.size == 1 and 0.0 < seen <= _ROUNDED:
            seen = 2.0 ** (2 + 3 * math.ceil((math.log2(seen) - 2.0) / 3.0))
        usual, rare = seen / (self.top * self.leaves), seen / self.leaves
        lost, known = self.lost / (self.top * self.leaves), self.shared.profiles
        beyond = _deviations(_SHOWN_FRACTION * max(self.floor, 1e-290) / (self.top * self.leaves))
        for pair in self.counts:
            if (pair, usual, rare, beyond) not in known:
                known[pair, usual, rare, beyond] = loss_profile(pair, usual, rare, beyond)
        found = ((known[pair, usual, rare, beyond], count) for pair, count in self.counts.items())
        return [(profile if self.whole else profile.seen(lost), count) for profile, count in found]

    @property
    def lost(self) -> float:
        """P_A or P_B mass that, in all compositions together, may become infinite."""
        return _WINDOW_FRACTION * self.tolerance * max(self.floor, 1e-290)

    @cached_property
    def lattice(self) -> float:
        """A number of which all losses are multiples, nats; 0 if there is none."""
        lattices = {profile.lattice for profile, _ in self.profiles}
        return lattices.pop() if len(lattices) == 1 else 0.0

    def exponents(self, direction: Direction) -> Exponents:
        """Cumulants of a round."""
        if direction not in self._exponents:
            self._exponents[direction] = Exponents(
                self.profiles,
                direction,
                (float(self.epsilon.min()) / self.top, self.largest / float(self.rounds.min())),
            )
        return self._exponents[direction]

    def saddle_points(self, direction: Direction, rounds: int) -> SaddlePoints:
        """Those of every ε after a number of rounds."""
        key = direction, rounds
        if key not in self._saddles:
            self._saddles[key] = self.exponents(direction).saddle_points(rounds, self.epsilon)
        return self._saddles[key]


def _deviations(mass: float) -> float:
    """Return about the deviations, a whole even number, beyond which a normal variable has so much mass."""
    return max(BEYOND, 2.0 * math.ceil(0.5 * math.sqrt(-2.0 * math.log(mass))))
