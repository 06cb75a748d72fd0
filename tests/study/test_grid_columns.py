"""The columns of cells from grids are those of the cells made one by one."""

from pathlib import Path

import numpy as np
import pytest

from pbdist.study.columns import cell_columns
from pbdist.study.grid_cells import CellGrid, GridCells, LazyCells, columns_of_pairs
from tests.study.grids import cells_of_every_kind, every_kind


def same(left: LazyCells, right: object) -> bool:
    # NaN is written as itself.
    return repr(cell_columns(left)) == repr(cell_columns(right))  # type: ignore[arg-type]


@pytest.mark.parametrize("part", [slice(None), slice(3, 90), slice(None, None, -7), slice(5, 6), slice(4, 4)])
def test_columns_are_those_of_the_cells_made_one_by_one(tmp_path: Path, part: slice) -> None:
    assert same(every_kind(tmp_path).cells[part], cells_of_every_kind()[part])  # type: ignore[arg-type]


def test_a_value_that_depends_on_several_axes_is_made_one_by_one(tmp_path: Path) -> None:
    cells = every_kind(tmp_path).cells
    assert isinstance(cells, GridCells)
    grid: CellGrid = cells.grids[0]
    (piece,) = GridCells([grid]).pieces()
    found = columns_of_pairs(piece, lambda pair: {"product": pair.scale * pair.sensitivity})  # type: ignore[attr-defined]
    assert found == {"product": [cell.pair.scale * cell.pair.sensitivity for cell in grid.cells()]}  # type: ignore[attr-defined]
    assert len(np.unique(found["product"])) > 3
