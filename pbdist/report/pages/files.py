"""The files of a report, written whole or not at all."""

from pathlib import Path
from uuid import uuid4

from pbdist.errors import InvalidInputError
from pbdist.report.pages.document import Document

#: The formats, and the ends of the names of their files.
FORMATS = {"html": (".html", ".htm"), "md": (".md",), "pdf": (".pdf",)}


def format_of(path: Path) -> str:
    """Return the format that the name of the file says."""
    found = next((name for name, ends in FORMATS.items() if path.suffix.lower() in ends), None)
    if found is None:
        ends = ", ".join(ends[0] for ends in FORMATS.values())
        raise InvalidInputError(f"output: expected a file that ends in one of {ends}, got {path.name}")
    return found


def report_files(document: Document, path: Path, kind: str) -> list[tuple[Path, bytes]]:
    """Return the files of a report and their bytes, the page last."""
    from pbdist.report.pages.writers import written_html, written_markdown, written_pdf  # noqa: PLC0415 -- jinja2

    if kind == "html":
        return [(path, written_html(document).encode())]
    if kind == "pdf":
        return [(path, written_pdf(document))]
    places = [picture_path(path, number) for number in range(1, 1 + len(document.pictures))]
    page = written_markdown(document, [place.name for place in places])
    return [*zip(places, (one.data for one in document.pictures), strict=True), (path, page.encode())]


def picture_path(path: Path, number: int) -> Path:
    """Return the path of a picture beside a page; in its name only letters that Markdown takes as they are."""
    stem = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "-" for letter in path.stem)
    return path.with_name(f"{stem}-picture-{number}.svg")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all; an earlier one is replaced."""
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be written: {error.strerror or error}: choose another path") from error
    finally:
        unfinished.unlink(missing_ok=True)
