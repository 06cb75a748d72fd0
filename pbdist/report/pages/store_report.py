"""The report of a store: its condition first, then answers, bounds, assumptions and provenance."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pbdist.errors import StoreDamagedError
from pbdist.query.noise_choice import NoiseChoice, noise_choices
from pbdist.query.status import store_status
from pbdist.query.study import Study, open_study
from pbdist.report.pages.bound_tables import bound_tables
from pbdist.report.pages.condition import condition, is_whole, unreadable
from pbdist.report.pages.document import Block, Document, Heading, Paragraph, named, plain
from pbdist.report.pages.goal_words import goal_in_words, meaning
from pbdist.report.pages.noise_blocks import answers, judged_settings
from pbdist.report.pages.pictures import pictures
from pbdist.report.pages.provenance import provenance_of, verification_of
from pbdist.report.pages.studied import assumed, studied
from pbdist.sizing.goal import Goal
from pbdist.store import check_skeleton, open_parts
from pbdist.store.cell_columns import cell_columns
from pbdist.study import StudySpec
from pbdist.study.extension import missing_parts
from pbdist.verify.store import verify_store
from pbdist.verify.verification import Verdict, Verification


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
    verification = _verified(where, verify, told)
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
    blocks += [*bound_tables(study, parts, goals, judged, columns=columns, name=name)]
    blocks += [*assumed(forms)]
    blocks += [Heading("How it was checked"), *verification_of(status, verification, name)]
    blocks += [Heading("Provenance"), *provenance_of(status)]
    contradicted = verification is not None and bool(verification.of(Verdict.CONTRADICTED))
    whole = is_whole(status, complete=complete) and not lacking and not contradicted
    return Report(Document(_title(study, study_file), _about(study_file), tuple(blocks)), whole=whole)


def _verified(where: str | Path, sample: int, told: Callable[[str], None]) -> Verification | None:
    if not sample:
        return None
    told(f"recomputing {sample:,} points in exact integers")
    return verify_store(where, sample=sample)


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


def _title(study: Study, study_file: StudySpec | None) -> str:
    return f"Report on the study {named(study.spec.name if study_file is None else study_file.name)}"


def _about(study_file: StudySpec | None) -> str:
    what = "" if study_file is None or not study_file.description else f"{plain(study_file.description)} "
    return (
        f"{what}Certified lower and upper bounds on δ(ε) of approximate differential privacy after r rounds, computed"
        " by pbdist."
    )
