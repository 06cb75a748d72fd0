"""Measures on lattices of several spacings: coarser ones and convolutions, against sums in whole numbers."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.enclosures.measures import Coarsening, Level, _convolution, merged_in_halves, product, split_to_both
from tests.strategies import examples

#: A measure: the mass at each multiple of the unit.
Measure = dict[int, Fraction]


@st.composite
def measures(draw: st.DrawFn) -> tuple[Level, ...]:
    """Whole masses on up to three levels; the errors are 0."""
    levels = []
    for exponent in sorted(draw(st.sets(st.integers(0, 4), min_size=1, max_size=3))):
        masses = draw(st.lists(st.integers(0, 2**12), min_size=1, max_size=12))
        if any(masses):
            first = draw(st.integers(0, 9))
            level = Level(exponent, first, np.array(masses, dtype=np.float64)).trimmed()
            levels += [] if level is None else [level]
    return tuple(levels)


def exact(levels: Sequence[Level]) -> Measure:
    found: Measure = {}
    for level in levels:
        for point, mass in zip(level.points.tolist(), level.masses.tolist(), strict=True):
            at = int(point) << level.exponent
            found[at] = found.get(at, Fraction(0)) + Fraction(mass)
    return found


def convolved(one: Measure, two: Measure) -> Measure:
    found: Measure = {}
    for x, p in one.items():
        for y, q in two.items():
            found[x + y] = found.get(x + y, Fraction(0)) + p * q
    return found


def total(measure: Measure) -> Fraction:
    return sum(measure.values(), Fraction(0))


def mean(measure: Measure) -> Fraction:
    return sum((point * mass for point, mass in measure.items()), Fraction(0))


def beyond(measure: Measure, point: int) -> Fraction:
    return sum((max(at - point, 0) * mass for at, mass in measure.items()), Fraction(0))


@pytest.mark.slow
@given(x=measures(), y=measures(), same=st.booleans())
@examples(200)
def test_a_product_from_above_keeps_mass_and_mean_and_is_larger_in_convex_order(
    x: tuple[Level, ...], y: tuple[Level, ...], same: bool
) -> None:
    y = x if same else y
    found, truth = exact(product(x, y, split_to_both, 0.0)), convolved(exact(x), exact(y))
    # Sums of these whole numbers and halves are floats.
    assert total(found) == total(truth)
    assert mean(found) == mean(truth)
    points = sorted({*found, *truth})
    assert all(beyond(found, point) >= beyond(truth, point) for point in points)


@given(x=measures(), y=measures(), same=st.booleans())
@examples(200)
def test_a_product_from_below_joins_and_parts_events_of_both_alike(
    x: tuple[Level, ...], y: tuple[Level, ...], same: bool
) -> None:
    """What is moved is moved by half of the coarser spacing at most, and nothing is lost or made."""
    y = x if same else y
    found, truth = exact(product(x, y, merged_in_halves, 0.0)), convolved(exact(x), exact(y))
    assert total(found) == total(truth)
    coarsest = 1 << max((level.exponent for level in (*x, *y)), default=0)
    assert abs(mean(found) - mean(truth)) <= coarsest * total(truth)


@pytest.mark.parametrize("coarser", [split_to_both, merged_in_halves])
@given(x=measures(), doublings=st.integers(0, 9))
@examples(100)
def test_a_coarser_level_is_linear_in_masses_and_errors(
    coarser: Coarsening, x: tuple[Level, ...], doublings: int
) -> None:
    for level in x:
        plain = coarser(level, doublings)
        erring = coarser(Level(level.exponent, level.first, level.masses, 0.5, level.masses), doublings)
        assert np.array_equal(erring.masses, plain.masses)
        assert erring.extra is not None
        assert (erring.extra >= plain.masses).all()
        assert erring.relative >= 0.5
        assert total(exact([plain])) == total(exact([level]))


def test_errors_of_long_products_hold() -> None:
    """The exact product of what the extra errors allow lies within the errors told."""
    rng = np.random.default_rng(5)
    x, y = (rng.integers(1, 1000, 1500).astype(np.float64) for _ in range(2))
    moved = [values + rng.integers(0, 2, values.size) for values in (x, y)]
    truth = np.convolve(*moved)
    one, two = (Level(0, 0, values, 0.0, np.ones(values.size)) for values in (x, y))
    (found,) = product((one,), (two,), split_to_both, 0.0)
    assert found.extra is not None
    assert (np.abs(found.masses - truth) <= found.extra).all()
    assert (found.extra <= 20.0 * np.abs(found.masses - np.convolve(x + 1.0, y + 1.0)).max()).all()


@pytest.mark.slow
@pytest.mark.parametrize("size", [900, 2_000, 8_300])
@pytest.mark.parametrize("budget", [0.0, 1e-60, 1.0])
@pytest.mark.parametrize("smooth", [False, True])
def test_errors_of_convolutions_are_bounded(size: int, budget: float, smooth: bool) -> None:
    """By plain sums, by transforms, and with care: against exact sums of elements from all over the result."""
    draw = np.random.default_rng(size)
    x, y = (np.exp(-draw.uniform(0.0, 300.0, size) * draw.random(size)) for _ in range(2))
    if smooth:
        x = y = np.exp(-0.5 * ((np.arange(size) - 0.3 * size) / (0.05 * size)) ** 2)
    values, relative, extra = _convolution(x, y, budget)
    error = relative * values + (0.0 if extra is None else extra)
    if smooth and budget < 1.0:
        assert (error <= 1e-6 * values)[values > 1e-40].all()
    exact_x, exact_y = ([Fraction(mass) for mass in row] for row in (x.tolist(), y.tolist()))
    for k in draw.integers(0, 2 * size - 1, 6).tolist():
        first, last = max(0, k - size + 1), min(k, size - 1)
        true = sum((exact_x[i] * exact_y[k - i] for i in range(first, last + 1)), Fraction(0))
        assert abs(true - Fraction(values[k])) <= Fraction(error[k])
