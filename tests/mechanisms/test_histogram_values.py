"""Bins and counts of files are told exactly, and what is damaged is refused."""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist import InvalidInputError, load_histograms, privacy_bounds
from tests.mechanisms.test_histogram_files import write
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
    forms = ["1", "1.0", "+01.", "10e-1", "-0", "inf", str(large)]
    others = ["1", "1e0", "1", ".1e1", "0.0", "+Infinity", f"{large}.0"]
    for number, (form, other) in enumerate(zip(forms, others, strict=True)):
        a, b = (tmp_path / f"{side}{number}.csv" for side in "ab")
        a.write_text(f"bin,count\n{form},1\n", encoding="utf-8")
        b.write_text(f"bin,count\n {other},1\n", encoding="utf-8")
        assert load_histograms(a, b).outcomes == 1


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
