"""The explorer as one static file: the same page, with the table of the chosen noise settings in it."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources

from bokeh.resources import Resources

from pbdist.errors import InvalidInputError, shown
from pbdist.query.noise_choice import NoiseGroup
from pbdist.report.explorer.snapshot import Snapshot, tables_as_json
from pbdist.report.pages.document import plain
from pbdist.store.layout import BOUNDS
from pbdist.types import JsonValue

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
    content = {"title": html.escape(plain(title)), "head": head, "scripts": scripts}
    return re.sub("<!--(title|head|scripts)-->", lambda found: content[found[1]], _asset("page.html"))


#: The most bytes of the tables in an exported file.
MOST_BYTES = 32 << 20
#: Of one point in base64: four bounds, and whether the tolerance is met.
_BYTES_OF_POINT = (len(BOUNDS) * 8 + 1) * 4 // 3 + 1


def exported(snapshot: Snapshot, mechanisms: Sequence[str] | None = None) -> str:
    """Return the page as one file, the same for the same store.

    Parameters
    ----------
    snapshot
        The store.
    mechanisms
        The labels of the mechanisms to take; by default all.

    Raises
    ------
    InvalidInputError
        The store has no such mechanism, or the file would be too large.
    """
    labels = list(dict.fromkeys(group.label for group in snapshot.groups))
    for label in mechanisms or ():
        if label not in labels:
            raise InvalidInputError(f"--mechanism: expected one of {', '.join(labels)}, got {shown(label)}")
    chosen = [group for group in snapshot.groups if mechanisms is None or group.label in mechanisms]
    _check_size(snapshot, chosen)
    cells = [cell for group in chosen for cell in group.cells]
    found = snapshot.table(cells)
    others = [label for label in labels if mechanisms is not None and label not in mechanisms]
    left_out = f"This file leaves out the mechanisms {', '.join(others)} of its store." if others else ""
    index = snapshot.index(chosen, left_out)
    index["notices"] = [*index["notices"], *snapshot.damage_notices()]
    data = {"contents": index, "tables": tables_as_json(found), "settings": snapshot.settings(cells, found)}
    return exported_page(snapshot.study.spec.name, embedded_json(data))


#: What could end a script element or a line of a script, as JSON may write it too.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def embedded_json(value: JsonValue) -> str:
    """Return JSON for a script element of a page: no text in it can end the element or a line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def _check_size(snapshot: Snapshot, groups: Sequence[NoiseGroup]) -> None:
    study = snapshot.study.spec
    of_cell = len(study.compositions) * len(study.epsilon) * _BYTES_OF_POINT
    size = of_cell * sum(len(group.cells) for group in groups)
    if size <= MOST_BYTES:
        return
    of_label: dict[str, int] = {}
    for group in groups:
        of_label[group.label] = of_label.get(group.label, 0) + of_cell * len(group.cells)
    small = sorted((bytes_, label) for label, bytes_ in of_label.items() if bytes_ <= MOST_BYTES)
    fitting = ", ".join(f"{label} ({bytes_ / 2**20:.1f} MiB)" for bytes_, label in small[:8])
    advice = f"choose with --mechanism LABEL: {fitting}" if fitting else "no mechanism of it alone is small enough"
    raise InvalidInputError(
        f"--export: expected at most {MOST_BYTES >> 20} MiB of bounds, got {size / 2**20:.0f} MiB: {advice}"
    )
