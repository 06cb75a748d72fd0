"""``pbdist report`` and ``pbdist explore``: pages on a store or a system."""

import sys
from typing import Any

from pbdist.cli.options import STORE, STUDY, SYSTEM, SYSTEMS, TARGET, check_output
from pbdist.cli.output import FAILED, sign_of_life, warn
from pbdist.cli.parser import FILE, PATH, Argument, Number, Option, Options, command, refuse
from pbdist.errors import printable


@command(
    "report",
    Argument("[STORE]", "a store: a path or s3://BUCKET/PREFIX"),
    Option("--system NAME", "in place of a store: a system of data/systems.yaml", shell_complete=SYSTEM),
    Option("-o --output FILE", "an .html, .md or .pdf file; it is replaced", PATH, required=True),
    Option("--study FILE", "the targets of a study file, or of a study by name", shell_complete=STUDY),
    *TARGET,
    Option("--verify K", "recompute K points of the store in exact integers", Number(0, 10_000, whole=True)),
    SYSTEMS,
    Option("--tolerance T", "of --system: how much smaller the refuted noise is (0.01)", Number(1e-6, 0.5)),
    Option("--size-store STORE", "of --system: a study's store, which answers first and saves new bounds", FILE),
    example="report data/quickstart.zarr -o report.html",
    exclusive=[
        *(("store", one) for one in ("system", "systems", "tolerance", "size_store")),
        *(("system", one) for one in ("study", "verify")),
    ],
    needs=[("store", "system")],
    # Nothing but sizes in a store is saved before the page.
    resumes=lambda options: options.size_store,
)
def report(options: Options) -> int:
    """Write a page on a store or a system, to hand on.

    The answer in a sentence, a picture, the assumptions, the checks, and the sources of the numbers; tables are in the
    appendix. With --compositions, --epsilon and --delta the page is about that target. If results of a store are
    missing, damaged or failed, the page begins with these, and the exit code is 1.
    """
    from pbdist.report.pages.files import format_of, report_files, write_whole

    kind = format_of(options.output)
    check_output("--output", options.output, *filter(None, (options.store, options.size_store)))
    made = _of_store(options) if options.system is None else _of_system(options)
    # The page first.
    for path, content in reversed(report_files(made, options.output, kind)):
        write_whole(path, content)
        print(printable(str(path)))
    return _exit_code(whole=made.whole)


def _exit_code(*, whole: bool) -> int:
    if not whole:
        warn("some results are missing or damaged: the page begins with these")
    return 0 if whole else FAILED


def _of_store(options: Options) -> Any:
    from pbdist.report.pages.store_report import store_report
    from pbdist.study import load_study
    from pbdist.study.starter import find_study

    spec = None if options.study is None else load_study(find_study(options.study))
    targets = tuple(dict.fromkeys([*(spec.targets if spec else ()), *options.targets()]))
    return store_report(options.store, targets=targets, study_file=spec, verify=options.verify or 0)


def _of_system(options: Options) -> Any:
    from pbdist.report.pages.system_report import system_report
    from pbdist.sizing.systems import SystemTarget, find_system

    system = find_system(options.system, options.systems)
    targets = tuple(SystemTarget(**vars(one), origin="as given") for one in options.targets()) or system.targets
    settings = options.given("tolerance")
    return system_report(system, targets, store=options.size_store, file=options.systems, **settings)


@command(
    "explore",
    STORE,
    Option("--port P", "the port to serve at; 0: a free one", Number(0, 65535, whole=True), default=0),
    Option("--export FILE.html", "write one HTML file instead of serving", PATH),
    Option("--mechanism LABEL..", "with --export: only the mechanisms with these labels"),
    example="explore data/quickstart.zarr --export page.html",
    progress=False,
)
def explore(options: Options) -> int:
    """Show a store in a browser, or write it as one HTML file.

    Choose noise, a number of rounds and a target, compare settings, and download the result. Serves until Ctrl-C, to
    this machine alone, and only reads. With --export it writes one HTML file that needs no server.
    """
    if options.export is not None:
        return _export(options)
    if options.mechanism is not None:
        refuse("--mechanism", "applies to --export only: the page lets you choose")
    import asyncio

    from pbdist.report.explorer.server import ExplorerServer, Served

    async def serve(served: Served) -> None:
        try:
            server = ExplorerServer(served, "127.0.0.1", options.port)
        except OSError:
            refuse("--port", f"{options.port} is in use, or not allowed: choose another, or leave it out")
        try:
            print(f"http://127.0.0.1:{server.port}/", flush=True)
            print("Ctrl-C ends it.", file=sys.stderr)
            await asyncio.Event().wait()
        finally:
            server.close()

    asyncio.run(serve(Served(options.store)))
    return 0


def _export(options: Options) -> int:
    if options.export.suffix != ".html":
        refuse("--export", f"expected a file name that ends in .html, got {options.export}")
    check_output("--export", options.export, options.store)
    from pbdist.report.explorer.export import exported
    from pbdist.report.explorer.snapshot import Snapshot
    from pbdist.report.pages.files import write_whole

    with sign_of_life():
        snapshot = Snapshot(options.store)
        write_whole(options.export, exported(snapshot, options.mechanism).encode())
    print(printable(str(options.export)))
    return _exit_code(whole=snapshot.whole)
