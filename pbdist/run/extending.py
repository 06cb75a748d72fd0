"""What is to be computed into a store: all of a study, or what a file adds to the store."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pbdist.errors import InvalidInputError
from pbdist.store import Place, is_there, open_parts, place_at
from pbdist.study.addition import Addition
from pbdist.study.extension import missing_parts, missing_points
from pbdist.study.spec import StudySpec


@dataclass(frozen=True)
class Asked:
    """A study whose points a store is to have.

    Attributes
    ----------
    study
        The study. With `adds` it is what a file adds to the store.
    adds
        Whether the store may have other points too.
    """

    study: StudySpec
    adds: bool = False

    def missing(self, stored: Sequence[StudySpec]) -> tuple[StudySpec, ...]:
        """Return what the stored studies lack, as `missing_parts`, or as `missing_points` of what a file adds."""
        return missing_points(stored, self.study) if self.adds else missing_parts(stored, self.study)


def asked_of(asked: StudySpec | Addition, store: str | Path | Place) -> Asked:
    """Return what is asked of a store: of an addition, with all that it takes from the store.

    Raises
    ------
    InvalidInputError, NotAStoreError, StoreFormatError, StoreDamagedError
        There is nothing that an addition extends, or no store that can be opened.
    StoreMismatchError
        The store has other settings than the addition.
    """
    if isinstance(asked, StudySpec):
        return Asked(asked)
    place = place_at(store)
    if not is_there(place):
        raise InvalidInputError(f"store: expected one that the file extends (extend: true), got nothing at {place.url}")
    return Asked(asked.onto([part.study for part in open_parts(place)]), adds=True)
