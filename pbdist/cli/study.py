"""``pbdist studies``, ``new``, ``plan`` and ``run``: find or write a study, tell what it will take, compute it."""

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pbdist.cli.interrupts import in_good_order
from pbdist.cli.output import EXIT_CODES, MISSED, page, printed_warnings
from pbdist.cli.parser import Argument, Number, Option, Options, Word, command, file_type, refuse
from pbdist.errors import InvalidInputError, PbdistError, printable
from pbdist.input_files import check_outside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from pbdist.run import Executor
    from pbdist.run.events import Event
    from pbdist.run.listeners import RunLog
    from pbdist.store import Place
    from pbdist.study import Plan, StudySpec
    from pbdist.study.load import Addition
    from pbdist.types import JsonValue

#: Workers take about so long to start, in seconds.
_SERIAL_SECONDS = 3.0
#: What numpy, scipy and zarr take of the address space, in bytes; with less, OpenBLAS may hang.
_ADDRESS_SPACE = 2**30
_WORKERS = Number(1, 4096, whole=True)


def study_names() -> tuple[str, ...]:
    """Return the names of the studies that come with pbdist."""
    from pbdist.study.starter import shipped_names

    return shipped_names()


def _study_argument() -> Argument:
    what = "a study file, or the name of a study that comes with pbdist, such as quickstart"
    return Argument("study", what, metavar="FILE", type=Word(study_names, path="file"))


def _store_option(what: str) -> Option:
    return Option("--store", metavar="STORE", type=Word(path="dir"), help=what)


@command(
    "plan",
    _study_argument(),
    Option("--json", is_flag=True, help="print JSON, unrounded, with the grids"),
    _store_option(
        "show what a run would add to this store: a path or s3://BUCKET/PREFIX (default, with extend: true in the"
        " file: data/NAME.zarr)"
    ),
    Option("--workers", metavar="N", type=_WORKERS, default=1, help="project the time on so many workers (default: 1)"),
    example="plan quickstart --workers 4",
    exits=EXIT_CODES,
)
def plan(options: Options) -> int:
    """Show what a study will take in time, memory and disk space."""
    from pbdist.study import StudySpec, plan_study
    from pbdist.study.load import load_asked

    asked, workers = load_asked(study_file(options.study)), options.workers
    if options.store is None and isinstance(asked, StudySpec):
        planned = plan_study(asked)
        found, show = plan_as_json(planned, workers), partial(print_plan, plan=planned, workers=workers)
    else:
        store = _store(options, asked)
        plans = additions(asked, store)
        found = additions_as_json(store, plans, workers)
        show = partial(print_additions, store=store, plans=plans, workers=workers)
    if options.json:
        print(json.dumps(found, indent=2, allow_nan=False))
    else:
        show(page())
    return 0


def _store(options: Options, asked: "StudySpec | Addition") -> str:
    store: str = f"data/{asked.name}.zarr" if options.store is None else options.store
    return store


def study_file(given: str) -> Path:
    """Return the study file that is meant; it is said where a file has the name of a study of pbdist."""
    from pbdist.study.starter import find_study, shipped_names

    path = find_study(given)
    if given in shipped_names() and path == Path(given):
        print(
            f"pbdist: the file {given} in this folder is taken, not the study that comes with pbdist", file=sys.stderr
        )
    return path


@command(
    "run",
    _study_argument(),
    _store_option("the store: a path or s3://BUCKET/PREFIX (default: data/NAME.zarr)"),
    Option("--workers", metavar="N", type=_WORKERS, help="worker processes (default: one a core)"),
    Option(
        "--scheduler",
        metavar="ADDRESS|FILE",
        type=file_type(),
        help="use a running Dask scheduler: its address or its scheduler file",
    ),
    Option(
        "--cluster",
        metavar="FILE",
        type=file_type(Path),
        help="start the Dask cluster of a file, such as cluster/slurm.yaml",
    ),
    Option("--serial", is_flag=True, help="compute in this process, without Dask"),
    Option(
        "--patience",
        metavar="SECONDS",
        type=Number(1, 1_000_000, "seconds"),
        help="how long to wait for an object store that cannot be reached any more (default: 900)",
    ),
    Option(
        "--check",
        is_flag=True,
        help="before, read every file of the store and compare it with its checksum, and not only its size",
    ),
    Option("--log", metavar="PATH", type=file_type(Path), help="append what happens, one JSON object a line"),
    Option("--strict", is_flag=True, help="exit with code 3 if the tolerance is missed at a point that was asked for"),
    example="run quickstart",
    exits=EXIT_CODES,
    exclusive=[("workers", "scheduler", "cluster", "serial")],
)
def run(options: Options) -> int:
    """Compute a study, or what is left of it, into a store.

    The same command goes on where an interrupted one stopped.
    """
    _check_address_space()
    from pbdist.run.run import asked_of
    from pbdist.study.load import load_asked

    asked = load_asked(study_file(options.study))
    store = _store(options, asked)
    study = asked_of(asked, store).study
    if options.strict and not study.seeks_some:
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
            stack.callback(_warn_of_log, log)
            listeners.append(log)
        listeners.append(stack.enter_context(ProgressDisplay(Console(stderr=True))))

        def notify(event: "Event") -> None:
            for listener in listeners:
                listener(event)

        patience = OUTAGE_SECONDS if options.patience is None else options.patience
        stack.enter_context(printed_warnings())
        stored = run_study(
            asked,
            store,
            executor,
            notify,
            patience=patience,
            check=options.check,
            serial_seconds=_serial_seconds(options),
        )
    console = page()
    _print_targets(console, study, stored.place)
    missed = _print_precision(console, study, stored.place)
    console.print(printable(f"store: {store}"), markup=False, highlight=False, soft_wrap=True)
    return MISSED if options.strict and missed else 0


def _serial_seconds(options: Options) -> float:
    """Return how much projected work is computed without workers: some, where none are named."""
    named = (options.workers, options.cluster, options.scheduler)
    return _SERIAL_SECONDS if all(option is None for option in named) else 0.0


def _warn_of_log(log: "RunLog") -> None:
    if log.problem:
        print(f"pbdist: warning: {PbdistError(log.problem)}", file=sys.stderr)


def _check_address_space() -> None:
    """Refuse a run for which this process may have too little memory, before anything large is imported."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY and soft < _ADDRESS_SPACE:
        raise InvalidInputError(
            f"memory: this process may use {soft / 2**20:.0f} MiB of addresses, and a run needs 1024 MiB: "
            "raise the limit (ulimit -v unlimited)"
        )


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


def _print_targets(console: "Console", study: "StudySpec", store: "Place") -> None:
    if not study.targets:
        return
    from pbdist.query import judge_target, open_study
    from pbdist.query.printing import printed_targets

    opened = open_study(store)
    for target in study.targets:
        console.print(printed_targets(study, target, judge_target(opened, target)))


def _print_precision(console: "Console", study: "StudySpec", store: "Place") -> int:
    """Print how far the tolerance was reached; return at how many points it was missed."""
    if study.sought is None or not study.seeks_some:
        return 0
    from pbdist.query import open_study, reached_precision
    from pbdist.query.printing import precision_line

    found = reached_precision(open_study(store), study, recorded=True)
    console.print(precision_line(study.sought, found), markup=False, highlight=False, soft_wrap=True)
    return found.missed


@command(
    "studies",
    Option("--show", metavar="STUDY", type=Word(study_names), help="print the file of one of them"),
    example="studies --show quickstart",
)
def studies(options: Options) -> int:
    """List the studies that come with pbdist."""
    from pbdist.study.starter import shipped_names, shipped_study

    if options.show is not None:
        print(shipped_study(options.show).read_text(encoding="utf-8"), end="")
        return 0
    from rich.table import Table

    from pbdist.study import load_study

    table = Table(expand=False)
    table.add_column("study")
    table.add_column("about")
    table.add_column("cells", justify="right", no_wrap=True)
    # First the one that strangers should try.
    for name in sorted(shipped_names(), key=lambda name: name != "quickstart"):
        study = load_study(shipped_study(name))
        table.add_row(name, study.description or "", f"{len(study.cells):,}")
    console = page()
    console.print(table)
    console.print("pbdist plan STUDY says how long one takes, and pbdist run STUDY computes it", highlight=False)
    console.print("pbdist studies --show STUDY prints its file", highlight=False)
    return 0


def _starter_kinds() -> tuple[str, ...]:
    from pbdist.study.starter import starter_kinds

    return starter_kinds()


@command(
    "new",
    Argument("file", "the new study file; its name becomes that of the study", metavar="FILE", type=file_type(Path)),
    Option("--mechanism", metavar="KIND", type=Word(_starter_kinds), help="the kind of mechanism (default: Gaussian)"),
    Option("--like", metavar="STUDY", type=Word(study_names), help="copy one of the studies that come with pbdist"),
    example="new my-study.yaml --mechanism Laplace",
    exclusive=[("mechanism", "like")],
)
def new(options: Options) -> int:
    """Write a commented study file to begin with.

    It can be run as it is. Nothing is overwritten.
    """
    from pbdist.errors import printable
    from pbdist.study.starter import write_copy, write_starter

    if options.like is not None:
        write_copy(options.file, options.like)
    else:
        write_starter(options.file, "Gaussian" if options.mechanism is None else options.mechanism)
    console = page()
    told = printable(f"{options.file} is written. What it will take: pbdist plan {options.file}")
    console.print(told, markup=False, highlight=False, soft_wrap=True)
    return 0


#: So many values that targets added are listed.
_MOST_LISTED = 6


def print_plan(console: "Console", plan: "Plan", workers: int = 1) -> None:
    """Print a plan as a table."""
    from rich.table import Table

    from pbdist.study.plan import duration, size

    study = plan.study
    seconds = plan.batch_seconds
    title = f"{study.name}: {study.description}" if study.description else study.name
    console.print(printable(title), markup=False, highlight=False, soft_wrap=True)
    table = Table(show_header=False)
    table.add_column("what")
    table.add_column("how much", justify="right")
    rows = {
        "cells (noise settings)": f"{len(study.cells):,}",
        "numbers of compositions": f"{len(study.compositions):,}, up to {study.compositions[-1]:,}",
        "values of epsilon": f"{len(study.epsilon):,}, {study.epsilon[0]:.6g} to {study.epsilon[-1]:.6g}",
        "points, both directions": f"{_points(study):,}",
        "method": _method(study),
        "batches": f"{seconds.size:,}, cells in each: {plan.cells_per_batch:,}",
        "projected time of a batch, one core": f"{seconds.min():.3g} to {seconds.max():.3g} s",
        f"projected time of the study, {_workers(workers)}": duration(_elapsed([plan], workers)),
        "projected peak memory of a worker": size(plan.worker_bytes),
        "projected size of the store, at most": size(plan.store_bytes),
        "bucket states": "kept" if study.keep_states else "not kept",
        "study digest": study.digest[:16],
    }
    for what, how_much in rows.items():
        table.add_row(what, how_much)
    console.print(table)
    if study.target_compositions or study.target_epsilon:
        console.print(_growth(study), markup=False, highlight=False, soft_wrap=True)


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count:,} workers"


def _elapsed(plans: "Sequence[Plan]", workers: int) -> float:
    """Return the projected time of some plans together on so many workers."""
    from pbdist.study.plan import elapsed

    return elapsed([seconds for plan in plans for seconds in plan.batch_seconds.tolist()], workers)


def plan_as_json(plan: "Plan", workers: int = 1) -> "dict[str, JsonValue]":
    """Return a plan as JSON values, unrounded, with the grids."""
    from pbdist.study.cells import known

    study = plan.study
    return {
        "name": study.name,
        "description": study.description,
        "digest": study.digest,
        "cells": len(study.cells),
        "cells_by_label": known(study.cells).labels(),
        "compositions": list(study.compositions),
        "epsilon": list(study.epsilon),
        "points": _points(study),
        "method": study.method,
        "tolerance": study.tolerance,
        "buckets": study.buckets,
        "floor": study.floor,
        "direction": study.direction,
        "keep_states": study.keep_states,
        "targets": [
            {"epsilon": target.epsilon, "delta": target.delta, "compositions": target.compositions}
            for target in study.targets
        ],
        "added_by_targets": {
            "compositions": list(study.target_compositions),
            "epsilon": list(study.target_epsilon),
            "points": _points(study) - _points_without_targets(study),
        },
        "batches": plan.batch_seconds.size,
        "cells_per_batch": plan.cells_per_batch,
        "batch_seconds": {"min": float(plan.batch_seconds.min()), "max": float(plan.batch_seconds.max())},
        "workers": workers,
        "elapsed_seconds": _elapsed([plan], workers),
        **_sizes(plan),
    }


def _sizes(plan: "Plan") -> "dict[str, JsonValue]":
    return {"seconds": plan.seconds, "worker_bytes": plan.worker_bytes, "store_bytes": plan.store_bytes}


def _points(study: "StudySpec") -> int:
    """Return the number of points, both directions."""
    return 2 * len(study.cells) * len(study.compositions) * len(study.epsilon)


def _points_without_targets(study: "StudySpec") -> int:
    rounds = len(study.compositions) - len(study.target_compositions)
    return 2 * len(study.cells) * rounds * (len(study.epsilon) - len(study.target_epsilon))


def _growth(study: "StudySpec") -> str:
    """Return what targets off the grids add to a study."""
    added = []
    if study.target_compositions:
        added.append(f"compositions {_listed([f'{r:,}' for r in study.target_compositions])}")
    if study.target_epsilon:
        added.append(f"epsilon {_listed([f'{value:.6g}' for value in study.target_epsilon])}")
    before = _points_without_targets(study)
    more = f"{before:,} points become {_points(study):,}, since every r is computed with every epsilon"
    return f"targets off the grids add {' and '.join(added)}: {more}"


def _listed(texts: list[str]) -> str:
    more = len(texts) - _MOST_LISTED
    return ", ".join(texts[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _method(study: "StudySpec") -> str:
    if study.method == "buckets" or study.buckets is not None:
        return f"{study.method}, {study.buckets:,} buckets"
    return f"{study.method}, tolerance {study.tolerance:g}"


def additions(asked: "StudySpec | Addition", store: str) -> "list[Plan]":
    """Return the plans of the parts that a run would add to a store; none where it has all points.

    Raises
    ------
    PbdistError
        What lies there is no store, or one of another study.
    """
    from pbdist.run.run import asked_of
    from pbdist.store import is_there, open_parts, place_at
    from pbdist.study import plan_study

    wanted, place = asked_of(asked, store), place_at(store)
    # Where nothing is, all is new.
    missing = wanted.missing([part.study for part in open_parts(place)]) if is_there(place) else (wanted.study,)
    return [plan_study(part) for part in missing]


def print_additions(console: "Console", store: str, plans: "Sequence[Plan]", workers: int = 1) -> None:
    """Print what a run would add to a store: a row for each part, and all together."""
    from rich.table import Table

    from pbdist.study.plan import duration, size

    def told(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    if not plans:
        told(f"{store}: has all points of the file, nothing would be added")
        return
    table = Table()
    for head in ("cells", "compositions", "epsilon", "points, both directions", "batches", "time, one core", "store"):
        table.add_column(head, justify="right")
    for plan in plans:
        study = plan.study
        row = (len(study.cells), len(study.compositions), len(study.epsilon), _points(study), plan.batch_seconds.size)
        table.add_row(*(f"{count:,}" for count in row), duration(plan.seconds), f"up to {size(plan.store_bytes)}")
    console.print(table)
    seconds, memory = _elapsed(plans, workers), max(plan.worker_bytes for plan in plans)
    told(
        f"{store}: {sum(_points(plan.study) for plan in plans):,} points would be added,"
        f" projected {duration(seconds)} on {_workers(workers)} and up to {size(memory)} a worker"
    )


def additions_as_json(store: str, plans: "Sequence[Plan]", workers: int = 1) -> "dict[str, JsonValue]":
    """Return what a run would add as JSON values, unrounded, with the grids."""
    return {
        "store": store,
        "points": sum(_points(plan.study) for plan in plans),
        "seconds": sum(plan.seconds for plan in plans),
        "workers": workers,
        "elapsed_seconds": _elapsed(plans, workers),
        "parts": [
            {
                "cells": len(plan.study.cells),
                "compositions": list(plan.study.compositions),
                "epsilon": list(plan.study.epsilon),
                "points": _points(plan.study),
                "batches": plan.batch_seconds.size,
                "cells_per_batch": plan.cells_per_batch,
                **_sizes(plan),
            }
            for plan in plans
        ],
    }
