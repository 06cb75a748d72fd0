"""Bounds in closed form: rounds of Gaussian noise alone, revealed mass, and lower bounds where δ is nearly 1.

The composition of untruncated Gaussian pairs of ratios μ_i = sensitivity_i / scale_i is the pair N(0, 1), N(μ, 1) with
μ² = Σ μ_i², of which δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) (Theorem 19 in ``docs/pld.md``). Section 6 there has the
others.
"""

import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from functools import lru_cache
from itertools import accumulate

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, LossMasses, PairCounts
from pbdist.mechanisms.masses import gaussian_interval
from pbdist.pld.state import LARGEST_READ
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

#: Relative rounding of the common μ: quotients, squares, counts, sum and root come to less than half of it.
_RATIO_ERROR = 16.0 * UNIT_ROUNDOFF
#: Below this μ and ε a second form of the difference is computed, where its masses are above the other number.
_NARROW_RATIO, _SMALLEST_RESOLVED = 1e-3, 1e-280
_U = UNIT_ROUNDOFF
#: Loss edges, nats, and exponents that are tried.
_PROBES: FloatArray = np.geomspace(1e-9, 1e3, 97)
_EDGES: FloatArray = np.concatenate((-_PROBES[::-1], [0.0], _PROBES))
_EXPONENTS: FloatArray = np.linspace(0.04, 0.96, 24)
#: Where ln(1 - δ) is not below this with one exponent, the others are not tried.
_MAX_LOG_REST = -1.0

#: Masses of the pairs of a round in one direction, and how often each occurs.
_Masses = list[tuple[LossMasses, int]]


def gaussian_ratio(counts: PairCounts) -> float | None:
    """Return μ of one round, within 8u; None unless it consists of untruncated Gaussian noise."""
    squares: list[float] = []
    for pair, count in counts.items():
        ratio = pair.gaussian_ratio
        if ratio is None:
            return None
        squares.append(count * ratio**2)
    return math.sqrt(math.fsum(squares))


def gaussian_bounds(ratio: float, rounds: IntArray, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound ln δ of r rounds from both sides, shape (R, E), for μ of one round (Theorem 19, docs/pld.md).

    Where rounding leaves nothing of the difference they are -inf and the logarithm of P_A's bound.
    """
    whole = ratio * np.sqrt(rounds.astype(np.float64))[:, None]
    smaller, larger = whole * (1.0 - _RATIO_ERROR), whole * (1.0 + _RATIO_ERROR)
    shift = (8.0 * np.abs(epsilon) + 2.0 * larger**2) * UNIT_ROUNDOFF
    lower = _log_difference(smaller, epsilon + np.zeros_like(smaller), np.zeros_like(smaller), upper=False)
    upper = _log_difference(larger, epsilon - shift, shift, upper=True)
    narrow: BoolArray = (whole < _NARROW_RATIO) & (epsilon < _NARROW_RATIO)
    if narrow.any():
        better = _log_narrow(smaller, epsilon, np.zeros_like(shift), upper=False)
        lower = np.where(narrow, np.maximum(lower, better), lower)
        better = _log_narrow(larger, epsilon, shift, upper=True)
        upper = np.where(narrow, np.minimum(upper, better), upper)
    return lower, upper


def _log_narrow(mu: FloatArray, epsilon: FloatArray, shift: FloatArray, *, upper: bool) -> FloatArray:
    """Logarithm of the same difference, by the mass of the interval [t - mu, t] for t = mu/2 - (epsilon - shift)/mu."""
    half, middle = 0.5 * mu, (epsilon - shift) / mu
    between, between_error, _ = gaussian_interval(-half, half, 1.0, middle)
    mass_b, error_b, _ = gaussian_interval(np.full_like(middle, -np.inf), -half + np.zeros_like(middle), 1.0, middle)
    side = 1.0 if upper else -1.0
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        growth = np.expm1(epsilon - 2.0 * shift if upper else epsilon)
        taken = growth * mass_b * (1.0 - side * np.sign(growth) * (error_b + 16.0 * UNIT_ROUNDOFF))
        left = between * (1.0 + side * (between_error + 8.0 * UNIT_ROUNDOFF)) - taken
        # Two roundings of what is subtracted, of either size.
        left = left + side * 4.0 * UNIT_ROUNDOFF * (between + np.abs(taken))
        resolved = (between > _SMALLEST_RESOLVED) & np.isfinite(left) & (left > 0.0)
        result = np.log(np.where(resolved, left, 1.0))
    result = result + side * 16.0 * UNIT_ROUNDOFF * (1.0 + np.abs(result))
    return np.where(resolved, result, np.inf if upper else -np.inf)


def gaussian_width(ratio: float, rounds: IntArray, epsilon: FloatArray, leaves: int, tolerance: float) -> float:
    """Return a loss width of the leaves, nats, with which a grid would give about that relative bracket everywhere."""
    variance = (ratio * ratio * rounds.astype(np.float64))[:, None]
    with np.errstate(over="ignore"):
        sharpness = _sharpness(variance, epsilon)
        widths = np.sqrt(6.0 * tolerance / (leaves * rounds[:, None] * sharpness))
    # No loss is so large that its grid has no width.
    return max(float(widths.min()), 1e-300)


def _sharpness(variance: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Return twice by how much a unit of added variance moves ln δ, about."""
    tilt = np.maximum(epsilon / variance - 0.5, 0.0)
    result: FloatArray = tilt * (tilt + 1.0) + 1.0 / variance + 1.0 / np.sqrt(variance)
    return result


def _log_difference(mu: FloatArray, loss: FloatArray, shift: FloatArray, *, upper: bool) -> FloatArray:
    """Logarithm of P_A(x <= t) - e^(loss - shift) P_B(x <= t) for t at that loss, from its side."""
    with np.errstate(over="ignore"):
        end = 0.5 * mu - loss / mu
    start = np.full_like(end, -np.inf)
    mass, error, log_scale = gaussian_interval(start, end, 1.0, np.stack((np.zeros_like(mu), mu)), scaled=True)
    side = 1.0 if upper else -1.0
    resolved: BoolArray = mass > 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(mass) + log_scale
        bounded = np.array([1.0, -1.0]).reshape(2, *([1] * mu.ndim))
        slack = 1.2 * error + 8.0 * UNIT_ROUNDOFF * (1.0 + np.abs(logs))
        log_a, log_b = logs + side * bounded * slack
        exponent = loss - shift + log_b - log_a
        exponent -= side * 8.0 * UNIT_ROUNDOFF * (np.abs(loss) + np.abs(log_a) + np.abs(log_b))
        left = -np.expm1(np.minimum(exponent, 0.0))
        left *= 1.0 + side * 16.0 * UNIT_ROUNDOFF
        result = log_a + np.log(left)
        result += side * 8.0 * UNIT_ROUNDOFF * (1.0 + np.abs(result))
    if upper:
        # Nothing of B taken off is an upper bound as well. Where float64 does not resolve P_A(x <= t) it is at most
        # e^(-t²/2) for t < 0; t is off by far less than a part in 2^20, and so is its square, and -1e300 is above it.
        unresolved = -0.5 * np.minimum(np.minimum(end, 0.0) ** 2 * (1.0 - 2.0**-20), 2e300)
        return np.where(resolved[0], np.where(resolved[1] & np.isfinite(result), result, log_a), unresolved)
    return np.where(resolved[0] & resolved[1] & np.isfinite(result), result, -np.inf)


def log_revealed_mass(counts: PairCounts, rounds: IntArray, direction: Direction) -> FloatArray:
    """Logarithms of lower bounds on the P_A mass of outcomes that P_B lacks, after some numbers of rounds, shape (R,).

    Of factors of masses M, of which m has none of P_B, it is Π M^d (1 - Π (1 - m/M)^d) (Theorem 9, docs/pld.md).
    """
    if all((pair.loss_bound(direction) or math.inf) < math.inf for pair in counts):
        return np.full(rounds.size, -np.inf)
    masses = [(pair.directed_loss_masses(np.zeros(1), direction), count) for pair, count in counts.items()]
    return _log_revealed(masses, rounds)


def log_least_known(counts: PairCounts, rounds: IntArray, epsilon: FloatArray) -> FloatArray:
    """Logarithms of lower bounds on δ, shape (2, R, E): by revealed mass, and near 0 where δ is nearly 1."""
    masses = [(pair.directed_loss_masses(_EDGES, Direction.A_TO_B), count) for pair, count in counts.items()]
    sides = [masses]
    if not all(pair.symmetric for pair in counts):
        sides.append([(each.swapped(), count) for each, count in masses])
    found = [np.maximum(_log_revealed(own, rounds)[:, None], _nearly_all(own, rounds, epsilon)) for own in sides]
    return np.stack([found[0], found[-1]])


def _log_revealed(pairs: _Masses, rounds: IntArray) -> FloatArray:
    parts = []
    for masses, count in pairs:
        lower = (masses.only_a.lower, masses.bins_a.lower, masses.atoms_a.lower)
        only, *others = (float(part.sum()) * (1.0 - (part.size + 4.0) * _U) for part in lower)
        parts.append((sum(others) * (1.0 - 8.0 * _U), only, count))
    composed = ([(finite, only, r * count) for finite, only, count in parts] for r in rounds.tolist())
    return np.array([log_some_infinite(each, -1.0) for each in composed])


def log_some_infinite(parts: Sequence[tuple[float, float, int]], side: float) -> float:
    """Logarithm of Π T^d (1 - Π (F/T)^d), T = F + I, for (F, I, d), rounded up or down."""
    log_total = rate = size = 0.0
    for finite, infinite, power in parts:
        total = finite + infinite
        if infinite > 0.0:
            rate += power * (-math.log1p(-infinite / total) if infinite < total else math.inf)
        if total > 0.0:
            log_total += power * math.log(total)
            size += power * (abs(math.log(total)) + 2.0)
    if rate == 0.0:
        return -math.inf
    rate *= 1.0 + side * 32.0 * _U
    result = log_total + (math.log(-math.expm1(-rate)) if rate > 0.0 else -math.inf)
    return result + side * 16.0 * _U * (size + abs(log_total) + abs(result) + 1.0)


def _nearly_all(pairs: _Masses, rounds: IntArray, epsilon: FloatArray) -> FloatArray:
    """Logarithms of lower bounds on δ, shape (R, E), of use where it is near 1.

    With T the P_A mass of all, δ >= T - e^{λε} Σ a^{1-λ} b^λ for 0 < λ < 1, and upper values of bins bound the sum
    (section 6 of docs/pld.md, "nearly all").
    """
    r = rounds.astype(np.float64)[:, None, None]
    for exponents in (np.array([0.5]), _EXPONENTS):
        log_sum, error = _shared(pairs, exponents)
        shared = (r * log_sum + epsilon[:, None] * exponents + r * error).min(axis=-1)
        if not (shared < _MAX_LOG_REST).any():
            return np.full(shared.shape, -np.inf)
    parts = [(masses.only_a.lower, masses.bins_a.lower, masses.atoms_a.lower, count) for masses, count in pairs]
    log_total = sum(
        count * math.log(max(sum(float(part.sum()) for part in masses), 1e-300)) for *masses, count in parts
    )
    total = r[:, :, 0] * (log_total - error)
    slack = 1e-12 * (1.0 + np.abs(np.maximum(shared, -1e300)))
    with np.errstate(divide="ignore"):
        result = total + np.log1p(-np.exp(np.minimum(shared + slack - total, 0.0)))
    return np.asarray(result - 1e-12 * (1.0 + np.abs(total)))


def _shared(pairs: _Masses, exponents: FloatArray) -> tuple[FloatArray, float]:
    """Return ln Σ a^{1-λ} b^λ of a round from upper values, and by how much it and ln T may be off."""
    result, error = np.zeros(exponents.size), 0.0
    for masses, count in pairs:
        own = np.concatenate((masses.bins_a.upper, masses.atoms_a.upper))
        other = np.concatenate((masses.bins_b.upper, masses.atoms_b.upper))
        both = (own > 0.0) & (other > 0.0)
        each = np.multiply.outer(1.0 - exponents, np.log(own[both])) + np.multiply.outer(exponents, np.log(other[both]))
        result += count * np.logaddexp.reduce(each, axis=1)
        # Logarithms of masses are at most 750 in size; sums are made one by one.
        error += count * _U * (4.0 * own.size + 4000.0)
    return result, error


def one_round(pair: ElementaryPair, direction: Direction, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return natural logarithms of bounds on δ of one round at some ε, in any order: lower and upper ones."""
    points, inverse = np.unique(epsilon, return_inverse=True)
    lower, upper = (bound(pair, points, direction)[inverse] for bound in (log_delta_below, log_delta_above))
    return lower, upper


def log_delta_above(pair: ElementaryPair, epsilon: FloatArray, direction: Direction) -> FloatArray:
    """Return natural logarithms of upper bounds on δ of one round at increasing ε, shape (E,).

    Guaranteed: at least δ. Let h bound the error of losses. The events S whose computed loss is above ε - h are split
    off; all others have losses of at most ε and add nothing to δ = Σ max(0, P_A - e^ε P_B). Those in S have losses of
    at least ε - 2h, so that P_A - e^(ε-2h) P_B is at least 0 for each, and at least P_A - e^ε P_B. The sum over S of
    upper masses of A and lower masses of B is therefore an upper bound. Each logarithm is known to a few units of
    rounding of its size, which the last line adds.
    """
    pair = pair.dominating
    error = _loss_error(pair, epsilon, direction)
    edges = epsilon - error
    log_a, log_b, starts = _events(pair, edges, direction, above=True)
    seen = _seen(starts, edges) & (log_a > -np.inf)
    size = np.where(log_a > -np.inf, np.abs(log_a), 0.0)
    odds = (epsilon - 2.0 * error)[:, None] + np.where(seen, log_b - np.where(seen, log_a, 0.0), -np.inf)
    slack = 8.0 * _U * (1.0 + 2.0 * size + epsilon[:, None])
    with np.errstate(divide="ignore"):
        terms = np.where(seen, log_a + np.log(-np.expm1(np.minimum(odds - slack, 0.0))), -np.inf)
    return log_sum_above(terms, float(size.max(initial=0.0)))


def log_delta_below(pair: ElementaryPair, epsilon: FloatArray, direction: Direction) -> FloatArray:
    """Return natural logarithms of lower bounds on δ of one round at increasing ε, shape (E,).

    Guaranteed: at most δ, which is at least Σ max(0, P_A - e^ε P_B) over any disjoint events: lower masses of A and
    upper ones of B of the bins and atoms above ε.
    """
    log_a, log_b, starts = _events(pair, epsilon, direction, above=False)
    seen = _seen(starts, epsilon) & (log_a > -np.inf)
    size = np.where(log_a > -np.inf, np.abs(log_a), 0.0) + np.where(np.isfinite(log_b), np.abs(log_b), 0.0)
    odds = epsilon[:, None] + np.where(seen, log_b - np.where(seen, log_a, 0.0), 0.0)
    slack = 8.0 * _U * (1.0 + size + epsilon[:, None])
    with np.errstate(divide="ignore"):
        terms = np.where(seen, log_a + np.log(-np.expm1(np.minimum(odds + slack, 0.0))), -np.inf)
    largest = np.maximum(terms.max(axis=-1), -1e300)
    with np.errstate(divide="ignore"):
        total = largest + np.log(np.exp(terms - largest[:, None]).sum(axis=-1))
    rounding = 16.0 * _U * (terms.shape[-1] + float(size.max(initial=0.0)) + np.abs(np.maximum(total, -1e300)))
    return np.where(total > -1e299, np.minimum(total - rounding, 0.0), -np.inf)


def _seen(starts: FloatArray, edges: FloatArray) -> BoolArray:
    """Which events lie above each edge, shape (E, n): bins from it on, and what is above it."""
    seen = starts >= edges[:, None]
    seen[:, edges.size :] &= starts[edges.size :] > edges[:, None]
    return np.asarray(seen)


def _events(
    pair: ElementaryPair, edges: FloatArray, direction: Direction, *, above: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ln P_A, ln P_B and the loss, or the lower end, of the bins above the edges, of atoms, and of what reveals.

    Upper values of A and lower ones of B, or the other way round.
    """
    scaled = pair.scaled_loss_masses(edges, direction)
    masses = scaled.masses
    own, other = ("upper", "lower") if above else ("lower", "upper")
    only = getattr(masses.only_a, own)
    with np.errstate(divide="ignore"):
        log_a = np.concatenate(
            (
                np.log(getattr(masses.bins_a, own)[1:]) + scaled.log_scale_a[1:],
                np.log(getattr(masses.atoms_a, own)) + scaled.atoms_log_scale_a,
                np.log(only),
            )
        )
        log_b = np.concatenate(
            (
                np.log(getattr(masses.bins_b, other)[1:]) + scaled.log_scale_b[1:],
                np.log(getattr(masses.atoms_b, other)) + scaled.atoms_log_scale_b,
                np.full(only.size, -np.inf),
            )
        )
    return log_a, log_b, np.concatenate((edges, masses.atom_loss, np.full(only.size, np.inf)))


def log_sum_above(terms: FloatArray, size: float) -> FloatArray:
    """Return ln Σ e^term along the last axis, rounded up; each term may be off by 8u (1 + size)."""
    largest = np.maximum(terms.max(axis=-1), -1e300)
    with np.errstate(divide="ignore"):
        total = largest + np.log(np.exp(terms - largest[..., None]).sum(axis=-1))
    count = terms.shape[-1]
    rounded = total + 16.0 * _U * (count + size + np.abs(np.maximum(total, -1e300)))
    # What is no number bounds nothing.
    return np.where(total <= -1e299, -np.inf, rounded)


def _loss_error(pair: ElementaryPair, epsilon: FloatArray, direction: Direction) -> float:
    """Return a bound on the error of losses that also holds for edges moved by it."""
    error = pair.scaled_loss_masses(epsilon, direction).masses.loss_error
    while True:
        moved = pair.scaled_loss_masses(epsilon - 2.0 * error, direction).masses.loss_error
        if moved <= 2.0 * error:
            return 2.0 * error + 4.0 * _U * float(epsilon.max())
        error = moved


#: Digits of e^ε: enough to distinguish an ε from a loss next to it.
_DIGITS = 60
#: Outcomes of all rounds together, and binary digits of all, at most; a point costs as much as so many outcomes.
_MAX_OUTCOMES, _MAX_WORK, _POINT_COST = 1 << 13, 25_000_000, 14

#: Whole numbers in the place of P_A and P_B of each outcome.
_Outcomes = Sequence[tuple[int, int]]


class FewOutcomes:
    """All outcomes of some rounds in one direction. `outcomes` are P_A and P_B, each times the denominator."""

    def __init__(self, outcomes: _Outcomes, denominator: int) -> None:
        known = sorted(((_minus_loss(*outcome), outcome) for outcome in outcomes), key=operator.itemgetter(0))
        self._order, self._outcomes = [key for key, _ in known], [outcome for _, outcome in known]
        self._denominator = denominator
        # What the first outcomes have together, from none on.
        totals = [accumulate(masses, initial=0) for masses in zip(*self._outcomes, strict=True)]
        self._totals = list(zip(*totals, strict=True))

    def log_delta(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return logarithms of lower and upper bounds on δ at some ε, shape (E,): -inf and 0 beyond what is read."""
        lower, upper = (np.array(side) for side in zip(*map(self._bounds, epsilon.tolist()), strict=True))
        return lower, upper

    def epsilon_near(self, delta: float) -> tuple[float, float]:
        """Return about the ε that meets δ, or 0, and the slope of ln δ there, at least -e^700."""
        positive = range(bisect_left(self._order, 0.0))
        place = bisect_right(positive, math.log(delta), key=lambda place: self._bounds(-self._order[place])[0])
        # P_A - e^ε P_B of the outcomes before that place is δ.
        own, other = self._totals[place]
        top, bottom = delta.as_integer_ratio()
        rest = own * bottom - top * self._denominator
        if rest <= 0 or other == 0:
            return 0.0, -1.0
        logs = [math.log(each) for each in (rest, other * bottom, top * self._denominator)]
        return logs[0] - logs[1], -math.exp(min(logs[0] - logs[2], 700.0))

    def _bounds(self, epsilon: float) -> tuple[float, float]:
        if epsilon > LARGEST_READ:
            return -math.inf, 0.0
        # Logarithms of whole numbers err by 4u of their size. Outcomes near ε are looked at one by one.
        error = 32.0 * _U * (1.0 + epsilon + max(map(math.log, self._totals[-1])))
        first, last = (bisect_left(self._order, side * error - epsilon) for side in (-1.0, 1.0))
        own, other = self._totals[first]
        sums = []
        for above, below in _exponential(epsilon):
            gains = (a * below - above * b for a, b in self._outcomes[first:last])
            gained = own * below - above * other + sum(gain for gain in gains if gain > 0)
            sums.append((gained, below * self._denominator))
        (most, of_most), (least, of_least) = sums
        return _log(least, of_least, -1.0), min(_log(most, of_most, 1.0), 0.0)


def _minus_loss(own: int, other: int) -> float:
    if own == 0:
        return math.inf
    return math.log(other) - math.log(own) if other else -math.inf


def _exponential(epsilon: float) -> list[tuple[int, int]]:
    """Return lower and upper value of e^ε, as fractions: `decimal` rounds to the nearest number of so many digits."""
    context = Context(prec=_DIGITS)
    grown = context.exp(Decimal.from_float(epsilon))
    digits = _DIGITS - 1 - grown.adjusted()
    own, other = 10 ** max(digits, 0), 10 ** max(-digits, 0)
    nearest = int(grown.scaleb(digits, context))
    return [((nearest + side) * other, own) for side in (-1, 1)]


def _log(numerator: int, denominator: int, side: float) -> float:
    """Return the logarithm of a fraction, rounded up or down; those of whole numbers err by 4u of their size."""
    if numerator == 0:
        return -math.inf
    logs = math.log(numerator), math.log(denominator)
    return logs[0] - logs[1] + side * 8.0 * _U * (1.0 + sum(map(abs, logs)))


def few_outcomes(counts: PairCounts, rounds: int, points: int) -> Mapping[Direction, FewOutcomes] | None:
    """Return the outcomes of some rounds; None if there are no fractions, or too many for about so many δ."""
    if any(pair.exact_outcomes is None for pair in counts):
        return None
    leaves, number = rounds * sum(counts.values()), 1
    for pair, count in counts.items():
        number *= math.comb(count * rounds + len(pair.exact_outcomes or ()) - 1, count * rounds)
        digits = leaves * _denominator(pair).bit_length()
        if number > _MAX_OUTCOMES or digits * (number + _POINT_COST * points) > _MAX_WORK:
            return None
    return _composed(tuple(counts.items()), rounds)


@lru_cache(maxsize=64)
def _denominator(pair: ElementaryPair) -> int:
    """Return the common denominator of all probabilities of a pair."""
    return math.lcm(*(mass.denominator for outcome in pair.exact_outcomes or () for mass in outcome))


@lru_cache(maxsize=2)
def _composed(counts: tuple[tuple[ElementaryPair, int], ...], rounds: int) -> dict[Direction, FewOutcomes]:
    found: _Outcomes = [(1, 1)]
    denominator = 1
    for pair, count in counts:
        scale, power = _denominator(pair), count * rounds
        denominator *= scale**power
        powers = _power([(int(a * scale), int(b * scale)) for a, b in pair.exact_outcomes or ()], power)
        found = [(a * x, b * y) for a, b in found for x, y in powers]
    sides = found, [(b, a) for a, b in found]
    return {direction: FewOutcomes(side, denominator) for direction, side in zip(Direction, sides, strict=True)}


def _power(single: _Outcomes, power: int, base: tuple[int, int] = (1, 1)) -> _Outcomes:
    """Return the outcomes of so many rounds by how often each outcome of one occurs, times a base."""
    first, *others = single
    if not others:
        return [(base[0] * first[0] ** power, base[1] * first[1] ** power)]
    if len(others) == 1:
        return list(zip(*(_terms(base[side], first[side], others[0][side], power) for side in (0, 1)), strict=True))
    result: list[tuple[int, int]] = []
    for often in range(power + 1):
        own, other = (base[side] * math.comb(power, often) * first[side] ** often for side in (0, 1))
        result += _power(others, power - often, (own, other))
    return result


def _terms(base: int, one: int, two: int, power: int) -> list[int]:
    """Return the terms of (one + two)^power, times a base; the divisions leave no remainder."""
    if two == 0:
        return [0] * power + [base * one**power]
    terms = [base * two**power]
    for often in range(power):
        terms.append(terms[-1] * (one * (power - often)) // (two * (often + 1)))
    return terms
