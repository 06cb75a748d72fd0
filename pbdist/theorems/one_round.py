"""The privacy of one round from above: δ of a pair at every ε, from its exact masses on bins."""

import math

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, Pair
from pbdist.table import bounds_table
from pbdist.types import Direction, FloatArray

__all__ = ["RoundPrivacy"]

#: ε of a round at which its δ is first looked at, nats.
_PROBES: FloatArray = np.geomspace(1e-9, 1e4, 261)
#: Below this many nats a δ of one round makes no difference to that of any number of rounds that is computed here.
_FAINT = -230.0
#: Parts into which the interval is cut in which the largest loss lies, and how often.
_PARTS, _CUTS = 17, 12


class RoundPrivacy:
    """δ(ε) of one pair, the larger of the two directions, from above.

    Attributes
    ----------
    pair : Pair
    largest : float
        ε from which on δ falls no more, or is below 1e-100; nats.
    """

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self._farthest = math.inf
        self.largest = self._largest()
        self._farthest = 2.0 * self.largest

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Return natural logarithms of upper bounds on δ at ε >= 0, shape (E,); -inf where δ is 0."""
        # δ does not rise with ε; far beyond all losses nothing is to be told apart.
        distinct, inverse = np.unique(np.minimum(epsilon, self._farthest), return_inverse=True)
        if len(self.pair.factors) > 1:
            return _composed(self.pair, distinct)[inverse]
        factor = self.pair.factors[0]
        sides = (Direction.A_TO_B,) if factor.symmetric else tuple(Direction)
        return np.max([log_delta_from_masses(factor, distinct, side) for side in sides], axis=0)[inverse]  # type: ignore[no-any-return]

    def grid(self, parts: int) -> FloatArray:
        """Return ε from a thousandth of the largest loss up to it, denser towards it, increasing."""
        upper = 1.0 - np.geomspace(1e-9, 0.5, parts // 2)[::-1]
        return self.largest * np.unique(np.concatenate((np.geomspace(1e-3, 0.5, parts // 2), upper, [1.0])))

    def _largest(self) -> float:
        """Return the first ε known at which δ is not above its last value; no bound depends on it."""
        probes, high = _PROBES, math.inf
        for _ in range(_CUTS):
            values = np.maximum(self.log_delta(probes), _FAINT)
            last = max(float(values[-1]), _FAINT)
            first = int(np.argmax(values <= last + 1e-12))
            if first == 0 or len(self.pair.factors) > 1:
                return float(probes[first])
            if float(probes[first]) > high:
                # Rounding decides between probes that are so close.
                break
            low, high = float(probes[first - 1]), float(probes[first])
            if high <= low * (1.0 + 1e-14):
                break
            inner = np.linspace(low, high, _PARTS)
            probes = np.unique(np.append(inner, _PROBES[-1]))
        return high


def log_delta_from_masses(pair: ElementaryPair, epsilon: FloatArray, direction: Direction) -> FloatArray:
    """Return natural logarithms of upper bounds on δ of one round at increasing ε, shape (E,).

    Guaranteed: at least δ. Let h bound the error of losses. The events S whose computed loss is above ε - h are split
    off; all others have losses of at most ε and add nothing to δ = Σ max(0, P_A - e^ε P_B). Those in S have losses of
    at least ε - 2h, so that P_A - e^(ε-2h) P_B is at least 0 for each, and at least P_A - e^ε P_B. The sum over S of
    upper masses of A and lower masses of B is therefore an upper bound. Each logarithm is known to a few units of
    rounding of its size, which the last line adds.
    """
    error = _loss_error(pair, epsilon, direction)
    edges = epsilon - error
    scaled = pair.scaled_loss_masses(edges, direction)
    masses = scaled.masses
    with np.errstate(divide="ignore"):
        log_a = np.concatenate(
            (
                np.log(masses.bins_a.upper[1:]) + scaled.log_scale_a[1:],
                np.log(masses.atoms_a.upper) + scaled.atoms_log_scale_a,
                np.log(masses.only_a.upper),
            )
        )
        log_b = np.concatenate(
            (
                np.log(masses.bins_b.lower[1:]) + scaled.log_scale_b[1:],
                np.log(masses.atoms_b.lower) + scaled.atoms_log_scale_b,
                np.full(masses.only_a.upper.size, -np.inf),
            )
        )
    start = np.concatenate((edges, masses.atom_loss, np.full(masses.only_a.upper.size, np.inf)))
    seen = (start >= edges[:, None]) & (log_a > -np.inf)
    seen[:, edges.size :] &= start[edges.size :] > edges[:, None]
    size = np.where(log_a > -np.inf, np.abs(log_a), 0.0)
    odds = (epsilon - 2.0 * error)[:, None] + np.where(seen, log_b - np.where(seen, log_a, 0.0), -np.inf)
    slack = 8.0 * UNIT_ROUNDOFF * (1.0 + 2.0 * size + epsilon[:, None])
    with np.errstate(divide="ignore"):
        terms = np.where(seen, log_a + np.log(-np.expm1(np.minimum(odds - slack, 0.0))), -np.inf)
    return log_sum_above(terms, float(size.max(initial=0.0)))


def log_sum_above(terms: FloatArray, size: float) -> FloatArray:
    """Return ln Σ e^term along the last axis, rounded up; each term may be off by 8u (1 + size)."""
    largest = np.maximum(terms.max(axis=-1), -1e300)
    with np.errstate(divide="ignore"):
        total = largest + np.log(np.exp(terms - largest[..., None]).sum(axis=-1))
    count = terms.shape[-1]
    return np.where(
        total > -1e299, total + 16.0 * UNIT_ROUNDOFF * (count + size + np.abs(np.maximum(total, -1e300))), -np.inf
    )


def _loss_error(pair: ElementaryPair, epsilon: FloatArray, direction: Direction) -> float:
    """Return a bound on the error of losses that also holds for edges moved by it."""
    error = pair.scaled_loss_masses(epsilon, direction).masses.loss_error
    while True:
        moved = pair.scaled_loss_masses(epsilon - 2.0 * error, direction).masses.loss_error
        if moved <= 2.0 * error:
            return 2.0 * error + 4.0 * UNIT_ROUNDOFF * float(epsilon.max())
        error = moved


def _composed(pair: Pair, epsilon: FloatArray) -> FloatArray:
    """Return upper bounds on ln δ of a product of pairs."""
    table = bounds_table([(pair, 1)], compositions=1, epsilon=epsilon, strict=False, together=True, tolerance=1e-4)
    return np.asarray(table.log_delta_upper[:, 0].max(axis=0))
