"""An opened study: its bounds as a lazily loaded Dataset, and exact look-ups."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
import xarray as xr

from pbdist.errors import OffGridError, StoreDamagedError
from pbdist.query.lookup import Bounds, find_cell, find_composition, find_epsilon
from pbdist.store import StoredStudy, check_skeleton, commit_record, is_committed, open_store
from pbdist.store.layout import BOUNDS, CELL, COLUMNS, COMPUTED
from pbdist.study import StudySpec
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, Direction, FloatArray

__all__ = ["Study", "open_study"]


class Study:
    """A study in a store. Made by `open_study`.

    Attributes
    ----------
    path
        The folder of the store.
    """

    def __init__(self, stored: StoredStudy) -> None:
        self._stored = stored
        self.path = stored.path
        self._checked_batches: dict[int, bool] = {}

    def __repr__(self) -> str:
        """Return the name, the size and the path."""
        spec = self.spec
        return (
            f"<Study {spec.name!r}: {len(spec.cells)} cells, {len(spec.compositions)} compositions, "
            f"{len(spec.epsilon)} epsilon, at {self.path}>"
        )

    @property
    def spec(self) -> StudySpec:
        """What the study computes, without description and targets."""
        return self._stored.study

    @cached_property
    def complete(self) -> bool:
        """Whether every batch has a commit record."""
        return all(commit_record(self._stored, index) is not None for index in range(self._stored.batches))

    @cached_property
    def bounds(self) -> xr.Dataset:
        """The bounds, loaded chunk by chunk when their values are used.

        ``delta_lower``, ``delta_upper``, ``log_delta_lower`` and ``log_delta_upper`` over the dimensions ``cell``,
        ``direction``, ``compositions`` and ``epsilon``, with ``factor_used`` and ``loss_width`` over ``cell``. The
        parameters of the cells are the levels of one index, so that any of them selects::

            study.bounds.sel(mechanism="Laplace", scale=200.0, compositions=512, epsilon=0.1)

        ``exp_epsilon`` selects along ``epsilon`` too. A parameter that a mechanism does not have is empty text or not
        a number. What is not computed is not a number.

        Raises
        ------
        StoreDamagedError
            The metadata or the coordinates in the store are not those of the study.
        """
        try:
            # Before xarray looks: sound bytes under other metadata are other numbers.
            check_skeleton(self._stored)
            dataset = xr.open_zarr(self._stored.place.zarr_store(), consolidated=False, chunks=None)
            bounds: xr.Dataset = dataset[[*BOUNDS, *COMPUTED]].set_xindex(list(COLUMNS)).set_xindex("exp_epsilon")
            return bounds
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise _damaged(self.path, error) from error

    def lookup(
        self,
        mechanism: str,
        *,
        compositions: int,
        epsilon: float | None = None,
        exp_epsilon: float | None = None,
        **noise: float | str | None,
    ) -> Bounds:
        """Return the bounds at one stored point.

        Parameters
        ----------
        mechanism
            The label that the study gives the mechanism.
        compositions
            The number r of compositions.
        epsilon, exp_epsilon
            Exactly one of ε in nats and e^ε.
        **noise
            As many of the cell's parameters as tell it from the others: ``scale``, ``reading``, ``factor``, ...; a
            ``factor`` of None or ``"auto"`` is the automatic one.

        Raises
        ------
        OffGridError
            The store does not hold that point, or not yet; the text names the neighbours.
        InvalidInputError
            Several noise settings match, or a parameter is unknown.
        StoreDamagedError
            The stored values cannot be read.
        """
        cell = find_cell(self.spec, mechanism, noise)
        r = find_composition(self.spec, compositions)
        e = find_epsilon(self.spec, epsilon, exp_epsilon)
        if not self._committed(cell):
            raise self._missing(cell)
        values = {name: self._values(name, cell, r, e) for name in BOUNDS}
        if any(np.isnan(value).any() for value in values.values()):
            raise self._missing(cell)
        return Bounds(
            setting=self.spec.cells[cell].describe(),
            compositions=self.spec.compositions[r],
            epsilon=self.spec.epsilon[e],
            directions=tuple(direction.value for direction in Direction),
            **{name: tuple(float(x) for x in value) for name, value in values.items()},
        )

    def maxima(self, compositions: int, epsilon: int) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of every cell at one point, the larger of the two directions.

        Parameters
        ----------
        compositions, epsilon
            Positions on the study's grids.

        Returns
        -------
        lower, upper : ndarray, shape (cells,)
            NaN where a cell is not committed, or its files are not those of its commit record.
        """
        point = {COMPOSITIONS: compositions, EPSILON: epsilon}
        committed = np.array([self._committed(cell) for cell in range(len(self.spec.cells))])
        try:
            # NaN in any direction is NaN in the maximum: what is not known of both is not known.
            lower, upper = (
                np.asarray(self.bounds[name].isel(point).max(DIRECTION, skipna=False).values, dtype=np.float64)
                for name in ("delta_lower", "delta_upper")
            )
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise _damaged(self.path, error) from error
        return np.where(committed, lower, np.nan), np.where(committed, upper, np.nan)

    def committed_batches(self) -> Iterator[range]:
        """Yield the cells of each batch that is committed, and whose files are those of its commit record."""
        length = self._stored.cells_per_batch
        for start in range(0, len(self.spec.cells), length):
            if self._committed(start):
                yield range(start, min(start + length, len(self.spec.cells)))

    def values_of(self, name: str, cells: range) -> FloatArray:
        """Return consecutive cells of one of the bounds, over cell, direction, compositions and ε.

        Raises
        ------
        StoreDamagedError
            The stored values cannot be read.
        """
        try:
            part = self.bounds[name].isel({CELL: slice(cells.start, cells.stop)})
            return np.asarray(part.transpose(CELL, DIRECTION, COMPOSITIONS, EPSILON).values, dtype=np.float64)
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise _damaged(self.path, error) from error

    def _committed(self, cell: int) -> bool:
        """Whether the batch of a cell is committed, and its files are those of the commit record."""
        batch = cell // self._stored.cells_per_batch
        if batch not in self._checked_batches:
            self._checked_batches[batch] = is_committed(self._stored, batch)
        return self._checked_batches[batch]

    def _values(self, name: str, cell: int, r: int, e: int) -> FloatArray:
        """Return one array's value for both directions."""
        point = {CELL: cell, COMPOSITIONS: r, EPSILON: e}
        try:
            return np.asarray(self.bounds[name].isel(point).transpose(DIRECTION).values, dtype=np.float64)
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise _damaged(self.path, error) from error

    def _missing(self, cell: int) -> OffGridError | StoreDamagedError:
        batch = cell // self._stored.cells_per_batch
        setting = self.spec.cells[cell].describe()
        if commit_record(self._stored, batch) is None:
            return OffGridError(f"{self.path}: {setting} is not computed yet: run the study again")
        return StoreDamagedError(
            f"{self.path}: {setting} was computed, but its files have changed or are missing: run the study again"
        )


def open_study(path: str | Path) -> Study:
    """Open the store of a study for reading.

    Raises
    ------
    NotAStoreError
        `path` is not a pbdist store.
    StoreFormatError
        It was written in another format version.
    StoreDamagedError
        The study in it cannot be read.
    """
    return Study(open_store(path))


def _damaged(path: Path, error: Exception) -> StoreDamagedError:
    if isinstance(error, StoreDamagedError):
        return error
    text = " ".join(str(error).split())[:200]
    return StoreDamagedError(f"{path}: expected readable bounds, got: {text}: run the study again")
