"""Hostile counts: whole-numbered noise, some of it next to none at all, outcome by outcome."""

import math
from collections.abc import Callable
from fractions import Fraction

from flint import arb

from pbdist.mechanisms import DiscreteGaussian, Gaussian, Laplace, NoisyCount, Pair, Poisson
from pbdist.mechanisms.counts import READINGS
from tests.hostile.draw import Case, Draw, arguments, epsilons, losses_of
from tests.hostile.noise_truth import Noise
from tests.hostile.truth import Finite, FiniteTruth, Outcome, ball


def counts_case(draw: Draw, asked: int) -> Case | None:
    """One round of whole-numbered noise, some of it next to none at all."""
    kind = draw.integer(0, 3)
    shift = draw.one_of([1, 1, 2, 3, 20])
    pair: Pair
    if kind == 0:
        mean = draw.one_of([draw.uniform(0.1, 40.0), 10.0 ** draw.uniform(-29.0, 1.5), 1e-29])
        pair, masses = Poisson(mean, shift), poisson(mean, shift)
    elif kind == 1:
        scale = draw.one_of([draw.uniform(0.3, 8.0), 10.0 ** draw.uniform(-1.4, 0.5)])
        pair, masses = DiscreteGaussian(scale, shift), discrete_gaussian(scale, shift)
    else:
        name = draw.one_of(["Laplace", "Gaussian"])
        reading = draw.one_of(READINGS)
        mean = draw.one_of(
            [draw.uniform(0.0, 60.0), float(draw.integer(0, 60)), draw.stepped(float(draw.integer(1, 9)))]
        )
        scale = draw.one_of(
            [10.0 ** draw.uniform(-1.0, 1.0), mean / draw.uniform(1.0, 700.0) + 1e-3, 10.0 ** draw.uniform(-3.0, 0.0)]
        )
        pair = NoisyCount({"Laplace": Laplace, "Gaussian": Gaussian}[name](scale), mean, shift, reading)
        masses = noisy_count(Noise(name, scale, 1.0, None), mean, shift, reading)
    truth = FiniteTruth([(Finite(None, masses), 1)])
    return Case(pair, 1, epsilons(draw, losses_of(truth)[:40], asked), truth, arguments(draw))


def _beyond(limit: arb) -> list[Outcome]:
    """What is left out, anything up to a limit."""
    unknown = arb(0).union(limit)
    return [(unknown, arb(0)), (arb(0), unknown)]


def poisson(mean: float, shift: int) -> Callable[[], list[Outcome]]:
    last = 1500

    def outcomes() -> list[Outcome]:
        rate = arb(mean)
        masses = [(-rate).exp()]
        for k in range(1, last):
            masses.append(masses[-1] * rate / k)
        a, b = masses + [arb(0)] * shift, [arb(0)] * shift + masses
        return [*list(zip(a, b, strict=True))[:last], *_beyond(2 * masses[last - shift - 1])]

    return outcomes


def discrete_gaussian(scale: float, shift: int) -> Callable[[], list[Outcome]]:
    last = math.ceil(80.0 * scale) + 40

    def outcomes() -> list[Outcome]:
        variance = 2 * Fraction(scale) ** 2
        masses = [(-ball(k * k / variance)).exp() for k in range(last + shift + 1)]
        # What is beyond the last is less than it, more than 80 scales away.
        total = masses[0] + 2 * sum(masses[1:], arb(0)) + arb(0).union(masses[last])
        found = [(masses[abs(k)] / total, masses[abs(k - shift)] / total) for k in range(-last, last + 1)]
        return [*found, *_beyond(2 * masses[last - shift])]

    return outcomes


def noisy_count(noise: Noise, mean: float, shift: int, reading: str) -> Callable[[], list[Outcome]]:
    reach = 2.0 if noise.kind == "Laplace" else 80.0 * noise.scale + 2.0
    last = math.ceil(mean + reach) + shift
    centre = Fraction(mean)

    def outcomes() -> list[Outcome]:
        def between(low: int | None, high: int | None) -> arb:
            return noise.mass(None if low is None else low - centre, None if high is None else high - centre)

        if reading == "redraw-and-floor":
            kept = between(0, None)
            a = [between(k, k + 1) / kept for k in range(last)]
            tail_a, tail_b = between(last, None) / kept, between(last - shift, None) / kept
            b = [arb(0)] * shift + a[: last - shift]
        else:
            a = [between(None, 0), *(between(k - 1, k) for k in range(1, last))]
            tail_a, tail_b = between(last - 1, None), between(last - 1 - shift, None)
            b = [arb(0)] * shift + a[: last - shift]
            if reading == "shift-inside":
                b = [between(None, -shift), *(between(k - 1 - shift, k - shift) for k in range(1, last))]
        # Beyond the last count Laplace noise has one loss; of Gaussian noise next to nothing is there.
        found = list(zip(a, b, strict=True))
        return [*found, (tail_a, tail_b)] if noise.kind == "Laplace" else [*found, *_beyond(tail_a.max(tail_b))]

    return outcomes
