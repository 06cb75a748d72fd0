"""Hostile finite pairs: histograms of faint masses, alone, in sequences, reversed, and composed very often."""

import math
from collections.abc import Callable
from fractions import Fraction
from math import comb
from typing import Any

from flint import arb

from pbdist.mechanisms import (
    ApproximateDP,
    DiscreteLaplace,
    Histogram,
    Laplace,
    NoisyCount,
    Pair,
    Product,
    RandomizedResponse,
    Reversed,
    Staircase,
)
from pbdist.mechanisms.counts import READINGS
from tests.hostile.counts import noisy_count as counted
from tests.hostile.draw import Case, Draw, arguments, epsilons, losses_of
from tests.hostile.noise import noise
from tests.hostile.noise_truth import Noise
from tests.hostile.truth import Finite, FiniteTruth, Outcome, Truth, TwoOutcomesTruth, ball

#: Ways in which outcomes may occur, at most.
MAX_WAYS = 400


def side(draw: Draw, size: int) -> list[float]:
    """Floats that sum to 1 but for rounding, most of them faint."""
    masses = [draw.faint() * 0.4 for _ in range(size)]
    masses = [0.0 if draw.chance(0.08) else mass for mass in masses]
    return filled(draw, masses)


def filled(draw: Draw, masses: list[float]) -> list[float]:
    """The same with the rest of 1 at one place or two."""
    size = len(masses)
    places = [draw.integer(0, size - 1) for _ in range(draw.integer(1, 2))]
    others = math.fsum(mass for place, mass in enumerate(masses) if place not in places)
    while others >= 1.0:
        masses = [mass * 0.25 for mass in masses]
        others *= 0.25
    left = 1.0 - others
    if draw.chance(0.05):
        left *= 1.0 + draw.uniform(-9e-10, 9e-10)
    if len(set(places)) == 2:
        share = draw.uniform(0.0, 1.0)
        masses[places[0]], masses[places[1]] = left * share, left * (1.0 - share)
    else:
        masses[places[0]] = left
    return masses


def beside(draw: Draw, size: int) -> tuple[list[int], list[int]]:
    """Losses next to 0, many of them inside one cell of a coarse grid."""
    most = 10 ** draw.integer(2, 12)
    step = draw.one_of([9, most // 16])
    p = [most + draw.integer(-9, 9) for _ in range(size)]
    return p, [count + draw.integer(-step, step) for count in p]


def lattice(draw: Draw, size: int) -> tuple[list[int], list[int]]:
    """Losses i ln f and -j ln f, for a rational f, and perhaps 0 or infinity."""
    f = draw.one_of([Fraction(2), Fraction(3, 2), Fraction(5, 4), Fraction(11, 10), Fraction(101, 100)])
    up, down = f ** draw.integer(1, 4), f ** -draw.integer(1, 4)
    q = (1 - down) / (up - down)
    masses = [(q * up, q), ((1 - q) * down, 1 - q)]
    more = Fraction(draw.integer(1, 3))
    if size > 2:
        masses += [(more, more)] if draw.chance(0.5) else [(more, Fraction(0)), (Fraction(0), more)]
    unit = math.lcm(*(mass.denominator for outcome in masses for mass in outcome))
    return [int(a * unit) for a, _ in masses], [int(b * unit) for _, b in masses]


def powers_of_two(draw: Draw, size: int) -> tuple[list[int], list[int]]:
    """Most losses are multiples of ln 2, and some masses may be extremely small."""
    steepest = draw.one_of([2, 5, 20, 80])
    p, q = ([2 ** draw.integer(0, steepest) for _ in range(max(size - 1, 1))] for _ in "pq")
    return [*p, 8 * max(p) - sum(p)], [*q, 8 * max(q) - sum(q)]


COUNTED = {"beside": beside, "lattice": lattice, "powers of two": powers_of_two}


def histogram_sides(draw: Draw, size: int) -> tuple[list[Any], list[Any]]:
    kind = draw.one_of(
        [
            "faint",
            "faint",
            "faint",
            "one side",
            "permuted",
            "equal",
            "nearly",
            "edges",
            "counts",
            *COUNTED,
            "huge",
            "vast",
            "plain",
            "tilted",
        ]
    )
    p = side(draw, size)
    if kind == "faint":
        return p, side(draw, size)
    if kind == "one side":
        plain = [draw.uniform(0.05, 1.0) for _ in range(size)]
        q = [x / math.fsum(plain) for x in plain]
        return (p, q) if draw.chance(0.5) else (q, p)
    if kind == "permuted":
        q = list(p)
        draw.rng.shuffle(q)
        return p, q
    if kind == "equal":
        return p, list(p)
    if kind == "nearly":
        if draw.chance(0.5):
            plain = [draw.uniform(0.05, 1.0) for _ in range(size)]
            p = [x / math.fsum(plain) for x in plain]
        return p, [abs(draw.stepped(x, 3)) if x > 0.0 and draw.chance(0.7) else x for x in p]
    if kind == "edges":
        h = draw.one_of([0.1, 1.0, math.log(2.0), 0.001, 20.0, 700.0 / 16])
        q = side(draw, size)
        p = [min(x * math.exp(h * draw.integer(-8, 8)), 0.9 / size) for x in q]
        return filled(draw, p), q
    if kind == "vast":
        # Counts of up to a hundred thousand digits, some next to nothing beside the others.
        whole = draw.integer(1, 99) * 10 ** int(10.0 ** draw.uniform(2.6, 5.0))
        shares = [
            [whole * draw.integer(1, 10**6) // 10 ** draw.one_of([0, 0, draw.integer(0, 390)]) for _ in p] for _ in "pq"
        ]
        return shares[0], shares[1]
    if kind in COUNTED:
        return COUNTED[kind](draw, size)
    if kind in ("counts", "huge"):
        most = draw.one_of([2, 10, 10**6, 10**18] if kind == "counts" else [10**40, 10**310])
        sides = []
        for _ in range(2):
            counts = [
                0 if draw.chance(0.15) else 1 + int(draw.uniform(0.0, 1.0) ** 4 * 2.0**53) * most // 2**53
                for _ in range(size)
            ]
            counts[draw.integer(0, size - 1)] += 2
            sides.append(counts)
        return sides[0], sides[1]
    plain = [draw.uniform(0.05, 1.0) for _ in range(size)]
    p = [x / math.fsum(plain) for x in plain]
    if kind == "plain":
        other = [draw.uniform(0.05, 1.0) for _ in range(size)]
        return p, [x / math.fsum(other) for x in other]
    steps = 10.0 ** draw.uniform(-12.0, 0.0)
    tilted = [x * math.exp(steps * draw.uniform(-1.0, 1.0)) for x in p]
    return p, [x / math.fsum(tilted) for x in tilted]


def histogram(draw: Draw, size: int | None = None) -> tuple[Histogram, Finite] | None:
    """A histogram and its masses as fractions; None where rounding left what is refused by its documentation."""
    chosen = draw.one_of([1, 2, 2, 2, 3, 3, 3, 4, 5]) if size is None else size
    p, q = histogram_sides(draw, chosen)
    if any(isinstance(x, float) for x in p + q) and any(
        abs(math.fsum(masses) - 1.0) > 9.9e-10 for masses in (p, q) if isinstance(masses[0], float)
    ):
        return None
    pair = Histogram(p, q)
    exact = []
    for given in (pair.p, pair.q):
        total = sum(given) if isinstance(given[0], int) else 1
        exact.append([Fraction(x) / total for x in given])
    return pair, Finite(tuple((a, b) for a, b in zip(*exact, strict=True) if a or b))


def response(draw: Draw) -> tuple[RandomizedResponse, Finite]:
    p = draw.one_of([draw.faint(), draw.uniform(0.0, 1.0), 0.5, draw.stepped(0.5), 1.0 - 2.0**-53, 0.0, 1.0])
    p = min(p, 1.0)
    truth = Fraction(p)
    return RandomizedResponse(p), Finite(((truth, 1 - truth), (1 - truth, truth)))


def revealing(draw: Draw) -> tuple[ApproximateDP, Finite]:
    epsilon = draw.one_of([0.0, draw.uniform(0.0, 3.0), 10.0 ** draw.uniform(-300.0, 3.0), 600.0, 709.0, 745.2, 1e4])
    delta = draw.one_of([0.0, draw.faint(), 1.0, 1e-10, draw.uniform(0.0, 1.0)])
    delta = min(delta, 1.0)

    def outcomes() -> list[Outcome]:
        small = (-arb(epsilon)).exp()
        rest = (1 - arb(delta)) / (1 + small)
        masses = [(rest, rest * small), (rest * small, rest)]
        if delta < 1.0 and epsilon == 0.0:
            masses = [(1 - arb(delta), 1 - arb(delta))]
        elif delta == 1.0:
            masses = []
        return [*masses, (arb(delta), arb(0)), (arb(0), arb(delta))] if delta > 0.0 else masses

    return ApproximateDP(epsilon, delta), Finite(None, outcomes)


def discrete_laplace(draw: Draw) -> tuple[DiscreteLaplace, Finite]:
    scale = draw.one_of([10.0 ** draw.uniform(-2.5, 3.0), 0.0015, 1.0 / 690.0])
    shift = draw.integer(1, 3)

    def outcomes() -> list[Outcome]:
        p = (-ball(1 / Fraction(scale))).exp()
        whole = (1 - p) / (1 + p)
        middle = [(whole * p**k, whole * p ** (shift - k)) for k in range(1, shift)]
        ends = 1 / (1 + p)
        return [(ends, ends * p**shift), *middle, (ends * p**shift, ends)]

    return DiscreteLaplace(scale, shift), Finite(None, outcomes)


def staircase(draw: Draw) -> tuple[Staircase, Finite]:
    epsilon = draw.one_of([draw.uniform(0.0, 3.0), 10.0 ** draw.uniform(-29.0, 2.6), 499.0])
    split = draw.one_of([None, 0.5, draw.stepped(0.5), draw.uniform(0.0, 1.0), 10.0 ** draw.uniform(-300.0, -1.0)])
    pair = Staircase(epsilon, split=None if split in (0.0, 1.0) else split)

    def outcomes() -> list[Outcome]:
        g, q = ball(Fraction(pair.split)), (-ball(Fraction(pair.epsilon))).exp()
        steps = 2 * (g + q * (1 - g))
        if pair.split <= 0.5:
            above, level = (2 * g * (1 - q) + q) / steps, (1 - 2 * g) * q * (1 - q) / steps
        else:
            above, level = 1 / steps, (2 * g - 1) * (1 - q) / steps
        ends = [(above, above * q), (above * q, above)]
        return ends if pair.split == 0.5 else [*ends, (level, level)]

    return pair, Finite(None, outcomes)


def noisy_count(draw: Draw) -> tuple[NoisyCount, Finite]:
    """Under Laplace noise all counts from mean + shift + 1 on have one loss."""
    mean, shift = draw.one_of([(0, 1), (1, 1), (0, 2), (1, 2), (2, 1)])
    scale, reading = draw.one_of([0.1, 0.5, 1.0, 2.0]), draw.one_of(READINGS)
    outcomes = counted(Noise("Laplace", scale, 1.0, None), mean, shift, reading)
    return NoisyCount(Laplace(scale), mean, shift, reading), Finite(None, outcomes)


def finite_factor(draw: Draw) -> tuple[Pair, Finite] | None:
    kind = draw.integer(0, 13)
    if kind < 8:
        return histogram(draw)
    if kind < 9:
        return response(draw)
    if kind < 10:
        return revealing(draw)
    if kind < 11:
        return discrete_laplace(draw)
    if kind < 12:
        return staircase(draw)
    if kind < 13:
        return noisy_count(draw)
    drawn = noise(draw)
    if drawn is None:
        return None
    finite = drawn[1].as_finite()
    return None if finite is None else (drawn[0], finite)


def ways(size: int, count: int) -> int:
    return comb(count + max(size, 1) - 1, max(size, 1) - 1)


def finite_case(draw: Draw, asked: int) -> Case | None:
    """Finite pairs: alone, in sequences, products and reversed."""
    number = draw.one_of([1, 1, 1, 2, 2, 3])
    factors: list[tuple[Pair, Finite, int]] = []
    for _ in range(number):
        drawn = finite_factor(draw)
        if drawn is None:
            return None
        pair, finite = drawn
        if draw.chance(0.15):
            before = finite
            if before.exact is not None:
                finite = Finite(tuple((b, a) for a, b in before.exact))
            else:
                finite = Finite(None, _exchanged(before))
            pair = Reversed(pair)  # type: ignore[arg-type]
        factors.append((pair, finite, draw.one_of([1, 1, 2, 3]) if number > 1 else 1))
    rounds = draw.one_of([1, 1, 2, 3, 5, 7, 12, 40, 300])

    def many(r: int) -> int:
        return math.prod(ways(finite.size, count * r) for _, finite, count in factors)

    while rounds > 1 and many(rounds) > MAX_WAYS:
        rounds //= 2
    if many(rounds) > 2 * MAX_WAYS:
        return None
    truth = FiniteTruth([(finite, count * rounds) for _, finite, count in factors])
    mechanism: Any = [(pair, count) for pair, _, count in factors]
    if all(count == 1 for _, _, count in factors) and draw.chance(0.7):
        mechanism = factors[0][0] if number == 1 else Product(*(pair for pair, _, _ in factors))
    return Case(mechanism, rounds, epsilons(draw, losses_of(truth), asked), truth, arguments(draw))


def _exchanged(finite: Finite) -> Callable[[], list[Outcome]]:
    return lambda: [(b, a) for a, b in finite.outcomes()]


def many_rounds_case(draw: Draw, asked: int) -> Case | None:
    """Two outcomes, composed very often."""
    pair: Pair
    if draw.chance(0.3):
        pair, finite = response(draw)
    else:
        drawn = histogram(draw, 2)
        if drawn is None:
            return None
        pair, finite = drawn
    if finite.exact is None or len(finite.exact) != 2:
        return None
    rounds = draw.one_of([64, 300, 1000, 10**5, 10**6])
    (a, b), (c, d) = finite.exact
    if max(a + c, b + d) > 1:
        return None
    truth = TwoOutcomesTruth(((a, b), (c, d)), rounds)
    losses = []
    for x, y in ((a, b), (c, d)):
        if x and y:
            loss = math.log(x / y) if 1e-300 < x / y < 1e300 else 700.0
            mean = rounds * abs(float(a - b)) * abs(loss)
            losses += [rounds * loss, mean, math.sqrt(rounds) * loss, loss]
    return Case(pair, rounds, epsilons(draw, losses, asked), truth, arguments(draw))


def corner_case(draw: Draw, asked: int) -> Case | None:
    """Masses whose loss no float tells, on a few wide buckets that reach beyond them, composed often."""
    size = draw.one_of([2, 2, 2, 3, 4])
    p, q = ([draw.uniform(0.02, 0.3) for _ in range(size)] for _ in range(2))
    for side_of, masses in enumerate((p, q)):
        if side_of == 0 or draw.chance(0.5):
            masses[draw.integer(0, size - 1)] = abs(draw.stepped(10.0 ** -draw.uniform(276.0, 323.0)))
        first = next(place for place, mass in enumerate(masses) if mass > 0.01)
        masses[first] = 1.0 - math.fsum(mass for place, mass in enumerate(masses) if place != first)
    if draw.chance(0.5):
        p, q = q, p
    half = draw.one_of([2, 2, 2, 4, 8, 50])
    asking: dict[str, Any] = {"method": "buckets", "buckets": 2 * half}
    if draw.chance(0.8):
        asking["factor"] = math.exp(min(draw.uniform(300.0, 1400.0) / half, 709.0))
    pair = Histogram(p, q)
    masses = tuple((Fraction(a), Fraction(b)) for a, b in zip(p, q, strict=True))
    truth: Truth
    if size == 2:
        rounds = draw.one_of([2, 3, 8, 30, 64, 500, 10**4])
        if max(math.fsum(p), math.fsum(q)) > 1.0:
            return None
        truth = TwoOutcomesTruth((masses[0], masses[1]), rounds)
    else:
        rounds = draw.one_of([2, 3, 4, 8, 11])
        truth = FiniteTruth([(Finite(masses), rounds)])
    losses = [abs(math.log(a) - math.log(b)) * k for a, b in zip(p, q, strict=True) for k in (1, 2, rounds)]
    return Case(pair, rounds, epsilons(draw, losses, asked), truth, asking if draw.chance(0.9) else arguments(draw))
