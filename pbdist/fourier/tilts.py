"""Choose a few tilts of whole vectors by a coarse picture: the largest element of each of some fifty segments.

Nothing here is a bound: a bad choice costs precision, and the bounds of `rows` say how much.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pbdist.fourier.transform import forward, good_length, inverse, transform_error
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import BoolArray, FloatArray, IntArray

#: The most tilts that are tried, and the most runs.
_MAX_TILTS, _MAX_RUNS = 40, 10
#: Tilts are whole multiples of this many bits an element, so that exponents are exact.
_UNIT = 2.0**-34
#: Positions up to here times a multiple of the unit are exact, ..
LONGEST = 1 << 18
#: .. as long as an exponent stays below this.
_LARGEST_EXPONENT = 900.0
#: Bits a segment of a tilt at most: so no tilted element is above 2^201.
_STEEPEST = 400.0
#: A tilt is sufficient if it loses at most this many bits more than the best one.
_SUFFICIENT_EXCESS = 3.0
#: Bits that a sum of errors has below the sum of masses, about.
_PRECISION = 42.0
#: Limits on the bits that may be lost.
_MIN_SPARE, _MAX_SPARE = 4.0, 28.0
#: An element this many bits below its neighbours need not be known.
BESIDE = 60.0


@dataclass(frozen=True)
class Allowance:
    """What rounding may add to masses."""

    #: Mass that may be added to one side's sum.
    floor: float
    #: What may be added to all masses together, relative to them.
    added: float
    #: What may be added to the masses beyond a loss, relative to them, where they are rare.
    rare: float


@dataclass(frozen=True)
class Needs:
    """What must be known of a result: masses of losses under the factors e^{∓loss/2}.

    Such a mass need be known no better than the masses beyond it together, which affect every δ as much.
    """

    #: Nats from element to element; 0 for other masses, of which those beyond on either side count alike.
    spacing: float
    #: Position of the first element: its loss is first · spacing.
    first: int
    allowance: Allowance


@dataclass(frozen=True, eq=False)
class Level:
    """What must be known, segment by segment of the output."""

    #: Log2 of what an error is measured by.
    want: FloatArray
    #: Where anything is to be known.
    relevant: BoolArray
    #: Log2 of what lies beyond each segment for certain: of masses times e^{loss/2}, and of masses times e^{-loss/2}.
    above: FloatArray
    below: FloatArray
    #: Bits that may be lost.
    spare: float


@dataclass(frozen=True)
class Run:
    """A tilt, and what it serves."""

    #: Bits an element.
    tilt: float
    #: Exponents of the largest tilted elements.
    top_x: float
    top_y: float
    #: First segment of the output that is served, and the one after the last.
    start: int
    stop: int


def segments_of(largest: FloatArray, segment: int) -> FloatArray:
    """Log2 of the largest element of each segment."""
    padded = np.zeros(-(-largest.size // segment) * segment)
    padded[: largest.size] = largest
    with np.errstate(divide="ignore"):
        result: FloatArray = np.log2(padded.reshape(-1, segment).max(axis=1))
    return result


def needed(highest: FloatArray, total: FloatArray, needs: Needs, segment: int) -> Level:
    """How well each output segment must be known, beside what there is in total."""
    size, allowance = segment * total.size, needs.allowance
    spare = min(max(_PRECISION + math.log2(allowance.rare), _MIN_SPARE), _MAX_SPARE)
    # With a = u e^{l/2}, an error at a loss l reaches δ of A||B for every ε < l, as all mass beyond l does, and more of
    # it: a mass beyond l of as large an a hides the error. For B||A likewise with e^{-l/2} and what lies below l.
    rise = (0.5 * needs.spacing / math.log(2.0)) * (needs.first + segment * (np.arange(total.size) + 1.0))
    above = np.maximum.accumulate((total + rise)[::-1])[::-1]
    below = np.maximum.accumulate(total - rise)
    least = math.log2(max(allowance.floor, 1e-290)) - math.log2(size)
    relevant = np.minimum(above, below) >= least - math.log2(size)
    # In all, errors may add a part; where little lies beyond, a part of that.
    cap = math.log2(allowance.added / allowance.rare)
    cap_above, cap_below = above[0] + cap, below[-1] + cap
    # What lies in the segment itself or in the next one need not lie beyond; of two directions the larger one counts.
    nothing = np.full(2, -math.inf)
    above, below = np.append(above, nothing)[2:], np.append(nothing, below)[:-2]
    farther_up, farther_down = np.searchsorted(rise, -rise, "left"), np.searchsorted(rise, -rise, "right") - 1
    if needs.spacing > 0.0:
        above, below = np.maximum(above, _taken(below, farther_down)), np.maximum(below, _taken(above, farther_up))
    want = np.maximum(highest, np.minimum(above - rise, below + rise))
    want = np.minimum(want, np.minimum(cap_above - rise, cap_below + rise))
    want = np.maximum(want, least + _PRECISION - spare - np.abs(rise))
    return Level(want, relevant, above, below, spare)


def _taken(values: FloatArray, positions: IntArray) -> FloatArray:
    """Values at these indices, -inf outside."""
    inside = (positions >= 0) & (positions < values.size)
    return np.where(inside, values[np.clip(positions, 0, values.size - 1)], -math.inf)


def runs_of(
    segments_x: FloatArray, segments_y: FloatArray, segment: int, level: Level, highest: FloatArray
) -> list[Run] | None:
    """Choose tilts and the ranges of output segments that they serve, or return None if tilts do not serve."""
    want, relevant, spare = level.want, level.relevant, level.spare
    tilts = np.clip(_candidates(highest, relevant), -_STEEPEST, _STEEPEST) / segment
    tilts = np.round(tilts / _UNIT) * _UNIT
    middle = (np.arange(max(segments_x.size, segments_y.size)) + 0.5) * segment
    level_x = (segments_x + tilts[:, None] * middle[: segments_x.size]).max(axis=1)
    level_y = (
        level_x if segments_x is segments_y else (segments_y + tilts[:, None] * middle[: segments_y.size]).max(axis=1)
    )
    # Segments i and j meet around (i + j + 1) segments; a segment of the output has elements of two such sums.
    positions = (np.arange(want.size) + 1.0) * segment
    loss = (level_x + level_y)[:, None] - want - tilts[:, None] * positions
    best = loss.min(axis=0)
    if float(np.max(np.where(relevant, best, 0.0))) > _MAX_SPARE:
        return None
    enough = loss <= np.maximum(best + _SUFFICIENT_EXCESS, spare)
    enough[:, ~relevant] = True
    runs: list[Run] = []
    begin, end = (int(index) for index in np.flatnonzero(relevant)[[0, -1]] + (0, 1))
    start = begin
    while start < end:
        served = np.logical_and.accumulate(enough[:, start:end], axis=1)
        stop = start + int(np.max(np.sum(served, axis=1)))
        chosen = _best(served[:, stop - start - 1], loss[:, start:stop], relevant[start:stop])
        top_x, top_y = math.ceil(level_x[chosen]), math.ceil(level_y[chosen])
        tilt = float(tilts[chosen])
        ends = tilt * segment * np.array([start, stop + 1.0])
        exponents = (-top_x, -top_y, tilt * segment * segments_x.size - top_x, tilt * segment * segments_y.size - top_y)
        back = np.max(top_x + top_y - ends)
        if max(*exponents, back) > _LARGEST_EXPONENT or len(runs) == _MAX_RUNS:
            return None
        # The last segment has elements beyond its end.
        runs.append(Run(tilt, float(top_x), float(top_y), start, stop if stop < end else stop + 1))
        start = stop
    return runs


def _best(common: BoolArray, loss: FloatArray, relevant: BoolArray) -> int:
    """Return the tilt, of those that serve all segments of a run, that loses least at the worst of them."""
    worst = np.where(relevant, loss, -math.inf).max(axis=1)
    return int(np.argmin(np.where(common, worst, math.inf)))


def _hull(positions: IntArray, heights: FloatArray) -> IntArray:
    """Indices of the upper hull's corners: whatever is not above the line between its neighbours is no corner."""
    corners: list[tuple[int, int, float]] = []
    for index, (x, y) in enumerate(zip(positions.tolist(), heights.tolist(), strict=True)):
        while len(corners) > 1:
            (_, x_before, y_before), (_, x_last, y_last) = corners[-2:]
            if (y_last - y_before) * (x - x_last) > (y - y_last) * (x_last - x_before):
                break
            corners.pop()
        corners.append((index, x, y))
    return np.array([index for index, _, _ in corners], dtype=np.int64)


def _candidates(highest: FloatArray, relevant: BoolArray) -> FloatArray:
    """Tilts, in bits a segment, that level the upper hull around what is relevant, segment by segment."""
    begin, end = np.flatnonzero(relevant)[[0, -1]]
    # The slope at the ends takes a segment more on either side.
    begin, end = max(int(begin) - 1, 0), min(int(end) + 2, highest.size)
    positions = begin + np.flatnonzero(highest[begin:end] > -math.inf)
    heights = highest[positions]
    if positions.size == 0:
        return np.zeros(1)
    hull = _hull(positions, heights)
    if hull.size < 2:
        return np.zeros(1)
    slopes = -np.diff(heights[hull]) / np.diff(positions[hull])
    chosen = np.unique(np.append(slopes, 0.0))
    if chosen.size > _MAX_TILTS:
        chosen = chosen[np.unique(np.linspace(0, chosen.size - 1, _MAX_TILTS).astype(int))]
    return chosen


def max_plus(x: FloatArray, y: FloatArray) -> FloatArray:
    """Largest sums of segments that meet."""
    padded = np.full((x.size, y.size + x.size), -math.inf)
    padded[:, : y.size] = x[:, None] + y
    # Each row moves one index further than the one before.
    result: FloatArray = padded.reshape(-1)[: x.size * (y.size + x.size - 1)].reshape(x.size, -1).max(axis=0)
    return result


#: Vectors of no more elements above 0 are left to direct sums.
_SPARSE = 48
#: Segments of the longer vector, twice and four times as many of results longer than these.
_SEGMENTS, _LONG = 96, (1 << 14, 1 << 15)
#: Bounds may add so many times as much as is wanted: to all masses, and to rare ones.
_ENOUGH, _RARE_ENOUGH = 4.0, 64.0
#: Bits by which a vector lies below its hull where it is split; and most products beside a part that is split again.
_DEEP, _MAX_BESIDE = 8.0, 6
#: By how many bits fewer may be lost than seems enough: errors of many elements add up.
_CARE = 10.0
#: Elements of a result are looked at in about so many groups.
_GROUPS = 2048
#: A factor below this may be no full float.
_SMALLEST_FACTOR = 2.0**-1000
#: The most that underflow adds to a tilted result.
_UNDERFLOW = 2.0**-500


def convolve_by_tilts(
    x: FloatArray, y: FloatArray, needs: Needs, beside: Sequence[tuple[FloatArray, FloatArray]] = ()
) -> tuple[FloatArray, FloatArray] | None:
    r"""Convolve rows of non-negative vectors, elementwise \|values - exact\| <= bound; None where tilts do not serve.

    `x` and `y` have the shapes (k, n) and (k, m), are finite, and have no element above 2^300; they are the same object
    for squares. The result is to be added to convolutions of `beside`, and need be known as part of these only.
    """
    size = x.shape[1] + y.shape[1] - 1
    segment = -(-max(x.shape[1], y.shape[1]) // (_SEGMENTS << sum(size > long for long in _LONG)))
    first = _Stack.of(x, segment)
    second = first if x is y else _Stack.of(y, segment)
    if size > LONGEST or min(first.occupied, second.occupied) <= _SPARSE:
        return None
    whole = _by_tilts(first, second, needs, beside)
    if whole is not None or len(beside) > _MAX_BESIDE:
        return whole
    valley_x, valley_y = (_valley(stack.segments, needs) * segment for stack in (first, second))
    if not (valley_x or valley_y):
        return None
    (near_x, far_x), (near_y, far_y) = _split(x, valley_x), _split(y, valley_y)
    # x * x = near * near + far * (x + near).
    pairs = [(near_x, near_x), (far_x, x + near_x)] if x is y else [(near_x, near_y), (near_x, far_y), (far_x, y)]
    values, bound = np.zeros((2, x.shape[0], size))
    for pair in pairs:
        others = [tuple(rows.max(axis=0) for rows in other) for other in pairs if other is not pair]
        found = convolve_by_tilts(*pair, needs, (*beside, *others))
        if found is None:
            return None
        values, bound = values + found[0], bound + found[1]
    # No summand is below minus its bound, so that no partial sum exceeds the last one by more than twice the bounds.
    return values, (bound + 4.0 * UNIT_ROUNDOFF * np.abs(values)) * (1.0 + 8.0 * UNIT_ROUNDOFF)


def _split(rows: FloatArray, position: int) -> tuple[FloatArray, FloatArray]:
    """Return what lies before a position, and what lies from there on."""
    near, far = rows.copy(), rows.copy()
    near[:, position:], far[:, :position] = 0.0, 0.0
    return near, far


def _by_tilts(
    x: "_Stack", y: "_Stack", needs: Needs, beside: Sequence[tuple[FloatArray, FloatArray]]
) -> tuple[FloatArray, FloatArray] | None:
    """Convolve two stacks by tilts of all they have."""
    segment = x.segment
    highest = max_plus(x.segments, y.segments)
    total = highest.copy()
    for pair in beside:
        one, two = (segments_of(each, segment) for each in pair)
        # Only the largest mass of the second row is looked at.
        shift = int(np.argmax(two))
        reached = total[shift : shift + one.size]
        np.maximum(reached, one[: reached.size] + two[shift], out=reached)
    level = needed(highest, total, needs, segment)
    level = replace(level, spare=max(level.spare - _CARE, 0.0))
    result = _convolved(x, y, level, highest)
    return result if result is not None and _known_well(*result, needs, level, segment) else None


def _valley(segments: FloatArray, needs: Needs) -> int:
    """Return the segment that lies deepest below the upper hull, so deep that tilts lose it; or 0."""
    positions = np.flatnonzero(segments > math.log2(max(needs.allowance.floor, 1e-290)))
    if not positions.size:
        return 0
    heights = segments[positions]
    hull = _hull(positions, heights)
    depths = np.interp(positions, positions[hull], heights[hull]) - heights
    return int(positions[np.argmax(depths)]) if np.max(depths, initial=0.0) > _DEEP else 0


@np.errstate(over="ignore")
def _known_well(values: FloatArray, bound: FloatArray, needs: Needs, level: Level, segment: int) -> bool:
    """Whether the bounds add little to the masses beyond each element, or group of some, in both directions."""
    allowance, size = needs.allowance, values.shape[1]
    starts = np.arange(0, size, max(size // _GROUPS, 1))
    error, mass = (np.add.reduceat(rows.max(axis=0), starts) for rows in (bound, values))
    rise = np.exp(np.clip((0.5 * needs.spacing) * (needs.first + starts), -300.0, 300.0))
    for weights, beyond, way in ((rise, level.above, -1), (1.0 / rise, level.below, 1)):
        known = np.exp2(np.clip(np.append(beyond, beyond[-1]), -1000.0, 1000.0))[starts // segment]
        masses = np.cumsum((mass * weights)[::way])[::way] + known
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
    #: How many positions have any mass.
    occupied: int

    @staticmethod
    def of(rows: FloatArray, segment: int) -> "_Stack":
        """Look at rows in segments of so many elements."""
        largest = rows.max(axis=0)
        return _Stack(rows, segments_of(largest, segment), segment, int(np.count_nonzero(largest)))

    def tilted(self, tilt: float, top: float) -> FloatArray:
        """Return all rows times 2^(tilt · index - top)."""
        result: FloatArray = self.rows * np.exp2(tilt * np.arange(float(self.rows.shape[1])) - top)
        return result


def _convolved(x: _Stack, y: _Stack, level: Level, highest: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Convolve two stacks of rows where a few tilts serve all that is needed; with bounds of the errors."""
    size_x, size_y = x.rows.shape[1], y.rows.shape[1]
    values = np.zeros((x.rows.shape[0], size_x + size_y - 1))
    bound = np.full(values.shape, np.inf)
    # Far below what lies beside it nothing need be known.
    telling = level.relevant & (highest >= level.want - BESIDE)
    if telling.any():
        runs = runs_of(x.segments, y.segments, x.segment, replace(level, relevant=telling), highest)
        if runs is None:
            return None
        _run(x, y, runs, (values, bound))
    # An element is at most this; where that is less than the bound, 0 is nearer for certain.
    most = _most(highest, x.segment, min(size_x, size_y), values.shape[1])
    np.copyto(values, 0.0, where=~(bound <= most))
    return values, np.fmin(bound, most, out=bound)


def _run(x: _Stack, y: _Stack, runs: Sequence[Run], out: tuple[FloatArray, FloatArray]) -> None:
    """Fill in what the runs serve."""
    values, bound = out
    size = values.shape[1]
    length = good_length(size)
    error = (3.0 * transform_error(length) + 45.0 * UNIT_ROUNDOFF) * 1.002
    # Norms of rows far below the others may underflow: the rows themselves show where masses are.
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
        if min(back[0], back[-1]) < _SMALLEST_FACTOR:
            bound[:, part][:, back < _SMALLEST_FACTOR] = np.inf


def _most(highest: FloatArray, segment: int, terms: int, size: int) -> FloatArray:
    """Return what each element is at most: it has so many terms, each of two segments that meet in it."""
    # They meet in its own segment of the output or in the one before.
    both = np.maximum(np.append(highest, -math.inf), np.append(-math.inf, highest))
    with np.errstate(under="ignore"):
        most = np.where(both > -math.inf, np.exp2(np.clip(both, -1000.0, 1000.0)) * (1.0 + 1e-9) * terms, 0.0)
    return np.asarray(np.repeat(most, segment)[:size])
