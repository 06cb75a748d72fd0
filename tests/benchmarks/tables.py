"""Tables and ε of DP-SGD beside dp-accounting: by its fastest public calls, warm, one after the other in one process.

dp-accounting has one call for a list of ε, which is several times as slow as one call for each: it is asked one by one.
It resolves no δ below 1e-12, so that ``floor=1e-12`` is the equal question; the default of 1e-40 stands beside it.
"""

import warnings
from functools import partial
from typing import Any

import numpy as np

from pbdist import SubsampledGaussian, epsilon_bounds, privacy_bounds
from tests.benchmarks.peers import dp_accounting
from tests.benchmarks.side_by_side import seconds

#: σ and q of the tables, their numbers of rounds and ε, and dp-accounting's interval.
TABLES = (
    (1.0, 0.01),
    (0.8, 0.001),
    (2.0, 0.02),
    (4.0, 0.01),
    (0.5, 1e-4),
    (10.0, 0.05),
    (2.0, 0.001),
    (0.6, 1e-4),
    (1.2, 0.0026),
    (20.0, 0.05),
)
ROUNDS, EPSILON, INTERVAL = tuple(2**k for k in range(17)), tuple(np.linspace(0.05, 8.0, 50).tolist()), 1e-4
#: σ and q of the questions for ε, their numbers of rounds, and δ.
SETTINGS = (
    (0.5, 1e-4),
    (0.6, 0.001),
    (0.7, 0.01),
    (0.8, 0.02),
    (1.0, 0.004),
    (1.1, 0.0043),
    (1.2, 0.0026),
    (1.5, 0.01),
    (2.0, 0.001),
    (2.0, 0.05),
    (3.0, 0.01),
    (4.0, 0.005),
    (6.0, 0.02),
    (10.0, 0.05),
)
STEPS, DELTA = (100, 1000, 10**4, 10**5, 10**6), (1e-5, 1e-8, 1e-10)


def _peer(scale: float, rate: float) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp_accounting(scale, INTERVAL, sampling_prob=rate)


def _warm() -> None:
    """Have everything imported that is imported late."""
    step = SubsampledGaussian(3.0, 0.02)
    privacy_bounds(step, compositions=[1, 2, 64], epsilon=[0.5, 1.0, 2.0])
    epsilon_bounds(step, compositions=64, delta=1e-5)
    _peer(3.0, 0.02).self_compose(4).get_delta_for_epsilon(1.0)


def _table(scale: float, rate: float, **settings: Any) -> float:
    step = SubsampledGaussian(scale, rate)
    return seconds(lambda: privacy_bounds(step, compositions=ROUNDS, epsilon=EPSILON, **settings))


def _peers_table(scale: float, rate: float) -> None:
    one = _peer(scale, rate)
    for rounds in ROUNDS:
        composed = one.self_compose(rounds)
        for epsilon in EPSILON:
            composed.get_delta_for_epsilon(epsilon)


def _peers_epsilon(scale: float, rate: float, rounds: int) -> None:
    composed = _peer(scale, rate).self_compose(rounds)
    for delta in DELTA:
        composed.get_epsilon_for_delta(delta)


def table_rows() -> list[tuple[str, float, float, float]]:
    """Return for each setting the seconds of dp-accounting, of pbdist for the same question, and of its default."""
    _warm()
    rows = []
    for scale, rate in TABLES:
        deep = _table(scale, rate)
        same = _table(scale, rate, floor=1e-12)
        theirs = seconds(partial(_peers_table, scale, rate))
        rows.append((f"{scale:g}, {rate:g}", theirs, same, deep))
    return rows


def epsilon_rows() -> list[tuple[str, float, float]]:
    """Return for each setting the seconds of dp-accounting and of pbdist for ε at every number of rounds and δ."""
    _warm()
    rows = []
    for scale, rate in SETTINGS:
        step, own, theirs = SubsampledGaussian(scale, rate), 0.0, 0.0
        for rounds in STEPS:
            own += seconds(partial(epsilon_bounds, step, compositions=rounds, delta=DELTA))
            theirs += seconds(partial(_peers_epsilon, scale, rate, rounds))
        rows.append((f"{scale:g}, {rate:g}", theirs, own))
    return rows


def point_times(count: int = 600) -> tuple[float, float]:
    """Return median and largest number of seconds of single δ, drawn at random."""
    _warm()
    rng, found = np.random.default_rng(5), []
    for _ in range(count):
        scale, rate = np.exp(rng.uniform(np.log(0.5), np.log(20.0))), np.exp(rng.uniform(np.log(1e-4), np.log(0.05)))
        rounds, epsilon = int(2 ** rng.uniform(0.0, 20.0)), float(rng.uniform(0.05, 8.0))
        step = SubsampledGaussian(float(scale), float(rate))
        found.append(seconds(partial(privacy_bounds, step, compositions=rounds, epsilon=epsilon)))
    return float(np.median(found)), max(found)
