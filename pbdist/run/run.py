"""Run a study: find what its store lacks, plan it, start workers, and have it computed."""

import gc
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pbdist.errors import BatchError, InvalidInputError, StoreDamagedError, StoreMismatchError, WorkersLostError
from pbdist.provenance import difference, provenance
from pbdist.quantities import duration, size
from pbdist.run import giant
from pbdist.run.events import (
    OUTAGE_SECONDS,
    TOLD_EVERY,
    BatchFailed,
    CellsAtWork,
    Done,
    Event,
    Executor,
    Failure,
    Listener,
    Notice,
    Report,
    RunFinished,
    RunStarted,
    SerialExecutor,
    StillComputing,
    one_line,
    pause_between_reports,
    regularly,
    reported_by,
)
from pbdist.run.schedule import Left, Schedule, task_of
from pbdist.run.task import Receipt, Task, run_task
from pbdist.store import (
    Place,
    StoredStudy,
    create_or_open,
    damaged_batches,
    extend,
    hold,
    is_there,
    open_parts,
    place_at,
    restore,
    with_patience,
)
from pbdist.study import Batch, Plan, Planner, StudySpec
from pbdist.study.load import Addition
from pbdist.study.plan import BASE_BYTES, elapsed
from pbdist.study.spec import missing_parts, missing_points

#: Causes of failures, and cells of each, that an error names; cells at work in one event.
_MAX_NAMED = 5
#: Seconds until it is first said that workers are awaited.
_FIRST = 2.0


@dataclass(frozen=True)
class Request:
    """A study whose points a store is to have."""

    #: The study. With `adds` it is what a file adds to the store.
    study: StudySpec
    #: Whether the store may have other points too.
    adds: bool = False

    def missing(self, stored: Sequence[StudySpec]) -> tuple[StudySpec, ...]:
        """Return what the stored studies lack, as `missing_parts`, or as `missing_points` of what a file adds."""
        return missing_points(stored, self.study) if self.adds else missing_parts(stored, self.study)


def request_for(study: StudySpec | Addition, store: str | Path | Place) -> Request:
    """Return the study whose points a store is to have: of an addition, with all that it takes from the store."""
    if isinstance(study, StudySpec):
        return Request(study)
    place = place_at(store)
    if not is_there(place):
        raise InvalidInputError(f"store: the file extends a store (extend: true), and there is none at {place.url}")
    parts = [part.study for part in open_parts(place)]
    try:
        return Request(study.onto(parts), adds=True)
    except StoreDamagedError:
        # The part that the file has made may be restored by it.
        sound = []
        for part in parts:
            with suppress(StoreDamagedError):
                sound.append(replace(part, cells=tuple(part.cells)))
        if not sound:
            raise
        return Request(study.onto(sound), adds=True)


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

    Guaranteed: it can be killed at any moment and called again. Committed batches are computed again only if their
    files are missing or damaged, or cells of them have failed, and the finished store is the same as without the
    interruption. A store with some of the study is extended by the rest, and its contents stay as they are; one with
    more than the study is completed. What is no store of the study stays as it was. A `BatchError` names the cells that
    could not be computed, and the causes; all others are committed.

    `store` is a path or a URL ``s3://BUCKET/PREFIX``. The `executor` is entered only if there is something to compute,
    and left before this returns; what is projected to take at most `serial_seconds` is computed in this process,
    without it. The `listener` is called with each event, one at a time, by several threads; between two events of
    progress are `told_every` seconds. Requests to an object store are tried again for `patience` seconds. With `check`
    every file of the store is read and compared with its checksum.
    """
    if not 0.0 < told_every <= threading.TIMEOUT_MAX:
        raise InvalidInputError(f"told_every: expected a number of seconds above 0, got {told_every!r}")
    place, planner, turn = place_at(store), Planner(), threading.RLock()
    request = request_for(study, place)

    def listen(event: Event) -> None:
        with turn:
            listener(event)

    # The collector of garbage should not search a million cells again and again.
    gc.freeze()
    with hold(place), ExitStack() as stack:
        workers = _Workers(stack, executor, listen, told_every, serial_seconds)
        parts = _parts(with_patience(place, patience) if is_there(place) else place, request, workers, planner)
        parts = [replace(part, place=with_patience(part.place, patience)) for part in parts]
        left = [found for part in parts if (found := _uncommitted(part, planner, check=check)) is not None]
        run = _Run(parts, listen, told_every)
        if left:
            seconds = sum(batch.seconds for _, _, batches in left for batch in batches)
            limit = workers.start([plan for _, plan, _ in left], place, seconds)
            blocks, whole = list[Left](), list[Left]()
            for part, plan, batches in left:
                fits = plan.study.method != "buckets" or limit is None or plan.worker_bytes <= limit
                (whole if fits else blocks).extend((part, batch) for batch in batches)
            run.compute(whole, blocks, workers.executor)
        stack.close()
        run.finish()
    return parts[0]


def _parts(place: Place, request: Request, workers: "_Workers", planner: Planner) -> Sequence[StoredStudy]:
    """Return the parts of the store, complete except for results: created, restored, or extended by what it lacks."""
    if not is_there(place):
        plan = planner.plan(request.study)
        # Workers come first: if none start, no empty store is left behind.
        workers.start([plan], place, plan.seconds)
        return (create_or_open(place, plan),)
    parts = restore(place, request.study, planner.plan)
    plans = [planner.plan(missing) for missing in request.missing([part.study for part in parts])]
    if plans:
        workers.start(plans, place, sum(plan.seconds for plan in plans))
    return extend(parts, plans)


def _uncommitted(part: StoredStudy, planner: Planner, *, check: bool) -> tuple[StoredStudy, Plan, list[Batch]] | None:
    """Return a part, its plan and the batches that are to be computed; None where there are none.

    By one listing of the store; if `check`, every file is compared with its checksum too. A part that other versions
    have begun is refused: its results would depend on when it was stopped.
    """
    progress = part.progress()
    again = {cell // part.cells_per_batch for cell in progress.failed} | set(progress.missing)
    if check:
        again |= set(damaged_batches(part))
    if not again:
        return None
    problem = difference(part.attributes.get("provenance", {}), provenance())
    if problem is not None:
        raise StoreMismatchError(
            f"{part.place.url}: other versions began the store: {problem}: continue with the versions of the store,"
            " or run the study into a new store"
        )
    plan = planner.plan(part.study, part.cells_per_batch)
    return part, plan, [batch for batch in plan.batches if batch.index in again]


@dataclass
class _Workers:
    """The executor, started when it is needed, and refused if its workers have less memory than the plans project."""

    stack: ExitStack
    to_start: Executor | None
    listener: Listener
    told_every: float
    #: What is projected to take no longer is computed in this process: starting workers takes longer.
    serial_seconds: float
    #: What computes.
    executor: Executor = field(default_factory=SerialExecutor)

    def start(self, plans: Sequence[Plan], place: Place, seconds: float) -> int | None:
        """Start the workers for what takes so long, and return the memory in bytes that one may use, None for any."""
        if self.to_start is not None and seconds <= self.serial_seconds:
            self.executor = SerialExecutor(f"this process, as only {duration(seconds)} of work is projected")
        elif self.to_start is not None:
            _check_room(plans, place, self.to_start)
            began, awaited = time.monotonic(), self.to_start.workers

            def wait() -> None:
                self.listener(Notice(f"waiting for {awaited} for {duration(round(time.monotonic() - began))}"))

            with regularly(self.told_every, wait, _FIRST):
                self.to_start.__enter__()
            self.executor, self.to_start = self.to_start, None
            self.stack.push(self._leave)
        _check_room(plans, place, self.executor)
        return self.executor.worker_bytes

    def _leave(self, *error: Any) -> None:
        """Stop the workers; an error is an event, and hides neither results nor failures."""
        try:
            self.executor.__exit__(*error)
        except Exception as problem:  # noqa: BLE001 -- whatever it is, the results are in the store
            self.listener(Notice(f"workers that did not stop: {one_line(problem)}"))


def _check_room(plans: Sequence[Plan], place: Place, executor: Executor) -> None:
    """Refuse plans whose cells need more memory than a worker has, and cannot be computed in blocks beside a store."""
    limit = executor.worker_bytes
    for plan in plans:
        if limit is None or plan.worker_bytes <= limit:
            continue
        if plan.study.method != "buckets":
            needed = f"a worker needs {size(plan.worker_bytes)} and may use {size(limit)}"
            also = ", or allow a larger tolerance" if limit > BASE_BYTES else ""
            raise InvalidInputError(f"memory: {needed}: {executor.more_memory}{also}")
        giant.check_room(plan.study, place, limit)


class _Run:
    """One run: its counts, its failures, and its events."""

    def __init__(self, parts: Sequence[StoredStudy], listener: Listener, told_every: float) -> None:
        self._parts = {part.part: part for part in parts}
        self._cells = self._done = sum(len(part.study.cells) for part in parts)
        self._listener, self._told_every = listener, told_every
        self._began = time.monotonic()
        self._written = 0
        #: Causes of cells that failed, by part and number of the cell.
        self._failed: dict[tuple[str, int], str] = {}
        #: Batches that are left, by part and number of the batch.
        self._left: dict[tuple[str, int], Batch] = {}
        #: Why the run ended early; empty if it did not.
        self._ended = ""
        self._at_work = CellsAtWork(lambda part, batch: (part, batch) in self._left)

    def compute(self, whole: Sequence[Left], blocks: Sequence[Left], executor: Executor) -> None:
        """Compute the batches that are left: a whole one in a worker, or cells in blocks on all workers."""
        left = [*whole, *blocks]
        self._left = {(part.part, batch.index): batch for part, batch in left}
        self._done -= sum(batch.stop - batch.start for batch in self._left.values())
        parallelism = executor.parallelism
        pause = pause_between_reports(self._told_every, parallelism)
        self._schedule = Schedule(whole, parallelism)
        # Cells in blocks take all workers.
        apart, together = ([batch.seconds for _, batch in some] for some in (whole, blocks))
        self._listener(
            RunStarted(
                cells=self._cells,
                cells_before=self._done,
                batches=len(left),
                workers=executor.workers,
                dashboard=executor.dashboard,
                store=left[0][0].where,
                seconds=sum(apart) + sum(together),
                parallelism=parallelism,
                elapsed_seconds=elapsed(apart, parallelism) + sum(together) / parallelism,
                parts=len(self._parts),
            )
        )
        with regularly(self._told_every, self._send_progress):
            try:
                for part, batch in blocks:
                    if not self._ended:
                        task = task_of(part, [batch])
                        with reported_by(self._hear):
                            self._settle(task, giant.run_giant_task(task, executor=executor, pause=pause))
                for done in executor.run(partial(run_task, pause=pause), self._schedule, self._hear):
                    self._take(done)
                    if not self._left:
                        # Tasks that still run compute nothing new.
                        break
            except WorkersLostError as error:
                self._end(str(error))

    def finish(self) -> None:
        """Send `RunFinished`; a `BatchError` where some cells could not be computed, or the run ended early."""
        if self._ended:
            reached = f"{self._stored_cells():,} of {self._cells:,} cells are in the store"
            raise BatchError(f"{self._ended}: {reached}: the same command goes on where this one stopped")
        seconds = time.monotonic() - self._began
        self._listener(RunFinished(self._cells, len(self._failed), seconds, self._written))
        if self._failed:
            raise BatchError(self._described())

    def _stored_cells(self) -> int:
        """Return how many cells are in the store, with those that workers have committed and could not report."""
        try:
            parts = [replace(part, place=with_patience(part.place, 1.0)) for part in self._parts.values()]
            found = [(part, part.progress()) for part in parts]
        except OSError:
            return self._done - len(self._failed)
        missing = sum(len(part.cells_of(index)) for part, progress in found for index in progress.missing)
        return self._cells - missing - sum(len(progress.failed) for _, progress in found)

    def _hear(self, message: Notice | Report) -> None:
        if isinstance(message, Report):
            self._at_work.take(message)
        else:
            self._listener(message)

    def _send_progress(self) -> None:
        cells, seconds = self._at_work.cells(), time.monotonic() - self._began
        named, more = tuple(cells[:_MAX_NAMED]), max(0, len(cells) - _MAX_NAMED)
        self._listener(StillComputing(seconds, self._cells, self._done, named, more))

    def _take(self, done: Done[Task, tuple[Receipt | Failure, ...]]) -> None:
        task, result = done.item, done.result
        self._schedule.returned()
        if task.probed is not None:
            self._schedule.probed(task, result.cause if isinstance(result, Failure) else None)
        elif not isinstance(result, Failure):
            self._settle(task, result)
        elif not (result.killed and self._schedule.isolate(task)):
            self._settle(task, (result,) * len(task.batches))

    def _settle(self, task: Task, results: Sequence[Receipt | Failure]) -> None:
        """Note the results of the batches of a task; those after the last result were not tried."""
        for batch, result in zip(task.batches, results, strict=False):
            if isinstance(result, Receipt):
                self._finished(result)
            elif result.store:
                self._end(f"the store cannot be written: {result.cause}")
            else:
                self._batch_failed(task.head.part, batch, result.cause)

    def _finished(self, receipt: Receipt) -> None:
        event = receipt.finished
        if self._left.pop((event.part, event.batch), None) is None:
            # Given up meanwhile, or committed a second time after the first result was lost.
            return
        self._done += event.cells
        self._written += event.written_bytes
        for failure in receipt.failures:
            self._failed[failure.part, failure.cell] = failure.cause
            self._listener(failure)
        self._listener(event)

    def _batch_failed(self, part: str, batch: Batch, cause: str) -> None:
        if self._left.pop((part, batch.index), None) is None:
            return
        self._done += batch.stop - batch.start
        self._failed.update({(part, cell): cause for cell in range(batch.start, batch.stop)})
        self._listener(BatchFailed(part, batch.index, batch.stop - batch.start, batch.seconds, cause))

    def _end(self, cause: str) -> None:
        """End the run: nothing more can be computed or written. Cells that were not tried have not failed."""
        self._ended = self._ended or cause
        self._schedule.clear()
        self._left.clear()

    def _described(self) -> str:
        """Return which cells failed and why: the first few of each cause by name."""
        by_cause: dict[str, list[tuple[str, int]]] = {}
        for key, cause in sorted(self._failed.items()):
            by_cause.setdefault(cause, []).append(key)
        parts = [f"{'; '.join(self._named(cells))}: {cause}" for cause, cells in list(by_cause.items())[:_MAX_NAMED]]
        if len(by_cause) > _MAX_NAMED:
            parts.append(f"and {len(by_cause) - _MAX_NAMED} more causes")
        return f"{len(self._failed)} of {self._cells} cells could not be computed: {' | '.join(parts)}"

    def _named(self, cells: Sequence[tuple[str, int]]) -> list[str]:
        more = [f"and {len(cells) - _MAX_NAMED} more cells"] if len(cells) > _MAX_NAMED else []
        return [self._parts[part].study.cells[cell].describe() for part, cell in cells[:_MAX_NAMED]] + more
