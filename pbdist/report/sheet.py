"""Sheets to draw on, in one style, and their files: the same drawing gives the same bytes with the same matplotlib."""

import io
import re
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pbdist.errors import MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Colours that colour-blind eyes distinguish too (Okabe & Ito 2008), dark ones first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: With the markers they tell 40 curves apart without colours.
LINES: tuple[Any, ...] = ("-", (0, (7, 1.5)), (0, (3, 1.5)), (0, (8, 2, 1.5, 2)), (0, (1.5, 1.5)))
_STYLE: Any = {
    "font.size": 9.0,
    "font.family": "DejaVu Sans",
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "axes.titlesize": 9.0,
    "lines.linewidth": 1.5,
    "legend.fontsize": 8.0,
    "figure.dpi": 150.0,
    "svg.hashsalt": "pbdist",
    "svg.fonttype": "path",
}
#: What a file says of where it comes from: no dates.
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "pbdist"},
    "png": {"Software": "pbdist"},
    "pdf": {"CreationDate": None, "Creator": "pbdist", "Producer": None},
}
_PATH, _NUMBER = re.compile(rb'\bd="[^"]*"'), re.compile(rb"-?\d+\.\d{3,}")


def styled() -> AbstractContextManager[None]:
    """Return the context in which sheets are made, drawn and saved; a `MissingDependencyError` without matplotlib."""
    try:
        from matplotlib import rc_context  # noqa: PLC0415 -- an optional package
    except ImportError as error:
        raise MissingDependencyError("figures need matplotlib: pip install 'pbdist[figures]'") from error
    return rc_context(_STYLE)


def new_sheet(width: float, height: float) -> "Figure":
    """Return an empty sheet of that many inches, which no window shows."""
    with styled():
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 -- an optional package
        from matplotlib.figure import Figure as Sheet  # noqa: PLC0415

        sheet = Sheet(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(sheet)
    return sheet


def saved(sheet: "Figure", kind: str) -> bytes:
    """Return a sheet as a file: ``svg``, ``png`` or ``pdf``."""
    file = io.BytesIO()
    with styled():
        sheet.savefig(file, format=kind, metadata=_METADATA[kind])
    return _PATH.sub(_shortened, file.getvalue()) if kind == "svg" else file.getvalue()


def _shortened(path: re.Match[bytes]) -> bytes:
    """Return the path of an SVG in hundredths of a point: shorter, and no eye sees it."""
    return b" ".join(_NUMBER.sub(lambda one: b"%.2f" % float(one[0]), path[0]).split())


def plain(text: str) -> str:
    """Return text that is not read as mathematics."""
    return text.replace("$", r"\$")
