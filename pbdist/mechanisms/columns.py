"""The columns that describe the cells of a study, from the parameters that mechanisms declare."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pbdist.mechanisms.declaration import MECHANISMS, Form, Parameter, described, parameters_of
from pbdist.mechanisms.pair import Pair
from pbdist.mechanisms.texts import composite_text, list_text
from pbdist.mechanisms.worst_of import Alternatives
from pbdist.types import JsonValue

#: The first columns, which every cell has.
_FIRST = {
    "mechanism": "label of the mechanism in the study",
    "kind": "kind of the mechanism",
    "noise": "family of the noise that is added, empty where none is",
}
_OF_ALL = frozenset({*_FIRST, "factor"})


@dataclass(frozen=True)
class CellColumn:
    """A column that describes cells: what it holds, and whether that is text, or text that lists numbers."""

    what: str
    text: bool = False
    listed: bool = False


def known_columns() -> Mapping[str, CellColumn]:
    """Return all columns that a cell of any known kind may have, in the order in which tables have them.

    The order does not depend on which modules with mechanisms of their own were imported first.
    """
    return _columns(tuple(MECHANISMS.values()))


def described_columns(columns_of_kinds: Mapping[str, set[str]]) -> dict[str, str]:
    """Return the descriptions of columns, in the order of `known_columns`, for the columns of each kind.

    Other kinds do not matter, so that a store is the same whichever mechanisms of others are known.
    """
    found: dict[str, dict[str, str]] = {}
    for kind in _in_order(tuple(MECHANISMS.values())):
        for owner, name, one in _owned(kind):
            if name in columns_of_kinds.get(kind.__name__, ()) and name not in _OF_ALL:
                found.setdefault(name, {})[owner] = one.described
    own = {*_OF_ALL, *(name for names in columns_of_kinds.values() for name in names)}
    columns = ((name, column.what) for name, column in known_columns().items() if name in own)
    return {name: described(found[name]) if name in found else what for name, what in columns}


def is_text(name: str) -> bool:
    """Whether a column that describes cells holds text."""
    column = known_columns().get(name)
    return name == "pair" or (column is not None and column.text)


_PLACES: dict[type[Any], Mapping[str, tuple[Parameter, tuple[str | int, ...]]]] = {}


@lru_cache
def _columns(kinds: tuple[type[Any], ...]) -> Mapping[str, CellColumn]:
    found: dict[str, dict[str, str]] = {}
    forms: dict[str, Parameter] = {}
    for kind in _in_order(kinds):
        for owner, name, one in _owned(kind):
            # Those that no study names are for upper bounds of others, with parameters of the same names.
            if MECHANISMS[owner].in_studies or name not in found:
                found.setdefault(name, {})[owner] = one.described
            forms.setdefault(name, one)
    lists = Form.NUMBERS, Form.MASSES
    made_of = "pairs that a product, a reversed pair or the worst of several pairs is made of"
    factor = "factor between buckets that was asked for; not a number where chosen automatically"
    return {
        **{name: CellColumn(what, text=True) for name, what in _FIRST.items()},
        **{
            name: CellColumn(described(kinds_of), forms[name].text, forms[name].domain.form in lists)
            for name, kinds_of in found.items()
            if name not in _FIRST
        },
        "made_of": CellColumn(made_of, text=True),
        "factor": CellColumn(factor),
    }


def _in_order(kinds: tuple[type[Any], ...]) -> Iterator[type[Any]]:
    """Yield pbdist's own kinds as they are registered, and then those of others by their names."""
    others = [kind for kind in kinds if not kind.__module__.startswith("pbdist.")]
    yield from (kind for kind in kinds if kind not in others)
    yield from sorted(others, key=lambda kind: str(kind.__name__))


def places_of(kind: type[Any]) -> Mapping[str, tuple[Parameter, tuple[str | int, ...]]]:
    """Return the columns of a kind's parameters: the parameter, and the keys to the value in a canonical form.

    A mechanism within it fills the columns of its own parameters, but not that of the sensitivity: the shift of a noisy
    count is one. Of what is made of any mechanisms there are no such columns; see `is_composite`.
    """
    if kind in _PLACES:
        return _PLACES[kind]
    found: dict[str, tuple[Parameter, tuple[str | int, ...]]] = {}
    for name, one in parameters_of(kind).items():
        if len(one.columns) > 1:
            found |= {column: (one, (name, place)) for place, column in enumerate(one.columns)}
        elif not one.nested:
            found[one.columns[0]] = one, (name,)
        elif one.domain.kinds:
            found[one.columns[0]] = one, (name, "mechanism")
            for inner in one.domain.kinds:
                for column, (its, keys) in places_of(MECHANISMS[inner]).items():
                    if column != "sensitivity":
                        found.setdefault(column, (its, (name, *keys)))
    _PLACES[kind] = found
    return found


def _owned(kind: type[Any]) -> Iterator[tuple[str, str, Parameter]]:
    """Yield the columns of a kind's parameters with the kind that declares them: itself, or one within it."""
    for one in parameters_of(kind).values():
        if not one.nested:
            yield from ((kind.__name__, column, one) for column in one.columns)
        for inner in one.domain.kinds:
            yield from (owned for owned in _owned(MECHANISMS[inner]) if owned[1] != "sensitivity")


def is_composite(kind: type[Any]) -> bool:
    """Whether a mechanism is made of others, of any kind."""
    return any(one.nested and not one.domain.kinds for one in parameters_of(kind).values())


def columns_of_kind(kind: type[Any]) -> set[str]:
    """Return the columns of a kind's parameters, and what it is made of."""
    return {*places_of(kind), *(["made_of"] if is_composite(kind) else [])}


def depends_on_values(kind: type[Pair]) -> bool:
    """Whether the values of a pair say which columns it has: the worst of several has those in which they agree."""
    return issubclass(kind, Alternatives) and is_composite(kind)


def column_value(value: Any, keys: tuple[str | int, ...]) -> str | float | None:
    """Return what a column has of a parameter, or of what is at a place in it."""
    form = value.canonical() if isinstance(value, Pair) else list(value) if isinstance(value, tuple) else value
    held = value_at(form, keys)
    if held is None or isinstance(held, str):
        return held
    return list_text(held) if isinstance(held, list) else float(held)


def row_of(form: Mapping[str, JsonValue]) -> dict[str, str | float]:
    """Return the columns that a canonical form fills, but label, factor and pair."""
    kind = MECHANISMS[form["mechanism"]]
    made = {"made_of": composite_text(form)} if is_composite(kind) else {}
    values = _shared_values(form) if depends_on_values(kind) else _values(form)
    return {"kind": form["mechanism"], **values, **made}


def _values(form: Mapping[str, JsonValue]) -> dict[str, str | float]:
    """Return the columns that the parameters of a canonical form fill, and the family of its noise."""
    kind = MECHANISMS[form["mechanism"]]
    values = ((name, column_value(form, keys)) for name, (_, keys) in places_of(kind).items())
    row: dict[str, str | float] = {name: value for name, value in values if value is not None}
    return {"noise": kind.noise_family, **row} if kind.noise_family else row


def _shared_values(form: Mapping[str, JsonValue]) -> dict[str, str | float]:
    """Return the columns in which all factors of the worst of several pairs, as of a release plan, have one value."""
    rows = [_values(factor) for factor in factors_of(form)]
    return {name: value for name, value in rows[0].items() if all(row.get(name) == value for row in rows)}


def factors_of(form: JsonValue) -> list[Mapping[str, JsonValue]]:
    """Return the elementary pairs that a pair is made of, in canonical form."""
    if isinstance(form, list):
        return [factor for one in form for factor in factors_of(one)]
    if not isinstance(form, Mapping):
        return []
    return factors_of([*form.values()]) if is_composite(MECHANISMS[form["mechanism"]]) else [form]


def value_at(form: Any, keys: tuple[str | int, ...]) -> Any:
    """Return the value at a place of a canonical form; None where it has no such place."""
    for key in keys:
        if isinstance(form, Mapping):
            form = form.get(key)
        elif isinstance(form, list) and isinstance(key, int):
            form = form[key]
        else:
            return None
    return form
