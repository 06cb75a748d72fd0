"""δ of one round, read off from the masses of a pair as they are documented, with mpmath."""

import mpmath
import numpy as np

from pbdist.mechanisms import ElementaryPair
from pbdist.types import Direction

__all__ = ["read_off"]


def read_off(pair: ElementaryPair, edges: np.ndarray, place: int, direction: Direction) -> tuple[mpmath.mpf, ...]:
    """δ at one of the edges, from below and from above, by the masses of one round as they are documented."""
    found = pair.scaled_loss_masses(edges, direction)
    masses, epsilon = found.masses, mpmath.mpf(float(edges[place]))
    factor, slack = mpmath.exp(epsilon), mpmath.mpf(masses.loss_error)

    def summed(values: np.ndarray, log_scale: np.ndarray) -> mpmath.mpf:
        return mpmath.fsum(
            mpmath.mpf(x) * mpmath.exp(y) for x, y in zip(values.tolist(), log_scale.tolist(), strict=True) if x
        )

    bins = slice(place + 1, None)
    lower = summed(masses.bins_a.lower[bins], found.log_scale_a[bins])
    lower -= factor * summed(masses.bins_b.upper[bins], found.log_scale_b[bins])
    upper = summed(masses.bins_a.upper[bins], found.log_scale_a[bins])
    # An event off by the error counts at most that much more.
    shared = upper * (1 - 2 * slack)
    upper += 2 * slack * shared - factor * summed(masses.bins_b.lower[bins], found.log_scale_b[bins])
    upper += 4 * slack * (summed(masses.bins_a.upper, found.log_scale_a) - shared)
    for i, loss in enumerate(masses.atom_loss.tolist()):
        scales = found.atoms_log_scale_a[i : i + 1], found.atoms_log_scale_b[i : i + 1]
        a_low, a_high, b_low, b_high = (
            summed(values[i : i + 1], scale)
            for bounds, scale in zip((masses.atoms_a, masses.atoms_b), scales, strict=True)
            for values in (bounds.lower, bounds.upper)
        )
        lower += max(a_low - factor * b_high, 0)
        if loss > epsilon - slack:
            upper += a_high - factor * b_low + 2 * slack * a_high
    return max(lower, 0), upper + mpmath.mpf(float(masses.only_a.upper[0])), shared, slack
