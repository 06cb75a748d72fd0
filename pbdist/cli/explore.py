"""``pbdist explore``: a store in a browser, served on this machine or as one static file."""

import sys

from pbdist.cli.given import Options, check_output, refuse
from pbdist.cli.interrupts import in_good_order
from pbdist.cli.options import STORE
from pbdist.cli.output import EXIT_CODES, sign_of_life, warn, whole
from pbdist.cli.parser import PATH, Number, Option, command
from pbdist.errors import printable


@command(
    "explore",
    STORE,
    Option("--port P", "the port to serve at (default: a free one)", Number(0, 65535, whole=True), default=0),
    Option("--host H", "the address to serve at (default: 127.0.0.1, this machine)", default="127.0.0.1"),
    Option("--export FILE.html", "write one HTML file instead of serving", PATH),
    Option("--mechanism LABEL..", "with --export: only the mechanisms with these labels"),
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
    check_output("--export", options.export, options.store)
    from pbdist.report.pages.files import check_ours, write_whole

    check_ours(options.export, "--export", "explore")
    from pbdist.report.explorer.export import exported
    from pbdist.report.explorer.snapshot import Snapshot

    with sign_of_life():
        snapshot = Snapshot(options.store)
        write_whole(options.export, exported(snapshot, options.mechanism).encode())
    print(printable(str(options.export)))
    return whole(snapshot.whole)


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
        reached = "may be reached from other machines: whoever does can read this store, without a password"
        warn(f"--host: {options.host} {reached}")
    with in_good_order():
        asyncio.run(serve(Served(options.store)))
    return 0
