"""Gaussian noise whose mean one record moves by a random amount: the pair of a mixture and a Gaussian."""

import itertools
import math
from fractions import Fraction
from functools import cached_property

import numpy as np

from pbdist.errors import InvalidInputError
from pbdist.mechanisms.additive import Gaussian
from pbdist.mechanisms.declaration import (
    checked_rate,
    checked_size,
    gaussian_scale,
    mechanism,
    numbers,
    parameter,
)
from pbdist.mechanisms.masses import (
    UNIT_ROUNDOFF,
    LossMasses,
    MassBounds,
    ScaledLossMasses,
    gaussian_interval,
    rounded_up,
)
from pbdist.mechanisms.pair import NoiseOrder, ScaledPair, in_order, ordered
from pbdist.mechanisms.subsampled import added, full_losses
from pbdist.mechanisms.tails import log_moment_of_tail
from pbdist.types import Adjacency, BoolArray, Direction, FloatArray

#: The weights are divided by their sum, which is this near to 1.
_SUM_TOLERANCE = 1e-9
#: Each shift takes as long as one sampled Gaussian.
_MAX_SHIFTS = 1024
#: Numbers of all shifts that are held at a time.
_MAX_NUMBERS = 1 << 20
#: Steps of Newton's method, at most; it ends where a loss is within so many u of its size.
_MAX_STEPS, _CLOSE = 60, 8.0


@mechanism
class GaussianMixture(ScaledPair):
    """A random shift under Gaussian noise: A = Σ weights[i] N(shifts[i], scale²), B = N(0, scale²).

    One record moves the mean by shifts[i] with the probability weights[i]: a record that may be in a sample several
    times, or under one of several factors. With the shifts 0 and s, and the weights 1 - q and q, it is
    ``SubsampledGaussian(scale, q, s)``. The direction "A||B" is the one in which the record is removed, "B||A" the one
    in which it is added. The shifts increase, from 0 on, and the last one is above 0; there are at most 1,024. The
    weights are divided by their sum, which is 1 within 1e-9.

    The pair also dominates shifts that are vectors of at most these lengths, in any directions (Theorem 37 of
    docs/theory.md; Choquette-Choo, Ganesh, Steinke & Thakurta 2023, Corollary 4.7).

    Examples
    --------
    >>> from pbdist import GaussianMixture, epsilon_bounds
    >>> twice = GaussianMixture(scale=4.0, shifts=(0.0, 1.0, 2.0), weights=(0.81, 0.18, 0.01))
    >>> found = epsilon_bounds(twice, compositions=100, delta=1e-5)
    >>> bool(0.0 < found.epsilon_lower.item() <= found.epsilon_upper.item() < 3.0)
    True
    """

    aliases = ("mixtureofgaussians", "mixturegaussian")
    noise_family = "Gaussian"
    does = (
        "Gaussian noise is added to what an individual moves by one of several shifts, each with its weight as the"
        " probability."
    )
    assumes = (
        "Neighbouring data sets differ by one individual added or removed; which shift it makes is drawn with the"
        " weights, afresh and independently in every round, and not known to the observer. Shifts that are vectors"
        " count by their length."
    )
    checked_together = ("shifts", "weights")

    adjacency = Adjacency.ADD_OR_REMOVE

    scale: float = gaussian_scale([2.0, 4.0])
    shifts: tuple[float, ...] = parameter(
        numbers,
        "the lengths by one of which a record moves the answer, increasing",
        unit="counts",
        aliases=("sensitivities", "sensitivity", "means"),
        example=(0.0, 1.0, 2.0),
    )
    weights: tuple[float, ...] = parameter(
        numbers,
        "the probabilities of the shifts",
        aliases=("sampling_probs", "probabilities", "rates"),
        example=(0.81, 0.18, 0.01),
    )

    def check(self) -> None:
        """Refuse shifts that do not increase, and weights that are no probabilities of them."""
        name, shifts, weights = type(self).__name__, self.shifts, self.weights
        if len(shifts) != len(weights):
            raise InvalidInputError(f"{name}.weights: expected one a shift, {len(shifts)}, got {len(weights)}")
        for index, shift in enumerate(shifts):
            if shift != 0.0 or len(shifts) == 1:
                checked_size(name, f"shifts[{index}]", shift)
        for index, (before, shift) in enumerate(itertools.pairwise(shifts), 1):
            if not before < shift:
                raise InvalidInputError(f"{name}.shifts[{index}]: expected more than {before!r}, got {shift!r}")
        if len(shifts) > _MAX_SHIFTS:
            raise InvalidInputError(f"{name}.shifts: expected at most {_MAX_SHIFTS}, got {len(shifts)}")
        for index, weight in enumerate(weights):
            checked_rate(name, f"weights[{index}]", weight)
        if not abs(math.fsum(weights) - 1.0) <= _SUM_TOLERANCE:
            raise InvalidInputError(
                f"{name}.weights: expected probabilities that sum to 1 within {_SUM_TOLERANCE:g},"
                f" got a sum of {math.fsum(weights)!r}"
            )

    @property
    def gaussian_mixture(self) -> tuple[tuple[float, ...], tuple[float, ...], float] | None:
        """Its shifts, if one of them is 0."""
        if self.shifts[0] != 0.0:
            return None
        return tuple(shift / self.scale for shift in self.shifts[1:]), self.log_weights[1:], self.smallest_loss

    @property
    def order(self) -> NoiseOrder | None:
        """By the scale in largest shifts, of mixtures whose shifts are in proportion, with the same weights."""
        largest = Fraction(self.shifts[-1])
        shifts = tuple(Fraction(shift) / largest for shift in self.shifts)
        return ordered(self, GaussianMixture, Fraction(self.scale) / largest, family=(self.weights, shifts))

    def loss_bound(self, direction: Direction) -> float | None:
        """Infinite where a record is removed; where one is added, that of an outcome that shows no shift."""
        if direction is Direction.A_TO_B or self.shifts[0] > 0.0:
            return math.inf
        return rounded_up(8.0 * UNIT_ROUNDOFF - self._shares[2])

    @cached_property
    def log_weights(self) -> tuple[float, ...]:
        """Logarithms of the weights over their sum, off by 4u and a u of themselves."""
        return tuple(np.log(self._shares[0]).tolist())

    @property
    def smallest_loss(self) -> float:
        """That of an outcome that shows no shift, off by 8u of itself; -inf where every record shifts."""
        return self._shares[2]

    @property
    def participation(self) -> float:
        """The weight of all shifts above 0."""
        return min(rounded_up(self._shares[1] + 8.0 * UNIT_ROUNDOFF), 1.0)

    @property
    def without_sampling(self) -> Gaussian:
        """The largest shift in every round."""
        return Gaussian(self.scale, self.shifts[-1])

    def keeps_order(self, edges: FloatArray) -> bool:
        """Whether the end points rise, and the outermost ones are the same if their edges are given alone."""
        return in_order(self._location, edges)

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:
        """Upper bound of ln E_A[e^(tilt L); loss < L < ∞], by Jensen's inequality over the shifts: Theorem 37.

        A bound on the moment of every shift alone, mixed by the weights.
        """
        if loss == math.inf:
            return -math.inf
        forwards = direction is Direction.A_TO_B
        power, start = (tilt + 1.0, loss) if forwards else (tilt, -loss)
        # The x from which on, or up to which, the events lie.
        end = self._outcome_beyond(start, -1.0 if forwards else 1.0)
        logs = []
        for shift, weight in zip(self.shifts, self._shares[0].tolist(), strict=True):
            ratio = shift / self.scale
            variance = ratio * ratio
            sign = 1.0 if forwards else -1.0
            if shift == 0.0:
                logs.append(math.log(weight) + self._log_tail(sign * end))
                continue
            gain = sign * ratio * ((end - 0.5 * shift) / self.scale) if math.isfinite(end) else sign * end
            gain -= 8.0 * UNIT_ROUNDOFF * abs(gain) if math.isfinite(gain) else 0.0
            logs.append(math.log(weight) + log_moment_of_tail(power, -sign * 0.5 * variance, ratio, gain))
        largest = max(logs)
        if largest == -math.inf:
            return -math.inf
        total = largest + math.log(math.fsum(math.exp(each - largest) for each in logs))
        return rounded_up(total + 32.0 * UNIT_ROUNDOFF * (1.0 + abs(largest) - math.log(min(self.weights))))

    def _log_tail(self, end: float) -> float:
        """Upper bound of ln P(x > end) for x ~ N(0, scale²)."""
        return log_moment_of_tail(0.0, 0.0, 1.0, end / self.scale)

    def _outcome_beyond(self, loss: float, side: float) -> float:
        """Return an x whose exact loss surely lies on the given side (1: above, -1: below) of a loss, or is it."""
        if not math.isfinite(loss):
            return loss
        moved = loss
        for _ in range(3):
            x = self._location(np.array([moved]))
            if not math.isfinite(float(x[0])):
                break
            found, error = self._loss(x)
            apart = float(side * (found[0] - loss) - error[0])
            if apart >= 0.0:
                return float(x[0])
            moved += side * (2.0 * abs(apart) + 4.0 * UNIT_ROUNDOFF * abs(loss))
        return side * math.inf

    def _masses(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        # Rounding must not let neighbouring bins overlap.
        located = np.maximum.accumulate(self._location(edges))
        loss_error = self._loss_error(edges, located)
        ends = np.concatenate(([-np.inf], located, [np.inf]))
        first = max(int(np.searchsorted(ends, -np.inf, side="right")) - 1, 0)
        lower, upper = ends[first:-1], ends[first + 1 :]
        present: BoolArray | bool = True if np.all(lower < upper) else lower < upper

        def about(mean: float, part: slice) -> tuple[MassBounds, FloatArray]:
            mass, error, log_scale = gaussian_interval(lower[part], upper[part], self.scale, mean, scaled=scaled)
            there = present if isinstance(present, bool) else present[part]
            return MassBounds.around(mass, error, occupied=there), log_scale

        weighted = list(zip(self._shares[0].tolist(), self.shifts, strict=True))
        of_a, of_b = [], []
        for part in self._blocks(lower.size):
            parts = [(weight, weight, *about(shift, part)) for weight, shift in weighted]
            of_a.append(added(parts))
            of_b.append(parts[0][2:] if self.shifts[0] == 0.0 else about(0.0, part))
        (bins_a, scale_a), (bins_b, scale_b) = (_joined(blocks) for blocks in (of_a, of_b))
        masses = LossMasses(bins_a, bins_b, loss_error=loss_error)
        return ScaledLossMasses(masses, scale_a, scale_b).after_empty(first)

    @cached_property
    def _shares(self) -> tuple[FloatArray, float, float]:
        """The weights over their sum, off by 2u; the sum of those of shifts above 0; the smallest loss."""
        shares = np.array(self.weights) / math.fsum(self.weights)
        if self.shifts[0] > 0.0:
            return shares, 1.0, -math.inf
        above = math.fsum(share for share, shift in zip(shares.tolist(), self.shifts, strict=True) if shift > 0.0)
        still = math.fsum(share for share, shift in zip(shares.tolist(), self.shifts, strict=True) if shift == 0.0)
        return shares, above, math.log1p(-above) if above < 0.5 else math.log(still)

    def _gains(self, x: FloatArray) -> FloatArray:
        """Return the loss of each shift alone, in rows: off by 4u of its size."""
        shifts = np.array(self.shifts)[:, None]
        return shifts / self.scale * ((x - 0.5 * shifts) / self.scale)

    def _blocks(self, size: int) -> list[slice]:
        """Return parts of so many outcomes or bins, each so small that the numbers of all shifts may be held."""
        step = max(_MAX_NUMBERS // len(self.shifts), 1)
        return [slice(start, min(start + step, size)) for start in range(0, max(size, 1), step)]

    def _loss(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the loss at finite x, and a bound on its error: Theorem 37 of docs/theory.md."""
        loss, error = zip(*(self._loss_of_block(x[part]) for part in self._blocks(x.size)), strict=True)
        return np.concatenate(loss), np.concatenate(error)

    def _loss_of_block(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        gains, shares = self._gains(x), self._shares[0][:, None]
        exponents = gains + np.log(shares)
        top = exponents.max(axis=0)
        parts = np.exp(exponents - top)
        whole = parts.sum(axis=0)
        far = top + np.log(whole)
        weight = parts / whole
        sizes = 6.0 * np.abs(gains) - 12.0 * np.log(shares) + np.abs(exponents - top)
        far_error = (weight * sizes).sum(axis=0) + 12.0 * np.abs(far) + 32.0 + len(self.shifts)
        # Where it is small, as 1 + Σ weights (e^gain - 1), every summand by itself.
        changes = shares * np.expm1(np.minimum(gains, 1.0))
        change = changes.sum(axis=0)
        near = (np.abs(change) <= 0.5) & np.all(gains <= 1.0, axis=0)
        moved = shares * np.exp(np.minimum(gains, 1.0)) * 5.0 * np.abs(gains)
        near_error = ((16.0 + len(self.shifts)) * np.abs(changes) + moved).sum(axis=0)
        safe = np.where(near, change, 0.0)
        near_error = near_error / (1.0 + safe) + 10.0 * np.abs(np.log1p(safe))
        loss: FloatArray = np.where(near, np.log1p(safe), far)
        error: FloatArray = 1.1 * UNIT_ROUNDOFF * np.where(near, near_error, far_error)
        return loss, error

    def _loss_error(self, edges: FloatArray, ends: FloatArray) -> float:
        """Bound how far exact losses at the end points that were used lie from the edges, where there are losses."""
        if edges.size == 0:
            return 0.0
        finite = np.isfinite(ends)
        missed = 0.0
        if finite.any():
            found, error = self._loss(ends[finite])
            missed = float(np.max(np.abs(found - edges[finite]) + error))
        lowest = self._shares[2]
        if math.isfinite(lowest) and not finite.all():
            # No event has a loss below the smallest one.
            beyond = float(np.max(edges[~finite])) - lowest
            missed = max(missed, max(beyond, 0.0) + 16.0 * UNIT_ROUNDOFF * (1.0 + abs(lowest)))
        return 1.01 * missed + 2.0 * UNIT_ROUNDOFF * float(np.max(np.abs(edges)))

    def _location(self, edges: FloatArray) -> FloatArray:
        """Return about the x of increasing losses, -inf from the smallest one on; `_loss_error` tells how near.

        G, the loss where the record moves the mean at all, is convex in x and rises: from an x that lies too high
        Newton's steps come down to it. Each one ends by itself, so that it does not depend on the others.
        """
        return np.concatenate([self._location_of_block(edges[part]) for part in self._blocks(edges.size)])

    def _location_of_block(self, edges: FloatArray) -> FloatArray:
        shares, above, lowest = self._shares
        goal = full_losses(edges, above).copy()
        if self.shifts[0] == 0.0:
            # Far below 0 the weight of the shift 0 tells more than that of the others.
            far = edges < -0.5
            with np.errstate(divide="ignore"):
                goal[far] = np.log(np.maximum(np.exp(edges[far]) - math.exp(lowest), 0.0)) - math.log(above)
        x = np.full(goal.shape, -np.inf)
        left = np.flatnonzero(np.isfinite(goal))
        moving = np.array(self.shifts) > 0.0
        shifts = np.array(self.shifts)[moving]
        logs = np.log(shares[moving] / above)
        unit = self.scale * (self.scale / shifts)
        # G is at least the loss of each shift alone with its weight.
        alone = unit[:, None] * (goal[left] - logs[:, None]) + 0.5 * shifts[:, None]
        x[left] = alone.min(axis=0)
        if shifts.size == 1:
            return x
        slopes = (1.0 / unit)[:, None]
        for _ in range(_MAX_STEPS):
            if not left.size:
                break
            exponents = self._gains(x[left])[moving] + logs[:, None]
            top = exponents.max(axis=0)
            parts = np.exp(exponents - top)
            whole = parts.sum(axis=0)
            excess = top + np.log(whole) - goal[left]
            going = np.abs(excess) > _CLOSE * UNIT_ROUNDOFF * np.maximum(1.0, np.abs(goal[left]))
            x[left[going]] -= (excess / ((slopes * parts).sum(axis=0) / whole))[going]
            left = left[going]
        return x


def _joined(blocks: list[tuple[MassBounds, FloatArray]]) -> tuple[MassBounds, FloatArray]:
    """Return masses and logarithms of factors, one block after the other."""
    lower, upper, scale = (
        np.concatenate(side)
        for side in zip(*((masses.lower, masses.upper, scale) for masses, scale in blocks), strict=True)
    )
    return MassBounds(lower, upper), scale
