"""Hostile noise: truncations that leave slivers, supports that touch, scales far from sensitivities."""

import math
from fractions import Fraction

from flint import arb

from pbdist.mechanisms import Gaussian, Laplace, LaplaceSum, Pair, Reversed, SubsampledGaussian
from tests.hostile.draw import Case, Draw, arguments, epsilons
from tests.hostile.noise_truth import GaussianTruth, Noise, NoiseTruth, RareOverlapTruth, SampledTruth, SumTruth
from tests.hostile.truth import Truth


def size_of(draw: Draw) -> float:
    """A sensitivity or an end of a truncation."""
    kind = draw.integer(0, 7)
    if kind == 0:
        return 1.0
    if kind == 1:
        return 2.0 ** draw.integer(-3, 12) + 2.0 ** -draw.integer(36, 44)
    if kind == 2:
        return draw.stepped(2.0 ** draw.integer(-10, 12))
    if kind == 3:
        return draw.uniform(0.1, 1.0) * 2.0 ** -draw.integer(40, 60)
    if kind == 4:
        return float(draw.integer(1, 10))
    return 10.0 ** draw.uniform(-3.0, 3.0)


def truncation(draw: Draw, s: float) -> tuple[float, float]:
    kind = draw.one_of(["sliver", "sliver", "sliver", "tiny low", "symmetric", "atoms", "wide", "touch", "overlap"])
    sign = -1.0 if draw.chance(0.7) else 1.0
    if kind == "tiny low":
        low = sign * draw.uniform(0.0, 1.0) * math.ulp(s) * draw.one_of([0.5, 1.0, 2.0, 1e-3, 0.25])
        high = draw.stepped(s + low)
    elif kind == "symmetric":
        high = draw.one_of([draw.stepped(s / 2.0), s / 2.0 * (1.0 + 10.0 ** draw.uniform(-16.0, 1.0))])
        low = -high
    elif kind == "atoms":
        low = draw.one_of([0.0, size_of(draw)])
        high = draw.one_of([draw.stepped(s + low), low + s * 10.0 ** draw.uniform(-3.0, 2.0)])
    elif kind == "wide":
        low, high = -s * 10.0 ** draw.uniform(-2.0, 2.0), s * 10.0 ** draw.uniform(-2.0, 2.0)
    elif kind == "touch":
        low = sign * size_of(draw)
        high = s + low
    elif kind == "overlap":
        low = sign * size_of(draw)
        high = (s + low) * (1.0 + 10.0 ** draw.uniform(-16.0, -1.0))
    else:
        low = sign * size_of(draw) * draw.one_of([1.0, 1.0, 2.0**-43, 2.0**20])
        high = draw.stepped(s + low)
    if draw.chance(0.5):
        low, high = -high, -low
    return (low, high) if low < high else (low, math.nextafter(low, math.inf))


def noise(draw: Draw) -> tuple[Pair, Noise] | None:
    """Noise with its description; None for what keeps too little to be drawn."""
    kind = draw.one_of([Laplace, Gaussian])
    s = size_of(draw)
    cut = truncation(draw, s) if draw.chance(0.8) else None
    reach = s if cut is None else max(abs(cut[0]), abs(cut[1]), s)
    scale = reach * 10.0 ** draw.uniform(-1.5, 2.5)
    if draw.chance(0.1):
        scale = draw.one_of([1e-3, 1e3, 1e-16, 1e-10, 1e10, 1e29, 1.0])
    if not 1e-29 < scale < 1e29 or not 1e-29 < s < 1e29 or reach > 1e29:
        return None
    described = Noise(kind.__name__, scale, s, cut)
    if cut is not None and not described.kept() > arb(1.001e-10):
        return None
    return kind(scale, s, cut), described


def losses_of_noise(described: Noise) -> list[float]:
    s, scale = described.sensitivity, described.scale
    largest = s / scale if described.kind == "Laplace" else 0.5 * (s / scale) ** 2
    found = [largest, largest / 2.0]
    for one in (described, described.mirrored()):
        shared = one.common()
        if shared is not None and shared[0] is not None:
            left = float(shared[0])
            found.append((s - 2.0 * left) / scale * (1.0 if described.kind == "Laplace" else s / (2.0 * scale)))
    return [abs(loss) for loss in found if math.isfinite(loss)]


def noise_case(draw: Draw, asked: int) -> Case | None:
    """Noise, cut in hostile places or not at all."""
    drawn = noise(draw)
    if drawn is None:
        return None
    pair, described = drawn
    rounds = 1
    truth: Truth = NoiseTruth(described)
    if described.truncate is None and described.kind == "Gaussian":
        return gaussian_case(draw, pair, described, asked)
    if described.truncate is not None and draw.chance(0.2):
        rounds = draw.one_of([2, 3, 7])
        truth = RareOverlapTruth(described, rounds)
    losses = losses_of_noise(described)
    if draw.chance(0.2):
        pair = Reversed(pair)  # type: ignore[arg-type]
        truth = Exchanged(truth)
    return Case(pair, rounds, epsilons(draw, losses, asked), truth, arguments(draw))


def gaussian_case(draw: Draw, pair: Pair, described: Noise, asked: int) -> Case:
    """Rounds of one Gaussian noise that is not cut, or of several of different scales."""
    rounds, s = draw.one_of([1, 1, 2, 5, 64, draw.integer(1, 10**5), 10**6]), described.sensitivity
    scales = [described.scale * draw.uniform(1.0, 3.0) for _ in range(draw.one_of([0, 0, 1, 5]))]
    others = [(Gaussian(scale, s), draw.one_of([1, 1, 2, 5])) for scale in scales]
    variance = (Fraction(s) / Fraction(described.scale)) ** 2
    variance += sum(count * (Fraction(s) / Fraction(other.scale)) ** 2 for other, count in others)
    mean, deviation = float(rounds * variance / 2), math.sqrt(rounds * variance)
    losses = [max(0.0, mean + deviation * step) for step in (-3.0, 0.0, 2.0, 8.0, 20.0, 60.0)]
    mechanism = [(pair, 1), *others] if others else pair
    return Case(mechanism, rounds, epsilons(draw, losses, asked), GaussianTruth(rounds * variance), arguments(draw))


class Exchanged(Truth):
    """A truth with its directions exchanged."""

    def __init__(self, truth: Truth) -> None:
        self.truth, self.sharp = truth, truth.sharp

    def delta(self, epsilon: float, axis: int) -> arb:
        return self.truth.delta(epsilon, 1 - axis)


def sampled_case(draw: Draw, asked: int) -> Case | None:
    """One round of sampled Gaussian noise."""
    scale = draw.one_of([10.0 ** draw.uniform(-1.0, 1.5), 10.0 ** draw.uniform(-3.0, 3.0)])
    s = draw.one_of([1.0, size_of(draw)])
    rate = draw.one_of([1.0, 10.0 ** draw.uniform(-9.0, 0.0), draw.uniform(0.0, 1.0), 1.0 - 2.0**-53, draw.faint()])
    if not 1e-4 < s / scale < 40.0:
        return None
    rate = min(rate, 1.0)
    losses = [0.01, abs(math.log1p(-rate)) if rate < 1.0 else 1.0, rate, (s / scale) ** 2]
    return Case(
        SubsampledGaussian(scale, rate, s),
        1,
        epsilons(draw, losses, asked),
        SampledTruth(scale, rate, s),
        arguments(draw),
    )


def sum_case(draw: Draw, asked: int) -> Case | None:
    """One round of the sum of two Laplace noises: scales next to each other, far apart, or as they come."""
    first = draw.one_of([1.0, size_of(draw)])
    apart = [1.0, draw.uniform(0.0, 1.0), 10.0 ** draw.uniform(-12.0, 0.0), 1.0 - 10.0 ** draw.uniform(-16.0, -1.0)]
    second, s = draw.stepped(first * draw.one_of(apart), 2), draw.one_of([1.0, size_of(draw)])
    if not (second > 1e-29 and 1e-5 < s / max(first, second) < 40.0):
        return None
    largest, inner = s / max(first, second), s * s / (first + second) ** 2
    scales = (first, second) if draw.chance(0.5) else (second, first)
    losses = [largest, draw.uniform(0.0, largest), inner]
    return Case(LaplaceSum(scales, s), 1, epsilons(draw, losses, asked), SumTruth(scales, s), arguments(draw))
