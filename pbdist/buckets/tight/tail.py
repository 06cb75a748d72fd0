"""What a window leaves out of a leaf: the tilted mass of the finite losses on either side, as upper bounds."""

import math

import numpy as np

from pbdist.buckets.tight.leaf_atoms import LeafWindow
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair
from pbdist.types import Direction, FloatArray

__all__ = ["log_mass_below", "log_tail_moment"]

#: Edges beyond the window, as multiples of what the tilt resolves, and then as multiples of the last.
_NEAR: FloatArray = np.arange(1.0, 161.0)
_FAR: FloatArray = np.geomspace(1.1, 1e8, 200)
#: Edges below the window, in units of 1 / θ.
_BELOW: FloatArray = np.concatenate((np.arange(0.0, 200.0, 0.5), np.geomspace(200.0, 1e7, 500)))


def log_tail_moment(
    pair: ElementaryPair, tilt: float, window: LeafWindow, direction: Direction, enough: float
) -> tuple[float, float]:
    """Upper bound of ln E_A[e^{θL}; window's end < L < ∞], and the P_A mass left out of it, to be taken as infinite.

    The pair's own closed form where it has one and it is at most `enough`; else the sum of mass times e^{θ · upper end}
    over cells beyond the window, all but the last of them, which has no end.
    """
    end = window.width * window.high
    # Computed losses may be off, and so may the end: what the window holds is counted twice rather than not at all.
    start = end - 1e-9 * (window.width + abs(end))
    for closed_form in (pair.rough_log_tail_moment, pair.log_tail_moment):
        known = closed_form(tilt, start, direction)
        if known <= enough:
            return known, 0.0
    step = 0.25 / max(tilt, 1e-3)
    near = end + step * _NEAR
    edges = np.concatenate(([end], near, near[-1] + max(abs(near[-1]), step) * (_FAR - 1.0 + 0.1)))
    scaled = pair.scaled_loss_masses(edges, direction)
    masses = scaled.masses
    # A mass too faint to be told from 0 is worth less at infinity than at the far end of its cell.
    resolved = np.flatnonzero(masses.cells_a.lower[1:-1] > 0.0)
    last = int(resolved[-1]) + 1 if resolved.size else 0
    plain = masses.cells_a.upper * np.exp(scaled.log_scale_a)
    endless = float(np.sum(plain[1 + last :])) * (1.0 + 1e-12)
    with np.errstate(divide="ignore"):
        cells = np.log(masses.cells_a.upper[1 : 1 + last]) + scaled.log_scale_a[1 : 1 + last]
    total = np.logaddexp.reduce(cells + tilt * (edges[1 : 1 + last] + masses.loss_error), initial=-np.inf)
    beyond = np.isfinite(masses.atom_loss) & (masses.atom_loss > end - masses.loss_error)
    with np.errstate(divide="ignore"):
        atoms = np.log(masses.atoms_a.upper[beyond]) + scaled.atoms_log_scale_a[beyond]
    total = np.logaddexp(
        total, np.logaddexp.reduce(atoms + tilt * (masses.atom_loss[beyond] + masses.loss_error), initial=-np.inf)
    )
    found = float(total) + 1e-9 * (1.0 + abs(float(total)) if math.isfinite(float(total)) else 0.0)
    return (found, endless) if found < known else (known, 0.0)


def log_mass_below(pair: ElementaryPair, tilt: float, window: LeafWindow, direction: Direction) -> float:
    """Upper bound of ln E_A[e^{θL}; L at most the window's lower end]: mass times e^{θ · upper end} of cells there."""
    end = window.width * (window.low - 1.0)
    edges = (end - _BELOW / max(tilt, 1e-12))[::-1]
    scaled = pair.scaled_loss_masses(edges, direction)
    masses = scaled.masses
    below = masses.atom_loss <= end + masses.loss_error + 8.0 * UNIT_ROUNDOFF * abs(end)
    with np.errstate(divide="ignore"):
        cells = np.log(masses.cells_a.upper[:-1]) + scaled.log_scale_a[:-1]
        atoms = np.log(masses.atoms_a.upper[below]) + scaled.atoms_log_scale_a[below]
    total = np.logaddexp.reduce(cells + tilt * (edges + masses.loss_error), initial=-np.inf)
    # A loss of -inf is raised to one that a tilt of 0 leaves what it is.
    loss = np.maximum(masses.atom_loss[below], -1e290)
    lost = np.logaddexp.reduce(atoms + tilt * (loss + masses.loss_error), initial=-np.inf)
    result = float(np.logaddexp(total, lost))
    return result + 1e-9 * (1.0 + abs(result)) if math.isfinite(result) else result
