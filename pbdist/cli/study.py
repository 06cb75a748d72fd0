"""``pbdist studies``, ``new``, ``plan`` and ``run``: find or write a study, tell what it will take, compute it."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pbdist.cli.given import Options, given_options, refuse
from pbdist.cli.interrupts import in_good_order
from pbdist.cli.options import STUDY, STUDY_OR_FILE
from pbdist.cli.output import EXIT_CODES, MISSED, print_json, print_sheet, printed_warnings, warn
from pbdist.cli.parser import FILE, FOLDER, PATH, Argument, Number, Option, Word, command
from pbdist.errors import InvalidInputError, printable
from pbdist.input_files import check_outside

if TYPE_CHECKING:
    from pbdist.run import Executor
    from pbdist.run.events import Event
    from pbdist.store import Place
    from pbdist.study import Plan, StudySpec
    from pbdist.study.load import Addition
    from pbdist.tables import Sheet

#: Workers take about so long to start, in seconds.
_SERIAL_SECONDS = 3.0
#: What numpy, scipy and zarr take of the address space, in bytes; with less, OpenBLAS may hang.
_ADDRESS_SPACE = 2**30
_WORKERS = Number(1, 4096, whole=True)


_WHAT = "a study file, or the name of a study that comes with pbdist, such as quickstart"
_STUDY = Argument("FILE", _WHAT, STUDY_OR_FILE, name="study")


@command(
    "plan",
    _STUDY,
    Option("--json", "print JSON, unrounded, with the grids"),
    Option(
        "--store STORE",
        "show what a run would add to this store: a path or s3://BUCKET/PREFIX (default, with extend: true in the"
        " file: data/NAME.zarr)",
        FOLDER,
    ),
    Option("--workers N", "project the time on so many workers (default: 1)", _WORKERS, default=1),
    example="plan quickstart --workers 4",
    exits=EXIT_CODES,
)
def plan(options: Options) -> int:
    """Show what a study will take in time, memory and disk space."""
    from pbdist.study import StudySpec, plan_study
    from pbdist.study.load import load_asked

    asked, workers = load_asked(study_file(options.study)), options.workers
    store = _store(options, asked)
    whole = plan_study(asked) if options.store is None and isinstance(asked, StudySpec) else None
    plans = [] if whole else _additions(asked, store)
    if options.json:
        print_json(_plan_as_json(whole, workers) if whole else _additions_as_json(store, plans, workers))
    elif whole or plans:
        print_sheet(_plan_sheet(whole, workers) if whole else _additions_sheet(store, plans, workers), "table")
    else:
        print(printable(f"{store}: has all points of the file, nothing would be added"))
    return 0


def _store(options: Options, asked: "StudySpec | Addition") -> str:
    return f"data/{asked.name}.zarr" if options.store is None else options.store


def study_file(given: str) -> Path:
    """Return the study file that is meant; it is said where a file has the name of a study of pbdist."""
    from pbdist.study.starter import find_study, shipped_names

    path = find_study(given)
    if given in shipped_names() and path == Path(given):
        taken = f"the file {given} in this folder is taken, not the study that comes with pbdist"
        print(f"pbdist: {taken}", file=sys.stderr)
    return path


@command(
    "run",
    _STUDY,
    Option("--store STORE", "the store: a path or s3://BUCKET/PREFIX (default: data/NAME.zarr)", FOLDER),
    Option("--workers N", "worker processes (default: one a core)", _WORKERS),
    Option("--scheduler ADDRESS|FILE", "use a running Dask scheduler: its address or its scheduler file", FILE),
    Option("--cluster FILE", "start the Dask cluster of a file, such as cluster/slurm.yaml", PATH),
    Option("--serial", "compute in this process, without Dask"),
    Option(
        "--patience SECONDS",
        "how long to wait for an object store that cannot be reached any more (default: 900)",
        Number(1, 1_000_000, "seconds"),
    ),
    Option("--check", "before, read every file of the store and compare it with its checksum, and not only its size"),
    Option("--log PATH", "append what happens, one JSON object a line", PATH),
    Option("--strict", "exit with code 3 if the tolerance is missed at a point that was asked for"),
    example="run quickstart",
    resumes=True,
    exits=EXIT_CODES,
    exclusive=[("workers", "scheduler", "cluster", "serial")],
)
def run(options: Options) -> int:
    """Compute a study, or what is left of it, into a store.

    The same command goes on where an interrupted one stopped.
    """
    _check_address_space()
    from pbdist.run.run import request_for
    from pbdist.study.load import load_asked

    asked = load_asked(study_file(options.study))
    store = _store(options, asked)
    study = request_for(asked, store).study
    if options.strict and not study.requires_tolerance:
        refuse("--strict", "expected a study with a tolerance, got one without")
    if options.log is not None:
        check_outside(options.log, store, "--log")
    executor = _executor(options)
    from rich.console import Console

    from pbdist.run import OUTAGE_SECONDS, run_study
    from pbdist.run.listeners import ProgressDisplay, RunLog

    with in_good_order(), ExitStack() as stack:
        listeners: list[Callable[[Event], None]] = []
        if options.log is not None:
            log = stack.enter_context(RunLog(options.log))
            stack.callback(lambda: warn(log.problem) if log.problem else None)
            listeners.append(log)
        listeners.append(stack.enter_context(ProgressDisplay(Console(stderr=True))))

        def notify(event: "Event") -> None:
            for listener in listeners:
                listener(event)

        stack.enter_context(printed_warnings())
        named = given_options(options, ("workers", "cluster", "scheduler"))
        patience, serial = options.patience or OUTAGE_SECONDS, 0.0 if named else _SERIAL_SECONDS
        settings = {"patience": patience, "check": options.check, "serial_seconds": serial}
        stored = run_study(asked, store, executor, notify, **settings)
    missed = _print_results(study, stored.place)
    print(printable(f"store: {store}"))
    return MISSED if options.strict and missed else 0


def _check_address_space() -> None:
    """Refuse a run for which this process may have too little memory, before anything large is imported."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY and soft < _ADDRESS_SPACE:
        has = f"this process may use {soft / 2**20:.0f} MiB of addresses, and a run needs 1024 MiB"
        refuse("memory", f"{has}: raise the limit (ulimit -v unlimited)")


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
    """Print what meets the targets, and how far the tolerance was reached; return at how many points it was missed."""
    if not study.targets and not study.requires_tolerance:
        return 0
    from pbdist.query import open_study, reached_precision
    from pbdist.query.judging import precision_line
    from pbdist.query.noise_choice import target_sheet

    opened = open_study(store)
    for target in study.targets:
        print_sheet(target_sheet(opened, **vars(target), cells=study.cells), "table")
    if study.required_tolerance is None or not study.requires_tolerance:
        return 0
    found = reached_precision(opened, study, recorded=True)
    if found.unreadable:
        # A run without --check has not read what was there before.
        for part in opened.parts:
            for index in range(part.batches):
                part.read(index)
    print(printable(precision_line(study.required_tolerance, found)))
    return found.missed


@command(
    "studies",
    Option("--show STUDY", "print the file of one of them", STUDY, name="study"),
    example="studies --show quickstart",
)
def studies(options: Options) -> int:
    """List the studies that come with pbdist."""
    from pbdist.study.starter import shipped_names, shipped_study

    if options.study is not None:
        print(shipped_study(options.study).read_text(encoding="utf-8"), end="")
        return 0
    from pbdist.study import load_study
    from pbdist.tables import Column, Sheet

    # First the one that strangers should try.
    names = sorted(shipped_names(), key=lambda name: name != "quickstart")
    found = [load_study(shipped_study(name)) for name in names]
    rows = [(study.name, f"{len(study.cells):,}", study.description) for study in found]
    takes = "pbdist plan STUDY says how long one takes, and pbdist run STUDY computes it"
    notes = (takes, "pbdist studies --show STUDY prints its file")
    columns = Column("study", "study", number=False), Column("cells", "cells"), Column("about", "about", number=False)
    print_sheet(Sheet(columns, tuple(rows), notes=notes), "table")
    return 0


def _starter_kinds() -> tuple[str, ...]:
    from pbdist.study.starter import starter_kinds

    return starter_kinds()


@command(
    "new",
    Argument("FILE", "the new study file; its name becomes that of the study", PATH),
    Option("--family KIND", "the kind of mechanism (default: Gaussian)", Word(_starter_kinds), name="kind"),
    Option("--like STUDY", "copy one of the studies that come with pbdist", STUDY, name="study"),
    example="new my-study.yaml --family Laplace",
    exclusive=[("kind", "study")],
)
def new(options: Options) -> int:
    """Write a commented study file to begin with.

    It can be run as it is. Nothing is overwritten.
    """
    from pbdist.study.starter import write_copy, write_starter

    if options.study is not None:
        write_copy(options.file, options.study)
    else:
        write_starter(options.file, options.kind or "Gaussian")
    print(printable(f"{options.file} is written. What it will take: pbdist plan {options.file}"))
    return 0


#: So many values that targets added are listed.
_MAX_LISTED = 6
#: What is told of each part that a run would add to a store.
_SIZES = ("seconds", "worker_bytes", "store_bytes")
_OF_PARTS = ("cells", "compositions", "epsilon", "points", "batches", "cells_per_batch", *_SIZES)


def _plan_sheet(plan: "Plan", workers: int) -> "Sheet":
    """Return a plan as it is printed, with what targets add."""
    from pbdist.study.plan import counted, duration, size
    from pbdist.tables import Column, Sheet

    study, seconds = plan.study, plan.batch_seconds
    aim = f"tolerance {study.tolerance:g}" if study.buckets is None else f"{study.buckets:,} buckets"
    rows = {
        "cells (noise settings)": f"{len(study.cells):,}",
        "numbers of compositions": f"{len(study.compositions):,}, up to {study.compositions[-1]:,}",
        "values of epsilon": f"{len(study.epsilon):,}, {study.epsilon[0]:.6g} to {study.epsilon[-1]:.6g}",
        "points, both directions": f"{_points(study):,}",
        "method": f"{study.method}, {aim}",
        "batches": f"{seconds.size:,}, cells in each: {plan.cells_per_batch:,}",
        "projected time of a batch, one core": f"{seconds.min():.3g} to {seconds.max():.3g} s",
        f"projected time of the study, {counted(workers, 'worker')}": duration(_elapsed([plan], workers)),
        "projected peak memory of a worker": size(plan.worker_bytes),
        "projected size of the store, at most": size(plan.store_bytes),
        "bucket states": "kept" if study.keep_states else "not kept",
        "study digest": study.digest[:16],
    }
    columns = Column("what", "what", number=False), Column("how_much", "how much")
    caption = f"{study.name}: {study.description}" if study.description else study.name
    return Sheet(columns, tuple(rows.items()), (caption,), tuple(_added(study)))


def _added(study: "StudySpec") -> "Iterator[str]":
    """Yield what targets add to the grids, in one line, if anything."""
    added = {
        "compositions": [f"{r:,}" for r in study.target_compositions],
        "epsilon": [f"{epsilon:.6g}" for epsilon in study.target_epsilon],
    }
    listed = " and ".join(f"{name} {_listed(texts)}" for name, texts in added.items() if texts)
    if listed:
        points = f"{_points(study) - _points_of_targets(study):,} points become {_points(study):,}"
        yield f"targets off the grids add {listed}: {points}, since every r is computed with every epsilon"


def _listed(texts: list[str]) -> str:
    more = len(texts) - _MAX_LISTED
    return ", ".join(texts[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def _elapsed(plans: "Sequence[Plan]", workers: int) -> float:
    """Return the projected time of some plans together on so many workers."""
    from pbdist.study.plan import elapsed

    return elapsed([seconds for plan in plans for seconds in plan.batch_seconds.tolist()], workers)


def _plan_as_json(plan: "Plan", workers: int) -> dict[str, Any]:
    """Return a plan as JSON values, unrounded, with the grids."""
    from pbdist.study.columns import CellTable

    study, seconds = plan.study, plan.batch_seconds
    taken = ("name", "description", "digest", "method", "tolerance", "buckets", "floor", "direction", "keep_states")
    return {
        **{name: getattr(study, name) for name in taken},
        "cells": len(study.cells),
        "cells_by_label": CellTable.of(study.cells).labels(),
        "compositions": list(study.compositions),
        "epsilon": list(study.epsilon),
        "points": _points(study),
        "targets": [vars(target) for target in study.targets],
        "added_by_targets": {
            "compositions": list(study.target_compositions),
            "epsilon": list(study.target_epsilon),
            "points": _points_of_targets(study),
        },
        "batches": seconds.size,
        "cells_per_batch": plan.cells_per_batch,
        "batch_seconds": {"min": float(seconds.min()), "max": float(seconds.max())},
        "workers": workers,
        "elapsed_seconds": _elapsed([plan], workers),
        **{name: getattr(plan, name) for name in _SIZES},
    }


def _points(study: "StudySpec") -> int:
    """Return the number of points, both directions."""
    return 2 * len(study.cells) * len(study.compositions) * len(study.epsilon)


def _points_of_targets(study: "StudySpec") -> int:
    """Return the number of points that targets off the grids add."""
    rounds = len(study.compositions) - len(study.target_compositions)
    epsilon = len(study.epsilon) - len(study.target_epsilon)
    return _points(study) - 2 * len(study.cells) * rounds * epsilon


def _additions(asked: "StudySpec | Addition", store: str) -> "list[Plan]":
    """Return the plans of the parts that a run would add to a store; none where it has all points."""
    from pbdist.run.run import request_for
    from pbdist.store import is_there, open_parts, place_at
    from pbdist.study import plan_study

    wanted, place = request_for(asked, store), place_at(store)
    # Where nothing is, all is new.
    missing = wanted.missing([part.study for part in open_parts(place)]) if is_there(place) else (wanted.study,)
    return [plan_study(part) for part in missing]


def _additions_sheet(store: str, plans: "Sequence[Plan]", workers: int) -> "Sheet":
    """Return what a run would add to a store: a row for each part, and all together."""
    from pbdist.study.plan import counted, duration, size
    from pbdist.tables import Column, Sheet

    heads = ("cells", "compositions", "epsilon", "points, both directions", "batches", "time, one core", "store")
    rows = []
    for plan in plans:
        study = plan.study
        row = (len(study.cells), len(study.compositions), len(study.epsilon), _points(study), plan.batch_seconds.size)
        rows.append((*(f"{count:,}" for count in row), duration(plan.seconds), f"up to {size(plan.store_bytes)}"))
    points, memory = sum(_points(plan.study) for plan in plans), max(plan.worker_bytes for plan in plans)
    takes = f"{duration(_elapsed(plans, workers))} on {counted(workers, 'worker')} and up to {size(memory)} a worker"
    note = f"{store}: {points:,} points would be added, projected {takes}"
    return Sheet(tuple(Column(head, head) for head in heads), tuple(rows), notes=(note,))


def _additions_as_json(store: str, plans: "Sequence[Plan]", workers: int) -> dict[str, Any]:
    """Return what a run would add as JSON values, unrounded, with the grids."""
    parts = [_plan_as_json(plan, workers) for plan in plans]
    return {
        "store": store,
        "points": sum(_points(plan.study) for plan in plans),
        "seconds": sum(plan.seconds for plan in plans),
        "workers": workers,
        "elapsed_seconds": _elapsed(plans, workers),
        "parts": [{name: part[name] for name in _OF_PARTS} for part in parts],
    }
