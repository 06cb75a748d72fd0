"""Read and check a study file; every error names the file, the line and the field."""

import gc
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from pbdist.arguments import DEFAULT_BUCKETS, DEFAULT_FLOOR, DEFAULT_TOLERANCE, problem_of_either
from pbdist.errors import StoreMismatchError
from pbdist.mechanisms import MECHANISMS, Alternatives
from pbdist.study.document import STUDY, TARGET, Document, Keys, Problems, meant_key, read_document, shown
from pbdist.study.entries import MOST_SETTINGS
from pbdist.study.extension import COMMON, union_of
from pbdist.study.grid_cells import CellGrid, GridCells, PairGrid, repeated_cells
from pbdist.study.grids import nearest_exponential, nearest_match
from pbdist.study.models import AdditionModel, StudyModel, TargetModel, model_at, refuse, refuse_invalid
from pbdist.study.neighbours import check_stated, stated_by_label
from pbdist.study.release_entries import RELEASE_PLAN, grids_of_mechanism
from pbdist.study.spec import NAME, STUDY_FORMAT, Cell, Stated, StudySpec, Target


def checked_target(document: Document, keys: Keys) -> TargetModel:
    """Return the target at some keys.

    Raises
    ------
    StudyFileError
        A key is unknown, missing or has a wrong value, or not exactly one of ε and e^ε is given.
    """
    target = model_at(document, keys, TargetModel, owner=TARGET)
    problem = problem_of_either(epsilon=target.epsilon, exp_epsilon=target.exp_epsilon)
    if problem is not None:
        refuse(document, keys, problem)
    return target


def with_targets(study: StudySpec, targets: Sequence[TargetModel]) -> StudySpec:
    """Return a study with targets; its grids are extended by the r and ε of targets that they lack."""
    found: list[Target] = []
    rounds, losses = list(study.compositions), list(study.epsilon)
    for target in targets:
        if target.compositions not in rounds:
            rounds.append(target.compositions)
        index = _index_of_epsilon(losses, target)
        if index is None:
            index = len(losses)
            losses.append(math.log(target.exp_epsilon or 1.0) if target.epsilon is None else target.epsilon)
        found.append(Target(losses[index], target.delta, target.compositions))
    return replace(
        study,
        compositions=tuple(sorted(rounds)),
        epsilon=tuple(sorted(losses)),
        targets=tuple(found),
        target_compositions=tuple(sorted(rounds[len(study.compositions) :])),
        target_epsilon=tuple(sorted(losses[len(study.epsilon) :])),
    )


def _index_of_epsilon(losses: Sequence[float], target: TargetModel) -> int | None:
    """Return which of some ε that of a target is, but for rounding; None where it is none of them."""
    if target.epsilon is None:
        return nearest_exponential(losses, target.exp_epsilon or 1.0)
    return nearest_match(losses, target.epsilon)


#: The pairs of the entries by their index.
Entries: TypeAlias = dict[int, list[PairGrid]]
_Model = TypeVar("_Model", bound=BaseModel)


def check_format(document: Document) -> None:
    """Refuse a file of another version."""
    version = document.data.get("format")
    if type(version) is int and version == STUDY_FORMAT:
        return
    known = tuple(StudyModel.model_fields)
    if "format" not in document.data:
        # The key may be misspelt, which is told where it stands.
        unknown = [key for key in document.data if key not in known]
        if "format" in {meant_key(STUDY, key, known)[0] for key in unknown}:
            return
    refuse(document, ("format",), f"expected {STUDY_FORMAT}, got {shown(version)}")


def check_name(document: Document) -> None:
    """Refuse a name that no store can have."""
    name = document.data.get("name")
    if isinstance(name, str) and not NAME.fullmatch(name):
        refuse(document, ("name",), f"expected letters, digits, '.', '_' and '-', got {shown(name)}")


def checked_model(document: Document, model: type[_Model]) -> _Model:
    """Return the values of the file, and check those that stand alone."""
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        refuse_invalid(document, error, model, owner=STUDY)


def entries_of(document: Document, problems: Problems) -> Entries:
    """Return the pairs of the entries that are right, and collect what is wrong with the others."""
    entries: Entries = {}
    for index in range(_length(document, "mechanisms")):
        with problems.collected():
            entries[index] = grids_of_mechanism(document, ("mechanisms", index), own=("label", "adjacency"))
            _label(document, index)
    return entries


def stated_of(document: Document, given: str | None, entries: Entries) -> Stated:
    """Return for which neighbours the file states that mechanisms are, where they do not say it themselves."""
    return stated_by_label(document, given, entries, {index: _label(document, index) for index in entries})


def targets_of(document: Document, problems: Problems) -> tuple[TargetModel, ...]:
    """Return the targets that are right, and collect what is wrong with the others."""
    targets = []
    for index in range(_length(document, "targets")):
        with problems.collected():
            targets.append(checked_target(document, ("targets", index)))
    return tuple(targets)


def _length(document: Document, field: str) -> int:
    """Return how many items a list of the file has; none where it is no list."""
    listed = document.data.get(field)
    return len(listed) if isinstance(listed, list) else 0


def epsilon_grid(document: Document, model: StudyModel | AdditionModel) -> tuple[float, ...]:
    """Return the values of ε, of which there is one grid."""
    problem = problem_of_either(epsilon=model.epsilon, exp_epsilon=model.exp_epsilon)
    if problem is not None:
        refuse(document, ("epsilon",), problem)
    if model.epsilon is not None:
        return tuple(sorted(model.epsilon))
    return tuple(sorted({math.log(value) for value in model.exp_epsilon or ()}))


def cells_of(document: Document, factors: Sequence[float | None], entries: Entries) -> GridCells:
    """Return the cells of the entries with all factors; too many, and repeated ones, are refused."""
    if not entries:
        refuse(document, ("mechanisms",), "expected at least one mechanism, got []")
    problems = Problems()
    count = 0
    found: dict[int, list[CellGrid]] = {}
    for index, grids in entries.items():
        count += sum(map(len, grids)) * len(tuple(factors))
        if count > MOST_SETTINGS:
            at = ("mechanisms", index)
            refuse(document, at, f"expected at most {MOST_SETTINGS} cells in all, got {count} up to here")
        with problems.collected():
            label = _label(document, index)
            found[index] = [CellGrid(label, grid, tuple(factors)) for grid in grids]
    for repeated in repeated_cells(found):
        line = document.lines["mechanisms", repeated.first_entry]
        with problems.collected():
            got = f"got {repeated.cell.describe()} on line {line} too"
            refuse(document, ("mechanisms", repeated.entry), f"expected each setting once, {got}")
    problems.refuse()
    return GridCells([grid for grids in found.values() for grid in grids])


def entries_of_several(document: Document) -> list[tuple[Keys, str]]:
    """Return the keys and kinds of the entries whose bounds are those of several pairs; all entries have a kind."""
    found = ((index, _kind_of_several(entry)) for index, entry in enumerate(document.data["mechanisms"]))
    return [(("mechanisms", index), kind) for index, kind in found if kind is not None]


def _kind_of_several(entry: Mapping[str, Any]) -> str | None:
    """Return the kind of an entry, or of a factor of it, whose bounds are those of several pairs; None without any."""
    kind = str(entry["kind"])
    if kind == RELEASE_PLAN or issubclass(MECHANISMS[kind], Alternatives):
        return kind
    return next((found for found in map(_kind_of_several, entry.get("pairs", [])) if found is not None), None)


def _label(document: Document, index: int) -> str:
    """Return by which label an entry is known."""
    entry = document.data["mechanisms"][index]
    label = entry.get("label", entry["kind"])
    if not isinstance(label, str) or not (0 < len(label) <= 100 and label.isprintable() and label == label.strip()):
        refuse(document, ("mechanisms", index, "label"), f"expected a short text on one line, got {shown(label)}")
    return label


@dataclass(frozen=True)
class Addition:
    """Cells and grids of a file that holds only what is new; what it does not name is as in the store."""

    #: As of a study; the name names the default store.
    name: str
    description: str | None
    #: As of a study, or None.
    cells: Sequence[Cell] | None
    compositions: tuple[int, ...] | None
    epsilon: tuple[float, ...] | None
    #: The targets; their r and ε are added to those of the file.
    targets: tuple[TargetModel, ...]
    #: What is stated of the neighbours of its mechanisms; of labels that it says nothing of, it is as in the store.
    adjacency: Stated
    #: The settings of the file that all parts of a store share, by their fields.
    given: Mapping[str, Any]
    #: Whether some of the cells are release plans; whether some have a number as their factor.
    plans: bool
    numbers: bool

    def onto(self, studies: Sequence[StudySpec]) -> StudySpec:
        """Return the study whose points a store is to have, besides those of the stored `studies`: at least one.

        Guaranteed: once a store has them, the file adds nothing more to it.

        Raises
        ------
        StoreMismatchError
            The file has other settings than the store, or cells that these settings do not allow.
        """
        stored = union_of(studies)
        for field, value in self.given.items():
            if value != getattr(stored, field):
                raise StoreMismatchError(f"{field}: expected {getattr(stored, field)!r} as in the store, got {value!r}")
        self._check_cells(stored)
        told = {**dict(stored.adjacency), **dict(self.adjacency)}
        if self.cells is not None and told:
            check_stated(self.cells, told)
        common: dict[str, Any] = {field: getattr(stored, field) for field in COMMON}
        bare = StudySpec(
            name=self.name,
            description=self.description,
            cells=stored.cells if self.cells is None else self.cells,
            compositions=self.compositions or stored.compositions,
            epsilon=self.epsilon or stored.epsilon,
            adjacency=tuple(sorted(told.items())),
            **common,
        )
        return with_targets(bare, self.targets)

    def _check_cells(self, stored: StudySpec) -> None:
        """Refuse cells that a study with the settings of the store could not have."""
        if self.plans and (stored.method != "tight" or stored.keep_states):
            kept = ", keep_states: true" if stored.keep_states else ""
            raise StoreMismatchError(
                f"mechanisms: expected no ReleasePlan in a store of method {stored.method}{kept}, got one"
            )
        if self.numbers and stored.method == "tight" and stored.buckets is not None:
            raise StoreMismatchError("factors: expected auto in a store of method tight with buckets, got a number")


def load_study(path: str | Path) -> StudySpec:
    """Read and check the study file at `path`.

    Guaranteed: the constructors accept all mechanisms, so that the study can be computed.

    Raises
    ------
    StudyFileError
        With all that is wrong, each ``FILE:LINE: field.path: expected .., got ..``; also for a file with
        ``extend: true``, which is no study by itself.
    """
    with _no_collection():
        return read_document(Path(path), _whole_study)


def load_asked(path: str | Path) -> StudySpec | Addition:
    """Read and check the study file at `path`, which may hold only what is new in a store (``extend: true``).

    Raises
    ------
    StudyFileError
        As `load_study`.
    """
    with _no_collection():
        return read_document(Path(path), _asked)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Switch off the collector of garbage: among a million new values it takes twice as long as making them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _whole_study(document: Document) -> StudySpec:
    if _extends(document):
        refuse(document, ("extend",), "expected a study by itself, got true: pbdist run adds what is new to a store")
    return _study(document)


def _asked(document: Document) -> StudySpec | Addition:
    return _addition(document) if _extends(document) else _study(document)


def _extends(document: Document) -> bool:
    return isinstance(document.data, dict) and document.data.get("extend") is True


def _study(document: Document) -> StudySpec:
    """Return the study of a document; what one problem does not hide is told together with it."""
    if not isinstance(document.data, dict):
        refuse(document, (), f"expected a mapping with a name, mechanisms and grids, got {shown(document.data)}")
    problems = Problems()
    with problems.collected():
        check_format(document)
    with problems.collected():
        check_name(document)
    with problems.collected():
        model = checked_model(document, StudyModel)
        for check in (_precision, _promise, epsilon_grid):
            with problems.collected():
                check(document, model)
    if problems.found:
        document = document.known_wrong()
    entries = entries_of(document, problems)
    targets = targets_of(document, problems)
    problems.refuse()
    for keys, kind in entries_of_several(document):
        with problems.collected():
            _check_several(document, model, f"a {kind}", keys)
    told: Stated = ()
    with problems.collected():
        told = stated_of(document, model.adjacency, entries)
    problems.refuse()
    tolerance, buckets = _precision(document, model)
    floor, direction = _promise(document, model)
    bare = StudySpec(
        name=model.name,
        cells=cells_of(document, model.factors, entries),
        method=model.method,
        tolerance=tolerance,
        buckets=buckets,
        compositions=tuple(sorted(model.compositions)),
        epsilon=epsilon_grid(document, model),
        keep_states=model.keep_states,
        floor=floor,
        direction=direction,
        adjacency=told,
        description=model.description,
    )
    return with_targets(bare, targets)


def _precision(document: Document, model: StudyModel) -> tuple[float | None, int | None]:
    """Return the tolerance and the number of buckets, by the rules of `bounds_table`."""
    if model.method == "buckets":
        if model.tolerance is not None:
            refuse(document, ("tolerance",), f"expected none with method buckets, got {model.tolerance!r}")
        return None, DEFAULT_BUCKETS if model.buckets is None else model.buckets
    if model.buckets is not None and any(factor is not None for factor in model.factors):
        refuse(document, ("buckets",), "expected none beside a factor with method tight, got both")
    return DEFAULT_TOLERANCE if model.tolerance is None else model.tolerance, model.buckets


def _promise(document: Document, model: StudyModel) -> tuple[float, str]:
    """Return the floor and the direction by which the tolerance is judged; defaults where there is no tolerance."""
    instead = None
    if model.method == "buckets":
        instead = "method buckets"
    elif model.buckets is not None:
        instead = "buckets"
    elif None not in model.factors:
        instead = "factors alone"
    if instead is None:
        floor = DEFAULT_FLOOR if model.floor is None else model.floor
        return floor, "both" if model.direction is None else model.direction
    for name, value in (("floor", model.floor), ("direction", model.direction)):
        if value is not None:
            refuse(document, (name,), f"expected none with {instead}, got {value!r}")
    return DEFAULT_FLOOR, "each"


def _check_several(document: Document, model: StudyModel, what: str, keys: Keys) -> None:
    """Refuse what only one worst-case pair has."""
    entry = f"{what}, as mechanisms[{keys[1]}] is"
    if model.method != "tight":
        refuse(document, ("method",), f"expected tight with {entry}, got {model.method}")
    if model.keep_states:
        refuse(document, ("keep_states",), f"expected false with {entry}, got true")


def _addition(document: Document) -> Addition:
    """Return what a file adds to a store; what one problem does not hide is told together with it."""
    problems = Problems()
    for check in (check_format, check_name):
        with problems.collected():
            check(document)
    with problems.collected():
        model = checked_model(document, AdditionModel)
        with problems.collected():
            _check_new(document, model)
    if problems.found:
        document = document.known_wrong()
    entries = entries_of(document, problems)
    targets = targets_of(document, problems)
    problems.refuse()
    if model.adjacency is not None and model.mechanisms is None:
        refuse(document, ("adjacency",), "expected mechanisms beside it, got none")
    told = stated_of(document, model.adjacency, entries)
    given = {name: value for name in COMMON if (value := getattr(model, name)) is not None}
    factors = (None,) if model.factors is None else model.factors
    return Addition(
        name=model.name,
        description=model.description,
        cells=None if model.mechanisms is None else cells_of(document, factors, entries),
        compositions=None if model.compositions is None else tuple(sorted(model.compositions)),
        epsilon=epsilon_grid(document, model) if model.epsilon or model.exp_epsilon else None,
        targets=targets,
        adjacency=told,
        given=given,
        plans=model.mechanisms is not None and bool(entries_of_several(document)),
        numbers=any(factor is not None for factor in factors),
    )


def _check_new(document: Document, model: AdditionModel) -> None:
    """Refuse a file that adds nothing, and keys that need others."""
    new = (model.mechanisms, model.compositions, model.epsilon, model.exp_epsilon)
    if all(value is None for value in new) and not model.targets:
        refuse(document, ("extend",), "expected mechanisms, compositions, epsilon or targets beside true, got none")
    if model.epsilon is not None and model.exp_epsilon is not None:
        refuse(document, ("epsilon",), problem_of_either(epsilon=model.epsilon, exp_epsilon=model.exp_epsilon) or "")
    if model.factors is not None and model.mechanisms is None:
        refuse(document, ("factors",), "expected mechanisms beside them, got none")
