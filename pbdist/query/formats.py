"""A sheet as a printed table, as CSV and as Markdown; what others wrote into it, such as labels, is escaped."""

import math
import re
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from pbdist.errors import printable
from pbdist.query.latex import as_latex
from pbdist.query.sheet import Sheet, Value, value_of

#: A spreadsheet takes text that begins with one of these for a formula.
_FORMULAS = tuple("=+-@＝＋－＠")
#: What Markdown may take for markup: within a line, as an address, and at the start of a line.
_MARKUP = re.compile(r"([\\`*_~<>\[\]|&$]|:(?=\S))")
_ADDRESS = re.compile(r"(www)\.", re.IGNORECASE)
_START = re.compile(r"^(\d*)([-+#=.)])")


def as_text(sheet: Sheet, form: str) -> str:
    """Return a sheet in one of the formats csv, markdown and latex, with a line break at its end."""
    return {"csv": as_csv, "markdown": as_markdown, "latex": as_latex}[form](sheet)


def as_table(sheet: Sheet) -> Group:
    """Return a sheet as a printed table with its caption and its notes."""
    table = Table(pad_edge=False)
    for index, column in enumerate(sheet.printed_columns):
        # A number that is cut would be another number, whatever else the page needs.
        widest = max((cell_len(row[index]) for row in sheet.printed_rows), default=0) if column.number else None
        table.add_column(
            Text(column.head),
            justify="right" if column.number else "left",
            no_wrap=column.number,
            min_width=None if widest is None else max(widest, cell_len(column.head)),
        )
    for row in sheet.printed_rows:
        table.add_row(*map(Text, row))
    above, below = (map(Text, map(printable, lines)) for lines in (sheet.caption, sheet.notes))
    return Group(*above, table, *below)


def as_csv(sheet: Sheet) -> str:
    """Return the values of a sheet as CSV (RFC 4180, lines that end with a line feed).

    Floats are written so that reading them gives the same floats; nothing stands for what is not known. All text is
    quoted, and has an apostrophe before it where a spreadsheet would take it for a formula.
    """
    lines = [[column.name for column in sheet.columns], *(map(value_of, row) for row in sheet.rows)]
    return "".join(f"{','.join(map(_field, line))}\n" for line in lines)


def as_markdown(sheet: Sheet) -> str:
    """Return a sheet as a table of GitHub's Markdown, with its caption and its notes."""
    columns = sheet.printed_columns
    lines = [
        _row([column.head for column in columns]),
        f"|{'|'.join('---:' if column.number else '---' for column in columns)}|",
        *map(_row, sheet.printed_rows),
    ]
    paragraphs = [*map(_paragraph, sheet.caption), "\n".join(lines), *map(_paragraph, sheet.notes)]
    return "\n\n".join(paragraphs) + "\n"


def _field(value: Value) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = printable(value)
        safe = f"'{text}" if text.lstrip().startswith(_FORMULAS) else text
        return '"' + safe.replace('"', '""') + '"'
    return repr(float(value)) if isinstance(value, float) else str(value)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_marked, cells))} |"


def _paragraph(text: str) -> str:
    """Return text that is neither a list nor a heading."""
    return _START.sub(r"\1\\\2", _marked(text))


def _marked(text: str) -> str:
    """Return text that Markdown shows as it is, on one line; addresses are no links."""
    return _ADDRESS.sub(r"\1\\.", _MARKUP.sub(r"\\\1", printable(text).strip()))
