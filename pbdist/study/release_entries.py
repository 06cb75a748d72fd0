"""Expand a release plan of a study file: granularity, blocks, profiles, and analyses whose pairs are swept."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NoReturn, TypeAlias

from pydantic import BaseModel

from pbdist.errors import InvalidInputError, StudyFileError
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
from pbdist.study.document import Document, Keys, Problems, shown, unknown_key
from pbdist.study.entries import MOST_MADE, expand_entry, grids_of_entry, settings_of, study_kinds
from pbdist.study.models import STRICT, model_at, refuse, value_at
from pbdist.suggestions import did_you_mean

_SIMPLE: Mapping[str, type[Granularity]] = {
    "unbounded": Unbounded,
    "bounded": Bounded,
    "edge-level": EdgeLevel,
    "free-lunch": FreeLunch,
}
_WITH_PARAMETERS: Mapping[str, type[Granularity]] = {"user-level": UserLevel, "node-level": NodeLevel}
_GRANULARITIES = (
    *_SIMPLE,
    "{user-level: {records: ..}}",
    "{node-level: {degree: .., presence: public}}",
    "{given: ..}",
)
#: Blocks that are given by their number.
_MOST_BLOCKS = 100_000


class _PartitionEntry(BaseModel):
    model_config = STRICT
    partition: Any
    exhaustive: bool = True


class _OverlappingEntry(BaseModel):
    model_config = STRICT
    overlapping: Any
    at_most: int
    exhaustive: bool = False


class _MembershipsEntry(BaseModel):
    model_config = STRICT
    memberships: list[Any]


class _ProfileEntry(BaseModel):
    model_config = STRICT
    touches: list[Any]
    attained: bool = False


class _TouchEntry(BaseModel):
    model_config = STRICT
    analysis: str
    removed: int = 0
    added: int = 0


def granularity_at(document: Document, keys: Keys) -> Granularity:
    """Return the granularity at some keys: a name, or a name with its parameters."""
    value = value_at(document, keys)
    if isinstance(value, str) and value in _SIMPLE:
        return _SIMPLE[value]()
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in (*_WITH_PARAMETERS, "given"):
        given = next(iter(value), None) if isinstance(value, dict) else value
        near = did_you_mean(given, (*_SIMPLE, *_WITH_PARAMETERS, "given"))
        refuse(document, keys, f"expected one of {', '.join(_GRANULARITIES)}, got {shown(value)}{near}")
    name, parameters = next(iter(value.items()))
    at = (*keys, name)
    if name == "given":
        if not isinstance(parameters, str) or not parameters:
            refuse(document, at, f"expected the name of a relation, got {shown(parameters)}")
        return GivenRelation(parameters, _not_decided)
    kind = _WITH_PARAMETERS[name]
    names = [field.name for field in fields(kind)]
    if not isinstance(parameters, dict) or not parameters:
        refuse(document, at, f"expected a mapping with {', '.join(names)}, got {shown(parameters)}")
    for key in parameters:
        if key not in names:
            refuse(document, (*at, key), unknown_key("", key, names))
    try:
        return kind(**parameters)
    except InvalidInputError as error:
        refuse_field(document, at, {key: (*at, key) for key in parameters}, str(error).partition(".")[2])


def _not_decided(first: object, second: object) -> bool:
    """Refuse to tell neighbours: a study file declares profiles, which is all that a plan needs."""
    raise InvalidInputError(
        f"granularity: expected a relation as a function, got the name of one, for {shown(first)} and {shown(second)}"
    )


def blocks_at(document: Document, keys: Keys) -> Blocks:
    """Return the blocks at some keys: a partition, overlapping ones, or the sets of blocks of one record."""
    value = value_at(document, keys)
    made: Blocks
    try:
        if isinstance(value, dict) and "partition" in value:
            cut = model_at(document, keys, _PartitionEntry)
            made = Partition(_names(document, (*keys, "partition")), cut.exhaustive)
        elif isinstance(value, dict) and "overlapping" in value:
            groups = model_at(document, keys, _OverlappingEntry)
            made = Overlapping(_names(document, (*keys, "overlapping")), groups.at_most, groups.exhaustive)
        elif isinstance(value, dict) and "memberships" in value:
            made = Memberships(tuple(model_at(document, keys, _MembershipsEntry).memberships))
        else:
            refuse(document, keys, f"expected a partition, overlapping blocks or memberships, got {shown(value)}")
    except StudyFileError:
        raise
    except InvalidInputError as error:
        field, _, problem = str(error).partition(": ")
        kind, _, name = field.partition(".")
        refuse(document, (*keys, name if name in value else kind.lower()), problem)
    return made


def _names(document: Document, keys: Keys) -> tuple[str, ...]:
    """Return the names of blocks; a number stands for that many blocks ``block 1``, ``block 2``, .."""
    value = value_at(document, keys)
    if type(value) is int and 1 <= value <= _MOST_BLOCKS:
        return tuple(f"block {number}" for number in range(1, value + 1))
    if not isinstance(value, list):
        refuse(document, keys, f"expected a list of names, or a number from 1 to {_MOST_BLOCKS}, got {shown(value)}")
    return tuple(value)


def profile_at(document: Document, keys: Keys) -> Profile:
    """Return the profile at some keys."""
    entry = model_at(document, keys, _ProfileEntry)
    touches, problems = [], Problems()
    for index in range(len(entry.touches)):
        with problems.collected():
            touches.append(_touch(document, (*keys, "touches", index)))
    problems.refuse()
    try:
        return Profile(tuple(touches), entry.attained)
    except InvalidInputError as error:
        refuse_field(document, keys, None, str(error).removeprefix("Profile."))


def _touch(document: Document, keys: Keys) -> Touch:
    entry = model_at(document, keys, _TouchEntry)
    try:
        return Touch(entry.analysis, entry.removed, entry.added)
    except InvalidInputError as error:
        refuse_field(document, keys, None, str(error).removeprefix("Touch.").removeprefix("Touch: "))


def refuse_field(document: Document, keys: Keys, paths: Mapping[str, Keys] | None, text: str) -> NoReturn:
    """Refuse with an error ``field: problem`` of a constructor, at the field where it is in the file."""
    field, found, problem = text.partition(": ")
    if not found or not field.isidentifier():
        refuse(document, keys, text)
    refuse(document, (*keys, field) if paths is None else paths.get(field, (*keys, field)), problem)


#: The kind of entry that is no pair by itself.
RELEASE_PLAN = "ReleasePlan"
#: Alternatives of one entry of the list of analyses: one run, or one for each block.
_Runs: TypeAlias = tuple[Analysis, ...]


class _PlanEntry(BaseModel):
    model_config = STRICT
    kind: str
    granularity: Any
    analyses: list[Any]
    blocks: Any = None
    profiles: list[Any] = []


class _AnalysisEntry(BaseModel):
    model_config = STRICT
    name: str
    pair: dict[str, Any]
    reads: list[str] | None = None
    reads_each: Any = None
    declared: Any = None
    domain: str = "own"
    replaced: Any = None
    repeats: int = 1
    attained: str = "never"


def grids_of_mechanism(document: Document, keys: Keys, own: tuple[str, ...] = ()) -> list[PairTable]:
    """Return the pairs of an entry of a study's list of mechanisms, as `grids_of_entry`; a release plan has one too.

    Raises
    ------
    StudyFileError
        As `grids_of_entry`; or a plan that cannot be bounded.
    """
    entry = value_at(document, keys)
    if not isinstance(entry, dict) or entry.get("kind") != RELEASE_PLAN:
        return grids_of_entry(document, keys, (*study_kinds(), RELEASE_PLAN), own)
    problems = Problems()
    found: list[Pair] = []
    for paths in settings_of(document, keys, own):
        with problems.collected():
            found += _plans(document, keys, paths, (*own, "settings"))
    problems.refuse()
    return [PairTable.listed(found)]


def _plans(document: Document, keys: Keys, paths: Mapping[str, Keys], also: tuple[str, ...]) -> list[Pair]:
    """Return the plans of one setting: every combination of the grids within the analyses."""
    entry = model_at(document, keys, _PlanEntry, paths=paths, also=also)
    problems = Problems()
    with problems.collected():
        granularity = granularity_at(document, paths["granularity"])
    blocks = None
    with problems.collected():
        blocks = None if entry.blocks is None else blocks_at(document, paths["blocks"])
    profiles: list[Profile] = []
    for index in range(len(entry.profiles)):
        with problems.collected():
            profiles.append(profile_at(document, (*paths["profiles"], index)))
    # Without its blocks a plan cannot tell what reads what.
    if entry.blocks is not None and blocks is None:
        problems.refuse()
    places: dict[str, Keys] = {}
    alternatives: list[list[_Runs]] = []
    for index in range(len(entry.analyses)):
        at = (*paths["analyses"], index)
        with problems.collected():
            alternatives.append(_analysis(document, at, blocks))
            places.update({run.name: at for runs in alternatives[-1] for run in runs})
    problems.refuse()
    count = math.prod(map(len, alternatives))
    if count > MOST_MADE:
        refuse(document, keys, f"expected at most {MOST_MADE} noise settings, got {count}")
    found = []
    for choice in itertools.product(*alternatives):
        try:
            plan = ReleasePlan(granularity, tuple(itertools.chain(*choice)), blocks, tuple(profiles))
            found.append(_one_mechanism(plan))
        except InvalidInputError as error:
            _refuse_plan(document, keys, paths, places, error)
    return found


def _one_mechanism(plan: ReleasePlan) -> Pair:
    """Return the mechanism of a plan, a product too as the worst of one, so that stores tell the scale that all share.

    The worst of one pair that is attained is that pair.
    """
    pair = plan.pair()
    return WorstOf(pair) if isinstance(pair, Product) else pair


def _analysis(document: Document, keys: Keys, blocks: Blocks | None) -> list[_Runs]:
    """Return the alternatives of one analysis: every combination of the grids of its pairs."""
    entry = value_at(document, keys)
    if not isinstance(entry, dict):
        refuse(document, keys, f"expected a mapping with a name and a pair, got {shown(entry)}")
    problems = Problems()
    found: list[_Runs] = []
    for paths in settings_of(document, keys):
        with problems.collected():
            found += _runs(document, keys, paths, blocks)
    problems.refuse()
    return found


def _runs(document: Document, keys: Keys, paths: Mapping[str, Keys], blocks: Blocks | None) -> list[_Runs]:
    entry = model_at(document, keys, _AnalysisEntry, paths=paths, also=("settings",))
    pairs = expand_entry(document, paths["pair"])
    replaced: list[Any] = [entry.replaced]
    if isinstance(entry.replaced, dict):
        replaced = list[Any](expand_entry(document, paths["replaced"]))
    declared = Unbounded() if entry.declared is None else granularity_at(document, paths["declared"])
    each = _each_block(document, paths, entry, blocks)
    found: list[_Runs] = []
    for pair, other in itertools.product(pairs, replaced):
        given: dict[str, Any] = {
            "reads": entry.reads,
            "declared": declared,
            "domain": entry.domain,
            "replaced": other,
            "repeats": entry.repeats,
            "attained": entry.attained,
        }
        try:
            analysis = Analysis(entry.name, pair, **given)
        except InvalidInputError as error:
            refuse_field(document, keys, paths, str(error).removeprefix(f"{entry.name}.").removeprefix("Analysis."))
        found.append((analysis,) if each is None else on_each_block(analysis, each))
    return found


def _each_block(
    document: Document, paths: Mapping[str, Keys], entry: _AnalysisEntry, blocks: Blocks | None
) -> tuple[str, ...] | None:
    """Return the blocks that have a run of their own; None where the analysis is one run."""
    if entry.reads_each is None:
        return None
    if entry.reads is not None:
        refuse(document, paths["reads_each"], "expected none beside reads, got both")
    known = () if blocks is None else tuple(blocks.blocks)
    if entry.reads_each == "all" and known:
        return known
    if not isinstance(entry.reads_each, list) or not entry.reads_each:
        problem = f"expected all, or a list of blocks, got {shown(entry.reads_each)}"
        refuse(document, paths["reads_each"], problem if known else f"{problem}, and the plan has no blocks")
    for index, name in enumerate(entry.reads_each):
        if not isinstance(name, str) or name not in known:
            at = (*paths["reads_each"], index)
            near = did_you_mean(name, known)
            refuse(document, at, f"expected a block among {shown(sorted(known))}, got {shown(name)}{near}")
    return tuple(entry.reads_each)


def _refuse_plan(
    document: Document, keys: Keys, paths: Mapping[str, Keys], places: Mapping[str, Keys], error: InvalidInputError
) -> NoReturn:
    """Refuse a plan: at the field of an analysis that its error names, or of the plan."""
    text = str(error)
    for name, at in sorted(places.items(), key=lambda one: -len(one[0])):
        if text.startswith(f"{name}."):
            refuse_field(document, at, None, text.removeprefix(f"{name}."))
    refuse_field(document, keys, paths, text.removeprefix("ReleasePlan.").removeprefix("ReleasePlan: "))
