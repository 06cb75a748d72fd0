"""Where bounds miss the tolerance that was aimed at and why, and a sentence on the widest of them."""

from collections.abc import Iterable, Sequence

import numpy as np

from pbdist.mechanisms import Alternatives, Pair
from pbdist.pld.inversion import LARGEST_EPSILON
from pbdist.results import ENCLOSED, NO_LOWER, relative_width
from pbdist.rounding import rounded_down, rounded_up
from pbdist.table import EpsilonTable
from pbdist.types import BoolArray, FloatArray, IntArray, TextArray

#: Why bounds are wide where no property of the mechanism keeps them apart; and why there is none.
_NOT_FOUND, _UNKNOWN = "closer bounds were not found", "no bound that is known holds so far out"


def _no_closer(pairs: Iterable[Pair]) -> str:
    """Return why bounds stay apart however closely those of each pair are computed; empty text where they need not."""
    known = list(pairs)
    if not all(pair.attained_by_some for pair in known):
        return NO_LOWER
    several = (pair for pair in known if isinstance(pair, Alternatives))
    return ENCLOSED if any(not there for pair in several for _, there in pair.choices) else ""


def why_wide(pairs: Iterable[Pair], within: BoolArray, closest: BoolArray, unknown: BoolArray) -> TextArray:
    """Return why bounds are wider than the tolerance, of the shape of `within`; empty text where they are not.

    `closest` tells where those of the pairs are as close as they were to be, `unknown` where nothing is known.
    """
    pairs = list(pairs)
    why = np.where(closest, _no_closer(pairs) or _NOT_FOUND, _NOT_FOUND)
    found: TextArray = np.where(within, "", np.where(unknown, _no_closer(pairs) or _UNKNOWN, why)).astype(object)
    return found


def delta_missed(
    points: tuple[IntArray, FloatArray],
    bounds: Sequence[FloatArray],
    within: BoolArray,
    why: TextArray,
    tolerance: float,
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
    why : ndarray of str, shape (.., R, E)
        Of `why_wide`.
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
        f" ε = {float(points[1][worst[-1]]):g}: δ is between"
        f" {rounded_down(lower[worst])} and {rounded_up(upper[worst])}"
        f"{_because(str(why[worst]))}"
    )


def _because(why: str) -> str:
    return f"; {why}" if why not in ("", _NOT_FOUND) else ""


def epsilon_within(
    found: EpsilonTable, tolerance: float, pairs: Iterable[Pair]
) -> tuple[BoolArray, TextArray, str | None]:
    """Return where bounds on ε are within the tolerance, why the others are not, and a sentence on the widest of them.

    Both arrays are of shape (2, R, D).
    """
    lower, upper = found.lower, found.upper
    ratio = relative_width(lower, upper)
    # No ε up to the largest one meets δ: nothing is left to be told.
    ratio[(lower >= LARGEST_EPSILON) & np.isinf(upper)] = 0.0
    worst = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    within = np.asarray(ratio <= tolerance)
    computed = lower if found.computed_lower is None else found.computed_lower
    why = why_wide(pairs, within, relative_width(computed, upper) <= tolerance, np.isinf(upper))
    if within.all():
        return within, why, None
    return (
        within,
        why,
        (
            f"tolerance: expected epsilon_upper / epsilon_lower - 1 <= {tolerance:g}, got {ratio[worst]:.3g} at"
            f" r = {int(found.compositions[worst[1]])}, δ = {float(found.delta[worst[2]]):g}:"
            f" ε is between {rounded_down(lower[worst])} and {rounded_up(upper[worst])}"
            f"{_because(str(why[worst]))}"
        ),
    )
