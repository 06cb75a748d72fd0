"""What a plot says of its curves: what they share in the title, what tells them apart in the legend."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from pbdist.report.sheet import plain
from pbdist.rounding import exact
from pbdist.types import COMPOSITIONS, DIRECTION

#: How a parameter is told; others by their names.
SPOKEN = {
    COMPOSITIONS: "r = {}",
    DIRECTION: "{}",
    "mechanism": "{}",
    "study": "{}",
    "reading": "{}",
    "p": "p = {}",
    "k": "{} answers",
    "eta": "η = {}",
    "pair_p": "A = {}",
    "pair_q": "B = {}",
    "pair_epsilon": "ε of a use {}",
    "pair_delta": "δ of a use {}",
    "truncate_low": "cut at {}",
    "truncate_high": "and {}",
}
#: Told only where nothing else tells curves apart.
_IMPLIED = ("kind", "noise", "made_of")
#: Letters of a line of the legend.
_WIDTH = 30


def labelled(curves: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """Return what curves have in common, and for each what tells it from the others; curves with equal texts count."""
    names = list(dict.fromkeys(name for curve in curves for name in curve))
    if all(curve.get("sensitivity", 1.0) == 1.0 for curve in curves):
        names = [name for name in names if name != "sensitivity"]
    alike = [name for name in names if len({_key(curve, name) for curve in curves}) == 1]
    shared = {name: curves[0][name] for name in alike if name in curves[0] and name not in _IMPLIED} if curves else {}
    different = [name for name in names if name not in alike]
    told = [name for name in different if name not in _IMPLIED]
    labels = [_told(curve, told) for curve in curves]
    if len(set(labels)) < len(labels):
        labels = [_told(curve, different) for curve in curves]
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({position + 1})".strip() for position, label in enumerate(labels)]
    return plain(_told(shared, list(shared))), [plain(label) for label in labels]


def number(value: float) -> str:
    """Return a number of the input as it is: rounded, it would name noise that the bounds are not proved for."""
    return f"{value:,}" if isinstance(value, int) else exact(value)


def wrapped(label: str, width: int = _WIDTH) -> str:
    """Return a label in lines that are no wider than a legend."""
    return "\n".join(textwrap.wrap(label, width, break_long_words=False)) or label


def _key(curve: Mapping[str, Any], name: str) -> Any:
    return curve.get(name)


def _told(curve: Mapping[str, Any], names: Sequence[str]) -> str:
    parts = []
    for name in names:
        if name not in curve:
            continue
        value = curve[name]
        text = value if isinstance(value, str) else number(value)
        parts.append(SPOKEN.get(name, f"{name.replace('_', ' ')} {{}}").format(text))
    return ", ".join(parts)
