"""What a change does to one analysis: the pair that dominates it, by the granularity that its pair is declared for."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from pbdist.errors import InvalidInputError
from pbdist.granularity.notions import Bounded, EdgeLevel, FreeLunch, Granularity, NodeLevel, Unbounded, UserLevel
from pbdist.granularity.release.analysis import Analysis, Attained
from pbdist.granularity.release.group_pair import group_pair, reversed_pair
from pbdist.mechanisms import ElementaryPair, Pair


@dataclass(frozen=True)
class TouchedPair:
    """The pair that a touched analysis follows, or is dominated by; None where its input does not tell.

    Attributes
    ----------
    pair : Pair or None
    attained : {"never", "some", "every"}
    exact : bool
        Whether it is the pair that is declared, or noise moved by exactly the sum of the shifts: a bound that follows
        from the declared pair is not attained, whatever is declared.
    """

    pair: Pair | None
    attained: Attained = "never"
    exact: bool = False


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
    found = _touched(analysis, removed, added, granularity, elsewhere=elsewhere)
    # Some neighbours of the declared relation attain it: they need not be neighbours of the release.
    other = isinstance(analysis.declared, FreeLunch) or isinstance(granularity, UserLevel | NodeLevel)
    if found.attained == "some" and other and analysis.declared != granularity:
        return replace(found, attained="never")
    return found


def _touched(analysis: Analysis, removed: int, added: int, granularity: Granularity, *, elsewhere: bool) -> TouchedPair:
    declared = analysis.declared
    if isinstance(declared, FreeLunch):
        return _one_step(analysis, removed, added)
    if isinstance(granularity, FreeLunch):
        raise _not_known(analysis, granularity)
    if declared == granularity and isinstance(declared, UserLevel | NodeLevel):
        return _one_step(analysis, removed, added)
    if declared == granularity and not isinstance(declared, Unbounded | Bounded | EdgeLevel):
        pair = group_pair(analysis.pair, removed, added)
        exact = _is_exact(analysis.pair, pair, removed, added)
        return TouchedPair(pair, analysis.attained if removed + added == 1 else "never", exact)
    if isinstance(declared, EdgeLevel if counts_edges(granularity) else Unbounded):
        return _of_removals(analysis, removed, added)
    if isinstance(declared, Bounded) and not counts_edges(granularity):
        return _of_changes(analysis, removed, added, elsewhere=elsewhere)
    raise _not_known(analysis, granularity)


def _not_known(analysis: Analysis, granularity: Granularity) -> InvalidInputError:
    return InvalidInputError(
        f"{analysis.name}.declared: expected a pair for {_alternatives(granularity)}, got one for"
        f" {analysis.declared!r}, whose distance between neighbours of {granularity!r} is infinite or not known"
    )


def counts_edges(granularity: Granularity) -> bool:
    """Whether what is removed and added are edges of a graph."""
    return isinstance(granularity, EdgeLevel | NodeLevel)


def _alternatives(granularity: Granularity) -> str:
    if isinstance(granularity, FreeLunch):
        return "FreeLunch()"
    unit = "EdgeLevel()" if counts_edges(granularity) else "Unbounded()"
    own = f"{granularity!r}, " if isinstance(granularity, NodeLevel | UserLevel) else ""
    return f"{own}{unit} or FreeLunch()"


def _one_step(analysis: Analysis, removed: int, added: int) -> TouchedPair:
    """One step of the granularity that the pair is declared for: the pair, or its reverse where records are added."""
    pair = reversed_pair(analysis.pair) if added and not removed else analysis.pair
    return TouchedPair(pair, analysis.attained, exact=True)


def _is_exact(single: Pair, pair: Pair, removed: int, added: int) -> bool:
    """Whether a pair for some removals and additions is what they do where their shifts add up, without rounding."""
    if removed + added == 1:
        return True
    if not isinstance(single, ElementaryPair) or single.moved(removed + added) != pair:
        return False
    first: Any = single
    second: Any = pair
    return Fraction(second.sensitivity) == (removed + added) * Fraction(first.sensitivity)


def _of_removals(analysis: Analysis, removed: int, added: int) -> TouchedPair:
    """A pair for one removal: with a pair for a changed record, or by group privacy."""
    attained = analysis.attained
    if removed == added and analysis.replaced is not None:
        if analysis.replaced == "unchanged":
            return TouchedPair(None, "every", exact=True)
        pair = group_pair(analysis.replaced, removed, 0)
        follows = removed == 1 and pair.symmetric
        return TouchedPair(pair, attained if follows else "never", _is_exact(analysis.replaced, pair, removed, 0))
    if removed and added and analysis.replaced == "unchanged":
        # Changed records tell nothing; the difference of the sizes is left.
        same = min(removed, added)
        return _of_removals(analysis, removed - same, added - same)
    pair = group_pair(analysis.pair, removed, added)
    exact = _is_exact(analysis.pair, pair, removed, added)
    if removed + added > 1:
        # Removals of "every" record have the same shift, and add up where the noise is symmetric and log-concave.
        attained = "every" if exact and not (removed and added) and attained == "every" else "never"
    return TouchedPair(pair, attained, exact)


def _of_changes(analysis: Analysis, removed: int, added: int, *, elsewhere: bool) -> TouchedPair:
    r"""A pair for one changed record. On the common domain the others are filled up with records that are not read.

    Corollary IV.15, sharpened: max(|A \ B|, |B \ A|) changes lead from f(D) to f(D').
    """
    if removed != added and (analysis.domain == "own" or not elsewhere):
        raise InvalidInputError(
            f"{analysis.name}.declared: expected a pair that protects how many records it reads, got one for Bounded()"
            f" on {_domain(analysis)}, and a change with {removed} records less and {added} more (Example II.9):"
            " declare a pair for Unbounded(), or that the whole analysis is private on the common domain"
        )
    changes = max(removed, added)
    pair = group_pair(analysis.pair, changes, 0)
    follows = removed == added == 1 and pair.symmetric
    return TouchedPair(pair, analysis.attained if follows else "never", _is_exact(analysis.pair, pair, changes, 0))


def _domain(analysis: Analysis) -> str:
    return (
        "its own domain"
        if analysis.domain == "own"
        else "the common domain, which has no records that it does not read"
    )
