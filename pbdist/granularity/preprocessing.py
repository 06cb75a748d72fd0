"""What privacy becomes where a mechanism reads f(D) alone (Guerra-Balboa et al. 2024).

After III-B and IV-D: Theorem IV.10 and, corrected, A.12. Minimum privacy is private* only.
"""

from collections.abc import Callable, Hashable
from functools import cache
from typing import TypeAlias, cast

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.spaces import (
    ApproximatePrivacy,
    Database,
    DatabaseMap,
    Metric,
    OnItsOwnDomain,
    OnTheCommonDomain,
    StarDistance,
    Statement,
    made,
)
from pbdist.granularity.upward import Amount


def pulled_back(stated: OnItsOwnDomain) -> Statement:
    """Return the privacy of M ∘ f on the domain of f, with the distance d(f(D), f(D')) itself.

    It is at most Δf d₁, needs no sensitivity, and is a metric where d is.
    """
    privacy, reads = stated.privacy, stated.reads
    distance = _of_images(privacy.distance, reads)
    if isinstance(privacy, ApproximatePrivacy):
        return ApproximatePrivacy(distance, cast(StarDistance, _of_images(privacy.delta, reads)))
    return type(privacy)(distance)


def _of_images(distance: Metric | StarDistance, reads: DatabaseMap) -> Metric | StarDistance:
    name, starred = f"{distance.name} after {reads.name}", isinstance(distance, StarDistance)

    def of_images(first: Database, second: Database) -> Amount:
        return distance.value(reads(first), reads(second))

    return made(reads.domain, of_images, name, squared=distance.squared, starred=starred)


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
