"""The transform of a sampled Gaussian's losses, against the trapezoidal rule on the real line in many digits."""

import math
import random

import mpmath
import numpy as np
import pytest

from pbdist.mechanisms import GaussianMixture, SubsampledGaussianGroup
from pbdist.pld.loss_transform import LossTransform, TransformLine, _beyond, rounds_of
from pbdist.types import Direction
from tests.pld.transforms import subsampled


def exact(ratio: float, rate: float, w: mpmath.mpc) -> mpmath.mpc:
    """χ(w) of one shift."""
    return exact_of([(mpmath.mpf(ratio), mpmath.mpf(rate))], w)


def exact_of(shifts: list[tuple[mpmath.mpf, mpmath.mpf]], w: mpmath.mpc) -> mpmath.mpc:
    """χ(w): on the real line the rule's error is far below 10^-25 with these steps."""
    ratio = float(shifts[-1][0])
    reach = 15 + max(float(mpmath.re(w)), 0.0) * ratio
    low = -15 - max(-float(mpmath.re(w)), 0.0) * ratio * 0.5
    step = mpmath.mpf(1) / math.ceil(12 + 4 * abs(float(mpmath.im(w))) * min(ratio, 3.0) + 4 * ratio)
    total = mpmath.mpc(0)
    for place in range(math.floor(low / step), math.ceil(reach / step) + 1):
        y = step * place
        loss = mpmath.log1p(mpmath.fsum(q * mpmath.expm1(mu * y - mu * mu / 2) for mu, q in shifts))
        total += mpmath.exp(w * loss - y * y / 2)
    return total * step / mpmath.sqrt(2 * mpmath.pi)


def drawn_mixture(draw: random.Random) -> tuple[LossTransform, list[tuple[mpmath.mpf, mpmath.mpf]]]:
    """A pair's transform, with its shifts and weights as exact numbers: those of a group, or any."""
    scale = draw.choice([1.6, 3.0, 13.2])
    if draw.random() < 0.5:
        group = SubsampledGaussianGroup(scale, 10.0 ** draw.uniform(-5.0, -0.5), draw.randint(2, 6))
        pair = draw.choice([group.upper_pair, group.lower_pair])
    else:
        shifts = sorted(draw.uniform(0.05, 1.5 * scale) for _ in range(draw.randint(2, 4)))
        weights = [10.0 ** draw.uniform(-6.0, 0.0) for _ in range(len(shifts) + 1)]
        pair = GaussianMixture(scale, (0.0, *shifts), tuple(each / math.fsum(weights) for each in weights))
    assert isinstance(pair, GaussianMixture)
    found = rounds_of({pair: 1}, Direction.A_TO_B)
    assert found is not None
    total = sum(map(mpmath.mpf, pair.weights))
    moved = zip(pair.shifts[1:], pair.weights[1:], strict=True)
    exact = [(mpmath.mpf(shift) / mpmath.mpf(scale), mpmath.mpf(weight) / total) for shift, weight in moved]
    return found.sampled[0][0], exact


@pytest.mark.slow(reason="integrals of sixty digits")
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in (1, 2, 3))])
def test_that_of_several_shifts_is_off_by_no_more_than_it_says(part: int) -> None:
    draw = random.Random(f"mixture {part}")  # noqa: S311
    with mpmath.workdps(40):
        for _ in range(4):
            transform, shifts = drawn_mixture(draw)
            exponent = draw.choice([1.0, draw.uniform(1.0, 12.0), -draw.uniform(0.0, 12.0)])
            line = TransformLine(transform, exponent)
            spacing = draw.choice([0.37, 3.0, 21.0])
            logarithms, doubts = line.logarithms(spacing, 3)
            rest = 1 - mpmath.fsum(weight for _, weight in shifts)
            for place in (0, 1, 2):
                t = spacing * place
                scale = mpmath.mpf(line.log_scale) + 1j * mpmath.mpf(t) * mpmath.log(rest)
                known = mpmath.exp(mpmath.mpc(complex(logarithms[place])) + scale)
                off = abs(exact_of(shifts, mpmath.mpc(exponent, t)) / known - 1)
                assert off <= math.expm1(doubts[place]), (transform, exponent, t)
                # Later it has fallen to nothing.
                assert place > 0 or doubts[place] < 1e-9
            whole = float(transform.log_real(np.array([exponent]))[0])
            exact = float(mpmath.log(mpmath.re(exact_of(shifts, mpmath.mpc(exponent, 0)))))
            assert whole == pytest.approx(exact, rel=1e-11, abs=1e-11)


@pytest.mark.slow
def test_moments_of_steep_exponents() -> None:
    """Of mixtures whose farthest shift is rare, against sums over all outcomes that count."""
    draw = random.Random("steep")  # noqa: S311
    mixtures = [LossTransform((0.05, 3.0), (math.log(0.3), math.log(1e-6)), math.log(0.7 - 1e-6))]
    mixtures += [drawn_mixture(draw)[0] for _ in range(8)]
    mixtures += [subsampled(10.0 ** draw.uniform(-1.0, 0.6), 10.0 ** -draw.uniform(0.5, 9.0)) for _ in "123"]
    for transform in mixtures:
        for exponent in (6.0, 40.0 / transform.ratio, 300.0 / transform.ratio, -3.0, -1e3, -1e6):
            end = 40.0 + max(exponent, 0.0) * transform.ratio
            y = np.linspace(-end if exponent > 0.0 else -400.0, end, 100_001)
            odds = [
                log - mu * mu / 2.0 + mu * y for mu, log in zip(transform.ratios, transform.log_weights, strict=True)
            ]
            losses = np.logaddexp.reduce([np.full(y.size, transform.smallest_loss), *odds])
            exact = np.logaddexp.reduce(exponent * losses - 0.5 * y * y) + math.log(
                (y[1] - y[0]) / math.sqrt(2 * math.pi)
            )
            found = float(transform.log_real(np.array([exponent]))[0])
            if found == math.inf:
                # The sum would have too many terms.
                assert exponent == -1e6
                continue
            assert found == pytest.approx(exact, rel=1e-9, abs=1e-10 * (1.0 + abs(exponent))), (transform, exponent)
        found, other = transform.log_real(np.array([1e9, 2.0]))
        assert found == math.inf > other


def test_losses_of_several_shifts_at_complex_outcomes_are_within_their_error() -> None:
    draw = random.Random("complex outcomes")  # noqa: S311
    with mpmath.workdps(40):
        for _ in range(6):
            transform, shifts = drawn_mixture(draw)
            above = 1.35 / transform.ratio
            y = np.array([draw.uniform(-10.0, 60.0) for _ in range(20)])
            rest = 1 - mpmath.fsum(weight for _, weight in shifts)
            for outcome, *found in zip(
                y.tolist(), *(each.tolist() for each in transform.excess(y, above)), strict=True
            ):
                z = mpmath.mpc(outcome, above)
                odds = mpmath.fsum(weight * mpmath.exp(mu * z - mu * mu / 2) for mu, weight in shifts) / rest
                assert abs(mpmath.log1p(odds) - mpmath.mpc(*found[:2])) <= found[2]


def test_the_outcome_of_a_loss_has_that_loss() -> None:
    draw = random.Random("outcome")  # noqa: S311
    for _ in range(20):
        transform, _ = drawn_mixture(draw)
        loss = draw.uniform(0.001, 5.0)
        found = transform.excess(np.array([transform.outcome(loss)]), 0.0)[0][0] + transform.smallest_loss
        assert found == pytest.approx(loss, rel=1e-6)


@pytest.mark.slow
def test_slopes_below_an_outcome_are_bounded() -> None:
    """On lines whose angles are up to π/2, of Σ μ_k Re p_k."""
    draw = random.Random("slopes")  # noqa: S311
    for _ in range(40):
        transform, shifts = drawn_mixture(draw)
        mu, log_weights = np.array([float(each) for each, _ in shifts]), np.array(transform.log_weights)
        y = np.linspace(-60.0, 30.0, 200)[:, None] + 1j * draw.uniform(0.0, 0.5 * math.pi) / transform.ratio
        terms = np.exp(log_weights - transform.smallest_loss + mu * (y - 0.5 * mu))
        slopes = (mu * (terms / (1.0 + terms.sum(axis=1))[:, None]).real).sum(axis=1)
        bounds = [transform.slope_below(float(each)) for each in y[:, 0].real]
        assert np.all(np.diff(bounds) >= 0.0)
        assert np.all(slopes <= np.array(bounds) * (1.0 + 1e-9))


@pytest.mark.slow(reason="integrals of many digits")
@pytest.mark.parametrize("part", [0, 1, *(pytest.param(part, marks=pytest.mark.nightly) for part in (2, 3))])
def test_it_is_off_by_no_more_than_it_says(part: int) -> None:
    draw = random.Random(f"transform {part}")  # noqa: S311
    with mpmath.workdps(40):
        for _ in range(4):
            ratio, rate = draw.choice([0.05, 0.5, 1.0, 1.7]), 10.0 ** draw.uniform(-6.0, -0.2)
            exponent = draw.choice([1.0, draw.uniform(1.0, 12.0), -draw.uniform(0.0, 12.0)])
            line = TransformLine(subsampled(ratio, rate), exponent)
            spacing = draw.choice([0.37, 3.0, 21.0])
            logarithms, doubts = line.logarithms(spacing, 3)
            for place in (0, 1, 2):
                t = spacing * place
                scale = mpmath.mpf(line.log_scale) + 1j * mpmath.mpf(t) * mpmath.log1p(-mpmath.mpf(rate))
                known = mpmath.exp(mpmath.mpc(complex(logarithms[place])) + scale)
                off = abs(exact(ratio, rate, mpmath.mpc(exponent, t)) / known - 1)
                assert off <= math.expm1(doubts[place]), (ratio, rate, exponent, t)
                assert doubts[place] < 1e-9


def test_rare_sampling_is_known_better_than_floats_near_one() -> None:
    """χ is next to 1, and what it differs by is known to many digits: so are powers of many rounds."""
    with mpmath.workdps(40):
        line = TransformLine(subsampled(1.25, 1e-7), 3.0)
        logarithms, doubts = line.logarithms(2.0, 2)
        assert abs(logarithms[1]) < 1e-5
        assert doubts[1] < 1e-18
        scale = mpmath.mpf(line.log_scale) + 2j * mpmath.log1p(-mpmath.mpf(1e-7))
        known = mpmath.mpc(complex(logarithms[1])) + scale
        assert abs(mpmath.log(exact(1.25, 1e-7, mpmath.mpc(3, 2))) - known) < 1e-18


@pytest.mark.parametrize("exponent", [1.0, 8.5, -7.25])
def test_the_largest_of_all_higher_frequencies_is_bounded(exponent: float) -> None:
    line = TransformLine(subsampled(0.8, 0.03), exponent)
    logarithms, _ = line.logarithms(0.5, 4000)
    for place in (0, 7, 80, 900):
        assert np.all(logarithms[place:].real <= line.log_largest(0.5 * place) + 1e-12)


@pytest.mark.parametrize(
    ("ratio", "rate", "exponent"), [(0.5, 0.02, 1.5), (0.5, 0.3, 1.2), (1.0, 0.5, 1.3), (0.3, 0.05, -2.0)]
)
def test_what_has_fallen_to_nothing_is_not_said_to_be_there(ratio: float, rate: float, exponent: float) -> None:
    """At high frequencies χ is far below the rounding of G, which is nearly -1: the doubt must tell."""
    line = TransformLine(subsampled(ratio, rate), exponent)
    logarithms, doubts = line.logarithms(1.0, 6000)
    for place in (100, 500, 1500, 3000, 5900):
        own = doubts[place:]
        least = np.exp(logarithms[place:].real) * (2.0 - np.exp(np.minimum(own, 1.0)))
        assert np.all(least <= np.exp(line.log_largest(float(place))) * (1.0 + 1e-9))


def test_the_real_line_is_the_complex_one_at_frequency_0() -> None:
    transform = subsampled(0.9, 0.2)
    for exponent in (1.0, 5.0, 40.0, -1.0, -30.0):
        line = TransformLine(transform, exponent)
        whole = line.logarithms(1.0, 1)[0][0].real + line.log_scale
        assert whole == pytest.approx(float(transform.log_real(np.array([exponent]))[0]), rel=1e-11, abs=1e-11)


def test_where_nearly_every_record_is_sampled_lower_outcomes_are_bounded() -> None:
    transform = subsampled(0.01, 1.0 - 2.0**-53)
    assert transform.slope_below(-10.0) == 0.01
    assert np.all(TransformLine(transform, -3.0).logarithms(1.0, 2)[1] < 1e-9)
    # Not so where it is steep there, as it cannot be shown to fall.
    steep = LossTransform((0.5,), (math.log(0.5),), math.log(0.5))
    assert _beyond(steep, -400.0, -5.0, 0.1) == math.inf


def test_what_is_not_looked_at_is_part_of_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pbdist.pld.loss_transform._beyond", lambda *_: math.inf)
    doubts = TransformLine(subsampled(0.5, 0.1), -3.0).logarithms(1.0, 2)[1]
    assert np.all(np.isinf(doubts))
