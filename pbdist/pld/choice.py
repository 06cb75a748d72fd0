"""Choose spacing, far part and window of a leaf from a rough picture of its losses. Nothing here is a bound.

A lattice of spacing h adds h²/6 to the variance of every leaf's loss above, and takes h²/12 from it below; so does
every coarsening, relative to the variance then reached. By how much that moves ln δ: see `profile`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pbdist.pld.leaf import Lattice
from pbdist.pld.loss_profile import LossProfile
from pbdist.pld.question import Question
from pbdist.pld.state import LARGEST_READ
from pbdist.types import Direction, FloatArray, IntArray

#: Positions of a leaf, at most.
MAX_POSITIONS = 1 << 21
#: Part of the tolerance that the spacing, and that the far part may take.
_SPACING_FRACTION, _FAR_FRACTION = 0.6, 0.25
#: A spacing for pictures that give none, nats.
_DEFAULT_SPACING = 1e-3
#: Losses are cut so many nats above the largest ε, besides -ln of the tolerance; and at most. The mean of e^{-loss}
#: under A is 1: of mass that becomes infinite at a loss l only a part e^{ε-l} would come back.
_MARGIN, _MAX_MARGIN = 4.6, 25.0
#: By how much rounding may add to all masses, relative to the tolerance, before it is computed with more care.
_ROUNDING_FRACTION = 5e-2
#: Spacings up to here, nats, keep half of the farthest loss of a product within what e^x may be taken of.
_MAX_SPACING = 50.0
#: Positions of the heaviest atom for each of the spacings that are joined to one, so that it costs few more.
_POSITIONS_PER_COARSENING = 8
#: Fewer positions than this are not quicker.
_FAR_POSITIONS = 2048
#: Cores of fewer positions than this are not made coarser, in general and where all losses are multiples of one number.
_MIN_COARSENED, _MIN_COARSENED_LATTICE = 512, 1 << 15
#: From so many expected occurrences on, a loss counts as one that occurs many times.
_FREQUENT = 0.3
#: Up to so many doublings, each may make rare losses coarser.
_FEW_DOUBLINGS = 8.0
#: Largest ratio of the spacings.
_MAX_SPACING_RATIO = 512


@dataclass(frozen=True)
class Limits:
    """What a ladder may lose."""

    #: P_A or P_B mass that, in all compositions together, may become infinite.
    floor: float
    #: Largest product of a spacing and the local slope of ln u at which that spacing is fine enough.
    step: float
    #: Product of the far part's spacing with the root of its mass, relative to the core's deviation and `step`.
    rare: float
    #: By how much rounding may add to all masses, relative to them.
    added: float
    #: Losses above this may become infinite: the largest ε and a margin, nats.
    largest: float
    #: The largest spacings of the core that are fine enough for 1, 2, 4, .. rounds, nats.
    spacings: tuple[float, ...]
    #: Number of positions from which on a core is made coarser.
    coarsens: int
    #: Up to so many levels new ones are made where they save positions.
    levels: int = 0


@dataclass(frozen=True)
class Chosen:
    """A leaf's lattices, one for each pair, and what the ladder may lose."""

    lattices: tuple[Lattice, ...]
    limits: Limits


def chosen_spacings(question: Question, rounds: IntArray) -> FloatArray:
    """About the largest spacings with which the bounds meet: of the state of 1, 2, 4, .. rounds.

    A state of 2^j rounds occurs r / 2^j times in one of r. Without a picture it is `_DEFAULT_SPACING`.
    """
    top, leaves = int(rounds.max()), question.leaves
    allowed = np.full(top.bit_length(), np.inf)
    stages = 1.0 + 0.5 * math.log2(top * leaves)
    parts = 2.0 ** np.arange(allowed.size)
    directions = question.directions if not question.joint_directions else (Direction.A_TO_B,)
    each = rounds[:, None].astype(np.float64)
    for direction in directions:
        saddles = question.exponents(direction).saddle_points(each, question.epsilon)
        sharpest = saddles.sharpness(question.tolerance, max(question.floor, 1e-250))[:, None]
        with np.errstate(divide="ignore"):
            largest = _SPACING_FRACTION * parts / (0.25 * leaves * stages * each * sharpest)
        allowed = np.minimum(allowed, np.where(parts <= each, largest, np.inf).min(axis=0))
    result: FloatArray = np.where(np.isfinite(allowed), np.sqrt(allowed), _DEFAULT_SPACING)
    return result


def chosen_lattices(
    profiles: Sequence[tuple[LossProfile, int]],
    top: int,
    largest: float,
    spacings: FloatArray,
    *,
    tolerance: float,
    floor: float,
    most: int = MAX_POSITIONS,
    farthest: float = LARGEST_READ,
) -> Chosen | None:
    """Choose the lattices of a round's pairs for `top` rounds and ε up to `largest`; None if they are too large.

    `profiles` are the pairs and how often each occurs; `spacings` those of states of 1, 2, 4, .. rounds, nats. The
    spacing is wider where there would be more than `most` positions. Losses beyond `farthest`
    and a margin are infinite.
    """
    spacing = float(spacings[0])
    leaves = top * sum(count for _, count in profiles)
    lost = 0.1 * tolerance * max(floor, 1e-290)
    largest = min(largest, farthest) + min(_MARGIN - math.log(min(tolerance, 1.0)), _MAX_MARGIN)
    lattices = {profile.lattice for profile, _ in profiles}
    lattice = lattices.pop() if len(lattices) == 1 else 0.0
    if lattice > _MAX_SPACING:
        # Of such losses one alone reveals the input.
        lattice = 0.0
    doublings = max(math.log2(leaves), 1.0)
    # Of many doublings only some make rare losses coarser.
    step = math.sqrt(12.0 * _FAR_FRACTION * tolerance / max(min(doublings, _FEW_DOUBLINGS), 0.5 * doublings))
    pictures = [_picture(profile, lost / leaves, leaves, largest) for profile, _ in profiles]
    if lattice > 0.0:
        spacing, coarse, cores = lattice, 1, [0.0] * len(pictures)
        spacings = np.maximum(spacings, lattice)
    else:
        atom = max(profile.heaviest_atom for profile, _ in profiles)
        if 0.1 * spacing < atom <= largest:
            # Made coarser it lies on the lattice still.
            count = math.ceil(atom / spacing)
            times = 1 << max(math.floor(math.log2(float(spacings[-1] / spacings[0])) + 1e-9), 0)
            while _POSITIONS_PER_COARSENING * times > count and times > 1:
                times //= 2
            spacing = atom / (times * math.ceil(count / times))
        coarse, cores = _far_part(pictures, spacing, step)
        positions = max(
            2.0 * core / spacing + (p.above + p.below) / (coarse * spacing)
            for p, core in zip(pictures, cores, strict=True)
        )
        if positions > 0.5 * most:
            # As fine as can be.
            spacing *= 4.0 * positions / most
            coarse, cores = _far_part(pictures, spacing, step)
    result = []
    for picture, core in zip(pictures, cores, strict=True):
        wide = coarse * spacing
        low, high = -coarse * (math.floor(picture.below / wide) + 1), coarse * (math.floor(picture.above / wide) + 1)
        low, high = min(low, -coarse), max(high, coarse)
        inner = (
            (low, high)
            if coarse == 1
            else (max(low, -coarse * (math.floor(core / wide) + 1)), min(high, coarse * (math.floor(core / wide) + 1)))
        )
        if wide > _MAX_SPACING or inner[1] - inner[0] + (high - low) // coarse > MAX_POSITIONS:
            return None
        result.append(Lattice(spacing, coarse, inner, low, high))
    limits = Limits(
        lost,
        step,
        _RARE,
        _ROUNDING_FRACTION * tolerance,
        largest,
        tuple((spacings * (1.0 + 1e-9)).tolist()),
        _MIN_COARSENED_LATTICE if lattice > 0.0 else _MIN_COARSENED,
    )
    return Chosen(tuple(result), limits)


#: Product of the spacing of the far part with the root of its mass, relative to the core's deviation and `step`.
_RARE = 0.2


class _Picture:
    """Losses of one pair as points: where they end."""

    def __init__(self, profile: LossProfile, lost: float, leaves: int, largest: float) -> None:
        self._profile, loss, log_a = profile, profile.loss, profile.log_a
        self.above = self.below = self.reach = 0.0
        if loss.size == 0:
            return
        with np.errstate(over="ignore", under="ignore"):
            a, b = np.exp(log_a), np.exp(np.minimum(log_a - loss, 700.0))
        beyond, before = np.cumsum(a[::-1])[::-1], np.cumsum(b)
        seen_above, unseen_below = int(np.count_nonzero(beyond > lost)), int(np.count_nonzero(before <= lost))
        if seen_above:
            self.above = min(max(float(profile.upper[seen_above - 1]), 0.0), largest)
        if unseen_below < loss.size:
            self.below = min(max(-float(profile.lower[unseen_below]), 0.0), largest)
        gains = int(np.searchsorted(loss, 0.0, side="right"))
        self.reach = max(self.above, _reach(loss[gains:], beyond[gains:], lost, leaves, largest))
        self.reach += max(self.below, _reach(-loss[:gains], before[:gains], lost, leaves, largest))

    @cached_property
    def steepness(self) -> "_Steepness":
        """How steep masses are between the ends, and how rare."""
        return _Steepness(self._profile, self.above, self.below)


class _Steepness:
    """Losses of one pair as points: how steep their masses are up to both ends, and how rare."""

    def __init__(self, profile: LossProfile, above: float, below: float) -> None:
        loss, log_u = profile.loss, profile.log_a - 0.5 * profile.loss
        inside = (loss <= above) & (loss >= -below)
        if not inside.any():
            self.loss = self.rarity = np.zeros(0)
            return
        u = np.where(inside, np.exp(np.minimum(log_u - log_u[inside].max(), 0.0)), 0.0)
        u /= u.sum()
        size = np.abs(loss)
        order = np.argsort(size)
        self.loss = size[order]
        within = np.cumsum(u[order])
        self.rarity = np.ones(size.size)
        np.maximum(1.0 - within[:-1], 0.0, out=self.rarity[1:])
        # Slopes of the density between neighbours, of the mass where one of them is an atom.
        gaps = profile.upper - profile.lower
        atom = gaps <= 0.0
        mixed = atom[1:] | atom[:-1]
        density = log_u - np.log(np.where(atom, 1.0, gaps))
        distance = np.maximum(np.diff(loss), 1e-300)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            between = np.abs(np.where(mixed, np.diff(log_u), np.diff(density))) / distance
        # Those to both neighbours; of what lies at an end there is one.
        beside = np.zeros((2, 2, size.size))
        beside[:, 0, 1:] = beside[:, 1, :-1] = (
            np.where(np.isfinite(between), between, 0.0),
            np.where(mixed, distance, 0.0),
        )
        beside[0] *= inside
        self._slopes, self._apart = beside[..., order]
        self._farthest = float(self._apart.max())
        # The deviation of what lies within each size.
        weights = np.maximum(within, 1e-300)
        inner = np.cumsum(u[order] * loss[order]) / weights
        self._variance = np.maximum(np.cumsum(u[order] * loss[order] ** 2) / weights - inner**2, 0.0)
        self._steepest = np.maximum(*self._slopes)

    def core(self, wide: float, step: float) -> float:
        """Return the loss from which on a spacing is fine enough."""
        if self.loss.size == 0:
            return 0.0
        # Atoms farther apart than the spacing say nothing about the slope.
        slope = self._steepest
        if self._farthest > wide:
            slope = np.where(self._apart <= wide, self._slopes, 0.0).max(axis=0)
        matters = ((0.5 + slope) * wide > step) | (self.rarity > (_RARE * step) ** 2 * self._variance / wide**2)
        last = matters.size - 1 - int(matters[::-1].argmax())
        return float(self.loss[last]) if matters[last] else 0.0


def _picture(profile: LossProfile, lost: float, leaves: int, largest: float) -> _Picture:
    """Return the picture of a profile, and keep the last one."""
    key = lost, leaves, largest
    if key not in profile.pictures:
        profile.pictures.clear()
        profile.pictures[key] = _Picture(profile, lost, leaves, largest)
    found: _Picture = profile.pictures[key]
    return found


def _reach(sizes: FloatArray, beyond: FloatArray, lost: float, leaves: int, largest: float) -> float:
    """How far losses of so many leaves together reach: several that are rare, as long as that is not too rare."""
    if sizes.size == 0:
        return 0.0
    expected = np.clip(leaves * beyond, 1e-300, _FREQUENT)
    times = np.floor(np.maximum(math.log(max(lost * leaves, 1e-300)) / np.log(expected), 1.0))
    times = np.where(expected >= lost * leaves, times, 0.0)
    return min(float((times * sizes).max()), largest)


def _far_part(pictures: Sequence[_Picture], spacing: float, step: float) -> tuple[int, list[float]]:
    """Choose how much coarser the far part is, and the core of each pair: if it is no coarser, there is no other."""
    whole = sum(picture.reach for picture in pictures)
    best: tuple[float, int, list[float]] = whole / spacing, 1, [0.0] * len(pictures)
    coarse = _MAX_SPACING_RATIO
    while coarse > 1:
        wide = coarse * spacing
        far = 1.5 * whole / wide + _FAR_POSITIONS * len(pictures)
        if far > best[0]:
            break
        cores = [min(picture.steepness.core(wide, step), max(picture.above, picture.below)) for picture in pictures]
        positions = 2.0 * sum(cores) / spacing + far
        if positions <= best[0]:
            best = positions, coarse, cores
        coarse //= 2
    return best[1], best[2]
