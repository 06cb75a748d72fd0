"""The command line: arguments in, one call, output out. Everything heavy is imported when it is used."""

import argparse
import io
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pbdist.errors import BatchError, InvalidInputError, PbdistError

if TYPE_CHECKING:
    from rich.console import Console

    from pbdist.run import Executor
    from pbdist.study import StudySpec

__all__ = ["main"]

_FAILED, _WRONG, _INTERRUPTED = 1, 2, 130
_NUMBERS = {
    "scale": "scale of the noise, in counts",
    "sensitivity": "sensitivity of the query, in counts",
    "rate": "sampling rate",
    "p": "probability of the true answer in randomized response",
    "mean": "mean of the noise, in counts",
    "shift": "difference of neighbouring counts",
    "truncate-low": "lower limit of the noise about its mean",
    "truncate-high": "upper limit of the noise about its mean",
    "pair-epsilon": "epsilon of an approximately differentially private mechanism",
    "pair-delta": "delta of an approximately differentially private mechanism",
}
_TEXTS = {
    "kind": "kind of the mechanism",
    "noise": "family of the noise",
    "reading": "how a noisy count is made a count",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    0: done; 1: some batches failed, or a store does not pass `verify`; 2: something in the input is wrong;
    130: interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without Greek letters gets a question mark, not a traceback.
            stream.reconfigure(errors="replace")
    options = _parser().parse_args(arguments)
    try:
        code = int(options.action(options))
        sys.stdout.flush()
        return code
    except PbdistError as error:
        print(f"pbdist: error: {error}", file=sys.stderr)
        return _FAILED if isinstance(error, BatchError) else _WRONG
    except KeyboardInterrupt:
        print("pbdist: interrupted: the same command goes on where this one stopped", file=sys.stderr)
        # What zarr's thread has left half done complains with a traceback when the interpreter ends.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        sys.unraisablehook = lambda _: None
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has gone: nothing is left to tell, nor to be flushed at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"pbdist: error: {PbdistError(str(error))}", file=sys.stderr)
        return _WRONG


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pbdist", description="Certified bounds on r-fold approximate differential privacy, for whole studies."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    plan = commands.add_parser("plan", help="show what a study will take, before anything runs")
    plan.add_argument("study", metavar="FILE", type=Path, help="a study file")
    plan.set_defaults(action=_plan)

    run = commands.add_parser("run", help="compute a study, or what is left of it, into a store")
    run.add_argument("study", metavar="FILE", type=Path, help="a study file")
    run.add_argument("--store", metavar="PATH", type=Path, help="the store (default: data/NAME.zarr)")
    where = run.add_mutually_exclusive_group()
    where.add_argument("--workers", metavar="N", type=int, help="worker processes (default: one a core)")
    where.add_argument("--scheduler", metavar="ADDRESS", help="use the workers of a running Dask scheduler")
    where.add_argument("--serial", action="store_true", help="compute in this process, without Dask")
    run.add_argument("--cluster", metavar="FILE", type=Path, help="a cluster profile, such as cluster/local.yaml")
    run.set_defaults(action=_run)

    query = commands.add_parser("query", help="look up the bounds at a stored point")
    query.add_argument("store", metavar="STORE", type=Path, help="a store")
    query.add_argument("--mechanism", metavar="LABEL", required=True, help="the label of the mechanism in the study")
    query.add_argument("--compositions", metavar="R", type=int, required=True, help="number of compositions")
    point = query.add_mutually_exclusive_group(required=True)
    point.add_argument("--epsilon", metavar="E", type=float, help="epsilon, in nats")
    point.add_argument("--exp-epsilon", metavar="Y", type=float, help="e to the power of epsilon")
    for name, text in _NUMBERS.items():
        query.add_argument(f"--{name}", metavar="X", type=float, help=text)
    for name, text in _TEXTS.items():
        query.add_argument(f"--{name}", metavar="NAME", help=text)
    query.add_argument("--factor", metavar="F", type=_factor, help="factor between buckets, or auto")
    query.add_argument("--json", action="store_true", help="print JSON, unrounded")
    query.set_defaults(action=_query)

    verify = commands.add_parser("verify", help="check a store: complete, unchanged, and right at sampled points")
    verify.add_argument("store", metavar="STORE", type=Path, help="a store")
    verify.add_argument("--sample", metavar="K", type=int, default=20, help="points to recompute (default: 20)")
    verify.add_argument("--seed", metavar="S", type=int, default=0, help="seed of the choice of points (default: 0)")
    verify.add_argument("--cells", metavar="N", type=int, help="cells of the exact arithmetic (default: 100,000)")
    verify.add_argument("--json", action="store_true", help="print JSON, unrounded")
    verify.set_defaults(action=_verify)
    return parser


class _Version(argparse.Action):
    """Prints the version; the import waits until it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        print(f"pbdist {metadata.version('pbdist')}")
        parser.exit()


def _factor(text: str) -> float | str:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number or auto, got {text!r}") from None


def _plan(options: argparse.Namespace) -> int:
    from rich.table import Table

    from pbdist.study import load_study, plan_study

    plan = plan_study(load_study(options.study))
    study = plan.study
    seconds = [batch.seconds for batch in plan.batches]
    console = _console()
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
        "projected time of the study, one core": _duration(plan.seconds),
        "projected peak memory of a worker": _size(plan.worker_bytes),
        "projected size of the store, at most": _size(plan.store_bytes),
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
    executor = _executor(options)
    from rich.console import Console

    from pbdist.run import run_study
    from pbdist.run.progress import ProgressDisplay

    store = options.store or Path("data") / f"{study.name}.zarr"
    with ProgressDisplay(Console(stderr=True)) as display:
        run_study(study, store, executor, display)
    console = _console()
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


def _print_targets(console: "Console", study: "StudySpec", store: Path) -> None:
    if not study.targets:
        return
    from pbdist.query import judge_target, open_study
    from pbdist.query.tables import targets_table

    opened = open_study(store)
    for target in study.targets:
        console.print(targets_table(study, target, judge_target(opened, target)))


def _print_precision(console: "Console", study: "StudySpec", store: Path) -> None:
    if study.tolerance is None or not any(map(study.seeks_tolerance, study.cells)):
        return
    from pbdist.query import open_study, reached_precision
    from pbdist.query.tables import precision_line

    line = precision_line(study.tolerance, reached_precision(open_study(store)))
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _query(options: argparse.Namespace) -> int:
    from pbdist.query import open_study
    from pbdist.query.tables import bounds_as_json, bounds_table

    names = [name.replace("-", "_") for name in (*_NUMBERS, *_TEXTS, "factor")]
    noise = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    bounds = open_study(options.store).lookup(
        options.mechanism,
        compositions=options.compositions,
        epsilon=options.epsilon,
        exp_epsilon=options.exp_epsilon,
        **noise,
    )
    if options.json:
        print(json.dumps(bounds_as_json(bounds), indent=2, allow_nan=False))
    else:
        _console().print(bounds_table(bounds))
    return 0


def _verify(options: argparse.Namespace) -> int:
    from pbdist.verify import DEFAULT_CELLS, verify_store

    cells = DEFAULT_CELLS if options.cells is None else options.cells
    found = verify_store(options.store, sample=options.sample, seed=options.seed, max_cells=cells)
    if options.json:
        print(json.dumps(found.as_json(), indent=2, allow_nan=False))
    else:
        print(*found.lines(), sep="\n")
    return 0 if found.passed else _FAILED


def _console() -> "Console":
    from rich.console import Console

    console = Console()
    # A pipe has no width: take one that fits a page.
    return console if console.is_terminal else Console(width=100)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"
