"""What the rules refuse, and that the text names the hypothesis; reasons stand in where a class is not listed."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from pbdist import InvalidInputError
from pbdist.granularity.rules import (
    approximate,
    for_numbers,
    gaussian,
    group,
    post_processing,
    pure,
    zero_concentrated,
)
from pbdist.granularity.rules.declared_partition import DeclaredPartition
from pbdist.granularity.rules.distances import CanonicalMetric, ScaledMetric
from pbdist.granularity.spaces import DatabaseClass, DatabaseMap, Metric, StarDistance
from pbdist.granularity.statements import (
    ApproximatePrivacy,
    GaussianPrivacy,
    OnItsOwnDomain,
    OnTheCommonDomain,
    PurePrivacy,
    ZeroConcentratedPrivacy,
)
from tests.granularity.rules.rule_worlds import bounded, canonical, multisets, restricted, unbounded

DOMAIN = multisets("ab", 2)
METRIC = canonical(DOMAIN, unbounded, "d^U")
IDENTITY = DatabaseMap(DOMAIN, DOMAIN, lambda d: d, "id")
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
    two = DatabaseMap(DOMAIN, DOMAIN, chosen)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="chosen from earlier outputs are not covered"):
        pure.pure_composition([OnItsOwnDomain(stated, two)], adaptive=True)
    with pytest.raises(InvalidInputError, match="chosen from earlier outputs are not covered"):
        DeclaredPartition([two], METRIC)
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
    partition = DeclaredPartition(maps, metric)
    with pytest.raises(InvalidInputError, match=r"compatible .*, got a, b, which all differ"):
        common(mechanisms, partition)
    assert two(mechanisms, partition).distance.domain == fixed
    with pytest.raises(InvalidInputError, match="expected OnItsOwnDomain"):
        best(mechanisms, partition)
    with pytest.raises(InvalidInputError, match="one mechanism for each part"):
        two(mechanisms[:2], partition)
    with pytest.raises(InvalidInputError, match="one mechanism for each part"):
        two(mechanisms[::-1], partition)
    with pytest.raises(InvalidInputError, match="DeclaredPartition"):
        two(mechanisms, maps)
    with pytest.raises(InvalidInputError, match="canonical metric of a granularity"):
        two(mechanisms, DeclaredPartition(maps, Metric(fixed, metric.function)))
    foreign = [OnTheCommonDomain(stated(canonical(fixed, bounded, "another")), f) for f in maps]
    with pytest.raises(InvalidInputError, match=r"stated for d, got privacy for another"):
        two(foreign, partition)


@pytest.mark.parametrize(("stated", "best", "common", "two"), BEST)
def test_expanding_parts_and_missing_block_metrics(stated: Any, best: Any, common: Any, two: Any) -> None:
    """f doubles every record: the parts of neighbours are two steps apart."""
    wide = multisets("ab", 4)
    double = DatabaseMap(DOMAIN, wide, lambda d: tuple(sorted(d + d)), "twice")
    blocks = canonical(wide, unbounded)
    mechanism = OnItsOwnDomain(stated(blocks), double)
    with pytest.raises(InvalidInputError, match=r"expected Δp_i <= 1, got twice"):
        best([mechanism], DeclaredPartition([double], METRIC, [blocks]))
    with pytest.raises(InvalidInputError, match="block_metrics"):
        best([mechanism], DeclaredPartition([double], METRIC))
    with pytest.raises(InvalidInputError, match="canonical metrics on the parts"):
        best([mechanism], DeclaredPartition([double], METRIC, [Metric(wide, blocks.function)]))
    assert common([OnTheCommonDomain(stated(METRIC), double)], DeclaredPartition([double], METRIC)).starred is False
    assert two([OnTheCommonDomain(stated(METRIC), double)], DeclaredPartition([double], METRIC)).starred is False


@pytest.mark.parametrize(("stated", "best", "common", "two"), BEST)
def test_reasons_where_a_class_is_not_listed(stated: Any, best: Any, common: Any, two: Any) -> None:
    everything = DatabaseClass("all multisets")
    parts = [DatabaseClass("multisets of 𝒳_1"), DatabaseClass("multisets of 𝒳_2")]

    def steps(a: Any, b: Any) -> int:
        return len(set(a) ^ set(b))

    with pytest.raises(InvalidInputError, match="give the reason"):
        CanonicalMetric(everything, steps)
    metric = CanonicalMetric(everything, steps, declared="|D △ D'| counts records added and removed")
    blocks = [CanonicalMetric(part, steps, declared="the same") for part in parts]
    maps = [DatabaseMap(everything, part, lambda d: d, "p") for part in parts]
    own = [OnItsOwnDomain(stated(block), f) for f, block in zip(maps, blocks, strict=True)]
    shared = [OnTheCommonDomain(stated(metric), f) for f in maps]
    reason = "a record lies in one part (Example IV.4)"
    for rule, given, name in ((best, own, "compatible"), (common, shared, "compatible"), (two, shared, "at_most_two")):
        with pytest.raises(InvalidInputError, match=f"give the reason in DeclaredPartition.{name}"):
            rule(given, DeclaredPartition(maps, metric, blocks))
    with pytest.raises(InvalidInputError, match=r"give the reason in DeclaredPartition\.non_expanding"):
        best(own, DeclaredPartition(maps, metric, blocks, compatible=reason))
    full = DeclaredPartition(maps, metric, blocks, compatible=reason, non_expanding=reason)
    for rule, given in ((best, own), (common, shared), (two, shared)):
        assert rule(given, full).distance.base is metric


def test_untouched_mechanisms_of_an_unlisted_class_lose_nothing() -> None:
    everything = DatabaseClass("all words")
    metric = CanonicalMetric(everything, lambda a, b: abs(len(a) - len(b)), declared="for this test")
    first = DatabaseMap(everything, everything, lambda word: word[:1], "first")
    star = pure.pure_common_domain([OnTheCommonDomain(group.pure_privacy(2, metric), first)])
    assert star.distance("ab", "abc") == 0
    assert star.distance("ab", "cba") == 2
    with pytest.raises(InvalidInputError, match="listed"):
        group.pure_over_neighbours(star, metric)


def test_partitions_are_checked() -> None:
    for arguments, text in (
        (((), METRIC), "one map or more"),
        (((IDENTITY,), STAR), "expected a Metric"),
        ((3, METRIC), "expected a sequence"),
        (((IDENTITY,), canonical(multisets("c", 1), unbounded)), "expected maps from"),
        (((IDENTITY,), METRIC, [METRIC, METRIC]), "one metric for each map"),
        (((IDENTITY,), METRIC, [STAR]), "expected Metric"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            DeclaredPartition(*arguments)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="compatible: expected a reason"):
        DeclaredPartition([IDENTITY], METRIC, compatible=True)  # type: ignore[arg-type]


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


def test_theorem_vii_3_says_nothing_of_the_parts_given_earlier_outputs() -> None:
    """N_2 is free of loss where M_2(s, .) reveals the database: a fair coin s, then D xor s."""
    law = {d: sorted(((s, s ^ d), Fraction(1, 2)) for s in (0, 1)) for d in (0, 1)}
    second = {d: {o: sum(p for (_, x), p in law[d] if x == o) for o in (0, 1)} for d in (0, 1)}
    assert second[0] == second[1]
    assert {x for (s, x), _ in law[0] if s == 0} != {x for (s, x), _ in law[1] if s == 0}


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
