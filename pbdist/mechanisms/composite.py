"""Mechanisms made of others: products, reversed pairs, the worst of several, and enclosures by finite pairs."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.additive import Gaussian, Laplace
from pbdist.mechanisms.counts import Poisson
from pbdist.mechanisms.declaration import Domain, Form, mechanism, parameter
from pbdist.mechanisms.masses import BEYOND, LossMasses, MassBounds, ScaledLossMasses
from pbdist.mechanisms.pair import ElementaryPair, NoiseOrder, Pair, adjacency_together
from pbdist.types import Adjacency, Direction, FloatArray, JsonValue, checked_adjacency, joined


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


#: The constructors take pairs one by one, and check them.
PAIRS = Domain(lambda _owner, _name, value: value, Form.MECHANISMS)


@mechanism
class Product(Pair):
    """Independent pairs observed together in every round, such as Vuvuzela's single and paired requests.

    The neighbouring inputs differ in all of them at once: A = A1 × A2 × .., B = B1 × B2 × ... The losses add up, as
    those of a sequence of rounds do (Meiser & Mohammadi 2018, Corollary 1).

    Where a factor is known through a pair above it and one that it attains (`FixedBatchGaussian`,
    `TruncatedPoissonGaussian`, `SubsampledGaussianGroup`), upper bounds are those of the product of the pairs above,
    lower bounds those of the product of the pairs that are attained (Theorem 46 of docs/theory.md).

    Parameters
    ----------
    *pairs : Pair
        At least one.

    Raises
    ------
    InvalidInputError
        If there is no pair or something else than a pair, or two pairs are for different neighbours.

    Examples
    --------
    >>> from pbdist import Gaussian, Laplace, Product, privacy_bounds
    >>> both = Product(Gaussian(scale=20.0), Laplace(scale=10.0))
    >>> each = [(Gaussian(scale=20.0), 1), (Laplace(scale=10.0), 1)]
    >>> once = [privacy_bounds(one, compositions=8, epsilon=1.0).delta_upper.item() for one in (both, each)]
    >>> bool(abs(once[0] / once[1] - 1) < 1e-3)  # a round of both is a round of each
    True
    """

    aliases = ("composition",)
    does = "Several outputs are seen together in every round, each with noise of its own, drawn independently."
    assumes = (
        "Neighbouring inputs differ in all of them at once, in the directions given, and the noises are independent"
        " of each other."
    )

    pairs: tuple[Pair, ...] = parameter(
        PAIRS, "the mechanisms that are seen together", example=(Gaussian(40.0), Laplace(40.0))
    )

    def __init__(self, *pairs: Pair) -> None:
        if not pairs:
            raise InvalidInputError("Product.pairs: give at least one mechanism")
        pair: Any
        for position, pair in enumerate(pairs):
            if not isinstance(pair, Pair) or pair.enclosing_pairs is None:
                raise InvalidInputError(f"Product.pairs[{position}]: expected a mechanism, got {shown(pair)}")
        object.__setattr__(self, "pairs", pairs)
        adjacency_together(pairs, "Product.pairs")

    @property
    def adjacency(self) -> Adjacency:
        """That of the factors, as `adjacency_together`."""
        return adjacency_together(self.pairs, "Product.pairs")

    @property
    def enclosing_pairs(self) -> tuple[Pair, Pair]:
        """The product of the pairs that dominate, and the product of those that are attained; itself where all are."""
        return self._enclosing_pairs if any(pair.is_worst_of_several for pair in self.pairs) else (self, self)

    @cached_property
    def _enclosing_pairs(self) -> tuple[Pair, Pair]:
        both = [pair.enclosing_pairs or (pair, pair) for pair in self.pairs]
        above, below = ([each[side] for each in both] for side in (0, 1))
        if above == below:
            whole = Product(*above)
            return whole, whole
        return _Side(*above, neighbours=self.adjacency), _Side(*below, neighbours=self.adjacency)

    @property
    def choices(self) -> tuple[tuple[Pair, bool], ...]:
        """The product itself, or its sides, the first of which need not be attained."""
        above, below = self.enclosing_pairs
        return ((below, True),) if above is below else ((above, False), (below, True))

    @property
    def factors(self) -> tuple[ElementaryPair, ...]:
        """The elementary pairs of all factors, in order; of both sides, which are no product, where they differ."""
        return tuple(factor for pair in self.pairs for factor in pair.factors)


class _Side(Product):
    """A product of sides, for the neighbours that are said: a pair may be a side of a mechanism for other ones."""

    def __init__(self, *pairs: Pair, neighbours: Adjacency) -> None:
        object.__setattr__(self, "pairs", pairs)
        object.__setattr__(self, "_neighbours", neighbours)

    @property
    def adjacency(self) -> Adjacency:
        """As said."""
        found: Adjacency = self.__dict__["_neighbours"]
        return found


def _checked_pair(owner: str, name: str, value: Any) -> ElementaryPair:
    if not isinstance(value, ElementaryPair):
        raise InvalidInputError(f"{owner}.{name}: expected a mechanism that is no product, got {shown(value)}")
    return value


def _of_pair(name: str) -> Any:
    """Return a member that a reversed pair shares with its pair."""
    return property(attrgetter(f"pair.{name}"))


def _in_other_direction(method: Callable[..., Any]) -> Any:
    """Return a method of the pair, of which the last argument is a direction, for the opposite one."""

    def reversed_method(self: "Reversed", *arguments: Any) -> Any:
        *others, direction = arguments
        return getattr(self.pair, method.__name__)(*others, direction.opposite)

    return reversed_method


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
    #: It is the same in both directions.
    renyi_divergence = _of_pair("renyi_divergence")
    facing = _in_other_direction(ElementaryPair.facing)
    loss_bound = _in_other_direction(ElementaryPair.loss_bound)
    always_reveals = _in_other_direction(ElementaryPair.always_reveals)
    log_faint_moment = _in_other_direction(ElementaryPair.log_faint_moment)
    log_tail_moment = _in_other_direction(ElementaryPair.log_tail_moment)
    directed_loss_masses = _in_other_direction(ElementaryPair.directed_loss_masses)

    @property
    def order(self) -> NoiseOrder | None:
        """That of the pair, apart from those that are not reversed unless both directions are the same."""
        if isinstance(self.pair, Reversed):
            return self.pair.pair.order
        order = self.pair.order
        return order if order is None or self.pair.symmetric else NoiseOrder(("Reversed", order.family), order.amounts)

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

    def scaled_loss_masses(self, edges: FloatArray, direction: Direction = Direction.A_TO_B) -> ScaledLossMasses:
        """Masses of the pair in the other direction."""
        return self.pair.scaled_loss_masses(edges, direction.opposite)

    def keeps_order(self, edges: FloatArray) -> bool:
        """Whether the pair does for the negated edges."""
        return self.pair.keeps_order(np.ascontiguousarray(-edges[::-1]))


class Alternatives(Pair):
    """Several pairs of which the worst counts: upper bounds are the largest of theirs, lower ones of those attained.

    Subclasses name the pairs, and whether some neighbouring inputs follow each of them exactly.
    """

    @property
    @abstractmethod
    def choices(self) -> tuple[tuple[Pair, bool], ...]:
        """Each of the pairs, none of which has alternatives, and whether it is attained."""

    @property
    def enclosing_pairs(self) -> tuple[Pair, Pair] | None:
        """The only pair twice, if it is attained; else none: which pair is followed here says nothing of others."""
        return None if self.sole_pair is None else (self.sole_pair, self.sole_pair)

    @property
    def attained_by_some(self) -> bool:
        """Whether some pair is attained."""
        return any(there for _, there in self.choices)

    @property
    def factors(self) -> tuple[ElementaryPair, ...]:
        """The elementary pairs of all pairs. They are no product."""
        return tuple(factor for pair, _ in self.choices for factor in pair.factors)


class TwoSided(Alternatives):
    """A mechanism that is dominated by one pair, and follows another one exactly on its worst known neighbours.

    Unlike the pairs of a `WorstOf`, these two bound it whatever else is seen: it can be in a sequence with others.
    """

    @property
    @abstractmethod
    def upper_pair(self) -> Pair:
        """The pair that dominates."""

    @property
    @abstractmethod
    def lower_pair(self) -> Pair:
        """The pair that is attained, in all rounds."""

    @property
    def choices(self) -> tuple[tuple[Pair, bool], ...]:
        """The pair that dominates, and the one that is attained; one pair where they are the same."""
        if self.upper_pair == self.lower_pair:
            return ((self.lower_pair, True),)
        return (self.upper_pair, False), (self.lower_pair, True)

    @property
    def enclosing_pairs(self) -> tuple[Pair, Pair]:
        """Both pairs."""
        return self.upper_pair, self.lower_pair


@mechanism
class WorstOf(Alternatives):
    """Several pairs, one for each way in which neighbouring inputs may differ; δ is the largest of theirs.

    In all rounds the same inputs are compared, so that δ after r rounds is the largest of the δ of r rounds of one of
    the pairs. A release of several analyses is one such: what a record touches differs from record to record.

    Parameters
    ----------
    *pairs : Pair
        At least one; none of them the worst of several.
    attained : sequence of bool, optional
        Of each pair, whether some neighbouring inputs follow it exactly. Only such pairs give lower bounds: others
        dominate what happens, and may be worse than it. All by default. A `BoundedRange` never is, whatever is said.
    neighbours : Adjacency or str, optional
        Which neighbours these are the ways of, where that is not what the pairs say: a record that is replaced may be
        removed here and added there. By default what the pairs say.

    Raises
    ------
    InvalidInputError
        If there is no pair, something else than a pair, or not one bool for each pair; or if pairs are for different
        neighbours and ``neighbours`` does not say which are meant.

    Examples
    --------
    >>> from pbdist import Gaussian, WorstOf, privacy_bounds
    >>> either = WorstOf(Gaussian(20.0), Gaussian(30.0, 2.0))  # of two ways to differ
    >>> found = [privacy_bounds(one, compositions=8, epsilon=1.0).delta_upper.item() for one in (either, *either.pairs)]
    >>> found[0] == max(found[1:])
    True
    """

    does = (
        "Several analyses are released together (a release plan). What neighbouring databases differ in varies; the"
        " worst of several pairs counts."
    )
    assumes = (
        "Each analysis reads the parts that the plan declares and nothing else, and is as private as its mechanism"
        " says. What no change of the database is declared to attain has no lower bound: it is not known, not 0."
    )
    in_studies = False

    pairs: tuple[Pair, ...] = parameter(PAIRS, "the pairs of which the worst counts", example=None)
    attained: tuple[bool, ...]
    neighbours: Adjacency | None = field(default=None, repr=False)

    def __init__(
        self,
        *pairs: Pair,
        attained: Sequence[bool] | None = None,
        neighbours: Adjacency | str | None = None,
    ) -> None:
        if not pairs:
            raise InvalidInputError("WorstOf.pairs: give at least one mechanism")
        pair: Any
        for position, pair in enumerate(pairs):
            if not isinstance(pair, Pair) or pair.is_worst_of_several:
                raise InvalidInputError(f"WorstOf.pairs[{position}]: expected a mechanism, got {shown(pair)}")
        given: Any = (True,) * len(pairs) if attained is None else attained
        listed = list(given) if isinstance(given, Sequence) else []
        if len(listed) != len(pairs) or not all(isinstance(one, bool) for one in listed):
            raise InvalidInputError(
                f"WorstOf.attained: expected true or false for each of {len(pairs)} pairs, got {shown(given)}"
            )
        object.__setattr__(self, "pairs", pairs)
        object.__setattr__(
            self, "attained", tuple(one and pair.attained_by_some for one, pair in zip(given, pairs, strict=True))
        )
        known = None if neighbours is None else checked_adjacency(neighbours, "WorstOf.neighbours")
        object.__setattr__(self, "neighbours", known)
        # Refuses pairs for different neighbours.
        _ = self.adjacency

    @property
    def choices(self) -> tuple[tuple[Pair, bool], ...]:
        """The pairs, and whether each is attained."""
        return tuple(zip(self.pairs, self.attained, strict=True))

    @property
    def adjacency(self) -> Adjacency:
        """What ``neighbours`` says, or that of the pairs; as stated where a record moves in one of them."""
        if self.neighbours is not None:
            return self.neighbours
        named = ((factor.adjacency, type(factor).__name__) for pair in self.pairs for factor in pair.factors)
        found = joined(named, "WorstOf.pairs")
        moved = any(not pair.adjacency.definite and _says_some(pair) for pair in self.pairs)
        return Adjacency.AS_STATED if moved else found

    def canonical(self) -> dict[str, JsonValue]:
        """Canonical form, as of every pair; without ``neighbours`` where the pairs tell them, as it has always been."""
        form = super().canonical()
        if self.neighbours is None:
            del form["neighbours"]
        else:
            form["neighbours"] = self.neighbours.value
        return form


def _says_some(pair: Pair) -> bool:
    """Whether a factor of a pair says for which neighbours it is."""
    return any(factor.adjacency.definite for factor in pair.factors)
