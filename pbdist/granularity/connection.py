"""Whether privacy means something in a class: its neighbours, its connectedness and its diameter (Example III.4)."""

import math
from dataclasses import dataclass

from pbdist.errors import InvalidInputError
from pbdist.granularity.canonical import canonical_metric, neighbours
from pbdist.granularity.notions import Bounded, EdgeLevel, FreeLunch, Granularity, NodeLevel, Unbounded, UserLevel
from pbdist.granularity.spaces import DatabaseClass, Metric
from pbdist.granularity.universes import Graphs, Multisets, OrderedDatabases, UserDatabases

__all__ = ["diameter", "is_connected", "is_totally_disconnected", "privacy_metric"]


@dataclass(frozen=True)
class _Shape:
    has_neighbours: bool
    connected: bool
    diameter: float


def _shape(granularity: Granularity, domain: DatabaseClass) -> _Shape:
    """Return what a class looks like: found out where it is listed, known where it is a full universe."""
    metric = canonical_metric(granularity, domain)
    if domain.databases is not None:
        listed = domain.databases
        widest = max(metric(first, second) for first in listed for second in listed)
        return _Shape(bool(neighbours(granularity, domain)), widest < math.inf, widest)
    match granularity, domain:
        case FreeLunch(), _:
            return _Shape(True, True, 1)
        case Unbounded(), Multisets(size=int()) | OrderedDatabases(size=int()):
            return _Shape(False, False, math.inf)
        case Bounded(), Multisets(size=int(size)) | OrderedDatabases(size=int(size)):
            return _Shape(True, True, size)
        case (Bounded(), Multisets() | OrderedDatabases() | UserDatabases()) | (EdgeLevel(), Graphs()):
            return _Shape(True, False, math.inf)
        case (
            (Unbounded(), Multisets() | UserDatabases())
            | (UserLevel(), UserDatabases())
            | (NodeLevel(presence="protected"), Graphs())
        ):
            return _Shape(True, True, math.inf)
    raise InvalidInputError(
        f"{domain.name}: expected a class whose databases are listed, or a full universe that is known to be connected"
        f" or not by {granularity.title}"
    )


def is_totally_disconnected(granularity: Granularity, domain: DatabaseClass) -> bool:
    """Return whether a class has no neighbours at all (Example III.4).

    Raises
    ------
    InvalidInputError
        If the class is neither listed nor a full universe that is known.
    """
    if domain.databases is not None:
        return not neighbours(granularity, domain)
    return not _shape(granularity, domain).has_neighbours


def is_connected(granularity: Granularity, domain: DatabaseClass) -> bool:
    """Return whether all distances of a class are finite.

    Raises
    ------
    InvalidInputError
        As `is_totally_disconnected`.
    """
    return _shape(granularity, domain).connected


def diameter(granularity: Granularity, domain: DatabaseClass) -> float:
    """Return the largest distance of a class; ∞ also where distances are finite and grow without end.

    Raises
    ------
    InvalidInputError
        As `is_totally_disconnected`.
    """
    return _shape(granularity, domain).diameter


def privacy_metric(granularity: Granularity, domain: DatabaseClass) -> Metric:
    """Return the canonical metric of a class in which privacy means something.

    Raises
    ------
    InvalidInputError
        If the class has no neighbours at all, for then the identity, which reveals everything, would be "0-DP"
        (Example III.4); and as `canonical_metric`.
    """
    if is_totally_disconnected(granularity, domain):
        raise InvalidInputError(
            f"{domain.name}: expected a class with neighbours of {granularity.title}, got one without any, in which"
            " every mechanism would be 0-private, even one that prints the database"
        )
    return canonical_metric(granularity, domain)
