"""Convolve two vectors by the spectra of their chunks, with a bound on the error of each output block.

The bound is that of section 6 of ``docs/theory.md``: (3ε + (m + 40) u) 1.001 Σ ‖A‖₂‖B‖₂ / w₂(j) for element j, over the
m pairs of chunks A, B of x and y that it collects, tilted by w(i) = 2^(τ i + o) >= 1; ε is `transform_error` (L) and w₂
the tilt of the output. Pairs left out are non-negative and add what `Run.neglected` says.

Every step is a function of some chunks, some frequencies or some blocks, and gives the same bits whatever part of the
whole it is called for: one row of a transform does not depend on the rows beside it.

Underflow: the vectors are scaled to a largest element of about 2^300, and one rounding to a subnormal number moves a
value by at most 2^-1075. A transform makes at most 4 of those for each of its log2 L passes and each of L elements, and
its input is at most c w off; its partner is at most 2^300 c w. Over m pairs an element is therefore moved by at most
2^-1074 · 4 m (2^300 c w) (4 L log2 L + c w) in units of the tilted output, w the largest tilt of a chunk.
"""

import math
from typing import TypeAlias

import numpy as np

from pbdist.fourier.transform import forward, inverse, transform_error
from pbdist.fourier.vectors import HEADROOM_BITS, ChunkPlan, Chunks, Run
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import ComplexArray, FloatArray

#: For each block, the chunks of x and the chunks of y.
Windows: TypeAlias = list[tuple[slice, slice]]

#: Elements that are transformed at once: they stay in a core's cache, ..
_BATCH = 1 << 16
#: .. and so many transforms at least, which share their twiddle factors.
_BATCH_ROWS = 4
#: Products held while they are summed: they stay in a core's cache.
_SCRATCH = 1 << 15
#: Frequencies for which they are, at least.
_FEWEST_COLUMNS = 8


def convolve_blocks(chunks_x: Chunks, chunks_y: Chunks, plan: ChunkPlan) -> tuple[FloatArray, FloatArray]:
    """Add up the blocks of a plan.

    Pass the same object twice to save transforms. Returns values and their bound, elementwise
    ``|values - exact| <= bound``, by the module's docstring.
    """
    chunk = chunks_x.shape[1]
    same = chunks_x is chunks_y
    shape = (chunks_x.shape[0] + chunks_y.shape[0], chunk)
    values, bound = np.zeros(shape), np.zeros(shape)
    for run in plan.runs:
        reach_x, reach_y = reach(run)
        spectra_x, norms_x = chunk_spectra(chunks_x, *reach_x, run.tilt)
        # The windows of a square are symmetric: both sides have the same chunks.
        spectra_y, norms_y = (spectra_x, norms_x) if same else chunk_spectra(chunks_y, *reach_y, run.tilt)
        windows = run_windows(run)
        width = widths(run, windows, chunk, norms_x, norms_y)
        back = way_back(run.tilt, chunk)
        batch = _batch_rows(chunk)
        for begin in range(run.start, run.stop, batch):
            part = slice(begin - run.start, begin - run.start + batch)
            sums = block_sums(spectra_x, spectra_y, windows[part], symmetric=same)
            add_blocks(values, bound, sums, width[part], back=back, row=begin)
    return values.reshape(-1), bound.reshape(-1)


def reach(run: Run) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the ranges of chunks of x and of y that the run's windows reach."""
    some = run.last >= run.first
    blocks = np.arange(run.start, run.stop)[some]
    first, last = run.first[some], run.last[some]
    if blocks.size == 0:
        return (0, 0), (0, 0)
    return (int(first.min()), int(last.max()) + 1), (int((blocks - last).min()), int((blocks - first).max()) + 1)


def chunk_spectra(chunks: Chunks, start: int, stop: int, tilt: float) -> tuple[ComplexArray, FloatArray]:
    """Return the spectra of some tilted chunks, shape (stop - start, c + 1), and log2 of bounds on their norms."""
    chunk = chunks.shape[1]
    # A falling tilt starts at its largest value, so that none is below 1 and no way back is above.
    weights = 1.0 if tilt == 0.0 else _tilt(tilt, chunk, chunk - 1 if tilt < 0.0 else 0)
    count = stop - start
    spectra, norms = np.empty((count, chunk + 1), dtype=np.complex128), np.empty(count)
    batch = _batch_rows(chunk)
    padded = np.zeros((min(batch, count), 2 * chunk))
    for begin in range(0, count, batch):
        part = slice(begin, min(begin + batch, count))
        rows = padded[: part.stop - begin]
        np.multiply(chunks.rows(start + part.start, start + part.stop), weights, out=rows[:, :chunk])
        norms[part] = norm_bits(rows[:, :chunk])
        spectra[part] = forward(rows, 2 * chunk)
    return spectra, norms


def run_windows(run: Run) -> Windows:
    """Return the chunks that feed each of the run's blocks, counted from the first ones that the run reaches."""
    (start_x, _), (start_y, _) = reach(run)
    return [
        (slice(p - start_x, q - start_x + 1), slice(s - q - start_y, s - p - start_y + 1))
        for s, p, q in zip(range(run.start, run.stop), run.first.tolist(), run.last.tolist(), strict=True)
    ]


def widths(run: Run, windows: Windows, chunk: int, norms_x: FloatArray, norms_y: FloatArray) -> FloatArray:
    """Bound on the error of each of the run's blocks in units of its tilted output.

    The windows are those of `run_windows`, the norms those of `chunk_spectra`, for the chunks that the run reaches.
    """
    error = transform_error(2 * chunk)
    swing = abs(run.tilt) * (chunk - 1)
    tilted = float(chunk) * 2.0**swing
    lost = math.ldexp(4.0 * tilted, HEADROOM_BITS - 1074) * (8.0 * chunk * math.log2(2.0 * chunk) + tilted)
    # A falling tilt is shifted to end at 1, the plan's is not.
    result = np.exp2(run.neglected + (2.0 * swing if run.tilt < 0.0 else 0.0))
    for block, (of_x, of_y) in enumerate(windows):
        pairs = of_x.stop - of_x.start
        if pairs > 0:
            products = float(np.exp2(norms_x[of_x] + norms_y[of_y][::-1]).sum())
            result[block] += (3.0 * error + (pairs + 40.0) * UNIT_ROUNDOFF) * products + pairs * lost
    # Also covers the roundings here, and neglected products that vanish beside those of the block.
    return np.asarray(result * 1.001)


def block_sums(spectra_x: ComplexArray, spectra_y: ComplexArray, windows: Windows, *, symmetric: bool) -> ComplexArray:
    """Add up the products of the pairs of some blocks of a run, each frequency by itself.

    The spectra are those of the chunks that the run reaches, at all frequencies or at several of them, side by side; a
    frequency has the same bits whatever other ones are passed with it. Returns an array of shape (blocks, frequencies).
    """
    sums = np.empty((len(windows), spectra_x.shape[1]), dtype=np.complex128)
    most = max((of_x.stop - of_x.start for of_x, _ in windows), default=0)
    scratch = np.empty(max(_SCRATCH, _FEWEST_COLUMNS * most), dtype=np.complex128)
    for row, (of_x, of_y) in zip(sums, windows, strict=True):
        _sum_of_products(spectra_x[of_x], spectra_y[of_y][::-1], row, scratch, symmetric)
    return sums


def way_back(tilt: float, chunk: int) -> FloatArray | None:
    """Return what takes the tilt off a block, shape (2 chunk,); None for no tilt."""
    return None if tilt == 0.0 else _tilt(-tilt, 2 * chunk, 2 * (chunk - 1) if tilt < 0.0 else 0)


def add_blocks(
    values: FloatArray, bound: FloatArray, sums: ComplexArray, width: FloatArray, *, back: FloatArray | None, row: int
) -> None:
    """Transform some blocks of a run back and add them to rows of the output.

    `sums`, `width` and `back` are those of `block_sums`, `widths` and `way_back`. Every element is fed by two blocks at
    most, so that their order does not matter. The first block feeds `row` and the next row; parts outside the rows are
    dropped.
    """
    rows, chunk = values.shape
    count = sums.shape[0]
    output = inverse(sums, 2 * chunk)
    if back is not None:
        output *= back
    halves = []
    for first_row, half in ((row, slice(None, chunk)), (row + 1, slice(chunk, None))):
        first, last = max(0, -first_row), min(count, rows - first_row)
        if first < last:
            halves.append((slice(first_row + first, first_row + last), slice(first, last), half))
    for here, blocks, half in halves:
        values[here] += output[blocks, half]
    if back is not None:
        np.multiply(width[:, None], back, out=output)
    for here, blocks, half in halves:
        bound[here] += width[blocks, None] if back is None else output[blocks, half]


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


def _batch_rows(chunk: int) -> int:
    return max(_BATCH_ROWS, _BATCH // (2 * chunk))


def _sum_of_products(
    x: ComplexArray, y: ComplexArray, out: ComplexArray, scratch: ComplexArray, symmetric: bool
) -> None:
    """Sum x[p] y[p] over p, in the order of p."""
    pairs, size = x.shape
    if pairs == 0:
        out[:] = 0.0
        return
    half = pairs // 2 if symmetric else pairs
    # Never a single column, along which numpy would sum in another order.
    parts = -(-size // max(_FEWEST_COLUMNS, _SCRATCH // max(1, half)))
    for piece in range(parts):
        part = slice(piece * size // parts, (piece + 1) * size // parts)
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
