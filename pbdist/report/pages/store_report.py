"""The report of a store: its condition first, then answers, bounds, assumptions and provenance."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from pbdist.errors import InvalidInputError, StoreDamagedError, StoreMismatchError
from pbdist.progress import reported
from pbdist.provenance import provenance
from pbdist.quantities import counted, size
from pbdist.query.noise_choice import NoiseChoice, noise_choices, target_sheet
from pbdist.query.settings import neighbours_by_label
from pbdist.query.status import StoreStatus, precision_line, store_status
from pbdist.query.study import Study, open_study
from pbdist.report.pages import pictures
from pbdist.report.pages.answers import answers, neighbours_sentence, order_sentence
from pbdist.report.pages.document import (
    ALARM,
    NOTE,
    SOUND,
    Block,
    Bullets,
    Command,
    Document,
    Heading,
    Notice,
    Paragraph,
    Table,
    command,
    text_table,
)
from pbdist.report.pages.words import assumed, explained, meaning, software, target_in_words
from pbdist.rounding import brief
from pbdist.store import STORE_FORMAT, check_skeleton, open_parts
from pbdist.study import StudySpec, Target
from pbdist.study.spec import missing_parts
from pbdist.verify.store import verify_store
from pbdist.verify.verification import Verdict, Verification

#: Items of a list that are shown.
_MAX_SHOWN = 8
_NO_TARGET = (
    "No target was given, so this page names no noise. With a target (--compositions, --epsilon or --exp-epsilon,"
    " --delta, or --study FILE) it says which noise meets it."
)


def store_report(
    where: str | Path,
    *,
    targets: Sequence[Target] = (),
    study_file: StudySpec | None = None,
    verify: int = 0,
    drawn: bool = True,
) -> Document:
    """Return the report of a store; nothing is written into it.

    `targets` are what the noise should meet, and `study_file` is where they are from, if any: the page has its
    description, and says if the store lacks some of it. `verify` points are recomputed in exact integers.
    """
    name = str(where)
    try:
        status = store_status(where, check=True)
        parts = open_parts(where)
        for stored in parts:
            check_skeleton(stored)
        study = open_study(where)
        study.spec.cells[0].describe()
        incomplete = study_file is not None and bool(missing_parts([stored.study for stored in parts], study_file))
    except StoreDamagedError as error:
        items = (str(error), "This page shows no number. Do not decide anything by it.")
        alarm = Notice(ALARM, "This store is damaged, and nothing in it can be read", items)
        return Document(f"Report on {name}", "A store of pbdist that cannot be read.", (alarm,), whole=False)
    except StoreMismatchError as error:
        raise InvalidInputError(f"study: expected the study of {name}: {error}") from error
    verification = verify_store(where, sample=verify) if verify else None
    notices = [*condition(status, study, incomplete=incomplete, verification=verification)]
    whole = status.passed and all(notice.kind != ALARM for notice in notices)
    choices = {target: noise_choices(study, **asdict(target)) for target in reported("target", targets)}
    first, *others = _pictures(study, choices) if drawn else [()]
    forms = [cell.pair.canonical() for cell in study.spec.cells]
    blocks: list[Block] = [*notices, *([] if choices else [Paragraph(_NO_TARGET)])]
    blocks += [block for target, found in choices.items() for block in answers(study, target, found)]
    blocks += first
    if choices:
        order = order_sentence(study, next(iter(choices.values())))
        blocks += [Heading("What it means"), Paragraph(f"{meaning([*choices])} {order}")]
    blocks += assumed(forms, neighbours_sentence(neighbours_by_label(study.spec)))
    blocks += [Heading("Integrity"), _integrity(status, verification, name, sound=whole)]
    blocks += [Heading("Provenance"), _provenance(status)]
    appendix = [
        *((f"Noise settings at {target_in_words(target)}", _settings(study, target, name)) for target in choices),
        ("More pictures", tuple(block for picture in others for block in picture)),
        ("What was studied", (*explained(forms), Table("What the store holds", study.contents().sheet))),
        ("All bounds", (Command(command("pbdist", "export", name, f"{Path(name).stem}.csv")),)),
    ]
    sections = tuple(section for section in appendix if section[1])
    described = (study_file.description or "").rstrip(". ") if study_file else ""
    about = "Certified lower and upper bounds on δ(ε) after r rounds, computed by pbdist."
    about = f"{described}. {about}" if described else about
    title = f"Report on the study {(study_file or study.spec).name}"
    return Document(title, about, tuple(blocks), sections, whole=whole)


def _settings(study: Study, target: Target, name: str) -> tuple[Block, ...]:
    """Return the boundary at a target for each group of settings, and the command that lists all groups."""
    point = asdict(target)
    sheet = target_sheet(study, **point)
    amounts = "; ".join(note for note in sheet.notes if note.startswith("noise: "))
    caption = f"The least noise that meets the target, and the most that is refuted. {amounts}".strip()
    words = [text for key, value in point.items() for text in (f"--{key}", str(value))]
    return Table(caption, sheet), Command(command("pbdist", "query", name, *words, "--format", "csv"))


def condition(
    status: StoreStatus, study: Study, *, incomplete: bool = False, verification: Verification | None = None
) -> Iterator[Notice]:
    """Yield what makes a page unfit to rely on, then what to know; `incomplete` if the study file asks for more."""
    wrong = [] if verification is None else verification.of(Verdict.CONTRADICTED)
    if wrong:
        title = "Stored bounds are proved wrong: rely on no number of this page"
        yield Notice(ALARM, title, _some(sample.describe() for sample in wrong))
    again = "Nothing on this page speaks of them. The same pbdist run computes them."
    cells, missing, failed = status.counts["cells"], [*status.missing()], [*status.failed()]
    if cells["missing"] == cells["all"]:
        text = "No noise setting is computed yet: this page says what is planned, and no bound."
        yield Notice(ALARM, "This store is empty", (text,))
    elif missing:
        title = f"This store is not complete: {cells['missing']:,} of {cells['all']:,} noise settings are missing"
        items = _some(f"missing: {' to '.join(dict.fromkeys(one.settings))}" for one in missing)
        yield Notice(ALARM, title, (again, *items))
    if failed:
        title = f"{len(failed):,} of {cells['all']:,} noise settings could not be computed"
        causes = _some(f"failed: {one.setting}: {one.cause}" for one in failed)
        yield Notice(ALARM, title, ("Nothing on this page speaks of them.", *causes))
    if not (missing or failed or study.complete):
        text = f"An extension of this store was interrupted: some points are in no part of it. {again}"
        yield Notice(ALARM, "This store is not complete", (text,))
    damaged = () if status.check is None else status.check.damaged
    if damaged:
        many = f"{counted(len(damaged), 'file')} of this store {'is' if len(damaged) == 1 else 'are'}"
        text = "No number on this page comes from them. The same pbdist run computes anew what they held."
        items = _some(f"damaged: {name}: {what}" for name, what in damaged)
        yield Notice(ALARM, f"{many} damaged: changed since it was written, or missing", (text, *items))
    if incomplete:
        text = "The study file asks for points that this store does not have: they are not computed."
        yield Notice(ALARM, "The store does not have all that the study file asks for", (text,))
    tolerance, precision = study.spec.required_tolerance, status.precision
    if tolerance is not None and precision is not None and precision.missed:
        text = "All bounds hold there too, but they leave more open. " + precision_line(tolerance, precision)
        title = f"At {precision.missed:,} of {precision.points:,} points the study has missed its tolerance"
        yield Notice(NOTE, title, (text,))
    if status.driver is not None:
        yield Notice(NOTE, "A run is writing to this store: this page shows what was there when it was made")


def _some(items: Iterable[str]) -> tuple[str, ...]:
    """Return texts of a store; of many the first ones."""
    found = [*items]
    more = [f"and {len(found) - _MAX_SHOWN:,} more: pbdist status --check --json lists all"]
    return (*found[:_MAX_SHOWN], *(more if len(found) > _MAX_SHOWN else []))


def _provenance(status: StoreStatus) -> Table:
    """Return what a store says of itself."""
    first = status.parts[0].stored
    study = first.study
    method = "tight" if study.buckets is None else f"tight, with {study.buckets:,} buckets"
    if study.method == "buckets":
        method = f"privacy buckets (Meiser & Mohammadi 2018), {study.buckets or 0:,} buckets"
    tolerance = "none"
    if study.required_tolerance is not None:
        judged = "the larger of the two directions" if study.direction == "both" else "each of the two directions"
        bound = f"upper / lower - 1 at most {brief(study.required_tolerance)}"
        tolerance = f"{bound} where δ > {brief(study.floor)}, for {judged}"
    added = f"{counted(status.refined_points, 'point')} in {counted(status.refinements, 'refinement')}"
    computed, made = software(first.attributes.get("provenance") or {}), software(provenance())
    rows = (
        ("study", f"{study.name}, SHA-256 {first.head.digest}"),
        *((f"part {part.stored.part}", f"SHA-256 {part.stored.head.digest}") for part in status.parts[1:]),
        ("store", f"format {STORE_FORMAT}, {counted(status.files, 'file')}, {size(status.size)}"),
        *([("added by queries", added)] if status.refinements else []),
        ("method", method),
        ("tolerance", tolerance),
        ("computed with", computed),
        *([] if made == computed else [("page made with", made)]),
    )
    return text_table("Where the numbers come from", ("what", "value"), rows)


def _integrity(status: StoreStatus, verification: Verification | None, name: str, *, sound: bool) -> Block:
    """Return what was checked, and what of the bounds was recomputed by other means; `sound` if nothing is wrong."""
    check = status.check
    cells = status.counts["cells"]
    done = cells["all"] - cells["missing"] - cells["failed"]
    left = f": {cells['missing']:,} are missing, {cells['failed']:,} have failed" if done < cells["all"] else ""
    items = [f"{done:,} of {cells['all']:,} noise settings are computed{left}."]
    if check is not None:
        damaged = f"{len(check.damaged):,} are missing or damaged" if check.damaged else "none is missing or damaged"
        items.append(
            f"All {status.files:,} files were read and compared with the checksums in the store: {damaged}. This does"
            " not show who wrote them."
        )
    if verification is None:
        verify = command("pbdist", "verify", name)
        items.append(f"No bound was recomputed for this page. This command does that, in exact integers: {verify}")
    else:
        counts = ", ".join(f"{len(verification.of(verdict)):,} {verdict.value}" for verdict in Verdict)
        items.append(
            f"{len(verification.samples):,} of {verification.points:,} stored points, chosen with seed"
            f" {verification.seed}, were recomputed in exact integers, by other code than the one that made the bounds:"
            f" {counts}. Confirmed: both bounds are proved once more. Consistent: nothing contradicts them. Unchecked:"
            " it would take more memory than was allowed. Contradicted: the stored bounds are wrong."
        )
    return Notice(SOUND, "The store is complete and undamaged", tuple(items)) if sound else Bullets(tuple(items))


def _pictures(study: Study, choices: Mapping[Target, tuple[NoiseChoice, ...]]) -> list[tuple[Block, ...]]:
    """Return the picture of the page, then those of the appendix: the (ε, δ) graph of each target comes first."""
    rounds, epsilon = study.spec.compositions, study.spec.epsilon
    graphs: list[tuple[Block, ...]] = []
    others: list[tuple[Block, ...]] = []
    judged: list[tuple[Target | None, Sequence[NoiseChoice]]] = [*choices.items()] or [(None, ())]
    for target, found in judged:
        bounds = pictures.bounds_of(study, found)
        near = rounds[-1] if target is None else min(rounds, key=lambda r: abs(r - target.compositions))
        # No target is marked among bounds at another number of rounds.
        marked = target if target is not None and near == target.compositions else None
        graphs.append((pictures.epsilon_delta(bounds, near, marked),))
        if target is not None:
            others.append(tuple(pictures.over_noise(study, found, target)))
        if len(rounds) > 1:
            middle = epsilon[len(epsilon) // 2] if target is None else target.epsilon
            others.append((pictures.over_rounds(bounds, middle),))
    return [*graphs, *others]
