"""Gaussian noise on batches of a fixed size drawn without replacement, when one record is replaced by another."""

import math
from fractions import Fraction
from functools import cached_property

import numpy as np

from pbdist.mechanisms.additive import Gaussian
from pbdist.mechanisms.declaration import (
    RATES,
    checked_integer,
    checked_size,
    gaussian_scale,
    mechanism,
    parameter,
    sampling_rate,
    sensitivity_of,
    whole,
)
from pbdist.mechanisms.masses import LossMasses, MassBounds, ScaledLossMasses, gaussian_interval
from pbdist.mechanisms.pair import NoiseOrder, ScaledPair, ordered
from pbdist.mechanisms.subsampled import SubsampledGaussian, added
from pbdist.mechanisms.worst_of import TwoSided
from pbdist.types import Adjacency, Direction, FloatArray

#: Larger data sets are refused.
_MAX_EXAMPLES = 10**12


@mechanism
class FixedBatchGaussian(TwoSided):
    """Gaussian noise on the sum of a batch of a fixed size, drawn without replacement; one record is replaced.

    Each round draws `batch` of the `examples` records, every set of so many with the same probability, independently of
    the other rounds, clips what each record contributes to a vector of length at most ``sensitivity``, and adds N(0,
    scale² I) to the sum. Neighbours have equally many records and differ in one. **Replacing a record moves a sum by up
    to twice the sensitivity**: all figures follow from (1-q) N(0, scale²) + q N(2 sensitivity, scale²) against N(0,
    scale²), q = batch / examples, and not from a shift by the sensitivity.

    In one round δ is H((1-q) N(0) + q N(2 sensitivity) || N(0); ε) in both directions. In several rounds no pair of
    data sets is known to be the worst (Lebeda, Regehr, Kamath & Steinke 2024): neither that pair nor its reversal
    dominates the mechanism. So upper bounds are those of another pair, `upper_pair`, which does, and lower bounds
    those of neighbouring data sets that follow `lower_pair` (Theorem 39 of docs/theory.md; Zhu, Dong & Wang 2022).

    Examples
    --------
    >>> from pbdist import FixedBatchGaussian, epsilon_bounds
    >>> noise = FixedBatchGaussian(scale=2.0, batch=10, examples=1000)
    >>> found = epsilon_bounds(noise, compositions=100, delta=1e-5, tolerance=0.1)
    >>> bool(0.0 < found.epsilon_lower.item() <= found.epsilon_upper.item() < 1.1 * found.epsilon_lower.item())
    True
    """

    aliases = ("sampledwithoutreplacement",)
    noise_family = "Gaussian"
    does = (
        "Each round draws a batch of a fixed size without replacement; Gaussian noise is added to the sum of what the"
        " individuals in it contribute."
    )
    assumes = (
        "Neighbouring data sets have the same number of examples, and one individual is replaced by another."
        " Contributions are clipped to the sensitivity, so that replacing one moves a sum by up to twice that. Batches"
        " are drawn afresh and independently in every round; a data set that is shuffled once an epoch is another"
        " mechanism. In several rounds the upper bound is that of a pair that dominates, and the lower bound that of"
        " data sets that are known: the truth may lie anywhere between."
    )
    checked_together = ("batch", "examples")

    adjacency = Adjacency.REPLACE_ONE

    scale: float = gaussian_scale([2.0, 4.0])
    batch: int = parameter(
        whole(1, _MAX_EXAMPLES),
        "the number of records of a batch",
        aliases=("batch_size", "sample_size", *RATES, "rate"),
        hint="batch is the number of records of a batch",
        example=100,
    )
    examples: int = parameter(
        whole(1, _MAX_EXAMPLES),
        "the number of records of the data set",
        aliases=("n", "dataset_size", "source_dataset_size", "data_size", "records"),
        example=10_000,
    )
    sensitivity: float = sensitivity_of("the clipping norm of a record")

    def check(self) -> None:
        """Refuse batches larger than the data set, and a sensitivity of which twice as much is out of range."""
        checked_integer(type(self).__name__, "batch", self.batch, minimum=1, maximum=self.examples)
        checked_size(type(self).__name__, "sensitivity", 2.0 * self.sensitivity)

    @cached_property
    def upper_pair(self) -> "FixedBatchUpper | Gaussian | SubsampledGaussian":
        """The pair that dominates, of the sampling rate rounded up; the attained one where all records are drawn."""
        if self.batch == self.examples:
            return self.lower_pair
        rate = self.batch / self.examples
        if Fraction(rate) < Fraction(self.batch, self.examples):
            rate = math.nextafter(rate, math.inf)
        return FixedBatchUpper(self.scale, rate, self.sensitivity)

    @cached_property
    def lower_pair(self) -> SubsampledGaussian | Gaussian:
        """A pair that some neighbours follow in all rounds, of the sampling rate rounded down."""
        if self.batch == self.examples:
            return Gaussian(self.scale, 2.0 * self.sensitivity)
        rate = self.batch / self.examples
        if Fraction(rate) > Fraction(self.batch, self.examples):
            rate = math.nextafter(rate, 0.0)
        return SubsampledGaussian(self.scale, rate, 2.0 * self.sensitivity)


@mechanism
class FixedBatchUpper(ScaledPair):
    """The pair that dominates Gaussian noise on a batch of a fixed size when one record is replaced.

    With N = N(0, scale²) and M = (1-rate) N + rate N(2 sensitivity, scale²), its outcomes are x above the sensitivity,
    with a sign, and one more: A has M at (x, +) and N at (x, -), B has N at (x, +) and M at (x, -); both have what is
    left of 1 at the last outcome. For ε >= 0 its δ in one round is H(M||N; ε), in both directions: Theorem 39 of
    docs/theory.md. Bounds are those of this pair, which no neighbours need to follow: `FixedBatchGaussian` has lower
    bounds for the mechanism itself.
    """

    noise_family = "Gaussian"
    does = "A pair that dominates Gaussian noise on a batch of a fixed size, of which upper bounds are."
    assumes = "As of a FixedBatchGaussian."
    in_studies = False
    symmetric = True
    adjacency = Adjacency.REPLACE_ONE

    scale: float = gaussian_scale([2.0, 4.0])
    rate: float = sampling_rate()
    sensitivity: float = sensitivity_of("the clipping norm of a record")

    def check(self) -> None:
        """Refuse a sensitivity of which twice as much is out of range, as replacing a record moves a sum by that."""
        checked_size(type(self).__name__, "sensitivity", 2.0 * self.sensitivity)

    @property
    def order(self) -> NoiseOrder | None:
        """By scale / sensitivity and by the inverse of the sampling rate."""
        return ordered(
            self, FixedBatchUpper, Fraction(self.scale) / Fraction(self.sensitivity), 1 / Fraction(self.rate)
        )

    @cached_property
    def _removed(self) -> SubsampledGaussian:
        """The pair (M, N(0, scale²))."""
        return SubsampledGaussian(self.scale, self.rate, 2.0 * self.sensitivity)

    def loss_bound(self, direction: Direction) -> float | None:  # noqa: ARG002
        """Infinite."""
        return math.inf

    @property
    def participation(self) -> float:
        """The sampling rate."""
        return self.rate

    @property
    def without_sampling(self) -> Gaussian:
        """Every record in every batch: a shift by twice the sensitivity."""
        return Gaussian(self.scale, 2.0 * self.sensitivity)

    def keeps_order(self, edges: FloatArray) -> bool:
        """Whether (M, N(0, scale²)) does for the edges above 0, and for the negated ones below."""
        above, below = edges[edges > 0.0], -edges[edges < 0.0][::-1]
        return all(self._removed.keeps_order(side) for side in (above, below) if side.size)

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:  # noqa: ARG002
        """Upper bound of ln E_A[e^(tilt L); loss < L < ∞]: that of (M, N(0)) above 0, and at most 1 from the rest."""
        above = self._removed.log_tail_moment(tilt, max(loss, 0.0), Direction.A_TO_B)
        return above if loss >= 0.0 else float(np.logaddexp(above, 0.0)) + 1e-12

    def _masses(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        above = self._above(edges, scaled=scaled)
        below = self._above(np.ascontiguousarray(-edges[::-1]), scaled=scaled).swapped()
        bins_a, scale_a = added([(1.0, 1.0, side.masses.bins_a, side.log_scale_a) for side in (above, below)])
        bins_b, scale_b = added([(1.0, 1.0, side.masses.bins_b, side.log_scale_b) for side in (above, below)])
        # (1 - rate) N(0, scale²) of [-sensitivity, sensitivity] is what both have at a loss of 0.
        inner, error, _ = gaussian_interval(np.array([-self.sensitivity]), np.array([self.sensitivity]), self.scale)
        rest = 1.0 - self.rate
        level = MassBounds.around(inner, error)
        atom, _ = added([(rest, rest, level, np.zeros(1))])
        masses = LossMasses(
            bins_a=bins_a,
            bins_b=bins_b,
            atom_loss=np.zeros(1),
            atoms_a=atom,
            atoms_b=atom,
            loss_error=max(above.masses.loss_error, below.masses.loss_error),
        )
        return ScaledLossMasses(masses, scale_a, scale_b, np.zeros(1), np.zeros(1))

    def _above(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        """Return the masses of the outcomes (x, +), whose losses are above 0."""
        positive = edges[edges > 0.0]
        found = self._removed.masses_beyond(positive, self.sensitivity, scaled=scaled)
        return found.after_empty(edges.size - positive.size)
