"""The leaf of a composition tree: one pair's masses sorted into loss buckets (Definition 4)."""

import math

import numpy as np

from pbdist.buckets.state import BucketState, Grid
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, LossMasses, MassBounds
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

__all__ = ["corner_mass", "leaf_state"]


def leaf_state(pair: ElementaryPair, grid: Grid, direction: Direction = Direction.A_TO_B) -> BucketState:
    """Sort one pair into the buckets of a grid.

    Parameters
    ----------
    pair : ElementaryPair
        The pair (A, B).
    grid : Grid
        The buckets.
    direction : Direction, optional
        Which of the two distributions plays P_A.

    Returns
    -------
    BucketState
        With u = 1. An atom whose loss lies within its rounding error of a bucket's edge i h is taken to lie on the
        edge, hence in bucket i; the distance is part of the state's ``loss_error``.
    """
    n, h = grid.half_width, grid.loss_width
    masses = pair.directed_loss_masses(grid.indices * h, direction)
    place, atom_error = _places(masses, grid)
    finite = (place <= n).astype(np.bool_)

    a_lower, a_upper, a_beyond = _collect(masses.cells_a, masses.atoms_a, place, finite, grid)
    b_lower, b_upper, b_beyond = _collect(masses.cells_b, masses.atoms_b, place, finite, grid)
    # Events that A lacks have a loss of -inf.
    b_upper[0] = (b_upper[0] + float(masses.only_b.upper[0])) * (1.0 + 2.0 * UNIT_ROUNDOFF)
    b_lower[0] = corner_mass(float(a_lower[0]), grid)
    state = BucketState(
        grid=grid,
        a_lower=a_lower,
        a_upper=a_upper,
        b_upper=b_upper,
        b_real_lower=b_lower,
        infinity_a_lower=(float(a_beyond.lower[0]) + float(masses.only_a.lower[0])) * (1.0 - 2.0 * UNIT_ROUNDOFF),
        infinity_a_upper=(float(a_beyond.upper[0]) + float(masses.only_a.upper[0])) * (1.0 + 2.0 * UNIT_ROUNDOFF),
        infinity_b_upper=float(b_beyond.upper[0]),
        window=1,
        # The edges themselves are products i h, rounded once.
        loss_error=(max(masses.loss_error, atom_error) + 2.0 * UNIT_ROUNDOFF * n * h) * (1.0 + 4.0 * UNIT_ROUNDOFF),
        mass_limit=max(pair.total_mass),
    )
    for name, total in (
        ("A", float(np.sum(state.a_upper)) + state.infinity_a_upper),
        ("B", float(np.sum(state.b_upper)) + state.infinity_b_upper),
    ):
        # No event may be lost on the way into the buckets; histograms may sum to a little less than 1.
        if not total >= 1.0 - 2e-9:
            raise InvalidInputError(f"mechanism: expected parameters that keep all mass of {name}, got {shown(pair)}")
    return state


def corner_mass(a: float, grid: Grid) -> float:
    """Return a f^n rounded down: the P_B mass that the real error term credits to a mass a in the corner -n."""
    if a <= 0.0:
        return 0.0
    exponent = math.log(a) + grid.half_width * grid.loss_width
    slack = (8.0 + 4.0 * (abs(math.log(a)) + grid.half_width * grid.loss_width)) * UNIT_ROUNDOFF
    # a f^n is at most the P_B mass of the same events; only rounding can lift it above 1.
    return math.exp(min(exponent, 0.0) - slack)


def _places(masses: LossMasses, grid: Grid) -> tuple[IntArray, float]:
    """Bucket index of each atom (n + 1 for ∞), and by how much an atom's exact loss may miss its bucket, nats."""
    n, h = grid.half_width, grid.loss_width
    loss = masses.atom_loss
    if loss.size == 0:
        return np.zeros(0, dtype=np.int64), 0.0
    quotient = np.clip(loss / h, -float(n) - 1.0, float(n) + 1.0)
    nearest = np.rint(quotient)
    tolerance = masses.loss_error / h + 4.0 * UNIT_ROUNDOFF * np.abs(quotient)
    place = np.where(np.abs(quotient - nearest) <= tolerance, nearest, np.ceil(quotient))
    place = np.maximum(place, -float(n))
    placed = np.isfinite(loss) & (place <= n)
    loss, index = loss[placed], place[placed]
    rounding = 2.0 * UNIT_ROUNDOFF * (np.abs(loss) + np.abs(index) * h) + masses.loss_error
    above = loss + rounding - index * h
    below = np.where(index > -n, (index - 1.0) * h - (loss - rounding), 0.0)
    return place.astype(np.int64), float(np.max(np.maximum(above, below), initial=0.0))


def _collect(
    cells: MassBounds, atoms: MassBounds, place: IntArray, finite: BoolArray, grid: Grid
) -> tuple[FloatArray, FloatArray, MassBounds]:
    """Add the atoms to the cells: lower and upper masses of the finite buckets, and the mass beyond them."""
    n = grid.half_width
    size = 2 * n + 1
    index = place[finite] + n
    count = np.bincount(index, minlength=size)
    slack = (count + 2.0) * UNIT_ROUNDOFF
    lower = cells.lower[:size] + np.bincount(index, weights=atoms.lower[finite], minlength=size)
    upper = cells.upper[:size] + np.bincount(index, weights=atoms.upper[finite], minlength=size)
    beyond = MassBounds(
        np.array([(float(cells.lower[-1]) + math.fsum(atoms.lower[~finite])) * (1.0 - 4.0 * UNIT_ROUNDOFF)]),
        np.array([(float(cells.upper[-1]) + math.fsum(atoms.upper[~finite])) * (1.0 + 4.0 * UNIT_ROUNDOFF)]),
    )
    return lower * (1.0 - slack), upper * (1.0 + slack), beyond
