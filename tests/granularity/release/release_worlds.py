"""Small releases that are looked through: listed databases, mechanisms as tables in whole numbers, and their plans.

Every mechanism gets a pair that dominates it on all neighbours, in the listed databases, of what it is declared for.
"""

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

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
from pbdist.granularity.release.declared import Analysis, Blocks, Memberships, Overlapping, Partition, Profile, Touch
from pbdist.granularity.release.plan import ReleasePlan
from pbdist.mechanisms import ApproximateDP, Histogram, Pair, RandomizedResponse

__all__ = ["KINDS", "World", "drawn_world"]

#: Weights of a table's row sum to this.
TOTAL = 24
#: A record: its number, its blocks, and whose it is: a user, or the two nodes of an edge.
Database = tuple[int, ...]
Row = tuple[int, ...]


@dataclass(frozen=True)
class Universe:
    """Records and listed databases, and which of them are neighbours."""

    granularity: Granularity
    members: tuple[frozenset[str], ...]
    databases: tuple[Database, ...]
    neighbours: Callable[[Database, Database], bool] = field(repr=False)


@dataclass(frozen=True)
class Mechanism:
    """A table for each earlier output, of rows by input, and what is declared of it."""

    analysis: Analysis
    tables: tuple[dict[Database, Row], ...]


@dataclass(frozen=True)
class World:
    """A plan and what it describes."""

    plan: ReleasePlan
    universe: Universe
    mechanisms: tuple[Mechanism, ...]

    def largest_delta(self, ratio: Fraction) -> Fraction:
        """Return the largest δ of the joint outputs over all neighbours, in both orders, exactly."""
        joint, runs = self._joint()
        numbers = {database: number for number, database in enumerate(self.universe.databases)}
        worst = 0
        for first, second in itertools.permutations(self.universe.databases, 2):
            if self.universe.neighbours(first, second):
                p, q = joint[numbers[first]], joint[numbers[second]]
                worst = max(worst, int(np.maximum(ratio.denominator * p - ratio.numerator * q, 0).sum()))
        return Fraction(worst, ratio.denominator * TOTAL**runs)

    def _joint(self) -> tuple[Any, int]:
        rows, runs = [], 0
        for database in self.universe.databases:
            # Weights by the last output, and all earlier ones.
            weights = np.ones((1, 1), dtype=np.int64)
            runs = 0
            for mechanism in self.mechanisms:
                own = read(self.universe, mechanism.analysis.reads, database)
                for _ in range(mechanism.analysis.repeats):
                    tables = [np.array(table[own], dtype=np.int64) for table in mechanism.tables]
                    steps = [weights[:, o, None] * tables[o % len(tables)] for o in range(weights.shape[1])]
                    weights = np.concatenate(steps)
                    runs += 1
            rows.append(weights.ravel())
        assert TOTAL**runs < 2**40
        return np.stack(rows), runs


def read(universe: Universe, blocks: tuple[str, ...] | None, database: Database) -> Database:
    """Return what an analysis reads."""
    if blocks is None:
        return database
    return tuple(record for record in database if not universe.members[record].isdisjoint(blocks))


def difference(first: Database, second: Database) -> tuple[int, int]:
    """Return how many records are lost and gained."""
    lost, gained = list(first), list(second)
    for record in first:
        if record in gained:
            gained.remove(record)
            lost.remove(record)
    return len(lost), len(gained)


def _one_removed(first: Database, second: Database) -> bool:
    return difference(first, second) in {(1, 0), (0, 1)}


def _one_changed(first: Database, second: Database) -> bool:
    return difference(first, second) == (1, 1)


def _multisets(records: int, most: int) -> tuple[Database, ...]:
    found = [itertools.combinations_with_replacement(range(records), size) for size in range(most + 1)]
    return tuple(itertools.chain.from_iterable(found))


def _drawn_members(source: random.Random, records: int) -> tuple[Blocks, tuple[frozenset[str], ...]]:
    """Return declared blocks, and of each record those that it is in."""
    names = ["x", "y", "z"][: source.choice([1, 2, 2, 3])]
    kind = source.choice(["partition", "rest", "overlapping", "covering", "sets"])
    if kind in {"partition", "rest"}:
        least = 0 if kind == "rest" else 1
        members = [frozenset(source.sample(names, source.randint(least, 1))) for _ in range(records)]
        return Partition(names, exhaustive=kind == "partition"), tuple(members)
    if kind in {"overlapping", "covering"}:
        most = source.choice([2, 3])
        least = 1 if kind == "covering" else 0
        sizes = [source.randint(least, min(most, len(names))) for _ in range(records)]
        members = [frozenset(source.sample(names, size)) for size in sizes]
        return Overlapping(names, most, exhaustive=kind == "covering"), tuple(members)
    members = [frozenset(source.sample(names, source.randint(0, len(names)))) for _ in range(records)]
    members[0] = frozenset(names)
    return Memberships([sorted(one) for one in dict.fromkeys(members)]), tuple(members)


def _of_records(granularity: Granularity, neighbours: Callable[[Database, Database], bool]) -> Any:
    def universe(source: random.Random) -> tuple[Blocks, Universe]:
        blocks, members = _drawn_members(source, 3)
        return blocks, Universe(granularity, members, _multisets(3, 3), neighbours)

    return universe


def _users(source: random.Random) -> tuple[Blocks, Universe]:
    """Two users, each with up to so many records of two or three values."""
    most, values = source.choice([(2, 3), (3, 2)])
    blocks, members = _drawn_members(source, values)
    own = _multisets(values, most)
    databases = [(*one, *(values + record for record in two)) for one in own for two in own]

    def neighbours(first: Database, second: Database) -> bool:
        users = [tuple(tuple(r for r in one if r // values == u) for u in (0, 1)) for one in (first, second)]
        changed = [(a, b) for a, b in zip(*users, strict=True) if a != b]
        return len(changed) == 1 and () in changed[0]

    return blocks, Universe(UserLevel(most), members * 2, tuple(databases), neighbours)


def _graphs(granularity: Granularity, nodes: int, degree: int) -> Any:
    edges = list(itertools.combinations(range(nodes), 2))

    def universe(source: random.Random) -> tuple[Blocks, Universe]:
        blocks, members = _drawn_members(source, len(edges))
        subsets = itertools.chain.from_iterable(
            itertools.combinations(range(len(edges)), size) for size in range(len(edges) + 1)
        )
        kept = [g for g in subsets if max(sum(node in edges[e] for e in g) for node in range(nodes)) <= degree]

        def neighbours(first: Database, second: Database) -> bool:
            if isinstance(granularity, EdgeLevel):
                return _one_removed(first, second)
            smaller, larger = sorted((set(first), set(second)), key=len)
            removed = larger - smaller
            if not removed or not smaller < larger:
                return False
            return any(removed == {e for e in larger if node in edges[e]} for node in range(nodes))

        return blocks, Universe(granularity, members, tuple(kept), neighbours)

    return universe


def _given(first: Database, second: Database) -> bool:
    return difference(first, second) in {(2, 0), (0, 2), (1, 1), (2, 1), (1, 2)}


_GIVEN = GivenRelation("two lost or one changed", _given)

KINDS: dict[str, Callable[[random.Random], tuple[Blocks, Universe]]] = {
    "unbounded": _of_records(Unbounded(), _one_removed),
    "bounded": _of_records(Bounded(), _one_changed),
    "user": _users,
    "edge": _graphs(EdgeLevel(), 3, 2),
    "node": _graphs(NodeLevel(2, "public"), 4, 2),
    "node3": _graphs(NodeLevel(3, "public"), 4, 3),
    "free lunch": _of_records(FreeLunch(), lambda first, second: first != second),
    "given": _of_records(_GIVEN, _given),
}


def drawn_world(kind: str, seed: int) -> World:
    """Return a plan of a kind of granularity, with mechanisms for which it holds."""
    source = random.Random(f"{kind} {seed}")  # noqa: S311
    while True:
        blocks, universe = KINDS[kind](source)
        mechanisms: list[Mechanism] = []
        outputs = 1
        for name in "abc"[: source.choice([1, 2, 2, 3])]:
            tables = 1 if source.random() < 0.5 else outputs
            mechanism = _drawn_mechanism(source, universe, blocks, name, tables)
            outputs = len(next(iter(mechanism.tables[0].values())))
            mechanisms.append(mechanism)
        analyses = [one.analysis for one in mechanisms]
        profiles = _profiles(universe, analyses) if kind == "given" else []
        if kind == "given" and not profiles:
            continue
        reached = kind == "given" or any(one.reads is None or blocks for one in analyses)
        if reached and (kind == "free lunch" or _reads_something(blocks, analyses)):
            plan = ReleasePlan(universe.granularity, analyses, blocks, profiles)
            return World(plan, universe, tuple(mechanisms))


def _reads_something(blocks: Blocks, analyses: Sequence[Analysis]) -> bool:
    return bool(blocks.blocks) and bool(analyses)


def _profiles(universe: Universe, analyses: Sequence[Analysis]) -> list[Profile]:
    """Every way in which neighbours differ, found by looking at all of them."""
    found: dict[Profile, None] = {}
    for first, second in itertools.permutations(universe.databases, 2):
        if universe.neighbours(first, second):
            touches = []
            for one in analyses:
                lost, gained = difference(read(universe, one.reads, first), read(universe, one.reads, second))
                if one.declared == universe.granularity and lost + gained:
                    lost, gained = 1, 0
                if lost + gained:
                    touches.append(Touch(one.name, lost, gained))
            if touches:
                found[Profile(touches)] = None
    return list(found)


def _declarations(universe: Universe, reads: tuple[str, ...] | None, blocks: Blocks) -> list[tuple[Granularity, str]]:
    granularity = universe.granularity
    if isinstance(granularity, FreeLunch):
        return [(FreeLunch(), "own")]
    if isinstance(granularity, EdgeLevel | NodeLevel):
        return [(EdgeLevel(), "own"), (granularity, "own"), (FreeLunch(), "own")]
    found: list[tuple[Granularity, str]] = [(Unbounded(), "own")] * 3
    if isinstance(granularity, UserLevel):
        found.append((granularity, "own"))
    if isinstance(granularity, GivenRelation) and reads is None:
        found.append((granularity, "own"))
    if isinstance(granularity, Bounded) and (reads is None or (set(blocks.blocks) == set(reads) and blocks.exhaustive)):
        found.append((Bounded(), "own"))
    unread = reads is not None and any(one.isdisjoint(reads) for one in universe.members)
    if unread:
        # Records that are not read are there, and the plan knows it.
        found += [(Bounded(), "common")] * 2
    return found


def _drawn_mechanism(source: random.Random, universe: Universe, blocks: Blocks, name: str, tables: int) -> Mechanism:
    names = list(blocks.blocks)
    reads = None
    if source.random() < 0.8:
        reads = tuple(sorted(source.sample(names, 1 if source.random() < 0.7 else source.randint(1, len(names)))))
    declared, domain = source.choice(_declarations(universe, reads, blocks))
    inputs = {database: read(universe, reads, database) for database in universe.databases}
    pairs = _input_pairs(universe, inputs, declared, domain)
    repeats = 2 if source.random() < 0.15 else 1
    changed: Any = None
    if declared in {Unbounded(), EdgeLevel()} and source.random() < 0.4:
        made, pair = _thresholds(source, universe, inputs, tables)
    else:
        by_size = declared == Unbounded() and source.random() < 0.4
        outputs = source.choice([2, 3])
        made = [_random_table(source, set(inputs.values()), outputs, by_size=by_size) for _ in range(tables)]
        pair = _pair_for(source, made, pairs)
        if by_size and source.random() < 0.8:
            changed = "unchanged"
    if declared == Unbounded() and changed is None and source.random() < 0.5:
        own = [one for one in itertools.permutations(set(inputs.values()), 2) if _one_changed(*one)]
        changed = _pair_for(source, made, own)
    analysis = Analysis(name, pair, reads, declared, domain, changed, repeats)  # type: ignore[arg-type]
    return Mechanism(analysis, tuple(made))


def _input_pairs(
    universe: Universe, inputs: dict[Database, Database], declared: Granularity, domain: str
) -> list[tuple[Database, Database]]:
    """Return the neighbours for which a pair is declared, in both orders, as inputs."""
    if domain == "common":
        wanted = [one for one in itertools.permutations(universe.databases, 2) if _one_changed(*one)]
        return list(dict.fromkeys((inputs[a], inputs[b]) for a, b in wanted))
    own = list(itertools.permutations(sorted(set(inputs.values())), 2))
    if isinstance(declared, Unbounded | EdgeLevel):
        return [one for one in own if _one_removed(*one)]
    if isinstance(declared, Bounded):
        return [one for one in own if _one_changed(*one)]
    if isinstance(declared, FreeLunch):
        return own
    return [one for one in own if universe.neighbours(*one)]


def _random_row(source: random.Random, outputs: int, *, zeros: bool) -> Row:
    while True:
        cuts = sorted(source.randint(0, TOTAL) for _ in range(outputs - 1))
        row = tuple(b - a for a, b in itertools.pairwise([0, *cuts, TOTAL]))
        if zeros or min(row) > 0:
            return row


def _random_table(source: random.Random, inputs: set[Database], outputs: int, *, by_size: bool) -> dict[Database, Row]:
    """Rows near one another, by the number of records or by all of them."""
    zeros = source.random() < 0.3
    middle = _random_row(source, outputs, zeros=False)
    rows: dict[Any, Row] = {}
    for one in sorted(inputs):
        key = len(one) if by_size else one
        if key not in rows:
            rows[key] = _random_row(source, outputs, zeros=zeros) if source.random() < 0.3 else _near(source, middle)
    return {one: rows[len(one) if by_size else one] for one in inputs}


def _near(source: random.Random, row: Row) -> Row:
    changed = list(row)
    a, b = source.sample(range(len(row)), 2)
    step = min(source.randint(0, 3), max(changed[a] - 1, 0))
    changed[a] -= step
    changed[b] += step
    return tuple(changed)


def _pair_for(
    source: random.Random, tables: Sequence[dict[Database, Row]], pairs: Sequence[tuple[Database, Database]]
) -> Pair:
    """Return a pair that dominates the outputs of all tables on some inputs, in both orders."""
    rows = [(table[a], table[b]) for table in tables for a, b in pairs]
    ratios = [Fraction(x, y) if y else None for p, q in rows for x, y in zip(p, q, strict=True) if x]
    if None not in ratios and source.random() < 0.6:
        odds = max([Fraction(1), *(ratio for ratio in ratios if ratio is not None)])
        truth = math.nextafter(float(odds / (1 + odds)), 1.0) if odds > 1 else 0.5
        return RandomizedResponse(truth)
    epsilon = source.choice([0.0, 0.25, 0.7])
    ratio = Fraction(math.nextafter(math.exp(epsilon), 0.0)) if epsilon else Fraction(1)
    worst = max([Fraction(0), *(_delta(p, q, ratio) for p, q in rows)])
    return ApproximateDP(epsilon, min(1.0, math.nextafter(float(worst), 1.0)) if worst else 0.0)


def _delta(p: Row, q: Row, ratio: Fraction) -> Fraction:
    return sum((max(x - ratio * y, Fraction(0)) for x, y in zip(p, q, strict=True)), Fraction(0)) / TOTAL


def _thresholds(
    source: random.Random, universe: Universe, inputs: dict[Database, Database], tables: int
) -> tuple[list[dict[Database, Row]], Pair]:
    """Follow A where there are enough of some records, else B: to remove one leads from A to B, or changes nothing."""
    outputs = source.choice([2, 3])
    a, b = (_random_row(source, outputs, zeros=source.random() < 0.3) for _ in range(2))
    made = []
    for _ in range(tables):
        some = source.sample(range(len(universe.members)), source.randint(1, len(universe.members)))
        least = source.randint(1, 2)
        order = source.sample(range(outputs), outputs)
        row_a, row_b = (tuple(row[k] for k in order) for row in (a, b))
        made.append({one: row_a if sum(r in some for r in one) >= least else row_b for one in inputs.values()})
    return made, Histogram(a, b)
