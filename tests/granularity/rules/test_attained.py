"""Rules that are tight are attained, exactly and in both directions, by extremal mechanisms."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from pbdist.granularity.canonical import CanonicalMetric
from pbdist.granularity.distances import RootScaledMetric, ScaledMetric, square_of
from pbdist.granularity.parted import PartedClass
from pbdist.granularity.rules.approximate import (
    approximate_best_bound,
    approximate_best_bound_common_domain,
    approximate_bounded_partition,
    approximate_composition,
)
from pbdist.granularity.rules.gaussian import (
    gaussian_best_bound,
    gaussian_best_bound_common_domain,
    gaussian_bounded_partition,
    gaussian_commuting,
    gaussian_sequential,
)
from pbdist.granularity.rules.group import (
    approximate_privacy,
    concentrated_privacy,
    gaussian_privacy,
    group_approximate,
    parameters,
    pure_over_neighbours,
    pure_privacy,
)
from pbdist.granularity.rules.pure import (
    pure_best_bound,
    pure_best_bound_common_domain,
    pure_bounded_partition,
    pure_common_domain,
    pure_parallel,
    pure_sequential,
)
from pbdist.granularity.rules.zero_concentrated import (
    concentrated_best_bound,
    concentrated_best_bound_common_domain,
    concentrated_bounded_partition,
    concentrated_commuting,
    concentrated_sequential,
)
from pbdist.granularity.spaces import DatabaseMap, Metric
from pbdist.granularity.statements import GaussianPrivacy, OnItsOwnDomain, OnTheCommonDomain, ZeroConcentratedPrivacy
from tests.granularity.rules.rule_worlds import (
    bounded,
    canonical,
    image,
    multisets,
    restricted,
    unbounded,
    worlds,
)

#: ε in units of ln 2.
EPSILONS = (3, 1, 2)
DELTAS = (Fraction(1, 8), Fraction(0), Fraction(1, 32))


def extremal(present: bool, epsilon: int, delta: Fraction) -> tuple[Fraction, ...]:
    """M_{ε,δ}: the worst mechanism with (ε, δ)."""
    t = Fraction(2) ** epsilon
    likely, other = (1 - delta) * t / (1 + t), (1 - delta) / (1 + t)
    return (delta, likely, other, Fraction(0)) if present else (Fraction(0), other, likely, delta)


def product(rows: Sequence[Sequence[Fraction]]) -> list[Fraction]:
    return [math.prod(outcome, start=Fraction(1)) for outcome in itertools.product(*rows)]


def delta_at(p: Sequence[Fraction], q: Sequence[Fraction], epsilon: int) -> Fraction:
    return sum((max(x - Fraction(2) ** epsilon * y, Fraction(0)) for x, y in zip(p, q, strict=True)), Fraction(0))


def row(maps: Sequence[DatabaseMap], database: Any, presence: Any, deltas: Sequence[Fraction]) -> list[Fraction]:
    return product([extremal(presence(f(database)), e, d) for f, e, d in zip(maps, EPSILONS, deltas, strict=False)])


def attained(metric: CanonicalMetric, maps: Sequence[DatabaseMap], presence: Any, epsilon: int) -> tuple[bool, bool]:
    """Return whether some neighbours lose exactly ε, and none more, from the first to the second and back."""
    zero = [Fraction(0)] * 3
    losses = [
        [
            max(
                (
                    math.log2(x / y)
                    for x, y in zip(row(maps, a, presence, zero), row(maps, b, presence, zero), strict=True)
                    if y
                ),
                default=0.0,
            )
            for a, b in pairs
        ]
        for pairs in ([n for n in metric.neighbours if n[0] < n[1]], [n for n in metric.neighbours if n[0] > n[1]])
    ]
    return max(losses[0]) == epsilon, max(losses[1]) == epsilon


WORLDS = {world.name: world for world in worlds()}
DISJOINT = ["unbounded partition", "unbounded with gaps", "places"]


def shows_a_record(part: Any) -> bool:
    """Presence for multisets; for places, whether the first is b."""
    return bool(part) and (not isinstance(part[0], tuple) or part[0][1] == "b")


@pytest.mark.parametrize("name", DISJOINT)
def test_the_best_bound_is_attained(name: str) -> None:
    world = WORLDS[name]
    blocks = [canonical(f.codomain, world.relation) for f in world.maps]
    own = [OnItsOwnDomain(pure_privacy(e, m), f) for e, m, f in zip(EPSILONS, blocks, world.maps, strict=False)]
    common = [OnTheCommonDomain(pure_privacy(e, world.metric), f) for e, f in zip(EPSILONS, world.maps, strict=False)]
    partition = PartedClass(world.maps, world.metric)
    assert parameters(pure_best_bound(own, partition)) == (3,)
    assert parameters(pure_best_bound_common_domain(common, partition)) == (3,)
    assert pure_parallel(EPSILONS, ["a", "b", "c"]) == 3
    assert attained(world.metric, world.maps, shows_a_record, 3) == (True, True)


@pytest.mark.parametrize("name", DISJOINT)
def test_the_approximate_best_bound_is_attained(name: str) -> None:
    """At ε = max ε_i the largest δ(ε) between neighbours is max δ_i, in both directions."""
    world = WORLDS[name]
    blocks = [canonical(f.codomain, world.relation) for f in world.maps]
    stated = list(zip(EPSILONS, DELTAS, blocks, world.maps, strict=False))
    partition = PartedClass(world.maps, world.metric)
    own = approximate_best_bound([OnItsOwnDomain(approximate_privacy(e, d, m), f) for e, d, m, f in stated], partition)
    common = approximate_best_bound_common_domain(
        [OnTheCommonDomain(approximate_privacy(e, d, world.metric), f) for e, d, _, f in stated], partition
    )
    assert parameters(own) == parameters(common) == (3, Fraction(1, 8))
    found = {
        order: max(
            delta_at(row(world.maps, a, shows_a_record, DELTAS), row(world.maps, b, shows_a_record, DELTAS), 3)
            for a, b in world.metric.neighbours
            if (a < b) is order
        )
        for order in (True, False)
    }
    assert found == {True: Fraction(1, 8), False: Fraction(1, 8)}


def test_two_parts_are_attained_by_a_record_that_moves() -> None:
    world = WORLDS["bounded partition"]
    common = [OnTheCommonDomain(pure_privacy(e, world.metric), f) for e, f in zip(EPSILONS, world.maps, strict=True)]
    bound = pure_bounded_partition(common, PartedClass(world.maps, world.metric))
    assert parameters(bound) == (5,)
    assert attained(world.metric, world.maps, bool, 5) == (True, True)


def test_two_parts_with_delta_are_sound_and_their_epsilon_is_attained() -> None:
    """(3, 1/8), (1, 0), (2, 1/32): 5 and 1/8 + 1/32; the truth at ε = 5 is 1 - (1 - 1/8)(1 - 1/32), just below."""
    world = WORLDS["bounded partition"]
    stated = list(zip(EPSILONS, DELTAS, world.maps, strict=True))
    common = [OnTheCommonDomain(approximate_privacy(e, d, world.metric), f) for e, d, f in stated]
    bound = approximate_bounded_partition(common, PartedClass(world.maps, world.metric))
    assert parameters(bound) == (5, Fraction(5, 32))
    rows = {d: row(world.maps, d, bool, DELTAS) for d in world.metric.domain.listed("test")}
    worst = {
        epsilon: max(delta_at(rows[a], rows[b], epsilon) for a, b in world.metric.neighbours) for epsilon in (4, 5)
    }
    assert worst[5] == 1 - Fraction(7, 8) * Fraction(31, 32) < Fraction(5, 32) < worst[4]
    full = [OnTheCommonDomain(approximate_privacy(1, Fraction(3, 4), world.metric), f) for f in world.maps]
    assert parameters(approximate_bounded_partition(full, PartedClass(world.maps, world.metric))) == (2, 1)


def test_commuting_rules_are_attained_by_normal_mechanisms_within_one_part() -> None:
    """N(μ_i · records, 1): |D △ D'| commutes; two records of one part are 2 μ_i apart, of two parts less."""
    domain = multisets("ab", 2)
    maps = [restricted(domain, keep, keep) for keep in "ab"]

    def changed(a: Any, b: Any) -> int:
        return sum(abs(a.count(record) - b.count(record)) for record in "ab")

    metric = Metric(domain, changed, "|D △ D'|")
    parts = [Metric(f.codomain, changed, "|D △ D'|") for f in maps]
    partition = PartedClass(maps, metric, block_metrics=parts)
    mus = (1, 3)
    gauss = [OnItsOwnDomain(GaussianPrivacy(ScaledMetric(d, mu)), f) for d, mu, f in zip(parts, mus, maps, strict=True)]
    zero = [
        OnItsOwnDomain(ZeroConcentratedPrivacy(RootScaledMetric(d, Fraction(mu**2, 2))), f)
        for d, mu, f in zip(parts, mus, maps, strict=True)
    ]
    wide, concentrated = gaussian_commuting(gauss, partition), concentrated_commuting(zero, partition)
    assert parameters(wide, metric) == (3,)
    assert parameters(concentrated, metric) == (Fraction(9, 2),)
    assert wide.distance((), ("b", "b")) == 6
    for a, b in itertools.product(domain.listed("test"), repeat=2):
        truth = sum(mu**2 * changed(f(a), f(b)) ** 2 for mu, f in zip(mus, maps, strict=True))
        assert truth <= Fraction(wide.distance(a, b)) ** 2
        assert truth <= 2 * square_of(concentrated.distance, a, b)


def test_one_bounded_part_is_attained() -> None:
    world = WORLDS["one bounded part"]
    common = [OnTheCommonDomain(pure_privacy(3, world.metric), world.maps[0])]
    assert parameters(pure_bounded_partition(common, PartedClass(world.maps, world.metric))) == (3,)
    assert attained(world.metric, world.maps, lambda part: part.count("a") > 0, 3) == (True, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(WORLDS))
def test_touched_mechanisms_add_up_and_are_attained(name: str) -> None:
    """max over D ~ D' of Σ ε_i over the touched mechanisms (IV.11), by mechanisms on whether f_i(D) is what it was."""
    world = WORLDS[name]
    stated = list(zip(EPSILONS, world.maps, strict=False))
    common = [OnTheCommonDomain(pure_privacy(e, world.metric), f) for e, f in stated]
    (epsilon,) = parameters(pure_over_neighbours(pure_common_domain(common), world.metric))
    at, losses = {(a, b): sum(e for e, f in stated if f(a) != f(b)) for a, b in world.metric.neighbours}, []
    worst = max(at, key=lambda pair: at[pair])
    assert epsilon == at[worst]
    none = Fraction(0)
    for a, b in world.metric.neighbours:
        p, q = (product([extremal(f(d) == f(worst[0]), e, none) for e, f in stated]) for d in (a, b))
        assert all(x <= 2**epsilon * y for x, y in zip(p, q, strict=True))
        losses.append(((a, b), max(x / y for x, y in zip(p, q, strict=True) if y)))
    assert dict(losses)[worst] == dict(losses)[worst[::-1]] == 2**epsilon


def test_sequential_composition_is_attained() -> None:
    domain = multisets("a", 1)
    metric = canonical(domain, unbounded)
    identity = DatabaseMap(domain, domain, lambda d: d, "id")
    bound = pure_sequential([pure_privacy(e, metric) for e in EPSILONS])
    assert bound.distance((), ("a",)) == 6
    assert attained(metric, [identity] * 3, bool, 6) == (True, True)
    approximate = approximate_composition(
        [OnItsOwnDomain(approximate_privacy(1, Fraction(1, 8), metric), identity) for _ in range(2)]
    )
    pairs = [row([identity] * 2, d, bool, [Fraction(1, 8)] * 2) for d in ((), ("a",))]
    assert delta_at(pairs[0], pairs[1], 4) == 1 - Fraction(7, 8) ** 2 < approximate.delta((), ("a",)) == Fraction(1, 4)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_group_privacy_is_attained_at_every_distance(steps: int) -> None:
    """The geometric mechanism clamped to 0 .. 3 loses exactly ε d, with P(0 | n) the sum of a tail."""
    half = Fraction(1, 2)

    def geometric(count: int) -> list[Fraction]:
        ends = [half**count / (1 + half), half ** (3 - count) / (1 + half)]
        return [ends[0], *((1 - half) / (1 + half) * half ** abs(x - count) for x in (1, 2)), ends[1]]

    metric = canonical(multisets("a", 3), unbounded)
    distance = pure_privacy(1, metric).distance
    for n in range(4 - steps):
        p, q = geometric(n), geometric(n + steps)
        assert sum(p) == sum(q) == 1
        assert max(x / y for x, y in zip(p, q, strict=True)) == 2 ** distance(("a",) * n, ("a",) * (n + steps))
        assert max(y / x for x, y in zip(p, q, strict=True)) == 2 ** distance(("a",) * (n + steps), ("a",) * n)


@pytest.mark.parametrize("steps", [2, 3, 4])
def test_the_delta_of_groups_is_attained(steps: int) -> None:
    """P_i(S) = δ (t^(k - i) - 1)/(t - 1), t = e^ε = 2: each step is (ε, δ), and the whole way has the theorem's δ."""
    delta = Fraction(1, 100)
    mass = [delta * (2 ** (steps - i) - 1) for i in range(steps + 1)]
    for here, there in itertools.pairwise(mass):
        for p, q in (((here, 1 - here), (there, 1 - there)), ((there, 1 - there), (here, 1 - here))):
            assert delta_at(p, q, 1) <= delta
    truth = delta_at((mass[0], 1 - mass[0]), (mass[-1], 1 - mass[-1]), steps)
    assert truth == mass[0]
    bound = group_approximate(math.log(2), delta, steps)[1]
    assert float(bound) == pytest.approx(float(truth), rel=1e-13)


def test_normal_mechanisms_attain_the_gaussian_and_concentrated_rules() -> None:
    """N(μ_i [record present], 1): the square of the distance of the means is what brute force finds."""
    mus = [Fraction(3), Fraction(1), Fraction(2)]
    rhos = [mu**2 / 2 for mu in mus]

    def worst(metric: CanonicalMetric, maps: Sequence[DatabaseMap]) -> Fraction:
        return max(
            sum((mu**2 for mu, f in zip(mus, maps, strict=True) if bool(f(a)) != bool(f(b))), Fraction(0))
            for a, b in metric.neighbours
        )

    domain = multisets("abc", 2)
    maps = [restricted(domain, keep, keep) for keep in "abc"]
    for relation, square in ((unbounded, Fraction(9)), (bounded, Fraction(13))):
        metric = canonical(domain, relation)
        partition = PartedClass(maps, metric)
        gauss = [OnTheCommonDomain(gaussian_privacy(mu, metric), f) for mu, f in zip(mus, maps, strict=True)]
        zero = [OnTheCommonDomain(concentrated_privacy(rho, metric), f) for rho, f in zip(rhos, maps, strict=True)]
        assert worst(metric, maps) == square
        if relation is bounded:
            assert Fraction(parameters(gaussian_bounded_partition(gauss, partition))[0]) ** 2 == pytest.approx(square)
            assert parameters(concentrated_bounded_partition(zero, partition)) == (square / 2,)
            continue
        assert parameters(gaussian_best_bound_common_domain(gauss, partition)) == (3,)
        assert parameters(concentrated_best_bound_common_domain(zero, partition)) == (Fraction(9, 2),)
        blocks = [canonical(f.codomain, unbounded) for f in maps]
        own = PartedClass(maps, metric)
        triples = list(zip(mus, maps, blocks, strict=True))
        gauss_parts = [OnItsOwnDomain(gaussian_privacy(mu, m), f) for mu, f, m in triples]
        zero_parts = [OnItsOwnDomain(concentrated_privacy(mu**2 / 2, m), f) for mu, f, m in triples]
        assert parameters(gaussian_best_bound(gauss_parts, own)) == (3,)
        assert parameters(concentrated_best_bound(zero_parts, own)) == (Fraction(9, 2),)


def test_normal_mechanisms_attain_the_sequential_rules() -> None:
    metric = canonical(multisets("a", 1), unbounded)
    gauss = gaussian_sequential([gaussian_privacy(mu, metric) for mu in (3, 4)])
    zero = concentrated_sequential([concentrated_privacy(rho, metric) for rho in (Fraction(9, 2), 8)])
    assert gauss.distance((), ("a",)) == 5
    assert Fraction(zero.distance((), ("a",))) ** 2 == pytest.approx(Fraction(25, 2))


def test_a_sum_within_one_block_moves_by_two() -> None:
    """The trap: values -1 and 1 in one block, N(sum, 1): μ = 2 for a change, which the rule keeps; √2 is too small."""
    domain = multisets("mp", 2, 2)
    metric = canonical(domain, bounded)
    read = image(domain, lambda d: d, "block")
    mean = {d: d.count("p") - d.count("m") for d in domain.listed("test")}
    mu = max(abs(mean[a] - mean[b]) for a, b in metric.neighbours)
    assert mu == 2 > math.sqrt(2)
    bound = gaussian_bounded_partition(
        [OnTheCommonDomain(gaussian_privacy(mu, metric), read)], PartedClass([read], metric)
    )
    assert parameters(bound) == (2,)
