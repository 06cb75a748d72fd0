"""Which tabulated noise will do for a goal, which is refuted, and what nothing is said of."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.mechanisms.noisy_count import SHIFT_INSIDE
from pbdist.mechanisms.pair import noise_order
from pbdist.query.lookup import is_set, telling
from pbdist.query.noise_choice import NoiseChoice, TabulatedNoise
from pbdist.query.settings import neighbours_words
from pbdist.query.study import Study
from pbdist.report.pages.document import (
    Block,
    Bullets,
    Column,
    Command,
    Heading,
    Paragraph,
    Table,
    bracket_text,
    command,
    epsilon_text,
    named,
)
from pbdist.report.pages.words import READINGS_IN_WORDS, goal_in_words, parameters, readings_of
from pbdist.results import Verdict
from pbdist.rounding import exact, rounded_down, rounded_up
from pbdist.store.layout import WITHIN
from pbdist.study import Cell
from pbdist.study import Target as Goal
from pbdist.types import Adjacency, BoolArray, FloatArray

#: What the bounds say of a noise setting at a goal.
VERDICTS = {
    Verdict.YES: "will do",
    Verdict.NO: "refuted",
    Verdict.UNDECIDED: "undecided",
    Verdict.MISSING: "not computed",
}
#: So many settings are judged one by one; of more those next to the answers, and some of the others.
_MOST_JUDGED, _BESIDE, _OTHERS = 60, 3, 9


def setting_in_words(cell: Cell) -> str:
    """Return label and parameters of a setting."""
    form = cell.pair.canonical()
    factor = "" if cell.factor is None else f", factor {cell.factor!r} between buckets"
    name = named(cell.label)
    kind = "" if form["mechanism"] in (cell.label, "NoisyCount", "Product", "WorstOf") else f"{form['mechanism']}: "
    return f"{name} ({kind}{parameters(form)}{factor})"


def answers(study: Study, goal: Goal, choices: Sequence[NoiseChoice]) -> Iterator[Block]:
    """Yield for each mechanism the least tabulated noise that will do, the most below it that is refuted, the rest."""
    cells = study.spec.cells
    yield Paragraph(neighbours_sentence((choice.label, choice.adjacency) for choice in choices))
    told = f"Which tabulated noise will do for {goal_in_words(goal)}"
    rows = [_answer(cells, choice) for choice in choices if choice.what]
    if rows:
        columns = (
            Column("mechanism"),
            Column("least tabulated noise that will do"),
            Column("its δ at most", number=True),
            Column("most noise below it that is refuted"),
            Column("its δ at least", number=True),
            Column("of those tabulated"),
        )
        yield Table(told, columns, tuple(rows))
    alone = [
        (setting_in_words(cells[choice.tried[0].cell]), *_deciding(choice)) for choice in choices if not choice.what
    ]
    if alone:
        three = (Column("noise setting"), Column("verdict"), Column("as δ is", number=True))
        yield Table(f"{told}: settings that differ in more than an amount of noise", three, tuple(alone))
    yield Bullets(tuple(_claims(study, choices)))


def _answer(cells: Sequence[Cell], choice: NoiseChoice) -> tuple[str, ...]:
    counts = [sum(one.verdict is verdict for one in choice.tried) for verdict in VERDICTS]
    rest = f"{counts[2]:,} undecided" + (f", {counts[3]:,} not computed" if counts[3] else "")
    return (group_in_words(choice), *_will_do(cells, choice), *_refuted(cells, choice), rest)


def _deciding(choice: NoiseChoice) -> tuple[str, str]:
    """Return the verdict on a setting that is alone, and the bound that it rests on."""
    (one,) = choice.tried
    bound = {
        Verdict.YES: f"at most {rounded_up(one.upper)}",
        Verdict.NO: f"at least {rounded_down(one.lower)}",
        Verdict.UNDECIDED: f"at most {rounded_up(one.upper)}",
        Verdict.MISSING: "",
    }
    return VERDICTS[one.verdict], bound[one.verdict]


def neighbours_sentence(found: Iterable[tuple[str, Adjacency]]) -> str:
    """Return for which neighbours the bounds of some labels are, as a sentence."""
    words = neighbours_words((named(label), relation) for label, relation in found)
    return f"{words[0].upper()}{words[1:]}."


def judged_settings(study: Study, goal: Goal, choices: Sequence[NoiseChoice]) -> Iterator[Block]:
    """Yield the bounds of the settings at a goal, with verdicts; of many settings a choice."""
    tried = [one for choice in choices for one in choice.tried]
    shown = tried if len(tried) <= _MOST_JUDGED else [one for choice in choices for one in _near(choice)]
    rows = []
    for one in shown:
        attained = study.spec.cells[one.cell].pair.attained_by_some
        bounds = bracket_text(one.lower, one.upper, attained=attained)
        rows.append((setting_in_words(study.spec.cells[one.cell]), *bounds, VERDICTS[one.verdict]))
    columns = (Column("noise setting"), Column("δ at least", True), Column("δ at most", True), Column("verdict"))
    yield Table(f"Noise settings and {goal_in_words(goal)}", columns, tuple(rows))
    if len(shown) < len(tried):
        yield Paragraph(
            f"Shown are {len(shown):,} of {len(tried):,} noise settings: those next to the answers, and some of the"
            " others. The commands below Bounds tell the rest."
        )


def _near(choice: NoiseChoice) -> list[TabulatedNoise]:
    """Return the settings next to the answers of a choice, and some of the others, evenly."""
    tried, marks = choice.tried, []
    for found in (choice.smallest, choice.refuted):
        marks += [] if found is None else [tried.index(found)]
    step = max(1, len(tried) // _OTHERS)
    kept = {index for mark in marks for index in range(mark - _BESIDE, mark + _BESIDE + 1)}
    kept |= {*range(0, len(tried), step), len(tried) - 1}
    return [one for index, one in enumerate(tried) if index in kept]


def group_in_words(choice: NoiseChoice) -> str:
    """Return label, noise and reading of settings that differ in their amount of noise."""
    told = [named(choice.label)]
    told += [named(str(choice.fixed[name])) for name in ("noise", "reading") if choice.fixed.get(name)]
    return ", ".join(told)


def _will_do(cells: Sequence[Cell], choice: NoiseChoice) -> tuple[str, str]:
    if choice.smallest is None:
        return "none of those tabulated is known to", ""
    return _noise(cells, choice, choice.smallest), rounded_up(choice.smallest.upper)


def _refuted(cells: Sequence[Cell], choice: NoiseChoice) -> tuple[str, str]:
    if choice.refuted is None:
        return "none", ""
    return _noise(cells, choice, choice.refuted), rounded_down(choice.refuted.lower)


def _noise(cells: Sequence[Cell], choice: NoiseChoice, one: TabulatedNoise) -> str:
    """Return the parameters of a setting without those that its group is named by."""
    form = cells[one.cell].pair.canonical()
    hidden = {name for name in ("noise", "reading") if choice.fixed.get(name)}
    return parameters(form, hidden)


def _claims(study: Study, choices: Sequence[NoiseChoice]) -> Iterator[str]:
    """Yield what follows of noise that is not tabulated, and what does not."""
    pairs = [study.spec.cells[one.cell].pair for choice in choices for one in choice.tried[:1]]
    ordered = [noise_order(pair) is not None for pair in pairs]
    yield (
        "Will do: the upper bound on δ is at most that of the goal. Refuted: the lower bound exceeds it, so that no"
        " other computation can prove the opposite."
    )
    if any(SHIFT_INSIDE in readings_of(pair.canonical()) for pair in pairs):
        yield READINGS_IN_WORDS[SHIFT_INSIDE]
    yield (
        "Nothing is claimed of noise between the one that will do and the one that is refuted, nor of any whose bounds"
        " are on both sides of the goal (undecided)."
    )
    if any(ordered):
        some = "For these mechanisms" if all(ordered) else f"For {sum(ordered):,} of these mechanisms"
        yield (
            f"{some} more noise of the same kind provably hides at least as much: noise above one that will do will do,"
            " and noise below one that is refuted is refuted."
        )
    if not all(ordered):
        rest = "these mechanisms" if not any(ordered) else "the others"
        yield (
            f"For {rest} no such order is proved: the verdicts are about the tabulated settings alone, and more noise"
            " is not known to be better."
        )


@dataclass(frozen=True, eq=False)
class CellBounds:
    """The bounds on δ of one setting over (r, ε), the larger of the two directions; NaN where there are none.

    `within` tells where the study's tolerance is met; None for a setting that seeks none. `attained` tells whether
    lower bounds can be known.
    """

    lower: FloatArray
    upper: FloatArray
    within: BoolArray | None
    attained: bool


def bounds_of_cells(study: Study, cells: Sequence[int]) -> Mapping[int, CellBounds]:
    """Return the stored bounds of some settings over the whole grids of the study.

    What is not computed, has failed or was changed since is NaN.
    """
    values = study.blocks.read(np.array(cells, dtype=np.int64)).values
    # NaN in either direction is NaN in the maximum.
    lower, upper = (values[name].max(axis=1) for name in ("delta_lower", "delta_upper"))
    within = values[WITHIN].all(axis=1) if WITHIN in values else None
    told = {}
    for row, cell in enumerate(cells):
        setting = study.spec.cells[cell]
        met = within[row] if within is not None and study.spec.seeks_tolerance(setting) else None
        told[cell] = CellBounds(lower[row], upper[row], met, setting.pair.attained_by_some)
    return told


def spread(length: int, most: int, around: Sequence[int] = ()) -> list[int]:
    """Return at most about `most` indices, from the first to the last one, and all of `around`."""
    if length <= most:
        return list(range(length))
    left = max(2, most - len(set(around)))
    even = {round(step * (length - 1) / (left - 1)) for step in range(left)}
    return sorted(even | set(around))


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
        cells, rounds, epsilons = (list(range(size)) for size in (count, len(spec.compositions), len(spec.epsilon)))
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
    found = bounds_of_cells(study, cells)
    for cell in cells:
        lines = tuple(_lines(study, found[cell], rounds, epsilons))
        if any(line[-1] for line in lines):
            yield Table(setting_in_words(spec.cells[cell]), (*_COLUMNS, Column("remark")), lines)
        else:
            yield Table(setting_in_words(spec.cells[cell]), _COLUMNS, tuple(line[:-1] for line in lines))


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
    return ", ".join(f"{shown:,} of {there:,} {what}" for what, shown, there in counts if shown < there)


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
