"""A pair whose directions are exchanged, which moves against others in a product."""

from fractions import Fraction
from operator import attrgetter
from typing import Any

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.declaration import Domain, Form, mechanism, parameter
from pbdist.mechanisms.masses import LossMasses, ScaledLossMasses
from pbdist.mechanisms.pair import ElementaryPair, NoiseOrder
from pbdist.mechanisms.poisson import Poisson
from pbdist.mechanisms.tails import BEYOND
from pbdist.types import Direction, FloatArray


def _checked_pair(owner: str, name: str, value: Any) -> ElementaryPair:
    if not isinstance(value, ElementaryPair):
        raise InvalidInputError(f"{owner}.{name}: expected a mechanism that is no product, got {shown(value)}")
    return value


def _of_pair(name: str) -> Any:
    """Return a property that a reversed pair shares with its pair."""
    return property(attrgetter(f"pair.{name}"))


_ELEMENTARY = Domain(_checked_pair, Form.MECHANISM)


@mechanism
class Reversed(ElementaryPair):
    """The pair (B, A) of a pair (A, B).

    By itself it says nothing new: δ is that of the pair, its directions exchanged. In a `Product` it stands for a
    factor that moves against the others: where one input raises the first count and lowers the second one,
    A = A1 × B2 and B = B1 × A2, which is ``Product(first, Reversed(second))``. That product has in general another δ
    than A1 × A2 against B1 × B2, unless a factor is symmetric. The factors of a `Product` are reversed one by one.

    Examples
    --------
    >>> from pbdist import Poisson, Product, Reversed
    >>> moved = Product(Poisson(1000.0), Reversed(Poisson(1000.0)))  # from one count to the other
    >>> len(moved.pairs)
    2
    """

    does = "The roles of the two inputs are exchanged for this output: it falls where the others rise."
    assumes = "An output that is reversed falls where the others rise."

    pair: ElementaryPair = parameter(
        _ELEMENTARY, "the mechanism whose directions are exchanged", example=Poisson(1000.0)
    )

    symmetric = _of_pair("symmetric")
    #: The same neighbours, in the other order.
    adjacency = _of_pair("adjacency")
    inner = _of_pair("inner")
    attained_by_some = _of_pair("attained_by_some")
    identical = _of_pair("identical")
    neutral = _of_pair("neutral")
    outcomes = _of_pair("outcomes")
    enclosed = _of_pair("enclosed")
    participation = _of_pair("participation")

    @property
    def order(self) -> NoiseOrder | None:
        """That of the pair, apart from those that are not reversed unless both directions are the same."""
        if isinstance(self.pair, Reversed):
            return self.pair.pair.order
        order = self.pair.order
        return order if order is None or self.pair.symmetric else NoiseOrder(("Reversed", order.family), order.amounts)

    def facing(self, direction: Direction) -> tuple[ElementaryPair, Direction]:
        """Return that pair, and the direction exchanged as often as it is reversed."""
        return self.pair.facing(direction.opposite)

    @property
    def removal(self) -> Direction | None:
        """The other direction than that of the pair."""
        return None if self.pair.removal is None else self.pair.removal.opposite

    @property
    def total_mass(self) -> tuple[float, float]:
        """Totals of the pair, exchanged."""
        return self.pair.total_mass[::-1]

    @property
    def mass_excess(self) -> tuple[Fraction, Fraction]:
        """Excesses of the pair, exchanged."""
        return self.pair.mass_excess[::-1]

    @property
    def exact_outcomes(self) -> tuple[tuple[Fraction, Fraction], ...] | None:
        """Those of the pair, exchanged."""
        found = self.pair.exact_outcomes
        return None if found is None else tuple((b, a) for a, b in found)

    @property
    def dominating(self) -> ElementaryPair:
        """That of the pair, reversed."""
        dominating = self.pair.dominating
        return self if dominating is self.pair else Reversed(dominating)

    def loss_bound(self, direction: Direction) -> float | None:
        """That of the pair in the other direction."""
        return self.pair.loss_bound(direction.opposite)

    def renyi_divergence(self, alpha: float) -> tuple[float, float] | None:
        """That of the pair: it is the same in both directions."""
        return self.pair.renyi_divergence(alpha)

    def always_reveals(self, direction: Direction) -> bool:
        """Whether the pair does in the other direction."""
        return self.pair.always_reveals(direction.opposite)

    def log_faint_moment(self, tilt: float, direction: Direction) -> float:
        """That of the pair in the other direction."""
        return self.pair.log_faint_moment(tilt, direction.opposite)

    @property
    def cost_stand_in(self) -> ElementaryPair:
        """That of the pair, reversed."""
        return Reversed(self.pair.cost_stand_in)

    @property
    def without_sampling(self) -> ElementaryPair | None:
        """That of the pair, reversed."""
        plain = self.pair.without_sampling
        return None if plain is None else plain if plain.symmetric else Reversed(plain)

    def loss_picture(self, target: float, beyond: float = BEYOND) -> tuple[FloatArray, FloatArray] | None:
        """That of the pair with its losses negated: P_B has e^-L times the mass of P_A at a loss of L."""
        picture = self.pair.loss_picture(target, beyond)
        if picture is None:
            return None
        loss, log_mass = picture
        return np.ascontiguousarray(-loss[::-1]), np.ascontiguousarray((log_mass - loss)[::-1])

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Masses of (B, A)."""
        return self.pair.directed_loss_masses(edges, Direction.B_TO_A)

    def directed_loss_masses(self, edges: FloatArray, direction: Direction) -> LossMasses:
        """Masses of the pair in the other direction."""
        return self.pair.directed_loss_masses(edges, direction.opposite)

    def scaled_loss_masses(self, edges: FloatArray, direction: Direction = Direction.A_TO_B) -> ScaledLossMasses:
        """Masses of the pair in the other direction."""
        return self.pair.scaled_loss_masses(edges, direction.opposite)

    def keeps_order(self, edges: FloatArray) -> bool:
        """Whether the pair does for the negated edges."""
        return self.pair.keeps_order(np.ascontiguousarray(-edges[::-1]))

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:
        """That of the pair in the other direction."""
        return self.pair.log_tail_moment(tilt, loss, direction.opposite)
