"""Rényi divergences and the moments accountant next to dp-accounting's, which computes them by other formulas."""

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant

from pbdist import (
    Gaussian,
    Laplace,
    RandomizedResponse,
    SubsampledGaussian,
    earlier_bounds,
    privacy_bounds,
    renyi_bounds,
)
from pbdist.mechanisms import Pair
from pbdist.theorems import renyi

ADDED, REPLACED = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, dp_accounting.NeighboringRelation.REPLACE_ONE
#: Whole ones, at which their formula for sampled noise is exact but for rounding.
ORDERS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
#: They sum terms of about 1 in float64: an order's sum is wrong by so many roundings, and (α - 1) D by the same.
ROUNDINGS = 64


def sampled(rate: float, scale: float) -> dp_accounting.DpEvent:
    return dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(scale))


PEERS: dict[str, tuple[Pair, dp_accounting.DpEvent, dp_accounting.NeighboringRelation]] = {
    "Gaussian 0.7": (Gaussian(0.7), dp_accounting.GaussianDpEvent(0.7), ADDED),
    "Gaussian 20": (Gaussian(20.0), dp_accounting.GaussianDpEvent(20.0), ADDED),
    "DP-SGD 1, 0.01": (SubsampledGaussian(1.0, 0.01), sampled(0.01, 1.0), ADDED),
    "DP-SGD 4, 0.01": (SubsampledGaussian(4.0, 0.01), sampled(0.01, 4.0), ADDED),
    "DP-SGD 3, 0.2": (SubsampledGaussian(3.0, 0.2), sampled(0.2, 3.0), ADDED),
    "Laplace 0.5": (Laplace(0.5), dp_accounting.LaplaceDpEvent(0.5), ADDED),
    "Laplace 20": (Laplace(20.0), dp_accounting.LaplaceDpEvent(20.0), ADDED),
    "randomized response 2/3": (
        RandomizedResponse(2 / 3),
        dp_accounting.RandomizedResponseDpEvent(2 / 3, 2),
        REPLACED,
    ),
    "randomized response 0.51": (
        RandomizedResponse(0.51),
        dp_accounting.RandomizedResponseDpEvent(0.98, 2),
        REPLACED,
    ),
}
SLOW = {"DP-SGD 1, 0.01", "DP-SGD 4, 0.01", "DP-SGD 3, 0.2"}
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in PEERS]


def accountant(name: str, rounds: int, orders: tuple[float, ...]) -> RdpAccountant:
    _, event, relation = PEERS[name]
    return RdpAccountant(list(orders), relation).compose(event, rounds)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rounds", [1, 50])
def test_our_divergences_enclose_theirs(name: str, rounds: int) -> None:
    ours = renyi_bounds(PEERS[name][0], compositions=rounds, order=ORDERS, tolerance=1e-4)
    theirs = accountant(name, rounds, ORDERS).rdp
    order = np.array(ORDERS)
    # Logarithms of binomial coefficients, about α ln α, are wrong by as many roundings of themselves.
    rounding = ROUNDINGS * 2.0**-53 * (rounds * (1.0 + order * np.log(order)) / (order - 1.0) + theirs)
    assert np.all(ours.renyi_lower.values[0] <= theirs + rounding)
    assert np.all(theirs - rounding <= ours.renyi_upper.values[0])
    # The roundings that are allowed hide nothing.
    assert np.all(rounding < 1e-3 * theirs)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PEERS))
@pytest.mark.parametrize(("width", "looser"), [(renyi._WIDTH, 5e-3), (1e-7, 1e-6)])
def test_our_moments_bound_is_at_most_theirs_and_at_least_the_truth(
    name: str, width: float, looser: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same orders; theirs is the improved conversion.

    What is more than 1e-6 comes from the width to which we bound the divergences of a round: (α - 1) of it reach ln δ.
    """
    monkeypatch.setattr(renyi, "_WIDTH", width)
    monkeypatch.setattr(renyi, "_ORDERS", np.array(ORDERS))
    pair, rounds = PEERS[name][0], 50
    alone = accountant(name, rounds, ORDERS)
    wanted = np.array([alone.get_epsilon(delta) for delta in (1e-3, 1e-6, 1e-9)])
    theirs = np.array([alone.get_delta(epsilon) for epsilon in wanted.tolist()])
    ours = earlier_bounds(pair, compositions=rounds, epsilon=wanted, theorem="moments-improved").delta_upper.values[0]
    plain = earlier_bounds(pair, compositions=rounds, epsilon=wanted, theorem="moments").delta_upper.values[0]
    truth = privacy_bounds(pair, compositions=rounds, epsilon=wanted).delta_lower.values[0]
    assert np.all(truth <= ours)
    assert np.all(ours <= plain)
    assert np.all(ours <= theirs * (1.0 + looser))
