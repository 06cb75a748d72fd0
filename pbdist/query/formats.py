"""Tables, by the names under which other rooms import them from here."""

from rich.text import Text

from pbdist.tables import Cell, Column, Sheet, Shown, Value, as_number, escaped, head_of, text_of

__all__ = [
    "Cell",
    "Column",
    "Sheet",
    "Shown",
    "Value",
    "as_number",
    "as_table",
    "as_text",
    "escaped",
    "head_of",
    "text_of",
]


def as_table(sheet: Sheet) -> Text:
    """Return a sheet as it is printed by rich: nothing is wrapped, and nothing taken for markup."""
    return Text(str(sheet), no_wrap=True, overflow="ignore")


def as_text(sheet: Sheet, form: str) -> str:
    """Return a sheet in one of the formats csv, markdown and latex, with a line break at its end."""
    return sheet.text(form)
