"""Events of dp-accounting, composed and nested: all kinds are known, counts add up, and bounds stand beside theirs."""

import inspect
from typing import Any

import dp_accounting
import mpmath
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from hypothesis import given
from hypothesis import strategies as st

from pbdist import Gaussian, InvalidInputError, Laplace, epsilon_bounds
from pbdist.accounting import EventRefusedError, from_dp_event
from pbdist.accounting.events import KINDS, REFUSED, RULES
from pbdist.mechanisms import Adjacency
from tests.accounting.test_event_rules import ADD, REPLACE, THEIRS, ZERO
from tests.strategies import examples

GAUSSIAN, LAPLACE = dp_event.GaussianDpEvent(2.0), dp_event.LaplaceDpEvent(3.0)


def test_every_kind_of_event_is_known() -> None:
    """A new kind in dp-accounting must be read, or refused with a reason."""
    classes = {
        name
        for module in (dp_accounting, dp_event)
        for name, found in vars(module).items()
        if inspect.isclass(found) and issubclass(found, dp_event.DpEvent) and found is not dp_event.DpEvent
    }
    assert classes == KINDS
    assert not set(RULES) & set(REFUSED)


def test_compositions_are_flattened_and_equal_pairs_counted_together() -> None:
    event = dp_event.ComposedDpEvent(
        [
            LAPLACE,
            dp_event.SelfComposedDpEvent(dp_event.ComposedDpEvent([GAUSSIAN, LAPLACE, dp_event.NoOpDpEvent()]), 5),
            dp_event.SelfComposedDpEvent(dp_event.SelfComposedDpEvent(GAUSSIAN, 2), 3),
            dp_event.SelfComposedDpEvent(dp_event.DiscreteLaplaceDpEvent(0.5, 1), 0),
            dp_event.ComposedDpEvent([]),
        ]
    )
    found = from_dp_event(event)
    assert list(found) == [(Laplace(3.0), 6), (Gaussian(2.0), 11)]
    bounds, told = epsilon_bounds(found, compositions=1, delta=1e-5), found.epsilon(1e-5)
    assert told.lower <= bounds.epsilon_upper.item()
    assert bounds.epsilon_lower.item() <= told.upper
    assert told.adjacency == ADD


@pytest.mark.slow
def test_bounds_of_delta_are_those_of_the_pairs() -> None:
    found = from_dp_event(dp_event.SelfComposedDpEvent(GAUSSIAN, 4), adjacency=REPLACE)
    told = found.delta([0.5, 1.0])
    assert told.adjacency == REPLACE
    assert "one record replaced" in told._repr_html_()
    theirs = PLDAccountant(THEIRS[REPLACE]).compose(GAUSSIAN, 4)
    for index, epsilon in enumerate((0.5, 1.0)):
        assert told.lower[index] <= theirs.get_delta(epsilon) <= 1.001 * told.upper[index]


def test_nothing_is_revealed_by_nothing() -> None:
    found = from_dp_event(dp_event.ComposedDpEvent([dp_event.NoOpDpEvent()]))
    assert (list(found), found.exact, found.total) == ([], True, False)
    assert (found.epsilon(1e-5).upper, found.delta(0.0).upper) == (0.0, 0.0)


def test_a_non_private_event_reveals_everything() -> None:
    found = from_dp_event(dp_event.ComposedDpEvent([GAUSSIAN, dp_event.NonPrivateDpEvent()]))
    assert found.total
    assert found.delta(50.0).lower > 1 - 1e-12


def test_deep_compositions_are_read_and_deep_samples_refused() -> None:
    event: Any = GAUSSIAN
    for _ in range(20_000):
        event = dp_event.ComposedDpEvent([event])
    assert list(from_dp_event(event)) == [(Gaussian(2.0), 1)]
    event = GAUSSIAN
    for _ in range(30):
        event = dp_event.PoissonSampledDpEvent(1.0, event)
    with pytest.raises(EventRefusedError, match="got one in more than 20 others"):
        from_dp_event(event)


@pytest.mark.parametrize("count", [-1, 1.5, "2", None, True, 2**63])
def test_counts_that_are_none_are_refused(count: Any) -> None:
    with pytest.raises(EventRefusedError, match=r"SelfComposedDpEvent: .* count .*: expected a whole number from 0"):
        from_dp_event(dp_event.SelfComposedDpEvent(GAUSSIAN, count))


def test_counts_that_are_too_large_together_are_refused() -> None:
    event = dp_event.SelfComposedDpEvent(dp_event.SingleEpochTreeAggregationDpEvent(1.0, 7), 2**61)
    with pytest.raises(InvalidInputError, match=r"at most 2\^62"):
        from_dp_event(event, adjacency=ZERO)


class Own(dp_event.DpEvent):
    """An event that dp-accounting does not have."""


@pytest.mark.parametrize(
    "event",
    [Own(), None, 3, "x", []],
    ids=repr,
)
def test_what_is_no_event_of_theirs_is_refused(event: Any) -> None:
    with pytest.raises(EventRefusedError, match="expected an event with a known worst-case pair") as caught:
        from_dp_event(dp_event.ComposedDpEvent([GAUSSIAN, dp_event.SelfComposedDpEvent(event, 2)]))
    assert caught.value.event is event


def test_a_class_made_from_one_of_theirs_is_refused() -> None:
    """It may mean something else."""
    own = type("Halved", (dp_event.GaussianDpEvent,), {})(2.0)
    with pytest.raises(EventRefusedError, match="Halved: "):
        from_dp_event(own)


@pytest.mark.parametrize("adjacency", ["as-stated", Adjacency.AS_STATED, "add", None, 1])
def test_other_neighbours_are_refused(adjacency: Any) -> None:
    with pytest.raises(InvalidInputError, match="adjacency: expected one of add-or-remove, replace-one, zero-out, got"):
        from_dp_event(GAUSSIAN, adjacency=adjacency)


LEAVES = {
    ADD: st.one_of(
        st.builds(dp_event.GaussianDpEvent, st.sampled_from([1.5, 4.0])),
        st.builds(dp_event.LaplaceDpEvent, st.sampled_from([2.0, 5.0])),
        st.builds(dp_event.DiscreteLaplaceDpEvent, st.sampled_from([0.25, 0.3]), st.integers(1, 2)),
        st.builds(
            dp_event.PoissonSampledDpEvent,
            st.sampled_from([0.0, 0.05, 1.0]),
            st.builds(dp_event.GaussianDpEvent, st.sampled_from([1.0, 2.0])),
        ),
        st.just(dp_event.NoOpDpEvent()),
    ),
    REPLACE: st.one_of(
        st.builds(dp_event.GaussianDpEvent, st.sampled_from([3.0, 4.0])),
        st.builds(dp_event.RandomizedResponseDpEvent, st.sampled_from([0.5, 0.9]), st.integers(1, 4)),
        st.just(dp_event.NoOpDpEvent()),
    ),
}


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(dp_event.ComposedDpEvent, st.lists(inner, max_size=3)),
            st.builds(dp_event.SelfComposedDpEvent, inner, st.integers(1, 4)),
        ),
        max_leaves=4,
    )


def unrolled(event: Any) -> list[Any]:
    """The events that are composed: theirs counts repeated randomized response once (docs/comparison.md)."""
    if isinstance(event, dp_event.SelfComposedDpEvent):
        return unrolled(event.event) * event.count
    if isinstance(event, dp_event.ComposedDpEvent):
        return [leaf for one in event.events for leaf in unrolled(one)]
    return [event]


@pytest.mark.nightly
@examples(30)
@given(data=st.data(), adjacency=st.sampled_from([ADD, REPLACE]), delta=st.sampled_from([1e-3, 1e-6]))
def test_nested_compositions_beside_their_accountant(data: st.DataObject, adjacency: str, delta: float) -> None:
    event = data.draw(nested(LEAVES[adjacency]))
    leaves = unrolled(event)
    accountant = PLDAccountant(THEIRS[adjacency])
    for leaf in leaves:
        accountant.compose(leaf)
    theirs = float(accountant.get_epsilon(delta))
    found = from_dp_event(event, adjacency=adjacency)
    ours = found.epsilon(delta)
    assert ours.lower <= theirs
    assert ours.upper <= theirs * (1.0 + 1e-3) + 1e-9
    assert sum(count for _, count in found.upper) <= len(leaves)


def test_a_large_epsilon_which_they_put_below_the_truth() -> None:
    """The figures of docs/coming-from.md; the truth is computed with 40 digits."""
    noise, delta, theirs = 1.9250478775860342, 0.0019966546717439066, 47.291313807932
    event = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(noise), 50)
    ours = from_dp_event(event, adjacency=REPLACE).epsilon(delta, tolerance=1e-9)
    with mpmath.workdps(40):
        shift = 2 * mpmath.sqrt(50) / mpmath.mpf(noise)
        truth = mpmath.findroot(
            lambda x: mpmath.ncdf(shift / 2 - x / shift) - mpmath.exp(x) * mpmath.ncdf(-shift / 2 - x / shift) - delta,
            47.3,
        )
        assert mpmath.almosteq(truth, mpmath.mpf("47.291313808365"), rel_eps=2e-14)
        assert theirs < ours.lower <= truth <= ours.upper
