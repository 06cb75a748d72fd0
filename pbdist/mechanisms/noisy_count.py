"""A count hidden under whole-numbered noise, as in Vuvuzela and its relatives."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.additive import AdditiveNoise, Gaussian, Laplace, cut_gaussian
from pbdist.mechanisms.declaration import (
    SMALLEST_REMAINDER,
    SPREADS,
    Domain,
    Form,
    mechanism,
    one_of,
    parameter,
    real,
    whole,
)
from pbdist.mechanisms.integer_noise import DiscreteLaplace, WholeNoise, discrete_gaussian_total
from pbdist.mechanisms.masses import SMALLEST_FLOAT, SMALLEST_MASS, UNIT_ROUNDOFF, LossMasses
from pbdist.mechanisms.outcomes import MAX_OUTCOMES, masses_of_outcomes
from pbdist.mechanisms.pair import ElementaryPair
from pbdist.types import Direction, FloatArray


def mean_of_positive_part(noise: WholeNoise, mean: float) -> float:
    """Return E max(0, X), X the noise about a whole mean: about 12 digits, not a certified bound.

    By the symmetry of the noise N it is max(0, mean) + E max(0, N - |mean|). For discrete Laplace noise, with p =
    e^(-1/scale), the second summand is p^(|mean| + 1) / (1 - p²).
    """
    distance = abs(mean)
    if isinstance(noise, DiscreteLaplace):
        beyond = math.exp(-(distance + 1.0) / noise.scale) / -math.expm1(-2.0 / noise.scale)
    else:
        reach = math.ceil(_GAUSSIAN_REACH * noise.scale) + 1
        excess = np.arange(1.0, max(reach - distance, 0.0) + 1.0)
        z = (excess + distance) / noise.scale
        beyond = float(np.sum(excess * np.exp(-0.5 * z * z))) / discrete_gaussian_total(noise.scale)[0]
    return max(mean, 0.0) + beyond


CLAMP_AND_CEIL = "clamp-and-ceil"
REDRAW_AND_FLOOR = "redraw-and-floor"
SHIFT_INSIDE = "shift-inside"

#: The ways in which a draw X becomes a number of noise messages; see `NoisyCount`.
READINGS = (CLAMP_AND_CEIL, REDRAW_AND_FLOOR, SHIFT_INSIDE)

_NAME = "NoisyCount"

#: Gaussian noise further than this from its mean, in standard deviations, has a mass below `SMALLEST_MASS`.
_GAUSSIAN_REACH = 38.0

#: Up to this, float64 resolves neighbouring counts well.
_LARGEST_COUNT = 10**12

#: From this standard deviation on, a sum of Gaussian tails over whole numbers is computed from its integral.
_SMOOTH_SCALE = 200.0

#: Counts of masses below the first may have no loss of their own; those of masses above the second have one.
_FAINT, _CLEAR = 1e-279, 1e-270
#: Faint Gaussian counts lie beyond so many standard deviations.
_FAR = 34.0

#: Means of more scales reveal no less.
_MAX_SCALES = 40

#: Noise leaves at most this many counts more than its reach.
_MORE_COUNTS = 6.0


def _checked_noise(owner: str, name: str, value: Any) -> "AdditiveNoise | WholeNoise":
    if not isinstance(value, AdditiveNoise | WholeNoise):
        raise InvalidInputError(
            f"{owner}.{name}: expected Laplace(..), Gaussian(..), DiscreteLaplace(..) or DiscreteGaussian(..),"
            f" got {shown(value)}"
        )
    return value


_NOISE = Domain(_checked_noise, Form.MECHANISM, kinds=("Laplace", "Gaussian", "DiscreteLaplace", "DiscreteGaussian"))


@mechanism
class NoisyCount(ElementaryPair):
    """What an observer sees of a count to which whole-numbered noise is added: A = N, B = shift + N.

    X is the draw of the noise about its mean, neither truncated nor with a sensitivity of its own. Under discrete noise
    the mean is a whole number, so that X is one. The shift is 2 for Vuvuzela's dialing protocol. The reading says how X
    becomes a count N >= 0:

    - ``"clamp-and-ceil"`` (the default): N = ⌈max(0, X)⌉, as the Vuvuzela paper specifies the protocol. An output below
      `shift` occurs under A only and reveals the input.
    - ``"redraw-and-floor"``: N = ⌊X⌋, X redrawn while negative, as the published implementation does.
    - ``"shift-inside"``: A = ⌈max(0, X)⌉, B = ⌈max(0, X + shift)⌉, the pair that Meiser & Mohammadi 2018 write down in
      section 7.1. The shift inside the maximum hides the outputs that reveal the input: it describes a system that adds
      the true count before it cuts at 0, and promises too much for one that adds it after.

    Under discrete noise nothing is left to round: the readings are max(0, X), X redrawn while negative, and the cut
    after the count is added.

    Examples
    --------
    >>> from pbdist import Laplace, NoisyCount, privacy_bounds
    >>> noise = NoisyCount(noise=Laplace(770.0), mean=13_000.0, shift=2)
    >>> found = privacy_bounds(noise, compositions=8192, epsilon=0.7)
    >>> bool(found.delta_lower.item() <= found.delta_upper.item() < 1.002 * found.delta_lower.item())
    True
    """

    does = (
        "A count is seen to which a whole, never negative number of noise messages was added; the number comes from a"
        " draw of Laplace or Gaussian noise about a mean, real-valued or whole-numbered."
    )
    assumes = (
        "One individual's action raises the count by at most the shift. The observer may know everybody else's share"
        " of it. The number of noise messages is drawn afresh and independently in every round, and not known to the"
        " observer."
    )

    noise_parameters = ("mean", "noise")

    noise: AdditiveNoise | WholeNoise = parameter(
        _NOISE,
        "the noise before it is made a count",
        aliases=SPREADS,
        hint="the scale belongs to the noise: noise: {kind: Laplace, scale: ..}",
        example=Laplace(400.0),
        sized=True,
    )
    mean: float = parameter(real, "the mean of the noise", unit="counts", example=[4000.0, 8000.0])
    shift: int = parameter(
        whole(1, _LARGEST_COUNT), "by how much the counts of neighbouring inputs differ", unit="counts", example=2
    )
    reading: str = parameter(
        one_of(*READINGS), "the way in which a draw becomes a number of messages", default=CLAMP_AND_CEIL
    )

    def check(self) -> None:
        """Refuse noise that is no plain noise of messages, a mean that is not whole where it must be, and too much."""
        if (isinstance(self.noise, AdditiveNoise) and self.noise.truncate is not None) or self.noise.sensitivity != 1:
            raise InvalidInputError(
                f"{_NAME}.noise: expected noise without truncation or sensitivity (the shift is"
                f" the sensitivity), got {shown(self.noise)}"
            )
        if self._whole and not self.mean.is_integer():
            raise InvalidInputError(
                f"{_NAME}.mean: expected a whole number with discrete noise, got {shown(self.mean)}"
            )
        if max(abs(self.mean), self.noise.scale) > _LARGEST_COUNT:
            raise InvalidInputError(
                f"{_NAME}.mean: expected a mean and a scale of at most {_LARGEST_COUNT:g} messages,"
                f" got {shown(self.mean)} and {self.noise.scale!r}"
            )
        # Half of the draws are at least the mean.
        if self.mean < 0.0 and self._remaining() < SMALLEST_REMAINDER:
            raise InvalidInputError(
                f"{_NAME}.mean: expected noise that is at least 0 with a probability"
                f" of {SMALLEST_REMAINDER:g} or more, got {shown(self.mean)}"
            )
        first, last = self._own_loss_counts()
        if last - first > MAX_OUTCOMES:
            raise InvalidInputError(
                f"{_NAME}.noise: expected a scale that leaves at most {MAX_OUTCOMES} counts, got {self.noise.scale!r}"
            )

    def cost_class(self) -> tuple[float, ...]:
        """The mean in whole scales of the noise, up to where more of them reveal no less."""
        return (min(int(self.mean / self.noise.scale), _MAX_SCALES),)

    @property
    def cost_stand_in(self) -> ElementaryPair:
        """The noise before it is made a count, real-valued, with the shift as its sensitivity."""
        make = Laplace if isinstance(self.noise, Laplace | DiscreteLaplace) else cut_gaussian
        return make(self.noise.scale, float(self.shift))

    @classmethod
    def tried_together(cls, grids: Mapping[str, Sequence[Any]]) -> tuple[str, ...]:
        """None where half of the noise remains and few counts are left, whatever the combination; else all.

        A mean m with a reach t leaves at most ⌈m + t⌉ - ⌊m - t⌋ + shift counts, and a negative mean is the only one
        that may leave too little. All noises of an entry are of one class, for which a mean is whole enough or not.
        """
        reach = max(
            0.0 if isinstance(noise, Laplace | DiscreteLaplace) else _GAUSSIAN_REACH * noise.scale + 1.0
            for noise in grids["noise"]
        )
        most = 2.0 * reach + float(max(grids["shift"])) + _MORE_COUNTS
        return () if most <= MAX_OUTCOMES and float(min(grids["mean"])) >= 0.0 else ("noise", "mean", "shift")

    @property
    def outcomes(self) -> int:
        """The counts that have a loss of their own."""
        first, last = self._own_loss_counts()
        return last - first

    @property
    def expected_count(self) -> float:
        """E[N], in messages: the average cost of the noise in a round; about 12 digits, not a certified bound.

        Of real-valued noise: Σ over k >= 0 of P(N > k). That is Σ over k >= 0 of P(X > k) where X is clamped and
        rounded up (for ``"shift-inside"``: the N of A), and Σ over k >= 1 of P(X >= k), divided by P(X >= 0), where it
        is redrawn and rounded down. Of discrete noise: E max(0, X), divided by P(X >= 0) where X is redrawn.
        """
        if isinstance(self.noise, WholeNoise):
            mean = mean_of_positive_part(self.noise, self.mean)
            return mean / self._remaining() if self.reading == REDRAW_AND_FLOOR else mean
        whole = self._tails_from_one()
        return whole / self._remaining() if self.reading == REDRAW_AND_FLOOR else whole + self._remaining()

    def always_reveals(self, direction: Direction) -> bool:
        """Totals below the shift occur under A alone."""
        return self.reading != SHIFT_INSIDE and direction is Direction.A_TO_B

    def log_faint_moment(self, tilt: float, direction: Direction) -> float:
        """Of the tail of Gaussian noise (Theorem 20 of docs/theory.md)."""
        noise = self.noise
        if not isinstance(noise, Gaussian) or self.always_reveals(direction):
            return math.inf
        if self.shift > self.mean:
            return math.inf
        scale, shift = noise.scale, float(self.shift)
        # The loss at a distance y from the mean of P_B's noise, on the far side of P_A's, is s (2y - s) / (2 scale²).
        ratio = shift / scale
        loss = _FAR * ratio - 0.5 * ratio * ratio
        loss -= 1e-9 * (1.0 + abs(loss))
        moment = Gaussian(scale, shift).log_tail_moment(tilt, loss, Direction.A_TO_B)
        remaining = self._remaining()
        clamped = float(noise.interval(np.full(1, -np.inf), np.zeros(1), self.mean)[0][0])
        if self.reading == "clamp-and-ceil" and clamped <= _CLEAR:
            if clamped > _FAINT:
                return math.inf
            moment = float(np.logaddexp(moment, math.log(_FAINT) + tilt * math.log1p(scale / _FAR) + 1e-6))
        return moment - math.log(remaining) + 1e-6

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """One atom a count; the two stretches of constant loss (Laplace, discrete or not) are one atom each."""
        first, last = self._own_loss_counts()
        draws = np.arange(first, last, dtype=np.float64) + self._first_draw()
        a_ends, b_ends = self._irregular_atom()
        known_loss = np.full(a_ends.shape[0] + draws.size, np.nan)
        if self._whole:
            known_loss[a_ends.shape[0] :] = self._losses_of_draws(draws if self._ends_below else draws + 1.0)
        regular = np.stack((draws, draws + 1.0), axis=1)
        if self._is_laplace:
            stretches = self._constant_stretches(first, last)
            regular = np.concatenate((regular, stretches[:, :2]))
            known_loss = np.concatenate((known_loss, stretches[:, 2]))
        draws_a, draws_b = np.concatenate((a_ends, regular)), np.concatenate((b_ends, regular - self.shift))
        mass_a, error_a = self._mass(draws_a[:, 0], draws_a[:, 1])
        mass_b, error_b = self._mass(draws_b[:, 0], draws_b[:, 1])

        tails = 0.0 if self._is_laplace else 4.0 * SMALLEST_MASS
        revealed = self._revealing_mass()
        return masses_of_outcomes(
            edges,
            np.concatenate((mass_a, revealed[0])),
            np.concatenate((mass_b, np.zeros_like(revealed[0]))),
            error_a=np.concatenate((error_a, revealed[1])),
            error_b=np.concatenate((error_b, np.zeros_like(revealed[1]))),
            known_loss=np.concatenate((known_loss, np.full_like(revealed[0], np.nan))),
            further_a=tails,
            further_b=tails,
        )

    @property
    def _whole(self) -> bool:
        """Whether every draw is a whole number."""
        return not isinstance(self.noise, AdditiveNoise)

    @property
    def _is_laplace(self) -> bool:
        """Whether the loss is constant where the draws of A and B lie on one side of the mean."""
        return isinstance(self.noise, Laplace | DiscreteLaplace)

    @property
    def _ends_below(self) -> bool:
        """Whether an interval of draws has its lower end, and not its upper one: where X is rounded down."""
        return self.reading == REDRAW_AND_FLOOR

    def _losses_of_draws(self, draw: FloatArray) -> FloatArray:
        """Return the losses of counts of one whole draw of A each, off by 3u: whole numbers of this size are exact."""
        distance, scale = draw - self.mean, self.noise.scale
        if self._is_laplace:
            return np.asarray((np.abs(distance - self.shift) - np.abs(distance)) / scale)
        return np.asarray(0.5 * (self.shift * (self.shift - 2.0 * distance)) / (scale * scale))

    def _remaining(self) -> float:
        """Mass of the draws of at least 0."""
        lower, upper = np.zeros(1), np.full(1, np.inf)
        return float(self.noise.interval(lower, upper, self.mean)[0][0])

    def _tails_from_one(self) -> float:
        """Σ over k >= 1 of P(X >= k)."""
        mean, scale = self.mean, self.noise.scale
        if isinstance(self.noise, Laplace):
            # Two geometric series with ratio e^(-1/scale), which meet at the mean.
            below = max(math.floor(mean), 0)
            missing = 0.5 * math.exp((below - mean) / scale) * -math.expm1(-below / scale) if below else 0.0
            above = 0.5 * math.exp((mean - below - 1.0) / scale)
            return below + (above - missing) / -math.expm1(-1.0 / scale)
        if scale < _SMOOTH_SCALE:
            first = max(math.floor(mean - _GAUSSIAN_REACH * scale), 0)
            last = max(math.ceil(mean + _GAUSSIAN_REACH * scale), 0)
            counts = np.arange(first + 1, last + 1, dtype=np.float64)
            return first + float(np.sum(special.ndtr((mean - counts) / scale)))
        # Euler and Maclaurin's formula at the midpoints; Gaussian tails leave e^(-2 π² scale²) of it.
        start = (0.5 - mean) / scale
        density = math.exp(-0.5 * start * start) / math.sqrt(2.0 * math.pi)
        integral = scale * (density - start * float(special.ndtr(-start)))
        return integral - density / (24.0 * scale) + 7.0 / 5760.0 * (start * start - 1.0) * density / scale**3

    def _first_draw(self) -> float:
        """Return the lower end of the unit interval of draws that A turns into the first regular count.

        A count is regular where A's draws are a unit interval and B's are the same interval `shift` lower.
        """
        return 0.0 if self.reading == SHIFT_INSIDE else float(self.shift)

    def _own_loss_counts(self) -> tuple[int, int]:
        """Return the range [first, last), counted from the first regular count, in which every count has its own loss.

        Under Laplace noise the loss is constant where the draws of A and B lie on one side of the mean; Gaussian noise
        is left out beyond 38 standard deviations.
        """
        # One count more on either side: mean and reach may differ by more than float64 resolves.
        reach = 0.0 if self._is_laplace else _GAUSSIAN_REACH * self.noise.scale + 1.0
        first = math.floor(self.mean - reach) - int(self._first_draw())
        last = math.ceil(self.mean + reach) + self.shift - int(self._first_draw())
        return max(first, 0), max(last, 0)

    def _constant_stretches(self, first: int, last: int) -> FloatArray:
        """Return rows (lower and upper end of A's draws, loss in nats) of the stretches on either side of the mean."""
        start, step = self._first_draw(), self.shift / self.noise.scale
        rows = np.array([[start, start + first, step], [start + last, np.inf, -step]])
        return rows[rows[:, 0] < rows[:, 1]]

    def _irregular_atom(self) -> tuple[FloatArray, FloatArray]:
        """Return the draws of A and of B that make the count just below the regular ones, if both can make it."""
        shift = float(self.shift)
        if self.reading == CLAMP_AND_CEIL:
            return np.array([[shift - 1.0, shift]]), np.array([[-np.inf, 0.0]])
        if self.reading == SHIFT_INSIDE:
            return np.array([[-np.inf, 0.0]]), np.array([[-np.inf, -shift]])
        return np.zeros((0, 2)), np.zeros((0, 2))

    def _revealing_mass(self) -> tuple[FloatArray, FloatArray]:
        """Return the mass, with its relative error, of the counts that only A can show: those below the shift."""
        if self.reading == SHIFT_INSIDE:
            return np.zeros(0), np.zeros(0)
        below = np.array([float(self.shift - 1 if self.reading == CLAMP_AND_CEIL else self.shift)])
        above = np.array([-np.inf if self.reading == CLAMP_AND_CEIL else 0.0])
        return self._mass(above, below)

    def _mass(self, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mass of draws in [lower, upper] and a bound on its relative error; for redrawing, given that X >= 0.

        Of whole draws one end is left out: see `_ends_below`.
        """
        mass, error = self._draws(lower, upper)
        # No outcome is impossible: a mass that underflows must not become 0.
        mass = np.maximum(mass, SMALLEST_FLOAT)
        if self.reading == REDRAW_AND_FLOOR:
            remaining, remaining_error = self._draws(np.zeros(1), np.full(1, np.inf))
            mass, error = mass / remaining, error + remaining_error + 2.0 * UNIT_ROUNDOFF
        return mass, error

    def _draws(self, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mass of draws in [lower, upper], of whole ones without one end, and a bound on its relative error."""
        if isinstance(self.noise, AdditiveNoise):
            return self.noise.interval(lower, upper, self.mean)[:2]
        if self._ends_below:
            return self.noise.interval(lower, upper - 1.0, self.mean)
        return self.noise.interval(lower + 1.0, upper, self.mean)
