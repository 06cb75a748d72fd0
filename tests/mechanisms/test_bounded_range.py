"""Bounded range: its curve is the largest of all two-point pairs, bounds against enumeration, and what selects."""

import itertools
import json
import math
from collections.abc import Iterator

import mpmath
import numpy as np
import pytest

from pbdist import (
    ApproximateDP,
    BoundedRange,
    MetricDP,
    Product,
    Reversed,
    WorstOf,
    epsilon_bounds,
    exponential_mechanism,
    permute_and_flip,
    privacy_bounds,
    renyi_bounds,
    tradeoff_bounds,
)
from pbdist.mechanisms import pair_from_canonical
from pbdist.types import Direction
from tests import effort
from tests.effort import times
from tests.oracles.outcome_pairs import Outcomes, delta_of

pytestmark = pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning")


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    """Whatever other modules set."""
    with mpmath.workdps(60):
        yield


ETAS = [1e-30, 1e-9, 0.01, 0.3, 1.0, 4.0, 30.0, 500.0]


def curve(eta: float, epsilon: float) -> mpmath.mpf:
    """The δ(ε) of Theorem 41, for ε of either sign."""
    eta, epsilon = mpmath.mpf(eta), mpmath.mpf(epsilon)
    if epsilon >= eta:
        return mpmath.mpf(0)
    if epsilon <= -eta:
        return 1 - mpmath.exp(epsilon)
    return (mpmath.exp(eta / 2) - mpmath.exp(epsilon / 2)) ** 2 / mpmath.expm1(eta)


def response(eta: float, t: float) -> Outcomes:
    """The two-point pair of the losses t and t - η."""
    eta, t = mpmath.mpf(eta), mpmath.mpf(t)
    a = (mpmath.exp(eta) - mpmath.exp(t)) / mpmath.expm1(eta)
    return [(a, a * mpmath.exp(-t)), (1 - a, 1 - a * mpmath.exp(-t))]


def signed_delta(outcomes: Outcomes, epsilon: float) -> mpmath.mpf:
    return sum((max(a - mpmath.exp(mpmath.mpf(epsilon)) * b, mpmath.mpf(0)) for a, b in outcomes), mpmath.mpf(0))


@pytest.mark.nightly
@pytest.mark.parametrize("eta", [0.01, 0.7, 3.0])
def test_the_curve_is_the_largest_of_all_two_point_pairs(eta: float) -> None:
    for share in (-1.2, -1.0, -0.6, 0.0, 0.35, 0.9, 1.0, 1.3):
        epsilon = share * eta
        best = (mpmath.mpf(epsilon) + eta) / 2 if abs(share) < 1 else mpmath.mpf(0)
        largest = curve(eta, epsilon)
        assert abs(signed_delta(response(eta, best), epsilon) - largest) < 1e-30
        for step in range(41):
            assert signed_delta(response(eta, eta * step / 40.0), epsilon) <= largest + mpmath.mpf(10) ** -30


def drawn_range(rng: np.random.Generator, eta: float, size: int) -> Outcomes:
    """A pair whose losses lie in an interval of length η: an exponential mechanism's, with any base measure."""
    base = [mpmath.mpf(float(x)) for x in rng.dirichlet(np.full(size, rng.uniform(0.2, 3.0)))]
    moved = [b * mpmath.exp(mpmath.mpf(float(x)) * eta) for b, x in zip(base, rng.uniform(0.0, 1.0, size), strict=True)]
    total_a, total_b = sum(moved), sum(base)
    return [(a / total_a, b / total_b) for a, b in zip(moved, base, strict=True)]


@pytest.mark.nightly
def test_drawn_mechanisms_of_that_range_are_dominated() -> None:
    rng = np.random.default_rng([42, effort.SEED])
    for _ in range(times(200)):
        eta = float(10.0 ** rng.uniform(-3.0, 1.2))
        outcomes = drawn_range(rng, eta, int(rng.integers(2, 7)))
        for epsilon in rng.uniform(-1.1, 1.1, 4) * eta:
            assert signed_delta(outcomes, epsilon) <= curve(eta, epsilon) + mpmath.mpf(10) ** -30
            assert signed_delta([(b, a) for a, b in outcomes], epsilon) <= curve(eta, epsilon) + mpmath.mpf(10) ** -30


def test_adaptive_choices_are_dominated() -> None:
    """Two rounds, the second mechanism chosen after the first outcome, go through by enumeration."""
    rng, wrong = np.random.default_rng([43, effort.SEED]), 0
    for _ in range(times(12)):
        eta = float(rng.uniform(0.05, 3.0))
        first = drawn_range(rng, eta, int(rng.integers(2, 4)))
        joint = []
        for a, b in first:
            second = drawn_range(rng, eta, 2) if rng.random() < 0.5 else response(eta, float(rng.uniform(0, 1)) * eta)
            joint += [(a * x, b * y) for x, y in second]
        epsilon = sorted({0.0, *(float(x) for x in rng.uniform(0.0, 2.0, 3) * eta)})
        found = privacy_bounds(BoundedRange(eta), compositions=2, epsilon=epsilon, direction="each", tolerance=0.01)
        for e in epsilon:
            for direction in Direction:
                upper = found.delta_upper.sel(epsilon=e, direction=direction.value).item()
                wrong += delta_of(joint, 1, e, direction) > upper
    assert wrong == 0


def two_rounds(eta: float, epsilon: float) -> mpmath.mpf:
    """δ of two rounds of the pair: the integral of the curve of one round over the loss of the other."""
    scale = mpmath.exp(mpmath.mpf(eta) / 2) / (2 * mpmath.expm1(mpmath.mpf(eta)))
    kinks = sorted({-eta, eta, *(x for x in (epsilon - eta, epsilon + eta) if -eta < x < eta)})

    def integrand(loss: mpmath.mpf) -> mpmath.mpf:
        return scale * mpmath.exp(loss / 2) * curve(eta, epsilon - loss)

    return mpmath.quad(integrand, [mpmath.mpf(x) for x in kinks])


@pytest.mark.slow
def test_bounds_of_the_pair_enclose_its_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower bounds as well, those of the pair itself: as if it were attained."""
    monkeypatch.setattr(BoundedRange, "attained_by_some", True)
    rng, wrong = np.random.default_rng([44, effort.SEED]), 0
    for _ in range(times(6)):
        eta = float(rng.choice([rng.uniform(0.01, 3.0), 10.0 ** rng.uniform(-6, 2.6)]))
        epsilon = sorted({0.0, float(rng.uniform(0, 1.1)) * eta, float(rng.uniform(1.0, 2.0)) * eta, eta})
        found = privacy_bounds(
            BoundedRange(eta), compositions=[1, 2], epsilon=epsilon, direction="each", tolerance=0.01
        )
        for r, exact in ((1, curve), (2, two_rounds)):
            for e in epsilon:
                here = {"compositions": r, "epsilon": e}
                lower, upper = (getattr(found, f"delta_{side}").sel(here).values for side in ("lower", "upper"))
                true = exact(eta, e)
                wrong += int(np.sum(lower > float(true) * (1 + 1e-13) + 1e-30))
                wrong += int(np.sum(upper < float(true) * (1 - 1e-13) - 1e-30))
    assert wrong == 0


@pytest.mark.parametrize("eta", ETAS)
def test_masses_enclose_integrals(eta: float) -> None:
    edges = np.unique(np.concatenate([np.linspace(-1.2, 1.2, 13) * eta, [eta * (1 - 2**-52), -1e-40, 0.0]]))
    found = BoundedRange(eta).loss_masses(edges)
    scale = mpmath.exp(mpmath.mpf(eta) / 2) / mpmath.expm1(mpmath.mpf(eta))
    ends = [-mpmath.mpf(eta), *(min(max(mpmath.mpf(float(e)), -mpmath.mpf(eta)), mpmath.mpf(eta)) for e in edges)]
    ends.append(mpmath.mpf(eta))
    with mpmath.workdps(120):
        for index, (low, high) in enumerate(itertools.pairwise(ends)):
            for bounds, sign in ((found.bins_a, 1), (found.bins_b, -1)):
                exact = scale * sign * (mpmath.exp(sign * high / 2) - mpmath.exp(sign * low / 2))
                assert bounds.lower[index] <= exact <= bounds.upper[index]
                assert exact < 1e-280 or bounds.upper[index] <= bounds.lower[index] * (1 + 1e-12)
    assert found.loss_error == 0.0
    assert found.atom_loss.size == 0


@pytest.mark.parametrize("eta", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("tilt", [0.0, 0.7, 30.0, 4000.0])
def test_tail_moments_are_close_upper_bounds(eta: float, tilt: float) -> None:
    scale = mpmath.exp(mpmath.mpf(eta) / 2) / (2 * mpmath.expm1(mpmath.mpf(eta)))
    k = mpmath.mpf(tilt) + mpmath.mpf(1) / 2
    for loss in (-math.inf, -eta, 0.0, 0.9 * eta):
        low = mpmath.mpf(max(loss, -eta))
        exact = mpmath.log(scale * (mpmath.exp(k * eta) - mpmath.exp(k * low)) / k)
        bound = BoundedRange(eta).log_tail_moment(tilt, loss, Direction.A_TO_B)
        assert exact <= bound <= exact + 1e-12 * (10 + abs(exact))
    assert BoundedRange(eta).log_tail_moment(tilt, eta, Direction.B_TO_A) == -math.inf


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
def test_no_lower_bound_is_told_of_what_nobody_attains() -> None:
    for pair in (BoundedRange(0.5), Product(BoundedRange(0.5), ApproximateDP(0.1, 0.0)), Reversed(BoundedRange(0.5))):
        found = privacy_bounds(pair, compositions=[1, 4], epsilon=[0.0, 0.3])
        assert (found.delta_lower == 0.0).all()
        assert (found.delta_upper > 0.0).all()
        assert not pair.attained_by_some
    found = epsilon_bounds(BoundedRange(0.5), compositions=4, delta=1e-3)
    assert found.epsilon_lower.item() == 0.0 < found.epsilon_upper.item()
    assert not found.within_tolerance.item()
    assert found.why_wide.item() == "no lower bound is known"
    assert WorstOf(BoundedRange(0.5)).attained == (False,)
    buckets = privacy_bounds(BoundedRange(0.5), compositions=4, epsilon=0.3, method="buckets", buckets=2000)
    assert buckets.delta_lower.item() == 0.0 < buckets.delta_upper.item()


def test_curves_are_bounded_on_the_side_that_holds_for_every_mechanism() -> None:
    found = renyi_bounds(BoundedRange(0.3), compositions=2, order=[1.0, 2.0])
    assert found.renyi_lower.values.tolist() == [[0.0, 0.0]]
    assert found.renyi_upper.values[0, 1] > 2 * 0.02242
    errors = tradeoff_bounds(BoundedRange(0.3), compositions=4, type_one_error=[0.0, 0.1])
    assert np.all(errors.type_two_error_upper.values >= 1.0 - errors.type_one_error.values)
    assert 0.8 < errors.type_two_error_lower.sel(type_one_error=0.1).item() < 0.83


def test_the_exponential_mechanism_has_both_bounds() -> None:
    mechanism = exponential_mechanism(0.4)
    assert mechanism == WorstOf(BoundedRange(0.4), ApproximateDP(0.2, 0.0), attained=(False, True))
    assert pair_from_canonical(json.loads(json.dumps(mechanism.canonical()))) == mechanism
    found = privacy_bounds(mechanism, compositions=[1, 10], epsilon=[0.0, 0.1])
    attained = privacy_bounds(ApproximateDP(0.2, 0.0), compositions=[1, 10], epsilon=[0.0, 0.1])
    np.testing.assert_array_equal(found.delta_lower, attained.delta_lower)
    assert (found.delta_upper >= attained.delta_upper).all()
    # At ε = 0 the two-point pair in the middle is the worst one.
    assert found.delta_upper.values[0, 0] <= attained.delta_lower.values[0, 0] * (1 + 2e-3)


def chances(qualities: list[float], epsilon: float) -> list[mpmath.mpf]:
    """How likely permute-and-flip chooses each candidate, from its definition: over all orders (McKenna & Sheldon)."""
    best = max(qualities)
    accepted = [mpmath.exp(mpmath.mpf(epsilon) * (q - best) / 2) for q in qualities]

    def after(left: frozenset[int]) -> dict[int, mpmath.mpf]:
        found = dict.fromkeys(left, mpmath.mpf(0))
        for one in left:
            found[one] += accepted[one] / len(left)
            if accepted[one] < 1:
                for other, chance in after(left - {one}).items():
                    found[other] += (1 - accepted[one]) / len(left) * chance
        return found

    chosen = after(frozenset(range(len(qualities))))
    return [chosen[index] for index in range(len(qualities))]


def test_permute_and_flip_by_its_definition() -> None:
    rng, wrong = np.random.default_rng([45, effort.SEED]), 0
    for _ in range(times(20)):
        epsilon, size = float(rng.uniform(0.05, 4.0)), int(rng.integers(2, 5))
        first = [float(x) for x in rng.integers(0, 4, size) * 0.5]
        second = [x + float(rng.choice([-1.0, 0.0, 1.0])) for x in first]
        outcomes = list(zip(chances(first, epsilon), chances(second, epsilon), strict=True))
        asked = [0.0, 0.4 * epsilon, 0.9 * epsilon]
        found = privacy_bounds(
            permute_and_flip(epsilon), compositions=2, epsilon=asked, direction="each", tolerance=0.01
        )
        for e in asked:
            for direction in Direction:
                upper = found.delta_upper.sel(epsilon=e, direction=direction.value).item()
                wrong += delta_of(outcomes, 2, e, direction) > upper
    assert wrong == 0


@pytest.mark.parametrize("epsilon", [1e-30, 1e-9, 0.3, 2.0, 100.0, 500.0])
def test_two_candidates_attain_the_lower_bound_of_permute_and_flip(epsilon: float) -> None:
    mechanism = permute_and_flip(epsilon)
    dominating, attained = mechanism.pairs
    assert dominating == MetricDP(epsilon)
    assert mechanism.attained == (False, True)
    with mpmath.workdps(80):
        exact, other = chances([1.0, 0.0], epsilon)
        assert chances([0.0, 1.0], epsilon) == [other, exact]
        assert 0.5 <= attained.p <= exact <= attained.p + 2e-15
    # Its losses have a range above ε.
    first, second = chances([0.0, 0.0], epsilon), chances([1.0, -1.0], epsilon)
    if 0.1 < epsilon < 30.0:
        losses = [mpmath.log(a / b) for a, b in zip(first, second, strict=True)]
        assert abs(max(losses) - min(losses) - (epsilon + mpmath.log(2 - mpmath.exp(-mpmath.mpf(epsilon))))) < 1e-20
