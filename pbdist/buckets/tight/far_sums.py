"""The sums over one direction of a round by which infinite and far losses are told apart (`far_losses`)."""

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from pbdist.buckets.sums import accurate_sum
from pbdist.buckets.tight.far_losses import FarLosses
from pbdist.buckets.tight.rare import is_far
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, MassBounds, ScaledLossMasses
from pbdist.pld.profile import LossProfile
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

__all__ = ["far_losses"]

#: A mass that is not 0 counts as at least this in an upper value.
_SMALLEST = 1e-290
#: Ratio of one rate of Chernoff's bound to the next, how many at most, and what the largest may be worth, nats.
_RATIO, _MOST_RATES, _DEEPEST = 1.1, 160, 750.0
#: Rates of the bound on what Q has below ε, as multiples of one divided by a composition's standard deviation.
_DEVIATIONS = 5.0
#: Largest product of such a rate and a far loss.
_STEEPEST = 400.0
#: Largest rate of Chernoff's bound: products with losses and numbers of rounds must be floats.
_LARGEST_TILT = 1e15
#: Cells of the losses that are no atoms.
_MOST_CELLS = 4096
#: Exponents are cut at this size.
_LARGEST_RATE = 1e200


def far_losses(
    parts: Sequence[tuple[ElementaryPair, int, LossProfile, float]],
    direction: Direction,
    rounds: IntArray,
    epsilon: FloatArray,
) -> FarLosses:
    """Sum up a round.

    Parameters
    ----------
    parts : sequence of (ElementaryPair, int, LossProfile, float)
        Pairs, how often each occurs, their pictures, and the loss from which on atoms are far.
    direction : Direction
    rounds : ndarray of int64
        Numbers of rounds for which the sums are to do well.
    epsilon : ndarray
        The same of ε, nats.
    """
    near = [(count, profile.capped(far)) for _, count, profile, far in parts]
    variance = sum(count * profile.cumulant(0.0)[2] for count, profile in near if profile.loss.size)
    deviation = np.sqrt(np.geomspace(float(rounds.min()), float(rounds.max()), 5) * max(variance, 1e-30))
    # A far loss must not count for less than floats tell.
    largest = max([float(profile.loss[-1]) for _, _, profile, far in parts if far < math.inf], default=1.0)
    falling = np.unique(1.0 + np.minimum(_DEVIATIONS / deviation, _STEEPEST / max(largest, _SMALLEST)))
    positive = epsilon[epsilon > 0.0]
    rising = np.zeros(0)
    if positive.size:
        # Without a quotient that is no float.
        low, high = (
            min(part / max(float(value), _SMALLEST), _LARGEST_TILT)
            for part, value in ((0.5, positive.max()), (_DEEPEST, positive.min()))
        )
        rising = np.geomspace(low, high, min(2 + int(math.log(high / low) / math.log(_RATIO)), _MOST_RATES))
    sums: list[tuple[int, FarLosses]] = []
    for pair, count, profile, far in parts:
        edges = _edges(profile, far)
        masses = pair.scaled_loss_masses(edges, direction)
        sums.append((count, _LeafSums(masses, edges, far, falling, rising).result))
    # What adds up is moved to its side by the rounding of the additions.
    values: dict[str, Any] = {}
    for field in fields(FarLosses):
        if field.name not in {"falling", "rising"}:
            terms = [count * getattr(each, field.name) for count, each in sums]
            total = sum(terms)
            rounding = 4.0 * (len(terms) + 2.0) * UNIT_ROUNDOFF * sum(np.abs(term) for term in terms)
            # Of -inf, the logarithm of nothing, nothing is rounded.
            rounding = np.where(np.isfinite(total), rounding, 0.0)
            moved = total + (-rounding if field.name.endswith("_lower") else rounding)
            values[field.name] = moved if isinstance(total, np.ndarray) else float(moved)
    return FarLosses(falling=falling, rising=rising, **values)


class _LeafSums:
    """The sums of one pair: masses moved to their sides, and every sum by its number of terms."""

    def __init__(
        self,
        masses: ScaledLossMasses,
        edges: FloatArray,
        far: float,
        falling: FloatArray,
        rising: FloatArray,
    ) -> None:
        plain = masses.masses
        loss, error = plain.atom_loss, plain.loss_error
        far_ones = is_far(masses, far)
        floor = float(edges[0])
        # Below the floor P_B is lowered to e^-floor times P_A; of what is endless P_B is dropped.
        atoms_known = (loss >= floor) & (loss < np.inf)
        factor = [np.exp(masses.atoms_log_scale_a), np.exp(masses.atoms_log_scale_b)]
        cell_factor = [np.exp(masses.log_scale_a), np.exp(masses.log_scale_b)]
        a = _Sums(plain.atoms_a, factor[0], plain.cells_a, cell_factor[0])
        b = _Sums(plain.atoms_b, factor[1], plain.cells_b, cell_factor[1])
        atoms, cells = np.ones(loss.size, dtype=bool), np.ones(edges.size + 1, dtype=bool)
        last = np.arange(edges.size + 1) == edges.size
        total_a = (a.lower(atoms, cells) + _sum(plain.only_a.lower), a.upper(atoms, cells) + _sum(plain.only_a.upper))
        total_b_upper = b.upper(atoms, cells) + _sum(plain.only_b.upper)
        total_b_lower = b.lower(atoms_known, ~last & (np.arange(edges.size + 1) > 0))
        none = np.zeros(edges.size + 1, dtype=bool)
        infinite_upper = a.upper(loss == np.inf, last) + _sum(plain.only_a.upper)
        slack = 1.0 + (loss.size + edges.size + 64.0) * UNIT_ROUNDOFF

        def log(value: float, side: float) -> float:
            if side < 0.0 and value < _SMALLEST:
                return -math.inf
            value = max(value, _SMALLEST)
            return math.log(value * slack**side) + side * 8.0 * UNIT_ROUNDOFF * (1.0 + abs(math.log(value)))

        def rate(part: float, total: float, side: float) -> float:
            # A quotient that is no full float is no lower value.
            known = total > 0.0 and (side > 0.0 or part >= _SMALLEST)
            share = part / total * slack ** (2.0 * side) if known else 0.0
            found = -math.log1p(-share) if share < 1.0 else _LARGEST_RATE
            return min(found * (1.0 + side * 16.0 * UNIT_ROUNDOFF), _LARGEST_RATE)

        # Where each finite loss lies: cells by their ends, atoms by what is computed.
        with np.errstate(divide="ignore"):
            log_atoms = np.log(plain.atoms_a.upper) + masses.atoms_log_scale_a
            log_cells = (np.log(plain.cells_a.upper) + masses.log_scale_a)[:-1]
        finite = loss < np.inf
        lowest = np.concatenate((np.maximum(loss[finite], floor), [floor], edges[:-1])) - error
        weights = np.concatenate((log_atoms[finite], log_cells))
        far_finite = np.concatenate((far_ones[finite], np.zeros(edges.size, dtype=bool)))
        all_below = _log_moments(weights, lowest, -falling)
        far_below = _log_moments(weights[far_finite], lowest[far_finite], -falling)
        far_rates = np.array(
            [
                rate(max(math.exp(min(f - every, 0.0) + 2.0 * UNIT_ROUNDOFF * abs(f - every)), _SMALLEST), 1.0, 1.0)
                if f > -math.inf
                else 0.0
                for f, every in zip(far_below.tolist(), all_below.tolist(), strict=True)
            ]
        )
        near_finite = finite & ~far_ones
        highest = np.concatenate((np.maximum(loss[near_finite], floor), edges)) + error
        weights = np.concatenate((log_atoms[near_finite], log_cells))
        there = weights > -np.inf
        self.result = FarLosses(
            log_a_upper=log(total_a[1], 1.0),
            log_a_lower=log(total_a[0], -1.0),
            log_b_upper=log(total_b_upper, 1.0),
            log_b_lower=log(total_b_lower, -1.0),
            far_a_upper=rate(a.upper(far_ones, none), total_a[1], 1.0),
            far_a_lower=rate(a.lower(far_ones, none), total_a[0], -1.0),
            far_b_upper=rate(b.upper(far_ones, none), total_b_upper, 1.0),
            far_b_lower=rate(b.lower(far_ones, none), total_b_lower, -1.0),
            infinite_upper=rate(infinite_upper, total_a[1], 1.0),
            infinite_lower=rate(_sum(plain.only_a.lower), total_a[0], -1.0),
            falling=falling,
            log_falling=all_below,
            far_falling=far_rates,
            rising=rising,
            log_rising=_log_moments(weights[there], highest[there], rising),
            highest=float(np.max(highest[there], initial=floor)),
            faint=a.lower(loss == np.inf, none),
        )


class _Sums:
    """Sums of lower and of upper masses, of atoms and of cells."""

    def __init__(self, atoms: MassBounds, atom_factor: FloatArray, cells: MassBounds, factor: FloatArray) -> None:
        up, down = 1.0 + 16.0 * UNIT_ROUNDOFF, 1.0 - 16.0 * UNIT_ROUNDOFF
        # Products that are no full floats may have been rounded by more than that.
        self._lower = tuple(
            np.where(lower >= _SMALLEST, lower, 0.0)
            for lower in (atoms.lower * atom_factor * down, cells.lower * factor * down)
        )
        self._upper = tuple(
            np.where(bounds.upper > 0.0, np.maximum(bounds.upper * scale * up, _SMALLEST), 0.0)
            for bounds, scale in ((atoms, atom_factor), (cells, factor))
        )

    def lower(self, atoms: BoolArray, cells: BoolArray) -> float:
        return _sum(self._lower[0][atoms]) + _sum(self._lower[1][cells])

    def upper(self, atoms: BoolArray, cells: BoolArray) -> float:
        return _sum(self._upper[0][atoms]) + _sum(self._upper[1][cells])


def _sum(values: FloatArray) -> float:
    return accurate_sum(np.atleast_1d(values))


def _edges(profile: LossProfile, far: float) -> FloatArray:
    """Edges for the losses that are no atoms: those of the picture."""
    near = profile.loss <= far
    lower, upper = profile.lower[near], profile.upper[near]
    if not lower.size:
        # The lowest edge is never above a far loss.
        return np.array([min(far, 0.0)])
    if np.all(lower == upper):
        return np.unique([lower[0], upper[-1]])
    edges = np.unique(np.concatenate((lower, upper)))
    return (
        edges
        if edges.size <= _MOST_CELLS
        else edges[np.unique(np.linspace(0, edges.size - 1, _MOST_CELLS).astype(int))]
    )


def _log_moments(weights: FloatArray, loss: FloatArray, rates: FloatArray) -> FloatArray:
    """Upper values of ln Σ e^{weight + rate · loss}, rate by rate; -inf for an empty sum."""
    if not loss.size:
        return np.full(rates.size, -np.inf)
    found = np.empty(rates.size)
    size = float(np.max(np.abs(loss)))
    terms = float(np.max(np.abs(weights), initial=0.0, where=np.isfinite(weights)))
    for place, rate in enumerate(rates.tolist()):
        exponent = weights + rate * loss
        largest = float(exponent.max())
        if largest == -np.inf:
            found[place] = -np.inf
            continue
        total = largest + math.log(float(np.exp(exponent - largest).sum()))
        found[place] = total + (loss.size + 64.0 + 16.0 * (abs(rate) * size + terms + abs(total))) * UNIT_ROUNDOFF
    return found
