"""Profiles as what they are to the bounds: worst-case pairs, how often each occurs, and whether they are attained."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeAlias

from pbdist.granularity.notions import GivenMetric, GivenRelation, Granularity, NodeLevel, UserLevel
from pbdist.granularity.release.analysis import Analysis, Attained
from pbdist.granularity.release.blocks import Blocks, Memberships
from pbdist.granularity.release.changes import Profile, Touch
from pbdist.granularity.release.group_pair import reversed_pair
from pbdist.granularity.release.touched import TouchedPair, touched_pair
from pbdist.mechanisms import ElementaryPair, Pair, Reversed
from pbdist.mechanisms.pair import at_least_as_noisy

#: The elementary pairs of a product, and how often each occurs.
Factors: TypeAlias = frozenset[tuple[ElementaryPair, int]]
#: Of more profiles than this, the dominated ones are left to the bounds.
_MOST_COMPARED = 200


@dataclass(frozen=True)
class Resolved:
    """A product of pairs that dominates what a change does to all analyses.

    Attributes
    ----------
    factors : frozenset of (ElementaryPair, int)
        How often each occurs in one release; none where nothing tells.
    attained : bool
        Whether some neighbouring databases follow it exactly.
    """

    factors: Factors
    attained: bool


class Resolver:
    """Resolves the profiles of a release plan; each kind of touch once."""

    def __init__(self, granularity: Granularity, blocks: Blocks | None, analyses: Sequence[Analysis]) -> None:
        self._granularity, self._blocks = granularity, blocks
        self._analyses = {one.name: one for one in analyses}
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
        telling = {factor: count for factor, count in counts.items() if not factor.neutral}
        attained = (profile.attained and exact) or (self._is_joint(profile) and _attained(kinds))
        return Resolved(frozenset(telling.items()), attained)

    def of_touch(self, analysis: Analysis, touch: Touch) -> TouchedPair:
        """Return the pair of one touch."""
        elsewhere = self._elsewhere(analysis)
        key = (
            analysis.pair,
            analysis.declared,
            analysis.domain,
            analysis.replaced,
            analysis.attained,
            touch.removed,
            touch.added,
            elsewhere,
        )
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
        if isinstance(self._granularity, GivenRelation | GivenMetric):
            return False
        alone = len(profile.touches) == 1
        if alone or not isinstance(self._granularity, UserLevel | NodeLevel) or isinstance(self._blocks, Memberships):
            return True
        read = [self._analyses[touch.analysis].reads for touch in profile.touches]
        return all(one is not None and len(one) == 1 for one in read)


def _attained(kinds: Sequence[tuple[Analysis, Attained]]) -> bool:
    """Whether one change attains all pairs: each change does, but for one analysis, whose block is the only one.

    Where nothing else is touched, any change that attains it will do: what else it may touch tells no less.
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
    kept: dict[Factors, bool] = {}
    for one in found:
        back = frozenset(_reversed_counts(one.factors).items())
        key = back if back in kept else one.factors
        kept[key] = kept.get(key, False) or one.attained
    return [Resolved(factors, attained) for factors, attained in kept.items()]


def _reversed_counts(factors: Factors) -> Mapping[ElementaryPair, int]:
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

    More factors, or one with less noise, tell at least as much.
    """
    found = _without_parts(found)
    if len(found) > _MOST_COMPARED:
        return list(found)
    kept: list[Resolved] = []
    ordered = sorted(found, key=lambda one: -sum(count for _, count in one.factors))
    for one in ordered:
        if not any((other.attained or not one.attained) and dominates(other.factors, one.factors) for other in kept):
            kept = [
                other
                for other in kept
                if not ((one.attained or not other.attained) and dominates(one.factors, other.factors))
            ]
            kept.append(one)
    return kept


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
