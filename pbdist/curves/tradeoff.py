"""Trade-off curves: the smallest type II error of a test of A against B, at each type I error.

From bounds on δ at finitely many ε (`SupportCurve`), and read off a saved state (`state_tradeoff`). Section 10 of
docs/theory.md proves both, with c(y) = T_B - Σ max(0, P_B - y P_A) and β(α) = sup_{y>=0} c(y) - y α (Dong, Roth & Su
2022, Proposition 6); T_A, T_B are the masses of everything, 1 but for a histogram.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, Pair
from pbdist.pld import LARGEST_READ, PairState, lower_deltas, upper_deltas
from pbdist.pld.lattice import LOST_TO_UNDERFLOW
from pbdist.types import Direction, FloatArray, IntArray

#: Elements of the matrices that are made at a time.
_ELEMENTS = 1 << 21
#: At most so many corners are used for one curve.
_MAX_CORNERS = 20_000


@dataclass(frozen=True)
class Wholes:
    """Bounds on masses of one of the two distributions after r compositions."""

    #: Of everything: 1 but for a histogram whose masses do not sum to 1.
    total_lower: float
    total_upper: float
    #: Of what the other distribution cannot show.
    alone_lower: float
    alone_upper: float


def wholes_of(components: Sequence[tuple[Pair, int]], compositions: int) -> dict[Direction, Wholes]:
    """Return the masses of P_A (under A||B) and of P_B (under B||A) after so many rounds.

    Where all totals are 1, the events that reveal the distribution have the mass 1 - Π (1 - m)^n over the factors, each
    with a revealing mass m. A total T = 1 + x becomes e^(n ln(1 + x)), x an exact fraction; the revealing mass is then
    only known to lie between 0 and everything.
    """
    found = {}
    for axis, direction in enumerate(Direction):
        log_total, log_rest = [0.0], [0.0, 0.0]
        for pair, count in components:
            for factor in pair.factors:
                times = float(count) * float(compositions)
                log_total.append(times * math.log1p(float(factor.mass_excess[axis])))
                lower, upper = _alone(factor, direction)
                log_rest[0] += times * math.log1p(-min(lower, 1.0)) if lower < 1.0 else -math.inf
                log_rest[1] += times * math.log1p(-upper) if upper < 1.0 else -math.inf
        terms = 8.0 * UNIT_ROUNDOFF * len(log_total)
        if any(log_total):
            value, slack = math.fsum(log_total), terms * (1.0 + math.fsum(map(abs, log_total)))
            whole = math.exp(value - slack), math.exp(value + slack)
            found[direction] = Wholes(*whole, 0.0, whole[1])
        else:
            alone = (-math.expm1(log_rest[0]) * (1.0 - terms), -math.expm1(log_rest[1]) * (1.0 + terms))
            found[direction] = Wholes(1.0, 1.0, min(alone[0], 1.0), min(alone[1], 1.0))
    return found


def _alone(factor: ElementaryPair, direction: Direction) -> tuple[float, float]:
    masses = factor.loss_masses(np.zeros(1))
    only = masses.only_a if direction is Direction.A_TO_B else masses.only_b
    return float(only.lower[0]), float(only.upper[0])


@dataclass(frozen=True, eq=False)
class SupportCurve:
    """Bounds on c(y) at increasing y, and what is known beyond them."""

    #: The nodes; the first is y = 0. Shape (N,).
    y: FloatArray
    lower: FloatArray
    upper: FloatArray
    #: Upper value of T_A.
    steepest: float
    #: Lower and upper value of the limit of c, hence of β(0).
    first: float
    last: float

    @classmethod
    def from_deltas(
        cls,
        epsilon: FloatArray,
        test: Direction,
        delta_lower: FloatArray,
        delta_upper: FloatArray,
        wholes: dict[Direction, Wholes],
    ) -> "SupportCurve":
        """Make the curve of a test of one distribution against the other.

        The ε increase, and at least one of them is at most `LARGEST_READ`; larger ones are left out. In the test A||B
        the type I error is made under A, the type II error under B. The bounds on δ have the first axis A||B, B||A.

        exp rounds by 2u at most. c(k y) lies between c(y) and k c(y), since c is concave, does not fall and c(0) = 0:
        a node that is off by 4u costs a factor of 1 ± 4u. The other roundings are five at most.
        """
        readable = epsilon <= LARGEST_READ
        epsilon = epsilon[readable]
        forwards = 0 if test is Direction.A_TO_B else 1
        null = wholes[test]
        alternative = wholes[test.opposite]
        own, other = (
            np.stack((delta_lower[i][readable], _uncapped(delta_upper[i][readable], whole)))
            for i, whole in ((1 - forwards, alternative), (forwards, null))
        )
        down, up = 1.0 - 16.0 * UNIT_ROUNDOFF, 1.0 + 16.0 * UNIT_ROUNDOFF
        small = np.exp(-epsilon)
        y = np.concatenate(([0.0], small[::-1], np.exp(epsilon)))
        lower = np.concatenate(
            ([0.0], (small * (null.total_lower - other[1]) * down)[::-1], (alternative.total_lower - own[1]) * down)
        )
        upper = np.concatenate(
            ([0.0], (small * (null.total_upper - other[0]) * up)[::-1], (alternative.total_upper - own[0]) * up)
        )
        first = max((alternative.total_lower - alternative.alone_upper) * down, 0.0)
        last = min(max((alternative.total_upper - alternative.alone_lower) * up, 0.0), alternative.total_upper)
        # c does not fall; equal nodes are one.
        lower = np.maximum.accumulate(np.maximum(lower, 0.0))
        upper = np.minimum(np.minimum.accumulate(np.maximum(upper, 0.0)[::-1])[::-1], last)
        y, index = np.unique(y, return_inverse=True)
        best = np.zeros_like(y), np.full_like(y, np.inf)
        np.maximum.at(best[0], index, lower)
        np.minimum.at(best[1], index, upper)
        return cls(y, best[0], best[1], null.total_upper * up, max(first, float(best[0][-1])), last)

    def lower_bound(self, alpha: FloatArray) -> tuple[FloatArray, IntArray]:
        """Lower bounds on β at each α, shape (K,), and the node that gives each."""
        parts = [self._lower_part(part) for part in _parts(alpha, self.y.size)]
        value = np.concatenate([part[0] for part in parts])
        found = np.where(alpha == 0.0, self.first, value)
        return np.minimum(found, 1.0), np.concatenate([part[1] for part in parts])

    def upper_bound(self, alpha: FloatArray) -> tuple[FloatArray, IntArray]:
        """Upper bounds on β at each α, shape (K,), and the node at the left of the interval that gives each."""
        # Slopes of c to the left of each node, rounded up: from a lower value at an earlier node to the upper value at
        # it or at an earlier one, or T_A. To the right of the next node, rounded down: from an upper value there or
        # later to a later lower one, or 0.
        gap = np.diff(self.y)
        left = np.concatenate(([self.steepest], (self.upper[1:] - self.lower[:-1]) / gap * (1.0 + 8.0 * UNIT_ROUNDOFF)))
        left = np.minimum.accumulate(left)
        right = np.concatenate(
            ((self.lower[2:] - self.upper[1:-1]) / gap[1:] * (1.0 - 8.0 * UNIT_ROUNDOFF), [0.0, 0.0])
        )
        right = np.maximum.accumulate(np.maximum(right, 0.0)[::-1])[::-1]
        parts = [self._upper_part(part, left, right) for part in _parts(alpha, self.y.size)]
        # No error is above 1, whatever a histogram's masses sum to.
        value = np.minimum(np.concatenate([part[0] for part in parts]), min(self.last, 1.0))
        return np.maximum(value, 0.0), np.concatenate([part[1] for part in parts])

    def _lower_part(self, alpha: FloatArray) -> tuple[FloatArray, IntArray]:
        product = alpha[:, None] * self.y
        value = self.lower - product - 4.0 * UNIT_ROUNDOFF * (self.lower + product)
        best = np.argmax(value, axis=1)
        return np.maximum(value[np.arange(alpha.size), best], 0.0), best

    def _upper_part(self, alpha: FloatArray, left: FloatArray, right: FloatArray) -> tuple[FloatArray, IntArray]:
        # Right of the last node the limit of c is the next upper value; its line is level.
        following = np.append(self.upper[1:], self.last)
        gap = np.append(np.diff(self.y), 0.0)
        a = alpha[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (a - right) / (left - right)
        # Slopes that have met bound c by one line.
        share = np.where(left > right, np.clip(share, 0.0, 1.0) * (1.0 - 16.0 * UNIT_ROUNDOFF), 0.0)
        here = following - right * gap
        product = a * self.y
        falling = share * self.upper + (1.0 - share) * here - product
        falling += 16.0 * UNIT_ROUNDOFF * (self.upper + following + right * gap + product)
        ends = np.append(self.y[1:], np.inf)
        rising = a < right
        with np.errstate(invalid="ignore"):
            product = np.where(rising, a * ends, 0.0)
        value = np.where(rising, following - product + 8.0 * UNIT_ROUNDOFF * (following + product), falling)
        best = np.argmax(value, axis=1)
        return value[np.arange(alpha.size), best], best


def _uncapped(delta_upper: FloatArray, whole: Wholes) -> FloatArray:
    """Upper bounds on Σ max(0, P_A - e^ε P_B) where δ, at most 1, is cut there: no more than all mass of P_A."""
    return np.where(delta_upper >= 1.0, max(whole.total_upper, 1.0), delta_upper)


def _parts(alpha: FloatArray, nodes: int) -> list[FloatArray]:
    return np.array_split(alpha, max(1, math.ceil(alpha.size * nodes / _ELEMENTS)))


def state_tradeoff(
    state: PairState, test: Direction, alpha: FloatArray, wholes: Mapping[Direction, Wholes]
) -> tuple[FloatArray, FloatArray]:
    """Bound the smallest type II error at each type I error.

    The state has exact rows of both directions. In the test A||B the type I error is made under A, the type II error
    under B. `wholes` are those of `wholes_of` for the rounds of the state.
    """
    epsilon = _corners(state, test, alpha)
    lower, upper = (
        np.stack([read(state, epsilon, direction) for direction in Direction]) for read in (lower_deltas, upper_deltas)
    )
    curve = SupportCurve.from_deltas(epsilon, test, lower, upper, dict(wholes))
    below, above = curve.lower_bound(alpha)[0], curve.upper_bound(alpha)[0]
    null, alternative = wholes[test], wholes[test.opposite]
    for found in (
        _rejecting(state, test.opposite, alpha, alternative),
        _accepting(state, test, alpha, null),
        # A test that ignores the outcome.
        alternative.total_upper * np.maximum(1.0 - alpha / null.total_upper, 0.0)
        + 8.0 * UNIT_ROUNDOFF * alternative.total_upper,
    ):
        above = np.minimum(above, found)
    return below, np.maximum(above, below)


def _corners(state: PairState, test: Direction, alpha: FloatArray) -> FloatArray:
    """Return ε, increasing, where the dominating pair's own curve has corners near each α; any ε would be valid."""
    sign = 1.0 if test is Direction.A_TO_B else -1.0
    losses = np.concatenate([sign * row.losses for row in state.dominating.rows])
    masses = np.concatenate([row.u for row in state.dominating.rows]) * np.exp(0.5 * losses)
    order = np.argsort(losses, kind="stable")
    losses = losses[order]
    # Events of small losses are rejected; their mass under the hypothesis is the slope.
    slopes = np.cumsum(masses[order])
    index = np.searchsorted(slopes, alpha)
    near = np.unique(np.clip((index[:, None] + np.arange(-2, 3)).ravel(), 0, losses.size - 1))
    near = near[:: max(1, -(-near.size // _MAX_CORNERS))]
    corners = np.abs(losses[near])
    found = np.concatenate(([0.0], corners, corners + state.shift))
    return np.unique(found[found <= LARGEST_READ])


def _sorted_events(state: PairState, direction: Direction) -> tuple[FloatArray, FloatArray]:
    """Masses `own` from below and `other` from above of all events, those of the largest ratio first."""
    masses = state.exact[direction]
    own, other = [np.array([masses.infinite[0]])], [np.array([masses.infinite[1]])]
    for row in masses.rows:
        a, b = row.plain
        own.append(a)
        other.append(b)
    a, b = np.concatenate(own), np.concatenate(other)
    present = a > 0.0
    a, b = a[present], b[present]
    with np.errstate(divide="ignore", over="ignore"):
        order = np.argsort(-(a / b), kind="stable")
    return a[order], b[order]


def _sums(values: FloatArray, side: float) -> FloatArray:
    """Sums of the first 0, 1, .. values, rounded to that side."""
    return np.concatenate(([0.0], np.cumsum(values))) * (1.0 + side * (values.size + 16.0) * UNIT_ROUNDOFF)


def _rejecting(state: PairState, direction: Direction, alpha: FloatArray, alternative: Wholes) -> FloatArray:
    """Type II errors of tests that reject at some of the events of (B, A)."""
    power, error = _sorted_events(state, direction)
    powers, errors = _sums(power, -1.0), _sums(error, 1.0)
    last = np.searchsorted(errors, alpha, side="right") - 1
    inside = np.minimum(last, power.size - 1)
    share = np.zeros(alpha.shape)
    if power.size:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            share = (alpha - errors[last]) / error[inside] * (1.0 - 8.0 * UNIT_ROUNDOFF)
        share = np.where(last < power.size, np.clip(np.nan_to_num(share, nan=0.0, posinf=1.0), 0.0, 1.0), 0.0)
        share = share * power[inside]
    found = alternative.total_upper - (powers[last] + share) * (1.0 - 8.0 * UNIT_ROUNDOFF)
    return np.asarray(np.maximum(found, 0.0) + 8.0 * UNIT_ROUNDOFF * alternative.total_upper)


def _accepting(state: PairState, direction: Direction, alpha: FloatArray, null: Wholes) -> FloatArray:
    """Type II errors of tests that accept at some of the events of (A, B)."""
    accepted, missed = _sorted_events(state, direction)
    accepts, misses = _sums(accepted, -1.0), _sums(missed, 1.0)
    needed = np.maximum(null.total_upper - alpha, 0.0) + 4.0 * UNIT_ROUNDOFF * (null.total_upper + alpha)
    last = np.searchsorted(accepts, needed, side="left")
    found = np.full(alpha.shape, np.inf)
    possible = last < accepts.size
    index = last[possible]
    before = np.maximum(index - 1, 0)
    if accepted.size:
        share = (
            (needed[possible] - accepts[before])
            / accepted[np.minimum(before, accepted.size - 1)]
            * (1.0 + 8.0 * UNIT_ROUNDOFF)
        )
        share = np.where(index > 0, np.clip(share, 0.0, 1.0), 0.0)
        found[possible] = (misses[before] + share * missed[np.minimum(before, accepted.size - 1)]) * (
            1.0 + 8.0 * UNIT_ROUNDOFF
        )
    # In `_rejecting`, and in `needed` here, rounding allows for more than this.
    found += LOST_TO_UNDERFLOW
    return np.where(alpha >= null.total_upper, 0.0, found)
