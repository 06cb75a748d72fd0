"""The exceptions of pbdist, grouped by how a caller would react.

Each is also a builtin's subclass, so that code which does not know pbdist still catches it sensibly.
"""

import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from pbdist.rounding import short_exponent

#: At most so many problems of a file are listed in a traceback, beside the first.
_MAX_NOTES = 19
_short = reprlib.Repr()
_short.repr_float = lambda value, _: short_exponent(repr(value))  # type: ignore[attr-defined]
_short.maxstring, _short.maxlong, _short.maxother = 80, 60, 160


def shown(value: object) -> str:
    """Return a value as short text on one line, for an error message."""
    try:
        return " ".join(_short.repr(value).split())
    except ValueError:
        # A whole number of more digits than Python writes out, or what has one.
        return f"{type(value).__name__}(..)"


def printable(text: str) -> str:
    """Return a text with a space for each line break, control or formatting character.

    A path, a label or a cause that others wrote may hold any: those that colour, clear or rename a terminal, and those
    that turn the direction of reading.
    """
    return "".join(character if character.isprintable() else " " for character in text)


class PbdistError(Exception):
    """Base of every error that pbdist raises on purpose; its text is one line."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


class InvalidInputError(PbdistError, ValueError):
    """A parameter is wrong: correct the argument that the text names."""


class UnknownMechanismError(InvalidInputError):
    """No mechanism has this name: import the module of your own mechanism first."""


@dataclass(frozen=True)
class FileProblem:
    """One error in a file; its text is ``FILE:LINE: field.path: expected .., got ..``."""

    #: The file, as it was given.
    source: str
    #: The line, from 1; 0 for the file as a whole.
    line: int
    #: The keys that lead to the value, as ``mechanisms[0].scale``; or the kind of file.
    field: str
    #: The expected value and the given one.
    problem: str

    def __str__(self) -> str:
        """Return one line."""
        at = f":{self.line}" if self.line else ""
        return str(PbdistError(f"{self.source}{at}: {self.field}: {self.problem}"))


class StudyFileError(InvalidInputError):
    """A study file, or another one like it, is wrong: correct the lines that `problems` names.

    Attributes
    ----------
    problems : tuple of FileProblem
        All that is wrong, as far as one thing does not hide another, by their lines. The text of the error is the first
        of them, and how many more there are; a traceback ends with the others.
    """

    def __init__(self, text: str, problems: tuple[FileProblem, ...] = ()) -> None:
        super().__init__(text)
        self.problems = problems

    @classmethod
    def of(cls, problems: Iterable[FileProblem]) -> Self:
        """Return the error of some problems, at least one; of each field the first."""
        fields: dict[tuple[str, int, str], FileProblem] = {}
        for problem in problems:
            fields.setdefault((problem.source, problem.line, problem.field), problem)
        first, *others = found = sorted(fields.values(), key=lambda one: (one.source, one.line))
        more = "" if not others else f" (and {len(others)} more error{'s' if len(others) > 1 else ''})"
        error = cls(f"{first}{more}", tuple(found))
        for problem in others[:_MAX_NOTES]:
            error.add_note(str(problem))
        if len(others) > _MAX_NOTES:
            error.add_note(f"and {len(others) - _MAX_NOTES} more")
        return error


class MissingDependencyError(PbdistError, ImportError):
    """An optional package is not installed: install the extra that the text names."""


class PrecisionError(PbdistError, ArithmeticError):
    """The bounds do not meet within the tolerance: allow a larger one, or what the text names."""


class PrecisionWarning(UserWarning):
    """Bounds hold, but do not meet within the tolerance: the text names the worst point and how wide it is."""


class OffGridError(PbdistError, LookupError):
    """A query asks for a point that the store does not hold: choose a neighbour or extend the study."""


class NotAStoreError(PbdistError, FileNotFoundError):
    """A path is not a pbdist store: correct the path."""


class StoreFormatError(PbdistError, OSError):
    """A store has another format version: open it with the version of pbdist that wrote it."""


class StoreIncompleteError(PbdistError, LookupError):
    """Results are missing from a store: run the study again, or allow what the text names."""


class StoreMismatchError(PbdistError, ValueError):
    """A store belongs to another study: choose another store."""


class StoreDamagedError(PbdistError, OSError):
    """A store's content does not match its checksums: run the study again."""


class StoreRefusedError(PbdistError, PermissionError):
    """An object store answers, and refuses: correct the keys or the bucket, as the text says."""


class StoreUnreachableError(PbdistError, ConnectionError):
    """A store cannot be reached now: wait, or repair the connection; the same command goes on."""


class BatchError(PbdistError, RuntimeError):
    """Some batches of a study, or entries of a table, could not be computed: the text names them and the cause."""


class WorkersLostError(PbdistError, ConnectionError):
    """The workers of a run are gone: give the same command again, it goes on where this run stopped."""
