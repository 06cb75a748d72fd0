"""Which tabulated noise will do for a goal, which is refuted, and what nothing is said of."""

from collections.abc import Iterable, Iterator, Sequence

from pbdist.mechanisms.noisy_count import SHIFT_INSIDE
from pbdist.mechanisms.pair import noise_order
from pbdist.query.neighbours import neighbours_words
from pbdist.query.noise_choice import NoiseChoice, TabulatedNoise
from pbdist.query.study import Study
from pbdist.report.pages.document import Block, Bullets, Column, Paragraph, Table, named
from pbdist.report.pages.goal_words import goal_in_words
from pbdist.report.pages.mechanism_words import READINGS_IN_WORDS, parameters, readings_of
from pbdist.report.pages.numerals import bracket_text
from pbdist.results import Verdict
from pbdist.rounding import rounded_down, rounded_up
from pbdist.sizing.goal import Goal
from pbdist.study import Cell
from pbdist.types import Adjacency

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
