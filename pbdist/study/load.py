"""Read and check a study file; every error names the file, the line and the field."""

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from pbdist.arguments import DEFAULT_BUCKETS, DEFAULT_FLOOR, DEFAULT_TOLERANCE, problem_of_either
from pbdist.errors import InvalidInputError, StoreMismatchError
from pbdist.mechanisms import MECHANISMS, Adjacency, Alternatives, checked_adjacency, stated
from pbdist.study.cells import Block, Cell, CellTable, repeated_cells
from pbdist.study.document import Document, Problems, read_document, read_each, shown
from pbdist.study.entries import MAX_SETTINGS
from pbdist.study.extension import COMMON, check_common, union_of
from pbdist.study.fields import STUDY, TARGET
from pbdist.study.grids import nearest_exponential, nearest_match
from pbdist.study.models import AdditionModel, FileModel, StudyModel, TargetModel, model_at
from pbdist.study.release import RELEASE_PLAN, MechanismEntry, mechanism_entry
from pbdist.study.spec import Stated, StudySpec, Target

_Made = TypeVar("_Made")
_Model = TypeVar("_Model", bound=FileModel)
#: What release plans of a granularity are for; of the others nothing is known.
_OF_GRANULARITY: Mapping[str, Adjacency] = {
    "unbounded": Adjacency.ADD_OR_REMOVE,
    "bounded": Adjacency.REPLACE_ONE,
    "edge-level": Adjacency.ADD_OR_REMOVE,
    "user-level": Adjacency.ADD_OR_REMOVE,
    "node-level": Adjacency.ADD_OR_REMOVE,
}


def load_study(path: str | Path) -> StudySpec:
    """Read and check the study file at `path`.

    Guaranteed: the constructors accept all mechanisms, so that the study can be computed.

    Raises
    ------
    StudyFileError
        With all that is wrong, each ``FILE:LINE: field.path: expected .., got ..``; also for a file with
        ``extend: true``, which is no study by itself.
    """
    return read_document(Path(path), _whole_study)


def load_asked(path: str | Path) -> "StudySpec | Addition":
    """Read and check the study file at `path`, which may hold only what is new in a store (``extend: true``).

    Raises
    ------
    StudyFileError
        As `load_study`.
    """
    return read_document(Path(path), lambda document: _addition(document) if _extends(document) else _study(document))


def _whole_study(document: Document) -> StudySpec:
    if _extends(document):
        document.at("extend").refuse("expected a study by itself, got true: pbdist run adds what is new to a store")
    return _study(document)


def _extends(document: Document) -> bool:
    return isinstance(document.data, dict) and document.data.get("extend") is True


@dataclass(frozen=True)
class Addition:
    """Cells and grids of a file that holds only what is new; what it does not name is as in the store."""

    _contents: "_Contents[AdditionModel]"

    @property
    def name(self) -> str:
        """As of a study: it names the default store."""
        return self._contents.model.name

    def onto(self, studies: Sequence[StudySpec]) -> StudySpec:
        """Return the study whose points a store is to have, besides those of the stored `studies`: at least one.

        Guaranteed: once a store has them, the file adds nothing more to it.

        Raises
        ------
        StoreMismatchError
            The file has other settings than the store, or cells that these settings do not allow.
        """
        contents, model, stored = self._contents, self._contents.model, union_of(studies)
        check_common(stored, {name: value for name in COMMON if (value := getattr(model, name)) is not None})
        self._check_cells(stored)
        adjacency = {**dict(stored.adjacency), **dict(contents.adjacency)}
        _check_stated(contents.cells, adjacency)
        bare = replace(
            stored,
            name=model.name,
            description=model.description,
            cells=contents.cells or stored.cells,
            compositions=tuple(sorted(model.compositions or stored.compositions)),
            epsilon=contents.epsilon or stored.epsilon,
            adjacency=tuple(sorted(adjacency.items())),
        )
        return with_targets(bare, contents.targets)

    def _check_cells(self, stored: StudySpec) -> None:
        """Refuse cells that a study with the settings of the store could not have."""
        if self._contents.several is not None and (stored.method != "tight" or stored.keep_states):
            states = ", keep_states: true" if stored.keep_states else ""
            raise StoreMismatchError(
                f"mechanisms: expected no {self._contents.several[1]} in a store of method {stored.method}{states},"
                " got one"
            )
        given = any(factor is not None for factor in self._contents.model.factors)
        if given and stored.method == "tight" and stored.buckets is not None:
            raise StoreMismatchError("factors: expected auto in a store of method tight with buckets, got a number")


def with_targets(study: StudySpec, targets: Sequence[TargetModel]) -> StudySpec:
    """Return a study with targets; its grids are extended by the r and ε of targets that they lack."""
    found: list[Target] = []
    rounds, losses = list(study.compositions), list(study.epsilon)
    for target in targets:
        if target.compositions not in rounds:
            rounds.append(target.compositions)
        # Of an ε of the grid it may differ by rounding.
        if target.exp_epsilon is None:
            index = nearest_match(losses, target.epsilon or 0.0)
        else:
            index = nearest_exponential(losses, target.exp_epsilon)
        if index is None:
            index = len(losses)
            losses.append(target.epsilon or math.log(target.exp_epsilon or 1.0))
        found.append(Target(epsilon=losses[index], delta=target.delta, compositions=target.compositions))
    return replace(
        study,
        compositions=tuple(sorted(rounds)),
        epsilon=tuple(sorted(losses)),
        targets=tuple(found),
        target_compositions=tuple(sorted(rounds[len(study.compositions) :])),
        target_epsilon=tuple(sorted(losses[len(study.epsilon) :])),
    )


@dataclass(frozen=True)
class _Contents(Generic[_Model]):
    """What both kinds of study files have, once each value is right by itself."""

    model: _Model
    entries: list[MechanismEntry]
    targets: tuple[TargetModel, ...]
    adjacency: Stated

    @cached_property
    def several(self) -> tuple[int, str] | None:
        """Of an entry whose bounds are those of several pairs its number and kind; None where there is none."""
        kinds = ((index, _kind_of_several(entry.document.data)) for index, entry in enumerate(self.entries))
        return next(((index, kind) for index, kind in kinds if kind is not None), None)

    @property
    def epsilon(self) -> tuple[float, ...]:
        """The values of ε, increasing."""
        if self.model.epsilon is not None:
            return tuple(sorted(self.model.epsilon))
        return tuple(sorted({math.log(value) for value in self.model.exp_epsilon or ()}))

    @cached_property
    def cells(self) -> CellTable:
        """The cells of the entries with all factors."""
        return CellTable([Block.of(entry.label, entry.pairs, self.model.factors) for entry in self.entries])

    def refuse_cells(self) -> None:
        """Refuse too many cells, and repeated ones."""
        count = 0
        for entry in self.entries:
            count += len(entry.pairs) * len(self.model.factors)
            if count > MAX_SETTINGS:
                entry.document.refuse(f"expected at most {MAX_SETTINGS} cells in all, got {count} up to here")
        problems = Problems()
        for repeated in repeated_cells(self.cells.blocks):
            first, again = (self.entries[block].document for block in (repeated.first_block, repeated.block))
            got = f"{repeated.cell.describe()} on line {first.line()} too"
            problems.found.append(again.problem((), f"expected each setting once, got {got}"))
        problems.refuse()


def _contents(
    document: Document, kind: type[_Model], checks: Sequence[Callable[[Document, _Model], object]]
) -> _Contents[_Model]:
    """Return what a file has; all problems that do not hide each other are in one error."""
    problems = Problems()
    with problems.collected():
        model = model_at(document, (), kind, owner=STUDY)
        for check in checks:
            with problems.collected():
                check(document, model)

    def each(name: str, read: Callable[[Document], _Made]) -> list[_Made]:
        found: list[_Made] = []
        # The model has refused what is no list.
        if isinstance(document.data.get(name), list):
            with problems.collected():
                found = read_each(read, document.at(name).items())
        return found

    entries, targets = each("mechanisms", mechanism_entry), each("targets", _checked_target)
    problems.refuse()
    adjacency = _stated_by_label(document, model.adjacency, entries)
    return _Contents(model, entries, tuple(targets), adjacency)


def _checked_target(document: Document) -> TargetModel:
    """Return a target; exactly one of ε and e^ε is given."""
    target = model_at(document, (), TargetModel, owner=TARGET)
    problem = problem_of_either(epsilon=target.epsilon, exp_epsilon=target.exp_epsilon)
    if problem is not None:
        document.refuse(problem)
    return target


def _check_epsilon(document: Document, model: FileModel) -> None:
    problem = problem_of_either(epsilon=model.epsilon, exp_epsilon=model.exp_epsilon)
    if problem is not None:
        raise document.error(("epsilon",), problem)


def _kind_of_several(entry: Mapping[str, Any]) -> str | None:
    """Return the kind of an entry, or of a factor of it, whose bounds are those of several pairs; None without any."""
    kind = str(entry["kind"])
    if kind == RELEASE_PLAN or issubclass(MECHANISMS[kind], Alternatives):
        return kind
    return next((found for found in map(_kind_of_several, entry.get("pairs", [])) if found is not None), None)


def _study(document: Document) -> StudySpec:
    if not isinstance(document.data, dict):
        document.refuse(f"expected a mapping with a name, mechanisms and grids, got {shown(document.data)}")
    contents = _contents(document, StudyModel, (_precision, _promise, _check_epsilon))
    model = contents.model
    if contents.several is not None:
        _check_several(document, model, *contents.several)
    contents.refuse_cells()
    tolerance, buckets = _precision(document, model)
    floor, direction = _promise(document, model)
    bare = StudySpec(
        name=model.name,
        cells=contents.cells,
        method=model.method or "tight",
        tolerance=tolerance,
        buckets=buckets,
        compositions=tuple(sorted(model.compositions)),
        epsilon=contents.epsilon,
        keep_states=bool(model.keep_states),
        floor=floor,
        direction=direction,
        adjacency=contents.adjacency,
        description=model.description,
    )
    return with_targets(bare, contents.targets)


def _precision(document: Document, model: FileModel) -> tuple[float | None, int | None]:
    """Return the tolerance and the number of buckets, by the rules of `bounds_table`."""
    if model.method == "buckets":
        if model.tolerance is not None:
            document.at("tolerance").refuse(f"expected none with method buckets, got {model.tolerance!r}")
        return None, DEFAULT_BUCKETS if model.buckets is None else model.buckets
    if model.buckets is not None and any(factor is not None for factor in model.factors):
        document.at("buckets").refuse("expected none beside a factor with method tight, got both")
    return DEFAULT_TOLERANCE if model.tolerance is None else model.tolerance, model.buckets


def _promise(document: Document, model: FileModel) -> tuple[float, str]:
    """Return the floor and the direction by which the tolerance is judged; defaults where there is no tolerance."""
    reasons = {
        "method buckets": model.method == "buckets",
        "buckets": model.buckets is not None,
        "factors alone": None not in model.factors,
    }
    instead = next((reason for reason, holds in reasons.items() if holds), None)
    if instead is None:
        return DEFAULT_FLOOR if model.floor is None else model.floor, model.direction or "both"
    for name, value in (("floor", model.floor), ("direction", model.direction)):
        if value is not None:
            document.at(name).refuse(f"expected none with {instead}, got {value!r}")
    return DEFAULT_FLOOR, "each"


def _check_several(document: Document, model: StudyModel, index: int, kind: str) -> None:
    """Refuse what only one worst-case pair has."""
    entry = f"a {kind}, as mechanisms[{index}] is"
    if model.method == "buckets":
        document.at("method").refuse(f"expected tight with {entry}, got {model.method}")
    if model.keep_states:
        document.at("keep_states").refuse(f"expected false with {entry}, got true")


def _addition(document: Document) -> Addition:
    contents = _contents(document, AdditionModel, (_check_new,))
    contents.refuse_cells()
    return Addition(contents)


def _check_new(document: Document, model: AdditionModel) -> None:
    """Refuse a file that adds nothing, and keys that need others."""
    new = (model.mechanisms, model.compositions, model.epsilon, model.exp_epsilon)
    if all(value is None for value in new) and not model.targets:
        document.at("extend").refuse("expected mechanisms, compositions, epsilon or targets beside true, got none")
    if model.epsilon is not None or model.exp_epsilon is not None:
        _check_epsilon(document, model)
    if model.mechanisms is None and "factors" in model.model_fields_set:
        document.at("factors").refuse("expected mechanisms beside them, got none")
    if model.mechanisms is None and model.adjacency is not None:
        document.at("adjacency").refuse("expected mechanisms beside it, got none")


def _stated_by_label(document: Document, given: str | None, entries: Sequence[MechanismEntry]) -> Stated:
    """Return what a study file states of the mechanisms that do not say it themselves, by their labels, sorted.

    `given` is what it states of all mechanisms; None where it does not.

    Raises
    ------
    StudyFileError
        A statement is none, or other than what a pair or a plan says; or one label has different neighbours.
    """
    problems = Problems()
    known: dict[str, set[tuple[Adjacency, Adjacency]]] = {}
    for index, entry in enumerate(entries):
        values = entry.document
        own = "adjacency" in values.data
        with problems.collected():
            try:
                mine = checked_adjacency(values.data["adjacency"] if own else given, "")
                for one in entry.pairs.adjacencies:
                    stated(one, mine, "", entry.label)
                if values.data["kind"] == RELEASE_PLAN:
                    _check_plan(values.data, mine, entry.label)
                together = known.get(entry.label, set()) | {(mine, one) for one in entry.pairs.adjacencies}
                _check_same(entry.label, together)
                known[entry.label] = together
            except InvalidInputError as error:
                place = values.at("adjacency") if own else values if given is None else document.at("adjacency")
                hint = "" if own or given is None else f" (mechanisms[{index}] may have an adjacency of its own)"
                place.refuse(str(error).removeprefix(": ") + hint)
    problems.refuse()
    # What pairs say themselves is no part of the study.
    every = ((label, mine, said) for label, together in known.items() for mine, said in together)
    return tuple(sorted({label: mine for label, mine, said in every if mine.definite and mine is not said}.items()))


def _check_same(label: str, together: Set[tuple[Adjacency, Adjacency]]) -> None:
    """Refuse different neighbours of the mechanisms of a label: what is stated of each, and what its pair says."""
    different = {one for both in together for one in both if one.definite}
    # A statement of some mechanisms would seem to be one of the others too.
    if any(mine.definite for mine, _ in together) and (Adjacency.AS_STATED, Adjacency.AS_STATED) in together:
        different.add(Adjacency.AS_STATED)
    if len(different) > 1:
        raise InvalidInputError(
            f"expected the same neighbours of all mechanisms with the label {label!r},"
            f" got {' and '.join(sorted(different))}: give one another label"
        )


def _check_plan(entry: Mapping[str, object], given: Adjacency, label: str) -> None:
    """Refuse other neighbours than those of a plan's granularity."""
    settings = entry.get("settings")
    for one in (entry, *(settings if isinstance(settings, list) else ())):
        granularity = one.get("granularity")
        name = next(iter(granularity), None) if isinstance(granularity, dict) else granularity
        if isinstance(name, str) and name in _OF_GRANULARITY:
            stated(_OF_GRANULARITY[name], given, "", f"{label} of granularity {name}")


def _check_stated(cells: Sequence[Cell], stated_of: Mapping[str, Adjacency]) -> None:
    """Refuse cells that say other neighbours than a store states of their label.

    Raises
    ------
    StoreMismatchError
        There are some.
    """
    blocks = CellTable.of(cells).blocks
    found = {(label, own) for each in blocks for label in each.label.values for own in each.pairs.adjacencies}
    for label, own in sorted(found):
        try:
            stated(own, stated_of.get(label, Adjacency.AS_STATED), "adjacency", label)
        except InvalidInputError as error:
            raise StoreMismatchError(f"{error} (the store states it of this label)") from error
