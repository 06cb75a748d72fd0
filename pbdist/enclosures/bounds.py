"""Bounds of rounds with enclosed pairs: the counterparts of the functions of `pbdist.pld`."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from pbdist.arguments import Request
from pbdist.enclosures.allocation import dominated_pair, dominated_sum, dominating_pair, dominating_sum
from pbdist.enclosures.gaussian_ratio import GaussianRatio
from pbdist.enclosures.spacings import chosen_plan
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import ElementaryPair, Enclosure, Gaussian, PairCounts, RandomAllocation, Reversed
from pbdist.pld import EpsilonTable, SavedStates, TightBounds, compute_states, epsilon_table, tight_bounds
from pbdist.types import FloatArray, IntArray

#: Cached enclosures.
_CACHED = 4


@dataclass(frozen=True)
class Fineness:
    """The precision of an enclosure."""

    #: Points in a standard deviation, about.
    resolution: float
    #: Mass of one pair that may become infinite above and be left out below.
    lost: float
    #: The smallest δ of one pair that matters.
    matters: float

    @property
    def width(self) -> float:
        """About the relative distance of bounds on ε; that of bounds on δ is -ln δ times as large."""
        return 1.0 / self.resolution**2


def enclosed_counts(counts: PairCounts, fineness: Fineness) -> dict[ElementaryPair, int]:
    """Return the pairs of a round with enclosures in place of enclosed pairs."""
    return _replaced(counts, lambda pair: _standing_for(pair, fineness) if pair.enclosed else pair)


def gaussian_counts(counts: PairCounts, *, above: bool) -> dict[ElementaryPair, int]:
    """Return the pairs of a round with Gaussian noise in place of enclosed pairs (Theorem 48).

    With `above` it dominates them, else they dominate it: wide, but known for every amount of noise.
    """
    return _replaced(counts, lambda pair: around[above] if (around := pair.inner.between_gaussians) else pair)


def _replaced(counts: PairCounts, standing: Callable[[ElementaryPair], ElementaryPair]) -> dict[ElementaryPair, int]:
    result: dict[ElementaryPair, int] = {}
    for pair, count in counts.items():
        new = standing(pair)
        result[new] = result.get(new, 0) + count
    return result


def _standing_for(pair: ElementaryPair, fineness: Fineness) -> ElementaryPair:
    if isinstance(pair, Reversed):
        return Reversed(_standing_for(pair.pair, fineness))
    if isinstance(pair, RandomAllocation):
        return _allocation(pair, fineness)
    raise InvalidInputError(f"mechanism: expected one that can be enclosed, got {shown(pair)}")


@lru_cache(maxsize=_CACHED)
def _allocation(pair: RandomAllocation, fineness: Fineness) -> ElementaryPair:
    if pair.steps == 1:
        return Gaussian(pair.scale, pair.sensitivity)
    plan = chosen_plan(pair.sensitivity / pair.scale, pair.steps, fineness.resolution, fineness.lost, fineness.matters)
    ratio = GaussianRatio(pair.scale, pair.sensitivity)
    return Enclosure(
        dominated=dominated_pair(dominated_sum(ratio, plan)),
        above=dominating_pair(dominating_sum(ratio, plan), plan.unit),
    )


#: Enclosures tried at most; the resolution times √tolerance, and the largest one.
_MAX_ATTEMPTS, _RESOLUTION_FACTOR, _MAX_RESOLUTION = 4, 2.5, 10000.0
#: The largest first resolution: for ε, and for δ, whose size is to be found first.
_FIRST_RESOLUTION, _COARSE_RESOLUTION = 80.0, 25.0
#: A search for ε aims at a tenth of its tolerance; through the first enclosure, at so many times as much.
_SEARCH_FACTOR = 4.0
#: The usual place of ln δ between its bounds: splits add about 4/3 of the variance that cells take away.
USUAL_PART = 0.43
#: Fraction of the tolerance that a finer enclosure aims at, and limits of its refinement.
_TARGET_FRACTION, _MIN_REFINEMENT, _MAX_REFINEMENT = 0.6, 1.3, 24.0
#: Lost mass relative to the tolerance and the smallest δ.
_LOST_FRACTION = 0.03
#: Bounds on a δ above this fraction of the smallest δ that matters are judged.
_JUDGED_FRACTION = 0.5
#: Below this fraction of it bounds need not be close.
_FLOOR_FRACTION = 0.02
#: Smaller masses count as 0.
_MIN_LOST = 1e-130


@dataclass(frozen=True)
class Question:
    """The required precision of bounds through enclosures."""

    #: The required relative width.
    tolerance: float
    #: Below this δ no width is required.
    floor: float
    #: Enclosed pairs in all rounds.
    leaves: int
    #: The first resolution, at most.
    resolution: float = _FIRST_RESOLUTION
    #: A δ: bounds may be wide if they show on which side of it δ lies.
    decision_delta: float | None = None
    #: The first guess of the smallest δ.
    first_delta: float = 1e-10

    def fineness(self, resolution: float, delta: float) -> Fineness:
        """The fineness for a δ of that size."""
        matters = max(max(delta, self.floor) / self.leaves, _MIN_LOST)
        return Fineness(resolution, max(_LOST_FRACTION * self.tolerance * matters, _MIN_LOST), matters)


@dataclass(frozen=True, eq=False)
class Found:
    """Bounds on δ or ε; arrays of one shape."""

    lower: FloatArray
    upper: FloatArray
    #: Their relative distance; 0 where no closer bounds are required, infinite without a lower bound.
    width: FloatArray
    #: δ at each, from below.
    delta: FloatArray


def refined(
    counts: PairCounts, question: Question, solve: Callable[[PairCounts, Fineness, Found | None], Found]
) -> tuple[PairCounts, Found]:
    """Compute bounds with finer and finer enclosures, until they meet the tolerance; return the last ones of both.

    `solve` computes bounds as close as an enclosure of that fineness allows, no worse than the best ones so far.
    """
    first = min(_RESOLUTION_FACTOR / math.sqrt(question.tolerance), question.resolution)
    fineness = question.fineness(first, question.decision_delta or question.first_delta)
    found: Found | None = None
    attempt = 0
    while True:
        enclosures = enclosed_counts(counts, fineness)
        found = solve(enclosures, fineness, found)
        finer = _finer(fineness, found, question)
        attempt += 1
        if finer == fineness or attempt == _MAX_ATTEMPTS:
            return enclosures, found
        fineness = finer


def saved_state_fineness(question: Question) -> Fineness:
    """Return the fineness for saved states, whose bounds are read everywhere."""
    resolution = min(2.0 * _RESOLUTION_FACTOR / math.sqrt(question.tolerance), _MAX_RESOLUTION)
    return question.fineness(resolution, question.floor)


def _finer(fineness: Fineness, found: Found, question: Question) -> Fineness:
    """Return a fineness for closer bounds; the same one if they are close, or no finer one helps."""
    missed = found.width > question.tolerance
    if not missed.any():
        return fineness
    smallest = float(np.min(found.delta[missed]))
    # Bounds on a δ of which much is lost, or that is too small to matter, are apart for that reason.
    judged = missed & np.isfinite(found.width) & (found.delta >= _JUDGED_FRACTION * question.leaves * fineness.matters)
    resolution = fineness.resolution
    deeper = question.fineness(resolution, smallest)
    if smallest == 0.0 and deeper.matters <= _JUDGED_FRACTION * fineness.matters:
        # The size of a δ comes first.
        return deeper
    if judged.any() or deeper.matters >= fineness.matters:
        widest = float(np.max(found.width[judged], initial=0.5 * fineness.width))
        factor = min(max(math.sqrt(widest / (_TARGET_FRACTION * question.tolerance)), _MIN_REFINEMENT), _MAX_REFINEMENT)
        resolution = min(resolution * factor, _MAX_RESOLUTION)
    finer = question.fineness(resolution, smallest)
    same = resolution == fineness.resolution and finer.matters > _JUDGED_FRACTION * fineness.matters
    return fineness if same else finer


#: Relative width of bounds through enclosures beyond which Gaussian bounds are computed too.
_WIDE_BRACKET = 0.05
#: Bounds of a single δ through an enclosure are as close as so many times its width, at most; and the first ones.
_LEAST_SLACK, _FIRST_SLACK = 4.0, 2.0


def delta_bounds(
    counts: PairCounts,
    rounds: IntArray,
    epsilon: FloatArray,
    request: Request,
    *,
    known: tuple[FloatArray, FloatArray] | None,
) -> TightBounds:
    """Bound δ for every r and ε, as `tight_bounds` does.

    The bounds are the best ones of all enclosures, and the width is the smallest one.
    """
    question = _question_of(counts, rounds, request.tolerance, request.floor)
    question = replace(question, resolution=_COARSE_RESOLUTION, decision_delta=request.decision_delta)
    if request.given_width:
        # Without a tolerance the enclosure is as fine as is likely to be sufficient.
        return tight_bounds(
            enclosed_counts(counts, saved_state_fineness(question)), rounds, epsilon, request, known=known
        )
    coarse = replace(request, strict=False)
    single = rounds.size * epsilon.size == 1
    if single:
        # Lower bounds that take little time tell about how small δ is.
        smallest = tight_bounds(gaussian_counts(counts, above=False), rounds, epsilon, replace(coarse, tolerance=0.1))
        question = replace(question, first_delta=float(np.exp(smallest.log_lower.max())))
    widths: list[float] = []

    def solve(enclosures: PairCounts, fineness: Fineness, before: Found | None) -> Found:
        best = known if before is None else (before.lower, before.upper)
        # Work for bounds closer than the enclosure's would be in vain: those of the largest δ are the closest.
        delta = fineness.matters * question.leaves
        missed = [] if before is None else before.delta[before.width > request.tolerance].tolist()
        slack = max(-math.log(max([delta, *missed])), _LEAST_SLACK if single else 1.0)
        slack *= _FIRST_SLACK if single and before is None else 1.0
        tolerance = max(request.tolerance, fineness.width * slack)
        aimed = replace(coarse, tolerance=tolerance, floor=max(request.floor, _FLOOR_FRACTION * delta))
        found = tight_bounds(enclosures, rounds, epsilon, aimed, known=best)
        widths.append(found.width)
        return _looked_at(found, question, joint_directions=request.joint_directions)

    enclosures, best = refined(counts, question, solve)
    if (best.width > _WIDE_BRACKET).any():
        above = tight_bounds(gaussian_counts(counts, above=True), rounds, epsilon, coarse)
        below = tight_bounds(gaussian_counts(counts, above=False), rounds, epsilon, coarse)
        best = replace(
            best, lower=np.maximum(best.lower, below.log_lower), upper=np.minimum(best.upper, above.log_upper)
        )
    if request.decision_delta is not None and not (best.width > request.tolerance).any():
        return TightBounds(best.lower, best.upper, min(widths))
    # Points that meet the tolerance are not computed again; the others are refused, or shown to be unimprovable.
    found = tight_bounds(enclosures, rounds, epsilon, request, known=(best.lower, best.upper))
    return replace(found, width=min(widths))


def _question_of(counts: PairCounts, rounds: IntArray, tolerance: float, floor: float) -> Question:
    leaves = int(np.max(rounds)) * sum(count for pair, count in counts.items() if pair.enclosed)
    return Question(tolerance, floor, leaves)


def _looked_at(found: TightBounds, question: Question, *, joint_directions: bool) -> Found:
    """Measure the distance of bounds where they are required to be close."""
    lower, upper = found.log_lower, found.log_upper
    if joint_directions:
        lower = np.broadcast_to(np.max(lower, axis=0), lower.shape)
    log_floor = math.log(question.floor) if question.floor > 0.0 else -math.inf
    met = (upper <= lower) | (upper <= log_floor)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where(met, 0.0, np.expm1(np.minimum(upper - lower, 700.0)))
        gap = np.where(np.isnan(gap), np.inf, gap)
        if question.decision_delta is not None:
            weight = _decided(lower, upper, question)
            gap = np.where(weight > 0.0, gap * weight, 0.0)
    return Found(found.log_lower, found.log_upper, np.asarray(gap), np.exp(lower))


def _decided(lower: FloatArray, upper: FloatArray, question: Question) -> FloatArray:
    """Weigh distances: 0 if bounds show on which side of a δ the larger direction lies, else by what is missing."""
    goal = math.log(question.decision_delta or 1.0)
    low, high = np.max(lower, axis=0), np.max(upper, axis=0)
    with np.errstate(invalid="ignore"):
        above = low + USUAL_PART * (high - low) - goal
        needed = np.maximum(np.maximum(above / USUAL_PART, -above / (1.0 - USUAL_PART)), question.tolerance)
    weight = np.where((high <= goal) | (low > goal), 0.0, question.tolerance / needed)
    return np.asarray(np.broadcast_to(weight, lower.shape))


def enclosed_epsilon_table(
    counts: PairCounts, rounds: IntArray, delta: FloatArray, *, tolerance: float, joint_directions: bool
) -> EpsilonTable:
    """Bound ε for every r and δ, as `epsilon_table` does."""
    table = partial(epsilon_table, tolerance=tolerance, joint_directions=joint_directions)
    if not delta.all():
        # Gaussian losses, and those around enclosed pairs are such, have no bound: no ε meets a δ of 0.
        below = table(gaussian_counts(counts, above=False), rounds, delta)
        lower, upper, positive = below.lower, np.full_like(below.upper, np.inf), delta > 0.0
        if positive.any():
            known = enclosed_epsilon_table(
                counts, rounds, delta[positive], tolerance=tolerance, joint_directions=joint_directions
            )
            lower[..., positive], upper[..., positive] = known.lower, known.upper
        return EpsilonTable(rounds, delta, lower, upper)
    question = _question_of(counts, rounds, tolerance, float(np.min(delta)))

    def solve(enclosures: PairCounts, fineness: Fineness, before: Found | None) -> Found:
        sought = max(tolerance, fineness.width) * (_SEARCH_FACTOR if before is None else 1.0)
        found = epsilon_table(enclosures, rounds, delta, tolerance=sought, joint_directions=joint_directions)
        lower, upper = found.lower, found.upper
        if before is not None:
            lower, upper = np.maximum(lower, before.lower), np.minimum(upper, before.upper)
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.where(upper > lower, upper / lower - 1.0, 0.0)
        apart = np.where(np.isnan(apart), np.inf, apart)
        return Found(lower, upper, apart, delta + np.zeros(lower.shape))

    _, best = refined(counts, question, solve)
    if (best.width > _WIDE_BRACKET).any():
        above, below = (table(gaussian_counts(counts, above=side), rounds, delta) for side in (True, False))
        return EpsilonTable(rounds, delta, np.maximum(best.lower, below.lower), np.minimum(best.upper, above.upper))
    return EpsilonTable(rounds, delta, best.lower, best.upper)


def compute_enclosed_states(
    counts: PairCounts, rounds: IntArray, epsilon: FloatArray, *, tolerance: float, floor: float
) -> SavedStates:
    """Return the states of `compute_states`, through enclosures as fine as is likely to be sufficient."""
    enclosed = enclosed_counts(counts, saved_state_fineness(_question_of(counts, rounds, tolerance, floor)))
    return compute_states(enclosed, rounds, epsilon, tolerance=tolerance, floor=floor)
