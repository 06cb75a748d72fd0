"""Columns that describe cells: label, kind, noise, factor, the parameters of their kinds, and the canonical pair."""

import hashlib
import itertools
import json
import math
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pbdist.mechanisms import MECHANISMS, Pair
from pbdist.mechanisms.columns import (
    columns_of_kind,
    described_columns,
    is_composite,
    is_text,
    known_columns,
    places_of,
    value_at,
)
from pbdist.mechanisms.worst_of import Alternatives
from pbdist.study.cells import Block, Cell, CellTable, KnownCells, encoder_of_forms
from pbdist.types import JsonValue

#: Longer texts are cut, and end with a digest of all.
_MOST_OF_LIST, _MOST_OF_PAIRS = 80, 240
#: So many values stand before the digest of a long list.
_FIRST = 3


def list_text(values: Sequence[float]) -> str:
    """Return the text of a list of numbers, ``[0, 0.5, 1]``; of a long one its beginning, its length and a digest."""
    text = f"[{', '.join(map(_number, values))}]"
    if len(text) <= _MOST_OF_LIST:
        return text
    return f"[{', '.join(map(_number, values[:_FIRST]))}, ..: {len(values)} values, {_digest(text)}]"


def as_list_text(given: str) -> str:
    """Return the text that `list_text` makes of numbers that are given as text, and any other text as it is.

    Brackets and spaces do not matter, nor how a number is written: ``0,1.0`` is ``[0, 1]``.
    """
    try:
        values = [_parsed(part.strip()) for part in given.strip("[]() ").split(",")]
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
        told = zip(form["pairs"], form["attained"], strict=True)
        text = "; ".join(f"{_text(pair)}{'' if there else ' (upper bounds only)'}" for pair, there in told)
        if form.get("neighbours") is not None:
            text += f"; {form['neighbours']}"
    if len(text) <= _MOST_OF_PAIRS:
        return text
    whole = json.dumps(form, sort_keys=True)
    return f"{text[: _MOST_OF_PAIRS // 2]}.. ({_digest(whole)})"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        # Sorted, as in the canonical text.
        names = sorted(name for name, inner in value.items() if name != "mechanism" and inner is not None)
        told = (f"{name}={_text(value[name])}" for name in names)
        return f"{value['mechanism']}({', '.join(told)})"
    if isinstance(value, list | tuple):
        numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in value)
        return list_text(value) if numbers else f"[{', '.join(map(_text, value))}]"
    return _number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _parsed(text: str) -> float:
    # A count may have more digits than a float.
    return int(text) if text.isdecimal() else float(text)


def _number(value: float) -> str:
    """Return the shortest decimal of a number, the same for a whole float and for its integer."""
    return repr(value).removesuffix(".0")


def _digest(text: str) -> str:
    return f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"


#: Of the column of canonical forms.
_FORMS = encoder_of_forms()


class DescribedCells(KnownCells):
    """Cells whose columns can be read without making the cells."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Whether there is a column of that name."""

    @abstractmethod
    def column(self, name: str) -> list[Any]:
        """Return a column of all cells, or ``pair``."""

    @property
    @abstractmethod
    def examples(self) -> tuple[Pair, ...]:
        """A pair of each kind, and all pairs of the kinds that `depends_on_values`."""


def absent(name: str) -> str | float:
    """Return what stands in a column for a parameter that a mechanism does not have."""
    return "" if is_text(name) else math.nan


def depends_on_values(kind: type[Pair]) -> bool:
    """Whether the values of a pair say which columns it has: the worst of several has those in which they agree."""
    return issubclass(kind, Alternatives) and is_composite(kind)


def column_names(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Return the columns that describe some cells: label, kind, noise, factor, and the parameters of their kinds."""
    if isinstance(cells, DescribedCells):
        # Also where what the cells are made of is damaged.
        return tuple(name for name in known_columns() if cells.has(name))
    return tuple(column_descriptions(cells))


def column_descriptions(cells: Sequence[Cell]) -> dict[str, str]:
    """Return the same columns, and what each holds; few cells are made."""
    found: dict[str, set[str]] = {}
    seen: set[type[Pair]] = set()
    for pair in _examples(cells):
        kind = type(pair)
        if depends_on_values(kind):
            form = pair.canonical()
            shared = {*row_of(form)}
            for name in {kind.__name__, *(factor["mechanism"] for factor in factors_of(form))}:
                found.setdefault(name, set()).update(shared)
        elif kind not in seen:
            seen.add(kind)
            found.setdefault(kind.__name__, set()).update(columns_of_kind(kind))
    return described_columns(found)


def _examples(cells: Sequence[Cell]) -> Iterable[Pair]:
    """Yield a pair of each kind, and all pairs of some kinds, as `DescribedCells.examples`."""
    if isinstance(cells, DescribedCells):
        yield from cells.examples
        return
    for block in CellTable.of(cells).blocks:
        kind = block.pairs.kind
        yield from block.pairs if kind is None or depends_on_values(kind) else block.pairs[:1]


def cell_columns(cells: Sequence[Cell], also: Collection[str] = ()) -> dict[str, list[str | float]]:
    """Return the columns of `column_names`, those in `also`, and ``pair``, with one value a cell.

    ``pair`` is the canonical form as JSON. A column that a mechanism does not have is empty text or NaN.
    """
    wanted = {*column_names(cells), *also, "pair"}
    columns: dict[str, list[str | float]] = {name: [] for name in (*known_columns(), "pair") if name in wanted}
    for block in CellTable.of(cells).blocks:
        found = _columns_of(block)
        for name, values in columns.items():
            none, given = absent(name), found.get(name, ())
            values.extend([none if value is None else value for value in given] or [none] * block.size)
    return columns


def _columns_of(block: Block) -> dict[str, Sequence[str | float | None]]:
    """Return the columns that some cells fill; None where one has no value."""
    kind, columns = block.pairs.kind, block.pairs.columns
    texts = [*block.texts(_FORMS)]
    found: dict[str, Sequence[str | float | None]] = {
        "mechanism": block.label.each(str),
        "factor": block.factor.each(lambda factor: factor),
        "pair": texts,
    }
    if kind is None or depends_on_values(kind):
        rows = [row_of(json.loads(text)) for text in texts]
        return found | {name: [row.get(name) for row in rows] for name in dict.fromkeys(itertools.chain(*rows))}
    found |= {"kind": [kind.__name__] * block.size, "noise": [kind.noise_family] * block.size}
    for name, (_, (field, *keys)) in places_of(kind).items():
        found[name] = columns[str(field)].each(partial(_value_of, keys=tuple(keys)))
    if is_composite(kind):
        found["made_of"] = [composite_text(json.loads(text)) for text in texts]
    return found


def _value_of(value: Any, keys: tuple[str | int, ...]) -> str | float | None:
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
    values = ((name, _value_of(form, keys)) for name, (_, keys) in places_of(kind).items())
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


def column_of(cells: Sequence[Cell], name: str) -> list[Any]:
    """Return a column that describes cells, of some cells; of described cells it is read without making them."""
    return cells.column(name) if isinstance(cells, DescribedCells) else cell_columns(cells, (name,))[name]


def columns_of(cells: Sequence[Cell]) -> Mapping[str, Sequence[Any]]:
    """Return the columns of `column_names`; of described cells they are read one by one, and of others made at once."""
    if not isinstance(cells, DescribedCells):
        return {name: values for name, values in cell_columns(cells).items() if name != "pair"}
    return {name: cells.column(name) for name in column_names(cells)}
