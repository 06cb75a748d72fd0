"""An accountant in the form of dp-accounting's own, with certified bounds of the events that it composes."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from pbdist.accounting.events import EventPairs, composed, from_dp_event
from pbdist.arguments import MAX_EPSILON, checked_number
from pbdist.errors import InvalidInputError, MissingDependencyError, shown
from pbdist.mechanisms import Adjacency

try:
    from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant
except ImportError as error:
    raise MissingDependencyError(
        "an accountant of dp-accounting's events needs it: pip install 'pbdist[dp-accounting]'"
    ) from error

_ADJACENCY: Mapping[Any, Adjacency] = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: Adjacency.ADD_OR_REMOVE,
    NeighboringRelation.REPLACE_ONE: Adjacency.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL: Adjacency.ZERO_OUT,
}


class Interval(NamedTuple):
    """Certified bounds on one number."""

    lower: float
    upper: float


class EventAccountant(PrivacyAccountant):  # type: ignore[misc]  # dp-accounting has no types
    """Counts events of dp-accounting, and bounds ε and δ from both sides.

    It takes the place of ``PLDAccountant``: `get_epsilon` and `get_delta` are certified upper bounds. It does not
    support events that it cannot bound exactly, and its error says why; `from_dp_event` describes the supported ones.

    Parameters
    ----------
    neighboring_relation : dp_accounting.NeighboringRelation, optional
        ``ADD_OR_REMOVE_ONE`` by default.
    tolerance : float, optional
        The upper / lower - 1 to aim at, 1e-3 by default.

    Raises
    ------
    InvalidInputError
        The relation is not one of dp-accounting's.

    Examples
    --------
    >>> import dp_accounting
    >>> from pbdist.accounting.dp_accounting import EventAccountant
    >>> step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    >>> accountant = EventAccountant().compose(step, 1000)
    >>> lower, upper = accountant.get_epsilon_bounds(1e-5)
    >>> accountant.get_epsilon(1e-5) == upper, f"{lower:.3f} {upper:.3f}"
    (True, '1.828 1.828')
    """

    def __init__(
        self, neighboring_relation: Any = NeighboringRelation.ADD_OR_REMOVE_ONE, *, tolerance: float | None = None
    ) -> None:
        if neighboring_relation not in _ADJACENCY:
            raise InvalidInputError(
                f"neighboring_relation: expected one of dp-accounting's, got {shown(neighboring_relation)}"
            )
        super().__init__(neighboring_relation)
        self._tolerance = tolerance
        self._spent = EventPairs((), (), _ADJACENCY[neighboring_relation])

    @property
    def spent(self) -> EventPairs:
        """The worst-case pairs of all events so far."""
        return self._spent

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        """Compose an event `count` times, or only return the reason why that cannot be."""
        adjacency = self._spent.adjacency
        try:
            pairs = from_dp_event(event, adjacency=adjacency).times(count)
        except InvalidInputError as error:
            refused = getattr(error, "event", event)
            return PrivacyAccountant.CompositionErrorDetails(invalid_event=refused, error_message=str(error))
        if do_compose:
            self._spent = composed([self._spent, pairs], adjacency)
        return None

    def get_epsilon(self, target_delta: float) -> float:
        """Return the certified upper bound on ε(δ), nats; see `get_epsilon_bounds`."""
        return self.get_epsilon_bounds(target_delta).upper

    def get_delta(self, target_epsilon: float) -> float:
        """Return the certified upper bound on δ(ε); see `get_delta_bounds`."""
        return self.get_delta_bounds(target_epsilon).upper

    def get_epsilon_bounds(self, target_delta: float) -> Interval:
        """Bound ε from both sides: the smallest ε with which (ε, δ) is met; warnings as of `Accountant.epsilon`.

        Parameters
        ----------
        target_delta : float
            δ in [0, 1].

        Returns
        -------
        Interval
            ``lower <= ε <= upper``, nats. As in dp-accounting, ε is infinite after a non-private event, whatever δ.

        Raises
        ------
        InvalidInputError
            δ is not a number in [0, 1].
        """
        delta = checked_number("target_delta", target_delta, "a number in [0, 1]", lambda value: 0.0 <= value <= 1.0)
        if not self._spent.upper:
            return Interval(0.0, 0.0)
        if self._spent.total:
            return Interval(math.inf, math.inf)
        if delta == 1.0:
            return Interval(0.0, 0.0)
        found = self._spent.epsilon(delta, tolerance=self._tolerance)
        return Interval(float(found.lower), float(found.upper))

    def get_delta_bounds(self, target_epsilon: float) -> Interval:
        """Bound δ from both sides; warnings as of `Accountant.delta`.

        Parameters
        ----------
        target_epsilon : float
            ε >= 0, nats; it may be infinite.

        Returns
        -------
        Interval
            ``lower <= δ <= upper``. For infinite ε, δ is the mass of the outcomes that reveal the input; its lower
            bound is 0 except after a non-private event.

        Raises
        ------
        InvalidInputError
            ε is not a number of at least 0.
        """
        epsilon = checked_number("target_epsilon", target_epsilon, "a number of at least 0", lambda value: value >= 0.0)
        if not self._spent.upper:
            return Interval(0.0, 0.0)
        if self._spent.total:
            return Interval(1.0, 1.0)
        found = self._spent.delta(min(epsilon, MAX_EPSILON), tolerance=self._tolerance)
        return Interval(float(found.lower) if epsilon <= MAX_EPSILON else 0.0, float(found.upper))
