"""Fourier transforms and what is assumed of their rounding: the only module that calls them.

The assumption, in one place
----------------------------
scipy's ``rfft`` and ``irfft`` at a length N are taken to have, along every path from an input to an output, a relative
error of at most `transform_error` (N). For Cooley-Tukey butterflies of radix 2 with correctly rounded twiddles Higham
(Accuracy and Stability of Numerical Algorithms, 2nd edition, Theorem 24.2) shows (u + 4√2 u + O(u²)) k = 6.7 u k for
N = 2^k; Brisebarre, Joldes, Muller, Naneş & Picot (2020) show less. The kernel asks for 7 u k and takes twice that.
The tests compare it with exact integer arithmetic.
"""

from pbdist.mechanisms import UNIT_ROUNDOFF

__all__ = ["transform_error"]


def transform_error(length: int) -> float:
    """Bound on the relative error of one transform of that length; see the module's assumption."""
    return 2.0 * 7.0 * UNIT_ROUNDOFF * max(1, (length - 1).bit_length())
