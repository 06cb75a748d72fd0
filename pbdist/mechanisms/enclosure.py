"""A pair known through two finite ones: one that it dominates, and one that dominates it."""

from dataclasses import dataclass, replace

from pbdist.mechanisms.masses import LossMasses, MassBounds
from pbdist.mechanisms.pair import ElementaryPair
from pbdist.types import FloatArray


@dataclass(frozen=True, eq=False)
class FinitePair(ElementaryPair):
    """Measures on finitely many events, all of which are atoms or of infinite loss.

    Parameters
    ----------
    masses : LossMasses
        With a single empty bin.
    """

    masses: LossMasses

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """The atoms, with empty bins between `edges`."""
        empty = MassBounds.zeros(edges.size + 1)
        return replace(self.masses, bins_a=empty, bins_b=empty)


@dataclass(frozen=True, eq=False)
class Enclosure(ElementaryPair):
    """What stands for a pair where bounds are computed: lower ones from one finite pair, upper ones from another one.

    The pair dominates `dominated` and is dominated by `above`. An upper bound from the masses of `dominated`, in which
    the losses are names alone, would be none: `pbdist.pld` takes its upper bounds from `dominating` alone (Theorem 33
    of docs/theory.md).

    Parameters
    ----------
    dominated, above : FinitePair
    """

    dominated: FinitePair
    above: FinitePair

    @property
    def dominating(self) -> FinitePair:
        """The pair that upper bounds come from."""
        return self.above

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Masses of the dominated pair: lower bounds come from them."""
        return self.dominated.loss_masses(edges)
