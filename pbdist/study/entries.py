"""Read an entry of a study's list of mechanisms: its keys and values are those that its kind declares.

The entry of a release plan has a granularity, blocks, profiles, and analyses whose pairs are swept.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity import notions
from pbdist.granularity.notions import Granularity
from pbdist.granularity.release import declared as release
from pbdist.granularity.release.declared import Analysis, Blocks, Profile
from pbdist.granularity.release.plan import ReleasePlan
from pbdist.mechanisms import (
    MECHANISMS,
    Adjacency,
    ElementaryPair,
    Form,
    Histogram,
    HistogramFiles,
    Pair,
    Parameter,
    Product,
    WorstOf,
    parameters_of,
)
from pbdist.study import fields as reading
from pbdist.study.columns import Block, fields_of, unlike
from pbdist.study.document import Document, Problems, read_each
from pbdist.suggestions import did_you_mean, likely
from pbdist.types import JsonValue

#: Larger studies are refused.
MAX_SETTINGS = 20_000_000
#: So many pairs are made at once: those that mechanisms are made of.
MAX_MADE = 2_000_000

#: The values of each parameter, in the order of the grids.
Grids: TypeAlias = Mapping[str, Sequence[Any]]
#: Makes a pair of one value of each parameter.
Make: TypeAlias = Callable[[Sequence[Any]], Pair]
#: The kind of entry that is no pair by itself.
RELEASE_PLAN = "ReleasePlan"
_GRANULARITIES: Mapping[str, type[Granularity]] = {
    "unbounded": notions.Unbounded,
    "bounded": notions.Bounded,
    "edge-level": notions.EdgeLevel,
    "free-lunch": notions.FreeLunch,
    "user-level": notions.UserLevel,
    "node-level": notions.NodeLevel,
}
_SIMPLE = tuple(name for name, kind in _GRANULARITIES.items() if not fields(kind))
_EXAMPLES = ("{user-level: {records: ..}}", "{node-level: {degree: .., presence: public}}", "{given: ..}")
#: The classes of blocks by their first key, which is the first of their fields.
_BLOCKS: Mapping[str, type[Blocks]] = {
    "partition": release.Partition,
    "overlapping": release.Overlapping,
    "memberships": release.Memberships,
}
#: What plans of a granularity are for; of the others nothing is known.
_NEIGHBOURS: Mapping[Any, Adjacency] = {
    "bounded": Adjacency.REPLACE_ONE,
    **dict.fromkeys(("unbounded", "edge-level", "user-level", "node-level"), Adjacency.ADD_OR_REMOVE),
}
#: A text of at most 100 letters that begins and ends with none that is a space.
_LABEL = re.compile(r"\S(.{0,98}\S)?")
#: Blocks that are given by their number.
_MAX_BLOCKS = 100_000


def accepted_grid(kind: str, grids: Grids, make: Make) -> Block:
    """Return the pairs of all combinations of the grids.

    Guaranteed: the constructor accepts all of them. It raises what it raises for those that it refuses.
    """
    varying = [name for name, values in grids.items() if len(values) > 1]
    given = {name for name, values in grids.items() if None not in values}  # A default may follow from others.

    def pair(**chosen: Any) -> Pair:
        return make([chosen.get(name, values[0]) for name, values in grids.items()])

    held, axes = fields_of(base := pair()), dict[str, list[Any]]()
    for name in varying:
        for value in grids[name]:
            one = fields_of(pair(**{name: value}))
            # Where a field follows from what varies, as the split of a staircase from its ε, no grid has the pairs.
            follows = any(one[other] != held[other] for other in held.keys() - given)
            if follows or (name not in held and not issubclass(MECHANISMS[kind], Product)):
                return Block.listed([make(values) for values in itertools.product(*grids.values())])
            axes.setdefault(name, []).append(one[name])
    for together in _tried(MECHANISMS[kind], grids, varying):
        pair(**together)
    return Block.grid(base, axes)


def _tried(kind: type[Pair], grids: Grids, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield what is to be tried besides each value with the first ones of the others."""
    if issubclass(kind, Product):
        # Of the pairs of a product only that they are for the same neighbours is checked together.
        tried = {name: [grids[name][place] for place in unlike(grids[name])] for name in names}
        tried = {name: values for name, values in tried.items() if len(values) > 1}
    else:
        wanted = kind.tried_together(grids)
        tried = {name: list(grids[name]) for name in names if name in wanted}
        tried |= {name: [max(values)] for name, values in tried.items() if name in kind.largest_decides}
    if len(tried) > 1:
        yield from (dict(zip(tried, chosen, strict=True)) for chosen in itertools.product(*tried.values()))


def study_kinds() -> tuple[str, ...]:
    """Return the kinds of mechanisms that an entry may have."""
    return tuple(name for name, kind in MECHANISMS.items() if kind.in_studies)


def expand_entry(entry: Document, kinds: tuple[str, ...] | None = None) -> list[Pair]:
    """Return the pairs of an entry, as `pairs_of_entry` has them; too many to make them all are refused."""
    blocks = pairs_of_entry(entry, study_kinds() if kinds is None else kinds)
    count = sum(block.size for block in blocks)
    if count > MAX_MADE:
        entry.refuse(f"expected at most {MAX_MADE} noise settings, got {count}")
    return [pair for block in blocks for pair in block.pairs()]


def pairs_of_entry(entry: Document, kinds: tuple[str, ...], own: tuple[str, ...] = ()) -> list[Block]:
    """Return the pairs of an entry: those of each of its settings, one after the other.

    `kinds` are the allowed kinds; `own` are keys of the entry that are not parameters of the mechanism. Keys that are
    unknown or missing, wrong values, and what a mechanism refuses are a `StudyFileError`.
    """
    if not isinstance(entry.data, dict):
        entry.refuse(f"expected a mapping with a kind, got {shown(entry.data)}")
    kind = entry.data.get("kind")
    if kind not in kinds:
        _refuse_kind(entry, kinds)
    return read_each(partial(_expand, entry, kind, (*own, "settings")), settings_of(entry, own))


def _refuse_kind(entry: Document, kinds: tuple[str, ...]) -> NoReturn:
    kind = entry.data.get("kind")
    expected = f"expected a kind among {', '.join(kinds)}, got {shown(kind)}"
    if "kind" in entry.data:
        if near := did_you_mean(kind, kinds, reading.other_kinds()):
            entry.at("kind").refuse(f"expected a kind, got {shown(kind)}{near} The kinds are {', '.join(kinds)}")
        own = ": for one of your own, say --import MODULE" if isinstance(kind, str) and kind.isidentifier() else ""
        entry.at("kind").refuse(f"{expected}{own}")
    # The key may be misspelt.
    for key, value in entry.data.items():
        if likely(key, ("kind",)) or value in kinds:
            entry.at(key).refuse(f"{expected}: did you mean the key kind?")
    entry.refuse(expected)


def settings_of(entry: Document, own: tuple[str, ...] = ()) -> list[reading.Values]:
    """Return the values of each of an entry's ``settings``, and those beside them, which all settings share."""
    shared = {key: value for key, value in reading.values_of(entry).items() if key not in ("settings", *own)}
    if "settings" not in entry.data:
        return [shared]

    def together(setting: Document) -> reading.Values:
        if not isinstance(setting.data, dict) or not setting.data:
            setting.refuse(f"expected a mapping of parameters, got {shown(setting.data)}")
        for key in setting.data.keys() & shared.keys():
            setting.at(key).refuse("expected each parameter once, got it beside the settings too")
        return {**shared, **reading.values_of(setting)}

    return read_each(together, reading.some(entry.at("settings"), "mappings of parameters"))


def _expand(entry: Document, kind: str, also: tuple[str, ...], values: reading.Values) -> Block:
    """Return the product of the grids of one setting, the first parameter of the kind varying slowest."""
    make: Callable[..., Pair] = MECHANISMS[kind]
    declared = parameters_of(MECHANISMS[kind])
    if MECHANISMS[kind] is Histogram and "file" in values:
        declared, folder = parameters_of(HistogramFiles), Path(entry.source).parent

        # The study holds the histogram: its digest depends on the counts, and not on the place.
        def make(**given: Any) -> Pair:
            return HistogramFiles(**given).read(folder)

    required = [name for name, one in declared.items() if one.required]
    problems = reading.check_keys(entry, values, ("kind", *declared, *also), required, owner=kind)
    grids: dict[str, Sequence[Any]] = {}
    for name, one in declared.items():
        if name in values and (one.required or values[name].data is not None):
            with problems.collected():
                grids |= _alternatives(values[name], kind, one)
    problems.refuse()
    count = math.prod(map(len, grids.values()))
    if count > MAX_SETTINGS:
        entry.refuse(f"expected at most {MAX_SETTINGS} noise settings, got {count}")

    def made(chosen: Sequence[Any]) -> Pair:
        arguments = dict(zip(grids, chosen, strict=True))
        # Constructors take a list of mechanisms one by one.
        listed = [arguments.pop(name) for name in grids if name.endswith("]")]
        return make(*listed, **arguments)

    try:
        return accepted_grid(kind, grids, made)
    except InvalidInputError as error:
        reading.refuse_constructed(entry, values, error)


def _alternatives(given: Document, kind: str, one: Parameter) -> dict[str, Sequence[Any]]:
    """Return the alternatives of a parameter; of a list of mechanisms those of each of them."""
    form = one.domain.form
    if form is Form.MECHANISM:
        elementary = tuple(name for name in study_kinds() if issubclass(MECHANISMS[name], ElementaryPair))
        return {one.name: expand_entry(given, one.domain.kinds or elementary)}
    if form is Form.MECHANISMS:
        items = reading.some(given, "mechanisms")
        every = read_each(partial(expand_entry, kinds=one.domain.kinds or study_kinds()), items)
        return {f"{one.name}[{index}]": pairs for index, pairs in enumerate(every)}
    check = reading.checked(partial(one.domain.check, kind, one.name))
    if form is Form.NUMBER:
        return {one.name: reading.numbers(given, check)}

    def read(document: Document) -> Any:
        if isinstance(document.data, list) and form in (Form.NUMBERS, Form.TWO_NUMBERS, Form.LIMITS, Form.MASSES):
            # All that are no numbers, not the first alone.
            read_each(reading.number, document.items())
        return check(document)

    return {one.name: reading.each(given, read) if _are_alternatives(one, given.data) else (read(given),)}


def _are_alternatives(one: Parameter, value: JsonValue) -> bool:
    """Whether a value is a list of values of a parameter, and not one value."""
    form = one.domain.form
    if not isinstance(value, list) or not value or form is Form.MASSES or one in parameters_of(HistogramFiles).values():
        return False
    listed = all(isinstance(x, list) or (x is None and form is Form.LIMITS) for x in value)
    return form is Form.NAME or listed


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
        return {said for name, said in self.said if name == self.label}


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


def _plans(entry: Document, own: tuple[str, ...], values: reading.Values) -> list[Pair]:
    """Return the plans of one setting: every combination of the grids within the analyses."""
    known = ("kind", *(one.name for one in fields(ReleasePlan)), *own, "settings")
    reading.check_keys(entry, values, known, ("granularity", "analyses")).refuse()
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
                    reading.refuse_constructed(item, reading.values_of(item), error)
            reading.refuse_constructed(entry, values, error)
        # A product too is the worst of one, so that stores have a column of the scale that all share.
        found.append(WorstOf(pair) if isinstance(pair, Product) else pair)
    return found


def granularity_at(document: Document) -> Granularity:
    """Return a granularity: a name, or a name with its parameters."""
    value = document.data
    name, *others = value if isinstance(value, dict) and value else (value,)
    known = _SIMPLE if isinstance(value, str) else [one for one in (*_GRANULARITIES, "given") if one not in _SIMPLE]
    if others or name not in known:
        near = did_you_mean(name, (*_GRANULARITIES, "given"))
        document.refuse(f"expected one of {', '.join((*_SIMPLE, *_EXAMPLES))}, got {shown(value)}{near}")
    if name != "given":
        kind = _GRANULARITIES[name]
        return kind() if isinstance(value, str) else reading.constructed(document.at(name), kind)
    if not isinstance(value[name], str) or not value[name]:
        document.at(name).refuse(f"expected the name of a relation, got {shown(value[name])}")
    return notions.GivenRelation(value[name], _undecided)


def _undecided(first: object, second: object) -> bool:
    """Refuse to decide: a study file declares profiles, and no plan needs more."""
    raise InvalidInputError(f"granularity: expected a relation as a function to decide of {first!r} and {second!r}")


def blocks_at(document: Document) -> Blocks:
    """Return blocks: a partition, overlapping ones, or the sets of blocks of one record."""
    value = document.data
    for key, kind in _BLOCKS.items():
        if isinstance(value, dict) and key in value:
            return reading.constructed(document, kind, keys={fields(kind)[0].name: key}, read={"blocks": _names})
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
    touch = partial(reading.constructed, kind=release.Touch)
    return reading.constructed(document, Profile, read={"touches": lambda listed: read_each(touch, listed.items())})


def _analysis(blocks: Blocks | None, entry: Document) -> list[tuple[Analysis, ...]]:
    """Return the alternatives of one analysis, each as its runs: every combination of the grids of its pairs."""
    if not isinstance(entry.data, dict):
        entry.refuse(f"expected a mapping with a name and a pair, got {shown(entry.data)}")
    return [*itertools.chain(*read_each(partial(_runs, entry, blocks), settings_of(entry)))]


def _runs(entry: Document, blocks: Blocks | None, values: reading.Values) -> list[tuple[Analysis, ...]]:
    known = (*(one.name for one in fields(Analysis)), "reads_each", "settings")
    reading.check_keys(entry, values, known, ("name", "pair")).refuse()
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
        analysis = reading.constructed(
            entry, Analysis, own, read={"pair": pair, "replaced": other, "declared": granularity_at}
        )
        found.append((analysis,) if each is None else release.on_each_block(analysis, each))
    return found


def _each_block(values: reading.Values, blocks: Blocks | None) -> tuple[str, ...] | None:
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
        if item.data not in known:
            near = did_you_mean(item.data, known)
            item.refuse(f"expected a block among {shown(sorted(known))}, got {shown(item.data)}{near}")
    return tuple(listed.data)
