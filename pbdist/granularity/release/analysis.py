"""One analysis of a release: its worst-case pair, what the pair is declared for, and the blocks that it reads."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.notions import Bounded, EdgeLevel, FreeLunch, Granularity, NodeLevel, Unbounded, UserLevel
from pbdist.granularity.release.blocks import check_count, checked_names
from pbdist.mechanisms import Adjacency, Pair

#: Whether neighbouring inputs follow the pair exactly: none is known to, some do, or all do.
Attained: TypeAlias = Literal["never", "some", "every"]
_UNBOUNDED = Unbounded()
#: What pairs may say of their neighbours that are declared for what is removed or added, and for one changed record.
#: What is declared for all databases holds for no pair that speaks of one record; of a given relation nothing is known.
_ALLOWED: tuple[tuple[tuple[type[Granularity], ...], tuple[Adjacency, ...]], ...] = (
    ((Unbounded, UserLevel, EdgeLevel, NodeLevel), (Adjacency.ADD_OR_REMOVE,)),
    ((Bounded,), (Adjacency.REPLACE_ONE,)),
    ((FreeLunch,), ()),
)


@dataclass(frozen=True)
class Analysis:
    """One analysis of a release plan.

    Parameters
    ----------
    name : str
        Told in answers and errors.
    pair : Pair
        Dominates the outputs on neighbouring inputs, whatever the earlier outputs were. Declared for records, edges,
        users or nodes that are removed or added: A with them, B without. Declared for any other relation, which is
        symmetric: in both orders, which matters where A and B are not alike.
    reads : sequence of str, optional
        The blocks that it reads; all records, also those outside the blocks, by default. What it reads is fixed before
        anything is released.
    declared : Granularity, optional
        For which neighbours the pair is declared; `Unbounded` by default.
    domain : {"own", "common"}, optional
        For which databases: "own": for all that it may read. "common": for all databases of the release, of which it
        depends only on what it reads (Guerra-Balboa et al. 2024, Definition IV.8). The difference matters for `Bounded`
        pairs: Example II.9.
    replaced : Pair or "unchanged", optional
        What one changed record within its input does, of a pair declared for `Unbounded`: a pair that dominates it, in
        either order, or nothing at all, as for a count. By default a removal and an addition, one after the other.
    repeats : int, optional
        How often it is run on the same input, 1 by default.
    attained : {"never", "some", "every"}, optional
        Whether outputs follow the pair, and `replaced`, and not only something that it dominates. "every": for each
        database and each record, and removals add up, as for a count with noise; of a pair declared for users or nodes,
        for each of these, whatever it has in the blocks. "some": for some database and record.
        Lower bounds rest on that; there is none by default.

    Raises
    ------
    InvalidInputError
        If a field is none of these, or a pair says itself that it is for other neighbours than it is declared for.
    """

    name: str
    pair: Pair
    reads: tuple[str, ...] | None = None
    declared: Granularity = _UNBOUNDED
    domain: Literal["own", "common"] = "own"
    replaced: Pair | Literal["unchanged"] | None = None
    repeats: int = 1
    attained: Attained = "never"

    def __post_init__(self) -> None:
        given: Any = self
        if not isinstance(given.name, str) or not given.name:
            raise InvalidInputError(f"Analysis.name: expected a name, got {shown(given.name)}")
        if not isinstance(given.pair, Pair) or given.pair.several:
            raise InvalidInputError(f"{self.name}.pair: expected a worst-case pair, got {shown(given.pair)}")
        if callable(given.reads):
            raise InvalidInputError(
                f"{self.name}.reads: expected the names of blocks, got a function: blocks that are chosen from earlier"
                " outputs are no fixed map of the database, and no rule of composition holds for them"
            )
        if given.reads is not None:
            object.__setattr__(self, "reads", tuple(sorted(checked_names(f"{self.name}.reads", given.reads))))
        if not isinstance(given.declared, Granularity):
            raise InvalidInputError(f"{self.name}.declared: expected a Granularity, got {shown(given.declared)}")
        if not isinstance(given.domain, str) or given.domain not in ("own", "common"):
            raise InvalidInputError(f"{self.name}.domain: expected own or common, got {shown(given.domain)}")
        self._check_adjacency("pair", self.pair, self.declared)
        self._check_replaced(given.replaced)
        check_count(f"{self.name}.repeats", given.repeats)
        if not isinstance(given.attained, str) or given.attained not in ("never", "some", "every"):
            raise InvalidInputError(f"{self.name}.attained: expected never, some or every, got {shown(given.attained)}")

    def _check_replaced(self, given: Any) -> None:
        if given is None:
            return
        unchanged = isinstance(given, str) and given == "unchanged"
        if not unchanged and (not isinstance(given, Pair) or given.several):
            raise InvalidInputError(f"{self.name}.replaced: expected a pair or unchanged, got {shown(given)}")
        if self.declared != Unbounded():
            raise InvalidInputError(
                f"{self.name}.replaced: expected none beside a pair declared for {self.declared!r}, got {shown(given)}"
            )
        if isinstance(given, Pair):
            self._check_adjacency("replaced", given, Bounded())

    def _check_adjacency(self, field: str, pair: Pair, declared: Granularity) -> None:
        """Refuse a pair that says itself that it is the worst case of other neighbours than those declared."""
        own = pair.adjacency
        allowed = next((names for kinds, names in _ALLOWED if isinstance(declared, kinds)), (own,))
        if own.definite and own not in allowed:
            raise InvalidInputError(
                f"{self.name}.{field}: expected a pair for the neighbours of {declared!r}, got {shown(pair)}, the worst"
                f" case of {own.in_words}"
            )


def on_each_block(analysis: Analysis, blocks: Iterable[str]) -> tuple[Analysis, ...]:
    """Return one run of an analysis for each block, which reads that block alone.

    Parameters
    ----------
    analysis : Analysis
        Its own `reads` does not count.
    blocks : iterable of str

    Returns
    -------
    tuple of Analysis
        Named by the analysis and the block.
    """
    return tuple(replace(analysis, name=f"{analysis.name} of {block}", reads=(block,)) for block in blocks)
