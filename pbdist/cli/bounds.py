"""``pbdist epsilon`` and ``pbdist delta``: bounds of one mechanism, without a study."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from pbdist.cli.options import COMPOSITIONS, EPSILONS, FORMAT, direction, strict
from pbdist.cli.output import BOUND_EXITS, NOT_FOUND, print_sheet
from pbdist.cli.parser import FILE, NUMBER, Command, Option, Options, Word, command, flag, refuse

if TYPE_CHECKING:
    from pbdist.cli.families import NamedPair

_PREFIX = "parameter_"
#: Kinds that are listed beside a parameter, at most.
_MAX_LISTED = 5


def _parameters(_: frozenset[str]) -> list[Option]:
    """Return the options for the parameters of all mechanisms, which take long to import."""
    from pbdist.cli.families import column_name, family_parameters
    from pbdist.mechanisms import described

    found = []
    for name, kinds in family_parameters().items():
        what = described(kinds)
        if len(set(kinds.values())) == 1:
            what += f" ({', '.join([*kinds][:_MAX_LISTED])}{', ..' if len(kinds) > _MAX_LISTED else ''})"
        value, kind = ("FILE..", FILE) if name == "file" else ("X..", None)
        section = "Parameters of the mechanism"
        found.append(Option(f"{flag(column_name(name))} {value}", what, kind, name=_PREFIX + name, section=section))
    return found


_ABOUT = """\
Bound {name} after repeated use of a mechanism.

Both bounds are computed at once, without a study. With several values all combinations are answered. Bounds are
printed rounded outwards; csv and json are unrounded. A mechanism within another one is a YAML mapping, as '{{kind:
Laplace, scale: 500}}', or its kind alone with its parameters beside it."""


def _command(name: str, *options: Option, example: str) -> Command:
    return command(
        name,
        Option("--family KIND", "the mechanism", Word("pbdist.study.entries:study_kinds", only=True)),
        COMPOSITIONS,
        *options,
        Option("--tolerance T", "how far apart the bounds may be, upper / lower - 1 (0.001)", NUMBER),
        direction("the larger of both directions, or each (default: both)", "both"),
        *FORMAT,
        strict("bounds are wider than the tolerance"),
        help=_ABOUT.format(name=name),
        example=f"{name} {example}",
        exits=BOUND_EXITS,
        exclusive=[("epsilon", "exp_epsilon")],
        late=_parameters,
        answers=True,
    )(partial(_bounds, name=name))


def _bounds(options: Options, name: str) -> int:
    form = options.form
    field, values = _question(options, name)
    words = {key.removeprefix(_PREFIX): one for key, one in vars(options).items() if one and key.startswith(_PREFIX)}
    options.require("family", problem="expected a kind of mechanism, got none")
    from pbdist import Accountant
    from pbdist.cli.families import column_name, pairs_of_family

    pairs = pairs_of_family(options.family, words)
    varied = pairs[0].varied
    points = list(product(options.compositions, values))
    rows = [(*one.varied.values(), *point) for one in pairs for point in points]
    heads = *map(column_name, varied), "compositions", field
    columns: dict[str, Any] = dict(zip(heads, zip(*rows, strict=True), strict=True))
    shared = {column_name(key): [_plain(one) for one in texts] for key, texts in words.items() if key not in varied}
    rounds, given = map(list, zip(*points, strict=True))
    given = [math.log(one) for one in given] if field == "exp_epsilon" else given
    options.progress.projected = partial(_projected, options, pairs, given if name == "delta" else [1.0])
    parts = []
    for index, one in enumerate(pairs):
        options.progress.count("mechanism", index, len(pairs))
        bound = getattr(Accountant().add(one.pair), name)
        parts.append(bound(given, repeats=rounds, tolerance=options.tolerance, direction=options.direction))
    found = _joined(parts)
    if form == "json":
        from pbdist.arguments import DEFAULT_TOLERANCE

        parameters = {key: one[0] if len(one) == 1 else one for key, one in shared.items()}
        tolerance = DEFAULT_TOLERANCE if options.tolerance is None else options.tolerance
        sheet = replace(found, question={"mechanism": options.family, **columns}).sheet()
        print(sheet.json({"parameters": parameters, "tolerance": tolerance}), end="")
    else:
        texts = {key: one[0] if len(one) == 1 else " ".join(map(str, one)) for key, one in shared.items()}
        sheet = replace(found, question={"mechanism": options.family, **texts, **columns}).sheet()
        notes = *sheet.notes, *_how_to_read(found, options, name, lower=pairs[0].pair.attained_by_some)
        print_sheet(replace(sheet, notes=notes), form)
    return NOT_FOUND if found.unknown.any() else 0


def _projected(options: Options, pairs: "list[NamedPair]", epsilon: list[float]) -> float:
    """Return how many seconds a study of the same bounds would take; for bounds on ε, δ at one ε stands."""
    from pbdist.arguments import DEFAULT_TOLERANCE
    from pbdist.study import StudySpec
    from pbdist.study.columns import Cell
    from pbdist.study.plan import cell_cost

    cells = [Cell(options.family, one.pair, None) for one in pairs]
    rounds, losses = (tuple(sorted(set(values))) for values in (options.compositions, epsilon))
    tolerance = options.tolerance or DEFAULT_TOLERANCE
    study = StudySpec("", cells, "tight", tolerance, None, rounds, losses, direction=options.direction)
    return sum(cell_cost(study, cell).seconds for cell in cells)


def _question(options: Options, name: str) -> tuple[str, list[float]]:
    """Return the field that is given beside the compositions, and its values; both are checked."""
    from pbdist.arguments import checked_compositions, checked_delta, checked_epsilon

    options.require("compositions")
    given = options.given("delta") if name == "epsilon" else options.given("epsilon", "exp_epsilon")
    if not given:
        refuse("--delta" if name == "epsilon" else "--epsilon", "expected a value, got none")
    checked_compositions(options.compositions)
    ((field, values),) = given.items()
    if field != "exp_epsilon":
        checked_delta(values, zero=True) if field == "delta" else checked_epsilon(values)
    return field, values


def _joined(parts: list[Any]) -> Any:
    """Return answers for several mechanisms, about the same neighbours, as one."""
    import numpy as np

    first, *others = parts
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


def _plain(word: str) -> int | float | str:
    """Return the number of a text, for other programs; other texts as they are."""
    for read in (int, float):
        try:
            found = read(word)
        except ValueError:
            continue
        return found if math.isfinite(found) else word
    return word


epsilon = _command(
    "epsilon",
    Option("--delta D..", "delta, from 0 to below 1", NUMBER),
    example="--family SubsampledGaussian --scale 1.1 --rate 0.01 --compositions 1000 --delta 1e-5",
)
delta = _command("delta", *EPSILONS, example="--family Laplace --scale 20 --compositions 16 --epsilon 0.5 1")
