"""How many of a group are in a Poisson sample: floats that are no smaller, or no larger, than the binomial numbers."""

import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from pbdist.mechanisms.masses import UNIT_ROUNDOFF
from pbdist.types import FloatArray

#: Digits of probabilities, whose relative errors are far below the next number.
_DIGITS = 60
#: By this part of itself each weight is moved in the safe direction, which pays for all roundings.
_MOVED = Fraction(1, 2**50)
#: Both ends of at most this probability are folded; terms this small beside the largest one are not computed.
_FOLDED, _FAINT = Decimal("1e-100"), Decimal("1e-420")
#: No weight is smaller.
_LEAST = Decimal("1e-300")
#: Runs of counts, at most, beside the two ends.
_MAX_RUNS = 1000


@dataclass(frozen=True)
class WeightedCounts:
    """Some numbers of individuals, increasing, and a float weight above 0 for each; they sum to 1 within 2^-53."""

    counts: tuple[int, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class _Run:
    """Counts from `first` to `last`, their probability, and whether only an upper value of it is known."""

    first: int
    last: int
    probability: Decimal
    folded: bool = False


def rounded_counts(size: int, rate: float, *, up: bool) -> WeightedCounts:
    """Return weighted counts stochastically at least Bin(size, rate), or at most: Theorem 47 of docs/theory.md.

    Each run of counts is put at its last one, or at its first one. What lies beyond the likeliest run, on the side to
    which counts are moved, is rounded up, the runs on the other side are rounded down.
    """
    runs = _runs(size, rate)
    top = max(range(len(runs)), key=lambda index: runs[index].probability)
    counts: list[int] = []
    weights: list[float] = []
    likeliest = 0
    for index, run in enumerate(runs):
        beyond = index > top if up else index < top
        if run.folded and not beyond and index != top:
            continue
        if index == top:
            likeliest = len(counts)
        counts.append(run.last if up else run.first)
        weights.append(float(Fraction(run.probability) * (1 + _MOVED if beyond else 1 - _MOVED)))
    # The likeliest run has what the others leave of 1, to the nearest float.
    others = sum((Fraction(weight) for place, weight in enumerate(weights) if place != likeliest), Fraction(0))
    weights[likeliest] = float(1 - others)
    return WeightedCounts(tuple(counts), tuple(weights))


@lru_cache(maxsize=64)
def _runs(size: int, rate: float) -> tuple[_Run, ...]:
    """Return all counts in runs: single ones but for the ends, which are folded, and for very many.

    The probability of a folded end is an upper value.
    """
    first, terms = _terms(size, rate)
    with decimal.localcontext(_context()):
        total = sum(terms, Decimal(0))
        chances = [term / total for term in terms]
        some = sum(chances[1:] if first == 0 else chances, Decimal(0))
        low, below = _end(chances, first > 0, _FOLDED)
        high, above = _end(chances[::-1], first + len(terms) <= size, max(_FOLDED * some, _LEAST))
        stop = len(chances) - high
        step = max(-(-(stop - low) // _MAX_RUNS), 1)
        runs = []
        for start in range(low, stop, step):
            end = min(start + step, stop)
            runs.append(_Run(first + start, first + end - 1, sum(chances[start:end], Decimal(0))))
    if below is not None:
        runs.insert(0, _Run(0, first + low - 1, below, folded=True))
    if above is not None:
        runs.append(_Run(first + stop, size, above, folded=True))
    return tuple(runs)


def _end(chances: list[Decimal], more: bool, limit: Decimal) -> tuple[int, Decimal | None]:
    """Return how many of the first probabilities are at most the limit together, and the limit where any are.

    What lies before them, if there is `more`, is far below the limit.
    """
    together, count = Decimal(0), 0
    half = limit / 2
    while count < len(chances) and together + chances[count] <= half:
        together += chances[count]
        count += 1
    return count, limit if count or more else None


def _terms(size: int, rate: float) -> tuple[int, list[Decimal]]:
    """Return probabilities of consecutive counts over that of about the likeliest one, and the first of the counts.

    Faint ones are left out at both ends, where the terms fall.
    """
    start = min(math.floor(size * rate), size)
    with decimal.localcontext(_context()):
        odds = Decimal(rate) / (1 - Decimal(rate))
        above, below = [Decimal(1)], [Decimal(1)]
        for count in range(start, size):
            above.append(above[-1] * (size - count) * odds / (count + 1))
            if above[-1] < _FAINT:
                break
        for count in range(start, 0, -1):
            below.append(below[-1] * count / ((size - count + 1) * odds))
            if below[-1] < _FAINT:
                break
    return start - len(below) + 1, below[:0:-1] + above


def _context() -> decimal.Context:
    return decimal.Context(prec=_DIGITS, rounding=decimal.ROUND_HALF_EVEN, Emin=-(10**9), Emax=10**9)


#: Terms below this share of the first one are left out; 10^9 of them are below the second one.
_SMALLEST, _LEFT_OUT = 1e-290, 1e-281
#: The first number of terms that is tried.
_FEW = 64


@dataclass(frozen=True)
class CutSample:
    """Poisson samples of a record and n - 1 others, each drawn with the probability q, that are cut to B records.

    `probability` encloses the probability τ that B or more of the others are drawn, `rest` 1 - τ. `rate`, at most q, is
    at least the probability that the record is used if B or more of the others are drawn; 0 where that never happens.
    `used` is at most the probability that the record is used.
    """

    probability: tuple[float, float]
    rest: tuple[float, float]
    rate: float
    used: float


def cut_sample(examples: int, rate: float, batch: int) -> CutSample:
    """Return bounds for samples of `examples` records, at most 10^9, each drawn with a probability, cut to `batch`.

    Theorem 38 of docs/theory.md: the probabilities of numbers of records are computed from their ratios.
    """
    others = examples - 1
    if others < batch:
        return CutSample((0.0, 0.0), (1.0, 1.0), 0.0, rate)
    if rate == 1.0:
        share = batch / examples
        return CutSample((1.0, 1.0), (0.0, 0.0), min(math.nextafter(share, 1.0), 1.0), math.nextafter(share, 0.0))
    mode = min(others, math.floor(examples * rate))
    counts, terms = _terms_from(others, rate, mode, 0)
    # The terms and their sums.
    error = 7.0 * (terms.size + 16) * UNIT_ROUNDOFF
    cut, total = counts >= batch, float(terms.sum())
    inside, outside = float(terms[cut].sum()), float(terms[~cut].sum())
    probability, rest = ((_least(part, total, error), _most(part, total, error)) for part in (inside, outside))
    # The others are B or more: the record is used with the probability q B / (K + 1).
    counts, terms = _terms_from(others, rate, max(mode, batch), batch)
    error = 7.0 * (terms.size + 16) * UNIT_ROUNDOFF
    total, weighted = float(terms.sum()), float((terms * (batch / (counts + 1.0))).sum())
    largest = rate * (batch / (batch + 1.0)) * (1.0 + 8.0 * UNIT_ROUNDOFF)
    low, high = rate * _least(weighted, total, error), rate * _most(weighted, total, error)
    used = (rest[0] * rate + probability[0] * low) * (1.0 - 16.0 * UNIT_ROUNDOFF)
    return CutSample(probability, rest, min(high * (1.0 + 8.0 * UNIT_ROUNDOFF), largest, rate), min(used, rate))


def _least(part: float, total: float, error: float) -> float:
    """Lower value of a share, of a part and a whole off by a relative error, and of terms left out beside them."""
    return part * (1.0 - error) / ((total + 2.0 * _LEFT_OUT) * (1.0 + 4.0 * error))


def _most(part: float, total: float, error: float) -> float:
    """Upper value of the same."""
    return min((part + 2.0 * _LEFT_OUT) * (1.0 + 4.0 * error) / (total * (1.0 - error)), 1.0)


def _terms_from(others: int, rate: float, start: int, lowest: int) -> tuple[FloatArray, FloatArray]:
    """Return numbers of records from `lowest` on and their probabilities over that of `start`, but faint ones."""
    odds = rate / (1.0 - rate)
    above = _falling(others - start, lambda k: (others - start - k) * odds / (start + k + 1.0))
    below = _falling(start - lowest, lambda k: (start - k) / ((others - start + k + 1.0) * odds))
    counts = np.arange(start - below.size, start + above.size + 1, dtype=np.float64)
    return counts, np.concatenate((below[::-1], [1.0], above))


def _falling(most: int, ratio: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return products of the ratios of 0, 1, .., at most so many, up to the first one that is faint."""
    length = min(most, _FEW)
    while True:
        products: FloatArray = np.cumprod(ratio(np.arange(length, dtype=np.float64)), dtype=np.float64)
        faint = np.flatnonzero(products < _SMALLEST)
        if faint.size:
            return products[: int(faint[0])]
        if length == most:
            return products
        length = min(most, 4 * length)
