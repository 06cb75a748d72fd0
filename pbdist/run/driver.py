"""Run a study: find what its store lacks, plan it, start workers, and have it computed."""

import gc
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from pbdist.errors import InvalidInputError, PbdistError
from pbdist.run import giant
from pbdist.run.batch import JoinTask, join_here
from pbdist.run.computing import Computing, Left
from pbdist.run.events import (
    TOLD_EVERY,
    CleanUpFailed,
    Event,
    Executor,
    Listener,
    SerialExecutor,
    WorkersAwaited,
    one_line,
    regularly,
)
from pbdist.run.giant import refuse_linked_scratch, scratch_of
from pbdist.run.store_outage import OUTAGE_SECONDS, REQUEST_SECONDS, Outage
from pbdist.store import (
    PATIENCE_SECONDS,
    Held,
    LocalPlace,
    Place,
    StoredStudy,
    create_or_open,
    extend,
    hold,
    is_there,
    open_parts,
    place_at,
    refuse_links,
    remove_strays,
    restore_heads,
    restore_parts,
    sizes_of_part,
    sizes_of_store,
    survey,
    with_patience,
)
from pbdist.study import Batch, Plan, Planner, StudySpec
from pbdist.study.extension import missing_parts, missing_points
from pbdist.study.load import Addition
from pbdist.study.plan import duration, size


@dataclass(frozen=True)
class Asked:
    """A study whose points a store is to have."""

    #: The study. With `adds` it is what a file adds to the store.
    study: StudySpec
    #: Whether the store may have other points too.
    adds: bool = False

    def missing(self, stored: Sequence[StudySpec]) -> tuple[StudySpec, ...]:
        """Return what the stored studies lack, as `missing_parts`, or as `missing_points` of what a file adds."""
        return missing_points(stored, self.study) if self.adds else missing_parts(stored, self.study)


def asked_of(asked: StudySpec | Addition, store: str | Path | Place) -> Asked:
    """Return what is asked of a store: of an addition, with all that it takes from the store.

    Raises
    ------
    InvalidInputError, NotAStoreError, StoreFormatError, StoreDamagedError
        There is nothing that an addition extends, or no store that can be opened.
    StoreMismatchError
        The store has other settings than the addition.
    """
    if isinstance(asked, StudySpec):
        return Asked(asked)
    place = place_at(store)
    if not is_there(place):
        raise InvalidInputError(f"store: expected one that the file extends (extend: true), got nothing at {place.url}")
    return Asked(asked.onto([part.study for part in open_parts(place)]), adds=True)


def run_study(
    study: StudySpec | Addition,
    store: str | Path,
    executor: Executor,
    listener: Listener,
    *,
    patience: float = OUTAGE_SECONDS,
    told_every: float = TOLD_EVERY,
    check: bool = False,
    serial_seconds: float = 0.0,
) -> StoredStudy:
    """Compute what is not yet committed of `study` into `store`, which is created if there is nothing.

    Guaranteed: it can be killed at any moment and called again. Committed cells are computed again only if their files
    are missing or have changed, and the finished store is the same as without the interruption. A store with some of
    the study is extended by the rest, and its contents stay as they are; one with more than the study is completed.

    Parameters
    ----------
    study
        The study, or what is to be added to the store.
    store
        The path of the store, or its URL ``s3://BUCKET/PREFIX``.
    executor
        Where to compute. It is entered only if there is something to compute and nothing else lies at `store`, and
        left before this returns.
    listener
        Called with each event, in this process, one at a time, by several threads.
    patience
        How long to wait for a store that was reached before and cannot be reached now, in seconds.
    told_every
        The time between two events that tell how far the run is, in seconds.
    check
        Whether every file of the store is read and compared with its checksum; else only its size is.
    serial_seconds
        What is projected to take no longer is computed in this process, without the executor.

    Returns
    -------
    StoredStudy
        The first part of the store.

    Raises
    ------
    NotAStoreError, StoreFormatError, StoreMismatchError, StoreDamagedError
        Something else lies at `store`; it stays as it was.
    InvalidInputError
        The store cannot be created there, another run is writing to it, the workers have less memory than the plan
        projects, or `told_every` is not a time.
    BatchError
        Some cells could not be computed; the text names them and the causes. All others are committed.
    """
    if not 0.0 < told_every <= threading.TIMEOUT_MAX:
        raise InvalidInputError(f"told_every: expected a number of seconds above 0, got {told_every!r}")
    place, listener, planner = place_at(store), _in_turn(listener), Planner()
    refuse_links(place)
    refuse_linked_scratch(place)
    asked = asked_of(study, place)
    # The collector of garbage should not search a million cells again and again.
    gc.freeze()
    with ExitStack() as workers:
        running = _Workers(workers, executor, listener, told_every, serial_seconds)
        there = is_there(place)
        # From here on the store has answered, and is waited for.
        place = with_patience(place, min(patience, REQUEST_SECONDS))
        if not there:
            # Workers come first: if none start, no empty store is left behind.
            running.start([planner.plan(asked.study)], place)
        with _held(place, min(patience, REQUEST_SECONDS)) as held:
            outage = Outage(place, listener, patience)
            held.watched_by(outage.notice)
            parts = [replace(part, fence=held.fence) for part in _parts(place, asked, running, held, planner)]
            left, joins = _uncommitted(place, parts, planner, check=check)
            computing = Computing(parts, listener, lambda: held.lost, outage, told_every)
            if left:
                seconds = sum(batch.seconds for _, _, batches in left for batch in batches)
                limit = running.start([plan for _, plan, _ in left], place, seconds)
                small: list[Left] = []
                giants: list[Left] = []
                for part, plan, batches in left:
                    for batch in batches:
                        (giants if _is_giant(plan, batch, limit) else small).append((part, batch))
                computing.run(small, giants, joins, running.executor)
            else:
                join_here(joins, listener)
            workers.close()
            if not computing.ended:
                _clean_up(parts[0], held, listener)
    computing.finish()
    return replace(parts[0], fence=None)


def _in_turn(listener: Listener) -> Listener:
    """Return a listener that is called by one thread at a time."""
    turn = threading.RLock()

    def listen(event: Event) -> None:
        with turn:
            listener(event)

    return listen


def _clean_up(first: StoredStudy, held: Held, listener: Listener) -> None:
    """Remove what killed processes have left behind, but nothing of a run that has taken over.

    A failure is an event, not an error.
    """
    # Without waiting long: the next run removes what this one cannot.
    place = with_patience(first.place, PATIENCE_SECONDS)
    try:
        if not held.confirmed():
            return
        remove_strays(replace(first, place=place))
        scratch_of(place.url).clear()
    except OSError as error:
        listener(CleanUpFailed(f"what could not be removed: {one_line(error)}"))


@contextmanager
def _held(place: Place, patience: float) -> Iterator[Held]:
    """Hold a store; if its lock cannot be made, no store can be created there."""
    with ExitStack() as stack:
        try:
            held = stack.enter_context(hold(place, patience=patience))
        except OSError as error:
            if isinstance(error, PbdistError):
                raise
            raise InvalidInputError(f"store: expected a path to create a store at, got: {error}") from error
        yield held


def _parts(place: Place, asked: Asked, workers: "_Workers", held: Held, planner: Planner) -> Sequence[StoredStudy]:
    """Return the parts of the store, complete except for results: created, repaired, or extended by what it lacks."""
    if not is_there(place):
        return (create_or_open(place, planner.plan(asked.study)),)
    # Repaired first, so that the cells can be read to find what is missing.
    restore_heads(place, asked.study, planner.plan)
    parts = restore_parts(open_parts(place), asked.study)
    plans = [planner.plan(missing) for missing in asked.missing([part.study for part in parts])]
    if plans:
        # Workers come first here too.
        workers.start(plans, place)
    # Also without plans: it removes what an interrupted extension has left.
    return extend(parts, plans, held)


def _uncommitted(
    place: Place, parts: Sequence[StoredStudy], planner: Planner, *, check: bool
) -> tuple[list[tuple[StoredStudy, Plan, list[Batch]]], list[JoinTask]]:
    """Return the parts with batches to be computed, their plans and those batches; and shards that lack none.

    By one listing of the store and the commit records; if `check`, every file is compared with its checksum too.
    """
    sizes = sizes_of_store(place)
    left, joins = [], []
    for part in parts:
        missing: set[int] = set()
        partly: set[int] = set()
        for state in survey(part.head, sizes_of_part(sizes, part.part), check=check):
            again = {index for index, record in state.batches.items() if record.failed}
            lacking = {index for index in part.head.batches_of(state.shard) if index not in state.batches}
            missing |= lacking
            partly |= again
            if not (lacking or again or state.whole):
                joins.append(JoinTask(part.head, state.shard))
        if missing or partly:
            plan = planner.plan(part.study, part.cells_per_batch)
            batches = [batch for batch in plan.batches if batch.index in missing or batch.index in partly]
            left.append((part, plan, [replace(batch, partly=batch.index in partly) for batch in batches]))
    return left, joins


def _is_giant(plan: Plan, batch: Batch, limit: int | None) -> bool:
    """Whether a cell of a batch needs more memory than a worker has, and can be computed in blocks."""
    largest = int(plan.cell_bytes[batch.start : batch.stop].max())
    return limit is not None and plan.study.method == "buckets" and largest > limit


class _Workers:
    """The executor, started when it is needed, and refused if its workers have less memory than the plans project.

    What is projected to take at most `serial_seconds` is computed in this process instead: starting workers takes
    longer.
    """

    def __init__(
        self, stack: ExitStack, executor: Executor, listener: Listener, told_every: float, serial_seconds: float
    ) -> None:
        self._stack, self._executor, self._listener, self._started = stack, executor, listener, False
        self._told_every, self._serial_seconds = told_every, serial_seconds
        self._serial = SerialExecutor()

    @property
    def executor(self) -> Executor:
        """What computes."""
        return self._executor if self._started else self._serial

    def start(self, plans: Sequence[Plan], place: Place, seconds: float | None = None) -> int | None:
        """Start the workers, and return the memory in bytes that one may use; None without a limit.

        `seconds` is the projected time of what is to be computed, if that is less than the plans.

        Raises
        ------
        InvalidInputError
            A worker has too little memory, or the disk has no room for the blocks of a giant cell.
        """
        projected = sum(plan.seconds for plan in plans) if seconds is None else seconds
        if not self._started and projected <= self._serial_seconds:
            self._serial = SerialExecutor(f"this process, as {duration(projected)} of work are projected")
        elif not self._started:
            began = time.monotonic()
            with regularly(self._told_every, lambda: self._listener(WorkersAwaited(time.monotonic() - began))):
                self._executor.__enter__()
            self._stack.push(self._leave)
            self._started = True
        limit = self.executor.worker_bytes
        for plan in plans:
            if limit is None or plan.worker_bytes <= limit:
                continue
            if plan.study.method == "buckets":
                # Raises if the cells are too large even in blocks.
                giant.layout_of(plan.study, limit)
                _check_room(place, giant.scratch_bytes(plan.study))
                continue
            needed, allowed = plan.worker_bytes / 2**20, limit / 2**20
            raise InvalidInputError(
                f"memory_limit: expected workers that may use {needed:.0f} MiB, got {allowed:.0f} MiB: "
                "start fewer workers or allow a larger tolerance"
            )
        return limit

    def _leave(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the workers; an error is an event, and hides neither results nor failures."""
        try:
            self._executor.__exit__(kind, error, traceback)
        except Exception as problem:  # noqa: BLE001 -- whatever it is, the results are in the store
            self._listener(CleanUpFailed(f"workers that did not stop: {one_line(problem)}"))


def _check_room(place: Place, needed: int) -> None:
    """Refuse a giant cell whose blocks the disk has no room for."""
    if not isinstance(place, LocalPlace):
        return
    folder = Path(place.url)
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InvalidInputError(
            f"buckets: expected {size(needed)} on the disk of the store for what no worker's memory holds, "
            f"got {size(free)} free in {folder}"
        )
