"""The Gaussian mechanism on a Poisson sample: the pair of differentially private stochastic gradient descent."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pbdist.errors import InvalidInputError
from pbdist.mechanisms.additive import Gaussian
from pbdist.mechanisms.declaration import gaussian_scale, mechanism, sampling_rate, sensitivity_of
from pbdist.mechanisms.masses import (
    SMALLEST_MASS,
    UNIT_ROUNDOFF,
    LossMasses,
    MassBounds,
    ScaledLossMasses,
    gaussian_interval,
    rounded_up,
)
from pbdist.mechanisms.pair import NoiseOrder, Pair, ScaledPair, in_order, ordered
from pbdist.mechanisms.tails import BEYOND, log_moment_of_lines, picture_values, steepest_tilt
from pbdist.types import Adjacency, Direction, FloatArray

#: Logarithm of the weight that a picture may leave out.
_UNSEEN = -40.0


@mechanism
class SubsampledGaussian(ScaledPair):
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
        from pbdist.mechanisms.sampled_group import LARGEST_SAMPLED_GROUP, SubsampledGaussianGroup  # noqa: PLC0415

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

    @property
    def order(self) -> NoiseOrder | None:
        """By scale / sensitivity and by the inverse of the sampling rate."""
        return ordered(
            self, SubsampledGaussian, Fraction(self.scale) / Fraction(self.sensitivity), 1 / Fraction(self.rate)
        )

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

    def loss_bound(self, direction: Direction) -> float | None:
        """Infinite where a record is removed, -ln(1 - q) where one is added."""
        return math.inf if direction is Direction.A_TO_B else rounded_up(self._deepest)

    @property
    def participation(self) -> float:
        """The sampling rate."""
        return self.rate

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
        if np.any(ends[1:] < ends[:-1]):
            np.maximum.accumulate(ends, out=ends)
        # Edges below every loss lie at -inf, or at the start; the bins between them are empty.
        first = max(int(np.searchsorted(ends, start, side="right")) - 1, 0)
        lower, upper = ends[first:-1], ends[first + 1 :]
        means = np.array([[0.0], [self.sensitivity]])
        mass, error, log_scale = gaussian_interval(lower, upper, self.scale, means, scaled=scaled)
        mixture, mixture_error, mixture_scale = self._mixture(mass, error, log_scale)
        present = True if np.all(lower < upper) else lower < upper
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
        return loss, 32.0 * UNIT_ROUNDOFF * (1.0 + rest - log_rate + float(np.max(np.abs(gain))))

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
    return found, 64.0 * UNIT_ROUNDOFF * float(np.max(size))


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
