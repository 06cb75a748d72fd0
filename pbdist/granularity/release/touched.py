"""What a change does to one analysis: the pair that dominates it, by the granularity that its pair is declared for."""

from dataclasses import dataclass

from pbdist.errors import InvalidInputError
from pbdist.granularity.notions import Bounded, EdgeLevel, FreeLunch, Granularity, NodeLevel, Unbounded, UserLevel
from pbdist.granularity.release.analysis import Analysis, Attained
from pbdist.granularity.release.group_pair import group_pair, reversed_pair
from pbdist.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Pair

__all__ = ["TouchedPair", "counts_edges", "touched_pair"]

_ADDING_UP = (Gaussian, Laplace, DiscreteGaussian, DiscreteLaplace)


@dataclass(frozen=True)
class TouchedPair:
    """The pair that a touched analysis follows, or is dominated by; None where its input does not tell.

    Attributes
    ----------
    pair : Pair or None
    attained : {"never", "some", "every"}
    followed : bool
        Whether a mechanism can follow the pair exactly: of a chain of changes the pair is in general only a bound.
    """

    pair: Pair | None
    attained: Attained = "never"
    followed: bool = True


def touched_pair(
    analysis: Analysis, removed: int, added: int, granularity: Granularity, *, elsewhere: bool
) -> TouchedPair:
    """Return what so many records less and so many more in the input of an analysis do to its outputs.

    Parameters
    ----------
    analysis : Analysis
    removed, added : int
        Records, or edges of a graph, of which at least one is there.
    granularity : Granularity
        Of the release.
    elsewhere : bool
        Whether there are records that the analysis does not read.

    Returns
    -------
    TouchedPair

    Raises
    ------
    InvalidInputError
        If the distance is infinite or unknown in the granularity that the pair is declared for.
    """
    declared = analysis.declared
    if declared == granularity and not isinstance(declared, Unbounded | Bounded | EdgeLevel):
        return _one_step(analysis, removed, added)
    if isinstance(declared, FreeLunch):
        return _one_step(analysis, removed, added)
    if isinstance(declared, EdgeLevel if counts_edges(granularity) else Unbounded):
        return _of_removals(analysis, removed, added)
    if isinstance(declared, Bounded) and not counts_edges(granularity):
        return _of_changes(analysis, removed, added, elsewhere=elsewhere)
    raise InvalidInputError(
        f"{analysis.name}.declared: expected a pair for {_alternatives(granularity)}, got one for {declared!r}, whose"
        f" distance between neighbours of {granularity!r} is infinite or not known"
    )


def counts_edges(granularity: Granularity) -> bool:
    """Whether what is removed and added are edges of a graph."""
    return isinstance(granularity, EdgeLevel | NodeLevel)


def _alternatives(granularity: Granularity) -> str:
    unit = "EdgeLevel()" if counts_edges(granularity) else "Unbounded()"
    own = f"{granularity!r}, " if isinstance(granularity, NodeLevel | UserLevel) else ""
    return f"{own}{unit} or FreeLunch()"


def _one_step(analysis: Analysis, removed: int, added: int) -> TouchedPair:
    """One step of the granularity that the pair is declared for: the pair, or its reverse where records are added."""
    pair = reversed_pair(analysis.pair) if added and not removed else analysis.pair
    return TouchedPair(pair, analysis.attained)


def _of_removals(analysis: Analysis, removed: int, added: int) -> TouchedPair:
    """A pair for one removal: with a pair for a changed record, or by group privacy."""
    attained = analysis.attained
    if removed == added and analysis.replaced is not None:
        if analysis.replaced == "unchanged":
            return TouchedPair(None, "every")
        pair = group_pair(analysis.replaced, removed, 0)
        return TouchedPair(
            pair, attained if removed == 1 else "never", removed == 1 or _is_moved(analysis.replaced, pair)
        )
    if removed and added and analysis.replaced == "unchanged":
        # Changed records tell nothing; the difference of the sizes is left.
        same = min(removed, added)
        return _of_removals(analysis, removed - same, added - same)
    pair = group_pair(analysis.pair, removed, added)
    if removed + added == 1:
        return TouchedPair(pair, attained)
    moved = _is_moved(analysis.pair, pair)
    # Removals of "every" record have the same shift, and add up.
    adding_up = moved and attained == "every" and not (removed and added)
    return TouchedPair(pair, "every" if adding_up else "never", moved)


def _is_moved(step: Pair, chain: Pair) -> bool:
    """Whether the pair of a chain is that of a larger shift."""
    return isinstance(chain, _ADDING_UP) and type(chain) is type(step)


def _of_changes(analysis: Analysis, removed: int, added: int, *, elsewhere: bool) -> TouchedPair:
    r"""A pair for one changed record. On the common domain the others are filled up with records that are not read.

    Corollary IV.15, sharpened: max(|A \ B|, |B \ A|) changes lead from f(D) to f(D').
    """
    if removed != added and (analysis.domain == "own" or not elsewhere):
        raise InvalidInputError(
            f"{analysis.name}.declared: expected a pair that protects how many records it reads, got one for Bounded()"
            f" on its own domain, and a change with {removed} records less and {added} more (Example II.9): declare a"
            " pair for Unbounded(), or that the whole analysis is private on the common domain"
        )
    pair = group_pair(analysis.pair, max(removed, added), 0)
    one = max(removed, added) == 1
    exact = one and removed == added and pair.symmetric
    return TouchedPair(pair, analysis.attained if exact else "never", one or _is_moved(analysis.pair, pair))
