"""How far apart the neighbours of one granularity are in the metric of another (Guerra-Balboa et al. 2024, III-A)."""

import math

from pbdist.errors import InvalidInputError
from pbdist.granularity.canonical import canonical_metric, diameter, is_totally_disconnected, neighbours
from pbdist.granularity.notions import Bounded, EdgeLevel, FreeLunch, Granularity, NodeLevel, Unbounded, UserLevel
from pbdist.granularity.spaces import DatabaseClass
from pbdist.granularity.universes import Graphs, Multisets, OrderedDatabases, UserDatabases


def distance_between(first: Granularity, second: Granularity, domain: DatabaseClass) -> float:
    """Return dist(𝒢₁, 𝒢₂): the largest distance by 𝒢₁ of neighbours by 𝒢₂ (Proposition A.3).

    With k = dist(𝒢₁, 𝒢₂) finite, d^𝒢₁ <= k d^𝒢₂, and 𝒢₁ ε-DP implies 𝒢₂ kε-DP.

    Parameters
    ----------
    first, second : Granularity
        𝒢₁ and 𝒢₂; the order matters.
    domain : DatabaseClass
        Listed, and then all neighbours are looked at; or a full universe, and then the proofs of
        docs/granularity-notions.md hold.

    Returns
    -------
    float
        A whole number, or ∞. With `FreeLunch` first 1, and with `FreeLunch` second the diameter by 𝒢₁.

    Raises
    ------
    InvalidInputError
        If the class has no neighbours by 𝒢₂; if the distance is not known; or if it would be finite only with a
        declared maximal degree.
    """
    if domain.databases is not None:
        pairs = neighbours(second, domain)
        if not pairs:
            raise _no_neighbours(second, domain)
        metric = canonical_metric(first, domain)
        return max(metric(one, other) for one, other in pairs)
    for granularity in (first, second):
        _refuse_misfits(granularity, domain)
    if not _rewires(second) and is_totally_disconnected(second, domain):
        raise _no_neighbours(second, domain)
    return _proved(first, second, domain)


def _no_neighbours(granularity: Granularity, domain: DatabaseClass) -> InvalidInputError:
    return InvalidInputError(
        f"{domain.name}: expected a class with neighbours of {granularity.title}, got one without any"
    )


def _rewires(granularity: Granularity) -> bool:
    """Whether nodes stay, which has neighbours over all graphs, and no closed form."""
    return isinstance(granularity, NodeLevel) and granularity.presence == "public"


def _refuse_misfits(granularity: Granularity, domain: DatabaseClass) -> None:
    """Refuse a granularity that is not one of the universe's databases."""
    if isinstance(granularity, NodeLevel) and _rewires(granularity):
        canonical_metric(NodeLevel(granularity.degree), domain)
    else:
        canonical_metric(granularity, domain)


def _proved(first: Granularity, second: Granularity, domain: DatabaseClass) -> float:
    """Return what docs/granularity-notions.md proves, section 3; refuse what it does not."""
    if isinstance(first, FreeLunch):
        return 1
    if isinstance(second, FreeLunch):
        return math.inf if _rewires(first) else diameter(first, domain)
    if type(first) is type(second) and _rewires(first) == _rewires(second):
        return 1
    known: float | None = None
    match domain:
        case Multisets() | OrderedDatabases():
            known = _of_records(first, second, fixed=domain.size is not None)
        case UserDatabases():
            known = _of_users(first, second, domain.records)
        case Graphs():
            known = _of_graphs(first, second, domain)
    if known is None:
        raise InvalidInputError(
            f"distance_between: expected granularities whose distance is known over {domain.name}, or a class whose"
            f" databases are listed, got {first.title} and {second.title}"
        )
    return known


def _of_records(first: Granularity, second: Granularity, *, fixed: bool) -> float | None:
    match first, second:
        case Unbounded(), Bounded():
            return math.inf if fixed else 2
        case Bounded(), Unbounded():
            return math.inf
    return None


def _of_users(first: Granularity, second: Granularity, records: int) -> float | None:
    several = records > 1
    match first, second:
        case Unbounded(), UserLevel():
            return records
        case UserLevel(), Unbounded():
            return 2 if several else 1
        case UserLevel(), Bounded():
            return 4 if several else 2
        case Bounded(), UserLevel():
            return math.inf
    return _of_records(first, second, fixed=False)


def _of_graphs(first: Granularity, second: Granularity, domain: Graphs) -> float | None:
    match first, second:
        case EdgeLevel(), NodeLevel(presence="public"):
            if domain.degree is None:
                raise InvalidInputError(
                    f"{domain.name}: expected graphs of a declared maximal degree, Graphs(.., degree=..), for a node"
                    " may have any number of edges: no bound on an edge protects a node"
                )
            return domain.degree
        case (EdgeLevel(), NodeLevel()) | (NodeLevel(presence="public"), NodeLevel(presence="protected")):
            return math.inf
        case NodeLevel(presence="public"), EdgeLevel():
            return 1 if domain.degree == 1 else 2
        case (NodeLevel(), EdgeLevel()) | (NodeLevel(), NodeLevel()):
            return 2
    return None
