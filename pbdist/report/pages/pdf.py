"""Write a report as PDF: as Typst markup, in which all text stands in string literals, compiled by the typst wheel."""

import json
from collections.abc import Iterator

from pbdist.errors import MissingDependencyError
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
    broken,
)

#: The files of this writer have it among their properties.
MARK = "pbdist report"
_HEAD = """
#set page(paper: "a4", margin: (x: 18mm, y: 20mm), numbering: "1 / 1")
#set text(size: 10pt, lang: "en", hyphenate: false)
#set par(justify: false, leading: 0.62em)
#set table(stroke: (_, y) => if y > 0 { (top: 0.3pt + luma(80%)) }, inset: (x: 4pt, y: 3pt))
#set table.cell(breakable: false)
#show heading.where(level: 2): it => block(above: 1.8em, below: 0.8em, sticky: true, it)
#show heading.where(level: 3): it => block(above: 1.4em, below: 0.7em, sticky: true, it)
#show table: set text(size: 9pt)
#show table: set block(above: 1.2em, below: 1.4em)
#show figure.caption: it => align(left, text(size: 9pt, fill: luma(35%), it.body))
#let notice(colour, title, ..items) = block(width: 100%, inset: 8pt, radius: 3pt, breakable: true,
  stroke: (left: 3pt + colour, rest: 0.6pt + colour), fill: colour.lighten(93%), {
    strong(text(fill: colour, title))
    if items.pos().len() > 0 { list(..items.pos()) }
  })
#let line-of-code(body) = block(width: 100%, inset: 6pt, fill: luma(95%), radius: 2pt, text(font: "DejaVu Sans Mono",
  size: 8pt, body))
"""
_COLOURS = {ALARM: 'rgb("#a40e26")', NOTE: 'rgb("#7a4b00")'}
#: A zero-width space: a line may break there.
_BREAK = "\u200b"
#: Letters from which on a column of text grows no wider.
_LONGEST = 30


def written_pdf(document: Document) -> bytes:
    """Return the report as PDF; the same document gives the same bytes with the same version of typst.

    Raises
    ------
    MissingDependencyError
        typst is not installed.
    """
    return _compiled(written_typst(document))


def _compiled(markup: str) -> bytes:
    try:
        import typst  # noqa: PLC0415 -- an optional package
    except ImportError as error:
        raise MissingDependencyError("a report as PDF needs typst: pip install 'pbdist[pdf]'") from error
    # Without the fonts of this machine and without the time, the bytes are the same everywhere.
    made: bytes = typst.compile(markup.encode(), format="pdf", ignore_system_fonts=True, timestamp=0)
    return made


def written_typst(document: Document) -> str:
    """Return the markup; every text in it is a string literal, so that nothing in it is read as markup."""
    properties = f"#set document(title: {_string(document.title)}, author: {_string(MARK)}, date: none)"
    blocks = "\n".join("\n".join(_block(block)) for block in document.blocks)
    title = (
        f"#text(size: 17pt, weight: 700, {_text(document.title)})\n\n#text(fill: luma(35%), {_text(document.about)})\n"
    )
    return f"{properties}\n{_HEAD}\n{title}\n{blocks}\n"


def _string(text: str) -> str:
    """Return a string literal; JSON escapes quotes and backslashes as Typst does, and no other character is special."""
    whole = "".join(letter if letter.isprintable() or letter == _BREAK else " " for letter in text)
    return json.dumps(whole, ensure_ascii=False)


def _text(text: str) -> str:
    return _string(_BREAK.join(broken(text)))


def _data(svg: bytes) -> str:
    text = svg.decode()
    return (
        "bytes("
        + json.dumps("".join(letter for letter in text if letter.isprintable() or letter == "\n"), ensure_ascii=False)
        + ")"
    )


def _block(block: Block) -> Iterator[str]:
    match block:
        case Heading(text, level):
            yield f"#heading(level: {level}, {_text(text)})\n"
        case Paragraph(text):
            yield f"#par({_text(text)})\n"
        case Bullets(items):
            yield f"#list({', '.join(map(_text, items))})\n" if items else ""
        case Command(text):
            yield f"#line-of-code({_string(_BREAK.join(text))})\n"
        case Notice(kind, title, items):
            colour = _COLOURS.get(kind, 'rgb("#11632a")')
            yield f"#notice({', '.join([colour, _text(title), *map(_text, items)])})\n"
        case Table():
            yield from _table(block)
        case Picture(title, description, data):
            told = _text(f"{title}. {description}")
            image = f'image({_data(data)}, format: "svg", width: 100%, alt: {_string(description)})'
            yield f"#figure({image}, kind: image, supplement: none, numbering: none, caption: {told})\n"


def _table(table: Table) -> Iterator[str]:
    """Yield a table whose head, with the caption, stands again on each page."""
    align = ", ".join("right" if column.number else "left" for column in table.columns)
    names = ", ".join(f"strong({_text(column.name)})" for column in table.columns)
    caption = f"table.cell(colspan: {len(table.columns)}, align: left, text(fill: luma(35%), {_text(table.caption)}))"
    yield f"#table(columns: ({_widths(table)},), align: ({align},),"
    yield f"table.header({caption}, table.hline(stroke: 0.8pt), {names}, table.hline(stroke: 0.5pt)),"
    yield from (", ".join(map(_text, row)) + "," for row in table.rows)
    yield "table.hline(stroke: 0.8pt))\n"


def _widths(table: Table) -> str:
    """Return the widths of the columns: numbers as they need, texts in proportion, and no word cut."""
    told = []
    for index, column in enumerate(table.columns):
        texts = [column.name, *(row[index] for row in table.rows)]
        longest = max(map(len, texts))
        word = max(len(piece) for text in texts for part in broken(text) for piece in [*part.split(), ""])
        wide = max(min(_LONGEST, longest), round(1.5 * word))
        told.append("auto" if column.number or longest < 12 else f"{wide}fr")
    return ", ".join(told)
