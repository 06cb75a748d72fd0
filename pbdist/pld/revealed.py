"""What δ is at least: the mass of outcomes that only one of the inputs has, and nearly 1 after very many rounds."""

import math
from collections.abc import Mapping

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair
from pbdist.types import Direction, FloatArray, IntArray

__all__ = ["log_nearly_all", "log_revealed_mass"]

_U = UNIT_ROUNDOFF
#: Loss edges, nats, and exponents that are tried.
_PROBES: FloatArray = np.geomspace(1e-9, 1e3, 97)
_EDGES: FloatArray = np.concatenate((-_PROBES[::-1], [0.0], _PROBES))
_EXPONENTS: FloatArray = np.linspace(0.04, 0.96, 24)


def log_revealed_mass(counts: Mapping[ElementaryPair, int], rounds: IntArray, direction: Direction) -> FloatArray:
    """Logarithms of lower bounds on the P_A mass of outcomes that P_B lacks, after some numbers of rounds, shape (R,).

    Of factors of masses M, of which m has none of P_B, it is Π M^d (1 - Π (1 - m/M)^d), which rises in every M and m.
    """
    log_total = rate = size = 0.0
    for pair, count in counts.items():
        masses = pair.directed_loss_masses(np.zeros(1), direction)
        parts = (masses.only_a.lower, masses.cells_a.lower, masses.atoms_a.lower)
        only, *others = (float(np.sum(part)) * (1.0 - (part.size + 4.0) * _U) for part in parts)
        total = (only + sum(others)) * (1.0 - 8.0 * _U)
        if only > 0.0:
            rate += count * (-math.log1p(-only / total) if only < total else math.inf)
        if total > 0.0:
            log_total += count * math.log(total)
            size += count * (abs(math.log(total)) + 2.0)
    if rate == 0.0:
        return np.full(rounds.size, -np.inf)
    r = rounds.astype(np.float64)
    result = r * (log_total - 16.0 * _U * size) + np.log(-np.expm1(-rate * r * (1.0 - 32.0 * _U)))
    return np.asarray(result - 16.0 * _U * (1.0 + np.abs(result)))


def log_nearly_all(
    counts: Mapping[ElementaryPair, int], rounds: IntArray, epsilon: FloatArray, direction: Direction
) -> FloatArray:
    """Logarithms of lower bounds on δ that are near 0 where the inputs are told apart, shape (R, E).

    With T the P_A mass of all, δ = T - Σ min(a, e^ε b) >= T - e^{λε} Σ a^{1-λ} b^λ for 0 < λ < 1; the sum is the
    product of those of the rounds, and joining outcomes makes it larger (Hölder), so that upper values of cells serve.
    """
    log_total = error = 0.0
    log_sum = np.zeros(_EXPONENTS.size)
    for pair, count in counts.items():
        masses = pair.directed_loss_masses(_EDGES, direction)
        own = np.concatenate((masses.cells_a.upper, masses.atoms_a.upper))
        other = np.concatenate((masses.cells_b.upper, masses.atoms_b.upper))
        both = (own > 0.0) & (other > 0.0)
        exponent = np.multiply.outer(1.0 - _EXPONENTS, np.log(own[both]))
        exponent += np.multiply.outer(_EXPONENTS, np.log(other[both]))
        log_sum += count * np.logaddexp.reduce(exponent, axis=1)
        lower = (masses.only_a.lower, masses.cells_a.lower, masses.atoms_a.lower)
        log_total += count * math.log(max(sum(float(np.sum(part)) for part in lower), 1e-300))
        # Logarithms of masses are at most 750 in size; sums are made one by one.
        error += count * _U * (4.0 * own.size + 4000.0)
    r = rounds.astype(np.float64)[:, None, None]
    shared = np.min(r * log_sum + epsilon[:, None] * _EXPONENTS + r * error, axis=-1)
    # Both are those of all rounds.
    total = r[:, :, 0] * (log_total - error)
    slack = 1e-12 * (1.0 + np.abs(np.maximum(shared, -1e300)))
    gap = shared + slack - total
    with np.errstate(divide="ignore"):
        result = total + np.log1p(-np.exp(np.minimum(gap, 0.0)))
    return np.asarray(result - 1e-12 * (1.0 + np.abs(total)))
