"""What bucket bounds add for rounding, term by term, against fifty digits."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist.buckets.composition import _AT_INFINITY, _composed_scalars
from pbdist.buckets.delta import _scaled_down, _scaled_up, _upper_from, _upper_sums, log_lower, log_upper
from pbdist.buckets.leaf import _atom_buckets, corner_mass
from pbdist.buckets.state import BucketState, Grid, StateHead
from pbdist.mechanisms import UNIT_ROUNDOFF, Histogram, LossMasses, MassBounds
from pbdist.types import FloatArray
from tests.oracles.bucket_trees import delta_lower, leaf_of

GRID = Grid(0.25, 4)


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(50):
        yield


def mpf(values: FloatArray) -> list[mpmath.mpf]:
    return [mpmath.mpf(value) for value in values.tolist()]


def head(*, window: int = 1, loss_error: float = 0.0, infinity: float = 0.0) -> StateHead:
    return StateHead(GRID, infinity, infinity, 0.0, window, loss_error, 1.0)


def test_logarithms_are_rounded_outwards() -> None:
    deltas = np.exp(np.random.default_rng(0).uniform(-700.0, 0.0, 200))
    for value, below, above in zip(mpf(deltas), mpf(log_lower(deltas)), mpf(log_upper(deltas)), strict=True):
        assert below < mpmath.log(value) < above


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 5.7, 100.1, 650.3, 700.0])
def test_products_with_an_exponential_are_rounded_outwards(epsilon: float) -> None:
    masses = np.random.default_rng(1).random(50) * math.exp(-epsilon)
    grown = mpmath.exp(mpmath.mpf(epsilon))
    found = mpf(_scaled_down(masses, epsilon)), mpf(_scaled_up(masses, epsilon))
    for mass, down, up in zip(mpf(masses), *found, strict=True):
        assert down <= mass * grown <= up


def test_sums_from_above_are_rounded_up() -> None:
    for count in (9, 1001):
        found = Fraction(_upper_from(head(infinity=0.1), [0.3], count))
        assert found >= Fraction(0.3) * (1 + count * Fraction(UNIT_ROUNDOFF)) + Fraction(0.1)


def test_sums_from_below_are_rounded_down() -> None:
    random = np.random.default_rng(2)
    for _ in range(10):
        a, b = random.random((2, 9)) * np.array([[0.1], [1e-20]])
        # Buckets from one below ε on are looked at; those below have nothing.
        a[:3] = 0.0
        state = BucketState(GRID, 0.0, 0.0, 0.0, 1, 0.0, 1.0, a, a, b, np.zeros(9))
        truth = sum(max(Fraction(x) - Fraction(y), Fraction(0)) for x, y in zip(a.tolist(), b.tolist(), strict=True))
        assert Fraction(float(delta_lower(state, np.zeros(1))[0])) <= truth


@pytest.mark.parametrize("loss_error", [0.0, 1e-3])
@pytest.mark.parametrize("window", [1, 3])
def test_events_at_both_ends_of_their_windows_are_bounded(window: int, loss_error: float) -> None:
    random = np.random.default_rng(window)
    state = head(window=window, loss_error=loss_error)
    n, h = GRID.half_width, mpmath.mpf(GRID.loss_width)
    for epsilon in (0.0, 0.1, 0.3, 0.6, 0.9):
        high, low = random.random((2, 9)) * 0.05
        events = []
        for index in range(1 - n, n + 1):
            ends = ((high, index * h + loss_error), (low, (index - window) * h - loss_error))
            events.append([(mpmath.mpf(part[index + n]), loss) for part, loss in ends])
        a, b, truth = np.zeros(9), np.zeros(9), mpmath.mpf(0)
        for bucket, both in enumerate(events, 1):
            a[bucket] = math.nextafter(float(sum(mass for mass, _ in both)), math.inf)
            b[bucket] = math.nextafter(float(sum(mass * mpmath.exp(-loss) for mass, loss in both)), 0.0)
            truth += sum(max(mass * -mpmath.expm1(epsilon - loss), 0) for mass, loss in both)
        found = _upper_from(state, _upper_sums(state, epsilon, (a, b), 0), 9)
        assert found >= truth


def test_the_mass_of_the_corner_is_rounded_down() -> None:
    for mass in np.random.default_rng(3).random(50) * 0.3:
        assert corner_mass(float(mass), GRID) <= mpmath.mpf(float(mass)) * mpmath.exp(4 * mpmath.mpf(0.25))


def test_sums_of_atoms_are_rounded_outwards() -> None:
    random = np.random.default_rng(4)
    for _ in range(5):
        p = random.random(101)
        q = p * random.uniform(0.8, 0.99, 101)
        p, q = p / p.sum(), np.append(q[:-1] / p.sum(), 1.0 - np.sum(q[:-1] / p.sum()))
        state = leaf_of(Histogram(tuple(p.tolist()), tuple(q.tolist())), GRID)
        bucket = GRID.half_width + 1
        inside = [bool(0.0 < math.log(a / b) <= 0.25) for a, b in zip(p.tolist(), q.tolist(), strict=True)]
        for masses, low, high in ((p, state.a_lower, state.a_upper), (q, state.b_real_lower, state.b_upper)):
            total = sum(Fraction(mass) for mass, here in zip(masses.tolist(), inside, strict=True) if here)
            assert Fraction(float(low[bucket])) <= total <= Fraction(float(high[bucket]))


def test_atoms_miss_their_buckets_by_no_more_than_is_told() -> None:
    for moved in (0.0, 0.9e-12, -0.9e-12, 1e-3):
        losses = 0.25 * np.arange(-3.0, 4.0) + moved
        zeros, error = MassBounds.zeros(7), 1e-12
        none = MassBounds.zeros(1)
        index, told = _atom_buckets(LossMasses(none, none, losses, zeros, zeros, none, none, error), GRID)
        for place, loss in zip(index.tolist(), losses.tolist(), strict=True):
            assert Fraction(loss) + Fraction(error) <= place * Fraction(0.25) + Fraction(told)
            assert (place - 1) * Fraction(0.25) - Fraction(told) <= Fraction(loss) - Fraction(error)


def test_errors_of_losses_add_up() -> None:
    nothing = dict.fromkeys(_AT_INFINITY, (0.0, 0.0)), dict.fromkeys(_AT_INFINITY, 0.0)
    found = _composed_scalars(head(loss_error=1e-3), head(loss_error=0.7e-3), *nothing)
    assert Fraction(found["loss_error"]) >= Fraction(1e-3) + Fraction(0.7e-3)
