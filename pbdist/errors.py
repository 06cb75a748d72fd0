"""The exceptions of pbdist, grouped by what a caller would do about them.

Each is also a builtin's subclass, so that code which does not know pbdist still catches it sensibly.
"""

import reprlib

__all__ = [
    "BatchError",
    "InvalidInputError",
    "MissingDependencyError",
    "NotAStoreError",
    "OffGridError",
    "PbdistError",
    "PrecisionError",
    "PrecisionWarning",
    "StoreDamagedError",
    "StoreFormatError",
    "StoreMismatchError",
    "StoreRefusedError",
    "StoreUnreachableError",
    "StudyFileError",
    "WorkersLostError",
    "shown",
]

#: Whole numbers of more bits are not written out: Python refuses to.
_MOST_BITS = 4096


class _Short(reprlib.Repr):
    """Short texts, of whole numbers of any size."""

    def repr_int(self, x: int, level: int) -> str:
        """Return a whole number, or about how large it is."""
        if x.bit_length() <= _MOST_BITS:
            return super().repr_int(x, level)
        return f"{'-' if x < 0 else ''}10^{int(x.bit_length() * 0.30103)} or so"

    def repr_instance(self, x: object, level: int) -> str:
        """Return anything else, by the name of its class where it cannot be written out."""
        try:
            return super().repr_instance(x, level)
        except ValueError:
            return f"{type(x).__name__}(..)"


_short = _Short()
_short.maxstring, _short.maxlong, _short.maxother = 80, 60, 160


def shown(value: object) -> str:
    """Return a value as short text on one line, for an error message."""
    return " ".join(_short.repr(value).split())


class PbdistError(Exception):
    """Base of every error that pbdist raises on purpose; its text is one line."""

    def __init__(self, text: str) -> None:
        # A path, a label or a key that is quoted may hold line breaks and a terminal's control characters.
        super().__init__("".join(character if character.isprintable() else " " for character in text))


class InvalidInputError(PbdistError, ValueError):
    """A parameter is wrong: mend the argument that the text names."""


class StudyFileError(InvalidInputError):
    """A study file is wrong: mend the line that the text names."""


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


class StoreMismatchError(PbdistError, ValueError):
    """A store belongs to another study: choose another store."""


class StoreDamagedError(PbdistError, OSError):
    """A store's content does not match its commit records: run the study again."""


class StoreRefusedError(PbdistError, PermissionError):
    """An object store answers, and refuses: mend what the text names, the keys or the bucket."""


class StoreUnreachableError(PbdistError, ConnectionError):
    """A store cannot be reached now: wait, or mend the connection; the same command goes on."""


class BatchError(PbdistError, RuntimeError):
    """Some batches of a study, or entries of a table, could not be computed: the text names them and the cause."""


class WorkersLostError(PbdistError, ConnectionError):
    """The workers of a run are gone: give the same command again, it goes on where this run stopped."""
