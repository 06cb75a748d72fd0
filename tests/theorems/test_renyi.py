"""What conversions of Rényi divergences gained since, against 50 digits."""

import mpmath
import numpy as np
import pytest

from pbdist.theorems.renyi import log_improvement


@pytest.mark.parametrize("order", [1 + 1e-9, 1 + 1e-6, 1.001, 1.5, 2 - 1e-7, 2.0, 2.0001, 3.0, 64.0, 4096.0, 1e6])
def test_the_improvement_is_known_next_to_order_one_and_far_from_it(order: float) -> None:
    with mpmath.workdps(50):
        exact = mpmath.mpf(order) * mpmath.log(1 - 1 / mpmath.mpf(order)) - mpmath.log(mpmath.mpf(order) - 1)
        found = float(log_improvement(np.array([order]))[0])
        assert abs(found - exact) <= 16 * 2.0**-53 * (1 + mpmath.log(order))
