"""Read the points of some cells from all parts of a store, and say of each point why it is not there."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query.stored import Parts
from pbdist.store import StoredStudy
from pbdist.store.layout import BOUNDS, COMPUTED, GRIDS, WITHIN
from pbdist.study import Cell, StudySpec
from pbdist.study.columns import cell_columns, column_descriptions
from pbdist.study.spec import exponential
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, BoolArray, Direction, IntArray


class PointState(IntEnum):
    """Whether the store has the bounds of a point, and why not."""

    MISSING = 0
    COMPUTED = 1
    FAILED = 2
    DAMAGED = 3


@dataclass(frozen=True, eq=False)
class Block:
    """All points of some cells."""

    #: The numbers of the cells in the study.
    cells: IntArray
    #: The arrays of results by their names, as `Study.bounds` has them: over the cells alone, or over (cells,
    #: direction, compositions, epsilon). NaN, or False, where a point is not computed.
    values: Mapping[str, Any]
    #: A `PointState` of each point.
    states: Any

    def pieces(self, most_points: int) -> Iterator["Block"]:
        """Yield the block in pieces of at most so many points, but at least one cell."""
        length = max(1, most_points // self.states[0].size)
        for start in range(0, len(self.cells), length):
            part = slice(start, start + length)
            yield Block(self.cells[part], {name: each[part] for name, each in self.values.items()}, self.states[part])


class BlockReader:
    """Reads blocks of a study's cells."""

    def __init__(self, parts: Parts) -> None:
        self._parts, study = parts, parts.spec
        self._shape = (len(Direction), len(study.compositions), len(study.epsilon))
        self.names = (*BOUNDS, *([WITHIN] if study.required_tolerance is not None else []), *COMPUTED)
        r, e = ({value: index for index, value in enumerate(grid)} for grid in (study.compositions, study.epsilon))
        self._grids = {
            stored.part: np.ix_(
                [r[value] for value in stored.study.compositions], [e[value] for value in stored.study.epsilon]
            )
            for stored in parts.parts
        }

    def read(self, cells: IntArray) -> Block:
        """Return the points of some cells; a `StoreDamagedError` where the bytes of a batch cannot be read."""
        values: dict[str, Any] = {name: np.full((len(cells), *self._shape), np.nan) for name in BOUNDS}
        if WITHIN in self.names:
            values[WITHIN] = np.zeros((len(cells), *self._shape), dtype=bool)
        values |= {name: np.full(len(cells), np.nan) for name in COMPUTED}
        block = Block(cells, values, np.full((len(cells), *self._shape[1:]), PointState.MISSING, dtype=np.uint8))
        for stored in self._parts.parts:
            places, rows = self._parts.rows_in(stored, cells)
            for batch in np.unique(rows // stored.cells_per_batch).tolist():
                mine = rows // stored.cells_per_batch == batch
                self._fill(block, stored, batch, places[mine], rows[mine])
        return block

    def _fill(self, block: Block, stored: StoredStudy, batch: int, places: IntArray, rows: IntArray) -> None:
        """Put the points of one batch of a part into a block."""
        cells, (r, e) = stored.cells_of(batch), self._grids[stored.part]
        found = stored.read(batch) if self._parts.is_committed(stored, cells.start) else None
        points = (places[:, None, None], r, e)
        if found is None:
            lost = PointState.DAMAGED if stored.known_progress.committed[batch] else PointState.MISSING
            block.states[points] = lost
            return
        directions = np.arange(len(Direction))[:, None, None]
        for name in self.names:
            values = found.values(name)[rows - cells.start]
            if name in COMPUTED:
                block.values[name][places] = np.fmin(block.values[name][places], values)
            else:
                block.values[name][places[:, None, None, None], directions, r, e] = values
        states = np.where(found.failed[rows - cells.start], PointState.FAILED, PointState.COMPUTED)
        block.states[points] = states[:, None, None]


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
    **COMPUTED,
    "adjacency": "for which neighbours: what is done to one record or a group, or as-stated, those of the parameters",
    DIRECTION: f"{GRIDS[DIRECTION]}; {BOTH}: the larger of the two",
    **{name: GRIDS[name] for name in (COMPOSITIONS, EPSILON, "exp_epsilon")},
    **BOUNDS,
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
