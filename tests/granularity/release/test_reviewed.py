"""Plans that once had wrong bounds, or none: each answer against the plan as one mechanism, or a truth by hand."""

import itertools

import numpy as np
import pytest

import pbdist
from pbdist import ApproximateDP, Gaussian, Histogram, Laplace, RandomizedResponse, SubsampledGaussian
from pbdist.granularity import (
    Analysis,
    EdgeLevel,
    FreeLunch,
    NodeLevel,
    Overlapping,
    Partition,
    ReleasePlan,
    Unbounded,
    UserLevel,
    on_each_block,
)
from pbdist.granularity.notions import Granularity
from pbdist.mechanisms import Pair
from pbdist.table import bounds_table

NAMES = ("a", "b", "c", "d")
PAIRS = (Gaussian(5.0), RandomizedResponse(0.75), ApproximateDP(1.0, 0.0), Histogram((5, 1, 1), (1, 1, 5)))


def plan_of(pairs: tuple[Pair, ...]) -> ReleasePlan:
    analyses = [Analysis(name, pair, reads=(name,)) for name, pair in zip(NAMES, pairs, strict=True)]
    return ReleasePlan(Unbounded(), analyses, Partition(NAMES))


@pytest.mark.parametrize("pairs", list(itertools.permutations(PAIRS))[::7])
@pytest.mark.parametrize("epsilon", [(60.0,), (1.0, 60.0, 80.0)])
def test_a_faint_delta_is_never_left_out(pairs: tuple[Pair, ...], epsilon: tuple[float, ...]) -> None:
    plan = plan_of(pairs)
    found = plan.privacy_bounds(compositions=1, epsilon=epsilon)
    truth = bounds_table([(plan.pair(), 1)], compositions=[1], epsilon=epsilon, strict=False)
    gaussian = pbdist.privacy_bounds(Gaussian(5.0), compositions=1, epsilon=epsilon).log_delta_lower.values
    assert (found.log_delta_upper.values >= gaussian).all()
    np.testing.assert_allclose(found.log_delta_upper.values[0], truth.log_delta_upper[:, 0].max(axis=0), rtol=1e-3)


@pytest.mark.parametrize(
    ("granularity", "declared"),
    [
        (Unbounded(), FreeLunch()),
        (UserLevel(2), Unbounded()),
        (NodeLevel(2, presence="public"), EdgeLevel()),
    ],
    ids=repr,
)
def test_some_neighbours_of_another_relation_prove_nothing(granularity: Granularity, declared: Granularity) -> None:
    """A count clamped to [0, 100] attains its range somewhere; one record moves it by 1 alone."""
    clamped = Analysis("clamped", Laplace(50.0), reads=("a",), declared=declared, attained="some")
    plan = ReleasePlan(granularity, [clamped], Partition(("a", "b")))
    assert np.isnan(plan.epsilon_bounds(compositions=1, delta=1e-6).epsilon_lower.values).all()


@pytest.mark.parametrize("compositions", [2**52, 2**62])
def test_as_many_rounds_as_there_may_be(compositions: int) -> None:
    pairs = (Gaussian(1e9), Laplace(1e9), RandomizedResponse(0.5000001), SubsampledGaussian(1e9, 0.5))
    found = plan_of(pairs).privacy_bounds(compositions=compositions, epsilon=1.0)
    assert 0.9 < float(found.delta_upper.max()) <= 1.0


def test_records_in_a_thousand_blocks_at_once() -> None:
    names = tuple(f"block {number}" for number in range(1000))
    plan = ReleasePlan(Unbounded(), on_each_block(Analysis("count", Laplace(1e5)), names), Overlapping(names, 1000))
    found = plan.privacy_bounds(compositions=1, epsilon=0.01)
    assert float(found.delta_upper.max()) < 1e-40
    assert len(plan.changes) == 1000


def test_shifts_add_up_however_many_there_are() -> None:
    plan = ReleasePlan(NodeLevel(2000, presence="public"), [Analysis("edges", Laplace(1e5), declared=EdgeLevel())])
    upper = float(plan.epsilon_bounds(compositions=1, delta=1e-9).epsilon_upper.max())
    assert 0.01999 < upper < 0.02001
