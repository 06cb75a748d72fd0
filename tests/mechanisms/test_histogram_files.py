"""A pair of histograms from files: sparse bins, different supports, two files, and everything that is wrong."""

import csv
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist import Histogram, InvalidInputError, load_histograms, privacy_bounds
from pbdist.types import Direction
from tests.oracles.exact_truth import composed_outcomes, outcomes
from tests.oracles.truth import enclosed_truth
from tests.strategies import examples


def write(path: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    """Write columns as a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
    return path


def test_one_file_with_further_columns(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.csv", {"b": [3, 0, 7, 0], "other": [9, 9, 9, 9], "bin": [30, 4, 5, 6], "a": [1, 2, 0, 0]}
    )
    # Numbers in their order, and what neither side has is no outcome.
    assert load_histograms(path) == Histogram([2, 0, 1], [0, 7, 3])
    assert load_histograms(str(path), columns=["bin", "b", "other"]) == Histogram([0, 7, 0, 3], [9, 9, 9, 9])


def test_two_files_with_different_bins(tmp_path: Path) -> None:
    a = write(tmp_path / "a.csv", {"bin": ["late", "3", "1"], "count": [4, 2, 1]})
    b = write(tmp_path / "b.csv", {"bin": [2.0, 1.0], "count": [5, 6]})
    assert load_histograms(a, b) == Histogram([1, 0, 2, 4], [6, 5, 0, 0])
    assert load_histograms(b, a) == Histogram([6, 5, 0, 0], [1, 0, 2, 4])


def test_text_of_any_spreadsheet(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes('\ufeffbin, a ,b\r\n"x, y",1,2\r\n\r\n 1e3 , 3 ,4.0\r\n1001,0,0\r\n'.encode())
    assert load_histograms(path) == Histogram([3, 1], [4, 2])


@given(st.data())
@examples(60)
def test_masses_are_the_exact_fractions_of_counts_of_any_totals(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    bins = data.draw(st.lists(st.integers(-50, 50), min_size=1, max_size=5, unique=True))
    counts = st.lists(st.integers(0, 30), min_size=len(bins), max_size=len(bins)).filter(any)
    a, b = data.draw(counts), data.draw(counts)
    path = write(tmp_path_factory.mktemp("t") / "t.csv", {"bin": bins, "a": a, "b": b})
    pair = load_histograms(path)
    assert pair.mass_excess == (0, 0)
    rounds, epsilon = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([0.0, 0.25, 1.0]))
    found = privacy_bounds(pair, compositions=rounds, epsilon=epsilon)
    table = outcomes([Fraction(x, sum(a)) for x in a], [Fraction(x, sum(b)) for x in b])
    composed = composed_outcomes([(table, rounds)])
    truth = [enclosed_truth(composed, epsilon, direction) for direction in Direction]
    assert found.delta_lower.item() <= max(upper for _, upper in truth)
    assert max(lower for lower, _ in truth) <= found.delta_upper.item()


@pytest.mark.parametrize(
    ("count", "shown"),
    [(-1, "-1"), (2.5, "2.5"), (math.nan, "nan"), (math.inf, "inf"), (2.0**64, "18446744073709551616")],
)
def test_what_is_no_count(tmp_path: Path, count: float, shown: str) -> None:
    path = write(tmp_path / "t.csv", {"bin": [1, 2, 3], "a": [1, 2, 3], "b": [2, 2, count]})
    with pytest.raises(InvalidInputError) as caught:
        load_histograms(path)
    expected = "t.csv: line 4: column 'b': expected a count: a whole number from 0 to 2^63 - 1, got "
    assert expected in str(caught.value)
    assert shown in str(caught.value) or repr(count) in str(caught.value)


def test_a_bin_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", {"bin": ["1", "2", "1.0"], "a": [1, 2, 3], "b": [2, 2, 2]})
    with pytest.raises(
        InvalidInputError,
        match=r"line 4: column 'bin': expected each bin once, it is in line 2 too, got '1.0'",
    ):
        load_histograms(path)


def test_missing_columns_empty_sides_and_bins_without_a_name(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", {"bin": [1.0, 2.0, math.nan], "a": [1, 2, 3], "zero": [0, 0, 0]})
    with pytest.raises(InvalidInputError, match=r"t.csv: expected one column 'b', got columns \['bin', 'a', 'zero'\]"):
        load_histograms(path)
    with pytest.raises(InvalidInputError, match=r"line 4: column 'bin': expected a bin: .*, got .*nan"):
        load_histograms(path, columns=("bin", "a", "zero"))
    path = write(tmp_path / "t.csv", {"bin": [1, 2], "a": [1, 2], "b": [0, 0]})
    with pytest.raises(InvalidInputError, match="column 'b': expected counts that are not all 0, got 2 zeros"):
        load_histograms(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    with pytest.raises(InvalidInputError, match=r"t.csv: expected a readable file, got: .*No such file"):
        load_histograms(path)
    for content in (b"", b"\xff\xfe\x00garbage\n1,2,3\n", b"PK\x03\x04 broken"):
        path.write_bytes(content)
        with pytest.raises(InvalidInputError, match=r"t.csv: expected"):
            load_histograms(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InvalidInputError, match=r"t.csv: expected a readable file"):
        load_histograms(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bin,a,b\n1,2\n", "line 2: expected 3 values, got 2"),
        ("bin,a,b\n1,2,3,4\n", "line 2: expected 3 values, got 4"),
        ("bin,a,b\n", "column 'a': expected counts that are not all 0, got 0 zeros"),
        ("bin,a,b,a\n1,2,3,4\n", "expected one column 'a', got columns"),
        ("bin;a;b\n1;2;3\n", "expected one column 'bin', got columns"),
        ('bin,a,b\n"1"x,2,3\n', "line 2: expected CSV, got: "),
        ("bin,a,b\n,2,3\n", "line 2: column 'bin': expected a bin"),
        ("bin,a,b\n1,,3\n", "line 2: column 'a': expected a count"),
        ("bin,a,b\n1,1_0,3\n", "line 2: column 'a': expected a count"),
        ("bin,a,b\n1,many,3\n", "line 2: column 'a': expected a count: a whole number from 0 to 2^63 - 1, got 'many'"),
        (f"bin,a,b\n1,{2**63},3\n", "line 2: column 'a': expected a count"),
        (f"bin,a,b\n1,{'9' * 5000},3\n", "line 2: column 'a': expected a count"),
    ],
)
def test_wrong_text(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError) as caught:
        load_histograms(path)
    assert words in str(caught.value)


@pytest.mark.parametrize("columns", ["bin", ["bin", "a"], ["bin", "a", "a"], ["bin", "a", 3], 5])
def test_wrong_names_of_columns(tmp_path: Path, columns: Any) -> None:
    path = write(tmp_path / "t.csv", {"bin": [1], "a": [2], "b": [3]})
    with pytest.raises(InvalidInputError, match=r"columns: expected 3 different names, as in \('bin', 'a', 'b'\), got"):
        load_histograms(path, columns=columns)
    with pytest.raises(InvalidInputError, match=r"columns: expected 2 different names, as in \('bin', 'count'\), got"):
        load_histograms(path, path, columns=("bin", "a", "b"))


def test_the_name_says_what_a_file_is(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"t\.npz: expected a file name that ends in \.csv; arrays .*Histogram"):
        load_histograms(tmp_path / "t.npz")
