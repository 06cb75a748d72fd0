import numpy as np

from pbdist.mechanisms import Gaussian, Histogram, Laplace, NoisyCount, Pair, Product, RandomizedResponse
from pbdist.study import Cell
from pbdist.study.plan import similar_cells


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
    class_of, examples = similar_cells(cells)
    assert class_of.tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 10, 10, 11]
    assert [class_of[example] for example in examples] == list(range(12))


def test_classes_are_merged_where_there_are_too_many_and_kinds_kept_apart() -> None:
    scales = [float(x) for x in np.geomspace(1e-6, 1e6, 40)]
    cells = [Cell("c", Laplace(scale, sensitivity), None) for scale in scales for sensitivity in scales]
    cells += [Cell("c", Gaussian(scale, sensitivity), None) for scale in scales for sensitivity in scales]
    class_of, examples = similar_cells(cells)
    assert 20 <= len(examples) <= 200
    assert set(class_of.tolist()) == set(range(len(examples)))
    for number, example in enumerate(examples):
        kinds = {type(cells[index].pair) for index in np.flatnonzero(class_of == number)}
        assert kinds == {type(cells[example].pair)}
