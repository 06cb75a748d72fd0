"""E[N] of a noisy count against sums of exact tails."""

import mpmath
import pytest

from pbdist.mechanisms import Gaussian, Laplace, NoisyCount


def _tail(noise: Laplace | Gaussian, mean: float, count: int) -> mpmath.mpf:
    """P(X >= count), which is P(X > count)."""
    far = (mpmath.mpf(count) - mpmath.mpf(mean)) / mpmath.mpf(noise.scale)
    if isinstance(noise, Gaussian):
        return mpmath.ncdf(-far)
    return mpmath.exp(-far) / 2 if far >= 0 else 1 - mpmath.exp(far) / 2


@pytest.mark.parametrize("mean", [-4.0, 0.0, 0.25, 1.0, 7.5, 300.0])
@pytest.mark.parametrize(
    "noise", [Laplace(0.3), Laplace(2.5), Laplace(40.0), Gaussian(1.25), Gaussian(30.0), Gaussian(250.0)]
)
def test_expected_count_of_every_reading(noise: Laplace | Gaussian, mean: float) -> None:
    with mpmath.workdps(30):
        last = int(max(mean, 0.0) + (35 if isinstance(noise, Laplace) else 9) * noise.scale) + 2
        from_one = mpmath.fsum(_tail(noise, mean, count) for count in range(1, last))
        kept = _tail(noise, mean, 0)
        truth = {
            "clamp-and-ceil": kept + from_one,
            "shift-inside": kept + from_one,
            "redraw-and-floor": from_one / kept,
        }
        for reading, expected in truth.items():
            found = NoisyCount(noise, mean, 3, reading).expected_count
            assert abs(found / expected - 1) < 1e-11, (reading, found, expected)
