"""Tell whether a mechanism meets a goal (r, ε, δ), by certified bounds that are as coarse as the verdict allows."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import special

from pbdist.arguments import check_either, checked_compositions, checked_delta, checked_epsilon
from pbdist.errors import InvalidInputError, PrecisionError, shown
from pbdist.mechanisms import Pair
from pbdist.results import NOTHING_KNOWN, Bracket, Verdict
from pbdist.rounding import rounded_down, rounded_up
from pbdist.table import bounds_table
from pbdist.types import Adjacency

#: Relative width of the coarsest bounds; coarser ones take no less time.
_COARSEST = 0.02
#: Relative width of the narrowest bounds.
_FINEST = 1e-7
#: By what factor the next bounds are to be narrower.
_NARROWER = 8.0
#: The search for narrower bounds ends where the next ones are wider than this part of those before.
_NO_GAIN = 0.8


#: Bounds of a pair with about the relative width given.
Source = Callable[[Pair, float], Bracket]


@dataclass(frozen=True)
class Goal:
    """δ(ε) <= delta after so many compositions; ε in nats."""

    compositions: int
    epsilon: float
    delta: float

    @property
    def gaussian_scale(self) -> float:
        """About the standard deviation that Gaussian noise needs at sensitivity 1: where most searches begin."""
        log_delta = math.log(self.delta)
        low, high = -40.0, 40.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            mu = math.exp(middle)
            first = float(special.log_ndtr(0.5 * mu - self.epsilon / mu))
            second = self.epsilon + float(special.log_ndtr(-0.5 * mu - self.epsilon / mu))
            value = first + float(np.log(-np.expm1(second - first))) if second < first else -math.inf
            low, high = (low, middle) if value > log_delta else (middle, high)
        return math.sqrt(self.compositions) * math.exp(-low)

    def __str__(self) -> str:
        """Return the goal as text."""
        return f"δ <= {self.delta:g} at ε = {self.epsilon:.6g} after {self.compositions} compositions"


def checked_goal(compositions: Any, epsilon: Any, exp_epsilon: Any, delta: Any) -> Goal:
    """Return the goal, its arguments checked; ε of an e^ε is its natural logarithm, rounded to the nearest float."""
    for field, value in (
        ("compositions", compositions),
        ("epsilon", epsilon),
        ("exp_epsilon", exp_epsilon),
        ("delta", delta),
    ):
        if value is not None and np.ndim(value) != 0:
            raise InvalidInputError(f"{field}: expected a single number, got {shown(value)}")
    check_either(epsilon=epsilon, exp_epsilon=exp_epsilon)
    if exp_epsilon is not None:
        number = isinstance(exp_epsilon, Real) and not isinstance(exp_epsilon, bool)
        if not number or not 1.0 <= float(exp_epsilon) < math.inf:
            raise InvalidInputError(f"exp_epsilon: expected a finite number of at least 1, got {shown(exp_epsilon)}")
        epsilon = math.log(float(exp_epsilon))
    if isinstance(epsilon, bool) or isinstance(compositions, bool):
        raise InvalidInputError("epsilon and compositions: expected numbers, got True or False")
    return Goal(
        compositions=int(checked_compositions(compositions)[0]),
        epsilon=float(checked_epsilon(epsilon)[0]),
        delta=float(checked_delta(delta)[0]),
    )


def computed_bracket(pair: Pair, goal: Goal, tolerance: float) -> Bracket:
    """Bound δ of a pair at a goal's r and ε by the tight method; wider than the tolerance where that is missed."""
    table = bounds_table(
        [(pair, 1)],
        compositions=goal.compositions,
        epsilon=goal.epsilon,
        tolerance=tolerance,
        strict=False,
        joint_directions=True,
        decision_delta=goal.delta,
    )
    return Bracket(
        lower=float(table.delta_lower.max()),
        upper=float(table.delta_upper.max()),
        log_lower=float(table.log_delta_lower.max()),
        log_upper=float(table.log_delta_upper.max()),
    )


class Computed:
    """Bounds computed at the goal's r and ε; `evaluations` counts them."""

    def __init__(self, goal: Goal) -> None:
        self.evaluations = 0
        self._goal = goal

    def __call__(self, pair: Pair, tolerance: float) -> Bracket:
        """Bound δ of a pair with about that relative width."""
        self.evaluations += 1
        try:
            return computed_bracket(pair, self._goal, tolerance)
        except (PrecisionError, InvalidInputError):
            # The losses take more bins than there may be: nothing is known, and nothing is claimed.
            return NOTHING_KNOWN


class Judge:
    """Takes bounds from a source, remembers them, and tells which mechanisms meet the goal."""

    def __init__(self, goal: Goal, source: Source) -> None:
        self.goal = goal
        self._source = source
        self._known: dict[Pair, tuple[float, Bracket]] = {}

    def holds(self, bracket: Bracket) -> bool:
        """Whether the goal is proved to be met."""
        return bracket.verdict(self.goal.delta) is Verdict.YES

    def refutes(self, bracket: Bracket) -> bool:
        """Whether the goal is proved to be missed."""
        return bracket.verdict(self.goal.delta) is Verdict.NO

    def settles(self, bracket: Bracket) -> bool:
        """Whether either is proved."""
        return self.holds(bracket) or self.refutes(bracket)

    def bounds(self, pair: Pair, tolerance: float = _COARSEST) -> Bracket:
        """Bound δ with about that relative width, or return known bounds that settle the goal."""
        known_tolerance, known = self._known.get(pair, (math.inf, NOTHING_KNOWN))
        if known_tolerance <= tolerance or self.settles(known):
            return known
        found = known.narrowed(self._source(pair, tolerance))
        self._known[pair] = (tolerance, found)
        return found

    def settled(self, pair: Pair, gap: float = math.inf) -> Bracket:
        """Bound δ narrowly enough to settle the goal, if bounds can; `gap` estimates |ln δ - ln goal|."""
        tolerance = min(max(0.25 * abs(gap), _FINEST), _COARSEST)
        found = self.bounds(pair, tolerance)
        while not self.settles(found) and tolerance > _FINEST:
            width = found.log_upper - found.log_lower
            tolerance = max(min(tolerance, width) / _NARROWER, _FINEST)
            found = self.bounds(pair, tolerance)
            if not found.log_upper - found.log_lower < _NO_GAIN * width:
                break
        return found

    def unsettled(self, pair: Pair, found: Bracket) -> PrecisionError:
        """Return the error of a goal that the bounds on δ cannot tell from δ."""
        return PrecisionError(
            f"delta: expected a target that bounds on δ tell apart from δ, got {self.goal.delta!r} where δ of"
            f" {shown(pair)} is only known to lie between {rounded_down(found.lower)} and {rounded_up(found.upper)}:"
            " allow a larger tolerance of the size"
        )


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
