"""The report of a store: its condition first, then answers, bounds, assumptions and provenance."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pbdist.errors import StoreDamagedError
from pbdist.provenance import provenance
from pbdist.query.judging import precision_line
from pbdist.query.noise_choice import NoiseChoice, noise_choices
from pbdist.query.status import StoreStatus, store_status
from pbdist.query.study import Study, open_study
from pbdist.report.pages.document import (
    ALARM,
    NOTE,
    SOUND,
    Block,
    Bullets,
    Column,
    Command,
    Document,
    Heading,
    Notice,
    Paragraph,
    Table,
    command,
    named,
    plain,
)
from pbdist.report.pages.noise_blocks import answers, bound_tables, judged_settings
from pbdist.report.pages.pictures import pictures
from pbdist.report.pages.words import assumed, goal_in_words, meaning, studied
from pbdist.store import STORE_FORMAT, check_skeleton, open_parts
from pbdist.study import StudySpec
from pbdist.study import Target as Goal
from pbdist.study.columns import cell_columns
from pbdist.study.extension import missing_parts
from pbdist.study.plan import size
from pbdist.types import JsonValue
from pbdist.verify.store import verify_store
from pbdist.verify.verification import Verdict, Verification

#: So many entries of a list are told.
_MOST_TOLD = 8


def unreadable(problem: str) -> tuple[Notice, ...]:
    """Return what to say of a store that cannot be read at all."""
    items = (plain(problem), "This page shows no number. Do not decide anything by it.")
    return (Notice(ALARM, "This store is damaged, and nothing in it can be read", items),)


def condition(
    status: StoreStatus, *, complete: bool, lacking: int, verification: Verification | None
) -> tuple[Notice, ...]:
    """Return the notices on a store, those that make the page unfit to rely on first.

    Parameters
    ----------
    status
        With the result of a check of every file.
    complete
        Whether no part is missing.
    lacking
        How many sets of points a study file asks for that the store does not have.
    verification
        The recomputed points, if any.
    """
    found = []
    wrong = [] if verification is None else list(verification.of(Verdict.CONTRADICTED))
    if wrong:
        told = [*(plain(sample.describe()) for sample in wrong[:_MOST_TOLD]), *_more(wrong)]
        found.append(Notice(ALARM, "Stored bounds are proved wrong: rely on no number of this page", tuple(told)))
    found += [*_computed(status, complete=complete), *_damaged(status)]
    if lacking:
        text = "The study file asks for points that this store does not have: they are not computed."
        found.append(Notice(ALARM, "The store does not have all that the study file asks for", (text,)))
    if not found:
        found.append(Notice(SOUND, "The store is complete, and every file is what it was when it was written"))
    found += _wide(status)
    if status.driver is not None:
        found.append(Notice(NOTE, "A run is writing to this store: this page shows what was there when it was made"))
    return tuple(found)


def _computed(status: StoreStatus, *, complete: bool) -> Iterator[Notice]:
    missing = [(part, batch) for part in status.parts for batch in part.missing]
    left = "Nothing on this page speaks of them. The same pbdist run computes them."
    if status.cells_missing == status.cells:
        text = "No noise setting is computed yet: this page tells what is planned, and no bound."
        yield Notice(ALARM, "This store is empty", (text,))
    elif missing:
        title = f"This store is not complete: {status.cells_missing:,} of {status.cells:,} noise settings are missing"
        told = []
        for part, batch in missing[:_MOST_TOLD]:
            last = f" to {part.setting(batch.stop - 1)}" if batch.stop - batch.first > 1 else ""
            told.append(plain(f"missing: {part.setting(batch.first)}{last}"))
        yield Notice(ALARM, title, (left, *told, *_more(missing)))
    failed = [(part, cell) for part in status.parts for cell in part.failed]
    if failed:
        title = f"{len(failed):,} of {status.cells:,} noise settings could not be computed"
        causes = [plain(f"failed: {part.setting(cell.cell)}: {cell.cause}") for part, cell in failed[:_MOST_TOLD]]
        yield Notice(ALARM, title, ("Nothing on this page speaks of them.", *causes, *_more(failed)))
    if not (missing or failed or complete):
        text = "An extension of this store was interrupted: some points are in no part of it. " + left
        yield Notice(ALARM, "This store is not complete", (text,))


def _damaged(status: StoreStatus) -> Iterator[Notice]:
    damaged = () if status.check is None else status.check.damaged
    if damaged:
        many = "1 file of this store is" if len(damaged) == 1 else f"{len(damaged):,} files of this store are"
        told = [plain(f"damaged: {name}: {what}") for name, what in damaged[:_MOST_TOLD]]
        text = "No number on this page comes from them. The same pbdist run computes anew what they held."
        yield Notice(ALARM, f"{many} damaged: changed since it was written, or missing", (text, *told, *_more(damaged)))


def _wide(status: StoreStatus) -> Iterator[Notice]:
    sought, precision = status.parts[0].stored.study.sought, status.precision
    if precision is None or sought is None:
        return
    if precision.missed:
        text = "All bounds hold there too, but they leave more open. " + plain(precision_line(sought, precision))
        title = f"At {precision.missed:,} of {precision.points:,} points the study has missed its tolerance"
        yield Notice(NOTE, title, (text,))


def _more(found: Sequence[object]) -> list[str]:
    more = len(found) - _MOST_TOLD
    return [f"and {more:,} more: pbdist status --check --json lists all"] if more > 0 else []


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
        *_software("computed with", first.attributes.get("provenance") or {}),
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


@dataclass(frozen=True)
class Report:
    """A report, and whether everything that it is about is there and sound."""

    document: Document
    whole: bool


def store_report(
    where: str | Path,
    *,
    goals: Sequence[Goal] = (),
    study_file: StudySpec | None = None,
    verify: int = 0,
    drawn: str | None = "svg",
    told: Callable[[str], None] = lambda _: None,
) -> Report:
    """Return the report of a store; nothing is written into it.

    Parameters
    ----------
    where
        The path or URL of the store.
    goals
        What the noise should meet.
    study_file
        The study file from which the goals are, if any: its description is told, and whether the store has all of it.
    verify
        How many points to recompute in exact integers.
    drawn
        The kind of the files of pictures: ``svg`` or ``pdf``; None for a report without pictures.
    told
        Called with a few words on what is done next.

    Raises
    ------
    NotAStoreError, StoreFormatError
        There is no store, or one of another format.
    """
    name = Path(str(where).rstrip("/")).name
    try:
        told("reading every file of the store")
        status = store_status(where, check=True)
        parts = open_parts(where)
        for stored in parts:
            check_skeleton(stored)
        study = open_study(where)
        study.spec.cells[0].describe()
        columns = cell_columns(study.spec.cells)
    except StoreDamagedError as error:
        document = Document(
            f"Report on {named(name)}", "A store of pbdist that cannot be read.", unreadable(str(error))
        )
        return Report(document, whole=False)
    verification: Verification | None = None
    if verify:
        told(f"recomputing {verify:,} points in exact integers")
        verification = verify_store(where, sample=verify)
    lacking = 0 if study_file is None else len(missing_parts([stored.study for stored in parts], study_file))
    complete = study.complete
    top = condition(status, complete=complete, lacking=lacking, verification=verification)
    forms = [cell.pair.canonical() for cell in study.spec.cells]
    choices = {goal: _choices(study, goal, told) for goal in goals}
    told("writing")
    blocks: list[Block] = [*top]
    blocks += _in_short(study, goals, choices)
    blocks += [] if drawn is None else [*pictures(study, choices, drawn, told)]
    blocks += [*studied(study.spec, columns, forms)]
    for goal, found in choices.items():
        blocks += [Heading(f"Noise settings at the goal: {goal_in_words(goal)}"), *judged_settings(study, goal, found)]
    judged = [one for found in choices.values() for one in found]
    blocks += [*bound_tables(study, goals, judged, columns=columns, name=name)]
    blocks += [*assumed(forms)]
    blocks += [Heading("How it was checked"), *verification_of(status, verification, name)]
    blocks += [Heading("Provenance"), *provenance_of(status)]
    contradicted = verification is not None and bool(verification.of(Verdict.CONTRADICTED))
    whole = status.passed and complete and not lacking and not contradicted
    title = f"Report on the study {named(study.spec.name if study_file is None else study_file.name)}"
    return Report(Document(title, _about(study_file), tuple(blocks)), whole=whole)


def _choices(study: Study, goal: Goal, told: Callable[[str], None]) -> tuple[NoiseChoice, ...]:
    told(f"judging the noise settings: {goal_in_words(goal)}")
    return noise_choices(study, compositions=goal.compositions, epsilon=goal.epsilon, delta=goal.delta)


def _in_short(study: Study, goals: Sequence[Goal], choices: dict[Goal, tuple[NoiseChoice, ...]]) -> Iterator[Block]:
    yield Heading("In short")
    if not goals:
        yield Paragraph(
            "No goal was given, so this page names no noise that will do: it tells what the bounds on δ are. With a"
            " goal (--compositions, --epsilon or --exp-epsilon, --delta, or --study FILE) it says which noise meets it."
        )
        return
    yield Paragraph(meaning(goals))
    for goal in goals:
        yield from answers(study, goal, choices[goal])


def _about(study_file: StudySpec | None) -> str:
    what = "" if study_file is None or not study_file.description else f"{plain(study_file.description)} "
    return (
        f"{what}Certified lower and upper bounds on δ(ε) of approximate differential privacy after r rounds, computed"
        " by pbdist."
    )
