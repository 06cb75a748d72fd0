"""Values in notebooks: one small table in HTML, without scripts, links or colours of its own."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice

from pbdist.errors import printable, shown

#: Further rows and letters are left out, with a note.
_MAX_ROWS, _MAX_LETTERS = 20, 160
#: A grey that can be seen on white and on black.
_LINE = "border-top:1px solid rgba(128,128,128,.4)"
_CELL = "text-align:left;vertical-align:top;padding:.15em .8em .15em 0"


def html_table(title: str, rows: Iterable[Sequence[object]], heads: Sequence[str] = (), count: int = 0) -> str:
    """Return a table of the first rows; every text in it is escaped, and cut if it is long.

    Without `heads` the first text of a row is its name. `count` is the number of rows in all, if `rows` does not yield
    them all.
    """
    columns = max(len(heads), 2)
    lines = [f'<tr><th colspan="{columns}" style="{_CELL}">{_text(title)}</th></tr>']
    if heads:
        lines.append(_row([*heads], "th"))
    taken = iter(rows)
    lines += [_row(row, "td") for row in islice(taken, _MAX_ROWS)]
    left = max(sum(1 for _ in taken), count - _MAX_ROWS)
    if left > 0:
        lines.append(f'<tr><td colspan="{columns}" style="{_CELL};{_LINE}">and {left:,} more</td></tr>')
    return f'<table style="border-collapse:collapse;color:inherit">{"".join(lines)}</table>'


def html_of_fields(title: str, fields: Mapping[str, object]) -> str:
    """Return a table with a line for each field; a field of None is left out."""
    known = {name: value for name, value in fields.items() if value is not None}
    return html_table(title, ((name, one if isinstance(one, str) else shown(one)) for name, one in known.items()))


def _row(texts: Sequence[object], kind: str) -> str:
    cells = "".join(f'<{kind} style="{_CELL};{_LINE}">{_text(text)}</{kind}>' for text in texts)
    return f"<tr>{cells}</tr>"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "not known" if value != value else repr(value)  # noqa: PLR0124 -- NaN
    text = str(value)
    return escape(printable(text if len(text) <= _MAX_LETTERS else f"{text[: _MAX_LETTERS - 2]}.."))
