"""Exact δ as balls of arb, for pairs that are small or have a closed form: nothing here comes from pbdist.

A float that is given is the number that it is. Sums and differences of given numbers are taken as fractions; only then
are functions applied, with as many bits as a comparison needs. The exponents of arb have no bounds, so that masses of
1e-300 to the 64th power are ordinary numbers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import arb, ctx, fmpq

#: P_A and P_B of one outcome.
Outcome = tuple[arb, arb]
#: Outcomes with the current number of bits.
Outcomes = Callable[[], list[Outcome]]

#: Bits of the first attempt and of the last.
FEWEST_BITS, MAX_BITS = 320, 5120


def ball(value: Fraction) -> arb:
    """A fraction, rounded to the current number of bits."""
    return arb(fmpq(value.numerator, value.denominator))


def at_least_zero(value: arb) -> arb:
    """max(0, value)."""
    if value > 0:
        return value
    if value <= 0:
        return arb(0)
    half = arb(value.upper()) / 2
    return arb(half.mid(), half.abs_upper())


class Truth(ABC):
    """What is known of δ of some pair after some compositions."""

    #: Whether more bits tell more.
    sharp = True

    @abstractmethod
    def delta(self, epsilon: float, axis: int) -> arb:
        """A ball that holds δ(ε) of A from B (axis 0) or of B from A (axis 1), with the current number of bits."""

    @property
    def equal(self) -> bool:
        """Whether both distributions are the same, so that δ is 0."""
        return False


# -- finite pairs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finite:
    """One round of a finite pair: exact fractions, or balls where masses are irrational."""

    exact: tuple[tuple[Fraction, Fraction], ...] | None
    approximate: Outcomes | None = None

    def outcomes(self) -> list[Outcome]:
        if self.exact is not None:
            return [(ball(a), ball(b)) for a, b in self.exact]
        assert self.approximate is not None
        return self.approximate()

    @property
    def size(self) -> int:
        return len(self.exact) if self.exact is not None else len(self.outcomes())


class FiniteTruth(Truth):
    """δ of a sequence of finite pairs, by all the ways in which outcomes can occur."""

    def __init__(self, factors: Sequence[tuple[Finite, int]]) -> None:
        self.factors = list(factors)
        self._composed = lru_cache(maxsize=8)(self._compose)

    @property
    def equal(self) -> bool:
        return all(f.exact is not None and all(a == b for a, b in f.exact) for f, _ in self.factors)

    def _compose(self, bits: int) -> list[Outcome]:  # noqa: ARG002
        merged: list[Outcome] = [(arb(1), arb(1))]
        for factor, count in self.factors:
            power = _power(factor.outcomes(), count)
            merged = [(a * c, b * d) for a, b in merged for c, d in power]
        return merged

    def composed(self) -> list[Outcome]:
        """All outcomes, those of equal counts of everything as one."""
        found: list[Outcome] = self._composed(ctx.prec)
        return found

    def delta(self, epsilon: float, axis: int) -> arb:
        y = arb(epsilon).exp()
        total = arb(0)
        for a, b in self.composed():
            total += at_least_zero(a - y * b if axis == 0 else b - y * a)
        return total


def _power(outcomes: Sequence[Outcome], count: int) -> list[Outcome]:
    if count == 1:
        return list(outcomes)
    (a, b), *others = outcomes
    if not others:
        return [(a**count, b**count)]
    result = []
    ways = 1
    x, y = arb(1), arb(1)
    for k in range(count + 1):
        if not (_is_zero(x) and _is_zero(y)):
            result += [(ways * x * c, ways * y * d) for c, d in _power(others, count - k)]
        x, y = x * a, y * b
        ways = ways * (count - k) // (k + 1)
    return [(a, b) for a, b in result if not (_is_zero(a) and _is_zero(b))]


def _is_zero(value: arb) -> bool:
    return bool(value == 0)


class TwoOutcomesTruth(Truth):
    """δ of very many rounds with two outcomes, by binomial tails."""

    def __init__(self, pair: tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]], rounds: int) -> None:
        (a, b), (c, d) = pair
        # The first outcome is the one that speaks for A.
        self.p, self.q = ((a, c), (b, d)) if a * d >= c * b else ((c, a), (d, b))
        self.rounds = rounds

    @property
    def equal(self) -> bool:
        return self.p == self.q

    def delta(self, epsilon: float, axis: int) -> arb:
        p, q = (self.p, self.q) if axis == 0 else (self.q[::-1], self.p[::-1])
        y = arb(epsilon).exp()
        best = arb(0)
        for least in self._candidates(p, q, epsilon):
            value = _tail(p, self.rounds, least) - y * _tail(q, self.rounds, least)
            best = best.max(at_least_zero(value))
        return best

    def _candidates(self, p: tuple[Fraction, ...], q: tuple[Fraction, ...], epsilon: float) -> set[int]:
        r = self.rounds
        chosen = {0, 1, r - 1, r}
        if min(*p, *q) > 0:
            first, second = (ball(a).log() - ball(b).log() for a, b in zip(p, q, strict=True))
            if first > second:
                k = (arb(epsilon) - r * second) / (first - second)
                middle = int(float(k.mid())) if abs(float(k.mid())) < 4 * r else 0
                chosen |= {min(max(middle + step, 0), r) for step in (-2, -1, 0, 1, 2)}
        return chosen


def _tail(p: tuple[Fraction, ...], rounds: int, least: int) -> arb:
    """Mass of at least so many first outcomes."""
    first, second = p
    whole = ball(first + second) ** rounds
    if least <= 0:
        return whole
    if first == 0:
        return arb(0)
    if second == 0:
        return ball(first) ** rounds
    if least > rounds * float(first):
        return _sum_from(first, second, rounds, least)
    return whole - _sum_from(second, first, rounds, rounds - least + 1)


def _sum_from(first: Fraction, second: Fraction, rounds: int, least: int) -> arb:
    """The same, summed upwards from the first term, above the mean."""
    x, z = ball(first), ball(second)
    ways = (arb(rounds + 1).lgamma() - arb(least + 1).lgamma() - arb(rounds - least + 1).lgamma()).exp()
    term = ways * x**least * z ** (rounds - least)
    total, odds = arb(0), x / z
    for k in range(least, rounds + 1):
        total += term
        ratio = odds * (rounds - k) / (k + 1)
        if k % 32 == 0 and ratio < 1:
            rest = term * ratio / (1 - ratio)
            if rest < total * arb(2) ** -ctx.prec:
                return total + arb(0, rest.abs_upper())
        term = term * ratio
    return total


# -- comparisons -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What the truth says of a bound: whether it holds, or that no number of bits decided it."""

    holds: bool
    decided: bool
    truth: arb


def judged(truth: Truth, epsilon: float, axis: int, test: Callable[[arb], bool | None]) -> Verdict:
    """Ask a test of more and more exact truths until it says yes or no."""
    bits = FEWEST_BITS
    while True:
        with ctx.workprec(bits):
            # Of masses that sum to a little more than 1 as well, δ is a probability.
            value = truth.delta(epsilon, axis).min(arb(1))
            answer = test(value)
        if answer is not None:
            return Verdict(answer, True, value)
        if not truth.sharp or bits >= MAX_BITS:
            # Equal as far as can be told, as 1 and 1 are.
            return Verdict(True, False, value)
        bits *= 4


def is_lower(bound: float) -> Callable[[arb], bool | None]:
    def test(truth: arb) -> bool | None:
        return True if arb(bound) <= truth else False if arb(bound) > truth else None

    return test


def is_upper(bound: float) -> Callable[[arb], bool | None]:
    def test(truth: arb) -> bool | None:
        return True if arb(bound) >= truth else False if arb(bound) < truth else None

    return test


def is_log_lower(bound: float) -> Callable[[arb], bool | None]:
    def test(truth: arb) -> bool | None:
        if truth <= 0:
            return False
        return is_lower(bound)(truth.log()) if truth > 0 else None

    return test


def is_log_upper(bound: float) -> Callable[[arb], bool | None]:
    def test(truth: arb) -> bool | None:
        if truth <= 0:
            return True
        return is_upper(bound)(truth.log()) if truth > 0 else None

    return test
