"""The accountant for dp-accounting's events: it passes dp-accounting's own tests, and tells both bounds."""

import math
import sys
from collections.abc import Collection
from typing import Any

import dp_accounting
import pytest
from dp_accounting import NeighboringRelation, dp_event, privacy_accountant_test
from dp_accounting.pld import PLDAccountant

from pbdist import Gaussian, InvalidInputError, MissingDependencyError, epsilon_bounds
from pbdist.accounting.dp_accounting import EventAccountant, Interval

RELATIONS = list(NeighboringRelation)
GAUSSIAN, LAPLACE = dp_event.GaussianDpEvent(2.0), dp_event.LaplaceDpEvent(2.0)
STEP = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))


class TestTheirOwn(privacy_accountant_test.PrivacyAccountantTest):  # type: ignore[misc]  # dp-accounting has no types
    """The tests that dp-accounting has for every accountant, for each of its neighbours."""

    def _make_test_accountants(self) -> Collection[EventAccountant]:
        return [EventAccountant(), *(EventAccountant(relation) for relation in RELATIONS)]


@pytest.mark.parametrize(
    ("event", "supported"),
    [
        (GAUSSIAN, RELATIONS),
        (LAPLACE, RELATIONS),
        (dp_event.DiscreteLaplaceDpEvent(0.3, 2), RELATIONS),
        (STEP, [NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_SPECIAL]),
        (
            dp_event.RandomizedResponseDpEvent(0.3, 4),
            [NeighboringRelation.REPLACE_ONE, NeighboringRelation.REPLACE_SPECIAL],
        ),
        (dp_event.SingleEpochTreeAggregationDpEvent(2.0, 5), [NeighboringRelation.REPLACE_SPECIAL]),
        (dp_event.SampledWithoutReplacementDpEvent(100, 5, GAUSSIAN), [NeighboringRelation.REPLACE_ONE]),
        (dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, 2.0), [NeighboringRelation.ADD_OR_REMOVE_ONE]),
        (
            dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.5, 0.5]),
            [NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_SPECIAL],
        ),
        (dp_event.ZCDpEvent(0.1), []),
        (dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 2.0, 1.0), []),
        (dp_event.SampledWithReplacementDpEvent(100, 5, GAUSSIAN), []),
    ],
    ids=repr,
)
def test_supports(event: dp_event.DpEvent, supported: list[Any]) -> None:
    for relation in RELATIONS:
        accountant = EventAccountant(relation)
        assert accountant.supports(event) == (relation in supported)
        if relation not in supported:
            with pytest.raises(dp_accounting.UnsupportedEventError, match=type(event).__name__):
                accountant.compose(dp_event.ComposedDpEvent([GAUSSIAN, event]))
            assert accountant.get_epsilon(1e-5) == 0.0
            assert accountant.ledger == dp_event.NoOpDpEvent()


def test_bounds_of_what_was_composed() -> None:
    accountant = EventAccountant()
    assert accountant.compose(GAUSSIAN, 3) is accountant
    accountant.compose(dp_event.SelfComposedDpEvent(GAUSSIAN, 2))
    expected = epsilon_bounds(Gaussian(2.0), compositions=5, delta=1e-5)
    lower, upper = accountant.get_epsilon_bounds(1e-5)
    assert (lower, upper) == (expected.epsilon_lower.item(), expected.epsilon_upper.item())
    assert accountant.get_epsilon(1e-5) == upper
    least, most = accountant.get_delta_bounds(upper)
    assert 0.99e-5 < least <= most == accountant.get_delta(upper) < 1.01e-5
    assert list(accountant.spent) == [(Gaussian(2.0), 5)]
    assert accountant.ledger == dp_event.SelfComposedDpEvent(GAUSSIAN, 5)


@pytest.mark.slow
def test_the_tolerance_is_that_of_the_bounds() -> None:
    rough, fine = (
        EventAccountant(tolerance=tolerance).compose(STEP, 1000).get_epsilon_bounds(1e-5) for tolerance in (None, 1e-6)
    )
    assert rough.lower <= fine.lower <= fine.upper <= rough.upper
    assert fine.upper <= fine.lower * (1.0 + 1e-6)
    theirs = PLDAccountant().compose(STEP, 1000).get_epsilon(1e-5)
    assert fine.lower <= theirs
    assert fine.upper <= theirs + 1e-9


def test_their_calibration_works_with_it() -> None:
    found = dp_accounting.calibrate_dp_mechanism(EventAccountant, dp_event.GaussianDpEvent, 1.0, 1e-5, tol=1e-4)
    assert 0.999 < EventAccountant().compose(dp_event.GaussianDpEvent(found)).get_epsilon(1e-5) <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        dp_event.GaussianDpEvent,
        dp_event.LaplaceDpEvent,
        lambda noise: dp_event.SelfComposedDpEvent(
            dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(noise)), 10
        ),
        lambda noise: dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(noise)),
    ],
)
def test_their_calibration_works_from_no_noise_on(make: Any) -> None:
    assert EventAccountant().compose(make(0)).get_epsilon(1e-5) == math.inf
    asked: tuple[Any, ...] = (make, 1.0, 1e-5, dp_accounting.ExplicitBracketInterval(0, 10))
    ours, theirs = (
        dp_accounting.calibrate_dp_mechanism(kind, *asked, tol=1e-2) for kind in (EventAccountant, PLDAccountant)
    )
    assert ours == pytest.approx(theirs, abs=2e-2)
    assert EventAccountant().compose(make(ours)).get_epsilon(1e-5) <= 1.0


def test_no_delta_at_all() -> None:
    """Bounded losses leave none from the largest one on; Gaussian noise always leaves some."""
    bounded = EventAccountant().compose(LAPLACE, 3)
    lower, upper = bounded.get_epsilon_bounds(0)
    assert 1.5 - 1e-8 < lower <= 1.5 <= upper < 1.5 + 1e-8
    assert bounded.get_delta(upper) == 0.0
    assert bounded.get_epsilon_bounds(1) == Interval(0.0, 0.0)
    assert bounded.get_delta(math.inf) == 0.0
    unbounded = EventAccountant().compose(GAUSSIAN)
    lower, upper = unbounded.get_epsilon_bounds(0)
    assert lower > 3.0
    assert upper == math.inf
    assert unbounded.get_delta_bounds(math.inf) == (0.0, pytest.approx(0.0, abs=1e-300))
    assert PLDAccountant().compose(GAUSSIAN).get_epsilon(0) == math.inf


def test_an_unknown_relation_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="neighboring_relation: expected one of dp-accounting's, got 'add'"):
        EventAccountant("add")


@pytest.mark.parametrize("delta", [-1e-9, 1.1, math.nan, "x", None])
def test_a_wrong_delta_is_refused(delta: Any) -> None:
    with pytest.raises(InvalidInputError, match="target_delta: expected a number"):
        EventAccountant().compose(GAUSSIAN).get_epsilon(delta)


@pytest.mark.parametrize("epsilon", [-1e-9, math.nan, "x", None])
def test_a_wrong_epsilon_is_refused(epsilon: Any) -> None:
    with pytest.raises(InvalidInputError, match="target_epsilon: expected a number"):
        EventAccountant().compose(GAUSSIAN).get_delta(epsilon)


def test_it_says_what_is_missing_where_dp_accounting_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pbdist.accounting.dp_accounting")
    monkeypatch.setitem(sys.modules, "dp_accounting.privacy_accountant", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'pbdist\[dp-accounting\]'"):
        __import__("pbdist.accounting.dp_accounting")
