"""Privacy of a mechanism after a map: III.5 to III.7, exactly, and against the losses of real tables."""

import math
import random
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from pbdist.errors import InvalidInputError
from pbdist.granularity.canonical import canonical_metric
from pbdist.granularity.databases import listed_multisets
from pbdist.granularity.notions import Bounded, Granularity, Unbounded
from pbdist.granularity.preprocessing import pulled_back
from pbdist.granularity.rules import PURE
from pbdist.granularity.spaces import (
    ApproximatePrivacy,
    DatabaseClass,
    DatabaseMap,
    GaussianPrivacy,
    Metric,
    OnItsOwnDomain,
    PurePrivacy,
    ScaledMetric,
    StarDistance,
    ZeroConcentratedPrivacy,
)
from tests.effort import SEED, times
from tests.granularity.worlds import OF_THREE, TABLES, told

REALS = DatabaseClass("the reals")
LINE = Metric(REALS, lambda one, other: abs(one - other), "|x - y|")
COUNTS = DatabaseClass("counts", (0, 1, 2, 3, 4))
COUNT = DatabaseMap(TABLES, COUNTS, len, "size")
STEPS = Metric(COUNTS, lambda one, other: abs(one - other))


def random_map(chance: random.Random, domain: DatabaseClass, codomain: DatabaseClass) -> DatabaseMap:
    images = codomain.listed("this test")
    table = {one: chance.choice(images) for one in domain.listed("this test")}
    return DatabaseMap(domain, codomain, table.__getitem__, "a random map")


def losses(table: dict[Any, list[Fraction]], first: Any, second: Any) -> Fraction:
    """The largest ratio of probabilities, e^loss."""
    return max(p / q for p, q in zip(table[first], table[second], strict=True))


def random_table(chance: random.Random, listed: tuple[Any, ...], outputs: int = 3) -> dict[Any, list[Fraction]]:
    weights = {one: [chance.randint(1, 6) for _ in range(outputs)] for one in listed}
    return {one: [Fraction(weight, sum(row)) for weight in row] for one, row in weights.items()}


@pytest.mark.parametrize("granularity", [Unbounded(), Bounded()], ids=told)
@pytest.mark.parametrize("part", range(times(20)))
def test_mechanisms_after_a_map_are_as_private_as_told(granularity: Granularity, part: int) -> None:
    """e^loss is at most (e^ε)^distance for random tables M over the images; Proposition III.6 with Δf of neighbours."""
    chance = random.Random(f"{SEED} {part} {granularity!r}")  # noqa: S311 -- no secret
    domain = TABLES if granularity == Unbounded() else OF_THREE
    reads = random_map(chance, domain, listed_multisets("images", "ab", range(3)))
    images = reads.codomain.listed("this test")
    table = random_table(chance, images)
    after, before = canonical_metric(Unbounded(), reads.codomain), canonical_metric(granularity, domain)
    base = max(losses(table, a, b) for a, b in product(images, repeat=2) if after(a, b) == 1)
    pulled = pulled_back(OnItsOwnDomain(PurePrivacy(after), reads))
    assert isinstance(pulled, PurePrivacy)
    stretched = PURE.over_neighbours(pulled, before).distance
    for first, second in product(domain.listed("this test"), repeat=2):
        loss = losses(table, reads(first), reads(second))
        assert loss <= base ** pulled.distance(first, second)
        if before(first, second) < math.inf:
            assert pulled.distance(first, second) <= stretched(first, second)


@pytest.mark.parametrize("kind", [PurePrivacy, ZeroConcentratedPrivacy, GaussianPrivacy])
def test_every_kind_is_pulled_back(kind: Any) -> None:
    stated = OnItsOwnDomain(kind(ScaledMetric(STEPS, Fraction(1, 2))), COUNT)
    made = pulled_back(stated)
    assert type(made) is kind
    assert made.distance.domain == TABLES
    assert made.distance((), ("a", "b")) == 1
    assert made.distance(("a",), ("b",)) == 0


def test_delta_is_that_of_the_images() -> None:
    delta = StarDistance(COUNTS, lambda one, other: Fraction(abs(one - other), 100))
    made = pulled_back(OnItsOwnDomain(ApproximatePrivacy(STEPS, delta), COUNT))
    assert isinstance(made, ApproximatePrivacy)
    assert made.distance((), ("a", "b")) == 2
    assert made.delta((), ("a", "b")) == Fraction(2, 100)
    assert made.delta(("a",), ("b",)) == 0


def test_privacy_of_a_granularity() -> None:
    """Theorem III.3."""
    metric = canonical_metric(Unbounded(), TABLES)
    made = PURE.privacy(metric, Fraction(1, 10))
    assert made.distance((), ("a", "b", "c")) == Fraction(3, 10)
    for epsilon, steps in product((0.1, 0.3, 1e-300), range(1, 5)):
        found = PURE.privacy(metric, epsilon).distance((), ("a",) * steps)
        assert Fraction(epsilon) * steps <= Fraction(found) <= Fraction(epsilon) * steps * (1 + Fraction(1, 2**52))


@pytest.mark.parametrize("factor", [-1, math.nan])
def test_wrong_factors_are_refused(factor: float) -> None:
    with pytest.raises(InvalidInputError, match="expected a number of at least 0"):
        ScaledMetric(STEPS, factor)


def test_the_sigmoid_is_free_lunch_private() -> None:
    """Remark III.7, with Laplace noise of scale 1: |x - y|-private."""
    sigmoid = DatabaseMap(REALS, REALS, lambda x: 1 / (1 + math.exp(-x)), "sigmoid")
    assert pulled_back(OnItsOwnDomain(PurePrivacy(LINE), sigmoid)).distance(0.0, 1000.0) == 0.5
