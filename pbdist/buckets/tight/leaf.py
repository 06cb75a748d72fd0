"""The leaf of the tight engine: a pair on a grid, dominated from above and mapped exactly from below.

Cell i holds the events of loss in ((i-1) h, i h], a of P_A and b of P_B.

*Dominating pair* (after Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022, "Connect the dots"). Replace the events of
a cell by two atoms, of losses (i-1) h and i h, that keep a and b together. δ is the P_A mean of (1 - e^ε t)_+ with
t = dP_B/dP_A, convex in t, so that spreading t to the ends of its range around its mean never lowers it; nor does
raising a, lowering b or raising a loss. The same holds in any product with other pairs, the others' outcomes fixed.
Losses above the window are spread to its end and to infinity, or, where the tilted mass above it is known to be small
enough, left out and counted into ``error``. Losses below are raised to its lower end, or left out likewise.

*Exact masses*: a rounded down and b up, of the events of a cell, is post-processing.

A computed loss may be wrong by η nats. Moving each to the nearest point of its cell costs a factor of at most e^η on
every likelihood ratio, hence an ε smaller by η: ``LOSS_SHIFT`` sums that up.
"""

import math

import numpy as np

from pbdist.buckets.tight.leaf_atoms import LeafAtoms, LeafTails, LeafWindow, tilted
from pbdist.buckets.tight.state import (
    HIGHEST,
    LARGEST_RATE,
    LOG_TOTAL_A,
    LOG_TOTAL_B,
    LOG_TOTAL_DOMINATING,
    LOSS_SHIFT,
    RATE_A,
    RATE_B,
    RATE_DOMINATING,
    SCALARS,
    TiltedMasses,
    outwards,
)
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import UNIT_ROUNDOFF, ScaledLossMasses
from pbdist.types import FloatArray

__all__ = ["tilted_leaf"]

#: Exponents beyond this are cut: e^700 is still a float.
_LARGEST_EXPONENT = 700.0
#: A mass that is not 0 counts as at least this in an upper value.
_SMALLEST = 1e-290
_UP, _DOWN = 1.0 + 64.0 * UNIT_ROUNDOFF, 1.0 - 64.0 * UNIT_ROUNDOFF
#: The sides of the dominating pair, the exact P_A and the exact P_B masses, as factors and as steps of a logarithm.
_SIDES: FloatArray = np.array([_UP, _DOWN, _UP])
_STEPS: FloatArray = np.array([8.0, -8.0, 8.0]) * UNIT_ROUNDOFF


def tilted_leaf(
    masses: ScaledLossMasses,
    window: LeafWindow,
    tilt: float,
    log_norm: float,
    tails: LeafTails,
    *,
    name: object,
) -> TiltedMasses:
    """Make the leaf's state.

    Parameters
    ----------
    masses : ScaledLossMasses
        Of one pair, or of a stack of k pairs without atoms, on ``window.edges``.
    window : LeafWindow
    tilt : float
        θ >= 0.
    log_norm : float
        About ln E_A e^{θL}; any number near it will do.
    tails : LeafTails
        What the window leaves out.
    name : object
        What to name in an error.

    Raises
    ------
    InvalidInputError
        If masses are missing.
    """
    plain = masses.masses
    atoms = LeafAtoms.sorted_into(masses, window)
    cells = _Cells(masses)
    h, size = window.width, window.high - window.low + 2
    loss = h * np.arange(window.low - 1.0, window.high + 1.0)
    reach = max(abs(float(loss[0])), abs(float(loss[-1])))
    shift = (plain.loss_error + atoms.snapped + 4.0 * UNIT_ROUNDOFF * reach) * 1.0001
    slack = 2.0 * shift + (16.0 + 4.0 * reach + 8.0 * cells.largest_log) * UNIT_ROUNDOFF

    weights = _rows(cells, window, loss, tilt, log_norm=log_norm, slack=slack, raised=tails.log_below is None)
    atoms.add_to(weights, window, tilt, log_norm, raised=tails.log_below is None)

    totals = _Totals(masses, cells, atoms)
    exponent = (tilt + 1.0) * reach + abs(log_norm) + max(cells.largest_log, atoms.largest_log)
    infinite_a = [np.broadcast_to(mass, (cells.count,)) for mass in (totals.only_a_lower, totals.only_a_upper)]
    infinite_b = np.zeros(cells.count)
    left_out = 0.0 if tails.log_below is None else _exp(tails.log_below - log_norm)
    if window.spread_to_infinity:
        stays = np.minimum(
            totals.beyond_b_lower * math.exp(min(float(loss[-1]), _LARGEST_EXPONENT)) * (1.0 - slack),
            totals.beyond_a_upper,
        )
        weights[:, 0, -1] += tilted(stays, np.full_like(stays, tilt * float(loss[-1]) - log_norm))
        infinite_a[0] = infinite_a[0] + totals.beyond_a_lower
        infinite_a[1] = infinite_a[1] + (totals.beyond_a_upper - stays * (1.0 - 8.0 * UNIT_ROUNDOFF))
        infinite_b = infinite_b + totals.beyond_b_upper
    else:
        left_out += _exp(tails.log_above - log_norm)
        infinite_a[0] = infinite_a[0] + atoms.faint[0]
        infinite_a[1] = infinite_a[1] + atoms.faint[1] + tails.endless
        infinite_b = infinite_b + atoms.faint[3]
    # Every element is known to this, relative to itself.
    rounding = (32.0 + 2.0 * atoms.most_in_a_cell + 8.0 * exponent) * UNIT_ROUNDOFF
    error = _settled(weights, rounding, left_out)
    if not np.all(totals.a_upper * (1.0 + (size + 64.0) * UNIT_ROUNDOFF) + tails.apart >= 1.0 - 2e-9):
        raise InvalidInputError(f"mechanism: expected parameters that keep all mass, got {shown(name)}")
    additive = totals.additive(infinite_a[0], infinite_a[1], infinite_b, size, tails.endless)
    additive[:, LOSS_SHIFT] = shift
    bounded = window.spread_to_infinity or tails.log_above == -math.inf
    # By the masses, not by the weights, which may have underflown.
    occupied = np.flatnonzero((cells.a_upper > 0.0).any(axis=0))
    highest = max(int(occupied[-1]) if occupied.size else 0, int(np.max(atoms.index, initial=0)))
    last = float(loss[-1] if window.spread_to_infinity else loss[highest])
    additive[:, HIGHEST] = (last + 4.0 * UNIT_ROUNDOFF * reach) if bounded else LARGEST_RATE
    scale = np.full((cells.count, 3), log_norm)
    return TiltedMasses(
        width=h,
        tilt=tilt,
        stride=1,
        origins=((2 * (window.low - 1), 2 * (window.low - 1) - 1),) * cells.count,
        weights=weights,
        log_scale=scale,
        log_scale_error=np.zeros_like(scale),
        error=error,
        additive=additive,
    )


def _rows(
    cells: "_Cells",
    window: LeafWindow,
    loss: FloatArray,
    tilt: float,
    *,
    log_norm: float,
    slack: float,
    raised: bool,
) -> FloatArray:
    """Tilt the spread masses; elements that are no float come out infinite or not a number."""
    h = window.width
    log_here = tilt * loss - log_norm + cells.log_a
    weights = np.zeros((cells.count, 3, loss.size))
    here = tilted(cells.a_upper[:, 1:], log_here[..., 1:])
    with np.errstate(invalid="ignore"):
        below = here * cells.share_below(loss[1:], h, slack)
        # A difference is known relative to what it is taken from.
        weights[:, 0, 1:] = here * (1.0 + 8.0 * UNIT_ROUNDOFF) - below
        weights[:, 0, :-1] += below * math.exp(-tilt * h)
    if raised:
        weights[:, 0, :1] += tilted(cells.a_upper[:, :1], log_here[..., :1])
    # The events below the window are left out of both exact rows: an outcome less to look at.
    weights[:, 1, 1:] = tilted(cells.a_lower[:, 1:], log_here[..., 1:] - 0.5 * tilt * h)
    log_b = (tilt + 1.0) * (loss - 0.5 * h) - log_norm + cells.log_b
    weights[:, 2, 1:] = tilted(cells.b_upper[:, 1:], log_b[..., 1:])
    return weights


def _settled(weights: FloatArray, rounding: float, left_out: float) -> FloatArray:
    """Round the weights to their sides, in place, and return the errors that are left, shape (k, 3)."""
    overflown = ~np.isfinite(weights).all(axis=-1)
    if overflown.any():
        weights[~np.isfinite(weights)] = 0.0
    # A difference may dip below 0 by rounding.
    np.maximum(weights, 0.0, out=weights)
    outwards(weights, rounding)
    error = np.zeros(weights.shape[:-1])
    error[:, 0] += left_out * 1.0001
    # More than all that underflow took from what is not 0.
    error[:, (0, 2)] += weights.shape[-1] * _SMALLEST
    # What is no float is left out altogether, which a lower value may be but no upper one.
    error[overflown] = np.inf
    return error


class _Cells:
    """Spread masses of shape (k, n), those below the window in the first column, and the logarithms of the factors."""

    def __init__(self, masses: ScaledLossMasses) -> None:
        plain = masses.masses
        a_lower, a_upper, b_lower, b_upper = (
            np.atleast_2d(x)[:, :-1]
            for x in (plain.cells_a.lower, plain.cells_a.upper, plain.cells_b.lower, plain.cells_b.upper)
        )
        self.a_lower, self.a_upper, self.b_lower, self.b_upper = a_lower, a_upper, b_lower, b_upper
        self.count = a_lower.shape[0]
        scaled = bool(np.any(masses.log_scale_a) or np.any(masses.log_scale_b))
        self.log_a: FloatArray | float = masses.log_scale_a[..., :-1] if scaled else 0.0
        self.log_b: FloatArray | float = masses.log_scale_b[..., :-1] if scaled else 0.0
        self.largest_log = float(max(np.max(np.abs(self.log_a)), np.max(np.abs(self.log_b))))

    def share_below(self, loss: FloatArray, width: float, slack: float) -> FloatArray:
        """Share of each cell's P_A mass that goes to the lower end of the cell, shape (k, n - 1), rounded down.

        (b f^i / a - 1) / (f - 1) with a rounded up and b down: a share too small only raises losses.
        """
        a, b = self.a_upper[:, 1:], self.b_lower[:, 1:]
        exponent = loss + np.subtract(self.log_b, self.log_a)[1:] if self.largest_log else loss
        ratio = np.divide(b, a, out=np.zeros_like(a), where=a > 0.0)
        with np.errstate(over="ignore"):
            ratio *= np.exp(np.minimum(exponent, _LARGEST_EXPONENT)) * max(1.0 - slack, 0.0)
        ratio -= 1.0
        ratio /= _growth(width)
        share: FloatArray = np.clip(ratio, 0.0, 1.0, out=ratio)
        return share


class _Totals:
    """Masses of a leaf without tilt, shape (k,): of everything, and above the window."""

    def __init__(self, masses: ScaledLossMasses, cells: _Cells, atoms: "LeafAtoms") -> None:
        plain = masses.masses
        last_a = np.exp(np.atleast_1d(masses.log_scale_a[..., -1]))
        last_b = np.exp(np.atleast_1d(masses.log_scale_b[..., -1]))
        ends = [
            np.atleast_2d(x)[:, -1]
            for x in (plain.cells_a.lower, plain.cells_a.upper, plain.cells_b.lower, plain.cells_b.upper)
        ]
        self.only_a_lower, self.only_a_upper = plain.only_a.lower + 0.0, plain.only_a.upper + 0.0
        self.beyond_a_lower = (ends[0] * last_a + atoms.beyond[0]) * _DOWN
        self.beyond_a_upper = (
            np.where(ends[1] > 0.0, np.maximum(ends[1] * last_a, _SMALLEST), 0.0) + atoms.beyond[1]
        ) * _UP
        self.beyond_b_lower = (ends[2] * last_b + atoms.beyond[2]) * _DOWN
        self.beyond_b_upper = (
            np.where(ends[3] > 0.0, np.maximum(ends[3] * last_b, _SMALLEST), 0.0) + atoms.beyond[3]
        ) * _UP
        sums = [cells.a_lower, cells.a_upper, cells.b_upper]
        if cells.largest_log > 0.0:
            factor_a, factor_b = np.exp(cells.log_a), np.exp(cells.log_b)
            sums = [cells.a_lower * factor_a, cells.a_upper * factor_a, cells.b_upper * factor_b]
        a_lower, a_upper, b_upper = (np.add.reduce(each, axis=-1) for each in sums)
        self.a_lower = a_lower + self.beyond_a_lower + self.only_a_lower + atoms.inside[0]
        self.a_upper = a_upper + self.beyond_a_upper + self.only_a_upper + atoms.inside[1]
        self.b_upper = b_upper + self.beyond_b_upper + plain.only_b.upper + atoms.inside[3]

    def additive(
        self, infinite_lower: FloatArray, infinite_upper: FloatArray, infinite_b: FloatArray, size: int, endless: float
    ) -> FloatArray:
        """Return the additive columns of the leaf."""
        slack = (size + 64.0) * UNIT_ROUNDOFF
        # In the order of the columns: of the dominating pair, of the exact P_A and P_B masses.
        totals = np.stack(
            (
                np.maximum(self.a_upper + endless, infinite_upper) * (1.0 + slack),
                np.maximum(np.maximum(self.a_lower, infinite_lower) * (1.0 - slack), _SMALLEST),
                np.maximum(np.maximum(self.b_upper, infinite_b) * (1.0 + slack), 1.0),
            ),
            axis=-1,
        )
        infinite = np.stack((infinite_upper, infinite_lower, infinite_b), axis=-1) * _SIDES
        logs = np.log(totals)
        result = np.zeros((totals.shape[0], SCALARS))
        result[:, (LOG_TOTAL_DOMINATING, LOG_TOTAL_A, LOG_TOTAL_B)] = logs + _STEPS * (1.0 + np.abs(logs))
        result[:, (RATE_DOMINATING, RATE_A, RATE_B)] = _rate(infinite, totals) * _SIDES
        return result


def _rate(part: FloatArray, total: FloatArray) -> FloatArray:
    share = np.divide(part, total, out=np.zeros_like(part), where=total > 0.0)
    with np.errstate(divide="ignore"):
        return np.minimum(-np.log1p(-np.minimum(share, 1.0)), LARGEST_RATE)


def _exp(value: float) -> float:
    if value == -math.inf:
        return 0.0
    return max(math.exp(value), _SMALLEST) if value < _LARGEST_EXPONENT else math.inf


def _growth(width: float) -> float:
    """Return f - 1, infinite where it is no float."""
    return math.expm1(width) if width < _LARGEST_EXPONENT else math.inf
