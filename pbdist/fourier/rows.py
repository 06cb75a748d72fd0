r"""Several vectors at once, by a handful of tilts of whole vectors.

Rows that look alike (upper and lower values of the same masses) share one plan. Each of its runs multiplies all rows
by 2^(τ i), transforms them as one batch, and serves a range of the output: there the tilted result is within some
bits of its largest element. With A and B the tilted rows, L the length of the transforms and ε = `transform_error`
(L), the proof in `blocks`, for one pair of chunks, gives for the element j

    |computed - exact| <= (3 ε + 41 u) 1.001 ‖A‖₂ ‖B‖₂ 2^(-τ j).

Underflow moves a tilted element by less than 2^-1074 times 8 n L log2 L, that is nothing beside a term of at least
2^-53, as A and B have an element of at least 1/2 each; the factor 1.002 pays for it. Vectors that need too many
tilts, or whose range no tilt covers, are left to the chunks.
"""

import math

import numpy as np

from pbdist.fourier.transform import forward, good_length, inverse, transform_error
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import BoolArray, FloatArray

__all__ = ["convolve_by_tilts"]

#: Vectors of no more elements above 0 are left to direct sums.
_SPARSE = 48
#: Cells of the longer vector that a plan looks at.
_CELLS = 48
#: Tilts that are tried, and runs at most.
_TRIED, _MOST = 40, 10
#: Tilts are whole multiples of this many bits an element, so that exponents are exact.
_UNIT = 2.0**-34
#: Positions up to here times a multiple of the unit are exact, ..
_LONGEST = 1 << 18
#: .. as long as an exponent stays below this.
_LARGEST_EXPONENT = 900.0
#: A tilt will do where it loses at most so many bits: near the largest element, and elsewhere; or so many more than the
#: best one.
_BULK, _IN_BULK, _ELSEWHERE, _MORE = 40.0, 4.0, 10.0, 3.0
#: What is so many bits below the largest element is not looked at, and elsewhere no more than so many may be lost.
_IRRELEVANT, _LOST = 250.0, 20.0
#: So many bits below what lies beside it an element need not be known.
_BESIDE = 60.0


def convolve_by_tilts(
    x: FloatArray, y: FloatArray, beside: tuple[FloatArray, FloatArray] | None = None
) -> tuple[FloatArray, FloatArray] | None:
    """Convolve rows of non-negative vectors, or tell by None that tilts do not serve.

    Parameters
    ----------
    x, y : ndarray, shapes (k, n) and (k, m)
        Finite, no element above 2^300. The same object for squares.
    beside : (ndarray, ndarray), optional
        Shapes (n,) and (m,): where their convolution is far larger the result need not be known well.

    Returns
    -------
    values, bound : ndarray, shape (k, n + m - 1)
        Elementwise ``|values - exact| <= bound``.
    """
    same = x is y
    size_x, size_y = x.shape[1], y.shape[1]
    size = size_x + size_y - 1
    cell = -(-max(size_x, size_y) // _CELLS)
    sparser = min(int(np.count_nonzero(x.max(axis=0))), int(np.count_nonzero(y.max(axis=0))))
    if size > _LONGEST or sparser <= _SPARSE:
        return None
    cells_x = _cells(x, cell)
    cells_y = cells_x if same else _cells(y, cell)
    larger = None if beside is None else _max_plus(*(_cells(each[None], cell) for each in beside))
    runs = _planned(cells_x, cells_y, cell, larger)
    if runs is None:
        return None
    length = good_length(size)
    error = (3.0 * transform_error(length) + 45.0 * UNIT_ROUNDOFF) * 1.002
    values, bound = np.empty((x.shape[0], size)), np.empty((x.shape[0], size))
    places = np.arange(float(max(size_x, size_y)))
    for tilt, top_x, top_y, start, stop in runs:
        tilted_x = x * np.exp2(tilt * places[:size_x] - top_x)
        spectrum = forward(tilted_x, length)
        norms = np.einsum("ki,ki->k", tilted_x, tilted_x)
        if same:
            spectrum *= spectrum
        else:
            tilted_y = y * np.exp2(tilt * places[:size_y] - top_y)
            spectrum *= forward(tilted_y, length)
            norms = np.sqrt(norms) * np.sqrt(np.einsum("ki,ki->k", tilted_y, tilted_y))
        part = slice(start * cell, min(stop * cell, size))
        back = np.exp2((top_x + top_y) - tilt * np.arange(float(part.start), float(part.stop)))
        np.multiply(inverse(spectrum, length)[:, part], back, out=values[:, part])
        np.multiply((error * norms)[:, None], back, out=bound[:, part])
    return values, bound


def _cells(rows: FloatArray, cell: int) -> FloatArray:
    """Log2 of the largest element of each cell, in all rows."""
    largest = rows.max(axis=0)
    padded = np.zeros(-(-largest.size // cell) * cell)
    padded[: largest.size] = largest
    with np.errstate(divide="ignore"):
        result: FloatArray = np.log2(padded.reshape(-1, cell).max(axis=1))
    return result


def _planned(
    cells_x: FloatArray, cells_y: FloatArray, cell: int, larger: FloatArray | None = None
) -> list[tuple[float, float, float, int, int]] | None:
    """Choose tilts and the ranges of output cells that they serve, with the exponents of the largest elements."""
    output = _max_plus(cells_x, cells_y)
    relevant = output >= output.max() - _IRRELEVANT
    if larger is not None:
        relevant &= output >= larger - _BESIDE
    if not relevant.any():
        return None
    tilts = _candidates(output, relevant) / cell
    tilts = np.round(tilts / _UNIT) * _UNIT
    middle = (np.arange(max(cells_x.size, cells_y.size)) + 0.5) * cell
    level_x = (cells_x + tilts[:, None] * middle[: cells_x.size]).max(axis=1)
    level_y = level_x if cells_x is cells_y else (cells_y + tilts[:, None] * middle[: cells_y.size]).max(axis=1)
    # Cells i and j meet around (i + j + 1) cells; a cell of the output has elements of two such sums.
    places = (np.arange(output.size) + 1.0) * cell
    loss = (level_x + level_y)[:, None] - output - tilts[:, None] * places
    best = loss.min(axis=0)
    if float(np.max(np.where(relevant, best, 0.0))) > _LOST:
        return None
    allowed = np.where(output >= output.max() - _BULK, _IN_BULK, _ELSEWHERE)
    enough = loss <= np.maximum(best + _MORE, allowed)
    enough[:, ~relevant] = True
    runs: list[tuple[float, float, float, int, int]] = []
    start, common = 0, enough[:, 0]
    for place in range(1, output.size + 1):
        narrowed = common & enough[:, place] if place < output.size else np.zeros_like(common)
        if narrowed.any():
            common = narrowed
            continue
        chosen = _best(common, loss[:, start:place], relevant[start:place])
        top_x, top_y = math.ceil(level_x[chosen]), math.ceil(level_y[chosen])
        tilt = float(tilts[chosen])
        ends = tilt * cell * np.array([start, place + 1.0])
        exponents = (-top_x, -top_y, tilt * cell * cells_x.size - top_x, tilt * cell * cells_y.size - top_y)
        back = np.max(top_x + top_y - ends)
        if max(*exponents, back) > _LARGEST_EXPONENT or len(runs) == _MOST:
            return None
        # The last cell of the output may have elements beyond its place.
        runs.append((tilt, float(top_x), float(top_y), start, place if place < output.size else place + 1))
        if place < output.size:
            start, common = place, enough[:, place]
    return runs


def _best(common: BoolArray, loss: FloatArray, relevant: BoolArray) -> int:
    """Return the tilt, of those that serve all cells of a run, that loses least at the worst of them."""
    worst = np.where(relevant, loss, -math.inf).max(axis=1)
    return int(np.argmin(np.where(common, worst, math.inf)))


def _candidates(output: FloatArray, relevant: BoolArray) -> FloatArray:
    """Tilts, in bits a cell, that level the upper hull of what is relevant, place by place."""
    places = np.flatnonzero(relevant)
    heights = output[places]
    hull = [0]
    for i in range(1, places.size):
        while len(hull) > 1 and (heights[i] - heights[hull[-1]]) * (places[hull[-1]] - places[hull[-2]]) >= (
            heights[hull[-1]] - heights[hull[-2]]
        ) * (places[i] - places[hull[-1]]):
            hull.pop()
        hull.append(i)
    if len(hull) < 2:
        return np.zeros(1)
    slopes = -np.diff(heights[hull]) / np.diff(places[hull])
    chosen = np.unique(np.append(slopes, 0.0))
    if chosen.size > _TRIED:
        chosen = chosen[np.unique(np.linspace(0, chosen.size - 1, _TRIED).astype(int))]
    return chosen


def _max_plus(x: FloatArray, y: FloatArray) -> FloatArray:
    """Largest sums of cells that meet."""
    padded = np.full((x.size, y.size + x.size), -math.inf)
    padded[:, : y.size] = x[:, None] + y
    # Each row moves one place further than the one before.
    result: FloatArray = padded.reshape(-1)[: x.size * (y.size + x.size - 1)].reshape(x.size, -1).max(axis=0)
    return result
