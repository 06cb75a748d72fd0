"""The report of a store: its condition first, then answers, bounds, assumptions and provenance."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from pbdist.errors import StoreDamagedError
from pbdist.provenance import provenance
from pbdist.query.judging import precision_line
from pbdist.query.noise_choice import NoiseChoice, noise_choices
from pbdist.query.settings import neighbours_by_label
from pbdist.query.status import StoreStatus, contents_sheet, store_status
from pbdist.query.study import Study, open_study
from pbdist.report.pages.answers import answers, bound_tables, judged_settings, neighbours_sentence, order_sentence
from pbdist.report.pages.document import (
    ALARM,
    NOTE,
    SOUND,
    Block,
    Bullets,
    Column,
    Document,
    Heading,
    Notice,
    Paragraph,
    Report,
    Section,
    Table,
    command,
    named,
    plain,
)
from pbdist.report.pages.pictures import Curves, curves_of, epsilon_delta, over_noise, over_rounds
from pbdist.report.pages.words import assumed, explained, meaning, target_in_words
from pbdist.store import STORE_FORMAT, check_skeleton, open_parts
from pbdist.study import StudySpec, Target
from pbdist.study.plan import size
from pbdist.study.spec import missing_parts
from pbdist.types import JsonValue
from pbdist.verify.store import verify_store
from pbdist.verify.verification import Verdict, Verification

#: So many entries of a list are told.
_MAX_TOLD = 8


def _condition(
    status: StoreStatus, study: Study, *, lacking: bool, verification: Verification | None
) -> Iterator[Notice]:
    """Yield what makes a page unfit to rely on, then what to know; `lacking` if the study file asks for more."""
    wrong = [] if verification is None else verification.of(Verdict.CONTRADICTED)
    if wrong:
        title = "Stored bounds are proved wrong: rely on no number of this page"
        yield Notice(ALARM, title, _some(sample.describe() for sample in wrong))
    again = "Nothing on this page speaks of them. The same pbdist run computes them."
    missing = [(part, batch) for part in status.parts for batch in part.missing]
    failed = [(part, cell) for part in status.parts for cell in part.failed]
    if status.cells_missing == status.cells:
        text = "No noise setting is computed yet: this page tells what is planned, and no bound."
        yield Notice(ALARM, "This store is empty", (text,))
    elif missing:
        title = f"This store is not complete: {status.cells_missing:,} of {status.cells:,} noise settings are missing"
        ends = ([part.setting(batch.first), part.setting(batch.stop - 1)] for part, batch in missing)
        told = _some(f"missing: {' to '.join(dict.fromkeys(both))}" for both in ends)
        yield Notice(ALARM, title, (again, *told))
    if failed:
        title = f"{len(failed):,} of {status.cells:,} noise settings could not be computed"
        causes = _some(f"failed: {part.setting(cell.cell)}: {cell.cause}" for part, cell in failed)
        yield Notice(ALARM, title, ("Nothing on this page speaks of them.", *causes))
    if not (missing or failed or study.complete):
        text = f"An extension of this store was interrupted: some points are in no part of it. {again}"
        yield Notice(ALARM, "This store is not complete", (text,))
    damaged = () if status.check is None else status.check.damaged
    if damaged:
        many = "1 file of this store is" if len(damaged) == 1 else f"{len(damaged):,} files of this store are"
        text = "No number on this page comes from them. The same pbdist run computes anew what they held."
        told = _some(f"damaged: {name}: {what}" for name, what in damaged)
        yield Notice(ALARM, f"{many} damaged: changed since it was written, or missing", (text, *told))
    if lacking:
        text = "The study file asks for points that this store does not have: they are not computed."
        yield Notice(ALARM, "The store does not have all that the study file asks for", (text,))
    sought, precision = status.parts[0].stored.study.required_tolerance, status.precision
    if sought is not None and precision is not None and precision.missed:
        text = "All bounds hold there too, but they leave more open. " + plain(precision_line(sought, precision))
        title = f"At {precision.missed:,} of {precision.points:,} points the study has missed its tolerance"
        yield Notice(NOTE, title, (text,))
    if status.driver is not None:
        yield Notice(NOTE, "A run is writing to this store: this page shows what was there when it was made")


def _some(told: Iterable[str]) -> tuple[str, ...]:
    """Return texts of a store; of many the first ones."""
    found = [*map(plain, told)]
    more = [f"and {len(found) - _MAX_TOLD:,} more: pbdist status --check --json lists all"]
    return (*found[:_MAX_TOLD], *(more if len(found) > _MAX_TOLD else []))


def provenance_of(status: StoreStatus) -> Iterator[Block]:
    """Yield what a store says of itself."""
    first = status.parts[0].stored
    study = first.study
    sought = (
        "none"
        if study.required_tolerance is None
        else f"upper / lower - 1 at most {study.required_tolerance:g} where δ > {study.floor:g}"
    )
    computed, made = software(first.attributes.get("provenance") or {}), software(provenance())
    judged = "the larger of the two directions" if study.direction == "both" else "each of the two directions"
    rows = [
        ("study", f"{plain(study.name)}, SHA-256 {first.head.digest}"),
        *((f"part {plain(part.stored.part)}", f"SHA-256 {part.stored.head.digest}") for part in status.parts[1:]),
        ("store", f"format {STORE_FORMAT}, {status.files:,} files, {size(status.size)}"),
        ("method", _method(study.method, study.buckets)),
        ("tolerance", sought if study.required_tolerance is None else f"{sought}, for {judged}"),
        ("computed with", computed),
        *([] if made == computed else [("page made with", made)]),
    ]
    if status.refinements:
        added = f"{status.refined_points:,} points in {status.refinements:,} refinements"
        rows.insert(3, ("added by queries", added))
    yield Table("Where the numbers come from", (Column("what"), Column("value")), tuple(rows))


def integrity(status: StoreStatus, verification: Verification | None, name: str, *, sound: bool) -> Iterator[Block]:
    """Yield what was checked, and what of the bounds was recomputed by other means; `sound` if nothing is wrong."""
    check = status.check
    done = status.cells - status.cells_missing - status.cells_failed
    left = (
        "" if done == status.cells else f": {status.cells_missing:,} are missing, {status.cells_failed:,} have failed"
    )
    items = [f"{done:,} of {status.cells:,} noise settings are computed{left}."]
    if check is not None:
        each = "each is what it was when it was written" if not check.damaged else f"{len(check.damaged):,} are damaged"
        items.append(f"All {status.files:,} files were read and compared with their checksums: {each}.")
    if verification is None:
        told = command("pbdist", "verify", name)
        items.append(f"No bound was recomputed for this page. This command does that, in exact integers: {told}")
    else:
        counts = ", ".join(f"{len(verification.of(verdict)):,} {verdict.value}" for verdict in Verdict)
        items.append(
            f"{len(verification.samples):,} of {verification.points:,} stored points, chosen with seed"
            f" {verification.seed}, were recomputed in exact integers, by other code than the one that made the bounds:"
            f" {counts}. Confirmed: both bounds are proved once more. Consistent: nothing contradicts them. Unchecked:"
            " it would take more memory than was allowed. Contradicted: the stored bounds are wrong."
        )
    if sound:
        yield Notice(SOUND, "The store is complete, and every file is what it was when it was written", tuple(items))
    else:
        yield Bullets(tuple(items))


def _method(method: str, buckets: int | None) -> str:
    if method == "buckets":
        return f"privacy buckets (Meiser & Mohammadi 2018), {buckets or 0:,} buckets"
    return "tight" if buckets is None else f"tight, with {buckets:,} buckets"


def software(found: Mapping[str, JsonValue]) -> str:
    """Return the software that `provenance` tells of, in a line."""
    names = ("pbdist", "python", "numpy", "scipy", "zarr")
    versions = [f"{name} {plain(str(found[name]))}" for name in names if found.get(name)]
    return ", ".join([*versions, f"git revision of pbdist {plain(str(found.get('git_revision') or 'not known'))}"])


def store_report(
    where: str | Path,
    *,
    targets: Sequence[Target] = (),
    study_file: StudySpec | None = None,
    verify: int = 0,
    drawn: bool = True,
    told: Callable[[str], None] = lambda _: None,
) -> Report:
    """Return the report of a store; nothing is written into it.

    Parameters
    ----------
    where
        The path or URL of the store.
    targets
        The targets that the noise should meet.
    study_file
        The study file from which the targets are, if any: its description is told, and whether the store has all of it.
    verify
        How many points to recompute in exact integers.
    drawn
        Whether there are pictures.
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
    except StoreDamagedError as error:
        told_first = (plain(str(error)), "This page shows no number. Do not decide anything by it.")
        alarm = Notice(ALARM, "This store is damaged, and nothing in it can be read", told_first)
        about = "A store of pbdist that cannot be read."
        return Report(Document(f"Report on {named(name)}", about, (alarm,)), whole=False)
    verification: Verification | None = None
    if verify:
        told(f"recomputing {verify:,} points in exact integers")
        verification = verify_store(where, sample=verify)
    lacking = study_file is not None and bool(missing_parts([stored.study for stored in parts], study_file))
    top = [*_condition(status, study, lacking=lacking, verification=verification)]
    whole = status.passed and all(notice.kind != ALARM for notice in top)
    choices = {}
    for target in targets:
        told(f"judging the noise settings: {target_in_words(target)}")
        choices[target] = noise_choices(study, **asdict(target))
    forms = [cell.pair.canonical() for cell in study.spec.cells]
    told("drawing")
    first, *others = _pictures(study, choices) if drawn else [()]
    judged = [one for found in choices.values() for one in found]
    blocks: list[Block] = [*top, *_answers(study, choices), *first, *_meaning(study, choices)]
    blocks += assumed(forms, neighbours_sentence(neighbours_by_label(study.spec)))
    blocks += [
        Heading("Integrity"),
        *integrity(status, verification, name, sound=whole),
    ]
    blocks += [Heading("Provenance"), *provenance_of(status)]
    appendix = [
        Section(f"Noise settings at {target_in_words(target)}", tuple(judged_settings(study, target, found)))
        for target, found in choices.items()
    ]
    if others:
        appendix.append(Section("More pictures", tuple(block for picture in others for block in picture)))
    appendix.append(Section("What was studied", (*explained(forms), _contents(study))))
    appendix.append(Section("Bounds", tuple(bound_tables(study, targets, judged, name=name))))
    title = f"Report on the study {named(study.spec.name if study_file is None else study_file.name)}"
    return Report(Document(title, _about(study_file), tuple(blocks), tuple(appendix)), whole=whole)


def _answers(study: Study, choices: Mapping[Target, tuple[NoiseChoice, ...]]) -> Iterator[Block]:
    if not choices:
        yield Paragraph(
            "No target was given, so this page names no noise: its appendix has the bounds on δ. With a target"
            " (--compositions, --epsilon or --exp-epsilon, --delta, or --study FILE) it says which noise meets it."
        )
    for target, found in choices.items():
        yield from answers(study, target, found)


def _meaning(study: Study, choices: Mapping[Target, tuple[NoiseChoice, ...]]) -> Iterator[Block]:
    if choices:
        yield Heading("What it means")
        yield Paragraph(f"{meaning([*choices])} {order_sentence(study, next(iter(choices.values())))}")


def _pictures(study: Study, choices: Mapping[Target, tuple[NoiseChoice, ...]]) -> list[tuple[Block, ...]]:
    """Return the picture of the page, then those of the appendix: the (ε, δ) graph of each target comes first."""
    r, epsilon = study.spec.compositions, study.spec.epsilon
    graphs: list[tuple[Block, ...]] = []
    others: list[tuple[Block, ...]] = []
    asked: list[tuple[Target | None, Sequence[NoiseChoice]]] = [*choices.items()] or [(None, ())]
    for target, found in asked:
        curves: Curves = curves_of(study, found)
        near = r[-1] if target is None else min(r, key=lambda value: abs(value - target.compositions))
        # No target is marked among bounds at another number of rounds.
        marked = target if target is not None and near == target.compositions else None
        graphs.append(tuple(epsilon_delta(curves, near, marked)))
        if target is not None:
            others.append(tuple(over_noise(study, found, target)))
        if len(r) > 1:
            others.append(tuple(over_rounds(curves, epsilon[len(epsilon) // 2] if target is None else target.epsilon)))
    return [*graphs, *filter(None, others)]


def _contents(study: Study) -> Table:
    """Return what the store holds: its grids, and the values of the parameters of each mechanism."""
    sheet = contents_sheet(study.contents())
    columns = tuple(Column(column.head, column.number) for column in sheet.printed_columns)
    rows = tuple(tuple(named(cell) if cell else "" for cell in row) for row in sheet.printed_rows)
    return Table("What the store holds", columns, rows)


def _about(study_file: StudySpec | None) -> str:
    told = "" if study_file is None else plain(study_file.description or "").rstrip(". ")
    what = f"{told}. " if told else ""
    return f"{what}Certified lower and upper bounds on δ(ε) after r rounds, computed by pbdist."
