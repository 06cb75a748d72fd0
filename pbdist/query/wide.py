"""Which answers are wider than the tolerance of a study, and how that is told: never a silent wide answer."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pbdist.errors import InvalidInputError, PrecisionError, PrecisionWarning
from pbdist.study import StudySpec
from pbdist.study.spec import log_floor, relative_width
from pbdist.types import BoolArray, FloatArray

__all__ = ["BETWEEN", "TOO_FAR", "between", "check_strict", "delta_within", "missed_by", "ratio_of", "tell"]

#: Why an answer on δ is wide that is not stored, and one on ε or r; and what can be done about it.
BETWEEN = "it lies between stored points: refine=True (pbdist query --refine) computes it"
TOO_FAR = "the stored points lie too far from it: refine=True (pbdist query --refine) computes closer ones"


def check_strict(study: StudySpec, strict: bool) -> None:
    """Refuse to ask for a tolerance that there is none of.

    Raises
    ------
    InvalidInputError
        The study has none.
    """
    if strict and study.sought is None:
        instead = "method buckets" if study.method == "buckets" else "a number of buckets"
        raise InvalidInputError(f"strict: expected a study with a tolerance, got one with {instead}")


def delta_within(
    study: StudySpec, log_lower: FloatArray, log_upper: FloatArray, stored: BoolArray
) -> tuple[BoolArray, FloatArray] | None:
    """Return where answers on δ are within the tolerance, and upper / lower - 1; None where no tolerance is aimed at.

    Parameters
    ----------
    study
        The settings.
    log_lower, log_upper : ndarray, shape (directions, n) or (n,)
        The answers, of each direction or of the larger one.
    stored : ndarray of bool, shape (2, n)
        Which of them the store says are within; it may know that no better is to be had.
    """
    if study.sought is None:
        return None
    width = relative_width(log_lower, log_upper)
    if log_lower.ndim == 1:
        known = stored.all(axis=0)
    elif study.direction == "each":
        known = stored
    else:
        # Where the larger direction was judged, nothing is said of the other one, unless no better is to be had.
        known = stored & (log_lower.max(axis=0) == -np.inf)
    return (width <= study.sought) | (log_upper <= log_floor(study)) | known, width


def ratio_of(lower: Any, upper: Any) -> FloatArray:
    """Return upper / lower - 1: 0 where they are equal, infinite where the lower one is 0 or the upper one infinite."""
    low, high = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    open_ = high > low
    with np.errstate(over="ignore"):
        ratio = np.divide(high, low, out=np.full(high.shape, np.inf), where=open_ & (low > 0.0)) - 1.0
    return np.where(open_, ratio, 0.0)


def between(name: str, lower: float, upper: float) -> str:
    """Return in words what is known of a quantity."""
    return f"{name} is between {lower:.6g} and {upper:.6g}"


def missed_by(
    missed: BoolArray, width: FloatArray, study: StudySpec, what: str, worst: Callable[[tuple[int, ...]], str]
) -> str | None:
    """Return in a sentence how many answers are wider than the tolerance, and which is the widest; None where none is.

    Parameters
    ----------
    missed
        Which are.
    width
        How wide each is, of the same shape.
    study
        Whose tolerance it is.
    what
        What is to be at most the tolerance.
    worst
        Returns what is known of the answer at a place, and why.
    """
    if not missed.any():
        return None
    place = tuple(int(at) for at in np.unravel_index(int(np.argmax(np.where(missed, width, -1.0))), missed.shape))
    count = int(np.count_nonzero(missed))
    by = "the answer" if missed.size == 1 else f"{count:,} of {missed.size:,} answers, most"
    return f"tolerance: expected {what} <= {study.sought:g}, missed by {by} at {worst(place)}"


def tell(missed: str | None, *, strict: bool, depth: int = 3) -> None:
    """Warn of answers that are wide whoever called the caller of this (`depth` 3), or with `strict` refuse them.

    Raises
    ------
    PrecisionError
        If `strict`, and some are.
    """
    if missed is None:
        return
    if strict:
        raise PrecisionError(missed)
    warnings.warn(missed, PrecisionWarning, stacklevel=depth)
