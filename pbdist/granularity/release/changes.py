"""Changes of a database, as what they do to each analysis: declared data, never an enumeration of databases."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pbdist.errors import InvalidInputError, shown


@dataclass(frozen=True, order=True)
class Touch:
    """What a change does to the input of one analysis.

    Parameters
    ----------
    analysis : str
        Its name.
    removed, added : int
        How many records, or edges, are less and more; at a declared granularity of another kind one step counts as one
        removal, or as one addition the other way. Their sum is the distance, and which of them is not 0 the direction.

    Raises
    ------
    InvalidInputError
        If they are no whole numbers of at least 0, or both are 0.
    """

    analysis: str
    removed: int = 0
    added: int = 0

    def __post_init__(self) -> None:
        given: Any = self.analysis
        if not isinstance(given, str) or not given:
            raise InvalidInputError(f"Touch.analysis: expected a name, got {shown(given)}")
        for field in ("removed", "added"):
            value: Any = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InvalidInputError(f"Touch.{field}: expected a whole number of at least 0, got {shown(value)}")
        if not self.removed and not self.added:
            raise InvalidInputError(f"Touch: expected a record removed or added at {given}, got none")


@dataclass(frozen=True)
class Profile:
    """One way in which neighbouring databases may differ: the analyses that it touches, and how.

    Parameters
    ----------
    touches : sequence of Touch
        Each analysis once; all others have the same input.
    attained : bool, optional
        Of a declared profile, whether some databases follow the pairs of all touched analyses jointly. By default not.

    Raises
    ------
    InvalidInputError
        If something else is given, or an analysis twice.
    """

    touches: tuple[Touch, ...]
    attained: bool = False

    def __post_init__(self) -> None:
        given: Any = self.touches
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise InvalidInputError(f"Profile.touches: expected a sequence of Touch, got {shown(given)}")
        listed = tuple(given)
        for position, one in enumerate(listed):
            if not isinstance(one, Touch):
                raise InvalidInputError(f"Profile.touches[{position}]: expected a Touch, got {shown(one)}")
        names = [one.analysis for one in listed]
        if len(set(names)) < len(names):
            raise InvalidInputError(f"Profile.touches: expected each analysis once, got {shown(sorted(names))}")
        if not isinstance(self.attained, bool):
            raise InvalidInputError(f"Profile.attained: expected true or false, got {shown(self.attained)}")
        object.__setattr__(self, "touches", tuple(sorted(listed)))
