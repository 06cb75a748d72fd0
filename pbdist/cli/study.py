"""``pbdist plan`` and ``pbdist run``: what a study will take; compute it, or what is left of it, into a store."""

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from pbdist.cli.interrupts import in_good_order
from pbdist.cli.output import EXIT_CODES, MISSED, page
from pbdist.errors import InvalidInputError, PbdistError

if TYPE_CHECKING:
    from rich.console import Console

    from pbdist.run import Executor
    from pbdist.run.events import Event
    from pbdist.run.listeners import RunLog
    from pbdist.store import Place
    from pbdist.study import StudySpec

__all__ = ["add_plan", "add_run"]


def add_plan(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``pbdist plan``."""
    parser = commands.add_parser("plan", help="show what a study will take, before anything runs")
    parser.add_argument("study", metavar="FILE", type=Path, help="a study file")
    parser.set_defaults(action=_plan)


def add_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``pbdist run``."""
    parser = commands.add_parser(
        "run",
        help="compute a study, or what is left of it, into a store",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("study", metavar="FILE", type=Path, help="a study file")
    parser.add_argument("--store", help="the store: a path or s3://BUCKET/PREFIX (default: data/NAME.zarr)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", metavar="N", type=int, help="worker processes (default: one a core)")
    where.add_argument("--scheduler", metavar="ADDRESS", help="use the workers of a running Dask scheduler")
    where.add_argument("--scheduler-file", metavar="PATH", type=Path, help="the file with that scheduler's address")
    where.add_argument("--serial", action="store_true", help="compute in this process, without Dask")
    parser.add_argument("--cluster", metavar="FILE", type=Path, help="a cluster profile, such as cluster/local.yaml")
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=float,
        help="how long to wait for a store that cannot be reached any more (default: 900)",
    )
    parser.add_argument("--log", metavar="PATH", type=Path, help="append what happens, one JSON object a line")
    parser.add_argument("--report", metavar="PATH.html", type=Path, help="save Dask's performance report")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit with code 3 if the tolerance is missed at a point that was asked for",
    )
    parser.set_defaults(action=_run)


def _plan(options: argparse.Namespace) -> int:
    from rich.table import Table

    from pbdist.study import load_study, plan_study
    from pbdist.study.plan import duration, size

    plan = plan_study(load_study(options.study))
    study = plan.study
    seconds = [batch.seconds for batch in plan.batches]
    console = page()
    title = f"{study.name}: {study.description}" if study.description else study.name
    console.print(title, markup=False, highlight=False, soft_wrap=True)
    table = Table(show_header=False)
    table.add_column("what")
    table.add_column("how much", justify="right")
    points = len(study.cells) * len(study.compositions) * len(study.epsilon)
    rows = {
        "cells (noise settings)": f"{len(study.cells):,}",
        "numbers of compositions": f"{len(study.compositions):,}, up to {study.compositions[-1]:,}",
        "values of epsilon": f"{len(study.epsilon):,}, {study.epsilon[0]:.6g} to {study.epsilon[-1]:.6g}",
        "points, both directions": f"{2 * points:,}",
        "method": _method(study),
        "batches": f"{len(plan.batches):,}, cells in each: {plan.cells_per_batch:,}",
        "projected time of a batch, one core": f"{min(seconds):.3g} to {max(seconds):.3g} s",
        "projected time of the study, one core": duration(plan.seconds),
        "projected peak memory of a worker": size(plan.worker_bytes),
        "projected size of the store, at most": size(plan.store_bytes),
        "bucket states": "kept" if study.keep_states else "not kept",
        "study digest": study.digest[:16],
    }
    for what, how_much in rows.items():
        table.add_row(what, how_much)
    console.print(table)
    return 0


def _method(study: "StudySpec") -> str:
    if study.method == "buckets" or study.buckets is not None:
        return f"{study.method}, {study.buckets:,} buckets"
    return f"{study.method}, tolerance {study.tolerance:g}"


def _run(options: argparse.Namespace) -> int:
    from pbdist.study import load_study

    study = load_study(options.study)
    if options.strict and not any(map(study.seeks_tolerance, study.cells)):
        raise InvalidInputError("--strict: expected a study with a tolerance, got one without")
    store = options.store or f"data/{study.name}.zarr"
    for option in ("log", "report"):
        _check_outside(store, f"--{option}", getattr(options, option))
    if options.patience is not None and not 1.0 <= options.patience <= 1e6:
        raise InvalidInputError(f"--patience: expected seconds from 1 to 1e6, got {options.patience:g}")
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
        patience = OUTAGE_SECONDS if options.patience is None else options.patience
        stored = run_study(study, store, executor, lambda event: _notify(listeners, event), patience=patience)
    console = page()
    _print_targets(console, study, stored.place)
    missed = _print_precision(console, study, stored.place)
    console.print(f"store: {store}", markup=False, highlight=False, soft_wrap=True)
    return MISSED if options.strict and missed else 0


def _notify(listeners: "list[Callable[[Event], None]]", event: "Event") -> None:
    for listener in listeners:
        listener(event)


def _warn_of_log(log: "RunLog") -> None:
    if log.problem:
        print(f"pbdist: warning: {PbdistError(log.problem)}", file=sys.stderr)


def _check_outside(store: str, option: str, path: Path | None) -> None:
    """Refuse a file inside the store, which holds only its own files."""
    if path is not None and "://" not in store and path.resolve().is_relative_to(Path(store).resolve()):
        raise InvalidInputError(f"{option}: expected a path outside the store, got {path}")


def _executor(options: argparse.Namespace) -> "Executor":
    """Return the executor that the options name; nothing is started yet."""
    elsewhere = options.serial or options.scheduler or options.scheduler_file
    if options.cluster is not None and elsewhere:
        got = "--serial" if options.serial else "--scheduler" if options.scheduler else "--scheduler-file"
        raise InvalidInputError(f"--cluster: expected a run that starts workers, got {got} too")
    if options.workers is not None and not 1 <= options.workers <= 4096:
        raise InvalidInputError(f"--workers: expected an integer from 1 to 4096, got {options.workers}")
    if options.serial and options.report is not None:
        raise InvalidInputError("--report: expected a run on Dask workers, got --serial too")
    if options.serial:
        from pbdist.run import SerialExecutor

        return SerialExecutor()
    from pbdist.run.cluster_profile import LocalProfile, load_profile

    profile = LocalProfile() if options.cluster is None else load_profile(options.cluster)
    if options.workers is not None:
        if "workers" not in type(profile).model_fields:
            raise InvalidInputError(f"--workers: expected a profile that has workers, got one of kind {profile.kind}")
        profile = profile.model_copy(update={"workers": options.workers})
    from pbdist.run.dask_executor import DaskExecutor

    return DaskExecutor(profile, options.scheduler, options.scheduler_file, options.report)


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
    if study.sought is None or not any(map(study.seeks_tolerance, study.cells)):
        return 0
    from pbdist.query import open_study, reached_precision
    from pbdist.query.printing import precision_line

    found = reached_precision(open_study(store), study)
    console.print(precision_line(study.sought, found), markup=False, highlight=False, soft_wrap=True)
    return found.missed
