"""The worst of several pairs: which of them a mechanism follows depends on which neighbouring inputs are compared."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.declaration import mechanism, parameter
from pbdist.mechanisms.pair import ElementaryPair, Pair
from pbdist.mechanisms.product import PAIRS
from pbdist.types import Adjacency, JsonValue, checked_adjacency, joined


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
