r"""Rényi divergences that have a closed form: those of Gaussian noise, and of discrete Gaussian noise.

*Gaussian*, untruncated. D_α = α s² / (2 scale²) for every α >= 1, in both directions (Gil, Alajaji & Linder 2013).

*Discrete Gaussian*. Let a = 1 / (2 scale²), c = (α - 1) s, and Θ(c) = Σ_k e^(-a (k + c)²) over the whole numbers. With
P_A(k) = e^(-a k²) / Θ(0) and P_B(k) = e^(-a (k - s)²) / Θ(0), completing the square,

    α k² + (1 - α) (k - s)² = (k + (α - 1) s)² - α (α - 1) s²,

so that Σ P_A^α P_B^(1-α) = e^(a α (α - 1) s²) Θ(c) / Θ(0), and for α > 1

    D_α = a α s² + ln(Θ(c) / Θ(0)) / (α - 1).

The reflection k -> s - k gives the other direction the same. For α = 1, D_1 = a Σ_k P_A(k) (s² - 2 s k) = a s², as P_A
is even. Θ has period 1 and is even: c may be replaced by its distance to the nearest whole number, at most 1/2. Where
(α - 1) s is whole, that is 0 and D_α = a α s². Elsewhere that is an upper bound, as Θ <= Θ(0) by the second form below
(Canonne, Kamath & Steinke 2020, Proposition 5). The ratio is taken in the form whose series is short, and in which
nothing cancels, so that it keeps its relative accuracy for α next to 1:

- Scales up to 1/2, a >= 2. Pairing k and -k, Θ(c) = e^(-a c²) (1 + 2 Σ_(k>=1) e^(-a k²) cosh(2 a k c)); with
  2 (cosh x - 1) = e^x (1 - e^-x)²,

      Θ(c) / Θ(0) = e^(-a c²) (1 + X),  X = Σ_(k>=1) e^(-a k (k - 2c)) (1 - e^(-2 a k c))² / (1 + 2 Σ e^(-a k²)).

  The k-th summand is at most k² e^(-a k (k - 1)) times the first one, as 1 - y^k <= k (1 - y) and c <= 1/2.
- Scales above 1/2, q = 2 π² scale² > 4.9. By Poisson's summation formula Θ(c) is proportional to
  1 + 2 Σ_(j>=1) e^(-q j²) cos(2 π j c); with 1 - cos x = 2 sin²(x / 2),

      Θ(c) / Θ(0) = 1 - Y,  Y = 4 Σ_(j>=1) e^(-q j²) sin²(π j c) / (1 + 2 Σ e^(-q j²)).

  The j-th summand is at most j² e^(-q (j² - 1)) times the first one.

*Rounding.* a, α, c and s are fractions, and so is what is added to the logarithm; only ln(1 + X) and ln(1 - Y) are
computed in floats. Eight terms leave out less than 2^-100 of X or Y.

- Of the first summand of X, the exponent E = a (1 - 2c) rounds once, so that its exponential is off by 8u + u E; the
  square of 1 - e^(-2 a c) by 21u. The k-th has an exponent larger by some d >= 2k (k - 1) and is at most k² e^-d times
  the first one: the errors of all further ones, 29u + u (E + d) each, add less than 4u + u E.
- Of Y, the exponent q j² is off by 5u and e^-q by 8u + 5u q. What π j c is off by, 4u, moves sin²(π j c) by at most
  8u π² j² c², hence by 20u j² sin²(π c), as sin(π c) >= 2c; the sine itself and its square add 10u. Those further out
  are less than e^-14 j² of it.

The quotient, the sums and the logarithm add less than 40u; ln(1 - Y), with Y < 0.03, passes an error on by a factor
of less than 1.1, ln(1 + X) by less than 1. All is within 64u (2 + E) and 64u (2 + q); what underflows is below 1e-300.
"""

import math
from fractions import Fraction

from pbdist.mechanisms import UNIT_ROUNDOFF, DiscreteGaussian, ElementaryPair, Gaussian, Reversed

__all__ = ["closed_form_bounds"]

#: Up to this scale the theta series itself is the shorter one, above it its dual.
_LARGE_SCALE = 0.5
_THETA_TERMS = 8
#: More than what an underflow hides.
_HIDDEN = 1e-300


def closed_form_bounds(pair: ElementaryPair, alpha: float) -> tuple[float, float] | None:
    """Return lower and upper bound on the divergence of order α >= 1, of either direction; None without closed form.

    Both are rounded outwards by one float, and apart by the rounding of a theta function where (α - 1) s is not whole.
    """
    if isinstance(pair, Reversed):
        return closed_form_bounds(pair.pair, alpha)
    if isinstance(pair, Gaussian) and pair.truncate is None:
        exact = _continuous(pair, alpha)
        return _outwards(exact, exact)
    if isinstance(pair, DiscreteGaussian):
        return _outwards(*_discrete(pair, alpha))
    return None


def _continuous(pair: Gaussian | DiscreteGaussian, alpha: float) -> Fraction:
    """α s² / (2 scale²)."""
    return Fraction(alpha) * (Fraction(pair.sensitivity) / Fraction(pair.scale)) ** 2 / 2


def _discrete(pair: DiscreteGaussian, alpha: float) -> tuple[Fraction, Fraction]:
    whole = _continuous(pair, alpha)
    tilt = Fraction(alpha) - 1
    shift = tilt * pair.sensitivity
    distance = abs(shift - round(shift))
    if distance == 0:
        return whole, whole
    if pair.scale <= _LARGE_SCALE:
        rate = 1 / (2 * Fraction(pair.scale) ** 2)
        low, high = _gain(rate, distance)
        whole -= rate * distance**2 / tilt
        return whole + low / tilt, whole + high / tilt
    low, high = _deficit(pair.scale, float(distance))
    return whole - high / tilt, whole - low / tilt


def _gain(rate: Fraction, distance: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds on ln(1 + X), of scales up to 1/2; `distance` is c in (0, 1/2]."""
    orders = range(_THETA_TERMS, 0, -1)
    terms = (
        math.exp(-float(rate * k * (k - 2 * distance))) * math.expm1(-float(2 * rate * k * distance)) ** 2
        for k in orders
    )
    total = 1.0 + 2.0 * math.fsum(math.exp(-float(rate * k * k)) for k in orders)
    return _around(math.log1p(math.fsum(terms) / total), float(rate * (1 - 2 * distance)))


def _deficit(scale: float, distance: float) -> tuple[Fraction, Fraction]:
    """Bounds on -ln(1 - Y), of scales above 1/2; `distance` is c in (0, 1/2]."""
    orders = range(_THETA_TERMS, 0, -1)
    rate = 2.0 * math.pi * math.pi * (scale * scale)
    terms = (4.0 * math.exp(-rate * (j * j)) * math.sin(math.pi * (j * distance)) ** 2 for j in orders)
    total = 1.0 + 2.0 * math.fsum(math.exp(-rate * (j * j)) for j in orders)
    return _around(-math.log1p(-math.fsum(terms) / total), rate)


def _around(value: float, exponent: float) -> tuple[Fraction, Fraction]:
    """Bounds on a value that is at least 0 and off by 64u (2 + exponent) of itself, or by an underflow."""
    error = 64.0 * UNIT_ROUNDOFF * (2.0 + exponent) * value + _HIDDEN
    return max(Fraction(value) - Fraction(error), Fraction(0)), Fraction(value) + Fraction(error)


def _outwards(lower: Fraction, upper: Fraction) -> tuple[float, float]:
    """Fractions become the nearest float; the next one is beyond them."""
    return math.nextafter(float(lower), 0.0), math.nextafter(float(upper), math.inf)
