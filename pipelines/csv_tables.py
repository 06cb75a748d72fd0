"""Long tables of the documentation as CSV files beside their pages, and the directives that show them there."""

import csv
from collections.abc import Iterable, Sequence
from io import StringIO

__all__ = ["csv_text", "shown"]


def csv_text(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as CSV."""
    text = StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(head)
    lines.writerows(rows)
    return text.getvalue()


def shown(name: str, kind: str = "numbers") -> str:
    """Return the directive that shows a CSV file of the same folder; cells of "texts" are broken into lines."""
    return f"```{{csv-table}}\n:file: {name}\n:header-rows: 1\n:class: {kind}\n```\n"
