"""Which stored noise settings bound the one that is asked for: itself, and those that are provably more or less noisy.

Between noise settings nothing is assumed: an upper bound is taken from a setting of which the one asked for is a
post-processing, a lower bound from one that is a post-processing of it (`pbdist.mechanisms.order`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import ge, le
from typing import Any

import numpy as np

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import Pair, pair_from_canonical
from pbdist.mechanisms.order import noise_order
from pbdist.query.lookup import ambiguous, find_cell, matches
from pbdist.query.points import PairPoints, PointReader
from pbdist.store.columns import column_of
from pbdist.store.layout import COLUMNS, TEXT_COLUMNS
from pbdist.study import Cell, StudySpec
from pbdist.types import IntArray, JsonValue

__all__ = ["Setting", "Settings"]

#: The parameters in which a mechanism may differ from every stored one and still be known by its label.
_REPLACED = ("scale", "sensitivity", "rate", "p", "mean", "shift", "pair_epsilon", "pair_delta")
#: Settings that are kept once they have been asked for.
_MOST_KNOWN = 100_000
#: Of settings that are ordered in several amounts so many near ones are looked at; in one amount the next one is best.
_MOST_NEAR = 6


@dataclass(frozen=True, eq=False)
class Setting:
    """One noise setting that is asked for.

    Attributes
    ----------
    cell
        Label, pair and factor.
    equal
        Its own points; None where there are none.
    above, below
        The points whose upper, and whose lower bounds hold for it: its own first, then the nearest first.
    near
        How many of them are to be looked at in any case.
    ordered
        Whether it can be compared with others at all.
    """

    cell: Cell
    equal: PairPoints | None
    above: Sequence[PairPoints]
    below: Sequence[PairPoints]
    near: int
    ordered: bool


class Settings:
    """The noise settings of a study, and what bounds any other one.

    Parameters
    ----------
    study
        The study.
    reader
        Reads their points.
    """

    def __init__(self, study: StudySpec, reader: PointReader) -> None:
        self._study, self._reader = study, reader
        self._columns: dict[str, Any] = {}
        self._labelled: dict[Hashable, tuple[IntArray, _Order]] = {}
        self._all: _Order | None = None
        self._known: dict[Hashable, Setting] = {}

    def of_pair(self, pair: Pair) -> Setting:
        """Return what bounds a pair, among all noise settings of the study."""
        self._forget()
        if pair not in self._known:
            if self._all is None:
                self._all = _Order(self._study, self._reader, range(len(self._study.cells)))
            self._known[pair] = self._all.setting(Cell(type(pair).__name__, pair, None))
        return self._known[pair]

    def of_label(self, mechanism: str, noise: Mapping[str, float | str | None]) -> Setting:
        """Return what bounds the noise setting with a label and parameters, among those of the label.

        Where a stored setting has these parameters but for rounding (4 ulp), it is meant. Else the parameters take
        the place of those of the stored settings.

        Raises
        ------
        OffGridError
            There is no such label, or a parameter that takes few values has another one.
        InvalidInputError
            Several noise settings are meant, or a parameter is unknown or out of its range.
        """
        key = (mechanism, tuple(noise.items()))
        self._forget()
        if key not in self._known:
            self._known[key] = self._of_label(mechanism, noise)
        return self._known[key]

    def _forget(self) -> None:
        """Drop what was found before when it is very much, so that one may ask for ever."""
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()

    def _of_label(self, mechanism: str, noise: Mapping[str, float | str | None]) -> Setting:
        given = {name: value for name, value in noise.items() if name in _REPLACED and isinstance(value, int | float)}
        fixed = {name: value for name, value in noise.items() if name not in given}
        alike, order = self._alike(mechanism, fixed, noise)
        exact = alike
        for name, value in given.items():
            exact = exact[matches(name, self._column(name)[exact], value)]
        if exact.size:
            cells = [self._study.cells[cell] for cell in exact.tolist()]
            if len({cell.pair for cell in cells}) > 1:
                raise InvalidInputError(ambiguous(mechanism, cells))
            return order.setting(cells[0])
        templates = order.templates(tuple(given))
        if len(templates) != 1:
            self._refuse(mechanism, noise, templates)
        form = _replaced(templates[0], given)
        factor = noise.get("factor")
        pair = pair_from_canonical({} if form is None else form)
        return order.setting(Cell(mechanism, pair, float(factor) if isinstance(factor, int | float) else None))

    def _alike(
        self, mechanism: str, fixed: Mapping[str, float | str | None], noise: Mapping[str, float | str | None]
    ) -> "tuple[IntArray, _Order]":
        """Return the cells of a label that have some parameters, and their order."""
        key = (mechanism, tuple(fixed.items()))
        if key not in self._labelled:
            unknown = any(name not in COLUMNS or name == "mechanism" for name in noise)
            found = np.flatnonzero(self._column("mechanism") == mechanism)
            for name, value in () if unknown else fixed.items():
                found = found[matches(name, self._column(name)[found], value)]
            if unknown or not found.size:
                # Says what is wrong, and which values there are.
                find_cell(self._study, mechanism, noise if unknown else fixed)
            self._labelled[key] = found, _Order(self._study, self._reader, found.tolist())
        return self._labelled[key]

    def _refuse(
        self, mechanism: str, noise: Mapping[str, float | str | None], templates: Sequence[Mapping[str, JsonValue]]
    ) -> None:
        if not templates:
            # No stored setting has all of these parameters.
            find_cell(self._study, mechanism, noise)
        raise InvalidInputError(
            f"mechanism: expected one noise setting of {mechanism!r}, got {len(templates)} that have these parameters:"
            " give the others too"
        )

    def _column(self, name: str) -> Any:
        if name not in self._columns:
            values = column_of(self._study.cells, name)
            self._columns[name] = np.array(values, dtype=object if name in TEXT_COLUMNS else np.float64)
        return self._columns[name]


class _Order:
    """Some noise settings by how noisy they are."""

    def __init__(self, study: StudySpec, reader: PointReader, cells: Sequence[int]) -> None:
        self._reader = reader
        self._cells: dict[Pair, list[int]] = {pair: [] for pair in reader.refined}
        for cell in cells:
            self._cells.setdefault(study.cells[cell].pair, []).append(cell)
        self._own = [pair for pair, numbers in self._cells.items() if numbers]
        #: For each family its amounts, sorted, and their pairs.
        self._families: dict[Hashable, tuple[list[tuple[Fraction, ...]], list[Pair]]] | None = None
        self._templates: dict[tuple[str, ...], list[dict[str, JsonValue]]] = {}

    def templates(self, names: tuple[str, ...]) -> list[dict[str, JsonValue]]:
        """Return the different canonical forms of the settings but for some parameters, which all of them have."""
        if names not in self._templates:
            found: list[dict[str, JsonValue]] = []
            for pair in self._own:
                # Each with the same numbers in these places: what is left tells them apart.
                form = _replaced(pair.canonical(), dict.fromkeys(names, 1.0))
                if form is not None and form not in found:
                    found.append(form)
            self._templates[names] = found
        return self._templates[names]

    def setting(self, cell: Cell) -> Setting:
        """Return what bounds a noise setting."""
        pair = cell.pair
        equal = self._points(pair) if pair in self._cells else None
        if equal is not None and not equal.compositions.size:
            equal = None
        first = [] if equal is None else [equal]
        order = noise_order(pair)
        if order is None:
            return Setting(cell, equal, first, first, 1, ordered=False)
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
            # Itself, and others that are as noisy, which bound from both sides.
            above, below = ([its for its in side if its != pair] for side in (above, below))
        near = 1 if len(mine) == 1 else _MOST_NEAR
        return Setting(cell, equal, _Points(self, first, above), _Points(self, first, below), near, ordered=True)

    def points(self, pair: Pair) -> PairPoints:
        """Return the points of one of the settings."""
        return self._points(pair)

    def _points(self, pair: Pair) -> PairPoints:
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
    """Points that are read when they are asked for: mostly the first ones are enough."""

    def __init__(self, order: _Order, first: Sequence[PairPoints], pairs: Sequence[Pair]) -> None:
        self._order, self._first, self._pairs = order, first, pairs

    def __len__(self) -> int:
        return len(self._first) + len(self._pairs)

    def __getitem__(self, index: Any) -> Any:
        if index < len(self._first):
            return self._first[index]
        return self._order.points(self._pairs[index - len(self._first)])


def _distance(first: Sequence[Fraction], second: Sequence[Fraction]) -> float:
    """Return how far apart two noises are; only to look at the nearest first."""
    distance = 0.0
    for a, b in zip(first, second, strict=True):
        if a != b:
            # |a - b| / (|a| + |b|) without a common divisor, which takes most of the time.
            x, y = a.numerator * b.denominator, b.numerator * a.denominator
            distance += abs(x - y) / (abs(x) + abs(y))
    return distance


def _place(form: Mapping[str, JsonValue], name: str) -> tuple[str, ...] | None:
    """Return where in a canonical form the value of a column stands, None where it has none."""
    field = name.removeprefix("pair_")
    if form.get(field) is not None and (field == name or form["mechanism"] == "ApproximateDP"):
        return (field,)
    noise = form.get("noise")
    # The sensitivity of a noisy count is its shift.
    return ("noise", field) if isinstance(noise, Mapping) and field != "sensitivity" and field in noise else None


def _replaced(form: Mapping[str, JsonValue], values: Mapping[str, JsonValue]) -> dict[str, JsonValue] | None:
    """Return a canonical form with other values of some columns, None where it does not have them."""
    result = dict(form)
    for name, value in values.items():
        place = _place(form, name)
        if place is None:
            return None
        if len(place) > 1:
            result[place[0]] = {**result[place[0]], place[1]: value}
        else:
            result[place[0]] = value
    return result
