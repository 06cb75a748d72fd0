"""Plans against brute force in whole numbers; profiles against real records of eight blocks; pruning against none."""

import itertools
import math
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pbdist import (
    ApproximateDP,
    Gaussian,
    Histogram,
    Laplace,
    RandomizedResponse,
    Reversed,
    SubsampledGaussian,
    privacy_bounds,
)
from pbdist.granularity.notions import Bounded, Granularity, Unbounded, UserLevel
from pbdist.granularity.release.declared import Analysis, Blocks, Memberships, Overlapping, Partition, Profile, Touch
from pbdist.granularity.release.plan import ReleasePlan
from pbdist.granularity.release.products import Resolved, Resolver, without_dominated, without_reversed
from pbdist.granularity.release.profiles import profiles_of
from pbdist.granularity.release.worst import LARGEST_LOSS, QuickBounds, Spectra, largest_delta, largest_epsilon
from pbdist.mechanisms import Pair, Product
from pbdist.table import bounds_table, epsilon_table_of
from tests.effort import SEED, times
from tests.granularity.release.release_worlds import KINDS, drawn_world

pytestmark = pytest.mark.slow

LOADED = Histogram((1, 3, 6), (3, 3, 4))
NAMES = tuple(f"b{k}" for k in range(8))
PAIRS: list[Pair] = [Gaussian(3.0), Laplace(4.0), RandomizedResponse(0.6), LOADED, ApproximateDP(0.2, 1e-4)]


def sets_of(blocks: Blocks) -> list[tuple[str, ...]]:
    """Every set of blocks that a record may be in."""
    if isinstance(blocks, Memberships):
        return list(blocks.sets)
    least = 1 if blocks.exhaustive else 0
    sizes = range(least, blocks.at_most + 1)
    return [one for size in sizes for one in itertools.combinations(blocks.blocks, size)]


def of_records(granularity: Granularity, blocks: Blocks, analyses: list[Analysis]) -> Iterator[Profile]:
    """Every profile, by going through the sets of blocks of all records that change."""
    sets = sets_of(blocks)
    changes: Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]
    if isinstance(granularity, Unbounded):
        changes = (((one,), ()) for one in sets)
    elif isinstance(granularity, Bounded):
        changes = (((one,), (two,)) for one in sets for two in sets)
    else:
        assert isinstance(granularity, UserLevel)
        users = (itertools.combinations_with_replacement(sets, k) for k in range(1, granularity.records + 1))
        changes = ((user, ()) for user in itertools.chain.from_iterable(users))
    for lost, gained in changes:
        touches = []
        for one in analyses:
            less, more = (
                sum(one.reads is None or not set(one.reads).isdisjoint(names) for names in side)
                for side in (lost, gained)
            )
            if less or more:
                touches.append(Touch(one.name, less, more))
        if touches:
            yield Profile(touches)


def told(profile: Profile, analyses: list[Analysis]) -> Any:
    """What bounds see of a profile: which kinds of analyses are touched, and how."""
    kinds = {one.name: (repr(one.pair), one.repeats) for one in analyses}
    return tuple(sorted((kinds[touch.analysis], touch.removed, touch.added) for touch in profile.touches))


def plain(kinds: int) -> list[Analysis]:
    """One analysis on each block, of a few kinds."""
    return [Analysis(name, PAIRS[k % kinds], [name]) for k, name in enumerate(NAMES)]  # type: ignore[arg-type]


WIDE = [
    Analysis("first half", PAIRS[2], NAMES[:4]),
    Analysis("some", PAIRS[4], ["b1", "b4", "b6"]),  # type: ignore[arg-type]
    Analysis("everything", PAIRS[1], replaced=Laplace(2.0)),
]
TWICE = [Analysis("again", LOADED, ["b0"], repeats=2), Analysis("and again", PAIRS[0], ["b5"])]  # type: ignore[arg-type]
CASES: list[tuple[Granularity, Blocks]] = [
    (Unbounded(), Partition(NAMES)),
    (Unbounded(), Partition(NAMES, exhaustive=False)),
    (Unbounded(), Overlapping(NAMES, 3)),
    (Unbounded(), Overlapping(NAMES, 3, exhaustive=True)),
    (Unbounded(), Overlapping(NAMES, 8)),
    (Bounded(), Partition(NAMES)),
    (Bounded(), Partition(NAMES, exhaustive=False)),
    (Bounded(), Overlapping(NAMES, 2)),
    (Bounded(), Overlapping(NAMES, 2, exhaustive=True)),
    (UserLevel(3), Partition(NAMES)),
    (UserLevel(3), Overlapping(NAMES, 1)),
    (UserLevel(2), Overlapping(NAMES, 2)),
    (UserLevel(2), Overlapping(NAMES, 2, exhaustive=True)),
    (Unbounded(), Memberships([NAMES[:3], NAMES[3:], ("b0", "b7"), ()])),
    (Bounded(), Memberships([NAMES[:3], NAMES[3:], ("b0", "b7"), ()])),
    (UserLevel(3), Memberships([NAMES[:3], NAMES[3:], ("b0", "b7"), ()])),
]


@pytest.mark.parametrize("kinds", [1, 3, 5])
@pytest.mark.parametrize(("granularity", "blocks"), CASES, ids=range(len(CASES)))
def test_without_wide_analyses_the_profiles_are_those_of_the_records(
    granularity: Granularity, blocks: Blocks, kinds: int
) -> None:
    analyses = [*plain(kinds), *TWICE]
    found = [told(one, analyses) for one in profiles_of(granularity, blocks, analyses)]
    assert set(found) == {told(one, analyses) for one in of_records(granularity, blocks, analyses)}
    if not isinstance(blocks, Memberships):
        alone = [told(one, analyses[:8]) for one in profiles_of(granularity, blocks, analyses[:8])]
        assert len(set(alone)) == len(alone), "one of each kind"


@pytest.mark.parametrize(("granularity", "blocks"), CASES, ids=range(len(CASES)))
def test_with_wide_analyses_no_profile_of_the_records_is_missed(granularity: Granularity, blocks: Blocks) -> None:
    """The same profiles, or for several records of a user one that counts more."""
    analyses = [*plain(3), *TWICE, *WIDE]
    found = [told(one, analyses) for one in profiles_of(granularity, blocks, analyses)]
    wanted = {told(one, analyses) for one in of_records(granularity, blocks, analyses)}
    if not isinstance(granularity, UserLevel) or isinstance(blocks, Memberships):
        assert set(found) == wanted
        return
    counts = [{key: (less, more) for key, less, more in one} for one in found if len({k for k, *_ in one}) == len(one)]
    exact = set(found)
    for one in wanted - exact:
        own = [{key: (less, more)} for key, less, more in one]
        several = len({key for key, *_ in one}) < len(one)
        assert (
            several
            or any(
                all(item[0] <= known.get(key, (0, 0))[0] for each in own for key, item in each.items())
                for known in counts
            )
            or _covered(one, found)
        )


def _covered(one: Any, found: list[Any]) -> bool:
    """Whether some profile touches at least as many analyses of each kind at least as far."""

    def sizes(profile: Any) -> dict[Any, list[int]]:
        kinds: dict[Any, list[int]] = {}
        for key, less, _ in profile:
            kinds.setdefault(key, []).append(less)
        return {key: sorted(values, reverse=True) for key, values in kinds.items()}

    wanted = sizes(one)
    return any(
        all(
            len(known.get(key, [])) >= len(values) and all(a >= b for a, b in zip(known[key], values, strict=False))
            for key, values in wanted.items()
        )
        for known in map(sizes, found)
    )


@pytest.mark.parametrize("case", [1, 14])
def test_bounds_are_those_of_the_worst_profile_computed_alone(case: int) -> None:
    """Every profile of the records, as a product of its own."""
    granularity, blocks = CASES[case]
    analyses = [*plain(3), *TWICE]
    if not isinstance(granularity, UserLevel):
        analyses += WIDE
    losses = [0.0, 0.4, 1.5]
    found = ReleasePlan(granularity, analyses, blocks).privacy_bounds(compositions=[3], epsilon=losses)
    resolver = Resolver(granularity, blocks, analyses)
    unique = {told(one, analyses): one for one in of_records(granularity, blocks, analyses)}
    products = {resolver.of_profile(one).factors for one in unique.values()}
    upper, lower = np.zeros((1, 3)), np.zeros((1, 3))
    for factors in products:
        listed = [pair for pair, count in sorted(factors, key=repr) for _ in range(count)]
        alone = privacy_bounds(Product(*listed), compositions=[3], epsilon=losses, strict=False)
        upper, lower = np.maximum(upper, alone.delta_upper), np.maximum(lower, alone.delta_lower)
    assert np.all(lower <= found.delta_upper.to_numpy())
    assert np.allclose(found.delta_upper, upper, rtol=2e-3)
    assert found.attrs["products_computed"] <= len(products)


def drawn_products(seed: int, number: int) -> list[Resolved]:
    """Products of a few pairs, of very different sizes."""
    source = random.Random(seed)  # noqa: S311
    kinds: list[Any] = [
        Gaussian(2.0),
        Gaussian(6.0),
        Laplace(3.0),
        Laplace(3.0, truncate=(-20.0, 20.0)),
        RandomizedResponse(0.55),
        RandomizedResponse(0.999),
        LOADED,
        Reversed(LOADED),
        Histogram((0, 50, 50), (1, 49, 50)),
        ApproximateDP(0.1, 1e-6),
        ApproximateDP(1.0, 0.01),
        ApproximateDP(0.0, 1e-3),
        SubsampledGaussian(1.0, 0.05),
        ApproximateDP(0.5, 1.0) if seed % 3 == 0 else ApproximateDP(0.5, 0.5),
        Gaussian(1e4),
    ]
    products = []
    for _ in range(number):
        chosen = source.sample(kinds, source.randint(1, 4))
        products.append(
            Resolved(frozenset((one, source.choice([1, 1, 2, 5])) for one in chosen), source.random() < 0.5)
        )
    return products


@pytest.mark.parametrize(
    ("seed", "rounds"), [pytest.param(0, 1, marks=pytest.mark.nightly), (1, 16), (2, 4096), (3, 1)]
)
def test_quick_bounds_and_spectra_are_upper_bounds(seed: int, rounds: int) -> None:
    products = drawn_products(seed, 6)
    losses = np.array([0.0, 0.1, 1.0, 5.0, 40.0])
    quick = QuickBounds(products)
    by_moments = quick.log_delta(np.array([rounds]), losses[None])[:, 0]
    by_spectra = Spectra(products, min(quick.far_loss(rounds), LARGEST_LOSS)).delta(
        np.arange(len(products)), rounds, losses
    )
    for row, product in enumerate(products):
        components = sorted(product.factors, key=repr)
        table = bounds_table(components, compositions=[rounds], epsilon=losses, strict=False)  # type: ignore[arg-type]
        lower = table.log_delta_lower[:, 0].max(axis=0)
        assert np.all(lower <= by_moments[row]), product
        assert np.all(table.delta_lower[:, 0].max(axis=0) <= by_spectra[row]), product


@pytest.mark.parametrize("seed", [1, 3, pytest.param(0, marks=pytest.mark.nightly)])
def test_what_is_left_out_changes_nothing(seed: int) -> None:
    """The screens, dominated products and reversed ones against computing all."""
    products = list({one.factors: one for one in drawn_products(seed, 4 + times(4))}.values())
    rounds, losses, deltas = np.array([1, 9]), np.array([0.0, 0.5, 3.0]), np.array([1e-2, 1e-5])
    kept = without_dominated(without_reversed(products))
    found = largest_delta(kept, rounds, losses, tolerance=None)
    sought = largest_epsilon(kept, rounds, deltas, tolerance=None)
    upper, lower = np.full((2, 3), -np.inf), np.full((2, 3), np.nan)
    most, least = np.zeros((2, 2)), np.full((2, 2), np.nan)
    for one in products:
        components: Any = sorted(one.factors, key=repr)
        table = bounds_table(components, compositions=rounds, epsilon=losses, strict=False, joint_directions=True)
        upper = np.maximum(upper, table.log_delta_lower.max(axis=0))
        exact = epsilon_table_of(components, compositions=rounds, delta=deltas, tolerance=None, joint_directions=True)
        most = np.maximum(most, exact.lower.max(axis=0))
        if one.attained:
            lower = np.fmax(lower, table.log_delta_upper.max(axis=0))
            least = np.fmax(least, exact.upper.max(axis=0))
    assert np.all(upper <= found.upper)
    assert np.all(found.upper <= upper + 2.5e-3)
    assert np.all((found.lower <= lower) & (found.lower >= lower - 2.5e-3))
    assert np.all(most <= sought.upper)
    # From 1e9 on nothing is told from ∞.
    assert np.all((sought.upper <= most * 1.0025) | (most >= 1e9))
    assert np.all((sought.lower <= least) & ((sought.lower >= least / 1.0025) | (least >= 1e9)))
    assert found.computed <= len(kept) <= len(products)


RATIOS = (Fraction(1), Fraction(5, 4), Fraction(2), Fraction(9, 2))
#: Plans of each of 8 kinds of granularity.
MANY = 10


def check_plan(kind: str, seed: int) -> None:
    world = drawn_world(kind, seed)
    losses = [math.log(ratio) for ratio in RATIOS]
    # δ falls with ε: below ln of the ratio it is at least the truth there, above it at most.
    epsilon = [(1.0 - 2.0**-40) * loss for loss in losses] + [(1.0 + 2.0**-40) * loss for loss in losses]
    found = world.plan.privacy_bounds(compositions=1, epsilon=epsilon)
    upper, lower = found.delta_upper.to_numpy()[0, :4], found.delta_lower.to_numpy()[0, 4:]
    for ratio, high, low in zip(RATIOS, upper, lower, strict=True):
        truth = world.largest_delta(ratio)
        assert truth <= Fraction(float(high)), (kind, seed, ratio, float(truth), high)
        assert math.isnan(low) or low == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_plans_hold(kind: str) -> None:
    for seed in range(times(MANY)):
        check_plan(kind, MANY * 100 * SEED + seed)
