"""What is known of response times with a random delay, and what measured ones show.

The theorem and its proof are in docs/measured-timing.md.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

from scipy.special import betaincinv

from data.timing.delay import is_log_concave
from pbdist import Histogram

__all__ = [
    "cost_of_late_answers",
    "delayed_pair",
    "fewest_without_one",
    "largest_gap",
    "leak_of_late_answers",
    "leaking_pair",
    "missing_mass",
    "smallest_shift",
    "uniform_pair",
]

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


def cost_of_late_answers(weights: Sequence[int], work: int, deadline: int, rounds: int) -> Fraction:
    """Return what late answers add to δ at every ε, at most, if the work of a round takes up to `work` units.

    The delay has the weights of `delayed_pair`. Work within the deadline adds nothing: no answer is late. Longer work
    adds at most rounds * P(D < work): Theorem (late answers) of docs/measured-timing.md.
    """
    if work <= deadline:
        return Fraction(0)
    return min(Fraction(1), rounds * Fraction(sum(weights[:work]), sum(weights)))


def leak_of_late_answers(weights: Sequence[int], work: int, deadline: int, rounds: int) -> float:
    """Return a lower bound of δ at every ε, where A does nothing and each round of B works `work` units.

    No answer of B leaves before `work`; one of A does with probability 1 - (1 - p)^rounds >= 1 - e^(-rounds p), with
    p = P(D < work). The factor covers the rounding.
    """
    if work <= deadline:
        return 0.0
    expected = rounds * Fraction(sum(weights[:work]), sum(weights))
    return -math.expm1(-float(expected)) * (1 - 2.0**-50)


def smallest_shift(weights: Sequence[int], work: int, deadline: int, rounds: int, room: Fraction) -> int:
    """Return the smallest constant that, added to the delay, lets work of up to `work` units cost at most `room`.

    The constant costs no privacy. With `work - deadline` no answer is late at all; with less, some may be.
    """
    most = math.floor(room * sum(weights) / rounds)
    harmless = bisect_right(list(accumulate(weights, initial=0)), most) - 1
    return max(0, work - max(harmless, deadline))


def missing_mass(counts: Sequence[int], confidence: float = 0.95) -> tuple[float, float]:
    """Return Good and Turing's estimate of the probability of all bins never seen, and a bound of it with confidence.

    The bound is that of McAllester and Schapire (2000), On the convergence rate of Good-Turing estimators, for
    independent draws. With n draws, N of them alone in their bins, and β = 1 - confidence, it is
    N / n + (2 √2 + √3) √(ln(3 / β) / n).
    """
    total = sum(counts)
    estimate = sum(count == 1 for count in counts) / total
    spread = (2 * math.sqrt(2) + math.sqrt(3)) * math.sqrt(math.log(3 / (1 - confidence)) / total)
    return estimate, min(1.0, estimate + spread)


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
