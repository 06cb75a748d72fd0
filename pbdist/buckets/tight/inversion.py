"""ε as a function of δ, from both sides."""

import math
from dataclasses import dataclass

import numpy as np

from pbdist.buckets.tight.table import tight_bounds
from pbdist.mechanisms import ElementaryPair
from pbdist.types import FloatArray, IntArray

__all__ = ["EpsilonBounds", "epsilon_table"]

#: ε tried at once, and how often at most.
_TRIALS, _PASSES = 9, 60
#: No ε beyond this is looked for.
_LARGEST_EPSILON = 1e9


@dataclass(frozen=True, eq=False)
class EpsilonBounds:
    """Bounds on the smallest ε with which δ is met, nats; shape (2, R, D), first axis A||B, B||A.

    δ is not met at any ε below ``lower`` and is met at ``upper``, which is infinite where no ε meets it.
    """

    lower: FloatArray
    upper: FloatArray


def epsilon_table(
    counts: dict[ElementaryPair, int], rounds: IntArray, delta: FloatArray, *, tolerance: float
) -> EpsilonBounds:
    """Bound ε for every r and δ.

    Parameters
    ----------
    counts : dict of ElementaryPair to int
        What one round consists of.
    rounds : ndarray of int64, shape (R,)
    delta : ndarray, shape (D,)
        δ, above 0 and below 1.
    tolerance : float
        ``upper / lower - 1`` aimed at.

    Notes
    -----
    δ(ε) does not rise with ε. So any ε at which the upper bound on δ is at most δ is an upper bound, and any ε at which
    the lower bound on δ exceeds δ a lower one, however they are found: here by trying several between the best of both.
    """
    shape = (2, rounds.size, delta.size)
    lower, upper = np.zeros(shape), np.full(shape, np.inf)
    symmetric = all(pair.symmetric for pair in counts)
    for row in range(rounds.size):
        for column, asked in enumerate(delta.tolist()):
            for axis in range(1 if symmetric else 2):
                lower[axis, row, column], upper[axis, row, column] = _search(
                    counts, rounds[row : row + 1], math.log(asked), axis, tolerance
                )
    if symmetric:
        lower[1], upper[1] = lower[0], upper[0]
    return EpsilonBounds(lower, upper)


def _search(
    counts: dict[ElementaryPair, int], rounds: IntArray, log_delta: float, axis: int, tolerance: float
) -> tuple[float, float]:
    """Return the bounds for one r and δ in one direction."""
    low, high = -1.0, math.inf
    trials = np.array([0.0, 1e-3, 1e-2, 0.1, 1.0, 4.0, 16.0])
    reached = math.inf
    for _ in range(_PASSES):
        coarse = not (math.isfinite(high) and high <= 1.2 * max(low, 0.0) + 1e-9)
        table = tight_bounds(
            counts, rounds, trials, tolerance=max(0.05, tolerance) if coarse else tolerance, strict=False
        )
        met = trials[table.log_upper[axis, 0] <= math.nextafter(log_delta, -math.inf)]
        unmet = trials[table.log_lower[axis, 0] > math.nextafter(log_delta, math.inf)]
        low = max(low, float(unmet[-1])) if unmet.size else low
        high = min(high, float(met[0])) if met.size else high
        if low < 0.0 and high == 0.0:
            return 0.0, 0.0
        if math.isinf(high):
            if low >= _LARGEST_EPSILON or (reached == low and low > 1e3):
                break
            start = max(low, 1.0)
            trials = np.minimum(start * 4.0 ** np.arange(1.0, 6.0), 2.0 * _LARGEST_EPSILON)
            reached = low
            continue
        if high - max(low, 0.0) <= 0.5 * tolerance * high or (high - low, low) == (reached, low):
            break
        reached = high - low
        # Close to either end as well: the bounds on δ leave a gap that no trial between them narrows.
        first = max(low, 0.0)
        trials = first + (high - first) * np.linspace(0.0, 1.0, _TRIALS + 2)[1:-1]
        if first == 0.0 or high / first > 8.0:
            trials = np.geomspace(max(first, high * 1e-6), high, _TRIALS + 2)[1:-1]
        trials = np.unique(trials)
    return max(low, 0.0), high
