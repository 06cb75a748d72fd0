"""The store that a server shows: its latest state, and a refusal for pages that show an earlier one."""

import threading

from pbdist.errors import InvalidInputError, StoreMismatchError
from pbdist.report.explorer.answers import Answers
from pbdist.report.explorer.snapshot import MOST_CELLS, Snapshot, listing_of, take_snapshot


class Served:
    """A store by the name that its user gives it, opened when made.

    Raises
    ------
    NotAStoreError, StoreFormatError, StoreDamagedError
        As `pbdist.open_study`.
    InvalidInputError
        It has too many cells.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._listing = listing_of(name)
        self._answers = Answers(_checked(take_snapshot(name)))

    @property
    def title(self) -> str:
        """The name of the study."""
        return self._answers.snapshot.union.study.name

    def without_place(self, text: str) -> str:
        """Return a message without the path of the store, which is nobody else's business."""
        for place in (self._answers.snapshot.parts[0].stored.where, self._name):
            text = text.replace(place, "the store")
        return text

    def latest(self) -> Answers:
        """Return answers from the store as it is now: it is opened again if it has changed, or was damaged."""
        with self._lock:
            listing = listing_of(self._name)
            snapshot = self._answers.snapshot
            if listing != self._listing or snapshot.damaged or snapshot.problem is not None:
                found = Answers(_checked(take_snapshot(self._name)))
                self._answers.close()
                self._answers, self._listing = found, listing
            return self._answers

    def of(self, token: str) -> Answers:
        """Return answers from the state that a page shows; a `StoreMismatchError` if that is no longer the latest."""
        answers = self._answers
        if answers.snapshot.token != token:
            raise StoreMismatchError("the store has changed since this page was loaded: load it again")
        return answers

    def close(self) -> None:
        """End the background reading."""
        self._answers.close()


def _checked(snapshot: Snapshot) -> Snapshot:
    cells = len(snapshot.union.study.cells)
    if cells > MOST_CELLS:
        raise InvalidInputError(f"store: expected at most {MOST_CELLS:,} noise settings to explore, got {cells:,}")
    return snapshot
