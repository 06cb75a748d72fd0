"""The choice of a loss width from the pairs and the number of compositions.

Nothing here is a bound: the bounds hold on a grid of any width. A good width makes them meet.

Two errors compete. A range too narrow sends events to ∞, where they count in full; a bucket too wide makes the window
u h, over which the upper bound takes the worst case, wide against the spread of the losses. Both are estimated for
candidate ranges and starting widths, with the squarings that the range of r compositions will force, and the cheapest
candidate is taken. An isolated event of a loss far outside the rest (the ⌈max(0, X)⌉ atom of a noisy count) is thus
left to ∞, where it costs a relative e^-loss, rather than given half the grid.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pbdist.mechanisms import ElementaryPair, Pair
from pbdist.types import Direction, FloatArray

_PROBES: FloatArray = np.geomspace(1e-12, 1e4, 801)
#: Tail masses between whose quantiles the candidate ranges lie, and how many candidates there are.
_WIDEST_TAIL, _NARROWEST_TAIL, _CANDIDATES = 1e-22, 1e-2, 64
#: Mass at ∞ that the ladder is to stay below (less than `FREE_MASS`, so that the plan holds), and the δ
#: against which a mass at ∞ is weighed at the latest.
_OVERFLOW_BUDGET, _SMALL_DELTA = 1e-24, 1e-12
#: Up to this many atoms stay single, more are gathered in the probes' bins, ..
_MAX_ATOMS = 256
#: .. the neighbouring of which lie this factor apart.
_PROBE_RATIO = 1.06
#: Width for pairs without any loss.
_TRIVIAL_WIDTH = 1e-6
#: For the roundings of a cost that is computed in another order.
_ROUNDED_DOWN = 1.0 - 1e-12


@dataclass(frozen=True, eq=False)
class _LossProfile:
    """Losses of one pair in one direction as point masses: a rough picture, good for choosing."""

    loss: FloatArray
    a: FloatArray
    b: FloatArray
    count: int
    largest_atom: float
    gathered: bool

    def beyond(self, bound: float) -> tuple[float, float]:
        above = self.loss > bound
        return self.count * float(np.sum(self.a[above])), self.count * float(np.sum(self.b[above]))


def choose_loss_width(components: Sequence[tuple[Pair, int]], largest: int, half_width: int) -> float:
    """Choose the loss width h, in nats, for the components of a round repeated up to `largest` times.

    It is the same for both directions. Where the losses end in an atom, its loss is a multiple of the width.
    """
    profiles = {
        direction: [
            _profile(factor, count, direction) for pair, count in components for factor in pair.factors if count > 0
        ]
        for direction in Direction
    }
    everything = [profile for part in profiles.values() for profile in part]
    leaves = sum(profile.count for profile in profiles[Direction.A_TO_B])
    narrowest, widest = (_range(everything, budget) for budget in (_NARROWEST_TAIL, _WIDEST_TAIL))
    ranges: list[float] = []
    if widest > 0.0:
        # More than the quantile, so that rounding never cuts the outermost event off.
        gathered = any(profile.gathered for profile in everything)
        lowest = max(narrowest, 1e-6 * widest)
        # Where most losses are the largest one, there is one range.
        candidates = np.geomspace(lowest, widest, _CANDIDATES) if lowest < widest else [widest]
        ranges = [(_PROBE_RATIO if gathered else 1.0 + 1e-9) * bound for bound in candidates]
    sides = _different(list(profiles.values()))
    looked_at = []
    for number, bound in enumerate(ranges):
        spread = min(_spread(part, bound, largest) for part in sides)
        lost = sum(_cost_at_infinity(part, bound, largest) for part in profiles.values())
        # As if the range of no composition forced a squaring.
        window = leaves * 2.0 ** (_doublings(largest) - 1) * bound / half_width
        looked_at.append((lost + _cost_of(window, spread), number, bound, spread, lost))
    best, best_squarings = (math.inf, 0.0, 0, _TRIVIAL_WIDTH, 0.0), 0
    for least, _, bound, spread, lost in sorted(looked_at):
        if least * _ROUNDED_DOWN > best[0]:
            # Nor do those that follow cost less.
            break
        growth = np.max([_growth(part, bound, largest) for part in sides], axis=0)
        for finest in range(12):
            width = float(max(bound, growth[0] / 64.0)) / half_width * 2.0**finest
            window, squarings = _final_window(width, growth, half_width, leaves)
            found = (lost + _cost_of(window, spread), bound, finest, width, bound)
            if found < best:
                best, best_squarings = found, squarings
    return _aligned(best[3], best[4], best_squarings, everything)


def _different(sides: list[list[_LossProfile]]) -> list[list[_LossProfile]]:
    """Leave one of two directions out if both have the same losses."""
    same = all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for one, other in zip(*sides, strict=True)
        for name in ("loss", "a", "b")
    )
    return sides[:1] if same else sides


def _cost_of(window: float, spread: float) -> float:
    return 2.0 * (window / spread) ** 2 if spread > 0.0 else 0.0


def _doublings(largest: int) -> int:
    """Return how many of 1, 2, 4, .. compositions there are up to the largest number of them."""
    return max(1, (largest - 1).bit_length() + 1)


def _profile(pair: ElementaryPair, count: int, direction: Direction) -> _LossProfile:
    edges = np.concatenate((-_PROBES[::-1], _PROBES))
    masses = pair.directed_loss_masses(edges, direction)
    index = np.searchsorted(edges, masses.atom_loss, side="left")
    binned = index if index.size > _MAX_ATOMS else index[:0]
    a = masses.bins_a.upper + np.bincount(binned, masses.atoms_a.upper[: binned.size], edges.size + 1)
    b = masses.bins_b.upper + np.bincount(binned, masses.atoms_b.upper[: binned.size], edges.size + 1)
    known = (a > 1e-200) & (b > 1e-200)
    a, b = a[known], b[known]
    # The loss that keeps both masses of a bin.
    loss = np.log(a / b)
    if not binned.size:
        loss = np.concatenate((loss, masses.atom_loss))
        a, b = np.concatenate((a, masses.atoms_a.upper)), np.concatenate((b, masses.atoms_b.upper))
    only_a = masses.only_a.upper
    return _LossProfile(
        loss=np.concatenate((loss, np.full(only_a.size, math.inf))),
        a=np.concatenate((a, only_a)),
        b=np.concatenate((b, np.zeros(only_a.size))),
        count=count,
        largest_atom=float(np.max(masses.atom_loss[np.isfinite(masses.atom_loss)], initial=0.0)),
        gathered=bool(binned.size),
    )


def _range(profiles: Sequence[_LossProfile], budget: float) -> float:
    """Smallest loss that at most the budget of some profile's mass exceeds, infinite losses apart."""
    largest = 0.0
    for profile in profiles:
        finite = np.isfinite(profile.loss)
        loss, a = np.abs(profile.loss[finite]), profile.a[finite] * (profile.loss[finite] > 0.0)
        order = np.argsort(loss)[::-1]
        above = np.cumsum(a[order])
        first = int(np.searchsorted(above, budget, side="right"))
        if first < order.size:
            largest = max(largest, float(loss[order][first]))
    return largest


def _growth(profiles: Sequence[_LossProfile], bound: float, largest: int) -> FloatArray:
    """Range, in nats, that 1, 2, 4, .. compositions need (Chernoff's bound on the right tail)."""
    steps = 2.0 ** np.arange(_doublings(largest))
    best = np.full(steps.size, math.inf)
    worst_sum = 0.0
    cumulant = np.zeros(120)
    theta = np.geomspace(1e-3, 1e5, cumulant.size) / max(bound, 1e-300)
    for profile in profiles:
        within = np.abs(profile.loss) <= bound
        worst_sum += profile.count * bound
        # e^700 is out of the way of every minimum.
        exponents = np.minimum(np.outer(theta, profile.loss[within]), 700.0)
        moments = np.exp(exponents) @ profile.a[within] if np.any(within) else np.ones(theta.size)
        cumulant += profile.count * np.log(np.maximum(moments, 1e-300))
    for position, repeats in enumerate(steps):
        best[position] = np.min((repeats * cumulant - math.log(_OVERFLOW_BUDGET)) / theta)
    needed: FloatArray = np.clip(best, 0.0, steps * worst_sum)
    return needed


def _spread(profiles: Sequence[_LossProfile], bound: float, largest: int) -> float:
    """Standard deviation of the composed loss, events beyond the range apart."""
    variance = 0.0
    for profile in profiles:
        within = np.abs(profile.loss) <= bound
        weight = float(np.sum(profile.a[within]))
        if weight > 0.0:
            mean = float(np.sum(profile.a[within] * profile.loss[within])) / weight
            variance += profile.count * float(np.sum(profile.a[within] * (profile.loss[within] - mean) ** 2)) / weight
    return math.sqrt(largest * variance)


def _cost_at_infinity(profiles: Sequence[_LossProfile], bound: float, largest: int) -> float:
    """Relative error of sending events of a finite loss beyond the range to ∞."""
    a = b = 0.0
    for profile in profiles:
        more_a, more_b = profile.beyond(bound)
        never = profile.count * float(np.sum(profile.a[np.isinf(profile.loss)]))
        a, b = a + more_a - never, b + more_b
    if a <= 0.0:
        return 0.0
    return min(largest * a / _SMALL_DELTA, b / a)


def _final_window(width: float, growth: FloatArray, half_width: int, leaves: int) -> tuple[float, int]:
    """Return the window u h after the ladder, with the squarings that its range forces."""
    window, squarings = leaves, 0
    for position, needed in enumerate(growth):
        while needed > half_width * width:
            window, width, squarings = -(-window // 2) + 1, 2.0 * width, squarings + 1
        if position:
            window *= 2
    return window * width, squarings


def _aligned(width: float, bound: float, squarings: int, profiles: Sequence[_LossProfile]) -> float:
    """Widen a little, so that the atom in which the range ends, if it does, stays on an edge when squared."""
    largest = max((profile.largest_atom for profile in profiles), default=0.0)
    if largest <= 0.0 or not 0.5 * bound <= largest <= bound:
        return width
    buckets = math.floor(largest / width * (1.0 + 1e-12))
    step = min(2**squarings, 1 << max(0, buckets.bit_length() - 1))
    return float(largest / max(1, buckets // step * step))
