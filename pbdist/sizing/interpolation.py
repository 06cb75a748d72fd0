"""Where δ may reach a target, read off a few values of it: for the search alone, no bound rests on it."""

import math
from collections.abc import Mapping

import numpy as np
from scipy import special

__all__ = ["gaussian_scale", "log_delta_at", "root_between"]


def root_between(log_deltas: Mapping[float, float], low: float, high: float, target: float) -> float | None:
    """Estimate the amount of noise between `low` and `high` at which ln δ is `target`; None where nothing suggests one.

    -ln δ is about a power of the noise: the logarithms of both are joined by a line.

    Parameters
    ----------
    log_deltas : mapping of float to float
        ln δ by amounts of noise.
    low, high : float
        Where the target is missed, and where it is met.
    target : float
        ln δ.
    """
    wanted = _double_log(target)
    points = sorted((abs(_double_log(value) - wanted), amount) for amount, value in log_deltas.items() if value < 0.0)
    finite = [amount for far, amount in points if math.isfinite(far)]
    for ends in (finite[:2], [low, high]):
        if len(ends) == 2 and set(ends) <= set(finite):
            first, second = ends
            x, y = (math.log(first), math.log(second)), tuple(_double_log(log_deltas[a]) for a in (first, second))
            if y[0] == y[1]:
                continue
            root = x[0] + (wanted - y[0]) * (x[1] - x[0]) / (y[1] - y[0])
            if math.log(low) < root < math.log(high):
                return math.exp(root)
    return None


def log_delta_at(log_deltas: Mapping[float, float], amount: float) -> float:
    """Estimate ln δ at an amount of noise, from the two nearest amounts; NaN where they do not tell."""
    near = sorted(log_deltas, key=lambda other: abs(math.log(other / amount)))[:2]
    values = [_double_log(log_deltas[other]) for other in near]
    if len(near) < 2 or not all(map(math.isfinite, values)):
        return math.nan
    slope = (values[1] - values[0]) / math.log(near[1] / near[0])
    return -math.exp(min(values[0] + slope * math.log(amount / near[0]), 700.0))


def gaussian_scale(compositions: int, epsilon: float, log_delta: float) -> float:
    """Return about the standard deviation that Gaussian noise needs at sensitivity 1: where most searches begin."""
    low, high = -40.0, 40.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        mu = math.exp(middle)
        first = float(special.log_ndtr(0.5 * mu - epsilon / mu))
        second = epsilon + float(special.log_ndtr(-0.5 * mu - epsilon / mu))
        value = first + float(np.log(-np.expm1(second - first))) if second < first else -math.inf
        low, high = (low, middle) if value > log_delta else (middle, high)
    return math.sqrt(compositions) * math.exp(-low)


def _double_log(log_delta: float) -> float:
    """Return ln(-ln δ); infinite where δ is 0, and minus infinity where it is 1."""
    return math.log(-log_delta) if log_delta < 0.0 else -math.inf
