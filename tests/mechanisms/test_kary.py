"""k-ary randomized response: bounds against enumeration, masses against fractions, and its other forms."""

import math
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist import (
    KaryRandomizedResponse,
)
from pbdist.table import bounds_table
from tests import effort
from tests.effort import times
from tests.oracles.outcome_pairs import Outcomes, epsilons_about, violations


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    """Whatever other modules set."""
    with mpmath.workdps(60):
        yield


EDGES = [
    (0.5, 2),
    (0.25, 4),
    (0.0, 3),
    (0.0, 2),
    (1.0, 5),
    (1e-300, 3),
    (5e-324, 2),
    (1e-270, 2**53),
    (1.0 - 2.0**-53, 7),
    (1.0 / 3.0, 3),
    (math.nextafter(0.25, 1.0), 4),
    (0.3, 2**53),
]


def outcomes_of(pair: KaryRandomizedResponse) -> Outcomes:
    """The two true answers and the others as one: a function of the answer that keeps the likelihood ratio."""
    p, k = Fraction(pair.p), pair.k
    lie = (1 - p) / (k - 1)
    return [
        (mpmath.mpf(a.numerator) / a.denominator, mpmath.mpf(b.numerator) / b.denominator)
        for a, b in ((p, lie), (lie, p), ((k - 2) * lie, (k - 2) * lie))
    ]


def drawn(rng: np.random.Generator) -> KaryRandomizedResponse:
    k = int(rng.choice([2, 3, 4, 7, int(rng.integers(2, 40)), 10**6]))
    p = float(rng.choice([rng.uniform(), min(1.0, rng.uniform(0.9, 1.2) / k), 10.0 ** rng.uniform(-12, 0), 1.0 / k]))
    return KaryRandomizedResponse(p, k)


@pytest.mark.slow
def test_drawn_pairs_against_enumeration() -> None:
    rng, wrong = np.random.default_rng([41, effort.SEED]), 0
    for _ in range(times(30)):
        pair = drawn(rng)
        outcomes = outcomes_of(pair)
        wrong += violations(pair, outcomes, epsilons_about(outcomes, rng), rounds=(1, 3))
    assert wrong == 0


@pytest.mark.slow
@pytest.mark.parametrize(("p", "k"), EDGES)
def test_extreme_parameters(p: float, k: int) -> None:
    pair = KaryRandomizedResponse(p, k)
    epsilon = [0.0, 1e-17, 0.7, min(pair.largest_loss, 590.0)]
    assert violations(pair, outcomes_of(pair), epsilon) == 0
    assert pair.identical == (Fraction(p) * k == 1)


def test_masses_enclose_fractions() -> None:
    for p, k in [(0.3, 5), (0.999, 2**53), (1e-200, 3), (0.7, 2)]:
        pair = KaryRandomizedResponse(p, k)
        found = pair.loss_masses(np.array([0.0]))
        lie = (1 - Fraction(p)) / (k - 1)
        exact = [Fraction(p), lie, (k - 2) * lie][: found.atom_loss.size]
        for lower, upper, mass in zip(found.atoms_a.lower, found.atoms_a.upper, exact, strict=True):
            assert Fraction(float(lower)) <= mass <= Fraction(float(upper)) <= mass * (1 + Fraction(1, 10**14))
        for loss, a, b in zip(found.atom_loss, exact, [exact[1], exact[0], *exact[2:]], strict=True):
            true = mpmath.log(mpmath.mpf(a.numerator) / a.denominator * b.denominator / b.numerator)
            assert abs(mpmath.mpf(float(loss)) - true) <= found.loss_error


def test_truths_too_rare_for_float64_stay_closely_bounded() -> None:
    """At ε below the largest loss, about 667 nats, δ = (1 - p - e^ε p) / 4 of each of the other answers."""
    pair = KaryRandomizedResponse(1e-290, 5)
    table = bounds_table([(pair, 1)], compositions=[1], epsilon=[600.0, 660.0, 1000.0], floor=0.0, strict=False)
    lie = (1 - mpmath.mpf(pair.p)) / 4
    for column, epsilon in enumerate((600, 660)):
        exact = mpmath.log(lie - mpmath.exp(epsilon) * mpmath.mpf(pair.p))
        low, high = (side[:, 0, column].max() for side in (table.log_delta_lower, table.log_delta_upper))
        assert low <= exact <= high <= low + 1e-3
    assert table.delta_upper[:, 0, 2].max() == 0.0
