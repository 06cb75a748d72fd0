"""What privacy becomes where a mechanism reads f(D) alone (Guerra-Balboa et al. 2024).

Sensitivity is III-B, minimum privacy IV-D: Theorem IV.10 and, corrected, A.12. Results of the latter are private* only,
but for the closed form of IV.15, which is a metric.
"""

import math
from collections.abc import Callable, Hashable
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias, cast

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.databases import Multiset, Multisets, one_sided
from pbdist.granularity.spaces import (
    ApproximatePrivacy,
    Database,
    DatabaseClass,
    DatabaseMap,
    Metric,
    OnItsOwnDomain,
    OnTheCommonDomain,
    ScaledMetric,
    StarDistance,
    Statement,
    made,
)
from pbdist.granularity.upward import Amount


def sensitivity(reads: DatabaseMap, before: Metric, after: Metric) -> float:
    """Return Δf: the smallest Δ with d₂(f(D), f(D')) <= Δ d₁(D, D') wherever d₁ is finite (Definition III.5).

    All pairs of the listed domain are looked at, so it is exact: a Fraction, or ∞.

    Parameters
    ----------
    reads : DatabaseMap
        f.
    before, after : Metric
        d₁ over its domain and d₂ over its codomain.
    """
    _refuse_other_classes(reads, before, after)
    listed = before.domain.listed(f"the sensitivity of {reads.name}")
    ratios = (_ratio(reads, before, after, first, second) for first in listed for second in listed)
    return max(ratios)


def _refuse_other_classes(reads: DatabaseMap, before: Metric, after: Metric | StarDistance) -> None:
    for metric, domain, side in ((before, reads.domain, "domain"), (after, reads.codomain, "codomain")):
        if metric.domain != domain:
            raise InvalidInputError(
                f"{reads.name}: expected a distance over its {side} {domain.name}, got one over {metric.domain.name}"
            )


def _ratio(reads: DatabaseMap, before: Metric, after: Metric, first: Any, second: Any) -> float:
    """Return by how much the map stretches one pair; pairs that are infinitely far apart are not looked at."""
    whole = before(first, second)
    if whole == math.inf:
        return 0
    image = after(reads(first), reads(second))
    if image == 0:
        return 0
    if image == math.inf or whole == 0:
        return math.inf
    return cast(float, Fraction(image) / Fraction(whole))


def preprocessed(stated: OnItsOwnDomain, before: Metric, declared: Amount | None = None) -> Statement:
    """Return the privacy of M ∘ f on the domain of f: of the same kind, Δf times a metric there (Proposition III.6).

    δ is that of the images.

    Parameters
    ----------
    stated : OnItsOwnDomain
        The privacy of M over the codomain of f: pure, approximate, zero-concentrated or Gaussian.
    before : Metric
        d₁ over the domain of f.
    declared : float, optional
        Δf, or a number above it, where the domain is not listed. Where it is listed, it is checked.

    Raises
    ------
    InvalidInputError
        If Δf is infinite, not known, or above what is declared; or if the privacy is private* only, for whose distance
        the triangle inequality, which Δf d₁ has, is not known.
    """
    privacy, reads = stated.privacy, stated.reads
    after = privacy.distance
    if not isinstance(after, Metric):
        raise InvalidInputError(f"preprocessed: expected privacy with a metric over {after.domain.name}, got private*")
    _refuse_other_classes(reads, before, after)
    found = declared
    if declared is None or before.domain.databases is not None:
        found = sensitivity(reads, before, after)
    if declared is not None and found is not None and found > declared:
        raise InvalidInputError(f"preprocessed.declared: expected at least {shown(found)}, got {shown(declared)}")
    if found is None or not found < math.inf:
        raise InvalidInputError(
            f"{reads.name}: expected a map of finite sensitivity, got {shown(found)}: the mechanism after it is not"
            f" known to be private over {before.domain.name}"
        )
    return _with_distance(privacy, ScaledMetric(before, found), reads)


def pulled_back(stated: OnItsOwnDomain) -> Statement:
    """Return the privacy of M ∘ f on the domain of f, with the distance d(f(D), f(D')) itself.

    It is at most Δf d₁, needs no sensitivity, and is a metric where d is.
    """
    privacy, reads = stated.privacy, stated.reads
    return _with_distance(privacy, _of_images(privacy.distance, reads), reads)


def _of_images(distance: Metric | StarDistance, reads: DatabaseMap) -> Metric | StarDistance:
    name, starred = f"{distance.name} after {reads.name}", isinstance(distance, StarDistance)

    def of_images(first: Database, second: Database) -> Amount:
        return distance.value(reads(first), reads(second))

    return made(reads.domain, of_images, name, squared=distance.squared, starred=starred)


def _with_distance(privacy: Statement, distance: Metric | StarDistance, reads: DatabaseMap) -> Statement:
    if isinstance(privacy, ApproximatePrivacy):
        return ApproximatePrivacy(distance, cast(StarDistance, _of_images(privacy.delta, reads)))
    return type(privacy)(distance)


_Weight: TypeAlias = Callable[[Database, Database], tuple[Amount, Amount]]


def _least(reads: DatabaseMap, weight: _Weight) -> _Weight:
    """Return the least weight of databases that look like two given ones; of a class that is not listed, of these."""

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

    @cache
    def of_images(here: Hashable, there: Hashable) -> tuple[Amount, Amount]:
        return min(apart(one, other) for one in databases[here] for other in databases[there])

    def least(first: Database, second: Database) -> tuple[Amount, Amount]:
        for one in (first, second):
            if reads(one) not in databases:
                raise InvalidInputError(f"database: expected one of {reads.domain.name}, got {shown(one)}")
        return of_images(reads(first), reads(second))

    return least


def minimum_privacy(stated: OnTheCommonDomain) -> Statement:
    """Return the minimum privacy of a mechanism that depends on f(D) alone, private* only: no triangle inequality.

    d^f(D, D') is the least d(D~, D~') of databases with f(D~) = f(D) and f(D~') = f(D') (Proposition IV.10; A.14 for
    zero-concentrated privacy, and the same proof for Gaussian). For approximate privacy δ^f(D, D') is the least δ of
    those *same* pairs that attain d^f: Proposition A.12 leaves out that they must look like D and D', without which it
    is false. Nothing is lost between databases that look the same.

    Parameters
    ----------
    stated : OnTheCommonDomain
        The privacy of the whole mechanism over 𝔻, and f. Where 𝔻 is not listed, d(D, D') stands for d^f(D, D') if f(D)
        and f(D') differ: it is not below it.
    """
    privacy, reads = stated.privacy, stated.reads
    function, squared = privacy.distance.value, privacy.distance.squared
    delta = privacy.delta if isinstance(privacy, ApproximatePrivacy) else None
    least = _least(reads, lambda first, second: (function(first, second), 0 if delta is None else delta(first, second)))
    name = f"{privacy.distance.name} given {reads.name}"
    distance = made(reads.domain, lambda a, b: least(a, b)[0], name, squared=squared, starred=True)
    if not isinstance(privacy, ApproximatePrivacy):
        return type(privacy)(distance)
    lost = StarDistance(reads.domain, lambda a, b: least(a, b)[1], f"δ given {reads.name}", privacy.delta.squared)
    return ApproximatePrivacy(distance, lost)


def bounded_minimum_metric(
    domain: DatabaseClass, reads: Callable[[Any], bool], other: Hashable, name: str = "d of bounded given a part"
) -> Metric:
    r"""Return the minimum privacy of bounded DP for a mechanism that reads only the records of 𝒴 ⊊ 𝒳, in closed form.

    With A = D ∩ 𝒴 and B = D' ∩ 𝒴 it is max(|A \ B|, |B \ A|), where Corollary IV.15 has min(d^ℬ(D, D'), |A △ B|), which
    is never smaller. It is exact, and a metric (docs/granularity-notions.md, section 6), so that it may be used where
    one is needed. ε times it is the privacy of a bounded ε-DP mechanism.

    Parameters
    ----------
    domain : DatabaseClass
        `Multisets`, of any size or of a fixed one.
    reads : callable
        Whether a record is in 𝒴.
    other : record
        One of 𝒳 that is not in 𝒴. Where there is none the closed form is false.
    name : str, optional
        Used in errors.

    Raises
    ------
    InvalidInputError
        If the class is another one, or `other` is in 𝒴 or not in 𝒳.
    """
    if not isinstance(domain, Multisets):
        raise InvalidInputError(f"bounded_minimum_metric.domain: expected Multisets, got {shown(domain)}")
    if reads(other) or (domain.records is not None and other not in domain.records):
        raise InvalidInputError(
            f"bounded_minimum_metric.other: expected a record of {domain.name} that the mechanism does not read,"
            f" got {shown(other)}"
        )

    def part(database: Multiset) -> Multiset:
        return tuple(record for record in database if reads(record))

    return Metric(domain, lambda first, second: max(one_sided(part(first), part(second))), name)
