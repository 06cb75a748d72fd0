"""Vectors that are read part by part, their chunks, and a survey of them: maxima of segments, and towers."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from pbdist.fourier.transform import good_length
from pbdist.types import BoolArray, FloatArray, IntArray

#: Chunks are scaled by a power of two, to a largest element of about 2 to this power.
HEADROOM_BITS = 300

#: In shorter segments a tower costs the others little accuracy.
_SHORTEST_SEGMENT = 32
#: A segment is searched when its largest element is at least this part of its sum, ..
_TOWER_SHARE = 1.0 / 16.0
#: .. for at most so many neighbours that are so many times larger than the next largest element.
_MAX_NEIGHBOURS, _TOWER_HEIGHT = 8, 32.0
#: More than this are no exceptions.
_MAX_TOWERS = 16

#: Elements that are looked at together: they stay in a core's cache.
_SURVEYED = 1 << 16


class Vector(Protocol):
    """What a vector is read through: an array is one, and so are blocks in a store. Slices are not written to."""

    @property
    def size(self) -> int:
        """Number of elements."""

    def __getitem__(self, part: slice, /) -> FloatArray:
        """Elements of a range within the vector."""


class Chunks:
    """A vector in chunks: scaled by a power of two, without its towers, padded by zeros.

    The vector is finite and non-negative; it is multiplied by 2^-exponent, and `towers` are elements taken as 0.
    """

    def __init__(self, vector: Vector, chunk: int, exponent: int, towers: IntArray) -> None:
        self.vector = vector
        self.exponent = exponent
        self.towers = towers
        #: Number and length of the chunks.
        self.shape = (-(-vector.size // chunk), chunk)

    def rows(self, start: int, stop: int) -> FloatArray:
        """Return some of the chunks, shape (stop - start, chunk); each the same, alone or with others."""
        chunk = self.shape[1]
        rows = np.empty((stop - start, chunk))
        first = start * chunk
        part = self.vector[first : min(stop * chunk, self.vector.size)]
        flat = rows.reshape(-1)
        flat[: part.size] = part
        flat[part.size :] = 0.0
        scale(flat, -self.exponent)
        if self.towers.size:
            flat[self.towers[(self.towers >= first) & (self.towers < first + part.size)] - first] = 0.0
        return rows


def exponent_of(largest: float) -> int:
    """Return the exponent that scales a vector of that largest element to the headroom."""
    return math.frexp(largest)[1] - HEADROOM_BITS


def scale(values: FloatArray, exponent: int) -> None:
    """Multiply in place by a power of two."""
    if abs(exponent) < 1000:
        values *= math.ldexp(1.0, exponent)
    else:
        np.ldexp(values, exponent, out=values)


def ranges(start: int, stop: int, step: int) -> Iterator[tuple[int, int]]:
    """Cut a range where multiples of `step`, counted from 0, fall into it."""
    while start < stop:
        end = min((start // step + 1) * step, stop)
        yield start, end
        start = end


def tower_candidates(rows: FloatArray, start: int) -> tuple[int, IntArray]:
    """Return how many segments of some chunks are suspect, and the positions of their towers.

    The rows are consecutive chunks of non-negative elements, the first of which is at position `start`.
    """
    segments = rows.reshape(rows.shape[0] * SEGMENTS, -1)
    none = np.zeros(0, dtype=np.int64)
    if segments.shape[1] < _SHORTEST_SEGMENT:
        return 0, none
    largest = segments.max(axis=1)
    suspects = np.flatnonzero((largest > 0.0) & (largest >= _TOWER_SHARE * segments.sum(axis=1)))
    found = [none]
    # With more of them there are no towers.
    for row in suspects[: _MAX_TOWERS + 1].tolist():
        top = np.argpartition(segments[row], -_MAX_NEIGHBOURS - 1)[-_MAX_NEIGHBOURS - 1 :]
        heights = segments[row, top]
        high = np.sort(top[heights > _TOWER_HEIGHT * heights.min()])
        found.append(start + row * segments.shape[1] + high)
    return suspects.size, np.concatenate(found)


def towers_among(candidates: Iterable[tuple[int, IntArray]]) -> IntArray:
    """Return the towers of a whole vector from what `tower_candidates` returned for its parts, in order."""
    suspects, found = 0, [np.zeros(0, dtype=np.int64)]
    for count, positions in candidates:
        suspects += count
        found.append(positions)
    towers = np.concatenate(found)
    return towers if suspects <= _MAX_TOWERS and towers.size <= _MAX_TOWERS else found[0]


class Survey(Protocol):
    """Looks at a vector or at its chunks."""

    def largest(self, vector: Vector) -> float:
        """Return the largest element."""

    def towers(self, chunks: Chunks) -> IntArray:
        """Return the positions of the towers: at most 16, or none at all."""

    def maxima(self, chunks: Chunks) -> FloatArray:
        """Return the maxima of the segments, as `segment_maxima` does."""


class _InMemory:
    """Looks at the chunks of an array, some at a time."""

    def largest(self, vector: Vector) -> float:
        return float(vector[:].max())

    def towers(self, chunks: Chunks) -> IntArray:
        return towers_among(
            tower_candidates(chunks.rows(start, stop), start * chunks.shape[1]) for start, stop in self._rows(chunks)
        )

    def maxima(self, chunks: Chunks) -> FloatArray:
        return np.concatenate([segment_maxima(chunks.rows(start, stop)) for start, stop in self._rows(chunks)])

    def _rows(self, chunks: Chunks) -> Iterator[tuple[int, int]]:
        count, chunk = chunks.shape
        step = max(1, _SURVEYED // chunk)
        return ((start, min(start + step, count)) for start in range(0, count, step))


IN_MEMORY = _InMemory()


#: Segments of one chunk.
SEGMENTS = 8

#: Tilts are multiples of this many bits over one chunk, ..
_TILT_STEP = 8
#: .. and at most this many, so that neither a tilted value nor a product leaves float64.
_LARGEST_TILT = 128
#: Over all chunks a tilt is at most this many bits: float64 spans little more than 2,000.
_STEEPEST = 8192

#: Tilts are whole multiples of this many bits an element, so that the exponents τ i are exact.
_TILT_UNIT = 2.0**-34

#: What is certainly this many bits below an output block's largest pair is not transformed but added to the bound.
_NEGLECTED_BITS = 64.0
#: An output this many bits below the largest one does not influence the choice.
_IRRELEVANT_BITS = 1000.0
#: A tilt is sufficient if an output is at most this many bits below its products: few where the output is within so
#: many bits of the largest, since their errors add up over many compositions, more elsewhere, ..
_BULK_BITS = 40.0
_ENOUGH_IN_BULK, _ENOUGH = 5.0, 12.0
#: .. or if no other tilt gains more bits than this.
_GAIN_BITS = 4.0
#: A tilt is not used if its products exceed the untilted ones by more than this anywhere.
_EXCESS_BITS = 4.0
#: Sums that are compared at once.
_ROWS = 64
#: More than this is a loss of accuracy that shorter chunks may mend.
_LOST_BITS = 14.0


@dataclass(frozen=True, eq=False)
class Run:
    """Consecutive output blocks that share a tilt."""

    #: τ, in bits for each element: chunks are multiplied by 2^(τ i), a multiple of 2^-34.
    tilt: float
    #: The first block and the one after the last. Block s is fed by the chunks p and s - p.
    start: int
    stop: int
    #: For each block, the first and the last chunk p of x that are transformed; last < first if there is none.
    first: IntArray
    last: IntArray
    #: For each block, log2 of a bound on what the other pairs add to any element j, times 2^(τ j).
    neglected: FloatArray


@dataclass(frozen=True, eq=False)
class ChunkPlan:
    """How the blocks of one cut are computed."""

    #: They cover every wanted block in which the exact result is not all 0.
    runs: tuple[Run, ...]
    #: For each block, whether it is wanted and its bound will be coarse.
    lost: BoolArray


def chunk_length(size: int, chunks: int) -> int:
    """Shortest length for at most so many chunks that is a whole multiple of `SEGMENTS` and, twice, a good length."""
    return SEGMENTS * good_length(-(-size // (chunks * SEGMENTS)))


def segment_maxima(chunks: FloatArray) -> FloatArray:
    """Log2 of the maxima of the segments, shape (chunks, `SEGMENTS`); minus infinity where a segment is 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log2(chunks.reshape(chunks.shape[0], SEGMENTS, -1).max(axis=2)))


def _ends(segments: FloatArray) -> tuple[int, int]:
    """Return the first and the last segment that are not 0."""
    occupied = segments.reshape(-1) > -math.inf
    return int(np.argmax(occupied)), occupied.size - 1 - int(np.argmax(occupied[::-1]))


def plan_blocks(
    segments_x: FloatArray, segments_y: FloatArray, chunk: int, wanted: BoolArray | None = None
) -> ChunkPlan:
    """Choose a tilt and the pairs of chunks for every output block.

    The segments are those of `segment_maxima`; all blocks are computed unless `wanted` says which.
    """
    segment = chunk // SEGMENTS
    steepest = (
        min(_LARGEST_TILT, max(_STEEPEST // max(segments_x.shape[0], segments_y.shape[0]), 2 * _TILT_STEP))
        // _TILT_STEP
    )
    multiples = np.arange(-steepest, steepest + 1)
    tilts = np.round(multiples * (_TILT_STEP / (chunk * _TILT_UNIT))) * _TILT_UNIT
    middle = (np.arange(SEGMENTS) + 0.5) * segment
    tilted = tilts[:, None, None] * middle
    level_x = (segments_x + tilted).max(axis=2)
    level_y = level_x if segments_x is segments_y else (segments_y + tilted).max(axis=2)
    if wanted is None:
        wanted = np.ones(segments_x.shape[0] + segments_y.shape[0] - 1, dtype=bool)
    level = _best_sums(level_x, level_y, wanted)
    # A block ends with the second segment from the end of the next one.
    near = np.repeat(wanted, SEGMENTS)
    near[SEGMENTS:] |= near[:-SEGMENTS]
    near = np.append(near, np.repeat(wanted[-1], SEGMENTS))[: segments_x.size + segments_y.size - 1]
    output = _best_sums(segments_x.reshape(1, -1), segments_y.reshape(1, -1), near)[0]
    first_x, last_x = _ends(segments_x)
    first_y, last_y = _ends(segments_y)
    loss, occupied = _losses(level, output, tilts, segment, slice(first_x + first_y, last_x + last_y + 1))
    occupied &= wanted
    best = loss.min(axis=0)
    # Without a tilt, a block's level is that of its largest output.
    untilted = level[tilts.size // 2]
    allowed = np.where(untilted >= untilted.max() - _BULK_BITS, _ENOUGH_IN_BULK, _ENOUGH)
    enough = loss <= np.maximum(best + _GAIN_BITS, allowed)
    enough[:, ~occupied] = True
    runs = []
    for start, stop, common in _stretches(enough):
        blocks = start + np.flatnonzero(occupied[start:stop])
        if blocks.size == 0:
            continue
        worst = np.where(common, loss[:, blocks].max(axis=1), math.inf)
        # No tilt costs least.
        chosen = tilts.size // 2 if common[tilts.size // 2] else int(worst.argmin())
        runs.append(_run(float(tilts[chosen]), (level_x[chosen], level_y[chosen], level[chosen]), blocks, chunk))
    return ChunkPlan(tuple(runs), occupied & (best > _LOST_BITS))


def _best_sums(x: FloatArray, y: FloatArray, wanted: BoolArray) -> FloatArray:
    """Max-plus convolution along the last axis, at the wanted indices; minus infinity elsewhere."""
    count, size = x.shape
    padded = np.full((count, y.shape[1] + 2 * size - 2), -math.inf)
    padded[:, size - 1 : size - 1 + y.shape[1]] = y
    # Place k sees the elements k - size + 1 .. k of y.
    windows = sliding_window_view(padded, size, axis=1)
    backwards = x[:, None, ::-1]
    result = np.full((count, size + y.shape[1] - 1), -math.inf)
    edges = np.flatnonzero(np.diff(wanted, prepend=False, append=False))
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        for begin in range(start, stop, _ROWS):
            part = slice(begin, min(begin + _ROWS, stop))
            result[:, part] = (windows[:, part] + backwards).max(axis=2)
    return result


def _losses(
    level: FloatArray, output: FloatArray, tilts: FloatArray, segment: int, support: slice
) -> tuple[FloatArray, BoolArray]:
    """By how many bits each tilt's products exceed the faintest relevant output of each block, and which have any."""
    blocks = level.shape[1]
    padded = np.full((blocks + 1) * SEGMENTS, -math.inf)
    padded[: output.size] = output
    inside = np.zeros(padded.size, dtype=bool)
    inside[support] = True
    # One column for each block.
    windows = sliding_window_view(padded, 2 * SEGMENTS - 1)[::SEGMENTS][:blocks].T.copy()
    finite = windows > -math.inf
    relevant = windows >= float(output.max()) - _IRRELEVANT_BITS
    relevant = np.where(relevant.any(axis=0), relevant, finite)
    faint = np.where(relevant, windows, math.inf)
    # Nowhere in the support, gaps included, may a tilted product exceed the untilted ones by much.
    anywhere = np.where(
        sliding_window_view(inside, 2 * SEGMENTS - 1)[::SEGMENTS][:blocks].T, level[tilts.size // 2], math.inf
    )
    # Segments i and j meet around (i + j + 1) segments.
    tilted = np.multiply.outer(tilts, np.arange(1, 2 * SEGMENTS) * float(segment))
    faintest, least = faint[0] + tilted[:, 0, None], anywhere[0] + tilted[:, 0, None]
    for row in range(1, faint.shape[0]):
        np.minimum(faintest, faint[row] + tilted[:, row, None], out=faintest)
        np.minimum(least, anywhere[row] + tilted[:, row, None], out=least)
    # A block's elements may all come from its neighbours.
    occupied = finite.any(axis=0) & (level[0] > -math.inf)
    loss = np.full_like(level, math.inf)
    np.subtract(level, faintest, out=loss, where=occupied & (level <= least + _EXCESS_BITS))
    return loss, occupied


def _stretches(enough: BoolArray) -> Iterator[tuple[int, int, BoolArray]]:
    """Cut the blocks into the fewest stretches with a common tilt, and give the tilts they have in common."""
    start, common = 0, enough[:, 0]
    for block in range(1, enough.shape[1]):
        narrowed = common & enough[:, block]
        if not narrowed.any():
            yield start, block, common
            start, narrowed = block, enough[:, block]
        common = narrowed
    yield start, enough.shape[1], common


def _run(tilt: float, levels: tuple[FloatArray, FloatArray, FloatArray], occupied: IntArray, chunk: int) -> Run:
    """Choose the chunks that each block of a run uses, and bound what the others add."""
    level_x, level_y, level = levels
    start, stop = int(occupied[0]), int(occupied[-1]) + 1
    chunks = np.arange(level_x.size)
    partner = occupied[:, None] - chunks
    inside = (partner >= 0) & (partner < level_y.size)
    top = level[occupied, None]
    pairs = np.where(inside, level_x + level_y[np.where(inside, partner, 0)], -math.inf) - top
    # The middle of a segment is at most half a segment from its maximum; the sums here err by far less than 2^-10.
    excess = abs(tilt) * (chunk // SEGMENTS) + math.log2(chunk) + 2.0**-10
    used = pairs >= -_NEGLECTED_BITS - excess
    windows = used.argmax(axis=1), level_x.size - 1 - used[:, ::-1].argmax(axis=1)
    outside = (chunks < windows[0][:, None]) | (chunks > windows[1][:, None])
    with np.errstate(divide="ignore"):
        rest = np.log2(np.where(outside, np.exp2(pairs), 0.0).sum(axis=1)) + top[:, 0] + excess
    first, last, neglected = (
        np.zeros(stop - start, np.int64),
        np.full(stop - start, -1),
        np.full(stop - start, -math.inf),
    )
    first[occupied - start], last[occupied - start] = windows
    neglected[occupied - start] = rest
    return Run(tilt, start, stop, first, last, neglected)
