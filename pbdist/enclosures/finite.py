"""The finite pairs of a sum of likelihood ratios: events of known losses, from above and from below."""

import math
from collections.abc import Sequence

import numpy as np

from pbdist.enclosures.allocation import Dominated, Dominating
from pbdist.enclosures.measures import Level
from pbdist.mechanisms import UNIT_ROUNDOFF, FinitePair, LossMasses, MassBounds
from pbdist.types import BoolArray, FloatArray

_U = UNIT_ROUNDOFF
#: A mass below this has no reliable loss.
_FAINT = 1e-280
#: An event of which a mass is known worse than this, relatively, is left out.
_UNKNOWN = 0.3
#: What is told as the error of losses that are names alone, nats.
_OF_NAMES = 1e-12


def dominating_pair(total: Dominating, unit: float) -> FinitePair:
    """Return the pair that dominates: atoms at the logarithms of the mean ratios, and infinite losses."""
    sums, b = _points(total.levels, unit), np.concatenate([level.masses for level in total.levels])
    # P_A of an event may be larger by the shift, which its loss then is off by.
    b = b * (1.0 + 2.0 * total.shift + 4.0 * _U)
    a = b * (sums / total.count)
    reliable = (a > _FAINT) & (b > _FAINT)
    # Any event can be had from one that only A has and one that only B has.
    only_a = total.infinite * (1.0 + 2.0 * total.shift) + _sum_above(a, ~reliable) + _FAINT
    only_b = _sum_above(b, ~reliable)
    loss = np.log(sums[reliable] / total.count)
    order = np.argsort(loss, kind="stable")
    error = 16.0 * _U * (1.0 + float(np.max(np.abs(loss), initial=0.0))) + 2.0 * total.shift
    return FinitePair(
        LossMasses(
            bins_a=MassBounds.zeros(1),
            bins_b=MassBounds.zeros(1),
            atom_loss=loss[order],
            atoms_a=MassBounds.around(a[reliable][order], 4.0 * _U),
            atoms_b=MassBounds.around(b[reliable][order], 0.0),
            only_a=MassBounds(np.zeros(1), np.array([only_a])),
            only_b=MassBounds(np.zeros(1), np.array([only_b])),
            loss_error=error,
        )
    )


def dominated_pair(total: Dominated) -> FinitePair:
    """Return the pair that is dominated: the events whose masses are known well; the others are left out.

    It is for lower bounds alone, which need no losses: those of the atoms are names.
    """
    at_b = {level.exponent: level for level in total.other}
    rows = [_known(own, at_b[own.exponent]) for own in total.own if own.exponent in at_b]
    a_lower, a_upper, b_lower, b_upper = np.concatenate(rows, axis=1) if rows else np.zeros((4, 0))
    loss = np.log(0.5 * (a_lower + a_upper)) - np.log(0.5 * (b_lower + b_upper))
    order = np.argsort(loss, kind="stable")
    return FinitePair(
        LossMasses(
            bins_a=MassBounds.zeros(1),
            bins_b=MassBounds.zeros(1),
            atom_loss=loss[order],
            atoms_a=MassBounds(a_lower[order], a_upper[order]),
            atoms_b=MassBounds(b_lower[order], b_upper[order]),
            only_a=MassBounds.zeros(1),
            only_b=MassBounds.zeros(1),
            loss_error=_OF_NAMES,
        )
    )


def _points(levels: Sequence[Level], unit: float) -> FloatArray:
    return np.concatenate([unit * 2.0**level.exponent * level.points for level in levels])


def _sum_above(masses: FloatArray, chosen: BoolArray) -> float:
    return math.fsum(masses[chosen]) * (1.0 + 4.0 * _U)


def _known(own: Level, other: Level) -> FloatArray:
    """Return P_A and P_B from below and above, of the points whose masses are known well."""
    first = max(own.first, other.first)
    stop = max(min(own.first + own.size, other.first + other.size), first)
    rows = []
    for level in (own, other):
        part = slice(first - level.first, stop - level.first)
        lower = (level.masses[part] - level.errors[part]) * (1.0 - 4.0 * _U)
        rows += [lower, level.upper[part]]
    values = np.array(rows)
    a_lower, a_upper, b_lower, b_upper = values
    good = (a_lower > _FAINT) & (b_lower > _FAINT)
    good &= (a_upper - a_lower <= _UNKNOWN * a_lower) & (b_upper - b_lower <= _UNKNOWN * b_lower)
    return np.asarray(values[:, good])
