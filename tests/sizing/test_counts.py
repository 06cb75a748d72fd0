"""Mean and scale of clipped counts: certificates against exact sums, and by bounds of their own."""

import itertools
import math

import mpmath
import pytest

from pbdist.bounds.delta import privacy_bounds
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoisyCount,
    Pair,
    Poisson,
    Product,
    Reversed,
)
from pbdist.sizing.api import CountFamily, SizedNoise, size
from pbdist.sizing.counts import Surrogate

pytestmark = pytest.mark.slow


def exact_delta(pair: Pair, epsilon: float) -> mpmath.mpf:
    """δ of one round of a clamped count, outcome by outcome; what lies beyond is below 1e-20."""
    assert isinstance(pair, NoisyCount)
    assert pair.reading == "clamp-and-ceil"
    noise, mean = pair.noise, mpmath.mpf(pair.mean)

    def below(count: int) -> mpmath.mpf:
        """P(N <= count)."""
        if count < 0:
            return mpmath.mpf(0)
        far = (count - mean) / mpmath.mpf(noise.scale)
        if isinstance(noise, Gaussian):
            return mpmath.ncdf(far)
        return mpmath.exp(far) / 2 if far < 0 else 1 - mpmath.exp(-far) / 2

    last = int(pair.mean + 50 * noise.scale) + pair.shift
    tails = [below(count) for count in range(-1 - pair.shift, last)]
    mass = [second - first for first, second in itertools.pairwise(tails)]
    first, second = mass[pair.shift :], mass[: len(mass) - pair.shift]
    odds = mpmath.exp(epsilon)
    sides = [(first, second), (second, first)]
    return max(mpmath.fsum(max(a - odds * b, 0) for a, b in zip(*side, strict=True)) for side in sides)


def check_certificate(sized: SizedNoise, family: CountFamily) -> None:
    assert sized.mean is not None
    assert sized.mechanism == family.pair(sized.mean, sized.scale)
    assert sized.delta_lower <= sized.delta_upper <= sized.delta < sized.refuted_delta_lower
    part = 1.0 - sized.tolerance
    step = family.mean_step
    less = step * math.floor(sized.mean * part / step) if step else sized.mean * part
    assert (sized.refuted_mean, sized.refuted_scale) == (less, sized.scale * part)
    assert sized.refuted_mechanism == family.pair(less, sized.scale * part)
    assert sized.expected_messages == family.messages(sized.mean, sized.scale)
    assert not sized.ordered
    for point in sized.scanned:
        assert point.mean is not None
        assert point.delta_lower > sized.delta
        assert point.mechanism == family.pair(point.mean, point.scale)
        if step:
            assert point.expected_messages <= part * sized.expected_messages < point.expected_messages + 2 * step
        else:
            assert point.expected_messages == pytest.approx(part * sized.expected_messages, rel=1e-9)


@pytest.mark.slow(reason="exact sums beside the search")
@pytest.mark.parametrize("noise", [Laplace, Gaussian])
def test_count_of_one_round_against_exact_sums(noise: type[Laplace] | type[Gaussian]) -> None:
    sized = size(NoisyCount, noise=noise, shift=2, compositions=1, epsilon=0.5, delta=1e-3)
    check_certificate(sized, CountFamily(lambda mean, scale: NoisyCount(noise(scale), mean, 2)))
    assert len(sized.scanned) >= 12
    with mpmath.workdps(30):
        assert exact_delta(sized.mechanism, 0.5) <= 1e-3
        assert exact_delta(sized.refuted_mechanism, 0.5) > 1e-3
        for point in sized.scanned:
            assert point.delta_lower <= exact_delta(point.mechanism, 0.5)
        # No grid of noises with a part of the messages has one that does: what the scan says of its own points.
        fewer = (1.0 - 2.0 * sized.tolerance) * sized.expected_messages
        for tenth in range(5, 21, 3):
            scale = 0.1 * tenth * sized.scale
            mean = next(m for m in range(200, -1, -1) if NoisyCount(noise(scale), m, 2).expected_count <= fewer)
            assert exact_delta(NoisyCount(noise(scale), mean, 2), 0.5) > 1e-3


def whole_delta(pair: NoisyCount, epsilon: float) -> mpmath.mpf:
    """δ of one round of a count under discrete noise, outcome by outcome."""
    scale, mean = mpmath.mpf(pair.noise.scale), int(pair.mean)
    power = 1 if isinstance(pair.noise, DiscreteLaplace) else 2
    reach = mean + int(80 * pair.noise.scale) + 1
    weights = {x: mpmath.exp(-((abs(x - mean) / scale) ** power) / power) for x in range(2 * mean - reach, reach + 1)}
    mass: dict[int, mpmath.mpf] = {}
    for x, weight in weights.items():
        if x >= 0 or pair.reading == "clamp-and-ceil":
            mass[max(x, 0)] = mass.get(max(x, 0), 0) + weight
    total, odds = mpmath.fsum(mass.values()), mpmath.exp(epsilon)
    moved = {count + pair.shift: weight for count, weight in mass.items()}
    both = ((mass, moved), (moved, mass))
    return max(mpmath.fsum(max(w - odds * q.get(c, 0), 0) for c, w in p.items()) / total for p, q in both)


@pytest.mark.parametrize("noise", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize("reading", ["clamp-and-ceil", "redraw-and-floor"])
def test_mean_and_scale_of_discrete_noise_against_exact_sums(noise: type[DiscreteLaplace], reading: str) -> None:
    sized = size(NoisyCount, noise=noise, shift=2, reading=reading, compositions=1, epsilon=1.0, delta=1e-2)
    check_certificate(sized, CountFamily(lambda mean, scale: NoisyCount(noise(scale), mean, 2, reading)))
    assert (sized.mean_step, sized.mean) == (1, round(sized.mean or 0.0))
    with mpmath.workdps(30):
        assert whole_delta(sized.mechanism, 1.0) <= 1e-2 < whole_delta(sized.refuted_mechanism, 1.0)
        for point in sized.scanned:
            assert 1e-2 < point.delta_lower <= whole_delta(point.mechanism, 1.0)
        # One message less is too few, whatever the scale.
        for tenth in range(5, 21, 3):
            fewer = NoisyCount(noise(0.1 * tenth * sized.scale), sized.mean - 1.0, 2, reading)
            assert whole_delta(fewer, 1.0) > 1e-2
    # Whole numbers are printed whole.
    assert f" {sized.mean:.0f} " in str(sized)


def test_discrete_noise_on_counts_of_different_parts() -> None:
    family = CountFamily(
        lambda mean, scale: Product(
            NoisyCount(DiscreteLaplace(scale), mean, 2), NoisyCount(DiscreteLaplace(scale / 3.0), mean / 3.0, 1)
        )
    )
    assert family.mean_step == 3
    sized = size(family, compositions=2, epsilon=1.0, delta=1e-2, tolerance=0.1)
    check_certificate(sized, family)


def test_poisson_noise_on_a_count_is_sized_by_its_mean() -> None:
    target = {"compositions": 4, "epsilon": 1.0, "delta": 1e-3}
    sized = size(NoisyCount, noise=Poisson, shift=2, **target)
    assert sized.mechanism == size(Poisson, sensitivity=2, **target).mechanism
    assert sized.expected_messages == sized.scale
    for wrong, problem in (
        ({"mean": 3.0, "shift": 2}, "mean: cannot be given with Poisson noise: it is what is sized"),
        ({}, "shift: expected a value"),
        ({"shift": 0}, "shift: expected a whole number"),
    ):
        with pytest.raises(InvalidInputError, match=problem):
            size(NoisyCount, noise=Poisson, **wrong, **target)


@pytest.mark.parametrize("reading", [pytest.param("clamp-and-ceil", marks=pytest.mark.nightly), "redraw-and-floor"])
def test_conversation_of_two_counts(reading: str) -> None:
    family = CountFamily(
        lambda mean, scale: Product(
            NoisyCount(Laplace(scale), mean, 2, reading), NoisyCount(Laplace(scale / 2.0), mean / 2.0, 1, reading)
        ),
        weights=(1.0, 2.0),
    )
    sized = size(family, compositions=4, exp_epsilon=2.0, delta=1e-3, tolerance=0.1)
    check_certificate(sized, family)
    single, pairs = sized.mechanism.factors
    assert isinstance(single, NoisyCount)
    assert isinstance(pairs, NoisyCount)
    assert sized.expected_messages == single.expected_count + 2.0 * pairs.expected_count
    for pair, holds in ((sized.mechanism, True), (sized.refuted_mechanism, False)):
        bounds = privacy_bounds(pair, compositions=4, epsilon=math.log(2.0))
        assert (float(bounds.delta_upper.max()) <= 1e-3) is holds
        assert (float(bounds.delta_lower.max()) > 1e-3) is not holds


def test_counts_that_move_against_each_other() -> None:
    family = CountFamily(
        lambda mean, scale: Product(NoisyCount(Laplace(scale), mean, 1), Reversed(NoisyCount(Laplace(scale), mean, 1)))
    )
    sized = size(family, compositions=4, exp_epsilon=2.0, delta=1e-3, tolerance=0.05)
    check_certificate(sized, family)


def test_sums_inside_the_cut_need_no_mean() -> None:
    sized = size(
        NoisyCount, noise="Laplace", shift=2, reading="shift-inside", compositions=16, exp_epsilon=2.0, delta=1e-3
    )
    assert sized.mean == 0.0
    check_certificate(sized, CountFamily(lambda mean, scale: NoisyCount(Laplace(scale), mean, 2, "shift-inside")))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"noise": None}, "noise: expected the class Laplace, Gaussian, DiscreteLaplace"),
        ({"noise": "Cauchy"}, "noise: expected the class Laplace, Gaussian, DiscreteLaplace"),
        ({"shift": 0}, "NoisyCount.shift: expected a whole number from 1"),
        ({"reading": "ceil"}, "NoisyCount.reading: expected one of"),
        ({"rate": 0.5}, "rate: is no parameter of NoisyCount"),
        # The largest noise that a count takes is not enough.
        (
            {"noise": Gaussian, "compositions": 2**36},
            "delta: no noise meets",
        ),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, object], problem: str) -> None:
    arguments = {"noise": Laplace, "shift": 2, "compositions": 10, "epsilon": 1.0, "delta": 1e-5, **changes}
    with pytest.raises(InvalidInputError, match=problem):
        size(NoisyCount, **arguments)


def test_wrong_families_are_named() -> None:
    goal = {"compositions": 4, "epsilon": 1.0, "delta": 1e-3}
    with pytest.raises(InvalidInputError, match=r"CountFamily\.make: expected a NoisyCount or a Product"):
        size(CountFamily(lambda mean, scale: Laplace(scale + mean)), **goal)
    with pytest.raises(InvalidInputError, match=r"CountFamily\.weights: expected one for each of 1 counts"):
        size(CountFamily(lambda mean, scale: NoisyCount(Laplace(scale), mean, 1), weights=(1.0, 2.0)), **goal)
    with pytest.raises(InvalidInputError, match="shift: a CountFamily takes no parameters"):
        size(CountFamily(lambda mean, scale: NoisyCount(Laplace(scale), mean, 1)), shift=1, **goal)


@pytest.mark.slow(reason="alone sizes by an estimate that is off")
@pytest.mark.parametrize("error", [0.6, pytest.param(-0.6, marks=pytest.mark.nightly)])
def test_wrong_estimates_cost_time_and_nothing_else(error: float, monkeypatch: pytest.MonkeyPatch) -> None:
    goal = {"noise": Laplace, "shift": 1, "compositions": 16, "epsilon": 1.0, "delta": 1e-2, "tolerance": 0.05}
    right = size(NoisyCount, **goal)
    # An estimate that is off, and learns nothing from the bounds: smaller noise that does is found by the scan.
    estimate = Surrogate.log_delta
    monkeypatch.setattr(Surrogate, "correct", lambda *_: None)
    monkeypatch.setattr(Surrogate, "log_delta", lambda *arguments: min(estimate(*arguments) + error, 0.0))
    sized = size(NoisyCount, **goal)
    check_certificate(sized, CountFamily(lambda mean, scale: NoisyCount(Laplace(scale), mean, 1)))
    assert sized.evaluations > right.evaluations
    assert sized.expected_messages == pytest.approx(right.expected_messages, rel=0.05)


def clamped(mean: float, scale: float) -> Pair:
    return NoisyCount(Laplace(scale), mean, shift=1)


@pytest.mark.parametrize(
    ("make", "weights", "problem"),
    [
        (None, None, "^CountFamily.make: expected a callable"),
        *(
            (clamped, weights, "^CountFamily.weights: expected finite")
            for weights in ((-1,), (0.0,), (math.nan,), (True,))
        ),
        (clamped, ("a",), "^CountFamily.weights: expected finite"),
        (clamped, (1.0, 2.0), "^CountFamily.weights: expected one for each of 1 counts"),
        (lambda mean, scale: Gaussian(mean + scale), None, "^CountFamily.make: expected a NoisyCount"),
        # What ignores its arguments.
        (lambda mean, scale: clamped(400.0, 1.0 + 0.0 * mean * scale), None, "by the estimate no mean does"),
    ],
)
def test_what_is_no_family_is_named(make: object, weights: object, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        size(CountFamily(make, weights), compositions=4, epsilon=1.0, delta=1e-3)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        (
            {"noise": Laplace, "shift": 1, "foo": 3},
            "foo: is no parameter of NoisyCount, which has noise, mean, shift, reading",
        ),
        ({"noise": Laplace}, "shift: expected a value for NoisyCount, got none"),
        ({"noise": Laplace, "mean": 3.0}, "shift: expected a value for NoisyCount, got none"),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        size(NoisyCount, compositions=4, epsilon=1.0, delta=1e-3, **parameters)
