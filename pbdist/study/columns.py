"""Columns that describe cells: label, kind, noise, factor, the parameters of their kinds, and the canonical pair."""

import itertools
import json
import math
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pbdist.mechanisms.columns import (
    column_value,
    columns_of_kind,
    depends_on_values,
    described_columns,
    factors_of,
    is_composite,
    is_text,
    known_columns,
    places_of,
    row_of,
)
from pbdist.mechanisms.texts import composite_text
from pbdist.study.cells import Block, Cell, CellTable, KnownCells, encoder_of_forms, known

#: Of the column of canonical forms.
_FORMS = encoder_of_forms()


class DescribedCells(KnownCells):
    """Cells whose columns can be read without making the cells."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The columns that there are, in the order of `known_columns`."""

    @abstractmethod
    def column(self, name: str) -> list[Any]:
        """Return a column of all cells, or ``pair``."""


def absent(name: str) -> str | float:
    """Return what stands in a column for a parameter that a mechanism does not have."""
    return "" if is_text(name) else math.nan


def column_names(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Return the columns that describe some cells: label, kind, noise, factor, and the parameters of their kinds."""
    # Also where what the cells are made of is damaged.
    return cells.names if isinstance(cells, DescribedCells) else tuple(column_descriptions(cells))


def column_descriptions(cells: Sequence[Cell]) -> dict[str, str]:
    """Return the same columns, and what each holds; few cells are made."""
    found: dict[str, set[str]] = {}
    for pair in known(cells).examples:
        kind = type(pair)
        if depends_on_values(kind):
            form = pair.canonical()
            for name in {kind.__name__, *(factor["mechanism"] for factor in factors_of(form))}:
                found.setdefault(name, set()).update(row_of(form))
        elif kind.__name__ not in found:
            found[kind.__name__] = columns_of_kind(kind)
    return described_columns(found)


def cell_columns(cells: Sequence[Cell], also: Collection[str] = ()) -> dict[str, list[str | float]]:
    """Return the columns of `column_names`, those in `also`, and ``pair``, with one value a cell.

    ``pair`` is the canonical form as JSON. A column that a mechanism does not have is empty text or NaN.
    """
    wanted = {*column_names(cells), *also, "pair"}
    columns: dict[str, list[str | float]] = {name: [] for name in (*known_columns(), "pair") if name in wanted}
    for block in CellTable.of(cells).blocks:
        found = _columns_of(block)
        for name, values in columns.items():
            none, given = absent(name), found.get(name, itertools.repeat(None, block.size))
            values.extend(none if value is None else value for value in given)
    return columns


def _columns_of(block: Block) -> dict[str, Iterable[str | float | None]]:
    """Return the columns that some cells fill; None where one has no value."""
    kind, texts = block.kind, [*block.texts(_FORMS)]
    found: dict[str, Iterable[str | float | None]] = {
        "mechanism": block.label.each(str),
        "factor": block.factor.each(lambda factor: factor),
        "pair": texts,
    }
    if kind is None or depends_on_values(kind):
        rows = [row_of(json.loads(text)) for text in texts]
        return found | {name: [row.get(name) for row in rows] for name in dict.fromkeys(itertools.chain(*rows))}
    found |= {"kind": [kind.__name__] * block.size, "noise": [kind.noise_family] * block.size}
    for name, (_, (field, *keys)) in places_of(kind).items():
        found[name] = block.columns[str(field)].each(partial(column_value, keys=tuple(keys)))
    if is_composite(kind):
        found["made_of"] = [composite_text(json.loads(text)) for text in texts]
    return found


def column_of(cells: Sequence[Cell], name: str) -> list[Any]:
    """Return a column that describes cells, of some cells; of described cells it is read without making them."""
    return cells.column(name) if isinstance(cells, DescribedCells) else cell_columns(cells, (name,))[name]


def columns_of(cells: Sequence[Cell]) -> Mapping[str, Sequence[Any]]:
    """Return the columns of `column_names`; of described cells they are read one by one, and of others made at once."""
    columns = None if isinstance(cells, DescribedCells) else cell_columns(cells)
    return {name: column_of(cells, name) if columns is None else columns[name] for name in column_names(cells)}
