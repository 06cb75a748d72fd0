"""What the rules refuse, and that the text names the hypothesis; reasons stand in where a class is not listed."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from pbdist import InvalidInputError
from pbdist.granularity.canonical import CanonicalMetric, canonical_metric
from pbdist.granularity.compatibility import Compatibility
from pbdist.granularity.distances import ScaledMetric
from pbdist.granularity.multisets import symmetric_difference_size
from pbdist.granularity.notions import Bounded, GivenRelation, Unbounded, UserLevel
from pbdist.granularity.parted import PartedClass
from pbdist.granularity.partitions import OrderPartition, RecordPartition
from pbdist.granularity.rules import (
    approximate,
    for_numbers,
    gaussian,
    group,
    post_processing,
    pure,
    zero_concentrated,
)
from pbdist.granularity.spaces import DatabaseClass, DatabaseMap, Metric, StarDistance
from pbdist.granularity.statements import (
    ApproximatePrivacy,
    GaussianPrivacy,
    OnItsOwnDomain,
    OnTheCommonDomain,
    PurePrivacy,
    ZeroConcentratedPrivacy,
)
from pbdist.granularity.universes import Multisets, OrderedDatabases, UserDatabases
from tests.granularity.rules.rule_worlds import bounded, canonical, multisets, restricted, unbounded

DOMAIN = multisets("ab", 2)
METRIC = canonical(DOMAIN, unbounded, "d^U")
IDENTITY = DatabaseMap(DOMAIN, DOMAIN, lambda d: d, "id")
GIVEN = GivenRelation("given", unbounded)
STAR = StarDistance(DOMAIN, lambda a, b: int(a != b), "d^f")
NOTIONS: list[tuple[Any, Any, Any, Any]] = [
    (PurePrivacy(STAR), pure.pure_composition, pure.pure_sequential, pure.pure_common_domain),
    (
        ApproximatePrivacy(STAR, STAR),
        approximate.approximate_composition,
        approximate.approximate_sequential,
        approximate.approximate_common_domain,
    ),
    (
        ZeroConcentratedPrivacy(STAR),
        zero_concentrated.concentrated_composition,
        zero_concentrated.concentrated_sequential,
        zero_concentrated.concentrated_common_domain,
    ),
    (
        GaussianPrivacy(STAR),
        gaussian.gaussian_composition,
        gaussian.gaussian_sequential,
        gaussian.gaussian_common_domain,
    ),
]


@pytest.mark.parametrize(("starred", "own", "sequential", "common"), NOTIONS)
def test_private_star_is_no_metric(starred: Any, own: Any, sequential: Any, common: Any) -> None:
    for rule, given in (
        (own, OnItsOwnDomain(starred, IDENTITY)),
        (sequential, starred),
        (common, OnTheCommonDomain(starred, IDENTITY)),
    ):
        with pytest.raises(InvalidInputError, match=r"^Theorem .*expected a metric, got d\^f, which is private\* only"):
            rule([given])
    with pytest.raises(InvalidInputError, match=r"private\* is no metric"):
        ScaledMetric(STAR, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize(("starred", "own", "sequential", "common"), NOTIONS)
def test_mechanisms_of_another_kind_class_or_number(starred: Any, own: Any, sequential: Any, common: Any) -> None:
    notion = type(starred)
    elsewhere = canonical(multisets("c", 1), unbounded)

    def stated(metric: Metric) -> Any:
        star = StarDistance(metric.domain, lambda _a, _b: 0)
        return notion(metric, star) if notion is ApproximatePrivacy else notion(metric)

    here = OnItsOwnDomain(stated(METRIC), IDENTITY)
    there = OnItsOwnDomain(stated(elsewhere), DatabaseMap(elsewhere.domain, elsewhere.domain, lambda d: d))
    with pytest.raises(InvalidInputError, match="expected one class of databases"):
        own([here, there])
    with pytest.raises(InvalidInputError, match="expected OnTheCommonDomain"):
        common([here])
    with pytest.raises(InvalidInputError, match="expected OnItsOwnDomain"):
        own([OnTheCommonDomain(stated(METRIC), IDENTITY)])
    for rule in (own, sequential, common):
        with pytest.raises(InvalidInputError, match="one mechanism or more"):
            rule([])
        with pytest.raises(InvalidInputError, match="a sequence of mechanisms"):
            rule(3)
    other = PurePrivacy(METRIC) if notion is not PurePrivacy else GaussianPrivacy(METRIC)
    with pytest.raises(InvalidInputError, match=f"expected {notion.__name__}"):
        sequential([other])


def test_blocks_chosen_from_earlier_outputs() -> None:
    def chosen(output: int, database: Any) -> Any:
        return database if output else ()

    stated = group.pure_privacy(1, METRIC)
    with pytest.raises(InvalidInputError, match="chosen from earlier outputs are not covered"):
        OnItsOwnDomain(stated, chosen)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="chosen from earlier outputs are not covered"):
        OnTheCommonDomain(stated, chosen)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="chosen from earlier outputs are not covered"):
        DatabaseMap(DOMAIN, DOMAIN, chosen)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="expected Parts, or one DatabaseMap or more"):
        PartedClass([chosen], METRIC)  # type: ignore[list-item]
    with pytest.raises(InvalidInputError, match="True or False"):
        pure.pure_composition([OnItsOwnDomain(stated, IDENTITY)], adaptive="yes")  # type: ignore[arg-type]


def test_names_tell_the_theorem() -> None:
    mechanism = OnItsOwnDomain(group.pure_privacy(1, METRIC), IDENTITY)
    assert "Theorem IV.1" in pure.pure_composition([mechanism]).distance.name
    assert "Theorem V.2" in pure.pure_composition([mechanism], adaptive=True).distance.name


BEST: list[tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = [
    (
        lambda m: group.pure_privacy(1, m),
        pure.pure_best_bound,
        pure.pure_best_bound_common_domain,
        pure.pure_bounded_partition,
    ),
    (
        lambda m: group.approximate_privacy(1, Fraction(1, 8), m),
        approximate.approximate_best_bound,
        approximate.approximate_best_bound_common_domain,
        approximate.approximate_bounded_partition,
    ),
    (
        lambda m: group.concentrated_privacy(1, m),
        zero_concentrated.concentrated_best_bound,
        zero_concentrated.concentrated_best_bound_common_domain,
        zero_concentrated.concentrated_bounded_partition,
    ),
    (
        lambda m: group.gaussian_privacy(1, m),
        gaussian.gaussian_best_bound,
        gaussian.gaussian_best_bound_common_domain,
        gaussian.gaussian_bounded_partition,
    ),
]


@pytest.mark.parametrize(("stated", "best", "common", "two"), BEST)
def test_partition_rules_refuse_what_is_missing(stated: Any, best: Any, common: Any, two: Any) -> None:
    fixed = multisets("abc", 2, 2)
    metric = canonical(fixed, bounded)
    maps = [restricted(fixed, keep, keep) for keep in "abc"]
    mechanisms = [OnTheCommonDomain(stated(metric), f) for f in maps]
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
    foreign = [OnTheCommonDomain(stated(canonical(fixed, bounded, "another")), f) for f in maps]
    with pytest.raises(InvalidInputError, match=r"stated for d of .*bounded.*, got privacy for d of .*another"):
        two(foreign, partition)


@pytest.mark.parametrize(("stated", "best", "common", "two"), BEST)
def test_expanding_parts_and_missing_block_metrics(stated: Any, best: Any, common: Any, two: Any) -> None:
    """f doubles every record: the parts of neighbours are two steps apart."""
    wide = multisets("ab", 4)
    double = DatabaseMap(DOMAIN, wide, lambda d: tuple(sorted(d + d)), "twice")
    blocks = canonical(wide, unbounded)
    mechanism = OnItsOwnDomain(stated(blocks), double)
    with pytest.raises(InvalidInputError, match=r"expected Δp_i <= 1, got 2: .*differ in: twice"):
        best([mechanism], PartedClass([double], METRIC))
    unknown = DatabaseMap(DOMAIN, DatabaseClass("unknown"), lambda d: d, "p")
    declared = CanonicalMetric(METRIC.granularity, unknown.codomain, blocks.function, "for this test")
    with pytest.raises(InvalidInputError, match=r"expected Δp_i <= 1, got inf"):
        best([OnItsOwnDomain(stated(declared), unknown)], PartedClass([unknown], METRIC, block_metrics=[declared]))
    others = CanonicalMetric(Bounded(), unknown.codomain, blocks.function, "for this test")
    for other in (Metric(unknown.codomain, blocks.function), others):
        with pytest.raises(InvalidInputError, match=r"canonical metrics of .* on the parts"):
            PartedClass([unknown], METRIC, block_metrics=[other])
    assert common([OnTheCommonDomain(stated(METRIC), double)], PartedClass([double], METRIC)).starred is False
    assert two([OnTheCommonDomain(stated(METRIC), double)], PartedClass([double], METRIC)).starred is False


@pytest.mark.parametrize(("stated", "best", "common", "two"), BEST)
def test_reasons_where_a_class_is_not_listed(stated: Any, best: Any, common: Any, two: Any) -> None:
    everything = DatabaseClass("all multisets")
    parts = [DatabaseClass("multisets of 𝒳_1"), DatabaseClass("multisets of 𝒳_2")]

    def steps(a: Any, b: Any) -> int:
        return len(set(a) ^ set(b))

    for arguments, text in (((), "or a declared distance"), ((steps,), "give the reason"), ((steps, 1), "give the re")):
        with pytest.raises(InvalidInputError, match=text):
            CanonicalMetric(GIVEN, everything, *arguments)  # type: ignore[arg-type]
    metric = CanonicalMetric(GIVEN, everything, steps, "|D △ D'| counts records added and removed")
    blocks = [CanonicalMetric(GIVEN, part, steps, "the same") for part in parts]
    assert metric == CanonicalMetric(GIVEN, everything, steps, "another reason") != blocks[0]
    maps = [DatabaseMap(everything, part, lambda d: d, "p") for part in parts]
    own = [OnItsOwnDomain(stated(block), f) for f, block in zip(maps, blocks, strict=True)]
    shared = [OnTheCommonDomain(stated(metric), f) for f in maps]
    reason = "a record lies in one part (Example IV.4)"
    needed = ((best, own, 1, 1), (common, shared, 1, math.inf), (two, shared, 2, math.inf))
    for rule, given, most, sensitivity in needed:
        with pytest.raises(InvalidInputError, match="or a declared Compatibility with the reason"):
            rule(given, PartedClass(maps, metric, block_metrics=blocks))
        known = Compatibility(most, sensitivity, False, reason)
        assert rule(given, PartedClass(maps, metric, block_metrics=blocks, declared=known)).distance.base is metric
        for less in ((most + 1, sensitivity), (most, 2)) if rule is best else ((most + 1, sensitivity),):
            with pytest.raises(InvalidInputError, match=r"expected .*a record lies in one part"):
                rule(
                    given, PartedClass(maps, metric, block_metrics=blocks, declared=Compatibility(*less, False, reason))
                )
    with pytest.raises(InvalidInputError, match="or a declared distance"):
        best(own, PartedClass(maps, metric, declared=Compatibility(1, 1, False, reason)))


@pytest.mark.parametrize(("stated", "best", "common", "two"), BEST)
def test_full_universes_need_no_reasons(stated: Any, best: Any, common: Any, two: Any) -> None:
    """Proved: records under unbounded, places under bounded; not records under bounded, also where I_p is 1."""
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
        own = [OnItsOwnDomain(stated(d), f) for d, f in zip(parted.metrics, parts.maps(domain), strict=True)]
        shared = [OnTheCommonDomain(stated(parted.metric), f) for f in parted.maps]
        expected = group.parameters(stated(parted.metric))
        assert group.parameters(best(own, parted), parted.metric) == expected
        assert group.parameters(common(shared, parted), parted.metric) == expected
        assert group.parameters(two(shared, parted)) >= expected
    moved = PartedClass(letters, canonical_metric(Bounded(), Multisets("all", records=tuple("abc"))))
    shared = [OnTheCommonDomain(stated(moved.metric), f) for f in moved.maps]
    with pytest.raises(InvalidInputError, match=r"expected a partition .* 2 parts: Proposition A\.5"):
        common(shared, moved)
    assert two(shared, moved).distance.base == moved.metric
    only = PartedClass(alone, canonical_metric(Bounded(), Multisets("all", records=tuple("ac"))))
    assert only.compatibility.compatible
    with pytest.raises(InvalidInputError, match=r"Example III\.4"):
        stated(only.metrics[0])
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
        bound = pure.pure_commuting(own, parted)
        assert bound.distance(("a", "b"), ()) == 6
    other = PartedClass(letters, Metric(everything, lambda a, b: abs(len(a) - len(b))))
    own = [OnItsOwnDomain(PurePrivacy(ScaledMetric(d, 1)), f) for d, f in zip(other.metrics, other.maps, strict=True)]
    with pytest.raises(InvalidInputError, match=r"the commuting rule.*expected a class whose databases are listed"):
        pure.pure_commuting(own, other)
    vouched = PartedClass(letters, other.metric, block_metrics=other.metrics, commuting="for this test")
    assert pure.pure_commuting(own, vouched).distance.domain == everything


def test_metrics_are_one_for_each_class() -> None:
    again = DatabaseClass(DOMAIN.name, DOMAIN.databases)
    assert canonical_metric(Unbounded(), DOMAIN) is canonical_metric(Unbounded(), again)
    fresh = CanonicalMetric(Unbounded(), again)
    assert fresh == canonical_metric(Unbounded(), DOMAIN)
    assert hash(fresh) == hash(canonical_metric(Unbounded(), DOMAIN))
    assert fresh not in (METRIC, canonical_metric(Bounded(), DOMAIN), canonical_metric(Unbounded(), multisets("a", 2)))
    assert group.parameters(group.pure_privacy(2, fresh), canonical_metric(Unbounded(), DOMAIN)) == (2,)
    with pytest.raises(InvalidInputError, match="no declared distance, for it is known"):
        CanonicalMetric(Unbounded(), DOMAIN, METRIC.function, "for this test")
    assert repr(DOMAIN) == "DatabaseClass(name='multisets of ab')"


def test_untouched_mechanisms_of_an_unlisted_class_lose_nothing() -> None:
    everything = DatabaseClass("all words")
    metric = CanonicalMetric(GIVEN, everything, lambda a, b: abs(len(a) - len(b)), "for this test")
    first = DatabaseMap(everything, everything, lambda word: word[:1], "first")
    star = pure.pure_common_domain([OnTheCommonDomain(group.pure_privacy(2, metric), first)])
    assert star.distance("ab", "abc") == 0
    assert star.distance("ab", "cba") == 2
    with pytest.raises(InvalidInputError, match="listed"):
        group.pure_over_neighbours(star, metric)


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
    for values, text in (((1, 1, False, ""), "reason: expected one"), ((1, -1, False, "so"), "sensitivity: expected")):
        with pytest.raises(InvalidInputError, match=text):
            Compatibility(*values)  # type: ignore[arg-type]


def test_group_rules_need_a_canonical_metric() -> None:
    plain = Metric(DOMAIN, METRIC.function)
    for made in (
        lambda: group.pure_privacy(1, plain),  # type: ignore[arg-type]
        lambda: group.approximate_privacy(1, 0, plain),  # type: ignore[arg-type]
        lambda: group.concentrated_privacy(1, plain),  # type: ignore[arg-type]
        lambda: group.gaussian_privacy(1, plain),  # type: ignore[arg-type]
        lambda: group.pure_over_neighbours(PurePrivacy(plain), plain),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInputError, match="CanonicalMetric"):
            made()
    with pytest.raises(InvalidInputError, match=r"VI\.20: expected GaussianPrivacy"):
        group.gaussian_over_neighbours(PurePrivacy(plain), METRIC)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="a parameter times a metric"):
        group.parameters(PurePrivacy(plain))
    mixed = ApproximatePrivacy(ScaledMetric(METRIC, 1), STAR)
    with pytest.raises(InvalidInputError, match="made by approximate_privacy"):
        group.parameters(mixed)
    for bad in (-1, float("nan"), "1", True, None):
        with pytest.raises(InvalidInputError, match="expected a number of at least 0"):
            group.pure_privacy(bad, METRIC)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="expected a probability"):
        group.approximate_privacy(1, 2, METRIC)


def test_theorem_ii_8() -> None:
    assert pure.pure_parallel([0.5, 1, 0.25], ["ab", "c", "d"]) == 1
    with pytest.raises(InvalidInputError, match=r"II\.8: expected disjoint subsets, got 'b' in subset 1"):
        pure.pure_parallel([0.5, 1], ["ab", "bc"])
    with pytest.raises(InvalidInputError, match="one subset for each"):
        pure.pure_parallel([0.5, 1], ["ab"])


def test_post_processing_and_reciprocals() -> None:
    pure = group.pure_privacy(1, METRIC)
    placed = OnTheCommonDomain(pure, IDENTITY)
    starred = PurePrivacy(STAR)
    assert post_processing.after_post_processing(pure) is pure
    assert post_processing.after_post_processing(placed) is placed
    assert post_processing.after_post_processing(starred).starred
    independent = post_processing.parts_of_independent(pure)
    adaptive = post_processing.parts_of_adaptive(pure)
    assert independent.privacy is adaptive.privacy is pure
    assert "M_i*" in independent.does_not_follow
    assert "averaged out" in adaptive.holds_for
    assert "M_i(s, .)" in adaptive.does_not_follow
    assert post_processing.refuting_parts(1, [0.5, 1, Fraction(11, 10)]) == (2,)
    for rule in (
        post_processing.after_post_processing,
        post_processing.parts_of_independent,
        post_processing.parts_of_adaptive,
    ):
        with pytest.raises(InvalidInputError, match=r"Theorem VII\.\d: expected PurePrivacy"):
            rule(METRIC)  # type: ignore[type-var]


def test_touched_is_checked() -> None:
    rules: Any = for_numbers
    for made, text in (
        (lambda: rules.AtMostTouched(0), "at least 1"),
        (lambda: rules.AtMostTouched(True), "at least 1"),
        (lambda: rules.TouchedTogether([]), "one change or more"),
        (lambda: rules.TouchedTogether({0: 1}), "one change or more"),
        (lambda: rules.pure_parameter([1, 2], rules.TouchedTogether([{2}])), "numbers of mechanisms below 2"),
        (lambda: rules.pure_parameter([1, 2], rules.TouchedTogether([{1: -1}])), "at least 0"),
        (lambda: rules.pure_parameter([], rules.EachTouched()), "one number or more"),
        (lambda: rules.pure_parameter(1, rules.EachTouched()), "one number for each mechanism"),
        (lambda: rules.pure_parameter([1], "all"), "expected EachTouched"),
        (lambda: rules.approximate_parameters([1], [0.1, 0.1], rules.EachTouched()), "one for each ε"),
        (lambda: rules.approximate_parameters([1], [1.5], rules.EachTouched()), "a probability"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            made()
