"""``pbdist export``: a store as one flat table for other programs."""

import argparse
import sys

from pbdist.cli.interrupts import ANEW, in_good_order
from pbdist.cli.output import EXIT_CODES, FAILED


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``pbdist export``."""
    parser = commands.add_parser(
        "export",
        help="write a store, all its parts, as one flat table: .zarr, .nc, .parquet or .csv",
        description="Exit code 1 if the store is not complete and sound; --allow-incomplete exports what there is.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("store", metavar="STORE", help="a store: a path or s3://BUCKET/PREFIX")
    parser.add_argument("out", metavar="OUT", help="a new path that ends in .zarr, .nc, .parquet or .csv")
    parser.add_argument(
        "--allow-incomplete",
        action="store_true",
        help="export a store that lacks results too; it says so in the export",
    )
    parser.set_defaults(action=_export)


def _export(options: argparse.Namespace) -> int:
    from pbdist.errors import PbdistError, StoreDamagedError, StoreIncompleteError
    from pbdist.export import export_study

    try:
        with in_good_order(ANEW):
            found = export_study(options.store, options.out, allow_incomplete=options.allow_incomplete)
    except (StoreDamagedError, StoreIncompleteError) as error:
        print(f"pbdist: error: {error}", file=sys.stderr)
        return FAILED
    print(PbdistError(f"{found.path}: {found.cells:,} cells, {found.points:,} points (cell, r, ε)"))
    if found.lacking:
        print(f"incomplete: {found.lacking} points are without bounds")
    if found.refinements:
        print(f"left out: {found.refinements:,} refinements of queries, which are no part of the study")
    return 0
