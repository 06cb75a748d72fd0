"""``pbdist run``: compute a study, or what is left of it, into a store."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pbdist.cli.output import page
from pbdist.errors import InvalidInputError

if TYPE_CHECKING:
    from rich.console import Console

    from pbdist.run import Executor
    from pbdist.study import StudySpec

__all__ = ["add_to"]


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("run", help="compute a study, or what is left of it, into a store")
    parser.add_argument("study", metavar="FILE", type=Path, help="a study file")
    parser.add_argument("--store", metavar="STORE", help="the store: a path (default: data/NAME.zarr)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", metavar="N", type=int, help="worker processes (default: one a core)")
    where.add_argument("--scheduler", metavar="ADDRESS", help="use the workers of a running Dask scheduler")
    where.add_argument("--serial", action="store_true", help="compute in this process, without Dask")
    parser.add_argument("--cluster", metavar="FILE", type=Path, help="a cluster profile, such as cluster/local.yaml")
    parser.set_defaults(action=_run)


def _run(options: argparse.Namespace) -> int:
    from pbdist.study import load_study

    study = load_study(options.study)
    executor = _executor(options)
    from rich.console import Console

    from pbdist.run import run_study
    from pbdist.run.progress import ProgressDisplay

    store = options.store or f"data/{study.name}.zarr"
    with ProgressDisplay(Console(stderr=True)) as display:
        run_study(study, store, executor, display)
    console = page()
    _print_targets(console, study, store)
    _print_precision(console, study, store)
    console.print(f"store: {store}", markup=False, highlight=False, soft_wrap=True)
    return 0


def _executor(options: argparse.Namespace) -> "Executor":
    """Return the executor that the options ask for; nothing is started yet."""
    if options.cluster is not None and (options.serial or options.scheduler):
        raise InvalidInputError("--cluster: expected a run that starts workers, got --serial or --scheduler too")
    if options.workers is not None and not 1 <= options.workers <= 4096:
        raise InvalidInputError(f"--workers: expected an integer from 1 to 4096, got {options.workers}")
    if options.serial:
        from pbdist.run import SerialExecutor

        return SerialExecutor()
    from pbdist.run.profile import LocalProfile, load_profile

    profile = LocalProfile() if options.cluster is None else load_profile(options.cluster)
    if options.workers is not None:
        profile = profile.model_copy(update={"workers": options.workers})
    from pbdist.run.dask_executor import DaskExecutor

    return DaskExecutor(profile, options.scheduler)


def _print_targets(console: "Console", study: "StudySpec", store: str) -> None:
    if not study.targets:
        return
    from pbdist.query import judge_target, open_study
    from pbdist.query.tables import targets_table

    opened = open_study(store)
    for target in study.targets:
        console.print(targets_table(study, target, judge_target(opened, target)))


def _print_precision(console: "Console", study: "StudySpec", store: str) -> None:
    if study.tolerance is None or not any(map(study.seeks_tolerance, study.cells)):
        return
    from pbdist.query import open_study, reached_precision
    from pbdist.query.tables import precision_line

    line = precision_line(study.tolerance, reached_precision(open_study(store)))
    console.print(line, markup=False, highlight=False, soft_wrap=True)
