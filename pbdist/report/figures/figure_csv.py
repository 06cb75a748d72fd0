"""The data of a figure as CSV."""

import csv
import io
import math
from collections.abc import Iterable

from pbdist.report.figures.curves import CurvePoints
from pbdist.report.figures.figure import DELTA, Figure


def figure_csv(figure: Figure, points: Iterable[CurvePoints]) -> str:
    """Return the points of a figure's curves as CSV, one line each; the same points give the same bytes.

    Columns: ``panel``, ``curve``, ``kind`` (``certified``, the name of a theorem, ``promise`` or ``distribution``; with
    ``, no bound`` where a theorem proves none), the horizontal axis under its name, and of what the figure shows
    ``.._lower`` and ``.._upper``; of δ also ``log_delta_lower`` and ``log_delta_upper``, natural logarithms that tell
    of values below float64 too. Earlier work has no lower value. Numbers are written so that they are read as the same
    float64.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    shown = figure.shows
    columns = [f"{shown}_lower", f"{shown}_upper"]
    if shown == DELTA:
        columns += ["log_delta_lower", "log_delta_upper"]
    writer.writerow(["panel", "curve", "kind", figure.over, *columns])
    for curve in points:
        kind = f"{curve.kind}, no bound" if curve.approximate else curve.kind
        label = f"{curve.curve.label}: {curve.name}" if curve.name else curve.curve.label
        for values in zip(curve.x, curve.lower, curve.upper, curve.log_lower, curve.log_upper, strict=True):
            told = values[: len(columns) + 1]
            writer.writerow([curve.panel.title, label, kind, *(_written(float(value)) for value in told)])
    return text.getvalue()


def _written(value: float) -> str:
    """Return the shortest text that is read as the same number; nothing for what is no number."""
    if math.isnan(value):
        return ""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
