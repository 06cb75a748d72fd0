"""``pbdist query``: the bounds at a stored point."""

import argparse
import json

from pbdist.cli.output import page

__all__ = ["add_to"]

_NUMBERS = {
    "scale": "scale of the noise, in counts",
    "sensitivity": "sensitivity of the query, in counts",
    "rate": "sampling rate",
    "p": "probability of the true answer in randomized response",
    "mean": "mean of the noise, in counts",
    "shift": "difference of neighbouring counts",
    "truncate-low": "lower limit of the noise about its mean",
    "truncate-high": "upper limit of the noise about its mean",
    "pair-epsilon": "epsilon of an approximately differentially private mechanism",
    "pair-delta": "delta of an approximately differentially private mechanism",
}
_TEXTS = {
    "kind": "kind of the mechanism",
    "noise": "family of the noise",
    "reading": "how a noisy count is made a count",
}


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("query", help="look up the bounds at a stored point")
    parser.add_argument("store", metavar="STORE", help="a store: a path or s3://BUCKET/PREFIX")
    parser.add_argument("--mechanism", metavar="LABEL", required=True, help="the label of the mechanism in the study")
    parser.add_argument("--compositions", metavar="R", type=int, required=True, help="number of compositions")
    point = parser.add_mutually_exclusive_group(required=True)
    point.add_argument("--epsilon", metavar="E", type=float, help="epsilon, in nats")
    point.add_argument("--exp-epsilon", metavar="Y", type=float, help="e to the power of epsilon")
    for name, text in _NUMBERS.items():
        parser.add_argument(f"--{name}", metavar="X", type=float, help=text)
    for name, text in _TEXTS.items():
        parser.add_argument(f"--{name}", metavar="NAME", help=text)
    parser.add_argument("--factor", metavar="F", type=_factor, help="factor between buckets, or auto")
    parser.add_argument("--json", action="store_true", help="print JSON, unrounded")
    parser.set_defaults(action=_query)


def _factor(text: str) -> float | str:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number or auto, got {text!r}") from None


def _query(options: argparse.Namespace) -> int:
    from pbdist.query import open_study
    from pbdist.query.tables import bounds_as_json, bounds_table

    names = [name.replace("-", "_") for name in (*_NUMBERS, *_TEXTS, "factor")]
    noise = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    bounds = open_study(options.store).lookup(
        options.mechanism,
        compositions=options.compositions,
        epsilon=options.epsilon,
        exp_epsilon=options.exp_epsilon,
        **noise,
    )
    if options.json:
        print(json.dumps(bounds_as_json(bounds), indent=2, allow_nan=False))
    else:
        page().print(bounds_table(bounds))
    return 0
