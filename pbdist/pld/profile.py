"""A rough picture of a pair's loss, from which windows, tilts and widths are chosen.

Nothing here is a bound: whatever is chosen, what is computed with it holds. Each cell stands for one event of loss
ln(a / b), the pair that keeps both masses, whose cumulants K(θ) = ln E_A e^{θL} are those of the pair up to the square
of a cell's width, and exact at θ = 0 and θ = -1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pbdist.mechanisms import ElementaryPair
from pbdist.types import FloatArray

__all__ = ["LossProfile", "loss_profile", "saddle_points"]

_PROBES: FloatArray = np.geomspace(1e-12, 1e4, 161)
_EDGES: FloatArray = np.concatenate((-_PROBES[::-1], [0.0], _PROBES))
_ROUGH: FloatArray = np.concatenate((-_PROBES[::-4], [0.0], _PROBES[::4]))
#: Cells a standard deviation, and how many at most.
_RESOLUTION, _MOST_CELLS = 6.0, 2000
#: Logarithm of the faintest mass that is put to infinity.
_FAINTEST = -560.0
#: Logarithm of a mass beside which 1e-290 e^ε is nothing, for ε up to the other, in nats.
_HEAVY, _MODERATE = -40.0, 400.0


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
    """

    loss: FloatArray
    lower: FloatArray
    upper: FloatArray
    log_a: FloatArray
    lattice: float
    heaviest_atom: float
    only_a: float = 0.0
    only_b: float = 0.0
    _cumulants: dict[float, tuple[float, float, float]] = field(default_factory=dict, init=False, repr=False)
    _capped: dict[int, "LossProfile"] = field(default_factory=dict, init=False, repr=False)
    _ranges: dict[tuple[float, float, float, float], tuple[float, float, bool]] = field(
        default_factory=dict, init=False, repr=False
    )

    def cumulant(self, tilt: float) -> tuple[float, float, float]:
        """Return K(θ), K'(θ) and K''(θ); remembered."""
        if tilt not in self._cumulants:
            self._cumulants[tilt] = self._cumulant(tilt)
        return self._cumulants[tilt]

    def _cumulant(self, tilt: float) -> tuple[float, float, float]:
        exponent = self.log_a + tilt * self.loss
        largest = float(exponent.max())
        weight = np.exp(exponent - largest)
        total = float(weight.sum())
        mean = float(weight @ self.loss) / total
        variance = float(weight @ (self.loss - mean) ** 2) / total
        return largest + math.log(total), mean, variance

    def cumulants(self, tilt: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return K, K' and K'' at each of some θ."""
        exponent = np.multiply.outer(tilt, self.loss)
        exponent += self.log_a
        largest = exponent.max(axis=-1)
        weight = np.exp(exponent - largest[:, None])
        total = weight.sum(axis=-1)
        mean = weight @ self.loss / total
        variance = np.einsum("ij,ij->i", weight, (self.loss - mean[:, None]) ** 2) / total
        return largest + np.log(total), mean, variance

    def range(self, tilt: float, allowed: float, limit: float, lost: float) -> tuple[float, float, bool]:
        """Return the losses between which all tilted weight lies but what is allowed on either side.

        What lies above `limit` goes to infinity where the third value says so: from the second one on, which is
        `limit`, or lower if no more than that P_B mass is lost thereby. Remembered.
        """
        wanted = (tilt, allowed, limit, lost)
        if wanted not in self._ranges:
            self._ranges[wanted] = self._range(tilt, allowed, limit, lost)
        return self._ranges[wanted]

    def _range(self, tilt: float, allowed: float, limit: float, lost: float) -> tuple[float, float, bool]:
        exponent = self.log_a + tilt * self.loss
        weight = np.exp(exponent - exponent.max())
        weight /= weight.sum()
        left = int(weight.cumsum().searchsorted(allowed, side="right"))
        right = weight.size - 1 - int(weight[::-1].cumsum().searchsorted(allowed, side="right"))
        low, high = float(self.lower[left]), float(self.upper[right])
        if limit >= high:
            return low, high, False
        kept = self.capped(limit)
        if kept is self:
            return low, high, False
        if not kept.loss.size:
            return low, limit, True
        # What goes to infinity no longer outweighs the rest.
        low, high, _ = kept.range(tilt, allowed, math.inf, lost)
        beyond = float(np.exp((self.log_a - self.loss)[kept.loss.size :]).sum())
        return low, high if beyond <= lost else limit, True

    def capped(self, limit: float) -> "LossProfile":
        """The profile of what stays finite if losses above the limit are infinite; the same, if next to none are."""
        finite = int(self.loss.searchsorted(limit, side="right"))
        # Infinite mass of A and of B is kept without tilt, hence above the smallest float64.
        log_b = self.log_a[finite:] - self.loss[finite:]
        if float(np.logaddexp.reduce(log_b, initial=-np.inf)) <= _FAINTEST:
            # Where P_A is heavy and ε moderate, the 1e-290 that the P_B mass then counts as is none.
            heavy = float(np.logaddexp.reduce(self.log_a[finite:], initial=-np.inf)) > _HEAVY
            if not heavy or limit > _MODERATE:
                return self
        if finite not in self._capped:
            kept = slice(finite)
            self._capped[finite] = replace(
                self,
                loss=self.loss[kept],
                lower=self.lower[kept],
                upper=self.upper[kept],
                log_a=self.log_a[kept],
                only_a=self.only_a + float(np.exp(self.log_a[finite:]).sum()),
            )
        return self._capped[finite]

    def bounded(self, limit: float) -> "LossProfile":
        """The profile with what is above the limit split between it and infinity, P_A and P_B masses kept."""
        kept = self.capped(limit)
        if kept is self:
            return self
        log_b = (self.log_a - self.loss)[kept.loss.size :]
        stays = float(np.logaddexp.reduce(log_b)) + limit
        return replace(
            kept,
            loss=np.append(kept.loss, limit),
            lower=np.append(kept.lower, limit),
            upper=np.append(kept.upper, limit),
            log_a=np.append(kept.log_a, stays),
        )

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
            self.only_b,
            self.only_a,
        )


def loss_profile(pair: ElementaryPair, target: float) -> LossProfile:
    """Look at a pair around its own losses, and up to the mean loss `target` that tilts may give it, nats."""
    picture = pair.loss_picture(target)
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
    only_a, only_b = float(masses.only_a.upper.sum()), float(masses.only_b.upper.sum())
    return LossProfile(
        loss, lower, upper, log_a, lattice, _heaviest(atoms, masses.atoms_a.upper[finite]), only_a, only_b
    )


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


def saddle_points(
    profiles: Sequence[tuple[LossProfile, int]], means: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Find for each x the θ >= 0 that minimises F(θ) = Σ n K(θ) - θx, by Newton's method kept in brackets.

    Parameters
    ----------
    profiles : sequence of (LossProfile, int)
        Pairs and how often each occurs, n.
    means : ndarray, shape (m,)
        x, nats.

    Returns
    -------
    tilt, curvature, slope, value : ndarray, shape (m,)
        θ, F'', F' and F there. F' is 0 but where θ is 0.
    """

    def evaluated(tilt: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        total = [np.zeros_like(tilt) for _ in range(3)]
        for profile, count in profiles:
            total = [part + count * value for part, value in zip(total, profile.cumulants(tilt), strict=True)]
        return total[0] - tilt * means, total[1] - means, total[2]

    tilt = np.zeros_like(means)
    low, high = np.zeros_like(means), np.full_like(means, np.inf)
    at_zero = np.zeros(3)
    for profile, count in profiles:
        at_zero += count * np.array(profile.cumulant(0.0))
    value, slope, curvature = np.full_like(means, at_zero[0]), at_zero[1] - means, np.full_like(means, at_zero[2])
    active = slope < 0.0
    for _ in range(80):
        if not active.any():
            break
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            proposal = tilt - slope / curvature
            # Slowly away from 0: far out the curvature may vanish before the slope does.
            proposal = np.minimum(proposal, 4.0 * tilt + 2.0 / np.sqrt(np.maximum(curvature, 1e-300)))
            between = np.where(np.isfinite(high), 0.5 * (low + high), 2.0 * np.maximum(tilt, 1e-3))
        inside = (low < proposal) & (proposal < high) & np.isfinite(proposal)
        tilt = np.where(active, np.minimum(np.where(inside, proposal, between), _LARGEST_TILT), tilt)
        value, slope, curvature = evaluated(tilt)
        low, high = np.where(active & (slope < 0.0), tilt, low), np.where(active & (slope >= 0.0), tilt, high)
        near = np.abs(slope) <= 0.01 * np.sqrt(np.maximum(curvature, 1e-300))
        active &= (
            ~near & ~((tilt >= _LARGEST_TILT) & (slope < 0.0)) & ~(np.isfinite(high) & (high - low <= 1e-6 * high))
        )
    return tilt, curvature, np.where(tilt > 0.0, 0.0, np.maximum(slope, 0.0)), value


_LARGEST_TILT = 1e6
