"""The tight engine against the exact truth: tens of thousands of random cases, compared in rational arithmetic."""

import math
import random
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath
import pytest

import pbdist
from pbdist.errors import PrecisionError, PrecisionWarning
from pbdist.mechanisms import ApproximateDP, Gaussian, Histogram, Laplace, NoisyCount, Pair, Product, RandomizedResponse
from pbdist.types import Direction
from tests.effort import EFFORT, SEED, times
from tests.oracles.truth import ProductTruth, assert_bracketed, at_most_one, brackets_log

#: What takes seconds is left to the longer runs.
FINEST = (1e-3, 1e-4, 1e-5, 1e-6) if EFFORT > 1.0 else ()
#: Irrational masses are taken as whole units of this.
UNIT = 1 << 900


@dataclass(frozen=True)
class Known:
    """A mechanism with its outcomes in integers.

    Attributes
    ----------
    outcomes : tuple of (int, int)
        P_A and P_B masses, in units that sum to `totals`.
    slack : Fraction
        What these may miss of the true masses, in the 1-norm of both.
    """

    pair: Pair
    outcomes: tuple[tuple[int, int], ...]
    totals: tuple[int, int]
    slack: Fraction = Fraction(0)


def wide_or_not(mechanism: Any, **arguments: Any) -> Any:
    """Bounds, which hold whether a tolerance is met or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        return pbdist.privacy_bounds(mechanism, **arguments)


def counts(p: Iterable[int], q: Iterable[int]) -> Known:
    p, q = tuple(p), tuple(q)
    merged = tuple((a, b) for a, b in zip(p, q, strict=True) if a or b)
    return Known(Histogram(p, q), merged, (sum(p), sum(q)))


def probabilities(p: list[float], q: list[float]) -> Known:
    """A histogram of floats is the measure of exactly those masses."""
    unit = max(Fraction(x).denominator for x in (*p, *q))
    masses = tuple((int(Fraction(a) * unit), int(Fraction(b) * unit)) for a, b in zip(p, q, strict=True) if a or b)
    return Known(Histogram(p, q), masses, (unit, unit))


def response(p: float) -> Known:
    truth = Fraction(p)
    unit, part = truth.denominator, truth.numerator
    return Known(RandomizedResponse(p), ((part, unit - part), (unit - part, part)), (unit, unit))


def revealing(epsilon: float, delta: float) -> Known:
    with mpmath.workdps(250):
        small = mpmath.exp(-mpmath.mpf(epsilon))
        rest = (1 - mpmath.mpf(delta)) / (1 + small) * UNIT
        likely, other, only = int(rest), int(rest * small), int(mpmath.mpf(delta) * UNIT)
    masses = ((likely, other), (other, likely), (only, 0), (0, only))
    return Known(ApproximateDP(epsilon, delta), masses, (UNIT, UNIT), Fraction(8, UNIT))


def noisy_count(scale: float, mean: int, shift: int, reading: str) -> Known:
    """A count under whole-numbered Laplace noise: from mean + shift + 1 on all outcomes have one ratio."""
    with mpmath.workdps(250):

        def below(x: float) -> mpmath.mpf:
            t = (mpmath.mpf(x) - mean) / mpmath.mpf(scale)
            return mpmath.exp(t) / 2 if t <= 0 else 1 - mpmath.exp(-t) / 2

        last = mean + shift + 2
        if reading == "clamp-and-ceil":
            noise = [below(0), *(below(n) - below(n - 1) for n in range(1, last)), 1 - below(last - 1)]
            shifted_tail = 1 - below(last - shift - 1)
        else:
            kept = 1 - below(0)
            noise = [*((below(n + 1) - below(n)) / kept for n in range(last)), (1 - below(last)) / kept]
            shifted_tail = (1 - below(last - shift)) / kept
        other = [mpmath.mpf(0)] * shift + noise[: last - shift] + [shifted_tail]
        masses = tuple((int(a * UNIT), int(b * UNIT)) for a, b in zip(noise, other, strict=True))
    pair = NoisyCount(Laplace(scale), float(mean), shift, reading)
    return Known(pair, masses, (UNIT, UNIT), Fraction(4 * (last + 1), UNIT))


# -- what is drawn ---------------------------------------------------------------------------------------------


def wild(draw: random.Random, outcomes: int) -> Known:
    kind = draw.choice(["small", "tame", "large", "huge"])
    most = {"small": 6, "tame": 1000, "large": 10**9, "huge": 10**18}[kind]

    def side() -> list[int]:
        while True:
            drawn = [0 if draw.random() < 0.15 else draw.randint(1, most) for _ in range(outcomes)]
            if any(drawn) and sum(drawn) > 1:
                return drawn

    if kind == "tame":
        p = [draw.randint(800, 1000) for _ in range(outcomes)]
        return counts(p, [max(1, x + draw.randint(-60, 60)) for x in p])
    return counts(side(), side())


def powers_of_two(draw: random.Random, outcomes: int) -> Known:
    """Losses that are multiples of ln 2, some masses extremely small."""
    steepest = draw.choice([2, 5, 20, 80])

    def side() -> list[int]:
        drawn = [2 ** draw.randint(0, steepest) for _ in range(outcomes - 1)]
        total = 2 ** (max(x.bit_length() for x in drawn) + 1)
        return [*drawn, total - sum(drawn)] if sum(drawn) < total else [*drawn, total]

    return counts(side(), side())


def lattice(draw: random.Random, outcomes: int) -> Known:
    """Losses i ln f and -j ln f, for a rational f, and perhaps 0 and infinity."""
    f = draw.choice([Fraction(2), Fraction(3, 2), Fraction(5, 4), Fraction(11, 10), Fraction(101, 100)])
    i, j = draw.randint(1, 4), draw.randint(1, 4)
    q = (1 - f**-j) / (f**i - f**-j)
    masses = [(q * f**i, q), ((1 - q) * f**-j, 1 - q)]
    if outcomes > 2 and draw.random() < 0.5:
        masses.append((Fraction(draw.randint(1, 3)), Fraction(0)))
        masses.append((Fraction(0), masses[-1][0]))
    elif outcomes > 2:
        masses.append((Fraction(draw.randint(1, 3)),) * 2)
    units = [math.lcm(*(m[side].denominator for m in masses)) for side in (0, 1)]
    return counts([int(m[0] * units[0]) for m in masses], [int(m[1] * units[1]) for m in masses])


def floats(draw: random.Random, outcomes: int) -> Known:
    tiny = draw.choice([1e-3, 1e-12, 1e-100, 1e-290])

    def side() -> list[float]:
        drawn = [draw.choice([0.0, tiny, draw.random(), draw.random()]) for _ in range(outcomes - 1)]
        drawn = [x / outcomes for x in drawn]
        return [*drawn, 1.0 - sum(drawn)]

    return probabilities(side(), side())


def narrow(draw: random.Random, outcomes: int) -> Known:
    """Losses next to 0, far inside one cell of a coarse grid."""
    spread = 10 ** draw.randint(2, 12)
    p = [spread + draw.randint(-9, 9) for _ in range(outcomes)]
    return counts(p, [x + draw.randint(-9, 9) for x in p])


def known(draw: random.Random, outcomes: int) -> Known:
    family = draw.random()
    if outcomes > 2 and family < 0.12:
        return revealing(draw.choice([0.0, 0.1, 0.5, 1.0, 3.0, 30.0]), draw.choice([0.0, 1e-9, 1e-5, 0.1]))
    if outcomes > 2 and family < 0.24:
        mean, shift = draw.choice([(0, 1), (1, 1), (0, 2), (1, 2), (2, 1)])
        return noisy_count(
            draw.choice([0.1, 0.5, 1.0, 2.0]), mean, shift, draw.choice(["clamp-and-ceil", "redraw-and-floor"])
        )
    if outcomes == 2 and family < 0.3:
        return response(
            draw.choice([0.5, 0.50390625, 0.75, 0.625, 1 - 2.0**-20, 2.0**-30, 0.0, draw.randint(1, 999) / 1024])
        )
    return draw.choice([wild, wild, powers_of_two, lattice, floats, narrow])(draw, outcomes)


def most_rounds(draw: random.Random, pairs: list[tuple[Known, int]]) -> int:
    """So many rounds that the outcomes of all compositions remain a few thousand, of a few megabytes."""
    limit = draw.choice([20, 100, 400, 1500])
    bits = max(max(known.totals).bit_length() for known, _ in pairs)
    r = 1
    while r < 4096:
        size = math.prod(
            math.comb(2 * r * count + len(known.outcomes) - 1, len(known.outcomes) - 1) for known, count in pairs
        )
        if size > limit or size * bits * r > 3e7:
            break
        r *= 2
    return r


def settings(draw: random.Random) -> dict[str, Any]:
    kind = draw.random()
    if kind < 0.4:
        return {"tolerance": draw.choice([1e-1, 1e-2, *FINEST])} if kind > 0.01 else {}
    if kind < 0.7:
        return {
            "factor": draw.choice(
                [1.0001, 1.001, 1.01, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 1e3, 1e50, 1 + 3 * draw.random()]
            )
        }
    return {"buckets": 4 * draw.choice([1, 2, 5, 16, 25, 64, 250, 1024])}


def losses_to_ask(draw: random.Random, truth: ProductTruth, number: int) -> list[float]:
    """0, sums of losses as floats and next to them, values between and beyond, and large ones."""
    finite = [loss for loss in truth.losses if loss > 0.0] or [1.0]
    largest = max(finite)
    chosen = [0.0]
    for _ in range(number):
        loss = draw.choice(finite)
        other = [loss, math.nextafter(loss, 0.0), math.nextafter(loss, 1e9), draw.random() * largest, largest]
        chosen.append(
            draw.choice([*other, largest * draw.random() ** 3, 1.001 * largest, draw.choice([1e-12, 5.0, 60.0, 800.0])])
        )
    return sorted({abs(value) for value in chosen})


def check(draw: random.Random) -> tuple[int, list[str]]:
    """Draw one setting; return how many bounds were compared, and what was wrong."""
    pairs = [(known(draw, draw.choice([2, 2, 3, 4])), 1) for _ in range(draw.choice([1, 1, 1, 2, 2, 3]))]
    if len(pairs) > 1 or draw.random() < 0.2:
        pairs = [(pair, draw.choice([1, 1, 2, 3])) for pair, _ in pairs]
    most = most_rounds(draw, pairs)
    rounds = sorted({1, most, draw.randint(1, most)})
    truths = {
        r: ProductTruth(
            [(item.outcomes, count * r) for item, count in pairs],
            [item.totals for item, _ in pairs],
            sum((2 * item.slack * count * r for item, count in pairs), Fraction(0)),
        )
        for r in rounds
    }
    epsilon = losses_to_ask(draw, truths[draw.choice(rounds)], 12)
    mechanism: Any = [(item.pair, count) for item, count in pairs]
    if all(count == 1 for _, count in pairs):
        mechanism = Product(*(item.pair for item, _ in pairs)) if len(pairs) > 1 else pairs[0][0].pair
    arguments = settings(draw)
    what = f"privacy_bounds({mechanism!r}, compositions={rounds}, epsilon={epsilon}, {arguments})"
    try:
        bounds = wide_or_not(mechanism, compositions=rounds, epsilon=epsilon, direction="each", **arguments)
    except PrecisionError as error:
        return 0, [f"{what}: {error}"]
    except pbdist.InvalidInputError as error:
        # Only the masses of floats that fall short of 1 by too much, and grids that are far too fine, are refused.
        return (0, []) if "buckets" in str(error) else (0, [f"{what}: {error}"])
    values = [bounds[name].values for name in ("delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper")]
    wrong: list[str] = []
    for axis, direction in enumerate(Direction):
        for row, r in enumerate(rounds):
            for column, asked in enumerate(epsilon):
                lower, upper, log_lower, log_upper = (float(value[axis, row, column]) for value in values)
                enclosure = at_most_one(truths[r].at(asked, direction))
                if enclosure[0] == 0 and truths[r].slack > 0:
                    continue  # The truth itself is not known there.
                try:
                    assert_bracketed(lower, upper, enclosure, asked, "")
                    good = brackets_log(log_lower, log_upper, enclosure)
                except AssertionError:
                    good = False
                if not good:
                    wrong.append(
                        f"{what}: {direction.value} r={r} ε={asked!r}: δ {lower!r} .. {upper!r}, ln δ {log_lower!r} .."
                        f" {log_upper!r}, truth {float(enclosure[0])!r}"
                    )
    return 2 * len(rounds) * len(epsilon), wrong


def compare(
    one: Callable[[random.Random], tuple[int, list[str]]], name: str, cases: int, note: Callable[[str, object], None]
) -> None:
    """Draw settings until so many bounds are compared; none of them may be wrong."""
    draw = random.Random(f"{SEED} {name}")  # noqa: S311
    compared = 0
    wrong: list[str] = []
    while compared < cases:
        number, found = one(draw)
        compared += number
        wrong += found
    note("cases", compared)
    assert not wrong, f"{len(wrong)} of {compared}:\n" + "\n".join(wrong[:5])


def test_a_few_random_compositions_are_bracketed(record_property: Callable[[str, object], None]) -> None:
    compare(check, "few", 300, record_property)


@pytest.mark.ci
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(4))
def test_random_compositions_are_bracketed(part: int, record_property: Callable[[str, object], None]) -> None:
    compare(check, str(part), times(5500), record_property)


# -- Gaussian noise, whose δ is known in closed form however often it is composed ----------------------------------


def log_gaussian_delta(variance: mpmath.mpf, epsilon: float) -> mpmath.mpf:
    """ln δ for pairs whose losses have that variance together (Balle & Wang 2018, Theorem 8)."""
    mu, loss = mpmath.sqrt(variance), mpmath.mpf(epsilon)
    return mpmath.log(mpmath.ncdf(mu / 2 - loss / mu) - mpmath.exp(loss + mpmath.log(mpmath.ncdf(-mu / 2 - loss / mu))))


def check_gaussians(draw: random.Random) -> tuple[int, list[str]]:
    """Draw a sequence of Gaussians; return how many bounds were compared, and what was wrong."""
    widest = 10 ** draw.uniform(-1.5, 3.0)
    pairs = [
        (Gaussian(widest * draw.uniform(1.0, 3.0)), draw.choice([1, 1, 2, 5])) for _ in range(draw.choice([1, 1, 2, 6]))
    ]
    rounds = [draw.choice([1, draw.randint(1, 100), int(10 ** draw.uniform(0.0, 4.5))])]
    with mpmath.workdps(60):
        variance = mpmath.fsum(count / mpmath.mpf(pair.scale) ** 2 for pair, count in pairs)
        top = float(rounds[-1] * variance / 2), float(mpmath.sqrt(rounds[-1] * variance))
        chosen = [0.0, *(max(0.0, top[0] + top[1] * draw.choice([-3.0, 0.0, 2.0, 8.0, 20.0, 60.0])) for _ in range(3))]
        epsilon = sorted({value * draw.uniform(0.5, 1.0) for value in chosen})
        arguments = settings(draw)
        what = f"{pairs!r}, compositions={rounds}, epsilon={epsilon}, {arguments}"
        try:
            bounds = wide_or_not(pairs, compositions=rounds, epsilon=epsilon, **arguments)
        except (PrecisionError, pbdist.InvalidInputError) as error:
            return (0, []) if "buckets" in str(error) else (0, [f"{what}: {error}"])
        wrong = []
        for row, r in enumerate(rounds):
            for column, asked in enumerate(epsilon):
                truth = log_gaussian_delta(r * variance, asked)
                low, high = (float(bounds[name][row, column]) for name in ("log_delta_lower", "log_delta_upper"))
                if not (low == -math.inf or mpmath.mpf(low) <= truth) or not mpmath.mpf(high) >= truth:
                    wrong.append(f"{what}: r={r} ε={asked!r}: ln δ {low!r} .. {high!r}, truth {mpmath.nstr(truth, 17)}")
    return len(rounds) * len(epsilon), wrong


def test_a_few_random_gaussians_are_bracketed(record_property: Callable[[str, object], None]) -> None:
    compare(check_gaussians, "few gaussians", 40, record_property)


def test_random_gaussians_are_bracketed(record_property: Callable[[str, object], None]) -> None:
    compare(check_gaussians, "gaussians", times(400), record_property)
