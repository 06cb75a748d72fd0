"""Graphs as databases: simple and undirected, a frozenset of nodes and a frozenset of edges."""

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any, TypeAlias

from pbdist.errors import InvalidInputError, shown

Edge: TypeAlias = frozenset[Hashable]
Graph: TypeAlias = tuple[frozenset[Hashable], frozenset[Edge]]

#: The smallest cover of more differing edges is not looked for: the search may take exponentially long.
_MOST_EDGES = 40


def graph(nodes: Iterable[Hashable], edges: Iterable[Iterable[Hashable]] = ()) -> Graph:
    """Return a graph as a database.

    Parameters
    ----------
    nodes : iterable
        Hashable names.
    edges : iterable of pairs
        Each of two different nodes.

    Raises
    ------
    InvalidInputError
        If an edge does not join two different nodes of the graph.
    """
    made = frozenset(nodes), frozenset(frozenset(edge) for edge in edges)
    return checked_graph(made)


def checked_graph(database: Any) -> Graph:
    """Return a database that is a graph; refuse others."""
    match database:
        case (frozenset() as nodes, frozenset() as edges):
            wrong = [edge for edge in edges if not (isinstance(edge, frozenset) and len(edge) == 2 and edge <= nodes)]
            if not wrong:
                return nodes, edges
            raise InvalidInputError(f"graph: expected edges between two different nodes, got {shown(wrong[0])}")
    raise InvalidInputError(f"graph: expected (nodes, edges), made by graph(), got {shown(database)}")


def edges_at(edges: frozenset[Edge], node: Hashable) -> frozenset[Edge]:
    """Return the edges of one node."""
    return frozenset(edge for edge in edges if node in edge)


def highest_degree(database: Graph) -> int:
    """Return the largest number of edges at one node; 0 without edges."""
    return max(_degrees(checked_graph(database)[1]).values(), default=0)


def _degrees(edges: frozenset[Edge]) -> Counter[Hashable]:
    """Return the number of edges of each node that has some."""
    return Counter(node for edge in edges for node in edge)


def cover_number(edges: frozenset[Edge]) -> int:
    """Return how many nodes are needed to meet every edge: the size of a smallest vertex cover, exactly.

    A node is in a smallest cover, or all its neighbours are; the neighbour of a node of one edge may always be taken.

    Raises
    ------
    InvalidInputError
        If there are more than 40 edges.
    """
    if len(edges) > _MOST_EDGES:
        raise InvalidInputError(
            f"graph: expected at most {_MOST_EDGES} differing edges, for which a smallest cover is searched,"
            f" got {len(edges)}"
        )
    return _cover_number(edges)


def _cover_number(edges: frozenset[Edge]) -> int:
    if not edges:
        return 0
    degrees = _degrees(edges)
    leaf = next((node for node, degree in degrees.items() if degree == 1), None)
    node = max(degrees, key=degrees.__getitem__) if leaf is None else leaf
    here = edges_at(edges, node)
    neighbours = frozenset[Hashable]().union(*here) - {node}
    with_neighbours = len(neighbours) + _cover_number(frozenset(edge for edge in edges if not edge & neighbours))
    return with_neighbours if leaf is not None else min(with_neighbours, 1 + _cover_number(edges - here))
