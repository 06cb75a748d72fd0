"""What the pages of a Parquet file unpack to, by their own heads, before any is unpacked.

The footer of a file says how large its columns are, but a reader takes the memory that each page's head asks for. Some
encodings also repeat a value without repeating its bytes; those that repeat parts of texts are refused.
"""

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

#: The most bytes of the head of a page, which may hold its smallest and largest value.
_MOST_HEAD = 1 << 20
#: The encodings (``Encoding`` of parquet.thrift) of which no value takes more bytes than its page has, but numbers, of
#: at most 8: PLAIN, both of dictionaries, RLE, BIT_PACKED, DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY and
#: BYTE_STREAM_SPLIT. DELTA_BYTE_ARRAY is none of them: a value may begin as the one before.
_ENCODINGS = frozenset({0, 2, 3, 4, 5, 6, 8, 9})
#: The fields of the head of a page: its two sizes, and the encoding in the heads of its three kinds.
_UNPACKED, _PACKED, _ENCODING_OF = 2, 3, {5: 2, 7: 2, 8: 4}
_DICTIONARY = 7
#: The longest values of a fixed length, which are decimals.
_LONGEST = 32
#: Structures in each other in the head of a page.
_MOST_LEVELS = 8


def check_pages(file: BinaryIO, parquet: Any, names: Sequence[str], most: int) -> set[str]:
    """Refuse columns whose pages unpack to more than `most` bytes together, by a `ValueError`.

    Returns those that have dictionaries: without these their values may still take a million times as much.

    Parameters
    ----------
    file
        The file, opened for reading in binary; it is left at some place.
    parquet
        The same file as a ``pyarrow.parquet.ParquetFile``.
    names
        The columns that will be read: numbers or texts, no lists.
    most
        The limit.
    """
    metadata = parquet.metadata
    schema = [metadata.schema.column(index) for index in range(metadata.num_columns)]
    wanted = [index for index, column in enumerate(schema) if column.path.partition(".")[0] in names]
    for index in wanted:
        column = schema[index]
        if column.path not in names or column.max_repetition_level:
            raise ValueError(f"expected a column of numbers or texts, got {column.path!r}")
        if column.physical_type == "FIXED_LEN_BYTE_ARRAY" and column.length > _LONGEST:
            raise ValueError(f"expected values of at most {_LONGEST} bytes, got {column.path!r} of {column.length}")
    total, dictionaries = 0, set()
    for group in range(metadata.num_row_groups):
        for index in wanted:
            for unpacked, is_dictionary in _pages(file, metadata.row_group(group).column(index)):
                total += unpacked
                if total > most:
                    raise ValueError(f"expected pages of at most {most:,} bytes when unpacked, got more")
                if is_dictionary:
                    dictionaries.add(schema[index].path)
    return dictionaries


def _pages(file: BinaryIO, column: Any) -> Iterator[tuple[int, bool]]:
    """Yield for each page of a column in a row group what it unpacks to, as it says, and whether it is a dictionary."""
    start = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset:
        start = min(start, column.dictionary_page_offset)
    end = start + column.total_compressed_size
    while start < end:
        file.seek(start)
        head = _Head(file.read(min(_MOST_HEAD, end - start)))
        fields = head.fields()
        sizes = fields.get(_UNPACKED), fields.get(_PACKED)
        if not all(isinstance(size, int) and size >= 0 for size in sizes):
            raise ValueError(f"expected pages with their sizes, got {sizes}")
        for kind, field in _ENCODING_OF.items():
            if kind in fields and fields[kind].get(field) not in _ENCODINGS:
                raise ValueError(f"expected an encoding of values one by one, got number {fields[kind].get(field)}")
        yield fields[_UNPACKED], _DICTIONARY in fields
        start += head.place + fields[_PACKED]


class _Head:
    """The head of a page, a structure of Thrift's compact protocol at the beginning of some bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        #: How many bytes are read.
        self.place = 0

    def fields(self, level: int = 0) -> dict[int, Any]:
        """Return the fields of a structure by their numbers: whole numbers and structures; others are passed over."""
        if level > _MOST_LEVELS:
            raise ValueError("expected the head of a page, got too many levels")
        found: dict[int, Any] = {}
        number = 0
        while kind := self._byte():
            step, kind = kind >> 4, kind & 15
            number = number + step if step else self._signed()
            found[number] = self._value(kind, level)
        return found

    def _value(self, kind: int, level: int) -> Any:
        if kind in (1, 2):  # The truth value is in the kind.
            return kind == 1
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 12:
            return self.fields(level + 1)
        if kind == 3:
            self._pass(1)
        elif kind == 7:
            self._pass(8)
        elif kind == 8:
            self._pass(self._unsigned())
        else:
            # Heads of pages have no lists and no mappings.
            raise ValueError(f"expected the head of a page, got a field of kind {kind}")
        return None

    def _pass(self, count: int) -> None:
        self.place += count

    def _byte(self) -> int:
        if self.place >= len(self._data):
            raise ValueError("expected the head of a page, got its beginning")
        self.place += 1
        return self._data[self.place - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise ValueError("expected the head of a page, got a number of too many digits")

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)
