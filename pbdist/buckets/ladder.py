"""When to square, and ladders of repeated composition, whatever holds the bucket lists."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pbdist.buckets.state import BucketList, BucketState, Grid
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import ElementaryPair
from pbdist.progress import report
from pbdist.types import Direction, FloatArray

__all__ = ["SHARP_RULE", "Engine", "Operations", "SquaringRule", "composed_by_rule", "powers_by_rule"]


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


State = TypeVar("State", bound=BucketList)


class Operations(Protocol[State]):
    """What can be done with bucket lists, held in memory or in blocks."""

    def compose(self, first: State, second: State) -> State:
        """Return the composition of two lists on one grid."""

    def square(self, state: State) -> State:
        """Return the list on the grid of the squared factor."""

    def overflow(self, first: State, second: State) -> float:
        """Return the lower P_A mass that the composition of two lists would send above n."""

    def release(self, state: State) -> None:
        """Give up what holds a list that nothing needs any more."""


class Engine(Operations[State], Protocol[State]):
    """Everything that a table of bounds needs done with bucket lists."""

    def leaf(self, pair: ElementaryPair, grid: Grid, direction: Direction) -> State:
        """Return the list of one round of one pair."""

    def lower(self, state: State, epsilon: FloatArray) -> FloatArray:
        """Return the bounds of `pbdist.buckets.delta_lower`."""

    def upper(self, state: State, epsilon: FloatArray) -> FloatArray:
        """Return the bounds of `pbdist.buckets.delta_upper`."""

    def gathered(self, state: State) -> BucketState:
        """Return the list held in memory as a whole."""


def composed_by_rule(first: State, second: State, rule: SquaringRule, operations: Operations[State]) -> State:
    """Compose two lists whose loss widths differ by a power of two, squaring as the rule says.

    As `pbdist.buckets.compose_adaptively`, which see; lists that are made on the way are released.

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

    def squared(state: State) -> State:
        result = operations.square(state)
        if state not in given:
            operations.release(state)
        return result

    while first.grid.loss_width < second.grid.loss_width:
        first = squared(first)
    while second.grid.loss_width < first.grid.loss_width:
        second = squared(second)
    before = first.infinity_a_lower + second.infinity_a_lower
    after = before + operations.overflow(first, second)
    if after > rule.free_infty_budget and after > 0.5 * rule.growth * before:
        same = first is second
        first = squared(first)
        second = first if same else squared(second)
    result = operations.compose(first, second)
    for state in {id(state): state for state in (first, second)}.values():
        if state not in given:
            operations.release(state)
    return result


def powers_by_rule(
    leaf: State, compositions: Sequence[int], rule: SquaringRule, operations: Operations[State]
) -> Iterator[tuple[int, State]]:
    """Yield (r, state of r compositions) for each r asked for, in increasing order.

    As `pbdist.buckets.powers`, which see. Each state may be used until the next one is asked for; all are released at
    the end, but for the leaf and the last state.
    """
    wanted = sorted({int(r) for r in compositions})
    rungs = [leaf]
    result = leaf
    for r in wanted:
        if result not in rungs:
            operations.release(result)
        while len(rungs) < r.bit_length():
            rungs.append(composed_by_rule(rungs[-1], rungs[-1], rule, operations))
            report("r =", 1 << (len(rungs) - 1), wanted[-1])
        digits = [rung for position, rung in enumerate(rungs) if r >> position & 1]
        result = digits[0]
        for factors, rung in enumerate(digits[1:], start=2):
            longer = composed_by_rule(result, rung, rule, operations)
            if result not in rungs:
                operations.release(result)
            result = longer
            report(f"r = {r:,}: factor", factors, len(digits))
        yield r, result
    for rung in rungs[1:]:
        if rung is not result:
            operations.release(rung)
