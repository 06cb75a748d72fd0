"""Into how many chunks two vectors are cut, where shorter ones mend the result, and what is added directly.

Every way of cutting gives values and a valid bound for them. Where the plan expects a coarse bound, shorter chunks are
tried for those output blocks alone, and whatever has the smaller bound is kept.
"""

import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from pbdist.buckets.convolution.blocks import HEADROOM_BITS, convolve_blocks
from pbdist.buckets.convolution.direct import direct_convolution
from pbdist.buckets.convolution.plan import Plan, cell_maxima, chunk_length, flat_plan, plan_blocks
from pbdist.buckets.convolution.towers import find_towers
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import BoolArray, FloatArray, IntArray

__all__ = ["chunked_bytes", "chunked_convolution"]

#: Up to this many products are summed directly where chunks lose accuracy.
_EXACTING_PRODUCTS = 1 << 23

#: Chunks of the longer vector: of flat vectors, short and long ones, ..
_SHORT_AND_FLAT = 1 << 15
_CHUNKS_OF_SHORT, _CHUNKS_OF_FLAT = 1, 16
#: .. and of others, the finer ones for the blocks that lose accuracy with the ones before.
_CHUNKS = (32, 128, 512)
#: Finer chunks are used if at most this part of the blocks that they are to mend still loses accuracy.
_WORTH = 0.6
#: Shortest and longest chunk.
_SHORTEST, _LONGEST = 64, 1 << 18

#: The first and last elements of the result, sums of few products, are always summed directly: this part of the longer
#: vector, between two limits.
_ENDS_SHARE, _FEWEST_ENDS, _MOST_ENDS = 1024, 32, 256

_Result: TypeAlias = tuple[FloatArray, FloatArray]


def chunked_convolution(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Convolve two vectors by chunks.

    Parameters
    ----------
    x, y : ndarray
        Finite and non-negative, the first and the last element above 0.

    Returns
    -------
    values, bound : ndarray
        Elementwise ``|values - exact| <= bound``.
    """
    cut = _Cut(x, y, _CHUNKS[0])
    plan = flat_plan(cut.cells_x, cut.cells_y)
    if plan is not None:
        cut = _Cut(x, y, _CHUNKS_OF_SHORT if max(x.size, y.size) <= _SHORT_AND_FLAT else _CHUNKS_OF_FLAT, cut.towers)
        plan = flat_plan(cut.cells_x, cut.cells_y)
    if plan is None:
        plan = cut.planned()
    if plan.lost.any() and x.size * y.size <= _EXACTING_PRODUCTS:
        return direct_convolution(x, y)
    result = cut.convolved(plan)
    _mend(result, x, y, cut, plan.lost)
    _add_towers(result, x, y, cut.towers)
    _resum_ends(result, x, y)
    return result


def chunked_bytes(size_x: int, size_y: int) -> int:
    """Upper bound on the memory that `chunked_convolution` takes, for vectors of these lengths; 4 MB aside.

    Of each vector, padded to whole chunks: 8 bytes an element for the chunks, 16 for values and bound, 16 for spectra;
    again for the finer cut, of which few spectra are ever held. The estimate is rounded up.
    """
    return 72 * (size_x + size_y + max(size_x, size_y) // 4)


class _Cut:
    """Two vectors in chunks, scaled by powers of two and without their towers."""

    def __init__(
        self, x: FloatArray, y: FloatArray, chunks: int, towers: tuple[IntArray, IntArray] | None = None
    ) -> None:
        longest = max(x.size, y.size)
        self.size = x.size + y.size - 1
        self.chunk = max(_SHORTEST, chunk_length(longest, max(chunks, -(-longest // _LONGEST))))
        self.x, exponent_x, towers_x = _in_chunks(x, self.chunk, None if towers is None else towers[0])
        self.cells_x = cell_maxima(self.x)
        self.y, exponent_y, towers_y, self.cells_y = self.x, exponent_x, towers_x, self.cells_x
        if x is not y:
            self.y, exponent_y, towers_y = _in_chunks(y, self.chunk, None if towers is None else towers[1])
            self.cells_y = cell_maxima(self.y)
        self.towers = towers_x, towers_y
        self.exponent = exponent_x + exponent_y

    def planned(self, wanted: BoolArray | None = None) -> Plan:
        """Plan the blocks that are wanted, or all."""
        return plan_blocks(self.cells_x, self.cells_y, self.chunk, wanted)

    def convolved(self, plan: Plan) -> tuple[FloatArray, FloatArray]:
        """Convolve what is left without the towers; only elements whose blocks are planned are meaningful."""
        values, bound = (part[: self.size] for part in convolve_blocks(self.x, self.y, plan))
        _scale(values, self.exponent)
        _scale(bound, self.exponent)
        # Either may have lost half of the smallest subnormal number, here or before it was scaled.
        bound += math.ldexp(1.0, max(self.exponent, 0) - 1073)
        return values, bound

    def blocks_of(self, start: int, stop: int) -> slice:
        """Return the blocks that feed the elements of a range."""
        return slice(max(0, start // self.chunk - 1), (stop - 1) // self.chunk + 1)


def _in_chunks(x: FloatArray, chunk: int, towers: IntArray | None) -> tuple[FloatArray, int, IntArray]:
    """Return scaled chunks without towers, the binary exponent taken out, and the positions of the towers."""
    exponent = math.frexp(float(x.max()))[1] - HEADROOM_BITS
    chunks = np.zeros((-(-x.size // chunk), chunk))
    flat = chunks.reshape(-1)
    flat[: x.size] = x
    _scale(flat, -exponent)
    if towers is None:
        towers = find_towers(chunks)
    flat[towers] = 0.0
    return chunks, exponent, towers


def _scale(values: FloatArray, exponent: int) -> None:
    """Multiply in place by a power of two."""
    if abs(exponent) < 1000:
        values *= math.ldexp(1.0, exponent)
    else:
        np.ldexp(values, exponent, out=values)


def _mend(result: _Result, x: FloatArray, y: FloatArray, cut: _Cut, lost: BoolArray) -> None:
    """Replace elements of lost blocks by those of finer cuts where these have the smaller bound."""
    values, bound = result
    for chunks in _CHUNKS[1:]:
        if not lost.any() or cut.chunk == _SHORTEST:
            return
        finer = _Cut(x, y, chunks, cut.towers)
        ranges = [(start * cut.chunk, min(stop * cut.chunk + cut.chunk, cut.size)) for start, stop in _stretches(lost)]
        wanted = np.zeros(finer.x.shape[0] + finer.y.shape[0] - 1, dtype=bool)
        for start, stop in ranges:
            wanted[finer.blocks_of(start, stop)] = True
        plan = finer.planned(wanted)
        if np.count_nonzero(plan.lost) > _WORTH * np.count_nonzero(wanted):
            return
        new_values, new_bound = finer.convolved(plan)
        for start, stop in ranges:
            part = slice(start, stop)
            better = new_bound[part] < bound[part]
            np.copyto(values[part], new_values[part], where=better)
            np.copyto(bound[part], new_bound[part], where=better)
        cut, lost = finer, plan.lost


def _stretches(chosen: BoolArray) -> Iterator[tuple[int, int]]:
    """First place, and the one after the last, of each stretch of chosen ones."""
    edges = np.flatnonzero(np.diff(chosen.astype(np.int8), prepend=0, append=0))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _add_towers(result: _Result, x: FloatArray, y: FloatArray, towers: tuple[IntArray, IntArray]) -> None:
    """Add the products of x's towers and y, and those of y's towers and the rest of x."""
    count = towers[0].size + towers[1].size
    if count == 0:
        return
    values, bound = result
    scratch = np.empty(max(x.size, y.size))
    for position in towers[0].tolist():
        values[position : position + y.size] += np.multiply(y, x[position], out=scratch[: y.size])
    for position in towers[1].tolist():
        products = np.multiply(x, y[position], out=scratch[: x.size])
        products[towers[0]] = 0.0
        values[position : position + x.size] += products
    # What is added is non-negative: no partial sum exceeds the last one's modulus by more than twice the bound.
    bound *= 1.001
    bound += (4.0 * count + 4.0) * UNIT_ROUNDOFF * np.abs(values)
    bound += math.ldexp(count + 2.0, -1074)


def _resum_ends(result: _Result, x: FloatArray, y: FloatArray) -> None:
    """Sum the first and the last elements directly."""
    values, bound = result
    count = min(x.size, y.size, max(_FEWEST_ENDS, min(_MOST_ENDS, max(x.size, y.size) // _ENDS_SHARE)))
    values[:count], bound[:count] = (part[:count] for part in direct_convolution(x[:count], y[:count]))
    values[-count:], bound[-count:] = (part[-count:] for part in direct_convolution(x[-count:], y[-count:]))
