"""A table of bounds from one ladder: every r, every ε, both directions."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pbdist.mechanisms import ElementaryPair
from pbdist.pld.choice import MOST_PLACES, Chosen, chosen_lattices, chosen_spacings
from pbdist.pld.ladder import powers, product_of
from pbdist.pld.leaf import leaf_state
from pbdist.pld.question import Question
from pbdist.pld.reading import LARGEST_EPSILON, lower_deltas, upper_deltas
from pbdist.pld.state import PairState
from pbdist.types import Direction, FloatArray, IntArray

__all__ = ["MOST_LEAVES", "MOST_PAIRS", "LadderBounds", "climbed", "ladder_bounds", "serves"]

#: Leaves of all rounds, at most: what is lost to underflow is bounded for so many.
MOST_LEAVES = 1 << 40
#: The same of losses that are no multiples of one number: more take very long.
_MOST_IRREGULAR = 1 << 32

#: How often a ladder is climbed for a table.
_CLIMBS = 4
#: Different pairs of a round, and its leaves, at most.
MOST_PAIRS = 6
#: Places of the first climb, at most; of each further one eight times as many.
_FIRST_PLACES = 1 << 18
#: By how much the spacing shrinks at least and at most.
_LEAST, _MOST = 0.75, 0.1
#: No far part need be finer than for such a bracket.
_FINEST = 1e-9
#: A bracket that is no smaller than this part of the one before will not become small.
_HOPELESS = 0.85
#: Part of the tolerance that is aimed at, when it was missed.
_AIM = 0.7


@dataclass(frozen=True, eq=False)
class LadderBounds:
    """Bounds on δ.

    Attributes
    ----------
    lower, upper : ndarray, shape (2, R, E)
        First axis: A||B, B||A. Lower bounds of a direction that was not asked for are 0.
    spacing : float
        The smallest spacing that was used, nats.
    """

    lower: FloatArray
    upper: FloatArray
    spacing: float


def serves(question: Question) -> bool:
    """Whether a ladder can be climbed for what is asked."""
    most = MOST_LEAVES if question.lattice > 0.0 else _MOST_IRREGULAR
    leaves = question.top * question.leaves
    return len(question.counts) <= MOST_PAIRS and leaves <= most and question.largest <= LARGEST_EPSILON


def ladder_bounds(question: Question, rows: Sequence[int], *, climbs: int = _CLIMBS) -> LadderBounds | None:
    """Bound δ for some r and every ε, or tell by None that the ladder does not serve.

    Parameters
    ----------
    question : Question
    rows : sequence of int
        Places of the r.
    climbs : int, optional
        How often a ladder is climbed at most.
    """
    if not serves(question):
        return None
    rounds, tolerance, floor = question.rounds[list(rows)], question.tolerance, question.floor
    symmetric, together = question.symmetric, question.together
    table = _Table(question.counts, rounds, question.epsilon, symmetric=symmetric)
    spacings = chosen_spacings(question, rounds)
    directions = tuple(Direction) if not (together or symmetric) else (Direction.A_TO_B,)
    used, scale = math.inf, 1.0
    before: FloatArray | float = math.inf
    chosen_rows = np.arange(rounds.size)
    for climb in range(climbs):
        top = int(np.max(rounds[chosen_rows]))
        chosen = chosen_lattices(
            question.profiles,
            top,
            question.largest,
            spacings,
            # Of the far part as much finer as of the core.
            tolerance=max(tolerance * scale**2, _FINEST),
            floor=floor,
            most=min(_FIRST_PLACES << 3 * climb, MOST_PLACES),
        )
        if chosen is None:
            break
        used = min(used, chosen.lattices[0].spacing)
        if not table.climb(chosen, directions, chosen_rows):
            break
        brackets = table.brackets(floor, directions, together=together)
        if together and not symmetric and len(directions) == 1 and table.other_matters(floor, tolerance):
            directions = tuple(Direction)
            before = math.inf
        elif question.lattice > 0.0:
            break
        # What has not become better will not.
        hopeful = (brackets > tolerance) & (brackets < _HOPELESS * before)
        if not hopeful.any():
            break
        factor = min(max(math.sqrt(_AIM * tolerance / float(np.max(brackets[hopeful]))), _MOST), _LEAST)
        spacings, scale = spacings * factor, scale * factor
        before = brackets
        # Of both directions each has its own.
        chosen_rows = np.flatnonzero(hopeful.reshape(-1, rounds.size, question.epsilon.size).any(axis=(0, 2)))
    if math.isinf(used):
        return None
    return LadderBounds(table.lower, table.upper, used)


class _Table:
    """The best bounds so far."""

    def __init__(
        self,
        counts: Mapping[ElementaryPair, int],
        rounds: IntArray,
        epsilon: FloatArray,
        *,
        symmetric: bool,
    ) -> None:
        self._counts, self._rounds, self._epsilon = counts, rounds, epsilon
        self._symmetric = symmetric
        shape = (2, rounds.size, epsilon.size)
        self.lower, self.upper = np.zeros(shape), np.ones(shape)

    def climb(self, chosen: Chosen, directions: Sequence[Direction], rows: IntArray) -> bool:
        """Compute the powers of some rows, and keep what is better than before; whether there is anything."""
        told = False
        for r, power in climbed(self._counts, chosen, self._rounds[rows].tolist(), directions):
            told = True
            for row in np.flatnonzero(self._rounds == r).tolist():
                for axis, direction in enumerate(Direction):
                    if self._symmetric and axis == 1:
                        self.lower[1], self.upper[1] = self.lower[0], self.upper[0]
                        continue
                    upper = upper_deltas(power, self._epsilon, direction)
                    np.minimum(self.upper[axis, row], upper, out=self.upper[axis, row])
                    if direction in directions:
                        lower = lower_deltas(power, self._epsilon, direction)
                        np.maximum(self.lower[axis, row], lower, out=self.lower[axis, row])
        return told

    def brackets(self, floor: float, directions: Sequence[Direction], *, together: bool) -> FloatArray:
        """Return upper / lower - 1 at each point, 0 where it is below the floor and 10^300 where nothing is known."""
        lower, upper = self.lower, self.upper
        if together:
            lower, upper = np.max(lower, axis=0), np.max(upper, axis=0)
        elif len(directions) == 1:
            lower, upper = lower[0], upper[0]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            result = np.where((upper > floor) & (upper > lower), upper / lower - 1.0, 0.0)
        return np.asarray(np.minimum(result, 1e300))

    def other_matters(self, floor: float, tolerance: float) -> bool:
        """Whether B||A may be the larger direction somewhere."""
        return bool(np.any((self.upper[1] > floor) & (self.upper[1] > (1.0 + 0.9 * tolerance) * self.lower[0])))


def climbed(
    counts: Mapping[ElementaryPair, int], chosen: Chosen, rounds: Sequence[int], directions: Sequence[Direction]
) -> Iterator[tuple[int, PairState]]:
    """Yield the state of each number of rounds, in increasing order."""
    top = max(rounds)
    limits = replace(chosen.limits, floor=chosen.limits.floor / top, added=chosen.limits.added / top, coarsens=1 << 62)
    states: list[PairState] = []
    for (pair, count), lattice in zip(counts.items(), chosen.lattices, strict=True):
        leaf = leaf_state(pair.scaled_loss_masses(lattice.edges), lattice, directions)
        states += [power for _, power in powers(leaf, [count], limits)] if count > 1 else [leaf]
    if len(states) < len(counts):
        return
    yield from powers(product_of(states, limits), rounds, chosen.limits)
