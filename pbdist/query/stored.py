"""The points that a store holds: its parts as one study, exact look-ups, and what of them may be read."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np

from pbdist.errors import InvalidInputError, OffGridError, StoreDamagedError, shown
from pbdist.mechanisms import ElementaryPair, Histogram, Pair, Reversed
from pbdist.notebook import html_of_fields
from pbdist.query.convex_delta import Curve, StateAt, StateReader, with_state
from pbdist.query.judging import FACTOR, MISSED, between, missed_by, tell
from pbdist.query.lookup import Bounds, check_strict, find_cell, find_composition, find_epsilon, one_number, one_setting
from pbdist.results import Bracket, log_relative_width
from pbdist.store import Refinement, StoredStudy, check_skeleton
from pbdist.store.layout import BOUNDS, WITHIN
from pbdist.study import StudySpec
from pbdist.study.extension import missing_parts, union_of
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

#: Why points have no bounds.
NOT_COMPUTED, FAILED, DAMAGED = "not computed", "failed", "damaged"


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
        fields = {
            "store": self.where,
            **spec.summary(),
            **parts,
            "digest": spec.digest[:16],
            "results": self._progress(),
        }
        return html_of_fields(f"Study {spec.name}", fields)

    def _progress(self) -> str:
        """Return in words whether the study is complete, by a listing."""
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
        """Whether every part that the root lists is there, every batch is committed, and no cell has failed."""
        if not set(self._parts[0].extensions) <= {stored.part for stored in self._parts}:
            return False
        committed = all(stored.known_progress.complete for stored in self._parts)
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
        values = {name: stored.values(name, (row, slice(None), *rest)) for name in BOUNDS}
        if any(np.isnan(value).any() for value in values.values()):
            raise self._missing(cell, stored, row)
        if not self.spec.cells[cell].pair.attained_by_some:
            # The stored one is 0.
            values.update({name: np.full_like(values[name], np.nan) for name in ("delta_lower", "log_delta_lower")})
        within = None
        if self.spec.sought is not None:
            within = bool(stored.values(WITHIN, row)[:, rest[0], rest[1]].all())
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
            NaN where a cell is not committed, or its files are damaged.
        """
        self._check()
        found = {name: np.full(len(self.spec.cells), np.nan) for name in ("delta_lower", "delta_upper")}
        for stored, cells in self.committed_batches():
            indices = self._union.grid_indices(stored, compositions, epsilon)
            if indices is None:
                continue
            for name, maxima in found.items():
                values = stored.values(name, (slice(cells.start, cells.stop), slice(None), *indices))
                # NaN in either direction is NaN in the maximum.
                maxima[self._union.rows(stored, cells)] = values.max(axis=1)
        return found["delta_lower"], found["delta_upper"]

    def gaps(self, cells: Iterable[int]) -> dict[int, str]:
        """Return why cells lack bounds, some or all: not computed, failed, or damaged; other cells are left out."""
        self._check()
        found: dict[int, str] = {}
        for cell in cells:
            for stored, row in self._union.rows_of(cell):
                batch = row // stored.cells_per_batch
                if not stored.known_progress.committed[batch]:
                    found[cell] = NOT_COMPUTED
                elif not self._is_committed(stored, row):
                    found[cell] = DAMAGED
                elif row in stored.failures(batch):
                    found[cell] = FAILED
        return found

    def committed_batches(self) -> Iterator[tuple[StoredStudy, range]]:
        """Yield part and cells of each batch that is committed and sound.

        A cell that could not be computed has NaN there.
        """
        for stored in self._parts:
            for index in range(stored.batches):
                cells = stored.cells_of(index)
                if self._is_committed(stored, cells.start):
                    yield stored, cells

    def recorded_points(self) -> Iterator[tuple[StoredStudy, range, int, int]]:
        """Yield part and cells of each committed batch, and at how many points the tolerance was sought and missed.

        Bounds are not read, and checksums are not compared.
        """
        for stored in self._parts:
            for index, (sought, missed) in stored.judged(stored.known_progress).items():
                yield stored, stored.cells_of(index), sought, missed

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
        """Whether the batch of a cell of a part is committed and sound."""
        key = stored.part, cell // stored.cells_per_batch
        if key not in self._committed:
            self._committed[key] = stored.is_sound(key[1])
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
        if stored is None or not stored.known_progress.committed[batch]:
            return OffGridError(f"{self.where}: {setting} is not computed yet: run the study again")
        cause = stored.failures(batch).get(row)
        if cause is not None:
            return OffGridError(f"{self.where}: {setting} could not be computed: {cause}")
        return StoreDamagedError(
            f"{self.where}: {setting} was computed, but its files have changed or are missing:"
            " run the study again with --check"
        )


#: Some points: numbers of rounds and ε, both increasing; the arrays of `BOUNDS` over (bound, direction, r, ε), NaN
#: where there is no point; and where the tolerance is met, over (direction, r, ε).
Source = tuple[tuple[int, ...], tuple[float, ...], FloatArray, BoolArray]
#: Batches whose values are kept in memory.
_MOST_BATCHES = 256


class PairPoints:
    """All stored points of one pair; where several sources have the same one, the best bounds count.

    Attributes
    ----------
    compositions : ndarray of int64, shape (R,)
        The r with a point, increasing.
    gridded : bool
        Whether the study has computed them, on its grids; else they are refinements, of single points.
    states : callable or None
        Returns the kept state of a number of rounds, None where there is none.
    ordered : bool
        Whether δ does not fall with r: post-processing may ignore the outcomes of further rounds. False for histograms
        whose masses do not sum to exactly 1.
    """

    def __init__(self, pair: Pair, sources: Sequence[Source], *, gridded: bool, states: StateAt | None = None) -> None:
        self.pair, self.gridded, self.states = pair, gridded, states
        rounds = sorted({r for compositions, _, _, _ in sources for r in compositions})
        losses = sorted({value for _, epsilon, _, _ in sources for value in epsilon})
        lowest = [name.endswith("upper") for name in BOUNDS]
        values = np.full((len(BOUNDS), len(Direction), len(rounds), len(losses)), np.nan)
        within = np.zeros(values.shape[1:], dtype=bool)
        for compositions, epsilon, given, met in sources:
            # A point has all of its numbers or does not count.
            known = np.where(np.isnan(given).any(axis=(0, 1)), np.nan, given)
            grid = np.ix_(np.searchsorted(rounds, compositions), np.searchsorted(losses, epsilon))
            for index, low in enumerate(lowest):
                for axis in range(len(Direction)):
                    part = values[index, axis][grid]
                    values[index, axis][grid] = (np.fmin if low else np.fmax)(part, known[index, axis])
            for axis in range(len(Direction)):
                within[axis][grid] |= met[axis]
        there = ~np.isnan(values[0, 0])
        kept = there.any(axis=1)
        self.compositions: IntArray = np.array(rounds, dtype=np.int64)[kept]
        self._epsilon = np.array(losses, dtype=np.float64)
        self._values, self._there, self._within = values[:, :, kept], there[kept], within[:, kept]
        masses = [_masses(factor) for factor in pair.factors]
        self.ordered = all(exact for _, exact in masses)
        self._log_masses = [sum(logs[axis] for logs, _ in masses) for axis in range(len(Direction))]
        self._symmetric = pair.symmetric
        self._curves: dict[int, tuple[Curve, ...]] = {}
        self._closed: FloatArray | None = None

    def stored(self, compositions: IntArray, epsilon: FloatArray) -> tuple[BoolArray, FloatArray]:
        """Return which of some points are stored, shape (n,), and their values, shape (bounds, directions, n)."""
        if not self.compositions.size:
            return np.zeros(epsilon.shape, dtype=bool), np.full((len(BOUNDS), len(Direction), epsilon.size), np.nan)
        found, r, e = self._indices(compositions, epsilon)
        return found, self._values[:, :, r, e]

    def within(self, compositions: IntArray, epsilon: FloatArray) -> BoolArray:
        """Return which of some points are stored as within the tolerance, shape (directions, n)."""
        if not self.compositions.size:
            return np.zeros((len(Direction), epsilon.size), dtype=bool)
        found, r, e = self._indices(compositions, epsilon)
        return np.asarray(self._within[:, r, e] & found)

    def row_above(self, compositions: IntArray) -> IntArray:
        """Return for some r the index of the stored r whose upper bounds hold for it; -1 where there is none."""
        row = np.searchsorted(self.compositions, compositions, side="left")
        return self._checked(np.where(row < self.compositions.size, row, -1), compositions)

    def row_below(self, compositions: IntArray) -> IntArray:
        """Return for some r the index of the stored r whose lower bounds hold for it; -1 where there is none."""
        row = np.searchsorted(self.compositions, compositions, side="right") - 1
        return self._checked(row, compositions)

    def curves(self, row: int) -> tuple[Curve, ...]:
        """Return the bounds on δ at the stored r of that index, for both directions, as curves.

        The upper bounds of larger r hold too, and the lower ones of smaller r; the best counts.
        """
        if row not in self._curves:
            values = self._closure()[:, :, row]
            count = 1 if self._symmetric else len(Direction)
            curves = tuple(self._curve(values[:, axis], row, axis) for axis in range(count))
            curves = curves if count > 1 else curves * len(Direction)
            if self.states is not None:
                curves = with_state(curves, self.states, int(self.compositions[row]))
            self._curves[row] = curves
        return self._curves[row]

    def _indices(self, compositions: IntArray, epsilon: FloatArray) -> tuple[BoolArray, IntArray, IntArray]:
        """Return which of some points are stored, and the indices of r and ε that they have or would have."""
        r = np.minimum(np.searchsorted(self.compositions, compositions), self.compositions.size - 1)
        e = np.minimum(np.searchsorted(self._epsilon, epsilon), self._epsilon.size - 1)
        return (self.compositions[r] == compositions) & (self._epsilon[e] == epsilon) & self._there[r, e], r, e

    def _checked(self, row: IntArray, compositions: IntArray) -> IntArray:
        if self.ordered or not self.compositions.size:
            return row
        return np.where(self.compositions[row] == compositions, row, -1)

    def _closure(self) -> FloatArray:
        """Return logarithms of the best lower and upper bounds that all r prove, over (bound, direction, r, ε)."""
        if self._closed is None:
            logs = self._values[[list(BOUNDS).index("log_delta_lower"), list(BOUNDS).index("log_delta_upper")]]
            if self.ordered:
                lower = np.fmax.accumulate(logs[0], axis=1)
                upper = np.fmin.accumulate(logs[1][:, ::-1], axis=1)[:, ::-1]
                logs = np.stack((lower, upper))
            self._closed = logs
        return self._closed

    def _curve(self, values: FloatArray, row: int, axis: int) -> Curve:
        lower, upper = values
        low, high = ~np.isnan(lower), ~np.isnan(upper)
        log_mass = float(self.compositions[row]) * self._log_masses[axis]
        # Of a product of floats, rounded up once more.
        log_mass = math.nextafter(log_mass, math.inf) if log_mass > 0.0 else 0.0
        return Curve(self._epsilon[high], upper[high], self._epsilon[low], lower[low], log_mass)


class PointReader:
    """Reads the points of cells of a study from the parts of its store, batch by batch.

    `committed` says whether the batch of a row of a part is committed and sound; others are not read.
    """

    def __init__(
        self, union: Union, committed: Callable[[StoredStudy, int], bool], refinements: Sequence[Refinement]
    ) -> None:
        self._union, self._committed = union, committed
        self.refinements = tuple(refinements)
        self._refined: dict[Pair, list[Source]] = {}
        for one in refinements:
            self._refined.setdefault(one.cell.pair, []).append((one.compositions, one.epsilon, one.values, one.within))
        self._batches: dict[tuple[str, int], tuple[FloatArray, BoolArray]] = {}
        self._known: dict[tuple[Pair, tuple[int, ...]], PairPoints] = {}
        self._states = StateReader()

    def with_refinements(self, refinements: Sequence[Refinement]) -> "PointReader":
        """Return a reader of the same study with other refinements; what was read is not read again."""
        reader = PointReader(self._union, self._committed, refinements)
        reader._batches, reader._states = self._batches, self._states
        return reader

    @property
    def refined(self) -> Sequence[Pair]:
        """The pairs of the refinements."""
        return tuple(self._refined)

    def points(self, pair: Pair, cells: Sequence[int]) -> PairPoints:
        """Return the points of a pair: those of `cells`, all of which have that pair, and of the refinements.

        A `StoreDamagedError` where the stored values cannot be read.
        """
        key = (pair, tuple(cells))
        if key not in self._known:
            sources = [source for cell in cells for source in self._of_cell(cell)]
            # A batch that is committed later does not count for a store that is open already.
            self._known[key] = PairPoints(
                pair,
                [*sources, *self._refined.get(pair, ())],
                gridded=bool(sources),
                states=self._states.at(list(self._rows(cells))),
            )
        return self._known[key]

    def _rows(self, cells: Sequence[int]) -> Iterator[tuple[StoredStudy, int]]:
        """Yield part and row of each of the cells that is committed."""
        for cell in cells:
            yield from ((stored, row) for stored, row in self._union.rows_of(cell) if self._committed(stored, row))

    def _of_cell(self, cell: int) -> list[Source]:
        found = []
        for stored, row in self._rows([cell]):
            batch = row // stored.cells_per_batch
            values, within = self._values(stored, batch)
            index = row - batch * stored.cells_per_batch
            found.append((stored.study.compositions, stored.study.epsilon, values[:, index], within[index]))
        return found

    def _values(self, stored: StoredStudy, batch: int) -> tuple[FloatArray, BoolArray]:
        key = (stored.part, batch)
        if key not in self._batches:
            while len(self._batches) >= _MOST_BATCHES:
                del self._batches[next(iter(self._batches))]
            cells = stored.cells_of(batch)
            selection = slice(cells.start, cells.stop)
            values = np.stack([stored.values(name, selection) for name in BOUNDS])
            self._batches[key] = values, stored.values(WITHIN, selection)
        return self._batches[key]


def _masses(factor: ElementaryPair) -> tuple[tuple[float, float], bool]:
    """Return upper bounds on the logarithms of the masses of P_A and P_B, and whether both masses are exactly 1."""
    first, second = factor.total_mass
    inner = factor
    while isinstance(inner, Reversed):
        inner = inner.pair
    exact = not isinstance(inner, Histogram) or all(
        isinstance(values[0], int) or sum(map(Fraction, values)) == 1 for values in (inner.p, inner.q)
    )
    return (_log_above(first), _log_above(second)), exact


def _log_above(total: float) -> float:
    return 0.0 if total <= 1.0 else math.log(total) * (1.0 + 2.0**-48)
