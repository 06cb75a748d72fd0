"""Expand a release plan of a study file: granularity, blocks, profiles, and analyses whose pairs are swept."""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NoReturn

from pbdist.errors import InvalidInputError
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
from pbdist.mechanisms import Pair, Product, WorstOf
from pbdist.study.cells import PairTable
from pbdist.study.document import Document, Problems, read_each, shown
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
#: A text of at most 100 letters that begins and ends with none that is a space.
_LABEL = re.compile(r"\S(.{0,98}\S)?")
#: Blocks that are given by their number.
_MAX_BLOCKS = 100_000


@dataclass(frozen=True)
class MechanismEntry:
    """An entry of a study's list of mechanisms: where it is, its label, and its pairs."""

    document: Document
    label: str
    pairs: PairTable


def mechanism_entry(document: Document) -> MechanismEntry:
    """Return an entry of a study's list of mechanisms, which may be a release plan."""
    problems = Problems()
    own = ("label", "adjacency")
    with problems.collected():
        if isinstance(document.data, dict) and document.data.get("kind") == RELEASE_PLAN:
            plans = read_each(partial(_plans, document, own), settings_of(document, own))
            pairs = PairTable.listed([*itertools.chain(*plans)])
        else:
            pairs = pairs_of_entry(document, (*study_kinds(), RELEASE_PLAN), own)
    values = document.data if isinstance(document.data, dict) else {}
    label = values.get("label", values.get("kind"))
    if "label" in values and not (isinstance(label, str) and _LABEL.fullmatch(label) and label.isprintable()):
        problems.found.append(document.problem(("label",), f"expected a short text on one line, got {shown(label)}"))
    problems.refuse()
    return MechanismEntry(document, str(label), pairs)


def _plans(entry: Document, own: tuple[str, ...], values: Values) -> list[Pair]:
    """Return the plans of one setting: every combination of the grids within the analyses."""
    known = ("kind", *(one.name for one in fields(ReleasePlan)), *own, "settings")
    check_keys(entry, values, known, ("granularity", "analyses")).refuse()
    problems = Problems()
    blocks: Blocks | None = None
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
        try:
            pair = ReleasePlan(granularity, tuple(itertools.chain(*choice)), blocks, tuple(profiles)).pair()
        except InvalidInputError as error:
            _refuse_plan(entry, values, alternatives, error)
        # A product too is the worst of one, so that stores have a column of the scale that all share.
        found.append(WorstOf(pair) if isinstance(pair, Product) else pair)
    return found


def _refuse_plan(
    entry: Document, values: Values, alternatives: Sequence[Sequence[Sequence[Analysis]]], error: InvalidInputError
) -> NoReturn:
    """Refuse a plan: at the field of an analysis that its error names, or of the plan."""
    for item, found in zip(values["analyses"].items(), alternatives, strict=True):
        names = {run.name for runs in found for run in runs}
        if any(str(error).startswith(f"{name}.") for name in names):
            refuse_constructed(item, values_of(item), error)
    refuse_constructed(entry, values, error)


def granularity_at(document: Document) -> Granularity:
    """Return a granularity: a name, or a name with its parameters."""
    value = document.data
    if isinstance(value, str) and value in _SIMPLE:
        return _SIMPLE[value]()
    given = next(iter(value), None) if isinstance(value, dict) else value
    if not isinstance(value, dict) or len(value) != 1 or given not in (*_WITH_PARAMETERS, "given"):
        near = did_you_mean(given, (*_SIMPLE, *_WITH_PARAMETERS, "given"))
        document.refuse(f"expected one of {', '.join((*_SIMPLE, *_EXAMPLES))}, got {shown(value)}{near}")
    (name,) = value
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
    key = next((key for key in _BLOCKS if isinstance(value, dict) and key in value), None)
    if key is None:
        document.refuse(f"expected a partition, overlapping blocks or memberships, got {shown(value)}")
    kind = _BLOCKS[key]
    first = fields(kind)[0].name
    return constructed(document, kind, keys={first: key}, read={"blocks": _names})


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
    pairs = expand_entry(values["pair"])
    replaced: Sequence[Any] = [values["replaced"].data if "replaced" in values else None]
    if isinstance(replaced[0], dict):
        replaced = expand_entry(values["replaced"])
    each = _each_block(values, blocks)
    own = {key: value for key, value in values.items() if key != "reads_each"}
    found: list[tuple[Analysis, ...]] = []
    for pair, other in itertools.product(pairs, replaced):
        read = {"pair": _always(pair), "replaced": _always(other), "declared": granularity_at}
        analysis = constructed(entry, Analysis, own, read=read)
        found.append((analysis,) if each is None else on_each_block(analysis, each))
    return found


def _always(value: Any) -> Callable[[Document], Any]:
    return lambda _: value


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
