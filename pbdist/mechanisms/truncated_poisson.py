"""Gaussian noise on Poisson samples that are cut to a largest size, when a record is added or removed."""

import math
from functools import cached_property

import numpy as np

from pbdist.mechanisms.additive import Gaussian
from pbdist.mechanisms.binomial_runs import CutSample, cut_sample
from pbdist.mechanisms.declaration import (
    checked_size,
    gaussian_scale,
    mechanism,
    parameter,
    parametrised,
    sampling_rate,
    sensitivity_of,
    whole,
)
from pbdist.mechanisms.masses import LossMasses, ScaledLossMasses, rounded_up
from pbdist.mechanisms.pair import Pair, ScaledPair
from pbdist.mechanisms.subsampled import SubsampledGaussian, added
from pbdist.mechanisms.worst_of import TwoSided
from pbdist.types import Adjacency, Direction, FloatArray

#: Larger data sets are refused: so many terms of a binomial distribution take too long.
_MAX_EXAMPLES = 10**9


@parametrised
class _TruncatedPoisson(Pair):
    """The parameters of Gaussian noise on Poisson samples that are cut to a largest size."""

    noise_family = "Gaussian"
    checked_together = ("sensitivity",)
    adjacency = Adjacency.ADD_OR_REMOVE

    scale: float = gaussian_scale([1.0, 2.0])
    rate: float = sampling_rate()
    batch: int = parameter(
        whole(1, _MAX_EXAMPLES),
        "the most records of a sample",
        aliases=("batch_size", "sample_size", "truncated_batch_size"),
        hint="batch is the most records of a sample",
        example=150,
    )
    examples: int = parameter(
        whole(1, _MAX_EXAMPLES),
        "the number of records of the data set",
        aliases=("n", "dataset_size", "source_dataset_size", "data_size", "records"),
        example=10_000,
    )
    sensitivity: float = sensitivity_of("the clipping norm of a record")

    def check(self) -> None:
        """Refuse a sensitivity of which twice as much is out of range, as replacing a record moves a sum by that."""
        checked_size(type(self).__name__, "sensitivity", 2.0 * self.sensitivity)

    @cached_property
    def _cut(self) -> CutSample:
        """How often samples are cut, and how often the record is in one."""
        return cut_sample(self.examples, self.rate, self.batch)


@mechanism
class TruncatedPoissonGaussian(_TruncatedPoisson, TwoSided):
    """Gaussian noise on Poisson samples of at most `batch` records; one record is added or removed.

    Each round draws a Poisson sample of the records with the probability `rate`. If more than `batch` were drawn, that
    many of them remain, every set of so many with the same probability. What each record contributes is clipped to a
    vector of length at most ``sensitivity``, and N(0, scale² I) is added to the sum (Chua et al. 2024). Where a sample
    is cut, the record takes the place of another one: that moves the sum by up to twice the sensitivity.

    Upper bounds are those of `upper_pair`, which dominates the mechanism, lower bounds those of `lower_pair`, which it
    follows where all other records contribute nothing. They meet as far as samples are seldom cut (Theorem 38 of
    docs/theory.md).

    Examples
    --------
    >>> from pbdist import TruncatedPoissonGaussian, epsilon_bounds
    >>> steps = TruncatedPoissonGaussian(scale=2.0, rate=0.01, batch=40, examples=2000)
    >>> found = epsilon_bounds(steps, compositions=100, delta=1e-5, tolerance=0.01)
    >>> bool(0.0 < found.epsilon_lower.item() <= found.epsilon_upper.item() < 1.01 * found.epsilon_lower.item())
    True
    """

    aliases = ("truncatedsubsampledgaussian",)
    does = (
        "Each individual is in the sample of a round with the sampling rate as its probability; of larger samples a"
        " batch of the largest size is kept; Gaussian noise is added to the sum of what the individuals contribute."
    )
    assumes = (
        "Neighbouring data sets differ by one individual added or removed, and the larger one has the given number of"
        " examples. Contributions are clipped to the sensitivity. Which individuals of too large a sample are kept is"
        " drawn uniformly. Lower bounds are those of data sets where no other individual contributes anything."
    )

    @cached_property
    def upper_pair(self) -> "TruncatedPoissonUpper | SubsampledGaussian":
        """The pair that dominates; the attained one where no sample is ever cut."""
        if self.batch >= self.examples:
            return self.lower_pair
        return TruncatedPoissonUpper(self.scale, self.rate, self.batch, self.examples, self.sensitivity)

    @cached_property
    def lower_pair(self) -> SubsampledGaussian:
        """The pair where no other record contributes: a sample in which the record is as often as it is in a batch."""
        return SubsampledGaussian(self.scale, self._cut.used, self.sensitivity)


@mechanism
class TruncatedPoissonUpper(_TruncatedPoisson, ScaledPair):
    """The pair that dominates Gaussian noise on Poisson samples of at most `batch` records: Theorem 38.

    With the probability τ that `batch` or more of the other records are drawn, it is q' N(2 sensitivity) + (1-q') N(0)
    against N(0), where q' is the probability of the record to be used then; else rate N(sensitivity) + (1-rate) N(0)
    against N(0); and which of them it is is seen. Bounds are those of this pair, which no neighbours need to follow:
    `TruncatedPoissonGaussian` has lower bounds for the mechanism itself.
    """

    does = "A pair that dominates Gaussian noise on Poisson samples that are cut, of which upper bounds are."
    assumes = "As of a TruncatedPoissonGaussian."
    in_studies = False

    @cached_property
    def _parts(self) -> tuple[tuple[float, float, SubsampledGaussian], ...]:
        """Bounds on the probability of each case, and its pair."""
        cut = self._cut
        whole, least, most = SubsampledGaussian(self.scale, self.rate, self.sensitivity), *cut.probability
        if most == 0.0:
            return ((1.0, 1.0, whole),)
        other = SubsampledGaussian(self.scale, cut.rate, 2.0 * self.sensitivity)
        if least == 1.0:
            return ((1.0, 1.0, other),)
        # The upper value of 1 - τ rounds up.
        return ((cut.rest[0], cut.rest[1], whole), (least, most, other))

    def loss_bound(self, direction: Direction) -> float | None:
        """Infinite where a record is removed; where one is added, the masses tell."""
        return math.inf if direction is Direction.A_TO_B else None

    @property
    def without_sampling(self) -> Gaussian:
        """A shift by twice the sensitivity in every round."""
        return Gaussian(self.scale, 2.0 * self.sensitivity)

    def keeps_order(self, edges: FloatArray) -> bool:
        """Whether both cases do."""
        return all(part.keeps_order(edges) for _, _, part in self._parts)

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:
        """Upper bound of ln E_A[e^(tilt L); loss < L < ∞]: those of both cases, with their probabilities."""
        logs = [math.log(most) + part.log_tail_moment(tilt, loss, direction) for _, most, part in self._parts]
        size = max(abs(math.log(most)) for _, most, _ in self._parts)
        return rounded_up(float(np.logaddexp.reduce(logs)) + 1e-14 * (1.0 + size))

    def _masses(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        parts = [
            (least, most, part.masses_beyond(edges, -math.inf, scaled=scaled)) for least, most, part in self._parts
        ]
        bins_a, scale_a = added([(least, most, one.masses.bins_a, one.log_scale_a) for least, most, one in parts])
        bins_b, scale_b = added([(least, most, one.masses.bins_b, one.log_scale_b) for least, most, one in parts])
        masses = LossMasses(bins_a, bins_b, loss_error=max(one.masses.loss_error for _, _, one in parts))
        return ScaledLossMasses(masses, scale_a, scale_b)
