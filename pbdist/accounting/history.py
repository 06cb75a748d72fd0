"""What was done to the data: phases of equal steps, what they say about neighbours, and the round that they repeat."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from pbdist.arguments import MAX_COMPOSITIONS
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import Pair, adjacency_together, factor_counts

__all__ = ["Phase", "Round", "extended", "round_of"]


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


def extended(phases: tuple[Phase, ...], pair: Pair, count: int, field: str) -> tuple[Phase, ...]:
    """Return a history with a phase more, merged with the last one where their pairs are equal.

    Raises
    ------
    InvalidInputError
        Under the name `field`: there are too many steps, the pair is about other neighbours than the history, or it is
        the worst of several, of which no one pair dominates, in a sequence with others.
    """
    total = count + sum(phase.count for phase in phases)
    if total > MAX_COMPOSITIONS:
        raise InvalidInputError(f"{field}: expected at most 2^62 steps in all, got {total}")
    adjacency_together([*(phase.pair for phase in phases), pair], field)
    if phases and phases[-1].pair == pair:
        return (*phases[:-1], Phase(pair, phases[-1].count + count))
    for one in (*(phase.pair for phase in phases), pair) if phases else ():
        if one.sides is None:
            raise InvalidInputError(
                f"{field}: expected the worst of several pairs alone, got {_named(pair)} after"
                f" {_named(phases[-1].pair)}: which pair is followed in the one says nothing of the other"
            )
    return (*phases, Phase(pair, count))


def _named(pair: Pair) -> str:
    return type(pair).__name__
