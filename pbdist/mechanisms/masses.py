"""Certified masses: lower and upper values, and where they lie along the privacy loss of a pair."""

import math
from dataclasses import dataclass, replace

import numpy as np

from pbdist.errors import InvalidInputError
from pbdist.types import BoolArray, FloatArray

#: Largest relative error of one correctly rounded float64 operation.
UNIT_ROUNDOFF = 2.0**-53

#: The mass given to what is possible but underflows.
SMALLEST_FLOAT = math.nextafter(0.0, 1.0)

#: Below this a float64 product may lose its relative accuracy to underflow, so a mass is only known to lie between 0
#: and this value.
SMALLEST_MASS = 1e-290

#: Relative errors from here on are refused.
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


@dataclass(frozen=True, eq=False)
class LossMasses:
    """Where the masses of a pair (A, B) lie along the privacy loss L = ln(P_A / P_B), in nats.

    Events are kept in three groups that do not overlap and together hold every event: events spread over bins,
    atoms (events of one known loss, kept apart), and the events that only one of the two distributions has.

    Attributes
    ----------
    bins_a, bins_b : MassBounds, shape (m + 1,)
        P_A and P_B mass of the spread events in the bins (-inf, e_0], (e_0, e_1], .., (e_{m-1}, inf) for the m edges
        asked for.
    atom_loss : ndarray, shape (k,)
        Losses of the atoms, computed values. They are infinite where one of the masses is too faint for a reliable
        loss; that mass is then part of the upper value of `only_a` or `only_b` as well.
    atoms_a, atoms_b : MassBounds, shape (k,)
        Masses of the atoms.
    only_a, only_b : MassBounds, shape (1,)
        P_A mass where P_B is 0, and P_B mass where P_A is 0.
    loss_error : float
        Bound, in nats, on how far outside its bin the exact loss of a spread event may lie, and on the error of
        each `atom_loss`.
    """

    bins_a: MassBounds
    bins_b: MassBounds
    atom_loss: FloatArray
    atoms_a: MassBounds
    atoms_b: MassBounds
    only_a: MassBounds
    only_b: MassBounds
    loss_error: float

    def swapped(self) -> "LossMasses":
        """Masses of the pair (B, A), on the bins whose edges are the negated edges in reversed order."""
        return LossMasses(
            bins_a=self.bins_b.reversed(),
            bins_b=self.bins_a.reversed(),
            atom_loss=-self.atom_loss,
            atoms_a=self.atoms_b,
            atoms_b=self.atoms_a,
            only_a=self.only_b,
            only_b=self.only_a,
            loss_error=self.loss_error,
        )


@dataclass(frozen=True, eq=False)
class ScaledLossMasses:
    """Masses along the privacy loss, each with a factor e^log_scale that float64 need not hold.

    Attributes
    ----------
    masses : LossMasses
        The exact P_A mass of bin i lies between ``exp(log_scale_a[i])`` times its lower and its upper value here;
        likewise P_B and the atoms. The masses that only one distribution has carry no factor.
    log_scale_a, log_scale_b : ndarray, shape (m + 1,)
        Natural logarithms of the factors of the bins: finite, at most 0, exactly the float64 they are. 0 but for
        masses below about 1e-260.
    atoms_log_scale_a, atoms_log_scale_b : ndarray, shape (k,)
        The same for the atoms. An atom whose loss is known keeps it, however faint its masses.
    """

    masses: LossMasses
    log_scale_a: FloatArray
    log_scale_b: FloatArray
    atoms_log_scale_a: FloatArray
    atoms_log_scale_b: FloatArray

    def __post_init__(self) -> None:
        for values in (self.log_scale_a, self.log_scale_b, self.atoms_log_scale_a, self.atoms_log_scale_b):
            values.setflags(write=False)

    @classmethod
    def unscaled(cls, masses: LossMasses) -> "ScaledLossMasses":
        """Masses whose factors are all 1."""
        bins, atoms = np.zeros(masses.bins_a.lower.shape), np.zeros(masses.atoms_a.lower.shape)
        return cls(masses, bins, bins, atoms, atoms)

    def after_empty(self, count: int) -> "ScaledLossMasses":
        """These masses, with `count` bins before the others in which no event lies."""
        before = np.zeros(count)
        masses = replace(
            self.masses,
            bins_a=self.masses.bins_a.preceded_by_empty(count),
            bins_b=self.masses.bins_b.preceded_by_empty(count),
        )
        return replace(
            self,
            masses=masses,
            log_scale_a=np.concatenate((before, self.log_scale_a)),
            log_scale_b=np.concatenate((before, self.log_scale_b)),
        )

    def swapped(self) -> "ScaledLossMasses":
        """Masses of the pair (B, A), on the bins whose edges are the negated edges in reversed order."""
        return ScaledLossMasses(
            masses=self.masses.swapped(),
            log_scale_a=self.log_scale_b[..., ::-1].copy(),
            log_scale_b=self.log_scale_a[..., ::-1].copy(),
            atoms_log_scale_a=self.atoms_log_scale_b,
            atoms_log_scale_b=self.atoms_log_scale_a,
        )


def rounded_up(value: float) -> float:
    """Return an upper bound of a number computed with a few roundings; an infinite one is returned unchanged."""
    return value + 8.0 * UNIT_ROUNDOFF * abs(value) if math.isfinite(value) else value
