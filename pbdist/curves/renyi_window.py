"""Where the bins of a Rényi divergence lie: fine where it comes from."""

import math
from dataclasses import dataclass

import numpy as np

from pbdist.types import FloatArray

__all__ = ["MOST_BINS", "ROUGH_EDGES", "SMALLEST_EDGE", "LossWindow"]

#: Bins of one look at a pair.
MOST_BINS = 1_000_000
#: The smallest edge of a first look.
SMALLEST_EDGE = 1e-13

_ROUGH_SIDE: FloatArray = np.geomspace(SMALLEST_EDGE, 1e10, 1600)
#: Where a first look is taken: edges a thirtieth apart.
ROUGH_EDGES: FloatArray = np.concatenate((-_ROUGH_SIDE[::-1], [0.0], _ROUGH_SIDE))


@dataclass(frozen=True)
class LossWindow:
    """Where the bins lie, and how much finer than planned they are.

    Attributes
    ----------
    low, high
        The outermost edges are -low and high, nats.
    finer
        Divides every width.
    """

    low: float
    high: float
    finer: float = 1.0

    def edges(self, guess: float, alpha: float, tolerance: float) -> FloatArray:
        """Return edges, 0 among them, for a divergence of about `guess`.

        Near 0 the bins are as wide as what a loss of that divergence varies by allows; further out their width grows
        with the loss, as long as e^(α L) does not vary within a bin, or varies little against e^(α guess).
        """
        core = math.sqrt(tolerance * guess / alpha) / self.finer
        widest = max(core, math.sqrt(tolerance) / alpha / self.finer)
        growth = math.sqrt(1.5 * tolerance) / self.finer
        sides = [_side(reach, core, widest, growth) for reach in (self.low, self.high)]
        return np.concatenate((-sides[0][::-1], [0.0], sides[1]))

    def adapted(self, *, longer: bool, deeper: bool, dense: bool) -> "LossWindow":
        """Return the next window: longer above or below where an end is what is missing, finer where bins are."""
        high, low = (side * (1.4 if more else 1.0) for side, more in ((self.high, longer), (self.low, deeper)))
        return LossWindow(low, high, self.finer * (1.0 if (longer or deeper) and not dense else 1.5))


def _side(reach: float, core: float, widest: float, growth: float) -> FloatArray:
    """Return increasing edges from near 0 to `reach`, with the widths of `LossWindow.edges`."""
    parts, last = [], 0.0
    for step, end in ((core, core / growth), (None, widest / growth), (widest, reach)):
        stop = min(end, reach)
        if stop <= last:
            continue
        if step is None:
            count = min(math.ceil(math.log(stop / last) / math.log1p(growth)), MOST_BINS)
            part = last * np.exp(np.linspace(0.0, math.log(stop / last), count + 1)[1:])
        else:
            count = math.ceil(min((stop - last) / step, MOST_BINS))
            part = np.linspace(last, stop, count + 1)[1:]
        parts.append(part)
        last = float(part[-1])
    return np.unique(np.concatenate(parts))
