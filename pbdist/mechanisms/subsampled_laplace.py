"""Laplace noise on a Poisson sample: the pair, its masses and its losses."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property

import numpy as np

from pbdist.mechanisms.additive import LAPLACE_SCALE, Laplace
from pbdist.mechanisms.declaration import (
    SPREADS,
    mechanism,
    parameter,
    positive,
    sampling_rate,
    sensitivity_of,
)
from pbdist.mechanisms.masses import UNIT_ROUNDOFF, ScaledLossMasses, rounded_up
from pbdist.mechanisms.pair import BoundedPair, NoiseOrder, ScaledPair, in_order, ordered
from pbdist.mechanisms.subsampled import edge_error, full_losses, sampled, sampled_losses
from pbdist.types import Adjacency, Direction, FloatArray

#: Digits of the largest loss: more than float64 has zeros.
_DIGITS = 400
#: Losses whose exponentials decimal numbers hold, in nats.
_FAR = 1_000_000


@mechanism
class SubsampledLaplace(ScaledPair, BoundedPair):
    """Laplace noise after Poisson sampling: A = (1-q) Lap(0, scale) + q Lap(sensitivity, scale), B = Lap(0, scale).

    A numeric query is answered on a sample that contains each record with probability q, independently of all others.
    The direction "A||B" is the one in which a record is removed, "B||A" the one in which it is added. The pair
    dominates for both, and it is attained where one record moves the query by the sensitivity (Theorem 36 of
    docs/theory.md; Zhu, Dong & Wang 2022, Theorem 11).

    Examples
    --------
    >>> from pbdist import Laplace, SubsampledLaplace, privacy_bounds
    >>> sampled, full = (
    ...     privacy_bounds(pair, compositions=100, epsilon=1.0).delta_upper.item()
    ...     for pair in (SubsampledLaplace(scale=2.0, rate=0.05), Laplace(scale=2.0))
    ... )
    >>> sampled < 1e-2 * full
    True
    """

    aliases = ("poissonsampledlaplace",)
    noise_family = "Laplace"
    does = (
        "Each individual is in the sample of a round with the sampling rate as its probability, independently of all"
        " others; Laplace noise is added to a number that is computed from the sample."
    )
    assumes = (
        "The sample is a Poisson sample. Neighbouring data sets differ by one individual added or removed, who moves"
        " the number by at most the sensitivity."
    )

    adjacency = Adjacency.ADD_OR_REMOVE

    scale: float = parameter(
        positive,
        "the scale b of the noise, whose density is e^(-|x| / b) / (2 b)",
        unit="counts",
        aliases=SPREADS,
        hint=LAPLACE_SCALE,
        example=[1.0, 2.0, 4.0],
        sized=True,
    )
    rate: float = sampling_rate()
    sensitivity: float = sensitivity_of("by how much one record moves the answer")

    @property
    def order(self) -> NoiseOrder | None:
        """By scale / sensitivity and by the inverse of the sampling rate."""
        return ordered(
            self, SubsampledLaplace, Fraction(self.scale) / Fraction(self.sensitivity), 1 / Fraction(self.rate)
        )

    @property
    def symmetric(self) -> bool:
        """Whether every record is in the sample."""
        return self.rate == 1.0

    def loss_bound(self, direction: Direction) -> float | None:
        """That of outcomes on the far side of the record, or on the near side."""
        # Floats tell neither sum well: rates next to 1 cancel, and large losses overflow.
        sign = 1 if direction is Direction.A_TO_B else -1
        with localcontext() as context:
            context.prec = _DIGITS
            rate, size = Decimal(self.rate), Decimal(self.sensitivity) / Decimal(self.scale)
            # The loss of every record's noise is no smaller.
            found = size if sign * size > _FAR else min(size, sign * (1 - rate + rate * (sign * size).exp()).ln())
        return math.nextafter(float(found), math.inf)

    @property
    def participation(self) -> float:
        """The sampling rate."""
        return self.rate

    @cached_property
    def without_sampling(self) -> Laplace:
        """Laplace noise on every record: as its reflection, A about 0, B about the sensitivity."""
        return Laplace(self.scale, self.sensitivity)

    def keeps_order(self, edges: FloatArray) -> bool:
        """Whether the losses without sampling rise, and the outermost ones are the same if given alone."""
        return in_order(lambda some: full_losses(some, self.rate), edges)

    def _largest_loss(self, direction: Direction) -> float:
        ends, error = self._ends
        return rounded_up(max(ends.tolist() if direction is Direction.A_TO_B else (-ends).tolist()) + error)

    @cached_property
    def _ends(self) -> tuple[FloatArray, float]:
        """The largest and the smallest loss, and a bound on their error."""
        full = self.sensitivity / self.scale
        ends, error = sampled_losses(np.array([full, -full]), self.rate)
        # The quotient rounds once; the slope of the loss is at most that at its upper end.
        slope = min(1.0, self.rate * math.exp(min(full - float(ends[0]), 700.0))) if self.rate < 1.0 else 1.0
        return ends, error + 1.1 * slope * full * UNIT_ROUNDOFF

    def _masses(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        full = full_losses(edges, self.rate)
        # Rounding must not let neighbouring bins overlap.
        full = np.maximum.accumulate(full)
        empty = int(np.count_nonzero(full == -np.inf))
        inner = full[empty:]
        masses = self.without_sampling._masses(inner, scaled=scaled)
        ends, error = self._ends
        # No event has a loss beyond the largest one; from a loss to x there are two roundings.
        within = np.minimum(edges, ends[0] + error)
        missed = edge_error(within, self.rate, steps=2.1, level=1.1 * self.sensitivity / self.scale)
        return sampled(masses, self.rate, empty=empty, atom_loss=ends, loss_error=max(error, missed))
