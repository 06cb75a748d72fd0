import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbdist.mechanisms import Gaussian, Histogram, Laplace, NoisyCount, Pair, Product, RandomizedResponse
from pbdist.study import Cell
from pbdist.study.batches import Batch, Batches, alike_cells, batch_length


@settings(max_examples=100, deadline=None)
@given(seconds=st.lists(st.floats(1e-4, 100.0), min_size=1, max_size=200), length=st.integers(1, 64))
def test_batches_are_a_sequence_of_all_cells(seconds: list[float], length: int) -> None:
    batches = Batches(length, np.array(seconds))
    listed = list(batches)
    assert len(batches) == len(listed)
    assert [batches[place] for place in range(len(batches))] == listed == batches[:]
    assert batches[-1] == listed[-1]
    assert batches.seconds.tolist() == [batch.seconds for batch in listed] == sorted(batches.seconds, reverse=True)
    assert sorted((batch.start, batch.stop) for batch in listed) == [
        (start, min(start + length, len(seconds))) for start in range(0, len(seconds), length)
    ]
    for batch in listed:
        assert batches.of(batch.index) == batch
        assert batch.seconds == pytest.approx(sum(seconds[batch.start : batch.stop]))
    assert batches == Batches(length, np.array(seconds))
    assert batches != Batches(length, 2.0 * np.array(seconds))


def test_a_few_long_cells_do_not_make_all_batches_small() -> None:
    seconds = np.full(100_000, 1e-3)
    even = batch_length(seconds, 100)
    assert 2.5 < even * 1e-3 <= 5.0
    seconds[[7, 70_000]] = 5.0
    assert batch_length(seconds, 100) >= even // 2
    # Where the work is in long cells, each is a batch.
    seconds[::2] = 10.0
    assert batch_length(seconds, 100) == 1


def test_a_batch_is_no_larger_than_what_a_worker_can_hold() -> None:
    seconds = np.full(100_000, 1e-3)
    assert batch_length(seconds, 2**20) == 32
    assert batch_length(seconds, 2**40) == 1
    assert Batches(1, seconds[:1])[0] == Batch(0, 0, 1, 1e-3)


def test_cells_of_one_kind_and_size_are_alike_and_no_others() -> None:
    pairs: list[Pair] = [
        Laplace(10.0),
        Laplace(11.0),
        Laplace(40.0),
        Laplace(10.0, truncate=(-50.0, 50.0)),
        Gaussian(10.0),
        RandomizedResponse(0.5001),
        RandomizedResponse(0.6),
        RandomizedResponse(1.0),
        Histogram([1, 2], [2, 1]),
        NoisyCount(Laplace(10.0), 100, 1),
        NoisyCount(Laplace(11.0), 111, 1),
        NoisyCount(Laplace(10.0), 200, 1),
        Product(Laplace(10.0), Gaussian(10.0)),
        Product(Laplace(11.0), Gaussian(11.0)),
    ]
    cells = [Cell("c", pair, None) for pair in pairs] + [Cell("c", Laplace(10.0), 1.001)]
    class_of, examples = alike_cells(cells)
    assert class_of.tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 10, 10, 11]
    assert [class_of[example] for example in examples] == list(range(12))


def test_classes_are_merged_where_there_are_too_many_and_kinds_kept_apart() -> None:
    scales = [float(x) for x in np.geomspace(1e-6, 1e6, 40)]
    cells = [Cell("c", Laplace(scale, sensitivity), None) for scale in scales for sensitivity in scales]
    cells += [Cell("c", Gaussian(scale, sensitivity), None) for scale in scales for sensitivity in scales]
    class_of, examples = alike_cells(cells)
    assert 20 <= len(examples) <= 200
    assert set(class_of.tolist()) == set(range(len(examples)))
    for number, example in enumerate(examples):
        kinds = {type(cells[place].pair) for place in np.flatnonzero(class_of == number)}
        assert kinds == {type(cells[example].pair)}
