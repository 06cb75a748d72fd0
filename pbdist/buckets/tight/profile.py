"""A rough picture of a pair's loss, from which windows, tilts and widths are chosen.

Nothing here is a bound: whatever is chosen, what is computed with it holds. Each cell stands for one event of loss
ln(a / b), the pair that keeps both masses, whose cumulants K(θ) = ln E_A e^{θL} are those of the pair up to the square
of a cell's width, and exact at θ = 0 and θ = -1.
"""

import math
from dataclasses import dataclass

import numpy as np

from pbdist.mechanisms import ElementaryPair
from pbdist.types import FloatArray

__all__ = ["LossProfile", "loss_profile", "saddle_point"]

_PROBES: FloatArray = np.geomspace(1e-12, 1e4, 161)
_EDGES: FloatArray = np.concatenate((-_PROBES[::-1], [0.0], _PROBES))
#: Cells a standard deviation, and how many at most.
_RESOLUTION, _MOST_CELLS = 6.0, 2000


@dataclass(frozen=True, eq=False)
class LossProfile:
    """Losses as point masses.

    Attributes
    ----------
    loss : ndarray, shape (m,)
        Nats, finite, increasing.
    lower, upper : ndarray, shape (m,)
        Where the events lie that each point stands for, nats, finite.
    log_a : ndarray, shape (m,)
        Natural logarithms of the P_A masses.
    lattice : float
        A width of which every loss is a multiple, 0 if there is none.
    heaviest_atom : float
        Size of the loss of the heaviest atom, 0 if there is none but at 0.
    """

    loss: FloatArray
    lower: FloatArray
    upper: FloatArray
    log_a: FloatArray
    lattice: float
    heaviest_atom: float

    def cumulant(self, tilt: float) -> tuple[float, float, float]:
        """Return K(θ), K'(θ) and K''(θ)."""
        exponent = self.log_a + tilt * self.loss
        largest = float(np.max(exponent))
        weight = np.exp(exponent - largest)
        total = float(np.sum(weight))
        mean = float(weight @ self.loss) / total
        variance = float(weight @ (self.loss - mean) ** 2) / total
        return largest + math.log(total), mean, variance

    def swapped(self) -> "LossProfile":
        """The profile of (B, A)."""
        loss = -self.loss[::-1]
        return LossProfile(
            loss,
            -self.upper[::-1],
            -self.lower[::-1],
            (self.log_a - self.loss)[::-1],
            self.lattice,
            self.heaviest_atom,
        )


def loss_profile(pair: ElementaryPair, target: float) -> LossProfile:
    """Look at a pair around its own losses, and up to the mean loss `target` that tilts may give it, nats."""
    edges = _EDGES
    if target >= _PROBES[-1]:
        decades = math.log10(100.0 * target / _PROBES[-1])
        far = _PROBES[-1] * 10.0 ** np.linspace(0.1, decades, math.ceil(10.0 * decades))
        edges = np.concatenate((-far[::-1], edges, far))
    rough = _profile(pair, edges)
    if rough.loss.size == 0 or rough.lattice > 0.0:
        return rough
    _, mean, variance = rough.cumulant(-0.5)
    spread = max(math.sqrt(variance), 1e-12)
    reach = min(target, max(float(rough.loss[-1]), -float(rough.loss[0]))) + abs(mean) + 10.0 * spread
    cells = min(int(2.0 * reach / spread * _RESOLUTION) + 2, _MOST_CELLS)
    fine = np.linspace(-reach, reach, cells)
    outside = edges[np.abs(edges) > reach + spread]
    return _profile(pair, np.sort(np.concatenate((outside, fine))))


def _profile(pair: ElementaryPair, edges: FloatArray) -> LossProfile:
    scaled = pair.scaled_loss_masses(edges)
    masses = scaled.masses
    a, b = masses.cells_a.upper, masses.cells_b.upper
    known = (masses.cells_a.lower > 0.0) & (masses.cells_b.lower > 0.0)
    log_a = np.log(a[known]) + scaled.log_scale_a[known]
    loss = log_a - np.log(b[known]) - scaled.log_scale_b[known]
    # The outermost cells have no outer end: what they hold lies about their point.
    lower = np.concatenate(([-np.inf], edges))[known]
    upper = np.concatenate((edges, [np.inf]))[known]
    lower, upper = np.where(np.isfinite(lower), lower, 2.0 * loss), np.where(np.isfinite(upper), upper, 2.0 * loss)
    finite = np.isfinite(masses.atom_loss) & (masses.atoms_a.lower > 0.0)
    atoms = masses.atom_loss[finite]
    if atoms.size:
        log_a = np.concatenate((log_a, np.log(masses.atoms_a.upper[finite]) + scaled.atoms_log_scale_a[finite]))
        loss, lower, upper = (np.concatenate((x, atoms)) for x in (loss, lower, upper))
        order = np.argsort(loss, kind="stable")
        loss, lower, upper, log_a = loss[order], lower[order], upper[order], log_a[order]
    lattice = 0.0 if np.any(masses.cells_a.upper > 0.0) else _lattice(atoms, masses.loss_error)
    return LossProfile(loss, lower, upper, log_a, lattice, _heaviest(atoms, masses.atoms_a.upper[finite]))


def _heaviest(atoms: FloatArray, masses: FloatArray) -> float:
    """Return the size of the loss of the heaviest atom that has one."""
    apart = np.abs(atoms) > 0.0
    return float(np.abs(atoms[apart][np.argmax(masses[apart])])) if np.any(apart) else 0.0


def _lattice(atoms: FloatArray, loss_error: float) -> float:
    """Return the largest of a few candidate widths of which all atoms are multiples within their rounding."""
    sizes = np.unique(np.abs(atoms[np.abs(atoms) > 4.0 * loss_error]))
    if sizes.size == 0 or sizes.size > 64:
        return 0.0
    for divisor in range(1, 9):
        width = float(sizes[0]) / divisor
        multiple = np.rint(sizes / width)
        if np.all(np.abs(sizes - multiple * width) <= 2.0 * loss_error + 1e-15 * sizes) and multiple[-1] <= 4096:
            return width
    return 0.0


def saddle_point(profiles: list[tuple[LossProfile, int]], rounds: int, epsilon: float) -> tuple[float, float]:
    """Return the θ >= 0 that minimises rounds · Σ n K(θ) - θ ε, and K''(θ) of all rounds there, nats²."""

    def slope(tilt: float) -> tuple[float, float]:
        parts = [profile.cumulant(tilt) for profile, _ in profiles]
        counts = [count for _, count in profiles]
        first = rounds * sum(n * part[1] for part, n in zip(parts, counts, strict=True))
        second = rounds * sum(n * part[2] for part, n in zip(parts, counts, strict=True))
        return first - epsilon, second

    value, curvature = slope(0.0)
    if value >= 0.0:
        return 0.0, curvature
    low, high, tilt = 0.0, math.inf, 0.0
    for _ in range(80):
        step = -value / curvature if curvature > 0.0 else math.inf
        proposal = tilt + step
        if not (low < proposal < high) or not math.isfinite(proposal):
            proposal = 0.5 * (low + high) if math.isfinite(high) else 2.0 * max(tilt, 1e-3)
        # Slowly away from 0: far out the curvature may vanish before the slope does.
        tilt = min(proposal, 4.0 * tilt + 2.0 / math.sqrt(max(curvature, 1e-300))) if curvature > 0.0 else proposal
        tilt = min(tilt, _LARGEST_TILT)
        value, curvature = slope(tilt)
        low, high = (tilt, high) if value < 0.0 else (low, tilt)
        if (
            abs(value) <= 0.01 * math.sqrt(max(curvature, 1e-300))
            or tilt >= _LARGEST_TILT
            or (math.isfinite(high) and high - low <= 1e-6 * high)
        ):
            break
    return tilt, curvature


_LARGEST_TILT = 1e6
