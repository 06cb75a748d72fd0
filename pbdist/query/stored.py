"""The points that a store holds: its parts as one study, the points of some cells, and all points of one pair."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Self

import numpy as np

from pbdist.mechanisms import Pair
from pbdist.query.convex_delta import Curve, StateAt, StateReader, with_state
from pbdist.store import Refinement, StoredStudy, check_skeleton
from pbdist.store.layout import BOUNDS, COMPUTED, GRIDS, QUANTITIES, WITHIN
from pbdist.study import Cell, StudySpec
from pbdist.study.spec import union_of
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, BoolArray, Direction, FloatArray, IntArray

#: Why a cell lacks bounds.
NOT_COMPUTED, FAILED, DAMAGED = "not computed", "failed", "damaged"
#: The direction of a bound on the larger δ of the two.
BOTH = "both"
#: The column that says what is known of a point.
STATUS = "status"
UPPER_ONLY = "upper only"
#: The columns of points beside the parameters, and what each holds.
ABOUT = {
    **COMPUTED,
    "adjacency": "for which neighbours: what is done to one record or a group, or as-stated, those of the parameters",
    DIRECTION: f"{GRIDS[DIRECTION]}; {BOTH}: the larger of the two",
    **{name: GRIDS[name] for name in (COMPOSITIONS, EPSILON, "exp_epsilon")},
    **BOUNDS,
    WITHIN: "whether the bounds meet within the tolerance",
    STATUS: "computed; upper only: no lower bound is known; missing, failed, damaged: nothing is known",
}
#: The number of points that are read at once, if one cell does not have more.
_POINTS_AT_ONCE = 1 << 15


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
    #: A `PointState` of each point, over (cells, compositions, epsilon).
    states: Any

    def bounds(self, attained: BoolArray, direction: str) -> dict[str, Any]:
        """Return bounds and tolerance over (cells, directions, r, ε); a lower bound that is not known is NaN.

        With `direction` ``both`` the one direction is the larger of the two.
        """
        found = {name: values for name, values in self.values.items() if name not in COMPUTED}
        if direction == BOTH:
            found = {
                name: values.all(axis=1, keepdims=True) if name == WITHIN else values.max(axis=1, keepdims=True)
                for name, values in found.items()
            }
        for name in ("delta_lower", "log_delta_lower"):
            # The stored one is 0.
            found[name] = np.where(attained[:, None, None, None], found[name], np.nan)
        return found

    def status(self, attained: BoolArray) -> Any:
        """Return what is known of each point, as text over (cells, r, ε)."""
        names = np.array([*(state.name.lower() for state in PointState), UPPER_ONLY], dtype=object)
        above = (self.states == PointState.COMPUTED) & ~attained[:, None, None]
        return names[np.where(above, len(PointState), self.states)]


def attained_of(cells: Sequence[Cell]) -> BoolArray:
    """Return for each cell whether a lower bound can be known."""
    return np.array([cell.pair.attained_by_some for cell in cells], dtype=bool)


class Parts:
    """The parts of a store as one study: which of their batches are sound, and where its cells are in them."""

    def __init__(self, parts: tuple[StoredStudy, ...]) -> None:
        self.parts, self.where = parts, parts[0].where
        self._sound: dict[tuple[str, int], bool] = {}

    @cached_property
    def spec(self) -> StudySpec:
        """What the study computes, without description and targets."""
        return union_of([stored.study for stored in self.parts])

    @property
    def parts_missing(self) -> tuple[str, ...]:
        """The parts that the root lists, but that are not there."""
        there = {stored.part for stored in self.parts}
        return tuple(part for part in self.parts[0].extensions if part not in there)

    @cached_property
    def checked(self) -> Self:
        """The same, once the store's metadata and coordinates are those of the study; others make bytes mislead."""
        for stored in self.parts:
            check_skeleton(stored)
        return self

    @property
    def result_names(self) -> tuple[str, ...]:
        """The names of the arrays of results; only a study with a tolerance says where it is met."""
        return (*BOUNDS, *([] if self.spec.required_tolerance is None else [WITHIN]), *COMPUTED)

    @cached_property
    def _rows(self) -> dict[str, IntArray]:
        """Of each part, if there are several, the row of each cell of the whole study; -1 where it is not there."""
        if len(self.parts) == 1:
            return {}
        numbers = {cell: number for number, cell in enumerate(self.spec.cells)}
        found = {stored.part: np.full(len(numbers), -1) for stored in self.parts}
        for stored in self.parts:
            found[stored.part][[numbers[cell] for cell in stored.study.cells]] = np.arange(len(stored.study.cells))
        return found

    def rows_in(self, stored: StoredStudy, cells: IntArray) -> tuple[IntArray, IntArray]:
        """Return which of some cells of the whole study a part has, as places in `cells`, and their rows in it."""
        rows = self._rows[stored.part][cells] if self._rows else cells
        return np.flatnonzero(rows >= 0), rows[rows >= 0]

    def rows_of(self, cell: int) -> Iterator[tuple[StoredStudy, int]]:
        """Yield each part that has a cell of the whole study, and the cell's row in it."""
        for stored in self.parts:
            yield from ((stored, row) for row in self.rows_in(stored, np.array([cell]))[1].tolist())

    def is_sound(self, stored: StoredStudy, row: int) -> bool:
        """Whether the batch of a part's cell is committed and sound; a later commit does not count."""
        key = stored.part, row // stored.cells_per_batch
        if key not in self._sound:
            self._sound[key] = stored.is_sound(key[1])
        return self._sound[key]

    def read(self, cells: IntArray) -> Block:
        """Return all points of some cells; a `StoreDamagedError` if bytes change while they are read."""
        study = self.spec
        shape = len(cells), len(Direction), len(study.compositions), len(study.epsilon)
        values: dict[str, Any] = {
            name: np.full(shape[:1] if name in COMPUTED else shape, np.nan) for name in self.result_names
        }
        if WITHIN in values:
            values[WITHIN] = np.zeros(shape, dtype=bool)
        states = np.full((len(cells), *shape[2:]), PointState.MISSING, dtype=np.uint8)
        for stored in self.parts:
            r, e = (
                np.searchsorted(whole, own)
                for whole, own in (
                    (study.compositions, stored.study.compositions),
                    (study.epsilon, stored.study.epsilon),
                )
            )
            places, rows = self.rows_in(stored, cells)
            for batch in np.unique(rows // stored.cells_per_batch).tolist():
                first = stored.cells_of(batch).start
                mine = rows // stored.cells_per_batch == batch
                here, own = places[mine], rows[mine] - first
                points = np.ix_(here, r, e)
                found = stored.read(batch) if self.is_sound(stored, first) else None
                if found is None:
                    lost = stored.known_progress.committed[batch]
                    states[points] = PointState.DAMAGED if lost else PointState.MISSING
                    continue
                for name, whole in values.items():
                    if name in COMPUTED:
                        whole[here] = np.fmin(whole[here], found.values(name)[own])
                    else:
                        whole[np.ix_(here, np.arange(len(Direction)), r, e)] = found.values(name)[own]
                states[points] = np.where(found.failed[own], PointState.FAILED, PointState.COMPUTED)[:, None, None]
        return Block(cells, values, states)

    def blocks(self, cells: IntArray, length: int | None = None) -> Iterator[Block]:
        """Yield all points of some cells: of `length` cells at a time, by default of few enough for memory."""
        of_cell = len(Direction) * len(self.spec.compositions) * len(self.spec.epsilon)
        length = length or max(1, _POINTS_AT_ONCE // of_cell)
        for start in range(0, len(cells), length):
            yield self.checked.read(cells[start : start + length])

    def maxima(self, compositions: int, epsilon: int) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of every cell at one point, the larger of the two directions.

        `compositions` and `epsilon` are indices in the study's grids. The bounds, of shape (cells,), are NaN where a
        cell is not committed, or its files are damaged.
        """
        lower, upper = (np.full(len(self.spec.cells), np.nan) for _ in range(2))
        for block in self.blocks(np.arange(len(self.spec.cells))):
            for name, maxima in (("delta_lower", lower), ("delta_upper", upper)):
                # NaN in either direction is NaN in the maximum.
                maxima[block.cells] = block.values[name][:, :, compositions, epsilon].max(axis=1)
        return lower, upper

    def gaps(self, cells: Iterable[int]) -> dict[int, str]:
        """Return why cells lack bounds, some or all: not computed, failed, or damaged; other cells are left out."""
        found: dict[int, str] = {}
        why = {PointState.MISSING: NOT_COMPUTED, PointState.FAILED: FAILED, PointState.DAMAGED: DAMAGED}
        for block in self.blocks(np.array([*cells], dtype=np.int64)):
            for state, text in why.items():
                lacking = (block.states == state).any(axis=(1, 2))
                found |= dict.fromkeys(block.cells[lacking].tolist(), text)
        return found

    def recorded_points(self) -> Iterator[tuple[StoredStudy, range, int, int]]:
        """Yield part and cells of each committed batch, and at how many points the tolerance was judged and missed.

        Bounds are not read, and checksums are not compared.
        """
        for stored in self.parts:
            for index, (judged, missed) in stored.judged(stored.known_progress).items():
                yield stored, stored.cells_of(index), judged, missed


#: Some points: numbers of compositions and ε, both increasing; the arrays of `BOUNDS` over (bound, direction, r, ε),
#: NaN where there is no point; and where the tolerance is met, over (direction, r, ε).
Source = tuple[tuple[int, ...], tuple[float, ...], FloatArray, BoolArray]


class PairPoints:
    """All stored points of one pair; where several sources have the same one, the best bounds count.

    `compositions` are the r with a point, increasing. `gridded` says whether the study has computed points on its
    grids; else they are refinements, of single points. `ordered` says whether δ does not fall with r, as
    post-processing may ignore further outcomes: not so for histograms whose masses do not sum to exactly 1.
    """

    def __init__(self, pair: Pair, sources: Sequence[Source], *, gridded: bool, states: StateAt) -> None:
        self.pair, self.gridded, self.states = pair, gridded, states
        rounds = sorted({r for compositions, _, _, _ in sources for r in compositions})
        losses = sorted({value for _, epsilon, _, _ in sources for value in epsilon})
        values = np.full((len(BOUNDS), len(Direction), len(rounds), len(losses)), np.nan)
        within = np.zeros(values.shape[1:], dtype=bool)
        upper = np.array([name.endswith("upper") for name in BOUNDS])[:, None, None, None]
        for compositions, epsilon, given, met in sources:
            # A point has all of its numbers or does not count.
            known = np.where(np.isnan(given).any(axis=(0, 1)), np.nan, given)
            at: Any = (..., *np.ix_(np.searchsorted(rounds, compositions), np.searchsorted(losses, epsilon)))
            values[at] = np.where(upper, np.fmin(values[at], known), np.fmax(values[at], known))
            within[at] |= met
        there = ~np.isnan(values[0, 0])
        known = there.any(axis=1)
        self.compositions: IntArray = np.array(rounds, dtype=np.int64)[known]
        self._epsilon = np.array(losses, dtype=np.float64)
        self._values, self._there, self._within = values[:, :, known], there[known], within[:, known]
        self.ordered = not any(excess for factor in pair.factors for excess in factor.mass_excess)
        totals = [factor.total_mass for factor in pair.factors]
        # Rounded up.
        excess = ([math.log(max(total[axis], 1.0)) for total in totals] for axis in range(len(Direction)))
        self._log_masses = [sum(each) * (1.0 + 2.0**-40) for each in excess]
        self._curves: dict[int, tuple[Curve, ...]] = {}

    def stored(self, compositions: IntArray, epsilon: FloatArray) -> tuple[BoolArray, FloatArray, BoolArray]:
        """Return which of some points are stored, shape (n,), their values, and whether these meet the tolerance.

        The values have the shape (bounds, directions, n), and what meets the tolerance (directions, n).
        """
        r = np.minimum(np.searchsorted(self.compositions, compositions), self.compositions.size - 1)
        e = np.minimum(np.searchsorted(self._epsilon, epsilon), self._epsilon.size - 1)
        found = (self.compositions[r] == compositions) & (self._epsilon[e] == epsilon) & self._there[r, e]
        return found, self._values[:, :, r, e], self._within[:, r, e] & found

    def row(self, compositions: IntArray, *, above: bool) -> IntArray:
        """Return for some r the index of the stored r whose upper, or lower, bounds hold for it; -1 where none is."""
        row = np.searchsorted(self.compositions, compositions, side="left" if above else "right") - (not above)
        row = np.where(row < self.compositions.size, row, -1)
        if self.ordered or not self.compositions.size:
            return row
        return np.where(self.compositions[row] == compositions, row, -1)

    def curves(self, row: int, *, saved: bool = True) -> tuple[Curve, ...]:
        """Return the bounds on δ at the stored r of that index, for both directions, as curves.

        The upper points of larger r count too, and the lower ones of smaller r; with `saved` also a saved state.
        """
        if row not in self._curves:
            count = 1 if self.pair.symmetric else len(Direction)
            curves = tuple(self._curve(row, axis) for axis in range(count))
            self._curves[row] = curves if count > 1 else curves * len(Direction)
        return with_state(self._curves[row], self.states, int(self.compositions[row])) if saved else self._curves[row]

    @cached_property
    def _log_bounds(self) -> FloatArray:
        """Logarithms of the best lower and upper bounds that all r prove, over (bound, direction, r, ε)."""
        lower, upper = (self._values[list(BOUNDS).index(f"log_delta_{side}")] for side in ("lower", "upper"))
        if self.ordered:
            lower = np.fmax.accumulate(lower, axis=1)
            upper = np.fmin.accumulate(upper[:, ::-1], axis=1)[:, ::-1]
        return np.stack((lower, upper))

    def _curve(self, row: int, axis: int) -> Curve:
        lower, upper = self._log_bounds[:, axis, row]
        low, high = ~np.isnan(lower), ~np.isnan(upper)
        log_mass = float(self.compositions[row]) * self._log_masses[axis]
        # Of a product of floats, rounded up once more.
        log_mass = math.nextafter(log_mass, math.inf) if log_mass > 0.0 else 0.0
        return Curve(self._epsilon[high], upper[high], self._epsilon[low], lower[low], log_mass)


class PointReader:
    """Reads the points of cells of a study from the parts of its store, batch by batch: what is committed and sound."""

    def __init__(self, parts: Parts, refinements: Sequence[Refinement], states: StateReader | None = None) -> None:
        self._parts, self.refinements = parts, tuple(refinements)
        self._refined: dict[Pair, list[Source]] = {}
        for one in refinements:
            self._refined.setdefault(one.cell.pair, []).append((one.compositions, one.epsilon, one.values, one.within))
        self._known: dict[tuple[Pair, tuple[int, ...]], PairPoints] = {}
        self._states = states or StateReader()

    def with_refinements(self, refinements: Sequence[Refinement]) -> "PointReader":
        """Return a reader of the same study with other refinements; states that were read are not read again."""
        return PointReader(self._parts, refinements, self._states)

    def points(self, pair: Pair, cells: Sequence[int]) -> PairPoints:
        """Return the points of a pair: those of `cells`, all of which have that pair, and of the refinements.

        A `StoreDamagedError` where the stored values cannot be read.
        """
        key = (pair, tuple(cells))
        if key not in self._known:
            every = [each for cell in cells for each in self._parts.rows_of(cell)]
            rows = [(stored, row) for stored, row in every if self._parts.is_sound(stored, row)]
            sources = [*_sources(rows)]
            self._known[key] = PairPoints(
                pair, [*sources, *self._refined.get(pair, ())], gridded=bool(sources), states=self._states.at(rows)
            )
        return self._known[key]


def _sources(rows: Iterable[tuple[StoredStudy, int]]) -> Iterator[Source]:
    """Yield the points of cells given by part and row."""
    for stored, row in rows:
        batch = stored.read(row // stored.cells_per_batch)
        if batch is not None:
            bounds = batch.bounds[row % stored.cells_per_batch]
            values, within = bounds[[QUANTITIES.index(name) for name in BOUNDS]], bounds[QUANTITIES.index(WITHIN)]
            yield stored.study.compositions, stored.study.epsilon, values, within == 1.0
