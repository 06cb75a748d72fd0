"""Measures on likelihood ratios that add up, on lattices of several spacings: made coarser, and convolved.

The points of level e are the multiples of ``unit · 2^e``: sums of points of two levels are points of the finer one's
lattice. What a coarse level has is convolved with all finer ones made as coarse: a sum of many small ratios and a large
one takes no more points than the large one alone (section 17 of ``docs/theory.md``). Levels come with a bound on how
far each mass may be off: a part of it, and an extra error after transforms.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pbdist.fourier import Allowance, Needs, convolve, convolve_by_tilts, convolve_plainly, plain_error
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

_U = UNIT_ROUNDOFF
#: Errors are convolved in blocks, at least so many of them.
_BLOCKS = 600
#: What tilted transforms may add: a part of the budget, and of the masses beyond any point on either side.
_OF_BUDGET, _RARE = 1e-3, 1e-7
#: More than underflow takes from a mass: at most 2^60 numbers lose 2^-1074.
_UNDERFLOW = 1e-300
#: Doublings of the spacing that masses are merged over at once, at most.
_AT_ONCE = 6
#: Up to so many products are summed directly, with and without a quick way.
_DIRECT_PRODUCTS, _MAX_DIRECT_PRODUCTS = 1 << 20, 1 << 24


@dataclass(frozen=True, eq=False)
class Level:
    """Masses on one lattice."""

    #: e; the points are the multiples of unit · 2^e.
    exponent: int
    #: Which multiple the first mass lies at, at least 0.
    first: int
    #: At least 0. Shape (n,).
    masses: FloatArray
    #: Each exact mass differs from the one here by at most this part of it, ..
    relative: float = 0.0
    #: .. by what underflow takes, and by at most this: shape (n,), None for 0.
    extra: FloatArray | None = None

    @property
    def size(self) -> int:
        """Number of points."""
        return int(self.masses.size)

    @property
    def points(self) -> FloatArray:
        """The multiples, as floats: exact."""
        result: FloatArray = np.arange(self.first, self.first + self.size, dtype=np.float64)
        return result

    @property
    def upper(self) -> FloatArray:
        """The masses from above."""
        upper: FloatArray = self.masses * ((1.0 + self.relative) * (1.0 + 4.0 * _U)) + _UNDERFLOW
        return upper if self.extra is None else (upper + self.extra) * (1.0 + 2.0 * _U)

    @property
    def lower(self) -> FloatArray:
        """The masses from below, where they are far above what underflow takes."""
        lower: FloatArray = self.masses * ((1.0 - self.relative) * (1.0 - 4.0 * _U))
        return lower if self.extra is None else lower - self.extra * (1.0 + 2.0 * _U)

    @property
    def rows(self) -> list[FloatArray]:
        """The masses, and their extra errors if there are any."""
        return [self.masses] if self.extra is None else [self.masses, self.extra]

    def moved(self, first: int, rows: Sequence[FloatArray], roundings: float, doublings: int = 0) -> "Level":
        """Other masses and extra errors, after sums that were rounded so often, on a lattice so much coarser."""
        relative = (self.relative + roundings * _U) * (1.0 + (roundings + 8.0) * _U)
        extra = None if self.extra is None else rows[1] * (1.0 + (2.0 * roundings + 4.0) * _U)
        return Level(self.exponent + doublings, first, rows[0], relative, extra)

    def slice(self, start: int, stop: int) -> "Level | None":
        """Some of the points, by their place here; None for none."""
        if start >= stop:
            return None
        return self.moved(self.first + start, [row[start:stop] for row in self.rows], 0.0)

    def trimmed(self) -> "Level | None":
        """The same without ends where nothing is; None where nothing is anywhere."""
        there = np.flatnonzero(sum(self.rows))
        return self.slice(int(there[0]), int(there[-1]) + 1) if there.size else None


#: Makes a level coarser, by a number of doublings of the spacing.
Coarsening: TypeAlias = Callable[[Level, int], Level]


def split_to_both(level: Level, doublings: int) -> Level:
    """Split masses between points of the coarser lattice to both neighbours, so that their mean stays."""
    if doublings == 0:
        return level
    rows, first = level.rows, level.first
    for _ in range(doublings):
        odd = first & 1
        rows = [_halved(row, odd) for row in rows]
        first = (first - odd) // 2
    return level.moved(first, rows, 3.0 * doublings, doublings)


def _halved(values: FloatArray, odd: int) -> FloatArray:
    padded = np.zeros(2 * ((values.size + odd) // 2) + 3)
    padded[1 + odd : 1 + odd + values.size] = values
    result: FloatArray = padded[1:-1:2] + 0.5 * (padded[0:-2:2] + padded[2::2])
    return result


def merged_in_halves(level: Level, doublings: int) -> Level:
    """Move masses to the nearest point of the coarser lattice, halves of those in the middle to either one."""
    while doublings > _AT_ONCE:
        level, doublings = merged_in_halves(level, _AT_ONCE), doublings - _AT_ONCE
    if doublings == 0:
        return level
    step = 1 << doublings
    half = step >> 1
    # A row is of the points m · step - half .. m · step + half - 1: its first one lies in the middle.
    start, stop = (level.first + half) // step, (level.first + level.size - 1 + half) // step
    offset = level.first - (start * step - half)
    rows = []
    for values in level.rows:
        padded = np.zeros((stop - start + 1) * step)
        padded[offset : offset + level.size] = values
        parts = padded.reshape(-1, step)
        middle = 0.5 * parts[:, 0]
        rows.append(np.append(0.0, parts[:, 1:].sum(axis=1) + middle) + np.append(middle, 0.0))
    # The point before the first one may be -1, where nothing is.
    skipped = 1 if start == 0 else 0
    return level.moved(start - 1 + skipped, [row[skipped:] for row in rows], step + 2.0, doublings)


def scaled(level: Level, factor: float) -> Level:
    """The masses times a factor that is off by u relatively."""
    return level.moved(level.first, [row * factor for row in level.rows], 2.0)


def gathered(levels: Iterable[Level | None]) -> tuple[Level, ...]:
    """Add up levels of equal exponents, in the order of these."""
    by_exponent: dict[int, list[Level]] = {}
    for level in levels:
        if level is not None:
            by_exponent.setdefault(level.exponent, []).append(level)
    return tuple(_added(by_exponent[exponent]) for exponent in sorted(by_exponent))


def _added(levels: Sequence[Level]) -> Level:
    if len(levels) == 1:
        return levels[0]
    first = min(level.first for level in levels)
    size = max(level.first + level.size for level in levels) - first
    rows = [np.zeros(size) for _ in range(max(len(level.rows) for level in levels))]
    for level in levels:
        for row, values in zip(rows, level.rows, strict=False):
            row[level.first - first : level.first - first + level.size] += values
    relative = max(level.relative for level in levels)
    whole = Level(levels[0].exponent, first, rows[0], relative, rows[1] if len(rows) > 1 else None)
    return whole.moved(first, rows, float(len(levels)))


def parted(level: Level, cut: int) -> tuple[Level | None, Level | None]:
    """Part a level into its points below the multiple `cut`, and the others."""
    inside = min(max(cut - level.first, 0), level.size)
    return level.slice(0, inside), level.slice(inside, level.size)


def product(x: Sequence[Level], y: Sequence[Level], coarser: Coarsening, budget: float) -> tuple[Level, ...]:
    """Convolve two measures; a coarse level is convolved with the finer ones made as coarse by `coarser`.

    `budget` is an error that all masses of a level together may have: with it no more care is taken.
    """
    same = x is y
    at_x, at_y = {level.exponent: level for level in x}, {level.exponent: level for level in y}
    finer_x: Level | None = None
    finer_y: Level | None = None
    found: list[Level | None] = []
    for exponent in sorted(at_x.keys() | at_y.keys()):
        finer_x = None if finer_x is None else coarser(finer_x, exponent - finer_x.exponent)
        finer_y = finer_x if same else None if finer_y is None else coarser(finer_y, exponent - finer_y.exponent)
        own_x, own_y = at_x.get(exponent), at_y.get(exponent)
        all_x = _both(own_x, finer_x)
        all_y = all_x if same else _both(own_y, finer_y)
        if same:
            found.append(_convolved(own_x, own_x if finer_x is None else _both(own_x, scaled(finer_x, 2.0)), budget))
        else:
            found += [_convolved(own_x, all_y, budget), _convolved(finer_x, own_y, budget)]
        finer_x, finer_y = all_x, all_y
    return gathered(found)


def _both(one: Level | None, other: Level | None) -> Level | None:
    levels = gathered((one, other))
    return levels[0] if levels else None


def _convolved(x: Level | None, y: Level | None, budget: float) -> Level | None:
    """Convolve two levels of one exponent."""
    if x is None or y is None:
        return None
    values, relative, bound = _convolution(x.masses, y.masses, budget)
    # Of (x ± p x)(y ± q y) a part of p + q + p q.
    both = x.relative + y.relative + x.relative * y.relative
    relative = (relative + both + relative * both) * (1.0 + 16.0 * _U)
    extra = _extra_of_product(x, y)
    if bound is not None:
        more = bound * ((1.0 + both) * (1.0 + 4.0 * _U))
        extra = more if extra is None else (extra + more) * (1.0 + 2.0 * _U)
    # No exact mass is below 0: 0 is nearer to it than what is below.
    return Level(x.exponent, x.first + y.first, np.maximum(values, 0.0), relative, extra)


def _convolution(x: FloatArray, y: FloatArray, budget: float) -> tuple[FloatArray, float, FloatArray | None]:
    """Convolve masses: long vectors as quickly as the budget allows, others by plain sums.

    Returns the values, and their errors: a part of themselves, and an extra one. Sums of k products that are not
    negative err by at most (k + 2) u of themselves, in whatever order they are taken.
    """
    products, size = x.size * y.size, x.size + y.size - 1
    if products > _DIRECT_PRODUCTS:
        error = plain_error(x, y)
        if error * size <= budget:
            return convolve_plainly(x, y), 0.0, np.full(size, error)
        if products > _MAX_DIRECT_PRODUCTS:
            row, needs = x[None], Needs(0.0, 0, Allowance(_OF_BUDGET * budget, _RARE, _RARE))
            tilted = convolve_by_tilts(row, row if x is y else y[None], needs)
            values, bound = convolve(x, y) if tilted is None else (tilted[0][0], tilted[1][0])
            return values, 0.0, bound
    return np.convolve(x, y), 1.01 * (min(x.size, y.size) + 2.0) * _U, None


def _extra_of_product(x: Level, y: Level) -> FloatArray | None:
    """Bound x's extra errors convolved with y from above, and y's with x: block by block, with one bound for each.

    Element k of block K of the result is a sum over the blocks I of x; element i of block I meets element k - i of y,
    which lies in block K - I or the one before.
    """
    if x.extra is y.extra is None:
        return None
    size = x.size + y.size - 1
    block = max(1, max(x.size, y.size) // _BLOCKS)
    total = np.zeros(-(-size // block) + 1)
    for errors, others in ((x.extra, y.upper), (y.extra, x.masses * (1.0 + x.relative))):
        if errors is not None:
            sums = _blocks(errors, block).sum(axis=1)
            largest = _blocks(others, block).max(axis=1)
            part = np.convolve(sums, np.maximum(np.append(largest, 0.0), np.append(0.0, largest)))[: total.size]
            total[: part.size] += part
    # Sums of products that are not negative, in whatever order; some may have been no full floats.
    total = total * (1.0 + (block + 2.0 * total.size + 16.0) * _U) + math.ldexp(1.0, -1000)
    return np.repeat(total, block)[:size]


def _blocks(values: FloatArray, block: int) -> FloatArray:
    padded = np.zeros(-(-values.size // block) * block)
    padded[: values.size] = values
    return padded.reshape(-1, block)
