"""``pbdist plan`` and ``pbdist run``: what a study will take; compute it, or what is left of it, into a store."""

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from pbdist.cli.interrupts import in_good_order
from pbdist.cli.output import EXIT_CODES, MISSED, page, printed_warnings
from pbdist.errors import InvalidInputError, PbdistError, printable

if TYPE_CHECKING:
    from rich.console import Console

    from pbdist.run import Executor
    from pbdist.run.certificates import CertificateFiles
    from pbdist.run.events import Event
    from pbdist.run.listeners import RunLog
    from pbdist.store import Place
    from pbdist.study import StudySpec
    from pbdist.study.addition import Addition

#: Workers take about so long to start, in seconds.
_SERIAL_SECONDS = 3.0
#: Options that name files of certificates.
_TLS = {"ca": "who signs certificates", "certificate": "your certificate", "key": "its private key"}
_STUDY = "a study file, or the name of a study that comes with pbdist, such as quickstart"


def add_plan(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``pbdist plan``."""
    parser = commands.add_parser("plan", help="show what a study will take, before anything runs")
    parser.add_argument("study", metavar="FILE", help=_STUDY)
    parser.add_argument("--json", action="store_true", help="print JSON, unrounded, with the grids")
    parser.add_argument(
        "--store",
        help="show what a run would add to this store: a path or s3://BUCKET/PREFIX"
        " (default, with extend: true in the file: data/NAME.zarr)",
    )
    parser.set_defaults(action=_plan)


def add_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``pbdist run``."""
    parser = commands.add_parser(
        "run",
        help="compute a study, or what is left of it, into a store",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("study", metavar="FILE", help=_STUDY)
    parser.add_argument("--store", help="the store: a path or s3://BUCKET/PREFIX (default: data/NAME.zarr)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", metavar="N", type=int, help="worker processes (default: one a core)")
    where.add_argument("--scheduler", metavar="ADDRESS", help="use the workers of a running Dask scheduler")
    where.add_argument("--scheduler-file", metavar="PATH", type=Path, help="the file with that scheduler's address")
    where.add_argument("--serial", action="store_true", help="compute in this process, without Dask")
    for name, what in _TLS.items():
        parser.add_argument(f"--tls-{name}", metavar="FILE", type=Path, help=f"{what}, for a scheduler with TLS")
    parser.add_argument("--cluster", metavar="FILE", type=Path, help="a cluster profile, such as cluster/local.yaml")
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=float,
        help="how long to wait for a store or a scheduler that cannot be reached any more (default: 900)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="before, read every file of the store and compare it with its checksum, and not only its size",
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
    from pbdist.cli.planned import plan_as_json, print_plan
    from pbdist.study import StudySpec, plan_study
    from pbdist.study.load import load_asked

    asked = load_asked(study_file(options.study))
    if options.store is not None or not isinstance(asked, StudySpec):
        return _plan_additions(options, asked)
    plan = plan_study(asked)
    if options.json:
        print(json.dumps(plan_as_json(plan), indent=2, allow_nan=False))
    else:
        print_plan(page(), plan)
    return 0


def _plan_additions(options: argparse.Namespace, asked: "StudySpec | Addition") -> int:
    from pbdist.cli.planned_additions import additions, additions_as_json, print_additions

    store = f"data/{asked.name}.zarr" if options.store is None else options.store
    plans = additions(asked, store)
    if options.json:
        print(json.dumps(additions_as_json(store, plans), indent=2, allow_nan=False))
    else:
        print_additions(page(), store, plans)
    return 0


def study_file(given: str) -> Path:
    """Return the study file that is meant; it is said where a file has the name of a study of pbdist."""
    from pbdist.study.shipped import find_study, shipped_names

    path = find_study(given)
    if given in shipped_names() and path == Path(given):
        print(
            f"pbdist: the file {given} in this folder is taken, not the study that comes with pbdist", file=sys.stderr
        )
    return path


def _run(options: argparse.Namespace) -> int:
    from pbdist.run.extending import asked_of
    from pbdist.study.load import load_asked

    asked = load_asked(study_file(options.study))
    store = f"data/{asked.name}.zarr" if options.store is None else options.store
    study = asked_of(asked, store).study
    if options.strict and not study.seeks_some:
        raise InvalidInputError("--strict: expected a study with a tolerance, got one without")
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
        stack.enter_context(printed_warnings())
        stored = run_study(
            asked,
            store,
            executor,
            lambda event: _notify(listeners, event),
            patience=patience,
            check=options.check,
            serial_seconds=_serial_seconds(options),
        )
    console = page()
    _print_targets(console, study, stored.place)
    missed = _print_precision(console, study, stored.place)
    console.print(printable(f"store: {store}"), markup=False, highlight=False, soft_wrap=True)
    return MISSED if options.strict and missed else 0


def _serial_seconds(options: argparse.Namespace) -> float:
    """Return how much projected work is computed without workers: some, where none are named."""
    named = (options.workers, options.cluster, options.scheduler, options.scheduler_file, options.report)
    return _SERIAL_SECONDS if all(option is None for option in named) else 0.0


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
    certificates = _certificates(options)
    if options.serial:
        from pbdist.run import SerialExecutor

        return SerialExecutor()
    from pbdist.run.cluster_profile import LocalProfile, load_profile

    profile = LocalProfile() if options.cluster is None else load_profile(options.cluster)
    if options.workers is not None:
        if "workers" not in type(profile).model_fields:
            raise InvalidInputError(f"--workers: expected a profile that has workers, got one of kind {profile.kind}")
        profile = profile.model_copy(update={"workers": options.workers})
    from pbdist.run import OUTAGE_SECONDS
    from pbdist.run.dask_executor import DaskExecutor

    return DaskExecutor(
        profile,
        options.scheduler,
        options.scheduler_file,
        options.report,
        certificates=certificates,
        patience=OUTAGE_SECONDS if options.patience is None else options.patience,
    )


def _certificates(options: argparse.Namespace) -> "CertificateFiles | None":
    """Return the certificates that the options name, checked; None without any."""
    given = {name: getattr(options, f"tls_{name}") for name in _TLS}
    if not any(given.values()):
        return None
    for name, path in given.items():
        if path is None:
            raise InvalidInputError(
                f"--tls-{name}: expected --tls-ca, --tls-certificate and --tls-key together, got none"
            )
    if not options.scheduler and not options.scheduler_file:
        raise InvalidInputError("--tls-ca: expected it with --scheduler or --scheduler-file, got neither")
    from pbdist.run.certificates import CertificateError, CertificateFiles, check_certificates

    files = CertificateFiles(**{name: str(path.absolute()) for name, path in given.items()})
    try:
        check_certificates(files)
    except CertificateError as error:
        raise InvalidInputError(f"--tls-{error}") from error
    return files


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
