"""Parts of databases and what neighbours do to them: IV.4 to IV.7, A.4 to A.6, II.9."""

import math
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from pbdist.errors import InvalidInputError
from pbdist.granularity.canonical import canonical_metric, is_totally_disconnected, neighbours
from pbdist.granularity.databases import (
    Multisets,
    OrderedDatabases,
    UserDatabases,
    listed_multisets,
    symmetric_difference_size,
)
from pbdist.granularity.notions import Bounded, FreeLunch, Granularity, Unbounded, UserLevel
from pbdist.granularity.partitions import (
    OrderPartition,
    OverlappingParts,
    Parts,
    RecordPartition,
    commutes,
    compatibility,
    touched,
)
from pbdist.granularity.preprocessing import pulled_back
from pbdist.granularity.spaces import DatabaseClass, Metric, OnItsOwnDomain, PurePrivacy
from tests.granularity.worlds import OF_THREE, TABLES, ordered, told, users

LETTERS = tuple("abc")
#: Exhaustive: one block a record. Not exhaustive: c is in no block.
EACH = RecordPartition(LETTERS, lambda record: record)
PAIRED = RecordPartition(("ab", "c"), lambda record: "c" if record == "c" else "ab")
WITHOUT_C = RecordPartition(("a", "b"), lambda record: None if record == "c" else record)
ONE_BLOCK = RecordPartition(("all",), dict.fromkeys(LETTERS, "all").__getitem__)
ONE_RECORD = RecordPartition(("a",), lambda record: "a" if record == "a" else None)
NOTHING = RecordPartition(("a",), {}.get)
OVERLAPPING = OverlappingParts((1, 2, 3, 4), lambda record: {"a": (1, 2), "b": (2, 3), "c": ()}[record], 2)
EVERYWHERE = OverlappingParts((1, 2, 3), dict.fromkeys(LETTERS, (1, 2)).__getitem__, 2)
BY_VALUE = RecordPartition((0, 1), lambda record: record[1])
BY_USER = RecordPartition(tuple("uv"), lambda record: record[0])
BOTH_VALUES = OverlappingParts((0, 1, 2), lambda record: (record[1], 2), 2)
PARITY = OrderPartition(("odd", "even"), lambda place: "odd" if place % 2 else "even")
FIRST = OrderPartition(("first", "others"), lambda place: "first" if place == 1 else "others" if place == 2 else None)

RECORD_PARTS: list[Parts] = [EACH, PAIRED, WITHOUT_C, ONE_BLOCK, ONE_RECORD, NOTHING, OVERLAPPING, EVERYWHERE]
ALL = Multisets("all", records=LETTERS)


def changes(parts: Parts, granularity: Granularity, domain: DatabaseClass) -> list[tuple[int, float]]:
    """How many parts each two neighbours differ in, and the largest distance of two parts, by searches alone."""
    maps = parts.maps(domain)
    metrics = [canonical_metric(granularity, reads.codomain) for reads in maps]
    return [
        (
            sum(reads(first) != reads(second) for reads in maps),
            max(metric(reads(first), reads(second)) for metric, reads in zip(metrics, maps, strict=True)),
        )
        for first, second in neighbours(granularity, domain)
    ]


#: Parts and granularities over a universe, with a listed part of it in which the worst neighbours occur.
CASES: list[tuple[Parts, Granularity, DatabaseClass, DatabaseClass]] = [
    *((parts, Unbounded(), ALL, TABLES) for parts in RECORD_PARTS),
    *((parts, Bounded(), ALL, TABLES) for parts in RECORD_PARTS),
    *((parts, Bounded(), Multisets("of three", size=3, records=LETTERS), OF_THREE) for parts in RECORD_PARTS),
    *((parts, Unbounded(), UserDatabases("users", records=2), users(2)) for parts in (BY_VALUE, BY_USER, BOTH_VALUES)),
    *((parts, UserLevel(2), UserDatabases("users", records=2), users(2)) for parts in (BY_VALUE, BY_USER, BOTH_VALUES)),
    *((parts, Bounded(), UserDatabases("users", records=2), users(2)) for parts in (BY_VALUE, BY_USER, BOTH_VALUES)),
    *((parts, Bounded(), OrderedDatabases("ordered"), ordered((0, 1, 2, 3))) for parts in (PARITY, FIRST)),
    *((parts, Bounded(), OrderedDatabases("of three", size=3), ordered((3,))) for parts in (PARITY, FIRST)),
]


@pytest.mark.parametrize(("parts", "granularity", "universe", "listed"), CASES, ids=told)
def test_neighbours_do_to_parts_what_is_told(
    parts: Parts, granularity: Granularity, universe: DatabaseClass, listed: DatabaseClass
) -> None:
    """The listed class exactly; the universe never below, for what is told there is an upper bound."""
    found = changes(parts, granularity, listed)
    seen, proved = compatibility(parts, granularity, listed), compatibility(parts, granularity, universe)
    assert seen.exact
    assert not proved.exact
    assert seen.most_touched == max(count for count, _ in found) <= proved.most_touched
    assert seen.sensitivity == max(largest for _, largest in found) <= proved.sensitivity


@pytest.mark.parametrize(("parts", "granularity", "universe", "listed"), CASES[:16], ids=told)
def test_what_is_proved_over_known_records_is_sharp(
    parts: Parts, granularity: Granularity, universe: DatabaseClass, listed: DatabaseClass
) -> None:
    seen, proved = compatibility(parts, granularity, listed), compatibility(parts, granularity, universe)
    if parts not in (NOTHING, OVERLAPPING):
        assert (proved.most_touched, proved.sensitivity) == (seen.most_touched, seen.sensitivity)


def test_partitions_by_record_are_compatible_with_unbounded_alone() -> None:
    """Before IV.7, and Proposition A.5 with its pair {a, a, a} and {a, a, b}."""
    record = compatibility(EACH, Unbounded(), TABLES)
    assert (record.most_touched, record.sensitivity) == (1, 1)
    assert len(touched(EACH.maps(TABLES), ("a", "a", "a"), ("a", "a", "b"))) == 2
    for domain in (TABLES, OF_THREE, ALL):
        changed = compatibility(EACH, Bounded(), domain)
        assert (changed.most_touched, changed.sensitivity) == (2, math.inf)
    unknown = compatibility(EACH, Bounded(), Multisets("unknown records"))
    assert (unknown.most_touched, unknown.sensitivity) == (2, math.inf)


def test_partitions_by_place_are_compatible_with_bounded() -> None:
    """Example IV.7: I_p = 1 and Δp = 1."""
    for domain in (ordered((0, 1, 2, 3)), ordered((3,)), OrderedDatabases("all")):
        found = compatibility(PARITY, Bounded(), domain)
        assert (found.most_touched, found.sensitivity) == (1, 1)


def test_compatible_parts_may_still_have_infinite_sensitivity() -> None:
    """A record that leaves the only part changes its size: I_p = 1 alone is not enough for Theorem IV.6."""
    found = compatibility(ONE_RECORD, Bounded(), TABLES)
    assert (found.most_touched, found.sensitivity) == (1, math.inf)


def test_the_trap_of_counts_on_disjoint_parts() -> None:
    """Example II.9: each count is bounded 0-DP over its own domain, and the counts (1, 0) and (0, 1) tell all."""
    domain = listed_multisets("all", ("x1", "x2"), range(3))
    maps = RecordPartition((1, 2), lambda record: int(record[1])).maps(domain)
    first, second = ("x1",), ("x2",)
    assert Bounded().relation(first, second)
    assert [(len(reads(first)), len(reads(second))) for reads in maps] == [(1, 0), (0, 1)]
    for reads in maps:
        own = canonical_metric(Bounded(), reads.codomain)
        listed = reads.codomain.listed("this test")
        assert all(len(a) == len(b) for a, b in product(listed, repeat=2) if own(a, b) < math.inf)
        stated = OnItsOwnDomain(PurePrivacy(own), reads)
        assert pulled_back(stated).distance(first, second) == math.inf


@pytest.mark.parametrize("parts", RECORD_PARTS, ids=told)
def test_the_symmetric_difference_commutes_with_partitions(parts: Parts) -> None:
    """Proposition A.4."""
    maps = parts.maps(TABLES)
    summed = all(
        sum(symmetric_difference_size(reads(a), reads(b)) for reads in maps) <= symmetric_difference_size(a, b)
        for a, b in product(TABLES.listed("this test"), repeat=2)
    )
    found = commutes(parts, Metric(TABLES, symmetric_difference_size))
    assert found == summed == isinstance(parts, RecordPartition)
    if found:
        assert commutes(parts, Metric(ALL, symmetric_difference_size))
        assert commutes(parts, canonical_metric(Unbounded(), ALL))


def test_a_metric_of_one_size_is_no_symmetric_difference() -> None:
    """All records in one part of databases of one size: unbounded distances there are ∞, and |D △ D'| is not."""
    two = Multisets("two", size=2, records=LETTERS)
    metric, (part,) = Metric(two, symmetric_difference_size), ONE_BLOCK.maps(two)
    unbounded = canonical_metric(Unbounded(), part.codomain)
    assert unbounded(("a", "a"), ("a", "b")) == math.inf > metric(("a", "a"), ("a", "b"))
    with pytest.raises(InvalidInputError, match="expected a class whose databases are listed"):
        commutes(ONE_BLOCK, metric, [unbounded])
    assert commutes(ONE_BLOCK, metric)


def test_its_root_does_not_commute() -> None:
    root = Metric(TABLES, symmetric_difference_size, squared=True)
    assert not commutes(EACH, root)
    maps = EACH.maps(ALL)
    blocks = [Metric(reads.codomain, symmetric_difference_size, squared=True) for reads in maps]
    with pytest.raises(InvalidInputError, match="databases are listed"):
        commutes(EACH, Metric(ALL, symmetric_difference_size, squared=True), blocks)


def test_half_of_it_where_sizes_are_equal_does_not_commute() -> None:
    closed = Bounded().closed_form(ALL)
    assert closed is not None
    assert not commutes(EACH, Metric(TABLES, closed))
    assert commutes(PARITY, Metric(ordered((3,)), closed))


@pytest.mark.parametrize("records", [5, 10])
def test_ambulances_of_up_to_three_hospitals(records: int) -> None:
    """Example IV.5: k hospitals, and 3 of them for each ambulance."""
    ambulances = tuple(
        (name, frozenset({name % records, (name + 1) % records, (name + 4) % records})) for name in (0, 3)
    )
    parts = OverlappingParts(tuple(range(records)), lambda record: record[1], 3)
    universe = compatibility(parts, Unbounded(), Multisets("all", records=ambulances))
    assert (universe.most_touched, universe.sensitivity) == (3, 1)
    listed = compatibility(parts, Unbounded(), listed_multisets("some", ambulances, range(4)))
    assert (listed.most_touched, listed.sensitivity) == (3, 1)
    assert Fraction(1, 10) * listed.most_touched == Fraction(3, 10)


def test_parts_of_universes_are_universes() -> None:
    by_letter = PAIRED.maps(ALL)
    assert by_letter[0].codomain == Multisets("part 'ab' of all", records=("a", "b"))
    assert by_letter[1].codomain == Multisets("part 'c' of all", records=("c",))
    assert NOTHING.maps(ALL)[0].codomain == DatabaseClass("part 'a' of all", ((),))
    assert ONE_BLOCK.maps(Multisets("two", size=2, records=LETTERS))[0].codomain == Multisets(
        "part 'all' of two", size=2, records=LETTERS
    )
    assert BY_USER.maps(UserDatabases("users", records=2))[0].codomain == UserDatabases("part 'u' of users", records=2)
    assert PARITY.maps(OrderedDatabases("all"))[0].codomain == OrderedDatabases("part 'odd' of all", some_places=True)
    assert [reads.codomain for reads in FIRST.maps(OrderedDatabases("one", size=1))] == [
        OrderedDatabases("part 'first' of one", size=1, some_places=True),
        DatabaseClass("part 'others' of one", ((),)),
    ]
    assert by_letter == PAIRED.maps(ALL)
    assert by_letter[0](("a", "b", "b", "c")) == ("a", "b", "b")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: RecordPartition((), lambda record: record), "blocks: expected one or more, each once"),
        (lambda: RecordPartition((1, 1), lambda record: record), "blocks: expected one or more, each once"),
        (lambda: RecordPartition((1,), lambda record: record).part(("a",), 1), "expected blocks among"),
        (
            lambda: OverlappingParts((1, 2), {"a": (1, 2)}.__getitem__, 1).part(("a",), 1),
            "expected records in at most 1",
        ),
        (lambda: OverlappingParts((1, 2), {"a": (1, 2)}.__getitem__, 0), "whole number of at least 1"),
        (lambda: PARITY.part(((2, "a"),), "odd"), r"expected records \(n, x\) with n = 1"),
        (lambda: PARITY.part(("a",), "odd"), r"expected records \(n, x\) with n = 1"),
        (lambda: EACH.part(("b", "a"), "a"), "expected a multiset"),
        (lambda: compatibility(EACH, Unbounded(), OF_THREE), "every mechanism would be 0-private"),
        (lambda: compatibility(EACH, Unbounded(), Multisets("three", size=3)), "every mechanism would be 0-private"),
        (lambda: compatibility(EACH, FreeLunch(), ALL), "whose compatibility with FreeLunch.. over all is proved"),
        (lambda: compatibility(PARITY, Bounded(), ALL), "whose compatibility with Bounded.. over all is proved"),
        (lambda: commutes(EACH, Metric(ALL, Bounded().relation)), "expected a class whose databases are listed"),
        (
            lambda: commutes(OVERLAPPING, Metric(ALL, symmetric_difference_size)),
            "expected a class whose databases are listed",
        ),
    ],
)
def test_what_is_wrong_is_refused(made: Any, text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        made()


def test_metrics_over_parts_of_universes_are_known() -> None:
    """So that privacy over a part can be told without a list."""
    metric = canonical_metric(Unbounded(), PAIRED.maps(ALL)[0].codomain)
    assert isinstance(metric, Metric)
    assert metric(("a", "b"), ("b", "b")) == 2
    for domain in (Multisets("part 'a' of all", records=("a",)), listed_multisets("some", "a", range(4))):
        assert not is_totally_disconnected(Unbounded(), domain)
        assert is_totally_disconnected(Bounded(), domain)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_metrics_over_parts_of_ordered_databases_are_what_a_search_finds(size: int) -> None:
    for parts in (PARITY, FIRST):
        for whole, listed in zip(
            parts.maps(OrderedDatabases("all", size=size)), parts.maps(ordered((size,))), strict=True
        ):
            known, found = (canonical_metric(Bounded(), reads.codomain) for reads in (whole, listed))
            databases = listed.codomain.listed("this test")
            assert all(known(a, b) == found(a, b) for a, b in product(databases, repeat=2))
            sizes = range(size + 1)
            every = parts.maps(ordered(tuple(sizes)))[parts.maps(ordered((size,))).index(listed)]
            over_all = canonical_metric(Bounded(), OrderedDatabases("all", some_places=True))
            among = canonical_metric(Bounded(), every.codomain)
            found_there = every.codomain.listed("this test")
            assert all(over_all(a, b) == among(a, b) for a, b in product(found_there, repeat=2))
