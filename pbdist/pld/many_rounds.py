"""Bounds of many rounds by few frequencies, and upper bounds below the floor by Chernoff: chooses lattices and tilts.

A choice costs precision, never validity.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld.choice import Chosen, chosen_lattices
from pbdist.pld.closed_form import log_some_infinite
from pbdist.pld.few_frequencies import (
    Frequencies,
    few_frequencies,
    largest_factor,
    log_finite_lower,
    log_finite_upper,
    tilted_leaf,
)
from pbdist.pld.leaf import leaf_of
from pbdist.pld.loss_profile import SaddlePoints
from pbdist.pld.question import Question, Reader, largest_of
from pbdist.pld.state import LARGEST_SHIFT, PairState
from pbdist.progress import report
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

_U = UNIT_ROUNDOFF
#: Fewer leaves than this leave too many frequencies.
FEWEST_LEAVES = 128
#: Rounding that a leaf costs, relative to the sum of the weights, in both precisions; logarithm of a tenth of the
#: tolerance relative to that, below which it costs too much for certain.
_ROUNDING, _EXTENDED_ROUNDING, _COSTLY = 1.5e-13, 1e-16, -2.3
#: Rows whose spacings differ by at most this factor share their leaves; a direction whose δ seems to be smaller by so
#: many nats need only be shown to be smaller.
_MAX_SPACING_RATIO, _DOMINATED_GAP = 4.0, 0.3
#: ε are taken for at most those where δ is below the floor by so many nats; and by how many it seems to be below it.
_FLOOR_MARGIN, _FLOOR_GAP = 3.0, 2.0
#: Part of the tolerance that windows may take.
_WINDOW_FRACTION = 0.02
#: Spacing, in deviations of a leaf's loss under the tilt; or part of what puts a bound at the floor.
_CHERNOFF_SPACING, _CHERNOFF_PART = 0.1, 0.2
#: Up to here, nats, and a margin beyond, e^loss is a float; and the end of that margin.
_MAX_LOSS, _LARGEST_LOSS = 660.0, 700.0
#: Frequencies times points that are held at a time: arrays of 1 MiB, which stay in the cache and are not given back.
_MAX_TERMS = 1 << 16


@dataclass(frozen=True, eq=False)
class Tilt:
    """A tilt, and the columns of a table that it serves."""

    tilt: float
    columns: IntArray
    outside: float
    extended: bool


def many_round_bounds(
    question: Question, rows: Mapping[int, float], *, both: bool = False
) -> Iterator[tuple[int, float, FloatArray, FloatArray]]:
    """Yield rows of a table, where possible, with the spacing and ln of lower and upper bounds, shape (2, E).

    `rows` has factors by which spacings are to be smaller than they seem to have to be. With `both` also the direction
    that seems to be smaller is bounded from below.
    """
    spacings = {row: finer * spacing_for(question, int(question.rounds[row])) for row, finer in rows.items()}
    for group in _grouped_by_spacing(spacings):
        spacing = min(spacings[row] for row in group)
        leaves = _leaves(question, spacing, max(int(question.rounds[row]) for row in group))
        if leaves is None:
            continue
        for row in group:
            found = _row_bounds(question, leaves, int(question.rounds[row]), both=both)
            report("by few frequencies, r =", int(question.rounds[row]), question.top)
            if found is not None:
                yield row, leaves[0][0].dominating.core.spacing, *found


def point_reader(question: Question, finer: float) -> Reader | None:
    """Return a function that bounds the larger ln δ of the requested directions near the question's only ε.

    None where frequencies would be too many.
    """
    r = int(question.rounds[0])
    spacing = finer * spacing_for(question, r)
    leaves = _leaves(question, spacing, r) if spacing > 0.0 else None
    if leaves is None:
        return None
    readers = []
    for direction in question.directions:
        tilt = tilts_of(question, direction, r, question.saddle_points(direction, r))[0]
        composed = Composition([(state, count * r) for state, count in leaves], direction)
        known = composed.frequencies(tilt, below=True)
        if known is None:
            return None
        readers.append(partial(composed.read, known, below=True))

    return partial(largest_of, readers)


def spacing_for(question: Question, rounds: int) -> float:
    """About the largest spacing with which the bounds meet after a number of rounds, 0 where none is known."""
    sharpness = max(
        float(question.saddle_points(direction, rounds).sharpness(question.tolerance, max(question.floor, 1e-290)))
        for direction in question.directions
    )
    if not 0.0 < sharpness < math.inf:
        return 0.0
    return math.sqrt(0.75 / (0.25 * rounds * question.leaves * sharpness))


def _grouped_by_spacing(spacings: Mapping[int, float]) -> list[list[int]]:
    ordered = sorted((spacing, row) for row, spacing in spacings.items() if spacing > 0.0)
    groups: list[list[int]] = []
    least = 0.0
    for spacing, row in ordered:
        if not groups or spacing > _MAX_SPACING_RATIO * least:
            groups.append([])
            least = spacing
        groups[-1].append(row)
    return groups


def lattices_for(question: Question, spacing: float, top: int) -> Chosen | None:
    """Choose lattices of one spacing, for so many rounds at most; None where they would be too large."""
    spacings, tolerance, floor = np.full(top.bit_length(), spacing), question.tolerance, question.floor
    chosen = chosen_lattices(
        question.profiles, top, question.largest, spacings, tolerance=tolerance, floor=floor, farthest=_MAX_LOSS
    )
    ends = [] if chosen is None else [each.spacing * max(each.high, -each.low) for each in chosen.lattices]
    return chosen if max(ends, default=0.0) <= _LARGEST_LOSS else None


def _leaves(question: Question, spacing: float, top: int) -> list[tuple[PairState, int]] | None:
    chosen = lattices_for(question, spacing, top)
    if chosen is None:
        return None
    return [
        (leaf_of(pair, lattice, question.directions), count)
        for (pair, count), lattice in zip(question.counts.items(), chosen.lattices, strict=True)
    ]


def _row_bounds(
    question: Question, leaves: Sequence[tuple[PairState, int]], rounds: int, *, both: bool
) -> tuple[FloatArray, FloatArray] | None:
    factors = [(state, count * rounds) for state, count in leaves]
    shape = (2, question.epsilon.size)
    log_lower, log_upper = np.full(shape, -np.inf), np.zeros(shape)
    log_floor = math.log(question.floor) if question.floor > 0.0 else -math.inf
    points = {direction: question.saddle_points(direction, rounds) for direction in question.directions}
    largest = np.max([each.log_delta for each in points.values()], axis=0)
    # The larger direction first.
    for direction, saddles in sorted(points.items(), key=lambda item: -float(item[1].log_delta.sum())):
        axis, composed = list(Direction).index(direction), Composition(factors, direction)
        smaller = question.joint_directions and not both and not (saddles.log_delta > largest - _DOMINATED_GAP).any()
        for tilt in tilts_of(question, direction, rounds, saddles, careful=both):
            if smaller:
                bound = composed.chernoff_bound(tilt.tilt, question.epsilon[tilt.columns])
                log_upper[axis, tilt.columns] = bound
                if (bound <= np.maximum(log_lower[1 - axis, tilt.columns], log_floor)).all():
                    continue
            known = composed.frequencies(tilt, below=not smaller)
            if known is None:
                return None
            found = composed.read(known, question.epsilon[tilt.columns], below=not smaller)
            log_lower[axis, tilt.columns], log_upper[axis, tilt.columns] = found
    if question.symmetric:
        log_lower[1], log_upper[1] = log_lower[0], log_upper[0]
    return log_lower, log_upper


def tilts_of(
    question: Question, direction: Direction, rounds: int, saddles: SaddlePoints, *, careful: bool = False
) -> list[Tilt]:
    """Cover all ε by as few tilts as keep the rounding below the tolerance, or well below it: intervals by points."""
    tolerance, leaves = question.tolerance, rounds * question.leaves
    exponents = question.exponents(direction)
    deepest = exponents.deepest(rounds, math.log(max(question.floor, 1e-290)) - _FLOOR_MARGIN)
    if (saddles.epsilon > deepest).any():
        saddles = exponents.saddle_points(rounds, np.minimum(saddles.epsilon, deepest))
    excess, variance, slope = saddles.excess, saddles.variance, np.abs(saddles.slope)
    budget = math.log(0.1 * tolerance / (_ROUNDING * leaves)) - excess
    # Estimates are rather too large, and more digits take long.
    extended = budget < (0.05 if careful else _COSTLY)
    budget = np.where(extended, math.log(0.1 * tolerance / (_EXTENDED_ROUNDING * leaves)) - excess, budget)
    budget = np.minimum(np.maximum(budget, 0.05), 4.0)
    reach = (np.sqrt(slope**2 + 2.0 * variance * budget) - slope) / variance
    low, high = saddles.tilt - reach, saddles.tilt + reach
    result: list[Tilt] = []
    left = np.argsort(high, kind="stable")
    while left.size:
        served = left[low[left] <= high[left[0]]]
        begin, end = float(low[served].max()), float(high[left[0]])
        # The middle leaves room for errors of the estimates.
        tilt = 0.5 * (begin + end) if begin > 0.0 else min(end, float(np.median(saddles.tilt[served])))
        tilt = max(tilt, 0.0)
        moved = tilt - saddles.tilt[served]
        excesses = excess[served] + saddles.slope[served] * moved + 0.5 * variance[served] * moved**2
        # Far from a saddle point that may come out below 0, which it never is.
        outside = _WINDOW_FRACTION * tolerance * math.exp(-min(max(float(excesses.max()), 0.0), 600.0))
        result.append(Tilt(tilt, served, outside, bool(extended[served].any())))
        left = left[low[left] > end]
    return result


@dataclass(frozen=True, eq=False)
class Composition:
    """Leaves in one direction, each taken a number of times."""

    factors: Sequence[tuple[PairState, int]]
    direction: Direction

    @cached_property
    def shift(self) -> float:
        """By how much losses may have been moved, nats."""
        return sum(power * state.shift for state, power in self.factors) * (1.0 + 1e-12)

    @cached_property
    def highest(self) -> float:
        """A loss that no finite one exceeds, nats."""
        forwards = self.direction is Direction.A_TO_B
        ends = [power * (state.highest if forwards else -state.lowest) for state, power in self.factors]
        return sum(ends) + 8.0 * len(ends) * _U * sum(map(abs, ends))

    def frequencies(self, tilt: Tilt, *, below: bool) -> Frequencies | None:
        """Compose tilted leaves; None where frequencies would be too many, or losses were moved too far."""
        leaves = [(tilted_leaf(state, self.direction, tilt.tilt, exact=below), power) for state, power in self.factors]
        items = [(leaf, power) for leaf, power in leaves if leaf is not None]
        if len(items) < len(leaves) or not self.shift <= LARGEST_SHIFT:
            return None
        return few_frequencies(items, tilt.outside, extended=tilt.extended)

    def read(self, known: Frequencies, epsilon: FloatArray, *, below: bool) -> tuple[FloatArray, FloatArray]:
        """Bound ln δ at some ε from below and from above."""
        if epsilon.size > 1 and epsilon.size * known.coefficients.shape[-1] > _MAX_TERMS:
            parts = [self.read(known, part, below=below) for part in np.array_split(epsilon, 2)]
            return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        upper, _ = log_finite_upper(known, epsilon, self.shift, self.highest)
        # Losses were moved by up to η: A - e^ε B <= A - e^(ε-η) B'' for A||B, and e^η (B'' - e^(ε-η) A) for B||A.
        moved = 0.0 if self.direction is Direction.A_TO_B else self.shift
        upper = np.logaddexp(upper, self._log_infinite_upper) + moved
        upper = upper + 32.0 * _U * (1.0 + np.minimum(np.abs(upper), 1e300))
        lower = np.full(epsilon.size, -np.inf)
        if below:
            lower = np.logaddexp(log_finite_lower(known, epsilon), self._log_infinite_lower(epsilon))
            lower = lower - 32.0 * _U * (1.0 + np.minimum(np.abs(lower), 1e300))
        return np.minimum(lower, 0.0), np.minimum(upper, 0.0)

    def chernoff_bound(self, tilt: float, epsilon: FloatArray) -> FloatArray:
        """Logarithms of upper bounds on δ at some ε by one tilt θ >= 0.

        Finite losses of a dominating pair add at most c e^{-θε} Π (Σ a* e^{θℓ})^d to δ(ε), c = θ^θ / (1+θ)^(1+θ), and
        the mass at infinity is added (Theorem 14, docs/pld.md).
        """
        exponent = size = 0.0
        for state, power in self.factors:
            leaf = tilted_leaf(state, self.direction, tilt, exact=False)
            if leaf is None or not self.shift <= LARGEST_SHIFT:
                return np.zeros(epsilon.size)
            total = math.log(float(leaf.totals[0])) + float(leaf.log_scale[0])
            exponent += power * total
            size += power * (float(leaf.log_scale_error[0]) + (leaf.size + 16.0) * _U * (1.0 + abs(total)))
        finite = exponent - tilt * (epsilon - self.shift) + math.log(largest_factor(tilt)) + size
        finite = finite + 32.0 * _U * (abs(exponent) + tilt * epsilon + 2.0)
        finite[epsilon - self.shift * (1.0 + 8.0 * _U) >= self.highest] = -np.inf
        upper = np.logaddexp(finite, self._log_infinite_upper)
        upper += (0.0 if self.direction is Direction.A_TO_B else self.shift) + 1e-12
        return np.minimum(upper, 0.0)

    @cached_property
    def _log_infinite_upper(self) -> float:
        """Logarithm of what dominating masses have at infinity: T^r - F^r rises with total T and finite F."""
        axis = 0 if self.direction is Direction.A_TO_B else 1
        parts = []
        for state, power in self.factors:
            masses = state.dominating
            finite = sum(row.sums()[axis] for row in masses.rows) * (1.0 + 8.0 * _U)
            parts.append((finite, masses.infinite[axis], power))
        return log_some_infinite(parts, 1.0)

    @cached_property
    def _log_beyond(self) -> tuple[float, float]:
        """Logarithms of the masses of the event that some leaf's loss lies above its lattices: from below and above."""
        own, other = [], []
        for state, power in self.factors:
            masses = state.exact[self.direction]
            sums = [row.sums() for row in masses.rows]
            own.append((sum(each[0] for each in sums) * (1.0 - 8.0 * _U), masses.infinite[0], power))
            other.append((sum(each[1] for each in sums) * (1.0 + 8.0 * _U), masses.infinite[1], power))
        return log_some_infinite(own, -1.0), log_some_infinite(other, 1.0)

    def _log_infinite_lower(self, epsilon: FloatArray) -> FloatArray:
        """Logarithm of a - e^ε b of the event that some leaf's loss lies above its lattices, where it is positive."""
        log_a, log_b = self._log_beyond
        if log_a == -math.inf:
            return np.full(epsilon.size, -np.inf)
        ratio = epsilon + log_b - log_a
        if log_b > -math.inf:
            ratio = ratio + 16.0 * _U * (np.abs(epsilon) + abs(log_b) + abs(log_a) + 1.0)
        with np.errstate(divide="ignore"):
            return np.asarray(log_a + np.log(np.where(ratio < 0.0, -np.expm1(np.minimum(ratio, 0.0)), 0.0)))


def bounds_below_floor(question: Question, known: FloatArray | None = None) -> FloatArray:
    """Return logarithms of upper bounds on δ, shape (2, R, E): 0 where δ does not seem to lie below the floor.

    Where the logarithms `known` already, of the same shape, do lie there, nothing is looked for.
    """
    shape = (2, question.rounds.size, question.epsilon.size)
    result = np.zeros(shape)
    if question.floor <= 0.0:
        return result
    level = math.log(question.floor) - _FLOOR_GAP
    deep: dict[Direction, BoolArray] = {}
    for direction in question.directions:
        saddles = [question.saddle_points(direction, r) for r in question.rounds.tolist()]
        deep[direction] = np.array([(each.log_delta < level) | ~each.reached_by_losses for each in saddles])
    left: BoolArray = np.ones(shape, dtype=bool) if known is None else known > math.log(question.floor)
    if question.joint_directions:
        # Where the larger direction does not, the smaller one is bounded with it.
        everywhere: BoolArray = np.all(list(deep.values()), axis=0)
        deep = dict.fromkeys(deep, everywhere)
    for axis, direction in enumerate(question.directions):
        exponents = question.exponents(direction)
        for row, r in enumerate(question.rounds.tolist()):
            columns = np.flatnonzero(deep[direction][row] & left[axis, row])
            if columns.size:
                epsilon = question.epsilon[columns]
                nearest = np.array([min(float(epsilon.min()), exponents.deepest(r, level))])
                result[axis, row, columns] = _bounds_by_tilt(
                    question, direction, exponents.saddle_points(r, nearest), r, epsilon
                )
    if question.symmetric:
        result[1] = result[0]
    return result


def _bounds_by_tilt(
    question: Question, direction: Direction, nearest: SaddlePoints, rounds: int, epsilon: FloatArray
) -> FloatArray:
    """Bound ln δ at some ε by the tilt of one."""
    tilt, leaves = float(nearest.tilt[0]), rounds * question.leaves
    spacing = _CHERNOFF_SPACING * math.sqrt(float(nearest.variance[0]) / leaves)
    # The spacing h costs some θ(θ+1)h² nats a leaf, of those by which the bound is below the floor.
    below = _FLOOR_GAP + tilt * float(epsilon.min() - nearest.epsilon[0])
    spacing = max(spacing, _CHERNOFF_PART * math.sqrt(below / (leaves * max(tilt * (tilt + 1.0), 1e-12))))
    nothing = np.zeros(epsilon.size)
    chosen = lattices_for(question, spacing, question.top) if spacing > 0.0 else None
    if chosen is None:
        return nothing
    factors = [
        (leaf_of(pair, lattice, ()), count * rounds)
        for (pair, count), lattice in zip(question.counts.items(), chosen.lattices, strict=True)
    ]
    return Composition(factors, direction).chernoff_bound(tilt, epsilon)
