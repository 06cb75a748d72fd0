"""What a table knows before its first pass where losses are infinite, or rare and far above all others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pbdist.buckets.tight.engine import Family, PointBounds
from pbdist.buckets.tight.far_sums import far_losses
from pbdist.buckets.tight.rare import NearOutcomes, first_far_loss
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

__all__ = ["Apart", "told_apart"]

#: Part of the tolerance that far losses, told apart, may cost.
_PART = 0.1


@dataclass(frozen=True, eq=False)
class Apart:
    """One direction of a table over r and ε; arrays of shape (R, E), bounds as logarithms.

    Attributes
    ----------
    families : list of Family
        What one round consists of, but for its far losses.
    far_lower, far_upper : ndarray
        What the outcomes with a far factor add to δ.
    lower, upper : ndarray
        Bounds on δ; the upper one counts finite losses that are not far by Chernoff's bound.
    known : ndarray of bool
        Where the far losses are known well enough to be told apart.
    settled : ndarray of bool
        Where no composition of finite losses makes the bounds meet: infinite losses, of which there may be none, count
        for more.
    uncertain : bool
        Whether there may be none of the infinite losses that upper bounds count.
    """

    families: list[Family]
    far_lower: FloatArray
    far_upper: FloatArray
    lower: FloatArray
    upper: FloatArray
    known: BoolArray
    settled: BoolArray
    uncertain: bool

    def with_far(self, found: PointBounds) -> PointBounds:
        """Add the far losses to bounds without them."""
        cell = found.point.row, found.point.column
        lower = float(np.logaddexp(found.log_lower, self.far_lower[cell]))
        upper = float(np.logaddexp(found.log_upper, self.far_upper[cell]))
        return replace(found, log_lower=lower - _slack(lower), log_upper=upper + _slack(upper))


def told_apart(
    families: Sequence[Family], direction: Direction, rounds: IntArray, epsilon: FloatArray, tolerance: float
) -> Apart | None:
    """Look at one direction; None where no losses of single outcomes are infinite or far."""
    profiles = [family.profiles[direction] for family in families]
    if any(len(family.pairs) > 1 for family in families) or not all(profile.loss.size for profile in profiles):
        return None
    firsts = [first_far_loss(profile) for profile in profiles]
    # Where outcomes are not single, windows and tilts do.
    if not any(
        (profile.only_a > 0.0 or far < math.inf) and np.array_equal(profile.lower, profile.upper)
        for profile, far in zip(profiles, firsts, strict=True)
    ):
        return None
    parts = [
        (family.pairs[0], family.count, profile, far)
        for family, profile, far in zip(families, profiles, firsts, strict=True)
    ]
    sums = far_losses(parts, direction, rounds, epsilon)
    near = [_near(family, direction, far) for family, far in zip(families, firsts, strict=True)]
    far_upper, far_lower = sums.log_far_upper(rounds, epsilon), sums.log_far_lower(rounds, epsilon)
    infinite_upper = sums.log_infinite_upper(rounds)[:, None]
    infinite_lower = sums.log_infinite_lower(rounds)[:, None]
    lower = np.maximum(sums.log_far_lower(rounds, epsilon, infinite=True), infinite_lower)
    nearer = sums.log_near_upper(rounds, epsilon)
    upper = np.logaddexp(np.logaddexp(far_upper, infinite_upper), nearer)
    upper += 8.0 * UNIT_ROUNDOFF * (1.0 + np.where(np.isfinite(upper), np.abs(upper), 0.0))
    far_known = _met(far_upper, far_lower, lower, _PART * tolerance)
    next_to_nothing = infinite_upper + math.log(tolerance)
    return Apart(
        near,
        far_lower,
        far_upper,
        lower,
        upper,
        known=far_known & (min(firsts) < math.inf),
        settled=(nearer <= next_to_nothing) & (far_known | (far_upper <= next_to_nothing)) & sums.nothing_below,
        uncertain=sums.uncertain,
    )


def _met(upper: FloatArray, lower: FloatArray, of: FloatArray, tolerance: float) -> BoolArray:
    """Whether two bounds differ by no more than a part of a third number."""
    with np.errstate(over="ignore", invalid="ignore"):
        gap = np.exp(upper - of) - np.exp(lower - of)
    met: BoolArray = (gap <= tolerance) | (upper == -np.inf)
    return met


def _near(family: Family, direction: Direction, far: float) -> Family:
    """Return a family without its far losses in one direction."""
    profile = family.profiles[direction]
    kept = slice(int(profile.loss.searchsorted(far, side="right")))
    if profile.loss[kept].size == profile.loss.size:
        return Family(family.pairs, family.count, {direction: profile})
    mass = float(np.exp(profile.log_a[kept.stop :]).sum())
    near = replace(
        profile,
        loss=profile.loss[kept],
        lower=profile.lower[kept],
        upper=profile.upper[kept],
        log_a=profile.log_a[kept],
    )
    return Family((NearOutcomes(family.pairs[0], far, mass),), family.count, {direction: near})


def _slack(value: float) -> float:
    return 8.0 * UNIT_ROUNDOFF * (1.0 + (abs(value) if math.isfinite(value) else 0.0))
