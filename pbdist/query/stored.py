"""The points that a store holds: its parts as one study, and the points of a pair in all of them."""

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np

from pbdist.mechanisms import ElementaryPair, Histogram, Pair, Reversed
from pbdist.query.convex_delta import Curve, StateAt, StateReader, with_state
from pbdist.store import Refinement, StoredStudy, check_skeleton
from pbdist.store.layout import BOUNDS, QUANTITIES, WITHIN
from pbdist.study import StudySpec
from pbdist.study.spec import union_of
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

#: Why points have no bounds.
NOT_COMPUTED, FAILED, DAMAGED = "not computed", "failed", "damaged"


class Parts:
    """The parts of a store as one study: which of their batches are sound, and where its cells are in them.

    Attributes
    ----------
    where
        The path or URL of the store.
    parts
        The parts, in the order in which they were added.
    """

    def __init__(self, parts: tuple[StoredStudy, ...]) -> None:
        self.parts, self.where = parts, parts[0].where
        self._committed: dict[tuple[str, int], bool] = {}
        self._rows: dict[str, IntArray] = {}

    @cached_property
    def spec(self) -> StudySpec:
        """What the study computes, without description and targets."""
        return union_of([stored.study for stored in self.parts])

    @cached_property
    def _cells(self) -> dict[str, IntArray]:
        """Of each part, if there are several, the numbers that its cells have in the whole study."""
        if len(self.parts) == 1:
            return {}
        index = {cell: number for number, cell in enumerate(self.spec.cells)}
        return {stored.part: np.array([index[cell] for cell in stored.study.cells]) for stored in self.parts}

    @cached_property
    def checked(self) -> Self:
        """The same, once the store's metadata and coordinates are those of the study; others make bytes mislead."""
        for stored in self.parts:
            check_skeleton(stored)
        return self

    def is_committed(self, stored: StoredStudy, cell: int) -> bool:
        """Whether the batch of a cell of a part is committed and sound."""
        key = stored.part, cell // stored.cells_per_batch
        if key not in self._committed:
            self._committed[key] = stored.is_sound(key[1])
        return self._committed[key]

    def committed_batches(self) -> Iterator[tuple[StoredStudy, range]]:
        """Yield part and cells of each batch that is committed and sound; a cell that failed has NaN there."""
        for stored in self.parts:
            for index in range(stored.batches):
                cells = stored.cells_of(index)
                if self.is_committed(stored, cells.start):
                    yield stored, cells

    def recorded_points(self) -> Iterator[tuple[StoredStudy, range, int, int]]:
        """Yield part and cells of each committed batch, and at how many points the tolerance was sought and missed.

        Bounds are not read, and checksums are not compared.
        """
        for stored in self.parts:
            for index, (sought, missed) in stored.judged(stored.known_progress).items():
                yield stored, stored.cells_of(index), sought, missed

    def maxima(self, compositions: int, epsilon: int) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of every cell at one point, the larger of the two directions.

        `compositions` and `epsilon` are indices in the study's grids. The bounds, of shape (cells,), are NaN where a
        cell is not committed, or its files are damaged.
        """
        lower, upper = (np.full(len(self.spec.cells), np.nan) for _ in range(2))
        r, value = self.spec.compositions[compositions], self.spec.epsilon[epsilon]
        for stored, cells in self.checked.committed_batches():
            part = stored.study
            if r not in part.compositions or value not in part.epsilon:
                continue
            at = slice(cells.start, cells.stop), slice(None), part.compositions.index(r), part.epsilon.index(value)
            for name, maxima in (("delta_lower", lower), ("delta_upper", upper)):
                # NaN in either direction is NaN in the maximum.
                maxima[self.numbers(stored, cells)] = stored.values(name, at).max(axis=1)
        return lower, upper

    def gaps(self, cells: Iterable[int]) -> dict[int, str]:
        """Return why cells lack bounds, some or all: not computed, failed, or damaged; other cells are left out."""
        found: dict[int, str] = {}
        for cell in cells:
            for stored, row in self.checked.rows_of(cell):
                batch = row // stored.cells_per_batch
                if not stored.known_progress.committed[batch]:
                    found[cell] = NOT_COMPUTED
                elif not self.is_committed(stored, row):
                    found[cell] = DAMAGED
                elif row in stored.failures(batch):
                    found[cell] = FAILED
        return found

    def numbers(self, stored: StoredStudy, cells: range) -> IntArray:
        """Return the indices in the whole study of consecutive cells of a part."""
        if stored.part not in self._cells:
            return np.arange(cells.start, cells.stop)
        return self._cells[stored.part][cells.start : cells.stop]

    def rows_in(self, stored: StoredStudy, cells: IntArray) -> tuple[IntArray, IntArray]:
        """Return which of some cells of the whole study a part has, as places in `cells`, and their rows in it."""
        if stored.part not in self._cells:
            return np.arange(len(cells)), cells
        if stored.part not in self._rows:
            rows = np.full(len(self.spec.cells), -1)
            rows[self._cells[stored.part]] = np.arange(len(stored.study.cells))
            self._rows[stored.part] = rows
        found = self._rows[stored.part][cells]
        return np.flatnonzero(found >= 0), found[found >= 0]

    def rows_of(self, cell: int) -> Iterator[tuple[StoredStudy, int]]:
        """Yield each part that has a cell of the whole study, and the cell's row in it."""
        for stored in self.parts:
            if stored.part not in self._cells:
                yield stored, cell
                continue
            rows = np.flatnonzero(self._cells[stored.part] == cell)
            if rows.size:
                yield stored, int(rows[0])


#: Some points: numbers of rounds and ε, both increasing; the arrays of `BOUNDS` over (bound, direction, r, ε), NaN
#: where there is no point; and where the tolerance is met, over (direction, r, ε).
Source = tuple[tuple[int, ...], tuple[float, ...], FloatArray, BoolArray]


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

    def stored(self, compositions: IntArray, epsilon: FloatArray) -> tuple[BoolArray, FloatArray, BoolArray]:
        """Return which of some points are stored, shape (n,), their values, and whether these meet the tolerance.

        The values have the shape (bounds, directions, n), and what meets the tolerance (directions, n).
        """
        if not self.compositions.size:
            shape = len(Direction), epsilon.size
            return np.zeros(shape[1:], bool), np.full((len(BOUNDS), *shape), np.nan), np.zeros(shape, bool)
        r = np.minimum(np.searchsorted(self.compositions, compositions), self.compositions.size - 1)
        e = np.minimum(np.searchsorted(self._epsilon, epsilon), self._epsilon.size - 1)
        found = (self.compositions[r] == compositions) & (self._epsilon[e] == epsilon) & self._there[r, e]
        return found, self._values[:, :, r, e], self._within[:, r, e] & found

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
    """Reads the points of cells of a study from the parts of its store, batch by batch: what is committed and sound."""

    def __init__(self, parts: Parts, refinements: Sequence[Refinement]) -> None:
        self._parts, self.refinements = parts, tuple(refinements)
        self._refined: dict[Pair, list[Source]] = {}
        for one in refinements:
            self._refined.setdefault(one.cell.pair, []).append((one.compositions, one.epsilon, one.values, one.within))
        self._known: dict[tuple[Pair, tuple[int, ...]], PairPoints] = {}
        self._states = StateReader()

    def with_refinements(self, refinements: Sequence[Refinement]) -> "PointReader":
        """Return a reader of the same study with other refinements; what was read is not read again."""
        reader = PointReader(self._parts, refinements)
        reader._states = self._states
        return reader

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
            yield from (each for each in self._parts.rows_of(cell) if self._parts.is_committed(*each))

    def _of_cell(self, cell: int) -> Iterator[Source]:
        for stored, row in self._rows([cell]):
            batch = stored.read(row // stored.cells_per_batch)
            if batch is not None:
                bounds = batch.bounds[row % stored.cells_per_batch]
                values, within = bounds[[QUANTITIES.index(name) for name in BOUNDS]], bounds[QUANTITIES.index(WITHIN)]
                yield stored.study.compositions, stored.study.epsilon, values, within == 1.0


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
