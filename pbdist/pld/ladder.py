"""Powers of a state: by squaring, on a lattice that grows with the number of compositions.

What is chosen here (when a lattice is made coarser, what is told apart, what is infinite) costs precision, never
validity.

As the deviation of the loss grows, so does the spacing that will do: each time that it has doubled, after two
squarings or so, the core is made twice as coarse, which costs about as much as the leaf's lattice does, once for
each.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pbdist.fourier import Allowance
from pbdist.pld.lattice import Dominating, Exact
from pbdist.pld.product import Window, coarser_core, confined, product, within
from pbdist.pld.state import PairState
from pbdist.progress import report

__all__ = ["Limits", "powers", "product_of"]

#: Where the core is less than this part of what lies at a loss, it need not be finer than the far part.
_FAINT = 1e-7
#: Rare outcomes that tell of any δ occur about so often at most.
_OCCURS = 8.0
#: No mass is nearly as large.
_MEANINGLESS = 1e120


@dataclass(frozen=True)
class Limits:
    """What may be lost.

    Attributes
    ----------
    floor : float
        P_A or P_B mass that, in all compositions together, may become infinite.
    step : float
        Largest product of a spacing and the local slope of ln u where that spacing will do.
    rare : float
        Product of the far part's spacing with the root of its mass, relative to the core's deviation and `step`.
    added : float
        By how much rounding may add to all masses, relative to them.
    largest : float
        ε above which nothing is asked, and some more: what lies above may become infinite, nats.
    spacings : tuple of float
        The largest spacings of the core that will do for 1, 2, 4, .. rounds, nats.
    coarsens : int
        Number of places from which on a core is made coarser.
    """

    floor: float
    step: float
    rare: float
    added: float
    largest: float
    spacings: tuple[float, ...]
    coarsens: int


def powers(leaf: PairState, rounds: Sequence[int], limits: Limits) -> Iterator[tuple[int, PairState]]:
    """Yield the powers of a leaf, for increasing numbers of rounds, as far as rounding leaves them any meaning."""
    top = max(rounds)
    rungs: list[PairState] = [_confined(leaf, 1, top, limits)]
    wanted = sorted(set(rounds))
    before = 0
    for r in wanted:
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
    rows: list[Dominating | Exact] = [
        *state.dominating.rows,
        *(row for each in state.exact.values() for row in each.rows),
    ]
    return all(float(vector.max(initial=0.0)) < _MEANINGLESS for row in rows for vector, _ in row.vectors)


def product_of(states: Sequence[PairState], limits: Limits) -> PairState:
    """Compose different pairs, on the same lattices."""
    result = states[0]
    for state in states[1:]:
        result = _multiplied(result, state, 1, 1, limits)
    return result


def _next(rung: PairState, doubling: int, top: int, limits: Limits) -> PairState:
    squared = product(rung, rung, _allowance((1 << doubling) / top, limits))
    while (
        squared.dominating.far is not None or squared.dominating.core.size >= 2 * limits.coarsens
    ) and 2.0 * squared.dominating.core.spacing <= limits.spacings[min(doubling, len(limits.spacings) - 1)]:
        squared = coarser_core(squared)
    return _confined(squared, 1 << doubling, top, limits)


def _multiplied(state: PairState, rung: PairState, reached: int, top: int, limits: Limits) -> PairState:
    """Multiply a state of more rounds by one of fewer."""
    while rung.dominating.core.spacing < state.dominating.core.spacing:
        rung = coarser_core(rung)
    while state.dominating.core.spacing < rung.dominating.core.spacing:
        state = coarser_core(state)
    return _confined(product(state, rung, _allowance(reached / top, limits)), reached, top, limits)


def _allowance(part: float, limits: Limits) -> Allowance:
    """What rounding may add to a product that is so small a part of all compositions."""
    # What is common occurs 1 / part times in all of them, what is rare a few times.
    return Allowance(limits.floor * part, limits.added * part, limits.added / _OCCURS)


def _confined(state: PairState, reached: int, top: int, limits: Limits) -> PairState:
    """Cut what no question sees, and put what is rare to the far part."""
    state = within(state, _depth(state, limits.floor * reached / top, limits.largest))
    far = state.dominating.far
    if far is None:
        return state
    window = _fine(state.dominating.core, far, limits)
    if window is not None:
        return confined(state, window, far.spacing)
    while state.dominating.far is not None:
        state = coarser_core(state)
    return state


def _depth(state: PairState, floor: float, largest: float) -> Window:
    """Choose a window beyond which A has at most `floor` above, and B below."""
    low, high = -largest, largest
    rows = state.dominating.rows
    ends = []
    for sign in (1.0, -1.0):
        reach = 0.0
        for row in rows:
            losses = row.losses
            with np.errstate(over="ignore"):
                masses = (row.u * np.exp(sign * 0.5 * losses))[:: int(-sign)]
            beyond = np.cumsum(masses)
            kept = int(np.searchsorted(beyond, floor))
            if kept < row.size:
                loss = sign * float(losses[:: int(-sign)][kept])
                reach = max(reach, loss + row.spacing)
        ends.append(reach)
    return Window(max(low, -ends[1]), min(high, ends[0]))


def _fine(core: Dominating, far: Dominating, limits: Limits) -> Window | None:
    """Choose the window of the core: all where ln u is too steep for the far part's spacing, and what is not rare.

    None where all of it may be as coarse as the far part.

    An outcome of the far part adds the variance W²/6 each time that it occurs. With the mass p of all of them, against
    the core's deviation s, that is little where p (W/s)² is.
    """
    ratio = round(far.spacing / core.spacing)
    first = core.first // ratio
    places = np.arange(first, (core.first + core.size - 1) // ratio + 1)
    if places.size < 3:
        return Window(core.spacing * core.first, core.spacing * (core.first + core.size))
    # Whole cells of the far lattice: single places may miss atoms, or be some.
    starts = np.maximum(ratio * places - core.first, 0)
    u = np.add.reduceat(core.u, starts)
    beside = np.zeros(places.size)
    low, high = max(far.first, first), min(far.first + far.size, first + places.size)
    if low < high:
        beside[low - first : high - first] = far.u[low - far.first : high - far.first]
    total = u + beside
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.abs(np.diff(np.log(total)))
    counts = (u >= _FAINT * total) & (u > 0.0)
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
