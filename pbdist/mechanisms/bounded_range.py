"""The worst cases of all mechanisms whose losses are bounded: by a range, or along a path."""

import math
from fractions import Fraction
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from pbdist.mechanisms.additive import Laplace
from pbdist.mechanisms.composite import WorstOf
from pbdist.mechanisms.declaration import (
    LOSSES,
    SPREADS,
    between,
    checked_between,
    mechanism,
    parameter,
    positive,
    times_above,
)
from pbdist.mechanisms.finite import ApproximateDP, RandomizedResponse
from pbdist.mechanisms.masses import UNIT_ROUNDOFF, LossMasses, MassBounds
from pbdist.mechanisms.pair import ElementaryPair, NoiseOrder, ordered
from pbdist.types import Direction, FloatArray

#: Beyond the largest η the rarest losses would be next to float64's smallest numbers.
_SMALLEST_ETA, _LARGEST_ETA = 1e-30, 500.0
#: `math.exp` is off by less than this, relatively.
_ERROR_OF_EXP = Fraction(8, 2**53)


def _of_laplace(name: str) -> Any:
    """Return a member of the Laplace noise that stands for `MetricDP`."""
    return property(attrgetter(f"_laplace.{name}"))


@mechanism
class MetricDP(ElementaryPair):
    """The worst of all mechanisms that are ε d-private along paths between neighbouring inputs.

    Let a path x(t), 0 <= t <= 1, lead from one input to a neighbouring one, and let the mechanism be ε abs(s -
    t)-differentially private for x(s) and x(t), as metric differential privacy asks for. Then the pair of Laplace noise
    of scale 1/ε and the sensitivity 1 dominates it, and the Laplace mechanism attains that (Theorem 53 of
    docs/theory.md). `ApproximateDP`, which forgets the path, has a larger δ.

    Permute-and-flip is such a mechanism: on the way from one list of qualities to another one each moves at most by the
    sensitivity. So is every one on numbers that adds noise with a density whose logarithm has a slope of at most ε.

    Examples
    --------
    >>> from pbdist import ApproximateDP, MetricDP, epsilon_bounds
    >>> along, anyhow = (
    ...     epsilon_bounds(pair, compositions=200, delta=1e-6).epsilon_upper.item()
    ...     for pair in (MetricDP(0.5), ApproximateDP(0.5, 0.0))
    ... )
    >>> round(along, 2), round(anyhow, 2)
    (50.11, 55.05)
    """

    aliases = ("metric_privacy", "metricprivacy", "d-privacy", "permuteandflip", "permute-and-flip")
    does = (
        "Any mechanism whose loss between two inputs is at most ε times their distance along a path, such as"
        " permute-and-flip."
    )
    assumes = (
        "A path of length 1 joins any two neighbouring inputs, and ε times the distance on it bounds the losses"
        " between any two of its points. That is taken on trust. The bounds are those of the worst such mechanism,"
        " which is Laplace noise; a particular one may be better."
    )

    symmetric = True
    #: Those of the Laplace noise.
    loss_bound = _of_laplace("loss_bound")
    log_moment_above = _of_laplace("log_moment_above")
    log_tail_moment = _of_laplace("log_tail_moment")
    scaled_loss_masses = _of_laplace("scaled_loss_masses")

    epsilon: float = parameter(positive, "the ε of the whole path", unit="nats", example=[0.01, 0.1])

    @cached_property
    def _laplace(self) -> Laplace:
        """Noise of scale 1 that is moved by ε, which is exact."""
        return Laplace(1.0, self.epsilon)

    @property
    def order(self) -> NoiseOrder | None:
        """By ε, which falls with the noise."""
        return ordered(self, MetricDP, -Fraction(self.epsilon))

    def moved(self, times: int) -> "MetricDP":
        """So many paths, one after the other."""
        return MetricDP(times_above(self.epsilon, times))

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Masses of the Laplace noise."""
        return self._laplace.loss_masses(edges)


@mechanism
class BoundedRange(ElementaryPair):
    """The worst pair of all η-bounded-range mechanisms: whatever is shown for it holds for all of them.

    A mechanism has the range η if, for any two neighbouring inputs, its privacy losses lie in an interval of length η
    (Durfee & Rogers 2019). The exponential mechanism that chooses an answer with a probability in proportion to
    e^(ε q / (2 Δ)), q the answer's quality and Δ the sensitivity of q, has the range ε; where all qualities move in one
    direction, it has the range ε / 2. So has report-noisy-max with Gumbel noise, which is the same mechanism.

    At every ε the pair's δ is the largest that any such mechanism has (Theorem 41 of docs/theory.md), in both
    directions, so that it is their worst case under adaptive composition too. The loss has the density e^(l/2) under A,
    and e^(-l/2) under B, up to a constant, between -η and η.

    No mechanism follows the pair: at different ε different ones are the worst. So there are no lower bounds:
    `privacy_bounds` gives 0, and queries NaN. `exponential_mechanism` has lower bounds, too.

    Examples
    --------
    >>> import warnings
    >>> from pbdist import BoundedRange, privacy_bounds
    >>> with warnings.catch_warnings(action="ignore"):  # no lower bound is known
    ...     delta = privacy_bounds(BoundedRange(1.0), compositions=1, epsilon=0.5).delta_upper.item()
    >>> round(delta, 4)  # (e^(1/2) - e^(1/4))^2 / (e - 1)
    0.0774
    """

    aliases = ("exponentialmechanism", "gumbel")
    does = "Any mechanism whose privacy losses lie in an interval of length η, such as the exponential mechanism."
    assumes = (
        "For any two neighbouring inputs the privacy losses of one use lie in an interval of length η. That is taken"
        " on trust. Upper bounds are those of the worst such mechanism; lower bounds are not known."
    )

    noise_parameters = ("eta",)
    symmetric = True
    #: At each ε another mechanism is the worst, and none is at all.
    attained_by_some = False

    eta: float = parameter(
        between(_SMALLEST_ETA, _LARGEST_ETA),
        "the length η of the interval in which the losses of one use lie",
        unit="nats",
        aliases=(*LOSSES, "range", *SPREADS),
        hint="eta is the length of the interval of the losses of one round",
        example=[0.01, 0.1],
        falls_with_noise=True,
    )

    def of_group(self, times: int) -> "BoundedRange":
        """With so many times the range."""
        return BoundedRange(times_above(self.eta, times))

    @property
    def order(self) -> NoiseOrder | None:
        """By the length of the interval of losses, which falls with the noise."""
        return ordered(self, BoundedRange, -Fraction(self.eta))

    def loss_bound(self, direction: Direction) -> float | None:  # noqa: ARG002
        """η itself."""
        return self.eta

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Masses of the bins. Their edges are losses, so that no event lies in a wrong bin.

        With D = 1 - e^-η a bin (l, m] has the P_A mass e^((m - η)/2) (1 - e^(-(m - l)/2)) / D, and the P_B mass
        e^(-(l + η)/2) times the same. An exponent is off by u of itself, an exponential by 8u, 1 - e^(-(m - l)/2) by 8u
        and by the u of m - l, D by 8u, product and quotient by 2u.
        """
        ends = np.concatenate(([-self.eta], np.clip(edges, -self.eta, self.eta), [self.eta]))
        low, high = ends[:-1], ends[1:]
        share = -np.expm1(-0.5 * (high - low)) / -math.expm1(-self.eta)
        above, below = 0.5 * (high - self.eta), -0.5 * (low + self.eta)
        occupied = low < high
        return LossMasses(
            bins_a=MassBounds.around(np.exp(above) * share, (32.0 - 2.0 * above) * UNIT_ROUNDOFF, occupied=occupied),
            bins_b=MassBounds.around(np.exp(below) * share, (32.0 - 2.0 * below) * UNIT_ROUNDOFF, occupied=occupied),
        )

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:  # noqa: ARG002
        """Upper bound of ln E_A[e^(tilt L); loss < L < ∞] = tη + ln((1 - e^-kw) / (2 k (1 - e^-η))).

        k is t + 1/2 and w the length of what is above `loss`. 1 - e^-kw is off by 12u: its argument by 3u.
        """
        if loss >= self.eta:
            return -math.inf
        width = self.eta - max(loss, -self.eta)
        k = tilt + 0.5
        parts = (
            tilt * self.eta,
            math.log(-math.expm1(-k * width)),
            -math.log(2.0 * k),
            -math.log(-math.expm1(-self.eta)),
        )
        return sum(parts) + 16.0 * UNIT_ROUNDOFF * (4.0 + sum(map(abs, parts)))


def exponential_mechanism(eta: float) -> WorstOf:
    """Return the worst case of all η-bounded-range mechanisms, with lower bounds of one that is among them.

    Parameters
    ----------
    eta : float
        η, the range, from 1e-30 to 500 nats: see `BoundedRange`.

    Returns
    -------
    WorstOf
        `BoundedRange`, which dominates them all and is not attained, and randomized response of the losses η/2 and
        -η/2, which an exponential mechanism with two answers attains. So upper bounds hold for every such mechanism,
        and no smaller δ than the lower bound holds for all of them. Between the two the truth is not known.

    Raises
    ------
    InvalidInputError
        If η is out of its range.

    Examples
    --------
    >>> import warnings
    >>> from pbdist import epsilon_bounds, exponential_mechanism
    >>> with warnings.catch_warnings(action="ignore"):  # the bounds are those of two pairs
    ...     found = epsilon_bounds(exponential_mechanism(0.5), compositions=100, delta=1e-6)
    >>> bool(0.0 < found.epsilon_lower.item() < found.epsilon_upper.item() < 50.0)  # 50 by basic composition
    True
    """
    worst = BoundedRange(eta)
    # Half of a float is exact.
    return WorstOf(worst, ApproximateDP(0.5 * worst.eta, 0.0), attained=(False, True))


def permute_and_flip(epsilon: float) -> WorstOf:
    """Return the worst case of permute-and-flip: privacy along paths, with lower bounds of two candidates.

    Candidates are looked at in a random order, and each one is chosen with probability e^(-ε (q* - q) / (2 Δ)), q its
    quality, q* the best one and Δ the sensitivity of q. It is report-noisy-max with exponential noise of mean 2Δ/ε
    (McKenna & Sheldon 2020; Ding et al. 2021), and ε-differentially private along the path between two lists of
    qualities, so that `MetricDP` bounds it (Theorem 53 of docs/theory.md).

    Parameters
    ----------
    epsilon : float
        ε of one use, from 1e-30 to 500 nats.

    Returns
    -------
    WorstOf
        `MetricDP` of ε, which dominates it and is not attained, and randomized response of p = 1 - e^(-ε/2) / 2,
        rounded down, which two candidates attain whose qualities differ by Δ, either way.

    Raises
    ------
    InvalidInputError
        If ε is out of its range.

    Examples
    --------
    >>> import warnings
    >>> from pbdist import epsilon_bounds, permute_and_flip
    >>> with warnings.catch_warnings(action="ignore"):  # the bounds are those of two pairs
    ...     found = epsilon_bounds(permute_and_flip(0.5), compositions=200, delta=1e-6)
    >>> round(found.epsilon_upper.item(), 2)
    50.11
    """
    loss = checked_between("permute_and_flip", "epsilon", epsilon, low=_SMALLEST_ETA, high=_LARGEST_ETA)
    exact = 1 - Fraction(math.exp(-0.5 * loss)) * (1 + _ERROR_OF_EXP) / 2
    truth = float(exact)
    # A rounded p is attained by noise besides: at least 1/2, and at most the true one.
    truth = max(truth if Fraction(truth) <= exact else math.nextafter(truth, 0.0), 0.5)
    return WorstOf(MetricDP(loss), RandomizedResponse(truth), attained=(False, True))
