"""The noise multiplier of DP-SGD next to dp-accounting's answer."""

import warnings

import dp_accounting
import pytest
from dp_accounting.pld import pld_privacy_accountant

from pbdist.mechanisms import SubsampledGaussian
from pbdist.sizing.api import size
from tests.sizing.test_api import check_certificate

_RATE, _ROUNDS, _EPSILON, _DELTA = 0.01, 65_536, 2.0, 1e-5


def _calibrated(interval: float) -> float:
    """dp-accounting's noise multiplier, from above, within 1e-4."""

    def event(multiplier: float) -> dp_accounting.DpEvent:
        sampled = dp_accounting.PoissonSampledDpEvent(_RATE, dp_accounting.GaussianDpEvent(multiplier))
        return dp_accounting.SelfComposedDpEvent(sampled, _ROUNDS)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(
            dp_accounting.calibrate_dp_mechanism(
                lambda: pld_privacy_accountant.PLDAccountant(value_discretization_interval=interval),
                event,
                _EPSILON,
                _DELTA,
                dp_accounting.ExplicitBracketInterval(1.0, 20.0),
                tol=1e-4,
            )
        )


@pytest.mark.nightly
def test_noise_multiplier_of_dp_sgd() -> None:
    sized = size(SubsampledGaussian, rate=_RATE, compositions=_ROUNDS, epsilon=_EPSILON, delta=_DELTA, tolerance=1e-4)
    check_certificate(sized)
    assert sized.ordered
    # Both are certified from above, and neither is below what is refuted.
    theirs = _calibrated(1e-3)
    assert sized.refuted_scale < sized.scale < theirs
    assert theirs < 1.03 * sized.scale
