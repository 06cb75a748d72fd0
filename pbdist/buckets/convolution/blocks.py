"""Chunks, their spectra and the output blocks they add up to.

The bound
---------
Let u = 2^-53, ε = `transform_error` (L) for a transform of length L = 2c, and A, B the chunks of x and y after they
were tilted by w(i) = 2^(τ i + o) >= 1. Block s collects the m pairs (p, s - p) of its window. In units of the tilted
output each pair adds at most ‖A‖₂‖B‖₂ to any element, by Cauchy-Schwarz, and so

- the two transforms err by (2ε + ε²) ‖A‖₂‖B‖₂ L in the 1-norm over the frequencies, after Parseval,
- the complex products by 3u, their sum over the pairs by m u, relative to the same norms,
- the inverse transform by ε times the 1-norm of its input over L, in each element,
- the tilts, each of them off by at most 8u (see `_tilt`), and their multiplications by 3 (8u + u),
- the addition of two neighbouring blocks by u times each.

Together (3ε + (m + 40) u) 1.001 Σ ‖A‖₂‖B‖₂ / w₂(j) for element j, where w₂ is the tilt of the output; second-order
terms are far below a thousandth since ε < 1e-12. Pairs left out are non-negative and add what `Run.neglected` says.

Underflow: the vectors are scaled to a largest element of about 2^300, and one rounding to a subnormal number moves a
value by at most 2^-1075. A transform makes at most 4 of those for each of its log2 L passes and each of L elements, and
its input is at most c w off; its partner is at most 2^300 c w. Over m pairs an element is therefore moved by at most
2^-1074 · 4 m (2^300 c w) (4 L log2 L + c w) in units of the tilted output, w the largest tilt of a chunk.
"""

import math

import numpy as np
import numpy.typing as npt

from pbdist.buckets.convolution.plan import Plan, Run
from pbdist.buckets.convolution.transform import forward, inverse, transform_error
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

__all__ = ["HEADROOM_BITS", "convolve_blocks", "norm_bits"]

_Spectra = npt.NDArray[np.complex128]

#: The vectors that come in have a largest element of about 2 to this power.
HEADROOM_BITS = 300
#: Elements that are transformed at once: they stay in a core's cache, ..
_BATCH = 1 << 16
#: .. and so many transforms at least, which share their twiddle factors.
_BATCH_ROWS = 4
#: Products held while they are summed: they stay in a core's cache.
_SCRATCH = 1 << 15


def convolve_blocks(chunks_x: FloatArray, chunks_y: FloatArray, plan: Plan) -> tuple[FloatArray, FloatArray]:
    """Add up the blocks of a plan.

    Parameters
    ----------
    chunks_x, chunks_y : ndarray, shapes (P, c) and (Q, c)
        The vectors, cut and padded; the largest elements are about 2^`HEADROOM_BITS`. Pass the same object twice to
        save transforms.
    plan : Plan
        What to do.

    Returns
    -------
    values, bound : ndarray, shape ((P + Q) c,)
        Elementwise ``|values - exact| <= bound``, by the module's docstring.
    """
    chunk = chunks_x.shape[1]
    shape = (chunks_x.shape[0] + chunks_y.shape[0], chunk)
    values, bound = np.zeros(shape), np.zeros(shape)
    for run in plan.runs:
        _add_run(values, bound, chunks_x, chunks_y, run)
    return values.reshape(-1), bound.reshape(-1)


def norm_bits(rows: FloatArray) -> FloatArray:
    """Log2 of an upper bound on the 2-norm of each row; minus infinity for a row of zeros."""
    _, exponents = np.frexp(rows.max(axis=1))
    if exponents.min() < -400:
        # No square may vanish. Rounding the power down keeps it finite for subnormal numbers.
        exponents = np.maximum(exponents, -1000)
        rows = rows * np.exp2(-exponents.astype(np.float64))[:, None]
    else:
        exponents = np.zeros_like(exponents)
    with np.errstate(divide="ignore"):
        half = 0.5 * np.log2(np.einsum("pi,pi->p", rows, rows))
    # The sum of squares errs by (c + 2) u, the logarithms by less than 2^-40.
    return np.asarray(half + exponents + 2.0 * rows.shape[1] * UNIT_ROUNDOFF + 2.0**-39)


def _tilt(tilt: float, size: int, shift: int) -> FloatArray:
    """Return 2^(τ (i - shift)), i < size: the exponents are exact, and ``exp2`` is taken to err by at most 8u.

    (NumPy documents 4 units in the last place at most, C libraries 1.)
    """
    return np.exp2(tilt * np.arange(-shift, size - shift, dtype=np.float64))


def _add_run(values: FloatArray, bound: FloatArray, chunks_x: FloatArray, chunks_y: FloatArray, run: Run) -> None:
    chunk = chunks_x.shape[1]
    same = chunks_x is chunks_y
    # A falling tilt starts at its largest value, so that none is below 1 and no way back is above.
    shift = chunk - 1 if run.tilt < 0.0 else 0
    weights = None if run.tilt == 0.0 else _tilt(run.tilt, chunk, shift)
    back = np.ones(1) if weights is None else _tilt(-run.tilt, 2 * chunk, 2 * shift)
    start_x, start_y = _starts(run)
    spectra_x, norms_x = _spectra(chunks_x[start_x[0] : start_x[1]], weights)
    # The windows of a square are symmetric: both sides have the same chunks.
    spectra_y, norms_y = (spectra_x, norms_x) if same else _spectra(chunks_y[start_y[0] : start_y[1]], weights)
    blocks = range(run.start, run.stop)
    windows = [
        (slice(p - start_x[0], q - start_x[0] + 1), slice(s - q - start_y[0], s - p - start_y[0] + 1))
        for s, p, q in zip(blocks, run.first.tolist(), run.last.tolist(), strict=True)
    ]
    width = _widths(windows, norms_x, norms_y, run, chunk)
    batch = _batch_rows(chunk)
    sums = np.empty((min(batch, len(blocks)), chunk + 1), dtype=np.complex128)
    scratch = np.empty(_SCRATCH, dtype=np.complex128)
    for begin in range(0, len(blocks), batch):
        part = slice(begin, min(begin + batch, len(blocks)))
        here = slice(run.start + part.start, run.start + part.stop)
        after = slice(here.start + 1, here.stop + 1)
        spectra = sums[: part.stop - part.start]
        for row, (of_x, of_y) in zip(spectra, windows[part], strict=True):
            _sum_of_products(spectra_x[of_x], spectra_y[of_y][::-1], row, scratch, same)
        output = inverse(spectra, 2 * chunk)
        if weights is not None:
            output *= back
        values[here] += output[:, :chunk]
        values[after] += output[:, chunk:]
        if weights is None:
            bound[here] += width[part, None]
            bound[after] += width[part, None]
        else:
            np.multiply(width[part, None], back, out=output)
            bound[here] += output[:, :chunk]
            bound[after] += output[:, chunk:]


def _starts(run: Run) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the ranges of chunks of x and of y that the run's windows reach."""
    some = run.last >= run.first
    blocks = np.arange(run.start, run.stop)[some]
    first, last = run.first[some], run.last[some]
    if blocks.size == 0:
        return (0, 0), (0, 0)
    return (int(first.min()), int(last.max()) + 1), (int((blocks - last).min()), int((blocks - first).max()) + 1)


def _spectra(chunks: FloatArray, weights: FloatArray | None) -> tuple[_Spectra, FloatArray]:
    count, chunk = chunks.shape
    spectra, norms = np.empty((count, chunk + 1), dtype=np.complex128), np.empty(count)
    batch = _batch_rows(chunk)
    padded = np.zeros((min(batch, count), 2 * chunk))
    for begin in range(0, count, batch):
        part = slice(begin, min(begin + batch, count))
        rows = padded[: part.stop - begin]
        np.multiply(chunks[part], 1.0 if weights is None else weights, out=rows[:, :chunk])
        norms[part] = norm_bits(rows[:, :chunk])
        spectra[part] = forward(rows, 2 * chunk)
    return spectra, norms


def _batch_rows(chunk: int) -> int:
    return max(_BATCH_ROWS, _BATCH // (2 * chunk))


def _widths(
    windows: list[tuple[slice, slice]], norms_x: FloatArray, norms_y: FloatArray, run: Run, chunk: int
) -> FloatArray:
    """Bound on each block's error in units of its tilted output."""
    error = transform_error(2 * chunk)
    swing = abs(run.tilt) * (chunk - 1)
    tilted = float(chunk) * 2.0**swing
    lost = math.ldexp(4.0 * tilted, HEADROOM_BITS - 1074) * (8.0 * chunk * math.log2(2.0 * chunk) + tilted)
    # A falling tilt is shifted to end at 1, the plan's is not.
    widths = np.exp2(run.neglected + (2.0 * swing if run.tilt < 0.0 else 0.0))
    for block, (of_x, of_y) in enumerate(windows):
        pairs = of_x.stop - of_x.start
        if pairs > 0:
            products = float(np.exp2(norms_x[of_x] + norms_y[of_y][::-1]).sum())
            widths[block] += (3.0 * error + (pairs + 40.0) * UNIT_ROUNDOFF) * products + pairs * lost
    # Also covers the roundings here, and neglected products that vanish beside those of the block.
    return np.asarray(widths * 1.001)


def _sum_of_products(x: _Spectra, y: _Spectra, out: _Spectra, scratch: _Spectra, symmetric: bool) -> None:
    """Sum x[p] y[p] over p, in an order that depends on the shapes alone."""
    pairs, size = x.shape
    if pairs == 0:
        out[:] = 0.0
        return
    half = pairs // 2 if symmetric else pairs
    width = _SCRATCH // max(1, half)
    for begin in range(0, size, width):
        part = slice(begin, min(begin + width, size))
        total = out[part]
        if half > 0:
            products = scratch[: half * total.size].reshape(half, total.size)
            np.multiply(x[:half, part], y[:half, part], out=products)
            np.add.reduce(products, axis=0, out=total)
            if symmetric:
                total *= 2.0
        if symmetric and pairs % 2 == 1:
            middle = np.multiply(x[half, part], y[half, part], out=scratch[: total.size])
            np.add(total if half > 0 else 0.0, middle, out=total)
