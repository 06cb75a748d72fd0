"""The columns that describe the cells of a study, and pairs and their parameters as text."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from pbdist.mechanisms.composite import Alternatives
from pbdist.mechanisms.declaration import MECHANISMS, Form, Parameter, described, parameters_of
from pbdist.mechanisms.pair import Pair
from pbdist.rounding import brief
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


#: Longer texts are cut, and end with a digest of all.
_MAX_OF_LIST, _MAX_OF_PAIRS = 80, 240
#: So many values stand before the digest of a long list.
_LIST_BEGINNING = 3


def list_text(values: Sequence[float]) -> str:
    """Return the text of a list of numbers, ``[0, 0.5, 1]``; of a long one its beginning, its length and a digest."""
    text = f"[{', '.join(map(_number, values))}]"
    if len(text) <= _MAX_OF_LIST:
        return text
    return f"[{', '.join(map(_number, values[:_LIST_BEGINNING]))}, ..: {len(values)} values, {_digest(text)}]"


def as_list_text(given: str) -> str:
    """Return the text that `list_text` makes of numbers that are given as text, and any other text as it is.

    Brackets and spaces do not matter, nor how a number is written: ``0,1.0`` is ``[0, 1]``.
    """
    try:
        parts = [part.strip() for part in given.strip("[]() ").split(",")]
        # A count may have more digits than a float.
        values = [int(part) if part.isdecimal() else float(part) for part in parts]
    except ValueError:
        return given
    return list_text(values) if all(map(math.isfinite, values)) else given


def composite_text(form: Mapping[str, JsonValue]) -> str:
    """Return the text of the pairs that a product, a reversed pair or the worst of several pairs is made of.

    `form` is its canonical form. A long text is cut and ends with a digest of the form.
    """
    kind = form["mechanism"]
    if kind == "Reversed":
        text = _text(form["pair"])
    elif kind == "Product":
        text = " * ".join(map(_text, form["pairs"]))
    elif kind != "WorstOf":
        text = _text(form)
    else:
        pairs = zip(form["pairs"], form["attained"], strict=True)
        text = "; ".join(f"{_text(pair)}{'' if attained else ' (upper bounds only)'}" for pair, attained in pairs)
        if form.get("neighbours") is not None:
            text += f"; {form['neighbours']}"
    if len(text) <= _MAX_OF_PAIRS:
        return text
    whole = json.dumps(form, sort_keys=True)
    return f"{text[: _MAX_OF_PAIRS // 2]}.. ({_digest(whole)})"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        # Sorted, as in the canonical text.
        names = sorted(name for name, inner in value.items() if name != "mechanism" and inner is not None)
        return f"{value['mechanism']}({', '.join(f'{name}={_text(value[name])}' for name in names)})"
    if isinstance(value, list | tuple):
        numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in value)
        return list_text(value) if numbers else f"[{', '.join(map(_text, value))}]"
    return _number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _number(value: float) -> str:
    """Return the shortest decimal of a number, the same for a whole float and for its integer."""
    return repr(value).removesuffix(".0")


def _digest(text: str) -> str:
    return f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"


#: In a short text: the pairs of a worst of several and the factors of each, the values of a list, and the least whole
#: number that is rounded.
_MAX_SHOWN, _LONG_LIST, _LONG_NUMBER = 2, 4, 10**15


def short_text(form: Mapping[str, JsonValue]) -> str:
    """Return the parameters of a canonical pair as ``(scale=200, ..)``; of the worst of several, its first pairs."""
    if form["mechanism"] != "WorstOf":
        given = ((name, value) for name, value in form.items() if name != "mechanism" and value is not None)
        return f"({', '.join(f'{name}={_shown(value)}' for name, value in given)})"
    pairs = form["pairs"]
    texts = [_product(pair) for pair in pairs[:_MAX_SHOWN]]
    more = [f"{len(pairs) - _MAX_SHOWN} more"] if len(pairs) > _MAX_SHOWN else []
    return f" ({texts[0]})" if len(pairs) == 1 else f" (worst of {len(pairs)}: {' or '.join([*texts, *more])})"


def _product(form: Mapping[str, JsonValue]) -> str:
    """Return a product as text: its different factors, each with how often it occurs."""
    counts = Counter(map(_shown, form["pairs"] if form["mechanism"] == "Product" else [form]))
    texts = [text if times == 1 else f"{times} x {text}" for text, times in counts.items()]
    more = [f"{len(texts) - _MAX_SHOWN} more"] if len(texts) > _MAX_SHOWN else []
    return " and ".join([*texts[:_MAX_SHOWN], *more])


def _shown(value: JsonValue) -> str:
    if isinstance(value, Mapping):
        return f"{value['mechanism']}{short_text(value)}"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]" if len(value) <= _LONG_LIST else f"[{len(value)} values]"
    if isinstance(value, int) and abs(value) >= _LONG_NUMBER:
        return f"{Decimal(value):.6e}"
    return brief(value, 10) if isinstance(value, float) else str(value)
