"""Composition and squaring of states, and what a composition would send to ∞ (Definitions 4 and 7)."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pbdist.buckets.blocks import (
    PIECE,
    BlockedVector,
    Convolution,
    Summary,
    Work,
    convolution_of,
    piece_sums,
    summation_error,
    total,
)
from pbdist.buckets.leaf import corner_mass
from pbdist.buckets.state import VECTORS, BlockedState, Grid, StateHead, check_masses
from pbdist.errors import InvalidInputError
from pbdist.fourier import Rounding
from pbdist.fourier.vectors import Vector, ranges
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.progress import report
from pbdist.types import FloatArray

#: To which side each vector is rounded, ..
_ROUNDINGS = {
    "a_lower": Rounding.DOWN,
    "a_upper": Rounding.UP,
    "b_upper": Rounding.UP,
    "b_real_lower": Rounding.DOWN,
}
#: .. by which factor where two masses are added, ..
_PAIRING = {name: 1.0 + (2.0 if side is Rounding.UP else -2.0) * UNIT_ROUNDOFF for name, side in _ROUNDINGS.items()}
#: .. and which mass of the bucket ∞ belongs to it.
_AT_INFINITY = {"a_lower": "infinity_a_lower", "a_upper": "infinity_a_upper", "b_upper": "infinity_b_upper"}

#: A histogram whose probabilities sum to more than 1 is not composed beyond this total.
_LARGEST_TOTAL = 1e100


def compose(first: BlockedState, second: BlockedState, work: Work) -> BlockedState:
    """Return the state of two independent states on one grid (Definition 7's × node).

    Masses are convolved, indices below -n go to -n and those above n to ∞, everything with a factor at ∞ goes to ∞,
    and the corner -n of b_real is set to a(-n) f^n. Convolving b is what the paper's rule for the virtual error term
    amounts to, except at -n, where Definition 7 subtracts a f^-(j+k) and its Lemma 11 needs a f^n.

    Raises
    ------
    InvalidInputError
        If the grids differ.
    """
    mass_limit = _composed_limit(first, second)
    n = first.grid.half_width
    vectors = work.new_vectors(VECTORS, 2 * n + 1)
    summaries: dict[str, Summary] = {}
    beyond: dict[str, float] = {}
    corner = 0.0
    for name, rounding in _ROUNDINGS.items():
        x = first.vector(name)
        convolution = convolution_of(
            x,
            x if second is first else second.vector(name),
            rounding=rounding,
            mass_limit=mass_limit,
            work=work,
            name=f"{vectors[name].name}-work",
        )
        # The convolution's indices are -2n .. 2n.
        below = _rounded_total(_sums(convolution, 0, n + 1, work), n + 1, rounding)
        beyond[name] = _rounded_total(_sums(convolution, 3 * n + 1, n, work), n, rounding)
        if name == "a_lower":
            corner = corner_mass(below, first.grid)
        lowest = corner if name == "b_real_lower" else below
        tasks = [
            _Folded(convolution, vectors[name], name, first.grid, tuple(blocks), lowest)
            for blocks in work.groups(2 * n + 1)
        ]
        summaries[name] = Summary.joined(work.mapper.map(_write_folded, tasks))
        convolution.remove()
    totals = {
        name: [_rounded_total(state.summaries[name].sums, 2 * n + 1, _ROUNDINGS[name]) for state in (first, second)]
        for name in _AT_INFINITY
    }
    return BlockedState.of(first.grid, vectors, summaries, _composed_scalars(first, second, totals, beyond))


@dataclass(frozen=True, eq=False)
class _Folded:
    """Consecutive blocks of a composition to be read off its convolution, and the mass of its first bucket."""

    convolution: Convolution
    vector: BlockedVector
    name: str
    grid: Grid
    blocks: tuple[tuple[int, int], ...]
    lowest: float


def _write_folded(task: _Folded) -> Summary:
    first, last = task.blocks[0][0], task.blocks[-1][1]
    n = task.grid.half_width
    values = task.convolution.read(n + first, n + last)
    if first == 0:
        values[0] = task.lowest
    return _written(task.vector, task.name, first, values, task.grid)


def _written(vector: BlockedVector, name: str, start: int, values: FloatArray, grid: Grid) -> Summary:
    check_masses(name, values, values.size, grid)
    return vector.write(start, values)


def _sums(convolution: Convolution, offset: int, size: int, work: Work) -> list[float]:
    """Sum the pieces of a part of a convolution, counted from `offset`."""
    tasks = [(convolution, offset, part[0][0], part[-1][1]) for part in work.groups(size)]
    return [value for part in work.mapper.map(_summed_part, tasks) for value in part]


def _summed_part(task: tuple[Convolution, int, int, int]) -> list[float]:
    convolution, offset, start, stop = task
    return piece_sums(convolution.read(offset + start, offset + stop), start)


def _composed_limit(first: StateHead, second: StateHead) -> float:
    """Return what no mass of a composition exceeds.

    Raises
    ------
    InvalidInputError
        If the grids differ.
    """
    if first.grid != second.grid:
        raise InvalidInputError(f"compose: expected two states on one grid, got {first.grid} and {second.grid}")
    return _product_up(first.mass_limit, second.mass_limit)


def _composed_scalars(
    first: StateHead, second: StateHead, totals: Mapping[str, Sequence[float]], beyond: Mapping[str, float]
) -> dict[str, Any]:
    """Return the scalars of a composition.

    Parameters
    ----------
    first, second : StateHead
    totals : mapping
        For each vector of `_AT_INFINITY` the sums of both states, rounded to the vector's side.
    beyond : mapping
        For each of them what the finite buckets send above n, likewise.
    """
    mass_limit = _composed_limit(first, second)
    result: dict[str, Any] = {
        "window": first.window + second.window,
        "loss_error": (first.loss_error + second.loss_error) * (1.0 + 2.0 * UNIT_ROUNDOFF),
        "mass_limit": mass_limit,
    }
    for name, scalar in _AT_INFINITY.items():
        finite = totals[name]
        infinite = [float(getattr(state, scalar)) for state in (first, second)]
        mass = beyond[name] + infinite[0] * (finite[1] + infinite[1]) + finite[0] * infinite[1]
        rounded = mass * (1.0 + (8.0 if _ROUNDINGS[name] is Rounding.UP else -8.0) * UNIT_ROUNDOFF)
        result[scalar] = min(rounded, mass_limit)
    return result


def square(state: BlockedState, work: Work) -> BlockedState:
    """Return the state on the grid of the squared factor: bucket i goes to ⌈i/2⌉, for negative odd i too.

    Bucket -n goes to -n/2, as Definition 6 has it; the formula of Definition 4 leaves it out.
    """
    size = 2 * state.grid.half_width + 1
    vectors = work.new_vectors(VECTORS, size)
    tasks = [
        _Paired(state.vectors[name], vectors[name], name, state.grid, tuple(blocks))
        for name in VECTORS
        for blocks in work.groups(size)
    ]
    parts: dict[str, list[Summary]] = {name: [] for name in VECTORS}
    for task, found in zip(tasks, work.mapper.map(_write_paired, tasks), strict=True):
        parts[task.name].append(found)
    scalars = {
        "infinity_a_lower": state.infinity_a_lower,
        "infinity_a_upper": state.infinity_a_upper,
        "infinity_b_upper": state.infinity_b_upper,
        "window": -(-state.window // 2) + 1,
        "loss_error": state.loss_error,
        "mass_limit": state.mass_limit,
    }
    summaries = {name: Summary.joined(found) for name, found in parts.items()}
    return BlockedState.of(state.grid.squared, vectors, summaries, scalars)


@dataclass(frozen=True, eq=False)
class _Paired:
    """Blocks of a squared state to be made from the state."""

    source: BlockedVector
    vector: BlockedVector
    name: str
    grid: Grid
    blocks: tuple[tuple[int, int], ...]


def _write_paired(task: _Paired) -> Summary:
    n = task.grid.half_width
    return Summary.joined(
        _written(task.vector, task.name, start, _paired(task.source, n, start, stop) * _PAIRING[task.name], task.grid)
        for start, stop in task.blocks
    )


def _paired(masses: Vector, n: int, start: int, stop: int) -> FloatArray:
    """Add the buckets 2i - 1 and 2i of masses on -n .. n into bucket i, at the positions from `start` to `stop`."""
    result = np.zeros(stop - start)
    # Position m holds the positions 2m - n - 1 and 2m - n; the first one of them has no partner.
    first, last = max(start, n // 2), min(stop, n // 2 + n + 1)
    if first < last:
        begin, end = 2 * first - n - 1, 2 * last - n - 1
        part = masses[max(begin, 0) : end]
        pairs = part if begin >= 0 else np.concatenate(([0.0], part))
        result[first - start : last - start] = pairs[0::2] + pairs[1::2]
    return result


def overflow(first: BlockedState, second: BlockedState, work: Work) -> float:
    """Return the lower P_A mass that the composition of two states would send above n."""
    n = first.grid.half_width
    x, y = first.vectors["a_lower"], second.vectors["a_lower"]
    pieces = list(ranges(n + 1, 2 * n + 1, PIECE))
    kept = second.summaries["a_lower"].sums
    # The first and the last piece may be parts of one.
    sums = [kept[start // PIECE] if stop - start == PIECE else float(np.sum(y[start:stop])) for start, stop in pieces]
    above = [total(sums[position + 1 :]) for position in range(len(pieces))]
    step = work.layout.block // PIECE
    tasks = [
        _Overflow(x, y, n, tuple(pieces[start : start + step]), tuple(above[start : start + step]))
        for start in range(0, len(pieces), step)
    ]
    return total(value for part in work.mapper.map(_overflow_part, tasks) for value in part)


@dataclass(frozen=True, eq=False)
class _Overflow:
    """Pieces of y above n, each with the sum of what lies above it."""

    x: BlockedVector
    y: BlockedVector
    n: int
    pieces: tuple[tuple[int, int], ...]
    above: tuple[float, ...]


def _overflow_part(task: _Overflow) -> list[float]:
    """Return what each piece sends above n."""
    first, last = task.pieces[0][0], task.pieces[-1][1]
    n = task.n
    # The range of x that the pieces meet, read once.
    x = _Window(task.x[3 * n - last + 2 : 3 * n - first + 2], 3 * n - last + 2)
    y = _Window(task.y[first:last], first)
    return [_overflow_of(x, y, n, part, above) for part, above in zip(task.pieces, task.above, strict=True)]


class _Window:
    """Some elements of a vector, at their positions in it."""

    def __init__(self, values: FloatArray, start: int) -> None:
        self._values, self._start = values, start
        self.size = start + values.size

    def __getitem__(self, part: slice) -> FloatArray:
        return self._values[part.start - self._start : part.stop - self._start]


def _overflow_of(x: Vector, y: Vector, n: int, part: tuple[int, int], above: float) -> float:
    """Mass that some buckets of y, k at the positions of `part`, send above n: Σ x(j) y(k) over j + k > n.

    Parameters
    ----------
    x, y : Vector
        Masses on -n .. n.
    n : int
    part : (int, int)
        First position and the one after the last, above n and within one piece.
    above : float
        The sum of y behind the part, all of which meets what the buckets here meet.
    """
    start, stop = part
    # x(n - k + 1) is the first that k lifts above n, and every further k does.
    further = np.cumsum(y[start:stop][::-1]) + above
    return float(np.sum(x[3 * n - stop + 2 : 3 * n - start + 2] * further))


def _rounded_total(sums: Iterable[float], count: int, rounding: Rounding) -> float:
    """Sum of `count` masses from the sums of their pieces, rounded to a side."""
    slack = summation_error(count) + 2.0 * UNIT_ROUNDOFF
    return total(sums) * (1.0 + slack if rounding is Rounding.UP else 1.0 - slack)


def _product_up(x: float, y: float) -> float:
    """Product rounded up; 1 times 1 is exact."""
    product = x * y
    if product > _LARGEST_TOTAL:
        raise InvalidInputError(
            "compositions: expected so few that probabilities which sum to more than 1 stay finite,"
            f" got a total of {product:g}"
        )
    return product if product == 1.0 else product * (1.0 + 2.0 * UNIT_ROUNDOFF)


@dataclass(frozen=True)
class SquaringRule:
    """When to square before a composition (Meiser & Mohammadi 2018, Figure 10 and section 4.6).

    The factor is squared first if the composition would otherwise multiply the mass at ∞ by more than `growth` and
    bring it above the budget. For two different states the growth is taken against the mean of their masses at ∞.
    """

    #: 2.2 in the paper; 2 is what composition does without any overflow.
    growth: float = 2.2
    #: Mass at ∞ that does not count.
    free_infty_budget: float = 1e-20


#: Squares as soon as what overflows is more than 5e-5 of what composition alone sends to ∞. The paper's 2.2 lets the
#: mass at ∞ grow by 10 % in every step from losses that are not infinite, which costs the bounds a factor wherever that
#: mass matters.
SHARP_RULE = SquaringRule(growth=2.0001)


def composed_by_rule(first: BlockedState, second: BlockedState, rule: SquaringRule, work: Work) -> BlockedState:
    """Compose two states whose loss widths differ by a power of two, squaring as the rule says.

    The finer state is squared until the grids agree; then both are, if the rule asks for it. What the composition would
    send to ∞ is summed beforehand, without composing. States that are made on the way are removed.

    Raises
    ------
    InvalidInputError
        If squaring cannot make the grids equal.
    """
    given = (first, second)
    same_steps = math.frexp(first.grid.loss_width)[0] == math.frexp(second.grid.loss_width)[0]
    if not same_steps or first.grid.half_width != second.grid.half_width:
        raise InvalidInputError(
            f"compose: expected grids that squaring makes equal, got {first.grid} and {second.grid}"
        )

    def squared(state: BlockedState) -> BlockedState:
        result = square(state, work)
        if state not in given:
            state.remove()
        return result

    while first.grid.loss_width < second.grid.loss_width:
        first = squared(first)
    while second.grid.loss_width < first.grid.loss_width:
        second = squared(second)
    before = first.infinity_a_lower + second.infinity_a_lower
    after = before + overflow(first, second, work)
    if after > rule.free_infty_budget and after > 0.5 * rule.growth * before:
        same = first is second
        first = squared(first)
        second = first if same else squared(second)
    result = compose(first, second, work)
    for state in {id(state): state for state in (first, second)}.values():
        if state not in given:
            state.remove()
    return result


def powers_by_rule(
    leaf: BlockedState, compositions: Sequence[int], rule: SquaringRule, work: Work
) -> Iterator[tuple[int, BlockedState]]:
    """Yield (r, state of r compositions) for each r in `compositions`, in increasing order.

    One ladder of repeated self-composition, r = 1, 2, 4, .., serves all; any other r is composed from its binary
    digits, the finest grids first. Each state may be used until the next one is taken; at the end all are removed,
    except the leaf and the last state.
    """
    wanted = sorted({int(r) for r in compositions})
    rungs = [leaf]
    result = leaf
    for r in wanted:
        if result not in rungs:
            result.remove()
        while len(rungs) < r.bit_length():
            rungs.append(composed_by_rule(rungs[-1], rungs[-1], rule, work))
            report("r =", 1 << (len(rungs) - 1), wanted[-1])
        digits = [rung for position, rung in enumerate(rungs) if r >> position & 1]
        result = digits[0]
        for factors, rung in enumerate(digits[1:], start=2):
            longer = composed_by_rule(result, rung, rule, work)
            if result not in rungs:
                result.remove()
            result = longer
            report(f"r = {r:,}: factor", factors, len(digits))
        yield r, result
    for rung in rungs[1:]:
        if rung is not result:
            rung.remove()
