"""Noise on samples of the records: Poisson samples, batches of a fixed or largest size, groups, random allocation."""

import itertools
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from pbdist.errors import InvalidInputError
from pbdist.mechanisms.additive import LAPLACE_SCALE, Gaussian, Laplace
from pbdist.mechanisms.binomial_runs import CutSample, cut_sample, rounded_counts
from pbdist.mechanisms.composite import TwoSided
from pbdist.mechanisms.declaration import (
    RATES,
    SPREADS,
    checked_integer,
    checked_rate,
    checked_size,
    gaussian_scale,
    mechanism,
    numbers,
    parameter,
    parametrised,
    positive,
    sampling_rate,
    sensitivity_of,
    times_above,
    whole,
)
from pbdist.mechanisms.masses import (
    BEYOND,
    SMALLEST_MASS,
    UNIT_ROUNDOFF,
    LossMasses,
    MassBounds,
    ScaledLossMasses,
    gaussian_interval,
    log_moment_of_lines,
    log_moment_of_tail,
    picture_values,
    rounded_up,
    steepest_tilt,
)
from pbdist.mechanisms.pair import BoundedPair, ElementaryPair, NoiseOrder, Pair, ScaledPair, in_order, ordered
from pbdist.types import Adjacency, BoolArray, Direction, FloatArray

#: Logarithm of the weight that a picture may leave out.
_UNSEEN = -40.0


class _Sampled(ScaledPair):
    """A pair of noise on a sample in which a record is with the rate."""

    scale: float
    rate: float
    sensitivity: float

    @property
    def order(self) -> NoiseOrder | None:
        """By scale / sensitivity and by the inverse of the sampling rate."""
        return ordered(self, type(self), Fraction(self.scale) / Fraction(self.sensitivity), 1 / Fraction(self.rate))

    @property
    def participation(self) -> float:
        """The sampling rate."""
        return self.rate


@mechanism
class SubsampledGaussian(_Sampled):
    """Gaussian noise after Poisson sampling: A = (1-q) N(0, scale²) + q N(sensitivity, scale²), B = N(0, scale²).

    Abadi et al. 2016; Meiser & Mohammadi 2018, section 5.4. The direction "A||B" is the one in which the individual is
    removed, "B||A" the one in which it is added.

    Examples
    --------
    >>> from pbdist import SubsampledGaussian, epsilon_bounds
    >>> found = epsilon_bounds(SubsampledGaussian(scale=1.0, rate=0.01), compositions=10_000, delta=1e-5)
    >>> round(found.epsilon_lower.item(), 3), round(found.epsilon_upper.item(), 3)
    (6.188, 6.188)
    """

    aliases = ("dp-sgd", "dpsgd", "dp_sgd", "poissonsampledgaussian")
    noise_family = "Gaussian"
    does = (
        "Each individual is in the sample of a round with the sampling rate as its probability, independently of all"
        " others; Gaussian noise is added to what is computed from the sample, as in training with DP-SGD."
    )
    assumes = (
        "The sample is a Poisson sample, in which each individual is with the sampling rate, independently."
        " Neighbouring data sets differ by one individual added or removed, whose contribution is clipped to the"
        " sensitivity. Batches of a fixed size, or a data set that is shuffled once an epoch, are other mechanisms,"
        " about which nothing is said here. The noise multiplier is scale / sensitivity."
    )

    adjacency = Adjacency.ADD_OR_REMOVE

    scale: float = gaussian_scale([0.8, 1.0, 2.0])
    rate: float = sampling_rate()
    sensitivity: float = sensitivity_of("the clipping norm of a record")

    def of_group(self, times: int) -> Pair:
        """That of a group, each of whom is in the sample independently."""
        if times > LARGEST_SAMPLED_GROUP:
            raise InvalidInputError(
                f"group.size: expected at most {LARGEST_SAMPLED_GROUP} individuals on samples, got {times}"
            )
        return SubsampledGaussianGroup(self.scale, self.rate, times, self.sensitivity)

    @property
    def gaussian_mixture(self) -> tuple[tuple[float, ...], tuple[float, ...], float] | None:
        """One shift, of the weight of the sampling rate."""
        if self.rate == 1.0:
            return None
        return (self.sensitivity / self.scale,), (math.log(self.rate),), math.log1p(-self.rate)

    def loss_picture(self, target: float, beyond: float = BEYOND) -> tuple[FloatArray, FloatArray] | None:
        """Losses at equally spaced V, with the density of V times the likelihood ratio; none for the steepest tilts."""
        if target >= 0.9 * self._deepest:
            return None
        ratio = self.sensitivity / self.scale
        variance = ratio * ratio
        low, high = self._gain(np.array([-target, target])).tolist()
        gains = picture_values(min(low, -0.5 * variance), max(high, 0.5 * variance), ratio, beyond)
        if gains is None:
            return None
        loss = np.logaddexp(-self._deepest, math.log(self.rate) + gains)
        log_a = loss - (gains + 0.5 * variance) ** 2 / (2.0 * variance)
        # The steepest tilts have a second mode, where V is about as large as they lift it.
        lifted = 1.0 + steepest_tilt(loss, log_a, target)
        mode = (lifted - 0.5) * variance
        if mode > float(gains[-1]) and lifted * (math.log(self.rate) + mode) - (lifted * ratio) ** 2 / 2.0 > _UNSEEN:
            return None
        return loss, log_a

    def loss_bound(self, direction: Direction) -> float:
        """Infinite where a record is removed, -ln(1 - q) where one is added."""
        return math.inf if direction is Direction.A_TO_B else rounded_up(self._deepest)

    @property
    def without_sampling(self) -> Gaussian:
        """Gaussian noise on every record."""
        return Gaussian(self.scale, self.sensitivity)

    def keeps_order(self, edges: FloatArray) -> bool:
        """Whether the end points rise, and the outermost ones are the same if their edges are given alone."""
        return in_order(self._location, edges)

    def _masses(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        return self.masses_beyond(edges, -math.inf, scaled=scaled)

    def masses_beyond(self, edges: FloatArray, start: float, *, scaled: bool) -> ScaledLossMasses:
        """Masses of the bins, each an interval of x, along which the loss rises, of the outcomes above `start`."""
        ends = np.concatenate(([start], self._location(edges), [np.inf]))
        # Rounding must not let neighbouring bins overlap.
        if (ends[1:] < ends[:-1]).any():
            np.maximum.accumulate(ends, out=ends)
        # Edges below every loss lie at -inf, or at the start; the bins between them are empty.
        first = max(int(np.searchsorted(ends, start, side="right")) - 1, 0)
        lower, upper = ends[first:-1], ends[first + 1 :]
        means = np.array([[0.0], [self.sensitivity]])
        mass, error, log_scale = gaussian_interval(lower, upper, self.scale, means, scaled=scaled)
        mixture, mixture_error, mixture_scale = self._mixture(mass, error, log_scale)
        present = True if (lower < upper).all() else lower < upper
        masses = LossMasses(
            bins_a=MassBounds.around(mixture, mixture_error, occupied=present).preceded_by_empty(first),
            bins_b=MassBounds.around(mass[0], error[0], occupied=present).preceded_by_empty(first),
            loss_error=self._edge_error(edges),
        )
        scale_a, scale_b = (np.concatenate((np.zeros(first), part)) for part in (mixture_scale, log_scale[0]))
        return ScaledLossMasses(masses, scale_a, scale_b)

    def _mixture(
        self, masses: FloatArray, errors: FloatArray, log_scale: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mass, relative error and log factor of A, from the rows without and with the individual in the sample.

        The factor is the larger of the two; a row that underflows beside it is too small to count.
        """
        without, sampled = (1.0 - self.rate) * masses[0], self.rate * masses[1]
        common = log_scale[0]
        if log_scale.any():
            common = np.maximum(log_scale[0], log_scale[1])
            without *= np.exp(log_scale[0] - common)
            sampled *= np.exp(log_scale[1] - common)
        mixture = without + sampled
        without *= errors[0]
        sampled *= errors[1]
        without += sampled
        without /= np.maximum(mixture, SMALLEST_MASS)
        without += 24.0 * UNIT_ROUNDOFF
        return mixture, without, common

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:
        """Upper bound of ln E_A[e^(tilt L); loss < L < ∞], with A and L those of the direction.

        Theorem 7 of docs/theory.md: L lies below chords (A||B), or -L below tangents (B||A), on pieces short enough for
        a chord to miss L by about a tenth of 1 / tilt.
        """
        if loss == math.inf or (direction is Direction.B_TO_A and loss >= rounded_up(self._deepest)):
            return -math.inf
        ratio = self.sensitivity / self.scale
        variance = ratio * ratio
        # A finite end beyond this would gain nothing over the infinite piece.
        reach = 9.0 * ratio + 0.5 * variance
        if direction is Direction.A_TO_B:
            power = tilt + 1.0
            start = self._gain_beyond(loss, -1.0)
            first = max(start, -reach)
            last = max(first, power * variance) + 2.0 * ratio
        else:
            power = tilt
            start = self._gain_beyond(-loss, 1.0)
            if start == -math.inf:
                return rounded_up(tilt * self._deepest)
            last = min(start, reach)
            first = min(last, -0.5 * variance - power * variance) - 3.0 * ratio
        pieces = min(max(math.ceil((last - first) * math.sqrt(power / 3.2)), 8), 400)
        knots = np.linspace(first, last, pieces + 1)
        if direction is Direction.A_TO_B:
            return self._moment_below_chords(power, start, knots)
        return self._moment_below_tangents(power, start, knots)

    @property
    def _deepest(self) -> float:
        """Size of the smallest loss, -ln(1 - q)."""
        return -math.log1p(-self.rate) if self.rate < 1.0 else math.inf

    def _gain_beyond(self, loss: float, side: float) -> float:
        """Return a V whose exact loss surely lies on the given side (1: above, -1: below) of a loss."""
        if not math.isfinite(loss):
            return loss
        edge = np.array([float(loss)])
        edge += side * (1.1 * self._edge_error(edge) + 2.0 * UNIT_ROUNDOFF * abs(loss))
        return float(self._gain(edge)[0])

    def _loss(self, gain: FloatArray) -> tuple[FloatArray, float]:
        """Loss L(V) at finite V, and a bound on its error in nats.

        Not the smaller error of `sampled_losses`: this one also covers the rounding of q e^V / e^L, a slope.
        """
        log_rate = math.log(self.rate)
        loss: FloatArray = np.logaddexp(-self._deepest, log_rate + gain)
        rest = self._deepest if self.rate < 1.0 else 0.0
        return loss, 32.0 * UNIT_ROUNDOFF * (1.0 + rest - log_rate + float(np.abs(gain).max()))

    def _moment_below_chords(self, power: float, start: float, knots: FloatArray) -> float:
        loss, error = self._loss(knots)
        width = np.diff(knots)
        chords = np.divide(np.diff(loss), width, out=np.ones_like(width), where=width > 0.0)
        ends, anchor, level = np.append(knots, np.inf), knots, loss
        slope = np.append(chords, 1.0)
        if start < knots[0]:
            ends, anchor = np.concatenate(([start], ends)), np.concatenate((knots[:1], anchor))
            level, slope = np.concatenate((loss[:1], level)), np.concatenate(([0.0], slope))
        return self._moment_below_lines(ends, anchor, power * (level + 4.0 * error), power * slope)

    def _moment_below_tangents(self, power: float, start: float, knots: FloatArray) -> float:
        anchor = np.concatenate((knots[:1], 0.5 * (knots[:-1] + knots[1:])))
        ends = np.concatenate(([-np.inf], knots))
        loss, error = self._loss(anchor)
        # q e^V / e^L, off by some errors relatively: the level pays on a piece, the endless one takes more slope.
        slope = np.exp(math.log(self.rate) + anchor - loss)
        slope[0] *= 1.0 + 8.0 * error
        level = error * (2.0 + 8.0 * (knots[1] - knots[0])) - loss
        if start > knots[-1]:
            # -L falls.
            anchor, ends = np.append(anchor, knots[-1]), np.append(ends, start)
            level, slope = np.append(level, level[-1]), np.append(slope, 0.0)
        return self._moment_below_lines(ends, anchor, power * level, -power * slope)

    def _moment_below_lines(self, ends: FloatArray, anchor: FloatArray, level: FloatArray, slope: FloatArray) -> float:
        ratio = self.sensitivity / self.scale
        return log_moment_of_lines(ends, anchor, level, slope, mean=-0.5 * ratio * ratio, deviation=ratio)

    def _location(self, loss: FloatArray) -> FloatArray:
        """Return the x of increasing losses; -inf where the loss is at most ln(1 - q), which no event has."""
        return self.scale * (self.scale / self.sensitivity) * self._gain(loss) + 0.5 * self.sensitivity

    def _gain(self, loss: FloatArray) -> FloatArray:
        """Return V = (s / scale²)(x - s/2), the loss of the sampled Gaussian, at increasing losses."""
        return full_losses(loss, self.rate)

    def _edge_error(self, edges: FloatArray) -> float:
        """Bound the distance, in nats, between the given edges and the exact losses at the end points used.

        Theorem 7 of docs/theory.md: from V to x there are four roundings of V, and one of the middle.
        """
        ratio = self.sensitivity / self.scale
        return edge_error(edges, self.rate, steps=4.0, level=0.5 * ratio**2)


#: Losses below this are reached only by rates above 0.39; e^loss - 1 then is no better known than e^loss.
_FAR_BELOW = -0.5


def full_losses(loss: FloatArray, rate: float) -> FloatArray:
    """Return the losses L without sampling, from increasing losses ln(1 - q + q e^L) with it; -inf from ln(1 - q) on.

    `edge_error` bounds the roundings.
    """
    q = rate
    if q == 1.0:
        return loss
    # e^loss - (1 - q), from whichever form has the smaller absolute error.
    excess = np.expm1(np.minimum(loss, 700.0)) + q
    below, low, high, above = np.searchsorted(loss, (_FAR_BELOW, -0.5 * q, 0.5 * q, 700.0))
    excess[:below] = np.exp(loss[:below]) - (1.0 - q)
    with np.errstate(divide="ignore"):
        full: FloatArray = np.log(np.maximum(excess, 0.0))
    full -= math.log(q)
    full[low:high] = np.log1p(np.expm1(loss[low:high]) / q)
    full[above:] = loss[above:] - math.log(q)
    return full


def edge_error(edges: FloatArray, rate: float, *, steps: float = 0.0, level: float = 0.0) -> float:
    """Bound the distance, in nats, between increasing edges and the exact losses that `full_losses` of them give.

    Theorem 7 of docs/theory.md. What is done to a full loss L afterwards may move it by `steps` |L| + `level`, in units
    of 2^-53.
    """
    if edges.size == 0:
        return 0.0
    q, top = rate, float(edges[-1])
    deepest = -math.log1p(-q) if q < 1.0 else math.inf
    lowest = min(deepest, max(0.0, -float(edges[0])))
    slope, step = 1.0, max(top, 0.0)
    if q < 1.0:
        slope = min(1.0, max(0.0, -math.expm1(-top) + q * math.exp(-top))) if top > -deepest else 0.0
        step = max(top, 0.0) - math.log(q)
        if 0.0 < top < 1.0:
            step = min(step, math.log1p(math.expm1(top) / q))
    weighted = max(lowest, slope * step if top > 0.0 else 0.0)
    rounding = (9.0 + steps) * weighted + slope * (10.0 * abs(math.log(q)) + level)
    if deepest < -_FAR_BELOW:
        change = min(1.0, max(-math.expm1(-max(top, 0.0)), math.expm1(lowest)))
        rounding += 16.0 * change + 2.0 * slope
    elif q < 1.0:
        rounding += 20.0
    return 1.01 * rounding * UNIT_ROUNDOFF


def sampled_losses(loss: FloatArray, rate: float) -> tuple[FloatArray, float]:
    """Return ln(1 - q + q e^L) at finite losses L, and a bound on its error beside that of L: Theorem 36."""
    if rate == 1.0 or not loss.size:
        return loss, 0.0
    change = rate * np.expm1(np.minimum(loss, 700.0))
    apart = np.logaddexp(math.log1p(-rate), math.log(rate) + loss)
    near = (np.abs(change) <= 0.5) & (loss < 700.0)
    found: FloatArray = np.where(near, np.log1p(np.maximum(change, -0.5)), apart)
    size = np.where(near, np.abs(found), 1.0 + np.abs(found) + abs(math.log(rate)))
    return found, 64.0 * UNIT_ROUNDOFF * float(size.max())


def sampled(
    full: ScaledLossMasses, rate: float, *, empty: int, atom_loss: FloatArray, loss_error: float
) -> ScaledLossMasses:
    """Masses after sampling with a rate, from those without it: Theorem 36.

    Both distributions have every event of `full`, the masses on bins between the edges that `full_losses` gives, and
    the losses of its atoms are finite. `empty` bins go before, between losses that no event has. `atom_loss` has the
    losses of the atoms after sampling, and `loss_error` bounds the errors of losses after sampling.
    """
    bins_a, bins_scale = _mixed(full.masses.bins_a, full.log_scale_a, full.masses.bins_b, full.log_scale_b, rate)
    atoms_a, atoms_scale = _mixed(
        full.masses.atoms_a, full.atoms_log_scale_a, full.masses.atoms_b, full.atoms_log_scale_b, rate
    )
    masses = LossMasses(
        bins_a=bins_a,
        bins_b=full.masses.bins_b,
        atom_loss=atom_loss,
        atoms_a=atoms_a,
        atoms_b=full.masses.atoms_b,
        loss_error=loss_error,
    )
    return ScaledLossMasses(masses, bins_scale, full.log_scale_b, atoms_scale, full.atoms_log_scale_b).after_empty(
        empty
    )


def _mixed(
    a: MassBounds, scale_a: FloatArray, b: MassBounds, scale_b: FloatArray, rate: float
) -> tuple[MassBounds, FloatArray]:
    """Return (1 - q) b + q a and its factors."""
    if rate == 1.0:
        return a, scale_a
    rest = 1.0 - rate
    return added([(rate, rate, a, scale_a), (rest, rest, b, scale_b)])


def added(parts: Sequence[tuple[float, float, MassBounds, FloatArray]]) -> tuple[MassBounds, FloatArray]:
    """Return sums of masses with weights, and the logarithms of their factors.

    Each part has a lower and an upper value of its weight, off by 2u at most, its masses and their factors. Weights,
    products, exponentials of factors and sums err by less than (16 + number of parts) u, and a factor that is e^-d of
    the largest one by another d u.
    """
    common = np.max([scale for _, _, _, scale in parts], axis=0)
    lower, upper = np.zeros(common.shape), np.zeros(common.shape)
    for least, most, masses, scale in parts:
        apart = common - scale
        factor = np.exp(-apart)
        slack = (16.0 + len(parts) + np.minimum(apart, 1e3)) * UNIT_ROUNDOFF
        lower += least * masses.lower * factor * (1.0 - slack)
        upper += most * masses.upper * factor * (1.0 + slack)
        if most > 0.0:
            # What may underflow counts as a number that does not.
            upper[masses.upper > 0.0] += SMALLEST_MASS
    lower[lower < SMALLEST_MASS] = 0.0
    return MassBounds(lower, upper), common


#: The weights are divided by their sum, which is this near to 1.
_SUM_TOLERANCE = 1e-9
#: Each shift takes as long as one sampled Gaussian.
_MAX_SHIFTS = 1024
#: Numbers of all shifts that are held at a time.
_MAX_NUMBERS = 1 << 20
#: Steps of Newton's method, at most; it ends where a loss is within so many u of its size.
_MAX_STEPS, _CLOSE = 60, 8.0


@mechanism
class GaussianMixture(ScaledPair):
    """A random shift under Gaussian noise: A = Σ weights[i] N(shifts[i], scale²), B = N(0, scale²).

    One record moves the mean by shifts[i] with the probability weights[i]: a record that may be in a sample several
    times, or under one of several factors. With the shifts 0 and s, and the weights 1 - q and q, it is
    ``SubsampledGaussian(scale, q, s)``. The direction "A||B" is the one in which the record is removed, "B||A" the one
    in which it is added. The shifts increase, from 0 on, and the last one is above 0; there are at most 1,024. The
    weights are divided by their sum, which is 1 within 1e-9.

    The pair also dominates shifts that are vectors of at most these lengths, in any directions (Theorem 37 of
    docs/theory.md; Choquette-Choo, Ganesh, Steinke & Thakurta 2023, Corollary 4.7).

    Examples
    --------
    >>> from pbdist import GaussianMixture, epsilon_bounds
    >>> twice = GaussianMixture(scale=4.0, shifts=(0.0, 1.0, 2.0), weights=(0.81, 0.18, 0.01))
    >>> found = epsilon_bounds(twice, compositions=100, delta=1e-5)
    >>> bool(0.0 < found.epsilon_lower.item() <= found.epsilon_upper.item() < 3.0)
    True
    """

    aliases = ("mixtureofgaussians", "mixturegaussian")
    noise_family = "Gaussian"
    does = (
        "Gaussian noise is added to what an individual moves by one of several shifts, each with its weight as the"
        " probability."
    )
    assumes = (
        "Neighbouring data sets differ by one individual added or removed; which shift it makes is drawn with the"
        " weights, afresh and independently in every round, and not known to the observer. Shifts that are vectors"
        " count by their length."
    )
    checked_together = ("shifts", "weights")

    adjacency = Adjacency.ADD_OR_REMOVE

    scale: float = gaussian_scale([2.0, 4.0])
    shifts: tuple[float, ...] = parameter(
        numbers,
        "the lengths by one of which a record moves the answer, increasing",
        unit="counts",
        aliases=("sensitivities", "sensitivity", "means"),
        example=(0.0, 1.0, 2.0),
    )
    weights: tuple[float, ...] = parameter(
        numbers,
        "the probabilities of the shifts",
        aliases=("sampling_probs", "probabilities", "rates"),
        example=(0.81, 0.18, 0.01),
    )

    def check(self) -> None:
        """Refuse shifts that do not increase, and weights that are no probabilities of them."""
        name, shifts, weights = type(self).__name__, self.shifts, self.weights
        if len(shifts) != len(weights):
            raise InvalidInputError(f"{name}.weights: expected {len(shifts)}, one for each shift, got {len(weights)}")
        for index, shift in enumerate(shifts):
            if shift != 0.0 or len(shifts) == 1:
                checked_size(name, f"shifts[{index}]", shift)
        for index, (before, shift) in enumerate(itertools.pairwise(shifts), 1):
            if not before < shift:
                raise InvalidInputError(f"{name}.shifts[{index}]: expected more than {before!r}, got {shift!r}")
        if len(shifts) > _MAX_SHIFTS:
            raise InvalidInputError(f"{name}.shifts: expected at most {_MAX_SHIFTS}, got {len(shifts)}")
        for index, weight in enumerate(weights):
            checked_rate(name, f"weights[{index}]", weight)
        if not abs(math.fsum(weights) - 1.0) <= _SUM_TOLERANCE:
            raise InvalidInputError(
                f"{name}.weights: expected probabilities that sum to 1 within {_SUM_TOLERANCE:g},"
                f" got a sum of {math.fsum(weights)!r}"
            )

    @property
    def gaussian_mixture(self) -> tuple[tuple[float, ...], tuple[float, ...], float] | None:
        """Its shifts, if one of them is 0."""
        if self.shifts[0] != 0.0:
            return None
        return tuple(shift / self.scale for shift in self.shifts[1:]), self.log_weights[1:], self.smallest_loss

    @property
    def order(self) -> NoiseOrder | None:
        """By the scale in largest shifts, of mixtures whose shifts are in proportion, with the same weights."""
        largest = Fraction(self.shifts[-1])
        shifts = tuple(Fraction(shift) / largest for shift in self.shifts)
        return ordered(self, GaussianMixture, Fraction(self.scale) / largest, family=(self.weights, shifts))

    def loss_bound(self, direction: Direction) -> float | None:
        """Infinite where a record is removed; where one is added, that of an outcome that shows no shift."""
        if direction is Direction.A_TO_B or self.shifts[0] > 0.0:
            return math.inf
        return rounded_up(8.0 * UNIT_ROUNDOFF - self._shares[2])

    @cached_property
    def log_weights(self) -> tuple[float, ...]:
        """Logarithms of the weights over their sum, off by 4u and a u of themselves."""
        return tuple(np.log(self._shares[0]).tolist())

    @property
    def smallest_loss(self) -> float:
        """That of an outcome that shows no shift, off by 8u of itself; -inf where every record shifts."""
        return self._shares[2]

    @property
    def participation(self) -> float:
        """The weight of all shifts above 0."""
        return min(rounded_up(self._shares[1] + 8.0 * UNIT_ROUNDOFF), 1.0)

    @property
    def without_sampling(self) -> Gaussian:
        """The largest shift in every round."""
        return Gaussian(self.scale, self.shifts[-1])

    def keeps_order(self, edges: FloatArray) -> bool:
        """Whether the end points rise, and the outermost ones are the same if their edges are given alone."""
        return in_order(self._location, edges)

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:
        """Upper bound of ln E_A[e^(tilt L); loss < L < ∞], by Jensen's inequality over the shifts: Theorem 37.

        A bound on the moment of every shift alone, mixed by the weights.
        """
        if loss == math.inf:
            return -math.inf
        forwards = direction is Direction.A_TO_B
        power, start = (tilt + 1.0, loss) if forwards else (tilt, -loss)
        # The x from which on, or up to which, the events lie.
        end = self._outcome_beyond(start, -1.0 if forwards else 1.0)
        logs = []
        for shift, weight in zip(self.shifts, self._shares[0].tolist(), strict=True):
            ratio = shift / self.scale
            variance = ratio * ratio
            sign = 1.0 if forwards else -1.0
            if shift == 0.0:
                logs.append(math.log(weight) + self._log_tail(sign * end))
                continue
            gain = sign * ratio * ((end - 0.5 * shift) / self.scale) if math.isfinite(end) else sign * end
            gain -= 8.0 * UNIT_ROUNDOFF * abs(gain) if math.isfinite(gain) else 0.0
            logs.append(math.log(weight) + log_moment_of_tail(power, -sign * 0.5 * variance, ratio, gain))
        largest = max(logs)
        if largest == -math.inf:
            return -math.inf
        total = largest + math.log(math.fsum(math.exp(each - largest) for each in logs))
        return rounded_up(total + 32.0 * UNIT_ROUNDOFF * (1.0 + abs(largest) - math.log(min(self.weights))))

    def _log_tail(self, end: float) -> float:
        """Upper bound of ln P(x > end) for x ~ N(0, scale²)."""
        return log_moment_of_tail(0.0, 0.0, 1.0, end / self.scale)

    def _outcome_beyond(self, loss: float, side: float) -> float:
        """Return an x whose exact loss surely lies on the given side (1: above, -1: below) of a loss, or is it."""
        if not math.isfinite(loss):
            return loss
        moved = loss
        for _ in range(3):
            x = self._location(np.array([moved]))
            if not math.isfinite(float(x[0])):
                break
            found, error = self._loss(x)
            apart = float(side * (found[0] - loss) - error[0])
            if apart >= 0.0:
                return float(x[0])
            moved += side * (2.0 * abs(apart) + 4.0 * UNIT_ROUNDOFF * abs(loss))
        return side * math.inf

    def _masses(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        # Rounding must not let neighbouring bins overlap.
        located = np.maximum.accumulate(self._location(edges))
        loss_error = self._loss_error(edges, located)
        ends = np.concatenate(([-np.inf], located, [np.inf]))
        first = max(int(np.searchsorted(ends, -np.inf, side="right")) - 1, 0)
        lower, upper = ends[first:-1], ends[first + 1 :]
        present: BoolArray | bool = True if (lower < upper).all() else lower < upper

        def about(mean: float, part: slice) -> tuple[MassBounds, FloatArray]:
            mass, error, log_scale = gaussian_interval(lower[part], upper[part], self.scale, mean, scaled=scaled)
            there = present if isinstance(present, bool) else present[part]
            return MassBounds.around(mass, error, occupied=there), log_scale

        weighted = list(zip(self._shares[0].tolist(), self.shifts, strict=True))
        of_a, of_b = [], []
        for part in self._blocks(lower.size):
            parts = [(weight, weight, *about(shift, part)) for weight, shift in weighted]
            of_a.append(added(parts))
            of_b.append(parts[0][2:] if self.shifts[0] == 0.0 else about(0.0, part))
        (bins_a, scale_a), (bins_b, scale_b) = (_joined(blocks) for blocks in (of_a, of_b))
        masses = LossMasses(bins_a, bins_b, loss_error=loss_error)
        return ScaledLossMasses(masses, scale_a, scale_b).after_empty(first)

    @cached_property
    def _shares(self) -> tuple[FloatArray, float, float]:
        """The weights over their sum, off by 2u; the sum of those of shifts above 0; the smallest loss."""
        shares = np.array(self.weights) / math.fsum(self.weights)
        if self.shifts[0] > 0.0:
            return shares, 1.0, -math.inf
        above = math.fsum(share for share, shift in zip(shares.tolist(), self.shifts, strict=True) if shift > 0.0)
        still = math.fsum(share for share, shift in zip(shares.tolist(), self.shifts, strict=True) if shift == 0.0)
        return shares, above, math.log1p(-above) if above < 0.5 else math.log(still)

    def _gains(self, x: FloatArray) -> FloatArray:
        """Return the loss of each shift alone, in rows: off by 4u of its size."""
        shifts = np.array(self.shifts)[:, None]
        return shifts / self.scale * ((x - 0.5 * shifts) / self.scale)

    def _blocks(self, size: int) -> list[slice]:
        """Return parts of so many outcomes or bins, each so small that the numbers of all shifts may be held."""
        step = max(_MAX_NUMBERS // len(self.shifts), 1)
        return [slice(start, min(start + step, size)) for start in range(0, max(size, 1), step)]

    def _loss(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the loss at finite x, and a bound on its error: Theorem 37 of docs/theory.md."""
        loss, error = zip(*(self._loss_of_block(x[part]) for part in self._blocks(x.size)), strict=True)
        return np.concatenate(loss), np.concatenate(error)

    def _loss_of_block(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        gains, shares = self._gains(x), self._shares[0][:, None]
        exponents = gains + np.log(shares)
        top = exponents.max(axis=0)
        parts = np.exp(exponents - top)
        whole = parts.sum(axis=0)
        far = top + np.log(whole)
        weight = parts / whole
        sizes = 6.0 * np.abs(gains) - 12.0 * np.log(shares) + np.abs(exponents - top)
        far_error = (weight * sizes).sum(axis=0) + 12.0 * np.abs(far) + 32.0 + len(self.shifts)
        # Where it is small, as 1 + Σ weights (e^gain - 1), every summand by itself.
        changes = shares * np.expm1(np.minimum(gains, 1.0))
        change = changes.sum(axis=0)
        near = (np.abs(change) <= 0.5) & (gains <= 1.0).all(axis=0)
        moved = shares * np.exp(np.minimum(gains, 1.0)) * 5.0 * np.abs(gains)
        near_error = ((16.0 + len(self.shifts)) * np.abs(changes) + moved).sum(axis=0)
        safe = np.where(near, change, 0.0)
        near_error = near_error / (1.0 + safe) + 10.0 * np.abs(np.log1p(safe))
        loss: FloatArray = np.where(near, np.log1p(safe), far)
        error: FloatArray = 1.1 * UNIT_ROUNDOFF * np.where(near, near_error, far_error)
        return loss, error

    def _loss_error(self, edges: FloatArray, ends: FloatArray) -> float:
        """Bound how far exact losses at the end points that were used lie from the edges, where there are losses."""
        if edges.size == 0:
            return 0.0
        finite = np.isfinite(ends)
        missed = 0.0
        if finite.any():
            found, error = self._loss(ends[finite])
            missed = float((np.abs(found - edges[finite]) + error).max())
        lowest = self._shares[2]
        if math.isfinite(lowest) and not finite.all():
            # No event has a loss below the smallest one.
            beyond = float(edges[~finite].max()) - lowest
            missed = max(missed, max(beyond, 0.0) + 16.0 * UNIT_ROUNDOFF * (1.0 + abs(lowest)))
        return 1.01 * missed + 2.0 * UNIT_ROUNDOFF * float(np.abs(edges).max())

    def _location(self, edges: FloatArray) -> FloatArray:
        """Return about the x of increasing losses, -inf from the smallest one on; `_loss_error` tells how near.

        G, the loss where the record moves the mean at all, is convex in x and rises: from an x that lies too high
        Newton's steps come down to it. Each one ends by itself, so that it does not depend on the others.
        """
        return np.concatenate([self._location_of_block(edges[part]) for part in self._blocks(edges.size)])

    def _location_of_block(self, edges: FloatArray) -> FloatArray:
        shares, above, lowest = self._shares
        goal = full_losses(edges, above).copy()
        if self.shifts[0] == 0.0:
            # Far below 0 the weight of the shift 0 tells more than that of the others.
            far = edges < -0.5
            with np.errstate(divide="ignore"):
                goal[far] = np.log(np.maximum(np.exp(edges[far]) - math.exp(lowest), 0.0)) - math.log(above)
        x = np.full(goal.shape, -np.inf)
        left = np.flatnonzero(np.isfinite(goal))
        moving = np.array(self.shifts) > 0.0
        shifts = np.array(self.shifts)[moving]
        logs = np.log(shares[moving] / above)
        unit = self.scale * (self.scale / shifts)
        # G is at least the loss of each shift alone with its weight.
        alone = unit[:, None] * (goal[left] - logs[:, None]) + 0.5 * shifts[:, None]
        x[left] = alone.min(axis=0)
        if shifts.size == 1:
            return x
        slopes = (1.0 / unit)[:, None]
        for _ in range(_MAX_STEPS):
            if not left.size:
                break
            exponents = self._gains(x[left])[moving] + logs[:, None]
            top = exponents.max(axis=0)
            parts = np.exp(exponents - top)
            whole = parts.sum(axis=0)
            excess = top + np.log(whole) - goal[left]
            going = np.abs(excess) > _CLOSE * UNIT_ROUNDOFF * np.maximum(1.0, np.abs(goal[left]))
            x[left[going]] -= (excess / ((slopes * parts).sum(axis=0) / whole))[going]
            left = left[going]
        return x


def _joined(blocks: list[tuple[MassBounds, FloatArray]]) -> tuple[MassBounds, FloatArray]:
    """Return masses and logarithms of factors, one block after the other."""
    lower, upper, scale = (
        np.concatenate(side)
        for side in zip(*((masses.lower, masses.upper, scale) for masses, scale in blocks), strict=True)
    )
    return MassBounds(lower, upper), scale


#: Larger groups are refused.
LARGEST_SAMPLED_GROUP = 100_000


@mechanism
class SubsampledGaussianGroup(TwoSided):
    """Gaussian noise after Poisson sampling, when up to `group_size` individuals are removed together, or added.

    Each of them is in the sample with the probability q, independently, and then moves the sum by up to the
    sensitivity. The worst case is A = Σ_j P(Bin(group_size, q) = j) N(j · sensitivity, scale²) against B = N(0,
    scale²), which is attained if all of them contribute the same vector (Theorem 45 of docs/theory.md; Ganesh 2024).
    "A||B" is the direction in which the group is removed, "B||A" the one in which it is added.

    Upper bounds are those of `upper_pair`, lower bounds those of `lower_pair`: mixtures with float weights that are
    stochastically at least, and at most, the binomial ones (Theorem 47). Up to a thousand individuals they differ by
    roundings, and by ends of a probability of 1e-100; of larger groups neighbouring numbers may be taken together.

    Examples
    --------
    >>> from pbdist import SubsampledGaussian, epsilon_bounds, group
    >>> family = group(SubsampledGaussian(scale=2.0, rate=0.01), 4)
    >>> family
    SubsampledGaussianGroup(scale=2.0, rate=0.01, group_size=4, sensitivity=1.0)
    >>> found = epsilon_bounds(family, compositions=1000, delta=1e-5)
    >>> bool(0.0 < found.epsilon_lower.item() <= found.epsilon_upper.item() < 1.002 * found.epsilon_lower.item())
    True
    """

    noise_family = "Gaussian"
    does = (
        "Each individual is in the sample of a round with the sampling rate as its probability, independently of all"
        " others; Gaussian noise is added to what is computed from the sample. What is protected is a group of"
        " individuals together."
    )
    assumes = (
        "Each individual is in the sample with the sampling rate, independently. Neighbouring data sets differ by at"
        " most the given number of individuals, all added or all removed; the contribution of each one is clipped to"
        " the sensitivity."
    )
    checked_together = ("group_size", "sensitivity")
    adjacency = Adjacency.ADD_OR_REMOVE_GROUP

    scale: float = gaussian_scale([1.0, 2.0])
    rate: float = sampling_rate()
    group_size: int = parameter(
        whole(1, LARGEST_SAMPLED_GROUP), "the most records of the group", aliases=("group", "size", "k"), example=4
    )
    sensitivity: float = sensitivity_of("the clipping norm of a record")

    def check(self) -> None:
        """Refuse a sensitivity of which that of the whole group is out of range."""
        checked_size(type(self).__name__, "sensitivity", 2.0 * self.group_size * self.sensitivity)

    @cached_property
    def upper_pair(self) -> Pair:
        """The pair that dominates."""
        return self._side(up=True)

    @cached_property
    def lower_pair(self) -> Pair:
        """A pair that a group attains in all rounds, or a post-processing of one."""
        return self._side(up=False)

    def _side(self, *, up: bool) -> Pair:
        if self.rate == 1.0 and self.group_size > 1:
            return Gaussian(self.scale, _product(self.group_size, self.sensitivity, up=up))
        found = rounded_counts(self.group_size, self.rate, up=up) if self.group_size > 1 else None
        if found is None or found.counts == (0,):
            # One individual is no more than the group.
            return SubsampledGaussian(self.scale, self.rate, self.sensitivity)
        shifts = tuple(_product(count, self.sensitivity, up=up) for count in found.counts)
        return GaussianMixture(self.scale, shifts, found.weights)


def _product(count: int, sensitivity: float, *, up: bool) -> float:
    """Return the least float64 that is at least the product, or the largest one that is at most it."""
    if up:
        return times_above(sensitivity, count)
    product = count * sensitivity
    return product if Fraction(product) <= count * Fraction(sensitivity) else math.nextafter(product, 0.0)


#: Larger data sets are refused.
_MAX_BATCHED = 10**12


@mechanism
class FixedBatchGaussian(TwoSided):
    """Gaussian noise on the sum of a batch of a fixed size, drawn without replacement; one record is replaced.

    Each round draws `batch` of the `examples` records, every set of so many with the same probability, independently of
    the other rounds, clips what each record contributes to a vector of length at most ``sensitivity``, and adds N(0,
    scale² I) to the sum. Neighbours have equally many records and differ in one. **Replacing a record moves a sum by up
    to twice the sensitivity**: all figures follow from (1-q) N(0, scale²) + q N(2 sensitivity, scale²) against N(0,
    scale²), q = batch / examples, and not from a shift by the sensitivity.

    In one round δ is H((1-q) N(0) + q N(2 sensitivity) || N(0); ε) in both directions. In several rounds no pair of
    data sets is known to be the worst (Lebeda, Regehr, Kamath & Steinke 2024): neither that pair nor its reversal
    dominates the mechanism. So upper bounds are those of another pair, `upper_pair`, which does, and lower bounds
    those of neighbouring data sets that follow `lower_pair` (Theorem 39 of docs/theory.md; Zhu, Dong & Wang 2022).

    Examples
    --------
    >>> from pbdist import FixedBatchGaussian, epsilon_bounds
    >>> noise = FixedBatchGaussian(scale=2.0, batch=10, examples=1000)
    >>> found = epsilon_bounds(noise, compositions=100, delta=1e-5, tolerance=0.1)
    >>> bool(0.0 < found.epsilon_lower.item() <= found.epsilon_upper.item() < 1.1 * found.epsilon_lower.item())
    True
    """

    aliases = ("sampledwithoutreplacement",)
    noise_family = "Gaussian"
    does = (
        "Each round draws a batch of a fixed size without replacement; Gaussian noise is added to the sum of what the"
        " individuals in it contribute."
    )
    assumes = (
        "Neighbouring data sets have the same number of examples, and one individual is replaced by another."
        " Contributions are clipped to the sensitivity, so that replacing one moves a sum by up to twice that. Batches"
        " are drawn afresh and independently in every round; a data set that is shuffled once an epoch is another"
        " mechanism. In several rounds the upper bound is that of a pair that dominates, and the lower bound that of"
        " data sets that are known: the truth may lie anywhere between."
    )
    checked_together = ("batch", "examples")

    adjacency = Adjacency.REPLACE_ONE

    scale: float = gaussian_scale([2.0, 4.0])
    batch: int = parameter(
        whole(1, _MAX_BATCHED),
        "the number of records of a batch",
        aliases=("batch_size", "sample_size", *RATES, "rate"),
        hint="batch is the number of records of a batch",
        example=100,
    )
    examples: int = parameter(
        whole(1, _MAX_BATCHED),
        "the number of records of the data set",
        aliases=("n", "dataset_size", "source_dataset_size", "data_size", "records"),
        example=10_000,
    )
    sensitivity: float = sensitivity_of("the clipping norm of a record")

    def check(self) -> None:
        """Refuse batches larger than the data set, and a sensitivity of which twice as much is out of range."""
        checked_integer(type(self).__name__, "batch", self.batch, minimum=1, maximum=self.examples)
        checked_size(type(self).__name__, "sensitivity", 2.0 * self.sensitivity)

    @cached_property
    def upper_pair(self) -> "FixedBatchUpper | Gaussian | SubsampledGaussian":
        """The pair that dominates, of the sampling rate rounded up; the attained one where all records are drawn."""
        if self.batch == self.examples:
            return self.lower_pair
        rate = self.batch / self.examples
        if Fraction(rate) < Fraction(self.batch, self.examples):
            rate = math.nextafter(rate, math.inf)
        return FixedBatchUpper(self.scale, rate, self.sensitivity)

    @cached_property
    def lower_pair(self) -> SubsampledGaussian | Gaussian:
        """A pair that some neighbours follow in all rounds, of the sampling rate rounded down."""
        if self.batch == self.examples:
            return Gaussian(self.scale, 2.0 * self.sensitivity)
        rate = self.batch / self.examples
        if Fraction(rate) > Fraction(self.batch, self.examples):
            rate = math.nextafter(rate, 0.0)
        return SubsampledGaussian(self.scale, rate, 2.0 * self.sensitivity)


@mechanism
class FixedBatchUpper(_Sampled):
    """The pair that dominates Gaussian noise on a batch of a fixed size when one record is replaced.

    With N = N(0, scale²) and M = (1-rate) N + rate N(2 sensitivity, scale²), its outcomes are x above the sensitivity,
    with a sign, and one more: A has M at (x, +) and N at (x, -), B has N at (x, +) and M at (x, -); both have what is
    left of 1 at the last outcome. For ε >= 0 its δ in one round is H(M||N; ε), in both directions: Theorem 39 of
    docs/theory.md. Bounds are those of this pair, which no neighbours need to follow: `FixedBatchGaussian` has lower
    bounds for the mechanism itself.
    """

    noise_family = "Gaussian"
    does = "A pair that dominates Gaussian noise on a batch of a fixed size, of which upper bounds are."
    assumes = "As of a FixedBatchGaussian."
    in_studies = False
    symmetric = True
    adjacency = Adjacency.REPLACE_ONE

    scale: float = gaussian_scale([2.0, 4.0])
    rate: float = sampling_rate()
    sensitivity: float = sensitivity_of("the clipping norm of a record")

    def check(self) -> None:
        """Refuse a sensitivity of which twice as much is out of range, as replacing a record moves a sum by that."""
        checked_size(type(self).__name__, "sensitivity", 2.0 * self.sensitivity)

    @cached_property
    def _removed(self) -> SubsampledGaussian:
        """The pair (M, N(0, scale²))."""
        return SubsampledGaussian(self.scale, self.rate, 2.0 * self.sensitivity)

    def loss_bound(self, direction: Direction) -> float | None:  # noqa: ARG002
        """Infinite."""
        return math.inf

    @property
    def without_sampling(self) -> Gaussian:
        """Every record in every batch: a shift by twice the sensitivity."""
        return Gaussian(self.scale, 2.0 * self.sensitivity)

    def keeps_order(self, edges: FloatArray) -> bool:
        """Whether (M, N(0, scale²)) does for the edges above 0, and for the negated ones below."""
        above, below = edges[edges > 0.0], -edges[edges < 0.0][::-1]
        return all(self._removed.keeps_order(side) for side in (above, below) if side.size)

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:  # noqa: ARG002
        """Upper bound of ln E_A[e^(tilt L); loss < L < ∞]: that of (M, N(0)) above 0, and at most 1 from the rest."""
        above = self._removed.log_tail_moment(tilt, max(loss, 0.0), Direction.A_TO_B)
        return above if loss >= 0.0 else float(np.logaddexp(above, 0.0)) + 1e-12

    def _masses(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        above = self._above(edges, scaled=scaled)
        below = self._above(np.ascontiguousarray(-edges[::-1]), scaled=scaled).swapped()
        bins_a, scale_a = added([(1.0, 1.0, side.masses.bins_a, side.log_scale_a) for side in (above, below)])
        bins_b, scale_b = added([(1.0, 1.0, side.masses.bins_b, side.log_scale_b) for side in (above, below)])
        # (1 - rate) N(0, scale²) of [-sensitivity, sensitivity] is what both have at a loss of 0.
        inner, error, _ = gaussian_interval(np.array([-self.sensitivity]), np.array([self.sensitivity]), self.scale)
        rest = 1.0 - self.rate
        level = MassBounds.around(inner, error)
        atom, _ = added([(rest, rest, level, np.zeros(1))])
        masses = LossMasses(
            bins_a=bins_a,
            bins_b=bins_b,
            atom_loss=np.zeros(1),
            atoms_a=atom,
            atoms_b=atom,
            loss_error=max(above.masses.loss_error, below.masses.loss_error),
        )
        return ScaledLossMasses(masses, scale_a, scale_b, np.zeros(1), np.zeros(1))

    def _above(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        """Return the masses of the outcomes (x, +), whose losses are above 0."""
        positive = edges[edges > 0.0]
        found = self._removed.masses_beyond(positive, self.sensitivity, scaled=scaled)
        return found.after_empty(edges.size - positive.size)


#: Larger data sets are refused: so many terms of a binomial distribution take too long.
_MAX_CUT = 10**9


@parametrised
class _TruncatedPoisson(Pair):
    """The parameters of Gaussian noise on Poisson samples that are cut to a largest size."""

    noise_family = "Gaussian"
    checked_together = ("sensitivity",)
    adjacency = Adjacency.ADD_OR_REMOVE

    scale: float = gaussian_scale([1.0, 2.0])
    rate: float = sampling_rate()
    batch: int = parameter(
        whole(1, _MAX_CUT),
        "the most records of a sample",
        aliases=("batch_size", "sample_size", "truncated_batch_size"),
        hint="batch is the most records of a sample",
        example=150,
    )
    examples: int = parameter(
        whole(1, _MAX_CUT),
        "the number of records of the data set",
        aliases=("n", "dataset_size", "source_dataset_size", "data_size", "records"),
        example=10_000,
    )
    sensitivity: float = sensitivity_of("the clipping norm of a record")

    def check(self) -> None:
        """Refuse a sensitivity of which twice as much is out of range, as replacing a record moves a sum by that."""
        checked_size(type(self).__name__, "sensitivity", 2.0 * self.sensitivity)

    @cached_property
    def _cut(self) -> CutSample:
        """How often samples are cut, and how often the record is in one."""
        return cut_sample(self.examples, self.rate, self.batch)


@mechanism
class TruncatedPoissonGaussian(_TruncatedPoisson, TwoSided):
    """Gaussian noise on Poisson samples of at most `batch` records; one record is added or removed.

    Each round draws a Poisson sample of the records with the probability `rate`. If more than `batch` were drawn, that
    many of them remain, every set of so many with the same probability. What each record contributes is clipped to a
    vector of length at most ``sensitivity``, and N(0, scale² I) is added to the sum (Chua et al. 2024). Where a sample
    is cut, the record takes the place of another one: that moves the sum by up to twice the sensitivity.

    Upper bounds are those of `upper_pair`, which dominates the mechanism, lower bounds those of `lower_pair`, which it
    follows where all other records contribute nothing. They meet as far as samples are seldom cut (Theorem 38 of
    docs/theory.md).

    Examples
    --------
    >>> from pbdist import TruncatedPoissonGaussian, epsilon_bounds
    >>> steps = TruncatedPoissonGaussian(scale=2.0, rate=0.01, batch=40, examples=2000)
    >>> found = epsilon_bounds(steps, compositions=100, delta=1e-5, tolerance=0.01)
    >>> bool(0.0 < found.epsilon_lower.item() <= found.epsilon_upper.item() < 1.01 * found.epsilon_lower.item())
    True
    """

    aliases = ("truncatedsubsampledgaussian",)
    does = (
        "Each individual is in the sample of a round with the sampling rate as its probability; of larger samples a"
        " batch of the largest size is kept; Gaussian noise is added to the sum of what the individuals contribute."
    )
    assumes = (
        "Neighbouring data sets differ by one individual added or removed, and the larger one has the given number of"
        " examples. Contributions are clipped to the sensitivity. Which individuals of too large a sample are kept is"
        " drawn uniformly. Lower bounds are those of data sets where no other individual contributes anything."
    )

    @cached_property
    def upper_pair(self) -> "TruncatedPoissonUpper | SubsampledGaussian":
        """The pair that dominates; the attained one where no sample is ever cut."""
        if self.batch >= self.examples:
            return self.lower_pair
        return TruncatedPoissonUpper(self.scale, self.rate, self.batch, self.examples, self.sensitivity)

    @cached_property
    def lower_pair(self) -> SubsampledGaussian:
        """The pair where no other record contributes: a sample in which the record is as often as it is in a batch."""
        return SubsampledGaussian(self.scale, self._cut.used, self.sensitivity)


@mechanism
class TruncatedPoissonUpper(_TruncatedPoisson, ScaledPair):
    """The pair that dominates Gaussian noise on Poisson samples of at most `batch` records: Theorem 38.

    With the probability τ that `batch` or more of the other records are drawn, it is q' N(2 sensitivity) + (1-q') N(0)
    against N(0), where q' is the probability of the record to be used then; else rate N(sensitivity) + (1-rate) N(0)
    against N(0); and which of them it is is seen. Bounds are those of this pair, which no neighbours need to follow:
    `TruncatedPoissonGaussian` has lower bounds for the mechanism itself.
    """

    does = "A pair that dominates Gaussian noise on Poisson samples that are cut, of which upper bounds are."
    assumes = "As of a TruncatedPoissonGaussian."
    in_studies = False

    @cached_property
    def _parts(self) -> tuple[tuple[float, float, SubsampledGaussian], ...]:
        """Bounds on the probability of each case, and its pair."""
        cut = self._cut
        whole, least, most = SubsampledGaussian(self.scale, self.rate, self.sensitivity), *cut.probability
        if most == 0.0:
            return ((1.0, 1.0, whole),)
        other = SubsampledGaussian(self.scale, cut.rate, 2.0 * self.sensitivity)
        if least == 1.0:
            return ((1.0, 1.0, other),)
        # The upper value of 1 - τ rounds up.
        return ((cut.rest[0], cut.rest[1], whole), (least, most, other))

    def loss_bound(self, direction: Direction) -> float | None:
        """The larger one of both cases."""
        return max(part.loss_bound(direction) for _, _, part in self._parts)

    @property
    def without_sampling(self) -> Gaussian:
        """A shift by twice the sensitivity in every round."""
        return Gaussian(self.scale, 2.0 * self.sensitivity)

    def keeps_order(self, edges: FloatArray) -> bool:
        """Whether both cases do."""
        return all(part.keeps_order(edges) for _, _, part in self._parts)

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:
        """Upper bound of ln E_A[e^(tilt L); loss < L < ∞]: those of both cases, with their probabilities."""
        logs = [math.log(most) + part.log_tail_moment(tilt, loss, direction) for _, most, part in self._parts]
        size = max(abs(math.log(most)) for _, most, _ in self._parts)
        return rounded_up(float(np.logaddexp.reduce(logs)) + 1e-14 * (1.0 + size))

    def _masses(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        parts = [
            (least, most, part.masses_beyond(edges, -math.inf, scaled=scaled)) for least, most, part in self._parts
        ]
        bins_a, scale_a = added([(least, most, one.masses.bins_a, one.log_scale_a) for least, most, one in parts])
        bins_b, scale_b = added([(least, most, one.masses.bins_b, one.log_scale_b) for least, most, one in parts])
        masses = LossMasses(bins_a, bins_b, loss_error=max(one.masses.loss_error for _, _, one in parts))
        return ScaledLossMasses(masses, scale_a, scale_b)


#: Digits of the largest loss.
_DIGITS = 40
#: Losses whose exponentials decimal numbers hold, in nats.
_FAR = 1_000_000


@mechanism
class SubsampledLaplace(_Sampled, BoundedPair):
    """Laplace noise after Poisson sampling: A = (1-q) Lap(0, scale) + q Lap(sensitivity, scale), B = Lap(0, scale).

    A numeric query is answered on a sample that contains each record with probability q, independently of all others.
    The direction "A||B" is the one in which a record is removed, "B||A" the one in which it is added. The pair
    dominates for both, and it is attained where one record moves the query by the sensitivity (Theorem 36 of
    docs/theory.md; Zhu, Dong & Wang 2022, Theorem 11).

    Examples
    --------
    >>> from pbdist import Laplace, SubsampledLaplace, privacy_bounds
    >>> sampled, full = (
    ...     privacy_bounds(pair, compositions=100, epsilon=1.0).delta_upper.item()
    ...     for pair in (SubsampledLaplace(scale=2.0, rate=0.05), Laplace(scale=2.0))
    ... )
    >>> sampled < 1e-2 * full
    True
    """

    aliases = ("poissonsampledlaplace",)
    noise_family = "Laplace"
    does = (
        "Each individual is in the sample of a round with the sampling rate as its probability, independently of all"
        " others; Laplace noise is added to a number that is computed from the sample."
    )
    assumes = (
        "The sample is a Poisson sample. Neighbouring data sets differ by one individual added or removed, who moves"
        " the number by at most the sensitivity."
    )

    adjacency = Adjacency.ADD_OR_REMOVE

    scale: float = parameter(
        positive,
        "the scale b of the noise, whose density is e^(-|x| / b) / (2 b)",
        unit="counts",
        aliases=SPREADS,
        hint=LAPLACE_SCALE,
        example=[1.0, 2.0, 4.0],
        sized=True,
    )
    rate: float = sampling_rate()
    sensitivity: float = sensitivity_of("by how much one record moves the answer")

    @property
    def symmetric(self) -> bool:
        """Whether every record is in the sample."""
        return self.rate == 1.0

    def loss_bound(self, direction: Direction) -> float | None:
        """That of outcomes on the far side of the record, or on the near side."""
        # Floats tell neither sum well: rates next to 1 cancel, and large losses overflow.
        sign = 1 if direction is Direction.A_TO_B else -1
        with localcontext() as context:
            context.prec = _DIGITS
            rate, size = Decimal(self.rate), Decimal(self.sensitivity) / Decimal(self.scale)
            # A small loss is about rate · size, beside which as many digits are kept.
            context.prec -= min(rate.adjusted() + min(size.adjusted(), 0), 0)
            # The loss of every record's noise is no smaller.
            found = size if sign * size > _FAR else min(size, sign * (1 - rate + rate * (sign * size).exp()).ln())
        return math.nextafter(float(found), math.inf)

    @cached_property
    def without_sampling(self) -> Laplace:
        """Laplace noise on every record: as its reflection, A about 0, B about the sensitivity."""
        return Laplace(self.scale, self.sensitivity)

    def keeps_order(self, edges: FloatArray) -> bool:
        """Whether the losses without sampling rise, and the outermost ones are the same if given alone."""
        return in_order(lambda some: full_losses(some, self.rate), edges)

    def _largest_loss(self, direction: Direction) -> float:
        ends, error = self._ends
        return rounded_up(max(ends.tolist() if direction is Direction.A_TO_B else (-ends).tolist()) + error)

    @cached_property
    def _ends(self) -> tuple[FloatArray, float]:
        """The largest and the smallest loss, and a bound on their error."""
        full = self.sensitivity / self.scale
        ends, error = sampled_losses(np.array([full, -full]), self.rate)
        # The quotient rounds once; the slope of the loss is at most that at its upper end.
        slope = min(1.0, self.rate * math.exp(min(full - float(ends[0]), 700.0))) if self.rate < 1.0 else 1.0
        return ends, error + 1.1 * slope * full * UNIT_ROUNDOFF

    def _masses(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        full = full_losses(edges, self.rate)
        # Rounding must not let neighbouring bins overlap.
        full = np.maximum.accumulate(full)
        empty = int(np.count_nonzero(full == -np.inf))
        inner = full[empty:]
        masses = self.without_sampling._masses(inner, scaled=scaled)
        ends, error = self._ends
        # No event has a loss beyond the largest one; from a loss to x there are two roundings.
        within = np.minimum(edges, ends[0] + error)
        missed = edge_error(within, self.rate, steps=2.1, level=1.1 * self.sensitivity / self.scale)
        return sampled(masses, self.rate, empty=empty, atom_loss=ends, loss_error=max(error, missed))


#: Steps of an epoch at most, and sensitivity / scale at least and at most.
_MAX_EPOCH, _SMALLEST_RATIO, _LARGEST_RATIO = 100_000, 1e-4, 10.0
#: A search for noise begins so far above a close estimate.
_CLEARLY = 1.02


@mechanism
class RandomAllocation(ElementaryPair):
    """An epoch of Gaussian noise in which each record is used in exactly one of some steps, chosen at random.

    Also known as balls-and-bins sampling (Chua et al. 2025; Feldman & Shenfeld 2025): every record draws its step
    independently of all others, and every step's sum gets noise. One composition is one epoch, with fresh draws. Where
    batches have a fixed size instead, or records are shuffled and cut into batches, the draws are not independent, and
    nothing is claimed.

    B is N(0, scale²) in each step, independently, and A the uniform mixture over i of the same with the mean of step i
    moved by the sensitivity: the pair is attained, and it dominates the epoch for adaptive steps too (Theorem 35 of
    docs/theory.md). The direction "A||B" is the removal of a record, "B||A" the addition. A record that is replaced by
    one that contributes nothing (zero-out) has the same pair.

    The scale is from a tenth of the sensitivity to 10^4 times as much. With one step it is the Gaussian mechanism.

    Its masses on losses have no closed form. They are bounded by two finite pairs, one that it dominates and one that
    dominates it, as fine as a tolerance takes (Theorem 34). So bounds on δ and on ε, noise that is sized, and stored
    studies are to be had; what needs exact masses (privacy buckets, Rényi divergences, trade-off curves, exact
    verification) refuses it.

    Examples
    --------
    >>> from pbdist import RandomAllocation, privacy_bounds
    >>> found = privacy_bounds(RandomAllocation(1.0, steps=8), compositions=1, epsilon=3.711)
    >>> bool(1.043e-8 < found.delta_lower.item() < 1.044e-8 < found.delta_upper.item() < 1.045e-8)
    True
    """

    aliases = ("ballsandbins", "balls-and-bins", "balls_and_bins")
    noise_family = "Gaussian"
    does = (
        "An epoch has several steps, and each individual's record is used in one of them, chosen at random; Gaussian"
        " noise is added to what each step computes, as in training with DP-SGD by balls and bins."
    )
    assumes = (
        "A round is an epoch; in each, every record draws its step anew, each with the same probability and"
        " independently of all others. Neighbouring data sets differ by one individual added or removed, whose"
        " contribution is clipped to the sensitivity. Batches of a fixed size, or a data set that is shuffled and cut"
        " into batches, are other mechanisms, about which nothing is said here. The noise multiplier is scale /"
        " sensitivity."
    )
    checked_together = ("scale", "sensitivity")
    adjacency = Adjacency.ADD_OR_REMOVE
    enclosed = True

    scale: float = gaussian_scale([0.8, 1.0, 2.0])
    steps: int = parameter(
        whole(1, _MAX_EPOCH), "the number of steps of a round, in one of which a record is used", example=100
    )
    sensitivity: float = sensitivity_of("the clipping norm of a record")

    def check(self) -> None:
        """Refuse noise that is too small or too large beside the sensitivity."""
        if not _SMALLEST_RATIO * self.scale <= self.sensitivity <= _LARGEST_RATIO * self.scale:
            raise InvalidInputError(
                f"{type(self).__name__}.scale: expected from 0.1 to 10,000 times the sensitivity {self.sensitivity!r},"
                f" got {self.scale!r}"
            )

    @classmethod
    def usual_noise(cls, deviation: float, parameters: Mapping[str, Any]) -> float:
        """The scale whose likelihood ratio varies as that of the Gaussian noise, rather too large.

        Coarse bounds are to tell that it meets a goal.
        """
        varies = math.expm1(min(1.0 / (deviation * deviation), 500.0))
        sensitivity, steps = float(parameters.get("sensitivity", 1.0)), float(parameters["steps"])
        return _CLEARLY * sensitivity / math.sqrt(math.log1p(steps * varies))

    @property
    def order(self) -> NoiseOrder | None:
        """By scale / sensitivity, of equally many steps."""
        return ordered(self, RandomAllocation, Fraction(self.scale) / Fraction(self.sensitivity), family=(self.steps,))

    @property
    def symmetric(self) -> bool:
        """Only with one step."""
        return self.steps == 1

    @property
    def between_gaussians(self) -> tuple[Gaussian, Gaussian]:
        """Of the noise of all steps together, and of one step (Theorem 48 of docs/theory.md)."""
        # More noise is a post-processing of less (Theorem 11): it is rounded up for what is dominated.
        all_steps = self.scale * math.sqrt(self.steps) * (1.0 + 4.0 * UNIT_ROUNDOFF)
        return Gaussian(all_steps, self.sensitivity), Gaussian(self.scale, self.sensitivity)

    def loss_bound(self, direction: Direction) -> float | None:  # noqa: ARG002
        """Infinite."""
        return math.inf

    def loss_masses(self, edges: FloatArray) -> LossMasses:  # noqa: ARG002
        """Refuse: there is no closed form."""
        raise InvalidInputError(
            "mechanism: expected one whose masses are known exactly, got RandomAllocation, which is enclosed by two"
            " others; bounds on δ and on ε with method tight are to be had"
        )
