"""Whether privacy means something in a class: its neighbours, its connectedness and its diameter (Example III.4)."""

import math
from dataclasses import dataclass

from pbdist.errors import InvalidInputError
from pbdist.granularity.canonical import CanonicalMetric, canonical_metric, neighbours
from pbdist.granularity.notions import Bounded, EdgeLevel, FreeLunch, Granularity, NodeLevel, Unbounded, UserLevel
from pbdist.granularity.spaces import DatabaseClass
from pbdist.granularity.universes import Graphs, Multisets, OrderedDatabases, UserDatabases

__all__ = ["diameter", "is_connected", "is_totally_disconnected", "privacy_metric", "refuse_without_neighbours"]


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
        case (Unbounded(), Multisets(size=int()) | OrderedDatabases(size=int())) | (
            Bounded(),
            Multisets(records=(_,)),
        ):
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


def privacy_metric(granularity: Granularity, domain: DatabaseClass) -> CanonicalMetric:
    """Return the canonical metric of a class in which privacy means something.

    Raises
    ------
    InvalidInputError
        As `refuse_without_neighbours` and `canonical_metric`.
    """
    metric = canonical_metric(granularity, domain)
    refuse_without_neighbours(metric)
    return metric


def refuse_without_neighbours(metric: CanonicalMetric) -> None:
    """Refuse a class of several databases without any neighbours (Example III.4).

    The identity, which reveals everything, would be "0-DP" there. A declared metric is not looked at.

    Raises
    ------
    InvalidInputError
        If there are none.
    """
    if metric.declared is not None or len(metric.domain.databases or ()) == 1:
        return
    if is_totally_disconnected(metric.granularity, metric.domain):
        raise InvalidInputError(
            f"{metric.domain.name}: expected a class with neighbours of {metric.granularity.title}, got one without"
            " any, in which every mechanism would be 0-private, even one that prints the database (Example III.4)"
        )
