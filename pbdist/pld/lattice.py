"""Rows of masses on a lattice, and the steps that keep what `state` claims: coarser, joined, cut, convolved."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pbdist.fourier import Allowance, Needs, Rounding, convolve_by_tilts, rounded, rounded_convolution
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

_U = UNIT_ROUNDOFF
#: More than underflow loses (section 9 of docs/pld.md): 2^-1074 in each step at each position, times at most e^345.
LOST_TO_UNDERFLOW = 1e-140


@dataclass(frozen=True, eq=False)
class Dominating:
    """Masses u of a dominating pair, from above."""

    #: h, nats.
    spacing: float
    #: The position k of the first element; its loss is k h.
    first: int
    #: Shape (n,).
    u: FloatArray

    @property
    def size(self) -> int:
        """Number of positions."""
        return int(self.u.size)

    @property
    def losses(self) -> FloatArray:
        """Losses, nats, each rounded once."""
        result: FloatArray = self.spacing * np.arange(self.first, self.first + self.size, dtype=np.float64)
        return result

    @property
    def growth(self) -> FloatArray:
        """e^{loss / 2}, to 8u + 2 u `reach`."""
        return _growth(self.spacing, self.first, self.size)

    @property
    def reach(self) -> float:
        """Size of the farthest loss, nats."""
        return self.spacing * max(abs(self.first), abs(self.first + self.size - 1))

    def swapped(self) -> "Dominating":
        """The same masses for (B, A)."""
        return replace(self, first=1 - self.first - self.size, u=np.ascontiguousarray(self.u[::-1]))

    def coarser(self) -> "Dominating":
        """The masses on every second position: an atom between two of them is split to both.

        Both parts of u are u / (2 cosh(h/2)): a and b are preserved, and the pair is a post-processing of the new one.
        """
        share = (1.0 + (8.0 + self.spacing) * _U) / (2.0 * math.cosh(0.5 * self.spacing))
        odd = self.first & 1
        # Even positions stand at odd indices, so that each has two neighbours.
        padded = np.zeros(2 * ((self.size + odd) // 2) + 3)
        padded[1 + odd : 1 + odd + self.size] = self.u
        u = (padded[1:-1:2] + share * (padded[0:-2:2] + padded[2::2])) * (1.0 + 4.0 * _U)
        return Dominating(2.0 * self.spacing, (self.first - odd) // 2, u)

    def joined(self, other: "Dominating") -> "Dominating":
        """The masses of both, on one lattice."""
        first = min(self.first, other.first)
        u = np.zeros(max(self.first + self.size, other.first + other.size) - first)
        for row in (self, other):
            u[row.first - first : row.first - first + row.size] += row.u
        return Dominating(self.spacing, first, u * (1.0 + 2.0 * _U))

    def twice(self) -> "Dominating":
        """Twice the masses, exactly."""
        return replace(self, u=2.0 * self.u)

    @property
    def vectors(self) -> tuple[tuple[FloatArray, Rounding], ...]:
        """The vectors, and to which side each is rounded."""
        return ((self.u, Rounding.UP),)

    def product(self, other: "Dominating", vectors: Sequence[FloatArray]) -> "Dominating":
        """The masses of the product, from its vectors."""
        return Dominating(self.spacing, self.first + other.first, vectors[0])

    @np.errstate(over="ignore")
    def cut(self, low: int, high: int) -> tuple["Dominating", float, float]:
        """The masses from `low` to `high`, and what becomes infinite: P_A mass at +∞, P_B mass at -∞.

        All b of an atom above `high` stays there, with the a that belongs to it at that loss; the rest of a goes to +∞.
        Likewise below `low` (Theorem 24, docs/pld.md).
        """
        rest, above = self._cut_above(high)
        mirrored, below = rest.swapped()._cut_above(-low)
        return mirrored.swapped(), above, below

    def _cut_above(self, high: int) -> tuple["Dominating", float]:
        count = self.first + self.size - 1 - high
        if count <= 0:
            return self, 0.0
        inside = max(self.size - count, 0)
        rest, over = np.append(self.u[: inside - 1], 0.0) if inside else np.zeros(1), self.u[inside:]
        if inside:
            rest[-1] = self.u[inside - 1]
        steps = self.spacing * np.arange(float(count - over.size + 1), count + 1.0)
        end = self.spacing * high
        rounding = 1.0 + (count + 32.0 + 4.0 * (float(steps[-1]) + abs(end))) * _U
        rest[-1] = (rest[-1] + float((over * np.exp(-0.5 * steps)).sum())) * rounding
        gone = float((over * np.exp(0.5 * (steps + end)) * -np.expm1(-steps)).sum()) * rounding
        return Dominating(self.spacing, high - rest.size + 1, rest), gone

    def beyond(self, low: int, high: int) -> tuple["Dominating", "Dominating"]:
        """The masses from `low` to `high`, and the others."""
        inside = slice(min(max(low - self.first, 0), self.size), min(max(high + 1 - self.first, 0), self.size))
        outer = self.u.copy()
        outer[inside] = 0.0
        rest = self.u[inside]
        return (
            replace(self, first=self.first + inside.start, u=rest if rest.size else np.zeros(1)),
            replace(self, u=outer).trimmed(),
        )

    def trimmed(self) -> "Dominating":
        """The same masses without zeros at the ends."""
        low, high = _occupied(self.u)
        return replace(self, first=self.first + low, u=self.u[low:high])

    @np.errstate(over="ignore")
    def sums(self) -> tuple[float, float]:
        """A* and B* of all positions, from above."""
        growth, rounding = self.growth, 1.0 + (self.size + 16.0 + 2.0 * self.reach) * _U
        return float(np.dot(self.u, growth)) * rounding, float((self.u / growth).sum()) * rounding


@dataclass(frozen=True, eq=False)
class Exact:
    """Masses of disjoint events."""

    #: h, nats.
    spacing: float
    #: The position of the first element.
    first: int
    #: What is added to k h, nats; about half a spacing at most.
    label: float
    #: P_A from below and P_B from above, tilted. Shape (n,).
    own: FloatArray
    other: FloatArray

    @property
    def size(self) -> int:
        """Number of positions."""
        return int(self.own.size)

    @property
    def labels(self) -> FloatArray:
        """Labels λ, nats, each rounded twice."""
        positions = np.arange(self.first, self.first + self.size, dtype=np.float64)
        result: FloatArray = self.spacing * positions + self.label
        return result

    @property
    def growth(self) -> FloatArray:
        """e^{label / 2}, to 12u + 2 u `reach`."""
        return _growth(self.spacing, self.first, self.size) * math.exp(0.5 * self.label)

    @property
    def reach(self) -> float:
        """Size of the farthest label, nats."""
        return self.spacing * (max(abs(self.first), abs(self.first + self.size - 1)) + 1.0)

    @property
    def plain(self) -> tuple[FloatArray, FloatArray]:
        """P_A masses from below and P_B masses from above, without tilt.

        But for what no full floats lose: of all positions together less than `LOST_TO_UNDERFLOW`.
        """
        growth, each = self.growth, (16.0 + 4.0 * self.reach) * _U
        return self.own * growth * (1.0 - each), self.other / growth * (1.0 + each) + 1e-318

    def coarser(self) -> "Exact":
        """Events of neighbours joined, under the label between them."""
        odd = self.first & 1
        size = self.size + odd
        towards, away = math.exp(-0.25 * self.spacing), math.exp(0.25 * self.spacing)
        rows = []
        for values, even_factor, odd_factor, rounding in (
            (self.own, towards, away, 1.0 - (16.0 + 4.0 * self.spacing) * _U),
            (self.other, away, towards, 1.0 + (16.0 + 4.0 * self.spacing) * _U),
        ):
            padded = np.zeros(size + (size & 1))
            padded[odd : odd + self.size] = values
            rows.append((padded[0::2] * even_factor + padded[1::2] * odd_factor) * rounding)
        result = Exact(2.0 * self.spacing, (self.first - odd) // 2, self.label + 0.5 * self.spacing, rows[0], rows[1])
        return result._named_shortly()

    def joined(self, other: "Exact") -> "Exact":
        """The events of both, on one lattice."""
        first = min(self.first, other.first)
        size = max(self.first + self.size, other.first + other.size) - first
        rows = np.zeros((2, size))
        rounding = (16.0 + abs(self.label) + abs(other.label)) * _U
        for row in (self, other):
            part = slice(row.first - first, row.first - first + row.size)
            # Another label for the same event.
            factor = math.exp(0.5 * (row.label - self.label))
            rows[0, part] += row.own * factor
            rows[1, part] += row.other / factor
        return Exact(self.spacing, first, self.label, rows[0] * (1.0 - rounding), rows[1] * (1.0 + rounding))

    def twice(self) -> "Exact":
        """Twice the masses, exactly."""
        return replace(self, own=2.0 * self.own, other=2.0 * self.other)

    @property
    def vectors(self) -> tuple[tuple[FloatArray, Rounding], ...]:
        """The vectors, and to which side each is rounded."""
        return ((self.own, Rounding.DOWN), (self.other, Rounding.UP))

    def product(self, other: "Exact", vectors: Sequence[FloatArray]) -> "Exact":
        """The events of the product, from its vectors."""
        # The label's own rounding tilts both.
        rounding = (8.0 + abs(self.label) + abs(other.label)) * _U
        own, foreign = vectors[0] * (1.0 - rounding), vectors[1] * (1.0 + rounding)
        label = self.label + other.label
        return Exact(self.spacing, self.first + other.first, label, own, foreign)._named_shortly()

    @np.errstate(over="ignore")
    def cut(self, low: int, high: int) -> tuple["Exact", float, float]:
        """The events from `low` to `high`; and P_A from below and P_B from above of those above, as one event."""
        size = self.size
        start, stop = min(max(low - self.first, 0), size), min(max(high + 1 - self.first, 0), size)
        stop = max(start, stop)
        half = 0.5 * self.labels[stop:]
        rounding = (half.size + 32.0 + 4.0 * self.reach) * _U
        own = float((self.own[stop:] * np.exp(half)).sum()) * (1.0 - rounding)
        # More than what is no full float.
        other = float((self.other[stop:] * np.exp(-half)).sum()) * (1.0 + rounding) + half.size * 1e-315
        return self._part(start, stop), own, other

    def beyond(self, low: int, high: int) -> tuple["Exact", "Exact"]:
        """The events from `low` to `high`, and the others."""
        size = self.size
        start, stop = min(max(low - self.first, 0), size), min(max(high + 1 - self.first, 0), size)
        rows = [self.own.copy(), self.other.copy()]
        for row in rows:
            row[start:stop] = 0.0
        return self._part(start, max(start, stop)), replace(self, own=rows[0], other=rows[1]).trimmed()

    def trimmed(self) -> "Exact":
        """The same events, without those at the ends of which A has nothing."""
        low, high = _occupied(self.own)
        return self._part(low, high)

    @np.errstate(over="ignore")
    def sums(self) -> tuple[float, float]:
        """P_A from below and P_B from above of all positions."""
        growth, rounding = self.growth, (self.size + 32.0 + 4.0 * self.reach) * _U
        return (
            float(np.dot(self.own, growth)) * (1.0 - rounding),
            float((self.other / growth).sum()) * (1.0 + rounding) + self.size * 1e-315,
        )

    def _part(self, start: int, stop: int) -> "Exact":
        own, other = self.own[start:stop], self.other[start:stop]
        if not (own.any() or other.any()):
            # Nothing lies nowhere in particular: not where its exponentials overflow.
            return replace(self, first=0, own=np.zeros(1), other=np.zeros(1))
        return replace(self, first=self.first + start, own=own, other=other)

    def _named_shortly(self) -> "Exact":
        """Count positions so that the label is at most half a spacing; no value changes."""
        steps = round(self.label / self.spacing)
        return replace(self, first=self.first + steps, label=self.label - steps * self.spacing) if steps else self


def _growth(spacing: float, first: int, size: int) -> FloatArray:
    """Return e^{kh / 2} for consecutive positions k."""
    half = 0.5 * spacing
    # Of products, as long as both factors are full floats.
    width = math.isqrt(size) + 1 if half * max(abs(first), abs(first + size)) < 600.0 else 1
    starts = np.arange(first, first + size, width, dtype=np.float64)
    return np.asarray(np.multiply.outer(np.exp(half * starts), np.exp(half * np.arange(width))).reshape(-1)[:size])


def _occupied(values: FloatArray) -> tuple[int, int]:
    there = np.flatnonzero(values)
    return (int(there[0]), int(there[-1]) + 1) if there.size else (0, 1)


@dataclass(frozen=True)
class Factor:
    """Two rows that are to be convolved."""

    first: Dominating | Exact
    second: Dominating | Exact
    #: Whether they are those of (B, A), to be turned round for a common chunk plan.
    mirrored: bool


def convolved(
    factors: Sequence[Factor], allowance: Allowance, beside: Sequence[tuple[Dominating, Dominating]] = ()
) -> list[Dominating | Exact]:
    """Convolve rows of the same form at once, each rounded to its side.

    `allowance` is what rounding may add before more care is taken. Where a product of `beside`, of which the first row
    may be coarser, is far larger, the result need not be known well.
    """
    sides = [
        [(factor.first, factor.mirrored) for factor in factors],
        [(factor.second, factor.mirrored) for factor in factors],
    ]
    if len(factors) > 1 and not all(_overlapping(side) for side in sides):
        return [row for factor in factors for row in convolved([factor], allowance, beside)]
    same = all(factor.first is factor.second for factor in factors)
    x, begin_x = _together(sides[0])
    y, begin_y = (x, begin_x) if same else _together(sides[1])
    spacing = factors[0].first.spacing
    longest = x.shape[1] + y.shape[1] - 1
    larger = [(_part(one, spacing, begin_x, longest), _part(two, spacing, begin_y, y.shape[1])) for one, two in beside]
    needs = Needs(spacing, begin_x + begin_y, allowance)
    found = convolve_by_tilts(x, y, needs, larger)
    results: list[Dominating | Exact] = []
    row = 0
    for factor in factors:
        one, two = factor.first, factor.second
        size = one.size + two.size - 1
        vectors = []
        for (first, rounding), (second, _) in zip(one.vectors, two.vectors, strict=True):
            if found is None:
                vectors.append(rounded_convolution(first, first if one is two else second, rounding))
            else:
                start = _position(one, mirrored=factor.mirrored) + _position(two, mirrored=factor.mirrored)
                part = slice(start - begin_x - begin_y, start - begin_x - begin_y + size)
                vector = rounded(found[0][row, part], found[1][row, part], rounding, math.inf)
                vectors.append(vector[::-1].copy() if factor.mirrored else vector)
            row += 1
        results.append(one.product(two, vectors))  # type: ignore[arg-type]  # rows of one kind
    return results


def _position(row: Dominating | Exact, *, mirrored: bool) -> int:
    """Place of the first element, turned round or not."""
    return 1 - row.first - row.size if mirrored else row.first


def _range(rows: Sequence[tuple[Dominating | Exact, bool]]) -> tuple[int, int]:
    """The positions that all rows take together: the first one, and the one after the last."""
    positions = [_position(row, mirrored=mirrored) for row, mirrored in rows]
    return min(positions), max(position + row.size for position, (row, _) in zip(positions, rows, strict=True))


def _overlapping(rows: Sequence[tuple[Dominating | Exact, bool]]) -> bool:
    """Whether the rows lie at about the same positions."""
    begin, end = _range(rows)
    return end - begin <= 1.5 * max(row.size for row, _ in rows) + 1024


def _together(rows: Sequence[tuple[Dominating | Exact, bool]]) -> tuple[FloatArray, int]:
    """Stack all vectors on one range of positions; besides, return the first position."""
    begin, end = _range(rows)
    positions = [_position(row, mirrored=mirrored) for row, mirrored in rows]
    stack = np.zeros((sum(len(row.vectors) for row, _ in rows), end - begin))
    row_index = 0
    for position, (row, mirrored) in zip(positions, rows, strict=True):
        for vector, _ in row.vectors:
            stack[row_index, position - begin : position - begin + row.size] = vector[::-1] if mirrored else vector
            row_index += 1
    return stack, begin


def _part(row: Dominating, spacing: float, begin: int, size: int) -> FloatArray:
    """The masses at a range of positions of a spacing, of which that of the row is a multiple."""
    ratio = round(row.spacing / spacing)
    result = np.zeros(size)
    low, high = max(-(-begin // ratio), row.first), min(-(-(begin + size) // ratio), row.first + row.size)
    if low < high:
        result[ratio * low - begin : ratio * (high - 1) - begin + 1 : ratio] = row.u[low - row.first : high - row.first]
    return result
