"""Measures on likelihood ratios that add up, on lattices of several spacings: made coarser, and convolved.

A measure has levels. The points of level e are the multiples of ``unit · 2^e``, so that each level's lattice holds that
of every coarser one, and sums of points of two levels are points of the finer one's lattice. What a coarse level has is
convolved with all finer ones made as coarse: a sum of many small ratios and a large one takes no more points than the
large one alone (section 17 of ``docs/theory.md``).

Levels come with a bound on how far each mass may be off. Coarser levels and sums are linear in both.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pbdist.fourier import convolve, convolve_plainly, plain_error
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

_U = UNIT_ROUNDOFF
#: Errors are convolved in blocks, at least so many of them.
_BLOCKS = 600
#: Doublings of the spacing that masses are merged over at once, at most.
_AT_ONCE = 6
#: Up to so many products are summed directly, with and without a quick way.
_DIRECT_PRODUCTS, _MAX_DIRECT_PRODUCTS = 1 << 20, 1 << 26


@dataclass(frozen=True, eq=False)
class Level:
    """Masses on one lattice."""

    #: e; the points are the multiples of unit · 2^e.
    exponent: int
    #: Which multiple the first mass lies at, at least 0.
    first: int
    #: At least 0. Shape (n,).
    masses: FloatArray
    #: Each exact mass differs from the one here by at most that. Shape (n,).
    errors: FloatArray

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
        result: FloatArray = (self.masses + self.errors) * (1.0 + 2.0 * _U)
        return result

    def slice(self, start: int, stop: int) -> "Level | None":
        """Some of the points, by their place here; None for none."""
        if start >= stop:
            return None
        return Level(self.exponent, self.first + start, self.masses[start:stop], self.errors[start:stop])

    def trimmed(self) -> "Level | None":
        """The same without ends where nothing is; None where nothing is anywhere."""
        there = np.flatnonzero((self.masses > 0.0) | (self.errors > 0.0))
        return self.slice(int(there[0]), int(there[-1]) + 1) if there.size else None


#: Makes a level coarser, by a number of doublings of the spacing.
Coarsening: TypeAlias = Callable[[Level, int], Level]


def split_to_both(level: Level, doublings: int) -> Level:
    """Split masses between points of the coarser lattice to both neighbours, so that their mean stays."""
    if doublings == 0:
        return level
    masses, errors, first = level.masses, level.errors, level.first
    for _ in range(doublings):
        odd = first & 1
        masses, errors = _halved(masses, odd), _halved(errors, odd)
        first = (first - odd) // 2
    return Level(level.exponent + doublings, first, masses, _with_rounding(errors, masses, 3.0 * doublings))


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
    for values in (level.masses, level.errors):
        padded = np.zeros((stop - start + 1) * step)
        padded[offset : offset + level.size] = values
        parts = padded.reshape(-1, step)
        middle = 0.5 * parts[:, 0]
        rows.append(np.append(0.0, parts[:, 1:].sum(axis=1) + middle) + np.append(middle, 0.0))
    masses, errors = rows
    # The point before the first one may be -1, where nothing is.
    skipped = 1 if start == 0 else 0
    errors = _with_rounding(errors, masses, step + 2.0)
    return Level(level.exponent + doublings, start - 1 + skipped, masses[skipped:], errors[skipped:])


def _with_rounding(errors: FloatArray, masses: FloatArray, roundings: float) -> FloatArray:
    """Errors, after sums of masses and of errors were rounded so often."""
    result: FloatArray = (errors + masses * (roundings * _U)) * (1.0 + (2.0 * roundings + 4.0) * _U)
    return result


def scaled(level: Level, factor: float) -> Level:
    """The masses times a factor that is off by u relatively."""
    masses = level.masses * factor
    return Level(level.exponent, level.first, masses, _with_rounding(level.errors * factor, masses, 2.0))


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
    masses, errors = np.zeros(size), np.zeros(size)
    for level in levels:
        there = slice(level.first - first, level.first - first + level.size)
        masses[there] += level.masses
        errors[there] += level.errors
    return Level(levels[0].exponent, first, masses, _with_rounding(errors, masses, float(len(levels))))


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
    values, bound = _convolution(x.masses, y.masses, budget)
    # No exact mass is below 0: 0 is nearer to it than what is below.
    masses = np.maximum(values, 0.0)
    errors = _with_rounding(bound + _errors_of_product(x, y), masses, 0.0)
    return Level(x.exponent, x.first + y.first, masses, errors).trimmed()


def _convolution(x: FloatArray, y: FloatArray, budget: float) -> tuple[FloatArray, FloatArray]:
    """Convolve masses: long vectors as quickly as the budget allows, others by plain sums.

    Sums of k products that are not negative err by at most (k + 2) u of themselves, in whatever order they are taken,
    and by half of the smallest number for each product that underflows.
    """
    products, size = x.size * y.size, x.size + y.size - 1
    if products > _DIRECT_PRODUCTS:
        error = plain_error(x, y)
        if error * size <= budget:
            return convolve_plainly(x, y), np.full(size, error)
        if products > _MAX_DIRECT_PRODUCTS:
            return convolve(x, y)
    terms = min(x.size, y.size) + 2.0
    values = np.convolve(x, y)
    return values, values * (1.01 * terms * _U) + math.ldexp(terms, -1074)


def _errors_of_product(x: Level, y: Level) -> FloatArray:
    """Bound x's errors convolved with y from above, and y's errors with x: block by block, with one bound for each.

    Element k of block K of the result is a sum over the blocks I of x; element i of block I meets element k - i of y,
    which lies in block K - I or the one before.
    """
    size = x.size + y.size - 1
    if not (x.errors.any() or y.errors.any()):
        return np.zeros(size)
    block = max(1, max(x.size, y.size) // _BLOCKS)
    total = np.zeros(-(-size // block) + 1)
    for errors, others in ((x.errors, y.upper), (y.errors, x.masses)):
        sums = _blocks(errors, block).sum(axis=1)
        largest = _blocks(others, block).max(axis=1)
        nearby = np.maximum(np.append(largest, 0.0), np.append(0.0, largest))
        part = np.convolve(sums, nearby)[: total.size]
        total[: part.size] += part
    # Sums of products that are not negative, in whatever order; some may have been no full floats.
    total = total * (1.0 + (block + 2.0 * total.size + 16.0) * _U) + math.ldexp(1.0, -1000)
    return np.repeat(total, block)[:size]


def _blocks(values: FloatArray, block: int) -> FloatArray:
    padded = np.zeros(-(-values.size // block) * block)
    padded[: values.size] = values
    return padded.reshape(-1, block)
