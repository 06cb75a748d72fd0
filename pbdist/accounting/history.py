"""What was done to the data: phases of equal steps, what they say of neighbours, and the round that they repeat."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from pbdist.arguments import MAX_COMPOSITIONS
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import Adjacency, Pair, adjacency_together, factor_counts


@dataclass(frozen=True)
class Phase:
    """A pair, and how often in a row it was run."""

    pair: Pair
    count: int


@dataclass(frozen=True)
class Round:
    """A sequence of pairs that is run some times: the whole history, whatever the order of its steps was.

    Attributes
    ----------
    components : tuple of (Pair, int)
        The pairs, each once, in the order of their canonical forms; and how often each occurs in a round.
    repeats : int
        How often the round is run: the greatest common divisor of how often each pair was.
    """

    components: tuple[tuple[Pair, int], ...]
    repeats: int


def round_of(phases: Sequence[Phase]) -> Round | None:
    """Return the round that a history repeats; None for a history without steps.

    The losses of independent steps add up, so that their order does not matter: δ is that of the product distributions
    (Meiser & Mohammadi 2018, Corollary 1). Histories with the same steps have the same round.
    """
    if not phases:
        return None
    if len(phases) == 1 and phases[0].pair.several:
        return Round(((phases[0].pair, 1),), phases[0].count)
    counts = _counts(phases)
    repeats = math.gcd(*counts.values())
    parts: list[tuple[Pair, int]] = [(pair, count // repeats) for pair, count in counts.items()]
    if len(parts) > 1:
        parts.sort(key=lambda part: json.dumps(part[0].canonical(), sort_keys=True))
    return Round(tuple(parts), repeats)


def _counts(phases: Sequence[Phase]) -> dict[Pair, int]:
    """Return how often each pair was run: the factors of products one by one, what has two sides as a whole."""
    whole = [(one.pair, one.count) for one in phases if not one.pair.several]
    counts: dict[Pair, int] = dict(factor_counts(whole).items())
    for phase in phases:
        if phase.pair.several:
            counts[phase.pair] = counts.get(phase.pair, 0) + phase.count
    return counts


class History:
    """Phases in order, and beside them what each further step asks of all: to look through them takes time."""

    def __init__(self) -> None:
        self._phases: list[Phase] = []
        #: How many steps there are.
        self.steps = 0
        #: One pair of all those that say the same of neighbours.
        self._tellers: dict[object, Pair] = {}

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases; equal ones in a row are one."""
        return tuple(self._phases)

    @property
    def adjacency(self) -> Adjacency:
        """The neighbours that all pairs are about together, as `adjacency_together`."""
        return adjacency_together(list(self._tellers.values()), "Accountant")

    def copy(self) -> Self:
        """Return a history of the same phases that goes on by itself."""
        found = type(self)()
        found._phases, found.steps, found._tellers = [*self._phases], self.steps, {**self._tellers}
        return found

    def add(self, pair: Pair, count: int, field: str) -> None:
        """Add a phase, merged with the last one where their pairs are equal.

        Raises
        ------
        InvalidInputError
            Under the name `field`: there are too many steps, the pair is about other neighbours than the history, or it
            is the worst of several in a sequence with others. Nothing is added then.
        """
        total = count + self.steps
        if total > MAX_COMPOSITIONS:
            raise InvalidInputError(f"{field}: expected at most 2^62 steps in all, got {total}")
        last = self._phases[-1].pair if self._phases else None
        if last == pair:
            self._phases[-1] = Phase(pair, self._phases[-1].count + count)
        else:
            self._check_goes_with_others(pair, field)
            self._tellers.setdefault(_what_it_says(pair), pair)
            self._phases.append(Phase(pair, count))
        self.steps = total

    def _check_goes_with_others(self, pair: Pair, field: str) -> None:
        adjacency_together([*self._tellers.values(), pair], field)
        # The worst of several is the only phase, so that it is enough to look at the last one.
        for one in (self._phases[-1].pair, pair) if self._phases else ():
            if one.sides is None:
                raise InvalidInputError(
                    f"{field}: expected the worst of several pairs alone, got {_named(pair)} after"
                    f" {_named(self._phases[-1].pair)}: which pair is followed in the one says nothing of the other"
                )


def _what_it_says(pair: Pair) -> object:
    """Return what `adjacency_together` asks of a pair; the worst of several is asked itself."""
    if pair.alternatives != (pair,):
        return pair
    return pair.adjacency, tuple((type(one), one.adjacency, one.removal) for one in pair.factors)


def _named(pair: Pair) -> str:
    return type(pair).__name__
