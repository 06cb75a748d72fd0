"""Which of two mechanisms provably adds at least as much noise as the other: Theorem 11 of docs/theory.md.

The order is that of post-processing. Nothing is claimed where no channel from one mechanism to the other is known: for
truncated noise, noisy counts, the discrete Gaussian and staircase noise.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pbdist.mechanisms.additive import Gaussian, Laplace
from pbdist.mechanisms.bounded_range import BoundedRange
from pbdist.mechanisms.finite import ApproximateDP, RandomizedResponse
from pbdist.mechanisms.fixed_batch import FixedBatchGaussian, FixedBatchUpper
from pbdist.mechanisms.gaussian_mixture import GaussianMixture
from pbdist.mechanisms.integer_noise import DiscreteGaussian, DiscreteLaplace
from pbdist.mechanisms.kary import KaryRandomizedResponse
from pbdist.mechanisms.laplace_sum import LaplaceSum
from pbdist.mechanisms.pair import ElementaryPair, Pair
from pbdist.mechanisms.poisson import Poisson
from pbdist.mechanisms.random_allocation import RandomAllocation
from pbdist.mechanisms.reversed import Reversed
from pbdist.mechanisms.sampled_group import SubsampledGaussianGroup
from pbdist.mechanisms.subsampled import SubsampledGaussian
from pbdist.mechanisms.subsampled_laplace import SubsampledLaplace
from pbdist.mechanisms.worst_of import WorstOf


@dataclass(frozen=True)
class NoiseOrder:
    """Where a mechanism stands among those that post-processing orders.

    Attributes
    ----------
    family : hashable
        Only mechanisms of equal families are compared.
    amounts : tuple of Fraction
        Exact. Of two mechanisms of a family, q is a post-processing of p if every amount of q is at least that of p.
        Mechanisms of equal families have equally many amounts.
    """

    family: Hashable
    amounts: tuple[Fraction, ...]


#: The argument of the constructor that sets the amount of noise, for mechanisms that have one.
NOISE_PARAMETER: Mapping[type[Pair], str] = {
    DiscreteGaussian: "scale",
    DiscreteLaplace: "scale",
    FixedBatchGaussian: "scale",
    Gaussian: "scale",
    GaussianMixture: "scale",
    KaryRandomizedResponse: "p",
    Laplace: "scale",
    Poisson: "mean",
    RandomAllocation: "scale",
    RandomizedResponse: "p",
    SubsampledGaussian: "scale",
    SubsampledGaussianGroup: "scale",
    SubsampledLaplace: "scale",
}


def noise_order(pair: Pair) -> NoiseOrder | None:
    """Return where a mechanism stands, or None where no order is proved.

    A product has the families and the amounts of its factors, in their order; so has the worst of several pairs, whose
    δ is the largest of theirs; the worst of one pair that is attained is that pair.
    """
    if pair.several and pair.alone is None:
        inner = [noise_order(one) for one in pair.alternatives]
        known = [order for order in inner if order is not None]
        if len(known) < len(inner):
            return None
        families = tuple(order.family for order in known)
        return NoiseOrder(
            (WorstOf, tuple(there for _, there in pair.choices), families),
            tuple(x for order in known for x in order.amounts),
        )
    found = [_order_of_factor(factor) for factor in pair.factors]
    orders = [order for order in found if order is not None]
    if len(orders) < len(found):
        return None
    return NoiseOrder(
        family=tuple(order.family for order in orders),
        amounts=tuple(amount for order in orders for amount in order.amounts),
    )


def at_least_as_noisy(more: Pair, less: Pair) -> bool:
    """Whether `more` provably is a post-processing of `less`: δ of `more` is at most that of `less`, for all r and ε.

    In both directions. True of equal pairs; where it is False, nothing is known.
    """
    if more == less:
        return True
    first, second = noise_order(more), noise_order(less)
    if first is None or second is None or first.family != second.family:
        return False
    return all(larger >= smaller for larger, smaller in zip(first.amounts, second.amounts, strict=True))


def _order_of_factor(factor: ElementaryPair) -> NoiseOrder | None:
    if type(factor) is Reversed:
        if type(factor.pair) is Reversed:
            return _order_of_factor(factor.pair.pair)
        order = _order_of_factor(factor.pair)
        if order is None or factor.pair.symmetric:
            return order
        return NoiseOrder(("Reversed", order.family), order.amounts)
    # By the exact type: nothing is known of a subclass.
    amounts = _AMOUNTS.get(type(factor))
    found = None if amounts is None else amounts(factor)
    if found is None:
        return None
    family: Hashable = type(factor).__name__
    if isinstance(factor, KaryRandomizedResponse):
        family = (family, *_side(factor))
    # Mixtures are compared where their shifts are in proportion, with the same weights.
    if isinstance(factor, GaussianMixture):
        largest = Fraction(factor.shifts[-1])
        family = (family, factor.weights, tuple(Fraction(shift) / largest for shift in factor.shifts))
    return NoiseOrder(family, found)


def _of_additive(pair: Gaussian | Laplace) -> tuple[Fraction, ...] | None:
    return None if pair.truncate is not None else (Fraction(pair.scale) / Fraction(pair.sensitivity),)


def _of_sum(pair: LaplaceSum) -> tuple[Fraction, ...]:
    return tuple(Fraction(scale) / Fraction(pair.sensitivity) for scale in pair.scales)


def _of_subsampled(pair: SubsampledGaussian | SubsampledLaplace | FixedBatchUpper) -> tuple[Fraction, ...]:
    return Fraction(pair.scale) / Fraction(pair.sensitivity), 1 / Fraction(pair.rate)


def _of_mixture(pair: GaussianMixture) -> tuple[Fraction, ...]:
    return (Fraction(pair.scale) / Fraction(pair.shifts[-1]),)


def _of_allocation(pair: RandomAllocation) -> tuple[Fraction, ...]:
    # Only equally many steps are compared.
    steps = Fraction(pair.steps)
    return Fraction(pair.scale) / Fraction(pair.sensitivity), steps, -steps


def _of_discrete_laplace(pair: DiscreteLaplace) -> tuple[Fraction, ...]:
    return Fraction(pair.scale), Fraction(1, pair.sensitivity)


def _of_poisson(pair: Poisson) -> tuple[Fraction, ...]:
    return Fraction(pair.mean), Fraction(1, pair.sensitivity)


def _of_response(pair: RandomizedResponse) -> tuple[Fraction, ...]:
    truth = Fraction(pair.p)
    return (min(truth, 1 - truth),)


def _of_answers(pair: KaryRandomizedResponse) -> tuple[Fraction, ...]:
    return (-abs(Fraction(pair.p) - Fraction(1, pair.k)),)


def _side(pair: KaryRandomizedResponse) -> tuple[int, bool]:
    """Return the number of answers, and whether the truth is the rarest one: only such are compared with each other."""
    return pair.k, Fraction(pair.p) * pair.k < 1


def _of_range(pair: BoundedRange) -> tuple[Fraction, ...]:
    return (-Fraction(pair.eta),)


def _of_approximate(pair: ApproximateDP) -> tuple[Fraction, ...]:
    return -Fraction(pair.epsilon), -Fraction(pair.delta)


_AMOUNTS: Mapping[type[ElementaryPair], Callable[[Any], tuple[Fraction, ...] | None]] = {
    ApproximateDP: _of_approximate,
    BoundedRange: _of_range,
    DiscreteLaplace: _of_discrete_laplace,
    FixedBatchUpper: _of_subsampled,
    Gaussian: _of_additive,
    GaussianMixture: _of_mixture,
    KaryRandomizedResponse: _of_answers,
    Laplace: _of_additive,
    LaplaceSum: _of_sum,
    Poisson: _of_poisson,
    RandomAllocation: _of_allocation,
    RandomizedResponse: _of_response,
    SubsampledGaussian: _of_subsampled,
    SubsampledLaplace: _of_subsampled,
}
