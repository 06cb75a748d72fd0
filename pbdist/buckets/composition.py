"""Composition and squaring of bucket lists, composition trees, and powers (Definitions 3, 4 and 7, Figure 10)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pbdist.buckets.convolution import Rounding, rounded_convolution
from pbdist.buckets.leaf import corner_mass, leaf_state
from pbdist.buckets.state import BucketState, Grid
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import UNIT_ROUNDOFF, Pair
from pbdist.types import Direction, FloatArray

__all__ = [
    "SHARP_RULE",
    "Composed",
    "Leaf",
    "Squared",
    "SquaringRule",
    "Tree",
    "compose",
    "compose_adaptively",
    "evaluate",
    "leaf_of",
    "powers",
    "square",
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


#: A histogram whose probabilities sum to more than 1 is not composed beyond this total.
_LARGEST_TOTAL = 1e100

Tree: TypeAlias = Leaf | Squared | Composed


@dataclass(frozen=True)
class SquaringRule:
    """When to square before a composition (Meiser & Mohammadi 2018, Figure 10 and section 4.6).

    The factor is squared first if the composition would otherwise multiply the mass at ∞ by more than `growth` and
    bring it above the budget. For two different lists the growth is taken against the mean of their masses at ∞.

    Attributes
    ----------
    growth : float
        2.2 in the paper; 2 is what composition does without any overflow.
    free_infty_budget : float
        Mass at ∞ that does not count.
    """

    growth: float = 2.2
    free_infty_budget: float = 1e-20


#: Squares as soon as what overflows is more than 5e-5 of what composition alone sends to ∞. The paper's 2.2 lets the
#: mass at ∞ grow by 10 % in every step from losses that are not infinite, which costs the bounds a factor wherever that
#: mass matters.
SHARP_RULE = SquaringRule(growth=2.0001)


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
    if first.grid != second.grid:
        raise InvalidInputError(f"compose: expected two states on one grid, got {first.grid} and {second.grid}")
    n = first.grid.half_width
    same = first is second
    mass_limit = _product_up(first.mass_limit, second.mass_limit)

    def convolved(name: str, rounding: Rounding) -> tuple[FloatArray, float]:
        x: FloatArray = getattr(first, name)
        y: FloatArray = x if same else getattr(second, name)
        return _fold(rounded_convolution(x, y, rounding, mass_limit), n, rounding)

    a_lower, beyond_a_lower = convolved("a_lower", Rounding.DOWN)
    a_upper, beyond_a_upper = convolved("a_upper", Rounding.UP)
    b_upper, beyond_b_upper = convolved("b_upper", Rounding.UP)
    b_real_lower, _ = convolved("b_real_lower", Rounding.DOWN)
    b_real_lower[0] = corner_mass(float(a_lower[0]), first.grid)

    def at_infinity(vector: str, scalar: str, beyond: float, rounding: Rounding) -> float:
        finite = [_total(getattr(state, vector), rounding) for state in (first, second)]
        infinite = [float(getattr(state, scalar)) for state in (first, second)]
        total = beyond + infinite[0] * (finite[1] + infinite[1]) + finite[0] * infinite[1]
        rounded = total * (1.0 + (8.0 if rounding is Rounding.UP else -8.0) * UNIT_ROUNDOFF)
        return min(rounded, mass_limit)

    return BucketState(
        grid=first.grid,
        a_lower=a_lower,
        a_upper=a_upper,
        b_upper=b_upper,
        b_real_lower=b_real_lower,
        infinity_a_lower=at_infinity("a_lower", "infinity_a_lower", beyond_a_lower, Rounding.DOWN),
        infinity_a_upper=at_infinity("a_upper", "infinity_a_upper", beyond_a_upper, Rounding.UP),
        infinity_b_upper=at_infinity("b_upper", "infinity_b_upper", beyond_b_upper, Rounding.UP),
        window=first.window + second.window,
        loss_error=(first.loss_error + second.loss_error) * (1.0 + 2.0 * UNIT_ROUNDOFF),
        mass_limit=mass_limit,
    )


def square(state: BucketState) -> BucketState:
    """Return the bucket list on the grid of the squared factor: bucket i goes to ⌈i/2⌉, for negative odd i too.

    Bucket -n goes to -n/2, as Definition 6 has it; the formula of Definition 4 leaves it out.
    """
    n = state.grid.half_width
    up, down = 1.0 + 2.0 * UNIT_ROUNDOFF, 1.0 - 2.0 * UNIT_ROUNDOFF
    return BucketState(
        grid=state.grid.squared,
        a_lower=_paired(state.a_lower, n) * down,
        a_upper=_paired(state.a_upper, n) * up,
        b_upper=_paired(state.b_upper, n) * up,
        b_real_lower=_paired(state.b_real_lower, n) * down,
        infinity_a_lower=state.infinity_a_lower,
        infinity_a_upper=state.infinity_a_upper,
        infinity_b_upper=state.infinity_b_upper,
        window=-(-state.window // 2) + 1,
        loss_error=state.loss_error,
        mass_limit=state.mass_limit,
    )


def compose_adaptively(first: BucketState, second: BucketState, rule: SquaringRule) -> BucketState:
    """Compose two lists whose loss widths differ by a power of two, squaring as the rule says.

    The finer list is squared until the grids agree; then both are, if the rule asks for it. What the composition would
    send to ∞ is summed beforehand, without composing.

    Raises
    ------
    InvalidInputError
        If squaring cannot make the grids equal.
    """
    same = first is second
    same_steps = math.frexp(first.grid.loss_width)[0] == math.frexp(second.grid.loss_width)[0]
    if not same_steps or first.grid.half_width != second.grid.half_width:
        raise InvalidInputError(
            f"compose: expected grids that squaring makes equal, got {first.grid} and {second.grid}"
        )
    while first.grid.loss_width < second.grid.loss_width:
        first = square(first)
    while second.grid.loss_width < first.grid.loss_width:
        second = square(second)
    before = first.infinity_a_lower + second.infinity_a_lower
    after = before + _overflow(first.a_lower, second.a_lower, first.grid.half_width)
    if after > rule.free_infty_budget and after > 0.5 * rule.growth * before:
        first = square(first)
        second = first if same else square(second)
    return compose(first, second)


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
    wanted = sorted({int(r) for r in compositions})
    rungs = [leaf]
    for r in wanted:
        while len(rungs) < r.bit_length():
            rungs.append(compose_adaptively(rungs[-1], rungs[-1], rule))
        digits = [rung for position, rung in enumerate(rungs) if r >> position & 1]
        result = digits[0]
        for rung in digits[1:]:
            result = compose_adaptively(result, rung, rule)
        yield r, result


def _fold(full: FloatArray, n: int, rounding: Rounding) -> tuple[FloatArray, float]:
    """Cut a convolution, indices -2n .. 2n, to -n .. n: the lower rest goes to -n, the upper rest is returned."""
    finite = full[n : 3 * n + 1].copy()
    finite[0] = _total(full[: n + 1], rounding)
    return finite, _total(full[3 * n + 1 :], rounding)


def _total(masses: FloatArray, rounding: Rounding) -> float:
    """Sum of masses, rounded to a side whatever the order of summation."""
    slack = (masses.size + 2.0) * UNIT_ROUNDOFF
    return float(np.sum(masses)) * (1.0 + slack if rounding is Rounding.UP else 1.0 - slack)


def _product_up(x: float, y: float) -> float:
    """Product rounded up; 1 times 1 is exact."""
    product = x * y
    if product > _LARGEST_TOTAL:
        raise InvalidInputError(
            "compositions: expected so few that probabilities which sum to more than 1 stay finite,"
            f" got a total of {product:g}"
        )
    return product if product == 1.0 else product * (1.0 + 2.0 * UNIT_ROUNDOFF)


def _paired(masses: FloatArray, n: int) -> FloatArray:
    """Add buckets 2i - 1 and 2i into bucket i."""
    result = np.zeros_like(masses)
    result[n // 2 : n // 2 + n + 1] = np.concatenate(([0.0], masses)).reshape(n + 1, 2).sum(axis=1)
    return result


def _overflow(x: FloatArray, y: FloatArray, n: int) -> float:
    """Mass that the composition of two vectors would send above n: Σ x(j) y(k) over j + k > n."""
    above = np.concatenate((np.cumsum(y[::-1])[::-1], np.zeros(1)))
    # j + k > n for k > n - j, with j = n .. 1 (nothing else can exceed n); index of k in the vector is k + n.
    j = np.arange(1, n + 1)
    return float(np.sum(x[j + n] * above[2 * n - j + 1]))
