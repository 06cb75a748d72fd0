r"""Masses of a pair on lattices of losses: what the ladder composes.

Two kinds of rows, each on a lattice of spacing h with places k:

*Dominating masses* u >= √(a* b*). There is a pair (A*, B*) of measures on the losses ℓ = k h of one or two lattices,
on +∞ (A* alone) and on -∞ (B* alone), of which a pair (A, B'') is a post-processing, e^-η B <= B'' <= e^η B, η =
`shift`. Kept are at least u = a* e^{-ℓ/2} = b* e^{ℓ/2}, element by element, and at least the masses at ±∞. All that
is read from them rises with them, in both directions.

*Exact masses* of disjoint events of (A, B): `own`, at most P_A(event) e^{-λ/2}, and `other`, at least P_B(event)
e^{λ/2}, where λ = k h + `label` is a name of the event and no loss; events that are left out have no mass in either.
They tell of the direction A||B; those of B||A are kept in a frame of their own, A and B swapped.

Under the factors e^{-ℓ/2} and e^{ℓ/2} both directions look alike, and losses of hundreds of nats stay floats.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from pbdist.pld.lattice import Dominating, Exact
from pbdist.types import Direction

__all__ = ["Masses", "PairState"]

Row = TypeVar("Row", Dominating, Exact)


@dataclass(frozen=True, eq=False)
class Masses(Generic[Row]):
    """Masses of one kind.

    Attributes
    ----------
    core : Dominating or Exact
    far : the same, or None
        Rarer outcomes, on a lattice that is a power of two times as coarse.
    infinite : (float, float)
        Of dominating masses those of A* at +∞ and of B* at -∞; of exact ones P_A from below and P_B from above of one
        more event, whose losses lie above the lattices.
    """

    core: Row
    far: Row | None
    infinite: tuple[float, float]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The lattices that there are."""
        return (self.core,) if self.far is None else (self.core, self.far)


@dataclass(frozen=True, eq=False)
class PairState:
    """A pair, or a product of pairs.

    Attributes
    ----------
    dominating : Masses of Dominating
    exact : dict of Direction to Masses of Exact
        Of the directions whose lower bounds are asked for.
    shift : float
        η, nats.
    lowest, highest : float
        (A*, B*) has no finite loss below and above, nats.
    """

    dominating: Masses[Dominating]
    exact: dict[Direction, Masses[Exact]]
    shift: float
    lowest: float
    highest: float
