"""Composition theorems that know one (ε, δ) of each pair and nothing else of it.

Every function here takes ε and ln δ of the pairs of a round, shape (P,) each, how often each pair occurs in all rounds,
shape (P,), and the ε after composition, shape (E,). It returns upper bounds on ln δ after composition, shape (E,).
They are the theorems as published; `tests/theorems` compares them with exact values.
"""

import math
from bisect import bisect_left

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

_U = UNIT_ROUNDOFF
#: Terms that are this many nats below the largest are bounded together.
_WINDOW = 80.0


def naive(epsilon: FloatArray, log_delta: FloatArray, counts: FloatArray, wanted: FloatArray) -> FloatArray:
    """Bound by the sums of all ε and of all δ (Meiser & Mohammadi 2018, Lemma 2)."""
    with np.errstate(divide="ignore"):
        total = _up(np.logaddexp.reduce(np.log(counts) + log_delta))
    return np.where(wanted >= _sum_up(counts * epsilon), np.minimum(total, 0.0), 0.0)


def adaptive(epsilon: FloatArray, log_delta: FloatArray, counts: FloatArray, wanted: FloatArray) -> FloatArray:
    """Bound by the sum of all ε, and 1 - Π (1 - δ) (Meiser & Mohammadi 2018, Lemma 3)."""
    return np.where(wanted >= _sum_up(counts * epsilon), any_of(log_delta, counts), 0.0)


def advanced(epsilon: FloatArray, log_delta: FloatArray, counts: FloatArray, wanted: FloatArray) -> FloatArray:
    """Bound by Dwork, Rothblum & Vadhan 2010, Theorem III.3, solved for its free δ'.

    For every δ' > 0 the composition is (√(2 ln(1/δ') Σ ε²) + Σ ε (e^ε - 1), δ' + Σ δ)-private.
    """
    with np.errstate(over="ignore"):
        mean, square = _sum_up(counts * epsilon * np.expm1(epsilon)), _sum_up(counts * epsilon**2)
    with np.errstate(divide="ignore"):
        revealed = np.logaddexp.reduce(np.log(counts) + log_delta)
    return np.minimum(_up(np.logaddexp(_gaussian_tail(wanted, mean, square), revealed)), 0.0)


def advanced_closed_form(
    epsilon: FloatArray, log_delta: FloatArray, counts: FloatArray, wanted: FloatArray
) -> FloatArray:
    """Bound by Kairouz, Oh & Viswanath 2015, Theorem 3.5: the best of its three forms, solved for δ'.

    From Σ ε on no δ' is needed. In the other two forms the mean loss is at most Σ ε (e^ε - 1)/(e^ε + 1) instead of
    Σ ε (e^ε - 1); the second of them has e + √(Σ ε²)/δ' in place of 1/δ'. The composition is then
    (ε, 1 - (1 - δ') Π (1 - δ))-private.
    """
    mean = _sum_up(counts * epsilon * np.tanh(0.5 * epsilon))
    square = _sum_up(counts * epsilon**2)
    first = _gaussian_tail(wanted, mean, square)
    exponent = -first
    # ln of √(Σ ε²) / (e^y - e), where y > 1.
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.log(-np.expm1(np.minimum(1.0 - exponent * (1.0 - 8.0 * _U), 0.0)))
        second = np.where(exponent > 1.0, _up(0.5 * math.log(square) - exponent - rest), 0.0) if square > 0.0 else first
    best = np.minimum(np.minimum(first, second), 0.0)
    best = np.where(wanted >= _sum_up(counts * epsilon), -np.inf, best)
    return either(best, any_of(log_delta, counts))


def kairouz_oh_viswanath(epsilon: float, log_delta: float, rounds: int, wanted: FloatArray) -> FloatArray:
    """Bound by the exact composition of M_{ε,δ} (Kairouz, Oh & Viswanath 2015, Theorem 3.3).

    With p = 1 / (1 + e^ε), δ' = 1 - (1 - δ)^r (1 - Σ_ℓ C(r, ℓ) p^ℓ (1 - p)^(r - ℓ) max(0, 1 - e^(ε' - (r - 2ℓ) ε))).
    The theorem has this sum at ε' = (r - 2i) ε; it is the δ of r-fold randomized response at every ε' >= 0.

    The logarithm of a binomial probability is computed from Stirling's series and relative entropies, and is known to
    16u (r + 8) and its own size. Terms more than `_WINDOW` nats below the largest are bounded by as many of the largest
    of them, as binomial probabilities are log-concave.
    """
    if epsilon == 0.0:
        return either(np.full(wanted.shape, -np.inf), any_of(np.array([log_delta]), np.array([float(rounds)])))
    # The first ℓ that adds nothing, of each ε'.
    with np.errstate(over="ignore"):
        share = np.minimum(wanted * (1.0 - 4.0 * _U) / epsilon, 2.0 * rounds)
    last = np.ceil((rounds - share) * 0.5 * (1.0 + 4.0 * _U)).astype(np.int64)
    found = np.full(wanted.shape, -np.inf)
    for index, (loss, end) in enumerate(zip(wanted.tolist(), np.clip(last, 0, rounds // 2 + 1).tolist(), strict=True)):
        if end > 0:
            found[index] = _log_randomized_response(epsilon, rounds, loss, end)
    return either(np.minimum(found, 0.0), any_of(np.array([log_delta]), np.array([float(rounds)])))


def any_of(log_delta: FloatArray, counts: FloatArray) -> FloatArray:
    """Return ln(1 - Π (1 - δ)^count), rounded up."""
    with np.errstate(divide="ignore", over="ignore"):
        # -ln Π (1 - δ)^count; of a small δ it is count δ (1 + δ) at most.
        small = log_delta < -30.0
        exact = np.log(counts) + np.log(-np.log1p(-np.exp(np.minimum(log_delta, 0.0))))
        each = np.where(small, np.log(counts) + log_delta + 1e-13, exact)
        total = np.logaddexp.reduce(each)
        log = np.log(-np.expm1(-np.exp(total))) if total > -30.0 else total
    return np.minimum(np.asarray(_up(log)), 0.0)


def either(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return ln(1 - (1 - x)(1 - y)) from ln x and ln y, rounded up."""
    with np.errstate(divide="ignore"):
        rest = first + np.log(-np.expm1(np.minimum(second, 0.0)))
    return np.minimum(_up(np.logaddexp(second, rest)), 0.0)


def _gaussian_tail(wanted: FloatArray, mean: float, square: float) -> FloatArray:
    """Return -(ε - mean)² / (2 Σ ε²), rounded up; 0 where ε is below the mean."""
    if square == 0.0:
        return np.full(wanted.shape, -np.inf)
    above = np.maximum(wanted * (1.0 - 4.0 * _U) - mean, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        exponent = above * (above / (2.0 * square)) * (1.0 - 16.0 * _U)
    return np.where(np.isnan(exponent), 0.0, -exponent)


def _log_randomized_response(epsilon: float, rounds: int, wanted: float, end: int) -> float:
    """Return ln δ of r-fold randomized response at one ε, rounded up; ℓ from 0 to `end` - 1."""
    mode = min(end - 1, int((rounds + 1) / (1.0 + math.exp(min(epsilon, 700.0)))))
    # Steps of the mode's size to both sides until the terms are faint.
    start, stop = _window(epsilon, rounds, mode, end)
    number = np.arange(start, stop, dtype=np.float64)
    log_mass = log_binomial(number, rounds, epsilon)
    gap = wanted - (rounds - 2.0 * number) * epsilon
    gap -= 8.0 * _U * (wanted + rounds * epsilon)
    with np.errstate(divide="ignore"):
        terms = log_mass + np.log(-np.expm1(np.minimum(gap, 0.0)))
    largest = float(terms.max())
    if largest == -math.inf:
        return -math.inf
    total = largest + math.log(float(np.exp(terms - largest).sum()))
    for edge, count in ((start, start), (stop - 1, end - stop)):
        if count:
            total = float(
                np.logaddexp(total, math.log(count) + log_binomial(np.array([float(edge)]), rounds, epsilon)[0])
            )
    return total + 16.0 * _U * (rounds + 8.0 + number.size + abs(total))


def _window(epsilon: float, rounds: int, mode: int, end: int) -> tuple[int, int]:
    """Return the first ℓ and the one after the last whose terms are not faint beside that of the mode."""
    top = float(log_binomial(np.array([float(mode)]), rounds, epsilon)[0]) - _WINDOW

    def faint(number: int) -> bool:
        return float(log_binomial(np.array([float(number)]), rounds, epsilon)[0]) < top

    # Probabilities rise up to the mode, and fall from there.
    start = bisect_left(range(mode), True, key=lambda number: not faint(number)) - 1
    stop = mode + 1 + bisect_left(range(mode + 1, end), True, key=faint) + 1
    return max(start, 0), min(stop, end)


def log_binomial(number: FloatArray, rounds: int, epsilon: float) -> FloatArray:
    """Return ln C(r, ℓ) p^ℓ (1 - p)^(r - ℓ) for p = 1 / (1 + e^ε), within 8u (r + 8 + its size)."""
    r = float(rounds)
    log_p, log_rest = -_softplus(epsilon), -_softplus(-epsilon)
    rest = r - number
    inner = (number > 0.0) & (rest > 0.0)
    k, m = np.where(inner, number, 1.0), np.where(inner, rest, 1.0)
    entropy = k * (np.log(k / r) - log_p) + m * (np.log(m / r) - log_rest)
    root = 0.5 * (math.log(r) - math.log(2.0 * math.pi) - np.log(k) - np.log(m))
    value = root + _stirling(np.array([r]))[0] - _stirling(k) - _stirling(m) - entropy
    return np.where(inner, value, np.where(number == 0.0, r * log_rest, r * log_p))


def _softplus(value: float) -> float:
    """Return ln(1 + e^x)."""
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))


def _stirling(number: FloatArray) -> FloatArray:
    """Return ln(n!) - (n + ½) ln n + n - ½ ln 2π for n >= 1."""
    # Below 16 from the gamma function, where nothing large cancels; beyond, five terms leave out less than 1e-16.
    few = np.minimum(number, 16.0)
    small = _LOG_FACTORIALS[few.astype(np.int64)] - (few + 0.5) * np.log(few) + few - 0.5 * math.log(2.0 * math.pi)
    inverse = 1.0 / number
    square = inverse * inverse
    series = inverse * (
        1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * (1.0 / 1680.0 - square / 1188.0)))
    )
    return np.where(number < 16.0, small, series)


_LOG_FACTORIALS: FloatArray = np.array([math.log(math.factorial(n)) for n in range(17)])


def _up(log: FloatArray) -> FloatArray:
    """Return logarithms that are off by a few roundings of their size, rounded up."""
    return np.asarray(log + 64.0 * _U * (1.0 + np.where(np.isfinite(log), np.abs(log), 0.0)))


def _sum_up(values: FloatArray) -> float:
    """Return the sum of values that are off by a few roundings, rounded up."""
    return float(np.sum(values)) * (1.0 + 16.0 * _U * values.size)
