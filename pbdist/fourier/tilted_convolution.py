r"""Convolve several similar vectors at once by a few exponential tilts, with a bound on each element's error.

Rows that look alike (upper and lower values of the same masses) share their tilts. Each run of a tilt multiplies all
rows by 2^(τ i), transforms them as one batch, and serves a range of the output: there the tilted result is within some
bits of its largest element. With A and B the tilted rows, L the length of the transforms and ε = `transform_error`
(L), the proof in `blocks`, for one pair of chunks, gives for the element j

    |computed - exact| <= (3 ε + 41 u) 1.001 ‖A‖₂ ‖B‖₂ 2^(-τ j).

Underflow moves a tilted result by less than 2^-500: of elements of at most 2^300 tilting loses at most 2^-774, the
other factor is at most 2^201, and 8 n L log2 L < 2^52 numbers are concerned. No element exceeds the number of its terms
times the largest product that meets in it: where that is less than its bound, it is told to be 0 within that.

Vectors that are not nearly as high as their hull are parted, and the products of the parts summed. Those that no few
tilts of few parts serve are left to the chunks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pbdist.fourier.tilts import BESIDE, LONGEST, Level, Needs, Run, max_plus, needed, parts_of, runs_of, segments_of
from pbdist.fourier.transform import forward, good_length, inverse, transform_error
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import BoolArray, FloatArray

#: Vectors of no more elements above 0 are left to direct sums.
_SPARSE = 48
#: Segments of the longer vector, twice and four times as many of results longer than these.
_SEGMENTS, _LONG = 48, (1 << 12, 1 << 13, 1 << 14)
#: Bounds may add so many times as much as is wanted: to all masses, and to rare ones.
_ENOUGH, _RARE_ENOUGH = 4.0, 64.0
#: So many bits less may be lost where a result is not known well.
_CARE = 10.0
#: A factor below this may be no full float.
_SMALLEST_FACTOR = 2.0**-1000
#: What underflow adds to a tilted result, at most.
_UNDERFLOW = 2.0**-500


def convolve_by_tilts(
    x: FloatArray, y: FloatArray, needs: Needs, beside: tuple[FloatArray, FloatArray] | None = None
) -> tuple[FloatArray, FloatArray] | None:
    """Convolve rows of non-negative vectors, or tell by None that tilts do not serve.

    Parameters
    ----------
    x, y : ndarray, shapes (k, n) and (k, m)
        Finite, no element above 2^300. The same object for squares.
    needs : Needs
        What must be known; the bounds hold in any case.
    beside : (ndarray, ndarray), optional
        Shapes (n,) and (m,): the result is to be added to their convolution, and need be known as part of that only.

    Returns
    -------
    values, bound : ndarray, shape (k, n + m - 1)
        Elementwise ``|values - exact| <= bound``.
    """
    same = x is y
    size = x.shape[1] + y.shape[1] - 1
    segment = -(-max(x.shape[1], y.shape[1]) // (_SEGMENTS << sum(size > long for long in _LONG)))
    sparser = min(int(np.count_nonzero(x.max(axis=0))), int(np.count_nonzero(y.max(axis=0))))
    if size > LONGEST or sparser <= _SPARSE:
        return None
    first = _Stack(x, segments_of(x, segment), segment)
    second = first if same else _Stack(y, segments_of(y, segment), segment)
    larger = None if beside is None else max_plus(*(segments_of(each[None], segment) for each in beside))
    level = needed(max_plus(first.segments, second.segments), larger, needs, segment)
    careful = replace(level, spare=max(level.spare - _CARE, 0.0))
    for attempt, how in ((_convolved, level), (_convolved, careful), (_by_parts, careful)):
        found = attempt(first, second, how)
        if found is not None and _known_well(*found, needs, level, segment):
            return found
    return None


@np.errstate(over="ignore")
def _known_well(values: FloatArray, bound: FloatArray, needs: Needs, level: Level, segment: int) -> bool:
    """Whether the bounds add little to the masses beyond each element, in both directions."""
    error, mass, allowance = bound.max(axis=0), values.max(axis=0), needs.allowance
    half = np.clip((0.5 * needs.spacing) * (needs.first + np.arange(float(error.size))), -300.0, 300.0)
    for weights, beyond, way in ((np.exp(half), level.above, -1), (np.exp(-half), level.below, 1)):
        known = np.exp2(np.clip(np.append(beyond, beyond[-1]), -1000.0, 1000.0))
        masses = np.cumsum((mass * weights)[::way])[::way] + np.repeat(known, segment)[: error.size]
        errors = np.cumsum((error * weights)[::way])[::way]
        most = np.minimum(_RARE_ENOUGH * allowance.rare * masses, _ENOUGH * allowance.added * np.max(masses))
        if np.any(errors > most + allowance.floor):
            return False
    return True


@dataclass(frozen=True, eq=False)
class _Stack:
    """Rows, and the coarse picture of all of them."""

    rows: FloatArray
    segments: FloatArray
    segment: int

    def part(self, start: int, stop: int) -> "_Stack":
        """Some segments of it."""
        return _Stack(self.rows[:, start * self.segment : stop * self.segment], self.segments[start:stop], self.segment)

    def tilted(self, tilt: float, top: float) -> FloatArray:
        """Return all rows times 2^(tilt · index - top)."""
        result: FloatArray = self.rows * np.exp2(tilt * np.arange(float(self.rows.shape[1])) - top)
        return result


def _by_parts(x: _Stack, y: _Stack, level: Level) -> tuple[FloatArray, FloatArray] | None:
    """Convolve part by part: a tilt can only serve what is nearly as high as its hull, which parts may be."""
    same = x is y
    parts_x = parts_of(x.segments, y.segments, level)
    parts_y = parts_x if same else parts_of(y.segments, x.segments, level)
    outside_x, outside_y = _outside(x.segments, parts_x), _outside(y.segments, parts_y)
    if max(len(parts_x), len(parts_y)) == 1 and not (outside_x.any() or outside_y.any()):
        return None
    shape = x.rows.shape[0], x.rows.shape[1] + y.rows.shape[1] - 1
    values, bound = np.zeros(shape), np.zeros(shape)
    for i, (start_x, stop_x) in enumerate(parts_x):
        part_x = x.part(start_x, stop_x)
        for j, (start_y, stop_y) in enumerate(parts_y[: i + 1] if same else parts_y):
            alone = same and i == j
            part_y = part_x if alone else y.part(start_y, stop_y)
            found = _convolved(part_x, part_y, level.part(start_x + start_y, stop_x + stop_y - 1))
            if found is None:
                return None
            twice = 2.0 if same and not alone else 1.0
            begin = (start_x + start_y) * x.segment
            out = slice(begin, begin + found[0].shape[1])
            values[:, out] += twice * found[0]
            bound[:, out] += twice * found[1]
    # What no part has.
    terms = min(x.rows.shape[1], y.rows.shape[1])
    left_x, left_y = np.where(outside_x, x.segments, -math.inf), np.where(outside_y, y.segments, -math.inf)
    for one, other in ((left_x, y.segments), (x.segments, left_y)):
        bound += _most(max_plus(one, other), x.segment, terms, shape[1])
    # Sums of several parts are rounded.
    return values, bound * (1.0 + 2.0**-40) + 2.0**-46 * np.abs(values)


def _convolved(x: _Stack, y: _Stack, level: Level) -> tuple[FloatArray, FloatArray] | None:
    """Convolve two stacks of rows where a few tilts serve all that is needed; with bounds of the errors."""
    highest = max_plus(x.segments, y.segments)
    size_x, size_y = x.rows.shape[1], y.rows.shape[1]
    values = np.zeros((x.rows.shape[0], size_x + size_y - 1))
    bound = np.full(values.shape, np.inf)
    # Far below what lies beside it, or in another part, nothing need be known.
    telling = level.relevant & (highest >= level.want - BESIDE)
    if telling.any():
        runs = runs_of(x.segments, y.segments, x.segment, replace(level, relevant=telling))
        if runs is None:
            return None
        _run(x, y, runs, (values, bound))
    # An element is at most this; where that is less than the bound, 0 is nearer for certain.
    most = _most(highest, x.segment, min(size_x, size_y), values.shape[1])
    nothing = ~(bound <= most)
    return np.where(nothing, 0.0, values), np.where(nothing, most, bound)


def _run(x: _Stack, y: _Stack, runs: Sequence[Run], out: tuple[FloatArray, FloatArray]) -> None:
    """Fill in what the runs serve."""
    values, bound = out
    size = values.shape[1]
    length = good_length(size)
    error = (3.0 * transform_error(length) + 45.0 * UNIT_ROUNDOFF) * 1.002
    # Norms of rows far below the others may underflow: what is there is told by the rows themselves.
    underflow = np.where(x.rows.any(axis=1) & y.rows.any(axis=1), _UNDERFLOW, 0.0)
    for run in runs:
        tilted = x.tilted(run.tilt, run.top_x)
        spectrum = forward(tilted, length)
        norms = np.einsum("ki,ki->k", tilted, tilted)
        if x is y:
            spectrum *= spectrum
        else:
            other = y.tilted(run.tilt, run.top_y)
            spectrum *= forward(other, length)
            norms = np.sqrt(norms) * np.sqrt(np.einsum("ki,ki->k", other, other))
        part = slice(run.start * x.segment, min(run.stop * x.segment, size))
        back = np.exp2((run.top_x + run.top_y) - run.tilt * np.arange(float(part.start), float(part.stop)))
        np.multiply(inverse(spectrum, length)[:, part], back, out=values[:, part])
        np.multiply((error * norms + underflow)[:, None], back, out=bound[:, part])
        # A factor that is no full float loses digits of what it multiplies, however large that is.
        bound[:, part][:, back < _SMALLEST_FACTOR] = np.inf


def _outside(segments: FloatArray, parts: Sequence[tuple[int, int]]) -> BoolArray:
    """Whether a segment is in no part."""
    outside = np.ones(segments.size, bool)
    for start, stop in parts:
        outside[start:stop] = False
    return outside


def _most(highest: FloatArray, segment: int, terms: int, size: int) -> FloatArray:
    """Return what each element is at most: it has so many terms, each of two segments that meet in it."""
    # They meet in its own segment of the output or in the one before.
    both = np.maximum(np.append(highest, -math.inf), np.append(-math.inf, highest))
    with np.errstate(under="ignore"):
        most = np.where(both > -math.inf, np.exp2(np.clip(both, -1000.0, 1000.0)) * (1.0 + 1e-9) * terms, 0.0)
    return np.asarray(np.repeat(most, segment)[:size])
