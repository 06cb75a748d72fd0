"""The points that a store holds: its parts as one study, exact look-ups, and what of them may be read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from pbdist.errors import InvalidInputError, OffGridError, StoreDamagedError, shown
from pbdist.notebook import html_of_fields
from pbdist.query.arguments import check_strict, one_number, one_setting
from pbdist.query.judging import FACTOR, MISSED, between, missed_by, tell
from pbdist.query.lookup import Bounds, find_cell, find_composition, find_epsilon
from pbdist.results import Bracket, log_relative_width
from pbdist.store import (
    StoredStudy,
    check_skeleton,
    read_values,
    read_within,
)
from pbdist.store.layout import BOUNDS
from pbdist.study import StudySpec
from pbdist.study.extension import missing_parts, union_of
from pbdist.types import Direction, FloatArray, IntArray

#: Why points have no bounds.
NOT_COMPUTED, FAILED, DAMAGED = "not computed", "failed", "damaged"


#: Commit records that are read to show a study.
_MOST_LOOKED_AT = 1000


class Union:
    """The study that all parts of a store make up, and the indices of its points in the parts."""

    def __init__(self, parts: Sequence[StoredStudy]) -> None:
        self.parts = parts
        self.study: StudySpec = union_of([stored.study for stored in parts])
        self._cells: dict[str, IntArray] = {}
        self._rows: dict[str, IntArray] = {}
        if len(parts) > 1:
            index = {cell: number for number, cell in enumerate(self.study.cells)}
            self._cells = {stored.part: np.array([index[cell] for cell in stored.study.cells]) for stored in parts}

    def rows(self, stored: StoredStudy, cells: range) -> IntArray:
        """Return the indices in the whole study of consecutive cells of a part."""
        if stored.part not in self._cells:
            return np.arange(cells.start, cells.stop)
        return self._cells[stored.part][cells.start : cells.stop]

    def rows_in(self, stored: StoredStudy, cells: IntArray) -> tuple[IntArray, IntArray]:
        """Return which of some cells of the whole study a part has, as places in `cells`, and their rows in it."""
        if stored.part not in self._cells:
            return np.arange(len(cells)), cells
        if stored.part not in self._rows:
            rows = np.full(len(self.study.cells), -1)
            rows[self._cells[stored.part]] = np.arange(len(stored.study.cells))
            self._rows[stored.part] = rows
        found = self._rows[stored.part][cells]
        return np.flatnonzero(found >= 0), found[found >= 0]

    def grid_indices(self, stored: StoredStudy, compositions: int, epsilon: int) -> tuple[int, int] | None:
        """Return the indices in a part of an r and an ε of the whole study; None where the part lacks one."""
        r, value = self.study.compositions[compositions], self.study.epsilon[epsilon]
        if r not in stored.study.compositions or value not in stored.study.epsilon:
            return None
        return stored.study.compositions.index(r), stored.study.epsilon.index(value)

    def rows_of(self, cell: int) -> Iterator[tuple[StoredStudy, int]]:
        """Yield each part that has a cell of the whole study, and the cell's row in it."""
        for stored in self.parts:
            if stored.part not in self._cells:
                yield stored, cell
                continue
            rows = np.flatnonzero(self._cells[stored.part] == cell)
            if rows.size:
                yield stored, int(rows[0])

    def find(self, cell: int, compositions: int, epsilon: int) -> tuple[StoredStudy | None, tuple[int, int, int]]:
        """Return the part that has a point of the whole study, and the point's indices in it; None where none has."""
        for stored, row in self.rows_of(cell):
            indices = self.grid_indices(stored, compositions, epsilon)
            if indices is not None:
                return stored, (row, *indices)
        return None, (0, 0, 0)


class StoredPoints:
    """The points of a study in a store, as they are on the disk.

    Attributes
    ----------
    where
        The path or URL of the store.
    """

    def __init__(self, parts: tuple[StoredStudy, ...]) -> None:
        self._parts = parts
        self.where = parts[0].where
        self._committed: dict[tuple[str, int], bool] = {}
        self._checked = False

    def __repr__(self) -> str:
        """Return the name, the size and where it is."""
        spec = self.spec
        return (
            f"<Study {spec.name!r}: {len(spec.cells)} cells, {len(spec.compositions)} compositions, "
            f"{len(spec.epsilon)} epsilon, at {self.where}>"
        )

    def _repr_html_(self) -> str:
        """Return what is in the store, and whether all of it is, as a small table for notebooks."""
        spec = self.spec
        parts = {} if len(self._parts) == 1 else {"parts": f"{len(self._parts)}"}
        fields = {"store": self.where, **spec.told(), **parts, "digest": spec.digest[:16], "results": self._progress()}
        return html_of_fields(f"Study {spec.name}", fields)

    def _progress(self) -> str:
        """Return in words whether the study is complete; commit records are read, and their files are not."""
        batches = sum(stored.batches for stored in self._parts)
        if batches > _MOST_LOOKED_AT:
            return f"in {batches:,} batches: pbdist status says whether all are there"
        try:
            return "complete" if self.complete else "INCOMPLETE: pbdist status says what is missing"
        except OSError as error:
            return f"not known: {error}"

    @property
    def spec(self) -> StudySpec:
        """What the study computes, without description and targets."""
        return self._union.study

    @property
    def parts(self) -> tuple[StoredStudy, ...]:
        """The parts of the store, in the order in which they were added."""
        return self._parts

    @cached_property
    def complete(self) -> bool:
        """Whether every part that the root tells of is there, every batch has a commit record, no cell has failed."""
        if not set(self._parts[0].others_told) <= {stored.part for stored in self._parts}:
            return False
        committed = all(
            stored.results.record(index) is not None and not stored.results.failed(index)
            for stored in self._parts
            for index in range(stored.batches)
        )
        return committed and not missing_parts([stored.study for stored in self._parts], self.spec)

    def lookup(
        self,
        mechanism: str,
        *,
        compositions: int,
        epsilon: float | None = None,
        exp_epsilon: float | None = None,
        strict: bool = False,
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
        strict
            Whether bounds that miss the study's tolerance are an error.
        **noise
            As many of the cell's parameters as tell it from the others: ``scale``, ``reading``, ``factor``, ...; a
            ``factor`` of None or ``"auto"`` is the automatic one.

        Raises
        ------
        OffGridError
            The store does not hold that point, or not yet; the text names the neighbours.
        InvalidInputError
            Several cells match, or a parameter is unknown.
        StoreDamagedError
            The stored values cannot be read.
        PrecisionError
            If `strict`, and the study has missed its tolerance there.

        Warns
        -----
        PrecisionWarning
            If the study has missed its tolerance there.
        """
        check_strict(self.spec, strict)
        if not isinstance(mechanism, str):
            raise InvalidInputError(f"mechanism: expected a label of the study, got {shown(mechanism)}")
        cell = find_cell(self.spec, mechanism, one_setting(noise))
        r = find_composition(self.spec, one_number("compositions", compositions))
        epsilon, exp_epsilon = (
            value if value is None else one_number(name, value)
            for name, value in (("epsilon", epsilon), ("exp_epsilon", exp_epsilon))
        )
        e = find_epsilon(self.spec, epsilon, exp_epsilon)
        self._check()
        stored, (row, *rest) = self._union.find(cell, r, e)
        if stored is None or not self._is_committed(stored, row):
            raise self._missing(cell, stored, row)
        values = {name: read_values(stored, name, (row, slice(None), *rest)) for name in BOUNDS}
        if any(np.isnan(value).any() for value in values.values()):
            raise self._missing(cell, stored, row)
        if not self.spec.cells[cell].pair.attained_by_some:
            # The stored one is 0.
            values.update({name: np.full_like(values[name], np.nan) for name in ("delta_lower", "log_delta_lower")})
        within = None
        if self.spec.sought is not None:
            within = bool(read_within(stored, row)[:, rest[0], rest[1]].all())
            self._tell(cell, r, e, values, within=within, strict=strict)
        return Bounds(
            setting=self.spec.cells[cell].describe(),
            compositions=self.spec.compositions[r],
            epsilon=self.spec.epsilon[e],
            directions=tuple(direction.value for direction in Direction),
            brackets=tuple(Bracket(*sides) for sides in zip(*(values[name].tolist() for name in BOUNDS), strict=True)),
            within_tolerance=within,
            why_wide=""
            if within in (None, True)
            else MISSED
            if self.spec.seeks_tolerance(self.spec.cells[cell])
            else FACTOR,
            adjacency=self.spec.neighbours_of(self.spec.cells[cell]),
        )

    def maxima(self, compositions: int, epsilon: int) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of every cell at one point, the larger of the two directions.

        Parameters
        ----------
        compositions, epsilon
            Indices in the study's grids.

        Returns
        -------
        lower, upper : ndarray, shape (cells,)
            NaN where a cell is not committed, or its files are not those of its commit record.
        """
        self._check()
        found = {name: np.full(len(self.spec.cells), np.nan) for name in ("delta_lower", "delta_upper")}
        for stored, cells in self.committed_batches():
            indices = self._union.grid_indices(stored, compositions, epsilon)
            if indices is None:
                continue
            for name, maxima in found.items():
                values = read_values(stored, name, (slice(cells.start, cells.stop), slice(None), *indices))
                # NaN in either direction is NaN in the maximum.
                maxima[self._union.rows(stored, cells)] = values.max(axis=1)
        return found["delta_lower"], found["delta_upper"]

    def gaps(self, cells: Iterable[int]) -> dict[int, str]:
        """Return why cells lack bounds: some points, or all, are not computed, failed, or damaged; others are left out.

        Cells of a batch without a sound commit record count as not computed. Files are compared with that record.
        """
        self._check()
        found: dict[int, str] = {}
        for cell in cells:
            for stored, row in self._union.rows_of(cell):
                batch = row // stored.cells_per_batch
                if stored.results.record(batch) is None:
                    found[cell] = NOT_COMPUTED
                elif not self._is_committed(stored, row):
                    found[cell] = DAMAGED
                elif row in stored.results.failed(batch):
                    found[cell] = FAILED
        return found

    def committed_batches(self) -> Iterator[tuple[StoredStudy, range]]:
        """Yield part and cells of each batch that is committed, and whose files are those of its commit record.

        A cell that could not be computed has NaN there.
        """
        for stored in self._parts:
            for index in range(stored.batches):
                cells = stored.head.cells_of(index)
                if self._is_committed(stored, cells.start):
                    yield stored, cells

    def recorded_points(self) -> Iterator[tuple[StoredStudy, range, int, int]]:
        """Yield part and cells of each batch that is committed, and what its record tells; its files are not compared.

        That is, at how many points the tolerance was sought, and at how many it was missed.
        """
        for stored in self._parts:
            for index in range(stored.batches):
                record = stored.results.record(index)
                if record is not None:
                    yield stored, stored.head.cells_of(index), record.points, record.missed

    @cached_property
    def _union(self) -> Union:
        return Union(self._parts)

    def _check(self) -> None:
        """Compare the store's metadata and coordinates with those of the study, once."""
        if not self._checked:
            for stored in self._parts:
                check_skeleton(stored)
            self._checked = True

    def _is_committed(self, stored: StoredStudy, cell: int) -> bool:
        """Whether the batch of a cell of a part is committed, and its files are those of the commit record."""
        key = stored.part, cell // stored.cells_per_batch
        if key not in self._committed:
            self._committed[key] = stored.results.is_sound(key[1])
        return self._committed[key]

    def _tell(self, cell: int, r: int, e: int, values: Mapping[str, FloatArray], *, within: bool, strict: bool) -> None:
        """Tell of a stored point at which the study has missed its tolerance."""
        setting = self.spec.cells[cell]
        if within or not self.spec.seeks_tolerance(setting):
            return
        width = log_relative_width(values["log_delta_lower"], values["log_delta_upper"])
        if self.spec.direction == "both":
            width = log_relative_width(values["log_delta_lower"].max(), values["log_delta_upper"].max())
        lower, upper = (float(values[name].max()) for name in ("delta_lower", "delta_upper"))
        at = f"{setting.describe()}, r = {self.spec.compositions[r]}, ε = {self.spec.epsilon[e]:.6g}"
        missed = missed_by(
            np.array([True]),
            np.array([np.max(width)]),
            self.spec,
            "delta_upper / delta_lower - 1",
            lambda _: f"{at}: {between('δ', lower, upper)}: the study itself missed the tolerance there",
        )
        tell(missed, strict=strict, depth=4)

    def _missing(self, cell: int, stored: StoredStudy | None, row: int) -> OffGridError | StoreDamagedError:
        """Return the error that says why a cell has no bounds."""
        setting = self.spec.cells[cell].describe()
        batch = 0 if stored is None else row // stored.cells_per_batch
        if stored is None or stored.results.record(batch) is None:
            return OffGridError(f"{self.where}: {setting} is not computed yet: run the study again")
        cause = stored.results.failed(batch).get(row)
        if cause is not None:
            return OffGridError(f"{self.where}: {setting} could not be computed: {cause}")
        return StoreDamagedError(
            f"{self.where}: {setting} was computed, but its files have changed or are missing:"
            " run the study again with --check"
        )
