"""δ and its logarithm, each rounded to its side."""

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

__all__ = ["delta_above", "delta_below", "log_above", "log_below"]

_U = UNIT_ROUNDOFF
#: Smallest float64 of full precision, rounded up.
_SMALLEST_NORMAL = 2.3e-308


def delta_above(log_delta: FloatArray) -> FloatArray:
    """Return δ from its logarithm, rounded up; above 0 wherever the logarithm is more than -inf."""
    values = np.exp(log_delta) * (1.0 + 8.0 * _U)
    return np.where(log_delta > -np.inf, np.maximum(values, _SMALLEST_NORMAL), 0.0)


def delta_below(log_delta: FloatArray) -> FloatArray:
    """Return δ from its logarithm, rounded down; 0 where it is no normal float64."""
    values = np.exp(np.minimum(log_delta, 0.0)) * (1.0 - 8.0 * _U)
    return np.where(values >= _SMALLEST_NORMAL, values, 0.0)


def log_above(delta: FloatArray) -> FloatArray:
    """Return the logarithm of δ, rounded up; -inf for 0."""
    return _log(delta, 1.0)


def log_below(delta: FloatArray) -> FloatArray:
    """Return the logarithm of δ, rounded down; -inf for 0."""
    return _log(delta, -1.0)


def _log(delta: FloatArray, side: float) -> FloatArray:
    with np.errstate(divide="ignore"):
        log = np.log(delta)
    return np.asarray(log + side * 4.0 * _U * (1.0 + np.where(delta > 0.0, np.abs(log), 0.0)))
