"""Whether a mechanism meets a target (r, ε, δ): certified bounds on its δ, as coarse as the verdict allows."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from pbdist.arguments import check_either, checked_compositions, checked_delta, checked_epsilon, checked_numbers
from pbdist.errors import InvalidInputError, PrecisionError, shown
from pbdist.mechanisms import Pair
from pbdist.progress import report_part
from pbdist.results import NOTHING_KNOWN, Bracket
from pbdist.rounding import exact, rounded_down, rounded_up
from pbdist.study import Target
from pbdist.table import bounds_table

#: Relative width of the coarsest bounds; coarser ones take no less time.
_COARSEST = 0.02
#: Relative width of the narrowest bounds, which may take long.
_FINEST = 1e-7
#: The factor by which the next bounds should be narrower.
_NARROWER = 8.0
#: The search for narrower bounds ends where the next ones are wider than this part of those before.
_NO_GAIN = 0.8


#: Bounds of a pair with about the relative width given.
Source = Callable[[Pair, float], Bracket]


def gaussian_scale(target: Target) -> float:
    """Return about the standard deviation that Gaussian noise needs at sensitivity 1: where most searches begin."""
    log_delta = math.log(target.delta)
    low, high = -40.0, 40.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        mu = math.exp(middle)
        first = float(special.log_ndtr(0.5 * mu - target.epsilon / mu))
        second = target.epsilon + float(special.log_ndtr(-0.5 * mu - target.epsilon / mu))
        value = first + float(np.log(-np.expm1(second - first))) if second < first else -math.inf
        low, high = (low, middle) if value > log_delta else (middle, high)
    return math.sqrt(target.compositions) * math.exp(-low)


def checked_target(compositions: Any, epsilon: Any, exp_epsilon: Any, delta: Any) -> Target:
    """Return the target, its arguments checked; ε of an e^ε is its natural logarithm, rounded to the nearest float."""
    if np.ndim(delta) == 0 and delta == 0:
        raise InvalidInputError(
            "delta: no noise is sized for δ = 0: pass a small δ, or bound ε of given noise at δ = 0"
        )
    given = {"compositions": compositions, "epsilon": epsilon, "exp_epsilon": exp_epsilon, "delta": delta}
    for name, value in given.items():
        if value is not None and np.ndim(value) != 0:
            raise InvalidInputError(f"{name}: expected a single number, got {shown(value)}")
    check_either(epsilon=epsilon, exp_epsilon=exp_epsilon)
    if exp_epsilon is not None:
        expected = "a finite number of at least 1"
        epsilon = math.log(checked_numbers("exp_epsilon", exp_epsilon, expected, lambda y: 1.0 <= y < math.inf)[0])
    return Target(
        compositions=int(checked_compositions(compositions)[0]),
        epsilon=float(checked_epsilon(epsilon)[0]),
        delta=float(checked_delta(delta)[0]),
    )


def computed_bracket(pair: Pair, target: Target, tolerance: float) -> Bracket:
    """Bound δ of a pair at a target's r and ε by the tight method; wider than the tolerance where that is missed."""
    table = bounds_table(
        [(pair, 1)],
        compositions=target.compositions,
        epsilon=target.epsilon,
        tolerance=tolerance,
        strict=False,
        joint_directions=True,
        decision_delta=target.delta,
    )
    return Bracket(
        lower=float(table.delta_lower.max()),
        upper=float(table.delta_upper.max()),
        log_lower=float(table.log_delta_lower.max()),
        log_upper=float(table.log_delta_upper.max()),
    )


class Computed:
    """Bounds computed at the target's r and ε; `evaluations` counts them."""

    def __init__(self, target: Target) -> None:
        self.evaluations = 0
        self._target = target

    def __call__(self, pair: Pair, tolerance: float) -> Bracket:
        """Bound δ of a pair with about that relative width."""
        self.evaluations += 1
        try:
            return computed_bracket(pair, self._target, tolerance)
        except (PrecisionError, InvalidInputError):
            # The losses take more bins than there may be: nothing is known, and nothing is claimed.
            return NOTHING_KNOWN


class Judge:
    """Takes bounds from a source, remembers them, and decides which mechanisms meet the target.

    It reports each of them, of about `expected`, and takes no bounds of a relative width below `finest`.
    """

    def __init__(self, target: Target, source: Source, expected: int = 1) -> None:
        self.target, self.finest = target, _FINEST
        self._begun, self._expected = 0, expected
        self._source = source
        self._known: dict[Pair, tuple[float, Bracket]] = {}

    def meets(self, bracket: Bracket) -> bool:
        """Whether the target is proved to be met."""
        return bracket.upper <= self.target.delta

    def refutes(self, bracket: Bracket) -> bool:
        """Whether the target is proved to be missed."""
        return bracket.lower > self.target.delta

    def decides(self, bracket: Bracket) -> bool:
        """Whether either is proved."""
        return self.meets(bracket) or self.refutes(bracket)

    def bounds(self, pair: Pair, tolerance: float = _COARSEST) -> Bracket:
        """Bound δ with about that relative width, or return known bounds that decide."""
        known_tolerance, known = self._known.get(pair, (math.inf, NOTHING_KNOWN))
        if known_tolerance <= tolerance or self.decides(known):
            return known
        self.count()
        found = known.narrowed(self._source(pair, tolerance))
        self._known[pair] = (tolerance, found)
        return found

    def count(self) -> None:
        """Report that the computation of another bound begins."""
        self._begun += 1
        if self._begun > self._expected:
            self._expected *= 2
        report_part("bound", self._begun - 1, self._expected)

    def decided(self, pair: Pair, gap: float = math.inf) -> Bracket:
        """Bound δ narrowly enough to decide, if bounds can; `gap` estimates |ln δ - ln target|."""
        tolerance = min(max(0.25 * abs(gap), self.finest), _COARSEST)
        found = self.bounds(pair, tolerance)
        while not self.decides(found) and tolerance > self.finest:
            width = found.log_upper - found.log_lower
            tolerance = max(min(tolerance, width) / _NARROWER, self.finest)
            found = self.bounds(pair, tolerance)
            if not found.log_upper - found.log_lower < _NO_GAIN * width:
                break
        return found

    def certificate(
        self, scale: float, mechanism: Pair, refuted_scale: float, refuted: Pair, **others: Any
    ) -> "Certificate":
        """Return the certificate of a mechanism that is known to meet the target, and of one that is refuted."""
        bounds, below = self.bounds(mechanism), self.bounds(refuted)
        meets = scale, mechanism, bounds.lower, bounds.upper
        return Certificate(*meets, refuted_scale, refuted, below.lower, **others)

    def undecided(self, pair: Pair, found: Bracket) -> PrecisionError:
        """Return the error of a mechanism whose bounds on δ lie on both sides of the target's."""
        return PrecisionError(
            f"delta: bounds on δ do not decide the target {exact(self.target.delta)}: δ of {shown(pair)} is only known"
            f" to lie between {rounded_down(found.lower)} and {rounded_up(found.upper)}: allow a larger tolerance"
        )


@dataclass(frozen=True)
class ScannedPoint:
    """A noise smaller than the answer's that provably misses the target."""

    mechanism: Pair
    scale: float
    #: Of a clipped count, whose mean is sized too.
    mean: float | None
    #: A certified lower bound on its δ, above the target's.
    delta_lower: float
    #: Those that it takes on average, where these are minimised.
    expected_messages: float | None = None


@dataclass(frozen=True)
class Certificate:
    """The answer of a search: the noise that meets the target, the refuted one, and the points refuted by a scan."""

    scale: float
    mechanism: Pair
    delta_lower: float
    delta_upper: float
    refuted_scale: float
    refuted_mechanism: Pair
    refuted_delta_lower: float
    scanned: tuple[ScannedPoint, ...] = field(default=(), repr=False)
    #: Whether the refuted noise is smaller by the tolerance, and not by more.
    within_tolerance: bool = True
    mean: float | None = None
    refuted_mean: float | None = None
