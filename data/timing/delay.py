"""The random delay of an answer: a discrete Gaussian, cut at six scales, that is drawn exactly as it is defined."""

import math
import secrets
from bisect import bisect_right
from itertools import accumulate

__all__ = ["REACH", "UNIT_NS", "GaussianDelay", "is_log_concave"]

#: One unit of delay is 10 µs.
UNIT_NS = 10_000
#: The delay is cut at so many scales on either side of its mean.
REACH = 6
#: The largest weight is 2 to this power. Each is exact to 53 bits, so that rounding leaves the sequence log-concave.
_WEIGHT_BITS = 100


class GaussianDelay:
    """A delay of 0 to 12 scales, in units: bell-shaped, with the mean at 6 scales.

    Its distribution is *defined* by whole numbers, one weight for each delay, close to e^(-k² / (2 scale²)) with k the
    distance from the mean. `draw` draws from these weights exactly, with the random source of the operating system.

    Parameters
    ----------
    scale : int
        The scale, in units.
    """

    def __init__(self, scale: int) -> None:
        if scale < 1:
            raise ValueError(f"scale: expected a whole number of at least 1, got {scale}")
        self.scale = scale
        reach = REACH * scale
        side = [int(math.ldexp(math.exp(-k * k / (2 * scale * scale)), _WEIGHT_BITS)) for k in range(reach + 1)]
        self.weights = [*side[:0:-1], *side]
        self._until = list(accumulate(self.weights))

    @property
    def mean(self) -> int:
        """The mean delay, in units."""
        return REACH * self.scale

    def draw(self) -> int:
        """Return a fresh delay, in units."""
        return bisect_right(self._until, secrets.randbelow(self._until[-1]))


def is_log_concave(weights: list[int]) -> bool:
    """Whether every weight is above 0 and its square at least the product of its neighbours, in whole numbers."""
    inner = zip(weights, weights[1:], weights[2:], strict=False)
    return min(weights) > 0 and all(middle * middle >= left * right for left, middle, right in inner)
