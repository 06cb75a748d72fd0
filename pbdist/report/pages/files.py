"""Write the files of a report: each as a whole or not at all, and never over somebody else's."""

from pathlib import Path
from uuid import uuid4

from pbdist.errors import InvalidInputError
from pbdist.input_files import check_outside
from pbdist.report.pages.document import Document
from pbdist.report.pages.writers import MARKS, written_html, written_markdown, written_pdf

#: The formats, and the ends of the names of their files.
FORMATS = {"html": (".html", ".htm"), "md": (".md",), "pdf": (".pdf",)}
#: Bytes of a file in which the mark of a report is looked for.
_HEAD = 1 << 16


def format_of(path: Path, given: str | None) -> str:
    """Return the format that is asked for, or that the name of the file says.

    Raises
    ------
    InvalidInputError
        Neither says one.
    """
    found = given or next((name for name, ends in FORMATS.items() if path.suffix.lower() in ends), None)
    if found is None:
        ends = ", ".join(ends[0] for ends in FORMATS.values())
        raise InvalidInputError(
            f"--format: expected one of {', '.join(FORMATS)}, or a file that ends in {ends}, got {path.name}"
        )
    return found


def check_place(path: Path, kind: str, store: str | None) -> None:
    """Refuse, before any work, a file inside the store, one in no folder, and one over a file of somebody else.

    Raises
    ------
    InvalidInputError
        The text names what is in the way.
    """
    if store is not None:
        check_outside(path, store, "--output")
    if not path.parent.is_dir():
        raise InvalidInputError(f"--output: expected a file in a folder that exists, got {path}")
    for one in [path, *(picture_path(path, number) for number in range(1, 20) if kind == "md")]:
        check_ours(one)


def report_files(document: Document, path: Path, kind: str) -> list[tuple[Path, bytes]]:
    """Return the files of a report and their bytes, the page last."""
    if kind == "html":
        return [(path, written_html(document).encode())]
    if kind == "pdf":
        return [(path, written_pdf(document))]
    places = [picture_path(path, number) for number in range(1, 1 + len(document.pictures))]
    # A comment after the drawing tells that it is ours.
    drawings = [one.data.rstrip() + b"\n" + MARKS[1] + b"\n" for one in document.pictures]
    page = written_markdown(document, [place.name for place in places])
    return [*zip(places, drawings, strict=True), (path, page.encode())]


def write_report(document: Document, path: Path, kind: str) -> list[Path]:
    """Write the files of a report; return their paths, the page first.

    Raises
    ------
    InvalidInputError
        A file is in the way.
    OSError
        A file cannot be written.
    """
    files = report_files(document, path, kind)
    for place, _ in files:
        check_ours(place)
    for place, content in files:
        write_whole(place, content)
    return [place for place, _ in reversed(files)]


def picture_path(path: Path, number: int) -> Path:
    """Return the path of a picture beside a page; in its name only letters that Markdown takes as they are."""
    stem = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "-" for letter in path.stem)
    return path.with_name(f"{stem}-picture-{number}.svg")


def check_ours(
    path: Path, marks: tuple[bytes, ...] = MARKS, field: str = "--output", writer: str = "pbdist report"
) -> None:
    """Refuse to replace a file without one of the marks of its writer, or a link."""
    if path.is_symlink() or (path.exists() and not (path.is_file() and _is_marked(path, marks))):
        expected = f"expected a new file, or one that {writer} has written"
        raise InvalidInputError(f"{field}: {expected}, got {path}: remove it, or choose another")


def _is_marked(path: Path, marks: tuple[bytes, ...]) -> bool:
    """Whether the first or the last bytes of a file, of any size, have a mark; the third one is of PDF alone."""
    with path.open("rb") as file:
        first = file.read(_HEAD)
        file.seek(max(0, path.stat().st_size - _HEAD))
        last = file.read(_HEAD)
    among = marks if first.startswith(b"%PDF") else marks[:2]
    return any(mark in part for mark in among for part in (first, last))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all; an earlier one is replaced."""
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
