"""Write files whole or not at all, and reports never over files that pbdist has not written."""

from pathlib import Path
from uuid import uuid4

from pbdist.errors import InvalidInputError
from pbdist.input_files import check_outside
from pbdist.report.pages.document import Document

#: The formats, and the ends of the names of their files.
FORMATS = {"html": (".html", ".htm"), "md": (".md",), "pdf": (".pdf",)}
#: Bytes at both ends of a file in which the mark of pbdist is looked for.
_ENDS = 1 << 16


def format_of(path: Path, given: str | None) -> str:
    """Return the given format, or the one that the name of the file says."""
    found = given or next((name for name, ends in FORMATS.items() if path.suffix.lower() in ends), None)
    if found is None:
        ends = ", ".join(ends[0] for ends in FORMATS.values())
        raise InvalidInputError(
            f"--format: expected one of {', '.join(FORMATS)}, or a file that ends in {ends}, got {path.name}"
        )
    return found


def check_place(path: Path, kind: str, store: str | None) -> None:
    """Refuse, before any work, a file inside the store, one in no folder, and one over a file of somebody else."""
    if store is not None:
        check_outside(path, store, "--output")
    if not path.parent.is_dir():
        raise InvalidInputError(f"--output: expected a file in a folder that exists, got {path}")
    for one in [path, *(picture_path(path, number) for number in range(1, 20) if kind == "md")]:
        check_ours(one, "--output", "report")


def check_ours(path: Path, field: str, command: str) -> None:
    """Refuse to replace a file that ``pbdist COMMAND`` has not written; its own have a mark near one of their ends."""
    ours = not path.exists()
    if path.is_file():
        with path.open("rb") as file:
            ends = [file.read(_ENDS)]
            file.seek(max(0, path.stat().st_size - _ENDS))
            ends.append(file.read(_ENDS))
        by = f"pbdist {command}"
        marks = [f'<meta name="generator" content="{by}">', f"<!-- {by} -->"]
        # Among the properties of a PDF file.
        marks += [by] if ends[0].startswith(b"%PDF") else []
        ours = any(mark.encode() in end for mark in marks for end in ends)
    if path.is_symlink() or not ours:
        expected = f"expected a new file, or one that pbdist {command} has written"
        raise InvalidInputError(f"{field}: {expected}, got {path}: remove it, or choose another")


def report_files(document: Document, path: Path, kind: str) -> list[tuple[Path, bytes]]:
    """Return the files of a report and their bytes, the page last."""
    from pbdist.report.pages.writers import written_html, written_markdown, written_pdf  # noqa: PLC0415 -- jinja2

    if kind == "html":
        return [(path, written_html(document).encode())]
    if kind == "pdf":
        return [(path, written_pdf(document))]
    places = [picture_path(path, number) for number in range(1, 1 + len(document.pictures))]
    drawings = [one.data.rstrip() + b"\n<!-- pbdist report -->\n" for one in document.pictures]
    page = written_markdown(document, [place.name for place in places])
    return [*zip(places, drawings, strict=True), (path, page.encode())]


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
    finally:
        unfinished.unlink(missing_ok=True)
