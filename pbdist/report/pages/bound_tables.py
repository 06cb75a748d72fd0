"""Tables of the stored bounds: all of a small store, a choice of a large one, and how to ask for the rest."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query.lookup import telling
from pbdist.query.noise_choice import NoiseChoice
from pbdist.query.study import Study
from pbdist.report.pages.document import Block, Column, Command, Heading, Paragraph, Table
from pbdist.report.pages.noise_blocks import setting_in_words
from pbdist.report.pages.numerals import bracket_text, epsilon_text
from pbdist.report.pages.shell import command
from pbdist.report.pages.stored_rows import CellBounds, bounds_of_cells, is_set, spread
from pbdist.rounding import exact
from pbdist.sizing.goal import Goal
from pbdist.store import StoredStudy

#: So many lines in all; so many settings, and of each so many r and ε, where there are more.
_MOST_LINES, _MOST_CELLS, _MOST_ROUNDS, _MOST_EPSILON = 360, 12, 5, 6
_COLUMNS = (
    Column("rounds r", True),
    Column("ε, nats", True),
    Column("δ at least", True),
    Column("δ at most", True),
)


def bound_tables(
    study: Study,
    parts: Sequence[StoredStudy],
    goals: Sequence[Goal],
    choices: Sequence[NoiseChoice],
    *,
    columns: Mapping[str, Sequence[Any]],
    name: str,
) -> Iterator[Block]:
    """Yield the bounds of a store, the larger of the two directions; `name` is that of the store in commands."""
    spec = study.spec
    count = len(spec.cells)
    yield Heading("Bounds")
    if count * len(spec.compositions) * len(spec.epsilon) <= _MOST_LINES:
        cells, rounds, epsilons = list(range(count)), *map(_all, (spec.compositions, spec.epsilon))
    else:
        cells = _chosen_cells(count, choices)
        rounds = spread(
            len(spec.compositions), _MOST_ROUNDS, [_place(spec.compositions, goal.compositions) for goal in goals]
        )
        epsilons = spread(len(spec.epsilon), _MOST_EPSILON, [_place(spec.epsilon, goal.epsilon) for goal in goals])
    yield Paragraph(
        "δ certainly lies between the two numbers of a line, in 6 digits, the lower bound rounded down and the"
        " upper one rounded up. It is the larger of the two directions. Nothing is claimed here between the lines;"
        " pbdist query tells what is proved there."
    )
    left = _left_out(
        ("noise settings", len(cells), count),
        ("numbers of rounds", len(rounds), len(spec.compositions)),
        ("ε", len(epsilons), len(spec.epsilon)),
    )
    if left:
        yield Paragraph(f"A choice of the bounds: {left}. These commands tell the rest, all of it and one setting:")
        yield Command(command("pbdist", "export", name, f"{name.removesuffix('.zarr')}.csv"))
        yield Command(_query(columns, cells[0], name, spec.compositions[-1], spec.epsilon[-1]))
    found = bounds_of_cells(study, parts, cells)
    for cell in cells:
        lines = tuple(_lines(study, found[cell], rounds, epsilons))
        if any(line[-1] for line in lines):
            yield Table(setting_in_words(spec.cells[cell]), (*_COLUMNS, Column("remark")), lines)
        else:
            yield Table(setting_in_words(spec.cells[cell]), _COLUMNS, tuple(line[:-1] for line in lines))


def _all(values: Sequence[object]) -> list[int]:
    return list(range(len(values)))


def _place(values: Sequence[float], wanted: float) -> int:
    """Return the index of the stored value that is nearest."""
    return min(range(len(values)), key=lambda index: abs(values[index] - wanted))


def _chosen_cells(count: int, choices: Sequence[NoiseChoice]) -> list[int]:
    """Return the cells of the answers first, and others evenly, in the order of the study."""
    answers = [one.cell for choice in choices for one in (choice.smallest, choice.refuted) if one is not None]
    return spread(count, _MOST_CELLS, list(dict.fromkeys(answers))[:_MOST_CELLS])


def _lines(
    study: Study, bounds: CellBounds, rounds: Sequence[int], epsilons: Sequence[int]
) -> Iterator[tuple[str, ...]]:
    spec = study.spec
    for r in rounds:
        for e in epsilons:
            lower, upper = float(bounds.lower[r, e]), float(bounds.upper[r, e])
            wide = not math.isnan(upper) and bounds.within is not None and not bounds.within[r, e] and bounds.attained
            yield (
                f"{spec.compositions[r]:,}",
                epsilon_text(spec.epsilon[e]),
                *bracket_text(lower, upper, attained=bounds.attained),
                "wide" if wide else "",
            )


def _left_out(*counts: tuple[str, int, int]) -> str:
    """Return of what how many are shown, where that is not all."""
    told = [f"{shown:,} of {there:,} {what}" for what, shown, there in counts if shown < there]
    return ", ".join(told)


def _query(columns: Mapping[str, Sequence[Any]], cell: int, name: str, compositions: int, epsilon: float) -> str:
    """Return the command that asks for one setting at an r and an ε."""
    words = ["pbdist", "query", name, "--mechanism", str(columns["mechanism"][cell])]
    needed = telling(columns, len(columns["mechanism"]))
    for column in known_columns():
        # Labels and parameters tell a setting from the others; the kind and the noise follow from the label.
        if column in ("mechanism", "kind", "noise") or column not in columns or not is_set(columns[column][cell]):
            continue
        if column == "made_of" and column not in needed:
            continue
        value = columns[column][cell]
        words += [f"--{column.replace('_', '-')}", value if is_text(column) else exact(value)]
    return command(*words, "--compositions", str(compositions), "--epsilon", repr(epsilon))
