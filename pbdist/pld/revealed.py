"""Mass of the outcomes that only one of the inputs has: δ is at least that, whatever ε is."""

import math
from collections.abc import Mapping

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair
from pbdist.types import Direction, FloatArray, IntArray

__all__ = ["log_revealed_mass"]

_U = UNIT_ROUNDOFF


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
