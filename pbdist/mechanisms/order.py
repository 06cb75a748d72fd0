"""Which of two mechanisms provably adds at least as much noise as the other.

The order is that of post-processing: where one channel K turns A_p into A_q and B_p into B_q, then K applied to every
round turns the r-fold composition of p into that of q, and the hockey-stick divergence of either direction can only
fall (data processing inequality): δ_q(ε) <= δ_p(ε) for every r and every ε. Nothing is claimed where no such channel is
known: cutting, truncating and rounding to counts forbid the arguments used here, and so does the discrete Gaussian,
whose sums are not discrete Gaussians.

Each channel, for the parameters as the real numbers that their float64 values are:

- *Gaussian*: N(0, σ'²) is N(0, σ²) plus an independent N(0, σ'² - σ²). Dividing the outcome by the sensitivity loses
  nothing, so that σ / sensitivity is what counts.
- *Laplace*: Lap(b') is Lap(b) plus an independent variable that is 0 with probability (b/b')² and Lap(b') otherwise:
  with Lap's characteristic function 1 / (1 + b²t²),
  (1 + b²t²) / (1 + b'²t²) = (b/b')² + (1 - (b/b')²) / (1 + b'²t²). Again divided by the sensitivity.
- *Subsampled Gaussian*: the same addition moves both components of the mixture A, and B itself. A lower rate q' < q:
  with probability 1 - q'/q the outcome is replaced by a fresh draw of B, which leaves B as it is and makes of A the
  mixture of rate q'.
- *Discrete Laplace*: with p = e^(-1/scale) and p' > p, the characteristic function of p' is that of p times a positive
  constant times (1 - 2p cos t + p²) / (1 - 2p' cos t + p'²) = p/p' + (1 - p/p') (1 - p p') / (1 - 2p' cos t + p'²): an
  independent variable is added that is 0 with a probability and discrete Laplace of p' otherwise.
- *Poisson*: an independent Poisson variable is added.
- A lower *sensitivity* s' < s, of discrete Laplace and Poisson noise N: both have log-concave masses, so that the loss
  of (N, N + s) falls along the outcome and the best events for any y >= 0 are half-lines: P(N <= t) - y P(N <= t - s)
  for A against B, P(N >= t - s) - y P(N >= t) for B against A, each of which only falls as s becomes s'. Where every
  hockey-stick divergence, for all y >= 0, is at most the other's, there is a channel (Blackwell 1953).
- *Randomized response*: flipping the answer once more with probability f in [0, 1/2] moves p >= 1/2 to
  p(1-f) + (1-p)f, which is everything from p to 1/2; renaming the answers turns p into 1 - p.
- *(ε, δ)*: with probability 1 - δ'/δ a revealed input is answered by randomized response of odds e^ε instead, which
  makes of δ every δ' <= δ; then ε falls by flipping more often.
- *Products*: factor by factor; a reversed pair by the channel of the pair, which acts on both distributions. Reversed
  twice it is the pair again, and so it is reversed once where the pair is symmetric: of all kinds above that are,
  a bijection of the outcomes exchanges A and B, which is a channel both ways.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pbdist.mechanisms.additive import Gaussian, Laplace
from pbdist.mechanisms.finite import ApproximateDP, RandomizedResponse
from pbdist.mechanisms.integer_noise import DiscreteGaussian, DiscreteLaplace
from pbdist.mechanisms.pair import ElementaryPair, Pair, Reversed
from pbdist.mechanisms.poisson import Poisson
from pbdist.mechanisms.subsampled import SubsampledGaussian

__all__ = ["NOISE_PARAMETER", "NoiseOrder", "at_least_as_noisy", "noise_order"]


@dataclass(frozen=True)
class NoiseOrder:
    """Where a mechanism stands among those that post-processing orders.

    Attributes
    ----------
    family : hashable
        Only mechanisms of equal families are compared.
    amounts : tuple of Fraction
        Exact. Of two mechanisms of a family, q is a post-processing of p if every amount of q is at least that of p.
        Mechanisms of equal families have equally many.
    """

    family: Hashable
    amounts: tuple[Fraction, ...]


#: The argument of the constructor that makes more or less noise, for mechanisms that have one such.
NOISE_PARAMETER: Mapping[type[Pair], str] = {
    DiscreteGaussian: "scale",
    DiscreteLaplace: "scale",
    Gaussian: "scale",
    Laplace: "scale",
    Poisson: "mean",
    RandomizedResponse: "p",
    SubsampledGaussian: "scale",
}


def noise_order(pair: Pair) -> NoiseOrder | None:
    """Return where a mechanism stands, or None where no order is proved.

    The family and the amounts of a product are those of its factors, in their order; a product of one factor stands
    where the factor does.
    """
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

    Both directions at once. Equal pairs are; where it is False, nothing is known.
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
    # By the exact type: what a subclass changes is not known here.
    amounts = _AMOUNTS.get(type(factor))
    found = None if amounts is None else amounts(factor)
    return None if found is None else NoiseOrder(type(factor).__name__, found)


def _of_additive(pair: Gaussian | Laplace) -> tuple[Fraction, ...] | None:
    return None if pair.truncate is not None else (Fraction(pair.scale) / Fraction(pair.sensitivity),)


def _of_subsampled(pair: SubsampledGaussian) -> tuple[Fraction, ...]:
    return Fraction(pair.scale) / Fraction(pair.sensitivity), 1 / Fraction(pair.rate)


def _of_discrete_laplace(pair: DiscreteLaplace) -> tuple[Fraction, ...]:
    return Fraction(pair.scale), Fraction(1, pair.sensitivity)


def _of_poisson(pair: Poisson) -> tuple[Fraction, ...]:
    return Fraction(pair.mean), Fraction(1, pair.sensitivity)


def _of_response(pair: RandomizedResponse) -> tuple[Fraction, ...]:
    truth = Fraction(pair.p)
    return (min(truth, 1 - truth),)


def _of_approximate(pair: ApproximateDP) -> tuple[Fraction, ...]:
    return -Fraction(pair.epsilon), -Fraction(pair.delta)


_AMOUNTS: Mapping[type[ElementaryPair], Callable[[Any], tuple[Fraction, ...] | None]] = {
    ApproximateDP: _of_approximate,
    DiscreteLaplace: _of_discrete_laplace,
    Gaussian: _of_additive,
    Laplace: _of_additive,
    Poisson: _of_poisson,
    RandomizedResponse: _of_response,
    SubsampledGaussian: _of_subsampled,
}
