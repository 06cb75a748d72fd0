"""Mechanisms that are private with respect to a metric along paths: their worst case is Laplace noise."""

from fractions import Fraction
from functools import cached_property

from pbdist.mechanisms.additive import Laplace
from pbdist.mechanisms.declaration import mechanism, parameter, positive, times_above
from pbdist.mechanisms.masses import LossMasses, ScaledLossMasses
from pbdist.mechanisms.pair import ElementaryPair, NoiseOrder, ordered
from pbdist.types import Direction, FloatArray


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

    def loss_bound(self, direction: Direction) -> float | None:
        """ε."""
        return self._laplace.loss_bound(direction)

    def log_moment_above(self, tilt: float) -> float | None:
        """That of the Laplace noise."""
        return self._laplace.log_moment_above(tilt)

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:
        """That of the Laplace noise."""
        return self._laplace.log_tail_moment(tilt, loss, direction)

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Masses of the Laplace noise."""
        return self._laplace.loss_masses(edges)

    def _scaled_masses(self, edges: FloatArray) -> ScaledLossMasses:
        return self._laplace.scaled_loss_masses(edges)
