"""Kinds of blocks that need not be looked at, as enough others tell at least as much.

A change touches at most n blocks. Let n other blocks each dominate block b: the analyses that read them alone tell at
least as much as those of b, whatever a change does to it, and all other analyses read them where they read b. A profile
that touches b leaves one of these untouched, for b itself is one of its n at most; with that in the place of b it tells
at least as much. So b may be left out, and so on: the blocks that remain are enough.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

from pbdist.granularity.release.analysis import Analysis
from pbdist.granularity.release.resolved import dominates
from pbdist.mechanisms import Pair
from pbdist.mechanisms.pair import noise_order

#: For each way to use pairs, how often each pair is used so: for one record more or less, and for a changed record.
_Told: TypeAlias = Mapping[Hashable, tuple[Counter[Pair], Counter[Pair]]]


def strongest(
    alone: Sequence[Sequence[Analysis]], sizes: Sequence[int], wide: Sequence[frozenset[str]], *, touched: int
) -> list[int]:
    """Return the numbers of the kinds of blocks that are enough.

    Pairs are compared as declared. What a chain of changes does follows: the more a step tells, the more the chain.

    Parameters
    ----------
    alone : sequence of sequences of Analysis
        For each kind, the analyses that read a block of it alone.
    sizes : sequence of int
        How many blocks of each kind there are.
    wide : sequence of frozenset
        For each kind, the other analyses that read its blocks.
    touched : int
        How many blocks a change touches at most, n.
    """
    told = [_told(one) for one in alone]
    order = sorted(range(len(told)), key=lambda index: _noise(alone[index]))
    kept: list[int] = []
    for index in order:
        missing = touched
        for other in kept:
            if missing > 0 and wide[other] == wide[index] and _tells_more(told[other], told[index]):
                missing -= sizes[other]
        if missing > 0:
            kept.append(index)
    return sorted(kept)


def _told(analyses: Sequence[Analysis]) -> _Told:
    found: dict[Hashable, tuple[Counter[Pair], Counter[Pair]]] = {}
    for one in analyses:
        replaced = one.replaced if isinstance(one.replaced, Pair) else None
        use = (one.declared, one.domain, one.attained, one.replaced if replaced is None else "pair")
        pairs, changed = found.setdefault(use, (Counter(), Counter()))
        pairs[one.pair] += one.repeats
        if replaced is not None:
            changed[replaced] += one.repeats
    return found


def _tells_more(more: _Told, less: _Told) -> bool:
    """Whether for each use the pairs of one block dominate those of another."""
    if more.keys() != less.keys():
        return False
    return all(
        dominates(frozenset(larger.items()), frozenset(smaller.items()))
        for use, both in less.items()
        for larger, smaller in zip(more[use], both, strict=True)
    )


def _noise(analyses: Sequence[Analysis]) -> float:
    """Less noise first, where it is known: nothing rests on the order but how soon others are found dominated."""
    orders = [noise_order(one.pair) for one in analyses]
    return sum(float(sum(order.amounts)) for order in orders if order is not None)
