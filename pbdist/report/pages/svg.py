"""Put an SVG file into an HTML page: named for those who do not see it, and without names that another one has too."""

import re
from collections.abc import Iterator
from html import escape
from xml.etree import ElementTree

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
