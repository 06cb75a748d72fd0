"""The masses of a pair along the privacy loss: bins, atoms and what only one distribution has."""

from dataclasses import dataclass

import numpy as np

from pbdist.mechanisms.rounding import MassBounds
from pbdist.types import FloatArray

__all__ = ["LossMasses", "ScaledLossMasses"]


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

    def swapped(self) -> "ScaledLossMasses":
        """Masses of the pair (B, A), on the bins whose edges are the negated edges in reversed order."""
        return ScaledLossMasses(
            masses=self.masses.swapped(),
            log_scale_a=self.log_scale_b[..., ::-1].copy(),
            log_scale_b=self.log_scale_a[..., ::-1].copy(),
            atoms_log_scale_a=self.atoms_log_scale_b,
            atoms_log_scale_b=self.atoms_log_scale_a,
        )
