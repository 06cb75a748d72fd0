"""ε as a function of δ, from both sides: read off transforms, few frequencies, or the state of a ladder.

δ(ε) does not rise with ε. So any ε at which the upper bound on δ is at most δ is an upper bound, and any ε at which the
lower bound on δ exceeds δ a lower one, however they are found (Theorem 16 in ``docs/pld.md``).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.special import erfcx

from pbdist.mechanisms import UNIT_ROUNDOFF, PairCounts
from pbdist.pld.choice import chosen_lattices, chosen_spacings
from pbdist.pld.closed_form import few_outcomes, gaussian_bounds, gaussian_ratio, log_revealed_mass, one_round
from pbdist.pld.cost import ladder_cost
from pbdist.pld.engine import log_above, log_below
from pbdist.pld.fallback import Fallback, pure_bounds
from pbdist.pld.ladder import climbed, serves
from pbdist.pld.many_rounds import point_reader
from pbdist.pld.question import Question, Reader, Shared, largest_of
from pbdist.pld.state import LARGEST_READ, PairState, lower_deltas, upper_deltas
from pbdist.pld.transform_bounds import guessed_epsilons, has_transforms, transform_readers
from pbdist.results import LARGEST_EPSILON
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

#: Fraction of the tolerance aimed at, and a factor on it for many pairs, whose engines are slow.
_AIM_FRACTION, _MANY_PAIRS_FACTOR = 0.1, 6.0
#: Passes at most; the least and the greatest refinement of the spacing; and the fraction of the aim for the next pass.
_MAX_PASSES, _MIN_REFINEMENT, _MAX_REFINEMENT, _TARGET_FRACTION = 4, 0.7, 0.05, 0.5
#: Points of one search between two ε, searches at most, and the fraction of the aim at which searches end.
_SEARCH_POINTS, _MAX_SEARCHES, _FINAL_RESOLUTION = 17, 16, 0.002
#: Searches by secants: relative distance of the first two points, readings at most, nats of ln δ that a guess may be
#: off; distance of the ends from where δ is met, relative to the aim, and the largest one after which one is done.
_BESIDE, _NEAR_READS, _FARTHEST, _NEAR_RESOLUTION, _CLOSE = 1e-3, 9, 10.0, 0.1, 0.25
#: Smallest δ of a ladder; profiles for a δ below the second number leave nothing out.
_MIN_LADDER_DELTA, _TINY_DELTA = 1e-120, 1e-280
#: Limits of the relative brackets of δ that passes aim at.
_MIN_TOLERANCE, _MAX_TOLERANCE = 2e-6, 1e-2
#: Largest ε that a first guess sees; a guess is made again outside these multiples of what it saw, so often at most.
_FIRST_LIMIT, _NEAR_LIMIT, _FAR_LIMIT, _MAX_GUESSES = 4.0, 0.25, 1.5, 4
#: More different pairs than this are composed on a ladder only where nothing else bounds ε; the smallest floor.
_MANY_PAIRS, _MIN_FLOOR = 64, 5e-324
#: Brackets that no other engine improves, relative to the aim, in general and of many pairs; narrower ones than the
#: fallback's, relatively; part of ε by which a guess is astray.
_CLOSE_ENOUGH, _MANY_CLOSE_ENOUGH, _NARROW, _ASTRAY = 9.9, 24.0, 0.01, 0.05
#: Coarsenings of the lattice that are tried while there are too many frequencies; part of the aim for exact bounds.
_COARSENINGS, _EXACT = (1.0, 4.0, 16.0, 64.0), 1e-3
#: Directions whose guesses differ by this factor are bounded one by one.
_DOMINANCE_RATIO = 1.1
#: Distance from the guess up to which δ is read, relative to it: first, and next; and by exact transforms, as a factor.
_READ, _READ_CLOSE, _FAR_READ_RATIO = 0.25, 0.01, 16.0
#: Without an upper bound, a guess that moves by a smaller factor ends the search; least relative move of an end.
_STALLED_RATIO, _MIN_MOVE = 1.0015, 1e-3
#: Relative width of a bracket that later engines improve; with transforms, the longest ladder for that, seconds.
_IMPROVABLE_WIDTH, _MAX_LADDER_SECONDS = 0.25, 5.0
#: Brackets beyond this ratio of ends are not refined; guesses above this part of the largest loss may be next to it;
#: those below this part of the largest one that is seen are not.
_WORTHLESS, _NEARLY_THE_LARGEST, _WELL_BELOW = 2.0, 0.99, 0.9
#: A ladder is not refined if the bracket is more than this part of the one before.
_STALLED_FRACTION = 0.9
#: Nats by which ln δ differs between the guess and the ends of the nearest search.
_LOG_DELTA_FALL = 4.0


@dataclass(frozen=True, eq=False)
class EpsilonTable:
    """Certified bounds on ε after r compositions at δ."""

    #: Shape (R,).
    compositions: IntArray
    #: Shape (D,).
    delta: FloatArray
    #: First axis: A||B, B||A; nats. Shape (2, R, D).
    lower: FloatArray
    upper: FloatArray
    #: None where it is the lower bound. Where some pair is not attained, it is the largest lower bound of all pairs:
    #: how closely ε was computed. Shape (2, R, D), or None.
    computed_lower: FloatArray | None = None


def epsilon_table(
    counts: PairCounts, rounds: IntArray, delta: FloatArray, *, tolerance: float, joint_directions: bool = False
) -> EpsilonTable:
    """Bound ε for every r and δ.

    `counts` are the pairs of one round; δ is at least 0 and below 1; `tolerance` is the ``upper / lower - 1`` aimed at.
    With `joint_directions` both directions have the bounds on the ε with which the larger δ is met.
    """
    shape = (2, rounds.size, delta.size)
    lower, upper = np.zeros(shape), np.full(shape, np.inf)
    symmetric = all(pair.symmetric for pair in counts)
    axes: list[tuple[int, ...]] = [(0,)] if symmetric else ([(0, 1)] if joint_directions else [(0,), (1,)])
    known = Shared()
    for row, r in enumerate(rounds.tolist()):
        for which in axes:
            directions = tuple(tuple(Direction)[axis] for axis in which)
            shared = partial(Shared, lines=known.lines, cuts=known.cuts, tilts={})
            made = [
                _Search(counts, r, value, directions, aim=_AIM_FRACTION * tolerance, shared=shared())
                for value in delta[delta > 0.0].tolist()
            ]
            # One pair alone has a closed form.
            if made and not made[0].single:
                _read_together(made)
            pure = pure_bounds(counts, r, directions, LARGEST_EPSILON) if (delta == 0.0).any() else (0.0, 0.0)
            searches = iter(made)
            found = [next(searches).bounds(tolerance) if value > 0.0 else pure for value in delta.tolist()]
            lower[which, row], upper[which, row] = np.array(found).T
    if symmetric:
        lower[1], upper[1] = lower[0], upper[0]
    return EpsilonTable(rounds, delta, lower, upper)


def _read_together(searches: "Sequence[_Search]") -> None:
    """Look for all δ of one r and the same directions at once, where exact transforms serve."""
    question = searches[0].question(1.0, -1.0)
    if not has_transforms(question):
        return
    found = guessed_epsilons(question, np.array([search.log_delta for search in searches]), LARGEST_EPSILON)
    if found is None:
        return
    for search, guess, slope in zip(searches, *(each.tolist() for each in found), strict=True):
        search.start = guess, slope, None
    left = [search for search in searches if search.start is not None and search.start[0] > 0.0]
    guesses, slopes = (each[found[0] > 0.0] for each in found)
    asked = [search.question(*at) for search, *at in zip(left, guesses.tolist(), slopes.tolist(), strict=True)]
    if not asked:
        return
    closest, floor = min(asked, key=lambda each: each.tolerance), min(each.floor for each in asked)
    together = replace(closest, epsilon=guesses, floor=floor, steepness=float(-slopes.min()))
    readers = transform_readers(together, 1.0)
    if readers is None:
        return
    levels = np.array([search.levels for search in left])
    _, ends = _crossings_near(readers.near, guesses, slopes, levels, left[0].aim)
    for column, search in enumerate(left):
        search.start = float(guesses[column]), float(slopes[column]), readers.of(column)
        search.move(*ends[column].tolist())


def _crossings_near(
    reader: Reader, guess: FloatArray, slope: FloatArray, levels: FloatArray, aim: float
) -> tuple[BoolArray, FloatArray]:
    """Return where secants from a guess end next to where the bounds cross δ, and what ends are known, shape (K, 2).

    `reader` takes points near each guess, shape (K, n); `levels` are ln δ rounded up, for its lower bounds, and down,
    for the upper ones, shape (K, 2).
    """
    # By bound the largest ε that is known to be too small, and the smallest one that is not.
    under, over = np.zeros((guess.size, 2)), np.full((guess.size, 2), np.inf)

    def excess_at(points: FloatArray) -> FloatArray:
        excess = np.stack(reader(points), axis=-1) - levels[:, None]
        at = np.broadcast_to(points[..., None], excess.shape)
        np.maximum(under, np.max(at, axis=1, where=excess > 0.0, initial=0.0), out=under)
        np.minimum(over, np.min(at, axis=1, where=(excess <= 0.0) & (at > 0.0), initial=np.inf), out=over)
        return excess

    points = guess[:, None] * np.array([1.0, 1.0 + _BESIDE])
    excess = excess_at(points)
    near, off = points[:, :1].repeat(2, axis=1), excess[:, 0]
    before = points[:, 1:].repeat(2, axis=1), excess[:, 1]
    found, served = np.zeros(guess.size, bool), np.ones(guess.size, bool)
    apart = np.array([1.0 - _NEAR_RESOLUTION * aim, 1.0 + _NEAR_RESOLUTION * aim])
    with np.errstate(invalid="ignore", divide="ignore"):
        for _ in range(_NEAR_READS):
            served &= (np.abs(off).max(axis=1) < _FARTHEST) & (near[:, 0] > 0.0)
            if not served.any():
                break
            secants = (off - before[1]) / np.where(near == before[0], np.inf, near - before[0])
            slopes = np.where(secants < 0.0, secants, slope[:, None])
            following = near - off / slopes
            astray = ((following <= under) | (following >= over)) & (under > 0.0) & (over < np.inf)
            following = np.where(astray, 0.5 * (under + over), following) * apart
            before, near = (near, off), np.where(served[:, None], following, near)
            # Of the lower bounds at the first of both points, and of the upper bounds at the second.
            off = np.diagonal(excess_at(near), axis1=1, axis2=2)
            crossed = served & (off[:, 0] > 0.0) & (off[:, 1] <= 0.0) & (near[:, 0] > 0.0)
            found |= crossed & (np.abs(off / (slopes * near)).max(axis=1) <= _CLOSE * aim)
            if (found | ~served).all():
                break
    ends = np.stack((under[:, 0], over[:, 1]), axis=1)
    # With ends far apart, a search farther away would end too early.
    ends[ends[:, 1] > _WORTHLESS * ends[:, 0]] = 0.0, np.inf
    return found, ends


def _coarse_reader(question: Question, finer: float) -> Reader | None:
    """Return a reader of frequencies, on a coarser lattice where they would be too many."""
    made = (point_reader(question, finer * coarser) for coarser in _COARSENINGS)
    return next((reader for reader in made if reader is not None), None)


def _transform_reader(question: Question, finer: float) -> Reader | None:
    """Return a reader of exact transforms for the only ε of a question."""
    readers = transform_readers(question, finer)
    return None if readers is None else readers.of(0)


class _Search:
    """The search for one r and δ; of some directions the larger δ is to be met."""

    def __init__(
        self,
        counts: PairCounts,
        rounds: int,
        delta: float,
        directions: tuple[Direction, ...],
        *,
        aim: float,
        shared: Shared,
    ) -> None:
        self._shared = shared
        self._counts, self._rounds, self._delta = counts, rounds, delta
        self._directions, self.aim, self._enough = directions, aim, _CLOSE_ENOUGH * aim
        self._low, self._high = 0.0, math.inf
        self.log_delta = math.log(delta)
        slack = 8.0 * UNIT_ROUNDOFF * (1.0 + abs(self.log_delta))
        #: The logarithm of δ, rounded up and down.
        self.levels = self.log_delta + slack, self.log_delta - slack
        #: A guess by transforms, the slope of ln δ there, and bounds nearby.
        self.start: tuple[float, float, Reader | None] | None = None

    @property
    def bracket(self) -> tuple[float, float]:
        """The largest ε that is known not to meet δ, or 0, and the smallest that is known to meet it."""
        return self._low, self._high

    @property
    def single(self) -> bool:
        """Whether one pair is all that is composed."""
        return self._rounds == 1 and sum(self._counts.values()) == 1

    def move(self, low: float, high: float) -> None:
        """Move both ends to where the bounds are known to cross δ, if they are beyond."""
        self._low, self._high = max(self._low, low), min(self._high, high)

    def bounds(self, tolerance: float) -> tuple[float, float]:
        """Bound the ε with which all directions meet δ: at once, or each by itself where they are far apart."""
        if len(self._directions) == 1:
            return self.alone(tolerance)
        # For many pairs, a second run for each direction alone takes as long again and gains little.
        many = len(self._counts) > _MANY_PAIRS
        if self.settled() or (many and self.within(_IMPROVABLE_WIDTH)):
            return self.bracket
        larger, smaller = sorted(self._alone, key=lambda part: -part.guess[0])
        near = larger.guess[0] <= _DOMINANCE_RATIO * smaller.guess[0]
        if near and not larger.at_the_largest_loss(tolerance):
            self.by_engines()
        if many and not self.within(tolerance):
            lows, highs = zip(*(part.fallen_back() for part in self._alone), strict=True)
            self.move(max(lows), max(highs))
        if self.within(_IMPROVABLE_WIDTH if many else tolerance):
            return self.bracket
        # Each direction alone, as a poor bracket of one hides the other; for many pairs the larger one is done.
        if self.start is not None and 0.0 < self._low < self._high < math.inf:
            larger.start = self._low, self.start[1], None
        found = larger.bracket if many and near else larger.alone(tolerance)
        if smaller.above() > found[0]:
            other = smaller.alone(tolerance)
            found = max(found[0], other[0]), max(found[1], other[1])
        return max(found[0], self._low), min(found[1], self._high)

    def within(self, tolerance: float) -> bool:
        """Whether both are that close, relatively."""
        return self._high - self._low <= tolerance * self._low

    def alone(self, tolerance: float) -> tuple[float, float]:
        """Return the bracket of the only direction, from all engines and the fallback."""
        if not (self.settled() or self.at_the_largest_loss(tolerance)):
            self.by_engines()
            if not self.within(_NARROW):
                self.fallen_back()
        return self._low, self._high

    def at_the_largest_loss(self, tolerance: float) -> bool:
        """Whether ε of the only direction is that close to its largest loss, where engines take long."""
        guess, slope = self.guess
        seen = self.question(guess, slope).exponents(self._directions[0]).largest_mean
        if 0.0 < guess < _WELL_BELOW * self._rounds * seen:
            return False
        known, end = self._fallback, self._fallback.largest_loss
        low = known.epsilon_below(self._delta) if guess > _NEARLY_THE_LARGEST * end else 0.0
        if end - low <= tolerance * end < math.inf:
            looks = end - low > self.aim * end and not known.slow
            self.move(low, min(end, known.epsilon_above(self._delta, low) if looks else end))
        return self.within(tolerance)

    def settled(self) -> bool:
        """Try closed forms, few outcomes, revealed masses and transforms; return whether the search is over."""
        ratio = gaussian_ratio(self._counts)
        if ratio is not None:
            self._by_closed_form(ratio)
            return True
        known = few_outcomes(self._counts, self._rounds, points=30)
        if known is not None:
            outcomes = [known[direction] for direction in self._directions]
            reader = partial(largest_of, [each.log_delta for each in outcomes])
            near = max(each.epsilon_near(self._delta) for each in outcomes)
            self._read_around(reader, near, LARGEST_READ)
            if self._done:
                return True
        if self.single:
            (pair,) = self._counts
            readers = [partial(one_round, pair, each) for each in self._directions]
            self._read_around(partial(largest_of, readers), self.guess, LARGEST_EPSILON, _EXACT)
            if self._done:
                return True
        if has_transforms(self.question(1.0, -1.0)):
            # Such pairs reveal nothing.
            return self._by_transforms()
        if all(profile.only_a == profile.only_b == 0.0 for profile, _ in self._rough.profiles):
            return False
        revealed = [log_revealed_mass(self._counts, np.array([self._rounds]), each)[0] for each in self._directions]
        endless = bool(np.max(revealed) > self.levels[0])
        if endless:
            self._low, self._high = LARGEST_EPSILON, math.inf
        return endless

    def by_engines(self) -> None:
        """Try frequencies next to the guess, a ladder, and frequencies anywhere, until the bracket is close enough."""
        guess, slope = self.guess
        guess = min(max(guess, self._low), self._high)
        many = len(self._counts) > _MANY_PAIRS
        if many:
            self.aim, self._enough = _MANY_PAIRS_FACTOR * self.aim, _MANY_CLOSE_ENOUGH * self.aim
        question = self.question(guess, slope)
        ladder = guess <= LARGEST_READ and self._delta >= _MIN_LADDER_DELTA and serves(question)
        climbs = ladder and not many
        if climbs and guess > 0.0:
            self._from_nothing(partial(self._closer, guess, slope, point_reader, near_only=True))
        # A ladder multiplies all pairs anew for each lattice; next to close transforms it is not worth its time.
        near = self.within(_IMPROVABLE_WIDTH) and has_transforms(question)
        if climbs and not (
            self.within(self._enough) or (near and ladder_cost(question, [0]).seconds > _MAX_LADDER_SECONDS)
        ):
            self._from_nothing(partial(self._by_ladder, guess, slope))
        if not self.within(self._enough) and guess > 0.0:
            self._from_nothing(partial(self._closer, guess, slope, _coarse_reader))
        some = many and len(self._counts) <= 4 * _MANY_PAIRS
        if ladder and some and self._high == math.inf and len(self._directions) == 1:
            self._by_ladder(guess, slope)

    def _from_nothing(self, engine: Callable[[], object]) -> None:
        """Start an engine without the bracket of another, which would end its search too early."""
        known = self.bracket
        self._low, self._high = 0.0, math.inf
        engine()
        self._low, self._high = max(known[0], self._low), min(known[1], self._high)

    def above(self) -> float:
        """Return an ε that meets δ in the only direction, by what holds for every pair and takes little time."""
        known = self._fallback
        if known.largest_loss < math.inf or known.slow:
            return known.largest_loss
        return known.epsilon_above(self._delta, self.guess[0])

    def fallen_back(self) -> tuple[float, float]:
        """Improve the bracket of the only direction by what holds for every pair, and return it."""
        guess = min(max(self.guess[0], self._low), self._high)
        known = self._fallback
        self._low = max(self._low, known.epsilon_below(self._delta))
        self._high = min(self._high, known.epsilon_above(self._delta, guess))
        return self._low, self._high

    @cached_property
    def _fallback(self) -> Fallback:
        return Fallback(self.question(max(self.guess[0], 1e-6), -1.0), self._rounds, self._directions[0])

    @property
    def _done(self) -> bool:
        return self.within(self.aim)

    def question(self, epsilon: float, slope: float) -> Question:
        tolerance = min(max(_TARGET_FRACTION * self.aim * epsilon * -slope, _MIN_TOLERANCE), _MAX_TOLERANCE)
        joint_directions = len(self._directions) > 1
        return Question(
            self._counts,
            np.array([self._rounds]),
            np.array([epsilon]),
            tolerance,
            max(1e-3 * self._delta, _MIN_FLOOR),
            joint_directions,
            self._directions,
            steepness=-slope if epsilon > 0.0 else 0.0,
            shared=self._shared,
        )

    @cached_property
    def _rough(self) -> Question:
        """A question that sees all losses at once."""
        return replace(self.question(_FIRST_LIMIT, -1.0), rough=True)

    @cached_property
    def _alone(self) -> "list[_Search]":
        """The searches for each direction by itself."""
        made = partial(_Search, self._counts, self._rounds, self._delta, aim=self.aim, shared=self._shared)
        return [made((direction,)) for direction in self._directions]

    @cached_property
    def guess(self) -> tuple[float, float]:
        """About the ε that meets δ, and the slope of ln δ there, by rough pictures."""
        if len(self._directions) > 1:
            return max(part.guess for part in self._alone)
        guess, slope = self._rough.rough_epsilon(self._directions[0], self.log_delta)
        for _ in range(_MAX_GUESSES):
            # Losses are seen best where they matter.
            seen = min(guess, LARGEST_EPSILON) if guess > 0.0 else _FIRST_LIMIT
            guess, slope = self._guess_as_seen(seen, slope)
            if guess == 0.0 or _NEAR_LIMIT * seen <= guess <= _FAR_LIMIT * seen:
                break
        return guess, slope

    def _guess_as_seen(self, epsilon: float, slope: float) -> tuple[float, float]:
        """Guess from the pictures for an ε: what they leave out of a tiny δ would be more than that δ."""
        question = replace(self.question(epsilon, slope), whole=self._delta < _TINY_DELTA)
        (direction,) = self._directions
        infinite = sum(
            count * (profile.only_a if direction is Direction.A_TO_B else profile.only_b)
            for profile, count in question.profiles
        )
        left = self._delta + math.expm1(self._rounds * math.log1p(-min(infinite, 1.0 - 1e-16)))
        exponents = question.exponents(direction)
        guess = exponents.deepest(self._rounds, math.log(left) if left > 0.0 else -math.inf)
        guess = min(max(guess, 0.0), LARGEST_EPSILON)
        share = max(left / self._delta, 1e-3)
        points = exponents.saddle_points(self._rounds, np.array([guess]))
        # Next to no tilt δ falls with the deviation.
        tilt, variance = float(points.tilt[0]), float(points.variance[0])
        fall = max(tilt, 0.5 / math.sqrt(variance) if variance > 1e-270 else 1.0, 1e-3)
        if tilt * tilt * variance > 1.0 and 0.0 < guess < self._rounds * exponents.largest_mean and left > 0.0:
            # The δ of a normal loss under the tilt is closer still.
            near, far = erfcx(math.sqrt(0.5 * variance) * np.array([tilt, 1.0 + tilt])).tolist()
            more = float(points.exponent[0]) + math.log(0.5 * (near - far)) - math.log(left)
            guess = min(max(guess + more / fall, 0.5 * guess), LARGEST_EPSILON)
        return guess, -fall * share

    def _by_closed_form(self, ratio: float) -> None:
        def reader(epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
            lower, upper = gaussian_bounds(ratio, np.array([self._rounds]), epsilon)
            return lower[0], upper[0]

        self._read_around(reader, self.guess, LARGEST_EPSILON, _EXACT)

    def _by_transforms(self) -> bool:
        """Read ε off exact transforms; return whether the tolerance is met."""
        if self.start is None:
            _read_together([self])
        if not self._done and self.start is not None:
            guess, slope, first = self.start
            closer = partial(self._closer, guess, slope, _transform_reader, farther=_FAR_READ_RATIO, first=first)
            self._from_nothing(closer)
        return self._done

    def _closer(
        self,
        guess: float,
        slope: float,
        reader_of: Callable[[Question, float], Reader | None],
        *,
        farther: float = 1.0,
        first: Reader | None = None,
        near_only: bool = False,
    ) -> None:
        """Read around better and better guesses, with finer and finer bounds.

        Where a crossing is not found near the guess it is looked for as many times `farther` away. `first` is a reader
        that is known already.
        """
        finer = 1.0
        for _ in range(2 if near_only else 2 * _MAX_PASSES):
            reader, first = first or reader_of(self.question(guess, slope), finer), None
            before = self._low, self._high
            near = reader is not None and self._read_near(reader, guess, slope)
            known = self.bracket
            if reader is None or (near_only and not near):
                return
            # Bounds are best near the guess, and of many rounds nowhere else.
            for apart in () if near else (_READ * guess, _READ_CLOSE * guess, min(-_LOG_DELTA_FALL / slope, guess)):
                if self._low == known[0] or self._high == known[1]:
                    self._read(reader, guess - apart, guess + apart)
            if farther > 1.0 and (self._low == 0.0 or self._high == math.inf):
                self._read(reader, guess / farther, guess * farther)
            if self._done or (near_only and self.within(self._enough)):
                return
            low, high = self._low, self._high
            if not 0.0 < low <= high < math.inf:
                # A guess far off is moved to where the crossing must be.
                still = low <= (1.0 + _MIN_MOVE) * before[0] and high >= (1.0 - _MIN_MOVE) * before[1]
                # On lattices, floats give no upper bound on a tiny δ, whatever the guess.
                hopeless = high == math.inf and self._delta < _TINY_DELTA and farther == 1.0
                if still or hopeless or (low == 0.0) == (high == math.inf):
                    return
                moved = high if low == 0.0 else low
                if low > 0.0 and guess <= _STALLED_RATIO * moved and moved <= _STALLED_RATIO * guess:
                    return
                guess = moved
                continue
            width = high - low
            # Finer bounds do not help where the upper ones are no good.
            if before[1] - before[0] <= 1.1 * width or high > _WORTHLESS * low:
                return
            guess = 0.5 * (low + high)
            finer *= min(max(math.sqrt(_TARGET_FRACTION * self.aim * high / width), _MAX_REFINEMENT), _MIN_REFINEMENT)

    def _by_ladder(self, guess: float, slope: float) -> None:
        """Climb ladders, each finer than the one before."""
        question = self.question(max(guess, 1e-6), slope)
        # Rare losses may move ε far from the guess.
        largest = min(max(4.0 * guess, 1e-3), LARGEST_READ)
        tolerance, spacings = question.tolerance, chosen_spacings(question, question.rounds)
        for _ in range(_MAX_PASSES):
            chosen = chosen_lattices(
                question.profiles, self._rounds, largest, spacings, tolerance=tolerance, floor=question.floor
            )
            if chosen is None:
                return
            state = next((power for _, power in climbed(self._counts, chosen, [self._rounds], self._directions)), None)
            if state is None:
                return
            before = self._low, self._high

            def reader(epsilon: FloatArray, state: PairState = state) -> tuple[FloatArray, FloatArray]:
                lower = np.max([lower_deltas(state, epsilon, direction) for direction in self._directions], axis=0)
                upper = np.max([upper_deltas(state, epsilon, direction) for direction in self._directions], axis=0)
                return log_below(lower), log_above(upper)

            self._read(reader, 0.0, largest)
            low, high = self._low, self._high
            # A bracket that hardly shrinks with a finer ladder is not wide because of its spacing.
            stalled = before[1] < math.inf and high - low > _STALLED_FRACTION * (before[1] - before[0])
            if self.within(self._enough) or (low, high) == before or stalled:
                return
            if high == math.inf:
                if largest == LARGEST_READ:
                    return
                largest = min(8.0 * largest, LARGEST_READ)
                continue
            middle, ratio = 0.5 * (low + high), (high - low) / (self.aim * high)
            if abs(middle - guess) > _ASTRAY * middle:
                guess = middle
                self._closer(guess, slope, point_reader, near_only=True)
                if self.within(self._enough):
                    return
            spacings = spacings * min(max(math.sqrt(_TARGET_FRACTION / ratio), _MAX_REFINEMENT), _MIN_REFINEMENT)
            tolerance = max(tolerance * min(_TARGET_FRACTION / ratio, 1.0), _MIN_TOLERANCE)

    def _read_near(self, reader: Reader, guess: float, slope: float, of_aim: float = 1.0) -> bool:
        """Move both ends next to where the bounds cross δ, by secants from a guess; return whether that served."""

        def near(points: FloatArray) -> tuple[FloatArray, FloatArray]:
            lower, upper = reader(points[0])
            return lower[None], upper[None]

        levels = np.array([self.levels])
        served, ends = _crossings_near(near, np.array([guess]), np.array([slope]), levels, of_aim * self.aim)
        self.move(*ends[0].tolist())
        return bool(served[0])

    def _read_around(self, reader: Reader, near: tuple[float, float], end: float, of_aim: float = 1.0) -> None:
        """Read next to a guess with its slope; if that finds no crossing, read everywhere up to an ε."""
        if not (near[0] > 0.0 and self._read_near(reader, *near, of_aim)):
            self._read(reader, 0.0, end)

    def _read(self, reader: Reader, begin: float, end: float) -> None:
        """Move both ends to where the bounds cross δ between two ε."""
        known: dict[float, tuple[float, float]] = {}

        def bounds(epsilon: FloatArray) -> FloatArray:
            new = [value for value in epsilon.tolist() if value not in known]
            if new:
                found = reader(np.array(new))
                known.update(zip(new, zip(found[0].tolist(), found[1].tolist(), strict=True), strict=True))
            return np.array([known[value] for value in epsilon.tolist()])

        begin, end = max(begin, self._low), min(end, self._high)
        fine = _FINAL_RESOLUTION * self.aim
        inner, _ = _crossing(lambda epsilon: bounds(epsilon)[:, 0] > self.levels[0], begin, end, fine)
        _, outer = _crossing(lambda epsilon: ~(bounds(epsilon)[:, 1] <= self.levels[1]), begin, end, fine)
        self._low, self._high = max(self._low, inner), min(self._high, outer)


def _crossing(holds: Callable[[FloatArray], BoolArray], begin: float, end: float, fine: float) -> tuple[float, float]:
    """Return neighbouring ε of which the first fulfils a condition, or 0, and the second does not, or infinity."""
    ends = holds(np.array([begin, end]))
    if not ends[0]:
        return 0.0, (begin if begin > 0.0 else 0.0)
    if ends[1]:
        return end, math.inf
    inner, outer = begin, end
    for _ in range(_MAX_SEARCHES):
        if outer - inner <= fine * outer:
            break
        # By factors where they are far apart.
        least = max(inner, 1e-6 * outer)
        points = (np.geomspace if outer > 4.0 * least else np.linspace)(least, outer, _SEARCH_POINTS)[:-1]
        points = points[points > inner]
        held = holds(points)
        last = int(np.argmin(np.append(held, False)))
        every = np.concatenate(([inner], points, [outer]))
        inner, outer = float(every[last]), float(every[last + 1])
    return inner, outer
