"""The rules against brute force, in whole numbers: all pairs of databases, random mechanisms, no violation."""

import itertools
import math
import random
from fractions import Fraction
from typing import Any

import pytest

from pbdist import InvalidInputError
from pbdist.granularity.partitions import PartedClass, touched
from pbdist.granularity.rules import APPROXIMATE, CONCENTRATED, GAUSSIAN, PURE, parameters
from pbdist.granularity.spaces import (
    ApproximatePrivacy,
    Metric,
    OnItsOwnDomain,
    OnTheCommonDomain,
    PurePrivacy,
    ScaledMetric,
    ZeroConcentratedPrivacy,
)
from tests.effort import times
from tests.granularity.rule_worlds import (
    TOTAL,
    Weights,
    World,
    canonical,
    composed,
    delta_at,
    delta_of,
    metric_of,
    random_weights,
    worlds,
)

pytestmark = pytest.mark.slow

WORLDS = worlds()
SEEDS = range(times(3))  # For each of 13 worlds, with 1 to 3 mechanisms each.


def drawn(world: World, seed: int, *, zeros: bool = False) -> list[list[Weights]]:
    """Tables of each mechanism: one, or in odd rounds two, of which the last output chooses one."""
    source = random.Random(f"{world.name} {seed} {zeros}")  # noqa: S311
    inputs = [read.codomain.listed("test") for read in world.maps]
    counts = [1] + [1 + seed % 2] * (len(inputs) - 1)
    return [
        [random_weights(source, each, zeros=zeros) for _ in range(count)]
        for each, count in zip(inputs, counts, strict=True)
    ]


def outputs(world: World, tables: list[list[Weights]]) -> dict[Any, list[int]]:
    databases = world.metric.domain.listed("test")
    return {database: composed(tables[0][0], tables[1:], world.maps, database) for database in databases}


def violations(rows: dict[Any, list[int]], bound: Any) -> int:
    """Count the pairs with P > 2^d Q somewhere."""
    found = 0
    for (a, p), (b, q) in itertools.product(rows.items(), repeat=2):
        d = bound(a, b)
        if d < math.inf:
            power = Fraction(d)
            bottom, top = power.denominator, power.numerator
            found += any(x**bottom > y**bottom << top for x, y in zip(p, q, strict=True))
    return found


def lifted(read: Any, metric: Metric) -> Metric:
    """The metric of M = M* ∘ f on the whole databases."""
    return Metric(read.domain, lambda a, b: metric(read(a), read(b)), "lifted")


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_pure_compositions(world: World, seed: int) -> None:
    tables = drawn(world, seed)
    rows = outputs(world, tables)
    metrics = [metric_of(read.codomain, each) for read, each in zip(world.maps, tables, strict=True)]
    own = PURE.composition([OnItsOwnDomain(PurePrivacy(d), f) for f, d in zip(world.maps, metrics, strict=True)])
    assert violations(rows, own.distance) == 0
    whole = [lifted(f, d) for f, d in zip(world.maps, metrics, strict=True)]
    sequential = PURE.sequential([PurePrivacy(d) for d in whole])
    assert violations(rows, sequential.distance) == 0
    common = PURE.common_domain([OnTheCommonDomain(PurePrivacy(d), f) for f, d in zip(world.maps, whole, strict=True)])
    assert common.starred
    assert violations(rows, common.distance) == 0
    assert violations(rows, PURE.over_neighbours(common, world.metric).distance) == 0


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_pure_partitions(world: World, seed: int) -> None:
    tables = drawn(world, seed)
    rows = outputs(world, tables)
    metrics = [metric_of(read.codomain, each) for read, each in zip(world.maps, tables, strict=True)]
    most = max(
        sum(f(a) != f(b) for f in world.maps) for a, b in world.metric.neighbours
    )  # What the rules must find out for themselves.
    blocks = []
    for read in world.maps:
        try:
            blocks.append(canonical(read.codomain, world.relation))
        except InvalidInputError:  # No two parts are neighbours.
            break
    partition = PartedClass(world.maps, world.metric)
    common = [
        OnTheCommonDomain(PURE.privacy(world.metric, largest(world.metric, lifted(f, d))), f)
        for f, d in zip(world.maps, metrics, strict=True)
    ]
    checked = 0
    if most <= 1:
        assert violations(rows, PURE.best_bound_common_domain(common, partition).distance) == 0
        checked += 1
    else:
        with pytest.raises(
            InvalidInputError, match=r"Theorem IV\.12 \(V\.6\): parted: expected a partition that is compatible"
        ):
            PURE.best_bound_common_domain(common, partition)
    if most <= 2:
        assert violations(rows, PURE.bounded_partition(common, partition).distance) == 0
        checked += 1
    else:
        with pytest.raises(InvalidInputError, match=r"Corollary IV\.13: parted: expected a partition .* at most two"):
            PURE.bounded_partition(common, partition)
    if len(blocks) == len(world.maps):
        own = [
            OnItsOwnDomain(PURE.privacy(block, largest(block, d)), f)
            for f, d, block in zip(world.maps, metrics, blocks, strict=True)
        ]
        try:
            bound = PURE.best_bound(own, partition)
        except InvalidInputError:
            expanding = any(
                block(f(a), f(b)) > 1
                for a, b in world.metric.neighbours
                for f, block in zip(world.maps, blocks, strict=True)
            )
            assert expanding or most > 1
        else:
            assert violations(rows, bound.distance) == 0
            assert parameters(bound) == (max(parameters(each.privacy)[0] for each in own),)


def largest(granularity: Any, distance: Metric) -> Any:
    return max(distance(a, b) for a, b in granularity.neighbours)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_approximate_compositions(world: World, seed: int) -> None:
    tables = drawn(world, seed, zeros=True)
    rows = outputs(world, tables)
    metrics = [capped(metric_of(read.codomain, each), seed % 3) for read, each in zip(world.maps, tables, strict=True)]
    deltas = [delta_of(f.codomain, each, d) for f, each, d in zip(world.maps, tables, metrics, strict=True)]
    own = [
        OnItsOwnDomain(ApproximatePrivacy(d, delta), f) for f, d, delta in zip(world.maps, metrics, deltas, strict=True)
    ]
    whole = [
        ApproximatePrivacy(
            lifted(f, d), type(delta)(f.domain, lambda a, b, f=f, delta=delta: delta(f(a), f(b)), "delta")
        )
        for f, d, delta in zip(world.maps, metrics, deltas, strict=True)
    ]
    common = APPROXIMATE.common_domain([OnTheCommonDomain(each, f) for f, each in zip(world.maps, whole, strict=True)])
    for bound in (APPROXIMATE.composition(own), APPROXIMATE.sequential(whole), common):
        assert breaches(rows, bound, TOTAL ** len(world.maps)) == 0
    over = APPROXIMATE.over_neighbours(common, world.metric)
    epsilon, delta = parameters(over)
    neighbours = [(rows[a], rows[b]) for a, b in world.metric.neighbours]
    assert all(delta_at(p, q, epsilon, TOTAL ** len(world.maps)) <= delta for p, q in neighbours)


def capped(metric: Metric, most: int) -> Metric:
    """Losses above the most are left to δ: the least of a metric and a constant is a metric."""
    return Metric(metric.domain, lambda a, b: min(metric(a, b), most), "capped")


def breaches(rows: dict[Any, list[int]], bound: ApproximatePrivacy, total: int) -> int:
    """Count the pairs with a δ above the bound's."""
    return sum(
        delta_at(p, q, bound.distance(a, b), total) > bound.delta(a, b)
        for (a, p), (b, q) in itertools.product(rows.items(), repeat=2)
    )


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("accounting", [GAUSSIAN, CONCENTRATED], ids=["gaussian", "concentrated"])
def test_rules_for_squares_on_exact_normal_mechanisms(accounting: Any, world: World, seed: int) -> None:
    """N(m_i(D), 1) is |m_i(D) - m_i(D')|-Gaussian private, no better, and has half the square as ρ; squares add up."""
    source = random.Random(f"{world.name} {seed}")  # noqa: S311
    means = [{value: Fraction(source.randint(-12, 12), 4) for value in f.codomain.listed("test")} for f in world.maps]
    metrics = [
        Metric(f.codomain, lambda a, b, m=m: abs(m[a] - m[b]), "means") for f, m in zip(world.maps, means, strict=True)
    ]
    gaussian = accounting is GAUSSIAN

    def stated(metric: Metric) -> Any:
        half = Metric(metric.domain, lambda a, b: Fraction(metric(a, b) ** 2, 2), squared=True)  # type: ignore[arg-type, return-value]
        return accounting.notion(metric if gaussian else half)

    def squared(parameter: Any) -> Fraction:
        return Fraction(parameter) ** 2 if gaussian else Fraction(parameter)

    def truth(a: Any, b: Any) -> Fraction:
        total = sum(((m[f(a)] - m[f(b)]) ** 2 for f, m in zip(world.maps, means, strict=True)), Fraction(0))
        return total if gaussian else total / 2

    lifts = [lifted(f, d) for f, d in zip(world.maps, metrics, strict=True)]
    own = accounting.composition([OnItsOwnDomain(stated(d), f) for f, d in zip(world.maps, metrics, strict=True)])
    star = accounting.common_domain([OnTheCommonDomain(stated(d), f) for f, d in zip(world.maps, lifts, strict=True)])
    for a, b in itertools.product(world.metric.domain.listed("test"), repeat=2):  # Sound and tight.
        assert own.distance.square(a, b) == star.distance.square(a, b) == truth(a, b)
    worst = max(truth(a, b) for a, b in world.metric.neighbours)
    (over,) = parameters(accounting.over_neighbours(star, world.metric))
    assert squared(over) == worst or (gaussian and squared(over) > worst)
    partition = PartedClass(world.maps, world.metric)
    mus = [largest(world.metric, d) for d in lifts]
    common = [
        OnTheCommonDomain(accounting.privacy(world.metric, mu if gaussian else Fraction(mu**2, 2)), f)
        for f, mu in zip(world.maps, mus, strict=True)
    ]
    most = max(len(touched(partition.maps, a, b)) for a, b in world.metric.neighbours)
    if most <= 1:
        assert squared(parameters(accounting.best_bound_common_domain(common, partition))[0]) >= worst
        if len(world.maps) > 1:
            blocks = [canonical(f.codomain, world.relation) for f in world.maps]
            on_parts = [largest(block, d) for block, d in zip(blocks, metrics, strict=True)]
            each = [mu if gaussian else Fraction(mu**2, 2) for mu in on_parts]
            parts = [
                OnItsOwnDomain(accounting.privacy(block, parameter), f)
                for f, parameter, block in zip(world.maps, each, blocks, strict=True)
            ]
            assert parameters(accounting.best_bound(parts, partition)) == (max(each),)
            assert squared(max(each)) >= worst
    if most <= 2:
        assert squared(parameters(accounting.bounded_partition(common, partition))[0]) >= worst


def renyi(p: list[int], q: list[int], alpha: int, total: int) -> Fraction:
    """Σ P^α Q^(1 - α), exactly."""
    return sum(
        (Fraction(x, total) ** alpha * Fraction(y, total) ** (1 - alpha) for x, y in zip(p, q, strict=True)),
        Fraction(0),
    )


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize("seed", range(2))
def test_concentrated_rules_on_random_tables(world: World, seed: int) -> None:
    """At α = 2 and 3, in 64ths of ln 2: (α - 1) D_α of the composition is at most α (α - 1) d²."""
    tables = drawn(world, seed)
    rows = outputs(world, tables)

    def rho(p: tuple[int, ...], q: tuple[int, ...]) -> Fraction:
        steps = 0
        for alpha in (2, 3):
            grown = renyi(list(p), list(q), alpha, TOTAL) ** 64
            while grown > Fraction(2) ** (steps * alpha * (alpha - 1)):
                steps += 1
        return Fraction(steps, 64)

    squares = []
    for f, each in zip(world.maps, tables, strict=True):
        inputs = f.codomain.listed("test")
        known = {(a, b): max(rho(t[a], t[b]) for t in each) for a in inputs for b in inputs}
        squares.append({(a, b): max(known[a, b], known[b, a]) for a, b in known})
    own = [
        OnItsOwnDomain(ZeroConcentratedPrivacy(Metric(f.codomain, lambda a, b, s=s: s[a, b], squared=True)), f)
        for f, s in zip(world.maps, squares, strict=True)
    ]
    bound = CONCENTRATED.composition(own)
    total = TOTAL ** len(world.maps)
    source = random.Random(seed)  # noqa: S311
    pairs = source.sample(list(itertools.product(rows, repeat=2)), 40)
    for a, b in pairs:
        square = bound.distance.square(a, b)
        for alpha in (2, 3):
            assert renyi(rows[a], rows[b], alpha, total) ** 64 <= Fraction(2) ** int(64 * square * alpha * (alpha - 1))


def test_a_metric_that_commutes_is_found_out() -> None:
    """|D △ D'| commutes with partitions of records, not with overlapping parts (Proposition A.4)."""
    for name, commutes in {
        "unbounded partition": True,
        "unbounded with gaps": True,
        "unbounded overlapping": False,
    }.items():
        world = next(world for world in WORLDS if world.name == name)

        def changed(a: Any, b: Any) -> int:
            return sum(abs(a.count(record) - b.count(record)) for record in "abc")

        metric = Metric(world.metric.domain, changed, "|D △ D'|")
        parts = [Metric(f.codomain, changed, "|D △ D'|") for f in world.maps]
        partition = PartedClass(world.maps, metric, block_metrics=parts)
        for seed in range(5):
            tables = drawn(world, seed)
            epsilons = [
                max(
                    Fraction(int(metric_of(f.codomain, each)(a, b)), changed(a, b))
                    for a, b in itertools.permutations(f.codomain.listed("test"), 2)
                )
                for f, each in zip(world.maps, tables, strict=True)
            ]
            own = [
                OnItsOwnDomain(PurePrivacy(ScaledMetric(d, epsilon)), f)
                for f, d, epsilon in zip(world.maps, parts, epsilons, strict=True)
            ]
            if commutes:
                bound = PURE.commuting(own, partition)
                rows = outputs(world, tables)
                assert violations(rows, bound.distance) == 0
            else:
                with pytest.raises(InvalidInputError, match="commutes"):
                    PURE.commuting(own, partition)
