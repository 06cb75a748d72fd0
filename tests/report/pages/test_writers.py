"""The writers: text of a store is text in every format, whatever it looks like."""

import re
import subprocess
import sys
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise

import pytest
from markdown_it import MarkdownIt

from pbdist.errors import printable
from pbdist.report.pages.document import (
    ALARM,
    NOTE,
    SOUND,
    Bullets,
    Command,
    Document,
    Heading,
    Notice,
    Paragraph,
    Picture,
    Table,
)
from pbdist.report.pages.writers import written_html, written_markdown, written_pdf, written_typst
from pbdist.tables import Column, Sheet
from tests.report.explorer.browser import a_page, chromium
from tests.report.pages.reading import OWN, read_page

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style><svg/onload=alert(1)>",
    "javascript:alert(1)//[x](http://evil.example)",
    "![x](http://evil.example/x.png) <http://evil.example> www.evil.example",
    "| a | b |\n|---|---|\n# head\n- item\n```\nrm -rf\n```",
    "\\input{/etc/passwd} \\write18{id} $x_1$ & % # ~ ^ { } \\\\",
    ']); #read("/etc/passwd") #panic() *bold* _it_ `raw` $x$ @ref <label> // comment /* c */',
    '\\") + read("/etc/passwd") + ("',
    "\\u{22}) #panic(",
    "nul \x00 bell \x07 escape \x1b[31m tab \t newline \n return \r",
    "turned \u202e txet \u2066 x \u2069 \u200b \u2028 \ufeff",
    "lone \ud800 surrogate",
    "1. one 2) two - three + four = five > six ~~seven~~ ^^8 &amp; &#60; :smile: <!-- -->",
    "ä ß ø ł δ ε ∞ 漢字 العربية 🙂 ﷺ",
    "---- ,, '' `` \"quotes\"",
    "x" * 10_000,
    "word " * 2_000,
)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9pt" height="9pt"><script>alert(1)</script></svg>'


def document_of(one):
    columns = Column(one, one, number=False), Column(one, one, number=False), Column(one, one)
    table = Table(one, Sheet(columns, ((one, one, one), (one, one, "1"))))
    blocks = (
        Notice(ALARM, one, (one, one)),
        Notice(NOTE, one),
        Notice(SOUND, one, (one,)),
        Heading(one),
        Heading(one, 3),
        Paragraph(one),
        Paragraph(one, lead=True),
        Bullets((one, one)),
        Command(one),
        table,
        Picture(one, one, SVG, one),
    )
    return Document(one, one, blocks, ((one, (Paragraph(one), replace(table, caption=f"{one} again"))),))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_html_has_the_text_and_no_other_element(text):
    told = printable(text)
    page = read_page(written_html(document_of(text)))
    assert page.elements <= OWN
    assert not any(name.startswith("on") for _, name, _ in page.attributes)
    images = [value for _, name, value in page.attributes if name in ("href", "src")]
    # A browser runs nothing that is in the image of a data address, and fetches nothing for it.
    assert images == [f"data:image/svg+xml;base64,{b64encode(SVG).decode()}"]
    assert ("img", "alt", f"{told} {told}") in page.attributes
    assert page.tables[told] == [[told] * 3, [told] * 3, [told, told, "1"]]
    kind, notice = page.notices[0]
    assert (kind, notice.split("\n")) == ("alarm", ["", *f"{told}\n\n{told}\n{told}".split("\n"), "", ""])


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_markdown_has_the_text_and_no_other_markup(text):
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    told = " ".join(printable(text).split())
    tokens = parser.parse(written_markdown(document_of(text), ["picture.svg"]))
    inner = [one for token in tokens for one in token.children or ()]
    assert not [token for token in tokens if token.type == "html_block"]
    allowed = {"text", "softbreak", "strong_open", "strong_close", "em_open", "em_close", "image", "text_special"}
    assert {token.type for token in inner} <= allowed
    assert [token.attrs["src"] for token in inner if token.type == "image"] == ["picture.svg"]
    shape = [token.type for token in tokens]
    assert shape == [token.type for token in parser.parse(written_markdown(document_of("plain"), ["picture.svg"]))]
    cells = [after.children for token, after in pairwise(tokens) if token.type == "td_open"]
    assert ["".join(one.content for one in cell) for cell in cells] == [told, told, told, told, told, "1"] * 2


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_typst_has_the_text_in_string_literals_alone(text):
    written = written_typst(document_of(text))
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', written)
    ours = re.sub(r'"(?:[^"\\]|\\.)*"', '""', written_typst(document_of("plain")))
    assert bare == ours
    assert all(letter.isprintable() or letter in "\n\u200b" for letter in written)


def test_no_page_break_splits_a_box():
    written = written_typst(document_of("plain"))
    assert re.findall(r'#notice\(rgb\("#\w+"\), (\w+)', written) == ["false", "false", "true"], "problems may be long"
    assert "breakable: not whole" in written
    (avoided,) = re.findall(r"^ *([^\n]*) \{ break-inside: avoid; \}", written_html(document_of("plain")), re.MULTILINE)
    assert {"figure", ".notice", ".lead", "li"} <= set(avoided.split(", "))


@pytest.mark.slow
def test_typst_compiles_all_of_it_at_once_and_again_to_the_same_bytes():
    blocks = [block for text in HOSTILE for block in document_of(text).everything]
    document = Document(HOSTILE[0], HOSTILE[8], tuple(blocks))
    made = written_pdf(document)
    assert made.startswith(b"%PDF")
    assert b"pbdist report" in made
    assert written_pdf(document) == made


@pytest.mark.slow
def test_the_same_bytes_in_another_process():
    code = (
        "import hashlib; from tests.report.pages.test_writers import *;"
        "d = document_of('a <b>'); print(hashlib.sha256(written_pdf(d) + written_html(d).encode()).hexdigest())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    written = document_of("a <b>")
    assert found.strip() == sha256(written_pdf(written) + written_html(written).encode()).hexdigest()


@pytest.mark.browser
def test_the_appendix_is_printed_although_it_is_closed():
    document = Document("t", "a", (), (("closed", (Paragraph("in the appendix"),)),))
    with chromium() as browser, a_page(browser) as page:
        page.set_content(written_html(document))
        hidden = page.get_by_text("in the appendix")
        assert not hidden.is_visible()
        page.emulate_media(media="print")
        assert hidden.is_visible()
