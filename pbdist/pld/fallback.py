"""Bounds that hold for every pair and any δ, taken where those of the engines are wide: none of them needs a lattice.

From above: the sum of the largest losses (Theorem 49 of docs/pld.md), exponential moments of the losses (Theorem 14
with Theorem 51 of docs/theory.md), and the same mechanism without its sampling (Theorem 50 of docs/theory.md). From
below: the events that every loss, or that some loss, is large (Theorem 8).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, PairCounts
from pbdist.pld.closed_form import gaussian_bounds, gaussian_ratio
from pbdist.pld.few_frequencies import largest_factor
from pbdist.pld.loss_profile import LossProfile
from pbdist.pld.loss_transform import rounds_of
from pbdist.pld.question import Question
from pbdist.renyi import finite_moment_above
from pbdist.types import BoolArray, Direction, FloatArray

_U = UNIT_ROUNDOFF
#: Steps of the search for a tilt, at most; the first one, and one that is not worth it: natural logarithms.
_MAX_STEPS, _FIRST_STEP, _MIN_STEP = 12, 0.7, 0.04
#: Tilts lie between these: orders from 1 + 2^-19 to 10^6.
_MIN_TILT, _LARGEST_TILT = 2.0**-19, 999_999.0
#: Moments of pairs that are computed, at most, but for the first tilt.
_MAX_MOMENTS = 200
#: Tilts that are all tried where moments are quick: few binary digits.
_SCANNED_TILTS = tuple(float(np.float32(each)) for each in np.geomspace(2.0**-10, 2.0**13, 47))
#: Relative width of a moment that is good enough.
_WIDTH = 1e-3
#: The same where few pairs have moments that take long, and how many are few.
_CLOSE_WIDTH, _FEW_SLOW_PAIRS = 1e-5, 4
#: Events of a pair that are looked at, at most, and shares of A's mass in the event that every loss is large.
_MAX_EVENTS = 400
_SHARES: FloatArray = np.unique(np.concatenate((np.geomspace(1e-12, 0.5, 80), 1.0 - np.geomspace(1e-9, 0.5, 80))))
#: Losses of events that show that there are larger ones than any ε that is looked for, nats.
_FAR_LOSSES: FloatArray = np.geomspace(1e2, 1e11, 37)
#: Points of one look at a closed form, and looks.
_SEARCH_POINTS, _SEARCHES = 33, 12


@dataclass(frozen=True, eq=False)
class _Moment:
    """ln E_A[e^{θL}; L < ∞] of all rounds, from above, at one θ, and ln of the P_A mass of infinite losses."""

    tilt: float
    log_moment: float
    log_infinite: float

    @property
    def _log_factor(self) -> float:
        return self.log_moment + math.log(largest_factor(self.tilt))

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Return upper bounds on ln δ at some ε."""
        finite = self._log_factor - self.tilt * epsilon
        finite += 16.0 * _U * (1.0 + abs(self.log_moment) + self.tilt * epsilon)
        both = np.logaddexp(finite, self.log_infinite)
        return np.asarray(both + 8.0 * _U * (1.0 + np.where(np.isfinite(both), np.abs(both), 0.0)))

    def epsilon(self, log_delta: float) -> float:
        """Return an ε with which a δ is met, nats; infinite where nearly as much may be revealed."""
        share = math.exp(min(self.log_infinite - log_delta, 0.0))
        if share > 0.999 or not math.isfinite(self.log_moment):
            return math.inf
        # Up to here the difference keeps all digits but three.
        left = log_delta + math.log1p(-share) - 1e-12 * (1.0 + abs(log_delta))
        found = (self._log_factor - left) / self.tilt
        return found + 16.0 * _U * (abs(self.log_moment) + abs(left) + 1.0) / self.tilt


class Fallback:
    """Bounds on δ and ε of one direction after a number of rounds, by single pairs' moments and events.

    The question's profiles only guide the search.
    """

    def __init__(self, question: Question, rounds: int, direction: Direction) -> None:
        self._question, self._rounds, self._direction = question, rounds, direction
        self._counts = question.counts
        self._moments: dict[float, _Moment] = {}
        self._scans: dict[ElementaryPair, dict[float, float]] = {}

    @cached_property
    def largest_loss(self) -> float:
        """A sum that no loss of all rounds exceeds, nats; infinite where some may, or where none is known."""
        total = size = 0.0
        for (pair, count), (profile, _) in zip(self._counts.items(), self._question.profiles, strict=True):
            loss = largest_loss_of(pair, profile, self._direction)
            total, size = total + count * loss, size + count * abs(loss)
        rounds = float(self._rounds)
        rounding = 8.0 * (len(self._counts) + 4.0) * _U * size
        return rounds * (total + rounding) if math.isfinite(total) else math.inf

    def epsilon_above(self, delta: float, guess: float) -> float:
        """Return an ε of at least 0 with which a δ > 0 is met, nats; infinite where none is known.

        `guess` is about that ε.
        """
        best = self.largest_loss
        if self._excess <= 0.0:
            # δ(ε) <= 1 - e^(ε - l) of losses of at most l.
            best += math.log1p(-delta) * (1.0 - 8.0 * _U) + 4.0 * _U * abs(best)
        log_delta = math.log(delta) - 4.0 * _U * (1.0 + abs(math.log(delta)))
        best = min(best, self._unsampled_epsilon(log_delta, best))
        # Where pictures end, that of Gaussian noise far out is about as steep.
        tilt = min(self._tilts_of(np.array([guess]))[0], -2.0 * log_delta / max(guess, 1e-6) + 1.0)
        if self.slow == 0:
            # Where sampling is rare some tilts are good for usual losses and others for rare ones.
            tilt = min(_SCANNED_TILTS, key=lambda each: self._moment(each).epsilon(log_delta))
        return max(min(best, self._by_moments(log_delta, tilt)), 0.0)

    def _by_moments(self, log_delta: float, tilt: float) -> float:
        """Minimize ε over tilts, from one tilt on, by steps that grow while they help."""
        found, step, sign = self._moment(tilt).epsilon(log_delta), _FIRST_STEP, 1.0
        for _ in range(_MAX_STEPS):
            if step < _MIN_STEP or len(self._moments) * max(self.slow, 1) >= _MAX_MOMENTS:
                break
            for way in (sign, -sign):
                other = min(max(tilt * math.exp(way * step), _MIN_TILT), _LARGEST_TILT)
                near = self._moment(other).epsilon(log_delta)
                if near < found:
                    tilt, found, sign, step = other, near, way, 2.0 * step
                    break
            else:
                step *= 0.35
        if len(self._moments) * max(self.slow, 1) < _MAX_MOMENTS:
            found = min(found, self._moment(self._lowest(log_delta)).epsilon(log_delta))
        return found

    def _lowest(self, log_delta: float) -> float:
        """Return about the tilt of the least ε, by a parabola through what is known next to it."""
        known = sorted((each.tilt, each.epsilon(log_delta)) for each in self._moments.values())
        tilts, found = np.log([tilt for tilt, _ in known]), np.array([epsilon for _, epsilon in known])
        best = int(np.argmin(found))
        near = slice(best - 1, best + 2)
        if not 0 < best < found.size - 1 or not np.all(np.isfinite(found[near])):
            return known[best][0]
        (left, middle, right), (first, second) = found[near], np.diff(tilts[near])
        rise, fall = (right - middle) / second, (middle - left) / first
        return float(np.exp(tilts[best] - 0.5 * (rise * first + fall * second) / max(rise - fall, 1e-300)))

    @property
    def some_loss(self) -> float:
        """A sum of losses that the rounds exceed, or reach, with some probability; infinite where A may be revealed."""
        total = size = 0.0
        for (pair, count), (_, profile) in zip(self._counts.items(), self._pictured, strict=True):
            declared = pair.loss_bound(self._direction)
            if declared is not None:
                total, size = total + count * declared, size + count * (abs(declared) + 8.0)
                continue
            sign = 1.0 if self._direction is Direction.A_TO_B else -1.0
            log_a, log_b = self._large(pair, np.append(profile.loss, sign * _FAR_LOSSES))
            if log_a[-1] == -np.inf:
                continue
            # Events of which nothing is known from below are no events.
            apart = log_a - log_b
            apart -= 1e-13 * (1.0 + np.abs(log_a) + np.where(np.isfinite(log_b), np.abs(log_b), 0.0))
            largest = float(np.max(apart))
            total, size = total + count * largest, size + count * abs(largest)
        rounds = float(self._rounds)
        return rounds * (total - 8.0 * (len(self._counts) + 4.0) * _U * size) if math.isfinite(total) else math.inf

    def log_delta_above(self, epsilon: FloatArray) -> FloatArray:
        """Return upper bounds on ln δ at some ε, of at most 0."""
        best = np.full(epsilon.size, self._log_participation)
        ratio = gaussian_ratio(self._unsampled)
        if ratio is not None:
            best = np.minimum(best, gaussian_bounds(ratio, np.array([self._rounds]), epsilon)[1][0])
        for tilt in self._tilts_of(epsilon):
            best = np.minimum(best, self._moment(tilt).log_delta(epsilon))
        return np.where(epsilon >= self.largest_loss, -np.inf, best)

    def epsilon_below(self, delta: float) -> float:
        """Return an ε of at least 0 with which a δ is not met, nats, or 0."""
        log_delta = math.log(delta) + 4.0 * _U * (1.0 + abs(math.log(delta)))
        log_a, log_b = self._events
        more = log_a > log_delta
        if not more.any():
            return 0.0
        log_a, log_b = log_a[more], log_b[more]
        with np.errstate(divide="ignore"):
            left = log_a + np.log(-np.expm1(log_delta - log_a))
        found = left - log_b
        found -= 1e-14 * (4.0 + np.abs(left) + np.where(np.isfinite(log_b), np.abs(log_b), 0.0))
        return max(float(np.max(found[np.isfinite(found)], initial=0.0)), 0.0)

    def log_delta_below(self, epsilon: FloatArray) -> FloatArray:
        """Return lower bounds on ln δ at some ε."""
        log_a, log_b = self._events
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = epsilon[:, None] + (log_b - log_a)
            ratio = ratio + 8.0 * _U * (
                epsilon[:, None] + np.where(np.isfinite(log_b), np.abs(log_b), 0.0) + np.abs(log_a)
            )
            logs = log_a + np.log(-np.expm1(np.minimum(ratio, 0.0)))
        logs = np.where(np.isnan(logs), -np.inf, logs)
        best = logs.max(axis=-1, initial=-np.inf)
        return np.asarray(best - 8.0 * _U * (1.0 + np.where(np.isfinite(best), np.abs(best), 0.0)))

    @property
    def _log_participation(self) -> float:
        """Ln of the probability, rounded up, that A and B differ in some round: δ is no larger at any ε >= 0."""
        if any(pair.participation >= 1.0 for pair in self._counts):
            return 0.0
        unused = sum(count * math.log1p(-pair.participation) for pair, count in self._counts.items())
        some = -math.expm1(float(self._rounds) * unused * (1.0 + 8.0 * (len(self._counts) + 4.0) * _U))
        if some == 0.0:
            return -700.0
        log = math.log(some)
        return min(log + 8.0 * _U * (1.0 + abs(log)), 0.0)

    @cached_property
    def _unsampled(self) -> dict[ElementaryPair, int]:
        """The pairs of a round, each without its sampling."""
        result: dict[ElementaryPair, int] = {}
        for pair, count in self._counts.items():
            standing = pair.without_sampling or pair
            result[standing] = result.get(standing, 0) + count
        return result

    def _unsampled_epsilon(self, log_delta: float, most: float) -> float:
        """Return an ε of the rounds without sampling, where that is Gaussian noise; infinite elsewhere."""
        ratio = gaussian_ratio(self._unsampled)
        if ratio is None:
            return math.inf
        low, high = 0.0, 1.0
        rounds = np.array([self._rounds])
        while gaussian_bounds(ratio, rounds, np.array([high]))[1][0, 0] > log_delta:
            low, high = high, 4.0 * high
            if high > 64.0 * min(most, 1e12):
                return math.inf
        for _ in range(_SEARCHES):
            points = np.linspace(low, high, _SEARCH_POINTS)
            met = np.append(gaussian_bounds(ratio, rounds, points[:-1])[1][0] <= log_delta, True)
            first = int(np.argmax(met))
            low, high = float(points[max(first - 1, 0)]), float(points[first])
        return high

    @cached_property
    def _excess(self) -> float:
        """By how much ln of the P_A mass of a round exceeds 0, at most; above 0 of some histograms alone."""
        side = 0 if self._direction is Direction.A_TO_B else 1
        excess = sum(count * max(float(pair.mass_excess[side]), 0.0) for pair, count in self._counts.items())
        return excess * (1.0 + 16.0 * _U)

    def _tilts_of(self, epsilon: FloatArray) -> list[float]:
        """Return tilts about the best ones of some ε, not too many."""
        reached = np.clip(np.nan_to_num(epsilon, posinf=1e100), 0.0, 1e100)
        saddles = self._question.exponents(self._direction).saddle_points(self._rounds, reached)
        # Where no tilt is needed, one that moves the mean by a part of the deviation bounds δ near 1.
        tilts = np.maximum(saddles.tilt, 0.2 / np.sqrt(saddles.variance))
        tilts = np.unique(np.clip(np.nan_to_num(tilts, nan=1.0), _MIN_TILT, _LARGEST_TILT))
        if tilts.size > _MAX_STEPS:
            tilts = tilts[np.unique(np.linspace(0, tilts.size - 1, _MAX_STEPS).astype(np.int64))]
        most = max(_MAX_MOMENTS // max(self.slow, 1), 1)
        return [float(each) for each in tilts[-most:]]

    def _moment(self, tilt: float) -> _Moment:
        # Orders whose distance from 1 is a float.
        order = 1.0 + float(np.float32(min(max(tilt, _MIN_TILT), _LARGEST_TILT)))
        known = self._moments.get(order)
        if known is not None:
            return known
        total = size = rate = 0.0
        for pair, count in self._counts.items():
            moment, infinite = self._moment_of(pair, order)
            total, size = total + count * moment, size + count * abs(moment)
            rate += count * (-math.log1p(-infinite) if infinite < 1.0 else math.inf)
        rounds = float(self._rounds)
        total = rounds * (total + 8.0 * (len(self._counts) + 4.0) * _U * size) if math.isfinite(total) else math.inf
        mass = -math.expm1(-rounds * rate * (1.0 + 8.0 * (len(self._counts) + 4.0) * _U))
        log_infinite = math.log(mass) + rounds * self._excess + 1e-12 if mass > 0.0 else -math.inf
        found = _Moment(order - 1.0, total, log_infinite)
        self._moments[order] = found
        return found

    def _moment_of(self, pair: ElementaryPair, order: float) -> tuple[float, float]:
        """Return ln E_A[e^{θL}; L < ∞] and the P_A mass of infinite losses of one pair, from above."""
        closed = pair.log_moment_above(order - 1.0)
        if closed is not None:
            return closed, 0.0
        by_transform = self._log_moments(pair)
        if by_transform is not None:
            if order - 1.0 in by_transform:
                return by_transform[order - 1.0], 0.0
            transform = rounds_of({pair: 1}, self._direction)
            if transform is not None:
                tilt = np.array([order - 1.0])
                return float((transform.log_moment(tilt) + transform.log_moment_error(tilt))[0]), 0.0
        moment, infinite = finite_moment_above(pair.dominating, order, self._direction, self._width)
        hidden = pair.without_sampling
        if hidden is not None:
            moment = min(moment, finite_moment_above(hidden, order, self._direction, self._width)[0])
        return moment, infinite

    def _log_moments(self, pair: ElementaryPair) -> dict[float, float] | None:
        """Return ln E_A[e^{θL}] of a pair that has a transform at all tilts that are scanned, at once."""
        if pair not in self._scans:
            transform = rounds_of({pair: 1}, self._direction)
            if transform is None:
                return None
            tilts = np.array(_SCANNED_TILTS)
            found = transform.log_moment(tilts) + transform.log_moment_error(tilts)
            self._scans[pair] = dict(zip(_SCANNED_TILTS, found.tolist(), strict=True))
        return self._scans[pair]

    @property
    def _width(self) -> float:
        """How closely moments are computed, relatively."""
        return _CLOSE_WIDTH if self.slow <= _FEW_SLOW_PAIRS else _WIDTH

    @cached_property
    def slow(self) -> int:
        """How many pairs have no moment that is computed at once."""
        quick = (
            pair.log_moment_above(1.0) is not None
            or pair.renyi_divergence(2.0) is not None
            or rounds_of({pair: 1}, self._direction) is not None
            for pair in self._counts
        )
        return len(self._counts) - sum(quick)

    @cached_property
    def _events(self) -> tuple[FloatArray, FloatArray]:
        """Logarithms of P_A masses from below and of P_B masses from above of some events of all rounds."""
        rounds, sides = float(self._rounds), [self._large(pair, profile.loss) for pair, profile in self._pictured]
        counts = [rounds * count for count in self._counts.values()]
        all_a = all_b = np.zeros(_SHARES.size)
        for (log_a, log_b), count in zip(sides, counts, strict=True):
            index = np.minimum(np.searchsorted(log_a, np.log(_SHARES) + log_a[-1]), log_a.size - 1)
            if log_a[-1] == -np.inf:
                return log_a[-1:], log_b[-1:]
            slack = 8.0 * (log_a.size + 16.0) * _U
            all_a = all_a + count * (log_a[index] - slack * (1.0 + np.abs(log_a[index])))
            size = np.where(np.isfinite(log_b[index]), np.abs(log_b[index]), 0.0)
            all_b = all_b + count * (log_b[index] + slack * (1.0 + size))
        logs = [(all_a, all_b)]
        if not any(any(pair.mass_excess) for pair in self._counts):
            logs += [_some(*side, count) for side, count in zip(sides, counts, strict=True) if side[0][-1] > -np.inf]
        found_a, found_b = (np.concatenate([each[side] for each in logs]) for side in (0, 1))
        return found_a, found_b

    @property
    def _pictured(self) -> Sequence[tuple[ElementaryPair, LossProfile]]:
        profiles = [profile for profile, _ in self._question.profiles]
        return list(zip(self._counts, profiles, strict=True))

    def _large(self, pair: ElementaryPair, losses: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ln P_A from below and ln P_B from above of the events that a loss is large, rising."""
        known = np.unique(losses if self._direction is Direction.A_TO_B else -losses)
        edges = np.unique(np.append(known[:: max(known.size // _MAX_EVENTS, 1)], known[-1:]))
        scaled = pair.scaled_loss_masses(edges if edges.size else np.zeros(1), self._direction)
        masses = scaled.masses
        with np.errstate(divide="ignore"):
            log_a = np.concatenate(
                (
                    np.log(masses.bins_a.lower) + scaled.log_scale_a,
                    np.log(masses.atoms_a.lower) + scaled.atoms_log_scale_a,
                    np.log(masses.only_a.lower),
                )
            )
            log_b = np.concatenate(
                (
                    np.log(masses.bins_b.upper) + scaled.log_scale_b,
                    np.log(masses.atoms_b.upper) + scaled.atoms_log_scale_b,
                    np.full(masses.only_a.lower.size, -np.inf),
                )
            )
        starts = (np.append(-np.inf, edges), masses.atom_loss, np.full(masses.only_a.lower.size, np.inf))
        order = np.argsort(-np.nan_to_num(np.concatenate(starts), nan=np.inf), kind="stable")
        log_a, log_b = np.logaddexp.accumulate(log_a[order]), np.logaddexp.accumulate(log_b[order])
        there = log_a > -np.inf
        return (log_a[there], log_b[there]) if there.any() else (log_a[-1:], np.zeros(1))


def _some(log_a: FloatArray, log_b: FloatArray, count: float) -> tuple[FloatArray, FloatArray]:
    """Return the same of the event that some of so many losses is large."""
    slack = 8.0 * (log_a.size + 16.0) * _U
    a = np.exp(np.minimum(log_a, 0.0)) * (1.0 - slack * (1.0 + np.abs(log_a)))
    b = np.exp(np.minimum(log_b, 0.0)) * (1.0 + slack * (1.0 + np.where(np.isfinite(log_b), np.abs(log_b), 0.0)))
    with np.errstate(divide="ignore"):
        # Of masses that are no float, so many times the mass: 1 - (1 - x)^n is at most n x, and at least
        # n x (1 - n x / 2).
        some_a = np.log(-np.expm1(count * np.log1p(-np.minimum(a, 1.0 - _U)))) - 1e-14 * (2.0 + np.abs(log_a))
        size = np.where(np.isfinite(log_b), np.abs(log_b), 0.0)
        some_b = np.log(-np.expm1(count * np.log1p(-np.minimum(b, 1.0 - _U)))) + 1e-14 * (2.0 + size)
        faint_a, faint_b = log_a < -650.0, log_b < -650.0
        some_a = np.where(faint_a, log_a + math.log(count) - 1e-12 * np.abs(log_a), some_a)
        nothing = log_b == -np.inf
        some_b = np.where(faint_b, log_b + math.log(count) + 1e-12 * size, np.where(nothing, -np.inf, some_b))
    return some_a, np.minimum(some_b, 0.0)


def pure_bounds(counts: PairCounts, rounds: int, directions: Sequence[Direction], most: float) -> tuple[float, float]:
    """Bound the ε with which δ = 0 is met in all of some directions, by losses; nats.

    Where losses have no bound, or none is known, `most` counts as infinite.
    """
    question = Question(counts, np.array([rounds]), np.array([1.0]), 1e-3, 1e-40, len(directions) > 1)
    known = [Fallback(question, rounds, direction) for direction in directions]
    lower = max(0.0, *(each.some_loss for each in known))
    upper = max(0.0, *(each.largest_loss for each in known))
    return (most, math.inf) if upper == math.inf and lower >= most else (lower, upper)


#: Below such a part of the largest loss, other bounds are closer.
_NEAR_LARGEST = 0.999
#: How often the last bin is halved to find where its events end.
_HALVINGS = 40


def bounds_near_the_largest_loss(question: Question) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return logarithms of lower and upper bounds on δ, shape (2, R, E): -inf and 0 where nothing is known.

    Where the losses of pair i are at most ℓ_i and its masses at most M_i, and d_i of each are composed, δ(ε) is at most
    Π M_i^d_i (1 - e^(ε - Σ d_i ℓ_i)), and 0 from that sum on; the outcomes whose losses are next to ℓ_i bound it from
    below (Theorem 49 of docs/pld.md). The third array has where rounding alone keeps these bounds apart, while δ at an
    ε lower by a part in 10^6 is at least the upper one.
    """
    result = np.zeros((2, question.rounds.size, question.epsilon.size))
    log_lower, ended = np.full_like(result, -np.inf), np.zeros(result.shape, bool)
    least = float(question.rounds.min())
    for axis, direction in enumerate(question.directions):
        about = sum(count * _about(profile, direction) for profile, count in question.profiles)
        if not question.largest >= _NEAR_LARGEST * least * about:
            continue
        parts = [
            (pair, count, largest_loss_of(pair, profile, direction))
            for (pair, count), (profile, _) in zip(question.counts.items(), question.profiles, strict=True)
        ]
        if all(math.isfinite(loss) for *_, loss in parts):
            size = math.fsum(count * abs(loss) for _, count, loss in parts)
            largest = math.fsum(count * loss for _, count, loss in parts) + 8.0 * _U * size
            rounds = question.rounds.astype(np.float64)[:, None]
            ends = rounds * largest + 4.0 * _U * rounds * size
            result[axis] = _log_bound(question, direction, rounds, ends)
            for row, column in np.argwhere((question.epsilon < ends) & (question.epsilon > ends * (1.0 - 1e-7))):
                at, r, epsilon = (axis, row, column), int(question.rounds[row]), float(question.epsilon[column])
                gap, leaves = float(ends[row, 0] - epsilon), r * question.leaves
                low, high, error = _log_top_masses(parts, direction, r, 0.25e-6 * epsilon / leaves)
                if low == -math.inf or error + gap > 0.12e-6 * epsilon / leaves:
                    continue
                result[at], close = result[at] + high, 2.0 * error + 1e-4 * gap / leaves
                least, _, error = _log_top_masses(parts, direction, r, close)
                left = gap * (1.0 - 4.0 * _U) - leaves * (close + error) * (1.0 + 4.0 * _U) - 32.0 * _U * r * size
                if left > 0.0 and least > -math.inf:
                    log_lower[at] = least + math.log(-math.expm1(-left)) * (1.0 + 8.0 * _U) - 1e-14
                # So close to their largest values, the losses exceed ε (1 - 5e-7).
                rounded = log_lower[at] == -math.inf or gap < 1e-11 * epsilon
                ended[at] = rounded and low + math.log(-math.expm1(-0.4e-6 * epsilon)) > result[at]
    if question.symmetric:
        log_lower[1], result[1], ended[1] = log_lower[0], result[0], ended[0]
    return log_lower, result, ended


def _log_top_masses(
    parts: Sequence[tuple[ElementaryPair, int, float]], direction: Direction, rounds: int, distance: float
) -> tuple[float, float, float]:
    """Bound the logarithm of the P_A mass of outcomes whose every loss is within a distance of its largest value.

    The third number is the largest error of a loss: outcomes a bit further away may be counted, or closer ones not.
    """
    lower = upper = error = 0.0
    for pair, count, loss in parts:
        masses = pair.directed_loss_masses(np.array([loss - distance]), direction)
        far = masses.atom_loss > loss - distance
        slack, error = (far.size + 8.0) * _U, max(error, masses.loss_error)
        least = float(masses.bins_a.lower[-1] + masses.atoms_a.lower[far].sum()) * (1.0 - slack)
        most = float(masses.bins_a.upper[-1] + masses.atoms_a.upper[far].sum()) * (1.0 + slack)
        lower += rounds * count * math.log(least) if least > 0.0 else -math.inf
        upper += rounds * count * (math.log(most) * (1.0 - 4.0 * _U) + 4.0 * _U) if most > 0.0 else -math.inf
    slack = (len(parts) + 16.0) * _U
    return lower * (1.0 + slack), min(upper * (1.0 - slack), 0.0), error


def largest_loss_of(pair: ElementaryPair, profile: LossProfile, direction: Direction) -> float:
    """Return an upper bound on all losses of a pair in a direction, nats; infinite where none is found.

    `profile` only guides the search. An enclosure has no such bound: its masses are those of the dominated pair.
    """
    declared = pair.loss_bound(direction)
    if declared is not None:
        return declared
    if pair.dominating is not pair or not math.isfinite(_about(profile, direction)):
        return math.inf
    ends = (profile.loss[-1], profile.upper[-1])
    if direction is Direction.B_TO_A:
        ends = (-profile.loss[0], -profile.lower[0])
    within, beyond = map(float, ends)
    found = _with_error(pair, within, direction)
    if math.isfinite(found):
        return found
    found = _with_error(pair, beyond, direction)
    # Spread events may end anywhere within the last bin.
    for _ in range(_HALVINGS if pair.outcomes == 0 and math.isfinite(found) else 0):
        middle = 0.5 * (within + beyond)
        closer = _with_error(pair, middle, direction)
        if math.isfinite(closer):
            beyond, found = middle, closer
        else:
            within = middle
    return found


def _with_error(pair: ElementaryPair, loss: float, direction: Direction) -> float:
    """Return a loss and the error of all losses, if no event lies beyond; infinite if some may."""
    masses = pair.directed_loss_masses(np.array([loss]), direction)
    far_atoms = (masses.atom_loss > loss) & (masses.atoms_a.upper > 0.0)
    if masses.only_a.upper.any() or masses.bins_a.upper[-1] > 0.0 or far_atoms.any():
        return math.inf
    return math.nextafter(loss + masses.loss_error, math.inf)


def _about(profile: LossProfile, direction: Direction) -> float:
    """Return the largest loss of a profile, infinite where some is or where there is none."""
    forwards = direction is Direction.A_TO_B
    if profile.loss.size == 0 or (profile.only_a if forwards else profile.only_b) > 0.0:
        return math.inf
    return float(profile.loss[-1] if forwards else -profile.loss[0])


def _log_bound(question: Question, direction: Direction, rounds: FloatArray, largest: FloatArray) -> FloatArray:
    """Return ln(Π M^d (1 - e^(ε - L))), rounded up; -inf where ε >= L. Shape (R, E)."""
    side = 0 if direction is Direction.A_TO_B else 1
    excess = sum(count * max(float(pair.mass_excess[side]), 0.0) for pair, count in question.counts.items())
    # ε and L are two floats: their difference errs by half a unit of its own.
    left = np.maximum(largest - question.epsilon, 0.0) * (1.0 + 2.0 * _U)
    with np.errstate(divide="ignore"):
        log = np.log(-np.expm1(-left))
    rounded = log + 8.0 * _U * (1.0 + np.where(left > 0.0, np.abs(log), 0.0))
    result: FloatArray = np.minimum(rounded + rounds * excess * (1.0 + 16.0 * _U), 0.0)
    return result
