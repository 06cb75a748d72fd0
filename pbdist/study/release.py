"""Expand a release plan of a study file: granularity, blocks, profiles, and analyses whose pairs are swept."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.notions import (
    Bounded,
    EdgeLevel,
    FreeLunch,
    GivenRelation,
    Granularity,
    NodeLevel,
    Unbounded,
    UserLevel,
)
from pbdist.granularity.release.declared import (
    Analysis,
    Blocks,
    Memberships,
    Overlapping,
    Partition,
    Profile,
    Touch,
    on_each_block,
)
from pbdist.granularity.release.plan import ReleasePlan
from pbdist.mechanisms import Adjacency, Pair, Product, WorstOf
from pbdist.study.cells import Block
from pbdist.study.document import Document, Problems, read_each
from pbdist.study.entries import MAX_MADE, expand_entry, pairs_of_entry, settings_of, study_kinds
from pbdist.study.fields import Values, check_keys, constructed, refuse_constructed, values_of
from pbdist.suggestions import did_you_mean

#: The kind of entry that is no pair by itself.
RELEASE_PLAN = "ReleasePlan"
_SIMPLE: Mapping[str, type[Granularity]] = {
    "unbounded": Unbounded,
    "bounded": Bounded,
    "edge-level": EdgeLevel,
    "free-lunch": FreeLunch,
}
_WITH_PARAMETERS: Mapping[str, type[Granularity]] = {"user-level": UserLevel, "node-level": NodeLevel}
_EXAMPLES = ("{user-level: {records: ..}}", "{node-level: {degree: .., presence: public}}", "{given: ..}")
#: The classes of blocks by their first key, which is the first of their fields.
_BLOCKS: Mapping[str, type[Blocks]] = {"partition": Partition, "overlapping": Overlapping, "memberships": Memberships}
#: What plans of a granularity are for; of the others nothing is known.
_NEIGHBOURS: Mapping[Any, Adjacency] = {
    "bounded": Adjacency.REPLACE_ONE,
    **dict.fromkeys(("unbounded", "edge-level", "user-level", "node-level"), Adjacency.ADD_OR_REMOVE),
}
#: A text of at most 100 letters that begins and ends with none that is a space.
_LABEL = re.compile(r"\S(.{0,98}\S)?")
#: Blocks that are given by their number.
_MAX_BLOCKS = 100_000


@dataclass(frozen=True)
class MechanismEntry:
    """An entry of a study's list of mechanisms: where it is, its label, and its pairs."""

    document: Document
    label: str
    blocks: Sequence[Block]
    #: What its pairs say of their neighbours, or a plan by its granularity, each with the name of what says it.
    said: Sequence[tuple[str, Adjacency]]

    @property
    def adjacencies(self) -> set[Adjacency]:
        """What its pairs say of their neighbours."""
        return {one for block in self.blocks for one in block.adjacencies}


def mechanism_entry(document: Document) -> MechanismEntry:
    """Return an entry of a study's list of mechanisms, which may be a release plan."""
    problems, own = Problems(), ("label", "adjacency")
    names: list[Any] = []
    with problems.collected():
        if isinstance(document.data, dict) and document.data.get("kind") == RELEASE_PLAN:
            settings = settings_of(document, own)
            plans = read_each(partial(_plans, document, own), settings)
            blocks = [Block.listed([*itertools.chain(*plans)])]
            given = [values["granularity"].data for values in settings]
            names = [next(iter(one)) if isinstance(one, dict) else one for one in given]
        else:
            blocks = pairs_of_entry(document, (*study_kinds(), RELEASE_PLAN), own)
    values = document.data if isinstance(document.data, dict) else {}
    label = values.get("label", values.get("kind"))
    if "label" in values and not (isinstance(label, str) and _LABEL.fullmatch(label) and label.isprintable()):
        problems.found.append(document.problem(("label",), f"expected a short text on one line, got {shown(label)}"))
    problems.refuse()
    said = [(str(label), one) for block in blocks for one in sorted(block.adjacencies)]
    said += [(f"{label} of granularity {name}", _NEIGHBOURS[name]) for name in names if name in _NEIGHBOURS]
    return MechanismEntry(document, str(label), blocks, said)


def _plans(entry: Document, own: tuple[str, ...], values: Values) -> list[Pair]:
    """Return the plans of one setting: every combination of the grids within the analyses."""
    known = ("kind", *(one.name for one in fields(ReleasePlan)), *own, "settings")
    check_keys(entry, values, known, ("granularity", "analyses")).refuse()
    problems, blocks = Problems(), None
    profiles: list[Profile] = []
    with problems.collected():
        granularity = granularity_at(values["granularity"])
    with problems.collected():
        if "blocks" in values:
            # Without its blocks a plan cannot tell what reads what.
            blocks = blocks_at(values["blocks"])
        alternatives = read_each(partial(_analysis, blocks), values["analyses"].items())
    with problems.collected():
        if "profiles" in values:
            profiles = read_each(profile_at, values["profiles"].items())
    problems.refuse()
    count = math.prod(map(len, alternatives))
    if count > MAX_MADE:
        entry.refuse(f"expected at most {MAX_MADE} noise settings, got {count}")
    found: list[Pair] = []
    for choice in itertools.product(*alternatives):
        runs = tuple(itertools.chain(*choice))
        try:
            pair = ReleasePlan(granularity, runs, blocks, tuple(profiles)).pair()
        except InvalidInputError as error:
            # At the field of an analysis that the error names, or of the plan.
            for item, its in zip(values["analyses"].items(), choice, strict=True):
                if any(str(error).startswith(f"{run.name}.") for run in its):
                    refuse_constructed(item, values_of(item), error)
            refuse_constructed(entry, values, error)
        # A product too is the worst of one, so that stores have a column of the scale that all share.
        found.append(WorstOf(pair) if isinstance(pair, Product) else pair)
    return found


def granularity_at(document: Document) -> Granularity:
    """Return a granularity: a name, or a name with its parameters."""
    value = document.data
    name, *others = value if isinstance(value, dict) and value else (value,)
    if isinstance(value, str) and value in _SIMPLE:
        return _SIMPLE[value]()
    if not isinstance(value, dict) or others or name not in (*_WITH_PARAMETERS, "given"):
        near = did_you_mean(name, (*_SIMPLE, *_WITH_PARAMETERS, "given"))
        document.refuse(f"expected one of {', '.join((*_SIMPLE, *_EXAMPLES))}, got {shown(value)}{near}")
    if name in _WITH_PARAMETERS:
        return constructed(document.at(name), _WITH_PARAMETERS[name])
    if not isinstance(value[name], str) or not value[name]:
        document.at(name).refuse(f"expected the name of a relation, got {shown(value[name])}")
    return GivenRelation(value[name], _undecided)


def _undecided(first: object, second: object) -> bool:
    """Refuse to decide: a study file declares profiles, and no plan needs more."""
    raise InvalidInputError(f"granularity: expected a relation as a function to decide of {first!r} and {second!r}")


def blocks_at(document: Document) -> Blocks:
    """Return blocks: a partition, overlapping ones, or the sets of blocks of one record."""
    value = document.data
    for key, kind in _BLOCKS.items():
        if isinstance(value, dict) and key in value:
            return constructed(document, kind, keys={fields(kind)[0].name: key}, read={"blocks": _names})
    document.refuse(f"expected a partition, overlapping blocks or memberships, got {shown(value)}")


def _names(document: Document) -> Sequence[Any]:
    """Return the names of blocks; a number stands for that many blocks ``block 1``, ``block 2``, .."""
    value = document.data
    if type(value) is int and 1 <= value <= _MAX_BLOCKS:
        return [f"block {number}" for number in range(1, value + 1)]
    if not isinstance(value, list):
        document.refuse(f"expected a list of names, or a number from 1 to {_MAX_BLOCKS}, got {shown(value)}")
    return value


def profile_at(document: Document) -> Profile:
    """Return a profile."""
    touch = partial(constructed, kind=Touch)
    return constructed(document, Profile, read={"touches": lambda listed: read_each(touch, listed.items())})


def _analysis(blocks: Blocks | None, entry: Document) -> list[tuple[Analysis, ...]]:
    """Return the alternatives of one analysis, each as its runs: every combination of the grids of its pairs."""
    if not isinstance(entry.data, dict):
        entry.refuse(f"expected a mapping with a name and a pair, got {shown(entry.data)}")
    return [*itertools.chain(*read_each(partial(_runs, entry, blocks), settings_of(entry)))]


def _runs(entry: Document, blocks: Blocks | None, values: Values) -> list[tuple[Analysis, ...]]:
    known = (*(one.name for one in fields(Analysis)), "reads_each", "settings")
    check_keys(entry, values, known, ("name", "pair")).refuse()
    pairs: list[Any] = expand_entry(values["pair"])
    replaced: list[Any] = [None]
    if "replaced" in values:
        at = values["replaced"]
        replaced = expand_entry(at) if isinstance(at.data, dict) else [at.data]
    each = _each_block(values, blocks)
    own = {key: value for key, value in values.items() if key != "reads_each"}
    found: list[tuple[Analysis, ...]] = []
    for chosen in itertools.product(pairs, replaced):
        pair, other = ((lambda _, value=value: value) for value in chosen)
        analysis = constructed(entry, Analysis, own, read={"pair": pair, "replaced": other, "declared": granularity_at})
        found.append((analysis,) if each is None else on_each_block(analysis, each))
    return found


def _each_block(values: Values, blocks: Blocks | None) -> tuple[str, ...] | None:
    """Return the blocks that have a run of their own; None where the analysis is one run."""
    if "reads_each" not in values:
        return None
    listed, known = values["reads_each"], () if blocks is None else tuple(blocks.blocks)
    if "reads" in values:
        listed.refuse("expected none beside reads, got both")
    if listed.data == "all" and known:
        return known
    if not isinstance(listed.data, list) or not listed.data:
        lacking = "" if known else ", and the plan has no blocks"
        listed.refuse(f"expected all, or a list of blocks, got {shown(listed.data)}{lacking}")
    for item in listed.items():
        if not isinstance(item.data, str) or item.data not in known:
            near = did_you_mean(item.data, known)
            item.refuse(f"expected a block among {shown(sorted(known))}, got {shown(item.data)}{near}")
    return tuple(listed.data)
