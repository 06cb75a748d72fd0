"""The canonical JSON of the cells of a grid, a line each, from the texts of the values of its axes."""

import itertools
import re
from collections.abc import Iterator, Sequence
from json import JSONEncoder

from pbdist.study.pair_grid import PairGrid, encoder_of_forms
from pbdist.types import IntArray, JsonValue

#: Canonical JSON: one text for equal values.
CANONICAL = encoder_of_forms((",", ":"))
#: Lines are made in pieces of about so many characters.
_PIECE = 2**20
#: Control characters, but for the line feed.
_MARKS = [chr(number) for number in range(1, 0x20) if chr(number) != "\n"]
_MARK = re.compile(f"[{''.join(_MARKS)}]")


class CellTexts:
    """The lines of ``StudySpec.cells_sha256``: the canonical JSON of each cell, and a line feed.

    A line is a text with marks, for which the texts of the values are put in. A mark is a control character, which JSON
    has in no text. More axes with several values than there are such characters have no study, as its cells were too
    many.
    """

    def __init__(self, label: str, pairs: PairGrid, factors: Sequence[float | None]) -> None:
        names = [name for axis in pairs.axes for name in axis.fields]
        marks = marks_of([*names, "factor"])
        form = {"label": label, "pair": pairs.form({name: marks[name] for name in names}), "factor": marks["factor"]}
        self._template = marked(CANONICAL, form) + "\n"
        texts = [[list(map(CANONICAL.encode, column)) for column in axis.values] for axis in pairs.axes]
        #: For each axis, that of the factors last, the mark of each field and the texts of its values.
        self._axes = [
            [(marks[name], column) for name, column in zip(axis.fields, columns, strict=True)]
            for axis, columns in zip(pairs.axes, texts, strict=True)
        ]
        of_factors = [CANONICAL.encode(None if factor is None else factor.hex()) for factor in factors]
        self._axes.append([(marks["factor"], of_factors)])

    def all_lines(self) -> Iterator[str]:
        """Yield the lines of all cells in order, many at a time: those of the last axes are put together once."""
        inner, outer = self._template, list(self._axes)
        while outer and len(inner) * len(outer[-1][0][1]) <= _PIECE:
            axis = outer.pop()
            inner = "".join(_with(inner, axis, place) for place in range(len(axis[0][1])))
        for places in itertools.product(*(range(len(axis[0][1])) for axis in outer)):
            text = inner
            for axis, place in zip(outer, places, strict=True):
                text = _with(text, axis, place)
            yield text

    def lines(self, places: Sequence[IntArray]) -> Iterator[str]:
        """Yield the lines of some cells, of which the places on each axis are given."""
        columns = {
            mark: [texts[place] for place in at.tolist()]
            for axis, at in zip(self._axes, places, strict=True)
            for mark, texts in axis
        }
        return filled(self._template, columns)


def marks_of(names: Sequence[str]) -> dict[str, str]:
    """Return a mark for each name."""
    return dict(zip(names, _MARKS[: len(names)], strict=True))


def marked(encoder: JSONEncoder, form: JsonValue) -> str:
    """Return the JSON of a form with marks among its values: the marks stand there as they are."""
    text = encoder.encode(form)
    for mark in _MARKS:
        text = text.replace(encoder.encode(mark), mark)
    return text


def filled(template: str, columns: dict[str, list[str]]) -> Iterator[str]:
    """Yield a text with marks for each row of texts that are put in; of each mark there is one."""
    order = _MARK.findall(template)
    form = _MARK.sub("%s", template.replace("%", "%%"))
    return (form % row for row in zip(*(columns[mark] for mark in order), strict=True))


def _with(text: str, axis: Sequence[tuple[str, list[str]]], place: int) -> str:
    for mark, texts in axis:
        text = text.replace(mark, texts[place])
    return text
