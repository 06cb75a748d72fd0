"""The privacy of one round from above: δ of a pair at every ε, from its exact masses on bins."""

import math

import numpy as np

from pbdist.mechanisms import Pair
from pbdist.pld.closed_form import log_delta_above
from pbdist.table import bounds_table
from pbdist.types import Direction, FloatArray

#: ε of a round at which its δ is first looked at, nats.
_PROBES: FloatArray = np.geomspace(1e-9, 1e4, 261)
#: Below this many nats a δ of one round makes no difference to that of any number of rounds that is computed here.
_FAINT = -230.0
#: Parts into which the interval is cut in which the largest loss lies, and how often.
_PARTS, _CUTS = 17, 12


class RoundPrivacy:
    """δ(ε) of one pair, the larger of the two directions, from above.

    Attributes
    ----------
    pair : Pair
    largest : float
        ε from which on δ falls no more, or is below 1e-100; nats.
    """

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self._farthest = math.inf
        self.largest = self._largest()
        self._farthest = 2.0 * self.largest

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Return natural logarithms of upper bounds on δ at ε >= 0, shape (E,); -inf where δ is 0."""
        # δ does not rise with ε; far beyond all losses nothing is to be told apart.
        distinct, inverse = np.unique(np.minimum(epsilon, self._farthest), return_inverse=True)
        if len(self.pair.factors) > 1:
            return _composed(self.pair, distinct)[inverse]
        factor = self.pair.factors[0]
        sides = (Direction.A_TO_B,) if factor.symmetric else tuple(Direction)
        return np.max([log_delta_above(factor, distinct, side) for side in sides], axis=0)[inverse]  # type: ignore[no-any-return]

    def grid(self, parts: int) -> FloatArray:
        """Return ε from a thousandth of the largest loss up to it, denser towards it, increasing."""
        upper = 1.0 - np.geomspace(1e-9, 0.5, parts // 2)[::-1]
        return self.largest * np.unique(np.concatenate((np.geomspace(1e-3, 0.5, parts // 2), upper, [1.0])))

    def _largest(self) -> float:
        """Return the first ε known at which δ is not above its last value; no bound depends on it."""
        probes, high = _PROBES, math.inf
        for _ in range(_CUTS):
            values = np.maximum(self.log_delta(probes), _FAINT)
            last = max(float(values[-1]), _FAINT)
            first = int(np.argmax(values <= last + 1e-12))
            if first == 0 or len(self.pair.factors) > 1:
                return float(probes[first])
            if float(probes[first]) > high:
                # Rounding decides between probes that are so close.
                break
            low, high = float(probes[first - 1]), float(probes[first])
            if high <= low * (1.0 + 1e-14):
                break
            inner = np.linspace(low, high, _PARTS)
            probes = np.unique(np.append(inner, _PROBES[-1]))
        return high


def _composed(pair: Pair, epsilon: FloatArray) -> FloatArray:
    """Return upper bounds on ln δ of a product of pairs."""
    table = bounds_table(
        [(pair, 1)], compositions=1, epsilon=epsilon, strict=False, joint_directions=True, tolerance=1e-4
    )
    return np.asarray(table.log_delta_upper[:, 0].max(axis=0))
