"""The parts of a release plan: blocks of records, analyses, and the effects of changes on each analysis.

All of it is declared data, never an enumeration of databases.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.databases import whole
from pbdist.granularity.notions import Bounded, EdgeLevel, FreeLunch, Granularity, NodeLevel, Unbounded, UserLevel
from pbdist.mechanisms import Adjacency, Pair


@dataclass(frozen=True)
class Partition:
    """Blocks of records, of which each record belongs to one (Guerra-Balboa et al. 2024, Examples IV.4 and IV.7).

    Parameters
    ----------
    blocks : sequence of str
        Names, each once.
    exhaustive : bool, optional
        Whether every record belongs to a block; if not, some belong to none. By default it is.
    by : {"value", "position"}, optional
        What decides of a record. Its value, by default: then a changed record may move to another block. Its position
        in an ordered database: then it stays, but one record more or less would move all others, so that only `Bounded`
        neighbours are allowed.
    """

    blocks: tuple[str, ...]
    exhaustive: bool = True
    by: Literal["value", "position"] = "value"

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", checked_names("Partition.blocks", self.blocks))
        _check_bool("Partition.exhaustive", self.exhaustive)
        _check_choice("Partition.by", self.by, ("value", "position"))

    @property
    def at_most(self) -> int:
        """To how many blocks a record belongs at most: 1."""
        return 1


@dataclass(frozen=True)
class Overlapping:
    """Blocks of records, of which each record belongs to some, by its value alone (Guerra-Balboa et al. 2024, IV.5).

    Parameters
    ----------
    blocks : sequence of str
        Names, each once.
    at_most : int
        To how many blocks a record belongs at most, m. Every set of up to m blocks is taken to occur; declare
        `Memberships` where that is not so, for sharper bounds from above, and right ones from below.
    exhaustive : bool, optional
        Whether every record belongs to at least one. By default it need not.
    """

    blocks: tuple[str, ...]
    at_most: int
    exhaustive: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", checked_names("Overlapping.blocks", self.blocks))
        _check_bool("Overlapping.exhaustive", self.exhaustive)
        whole("Overlapping.at_most", self.at_most, 1)
        object.__setattr__(self, "at_most", min(self.at_most, len(self.blocks)))


@dataclass(frozen=True)
class Memberships:
    """Blocks of records, and every set of blocks to which one record may belong.

    For groupings in which not all sets occur: hospitals of a city, and which of them share an ambulance.

    Parameters
    ----------
    sets : sequence of sequences of str
        Each a set of names, without order; an empty one stands for records outside all blocks.
    """

    sets: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        given = checked_list("Memberships.sets", self.sets, object)
        listed = [tuple(sorted(_names(f"Memberships.sets[{i}]", one))) for i, one in enumerate(given)]
        if not any(listed):
            raise InvalidInputError(f"Memberships.sets: expected a set with a name in it, got {shown(given)}")
        if len(set(listed)) < len(listed):
            raise InvalidInputError(f"Memberships.sets: expected each set once, got {shown(given)}")
        object.__setattr__(self, "sets", tuple(listed))

    @property
    def blocks(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted({name for one in self.sets for name in one}))

    @property
    def at_most(self) -> int:
        """To how many blocks a record belongs at most."""
        return max(map(len, self.sets))

    @property
    def exhaustive(self) -> bool:
        """Whether every record belongs to a block."""
        return () not in self.sets


Blocks: TypeAlias = Partition | Overlapping | Memberships


def checked_names(field: str, given: Any) -> tuple[str, ...]:
    """Return names of which there is at least one, each once."""
    names = _names(field, given)
    if not names:
        raise InvalidInputError(f"{field}: give at least one name")
    return names


def _names(field: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence | set | frozenset):
        raise InvalidInputError(f"{field}: expected a sequence of names, got {shown(given)}")
    names = tuple(given)
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"{field}: expected names, got {shown(name)}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError(f"{field}: expected each name once, got {shown(twice)} twice")
    return names


def checked_list(field: str, given: Any, kind: type) -> tuple[Any, ...]:
    """Return a sequence of one kind of object as a tuple."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInputError(f"{field}: expected a sequence of {kind.__name__}, got {shown(given)}")
    listed = tuple(given)
    for position, one in enumerate(listed):
        if not isinstance(one, kind):
            raise InvalidInputError(f"{field}[{position}]: expected {kind.__name__}, got {shown(one)}")
    return listed


def _check_bool(field: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise InvalidInputError(f"{field}: expected true or false, got {shown(value)}")


def _check_choice(field: str, value: Any, names: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in names:
        raise InvalidInputError(f"{field}: expected {', '.join(names[:-1])} or {names[-1]}, got {shown(value)}")


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
        Used in answers and errors.
    pair : Pair
        Dominates the outputs on neighbouring inputs, whatever the earlier outputs were. Declared for records, edges,
        users or nodes that are removed or added: A with them, B without. Declared for any other relation, which is
        symmetric: in both orders, which matters where A and B differ.
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
        if not isinstance(given.pair, Pair) or given.pair.is_worst_of_several:
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
        _check_choice(f"{self.name}.domain", given.domain, ("own", "common"))
        self._check_adjacency("pair", self.pair, self.declared)
        self._check_replaced(given.replaced)
        whole(f"{self.name}.repeats", given.repeats, 1)
        _check_choice(f"{self.name}.attained", given.attained, ("never", "some", "every"))

    def _check_replaced(self, given: Any) -> None:
        if given is None:
            return
        unchanged = isinstance(given, str) and given == "unchanged"
        if not unchanged and (not isinstance(given, Pair) or given.is_worst_of_several):
            raise InvalidInputError(f"{self.name}.replaced: expected a pair or unchanged, got {shown(given)}")
        if self.declared != Unbounded():
            raise InvalidInputError(
                f"{self.name}.replaced: it belongs to a pair declared for Unbounded(), not {self.declared!r}"
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
    """Return one run of an analysis for each block, named by both, which reads that block alone."""
    return tuple(replace(analysis, name=f"{analysis.name} of {block}", reads=(block,)) for block in blocks)


@dataclass(frozen=True, order=True)
class Touch:
    """What a change does to the input of one analysis.

    Parameters
    ----------
    analysis : str
        Its name.
    removed, added : int
        How many records, or edges, are less and more; at a declared granularity of another kind one step counts as one
        removal, or as one addition the other way. Their sum is the distance, and which of them is not 0 the direction.
    """

    analysis: str
    removed: int = 0
    added: int = 0

    def __post_init__(self) -> None:
        given: Any = self.analysis
        if not isinstance(given, str) or not given:
            raise InvalidInputError(f"Touch.analysis: expected a name, got {shown(given)}")
        for field in ("removed", "added"):
            whole(f"Touch.{field}", getattr(self, field), 0)
        if not self.removed and not self.added:
            raise InvalidInputError(f"Touch: give the records removed or added at {given}; both numbers are 0")


@dataclass(frozen=True)
class Profile:
    """One way in which neighbouring databases may differ: the analyses that it touches, and how.

    Parameters
    ----------
    touches : sequence of Touch
        Each analysis once; all others have the same input.
    attained : bool, optional
        Of a declared profile, whether some databases follow the pairs of all touched analyses jointly. By default not.
    """

    touches: tuple[Touch, ...]
    attained: bool = False

    def __post_init__(self) -> None:
        listed = checked_list("Profile.touches", self.touches, Touch)
        names = [one.analysis for one in listed]
        if len(set(names)) < len(names):
            raise InvalidInputError(f"Profile.touches: expected each analysis once, got {shown(sorted(names))}")
        _check_bool("Profile.attained", self.attained)
        object.__setattr__(self, "touches", tuple(sorted(listed)))
