"""The points of a study as rows: one column for each parameter, and for each bound."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query.blocks import Block, PointState
from pbdist.store.cell_columns import cell_columns, column_descriptions
from pbdist.store.layout import BOUNDS, COMPUTED, GRIDS, WITHIN
from pbdist.study import Cell, StudySpec
from pbdist.study.spec import exponential
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, BoolArray, Direction

#: The direction of a bound on the larger δ of the two.
BOTH = "both"
#: The column that says what is known of a point.
STATUS = "status"
UPPER_ONLY = "upper only"
UNATTAINED = "not known of release plans that no change is declared to attain: not a number there"
_STATUS = {state: state.name.lower() for state in PointState}
_LOWER = ("delta_lower", "log_delta_lower")

_BEFORE = {"cell": "number of the cell in the study, from 0", "setting": "the cell in words"}
#: The columns of bounds, and what each holds.
ABOUT = {
    **{name: about.long_name for name, about in COMPUTED.items()},
    "adjacency": "for which neighbours: what is done to one record or a group, or as-stated, those of the parameters",
    DIRECTION: f"{GRIDS[DIRECTION].long_name}; {BOTH}: the larger of the two",
    **{name: GRIDS[name].long_name for name in (COMPOSITIONS, EPSILON, "exp_epsilon")},
    **{name: about.long_name for name, about in BOUNDS.items()},
    WITHIN: "whether the bounds meet within the tolerance",
    STATUS: "computed; upper only: no lower bound is known; missing, failed, damaged: nothing is known",
}


def about_rows(cells: Sequence[Cell]) -> dict[str, str]:
    """Return the columns of the points of some cells, in their order, and what each holds."""
    return {**_BEFORE, **column_descriptions(cells), **ABOUT}


def attained_of(cells: Sequence[Cell]) -> BoolArray:
    """Return for each cell whether a lower bound can be known."""
    return np.array([cell.pair.attained_by_some for cell in cells], dtype=bool)


def bounds_of_block(block: Block, attained: BoolArray, direction: str) -> dict[str, Any]:
    """Return bounds and tolerance of a block over (cells, directions, r, ε); a lower bound that is not known is NaN.

    With `direction` ``both`` the one direction is the larger of the two.
    """
    found = {name: values for name, values in block.values.items() if name not in COMPUTED}
    if direction == BOTH:
        found = {
            name: values.all(axis=1, keepdims=True) if name == WITHIN else values.max(axis=1, keepdims=True)
            for name, values in found.items()
        }
    if not attained.all():
        # The stored one is 0.
        found |= {name: np.where(attained[:, None, None, None], found[name], np.nan) for name in _LOWER}
    return found


def status_of(block: Block, attained: BoolArray) -> Any:
    """Return what is known of each point of a block, as text over (cells, r, ε)."""
    names = np.array([*_STATUS.values(), UPPER_ONLY], dtype=object)
    above = (block.states == PointState.COMPUTED) & ~attained[:, None, None]
    return names[np.where(above, len(_STATUS), block.states)]


def rows_of(
    block: Block,
    study: StudySpec,
    r: Sequence[int],
    epsilon: Sequence[int],
    direction: str,
    *,
    names: Collection[str],
) -> dict[str, Any]:
    """Return the points of a block at some r and ε, by their indices, as columns of equal length.

    The last index changes fastest: cell, direction, r, ε. Text is an array of objects. `names` has the columns that
    are wanted; parameters that few mechanisms have are there if it has them.
    """
    cells = [study.cells[cell] for cell in block.cells.tolist()]
    attained = attained_of(cells)
    directions = [BOTH] if direction == BOTH else [one.value for one in Direction]
    inner = len(directions) * len(r) * len(epsilon)
    columns: dict[str, Any] = {"cell": block.cells, "setting": _text([cell.describe() for cell in cells])}
    for name, values in cell_columns(cells, names).items():
        if name in known_columns() and name in names:
            columns[name] = _text(values) if is_text(name) else np.array(values, dtype=np.float64)
    columns |= {name: block.values[name] for name in COMPUTED}
    columns["adjacency"] = _text([study.neighbours_of(cell).value for cell in cells])
    rows = {name: np.repeat(values, inner) for name, values in columns.items()}
    grid = (len(cells), len(directions), len(r), len(epsilon))
    chosen = np.array([study.epsilon[index] for index in epsilon])
    axes = {
        DIRECTION: _text(directions)[:, None, None],
        COMPOSITIONS: np.array([study.compositions[index] for index in r], dtype=np.int64)[:, None],
        EPSILON: chosen,
        "exp_epsilon": np.array([exponential(value) for value in chosen.tolist()]),
    }
    rows |= {name: np.broadcast_to(values, grid).reshape(-1) for name, values in axes.items()}
    take = np.ix_(r, epsilon)
    for name, values in bounds_of_block(block, attained, direction).items():
        rows[name] = values[:, :, take[0], take[1]].reshape(-1)
    status = status_of(block, attained)[:, take[0], take[1]]
    rows[STATUS] = np.broadcast_to(status[:, None], grid).reshape(-1)
    return rows


def _text(values: Sequence[Any]) -> Any:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found
