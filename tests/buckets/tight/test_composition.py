"""Composition, coarsening and merging of tilted masses, against the masses that they stand for."""

import itertools
import math
import random

import mpmath
import numpy as np
import pytest

from pbdist.buckets.tight.composition import coarsen, compose
from pbdist.buckets.tight.delta import log_delta_lower, log_delta_upper
from pbdist.buckets.tight.merging import merge_above
from pbdist.buckets.tight.state import (
    DOMINATING,
    EXACT_A,
    EXACT_B,
    ROWS,
    TiltedMasses,
)
from pbdist.errors import InvalidInputError, PbdistError
from tests.buckets.tight.exact_states import (
    INFINITE,
    Masses,
    distance,
    dominating_delta,
    infinite,
    masses,
    positions,
    random_state,
    state_deltas,
    weight_of,
)

LONGEST = 1 << 20


def asked(state: TiltedMasses) -> list[float]:
    """ε on every position, between them, and beyond; also below 0, where the hockey stick is defined as well."""
    x = [float(p) for row in (DOMINATING, EXACT_A) for p in positions(state, row)]
    middle = [0.5 * (a + b) for a, b in itertools.pairwise(x)]
    return [*x, *middle, x[0] - 1.0, x[-1] + 1.0, 0.0]


@pytest.mark.parametrize("step", [2, 3, 4, 7])
def test_a_coarser_state_is_what_it_claims(step: int) -> None:
    draw = random.Random(f"coarsen {step}")  # noqa: S311
    with mpmath.workdps(60):
        for _ in range(12):
            width, tilt = draw.choice([1e-3, 0.1, 1.0, 3.0]), draw.choice([0.0, 0.3, 1.0, 7.0])
            state = random_state(draw, size=draw.choice([1, 2, 5, 16, 23]), width=width, tilt=tilt)
            coarse = coarsen(state, step)
            assert coarse.stride == step * state.stride
            # The exact rows: masses of neighbours added. The dominating row: the mean-preserving split, redone here.
            spacing = step * mpmath.mpf(width)
            fine, expected = masses(state, DOMINATING), {}
            origin = positions(state, DOMINATING)[0]
            for x, mass in fine.items():
                place = int(mpmath.floor((x - origin) / spacing + mpmath.mpf("1e-40")))
                below, above = origin + place * spacing, origin + (place + 1) * spacing
                down = (mpmath.exp(-x) - mpmath.exp(-above)) / (mpmath.exp(-below) - mpmath.exp(-above))
                expected[below] = expected.get(below, mpmath.mpf(0)) + mass * down
                expected[above] = expected.get(above, mpmath.mpf(0)) + mass * (1 - down)
            check_row(coarse, DOMINATING, expected)
            for row in (EXACT_A, EXACT_B):
                added: Masses = {}
                labels = positions(coarse, row)
                for index, x in enumerate(positions(state, row)):
                    label = labels[index // step]
                    added[label] = added.get(label, mpmath.mpf(0)) + masses(state, row).get(x, mpmath.mpf(0))
                check_row(coarse, row, added)
            # Both totals of the dominating pair are kept, and it dominates.
            before, after = masses(state, DOMINATING), expected
            assert abs(mpmath.fsum(before.values()) - mpmath.fsum(after.values())) < 1e-50 * mpmath.fsum(
                before.values()
            )
            for epsilon in asked(state):
                smaller = dominating_delta(before, mpmath.mpf(0), epsilon)
                assert dominating_delta(after, mpmath.mpf(0), epsilon) >= smaller * (1 - mpmath.mpf(10) ** -45)


def check_row(state: TiltedMasses, row: int, exact: Masses) -> None:
    """The row is the exact one within its error, and by rounding on its own side of it only."""
    missed = distance(weight_of(state, row, masses(state, row)), weight_of(state, row, exact))
    # A row rounded to its side as a whole needs no error; that is within a few hundred units of what it holds.
    rounded = mpmath.mpf(2) ** -53 * 2000 * float(np.sum(state.weights[0, row])) * (1 + state.tilt * state.spacing)
    assert missed <= float(state.error[0, row]) + rounded, (row, missed)
    sign = -1 if row == EXACT_A else 1
    surplus = mpmath.mpf(0)
    found = {mpmath.nstr(x, 40): mass for x, mass in weight_of(state, row, masses(state, row)).items()}
    for x, weight in weight_of(state, row, exact).items():
        surplus += max(sign * (weight - found.get(mpmath.nstr(x, 40), mpmath.mpf(0))), mpmath.mpf(0))
    assert surplus <= float(state.error[0, row]), (row, surplus)


def test_merged_above_a_limit_both_sides_hold() -> None:
    draw = random.Random("merge")  # noqa: S311
    merged_once = 0
    with mpmath.workdps(60):
        for _ in range(25):
            state = random_state(
                draw,
                size=draw.choice([2, 5, 16]),
                width=draw.choice([0.01, 0.5, 2.0]),
                tilt=draw.choice([0.0, 0.5, 3.0]),
            )
            x = [float(p) for p in positions(state, EXACT_A)]
            limit = draw.choice(x) + draw.choice([0.0, 0.3 * state.width, -0.3 * state.width])
            merged = merge_above(state, limit)
            merged_once += not np.array_equal(merged.weights, state.weights)
            # The mass that moves, redone: the P_B mass of the dominating pair stays, all else goes to infinity.
            gone = [
                [
                    j
                    for j in range(state.size)
                    if state.weights[0, row, j] > 0.0 and (j >= merged.size or merged.weights[0, row, j] == 0.0)
                ]
                for row in range(ROWS)
            ]
            if gone[DOMINATING]:
                places = positions(state, DOMINATING)
                last = places[min(gone[DOMINATING]) - 1]
                heavy = masses(state, DOMINATING)
                moved = mpmath.fsum(-heavy[places[j]] * mpmath.expm1(last - places[j]) for j in gone[DOMINATING])
                assert infinite(merged, *INFINITE[0]) >= (infinite(state, *INFINITE[0]) + moved) * (
                    1 - mpmath.mpf(10) ** -40
                )
            # The same events of A and of B.
            assert set(gone[EXACT_A]) | set(gone[EXACT_B]) <= set(
                range(min(gone[EXACT_A] + gone[EXACT_B], default=0), state.size)
            )
            for row in (EXACT_A, EXACT_B):
                total, rate = INFINITE[row]
                places, heavy = positions(state, row), masses(state, row)
                over = mpmath.fsum(heavy[places[j]] for j in gone[row])
                before, after = infinite(state, total, rate), infinite(merged, total, rate)
                share = before + over
                sign = 1 if row == EXACT_A else -1
                assert sign * (share - after) >= -share * mpmath.mpf(10) ** -40
                assert abs(after - share) <= 1e-10 * share + mpmath.mpf(10) ** -280
            for epsilon in asked(state):
                (lower, upper), (merged_lower, merged_upper) = (
                    state_deltas(state, epsilon),
                    state_deltas(merged, epsilon),
                )
                assert merged_upper >= upper * (1 - mpmath.mpf(10) ** -40), epsilon
                assert merged_lower <= lower * (1 + mpmath.mpf(10) ** -12), epsilon
    assert merged_once > 8


def product_of(factors: list[tuple[TiltedMasses, int]], row: int) -> Masses:
    product: Masses = {mpmath.mpf(0): mpmath.mpf(1)}
    for state, power in factors:
        for _ in range(power):
            following: Masses = {}
            for (x, a), (y, b) in itertools.product(product.items(), masses(state, row).items()):
                key = mpmath.mpf(mpmath.nstr(x + y, 45))
                following[key] = following.get(key, mpmath.mpf(0)) + a * b
            product = following
    return product


@pytest.mark.parametrize("powers", [(2,), (3,), (9,), (2, 1), (1, 1, 2)])
@pytest.mark.parametrize("outside", [1e-3, 1e-12, 1e-250])
def test_the_product_is_within_its_error(powers: tuple[int, ...], outside: float) -> None:
    draw = random.Random(f"compose {powers} {outside}")  # noqa: S311
    with mpmath.workdps(60):
        for extended in (False, True):
            tilt = draw.choice([0.0, 0.7, 4.0])
            factors = [(random_state(draw, size=draw.choice([3, 8, 12]), width=0.25, tilt=tilt), n) for n in powers]
            product = compose(factors, outside, LONGEST, extended=extended)
            for row in range(ROWS):
                exact = weight_of(product, row, product_of(factors, row))
                # κ may be off by as much as it says; rounding to float64 is to the row's own side.
                total = mpmath.fsum(exact.values())
                named = mpmath.expm1(float(product.log_scale_error[0, row])) * total
                missed = distance(weight_of(product, row, masses(product, row)), exact)
                assert missed <= float(product.error[0, row]) + named + total * mpmath.mpf(2) ** -51, (row, missed)
                if outside < 1e-9:
                    assert float(product.error[0, row]) <= 1e-8
            for (total, rate), sign in zip(INFINITE, (1, -1, 1), strict=True):
                finite = whole = mpmath.mpf(1)
                for state, n in factors:
                    one = mpmath.exp(mpmath.mpf(float(state.additive[0, total])))
                    whole, finite = whole * one**n, finite * (one - infinite(state, total, rate)) ** n
                found = infinite(product, total, rate)
                assert sign * (found - (whole - finite)) >= -whole * mpmath.mpf(10) ** -30
                assert abs(found - (whole - finite)) <= 1e-12 * whole


def test_one_state_once_is_itself() -> None:
    state = random_state(random.Random(1), size=4, width=0.1, tilt=0.0)  # noqa: S311
    assert compose([(state, 1)], 1e-9, LONGEST) is state


def test_another_grid_is_refused() -> None:
    draw = random.Random(2)  # noqa: S311
    state = random_state(draw, size=4, width=0.1, tilt=0.0)
    for other in (
        random_state(draw, size=4, width=0.2, tilt=0.0),
        random_state(draw, size=4, width=0.1, tilt=1.0),
        coarsen(state, 2),
    ):
        with pytest.raises(InvalidInputError, match="expected one grid"):
            compose([(state, 1), (other, 1)], 1e-9, LONGEST)


def test_too_long_a_transform_is_refused_before_it_is_made() -> None:
    state = random_state(random.Random(3), size=64, width=0.1, tilt=0.0)  # noqa: S311
    with pytest.raises(PbdistError, match="that they take at most 256 buckets"):
        compose([(state, 1000)], 1e-9, 256)


def test_powers_do_not_vanish() -> None:
    """Weights that sum to 0.9 have a 200th power of 1e-9, which is no rounding error."""
    state = random_state(random.Random(4), size=9, width=0.1, tilt=0.5)  # noqa: S311
    thin = TiltedMasses(**{**vars(state), "weights": state.weights * 0.9})
    product = compose([(thin, 200)], 1e-6, LONGEST)
    for row in range(ROWS):
        log_total = math.log(float(np.sum(product.weights[0, row]))) + float(product.log_scale[0, row])
        expected = 200.0 * (math.log(0.9) + float(state.log_scale[0, row]))
        assert log_total == pytest.approx(expected, abs=1e-5)


def test_a_row_of_which_next_to_nothing_is_left_has_an_infinite_error() -> None:
    faint = TiltedMasses(
        width=0.5,
        tilt=0.0,
        stride=1,
        origins=((0, 0),),
        weights=np.full((1, ROWS, 4), 1e-300),
        log_scale=np.zeros((1, ROWS)),
        log_scale_error=np.zeros((1, ROWS)),
        error=np.full((1, ROWS), 1e10),
        additive=np.array([[0.0] * 7 + [np.inf]]),
    )
    normalised = faint.normalised()
    assert np.all(normalised.error == np.inf)
    # Nothing is known then: no lower bound, and no upper one.
    assert log_delta_lower(normalised, np.array([0.1])) == -np.inf
    assert log_delta_upper(normalised, np.array([0.1]))[0] == np.inf
