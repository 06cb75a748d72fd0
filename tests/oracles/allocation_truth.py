"""Random allocation by definition: enumerated for finite distributions, integrated for Gaussian noise."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import mpmath

__all__ = ["enumerated_delta", "gaussian_delta"]


def enumerated_delta(
    a: Sequence[Fraction], b: Sequence[Fraction], steps: int, exp_epsilon: Fraction
) -> tuple[Fraction, Fraction]:
    """Return the hockey-stick divergences of both directions, outcome by outcome.

    One of the steps, drawn uniformly, has the distribution `a`, the others have `b`; against all of them having `b`.
    """
    forth = back = Fraction(0)
    for outcomes in itertools.combinations_with_replacement(range(len(a)), steps):
        number = math.factorial(steps)
        for repeats in (outcomes.count(outcome) for outcome in set(outcomes)):
            number //= math.factorial(repeats)
        masses = [b[outcome] for outcome in outcomes]
        other = math.prod(masses)
        own = sum(
            (a[outcome] * math.prod(masses[:step] + masses[step + 1 :]) for step, outcome in enumerate(outcomes)),
            start=Fraction(0),
        )
        own /= steps
        forth += number * max(own - exp_epsilon * other, Fraction(0))
        back += number * max(other - exp_epsilon * own, Fraction(0))
    return forth, back


def gaussian_delta(scale: float, steps: int, epsilon: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Return both divergences of Gaussian noise of sensitivity 1 in a few steps, with an error of some last digits.

    With Y = e^(z/scale - 1/(2 scale²)), z standard normal, they are E (ΣY / steps - e^ε)_+ and
    E (1 - e^ε ΣY / steps)_+.
    """
    mu = 1 / mpmath.mpf(scale)
    forth = _excess(steps, steps * mpmath.exp(epsilon), mu)
    below = steps * mpmath.exp(-epsilon)
    # (x - ΣY)_+ is (ΣY - x)_+ less ΣY - x.
    back = _excess(steps, below, mu) - (steps - below)
    return forth / steps, back * mpmath.exp(epsilon) / steps


def _excess(steps: int, strike: mpmath.mpf, mu: mpmath.mpf) -> mpmath.mpf:
    """Return E (ΣY - strike)_+: of one ratio that of Black and Scholes, of more an integral over the last one."""
    if strike <= 0:
        return steps - strike
    middle = mpmath.log(strike) / mu
    if steps == 1:
        return mpmath.ncdf(mu / 2 - middle) - strike * mpmath.ncdf(-mu / 2 - middle)
    # Where the last ratio alone is the strike, the integrand has no power series.
    edge = middle + mu / 2
    ends = sorted(
        {-12, -4, 0, mu, mu + 4, mu + 12, *([edge - 2, edge - mpmath.mpf(0.2), edge] if -12 < edge < mu + 12 else [])}
    )
    return mpmath.quad(
        lambda z: mpmath.npdf(z) * _excess(steps - 1, strike - mpmath.exp(mu * z - mu * mu / 2), mu), ends
    )
