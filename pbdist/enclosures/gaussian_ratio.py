"""The likelihood ratio of one step of Gaussian noise on a grid: split to its points from above, and gathered in cells.

With z standard normal under B and of mean μ under A, the ratio is Y = exp(μ z - μ²/2). A larger μ dominates a smaller
one (Theorem 11 of ``docs/theory.md``), so that μ is rounded up for what dominates, and down for what is dominated.
"""

import math
from dataclasses import dataclass

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, MassBounds
from pbdist.mechanisms.masses import gaussian_interval
from pbdist.types import FloatArray

_U = UNIT_ROUNDOFF
#: Masses known better than this are split as they are, and their ratios taken to be off by as much; ratios of the
#: others, which are rare, are split from rounded masses, at the cost of adding to them.
_KNOWN = 1e-13


@dataclass(frozen=True, eq=False)
class Split:
    """What dominates one step."""

    #: P_B masses at the points of a grid, from above. P_A masses are these times the points. Shape (n,).
    masses: FloatArray
    #: P_A mass of an infinite ratio, from above.
    infinite: float
    #: The pair dominates one whose P_A is that of the step up to the factor e^±shift, event by event.
    shift: float


@dataclass(frozen=True)
class GaussianRatio:
    """The likelihood ratio P_A / P_B of one step, N(sensitivity, scale²) to N(0, scale²), as a random number."""

    scale: float
    sensitivity: float

    def split(self, grid: FloatArray) -> Split:
        """Split the ratio to the points of a grid that begins at 0 (Theorem 34 of docs/theory.md).

        What lies above its last point becomes infinite.
        """
        ratio = self.sensitivity / self.scale * (1.0 + 2.0 * _U)
        ends = self._ends(grid[1:], ratio)
        a, b, error = self._masses(ends, ratio)
        known = error <= _KNOWN
        shift = 3.0 * float(np.max(error[known], initial=0.0)) + 16.0 * _U
        # Between two points of a gap g, (a - y b) / g goes to the upper one: of rounded masses, to both as much more.
        gaps, lower, upper, whole = np.diff(grid), grid[:-1], grid[1:], b.upper[:-1]
        up = np.clip((a.upper[:-1] - lower * whole) / gaps, 0.0, whole)
        down = whole - up
        most_up = _share(a.upper[:-1], lower * b.lower[:-1], gaps, whole)
        most_down = _share(upper * whole, a.lower[:-1], gaps, whole)
        masses = np.zeros(grid.size)
        masses[:-1] += np.where(known[:-1], down, most_down)
        masses[1:] += np.where(known[:-1], up, most_up)
        masses[-1] += b.upper[-1]
        beyond = self._misplaced(grid, ends, ratio, shift)
        masses[1:] += beyond
        masses[:-1] += beyond
        masses[2:] += beyond[:-1]
        infinite = max(float(a.upper[-1]) - float(grid[-1] * b.lower[-1]) * (1.0 - 4.0 * _U), 0.0)
        infinite += float(beyond[-1]) * float(grid[-1])
        return Split(masses * (1.0 + 16.0 * _U), infinite * (1.0 + 16.0 * _U), shift)

    def cells(self, grid: FloatArray) -> tuple[MassBounds, MassBounds]:
        """Masses of A and of B in disjoint cells that together hold all, cut between neighbouring points."""
        ratio = self.sensitivity / self.scale * (1.0 - 2.0 * _U)
        a, b, _ = self._masses(self._ends(0.5 * (grid[:-1] + grid[1:]), ratio), ratio)
        return a, b

    def _ends(self, values: FloatArray, ratio: float) -> FloatArray:
        """Return where the ratio has some values, about."""
        return np.asarray(np.log(values) / ratio + 0.5 * ratio)

    def _masses(self, ends: FloatArray, ratio: float) -> tuple[MassBounds, MassBounds, FloatArray]:
        """Masses of A and B between ends, and the sum of how well they are known relatively."""
        low, high = np.append(-np.inf, ends), np.append(ends, np.inf)
        mass, error, _ = gaussian_interval(low, high, 1.0, np.array([[ratio], [0.0]]))
        both = MassBounds.around(mass, error)
        known = np.where(both.lower.min(axis=0) > 0.0, error.sum(axis=0) + 16.0 * _U, np.inf)
        return both.row(0), both.row(1), known

    def _misplaced(self, grid: FloatArray, ends: FloatArray, ratio: float, shift: float) -> FloatArray:
        """By how much ends that are off can move the masses of points beside them, for each point but the first.

        An end z is off by less than `off`, and ratios by `shift`. The P_B mass off · φ lies on the wrong side of the
        point, and is split wrongly by the part that ratio · off · point is of the gaps beside it.
        """
        off = (16.0 * np.abs(np.log(grid[1:])) / ratio + 4.0 * ratio + 4.0 * np.abs(ends)) * _U + 1.01 * shift / ratio
        nearest = np.maximum(np.abs(ends) - off, 0.0)
        mass = off * np.exp(-0.5 * nearest * nearest) * (1.0 + 1e-6)
        gaps = np.diff(grid)
        narrower = np.minimum(gaps, np.append(gaps[1:], math.inf))
        wrong = 1.01 * ratio * off * grid[1:] / narrower
        return np.asarray(2.0 * wrong * mass + 1e-300)


def _share(larger: FloatArray, smaller: FloatArray, gaps: FloatArray, most: FloatArray) -> FloatArray:
    """Return (larger - smaller) / gap from above, at least 0 and at most all that there is."""
    up, down = 1.0 + 4.0 * _U, 1.0 - 4.0 * _U
    return np.asarray(np.minimum(np.maximum(larger * up - smaller * down, 0.0) / gaps * up, most * up))
