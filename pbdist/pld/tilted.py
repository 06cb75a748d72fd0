r"""Tilted leaves: masses under the factor e^{θℓ}, with which losses near one ε are usual.

Rows of a leaf are kept under the factors e^{-ℓ/2} and e^{ℓ/2} (`state`), so that one factor e^{(θ + ½)ℓ - κ} makes a
e^{θℓ - κ} of P_A masses and b e^{(θ+1)ℓ - κ} of P_B masses. Labels are names, so that those of the far part are chosen
to lie on the core's positions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld.state import PairState
from pbdist.types import Direction, FloatArray

_U = UNIT_ROUNDOFF
#: A mass that is less counts as this from above, and as nothing from below.
_SMALLEST = 1e-300


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
    found = [part for part in found if np.any(part[3])]
    if not found:
        return None
    rate = tilt + 0.5
    with np.errstate(divide="ignore"):
        peak = max(float(np.max(np.log(values.max(axis=0)) + rate * losses)) for _, _, _, values, losses in found)
    if not math.isfinite(peak):
        return None
    sides = np.array([1.0, -1.0, 1.0])[: len(halves), None]
    reach = max(float(np.max(np.abs(losses))) for *_, losses in found)
    # Of an exponent each term errs by some units of itself, and its exponential by as much.
    slack = (32.0 + 8.0 * (rate * reach + abs(peak))) * _U
    first = min(start for _, start, *_ in found)
    parts = []
    for rows, start, stride, values, losses in found:
        up = sides[rows]
        factor = np.exp(np.minimum(rate * losses - peak, 705.0)) * (1.0 + up * slack)
        # What is no full float is at least something from above, and nothing from below.
        least = np.where(up > 0.0, _SMALLEST, 0.0)
        kept = np.where(values < np.where(up > 0.0, _SMALLEST, 1e-290), np.where(values > 0.0, least, 0.0), values)
        parts.append(Part(rows, start - first, stride, kept * factor))
    total = _totals(parts, len(halves))
    # Weights that underflow do not matter for a total far above underflow.
    if not np.all(np.isfinite(total)) or not np.all(total > 1e-100):
        return None
    scale = (1.0 + sides * 4.0 * _U) / total[:, None]
    parts = [replace(part, weights=part.weights * scale[part.rows]) for part in parts]
    log_total = np.log(total)
    log_scale = peak + log_total
    error = 4.0 * _U * (np.abs(log_scale) + np.abs(log_total) + abs(peak) + 1.0)
    return TiltedLeaf(spacing, tilt, first, halves, tuple(parts), log_scale, error)
