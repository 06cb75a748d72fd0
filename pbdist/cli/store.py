"""``pbdist status``, ``verify`` and ``export``: progress and checks of a store, and a copy for other programs."""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pbdist.cli.interrupts import in_good_order
from pbdist.cli.options import STORE
from pbdist.cli.output import EXIT_CODES, FAILED, print_json, sign_of_life
from pbdist.cli.parser import FILE, WHOLE, Argument, Option, Options, command
from pbdist.errors import StoreDamagedError, printable

if TYPE_CHECKING:
    from pbdist.query.status import StoreStatus
    from pbdist.store import StoreCheck
    from pbdist.verify.verification import Verification

_MAX_PRINTED = 20


@command(
    "status",
    STORE,
    Option("--check", "read every file and compare it with its checksum"),
    Option("--json", "print JSON, with lists of any length"),
    example="status data/quickstart.zarr --check",
    exits=EXIT_CODES,
)
def status(options: Options) -> int:
    """Show the progress of a store, also during a run.

    Exit code 0 if the store is complete (with --check: and every file sound), else 1.
    """
    from pbdist.query.status import store_status

    try:
        with sign_of_life():
            found = store_status(options.store, check=options.check)
    except StoreDamagedError as error:
        # It is a store that cannot be read, not wrong input.
        if options.json:
            print_json({"healthy": False, "problem": str(error)})
        else:
            print(f"damaged: {error}")
        return FAILED
    return _print(found, _lines(found), as_json=options.json)


def _print(found: "StoreStatus | Verification", lines: Iterable[str], *, as_json: bool) -> int:
    """Print what was found as JSON or in lines, and return the exit code."""
    if as_json:
        print_json(found.as_json())
    else:
        # Causes and names of files stay on one line.
        print(*map(printable, lines), sep="\n")
    return 0 if found.passed else FAILED


def _lines(found: "StoreStatus") -> Iterator[str]:
    from pbdist.store import STORE_FORMAT
    from pbdist.study.plan import counted, size

    first = found.parts[0].stored
    yield f"store: {found.store}, format {STORE_FORMAT}, {size(found.size)} in {found.files:,} files"
    yield f"study: {first.study.name}, digest {first.head.digest[:16]}"
    if len(found.parts) > 1:
        yield f"parts: {len(found.parts)}, the first one and its extensions"
        for part in found.parts:
            grid = f"{len(part.stored.study.compositions):,} r, {len(part.stored.study.epsilon):,} ε"
            cells = part.counts
            yield f"  {part.stored.part or 'first'}: {cells['all']:,} cells, {grid}, {cells['missing']:,} missing"
    for name in found.parts_missing:
        yield f"missing: {name}, a part of the store: put it back, or run the study again"
    # Extensions have the same cells again, at other r or ε.
    what = "cells" if len(found.parts) == 1 else "points"
    those, batches = found.counts[what], found.counts["batches"]
    committed = those["all"] - those["missing"] - those["failed"]
    lacking = f"{those['missing']:,} missing, {those['failed']:,} failed"
    name = "points (cell, r, ε)" if what == "points" else what
    yield f"{name}: {committed:,} of {those['all']:,} committed, {lacking}"
    yield f"batches: {batches['all'] - batches['missing']:,} of {batches['all']:,} committed"
    if found.refinements:
        added = counted(found.refined_points, "point")
        yield f"added by queries: {added} in {counted(found.refinements, 'refinement')}"
    if found.precision is not None and first.study.required_tolerance is not None:
        from pbdist.query.status import precision_line

        yield f"tolerance: {precision_line(first.study.required_tolerance, found.precision)}"
        if found.precision.unreadable:
            yield f"tolerance: not known of {found.precision.unreadable:,} cells, whose bounds cannot be read"
    yield f"driver: {found.driver or 'none at work'}"
    failed = [f"failed: {one.setting}{_of(one.part)}: {one.cause}" for one in found.failed()]
    missing = [
        f"missing: batch {one.batch}{_of(one.part)}, {' to '.join(dict.fromkeys(one.settings))}"
        for one in found.missing()
    ]
    yield from _first("failed cells", failed)
    yield from _first("missing batches", missing)
    if found.check is not None:
        yield from _check_lines(found.check)


def _of(part: str) -> str:
    return f" ({part})" if part else ""


def _check_lines(check: "StoreCheck") -> Iterator[str]:
    from pbdist.study.plan import counted

    yield from _first("damaged files", [f"damaged: {name}: {what}" for name, what in check.damaged])
    yield from _first("strays", [f"stray, no harm: {name}" for name in check.strays])
    if not check.damaged:
        yield "checked: every file is unchanged"
        return
    count = len(check.damaged)
    yield f"checked: {counted(count, 'damaged file')}: run the study again with --check to restore the store"
    if any(name.startswith("refined-") for name, _ in check.damaged):
        yield "points that queries have added come back when the query is made again with --refine"


def _first(what: str, lines: list[str]) -> Iterator[str]:
    yield from lines[:_MAX_PRINTED]
    if len(lines) > _MAX_PRINTED:
        yield f"and {len(lines) - _MAX_PRINTED:,} more {what}: --json has all"


@command(
    "verify",
    STORE,
    Option("--sample K", "points to recompute (default: 20)", WHOLE, default=20),
    Option("--seed S", "seed of the choice of points (default: 0)", WHOLE, default=0),
    Option("--cells N", "cells of the exact arithmetic (default: 100,000)", WHOLE),
    Option("--json", "print JSON, unrounded"),
    example="verify data/quickstart.zarr --sample 5",
    exits=EXIT_CODES,
)
def verify(options: Options) -> int:
    """Check a store: complete, unchanged, right at sampled points.

    The points of the sample are recomputed in exact integer arithmetic.
    """
    from pbdist.verify.store import DEFAULT_CELLS, verify_store

    cells = DEFAULT_CELLS if options.cells is None else options.cells
    with sign_of_life():
        found = verify_store(options.store, sample=options.sample, seed=options.seed, max_cells=cells)
    return _print(found, found.lines(), as_json=options.json)


@command(
    "export",
    STORE,
    Argument("OUT", "a new path that ends in .zarr, .nc, .parquet or .csv", FILE),
    Option("--allow-incomplete", "export a store with missing results too, marked in the export"),
    example="export data/quickstart.zarr quickstart.csv",
    exits=EXIT_CODES,
)
def export(options: Options) -> int:
    """Write a store as one flat table for other programs.

    The table has all parts of the store. Exit code 1 if it is not complete and sound; --allow-incomplete
    exports the results that are there.
    """
    from pbdist.errors import StoreIncompleteError
    from pbdist.export import export_study
    from pbdist.study.plan import counted

    try:
        with in_good_order(), sign_of_life():
            found = export_study(options.store, options.out, allow_incomplete=options.allow_incomplete)
    except (StoreDamagedError, StoreIncompleteError) as error:
        print(f"pbdist: error: {error}", file=sys.stderr)
        return FAILED
    print(printable(f"{found.path}: {found.cells:,} cells, {found.points:,} points (cell, r, ε)"))
    if found.lacking:
        print(f"incomplete: {found.lacking} points are without bounds")
    if found.refinements:
        print(f"left out: {counted(found.refinements, 'refinement')} of queries, no part of the study")
    return 0
