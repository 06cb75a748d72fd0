"""Bounds through enclosures: coarse ones first, then as fine as the tolerance takes.

All bounds that were computed hold, so the best of each is kept. Which fineness is tried costs time alone.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pbdist.enclosures.enclose import Fineness, enclosed_counts
from pbdist.mechanisms import ElementaryPair
from pbdist.types import FloatArray

#: After so many finer enclosures that bring nothing no more are tried.
_IDLE = 2
#: Enclosures that are tried; resolutions, relative to what the tolerance takes: of the first one, at most, of all.
_ATTEMPTS, _RESOLUTION, _FIRST, _FINEST = 5, 2.5, 80.0, 10000.0
#: About by how much, times the square of the resolution, bounds are apart by the enclosure alone.
_APART = 1.0
#: Where between its bounds ln δ mostly is: splits add about 4/3 of the variance that cells take away.
USUAL_PART = 0.43
#: The first resolution where a δ is to be decided by bounds that narrow, relative to 1 / √tolerance: likely to do.
_OF_DECIDING = 1.2
#: Part of the tolerance that a finer enclosure aims at, and by what factors it is finer.
_AIM, _LEAST, _MOST = 0.6, 1.3, 24.0
#: Part of the tolerance that lost mass may take of the smallest δ, which is first taken to be no smaller than this.
_OF_LOST, _USUAL_DELTA = 0.03, 1e-10
#: Part of the δ that matters from which on a δ is told as well.
_TOLD = 0.5
#: Part of it below which bounds need not be close.
_BELOW = 0.02
#: No mass smaller than this is told from none.
_LEAST_LOST = 1e-130


@dataclass(frozen=True)
class Asked:
    """What bounds are for.

    Attributes
    ----------
    tolerance : float
        Relative width that is aimed at.
    floor : float
        A δ below which none is aimed at.
    leaves : int
        Enclosed pairs in all rounds.
    decides : float, optional
        A δ from which δ need only be told.
    """

    tolerance: float
    floor: float
    leaves: int
    decides: float | None = None

    def fineness(self, resolution: float, delta: float) -> Fineness:
        """The fineness for a δ of that size."""
        matters = max(max(delta, self.floor) / self.leaves, _LEAST_LOST)
        return Fineness(resolution, max(_OF_LOST * self.tolerance * matters, _LEAST_LOST), matters)


@dataclass(frozen=True)
class Aim:
    """What bounds through an enclosure can be expected to reach: no more need be aimed at.

    Attributes
    ----------
    tolerance : float
        Relative width.
    floor : float
        A δ below which they are not close.
    """

    tolerance: float
    floor: float


@dataclass(frozen=True, eq=False)
class Found:
    """Bounds, whatever of, of one shape.

    Attributes
    ----------
    lower, upper : ndarray
    width : ndarray
        Their relative distance, 0 where nothing closer is aimed at, infinite where nothing is known from below.
    delta : ndarray
        δ at each, from below.
    """

    lower: FloatArray
    upper: FloatArray
    width: FloatArray
    delta: FloatArray


def refined(
    counts: Mapping[ElementaryPair, int],
    asked: Asked,
    solve: Callable[[Mapping[ElementaryPair, int], Aim, Found | None], Found],
) -> tuple[Mapping[ElementaryPair, int], Found]:
    """Let bounds be computed with finer and finer enclosures; return the last ones, and the bounds.

    Parameters
    ----------
    counts : mapping of ElementaryPair to int
        What one round consists of.
    asked : Asked
    solve : callable
        Computes bounds from enclosures, as closely as the aim says, with the best ones so far, which it keeps where
        they are better.

    Returns
    -------
    (mapping of ElementaryPair to int, Found)
        The enclosures with which bounds met the tolerance, or the finest ones.
    """
    wanted = _RESOLUTION / math.sqrt(asked.tolerance)
    first = _FIRST if asked.decides is None else max(_FIRST, _OF_DECIDING / math.sqrt(asked.tolerance))
    fineness = asked.fineness(min(wanted, first, _FINEST), asked.decides or _USUAL_DELTA)
    found: Found | None = None
    attempt = idle = 0
    while True:
        attempt += 1
        enclosures = enclosed_counts(counts, fineness)
        tolerance = max(asked.tolerance, 2.0 * _APART / fineness.resolution**2)
        before = found
        found = solve(enclosures, Aim(tolerance, max(asked.floor, _BELOW * fineness.matters * asked.leaves)), found)
        finer = _finer(fineness, found, asked)
        idle = 0 if before is None or _gains(before, found) else idle + 1
        if finer == fineness or attempt == _ATTEMPTS or idle == _IDLE:
            return enclosures, found
        fineness = finer


def _gains(before: Found, found: Found) -> bool:
    """Whether bounds of which nothing is known have become fewer, or known ones closer."""
    unknown, known = np.isinf(found.width), np.isfinite(found.width)
    return bool((unknown < np.isinf(before.width)).any() or (found.width[known] < before.width[known]).any())


def kept_fineness(asked: Asked) -> Fineness:
    """Return the fineness for states that are to be kept, whose bounds are looked at everywhere."""
    return asked.fineness(min(2.0 * _RESOLUTION / math.sqrt(asked.tolerance), _FINEST), asked.floor)


def _finer(fineness: Fineness, found: Found, asked: Asked) -> Fineness:
    """Return a fineness with which bounds may be closer; the same where they are close, or none is finer."""
    missed = found.width > asked.tolerance
    if not missed.any():
        return fineness
    smallest = float(np.min(found.delta[missed]))
    # Where much is lost, or too small a δ matters, that is why bounds are apart.
    told = missed & np.isfinite(found.width) & (found.delta >= _TOLD * asked.leaves * fineness.matters)
    resolution = fineness.resolution
    if told.any() or asked.fineness(resolution, smallest).matters >= fineness.matters:
        widest = float(np.max(found.width[told], initial=_APART / resolution**2))
        factor = min(max(math.sqrt(widest / (_AIM * asked.tolerance)), _LEAST), _MOST)
        resolution = min(resolution * factor, _FINEST)
    finer = asked.fineness(resolution, smallest)
    return fineness if resolution == fineness.resolution and finer.matters > _TOLD * fineness.matters else finer
