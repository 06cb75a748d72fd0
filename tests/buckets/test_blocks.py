"""States in many blocks against states in one block, bit by bit."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from pbdist.buckets import Layout, MemoryVectors, Work, composition, layout_within, projected_bytes
from pbdist.buckets import leaf as leaf_module
from pbdist.buckets.blocks import PIECE, BlockedVector, convolution_of
from pbdist.buckets.leaf import leaf, leaf_blocks
from pbdist.buckets.state import VECTORS, BucketState, Grid
from pbdist.errors import InvalidInputError
from pbdist.fourier import Rounding, convolve, rounded_convolution
from pbdist.fourier.chunk_sizes import plan_chunks
from pbdist.fourier.chunked_convolution import block_sums, chunk_spectra, run_windows
from pbdist.fourier.vectors import Chunks, Run
from pbdist.mechanisms import (
    ApproximateDP,
    Gaussian,
    Histogram,
    Laplace,
    LaplaceSum,
    NoisyCount,
    RandomizedResponse,
    SubsampledGaussian,
)
from pbdist.table import bounds_table
from pbdist.types import Direction
from tests.fourier.convolution_truth import SHAPES, shape
from tests.oracles.bucket_trees import leaf_of

pytestmark = pytest.mark.slow

PAIRS = [
    Gaussian(3.0),
    Laplace(2.0),
    Laplace(2.0, truncate=(-10.0, 11.0)),
    LaplaceSum((2.0, 1.5)),
    LaplaceSum((2.0, 0.01)),
    SubsampledGaussian(2.0, 0.1),
    SubsampledGaussian(1.0, 0.9),
    NoisyCount(Laplace(20.0), 100.0, 2),
    NoisyCount(Gaussian(20.0), 100.0, 2),
    RandomizedResponse(0.7),
    ApproximateDP(0.5, 1e-5),
    Histogram((0.5, 0.3, 0.2, 0.0), (0.1, 0.3, 0.4, 0.2)),
]
NAMES = [f"{type(pair).__name__}-{number}" for number, pair in enumerate(PAIRS)]
SMALL = Layout(block=PIECE, task=2 * PIECE, spectra=1 << 12)
MIDDLE = Layout(block=2 * PIECE, task=2 * PIECE, spectra=1 << 16)


class _Uneven:
    """Works one by one, and has work cut as for several workers."""

    def __init__(self, parallel):
        self.parallel = parallel

    def map(self, function, items):
        return map(function, items)


def assert_same_bits(first, second):
    assert first.dtype == second.dtype
    assert first.shape == second.shape
    assert first.tobytes() == second.tobytes()


def assert_same_state(first: BucketState, second: BucketState):
    for name, value in vars(first).items():
        if name in VECTORS:
            assert_same_bits(value, getattr(second, name))
        else:
            assert value == getattr(second, name), name


@pytest.fixture
def short_leaf_blocks(monkeypatch):
    monkeypatch.setattr(leaf_module, "LEAF_BLOCK", PIECE)


def _assert_same_tables(pair, work, **arguments):
    whole = bounds_table([(pair, 1)], method="buckets", **arguments)
    parts = bounds_table([(pair, 1)], method="buckets", work=work, **arguments)
    for name in ("compositions", "epsilon", "delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper"):
        assert_same_bits(getattr(whole, name), getattr(parts, name))
    assert (whole.loss_width, whole.half_width) == (parts.loss_width, parts.half_width)
    assert whole.states.keys() == parts.states.keys()
    for key, state in whole.states.items():
        assert_same_state(state, parts.states[key])


@pytest.mark.usefixtures("short_leaf_blocks")
@pytest.mark.parametrize("pair", PAIRS, ids=NAMES)
def test_tables_are_the_same_bits(pair):
    for layout, parallel, buckets in ((SMALL, 3, 50_000), (Layout(), 1, 400)):
        store = MemoryVectors()
        _assert_same_tables(
            pair,
            Work(store, _Uneven(parallel), layout),
            compositions=[1, 3],
            epsilon=[0.0, 0.3, 2.0, 700.0],
            buckets=buckets,
            keep_states=True,
        )
        assert not store.arrays


@pytest.mark.usefixtures("short_leaf_blocks")
def test_squarings_products_and_repeats_are_the_same_bits(monkeypatch):
    work = Work(layout=SMALL)
    arguments = {"epsilon": [0.1, 1.0], "buckets": 40_000, "keep_states": True}
    parts = [(Laplace(3.0), 3), (Gaussian(5.0), 1), (RandomizedResponse(0.6), 2)]
    whole = bounds_table(parts, method="buckets", compositions=[1, 2], factor=1.0005, **arguments)
    blocks = bounds_table(parts, method="buckets", work=work, compositions=[1, 2], factor=1.0005, **arguments)
    assert_same_bits(whole.delta_upper, blocks.delta_upper)
    assert_same_bits(whole.delta_lower, blocks.delta_lower)
    monkeypatch.setattr(composition, "GROWTH", 0.0)
    monkeypatch.setattr(composition, "FREE_MASS", 0.0)
    _assert_same_tables(Gaussian(3.0), work, compositions=[3, 6], **arguments)


def _blocked(values, layout, name, store):
    vector = BlockedVector(store, name, layout.block, 0, values.size, float(values.max()))
    return vector, vector.write(0, values)


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "huge"])
@pytest.mark.parametrize("layout", [SMALL, pytest.param(MIDDLE, marks=pytest.mark.nightly)], ids=["small", "middle"])
def test_convolutions_are_the_same_bits(name, layout):
    random = np.random.default_rng(11)
    x = shape(name, 40_000, random)
    for y in (x, shape("two-sided exponential", 17_001, random), shape(name, 40_000, random)[::-1].copy()):
        store = MemoryVectors()
        first = _blocked(x, layout, "x", store)
        second = first if y is x else _blocked(y, layout, "y", store)
        for rounding in Rounding:
            whole = rounded_convolution(x, y, rounding, 0.75)
            parts = convolution_of(
                first,
                second,
                rounding=rounding,
                mass_limit=0.75,
                work=Work(store, _Uneven(2), layout),
                name="work",
            )
            cuts = [0, 1, *sorted(random.integers(1, whole.size, 4).tolist()), whole.size]
            for start, stop in pairwise(cuts):
                assert_same_bits(parts.read(start, stop), whole[start:stop])
            parts.remove()
        kept = {f"{one}/{start}" for one, vector in (("x", first), ("y", second)) for start, _ in vector[0].blocks()}
        assert set(store.arrays) <= kept


def test_nothing_is_convolved_with_nothing():
    store = MemoryVectors()
    zeros, ones = (_blocked(values, SMALL, name, store) for name, values in (("x", np.zeros(900)), ("y", np.ones(400))))
    arguments = {"mass_limit": 1.0, "work": Work(store, layout=SMALL), "name": "work"}
    parts = convolution_of(zeros, ones, rounding=Rounding.UP, **arguments)
    assert_same_bits(parts.read(3, 1299), np.zeros(1296))
    huge = _blocked(np.full(400, 1e200), SMALL, "z", store)
    with pytest.raises(InvalidInputError, match="below 2"):
        convolution_of(huge, huge, rounding=Rounding.UP, **arguments)


def test_a_part_of_a_step_gives_the_bits_of_the_whole():
    random = np.random.default_rng(3)
    chunks = Chunks(random.random(64 * 200), 200, -7, np.array([5, 4000]))
    for tilt in (0.0, 2.0**-6, -(2.0**-5)):
        spectra, norms = chunk_spectra(chunks, 0, 64, tilt)
        for start, stop in ((0, 1), (3, 4), (5, 64), (62, 64)):
            some, some_norms = chunk_spectra(chunks, start, stop, tilt)
            assert_same_bits(some, spectra[start:stop])
            assert_same_bits(some_norms, norms[start:stop])
    blocks = np.arange(127)
    first, last = np.maximum(0, blocks - 63), np.minimum(63, blocks)
    windows = run_windows(Run(0.0, 0, 127, first, last, np.full(127, -np.inf)))
    for symmetric in (True, False):
        sums = block_sums(spectra, spectra, windows, symmetric=symmetric)
        for start, stop in ((0, 64), (1, 72), (100, 201)):
            part = np.ascontiguousarray(spectra[:, start:stop])
            assert_same_bits(block_sums(part, part, windows, symmetric=symmetric), sums[:, start:stop])
            assert_same_bits(block_sums(part, part, windows[40:50], symmetric=symmetric), sums[40:50, start:stop])


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("pair", PAIRS, ids=NAMES)
@pytest.mark.parametrize("width", [1e-5, 1e-3])
def test_a_leaf_in_blocks_is_the_leaf(pair, direction, width, monkeypatch):
    grid = Grid(width, 20_000)
    whole = leaf_of(pair, grid, direction)
    monkeypatch.setattr(leaf_module, "LEAF_BLOCK", 8192)
    assert len(leaf_blocks(pair, grid, direction)) == 5
    parts = leaf_of(pair, grid, direction)
    for lower, upper in (("a_lower", "a_upper"), ("b_real_lower", "b_upper")):
        for first, second in ((whole, parts), (parts, whole)):
            assert np.all(getattr(first, lower)[1:] <= getattr(second, upper)[1:])
    for name in VECTORS:
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12, atol=1e-280)
    for name in ("infinity_a_lower", "infinity_a_upper", "infinity_b_upper", "mass_limit", "window"):
        assert getattr(parts, name) == getattr(whole, name)


@pytest.mark.usefixtures("short_leaf_blocks")
def test_edges_that_rounding_puts_out_of_order_are_not_told_apart_in_blocks(monkeypatch):
    pair, grid = SubsampledGaussian(1.0, 0.9), Grid(1e-3, 20_000)
    assert pair.keeps_order(np.array([-1.0, 0.0, 1.0]))
    assert not pair.keeps_order(np.array([-1.0, 1.0, 0.0]))
    assert len(leaf_blocks(pair, grid, Direction.A_TO_B)) == 3
    monkeypatch.setattr(SubsampledGaussian, "keeps_order", lambda *_: False)
    assert len(leaf_blocks(pair, grid, Direction.A_TO_B)) == 1
    state = leaf_of(pair, grid)
    assert np.sum(state.a_lower) + state.infinity_a_lower <= 1.0
    with pytest.raises(InvalidInputError, match="cannot resolve the edges"):
        leaf(pair, grid, Direction.A_TO_B, Work(layout=SMALL))


def test_the_longest_vectors_are_mended_by_shorter_chunks(monkeypatch):
    # As for vectors so long that the first two cuts are one.
    monkeypatch.setattr("pbdist.fourier.chunk_sizes._LONGEST", 300)
    x = shape("two-sided exponential", 40_000, None)
    plan = plan_chunks(x, x)
    assert [level.chunk for level in plan.levels] == sorted({level.chunk for level in plan.levels}, reverse=True)
    assert len(plan.levels) > 1
    values, bound = convolve(x, x)
    relevant = values > 1e-290 * values.max()
    assert np.max(bound[relevant] / values[relevant]) < 1e-8


class _Measuring:
    """Works one by one, and notes the most memory that a task took."""

    parallel = 1
    peak = 0

    def map(self, function, items):
        for item in items:
            tracemalloc.start()
            try:
                yield function(item)
                self.peak = max(self.peak, tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()


@pytest.mark.parametrize("pair", [SubsampledGaussian(2.0, 0.1), Laplace(2.0)])
def test_a_task_takes_no_more_memory_than_projected(pair, tmp_path):
    from pbdist.run.giant import Scratch
    from pbdist.store import LocalPlace

    buckets = 1 << 18
    layout = Layout(block=1 << 18, task=1 << 18, spectra=1 << 20)
    mapper = _Measuring()
    work = Work(Scratch(LocalPlace(str(tmp_path / "s.zarr"))), mapper, layout)
    bounds_table([(pair, 1)], method="buckets", compositions=[2], epsilon=[0.1, 1.0], buckets=buckets, work=work)
    assert mapper.peak <= projected_bytes(buckets, layout) <= 8 * mapper.peak


def test_layouts_fit_or_are_refused_with_both_figures():
    assert layout_within(1 << 25, 550 << 20) == Layout()
    small = layout_within(1 << 25, 300 << 20)
    assert projected_bytes(1 << 25, small) <= 300 << 20
    assert projected_bytes(1 << 30, small) < 600 << 20
    with pytest.raises(InvalidInputError, match=r"33554432 buckets in blocks need \d+ MiB .* got 100 MiB"):
        layout_within(1 << 25, 100 << 20)
