"""Sheets, printed tables, sentences and JSON of stored bounds, answers, verdicts and precision."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from pbdist.errors import printable
from pbdist.mechanisms.columns import is_text
from pbdist.query.formats import Cell, Column, Sheet, Shown, head_of
from pbdist.query.judging import BETWEEN, Precision, TargetResult
from pbdist.query.lookup import Bounds, telling
from pbdist.query.settings import neighbours_words
from pbdist.results import NO_LOWER, CompositionBounds, DeltaBounds, EpsilonBounds
from pbdist.rounding import rounded_down, rounded_up
from pbdist.study import StudySpec, Target
from pbdist.study.columns import cell_columns
from pbdist.study.spec import exponential
from pbdist.types import Adjacency, Direction, JsonValue

Answers = DeltaBounds | EpsilonBounds | CompositionBounds

#: What is printed in place of a bound that nobody knows, that was not found, or that does not exist; and why there is
#: no lower one.
NOT_KNOWN, NOT_FOUND, NONE_MEETS = "not known", "no bound found", "no ε meets δ"
UNATTAINED = "no lower bound is known: no change is declared to attain the pairs that dominate it"


def answers_sheet(
    mechanism: str,
    texts: Mapping[str, Any],
    asked: Mapping[str, Sequence[Any]],
    found: Answers,
    unattained: Sequence[bool] | None = None,
) -> Sheet:
    """Return answers as a sheet, a row each or one for each direction.

    `texts` are the arguments that all have in common, `asked` the others as columns; `unattained` says for which rows
    no lower bound can be known, by default for none.
    """
    columns, told = _columns(found), found.why_wide
    each = next(iter(columns.values())).ndim > 1
    bare = [Column(name, name, number=False, printed=False) for name in ("mechanism", *texts)]
    given = [Column(name, head_of(name)) for name in asked]
    direction = [Column("direction", "direction", number=False)] if each else []
    bounds = [Column(name, head_of(name)) for name in columns]
    marked = told is not None and bool(np.any((told != "") & (told != NO_LOWER)))
    judged = [
        Column("within_tolerance", "within", number=False, printed=False),
        Column("why_wide", "", number=False, printed=marked),
        Column("adjacency", "neighbours", number=False, printed=False),
    ]
    rows: list[tuple[Cell, ...]] = []
    for index, row in enumerate(zip(*asked.values(), strict=True)):
        for axis, name in enumerate(Direction) if each else [(0, None)]:
            at = (axis, index) if each else (index,)
            instead = _instead(found, at)
            cells = [
                Shown(_told(name, values[at], instead), _plain_number(name, values[at]))
                for name, values in columns.items()
            ]
            names = [] if name is None else [name.value]
            within = None if found.within_tolerance is None else bool(found.within_tolerance[at])
            why = "" if told is None else str(told[at])
            told_why = f"because {why}" if instead == NOT_FOUND else f"wide: {why}"
            mark = Shown(told_why if why not in ("", NO_LOWER) else "", why or None)
            rows.append((mechanism, *texts.values(), *row, *names, *cells, within, mark, found.adjacency.value))
    caption = " ".join([mechanism, *(f"{name}={value}" for name, value in texts.items())])
    notes = (UNATTAINED,) if unattained is not None and any(unattained) else ()
    above = (caption, neighbours_line(found.adjacency))
    return Sheet((*bare, *given, *direction, *bounds, *judged), tuple(rows), above, notes)


def answers_as_json(mechanism: str, asked: Mapping[str, Sequence[Any]], found: Answers) -> dict[str, JsonValue]:
    """Return the answers, unrounded; None for what is not finite, and for the tolerance of a study without one."""
    columns = _columns(found)
    answers: list[JsonValue] = []
    for index, row in enumerate(zip(*asked.values(), strict=True)):
        answer: dict[str, JsonValue] = dict(zip(asked, row, strict=True))
        if next(iter(columns.values())).ndim > 1:
            for axis, direction in enumerate(Direction):
                told = {name: _number(name, values[axis, index]) for name, values in columns.items()}
                answer[direction.value] = {**told, **_judged(found, (axis, index))}
        else:
            answer.update({name: _number(name, values[index]) for name, values in columns.items()})
            answer.update(_judged(found, (index,)))
        answers.append(answer)
    return {"mechanism": mechanism, "adjacency": found.adjacency.value, "answers": answers}


def neighbours_line(adjacency: Adjacency) -> str:
    """Return in a line for which neighbours answers are."""
    return f"neighbours: {adjacency.in_words}"


def _columns(found: Answers) -> dict[str, Any]:
    if isinstance(found, DeltaBounds):
        return {
            "delta_lower": found.lower,
            "delta_upper": found.upper,
            "log_delta_lower": found.log_lower,
            "log_delta_upper": found.log_upper,
        }
    name = "epsilon" if isinstance(found, EpsilonBounds) else "compositions"
    return {f"{name}_lower": found.lower, f"{name}_upper": found.upper}


def _judged(found: Answers, at: tuple[int, ...]) -> dict[str, JsonValue]:
    """Return whether an answer is within the tolerance, and why not, in the types of JSON."""
    within = None if found.within_tolerance is None else bool(found.within_tolerance[at])
    why = None if found.why_wide is None else str(found.why_wide[at])
    return {"within_tolerance": within, "why_wide": why or None}


def _instead(found: Answers, at: tuple[int, ...]) -> str:
    """Return what stands in place of both bounds of an answer that is none; empty text for others."""
    if isinstance(found, CompositionBounds):
        return ""
    if found.unknown[at]:
        return NOT_FOUND
    return NONE_MEETS if isinstance(found, EpsilonBounds) and math.isinf(found.upper[at]) else ""


def _told(name: str, value: Any, instead: str) -> str:
    """Return a bound, or what stands in its place: a lower bound above 0 is told whatever the upper one is."""
    return (
        _bound(name, value)
        if instead != NONE_MEETS and name.endswith("lower") and value > 0.0
        else (instead or _bound(name, value))
    )


def _bound(name: str, value: Any) -> str:
    if math.isnan(value):
        return NOT_KNOWN
    if name.startswith("compositions"):
        # Whole numbers need no rounding.
        return str(int(value)) if math.isfinite(value) else NOT_KNOWN
    return rounded_down(float(value)) if name.endswith("lower") else rounded_up(float(value))


def _number(name: str, value: Any) -> JsonValue:
    plain = np.asarray(value).item()
    if not math.isfinite(plain):
        return None
    return int(plain) if name.startswith("compositions") else plain


def _plain_number(name: str, value: Any) -> float | int:
    """Return a bound as a number of Python; of rounds a whole one where it is finite."""
    plain = np.asarray(value).item()
    return int(plain) if name.startswith("compositions") and math.isfinite(plain) else float(plain)


def printed_bounds(bounds: Bounds) -> Group:
    """Return the bounds of both directions and of their maximum as a printed table with its caption."""
    point = f"r = {bounds.compositions}, ε = {bounds.epsilon!r}, e^ε = {bounds.exp_epsilon!r}"
    table = Table()
    table.add_column("direction", no_wrap=True)
    for name in ("δ lower", "δ upper", "ln δ lower", "ln δ upper"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = zip(
        bounds.directions,
        bounds.delta_lower,
        bounds.delta_upper,
        bounds.log_delta_lower,
        bounds.log_delta_upper,
        strict=True,
    )
    for name, *values in [*rows, ("maximum", *bounds.maximum, *bounds.log_maximum)]:
        low, high, log_low, log_high = values
        lower = [NOT_KNOWN if math.isnan(value) else rounded_down(value) for value in (low, log_low)]
        table.add_row(name, lower[0], rounded_up(high), lower[1], rounded_up(log_high))
    notes = [Text(UNATTAINED)] if math.isnan(bounds.maximum[0]) else []
    if bounds.within_tolerance is False and not notes:
        notes.append(Text("wide: the bounds do not meet within the study's tolerance"))
        if bounds.why_wide:
            mended = ": --refine computes it" if bounds.why_wide == BETWEEN else ""
            notes.append(Text(f"why: {bounds.why_wide}{mended}"))
    about = Text(printable(bounds.setting)), Text(neighbours_line(bounds.adjacency)), Text(point)
    return Group(*about, table, *notes)


def bounds_as_json(bounds: Bounds) -> dict[str, JsonValue]:
    """Return the bounds, unrounded; the logarithm of a δ of 0 is None, and so is a lower bound that is not known."""
    rows = zip(
        (*bounds.directions, "maximum"),
        (*bounds.delta_lower, bounds.maximum[0]),
        (*bounds.delta_upper, bounds.maximum[1]),
        (*bounds.log_delta_lower, bounds.log_maximum[0]),
        (*bounds.log_delta_upper, bounds.log_maximum[1]),
        strict=True,
    )
    return {
        "setting": bounds.setting,
        "adjacency": bounds.adjacency.value,
        "compositions": bounds.compositions,
        "epsilon": bounds.epsilon,
        "exp_epsilon": bounds.exp_epsilon if math.isfinite(bounds.exp_epsilon) else None,
        "within_tolerance": bounds.within_tolerance,
        "why_wide": bounds.why_wide or None,
        "bounds": {
            name: {
                "delta_lower": None if math.isnan(low) else low,
                "delta_upper": high,
                "log_delta_lower": log_low if math.isfinite(log_low) else None,
                "log_delta_upper": log_high if math.isfinite(log_high) else None,
            }
            for name, low, high, log_low, log_high in rows
        },
    }


def precision_line(tolerance: float, precision: Precision) -> str:
    """Return in one sentence at how many of the points asked for the tolerance is missed, and where most."""
    worst, where = precision.widest, f"{precision.points:,} points (noise setting, r, ε) asked for"
    missed = f"upper / lower - 1 > {tolerance:g} at {precision.missed:,} of {where}"
    if worst is None:
        # The details of a batch may count points whose bounds cannot be read.
        return missed if precision.missed else f"upper / lower - 1 <= {tolerance:g} at all {where}"
    ratio = "infinite" if math.isinf(worst.bracket.relative_width) else f"{worst.bracket.relative_width:.3g}"
    low, high = rounded_down(worst.bracket.lower, 3), rounded_up(worst.bracket.upper, 3)
    at = f"r = {worst.compositions}, ε = {worst.epsilon:.6g}"
    if worst.direction != "both":
        at += f", {worst.direction}"
    return f"{missed}, at worst {ratio}: {worst.cell.describe()}, {at}, δ from {low} to {high}"


def precision_as_json(tolerance: float, precision: Precision) -> dict[str, JsonValue]:
    """Return the same in the types of JSON; None for a ratio that is not finite."""
    worst = precision.widest
    return {
        "tolerance": tolerance,
        "asked": precision.points,
        "missed": precision.missed,
        "unreadable_cells": precision.unreadable,
        "widest": None
        if worst is None
        else {
            "setting": worst.cell.describe(),
            "compositions": worst.compositions,
            "epsilon": worst.epsilon,
            "direction": worst.direction,
            "ratio": worst.bracket.relative_width if math.isfinite(worst.bracket.relative_width) else None,
            "delta_lower": worst.bracket.lower,
            "delta_upper": worst.bracket.upper,
        },
    }


def printed_targets(study: StudySpec, target: Target, results: Sequence[TargetResult]) -> Group:
    """Return as a printed table which cells meet a target: parameters that tell them apart, bounds, verdicts.

    Above it stands for which neighbours they are, where any of them says it.
    """
    goal = f"e^ε = {exponential(target.epsilon):.6g}, δ <= {target.delta:g} after {target.compositions} compositions"
    table = Table(pad_edge=False)
    columns = cell_columns(study.cells)
    telling_apart = telling(columns, len(results))
    shown = ["mechanism", *(name for name in telling_apart if name != "mechanism" and _tells_apart(columns, name))]
    for name in shown:
        text = is_text(name)
        table.add_column(name, justify="left" if text else "right", overflow="fold")
    table.add_column("δ lower", justify="right", no_wrap=True)
    table.add_column("δ upper", justify="right", no_wrap=True)
    table.add_column("meets", no_wrap=True)
    for index, result in enumerate(results):
        values = [_plain(columns[name][index]) for name in shown]
        low, high = rounded_down(result.delta_lower, 3), rounded_up(result.delta_upper, 3)
        known = result.cell.pair.attained_by_some
        # Of texts that others chose nothing is taken for markup.
        row = (*map(printable, values), low if known else NOT_KNOWN, high, result.verdict.value)
        table.add_row(*map(Text, row))
    neighbours = [(result.cell.label, study.neighbours_of(result.cell)) for result in results]
    told = neighbours_words(neighbours) if any(relation.definite for _, relation in neighbours) else ""
    return Group(Text(f"Which noise settings meet {goal}?"), *([Text(printable(told))] if told else []), table)


def _tells_apart(columns: Mapping[str, Sequence[float | str]], name: str) -> bool:
    """Whether cells of one label differ in the column."""
    values: dict[str | float, set[str]] = {}
    for label, value in zip(columns["mechanism"], columns[name], strict=True):
        values.setdefault(label, set()).add(_plain(value))
    return any(len(found) > 1 for found in values.values())


def _plain(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return "" if math.isnan(value) else f"{value:.10g}"
