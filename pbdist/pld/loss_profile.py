"""A rough picture of a pair's loss, its cumulants at many tilts, and saddle points. Nothing here is a bound.

Windows, tilts and widths are chosen from it; bounds computed with them hold whatever they are. Each bin stands for one
event of loss ln(a / b), which keeps both masses. Its cumulants K(θ) = ln E_A e^{θL} are those of the pair up to the
square of a bin's width, and exact at θ = 0 and θ = -1.

At the saddle point θ of ε, rK'(θ) = ε, δ is about e^{F} / (1 + θ(1+θ)√(2πV)), F = rK(θ) - θε and V = rK''(θ). Adding a
variance v to the loss moves ln δ by at most about v (θ(θ+1) + 1/V + 1/√V) / 2. The direction B||A has the loss -L under
B, with the cumulants K(-1-θ).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from pbdist.mechanisms import BEYOND, ElementaryPair
from pbdist.types import BoolArray, Direction, FloatArray

_PROBES: FloatArray = np.geomspace(1e-12, 1e4, 161)
_EDGES: FloatArray = np.concatenate((-_PROBES[::-1], [0.0], _PROBES))
_ROUGH: FloatArray = np.concatenate((-_PROBES[::-4], [0.0], _PROBES[::4]))
#: Bins per standard deviation, and bins at most.
_RESOLUTION, _MAX_BINS = 6.0, 2000
#: The same where a round's losses have such a deviation, nats: many rounds then see a mean that is hardly off.
_LITTLE_NOISE, _FINE_RESOLUTION = 0.3, 30.0
#: How much closer to each other the losses of A or of B are than those between them, before that counts; tilts of A
#: and B; and part of their losses' deviation that may lie beyond what is looked at.
_CLOSER, _OWN, _UNSEEN = 2.0, np.array([0.0, -1.0]), 1e-3
#: Deviations up to which all joined bins have the same width.
_BULK = 8.0
#: Saddle points are looked for at these; a rough search takes fewer.
_TILTS: FloatArray = np.concatenate(([0.0], np.geomspace(1e-4, 1e4, 81)))
ROUGH_TILTS: FloatArray = np.geomspace(1e-3, 1e4, 22)
#: How often profiles are made finer; what part of a leap is not smooth, and what part of the mean it is, at least, if
#: it is looked at closer; into how many parts, and how many leaps.
_REFINEMENTS, _LEAP, _LEAST_LEAP, _PARTS, _MAX_LEAPS = 3, 0.3, 1e-3, 8, 8
#: Within this part of the largest mean, losses are at their end if their deviation is a smaller part of ε than this.
_AT_THE_END = 1e-5
#: Part of the distance to the floor by which ln δ of what lies below it may be wrong.
_OF_FLOOR = 0.2


@dataclass(frozen=True, eq=False)
class LossProfile:
    """Losses as point masses."""

    #: Nats, finite, increasing; shape (m,).
    loss: FloatArray
    #: Where the events lie that each point stands for, nats, finite; shape (m,).
    lower: FloatArray
    upper: FloatArray
    #: Natural logarithms of the P_A masses; shape (m,).
    log_a: FloatArray
    #: A width of which every loss is a multiple, 0 if there is none.
    lattice: float
    #: Size of the loss of the heaviest atom, 0 if there is none but at 0.
    heaviest_atom: float
    #: P_A mass of infinite losses, and P_B mass of infinitely small ones.
    only_a: float = 0.0
    only_b: float = 0.0
    #: What is remembered of the choice of lattices.
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

    def usual_reach(self, reach: float) -> float:
        """A size of losses, at least `reach`, beyond which those of A and of B hardly matter for their mean."""
        with np.errstate(over="ignore", under="ignore"):
            masses = np.exp(self.log_a), np.exp(np.minimum(self.log_a - self.loss, 700.0))
        size, result = np.maximum(np.abs(self.lower), np.abs(self.upper)), reach
        order = np.argsort(-size, kind="stable")
        for mass in masses:
            mean = float(mass @ self.loss)
            deviation = math.sqrt(max(float(mass @ (self.loss - mean) ** 2), 1e-24))
            beyond = np.cumsum((mass * size)[order]) > _UNSEEN * deviation
            if beyond.any():
                result = max(result, float(size[order][np.argmax(beyond)]))
        return result

    def seen(self, lost: float) -> "LossProfile":
        """The profile without losses beyond which A has less than `lost` above, or B below: these count as infinite."""
        with np.errstate(over="ignore", under="ignore"):
            a, b = np.exp(self.log_a), np.exp(np.minimum(self.log_a - self.loss, 700.0))
        above, below = np.cumsum(a[::-1])[::-1], np.cumsum(b)
        present = (above > lost) & (below > lost)
        if present.all() or not present.any():
            return self
        first, last = int(np.argmax(present)), present.size - int(np.argmax(present[::-1]))
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


def summed_moments(profiles: Sequence[tuple[LossProfile, int]], tilt: FloatArray) -> FloatArray:
    """Return the sums of `LossProfile.moments` over a round, shape (4, number of tilts)."""
    found = (count * np.array(profile.moments(tilt)) for profile, count in profiles if profile.loss.size)
    return sum(found, start=np.zeros((4, tilt.size)))


def loss_profile(
    pair: ElementaryPair, target: float, rare: float, beyond: float = BEYOND, *, rough: bool = False
) -> LossProfile:
    """Picture a pair around its own losses, and up to the mean loss `target` that tilts may give it, nats.

    Up to `rare` with as many bins as are allowed, and so many deviations beyond where it has a picture of its own; or
    with few bins, if a `rough` one suffices.
    """
    picture = pair.loss_picture(rare, beyond)
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
    found = _profile(pair, edges) if target >= _PROBES[-1] else _rough_profile(pair)
    if rough or found.loss.size == 0 or found.lattice > 0.0:
        # What is remembered of it is not shared between threads.
        return replace(found)
    first = found
    for _ in range(_REFINEMENTS):
        _, means, variances, _ = found.moments(np.array([-0.5, 0.0, -1.0]))
        mean, spreads = float(means[0]), np.sqrt(np.maximum(variances, 1e-24))
        spread, farthest = float(spreads[0]), max(float(first.loss[-1]), -float(first.loss[0]))
        reach = min(target, farthest) + abs(mean) + 10.0 * spread
        # With little noise A and B themselves have losses far from those between them, and closer to each other.
        reach = max(reach, min(first.usual_reach(reach), farthest))
        least = float(spreads.min())
        width = least if least < spread / _CLOSER else spread
        resolution = _RESOLUTION if width < _LITTLE_NOISE else _FINE_RESOLUTION
        bins = min(int(2.0 * reach / width * resolution) + 2, _MAX_BINS)
        fine = np.linspace(-reach, reach, bins)
        if rare > reach:
            fine = np.union1d(fine, np.linspace(-rare, rare, _MAX_BINS // 2))
        outside = edges[np.abs(edges) > max(reach, rare) + spread]
        before, found = least, _profile(pair, np.sort(np.concatenate((outside, fine))))
        if found.loss.size == 0 or float(np.sqrt(found.moments(_OWN)[2]).min()) > before / _CLOSER:
            break
    return found


@lru_cache(maxsize=4)
def _rough_profile(pair: ElementaryPair) -> LossProfile:
    """The profile that all finer ones of a pair begin with."""
    return _profile(pair, _ROUGH)


def _profile(pair: ElementaryPair, edges: FloatArray) -> LossProfile:
    scaled = pair.scaled_loss_masses(edges)
    masses = scaled.masses
    a, b = masses.bins_a.upper, masses.bins_b.upper
    known = (masses.bins_a.lower > 0.0) & (masses.bins_b.lower > 0.0)
    log_a = np.log(a[known]) + scaled.log_scale_a[known]
    loss = log_a - np.log(b[known]) - scaled.log_scale_b[known]
    # The outermost bins have no outer end: their masses count as near their loss.
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
    lattice = 0.0 if (masses.bins_a.upper > 0.0).any() else _lattice(atoms, masses.loss_error)
    heaviest = _heaviest(atoms, masses.atoms_a.upper[finite])
    if loss.size > _MAX_BINS:
        loss, lower, upper, log_a = _joined(loss, lower, upper, log_a)
    only_a, only_b = float(masses.only_a.upper.sum()), float(masses.only_b.upper.sum())
    return LossProfile(loss, lower, upper, log_a, lattice, heaviest, only_a, only_b)


def _joined(
    loss: FloatArray, lower: FloatArray, upper: FloatArray, log_a: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Join events of about the same loss into as many bins as are allowed."""
    log_u = log_a - 0.5 * loss
    weight = np.exp(log_u - log_u.max())
    spread = max(math.sqrt(float((weight * loss**2).sum() / weight.sum())), 1e-12)
    size = np.abs(loss) / (_BULK * spread)
    part = np.where(size <= 1.0, size, 1.0 + np.log(np.maximum(size, 1.0)))
    bins = np.floor(np.sign(loss) * part * (0.1 * _MAX_BINS))
    first = np.flatnonzero(np.append(True, np.diff(bins) > 0.0))
    last = np.append(first[1:], loss.size) - 1
    own_a = np.logaddexp.reduceat(log_a, first)
    own_b = np.logaddexp.reduceat(log_a - loss, first)
    # Equal losses stay the atom they are.
    equal = lower[first] == upper[last]
    return np.where(equal, loss[first], own_a - own_b), lower[first], upper[last], own_a


def _heaviest(atoms: FloatArray, masses: FloatArray) -> float:
    """Return the size of the loss of the heaviest atom that has one."""
    apart = np.abs(atoms) > 0.0
    return float(np.abs(atoms[apart][np.argmax(masses[apart])])) if apart.any() else 0.0


def _lattice(atoms: FloatArray, loss_error: float) -> float:
    """Return the largest of a few candidate widths of which all atoms are multiples within their rounding."""
    sizes = np.unique(np.abs(atoms[np.abs(atoms) > 4.0 * loss_error]))
    if sizes.size == 0 or sizes.size > 64:
        return 0.0
    for divisor in range(1, 9):
        width = float(sizes[0]) / divisor
        multiple = np.rint(sizes / width)
        if (np.abs(sizes - multiple * width) <= 2.0 * loss_error + 1e-15 * sizes).all() and multiple[-1] <= 4096:
            return width
    return 0.0


@dataclass(frozen=True, eq=False)
class SaddlePoints:
    """Of some ε after a number of rounds; arrays of shape (E,), or (R, E) for several numbers of rounds."""

    #: ε, nats; θ >= 0 and V.
    epsilon: FloatArray
    tilt: FloatArray
    variance: FloatArray
    #: rK'(θ) - ε: above 0 where no tilt is needed.
    slope: FloatArray
    #: F, and about ln δ.
    exponent: FloatArray
    log_delta: FloatArray
    #: Whether the losses reach that far.
    reached_by_losses: BoolArray

    @property
    def excess(self) -> FloatArray:
        """About ln(e^F / δ)."""
        z = self.tilt * np.sqrt(self.variance)
        result: FloatArray = np.log1p(z * z) - 0.5 * np.minimum(np.log(self.variance), 0.0) + 1.0
        return result

    def sharpness(self, tolerance: float, floor: float) -> FloatArray:
        """By how much a unit of added variance moves ln δ, at most about, relative to how well it is to be known.

        Of what lies below the floor, it need only be proved.
        """
        tilt, variance = self.tilt, self.variance
        allowed = np.maximum(tolerance, _OF_FLOOR * (math.log(floor) - self.log_delta))
        sharp = 0.5 * (tilt * (tilt + 1.0) + 1.0 / variance + 1.0 / np.sqrt(variance)) / allowed
        return np.asarray(np.max(sharp, axis=-1, where=self.reached_by_losses, initial=0.0))


class Exponents:
    """Cumulants of a round in one direction, at increasing tilts.

    `means` are the least and the largest mean of a round that matter, nats.
    """

    def __init__(
        self, profiles: Sequence[tuple[LossProfile, int]], direction: Direction, means: tuple[float, float]
    ) -> None:
        self._profiles, self._sign = profiles, 1.0 if direction is Direction.A_TO_B else -1.0
        self._tilts, sums = _TILTS, self._sums(_TILTS)
        between = self._between(sums, *means)
        if between.size:
            tilts = np.concatenate((self._tilts, between))
            order = np.argsort(tilts, kind="stable")
            sums = np.concatenate((sums, self._sums(between)), axis=1)[:, order]
            self._tilts = tilts[order]
        self._k, self._variance = sums[0], sums[2]
        # Rounding must not turn them round.
        self._mean = np.maximum.accumulate(sums[1])
        #: The mean of a round's loss under the steepest tilt, nats, and its variance without a tilt.
        self.largest_mean, self.usual_variance = float(self._mean[-1]), float(self._variance[0])
        #: By how much the mean would rise between two tilts, if it rose evenly.
        self._smooth = 0.5 * (self._variance[1:] + self._variance[:-1]) * np.diff(self._tilts)
        #: Σ E D⁴/24 for the difference D of two losses of a leaf.
        self._fourth = sums[3]

    def _sums(self, tilts: FloatArray) -> FloatArray:
        sums = summed_moments(self._profiles, tilts if self._sign > 0.0 else -1.0 - tilts)
        sums[1] *= self._sign
        sums[2:] = np.maximum(sums[2:], 1e-300)
        return sums

    def _between(self, sums: FloatArray, least: float, largest: float) -> FloatArray:
        """Return tilts where the mean leaps from what is usual to what is rare."""
        steps, mean = np.diff(self._tilts), sums[1]
        smooth = 0.5 * (sums[2, 1:] + sums[2, :-1]) * steps
        leaps = np.diff(mean)
        matters = (mean[:-1] < largest) & (mean[1:] > least) & (leaps > _LEAST_LEAP * mean[1:])
        worst = np.flatnonzero(matters & (np.abs(leaps - smooth) > _LEAP * np.maximum(leaps, smooth)))
        if worst.size > _MAX_LEAPS:
            ratio = mean[1:][worst] / np.maximum(mean[:-1][worst], 0.1 * least + 1e-300)
            worst = worst[np.argsort(ratio, kind="stable")[-_MAX_LEAPS:]]
        parts = np.arange(1.0, _PARTS) / _PARTS
        return (self._tilts[worst][:, None] + steps[worst][:, None] * parts).ravel()

    def saddle_points(self, rounds: int | FloatArray, epsilon: FloatArray) -> SaddlePoints:
        """Return those of some ε after a number of rounds, or after several, of shape (R, 1)."""
        x = epsilon / rounds
        mean, tilts = self._mean, self._tilts
        index = np.minimum(np.maximum(np.searchsorted(mean, x), 1), tilts.size - 1) - 1
        low, high = mean[index], mean[index + 1]
        width = tilts[index + 1] - tilts[index]
        with np.errstate(divide="ignore", invalid="ignore"):
            grown = (x - low) / (high - low)
            # The mean rises by factors where it leaps, and evenly about 0.
            rate = np.log(high / low)
            leaps = (low > 0.0) & (np.abs(self._smooth[index] - (high - low)) > _LEAP * (high - low)) & (rate > 1e-6)
            grown = np.where(leaps, np.log(x / low) / rate, grown) if leaps.any() else grown
            # Below the first mean, where no tilt is needed, it is 0.
            part = np.where(grown > 0.0, np.minimum(grown, 1.0), 0.0)
            area = part * width * (low + 0.5 * part * (high - low))
            if leaps.any():
                area = np.where(leaps, width * low * np.expm1(rate * part) / rate, area)
        tilt = tilts[index] + part * width
        variance = np.maximum(rounds * np.interp(tilt, tilts, self._variance), 1e-280)
        exponent = rounds * (self._k[index] + area - tilt * x)
        slope = np.maximum(rounds * mean[0] - epsilon, 0.0)
        log_delta = exponent - np.log1p(tilt * (1.0 + tilt) * np.sqrt(2.0 * math.pi * variance))
        spread = (x < (1.0 - _AT_THE_END) * mean[-1]) | (variance > (_AT_THE_END * epsilon) ** 2)
        reached = spread & (x <= (1.0 + 1e-12) * mean[-1])
        return SaddlePoints(epsilon, tilt, variance, slope, exponent, log_delta, reached)

    def deepest(self, rounds: int, log_floor: float) -> float:
        """Return about the ε at which δ is e^`log_floor` after some rounds; the largest loss if there is none."""
        variance = np.maximum(rounds * self._variance, 1e-280)
        tail = np.log1p(self._tilts * (1.0 + self._tilts) * np.sqrt(2.0 * math.pi * variance))
        log_delta = rounds * (self._k - self._tilts * self._mean) - tail
        if log_delta[-1] >= log_floor:
            return float(rounds * self._mean[-1])
        return float(rounds * np.interp(-log_floor, -np.minimum.accumulate(log_delta), self._mean))

    def surviving(self, rounds: int, tilt: float, log_outside: float, spacing: float) -> float:
        """Return about how many frequencies are left of so many rounds, on a lattice of a spacing.

        All of a window where the lowest moments do not tell.
        """
        second, fourth = (float(np.interp(tilt, self._tilts, values)) for values in (self._variance, self._fourth))
        budget = math.log(8.0) - log_outside
        window = 2.0 * math.sqrt(2.0 * budget * rounds * second)
        cut = math.sqrt(budget / (0.3749 * rounds * second))
        # Windows are somewhat wider than they would have to be.
        return 0.5 * window / spacing if cut * cut > 0.25 * second / fourth else cut * window / math.pi
