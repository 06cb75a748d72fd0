"""Sensitivity and preprocessing: III.5 to III.8, exactly, and against the losses of real tables."""

import math
import random
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from pbdist.errors import InvalidInputError
from pbdist.granularity.canonical import canonical_metric, distance_between
from pbdist.granularity.databases import listed_multisets
from pbdist.granularity.notions import Bounded, FreeLunch, Granularity, Unbounded, UserLevel
from pbdist.granularity.preprocessing import (
    preprocessed,
    pulled_back,
    sensitivity,
)
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
from pbdist.granularity.upward import upward_product
from tests.effort import SEED, times
from tests.granularity.worlds import OF_THREE, TABLES, told, users

REALS = DatabaseClass("the reals")
LINE = Metric(REALS, lambda one, other: abs(one - other), "|x - y|")
COUNTS = DatabaseClass("counts", (0, 1, 2, 3, 4))
COUNT = DatabaseMap(TABLES, COUNTS, len, "size")
TOGETHER = Metric(TABLES, lambda _one, _other: 0)
STEPS = Metric(COUNTS, lambda one, other: abs(one - other))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_the_sigmoid_is_free_lunch_private_and_the_bare_mechanism_is_not() -> None:
    """Remark III.7, with Laplace noise of scale 1: |x - y|-private."""
    free = canonical_metric(FreeLunch(), REALS)
    bare = OnItsOwnDomain(PurePrivacy(LINE), DatabaseMap(REALS, REALS, lambda x: x, "identity"))
    with pytest.raises(InvalidInputError, match="identity: expected a map of finite sensitivity, got inf"):
        preprocessed(bare, free, math.inf)
    after = OnItsOwnDomain(PurePrivacy(LINE), DatabaseMap(REALS, REALS, sigmoid, "sigmoid"))
    made = preprocessed(after, free, 1)
    assert isinstance(made, PurePrivacy)
    assert made.distance(-5.0, 7.0) == 1
    assert made.distance(5.0, 5.0) == 0
    assert pulled_back(after).distance(0.0, 1000.0) == 0.5


@pytest.mark.parametrize("most", [10, 100, 700])
def test_the_sensitivity_of_the_identity_grows_without_end(most: int) -> None:
    """Remark III.7, over a few of the reals."""
    some = DatabaseClass("some", (-most, 0, most))
    line = Metric(some, lambda one, other: abs(one - other))
    squeezed = DatabaseMap(some, REALS, sigmoid)
    assert sensitivity(DatabaseMap(some, some, lambda x: x), canonical_metric(FreeLunch(), some), line) == 2 * most
    assert sensitivity(squeezed, canonical_metric(FreeLunch(), some), LINE) <= 1


@pytest.mark.parametrize(
    ("first", "second", "domain"),
    [
        (Unbounded(), Bounded(), TABLES),
        (Bounded(), Unbounded(), TABLES),
        (UserLevel(2), Bounded(), users(2)),
        (Unbounded(), UserLevel(2), users(2)),
        (FreeLunch(), Unbounded(), TABLES),
    ],
    ids=told,
)
def test_the_sensitivity_of_the_identity_is_the_distance_between(
    first: Granularity, second: Granularity, domain: DatabaseClass
) -> None:
    """After Proposition III.6."""
    identity = DatabaseMap(domain, domain, lambda one: one)
    found = sensitivity(identity, canonical_metric(second, domain), canonical_metric(first, domain))
    assert found == distance_between(first, second, domain)


def random_map(chance: random.Random, domain: DatabaseClass, codomain: DatabaseClass) -> DatabaseMap:
    images = codomain.listed("this test")
    table = {one: chance.choice(images) for one in domain.listed("this test")}
    return DatabaseMap(domain, codomain, table.__getitem__, "a random map")


def random_metric(chance: random.Random, domain: DatabaseClass) -> Metric:
    """Shortest paths over a random graph of lengths 0 to 3, with pairs at 0 and at ∞."""
    listed = domain.listed("this test")
    lengths = {pair: chance.choice([0, 1, 2, 3, math.inf, math.inf]) for pair in product(listed, repeat=2)}
    found = {(a, b): 0 if a == b else min(lengths[a, b], lengths[b, a]) for a, b in lengths}
    for middle, first, second in product(listed, repeat=3):
        found[first, second] = min(found[first, second], found[first, middle] + found[middle, second])
    return Metric(domain, lambda first, second: found[first, second], "a random metric")


@pytest.mark.parametrize("part", range(times(40)))
def test_sensitivities_of_random_maps(part: int) -> None:
    """Definition III.5 to the letter, and Proposition III.8, with distances of 0 and ∞."""
    chance = random.Random(f"{SEED} {part}")  # noqa: S311 -- no secret
    classes = [DatabaseClass(name, tuple(range(size))) for name, size in (("one", 4), ("two", 5), ("three", 4))]
    metrics = [random_metric(chance, one) for one in classes]
    f, g = random_map(chance, classes[0], classes[1]), random_map(chance, classes[1], classes[2])
    found = sensitivity(f, metrics[0], metrics[1])
    close = [pair for pair in product(range(4), repeat=2) if metrics[0](*pair) < math.inf]
    grown = [(metrics[1](f(a), f(b)), metrics[0](a, b)) for a, b in close]
    if found == math.inf:
        assert any(image == math.inf or (whole == 0 and image > 0) for image, whole in grown)
    else:
        assert all(image <= found * whole for image, whole in grown)
        assert found == 0 or any(image == found * whole > 0 for image, whole in grown)
    both = DatabaseMap(classes[0], classes[2], lambda one: g(f(one)))
    bound = upward_product(found, sensitivity(g, metrics[1], metrics[2]))
    assert sensitivity(both, metrics[0], metrics[2]) <= bound


def test_no_sensitivity_next_to_an_infinite_one_is_infinite() -> None:
    """f maps into databases at distance 0, which g tells apart: 0 times ∞ must not be 0."""
    two = DatabaseClass("two", (0, 1))
    blind, sharp = Metric(two, lambda *_: 0), Metric(two, lambda a, b: int(a != b))
    identity = DatabaseMap(two, two, lambda one: one)
    assert sensitivity(identity, sharp, blind) == 0
    assert sensitivity(identity, blind, sharp) == math.inf
    assert upward_product(0, math.inf) == upward_product(math.inf, 0) == math.inf
    assert sensitivity(identity, sharp, sharp) == 1


def losses(table: dict[Any, list[Fraction]], first: Any, second: Any) -> Fraction:
    """The largest ratio of probabilities, e^loss."""
    return max(p / q for p, q in zip(table[first], table[second], strict=True))


def random_table(chance: random.Random, listed: tuple[Any, ...], outputs: int = 3) -> dict[Any, list[Fraction]]:
    weights = {one: [chance.randint(1, 6) for _ in range(outputs)] for one in listed}
    return {one: [Fraction(weight, sum(row)) for weight in row] for one, row in weights.items()}


@pytest.mark.parametrize("granularity", [Unbounded(), Bounded()], ids=told)
@pytest.mark.parametrize("part", range(times(20)))
def test_preprocessed_mechanisms_are_as_private_as_told(granularity: Granularity, part: int) -> None:
    """Proposition III.6, exactly: e^loss is at most (e^ε)^distance for random tables M over the images."""
    chance = random.Random(f"{SEED} {part} {granularity!r}")  # noqa: S311 -- no secret
    domain = TABLES if granularity == Unbounded() else OF_THREE
    reads = random_map(chance, domain, listed_multisets("images", "ab", range(3)))
    images = reads.codomain.listed("this test")
    table = random_table(chance, images)
    after, before = canonical_metric(Unbounded(), reads.codomain), canonical_metric(granularity, domain)
    base = max(losses(table, a, b) for a, b in product(images, repeat=2) if after(a, b) == 1)
    stated = OnItsOwnDomain(PurePrivacy(after), reads)
    stretched, images_own = preprocessed(stated, before).distance, pulled_back(stated).distance
    for first, second in product(domain.listed("this test"), repeat=2):
        loss = losses(table, reads(first), reads(second))
        assert loss <= base ** images_own(first, second)
        if before(first, second) < math.inf:
            assert images_own(first, second) <= stretched(first, second)


@pytest.mark.parametrize("kind", [PurePrivacy, ZeroConcentratedPrivacy, GaussianPrivacy])
def test_every_kind_is_preprocessed(kind: Any) -> None:
    stated = OnItsOwnDomain(kind(ScaledMetric(STEPS, Fraction(1, 2))), COUNT)
    made = preprocessed(stated, canonical_metric(Unbounded(), TABLES))
    assert type(made) is kind
    assert made.distance.domain == TABLES
    assert made.distance((), ("a", "b")) == 1
    assert made.distance(("a",), ("b",)) == 1
    assert pulled_back(stated).distance(("a",), ("b",)) == 0


def test_delta_is_that_of_the_images() -> None:
    delta = StarDistance(COUNTS, lambda one, other: Fraction(abs(one - other), 100))
    stated = OnItsOwnDomain(ApproximatePrivacy(STEPS, delta), COUNT)
    made = preprocessed(stated, canonical_metric(Unbounded(), TABLES))
    assert isinstance(made, ApproximatePrivacy)
    assert made.distance((), ("a", "b")) == 2
    assert made.delta((), ("a", "b")) == Fraction(2, 100)
    assert made.delta(("a",), ("b",)) == 0


def test_a_changed_record_stays_infinitely_far_from_parts_of_other_sizes() -> None:
    """A map of sensitivity 0 says nothing of databases at distance ∞."""
    nothing = DatabaseMap(TABLES, COUNTS, len, "size")
    made = preprocessed(OnItsOwnDomain(PurePrivacy(STEPS), nothing), canonical_metric(Bounded(), TABLES))
    assert made.distance(("a",), ("b",)) == 0
    assert made.distance((), ("b",)) == math.inf


def test_privacy_of_a_granularity() -> None:
    """Theorem III.3."""
    metric = canonical_metric(Unbounded(), TABLES)
    made = PURE.privacy(metric, Fraction(1, 10))
    assert made.distance((), ("a", "b", "c")) == Fraction(3, 10)
    for epsilon, steps in product((0.1, 0.3, 1e-300), range(1, 5)):
        found = PURE.privacy(metric, epsilon).distance((), ("a",) * steps)
        assert Fraction(epsilon) * steps <= Fraction(found) <= Fraction(epsilon) * steps * (1 + Fraction(1, 2**52))


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: sensitivity(COUNT, STEPS, STEPS), "expected a distance over its domain tables"),
        (
            lambda: sensitivity(DatabaseMap(REALS, REALS, abs), LINE, LINE),
            "expected a class whose databases are listed",
        ),
        (lambda: ScaledMetric(STEPS, -1), "expected a number of at least 0, got -1"),
        (lambda: ScaledMetric(STEPS, math.nan), "expected a number of at least 0"),
        (lambda: preprocessed(OnItsOwnDomain(PurePrivacy(STEPS), COUNT), TOGETHER), "of finite sensitivity, got inf"),
        (lambda: preprocessed(OnItsOwnDomain(PurePrivacy(STEPS), COUNT), STEPS, 1), "over its domain tables"),
        (
            lambda: preprocessed(
                OnItsOwnDomain(PurePrivacy(STEPS), COUNT), canonical_metric(Unbounded(), TABLES), Fraction(1, 2)
            ),
            "expected at least Fraction.1, 1., got Fraction.1, 2.",
        ),
        (
            lambda: preprocessed(
                OnItsOwnDomain(PurePrivacy(StarDistance(COUNTS, STEPS)), COUNT), canonical_metric(Unbounded(), TABLES)
            ),
            "expected privacy with a metric",
        ),
    ],
)
def test_what_is_wrong_is_refused(made: Any, text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        made()
