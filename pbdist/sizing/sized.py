"""Sized noise as a printed table, as a sheet of several answers, and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pbdist.errors import PbdistError
from pbdist.query.printing import neighbours_line
from pbdist.query.sheet import Cell, Column, Sheet, Shown, head_of
from pbdist.rounding import exact, rounded_down, rounded_up
from pbdist.sizing.certificate import SizedNoise
from pbdist.sizing.goal import Goal
from pbdist.sizing.printed import PrintedSize
from pbdist.study.spec import exponential
from pbdist.types import JsonValue


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
    return Sheet(columns, tuple(map(_row, answers)), (caption, *told), claims if len(claims) < 2 else several)


def answers_as_json(answers: Sequence[Answer]) -> list[JsonValue]:
    """Return answers, unrounded; where there is none the goal, and why."""
    return [
        sized_as_json(answer.sized) if isinstance(answer.sized, SizedNoise) else _unanswered(answer)
        for answer in answers
    ]


def _unanswered(answer: Answer) -> dict[str, JsonValue]:
    goal = answer.goal
    return {
        "compositions": goal.compositions,
        "epsilon": goal.epsilon,
        "delta": goal.delta,
        "problem": str(answer.sized),
    }


def sized_as_json(sized: SizedNoise) -> dict[str, JsonValue]:
    """Return everything, unrounded."""
    return {
        "mechanism": sized.mechanism.canonical(),
        "adjacency": sized.adjacency.value,
        "scale": sized.scale,
        "mean": sized.mean,
        "compositions": sized.compositions,
        "epsilon": sized.epsilon,
        "delta": sized.delta,
        "tolerance": sized.tolerance,
        "within_tolerance": sized.within_tolerance,
        "delta_lower": sized.delta_lower,
        "delta_upper": sized.delta_upper,
        "refuted": {
            "mechanism": sized.refuted_mechanism.canonical(),
            "scale": sized.refuted_scale,
            "mean": sized.refuted_mean,
            "delta_lower": sized.refuted_delta_lower,
        },
        "ordered": sized.ordered,
        "scanned": [
            {
                "scale": point.scale,
                "mean": point.mean,
                "delta_lower": point.delta_lower,
                "expected_messages": point.expected_messages,
            }
            for point in sized.scanned
        ],
        "expected_messages": sized.expected_messages,
        "evaluations": sized.evaluations,
    }


def _row(answer: Answer) -> tuple[Cell, ...]:
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
