"""Pages that lie elsewhere in the repository, and links between them and those of docs/.

A page of the site that includes a file from outside docs/ stands for that file: links to the file lead to the page, and
links in the file count from where the file lies.
"""

import os
import re
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
#: The pages of the site that stand for files outside docs/.
PAGES = {
    path.resolve(): page
    for page, path in (
        (stub, stub.parent / re.findall(r"^```{include} (\S+)$", stub.read_text(encoding="utf-8"), re.MULTILINE)[0])
        for folder in ("repository", "clusters")
        for stub in sorted((DOCS / folder).glob("*.md"))
    )
}
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)((?:#[^)\s]*)?)(?=\))")


def _moved(text: str, source: Path, page: Path) -> str:
    """Return text of a file with its links as they must be on a page of the site."""

    def moved(link: re.Match[str]) -> str:
        target, anchor = link.groups()
        if re.match(r"[a-z]+:", target):
            return link[0]
        path = (source.parent / target).resolve()
        there = PAGES.get(path, path)
        return Path(os.path.relpath(there, page.parent)).as_posix() + anchor

    blocks = re.split(r"(^```.*?^```)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(block if block.startswith("```") else _LINK.sub(moved, block) for block in blocks)


def _page_read(app: Sphinx, docname: str, content: list[str]) -> None:
    page = Path(app.env.doc2path(docname))
    if page not in PAGES.values():
        content[0] = _moved(content[0], page, page)


def _file_included(_: Sphinx, relative: Path, __: str, content: list[str]) -> None:
    source = (DOCS / relative).resolve()
    content[0] = _moved(content[0], source, PAGES[source])


def setup(app: Sphinx) -> dict[str, bool]:
    """Change links as pages are read."""
    app.connect("source-read", _page_read)
    app.connect("include-read", _file_included)
    # Pages show lines of CSV files, which Pygments has no lexer for.
    app.add_lexer("csv", TextLexer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
