"""The explorer as one static file: the same page, with the table of the chosen noise settings in it."""

import base64
import hashlib
import html
import json
import re
from collections import Counter
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
def _scripts() -> tuple[str, str]:
    """Return the page's own script, and BokehJS as bokeh's wheel has it, which the own one allows to make styles."""
    bokeh = Resources(mode="inline", components=["bokeh", "bokeh-api"], minified=True).js_raw
    found = "\n".join(_asset(name) for name in _SCRIPTS), "\n".join(bokeh)
    if any("</script" in text.lower() for text in found):
        raise ValueError("scripts: expected none that ends its own element, got one")
    return found


def page(title: str, *, nonce: str) -> str:
    """Return the page as a server answers it; `nonce` is what the policy of the answer allows scripts and styles by."""
    return _filled(title, f' nonce="{nonce}"')


def exported_page(title: str, data: JsonValue) -> str:
    """Return the page as one file that needs no server: `data` is what a server would answer."""
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in _scripts()]
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    # BokehJS makes style elements; no text of the store becomes one.
    policy = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'"
    meta = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
    embedded = f'<script id="embedded" type="application/json">{embedded_json(data)}</script>\n'
    return _filled(title, "", meta, embedded)


def _filled(title: str, allowed: str, before: str = "", embedded: str = "") -> str:
    # In one pass over the template: what is filled in is not looked at again.
    content = {
        "title": html.escape(plain(title)),
        "head": f"{before}<style{allowed}>\n{_asset('explorer.css')}</style>",
        "scripts": embedded + "\n".join(f"<script{allowed}>{text}</script>" for text in _scripts()),
    }
    return re.sub("<!--(title|head|scripts)-->", lambda found: content[found[1]], _asset("page.html"))


#: The most bytes of the tables in an exported file.
MAX_BYTES = 32 << 20
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
    return exported_page(snapshot.study.spec.name, data)


#: What could end a script element or a line of a script, as JSON may write it too.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def embedded_json(value: JsonValue) -> str:
    """Return JSON for a script element of a page: no text in it can end the element or a line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def _check_size(snapshot: Snapshot, groups: Sequence[NoiseGroup]) -> None:
    study = snapshot.study.spec
    of_cell = len(study.compositions) * len(study.epsilon) * _BYTES_OF_POINT
    sizes: Counter[str] = Counter()
    for group in groups:
        sizes[group.label] += of_cell * len(group.cells)
    size = sizes.total()
    if size <= MAX_BYTES:
        return
    small = [(label, bytes_) for label, bytes_ in reversed(sizes.most_common()) if bytes_ <= MAX_BYTES]
    fitting = ", ".join(f"{label} ({bytes_ / 2**20:.1f} MiB)" for label, bytes_ in small[:8])
    advice = f"choose with --mechanism LABEL: {fitting}" if fitting else "no mechanism of it alone is small enough"
    raise InvalidInputError(
        f"--export: expected at most {MAX_BYTES >> 20} MiB of bounds, got {size / 2**20:.0f} MiB: {advice}"
    )
