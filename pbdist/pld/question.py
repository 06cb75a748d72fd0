"""The question that a table of bounds answers, with rough profiles of a round's losses. Nothing here is a bound."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pbdist.mechanisms import BEYOND, ElementaryPair, PairCounts
from pbdist.pld.loss_profile import ROUGH_TILTS, Exponents, LossProfile, SaddlePoints, loss_profile, summed_moments
from pbdist.pld.loss_transform import Lines, Rounds
from pbdist.types import Direction, FloatArray, IntArray

#: Part of the tolerance, at the floor, that windows may take.
_WINDOW_FRACTION = 0.1
#: Part of the tolerance that may be left open where lower bounds are known.
_OPEN_FRACTION = 0.1
#: Up to here, nats, a single ε is rounded up for profiles; the mass they leave out is rounded down to powers of this.
_ROUNDED, _COARSE = 256.0, 256.0
#: Part of the floor that profiles show.
_SHOWN_FRACTION = 1e-6

#: Logarithms of lower and upper bounds on δ at some ε.
Reader = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


def largest_of(readers: Sequence[Reader], epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound the largest of several ln δ."""
    if len(readers) == 1:
        return readers[0](epsilon)
    lower, upper = (np.max(each, axis=0) for each in zip(*(reader(epsilon) for reader in readers), strict=True))
    return lower, upper


@dataclass(frozen=True, eq=False)
class Shared:
    """Caches shared by all questions about the same pairs, number of rounds and δ."""

    #: Profiles of pairs, by the losses up to which they are seen, the deviations beyond, and whether they are rough.
    profiles: dict[tuple[ElementaryPair, float, float, float, bool], LossProfile] = field(default_factory=dict)
    #: All pairs as a question sees them, and the cumulants of a round.
    seen: dict[Any, list[tuple[LossProfile, int]]] = field(default_factory=dict)
    exponents: dict[Any, Exponents] = field(default_factory=dict)
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
    #: Whether profiles also show losses that are too rare to matter, and whether they are the roughest.
    whole: bool = False
    rough: bool = False
    #: About how steeply ln δ falls at the ε, at most, a nat; 0 where that is not known.
    steepness: float = 0.0
    #: Shared with all questions that are made from this one.
    shared: Shared = field(default_factory=Shared, repr=False)
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
    def _view(self) -> tuple[float, float, int, float, float, bool, bool]:
        """What decides how losses are seen: both ends of ε, the largest r, the mass that a round may lose, and so on.

        A single ε and that mass are rounded, so that nearby questions share their profiles.
        """
        one, leaves = self.epsilon.size == 1, self.top * self.leaves
        least, largest = (float(self.epsilon[0]),) * 2 if one else (float(self.epsilon.min()), self.largest)
        lost, shown = self.lost / leaves, _SHOWN_FRACTION * max(self.floor, 1e-290) / leaves
        if self.rounds.size == self.epsilon.size == 1 and 0.0 < largest <= _ROUNDED:
            largest = 2.0 ** (2 + 3 * math.ceil((math.log2(largest) - 2.0) / 3.0))
            least, lost = largest / 8.0, _COARSE ** math.floor(math.log(lost, _COARSE))
        # About the deviations, a whole even number, beyond which a normal variable has so much mass.
        beyond = max(BEYOND, 2.0 * math.ceil(0.5 * math.sqrt(-2.0 * math.log(shown))))
        return least, largest, self.top, lost, beyond, self.whole, self.rough

    @cached_property
    def profiles(self) -> list[tuple[LossProfile, int]]:
        """The losses of each pair, usual ones of many rounds and rare ones of one; and how often it occurs."""
        if self._view not in self.shared.seen:
            _, largest, _, lost, beyond, whole, rough = self._view
            usual, rare, known = largest / (self.top * self.leaves), largest / self.leaves, self.shared.profiles
            for pair in self.counts:
                if (pair, usual, rare, beyond, rough) not in known:
                    known[pair, usual, rare, beyond, rough] = loss_profile(pair, usual, rare, beyond, rough=rough)
            found = ((known[pair, usual, rare, beyond, rough], count) for pair, count in self.counts.items())
            self.shared.seen[self._view] = [
                (profile if whole else profile.seen(lost), count) for profile, count in found
            ]
        return self.shared.seen[self._view]

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
        known, key = self.shared.exponents, (direction, self._view, float(self.rounds.min()))
        if key not in known:
            least, largest, *_ = self._view
            known[key] = Exponents(self.profiles, direction, (least / self.top, largest / float(self.rounds.min())))
        return known[key]

    def rough_epsilon(self, direction: Direction, log_delta: float) -> tuple[float, float]:
        """About the ε that meets δ after the most rounds, and the slope of ln δ there, by a few tilts."""
        tilts = ROUGH_TILTS if direction is Direction.A_TO_B else -1.0 - ROUGH_TILTS
        k, _, variance, _ = self.top * summed_moments(self.profiles, tilts)
        tail = np.log1p(ROUGH_TILTS * (1.0 + ROUGH_TILTS) * np.sqrt(2.0 * math.pi * variance))
        found = (k - tail - log_delta) / ROUGH_TILTS
        best = int(np.argmin(found))
        return float(found[best]), -float(ROUGH_TILTS[best])

    def mean_deviations(self) -> float:
        """About by how many deviations the mean loss in some direction exceeds the only ε."""
        _, means, variances, _ = self.top * summed_moments(self.profiles, np.array([0.0, -1.0]))
        above = means * np.array([1.0, -1.0]) - self.epsilon
        return float((above / np.sqrt(variances + 1e-280)).max())

    def saddle_points(self, direction: Direction, rounds: int) -> SaddlePoints:
        """Those of every ε after a number of rounds."""
        key = direction, rounds
        if key not in self._saddles:
            self._saddles[key] = self.exponents(direction).saddle_points(rounds, self.epsilon)
        return self._saddles[key]
