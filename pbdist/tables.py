"""Tables of answers: cells once, and from them text, HTML, Markdown, LaTeX, CSV, JSON, and a DataFrame of pandas.

In every written form the decimals of a bound are a bound: those of upper bounds are rounded up, those of lower bounds
down. A column is one of bounds if its name ends in ``lower`` or ``upper``, or if its `side` says so.
"""

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from io import StringIO
from typing import Any, NamedTuple, TypeAlias

from pbdist.errors import printable
from pbdist.rounding import exact, whole_down, whole_up

#: The value of a cell, or several numbers; None if it is empty.
Value: TypeAlias = str | bool | int | float | tuple[float | None, ...] | None

#: How quantities are called in print.
HEADS: Mapping[str, str] = {
    "compositions": "r",
    "epsilon": "ε",
    "exp_epsilon": "e^ε",
    "delta": "δ",
    "type_one_error": "α",
    "noise_multiplier": "noise multiplier",
    "type_two_error": "β",
}
#: Largest width of a printed table, unless its numbers need more, and least width of a last column of text.
_WIDTH, _MIN_TEXT = 100, 28
#: Rows, and letters of a cell, in a notebook.
_HTML_ROWS, _HTML_LETTERS = 20, 160


class Shown(NamedTuple):
    """A value, and the text that stands for it in print: a bound rounded outwards, a long list cut short."""

    text: str
    value: Value


Cell: TypeAlias = Value | Shown


@dataclass(frozen=True)
class Column:
    """A column of a sheet."""

    #: Its name in CSV and JSON.
    name: str
    #: Its head in print.
    head: str
    #: Whether its cells are numbers, and stand on the right.
    number: bool = True
    #: Whether it is in print.
    printed: bool = True
    #: Whether all rows have the same value, if any, which JSON then says once.
    shared: bool = False
    #: ``lower`` or ``upper`` if its numbers are bounds and its name does not say so.
    side: str = ""


class Printed(ABC):
    """Values that ``print`` and notebooks show as a sheet."""

    __slots__ = ()

    @property
    @abstractmethod
    def sheet(self) -> "Sheet":
        """The values as a table with notes, bounds rounded outwards."""

    def __str__(self) -> str:
        """Return the sheet as commands print it."""
        return str(self.sheet)

    def __repr__(self) -> str:
        """Return the same: bounds rounded outwards, as those of arrays would not be."""
        return str(self)

    def frame(self) -> Any:
        """Return the table as a DataFrame of pandas, unrounded: it writes Parquet, and to_xarray() netCDF and zarr."""
        return self.sheet.frame()

    def _repr_html_(self) -> str:
        """Return the sheet as a small table, for notebooks."""
        return self.sheet._repr_html_()


@dataclass(frozen=True)
class Sheet:
    """Rows under columns, with lines of text above and below; these are in print alone."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    #: So many rows are in print as text, None for all; Markdown and LaTeX have all.
    most: int | None = None
    #: The sheet of CSV, JSON and data frames, where that is another one than in print.
    data: "Sheet | None" = None

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

    def __str__(self) -> str:
        """Return the sheet as it is printed; numbers are never cut."""
        return self.table()

    def table(self, spelt: Callable[[str], str] = str) -> str:
        """Return the sheet as it is printed; `spelt` returns a text in the letters that there are."""
        # Nothing but a printed table needs rich.
        box, cells, console, table = map(import_module, ("rich.box", "rich.cells", "rich.console", "rich.table"))
        columns = self.printed_columns
        texts = [[column.head for column in columns], *self.printed_rows[: self.most]]
        heads, *rows = ([spelt(text) for text in row] for row in texts)
        grid = table.Table(box=box.HEAVY_HEAD)
        for column, head in zip(columns, heads, strict=True):
            grid.add_column(head, justify="right" if column.number else "left", no_wrap=True, overflow="fold")
        if columns and not columns[-1].number:
            others = sum(max(map(cells.cell_len, each)) + 3 for each in list(zip(heads, *rows, strict=True))[:-1])
            grid.columns[-1].no_wrap, grid.columns[-1].max_width = False, max(_MIN_TEXT, _WIDTH - others - 4)
        for row in rows:
            grid.add_row(*row)
        drawn = StringIO()
        plain = {"markup": False, "emoji": False, "highlight": False, "color_system": None}
        console.Console(file=drawn, width=10_000, **plain).print(grid)
        lines = [*map(printable, self.caption), *drawn.getvalue().splitlines(), *map(printable, self.notes)]
        return "\n".join(spelt(line).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        """Return the first rows as a small table for notebooks, with the notes below it."""
        heads = [column.head for column in self.printed_columns]
        span = f'th colspan="{max(len(heads), 1)}"'
        rows = [*(_html_row([line], span) for line in self.caption), _html_row(heads, "th")]
        rows += [_html_row(texts, "td") for texts in self.printed_rows[:_HTML_ROWS]]
        if len(self.rows) > _HTML_ROWS:
            rows.append(_html_row([f"and {len(self.rows) - _HTML_ROWS:,} more"], span))
        notes = "".join(f"<p>{escape(printable(note))}</p>" for note in self.notes)
        return f"<table>{''.join(rows)}</table>{notes}"

    def frame(self) -> Any:
        """Return the values as a DataFrame: numbers as they are, None where there is nothing."""
        # pandas takes a third of a second to import.
        data = self.data or self
        rows = [list(map(value_of, row)) for row in data.rows]
        return import_module("pandas").DataFrame(rows, columns=[column.name for column in data.columns])

    def csv(self) -> str:
        """Return the values as CSV (RFC 4180, lines that end with a line feed).

        Reading the floats gives the same floats; a missing value is empty. All text is quoted.
        """
        data = self.data or self
        names = [column.name for column in data.columns]
        lines = [names, *(map(_csv_value, data.columns, row) for row in data.rows)]
        return "".join(f"{','.join(line)}\n" for line in lines)

    def json(self, about: Mapping[str, object] | None = None) -> str:
        """Return the rows as JSON, an object each, after the values that all rows share and `about`.

        A number that is not finite is null.
        """
        data = self.data or self
        texts = [list(map(_json_value, data.columns, row)) for row in data.rows]
        lines, own = [], []
        for index, column in enumerate(data.columns):
            if column.shared and texts:
                known = next((row[index] for row in texts if row[index] != "null"), "null")
                lines.append(f"  {_dumped(column.name)}: {known}")
            else:
                own.append((index, _dumped(column.name)))
        lines += [f"  {_dumped(name)}: {_dumped(value)}" for name, value in (about or {}).items()]
        rows = ["    {" + ", ".join(f"{name}: {row[index]}" for index, name in own) + "}" for row in texts]
        lines.append('  "answers": [\n' + ",\n".join(rows) + "\n  ]")
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def markdown(self) -> str:
        """Return a table of GitHub's Markdown, with its caption and its notes."""
        columns = self.printed_columns
        lines = [
            [_marked(column.head) for column in columns],
            *([_marked(text) for text in row] for row in self.printed_rows),
        ]
        rule = f"|{'|'.join('---:' if column.number else '---' for column in columns)}|"
        first, *rest = (f"| {' | '.join(line)} |" for line in lines)
        table = "\n".join((first, rule, *rest))
        return "\n\n".join([*map(_marked, self.caption), table, *map(_marked, self.notes)]) + "\n"

    def latex(self) -> str:
        r"""Return a tabular between its caption and its notes; it needs ``\usepackage{booktabs}``."""
        columns = self.printed_columns
        rows = [
            [(as_number(text) if one.number else None) or escaped(text) for one, text in zip(columns, row, strict=True)]
            for row in self.printed_rows
        ]
        above, below = ([f"\\noindent {escaped(line)}\\par" for line in lines] for lines in (self.caption, self.notes))
        lines = [
            "% needs \\usepackage{booktabs}",
            *(f"{line}\\smallskip" for line in above),
            f"\\noindent\\begin{{tabular}}{{{''.join('r' if column.number else 'l' for column in columns)}}}",
            "\\toprule",
            " & ".join(escaped(column.head) for column in columns) + " \\\\",
            "\\midrule",
            *(" & ".join(row) + " \\\\" for row in rows),
            "\\bottomrule",
            "\\end{tabular}\\par",
            *(f"\\smallskip{line}" for line in below),
        ]
        return "\n".join(lines) + "\n"

    def text(self, form: str) -> str:
        """Return the sheet as a table, csv, markdown, latex or json, with a line break at its end."""
        return f"{self}\n" if form == "table" else str(getattr(self, form)())


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


def _html_row(texts: Sequence[str], kind: str) -> str:
    """Return a row of HTML; text in it is escaped, and cut if it is long."""
    short = (text if len(text) <= _HTML_LETTERS else f"{text[: _HTML_LETTERS - 2]}.." for text in texts)
    return f"<tr>{''.join(f'<{kind}>{escape(printable(text))}</{kind[:2]}>' for text in short)}</tr>"


def digits(name: str, value: float) -> str:
    """Return all digits of a number in a column of that name: reading them gives it, and of a bound they are one."""
    side = whole_down if name.endswith("lower") else whole_up if name.endswith("upper") else repr
    return side(float(value))


def _csv_value(column: Column, cell: Cell) -> str:
    value = value_of(cell)
    if isinstance(value, tuple):
        value = ",".join(_csv_value(column, one) for one in value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + printable(value).replace('"', '""') + '"'
    return digits(column.side or column.name, value) if isinstance(value, float) else str(value)


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _json_value(column: Column, cell: Cell) -> str:
    value = value_of(cell)
    if isinstance(value, tuple):
        return f"[{', '.join(_json_value(column, one) for one in value)}]"
    if isinstance(value, float):
        return digits(column.side or column.name, value) if math.isfinite(value) else "null"
    return _dumped(value)


#: Markup of Markdown.
_MARKUP = re.compile(r"([\\`*_~<>\[\]|&$])")


def _marked(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return _MARKUP.sub(r"\\\1", printable(text).strip())


_LETTERS = "αβδεημξρσΔΠΣ×≤≥∞√‖·²"
_COMMANDS = "alpha beta delta varepsilon eta mu xi rho sigma Delta Pi Sigma times le ge infty surd Vert cdot"
_MATHS = dict(zip(_LETTERS, [*(f"\\{name}" for name in _COMMANDS.split()), "^2"], strict=True))
_NAMED = {"\\": "backslash", "^": "asciicircum", "~": "asciitilde", "<": "less", ">": "greater", "|": "bar"}
_ESCAPED = {
    **{letter: f"\\ensuremath{{{command}}}" for letter, command in _MATHS.items()},
    **{letter: f"\\text{name}{{}}" for letter, name in _NAMED.items()},
    **{letter: f"\\{letter}" for letter in "{}$&#%_"},
    # A row that begins with one of these would be taken for an argument of the row before it.
    **{letter: f"{{{letter}}}" for letter in "[*"},
}
_NUMBER = re.compile(r"(-?[0-9][0-9.,]*)(?:e([-+]?[0-9]+))?")
_INFINITE = {"inf": r"$\infty$", "-inf": r"$-\infty$"}


def escaped(text: str) -> str:
    """Return text as LaTeX in UTF-8 that prints it."""
    parts = printable(text).split("^ε")
    plain = ("".join(_ESCAPED.get(character, character) for character in part) for part in parts)
    return r"\ensuremath{^{\varepsilon}}".join(plain)


def as_number(text: str) -> str | None:
    """Return a printed number in the mathematics of LaTeX; None for other text."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return _INFINITE.get(text)
    mantissa, exponent = found[1].replace(",", "{,}"), found[2]
    return f"${mantissa}$" if exponent is None else f"${mantissa}\\times 10^{{{int(exponent)}}}$"
