"""What is seen together in one round: the product of independent pairs."""

from dataclasses import dataclass

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.pair import ElementaryPair, Pair

__all__ = ["Product"]


@dataclass(frozen=True, init=False)
class Product(Pair):
    """Independent pairs observed together in every round, such as Vuvuzela's single and paired requests.

    The neighbouring inputs differ in all of them at once: A = A1 × A2 × .., B = B1 × B2 × ... Its loss is the sum of
    theirs, so that it is composed like any other sequence (Meiser & Mohammadi 2018, Corollary 1).

    Parameters
    ----------
    *pairs : Pair
        At least one.

    Raises
    ------
    InvalidInputError
        If there is no pair or something else than a pair.
    """

    pairs: tuple[Pair, ...]

    def __init__(self, *pairs: Pair) -> None:
        if not pairs:
            raise InvalidInputError("Product.pairs: expected at least one pair, got none")
        for position, pair in enumerate(pairs):
            if not isinstance(pair, Pair):
                raise InvalidInputError(f"Product.pairs[{position}]: expected a mechanism, got {shown(pair)}")
        object.__setattr__(self, "pairs", pairs)

    @property
    def symmetric(self) -> bool:
        """Whether every factor is."""
        return all(pair.symmetric for pair in self.pairs)

    @property
    def factors(self) -> tuple[ElementaryPair, ...]:
        """The elementary pairs of all factors, in order."""
        return tuple(factor for pair in self.pairs for factor in pair.factors)
