"""How sized noise is printed: rounded to the safe side, as tables, JSON and Markdown."""

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pbdist.errors import BatchError, InvalidInputError, PbdistError
from pbdist.mechanisms import Gaussian, Laplace, NoisyCount, Pair, at_least_as_noisy
from pbdist.mechanisms.noisy_count import SHIFT_INSIDE
from pbdist.query.formats import Cell, Column, Sheet, Shown, head_of
from pbdist.query.printing import neighbours_line
from pbdist.results import Bracket, Verdict
from pbdist.rounding import exact, rounded_down, rounded_up
from pbdist.sizing.families import CountFamily, count_family_of, expected_messages, family_of
from pbdist.sizing.goal import Computed, Goal, Judge, SizedNoise
from pbdist.sizing.systems import (
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
from pbdist.types import JsonValue

_DIGITS = 6


@dataclass(frozen=True)
class PrintedNoise:
    """Noise as it is printed, and the bound on δ that holds for it: for the floats that its decimals are read as."""

    #: That noise.
    mechanism: Pair
    #: Its decimals; the mean is None where it is not sized.
    scale: str
    mean: str | None
    #: Of noise that will do an upper bound on δ, of refuted noise a lower one; not rounded yet.
    bound: float


@dataclass(frozen=True)
class PrintedSize:
    """Sized noise as it is printed: what will do, the messages it takes, if any, and what is refuted."""

    enough: PrintedNoise
    messages: float | None
    refuted: PrintedNoise


def printed_size(sized: SizedNoise, family: Any, parameters: Mapping[str, Any]) -> PrintedSize:
    """Return sized noise in 6 digits, or as many as the tolerance takes; `family` and `parameters` as for `size`.

    What will do is rounded up, and what is refuted down. Where more noise is proved to be a post-processing of less,
    the bounds on δ hold for the rounded noise too. Elsewhere, as for counts, they are computed anew for the rounded
    noise; where they do not prove the same of it, the decimals are those of the exact floats.
    """
    make, messages = _made_by(family, parameters)
    goal = Goal(sized.compositions, sized.epsilon, sized.delta)
    judge = Judge(goal, Computed(goal))
    digits = max(_DIGITS, 2 - math.floor(math.log10(sized.tolerance)))

    def holds(rounded: Pair) -> float | None:
        if at_least_as_noisy(rounded, sized.mechanism):
            return sized.delta_upper
        found = judge.settled(rounded)
        return found.upper if judge.holds(found) else None

    def refuted(rounded: Pair) -> float | None:
        if at_least_as_noisy(sized.refuted_mechanism, rounded):
            return sized.refuted_delta_lower
        found = judge.settled(rounded)
        return found.lower if judge.refutes(found) else None

    enough = _rounded(make, (sized.scale, sized.mean), lambda value: rounded_up(value, digits), holds)
    less = _rounded(make, (sized.refuted_scale, sized.refuted_mean), lambda value: rounded_down(value, digits), refuted)
    enough = enough or PrintedNoise(sized.mechanism, *_exactly(sized.scale, sized.mean), sized.delta_upper)
    if less is None:
        decimals = _exactly(sized.refuted_scale, sized.refuted_mean)
        less = PrintedNoise(sized.refuted_mechanism, *decimals, sized.refuted_delta_lower)
    return PrintedSize(enough, messages(enough), less)


def _made_by(
    family: Any, parameters: Mapping[str, Any]
) -> tuple[Callable[[float, float | None], Pair], Callable[[PrintedNoise], float | None]]:
    """Return what makes the mechanism of a scale and a mean, and what tells how many messages one takes."""
    if isinstance(family, CountFamily) or (family is NoisyCount and parameters.get("mean") is None):
        counts = count_family_of(family, parameters)

        def messages(noise: PrintedNoise) -> float | None:
            return counts.messages(float(noise.mean or 0.0), float(noise.scale))

        return lambda scale, mean: counts.pair(mean or 0.0, scale), messages
    scales = family_of(family, parameters)
    return lambda scale, _: scales.make(scale), lambda noise: expected_messages(noise.mechanism)


def _rounded(
    make: Callable[[float, float | None], Pair],
    amounts: tuple[float, float | None],
    shorten: Callable[[float], str],
    proved: Callable[[Pair], float | None],
) -> PrintedNoise | None:
    """Return noise with rounded amounts and what is proved of it; None where nothing is."""
    scale, mean = shorten(amounts[0]), None if amounts[1] is None else shorten(amounts[1])
    try:
        mechanism = make(float(scale), None if mean is None else float(mean))
    except InvalidInputError:
        return None
    bound = proved(mechanism)
    return None if bound is None else PrintedNoise(mechanism, scale, mean, bound)


def _exactly(scale: float, mean: float | None) -> tuple[str, str | None]:
    return exact(scale), None if mean is None else exact(mean)


_NOISES: tuple[CountNoise, ...] = (Laplace, Gaussian)
_TABLE_DIGITS, _WIDTH = 3, 120


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
                found = _rounded_counts(observation, target, sized, noise, reading)
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
                rounded_up(found.bracket.upper, _TABLE_DIGITS),
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
                rounded_up(enough.bound, _TABLE_DIGITS),
                _refuted(sized),
            )


def _refuted(sized: SizedNoise) -> str:
    """Return the lower bound that refutes less noise, and how much less, where it is not the tolerance."""
    text = rounded_down(sized.refuted_delta_lower, _TABLE_DIGITS)
    return text if sized.within_tolerance else f"{text} (of {_percent(1.0 - sized.refuted_scale / sized.scale)} less)"


def _settings(system: System, target: SystemTarget) -> list[PublishedSetting]:
    return [setting for setting in system.settings if setting.compositions in (None, target.compositions)]


def _rounded_counts(
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
        return f"yes, δ <= {rounded_up(bracket.upper, _TABLE_DIGITS)}"
    if verdict is Verdict.NO:
        return f"**no**, δ >= {rounded_down(bracket.lower, _TABLE_DIGITS)}"
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


@dataclass(frozen=True)
class Answer:
    """A goal, the e^ε that was given for it, if any, and the noise that was found, or why there is none.

    `printed` is the noise as it is printed; None where it is not printed.
    """

    goal: Goal
    exp_epsilon: float | None
    sized: SizedNoise | PbdistError
    printed: PrintedSize | None = None


def sized_table(sized: SizedNoise, printed: PrintedSize) -> Group:
    """Return a printed table of the answer and the refuted noise, with a sentence on what that proves."""
    enough, refuted = printed.enough, printed.refuted
    table = Table()
    table.add_column("")
    table.add_column("scale", justify="right", no_wrap=True)
    if enough.mean is not None:
        table.add_column("mean", justify="right", no_wrap=True)
    if printed.messages is not None:
        table.add_column("messages", justify="right", no_wrap=True)
    table.add_column("δ lower", justify="right", no_wrap=True)
    table.add_column("δ upper", justify="right", no_wrap=True)
    messages = [] if printed.messages is None else [rounded_up(printed.messages)]
    means = [] if enough.mean is None else [enough.mean]
    table.add_row("will do", enough.scale, *means, *messages, "", rounded_up(enough.bound))
    means = [] if refuted.mean is None else [refuted.mean]
    table.add_row("too small", refuted.scale, *means, *[""] * len(messages), rounded_down(refuted.bound), "")
    goal = (
        f"δ <= {exact(sized.delta)} at e^ε = {exponential(sized.epsilon):.6g} (ε = {sized.epsilon!r}) after"
        f" {sized.compositions} compositions"
    )
    about = Text(goal), Text(str(enough.mechanism)), Text(neighbours_line(sized.adjacency))
    return Group(*about, table, Text(_proved(sized) + _wide(sized)))


def sized_sheet(caption: str, answers: Sequence[Answer]) -> Sheet:
    """Return several answers as a sheet, a row each; in CSV everything is unrounded."""
    found = [answer.sized for answer in answers if isinstance(answer.sized, SizedNoise)]
    powers = any(answer.exp_epsilon is not None for answer in answers)
    means = any(sized.mean is not None for sized in found)
    messages = any(sized.expected_messages is not None for sized in found)
    wide = len(found) < len(answers) or not all(sized.within_tolerance for sized in found)
    columns = (
        Column("compositions", "r"),
        Column("epsilon", "ε", printed=not powers),
        Column("exp_epsilon", "e^ε", printed=powers),
        Column("delta", "δ <="),
        Column("scale", "scale that will do"),
        Column("mean", "its mean", printed=means),
        Column("expected_messages", "its messages", printed=messages),
        Column("delta_lower", "", printed=False),
        Column("delta_upper", head_of("delta_upper")),
        Column("refuted_scale", "scale too small"),
        Column("refuted_mean", "its mean", printed=means),
        Column("refuted_delta_lower", head_of("delta_lower")),
        Column("within_tolerance", "", number=False, printed=False),
        Column("ordered", "", number=False, printed=False),
        Column("mechanism", "", number=False, printed=False),
        Column("problem", "", number=False, printed=wide),
        Column("adjacency", "", number=False, printed=False),
    )
    claims = tuple(dict.fromkeys(map(_proved, found)))
    several = (
        "Smaller noise is refuted one by one, and nothing is claimed of that between: --format json has all of it.",
    )
    told = dict.fromkeys(neighbours_line(sized.adjacency) for sized in found)
    return Sheet(columns, tuple(map(_answer_row, answers)), (caption, *told), claims if len(claims) < 2 else several)


def answers_as_json(answers: Sequence[Answer]) -> list[JsonValue]:
    """Return answers, unrounded; where there is none the goal, and why."""
    return [
        sized_as_json(answer.sized)
        if isinstance(answer.sized, SizedNoise)
        else {**_fields(answer.goal, "compositions", "epsilon", "delta"), "problem": str(answer.sized)}
        for answer in answers
    ]


def sized_as_json(sized: SizedNoise) -> dict[str, JsonValue]:
    """Return everything, unrounded."""
    asked = ("scale", "mean", "compositions", "epsilon", "delta", "tolerance", "within_tolerance")
    return {
        "mechanism": sized.mechanism.canonical(),
        "adjacency": sized.adjacency.value,
        **_fields(sized, *asked, "delta_lower", "delta_upper"),
        "refuted": {
            "mechanism": sized.refuted_mechanism.canonical(),
            "scale": sized.refuted_scale,
            "mean": sized.refuted_mean,
            "delta_lower": sized.refuted_delta_lower,
        },
        "ordered": sized.ordered,
        "scanned": [_fields(point, "scale", "mean", "delta_lower", "expected_messages") for point in sized.scanned],
        **_fields(sized, "expected_messages", "evaluations"),
    }


def _fields(one: Any, *names: str) -> dict[str, JsonValue]:
    return {name: getattr(one, name) for name in names}


def _answer_row(answer: Answer) -> tuple[Cell, ...]:
    goal, sized, printed = answer.goal, answer.sized, answer.printed
    power = exponential(goal.epsilon) if answer.exp_epsilon is None else answer.exp_epsilon
    asked = (goal.compositions, goal.epsilon, power, goal.delta)
    if isinstance(sized, PbdistError):
        return (*asked, *[None] * 11, Shown(f"none: {sized}", str(sized)), None)
    shown: dict[str, str] = {}
    if printed is not None:
        shown = {
            "scale": printed.enough.scale,
            "mean": printed.enough.mean or "",
            "messages": "" if printed.messages is None else rounded_up(printed.messages),
            "upper": rounded_up(printed.enough.bound),
            "refuted_scale": printed.refuted.scale,
            "refuted_mean": printed.refuted.mean or "",
            "lower": rounded_down(printed.refuted.bound),
        }

    def cell(name: str, value: float | None) -> Cell:
        return Shown(shown.get(name, ""), value)

    return (
        *asked,
        cell("scale", sized.scale),
        cell("mean", sized.mean),
        cell("messages", sized.expected_messages),
        sized.delta_lower,
        cell("upper", sized.delta_upper),
        cell("refuted_scale", sized.refuted_scale),
        cell("refuted_mean", sized.refuted_mean),
        cell("lower", sized.refuted_delta_lower),
        sized.within_tolerance,
        sized.ordered,
        str(sized.mechanism),
        Shown("" if sized.within_tolerance else f"wide: {_less(sized)} less is refuted", None),
        sized.adjacency.value,
    )


def _wide(sized: SizedNoise) -> str:
    """Return in a sentence that the refuted noise is smaller by more than the tolerance; nothing if it is not."""
    if sized.within_tolerance:
        return ""
    return (
        f" Wide: the refuted scale is smaller by {_less(sized)}, not by {100.0 * sized.tolerance:g} %; of those between"
        " them nothing is known."
    )


def _less(sized: SizedNoise) -> str:
    return f"{100.0 * (1.0 - sized.refuted_scale / sized.scale):.3g} %"


def _proved(sized: SizedNoise) -> str:
    """Return in a sentence or two what is proved of smaller noise."""
    if sized.ordered:
        return "No smaller scale than the refuted one will do: more noise is a post-processing of less."
    if not sized.scanned:
        return "Nothing is claimed of other noise than the refuted one."
    scales = sorted(point.scale for point in sized.scanned)
    where = f"{len(scales)} scales from {scales[0]:.6g} to {scales[-1]:.6g}"
    if sized.mean is not None:
        return (
            f"Refuted too, at {where}: the mean that takes {1.0 - sized.tolerance:g} times the messages. Nothing is"
            " claimed between them."
        )
    return f"Refuted too: {where}. No order is proved, and nothing is claimed between them."
