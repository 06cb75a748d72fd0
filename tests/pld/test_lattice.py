"""Steps on lattices keep what they claim: checked against exact sums over atoms and events."""

from collections.abc import Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.fourier import Allowance
from pbdist.pld.lattice import Dominating, Exact, Factor, convolved
from tests.strategies import examples

SPACING = 0.25


@pytest.fixture(scope="module", autouse=True)
def digits() -> Iterator[None]:
    """Sixty digits in all comparisons."""
    with mpmath.workdps(60):
        yield


def both(row: Dominating) -> tuple[mpmath.mpf, mpmath.mpf]:
    """P_A and P_B mass of all places."""
    with mpmath.workdps(60):
        losses = [mpmath.mpf(row.spacing) * (row.first + k) for k in range(row.size)]
        masses = [mpmath.mpf(float(u)) for u in row.u]
        a = mpmath.fsum(u * mpmath.exp(loss / 2) for u, loss in zip(masses, losses, strict=True))
        b = mpmath.fsum(u * mpmath.exp(-loss / 2) for u, loss in zip(masses, losses, strict=True))
        return a, b


def hockey_stick(row: Dominating, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        total = mpmath.mpf(0)
        for k, u in enumerate(row.u.tolist()):
            loss = mpmath.mpf(row.spacing) * (row.first + k)
            total += max(mpmath.mpf(0), mpmath.mpf(u) * (mpmath.exp(loss / 2) - mpmath.exp(epsilon - loss / 2)))
        return total


#: Masses that are full floats, and so are products of two.
MASSES = st.floats(1e-100, 1.0) | st.just(0.0)


def rows(draw: st.DataObject) -> Dominating:
    masses = draw.draw(st.lists(MASSES, min_size=1, max_size=9))
    return Dominating(SPACING, draw.draw(st.integers(-7, 7)), np.array(masses))


def events(draw: st.DataObject) -> Exact:
    size = draw.draw(st.integers(1, 9))
    own, other = (np.array(draw.draw(st.lists(MASSES, min_size=size, max_size=size))) for _ in range(2))
    return Exact(SPACING, draw.draw(st.integers(-7, 7)), draw.draw(st.floats(-0.125, 0.125)), own, other)


@examples(300)
@given(data=st.data(), epsilon=st.floats(0.0, 3.0))
def test_a_coarser_row_keeps_both_masses_and_dominates(data: st.DataObject, epsilon: float) -> None:
    row = rows(data)
    coarse = row.coarser()
    assert coarse.spacing == 2.0 * row.spacing
    for mine, theirs in zip(both(row), both(coarse), strict=True):
        assert mine <= theirs <= mine * (1 + mpmath.mpf(2) ** -46)
    for one, other in ((row, coarse), (row.swapped(), coarse.swapped())):
        assert hockey_stick(one, epsilon) <= hockey_stick(other, epsilon)


@examples(300)
@given(data=st.data(), epsilon=st.floats(0.0, 3.0), low=st.integers(-9, 2), high=st.integers(3, 9))
def test_a_cut_row_keeps_both_masses_and_dominates(data: st.DataObject, epsilon: float, low: int, high: int) -> None:
    row = rows(data)
    kept, above, below = row.cut(low, high)
    assert low <= kept.first or not kept.u[: low - kept.first].any()
    assert kept.first + kept.size - 1 <= high or not kept.u[high + 1 - kept.first :].any()
    (a, b), (kept_a, kept_b) = both(row), both(kept)
    assert a <= kept_a + above <= a * (1 + mpmath.mpf(2) ** -40)
    assert b <= kept_b + below <= b * (1 + mpmath.mpf(2) ** -40)
    assert hockey_stick(row, epsilon) <= hockey_stick(kept, epsilon) + above
    assert hockey_stick(row.swapped(), epsilon) <= hockey_stick(kept.swapped(), epsilon) + below


@examples(200)
@given(data=st.data())
def test_joined_and_parted_rows_have_the_same_masses(data: st.DataObject) -> None:
    row = rows(data)
    kept, outer = row.beyond(-1, 2)
    joined = kept.joined(outer)
    places = range(-20, 20)

    def at(each: Dominating, place: int) -> float:
        inside = 0 <= place - each.first < each.size
        return float(each.u[place - each.first]) if inside else 0.0

    for place in places:
        assert at(row, place) <= at(joined, place) <= at(row, place) * (1.0 + 1e-15)


def true_masses(row: Exact) -> tuple[mpmath.mpf, mpmath.mpf]:
    with mpmath.workdps(60):
        labels = [mpmath.mpf(row.spacing) * (row.first + k) + mpmath.mpf(row.label) for k in range(row.size)]
        own = mpmath.fsum(mpmath.mpf(float(v)) * mpmath.exp(x / 2) for v, x in zip(row.own, labels, strict=True))
        other = mpmath.fsum(mpmath.mpf(float(v)) * mpmath.exp(-x / 2) for v, x in zip(row.other, labels, strict=True))
        return own, other


@examples(300)
@given(data=st.data(), low=st.integers(-9, 2), high=st.integers(3, 9))
def test_exact_masses_stay_on_their_sides(data: st.DataObject, low: int, high: int) -> None:
    row = events(data)
    own, other = true_masses(row)
    near = 1 + mpmath.mpf(2) ** -40
    for changed in (
        row.coarser(),
        row.coarser().coarser(),
        row.joined(Exact(SPACING, 3, 0.1, np.zeros(2), np.zeros(2))),
    ):
        new_own, new_other = true_masses(changed)
        assert own / near <= new_own <= own
        assert other <= new_other <= other * near
        assert abs(changed.label) <= 0.51 * changed.spacing
    kept, own_above, other_above = row.cut(low, high)
    kept_own, kept_other = true_masses(kept)
    # What lies below is left out of both.
    assert kept_own + own_above <= own * near
    assert kept_other + other_above <= other * near + mpmath.mpf("1e-300")
    sums = row.sums()
    assert own / near <= sums[0] <= own
    assert other <= sums[1] <= other * near + mpmath.mpf("1e-300")


@examples(150)
@given(data=st.data(), mirrored=st.booleans())
def test_products_are_rounded_to_their_sides(data: st.DataObject, mirrored: bool) -> None:
    first, second = events(data), events(data)
    (found,) = convolved([Factor(first, second, mirrored)], Allowance(0.0, 1e-6, 1e-6))
    assert isinstance(found, Exact)
    shift = first.first + second.first - found.first
    for vector, one, two, sign in ((found.own, first.own, second.own, -1), (found.other, first.other, second.other, 1)):
        for place in range(found.size):
            # The label may have been counted in whole places: no value changes by that.
            truth = sum(
                Fraction(float(one[i])) * Fraction(float(two[place - i]))
                for i in range(max(0, place - two.size + 1), min(place, one.size - 1) + 1)
            )
            value = Fraction(float(vector[place]))
            assert sign * (value - truth) >= 0
    assert (
        abs(found.spacing * -shift + first.label + second.label - found.label - 0.0)
        < 1e-12 + abs(first.label + second.label) * 2 + SPACING
    )


def test_rows_that_lie_apart_are_convolved_one_by_one() -> None:
    near, far = Dominating(SPACING, 0, np.ones(100)), Exact(SPACING, 10**9, 0.0, np.ones(100), np.ones(100))
    found = convolved(
        [Factor(near, near, mirrored=False), Factor(far, far, mirrored=False)], Allowance(0.0, 1e-6, 1e-6)
    )
    assert [row.size for row in found] == [199, 199]
    assert [row.first for row in found] == [0, 2 * 10**9]


@pytest.mark.parametrize("first", [-5, -4, 0, 3])
@pytest.mark.parametrize("size", [1, 2, 5, 6])
def test_every_place_of_a_coarser_row_is_where_it_belongs(first: int, size: int) -> None:
    """A single atom on an even place stays there, one on an odd place goes to both neighbours."""
    for k in range(size):
        u = np.zeros(size)
        u[k] = 1.0
        coarse = Dominating(SPACING, first, u).coarser()
        occupied = (coarse.first + np.flatnonzero(coarse.u)).tolist()
        place = first + k
        assert occupied == ([place // 2] if place % 2 == 0 else [(place - 1) // 2, (place + 1) // 2])


@pytest.mark.parametrize(
    ("spacing", "first", "size"), [(0.25, -7, 9), (1e-3, -4000, 9001), (7.3, -120, 241), (40.0, -33, 50)]
)
@pytest.mark.parametrize("label", [0.0, 0.11])
def test_exponentials_of_half_the_losses_err_by_no_more_than_they_say(
    spacing: float, first: int, size: int, label: float
) -> None:
    row = Exact(spacing, first, label, np.ones(size), np.ones(size))
    found = Dominating(spacing, first, np.ones(size)).growth if label == 0.0 else row.growth
    for place in {0, 1, size // 3, size - 1}:
        exact = mpmath.exp((mpmath.mpf(spacing) * (first + place) + mpmath.mpf(label)) / 2)
        assert abs(found[place] / exact - 1) <= (12 + 2 * row.reach) * 2.0**-53
