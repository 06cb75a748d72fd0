"""Find the stored cells that bound a setting: its own, and those with provably less or more noise.

An upper bound comes from a cell of which the setting is a post-processing, a lower bound from one that is a
post-processing of the setting (`pbdist.mechanisms.pair`). Nothing else is assumed.
"""

import copy
import re
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import ge, le
from typing import Any

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import MECHANISMS, Adjacency, Pair, WorstOf, common_adjacency, pair_from_canonical
from pbdist.mechanisms.columns import is_text, known_columns, places_of, value_at
from pbdist.mechanisms.pair import noise_order
from pbdist.query.lookup import ambiguous, cells_with, check_names, column_array, matches
from pbdist.query.stored import PairPoints, PointReader
from pbdist.study import Cell, StudySpec
from pbdist.study.columns import DescribedCells
from pbdist.types import IntArray, JsonValue

#: Settings that are remembered.
_MAX_KNOWN = 100_000
#: How many near cells are read where noise is ordered in several amounts; in one amount the next one is best.
_MAX_NEAR = 6


@dataclass(frozen=True, eq=False)
class Setting:
    """A setting that a question names."""

    #: Label, pair and factor.
    cell: Cell
    #: Its own points; None where there are none.
    equal: PairPoints | None
    #: The points whose upper, and whose lower bounds hold for it: its own first, then the nearest first.
    above: Sequence[PairPoints]
    below: Sequence[PairPoints]
    #: How many of them to read at least.
    near: int
    #: Whether an order of noise is proved for its kind.
    ordered: bool
    #: The cells of the study that have its pair, by their numbers.
    stored: Sequence[int] = ()


class Settings:
    """The settings of a study's cells, and the cells that bound any other setting."""

    def __init__(self, study: StudySpec, reader: PointReader) -> None:
        self._study, self._reader = study, reader
        self._columns: dict[str, Any] = {}
        self._labelled: dict[Hashable, tuple[IntArray, _Order]] = {}
        self._all: _Order | None = None
        self._known: dict[Hashable, Setting] = {}

    def of_pair(self, pair: Pair) -> Setting:
        """Return the setting of a pair; all cells of the study may bound it."""
        self._forget()
        if pair not in self._known:
            if self._all is None:
                self._all = _Order(self._study, self._reader, range(len(self._study.cells)))
            stored = self._all.stored(pair)
            self._known[pair] = self._all.setting(Cell(type(stored).__name__, stored, None))
        return self._known[pair]

    def of_label(self, mechanism: str, noise: Mapping[str, float | str | None]) -> Setting:
        """Return the setting of a label and parameters; the cells of the label may bound it.

        A cell whose parameters are these to 4 ulp is meant. Else the parameters replace those of the label's cells.

        Raises
        ------
        OffGridError
            There is no such label, or a parameter that takes few values has another one.
        InvalidInputError
            Several cells are meant, or a parameter is unknown or out of its range.
        """
        key = (mechanism, tuple(noise.items()))
        self._forget()
        if key not in self._known:
            self._known[key] = self._of_label(mechanism, noise)
        return self._known[key]

    def _forget(self) -> None:
        """Drop the settings remembered when they are too many, so that memory is bounded."""
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()

    def _of_label(self, mechanism: str, noise: Mapping[str, float | str | None]) -> Setting:
        check_names(noise, [name for name in known_columns() if name != "mechanism"])
        # These may differ from those of all stored cells of the label.
        given = {
            name: value
            for name, value in noise.items()
            if isinstance(value, int | float) and name != "factor" and not is_text(name)
        }
        fixed = {name: value for name, value in noise.items() if name not in given}
        exact, order = self._alike(mechanism, fixed)
        for name, value in given.items():
            exact = exact[matches(name, self._column(name)[exact], value)]
        if exact.size:
            cells = [self._study.cells[cell] for cell in exact.tolist()]
            if len({cell.pair for cell in cells}) > 1:
                raise InvalidInputError(ambiguous(mechanism, cells))
            return order.setting(cells[0])
        templates = order.templates(tuple(given))
        if not templates:
            # No cell has all of these parameters; raises.
            cells_with(self._column, {"mechanism": mechanism, **noise})
        if len(templates) != 1:
            raise InvalidInputError(
                f"mechanism: expected one noise setting of {mechanism!r}, got {len(templates)} that have these"
                " parameters: give the others too"
            )
        form = _replaced(templates[0], given)
        factor = noise.get("factor")
        pair = pair_from_canonical({} if form is None else form)
        return order.setting(Cell(mechanism, pair, float(factor) if isinstance(factor, int | float) else None))

    def _alike(self, mechanism: str, fixed: Mapping[str, float | str | None]) -> "tuple[IntArray, _Order]":
        """Return the cells of a label that have some parameters, and their order."""
        key = (mechanism, tuple(fixed.items()))
        if key not in self._labelled:
            found = cells_with(self._column, {"mechanism": mechanism, **fixed})
            self._labelled[key] = found, _Order(self._study, self._reader, found.tolist())
        return self._labelled[key]

    def _column(self, name: str) -> Any:
        if name not in self._columns:
            self._columns[name] = column_array(self._study, name)
        return self._columns[name]


class _Order:
    """Some cells of a study, by how noisy they are."""

    def __init__(self, study: StudySpec, reader: PointReader, cells: Sequence[int]) -> None:
        self._reader = reader
        self._cells: dict[Pair, list[int]] = {pair: [] for pair in (one.cell.pair for one in reader.refinements)}
        for cell in cells:
            self._cells.setdefault(study.cells[cell].pair, []).append(cell)
        self._own = [pair for pair, numbers in self._cells.items() if numbers]
        #: For each family its amounts, sorted, and their pairs.
        self._families: dict[Hashable, tuple[list[tuple[Fraction, ...]], list[Pair]]] | None = None
        self._templates: dict[tuple[str, ...], list[dict[str, JsonValue]]] = {}

    def templates(self, names: tuple[str, ...]) -> list[dict[str, JsonValue]]:
        """Return the different canonical forms of the cells that have some parameters, those parameters aside."""
        if names not in self._templates:
            found: list[dict[str, JsonValue]] = []
            for pair in self._own:
                # All with the same value of these parameters: the others tell them apart.
                form = _replaced(pair.canonical(), dict.fromkeys(names, 1.0))
                if form is not None and form not in found:
                    found.append(form)
            self._templates[names] = found
        return self._templates[names]

    def setting(self, cell: Cell) -> Setting:
        """Return the setting of a cell, with the points that bound it."""
        pair = cell.pair
        equal = self.points(pair) if pair in self._cells else None
        if equal is not None and not equal.compositions.size:
            equal = None
        first = [] if equal is None else [equal]
        stored = self._cells.get(pair, [])
        order = noise_order(pair)
        if order is None:
            return Setting(cell, equal, first, first, 1, ordered=False, stored=stored)
        amounts, pairs = self._sorted().get(order.family, ([], []))
        mine = order.amounts
        if len(mine) == 1:
            first_same, end = bisect_left(amounts, mine), bisect_right(amounts, mine)
            above, below = pairs[:end][::-1], pairs[first_same:]
            alike = end > first_same
        else:
            ranked = sorted(zip(amounts, pairs, strict=True), key=lambda one: _distance(one[0], mine))
            above = [its for noise, its in ranked if all(map(le, noise, mine))]
            below = [its for noise, its in ranked if all(map(ge, noise, mine))]
            alike = True
        if alike:
            # Its own points come first; other pairs that are as noisy bound from both sides.
            above, below = ([its for its in side if its != pair] for side in (above, below))
        near = 1 if len(mine) == 1 else _MAX_NEAR
        sides = _Points(self, first, above), _Points(self, first, below)
        return Setting(cell, equal, *sides, near, ordered=True, stored=stored)

    def stored(self, pair: Pair) -> Pair:
        """Return a pair as it is stored: the worst of one attained pair, as plans are stored, is that pair."""
        alone = None if pair.is_worst_of_several else WorstOf(pair)
        return alone if alone is not None and pair not in self._cells and alone in self._cells else pair

    def points(self, pair: Pair) -> PairPoints:
        """Return the points of one of the pairs."""
        return self._reader.points(pair, self._cells[pair])

    def _sorted(self) -> dict[Hashable, tuple[list[tuple[Fraction, ...]], list[Pair]]]:
        if self._families is None:
            found: dict[Hashable, list[tuple[tuple[Fraction, ...], Pair]]] = {}
            for pair in self._cells:
                order = noise_order(pair)
                if order is not None:
                    found.setdefault(order.family, []).append((order.amounts, pair))
            self._families = {}
            for family, members in found.items():
                members.sort(key=lambda member: member[0])
                self._families[family] = ([amounts for amounts, _ in members], [pair for _, pair in members])
        return self._families


class _Points(Sequence[PairPoints]):
    """Points that are read on demand: mostly the first ones are enough."""

    def __init__(self, order: _Order, first: Sequence[PairPoints], pairs: Sequence[Pair]) -> None:
        self._order, self._first, self._pairs = order, first, pairs

    def __len__(self) -> int:
        return len(self._first) + len(self._pairs)

    def __getitem__(self, index: Any) -> Any:
        if index < len(self._first):
            return self._first[index]
        return self._order.points(self._pairs[index - len(self._first)])


def _distance(first: Sequence[Fraction], second: Sequence[Fraction]) -> float:
    """Return how far apart two amounts of noise are; it only decides which are read first."""
    distance = 0.0
    for a, b in zip(first, second, strict=True):
        if a != b:
            # |a - b| / (|a| + |b|) without a common divisor, which takes most of the time.
            x, y = a.numerator * b.denominator, b.numerator * a.denominator
            distance += abs(x - y) / (abs(x) + abs(y))
    return distance


def _replaced(form: Mapping[str, JsonValue], values: Mapping[str, JsonValue]) -> dict[str, JsonValue] | None:
    """Return a canonical form with other values of some columns, None where it does not have them."""
    result: dict[str, JsonValue] = copy.deepcopy(dict(form))
    places = places_of(MECHANISMS[form["mechanism"]])
    for name, value in values.items():
        keys = places[name][1] if name in places else ()
        if not keys or value_at(form, keys) is None:
            return None
        value_at(result, keys[:-1])[keys[-1]] = value
    return result


#: Kinds whose pairs say what the pairs within them say.
_NESTED = ("Product", "Reversed", "WorstOf")
#: What of a canonical form tells nothing about neighbours.
_NUMBERS = re.compile(r"-?\b[0-9][-+0-9.eE]*|[, ]+")


def neighbours_by_label(study: StudySpec) -> dict[str, Adjacency]:
    """Return for which neighbours the mechanisms of each label are, in the order of the study.

    A label whose mechanisms do not all say the same is as stated. Of a store the columns are read, and few cells made.
    """
    cells: Iterable[Cell] = study.cells
    if isinstance(study.cells, DescribedCells):
        labels, kinds = study.cells.column("mechanism"), study.cells.column("kind")
        forms = study.cells.column("pair") if any(kind in _NESTED for kind in kinds) else kinds
        rows: dict[Hashable, int] = {}
        for row, (label, kind, form) in enumerate(zip(labels, kinds, forms, strict=True)):
            rows.setdefault((label, kind, _NUMBERS.sub("", form) if kind in _NESTED else ""), row)
        cells = (study.cells[row] for row in rows.values())
    return neighbours_of_cells(study, cells)


def neighbours_of_cells(study: StudySpec, cells: Iterable[Cell]) -> dict[str, Adjacency]:
    """Return the same of some cells alone."""
    found: dict[str, set[Adjacency]] = {}
    for cell in cells:
        found.setdefault(cell.label, set()).add(study.neighbours_of(cell))
    return {label: common_adjacency(relations) for label, relations in found.items()}


def neighbours_of_settings(study: StudySpec, mechanism: str | Pair, settings: Sequence[Setting]) -> Adjacency:
    """Return for which neighbours the answers to questions about some settings are; as stated where they differ.

    What is asked by its label is as the study says of that label. A mechanism that is asked for itself is as it says,
    or as the study says of a stored one that is equal.
    """

    def relation(setting: Setting) -> Adjacency:
        own = setting.cell.pair.adjacency
        if isinstance(mechanism, str):
            return study.neighbours_of(setting.cell)
        if own.definite:
            return own
        return common_adjacency(study.neighbours_of(study.cells[number]) for number in setting.stored)

    return common_adjacency(map(relation, settings))


def neighbours_text(found: Mapping[str, Adjacency]) -> str:
    """Return the one relation that all labels have, or that of each label: ``Laplace: replace-one; ..``."""
    if len(set(found.values())) == 1:
        return next(iter(found.values())).value
    return "; ".join(f"{label}: {relation.value}" for label, relation in found.items())


def neighbours_words(found: Iterable[tuple[str, Adjacency]]) -> str:
    """Return in a line who the neighbours are of what stands side by side in one answer.

    Where labels have different ones it says whose, and that bounds for different neighbours do not compare. What is as
    stated may be for any.
    """
    told = dict.fromkeys(found)
    relations = list(dict.fromkeys(relation for _, relation in told))
    if len(relations) == 1:
        return f"neighbours: {relations[0].in_words}"
    each = "; ".join(
        f"{', '.join(label for label, one in told if one is relation)}: {relation.in_words}" for relation in relations
    )
    differ = len([one for one in relations if one.definite]) > 1
    return f"neighbours differ, so that bounds do not compare: {each}" if differ else f"neighbours: {each}"
