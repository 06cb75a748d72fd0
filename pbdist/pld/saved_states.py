"""Saved states: one for each number of rounds, precise enough at every ε up to the largest requested one.

Choices cost precision or bytes, never validity: bounds are read from the states as they are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pbdist.mechanisms import PairCounts
from pbdist.pld.choice import chosen_lattices, chosen_spacings
from pbdist.pld.ladder import MAX_LEAVES, climbed
from pbdist.pld.question import Question
from pbdist.pld.state import LARGEST_READ, PairState, coarser_level, lower_deltas, upper_deltas
from pbdist.types import Direction, FloatArray, IntArray

#: Limits on the climbs of a ladder, and on the different pairs of a round.
_MAX_CLIMBS, _MAX_PAIRS = 5, 64
#: The least and the greatest refinement of the spacing; a bracket that falls by less than the third number is given up.
_MIN_REFINEMENT, _MAX_REFINEMENT, _STALLED_FRACTION = 0.75, 0.1, 0.85
#: Fraction of the tolerance aimed at where brackets are checked, as they are wider between.
_TARGET_FRACTION = 0.8
#: Subdivisions of each step between requested ε; and the approximate number of ε that are checked.
_STEP_POINTS, _MAX_POINTS = 4, 400
#: Checked ε up to the end of each direction's δ, up to which part of it, and steps of the search for that end.
_END_POINTS, _END_FRACTION, _END_SEARCHES = 48, 0.98, 5
#: Brackets of the smaller direction that are wider by this factor are given up.
_MAX_WIDTH_RATIO = 10.0
#: Multiples of it, modulo 1, fill an interval evenly.
_GOLDEN = 0.6180339887498949
#: A state of a larger spacing is not coarsened, nats.
_MAX_SPACING = 0.5
#: The smallest tolerance for the far part.
_MIN_TOLERANCE = 1e-9
#: The bracket of a lower bound of 0, and the share of all points below which such brackets are given up.
_INFINITE_BRACKET, _NEGLIGIBLE_SHARE = 1e300, 0.01
#: No leaf with more positions is tried.
_MAX_POSITIONS = 1 << 19
#: The smallest floor of a ladder.
_MIN_FLOOR = 1e-130


@dataclass(frozen=True, eq=False)
class SavedStates:
    """States, and their bounds at the requested ε."""

    #: By the number of rounds, with exact rows of both directions.
    states: dict[int, PairState]
    #: Bounds on δ; first axis A||B, B||A. 0 and 1 where there is no state, or ε is beyond all states. Shape (2, R, E).
    lower: FloatArray
    upper: FloatArray
    #: The smallest spacing that was used, nats.
    spacing: float


def compute_states(
    counts: PairCounts, rounds: IntArray, epsilon: FloatArray, *, tolerance: float, floor: float
) -> SavedStates:
    """Climb until the tolerance is met at every ε up to the largest one, in both directions, or no finer lattice helps.

    There is no state of rounds that no ladder serves: of too many leaves or pairs, or of losses that are hardly known.
    """
    shape = (2, rounds.size, epsilon.size)
    lower, upper = np.zeros(shape), np.ones(shape)
    served = sorted({r for r in rounds.tolist() if r * sum(counts.values()) <= MAX_LEAVES})
    if not served or len(counts) > _MAX_PAIRS:
        return SavedStates({}, lower, upper, math.inf)
    climb = _Climb(counts, served, _checked_epsilon(epsilon), tolerance=tolerance, floor=max(floor, _MIN_FLOOR))
    climb.solve()
    known = epsilon <= LARGEST_READ
    for row, r in enumerate(rounds.tolist()):
        if r in climb.found:
            found = climb.found[r]
            at = np.searchsorted(found.looks, epsilon[known])
            lower[:, row, known], upper[:, row, known] = found.lower[:, at], found.upper[:, at]
    return SavedStates({r: found.state for r, found in climb.found.items()}, lower, upper, climb.spacing)


def _directions_of(state: PairState) -> tuple[tuple[Direction, ...], ...]:
    """The directions, those that share their events together."""
    first, second = (state.exact.get(direction) for direction in Direction)
    return (tuple(Direction),) if first is second else tuple((direction,) for direction in Direction)


def _checked_epsilon(epsilon: FloatArray) -> FloatArray:
    """The ε at which brackets are checked, increasing: 0, the requested ones, and some between."""
    ends = np.unique(np.append(np.minimum(epsilon, LARGEST_READ), 0.0))
    parts = min(_STEP_POINTS, max(_MAX_POINTS // ends.size, 1)) if ends.size > 1 else 1
    number = np.arange((parts - 1) * (ends.size - 1), dtype=np.float64).reshape(ends.size - 1, parts - 1)
    between = ends[:-1, None] + np.diff(ends)[:, None] * _irregular(number)
    return np.unique(np.concatenate((ends, between.ravel())))


def _irregular(number: FloatArray) -> FloatArray:
    """Spread points over (0, 1), in no step with any lattice."""
    return np.asarray((number + 1.0) * _GOLDEN % 1.0)


@dataclass(frozen=True, eq=False)
class _Found:
    """A state and how bad its brackets are, where it is looked at, and the best bounds there."""

    state: PairState
    score: float
    looks: FloatArray
    lower: FloatArray
    upper: FloatArray


class _Climb:
    """The best states so far, and the bounds read from them."""

    def __init__(
        self, counts: PairCounts, rounds: Sequence[int], epsilon: FloatArray, *, tolerance: float, floor: float
    ) -> None:
        self._counts, self._rounds, self._epsilon = counts, rounds, epsilon
        self._aim, self._floor = _TARGET_FRACTION * tolerance, floor
        self._symmetric = all(pair.symmetric for pair in counts)
        self.found: dict[int, _Found] = {}
        self.spacing = math.inf

    def solve(self) -> None:
        """Climb, finer each time, for what is not close enough yet."""
        question = Question(
            self._counts, np.array(self._rounds), self._epsilon, self._aim, self._floor, joint_directions=True
        )
        directions = question.directions
        wanted, scale = list(self._rounds), 1.0
        before: dict[int, FloatArray] = {}
        for climb in range(_MAX_CLIMBS):
            chosen = chosen_lattices(
                question.profiles,
                max(wanted),
                question.largest,
                scale * chosen_spacings(question, np.array(wanted)),
                tolerance=max(self._aim * scale**2, _MIN_TOLERANCE),
                floor=self._floor,
            )
            if chosen is None or (climb and max(lattice.edges.size for lattice in chosen.lattices) > _MAX_POSITIONS):
                break
            self.spacing = min(self.spacing, chosen.lattices[0].spacing)
            missed: dict[int, float] = {}
            for r, state in climbed(self._counts, chosen, wanted, directions):
                brackets = self._take(r, state, each=climb == 0)
                # A bracket that did not improve is given up.
                hopeful = brackets[(brackets > self._aim) & (brackets < _STALLED_FRACTION * before.get(r, math.inf))]
                if np.count_nonzero(brackets >= _INFINITE_BRACKET) <= _NEGLIGIBLE_SHARE * brackets.size:
                    # Next to the largest loss there is.
                    hopeful = hopeful[hopeful < _INFINITE_BRACKET]
                if hopeful.size and question.lattice == 0.0:
                    missed[r] = float(np.max(hopeful))
                before[r] = brackets
            if not missed:
                break
            wanted = sorted(missed)
            scale *= min(
                max(math.sqrt(_TARGET_FRACTION * self._aim / max(missed.values())), _MAX_REFINEMENT), _MIN_REFINEMENT
            )

    def _take(self, r: int, state: PairState, *, each: bool) -> FloatArray:
        """Keep a state, as coarse as possible, if it is better than the one before; return the brackets that count."""
        state = self._shared(state)
        old = self.found.get(r)
        looks = self._checked_up_to_the_end(state) if old is None else old.looks
        lower, upper = _read(state, looks)
        brackets = self._brackets(lower, upper)
        counted = self._counted(lower, upper, each=each)
        # A bracket that is hopeless in both of two states does not decide.
        score = float(np.sum(np.minimum(brackets, _MAX_WIDTH_RATIO * self._aim)))
        if old is not None:
            better = score < old.score
            # Both are certified.
            lower, upper = np.maximum(lower, old.lower), np.minimum(upper, old.upper)
            state, score = (state, score) if better else (old.state, old.score)
        if old is None or state is not old.state:
            state = self._coarse(state, looks, brackets)
        self.found[r] = _Found(state, score, looks, lower, upper)
        return counted

    def _coarse(self, state: PairState, looks: FloatArray, brackets: FloatArray) -> PairState:
        """Make a state as coarse as still meets what is aimed at, where it is met."""
        # A bracket that says nothing cannot become worse.
        enough = np.where(brackets > 1.0, np.inf, np.maximum(self._aim, brackets * 1.01))
        # ε of a δ is to be known as well.
        relevant = looks[np.max(_read(state, looks)[1], axis=0) > self._floor]
        widest = min(0.5 * self._aim * float(relevant[-1]) if relevant.size else 0.0, _MAX_SPACING)
        while state.dominating.core.size > 1 and state.dominating.core.spacing <= widest:
            coarse = self._shared(coarser_level(state))
            if np.any(self._brackets(*_read(coarse, looks)) > enough):
                break
            state = coarse
        return state

    def _shared(self, state: PairState) -> PairState:
        """Have both directions share their events if the pairs are symmetric."""
        if not self._symmetric:
            return state
        return replace(state, exact=dict.fromkeys(Direction, state.exact[Direction.A_TO_B]))

    def _checked_up_to_the_end(self, state: PairState) -> FloatArray:
        """Add to the ε some up to where δ of each direction ends."""
        looks = [self._epsilon]
        steps = _END_FRACTION * _irregular(np.arange(float(_END_POINTS)))
        for direction in Direction:
            low, high = 0.0, float(self._epsilon[-1])
            for _ in range(_END_SEARCHES):
                points = np.linspace(low, high, 17)
                there = np.flatnonzero(upper_deltas(state, points, direction) > self._floor)
                last = int(there[-1]) if there.size else 0
                low, high = float(points[last]), float(points[min(last + 1, 16)])
            looks.append(high * steps)
        return np.unique(np.concatenate(looks))

    def _counted(self, lower: FloatArray, upper: FloatArray, *, each: bool) -> FloatArray:
        """Return the brackets of the larger direction and, with `each`, those of both that a finer lattice may mend.

        There are none of these where one is far too wide: finer lattices without end would only move the ε where it
        begins.
        """
        joint_directions = self._brackets(np.max(lower, axis=0), np.max(upper, axis=0))
        apart = self._brackets(lower, upper).ravel()
        mended = each and float(np.max(apart)) <= _MAX_WIDTH_RATIO * self._aim
        return np.concatenate((joint_directions, apart if mended else np.zeros(apart.size)))

    def _brackets(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            result = np.where((upper > self._floor) & (upper > lower), upper / lower - 1.0, 0.0)
        return np.asarray(np.minimum(result, _INFINITE_BRACKET))


def _read(state: PairState, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds of both directions, each of shape (2, E)."""
    lower, upper = [], []
    for group in _directions_of(state):
        lower += len(group) * [lower_deltas(state, epsilon, group[0])]
        upper += len(group) * [upper_deltas(state, epsilon, group[0])]
    return np.stack(lower), np.stack(upper)
