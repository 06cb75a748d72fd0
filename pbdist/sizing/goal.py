"""Whether a mechanism meets a goal (r, ε, δ), told by certified bounds that are as coarse as do."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from pbdist.arguments import checked_compositions, checked_delta, checked_epsilon
from pbdist.errors import InvalidInputError, PrecisionError, shown
from pbdist.mechanisms import Pair
from pbdist.table import bounds_table

__all__ = ["COARSEST", "NOTHING_KNOWN", "Bracket", "Computed", "Goal", "Judge", "Source", "checked_goal"]

#: Relative width of the bounds asked for where nothing depends on it; coarser ones take no less time.
COARSEST = 0.02
#: Where a target is not told from δ by bounds as narrow as this, it is not told at all.
_FINEST = 1e-7
#: How much narrower the next bounds are asked for.
_NARROWER = 8.0
#: What the next bounds are wider than where a narrower tolerance has brought nothing.
_NO_GAIN = 0.8


@dataclass(frozen=True)
class Bracket:
    """Certified bounds on δ, the larger of the two directions, and their natural logarithms."""

    lower: float
    upper: float
    log_lower: float
    log_upper: float

    @property
    def log_middle(self) -> float:
        """About ln δ: what is searched with, and nothing rests on."""
        return self.log_upper if self.log_lower == -math.inf else 0.5 * (self.log_lower + self.log_upper)

    def narrowed(self, other: "Bracket") -> "Bracket":
        """Return the better of either side."""
        return Bracket(
            max(self.lower, other.lower),
            min(self.upper, other.upper),
            max(self.log_lower, other.log_lower),
            min(self.log_upper, other.log_upper),
        )


#: Bounds of a pair with about the relative width given.
Source = Callable[[Pair, float], Bracket]

#: What is known of every δ.
NOTHING_KNOWN = Bracket(0.0, 1.0, -math.inf, 0.0)


@dataclass(frozen=True)
class Goal:
    """δ(ε) <= delta after so many compositions; ε in nats."""

    compositions: int
    epsilon: float
    delta: float

    def __str__(self) -> str:
        """Return the goal as text."""
        return f"δ <= {self.delta:g} at ε = {self.epsilon:.6g} after {self.compositions} compositions"


def checked_goal(compositions: Any, epsilon: Any, exp_epsilon: Any, delta: Any) -> Goal:
    """Return the goal; ε of an e^ε is its natural logarithm, rounded to the nearest float.

    Raises
    ------
    InvalidInputError
        If a value is out of its range or no scalar, or not exactly one of epsilon and exp_epsilon is given.
    """
    for field, value in (
        ("compositions", compositions),
        ("epsilon", epsilon),
        ("exp_epsilon", exp_epsilon),
        ("delta", delta),
    ):
        if value is not None and np.ndim(value) != 0:
            raise InvalidInputError(f"{field}: expected a single number, got {shown(value)}")
    if (epsilon is None) == (exp_epsilon is None):
        got = "neither" if epsilon is None else "both"
        raise InvalidInputError(f"epsilon: expected exactly one of epsilon and exp_epsilon, got {got}")
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


class Computed:
    """Bounds that are computed by the tight method, at the goal's r and ε.

    Attributes
    ----------
    evaluations : int
        How often.
    """

    def __init__(self, goal: Goal) -> None:
        self.evaluations = 0
        self._goal = goal

    def __call__(self, pair: Pair, tolerance: float) -> Bracket:
        """Bound δ of a pair with about that relative width."""
        self.evaluations += 1
        try:
            table = bounds_table(
                [(pair, 1)],
                compositions=self._goal.compositions,
                epsilon=self._goal.epsilon,
                tolerance=tolerance,
                # Bounds that miss the tolerance are bounds still.
                strict=False,
                together=True,
            )
        except (PrecisionError, InvalidInputError):
            # The losses take more cells than there may be: nothing is known then, and nothing is claimed.
            return NOTHING_KNOWN
        return Bracket(
            lower=float(table.delta_lower.max()),
            upper=float(table.delta_upper.max()),
            log_lower=float(table.log_delta_lower.max()),
            log_upper=float(table.log_delta_upper.max()),
        )


class Judge:
    """Asks a source for bounds, remembers them, and tells which mechanisms meet the goal.

    Attributes
    ----------
    goal : Goal
    """

    def __init__(self, goal: Goal, source: Source) -> None:
        self.goal = goal
        self._source = source
        self._known: dict[Pair, tuple[float, Bracket]] = {}

    def holds(self, bracket: Bracket) -> bool:
        """Whether the goal is proved to be met."""
        return bracket.upper <= self.goal.delta

    def refutes(self, bracket: Bracket) -> bool:
        """Whether the goal is proved to be missed."""
        return bracket.lower > self.goal.delta

    def settles(self, bracket: Bracket) -> bool:
        """Whether either is proved."""
        return self.holds(bracket) or self.refutes(bracket)

    def bounds(self, pair: Pair, tolerance: float = COARSEST) -> Bracket:
        """Bound δ with about that relative width; as well as is known where that settles the goal."""
        known_tolerance, known = self._known.get(pair, (math.inf, NOTHING_KNOWN))
        if known_tolerance <= tolerance or self.settles(known):
            return known
        found = known.narrowed(self._source(pair, tolerance))
        self._known[pair] = (tolerance, found)
        return found

    def settled(self, pair: Pair, gap: float = math.inf) -> Bracket:
        """Bound δ narrowly enough to settle the goal, if that can be had.

        Parameters
        ----------
        pair : Pair
        gap : float, optional
            About how far ln δ is from the goal's.
        """
        tolerance = min(max(0.25 * abs(gap), _FINEST), COARSEST)
        found = self.bounds(pair, tolerance)
        while not self.settles(found) and tolerance > _FINEST:
            width = found.log_upper - found.log_lower
            tolerance = max(min(tolerance, width) / _NARROWER, _FINEST)
            found = self.bounds(pair, tolerance)
            if not found.log_upper - found.log_lower < _NO_GAIN * width:
                break
        return found

    def unsettled(self, pair: Pair, found: Bracket) -> PrecisionError:
        """Return the error of a goal that cannot be told from δ."""
        return PrecisionError(
            f"delta: expected a target that bounds on δ tell apart from δ, got {self.goal.delta!r} where δ of"
            f" {shown(pair)} is only known to lie between {found.lower:.6g} and {found.upper:.6g}: allow a larger"
            " tolerance of the size"
        )
