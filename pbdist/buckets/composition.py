"""Composition and squaring of bucket lists, composition trees, and powers (Definitions 3, 4 and 7, Figure 10)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from pbdist.buckets.delta import delta_lower, delta_upper
from pbdist.buckets.ladder import SHARP_RULE, SquaringRule, composed_by_rule, powers_by_rule
from pbdist.buckets.leaf import corner_mass, leaf_state
from pbdist.buckets.state import VECTORS, BucketList, BucketState, Grid
from pbdist.buckets.sums import PIECE, piece_sums, summation_error, total
from pbdist.errors import InvalidInputError
from pbdist.fourier import Rounding, rounded_convolution
from pbdist.fourier.vectors import Vector, ranges
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, Pair
from pbdist.types import Direction, FloatArray

__all__ = [
    "AT_INFINITY",
    "IN_MEMORY",
    "PAIRING",
    "ROUNDINGS",
    "SHARP_RULE",
    "Composed",
    "Leaf",
    "Squared",
    "SquaringRule",
    "Tree",
    "compose",
    "compose_adaptively",
    "composed_limit",
    "composed_scalars",
    "evaluate",
    "leaf_of",
    "overflow_of",
    "paired",
    "powers",
    "rounded_total",
    "square",
    "squared_scalars",
]


@dataclass(frozen=True)
class Leaf:
    """Leaf of a composition tree: a pair on a grid, in one direction."""

    pair: Pair
    grid: Grid
    direction: Direction = Direction.A_TO_B


@dataclass(frozen=True)
class Squared:
    """Squaring node: the factor of its child is squared."""

    child: "Tree"


@dataclass(frozen=True)
class Composed:
    """Composition node: its two children, seen independently of one another."""

    left: "Tree"
    right: "Tree"


#: To which side each vector is rounded, ..
ROUNDINGS = {
    "a_lower": Rounding.DOWN,
    "a_upper": Rounding.UP,
    "b_upper": Rounding.UP,
    "b_real_lower": Rounding.DOWN,
}
#: .. by which factor where two masses are added, ..
PAIRING = {name: 1.0 + (2.0 if side is Rounding.UP else -2.0) * UNIT_ROUNDOFF for name, side in ROUNDINGS.items()}
#: .. and what goes with it in the bucket ∞.
AT_INFINITY = {"a_lower": "infinity_a_lower", "a_upper": "infinity_a_upper", "b_upper": "infinity_b_upper"}

#: A histogram whose probabilities sum to more than 1 is not composed beyond this total.
_LARGEST_TOTAL = 1e100

Tree: TypeAlias = Leaf | Squared | Composed


def evaluate(tree: Tree) -> BucketState:
    """Return the bucket list of a composition tree, node by node as Definitions 4 and 7 say.

    Raises
    ------
    InvalidInputError
        If the two sides of a composition have different grids.
    """
    match tree:
        case Leaf(pair, grid, direction):
            return leaf_of(pair, grid, direction)
        case Squared(child):
            return square(evaluate(child))
        case Composed(left, right):
            first = evaluate(left)
            return compose(first, first if left is right else evaluate(right))


def leaf_of(pair: Pair, grid: Grid, direction: Direction) -> BucketState:
    """Return the bucket list of one round of a pair on exactly that grid.

    A product's is the composition of its factors' leaves, without squaring; `bounds_table` squares between them.
    """
    states = [leaf_state(factor, grid, direction) for factor in pair.factors]
    result = states[0]
    for state in states[1:]:
        result = compose(result, state)
    return result


def compose(first: BucketState, second: BucketState) -> BucketState:
    """Return the bucket list of two independent bucket lists on one grid (Definition 7's × node).

    Masses are convolved, indices below -n go to -n and those above n to ∞, everything with a factor at ∞ goes to ∞,
    and the corner -n of b_real is set to a(-n) f^n. Convolving b is what the paper's rule for the virtual error term
    amounts to, but at -n, where Definition 7 subtracts a f^-(j+k) and its Lemma 11 needs a f^n.

    Raises
    ------
    InvalidInputError
        If the grids differ.
    """
    n = first.grid.half_width
    same = first is second
    mass_limit = composed_limit(first, second)
    vectors: dict[str, Any] = {}
    beyond: dict[str, float] = {}
    for name, rounding in ROUNDINGS.items():
        x: FloatArray = getattr(first, name)
        y: FloatArray = x if same else getattr(second, name)
        vectors[name], beyond[name] = _fold(rounded_convolution(x, y, rounding, mass_limit), n, rounding)
    vectors["b_real_lower"][0] = corner_mass(float(vectors["a_lower"][0]), first.grid)
    totals = {
        name: tuple(
            rounded_total(piece_sums(getattr(state, name)), 2 * n + 1, ROUNDINGS[name]) for state in (first, second)
        )
        for name in AT_INFINITY
    }
    return BucketState(grid=first.grid, **vectors, **composed_scalars(first, second, totals, beyond))


def composed_limit(first: BucketList, second: BucketList) -> float:
    """Return what no mass of a composition exceeds.

    Raises
    ------
    InvalidInputError
        If the grids differ.
    """
    if first.grid != second.grid:
        raise InvalidInputError(f"compose: expected two states on one grid, got {first.grid} and {second.grid}")
    return product_up(first.mass_limit, second.mass_limit)


def composed_scalars(
    first: BucketList, second: BucketList, totals: Mapping[str, Sequence[float]], beyond: Mapping[str, float]
) -> dict[str, Any]:
    """Return what a composition is but for its vectors and its grid.

    Parameters
    ----------
    first, second : BucketList
    totals : mapping
        For each vector of `AT_INFINITY` the sums of both lists, rounded to the vector's side.
    beyond : mapping
        For each of them what the finite buckets send above n, likewise.
    """
    mass_limit = composed_limit(first, second)
    result: dict[str, Any] = {
        "window": first.window + second.window,
        "loss_error": (first.loss_error + second.loss_error) * (1.0 + 2.0 * UNIT_ROUNDOFF),
        "mass_limit": mass_limit,
    }
    for name, scalar in AT_INFINITY.items():
        finite = totals[name]
        infinite = [float(getattr(state, scalar)) for state in (first, second)]
        mass = beyond[name] + infinite[0] * (finite[1] + infinite[1]) + finite[0] * infinite[1]
        rounded = mass * (1.0 + (8.0 if ROUNDINGS[name] is Rounding.UP else -8.0) * UNIT_ROUNDOFF)
        result[scalar] = min(rounded, mass_limit)
    return result


def square(state: BucketState) -> BucketState:
    """Return the bucket list on the grid of the squared factor: bucket i goes to ⌈i/2⌉, for negative odd i too.

    Bucket -n goes to -n/2, as Definition 6 has it; the formula of Definition 4 leaves it out.
    """
    n = state.grid.half_width
    vectors: dict[str, Any] = {name: paired(getattr(state, name), n, 0, 2 * n + 1) * PAIRING[name] for name in VECTORS}
    return BucketState(grid=state.grid.squared, **vectors, **squared_scalars(state))


def squared_scalars(state: BucketList) -> dict[str, Any]:
    """Return what a squared list is but for its vectors and its grid."""
    return {
        "infinity_a_lower": state.infinity_a_lower,
        "infinity_a_upper": state.infinity_a_upper,
        "infinity_b_upper": state.infinity_b_upper,
        "window": -(-state.window // 2) + 1,
        "loss_error": state.loss_error,
        "mass_limit": state.mass_limit,
    }


def compose_adaptively(first: BucketState, second: BucketState, rule: SquaringRule) -> BucketState:
    """Compose two lists whose loss widths differ by a power of two, squaring as the rule says.

    The finer list is squared until the grids agree; then both are, if the rule asks for it. What the composition would
    send to ∞ is summed beforehand, without composing.

    Raises
    ------
    InvalidInputError
        If squaring cannot make the grids equal.
    """
    return composed_by_rule(first, second, rule, IN_MEMORY)


def powers(leaf: BucketState, compositions: Sequence[int], rule: SquaringRule) -> Iterator[tuple[int, BucketState]]:
    """Yield (r, state of r compositions) for each r asked for, in increasing order.

    One ladder of repeated self-composition, r = 1, 2, 4, .., serves all; any other r is composed from its binary
    digits, the finest grids first.

    Parameters
    ----------
    leaf : BucketState
        One round.
    compositions : sequence of int
        At least 1 each.
    rule : SquaringRule
        When to square.
    """
    return powers_by_rule(leaf, compositions, rule, IN_MEMORY)


class _InMemory:
    """Holds bucket lists whole."""

    def leaf(self, pair: ElementaryPair, grid: Grid, direction: Direction) -> BucketState:
        return leaf_state(pair, grid, direction)

    def compose(self, first: BucketState, second: BucketState) -> BucketState:
        return compose(first, second)

    def square(self, state: BucketState) -> BucketState:
        return square(state)

    def overflow(self, first: BucketState, second: BucketState) -> float:
        return _overflow(first.a_lower, second.a_lower, first.grid.half_width)

    def lower(self, state: BucketState, epsilon: FloatArray) -> FloatArray:
        return delta_lower(state, epsilon)

    def upper(self, state: BucketState, epsilon: FloatArray) -> FloatArray:
        return delta_upper(state, epsilon)

    def gathered(self, state: BucketState) -> BucketState:
        return state

    def release(self, state: BucketState) -> None:
        pass


IN_MEMORY = _InMemory()


def _fold(full: FloatArray, n: int, rounding: Rounding) -> tuple[FloatArray, float]:
    """Cut a convolution, indices -2n .. 2n, to -n .. n: the lower rest goes to -n, the upper rest is returned."""
    finite = full[n : 3 * n + 1].copy()
    finite[0] = rounded_total(piece_sums(full[: n + 1]), n + 1, rounding)
    return finite, rounded_total(piece_sums(full[3 * n + 1 :]), n, rounding)


def rounded_total(sums: Iterable[float], count: int, rounding: Rounding) -> float:
    """Sum of `count` masses from the sums of their pieces, rounded to a side."""
    slack = summation_error(count) + 2.0 * UNIT_ROUNDOFF
    return total(sums) * (1.0 + slack if rounding is Rounding.UP else 1.0 - slack)


def product_up(x: float, y: float) -> float:
    """Product rounded up; 1 times 1 is exact."""
    product = x * y
    if product > _LARGEST_TOTAL:
        raise InvalidInputError(
            "compositions: expected so few that probabilities which sum to more than 1 stay finite,"
            f" got a total of {product:g}"
        )
    return product if product == 1.0 else product * (1.0 + 2.0 * UNIT_ROUNDOFF)


def paired(masses: Vector, n: int, start: int, stop: int) -> FloatArray:
    """Add the buckets 2i - 1 and 2i of a list on -n .. n into bucket i, at the positions from `start` to `stop`."""
    result = np.zeros(stop - start)
    # Position m holds the positions 2m - n - 1 and 2m - n; the first one of them has no partner.
    first, last = max(start, n // 2), min(stop, n // 2 + n + 1)
    if first < last:
        begin, end = 2 * first - n - 1, 2 * last - n - 1
        part = masses[max(begin, 0) : end]
        pairs = part if begin >= 0 else np.concatenate(([0.0], part))
        result[first - start : last - start] = pairs[0::2] + pairs[1::2]
    return result


def overflow_of(x: Vector, y: Vector, n: int, part: tuple[int, int], above: float) -> float:
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


def _overflow(x: FloatArray, y: FloatArray, n: int) -> float:
    """Mass that the composition of two vectors would send above n."""
    pieces = list(ranges(n + 1, 2 * n + 1, PIECE))
    sums = [float(np.sum(y[start:stop])) for start, stop in pieces]
    return total(overflow_of(x, y, n, part, total(sums[position + 1 :])) for position, part in enumerate(pieces))
