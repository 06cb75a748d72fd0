"""Lines between and beyond stored bounds are rounded outwards, against fifty digits."""

import mpmath
import numpy as np
import pytest

from pbdist.query.convex_delta import Curve, log_above, log_below

NONE = np.zeros(0)


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(50):
        yield


def line(first: tuple[float, float], second: tuple[float, float], epsilon: float) -> mpmath.mpf:
    """ln of the line in e^ε through two points (ε, ln δ), at ε."""
    (x, low), (y, high) = ((mpmath.exp(mpmath.mpf(each)) for each in point) for point in (first, second))
    height = low + (high - low) * (mpmath.exp(mpmath.mpf(epsilon)) - x) / (y - x)
    return mpmath.log(height) if height > 0 else -mpmath.inf


def test_logarithms_are_rounded_outwards() -> None:
    deltas = np.exp(np.random.default_rng(0).uniform(-700.0, 0.0, 200))
    for value, below, above in zip(
        deltas.tolist(), log_below(deltas).tolist(), log_above(deltas).tolist(), strict=True
    ):
        assert below < mpmath.log(mpmath.mpf(value)) < above


def test_chords_are_rounded_up() -> None:
    random = np.random.default_rng(1)
    for _ in range(100):
        left, middle, right = np.sort(random.uniform(0.0, 3.0, 3)).tolist()
        high, low = -random.uniform(1.0, 5.0), -random.uniform(6.0, 9.0)
        found = Curve(np.array([left, right]), np.array([high, low]), NONE, NONE).log_upper(np.array([middle]))[0]
        exact = min(line((left, high), (right, low), middle), line((-np.inf, 0.0), (right, low), middle))
        assert found >= min(exact, mpmath.mpf(high))


@pytest.mark.parametrize("beyond", [True, False])
def test_continued_lines_are_rounded_down(beyond: bool) -> None:
    random = np.random.default_rng(2)
    told = 0
    for _ in range(100):
        points = np.sort(random.uniform(0.1, 1.0, 3)).tolist()
        upper, known, asked = points if beyond else points[::-1]
        # The upper point is on the far side of the one that is asked for.
        log_known = -random.uniform(1.0, 2.0)
        log_upper = log_known + (1.0 if beyond else -1.0) * random.uniform(0.01, 0.3)
        curve = Curve(np.array([upper]), np.array([log_upper]), np.array([known]), np.array([log_known]))
        found = float(curve.log_lower(np.array([asked]))[0])
        lines = [line((upper, log_upper), (known, log_known), asked)]
        lines.append(line((-np.inf, 0.0), (known, log_known), asked) if beyond else mpmath.mpf(log_known))
        assert found <= max(lines)
        told += found > -np.inf
    assert told > 50


def test_a_bound_that_was_cut_at_1_is_no_end_of_a_chord() -> None:
    # Masses that sum to 1.5: 1.5 - 0.24 e^ε exceeds 1 at 0.5, and not at 0.75.
    whole, last = float(np.log(1.5)), float(np.log(1.5 - 0.24 * np.exp(1.0)))
    found = Curve(np.array([0.5, 1.0]), np.array([0.0, last]), NONE, NONE, whole).log_upper(np.array([0.75]))[0]
    assert found >= mpmath.log(1.5 - 0.24 * mpmath.exp(0.75)) - 1e-12
