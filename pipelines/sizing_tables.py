"""Print the tables of docs/results.md: systems, their published noise, and the smallest noise found, as Markdown.

    python -m pipelines.sizing_tables [--systems FILE]

Progress goes to stderr.
"""

import argparse
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from pbdist.errors import BatchError, PbdistError
from pbdist.mechanisms import Gaussian, Laplace, Pair
from pbdist.mechanisms.noisy_count import SHIFT_INSIDE
from pbdist.rounding import rounded_down, rounded_up
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
from pbdist.study.spec import exponential

_NOISES: tuple[CountNoise, ...] = (Laplace, Gaussian)
_DIGITS, _WIDTH = 3, 120


def sizing_table(
    systems: Iterable[System], tolerance: float = 0.01, progress: Callable[[str], None] | None = None
) -> Iterator[str]:
    """Yield the lines of the printed tables, computed one after the other.

    A system with noisy counts has its description, and each of its targets two tables: the published noise under
    each reading, and the smallest Laplace and Gaussian noise under the readings that describe a system, with
    certificates. The other systems share one table. Where nothing can be sized or judged, as for a target that no
    noise meets, the row says why and the table goes on.

    Parameters
    ----------
    systems : iterable of System
    tolerance : float, optional
        How much smaller the refuted noise is, relatively.
    progress : callable, optional
        Called with a text on what is being computed.

    Raises
    ------
    BatchError
        After the last line, if rows say why they have no answer.
    """
    asked = _Asked(tolerance, progress or (lambda _: None))
    others = []
    for system in systems:
        if not isinstance(system.observation, NoisyCounts):
            others.append(system)
            continue
        for number, target in enumerate(system.targets):
            yield f"#### `{system.name}`: {_target(target)}"
            yield ""
            if number == 0:
                yield from [*textwrap.wrap(system.description, _WIDTH), ""]
            yield from _published(system, system.observation, target, asked)
            yield ""
            yield from _smallest(system, system.observation, target, asked)
            yield ""
    if others:
        yield "#### One amount of noise"
        yield ""
        yield from _amounts(others, asked)
    if asked.problems:
        number = len(asked.problems)
        rows = "an entry" if number == 1 else f"{number} entries"
        raise BatchError(f"table: expected an answer everywhere, got none for {rows}: {asked.problems[0]}")


@dataclass
class _Asked:
    """How close answers are to be; says what is being computed, and keeps the errors of what could not be."""

    tolerance: float
    report: Callable[[str], None]
    doing: str = ""
    problems: list[str] = field(default_factory=list)

    def begin(self, text: str) -> None:
        """Say what is being computed."""
        self.doing = text
        self.report(text)

    def failed(self, error: PbdistError) -> str:
        """Keep an error; return its text for a Markdown table."""
        self.problems.append(f"{self.doing}: {error}")
        return str(error).replace("|", "\\|")

    @property
    def heads(self) -> tuple[str, str]:
        """The heads of the two bounds."""
        return "meets: δ at most", f"{100 * self.tolerance:g} % less is refuted: δ at least"


def _published(system: System, observation: NoisyCounts, target: SystemTarget, asked: _Asked) -> Iterator[str]:
    """Yield rows of the noise published for the target's rounds, or for no number of rounds."""
    yield _row("published noise", "mean", "scale", "messages a round", *observation.readings)
    yield "|---|---:|---:|---:|" + "---|" * len(observation.readings)
    for setting in system.settings:
        if setting.compositions not in (None, target.compositions):
            continue
        asked.begin(f"{system.name}, {target.compositions:,} rounds: {_name(setting)}")
        verdicts = [_verdict(mechanism, target, asked) for mechanism in setting.mechanisms]
        numbers = setting.mean, setting.scale, _messages(observation, setting)
        yield _row(_name(setting), *map(_number, numbers), *verdicts)


def _smallest(system: System, observation: NoisyCounts, target: SystemTarget, asked: _Asked) -> Iterator[str]:
    known = next((setting for setting in system.settings if setting.compositions == target.compositions), None)
    saved = "messages saved" if known is None else f"saved against {_name(known)}"
    heads = "smallest noise", "reading", "mean", "scale", "messages a round", *asked.heads, "smaller ones refuted"
    yield _row(*heads, saved)
    yield "|---|---|" + "---:|" * 7
    for reading in observation.readings:
        if reading == SHIFT_INSIDE:
            # Its pair is that of a true count of 0, where the cut hides half of the noise: no size follows from it.
            continue
        for noise in _NOISES:
            asked.begin(f"{system.name}, {target.compositions:,} rounds: smallest {noise.__name__}, {reading}")
            try:
                sized = size_system(system, target, noise=noise, reading=reading, tolerance=asked.tolerance)
                found = sized.printed
            except PbdistError as error:
                yield _row(noise.__name__, reading, f"none: {asked.failed(error)}", *[""] * 6)
                continue
            messages = found.messages or 0.0
            part = "" if known is None else _percent(1.0 - messages / _messages(observation, known, reading))
            numbers = float(found.meets.mean or 0.0), float(found.meets.scale), messages
            refuted = str(len(sized.scanned) + 1)
            yield _row(noise.__name__, reading, *map(_number, numbers), *_bounds(sized), refuted, part)


def _amounts(systems: Iterable[System], asked: _Asked) -> Iterator[str]:
    yield _row("system", "target", "published noise", "smallest noise", *asked.heads)
    yield "|---|---|---|---:|---:|---:|"
    for system in systems:
        for target in system.targets:
            asked.begin(f"{system.name}, {target.compositions:,} rounds")
            published = "; ".join(
                f"{setting.name} {_plain(setting)}: {_verdict(setting.mechanisms[0], target, asked)}"
                for setting in system.settings
            )
            start = (f"`{system.name}`", _target(target), published or "none")
            try:
                sized = size_system(system, target, tolerance=asked.tolerance)
                scale = float(sized.printed.meets.scale)
            except PbdistError as error:
                yield _row(*start, f"none: {asked.failed(error)}", "", "")
                continue
            kind = type(sized.mechanism).__name__
            amount = {"Poisson": "mean", "RandomizedResponse": "1 - p ="}.get(kind, "scale")
            yield _row(*start, f"{amount} {_number(scale)}", *_bounds(sized))


def _bounds(sized: SizedNoise) -> tuple[str, str]:
    """Return the two bounds as they are printed, and how much less the refuted noise is, where not the tolerance."""
    text = rounded_down(sized.printed.refuted.bound, _DIGITS)
    wide = "" if sized.within_tolerance else f" (of {_percent(1.0 - sized.refuted_scale / sized.scale)} less)"
    return rounded_up(sized.printed.meets.bound, _DIGITS), text + wide


def _messages(observation: NoisyCounts, setting: PublishedSetting, reading: str | None = None) -> float:
    if setting.noise is None or setting.mean is None or setting.scale is None:
        return 0.0
    return observation.expected_messages(setting.noise, setting.mean, setting.scale, reading)


def _target(target: SystemTarget) -> str:
    rounds = f"{target.compositions:,} round" + ("s" if target.compositions > 1 else "")
    plain, power = f"ε = {target.epsilon:.6g}", f"e^ε = {exponential(target.epsilon):.6g}"
    return f"δ <= {target.delta:g} at {min(plain, power, key=len)} after {rounds}"


def _verdict(mechanism: Pair, target: SystemTarget, asked: _Asked) -> str:
    try:
        bracket = judge(mechanism, target)
    except PbdistError as error:
        return f"not judged: {asked.failed(error)}"
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


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; return 1 if entries have no answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", help="the systems, in place of those that come with pbdist")
    parser.add_argument("--tolerance", type=float, default=0.01, help="how much smaller the refuted noise is (0.01)")
    options = parser.parse_args(arguments)
    try:
        for line in sizing_table(
            load_systems(options.systems), options.tolerance, lambda text: print(text, file=sys.stderr)
        ):
            print(line, flush=True)
    except PbdistError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
