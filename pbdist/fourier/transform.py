"""Fourier transforms and what is assumed of their rounding: the only module that calls them.

Let N = 2^a 3^b 5^c be a length that `good_length` gives, u = 2^-53 and ε = `transform_error` (N). scipy's ``rfft`` and
``irfft`` at that length are taken to err

1. by at most ε times the 2-norm of the exact result, in the 2-norm, and
2. by at most ε times the sum of the moduli of the terms, in every single element (every path from an input to an
   output errs by at most ε relative to its weight).

Why: scipy's Cooley-Tukey passes are butterflies of radix 2, 3, 4 or 5 after a multiplication with twiddle factors. A
complex product errs by √5 u (Brent, Percival & Zimmermann 2007) and its twiddle factor, itself a product of two
rounded tabulated ones, by less than 3.7 u: together less than 6 u. The additions of a butterfly of radix 2 add u, as in
Higham (Accuracy and Stability of Numerical Algorithms, 2nd edition, Theorem 24.2) and Brisebarre, Joldes, Muller, Naneş
& Picot (2020), and those of radix 4 two u. Radix 3 (an addition, a multiplication by a rounded constant, two additions)
adds 4.2 u in the first sense and 6 u in the second, radix 5 (one addition more) 6.5 u and 7.8 u. So one pass costs at
most 7, 12, 8 and 13.8 u for radix 2, 3, 4 and 5; that is 7, 7.6, 4 and 6 u for each bit of N, second-order terms aside.
The kernel asks for 7.6 u for each bit and takes 14 u, 1.8 times as much, which also covers the division by N; the
tests measure the true margin against exact arithmetic.
"""

from typing import cast

import numpy as np
import numpy.typing as npt
from numpy import complex128
from scipy import fft

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray


def good_length(n: int) -> int:
    """Smallest length 2^a 3^b 5^c that is at least `n`, for which `transform_error` holds."""
    return int(fft.next_fast_len(n, real=True))


def forward(x: FloatArray, length: int) -> npt.NDArray[complex128]:
    """Transform the last axis, padded by zeros to `length`, into its length // 2 + 1 non-negative frequencies.

    One thread and a fixed order of operations: the same input gives the same bits.
    """
    return cast("npt.NDArray[complex128]", fft.rfft(x, length, axis=-1, workers=1))


def inverse(spectrum: npt.NDArray[complex128], length: int) -> FloatArray:
    """Transform back: the real vectors of `length` whose `forward` transform is `spectrum`, along the last axis."""
    return cast("FloatArray", fft.irfft(spectrum, length, axis=-1, workers=1))


#: Largest relative error of one operation on ``numpy.longdouble``, which both transforms take and give as well.
EXTENDED_ROUNDOFF = float(np.finfo(np.longdouble).eps) / 2.0


def transform_error(length: int, unit_roundoff: float = UNIT_ROUNDOFF) -> float:
    """Bound on the relative error of one transform of a length 2^a 3^b 5^c; see the module's assumption."""
    return 2.0 * 7.0 * unit_roundoff * max(1, (length - 1).bit_length())
