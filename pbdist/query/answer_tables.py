"""Answers to many questions as a table or as JSON. Printed bounds are rounded outwards: what is printed is a bound."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from pbdist.query.answers import CompositionBounds, DeltaBounds, EpsilonBounds
from pbdist.query.tables import rounded_down, rounded_up
from pbdist.types import Direction, JsonValue

__all__ = ["answers_as_json", "answers_table"]

Answers = DeltaBounds | EpsilonBounds | CompositionBounds

_HEADS = {"compositions": "r", "epsilon": "ε", "exp_epsilon": "e^ε", "delta": "δ"}


def answers_table(mechanism: str, asked: Mapping[str, Sequence[Any]], found: Answers) -> Group:
    """Return a table of answers, one line each, or one line for each direction.

    Parameters
    ----------
    mechanism
        The label.
    asked
        The arguments of the questions, as columns.
    found
        The answers, of shape (n,) or (2, n).
    """
    table = Table(pad_edge=False)
    for name in asked:
        table.add_column(_HEADS.get(name, name), justify="right", no_wrap=True)
    columns = _columns(found)
    each = next(iter(columns.values())).ndim > 1
    if each:
        table.add_column("direction", no_wrap=True)
    for name in columns:
        table.add_column(_spoken(name), justify="right", no_wrap=True)
    within = found.within_tolerance
    marked = within is not None and not within.all()
    if marked:
        table.add_column("", no_wrap=True)
    for index, row in enumerate(zip(*asked.values(), strict=True)):
        told = [_plain(value) for value in row]
        for axis, direction in enumerate(Direction) if each else [(0, None)]:
            values = [(values[axis] if each else values)[index] for values in columns.values()]
            bounds = [_bound(name, value) for name, value in zip(columns, values, strict=True)]
            met = within is None or bool((within[axis] if each else within)[index])
            mark = [] if not marked else ["" if met else "wide"]
            table.add_row(*told, *([] if direction is None else [direction.value]), *bounds, *mark)
    return Group(Text(mechanism), table)


def answers_as_json(mechanism: str, asked: Mapping[str, Sequence[Any]], found: Answers) -> dict[str, JsonValue]:
    """Return the answers, unrounded; what is not finite is None, and so is the tolerance of a study without one."""
    columns, within = _columns(found), found.within_tolerance
    answers: list[JsonValue] = []
    for index, row in enumerate(zip(*asked.values(), strict=True)):
        answer: dict[str, JsonValue] = dict(zip(asked, row, strict=True))
        if next(iter(columns.values())).ndim > 1:
            for axis, direction in enumerate(Direction):
                told = {name: _number(name, values[axis, index]) for name, values in columns.items()}
                met = None if within is None else bool(within[axis, index])
                answer[direction.value] = {**told, "within_tolerance": met}
        else:
            answer.update({name: _number(name, values[index]) for name, values in columns.items()})
            answer["within_tolerance"] = None if within is None else bool(within[index])
        answers.append(answer)
    return {"mechanism": mechanism, "answers": answers}


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


def _spoken(name: str) -> str:
    kind, _, side = name.rpartition("_")
    log, _, quantity = kind.rpartition("log_")
    return f"{'ln ' if 'log_' in kind else log}{_HEADS[quantity]} {side}"


def _bound(name: str, value: Any) -> str:
    if name.startswith("compositions"):
        # Whole numbers need no rounding.
        return str(int(value)) if math.isfinite(value) else "not known"
    return rounded_down(float(value)) if name.endswith("lower") else rounded_up(float(value))


def _plain(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _number(name: str, value: Any) -> JsonValue:
    plain = np.asarray(value).item()
    if not math.isfinite(plain):
        return None
    return int(plain) if name.startswith("compositions") else plain
