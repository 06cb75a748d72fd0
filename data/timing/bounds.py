"""What is known of response times with a random delay, and what measured ones show.

The theorem and its proof are in docs/measured-timing.md.
"""

import math
from collections.abc import Sequence

from scipy.special import betaincinv

from data.timing.delay import is_log_concave
from pbdist import Histogram

__all__ = ["delayed_pair", "fewest_without_one", "largest_gap", "leaking_pair", "uniform_pair"]

#: Frequencies of a leaking pair are rounded to this many parts, against the leak.
_PARTS = 10**9


def delayed_pair(weights: Sequence[int], longest: int) -> Histogram:
    """Return a pair that dominates (T₀ + D, T₁ + D) for all times T₀, T₁ from 0 to `longest`: the delay, and it moved.

    Parameters
    ----------
    weights : sequence of int
        The delay D has the probability weights[k] / sum(weights) of k units. Symmetric and log-concave.
    longest : int
        The largest time, in units, at least 1.

    Raises
    ------
    ValueError
        The weights are not symmetric, or not log-concave, in whole numbers: then nothing is proved.
    """
    law = list(weights)
    if law != law[::-1] or not is_log_concave(law):
        raise ValueError("weights: expected symmetric and log-concave ones, got others")
    if longest < 1:
        raise ValueError(f"longest: expected at least 1, got {longest}")
    return Histogram((*law, *(0,) * longest), (*(0,) * longest, *law))


def uniform_pair(values: int, longest: int) -> Histogram:
    """Return the same for a delay that is uniform on so many values.

    The `longest` first values of A are no values of B, nor the last ones of B values of A; all others have the loss 0.
    """
    if not 1 <= longest <= values:
        raise ValueError(f"longest: expected 1 to {values}, got {longest}")
    return Histogram((longest, values - longest, 0), (0, values - longest, longest))


def leaking_pair(a: Sequence[int], b: Sequence[int], test_a: Sequence[int], test_b: Sequence[int]) -> Histogram | None:
    """Return two events, no more apart than those of the measured pair, with confidence 95 %; None where none are.

    The first counts choose the time that tells A from B best. The test counts, drawn independently, say how often each
    side is later: P_B(later) is at least, and P_A(later) at most, what the intervals of Clopper and Pearson (1934) say,
    each with 97.5 %. For independent rounds the δ of the returned pair is then a lower bound of the true δ after any
    number of rounds, by post-processing: both events come from the true ones by a channel (docs/measured-timing.md).
    """
    at = largest_gap(a, b)
    later_a, later_b = sum(test_a[at:]), sum(test_b[at:])
    highest = _clopper_pearson(later_a, sum(test_a), 0.975)
    lowest = 1.0 - _clopper_pearson(sum(test_b) - later_b, sum(test_b), 0.975)
    p, q = math.ceil(highest * _PARTS), math.floor(lowest * _PARTS)
    return Histogram((_PARTS - p, p), (_PARTS - q, q)) if p < q else None


def largest_gap(a: Sequence[int], b: Sequence[int]) -> int:
    """Return the bin from which on B's share of counts exceeds A's by most."""
    total_a, total_b = sum(a), sum(b)
    left_a = left_b = best = 0
    gap = -math.inf
    for index in range(len(a)):
        # What is left of a bin more of A is as good as what is right of it more of B.
        if left_a * total_b - left_b * total_a > gap:
            gap, best = left_a * total_b - left_b * total_a, index
        left_a, left_b = left_a + a[index], left_b + b[index]
    return best


def fewest_without_one(probability: float, confidence: float = 0.95) -> int:
    """Return how many independent measurements without one event bound its probability, with that confidence."""
    return math.ceil(math.log1p(-confidence) / math.log1p(-probability))


def _clopper_pearson(events: int, total: int, confidence: float) -> float:
    """Upper end of the one-sided interval for the probability of events seen so often."""
    return 1.0 if events == total else float(betaincinv(events + 1, total - events, confidence))
