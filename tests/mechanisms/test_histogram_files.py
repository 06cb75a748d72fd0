"""A pair of histograms from files: sparse bins, different supports, two files, and everything that is wrong."""

import csv
import math
import random
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist import Histogram, InvalidInputError, MissingDependencyError, load_histograms, privacy_bounds
from pbdist.types import Direction
from tests.effort import SEED
from tests.oracles.exact_truth import composed_outcomes, outcomes
from tests.oracles.truth import enclosed_truth
from tests.strategies import examples

needs_pyarrow = pytest.mark.skipif(find_spec("pyarrow") is None, reason="needs pyarrow")
#: How a file of each kind names the third row.
PLACES = {".csv": "line 4", ".npz": "element 2", ".parquet": "row 3"}
KINDS = [".csv", ".npz", pytest.param(".parquet", marks=needs_pyarrow)]


def write(path: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    """Write columns as the kind of file that the name asks for."""
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
    elif path.suffix == ".npz":
        np.savez(path, **{name: np.array(values) for name, values in columns.items()})
    else:
        from pyarrow import parquet, table

        parquet.write_table(table({n: v if isinstance(v, np.ndarray) else list(v) for n, v in columns.items()}), path)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_one_file_with_further_columns(tmp_path: Path, kind: str) -> None:
    path = write(
        tmp_path / f"t{kind}", {"b": [3, 0, 7, 0], "other": [9, 9, 9, 9], "bin": [30, 4, 5, 6], "a": [1, 2, 0, 0]}
    )
    # Numbers in their order, and what neither side has is no outcome.
    assert load_histograms(path) == Histogram([2, 0, 1], [0, 7, 3])
    assert load_histograms(str(path), columns=["bin", "b", "other"]) == Histogram([0, 7, 0, 3], [9, 9, 9, 9])


@pytest.mark.parametrize("kind", KINDS)
def test_two_files_with_different_bins(tmp_path: Path, kind: str) -> None:
    a = write(tmp_path / f"a{kind}", {"bin": ["late", "3", "1"], "count": [4, 2, 1]})
    b = write(tmp_path / f"b{kind}", {"bin": [2.0, 1.0], "count": [5, 6]})
    assert load_histograms(a, b) == Histogram([1, 0, 2, 4], [6, 5, 0, 0])
    assert load_histograms(b, a) == Histogram([6, 5, 0, 0], [1, 0, 2, 4])


@needs_pyarrow
def test_kinds_of_files_may_be_mixed(tmp_path: Path) -> None:
    a = write(tmp_path / "a.PARQUET", {"bin": [0.5, 1.0], "count": [4, 2]})
    b = write(tmp_path / "b.csv", {"bin": ["0.50", "1"], "count": [1, 3]})
    assert load_histograms(a, b) == Histogram([4, 2], [1, 3])


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("count", "shown"),
    [(-1, "-1"), (2.5, "2.5"), (math.nan, "nan"), (math.inf, "inf"), (2.0**64, "18446744073709551616")],
)
def test_what_is_no_count(tmp_path: Path, kind: str, count: float, shown: str) -> None:
    path = write(tmp_path / f"t{kind}", {"bin": [1, 2, 3], "a": [1, 2, 3], "b": [2, 2, count]})
    with pytest.raises(InvalidInputError) as caught:
        load_histograms(path)
    expected = f"t{kind}: {PLACES[kind]}: column 'b': expected a count: a whole number from 0 to 2^63 - 1, got "
    assert expected in str(caught.value)
    assert shown in str(caught.value) or repr(count) in str(caught.value)


@pytest.mark.parametrize("texts", [("1700000000.1234567", "1700000000.1234568"), ("1e400", "2e400"), ("0", "-1e-400")])
def test_bins_that_one_float_stands_for_stay_two(tmp_path: Path, texts: tuple[str, str]) -> None:
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for file, text in zip(files, texts, strict=True):
        file.write_text(f"bin,count\n{text},5\n1700000001.5,5\n", encoding="utf-8")
    pair = load_histograms(*files)
    assert sorted(zip(pair.p, pair.q, strict=True)) == [(0, 5), (5, 0), (5, 5)]
    assert privacy_bounds(pair, compositions=1, epsilon=0.0).delta_upper.item() >= 0.5
    both = tmp_path / "both.csv"
    both.write_text("bin,a,b\n" + "".join(f"{text},1,1\n" for text in texts), encoding="utf-8")
    assert load_histograms(both).outcomes == 2


def test_equal_numbers_are_one_bin_in_any_form(tmp_path: Path) -> None:
    large = 2**53 + 1
    forms = ["1", "1.0", "+01.", "10e-1", "-0", "inf", str(large), f"{large}.0"]
    others = [1, 1.0, np.float32(1), np.int8(1), 0.0, math.inf, large, large]
    for number, (form, other) in enumerate(zip(forms, others, strict=True)):
        a, b = tmp_path / f"a{number}.csv", tmp_path / f"b{number}.npz"
        a.write_text(f"bin,count\n{form},1\n", encoding="utf-8")
        np.savez(b, bin=np.array([other]), count=[1])
        assert load_histograms(a, b).outcomes == 1
    # Floats have their exact value: 0.1 as a float32, as a float64 and as a decimal are three numbers.
    np.savez(tmp_path / "x.npz", bin=np.array([0.1], dtype=np.float32), count=[1])
    np.savez(tmp_path / "y.npz", bin=np.array([0.1]), count=[1])
    assert load_histograms(tmp_path / "x.npz", tmp_path / "y.npz").outcomes == 2
    (tmp_path / "z.csv").write_text("bin,count\n0.1,1\n", encoding="utf-8")
    assert load_histograms(tmp_path / "z.csv", tmp_path / "y.npz").outcomes == 2


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False), min_size=2, max_size=2))
@examples(60)
def test_two_texts_are_one_bin_where_their_numbers_are_equal(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[Decimal]
) -> None:
    folder = tmp_path_factory.mktemp("t")
    files = [write(folder / f"{side}.csv", {"bin": [n], "count": [1]}) for side, n in zip("ab", numbers, strict=True)]
    assert load_histograms(*files).outcomes == len({Fraction(number) for number in numbers})


@pytest.mark.parametrize("text", ["9" * 401, "1e1000000", "nan", "-NaN"])
def test_numbers_that_are_no_bins(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(f"bin,a,b\n{text},1,1\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="line 2: column 'bin': expected a bin: a number"):
        load_histograms(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("text", "count"),
    [("9007199254740993.0", 2**53 + 1), (str(2**63 - 1), 2**63 - 1), ("12e2", 1200), ("-0.0", 0), ("1200e-2", 12)],
)
def test_counts_of_a_text_are_exact(tmp_path: Path, text: str, count: int) -> None:
    (tmp_path / "t.csv").write_text(f"bin,a,b\n1,{text},1\n2,1,1\n", encoding="utf-8")
    assert load_histograms(tmp_path / "t.csv").p == (count, 1)


@pytest.mark.parametrize("text", ["0.99999999999999999", "1e-400", "-1e-400", "9223372036854775808", "1e999999", "inf"])
def test_texts_that_are_near_a_count_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(f"bin,a,b\n1,{text},1\n2,1,1\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="line 2: column 'a': expected a count: a whole number from 0 to"):
        load_histograms(tmp_path / "t.csv")


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize(("dtype", "bits"), [(np.float16, 11), (np.float32, 24), (np.float64, 53)])
def test_floats_are_counts_below_where_they_may_be_rounded(tmp_path: Path, kind: str, dtype: Any, bits: int) -> None:
    path = write(tmp_path / f"t{kind}", {"bin": [1, 2], "a": np.array([2**bits - 1, 1], dtype=dtype), "b": [1, 1]})
    assert load_histograms(path).p == (2**bits - 1, 1)
    path = write(tmp_path / f"t{kind}", {"bin": [1, 2], "a": np.array([2**bits, 1], dtype=dtype), "b": [1, 1]})
    with pytest.raises(InvalidInputError, match=f"column 'a': expected a count below {2**bits} where it is such"):
        load_histograms(path)


def flipped(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content)
    changed[draw.randrange(len(changed))] ^= draw.randint(1, 255)
    return bytes(changed)


@pytest.mark.filterwarnings("ignore:Reading `.npy` or `.npz` file:UserWarning")
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_byte_of_an_npz_never_gives_a_wrong_answer(tmp_path: Path, save: Any) -> None:
    path, draw = tmp_path / "t.npz", random.Random(SEED)  # noqa: S311 -- examples, no secrets
    save(path, bin=[1, 2, 7], a=[3, 5, 0], b=[4, 4, 4])
    right, content = load_histograms(path), path.read_bytes()
    for _ in range(300):
        path.write_bytes(flipped(content, draw))
        try:
            found = load_histograms(path)
        except InvalidInputError as error:
            assert "t.npz: " in str(error)  # noqa: PT017 -- most bytes that are flipped raise, some do no harm
        else:
            assert found == right


@needs_pyarrow
def test_a_damaged_byte_of_a_parquet_file_raises_nothing_else(tmp_path: Path) -> None:
    path, draw = tmp_path / "t.parquet", random.Random(SEED)  # noqa: S311 -- examples, no secrets
    write(path, {"bin": [1, 2, 7], "a": [3, 5, 0], "b": [4, 4, 4]})
    content, refused = path.read_bytes(), 0
    for _ in range(200):
        path.write_bytes(flipped(content, draw))
        try:
            load_histograms(path)
        except InvalidInputError as error:
            assert "t.parquet: " in str(error)  # noqa: PT017 -- as above
            refused += 1
    assert refused > 0


@pytest.mark.parametrize("kind", [".csv", ".npz"])
def test_a_path_with_a_null_character(kind: str) -> None:
    with pytest.raises(InvalidInputError, match="expected a readable file, got a path with a null character"):
        load_histograms(f"a\0b{kind}")


def test_dates_are_no_bins(tmp_path: Path) -> None:
    # Their numbers depend on the unit: 5 ns and 5 ps are two bins.
    np.savez(tmp_path / "t.npz", bin=np.array([5], dtype="m8[ns]"), a=[1], b=[1])
    with pytest.raises(InvalidInputError, match=r"array 'bin': expected numbers or texts, got timedelta64\[ns\]"):
        load_histograms(tmp_path / "t.npz")


@pytest.mark.parametrize("kind", KINDS)
def test_a_bin_twice(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / f"t{kind}", {"bin": ["1", "2", "1.0"], "a": [1, 2, 3], "b": [2, 2, 2]})
    first = {".csv": "line 2", ".npz": "element 0", ".parquet": "row 1"}[kind]
    with pytest.raises(
        InvalidInputError,
        match=rf"{PLACES[kind]}: column 'bin': expected each bin once, it is in {first} too, got '1.0'",
    ):
        load_histograms(path)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_columns_empty_sides_and_bins_without_a_name(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / f"t{kind}", {"bin": [1.0, 2.0, math.nan], "a": [1, 2, 3], "zero": [0, 0, 0]})
    with pytest.raises(
        InvalidInputError, match=rf"t{kind}: expected one column 'b', got columns \['bin', 'a', 'zero'\]"
    ):
        load_histograms(path)
    with pytest.raises(InvalidInputError, match=rf"{PLACES[kind]}: column 'bin': expected a bin: .*, got .*nan"):
        load_histograms(path, columns=("bin", "a", "zero"))
    path = write(tmp_path / f"t{kind}", {"bin": [1, 2], "a": [1, 2], "b": [0, 0]})
    with pytest.raises(InvalidInputError, match="column 'b': expected counts that are not all 0, got 2 zeros"):
        load_histograms(path)


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_none(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"t{kind}"
    with pytest.raises(InvalidInputError, match=rf"t{kind}: expected a readable file, got: .*No such file"):
        load_histograms(path)
    for content in (b"", b"\xff\xfe\x00garbage\n1,2,3\n", b"PK\x03\x04 broken"):
        path.write_bytes(content)
        with pytest.raises(InvalidInputError, match=rf"t{kind}: expected"):
            load_histograms(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InvalidInputError, match=rf"t{kind}: expected a readable file"):
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


def test_wrong_arrays(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, bin=[1, 2], a=[1, 2, 3], b=[1, 2])
    with pytest.raises(InvalidInputError, match=r"expected columns of equal lengths, got \[2, 3, 2\]"):
        load_histograms(path)
    np.savez(path, bin=[1, 2], a=[[1, 2]], b=[1, 2])
    with pytest.raises(InvalidInputError, match=r"array 'a': expected one dimension, got the shape \(1, 2\)"):
        load_histograms(path)
    np.savez(path, bin=[1, 2], a=[True, False], b=[1, 2])
    with pytest.raises(InvalidInputError, match=r"element 0: column 'a': expected a count.*, got True"):
        load_histograms(path)
    np.savez(path, bin=np.array([1, "x"], dtype=object), a=[1, 2], b=[1, 2])
    with pytest.raises(InvalidInputError, match=r"t\.npz: expected an npz file, got: .*allow_pickle"):
        load_histograms(path)
    with path.open("wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(InvalidInputError, match=r"t\.npz: expected an npz file"):
        load_histograms(path)


@needs_pyarrow
def test_nothing_in_parquet(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"bin": [1, 2, None], "a": [1, 2, 3], "b": [None, 2, 2]})
    with pytest.raises(InvalidInputError, match=r"row 3: column 'bin': expected a bin: .*, got None"):
        load_histograms(path)
    with pytest.raises(InvalidInputError, match=r"row 1: column 'b': expected a count: .*, got None"):
        load_histograms(path, columns=["a", "b", "bin"])


def test_missing_pyarrow_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingDependencyError, match=r"t\.parquet: .*pyarrow.*pip install 'pbdist\[parquet\]'"):
        load_histograms(tmp_path / "t.parquet")


@pytest.mark.parametrize("columns", ["bin", ["bin", "a"], ["bin", "a", "a"], ["bin", "a", 3], 5])
def test_wrong_names_of_columns(tmp_path: Path, columns: Any) -> None:
    path = write(tmp_path / "t.csv", {"bin": [1], "a": [2], "b": [3]})
    with pytest.raises(InvalidInputError, match=r"columns: expected 3 different names, as in \('bin', 'a', 'b'\), got"):
        load_histograms(path, columns=columns)
    with pytest.raises(InvalidInputError, match=r"columns: expected 2 different names, as in \('bin', 'count'\), got"):
        load_histograms(path, path, columns=("bin", "a", "b"))


def test_the_name_says_what_a_file_is(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"t\.txt: expected a file name that ends in \.csv, \.parquet, \.npz"):
        load_histograms(tmp_path / "t.txt")
