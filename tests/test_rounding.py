"""Numbers in print have one form, whether they are bounds or not."""

import pytest

from pbdist.errors import shown
from pbdist.rounding import brief, exact, rounded_down, rounded_up
from pbdist.study import Target


@pytest.mark.parametrize("text", ["1e-5", "1.5e-7", "1e-12", "0.0001", "0.5", "3", "1e+16"])
def test_small_numbers_look_like_bounds(text: str) -> None:
    value = float(text)
    assert exact(value) == brief(value) == text
    assert shown([value]) in (f"[{text}]", f"[{text}.0]")


def test_bounds_and_other_numbers_have_the_same_exponents() -> None:
    assert rounded_up(1e-5).partition("e")[2] == exact(1e-5).partition("e")[2] == "-5"
    assert rounded_down(3.5e-12).partition("e")[2] == brief(3.5e-12).partition("e")[2] == "-12"


def test_a_target_is_counted() -> None:
    assert str(Target(compositions=1, epsilon=0.5, delta=1e-5)) == "δ <= 1e-5 at ε = 0.5 after 1 composition"
    assert str(Target(compositions=2000, epsilon=0.5, delta=0.5)) == "δ <= 0.5 at ε = 0.5 after 2,000 compositions"
