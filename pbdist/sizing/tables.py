"""Sizes as tables and JSON. Bounds are rounded outwards; scales and means are told in full, for they are certified."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pbdist.query.tables import rounded_down, rounded_up
from pbdist.sizing.certificate import SizedNoise
from pbdist.study.spec import exponential
from pbdist.types import JsonValue

__all__ = ["sized_as_json", "sized_table"]


def sized_table(sized: SizedNoise) -> Group:
    """Return the answer above what is refuted, with a sentence that says what that proves."""
    table = Table()
    table.add_column("")
    table.add_column("scale", justify="right", no_wrap=True)
    if sized.mean is not None:
        table.add_column("mean", justify="right", no_wrap=True)
    if sized.expected_messages is not None:
        table.add_column("messages", justify="right", no_wrap=True)
    table.add_column("δ lower", justify="right", no_wrap=True)
    table.add_column("δ upper", justify="right", no_wrap=True)
    means = [] if sized.mean is None else [repr(sized.mean)]
    messages = [] if sized.expected_messages is None else [f"{sized.expected_messages:.6g}"]
    bounds = [rounded_down(sized.delta_lower), rounded_up(sized.delta_upper)]
    table.add_row("will do", repr(sized.scale), *means, *messages, *bounds)
    means = [] if sized.refuted_mean is None else [repr(sized.refuted_mean)]
    blank = [""] * len(messages)
    table.add_row("too small", repr(sized.refuted_scale), *means, *blank, rounded_down(sized.refuted_delta_lower), "")
    goal = (
        f"δ <= {sized.delta:g} at e^ε = {exponential(sized.epsilon):.6g} (ε = {sized.epsilon!r}) after"
        f" {sized.compositions} compositions"
    )
    return Group(Text(goal), Text(str(sized.mechanism)), table, Text(_claim(sized)))


def _claim(sized: SizedNoise) -> str:
    """Return in a sentence, or two, what is proved of smaller noise."""
    wide = ""
    if not sized.within_tolerance:
        wide = (
            f" Wide: the refuted scale is smaller by {100.0 * (1.0 - sized.refuted_scale / sized.scale):.3g} %, not by"
            f" {100.0 * sized.tolerance:g} %; of those between them nothing is known."
        )
    return _proved(sized) + wide


def _proved(sized: SizedNoise) -> str:
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


def sized_as_json(sized: SizedNoise) -> dict[str, JsonValue]:
    """Return everything, unrounded."""
    return {
        "mechanism": sized.mechanism.canonical(),
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
