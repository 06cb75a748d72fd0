"""Read a pair of histograms from CSV, Parquet or npz files."""

import csv
import io
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pbdist.errors import InvalidInputError, MissingDependencyError, shown
from pbdist.input_files import opened_input
from pbdist.mechanisms.declaration import Domain, Form, parameter, parametrised
from pbdist.mechanisms.finite import Histogram
from pbdist.mechanisms.outcomes import MAX_OUTCOMES

#: The name of a bin: a number, exactly, or a text that is none.
Label: TypeAlias = Decimal | str

LARGEST_COUNT = 2**63 - 1
#: A number in a text, of ASCII digits: the part before the exponent, and the exponent.
_NUMBER = re.compile(r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE]([-+]?[0-9]+))?")
_INFINITE = re.compile(r"[-+]?inf(inity)?", re.IGNORECASE)
_NO_NUMBER = re.compile(r"[-+]?nan", re.IGNORECASE)
#: Longer numbers and exponents are refused: Decimal holds them no more, or comparing them takes long.
_LONGEST_NUMBER, _LONGEST_EXPONENT = 400, 6


def _label_of(value: object) -> Label | None:
    """Return the bin that a value names, None if it names none; equal numbers are one bin, whatever their form."""
    number = _exact(value)
    if number is not None:
        return None if number.is_nan() else number
    text = value.strip() if isinstance(value, str) else ""
    return None if _NO_NUMBER.fullmatch(text) or _NUMBER.fullmatch(text) else text or None


def _count_of(value: object, limit: int) -> int | None:
    """Return the count that a value is, None if it is none; a float must be below `limit`."""
    number = _exact(value)
    if number is None or not number.is_finite() or not 0 <= number <= LARGEST_COUNT:
        return None
    count = int(number)
    too_large = isinstance(value, float | np.floating) and count >= limit
    return None if count != number or too_large else count


def _exact(value: Any) -> Decimal | None:
    """Return a number as it is, without rounding; None for anything else, and for a text that is too long."""
    if isinstance(value, str):
        return _exact_text(value.strip())
    plain = value.item() if isinstance(value, np.generic) else value
    return Decimal(plain) if isinstance(plain, int | float | Decimal) and not isinstance(plain, bool) else None


def _exact_text(text: str) -> Decimal | None:
    parts = _NUMBER.fullmatch(text)
    if parts is None:
        return Decimal(text) if _INFINITE.fullmatch(text) else None
    number, exponent = parts.groups(default="")
    short = len(number) <= _LONGEST_NUMBER and len(exponent.lstrip("+-")) <= _LONGEST_EXPONENT
    return Decimal(text) if short else None


#: The most bytes of a file: a hundred for each of the most bins that there may be.
_MAX_BYTES = 100 * MAX_OUTCOMES


@dataclass(frozen=True)
class _Columns:
    """Some columns of one file, how to name a place in them, and from which number on floats may be rounded."""

    source: str
    values: Mapping[str, Sequence[Any]]
    place: Callable[[int], str]
    float_limits: Mapping[str, int] = field(default_factory=dict)

    def error(self, row: int, column: str, expected: str, got: object) -> InvalidInputError:
        """Return the error about one value."""
        return InvalidInputError(
            f"{self.source}: {self.place(row)}: column {column!r}: expected {expected}, got {shown(got)}"
        )


def load_histograms(
    path: str | Path, other: str | Path | None = None, *, columns: Sequence[str] | None = None
) -> Histogram:
    r"""Read a pair of histograms from one file, or from two files, one a side.

    Parameters
    ----------
    path : str or Path
        A ``.csv``, ``.parquet`` or ``.npz`` file: the counts of A and of B by bin, or only those of A if `other` is
        given. Parquet needs pyarrow, ``pip install 'pbdist[parquet]'``.
    other : str or Path, optional
        The file with the counts of B.
    columns : sequence of str, optional
        The names of the columns, or of the arrays of an npz: for one file the bin and the counts of A and of B, by
        default ``("bin", "a", "b")``; for two files the bin and the counts, by default ``("bin", "count")``. Further
        columns are not read.

    Returns
    -------
    Histogram
        With the exact counts, so that each mass is count / total, rounded once; the totals may differ. The outcomes are
        the bins that have a count on either side: numbers in rising order, then texts. A bin that a file lacks has the
        count 0 there, so that files may be sparse and may have different bins.

    Raises
    ------
    InvalidInputError
        A file cannot be read, is damaged, lacks a column, names a bin twice, or has a count that is not a whole number
        of at least 0; or all counts of a side are 0. The text names the file, the line or row, the column, what was
        expected and what came.
    MissingDependencyError
        The file is Parquet, and pyarrow is not installed.

    Notes
    -----
    Bins are compared as numbers where they are numbers, exactly, without rounding: 1 and 1.0 are the same bin, 1e400
    and 2e400 are two. The number of a text is its decimal, that of a float its binary value, so that 0.1 in a CSV file
    and the float 0.1 are two bins. A number in a text may have 400 characters, and an exponent 6 digits. Other texts
    are compared without the spaces around them.

    A count may be a float as long as that cannot have been rounded: below 2^53 (float64), 2^24 (float32) or 2^11
    (float16).

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
    names = _column_names(columns, sides=1 if other is not None else 2)
    first = _read(Path(path), names)
    bins = names[0]
    if other is None:
        a, b = _counts(first, bins, names[1]), _counts(first, bins, names[2])
    else:
        a, b = _counts(first, bins, names[1]), _counts(_read(Path(other), names), bins, names[1])
    labels = sorted({*a, *b}, key=lambda label: (isinstance(label, str), label))
    return Histogram(tuple(a.get(label, 0) for label in labels), tuple(b.get(label, 0) for label in labels))


def _column_names(columns: Sequence[str] | None, sides: int) -> tuple[str, ...]:
    default = ("bin", "a", "b") if sides == 2 else ("bin", "count")
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


def _counts(table: _Columns, bins: str, column: str) -> dict[Label, int]:
    """Return the counts that are not 0, by bin."""
    found: dict[Label, int] = {}
    rows: dict[Label, int] = {}
    for row, (name, value) in enumerate(zip(table.values[bins], table.values[column], strict=True)):
        label, count = _label(table, row, bins, name), _count(table, row, column, value)
        before = rows.setdefault(label, row)
        if before != row:
            raise table.error(row, bins, f"each bin once, it is in {table.place(before)} too", name)
        if count:
            found[label] = count
    if not found:
        raise InvalidInputError(
            f"{table.source}: column {column!r}: expected counts that are not all 0, got {len(rows)} zeros"
        )
    return found


def _label(table: _Columns, row: int, column: str, value: object) -> Label:
    label = _label_of(value)
    if label is None:
        raise table.error(row, column, "a bin: a number (of at most 400 digits) or a text", value)
    return label


def _count(table: _Columns, row: int, column: str, value: object) -> int:
    limit = table.float_limits.get(column, 2**53)
    count = _count_of(value, limit)
    if count is not None:
        return count
    expected = "a count: a whole number from 0 to 2^63 - 1"
    if _count_of(value, LARGEST_COUNT + 1) is not None:
        expected = f"a count below {limit} where it is such a float, as others may be rounded"
    raise table.error(row, column, expected, value)


def _read(path: Path, names: Sequence[str]) -> _Columns:
    """Return the named columns of a file."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InvalidInputError(f"{path}: expected a file name that ends in {', '.join(_READERS)}")
    if "\0" in str(path):
        raise InvalidInputError(f"{path}: expected a readable file, got a path with a null character")
    try:
        table = reader(path, names)
    except OSError as error:
        raise InvalidInputError(f"{path}: expected a readable file, got: {error.strerror or error}") from error
    sizes = [len(values) for values in table.values.values()]
    if len(set(sizes)) > 1:
        raise InvalidInputError(f"{path}: expected columns of equal lengths, got {sizes}")
    _check_bins(path, sizes[0])
    return table


def _check_bins(path: Path, count: int) -> None:
    if count > MAX_OUTCOMES:
        raise InvalidInputError(f"{path}: expected at most {MAX_OUTCOMES} bins, got {count}")


def _check_names(path: Path, known: Sequence[str], names: Sequence[str]) -> None:
    """Refuse a file that lacks a column, or has it twice."""
    for name in names:
        if list(known).count(name) != 1:
            raise InvalidInputError(f"{path}: expected one column {name!r}, got columns {shown(list(known))}")


def _read_csv(path: Path, names: Sequence[str]) -> _Columns:
    """Read text with commas; the first line names the columns."""
    lines: list[int] = []
    values: dict[str, list[str]] = {name: [] for name in names}
    with (
        opened_input(path, _MAX_BYTES) as content,
        io.TextIOWrapper(content, encoding="utf-8-sig", newline="") as file,
    ):
        reader = csv.reader(file, strict=True)
        try:
            head = [name.strip() for name in next(reader, [])]
            _check_names(path, head, names)
            wanted = [(values[name], head.index(name)) for name in names]
            for record in reader:
                if not record:
                    continue
                if len(record) != len(head):
                    raise InvalidInputError(
                        f"{path}: line {reader.line_num}: expected {len(head)} values, got {len(record)}"
                    )
                lines.append(reader.line_num)
                _check_bins(path, len(lines))
                for column, index in wanted:
                    column.append(record[index])
        except csv.Error as error:
            raise InvalidInputError(f"{path}: line {reader.line_num}: expected CSV, got: {error}") from error
        except UnicodeDecodeError as error:
            raise InvalidInputError(f"{path}: expected UTF-8 text, got {shown(error.object[:20])}") from error
    return _Columns(str(path), values, lambda row: f"line {lines[row]}")


def _read_parquet(path: Path, names: Sequence[str]) -> _Columns:
    """Read Parquet by pyarrow, which is imported only here."""
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingDependencyError(
            f"{path}: expected pyarrow for Parquet, not found; install it with: pip install 'pbdist[parquet]'"
        ) from error
    try:
        with (
            opened_input(path, _MAX_BYTES) as content,
            parquet.ParquetFile(content, page_checksum_verification=True) as file,
        ):
            _check_names(path, file.schema_arrow.names, names)
            _check_bins(path, file.metadata.num_rows)
            table = file.read(columns=list(names))
        values = {name: table.column(name).to_pylist() for name in names}
    except (InvalidInputError, OSError):
        raise
    except Exception as error:
        raise InvalidInputError(f"{path}: expected Parquet, got: {shown(str(error))}") from error
    limits = {name: _arrow_limit(str(table.column(name).type)) for name in names}
    return _Columns(str(path), values, lambda row: f"row {row + 1}", limits)


def _arrow_limit(kind: str) -> int:
    """Return the number from which on floats of an Arrow type, or of a dictionary of it, may have been rounded."""
    bits = (("halffloat", 11), ("float", 24))
    return int(2 ** next((bit for name, bit in bits if name in kind), 53))


def _read_npz(path: Path, names: Sequence[str]) -> _Columns:
    """Read arrays of one dimension; nothing in the file is executed."""
    values: dict[str, list[object]] = {}
    limits: dict[str, int] = {}
    try:
        with opened_input(path, _MAX_BYTES) as file, zipfile.ZipFile(file) as archive:
            members = [(member.filename.removesuffix(".npy"), member) for member in archive.infolist()]
            _check_names(path, [name for name, _ in members], names)
            for name in names:
                # A member is read to its end: only then its checksum is verified, that of the head included.
                content = io.BytesIO(archive.read(dict(members)[name]))
                array = np.lib.format.read_array(content, allow_pickle=False)
                if array.ndim != 1:
                    raise InvalidInputError(
                        f"{path}: array {name!r}: expected one dimension, got the shape {array.shape}"
                    )
                if array.dtype.kind in "mM":  # Some become plain numbers, whatever their unit.
                    raise InvalidInputError(f"{path}: array {name!r}: expected numbers or texts, got {array.dtype}")
                values[name] = array.tolist()
                if array.dtype.kind == "f":
                    limits[name] = 2 ** (int(np.finfo(array.dtype).nmant) + 1)
    except (InvalidInputError, OSError):
        raise
    except Exception as error:
        raise InvalidInputError(f"{path}: expected an npz file, got: {shown(str(error))}") from error
    return _Columns(str(path), values, lambda row: f"element {row}", limits)


_READERS: Mapping[str, Callable[[Path, Sequence[str]], _Columns]] = {
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".npz": _read_npz,
}


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
