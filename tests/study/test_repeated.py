"""Repeated cells are found as by a dict of all cells."""

import random
from collections.abc import Mapping, Sequence

import pytest

from pbdist.mechanisms import Laplace
from pbdist.study import Cell
from pbdist.study.grid_cells import Axis, CellGrid, PairGrid, repeated_cells


def one_by_one(entries: Mapping[int, Sequence[CellGrid]]) -> list[tuple[int, Cell, int]]:
    found: dict[Cell, int] = {}
    repeated = []
    for entry, grids in entries.items():
        for cell in (cell for grid in grids for cell in grid.cells()):
            if cell in found:
                repeated.append((entry, cell, found[cell]))
                break
            found[cell] = entry
    return repeated


@pytest.mark.slow
def test_repeated_cells_are_those_that_a_dict_finds() -> None:
    generator = random.Random(2)  # noqa: S311 -- no secret

    def some() -> tuple[float, ...]:
        return tuple(float(generator.randrange(1, 12)) for _ in range(generator.randrange(1, 4)))

    found = 0
    for _ in range(400):
        entries = {}
        for entry in range(generator.randrange(1, 4)):
            label = generator.choice("ab")
            grids = []
            for _ in range(generator.randrange(1, 3)):
                axes = [Axis((name,), (some(),)) for name in ("scale", "sensitivity")]
                grids.append(CellGrid(label, PairGrid(Laplace, {"truncate": None}, axes), (None, 1.5)))
            entries[entry] = grids
        expected = one_by_one(entries)
        assert sorted(repeated_cells(entries), key=lambda one: one.entry) == expected
        found += len(expected)
    assert found > 100


def test_pairs_of_a_list_are_compared_too() -> None:
    pairs = PairGrid.listed([Laplace(2.0), Laplace(3.0), Laplace(2.0)])
    grid = PairGrid(Laplace, {"scale": 3.0, "sensitivity": 1.0, "truncate": None}, [])
    first, second = CellGrid("a", pairs, (None,)), CellGrid("a", grid, (None,))
    assert [(one.entry, one.cell.pair, one.first_entry) for one in repeated_cells({4: [first], 6: [second]})] == [
        (4, Laplace(2.0), 4),
        (6, Laplace(3.0), 4),
    ]
