"""The sum of the likelihood ratios of several steps, from above and from below (Theorem 34 of ``docs/theory.md``).

Where a record is used in one of t steps, chosen at random, the likelihood ratio of all steps together is the mean of
t independent ratios.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from pbdist.enclosures.gaussian_ratio import GaussianRatio
from pbdist.enclosures.measures import (
    Coarsening,
    Level,
    gathered,
    merged_in_halves,
    parted,
    product,
    scaled,
    split_to_both,
)
from pbdist.enclosures.spacings import LEVEL, Plan, Stage
from pbdist.mechanisms import UNIT_ROUNDOFF, FinitePair, LossMasses, MassBounds
from pbdist.types import BoolArray, FloatArray

_U = UNIT_ROUNDOFF
_State = TypeVar("_State")
#: Level of single ratios: exponent, first point, and one beyond the last point.
_Piece = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Dominating:
    """The sum of some ratios from above."""

    #: P_B masses from above, without errors. P_A of a sum is P_B of it times the mean ratio, sum / count.
    levels: tuple[Level, ...]
    #: P_A mass of an infinite mean ratio, from above.
    infinite: float
    #: How many ratios.
    count: int
    #: As of one step's `Split`: the A of one step alone is moved.
    shift: float

    @property
    def total(self) -> float:
        """P_B of all, from above."""
        sizes = [float(np.sum(level.masses)) * (1.0 + (level.size + 4.0) * _U) for level in self.levels]
        return math.fsum(sizes) * (1.0 + 4.0 * _U)


@dataclass(frozen=True, eq=False)
class Dominated:
    """Disjoint events, one for each point near the sum of some ratios."""

    #: P_A and P_B masses of the events, with their errors. P_A is the mean over which of the ratios is A's.
    own: tuple[Level, ...]
    other: tuple[Level, ...]
    #: How many ratios.
    count: int


def dominating_sum(ratio: GaussianRatio, plan: Plan) -> Dominating:
    """Return the sum of `plan.steps` ratios from above."""
    pieces = _pieces(plan.stage(1), plan.unit)
    split = ratio.split(_points(pieces, plan.unit))
    levels = _levels(pieces, split.masses)
    return _power(Dominating(levels, split.infinite, 1, split.shift), plan, _dominating_product)


def dominated_sum(ratio: GaussianRatio, plan: Plan) -> Dominated:
    """Return events of the sum of `plan.steps` ratios."""
    pieces = _pieces(plan.stage(1), plan.unit)
    cells = ratio.cells(_points(pieces, plan.unit))
    # Cells of masses too small for a relative error are left out.
    known = (cells[0].lower > 0.0) & (cells[1].lower > 0.0)
    largest = max(float(np.max(row.upper[known] / row.lower[known], initial=1.0)) for row in cells)
    error = largest * (1.0 + 4.0 * _U) - 1.0
    own, other = (_levels(pieces, np.where(known, row.lower, 0.0), error) for row in cells)
    return _power(Dominated(own, other, 1), plan, _dominated_product)


def _power(state: _State, plan: Plan, times: Callable[[_State, _State, Plan], _State]) -> _State:
    """Multiply a state with itself, by squaring."""
    result: _State | None = None
    for bit in range(plan.steps.bit_length()):
        if bit:
            state = times(state, state, plan)
        if plan.steps >> bit & 1:
            result = state if result is None else times(result, state, plan)
    return state if result is None else result


def _pieces(stage: Stage, unit: float) -> list[_Piece]:
    """Return the levels of single ratios: their points, one after the other, begin at 0 and increase."""
    pieces: list[_Piece] = []
    begin = 0.0
    if stage.bottom is not None:
        exponent, stop = stage.bottom
        pieces.append((exponent, 0, stop))
        begin = unit * 2.0**exponent * stop
    for exponent, above, end in _neighbours(stage, stage.top):
        spacing, coarser = unit * 2.0**exponent, unit * 2.0**above
        last = coarser * math.ceil(max(end, begin) / coarser)
        if last > begin:
            pieces.append((exponent, round(begin / spacing), round(last / spacing)))
            begin = last
    exponent, first, stop = pieces[-1]
    pieces[-1] = exponent, first, stop + 1
    return pieces


def _neighbours(stage: Stage, last: float) -> list[tuple[int, int, float]]:
    """Return the exponents of the levels, those of the next ones, and where these begin; the last ends at `last`."""
    exponents = [exponent for exponent, _ in stage.levels]
    ends = [begin for _, begin in stage.levels[1:]] + [last]
    return list(zip(exponents, [*exponents[1:], exponents[-1] + LEVEL], ends, strict=True))


def _points(pieces: Sequence[_Piece], unit: float) -> FloatArray:
    return np.concatenate(
        [unit * 2.0**exponent * np.arange(first, stop, dtype=np.float64) for exponent, first, stop in pieces]
    )


def _levels(pieces: Sequence[_Piece], masses: FloatArray, relative: float = 0.0) -> tuple[Level, ...]:
    result, start = [], 0
    for exponent, first, stop in pieces:
        part = slice(start, start + stop - first)
        start = part.stop
        result.append(Level(exponent, first, masses[part], relative).trimmed())
    return gathered(result)


def _dominating_product(x: Dominating, y: Dominating, plan: Plan) -> Dominating:
    """Add more ratios: the mean is infinite where that of either part is."""
    count = x.count + y.count
    infinite = (x.count * x.infinite * y.total + y.count * y.infinite * x.total) / count * (1.0 + 16.0 * _U)
    stage = plan.stage(count)
    remaining: list[Level | None] = []
    for level in product(x.levels, y.levels, split_to_both, stage.budget):
        inside, gone = _cut(_from_above(level), stage.top, plan.unit, count)
        infinite = (infinite + gone) * (1.0 + 4.0 * _U)
        rare, usual = _below(inside, stage)
        if rare is not None and stage.bottom is not None:
            remaining.append(_from_above(split_to_both(rare, stage.bottom[0] - rare.exponent)))
        remaining.append(usual)
    levels = _arranged(gathered(remaining), stage, plan.unit, split_to_both)
    return Dominating(tuple(_from_above(level) for level in levels), infinite, count, max(x.shift, y.shift))


def _from_above(level: Level) -> Level:
    return Level(level.exponent, level.first, level.upper)


def _cut(level: Level, top: float, unit: float, count: int) -> tuple[Level, float]:
    """Move what lies above the top to the last point below it; the P_A mass that it then lacks is infinite."""
    spacing = unit * 2.0**level.exponent
    last = max(math.ceil(top / spacing), level.first)
    inside, above = parted(level, last + 1)
    if inside is None or above is None:
        return level, 0.0
    steps = spacing * (above.points - last)
    gone = float(np.sum(above.masses * steps)) / count * (1.0 + (above.size + 16.0) * _U)
    masses = np.zeros(last + 1 - level.first)
    masses[: inside.size] = inside.masses
    masses[-1] = (masses[-1] + float(np.sum(above.masses))) * (1.0 + (above.size + 8.0) * _U)
    return Level(level.exponent, level.first, masses), gone


def _below(level: Level, stage: Stage) -> tuple[Level | None, Level | None]:
    """Part a level into what lies below all usual sums, and the rest."""
    if stage.bottom is None or level.exponent >= stage.bottom[0]:
        return None, level
    exponent, stop = stage.bottom
    return parted(level, stop << (exponent - level.exponent))


def _arranged(levels: Sequence[Level], stage: Stage, unit: float, coarser: Coarsening) -> tuple[Level, ...]:
    """Make coarser what need not be as fine."""
    pending = list(levels)
    done: list[Level | None] = []
    low: Level | None
    high: Level | None
    for exponent, above, end in _neighbours(stage, math.inf):
        here = gathered([coarser(level, exponent - level.exponent) for level in pending if level.exponent <= exponent])
        pending = [level for level in pending if level.exponent > exponent]
        if not here:
            continue
        low, high = here[0], None
        if end < math.inf:
            low, high = parted(here[0], math.ceil(end / (unit * 2.0**above)) << (above - exponent))
        done.append(low)
        pending += [] if high is None else [high]
    return tuple(level for each in gathered([*done, *pending]) if (level := each.trimmed()) is not None)


def _dominated_product(x: Dominated, y: Dominated, plan: Plan) -> Dominated:
    """Add more ratios, of which one is A's: one of the first or one of the second."""
    count, stage = x.count + y.count, plan.stage(x.count + y.count)
    joined = partial(product, coarser=merged_in_halves, budget=stage.budget)
    other = joined(x.other, x.other if x is y else y.other)
    if x is y:
        own = joined(x.own, x.other)
    else:
        first = [scaled(level, x.count / count) for level in joined(x.own, y.other)]
        second = [scaled(level, y.count / count) for level in joined(x.other, y.own)]
        own = gathered([*first, *second])
    rows = []
    for levels in (own, other):
        remaining = [_usual(level, stage, plan.unit) for level in levels]
        rows.append(_arranged(gathered(remaining), stage, plan.unit, merged_in_halves))
    return Dominated(rows[0], rows[1], count)


def _usual(level: Level, stage: Stage, unit: float) -> Level | None:
    """Leave out what is rare."""
    inside, _ = parted(level, math.ceil(stage.top / (unit * 2.0**level.exponent)))
    return None if inside is None else _below(inside, stage)[1]


#: A mass below this has no reliable loss.
_MIN_MASS = 1e-280
#: An event of which a mass is known worse than this, relatively, is left out.
_MAX_DOUBT = 0.3
#: The declared error of losses that are mere labels, nats.
_LABEL_ERROR = 1e-12
_NO_BIN = MassBounds.zeros(1)


def dominating_pair(total: Dominating, unit: float) -> FinitePair:
    """Return the pair that dominates: atoms at the logarithms of the mean ratios, and infinite losses."""
    sums = np.concatenate([unit * 2.0**level.exponent * level.points for level in total.levels])
    b = np.concatenate([level.masses for level in total.levels])
    # P_A of an event may be larger by the shift, which its loss then is off by.
    b = b * (1.0 + 2.0 * total.shift + 4.0 * _U)
    a = b * (sums / total.count)
    reliable = (a > _MIN_MASS) & (b > _MIN_MASS)
    # Any event can be had from one that only A has and one that only B has.
    only_a = total.infinite * (1.0 + 2.0 * total.shift) + _sum_above(a, ~reliable) + _MIN_MASS
    only_b = _sum_above(b, ~reliable)
    loss = np.log(sums[reliable] / total.count)
    order = np.argsort(loss, kind="stable")
    error = 16.0 * _U * (1.0 + float(np.max(np.abs(loss), initial=0.0))) + 2.0 * total.shift
    own, other = MassBounds.around(a[reliable][order], 4.0 * _U), MassBounds.around(b[reliable][order], 0.0)
    alone_a, alone_b = (MassBounds(np.zeros(1), np.array([each])) for each in (only_a, only_b))
    return FinitePair(LossMasses(_NO_BIN, _NO_BIN, loss[order], own, other, alone_a, alone_b, error))


def dominated_pair(total: Dominated) -> FinitePair:
    """Return the pair that is dominated: the events whose masses are known well; the others are left out.

    It is for lower bounds alone, which need no losses: those of the atoms are names.
    """
    at_b = {level.exponent: level for level in total.other}
    rows = [_known(own, at_b[own.exponent]) for own in total.own if own.exponent in at_b]
    a_lower, a_upper, b_lower, b_upper = np.concatenate(rows, axis=1) if rows else np.zeros((4, 0))
    loss = np.log(0.5 * (a_lower + a_upper)) - np.log(0.5 * (b_lower + b_upper))
    order = np.argsort(loss, kind="stable")
    own, other = MassBounds(a_lower[order], a_upper[order]), MassBounds(b_lower[order], b_upper[order])
    return FinitePair(LossMasses(_NO_BIN, _NO_BIN, loss[order], own, other, _NO_BIN, _NO_BIN, _LABEL_ERROR))


def _sum_above(masses: FloatArray, chosen: BoolArray) -> float:
    return math.fsum(masses[chosen]) * (1.0 + 4.0 * _U)


def _known(own: Level, other: Level) -> FloatArray:
    """Return P_A and P_B from below and above, of the points whose masses are known well."""
    first = max(own.first, other.first)
    stop = max(min(own.first + own.size, other.first + other.size), first)
    rows = []
    for level in (own, other):
        part = slice(first - level.first, stop - level.first)
        rows += [level.lower[part], level.upper[part]]
    values = np.array(rows)
    a_lower, a_upper, b_lower, b_upper = values
    good = (a_lower > _MIN_MASS) & (b_lower > _MIN_MASS)
    good &= (a_upper - a_lower <= _MAX_DOUBT * a_lower) & (b_upper - b_lower <= _MAX_DOUBT * b_lower)
    return np.asarray(values[:, good])
