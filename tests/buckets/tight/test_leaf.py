"""The leaf of the tight engine: on any grid, in any window and at any tilt, its state brackets the pair exactly."""

import math
import random
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from pbdist.buckets.exact_flint import exact_bounds
from pbdist.buckets.tight.delta import log_delta_lower, log_delta_upper
from pbdist.buckets.tight.leaf import tilted_leaf
from pbdist.buckets.tight.leaf_atoms import LeafTails, LeafWindow
from pbdist.buckets.tight.state import EXACT_A, EXACT_B, TiltedMasses
from pbdist.buckets.tight.tail import log_mass_below, log_tail_moment
from pbdist.mechanisms import (
    ElementaryPair,
    Gaussian,
    Histogram,
    Laplace,
    RandomizedResponse,
    SubsampledGaussian,
)
from pbdist.types import Direction
from tests.truth import ProductTruth, brackets_log


def leaf(
    pair: ElementaryPair, window: LeafWindow, tilt: float, direction: Direction, *, below: bool, log_norm: float = 0.0
) -> TiltedMasses:
    """A leaf whose events below the window are raised to its end, or left out and counted where `below`."""
    masses = pair.scaled_loss_masses(window.edges, direction)
    above, endless = -math.inf, 0.0
    if not window.spread_to_infinity:
        above, endless = log_tail_moment(pair, tilt, window, direction, -40.0)
    log_below = log_mass_below(pair, tilt, window, direction) if below else None
    return tilted_leaf(masses, window, tilt, log_norm, LeafTails(above, endless, log_below), name=pair)


def bounds(state: TiltedMasses, epsilon: list[float]) -> tuple[list[float], list[float]]:
    upper: Any = log_delta_upper(state, np.array(epsilon))
    # The part of the error in it is told besides.
    upper = upper[0] if isinstance(upper, tuple) else upper
    return log_delta_lower(state, np.array(epsilon)).tolist(), upper.tolist()


def random_histogram(draw: random.Random) -> tuple[Histogram, ProductTruth]:
    most = draw.choice([3, 30, 10**6, 10**15])
    size = draw.choice([2, 3, 5])
    p, q = ([draw.randint(0 if i else 1, most) for i in range(size)] for _ in range(2))
    if draw.random() < 0.3:
        # Losses that are multiples of ln 2, many of them on an edge.
        p, q = ([2 ** draw.randint(0, 8) for _ in range(size - 1)] for _ in range(2))
        p, q = ([*x, 4096 - sum(x)] for x in (p, q))
    if sum(p) < 2 or sum(q) < 2:
        p, q = [3, 1], [1, 3]
    pair = Histogram(p, q)
    outcomes = [(a, b) for a, b in zip(p, q, strict=True) if a or b]
    return pair, ProductTruth([(outcomes, 1)], [(sum(p), sum(q))])


@pytest.mark.parametrize("part", range(3))
def test_histograms_are_bracketed_in_any_window(part: int) -> None:
    draw = random.Random(f"leaf {part}")  # noqa: S311
    for _ in range(120):
        pair, truth = random_histogram(draw)
        width = draw.choice([math.log(2.0), 0.5 * math.log(2.0), 0.1, 1.0, 5.0, 1e-3 + draw.random()])
        low = draw.randint(-12, 6)
        window = LeafWindow(width, low, low + draw.choice([0, 1, 5, 30]), draw.random() < 0.5)
        tilt = draw.choice([0.0, 0.0, 0.5, 2.0, 30.0])
        epsilon = [0.0, draw.random(), 3.0 * draw.random(), *(abs(x) for x in truth.losses)]
        epsilon += [width * draw.randint(0, 8), math.log(2.0) * draw.randint(0, 8)]
        for direction in Direction:
            state = leaf(pair, window, tilt, direction, below=draw.random() < 0.5, log_norm=draw.uniform(-3.0, 3.0))
            assert np.all(state.weights >= 0.0)
            lower, upper = bounds(state, epsilon)
            for asked, log_lower, log_upper in zip(epsilon, lower, upper, strict=True):
                enclosure = truth.at(asked, direction)
                assert brackets_log(log_lower, log_upper, enclosure), (
                    pair,
                    window,
                    tilt,
                    direction,
                    asked,
                    log_lower,
                    log_upper,
                    float(enclosure[0]),
                )


def test_the_exact_rows_are_post_processing() -> None:
    """Each cell holds no more of P_A and no less of P_B than the events whose loss lies in it."""
    draw = random.Random("cells")  # noqa: S311
    for _ in range(40):
        pair, _ = random_histogram(draw)
        # No loss of whole numbers but 0 is near a multiple of this.
        width, tilt = 0.3712893841, draw.choice([0.0, 1.0, 6.0])
        window = LeafWindow(width, -200, 200, True)
        state = leaf(pair, window, tilt, Direction.A_TO_B, below=False)
        totals = [Fraction(sum(side)) for side in (pair.p, pair.q)]
        if any(a * totals[1] == b * totals[0] > 0 for a, b in zip(pair.p, pair.q, strict=True)):
            continue
        cells: dict[int, tuple[Fraction, Fraction]] = {}
        for a, b in zip(pair.p, pair.q, strict=True):
            if a and b:
                index = math.ceil((math.log(a / totals[0]) - math.log(b / totals[1])) / width)
                old = cells.get(index, (Fraction(0), Fraction(0)))
                cells[index] = (old[0] + a / totals[0], old[1] + b / totals[1])
        with mpmath.workdps(50):
            for row, side, sign in ((EXACT_A, 0, 1), (EXACT_B, 1, -1)):
                exponent = tilt + side
                for index in range(window.low, window.high + 1):
                    exact = cells.get(index, (Fraction(0), Fraction(0)))[side]
                    weight = mpmath.mpf(exact.numerator) / exact.denominator
                    weight *= mpmath.exp(exponent * mpmath.mpf(width) * (index - mpmath.mpf("0.5")))
                    found = mpmath.mpf(float(state.weights[0, row, index - (window.low - 1)]))
                    assert sign * (weight - found) >= -float(state.error[0, row]), (pair, row, index)
                    assert abs(weight - found) <= float(state.error[0, row]) + 1e-10 * weight


@pytest.mark.parametrize(
    "pair",
    [
        Gaussian(2.0),
        Laplace(0.7),
        Laplace(1.0, truncate=(-2.0, 2.0)),
        Gaussian(1.0, truncate=(-1.0, 3.0)),
        SubsampledGaussian(1.0, 0.1),
        RandomizedResponse(0.7),
    ],
)
def test_mechanisms_are_bracketed_in_any_window(pair: ElementaryPair) -> None:
    pytest.importorskip("flint")
    draw = random.Random(repr(pair))  # noqa: S311
    epsilon = [0.0, 0.1, 0.4, 1.0, 2.5]
    fine = {
        direction: exact_bounds([(pair, 1)], compositions=1, epsilon=epsilon, direction=direction, loss_width=2.0**-10)
        for direction in Direction
    }
    for _ in range(15):
        width = draw.choice([0.5, 0.05, 0.2, 2.0])
        low = draw.randint(-30, 3)
        window = LeafWindow(width, low, low + draw.choice([0, 3, 20, 60]), draw.random() < 0.5)
        tilt = draw.choice([0.0, 0.5, 3.0])
        for direction in Direction:
            state = leaf(pair, window, tilt, direction, below=draw.random() < 0.5)
            lower, upper = bounds(state, epsilon)
            assert fine[direction].meets_log(lower, upper) == (True,) * len(epsilon), (window, tilt, lower, upper)


def test_a_narrow_grid_meets_the_truth() -> None:
    """At h = 1/500 and the right tilt the bracket of one Gaussian is a few parts in a million."""
    window = LeafWindow(0.002, -5000, 6000, False)
    state = leaf(Gaussian(1.0), window, 1.0, Direction.A_TO_B, below=True)
    lower, upper = bounds(state, [0.0, 0.5, 1.0, 2.0])
    assert max(math.expm1(high - low) for low, high in zip(lower, upper, strict=True)) <= 2e-5
