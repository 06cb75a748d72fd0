"""Masses with certified lower and upper values.

Every mass that leaves a mechanism is a pair of float64 arrays that enclose the exact mass. The factors by which they
are moved apart are stated where the mass is computed; this module owns the arithmetic that applies them.
"""

from dataclasses import dataclass

import numpy as np

from pbdist.errors import InvalidInputError
from pbdist.types import BoolArray, FloatArray

__all__ = ["SMALLEST_MASS", "UNIT_ROUNDOFF", "MassBounds"]

#: Largest relative error of one correctly rounded float64 operation.
UNIT_ROUNDOFF = 2.0**-53

#: Below this a float64 product may lose its relative accuracy to underflow, so a mass is only known to lie between 0
#: and this value.
SMALLEST_MASS = 1e-290

#: Relative errors from here on are refused: nothing is left of the mass.
_LARGEST_ERROR = 0.25


@dataclass(frozen=True, eq=False)
class MassBounds:
    """Lower and upper values of exact masses.

    Attributes
    ----------
    lower, upper : ndarray of float64, same shape
        ``0 <= lower <= exact mass <= upper``, elementwise; read-only.
    """

    lower: FloatArray
    upper: FloatArray

    def __post_init__(self) -> None:
        for values in (self.lower, self.upper):
            values.setflags(write=False)

    @classmethod
    def around(
        cls,
        values: FloatArray | float,
        relative_error: FloatArray | float,
        *,
        occupied: BoolArray | bool = True,
    ) -> "MassBounds":
        """Enclose computed masses whose relative error is bounded.

        Parameters
        ----------
        values : array_like
            Computed masses, non-negative.
        relative_error : array_like
            Bound on ``|values - exact| / exact`` wherever the exact mass is at least `SMALLEST_MASS`; below 1/4.
        occupied : array_like of bool
            False where no event lies, so that the exact mass is 0; elsewhere a computed mass below `SMALLEST_MASS`
            is taken as anything between 0 and ``2 * SMALLEST_MASS``.

        Notes
        -----
        Where v and m differ by at most ρ m, the exact m lies between v / (1 + ρ) and v / (1 - ρ), hence between
        v (1 - σ) and v / (1 - σ) for σ = ρ + 4u, which also pays for the roundings of σ, 1 - σ, product and quotient.
        """
        computed = np.atleast_1d(np.asarray(values, dtype=np.float64))
        slack = np.asarray(relative_error, dtype=np.float64) + 4.0 * UNIT_ROUNDOFF
        resolved = bool(np.max(slack, initial=0.0) < _LARGEST_ERROR)
        if resolved and np.min(computed, initial=np.inf) >= SMALLEST_MASS and occupied is True:
            keep = 1.0 - slack
            return cls(computed * keep, computed / keep)
        tiny = ~(computed >= SMALLEST_MASS)
        if not resolved and np.any(~tiny & ~(slack < _LARGEST_ERROR)):
            raise InvalidInputError(
                "mechanism: expected parameters whose masses float64 resolves, got more extreme ones"
            )
        keep = 1.0 - np.minimum(slack, _LARGEST_ERROR)
        lower, upper = computed * keep, computed / keep
        lower[tiny] = 0.0
        upper[tiny] = 2.0 * SMALLEST_MASS
        if occupied is not True:
            empty = ~np.broadcast_to(np.asarray(occupied, dtype=bool), computed.shape)
            lower[empty] = 0.0
            upper[empty] = 0.0
        return cls(lower, upper)

    @classmethod
    def zeros(cls, size: int) -> "MassBounds":
        """Masses that are exactly 0."""
        return cls(np.zeros(size), np.zeros(size))

    def row(self, index: int) -> "MassBounds":
        """One row of stacked masses."""
        return MassBounds(self.lower[index], self.upper[index])

    def reversed(self) -> "MassBounds":
        """The same masses in reversed order."""
        return MassBounds(self.lower[..., ::-1].copy(), self.upper[..., ::-1].copy())

    def preceded_by_empty(self, count: int) -> "MassBounds":
        """These masses, after `count` that are exactly 0."""
        return MassBounds.zeros(count).joined(self) if count else self

    def joined(self, other: "MassBounds") -> "MassBounds":
        """These masses, followed by others."""
        return MassBounds(np.concatenate((self.lower, other.lower)), np.concatenate((self.upper, other.upper)))
