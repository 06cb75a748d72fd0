"""What privacy on the common domain becomes where a mechanism reads only f(D) (Guerra-Balboa et al. 2024, IV-D).

Theorem IV.10 and, corrected, A.12; the results are private* only, but for the closed form of IV.15, which is a metric.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.distances import computed, like
from pbdist.granularity.multisets import Multiset, one_sided
from pbdist.granularity.spaces import Database, DatabaseClass, DatabaseMap, Metric, StarDistance
from pbdist.granularity.statements import ApproximatePrivacy, OnTheCommonDomain, Statement
from pbdist.granularity.universes import Multisets
from pbdist.granularity.upward import Amount

_Weight: TypeAlias = Callable[[Database, Database], tuple[Amount, Amount]]


def depends_only_on(mechanism: Mapping[Database, Mapping[Hashable, Any]], reads: DatabaseMap) -> bool:
    """Return whether a mechanism is f-dependent (Definition IV.8): f(D) = f(D') implies the same output distribution.

    Parameters
    ----------
    mechanism : mapping
        For each database of the listed domain of f, the probabilities of the outputs; those of 0 may be left out.
    reads : DatabaseMap
        f.

    Raises
    ------
    InvalidInputError
        If the domain is not listed, or a database has no distribution.
    """
    seen: dict[Hashable, dict[Hashable, Any]] = {}
    for database in reads.domain.listed(f"dependency on {reads.name}"):
        if database not in mechanism:
            raise InvalidInputError(f"mechanism: expected a distribution for each database, got none for {database}")
        distribution = {output: mass for output, mass in mechanism[database].items() if mass}
        if seen.setdefault(reads(database), distribution) != distribution:
            return False
    return True


@dataclass(frozen=True, eq=False)
class _Fibres:
    """The databases of a listed class by their f(D), and the best pair of each two values of f, found when asked."""

    reads: DatabaseMap
    databases: dict[Hashable, list[Hashable]]
    weight: _Weight
    found: dict[tuple[Hashable, Hashable], tuple[Amount, Amount]]

    def least(self, first: Database, second: Database) -> tuple[Amount, Amount]:
        """Return the least weight of databases that look like the first and like the second."""
        pair = self.reads(first), self.reads(second)
        for image, one in zip(pair, (first, second), strict=True):
            if image not in self.databases:
                raise InvalidInputError(f"database: expected one of {self.reads.domain.name}, got {shown(one)}")
        if pair not in self.found:
            here, there = (self.databases[image] for image in pair)
            self.found[pair] = min(self.weight(one, other) for one in here for other in there)
        return self.found[pair]


def _least(reads: DatabaseMap, weight: _Weight) -> _Weight:
    """Return what is known of pairs that look the same; of a class that is not listed, each pair by itself."""

    def apart(first: Database, second: Database) -> tuple[Amount, Amount]:
        return (0, 0) if reads(first) == reads(second) else weight(first, second)

    if reads.domain.databases is None:
        return apart
    databases: dict[Hashable, list[Hashable]] = {}
    for database in reads.domain.databases:
        image = reads(database)
        try:
            databases.setdefault(image, []).append(database)
        except TypeError as error:
            raise InvalidInputError(f"{reads.name}: expected values that can be hashed: {error}") from error
    return _Fibres(reads, databases, apart, {}).least


def minimum_privacy(stated: OnTheCommonDomain) -> Statement:
    """Return the minimum privacy of a mechanism that depends on f(D) alone.

    d^f(D, D') is the least d(D~, D~') of databases with f(D~) = f(D) and f(D~') = f(D') (Proposition IV.10; A.14 for
    zero-concentrated privacy, and the same proof for Gaussian). For approximate privacy δ^f(D, D') is the least δ of
    those *same* pairs that attain d^f: Proposition A.12 leaves out that they must look like D and D', without which it
    is false. Nothing is lost between databases that look the same.

    Parameters
    ----------
    stated : OnTheCommonDomain
        The privacy of the whole mechanism over 𝔻, and f. Where 𝔻 is not listed, d(D, D') stands for d^f(D, D') if f(D)
        and f(D') differ: it is not below it.

    Returns
    -------
    PurePrivacy, ApproximatePrivacy, ZeroConcentratedPrivacy or GaussianPrivacy
        Of the same kind, private* only: the triangle inequality may fail.
    """
    privacy, reads = stated.privacy, stated.depends_on
    function = computed(privacy.distance)
    delta = privacy.delta if isinstance(privacy, ApproximatePrivacy) else None
    least = _least(reads, lambda first, second: (function(first, second), 0 if delta is None else delta(first, second)))
    name = f"{privacy.distance.name} given {reads.name}"
    distance = like(privacy.distance, reads.domain, lambda a, b: least(a, b)[0], name, starred=True)
    if not isinstance(privacy, ApproximatePrivacy):
        return type(privacy)(distance)
    lost = like(privacy.delta, reads.domain, lambda a, b: least(a, b)[1], f"δ given {reads.name}", starred=True)
    return ApproximatePrivacy(distance, cast(StarDistance, lost))


def bounded_minimum_metric(
    domain: DatabaseClass, kept: Callable[[Any], bool], other: Hashable, name: str = "d of bounded given a part"
) -> Metric:
    r"""Return the minimum privacy of bounded DP for a mechanism that reads only the records of 𝒴 ⊊ 𝒳, in closed form.

    With A = D ∩ 𝒴 and B = D' ∩ 𝒴 it is max(|A \ B|, |B \ A|), where Corollary IV.15 has min(d^ℬ(D, D'), |A △ B|), which
    is never smaller. It is exact, and a metric (docs/granularity-notions.md, section 6), so that it may be used where
    one is needed. ε times it is the privacy of a bounded ε-DP mechanism.

    Parameters
    ----------
    domain : DatabaseClass
        `Multisets`, of any size or of a fixed one.
    kept : callable
        Whether a record is in 𝒴.
    other : record
        One of 𝒳 that is not in 𝒴. Where there is none the closed form is false.
    name : str, optional
        Told in errors.

    Raises
    ------
    InvalidInputError
        If the class is another one, or `other` is in 𝒴 or not in 𝒳.
    """
    if not isinstance(domain, Multisets):
        raise InvalidInputError(f"bounded_minimum_metric.domain: expected Multisets, got {shown(domain)}")
    if kept(other) or (domain.records is not None and other not in domain.records):
        raise InvalidInputError(
            f"bounded_minimum_metric.other: expected a record of {domain.name} that the mechanism does not read,"
            f" got {shown(other)}"
        )

    def part(database: Multiset) -> Multiset:
        return tuple(record for record in database if kept(record))

    return Metric(domain, lambda first, second: max(one_sided(part(first), part(second))), name)
