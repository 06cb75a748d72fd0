"""The report of a system: the smallest noise found that meets its targets, with certificates, and published noise."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from xarray import Dataset

from pbdist.bounds.delta import privacy_bounds
from pbdist.errors import PbdistError, PrecisionWarning
from pbdist.mechanisms import Gaussian, Laplace, Pair
from pbdist.mechanisms.counts import SHIFT_INSIDE
from pbdist.progress import reported
from pbdist.provenance import provenance
from pbdist.query import open_study
from pbdist.report.pages.answers import messages_in_words
from pbdist.report.pages.document import (
    NOTE,
    Block,
    Bullets,
    Command,
    Document,
    Heading,
    Notice,
    Paragraph,
    Table,
    command,
)
from pbdist.report.pages.pictures import epsilon_delta
from pbdist.report.pages.words import assumed, explained, meaning, parameters, software, target_in_words
from pbdist.results import Bracket, Verdict
from pbdist.rounding import exact, rounded_down, rounded_up
from pbdist.sizing.api import checked_part
from pbdist.sizing.families import CountNoise
from pbdist.sizing.sized import Answer, SizedNoise, answers_sheet
from pbdist.sizing.systems import NoisyCounts, System, SystemTarget, judge, size_system

#: The name of `SizedNoise.scale` where it is no scale.
_AMOUNTS = {"Poisson": "mean", "RandomizedResponse": "lie probability", "KaryRandomizedResponse": "lie probability"}
_NOISES: tuple[CountNoise, ...] = (Laplace, Gaussian)
#: Of a picture: curves, and points and relative width of each.
_MAX_CURVES, _POINTS, _WIDTH = 4, 25, 0.1

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class _Size:
    """The smallest noise found of one kind, under one reading of counts."""

    kind: str
    reading: str
    found: SizedNoise

    def __str__(self) -> str:
        meets = self.found.printed.meets
        name = self.kind if "Response" in self.kind else f"{self.kind} noise"
        reading = f" (reading {self.reading})" if self.reading else ""
        return f"{name} of {_amounts(meets.scale, meets.mean, self.kind)}{reading}"

    @property
    def messages(self) -> float | None:
        """How many messages it takes, as printed; None for noise that is none."""
        return self.found.printed.messages


def _amounts(scale: str, mean: str | None, kind: str = "") -> str:
    return f"{_AMOUNTS.get(kind, 'scale')} {scale}" if mean is None else f"mean {mean} and scale {scale}"


class _Answers:
    """Sizes the noise of a system and judges published noise; `problems` are the questions without an answer."""

    def __init__(self, system: System, options: dict[str, Any]) -> None:
        self.system, self.options = system, options
        self.problems: list[str] = []
        observation = system.observation
        self.readings: Sequence[str] = observation.readings if isinstance(observation, NoisyCounts) else ("",)
        # No size follows from the other reading: at a mean of 0 its cut hides half of the noise.
        self.sized_readings = [reading for reading in self.readings if reading != SHIFT_INSIDE]
        #: The reading of the protocol, which its file names first.
        self.own = next(iter(self.sized_readings), "")

    def try_to(self, subject: str, compute: Callable[[], _Value]) -> _Value | None:
        """Return what is computed; if it fails, record the problem and return None."""
        try:
            return compute()
        except PbdistError as error:
            self.problems.append(f"{subject}: {error}")
            return None

    def sizes(self, target: SystemTarget) -> Iterator[_Size]:
        """Yield the smallest noise found, for each kind of noise and each reading that describes the system."""
        observation = self.system.observation
        where = target_in_words(target)
        kinds: Sequence[Any] = _NOISES if isinstance(observation, NoisyCounts) else (observation.kind,)
        if not self.sized_readings:
            self.problems.append(f"{where}: no size follows from the reading {SHIFT_INSIDE}")
        for reading, kind in reported("size", [*product(self.sized_readings, kinds)]):
            name = f"{kind.__name__}{f', reading {reading}' if reading else ''}"
            options = {**self.options, **({"noise": kind, "reading": reading} if reading else {})}
            found = self.try_to(f"{name}, {where}", lambda: size_system(self.system, target, **options))  # noqa: B023
            if found is not None:
                yield _Size(kind.__name__, reading, found)

    def published_settings(self, target: SystemTarget) -> Iterator[tuple[str, str, str, Pair]]:
        """Yield name, origin, reading and pair of the noise that was published for the rounds of a target, or any."""
        for setting in self.system.settings:
            amounts = parameters(setting.mechanisms[0].canonical())
            if setting.noise is not None:
                mean, scale = exact(setting.mean or 0.0), exact(setting.scale or 0.0)
                amounts = f"{setting.noise.__name__} noise, {_amounts(scale, mean)}"
            if setting.compositions in (None, target.compositions):
                for reading, pair in zip(self.readings, setting.mechanisms, strict=True):
                    yield f"{setting.name} ({amounts})", setting.origin, reading, pair

    def published(self, target: SystemTarget) -> Iterator[str]:
        """Yield the verdicts on published noise, under each reading."""
        found: dict[str, dict[Verdict, list[tuple[str, Bracket]]]] = {}
        for name, origin, reading, pair in reported("published noise", [*self.published_settings(target)]):
            bracket = self.try_to(f"{name}, {target_in_words(target)}", lambda: judge(pair, target))  # noqa: B023
            if bracket is not None:
                found.setdefault(f"{name}, {origin}", {}).setdefault(bracket.verdict(target.delta), []).append(
                    (reading, bracket)
                )
        for name, verdicts in found.items():
            parts = []
            for verdict, brackets in verdicts.items():
                upper = rounded_up(max(bracket.upper for _, bracket in brackets))
                lower = rounded_down(min(bracket.lower for _, bracket in brackets))
                words = {Verdict.MEETS: f"at most {upper}", Verdict.REFUTED: f"at least {lower}"}
                under = f" under {' and '.join(reading for reading, _ in brackets)}" if len(verdicts) > 1 else ""
                parts.append(f"{verdict.value}{under}, δ is {words.get(verdict, f'{lower} to {upper}')}")
            yield f"Published: {name}: {'; '.join(parts)}."

    def curves(self, target: SystemTarget, sizes: Sequence[_Size]) -> dict[str, Dataset]:
        """Return bounds of sized and published noise over ε, under the protocol's own reading."""
        pairs = [(str(one), one.found.printed.meets.mechanism) for one in sizes if one.reading == self.own]
        pairs += [(name, pair) for name, _, reading, pair in self.published_settings(target) if reading == self.own]
        grid = np.linspace(0.0, 2.0 * target.epsilon or 1.0, _POINTS)
        options: Any = {"compositions": target.compositions, "epsilon": grid, "tolerance": _WIDTH}
        drawn: dict[str, Dataset] = {}
        for name, pair in reported("curve", pairs[:_MAX_CURVES]):
            source = self.try_to(f"{name}, not drawn", lambda: privacy_bounds(pair, **options))  # noqa: B023
            if source is not None:
                drawn[name] = source
        return drawn


def system_report(
    system: System,
    targets: Sequence[SystemTarget],
    *,
    tolerance: float = 0.01,
    store: str | Path | None = None,
    file: str | Path | None = None,
    drawn: bool = True,
) -> Document:
    """Return the report of a system; its noise is sized now, which may take minutes.

    The refuted noise is smaller by `tolerance`, relatively. `store` is the store of any study, as of `pbdist.size`: its
    bounds are used, and missing ones are added. `file` describes the system, if it is not one of pbdist's own.
    """
    study = None if store is None else open_study(store)
    found = _Answers(system, {"tolerance": checked_part(tolerance), "store": study})
    blocks: list[Block] = []
    graphs: list[Block] = []
    again: list[Block] = []
    pairs = [setting.mechanisms[0] for setting in system.settings]
    with warnings.catch_warnings():
        # The page says how wide bounds are.
        warnings.simplefilter("ignore", PrecisionWarning)
        for target in reported("target", targets):
            sizes = sorted(found.sizes(target), key=lambda one: (one.reading != found.own, one.messages or 0.0))
            best = next((one for one in sizes if one.reading == found.own), None)
            pairs += [one.found.printed.meets.mechanism for one in sizes]
            blocks += [*_answers(target, best, sizes), Bullets(tuple(found.published(target)))]
            again.append(_sized_again(system, target, best, tolerance, file))
            if drawn:
                graphs.append(epsilon_delta(found.curves(target, sizes), target.compositions, target))
    if found.problems:
        blocks.insert(0, Notice(NOTE, "Not every question has an answer", tuple(found.problems)))
    source = "" if store is None else " Answers of a store were used; its files were not checked for this page."
    forms = [pair.canonical() for pair in pairs]
    origins = (f"Target {target_in_words(target)}: {target.origin}." for target in targets)
    blocks += [
        *graphs[:1],
        Heading("What it means"),
        Paragraph(meaning(targets)),
        *assumed(forms, readings=[reading for reading in found.readings if reading]),
        Heading("Integrity"),
        Paragraph(
            "Bounds were computed with every rounding accounted for. A certificate that does not hold is not printed:"
            f" the search would have ended with an error.{source} To size the noise again:"
        ),
        *again,
        Heading("Provenance"),
        Bullets(
            (
                f"Made with {software(provenance())}.",
                *origins,
                *(f"Source {name}: {text}" for name, text in system.sources.items()),
            )
        ),
    ]
    appendix = [
        ("More pictures", tuple(graphs[1:])),
        ("What was studied", (Bullets(system.observed), *explained(forms))),
    ]
    about = f"{system.description} Sized with certified bounds on δ(ε), by pbdist."
    sections = tuple(section for section in appendix if section[1])
    return Document(f"Noise for {system.name}", about, tuple(blocks), sections, whole=not found.problems)


def _answers(target: SystemTarget, best: _Size | None, sizes: Sequence[_Size]) -> Iterator[Block]:
    """Yield the answer to a target: the fewest messages under the protocol's own reading, then all sizes in a table."""
    if best is None:
        yield Paragraph(f"No noise was found that meets {target_in_words(target)}.", lead=True)
    else:
        several = sum(one.reading == best.reading for one in sizes) > 1
        fewest = ", the fewest of the noises that were sized under this reading" if several else ""
        messages = "" if best.messages is None else f" and takes {messages_in_words(best.messages)}{fewest}"
        lead = f"{best} meets {target_in_words(target)}{messages}. {best.found.less} less noise is refuted."
        yield Paragraph(lead, lead=True)
    if sizes:
        answers = [Answer(target, one.found, f"{one.kind} {one.reading}".strip()) for one in sizes]
        sheet = answers_sheet("", answers, compared=True)
        yield Table(f"Noise that meets the target, and less that is refuted. {' '.join(sheet.notes)}", sheet)


def _sized_again(
    system: System, target: SystemTarget, best: _Size | None, tolerance: float, file: str | Path | None
) -> Block:
    """Return the command that sizes the noise of an answer."""
    words = ["pbdist", "size", "--system", system.name, *([] if file is None else ["--systems", str(file)])]
    words += ["--noise", best.kind, "--reading", best.reading] if best is not None and best.reading else []
    words += ["--compositions", str(target.compositions), "--epsilon", repr(target.epsilon)]
    return Command(command(*words, "--delta", repr(target.delta), "--tolerance", repr(tolerance)))
