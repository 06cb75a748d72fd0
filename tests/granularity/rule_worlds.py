"""Small worlds for the rules of composition: all databases of a class, what they read, and exact mechanisms.

Losses are counted in units of ln 2, so that e^ε is a power of 2 and everything is whole numbers: the rules are linear
in the unit, but for the δ of groups, which is tested apart.
"""

import itertools
import math
import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pbdist.granularity.canonical import CanonicalMetric, privacy_metric
from pbdist.granularity.notions import GivenRelation
from pbdist.granularity.spaces import DatabaseClass, DatabaseMap, Metric, StarDistance

#: The weights of a distribution add up to this.
TOTAL = 16
#: Weights of the outputs for each input.
Weights = dict[Hashable, tuple[int, ...]]


def multisets(records: str, most: int, least: int = 0) -> DatabaseClass:
    found = [c for n in range(least, most + 1) for c in itertools.combinations_with_replacement(records, n)]
    return DatabaseClass(f"multisets of {records}", tuple(found))


def canonical(domain: DatabaseClass, neighbours: Callable[[Any, Any], bool], name: str = "") -> CanonicalMetric:
    """The canonical metric, once it is what squaring the relation finds, slowly."""
    databases = domain.databases
    assert databases is not None
    distance = {(a, b): (0 if a == b else 1 if neighbours(a, b) else math.inf) for a in databases for b in databases}
    for c, a, b in itertools.product(databases, repeat=3):
        distance[a, b] = min(distance[a, b], distance[a, c] + distance[c, b])
    metric = privacy_metric(GivenRelation(name or neighbours.__name__, neighbours), domain)
    assert all(metric(a, b) == steps for (a, b), steps in distance.items())
    return metric


def minus(first: Any, second: Any) -> list[Any]:
    """A - B for multisets."""
    left = list(first)
    for record in second:
        if record in left:
            left.remove(record)
    return left


def unbounded(a: Any, b: Any) -> bool:
    return len(minus(a, b)) + len(minus(b, a)) == 1


def bounded(a: Any, b: Any) -> bool:
    return len(minus(a, b)) == len(minus(b, a)) == 1


def free_lunch(a: Any, b: Any) -> bool:
    return bool(a != b)


def one_user(a: Any, b: Any) -> bool:
    """Users have upper and lower case of one letter: all records of one user come or go."""
    changed = minus(a, b) + minus(b, a)
    return a != b and len({record.lower() for record in changed}) == 1 and (not minus(a, b) or not minus(b, a))


def one_place(a: Any, b: Any) -> bool:
    """Ordered databases: the record at one place changes (Example IV.7)."""
    return len(a) == len(b) and sum(x != y for x, y in zip(a, b, strict=True)) == 1


def restricted(domain: DatabaseClass, keep: str, name: str) -> DatabaseMap:
    """f(D) = D ∩ 𝒴 for multisets, into the class of its values."""
    return image(domain, lambda database: tuple(record for record in database if record in keep), name)


def image(domain: DatabaseClass, function: Callable[[Any], Any], name: str) -> DatabaseMap:
    assert domain.databases is not None
    values = tuple(dict.fromkeys(function(database) for database in domain.databases))
    return DatabaseMap(domain, DatabaseClass(f"{name}({domain.name})", values), function, name)


@dataclass(frozen=True)
class World:
    """A granularity over a class, and the parts that k mechanisms read."""

    name: str
    metric: CanonicalMetric
    relation: Callable[[Any, Any], bool]
    maps: tuple[DatabaseMap, ...]


def worlds() -> list[World]:
    plain, pairs = multisets("abc", 3), multisets("aAb", 3)
    fixed = multisets("abc", 3, 3)
    ordered = DatabaseClass("words of 3", tuple(itertools.product("ab", repeat=3)))
    graphs = DatabaseClass("graphs", tuple(c for n in range(4) for c in itertools.combinations("xyz", n)))
    partition, gaps, overlapping = ["a", "b", "c"], ["a", "b"], ["ab", "bc", "b"]

    def parts(domain: DatabaseClass, keeps: list[str]) -> tuple[DatabaseMap, ...]:
        return tuple(restricted(domain, keep, f"p{i}") for i, keep in enumerate(keeps))

    def places(*numbers: int) -> DatabaseMap:
        return image(ordered, lambda word: tuple((n, word[n]) for n in numbers), f"p{numbers}")

    cells = [
        ("unbounded partition", plain, unbounded, parts(plain, partition)),
        ("unbounded with gaps", plain, unbounded, parts(plain, gaps)),
        ("unbounded overlapping", plain, unbounded, parts(plain, overlapping)),
        ("bounded partition", plain, bounded, parts(plain, partition)),
        ("bounded with gaps", fixed, bounded, parts(fixed, gaps)),
        ("bounded overlapping", fixed, bounded, parts(fixed, overlapping)),
        ("one bounded part", fixed, bounded, parts(fixed, ["ab"])),
        ("users whole", pairs, one_user, parts(pairs, ["aA", "b"])),
        ("users split", pairs, one_user, parts(pairs, ["a", "A", "b"])),
        ("free lunch", fixed, free_lunch, parts(fixed, partition)),
        ("places", ordered, one_place, (places(0), places(1, 2))),
        ("places overlapping", ordered, one_place, (places(0, 1), places(1, 2))),
        ("edges", graphs, unbounded, parts(graphs, ["xy", "yz"])),
    ]
    return [World(name, canonical(domain, relation), relation, maps) for name, domain, relation, maps in cells]


def random_weights(source: random.Random, inputs: tuple[Any, ...], *, outputs: int = 2, zeros: bool = False) -> Weights:
    """Draw distributions; without zeros every loss is finite."""
    table = {}
    for value in inputs:
        cuts = sorted(source.randint(0, TOTAL - (0 if zeros else outputs)) for _ in range(outputs - 1))
        parts = [b - a for a, b in itertools.pairwise([0, *cuts, TOTAL - (0 if zeros else outputs)])]
        table[value] = tuple(part if zeros else part + 1 for part in parts)
    return table


def loss(p: tuple[int, ...], q: tuple[int, ...]) -> float:
    """The least whole n with P <= 2^n Q and Q <= 2^n P, or ∞: a metric, for it is a logarithm rounded upwards."""
    most = 0
    for x, y in itertools.chain(zip(p, q, strict=True), zip(q, p, strict=True)):
        if x > 0 and y == 0:
            return math.inf
        while x > y << most:
            most += 1
    return most


def delta_at(p: Sequence[int], q: Sequence[int], exponent: float, total: int = TOTAL) -> Fraction:
    """Σ max(P - 2^n Q, 0), exactly; 0 at n = ∞, where nothing is said."""
    if exponent == math.inf:
        return Fraction(0)
    return Fraction(sum(max(x - (y << int(exponent)), 0) for x, y in zip(p, q, strict=True)), total)


def metric_of(domain: DatabaseClass, tables: list[Weights]) -> Metric:
    """The loss of a mechanism that uses one of the tables, whatever the earlier output."""
    return Metric(domain, lambda a, b: max(loss(table[a], table[b]) for table in tables), "loss")


def delta_of(domain: DatabaseClass, tables: list[Weights], distance: Metric) -> StarDistance:
    def largest(a: Any, b: Any) -> Any:
        return max(delta_at(table[a], table[b], distance(a, b)) for table in tables)

    return StarDistance(domain, largest, "delta")


def composed(first: Weights, later: list[list[Weights]], maps: tuple[DatabaseMap, ...], database: Any) -> list[int]:
    """The weights of all outputs of an adaptive composition: mechanism i uses the table that the last output names.

    One table for each mechanism makes it independent.
    """
    weights = [(w, output) for output, w in enumerate(first[maps[0](database)])]
    for tables, read in zip(later, maps[1:], strict=True):
        weights = [
            (w * v, output)
            for w, last in weights
            for output, v in enumerate(tables[last % len(tables)][read(database)])
        ]
    return [w for w, _ in weights]
