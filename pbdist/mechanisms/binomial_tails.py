"""How often a Poisson sample is cut to a largest size, and how often a record is used then: bounds on both."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pbdist.mechanisms.masses import UNIT_ROUNDOFF
from pbdist.types import FloatArray

#: Terms below this share of the first one are left out; 10^9 of them are below the second one.
_SMALLEST, _LEFT_OUT = 1e-290, 1e-281
#: The first number of terms that is tried.
_FEW = 64


@dataclass(frozen=True)
class CutSample:
    """Poisson samples of a record and n - 1 others, each drawn with the probability q, that are cut to B records.

    Attributes
    ----------
    probability : (float, float)
        Lower and upper value of the probability τ that B or more of the others are drawn.
    rest : (float, float)
        Lower and upper value of 1 - τ.
    rate : float
        At least the probability that the record is used if B or more of the others are drawn, at most q; 0 where that
        never happens.
    used : float
        At most the probability that the record is used.
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
    counts, terms = _terms(others, rate, mode, 0)
    # The terms and their sums.
    error = 7.0 * (terms.size + 16) * UNIT_ROUNDOFF
    cut, total = counts >= batch, float(terms.sum())
    inside, outside = float(terms[cut].sum()), float(terms[~cut].sum())
    probability, rest = ((_least(part, total, error), _most(part, total, error)) for part in (inside, outside))
    # The others are B or more: the record is used with the probability q B / (K + 1).
    counts, terms = _terms(others, rate, max(mode, batch), batch)
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


def _terms(others: int, rate: float, start: int, lowest: int) -> tuple[FloatArray, FloatArray]:
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
