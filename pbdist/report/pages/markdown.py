"""Write a report as GitHub-flavoured Markdown; pictures are files beside it."""

import re
from collections.abc import Iterator, Sequence

from pbdist.report.pages.document import (
    ALARM,
    NOTE,
    Block,
    Bullets,
    Command,
    Document,
    Heading,
    Notice,
    Paragraph,
    Picture,
    Table,
)

#: The files of this writer begin with it.
MARK = "<!-- pbdist report -->"
#: All that Markdown or HTML may read as more than a letter; ``_`` between letters is none.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$&@:])")
#: What GitHub makes a link of without any sign.
_LINK = re.compile(r"\b(www)\.", re.IGNORECASE)
#: What begins a list, a heading or a quotation at the start of a line.
_START = re.compile(r"^(\d+)([.)])|^([-=])")
_ALERTS = {ALARM: "CAUTION", NOTE: "NOTE"}


def written_markdown(document: Document, pictures: Sequence[str]) -> str:
    """Return the page; `pictures` are the names of the files of its pictures, in order."""
    names = iter(pictures)
    blocks = [f"# {_text(document.title)}\n", f"{_text(document.about)}\n"]
    blocks += ["".join(f"{line}\n" for line in _block(block, names)) for block in document.blocks]
    return f"{MARK}\n\n" + "\n".join(blocks)


def _text(text: str) -> str:
    """Return text of which nothing is read as markup."""
    escaped = _LINK.sub(r"\1\\.", _SPECIAL.sub(r"\\\1", " ".join(text.split())))
    return _START.sub(_escaped_start, escaped)


def _escaped_start(found: re.Match[str]) -> str:
    return f"{found[1]}\\{found[2]}" if found[1] else f"\\{found[3]}"


def _block(block: Block, pictures: Iterator[str]) -> Iterator[str]:
    match block:
        case Heading(text, level):
            yield f"{'#' * level} {_text(text)}"
        case Paragraph(text):
            yield _text(text)
        case Bullets(items):
            yield from (f"- {_text(item)}" for item in items)
        case Command(text):
            # A fence that is longer than any run of backticks in it.
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            yield from (f"{fence}sh", text, fence)
        case Notice(kind, title, items):
            yield from ([f"> [!{_ALERTS[kind]}]"] if kind in _ALERTS else [])
            yield f"> **{_text(title)}**"
            if items:
                yield ">"
            yield from (f"> - {_text(item)}" for item in items)
        case Table(caption, columns, rows):
            yield f"*{_text(caption)}*"
            yield ""
            yield _row([column.name for column in columns])
            yield "|" + "".join("---:|" if column.number else "---|" for column in columns)
            yield from map(_row, rows)
        case Picture(title, description):
            yield f"![{_text(title)}]({next(pictures)})"
            yield ""
            yield _text(f"{title}. {description}")


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_text, cells)) + " |"
