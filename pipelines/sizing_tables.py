"""Write the tables of docs/results.md: systems, their published noise, and the smallest noise found.

    python -m pipelines.sizing_tables [--systems FILE] [--folder docs/results]

Progress goes to stderr.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pbdist.errors import PbdistError
from pbdist.mechanisms import Gaussian, Laplace, Pair
from pbdist.mechanisms.counts import SHIFT_INSIDE
from pbdist.rounding import exponential, rounded_down, rounded_up
from pbdist.sizing.families import CountNoise
from pbdist.sizing.sized import SizedNoise
from pbdist.sizing.systems import (
    NoisyCounts,
    PublishedSetting,
    System,
    SystemTarget,
    judge,
    load_systems,
    size_system,
)
from pipelines.csv_tables import csv_text

_Row = tuple[str, ...]

_ROOT = Path(__file__).resolve().parents[1]
_NOISES: tuple[CountNoise, ...] = (Laplace, Gaussian)
_DIGITS = 3
_READINGS = ("clamp-and-ceil", "redraw-and-floor", SHIFT_INSIDE)


def sizing_tables(
    systems: Iterable[System], tolerance: float = 0.01, progress: Callable[[str], None] | None = None
) -> tuple[dict[str, str], list[str]]:
    """Return three tables as CSV by their names, and the errors of rows without an answer.

    `published` has the noise published for counts under each reading, `smallest` the smallest Laplace and Gaussian
    noise under the readings that describe a system, with certificates, and `amounts` the systems with one amount of
    noise. Where nothing can be sized or judged, as for a target that no noise meets, the row says why.

    Parameters
    ----------
    systems : iterable of System
    tolerance : float, optional
        How much smaller the refuted noise is, relatively.
    progress : callable, optional
        Called with a text on the current computation.
    """
    run = _Run(tolerance, progress or (lambda _: None))
    published: list[_Row] = []
    smallest: list[_Row] = []
    amounts: list[_Row] = []
    for system in systems:
        for target in system.targets:
            if isinstance(system.observation, NoisyCounts):
                published += _published(system, system.observation, target, run)
                smallest += _smallest(system, system.observation, target, run)
            else:
                amounts.append(_amount(system, target, run))
    start = ("system", "target")
    counts = ("mean", "scale", "messages a round")
    return {
        "published": csv_text((*start, "published noise", *counts, *_READINGS), published),
        "smallest": csv_text(
            (*start, "smallest noise", "reading", *counts, *run.heads, "smaller ones refuted", "messages saved"),
            smallest,
        ),
        "amounts": csv_text((*start, "published noise", "smallest noise", *run.heads), amounts),
    }, run.problems


@dataclass
class _Run:
    """The tolerance, the current computation, and the errors so far."""

    tolerance: float
    report: Callable[[str], None]
    doing: str = ""
    problems: list[str] = field(default_factory=list)

    def begin(self, text: str) -> None:
        """Report the current computation."""
        self.doing = text
        self.report(text)

    def failed(self, error: PbdistError) -> str:
        """Add an error; return its text for a table."""
        self.problems.append(f"{self.doing}: {error}")
        return str(error)

    @property
    def heads(self) -> tuple[str, str]:
        """The heads of the two bounds."""
        return "meets: δ at most", f"{100 * self.tolerance:g} % less is refuted: δ at least"


def _published(system: System, observation: NoisyCounts, target: SystemTarget, run: _Run) -> Iterator[_Row]:
    """Yield rows of the noise published for the target's rounds, or for no number of rounds."""
    for setting in system.settings:
        if setting.compositions not in (None, target.compositions):
            continue
        run.begin(f"{system.name}, {target.compositions:,} rounds: {_name(setting)}")
        verdicts = {
            reading: _verdict(mechanism, target, run)
            for reading, mechanism in zip(observation.readings, setting.mechanisms, strict=True)
        }
        numbers = setting.mean, setting.scale, _messages(observation, setting)
        in_order = (verdicts.get(reading, "") for reading in _READINGS)
        yield (system.name, _target(target), _name(setting), *map(_number, numbers), *in_order)


def _smallest(system: System, observation: NoisyCounts, target: SystemTarget, run: _Run) -> Iterator[_Row]:
    known = next((setting for setting in system.settings if setting.compositions == target.compositions), None)
    for reading in observation.readings:
        if reading == SHIFT_INSIDE:
            # Its pair is that of a true count of 0, where the cut hides half of the noise: no size follows from it.
            continue
        for noise in _NOISES:
            run.begin(f"{system.name}, {target.compositions:,} rounds: smallest {noise.__name__}, {reading}")
            start = (system.name, _target(target), noise.__name__, reading)
            try:
                sized = size_system(system, target, noise=noise, reading=reading, tolerance=run.tolerance)
                found = sized.printed
            except PbdistError as error:
                yield (*start, f"none: {run.failed(error)}", *[""] * 6)
                continue
            messages = found.messages or 0.0
            saved = ""
            if known is not None:
                part = 1.0 - messages / _messages(observation, known, reading)
                saved = f"{_percent(part)} against {_name(known)}"
            # The noise is one that meets the target as it stands here: like its decimals, messages are rounded up.
            numbers = float(found.meets.mean or 0.0), float(found.meets.scale), float(rounded_up(messages))
            yield (*start, *map(_number, numbers), *_bounds(sized), str(len(sized.scanned) + 1), saved)


def _amount(system: System, target: SystemTarget, run: _Run) -> _Row:
    run.begin(f"{system.name}, {target.compositions:,} rounds")
    published = "; ".join(
        f"{setting.name} {_plain(setting)}: {_verdict(setting.mechanisms[0], target, run)}"
        for setting in system.settings
    )
    start = (system.name, _target(target), published or "none")
    try:
        sized = size_system(system, target, tolerance=run.tolerance)
        scale = float(sized.printed.meets.scale)
    except PbdistError as error:
        return (*start, f"none: {run.failed(error)}", "", "")
    kind = type(sized.mechanism).__name__
    amount = {"Poisson": "mean", "RandomizedResponse": "1 - p ="}.get(kind, "scale")
    return (*start, f"{amount} {_number(scale)}", *_bounds(sized))


def _bounds(sized: SizedNoise) -> tuple[str, str]:
    """Return the two bounds as they are printed, and how much less the refuted noise is, where not the tolerance."""
    text = rounded_down(sized.printed.refuted.bound, _DIGITS)
    wide = "" if sized.within_tolerance else f" (of {_percent(1.0 - sized.refuted_scale / sized.scale)} less)"
    return rounded_up(sized.printed.meets.bound, _DIGITS), text + wide


def _messages(observation: NoisyCounts, setting: PublishedSetting, reading: str | None = None) -> float:
    if setting.noise is None or setting.mean is None or setting.scale is None:
        return 0.0
    return observation.family(setting.noise, reading).messages(setting.mean, setting.scale)


def _target(target: SystemTarget) -> str:
    rounds = f"{target.compositions:,} round" + ("s" if target.compositions > 1 else "")
    plain, power = f"ε = {target.epsilon:.6g}", f"e^ε = {exponential(target.epsilon):.6g}"
    return f"δ <= {target.delta:g} at {min(plain, power, key=len)} after {rounds}"


def _verdict(mechanism: Pair, target: SystemTarget, run: _Run) -> str:
    try:
        bracket = judge(mechanism, target)
    except PbdistError as error:
        return f"not judged: {run.failed(error)}"
    if bracket.upper <= target.delta:
        return f"meets, δ <= {rounded_up(bracket.upper, _DIGITS)}"
    return f"**refuted**, δ >= {rounded_down(bracket.lower, _DIGITS)}" if bracket.lower > target.delta else "undecided"


def _name(setting: PublishedSetting) -> str:
    return setting.name if setting.noise is None else f"{setting.name} ({setting.noise.__name__})"


def _plain(setting: PublishedSetting) -> str:
    """Return the numbers of the mechanism of a setting that is not on counts."""
    form = setting.mechanisms[0].canonical()
    return ", ".join(f"{name} {value:g}" for name, value in form.items() if isinstance(value, float))


def _number(value: float | None) -> str:
    """Return a number as it is given, or in 6 digits; with thousands apart."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1e5 or value == round(value) else f"{float(f'{value:.6g}'):,}"


def _percent(part: float) -> str:
    return f"{100.0 * part:.1f} %"


def main(arguments: list[str] | None = None) -> int:
    """Write the tables; return 1 if rows have no answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", help="the systems, in place of those that come with pbdist")
    parser.add_argument("--tolerance", type=float, default=0.01, help="how much smaller the refuted noise is (0.01)")
    parser.add_argument("--folder", type=Path, default=_ROOT / "docs" / "results", help="the folder of the tables")
    options = parser.parse_args(arguments)
    try:
        systems = load_systems(options.systems)
    except PbdistError as error:
        print(error, file=sys.stderr)
        return 1
    tables, problems = sizing_tables(systems, options.tolerance, lambda text: print(text, file=sys.stderr))
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        (options.folder / f"{name}.csv").write_text(table, encoding="utf-8")
    for problem in problems:
        print(f"no answer: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
