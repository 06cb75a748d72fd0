r"""Splitting of events to the ends of their bins, so that the atoms dominate them in both directions.

After Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022. An event of masses a, b and of a loss between the neighbours
k h and (k+1) h is replaced by two atoms at these that keep a and b together. With m the middle of the bin, A = a
e^{-m/2} and B = b e^{m/2}, the atoms' u = √(ab) solve u_k e^{-h/4} + u_{k+1} e^{h/4} = A and u_k e^{h/4} + u_{k+1}
e^{-h/4} = B: their sum is (A + B) / (2 cosh(h/4)), their difference (A - B) / (2 sinh(h/4)). Mapping the atoms back
gives the event (Theorem 22 in ``docs/pld.md``).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import BoolArray, FloatArray, IntArray

_U = UNIT_ROUNDOFF
#: What is not 0 counts as at least this in an upper value.
SMALLEST = 1e-300
#: Bins whose masses are known worse than this are split from rounded masses, at the cost of adding to them; of the
#: others the loss is taken to be wrong by so much, ..
_KNOWN = (5e-13, 1e-11, 1e-9)
#: .. of which the first is taken that adds no more than this to all masses together.
_ADDED = 1e-13
#: Bins up to this width, nats, are narrow.
_NARROW = 0.1
#: Where so small a share lies at one end, nearly all events may be next to the other one.
_NEAR_END = 0.4
#: With a share of 0.4 at least at either end, and bins so many times as wide as a and b are known, losses need be
#: moved by so many times that; those of single events by less.
_ROOM, _MOVED, _MOVED_ALONE = 500.0, 3.0, 2.0


@dataclass(frozen=True, eq=False)
class Bins:
    """Events of bins, tilted to their middles: masses from below and above, and the bin of each."""

    position: IntArray
    a_lower: FloatArray
    a_upper: FloatArray
    b_lower: FloatArray
    b_upper: FloatArray
    #: 0 and 1 for an event that lies at the lower and the upper end of its bin; else no number.
    end: FloatArray | None = None

    @property
    def known(self) -> FloatArray:
        """How well a and b are known, relative to themselves."""
        with np.errstate(divide="ignore", invalid="ignore"):
            worse = np.maximum(self.a_upper / self.a_lower, self.b_upper / self.b_lower) - 1.0
        return np.where(np.isnan(worse), np.inf, worse)

    @property
    def something(self) -> BoolArray:
        """Where there is any mass."""
        return (self.a_upper > 0.0) | (self.b_upper > 0.0)

    def chosen(self, which: BoolArray) -> "Bins":
        """Some of the bins."""
        return Bins(
            self.position[which],
            self.a_lower[which],
            self.a_upper[which],
            self.b_lower[which],
            self.b_upper[which],
            None if self.end is None else self.end[which],
        )


def tilted_bins(
    position: IntArray, a: tuple[FloatArray, FloatArray, FloatArray], b: tuple[FloatArray, FloatArray, FloatArray]
) -> Bins:
    """Multiply masses by exponentials, rounded to their sides."""
    values = []
    for lower, upper, exponent in (a, b):
        with np.errstate(over="ignore", under="ignore"):
            factor = np.exp(exponent)
        # An exponential errs by as many units as its exponent, which is rounded itself.
        slack = (8.0 + 2.0 * np.abs(exponent)) * _U
        low = lower * factor * (1.0 - slack)
        high = np.where(upper > 0.0, np.maximum(upper * factor * (1.0 + slack), SMALLEST), 0.0)
        # What underflows has lost its digits.
        values.append((np.where(low >= 1e-290, low, 0.0), high))
    return Bins(position, *values[0], *values[1])


def known_enough(parts: Iterable[Bins], spacing: float) -> float:
    """How well masses must be known for their loss to be taken as computed."""
    for limit in _KNOWN[:-1]:
        added = 0.0
        for part in parts:
            known = part.known
            worse = known > limit
            share = np.minimum(known[worse] / spacing, 1.0)
            added += float(np.sum(np.minimum(part.a_upper[worse], part.b_upper[worse]) * share))
        if added <= _ADDED:
            return limit
    return _KNOWN[-1]


def split_bins(bins: Bins, spacing: float, tolerance: float, loss_error: float) -> tuple[FloatArray, FloatArray, float]:
    """Split events to the ends of their bins, from above; besides, by how much losses were moved for it."""
    known = bins.known
    trusted = known <= tolerance
    a, b = bins.a_upper, bins.b_upper
    quarter = 0.25 * spacing
    if spacing <= _NARROW:
        low, high = _narrow(a, b, quarter, loss_error)
        if bins.end is None:
            # Where nearly all lies next to an end, or bins are no wider than losses are known, the others have no room
            # to be moved so little that it makes up for what is beyond that end.
            with np.errstate(invalid="ignore", divide="ignore"):
                share = low / (low + high)
            trusted = trusted & (share > _NEAR_END) & (share < 1.0 - _NEAR_END) & (_ROOM * known < spacing)
    else:
        low, high = _wide(a, b, quarter, np.where(trusted, known, 0.0))
    worst = float(np.max(known[trusted], initial=0.0))
    moved = (_MOVED if bins.end is None else _MOVED_ALONE) * worst + 64.0 * _U
    low, high = low * (1.0 + worst + 64.0 * _U), high * (1.0 + worst + 64.0 * _U)
    if not trusted.all():
        grow, shrink, wide = math.exp(quarter), math.exp(-quarter), 2.0 * math.sinh(2.0 * quarter)
        up, down = 1.0 + 16.0 * _U, 1.0 - 16.0 * _U
        # An event outside its bin by the error of losses is moved to its end.
        a_lower, b_lower = bins.a_lower, bins.b_lower * (1.0 - 1.01 * loss_error)
        b = b * (1.0 + 1.01 * loss_error)
        below = np.maximum(b * grow * up - a_lower * shrink * down, 0.0) / wide * up
        over = np.maximum(a * grow * up - b_lower * shrink * down, 0.0) / wide * up
        below = np.minimum(below, np.minimum(a * grow, b * shrink) * up)
        over = np.minimum(over, np.minimum(a * shrink, b * grow) * up)
        low, high = np.where(trusted, low, below), np.where(trusted, high, over)
    if bins.end is not None:
        # An event at an end stays whole: as much as both of its masses need there.
        up = 1.0 + 16.0 * _U
        grow, shrink = math.exp(quarter) * up, math.exp(-quarter) * up
        at_low, at_high = bins.end == 0.0, bins.end == 1.0
        low = np.where(at_low, np.maximum(a * grow, bins.b_upper * shrink), np.where(at_high, 0.0, low))
        high = np.where(at_high, np.maximum(a * shrink, bins.b_upper * grow), np.where(at_low, 0.0, high))
    return low, high, moved


def _narrow(a: FloatArray, b: FloatArray, quarter: float, loss_error: float) -> tuple[FloatArray, FloatArray]:
    """Split events to the ends of narrow bins, of which a and b differ little, by sum and difference."""
    total = (a + b) / (2.0 * math.cosh(quarter))
    difference = (a - b) / (2.0 * math.sinh(quarter))
    outside = np.abs(difference) > total
    # An event outside its bin by rounding lies at its end, where it keeps both masses: that takes more, by as much.
    difference = np.clip(difference, -total, total)
    grown = np.where(outside, 1.0 + 1.01 * loss_error, 1.0)
    return 0.5 * (total - difference) * grown, 0.5 * (total + difference) * grown


def _wide(a: FloatArray, b: FloatArray, quarter: float, known: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Split events to the ends of wide bins, each end by itself: what rounding, and not knowing, take is added.

    Below 0 there is an end of which an event lies beyond the other one, by rounding: the other then has more.
    """
    grow, shrink, wide = math.exp(quarter), math.exp(-quarter), 2.0 * math.sinh(2.0 * quarter)
    ends = []
    for near, far in ((b, a), (a, b)):
        added = (32.0 * _U + 2.0 * known) * (near * grow + far * shrink)
        ends.append((np.maximum(near * grow - far * shrink, 0.0) + added) / wide)
    return ends[0], ends[1]
