"""Lists of numbers and pairs as text."""

from collections.abc import Sequence

import pytest

from pbdist.mechanisms import Gaussian, Histogram, Laplace, Poisson, Product, Reversed, WorstOf
from pbdist.mechanisms.columns import as_list_text, composite_text, list_text
from pbdist.types import Adjacency


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((0.0, 0.5, 1.0), "[0, 0.5, 1]"),
        ((3, 2, 10**20), f"[3, 2, {10**20}]"),
        ((0.1, 1e-300, 1e22), "[0.1, 1e-300, 1e+22]"),
    ],
)
def test_lists_as_text(values: Sequence[float], text: str) -> None:
    assert list_text(values) == text
    assert as_list_text(text) == text
    assert as_list_text(text.strip("[]").replace(" ", "")) == text


def test_lists_are_found_however_they_are_written() -> None:
    assert as_list_text("0,1.0, 5e-1") == "[0, 1, 0.5]"
    assert as_list_text("(1)") == "[1]"
    for other in ("", "0,,1", "a", "nan", "[0, .., inf]", "0 1"):
        assert as_list_text(other) == other


def test_long_lists_are_cut_and_yet_told_apart() -> None:
    values = list(range(1000))
    text = list_text(values)
    assert text.startswith("[0, 1, 2, ..: 1000 values, sha256 ")
    assert len(text) < 60
    assert as_list_text(text) == text
    assert list_text([*values[:-1], 7]) != text
    assert as_list_text(",".join(map(str, values))) == text


def test_what_pairs_are_made_of_as_text() -> None:
    inner = Product(Gaussian(2.0), Reversed(Poisson(8.0)))
    assert (
        composite_text(inner.canonical())
        == "Gaussian(scale=2, sensitivity=1) * Reversed(pair=Poisson(mean=8, sensitivity=1))"
    )
    assert composite_text(Reversed(Histogram((1, 2), (2, 1))).canonical()) == "Histogram(p=[1, 2], q=[2, 1])"
    worst = WorstOf(Laplace(2.0), inner, attained=(True, False), neighbours=Adjacency.ADD_OR_REMOVE)
    assert composite_text(WorstOf(Laplace(2.0), Laplace(3.0), attained=(True, False)).canonical()) == (
        "Laplace(scale=2, sensitivity=1); Laplace(scale=3, sensitivity=1) (upper bounds only)"
    )
    assert composite_text(worst.canonical()).endswith("; add-or-remove")


def test_long_products_are_cut_and_yet_told_apart() -> None:
    pairs = [Laplace(scale) for scale in range(1, 40)]
    text = composite_text(Product(*pairs).canonical())
    assert text.startswith("Laplace(scale=1, sensitivity=1) * Laplace(scale=2, sensitivity=1)")
    assert len(text) < 200
    assert composite_text(Product(*pairs[:-1], Laplace(2)).canonical()) != text
