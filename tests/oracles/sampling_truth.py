"""δ of noise on samples with mpmath: thresholds by bisection, tails in closed form, two rounds by quadrature.

Slow and obvious: nothing here uses the lemmas by which the pairs are computed.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import comb

import mpmath
from mpmath import mpf

__all__ = ["LabelledTruth", "ShiftTruth", "cut_exactly"]


class ShiftTruth:
    """A = Σ weights[i] (N + shifts[i]) against B = N, N Gaussian or Laplace noise: the loss does not fall along x."""

    def __init__(self, kind: str, scale: float, shifts: Sequence[float], weights: Sequence[float | Fraction]) -> None:
        self.kind, self.scale = kind, mpf(scale)
        exact = [Fraction(weight) for weight in weights]
        total = sum(exact)
        self.shifts = [mpf(shift) for shift in shifts]
        self.weights = [mpf(w.numerator) / w.denominator for w in (each / total for each in exact)]

    def density(self, x: mpf) -> mpf:
        """Density of the noise about 0."""
        if self.kind == "Laplace":
            return mpmath.exp(-abs(x) / self.scale) / (2 * self.scale)
        return mpmath.exp(-((x / self.scale) ** 2) / 2) / (self.scale * mpmath.sqrt(2 * mpmath.pi))

    def above(self, x: mpf) -> mpf:
        """P(N > x)."""
        if self.kind == "Laplace":
            tail = mpmath.exp(-abs(x) / self.scale) / 2
            return tail if x >= 0 else 1 - tail
        return mpmath.erfc(x / self.scale / mpmath.sqrt(2)) / 2

    def loss(self, x: mpf) -> mpf:
        """ln of the ratio of the densities."""
        if self.kind == "Laplace":
            gains = [(abs(x) - abs(x - shift)) / self.scale for shift in self.shifts]
        else:
            gains = [shift * (2 * x - shift) / (2 * self.scale**2) for shift in self.shifts]
        top = max(gains)
        return top + mpmath.log(mpmath.fsum(w * mpmath.exp(g - top) for w, g in zip(self.weights, gains, strict=True)))

    def threshold(self, epsilon: mpf) -> mpf:
        """The x from which on the loss exceeds ε; infinite where it always or never does."""
        low, high = -self.scale, max(self.shifts) + self.scale
        if self.kind == "Laplace":
            low, high = min(mpf(0), *self.shifts), max(self.shifts)
            if self.loss(low) > epsilon:
                return -mpmath.inf
            if self.loss(high) <= epsilon:
                return mpmath.inf
        else:
            if min(self.shifts) == 0:
                weight = mpmath.fsum(w for w, s in zip(self.weights, self.shifts, strict=True) if s == 0)
                if epsilon <= mpmath.log(weight):
                    return -mpmath.inf
            while self.loss(low) > epsilon:
                low *= 2
            while self.loss(high) <= epsilon:
                high *= 2
        for _ in range(mpmath.mp.prec - 10):
            middle = (low + high) / 2
            low, high = (low, middle) if self.loss(middle) > epsilon else (middle, high)
        return (low + high) / 2

    def _mixed(self, tail: Callable[[mpf], mpf]) -> mpf:
        return mpmath.fsum(w * tail(s) for w, s in zip(self.weights, self.shifts, strict=True))

    def delta(self, epsilon: float | mpf, axis: int = 0) -> mpf:
        """δ of one round, of A||B (axis 0) or B||A (axis 1), for ε of either sign."""
        e = mpf(epsilon)
        if axis == 0:
            x = self.threshold(e)
            return self._mixed(lambda s: self.above(x - s)) - mpmath.exp(e) * self.above(x)
        x = self.threshold(-e)
        return self.above(-x) - mpmath.exp(e) * self._mixed(lambda s: self.above(s - x))

    def two_rounds(self, epsilon: float, axis: int = 0) -> mpf:
        """δ of two rounds: that of one round at what the loss of the other one leaves of ε, integrated."""
        e, sign = mpf(epsilon), 1 if axis == 0 else -1
        reach = 12 * self.scale if self.kind == "Gaussian" else 45 * self.scale
        low, high = min(mpf(0), *self.shifts), max(self.shifts)
        ends = [self.loss(low), self.loss(high)] if self.kind == "Laplace" else [mpf(0)]
        if self.kind != "Laplace" and min(self.shifts) == 0:
            ends.append(mpmath.log(mpmath.fsum(w for w, s in zip(self.weights, self.shifts, strict=True) if s == 0)))
        # Where the other loss would have to be that of an end.
        turns = {self.threshold(side * (e + other * end)) for side in (1, -1) for other in (1, -1) for end in ends}
        knots = sorted({low, high, *self.shifts, *turns, low - reach / 4, high + reach / 4})
        inner = [x for x in knots if low - reach < x < high + reach]

        def own(x: mpf) -> mpf:
            return self._mixed(lambda s: self.density(x - s)) if axis == 0 else self.density(x)

        return mpmath.quad(
            lambda x: own(x) * self.delta(e - sign * self.loss(x), axis),
            [low - reach, *inner, high + reach],
            maxdegree=4,
        )


class LabelledTruth:
    """One of several pairs, each with a probability, and it is seen which."""

    def __init__(self, parts: Sequence[tuple[Fraction, ShiftTruth]]) -> None:
        self.parts = [(mpf(weight.numerator) / weight.denominator, truth) for weight, truth in parts]

    def delta(self, epsilon: float | mpf, axis: int = 0) -> mpf:
        """δ of one round."""
        return mpmath.fsum(weight * truth.delta(epsilon, axis) for weight, truth in self.parts)


def cut_exactly(examples: int, rate: Fraction, batch: int) -> tuple[Fraction, Fraction]:
    """The probability that `batch` or more of the others are drawn, and that the record is used then and drawn."""
    others = examples - 1
    terms = {k: comb(others, k) * rate**k * (1 - rate) ** (others - k) for k in range(batch, others + 1)}
    return sum(terms.values(), Fraction(0)), sum(
        (term * rate * Fraction(batch, k + 1) for k, term in terms.items()), Fraction(0)
    )
