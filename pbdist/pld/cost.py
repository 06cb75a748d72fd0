"""Project the seconds and bytes of each engine, to choose one, in a run as in a plan. Nothing here is a bound.

Seconds are those of one core of the machine on which they were measured.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pbdist.pld.choice import chosen_lattices, chosen_spacings
from pbdist.pld.closed_form import gaussian_ratio, log_revealed_mass
from pbdist.pld.few_frequencies import MAX_FREQUENCIES as MAX_LOW_FREQUENCIES
from pbdist.pld.ladder import positions_needed, serves
from pbdist.pld.many_rounds import FEWEST_LEAVES, lattices_for, spacing_for, tilts_of
from pbdist.pld.question import Question
from pbdist.pld.transform_bounds import MAX_EXCESS, MAX_FREQUENCIES, TransformRows, has_transforms, seconds_of_sums
from pbdist.types import Direction

#: Of few frequencies: a row of one tilt; a position of a leaf, of a mixture, and of it for each tilt; a frequency of a
#: position, three rows together.
_SECONDS_PER_TILT, _SECONDS_PER_BIN, _SECONDS_PER_SAMPLED_BIN = 3.0e-3, 2.5e-7, 6.0e-7
_SECONDS_PER_POSITION, _SECONDS_PER_FREQUENCY = 1.5e-7, 1.5e-8
#: Of a ladder: a product, a position of it; climbs of a table, on the average.
_SECONDS_PER_PRODUCT, _SECONDS_PER_LADDER_POSITION, AVERAGE_CLIMBS = 1.5e-3, 2.5e-7, 1.7
#: No ladder is quicker than this, seconds.
_SOON = 0.02
#: Of exact transforms: frequencies of a period and a ratio; bytes of one, with all that is computed; and least bytes.
_PER_PERIOD, _BYTES_PER_FREQUENCY, _MIN_BYTES = 1.4, 1500, 150_000_000
#: Seconds of a cut of the losses; up to so many seconds no ladder is considered.
SECONDS_OF_PARTS, FEW_SECONDS = 0.015, 0.05
#: Bytes of a position of a ladder, and of a leaf.
_BYTES_PER_POSITION, _BYTES_PER_LEAF_POSITION = 600, 500


@dataclass(frozen=True)
class Cost:
    """Time and memory of a computation."""

    #: On one core.
    seconds: float
    #: The largest memory that is needed at once.
    peak_bytes: int
    #: Bytes of the states of all r.
    state_bytes: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        """One after the other."""
        return Cost(
            self.seconds + other.seconds, max(self.peak_bytes, other.peak_bytes), self.state_bytes + other.state_bytes
        )


def table_cost(question: Question, *, width: float | None, positions: int | None, keep_states: bool) -> Cost:
    """Return the cost of a table; with a given spacing or number of positions, or with saved states, by a ladder."""
    rows = list(range(question.rounds.size))
    if width is not None or positions is not None:
        return _given_cost(question, width, positions)
    if keep_states:
        return ladder_cost(question, rows)
    if gaussian_ratio(question.counts) is not None:
        return Cost(0.0, 0)
    if has_transforms(question):
        transforms = TransformRows(question)
        projected = [_transform_cost(question, transforms, row) for row in rows]
        frequencies = max((number for _, number, _ in projected), default=0.0)
        total = Cost(
            sum(seconds for seconds, _, _ in projected), round(_BYTES_PER_FREQUENCY * frequencies) + _MIN_BYTES
        )
        parts = SECONDS_OF_PARTS * sum(left for _, _, left in projected)
        by_ladder = ladder_cost(question, rows) if parts > FEW_SECONDS else Cost(math.inf, 0)
        # A ladder bounds many points as quickly as one.
        return total + (by_ladder if 0.0 < by_ladder.seconds < parts else Cost(parts, _MIN_BYTES))
    revealed = [log_revealed_mass(question.counts, question.rounds, direction) for direction in Direction]
    question = question.beside(float(np.min(np.max(revealed, axis=0) if question.joint_directions else revealed)))
    few, ladder = chosen_rows(question, rows)
    costs = [cost for row in few if (cost := frequency_cost(question, row)) is not None]
    return sum(costs, ladder_cost(question, ladder) if ladder else Cost(0.0, 0))


def _transform_cost(question: Question, transforms: TransformRows, row: int) -> tuple[float, float, int]:
    """Return a row's seconds, frequencies of its largest part, and number of cuts of losses.

    The seconds are without these.
    """
    total, largest, left = 0.0, 0.0, 0
    for directed in transforms.sides(row):
        side = directed.smoothed
        wanted = (directed.chernoff > transforms.log_floor) & (directed.nearly_all < -question.tolerance)
        needed, cuts = transforms.for_parts(side, wanted)
        left, wanted = left + cuts, wanted & ~needed
        for group in transforms.groups(side, np.flatnonzero(wanted), MAX_EXCESS):
            epsilon = question.epsilon[group.columns]
            period = side.period(epsilon, group.log_delta, group.tilt, question.tolerance)
            number = _PER_PERIOD * period / transforms.first_ratio(side, epsilon, question.tolerance)
            if number <= MAX_FREQUENCIES:
                total += seconds_of_sums(number, epsilon.size)
                largest = max(largest, number)
    return total, largest, left


def _given_cost(question: Question, width: float | None, positions: int | None) -> Cost:
    leaf, most = positions_needed(question, width=width, positions=positions)
    seconds = _SECONDS_PER_BIN * leaf
    directions = len(question.directions)
    for doubling in range(question.top.bit_length()):
        products = 1 + sum(1 for r in question.rounds.tolist() if r >> doubling & 1 and r >> (doubling + 1))
        size = min(2.0**doubling * leaf, most)
        seconds += products * (_SECONDS_PER_PRODUCT + _SECONDS_PER_LADDER_POSITION * size * directions)
    return Cost(seconds, round(_BYTES_PER_POSITION * most + _BYTES_PER_LEAF_POSITION * leaf))


def chosen_rows(question: Question, rows: Sequence[int]) -> tuple[list[int], list[int]]:
    """Choose for some rows of a table, by cost: those for few frequencies, and those for the ladder.

    A ladder serves all rows up to its top at nearly the same cost, so that few frequencies take those above some r.
    """
    ordered = sorted(rows, key=lambda row: int(question.rounds[row]))
    costs = [frequency_cost(question, row) for row in ordered]
    if not serves(question):
        return [row for row, cost in zip(ordered, costs, strict=True) if cost is not None], []
    seconds_of_all = [cost.seconds for cost in costs if cost is not None]
    if len(seconds_of_all) == len(costs) and sum(seconds_of_all) <= _SOON:
        return ordered, []
    best: tuple[float, int] | None = None
    for taken in range(len(ordered), -1, -1):
        # The ladder takes the first rows, and those that few frequencies do not serve.
        left = [row for row, cost in zip(ordered[taken:], costs[taken:], strict=True) if cost is None]
        seconds = sum(cost.seconds for cost in costs[taken:] if cost is not None)
        ladder = ordered[:taken] + left
        if ladder:
            seconds += ladder_cost(question, ladder).seconds
        if best is None or seconds < best[0]:
            best = seconds, taken
    taken = len(ordered) if best is None else best[1]
    few = [row for row, cost in zip(ordered[taken:], costs[taken:], strict=True) if cost is not None]
    return few, [row for row in ordered if row not in few]


def frequency_cost(question: Question, row: int) -> Cost | None:
    """Return what few frequencies take for a row, None where they are not expected to serve."""
    r = int(question.rounds[row])
    if r * question.leaves < FEWEST_LEAVES or question.lattice > 0.0:
        return None
    spacing = spacing_for(question, r)
    if spacing == 0.0:
        return None
    chosen = lattices_for(question, spacing, r)
    if chosen is None:
        return None
    positions = sum(lattice.edges.size for lattice in chosen.lattices)
    tilts, frequencies = 0, 0.0
    for direction in question.directions:
        for tilt in tilts_of(question, direction, r, question.saddle_points(direction, r)):
            left = question.exponents(direction).surviving(r, tilt.tilt, math.log(tilt.outside), spacing)
            if left > MAX_LOW_FREQUENCIES:
                return None
            tilts, frequencies = tilts + 1, frequencies + left
    each = tilts * _SECONDS_PER_POSITION + frequencies * _SECONDS_PER_FREQUENCY + _SECONDS_PER_BIN
    return Cost(tilts * _SECONDS_PER_TILT + each * positions, _BYTES_PER_LEAF_POSITION * positions)


def ladder_cost(question: Question, rows: Sequence[int]) -> Cost:
    """Return what a ladder takes for some rows."""
    rounds = sorted({int(question.rounds[row]) for row in rows})
    top = rounds[-1]
    spacings = chosen_spacings(question, np.array(rounds))
    chosen = chosen_lattices(
        question.profiles, top, question.largest, spacings, tolerance=question.tolerance, floor=question.floor
    )
    if chosen is None:
        return Cost(0.0, 0)
    directions = 1 if question.joint_directions or question.symmetric else 2
    seconds, largest = 0.0, 0.0
    cores = sum(lattice.core[1] - lattice.core[0] for lattice in chosen.lattices)
    fars = sum((lattice.high - lattice.low) // lattice.coarse for lattice in chosen.lattices)
    spacing, wide = chosen.lattices[0].spacing, chosen.lattices[0].spacing * chosen.lattices[0].coarse
    variance = question.exponents(Direction.A_TO_B).usual_variance
    depth = math.sqrt(-2.0 * math.log(max(chosen.limits.floor, 1e-290)))
    for doubling in range(top.bit_length()):
        limit = max(spacings[min(doubling, spacings.size - 1)], spacing)
        fine = spacing * 2.0 ** math.floor(math.log2(limit / spacing) + 1e-9)
        window = 2.0 * depth * math.sqrt(2.0**doubling * variance)
        # Losses add up, until they spread as their deviation does.
        positions = min(2.0**doubling * cores * spacing, max(window, cores * spacing)) / fine
        apart = wide > fine
        if wide > spacing:
            positions = positions + 2.0 * fars if apart else max(positions, fars * wide / fine)
        products = 1 + sum(1 for r in rounds if r >> doubling & 1 and r >> (doubling + 1))
        each = _SECONDS_PER_PRODUCT * (3.0 if wide > spacing and apart else 1.0)
        seconds += products * (each + _SECONDS_PER_LADDER_POSITION * positions * (1.0 + directions))
        largest = max(largest, positions)
    leaf = sum(lattice.edges.size for lattice in chosen.lattices)
    seconds += _SECONDS_PER_SAMPLED_BIN * leaf
    # Five rows, at most: one of them dominating.
    states = round(40.0 * largest * len(rounds))
    return Cost(
        AVERAGE_CLIMBS * seconds, round(_BYTES_PER_POSITION * largest + _BYTES_PER_LEAF_POSITION * leaf), states
    )
