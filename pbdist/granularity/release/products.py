"""What a change does to the analyses that it touches: a product of worst-case pairs, and whether it is attained."""

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

from pbdist.errors import InvalidInputError
from pbdist.granularity.group import group_pair, reversed_pair
from pbdist.granularity.notions import (
    Bounded,
    EdgeLevel,
    FreeLunch,
    GivenRelation,
    Granularity,
    NodeLevel,
    Unbounded,
    UserLevel,
)
from pbdist.granularity.release.declared import Analysis, Attained, Blocks, Memberships, Profile, Touch
from pbdist.mechanisms import ElementaryPair, Pair, PairCounts, Reversed
from pbdist.mechanisms.pair import at_least_as_noisy


@dataclass(frozen=True)
class TouchedPair:
    """The pair that a touched analysis follows, or is dominated by; None where its input does not tell.

    It is `exact` if it is the pair that is declared, or noise moved by exactly the sum of the shifts: a bound that
    follows from the declared pair is not attained, whatever is declared.
    """

    pair: Pair | None
    attained: Attained = "never"
    exact: bool = False


def touched_pair(
    analysis: Analysis, removed: int, added: int, granularity: Granularity, *, elsewhere: bool
) -> TouchedPair:
    """Return what so many records (or edges) less and so many more in the input of an analysis do to its outputs.

    The granularity is that of the release. `elsewhere` says whether there are records that the analysis does not read.
    A distance that is infinite or unknown in the granularity that the pair is declared for is refused.
    """
    found = _touched(analysis, removed, added, granularity, elsewhere=elsewhere)
    # Some neighbours of the declared relation attain it: they need not be neighbours of the release.
    other = isinstance(analysis.declared, FreeLunch) or isinstance(granularity, UserLevel | NodeLevel)
    if found.attained == "some" and other and analysis.declared != granularity:
        return replace(found, attained="never")
    return found


def _touched(analysis: Analysis, removed: int, added: int, granularity: Granularity, *, elsewhere: bool) -> TouchedPair:
    declared = analysis.declared
    whole = declared == granularity and isinstance(declared, UserLevel | NodeLevel)
    if whole or isinstance(declared, FreeLunch):
        # One step of what the pair is declared for.
        pair = reversed_pair(analysis.pair) if added and not removed else analysis.pair
        return TouchedPair(pair, analysis.attained, exact=True)
    if isinstance(granularity, FreeLunch):
        raise _not_known(analysis, granularity)
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
    unit = "EdgeLevel() or " if counts_edges(granularity) else "Unbounded() or "
    own = f"{granularity!r}, " if isinstance(granularity, NodeLevel | UserLevel) else ""
    wanted = "" if isinstance(granularity, FreeLunch) else own + unit
    return InvalidInputError(
        f"{analysis.name}.declared: expected a pair for {wanted}FreeLunch(), got one for {analysis.declared!r}, whose"
        f" distance between neighbours of {granularity!r} is infinite or not known"
    )


def counts_edges(granularity: Granularity) -> bool:
    """Whether what is removed and added are edges of a graph."""
    return isinstance(granularity, EdgeLevel | NodeLevel)


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
        common = "the common domain, which has no records that it does not read"
        domain = "its own domain" if analysis.domain == "own" else common
        raise InvalidInputError(
            f"{analysis.name}.declared: expected a pair that protects how many records it reads, got one for Bounded()"
            f" on {domain}, and a change with {removed} records less and {added} more (Example II.9):"
            " declare a pair for Unbounded(), or that the whole analysis is private on the common domain"
        )
    changes = max(removed, added)
    pair = group_pair(analysis.pair, changes, 0)
    follows = removed == added == 1 and pair.symmetric
    return TouchedPair(pair, analysis.attained if follows else "never", _is_exact(analysis.pair, pair, changes, 0))


#: The elementary pairs of a product, and how often each occurs.
Factors: TypeAlias = frozenset[tuple[ElementaryPair, int]]
#: Of more profiles than this, the dominated ones are left to the bounds.
_MAX_COMPARED = 200


@dataclass(frozen=True)
class Resolved:
    """A product of pairs that dominates what a change does to all analyses: how often each occurs in one release.

    It is `attained` if some neighbouring databases follow it exactly.
    """

    factors: Factors
    attained: bool


class Resolver:
    """Resolves the profiles of a release plan; each kind of touch once."""

    def __init__(self, granularity: Granularity, blocks: Blocks | None, analyses: Sequence[Analysis]) -> None:
        self._granularity, self._blocks = granularity, blocks
        self._analyses = {one.name: one for one in analyses}
        self._kinds = {one.name: replace(one, name="any", reads=None, repeats=1) for one in analyses}
        self._known: dict[tuple[object, ...], TouchedPair] = {}

    def resolve(self, profiles: Sequence[Profile]) -> list[Resolved]:
        """Return the products of profiles, each once; attained if one of the equal ones is."""
        found: dict[Factors, bool] = {}
        for profile in profiles:
            one = self.of_profile(profile)
            found[one.factors] = found.get(one.factors, False) or one.attained
        return [Resolved(factors, attained) for factors, attained in found.items()]

    def of_profile(self, profile: Profile) -> Resolved:
        """Return the product of a profile."""
        counts: Counter[ElementaryPair] = Counter()
        kinds: list[tuple[Analysis, Attained]] = []
        exact = True
        for touch in profile.touches:
            analysis = self._analyses[touch.analysis]
            touched = self.of_touch(analysis, touch)
            kinds.append((analysis, touched.attained))
            exact = exact and touched.exact
            for factor in () if touched.pair is None else touched.pair.factors:
                counts[_plain(factor)] += analysis.repeats
        informative = {factor: count for factor, count in counts.items() if not factor.neutral}
        attained = (profile.attained and exact) or (self._is_joint(profile) and _attained(kinds))
        return Resolved(frozenset(informative.items()), attained)

    def of_touch(self, analysis: Analysis, touch: Touch) -> TouchedPair:
        """Return the pair of one touch."""
        elsewhere = self._elsewhere(analysis)
        key = (self._kinds[analysis.name], touch.removed, touch.added, elsewhere)
        if key not in self._known:
            self._known[key] = touched_pair(
                analysis, touch.removed, touch.added, self._granularity, elsewhere=elsewhere
            )
        return self._known[key]

    def _elsewhere(self, analysis: Analysis) -> bool:
        """Whether there are records that an analysis does not read."""
        if analysis.reads is None or self._blocks is None:
            return False
        if isinstance(self._blocks, Memberships):
            return any(set(analysis.reads).isdisjoint(one) for one in self._blocks.sets)
        return not self._blocks.exhaustive or not set(self._blocks.blocks) <= set(analysis.reads)

    def _is_joint(self, profile: Profile) -> bool:
        """Whether one change certainly has all touches at once.

        Several records may be spread over blocks in other ways than an analysis of several blocks would need. Declared
        profiles tell it themselves.
        """
        if isinstance(self._granularity, GivenRelation):
            return False
        alone = len(profile.touches) == 1
        if alone or not isinstance(self._granularity, UserLevel | NodeLevel) or isinstance(self._blocks, Memberships):
            return True
        read = [self._analyses[touch.analysis].reads for touch in profile.touches]
        return all(one is not None and len(one) == 1 for one in read)


def _attained(kinds: Sequence[tuple[Analysis, Attained]]) -> bool:
    """Whether one change attains all pairs: each change does, but for one analysis, whose block is the only one.

    Where nothing else is touched, any change that attains it suffices: whatever else it touches reveals no less.
    """
    others = [analysis for analysis, attained in kinds if attained != "every"]
    if not others:
        return True
    chosen = others[0]
    if len(others) > 1 or next(attained for one, attained in kinds if one is chosen) != "some":
        return False
    if len(kinds) == 1:
        return True
    alone = [one.reads for one, _ in kinds if one.reads is not None]
    return chosen.reads is not None and len(chosen.reads) == 1 and all(reads == chosen.reads for reads in alone)


def without_reversed(found: Sequence[Resolved]) -> list[Resolved]:
    """Leave out the reverse of others: the larger of the two directions is the same."""
    remaining: dict[Factors, bool] = {}
    for one in found:
        back = frozenset(_reversed_counts(one.factors).items())
        key = back if back in remaining else one.factors
        remaining[key] = remaining.get(key, False) or one.attained
    return [Resolved(factors, attained) for factors, attained in remaining.items()]


def _reversed_counts(factors: Factors) -> PairCounts:
    counts: Counter[ElementaryPair] = Counter()
    for pair, count in factors:
        for factor in reversed_pair(pair).factors:
            counts[_plain(factor)] += count
    return counts


def _plain(factor: ElementaryPair) -> ElementaryPair:
    """Return a pair that is not reversed twice, nor at all where it is symmetric."""
    while isinstance(factor, Reversed):
        if factor.symmetric:
            factor = factor.pair
        elif isinstance(factor.pair, Reversed):
            factor = factor.pair.pair
        else:
            break
    return factor


def without_dominated(found: Sequence[Resolved]) -> list[Resolved]:
    """Leave out products that others provably dominate, factor by factor: Theorem 11 of docs/theory.md.

    More factors, or one with less noise, reveal at least as much.
    """
    found = _without_parts(found)
    if len(found) > _MAX_COMPARED:
        return list(found)
    remaining: list[Resolved] = []
    ordered = sorted(found, key=lambda one: -sum(count for _, count in one.factors))
    for one in ordered:
        if not any(
            (other.attained or not one.attained) and dominates(other.factors, one.factors) for other in remaining
        ):
            remaining = [
                other
                for other in remaining
                if not ((one.attained or not other.attained) and dominates(one.factors, other.factors))
            ]
            remaining.append(one)
    return remaining


def _without_parts(found: Sequence[Resolved]) -> list[Resolved]:
    """Leave out products that have one factor less than another."""
    parts: dict[Factors, bool] = {}
    for one in found:
        for factor, count in one.factors:
            rest = one.factors - {(factor, count)} | ({(factor, count - 1)} if count > 1 else set())
            parts[rest] = parts.get(rest, False) or one.attained
    return [one for one in found if one.factors not in parts or (one.attained and not parts[one.factors])]


def dominates(larger: Set[tuple[Pair, int]], smaller: Set[tuple[Pair, int]]) -> bool:
    """Whether each factor of the smaller product has one of the larger for itself that tells at least as much."""
    left, wanted = Counter(dict(larger)), Counter(dict(smaller))
    common = left & wanted
    left, wanted = left - common, wanted - common
    for factor, count in wanted.items():
        missing = count
        for other in left:
            if missing and left[other] and at_least_as_noisy(factor, other):
                taken = min(missing, left[other])
                left[other] -= taken
                missing -= taken
        if missing:
            return False
    return True
