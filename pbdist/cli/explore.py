"""``pbdist explore``: a store in a browser, served on this machine or as one static file."""

import sys
from pathlib import Path

from pbdist.cli.interrupts import in_good_order
from pbdist.cli.output import EXIT_CODES, FAILED, sign_of_life
from pbdist.cli.parser import Number, Option, Options, command, file_type, refuse, store_argument
from pbdist.errors import printable
from pbdist.input_files import check_outside

#: What an export is known by, and where it is looked for.
_MARK, _HEAD = b'<meta name="generator" content="pbdist explore">', 4096


@command(
    "explore",
    store_argument(),
    Option(
        "--port",
        metavar="P",
        type=Number(0, 65535, whole=True),
        default=0,
        help="the port to serve at (default: a free one)",
    ),
    Option(
        "--host", metavar="H", default="127.0.0.1", help="the address to serve at (default: 127.0.0.1, this machine)"
    ),
    Option("--export", metavar="FILE.html", type=file_type(Path), help="write one HTML file instead of serving"),
    Option("--mechanism", metavar="LABEL", several=True, help="with --export: only the mechanisms with these labels"),
    example="explore data/quickstart.zarr --export page.html",
    exits=EXIT_CODES,
)
def explore(options: Options) -> int:
    """Show a store in a browser, or write it as one HTML file.

    Choose noise, a number of rounds and a target, compare settings, and download what is shown. Serves until Ctrl-C, to
    this machine alone, and only reads. With --export it writes one HTML file that needs no server.
    """
    if options.export is not None:
        return _export(options)
    if options.mechanism is not None:
        refuse("--mechanism", "expected none without --export, got one: the page lets you choose")
    return _serve(options)


def _export(options: Options) -> int:
    if options.export.suffix != ".html":
        refuse("--export", f"expected a file name that ends in .html, got {options.export}")
    check_outside(options.export, options.store, "--export")
    if not options.export.parent.is_dir():
        refuse("--export", f"expected a file in a folder that exists, got {options.export}")
    _check_ours(options.export)
    from pbdist.report.explorer.export import exported
    from pbdist.report.explorer.snapshot import take_snapshot
    from pbdist.report.pages.files import write_whole

    with sign_of_life():
        snapshot = take_snapshot(options.store)
        write_whole(options.export, exported(snapshot, options.mechanism).encode())
    print(printable(str(options.export)))
    whole = not (snapshot.problem or snapshot.lacking or snapshot.damaged or any(p.failed for p in snapshot.parts))
    if whole:
        return 0
    print("pbdist: warning: not everything is there or sound: the page begins with what is not", file=sys.stderr)
    return FAILED


def _check_ours(path: Path) -> None:
    """Refuse, before any work, to replace what is not an earlier export."""
    if not path.exists() and not path.is_symlink():
        return
    if path.is_file() and not path.is_symlink():
        with path.open("rb") as file:
            if _MARK in file.read(_HEAD):
                return
    refuse(
        "--export",
        f"expected a new file, or one that pbdist explore has written, got {path}: remove it, or choose another",
    )


def _serve(options: Options) -> int:
    import asyncio

    from pbdist.report.explorer.server import ExplorerServer, Served, is_loopback

    async def serve(served: Served) -> None:
        server = ExplorerServer(served, options.host, options.port)
        try:
            shown = f"[{options.host}]" if ":" in options.host else options.host
            print(f"http://{shown}:{server.port}/", flush=True)
            print("Ctrl-C ends it.", file=sys.stderr)
            await asyncio.Event().wait()
        finally:
            server.close()

    if not is_loopback(options.host):
        print(
            f"pbdist: warning: --host: {options.host} may be reached from other machines: whoever does can read this"
            " store, without a password",
            file=sys.stderr,
        )
    with in_good_order():
        served = Served(options.store)
        try:
            asyncio.run(serve(served))
        finally:
            served.close()
    return 0
