"""Delays hide all times up to a bound: the theorem of docs/measured-timing.md against every outcome, by fractions."""

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

import mpmath
import pytest

from data.timing.bounds import (
    cost_of_late_answers,
    delayed_pair,
    fewest_without_one,
    largest_gap,
    leak_of_late_answers,
    leaking_pair,
    missing_mass,
    smallest_shift,
    uniform_pair,
)
from data.timing.delay import GaussianDelay, is_log_concave
from pbdist import Histogram, privacy_bounds
from tests.effort import SEED

pytestmark = pytest.mark.nightly
Law = Sequence[Fraction]
#: e^ε, below 1 too: a pair dominates at every real ε.
ODDS = [Fraction(*odds) for odds in ((0, 1), (1, 3), (9, 10), (1, 1), (8, 7), (2, 1), (7, 1))]


def shares(weights: Sequence[int]) -> Law:
    return [Fraction(weight, sum(weights)) for weight in weights]


def drawn_law(draw: random.Random, outcomes: int) -> Law:
    weights = [draw.choice((0, 1, 2, 9)) for _ in range(outcomes)]
    return shares(weights if any(weights) else [1] * outcomes)


def drawn_delay(draw: random.Random) -> list[int]:
    """Symmetric and log-concave weights."""
    while True:
        side = sorted(draw.randint(1, 60) for _ in range(draw.randint(1, 3)))
        middle = [draw.randint(side[-1], 70)] if draw.random() < 0.5 else []
        weights = [*side, *middle, *side[::-1]]
        if is_log_concave(weights):
            return weights


def convolved(times: Law, delay: Law) -> Law:
    result = [Fraction(0)] * (len(times) + len(delay) - 1)
    for (i, x), (j, y) in itertools.product(enumerate(times), enumerate(delay)):
        result[i + j] += x * y
    return result


def hockey_stick(pairs: Iterable[tuple[Fraction, Fraction]], odds: Fraction) -> Fraction:
    return sum((max(Fraction(0), a - odds * b) for a, b in pairs), Fraction(0))


def product(
    first: Iterable[tuple[Fraction, Fraction]], second: Iterable[tuple[Fraction, Fraction]]
) -> list[tuple[Fraction, Fraction]]:
    return [(a * c, b * d) for (a, b), (c, d) in itertools.product(list(first), list(second))]


def masses(pair: Histogram) -> list[tuple[Fraction, Fraction]]:
    return list(zip(shares(pair.p), shares(pair.q), strict=True))  # type: ignore[arg-type]


@pytest.mark.parametrize("number", range(12))
def test_any_times_are_dominated_also_where_later_ones_depend_on_earlier_outcomes(number: int) -> None:
    draw = random.Random(f"{SEED} {number}")  # noqa: S311 -- examples, no secrets
    for _ in range(6):
        longest, delay = draw.randint(1, 3), drawn_delay(draw)
        worst = masses(delayed_pair(delay, longest))
        law = shares(delay)

        def observed(longest: int = longest, law: Law = law) -> list[tuple[Fraction, Fraction]]:
            return [*zip(*(convolved(drawn_law(draw, longest + 1), law) for _ in range(2)), strict=True)]

        one = observed()
        adaptive = [pair for a, b in one for pair in product([(a, b)], observed())]
        twice = product(worst, worst)
        for odds in ODDS:
            assert hockey_stick(one, odds) <= hockey_stick(worst, odds)
            assert hockey_stick(((b, a) for a, b in one), odds) <= hockey_stick(worst, odds)
            assert hockey_stick(adaptive, odds) <= hockey_stick(twice, odds)


def answered(works: Law, delay: Law, deadline: int) -> Law:
    """When answers leave: as scheduled, or when the work is done, where that is later."""
    result = [Fraction(0)] * (max(len(works), deadline + len(delay)) + 1)
    for (work, x), (drawn, y) in itertools.product(enumerate(works), enumerate(delay)):
        result[max(min(work, deadline) + drawn, work)] += x * y
    return result


@pytest.mark.parametrize("number", range(8))
def test_late_answers_cost_no_more_than_the_theorem_says(number: int) -> None:
    draw = random.Random(f"{SEED} late {number}")  # noqa: S311 -- examples, no secrets
    for _ in range(6):
        deadline, weights = draw.randint(1, 2), drawn_delay(draw)
        work = draw.randint(deadline, deadline + len(weights) + 1)
        worst, law = masses(delayed_pair(weights, deadline)), shares(weights)

        def observed(work: int = work, law: Law = law, deadline: int = deadline) -> list[tuple[Fraction, Fraction]]:
            laws = [answered(drawn_law(draw, work + 1), law, deadline) for _ in range(2)]
            return [*zip(*laws, strict=True)]

        one = observed()
        adaptive = [pair for a, b in one for pair in product([(a, b)], observed())]
        for rounds, seen, schedule in ((1, one, worst), (2, adaptive, product(worst, worst))):
            added = cost_of_late_answers(weights, work, deadline, rounds)
            for odds in (*ODDS, Fraction(10**6)):
                bound = hockey_stick(schedule, odds) + added
                assert hockey_stick(seen, odds) <= bound
                assert hockey_stick(((b, a) for a, b in seen), odds) <= bound


def test_work_that_is_always_late_leaks_at_every_epsilon() -> None:
    weights, deadline = [1, 5, 9, 9, 5, 1], 1
    law = shares(weights)
    for work in (1, 2, 3, 5, 8):
        none, late = (answered(shares([*(0,) * at, 1, *(0,) * (8 - at)]), law, deadline) for at in (0, work))
        one = [*zip(none, late, strict=True)]
        for rounds, seen in ((1, one), (2, product(one, one))):
            leak = leak_of_late_answers(weights, work, deadline, rounds)
            assert all(leak <= hockey_stick(seen, odds) for odds in (*ODDS, Fraction(10**9)))
            assert (leak > 0) == (work > deadline)
    # P(D < work - deadline) is too little: the first units of the delay are left out.
    work, odds = 3, Fraction(10**9)
    none, late = (answered(shares([*(0,) * at, 1]), law, deadline) for at in (0, work))
    seen = itertools.zip_longest(none, late, fillvalue=Fraction(0))
    too_little = hockey_stick(masses(delayed_pair(weights, deadline)), odds) + sum(law[: work - deadline])
    assert hockey_stick(seen, odds) > too_little


@pytest.mark.parametrize("room", [Fraction(0), Fraction(1, 30), Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("work", [1, 2, 4, 9])
def test_the_smallest_shift_is_the_smallest_one_that_repairs(work: int, room: Fraction) -> None:
    weights, deadline, rounds = [1, 5, 9, 9, 5, 1], 1, 3

    def cost(shift: int) -> Fraction:
        # A shift of work - deadline makes no answer late, whatever the delay.
        shifted = [*(0,) * shift, *weights]
        return Fraction(0) if shift >= work - deadline else cost_of_late_answers(shifted, work, deadline, rounds)

    expected = next(shift for shift in range(work + 1) if cost(shift) <= room)
    assert smallest_shift(weights, work, deadline, rounds, room) == expected


def test_the_missing_mass_is_that_of_all_bins_never_seen() -> None:
    assert missing_mass([1, 0, 1, 8]) == (0.2, 1.0)
    estimate, most = missing_mass([1, 1, 999_998])
    assert (estimate, most) == (2e-6, pytest.approx(2e-6 + 4.5604779 * (4.0943446 / 1e6) ** 0.5, rel=1e-6))
    # As many draws as bins, all as likely: some 37 % are never seen, the estimate is near and the bound above.
    draw, bins = random.Random(SEED), 5_000  # noqa: S311 -- examples, no secrets
    for _ in range(5):
        seen = Counter(draw.randrange(bins) for _ in range(bins))
        estimate, most = missing_mass([seen[one] for one in range(bins)])
        missing = 1 - len(seen) / bins
        assert estimate == pytest.approx(missing, abs=0.05)
        assert missing <= most < 0.6


def test_the_bounds_are_those_of_the_longest_time_against_none() -> None:
    pair = delayed_pair([1, 5, 9, 5, 1], 2)
    triple = product(product(masses(pair), masses(pair)), masses(pair))
    truth = hockey_stick(triple, Fraction(2))
    found = privacy_bounds(pair, compositions=3, epsilon=0.6931471805599453)
    assert found.delta_lower.item() <= truth <= found.delta_upper.item()
    assert found.delta_upper.item() <= float(truth) * 1.001


def test_a_delay_that_is_not_log_concave_may_hide_a_shorter_time_worse() -> None:
    gap = shares([1, 0, 1])
    near, far = (convolved(shares(times), gap) for times in ([0, 1, 0], [0, 0, 1]))
    none = convolved(shares([1, 0, 0]), gap)
    assert hockey_stick(zip(none, near, strict=True), Fraction(1)) == 1
    assert hockey_stick(zip(none, far, strict=True), Fraction(1)) == Fraction(1, 2)
    for wrong in ([1, 0, 1], [3, 1, 3], [1, 2, 4, 2]):
        with pytest.raises(ValueError, match="expected symmetric and log-concave ones"):
            delayed_pair(wrong, 1)
    with pytest.raises(ValueError, match="expected at least 1, got 0"):
        delayed_pair([1, 2, 1], 0)


def test_a_uniform_delay_is_one_more_log_concave_one() -> None:
    values, longest = 9, 2
    whole, merged = masses(delayed_pair([1] * values, longest)), masses(uniform_pair(values, longest))
    for odds in ODDS:
        assert hockey_stick(whole, odds) == hockey_stick(merged, odds)
    rounds = 2**18
    found = privacy_bounds(uniform_pair(300_001, 10), compositions=rounds, epsilon=0.7)
    with mpmath.workdps(60):
        truth = 1 - (1 - mpmath.mpf(10) / 300_001) ** rounds
    assert found.delta_lower.item() <= truth <= found.delta_upper.item()
    with pytest.raises(ValueError, match="expected 1 to 5, got 6"):
        uniform_pair(5, 6)


@pytest.mark.parametrize("scale", [1, 2, 40, 2_500])
def test_weights_of_the_delay_are_symmetric_log_concave_and_bell_shaped(scale: int) -> None:
    delay = GaussianDelay(scale)
    assert len(delay.weights) == 12 * scale + 1
    assert delay.weights == delay.weights[::-1]
    assert is_log_concave(delay.weights)
    total = sum(delay.weights)
    variance = Fraction(sum(weight * (k - delay.mean) ** 2 for k, weight in enumerate(delay.weights)), total)
    assert float(variance) == pytest.approx(scale**2, rel=1e-6)


def test_log_concavity_is_told_in_whole_numbers() -> None:
    assert is_log_concave([1, 2, 4, 8])
    assert not is_log_concave([2**100, 2**200 - 1, 2**300])
    assert is_log_concave([2**100, 2**200, 2**300])
    assert not is_log_concave([1, 0, 0, 1])
    with pytest.raises(ValueError, match="expected a whole number of at least 1, got 0"):
        GaussianDelay(0)


def test_delays_are_drawn_as_often_as_their_weights_say() -> None:
    delay, draws = GaussianDelay(2), 20_000
    seen = Counter(delay.draw() for _ in range(draws))
    assert set(seen) <= set(range(25))
    expected = {k: weight * draws / sum(delay.weights) for k, weight in enumerate(delay.weights)}
    likely = [k for k in expected if expected[k] > 20]
    chi_square = sum((seen[k] - expected[k]) ** 2 / expected[k] for k in likely)
    # About 11 degrees of freedom: a chance of 1e-12 to be above 90.
    assert chi_square < 90


def test_events_of_a_leak_come_from_the_better_pair_by_a_channel() -> None:
    """What leaking_pair rests on: frequencies nearer to each other never have a larger δ, after any rounds."""
    draw = random.Random(SEED)  # noqa: S311 -- examples, no secrets
    for _ in range(40):
        q, p = sorted(Fraction(draw.randint(0, 20), 20) for _ in range(2))
        inner = sorted(q + (p - q) * Fraction(draw.randint(0, 9), 9) for _ in range(2))
        for rounds in (1, 2, 3):
            outer_pairs, inner_pairs = [(Fraction(1), Fraction(1))], [(Fraction(1), Fraction(1))]
            for _ in range(rounds):
                outer_pairs = product(outer_pairs, [(p, q), (1 - p, 1 - q)])
                inner_pairs = product(inner_pairs, [(inner[1], inner[0]), (1 - inner[1], 1 - inner[0])])
            for odds in ODDS:
                assert hockey_stick(inner_pairs, odds) <= hockey_stick(outer_pairs, odds)


def test_a_leak_is_shown_where_there_is_one() -> None:
    early, late = [900, 80, 20], [100, 200, 700]
    pair = leaking_pair(early, late, early, late)
    assert pair is not None
    # The best time is after the first bin: 10 % of A are later, 90 % of B; the intervals leave a little less.
    assert [100 / 1000 < pair.p[1] / 10**9 < 0.13, 0.87 < pair.q[1] / 10**9 < 900 / 1000] == [True, True]
    delta = privacy_bounds(pair, compositions=1, epsilon=0.0).delta_lower.item()
    assert 0.74 < delta < 0.8
    assert leaking_pair(early, early, early, early) is None
    assert largest_gap(early, late) == 1
    # Seen always and never.
    sure = leaking_pair([100, 0], [0, 100], [100, 0], [0, 100])
    assert sure is not None
    assert sure.p[1] / 10**9 == pytest.approx(1 - 0.025 ** (1 / 100), rel=1e-6)


@pytest.mark.parametrize("probability", [0.3, 0.01, 3e-6])
def test_confidence_of_what_was_never_seen(probability: float) -> None:
    needed = fewest_without_one(probability)
    assert (1 - probability) ** needed <= 0.05 < (1 - probability) ** (needed - 1)
