"""The sum of two independent Laplace noises on a query: the pair N, N + sensitivity, with its masses and losses."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from pbdist.mechanisms.additive import LAPLACE_SCALE
from pbdist.mechanisms.declaration import (
    SPREADS,
    mechanism,
    parameter,
    sensitivity_of,
    times_above,
    two_positive,
)
from pbdist.mechanisms.masses import (
    SMALLEST_FLOAT,
    UNIT_ROUNDOFF,
    LossMasses,
    MassBounds,
    ScaledLossMasses,
    drop_unresolved,
    rounded_up,
    split_off,
)
from pbdist.mechanisms.pair import BoundedPair, NoiseOrder, ScaledPair, in_order, ordered
from pbdist.mechanisms.tails import BEYOND
from pbdist.types import Direction, FloatArray

#: Outcomes beyond this have no mass that any float tells: they are at least 1e230 scales away.
_FARTHEST = 1e260
#: From this κ on the outermost events count as atoms.
_LARGE_GAP = 32.0
#: A picture: how many scales it reaches beyond 0 and the sensitivity, its outcomes there on either side, and its
#: outcomes between them for each scale, at least and at most.
_REACH, _OUTSIDE = 60.0, 600
_PER_SCALE, _FEWEST_INSIDE, _MAX_INSIDE = 10.0, 150, 800
#: Steps of Newton's method, at most; it ends where a loss is within so many u of the largest one.
_MAX_STEPS, _CLOSE = 40, 4.0


@mechanism
class LaplaceSum(ScaledPair, BoundedPair):
    """Two independent Laplace noises, of which only the sum is seen: A = N, B = N + sensitivity, N = N1 + N2.

    That is what an observer sees of the sum of two noisy values that move together, by the sensitivity in all. The loss
    falls along the outcome, from below sensitivity / (the larger scale) to above minus that, and the pair dominates
    every smaller shift (Theorem 32 of docs/theory.md).

    Examples
    --------
    >>> from pbdist import Laplace, LaplaceSum, Product, privacy_bounds
    >>> both = Product(Laplace(20.0, 2.0), Laplace(10.0, 1.0))
    >>> summed, apart = (
    ...     privacy_bounds(pair, compositions=100, epsilon=1.0).delta_upper.item()
    ...     for pair in (LaplaceSum((20.0, 10.0), 3.0), both)
    ... )
    >>> summed < apart
    True
    """

    noise_family = "LaplaceSum"
    does = "Two answers have Laplace noise each, and only their sum is seen."
    assumes = (
        "The observer sees the sum alone, never one of the two values; one individual moves the sum by at most the"
        " sensitivity."
    )

    noise_parameters = ("scales",)

    checked_together = ("scales",)
    symmetric = True

    scales: tuple[float, float] = parameter(
        two_positive,
        "the scales of the two noises, the larger one first",
        unit="counts",
        aliases=(*SPREADS, "scale"),
        hint=f"scales are two numbers, each as of a Laplace: {LAPLACE_SCALE}",
        example=[(20.0, 10.0), (40.0, 20.0)],
        columns=("scale", "second_scale"),
    )
    sensitivity: float = sensitivity_of("by how much one record moves the answer")

    def check(self) -> None:
        """Put the larger scale first."""
        object.__setattr__(self, "scales", (max(self.scales), min(self.scales)))

    @property
    def order(self) -> NoiseOrder | None:
        """By both scales in sensitivities."""
        return ordered(self, LaplaceSum, *(Fraction(scale) / Fraction(self.sensitivity) for scale in self.scales))

    def moved(self, times: int) -> "LaplaceSum":
        """With so many times the sensitivity."""
        return replace(self, sensitivity=times_above(self.sensitivity, times))

    def loss_picture(self, target: float, beyond: float = BEYOND) -> tuple[FloatArray, FloatArray] | None:  # noqa: ARG002
        """Losses at outcomes that lie denser towards 0 and the sensitivity; none where the masses have atoms.

        So the losses next to the bound on all of them are seen, which decide δ at large ε.
        """
        if self._gap >= _LARGE_GAP:
            return None
        largest, dense = self._largest, 1.0 + self._gap
        outside = self.scales[0] / dense * np.expm1(np.linspace(0.0, math.log1p(_REACH * dense), _OUTSIDE))
        count = min(max(math.ceil(_PER_SCALE * largest), _FEWEST_INSIDE), _MAX_INSIDE)
        inside = self.sensitivity * np.linspace(0.0, 1.0, count)[1:-1]
        x = np.concatenate((-outside[::-1], inside, self.sensitivity + outside))
        ends = np.concatenate(([-np.inf], 0.5 * (x[1:] + x[:-1]), [np.inf]))
        mass, _, log_scale = self.interval(ends[:-1], ends[1:], scaled=True)
        log_mass = (np.log(np.maximum(mass, SMALLEST_FLOAT)) + log_scale)[::-1]
        # Losses that rounding makes equal are one.
        loss = np.maximum.accumulate(self._loss(x)[::-1])
        first = np.flatnonzero(np.append(True, np.diff(loss) > 0.0))
        return loss[first], np.logaddexp.reduceat(log_mass, first)

    def loss_bound(self, direction: Direction) -> float | None:  # noqa: ARG002
        """That of the widest noise alone: the others only process it."""
        return rounded_up(self.sensitivity / max(self.scales))

    def keeps_order(self, edges: FloatArray) -> bool:
        """Whether the end points fall, and the outermost ones are the same if their edges are given alone."""
        return in_order(lambda some: -self._location(some), edges)

    def _largest_loss(self, direction: Direction) -> float:  # noqa: ARG002
        return rounded_up(self._largest)

    def _masses(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        means = np.array([[0.0], [self.sensitivity]])
        ends = self._location(edges)
        # Rounding must not let neighbouring bins overlap.
        np.minimum.accumulate(ends, out=ends)
        low, high, atom_error = self._spread_range()
        loss_error = max(self._loss_error(edges, ends), atom_error)
        ends = np.clip(np.concatenate(([np.inf], ends, [-np.inf])), low, high)
        mass, error, log_scale = self.interval(ends[1:], ends[:-1], means, scaled=scaled)
        occupied = ends[1:] < ends[:-1]
        bins = MassBounds.around(mass, error, occupied=True if np.all(occupied) else occupied)
        atoms, atoms_log_scale = MassBounds(np.zeros((2, 0)), np.zeros((2, 0))), np.zeros((2, 0))
        atom_loss = np.zeros(0)
        if math.isfinite(low):
            atom_loss = np.array([self._largest, -self._largest])
            starts, stops = np.array([-np.inf, high]), np.array([low, np.inf])
            mass, error, atoms_log_scale = self.interval(starts, stops, means, scaled=scaled)
            atoms = MassBounds.around(mass, error)
        masses = LossMasses(
            bins_a=bins.row(0),
            bins_b=bins.row(1),
            atom_loss=atom_loss,
            atoms_a=atoms.row(0),
            atoms_b=atoms.row(1),
            loss_error=loss_error,
        )
        return ScaledLossMasses(masses, log_scale[0], log_scale[1], atoms_log_scale[0], atoms_log_scale[1])

    def _spread_range(self) -> tuple[float, float, float]:
        """Return the interval of x whose events are spread over bins, and a bound on the error of the atoms' losses.

        The events beyond it have losses so near the bound on all of them that they count as an atom there. They have
        much mass only where the second scale is far below the first one; elsewhere all events are spread.
        """
        if self._gap < _LARGE_GAP:
            return -math.inf, math.inf, 0.0
        nearly = np.array([self._largest * (1.0 - 64.0 * UNIT_ROUNDOFF)])
        low = -self.scales[0] * self._outer(nearly)
        missed = float(np.abs(self._loss(low) - self._largest)[0])
        return float(low[0]), float(self.sensitivity - low[0]), 1.01 * missed + 66.0 * UNIT_ROUNDOFF * self._largest

    @property
    def _largest(self) -> float:
        """The bound s / b1 on all losses, rounded: the limit at x = -∞."""
        return self.sensitivity / self.scales[0]

    @property
    def _gap(self) -> float:
        """κ = (b1 - b2) / b2, off by 2u relatively, however close the scales b1 ≥ b2 are."""
        return (self.scales[0] - self.scales[1]) / self.scales[1]

    def _rise(self, t: FloatArray) -> FloatArray:
        """Return E(t) = (1 - e^(-κt)) / κ, which is t for κ = 0."""
        gap = self._gap
        return t if gap == 0.0 else -np.expm1(-gap * t) / gap

    def interval(
        self, lower: FloatArray, upper: FloatArray, mean: FloatArray | float = 0.0, *, scaled: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mass of [lower, upper] under N about `mean`, a bound on its relative error, and the log of its factor.

        Theorem 32 of docs/theory.md: on one side of the mean the mass is ½ e^-t D. ``lower <= upper``, infinite ones
        allowed. With `scaled` factors below e^-600 are separated from their masses; a mass so small that float64 does
        not resolve its exponent is then given as 0.
        """
        scale = self.scales[0]
        lower, upper = np.clip(lower, -_FARTHEST, _FARTHEST), np.clip(upper, -_FARTHEST, _FARTHEST)
        low, high = (lower - mean) / scale, (upper - mean) / scale
        distance = np.maximum(np.maximum(low, -high), 0.0)
        exponent = -distance
        log_scale = split_off(exponent, scaled)
        drop, error = self._drop(distance, (upper - lower) / scale)
        mass = 0.5 * np.exp(exponent) * drop
        straddles = (low < 0.0) & (high > 0.0)
        if np.any(straddles):
            # On either side the mass from the mean on.
            here = np.zeros(int(np.count_nonzero(straddles)))
            parts = [self._drop(here, width)[0] for width in (-low[straddles], high[straddles])]
            mass[straddles] = 0.5 * (parts[0] + parts[1])
        error += 3.0 * UNIT_ROUNDOFF * distance
        if scaled:
            drop_unresolved(mass, error, log_scale)
        return mass, error, log_scale

    def _drop(self, t: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return D of Theorem 32, and the error of ½ e^-t D but for the part that grows with t.

        D = (1 - c) (1 - e^-v) (1 + E(t)) + c e^(-κt) (1 - e^-v - e^-v E(v)) with c = b2 / (b1 + b2).
        """
        first, second = self.scales
        with np.errstate(over="ignore"):
            rise, fall, steep = 1.0 + self._rise(t), np.exp(-self._gap * t), -np.expm1(-v)
            rest = steep - np.exp(-v) * self._rise(v)
        drop: FloatArray = first / (first + second) * steep * rise + second / (first + second) * fall * rest
        error: FloatArray = (44.0 + 52.0 * (second / first) * (fall / rise)) * UNIT_ROUNDOFF
        return drop, error

    def _loss(self, x: FloatArray) -> FloatArray:
        """Return the loss at finite x, off by at most 64 u s / b1: Theorem 32 of docs/theory.md."""
        s, scale = self.sensitivity, self.scales[0]
        nearer = np.where(x <= 0.5 * s, np.abs(x), np.abs(s - x))
        further = np.minimum(np.abs(s - 2.0 * x), s)
        return np.where(x <= 0.5 * s, 1.0, -1.0) * self._size(nearer / scale, further / scale)

    def _size(self, y: FloatArray, d: FloatArray) -> FloatArray:
        """Return d - ln(1 + e^(-κy) E(d) / (1 + E(y))): the size of a loss, of distances y and y + d in scales."""
        with np.errstate(over="ignore"):
            size: FloatArray = d - np.log1p(np.exp(-self._gap * y) * self._rise(d) / (1.0 + self._rise(y)))
        return size

    def _loss_error(self, edges: FloatArray, ends: FloatArray) -> float:
        """Bound how far the exact losses at the end points that were used lie from the edges, where there are losses.

        The losses at finite end points are computed again; beyond infinite ones there are none, and all losses are
        smaller in size than s / b1.
        """
        if edges.size == 0:
            return 0.0
        finite = np.isfinite(ends)
        missed = np.maximum(self._largest - np.abs(edges), 0.0)
        missed[finite] = np.abs(self._loss(ends[finite]) - edges[finite])
        return 1.01 * float(np.max(missed)) + 66.0 * UNIT_ROUNDOFF * self._largest

    def _location(self, edges: FloatArray) -> FloatArray:
        """Return about the x of the losses, infinite from the bound on all losses on; `_loss_error` tells how near."""
        size, largest = np.abs(edges), self._largest
        # The loss at x = 0; it is 0 at half the sensitivity, and the rest is the mirror image.
        middle = max(float(self._size(np.zeros(1), np.array([largest]))[0]), 0.0)
        inner, outer = size <= middle, (size > middle) & (size < largest)
        x = np.full(size.shape, -np.inf)
        x[inner] = self.scales[0] * self._inner(size[inner], middle)
        x[outer] = -self.scales[0] * self._outer(size[outer])
        return np.where(edges < 0.0, self.sensitivity - x, x)

    def _outer(self, size: FloatArray) -> FloatArray:
        """Solve s / b1 - ln(1 + e^(-κy) E(s / b1) / (1 + E(y))) = `size` for the distance y below 0, in scales."""
        gap, whole = self._gap, float(self._rise(np.array([self._largest]))[0])
        rest = np.expm1(self._largest - size)
        with np.errstate(over="ignore"):
            grown = np.maximum(whole - rest, 0.0) / rest
            return grown if gap == 0.0 else np.log1p(gap / (1.0 + gap) * grown) / gap

    def _inner(self, size: FloatArray, middle: float) -> FloatArray:
        """Solve for the distance y between 0 and half the sensitivity, in scales, by Newton's method.

        The size of the loss is concave in y and falls from `middle` to 0: from the first step on the values come from
        above. Each one ends by itself, so that it does not depend on the others.
        """
        largest, gap = self._largest, self._gap
        half = 0.5 * largest
        y = half * (1.0 - size / middle) if middle > 0.0 else np.full(size.shape, half)
        left = np.arange(size.size)
        for _ in range(_MAX_STEPS):
            now = y[left]
            excess = self._size(now, largest - 2.0 * now) - size[left]
            going = np.abs(excess) > _CLOSE * UNIT_ROUNDOFF * largest
            left, now, excess = left[going], now[going], excess[going]
            if not left.size:
                break
            near, far = self._rise(now), self._rise(largest - now)
            slope = (1.0 + gap) * (near / (1.0 + near) + far / (1.0 + far))
            y[left] = np.clip(now + excess / slope, 0.0, half)
        return y
