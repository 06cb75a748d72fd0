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
from pbdist.granularity.release.products import Resolved
from pbdist.granularity.release.worst import Spectra
from pbdist.mechanisms import Pair
from pbdist.table import bounds_table

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize("number", [300, pytest.param(1000, marks=pytest.mark.nightly)])
def test_records_in_many_blocks_at_once(number: int) -> None:
    names = tuple(f"block {place}" for place in range(number))
    plan = ReleasePlan(Unbounded(), on_each_block(Analysis("count", Laplace(1e5)), names), Overlapping(names, number))
    found = plan.privacy_bounds(compositions=1, epsilon=1.01e-5 * number)
    # So many losses of at most 1e-5 each.
    assert float(found.delta_upper.max()) == 0.0
    assert len(plan.changes) == number


def test_shifts_add_up_however_many_there_are() -> None:
    plan = ReleasePlan(NodeLevel(2000, presence="public"), [Analysis("edges", Laplace(1e5), declared=EdgeLevel())])
    upper = float(plan.epsilon_bounds(compositions=1, delta=1e-9).epsilon_upper.max())
    assert 0.01999 < upper < 0.02001


@pytest.mark.parametrize(
    ("granularity", "touched"), [(NodeLevel(), 4), (NodeLevel(3), 3), (NodeLevel(3, presence="public"), 3)], ids=repr
)
def test_pairs_for_nodes_need_no_count_of_edges(granularity: NodeLevel, touched: int) -> None:
    """An edge is in one of four blocks: a node of degree 3 touches three of them, one of any degree all."""
    analyses = on_each_block(Analysis("edges", Laplace(10.0), declared=granularity), NAMES)
    found = ReleasePlan(granularity, analyses, Partition(NAMES)).epsilon_bounds(compositions=1, delta=1e-9)
    assert float(found.epsilon_upper.max()) == pytest.approx(touched / 10.0, rel=1e-4)
    for_edges = on_each_block(Analysis("one edge", Laplace(10.0), declared=EdgeLevel()), NAMES)
    if granularity.presence == "protected":
        with pytest.raises(pbdist.InvalidInputError, match="granularity: expected"):
            ReleasePlan(granularity, [*analyses, *for_edges[:1]], Partition(NAMES))


def test_spectra_pay_for_masses_at_infinity_of_many_rounds() -> None:
    """Rare revealing events: δ of the product is at least 1 - (1 - δ')^r, which the quick bound must not fall below."""
    revealing = ApproximateDP(0.0, 1e-6)
    for rounds in (1, 1000, 10**6):
        quick = Spectra([Resolved(frozenset({(revealing, 1), (Gaussian(1e3), 1)}), attained=False)], 5.0)
        exact = -np.expm1(rounds * np.log1p(-1e-6))
        assert float(quick.delta(np.arange(1), rounds, np.array([4.0])).max()) >= exact
