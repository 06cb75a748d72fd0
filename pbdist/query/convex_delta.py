"""Curves of δ, for any ε and any δ: through stored points, where convexity proves them, and from saved states."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from pbdist.errors import StoreFormatError
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld import LARGEST_READ, PairState, lower_deltas, upper_deltas
from pbdist.store import StoredStudy, read_state
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

#: Relative slack of a ratio of differences, several times what its five operations may err.
_RATIO_SLACK = 64.0 * UNIT_ROUNDOFF
#: How many vertices the other end of a line is away: near ones give the steepest line, far ones suffer least from the
#: width of the brackets.
_STRIDES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
#: By which parts of its step an estimated inverse is moved back until its bound is proved.
_WITHDRAWALS = (0.0, 2.0**-46, 2.0**-42, 2.0**-38, 2.0**-34, 2.0**-28, 2.0**-20)
#: How far a line that does not fall is followed, nats.
_FARTHEST = 700.0


def log_above(values: FloatArray) -> FloatArray:
    """Return natural logarithms rounded up; -inf for 0."""
    with np.errstate(divide="ignore"):
        logs = np.log(values)
    return logs + 16.0 * UNIT_ROUNDOFF * (1.0 + np.abs(_finite(logs)))


def log_below(values: FloatArray) -> FloatArray:
    """Return natural logarithms rounded down; -inf for 0."""
    with np.errstate(divide="ignore"):
        logs = np.log(values)
    return logs - 16.0 * UNIT_ROUNDOFF * (1.0 + np.abs(_finite(logs)))


class Curve:
    """Bounds on ln δ at any ε, from upper and lower ones at some ε, which increase; -inf for a lower bound of 0.

    `log_mass` is an upper value of the logarithm of the mass of P_A, which is H at e^ε = 0: above 0 where a histogram's
    masses sum to more than 1. δ itself is at most 1.
    """

    def __init__(
        self,
        upper_epsilon: FloatArray,
        log_upper: FloatArray,
        lower_epsilon: FloatArray,
        log_lower: FloatArray,
        log_mass: float = 0.0,
    ) -> None:
        # The point at y = 0 is that at ε = -inf.
        epsilon = np.concatenate(([-np.inf], upper_epsilon))
        # A bound that was cut at 1 says only that H is at most the whole mass.
        uncapped = np.where(log_upper >= 0.0, max(log_mass, 0.0), log_upper)
        logs = np.concatenate(([log_mass], uncapped))
        corners = _hull(epsilon.tolist(), logs.tolist())
        self._upper_epsilon, self._log_upper = epsilon[corners], logs[corners]
        # A lower value that is not above one to its right adds nothing to that one.
        beyond = np.append(np.maximum.accumulate(log_lower[::-1])[::-1][1:], -np.inf)
        useful = log_lower > beyond
        self._lower_epsilon, self._log_lower = lower_epsilon[useful], log_lower[useful]
        self._draw()
        better = self._from_neighbours()
        if np.any(better > self._log_lower):
            # Where brackets are wide, or of few rounds, neighbours give better bounds.
            self._log_lower = np.maximum(self._log_lower, better)
            self._draw()

    def log_upper(self, epsilon: FloatArray) -> FloatArray:
        """Return upper bounds on ln δ at some ε, shape (n,)."""
        right = np.searchsorted(self._upper_epsilon, epsilon, side="left")
        beyond = right == self._upper_epsilon.size
        right = np.minimum(right, self._upper_epsilon.size - 1)
        at, left = self._upper_epsilon[right], np.maximum(right - 1, 0)
        low, high = self._log_upper[right], self._log_upper[left]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # H <= u2 + μ (u1 - u2), μ the part of the way from y2 back to y1.
            part = np.expm1(np.minimum(epsilon - at, 0.0)) / np.expm1(self._upper_epsilon[left] - at)
            rise = np.log(part) + high + np.log(-np.expm1(low - high))
            sizes = np.abs(_finite(rise)) + np.abs(_finite(low)) + np.abs(_finite(high))
            chord = np.logaddexp(low, np.where(np.isnan(rise), np.inf, rise)) + 32.0 * UNIT_ROUNDOFF * (32.0 + sizes)
        return np.minimum(np.where(beyond | (at == epsilon), low, np.minimum(chord, high)), 0.0)

    def log_lower(self, epsilon: FloatArray) -> FloatArray:
        """Return lower bounds on ln δ at some ε, shape (n,)."""
        count = self._lower_epsilon.size
        if not count:
            return np.full(epsilon.shape, -np.inf)
        right = np.searchsorted(self._lower_epsilon, epsilon, side="left")
        found = self._step[right]
        here = np.minimum(right, count - 1)
        found = np.where(right < count, np.maximum(found, self._from_right(here, epsilon)), found)
        before = np.maximum(right - 1, 0)
        found = np.where(right > 0, np.maximum(found, self._from_left(before, epsilon)), found)
        # A line may show that H exceeds 1, where masses sum to more; δ does not.
        result: FloatArray = np.minimum(found, 0.0)
        return result

    def epsilon_upper(self, log_delta: FloatArray) -> FloatArray:
        """Return for some ln δ, rounded down, the smallest ε >= 0 found at which `log_upper` is at most that.

        Guaranteed: `log_upper` is evaluated there. Infinite where no stored upper bound is so small.
        """
        # Along the vertices the bounds fall.
        right = np.searchsorted(-self._log_upper, -log_delta, side="left")
        within = right < self._log_upper.size
        right = np.minimum(right, self._log_upper.size - 1)
        left = np.maximum(right - 1, 0)
        at, low, high = self._upper_epsilon[right], self._log_upper[right], self._log_upper[left]
        result = np.maximum(at, 0.0)
        open_ = within & (at > 0.0) & (right > 0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            part = np.exp(log_delta - high) * np.expm1(low - log_delta) / np.expm1(low - high)
            span = np.expm1(self._upper_epsilon[left] - at)
            for withdrawal in _WITHDRAWALS:
                if not open_.any():
                    break
                tried = np.maximum(at + np.log1p((1.0 - withdrawal) * part * span), 0.0)
                tried = np.where(np.isnan(tried), 0.0, tried)
                holds = open_ & (self.log_upper(tried) <= log_delta)
                result = np.where(holds, np.minimum(tried, result), result)
                open_ &= ~holds
        return np.where(within, result, np.inf)

    def epsilon_lower(self, log_delta: FloatArray) -> FloatArray:
        """Return for some ln δ, rounded up, the largest ε found at which `log_lower` is more than that; 0 where none.

        Guaranteed: `log_lower` is evaluated there.
        """
        count = self._lower_epsilon.size
        if not count:
            return np.zeros(log_delta.shape)
        # How many of the steps, which fall, are above δ.
        above = np.searchsorted(-self._step[:-1], -log_delta, side="left")
        base = np.where(above > 0, self._lower_epsilon[np.maximum(above - 1, 0)], -np.inf)
        before, after = np.maximum(above - 1, 0), np.minimum(above, count - 1)
        following = np.where(above < count, self._lower_epsilon[after], np.inf)
        left, right = self._upper_epsilon[self._left], self._upper_epsilon[self._right]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # (y_b - y_a) / y_b of the lines that are continued to the right, (y_a - y_b) / y_b of those to the left.
            left_unit, right_unit = -np.expm1(left - self._lower_epsilon), np.expm1(right - self._lower_epsilon)
            gap = -np.expm1(log_delta - self._log_lower[before]) / self._left_gain[before]
            reach = np.minimum(np.log1p(gap * left_unit[before]), _FARTHEST)
            falling = np.where(above > 0, self._lower_epsilon[before] + reach, -np.inf)
            gap = np.expm1(log_delta - self._log_lower[after]) / self._right_gain[after]
            rising = self._lower_epsilon[after] + np.log1p(-gap * right_unit[after])
            rising = np.where((above < count) & (self._right_gain[after] > 0.0), rising, -np.inf)
        certain = np.maximum(base, 0.0)
        aim = np.fmax(np.fmin(np.fmax(falling, rising), following), certain)
        result, open_ = certain, aim > certain
        for withdrawal in _WITHDRAWALS:
            if not open_.any():
                break
            tried = np.where(open_, aim - withdrawal * (aim - certain) - withdrawal * np.abs(aim), 0.0)
            holds = open_ & (tried > certain) & (self.log_lower(tried) > log_delta)
            result = np.where(holds, tried, result)
            open_ &= ~holds
        return result

    def _draw(self) -> None:
        """Choose the lines."""
        #: The largest lower bound at this ε or to the right of it; a last one of 0 beyond all.
        self._step = np.append(np.maximum.accumulate(self._log_lower[::-1])[::-1], -np.inf)
        self._left, self._left_gain = self._lines(right=False)
        self._right, self._right_gain = self._lines(right=True)

    def _from_neighbours(self) -> FloatArray:
        """Return for each lower point the bound that the lines of its neighbours give there."""
        found = np.full(self._log_lower.shape, -np.inf)
        points = np.arange(found.size)
        found[1:] = self._from_left(points[:-1], self._lower_epsilon[1:])
        found[:-1] = np.maximum(found[:-1], self._from_right(points[1:], self._lower_epsilon[:-1]))
        return found

    def _from_left(self, point: IntArray, epsilon: FloatArray) -> FloatArray:
        """The lines through lower points and an upper one before them, at ε to the right."""
        start, other = self._lower_epsilon[point], self._upper_epsilon[self._left[point]]
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            way = epsilon - start
            share = np.expm1(way) / -np.expm1(other - start)
            # Of d = ln(u_a / l_b) the gain was taken with (1 + d) u.
            slack = _RATIO_SLACK * (1.0 + way + np.abs(self._log_lower[point]) / 8.0)
            fall = share * self._left_gain[point] * (1.0 + slack)
            line = np.log1p(-np.minimum(fall, 1.0))
            line = self._log_lower[point] + line * (1.0 + _RATIO_SLACK)
            line -= _RATIO_SLACK * (1.0 + np.abs(self._log_lower[point]))
        # Nothing is known where 0 times infinity gave NaN.
        return np.where((other < start) & (fall < 1.0), line, -np.inf)

    def _from_right(self, point: IntArray, epsilon: FloatArray) -> FloatArray:
        """The lines through lower points and an upper one after them, at ε to the left."""
        start, other = self._lower_epsilon[point], self._upper_epsilon[self._right[point]]
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            width = other - start
            share = -np.expm1(epsilon - start) / np.expm1(width)
            slack = _RATIO_SLACK * (1.0 + np.minimum(width, _FARTHEST + 10.0))
            rise = np.log1p(share * self._right_gain[point] * (1.0 - slack))
            line = self._log_lower[point] + rise * (1.0 - _RATIO_SLACK)
            line -= _RATIO_SLACK * (1.0 + np.abs(self._log_lower[point]))
        return np.where((other > start) & (rise > 0.0), line, -np.inf)

    def _lines(self, *, right: bool) -> tuple[IntArray, FloatArray]:
        """Return for each lower point the vertex of its best line among some, and (u - l) / l there, or (l - u) / l."""
        start, count = self._lower_epsilon, self._upper_epsilon.size
        nearest = np.searchsorted(self._upper_epsilon, start, side="right" if right else "left") - (0 if right else 1)
        best = np.clip(nearest, 0, count - 1)
        best_slope = np.full(start.size, np.inf)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            for stride in _STRIDES:
                vertex = nearest + (stride - 1 if right else 1 - stride)
                there = (vertex >= 0) & (vertex < count)
                if not there.any():
                    break
                vertex = np.clip(vertex, 0, count - 1)
                # Falls to the right of a line on the left, negative rises to the left of one on the right.
                slope = self._gain(vertex) / np.abs(np.expm1(self._upper_epsilon[vertex] - start))
                better: BoolArray = there & (slope < best_slope)
                best, best_slope = np.where(better, vertex, best), np.where(better, slope, best_slope)
            gain = self._gain(best)
        # No lower value is above an upper one to its left, but for rounding.
        return best, -gain if right else np.maximum(gain, 0.0)

    def _gain(self, vertex: IntArray) -> FloatArray:
        """Return u / l - 1 of a vertex for each lower point."""
        return np.asarray(np.expm1(self._log_upper[vertex] - self._log_lower))


def _hull(epsilon: Sequence[float], logs: Sequence[float]) -> list[int]:
    """Return the corners of the lower convex hull of (e^ε, e^log), up to its smallest value.

    Any selection of points gives sound bounds: rounding may keep a point too many or drop one.
    """
    corners = [0]
    for point in range(1, len(epsilon)):
        if not logs[point] < logs[corners[-1]]:
            continue
        while len(corners) > 1 and _above_chord(epsilon, logs, corners[-2], corners[-1], point):
            corners.pop()
        corners.append(point)
    return corners


def _above_chord(epsilon: Sequence[float], logs: Sequence[float], first: int, middle: int, last: int) -> bool:
    part = math.expm1(epsilon[middle] - epsilon[last]) / math.expm1(epsilon[first] - epsilon[last])
    low, high = math.exp(logs[last] - logs[middle]), math.exp(min(logs[first] - logs[middle], 700.0))
    return low + part * (high - low) <= 1.0


def _finite(values: FloatArray) -> FloatArray:
    return np.where(np.isfinite(values), values, 0.0)


#: Returns the state of a number of compositions, or None where none is saved.
StateAt = Callable[[int], PairState | None]

#: Bytes of states that stay in memory.
_MAX_BYTES = 1 << 29
#: Points that are read at a time.
_POINTS = 4096
#: Halvings by which an ε is estimated, and by what parts of it the estimate is then moved until its bound is proved.
_HALVINGS, _STATE_WITHDRAWALS = 60, (0.0, 1e-13, 1e-11, 1e-9, 1e-7, 1e-5, 1e-3)
#: An estimate below this many nats is taken for 0.
_NOTHING = 1e-13


class StateReader:
    """Reads saved states of the tight method; those read last stay in memory, up to `_MAX_BYTES`."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int], tuple[PairState, int]] = {}

    def at(self, rows: Sequence[tuple[StoredStudy, int]]) -> StateAt:
        """Return a reader of the states of a pair, saved with cells given by part and row.

        A state of another kind, from an earlier version, counts as none. A damaged one is an error when it is read.
        """

        def found(compositions: int) -> PairState | None:
            for stored, row in rows:
                study = stored.study
                if study.method == "tight" and study.keep_states and compositions in study.compositions:
                    state = self._read(stored, row, compositions)
                    if state is not None:
                        return state
            return None

        return found

    def _read(self, stored: StoredStudy, row: int, compositions: int) -> PairState | None:
        key = (stored.part, row, compositions)
        if key not in self._known:
            try:
                state = read_state(stored, row, Direction.A_TO_B, compositions)
            except (FileNotFoundError, StoreFormatError):
                return None
            if not isinstance(state, PairState):
                return None
            # Directions may share their arrays.
            masses = {id(one): one for one in state.exact.values()}.values()
            size = sum(row.u.nbytes for row in state.dominating.rows)
            size += sum(each.nbytes for one in masses for row in one.rows for each in (row.own, row.other))
            while self._known and sum(each for _, each in self._known.values()) + size > _MAX_BYTES:
                del self._known[next(iter(self._known))]
            self._known[key] = state, size
        return self._known[key][0]


def with_state(curves: Sequence[Curve], states: StateAt, compositions: int) -> tuple[Curve, ...]:
    """Return the curves of both directions joined with a saved state, if there is one; where they are equal, as one."""
    if states(compositions) is None:
        return tuple(curves)
    if all(curve is curves[0] for curve in curves):
        return (StateCurve(curves[0], states, compositions, Direction.A_TO_B),) * len(curves)
    return tuple(StateCurve(curve, states, compositions, side) for curve, side in zip(curves, Direction, strict=True))


class StateCurve(Curve):
    """The better of a curve through stored points and a saved state, which `states` returns and may read again."""

    def __init__(self, curve: Curve, states: StateAt, compositions: int, direction: Direction) -> None:
        self._curve, self._states, self._compositions, self._direction = curve, states, compositions, direction

    def log_upper(self, epsilon: FloatArray) -> FloatArray:
        """As `Curve.log_upper`."""
        return np.minimum(self._curve.log_upper(epsilon), self._at(epsilon, upper=True))

    def log_lower(self, epsilon: FloatArray) -> FloatArray:
        """As `Curve.log_lower`."""
        return np.maximum(self._curve.log_lower(epsilon), self._at(epsilon, upper=False))

    def epsilon_upper(self, log_delta: FloatArray) -> FloatArray:
        """As `Curve.epsilon_upper`."""
        return np.minimum(self._curve.epsilon_upper(log_delta), self._inverse(log_delta, upper=True))

    def epsilon_lower(self, log_delta: FloatArray) -> FloatArray:
        """As `Curve.epsilon_lower`."""
        return np.maximum(self._curve.epsilon_lower(log_delta), self._inverse(log_delta, upper=False))

    def _at(self, epsilon: FloatArray, *, upper: bool) -> FloatArray:
        """Return the bound of the state on ln δ at some ε; where it says nothing, 0 or -inf."""
        result = np.full(epsilon.shape, 0.0 if upper else -np.inf)
        state, covered = self._states(self._compositions), np.flatnonzero(epsilon <= LARGEST_READ)
        if state is not None:
            for part in np.array_split(covered, max(1, -(-covered.size // _POINTS))):
                if upper:
                    logs = log_above(upper_deltas(state, epsilon[part], self._direction))
                else:
                    logs = log_below(lower_deltas(state, epsilon[part], self._direction))
                result[part] = np.minimum(logs, 0.0)
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
        at = np.arange(log_delta.size)
        for withdrawal in _STATE_WITHDRAWALS:
            tried = aim[at] * (1.0 + withdrawal) + withdrawal if upper else aim[at] * (1.0 - withdrawal)
            found = self._at(tried, upper=upper)
            holds = found <= log_delta[at] if upper else found > log_delta[at]
            result[at[holds]] = tried[holds]
            at = at[~holds]
        return result


def _estimate(state: PairState, direction: Direction, delta: FloatArray, *, upper: bool) -> FloatArray:
    """Estimate the ε at which a bound is δ by suffix sums of masses; the caller checks it."""
    rows: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    if upper:
        step = 1 if direction is Direction.A_TO_B else -1
        infinite, shift = (state.dominating.infinite[0 if step > 0 else 1], 0.0), state.shift
        for row in state.dominating.rows:
            losses = (step * row.losses)[::step]
            rows.append((losses, row.u[::step] * np.exp(0.5 * losses), row.u[::step] * np.exp(-0.5 * losses)))
    else:
        infinite, shift = state.exact[direction].infinite, 0.0
        rows += [(row.labels, *row.plain) for row in state.exact[direction].rows]
    sums = [(losses, *(np.append(np.cumsum(values[::-1])[::-1], 0.0) for values in masses)) for losses, *masses in rows]
    low = np.zeros(delta.shape)
    high = np.full(delta.shape, min(max(state.highest, -state.lowest, 0.0) + shift, LARGEST_READ))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        factor = np.exp(middle - shift)
        value = np.maximum(infinite[0] - factor * infinite[1], 0.0)
        for losses, own, other in sums:
            first = np.searchsorted(losses, middle - shift, side="right")
            value += np.maximum(own[first] - factor * other[first], 0.0)
        exceeds = value > delta
        low, high = np.where(exceeds, middle, low), np.where(exceeds, high, middle)
    # δ may be as small at 0 already.
    return np.where(high > _NOTHING, high, 0.0) if upper else low
