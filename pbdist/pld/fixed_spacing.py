"""Bounds on lattices of a given spacing: nothing is chosen for a tolerance, and nothing is refined."""

import math
from dataclasses import replace

import numpy as np

from pbdist.errors import InvalidInputError, PrecisionError
from pbdist.pld.choice import Limits
from pbdist.pld.ladder import powers, product_of
from pbdist.pld.leaf import Lattice, leaf_of
from pbdist.pld.loss_profile import LossProfile
from pbdist.pld.question import Question
from pbdist.pld.state import LARGEST_EPSILON, lower_deltas, upper_deltas
from pbdist.types import Direction, FloatArray

#: Positions of a leaf, and of a product, at most.
_MOST_LEAF_SIZE, _MOST_SIZE = 1 << 25, 1 << 25
#: By how much rounding may add to all masses, relative to them.
_ADDED = 1e-9
#: Losses so many nats above the largest ε become infinite.
_MARGIN = 40.0
#: Lattices of fewer positions are not made coarser; about how much larger the others become.
_FEWEST, _GROWN = 512, 4.0
#: Widest spacing, and the farthest loss whose exponential is a float, nats.
_WIDEST, _FARTHEST = 50.0, 690.0
#: Squares of products of masses below 2 to this do not overflow.
_OVERFLOWS = 900.0
#: Losses of next to nothing, nats.
_NARROWEST = 1e-6


def given_width_bounds(
    question: Question, *, width: float | None, positions: int | None
) -> tuple[FloatArray, FloatArray, float]:
    """Bound δ from below and above, shape (2, R, E), on lattices of a spacing or of about so many positions.

    The third value is the spacing that was used, nats: the given one, but at most 50. Before anything is allocated,
    losses that need more positions than are allowed raise a `PrecisionError`.
    """
    positions_needed(question, width=width, positions=positions)
    spacing, lattices = _lattices(question, width, positions)
    largest = min(question.largest, LARGEST_EPSILON) + _MARGIN
    # A number of positions is that of a leaf; coarser lattices keep about that number in later states.
    grows = width is None and question.lattice == 0.0
    spacings = tuple(spacing * 2.0 ** (0.5 * doubling) for doubling in range(64)) if grows else (0.0,)
    limits = Limits(
        question.lost / question.top, math.inf, 0.0, _ADDED, largest, spacings, _FEWEST if grows else 1 << 62
    )
    states = []
    for (pair, count), lattice in zip(question.counts.items(), lattices, strict=True):
        leaf = leaf_of(pair, lattice, question.directions)
        states += [state for _, state in powers(leaf, [count], limits)]
    shape = (2, question.rounds.size, question.epsilon.size)
    lower, upper = np.zeros(shape), np.ones(shape)
    asked = np.minimum(question.epsilon, LARGEST_EPSILON)
    limits = replace(limits, floor=question.lost)
    wanted = question.rounds.tolist() if len(states) == len(question.counts) else []
    try:
        for r, power in powers(product_of(states, limits), wanted, limits) if wanted else ():
            for row in np.flatnonzero(question.rounds == r).tolist():
                for axis, direction in enumerate(question.directions):
                    upper[axis, row] = upper_deltas(power, asked, direction)
                    known = lower_deltas(power, asked, direction)
                    lower[axis, row] = np.where(question.epsilon <= LARGEST_EPSILON, known, 0.0)
    except InvalidInputError:
        # Masses under labels hundreds of nats beside their losses may overflow: no bounds but 0 and 1 then.
        largest = float(np.max([state.largest for state in states]))
        if 2.0 * len(states) * math.log2(max(largest, 1.0)) < _OVERFLOWS:
            raise
    if question.symmetric:
        lower[1], upper[1] = lower[0], upper[0]
    return lower, upper, spacing


def positions_needed(question: Question, *, width: float | None, positions: int | None) -> tuple[int, float]:
    """Return the number of positions of all leaves, and about that of the largest product.

    A `PrecisionError` tells of more than are allowed.
    """
    spacing, lattices = _lattices(question, width, positions)
    sizes = [lattice.high - lattice.low for lattice in lattices]
    if max(sizes) > _MOST_LEAF_SIZE:
        raise PrecisionError(
            f"factor: expected one with which a round's losses take at most {_MOST_LEAF_SIZE} buckets, got"
            f" {max(sizes)} of {spacing:g} nats"
        )
    largest = min(question.largest, LARGEST_EPSILON) + _MARGIN
    deviation = math.sqrt(question.top * max(question.exponents(Direction.A_TO_B).usual_variance, 0.0))
    if width is None and question.lattice == 0.0:
        return sum(sizes), float(_GROWN * max(sizes))
    whole = min(
        2.0 * largest / spacing,
        float(question.top * question.leaves * max(sizes)),
        2.2 * math.sqrt(-2.0 * math.log(question.lost / question.top)) * deviation / spacing + max(sizes),
    )
    if whole > _MOST_SIZE:
        raise PrecisionError(
            f"compositions: expected so few, or a factor so large, that they take at most {_MOST_SIZE} buckets, got"
            f" {whole:.3g} of {spacing:g} nats"
        )
    return sum(sizes), whole


def _lattices(question: Question, width: float | None, positions: int | None) -> tuple[float, list[Lattice]]:
    largest = min(question.largest, LARGEST_EPSILON) + _MARGIN
    ends = [_ends(profile, largest) for profile, _ in question.profiles]
    spacing = width if width is not None else question.lattice if question.lattice <= _WIDEST else 0.0
    if not spacing:
        spacing = max([_NARROWEST, *(high - low for low, high in ends)]) / (positions or 1)
    spacing = min(spacing, _WIDEST)
    lattices = []
    for low, high in ends:
        outermost = math.floor(_FARTHEST / spacing)
        first, last = max(math.floor(low / spacing) - 1, -outermost), min(math.ceil(high / spacing) + 1, outermost)
        lattices.append(Lattice(spacing, 1, (first, last), first, last))
    return spacing, lattices


def _ends(profile: LossProfile, largest: float) -> tuple[float, float]:
    """Where the losses of a pair begin and end, as far as they are looked at."""
    if profile.loss.size == 0:
        return -_NARROWEST, _NARROWEST
    low, high = float(profile.lower[0]), float(profile.upper[-1])
    return max(min(low, -_NARROWEST), -largest), min(max(high, _NARROWEST), largest)
