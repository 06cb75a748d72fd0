"""Whether the curves of a panel agree: our bounds never exceed those of earlier work, and never lie apart from them."""

from collections.abc import Iterable, Iterator
from itertools import product

import numpy as np

from pbdist.report.figures.curves import CurvePoints
from pbdist.report.figures.figure import LOSSES, PROBABILITY, Figure

#: Relative slack for values of theorems that are known to nine digits.
_DIGITS = 1e-9


def contradictions(figure: Figure, points: Iterable[CurvePoints]) -> Iterator[str]:
    """Yield a sentence for each curve that contradicts ours of the same mechanism in the same panel.

    A valid bound is at least our lower bound; ours is at most any valid one, but for the figure's tolerance where its
    δ exceeds the floor. Approximations are not judged: they may well be refuted.
    """
    if figure.shows == PROBABILITY:
        return
    found = list(points)
    ours = [one for one in found if one.curve.certified]
    others = [one for one in found if not one.curve.certified and not one.approximate]
    for mine, other in product(ours, others):
        same = mine.panel is other.panel and mine.curve.pair == other.curve.pair
        if same and mine.curve.delta == other.curve.delta:
            yield from _compared(figure, mine, other)


def _compared(figure: Figure, mine: CurvePoints, other: CurvePoints) -> Iterator[str]:
    # A single point lies between ours: what is shown does not rise with ε there.
    left = np.searchsorted(mine.x, other.x, side="right") - 1
    right = np.searchsorted(mine.x, other.x, side="left")
    inside = (left >= 0) & (right < mine.x.size)
    lower, upper = mine.lower[right[inside]], mine.upper[left[inside]]
    theirs, x = other.upper[inside], other.x[inside]
    refuted = lower > theirs * (1.0 + _DIGITS)
    slack = (figure.tolerance if figure.method == "tight" else np.inf) + _DIGITS
    # Beyond the largest ε of the figure ours is not sought.
    sought = np.inf
    if figure.shows in LOSSES and figure.largest is not None:
        sought = np.exp(figure.largest) if figure.shows == "exp_epsilon" else figure.largest
    looser = (upper > theirs * (1.0 + slack)) & (upper > figure.floor) & np.isfinite(theirs) & (theirs <= sought)
    where = f"{figure.name}, {mine.panel.title or 'its panel'}"
    for wrong, text in ((refuted, "lies below the lower bound of"), (looser, "lies below the upper bound of")):
        if wrong.any():
            at = float(x[wrong][0])
            yield f"{where}: {other.curve.label!r} {text} {mine.curve.label!r} at {figure.over} {at:g}"
