"""Gaussian noise on Poisson samples when a whole group of individuals is removed or added."""

import math
from fractions import Fraction
from functools import cached_property

from pbdist.mechanisms.additive import Gaussian
from pbdist.mechanisms.binomial_runs import rounded_counts
from pbdist.mechanisms.declaration import (
    checked_size,
    gaussian_scale,
    mechanism,
    parameter,
    sampling_rate,
    sensitivity_of,
    times_above,
    whole,
)
from pbdist.mechanisms.gaussian_mixture import GaussianMixture
from pbdist.mechanisms.pair import Pair
from pbdist.mechanisms.subsampled import SubsampledGaussian
from pbdist.mechanisms.worst_of import TwoSided
from pbdist.types import Adjacency

#: Larger groups are refused.
LARGEST_SAMPLED_GROUP = 100_000


@mechanism
class SubsampledGaussianGroup(TwoSided):
    """Gaussian noise after Poisson sampling, when up to `group_size` individuals are removed together, or added.

    Each of them is in the sample with the probability q, independently, and then moves the sum by up to the
    sensitivity. The worst case is A = Σ_j P(Bin(group_size, q) = j) N(j · sensitivity, scale²) against B = N(0,
    scale²), which is attained if all of them contribute the same vector (Theorem 45 of docs/theory.md; Ganesh 2024).
    "A||B" is the direction in which the group is removed, "B||A" the one in which it is added.

    Upper bounds are those of `upper_pair`, lower bounds those of `lower_pair`: mixtures with float weights that are
    stochastically at least, and at most, the binomial ones (Theorem 47). Up to a thousand individuals they differ by
    roundings, and by ends of a probability of 1e-100; of larger groups neighbouring numbers may be taken together.

    Examples
    --------
    >>> from pbdist import SubsampledGaussian, epsilon_bounds, group
    >>> family = group(SubsampledGaussian(scale=2.0, rate=0.01), 4)
    >>> family
    SubsampledGaussianGroup(scale=2.0, rate=0.01, group_size=4, sensitivity=1.0)
    >>> found = epsilon_bounds(family, compositions=1000, delta=1e-5)
    >>> bool(0.0 < found.epsilon_lower.item() <= found.epsilon_upper.item() < 1.002 * found.epsilon_lower.item())
    True
    """

    noise_family = "Gaussian"
    does = (
        "Each individual is in the sample of a round with the sampling rate as its probability, independently of all"
        " others; Gaussian noise is added to what is computed from the sample. What is protected is a group of"
        " individuals together."
    )
    assumes = (
        "Each individual is in the sample with the sampling rate, independently. Neighbouring data sets differ by at"
        " most the given number of individuals, all added or all removed; the contribution of each one is clipped to"
        " the sensitivity."
    )
    checked_together = ("group_size", "sensitivity")
    adjacency = Adjacency.ADD_OR_REMOVE_GROUP

    scale: float = gaussian_scale([1.0, 2.0])
    rate: float = sampling_rate()
    group_size: int = parameter(
        whole(1, LARGEST_SAMPLED_GROUP), "the most records of the group", aliases=("group", "size", "k"), example=4
    )
    sensitivity: float = sensitivity_of("the clipping norm of a record")

    def check(self) -> None:
        """Refuse a sensitivity of which that of the whole group is out of range."""
        checked_size(type(self).__name__, "sensitivity", 2.0 * self.group_size * self.sensitivity)

    @cached_property
    def upper_pair(self) -> Pair:
        """The pair that dominates."""
        return self._side(up=True)

    @cached_property
    def lower_pair(self) -> Pair:
        """A pair that a group attains in all rounds, or a post-processing of one."""
        return self._side(up=False)

    def _side(self, *, up: bool) -> Pair:
        if self.rate == 1.0 and self.group_size > 1:
            return Gaussian(self.scale, _product(self.group_size, self.sensitivity, up=up))
        found = rounded_counts(self.group_size, self.rate, up=up) if self.group_size > 1 else None
        if found is None or found.counts == (0,):
            # One individual is no more than the group.
            return SubsampledGaussian(self.scale, self.rate, self.sensitivity)
        shifts = tuple(_product(count, self.sensitivity, up=up) for count in found.counts)
        return GaussianMixture(self.scale, shifts, found.weights)


def _product(count: int, sensitivity: float, *, up: bool) -> float:
    """Return the least float64 that is at least the product, or the largest one that is at most it."""
    if up:
        return times_above(sensitivity, count)
    product = count * sensitivity
    return product if Fraction(product) <= count * Fraction(sensitivity) else math.nextafter(product, 0.0)
