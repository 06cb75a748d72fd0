"""Brackets: what they say of a target, how wide they are, and how two of them are joined."""

import math
from itertools import product

import numpy as np
import pytest

from pbdist.results import (
    NOTHING_KNOWN,
    Bracket,
    DeltaBounds,
    Verdict,
    log_relative_width,
    relative_width,
    verdict_of,
)

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"),
    [
        (0.0, 1e-6, Verdict.MEETS),
        (1e-6, 1e-6, Verdict.MEETS),
        (0.0, math.nextafter(1e-6, 1.0), Verdict.UNDECIDED),
        (1e-6, 1.0, Verdict.UNDECIDED),
        (math.nextafter(1e-6, 1.0), 1.0, Verdict.REFUTED),
        (NAN, 1e-9, Verdict.MISSING),
        (1e-3, NAN, Verdict.MISSING),
    ],
)
def test_a_verdict_is_proved(lower: float, upper: float, verdict: Verdict) -> None:
    assert verdict_of(lower, upper, 1e-6) is verdict
    assert Bracket(lower, upper, NAN, NAN).verdict(1e-6) is verdict


def test_how_wide_logarithms_are() -> None:
    lower = np.array([0.0, -1.0, -INF, -INF, -2000.0, NAN, -1.0])
    upper = np.array([0.0, -0.5, -3.0, -INF, -1.0, NAN, -1.1])
    found = log_relative_width(lower, upper)
    assert found[[0, 2, 3, 4, 6]].tolist() == [0.0, INF, 0.0, INF, 0.0]
    assert found[1] == pytest.approx(math.exp(0.5) - 1.0, rel=1e-15)
    assert math.isnan(found[5])
    for one, low, high in zip(found.tolist(), lower.tolist(), upper.tolist(), strict=True):
        assert Bracket(NAN, NAN, low, high).relative_width == pytest.approx(one, rel=0.0, abs=0.0, nan_ok=True)


def test_how_wide_values_are() -> None:
    found = relative_width([0.0, 1.0, 0.0, 2.0, 1.0, INF], [0.0, 1.0, 1.0, 3.0, INF, INF])
    assert found.tolist() == [0.0, 0.0, INF, 0.5, INF, 0.0]


def test_the_better_of_either_side() -> None:
    first, second = Bracket(0.1, 0.4, math.log(0.1), math.log(0.4)), Bracket(0.2, 0.5, math.log(0.2), math.log(0.5))
    joined = Bracket(0.2, 0.4, math.log(0.2), math.log(0.4))
    assert first.narrowed(second) == second.narrowed(first) == joined
    assert joined.log_middle == 0.5 * (joined.log_lower + joined.log_upper)
    assert NOTHING_KNOWN.narrowed(first) == first
    assert NOTHING_KNOWN.vacuous
    assert not first.vacuous
    assert NOTHING_KNOWN.log_middle == 0.0


def test_one_point_of_many() -> None:
    values = np.arange(24.0).reshape(4, 2, 3)
    bounds = DeltaBounds(*values)
    for index in product(range(2), range(3)):
        found = bounds.bracket(*index)
        assert [found.lower, found.upper, found.log_lower, found.log_upper] == values[:, *index].tolist()
