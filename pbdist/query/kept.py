"""Curves of δ from kept states, for any ε and any δ at a stored number of rounds, together with the stored points."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from pbdist.errors import StoreFormatError
from pbdist.pld import LARGEST_EPSILON, PairState, lower_deltas, upper_deltas
from pbdist.query.convex_delta import Curve, log_above, log_below
from pbdist.store import StoredStudy, read_state
from pbdist.types import Direction, FloatArray

#: Returns the state of a number of rounds, or None where none is kept.
StateAt = Callable[[int], PairState | None]

#: Bytes of states that are kept in memory.
_MOST_BYTES = 1 << 29
#: Points that are read at a time.
_POINTS = 4096
#: Halvings by which an ε is estimated, and by what parts of it the estimate is then moved until its bound is proved.
_HALVINGS, _WITHDRAWALS = 60, (0.0, 1e-13, 1e-11, 1e-9, 1e-7, 1e-5, 1e-3)

#: An estimate below this many nats is taken for 0.
_NOTHING = 1e-13


class StateReader:
    """Reads kept states of the tight method, and keeps those read last, up to `_MOST_BYTES`."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int], tuple[PairState, int]] = {}

    def at(self, kept: Sequence[tuple[StoredStudy, int]]) -> StateAt:
        """Return what reads the states of a pair, kept with cells given by part and row.

        A state of another kind, from an earlier version, counts as none. A damaged one is an error when it is read.
        """

        def found(compositions: int) -> PairState | None:
            for stored, row in kept:
                study = stored.study
                if study.method == "tight" and study.keep_states and compositions in study.compositions:
                    state = self._read(stored, row, compositions)
                    if state is not None:
                        return state
            return None

        return found

    def _read(self, stored: StoredStudy, row: int, compositions: int) -> PairState | None:
        key = (stored.part, row, compositions)
        if key in self._known:
            return self._known[key][0]
        try:
            state = read_state(stored, row, Direction.A_TO_B, compositions)
        except (FileNotFoundError, StoreFormatError):
            return None
        if not isinstance(state, PairState):
            return None
        size = sum(vector.nbytes for vector in _vectors(state))
        while self._known and sum(each for _, each in self._known.values()) + size > _MOST_BYTES:
            del self._known[next(iter(self._known))]
        self._known[key] = state, size
        return state


def with_state(curves: Sequence[Curve], states: StateAt, compositions: int) -> tuple[Curve, ...]:
    """Return the curves of both directions joined with a kept state, if there is one; where they are equal, as one."""
    if states(compositions) is None:
        return tuple(curves)
    if all(curve is curves[0] for curve in curves):
        one = KeptCurve(curves[0], states, compositions, Direction.A_TO_B)
        return (one,) * len(curves)
    return tuple(
        KeptCurve(curve, states, compositions, direction) for curve, direction in zip(curves, Direction, strict=True)
    )


class KeptCurve(Curve):
    """The better of a curve through stored points and a kept state, which `states` returns and may read anew."""

    def __init__(self, curve: Curve, states: StateAt, compositions: int, direction: Direction) -> None:
        self._curve, self._states, self._compositions, self._direction = curve, states, compositions, direction

    def log_upper(self, epsilon: FloatArray) -> FloatArray:
        """As `Curve.log_upper`."""
        return np.minimum(self._curve.log_upper(epsilon), self._upper(epsilon))

    def log_lower(self, epsilon: FloatArray) -> FloatArray:
        """As `Curve.log_lower`."""
        return np.maximum(self._curve.log_lower(epsilon), self._lower(epsilon))

    def epsilon_upper(self, log_delta: FloatArray) -> FloatArray:
        """As `Curve.epsilon_upper`."""
        return np.minimum(self._curve.epsilon_upper(log_delta), self._inverse(log_delta, upper=True))

    def epsilon_lower(self, log_delta: FloatArray) -> FloatArray:
        """As `Curve.epsilon_lower`."""
        return np.maximum(self._curve.epsilon_lower(log_delta), self._inverse(log_delta, upper=False))

    def _upper(self, epsilon: FloatArray) -> FloatArray:
        return self._read(upper_deltas, log_above, epsilon, 0.0)

    def _lower(self, epsilon: FloatArray) -> FloatArray:
        return self._read(lower_deltas, log_below, epsilon, -np.inf)

    def _read(
        self,
        read: Callable[[PairState, FloatArray, Direction], FloatArray],
        rounded: Callable[[FloatArray], FloatArray],
        epsilon: FloatArray,
        unknown: float,
    ) -> FloatArray:
        result = np.full(epsilon.shape, unknown)
        state, covered = self._states(self._compositions), np.flatnonzero(epsilon <= LARGEST_EPSILON)
        if state is None:
            return result
        for part in np.array_split(covered, max(1, -(-covered.size // _POINTS))):
            result[part] = np.minimum(rounded(read(state, epsilon[part], self._direction)), 0.0)
        return result

    def _inverse(self, log_delta: FloatArray, *, upper: bool) -> FloatArray:
        """Return ε at which the upper bound on δ is at most the δ given, or the lower one exceeds it.

        The bound is evaluated at each ε returned. Infinity, or 0, where there is none.
        """
        result = np.full(log_delta.shape, np.inf if upper else 0.0)
        state = self._states(self._compositions)
        if state is None:
            return result
        aim = _estimate(state, self._direction, np.exp(log_delta), upper=upper)
        open_ = np.ones(log_delta.shape, dtype=bool)
        for withdrawal in _WITHDRAWALS:
            at = np.flatnonzero(open_)
            if not at.size:
                break
            tried = aim[at] * (1.0 + withdrawal) + withdrawal if upper else aim[at] * (1.0 - withdrawal)
            found = (self._upper if upper else self._lower)(tried)
            holds = found <= log_delta[at] if upper else found > log_delta[at]
            result[at[holds]] = tried[holds]
            open_[at[holds]] = False
        return result


def _estimate(state: PairState, direction: Direction, delta: FloatArray, *, upper: bool) -> FloatArray:
    """Estimate the ε at which a bound is δ by suffix sums of masses; the caller checks it."""
    sign = 1.0 if direction is Direction.A_TO_B else -1.0
    rows: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    if upper:
        infinite = state.dominating.infinite[0 if sign > 0.0 else 1], 0.0
        for row in state.dominating.rows:
            losses = (sign * row.losses)[:: int(sign)]
            u = row.u[:: int(sign)]
            rows.append((losses, u * np.exp(0.5 * losses), u * np.exp(-0.5 * losses)))
    else:
        masses = state.exact[direction]
        infinite = masses.infinite
        rows += [(row.labels, *row.plain) for row in masses.rows]
    sums = [
        (losses, *(np.append(np.cumsum(values[::-1])[::-1], 0.0) for values in masses_of))
        for losses, *masses_of in rows
    ]
    shift = state.shift if upper else 0.0
    low = np.zeros(delta.shape)
    high = np.full(delta.shape, min(max(state.highest, -state.lowest, 0.0) + shift, LARGEST_EPSILON))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        factor = np.exp(middle - shift)
        value = np.maximum(infinite[0] - factor * infinite[1], 0.0)
        for losses, a, b in sums:
            first = np.searchsorted(losses, middle - shift, side="right")
            value += np.maximum(a[first] - factor * b[first], 0.0)
        exceeds = value > delta
        low, high = np.where(exceeds, middle, low), np.where(exceeds, high, middle)
    # δ may be as small at 0 already.
    return np.where(high > _NOTHING, high, 0.0) if upper else low


def _vectors(state: PairState) -> Iterator[FloatArray]:
    """Yield all arrays of a state, once where the directions share them."""
    for row in state.dominating.rows:
        yield row.u
    for masses in {id(one): one for one in state.exact.values()}.values():
        for events in masses.rows:
            yield from (events.own, events.other)
