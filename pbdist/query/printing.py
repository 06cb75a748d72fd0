"""Answers as tables, by the names under which the command line and other rooms import them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pbdist.query.judging import precision_as_json, precision_line
from pbdist.results import NOT_KNOWN, CompositionBounds, DeltaBounds, EpsilonBounds
from pbdist.rounding import rounded_down, rounded_up
from pbdist.tables import Sheet
from pbdist.types import Adjacency, JsonValue

__all__ = ["NOT_KNOWN", "precision_as_json", "precision_line", "rounded_down", "rounded_up"]

Answers = DeltaBounds | EpsilonBounds | CompositionBounds


def answers_sheet(
    mechanism: str,
    texts: Mapping[str, Any],
    asked: Mapping[str, Sequence[Any]],
    found: Answers,
    unattained: Sequence[bool] = (),  # noqa: ARG001 -- the answers say it
) -> Sheet:
    """Return answers as a sheet: `texts` are the arguments that all have in common, `asked` the others as columns."""
    fixed = {name: str(value) for name, value in texts.items()}
    return replace(found, asked={"mechanism": mechanism, **fixed, **asked}).sheet()


def answers_as_json(mechanism: str, asked: Mapping[str, Sequence[Any]], found: Answers) -> dict[str, JsonValue]:
    """Return the answers in the types of JSON, unrounded."""
    form: dict[str, JsonValue] = json.loads(answers_sheet(mechanism, {}, asked, found).json())
    return form


def neighbours_line(adjacency: Adjacency) -> str:
    """Return in a line for which neighbours answers are."""
    return f"neighbours: {adjacency.in_words}"
