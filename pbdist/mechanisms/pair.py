"""What a mechanism is to pbdist: a worst-case pair of distributions, and its exact masses on given loss cells."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pbdist.mechanisms.rounding import MassBounds
from pbdist.types import Direction, FloatArray, JsonValue

__all__ = ["ElementaryPair", "LossMasses", "Pair"]


@dataclass(frozen=True, eq=False)
class LossMasses:
    """Where the masses of a pair (A, B) lie along the privacy loss L = ln(P_A / P_B), in nats.

    Events are kept in three groups that do not overlap and together hold every event: events spread over loss cells,
    atoms (events of one known loss, kept apart), and the events that only one of the two distributions has.

    Attributes
    ----------
    cells_a, cells_b : MassBounds, shape (m + 1,)
        P_A and P_B mass of the spread events in the cells (-inf, e_0], (e_0, e_1], .., (e_{m-1}, inf) for the m edges
        asked for.
    atom_loss : ndarray, shape (k,)
        Losses of the atoms, computed values. They are infinite where one of the masses is too faint for a reliable
        loss; that mass is then part of the upper value of `only_a` or `only_b` as well.
    atoms_a, atoms_b : MassBounds, shape (k,)
        Masses of the atoms.
    only_a, only_b : MassBounds, shape (1,)
        P_A mass where P_B is 0, and P_B mass where P_A is 0.
    loss_error : float
        Bound, in nats, on how far outside its cell the exact loss of a spread event may lie, and on the error of
        each `atom_loss`.
    """

    cells_a: MassBounds
    cells_b: MassBounds
    atom_loss: FloatArray
    atoms_a: MassBounds
    atoms_b: MassBounds
    only_a: MassBounds
    only_b: MassBounds
    loss_error: float

    def swapped(self) -> "LossMasses":
        """Masses of the pair (B, A), on the cells whose edges are the negated edges in reversed order."""
        return LossMasses(
            cells_a=self.cells_b.reversed(),
            cells_b=self.cells_a.reversed(),
            atom_loss=-self.atom_loss,
            atoms_a=self.atoms_b,
            atoms_b=self.atoms_a,
            only_a=self.only_b,
            only_b=self.only_a,
            loss_error=self.loss_error,
        )


class Pair(ABC):
    """A worst-case pair (A, B): the output distributions of a mechanism on two neighbouring inputs.

    Subclasses are frozen, validated and hashable dataclasses; two equal pairs have the same canonical form.
    """

    @property
    def symmetric(self) -> bool:
        """Whether (A, B) and (B, A) have the same loss distribution, so that one direction serves both."""
        return False

    @property
    @abstractmethod
    def factors(self) -> tuple["ElementaryPair", ...]:
        """The independent pairs whose product this pair is."""

    def canonical(self) -> dict[str, JsonValue]:
        """Canonical form: the mechanism's name and its parameters, as JSON takes them.

        Equal pairs have equal forms, and `pbdist.mechanisms.pair_from_canonical` is the inverse. A parameter that is
        added later gets a default, and a name is never given a new meaning, so that a stored form stays readable.
        """
        form: dict[str, JsonValue] = {"mechanism": type(self).__name__}
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            form[field.name] = _plain(getattr(self, field.name))
        return form


class ElementaryPair(Pair):
    """A pair whose masses on loss cells have a closed form."""

    @property
    def factors(self) -> tuple["ElementaryPair", ...]:
        """The pair itself."""
        return (self,)

    @property
    def total_mass(self) -> tuple[float, float]:
        """Upper values of P_A and P_B of everything; 1 but for a `Histogram` whose masses sum to a little more."""
        return (1.0, 1.0)

    @abstractmethod
    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Masses of A and B on the loss cells between `edges`.

        Parameters
        ----------
        edges : ndarray, shape (m,)
            Loss edges in nats, finite and increasing.

        Returns
        -------
        LossMasses
            Certified masses: every event is counted, none twice in a lower value.
        """

    def directed_loss_masses(self, edges: FloatArray, direction: Direction) -> LossMasses:
        """Masses for one direction: of (A, B), or of (B, A) with the roles exchanged."""
        if direction is Direction.A_TO_B:
            return self.loss_masses(edges)
        return self.loss_masses(np.ascontiguousarray(-edges[::-1])).swapped()


def _plain(value: Any) -> JsonValue:
    if isinstance(value, Pair):
        return value.canonical()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
