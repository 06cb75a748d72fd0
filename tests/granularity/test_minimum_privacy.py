"""Minimum privacy: IV.8, IV.10, A.12 as corrected, A.14, and IV.15 in its sharp form."""

import math
import random
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from pbdist.errors import InvalidInputError
from pbdist.granularity.canonical import canonical_metric
from pbdist.granularity.databases import Multisets, listed_multisets, one_sided, symmetric_difference_size
from pbdist.granularity.notions import Bounded, EdgeLevel, Granularity, NodeLevel, Unbounded, UserLevel
from pbdist.granularity.preprocessing import minimum_privacy
from pbdist.granularity.spaces import (
    ApproximatePrivacy,
    DatabaseClass,
    DatabaseMap,
    GaussianPrivacy,
    Metric,
    OnTheCommonDomain,
    PurePrivacy,
    StarDistance,
    ZeroConcentratedPrivacy,
)
from tests.effort import SEED, times
from tests.granularity.worlds import OF_THREE, TABLES, graphs, told, users

Table = dict[Any, list[Fraction]]


def least(metric: Metric | StarDistance, reads: DatabaseMap, first: Any, second: Any) -> float:
    """Proposition IV.10 to the letter."""
    listed = reads.domain.listed("this test")
    pairs = product(listed, repeat=2)
    return min(metric(a, b) for a, b in pairs if reads(a) == reads(first) and reads(b) == reads(second))


def random_table(chance: random.Random, reads: DatabaseMap, lowest: int = 1) -> Table:
    """A random mechanism that depends on f(D) alone."""
    rows: dict[Any, list[Fraction]] = {}
    for one in reads.domain.listed("this test"):
        weights = [chance.randint(lowest, 5) for _ in range(3)]
        weights[0] += not any(weights)
        rows.setdefault(reads(one), [Fraction(weight, sum(weights)) for weight in weights])
    return {one: rows[reads(one)] for one in reads.domain.listed("this test")}


def largest_ratio(table: Table, first: Any, second: Any) -> Fraction:
    return max(p / q for p, q in zip(table[first], table[second], strict=True))


def hockey_stick(table: Table, first: Any, second: Any, factor: Fraction) -> Fraction:
    return sum(
        (max(p - factor * q, Fraction(0)) for p, q in zip(table[first], table[second], strict=True)), Fraction(0)
    )


def part_map(domain: DatabaseClass, keep: Callable[[Any], bool]) -> DatabaseMap:
    return DatabaseMap(domain, DatabaseClass("parts"), lambda one: tuple(x for x in one if keep(x)), "a part")


def two_degrees(one: Any) -> tuple[int, int]:
    return len(one[0]), min(len(one[1]), 2)


#: Granularities, listed classes, and what the mechanism reads.
READ: list[tuple[Granularity, DatabaseMap]] = [
    (Unbounded(), part_map(TABLES, lambda record: record != "c")),
    (Bounded(), part_map(TABLES, lambda record: record != "c")),
    (Bounded(), part_map(OF_THREE, lambda record: record == "a")),
    (UserLevel(2), part_map(users(2), lambda record: record[1] == 0)),
    (EdgeLevel(), DatabaseMap(graphs(3, 3), DatabaseClass("numbers"), two_degrees, "sizes")),
    (NodeLevel(), DatabaseMap(graphs(3, 3), DatabaseClass("numbers"), two_degrees, "sizes")),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", READ, ids=told)
@pytest.mark.parametrize("part", range(times(4)))
def test_minimum_privacy_is_exact_and_bounds_every_loss(case: Any, part: int) -> None:
    """IV.10 by brute force, and the losses of random mechanisms in fractions: e^loss <= (e^ε)^(d^f)."""
    granularity, reads = case
    chance = random.Random(f"{SEED} {part} {granularity!r}")  # noqa: S311 -- no secret
    metric = canonical_metric(granularity, reads.domain)
    found = minimum_privacy(OnTheCommonDomain(PurePrivacy(metric), reads))
    assert isinstance(found, PurePrivacy)
    assert found.starred
    table = random_table(chance, reads)
    listed = reads.domain.listed("this test")
    base = max(largest_ratio(table, a, b) for a, b in product(listed, repeat=2) if metric(a, b) == 1)
    for first, second in product(chance.sample(listed, min(8, len(listed))), repeat=2):
        distance = found.distance(first, second)
        assert distance == least(metric, reads, first, second) <= metric(first, second)
        if distance < math.inf:
            assert largest_ratio(table, first, second) <= base**distance


def test_the_minimum_need_not_be_a_metric() -> None:
    """Why it is private* only: 0 to 1 and 1 to 2 are one step each, and 0 to 2 are not two."""
    line = DatabaseClass("line", ((0, 0), (1, 0), (1, 9), (2, 9)))
    metric = Metric(line, lambda one, other: abs(one[0] - other[0]) + abs(one[1] - other[1]))
    reads = DatabaseMap(line, DatabaseClass("numbers"), lambda one: one[0])
    distance = minimum_privacy(OnTheCommonDomain(PurePrivacy(metric), reads)).distance
    assert isinstance(distance, StarDistance)
    assert distance((0, 0), (1, 9)) == distance((1, 0), (2, 9)) == 1
    assert distance((0, 0), (2, 9)) == 11


def printed_delta(privacy: ApproximatePrivacy, reads: DatabaseMap, first: Any, second: Any) -> float:
    """δ^f of Proposition A.12 as it is printed: of any pair at the distance d^f(D, D')."""
    distance = least(privacy.distance, reads, first, second)
    pairs = product(reads.domain.listed("this test"), repeat=2)
    return min(privacy.delta(a, b) for a, b in pairs if privacy.distance(a, b) == distance)


def test_the_printed_approximate_minimum_is_false() -> None:
    """f = id, k = 1: the identity is (0, 1)-private for different databases, and would be certified (0, 0)-private."""
    two = DatabaseClass("two", (0, 1))
    identity = DatabaseMap(two, two, lambda one: one, "identity")
    nowhere = Metric(two, lambda *_: 0)
    privacy = ApproximatePrivacy(nowhere, StarDistance(two, lambda one, other: int(one != other)))
    revealing = {0: [Fraction(1), Fraction(0)], 1: [Fraction(0), Fraction(1)]}
    truth = hockey_stick(revealing, 0, 1, Fraction(1))
    assert printed_delta(privacy, identity, 0, 1) == 0 < truth == 1
    found = minimum_privacy(OnTheCommonDomain(privacy, identity))
    assert isinstance(found, ApproximatePrivacy)
    assert (found.distance(0, 1), found.delta(0, 1)) == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(times(30)))
def test_the_corrected_approximate_minimum_holds(part: int) -> None:
    """Random mechanisms with their exact δ of every pair: never above δ^f, which the printed form is below at times."""
    chance = random.Random(f"{SEED} {part}")  # noqa: S311 -- no secret
    granularity, reads = READ[part % len(READ)]
    metric = canonical_metric(granularity, reads.domain)
    table = random_table(chance, reads, lowest=0)
    factor = Fraction(chance.randint(4, 8), 4)
    delta = StarDistance(
        reads.domain,
        lambda a, b: hockey_stick(table, a, b, factor ** metric(a, b)) if metric(a, b) < math.inf else Fraction(0),
    )
    found = minimum_privacy(OnTheCommonDomain(ApproximatePrivacy(metric, delta), reads))
    assert isinstance(found, ApproximatePrivacy)
    listed = reads.domain.listed("this test")
    for first, second in product(chance.sample(listed, min(8, len(listed))), repeat=2):
        distance = found.distance(first, second)
        assert distance == least(metric, reads, first, second)
        if distance < math.inf:
            assert hockey_stick(table, first, second, factor**distance) <= found.delta(first, second)


@pytest.mark.parametrize("kind", [PurePrivacy, ZeroConcentratedPrivacy, GaussianPrivacy])
def test_every_kind_keeps_its_kind(kind: Any) -> None:
    """Proposition A.14: the least d² is the square of the least d."""
    granularity, reads = READ[1]
    metric = canonical_metric(granularity, reads.domain)
    found = minimum_privacy(OnTheCommonDomain(kind(metric), reads))
    assert type(found) is kind
    assert found.starred
    assert found.distance(("a", "b"), ("c",)) == 2


def bounded_minimum(universe: Multisets, kept: str) -> Metric:
    r"""max(|A \ B|, |B \ A|) of the records that are read, beside some that are not."""

    def part(database: Any) -> Any:
        return tuple(record for record in database if record in kept)

    return Metric(universe, lambda first, second: max(one_sided(part(first), part(second))))


@pytest.mark.parametrize(
    ("domain", "universe", "kept"),
    [
        (listed_multisets("up to four", "abx", range(5)), Multisets("all"), "ab"),
        (listed_multisets("up to three", "abxy", range(4)), Multisets("all"), "ab"),
        (listed_multisets("of four", "abx", [4]), Multisets("of four", size=4), "ab"),
        (listed_multisets("of three", "abxy", [3]), Multisets("of three", size=3), "a"),
        (listed_multisets("of three", "abxy", [3]), Multisets("of three", size=3), ""),
    ],
    ids=lambda one: told(one) if isinstance(one, DatabaseClass) else one,
)
def test_the_closed_form_of_bounded_is_the_minimum(domain: DatabaseClass, universe: Multisets, kept: str) -> None:
    r"""IV.15: max(|A \ B|, |B \ A|) is what IV.10 gives, is a metric, and is never above what the paper prints."""
    closed = bounded_minimum(universe, kept)
    reads = part_map(domain, kept.__contains__)
    metric = canonical_metric(Bounded(), domain)
    found = minimum_privacy(OnTheCommonDomain(PurePrivacy(metric), reads)).distance
    listed = domain.listed("this test")
    for first, second in product(listed, repeat=2):
        sharp = closed(first, second)
        assert sharp == found(first, second)
        assert sharp <= min(metric(first, second), symmetric_difference_size(reads(first), reads(second)))
    # It depends on the parts alone, which are databases of the universe without a size.
    of_parts = bounded_minimum(Multisets("all"), kept)
    for one, other, third in product({reads(one) for one in listed}, repeat=3):
        assert of_parts(one, third) <= of_parts(one, other) + of_parts(other, third)


def test_two_records_for_two_others_are_two_and_not_four() -> None:
    """IV.15 with {a, b} and {c, d}, beside records that are not read."""
    universe = Multisets("all", records=tuple("abcdx"))
    closed = bounded_minimum(universe, "abcd")
    first, second = ("a", "b", "x"), ("c", "d")
    bounded = canonical_metric(Bounded(), universe)(first, second)
    assert min(bounded, symmetric_difference_size(("a", "b"), ("c", "d"))) == 4
    assert closed(first, second) == 2
    some = listed_multisets("some", "abcdx", (2, 3))
    reads = part_map(some, "abcd".__contains__)
    metric = canonical_metric(Bounded(), some)
    assert minimum_privacy(OnTheCommonDomain(PurePrivacy(metric), reads)).distance(first, second) == 2


def test_the_printed_form_is_no_metric() -> None:
    """min(d, |A △ B|) breaks the triangle inequality over {a, b, x}, {x, c, d} and {c, d}."""

    def printed(one: Any, other: Any) -> float:
        a, b = (tuple(record for record in each if record != "x") for each in (one, other))
        return min(canonical_metric(Bounded(), Multisets("all"))(one, other), symmetric_difference_size(a, b))

    first, middle, last = ("a", "b", "x"), ("c", "d", "x"), ("c", "d")
    assert printed(first, middle) + printed(middle, last) == 2 < printed(first, last) == 4


def test_without_a_record_outside_the_closed_form_is_false() -> None:
    """With 𝒴 = 𝒳 databases of different sizes are infinitely far apart."""
    domain = listed_multisets("some", "ab", range(4))
    reads = part_map(domain, "ab".__contains__)
    metric = canonical_metric(Bounded(), domain)
    found = minimum_privacy(OnTheCommonDomain(PurePrivacy(metric), reads)).distance
    assert found(("a",), ("a", "b")) == math.inf


def test_values_that_cannot_be_hashed_and_databases_of_another_class_are_refused() -> None:
    lists = DatabaseMap(TABLES, DatabaseClass("lists"), list, "a list")
    metric = canonical_metric(Unbounded(), TABLES)
    with pytest.raises(InvalidInputError, match="a list: expected values that can be hashed"):
        minimum_privacy(OnTheCommonDomain(PurePrivacy(metric), lists))
    reads = READ[0][1]
    found = minimum_privacy(OnTheCommonDomain(PurePrivacy(metric), reads)).distance
    with pytest.raises(InvalidInputError, match="expected one of tables, got"):
        found((), ("z",))
