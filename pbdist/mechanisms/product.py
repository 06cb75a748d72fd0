"""Independent pairs that are observed together in every round."""

from functools import cached_property
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.additive import Gaussian, Laplace
from pbdist.mechanisms.declaration import Domain, Form, mechanism, parameter
from pbdist.mechanisms.pair import ElementaryPair, Pair, adjacency_together
from pbdist.types import Adjacency

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
