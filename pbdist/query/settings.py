"""The settings that a question names: its arguments, the stored cells that it selects, and those that bound others.

An upper bound comes from a cell of which the setting is a post-processing, a lower bound from one that is a
post-processing of the setting (`pbdist.mechanisms.pair`). Nothing else is assumed.
"""

import copy
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property, partial
from operator import ge, le
from statistics import mode
from typing import Any

import numpy as np

from pbdist.arguments import check_either, check_flag
from pbdist.errors import InvalidInputError, OffGridError, shown
from pbdist.mechanisms import (
    MECHANISMS,
    Adjacency,
    Pair,
    WorstOf,
    all_parameters,
    common_adjacency,
    pair_from_canonical,
)
from pbdist.mechanisms.columns import as_list_text, is_composite, is_text, known_columns, places_of, value_at
from pbdist.mechanisms.pair import noise_order
from pbdist.query.stored import PairPoints, PointReader
from pbdist.rounding import brief, exponential
from pbdist.study import Cell, StudySpec
from pbdist.study.columns import CellTable, cell_columns
from pbdist.study.fields import nearest_exponential, nearest_match, same_float
from pbdist.suggestions import did_you_mean
from pbdist.types import COMPOSITIONS, EPSILON, BoolArray, FloatArray, IntArray, JsonValue

#: The most values that an error lists.
_MAX_LISTED = 12
_GRIDS = (COMPOSITIONS, EPSILON, "exp_epsilon")
#: How many near cells are read where noise is ordered in several amounts; in one amount the next one is best.
_MAX_NEAR = 6
#: What is taken for an exact number.
_EXACT = int | float | np.integer | np.floating | Fraction | Decimal


def check_strict(study: StudySpec, strict: Any) -> None:
    """Refuse what is neither a truth value nor ``"silent"``, and True for a study without a tolerance."""
    if strict != "silent" and check_flag("strict", strict) and study.required_tolerance is None:
        instead = "method buckets" if study.method == "buckets" else "a number of buckets"
        raise InvalidInputError(f"strict: expected a study with a tolerance, got one with {instead}")


def given_array(name: str, value: Any) -> Any:
    """Return an argument as an array of any kind; its numbers are not checked.

    Refused are truth values, masked entries, nothing, and lists of unequal lengths.
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(f"{name}: expected a rectangular array of numbers, got {shown(value)}") from None
    for one in np.asarray(value, dtype=object).flat:
        if isinstance(one, bool | np.bool_):
            raise InvalidInputError(f"{name}: expected numbers, got the truth value {one}")
    if np.ma.is_masked(value):
        raise InvalidInputError(f"{name}: expected numbers, got masked entries")
    if not array.size:
        raise InvalidInputError(f"{name}: expected at least one value, got none")
    return array


def noise_parameter(name: str, value: Any) -> FloatArray | str | None:
    """Return a parameter of the noise: numbers, exact ones as the nearest float64, one text, or None."""
    if value is None or isinstance(value, str):
        return value
    array = given_array(name, value)
    if array.dtype.kind in "UT" and array.ndim == 0:
        return str(array.item())
    if array.dtype.kind not in "iuf" and not all(isinstance(one, _EXACT) for one in array.reshape(-1).tolist()):
        raise InvalidInputError(f"{name}: expected a number, an array of numbers, or one text, got {shown(value)}")
    try:
        numbers = np.array([float(one) for one in array.reshape(-1).tolist()])
    except OverflowError:
        raise InvalidInputError(f"{name}: expected a finite number, got {shown(value)}") from None
    for one in numbers[~np.isfinite(numbers)].tolist():
        raise InvalidInputError(f"{name}: expected a finite number, got {one!r}")
    return numbers.reshape(array.shape)


def single_number(name: str, value: Any) -> Any:
    """Return one number, of numpy or not, as an int or a float."""
    found = given_array(name, value)
    if found.ndim or found.dtype.kind not in "iufO" or not isinstance(found.item(), int | float):
        raise InvalidInputError(f"{name}: expected one number, got {shown(value)}")
    return found.item()


@dataclass(frozen=True, eq=False)
class Selection:
    """Points of a study."""

    #: Numbers of cells, increasing.
    cells: IntArray
    #: Indices in the grids, in the order of the labels.
    compositions: tuple[int, ...]
    epsilon: tuple[int, ...]


def selected(study: StudySpec, labels: Mapping[str, Any]) -> Selection:
    """Return the points that have all the labels, of a list of values any one of them; errors as `Study.frame`."""
    check_names(labels, (*known_columns(), *_GRIDS))
    if EPSILON in labels and "exp_epsilon" in labels:
        check_either(epsilon=labels[EPSILON], exp_epsilon=labels["exp_epsilon"])
    grids: dict[str, Iterable[int]] = {COMPOSITIONS: range(len(study.compositions)), EPSILON: range(len(study.epsilon))}
    for name in {*_GRIDS} & set(labels):
        axis = COMPOSITIONS if name == COMPOSITIONS else EPSILON
        grids[axis] = dict.fromkeys(_grid_index(study, name, value) for value in _each(labels, name))
    cells = cells_with(lambda name: column_array(study, name), labels)
    return Selection(cells, tuple(grids[COMPOSITIONS]), tuple(grids[EPSILON]))


def cells_with(column: Callable[[str], Any], labels: Mapping[str, Any]) -> IntArray:
    """Return the cells that have all the labels; `column` returns a column of all cells as an array.

    If there are none, an `OffGridError` names the values nearest to the first label that fails.
    """
    found = np.arange(len(column("mechanism")))
    for name in known_columns():
        if name not in labels:
            continue
        values = column(name)[found]
        matching = np.zeros(len(found), dtype=bool)
        for value in _each(labels, name):
            if is_text(name) and not isinstance(value, str):
                raise InvalidInputError(f"{name}: expected text, or a list of texts, got {shown(value)}")
            parameter = noise_parameter(name, value)
            wanted = float(parameter) if isinstance(parameter, np.ndarray) else parameter
            hits = matches(name, values, wanted)
            if not hits.any():
                near = did_you_mean(wanted, dict.fromkeys(values.tolist())) if is_text(name) else ""
                stored = _nearest_text(name, values.tolist(), wanted)
                raise OffGridError(f"{name}: expected {stored}, got {_text(wanted, name)}{near}")
            matching |= hits
        found = found[matching]
    return found


def column_array(study: StudySpec, name: str) -> Any:
    """Return a column of all cells of a study as an array."""
    return np.array(CellTable.of(study.cells).column(name), dtype=object if is_text(name) else np.float64)


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


def check_names(given: Iterable[str], known: Sequence[str]) -> None:
    """Refuse parameters of noise that are not known; aliases of others are suggested, as most kinds mean them."""
    for name in given:
        if name not in known:
            meant = [one.columns[0] for _, one in all_parameters() if name.lower() in one.aliases]
            near = did_you_mean(name, known, {name.lower(): mode(meant)} if meant else {})
            raise InvalidInputError(f"{name}: expected one of {', '.join(known)}, got an unknown parameter{near}")


def _grid_index(study: StudySpec, name: str, value: Any) -> int:
    """Return the index of an r, or of an ε, or of the logarithm of an e^ε, in the study's grid; the latter to 4 ulp."""
    number = single_number(name, value)
    stored: Sequence[float] = study.compositions if name == COMPOSITIONS else study.epsilon
    if name == COMPOSITIONS:
        index = stored.index(number) if number in stored else None
    elif not math.isfinite(number):
        raise InvalidInputError(f"{name}: expected a finite number, got {number!r}")
    else:
        index = (nearest_match if name == EPSILON else nearest_exponential)(study.epsilon, number)
    if index is None:
        stored = stored if name != "exp_epsilon" else [exponential(each) for each in stored]
        what = "number of compositions" if name == COMPOSITIONS else "value"
        raise OffGridError(f"{name}: expected a stored {what}, {_neighbours(stored, number)}, got {number!r}")
    return index


def matches(name: str, stored: Any, wanted: float | str | None) -> BoolArray:
    """Return where a column, an array, has a value, to 4 ulp; None and ``"auto"`` where there is none."""
    if is_text(name):
        # Of a list of numbers a column has the one way in which it is written.
        text = as_list_text(wanted) if isinstance(wanted, str) and known_columns()[name].listed else wanted
        return np.asarray(stored == text, dtype=bool)
    if wanted is None or wanted == "auto":
        return np.asarray(np.isnan(stored))
    if isinstance(wanted, str):
        return np.zeros(stored.shape, dtype=bool)
    close = np.flatnonzero(np.abs(stored - wanted) <= 1e-12 * abs(wanted))
    result = np.asarray(stored == wanted)
    result[close] = [same_float(value, float(wanted)) for value in stored[close].tolist()]
    return result


def telling(columns: Mapping[str, Sequence[Any]], count: int) -> list[str]:
    """Return the columns in which some cells differ.

    The descriptions of composite pairs are among them only where the others do not tell all cells apart.
    """
    texts = {name: [_text(value, name) for value in columns[name]] for name in known_columns() if name in columns}
    found = [name for name, values in texts.items() if len(set(values)) > 1]
    others = [name for name in found if name != "made_of"]
    return others if len(set(zip(*(texts[name] for name in others), strict=True))) == count else found


def distinguishing(cells: Sequence[Cell]) -> list[str]:
    """Return the parameters in which cells differ, each with its values as text."""
    columns = cell_columns(cells)
    return [
        f"{name} ({_listed(list(dict.fromkeys(_text(value, name) for value in columns[name])))})"
        for name in telling(columns, len(cells))
    ]


def _nearest_text(name: str, stored: Sequence[float | str], wanted: float | str | None) -> str:
    """Return the values of a column nearest to one that it does not have, or all its values."""
    values = sorted({value for value in stored if isinstance(value, float) and not math.isnan(value)})
    if values and isinstance(wanted, int | float):
        return f"a stored value, {_neighbours(values, float(wanted))}"
    texts = sorted({_text(value, name) for value in stored})
    if len(texts) == 1:
        return "no value, as no such setting has one" if texts[0] == "none" else texts[0]
    return f"one of {_listed(texts)}"


def _neighbours(stored: Sequence[float], wanted: float) -> str:
    """Return the neighbours of `wanted` in the increasing `stored` as text."""
    index = bisect_left(stored, wanted)
    near = [_text(value) for value in stored[max(0, index - 1) : index + 1]]
    return f"the neighbours being {' and '.join(near)}" if len(near) == 2 else f"the nearest being {near[0]}"


def _listed(texts: Sequence[str]) -> str:
    more = f", .. ({len(texts)} in all)" if len(texts) > _MAX_LISTED else ""
    return ", ".join(texts[:_MAX_LISTED]) + more


def _text(value: float | str | None, name: str = "") -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        # No factor means the automatic one.
        return "auto" if name == "factor" else "none"
    return brief(value, 10) if isinstance(value, float) else str(value or "none")


def is_set(value: Any) -> bool:
    """Whether a column has a value: a mechanism without that parameter has empty text or NaN there."""
    return value != "" and not (isinstance(value, float) and math.isnan(value))


@dataclass(frozen=True, eq=False)
class Setting:
    """A setting that a question names."""

    #: Label, pair and factor.
    cell: Cell
    #: Its own points; None where there are none.
    equal: PairPoints | None
    #: The pairs whose upper, and whose lower bounds hold for it: its own first, then the nearest first.
    above: Sequence[Pair]
    below: Sequence[Pair]
    #: Reads the points of one of them: mostly the first ones are enough.
    points: Callable[[Pair], PairPoints]
    #: How many of them to read at least.
    near: int
    #: The cells of the study that have its pair, by their numbers.
    stored: Sequence[int]

    @property
    def bounded(self) -> bool:
        """Whether a stored cell gives an upper bound for it."""
        return any(self.points(pair).compositions.size for pair in self.above)


class Settings:
    """The settings of a study's cells, and the cells that bound any other setting."""

    def __init__(self, study: StudySpec, reader: PointReader) -> None:
        self._study, self._reader = study, reader
        self._column = cache(partial(column_array, study))
        self._labelled: dict[Hashable, tuple[IntArray, _Order]] = {}

    def of_pair(self, pair: Pair) -> Setting:
        """Return the setting of a pair; all cells of the study may bound it."""
        return self._all.setting_of(pair)

    def of_label(self, mechanism: str, noise: Mapping[str, float | str | None]) -> Setting:
        """Return the setting of a label and parameters; the cells of the label may bound it.

        A cell whose parameters are these to 4 ulp is meant. Else the parameters replace those of the label's cells.
        Errors as of `Study.delta`.
        """
        check_names(noise, [name for name in known_columns() if name != "mechanism"])
        # These may differ from those of all stored cells of the label.
        given = {
            name: value
            for name, value in noise.items()
            if isinstance(value, int | float) and name != "factor" and not is_text(name)
        }
        fixed = {"mechanism": mechanism, **{name: value for name, value in noise.items() if name not in given}}
        key = tuple(fixed.items())
        if key not in self._labelled:
            cells = cells_with(self._column, fixed)
            self._labelled[key] = cells, _Order(self._study, self._reader, cells.tolist())
        exact, order = self._labelled[key]
        for name, value in given.items():
            exact = exact[matches(name, self._column(name)[exact], value)]
        if exact.size:
            return order.setting(self._only([self._study.cells[cell] for cell in exact.tolist()]))
        templates = order.templates(tuple(given))
        if len(templates) != 1:
            try:
                # No cell has all of these parameters; raises.
                cells_with(self._column, {"mechanism": mechanism, **noise})
            except OffGridError as error:
                more = f": for bounds between these, also give the parameters in which {len(templates)} settings differ"
                raise OffGridError(f"{error}{more if templates else ''}") from None
        pair = pair_from_canonical(_replaced(templates[0], given) or {})
        factor = noise.get("factor")
        return order.setting(Cell(mechanism, pair, float(factor) if isinstance(factor, int | float) else None))

    @cached_property
    def _all(self) -> "_Order":
        return _Order(self._study, self._reader, range(len(self._study.cells)))

    @staticmethod
    def _only(cells: Sequence[Cell]) -> Cell:
        """Return the first of some cells, which have one pair; an error names the parameters in which others differ."""
        if len({cell.pair for cell in cells}) > 1:
            different = distinguishing(cells)
            more = f": also give {', '.join(different)}"
            if not different:
                more = " that differ in no parameter: give them labels of their own in the study"
            raise InvalidInputError(
                f"mechanism: expected one noise setting of {cells[0].label!r}, got {len(cells)}{more}"
            )
        return cells[0]


class _Order:
    """Some cells of a study, by how noisy they are."""

    def __init__(self, study: StudySpec, reader: PointReader, cells: Sequence[int]) -> None:
        self._reader = reader
        self._cells: dict[Pair, list[int]] = {pair: [] for pair in (one.cell.pair for one in reader.refinements)}
        for cell in cells:
            self._cells.setdefault(study.cells[cell].pair, []).append(cell)
        self._templates: dict[tuple[str, ...], list[dict[str, JsonValue]]] = {}

    def templates(self, names: tuple[str, ...]) -> list[dict[str, JsonValue]]:
        """Return the different canonical forms of the cells that have some parameters, those parameters aside."""
        if names not in self._templates:
            found: list[dict[str, JsonValue]] = []
            for pair in (pair for pair, numbers in self._cells.items() if numbers):
                # All with the same value of these parameters: the others tell them apart.
                form = _replaced(pair.canonical(), dict.fromkeys(names, 1.0))
                if form is not None and form not in found:
                    found.append(form)
            self._templates[names] = found
        return self._templates[names]

    def setting_of(self, pair: Pair) -> Setting:
        """Return the setting of a pair, or, as plans are stored, of the worst of that pair alone."""
        alone = None if pair.is_worst_of_several else WorstOf(pair)
        stored = alone if alone is not None and pair not in self._cells and alone in self._cells else pair
        return self.setting(Cell(type(stored).__name__, stored, None))

    def setting(self, cell: Cell) -> Setting:
        """Return the setting of a cell, with the pairs that bound it."""
        pair = cell.pair
        equal = self._points(pair) if pair in self._cells else None
        if equal is not None and not equal.compositions.size:
            equal = None
        own = [] if equal is None else [pair]
        stored = self._cells.get(pair, [])
        order = noise_order(pair)
        if order is None:
            return Setting(cell, equal, own, own, self._points, 1, stored)
        amounts, pairs = self._families.get(order.family, ([], []))
        mine = order.amounts
        if len(mine) == 1:
            first_same, end = bisect_left(amounts, mine), bisect_right(amounts, mine)
            above, below = pairs[:end][::-1], pairs[first_same:]
        else:
            ranked = sorted(zip(amounts, pairs, strict=True), key=lambda one: _distance(one[0], mine))
            above = [its for noise, its in ranked if all(map(le, noise, mine))]
            below = [its for noise, its in ranked if all(map(ge, noise, mine))]
        if pair in self._cells:
            # Its own points come first; other pairs that are as noisy bound from both sides.
            above, below = ([*own, *(its for its in side if its != pair)] for side in (above, below))
        near = 1 if len(mine) == 1 else _MAX_NEAR
        return Setting(cell, equal, above, below, self._points, near, stored)

    def _points(self, pair: Pair) -> PairPoints:
        return self._reader.points(pair, self._cells[pair])

    @cached_property
    def _families(self) -> dict[Hashable, tuple[list[tuple[Fraction, ...]], list[Pair]]]:
        """For each family its amounts of noise, sorted, and their pairs."""
        found: dict[Hashable, list[tuple[tuple[Fraction, ...], Pair]]] = {}
        for pair in self._cells:
            order = noise_order(pair)
            if order is not None:
                found.setdefault(order.family, []).append((order.amounts, pair))
        families = {}
        for family, members in found.items():
            members.sort(key=lambda member: member[0])
            families[family] = [amounts for amounts, _ in members], [pair for _, pair in members]
        return families


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


def neighbours_by_label(study: StudySpec) -> dict[str, Adjacency]:
    """Return for which neighbours the mechanisms of each label are, in the order of the study.

    A label whose mechanisms do not all say the same is as stated. One cell of each kind is made, as numbers do not
    matter; what pairs within a composite pair say is in its canonical form.
    """
    table = CellTable.of(study.cells)
    labels, kinds = table.column("mechanism"), table.column("kind")
    composite = {kind for kind in set(kinds) if kind in MECHANISMS and is_composite(MECHANISMS[kind])}
    rows: dict[tuple[str, str, str], int] = {}
    for row, form in enumerate(table.column("pair") if composite else kinds):
        within = re.sub(r"-?\b[0-9][-+0-9.eE]*|[, ]+", "", form) if kinds[row] in composite else ""
        rows.setdefault((labels[row], kinds[row], within), row)
    found: dict[str, set[Adjacency]] = {}
    for cell in (study.cells[row] for row in rows.values()):
        found.setdefault(cell.label, set()).add(study.neighbours_of(cell))
    return {label: common_adjacency(relations) for label, relations in found.items()}


def neighbours_of_settings(study: StudySpec, mechanism: str | Pair, settings: Sequence[Setting]) -> Adjacency:
    """Return for which neighbours the answers to questions about some settings are; as stated where they differ.

    The study states the relation of a label. A mechanism states its own; otherwise that of an equal stored one counts.
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
    labelled = dict.fromkeys(found)
    relations = list(dict.fromkeys(relation for _, relation in labelled))
    if len(relations) == 1:
        return f"neighbours: {relations[0].in_words}"
    labels = {one: ", ".join(label for label, its in labelled if its is one) for one in relations}
    each = "; ".join(f"{label}: {relation.in_words}" for relation, label in labels.items())
    differ = len([one for one in relations if one.definite]) > 1
    return f"neighbours differ, so that bounds do not compare: {each}" if differ else f"neighbours: {each}"
