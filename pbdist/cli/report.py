"""``pbdist report``: one page on a store or a system, for a person who decides on noise."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pbdist.cli.output import EXIT_CODES, FAILED, sign_of_life
from pbdist.cli.parser import Commands, add_command, add_point
from pbdist.errors import InvalidInputError, printable

if TYPE_CHECKING:
    from pbdist.report.pages.store_report import Report
    from pbdist.sizing.goal import Goal
    from pbdist.study import StudySpec

_FORMATS = ("html", "md", "pdf")
_GOAL = ("compositions", "epsilon", "exp_epsilon", "delta")
_ABOUT = """\
One page that can be handed on: the answer in a sentence, a picture, what is assumed, what was checked, and where the
numbers come from; tables are in the appendix. What of a store is missing, damaged or could not be computed is said
first; then the exit code is 1."""


def add_report(commands: Commands) -> None:
    """Add ``pbdist report``."""
    about = "write a page on a store or a system, to hand on"
    parser = add_command(commands, "report", about, _ABOUT, EXIT_CODES)
    parser.add_argument("store", metavar="STORE", nargs="?", help="a store: a path or s3://BUCKET/PREFIX")
    parser.add_argument(
        "--system",
        metavar="NAME|FILE",
        help="in place of a store: a system of data/systems.yaml, or your own file",
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="the file to write")
    parser.add_argument("--format", choices=_FORMATS, help="default: by the end of the file's name")
    parser.add_argument("--study", metavar="FILE", help="the targets of a study file, or of a study by name")
    parser.add_argument("--compositions", metavar="R", type=int, help="a target: number of compositions")
    add_point(parser, what="a target: ")
    parser.add_argument("--delta", metavar="D", type=float, help="a target: the largest delta")
    parser.add_argument(
        "--verify", metavar="K", type=int, help="recompute K points of the store in exact integers (default: none)"
    )
    parser.add_argument("--systems", metavar="FILE", help="the systems, in place of those that come with pbdist")
    parser.add_argument("--tolerance", metavar="T", type=float, help="of --system: how much less is refuted (0.01)")
    parser.add_argument(
        "--sizes",
        metavar="FILE",
        type=Path,
        help="of --system: where answers are kept, so that no noise is sized twice (default: beside the page)",
    )
    parser.add_argument(
        "--size-store", metavar="STORE", help="of --system: a store to ask first; what it lacks is added to it"
    )
    parser.set_defaults(action=_report)


def _report(options: argparse.Namespace) -> int:
    _refuse_ignored(options)
    from pbdist.report.pages.files import check_place, format_of, write_report

    kind = format_of(options.output, options.format)
    for store in (options.store, options.size_store):
        check_place(options.output, kind, store)
    with sign_of_life():
        made = _of_store(options) if options.system is None else _of_system(options)
    _told("writing")
    for path in write_report(made.document, options.output, kind):
        print(printable(str(path)))
    if not made.whole:
        print("pbdist: warning: not everything is there or sound: the page begins with what is not", file=sys.stderr)
    return 0 if made.whole else FAILED


def _refuse_ignored(options: argparse.Namespace) -> None:
    """Refuse options that would be ignored."""
    if (options.store is None) == (options.system is None):
        got = "neither" if options.store is None else "both"
        raise InvalidInputError(f"STORE: expected a store or --system NAME, got {got}")
    only = ("study", "verify") if options.store is None else ("systems", "tolerance", "sizes", "size_store")
    for name in only:
        if getattr(options, name) is not None:
            what = "a system" if options.store is None else "a store"
            raise InvalidInputError(f"--{name.replace('_', '-')}: expected none for {what}, got one")
    if options.verify is not None and not 0 <= options.verify <= 10_000:
        raise InvalidInputError(f"--verify: expected a whole number from 0 to 10,000, got {options.verify}")


def _told(text: str) -> None:
    print(f"report: {printable(text)}", file=sys.stderr, flush=True)


def _of_store(options: argparse.Namespace) -> "Report":
    from pbdist.report.pages.store_report import store_report
    from pbdist.report.pages.words import goals_of

    spec = _study(options)
    goals = [] if spec is None else [*goals_of(spec)]
    asked = _asked_goal(options)
    if asked is not None:
        goals.append(asked)
    return store_report(
        options.store,
        goals=tuple(dict.fromkeys(goals)),
        study_file=spec,
        verify=options.verify or 0,
        told=_told,
    )


def _study(options: argparse.Namespace) -> "StudySpec | None":
    if options.study is None:
        return None
    from pbdist.cli.study import study_file
    from pbdist.study import load_study

    return load_study(study_file(options.study))


def _of_system(options: argparse.Namespace) -> "Report":
    from pbdist.report.pages.system_report import system_report
    from pbdist.sizing.systems import SystemTarget, find_system, load_systems

    if Path(options.system).suffix in (".yaml", ".yml") and options.systems is None:
        found = load_systems(options.system)
        if len(found) > 1:
            names = ", ".join(one.name for one in found)
            raise InvalidInputError(f"--system: expected a file of one system, got {names}: add --systems FILE")
        system = found[0]
    else:
        system = find_system(load_systems(options.systems), options.system)
    asked = _asked_goal(options)
    targets = system.targets
    if asked is not None:
        targets = (SystemTarget(asked.compositions, asked.epsilon, asked.delta, "asked for"),)
    settings: dict[str, Any] = {} if options.tolerance is None else {"tolerance": options.tolerance}
    sizes = options.sizes or options.output.with_suffix(".sizes.json")
    return system_report(system, targets, sizes=sizes, store=options.size_store, told=_told, **settings)


def _asked_goal(options: argparse.Namespace) -> "Goal | None":
    """Return the target of the options, None without one."""
    given = {name: getattr(options, name) for name in _GOAL}
    if all(value is None for value in given.values()):
        return None
    missing = [name for name in ("compositions", "delta") if given[name] is None]
    missing += ["epsilon"] if given["epsilon"] is None and given["exp_epsilon"] is None else []
    if missing:
        raise InvalidInputError(f"--{missing[0]}: expected a value with the rest of a target, got none")
    from pbdist.sizing.goal import checked_goal

    return checked_goal(**given)
