"""Exact δ of noise that is cut anywhere, of untruncated or sampled Gaussian noise, and of sums of Laplace noises."""

from dataclasses import dataclass
from fractions import Fraction

from flint import arb, ctx

from tests.hostile.truth import Finite, Outcome, Truth, at_least_zero, ball


@dataclass(frozen=True)
class Noise:
    """Laplace or Gaussian noise, cut to [low, high] about its mean, B shifted by the sensitivity; as given."""

    kind: str
    scale: float
    sensitivity: float
    truncate: tuple[float, float] | None

    def mass(self, low: Fraction | None, high: Fraction | None) -> arb:
        """Mass of an interval before the cut; None is an infinite end."""
        if low is not None and high is not None and low >= high:
            return arb(0)
        if low is not None and low < 0 and (high is None or high > 0):
            return self.mass(low, Fraction(0)) + self.mass(Fraction(0), high)
        if low is None and (high is None or high > 0):
            return self.mass(None, Fraction(0)) + self.mass(Fraction(0), high)
        if low is None or low < 0:
            low, high = (None if high is None else -high), (None if low is None else -low)
        assert low is not None
        return self._mass_above(low, high)

    def _mass_above(self, low: Fraction, high: Fraction | None) -> arb:
        scale = Fraction(self.scale)
        if self.kind == "Laplace":
            rest = (-ball(low / scale)).exp() / 2
            return rest if high is None else rest * -(-ball((high - low) / scale)).expm1()
        root = arb(2).sqrt()
        start = (ball(low / scale) / root).erfc() / 2
        return start if high is None else start - (ball(high / scale) / root).erfc() / 2

    @property
    def ends(self) -> tuple[Fraction | None, Fraction | None]:
        return (None, None) if self.truncate is None else (Fraction(self.truncate[0]), Fraction(self.truncate[1]))

    def mirrored(self) -> "Noise":
        """The pair (B, A), by x -> sensitivity - x."""
        cut = None if self.truncate is None else (-self.truncate[1], -self.truncate[0])
        return Noise(self.kind, self.scale, self.sensitivity, cut)

    def common(self) -> tuple[Fraction | None, Fraction | None] | None:
        """Where both live, None if that has no mass."""
        low, high = self.ends
        left = None if low is None else low + Fraction(self.sensitivity)
        return None if left is not None and high is not None and left >= high else (left, high)

    def last_above(self, epsilon: float) -> Fraction | None:
        """Up to which x the loss exceeds ε, if it does anywhere."""
        s, scale, e = Fraction(self.sensitivity), Fraction(self.scale), Fraction(epsilon)
        if self.kind == "Laplace":
            return None if e * scale >= s else (s - e * scale) / 2
        return s / 2 - scale * scale * e / s

    def kept(self) -> arb:
        return self.mass(*self.ends)

    def delta_to_b(self, epsilon: float) -> arb:
        """δ of A from B."""
        shared = self.common()
        if shared is None:
            return arb(1)
        (low, _), (left, right) = self.ends, shared
        total = arb(0) if left is None else self.mass(low, left)
        last = self.last_above(epsilon)
        if last is not None and (left is None or last > left):
            stop = last if right is None else min(last, right)
            s = Fraction(self.sensitivity)
            moved = self.mass(None if left is None else left - s, stop - s)
            total += self.mass(left, stop) - arb(epsilon).exp() * moved
        return at_least_zero(total / self.kept())

    def shared_masses(self) -> tuple[arb, arb]:
        """What A and B have of the common support."""
        shared = self.common()
        if shared is None:
            return arb(0), arb(0)
        s = Fraction(self.sensitivity)
        moved = [None if end is None else end - s for end in shared]
        return self.mass(*shared) / self.kept(), self.mass(*moved) / self.kept()

    def as_finite(self) -> Finite | None:
        """The pair as outcomes, if its loss is constant on the common support."""
        shared = self.common()
        s = Fraction(self.sensitivity)
        if shared is None:
            return Finite(((Fraction(1), Fraction(0)), (Fraction(0), Fraction(1))))
        left, right = shared
        if self.kind != "Laplace" or not ((left is not None and left >= s) or (right is not None and right <= 0)):
            return None

        def outcomes() -> list[Outcome]:
            a, b = self.shared_masses()
            other_a = self.mass(self.ends[0], left) / self.kept()
            other_b = self.mirrored().mass(self.mirrored().ends[0], s - right) / self.kept()  # type: ignore[operator]
            return [(a, b), (other_a, arb(0)), (arb(0), other_b)]

        return Finite(None, outcomes)


class NoiseTruth(Truth):
    """One round of noise."""

    def __init__(self, noise: Noise) -> None:
        self.noise = noise

    def delta(self, epsilon: float, axis: int) -> arb:
        return (self.noise if axis == 0 else self.noise.mirrored()).delta_to_b(epsilon)


class RareOverlapTruth(Truth):
    """Several rounds of cut noise, enclosed: δ = 1 - Σ min(P_A, e^ε P_B) over what both have."""

    sharp = False

    def __init__(self, noise: Noise, rounds: int) -> None:
        self.noise, self.rounds = noise, rounds

    def delta(self, epsilon: float, axis: int) -> arb:
        noise = self.noise if axis == 0 else self.noise.mirrored()
        a, b = noise.shared_masses()
        shared = noise.common()
        if shared is None:
            return arb(1)
        left = shared[0]
        assert left is not None
        s, scale = Fraction(noise.sensitivity), Fraction(noise.scale)
        if noise.kind == "Laplace":
            highest = (s - 2 * min(max(left, Fraction(0)), s)) / scale
        else:
            highest = (s - 2 * left) * s / (2 * scale * scale)
        y = arb(epsilon).exp()
        most = (a**self.rounds).min(y * b**self.rounds)
        least = a**self.rounds * arb(1).min((arb(epsilon) - self.rounds * ball(highest)).exp())
        return (1 - most).union(1 - least)


class GaussianTruth(Truth):
    """Rounds of Gaussian noise that is not cut (Balle & Wang 2018, Theorem 8)."""

    def __init__(self, variance: Fraction) -> None:
        self.variance = variance

    def delta(self, epsilon: float, axis: int) -> arb:  # noqa: ARG002
        mu, e, root = ball(self.variance).sqrt(), arb(epsilon), arb(2).sqrt()
        first = ((e / mu - mu / 2) / root).erfc() / 2
        second = ((e / mu + mu / 2) / root).erfc() / 2
        return at_least_zero(first - e.exp() * second)


class SampledTruth(Truth):
    """One round of sampled Gaussian noise: A = (1-q) N(0, scale²) + q N(sensitivity, scale²), B = N(0, scale²)."""

    def __init__(self, scale: float, rate: float, sensitivity: float) -> None:
        self.scale, self.rate, self.sensitivity = (Fraction(value) for value in (scale, rate, sensitivity))

    def _above(self, x: arb, mean: Fraction) -> arb:
        return ((x - ball(mean)) / ball(self.scale) / arb(2).sqrt()).erfc() / 2

    def delta(self, epsilon: float, axis: int) -> arb:
        s, q, v = self.sensitivity, ball(self.rate), self.scale**2
        y = arb(epsilon).exp()
        if axis == 0:
            ratio = (y - 1 + q) / q
        else:
            # N(0) exceeds y times the mixture where 1 - q + q e^V < 1/y.
            ratio = (1 / y - 1 + q) / q
            if not ratio > 0:
                return arb(0) if ratio <= 0 else at_least_zero(arb(0, 1))
        x = ball(v / s) * ratio.log() + ball(s / 2)
        above_0, above_s = self._above(x, Fraction(0)), self._above(x, s)
        if axis == 0:
            return at_least_zero((1 - q) * above_0 + q * above_s - y * above_0)
        below_0, below_s = self._above(-x, Fraction(0)), self._above(-x, -s)
        return at_least_zero(below_0 - y * ((1 - q) * below_0 + q * below_s))


class SumTruth(Truth):
    """One round of the sum of two Laplace noises, B shifted by the sensitivity; in both directions, as it is even."""

    def __init__(self, scales: tuple[float, float], sensitivity: float) -> None:
        first, second = (Fraction(scale) for scale in scales)
        self.scales, self.s = (max(first, second), min(first, second)), Fraction(sensitivity)

    def _parts(self, x: Fraction, power: int) -> arb:
        """The density (power 1) or the survival function (power 2) at x >= 0."""
        (b1, b2), t = self.scales, ball(x / self.scales[0])
        if b1 == b2:
            return (power + t) * (-t).exp() / (4 * ball(b1) ** (2 - power))
        first, second = (ball(b**power) * (-ball(x / b)).exp() for b in (b1, b2))
        return (first - second) / ball(2 * (b1**2 - b2**2))

    def _below(self, x: Fraction) -> arb:
        return self._parts(-x, 2) if x <= 0 else 1 - self._parts(x, 2)

    def _exceeds(self, x: Fraction, epsilon: arb) -> bool | None:
        """Whether the loss at x is above ε; None where the bits do not tell."""
        difference = (self._parts(abs(x), 1) / self._parts(abs(x - self.s), 1)).log() - epsilon
        return True if difference > 0 else False if difference < 0 else None

    def delta(self, epsilon: float, axis: int) -> arb:  # noqa: ARG002
        b1, e = self.scales[0], arb(epsilon)
        if Fraction(epsilon) >= self.s / b1:
            return arb(0)
        low, high = -b1, self.s
        while not self._exceeds(low, e):
            low *= 2
        for _ in range(ctx.prec // 2):
            # The middle itself may be the place.
            places = [low + (high - low) * part for part in (Fraction(1, 2), Fraction(3, 8))]
            middle, told = next(
                ((place, told) for place in places if (told := self._exceeds(place, e)) is not None), (low, None)
            )
            if told is None:
                break
            low, high = (middle, high) if told else (low, middle)
        # The events below the place of ε; what lies between the ends adds at most its P_A mass.
        least = self._below(low) - e.exp() * self._below(low - self.s)
        return at_least_zero(least.union(least + self._below(high) - self._below(low)))
