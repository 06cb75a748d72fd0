"""``pbdist size``: the smallest noise that provably meets a goal."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from pbdist.cli.output import MISSED, page, printed_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pbdist.sizing.api import SizedNoise

__all__ = ["add_to"]

_FAMILIES = (
    "Gaussian",
    "Laplace",
    "SubsampledGaussian",
    "Poisson",
    "DiscreteLaplace",
    "DiscreteGaussian",
    "RandomizedResponse",
    "NoisyCount",
)
_NUMBERS = {
    "sensitivity": "sensitivity of the query",
    "rate": "sampling rate of a SubsampledGaussian",
    "shift": "difference of neighbouring counts of a NoisyCount",
    "mean": "mean of a NoisyCount; without it, mean and scale are sized together",
}
_TEXTS = {
    "noise": "noise of a NoisyCount: Laplace or Gaussian",
    "reading": "how a noisy count is made a count: clamp-and-ceil, redraw-and-floor or shift-inside",
}
_OPTIONS = frozenset(
    (
        *("compositions", "delta", "epsilon", "exp_epsilon", "json", "scale_limits", "store", "systems", "tolerance"),
        *("truncate", *_NUMBERS, *_TEXTS),
    )
)


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "size",
        help="the smallest noise that provably meets a goal",
        description="The smallest noise whose δ provably is at most --delta, and a proof that a little less is not"
        " enough. The scale of RandomizedResponse is the probability of a lie, that of Poisson its mean.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--family", choices=_FAMILIES, help="the mechanism whose noise is sized")
    what.add_argument("--system", metavar="NAME", help="a system of data/systems.yaml; its own goals if none is given")
    what.add_argument("--table", action="store_true", help="print the table of all systems, as Markdown")
    parser.add_argument("--systems", metavar="FILE", help="the systems, in place of those that come with pbdist")
    parser.add_argument("--compositions", metavar="R", type=int, help="number of compositions")
    point = parser.add_mutually_exclusive_group()
    point.add_argument("--epsilon", metavar="E", type=float, help="epsilon, in nats")
    point.add_argument("--exp-epsilon", metavar="Y", type=float, help="e to the power of epsilon")
    parser.add_argument("--delta", metavar="D", type=float, help="the largest delta that will do")
    for name, text in _NUMBERS.items():
        parser.add_argument(f"--{name}", metavar="X", type=float, help=text)
    for name, text in _TEXTS.items():
        parser.add_argument(f"--{name}", metavar="NAME", help=text)
    parser.add_argument(
        "--truncate", metavar=("LOW", "HIGH"), nargs=2, type=float, help="limits of the noise about its mean"
    )
    parser.add_argument(
        "--tolerance", metavar="T", type=float, default=0.01, help="how much smaller the refuted noise is (0.01)"
    )
    parser.add_argument(
        "--scale-limits", metavar=("LOW", "HIGH"), nargs=2, type=float, help="smallest and largest scale looked at"
    )
    parser.add_argument("--store", metavar="STORE", help="a store to ask first: a path or s3://BUCKET/PREFIX")
    parser.add_argument("--json", action="store_true", help="print JSON, unrounded")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit with code 3 if what is refuted is smaller by more than the tolerance",
    )
    parser.set_defaults(action=_size)


def _size(options: argparse.Namespace) -> int:
    with printed_warnings() as missed:
        code = _sized(options)
    return MISSED if options.strict and missed and not code else code


def _sized(options: argparse.Namespace) -> int:
    from pbdist.errors import InvalidInputError
    from pbdist.sizing.report import sized_as_json, sized_table

    _refuse_ignored(options)
    if options.table:
        from pbdist.sizing.report import sizing_table
        from pbdist.sizing.systems import load_systems

        for line in sizing_table(
            load_systems(options.systems), options.tolerance, lambda text: print(text, file=sys.stderr)
        ):
            print(line, flush=True)
        return 0
    goal = {name: getattr(options, name) for name in ("compositions", "epsilon", "exp_epsilon", "delta")}
    given = [name for name, value in goal.items() if value is not None]
    if (given and len(given) < 3) or (options.family and not given):
        missing = [name for name in ("compositions", "epsilon", "delta") if name not in given]
        if "exp_epsilon" in given:
            missing.remove("epsilon")
        raise InvalidInputError(f"--{missing[0]}: expected a value, got none")
    results = [_of_family(options, goal)] if options.family else list(_of_system(options, goal if given else None))
    if options.json:
        found = [sized_as_json(sized) for sized in results]
        print(json.dumps(found[0] if options.family or given else found, indent=2, allow_nan=False))
    else:
        for sized in results:
            page().print(sized_table(sized))
    return 0


def _refuse_ignored(options: argparse.Namespace) -> None:
    """Refuse options that would be ignored."""
    from pbdist.errors import InvalidInputError

    if options.table:
        unused = set(_OPTIONS - {"systems", "tolerance"})
    elif options.family:
        unused = {"systems"}
    else:
        unused = {*_NUMBERS, "truncate"}
    what = "--table" if options.table else "--family" if options.family else "--system"
    for name in sorted(unused):
        value = getattr(options, name)
        if value is not None and value is not False:
            raise InvalidInputError(f"--{name.replace('_', '-')}: expected none with {what}, got one")


def _of_family(options: argparse.Namespace, goal: dict[str, Any]) -> "SizedNoise":
    import pbdist

    names = (*_NUMBERS, *_TEXTS, "truncate")
    parameters = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return pbdist.size(
        getattr(pbdist, options.family),
        **goal,
        tolerance=options.tolerance,
        scale_limits=options.scale_limits,
        store=options.store,
        **parameters,
    )


def _of_system(options: argparse.Namespace, goal: dict[str, Any] | None) -> "Iterator[SizedNoise]":
    from pbdist.sizing.families import noise_class
    from pbdist.sizing.goal import checked_goal
    from pbdist.sizing.system_sizing import SystemTarget, size_system
    from pbdist.sizing.systems import find_system, load_systems

    system = find_system(load_systems(options.systems), options.system)
    targets = system.targets
    if goal is not None:
        asked = checked_goal(**goal)
        targets = (SystemTarget(asked.compositions, asked.epsilon, asked.delta, "asked for"),)
    noise: Any = None if options.noise is None else noise_class(options.noise)
    for target in targets:
        yield size_system(
            system,
            target,
            noise=noise,
            reading=options.reading,
            tolerance=options.tolerance,
            scale_limits=options.scale_limits,
            store=options.store,
        )
