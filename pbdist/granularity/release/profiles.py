"""All profiles of the changes of a release plan, up to blocks that are exchangeable.

Two blocks are of one kind if the analyses that read them alone are the same, one for one, and every other analysis
reads both or neither. To exchange them changes no δ, so that a profile is determined by how many blocks of each kind
lose records, gain some, or both: with a few kinds of blocks there are few profiles, however many blocks there are.
"""

import itertools
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pbdist.errors import InvalidInputError
from pbdist.granularity.notions import Bounded, FreeLunch, Granularity, NodeLevel, UserLevel
from pbdist.granularity.release.declared import Analysis, Blocks, Memberships, Partition, Profile, Touch
from pbdist.granularity.release.products import dominates
from pbdist.mechanisms import Pair
from pbdist.mechanisms.pair import noise_order

#: Of more kinds of blocks, those that need not be looked at are left out.
_MANY_KINDS = 12
#: Plans with more are refused.
MAX_PROFILES = 200_000


@dataclass(frozen=True)
class _Kind:
    """Blocks of one kind, and the names of the analyses that read these blocks and others."""

    blocks: tuple[str, ...]
    wide: frozenset[str]


#: For each kind, in how many of its blocks how many records are removed and added: ((removed, added), blocks), ..
_Counts = tuple[tuple[tuple[tuple[int, int], int], ...], ...]


def profiles_of(granularity: Granularity, blocks: Blocks | None, analyses: Sequence[Analysis]) -> list[Profile]:
    """Return a profile of each kind, each once.

    Of many kinds of blocks those are left out of which enough others are known to tell at least as much.

    Raises
    ------
    InvalidInputError
        If there are more than `MAX_PROFILES`, or nothing bounds how many records change.
    """
    unlimited = isinstance(granularity, NodeLevel) and granularity.degree is None
    if isinstance(granularity, FreeLunch) or (unlimited and _of_whole_steps(granularity, analyses)):
        return [Profile(tuple(Touch(one.name, removed=1) for one in analyses))]
    if isinstance(blocks, Memberships):
        found = _of_sets(granularity, blocks, analyses)
    else:
        found = _of_kinds(granularity, blocks, analyses)
    profiles: dict[Profile, None] = {}
    for profile in found:
        if profile.touches:
            profiles[profile] = None
        _check_number(len(profiles))
    return list(profiles)


def _check_number(count: int) -> None:
    if count > MAX_PROFILES:
        raise InvalidInputError(
            f"analyses: expected at most {MAX_PROFILES} profiles of changes, got more: declare fewer kinds of"
            " blocks, or fewer blocks for each record"
        )


def _of_whole_steps(granularity: Granularity, analyses: Sequence[Analysis]) -> bool:
    """Whether every pair is declared for the neighbours of the release, so that no records need be counted."""
    return all(one.declared == granularity or isinstance(one.declared, FreeLunch) for one in analyses)


def records_of_change(granularity: Granularity, analyses: Sequence[Analysis]) -> tuple[int, int]:
    """Return how many records or edges are removed at most, and how many are added."""
    if isinstance(granularity, Bounded):
        return 1, 1
    if isinstance(granularity, UserLevel):
        return granularity.records, 0
    if isinstance(granularity, NodeLevel):
        if granularity.degree is None:
            raise InvalidInputError(
                "granularity: expected NodeLevel with a maximal degree, got none: without it a node may have any number"
                " of edges: give the degree, or declare every pair for nodes"
            )
        if granularity.presence != "public" and not _of_whole_steps(granularity, analyses):
            raise InvalidInputError(
                "granularity: expected NodeLevel(presence='public'), got one that protects the presence of nodes: no"
                " number of edges removed leads to a graph with other nodes"
            )
        return granularity.degree, 0
    return 1, 0


def _of_sets(granularity: Granularity, blocks: Memberships, analyses: Sequence[Analysis]) -> Iterator[Profile]:
    """Every choice of sets for the records that are removed and added, of sets with the same readers one."""
    removed, added = records_of_change(granularity, analyses)
    readers: dict[tuple[str, ...], tuple[str, ...]] = {}
    for names in blocks.sets:
        read = tuple(one.name for one in analyses if one.reads is None or not set(one.reads).isdisjoint(names))
        readers.setdefault(read, names)
    sets = tuple(readers.values())
    smallest = removed if isinstance(granularity, Bounded) else 1
    for less in range(smallest, removed + 1):
        for lost in itertools.combinations_with_replacement(sets, less):
            for gained in itertools.combinations_with_replacement(sets, added):
                yield _profile_of_records(lost, gained, analyses)


def _profile_of_records(
    lost: Sequence[tuple[str, ...]], gained: Sequence[tuple[str, ...]], analyses: Sequence[Analysis]
) -> Profile:
    touches = []
    for one in analyses:
        less, more = (
            sum(one.reads is None or not set(one.reads).isdisjoint(names) for names in side) for side in (lost, gained)
        )
        if less or more:
            touches.append(Touch(one.name, less, more))
    return Profile(tuple(touches))


def _of_kinds(granularity: Granularity, blocks: Blocks | None, analyses: Sequence[Analysis]) -> Iterator[Profile]:
    removed, added = records_of_change(granularity, analyses)
    alone, kinds = _kinds(blocks, analyses)
    at_most = 1 if blocks is None else blocks.at_most
    if len(kinds) > _MANY_KINDS:
        indices = strongest(
            [alone[kind.blocks[0]] for kind in kinds],
            [len(kind.blocks) for kind in kinds],
            [kind.wide for kind in kinds],
            touched=2 * at_most if added else removed * at_most,
        )
        kinds = [kinds[index] for index in indices]
    exhaustive = blocks is not None and blocks.exhaustive
    sizes = [len(kind.blocks) for kind in kinds]
    in_place = isinstance(blocks, Partition) and blocks.by == "position"
    if in_place and not isinstance(granularity, Bounded):
        raise InvalidInputError(
            f"blocks: expected blocks by value with {granularity!r}, got blocks by position: one record more or less"
            " changes the positions of all records after it"
        )
    if in_place:
        counts = _changed_in_place(sizes, exhaustive=exhaustive)
    elif added:
        counts = _changed_record(sizes, at_most, exhaustive=exhaustive)
    else:
        counts = _removed_records(sizes, removed, at_most, exhaustive=exhaustive)
    everything = [one.name for one in analyses if one.reads is None]
    # Refused before any of them is built.
    listed = list(itertools.islice(counts, MAX_PROFILES + 1))
    _check_number(len(listed))
    for count in listed:
        yield _profile(kinds, count, alone, everything, (removed, added))


def _kinds(blocks: Blocks | None, analyses: Sequence[Analysis]) -> tuple[dict[str, list[Analysis]], list[_Kind]]:
    """Return the analyses that read one block alone, in one order for blocks of a kind, and the kinds of blocks."""
    names = () if blocks is None else blocks.blocks
    alone: dict[str, list[Analysis]] = {name: [] for name in names}
    wide: dict[str, set[str]] = {name: set() for name in names}
    for one in analyses:
        if one.reads is None:
            continue
        if len(one.reads) == 1:
            alone[one.reads[0]].append(one)
        else:
            for name in one.reads:
                wide[name].add(one.name)
    numbers: dict[Hashable, int] = {}
    kinds: dict[Hashable, list[str]] = {}
    for name in names:
        signed = [(numbers.setdefault(replace(one, name="any", reads=None), len(numbers)), one) for one in alone[name]]
        signed.sort(key=lambda item: item[0])
        alone[name] = [one for _, one in signed]
        key = (tuple(number for number, _ in signed), frozenset(wide[name]))
        kinds.setdefault(key, []).append(name)
    return alone, [_Kind(tuple(found), frozenset(wide[found[0]])) for found in kinds.values()]


def _changed_record(sizes: Sequence[int], at_most: int, *, exhaustive: bool) -> Iterator[_Counts]:
    """One record is changed: blocks that it leaves, that it enters, and that it stays in with another value."""
    for stays in _choices(sizes, at_most):
        left = at_most - sum(stays)
        free = [size - taken for size, taken in zip(sizes, stays, strict=True)]
        for leaves in _choices(free, left):
            if exhaustive and not sum(stays) + sum(leaves):
                continue
            rest = [size - taken for size, taken in zip(free, leaves, strict=True)]
            for enters in _choices(rest, left):
                if exhaustive and not sum(stays) + sum(enters):
                    continue
                yield tuple(
                    (((1, 1), both), ((1, 0), less), ((0, 1), more))
                    for both, less, more in zip(stays, leaves, enters, strict=True)
                )


def _changed_in_place(sizes: Sequence[int], *, exhaustive: bool) -> Iterator[_Counts]:
    """One record is changed, and stays in its block, or in none."""
    for stays in _choices(sizes, 1):
        if sum(stays) or not exhaustive:
            yield tuple((((1, 1), both),) for both in stays)


def _removed_records(sizes: Sequence[int], records: int, at_most: int, *, exhaustive: bool) -> Iterator[_Counts]:
    """Up to so many records of a user are removed, each from up to so many blocks.

    A block loses at most one for each record, all blocks together at most `at_most` for each. Where every record is in
    a block, at least one is. Any such numbers can be those of some records.
    """
    smallest = 1 if exhaustive else 0
    for total in range(smallest, min(records * at_most, records * sum(sizes)) + 1):
        for parts in _parts(total, records, sum(sizes)):
            for shared in _shared(Counter(parts), list(sizes)):
                yield tuple(tuple(((part, 0), count) for part, count in kind) for kind in shared)


def _parts(total: int, largest: int, most: int) -> Iterator[tuple[int, ...]]:
    """Whole numbers from 1 to `largest` that sum to `total`, at most `most` of them, falling."""
    if total == 0 or largest == 1:
        if total <= most:
            yield (1,) * total
    elif most > 0:
        for part in range(min(largest, total), 0, -1):
            for rest in _parts(total - part, part, most - 1):
                yield (part, *rest)


def _shared(parts: Counter[int], sizes: list[int]) -> Iterator[tuple[tuple[tuple[int, int], ...], ...]]:
    """Share equal parts out to kinds of blocks, each block at most one."""
    if not parts:
        yield tuple(() for _ in sizes)
        return
    part = max(parts)
    rest = Counter({other: count for other, count in parts.items() if other != part})
    for choice in _choices_of(sizes, parts[part]):
        left = [size - taken for size, taken in zip(sizes, choice, strict=True)]
        for others in _shared(rest, left):
            yield tuple(
                ((part, taken), *other) if taken else other for taken, other in zip(choice, others, strict=True)
            )


def _choices(sizes: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """How many blocks of each kind, at most `most` in all."""
    for total in range(min(sum(sizes), most) + 1):
        yield from _choices_of(sizes, total)


def _choices_of(sizes: Sequence[int], total: int) -> Iterator[tuple[int, ...]]:
    """How many blocks of each kind, so many in all: the more of the first kinds, the earlier."""
    if total > sum(sizes):
        return
    counts = [0] * len(sizes)
    room = [0, *itertools.accumulate(reversed(sizes))][::-1]
    first, left = 0, total
    while True:
        for kind in range(first, len(sizes)):
            counts[kind] = min(sizes[kind], left)
            left -= counts[kind]
        yield tuple(counts)
        # The last kind of which one block may be left to those behind it.
        behind = 0
        for kind in reversed(range(len(sizes))):
            if counts[kind] and behind < room[kind + 1]:
                counts[kind] -= 1
                first, left = kind + 1, behind + 1
                break
            behind += counts[kind]
        else:
            return


def _profile(
    kinds: Sequence[_Kind],
    counts: _Counts,
    alone: dict[str, list[Analysis]],
    everything: Sequence[str],
    records: tuple[int, int],
) -> Profile:
    """Return the profile with the first blocks of each kind.

    Of an analysis that reads several blocks, at most as many records are counted as there are in its blocks, and as
    change at all.
    """
    touches: list[Touch] = []
    wide: dict[str, tuple[int, int]] = {}
    for kind, groups in zip(kinds, counts, strict=True):
        names = iter(kind.blocks)
        for (less, more), blocks in groups:
            for name in itertools.islice(names, blocks):
                touches.extend(Touch(one.name, less, more) for one in alone[name])
                for analysis in kind.wide:
                    known = wide.get(analysis, (0, 0))
                    wide[analysis] = (min(known[0] + less, records[0]), min(known[1] + more, records[1]))
    touches.extend(Touch(name, less, more) for name, (less, more) in wide.items())
    touches.extend(Touch(name, *records) for name in everything)
    return Profile(tuple(touches))


#: For each way to use pairs, how often each pair is used so: for one record more or less, and for a changed record.
_Uses: TypeAlias = Mapping[Hashable, tuple[Counter[Pair], Counter[Pair]]]


def strongest(
    alone: Sequence[Sequence[Analysis]], sizes: Sequence[int], wide: Sequence[frozenset[str]], *, touched: int
) -> list[int]:
    """Return the numbers of the kinds of blocks that are enough.

    A change touches at most n blocks, `touched`. Let n other blocks each dominate block b: the analyses that read them
    `alone` tell at least as much as those of b, whatever a change does to it, and all other analyses (`wide`) read them
    where they read b. A profile that touches b leaves one of these untouched, for b itself is one of its n at most;
    with that in the place of b it tells at least as much. So b may be left out, and so on: the blocks that remain are
    enough. Pairs are compared as declared. What a chain of changes does follows: the more a step tells, the more the
    chain.
    """
    uses = [_uses(one) for one in alone]
    order = sorted(range(len(uses)), key=lambda index: _noise(alone[index]))
    found: list[int] = []
    for index in order:
        missing = touched
        for other in found:
            if missing > 0 and wide[other] == wide[index] and _tells_more(uses[other], uses[index]):
                missing -= sizes[other]
        if missing > 0:
            found.append(index)
    return sorted(found)


def _uses(analyses: Sequence[Analysis]) -> _Uses:
    found: dict[Hashable, tuple[Counter[Pair], Counter[Pair]]] = {}
    for one in analyses:
        replaced = one.replaced if isinstance(one.replaced, Pair) else None
        use = (one.declared, one.domain, one.attained, one.replaced if replaced is None else "pair")
        pairs, changed = found.setdefault(use, (Counter(), Counter()))
        pairs[one.pair] += one.repeats
        if replaced is not None:
            changed[replaced] += one.repeats
    return found


def _tells_more(more: _Uses, less: _Uses) -> bool:
    """Whether for each use the pairs of one block dominate those of another."""
    if more.keys() != less.keys():
        return False
    return all(
        dominates(frozenset(larger.items()), frozenset(smaller.items()))
        for use, both in less.items()
        for larger, smaller in zip(more[use], both, strict=True)
    )


def _noise(analyses: Sequence[Analysis]) -> float:
    """Less noise first, where it is known: nothing rests on the order but how soon others are found dominated."""
    orders = [noise_order(one.pair) for one in analyses]
    return sum(float(sum(order.amounts)) for order in orders if order is not None)
