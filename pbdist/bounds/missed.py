"""Where bounds miss the tolerance that was aimed at, and a sentence on the widest of them."""

from collections.abc import Sequence

import numpy as np

from pbdist.pld.inversion import LARGEST_EPSILON
from pbdist.results import relative_width
from pbdist.table import EpsilonTable
from pbdist.types import BoolArray, FloatArray, IntArray

__all__ = ["delta_missed", "epsilon_within"]


def delta_missed(
    points: tuple[IntArray, FloatArray], bounds: Sequence[FloatArray], within: BoolArray, tolerance: float
) -> str | None:
    """Return in a sentence how many bounds on δ miss the tolerance, and which are the widest; None for none.

    Parameters
    ----------
    points : (ndarray, ndarray)
        Numbers of compositions, shape (R,), and ε, shape (E,).
    bounds : sequence of four ndarray, shape (.., R, E)
        Lower and upper bounds on δ, and on its logarithm.
    within : ndarray of bool, shape (.., R, E)
        Which do not miss it.
    tolerance : float
    """
    if within.all():
        return None
    lower, upper, log_lower, log_upper = bounds
    with np.errstate(invalid="ignore"):
        gap = np.where(within, -1.0, np.where(log_lower > -np.inf, log_upper - log_lower, np.inf))
    worst = np.unravel_index(int(np.argmax(gap)), gap.shape)
    return (
        f"tolerance: expected delta_upper / delta_lower - 1 <= {tolerance:g}, missed at"
        f" {int(np.count_nonzero(~within))} of {within.size} points, most at r = {int(points[0][worst[-2]])},"
        f" ε = {float(points[1][worst[-1]]):g}: δ is between {lower[worst]:.6g} and {upper[worst]:.6g}"
    )


def epsilon_within(found: EpsilonTable, tolerance: float) -> tuple[BoolArray, str | None]:
    """Return where bounds on ε are within the tolerance, shape (2, R, D), and a sentence on the widest that are not."""
    lower = found.lower if found.computed_lower is None else found.computed_lower
    upper = found.upper
    ratio = relative_width(lower, upper)
    # No ε up to the largest one meets δ: nothing is left to be told.
    ratio[lower >= LARGEST_EPSILON] = 0.0
    worst = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    within = np.asarray(ratio <= tolerance)
    if within.all():
        return within, None
    return within, (
        f"tolerance: expected epsilon_upper / epsilon_lower - 1 <= {tolerance:g}, got {ratio[worst]:.3g} at"
        f" r = {int(found.compositions[worst[1]])}, δ = {float(found.delta[worst[2]]):g}:"
        f" ε is between {lower[worst]:.6g} and {upper[worst]:.6g}"
    )
