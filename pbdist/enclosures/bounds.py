"""Bounds of rounds with pairs that are known through enclosures alone: what `pbdist.pld` offers for other ones."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pbdist.enclosures.enclose import enclosed_counts
from pbdist.enclosures.gaussians import dominated_gaussians, dominating_gaussians
from pbdist.enclosures.refining import USUAL_PART, Aim, Asked, Found, kept_fineness, refined
from pbdist.mechanisms import ElementaryPair
from pbdist.pld import (
    EpsilonBounds,
    KeptStates,
    TightBounds,
    epsilon_table,
    kept_states,
    tight_bounds,
)
from pbdist.types import FloatArray, IntArray

#: Bounds are to be this part of the distance apart at which they would just tell a δ, were it where it mostly is.
_TELLING = 1.0
#: Where bounds through enclosures are relatively wider than this, simpler ones are looked at.
_WIDE = 0.05


def delta_bounds(
    counts: Mapping[ElementaryPair, int],
    rounds: IntArray,
    epsilon: FloatArray,
    *,
    tolerance: float,
    width: float | None,
    buckets: int | None,
    strict: bool,
    together: bool,
    floor: float,
    excuses: bool,
    known: tuple[FloatArray, FloatArray] | None,
    decides: float | None = None,
) -> TightBounds:
    """Bound δ for every r and ε; all is that of `tight_bounds`, but for `decides`.

    That is a δ: where bounds tell on which side of it the larger direction's δ lies, no closer ones are aimed at. Of
    enclosures the bounds of all that were tried are kept, and the width is the smallest one.
    """
    close: dict[str, Any] = {"tolerance": tolerance, "floor": floor, "strict": strict, "excuses": excuses}
    settings: dict[str, Any] = {"width": width, "buckets": buckets, "together": together}
    asked = _asked(counts, rounds, tolerance, floor, decides)
    if width is not None or buckets is not None:
        # No tolerance is aimed at: the enclosure is as fine as is likely to be enough.
        enclosed = enclosed_counts(counts, kept_fineness(asked))
        return tight_bounds(enclosed, rounds, epsilon, known=known, **close, **settings)
    widths: list[float] = []

    def solve(enclosures: Mapping[ElementaryPair, int], aim: Aim, before: Found | None) -> Found:
        best = known if before is None else (before.lower, before.upper)
        coarse: dict[str, Any] = {"tolerance": aim.tolerance, "floor": aim.floor, "strict": False}
        found = tight_bounds(enclosures, rounds, epsilon, known=best, **coarse, **settings)
        widths.append(found.width)
        return _looked_at(found, asked, together=together)

    enclosures, best = refined(counts, asked, solve)
    if (best.width > _WIDE).any():
        coarse = {"tolerance": tolerance, "floor": floor, "strict": False, **settings}
        above = tight_bounds(dominating_gaussians(counts), rounds, epsilon, known=None, **coarse)
        below = tight_bounds(dominated_gaussians(counts), rounds, epsilon, known=None, **coarse)
        best = replace(
            best, lower=np.maximum(best.lower, below.log_lower), upper=np.minimum(best.upper, above.log_upper)
        )
    if decides is not None and not (best.width > tolerance).any():
        return TightBounds(best.lower, best.upper, min(widths))
    # What meets the tolerance is known, and is not computed again; each point that misses it is refused, or excused.
    found = tight_bounds(enclosures, rounds, epsilon, known=(best.lower, best.upper), **close, **settings)
    return replace(found, width=min(widths))


def _asked(
    counts: Mapping[ElementaryPair, int],
    rounds: IntArray,
    tolerance: float,
    floor: float,
    decides: float | None = None,
) -> Asked:
    leaves = int(np.max(rounds)) * sum(count for pair, count in counts.items() if pair.enclosed)
    return Asked(tolerance, floor, leaves, decides)


def _looked_at(found: TightBounds, asked: Asked, *, together: bool) -> Found:
    """Tell how far apart bounds are, where they are to be close."""
    lower, upper = found.log_lower, found.log_upper
    if together:
        lower = np.broadcast_to(np.max(lower, axis=0), lower.shape)
    log_floor = math.log(asked.floor) if asked.floor > 0.0 else -math.inf
    met = (upper <= lower) | (upper <= log_floor)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where(met, 0.0, np.expm1(np.minimum(upper - lower, 700.0)))
        gap = np.where(np.isnan(gap), np.inf, gap)
        if asked.decides is not None:
            weight = _decided(lower, upper, asked)
            gap = np.where(weight > 0.0, gap * weight, 0.0)
    return Found(found.log_lower, found.log_upper, np.asarray(gap), np.exp(lower))


def _decided(lower: FloatArray, upper: FloatArray, asked: Asked) -> FloatArray:
    """Weigh distances: 0 where bounds tell on which side of a δ the larger direction lies, else what it takes."""
    goal = math.log(asked.decides or 1.0)
    low, high = np.max(lower, axis=0), np.max(upper, axis=0)
    with np.errstate(invalid="ignore"):
        above = low + USUAL_PART * (high - low) - goal
        needed = np.maximum(_TELLING * np.maximum(above / USUAL_PART, -above / (1.0 - USUAL_PART)), asked.tolerance)
    weight = np.where((high <= goal) | (low > goal), 0.0, asked.tolerance / needed)
    return np.asarray(np.broadcast_to(weight, lower.shape))


def epsilon_bounds(
    counts: Mapping[ElementaryPair, int], rounds: IntArray, delta: FloatArray, *, tolerance: float, together: bool
) -> EpsilonBounds:
    """Bound ε for every r and δ; all is that of `epsilon_table`."""
    if not delta.all():
        return _with_pure(counts, rounds, delta, tolerance=tolerance, together=together)
    asked = _asked(counts, rounds, tolerance, float(np.min(delta)))

    def solve(enclosures: Mapping[ElementaryPair, int], aim: Aim, before: Found | None) -> Found:
        found = epsilon_table(enclosures, rounds, delta, tolerance=aim.tolerance, together=together)
        lower, upper = found.lower, found.upper
        if before is not None:
            lower, upper = np.maximum(lower, before.lower), np.minimum(upper, before.upper)
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.where(upper > lower, upper / lower - 1.0, 0.0)
        apart = np.where(np.isnan(apart), np.inf, apart)
        return Found(lower, upper, apart, delta + np.zeros(lower.shape))

    _, best = refined(counts, asked, solve)
    if (best.width > _WIDE).any():
        above = epsilon_table(dominating_gaussians(counts), rounds, delta, tolerance=tolerance, together=together)
        below = epsilon_table(dominated_gaussians(counts), rounds, delta, tolerance=tolerance, together=together)
        return EpsilonBounds(np.maximum(best.lower, below.lower), np.minimum(best.upper, above.upper))
    return EpsilonBounds(best.lower, best.upper)


def _with_pure(
    counts: Mapping[ElementaryPair, int], rounds: IntArray, delta: FloatArray, *, tolerance: float, together: bool
) -> EpsilonBounds:
    """Bound ε where some δ is 0: Gaussian losses, and those around enclosed pairs are such, have no bound."""
    below = epsilon_table(dominated_gaussians(counts), rounds, delta, tolerance=tolerance, together=together)
    lower, upper = below.lower, np.full_like(below.upper, np.inf)
    positive = delta > 0.0
    if positive.any():
        found = epsilon_bounds(counts, rounds, delta[positive], tolerance=tolerance, together=together)
        lower[..., positive], upper[..., positive] = found.lower, found.upper
    return EpsilonBounds(lower, upper)


def states_to_keep(
    counts: Mapping[ElementaryPair, int], rounds: IntArray, epsilon: FloatArray, *, tolerance: float, floor: float
) -> KeptStates:
    """Return states to be kept; all is that of `kept_states`. Enclosures are as fine as is likely to be enough."""
    enclosed = enclosed_counts(counts, kept_fineness(_asked(counts, rounds, tolerance, floor)))
    return kept_states(enclosed, rounds, epsilon, tolerance=tolerance, floor=floor)
