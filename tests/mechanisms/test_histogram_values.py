"""Bins and counts of files are told exactly, and what is damaged is refused."""

import math
import random
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist import InvalidInputError, load_histograms, privacy_bounds
from tests.effort import SEED
from tests.mechanisms.test_histogram_files import KINDS, needs_pyarrow, write
from tests.strategies import examples


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


@needs_pyarrow
def test_floats_of_a_dictionary_are_counts_below_the_same_limit(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    counts = pyarrow.array([2.0**24, 1.0], type=pyarrow.float32()).dictionary_encode()
    parquet.write_table(pyarrow.table({"bin": [1, 2], "a": counts, "b": [1, 1]}), tmp_path / "t.parquet")
    with pytest.raises(InvalidInputError, match="column 'a': expected a count below 16777216"):
        load_histograms(tmp_path / "t.parquet")


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
