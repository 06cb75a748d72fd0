"""Single events: their pairs are the exact worst case (Theorems 81 to 83), beside what dp-accounting computes."""

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st

from pbdist import (
    ApproximateDP,
    DiscreteLaplace,
    FixedBatchGaussian,
    Gaussian,
    GaussianMixture,
    Histogram,
    Laplace,
    RandomizedResponse,
    SubsampledGaussian,
    SubsampledLaplace,
    TruncatedPoissonGaussian,
    epsilon_bounds,
)
from pbdist.accounting import EventRefusedError, from_dp_event
from tests.strategies import examples

ADD, REPLACE, ZERO = "add-or-remove", "replace-one", "zero-out"
THEIRS = {
    ADD: NeighboringRelation.ADD_OR_REMOVE_ONE,
    REPLACE: NeighboringRelation.REPLACE_ONE,
    ZERO: NeighboringRelation.REPLACE_SPECIAL,
}
GAUSSIAN, LAPLACE = dp_event.GaussianDpEvent(2.0), dp_event.LaplaceDpEvent(2.0)
REVEALED = ApproximateDP(0.0, 1.0)


@pytest.mark.parametrize(
    ("event", "adjacency", "pairs"),
    [
        (dp_event.NoOpDpEvent(), REPLACE, []),
        (dp_event.NonPrivateDpEvent(), ZERO, [(REVEALED, 1)]),
        (GAUSSIAN, ADD, [(Gaussian(2.0), 1)]),
        (GAUSSIAN, ZERO, [(Gaussian(2.0), 1)]),
        (GAUSSIAN, REPLACE, [(Gaussian(2.0, sensitivity=2.0), 1)]),
        (dp_event.GaussianDpEvent(0), ADD, [(REVEALED, 1)]),
        (LAPLACE, ADD, [(Laplace(2.0), 1)]),
        (LAPLACE, ZERO, [(Laplace(2.0), 1)]),
        (LAPLACE, REPLACE, [(Laplace(2.0, sensitivity=2.0), 1)]),
        (dp_event.LaplaceDpEvent(0.0), REPLACE, [(REVEALED, 1)]),
        (dp_event.DiscreteLaplaceDpEvent(0.25, 3), ADD, [(DiscreteLaplace(4.0, 3), 1)]),
        (dp_event.DiscreteLaplaceDpEvent(0.25, 3), REPLACE, [(DiscreteLaplace(4.0, 6), 1)]),
        (dp_event.DiscreteLaplaceDpEvent(0.25, 0), ADD, []),
        (dp_event.RandomizedResponseDpEvent(0.25, 2), REPLACE, [(RandomizedResponse(0.125), 1)]),
        (dp_event.RandomizedResponseDpEvent(0.0, 2), REPLACE, [(RandomizedResponse(0.0), 1)]),
        (dp_event.RandomizedResponseDpEvent(0.25, 3), REPLACE, [(Histogram((10, 1, 1), (1, 10, 1)), 1)]),
        (dp_event.RandomizedResponseDpEvent(0.25, 3), ZERO, [(Histogram((10, 2), (1, 2)), 1)]),
        (dp_event.RandomizedResponseDpEvent(0.25, 1), REPLACE, []),
        (dp_event.RandomizedResponseDpEvent(1.0, 5), ZERO, []),
        (dp_event.PoissonSampledDpEvent(0.1, GAUSSIAN), ADD, [(SubsampledGaussian(2.0, 0.1), 1)]),
        (dp_event.PoissonSampledDpEvent(0.1, GAUSSIAN), ZERO, [(SubsampledGaussian(2.0, 0.1), 1)]),
        (
            dp_event.PoissonSampledDpEvent(0.1, dp_event.ComposedDpEvent([dp_event.NoOpDpEvent(), GAUSSIAN])),
            ADD,
            [(SubsampledGaussian(2.0, 0.1), 1)],
        ),
        (dp_event.PoissonSampledDpEvent(0.1, LAPLACE), ADD, [(SubsampledLaplace(2.0, 0.1), 1)]),
        (dp_event.PoissonSampledDpEvent(0.1, LAPLACE), ZERO, [(SubsampledLaplace(2.0, 0.1), 1)]),
        (dp_event.PoissonSampledDpEvent(0.0, LAPLACE), REPLACE, []),
        (dp_event.PoissonSampledDpEvent(0.5, dp_event.NoOpDpEvent()), REPLACE, []),
        (dp_event.PoissonSampledDpEvent(1.0, LAPLACE), REPLACE, [(Laplace(2.0, sensitivity=2.0), 1)]),
        (
            dp_event.PoissonSampledDpEvent(1.0, dp_event.SelfComposedDpEvent(LAPLACE, 3)),
            ADD,
            [(Laplace(2.0), 3)],
        ),
        (
            dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0, 3.0], [0.5, 0.25, 0.25]),
            ADD,
            [(GaussianMixture(2.0, (0.0, 1.0, 3.0), (0.5, 0.25, 0.25)), 1)],
        ),
        (
            dp_event.MixtureOfGaussiansDpEvent(2.0, [1.0], [1.0]),
            ZERO,
            [(GaussianMixture(2.0, (1.0,), (1.0,)), 1)],
        ),
        (dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 0.0], [0.5, 0.5]), ADD, []),
        (
            # In whatever order, and with a shift that never occurs.
            dp_event.MixtureOfGaussiansDpEvent(2.0, [3.0, 0.5, 0.0, 1.0], [0.25, 0.0, 0.5, 0.25]),
            ADD,
            [(GaussianMixture(2.0, (0.0, 1.0, 3.0), (0.5, 0.25, 0.25)), 1)],
        ),
        (dp_event.SampledWithoutReplacementDpEvent(100, 100, GAUSSIAN), REPLACE, [(Gaussian(2.0, 2.0), 1)]),
        (dp_event.SampledWithoutReplacementDpEvent(100, 0, GAUSSIAN), ADD, []),
        (dp_event.SampledWithoutReplacementDpEvent(100, 5, dp_event.NoOpDpEvent()), ADD, []),
        (dp_event.TruncatedSubsampledGaussianDpEvent(50, 0.1, 50, 2.0), ADD, [(SubsampledGaussian(2.0, 0.1), 1)]),
        (dp_event.TruncatedSubsampledGaussianDpEvent(50, 0.1, 0, 2.0), ZERO, []),
        (dp_event.SingleEpochTreeAggregationDpEvent(2.0, 4), ZERO, [(Gaussian(2.0), 3)]),
        (dp_event.SingleEpochTreeAggregationDpEvent(2.0, [1, 8, 7]), ZERO, [(Gaussian(2.0), 4)]),
        (dp_event.SingleEpochTreeAggregationDpEvent(0.0, 4), ZERO, [(REVEALED, 1)]),
        (dp_event.SingleEpochTreeAggregationDpEvent(2.0, [0]), ZERO, []),
    ],
    ids=repr,
)
def test_pairs(event: dp_event.DpEvent, adjacency: str, pairs: list[Any]) -> None:
    found = from_dp_event(event, adjacency=adjacency)
    assert list(found) == pairs
    assert found.exact
    assert found.adjacency == adjacency


@pytest.mark.parametrize(
    ("event", "adjacency", "text"),
    [
        (dp_event.UnsupportedDpEvent(), ADD, "UnsupportedDpEvent: expected an event with a known worst-case pair, got"),
        (dp_event.ZCDpEvent(0.5), ADD, "ZCDpEvent: .* Rényi"),
        (dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 3.0, 1.0), ADD, "RepeatAndSelectDpEvent: .* random number of runs"),
        (dp_event.SampledWithReplacementDpEvent(100, 10, GAUSSIAN), REPLACE, "SampledWithReplacementDpEvent: "),
        (dp_event.RandomizedResponseDpEvent(0.5, 2), ADD, "RandomizedResponseDpEvent: .* for add-or-remove neighbours"),
        (dp_event.SingleEpochTreeAggregationDpEvent(1.0, 4), ADD, "for add-or-remove neighbours: a record that comes"),
        (dp_event.SingleEpochTreeAggregationDpEvent(1.0, 4), REPLACE, "for replace-one neighbours"),
        (dp_event.SingleEpochTreeAggregationDpEvent(1.0, []), ZERO, "step_counts of no tree"),
        (dp_event.SingleEpochTreeAggregationDpEvent(1.0, [2, -1]), ZERO, "step_counts -1, which is no whole number"),
        (dp_event.SingleEpochTreeAggregationDpEvent(1.0, 2.5), ZERO, "step_counts 2.5, which is no whole number"),
        (
            dp_event.PoissonSampledDpEvent(0.1, GAUSSIAN),
            REPLACE,
            "PoissonSampledDpEvent: .* for replace-one neighbours",
        ),
        (
            dp_event.PoissonSampledDpEvent(0.1, dp_event.SelfComposedDpEvent(GAUSSIAN, 2)),
            ADD,
            "a sample of SelfComposed",
        ),
        (dp_event.PoissonSampledDpEvent(0.1, dp_event.ZCDpEvent(0.5)), ADD, "ZCDpEvent: "),
        (dp_event.PoissonSampledDpEvent(0.0, dp_event.ZCDpEvent(0.5)), ADD, "ZCDpEvent: "),
        (dp_event.PoissonSampledDpEvent(1.5, GAUSSIAN), ADD, "sampling_probability 1.5, which is no probability"),
        (dp_event.PoissonSampledDpEvent(0.1, LAPLACE), REPLACE, "PoissonSampledDpEvent: .* for replace-one neighbours"),
        (dp_event.MixtureOfGaussiansDpEvent(1.0, [1.0], [1.0]), REPLACE, "for replace-one neighbours"),
        (dp_event.MixtureOfGaussiansDpEvent(0.0, [1.0], [0.9]), ADD, "GaussianMixture.weights: "),
        (dp_event.MixtureOfGaussiansDpEvent(1.0, [1.0], [0.9]), ADD, "GaussianMixture.weights: "),
        (dp_event.MixtureOfGaussiansDpEvent(1.0, [], []), ADD, "MixtureOfGaussiansDpEvent: .* no shift"),
        (dp_event.MixtureOfGaussiansDpEvent(1.0, [1.0, 2.0], [0.0, 0.0]), ADD, r"GaussianMixture.weights\[0\]: "),
        (
            dp_event.MixtureOfGaussiansDpEvent(1.0, [2.0, 1.0], [1.0]),
            ADD,
            "GaussianMixture.weights: expected 2, one for each shift",
        ),
        (dp_event.MixtureOfGaussiansDpEvent(1.0, [1.0, 1.0], [0.5, 0.5]), ADD, r"GaussianMixture.shifts\[1\]: "),
        (dp_event.MixtureOfGaussiansDpEvent(1.0, [math.nan, 1.0], [0.5, 0.5]), ADD, r"GaussianMixture.shifts\[0\]: "),
        (dp_event.MixtureOfGaussiansDpEvent(1.0, 1.0, [1.0]), ADD, "sensitivities 1.0, which is no sequence"),
        (dp_event.SingleEpochTreeAggregationDpEvent(1.0, None), ZERO, "step_counts None, which is no sequence"),
        (dp_event.ComposedDpEvent(None), ADD, "events None, which are no sequence"),
        (dp_event.ComposedDpEvent(dp_event.GaussianDpEvent(1.0)), ADD, "which are no sequence"),
        (dp_event.SampledWithoutReplacementDpEvent(100, 5, GAUSSIAN), ADD, "for add-or-remove neighbours: a batch of"),
        (dp_event.SampledWithoutReplacementDpEvent(100, 5, GAUSSIAN), ZERO, "for zero-out neighbours"),
        (dp_event.SampledWithoutReplacementDpEvent(100, 101, GAUSSIAN), REPLACE, "sample_size 101, which is more than"),
        (dp_event.SampledWithoutReplacementDpEvent(100, 5, LAPLACE), REPLACE, "a sample of LaplaceDpEvent"),
        (dp_event.SampledWithoutReplacementDpEvent(1.5, 1, GAUSSIAN), REPLACE, "source_dataset_size 1.5"),
        (dp_event.TruncatedSubsampledGaussianDpEvent(50, 0.1, 5, 2.0), REPLACE, "for replace-one neighbours"),
        (dp_event.TruncatedSubsampledGaussianDpEvent(50, 0.1, 5, 2.0), ZERO, "for zero-out neighbours"),
        (dp_event.TruncatedSubsampledGaussianDpEvent(50, 0.1, -1, 2.0), ADD, "truncated_batch_size -1"),
        (dp_event.GaussianDpEvent(-1.0), ADD, "GaussianDpEvent: .* noise_multiplier -1.0, which is below 0"),
        (dp_event.GaussianDpEvent(math.nan), ADD, "noise_multiplier nan, which is no finite float64"),
        (dp_event.GaussianDpEvent(math.inf), ADD, "noise_multiplier inf, which is no finite float64"),
        (dp_event.GaussianDpEvent(2**53 + 1), ADD, "which is no finite float64"),
        (dp_event.GaussianDpEvent(10**400), ADD, "which is no finite float64"),
        (dp_event.GaussianDpEvent("1"), ADD, "noise_multiplier '1', which is no number"),
        (dp_event.GaussianDpEvent(True), ADD, "noise_multiplier True, which is no number"),
        (dp_event.GaussianDpEvent(1e-40), ADD, "GaussianDpEvent: .* Gaussian.scale: expected a number from"),
        (dp_event.DiscreteLaplaceDpEvent(0.0, 1), ADD, "noise_parameter 0.0, with which no such noise exists"),
        (dp_event.DiscreteLaplaceDpEvent(0.5, 1.5), ADD, "sensitivity 1.5, which is no whole number from 0"),
        (dp_event.DiscreteLaplaceDpEvent(0.5, -1), ADD, "sensitivity -1, which is no whole number from 0"),
        (dp_event.DiscreteLaplaceDpEvent(5e-324, 1), ADD, "DiscreteLaplace.scale: "),
        (dp_event.RandomizedResponseDpEvent(0.5, 0), REPLACE, "num_buckets 0, which is no whole number from 1"),
        (dp_event.RandomizedResponseDpEvent(1.5, 2), REPLACE, "noise_parameter 1.5, which is no probability"),
    ],
    ids=repr,
)
def test_what_is_not_exact_is_refused_by_name(event: dp_event.DpEvent, adjacency: str, text: str) -> None:
    with pytest.raises(EventRefusedError, match=text):
        from_dp_event(event, adjacency=adjacency)


def hockey_stick(a: list[Fraction], b: list[Fraction], y: Fraction) -> Fraction:
    return sum((max(Fraction(0), one - y * other) for one, other in zip(a, b, strict=True)), Fraction(0))


def discrete_laplace(p: Fraction, shift: int) -> tuple[list[Fraction], list[Fraction]]:
    """Masses of N and of N + shift, the outcomes from below 0 and above the shift put together."""
    inner = [p**k * (1 - p) / (1 + p) for k in range(1, shift)]
    a = [1 / (1 + p), *inner, p**shift / (1 + p)]
    return a, a[::-1]


def together(pairs: list[tuple[list[Fraction], list[Fraction]]]) -> tuple[list[Fraction], list[Fraction]]:
    return tuple([math.prod(masses) for masses in itertools.product(*side)] for side in zip(*pairs, strict=True))  # type: ignore[return-value]


@pytest.mark.nightly
@examples(100)
@given(
    p=st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=50),
    shifts=st.lists(st.integers(1, 4), min_size=2, max_size=3),
    y=st.fractions(0, 60, max_denominator=1000),
)
def test_discrete_laplace_noise_on_several_coordinates_hides_more_than_on_one(
    p: Fraction, shifts: list[int], y: Fraction
) -> None:
    """At any y, and at the likelihood ratios, where the two meet most closely."""
    one = discrete_laplace(p, sum(shifts))
    several = together([discrete_laplace(p, shift) for shift in shifts])
    for ratio in [y, *(p**k for k in range(-sum(shifts) - 1, sum(shifts) + 2))]:
        assert hockey_stick(*several, ratio) <= hockey_stick(*one, ratio)


@pytest.mark.nightly
@examples(60)
@given(first=st.floats(0.01, 4.0), second=st.floats(0.01, 4.0), part=st.floats(-1.0, 1.0))
def test_laplace_noise_on_two_coordinates_hides_more_than_on_one(first: float, second: float, part: float) -> None:
    """The divergence of both is an integral over the first coordinate, here of 20 digits."""

    def divergence(shift: mpmath.mpf, t: mpmath.mpf) -> mpmath.mpf:
        """From its definition: the masses of the best half-line."""
        if t >= shift:
            return mpmath.mpf(0)
        if t <= -shift:
            return 1 - mpmath.exp(t)
        best = (shift - t) / 2
        return 1 - mpmath.exp(-best) / 2 - mpmath.exp(t) * mpmath.exp(best - shift) / 2

    with mpmath.workdps(20):
        c1, c2 = mpmath.mpf(first), mpmath.mpf(second)
        t = mpmath.mpf(part) * (c1 + c2)
        # Where the loss c1 - 2x makes the divergence of the second coordinate change its form.
        kinks = [(c1 - t - c2) / 2, (c1 - t + c2) / 2]
        points = [mpmath.mpf(0), *sorted(kink for kink in kinks if 0 < kink < c1), c1]
        both = divergence(c2, t - c1) / 2 + mpmath.exp(-c1) / 2 * divergence(c2, t + c1)
        both += mpmath.quad(lambda x: mpmath.exp(-x) / 2 * divergence(c2, t - (c1 - 2 * x)), points)
        assert both <= divergence(c1 + c2, t) + mpmath.mpf("1e-15")


@pytest.mark.slow
@examples(100)
@given(
    noise=st.one_of(st.floats(0.0, 1.0), st.sampled_from([5e-324, 1e-310, 0.1, 1.0 - 2**-53])),
    buckets=st.integers(2, 6),
    adjacency=st.sampled_from([REPLACE, ZERO]),
    y=st.fractions(0, 100),
)
def test_masses_of_blind_answers_are_exact(noise: float, buckets: int, adjacency: str, y: Fraction) -> None:
    blind = Fraction(noise) / buckets
    truth = [1 - Fraction(noise) + blind, *[blind] * (buckets - 1)]
    other = [truth[1], truth[0], *truth[2:]] if adjacency == REPLACE else [Fraction(1, buckets)] * buckets
    found = from_dp_event(dp_event.RandomizedResponseDpEvent(noise, buckets), adjacency=adjacency)
    assert found.exact
    if not found.upper:
        assert truth == other
        return
    ((pair, count),) = found
    assert count == 1
    if isinstance(pair, RandomizedResponse):
        a = [Fraction(pair.p), 1 - Fraction(pair.p)]
        b = a[::-1]
    else:
        assert isinstance(pair, Histogram)
        assert all(isinstance(mass, int) for mass in (*pair.p, *pair.q))
        a, b = ([Fraction(mass, sum(side)) for mass in side] for side in (pair.p, pair.q))
    ratios = {one / two for one, two in zip(truth, other, strict=True) if two}
    for ratio in [y, *ratios]:
        assert hockey_stick(a, b, ratio) == hockey_stick(truth, other, ratio)
        assert hockey_stick(b, a, ratio) == hockey_stick(other, truth, ratio)


@examples(60)
@given(inverse=st.floats(1e-3, 10.0), sensitivity=st.integers(1, 5), share=st.floats(0.0, 1.1))
def test_scales_between_two_floats_are_enclosed(inverse: float, sensitivity: int, share: float) -> None:
    found = from_dp_event(dp_event.DiscreteLaplaceDpEvent(inverse, sensitivity))
    ((least, _),), ((most, _),) = found.upper, found.lower
    assert isinstance(least, DiscreteLaplace)
    assert isinstance(most, DiscreteLaplace)
    assert Fraction(least.scale) <= 1 / Fraction(inverse) <= Fraction(most.scale)
    assert most.scale <= math.nextafter(least.scale, math.inf)
    assert found.exact == (Fraction(least.scale) == 1 / Fraction(inverse))
    epsilon = share * inverse * sensitivity
    told = found.delta(epsilon)
    with mpmath.workdps(40):
        p = mpmath.exp(-mpmath.mpf(inverse))
        a, b = discrete_laplace(p, sensitivity)  # type: ignore[arg-type]
        y = mpmath.exp(mpmath.mpf(epsilon))
        truth = mpmath.fsum(max(mpmath.mpf(0), one - y * other) for one, other in zip(a, b, strict=True))
        # Where δ is 0, cancellation leaves a remainder of 1e-40 or so.
        assert told.lower <= truth + mpmath.mpf("1e-35")
        assert truth <= told.upper + mpmath.mpf("1e-35")


NO_NOISE = dp_event.GaussianDpEvent(0.0)


@pytest.mark.parametrize(
    ("event", "adjacency", "chance"),
    [
        (dp_event.PoissonSampledDpEvent(0.25, NO_NOISE), ADD, Fraction(1, 4)),
        (dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(0.0)), ZERO, Fraction(0.1)),
        (dp_event.PoissonSampledDpEvent(0.25, NO_NOISE), REPLACE, Fraction(1, 4)),
        (dp_event.PoissonSampledDpEvent(0.25, dp_event.NonPrivateDpEvent()), ADD, Fraction(1, 4)),
        (dp_event.SampledWithoutReplacementDpEvent(100, 5, NO_NOISE), REPLACE, Fraction(1, 20)),
        (dp_event.TruncatedSubsampledGaussianDpEvent(50, 0.25, 50, 0.0), ADD, Fraction(1, 4)),
        (dp_event.TruncatedSubsampledGaussianDpEvent(50, 0.25, 5, 0.0), ADD, Fraction(1, 40)),
        (dp_event.MixtureOfGaussiansDpEvent(0.0, [0.0, 1.0], [0.75, 0.25]), ADD, Fraction(1, 4)),
    ],
    ids=repr,
)
def test_a_sample_without_noise_is_not_private(event: dp_event.DpEvent, adjacency: str, chance: Fraction) -> None:
    """From above it shows a record always, as dp-accounting has it; from below as often as it does."""
    found = from_dp_event(dp_event.SelfComposedDpEvent(event, 2), adjacency=adjacency)
    assert found.upper == ((REVEALED, 2),)
    ((pair, count),) = found.lower
    assert (type(pair), count) == (Histogram, 2)
    seen = 1 - (1 - chance) ** 2
    told = found.delta(1.0)
    assert float(seen) * (1 - 1e-9) <= told.lower <= float(seen)
    assert told.upper == 1.0
    spent = found.epsilon(1e-5)
    assert spent.upper == math.inf
    assert spent.lower >= 1e8


def test_an_enclosed_event_is_no_list_of_pairs() -> None:
    found = from_dp_event(dp_event.DiscreteLaplaceDpEvent(0.1, 2))
    assert not found.exact
    with pytest.raises(ValueError, match="that two compositions enclose: ask for upper, for lower"):
        list(found)
    told = found.epsilon(1e-3)
    assert 0.0 < told.lower <= told.upper < 0.2


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
@pytest.mark.slow
def test_batches_and_cut_samples_are_enclosed_by_two_pairs() -> None:
    batch = from_dp_event(dp_event.SampledWithoutReplacementDpEvent(1000, 10, GAUSSIAN), adjacency=REPLACE)
    mechanism = FixedBatchGaussian(2.0, 10, 1000)
    assert (batch.upper, batch.lower) == (((mechanism.upper_pair, 1),), ((mechanism.lower_pair, 1),))
    cut = from_dp_event(dp_event.SelfComposedDpEvent(dp_event.TruncatedSubsampledGaussianDpEvent(500, 0.1, 60, 2.0), 3))
    other = TruncatedPoissonGaussian(2.0, 0.1, 60, 500)
    assert (cut.upper, cut.lower) == (((other.upper_pair, 3),), ((other.lower_pair, 3),))
    for found, pair, count in ((batch, mechanism, 1), (cut, other, 3)):
        ours = epsilon_bounds(pair, compositions=count, delta=1e-5)
        told = found.epsilon(1e-5)
        assert told.lower <= ours.epsilon_upper.item()
        assert ours.epsilon_lower.item() <= told.upper
        assert (told.lower, told.upper) == pytest.approx(
            (ours.epsilon_lower.item(), ours.epsilon_upper.item()), rel=2e-3
        )


def test_a_record_is_in_as_many_nodes_as_the_pair_says() -> None:
    """Walk all nodes of a tree: those of 2^j leaves that are complete after n steps."""
    for steps in range(1, 70):
        nodes = [range(i << j, (i + 1) << j) for j in range(8) for i in range(steps >> j)]
        most = max(sum(leaf in node for node in nodes) for leaf in range(steps))
        ((pair, count),) = from_dp_event(dp_event.SingleEpochTreeAggregationDpEvent(3.0, steps), adjacency=ZERO)
        assert (pair, count) == (Gaussian(3.0), most)


@pytest.mark.nightly
@pytest.mark.parametrize("steps", [1, 7, [3, 64, 2]])
def test_trees_beside_their_renyi_accountant(steps: Any) -> None:
    event = dp_event.SingleEpochTreeAggregationDpEvent(4.0, steps)
    ours = from_dp_event(event, adjacency=ZERO).epsilon(1e-5)
    theirs = RdpAccountant(neighboring_relation=THEIRS[ZERO]).compose(event).get_epsilon(1e-5)
    assert ours.upper <= theirs <= 1.4 * ours.upper


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("event", "adjacency", "delta"),
    [
        (GAUSSIAN, ADD, 1e-5),
        (dp_event.GaussianDpEvent(0.7), ZERO, 1e-3),
        (dp_event.GaussianDpEvent(3.0), REPLACE, 1e-6),
        (LAPLACE, ADD, 1e-2),
        (dp_event.LaplaceDpEvent(0.6), ZERO, 1e-3),
        (dp_event.DiscreteLaplaceDpEvent(0.3, 3), ADD, 1e-2),
        (dp_event.DiscreteLaplaceDpEvent(1.1, 1), ZERO, 1e-3),
        (dp_event.RandomizedResponseDpEvent(0.3, 2), REPLACE, 1e-2),
        (dp_event.RandomizedResponseDpEvent(0.3, 5), REPLACE, 1e-2),
        (dp_event.RandomizedResponseDpEvent(0.3, 5), ZERO, 1e-2),
        (dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(1.0)), ADD, 1e-5),
        (dp_event.PoissonSampledDpEvent(0.02, dp_event.GaussianDpEvent(0.8)), ZERO, 1e-6),
        (dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(1.0)), ADD, 1e-3),
        (dp_event.MixtureOfGaussiansDpEvent(4.0, [0.0, 1.0], [0.9, 0.1]), ADD, 1e-5),
        (dp_event.TruncatedSubsampledGaussianDpEvent(2000, 0.01, 40, 2.0), ADD, 1e-5),
    ],
    ids=repr,
)
def test_each_kind_beside_their_accountant(event: dp_event.DpEvent, adjacency: str, delta: float) -> None:
    """Theirs is not below our lower bound, and ours is at most theirs, both as close as they can be."""
    theirs = PLDAccountant(THEIRS[adjacency]).compose(event).get_epsilon(delta)
    tolerance = {
        dp_event.PoissonSampledDpEvent: 1e-8,
        dp_event.MixtureOfGaussiansDpEvent: 1e-7,
        dp_event.TruncatedSubsampledGaussianDpEvent: 1e-7,
    }.get(type(event), 1e-9)
    ours = from_dp_event(event, adjacency=adjacency).epsilon(delta, tolerance=tolerance)
    assert ours.lower <= theirs
    assert ours.upper <= theirs + 1e-9
