"""How a table of answers is written: columns and cells once, and from them text, Markdown, LaTeX, CSV and JSON."""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

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
    """A column of a sheet."""

    #: Its name in CSV.
    name: str
    #: Its head in print.
    head: str
    #: Whether its cells are numbers, and stand on the right.
    number: bool = True
    #: Whether it is in print, and not in CSV alone.
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


_ESCAPED: Mapping[str, str] = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # As numbers of characters: packages give these a meaning, and two of them are one character.
    '"': r"{\char34}",
    "'": r"{\char39}",
    "`": r"{\char96}",
    # A row that begins with one of these would be taken for an argument of the row before it.
    "[": "{[}",
    "*": "{*}",
    "α": r"\ensuremath{\alpha}",
    "β": r"\ensuremath{\beta}",
    "δ": r"\ensuremath{\delta}",
    "ε": r"\ensuremath{\varepsilon}",
    "η": r"\ensuremath{\eta}",
    "μ": r"\ensuremath{\mu}",
    "ξ": r"\ensuremath{\xi}",
    "ρ": r"\ensuremath{\rho}",
    "Δ": r"\ensuremath{\Delta}",
    "Π": r"\ensuremath{\Pi}",
    "Σ": r"\ensuremath{\Sigma}",
    "σ": r"\ensuremath{\sigma}",
    "×": r"\ensuremath{\times}",
    "≤": r"\ensuremath{\le}",
    "≥": r"\ensuremath{\ge}",
    "∞": r"\ensuremath{\infty}",
    "√": r"\ensuremath{\surd}",
    "‖": r"\ensuremath{\Vert}",
    "·": r"\ensuremath{\cdot}",
    "²": r"\ensuremath{^2}",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "‘": r"\textquoteleft{}",
    "’": r"\textquoteright{}",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "…": r"\ldots{}",
    "ß": r"\ss{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "œ": r"\oe{}",
    "Œ": r"\OE{}",
    "ı": r"\i{}",
}
#: What goes over or under a letter.
_ACCENTS: Mapping[str, str] = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0323": "d",
    "\u0327": "c",
}
_NUMBER = re.compile(r"(-?[0-9][0-9.,]*)(?:e([-+]?[0-9]+))?")
#: As an accent it would stand apart from its letters.
_POWER = "^ε", r"\ensuremath{^{\varepsilon}}"
_TWO = re.compile(r"([-,])(?=\1)")
_HEADS = {"e^ε": r"$e^{\varepsilon}$"}
_INFINITE = {"inf": r"$\infty$", "-inf": r"$-\infty$"}


def as_latex(sheet: Sheet) -> str:
    r"""Return a sheet as a tabular between its caption and its notes; it needs ``\usepackage{booktabs}``."""
    columns = sheet.printed_columns
    lines = [
        "% needs \\usepackage{booktabs}",
        *(f"\\noindent {escaped(line)}\\par\\smallskip" for line in sheet.caption),
        f"\\noindent\\begin{{tabular}}{{{''.join('r' if column.number else 'l' for column in columns)}}}",
        "\\toprule",
        _latex_row([_HEADS.get(column.head) or escaped(column.head) for column in columns]),
        "\\midrule",
        *(
            _latex_row(
                [
                    (as_number(text) if column.number else None) or escaped(text)
                    for column, text in zip(columns, row, strict=True)
                ]
            )
            for row in sheet.printed_rows
        ),
        "\\bottomrule",
        "\\end{tabular}\\par",
        *(f"\\smallskip\\noindent {escaped(line)}\\par" for line in sheet.notes),
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return text as LaTeX that prints it; a letter that LaTeX has not everywhere as its code, such as U+4E2D."""
    plain, power = _POWER
    parts = printable(text).split(plain)
    found = power.join("".join(_ESCAPED.get(letter) or _letter(letter) for letter in part) for part in parts)
    # Two of them are no dash and no quotation mark.
    return _TWO.sub(r"\1{}", found)


def _letter(character: str) -> str:
    if character.isascii():
        return character
    parts = unicodedata.normalize("NFD", character)
    if len(parts) == 2 and parts[0].isascii() and parts[0].isalpha() and parts[1] in _ACCENTS:
        return f"\\{_ACCENTS[parts[1]]}{{{parts[0]}}}"
    return f"U+{ord(character):04X}"


def _latex_row(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def as_number(text: str) -> str | None:
    """Return a printed number in the mathematics of LaTeX; None for other text."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return _INFINITE.get(text)
    mantissa, exponent = found[1].replace(",", "{,}"), found[2]
    return f"${mantissa}$" if exponent is None else f"${mantissa}\\times 10^{{{int(exponent)}}}$"


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
