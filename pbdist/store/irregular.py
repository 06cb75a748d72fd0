"""What does not belong below the top of a store: links, named pipes, sockets, devices, and files beyond all measure."""

import stat

from pbdist.errors import InvalidInputError, StoreDamagedError

__all__ = ["MOST_DOCUMENT", "IrregularError", "OversizeError", "check_document", "kind_of", "refusal"]

#: The most bytes of a document. Where the root lists two million noise settings, the most of a study, it has some 300
#: million.
MOST_DOCUMENT = 512 << 20

_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
}


class IrregularError(StoreDamagedError):
    """A link, a named pipe, a socket or a device where a store has a file or a folder."""


class OversizeError(StoreDamagedError):
    """A file is larger than what belongs there can be.

    Attributes
    ----------
    size
        Its bytes.
    """

    def __init__(self, path: str, size: int, most: int) -> None:
        super().__init__(f"{path}: expected a file of at most {most:,} bytes, got {size:,} bytes: run the study again")
        self.size = size


def kind_of(mode: int) -> str:
    """Return what something is, by the mode that `os.lstat` gives: ``file``, ``folder``, ``link``, .."""
    return _KINDS.get(stat.S_IFMT(mode), "device")


def refusal(path: str, expected: str, kind: str, target: str | None = None) -> IrregularError:
    """Return the error that says what is at a path, a link to `target` for one, and what to do about it."""
    if kind == "link":
        kind = "link" if target is None else f"link to {target!r}"
        advice = "put what it leads to in its place, or remove it"
    else:
        advice = "remove it"
    return IrregularError(f"{path}: expected a {expected} or nothing, got a {kind}: {advice}")


def check_document(name: str, data: bytes) -> None:
    """Refuse to write a document that would not be read again.

    Raises
    ------
    InvalidInputError
        It is too large.
    """
    if name.endswith("zarr.json") and len(data) > MOST_DOCUMENT:
        raise InvalidInputError(f"{name}: expected a document of at most {MOST_DOCUMENT:,} bytes, got {len(data):,}")
