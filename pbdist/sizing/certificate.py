"""The smallest noise found, and the bounds that prove that it meets the goal and that less noise does not."""

from dataclasses import dataclass

from pbdist.errors import PrecisionError
from pbdist.mechanisms import Pair
from pbdist.results import Bracket
from pbdist.types import Adjacency


@dataclass(frozen=True)
class ScannedPoint:
    """A noise smaller than the answer's that provably misses the goal.

    Attributes
    ----------
    mechanism : Pair
    scale : float
    mean : float or None
        Of a clipped count, whose mean is sized too.
    delta_lower : float
        Certified lower bound on its δ, above the goal's.
    expected_messages : float or None
        Messages that it takes on average, where these are minimised.
    """

    mechanism: Pair
    scale: float
    mean: float | None
    delta_lower: float
    expected_messages: float | None = None


@dataclass(frozen=True)
class Certificate:
    """The answer of a search: the scale, the refuted one, their mechanisms and bounds, and what a scan has refuted.

    `within`: the refuted scale is smaller by the tolerance, not by more.
    """

    scale: float
    mechanism: Pair
    bracket: Bracket
    refuted_scale: float
    refuted_mechanism: Pair
    refuted_bracket: Bracket
    scanned: tuple[ScannedPoint, ...]
    within: bool = True


@dataclass(frozen=True)
class SizedNoise:
    """The smallest noise of a family that meets a goal, and what proves it.

    The *certificate*: ``delta_upper <= delta`` for `mechanism`, and ``refuted_delta_lower > delta`` for
    `refuted_mechanism`, whose scale (and mean) is smaller by the tolerance; by more where `within_tolerance` is false.
    Both are certified bounds at ``compositions`` and ``epsilon``.

    Attributes
    ----------
    mechanism : Pair
        The mechanism with the smallest noise found.
    scale : float
        Its scale: the standard deviation of Gaussian noise, the scale of Laplace noise, the mean of Poisson noise, the
        probability 1 - p of a lie of randomized response; the argument of a callable family.
    mean : float or None
        The mean of the noise of a clipped count, in messages, where that is sized too.
    compositions, epsilon, delta
        The goal.
    tolerance : float
    delta_upper, delta_lower : float
        Certified bounds on the δ of `mechanism`, the larger of the two directions.
    refuted_mechanism : Pair
    refuted_scale : float
        The float product ``scale * (1 - tolerance)``; less where `within_tolerance` is false.
    refuted_mean : float or None
        ``mean * (1 - tolerance)``.
    refuted_delta_lower : float
        Certified lower bound on the δ of `refuted_mechanism`.
    ordered : bool
        Whether every scale of the family up to `refuted_scale` is refuted, because more noise is proved to be a
        post-processing of less (`pbdist.mechanisms.pair`). If not, the points of `scanned` are refuted, and nothing is
        claimed of the noise between them.
    scanned : tuple of ScannedPoint
        Smaller noises that were refuted one by one, each by a lower bound on its own δ or, where the order of the two
        is proved, on that of `refuted_mechanism`.
    expected_messages : float or None
        What the noise costs a round on average, E[N], where the family adds messages.
    evaluations : int
        How often bounds were computed, and not looked up in a store.
    within_tolerance : bool
        Whether the noise smaller by the tolerance is refuted. If not, a smaller one is, and nothing is known of those
        between.
    adjacency : Adjacency
        For which neighbours it is enough: what the mechanism says itself, or else what was stated.

    Raises
    ------
    PrecisionError
        If the certificate does not hold: no such object can be made, whatever a search found.
    """

    mechanism: Pair
    scale: float
    mean: float | None
    compositions: int
    epsilon: float
    delta: float
    tolerance: float
    delta_upper: float
    delta_lower: float
    refuted_mechanism: Pair
    refuted_scale: float
    refuted_mean: float | None
    refuted_delta_lower: float
    ordered: bool
    scanned: tuple[ScannedPoint, ...]
    expected_messages: float | None
    evaluations: int
    within_tolerance: bool = True
    adjacency: Adjacency = Adjacency.AS_STATED

    def __post_init__(self) -> None:
        part = 1.0 - self.tolerance
        refuted = (self.scale * part, None if self.mean is None else self.mean * part)
        proved = (
            self.delta_lower <= self.delta_upper <= self.delta < self.refuted_delta_lower
            and (self._refutes_just_less(refuted) if self.within_tolerance else self._refutes_less(refuted))
            and all(point.delta_lower > self.delta for point in self.scanned)
        )
        if not proved:
            raise PrecisionError(
                f"delta: expected a size whose bounds prove δ <= {self.delta!r}, and the opposite of one smaller by"
                f" {self.tolerance:g}, got scale {self.scale!r} with δ from {self.delta_lower!r} to"
                f" {self.delta_upper!r} and {self.refuted_scale!r} with δ from {self.refuted_delta_lower!r}: ask for"
                " another tolerance of the size"
            )

    def _refutes_just_less(self, less: tuple[float, float | None]) -> bool:
        return (self.refuted_scale, self.refuted_mean) == less

    def _refutes_less(self, less: tuple[float, float | None]) -> bool:
        """Whether the refuted noise is smaller by more than the tolerance; only for noise without a mean."""
        return self.mean is None and self.refuted_mean is None and 0.0 < self.refuted_scale < less[0]
