"""Points that a store lacks are computed where they are asked for, and added to it."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np

from pbdist.errors import InvalidInputError, PbdistError
from pbdist.store import (
    Held,
    Place,
    Refinement,
    StoredStudy,
    add_refinement,
    hold,
    holder,
    read_refinements,
    refuse_links,
)
from pbdist.store.layout import BOUNDS, REFINEMENTS
from pbdist.study import Cell, StudySpec
from pbdist.study.costs import cell_cost
from pbdist.study.plan import size
from pbdist.table import bounds_table

__all__ = ["Point", "UncomputableError", "refine"]

#: A noise setting, r and ε.
Point = tuple[Cell, int, float]
#: How long the store is waited for, which another process writes to: another query takes a moment, a run does not end.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 60.0, 0.1


class UncomputableError(InvalidInputError):
    """A point is beyond what this machine, or the engine, computes: leave it out."""


def refine(
    stored: StoredStudy, study: StudySpec, points: Iterable[Point], known: Sequence[Refinement] = ()
) -> tuple[Refinement, ...]:
    """Compute some points as the study would, add them to its store, and return all refinements of the store.

    Guaranteed: each group of points that is computed together is there as a whole or not at all, whenever this process
    ends; of several processes that add the same points one does, or all, and no other file is changed.

    Parameters
    ----------
    stored
        The first part of the store.
    study
        The study in it: method, tolerance and buckets are taken from there.
    points
        Points that it lacks.
    known
        Its refinements, as far as they were read before.

    Raises
    ------
    UncomputableError
        The computation would take more memory than there is, or more than the engine takes.
    PrecisionError
        The engine finds no bounds.
    InvalidInputError
        Another process goes on writing to the store.
    OSError
        They cannot be written.
    """
    groups = _groups(points)
    for cell, compositions, epsilon in groups:
        _check_memory(replace(study, cells=(cell,), compositions=compositions, epsilon=epsilon), cell)
    refuse_links(stored.place, REFINEMENTS)
    # Before anything is computed: a run that is at work will not let go of the store.
    _await_rest(stored)
    for cell, compositions, epsilon in groups:
        computed = _computed(study, cell, compositions, epsilon)
        with _held(stored.place) as held:
            known = _all(stored, known)
            if not _is_there(known, computed):
                add_refinement(stored, computed, held)
    return _all(stored, known)


def _all(stored: StoredStudy, known: Sequence[Refinement]) -> tuple[Refinement, ...]:
    """Return the refinements that were read before, and the others."""
    return (*known, *read_refinements(stored, max((one.number for one in known), default=0)))


def _groups(points: Iterable[Point]) -> list[tuple[Cell, tuple[int, ...], tuple[float, ...]]]:
    """Return the points as few products of r and ε, each of one noise setting: exactly these points."""
    wanted: dict[Cell, dict[int, set[float]]] = {}
    for cell, r, epsilon in points:
        wanted.setdefault(cell, {}).setdefault(r, set()).add(epsilon)
    groups = []
    for cell, rows in wanted.items():
        by_epsilon: dict[tuple[float, ...], list[int]] = {}
        for r in sorted(rows):
            by_epsilon.setdefault(tuple(sorted(rows[r])), []).append(r)
        groups += [(cell, tuple(compositions), epsilon) for epsilon, compositions in by_epsilon.items()]
    return groups


def _computed(study: StudySpec, cell: Cell, compositions: Sequence[int], epsilon: Sequence[float]) -> Refinement:
    try:
        table = bounds_table(
            [(cell.pair, 1)],
            compositions=compositions,
            epsilon=epsilon,
            method=study.method,
            tolerance=study.tolerance,
            buckets=study.buckets,
            factor=cell.factor,
            together=study.direction == "both",
            floor=study.floor,
            excuses=True,
            # What is reached holds, as in a run.
            strict=False,
        )
    except InvalidInputError as error:
        raise UncomputableError(str(error)) from error
    values = np.stack([getattr(table, name) for name in BOUNDS])
    if np.isnan(values).any():
        raise PbdistError(f"{cell.describe()}: expected numbers for bounds, got nan")
    return Refinement(cell, tuple(compositions), tuple(epsilon), values, table.loss_width, within=table.within)


def _is_there(refinements: Sequence[Refinement], wanted: Refinement) -> bool:
    """Whether another process has added the same points meanwhile."""
    return any(
        one.cell == wanted.cell
        and set(one.compositions) >= set(wanted.compositions)
        and set(one.epsilon) >= set(wanted.epsilon)
        for one in refinements
    )


def _check_memory(study: StudySpec, cell: Cell) -> None:
    needed = cell_cost(study, cell).peak_bytes
    allowed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    if needed > allowed:
        raise UncomputableError(
            f"refine: expected points that take at most {size(allowed)}, got {size(needed)} for {cell.describe()}:"
            " add them to the study and run it on more machines"
        )


def _await_rest(stored: StoredStudy) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while (found := holder(stored.place)) is not None:
        if time.monotonic() > end:
            raise InvalidInputError(
                f"{stored.where}: expected a store at rest, got one that is written to: {found.describe()}"
            )
        time.sleep(_PAUSE_SECONDS)


@contextmanager
def _held(place: Place) -> Iterator[Held]:
    """Hold a store, waiting for another query that writes to it."""
    end = time.monotonic() + _PATIENCE_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                held = stack.enter_context(hold(place))
                break
            except InvalidInputError:
                if time.monotonic() > end:
                    raise
            time.sleep(_PAUSE_SECONDS)
        yield held
