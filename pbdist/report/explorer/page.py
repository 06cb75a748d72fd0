"""The page and its scripts, as they are served and as they stand in an exported file."""

import base64
import hashlib
import html
from functools import cache
from importlib import resources

from bokeh.resources import Resources

from pbdist.report.pages.document import plain

#: The page's own scripts, in the order in which they are loaded.
_SCRIPTS = ("numbers.js", "sources.js", "link.js", "figures.js", "tables.js", "controls.js", "explorer.js")


@cache
def _asset(name: str) -> str:
    return resources.files("pbdist.report.explorer").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def bokeh_script() -> str:
    """Return BokehJS, as bokeh's wheel has it."""
    return "\n".join(Resources(mode="inline", components=["bokeh", "bokeh-api"], minified=True).js_raw)


@cache
def script() -> str:
    """Return the page's own script."""
    return "\n".join(_asset(name) for name in _SCRIPTS)


def static_files() -> dict[str, tuple[str, bytes]]:
    """Return the type and the content of every file that the served page loads, by their paths."""
    return {
        "/explorer.css": ("text/css", _asset("explorer.css").encode()),
        "/explorer.js": ("text/javascript", script().encode()),
        "/bokeh.js": ("text/javascript", bokeh_script().encode()),
    }


def page(title: str, nonce: str) -> str:
    """Return the served page; `nonce` is what its scripts and styles are allowed by."""
    head = '<link rel="stylesheet" href="explorer.css">'
    # The page's own script first: it allows the styles that BokehJS makes.
    scripts = f'<script src="explorer.js" nonce="{nonce}" defer></script>\n<script src="bokeh.js" defer></script>'
    return _filled(title, head, scripts)


def exported_page(title: str, data: str) -> str:
    """Return a page that needs no server: `data` is JSON that may stand in a script element."""
    scripts = [script(), bokeh_script()]
    for text in scripts:
        if "</script" in text.lower():
            raise ValueError("scripts: expected none that ends its own element, got one")
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    # BokehJS makes style elements; no text of the store becomes one.
    policy = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'"
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
        f"<style>\n{_asset('explorer.css')}</style>"
    )
    elements = [f'<script id="embedded" type="application/json">{data}</script>']
    elements += [f"<script>{text}</script>" for text in scripts]
    return _filled(title, head, "\n".join(elements))


def _filled(title: str, head: str, scripts: str) -> str:
    # In one pass over the template: what is filled in is not looked at again.
    before, between, between_too, after = _split(_asset("page.html"))
    return f"{before}{html.escape(plain(title))}{between}{head}{between_too}{scripts}{after}"


@cache
def _split(template: str) -> tuple[str, str, str, str]:
    before, rest = template.split("<!--title-->")
    between, rest = rest.split("<!--head-->")
    between_too, after = rest.split("<!--scripts-->")
    return before, between, between_too, after
