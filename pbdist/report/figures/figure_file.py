"""Read and check a figure file; every error names the file, the line and the field."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, PlainValidator

from pbdist.arguments import DEFAULT_BUCKETS, DEFAULT_FLOOR, DEFAULT_TOLERANCE, MAX_COMPOSITIONS, SMALLEST_TOLERANCE
from pbdist.mechanisms import Pair
from pbdist.report.figures.figure import (
    COMPOSITIONS,
    DELTA,
    FORMULAS,
    LOSSES,
    ORDER,
    OUTPUT,
    PROBABILITY,
    PROTOCOLS,
    RENYI,
    Curve,
    Figure,
    Panel,
    Promise,
)
from pbdist.study import grids
from pbdist.study.document import Document, Keys, Problems, read_document, shown
from pbdist.study.entries import expand_entry
from pbdist.study.models import STRICT, Delta, Positive, model_at, refuse, value_at
from pbdist.suggestions import did_you_mean
from pbdist.table import METHODS
from pbdist.theorems import THEOREMS
from pbdist.types import FloatArray, JsonValue

#: What stands for a choice of ``for_each``.
_NAME = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
#: Keys whose values stay texts.
_TEXTS = ("title", "label")


def filled(data: JsonValue, keys: Keys, chosen: Mapping[str, Any]) -> JsonValue:
    """Return the content of a file with the chosen values in the panel at `keys`, for ``$name`` in it."""
    if not keys:
        return _replaced(data, chosen)
    first, *rest = keys
    if isinstance(data, list):
        return [filled(x, tuple(rest), chosen) if i == first else x for i, x in enumerate(data)]
    return {key: filled(x, tuple(rest), chosen) if key == first else x for key, x in data.items()}


def _replaced(value: JsonValue, chosen: Mapping[str, Any], *, text: bool = False) -> JsonValue:
    """Put values for ``$name``: as they are where the text is nothing else, as text inside a longer one."""
    if isinstance(value, dict):
        return {
            key: item if key == "for_each" else _replaced(item, chosen, text=key in _TEXTS)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_replaced(item, chosen) for item in value]
    if not isinstance(value, str):
        return value
    whole = None if text else _NAME.fullmatch(value)
    if whole and whole[1] in chosen:
        return chosen[whole[1]]
    return _NAME.sub(lambda found: str(chosen.get(found[1], found[0])), value)


def _names_in(value: JsonValue) -> set[str]:
    """Return the names after ``$`` in all texts of a value."""
    if isinstance(value, dict):
        return set().union(*(_names_in(item) for key, item in value.items() if key != "for_each"))
    if isinstance(value, list):
        return set().union(*map(_names_in, value))
    return set(_NAME.findall(value)) if isinstance(value, str) else set()


def check_names(document: Document, keys: Keys, choices: Mapping[str, Sequence[Any]]) -> None:
    """Refuse names that stand for nothing, or that nothing uses, and lists without a choice."""
    used = _names_in(value_at(document, keys))
    for name, listed in choices.items():
        if not listed:
            refuse(document, (*keys, "for_each", name), "expected at least one choice, got []")
        if name not in used:
            refuse(document, (*keys, "for_each", name), f"expected a name that the panel uses as ${name}, got {name}")
    for name in sorted(used - set(choices)):
        refuse(document, keys, f"expected names that for_each lists, got ${name}")


#: The version of the figure file's format.
FIGURE_FORMAT = 1
#: What may be shown over what.
_AXES = {
    DELTA: (*LOSSES, COMPOSITIONS),
    "epsilon": (COMPOSITIONS,),
    "exp_epsilon": (COMPOSITIONS,),
    RENYI: (ORDER,),
    PROBABILITY: (OUTPUT,),
}
#: Beyond this float64 tells nothing about δ, and axes end.
_LARGEST_EXP_EPSILON = 1e150
#: Figures of more panels cannot be read.
_MOST_PANELS = 24


def _exp_epsilon(value: JsonValue) -> float:
    number = grids.number(value)
    if number <= 1.0:
        raise grids.GridError(f"expected an e^ε above 1, got {shown(value)}")
    return number


ExpEpsilon = Annotated[float, PlainValidator(_exp_epsilon)]


class _PromiseModel(BaseModel):
    model_config = STRICT
    protocol: str
    mean: Positive
    scale: Positive


class _TargetModel(BaseModel):
    model_config = STRICT
    exp_epsilon: ExpEpsilon
    delta: Delta


class _CurveModel(BaseModel):
    model_config = STRICT
    label: str
    mechanism: Any = None
    theorem: str | None = None
    promise: Any = None
    delta: Delta | None = None
    from_states: bool = False


class _PanelModel(BaseModel):
    model_config = STRICT
    title: str = ""
    for_each: dict[str, list[Any]] = {}
    compositions: int | None = None
    curves: list[Any]


class _FigureModel(BaseModel):
    model_config = STRICT
    format: int
    name: str
    title: str
    caption: str
    source: str
    shows: str
    over: dict[str, Any]
    panels: list[Any]
    compositions: int = 1
    delta: Delta | None = None
    matching: Any = None
    largest_exp_epsilon: ExpEpsilon | None = None
    target: Any = None
    lowest: Delta | None = None
    method: str = "tight"
    tolerance: Positive | None = None
    floor: Positive | None = None
    buckets: int | None = None


def load_figure(path: str | Path) -> Figure:
    """Read and check the figure file at `path`.

    Guaranteed: every mechanism has been constructed.

    Raises
    ------
    StudyFileError
        For each problem: ``FILE:LINE: field.path: expected .., got ..``.
    """
    return read_document(Path(path), _figure, "figure")


def _figure(document: Document) -> Figure:
    if not isinstance(document.data, dict):
        refuse(document, (), f"expected a mapping with a name, panels and an axis, got {shown(document.data)}")
    version = document.data.get("format")
    if type(version) is not int or version != FIGURE_FORMAT:
        refuse(document, ("format",), f"expected {FIGURE_FORMAT}, got {shown(version)}")
    model = model_at(document, (), _FigureModel)
    problems = Problems()
    with problems.collected():
        _check_name(document, model.name)
    with problems.collected():
        over, values = _axis(document, model)
    with problems.collected():
        _check_method(document, model)
    with problems.collected():
        panels = _panels(document, model)
    with problems.collected():
        matching = _promise(document, ("matching",), model.matching)
    with problems.collected():
        target = _target(document, model)
    problems.refuse()
    figure = Figure(
        name=model.name,
        title=model.title,
        caption=" ".join(model.caption.split()),
        source=model.source,
        shows=model.shows,
        over=over,
        values=values,
        panels=panels,
        delta=model.delta,
        matching=matching,
        largest=None if model.largest_exp_epsilon is None else math.log(model.largest_exp_epsilon),
        target=target,
        lowest=model.lowest,
        method=model.method,
        tolerance=DEFAULT_TOLERANCE if model.tolerance is None else model.tolerance,
        floor=DEFAULT_FLOOR if model.floor is None else model.floor,
        buckets=DEFAULT_BUCKETS if model.method == "buckets" and model.buckets is None else model.buckets,
    )
    _check_whole(document, figure)
    return figure


def _check_name(document: Document, name: str) -> None:
    if not name or not all(c.isalnum() or c in "._-" for c in name) or not name[0].isalnum():
        refuse(document, ("name",), f"expected letters, digits, '.', '_' and '-', got {shown(name)}")


def _axis(document: Document, model: _FigureModel) -> tuple[str, FloatArray]:
    """Return the name of the horizontal axis and its points."""
    if model.shows not in _AXES:
        near = did_you_mean(model.shows, _AXES)
        refuse(document, ("shows",), f"expected one of {', '.join(_AXES)}, got {shown(model.shows)}{near}")
    allowed = _AXES[model.shows]
    if len(model.over) != 1 or next(iter(model.over)) not in allowed:
        got = ", ".join(model.over) or "nothing"
        near = did_you_mean(got, allowed)
        refuse(document, ("over",), f"expected one of {', '.join(allowed)} for shows: {model.shows}, got {got}{near}")
    [(over, grid)] = model.over.items()
    try:
        values = grids.integers(grid) if over == COMPOSITIONS else grids.numbers(grid)
    except grids.GridError as error:
        at, problem = error.problems[0]
        refuse(document, ("over", over, *at), problem)
    least = {"epsilon": 0.0, "exp_epsilon": 1.0, ORDER: 1.0}.get(over, -math.inf)
    for value in values:
        if value < least:
            refuse(document, ("over", over), f"expected numbers of at least {least:g}, got {value!r}")
        if over in LOSSES and value > _LARGEST_EXP_EPSILON:
            expected = f"numbers of at most {_LARGEST_EXP_EPSILON:g}"
            refuse(document, ("over", over), f"expected {expected}, got {value!r}")
    return over, np.array(sorted(values), dtype=np.float64)


def _check_method(document: Document, model: _FigureModel) -> None:
    """Refuse precisions that contradict each other, as a study does."""
    if model.method not in METHODS:
        near = did_you_mean(model.method, METHODS)
        refuse(document, ("method",), f"expected one of {', '.join(METHODS)}, got {shown(model.method)}{near}")
    if model.tolerance is not None and not SMALLEST_TOLERANCE <= model.tolerance <= 1.0:
        expected = f"a number from {SMALLEST_TOLERANCE:g} to 1"
        refuse(document, ("tolerance",), f"expected {expected}, got {model.tolerance!r}")
    for name, value in (("tolerance", model.tolerance), ("floor", model.floor)):
        if model.method == "buckets" and value is not None:
            refuse(document, (name,), f"expected none with method buckets, got {value!r}")
    if model.method == "tight" and model.buckets is not None:
        refuse(document, ("buckets",), f"expected none with method tight, got {model.buckets!r}")


def _check_whole(document: Document, figure: Figure) -> None:
    """Refuse what contradicts itself, and a figure over r that says neither where δ nor where ε is taken."""
    own = [curve for panel in figure.panels for curve in panel.curves if curve.delta is not None]
    if figure.delta is not None or own:
        keys: Keys = ("delta",) if figure.delta is not None else ("panels",)
        if figure.matching is not None:
            refuse(document, ("matching",), "expected either δ or a promise that tells it, got both")
        if figure.shows not in LOSSES:
            refuse(document, keys, f"expected no δ where {figure.shows} is shown, got one")
    if figure.matching is not None and not figure.over_rounds:
        refuse(document, ("matching",), f"expected none over {figure.over}, got one")
    if figure.shows != RENYI and any(curve.from_states for panel in figure.panels for curve in panel.curves):
        refuse(document, ("panels",), f"expected no from_states where {figure.shows} is shown, got true")
    titles = [panel.title for panel in figure.panels]
    if len(set(titles)) < len(titles):
        refuse(document, ("panels",), "expected a title of its own for each panel, got the same twice")
    if not figure.over_rounds or figure.matching is not None:
        return
    if figure.shows == DELTA:
        refuse(document, ("matching",), "expected a promise that tells ε at each r, got none")
    for panel in figure.panels:
        for curve in panel.curves:
            if curve.promise is None and figure.delta is None and curve.delta is None:
                refuse(document, ("delta",), f"expected a δ here or in the curve {shown(curve.label)}, got none")


def _target(document: Document, model: _FigureModel) -> tuple[float, float] | None:
    if model.target is None:
        return None
    target = model_at(document, ("target",), _TargetModel)
    return math.log(target.exp_epsilon), target.delta


def _promise(document: Document, keys: Keys, value: Any) -> Promise | None:
    if value is None:
        return None
    promise = model_at(document, keys, _PromiseModel)
    if promise.protocol not in PROTOCOLS:
        got = f"{shown(promise.protocol)}{did_you_mean(promise.protocol, PROTOCOLS)}"
        refuse(document, (*keys, "protocol"), f"expected one of {', '.join(PROTOCOLS)}, got {got}")
    found = Promise(promise.protocol, promise.mean, promise.scale)
    try:
        finite = all(map(math.isfinite, found.after(1)))
    except OverflowError:
        finite = False
    if not finite:
        refuse(document, (*keys, "scale"), f"expected a scale that promises a finite ε, got {promise.scale!r}")
    return found


def _panels(document: Document, model: _FigureModel) -> tuple[Panel, ...]:
    """Return the panels, one for each choice of the names that ``for_each`` lists."""
    problems = Problems()
    found: list[Panel] = []
    for index in range(len(model.panels)):
        keys: Keys = ("panels", index)
        with problems.collected():
            for choice in _choices(document, keys):
                if len(found) == _MOST_PANELS:
                    refuse(document, keys, f"expected at most {_MOST_PANELS} panels in all, got more")
                of_choice = replace(document, data=filled(document.data, keys, choice))
                found.append(_panel(of_choice, keys, model))
    problems.refuse()
    if not found:
        refuse(document, ("panels",), "expected at least one panel, got none")
    return tuple(found)


def _choices(document: Document, keys: Keys) -> Iterator[dict[str, Any]]:
    """Yield the values of the names of a panel, for each panel that it stands for."""
    panel = model_at(document, keys, _PanelModel)
    check_names(document, keys, panel.for_each)
    for choice in itertools.product(*panel.for_each.values()):
        yield dict(zip(panel.for_each, choice, strict=True))


def _panel(document: Document, keys: Keys, model: _FigureModel) -> Panel:
    panel = model_at(document, keys, _PanelModel)
    if not panel.curves:
        refuse(document, (*keys, "curves"), "expected at least one curve, got []")
    rounds = model.compositions if panel.compositions is None else panel.compositions
    if not 1 <= rounds <= MAX_COMPOSITIONS:
        at = keys if panel.compositions is not None else ()
        refuse(document, (*at, "compositions"), f"expected an integer from 1 to 2^62, got {rounds}")
    curves: list[Curve] = []
    problems = Problems()
    for index in range(len(panel.curves)):
        with problems.collected():
            curves.append(_curve(document, (*keys, "curves", index)))
    with problems.collected():
        _check_text(document, (*keys, "title"), panel.title, empty=True)
    problems.refuse()
    labels = [curve.label for curve in curves]
    for position, label in enumerate(labels):
        if label in labels[:position]:
            refuse(
                document, (*keys, "curves", position, "label"), f"expected each label once, got {shown(label)} again"
            )
    return Panel(panel.title, tuple(curves), rounds)


def _check_text(document: Document, keys: Keys, text: str, *, empty: bool = False) -> None:
    """Refuse what a drawing or a CSV file cannot show."""
    if not (text or empty) or not text.isprintable() or text.startswith("_"):
        refuse(document, keys, f"expected printable text on one line that does not begin with _, got {shown(text)}")


def _curve(document: Document, keys: Keys) -> Curve:
    curve = model_at(document, keys, _CurveModel)
    _check_text(document, (*keys, "label"), curve.label)
    pair: Pair | None = None
    if curve.mechanism is not None:
        pairs = expand_entry(document.at(*keys, "mechanism"))
        if len(pairs) != 1:
            refuse(document, (*keys, "mechanism"), f"expected one noise setting, got {len(pairs)}")
        (pair,) = pairs
    if curve.theorem is not None and curve.theorem not in (*THEOREMS, *FORMULAS):
        known = (*THEOREMS, *FORMULAS)
        got = f"{shown(curve.theorem)}{did_you_mean(curve.theorem, known)}"
        refuse(document, (*keys, "theorem"), f"expected one of {', '.join(known)}, got {got}")
    promise = _promise(document, (*keys, "promise"), curve.promise)
    if pair is None and promise is None:
        refuse(document, keys, "expected a mechanism or a promise, got neither")
    if curve.from_states and (curve.theorem is not None or promise is not None):
        refuse(document, (*keys, "from_states"), "expected none beside a theorem or a promise, got true")
    if promise is not None and curve.theorem is not None:
        refuse(document, (*keys, "theorem"), f"expected none beside a promise, got {shown(curve.theorem)}")
    return Curve(curve.label, pair, curve.theorem, promise, curve.delta, curve.from_states)
