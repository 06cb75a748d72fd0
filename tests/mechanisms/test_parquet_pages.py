"""Parquet files that unpack to far more than they have are refused, or read without that."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import load_histograms
from pbdist.mechanisms.histogram_files import _Head, check_pages

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

KINDS: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": False},
    "dictionary": {"use_dictionary": True},
    "second version": {"use_dictionary": True, "data_page_version": "2.0"},
    "zstd": {"use_dictionary": False, "compression": "zstd"},
    "small pages": {"use_dictionary": False, "data_page_size": 64},
    "row groups": {"use_dictionary": True, "row_group_size": 10},
    "packed": {"use_dictionary": False, "column_encoding": {"a": "DELTA_BINARY_PACKED", "b": "PLAIN", "bin": "PLAIN"}},
    "lengths": {"use_dictionary": False, "column_encoding": {"bin": "DELTA_LENGTH_BYTE_ARRAY"}},
}


def columns(bins: list[Any]) -> dict[str, list[Any]]:
    return {"bin": bins, "a": [1] * len(bins), "b": list(range(len(bins)))}


def written(path: Path, bins: list[Any], **settings: Any) -> Path:
    parquet.write_table(pyarrow.table(columns(bins)), path, **settings)
    return path


def checked(path: Path, most: int, names: tuple[str, ...] = ("bin", "a", "b")) -> None:
    with path.open("rb") as content, parquet.ParquetFile(path) as file:
        check_pages(content, file, names, most)


@pytest.mark.parametrize("kind", KINDS)
def test_the_sizes_of_all_pages_are_added_up(kind: str, tmp_path: Path) -> None:
    """What pages unpack to is in the footer of an honest file, too, together with their heads."""
    bins = [f"bin {number}" for number in range(100)]
    path = written(tmp_path / "t.parquet", bins, **KINDS[kind])
    with parquet.ParquetFile(path) as file:
        groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
        total = sum(group.total_byte_size for group in groups)
    checked(path, total)
    with pytest.raises(ValueError, match=r"expected pages of at most .* bytes when unpacked, got more"):
        checked(path, total // 4)
    assert load_histograms(path).p == (1,) * 100


@pytest.mark.slow
def test_a_text_that_occurs_a_million_times_takes_no_more_memory_than_once(tmp_path: Path) -> None:
    """A megabyte a million times would take a terabyte."""
    bins = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 1_000_000, pyarrow.int32()), ["x" * (1 << 20)])
    table = pyarrow.table({"bin": bins, "a": [1] * 1_000_000, "b": [1] * 1_000_000})
    path = tmp_path / "t.parquet"
    # Without the type of Arrow in it: any reader takes it for plain texts.
    parquet.write_table(table, path, store_schema=False)
    assert path.stat().st_size < 4 << 20
    program = (
        "import resource, sys; from pbdist.mechanisms import load_histograms\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "load_histograms(sys.argv[1])"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert "row 2: column 'bin': expected each bin once, it is in row 1 too" in done.stderr


def test_texts_that_begin_as_the_one_before_are_refused(tmp_path: Path) -> None:
    bins = ["x" * 1000 + str(number) for number in range(1000)]
    path = written(tmp_path / "t.parquet", bins, use_dictionary=False, column_encoding={"bin": "DELTA_BYTE_ARRAY"})
    assert path.stat().st_size < 100_000
    with pytest.raises(InvalidInputError, match="an encoding of values one by one, got number 7"):
        load_histograms(path)


@pytest.mark.parametrize(
    "values",
    [
        pyarrow.array([[1, 2], [3]]),
        pyarrow.array([{"x": 1}, {"x": 2}]),
        pyarrow.array([b"x" * 1000, b"y" * 1000], pyarrow.binary(1000)),
    ],
)
def test_what_is_neither_number_nor_text_is_refused_before_it_is_read(values: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"bin": values, "a": [1, 1], "b": [1, 1]}), path)
    with pytest.raises(InvalidInputError, match=r"expected a column of numbers or texts|expected values of at most 32"):
        load_histograms(path)


def test_a_page_that_asks_for_more_than_the_footer_says_is_refused(tmp_path: Path) -> None:
    """The size in the head of a page is made larger; the footer still tells of a small one."""
    path = written(tmp_path / "t.parquet", [f"{number:04d}" for number in range(2000)], use_dictionary=False)
    with parquet.ParquetFile(path) as file:
        start = file.metadata.row_group(0).column(0).data_page_offset
    data = bytearray(path.read_bytes())
    # Kind of page; then the field of the size: three bytes of a zigzag number.
    assert data[start : start + 3] == b"\x15\x00\x15"
    head = _Head(bytes(data[start : start + 200]))
    assert 16_000 <= head.fields()[2] < 17_000
    assert data[start + 5] < 0x80
    data[start + 5] = 0x7F
    path.write_bytes(data)
    with pytest.raises(ValueError, match="got more"):
        checked(path, 100_000)


@pytest.mark.parametrize(
    "data", [b"", b"\x15", b"\x15" + b"\xff" * 30, b"\x1c" * 100, b"\x19\x00", b"\x18\xff\xff\x7f"]
)
def test_what_is_no_head_of_a_page_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="expected the head of a page"):
        _Head(data).fields()
