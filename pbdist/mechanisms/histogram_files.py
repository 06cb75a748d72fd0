"""Read a pair of histograms from CSV files."""

import csv
import io
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

from pbdist.errors import InvalidInputError, shown
from pbdist.input_files import opened_input
from pbdist.mechanisms.declaration import Domain, Form, parameter, parametrised
from pbdist.mechanisms.finite import Histogram
from pbdist.mechanisms.outcomes import MAX_OUTCOMES

#: The name of a bin: a number, exactly, or a text that is none.
Label: TypeAlias = Decimal | str

_LARGEST_COUNT = 2**63 - 1
#: A number of ASCII digits: the part before the exponent, and the exponent.
_NUMBER = re.compile(r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE]([-+]?[0-9]+))?")
_INFINITE = re.compile(r"[-+]?inf(inity)?", re.IGNORECASE)
_NO_NUMBER = re.compile(r"[-+]?nan", re.IGNORECASE)
#: Longer numbers and exponents are refused: Decimal holds them no more, or comparing them takes long.
_LONGEST_NUMBER, _LONGEST_EXPONENT = 400, 6
#: The most bytes of a file: a hundred for each of the most bins that there may be.
_MAX_BYTES = 100 * MAX_OUTCOMES


def _number(text: str) -> Decimal | None:
    """Return the number of a text, without rounding; None of a text that is no number, or too long."""
    parts = _NUMBER.fullmatch(text)
    if parts is None:
        return Decimal(text) if _INFINITE.fullmatch(text) else None
    number, exponent = parts.groups(default="")
    short = len(number) <= _LONGEST_NUMBER and len(exponent.lstrip("+-")) <= _LONGEST_EXPONENT
    return Decimal(text) if short else None


def _label(text: str) -> Label | None:
    """Return the bin that a text names, None if it names none; equal numbers are one bin, whatever their form."""
    number = _number(text)
    if number is not None:
        return number
    return None if _NO_NUMBER.fullmatch(text) or _NUMBER.fullmatch(text) else text or None


def _count(text: str) -> int | None:
    """Return the count that a text is; None if it is none."""
    number = _number(text)
    if number is None or not number.is_finite() or not 0 <= number <= _LARGEST_COUNT or number != int(number):
        return None
    return int(number)


def load_histograms(
    path: str | Path, other: str | Path | None = None, *, columns: Sequence[str] | None = None
) -> Histogram:
    r"""Read a pair of histograms from one CSV file, or from two, one a side.

    Parameters
    ----------
    path : str or Path
        A ``.csv`` file, whose first line names the columns: the counts of A and of B by bin, or only those of A if
        `other` is given.
    other : str or Path, optional
        The file with the counts of B.
    columns : sequence of str, optional
        The names of the columns: for one file the bin and the counts of A and of B, by default ``("bin", "a", "b")``;
        for two files the bin and the counts, by default ``("bin", "count")``. Further columns are not read.

    Returns
    -------
    Histogram
        With the exact counts, so that each mass is count / total, rounded once; the totals may differ. The outcomes are
        the bins that have a count on either side: numbers in rising order, then texts. A bin that a file lacks has the
        count 0 there, so that files may be sparse and may have different bins.

    Raises
    ------
    InvalidInputError
        A file cannot be read, lacks a column, names a bin twice, or has a count that is not a whole number of at least
        0; or all counts of a side are 0. The text names the file, the line, the column, what was expected and what
        came.

    Notes
    -----
    Bins are compared as numbers where they are numbers, exactly, without rounding: 1 and 1.0 are the same bin, 1e400
    and 2e400 are two. A number may have 400 characters, and an exponent 6 digits. Other texts are compared without the
    spaces around them. Counts that come from elsewhere need no file: ``Histogram(p, q)`` takes arrays.

    The bounds are those of the pair of these very frequencies. They say nothing certain of the distributions from which
    the counts were drawn: ``docs/measured-timing.md``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pbdist import load_histograms
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "times.csv")
    ...     _ = path.write_text("bin,a,b\n1,3,2\n2,5,5\n3,2,3\n")
    ...     load_histograms(path)
    Histogram(p=(3, 5, 2), q=(2, 5, 3))
    """
    names = _column_names(columns, ("bin", "a", "b") if other is None else ("bin", "count"))
    if other is None:
        a, b = _read(Path(path), names)
    else:
        (a,), (b,) = _read(Path(path), names), _read(Path(other), names)
    labels = sorted({*a, *b}, key=lambda label: (isinstance(label, str), label))
    return Histogram(tuple(a.get(label, 0) for label in labels), tuple(b.get(label, 0) for label in labels))


def _column_names(columns: Sequence[str] | None, default: tuple[str, ...]) -> tuple[str, ...]:
    if columns is None:
        return default
    listed: Any = columns
    names = () if isinstance(listed, str) or not isinstance(listed, Sequence) else tuple(listed)
    texts = [name for name in names if isinstance(name, str)]
    if not len(set(texts)) == len(names) == len(default):
        raise InvalidInputError(
            f"columns: expected {len(default)} different names, as in {default}, got {shown(columns)}"
        )
    return names


def _read(path: Path, names: tuple[str, ...]) -> list[dict[Label, int]]:
    """Return the counts by bin that are not 0, of each column but the first one, which names the bins."""
    if path.suffix.lower() != ".csv":
        raise InvalidInputError(
            f"{path}: expected a file name that ends in .csv; arrays of counts are given as Histogram(p, q)"
        )
    lines: dict[Label, int] = {}
    found: list[dict[Label, int]] = [{} for _ in names[1:]]
    try:
        with (
            opened_input(path, _MAX_BYTES) as content,
            io.TextIOWrapper(content, encoding="utf-8-sig", newline="") as file,
        ):
            reader = csv.reader(file, strict=True)
            try:
                _read_records(path, reader, names, lines, found)
            except csv.Error as error:
                raise InvalidInputError(f"{path}: line {reader.line_num}: expected CSV, got: {error}") from error
            except UnicodeDecodeError as error:
                raise InvalidInputError(f"{path}: expected UTF-8 text, got {shown(error.object[:20])}") from error
    except OSError as error:
        raise InvalidInputError(f"{path}: expected a readable file, got: {error.strerror or error}") from error
    for name, counts in zip(names[1:], found, strict=True):
        if not counts:
            raise InvalidInputError(
                f"{path}: column {name!r}: expected counts that are not all 0, got {len(lines)} zeros"
            )
    return found


def _read_records(
    path: Path, reader: Any, names: tuple[str, ...], lines: dict[Label, int], found: list[dict[Label, int]]
) -> None:
    """Put the line of each bin into `lines`, and its counts into the dictionaries of their columns."""
    head = [name.strip() for name in next(reader, [])]
    for name in names:
        if head.count(name) != 1:
            raise InvalidInputError(f"{path}: expected one column {name!r}, got columns {shown(head)}")
    places = [head.index(name) for name in names]
    for record in filter(None, reader):
        here = f"{path}: line {reader.line_num}"
        if len(record) != len(head):
            raise InvalidInputError(f"{here}: expected {len(head)} values, got {len(record)}")
        texts = [record[place].strip() for place in places]
        label = _label(texts[0])
        if label is None:
            raise InvalidInputError(
                f"{here}: column {names[0]!r}: expected a bin: a number (of at most 400 digits) or a text,"
                f" got {shown(texts[0])}"
            )
        if lines.setdefault(label, reader.line_num) != reader.line_num:
            raise InvalidInputError(
                f"{here}: column {names[0]!r}: expected each bin once, it is in line {lines[label]} too,"
                f" got {shown(texts[0])}"
            )
        if len(lines) > MAX_OUTCOMES:
            raise InvalidInputError(f"{path}: expected at most {MAX_OUTCOMES} bins, got more")
        for name, text, counts in zip(names[1:], texts[1:], found, strict=True):
            count = _count(text)
            if count is None:
                raise InvalidInputError(
                    f"{here}: column {name!r}: expected a count: a whole number from 0 to 2^63 - 1, got {shown(text)}"
                )
            if count:
                counts[label] = count


def _files(_owner: str, name: str, value: Any) -> tuple[str, ...]:
    files = value if isinstance(value, list) else [value]
    if len(files) not in (1, 2) or not all(isinstance(x, str) and x for x in files):
        raise InvalidInputError(f"{name}: expected the path of a file, or of two files, got {shown(value)}")
    return tuple(files)


def _listed_names(_owner: str, name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(x, str) for x in value):
        raise InvalidInputError(f"{name}: expected a list of names, got {shown(value)}")
    return tuple(value)


@parametrised
class HistogramFiles:
    """A `Histogram` whose counts are in files: its parameters in study files and commands, in place of p and q."""

    file: tuple[str, ...] = parameter(
        Domain(_files, Form.NAME), "a table of counts, or one for each distribution, in place of p and q"
    )
    columns: tuple[str, ...] | None = parameter(
        Domain(_listed_names, Form.NAME), "the columns of the table", default=None
    )

    def read(self, folder: Path) -> Histogram:
        """Return the histogram; paths are relative to a folder."""
        try:
            return load_histograms(*(folder / name for name in self.file), columns=self.columns)
        except InvalidInputError as error:
            text = str(error)
            raise InvalidInputError(text if text.startswith("columns: ") else f"file: {text}") from error
