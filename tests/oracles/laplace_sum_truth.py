"""The sum of two Laplace noises by its density as it is written down, in as many digits as that loses and 60 more."""

import math
from fractions import Fraction

import mpmath

from pbdist.mechanisms import LaplaceSum

__all__ = ["LaplaceSumTruth"]


class LaplaceSumTruth:
    """Density, masses, losses and δ of one round of N against N + sensitivity; call it within its `digits`."""

    def __init__(self, pair: LaplaceSum) -> None:
        first, second = (Fraction(scale) for scale in pair.scales)
        lost = 2.0 * math.log10(first / (first - second)) if first > second else 0.0
        #: mpmath's digits: exponentials as small as e^-700 lie beside 1.
        self.digits = 60 + math.ceil(lost)
        with self:
            self.b1, self.b2, self.s = (mpmath.mpf(value) for value in (*pair.scales, pair.sensitivity))

    def __enter__(self) -> "LaplaceSumTruth":
        self._context = mpmath.workdps(self.digits)
        self._context.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(*error)

    def density(self, x: mpmath.mpf) -> mpmath.mpf:
        x = abs(x)
        if self.b1 == self.b2:
            return (1 + x / self.b1) * mpmath.exp(-x / self.b1) / (4 * self.b1)
        parts = self.b1 * mpmath.exp(-x / self.b1) - self.b2 * mpmath.exp(-x / self.b2)
        return parts / (2 * (self.b1**2 - self.b2**2))

    def above(self, x: mpmath.mpf) -> mpmath.mpf:
        """P(N > x)."""
        if x < 0:
            return 1 - self.above(-x)
        if x == mpmath.inf:
            return mpmath.mpf(0)
        if self.b1 == self.b2:
            return mpmath.exp(-x / self.b1) * (2 + x / self.b1) / 4
        parts = self.b1**2 * mpmath.exp(-x / self.b1) - self.b2**2 * mpmath.exp(-x / self.b2)
        return parts / (2 * (self.b1**2 - self.b2**2))

    def mass(self, low: mpmath.mpf, high: mpmath.mpf) -> mpmath.mpf:
        """P(low < N < high), from the side on which it is small."""
        if low > -high:
            return self.above(low) - self.above(high)
        return self.above(-high) - self.above(-low)

    def loss(self, x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.log(self.density(x) / self.density(x - self.s))

    def last_above(self, epsilon: mpmath.mpf) -> mpmath.mpf | None:
        """Up to which x the loss exceeds ε, by bisection; None where it does nowhere."""
        if epsilon >= self.s / self.b1:
            return None
        if epsilon <= -self.s / self.b1:
            return mpmath.inf
        low, high = -self.b1, self.s / 2 if epsilon >= 0 else self.b1 + self.s
        while self.loss(low) <= epsilon:
            low, high = 2 * low, low
        while self.loss(high) > epsilon:
            low, high = high, 2 * high
        # δ and masses within a loss error need half of the digits: at the place of ε, δ does not depend on the place.
        for _ in range(120):
            middle = (low + high) / 2
            low, high = (middle, high) if self.loss(middle) > epsilon else (low, middle)
        return low

    def delta(self, epsilon: mpmath.mpf) -> mpmath.mpf:
        """δ of one round, in either direction."""
        x = self.last_above(epsilon)
        if x is None:
            return mpmath.mpf(0)
        return self.mass(-mpmath.inf, x) - mpmath.exp(epsilon) * self.mass(-mpmath.inf, x - self.s)
