"""When to square, and ladders of repeated composition."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pbdist.buckets.composition import compose, overflow, square
from pbdist.buckets.layout import Work
from pbdist.buckets.state import BlockedState
from pbdist.errors import InvalidInputError
from pbdist.progress import report


@dataclass(frozen=True)
class SquaringRule:
    """When to square before a composition (Meiser & Mohammadi 2018, Figure 10 and section 4.6).

    The factor is squared first if the composition would otherwise multiply the mass at ∞ by more than `growth` and
    bring it above the budget. For two different states the growth is taken against the mean of their masses at ∞.

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
