"""The page of the explorer, for a server and as one static file with the bounds of chosen noise settings in it."""

import json
from collections.abc import Sequence
from functools import cache
from importlib import resources

from bokeh.resources import Resources
from jinja2 import Environment, PackageLoader, StrictUndefined

from pbdist.errors import InvalidInputError, printable, shown
from pbdist.query.noise_choice import NoiseGroup
from pbdist.report.explorer.snapshot import Snapshot, tables_as_json
from pbdist.store.layout import BOUNDS
from pbdist.types import JsonValue

#: The page's own scripts, in the order in which they are loaded.
_SCRIPTS = ("numbers.js", "sources.js", "link.js", "figures.js", "tables.js", "controls.js", "explorer.js")
#: The most bytes of the tables in an exported file, and those of a point in base64.
MAX_BYTES = 32 << 20
_BYTES_OF_POINT = len(BOUNDS) * 8 * 4 // 3 + 1
#: What could end a script element or a line of a script, as JSON may write it too.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


@cache
def _scripts() -> tuple[str, str]:
    """Return the page's own script, and BokehJS as bokeh's wheel has it."""
    assets = resources.files("pbdist.report.explorer").joinpath("assets")
    own = "\n".join(assets.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)
    return own, "\n".join(Resources(mode="inline", components=["bokeh", "bokeh-api"], minified=True).js_raw)


def page(title: str, data: JsonValue = None) -> str:
    """Return the page as a server answers it, or with `data`, what a server would answer, as one file without one."""
    environment = Environment(
        loader=PackageLoader("pbdist.report.explorer", "assets"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    embedded = None if data is None else embedded_json(data)
    return environment.get_template("page.html").render(title=printable(title), scripts=_scripts(), embedded=embedded)


def exported(snapshot: Snapshot, mechanisms: Sequence[str] | None = None) -> str:
    """Return the page as one file, with the mechanisms of some labels, by default all; the same for the same store."""
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
    index["notices"] += snapshot.damage_notices()
    data = {"contents": index, "tables": tables_as_json(found), "settings": snapshot.settings(cells, found)}
    return page(snapshot.study.spec.name, data)


def embedded_json(value: JsonValue) -> str:
    """Return JSON for a script element of a page: no text in it can end the element or a line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def _check_size(snapshot: Snapshot, groups: Sequence[NoiseGroup]) -> None:
    study = snapshot.study.spec
    points = len(study.compositions) * len(study.epsilon) * sum(len(group.cells) for group in groups)
    if points * _BYTES_OF_POINT > MAX_BYTES:
        raise InvalidInputError(
            f"--export: expected at most {MAX_BYTES >> 20} MiB of bounds, got {points * _BYTES_OF_POINT >> 20} MiB:"
            " choose mechanisms with --mechanism LABEL"
        )
