"""Concentrated differential privacy: lines above a Rényi curve, and δ of them.

All functions take and return natural logarithms and nats.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, Pair
from pbdist.theorems.renyi import log_improvement
from pbdist.theorems.renyi_curves import STARTS, curve_of
from pbdist.types import FloatArray

_U = UNIT_ROUNDOFF
#: Slopes of lines that are tried: those of chords of the curve between so many points.
_POINTS = 129
#: The least logarithm of a δ that is not 0, and the largest order looked at.
_FAINTEST, _LARGEST_ORDER = -1e308, 1e280


@dataclass(frozen=True, eq=False)
class Concentrated:
    """Lines with D_α <= ξ + ρ α for all α > 1: each is (ξ, ρ)-zero-concentrated differential privacy.

    Bun & Steinke 2016, Definition 1.1. Any ξ will do, also a negative one: both conversions use no more of it than
    that D_α - ξ <= ρ α, and so are those of ξ = 0 at ε - ξ.

    Attributes
    ----------
    xi, rho : ndarray, shape (L,)
        ρ >= 0; in order of falling ρ, but for the last line, the one whose ξ is 0.
    """

    xi: FloatArray
    rho: FloatArray

    def log_delta(self, rounds: int, wanted: FloatArray, *, improved: bool) -> FloatArray:
        """Return ln δ after some rounds, of the best line for each ε.

        By Bun & Steinke 2016, Lemma 3.6; improved, by Canonne, Kamath & Steinke 2020, Proposition 12.
        """
        xi = self.xi * rounds
        # Upwards, and so is what is left of ε downwards.
        gap = wanted - (xi + 4.0 * _U * np.abs(xi))[:, None]
        gap = np.where(xi[:, None] == 0.0, gap, np.nextafter(gap, -np.inf))
        rho = self.rho * rounds * (1.0 + 4.0 * _U)
        found = _by_tail(gap, rho[:, None])
        if not improved:
            return np.asarray(np.min(found, axis=0))
        best = found.argmin(axis=0)
        chosen = _by_order(gap[best, np.arange(wanted.size)], rho[best])
        return np.minimum(chosen, _by_order(gap[-1], rho[-1:])) if self.rho.size > 1 else chosen


def concentrated_of(components: Sequence[tuple[Pair, int]]) -> Concentrated:
    """Return lines above the Rényi curve of a round, the sum of those of its pairs.

    For a slope ρ that is at least the curve's own, the least ξ is the largest of D_α - ρ α: on an interval of α the
    excess of the curve, less what the slope adds, is largest at its left end. Rounds multiply both ξ and ρ.

    Raises
    ------
    InvalidInputError
        Losses are infinite, or have no bound and no closed form: no (ξ, ρ) is known to fit.
    """
    curve = curve_of(components)
    if not curve.excess.any():
        return Concentrated(np.zeros(1), np.array([curve.rho]))
    order = 1.0 + STARTS
    slopes = _slopes(curve.excess, order)
    xi = [
        np.max(curve.excess - slope * order + 8.0 * _U * (np.abs(curve.excess) + slope * order))
        for slope in slopes.tolist()
    ]
    return Concentrated(np.append(xi, 0.0), np.append((curve.rho + slopes) * (1.0 + 4.0 * _U), curve.alone))


def _slopes(excess: FloatArray, order: FloatArray) -> FloatArray:
    """Return slopes of chords, that of the least line through 0, and 0, falling."""
    at = np.linspace(0, order.size - 1, _POINTS).astype(np.int64)
    chords = np.diff(excess[at]) / np.diff(order[at])
    return np.unique(np.maximum(np.concatenate((chords, [0.0, np.max(excess / order)])), 0.0))[::-1]


def _by_tail(gap: FloatArray, rho: FloatArray) -> FloatArray:
    """Return upper bounds on ln δ for D_α <= ρ α at ε = gap; they broadcast.

    P_A(L > z) <= e^(-(z - ρ)² / (4ρ)) for z >= ρ, by the best order, and δ <= ∫ e^(ε - z) P_A(L > z) dz from ε on. With
    t = (ε - ρ) / (2ρ) >= 0, δ <= e^(-ρ t²) min(1, √(πρ), 1/(1 + t), 2/(1 + t + √((1 + t)² + 4/(πρ)))).
    """
    some = np.where(rho > 0.0, rho, 1.0)
    with np.errstate(over="ignore"):
        t = np.maximum(gap * (1.0 - 4.0 * _U) - some, 0.0) / (2.0 * some) * (1.0 - 8.0 * _U)
        factor = np.minimum.reduce(
            np.broadcast_arrays(
                1.0,
                np.sqrt(math.pi * some),
                1.0 / (1.0 + t),
                2.0 / (1.0 + t + np.sqrt((1.0 + t) ** 2 + 4.0 / (math.pi * some))),
            )
        )
        log = -(some * t) * t * (1.0 - 16.0 * _U) + np.log(np.maximum(factor, 1e-300)) * (1.0 - 4.0 * _U) + 64.0 * _U
    log = np.where(gap > some, np.clip(log, _FAINTEST, 0.0), 0.0)
    # Without a slope no loss is above 0.
    return np.where(rho > 0.0, log, np.where(gap >= 0.0, -np.inf, 0.0))


def _by_order(gap: FloatArray, rho: FloatArray) -> FloatArray:
    """Return upper bounds on ln δ for D_α <= ρ α at ε = gap, shape (E,), at about the best α."""
    some = np.where(rho > 0.0, rho, 1.0)
    near = np.clip((gap - some) / (2.0 * some), 1e-6, _LARGEST_ORDER)
    around = np.multiply.outer(np.geomspace(0.05, 20.0, 201), near)
    everywhere = np.broadcast_to(np.geomspace(1e-4, 1e6, 201)[:, None], around.shape)
    order = 1.0 + np.concatenate((around, everywhere))
    total = some * order
    # Beyond all floats is no number, which bounds nothing.
    with np.errstate(over="ignore", invalid="ignore"):
        log = (order - 1.0) * (total - gap) + log_improvement(order)
        log = log + 32.0 * _U * (1.0 + order * (1.0 + total + np.abs(gap)))
    best = np.clip(np.fmin.reduce(log, axis=0, initial=0.0), _FAINTEST, 0.0)
    return np.where(rho > 0.0, best, np.where(gap >= 0.0, -np.inf, 0.0))
