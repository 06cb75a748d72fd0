"""What was studied: mechanisms in words, their parameters with units, and the grids."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pbdist.mechanisms.columns import known_columns
from pbdist.query.neighbours import neighbours_by_label
from pbdist.report.pages.document import Block, Bullets, Column, Heading, Paragraph, Table, named
from pbdist.report.pages.mechanism_words import READINGS_IN_WORDS, assumes, does, kinds_of, parameter_rows, readings_of
from pbdist.report.pages.numerals import epsilon_text
from pbdist.rounding import exact
from pbdist.study import StudySpec

#: So many values of a parameter are listed.
_MOST_VALUES = 6


def studied(
    study: StudySpec, columns: Mapping[str, Sequence[Any]], forms: Sequence[Mapping[str, Any]]
) -> Iterator[Block]:
    """Yield what a study computes; `columns` as from `cell_columns`, `forms` the canonical pairs, one a cell."""
    yield Heading("What was studied")
    kinds = sorted({kind for form in forms for kind in kinds_of(form)})
    yield Bullets(does(kinds))
    labels: dict[tuple[str, str], list[int]] = {}
    for row, key in enumerate(zip(columns["mechanism"], columns["kind"], strict=True)):
        labels.setdefault(key, []).append(row)
    neighbours = neighbours_by_label(study)
    rows = [
        (named(label), kind, f"{len(cells):,}", _ranges(columns, cells), neighbours[label].in_words)
        for (label, kind), cells in labels.items()
    ]
    yield Table(
        f"Mechanisms of the study: {len(forms):,} noise settings",
        (
            Column("label in the study"),
            Column("kind"),
            Column("settings", True),
            Column("parameters"),
            Column("neighbours"),
        ),
        tuple(rows),
    )
    units = parameter_rows(forms)
    if units:
        yield Table("Parameters and their units", (Column("parameter"), Column("meaning, unit")), units)
    r, epsilon = study.compositions, study.epsilon
    yield Paragraph(
        f"Rounds r (how often the mechanism is used and seen): {len(r):,} values from {r[0]:,} to {r[-1]:,}."
        f" ε: {len(epsilon):,} values from {epsilon_text(epsilon[0])} to {epsilon_text(epsilon[-1])} nats."
        f" For each noise setting, r and ε there is a lower and an upper bound on δ: in all"
        f" {len(forms) * len(r) * len(epsilon):,} points."
    )


def assumed(forms: Sequence[Mapping[str, Any]], readings: Sequence[str] = ()) -> Iterator[Block]:
    """Yield what has to be true of a system for the bounds to be about it."""
    yield Heading("What is taken for granted")
    yield Paragraph(
        "Within what is listed here the bounds are proved, every rounding of the computation included. pbdist cannot"
        " check that it is true of your system. If it is not, the bounds are about something else."
    )
    items = [
        "The worst-case pair: two distributions, A and B, of what is seen with one and with the other of two"
        " neighbouring inputs. The bounds are about this pair. An upper bound protects every pair of neighbouring"
        " inputs only if none is told apart more easily than A and B. A lower bound, and so a refutation, is about A"
        " and B themselves: a system in which they never occur may be better.",
        "Neighbours: where nothing else is said, which inputs count as neighbouring is decided by the sensitivity or"
        " the shift that was given: one individual's contribution, as large as that. A user who contributes more is"
        " protected less. Bounds for one record added or removed are none for one record replaced.",
        "Rounds: r is the number of rounds in which one individual takes part, all of them seen by the same observer."
        " Each may be chosen after the outcomes of the earlier ones. The bounds say nothing of an r that is larger.",
        "Nothing else is seen: not the noise, not its random numbers, not what a dishonest server knows, no timing.",
    ]
    kinds = sorted({kind for form in forms for kind in kinds_of(form)})
    items += assumes(kinds)
    told = sorted({*readings, *(reading for form in forms for reading in readings_of(form))})
    items += [f"Reading {READINGS_IN_WORDS[one]}" for one in told if one in READINGS_IN_WORDS]
    yield Bullets(tuple(items))


def _ranges(columns: Mapping[str, Sequence[Any]], cells: Sequence[int]) -> str:
    told = []
    for name in known_columns():
        if name in ("mechanism", "kind", "made_of") or name not in columns:
            continue
        found = list(dict.fromkeys(columns[name][cell] for cell in cells))
        values = [value for value in found if value != "" and not (isinstance(value, float) and math.isnan(value))]
        if values:
            told.append(f"{name.removeprefix('pair_').replace('_', ' ')} {_listed(values)}")
    return "; ".join(told) or "several outputs: see the settings below"


def _listed(values: Sequence[Any]) -> str:
    if isinstance(values[0], str):
        return ", ".join(named(value) for value in values)
    ordered = sorted(values)
    if len(ordered) <= _MOST_VALUES:
        return ", ".join(exact(value) for value in ordered)
    return f"{exact(ordered[0])} to {exact(ordered[-1])} ({len(ordered):,} values)"
