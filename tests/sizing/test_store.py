"""Sizes from a store: by its table alone, or by points that are added to it."""

import math
from pathlib import Path

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.errors import InvalidInputError, NotAStoreError
from pbdist.mechanisms import Gaussian, Laplace, NoisyCount, SubsampledGaussian
from pbdist.query import open_study
from pbdist.sizing.api import size
from pbdist.store import check_store
from tests.sizing.test_api import check_certificate, gaussian_delta
from tests.strategies import examples
from tests.studies import Finished, files_of

pytestmark = pytest.mark.slow

STUDY = """\
format: 1
name: sizes
mechanisms:
  - kind: Laplace
    scale: [20, 25, 30]
  - kind: NoisyCount
    noise: {kind: Laplace, scale: [10, 12]}
    mean: [120, 150]
    shift: 2
compositions: [1, 16]
epsilon: [0.5, 1]
"""
TABLE = STUDY.replace("mechanisms:\n", "mechanisms:\n  - {kind: Gaussian, scale: {geomspace: [1, 64, 901]}}\n")


@pytest.fixture(scope="module")
def table(finished_store: Finished) -> Path:
    return finished_store(TABLE)


@pytest.fixture
def store(store_copy: Finished) -> Path:
    return store_copy(STUDY)


@given(st.sampled_from([1, 16]), st.sampled_from([0.5, 1.0]), st.floats(-25.0, -3.0).map(math.exp))
@examples(25)
def test_table_answers_alone(table: Path, compositions: int, epsilon: float, delta: float) -> None:
    sized = size(Gaussian, compositions=compositions, epsilon=epsilon, delta=delta, store=open_study(table))
    assert sized.evaluations == 0
    check_certificate(sized)
    assert sized.ordered
    with mpmath.workdps(40):
        truth = [gaussian_delta(scale, compositions, epsilon) for scale in (sized.scale, sized.refuted_scale)]
        assert sized.delta_lower <= truth[0] <= sized.delta_upper
        # Of a noisier stored setting: at most that of the refuted one.
        assert sized.refuted_delta_lower <= truth[1]


def test_what_the_table_lacks_is_computed_and_added(store: Path) -> None:
    before = files_of(store)
    goal = {"compositions": 40, "epsilon": 0.7, "delta": 1e-4}
    first = size(Laplace, store=store, **goal)
    check_certificate(first)
    assert first.evaluations > 0
    added = {name for name, content in files_of(store).items() if before.get(name) != content}
    assert added
    # The root lists its parts.
    assert set(before) & added == {"zarr.json"}
    again = size(Laplace, store=str(store), **goal)
    assert again.evaluations == 0
    assert again.mechanism == first.mechanism
    assert (again.delta_upper, again.refuted_delta_lower) == (first.delta_upper, first.refuted_delta_lower)
    assert check_store(store).healthy


def test_tolerance_below_that_of_the_study(store: Path) -> None:
    sized = size(Laplace, compositions=16, epsilon=1.0, delta=1e-5, tolerance=1e-5, store=store)
    check_certificate(sized)
    assert sized.tolerance == 1e-5


@pytest.mark.slow(reason="alone sizes counts, of which no size is quick, from a store")
def test_counts_of_the_store(store: Path) -> None:
    goal = {"noise": Laplace, "shift": 2, "compositions": 1, "epsilon": 1.0, "delta": 1e-3}
    first, fresh = size(NoisyCount, store=store, **goal), size(NoisyCount, **goal)
    for sized in (first, fresh):
        check_certificate(sized)
    assert first.expected_messages == pytest.approx(fresh.expected_messages, rel=0.01)
    again = size(NoisyCount, store=store, **goal)
    assert again.evaluations == 0
    assert again.mechanism == first.mechanism


def test_family_that_the_store_does_not_have(store: Path) -> None:
    sized = size(SubsampledGaussian, rate=0.1, compositions=16, epsilon=1.0, delta=1e-5, store=store)
    check_certificate(sized)
    assert sized.scale == pytest.approx(
        size(SubsampledGaussian, rate=0.1, compositions=16, epsilon=1.0, delta=1e-5).scale, rel=0.01
    )


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError):
        size(Gaussian, compositions=1, epsilon=1.0, delta=1e-5, store=tmp_path / "none.zarr")


def test_a_store_for_other_neighbours_is_refused(store_copy: Finished) -> None:
    store = store_copy(STUDY.replace("name: sizes", "name: sizes\nadjacency: replace-one"))
    goal = {"compositions": 16, "epsilon": 1.0, "delta": 1e-5, "store": store}
    before = files_of(store)
    for family in (Laplace, NoisyCount):
        more = {"shift": 2, "noise": Laplace} if family is NoisyCount else {}
        with pytest.raises(InvalidInputError, match=r"adjacency: expected replace-one, .* got add-or-remove"):
            size(family, adjacency="add-or-remove", **goal, **more)
    assert files_of(store) == before
    # What the study states counts, and so does what is said of mechanisms that it does not have.
    for said in ({}, {"adjacency": "replace-one"}):
        assert size(Laplace, **said, **goal).adjacency == "replace-one"
    assert size(Gaussian, adjacency="zero-out", **goal).adjacency == "zero-out"
    assert size(Gaussian, **goal).adjacency == "as-stated"
