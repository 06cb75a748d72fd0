"""What sizing returns: the smallest noise found, and what proves that it does and that less does not."""

from dataclasses import dataclass

from pbdist.errors import PrecisionError
from pbdist.mechanisms import Pair
from pbdist.results import Bracket

__all__ = ["Certificate", "ScannedPoint", "SizedNoise"]


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
        What it takes on average, where that is what is minimised.
    """

    mechanism: Pair
    scale: float
    mean: float | None
    delta_lower: float
    expected_messages: float | None = None


@dataclass(frozen=True)
class Certificate:
    """The scale, the refuted one, their mechanisms and bounds, and what a scan has refuted.

    Where the refuted scale is smaller by more than the tolerance, it is not `within` it.
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
    Both are certified bounds at `compositions` and `epsilon`.

    Attributes
    ----------
    mechanism : Pair
        What to use.
    scale : float
        Its scale: the standard deviation of Gaussian noise, the scale of Laplace noise, the mean of Poisson noise, the
        probability 1 - p of a lie of randomized response; what a callable family was given.
    mean : float or None
        The mean of the noise of a clipped count, in messages, where that is sized too.
    compositions, epsilon, delta
        The goal.
    tolerance : float
    delta_upper, delta_lower : float
        Certified bounds on the δ of `mechanism`, the larger of the two directions.
    refuted_mechanism : Pair
    refuted_scale : float
        ``scale * (1 - tolerance)``, that very float product; less where `within_tolerance` is false.
    refuted_mean : float or None
        ``mean * (1 - tolerance)``.
    refuted_delta_lower : float
        Certified lower bound on the δ of `refuted_mechanism`.
    ordered : bool
        Whether every scale of the family up to `refuted_scale` is refuted, because more noise is proved to be a
        post-processing of less (`pbdist.mechanisms.order`). If not, `scanned` is what is refuted, and nothing is
        claimed of the noise between the scanned points.
    scanned : tuple of ScannedPoint
        Smaller noises that were refuted one by one, each by a lower bound on its own δ or, where the order of the two
        is proved, on that of `refuted_mechanism`.
    expected_messages : float or None
        What the noise costs a round on average, E[N], where the family adds messages.
    evaluations : int
        How often bounds were computed, and not looked up in a store.
    within_tolerance : bool
        Whether the noise smaller by the tolerance is refuted; if not, less of it is, and nothing is known between.

    Raises
    ------
    PrecisionError
        If the certificate does not hold, whatever a search took it for: there is no such object then.
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
        """Whether what is refuted is smaller by more than the tolerance; of counts nothing but that is told."""
        return self.mean is None and self.refuted_mean is None and 0.0 < self.refuted_scale < less[0]
