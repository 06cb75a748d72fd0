"""Choose the spacings of the levels, and where each begins. Nothing here is a bound.

Of n steps, usual sums of the likelihood ratios deviate from n m by about s √n; m and s are those of one ratio under B,
less the ratios that few sums have. Splitting a ratio adds up to a quarter of the squared spacing to its variance: usual
sums lie on a small part of s √n. Far above them one ratio is larger than all others together, and the spacing need only
be small beside the distance over which masses fall by a factor e; far below, masses may fall more steeply. Where sums
are rarer than the smallest δ that matters, the spacing may be larger by the root of the ratio.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from pbdist.types import FloatArray

#: Doublings of the spacing from one level to the next.
LEVEL = 2
#: A part of the distance over which masses fall by a factor e, times the resolution, that a spacing is at most.
_STEP = 4.0
#: Deviations and points of the picture of one ratio.
_DEVIATIONS: FloatArray = np.linspace(-14.0, 14.0, 449)
_TILTS: FloatArray = np.geomspace(1e-6, 1e12, 217)
#: The spacing of a bottom level, in deviations, at most; and by how many doublings it is coarser than the finest one.
_NEAR, _WORTH = 4.0, 3
#: Levels finer than that of the usual sums are at most so many doublings finer.
_MAX_FINER = 24
#: Part of what may be lost that rounding may add, and by what power of their number less to sums of fewer ratios, of
#: which there are more.
_OF_LOST, _EARLIER = 0.15, 0.75
#: Ratios that this part of all sums has at most are left aside; below this sensitivity / scale there are none.
_RARE, _NEARLY_NORMAL = 0.3, 0.1
#: The smallest spacing relative to usual sums of all steps.
_SMALLEST = 2.0**-31
#: Distances above usual sums that are looked at, and what part of its distance a spacing is at most.
_LOOKS, _WIDEST = 400, 0.25
#: Binary digits of a spacing: multiples of it up to 2^32 are floats.
_DIGITS = 20


@dataclass(frozen=True)
class Stage:
    """The levels of sums of a number of ratios."""

    #: The exponents of the levels, increasing, and the sum at which each begins; the first begins at 0.
    levels: tuple[tuple[int, float], ...]
    #: The exponent of a coarse level for sums below all usual ones, and how many points it has; None for none.
    bottom: tuple[int, int] | None
    #: Sums above it become infinite, or are left out.
    top: float
    #: By how much rounding may move all P_B masses: a part of what may be lost, where P_A is so many times as much.
    budget: float


@dataclass(frozen=True)
class Plan:
    """Spacings of all numbers of steps."""

    #: The spacing of exponent 0: that of usual sums of all steps.
    unit: float
    steps: int
    #: Sensitivity / scale.
    ratio: float
    #: m and s.
    mean: float
    deviation: float
    #: Spacings relative to the distance over which masses fall by a factor e, at most.
    step: float
    #: The smallest δ that matters.
    matters: float
    #: The mean ratios below which a level 0, 1, 2, .. doublings finer than that of the usual sums is not fine enough.
    steep: tuple[float, ...]
    #: -ln of the mass that may be lost.
    depth: float
    #: Mean ratios below which sums of 1, 2, 4, .. ratios are rare.
    least: tuple[float, ...]

    def stage(self, count: int) -> Stage:
        """Return the levels for sums of `count` ratios.

        Other levels than that of the usual sums have even exponents at each stage: none is made coarser for the sake of
        another one.
        """
        usual = math.floor(0.5 * math.log2(count / self.steps) + 1e-9)
        finest = usual - len(self.steep)
        levels = [(finest if finest == usual else finest + finest % LEVEL, 0.0)]
        while levels[-1][0] < usual:
            exponent = min(levels[-1][0] + LEVEL, usual)
            levels.append((exponent, self.steep[usual - exponent] * count))
        finest = levels[0][0]
        lowest = count * self.least[count.bit_length() - 1]
        # As coarse as that its last point, at or below the lowest sums, is not far below them.
        near = min(0.5 * lowest, _NEAR * self.deviation * math.sqrt(count))
        bottom = math.floor(math.log2(near / self.unit)) if near > 0.0 else finest
        rare = bottom, math.floor(lowest / (self.unit * 2.0**bottom))
        beyond, allowed = self._allowed(count)
        usual_sum = count * self.mean
        exponent = usual + LEVEL - usual % LEVEL
        while (at := int(np.searchsorted(allowed, self.unit * 2.0**exponent))) < beyond.size:
            levels.append((exponent, usual_sum + float(beyond[at])))
            exponent += LEVEL
        top = usual_sum + float(beyond[-1])
        budget = _OF_LOST * math.exp(-self.depth) * (count / self.steps) ** _EARLIER / max(top / count, 1.0)
        return Stage(tuple(levels), rare if bottom >= finest + _WORTH else None, top, budget)

    def _allowed(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Return distances above usual sums, and what spacing is fine enough from there on."""
        deviation = self.deviation * math.sqrt(count)
        ends = math.sqrt(2.0 * self.depth)
        reach = math.exp(self.ratio * ends + 0.5 * self.ratio * self.ratio)
        reach += math.sqrt(math.expm1(self.ratio * self.ratio) * count) * ends
        beyond = np.geomspace(deviation, reach, _LOOKS)
        usual, single = beyond / deviation, np.log(beyond) / self.ratio + 0.5 * self.ratio
        tilt, mean, rate = _tail(self.ratio, 1.0)
        at = self.mean + beyond / count
        skewed = np.exp(-count * np.interp(at, mean, rate, right=math.inf)) / (2.0 + usual)
        of_usual = np.maximum(ndtr(-usual), skewed) * (self.steps / count)
        of_single = ndtr(-single) * self.steps + ndtr(self.ratio - single)
        fall_of_usual = 1.0 / np.interp(at, mean, tilt)
        fall = np.where(of_usual > of_single, fall_of_usual, beyond / (1.0 + np.maximum(single / self.ratio, 0.0)))
        rare = np.sqrt(np.maximum(self.matters / (of_usual + of_single + 1e-300), 1.0))
        fine = np.minimum(self.step * fall * rare, _WIDEST * beyond)
        return beyond, np.asarray(np.minimum.accumulate(fine[::-1])[::-1])


def chosen_plan(ratio: float, steps: int, resolution: float, lost: float, matters: float) -> Plan:
    """Choose the levels for steps of Gaussian noise.

    `ratio` is sensitivity / scale; a standard deviation of a sum has about `resolution` spacings; the mass `lost` may
    become infinite; `matters` is the smallest δ that matters.
    """
    depth, step = -math.log(lost), _STEP / resolution
    usual, deviation = _usual(ratio, steps)
    # Points up to usual sums are to have exact numbers, and sums of them.
    spacing = _rounded(max(deviation * math.sqrt(steps) / resolution, steps * usual * _SMALLEST))
    tilt, mean, rate = _tail(ratio, -1.0)
    least = []
    for doubling in range(steps.bit_length()):
        at = int(np.searchsorted(rate, depth / 2.0**doubling))
        least.append(float(mean[at]) if at < mean.size else 0.0)
    rare = np.exp(0.5 * np.maximum(np.minimum(steps * rate, depth) + math.log(matters), 0.0))
    # A spacing of 1 / (steepness) or less, times the step, is needed.
    steepness = tilt / rare
    steep: list[float] = []
    while len(steep) < _MAX_FINER:
        above = np.flatnonzero((steepness > step / spacing * 2.0 ** len(steep)) & (steps * rate <= depth))
        if above.size == 0:
            break
        steep.append(float(mean[above[0]]))
    return Plan(spacing, steps, ratio, usual, deviation, step, matters, tuple(steep), depth, tuple(least))


def _usual(ratio: float, steps: int) -> tuple[float, float]:
    """Return mean and deviation of a ratio under B, without the largest ones, which few sums of all steps have."""
    if ratio < _NEARLY_NORMAL:
        return 1.0, math.sqrt(math.expm1(ratio * ratio))
    rare = min(_RARE / steps, _RARE)
    end, left = -float(ndtri(rare)), 1.0 - rare
    first, second = (math.exp(0.5 * k * (k - 1.0) * ratio * ratio) * float(ndtr(end - k * ratio)) for k in (1.0, 2.0))
    return first / left, math.sqrt(second / left - (first / left) ** 2)


@lru_cache(maxsize=8)
def _tail(ratio: float, sign: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return tilts, the means of a ratio under them, and the rate at which such means become rare with more steps.

    The sign is that of the tilts. With 1, ratios so large that sums have them one at a time are left aside.
    """
    values = np.exp(ratio * _DEVIATIONS - 0.5 * ratio * ratio)
    log_mass = -0.5 * _DEVIATIONS**2 - math.log(float(np.exp(-0.5 * _DEVIATIONS**2).sum()))
    exponent = log_mass + sign * np.multiply.outer(_TILTS, values)
    # A tilted density falls up to where single ratios are more likely than usual sums.
    falls = sign * np.multiply.outer(_TILTS, ratio * values) < _DEVIATIONS
    falls = np.maximum.accumulate(falls[:, ::-1], axis=1)[:, ::-1]
    tilts, exponent = _TILTS[falls.any(axis=1)], np.where(falls, exponent, -np.inf)[falls.any(axis=1)]
    largest = exponent.max(axis=1)
    weight = np.exp(exponent - largest[:, None])
    total = weight.sum(axis=1)
    mean = weight @ values / total
    rate = sign * tilts * mean - largest - np.log(total)
    return tilts, np.maximum.accumulate(mean) if sign > 0.0 else mean, rate


def _rounded(spacing: float) -> float:
    """Return nearly the same number, of few binary digits."""
    fraction, exponent = math.frexp(spacing)
    return math.ldexp(round(math.ldexp(fraction, _DIGITS)), exponent - _DIGITS)
