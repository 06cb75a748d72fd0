"""Rules that are tight are attained, exactly and in both directions, by extremal mechanisms."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from pbdist.granularity.canonical import CanonicalMetric
from pbdist.granularity.partitions import PartedClass
from pbdist.granularity.rules import APPROXIMATE, CONCENTRATED, GAUSSIAN, PURE, parameters
from pbdist.granularity.spaces import (
    DatabaseMap,
    GaussianPrivacy,
    Metric,
    OnItsOwnDomain,
    OnTheCommonDomain,
    RootScaledMetric,
    ScaledMetric,
    ZeroConcentratedPrivacy,
)
from tests.granularity.rule_worlds import (
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
@pytest.mark.parametrize(("accounting", "deltas"), [(PURE, ()), (APPROXIMATE, DELTAS)], ids=["pure", "approximate"])
def test_the_best_bound_is_attained(name: str, accounting: Any, deltas: Sequence[Fraction]) -> None:
    """At ε = max ε_i the largest δ(ε) between neighbours is max δ_i, in both directions."""
    world = WORLDS[name]
    stated = [(EPSILONS[i], *deltas[i : i + 1]) for i in range(len(world.maps))]
    blocks = [canonical(f.codomain, world.relation) for f in world.maps]
    partition = PartedClass(world.maps, world.metric)
    own = [OnItsOwnDomain(accounting.privacy(m, *e), f) for e, m, f in zip(stated, blocks, world.maps, strict=True)]
    common = [
        OnTheCommonDomain(accounting.privacy(world.metric, *e), f) for e, f in zip(stated, world.maps, strict=True)
    ]
    expected = (3, *([Fraction(1, 8)] if deltas else []))
    assert parameters(accounting.best_bound(own, partition)) == expected
    assert parameters(accounting.best_bound_common_domain(common, partition)) == expected
    assert PURE.for_numbers(1, EPSILONS) == (3,)
    if not deltas:
        assert attained(world.metric, world.maps, shows_a_record, 3) == (True, True)
        return
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
    common = [OnTheCommonDomain(PURE.privacy(world.metric, e), f) for e, f in zip(EPSILONS, world.maps, strict=True)]
    bound = PURE.bounded_partition(common, PartedClass(world.maps, world.metric))
    assert parameters(bound) == (5,)
    assert attained(world.metric, world.maps, bool, 5) == (True, True)


def test_two_parts_with_delta_are_sound_and_their_epsilon_is_attained() -> None:
    """(3, 1/8), (1, 0), (2, 1/32): 5 and 1/8 + 1/32; the truth at ε = 5 is 1 - (1 - 1/8)(1 - 1/32), just below."""
    world = WORLDS["bounded partition"]
    stated = list(zip(EPSILONS, DELTAS, world.maps, strict=True))
    common = [OnTheCommonDomain(APPROXIMATE.privacy(world.metric, e, d), f) for e, d, f in stated]
    bound = APPROXIMATE.bounded_partition(common, PartedClass(world.maps, world.metric))
    assert parameters(bound) == (5, Fraction(5, 32))
    rows = {d: row(world.maps, d, bool, DELTAS) for d in world.metric.domain.listed("test")}
    worst = {
        epsilon: max(delta_at(rows[a], rows[b], epsilon) for a, b in world.metric.neighbours) for epsilon in (4, 5)
    }
    assert worst[5] == 1 - Fraction(7, 8) * Fraction(31, 32) < Fraction(5, 32) < worst[4]
    full = [OnTheCommonDomain(APPROXIMATE.privacy(world.metric, 1, Fraction(3, 4)), f) for f in world.maps]
    assert parameters(APPROXIMATE.bounded_partition(full, PartedClass(world.maps, world.metric))) == (2, 1)


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
    wide, concentrated = GAUSSIAN.commuting(gauss, partition), CONCENTRATED.commuting(zero, partition)
    assert parameters(wide, metric) == (3,)
    assert parameters(concentrated, metric) == (Fraction(9, 2),)
    assert wide.distance((), ("b", "b")) == 6
    for a, b in itertools.product(domain.listed("test"), repeat=2):
        truth = sum(mu**2 * changed(f(a), f(b)) ** 2 for mu, f in zip(mus, maps, strict=True))
        assert truth <= Fraction(wide.distance(a, b)) ** 2
        assert truth <= 2 * concentrated.distance.square(a, b)


def test_one_bounded_part_is_attained() -> None:
    world = WORLDS["one bounded part"]
    common = [OnTheCommonDomain(PURE.privacy(world.metric, 3), world.maps[0])]
    assert parameters(PURE.bounded_partition(common, PartedClass(world.maps, world.metric))) == (3,)
    assert attained(world.metric, world.maps, lambda part: part.count("a") > 0, 3) == (True, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(WORLDS))
def test_touched_mechanisms_add_up_and_are_attained(name: str) -> None:
    """max over D ~ D' of Σ ε_i over the touched mechanisms (IV.11), by mechanisms on whether f_i(D) is what it was."""
    world = WORLDS[name]
    stated = list(zip(EPSILONS, world.maps, strict=False))
    common = [OnTheCommonDomain(PURE.privacy(world.metric, e), f) for e, f in stated]
    (epsilon,) = parameters(PURE.over_neighbours(PURE.common_domain(common), world.metric))
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
    bound = PURE.sequential([PURE.privacy(metric, e) for e in EPSILONS])
    assert bound.distance((), ("a",)) == 6
    assert attained(metric, [identity] * 3, bool, 6) == (True, True)
    approximate = APPROXIMATE.composition(
        [OnItsOwnDomain(APPROXIMATE.privacy(metric, 1, Fraction(1, 8)), identity) for _ in range(2)]
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
    distance = PURE.privacy(metric, 1).distance
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
    bound = APPROXIMATE.at_distance(steps, math.log(2), delta)[1]
    assert float(bound) == pytest.approx(float(truth), rel=1e-13)


@pytest.mark.parametrize(
    ("accounting", "of"), [(GAUSSIAN, lambda mu: mu), (CONCENTRATED, lambda mu: mu**2 / 2)], ids=["gaussian", "zcdp"]
)
def test_normal_mechanisms_attain_the_rules_for_squares(accounting: Any, of: Any) -> None:
    """N(μ_i [record present], 1): the square of the distance of the means is what brute force finds."""
    mus = [Fraction(3), Fraction(1), Fraction(2)]
    domain = multisets("abc", 2)
    maps = [restricted(domain, keep, keep) for keep in "abc"]
    for relation, square in ((unbounded, Fraction(9)), (bounded, Fraction(13))):
        metric = canonical(domain, relation)
        partition = PartedClass(maps, metric)
        common = [OnTheCommonDomain(accounting.privacy(metric, of(mu)), f) for mu, f in zip(mus, maps, strict=True)]
        assert square == max(
            sum((mu**2 for mu, f in zip(mus, maps, strict=True) if bool(f(a)) != bool(f(b))), Fraction(0))
            for a, b in metric.neighbours
        )
        if relation is bounded:
            (found,) = parameters(accounting.bounded_partition(common, partition))
            if accounting is CONCENTRATED:
                assert found == square / 2
            else:  # The least float that is not below √13.
                assert Fraction(math.nextafter(found, 0.0)) ** 2 < square <= Fraction(found) ** 2
            continue
        own = [
            OnItsOwnDomain(accounting.privacy(canonical(f.codomain, unbounded), of(mu)), f)
            for mu, f in zip(mus, maps, strict=True)
        ]
        assert parameters(accounting.best_bound_common_domain(common, partition)) == (of(Fraction(3)),)
        assert parameters(accounting.best_bound(own, partition)) == (of(Fraction(3)),)
    metric = canonical(multisets("a", 1), unbounded)
    whole = accounting.sequential([accounting.privacy(metric, of(Fraction(mu))) for mu in (3, 4)])
    assert whole.distance.square((), ("a",)) == (25 if accounting is GAUSSIAN else Fraction(25, 2))


def test_a_sum_within_one_block_moves_by_two() -> None:
    """The trap: values -1 and 1 in one block, N(sum, 1): μ = 2 for a change, which the rule keeps; √2 is too small."""
    domain = multisets("mp", 2, 2)
    metric = canonical(domain, bounded)
    read = image(domain, lambda d: d, "block")
    mean = {d: d.count("p") - d.count("m") for d in domain.listed("test")}
    mu = max(abs(mean[a] - mean[b]) for a, b in metric.neighbours)
    assert mu == 2 > math.sqrt(2)
    bound = GAUSSIAN.bounded_partition(
        [OnTheCommonDomain(GAUSSIAN.privacy(metric, mu), read)], PartedClass([read], metric)
    )
    assert parameters(bound) == (2,)
