"""Read and check a study file; every error names the file, the line and the field."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pbdist.arguments import DEFAULT_BUCKETS, DEFAULT_FLOOR, DEFAULT_TOLERANCE, problem_of_either
from pbdist.study.addition import Addition
from pbdist.study.document import Document, Keys, Problems, read_document, shown
from pbdist.study.extension import COMMON
from pbdist.study.models import AdditionModel, StudyModel
from pbdist.study.refusals import refuse
from pbdist.study.sections import (
    cells_of,
    check_format,
    check_name,
    checked_model,
    entries_of,
    entries_of_several,
    epsilon_grid,
    stated_of,
    targets_of,
)
from pbdist.study.spec import Stated, StudySpec
from pbdist.study.targets import with_targets


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
