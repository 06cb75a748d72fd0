"""A rough picture of a pair's loss, from which windows, tilts and widths are chosen.

Nothing here is a bound: whatever is chosen, what is computed with it holds. Each cell stands for one event of loss
ln(a / b), the pair that keeps both masses, whose cumulants K(θ) = ln E_A e^{θL} are those of the pair up to the square
of a cell's width, and exact at θ = 0 and θ = -1.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pbdist.mechanisms import ElementaryPair
from pbdist.types import FloatArray

__all__ = ["LossProfile", "loss_profile"]

_PROBES: FloatArray = np.geomspace(1e-12, 1e4, 161)
_EDGES: FloatArray = np.concatenate((-_PROBES[::-1], [0.0], _PROBES))
_ROUGH: FloatArray = np.concatenate((-_PROBES[::-4], [0.0], _PROBES[::4]))
#: Cells a standard deviation, and how many at most.
_RESOLUTION, _MOST_CELLS = 6.0, 2000
#: Deviations up to which all cells that events are joined to are alike.
_BULK = 8.0


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
    only_a, only_b : float
        P_A mass of infinite losses, and P_B mass of infinitely small ones.
    pictures : dict
        What is remembered of the choice of lattices.
    """

    loss: FloatArray
    lower: FloatArray
    upper: FloatArray
    log_a: FloatArray
    lattice: float
    heaviest_atom: float
    only_a: float = 0.0
    only_b: float = 0.0
    pictures: dict[tuple[float, int, float], Any] = field(default_factory=dict, init=False, repr=False)

    def moments(self, tilt: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return K, K', K'' and E D⁴/24 for the difference D of two losses, at each of some θ."""
        exponent = np.multiply.outer(tilt, self.loss)
        exponent += self.log_a
        largest = exponent.max(axis=-1)
        weight = np.exp(exponent - largest[:, None])
        total = weight.sum(axis=-1)
        mean = weight @ self.loss / total
        square = (self.loss - mean[:, None]) ** 2
        variance = np.einsum("ij,ij->i", weight, square) / total
        fourth = np.einsum("ij,ij,ij->i", weight, square, square) / total
        return largest + np.log(total), mean, variance, (fourth + 3.0 * variance**2) / 12.0

    def log_characteristic(self, tilt: float, places: FloatArray) -> FloatArray:
        """Return ln |E e^{itL}| under a tilt, at some t."""
        exponent = self.log_a + tilt * self.loss
        weight = np.exp(exponent - exponent.max())
        weight /= weight.sum()
        sums = np.exp(1j * np.multiply.outer(places, self.loss)) @ weight
        result: FloatArray = np.log(np.minimum(np.abs(sums), 1.0) + 1e-300)
        return result

    def seen(self, lost: float) -> "LossProfile":
        """The profile without losses beyond which A has less than `lost` above, or B below: these count as infinite."""
        with np.errstate(over="ignore", under="ignore"):
            a, b = np.exp(self.log_a), np.exp(np.minimum(self.log_a - self.loss, 700.0))
        above, below = np.cumsum(a[::-1])[::-1], np.cumsum(b)
        kept = (above > lost) & (below > lost)
        if kept.all() or not kept.any():
            return self
        first, last = int(np.argmax(kept)), kept.size - int(np.argmax(kept[::-1]))
        part = slice(first, last)
        return replace(
            self,
            loss=self.loss[part],
            lower=self.lower[part],
            upper=self.upper[part],
            log_a=self.log_a[part],
            only_a=self.only_a + float(a[last:].sum()),
            only_b=self.only_b + float(b[:first].sum()),
        )


def loss_profile(pair: ElementaryPair, target: float, rare: float) -> LossProfile:
    """Look at a pair around its own losses, and up to the mean loss `target` that tilts may give it, nats.

    Up to `rare` it is looked at as closely as that many cells allow.
    """
    picture = pair.loss_picture(rare)
    if picture is not None:
        loss, log_a = picture
        largest = float(log_a.max())
        log_a = log_a - (largest + math.log(float(np.exp(log_a - largest).sum())))
        middle = 0.5 * (loss[:-1] + loss[1:])
        return LossProfile(loss, np.append(loss[:1], middle), np.append(middle, loss[-1:]), log_a, 0.0, 0.0)
    edges = _EDGES
    if target >= _PROBES[-1]:
        decades = math.log10(100.0 * target / _PROBES[-1])
        far = _PROBES[-1] * 10.0 ** np.linspace(0.1, decades, math.ceil(10.0 * decades))
        edges = np.concatenate((-far[::-1], edges, far))
    rough = _profile(pair, edges if target >= _PROBES[-1] else _ROUGH)
    if rough.loss.size == 0 or rough.lattice > 0.0:
        return rough
    _, means, variances, _ = rough.moments(np.array([-0.5]))
    mean, spread = float(means[0]), max(math.sqrt(float(variances[0])), 1e-12)
    reach = min(target, max(float(rough.loss[-1]), -float(rough.loss[0]))) + abs(mean) + 10.0 * spread
    cells = min(int(2.0 * reach / spread * _RESOLUTION) + 2, _MOST_CELLS)
    fine = np.linspace(-reach, reach, cells)
    if rare > reach:
        fine = np.union1d(fine, np.linspace(-rare, rare, _MOST_CELLS // 2))
    outside = edges[np.abs(edges) > max(reach, rare) + spread]
    return _profile(pair, np.sort(np.concatenate((outside, fine))))


def _profile(pair: ElementaryPair, edges: FloatArray) -> LossProfile:
    scaled = pair.scaled_loss_masses(edges)
    masses = scaled.masses
    a, b = masses.bins_a.upper, masses.bins_b.upper
    known = (masses.bins_a.lower > 0.0) & (masses.bins_b.lower > 0.0)
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
    lattice = 0.0 if np.any(masses.bins_a.upper > 0.0) else _lattice(atoms, masses.loss_error)
    heaviest = _heaviest(atoms, masses.atoms_a.upper[finite])
    if loss.size > _MOST_CELLS:
        loss, lower, upper, log_a = _joined(loss, lower, upper, log_a)
    only_a, only_b = float(masses.only_a.upper.sum()), float(masses.only_b.upper.sum())
    return LossProfile(loss, lower, upper, log_a, lattice, heaviest, only_a, only_b)


def _joined(
    loss: FloatArray, lower: FloatArray, upper: FloatArray, log_a: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Join events of about the same loss, as many cells as there may be."""
    log_u = log_a - 0.5 * loss
    weight = np.exp(log_u - log_u.max())
    spread = max(math.sqrt(float(np.sum(weight * loss**2) / weight.sum())), 1e-12)
    size = np.abs(loss) / (_BULK * spread)
    part = np.where(size <= 1.0, size, 1.0 + np.log(np.maximum(size, 1.0)))
    place = np.floor(np.sign(loss) * part * (0.1 * _MOST_CELLS))
    first = np.flatnonzero(np.append(True, np.diff(place) > 0.0))
    last = np.append(first[1:], loss.size) - 1
    own_a = np.logaddexp.reduceat(log_a, first)
    own_b = np.logaddexp.reduceat(log_a - loss, first)
    # Equal losses stay the atom they are.
    alike = lower[first] == upper[last]
    return np.where(alike, loss[first], own_a - own_b), lower[first], upper[last], own_a


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
