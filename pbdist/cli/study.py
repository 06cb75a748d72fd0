"""``pbdist studies``, ``new``, ``plan`` and ``run``: find, write, plan and compute a study."""

import resource
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from pbdist.cli.options import STUDY
from pbdist.cli.output import MISSED, print_json, print_sheet, warn
from pbdist.cli.parser import FILE, PATH, Argument, Option, Options, command, completed, refuse
from pbdist.errors import InvalidInputError, printable
from pbdist.input_files import check_outside
from pbdist.tables import Column, Sheet

if TYPE_CHECKING:
    from pbdist.run import Executor
    from pbdist.run.events import Event
    from pbdist.store import Place
    from pbdist.study import Plan, StudySpec
    from pbdist.study.load import Addition

#: Workers take about so long to start, in seconds.
_SERIAL_SECONDS = 3.0
_WORKERS = click.IntRange(1, 4096)
_WHAT = "a study file, or the name of a study that comes with pbdist, such as quickstart"
_STUDY = Argument("FILE", _WHAT, name="study", shell_complete=STUDY)


def _study_and_store(options: Options) -> "tuple[StudySpec | Addition, str]":
    from pbdist.study.load import load_asked
    from pbdist.study.starter import find_study

    file = load_asked(find_study(options.study))
    return file, options.store or f"data/{file.name}.zarr"


@command(
    "plan",
    _STUDY,
    Option("--json", "print JSON, unrounded, with the grids"),
    Option(
        "--store STORE",
        "show what a run would add to this store: a path or s3://BUCKET/PREFIX (with extend: true in the file:"
        " data/NAME.zarr)",
        FILE,
    ),
    Option("--workers N", "number of workers for the projected time", _WORKERS, default=1),
    example="plan quickstart --workers 4",
)
def plan(options: Options) -> int:
    """Project the time, memory and disk space of a study."""
    from pbdist.quantities import duration
    from pbdist.run.run import request_for
    from pbdist.store import is_there, open_parts, place_at
    from pbdist.study import StudySpec, plan_study
    from pbdist.study.plan import elapsed

    (file, store), workers = _study_and_store(options), options.workers
    extends = options.store is not None or not isinstance(file, StudySpec)
    wanted = request_for(file, store)
    # Where no store is, all points are new.
    there = extends and is_there(place_at(store))
    missing = wanted.missing([one.study for one in open_parts(place_at(store))]) if there else (wanted.study,)
    plans = [plan_study(part) for part in missing]
    points = sum(one.points for one in plans)
    if options.json:
        parts = [
            {**_facts(one), "workers": workers, "elapsed_seconds": elapsed(one.batch_seconds, workers)} for one in plans
        ]
        print_json({"store": store, "points": points, "parts": parts} if extends else parts[0])
        return 0
    for one in plans:
        print_sheet(one.sheet, "table")
        if workers > 1:
            print(f"projected time on {workers:,} workers: {duration(elapsed(one.batch_seconds, workers))}")
    if extends:
        print(printable(f"{store}: {points:,} points would be added"))
    return 0


def _facts(plan: "Plan") -> dict[str, Any]:
    """Return a plan as JSON values, unrounded, with the grids."""
    from pbdist.study.columns import CellTable

    study, seconds = plan.study, plan.batch_seconds
    taken = ("name", "description", "digest", "method", "tolerance", "buckets", "floor", "direction", "keep_states")
    sizes = ("points", "cells_per_batch", "seconds", "worker_bytes", "store_bytes")
    return {
        **{name: getattr(study, name) for name in taken},
        "cells": len(study.cells),
        "cells_by_label": CellTable.of(study.cells).labels(),
        "compositions": list(study.compositions),
        "epsilon": list(study.epsilon),
        "targets": [vars(target) for target in study.targets],
        "added_by_targets": {
            "compositions": list(study.target_compositions),
            "epsilon": list(study.target_epsilon),
            "points": plan.added_points,
        },
        "batches": seconds.size,
        "batch_seconds": {"min": float(seconds.min()), "max": float(seconds.max())},
        **{name: getattr(plan, name) for name in sizes},
    }


@command(
    "run",
    _STUDY,
    Option("--store STORE", "the store: a path or s3://BUCKET/PREFIX (data/NAME.zarr)", FILE),
    Option("--workers N", "worker processes (one a core)", _WORKERS),
    Option("--scheduler ADDRESS|FILE", "use a running Dask scheduler: its address or its scheduler file", FILE),
    Option("--cluster FILE", "start the Dask cluster of a file, such as cluster/slurm.yaml", PATH),
    Option("--serial", "compute in this process, without Dask"),
    Option(
        "--patience SECONDS",
        "how long to wait for an object store that cannot be reached any more (900)",
        click.FloatRange(1, 1_000_000),
    ),
    Option("--check", "first compare every file of the store with its checksum, and not only its size"),
    Option("--log PATH", "append events, one JSON object a line", PATH),
    Option("--strict", "exit with code 3 if the tolerance is missed at a point of the study"),
    example="run quickstart",
    exclusive=[("workers", "scheduler", "cluster", "serial")],
    resumes=lambda _: True,
    progress=False,
)
def run(options: Options) -> int:
    """Compute a study, or the rest of it, into a store.

    The same command goes on where an interrupted one stopped.
    """
    # Before anything large is imported.
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if 0 <= limit < 2**30:
        has = f"this process may use {limit / 2**20:.0f} MiB of address space, and a run needs 1024 MiB"
        refuse("memory", f"{has}: raise the limit (ulimit -v unlimited)")
    from pbdist.run.run import request_for

    file, store = _study_and_store(options)
    study = request_for(file, store).study
    if options.strict and not study.requires_tolerance:
        refuse("--strict", "expected a study with a tolerance, got one without")
    if options.log is not None:
        check_outside(options.log, store, "--log")
    executor = _executor(options)
    from rich.console import Console

    from pbdist.run import OUTAGE_SECONDS, run_study
    from pbdist.run.listeners import ProgressDisplay, RunLog

    with ExitStack() as stack:
        listeners: list[Callable[[Event], None]] = []
        if options.log is not None:
            log = stack.enter_context(RunLog(options.log))
            stack.callback(lambda: warn(log.problem) if log.problem else None)
            listeners.append(log)
        listeners.append(stack.enter_context(ProgressDisplay(Console(stderr=True))))

        def notify(event: "Event") -> None:
            for listener in listeners:
                listener(event)

        stored = run_study(
            file,
            store,
            executor,
            notify,
            patience=options.patience or OUTAGE_SECONDS,
            check=options.check,
            serial_seconds=0.0 if options.given("workers", "cluster", "scheduler") else _SERIAL_SECONDS,
        )
    missed = _print_results(study, stored.place)
    print(printable(f"store: {store}"))
    return MISSED if options.strict and missed else 0


def _executor(options: Options) -> "Executor":
    """Return the executor that the options name; nothing is started yet."""
    if options.serial:
        from pbdist.run import SerialExecutor

        return SerialExecutor()
    try:
        from pbdist.run.clients import load_cluster, local_cluster
        from pbdist.run.dask_executor import DaskExecutor
    except ValueError as error:
        # Dask reads its configuration when it is imported.
        text = " ".join(str(error).split())
        raise InvalidInputError(f"{text}: correct that file, or compute without Dask: --serial") from error
    cluster = local_cluster(options.workers) if options.cluster is None else load_cluster(options.cluster)
    return DaskExecutor(cluster, options.scheduler)


def _print_results(study: "StudySpec", store: "Place") -> int:
    """Print the verdicts on targets and the precision; return the number of points that miss the tolerance."""
    from pbdist.query import open_study, reached_precision
    from pbdist.query.noise_choice import target_sheet
    from pbdist.query.status import precision_line

    opened = open_study(store)
    for target in study.targets:
        print_sheet(target_sheet(opened, **vars(target), cells=study.cells), "table")
    if study.required_tolerance is None or not study.requires_tolerance:
        return 0
    found = reached_precision(opened, study)
    if found.unreadable:
        # A run without --check has not read the earlier batches.
        for part in opened.parts:
            for index in range(part.batches):
                part.read(index)
    print(printable(precision_line(study.required_tolerance, found)))
    return found.missed


@command("studies", example="studies")
def studies(options: Options) -> int:  # noqa: ARG001
    """List the studies that come with pbdist."""
    from pbdist.study import load_study
    from pbdist.study.starter import shipped_names, shipped_study

    # First the one that strangers should try.
    names = sorted(shipped_names(), key=lambda name: name != "quickstart")
    found = [load_study(shipped_study(name)) for name in names]
    rows = [(study.name, f"{len(study.cells):,}", study.description) for study in found]
    takes = "pbdist plan STUDY says how long one takes, and pbdist run STUDY computes it"
    notes = (takes, "pbdist new FILE --like STUDY writes a copy of its file")
    columns = Column("study", "study", number=False), Column("cells", "cells"), Column("about", "about", number=False)
    print_sheet(Sheet(columns, tuple(rows), notes=notes), "table")
    return 0


@command(
    "new",
    Argument("FILE", "the new study file; its name becomes that of the study", PATH),
    Option(
        "--family KIND",
        "the kind of mechanism (Gaussian)",
        name="kind",
        shell_complete=completed("pbdist.study.starter:starter_kinds"),
    ),
    Option("--like STUDY", "copy one of the studies that come with pbdist", name="study", shell_complete=STUDY),
    example="new my-study.yaml --family Laplace",
    exclusive=[("kind", "study")],
)
def new(options: Options) -> int:
    """Write a commented study file to begin with.

    The file can be run unchanged. Nothing is overwritten.
    """
    from pbdist.study.starter import write_copy, write_starter

    if options.study is not None:
        write_copy(options.file, options.study)
    else:
        write_starter(options.file, options.kind or "Gaussian")
    print(printable(f"{options.file} is written. Its projected time: pbdist plan {options.file}"))
    return 0
