"""Composition and squaring of states, and the mass that a composition would send to ∞ (Definitions 4 and 7)."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
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
)
from pbdist.buckets.leaf import corner_mass
from pbdist.buckets.state import VECTORS, BlockedState, StateHead, check_masses
from pbdist.errors import InvalidInputError
from pbdist.fourier import Rounding
from pbdist.fourier.vectors import Vector, ranges
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.progress import report
from pbdist.types import FloatArray

#: To which side each vector is rounded, ..
_ROUNDINGS = {"a_lower": Rounding.DOWN, "a_upper": Rounding.UP, "b_upper": Rounding.UP, "b_real_lower": Rounding.DOWN}
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
    """
    mass_limit = _product_up(first.mass_limit, second.mass_limit)
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
        write = partial(_write_folded, convolution, vectors[name], n, lowest)
        summaries[name] = Summary.joined(work.mapper.map(write, work.groups(2 * n + 1)))
        convolution.remove()
    totals = {
        name: [_rounded_total(state.summaries[name].sums, 2 * n + 1, _ROUNDINGS[name]) for state in (first, second)]
        for name in _AT_INFINITY
    }
    return BlockedState.of(first.grid, vectors, summaries, _composed_scalars(first, second, totals, beyond))


def _write_folded(
    convolution: Convolution, vector: BlockedVector, n: int, lowest: float, part: tuple[int, int]
) -> Summary:
    """Write consecutive blocks of a composition, read off its convolution; `lowest` is the mass of its first bucket."""
    start, stop = part
    values = convolution.read(n + start, n + stop)
    if start == 0:
        values[0] = lowest
    return _written(vector, start, values)


def _written(vector: BlockedVector, start: int, values: FloatArray) -> Summary:
    check_masses(vector.name, values, values.size)
    return vector.write(start, values)


def _sums(convolution: Convolution, offset: int, size: int, work: Work) -> list[float]:
    """Sum the pieces of a part of a convolution, counted from `offset`."""
    parts = work.mapper.map(partial(_summed_part, convolution, offset), work.groups(size))
    return [value for part in parts for value in part]


def _summed_part(convolution: Convolution, offset: int, part: tuple[int, int]) -> list[float]:
    start, stop = part
    return piece_sums(convolution.read(offset + start, offset + stop), start)


def _composed_scalars(
    first: StateHead, second: StateHead, totals: Mapping[str, Sequence[float]], beyond: Mapping[str, float]
) -> dict[str, Any]:
    """Return the scalars of a composition.

    For each vector of `_AT_INFINITY`, rounded to its side, `totals` has the sums of both states, and `beyond` the mass
    that the finite buckets send above n.
    """
    mass_limit = _product_up(first.mass_limit, second.mass_limit)
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
    n = state.grid.half_width
    vectors = work.new_vectors(VECTORS, 2 * n + 1)
    summaries = {}
    for name in VECTORS:
        write = partial(_write_paired, state.vectors[name], vectors[name], n, _PAIRING[name])
        summaries[name] = Summary.joined(work.mapper.map(write, work.groups(2 * n + 1)))
    scalars = {
        "infinity_a_lower": state.infinity_a_lower,
        "infinity_a_upper": state.infinity_a_upper,
        "infinity_b_upper": state.infinity_b_upper,
        "window": -(-state.window // 2) + 1,
        "loss_error": state.loss_error,
        "mass_limit": state.mass_limit,
    }
    return BlockedState.of(state.grid.squared, vectors, summaries, scalars)


def _write_paired(
    source: BlockedVector, vector: BlockedVector, n: int, factor: float, part: tuple[int, int]
) -> Summary:
    """Write consecutive blocks of a squared state."""
    return Summary.joined(
        _written(vector, start, _paired(source, n, start, stop) * factor) for start, stop in ranges(*part, vector.block)
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
    known = second.summaries["a_lower"].sums
    # The first and the last piece may be parts of one.
    sums = [known[start // PIECE] if stop - start == PIECE else float(np.sum(y[start:stop])) for start, stop in pieces]
    parts = [(piece, math.fsum(sums[position + 1 :])) for position, piece in enumerate(pieces)]
    step = work.layout.block // PIECE
    tasks = [parts[start : start + step] for start in range(0, len(parts), step)]
    return math.fsum(value for part in work.mapper.map(partial(_overflow_part, x, y, n), tasks) for value in part)


def _overflow_part(
    x: BlockedVector, y: BlockedVector, n: int, parts: Sequence[tuple[tuple[int, int], float]]
) -> list[float]:
    """Return Σ x(j) y(k) over j + k > n for pieces of y, each given with the sum of y above it."""
    first, last = parts[0][0][0], parts[-1][0][1]
    # The range of x that the pieces meet, read once.
    low = 3 * n - last + 2
    masses_x, masses_y = x[low : 3 * n - first + 2], y[first:last]
    sums = []
    for (start, stop), above in parts:
        # x(n - k + 1) is the first that k lifts above n, and every further k does.
        further = np.cumsum(masses_y[start - first : stop - first][::-1]) + above
        sums.append(float(np.sum(masses_x[3 * n - stop + 2 - low : 3 * n - start + 2 - low] * further)))
    return sums


def _rounded_total(sums: Iterable[float], count: int, rounding: Rounding) -> float:
    """Sum of `count` masses from the sums of their pieces, rounded to a side."""
    slack = summation_error(count) + 2.0 * UNIT_ROUNDOFF
    return math.fsum(sums) * (1.0 + slack if rounding is Rounding.UP else 1.0 - slack)


def _product_up(x: float, y: float) -> float:
    """Product rounded up; 1 times 1 is exact."""
    product = x * y
    if product > _LARGEST_TOTAL:
        raise InvalidInputError(
            "compositions: probabilities that sum to more than 1 overflow; take fewer compositions,"
            f" or scale the probabilities to sum to 1 (their total is {product:g})"
        )
    return product if product == 1.0 else product * (1.0 + 2.0 * UNIT_ROUNDOFF)


#: States are squared before a composition (Meiser & Mohammadi 2018, Figure 10 and section 4.6) that would multiply the
#: mean of their masses at ∞ by more than this. Without any overflow it doubles. The paper's 2.2 lets the mass at ∞ grow
#: by 10 % in every step from losses that are not infinite, which costs the bounds a factor wherever that mass matters.
GROWTH = 2.0001
#: Mass at ∞ up to which nothing is squared.
FREE_MASS = 1e-20


def composed_adaptively(first: BlockedState, second: BlockedState, work: Work) -> BlockedState:
    """Compose two states whose loss widths differ by a power of two, squaring where `GROWTH` asks for it.

    The finer state is squared until the grids agree. The mass that the composition would send to ∞ is summed
    beforehand, without composing. Intermediate states are removed.
    """
    given = (first, second)
    same_steps = math.frexp(first.grid.loss_width)[0] == math.frexp(second.grid.loss_width)[0]
    if not same_steps or first.grid.half_width != second.grid.half_width:
        raise InvalidInputError(f"compose: squaring must make the grids equal, got {first.grid} and {second.grid}")

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
    if after > FREE_MASS and after > 0.5 * GROWTH * before:
        same = first is second
        first = squared(first)
        second = first if same else squared(second)
    result = compose(first, second, work)
    for state in {id(state): state for state in (first, second)}.values():
        if state not in given:
            state.remove()
    return result


def powers(leaf: BlockedState, compositions: Sequence[int], work: Work) -> Iterator[tuple[int, BlockedState]]:
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
            rungs.append(composed_adaptively(rungs[-1], rungs[-1], work))
            report("r =", 1 << (len(rungs) - 1), wanted[-1])
        digits = [rung for position, rung in enumerate(rungs) if r >> position & 1]
        result = digits[0]
        for factors, rung in enumerate(digits[1:], start=2):
            longer = composed_adaptively(result, rung, work)
            if result not in rungs:
                result.remove()
            result = longer
            report(f"r = {r:,}: factor", factors, len(digits))
        yield r, result
    for rung in rungs[1:]:
        if rung is not result:
            rung.remove()
