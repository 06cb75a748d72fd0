"""Rows of answers before they are printed: each cell with its value and with its text."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from pbdist.errors import printable
from pbdist.rounding import exact

#: What a cell holds; None where there is nothing.
Value: TypeAlias = str | bool | int | float | None

#: How quantities are called in print.
HEADS: Mapping[str, str] = {"compositions": "r", "epsilon": "ε", "exp_epsilon": "e^ε", "delta": "δ"}


class Shown(NamedTuple):
    """A value, and the text that stands for it in print: a bound rounded outwards, a long list cut short."""

    text: str
    value: Value


Cell: TypeAlias = Value | Shown


@dataclass(frozen=True)
class Column:
    """A column of a sheet.

    Attributes
    ----------
    name
        Its name in CSV.
    head
        Its head in print.
    number
        Whether its cells are numbers, and stand on the right.
    printed
        Whether it is in print, and not in CSV alone.
    """

    name: str
    head: str
    number: bool = True
    printed: bool = True


@dataclass(frozen=True)
class Sheet:
    """Rows under columns, with lines of text above and below; these are not in CSV."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def printed_columns(self) -> tuple[Column, ...]:
        """The columns that are in print."""
        return tuple(column for column in self.columns if column.printed)

    @property
    def printed_rows(self) -> tuple[tuple[str, ...], ...]:
        """The texts of the columns that are in print."""
        return tuple(
            tuple(text_of(cell) for column, cell in zip(self.columns, row, strict=True) if column.printed)
            for row in self.rows
        )


def head_of(name: str) -> str:
    """Return how a column of that name is called in print: ln δ upper for log_delta_upper."""
    log, rest = ("ln ", name.removeprefix("log_")) if name.startswith("log_") else ("", name)
    quantity, _, side = rest.rpartition("_")
    if side in ("lower", "upper"):
        return f"{log}{HEADS.get(quantity, quantity)} {side}"
    return HEADS.get(name, name)


def value_of(cell: Cell) -> Value:
    """Return the value of a cell."""
    return cell.value if isinstance(cell, Shown) else cell


def text_of(cell: Cell) -> str:
    """Return the text of a cell, on one line."""
    if isinstance(cell, Shown):
        return printable(cell.text)
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return exact(cell) if isinstance(cell, float) else printable(str(cell))
