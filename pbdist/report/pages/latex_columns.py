"""The widths of the columns of a LaTeX table: numbers and words in one piece, the rest shared by longer texts."""

import re
from typing import NamedTuple

from pbdist.query.latex import escaped
from pbdist.report.pages.document import Table, broken

#: The length of a line of an A4 page with margins of 20 mm, in points, and what stands between two columns.
LINE, GAP = 483.0, 8.0
#: Sizes of letters, each with its em in points; the smallest is for tables that fit in no other.
_SIZES = (("small", 9.25), ("footnotesize", 8.5), ("scriptsize", 8.0), ("tiny", 6.83))
#: Widths of letters in em, a little more than those of Latin Modern.
_NARROW, _WIDE, _OTHER = frozenset(" .,;:!|'`()[]ijltfrI/-"), frozenset("mwMW%@&+=<>—…×≤≥∞"), 0.54
_BOLD = 1.17
_NUMBER = re.compile(r"-?[0-9][0-9.,]*e[-+]?([0-9]+)")
#: TeX may break a line there: after a hyphen, but not after that of a number.
_PIECES = re.compile(r" |(?<=[^\W\d_]-)(?=[^\W\d_])")


class Layout(NamedTuple):
    """A size of letters, the widths of the columns in its em, and whether texts have more than one line."""

    size: str
    widths: tuple[float, ...]
    folded: bool


def layout_of(table: Table) -> Layout:
    """Return the widths of a table in a line: all of each text if they fit, else at least each word and number."""
    columns = list(zip(*([[column.name for column in table.columns], *table.rows]), strict=True))
    wanted = [max(_width(text, bold=not row) for row, text in enumerate(texts)) for texts in columns]
    # A long name of a short column has several lines.
    needed = [
        max(_width(piece, bold=not row) for row, text in enumerate(texts) for piece in _pieces(text))
        for texts in columns
    ]
    short = [max([least, *map(_width, texts[1:])]) for least, texts in zip(needed, columns, strict=True)]
    size, em = next(((size, em) for size, em in _SIZES if sum(needed) <= _room(table, em)), _SIZES[-1])
    room = _room(table, em)
    for widths in (wanted, short):
        if sum(widths) <= room:
            return Layout(size, tuple(widths), folded=False)
    if sum(needed) > room:
        return Layout(size, tuple(room * one / sum(needed) for one in needed), folded=True)
    left = (room - sum(needed)) / (sum(short) - sum(needed))
    return Layout(
        size, tuple(least + left * (most - least) for least, most in zip(needed, short, strict=True)), folded=True
    )


def _room(table: Table, em: float) -> float:
    return (LINE - GAP * (len(table.columns) - 1)) / em


def _pieces(text: str) -> list[str]:
    """Return the parts of a text in which no line breaks."""
    return [piece for part in broken(text) for piece in _PIECES.split(part)] or [""]


def _width(text: str, *, bold: bool = False) -> float:
    """Return about how wide a text is printed, in em."""
    found = _NUMBER.fullmatch(text)
    if found:
        # Mantissa, times 10, and small digits above.
        return 0.52 * (found.start(1) - 2) + 2.4 + 0.45 * (len(found[1]) + 1)
    width = sum(map(_letter, text))
    return 0.3 + (_BOLD * width if bold else width)


def _letter(letter: str) -> float:
    if letter in _NARROW:
        return 0.36
    if letter in _WIDE:
        return 0.86
    if letter.isascii():
        return 0.77 if letter.isupper() else _OTHER
    # A letter that is printed as its code.
    code = escaped(letter)
    return 0.72 * len(code) if code.startswith("U+") else 0.77
