"""``pbdist report``: one page on a store or a system, for a person who decides on noise."""

from pathlib import Path
from typing import TYPE_CHECKING

from pbdist.cli.given import Options, given_options, given_target, refuse, refuse_given
from pbdist.cli.options import STUDY_OR_FILE, SYSTEM_OR_FILE, SYSTEMS
from pbdist.cli.output import EXIT_CODES, sign_of_life, tell, whole
from pbdist.cli.parser import FOLDER, NUMBER, PATH, WHOLE, Argument, Number, Option, choice, command
from pbdist.cli.study import study_file
from pbdist.errors import printable

if TYPE_CHECKING:
    from pbdist.report.pages.document import Document
    from pbdist.study import Target

_FORMATS = ("html", "md", "pdf")


@command(
    "report",
    Argument("[STORE]", "a store: a path or s3://BUCKET/PREFIX", FOLDER),
    Option(
        "--system NAME|FILE",
        "in place of a store: a system of data/systems.yaml, or a file of your own",
        SYSTEM_OR_FILE,
    ),
    Option("-o --output FILE", "the file to write", PATH, required=True),
    Option("--format FORMAT", "default: by the end of the file's name", choice(*_FORMATS)),
    Option("--study FILE", "the targets of a study file, or of a study by name", STUDY_OR_FILE),
    Option("--compositions R", "a target: number of compositions", WHOLE),
    Option("--epsilon E", "a target: epsilon, in nats", NUMBER),
    Option("--exp-epsilon Y", "a target: e to the power of epsilon", NUMBER),
    Option("--delta D", "a target: the largest delta", NUMBER),
    Option(
        "--verify K", "recompute K points of the store in exact integers (default: none)", Number(0, 10_000, whole=True)
    ),
    SYSTEMS,
    Option("--tolerance T", "of --system: how much less is refuted (0.01)", NUMBER),
    Option("--size-store STORE", "of --system: a store of sizes; missing ones are added to it", FOLDER),
    example="report data/quickstart.zarr -o report.html",
    exits=EXIT_CODES,
    exclusive=[("epsilon", "exp_epsilon")],
)
def report(options: Options) -> int:
    """Write a page on a store or a system, to hand on.

    The answer in a sentence, a picture, what is assumed, what was checked, and where the numbers come from; tables are
    in the appendix. What of a store is missing, damaged or could not be computed is said first; then the exit code
    is 1.
    """
    _refuse_ignored(options)
    from pbdist.report.pages.files import check_place, format_of, report_files, write_whole

    kind = format_of(options.output, options.format)
    for store in (options.store, options.size_store):
        check_place(options.output, kind, store)
    with sign_of_life():
        made = _of_store(options) if options.system is None else _of_system(options)
    _told("writing")
    # The page first.
    for path, content in reversed(report_files(made, options.output, kind)):
        write_whole(path, content)
        print(printable(str(path)))
    return whole(made.whole)


def _refuse_ignored(options: Options) -> None:
    """Refuse options that would be ignored."""
    if (options.store is None) == (options.system is None):
        got = "neither" if options.store is None else "both"
        refuse("STORE", f"expected a store or --system NAME, got {got}")
    if options.store is None:
        refuse_given(options, ("study", "verify"), "expected none for a system, got one")
    else:
        refuse_given(options, ("systems", "tolerance", "size_store"), "expected none for a store, got one")


def _told(text: str) -> None:
    tell(f"report: {printable(text)}")


def _of_store(options: Options) -> "Document":
    from pbdist.report.pages.store_report import store_report
    from pbdist.study import load_study

    spec = None if options.study is None else load_study(study_file(options.study))
    asked = _asked_target(options)
    targets = [*(spec.targets if spec else ()), *([asked] if asked else ())]
    kept = tuple(dict.fromkeys(targets))
    return store_report(options.store, targets=kept, study_file=spec, verify=options.verify or 0, progress=_told)


def _of_system(options: Options) -> "Document":
    from pbdist.report.pages.system_report import system_report
    from pbdist.sizing.systems import SystemTarget, find_system, load_systems

    own = options.systems is None and Path(options.system).suffix in (".yaml", ".yml")
    systems = load_systems(options.system if own else options.systems)
    if own and len(systems) > 1:
        names = ", ".join(one.name for one in systems)
        more = f"choose one, and give --systems {options.system}"
        refuse("--system", f"expected a file of one system, got {names}: {more}")
    system = systems[0] if own else find_system(systems, options.system)
    asked = _asked_target(options)
    targets = (SystemTarget(**vars(asked), origin="asked for"),) if asked else system.targets
    settings = given_options(options, ["tolerance"])
    file = options.system if own else options.systems
    return system_report(system, targets, store=options.size_store, file=file, progress=_told, **settings)


def _asked_target(options: Options) -> "Target | None":
    """Return the target of the options, None without one."""
    given = given_target(options, "expected a value with the rest of a target, got none")
    if not given:
        return None
    from pbdist.sizing.target import checked_target

    return checked_target(**{"epsilon": None, "exp_epsilon": None, **given})
