"""Turn one pair's certified float masses into fixed-point masses on the grid, for the lower and the upper bound."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, LossMasses, MassBounds
from pbdist.types import BoolArray, Direction, FloatArray, IntArray
from pbdist.verify.exact_power import (
    Ball,
    DominatingMasses,
    FixedPoint,
    SubsetMasses,
    ball_precision,
    flint_module,
    floor_shifted,
)

#: Many mechanisms resolve no mass below 2e-290 in each of the few bins that are probed for the window.
_LOG_UNRESOLVED = math.log(1e-288)
#: Bits of arb arithmetic beyond the fixed point: for the masses' own scale and the length of the sums.
_GUARD_BITS = 96


@dataclass(frozen=True, eq=False)
class EventGroups:
    """The events of a pair along the losses i h, in groups that do not overlap."""

    #: The window: losses up to ``first`` h count as ``first`` h, losses above ``last`` h are beyond it.
    first: int
    last: int
    #: Group k lies in ((index - 1) h, index h], but for `loss_error`; index ``first`` holds all that is lower. Shape
    #: (k,).
    index: IntArray
    #: Whether the group's loss is at most index h + loss_error and it is not split (it may lie anywhere below). Shape
    #: (k,).
    on_edge: BoolArray
    #: a_lower, a_upper, b_lower, b_upper, and the logarithms of the factors that a and b must be multiplied by. Shape
    #: (6, k).
    masses: FloatArray
    #: The same of the groups above the window; b_lower is 0 where the loss is not known to be above it. Shape (6, l).
    beyond: FloatArray
    #: How far outside its bin, or above its edge, the exact loss of an event may lie, nats.
    loss_error: Fraction


def event_groups(pair: ElementaryPair, direction: Direction, loss_width: float, fixed: FixedPoint) -> EventGroups:
    """Sort one pair's events into the bins of a window that holds all but a negligible part of P_A.

    The grid is i h for whole i, exactly. At most one unit of P_A lies outside the window at either end, or 1e-288 where
    the mechanism resolves no less; no mass is lost. A window of more than ``fixed.max_bins`` bins, and masses that do
    not sum to 1, are an `InvalidInputError`.
    """
    first, last = _window(pair, direction, loss_width, fixed)
    fixed.checked_length(last - first + 1)
    whole = np.arange(first, last + 1, dtype=np.int64)
    edges: FloatArray = np.multiply(whole, loss_width, dtype=np.float64)
    scaled = pair.scaled_loss_masses(edges, direction)
    masses = scaled.masses
    atom_index, atom_on_edge, loss_error = _atom_indices(masses, loss_width, first)
    bins = _columns(masses.bins_a, masses.bins_b, scaled.log_scale_a, scaled.log_scale_b)
    atoms = _columns(masses.atoms_a, masses.atoms_b, scaled.atoms_log_scale_a, scaled.atoms_log_scale_b)
    if np.any(bins[1] > 0.0):
        # The masses belong to the float edges, each one rounding away from i h.
        rounding = Fraction(UNIT_ROUNDOFF) * Fraction(float(np.max(np.abs(edges))))
        loss_error = max(loss_error, Fraction(masses.loss_error) + rounding)
    inside = atom_index <= last
    above = atoms[:, ~inside]
    # An infinite loss says only that it is not known.
    above[2, np.isinf(masses.atom_loss[~inside])] = 0.0
    only = np.zeros((6, 1))
    only[0], only[1] = masses.only_a.lower, masses.only_a.upper
    total = math.fsum(bins[1]) + math.fsum(atoms[1]) + float(masses.only_a.upper[0])
    # No event may be lost on the way into the bins; histograms may sum to a little less than 1.
    if not total >= 1.0 - 2e-9:
        raise InvalidInputError(f"components: expected parameters that keep all mass of A, got {shown(pair)}")
    return EventGroups(
        first=first,
        last=last,
        index=np.concatenate((whole, atom_index[inside])),
        on_edge=np.concatenate((whole == first, atom_on_edge[inside])),
        masses=np.concatenate((bins[:, :-1], atoms[:, inside]), axis=1),
        beyond=np.concatenate((bins[:, -1:], above, only), axis=1),
        loss_error=loss_error,
    )


def subset_leaf(groups: EventGroups, fixed: FixedPoint) -> SubsetMasses:
    """Return the exact events for a lower bound: P_A rounded down, P_B rounded up, each group in its bin."""
    flint = flint_module()
    size = groups.last - groups.first + 1
    a, b = [0] * size, [0] * size
    with ball_precision(fixed.bits + _GUARD_BITS):
        columns = groups.masses[[0, 3, 4, 5]].T.tolist()
        for index, (a_lower, b_upper, log_a, log_b) in zip(
            (groups.index - groups.first).tolist(), columns, strict=True
        ):
            a[index] += _down(a_lower, log_a, fixed)
            b[index] += _up(b_upper, log_b, fixed)
        infinity_a = sum(_down(mass, log_scale, fixed) for mass, log_scale in groups.beyond[[0, 4]].T.tolist())
        infinity_b = sum(_up(mass, log_scale, fixed) for mass, log_scale in groups.beyond[[3, 5]].T.tolist())
    start = next((index for index, mass in enumerate(a) if mass), size)
    stop = max((index + 1 for index, mass in enumerate(a) if mass), default=start)
    return SubsetMasses(
        first=groups.first + start,
        a=flint.fmpz_poly(a[start:stop]),
        b=flint.fmpz_poly(b[start:stop]),
        infinity_a=infinity_a,
        infinity_b=infinity_b,
    )


def dominating_leaf(groups: EventGroups, loss_width: float, fixed: FixedPoint) -> DominatingMasses:
    """Return on-grid masses that dominate the pair (A, e^η B), η the groups' `loss_error`.

    With t = e^η P_B/P_A of an event: the event's share of any composition's δ is a non-increasing and convex function
    of t. A group of bin i has t >= f^-i, and after lowering t where it exceeds f^-(i-1), by no more than e^-2η,
    t lies in [f^-i, f^-(i-1)] with a mean of at least e^-η b/a. The chord between the two ends at that mean is at least
    the function. More P_A mass, and less at i - 1 in favour of i, only raise the sum: so a is taken at its upper value,
    b at its lower one, and the part at i - 1, (b e^-η f^i - a) / (f - 1), is rounded down. Above the window the same
    holds with [0, f^-last]. What is on an edge, or below the window, has t >= f^-i and goes to i whole.

    Source: Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, "Connect the Dots" (2022), arXiv 2207.04380.
    """
    flint = flint_module()
    size = groups.last - groups.first + 1
    units = [0] * size
    infinity = 0
    with ball_precision(fixed.bits + _GUARD_BITS):
        width = flint.arb(loss_width)
        # As a ball, η may be enclosed; its exponential is rounded down with the rest.
        error = flint.arb(flint.fmpq(groups.loss_error.numerator, groups.loss_error.denominator))
        per_unit = 1 / width.expm1()
        columns = groups.masses[[1, 2, 4, 5]].T.tolist()
        for index, whole, (a_upper, b_lower, log_a, log_b) in zip(
            groups.index.tolist(), groups.on_edge.tolist(), columns, strict=True
        ):
            if a_upper == 0.0:
                continue
            total, lower_part = _up(a_upper, log_a, fixed), 0
            if not whole and b_lower > 0.0:
                excess = flint.arb(b_lower) * (width * index - error + log_b).exp() - _ball(a_upper, log_a)
                lower_part = min(max(floor_shifted(excess * per_unit, fixed.bits), 0), total)
                units[index - 1 - groups.first] += lower_part
            units[index - groups.first] += total - lower_part
        for a_upper, b_lower, log_a, log_b in groups.beyond[[1, 2, 4, 5]].T.tolist():
            total = _up(a_upper, log_a, fixed)
            most = flint.arb(b_lower) * (width * groups.last - error + log_b).exp()
            finite = min(floor_shifted(most, fixed.bits), total)
            units[-1] += finite
            infinity += total - finite
    return DominatingMasses(groups.first, flint.fmpz_poly(units), infinity)


def _columns(a: MassBounds, b: MassBounds, log_scale_a: FloatArray, log_scale_b: FloatArray) -> FloatArray:
    return np.stack((a.lower, a.upper, b.lower, b.upper, log_scale_a, log_scale_b))


def _ball(mass: float, log_scale: float) -> Ball:
    """Return ``mass * exp(log_scale)``, enclosed."""
    arb = flint_module().arb
    return arb(mass) * arb(log_scale).exp() if log_scale and mass else arb(mass)


def _down(mass: float, log_scale: float, fixed: FixedPoint) -> int:
    return floor_shifted(_ball(mass, log_scale), fixed.bits)


def _up(mass: float, log_scale: float, fixed: FixedPoint) -> int:
    return -floor_shifted(-_ball(mass, log_scale), fixed.bits)


def _window(pair: ElementaryPair, direction: Direction, loss_width: float, fixed: FixedPoint) -> tuple[int, int]:
    """Return first and last index, each at most twice too far from 0."""
    reach = 2 ** np.arange((2 * fixed.max_bins).bit_length(), dtype=np.int64)
    whole = np.concatenate((-reach[::-1], [0], reach))
    edges: FloatArray = np.multiply(whole, loss_width, dtype=np.float64)
    scaled = pair.scaled_loss_masses(edges, direction)
    masses = scaled.masses
    finite = np.isfinite(masses.atom_loss)
    # An atom that is on an edge but for rounding must not double the window.
    index = np.searchsorted(edges * (1.0 + 1e-12 * np.sign(edges)), masses.atom_loss[finite])
    with np.errstate(divide="ignore"):
        bins = np.log(masses.bins_a.upper) + scaled.log_scale_a
        atoms = np.log(masses.atoms_a.upper[finite]) + scaled.atoms_log_scale_a[finite]
    np.logaddexp.at(bins, index, atoms)
    # above[k + 1] is P_A above edge k, below[k] is P_A up to edge k, as logarithms.
    above, below = np.logaddexp.accumulate(bins[::-1])[::-1], np.logaddexp.accumulate(bins)

    def negligible(values: FloatArray) -> IntArray:
        tiny = np.flatnonzero(values <= -fixed.bits * math.log(2.0))
        return tiny if tiny.size else np.flatnonzero(values <= _LOG_UNRESOLVED)

    last = next(iter(negligible(above[1:]).tolist()), whole.size - 1)
    first = next(reversed(negligible(below[:-1]).tolist()), 0)
    return int(min(whole[first], -1)), int(max(whole[last], 1))


def _atom_indices(masses: LossMasses, loss_width: float, first: int) -> tuple[IntArray, BoolArray, Fraction]:
    """Return each atom's index, whether it counts as on the edge, and by how much its loss may exceed that edge.

    An atom within its error of an edge counts as on it. The others are so far from every edge that the rounding of
    the quotient cannot change the bin.
    """
    loss = masses.atom_loss
    far = 2.0**62
    quotient = np.clip(loss / loss_width, -far, far)
    nearest = np.rint(quotient)
    tolerance = masses.loss_error / loss_width + 4.0 * UNIT_ROUNDOFF * np.abs(quotient)
    on_edge = np.isfinite(loss) & (np.abs(quotient - nearest) <= tolerance)
    index = np.where(on_edge, nearest, np.ceil(quotient)).astype(np.int64)
    excess = max(
        (
            Fraction(value) - whole * Fraction(loss_width)
            for value, whole in zip(loss[on_edge].tolist(), index[on_edge].tolist(), strict=True)
        ),
        default=Fraction(0),
    )
    corner = index <= first
    error = Fraction(masses.loss_error) + max(excess, Fraction(0))
    return np.maximum(index, first), (on_edge | corner).astype(np.bool_), error
