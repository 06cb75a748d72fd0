"""What a tolerance promises of certified bounds: how far apart they are, and whether that will do."""

import math
from typing import Any

import numpy as np

from pbdist.study.spec import StudySpec
from pbdist.types import BoolArray, FloatArray

__all__ = ["log_floor", "relative_width", "within_tolerance"]

#: Beyond this many nats upper / lower is told as infinite.
_ENDLESS = 700.0


def relative_width(log_lower: Any, log_upper: Any) -> FloatArray:
    """Return upper / lower - 1 from logarithms: infinite where the lower bound is 0, not a number where one is none."""
    lower, upper = np.asarray(log_lower, dtype=np.float64), np.asarray(log_upper, dtype=np.float64)
    # Of equal bounds, which may both be of 0, it is 0.
    gap = np.subtract(upper, lower, out=np.zeros(np.broadcast(lower, upper).shape), where=~(upper <= lower))
    return np.where(gap >= _ENDLESS, np.inf, np.expm1(np.minimum(gap, _ENDLESS)))


def log_floor(study: StudySpec) -> float:
    """Return the natural logarithm of a study's floor."""
    return math.log(study.floor) if study.floor > 0.0 else -math.inf


def within_tolerance(study: StudySpec, log_lower: FloatArray, log_upper: FloatArray) -> BoolArray:
    """Return where stored bounds meet within the tolerance of a study, or the upper one is at most its floor.

    Parameters
    ----------
    study
        The settings; its cells are not looked at.
    log_lower, log_upper : ndarray, shape (.., directions, compositions, epsilon)
        What is not a number is not within.

    Returns
    -------
    ndarray of bool, shape (.., directions, compositions, epsilon)
        Both directions alike where the larger one alone is judged; False where no tolerance is aimed at.
    """
    if study.sought is None:
        return np.zeros(log_upper.shape, dtype=bool)
    lower, upper = log_lower, log_upper
    if study.direction == "both":
        lower, upper = (np.max(side, axis=-3, keepdims=True) for side in (lower, upper))
    with np.errstate(invalid="ignore"):
        met = (relative_width(lower, upper) <= study.sought) | (upper <= log_floor(study))
    return np.array(np.broadcast_to(met & ~np.isnan(lower), log_upper.shape))
