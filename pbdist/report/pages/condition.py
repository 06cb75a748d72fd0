"""The condition of a store in plain words, for the top of a report: nothing that is missing is passed over."""

from collections.abc import Iterator, Sequence

from pbdist.query.printing import precision_line
from pbdist.query.status import StoreStatus
from pbdist.report.pages.document import ALARM, NOTE, SOUND, Notice, plain
from pbdist.verify.verification import Verdict, Verification

#: So many entries of a list are told.
_MOST_TOLD = 8


def unreadable(problem: str) -> tuple[Notice, ...]:
    """Return what to say of a store that cannot be read at all."""
    items = (plain(problem), "This page shows no number. Do not decide anything by it.")
    return (Notice(ALARM, "This store is damaged, and nothing in it can be read", items),)


def is_whole(status: StoreStatus, *, complete: bool) -> bool:
    """Whether everything was computed, and every file is what it was when it was written."""
    return status.passed and complete


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
    found = [*_contradicted(verification), *_computed(status, complete=complete), *_damaged(status)]
    if lacking:
        text = "The study file asks for points that this store does not have: they are not computed."
        found.append(Notice(ALARM, "The store does not have all that the study file asks for", (text,)))
    if not found:
        found.append(Notice(SOUND, "The store is complete, and every file is what it was when it was written"))
    return (*found, *_wide(status), *_at_work(status))


def _contradicted(verification: Verification | None) -> Iterator[Notice]:
    wrong = [] if verification is None else list(verification.of(Verdict.CONTRADICTED))
    if wrong:
        told = [*(plain(sample.describe()) for sample in wrong[:_MOST_TOLD]), *_more(wrong)]
        yield Notice(ALARM, "Stored bounds are proved wrong: rely on no number of this page", tuple(told))


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


def _at_work(status: StoreStatus) -> Iterator[Notice]:
    if status.driver is not None:
        yield Notice(NOTE, "A run is writing to this store: this page shows what was there when it was made")


def _more(found: Sequence[object]) -> list[str]:
    more = len(found) - _MOST_TOLD
    return [f"and {more:,} more: pbdist status --check --json lists all"] if more > 0 else []
