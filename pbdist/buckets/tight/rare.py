"""Rare losses far above all others: where they begin, and a pair without them."""

import math
from dataclasses import dataclass, replace

import numpy as np

from pbdist.mechanisms import ElementaryPair, LossMasses, MassBounds, ScaledLossMasses
from pbdist.pld.profile import LossProfile
from pbdist.types import BoolArray, Direction, FloatArray

__all__ = ["NearOutcomes", "first_far_loss", "is_far"]

#: A gap of so many standard deviations tells far losses from the others, if it is among so many of the largest losses.
_GAP, _MOST_FAR = 8.0, 64
#: Logarithm of the largest mass that they may have.
_LARGEST_RARE = -7.0


def first_far_loss(profile: LossProfile) -> float:
    """Return a loss between the rare ones far above all others, single outcomes, and these; infinite if there is none.

    Any value is sound.
    """
    loss = profile.loss[-_MOST_FAR:]
    if loss.size < 2 or not math.isfinite(float(loss[-1])):
        return math.inf
    gaps = np.diff(loss)
    place = int(np.argmax(gaps))
    above = slice(profile.loss.size - loss.size + place + 1, None)
    single = bool(np.all(profile.lower[above] == profile.upper[above]))
    rare = float(np.logaddexp.reduce(profile.log_a[above])) < _LARGEST_RARE
    deviation = math.sqrt(profile.cumulant(0.0)[2])
    if not single or not rare or float(gaps[place]) <= _GAP * deviation or float(loss[place + 1]) <= 0.0:
        return math.inf
    return 0.5 * float(loss[place] + loss[place + 1])


@dataclass(frozen=True)
class NearOutcomes(ElementaryPair):
    """A pair without its atoms of losses above `far`, in one direction: the (A, B) or the (B, A) of a pair.

    Parameters
    ----------
    pair : ElementaryPair
    far : float
        Nats.
    far_mass : float
        About the P_A mass that is missing.
    """

    pair: ElementaryPair
    far: float
    far_mass: float

    @property
    def outcomes(self) -> int:
        """Those of the pair."""
        return self.pair.outcomes

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Masses of (A, B)."""
        return self.scaled_loss_masses(edges).masses

    def scaled_loss_masses(self, edges: FloatArray, direction: Direction = Direction.A_TO_B) -> ScaledLossMasses:
        """Masses in the direction asked for, the far atoms dropped."""
        masses = self.pair.scaled_loss_masses(edges, direction)
        return _chosen(masses, ~is_far(masses, self.far))

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:
        """That of the pair, which bounds that of its part."""
        return self.pair.log_tail_moment(tilt, loss, direction)

    def rough_log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:
        """That of the pair, which bounds that of its part."""
        return self.pair.rough_log_tail_moment(tilt, loss, direction)


def is_far(masses: ScaledLossMasses, far: float) -> BoolArray:
    """Which atoms are far: of a finite computed loss above `far`."""
    loss = masses.masses.atom_loss
    return (loss > far) & (loss < np.inf)


def _chosen(masses: ScaledLossMasses, kept: BoolArray) -> ScaledLossMasses:
    """Keep some of the atoms."""
    plain = masses.masses
    if np.all(kept):
        return masses
    return replace(
        masses,
        masses=replace(
            plain,
            atom_loss=plain.atom_loss[kept],
            atoms_a=MassBounds(plain.atoms_a.lower[kept], plain.atoms_a.upper[kept]),
            atoms_b=MassBounds(plain.atoms_b.lower[kept], plain.atoms_b.upper[kept]),
        ),
        atoms_log_scale_a=masses.atoms_log_scale_a[kept],
        atoms_log_scale_b=masses.atoms_log_scale_b[kept],
    )
