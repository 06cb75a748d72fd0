"""Write a report as one HTML file: it needs no other file, no network and no script."""

import re
from collections.abc import Iterator
from html import escape
from html import escape as escaped
from xml.etree import ElementTree

from pbdist.report.pages.document import (
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

_NAMESPACE = re.compile(r"\{[^}]*\}")
_USED = re.compile(r"url\(#([^)]*)\)")
#: What a drawing needs nothing of, or what could fetch something from elsewhere.
_LEFT_OUT = frozenset({"metadata", "script", "foreignObject", "style", "title", "desc", "a", "animate", "set"})


def inline_svg(data: bytes, title: str, description: str, prefix: str) -> str:
    """Return a drawing as an ``svg`` element; all its ids begin with `prefix`.

    Styles of the file become those of the element, as they would be those of the whole page. Metadata, scripts and
    references to other files are left out.
    """
    root = ElementTree.fromstring(data)  # noqa: S314 -- pbdist has drawn it
    box = root.get("viewBox") or f"0 0 {_number(root.get('width'))} {_number(root.get('height'))}"
    names = f'aria-labelledby="{prefix}title {prefix}desc"'
    style = "stroke-linejoin:round;stroke-linecap:butt"
    inner = "".join(part for child in root for part in _written(child, prefix))
    return (
        f'<svg viewBox="{escape(box)}" role="img" {names} style="{style}">'
        f'<title id="{prefix}title">{escape(title)}</title><desc id="{prefix}desc">{escape(description)}</desc>'
        f"{inner}</svg>"
    )


def _number(length: str | None) -> str:
    return re.sub(r"[^0-9.]", "", length or "") or "0"


def _local(name: str) -> str:
    return _NAMESPACE.sub("", name)


def _written(element: ElementTree.Element, prefix: str) -> Iterator[str]:
    """Yield an element and what it holds as text."""
    name = _local(element.tag)
    if name in _LEFT_OUT:
        return
    attributes = "".join(_attributes(element, prefix))
    yield f"<{name}{attributes}>"
    yield escape((element.text or "").strip("\n"), quote=False)
    for child in element:
        yield from _written(child, prefix)
        yield escape((child.tail or "").strip(), quote=False)
    yield f"</{name}>"


def _attributes(element: ElementTree.Element, prefix: str) -> Iterator[str]:
    for key, given in element.items():
        name, value = _local(key), given
        if name.startswith("on"):
            continue
        if name == "id":
            value = prefix + value
        elif name == "href":
            if not value.startswith("#"):
                continue
            value = f"#{prefix}{value[1:]}"
        else:
            value = _USED.sub(lambda found: f"url(#{prefix}{found[1]})", value)
        yield f' {name}="{escape(" ".join(value.split()))}"'


#: The files of this writer have it among their first lines.
MARK = '<meta name="generator" content="pbdist report">'
_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --faint: #57606a; --line: #c9d1d9; --shade: #f3f5f7;
  --link: #0550ae; --alarm: #a40e26; --alarm-shade: #fff0f0; --note: #7a4b00; --note-shade: #fff8e6;
  --sound: #11632a; --sound-shade: #effaf1; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14181d; --ink: #e6edf3; --faint: #9aa5b1; --line: #3b434d; --shade: #1d232a; --link: #79b8ff;
    --alarm: #ff9a94; --alarm-shade: #361518; --note: #f0c36a; --note-shade: #2e2410; --sound: #7ee09a;
    --sound-shade: #12291a; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 60rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif;
  overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.3rem; margin: 2.4rem 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.08rem; margin: 1.6rem 0 .4rem; }
p, ul { margin: .5rem 0; }
ul { padding-left: 1.3rem; }
a { color: var(--link); }
.about { color: var(--faint); margin-bottom: 1rem; }
nav ul { columns: 16rem; list-style: none; padding: 0; }
.notice { border: 1px solid; border-left-width: .4rem; border-radius: .3rem; padding: .6rem .9rem; margin: 1rem 0; }
.notice p, .notice ul { margin: .25rem 0; }
.notice .title { font-weight: 700; }
.alarm { border-color: var(--alarm); background: var(--alarm-shade); } .alarm .title { color: var(--alarm); }
.note { border-color: var(--note); background: var(--note-shade); } .note .title { color: var(--note); }
.sound { border-color: var(--sound); background: var(--sound-shade); } .sound .title { color: var(--sound); }
.scroll { overflow-x: auto; margin: .8rem 0 1.2rem; }
.scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--faint); padding-bottom: .35rem; }
th, td { padding: .3rem .55rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line);
  min-width: 4.5rem; }
thead th { border-bottom: 2px solid var(--line); background: var(--shade); overflow-wrap: normal; }
tbody th { font-weight: 500; min-width: 7rem; }
.number { text-align: right; white-space: nowrap; overflow-wrap: normal; min-width: 0; }
pre { background: var(--shade); border: 1px solid var(--line); border-radius: .3rem; padding: .5rem .7rem;
  white-space: pre-wrap; overflow-wrap: anywhere; font-size: .86rem; line-height: 1.45; margin: .5rem 0; }
figure { margin: 1rem 0 1.4rem; }
figure svg { display: block; width: 100%; max-width: 46rem; height: auto; background: #fff; border-radius: .3rem;
  padding: .4rem; }
figcaption { color: var(--faint); font-size: .9rem; margin-top: .4rem; }
@media screen and (max-width: 40rem) {
  .cards thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .cards, .cards tbody, .cards tr, .cards th, .cards td, .cards caption { display: block; }
  .cards tr { border: 1px solid var(--line); border-radius: .3rem; margin: 0 0 .6rem; }
  .cards tbody th { background: var(--shade); font-weight: 600; }
  .cards td { border: 0; text-align: left; white-space: normal; }
  .cards td:empty { display: none; }
  .cards td::before { content: attr(data-name) ": "; color: var(--faint); }
}
@media (max-width: 30rem) { body { padding: 1rem .7rem 3rem; } h1 { font-size: 1.4rem; } table { font-size: .84rem; }
  th, td { padding: .28rem .4rem; } }
@media print {
  :root { color-scheme: light; --paper: #fff; --ink: #000; --faint: #333; --line: #999; --shade: #f3f3f3;
    --link: #000; --alarm: #a40e26; --alarm-shade: #fff; --note: #7a4b00; --note-shade: #fff; --sound: #11632a;
    --sound-shade: #fff; }
  @page { margin: 16mm 14mm; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  .scroll { overflow: visible; }
  table { font-size: 8.5pt; }
  thead { display: table-header-group; }
  tr, figure, .notice, pre { break-inside: avoid; }
  h2, h3, caption { break-after: avoid; }
}
"""


def written_html(document: Document) -> str:
    """Return the page; the same document gives the same text."""
    return "".join(_page(document))


def _page(document: Document) -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'{MARK}\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    # Nothing may be fetched or run, whatever a store's text would do in a browser.
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    yield f"<title>{escaped(document.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<header>\n"
    yield f'<h1>{_text(document.title)}</h1>\n<p class="about">{_text(document.about)}</p>\n</header>\n'
    # What makes the page unfit to rely on stands before everything else.
    blocks = list(document.blocks)
    first = next((index for index, block in enumerate(blocks) if not isinstance(block, Notice)), len(blocks))
    for block in blocks[:first]:
        yield from _block(block, "")
    yield from _contents(document)
    pictures = sections = 0
    for block in blocks[first:]:
        pictures += isinstance(block, Picture)
        sections += isinstance(block, Heading) and block.level == 2
        yield from _block(block, f"picture-{pictures}-" if isinstance(block, Picture) else f"section-{sections}")
    yield "</main>\n</body>\n</html>\n"


def _text(text: str) -> str:
    """Return visible text; a long word may break."""
    return "<wbr>".join(map(escaped, broken(text)))


def _contents(document: Document) -> Iterator[str]:
    heads = [block for block in document.blocks if isinstance(block, Heading) and block.level == 2]
    if len(heads) < 3:
        return
    yield '<nav aria-label="Contents">\n<ul>\n'
    for number, head in enumerate(heads, 1):
        yield f'<li><a href="#section-{number}">{_text(head.text)}</a></li>\n'
    yield "</ul>\n</nav>\n"


def _block(block: Block, name: str) -> Iterator[str]:
    """Yield a block; `name` is the id of a section, or begins the ids of a picture."""
    match block:
        case Heading(text, level):
            place = f' id="{name}"' if level == 2 else ""
            yield f"<h{level}{place}>{_text(text)}</h{level}>\n"
        case Paragraph(text):
            yield f"<p>{_text(text)}</p>\n"
        case Bullets(items):
            yield _bullets(items)
        case Command(text):
            yield f"<pre><code>{escaped(text)}</code></pre>\n"
        case Notice(kind, title, items):
            yield f'<section class="notice {escaped(kind)}" aria-label="{escaped(title)}">\n'
            yield f'<p class="title">{_text(title)}</p>\n{_bullets(items)}</section>\n'
        case Table():
            yield from _table(block)
        case Picture(title, description, data):
            yield f"<figure>\n{inline_svg(data, title, description, name)}\n"
            yield f"<figcaption>{_text(title)}. {_text(description)}</figcaption>\n</figure>\n"


def _bullets(items: tuple[str, ...]) -> str:
    if not items:
        return ""
    return "<ul>\n" + "".join(f"<li>{_text(item)}</li>\n" for item in items) + "</ul>\n"


def _table(table: Table) -> Iterator[str]:
    """Yield a table; on a narrow screen the rows of one with text are cards, each entry after its column's name."""
    cards = len(table.columns) > 2 and not all(column.number for column in table.columns)
    told = ' class="cards" role="table"' if cards else ""
    roles = [f' role="{role}"' if cards else "" for role in ("row", "rowheader", "cell", "columnheader", "rowgroup")]
    line, row_head, cell, head, group = roles
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(table.caption)}">\n<table{told}>\n'
    yield f"<caption>{_text(table.caption)}</caption>\n<thead{group}>\n<tr{line}>"
    kinds = [' class="number"' if column.number else "" for column in table.columns]
    names = [f' data-name="{escaped(column.name)}"' if cards else "" for column in table.columns]
    for column, kind in zip(table.columns, kinds, strict=True):
        yield f'<th scope="col"{head}{kind}>{_text(column.name)}</th>'
    yield f"</tr>\n</thead>\n<tbody{group}>\n"
    for first, *rest in table.rows:
        yield f'<tr{line}><th scope="row"{row_head}{kinds[0]}>{_text(first)}</th>'
        for text, kind, name in zip(rest, kinds[1:], names[1:], strict=True):
            yield f"<td{cell}{kind}{name}>{_text(text)}</td>"
        yield "</tr>\n"
    yield "</tbody>\n</table>\n</div>\n"
