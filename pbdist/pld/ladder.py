"""Ladders: powers of a state by squaring, on a lattice that grows with the number of compositions, and their bounds.

Choices made here (when a lattice is made coarser, what is on which level, what is infinite) cost precision, never
validity.

As the deviation of the loss grows, so does the spacing that is fine enough: each time that it has doubled, after about
two squarings, the core is made twice as coarse. That costs about as much precision as the leaf's lattice does.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pbdist.errors import InvalidInputError, PrecisionError
from pbdist.fourier import Allowance
from pbdist.mechanisms import PairCounts
from pbdist.pld.choice import MAX_POSITIONS, Chosen, Limits, chosen_lattices, chosen_spacings
from pbdist.pld.lattice import Dominating
from pbdist.pld.leaf import Lattice, leaf_of
from pbdist.pld.loss_profile import LossProfile
from pbdist.pld.question import Question
from pbdist.pld.state import (
    LARGEST_READ,
    PairState,
    Window,
    coarser_level,
    confined,
    lower_deltas,
    product,
    upper_deltas,
    within,
)
from pbdist.progress import report
from pbdist.types import Direction, FloatArray, IntArray

#: Where the core has less than this part of the mass at a loss, it need not be finer than the far part.
_MIN_CORE_SHARE = 1e-7
#: At ends with less than this times the floor beyond, slopes are those of cuts.
_BESIDE_CUT = 16.0
#: Rare outcomes that matter for any δ occur about so often at most.
_RARE_OCCURRENCES = 8.0
#: No mass is nearly as large.
_MAX_MASS = 1e120
#: Leaves of all rounds, at most: what is lost to underflow is bounded for so many.
MAX_LEAVES = 1 << 40
#: The same for losses that are not all multiples of one number: more take long.
_MAX_IRREGULAR = 1 << 32

#: Levels that a table's states have at most, how much coarser each new one is, from how many positions of the one
#: before on one is made, and what is left of these at most.
_LEVELS, _APART, _LONG_LEVEL, _SHORTER = 5, 4, 4096, 0.6

#: How often a ladder is climbed for a table; and how much coarser, squared, the far part is if that is once.
CLIMBS, _ONCE = 6, 2.0
#: Different pairs of a round, and its leaves, at most.
_MAX_PAIRS = 4096
#: Positions of the first climb, at most; of each further one eight times as many.
_FIRST_POSITIONS = 1 << 18
#: The least and the greatest refinement of the spacing.
_MIN_REFINEMENT, _MAX_REFINEMENT = 0.75, 0.1
#: The smallest tolerance for the far part.
_MIN_TOLERANCE = 1e-9
#: A bracket of more than this part of the one before is given up.
_STALLED_FRACTION = 0.85
#: Fraction of the tolerance aimed at after a miss.
_TARGET_FRACTION = 0.7


@dataclass(frozen=True, eq=False)
class LadderBounds:
    """Bounds on δ."""

    #: First axis: A||B, B||A. Lower bounds of a direction that was not computed are 0; shape (2, R, E).
    lower: FloatArray
    upper: FloatArray
    #: The smallest spacing that was used, nats.
    spacing: float


def serves(question: Question) -> bool:
    """Whether a ladder can be climbed for a question."""
    most = MAX_LEAVES if question.lattice > 0.0 else _MAX_IRREGULAR
    leaves = question.top * question.leaves
    return len(question.counts) <= _MAX_PAIRS and leaves <= most and question.largest <= LARGEST_READ


def ladder_bounds(question: Question, rows: Sequence[int], *, climbs: int = CLIMBS) -> LadderBounds | None:
    """Bound δ for the r of some rows and every ε, with at most `climbs` ladders; None where no ladder serves."""
    if not serves(question):
        return None
    rounds, tolerance = question.rounds[list(rows)], question.tolerance
    symmetric, joint_directions = question.symmetric, question.joint_directions
    table = _Table(question.counts, rounds, question.epsilon, symmetric=symmetric)
    spacings = chosen_spacings(question, rounds)
    directions = tuple(Direction) if not (joint_directions or symmetric) else (Direction.A_TO_B,)
    used, scale = math.inf, 1.0
    before: FloatArray | float = math.inf
    chosen_rows = np.arange(rounds.size)
    for climb in range(climbs):
        top = int(np.max(rounds[chosen_rows]))
        chosen = chosen_lattices(
            question.profiles,
            top,
            question.largest,
            spacings,
            # Of the far part as much finer as of the core.
            tolerance=max(tolerance * scale**2 * (_ONCE if climbs == 1 else 1.0), _MIN_TOLERANCE),
            floor=question.floor,
            most=min(_FIRST_POSITIONS << 3 * climb, MAX_POSITIONS),
        )
        # As fine as can be.
        if chosen is None or chosen.lattices[0].spacing >= used:
            break
        used = min(used, chosen.lattices[0].spacing)
        if question.lattice == 0.0:
            chosen = replace(chosen, limits=replace(chosen.limits, levels=_LEVELS))
        if not table.climb(chosen, directions, chosen_rows):
            break
        brackets = table.brackets(question.floor, directions, joint_directions=joint_directions)
        # B||A may be the larger direction somewhere.
        other_matters = joint_directions and not symmetric and len(directions) == 1
        enough = np.maximum(question.floor, (1.0 + 0.9 * tolerance) * table.lower[0])
        if other_matters and np.any(table.upper[1] > enough):
            directions = tuple(Direction)
            before = math.inf
        elif question.lattice > 0.0:
            break
        # A bracket that did not improve is given up.
        hopeful = (brackets > tolerance) & (brackets < _STALLED_FRACTION * before)
        if not hopeful.any():
            break
        factor = min(
            max(math.sqrt(_TARGET_FRACTION * tolerance / float(np.max(brackets[hopeful]))), _MAX_REFINEMENT),
            _MIN_REFINEMENT,
        )
        spacings, scale = spacings * factor, scale * factor
        before = brackets
        question = question.beside(table.log_least(directions, joint_directions=joint_directions))
        # Of both directions each has its own.
        chosen_rows = np.flatnonzero(hopeful.reshape(-1, rounds.size, question.epsilon.size).any(axis=(0, 2)))
    if math.isinf(used):
        return None
    return LadderBounds(table.lower, table.upper, used)


class _Table:
    """The best bounds so far."""

    def __init__(self, counts: PairCounts, rounds: IntArray, epsilon: FloatArray, *, symmetric: bool) -> None:
        self._counts, self._rounds, self._epsilon = counts, rounds, epsilon
        self._symmetric = symmetric
        shape = (2, rounds.size, epsilon.size)
        self.lower, self.upper = np.zeros(shape), np.ones(shape)

    def climb(self, chosen: Chosen, directions: Sequence[Direction], rows: IntArray) -> bool:
        """Compute the powers of some rows, and keep what is better than before; whether there is anything."""
        climbed_any = False
        for r, power in climbed(self._counts, chosen, self._rounds[rows].tolist(), directions):
            climbed_any = True
            for row in np.flatnonzero(self._rounds == r).tolist():
                for axis, direction in enumerate(Direction):
                    if self._symmetric and axis == 1:
                        self.lower[1], self.upper[1] = self.lower[0], self.upper[0]
                        continue
                    upper = upper_deltas(power, self._epsilon, direction)
                    np.minimum(self.upper[axis, row], upper, out=self.upper[axis, row])
                    if direction in directions:
                        lower = lower_deltas(power, self._epsilon, direction)
                        np.maximum(self.lower[axis, row], lower, out=self.lower[axis, row])
        return climbed_any

    def brackets(self, floor: float, directions: Sequence[Direction], *, joint_directions: bool) -> FloatArray:
        """Return upper / lower - 1 at each point, 0 where it is below the floor and 10^300 where nothing is known."""
        lower, upper = self.lower, self.upper
        if joint_directions:
            lower, upper = np.max(lower, axis=0), np.max(upper, axis=0)
        elif len(directions) == 1:
            lower, upper = lower[0], upper[0]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            result = np.where((upper > floor) & (upper > lower), upper / lower - 1.0, 0.0)
        return np.asarray(np.minimum(result, 1e300))

    def log_least(self, directions: Sequence[Direction], *, joint_directions: bool) -> float:
        """Return ln of the least lower bound."""
        known = self.lower.max(axis=0) if joint_directions else self.lower[: len(directions)]
        return float(np.log(known.min())) if known.min() > 0.0 else -math.inf


def climbed(
    counts: PairCounts, chosen: Chosen, rounds: Sequence[int], directions: Sequence[Direction]
) -> Iterator[tuple[int, PairState]]:
    """Yield the state of each number of rounds, in increasing order."""
    top = max(rounds)
    limits = replace(chosen.limits, floor=chosen.limits.floor / top, added=chosen.limits.added / top, coarsens=1 << 62)
    states: list[PairState] = []
    for (pair, count), lattice in zip(counts.items(), chosen.lattices, strict=True):
        leaf = leaf_of(pair, lattice, directions)
        states += [power for _, power in powers(leaf, [count], limits)] if count > 1 else [leaf]
    if len(states) < len(counts):
        return
    yield from powers(product_of(states, limits), rounds, chosen.limits)


def powers(leaf: PairState, rounds: Sequence[int], limits: Limits) -> Iterator[tuple[int, PairState]]:
    """Yield the powers of a leaf, for increasing numbers of rounds, as far as rounding leaves them any meaning."""
    top = max(rounds)
    rungs: list[PairState] = [_confined(leaf, 1, top, limits)]
    before = 0
    for r in sorted(set(rounds)):
        while 1 << len(rungs) <= r:
            rungs.append(_next(rungs[-1], len(rungs), top, limits))
            if not _has_meaning(rungs[-1]):
                return
            report("r =", 1 << (len(rungs) - 1), top)
        state: PairState | None = None
        reached = 0
        for bit in reversed(range(r.bit_length())):
            if r >> bit & 1:
                reached += 1 << bit
                state = rungs[bit] if state is None else _multiplied(state, rungs[bit], reached, top, limits)
                if not _has_meaning(state):
                    return
                report("r =", max(reached, before), top)
        before = r
        if state is not None:
            yield r, state


def _has_meaning(state: PairState) -> bool:
    """Whether upper values are no larger than rounding can have made them: their products would soon be no floats."""
    return state.largest < _MAX_MASS


def product_of(states: Sequence[PairState], limits: Limits) -> PairState:
    """Compose different pairs, on the same lattices."""
    result = states[0]
    for state in states[1:]:
        result = _multiplied(result, state, 1, 1, limits)
    return result


def _next(rung: PairState, doubling: int, top: int, limits: Limits) -> PairState:
    squared = product(rung, rung, _allowance((1 << doubling) / top, limits))
    while (
        len(squared.dominating.rows) > 1 or squared.dominating.core.size >= 2 * limits.coarsens
    ) and 2.0 * squared.dominating.core.spacing <= limits.spacings[min(doubling, len(limits.spacings) - 1)]:
        squared = coarser_level(squared)
    return _confined(squared, 1 << doubling, top, limits)


def _multiplied(state: PairState, rung: PairState, reached: int, top: int, limits: Limits) -> PairState:
    """Multiply a state of more rounds by one of fewer."""
    while rung.dominating.core.spacing < state.dominating.core.spacing:
        rung = coarser_level(rung)
    while state.dominating.core.spacing < rung.dominating.core.spacing:
        state = coarser_level(state)
    return _confined(product(state, rung, _allowance(reached / top, limits)), reached, top, limits)


def _allowance(part: float, limits: Limits) -> Allowance:
    """What rounding may add to a product that is so small a part of all compositions."""
    # What is common occurs 1 / part times in all of them, what is rare a few times.
    return Allowance(limits.floor * part, limits.added * part, limits.added / _RARE_OCCURRENCES)


def _confined(state: PairState, reached: int, top: int, limits: Limits) -> PairState:
    """Cut what does not matter for any question, and move rare losses to coarser levels, of which new ones are made."""
    floor = limits.floor * reached / top
    state = within(state, _depth(state, floor, limits.largest))
    level = 0
    while level < len(rows := state.dominating.rows):
        row, spacing = rows[level], _APART * rows[level].spacing
        new = level + 1 == len(rows)
        if new and not (row.size > _LONG_LEVEL and level + 1 < limits.levels and spacing <= _MAX_SPACING):
            break
        after = Dominating(spacing, 0, np.zeros(1)) if new else rows[level + 1]
        window = _fine(row, after, floor, limits)
        if new and (window is None or window.high - window.low > _SHORTER * row.size * row.spacing):
            break
        if window is None:
            while len(state.dominating.rows) == len(rows):
                state = coarser_level(state, level)
        else:
            state = confined(state, level, window, after.spacing)
            level += 1
    return state


def _depth(state: PairState, floor: float, largest: float) -> Window:
    """Choose a window beyond which A has at most `floor` above, and B below."""
    low, high = -largest, largest
    rows = state.dominating.rows
    ends = []
    for sign in (1.0, -1.0):
        reach = 0.0
        for row in rows:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                masses = row.u * row.growth if sign > 0.0 else row.u / row.growth
                beyond = np.cumsum(masses[:: int(-sign)])
            first = int(np.searchsorted(beyond, floor))
            if first < row.size:
                loss = sign * float(row.losses[:: int(-sign)][first])
                reach = max(reach, loss + row.spacing)
        ends.append(reach)
    return Window(max(low, -ends[1]), min(high, ends[0]))


def _fine(core: Dominating, far: Dominating, floor: float, limits: Limits) -> Window | None:
    """Choose the window of a level: all where ln u is too steep for the next one's spacing, and what is not rare.

    None where all of it may be as coarse as the next one.

    An outcome of that one adds the variance W²/6 each time that it occurs. With the mass p of all of them, against
    the core's deviation s, that is little where p (W/s)² is.
    """
    ratio = round(far.spacing / core.spacing)
    first = core.first // ratio
    positions = np.arange(first, (core.first + core.size - 1) // ratio + 1)
    if positions.size < 3 or not core.u.any():
        return Window(core.spacing * core.first, core.spacing * (core.first + core.size))
    # Whole bins of the far lattice: single positions may miss atoms, or consist of some.
    starts = np.maximum(ratio * positions - core.first, 0)
    u = np.add.reduceat(core.u, starts)
    beside = np.zeros(positions.size)
    low, high = max(far.first, first), min(far.first + far.size, first + positions.size)
    if low < high:
        beside[low - first : high - first] = far.u[low - far.first : high - far.first]
    total = u + beside
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.abs(np.diff(np.log(total)))
    counts = (u >= _MIN_CORE_SHARE * total) & (u > 0.0)
    # What was cut stands at the ends, where no more than that lies beyond.
    half = 0.5 * far.spacing * positions
    with np.errstate(over="ignore"):
        counts &= np.cumsum((total * np.exp(half))[::-1])[::-1] > _BESIDE_CUT * floor
        counts &= np.cumsum(total * np.exp(-half)) > _BESIDE_CUT * floor
    steep = ~(slopes + 0.5 * far.spacing <= limits.step) & (counts[1:] | counts[:-1])
    found = np.flatnonzero(steep)
    losses = core.losses
    total_mass = float(np.sum(core.u))
    mean = float(np.dot(core.u, losses)) / total_mass
    variance = float(np.dot(core.u, (losses - mean) ** 2)) / total_mass
    if found.size == 0 and limits.rare * limits.step * math.sqrt(variance) >= far.spacing:
        return None
    rare = 0.5 * min((limits.rare * limits.step) ** 2 * variance / far.spacing**2, 1.0) * total_mass
    usual_low = int(np.searchsorted(np.cumsum(core.u), rare))
    usual_high = core.size - 1 - int(np.searchsorted(np.cumsum(core.u[::-1]), rare))
    start = core.spacing * (core.first + min(usual_low, core.size - 1))
    stop = core.spacing * (core.first + max(usual_high, 0))
    if found.size:
        start = min(start, far.spacing * (first + int(found[0])))
        stop = max(stop, far.spacing * (first + int(found[-1]) + 2))
    return Window(far.spacing * math.floor(start / far.spacing), far.spacing * math.ceil(stop / far.spacing))


#: Positions of a leaf, and of a product, at most.
_MAX_LEAF_SIZE, _MAX_SIZE = 1 << 25, 1 << 25
#: By how much rounding may add to all masses, relative to them.
_RELATIVE_ROUNDING = 1e-9
#: Losses so many nats above the largest ε become infinite.
_MARGIN = 40.0
#: Lattices of fewer positions are not made coarser; about how much larger the others become.
_MIN_COARSENED, _GROWTH = 512, 4.0
#: Widest spacing, and the farthest loss whose exponential is a float, nats.
_MAX_SPACING, _MAX_LOSS = 50.0, 690.0
#: Squares of products of masses below 2 to this do not overflow.
_MAX_LOG2_PRODUCT = 900.0
#: Losses of next to nothing, nats.
_MIN_LOSS = 1e-6


def given_width_bounds(
    question: Question, *, width: float | None, positions: int | None
) -> tuple[FloatArray, FloatArray, float]:
    """Bound δ from below and above, shape (2, R, E), on lattices of a spacing or of about so many positions.

    The third value is the spacing that was used, nats: the given one, but at most 50. Before anything is allocated,
    losses that need more positions than are allowed raise a `PrecisionError`.
    """
    positions_needed(question, width=width, positions=positions)
    spacing, lattices = _lattices(question, width, positions)
    largest = min(question.largest, LARGEST_READ) + _MARGIN
    # A number of positions is that of a leaf; coarser lattices keep about that number in later states.
    grows = width is None and question.lattice == 0.0
    spacings = tuple(spacing * 2.0 ** (0.5 * doubling) for doubling in range(64)) if grows else (0.0,)
    limits = Limits(
        question.lost / question.top,
        math.inf,
        0.0,
        _RELATIVE_ROUNDING,
        largest,
        spacings,
        _MIN_COARSENED if grows else 1 << 62,
    )
    states = []
    for (pair, count), lattice in zip(question.counts.items(), lattices, strict=True):
        leaf = leaf_of(pair, lattice, question.directions)
        states += [state for _, state in powers(leaf, [count], limits)]
    shape = (2, question.rounds.size, question.epsilon.size)
    lower, upper = np.zeros(shape), np.ones(shape)
    readable = np.minimum(question.epsilon, LARGEST_READ)
    limits = replace(limits, floor=question.lost)
    wanted = question.rounds.tolist() if len(states) == len(question.counts) else []
    try:
        for r, power in powers(product_of(states, limits), wanted, limits) if wanted else ():
            for row in np.flatnonzero(question.rounds == r).tolist():
                for axis, direction in enumerate(question.directions):
                    upper[axis, row] = upper_deltas(power, readable, direction)
                    known = lower_deltas(power, readable, direction)
                    lower[axis, row] = np.where(question.epsilon <= LARGEST_READ, known, 0.0)
    except InvalidInputError:
        # Masses under labels hundreds of nats beside their losses may overflow: no bounds but 0 and 1 then.
        largest = float(np.max([state.largest for state in states]))
        if 2.0 * len(states) * math.log2(max(largest, 1.0)) < _MAX_LOG2_PRODUCT:
            raise
    if question.symmetric:
        lower[1], upper[1] = lower[0], upper[0]
    return lower, upper, spacing


def positions_needed(question: Question, *, width: float | None, positions: int | None) -> tuple[int, float]:
    """Return the number of positions of all leaves, and about that of the largest product.

    More than the limits raise a `PrecisionError`.
    """
    spacing, lattices = _lattices(question, width, positions)
    sizes = [lattice.high - lattice.low for lattice in lattices]
    if max(sizes) > _MAX_LEAF_SIZE:
        raise PrecisionError(
            f"factor: a round's losses would take {max(sizes)} buckets of {spacing:g} nats, more than"
            f" {_MAX_LEAF_SIZE}; pass a larger factor"
        )
    largest = min(question.largest, LARGEST_READ) + _MARGIN
    deviation = math.sqrt(question.top * max(question.exponents(Direction.A_TO_B).usual_variance, 0.0))
    if width is None and question.lattice == 0.0:
        return sum(sizes), float(_GROWTH * max(sizes))
    whole = min(
        2.0 * largest / spacing,
        float(question.top * question.leaves * max(sizes)),
        2.2 * math.sqrt(-2.0 * math.log(question.lost / question.top)) * deviation / spacing + max(sizes),
    )
    if whole > _MAX_SIZE:
        raise PrecisionError(
            f"compositions: they would take {whole:.3g} buckets of {spacing:g} nats, more than {_MAX_SIZE};"
            " pass fewer compositions or a larger factor"
        )
    return sum(sizes), whole


def _lattices(question: Question, width: float | None, positions: int | None) -> tuple[float, list[Lattice]]:
    largest = min(question.largest, LARGEST_READ) + _MARGIN
    ends = [_ends(profile, largest) for profile, _ in question.profiles]
    spacing = width if width is not None else question.lattice if question.lattice <= _MAX_SPACING else 0.0
    if not spacing:
        spacing = max([_MIN_LOSS, *(high - low for low, high in ends)]) / (positions or 1)
    spacing = min(spacing, _MAX_SPACING)
    lattices = []
    for low, high in ends:
        outermost = math.floor(_MAX_LOSS / spacing)
        first, last = max(math.floor(low / spacing) - 1, -outermost), min(math.ceil(high / spacing) + 1, outermost)
        lattices.append(Lattice(spacing, 1, (first, last), first, last))
    return spacing, lattices


def _ends(profile: LossProfile, largest: float) -> tuple[float, float]:
    """Where the losses of a pair begin and end, as far as they are looked at."""
    if profile.loss.size == 0:
        return -_MIN_LOSS, _MIN_LOSS
    low, high = float(profile.lower[0]), float(profile.upper[-1])
    return max(min(low, -_MIN_LOSS), -largest), min(max(high, _MIN_LOSS), largest)
