"""The report of a system: the smallest noise found that meets its targets, with certificates, and published noise."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
import xarray as xr

from pbdist.bounds.delta import privacy_bounds
from pbdist.errors import PbdistError, PrecisionWarning
from pbdist.mechanisms import Gaussian, Laplace, Pair, pair_from_canonical
from pbdist.mechanisms.noisy_count import SHIFT_INSIDE
from pbdist.provenance import provenance
from pbdist.report.pages.answers import VERDICTS, messages_in_words
from pbdist.report.pages.document import (
    NOTE,
    Block,
    Bullets,
    Command,
    Document,
    Heading,
    Notice,
    Paragraph,
    Report,
    Section,
    command,
    named,
    plain,
)
from pbdist.report.pages.kept_answers import KeptAnswers
from pbdist.report.pages.pictures import Curves, epsilon_delta
from pbdist.report.pages.store_report import software
from pbdist.report.pages.words import assumed, explained, meaning, parameters, target_in_words
from pbdist.results import Bracket, Verdict
from pbdist.rounding import exact, rounded_down, rounded_up
from pbdist.sizing.families import CountNoise
from pbdist.sizing.systems import NoisyCounts, System, SystemTarget, judge, size_system
from pbdist.types import JsonValue

#: What `SizedNoise.scale` is, where it is no scale.
_AMOUNTS = {"Poisson": "mean", "RandomizedResponse": "lie probability", "KaryRandomizedResponse": "lie probability"}
_NOISES: tuple[CountNoise, ...] = (Laplace, Gaussian)
#: So many curves are drawn, of bounds at so many ε that are at most so wide.
_MAX_CURVES, _POINTS, _WIDTH, _LETTERS = 4, 25, 0.1, 30


@dataclass(frozen=True)
class Size:
    """The smallest noise found for a target as it is printed, and its certificate.

    `less` is by which part the refuted noise is smaller, and `scanned` how many other smaller ones are refuted where no
    order is proved.
    """

    noise: str
    reading: str
    scale: str
    mean: str | None
    delta_upper: float
    refuted_scale: str
    refuted_mean: str | None
    refuted_delta_lower: float
    less: float
    messages: float | None
    ordered: bool
    scanned: int
    mechanism: JsonValue


@dataclass
class _Asked:
    """A system, how its noise is sized, where answers are kept, who is told, and what could not be answered."""

    system: System
    tolerance: float
    store: str | Path | None
    file: str | Path | None
    kept: KeptAnswers
    told: Callable[[str], None]
    problems: list[str]

    def answer(self, kind: str, target: SystemTarget, seek: Callable[[], JsonValue], **more: JsonValue) -> JsonValue:
        """Return the answer to a question on the system at a target, a kept one if there is."""
        told = {"kind": kind, "compositions": target.compositions, "epsilon": target.epsilon, "delta": target.delta}
        with warnings.catch_warnings():
            # The page says how wide bounds are.
            warnings.simplefilter("ignore", PrecisionWarning)
            return self.kept.answer({**told, **more}, seek)


def system_report(
    system: System,
    targets: Sequence[SystemTarget],
    *,
    tolerance: float = 0.01,
    sizes: Path | None = None,
    store: str | Path | None = None,
    file: str | Path | None = None,
    drawn: bool = True,
    told: Callable[[str], None] = lambda _: None,
) -> Report:
    """Return the report of a system; its noise is sized now, which may take minutes, unless it was sized before.

    Parameters
    ----------
    system, targets
        The system, and its own targets or others.
    tolerance
        How much smaller the refuted noise is, relatively.
    sizes
        A file in which every answer is kept as soon as it is found; another report of the same system begins with it.
    store
        A store that is asked first, and to which what it lacks is added, as by `pbdist.size`.
    file
        Where the system is described, if it is not one of pbdist's own.
    drawn
        Whether there are pictures.
    told
        Called with a few words on what is done next.

    Raises
    ------
    InvalidInputError, NotAStoreError
        The tolerance, the file or the store is wrong.
    """
    asked = _Asked(system, tolerance, store, file, KeptAnswers(sizes), told, [])
    blocks: list[Block] = []
    graphs: list[tuple[Block, ...]] = []
    forms: list[Any] = [setting.mechanisms[0].canonical() for setting in system.settings[:1]]
    found: dict[SystemTarget, list[Size]] = {}
    for number, target in enumerate(targets):
        told(f"target {number + 1} of {len(targets)}: {target_in_words(target)}")
        found[target] = [*_sizes(asked, target)]
        blocks += [*_answers(system, target, found[target]), Bullets(tuple(_published(asked, target)))]
        forms = forms or [one.mechanism for one in found[target][:1]]
    if drawn:
        graphs = [
            tuple(epsilon_delta(_curves(asked, target, found[target]), target.compositions, target))
            for target in targets
        ]
    readings = system.observation.readings if isinstance(system.observation, NoisyCounts) else ()
    if asked.problems:
        blocks.insert(0, Notice(NOTE, "Not every question has an answer", tuple(asked.problems)))
    blocks += [
        *(graphs[0] if graphs else ()),
        Heading("What it means"),
        Paragraph(f"{meaning(targets)} {_order(found)}"),
    ]
    blocks += [*assumed(forms, readings=readings), Heading("Integrity"), *_integrity(asked, targets)]
    blocks += [Heading("Provenance"), Bullets((f"Made with {software(provenance())}.", *_origins(system, targets)))]
    appendix = [Section("What was studied", tuple(_what(system, forms)))]
    if len(graphs) > 1:
        appendix.insert(0, Section("More pictures", tuple(block for graph in graphs[1:] for block in graph)))
    about = f"{plain(system.description)} Sized with certified bounds on δ(ε), by pbdist."
    document = Document(f"Noise for {named(system.name)}", about, tuple(blocks), tuple(appendix))
    return Report(document, whole=not asked.problems)


def _sizes(asked: _Asked, target: SystemTarget) -> Iterator[Size]:
    """Yield for each kind of noise and each reading that describes a system the smallest noise found."""
    observation = asked.system.observation
    wanted: list[tuple[CountNoise | None, str | None]] = [(None, None)]
    if isinstance(observation, NoisyCounts):
        # No size follows from the other reading: at a mean of 0 its cut hides half of the noise.
        readings = [reading for reading in observation.readings if reading != SHIFT_INSIDE]
        wanted = [(noise, reading) for reading in readings for noise in _NOISES]
        asked.problems += (
            [] if wanted else [f"{target_in_words(target)}: no size follows from the reading {SHIFT_INSIDE}"]
        )
    for number, (noise, reading) in enumerate(wanted, 1):
        name = getattr(observation, "kind", noise).__name__  # type: ignore[union-attr]
        told = f"{name}{f', reading {reading}' if reading else ''}"
        asked.told(f"sizing {number} of {len(wanted)}: {told}, {target.compositions:,} rounds")

        def seek(noise: CountNoise | None = noise, reading: str | None = reading, name: str = name) -> JsonValue:
            return asdict(_sized(asked, target, noise, reading, name))

        question = {"observation": repr(observation), "noise": name, "reading": reading, "tolerance": asked.tolerance}
        try:
            yield Size(**asked.answer("size", target, seek, **question))
        except PbdistError as error:
            asked.problems.append(f"{told}, {target_in_words(target)}: {plain(str(error))}")


def _sized(asked: _Asked, target: SystemTarget, noise: CountNoise | None, reading: str | None, name: str) -> Size:
    options = {"noise": noise, "reading": reading, "tolerance": asked.tolerance, "store": asked.store}
    sized = size_system(asked.system, target, **options)  # type: ignore[arg-type]
    printed = sized.printed
    meets, refuted = printed.meets, printed.refuted
    return Size(
        noise=name,
        reading=reading or "",
        scale=meets.scale,
        mean=meets.mean,
        delta_upper=meets.bound,
        refuted_scale=refuted.scale,
        refuted_mean=refuted.mean,
        refuted_delta_lower=refuted.bound,
        less=sized.tolerance if sized.within_tolerance else 1.0 - sized.refuted_scale / sized.scale,
        messages=printed.messages,
        ordered=sized.ordered,
        scanned=len(sized.scanned),
        mechanism=meets.mechanism.canonical(),
    )


def _own_reading(system: System) -> str:
    """Return the reading that a protocol has, which its file names first; empty for other observations."""
    readings = system.observation.readings if isinstance(system.observation, NoisyCounts) else ()
    return next((reading for reading in readings if reading != SHIFT_INSIDE), "")


def _answers(system: System, target: SystemTarget, found: Sequence[Size]) -> Iterator[Block]:
    """Yield the answer to a target: the fewest messages under the protocol's own reading, then the rest."""
    own = _own_reading(system)
    ordered = sorted(found, key=lambda one: (one.reading != own, one.messages or 0.0))
    first = [one for one in ordered if one.reading == own]
    if not first:
        yield Paragraph(f"No noise was found that meets {target_in_words(target)}.", lead=True)
    for one in first[:1]:
        fewest = ", the fewest of the noises that were sized under this reading" if len(first) > 1 else ""
        messages = "" if one.messages is None else f" It takes {messages_in_words(one.messages)}{fewest}."
        lead = f"{_noise(one)} meets {target_in_words(target)}; {_less(one)} noise is refuted.{messages}"
        yield Paragraph(lead, lead=True)
    told = []
    for one in ordered:
        refuted = _amounts(one.refuted_scale, one.refuted_mean, one.noise)
        messages = "" if one.messages is None or len(ordered) == 1 else f", with {messages_in_words(one.messages)}"
        told.append(
            f"{_noise(one)} meets the target{messages}: δ is at most {rounded_up(one.delta_upper)}; {refuted},"
            f" {_less(one)}, is refuted: δ is at least {rounded_down(one.refuted_delta_lower)}."
        )
    yield Bullets(tuple(told))


def _noise(one: Size) -> str:
    reading = f" (reading {one.reading})" if one.reading else ""
    name = one.noise if "Response" in one.noise else f"{one.noise} noise"
    return f"{name} of {_amounts(one.scale, one.mean, one.noise)}{reading}"


def _amounts(scale: str, mean: str | None, noise: str = "") -> str:
    return f"{_AMOUNTS.get(noise, 'scale')} {scale}" if mean is None else f"mean {mean} and scale {scale}"


def _less(one: Size) -> str:
    return f"{rounded_up(100.0 * one.less, 3)} % less"


def _order(found: Mapping[SystemTarget, Sequence[Size]]) -> str:
    """Return what is proved of less noise than the refuted one."""
    every = [one for sizes in found.values() for one in sizes]
    told = []
    if any(one.ordered for one in every):
        told.append("Every scale below a refuted one is refuted too: more noise provably hides at least as much.")
    counts = sorted({one.scanned for one in every if not one.ordered})
    if counts:
        told.append(
            "For this noise no order is proved: less of it is not known to be worse. Beside the refuted noise"
            f" {' or '.join(map(str, counts))} other smaller ones were refuted, each by a bound of its own."
        )
    return " ".join(told)


def _published(asked: _Asked, target: SystemTarget) -> Iterator[str]:
    """Yield the verdicts on the noise published for these rounds, or for any, under each reading."""
    found: dict[str, dict[Verdict, list[tuple[str, Bracket]]]] = {}
    settings = [*_settings(asked.system, target)]
    if settings:
        asked.told(f"judging published noise: {len(settings)} settings, {target.compositions:,} rounds")
    for name, reading, pair in settings:

        def seek(pair: Pair = pair) -> JsonValue:
            return asdict(judge(pair, target))

        try:
            bracket = Bracket(**asked.answer("judge", target, seek, mechanism=pair.canonical()))
        except PbdistError as error:
            asked.problems.append(f"{name}, {target_in_words(target)}: {plain(str(error))}")
            continue
        found.setdefault(name, {}).setdefault(bracket.verdict(target.delta), []).append((reading, bracket))
    for name, verdicts in found.items():
        told = []
        for verdict, brackets in verdicts.items():
            upper = rounded_up(max(bracket.upper for _, bracket in brackets))
            lower = rounded_down(min(bracket.lower for _, bracket in brackets))
            bound = {Verdict.MEETS: f"at most {upper}", Verdict.REFUTED: f"at least {lower}"}.get(
                verdict, f"{lower} to {upper}"
            )
            under = f" under {' and '.join(reading for reading, _ in brackets)}" if len(verdicts) > 1 else ""
            told.append(f"{VERDICTS[verdict]}{under}, δ is {bound}")
        yield f"Published: {name}: {'; '.join(told)}."


def _settings(system: System, target: SystemTarget) -> Iterator[tuple[str, str, Pair]]:
    """Yield name, reading and pair of published noise."""
    readings = system.observation.readings if isinstance(system.observation, NoisyCounts) else ("",)
    for setting in system.settings:
        told = parameters(setting.mechanisms[0].canonical())
        if setting.noise is not None:
            told = (
                f"{setting.noise.__name__} noise, {_amounts(exact(setting.scale or 0.0), exact(setting.mean or 0.0))}"
            )
        if setting.compositions in (None, target.compositions):
            for reading, pair in zip(readings, setting.mechanisms, strict=True):
                yield f"{plain(setting.name)} ({told}; {plain(setting.origin)})", reading, pair


def _curves(asked: _Asked, target: SystemTarget, found: Sequence[Size]) -> Curves:
    """Return bounds of what was found and published, under the protocol's own reading, at a few ε."""
    own = _own_reading(asked.system)
    shown = [(_noise(one), pair_from_canonical(one.mechanism)) for one in found if one.reading == own]
    shown += [(name, pair) for name, reading, pair in _settings(asked.system, target) if reading == own]
    grid = np.linspace(0.0, 2.0 * target.epsilon or 1.0, _POINTS)
    told: dict[str, tuple[Any, str]] = {}
    for letter, (name, pair) in zip(ascii_uppercase, shown[:_MAX_CURVES], strict=False):
        asked.told(f"drawing {len(told) + 1} of {len(shown[:_MAX_CURVES])}, {target.compositions:,} rounds")

        def seek(pair: Pair = pair) -> JsonValue:
            asked_for = {"compositions": target.compositions, "epsilon": grid, "tolerance": _WIDTH}
            found: JsonValue = privacy_bounds(pair, **asked_for).to_dict()  # type: ignore[arg-type]
            return found

        source = None
        try:
            source = xr.Dataset.from_dict(
                asked.answer("curve", target, seek, mechanism=pair.canonical(), drawn=[_POINTS, _WIDTH])
            )
        except PbdistError as error:
            asked.problems.append(f"{name}, not drawn: {plain(str(error))}")
        told[f"{letter}: {name.partition(' (')[0].partition(' noise of')[0]}"[:_LETTERS]] = source, f"{letter}: {name}"
    return told


def _integrity(asked: _Asked, targets: Sequence[SystemTarget]) -> Iterator[Block]:
    source = "" if asked.store is None else " A store was asked first; its files were not checked for this page."
    kept = f" {asked.kept.reused:,} answers were found before and kept, each with its checksum." * bool(
        asked.kept.reused
    )
    yield Paragraph(
        "Bounds were computed with every rounding accounted for. A certificate that does not hold is not printed: the"
        f" search would have ended with an error.{source}{kept} This command sizes noise again:"
    )
    words = ["pbdist", "size", "--system", asked.system.name, "--tolerance", repr(asked.tolerance)]
    words += [] if asked.file is None else ["--systems", str(asked.file)]
    if tuple(targets) == asked.system.targets:
        yield Command(command(*words))
        return
    for one in targets:
        target = ("--compositions", str(one.compositions), "--epsilon", repr(one.epsilon), "--delta", repr(one.delta))
        yield Command(command(*words, *target))


def _origins(system: System, targets: Sequence[SystemTarget]) -> Iterator[str]:
    yield from (f"Target {target_in_words(target)}: {plain(target.origin)}." for target in targets)
    yield from (f"Source: {plain(source)}" for source in system.sources)


def _what(system: System, forms: Sequence[Any]) -> Iterator[Block]:
    observation = system.observation
    counts = observation.counts if isinstance(observation, NoisyCounts) else ()
    given = () if isinstance(observation, NoisyCounts) else observation.parameters
    yield Bullets(
        (
            *(f"{name} {exact(value)}" for name, value in given),
            *(
                f"count {number}: one user's action changes it by at most {count.shift}"
                + (", in the opposite direction" if count.reversed else "")
                + (f"; its noise has {exact(count.share)} of mean and scale" if count.share != 1 else "")
                for number, count in enumerate(counts, 1)
            ),
        )
    )
    yield from explained(forms)
