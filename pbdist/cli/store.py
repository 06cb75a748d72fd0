"""``pbdist status``, ``verify`` and ``export``: progress and checks of a store, and a copy for other programs."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pbdist.cli.options import STORE
from pbdist.cli.output import FAILED, print_json
from pbdist.cli.parser import WHOLE, Argument, Option, Options, command
from pbdist.errors import printable

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
)
def status(options: Options) -> int:
    """Show the progress of a store, also during a run.

    Exit code 0 if the store is complete (with --check: and every file sound), else 1.
    """
    from pbdist.query.status import store_status

    found = store_status(options.store, check=options.check)
    return _print(found, _lines(found), as_json=options.json)


def _print(found: "StoreStatus | Verification", lines: Iterable[str], *, as_json: bool) -> int:
    """Print what was found as JSON or in lines, and return the exit code."""
    if as_json:
        print_json(found.as_json())
    else:
        print(*map(printable, lines), sep="\n")
    return 0 if found.passed else FAILED


def _lines(found: "StoreStatus") -> Iterator[str]:
    from pbdist.quantities import counted, size
    from pbdist.store import STORE_FORMAT

    first = found.parts[0].stored
    yield f"store: {found.store}, format {STORE_FORMAT}, {size(found.size)} in {counted(found.files, 'file')}"
    yield f"study: {first.study.name}, digest {first.head.digest[:16]}"
    for name in found.parts_missing:
        yield f"missing: {name}, a part of the store: put it back, or run the study again"
    for part in found.parts:
        every, missing, failed = part.counts.values()
        done = every - missing - failed
        yield f"cells{_of(part.stored.part)}: {done:,} of {every:,} committed, {missing:,} missing, {failed:,} failed"
    batches = found.counts["batches"]
    yield f"batches: {batches['all'] - batches['missing']:,} of {batches['all']:,} committed"
    if found.refinements:
        times = counted(found.refinements, "refinement")
        yield f"added by queries: {counted(found.refined_points, 'point')} in {times}"
    if found.precision is not None and first.study.required_tolerance is not None:
        from pbdist.query.status import precision_line

        yield f"tolerance: {precision_line(first.study.required_tolerance, found.precision)}"
        if found.precision.unreadable:
            yield f"tolerance: not known of {counted(found.precision.unreadable, 'cell')}, whose bounds cannot be read"
    yield f"driver: {found.driver or 'none at work'}"
    yield from _first(f"failed: {one.setting}{_of(one.part)}: {one.cause}" for one in found.failed())
    if found.check is not None:
        yield from _check_lines(found.check)


def _of(part: str) -> str:
    return f" ({part})" if part else ""


def _check_lines(check: "StoreCheck") -> Iterator[str]:
    from pbdist.quantities import counted

    yield from _first(f"damaged: {name}: {what}" for name, what in check.damaged)
    yield from _first(f"stray, no harm: {name}" for name in check.strays)
    count = f"{counted(len(check.damaged), 'damaged file')}: pbdist run STUDY --check repairs the store"
    yield f"checked: {count}" if check.damaged else "checked: every file is unchanged"
    if any(name.startswith("refined-") for name, _ in check.damaged):
        yield "points that queries have added come back when the query is made again with --refine"


def _first(lines: Iterable[str]) -> Iterator[str]:
    every = list(lines)
    yield from every[:_MAX_PRINTED]
    if len(every) > _MAX_PRINTED:
        yield f"and {len(every) - _MAX_PRINTED:,} more: --json has all"


@command(
    "verify",
    STORE,
    Option("--sample K", "points to recompute", WHOLE, default=20),
    Option("--json", "print JSON, unrounded"),
    example="verify data/quickstart.zarr --sample 5",
)
def verify(options: Options) -> int:
    """Check a store: complete, unchanged, right at sampled points.

    The points of the sample are recomputed in exact integer arithmetic.
    """
    from pbdist.verify.store import verify_store

    found = verify_store(options.store, sample=options.sample)
    return _print(found, found.lines(), as_json=options.json)


@command(
    "export",
    STORE,
    Argument("OUT", "a new path that ends in .zarr, .nc, .parquet or .csv"),
    Option("--allow-incomplete", "export a store with missing results too, marked in the export"),
    example="export data/quickstart.zarr quickstart.csv",
)
def export(options: Options) -> int:
    """Write a store as one flat table for other programs.

    The table has all parts of the store. Exit code 1 if it is not complete and sound; --allow-incomplete
    exports the results that are there.
    """
    from pbdist.export import export_study
    from pbdist.quantities import counted

    found = export_study(options.store, options.out, allow_incomplete=options.allow_incomplete)
    print(printable(f"{found.path}: {counted(found.cells, 'cell')}, {counted(found.points, 'point')} (cell, r, ε)"))
    if found.lacking:
        print(f"incomplete: {found.lacking} points are without bounds")
    if found.refinements:
        print(f"left out: {counted(found.refinements, 'refinement')} of queries, no part of the study")
    return 0
