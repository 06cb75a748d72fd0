"""Lower and upper bounds together: how wide they are, and what they say of a target."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from pbdist.notebook import html_of_bounds
from pbdist.types import Adjacency, BoolArray, FloatArray, IntArray, TextArray

#: Why an answer is wide though no tolerance was missed (`DeltaBounds.why_wide`): nothing closer is to be had.
NO_LOWER = "no lower bound is known"
ENCLOSED = "the worst case lies between two pairs"
#: From this many nats between two logarithms on, upper / lower counts as infinite.
_ENDLESS = 700.0


class Verdict(Enum):
    """What the bounds say about δ <= target."""

    YES = "yes"
    NO = "no"
    UNDECIDED = "undecided"
    MISSING = "not computed"


def verdict_of(lower: float, upper: float, target: float) -> Verdict:
    """Return YES if the upper bound is at most the target, NO if the lower bound is above it; MISSING for NaN."""
    if math.isnan(lower) or math.isnan(upper):
        return Verdict.MISSING
    if upper <= target:
        return Verdict.YES
    return Verdict.NO if lower > target else Verdict.UNDECIDED


def relative_width(lower: Any, upper: Any) -> FloatArray:
    """Return upper / lower - 1: 0 where they are equal, infinite where the lower one is 0 or the upper one infinite."""
    low, high = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    open_ = high > low
    with np.errstate(over="ignore"):
        ratio = np.divide(high, low, out=np.full(high.shape, np.inf), where=open_ & (low > 0.0)) - 1.0
    return np.where(open_, ratio, 0.0)


def log_relative_width(log_lower: Any, log_upper: Any) -> FloatArray:
    """Return upper / lower - 1 from logarithms, also where the bounds themselves underflow; NaN where one is NaN.

    Infinite where the lower bound is 0 and the upper one is not.
    """
    lower, upper = np.asarray(log_lower, dtype=np.float64), np.asarray(log_upper, dtype=np.float64)
    # Of equal bounds, which may both be of 0, it is 0.
    gap = np.subtract(upper, lower, out=np.zeros(np.broadcast(lower, upper).shape), where=~(upper <= lower))
    return np.where(gap >= _ENDLESS, np.inf, np.expm1(np.minimum(gap, _ENDLESS)))


@dataclass(frozen=True)
class Bracket:
    """Certified bounds on the δ of one point, in one direction or the larger of both, and their natural logarithms."""

    lower: float
    upper: float
    log_lower: float
    log_upper: float

    @property
    def relative_width(self) -> float:
        """The ratio upper / lower - 1, by the logarithms."""
        return float(log_relative_width(self.log_lower, self.log_upper))

    @property
    def log_middle(self) -> float:
        """About ln δ; an estimate, no bound."""
        return self.log_between(0.5)

    def log_between(self, part: float) -> float:
        """Return the logarithm that far, as a part, from the lower bound to the upper one; an estimate, no bound."""
        if self.log_lower == -math.inf:
            return self.log_upper
        return (1.0 - part) * self.log_lower + part * self.log_upper

    @property
    def vacuous(self) -> bool:
        """Whether it holds for every δ."""
        return self.lower == 0.0 and self.upper == 1.0

    def narrowed(self, other: "Bracket") -> "Bracket":
        """Return the larger lower and the smaller upper bound of two brackets of the same δ."""
        return Bracket(
            max(self.lower, other.lower),
            min(self.upper, other.upper),
            max(self.log_lower, other.log_lower),
            min(self.log_upper, other.log_upper),
        )

    def verdict(self, target: float) -> Verdict:
        """Return whether δ <= target is proved, refuted or neither."""
        return verdict_of(self.lower, self.upper, target)


#: What holds for every δ.
NOTHING_KNOWN = Bracket(0.0, 1.0, -math.inf, 0.0)


#: From this ε on nothing is looked for: a lower bound of as much means that no ε meets δ.
LARGEST_EPSILON = 1e9


class _Shown:
    """Bounds that a notebook shows as a table, with the neighbours that they are for."""

    adjacency: Adjacency

    def _repr_html_(self) -> str:
        """Return the bounds as a small table, unrounded, for notebooks."""
        arrays = {name: value for name, value in vars(self).items() if name != "adjacency"}
        neighbours = f", neighbours: {self.adjacency}" if self.adjacency.definite else ""
        return html_of_bounds(type(self).__name__, arrays, neighbours)


@dataclass(frozen=True, eq=False)
class DeltaBounds(_Shown):
    """Certified bounds on δ, and on its natural logarithm; rounded outwards, read-only.

    Attributes
    ----------
    lower, upper, log_lower, log_upper
        Of the shape to which the arguments of the query broadcast; with ``direction="each"`` a leading axis of A||B
        and B||A. The logarithm of 0 is -inf. Lower bounds that are not known, as of a release plan that no change is
        declared to attain, are NaN.
    within_tolerance
        Of the same shape: whether upper / lower - 1 is at most the study's tolerance, or the upper bound at most its
        floor, or the study knows that no closer bounds can be computed. None where the study has no tolerance.
    why_wide
        Of the same shape: why the bounds are not within the tolerance, such as ``between stored points``, which
        ``refine=True`` mends; empty text where they are. Of a mechanism without one exact worst case it also tells why
        bounds are as close as can be and yet apart: ``the worst case lies between two pairs``, or ``no lower bound is
        known``. None where the study has no tolerance.
    adjacency
        For which neighbours they are: `pbdist.mechanisms.Adjacency`. Of a mechanism that says itself that a record is
        added or removed, such as `pbdist.SubsampledGaussian`, A||B is the removal; of a reversed one, the addition.
    """

    lower: FloatArray
    upper: FloatArray
    log_lower: FloatArray
    log_upper: FloatArray
    within_tolerance: BoolArray | None = None
    why_wide: TextArray | None = None
    adjacency: Adjacency = Adjacency.AS_STATED

    @property
    def unknown(self) -> BoolArray:
        """Where no bound was found: 0 and 1 hold for every δ."""
        return np.asarray((self.lower == 0.0) & (self.upper >= 1.0))

    def bracket(self, *index: int) -> Bracket:
        """Return the bounds of one point."""
        values = (self.lower, self.upper, self.log_lower, self.log_upper)
        return Bracket(*(float(each[index]) for each in values))


@dataclass(frozen=True, eq=False)
class CurveBounds(_Shown):
    """Certified bounds on values of a curve or on a divergence; read-only.

    Attributes
    ----------
    lower, upper
        Of the shape to which the arguments of the query broadcast; with ``direction="each"`` a leading axis of A||B
        and B||A.
    within_tolerance
        Of the same shape: whether they are as close as the tolerance asks. None where there is no tolerance.
    adjacency
        For which neighbours they are, as in `DeltaBounds`.
    """

    lower: FloatArray
    upper: FloatArray
    within_tolerance: BoolArray | None = None
    adjacency: Adjacency = Adjacency.AS_STATED


@dataclass(frozen=True, eq=False)
class EpsilonBounds(_Shown):
    """Certified bounds on ε(δ), the smallest ε with which δ is met; nats, read-only.

    Attributes
    ----------
    lower
        Just below it the lower bound on δ exceeds the δ given, or it is 0.
    upper
        There the upper bound on δ is at most the δ given; infinite where no upper bound in the store is.
    within_tolerance
        Whether upper / lower - 1 is at most the study's tolerance, or no closer bounds can be computed; None where the
        study has none.
    why_wide
        Why it is not, or why bounds are apart all the same, as in `DeltaBounds`.
    adjacency
        For which neighbours they are, as in `DeltaBounds`.
    """

    lower: FloatArray
    upper: FloatArray
    within_tolerance: BoolArray | None = None
    why_wide: TextArray | None = None
    adjacency: Adjacency = Adjacency.AS_STATED

    @property
    def unknown(self) -> BoolArray:
        """Where no ε was found that meets δ, though there may be one."""
        return np.asarray(np.isinf(self.upper) & (self.lower < LARGEST_EPSILON))


@dataclass(frozen=True, eq=False)
class CompositionBounds(_Shown):
    """How many rounds are allowed; read-only.

    Attributes
    ----------
    lower
        So many provably are: the largest stored r whose upper bound is at most δ, or 0.
    upper
        More are provably not: one less than the smallest stored r whose lower bound exceeds δ; infinite where none
        does.
    within_tolerance
        Whether upper / lower - 1 is at most the study's tolerance; None where the study has none.
    why_wide
        Why it is not, as in `DeltaBounds`.
    adjacency
        For which neighbours they are, as in `DeltaBounds`.
    """

    lower: IntArray
    upper: FloatArray
    within_tolerance: BoolArray | None = None
    why_wide: TextArray | None = None
    adjacency: Adjacency = Adjacency.AS_STATED
