"""Compositions of many leaves, known by the few frequencies that are left of them.

The transform of a d-fold composition is the d-th power of one leaf's transform. Of a loss that is no lattice only the
lowest frequencies survive a high power, about as many as the composition's window has standard deviations. In a short
window all frequencies are computed, and those too small to matter are left out. Leaves keep their own lattices, which
need not be made coarser, however large d is; δ is a sum over the frequencies kept. Moments and transforms bound what
the others are worth (Theorem 17 in ``docs/pld.md``).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeAlias, cast

import numpy as np

from pbdist.fourier.transform import EXTENDED_ROUNDOFF, forward, good_length, transform_error
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld.state import PairState
from pbdist.types import BoolArray, ComplexArray, Direction, FloatArray, IntArray

_U = UNIT_ROUNDOFF
#: To which side dominating masses, and exact P_A and P_B masses, are rounded; what is no full float counts as at least
#: something from above, and as nothing from below.
_SIDES, _FULL, _LEAST = np.array([[1.0, 1e-300, 1e-300], [-1.0, 1e-290, 0.0], [1.0, 1e-300, 1e-300]]).T[..., None]


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows on one lattice."""

    #: Which rows; the others have nothing there.
    rows: slice
    #: First position and distance of positions, in spacings.
    first: int
    stride: int
    #: Shape (rows, n).
    weights: FloatArray

    @property
    def positions(self) -> FloatArray:
        """The positions."""
        return self.first + self.stride * np.arange(float(self.weights.shape[-1]))

    @property
    def last(self) -> int:
        """The highest position."""
        return self.first + self.stride * (int(self.weights.shape[-1]) - 1)


@dataclass(frozen=True, eq=False)
class TiltedLeaf:
    """Dominating masses and, where wanted, exact P_A and P_B masses: rows of sum 1 or next to it."""

    #: h, nats, and θ.
    spacing: float
    tilt: float
    #: The lowest position; all others are counted from it.
    first: int
    #: Of each row: the loss or label of a position k is ``spacing * (k + halves / 2)``, nats.
    halves: tuple[int, ...]
    parts: tuple[Part, ...]
    #: κ, and how far rounding may have moved it; shape (rows,).
    log_scale: FloatArray
    log_scale_error: FloatArray

    @cached_property
    def totals(self) -> FloatArray:
        """Σ w of each row, rounded."""
        return _totals(self.parts, len(self.halves))

    @property
    def size(self) -> int:
        """Number of weights of a row, at most."""
        return sum(part.weights.shape[-1] for part in self.parts)

    @property
    def weights(self) -> int:
        """Number of weights of all rows."""
        return sum(part.weights.size for part in self.parts)

    @property
    def last(self) -> int:
        """The highest position."""
        return max(part.last for part in self.parts)

    def dense(self, longest: int) -> tuple[FloatArray, FloatArray]:
        """The weights on neighbouring positions, from any first one on; and the sum of those too far apart, by rows."""
        rows = len(self.halves)
        chosen = self.parts if self.last < longest else [part for part in self.parts if part.stride == 1]
        begin = min((part.first for part in chosen), default=0)
        whole = np.zeros((rows, max((part.last for part in chosen), default=0) - begin + 1))
        for part in chosen:
            whole[part.rows, part.first - begin : part.last - begin + 1 : part.stride] += part.weights
        beside = [part for part in self.parts if part.stride > 1 and self.last >= longest]
        return whole, _totals(beside, rows)


#: Leaves on one spacing and of one tilt, each with how often it is taken.
Factors: TypeAlias = Sequence[tuple[TiltedLeaf, int]]
#: What `_transformed` is.
Transform: TypeAlias = Callable[[TiltedLeaf, int], tuple[ComplexArray, float]]


def _totals(parts: Sequence[Part], rows: int) -> FloatArray:
    total = np.zeros(rows)
    for part in parts:
        total[part.rows] += np.add.reduce(part.weights, axis=-1)
    return total


def tilted_leaf(state: PairState, direction: Direction, tilt: float, *, exact: bool) -> TiltedLeaf | None:
    """Tilt a leaf: its dominating masses and, if wanted, the exact ones; None where a row has nothing."""
    found: list[tuple[slice, int, int, FloatArray, FloatArray]] = []
    halves = [0]
    spacing = state.dominating.core.spacing
    for row in state.dominating.rows:
        directed = row if direction is Direction.A_TO_B else row.swapped()
        stride = round(row.spacing / spacing)
        found.append((slice(0, 1), stride * directed.first, stride, directed.u[None, :], directed.losses))
    if exact:
        label = state.exact[direction].core.label
        halves += [round(2.0 * label / spacing)] * 2
        if 0.5 * halves[1] * spacing != label:
            return None
        for events in state.exact[direction].rows:
            stride = round(events.spacing / spacing)
            # The core's position that is next to the first label: the same events under names nearby.
            first = round((events.spacing * events.first + events.label - label) / spacing)
            moved = spacing * (first + stride * np.arange(float(events.size))) + label
            change = np.exp(0.5 * (events.labels - moved))
            values = np.stack((events.own * change, events.other / change))
            found.append((slice(1, 3), first, stride, values, moved))
    return _tilted(found, spacing, tilt, tuple(halves))


def _tilted(
    found: Sequence[tuple[slice, int, int, FloatArray, FloatArray]],
    spacing: float,
    tilt: float,
    halves: tuple[int, ...],
) -> TiltedLeaf | None:
    """Multiply rows by e^{(θ + ½)λ - κ}: P_A's exact masses rounded down, all others up.

    Each part is its rows, first position, distance of positions, masses, and their losses or labels λ.
    """
    found = [part for part in found if part[3].any()]
    if not found:
        return None
    rate = tilt + 0.5
    with np.errstate(divide="ignore"):
        peak = max(float((np.log(values.max(axis=0)) + rate * losses).max()) for _, _, _, values, losses in found)
    if not math.isfinite(peak):
        return None
    sides = _SIDES[: len(halves)]
    reach = max(float(np.abs(losses).max()) for *_, losses in found)
    # Of an exponent each term errs by some units of itself, and its exponential by as much.
    slack = (32.0 + 8.0 * (rate * reach + abs(peak))) * _U
    first = min(start for _, start, *_ in found)
    parts = []
    for rows, start, stride, values, losses in found:
        factor = np.exp(np.minimum(rate * losses - peak, 705.0)) * (1.0 + sides[rows] * slack)
        faint = values < _FULL[rows]
        masses = np.where(faint, np.where(values > 0.0, _LEAST[rows], 0.0), values) if faint.any() else values
        parts.append(Part(rows, start - first, stride, masses * factor))
    total = _totals(parts, len(halves))
    # Weights that underflow do not matter for a total far above underflow.
    if not np.isfinite(total).all() or not (total > 1e-100).all():
        return None
    scale = (1.0 + sides * 4.0 * _U) / total[:, None]
    parts = [Part(part.rows, part.first, part.stride, part.weights * scale[part.rows]) for part in parts]
    log_total = np.log(total)
    log_scale = peak + log_total
    error = 4.0 * _U * (np.abs(log_scale) + np.abs(log_total) + abs(peak) + 1.0)
    return TiltedLeaf(spacing, tilt, first, halves, tuple(parts), log_scale, error)


#: Most frequencies, most of them with more digits, and most products with elements: more take longer than a ladder.
MAX_FREQUENCIES, _MOST_EXTENDED, _MAX_WORK = 8192, 1024, 300_000_000
#: Longest window: its length times a frequency's number is an int64; longest one of which every frequency may be
#: computed, and of which they are computed at once.
_LONGEST, _LONGEST_OF_EVERY, _SHORT = 1 << 48, 1 << 18, 1 << 13
#: What all frequencies left out of a short window may be worth together, as a part of what may lie outside it.
_SEEN_FRACTION = 0.1
#: Longest transform of a leaf, and how many products of frequencies and elements take as long as one of its elements.
_LONGEST_TRANSFORM, _TRANSFORM_COST = 1 << 20, 40.0
#: Every so many factors, the product so far is checked: it may be small enough already.
_AT_ONCE = 64
#: Longest transform that looks for frequencies far from 0; the step of a rough and a close look, times the deviation.
_LONGEST_LOOK, _ROUGH, _FINE = 1 << 17, 0.25, 3.9e-3
#: 2π in both precisions.
_TWICE_PI: tuple[Any, Any] = (2.0 * math.pi, 2 * np.longdouble("3.14159265358979323846264338327950288"))
#: Rates of Chernoff's bound, as multiples of the reciprocal of the standard deviation.
_EXPONENTS: FloatArray = np.array([0.25, 1.0, 2.5, 4.0, 5.0, 6.0, 7.0, 8.5, 12.0])
_SIGNS: FloatArray = np.array([1.0, -1.0])[:, None, None]
_STEEPEST = 600.0
#: The lowest frequencies' exponent, 3/4 · 1/2, less the roundings of its own.
_NEAR = 0.3749


@dataclass(frozen=True, eq=False)
class Frequencies:
    """Rows of a composition: dominating masses, and exact P_A and P_B masses where they were wanted."""

    #: Distance of positions, nats, and θ.
    spacing: float
    tilt: float
    #: Of each row twice the position of element 0, whose loss or label is ``0.5 * spacing * start``.
    start: tuple[int, ...]
    #: N: the weights are known on elements 0 .. N-1.
    length: int
    #: Which frequencies are known, from 0 on, increasing; shape (K,).
    orders: IntArray
    #: c with w(m) = Re (c_0 + 2 Σ_j c_j e^{2πi jm/N}) / N; shape (rows, K).
    coefficients: ComplexArray
    #: No coefficient is larger; shape (rows,).
    size: FloatArray
    #: T: what frequencies left out, windows and rounding are worth where the weights are summed with factors that rise
    #: to at most 1 and fall again; shape (rows,).
    error: FloatArray
    #: κ, and how far rounding may have moved it; shape (rows,).
    log_scale: FloatArray
    log_scale_error: FloatArray

    @cached_property
    def series(self) -> "list[_Series]":
        """Those of the dominating masses, and of exact P_A and P_B masses where there are any."""
        return [_Series(self, rows) for rows in ([0, 0], [1, 2])[: (len(self.start) + 1) // 2]]


def few_frequencies(factors: Factors, outside: float, *, extended: bool = False) -> Frequencies | None:
    """Compose tilted leaves on one spacing and of one tilt, each taken a number of times.

    At most `outside` of the weight may lie outside the result's window, in each row, and about as much may be worth the
    frequencies left out. `extended` is for the precision of few frequencies. None if too many survive, or it cannot be
    shown that few do, and the window is too long to compute all.
    """
    if not all((leaf.totals > 0.0).all() for leaf, _ in factors):
        return None
    moments = [_Moments(leaf) for leaf, _ in factors]
    window = _window(factors, moments, outside)
    if window is None:
        return None
    starts, length = window
    if length <= _LONGEST_TRANSFORM:
        length = good_length(length)
    found = None if length <= _SHORT else _low(factors, moments, length, outside)
    # The transform of a single leaf is kept.
    transformed, kept = cache(_transformed), found is None and len(factors) == 1
    if found is None and length <= _LONGEST_OF_EVERY:
        found = _seen(factors, length, outside, transformed if kept else _transformed)
    if found is None:
        return None
    orders, left_out = found
    work = orders.size * sum(leaf.weights for leaf, _ in factors)
    if length > _LONGEST_TRANSFORM and work > _MAX_WORK:
        return None
    extended = extended and orders.size <= _MOST_EXTENDED and work <= _MAX_WORK
    unit = EXTENDED_ROUNDOFF if extended else UNIT_ROUNDOFF
    # Reduced before it is multiplied: no product is beyond int64.
    turns = np.multiply.outer(np.array([start % length for start in starts]), orders)
    coefficients = unit_roots(turns, length, extended=extended)
    rate, log_bound = 0.0, np.zeros(factors[0][0].totals.size)
    log_scale, log_scale_error = np.zeros_like(log_bound), np.zeros_like(log_bound)
    firsts = [2 * start for start in starts]
    for leaf, power in factors:
        directly = length > _LONGEST_TRANSFORM or orders.size * leaf.weights < _TRANSFORM_COST * length
        if extended or (directly and not kept):
            spectrum, rounding = _summed(leaf, length, orders, extended=extended)
        else:
            every, rounding = transformed(leaf, length)
            spectrum = every[:, orders]
        coefficients = coefficients * _raised(spectrum, power)
        rate += power * (rounding + 4.0) * unit
        log_bound = log_bound + power * np.log(leaf.totals * (1.0 + (leaf.size + 16.0) * _U))
        log_scale = log_scale + power * leaf.log_scale
        log_scale_error = log_scale_error + power * (leaf.log_scale_error + 8.0 * _U * np.abs(leaf.log_scale))
        firsts = [first + power * (2 * leaf.first + half) for first, half in zip(firsts, leaf.halves, strict=True)]
    if 2 * int(orders[-1]) == length:
        # It has no pair, and counts once.
        coefficients[:, -1] *= 0.5
    rate += 4.0 * len(factors) * unit
    # A coefficient weighs at most 1 / j, or 1 for j = 0, in a sum with the factors of `error`; the shift errs by 32u.
    frequencies = 2.0 + math.log(orders.size)
    with np.errstate(over="ignore"):
        bound = np.exp(log_bound) * (1.0 + 1e-12)
        grown = math.expm1(rate) if rate < 700.0 else math.inf
        error = 2.0 * outside + bound * ((grown + 64.0 * unit + 4.0 * _U) * frequencies + left_out * (1.0 + grown))
    if not np.isfinite(error).all():
        return None
    return Frequencies(
        spacing=factors[0][0].spacing,
        tilt=factors[0][0].tilt,
        start=tuple(firsts),
        length=length,
        orders=orders,
        coefficients=coefficients.astype(np.complex128),
        size=bound * (1.0 + grown + 128.0 * _U),
        error=error * (1.0 + 1e-12),
        log_scale=log_scale,
        log_scale_error=log_scale_error * (1.0 + 1e-12) + 8.0 * len(factors) * _U * np.abs(log_scale),
    )


class _Moments:
    """Σ w x^p, p = 0 .. 4, over the positions x from about the mean, shape (5, rows).

    ``noise`` bounds the rounding of each, relative to the sum of its terms' sizes.
    """

    def __init__(self, leaf: TiltedLeaf) -> None:
        totals, mean = 0.0, 0.0
        for part in leaf.parts:
            weights = np.add.reduce(part.weights, axis=0)
            totals, mean = totals + float(np.add.reduce(weights)), mean + float(weights @ part.positions)
        #: About the mean of all rows.
        self.centre = round(mean / totals)
        self.sums: FloatArray = np.zeros((5, len(leaf.halves)))
        for part in leaf.parts:
            x = part.positions - self.centre
            square = x * x
            powers = np.array((np.ones_like(x), x, square, square * x, square * square))
            self.sums[:, part.rows] += np.einsum("rn,pn->pr", part.weights, powers)
        self.noise = 4.0 * (leaf.size + 16.0) * _U
        self.largest, self.smallest = float(leaf.last - self.centre), float(-self.centre)

    @property
    def second(self) -> FloatArray:
        """E D²/2 for the difference D of two independent positions, rounded down, shape (rows,)."""
        return self._variance(-1.0)

    @property
    def second_above(self) -> FloatArray:
        """The same, rounded up."""
        return np.maximum(self._variance(1.0), 0.0)

    def _variance(self, side: float) -> FloatArray:
        """The mean's square is at most the mean square, whose rounding may exceed what is left of the difference."""
        _, first, second, _, _ = self.sums / self.sums[0]
        result: FloatArray = second - first**2 + side * 4.0 * self.noise * second
        return result

    @property
    def fourth(self) -> FloatArray:
        """E D⁴/24, rounded up, shape (rows,)."""
        _, first, second, third, fourth = self.sums / self.sums[0]
        terms = (fourth, -4.0 * first * third, 3.0 * second**2)
        # |E x| E |x|³ and (E x²)² are at most E x⁴.
        result: FloatArray = (sum(terms) + 64.0 * self.noise * fourth) / 12.0
        return result

    def log_exponential(self, rate: FloatArray, sign: float | FloatArray) -> FloatArray:
        """Upper bound of ln Σ w e^{sx} for s = sign · rate, shape (rows, S), or (2, rows, S) for signs (2, 1, 1).

        By e^y <= 1 + y + y²/2 + y³/6 + y⁴/24 e^max(y, 0), and |y| and |y|³/6 are at most ½ + y²/2 and y²/12 + y⁴/12.
        """
        first, second, third, fourth = (self.sums[1:] / self.sums[0])[..., None]
        reach = rate * np.where(np.asarray(sign) > 0.0, self.largest, -self.smallest)
        # Beyond what is a float the bound says nothing.
        last = np.where(reach < _STEEPEST, fourth * (rate**4 / 24.0) * np.exp(np.minimum(reach, _STEEPEST)), np.inf)
        middle = second * (rate * rate * 0.5)
        odd = sign * (first * rate + third * (rate**3 / 6.0))
        rounding = self.noise * (3.0 + 3.0 * middle + 3.0 * last)
        result: FloatArray = np.log(self.sums[0])[:, None] + np.log1p(odd + middle + last + rounding)
        return result


def _window(factors: Factors, moments: Sequence[_Moments], outside: float) -> tuple[list[int], int] | None:
    """Return where the window of each row starts, from the sum of the leaves' first positions, and the length of all.

    All weight but `outside` lies within, by Chernoff's bound; None if that says nothing. Masses and labels of a bin are
    half a position apart in each leaf, so that those rows drift apart from the other.
    """
    variance = _gathered([each.second_above for each in moments], factors).max() + 1e-2
    rates = _EXPONENTS / math.sqrt(variance)
    budget = math.log(4.0 / outside)
    # Above and below.
    log_moment = _gathered([each.log_exponential(rates, _SIGNS) for each in moments], factors)
    # Sums that are 1 or next to it to a high power.
    reach = ((log_moment + 1e-12 * np.abs(log_moment) + (budget + 1e-6)) / rates).min(axis=-1)
    if not np.isfinite(reach).all():
        return None
    # Exact masses share their window.
    reach[:, 1:] = reach[:, 1:].max(axis=1, initial=0.0, keepdims=True)
    middle = sum(power * each.centre for each, (_, power) in zip(moments, factors, strict=True))
    last = sum(power * leaf.last for leaf, power in factors)
    starts, length = [], max(leaf.last + 1 for leaf, _ in factors)
    for above, below in zip(reach[0].tolist(), reach[1].tolist(), strict=True):
        low, high = middle - math.ceil(below) - 2, middle + math.ceil(above) + 2
        starts.append(min(max(low, 0), last))
        length = max(length, min(high, last) - starts[-1] + 1)
    return starts, length


def _gathered(values: Sequence[FloatArray], factors: Factors) -> FloatArray:
    """Sum over the factors, each as often as it is taken."""
    total: FloatArray = np.zeros(())
    for each, (_, power) in zip(values, factors, strict=True):
        total = total + power * each
    return total


def _low(
    factors: Factors, moments: Sequence[_Moments], length: int, outside: float
) -> tuple[IntArray, FloatArray] | None:
    """Return the lowest frequencies, and the sum of |product| / (j s) over those left out, by rows."""
    second = _gathered([each.second for each in moments], factors)
    fourth = _gathered([each.fourth for each in moments], factors)
    if not ((second > 0.0).all() and np.isfinite(fourth).all() and (fourth > 0.0).all()) or length > _LONGEST:
        return None
    near = min(math.sqrt(float((second / fourth).min())) / 2.0, math.pi)
    rate = _NEAR * float(second.min())
    step = 2.0 * math.pi / length
    highest = math.ceil(math.sqrt(math.log(8.0 / outside) / rate) / step)
    enough = math.log(0.25 * outside / (2.0 + math.log(length)))
    # If fourth moments do not suffice, search for the frequency from which on nothing is left.
    sufficient = (highest + 1) * step <= near
    found = _far(factors, moments, near, enough, _ROUGH) if sufficient else None
    # A closer look takes longer than all frequencies of a window.
    if found is None and length > _LONGEST_OF_EVERY:
        found = _far(factors, moments, near if sufficient else min(highest * step, math.pi), enough, _FINE)
    if found is None:
        return None
    end, far = found
    left_out = np.exp(far) * (2.0 + math.log(length))
    if sufficient and end <= near:
        following = rate * step * step
        close = math.exp(-following * (highest + 1.0) ** 2) / -math.expm1(-following * (2.0 * highest + 3.0))
        left_out = left_out + close / (highest + 1.0)
    else:
        highest = math.ceil(end / step)
    # Of all frequencies but the last one there is a pair.
    if highest > MAX_FREQUENCIES or 2 * highest >= length:
        return None
    return (np.arange(highest + 1), left_out * 1.001) if (left_out <= outside).all() else None


def _transformed(leaf: TiltedLeaf, length: int) -> tuple[ComplexArray, float]:
    """Return what `_summed` does, for all frequencies, by one transform of each row.

    No element of a transform errs by more than `transform_error` times the sum of the weights.
    """
    rows, _ = leaf.dense(leaf.last + 1)
    return forward(rows, length), transform_error(length) / _U + 64.0 + 4.0 * len(leaf.parts)


def _seen(
    factors: Factors, length: int, outside: float, transformed: Transform = _transformed
) -> tuple[IntArray, FloatArray]:
    """Return the frequencies that matter, and the sum of `_low` over the others, from transforms of all leaves."""
    logs: FloatArray = np.zeros(())
    for leaf, power in factors:
        spectrum, rounding = transformed(leaf, length)
        # The root errs by 4u of at most the sum of the weights, for which `_transformed` has room.
        size = np.sqrt(spectrum.real * spectrum.real + spectrum.imag * spectrum.imag)
        logs = logs + power * np.log(size / leaf.totals[:, None] + (rounding + leaf.size) * _U)
    terms = np.exp(np.minimum(np.maximum(logs, -700.0), 0.0))
    terms[:, 1:] /= np.arange(1.0, terms.shape[-1])
    matters: BoolArray = np.any(terms > _SEEN_FRACTION * outside / length, axis=0)
    matters[0] = True
    return np.flatnonzero(matters), np.sum(terms, axis=-1, where=~matters) * 1.001


def _far(
    factors: Factors, moments: Sequence[_Moments], begin: float, enough: float, fineness: float
) -> tuple[float, FloatArray] | None:
    """Return the first t from `begin` on from which ln Π |ŵ|^d / s^d is at most `enough` up to π, and a bound on it.

    None if there is none. `fineness` is the step times the deviation; a rough look finds `begin` or nothing.
    """
    deviation = max(math.sqrt(float(each.second_above.max())) for each in moments)
    rows = [leaf.dense(_LONGEST_LOOK) for leaf, _ in factors]
    size = 2 * max(dense.shape[-1] for dense, _ in rows)
    # Widely spread losses first: their factors are the smallest.
    order = sorted(range(len(factors)), key=lambda index: -factors[index][1] * float(moments[index].second.min()))
    length = good_length(max(size, min(math.ceil(2.0 * math.pi * deviation / fineness), _LONGEST_LOOK)))
    first = math.floor(begin * length / (2.0 * math.pi) * (1.0 - 1e-9))
    logs: FloatArray = np.zeros(())
    for done, index in enumerate(order):
        # No factor exceeds 1, so the product of some of them bounds the product of all.
        if done % _AT_ONCE == 0 < done and (logs[:, first:] <= enough).all():
            break
        leaf, power = factors[index]
        logs = logs + 0.5 * power * np.log(_squares(leaf, rows[index], moments[index].second_above, length))
    # The largest from each frequency on.
    beyond = np.maximum.accumulate(logs[:, ::-1], axis=-1)[:, ::-1]
    small = np.flatnonzero((beyond <= enough).all(axis=0))
    if not small.size or (fineness > _FINE and small[0] > first):
        return None
    index = max(int(small[0]), first)
    return max(2.0 * math.pi * index / length * (1.0 + 1e-9), begin), beyond[:, index]


def _squares(leaf: TiltedLeaf, rows: tuple[FloatArray, FloatArray], second: FloatArray, length: int) -> FloatArray:
    """Return bounds on |ŵ(t)|² / s² between neighbouring multiples of 2π / length, up to π, by rows.

    Of positions that are too far apart for the transform the weight is added to the modulus.
    """
    dense, beside = rows
    step = 2.0 * math.pi / length
    spectrum = forward(dense, length)
    squares = (spectrum.real * spectrum.real + spectrum.imag * spectrum.imag) / (leaf.totals * leaf.totals)[:, None]
    # What rounding took from the sum is less than what is added.
    squares += 4.0 * transform_error(length) + 4.0 * (leaf.size + 16.0) * _U
    larger = np.maximum(squares, np.concatenate((squares[:, 1:], squares[:, -1:]), axis=1))
    larger += (0.25 * step * step * (1.0 + 1e-12)) * second[:, None]
    if beside.any():
        more = beside / leaf.totals * (1.0 + (leaf.size + 64.0) * _U)
        larger = (np.sqrt(larger) + more[:, None]) ** 2 * (1.0 + 16.0 * _U)
    return np.minimum(larger, 1.0)


def _summed(leaf: TiltedLeaf, length: int, orders: IntArray, *, extended: bool) -> tuple[ComplexArray, float]:
    """Return Σ_j w_j e^{-2πi jm/N} for every m of `orders`, and a bound on the error in units of rounding times Σ w.

    Of each lattice summed over blocks of B, each with the same B powers, then over the blocks, and turned to where the
    lattice begins. A power errs by 21u (`unit_roots`), a product by 3u more; sums of B and of n/B terms, real and
    imaginary part each, by twice as many roundings.
    """
    real = np.longdouble if extended else np.float64
    total = np.zeros((len(leaf.halves), orders.size), dtype=np.clongdouble if extended else np.complex128)
    worst = 0.0
    for part in leaf.parts:
        rows, size = part.weights.shape
        block = 1 << max(3, math.ceil(math.log2(math.sqrt(size))))
        blocks = -(-size // block)
        padded = np.zeros((rows, blocks * block), dtype=real)
        padded[:, :size] = part.weights
        turns = part.stride * np.multiply.outer(np.arange(block), orders)
        within = unit_roots(-turns, length, extended=extended)
        turns = part.stride * block * np.multiply.outer(np.arange(blocks), orders) + part.first * orders
        between = unit_roots(-turns, length, extended=extended)
        # Not as a product of matrices, for which some libraries start threads.
        inner = np.einsum("rcb,bm->rcm", padded.reshape(rows, blocks, block), within.view(real)).view(within.dtype)
        inner *= between
        total[part.rows] += np.add.reduce(inner, axis=-2)
        worst = max(worst, 2.0 * (block + blocks))
    return total, 64.0 + worst + 4.0 * len(leaf.parts)


def _raised(spectrum: ComplexArray, exponent: int) -> ComplexArray:
    """Return the power, exponent >= 1, by repeated squaring: always the same multiplications, whatever the library."""
    result: ComplexArray | None = None
    while True:
        if exponent & 1:
            result = spectrum if result is None else result * spectrum
        exponent >>= 1
        if not exponent:
            return spectrum if result is None else result
        spectrum = spectrum * spectrum


def unit_roots(numerator: IntArray, denominator: int, *, extended: bool = False) -> ComplexArray:
    """Return e^{2πi a/N}, each within 21u.

    The fraction is reduced exactly to at most a half; quotient, 2π and product are off by 3u of at most π, and
    numpy's sine and cosine are taken to be accurate to 8u.
    """
    reduced = np.mod(numerator, denominator)
    reduced -= denominator * (2 * reduced > denominator)
    real = np.longdouble if extended else np.float64
    angle = cast("FloatArray", reduced.astype(real)) / denominator * _TWICE_PI[extended]
    result = np.empty(angle.shape, dtype=np.clongdouble if extended else np.complex128)
    result.real, result.imag = np.cos(angle), np.sin(angle)
    return cast("ComplexArray", result)


#: Relative rounding of one term of a series: roots of unity 21u each, one difference from 1, some products.
_TERM = 256.0 * _U
#: Exponents beyond this are no float, with room for a few factors.
_LARGEST_EXPONENT = 600.0
#: Bins with less than this share of an average one are too faint for a loss to be computed from them; decays of less
#: change no sum.
_FAINT, _LEAST_DECAY = 1e-6, 1e-290


def log_finite_upper(
    known: Frequencies, epsilon: FloatArray, shift: float, highest: float
) -> tuple[FloatArray, FloatArray]:
    """Logarithm of an upper bound on what finite losses add to δ at each ε, and of T's part in it (Theorem 18).

    Losses may have been moved by up to `shift`, and none exceeds `highest`, nats. Distances from ε are rounded as if ε
    were a lower one.
    """
    series, tilt = known.series[0], known.tilt
    lowered = epsilon - shift - 16.0 * _U * (np.abs(epsilon) + series.reach + shift)
    about = np.floor((lowered - 0.5 * known.spacing * series.start) / known.spacing) - 1.0
    first = np.minimum(np.maximum(about, -1.0), float(known.length)).astype(np.int64)
    # The first position above, by the distances that are used.
    below = series.loss_at(first[:, None] + np.arange(3)) <= lowered[:, None]
    first = np.minimum(np.maximum(first + np.add.reduce(below, axis=-1), 0), known.length)
    distance = np.maximum(series.loss_at(first) - lowered, 0.0)
    parts = np.exp(np.multiply.outer([-tilt, -(tilt + 1.0)], distance)) * series.decaying(first, series.roots(first))
    scale, scale_error = float(known.log_scale[0]), float(known.log_scale_error[0])
    error = float(known.error[0]) * largest_factor(tilt) + 2.0 * series.rounding[0]
    slack = scale_error + 8.0 * _U * (abs(scale) + np.abs(tilt * lowered) + (tilt + 1.0) * series.reach + 8.0)
    level = scale - tilt * lowered
    # A sum below 0 is so by no more than its error.
    finite = np.log(np.maximum(parts[0] - parts[1], 0.0) + error) + level + slack
    finite[lowered >= highest + 8.0 * _U * abs(highest)] = -np.inf
    return finite, math.log(error) + level


def log_finite_lower(known: Frequencies, epsilon: FloatArray) -> FloatArray:
    """Logarithm of a lower bound on what finite losses add to δ at each ε.

    The event is that of all bins from some first one on, about the first one in which a > e^ε b, by the masses of a bin
    nearby; any choice is sound (Theorem 15, docs/pld.md).
    """
    series, tilt = known.series[1], known.tilt
    error_a, error_b = known.error[1:].tolist()
    scale_a, scale_b = known.log_scale[1:].tolist()
    near = series.bin_at(epsilon - (scale_a - scale_b))
    roots = series.roots(near)
    a, b = series.weights(roots)
    faint = float(known.size[1]) * (_FAINT / known.length)
    bright = (a > faint) & (b > faint)
    ratio = np.log(np.where(bright, a, 1.0) / np.where(bright, b, 1.0))
    first = series.bin_at(epsilon - (scale_a - scale_b) - ratio)
    if not (first == near).all():
        roots = series.roots(first)
    loss = series.loss_at(first)
    scale_error = sum(known.log_scale_error[1:].tolist())
    level = epsilon + (scale_b - scale_a) - loss
    terms = abs(scale_a) + abs(scale_b) + (tilt + 1.0) * series.reach + 8.0
    rounding = 8.0 * _U * terms
    grown = level + 2.0 * scale_error + rounding + 8.0 * _U * (np.abs(epsilon) + np.abs(level))
    a, b = series.decaying(first, roots)
    a, b = a - (error_a + series.rounding[0]), b + (error_b + series.rounding[1])
    best = a - b * (np.exp(np.minimum(grown, _LARGEST_EXPONENT)) * (1.0 + 32.0 * _U))
    best -= 4.0 * _U * np.abs(a)
    usable = (best > 0.0) & (grown < _LARGEST_EXPONENT)
    slack = scale_error + rounding + 8.0 * _U * np.abs(tilt * loss)
    return np.where(usable, np.log(np.where(usable, best, 1.0)) + scale_a - tilt * loss - slack, -np.inf)


class _Series:
    """The series over the known frequencies of two rows of a composition, the first with the decay θ, then θ + 1."""

    def __init__(self, known: Frequencies, rows: list[int]) -> None:
        self.known, self.start = known, float(known.start[rows[0]])
        self.reach = 0.5 * known.spacing * max(abs(self.start), abs(self.start + 2.0 * known.length))
        count, coefficients = known.orders.size, known.coefficients[rows]
        #: Bounds on the rounding of `decaying`: two sums of terms of at most N / m, and one of at most N.
        self.rounding = (known.size[rows] * ((3.0 + 2.0 * math.log(count)) * (_TERM + 4.0 * count * _U))).tolist()
        self._decays = known.spacing * np.array([[known.tilt], [known.tilt + 1.0]])
        # As conjugates, so that a product of pairs is a real part.
        self._weights, series = np.conj(coefficients), np.zeros_like(coefficients)
        self._weights[:, 0] *= 0.5
        below = _one_minus(self._decays, unit_roots(known.orders[1:], known.length))
        series[:, 1:] = np.conj(2.0 * coefficients[:, 1:] / below)
        self._series, self._whole = series.view(np.float64), np.add.reduce(series.real, axis=-1)[:, None]
        self._lowest = coefficients[:, :1].real / np.where(self._decays > _LEAST_DECAY, -np.expm1(-self._decays), 1.0)

    def loss_at(self, index: IntArray) -> FloatArray:
        """Loss or label of an element, nats: a product of numbers rounded twice at most."""
        result: FloatArray = (0.5 * self.known.spacing) * (self.start + 2.0 * index.astype(np.float64))
        return result

    def bin_at(self, loss: FloatArray) -> IntArray:
        """About the first bin whose label lies above a loss; the first or the last of the window if none does."""
        about = np.ceil((loss - 0.5 * self.known.spacing * self.start) / self.known.spacing)
        result: IntArray = np.minimum(np.maximum(about, 0.0), self.known.length - 1.0).astype(np.int64)
        return result

    def roots(self, index: IntArray) -> FloatArray:
        """Return e^{2πi m index / N} for every known frequency m, as pairs, shape (P, 2K)."""
        return unit_roots(np.multiply.outer(index, self.known.orders), self.known.length).view(np.float64)

    def weights(self, roots: FloatArray) -> FloatArray:
        """Return about the weights w of both rows, shape (2, P)."""
        result: FloatArray = np.einsum("rk,pk->rp", self._weights.view(np.float64), roots)
        return result * (2.0 / self.known.length)

    def decaying(self, first: IntArray, roots: FloatArray) -> FloatArray:
        """Return Σ_{i < n} w(first + i) e^{-decay i}, n = N - first, of both rows, shape (2, P).

        All terms but that of m = 0 are 2 c_m (e^{2πi m first/N} - e^{-decay n}) / (1 - e^{2πi m/N - decay}).
        """
        steps = (self.known.length - first).astype(np.float64)
        gone = self._decays * -steps
        left = -np.expm1(gone)
        if not self._decays[0, 0] > _LEAST_DECAY:
            left[0] = steps
        sums: FloatArray = np.einsum("rk,pk->rp", self._series, roots)
        sums += self._lowest * left - self._whole * np.exp(gone)
        return sums / self.known.length


def largest_factor(tilt: float) -> float:
    """Return max_{y>0} e^{-θy} (1 - e^-y) = θ^θ / (1 + θ)^(1+θ)."""
    return math.exp(-tilt * math.log1p(1.0 / tilt)) / (1.0 + tilt) * (1.0 + 1e-12) if tilt > 0.0 else 1.0


def _one_minus(decay: float | FloatArray, root: ComplexArray) -> ComplexArray:
    """Return 1 - e^-decay · root without cancellation, for roots of unity: 1 - cos φ is sin²φ / (1 + cos φ)."""
    factor = np.exp(-decay)
    cosine, sine = root.real, root.imag
    versed = np.where(cosine > 0.0, sine * sine / (1.0 + np.abs(cosine)), 1.0 - cosine)
    imaginary = -factor * sine
    result = np.empty(imaginary.shape, dtype=np.complex128)
    result.real, result.imag = factor * versed - np.expm1(-decay), imaginary
    return result
