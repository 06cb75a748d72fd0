"""Write a report by the templates of HTML, Markdown and Typst: nothing in a text of a store is read as markup.

Each environment writes every text that a template puts out by the rules of its format, unless it is marked as safe.
"""

import base64
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from pbdist.errors import MissingDependencyError, printable
from pbdist.report.pages.document import Document, Picture

#: All that Markdown or HTML may read as more than a letter; ``_`` between letters is none.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$&@:])")
#: What GitHub makes a link of without any sign, and what begins a list, a heading or a quotation.
_LINK, _START = re.compile(r"\b(www)\.", re.IGNORECASE), re.compile(r"^(\d+(?=[.)](?:\s|$))|(?=[-=]))(.)")

#: A zero-width space: a line of a PDF may break there, as it may after every 14 letters of a long word.
_BREAK = "\u200b"
_LONG, _PIECE = re.compile(r"\S{25,}"), re.compile(r".{1,14}")


def written_html(document: Document) -> str:
    """Return the page, which needs no other file, no network and no script; the same document gives the same text."""
    return _rendered("page.html", escape, document=document, source=_source)


def written_markdown(document: Document, pictures: Sequence[str]) -> str:
    """Return the page as GitHub-flavoured Markdown; `pictures` are the names of the files of its pictures, in order."""
    names = dict(zip(document.pictures, pictures, strict=True))
    return _rendered("page.md", _markdown, document=document, names=names, fence=_fence)


def written_pdf(document: Document) -> bytes:
    """Return the report as PDF; the same document gives the same bytes with the same version of typst."""
    try:
        import typst  # noqa: PLC0415 -- an optional package
    except ImportError as error:
        raise MissingDependencyError("a report as PDF needs typst: pip install 'pbdist[pdf]'") from error
    # Without the fonts of this machine and without the time, the bytes are the same everywhere.
    made: bytes = typst.compile(written_typst(document).encode(), format="pdf", ignore_system_fonts=True, timestamp=0)
    return made


def written_typst(document: Document) -> str:
    """Return the markup; every text in it is a string literal, so that nothing in it is read as markup."""
    return _rendered(
        "page.typ", _typst, document=document, line=_line, drawing=lambda one: _literal(printable(one.data.decode()))
    )


def _rendered(template: str, written: Callable[[str], Markup], **names: Any) -> str:
    """Return a filled template, in which `written` has written every text that is not marked as safe, as it is seen."""

    def finalize(value: object) -> object:
        return written(printable(value)) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=PackageLoader("pbdist.report.pages"),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**names)


def _source(picture: Picture) -> str:
    """Return a drawing as an address of an image: within one, a drawing neither runs nor fetches anything."""
    return f"data:image/svg+xml;base64,{base64.b64encode(picture.data).decode()}"


def _markdown(text: str) -> Markup:
    """Return text of which nothing is read as markup."""
    escaped = _LINK.sub(r"\1\\.", _SPECIAL.sub(r"\\\1", " ".join(text.split())))
    return Markup(_START.sub(r"\1\\\2", escaped))  # noqa: S704 -- escaped here, by the rules of Markdown


def _fence(text: str) -> Markup:
    """Return a fence that is longer than any run of backticks in a text."""
    return Markup("`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0)))  # noqa: S704 -- backticks alone


def _typst(text: str) -> Markup:
    """Return text as a string literal, in which long words may break."""
    return _literal(_LONG.sub(lambda word: _BREAK.join(_PIECE.findall(word[0])), text))


def _literal(text: str) -> Markup:
    """Return a string literal; JSON escapes quotes and backslashes as Typst does, and no other character is special."""
    return Markup(json.dumps(text, ensure_ascii=False))  # noqa: S704 -- a literal


def _line(text: str) -> Markup:
    """Return a command line, which may break anywhere."""
    return _literal(_BREAK.join(printable(text)))
