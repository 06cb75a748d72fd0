"""The report of a system: what was published, and the smallest noise found that meets its goals, with certificates."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pbdist.errors import PbdistError, PrecisionWarning
from pbdist.mechanisms import Gaussian, Laplace, Pair
from pbdist.mechanisms.noisy_count import SHIFT_INSIDE
from pbdist.report.pages.document import (
    NOTE,
    Block,
    Bullets,
    Column,
    Command,
    Document,
    Heading,
    Notice,
    Paragraph,
    Table,
    bracket_text,
    command,
    named,
    plain,
)
from pbdist.report.pages.noise_blocks import VERDICTS
from pbdist.report.pages.pictures import computed_picture
from pbdist.report.pages.store_report import Report, made_by
from pbdist.report.pages.words import assumed, does, goal_in_words, kinds_of, meaning, parameter_rows, parameters
from pbdist.rounding import exact, rounded_down, rounded_up
from pbdist.sizing.families import CountNoise
from pbdist.sizing.sized import SizedNoise
from pbdist.sizing.systems import NoisyCounts, System, SystemTarget, judge, size_system

_NOISES: tuple[CountNoise, ...] = (Laplace, Gaussian)
_SIZED = (
    Column("noise"),
    Column("smallest found that will do"),
    Column("its δ at most", number=True),
    Column("refuted: less of it"),
    Column("its δ at least", number=True),
    Column("messages a round", number=True),
)
_PUBLISHED = (
    Column("published noise"),
    Column("parameters"),
    Column("from"),
    Column("δ at least", number=True),
    Column("δ at most", number=True),
    Column("verdict"),
)


@dataclass(frozen=True)
class _Asked:
    """How noise is sized, and what becomes of it: who is told, and what could not be answered."""

    system: System
    tolerance: float
    store: str | Path | None
    told: Callable[[str], None]
    problems: list[str] = field(default_factory=list)

    def failed(self, what: str, error: PbdistError) -> str:
        """Keep a problem; return it as text for a table."""
        self.problems.append(f"{what}: {plain(str(error))}")
        return f"none: {plain(str(error))}"


def system_report(
    system: System,
    targets: Sequence[SystemTarget],
    *,
    tolerance: float = 0.01,
    store: str | Path | None = None,
    drawn: str | None = "svg",
    told: Callable[[str], None] = lambda _: None,
) -> Report:
    """Return the report of a system; its noise is sized now, which may take minutes.

    Parameters
    ----------
    system, targets
        The system, and its own goals or others.
    tolerance
        How much smaller the refuted noise is, relatively.
    store
        A store that is asked first, and to which what it lacks is added, as by `pbdist.size`.
    drawn
        The kind of the files of pictures: ``svg`` or ``pdf``; None for a report without pictures.
    told
        Called with a few words on what is done next.

    Raises
    ------
    InvalidInputError, NotAStoreError
        The tolerance or the store is wrong.
    """
    asked = _Asked(system, tolerance, store, told)
    forms = [system.settings[0].mechanisms[0].canonical()] if system.settings else []
    answers: list[Block] = [Heading("In short"), Paragraph(meaning(targets))]
    rest: list[Block] = []
    for target in targets:
        sized = list(_sizes(asked, target))
        forms = forms or [noise.mechanism.canonical() for _, noise in sized if isinstance(noise, SizedNoise)][:1]
        answers += [_sized_table(target, sized), Bullets(tuple(_claims(sized)))]
        published = list(_published(asked, target))
        if published:
            rest += [Heading(f"Published noise: {goal_in_words(target)}"), _published_table(target, published)]
        if drawn is not None:
            told(f"drawing: {target.compositions:,} rounds")
            rest += [Heading(f"Picture: {goal_in_words(target)}"), *_picture(asked, target, sized, drawn)]
    top = []
    if asked.problems:
        text = "The tables say where there is no answer, and why."
        top.append(Notice(NOTE, f"{len(asked.problems):,} questions have no answer", (text, *asked.problems)))
    readings = system.observation.readings if isinstance(system.observation, NoisyCounts) else ()
    blocks = [*top, *answers, *rest, *_what(system, targets, forms), *assumed(forms, readings)]
    blocks += [Heading("How it was checked"), *_checked(asked, targets), Heading("Provenance"), *made_by()]
    about = f"{plain(system.description)} Sized with certified bounds on δ(ε), by pbdist."
    return Report(Document(f"Noise for {named(system.name)}", about, tuple(blocks)), whole=not asked.problems)


def _what(system: System, targets: Sequence[SystemTarget], forms: Sequence[Any]) -> Iterator[Block]:
    yield Heading("What was studied")
    kinds = sorted({kind for form in forms for kind in kinds_of(form)})
    yield Bullets((plain(system.description), *does(kinds)))
    if isinstance(system.observation, NoisyCounts):
        counts = [
            f"count {number}: one user's action changes it by at most {count.shift}"
            + (", in the opposite direction" if count.reversed else "")
            + (f"; its noise has {exact(count.share)} of mean and scale" if count.share != 1 else "")
            for number, count in enumerate(system.observation.counts, 1)
        ]
        yield Bullets(tuple(counts))
    names = parameter_rows(forms)
    if names:
        yield Table("Parameters and their units", (Column("parameter"), Column("meaning, unit")), names)
    origins = [f"goal {goal_in_words(target)}: {plain(target.origin)}" for target in targets]
    yield Bullets((*origins, *(f"source: {plain(source)}" for source in system.sources)))


def _checked(asked: _Asked, targets: Sequence[SystemTarget]) -> Iterator[Block]:
    source = "" if asked.store is None else " A store was asked first; its files were not checked for this page."
    yield Paragraph(
        "Bounds were computed with every rounding accounted for. A certificate that does not hold is not printed: the"
        f" search would have ended with an error.{source} This command sizes noise again:"
    )
    words = ["pbdist", "size", "--system", asked.system.name, "--tolerance", repr(asked.tolerance)]
    if tuple(targets) == asked.system.targets:
        yield Command(command(*words))
        return
    for one in targets:
        goal = ("--compositions", str(one.compositions), "--epsilon", repr(one.epsilon), "--delta", repr(one.delta))
        yield Command(command(*words, *goal))


def _sizes(asked: _Asked, target: SystemTarget) -> Iterator[tuple[str, SizedNoise | str]]:
    """Yield for each kind of noise and each reading that describes a system the smallest noise found."""
    observation = asked.system.observation
    wanted: list[tuple[str, dict[str, Any]]] = [(_kind(asked.system), {})]
    if isinstance(observation, NoisyCounts):
        # No size follows from the other reading: at a mean of 0 its cut hides half of the noise.
        readings = [reading for reading in observation.readings if reading != SHIFT_INSIDE]
        wanted = [
            (f"{noise.__name__}, {reading}", {"noise": noise, "reading": reading})
            for reading in readings
            for noise in _NOISES
        ]
    for name, options in wanted:
        asked.told(f"sizing: {name}, {target.compositions:,} rounds")
        try:
            with warnings.catch_warnings():
                # The table says it.
                warnings.simplefilter("ignore", PrecisionWarning)
                yield name, size_system(asked.system, target, tolerance=asked.tolerance, store=asked.store, **options)
        except PbdistError as error:
            yield name, asked.failed(f"{name}, {target.compositions:,} rounds", error)


def _kind(system: System) -> str:
    return "" if isinstance(system.observation, NoisyCounts) else system.observation.kind.__name__


def _sized_table(target: SystemTarget, sized: Sequence[tuple[str, SizedNoise | str]]) -> Table:
    rows: list[tuple[str, ...]] = []
    for name, noise in sized:
        if isinstance(noise, str):
            rows.append((name, noise, *[""] * (len(_SIZED) - 2)))
            continue
        messages = "" if noise.expected_messages is None else f"about {noise.expected_messages:.6g}"
        less = f" ({100.0 * (1.0 - noise.refuted_scale / noise.scale):.3g} % less)"
        rows.append(
            (
                name,
                _amounts(noise.scale, noise.mean),
                rounded_up(noise.delta_upper),
                _amounts(noise.refuted_scale, noise.refuted_mean) + less,
                rounded_down(noise.refuted_delta_lower),
                messages,
            )
        )
    columns: tuple[Column, ...] = _SIZED
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return Table(f"The smallest noise found for {goal_in_words(target)}", columns, tuple(rows))


def _amounts(scale: float, mean: float | None) -> str:
    return f"scale {exact(scale)}" + ("" if mean is None else f", mean {exact(mean)}")


def _claims(sized: Sequence[tuple[str, SizedNoise | str]]) -> Iterator[str]:
    found = [noise for _, noise in sized if isinstance(noise, SizedNoise)]
    yield (
        "Will do: the upper bound on δ is at most that of the goal. Refuted: the lower bound exceeds it, so that no"
        " other computation can prove the opposite."
    )
    yield "Nothing is claimed of noise between the one that will do and the one that is refuted."
    if any(noise.ordered for noise in found):
        yield "Every scale below a refuted one is refuted too: more noise provably hides at least as much."
    counts = sorted({len(noise.scanned) for noise in found if not noise.ordered})
    if counts:
        yield (
            "For this noise no order is proved: less of it is not known to be worse. Beside the refuted noise of the"
            f" table {' or '.join(map(str, counts))} other smaller ones were refuted, each by a bound of its own."
            " Nothing is claimed of the noise between them, nor that none smaller will do."
        )
    if any(noise.mean is None for noise in found) and any("RandomizedResponse" in name for name, _ in sized):
        yield "The scale of randomized response is the probability 1 - p of a lie."


def _published(asked: _Asked, target: SystemTarget) -> Iterator[tuple[str, str, str, Pair]]:
    """Yield name, parameters, origin and pair of the noise published for these rounds, or for no number of them."""
    observation = asked.system.observation
    for setting in asked.system.settings:
        if setting.compositions not in (None, target.compositions):
            continue
        readings = observation.readings if isinstance(observation, NoisyCounts) else ("",)
        for reading, pair in zip(readings, setting.mechanisms, strict=True):
            name = ", ".join(part for part in (plain(setting.name), reading) if part)
            yield name, parameters(pair.canonical()), plain(setting.origin), pair


def _published_table(target: SystemTarget, published: Sequence[tuple[str, str, str, Pair]]) -> Table:
    rows = []
    for name, told, origin, pair in published:
        try:
            bracket = judge(pair, target)
        except PbdistError as error:
            rows.append((name, told, origin, "", "", f"not judged: {plain(str(error))}"))
            continue
        bounds = bracket_text(bracket.lower, bracket.upper, attained=pair.attained_by_some)
        rows.append((name, told, origin, *bounds, VERDICTS[bracket.verdict(target.delta)]))
    return Table(f"Published noise at {goal_in_words(target)}", _PUBLISHED, tuple(rows))


def _picture(
    asked: _Asked, target: SystemTarget, sized: Sequence[tuple[str, SizedNoise | str]], drawn: str
) -> Iterator[Block]:
    """Yield the (ε, δ) graph of what was found and what was published, under the protocol's own reading."""
    observation = asked.system.observation
    own = observation.readings[0] if isinstance(observation, NoisyCounts) else ""
    found = [
        (f"smallest {name}", noise.mechanism) for name, noise in sized if isinstance(noise, SizedNoise) and own in name
    ]
    published = [(name, pair) for name, _, _, pair in _published(asked, target) if own in name]
    yield from computed_picture([*found, *published], target, drawn)
