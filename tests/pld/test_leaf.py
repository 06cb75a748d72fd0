"""The leaf: on any lattices, in any window, its state brackets the pair exactly."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from pbdist.mechanisms import ElementaryPair, Gaussian, Histogram, Laplace, RandomizedResponse, SubsampledGaussian
from pbdist.pld.leaf import Lattice, leaf_state
from pbdist.pld.state import PairState, lower_deltas, upper_deltas
from pbdist.types import Direction
from pbdist.verify.exact import exact_bounds
from tests.effort import times
from tests.oracles.truth import ProductTruth

pytestmark = pytest.mark.slow

#: No spacing is wider, and no lattice reaches farther, nats.
WIDEST, FARTHEST = 50.0, 640.0


def random_lattice(draw: random.Random, spacing: float, *, reach: int = 40) -> Lattice:
    """Any core on a far part of any ratio, also such as see none of the losses."""
    coarse = draw.choice([ratio for ratio in (1, 1, 2, 4, 16) if ratio * spacing <= WIDEST])
    reach = min(reach, int(FARTHEST / spacing) // 2)
    low = coarse * draw.randint(-reach // coarse - 1, max(reach // coarse // 2, 1))
    high = low + coarse * draw.randint(1, 1 + reach // coarse)
    if coarse == 1:
        return Lattice(spacing, 1, (low, high), low, high)
    first = low + coarse * draw.randint(0, (high - low) // coarse)
    last = first + coarse * draw.randint(0, (high - first) // coarse)
    return Lattice(spacing, coarse, (first, last), low, high)


def random_histogram(draw: random.Random) -> tuple[Histogram, list[tuple[int, int]]]:
    most = draw.choice([3, 30, 10**6, 10**15])
    size = draw.choice([2, 3, 5])
    p, q = ([draw.randint(0 if i else 1, most) for i in range(size)] for _ in range(2))
    if draw.random() < 0.3:
        # Losses that are multiples of ln 2, many of them on an edge.
        p, q = ([2 ** draw.randint(0, 8) for _ in range(size - 1)] for _ in range(2))
        p, q = ([*x, 4096 - sum(x)] for x in (p, q))
    if sum(p) < 2 or sum(q) < 2:
        p, q = [3, 1], [1, 3]
    return Histogram(p, q), [(a, b) for a, b in zip(p, q, strict=True) if a or b]


def leaf_of(pair: ElementaryPair, lattice: Lattice) -> PairState:
    return leaf_state(pair.scaled_loss_masses(lattice.edges), lattice, tuple(Direction))


def assert_brackets(state: PairState, truth: ProductTruth, epsilon: list[float], what: object) -> int:
    """Both bounds of both directions at every ε; return how many lower ones are above 0."""
    told = 0
    for direction in Direction:
        lower = lower_deltas(state, np.array(epsilon), direction).tolist()
        upper = upper_deltas(state, np.array(epsilon), direction).tolist()
        for asked, below, above in zip(epsilon, lower, upper, strict=True):
            smallest, largest = truth.at(asked, direction)
            which = (what, direction, asked, below, above, float(smallest))
            assert 0 <= Fraction(below) <= smallest, which
            assert largest <= Fraction(above), which
            told += below > 0.0
    return told


@pytest.mark.parametrize("part", range(3))
def test_histograms_are_bracketed_on_any_lattices(part: int) -> None:
    draw = random.Random(f"leaf {part}")  # noqa: S311
    told = 0
    for _ in range(120):
        pair, outcomes = random_histogram(draw)
        truth = ProductTruth([(outcomes, 1)], [(sum(pair.p), sum(pair.q))])
        spacing = draw.choice([math.log(2.0), 0.5 * math.log(2.0), 0.1, 1.0, 5.0, 1e-3 + draw.random()])
        lattice = random_lattice(draw, spacing)
        epsilon = [0.0, draw.random(), 3.0 * draw.random(), *(abs(x) for x in truth.losses)]
        epsilon += [spacing * draw.randint(0, 8), math.log(2.0) * draw.randint(0, 8), 50.0 * draw.random()]
        told += assert_brackets(leaf_of(pair, lattice), truth, epsilon, (pair, lattice))
    assert told > 400


def test_the_exact_rows_are_post_processing() -> None:
    """Each event holds no more of P_A and no less of P_B than the outcomes whose loss lies in its cell."""
    draw = random.Random("cells")  # noqa: S311
    compared = 0
    for _ in range(40):
        pair, outcomes = random_histogram(draw)
        # No loss of whole numbers but 0 is near a multiple of this.
        spacing = 0.3712893841
        totals = [Fraction(sum(side)) for side in (pair.p, pair.q)]
        if any(a * totals[1] == b * totals[0] > 0 for a, b in outcomes):
            continue
        row = leaf_of(pair, Lattice(spacing, 1, (-200, 200), -200, 200)).exact[Direction.A_TO_B].core
        cells: dict[int, list[Fraction]] = {}
        for a, b in outcomes:
            if a and b:
                index = math.floor((math.log(a / totals[0]) - math.log(b / totals[1])) / spacing)
                cell = cells.setdefault(index, [Fraction(0), Fraction(0)])
                cell[0] += a / totals[0]
                cell[1] += b / totals[1]
        # Names of events are no losses: each cell is found by what it holds.
        found = {
            row.first + k: (Fraction(float(own)), Fraction(float(other)), math.exp(0.5 * label))
            for k, (own, other, label) in enumerate(zip(row.own, row.other, row.labels, strict=True))
            if own or other
        }
        assert len(found) == len(cells)
        for (_, (own, other, factor)), (_, (a, b)) in zip(sorted(found.items()), sorted(cells.items()), strict=True):
            compared += 1
            assert float(a) * (1.0 - 1e-9) <= float(own) * factor <= float(a) * (1.0 + 1e-14)
            assert float(b) * (1.0 - 1e-14) <= float(other) / factor <= float(b) * (1.0 + 1e-9)
    assert compared > 50


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
    ids=str,
)
def test_mechanisms_are_bracketed_on_any_lattices(pair: ElementaryPair) -> None:
    draw = random.Random(repr(pair))  # noqa: S311
    epsilon = [0.0, 0.1, 0.4, 1.0, 2.5]
    fine = {
        direction: exact_bounds([(pair, 1)], compositions=1, epsilon=epsilon, direction=direction, loss_width=2.0**-10)
        for direction in Direction
    }
    for _ in range(times(40)):
        lattice = random_lattice(draw, draw.choice([0.5, 0.05, 0.2, 2.0]), reach=draw.choice([8, 100]))
        state = leaf_of(pair, lattice)
        for direction in Direction:
            with np.errstate(divide="ignore"):
                lower = np.log(lower_deltas(state, np.array(epsilon), direction)).tolist()
                upper = np.log(upper_deltas(state, np.array(epsilon), direction)).tolist()
            assert fine[direction].meets(lower, upper, log=True) == (True,) * len(epsilon), (lattice, lower, upper)


def test_a_narrow_lattice_meets_the_truth() -> None:
    """At h = 1/500 the bracket of one Gaussian is a few parts in a million."""
    state = leaf_of(Gaussian(1.0), Lattice(0.002, 1, (-5000, 6000), -5000, 6000))
    epsilon = np.array([0.0, 0.5, 1.0, 2.0])
    lower, upper = (read(state, epsilon, Direction.A_TO_B) for read in (lower_deltas, upper_deltas))
    assert np.max(upper / lower - 1.0) <= 2e-5
