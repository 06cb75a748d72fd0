r"""Trade-off curves: the smallest type II error of a test, from bounds on δ at finitely many ε.

A test φ rejects "the input was A" at the outcome x with probability φ(x). Its type I error is Σ φ P_A, its type II
error Σ (1 - φ) P_B. β(α) is the smallest type II error of all tests whose type I error is at most α: f-DP with the
trade-off function β is what Dong, Roth & Su 2022 (section 2) call the pair's privacy.

*Duality.* For y >= 0 let c(y) = T_B - H(y), H(y) = Σ max(0, P_B - y P_A) and T_A, T_B the masses of everything, 1 but
for a histogram. The tests form a convex set, and by Neyman & Pearson the test "reject where P_B > y P_A" minimises
type II error + y (type I error), the minimum being c(y). Hence β(α) = sup_{y>=0} c(y) - y α, the supremum over all
supporting lines of a convex function (Dong, Roth & Su 2022, Proposition 6). With y = e^ε, H is δ of the direction
B||A; for y < 1, P_B - y P_A + y max(0, P_A - P_B / y) = max(0, P_B - y P_A) gives c(y) = y (T_A - δ), with δ of the
direction A||B at e^ε = 1 / y. No difference of nearly equal numbers is taken on either side.

*c is concave, does not fall, c(0) = 0, c(y) <= y T_A*, as a sum of min(P_B, y P_A). It stays below its limit, which is
T_B less the P_B mass of what A cannot show.

*Below.* Any y gives a lower bound on β; so do lower bounds on c at finitely many y.

*Above.* Between two neighbouring nodes y0 < y1 with the upper values u0, u1, c lies below the line through (y0, u0)
with any slope s that is at least c's slope to the left of y0, and below the line through (y1, u1) with any slope
0 <= t that is at most c's slope to the right of y1. By concavity such an s is the slope from a lower value at an
earlier node to u at y0 or an earlier node, or T_A; such a t the slope from an upper value at y1 or later to a later
lower value, or 0. The supremum of the smaller of the two lines less y α is at most that of any mean of
them: with λ s + (1 - λ) t <= α the mean falls, and its value at y0 bounds it; where t > α the second line
rises, and its value at y1 does. Right of the last node t = 0, and the limit of c takes the place of u1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, Pair
from pbdist.types import Direction, FloatArray, IntArray

__all__ = ["LARGEST_EPSILON", "SupportCurve", "Wholes", "mass_excess", "opposite", "wholes_of"]

#: An e^ε from here on is left out: neither it nor its reciprocal may leave float64.
LARGEST_EPSILON = 600.0
#: Elements of the matrices that are made at a time.
_ELEMENTS = 1 << 21


@dataclass(frozen=True)
class Wholes:
    """Bounds on masses of one of the two distributions after r compositions.

    Attributes
    ----------
    total_lower, total_upper : float
        Of everything: 1 but for a histogram whose masses do not sum to 1.
    alone_lower, alone_upper : float
        Of what the other distribution cannot show.
    """

    total_lower: float
    total_upper: float
    alone_lower: float
    alone_upper: float


def wholes_of(components: Sequence[tuple[Pair, int]], compositions: int) -> dict[Direction, Wholes]:
    """Return the masses of P_A (under A||B) and of P_B (under B||A) after so many rounds.

    Notes
    -----
    Where all totals are 1, what reveals the distribution has the mass 1 - Π (1 - m)^n over the factors of mass m. A
    total T = 1 + x becomes e^(n ln(1 + x)), x an exact fraction; nothing is then said about the second mass but that it
    is at least 0 and at most everything.
    """
    found = {}
    for direction in Direction:
        log_total, log_rest = [0.0], [0.0, 0.0]
        for pair, count in components:
            for factor in pair.factors:
                times = float(count) * float(compositions)
                log_total.append(times * math.log1p(float(mass_excess(factor, direction))))
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


def mass_excess(factor: ElementaryPair, direction: Direction) -> Fraction:
    """Return by how much the masses of P_A (under A||B) or of P_B (under B||A) exceed 1, exactly."""
    return factor.mass_excess[list(Direction).index(direction)]


def opposite(direction: Direction) -> Direction:
    """Return the other direction."""
    return Direction.B_TO_A if direction is Direction.A_TO_B else Direction.A_TO_B


def _alone(factor: ElementaryPair, direction: Direction) -> tuple[float, float]:
    masses = factor.loss_masses(np.zeros(1))
    only = masses.only_a if direction is Direction.A_TO_B else masses.only_b
    return float(only.lower[0]), float(only.upper[0])


@dataclass(frozen=True, eq=False)
class SupportCurve:
    """Bounds on c(y) at increasing y, and what is known beyond them.

    Attributes
    ----------
    y, lower, upper : ndarray, shape (N,)
        The nodes; the first is y = 0.
    steepest : float
        Upper value of T_A.
    first, last : float
        Lower and upper value of the limit of c, hence of β(0).
    """

    y: FloatArray
    lower: FloatArray
    upper: FloatArray
    steepest: float
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

        Parameters
        ----------
        epsilon : ndarray, shape (E,)
            Increasing, nats, at least one of them at most `LARGEST_EPSILON`; what is larger is left out.
        test : Direction
            A||B: the type I error is made under A, the type II error under B.
        delta_lower, delta_upper : ndarray, shape (2, E)
            Certified bounds on δ, first axis A||B, B||A.
        wholes : dict
            Of `wholes_of`.

        Notes
        -----
        exp rounds by 2u at most. c(k y) lies between c(y) and k c(y), since c is concave, does not fall and c(0) = 0:
        a node that is off by 4u costs a factor of 1 ± 4u. The other roundings are five at most.
        """
        kept = epsilon <= LARGEST_EPSILON
        epsilon = epsilon[kept]
        forwards = 0 if test is Direction.A_TO_B else 1
        null = wholes[test]
        alternative = wholes[opposite(test)]
        own, other = (
            np.stack((delta_lower[i][kept], _uncapped(delta_upper[i][kept], whole)))
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
        y, place = np.unique(y, return_inverse=True)
        best = np.zeros_like(y), np.full_like(y, np.inf)
        np.maximum.at(best[0], place, lower)
        np.minimum.at(best[1], place, upper)
        return cls(y, best[0], best[1], null.total_upper * up, max(first, float(best[0][-1])), last)

    def lower_bound(self, alpha: FloatArray) -> tuple[FloatArray, IntArray]:
        """Lower bounds on β at each α, shape (K,), and the node that gives each."""
        parts = [self._lower_part(part) for part in _parts(alpha, self.y.size)]
        value = np.concatenate([part[0] for part in parts])
        found = np.where(alpha == 0.0, self.first, value)
        return np.minimum(found, 1.0), np.concatenate([part[1] for part in parts])

    def upper_bound(self, alpha: FloatArray) -> tuple[FloatArray, IntArray]:
        """Upper bounds on β at each α, shape (K,), and the node at the left of the interval that gives each."""
        # Slopes of c to the left of each node, rounded up; to the right of the next one, rounded down.
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
        # Beyond the last node the curve's limit stands at no place in particular: its line is level.
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
