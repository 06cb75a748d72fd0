"""``pbdist studies``, ``new``, ``plan`` and ``run``: find, write, plan and compute a study."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pbdist.cli.interrupts import in_good_order
from pbdist.cli.options import STUDY, STUDY_OR_FILE
from pbdist.cli.output import EXIT_CODES, MISSED, print_json, print_sheet, printed_warnings, warn
from pbdist.cli.parser import FILE, FOLDER, PATH, Argument, Number, Option, Options, Word, command, refuse
from pbdist.errors import InvalidInputError, printable
from pbdist.input_files import check_outside
from pbdist.tables import Column, Sheet

if TYPE_CHECKING:
    from pbdist.run import Executor
    from pbdist.run.events import Event
    from pbdist.store import Place
    from pbdist.study import Plan, StudySpec

#: Workers take about so long to start, in seconds.
_SERIAL_SECONDS = 3.0
#: The address space that numpy, scipy and zarr take, in bytes; with less, OpenBLAS may hang.
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
    Option("--workers N", "number of workers for the projected time (default: 1)", _WORKERS, default=1),
    example="plan quickstart --workers 4",
    exits=EXIT_CODES,
)
def plan(options: Options) -> int:
    """Project the time, memory and disk space of a study."""
    from pbdist.run.run import request_for
    from pbdist.store import is_there, open_parts, place_at
    from pbdist.study import StudySpec, plan_study
    from pbdist.study.load import load_asked
    from pbdist.study.plan import elapsed

    file, workers = load_asked(study_file(options.study)), options.workers
    if options.store is None and isinstance(file, StudySpec):
        facts = _facts(plan_study(file), workers)
        if options.json:
            print_json(facts)
        else:
            print_sheet(_plan_sheet(file, facts), "table")
        return 0
    store = options.store or f"data/{file.name}.zarr"
    wanted, place = request_for(file, store), place_at(store)
    # Where no store is, all points are new.
    missing = wanted.missing([part.study for part in open_parts(place)]) if is_there(place) else (wanted.study,)
    plans = [plan_study(part) for part in missing]
    parts = [_facts(one, workers) for one in plans]
    total = {
        "store": store,
        "points": sum(part["points"] for part in parts),
        "seconds": sum(part["seconds"] for part in parts),
        "workers": workers,
        "elapsed_seconds": elapsed([one for plan in plans for one in plan.batch_seconds.tolist()], workers),
    }
    if options.json:
        print_json({**total, "parts": [{name: part[name] for name in _OF_PARTS} for part in parts]})
    elif parts:
        print_sheet(_additions_sheet(total, parts), "table")
    else:
        print(printable(f"{store}: has all points of the file, nothing would be added"))
    return 0


def study_file(given: str) -> Path:
    """Return the study file that is meant, with a note on stderr where a file has the name of a study of pbdist."""
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
    Option("--check", "first compare every file of the store with its checksum, and not only its size"),
    Option("--log PATH", "append events, one JSON object a line", PATH),
    Option("--strict", "exit with code 3 if the tolerance is missed at a point of the study"),
    example="run quickstart",
    resumes=lambda _: True,
    exits=EXIT_CODES,
    exclusive=[("workers", "scheduler", "cluster", "serial")],
)
def run(options: Options) -> int:
    """Compute a study, or the rest of it, into a store.

    The same command goes on where an interrupted one stopped.
    """
    import resource

    # Before anything large is imported.
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY and soft < _ADDRESS_SPACE:
        has = f"this process may use {soft / 2**20:.0f} MiB of addresses, and a run needs 1024 MiB"
        refuse("memory", f"{has}: raise the limit (ulimit -v unlimited)")
    from pbdist.run.run import request_for
    from pbdist.study.load import load_asked

    file = load_asked(study_file(options.study))
    store = options.store or f"data/{file.name}.zarr"
    study = request_for(file, store).study
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
    if not study.targets and not study.requires_tolerance:
        return 0
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

    # First the one that strangers should try.
    names = sorted(shipped_names(), key=lambda name: name != "quickstart")
    found = [load_study(shipped_study(name)) for name in names]
    rows = [(study.name, f"{len(study.cells):,}", study.description) for study in found]
    takes = "pbdist plan STUDY says how long one takes, and pbdist run STUDY computes it"
    notes = (takes, "pbdist studies --show STUDY prints its file")
    columns = Column("study", "study", number=False), Column("cells", "cells"), Column("about", "about", number=False)
    print_sheet(Sheet(columns, tuple(rows), notes=notes), "table")
    return 0


@command(
    "new",
    Argument("FILE", "the new study file; its name becomes that of the study", PATH),
    Option(
        "--family KIND",
        "the kind of mechanism (default: Gaussian)",
        Word("pbdist.study.starter:starter_kinds"),
        name="kind",
    ),
    Option("--like STUDY", "copy one of the studies that come with pbdist", STUDY, name="study"),
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


#: Values added by targets that are listed, at most.
_MAX_LISTED = 6
#: The keys of a plan that the plan of an extension has for each part.
_SIZES = ("seconds", "worker_bytes", "store_bytes")
_OF_PARTS = ("cells", "compositions", "epsilon", "points", "batches", "cells_per_batch", *_SIZES)


def _facts(plan: "Plan", workers: int) -> dict[str, Any]:
    """Return a plan as JSON values, unrounded, with the grids."""
    from pbdist.study.columns import CellTable
    from pbdist.study.plan import elapsed

    study, seconds = plan.study, plan.batch_seconds
    taken = ("name", "description", "digest", "method", "tolerance", "buckets", "floor", "direction", "keep_states")
    # Of both directions.
    points = 2 * len(study.cells) * len(study.compositions) * len(study.epsilon)
    rounds = len(study.compositions) - len(study.target_compositions)
    own_points = 2 * len(study.cells) * rounds * (len(study.epsilon) - len(study.target_epsilon))
    return {
        **{name: getattr(study, name) for name in taken},
        "cells": len(study.cells),
        "cells_by_label": CellTable.of(study.cells).labels(),
        "compositions": list(study.compositions),
        "epsilon": list(study.epsilon),
        "points": points,
        "targets": [vars(target) for target in study.targets],
        "added_by_targets": {
            "compositions": list(study.target_compositions),
            "epsilon": list(study.target_epsilon),
            "points": points - own_points,
        },
        "batches": seconds.size,
        "cells_per_batch": plan.cells_per_batch,
        "batch_seconds": {"min": float(seconds.min()), "max": float(seconds.max())},
        "workers": workers,
        "elapsed_seconds": elapsed(seconds, workers),
        **{name: getattr(plan, name) for name in _SIZES},
    }


def _plan_sheet(study: "StudySpec", facts: dict[str, Any]) -> Sheet:
    """Return a plan as a table, with the points that targets add."""
    from pbdist.study.plan import counted, duration, size

    epsilon, seconds = study.epsilon, facts["batch_seconds"]
    precision = f"tolerance {study.tolerance:g}" if study.buckets is None else f"{study.buckets:,} buckets"
    rows = {
        "cells (noise settings)": f"{facts['cells']:,}",
        "numbers of compositions": f"{len(study.compositions):,}, up to {study.compositions[-1]:,}",
        "values of epsilon": f"{len(epsilon):,}, {epsilon[0]:.6g} to {epsilon[-1]:.6g}",
        "points, both directions": f"{facts['points']:,}",
        "method": f"{study.method}, {precision}",
        "batches": f"{facts['batches']:,}, cells in each: {facts['cells_per_batch']:,}",
        "projected time of a batch, one core": f"{seconds['min']:.3g} to {seconds['max']:.3g} s",
        f"projected time of the study, {counted(facts['workers'], 'worker')}": duration(facts["elapsed_seconds"]),
        "projected peak memory of a worker": size(facts["worker_bytes"]),
        "projected size of the store, at most": size(facts["store_bytes"]),
        "bucket states": "saved" if study.keep_states else "not saved",
        "study digest": study.digest[:16],
    }
    columns = Column("what", "what", number=False), Column("how_much", "how much")
    caption = f"{study.name}: {study.description}" if study.description else study.name
    return Sheet(columns, tuple(rows.items()), (caption,), tuple(_added(facts["points"], facts["added_by_targets"])))


def _added(points: int, added: dict[str, Any]) -> Iterator[str]:
    """Yield a line on the values that targets add to the grids, if any."""
    named = []
    for name, form in (("compositions", "{:,}"), ("epsilon", "{:.6g}")):
        values = added[name]
        more = f" and {len(values) - _MAX_LISTED} more" if len(values) > _MAX_LISTED else ""
        if values:
            named.append(f"{name} {', '.join(map(form.format, values[:_MAX_LISTED]))}{more}")
    if named:
        become = f"{points - added['points']:,} points become {points:,}"
        yield f"targets off the grids add {' and '.join(named)}: {become}, since every r is computed with every epsilon"


def _additions_sheet(total: dict[str, Any], parts: Sequence[dict[str, Any]]) -> Sheet:
    """Return the parts that a run would add to a store as a table, with a note on all together."""
    from pbdist.study.plan import counted, duration, size

    heads = ("cells", "compositions", "epsilon", "points, both directions", "batches", "time, one core", "store")
    rows = []
    for part in parts:
        counts = (part["cells"], len(part["compositions"]), len(part["epsilon"]), part["points"], part["batches"])
        sizes = duration(part["seconds"]), f"up to {size(part['store_bytes'])}"
        rows.append((*(f"{count:,}" for count in counts), *sizes))
    memory = size(max(part["worker_bytes"] for part in parts))
    takes = f"{duration(total['elapsed_seconds'])} on {counted(total['workers'], 'worker')} and up to {memory} a worker"
    note = f"{total['store']}: {total['points']:,} points would be added, projected {takes}"
    return Sheet(tuple(Column(head, head) for head in heads), tuple(rows), notes=(note,))
