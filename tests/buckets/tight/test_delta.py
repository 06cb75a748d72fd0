"""δ of tilted masses against 60 digits."""

import math
import random
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest

from pbdist.buckets.tight.delta import delta_above, delta_below, log_delta_lower, log_delta_upper
from pbdist.buckets.tight.state import DOMINATING, EXACT_A, EXACT_B, HIGHEST, LOSS_SHIFT, RATE_DOMINATING, TiltedMasses
from pbdist.types import FloatArray
from tests.buckets.tight.exact_states import positions, random_state, state_deltas, worth


def upper_of(state: TiltedMasses, epsilon: FloatArray) -> list[float]:
    found: Any = log_delta_upper(state, epsilon)
    # The part of the error in it is told besides.
    return (found[0] if isinstance(found, tuple) else found).tolist()


@pytest.mark.parametrize("part", range(2))
def test_the_bounds_are_those_of_the_masses(part: int) -> None:
    draw = random.Random(f"delta {part}")  # noqa: S311
    met = 0
    with mpmath.workdps(60):
        for _ in range(60):
            tilt, width = draw.choice([(0.0, 0.3), (0.5, 2.0), (3.0, 0.3), (40.0, 0.01), (0.0, 0.01)])
            state = random_state(draw, size=draw.choice([1, 4, 30, 80]), width=width, tilt=tilt)
            error = draw.choice([0.0, 1e-13, 1e-3])
            state = replace(state, error=np.full((1, 3), error))
            x = [abs(float(p)) for row in (DOMINATING, EXACT_A) for p in positions(state, row)]
            epsilon = np.array([0.0, *(draw.choice(x) * draw.choice([1.0, 1.0 + 1e-15, 0.99, 1.5]) for _ in range(6))])
            lower, upper = log_delta_lower(state, epsilon).tolist(), upper_of(state, epsilon)
            for asked, low, high in zip(epsilon.tolist(), lower, upper, strict=True):
                below, above = state_deltas(state, asked)
                # Whatever masses lie within the errors of those that are kept, the bounds are on their sides.
                above += worth(state, DOMINATING, asked) if above > 0 or error > 0.0 else mpmath.mpf(0)
                assert low == -math.inf or mpmath.exp(low) <= below
                if asked < float(state.additive[0, HIGHEST]):
                    assert mpmath.exp(high) >= above * (1 - mpmath.mpf(10) ** -50)
                # Next to a position, what rounding moves ε by counts.
                if error == 0.0 and above > 0 and min(abs(asked - p) for p in x) > 1e-3 * width:
                    met += 1
                    assert high == pytest.approx(float(mpmath.log(above)), abs=1e-6)
    assert met > 20


def test_several_epsilon_at_once_are_each_by_itself() -> None:
    draw = random.Random("several")  # noqa: S311
    for _ in range(20):
        state = random_state(draw, size=60, width=0.05, tilt=draw.choice([0.0, 2.0]))
        epsilon = np.array([0.0, 0.01, 0.5, 1.3, 2.9])
        for found in (lambda e, s=state: log_delta_lower(s, e).tolist(), lambda e, s=state: upper_of(s, e)):
            single = [found(epsilon[i : i + 1])[0] for i in range(epsilon.size)]
            np.testing.assert_allclose(found(epsilon), single, rtol=1e-7, atol=1e-7)


def test_the_error_lowers_the_lower_bound_by_what_it_can_be_worth() -> None:
    draw = random.Random("error")  # noqa: S311
    with mpmath.workdps(60):
        for _ in range(30):
            state = random_state(draw, size=20, width=0.2, tilt=draw.choice([0.0, 1.5]))
            below, _ = state_deltas(state, 0.3)
            # An adversary takes the whole error from A's row, or adds it to B's, wherever it is worth most.
            wrong = replace(state, error=np.array([[0.0, 1e-3, 1e-3]]))
            index = draw.randrange(state.size)
            weights = state.weights.copy()
            weights[0, EXACT_A, index] = max(weights[0, EXACT_A, index] - 1e-3, 0.0)
            weights[0, EXACT_B, draw.randrange(state.size)] += 1e-3
            truth, _ = state_deltas(replace(state, weights=weights), 0.3)
            (low,) = log_delta_lower(wrong, np.array([0.3])).tolist()
            assert low == -math.inf or mpmath.exp(low) <= min(truth, below)


def test_losses_that_may_be_off_lower_epsilon() -> None:
    state = random_state(random.Random(5), size=20, width=0.2, tilt=0.0)  # noqa: S311
    additive = state.additive.copy()
    additive[0, LOSS_SHIFT] = 0.07
    (moved,), (plain,) = (
        upper_of(replace(state, additive=additive), np.array([0.5])),
        upper_of(state, np.array([0.43])),
    )
    assert moved == pytest.approx(plain, abs=1e-12)


def test_beyond_the_highest_loss_only_infinity_is_left() -> None:
    state = random_state(random.Random(6), size=5, width=0.2, tilt=0.0)  # noqa: S311
    additive = state.additive.copy()
    additive[0, HIGHEST] = float(positions(state, DOMINATING)[-1])
    for rate in (0.0, 1e-3):
        additive[0, RATE_DOMINATING] = rate
        (found,) = upper_of(replace(state, additive=additive), np.array([50.0]))
        whole = float(additive[0, 0])
        assert found == (-math.inf if rate == 0.0 else pytest.approx(whole + math.log(-math.expm1(-rate)), abs=1e-12))


def test_a_lower_bound_far_from_its_labels_holds() -> None:
    """Labels of cells mean nothing: where ε is 700 nats and more above them, B's masses still count in full."""
    draw = random.Random("far")  # noqa: S311
    with mpmath.workdps(60):
        for _ in range(20):
            state = random_state(draw, size=30, width=60.0, tilt=0.0)
            state = replace(state, log_scale=np.array([[0.0, draw.uniform(-300.0, 0.0), draw.uniform(0.0, 300.0)]]))
            for asked in (0.0, 300.0, 700.0, 900.0, 1500.0):
                (low,) = log_delta_lower(state, np.array([asked])).tolist()
                below, _ = state_deltas(state, asked)
                assert low == -math.inf or mpmath.exp(low) <= below


def test_delta_is_rounded_to_its_side() -> None:
    log_delta = np.array([-np.inf, -2000.0, -740.0, -700.0, -1.0, 0.0])
    above, below = delta_above(log_delta), delta_below(log_delta)
    assert above[0] == 0.0
    assert np.all(above[1:] > 0.0)
    assert np.all(below[:3] == 0.0)
    with mpmath.workdps(40):
        for value, low, high in zip(log_delta.tolist(), below.tolist(), above.tolist(), strict=True):
            assert mpmath.mpf(low) <= mpmath.exp(mpmath.mpf(value)) <= mpmath.mpf(high)
    np.testing.assert_allclose(above[3:], below[3:], rtol=1e-14)
