"""``pbdist report``: one page on a store or a system, for a person who decides on noise."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pbdist.cli.output import EXIT_CODES, FAILED, sign_of_life, tell
from pbdist.cli.parser import (
    NUMBER,
    WHOLE,
    Argument,
    Number,
    Option,
    Options,
    Word,
    choice,
    command,
    file_type,
    point_options,
    refuse,
)
from pbdist.cli.size import system_names, systems_option
from pbdist.cli.study import study_names
from pbdist.errors import printable

if TYPE_CHECKING:
    from pbdist.report.pages.store_report import Report
    from pbdist.sizing.goal import Goal
    from pbdist.study import StudySpec

_FORMATS = ("html", "md", "pdf", "latex")
_GOAL = ("compositions", "epsilon", "exp_epsilon", "delta")


@command(
    "report",
    Argument(
        "store", "a store: a path or s3://BUCKET/PREFIX", metavar="[STORE]", required=False, type=Word(path="dir")
    ),
    Option(
        "--system",
        metavar="NAME",
        type=Word(system_names),
        help="in place of a store: a system of data/systems.yaml",
    ),
    Option("-o", "--output", metavar="FILE", type=file_type(Path), required=True, help="the file to write"),
    Option(
        "--format",
        metavar="FORMAT",
        type=choice(*_FORMATS),
        help="default: by the end of the file's name",
    ),
    Option(
        "--study",
        metavar="FILE",
        type=Word(study_names, path="file"),
        help="goals: the targets of a study file, or of a study by name",
    ),
    Option("--compositions", metavar="R", type=WHOLE, help="a goal: number of compositions"),
    *point_options("a goal: "),
    Option("--delta", metavar="D", type=NUMBER, help="a goal: the largest delta that will do"),
    Option(
        "--verify",
        metavar="K",
        type=Number(0, 10_000, whole=True),
        help="recompute K points of the store in exact integers (default: none)",
    ),
    systems_option(),
    Option("--tolerance", metavar="T", type=NUMBER, help="of --system: how much less is refuted (0.01)"),
    Option(
        "--size-store",
        metavar="STORE",
        type=Word(path="dir"),
        help="of --system: a store to ask first; what it lacks is added to it",
    ),
    example="report data/quickstart.zarr -o report.html",
    exits=EXIT_CODES,
    exclusive=[("epsilon", "exp_epsilon")],
)
def report(options: Options) -> int:
    """Write a page on a store or a system, to hand on.

    One self-contained page: the goal, the noise that will do, the noise that is refuted, pictures, tables of the
    bounds, what is taken for granted, and where the numbers come from. What of a store is missing, damaged or could not
    be computed is said first; then the exit code is 1.
    """
    _refuse_ignored(options)
    from pbdist.report.pages.files import check_place, format_of, write_report

    kind = format_of(options.output, options.format)
    for store in (options.store, options.size_store):
        check_place(options.output, kind, store)
    drawn = "pdf" if kind == "latex" else "svg"
    with sign_of_life():
        made = _of_store(options, drawn) if options.system is None else _of_system(options, drawn)
    _told("writing")
    for path in write_report(made.document, options.output, kind):
        print(printable(str(path)))
    if not made.whole:
        print("pbdist: warning: not everything is there or sound: the page begins with what is not", file=sys.stderr)
    return 0 if made.whole else FAILED


def _refuse_ignored(options: Options) -> None:
    """Refuse options that would be ignored."""
    if (options.store is None) == (options.system is None):
        got = "neither" if options.store is None else "both"
        refuse("STORE", f"expected a store or --system NAME, got {got}")
    only = ("study", "verify") if options.store is None else ("systems", "tolerance", "size_store")
    for name in only:
        if getattr(options, name) is not None:
            what = "a system" if options.store is None else "a store"
            refuse(f"--{name.replace('_', '-')}", f"expected none for {what}, got one")


def _told(text: str) -> None:
    tell(f"report: {printable(text)}")


def _of_store(options: Options, drawn: str) -> "Report":
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
        drawn=drawn,
        told=_told,
    )


def _study(options: Options) -> "StudySpec | None":
    if options.study is None:
        return None
    from pbdist.cli.study import study_file
    from pbdist.study import load_study

    return load_study(study_file(options.study))


def _of_system(options: Options, drawn: str) -> "Report":
    from pbdist.report.pages.system_report import system_report
    from pbdist.sizing.systems import SystemTarget, find_system, load_systems

    system = find_system(load_systems(options.systems), options.system)
    asked = _asked_goal(options)
    targets = system.targets
    if asked is not None:
        targets = (SystemTarget(asked.compositions, asked.epsilon, asked.delta, "asked for"),)
    settings: dict[str, Any] = {} if options.tolerance is None else {"tolerance": options.tolerance}
    return system_report(system, targets, store=options.size_store, drawn=drawn, told=_told, **settings)


def _asked_goal(options: Options) -> "Goal | None":
    """Return the goal of the options, None without one."""
    given = {name: getattr(options, name) for name in _GOAL}
    if all(value is None for value in given.values()):
        return None
    missing = [name for name in ("compositions", "delta") if given[name] is None]
    missing += ["epsilon"] if given["epsilon"] is None and given["exp_epsilon"] is None else []
    if missing:
        refuse(f"--{missing[0]}", "expected a value with the rest of a goal, got none")
    from pbdist.sizing.goal import checked_goal

    return checked_goal(**given)
