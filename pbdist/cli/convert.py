"""``pbdist convert``: a store of an earlier format made new in the present one."""

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pbdist.cli.interrupts import ANEW, in_good_order
from pbdist.cli.output import EXIT_CODES, FAILED

if TYPE_CHECKING:
    from pbdist.store import Conversion

__all__ = ["add_to"]

_MOST_PRINTED = 20
#: The new store appears at the very end, whole: an interrupt may come just after that.
_INTERRUPTED = f"{ANEW.rstrip()}, unless the new store is there: then it is whole\n"


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``pbdist convert``."""
    parser = commands.add_parser(
        "convert",
        help="make a store of this version from one of an earlier version, which stays as it is",
        description="Exit code 1 if the old store lacks something, or something in it is damaged: all else is copied.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", metavar="OLD", help="a store of an earlier version: a path or s3://BUCKET/PREFIX")
    parser.add_argument("new", metavar="NEW", help="the new store: a new path or s3://BUCKET/PREFIX")
    parser.set_defaults(action=_convert)


def _convert(options: argparse.Namespace) -> int:
    with in_good_order(_INTERRUPTED):
        from pbdist.errors import PbdistError
        from pbdist.store import convert_store

        found = convert_store(options.old, options.new)
    # `PbdistError` removes line breaks and control characters from causes and names of files.
    print(*(PbdistError(line) for line in _lines(found)), sep="\n")
    return 0 if found.whole else FAILED


def _lines(found: "Conversion") -> Iterator[str]:
    from pbdist.store import STORE_FORMAT

    yield f"converted: {found.old}, format {found.format}, to {found.new}, format {STORE_FORMAT}"
    parts = "" if found.parts == 1 else f" in {found.parts:,} parts"
    refinements = f", {found.refinements:,} refinements" if found.refinements else ""
    yield f"copied: {found.batches:,} batches{parts}{refinements}, each compared with its checksum"
    yield from _named("missing", [f"batch {batch}{_of(part)}" for part, batch in found.missing], "batches")
    yield from _named("damaged, not copied", [f"{name}: {what}" for name, what in found.damaged], "damaged files")
    yield from _named("failed", [f"cell {cell}{_of(part)}: {why}" for part, cell, why in found.failed], "failed cells")
    if found.left:
        yield f"missing: {found.left:,} parts, as an extension was interrupted"
    if not found.whole:
        yield f"not complete: pbdist run STUDY --store {found.new} computes the rest"


def _named(what: str, lines: Sequence[str], items: str) -> Iterator[str]:
    yield from (f"{what}: {line}" for line in lines[:_MOST_PRINTED])
    if len(lines) > _MOST_PRINTED:
        yield f"and {len(lines) - _MOST_PRINTED:,} more {items}"


def _of(part: str) -> str:
    return f" ({part})" if part else ""
