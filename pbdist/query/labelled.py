"""The points of a study by labels: as a table of rows, and as a Dataset over plain dimensions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.arguments import check_either
from pbdist.errors import InvalidInputError, OffGridError, shown
from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query.blocks import BOTH, BlockReader, about_rows, grid_of, rows_of
from pbdist.query.lookup import (
    find_composition,
    find_epsilon,
    matches,
    nearest_text,
    noise_parameter,
    one_number,
    other_names,
)
from pbdist.query.stored import StoredPoints
from pbdist.store.layout import WITHIN
from pbdist.study import StudySpec
from pbdist.study.columns import column_of
from pbdist.suggestions import did_you_mean
from pbdist.types import COMPOSITIONS, EPSILON, Direction, IntArray

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

_GRIDS = (COMPOSITIONS, EPSILON, "exp_epsilon")


@dataclass(frozen=True, eq=False)
class Selection:
    """Points of a study."""

    #: Numbers of cells, increasing.
    cells: IntArray
    #: Indices in the grids, in the order in which they were asked for.
    compositions: tuple[int, ...]
    epsilon: tuple[int, ...]
    #: The names of the grids of which one value was asked for, and of the columns of which one was.
    scalar: frozenset[str]


def selected(study: StudySpec, labels: Mapping[str, Any]) -> Selection:
    """Return the points that have all the labels; of a list of values any one of them.

    Raises
    ------
    OffGridError
        No cell has the labels, or an r or an ε is not stored; the text names what is.
    InvalidInputError
        A label is unknown, or its value is none that a label can have.
    """
    unknown = [name for name in labels if name not in known_columns() and name not in _GRIDS]
    if unknown:
        known = (*known_columns(), *_GRIDS)
        near = did_you_mean(unknown[0], known, other_names())
        raise InvalidInputError(f"{unknown[0]}: expected one of {', '.join(known)}, got an unknown parameter{near}")
    if EPSILON in labels and "exp_epsilon" in labels:
        check_either(epsilon=labels[EPSILON], exp_epsilon=labels["exp_epsilon"])
    scalar = {name for name, value in labels.items() if _is_one(value)}
    if "exp_epsilon" in scalar:
        scalar.add(EPSILON)
    r: Sequence[int] = range(len(study.compositions))
    if COMPOSITIONS in labels:
        r = [find_composition(study, one_number(COMPOSITIONS, value)) for value in _each(labels, COMPOSITIONS)]
    e: Sequence[int] = range(len(study.epsilon))
    if EPSILON in labels:
        e = [find_epsilon(study, one_number(EPSILON, value), None) for value in _each(labels, EPSILON)]
    elif "exp_epsilon" in labels:
        e = [find_epsilon(study, None, one_number("exp_epsilon", value)) for value in _each(labels, "exp_epsilon")]
    return Selection(_cells(study, labels), tuple(dict.fromkeys(r)), tuple(dict.fromkeys(e)), frozenset(scalar))


def _cells(study: StudySpec, labels: Mapping[str, Any]) -> IntArray:
    """Return the cells that have all the labels."""
    found = np.arange(len(study.cells))
    for name in known_columns():
        if name not in labels:
            continue
        text = is_text(name)
        column = np.array(column_of(study.cells, name), dtype=object if text else np.float64)[found]
        matching = np.zeros(len(found), dtype=bool)
        for value in _each(labels, name):
            wanted = _wanted(name, value)
            hits = matches(name, column, wanted)
            if not hits.any():
                near = did_you_mean(wanted, dict.fromkeys(column.tolist())) if text else ""
                stored = nearest_text(name, column.tolist(), wanted)
                raise OffGridError(f"{name}: expected {stored}, got {shown(value)}{near}")
            matching |= hits
        found = found[matching]
    return found


def _wanted(name: str, value: Any) -> float | str | None:
    if is_text(name):
        if not isinstance(value, str):
            raise InvalidInputError(f"{name}: expected text, or a list of texts, got {shown(value)}")
        return str(value)
    wanted = noise_parameter(name, value)
    return float(wanted) if isinstance(wanted, np.ndarray) else wanted


def _each(labels: Mapping[str, Any], name: str) -> Sequence[Any]:
    """Return the values of a label, of which there is at least one."""
    value = labels[name]
    if _is_one(value):
        return [value]
    values = list(value)
    if not values or not all(map(_is_one, values)):
        raise InvalidInputError(f"{name}: expected one value or a list of values, got {shown(value)}")
    return values


def _is_one(value: Any) -> bool:
    return isinstance(value, str | bytes) or not isinstance(value, Iterable) or getattr(value, "ndim", None) == 0


#: So many rows are made at once, but at least those of one cell.
_ROWS_AT_ONCE = 1 << 15


class LabelledPoints(StoredPoints):
    """The points of a study in a store, selected by labels."""

    def frame(self, *, columns: Sequence[str] | None = None, direction: str = BOTH, **labels: Any) -> "pd.DataFrame":
        """Return stored points as a table of pandas, one row a point.

        Only what is asked for is read. ``study.frame(mechanism="Laplace", scale=[200, 400], compositions=512)`` has a
        row for each ε.

        Parameters
        ----------
        columns
            Which columns, in this order. By default all: ``cell`` (its number), ``setting`` (the cell in words), its
            parameters, ``factor_used``, ``loss_width``, ``direction``, ``compositions``, ``epsilon``, ``exp_epsilon``,
            ``delta_lower``, ``delta_upper``, ``log_delta_lower``, ``log_delta_upper``, ``within_tolerance`` where the
            study has a tolerance, and ``status``.
        direction
            ``"both"``: the larger of the two directions. ``"each"``: a row for A||B and one for B||A.
        **labels
            ``mechanism`` (the label) and any parameters, ``compositions``, and ``epsilon`` or ``exp_epsilon``: one
            value, or a list of which any counts.

        Returns
        -------
        DataFrame
            A bound that is not known is NaN, and ``status`` says why: ``missing`` (not computed), ``failed``,
            ``damaged``. ``upper only``: a release plan that no change is declared to attain has no lower bound. A
            parameter that a mechanism does not have is empty text or NaN. The natural logarithm of 0 is -inf.

        Raises
        ------
        OffGridError
            Nothing stored has these labels; the text says what is stored.
        InvalidInputError
            A label or a column is unknown.
        StoreDamagedError
            The stored values cannot be read.
        """
        _check_direction(direction)
        known = self.row_columns
        names = tuple(known) if columns is None else tuple(columns)
        for name in names:
            if name not in known:
                raise InvalidInputError(f"columns: expected some of {', '.join(known)}, got {shown(name)}")
        chosen = selected(self.spec, labels)
        pieces = [{name: rows[name] for name in names} for rows in self.rows(chosen, direction)]
        joined = {name: np.concatenate([piece[name] for piece in pieces]) for name in names}
        # pandas comes with xarray, and takes a third of a second to import.
        frame: pd.DataFrame = import_module("pandas").DataFrame(joined)
        return frame

    def select(self, *, direction: str = BOTH, **labels: Any) -> "xr.Dataset":
        """Return stored points as a Dataset over plain dimensions, as xarray plots it.

        Its dimensions are those parameters that tell the selected cells apart, ``compositions`` and ``epsilon``. One of
        which a single value was asked for is no dimension. So this draws a line for each scale::

            study.select(mechanism="Laplace", compositions=512).delta_upper.plot(x="epsilon", hue="scale", yscale="log")

        Arguments and what is not known are as for `frame`, with ``status`` as a variable.

        Raises
        ------
        OffGridError, StoreDamagedError
            As `frame`.
        InvalidInputError
            As `frame`; or the cells that have these labels are no grid over parameters: the text says what to give
            too.
        """
        _check_direction(direction)
        chosen = selected(self.spec, labels)
        kept = [name for name in labels if name in known_columns() and name not in chosen.scalar]
        grid = grid_of([self.spec.cells[cell] for cell in chosen.cells.tolist()], kept)
        # xarray takes half a second to import.
        make = import_module("pbdist.query.dataset").selected_dataset
        dataset: xr.Dataset = make(self.blocks, self.spec, chosen, direction, grid)
        return dataset

    @cached_property
    def row_columns(self) -> Mapping[str, str]:
        """The columns of `frame`, and of an export with a row for each point, and what each holds.

        Of parameters those that the mechanisms of the study have.
        """
        found = about_rows(self.spec.cells)
        return {name: what for name, what in found.items() if name != WITHIN or self.spec.sought is not None}

    def rows(self, chosen: Selection | None, direction: str) -> Iterator[dict[str, Any]]:
        """Yield the points, by default all, as columns; of some cells at a time, so that few are in memory."""
        chosen = selected(self.spec, {}) if chosen is None else chosen
        inner = len(Direction) * len(self.spec.compositions) * len(self.spec.epsilon)
        length = max(1, _ROWS_AT_ONCE // inner)
        names = self.row_columns
        for start in range(0, len(chosen.cells), length):
            block = self.blocks.read(chosen.cells[start : start + length])
            yield rows_of(block, self.spec, chosen.compositions, chosen.epsilon, direction, names=names)

    @cached_property
    def blocks(self) -> BlockReader:
        """What reads the points of some cells."""
        # Sound bytes under other metadata are other numbers.
        self._check()
        return BlockReader(self._union, self._is_committed)


def _check_direction(direction: str) -> None:
    if direction not in (BOTH, "each"):
        raise InvalidInputError(f"direction: expected 'both' or 'each', got {shown(direction)}")
