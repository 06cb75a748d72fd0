"""Reads reports as a browser does, for tests."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

__all__ = ["Page", "read_page"]

#: All elements that a report may have: none that runs, fetches or asks.
OWN = frozenset(
    (
        *("html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2", "h3", "p", "nav", "ul", "li"),
        *("a", "section", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "pre", "code", "wbr"),
        *("figure", "figcaption", "img", "details", "summary"),
    )
)
_VOID = ("meta", "wbr", "img")


@dataclass
class Page(HTMLParser):
    """What a page holds: elements, attributes, tables by caption, notices by kind, and all of its visible text."""

    elements: set[str] = field(default_factory=set)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    notices: list[tuple[str, str]] = field(default_factory=list)
    text: str = ""
    _open: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    _caption: str = ""

    def __post_init__(self):
        super().__init__(convert_charrefs=True)

    def __hash__(self):
        return id(self)

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag in _VOID:
            return
        self._open.append((tag, dict(attrs)))
        if tag == "caption":
            self._caption = ""
        elif tag == "tr":
            self.tables.setdefault(self._caption, []).append([])
        elif tag in ("th", "td"):
            self.tables[self._caption][-1].append("")
        elif tag == "section":
            self.notices.append((dict(attrs)["class"].split()[1], ""))

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag

    def handle_data(self, data):
        names = [name for name, _ in self._open]
        if "style" in names:
            return
        self.text += data
        if "caption" in names:
            self._caption += data
        elif names and ("th" in names or "td" in names):
            self.tables[self._caption][-1][-1] += data
        elif "section" in names:
            kind, told = self.notices[-1]
            self.notices[-1] = kind, told + data

    @property
    def alarms(self):
        return [text for kind, text in self.notices if kind == "alarm"]


def read_page(text):
    page = Page()
    page.feed(text)
    page.close()
    assert page._open == []
    return page
