"""Sheets to draw on, in one style, and their files: the same drawing gives the same bytes with the same matplotlib."""

import hashlib
import io
import re
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

from pbdist.errors import MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: What `saved` can make.
FORMATS = ("svg", "png", "pdf")
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
_REFERENCES = re.compile(r'(\bid="|url\(#|href="#)')


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
    """Return a sheet as a file of one of `FORMATS`."""
    file = io.BytesIO()
    with styled():
        sheet.savefig(file, format=kind, metadata=_METADATA[kind])
    return _PATH.sub(_shortened, file.getvalue()) if kind == "svg" else file.getvalue()


def _shortened(path: re.Match[bytes]) -> bytes:
    """Return the path of an SVG in hundredths of a point: shorter, and no eye sees it."""
    return b" ".join(_NUMBER.sub(lambda one: b"%.2f" % float(one[0]), path[0]).split())


def svg_of(drawing: "Axes | Figure") -> str:
    """Return a drawing as one ``<svg>`` element that can stand in an HTML page, beside others.

    Parameters
    ----------
    drawing
        Axes, whose whole figure is meant, or a figure.

    Returns
    -------
    str
        Without an XML declaration, and without references to anything outside. The same drawing gives the same text,
        and no two drawings share an id. A screen reader says the title of the first axes.
    """
    sheet: Any = getattr(drawing, "figure", drawing)
    text = saved(sheet, "svg").decode("utf-8")
    # Neither declaration and document type have a place within a page, nor metadata, which name vocabularies.
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    titles = [axes.get_title(loc=place) for axes in sheet.axes for place in ("left", "center")]
    title = next(filter(None, titles), "a plot of bounds").replace(r"\$", "$")
    text = _REFERENCES.sub(rf"\g<1>p{hashlib.sha256(text.encode()).hexdigest()[:10]}-", text)
    label = quoteattr(" ".join(title.split()))
    return text.replace("<svg", f'<svg role="img" aria-label={label}', 1).strip()


def plain(text: str) -> str:
    """Return text that is not read as mathematics."""
    return text.replace("$", r"\$")
