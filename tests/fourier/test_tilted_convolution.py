"""Convolutions of several rows by tilts: within their bounds of exact sums, and declined where tilts do not serve."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.fourier import Allowance, Needs, convolve_by_tilts
from pbdist.fourier.tilts import _hull
from pbdist.types import FloatArray
from tests.strategies import examples


def exact(x: FloatArray, y: FloatArray, places: list[int]) -> list[Fraction]:
    """Elements of the exact convolution."""
    xs, ys = [Fraction(value) for value in x.tolist()], [Fraction(value) for value in y.tolist()]
    return [
        sum((xs[i] * ys[k - i] for i in range(max(0, k - len(ys) + 1), min(k, len(xs) - 1) + 1)), Fraction(0))
        for k in places
    ]


def assert_within(found: tuple[FloatArray, FloatArray], x: FloatArray, y: FloatArray, places: list[int]) -> None:
    values, bound = found
    for row in range(x.shape[0]):
        for place, truth in zip(places, exact(x[row], y[row], places), strict=True):
            error = abs(Fraction(float(values[row, place])) - truth)
            assert error <= Fraction(float(bound[row, place])), (row, place)


def bell(size: int, deviation: float, bits: float) -> FloatArray:
    """A bell with a shoulder that falls by so many bits."""
    places = np.arange(size) - 0.4 * size
    return np.exp(-0.5 * (places / deviation) ** 2) + np.exp2(-bits * np.arange(size) / size) * 1e-6


def needs(size: int, spacing: float = 1e-3, floor: float = 0.0) -> Needs:
    """Losses around 0."""
    return Needs(spacing, -(size // 2), Allowance(floor, 1e-9, 1e-7))


def added(found: tuple[FloatArray, FloatArray], wanted: Needs) -> float:
    """By how much bounds add to the masses beyond any loss, relative to those of the larger of the two directions."""
    values, bound = found
    losses = wanted.spacing * (wanted.first + np.arange(values.shape[1]))
    masses, errors = [], []
    for sign in (1, -1):
        weights = np.exp(sign * 0.5 * losses)
        for each, sums in ((values, masses), (bound, errors)):
            # Of the losses k and farther out.
            sums.append(np.cumsum((weights * each)[:, ::-sign], axis=1)[:, ::-1])
    larger = np.maximum(*masses)
    return max(float(np.max((each - wanted.allowance.floor) / np.maximum(larger, 1e-300))) for each in errors)


@examples(60)
@given(
    size=st.integers(60, 300),
    other=st.integers(60, 300),
    deviation=st.floats(3.0, 60.0),
    bits=st.floats(0.0, 200.0),
    exponent=st.integers(-200, 200),
    spacing=st.floats(1e-6, 0.5),
    floor=st.floats(0.0, 1e-20),
    holes=st.integers(0, 3),
    seed=st.integers(0, 10**6),
)
def test_every_element_is_within_its_bound(
    size: int,
    other: int,
    deviation: float,
    bits: float,
    exponent: int,
    spacing: float,
    floor: float,
    holes: int,
    seed: int,
) -> None:
    draw = np.random.default_rng(seed)
    x = np.stack([bell(size, deviation, bits) * (1.0 + 0.01 * draw.random(size)) for _ in range(2)])
    y = np.stack([bell(other, 2.0 * deviation, bits) * (1.0 + 0.01 * draw.random(other)) for _ in range(2)])
    for _ in range(holes):
        start = int(draw.integers(0, size))
        x[:, start : start + int(draw.integers(1, size))] *= 10.0 ** -float(draw.integers(10, 400))
    x *= math.ldexp(1.0, exponent)
    wanted = needs(size + other - 1, spacing, floor)
    for second in (y, x):
        found = convolve_by_tilts(x, second, wanted)
        if found is None:
            continue
        last = size + second.shape[1] - 2
        places = sorted({0, 1, last, *draw.integers(0, last + 1, 12).tolist()})
        assert_within(found, x, second, places)


def test_ordinary_rows_are_served_and_known_well() -> None:
    x = np.stack([bell(2000, 90.0, 150.0), bell(2000, 90.0, 150.0) * 1.001])
    wanted = needs(3999)
    found = convolve_by_tilts(x, x, wanted)
    assert found is not None
    assert added(found, wanted) <= 1e-6
    assert_within(found, x, x, [0, 5, 700, 1600, 1605, 2500, 3997, 3998])


@pytest.mark.slow
@pytest.mark.parametrize("faint", [1e-6, 1e-12, 1e-30, 1e-60])
def test_a_bell_with_faint_heaps_far_off_is_served_and_known_well(faint: float) -> None:
    """No tilt serves both the bell and the plain before it; parts do, and valleys need not be known."""
    size = 6000
    places = np.arange(size)
    x = np.exp(-0.5 * ((places - 5500) / 40.0) ** 2) + np.where(places < 5500, faint, 0.0)
    x += faint * np.exp(-0.5 * ((places - 800) / 10.0) ** 2)
    rows = np.stack([x, 1.001 * x])
    wanted = needs(2 * size - 1, 1e-4, 1e-60)
    found = convolve_by_tilts(rows, rows, wanted)
    assert found is not None
    assert added(found, wanted) <= 1e-4
    assert_within(found, rows, rows, [0, 10, 800, 1600, 5000, 6300, 9000, 10_990, 11_000, 11_900])


@pytest.mark.slow
def test_a_comb_is_served_and_known_well() -> None:
    """Between its teeth nothing need be known by itself."""
    x = np.full((1, 4951), 1e-200)
    x[0, ::50] = np.exp(-0.5 * ((np.arange(100) - 50) / 6.0) ** 2)
    wanted = needs(9901, 1e-4, 1e-40)
    found = convolve_by_tilts(x, x, wanted)
    assert found is not None
    assert added(found, wanted) <= 1e-4
    assert_within(found, x, x, [0, 25, 2500, 5000, 5001, 5025, 9900])


def test_rows_of_zeros_and_holes() -> None:
    x = np.stack([bell(400, 20.0, 100.0), np.zeros(400)])
    x[:, 100:110] = 0.0
    found = convolve_by_tilts(x, x, needs(799))
    assert found is not None
    assert_within(found, x, x, [0, 50, 105, 210, 400, 798])


def test_a_row_far_below_the_others_is_bounded_too() -> None:
    """Its squares underflow, and those of the other do not."""
    x = np.stack([bell(400, 30.0, 100.0), 1e-180 * bell(400, 30.0, 100.0)])
    found = convolve_by_tilts(x, x, needs(799))
    assert found is not None
    assert_within(found, x, x, [0, 100, 320, 400, 700, 798])


def test_what_lies_far_below_something_else_need_not_be_known() -> None:
    x = np.zeros((1, 2000))
    x[0, :100], x[0, 1200:] = 1e-60, 1e-5 * np.exp2(-np.arange(800) / 10.0)
    beside = np.zeros(2000)
    beside[100:1200] = 1.0
    wanted = needs(3999, 1e-4)
    alone, found = convolve_by_tilts(x, x, wanted), convolve_by_tilts(x, x, wanted, [(beside, beside)])
    assert found is not None
    assert_within(found, x, x, [0, 1300, 2400, 3000])
    total = float(np.sum(np.convolve(beside, beside)))
    assert float(np.sum(found[1])) <= 1e-9 * total
    # By itself it would be known better there, or not at all.
    assert alone is None or float(np.sum(alone[1])) <= float(np.sum(found[1]))


@pytest.mark.parametrize("square", [True, False])
def test_vectors_with_a_valley_are_split(square: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bell beside a tail that flattens: no one tilt levels both."""
    places = np.arange(1800.0)
    x = np.stack([1e-6 * np.exp(-2.0 * np.sqrt(places))] * 2)
    x[:, :300] += np.exp(-0.5 * ((np.arange(300.0) - 150.0) / 10.0) ** 2)
    y = x if square else 0.5 * x
    wanted = Needs(1e-4, -300, Allowance(1e-44, 1e-9, 1e-7))
    found = convolve_by_tilts(x, y, wanted)
    assert found is not None
    assert_within(found, x, y, [0, 250, 300, 600, 1200, 2400, 3597])
    assert added(found, wanted) <= 1e-4
    monkeypatch.setattr("pbdist.fourier.tilts._DEEP", math.inf)
    assert convolve_by_tilts(x, y, wanted) is None


@pytest.mark.parametrize("size", [1, 10, 40])
def test_few_elements_are_left_to_direct_sums(size: int) -> None:
    assert convolve_by_tilts(np.ones((2, size)), np.ones((2, size)), needs(2 * size - 1)) is None


def test_the_same_rows_give_the_same_bits() -> None:
    x = np.stack([bell(900, 40.0, 90.0)] * 3)
    first, second = (convolve_by_tilts(rows, rows, needs(1799)) for rows in (x, x.copy()))
    assert first is not None
    assert second is not None
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[0][0], first[0][2])


#: Places and logarithms to base 2 of the corners of two rows that fall by hundreds of bits.
VALLEY_X = [
    *((0, -543), (38, -543), (39, -534), (45, -444), (49, -383), (51, -355), (55, -295), (57, -264), (67, -115)),
    *((69, -84), (71, -55), (72, -44), (86, -257), (95, -396), (96, -409), (111, -542), (113, -562), (118, -607)),
    *((119, -727), (120, -900), (121, -955), (125, -939), (127, -929), (142, -866), (144, -857), (169, -750)),
    *((175, -723), (177, -717), (197, -717)),
]
VALLEY_Y = [
    *((0, -856), (42, -856), (43, -716), (46, -255), (47, -308), (50, -574), (51, -614), (56, -228), (62, -188)),
    *((86, -31), (87, -33), (91, -81), (94, -119), (101, -204), (103, -230), (111, -327), (115, -377), (133, -600)),
    *((134, -610), (136, -637), (137, -647), (142, -649)),
]


@pytest.mark.slow
def test_rows_with_valleys_of_hundreds_of_bits_are_within_their_bounds() -> None:
    """Where a factor that tilts back is no full float, digits are lost of what is large."""
    x, y = (
        np.exp2(np.interp(np.arange(corners[-1][0] + 1.0), *zip(*corners, strict=True)))[None]
        for corners in (VALLEY_X, VALLEY_Y)
    )
    truth = exact(x[0], y[0], list(range(x.size + y.size - 1)))
    wanted = [Needs(9.350616867629512, -189, Allowance(1e-290, 1e-3, 1e-7))]
    wanted += [
        Needs(spacing, first, Allowance(floor, 1e-3, 1e-7))
        for spacing in (9.350616867629512, 0.1, 0.01)
        for first in (-300, -189, -170, 0)
        for floor in (1e-40, 1e-10, 1.0)
    ]
    served = 0
    for each in wanted:
        found = convolve_by_tilts(x, y, each)
        if found is None:
            continue
        served += 1
        for value, bound, true in zip(found[0][0].tolist(), found[1][0].tolist(), truth, strict=True):
            # But for what is no full float.
            assert math.isinf(bound) or abs(Fraction(value) - true) <= Fraction(bound) + Fraction(2) ** -1070
    assert served >= 12


def test_corners_of_a_hull_are_all_that_rises_above_it() -> None:
    draw = np.random.default_rng(7)
    for size in (1, 2, 3, 5, 40, 300):
        places = np.sort(draw.choice(3 * size, size, replace=False))
        for heights in (draw.normal(size=size), -((places - size) ** 2.0), draw.integers(-2, 2, size).astype(float)):
            corners = _hull(places, heights)
            assert corners[0] == 0
            assert corners[-1] == size - 1
            assert np.all(np.diff(np.diff(heights[corners]) / np.diff(places[corners])) < 0.0)
            assert np.all(heights <= np.interp(places, places[corners], heights[corners]) + 1e-9)
