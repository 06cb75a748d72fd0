"""What a misspelt name is likely to mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.suggestions import did_you_mean, likely
from tests.strategies import examples

KINDS = ("Laplace", "LaplaceSum", "Gaussian", "SubsampledGaussian", "DiscreteGaussian", "Poisson")


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("Laplac", "Laplace"),
        ("laplace", "Laplace"),
        ("LAPLACE_SUM", "LaplaceSum"),
        ("Gausian", "Gaussian"),
        ("Poison", "Poisson"),
        ("subsampled-gaussian", "SubsampledGaussian"),
        ("Subsampled", "SubsampledGaussian"),
        ("normal", "Gaussian"),
        ("xyz", None),
        ("", None),
        ("L" * 10_000, None),
        (3, None),
        (None, None),
        (["Laplace"], None),
    ],
)
def test_likely_names(wrong: object, meant: str | None) -> None:
    assert likely(wrong, KINDS, {"normal": "Gaussian", "exponential": "Staircase"}) == meant
    expected = "" if meant is None else f": did you mean {meant}?"
    assert did_you_mean(wrong, KINDS, {"normal": "Gaussian"}) == expected


def test_a_name_that_is_not_there_is_never_suggested() -> None:
    assert likely("exponential", KINDS, {"exponential": "Staircase"}) is None
    assert likely("Laplac", ()) is None
    assert did_you_mean("Laplace", KINDS) == ""


@examples(300)
@given(st.text(max_size=80), st.lists(st.text(max_size=10), max_size=5))
def test_what_is_suggested_is_known(wrong: str, known: list[str]) -> None:
    assert likely(wrong, known) in {None, *known}
