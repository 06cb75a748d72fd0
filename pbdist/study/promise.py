"""Whether stored bounds meet the tolerance of their study, or lie below its floor."""

import math

import numpy as np

from pbdist.results import log_relative_width
from pbdist.study.spec import StudySpec
from pbdist.types import BoolArray, FloatArray

__all__ = ["log_floor", "within_tolerance"]


def log_floor(study: StudySpec) -> float:
    """Return the natural logarithm of a study's floor."""
    return math.log(study.floor) if study.floor > 0.0 else -math.inf


def within_tolerance(study: StudySpec, log_lower: FloatArray, log_upper: FloatArray) -> BoolArray:
    """Return where stored bounds meet within the tolerance of a study, or the upper one is at most its floor.

    Parameters
    ----------
    study
        Its tolerance, floor and direction count; its cells do not.
    log_lower, log_upper : ndarray, shape (.., directions, compositions, epsilon)
        NaN is not within.

    Returns
    -------
    ndarray of bool, shape (.., directions, compositions, epsilon)
        Where the study judges the larger direction alone, the same for both; False where it has no tolerance.
    """
    if study.sought is None:
        return np.zeros(log_upper.shape, dtype=bool)
    lower, upper = log_lower, log_upper
    if study.direction == "both":
        lower, upper = (np.max(side, axis=-3, keepdims=True) for side in (lower, upper))
    with np.errstate(invalid="ignore"):
        met = (log_relative_width(lower, upper) <= study.sought) | (upper <= log_floor(study))
    return np.array(np.broadcast_to(met & ~np.isnan(lower), log_upper.shape))
