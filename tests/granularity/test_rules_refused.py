"""What the rules refuse, and that the text names the hypothesis; reasons stand in where a class is not listed."""

import math
from fractions import Fraction
from typing import Any

import pytest

from pbdist import InvalidInputError
from pbdist.granularity.canonical import CanonicalMetric, canonical_metric
from pbdist.granularity.databases import Multisets, OrderedDatabases, UserDatabases, symmetric_difference_size
from pbdist.granularity.notions import Bounded, GivenRelation, Unbounded, UserLevel
from pbdist.granularity.partitions import Compatibility, OrderPartition, PartedClass, RecordPartition
from pbdist.granularity.rules import (
    APPROXIMATE,
    CONCENTRATED,
    GAUSSIAN,
    PURE,
    parallel,
    parameters,
)
from pbdist.granularity.spaces import (
    ApproximatePrivacy,
    DatabaseClass,
    DatabaseMap,
    GaussianPrivacy,
    Metric,
    OnItsOwnDomain,
    OnTheCommonDomain,
    PurePrivacy,
    ScaledMetric,
    StarDistance,
)
from tests.granularity.rule_worlds import bounded, canonical, multisets, restricted, unbounded

DOMAIN = multisets("ab", 2)
METRIC = canonical(DOMAIN, unbounded, "d^U")
IDENTITY = DatabaseMap(DOMAIN, DOMAIN, lambda d: d, "id")
GIVEN = GivenRelation("given", unbounded)
STAR = StarDistance(DOMAIN, lambda a, b: int(a != b), "d^f")
#: Each accounting with its parameters.
ACCOUNTINGS = pytest.mark.parametrize(
    ("accounting", "given"),
    [(PURE, (1,)), (APPROXIMATE, (1, Fraction(1, 8))), (CONCENTRATED, (1,)), (GAUSSIAN, (1,))],
    ids=["pure", "approximate", "concentrated", "gaussian"],
)


def test_theorem_ii_8() -> None:
    assert parallel([0.5, 1, 0.25], ["ab", "c", "d"]) == 1
    with pytest.raises(InvalidInputError, match=r"II\.8: expected disjoint subsets, got 'b' in subset 1"):
        parallel([0.5, 1], ["ab", "bc"])
    with pytest.raises(InvalidInputError, match="one subset for each"):
        parallel([0.5, 1], ["ab"])


@ACCOUNTINGS
def test_private_star_is_no_metric(accounting: Any, given: Any) -> None:
    starred = accounting.notion(*[STAR] * len(given))
    for rule, known in (
        (accounting.composition, OnItsOwnDomain(starred, IDENTITY)),
        (accounting.sequential, starred),
        (accounting.common_domain, OnTheCommonDomain(starred, IDENTITY)),
    ):
        with pytest.raises(InvalidInputError, match=r"^Theorem .*expected a metric, got d\^f, which is private\* only"):
            rule([known])
    with pytest.raises(InvalidInputError, match=r"private\* is no metric"):
        ScaledMetric(STAR, 2)  # type: ignore[arg-type]


@ACCOUNTINGS
def test_mechanisms_of_another_kind_class_or_number(accounting: Any, given: Any) -> None:
    elsewhere = canonical(multisets("c", 1), unbounded)
    stated = accounting.privacy(METRIC, *given)
    here = OnItsOwnDomain(stated, IDENTITY)
    there = OnItsOwnDomain(
        accounting.privacy(elsewhere, *given), DatabaseMap(elsewhere.domain, elsewhere.domain, lambda d: d)
    )
    with pytest.raises(InvalidInputError, match="expected one class of databases"):
        accounting.composition([here, there])
    with pytest.raises(InvalidInputError, match="expected OnTheCommonDomain"):
        accounting.common_domain([here])
    with pytest.raises(InvalidInputError, match="expected OnItsOwnDomain"):
        accounting.composition([OnTheCommonDomain(stated, IDENTITY)])
    for rule in (accounting.composition, accounting.sequential, accounting.common_domain):
        with pytest.raises(InvalidInputError, match="give at least one mechanism"):
            rule([])
        with pytest.raises(InvalidInputError, match="a sequence of mechanisms"):
            rule(3)
    other = GaussianPrivacy(METRIC) if accounting is PURE else PurePrivacy(METRIC)
    with pytest.raises(InvalidInputError, match=f"expected {accounting.notion.__name__}"):
        accounting.sequential([other])
    with pytest.raises(InvalidInputError, match=r"^parameters: expected .*, got 3"):
        accounting.privacy(METRIC, 1, 1, 1)


def test_blocks_chosen_from_earlier_outputs() -> None:
    def chosen(output: int, database: Any) -> Any:
        return database if output else ()

    stated = PURE.privacy(METRIC, 1)
    with pytest.raises(InvalidInputError, match="chosen from earlier outputs are not covered"):
        OnItsOwnDomain(stated, chosen)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="chosen from earlier outputs are not covered"):
        OnTheCommonDomain(stated, chosen)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="chosen from earlier outputs are not covered"):
        DatabaseMap(DOMAIN, DOMAIN, chosen)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="expected Parts, or one DatabaseMap or more"):
        PartedClass([chosen], METRIC)  # type: ignore[list-item]


def test_names_tell_the_theorem() -> None:
    mechanism = OnItsOwnDomain(PURE.privacy(METRIC, 1), IDENTITY)
    assert "Theorem IV.1 (V.2)" in PURE.composition([mechanism]).distance.name


@ACCOUNTINGS
def test_partition_rules_refuse_what_is_missing(accounting: Any, given: Any) -> None:
    best, common, two = accounting.best_bound, accounting.best_bound_common_domain, accounting.bounded_partition
    fixed = multisets("abc", 2, 2)
    metric = canonical(fixed, bounded)
    maps = [restricted(fixed, keep, keep) for keep in "abc"]
    mechanisms = [OnTheCommonDomain(accounting.privacy(metric, *given), f) for f in maps]
    partition = PartedClass(maps, metric)
    with pytest.raises(InvalidInputError, match=r"compatible .*may differ in 2 parts: .*differ in: a, b"):
        common(mechanisms, partition)
    assert two(mechanisms, partition).distance.domain == fixed
    with pytest.raises(InvalidInputError, match="expected OnItsOwnDomain"):
        best(mechanisms, partition)
    with pytest.raises(InvalidInputError, match="one mechanism for each part"):
        two(mechanisms[:2], partition)
    with pytest.raises(InvalidInputError, match="one mechanism for each part"):
        two(mechanisms[::-1], partition)
    with pytest.raises(InvalidInputError, match="PartedClass"):
        two(mechanisms, maps)
    with pytest.raises(InvalidInputError, match="canonical metric of a granularity"):
        two(mechanisms, PartedClass(maps, Metric(fixed, metric.function)))
    foreign = [OnTheCommonDomain(accounting.privacy(canonical(fixed, bounded, "another"), *given), f) for f in maps]
    with pytest.raises(
        InvalidInputError, match=r"privacy: expected a statement for d of .*bounded.*, got one for d of .*another"
    ):
        two(foreign, partition)


@ACCOUNTINGS
def test_expanding_parts_and_missing_block_metrics(accounting: Any, given: Any) -> None:
    """f doubles every record: the parts of neighbours are two steps apart."""
    best, common, two = accounting.best_bound, accounting.best_bound_common_domain, accounting.bounded_partition
    wide = multisets("ab", 4)
    double = DatabaseMap(DOMAIN, wide, lambda d: tuple(sorted(d + d)), "twice")
    blocks = canonical(wide, unbounded)
    mechanism = OnItsOwnDomain(accounting.privacy(blocks, *given), double)
    with pytest.raises(InvalidInputError, match=r"expected Δp_i <= 1, got 2: .*differ in: twice"):
        best([mechanism], PartedClass([double], METRIC))
    unknown = DatabaseMap(DOMAIN, DatabaseClass("unknown"), lambda d: d, "p")
    declared = CanonicalMetric(METRIC.granularity, unknown.codomain, blocks.function, "for this test")
    with pytest.raises(InvalidInputError, match=r"expected Δp_i <= 1, got inf"):
        best(
            [OnItsOwnDomain(accounting.privacy(declared, *given), unknown)],
            PartedClass([unknown], METRIC, block_metrics=[declared]),
        )
    others = CanonicalMetric(Bounded(), unknown.codomain, blocks.function, "for this test")
    for other in (Metric(unknown.codomain, blocks.function), others):
        with pytest.raises(InvalidInputError, match=r"canonical metrics of .* on the parts"):
            PartedClass([unknown], METRIC, block_metrics=[other])
    assert (
        common([OnTheCommonDomain(accounting.privacy(METRIC, *given), double)], PartedClass([double], METRIC)).starred
        is False
    )
    assert (
        two([OnTheCommonDomain(accounting.privacy(METRIC, *given), double)], PartedClass([double], METRIC)).starred
        is False
    )


@ACCOUNTINGS
def test_reasons_where_a_class_is_not_listed(accounting: Any, given: Any) -> None:
    best, common, two = accounting.best_bound, accounting.best_bound_common_domain, accounting.bounded_partition
    everything = DatabaseClass("all multisets")
    parts = [DatabaseClass("multisets of 𝒳_1"), DatabaseClass("multisets of 𝒳_2")]

    def steps(a: Any, b: Any) -> int:
        return len(set(a) ^ set(b))

    for arguments, text in (
        ((), "or a declared distance"),
        ((steps,), "expected the reason"),
        ((steps, 1), "expected the re"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            CanonicalMetric(GIVEN, everything, *arguments)  # type: ignore[arg-type]
    metric = CanonicalMetric(GIVEN, everything, steps, "|D △ D'| counts records added and removed")
    blocks = [CanonicalMetric(GIVEN, part, steps, "the same") for part in parts]
    assert metric == CanonicalMetric(GIVEN, everything, steps, "another reason") != blocks[0]
    maps = [DatabaseMap(everything, part, lambda d: d, "p") for part in parts]
    own = [OnItsOwnDomain(accounting.privacy(block, *given), f) for f, block in zip(maps, blocks, strict=True)]
    shared = [OnTheCommonDomain(accounting.privacy(metric, *given), f) for f in maps]
    reason = "a record lies in one part (Example IV.4)"
    needed = ((best, own, 1, 1), (common, shared, 1, math.inf), (two, shared, 2, math.inf))
    for rule, known, most, sensitivity in needed:
        with pytest.raises(InvalidInputError, match="or a declared Compatibility with the reason"):
            rule(known, PartedClass(maps, metric, block_metrics=blocks))
        declared = Compatibility(most, sensitivity, False, reason)
        assert rule(known, PartedClass(maps, metric, block_metrics=blocks, declared=declared)).distance.base is metric
        for less in ((most + 1, sensitivity), (most, 2)) if rule is best else ((most + 1, sensitivity),):
            with pytest.raises(InvalidInputError, match=r"expected .*a record lies in one part"):
                rule(
                    known, PartedClass(maps, metric, block_metrics=blocks, declared=Compatibility(*less, False, reason))
                )
    with pytest.raises(InvalidInputError, match="or a declared distance"):
        best(own, PartedClass(maps, metric, declared=Compatibility(1, 1, False, reason)))


@ACCOUNTINGS
def test_full_universes_need_no_reasons(accounting: Any, given: Any) -> None:
    """Proved: records under unbounded, places under bounded; not records under bounded, also where I_p is 1."""
    best, common, two = accounting.best_bound, accounting.best_bound_common_domain, accounting.bounded_partition
    letters = RecordPartition(("a", "b"), {"a": "a", "b": "b", "c": "b"}.get)
    parity = OrderPartition(("odd", "even"), lambda place: "odd" if place % 2 else "even")
    alone = RecordPartition(("a",), {"a": "a"}.get)
    for parts, granularity, domain in (
        (letters, Unbounded(), Multisets("all")),
        (letters, Unbounded(), Multisets("all", records=tuple("abc"))),
        (RecordPartition((0, 1), lambda record: record[1]), Unbounded(), UserDatabases("users", records=3)),
        (RecordPartition((0, 1), lambda record: record[1]), UserLevel(1), UserDatabases("users", records=1)),
        (parity, Bounded(), OrderedDatabases("all")),
        (parity, Bounded(), OrderedDatabases("of five", size=5)),
    ):
        parted = PartedClass(parts, canonical_metric(granularity, domain))
        own = [
            OnItsOwnDomain(accounting.privacy(d, *given), f)
            for d, f in zip(parted.metrics, parts.maps(domain), strict=True)
        ]
        shared = [OnTheCommonDomain(accounting.privacy(parted.metric, *given), f) for f in parted.maps]
        expected = parameters(accounting.privacy(parted.metric, *given))
        assert parameters(best(own, parted), parted.metric) == expected
        assert parameters(common(shared, parted), parted.metric) == expected
        assert parameters(two(shared, parted)) >= expected
    moved = PartedClass(letters, canonical_metric(Bounded(), Multisets("all", records=tuple("abc"))))
    shared = [OnTheCommonDomain(accounting.privacy(moved.metric, *given), f) for f in moved.maps]
    with pytest.raises(InvalidInputError, match=r"expected a partition .* 2 parts: Proposition A\.5"):
        common(shared, moved)
    assert two(shared, moved).distance.base == moved.metric
    only = PartedClass(alone, canonical_metric(Bounded(), Multisets("all", records=tuple("ac"))))
    assert only.compatibility.most_touched <= 1
    with pytest.raises(InvalidInputError, match=r"Example III\.4"):
        accounting.privacy(only.metrics[0], *given)
    listed = PartedClass(alone, canonical_metric(Bounded(), multisets("ac", 2)))
    with pytest.raises(InvalidInputError, match=r"expected Δp_i <= 1, got inf"):
        listed.require_best_bound()


def test_the_metric_that_counts_records_commutes_over_full_universes() -> None:
    letters = RecordPartition(("a", "b"), {"a": "a", "b": "b"}.get)
    everything = Multisets("all")
    for metric in (Metric(everything, symmetric_difference_size), canonical_metric(Unbounded(), everything)):
        parted = PartedClass(letters, metric)
        own = [
            OnItsOwnDomain(PurePrivacy(ScaledMetric(d, epsilon)), f)
            for d, f, epsilon in zip(parted.metrics, parted.maps, (1, 3), strict=True)
        ]
        bound = PURE.commuting(own, parted)
        assert bound.distance(("a", "b"), ()) == 6
    other = PartedClass(letters, Metric(everything, lambda a, b: abs(len(a) - len(b))))
    own = [OnItsOwnDomain(PurePrivacy(ScaledMetric(d, 1)), f) for d, f in zip(other.metrics, other.maps, strict=True)]
    with pytest.raises(InvalidInputError, match=r"the commuting rule.*expected a class whose databases are listed"):
        PURE.commuting(own, other)
    vouched = PartedClass(letters, other.metric, block_metrics=other.metrics, commuting="for this test")
    assert PURE.commuting(own, vouched).distance.domain == everything


def test_metrics_are_one_for_each_class() -> None:
    again = DatabaseClass(DOMAIN.name, DOMAIN.databases)
    assert canonical_metric(Unbounded(), DOMAIN) is canonical_metric(Unbounded(), again)
    fresh = CanonicalMetric(Unbounded(), again)
    assert fresh == canonical_metric(Unbounded(), DOMAIN)
    assert hash(fresh) == hash(canonical_metric(Unbounded(), DOMAIN))
    assert fresh not in (METRIC, canonical_metric(Bounded(), DOMAIN), canonical_metric(Unbounded(), multisets("a", 2)))
    assert parameters(PURE.privacy(fresh, 2), canonical_metric(Unbounded(), DOMAIN)) == (2,)
    with pytest.raises(InvalidInputError, match="the distance is known; do not declare one"):
        CanonicalMetric(Unbounded(), DOMAIN, METRIC.function, "for this test")
    assert repr(DOMAIN) == "DatabaseClass(name='multisets of ab')"


def test_untouched_mechanisms_of_an_unlisted_class_lose_nothing() -> None:
    everything = DatabaseClass("all words")
    metric = CanonicalMetric(GIVEN, everything, lambda a, b: abs(len(a) - len(b)), "for this test")
    first = DatabaseMap(everything, everything, lambda word: word[:1], "first")
    star = PURE.common_domain([OnTheCommonDomain(PURE.privacy(metric, 2), first)])
    assert star.distance("ab", "abc") == 0
    assert star.distance("ab", "cba") == 2
    with pytest.raises(InvalidInputError, match="listed"):
        PURE.over_neighbours(star, metric)


def test_partitions_are_checked() -> None:
    elsewhere = canonical(multisets("c", 1), unbounded)
    for arguments, options, text in (
        (((), METRIC), {}, "one DatabaseMap or more"),
        (((IDENTITY,), STAR), {}, "expected a Metric"),
        ((3, METRIC), {}, "expected Parts"),
        (((IDENTITY,), elsewhere), {}, "expected maps from"),
        (((IDENTITY,), METRIC), {"block_metrics": [METRIC, METRIC]}, "one metric for each part"),
        (((IDENTITY,), METRIC), {"block_metrics": [STAR]}, "one metric for each part"),
        (((IDENTITY,), METRIC), {"declared": "a reason"}, "expected a Compatibility"),
        (((IDENTITY,), METRIC), {"commuting": True}, "commuting: expected a reason"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            PartedClass(*arguments, **options)  # type: ignore[arg-type]
    for values, text in (
        ((1, 1, False, ""), "reason: give the reason"),
        ((1, -1, False, "so"), "sensitivity: expected"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            Compatibility(*values)  # type: ignore[arg-type]


def test_group_rules_need_a_canonical_metric() -> None:
    plain = Metric(DOMAIN, METRIC.function)
    for made in (
        lambda: PURE.privacy(plain, 1),  # type: ignore[arg-type]
        lambda: APPROXIMATE.privacy(plain, 1, 0),  # type: ignore[arg-type]
        lambda: CONCENTRATED.privacy(plain, 1),  # type: ignore[arg-type]
        lambda: GAUSSIAN.privacy(plain, 1),  # type: ignore[arg-type]
        lambda: PURE.over_neighbours(PurePrivacy(plain), plain),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInputError, match="CanonicalMetric"):
            made()
    with pytest.raises(InvalidInputError, match=r"VI\.20: expected GaussianPrivacy"):
        GAUSSIAN.over_neighbours(PurePrivacy(plain), METRIC)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="a parameter times a metric"):
        parameters(PurePrivacy(plain))
    mixed = ApproximatePrivacy(ScaledMetric(METRIC, 1), STAR)
    with pytest.raises(InvalidInputError, match=r"made by APPROXIMATE\.privacy"):
        parameters(mixed)
    for bad in (-1, float("nan"), "1", True, None):
        with pytest.raises(InvalidInputError, match="expected a number of at least 0"):
            PURE.privacy(METRIC, bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="expected a probability"):
        APPROXIMATE.privacy(METRIC, 1, 2)


def test_a_rule_without_a_theorem_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"^commuting: no theorem gives this rule for ApproximatePrivacy$"):
        APPROXIMATE.commuting([], PartedClass([IDENTITY], METRIC))


def test_touched_is_checked() -> None:
    for made, text in (
        (lambda: PURE.for_numbers(0, [1]), "at least 1"),
        (lambda: PURE.for_numbers(True, [1]), "at least 1"),
        (lambda: PURE.for_numbers([], [1]), "one change or more"),
        (lambda: PURE.for_numbers({0: 1}, [1]), "one change or more"),
        (lambda: PURE.for_numbers([{2}], [1, 2])[0], "numbers of mechanisms below 2"),
        (lambda: PURE.for_numbers([{1: -1}], [1, 2])[0], "at least 0"),
        (lambda: PURE.for_numbers("each", [])[0], "give at least one number"),
        (lambda: PURE.for_numbers("each", 1)[0], "one number for each mechanism"),
        (lambda: PURE.for_numbers("all", [1])[0], "expected each, a number"),
        (lambda: APPROXIMATE.for_numbers("each", [1], [0.1, 0.1]), "one for each ε"),
        (lambda: APPROXIMATE.for_numbers("each", [1], [1.5]), "a probability"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            made()
