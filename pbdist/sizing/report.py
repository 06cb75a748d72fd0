"""Printed tables of the noise of whole systems, as Markdown."""

import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from pbdist.errors import BatchError, PbdistError
from pbdist.mechanisms import Gaussian, Laplace
from pbdist.mechanisms.noisy_count import SHIFT_INSIDE
from pbdist.mechanisms.pair import Pair
from pbdist.results import Bracket, Verdict
from pbdist.rounding import rounded_down, rounded_up
from pbdist.sizing.certificate import SizedNoise
from pbdist.sizing.printed import printed_size
from pbdist.sizing.system_sizing import (
    CountNoise,
    NoisyCounts,
    PublishedSetting,
    System,
    SystemTarget,
    judge,
    size_system,
    system_family,
)
from pbdist.study.spec import exponential

_NOISES: tuple[CountNoise, ...] = (Laplace, Gaussian)
_DIGITS, _WIDTH = 3, 120


def sizing_table(
    systems: Iterable[System], tolerance: float = 0.01, progress: Callable[[str], None] | None = None
) -> Iterator[str]:
    """Yield the lines of the printed tables, computed one after the other.

    Every target of a system with noisy counts has the system's description and two tables: the published noise under
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
    told = _Progress(progress or (lambda _: None))
    others = []
    for system in systems:
        if not isinstance(system.observation, NoisyCounts):
            others.append(system)
            continue
        for target in system.targets:
            yield f"#### `{system.name}`: {_goal(target)}"
            yield ""
            yield from textwrap.wrap(system.description, _WIDTH)
            yield ""
            yield from _published(system, system.observation, target, told)
            yield ""
            yield from _smallest(system, system.observation, target, tolerance, told)
            yield ""
    if others:
        yield "#### One amount of noise"
        yield ""
        yield from _amounts(others, tolerance, told)
    if told.problems:
        number = len(told.problems)
        rows = "an entry" if number == 1 else f"{number} entries"
        raise BatchError(f"table: expected an answer everywhere, got none for {rows}: {told.problems[0]}")


@dataclass
class _Progress:
    """Tells what is being computed, and keeps the errors of what could not be."""

    tell: Callable[[str], None]
    doing: str = ""
    problems: list[str] = field(default_factory=list)

    def __call__(self, text: str) -> None:
        self.doing = text
        self.tell(text)

    def failed(self, error: PbdistError) -> str:
        """Keep an error; return its text for a Markdown table."""
        self.problems.append(f"{self.doing}: {error}")
        return str(error).replace("|", "\\|")


@dataclass(frozen=True)
class _Rounded:
    """A size in 6 digits, with bounds of its own."""

    mean: float
    scale: float
    messages: float
    bracket: Bracket


def _published(system: System, observation: NoisyCounts, target: SystemTarget, told: _Progress) -> Iterator[str]:
    """Yield rows of the noise published for the target's rounds, or for no number of rounds."""
    yield _row("published noise", "mean", "scale", "messages a round", *observation.readings)
    yield "|---|---:|---:|---:|" + "---|" * len(observation.readings)
    for setting in _settings(system, target):
        told(f"{system.name}, {target.compositions:,} rounds: {_name(setting)}")
        verdicts = [_verdict(mechanism, target, told) for mechanism in setting.mechanisms]
        yield _row(
            _name(setting),
            _number(setting.mean),
            _number(setting.scale),
            _number(_messages(observation, setting)),
            *verdicts,
        )


def _smallest(
    system: System, observation: NoisyCounts, target: SystemTarget, tolerance: float, told: _Progress
) -> Iterator[str]:
    known = next((setting for setting in system.settings if setting.compositions == target.compositions), None)
    yield _row(
        "smallest noise",
        "reading",
        "mean",
        "scale",
        "messages a round",
        "it does: δ at most",
        f"{100 * tolerance:g} % less does not: δ at least",
        "smaller ones refuted",
        "messages saved" if known is None else f"saved against {_name(known)}",
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|"
    for reading in observation.readings:
        if reading == SHIFT_INSIDE:
            # Its pair is that of a true count of 0, where the cut hides half of the noise: no size follows from it.
            continue
        for noise in _NOISES:
            told(f"{system.name}, {target.compositions:,} rounds: smallest {noise.__name__}, {reading}")
            try:
                sized = size_system(system, target, noise=noise, reading=reading, tolerance=tolerance)
                found = _rounded(observation, target, sized, noise, reading)
            except PbdistError as error:
                yield _row(noise.__name__, reading, f"none: {told.failed(error)}", *[""] * 6)
                continue
            saved = "" if known is None else _percent(1.0 - found.messages / _messages(observation, known, reading))
            yield _row(
                noise.__name__,
                reading,
                _number(found.mean),
                _number(found.scale),
                _number(found.messages),
                rounded_up(found.bracket.upper, _DIGITS),
                _refuted(sized),
                str(len(sized.scanned) + 1),
                saved,
            )


def _amounts(systems: Iterable[System], tolerance: float, told: _Progress) -> Iterator[str]:
    yield _row(
        "system",
        "target",
        "published, and whether it does",
        "smallest noise",
        "it does: δ at most",
        f"{100 * tolerance:g} % less does not: δ at least",
    )
    yield "|---|---|---|---:|---:|---:|"
    for system in systems:
        for target in system.targets:
            told(f"{system.name}, {target.compositions:,} rounds")
            published = "; ".join(
                f"{setting.name} {_plain(setting)}: {_verdict(setting.mechanisms[0], target, told)}"
                for setting in system.settings
            )
            start = (f"`{system.name}`", _goal(target), published or "none")
            try:
                sized = size_system(system, target, tolerance=tolerance)
            except PbdistError as error:
                yield _row(*start, f"none: {told.failed(error)}", "", "")
                continue
            enough = printed_size(sized, *system_family(system)).enough
            yield _row(
                *start,
                f"{_amount_name(system)} {Decimal(enough.scale).normalize():,f}",
                rounded_up(enough.bound, _DIGITS),
                _refuted(sized),
            )


def _refuted(sized: SizedNoise) -> str:
    """Return the lower bound that refutes less noise, and how much less, where it is not the tolerance."""
    text = rounded_down(sized.refuted_delta_lower, _DIGITS)
    return text if sized.within_tolerance else f"{text} (of {_percent(1.0 - sized.refuted_scale / sized.scale)} less)"


def _settings(system: System, target: SystemTarget) -> list[PublishedSetting]:
    return [setting for setting in system.settings if setting.compositions in (None, target.compositions)]


def _rounded(
    observation: NoisyCounts, target: SystemTarget, sized: SizedNoise, noise: CountNoise, reading: str
) -> _Rounded:
    """Return the size in 6 digits if it meets the target rounded so, else in all digits."""
    mean = sized.mean or 0.0
    for shorten in (lambda x: float(f"{x:.6g}"), float):
        values = shorten(mean), shorten(sized.scale)
        bracket = judge(observation.mechanism(noise, *values, reading), target)
        if bracket.verdict(target.delta) is Verdict.YES:
            break
    return _Rounded(*values, observation.expected_messages(noise, *values, reading), bracket)


def _messages(observation: NoisyCounts, setting: PublishedSetting, reading: str | None = None) -> float:
    if setting.noise is None or setting.mean is None or setting.scale is None:
        return 0.0
    return observation.expected_messages(setting.noise, setting.mean, setting.scale, reading)


def _goal(target: SystemTarget) -> str:
    rounds = f"{target.compositions:,} round" + ("s" if target.compositions > 1 else "")
    plain, power = f"ε = {target.epsilon:.6g}", f"e^ε = {exponential(target.epsilon):.6g}"
    return f"δ <= {target.delta:g} at {min(plain, power, key=len)} after {rounds}"


def _verdict(mechanism: Pair, target: SystemTarget, told: _Progress) -> str:
    try:
        bracket = judge(mechanism, target)
    except PbdistError as error:
        return f"not judged: {told.failed(error)}"
    verdict = bracket.verdict(target.delta)
    if verdict is Verdict.YES:
        return f"yes, δ <= {rounded_up(bracket.upper, _DIGITS)}"
    if verdict is Verdict.NO:
        return f"**no**, δ >= {rounded_down(bracket.lower, _DIGITS)}"
    return "undecided"


def _name(setting: PublishedSetting) -> str:
    return setting.name if setting.noise is None else f"{setting.name} ({setting.noise.__name__})"


def _plain(setting: PublishedSetting) -> str:
    """Return the numbers of the mechanism of a setting that is not on counts."""
    form = setting.mechanisms[0].canonical()
    return ", ".join(f"{name} {value:g}" for name, value in form.items() if isinstance(value, float))


def _amount_name(system: System) -> str:
    if isinstance(system.observation, NoisyCounts):
        return "scale"
    return {"Poisson": "mean", "RandomizedResponse": "1 - p ="}.get(system.observation.kind.__name__, "scale")


def _number(value: float | None) -> str:
    """Return a number as it is given, or in 6 digits; with thousands apart."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1e5 or value == round(value) else f"{float(f'{value:.6g}'):,}"


def _percent(part: float) -> str:
    return f"{100.0 * part:.1f} %"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
