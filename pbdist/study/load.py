"""Read and check a study file; every error names the file, the line and the field.

The keys of the format are the fields of `FileKeys`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from pbdist import arguments
from pbdist.errors import InvalidInputError, StoreMismatchError, shown
from pbdist.mechanisms import MECHANISMS, Adjacency, Alternatives, between, checked_adjacency, one_of, stated
from pbdist.study import fields as reading
from pbdist.study.columns import CellTable, repeated_cells
from pbdist.study.document import Document, Problems, read_document, read_each
from pbdist.study.entries import MAX_SETTINGS, RELEASE_PLAN, MechanismEntry, mechanism_entry
from pbdist.study.fields import constructed, key
from pbdist.study.spec import COMMON, NAME, Stated, StudySpec, Target, check_common, union_of
from pbdist.table import METHODS

_Made = TypeVar("_Made")


def format_one(document: Document) -> int:
    """Return the version of a file's format, which is 1."""
    if type(document.data) is not int or document.data != 1:
        document.refuse(f"expected 1, got {shown(document.data)}")
    return 1


def _name(document: Document) -> str:
    if not isinstance(document.data, str) or not NAME.fullmatch(document.data):
        document.refuse(f"expected letters, digits, '.', '_' and '-', got {shown(document.data)}")
    return document.data


def _factor(document: Document) -> float | None:
    value = document.data
    if value == "auto":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1.0 < value < math.inf:
        document.refuse(f"expected auto or a number above 1, got {shown(value)}")
    return float(value)


_epsilon = reading.of_domain(between(0.0, arguments.MAX_EPSILON))
_exp_epsilon = reading.number_that(lambda value: value >= 1.0, "of at least 1")
_delta = reading.number_that(lambda value: 0.0 < value < 1.0, "above 0 and below 1")
_floor = reading.number_that(lambda value: 0.0 <= value < 1.0, "from 0 to below 1")
_tolerance = reading.checked(arguments.checked_tolerance)
_buckets = reading.checked(partial(arguments.checked_buckets, width=None))
_adjacency = reading.checked(lambda value: checked_adjacency(value, "adjacency").value)


@dataclass(frozen=True)
class TargetKeys:
    """A target; exactly one of ε and e^ε is given."""

    delta: float = key(_delta)
    compositions: int = key(reading.composition)
    epsilon: float | None = key(_epsilon, None)
    exp_epsilon: float | None = key(_exp_epsilon, None)

    def __post_init__(self) -> None:
        """Refuse both and neither."""
        problem = arguments.problem_of_either(epsilon=self.epsilon, exp_epsilon=self.exp_epsilon)
        if problem is not None:
            raise InvalidInputError(problem)


@dataclass(frozen=True, kw_only=True)
class FileKeys:
    """A file that holds what is new in a store; None stands for what is as in the store."""

    #: The version of the format.
    format: int = key(format_one)
    name: str = key(_name)
    description: str | None = key(reading.text, None)
    method: str | None = key(reading.of_domain(one_of(*METHODS)), None)
    tolerance: float | None = key(_tolerance, None)
    floor: float | None = key(_floor, None)
    direction: str | None = key(reading.of_domain(one_of(*arguments.DIRECTIONS)), None)
    buckets: int | None = key(_buckets, None)
    factors: tuple[float | None, ...] = key(partial(reading.listed, read=_factor), (None,))
    epsilon: tuple[float, ...] | None = key(partial(reading.numbers, read=_epsilon), None)
    exp_epsilon: tuple[float, ...] | None = key(partial(reading.numbers, read=_exp_epsilon), None)
    keep_states: bool | None = key(reading.flag, None)
    targets: Sequence[Document] = key(Document.items, ())
    extend: bool = key(reading.flag, False)
    adjacency: str | None = key(_adjacency, None)
    mechanisms: Sequence[Document] = key(partial(reading.some, what="mechanisms"), ())
    compositions: tuple[int, ...] | None = key(reading.integers, None)


@dataclass(frozen=True, kw_only=True)
class StudyKeys(FileKeys):
    """A study file."""

    mechanisms: Sequence[Document] = key(partial(reading.some, what="mechanisms"))
    compositions: tuple[int, ...] = key(reading.integers)


def load_study(path: str | Path) -> StudySpec:
    """Read and check the study file at `path`.

    Guaranteed: the constructors accept all mechanisms, so that the study can be computed.

    Raises
    ------
    StudyFileError
        With all that is wrong, each ``FILE:LINE: field.path: expected .., got ..``; also for a file with
        ``extend: true``, which is no study by itself.
    """
    found: StudySpec = read_document(Path(path), partial(_asked, alone=True))
    return found


def load_asked(path: str | Path) -> "StudySpec | Addition":
    """Read the study file at `path` as `load_study`; it may hold only what is new in a store (``extend: true``)."""
    found: StudySpec | Addition = read_document(Path(path), partial(_asked, alone=False))
    return found


def _asked(document: Document, *, alone: bool) -> Any:
    if not isinstance(document.data, dict):
        document.refuse(f"expected a mapping with a name, mechanisms and grids, got {shown(document.data)}")
    if document.data.get("extend") is not True:
        return _study(document)
    if alone:
        document.at("extend").refuse("expected a study by itself, got true: pbdist run adds what is new to a store")
    return _read(document, FileKeys, _check_new)


@dataclass(frozen=True)
class Addition:
    """What a file has, once each value is right by itself: all of a study, or only what is new in a store."""

    model: FileKeys
    entries: Sequence[MechanismEntry]
    targets: Sequence[TargetKeys]
    adjacency: Stated

    @property
    def name(self) -> str:
        """As of a study: it names the default store."""
        return self.model.name

    def problem_of_several(self, method: str, *, keep_states: bool) -> tuple[str, str] | None:
        """Return what an entry does not allow whose bounds are those of several pairs: the key, and the problem."""
        for index, entry in enumerate(self.entries):
            kind = _kind_of_several(entry.document.data)
            if kind is not None and method != "tight":
                return "method", f"expected tight with a {kind}, as mechanisms[{index}] is, got {method}"
            if kind is not None and keep_states:
                return "keep_states", f"expected false with a {kind}, as mechanisms[{index}] is, got true"
        return None

    @cached_property
    def cells(self) -> CellTable:
        """The cells of the entries with all factors."""
        return CellTable(
            block.labelled(entry.label, self.model.factors) for entry in self.entries for block in entry.blocks
        )

    def onto(self, studies: Sequence[StudySpec]) -> StudySpec:
        """Return the study whose points a store is to have, besides those of the stored `studies`: at least one.

        Guaranteed: once a store has them, the file adds nothing more to it. A `StoreMismatchError` where the file has
        other settings than the store, or cells that these settings do not allow.
        """
        stored = union_of(studies)
        check_common(stored, {name: value for name in COMMON if (value := getattr(self.model, name)) is not None})
        if problem := self.problem_of_several(stored.method, keep_states=stored.keep_states):
            raise StoreMismatchError(f"{': '.join(problem)} in the store")
        if stored.method == "tight" and stored.buckets is not None and self.model.factors != (None,):
            raise StoreMismatchError("factors: expected auto in a store of method tight with buckets, got a number")
        adjacency = {**dict(stored.adjacency), **dict(self.adjacency)}
        for entry in self.entries:
            try:
                for own in sorted(entry.adjacencies):
                    stated(own, adjacency.get(entry.label, Adjacency.AS_STATED), "adjacency", entry.label)
            except InvalidInputError as error:
                raise StoreMismatchError(f"{error} (the store states it of this label)") from error
        return self.as_study(replace(stored, adjacency=tuple(sorted(adjacency.items()))))

    def as_study(self, base: StudySpec) -> StudySpec:
        """Return a study with what the file has, and all else from `base`.

        Its grids gain the r and ε of targets that they lack.
        """
        model = self.model
        epsilon = model.epsilon or {math.log(value) for value in model.exp_epsilon or ()} or base.epsilon
        rounds, losses = sorted(model.compositions or base.compositions), sorted(epsilon)
        grids, found = (len(rounds), len(losses)), list[Target]()
        for target in self.targets:
            if target.compositions not in rounds:
                rounds.append(target.compositions)
            # Of an ε of the grid it may differ by rounding.
            if target.exp_epsilon is None:
                index = reading.nearest_match(losses, target.epsilon or 0.0)
            else:
                index = reading.nearest_exponential(losses, target.exp_epsilon)
            if index is None:
                index = len(losses)
                losses.append(target.epsilon or math.log(target.exp_epsilon or 1.0))
            found.append(Target(epsilon=losses[index], delta=target.delta, compositions=target.compositions))
        return replace(
            base,
            name=model.name,
            description=model.description,
            cells=self.cells or base.cells,
            compositions=tuple(sorted(rounds)),
            epsilon=tuple(sorted(losses)),
            targets=tuple(found),
            target_compositions=tuple(sorted(rounds[grids[0] :])),
            target_epsilon=tuple(sorted(losses[grids[1] :])),
        )


def _read(document: Document, kind: type[FileKeys], check: Callable[[Document, FileKeys], object]) -> Addition:
    """Return what a file has; all problems that do not hide each other are in one error."""
    problems = Problems()
    with problems.collected():
        model = constructed(document, kind)
        with problems.collected():
            check(document, model)
        problem = arguments.problem_of_either(epsilon=model.epsilon, exp_epsilon=model.exp_epsilon)
        if problem is not None and (kind is StudyKeys or "both" in problem):
            raise document.error(("epsilon",), problem)

    def each(name: str, read: Callable[[Document], _Made]) -> list[_Made]:
        # What is no list has been refused.
        found, listed = list[_Made](), isinstance(document.data.get(name), list)
        with problems.collected():
            found = read_each(read, document.at(name).items() if listed else ())
        return found

    entries, targets = each("mechanisms", mechanism_entry), each("targets", partial(constructed, kind=TargetKeys))
    problems.refuse()
    found = Addition(model, entries, targets, _stated_by_label(document, model.adjacency, entries))
    sizes = accumulate(sum(block.size for block in entry.blocks) * len(model.factors) for entry in entries)
    for entry, count in zip(entries, sizes, strict=True):
        if count > MAX_SETTINGS:
            entry.document.refuse(f"expected at most {MAX_SETTINGS} cells in all, got {count} up to here")
    owners = [entry.document for entry in entries for _ in entry.blocks]
    for again, cell, first in repeated_cells(found.cells):
        got = f"{cell.describe()} on line {owners[first].line()} too"
        problems.found.append(owners[again].problem((), f"expected each setting once, got {got}"))
    problems.refuse()
    return found


def _kind_of_several(entry: Mapping[str, Any]) -> str | None:
    """Return the kind of an entry, or of a factor of it, whose bounds are those of several pairs; None without any."""
    kind = str(entry["kind"])
    if kind == RELEASE_PLAN or issubclass(MECHANISMS[kind], Alternatives):
        return kind
    return next((found for found in map(_kind_of_several, entry.get("pairs", [])) if found is not None), None)


def _study(document: Document) -> StudySpec:
    found = _read(document, StudyKeys, _settings)
    model, settings = found.model, _settings(document, found.model)
    if problem := found.problem_of_several(settings["method"], keep_states=settings["keep_states"]):
        document.at(problem[0]).refuse(problem[1])
    return found.as_study(StudySpec(model.name, (), **settings, compositions=(), epsilon=(), adjacency=found.adjacency))


def _settings(document: Document, model: FileKeys) -> dict[str, Any]:
    """Return method, precision and what it is judged by, as `bounds_table` has them; refuse what has no meaning."""
    by_buckets = model.method == "buckets"
    given = None if all(factor is None for factor in model.factors) else "a factor and method tight"
    # What decides in place of a tolerance.
    reasons = {"method buckets": by_buckets, "buckets": model.buckets, "factors alone": None not in model.factors}
    instead = next((reason for reason, holds in reasons.items() if holds), None)
    refused = {
        "tolerance": "method buckets" if by_buckets else None,
        "buckets": None if by_buckets else given,
        "floor": instead,
        "direction": instead,
    }
    problems = Problems()
    for name, reason in refused.items():
        if reason is not None and (value := getattr(model, name)) is not None:
            problems.found.append(document.problem((name,), f"expected none with {reason}, got {value!r}"))
    problems.refuse()
    return {
        "method": model.method or "tight",
        "tolerance": None if by_buckets else model.tolerance or arguments.DEFAULT_TOLERANCE,
        "buckets": arguments.DEFAULT_BUCKETS if by_buckets and model.buckets is None else model.buckets,
        "keep_states": bool(model.keep_states),
        "floor": arguments.DEFAULT_FLOOR if model.floor is None else model.floor,
        "direction": "each" if instead else model.direction or "both",
    }


def _check_new(document: Document, model: FileKeys) -> None:
    """Refuse a file that adds nothing, and keys that need others."""
    if not any((model.mechanisms, model.compositions, model.epsilon, model.exp_epsilon, model.targets)):
        document.at("extend").refuse("expected mechanisms, compositions, epsilon or targets beside true, got none")
    for name in ("factors", "adjacency"):
        if not model.mechanisms and name in document.data:
            document.at(name).refuse("expected mechanisms beside it, got none")


def _stated_by_label(document: Document, given: str | None, entries: Sequence[MechanismEntry]) -> Stated:
    """Return what a study file states of the mechanisms that do not say it themselves, by their labels, sorted.

    `given` is what it states of all mechanisms; None where it does not. A statement that is none, or other than what a
    pair or a plan says, is refused, and so are different neighbours of one label.
    """
    problems, found = Problems(), dict[str, Adjacency]()
    known: dict[str, set[Adjacency]] = {}
    for index, entry in enumerate(entries):
        values, label = entry.document, entry.label
        own = values.data.get("adjacency") is not None
        with problems.collected():
            try:
                mine = checked_adjacency(values.data["adjacency"] if own else given, "")
                for name, said in entry.said:
                    stated(said, mine, "", name)
                together = known.setdefault(label, set())
                together |= {said if said.definite else mine for said in entry.adjacencies}
                if len(together) > 1 and (mine.definite or label in found):
                    raise InvalidInputError(
                        f"expected the same neighbours of all mechanisms with the label {label!r}, got"
                        f" {' and '.join(sorted(together))}: give one another label"
                    )
                # What pairs say themselves is no part of the study.
                if mine.definite and entry.adjacencies != {mine}:
                    found[label] = mine
            except InvalidInputError as error:
                place = values.at("adjacency") if own else values if given is None else document.at("adjacency")
                hint = "" if own or given is None else f" (mechanisms[{index}] may have an adjacency of its own)"
                place.refuse(str(error).removeprefix(": ") + hint)
    problems.refuse()
    return tuple(sorted(found.items()))
