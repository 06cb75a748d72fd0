"""Where the numbers of a report come from: the software, the study's digest, what was checked and recomputed."""

from collections.abc import Iterator, Mapping

from pbdist.query.status import StoreStatus
from pbdist.report.pages.document import Block, Bullets, Column, Command, Paragraph, Table, plain
from pbdist.report.pages.shell import command
from pbdist.store import STORE_FORMAT
from pbdist.store.documents import provenance
from pbdist.study.plan import size
from pbdist.types import JsonValue
from pbdist.verify.verification import Verdict, Verification

_WHAT = Column("what")


def provenance_of(status: StoreStatus) -> Iterator[Block]:
    """Yield what a store says of itself."""
    first = status.parts[0].stored
    study = first.study
    sought = "none" if study.sought is None else f"upper / lower - 1 at most {study.sought:g} where δ > {study.floor:g}"
    judged = "the larger of the two directions" if study.direction == "both" else "each of the two directions"
    rows = [
        ("study", plain(study.name)),
        ("digest (SHA-256) of the study", first.head.digest),
        *((f"digest of the part {plain(part.stored.part)}", part.stored.head.digest) for part in status.parts[1:]),
        ("format of the store", f"version {STORE_FORMAT}"),
        ("parts", f"{len(status.parts):,}: the first one and {len(status.parts) - 1:,} that extended it"),
        ("points added by queries", f"{status.refined_points:,} in {status.refinements:,} refinements"),
        ("files", f"{status.files:,}, {size(status.size)}"),
        ("method", _method(study.method, study.buckets)),
        ("tolerance", sought if study.sought is None else f"{sought}, for {judged}"),
        *_software("computed with", first.root.get("provenance") or {}),
        *_software("this page made with", provenance()),
    ]
    yield Table("Where the numbers come from", (_WHAT, Column("value")), tuple(rows))


def made_by() -> Iterator[Block]:
    """Yield the software that computes and writes a report without a store."""
    yield Table("Where the numbers come from", (_WHAT, Column("value")), tuple(_software("made with", provenance())))


def verification_of(status: StoreStatus, verification: Verification | None, name: str) -> Iterator[Block]:
    """Yield what was checked, and what of the bounds was recomputed by other means."""
    check = status.check
    done = status.cells - status.cells_missing - status.cells_failed
    items = [
        f"Complete: {'yes' if status.complete else 'no'}. {done:,} of {status.cells:,} noise settings are computed,"
        f" {status.cells_missing:,} are missing, {status.cells_failed:,} have failed.",
    ]
    if check is not None:
        sound = (
            "each is what it was when it was written" if not check.damaged else f"{len(check.damaged):,} are damaged"
        )
        items.append(f"All {status.files:,} files were read and compared with their checksums (SHA-256): {sound}.")
    if verification is None:
        items.append("No bound was recomputed for this page. The following command does that, in exact integers:")
        yield Bullets(tuple(items))
        yield Command(command("pbdist", "verify", name))
        return
    counts = ", ".join(f"{len(verification.of(verdict)):,} {verdict.value}" for verdict in Verdict)
    items.append(
        f"{len(verification.samples):,} of {verification.points:,} stored points, chosen with seed {verification.seed},"
        f" were recomputed in exact integers, by other code than the one that made the bounds: {counts}."
    )
    yield Bullets(tuple(items))
    yield Paragraph(
        "Confirmed: both bounds are proved once more. Consistent: nothing contradicts them. Unchecked: it would take"
        " more memory than was allowed. Contradicted: the stored bounds are wrong."
    )


def _method(method: str, buckets: int | None) -> str:
    if method == "buckets":
        return f"privacy buckets (Meiser & Mohammadi 2018), {buckets or 0:,} buckets"
    return "tight" if buckets is None else f"tight, with {buckets:,} buckets"


def _software(what: str, found: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    names = ("pbdist", "python", "numpy", "scipy", "zarr")
    versions = [f"{name} {plain(str(found[name]))}" for name in names if found.get(name)]
    yield what, ", ".join(versions) or "not known"
    yield f"{what}: git revision of pbdist", plain(str(found.get("git_revision") or "not known"))
