"""The points of a study by labels: as a table of rows, and as a Dataset over plain dimensions."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.columns import known_columns
from pbdist.query.blocks import BlockReader
from pbdist.query.grid import grid_of
from pbdist.query.rows import BOTH, about_rows, rows_of
from pbdist.query.selection import Selection, selected
from pbdist.query.stored import StoredPoints
from pbdist.store.layout import WITHIN
from pbdist.types import Direction

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

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
