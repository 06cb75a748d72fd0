"""``pbdist epsilon`` and ``pbdist delta``: bounds of one mechanism, without a study."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from pbdist.cli.options import FORMAT, QUESTION, direction
from pbdist.cli.output import FAILED, print_sheet
from pbdist.cli.parser import NUMBER, WHOLE, Command, Option, Options, command
from pbdist.progress import reported


def _late_options(_: frozenset[str]) -> list[Option]:
    """Return the options for mechanisms, which take long to import."""
    from pbdist.cli.families import mechanism_options
    from pbdist.study.entries import study_kinds

    return mechanism_options("--family KIND", "the mechanism", study_kinds())


_ABOUT = """\
Bound {name} after repeated use of a mechanism.

Both bounds are computed at once, without a study. With several values all combinations are answered. Bounds are
printed rounded outwards; csv and json are unrounded. A mechanism within another one is a YAML mapping, as '{{kind:
Laplace, scale: 500}}', or its kind alone with its parameters beside it."""


def _command(name: str, *options: Option, example: str, needs: Sequence[Sequence[str]] = ()) -> Command:
    return command(
        name,
        Option("--compositions R..", "numbers of compositions", WHOLE, required=True),
        *options,
        Option("--tolerance T", "how far apart the bounds may be, upper / lower - 1 (0.001)", NUMBER),
        direction("the larger of both directions, or each", "both"),
        *FORMAT,
        Option("--strict", "exit with code 3 if bounds are wider than the tolerance", section="Output"),
        help=_ABOUT.format(name=name),
        example=f"{name} {example}",
        late=_late_options,
        needs=[("family",), *needs],
    )(partial(_bounds, quantity=name))


def _bounds(options: Options, quantity: str) -> int:
    from pbdist.accounting.accountant import Accountant, projected_seconds
    from pbdist.arguments import DEFAULT_TOLERANCE, checked_compositions, checked_delta, checked_epsilon
    from pbdist.cli.families import given_values, pairs_of_family
    from pbdist.mechanisms.columns import row_of
    from pbdist.study import Cell

    names = ("delta",) if quantity == "epsilon" else ("epsilon", "exp_epsilon")
    ((field, values),) = options.given(*names).items()
    checked_compositions(options.compositions)
    given = [math.log(one) for one in values] if field == "exp_epsilon" else values
    checked_delta(given, zero=True) if field == "delta" else checked_epsilon(given)
    pairs = pairs_of_family(options.family, given_values(options))
    points = list(product(options.compositions, values))
    settings = [Cell(options.family, pair, None).describe() for pair in pairs for _ in points]
    question: dict[str, Any] = {"mechanism": options.family, "setting": settings}
    # The columns that a store has of the parameters.
    rows = [row_of(one.canonical()) for one in pairs]
    for name in dict.fromkeys(name for row in rows for name in row if name != "kind"):
        each = [row.get(name, "") for row in rows for _ in points]
        question[name] = each if len({*each}) > 1 else each[0]
    question |= dict(zip(("compositions", field), zip(*(points * len(pairs)), strict=True), strict=True))
    rounds, given = map(list, zip(*product(options.compositions, given), strict=True))
    # Those of bounds on δ; for bounds on ε, δ at one ε stands.
    losses, tolerance = given if quantity == "delta" else [1.0], options.tolerance or DEFAULT_TOLERANCE
    options.progress.projected = lambda: projected_seconds(pairs, rounds, losses, tolerance, options.direction)
    details = {"repeats": rounds, "tolerance": options.tolerance, "direction": options.direction}
    answers = [getattr(Accountant().add(one), quantity)(given, **details) for one in reported("mechanism", pairs)]
    found = replace(_joined(answers), question=question)
    sheet = found.sheet
    notes = *sheet.notes, *_how_to_read(found, options, quantity, lower=pairs[0].attained_by_some)
    print_sheet(replace(sheet, notes=notes), options.form)
    return FAILED if found.unknown.any() else 0


def _joined(answers: list[Any]) -> Any:
    """Return answers for several mechanisms, about the same neighbours, as one."""
    import numpy as np

    first, *others = answers
    arrays = {name: one for name, one in vars(first).items() if isinstance(one, np.ndarray)}
    joined = {
        name: np.concatenate([one, *(getattr(each, name) for each in others)], axis=-1) for name, one in arrays.items()
    }
    return replace(first, **joined)


def _how_to_read(found: Any, options: Options, name: str, *, lower: bool) -> Iterator[str]:
    """Yield how the bounds are to be read: from above; and from below where some neighbours follow a pair exactly."""
    if found.unknown.all() or not any(map(math.isfinite, found.upper.flat)):
        return
    bound, some = ("ε", "an ε") if name == "epsilon" else ("δ", "a δ")
    larger = "larger " if options.direction == "each" else ""
    text = f"The mechanism is (ε, δ)-private with the {larger}upper {bound}."
    if lower:
        text += f" For its worst-case pair no analysis can prove {some} below the {larger}lower one."
    yield text


epsilon = _command(
    "epsilon",
    Option("--delta D..", "delta, from 0 to below 1", NUMBER, required=True),
    example="--family SubsampledGaussian --scale 1.1 --rate 0.01 --compositions 1000 --delta 1e-5",
)
delta = _command(
    "delta",
    *QUESTION[1:3],
    example="--family Laplace --scale 20 --compositions 16 --epsilon 0.5 1",
    needs=[("epsilon", "exp_epsilon")],
)
