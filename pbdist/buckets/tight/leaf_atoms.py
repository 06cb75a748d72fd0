"""The window of a leaf, and the atoms of a pair in it."""

import math
from dataclasses import dataclass, replace

import numpy as np

from pbdist.buckets.sums import accurate_sum
from pbdist.mechanisms import UNIT_ROUNDOFF, ScaledLossMasses
from pbdist.types import BoolArray, FloatArray, IntArray

__all__ = ["LeafAtoms", "LeafTails", "LeafWindow", "tilted"]

#: Exponents beyond this are cut: e^700 is still a float.
_LARGEST_EXPONENT = 700.0
#: A mass that is not 0 counts as at least this in an upper value.
_SMALLEST = 1e-290


@dataclass(frozen=True)
class LeafWindow:
    """The cells of a leaf.

    Attributes
    ----------
    width : float
        h, nats.
    low, high : int
        First and last cell, ``low <= high``.
    spread_to_infinity : bool
        Whether losses above the window are split between its end and infinity; else they are left out, at the cost of
        their tilted mass.
    """

    width: float
    low: int
    high: int
    spread_to_infinity: bool

    @property
    def edges(self) -> FloatArray:
        """Edges (low - 1) h .. high h."""
        return self.width * np.arange(self.low - 1.0, self.high + 1.0)

    @property
    def mirrored(self) -> "LeafWindow":
        """The window of the other direction that has the same edges, negated."""
        return replace(self, low=1 - self.high, high=1 - self.low)


@dataclass(frozen=True)
class LeafTails:
    """What a window leaves out.

    Attributes
    ----------
    log_above : float
        Upper value of ln E_A[e^{θL}; window's end < L < ∞]; not used where the window spreads to infinity.
    endless : float
        The P_A mass that it leaves out, to be taken as infinite.
    log_below : float or None
        Upper value of ln E_A[e^{θL}; L at most the window's lower end]; None if the events there are raised to that
        end.
    apart : float
        About the P_A mass of events that the masses do not have, since they are told apart.
    """

    log_above: float = -math.inf
    endless: float = 0.0
    log_below: float | None = None
    apart: float = 0.0


def tilted(masses: FloatArray, exponent: FloatArray) -> FloatArray:
    """Return masses times e^exponent; infinite where that is no float, and 0 where there is no mass."""
    with np.errstate(over="ignore", invalid="ignore"):
        result = masses * np.exp(exponent)
    if not np.isfinite(result).all():
        result = np.where(masses > 0.0, result, 0.0)
    return result


@dataclass(frozen=True, eq=False)
class LeafAtoms:
    """Atoms sorted into the cells of a window; one whose computed loss is next to an edge lies on it.

    Attributes
    ----------
    index : ndarray of int64
        Column of each atom in the window, 0 for those below it.
    cell : ndarray of int64
        Column of the exact masses that each atom is added to: an atom on an edge stands alone in the cell above, rather
        than among lower losses.
    share_below : ndarray
        Share that the dominating pair puts to the lower end of the cell, rounded down.
    a_lower, a_upper, b_upper, log_a, log_b : ndarray
        Masses, and the logarithms of their factors.
    beyond, inside : 4-tuple of float
        Masses above the window and in or below it: P_A lower and upper, P_B lower and upper.
    faint : 4-tuple of float
        The same masses of atoms so faint in B that they have no reliable loss, which is taken as infinite.
    snapped : float
        Largest distance to the edge an atom was put on, nats.
    """

    index: IntArray
    cell: IntArray
    share_below: FloatArray
    a_lower: FloatArray
    a_upper: FloatArray
    b_upper: FloatArray
    log_a: FloatArray
    log_b: FloatArray
    beyond: tuple[float, float, float, float]
    inside: tuple[float, float, float, float]
    faint: tuple[float, float, float, float]
    snapped: float

    @property
    def largest_log(self) -> float:
        """Largest size of a factor's logarithm."""
        return float(max(np.max(np.abs(self.log_a), initial=0.0), np.max(np.abs(self.log_b), initial=0.0)))

    @classmethod
    def sorted_into(cls, masses: ScaledLossMasses, window: LeafWindow) -> "LeafAtoms":
        """Sort the atoms of a pair."""
        plain, h = masses.masses, window.width
        loss = plain.atom_loss if plain.atom_loss.ndim == 1 else np.zeros(0)
        if loss.size == 0:
            none = np.zeros(0)
            nothing = (0.0, 0.0, 0.0, 0.0)
            return cls(
                none.astype(np.int64),
                none.astype(np.int64),
                none,
                none,
                none,
                none,
                none,
                none,
                nothing,
                nothing,
                nothing,
                0.0,
            )
        quotient = np.clip(loss / h, window.low - 2.0, window.high + 2.0)
        nearest = np.rint(quotient)
        tolerance = plain.loss_error / h + 4.0 * UNIT_ROUNDOFF * np.abs(quotient)
        on_edge = np.abs(quotient - nearest) <= tolerance
        place = np.where(on_edge, nearest, np.ceil(quotient))
        finite = np.isfinite(loss)
        above = (place > window.high) & (finite | (loss > 0.0))
        kept = ~above
        # Losses of -inf lie below every window.
        loss = np.maximum(loss, -1e290)
        exact = kept & finite & on_edge & (place >= window.low)
        miss = np.abs(loss[exact] - place[exact] * h) + 2.0 * UNIT_ROUNDOFF * np.abs(loss[exact])
        room = place[kept] * h - loss[kept] - (plain.loss_error + 4.0 * UNIT_ROUNDOFF * np.abs(loss[kept]))
        growth = math.expm1(h) if h < _LARGEST_EXPONENT else math.inf
        share = np.expm1(np.clip(room, 0.0, min(h, _LARGEST_EXPONENT))) / growth * (1.0 - 16.0 * UNIT_ROUNDOFF)
        # On an edge, or below the window, all of it stays together.
        share[on_edge[kept] | (place[kept] < window.low)] = 0.0
        plain_masses = _unscaled(masses)
        faint = loss == np.inf
        index = np.maximum(place[kept] - (window.low - 1.0), 0.0).astype(np.int64)
        alone = on_edge[kept] & (index > 0) & (place[kept] < window.high)
        return cls(
            index=index,
            cell=index + alone,
            share_below=share,
            a_lower=plain.atoms_a.lower[kept],
            a_upper=plain.atoms_a.upper[kept],
            b_upper=plain.atoms_b.upper[kept],
            log_a=masses.atoms_log_scale_a[kept],
            log_b=masses.atoms_log_scale_b[kept],
            # A faint atom's loss is no more than a side: nothing of P_B may be counted on for it.
            beyond=_sums(plain_masses, above, above & ~faint),
            inside=_sums(plain_masses, ~above, ~above),
            faint=_sums(plain_masses, faint, faint),
            snapped=float(np.max(miss, initial=0.0)),
        )

    @property
    def most_in_a_cell(self) -> int:
        """Largest number of atoms in one cell."""
        return int(np.max(np.bincount(self.index), initial=0)) + 1 if self.index.size else 0

    def add_to(self, weights: FloatArray, window: LeafWindow, tilt: float, log_norm: float, *, raised: bool) -> None:
        """Add the atoms, tilted, to the rows of a leaf's weights, shape (1, 3, n).

        Those below the window are left out of the exact masses, and of the dominating pair unless they are `raised`.
        """
        if self.index.size == 0:
            return
        size = weights.shape[-1]
        loss = window.width * (self.index + (window.low - 1.0))
        half = 0.5 * window.width
        here = tilted(self.a_upper, tilt * loss - log_norm + self.log_a)
        if not raised:
            here = np.where(self.index > 0, here, 0.0)
        # Elements that are no float come out infinite or not a number, as those of the spread masses do.
        with np.errstate(invalid="ignore"):
            below = self.share_below * here
            weights[0, 0] += np.bincount(self.index, here * (1.0 + 8.0 * UNIT_ROUNDOFF) - below, size)
            weights[0, 0, :-1] += np.bincount(self.index, below * math.exp(-tilt * window.width), size)[1:]
        label = window.width * (self.cell + (window.low - 1.0)) - half
        to_a = tilted(self.a_lower, tilt * label - log_norm + self.log_a)
        to_b = tilted(self.b_upper, (tilt + 1.0) * label - log_norm + self.log_b)
        weights[0, 1, 1:] += np.bincount(self.cell, to_a, size)[1:]
        weights[0, 2, 1:] += np.bincount(self.cell, to_b, size)[1:]


def _unscaled(masses: ScaledLossMasses) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Masses of the atoms as plain floats: P_A lower and upper, P_B lower and upper."""
    plain = masses.masses
    factor_a, factor_b = np.exp(masses.atoms_log_scale_a), np.exp(masses.atoms_log_scale_b)
    up, down = 1.0 + 8.0 * UNIT_ROUNDOFF, 1.0 - 8.0 * UNIT_ROUNDOFF
    return (
        plain.atoms_a.lower * factor_a * down,
        np.where(plain.atoms_a.upper > 0.0, np.maximum(plain.atoms_a.upper * factor_a * up, _SMALLEST), 0.0),
        plain.atoms_b.lower * factor_b * down,
        np.where(plain.atoms_b.upper > 0.0, np.maximum(plain.atoms_b.upper * factor_b * up, _SMALLEST), 0.0),
    )


def _sums(
    masses: tuple[FloatArray, FloatArray, FloatArray, FloatArray], chosen: BoolArray, reliable: BoolArray
) -> tuple[float, float, float, float]:
    a_lower, a_upper, b_lower, b_upper = masses
    return (
        accurate_sum(a_lower[chosen]),
        accurate_sum(a_upper[chosen]),
        accurate_sum(b_lower[reliable]),
        accurate_sum(b_upper[chosen]),
    )
