"""``pbdist epsilon`` and ``pbdist delta``: bounds of one mechanism, without a study."""

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from pbdist.cli.given import Options, chosen_format, flag, given_options, refuse, require
from pbdist.cli.options import COMPOSITIONS, EPSILONS, FORMAT, direction, strict
from pbdist.cli.output import BOUND_EXITS, NOT_FOUND, answered, print_sheet
from pbdist.cli.parser import FILE, NUMBER, Command, Option, Word, command
from pbdist.progress import Hearer

if TYPE_CHECKING:
    from pbdist.cli.families import NamedPair
    from pbdist.mechanisms import Pair

#: How the bounds are to be read: from above; and from below where some neighbours follow a pair exactly.
_READ = "The mechanism is (ε, δ)-private with the {}upper {}."
_READ_LOWER = " For its worst-case pair no analysis can prove {} below the {}lower one."
_NAMED = {"epsilon": ("ε", "an ε"), "delta": ("δ", "a δ")}
_PREFIX = "parameter_"
#: So many kinds are listed beside a parameter; it is one of most where there are more.
_MAX_LISTED = 5


def _families() -> list[str]:
    from pbdist.study.entries import study_kinds

    return list(study_kinds())


def _parameters(_: frozenset[str]) -> list[Option]:
    """Return the options of mechanisms, once they are needed: they follow from what takes long to import."""
    from pbdist.cli.families import family_parameters, option_of
    from pbdist.mechanisms import described

    found = []
    for name, kinds in family_parameters().items():
        what = described(kinds)
        if len(set(kinds.values())) == 1:
            what += f" ({', '.join([*kinds][:_MAX_LISTED])}{', ..' if len(kinds) > _MAX_LISTED else ''})"
        value, kind = ("FILE..", FILE) if name == "file" else ("X..", None)
        section = "Parameters of the mechanism"
        found.append(Option(f"{option_of(name)} {value}", what, kind, name=_PREFIX + name, section=section))
    return found


_ABOUT = """\
Bound {name} after so many uses of a mechanism.

It is bounded from both sides at once, without a study. Of several values all combinations are answered. Bounds are
printed rounded outwards; csv and json are unrounded. A mechanism within another one is a YAML mapping, as '{{kind:
Laplace, scale: 500}}', or its kind alone with its parameters beside it."""


def _command(name: str, *asked: Option, example: str) -> Command:
    return command(
        name,
        Option("--family KIND", "the mechanism", Word(_families, only=True)),
        COMPOSITIONS,
        *asked,
        Option("--tolerance T", "how far apart the bounds may be, upper / lower - 1 (0.001)", NUMBER),
        direction("the larger of both directions, or each (default: both)", "both"),
        *FORMAT,
        strict("bounds are wider than the tolerance"),
        help=_ABOUT.format(name=name),
        example=f"{name} {example}",
        exits=BOUND_EXITS,
        exclusive=[("epsilon", "exp_epsilon")],
        late=_parameters,
    )(partial(_bounds, name=name))


@dataclass(frozen=True)
class _Question:
    """What is asked: ε or δ, for values of what, and of which mechanisms, with the words that named them."""

    name: str
    field: str
    values: list[float]
    words: dict[str, list[str]]
    pairs: "list[NamedPair]"

    @property
    def points(self) -> list[float]:
        """The values of δ or ε."""
        return [math.log(one) for one in self.values] if self.field == "exp_epsilon" else self.values


def _bounds(options: Options, name: str) -> int:
    form = chosen_format(options)
    field, values = _asked(options, name)
    words = {key.removeprefix(_PREFIX): one for key, one in vars(options).items() if one and key.startswith(_PREFIX)}
    require(options, "family", problem="expected a kind of mechanism, got none")
    from pbdist.cli.families import pairs_of_family

    question = _Question(name, field, values, words, pairs_of_family(options.family, words))

    def act(count: Hearer) -> int:
        parts = []
        for index, one in enumerate(question.pairs):
            count("mechanism", index, len(question.pairs))
            parts.append(_bounds_of(one.pair, question, options))
        found = _joined(parts)
        _print(question, options, found, form)
        return NOT_FOUND if found.unknown.any() else 0

    return answered(act, strict=options.strict, projected=partial(_projected, question, options))


def _projected(question: _Question, options: Options) -> float:
    """Return how long a study of the same bounds would take, in seconds; for ε, δ at one ε stands."""
    from pbdist.arguments import DEFAULT_TOLERANCE
    from pbdist.study import StudySpec
    from pbdist.study.columns import Cell
    from pbdist.study.plan import cell_cost

    cells = tuple(Cell(options.family, one.pair, None) for one in question.pairs)
    rounds, tolerance = tuple(sorted(set(options.compositions))), options.tolerance or DEFAULT_TOLERANCE
    epsilon = tuple(sorted(set(question.points))) if question.name == "delta" else (1.0,)
    study = StudySpec("", cells, "tight", tolerance, None, rounds, epsilon, direction=options.direction)
    return sum(cell_cost(study, cell).seconds for cell in cells)


def _print(question: _Question, options: Options, found: Any, form: str) -> None:
    """Print the bounds."""
    import numpy as np

    from pbdist.arguments import DEFAULT_TOLERANCE
    from pbdist.cli.families import column_name

    pairs = question.pairs
    varied_keys = pairs[0].varied
    varied = tuple(map(column_name, varied_keys))
    rows = [(*one.varied.values(), *point) for one in pairs for point in product(options.compositions, question.values)]
    asked: dict[str, Any] = dict(zip((*varied, "compositions", question.field), zip(*rows, strict=True), strict=True))
    fixed = {key: [_plain(one) for one in texts] for key, texts in question.words.items() if key not in varied_keys}
    parameters = {column_name(key): one[0] if len(one) == 1 else one for key, one in fixed.items()}
    if form == "json":
        tolerance = DEFAULT_TOLERANCE if options.tolerance is None else options.tolerance
        about = {"parameters": parameters, "tolerance": tolerance}
        print(replace(found, asked={"mechanism": options.family, **asked}).sheet().json(about), end="")
        return
    known = pairs[0].pair.attained_by_some
    texts = {key: " ".join(map(str, one)) if isinstance(one, list) else one for key, one in parameters.items()}
    sheet = replace(found, asked={"mechanism": options.family, **texts, **asked}).sheet()
    bound, some = _NAMED[question.name]
    larger = "larger " if options.direction == "each" else ""
    read = _READ.format(larger, bound) + (_READ_LOWER.format(some, larger) if known else "")
    notes = (*sheet.notes, read) if np.isfinite(found.upper).any() and not found.unknown.all() else sheet.notes
    print_sheet(replace(sheet, notes=notes), form)


def _plain(word: str) -> int | float | str:
    """Return the number that a word is, for other programs; other words as they are."""
    for read in (int, float):
        try:
            found = read(word)
        except ValueError:
            continue
        return found if math.isfinite(found) else word
    return word


def _asked(options: Options, name: str) -> tuple[str, list[float]]:
    """Return the name of what is given beside the compositions, and its values; both are checked."""
    from pbdist.arguments import checked_compositions, checked_delta, checked_epsilon

    require(options, "compositions")
    fields = ("delta",) if name == "epsilon" else ("epsilon", "exp_epsilon")
    given = given_options(options, fields)
    if not given:
        refuse(flag(fields[0]), "expected a value, got none")
    checked_compositions(options.compositions)
    ((field, values),) = given.items()
    if field != "exp_epsilon":
        checked_delta(values, zero=True) if field == "delta" else checked_epsilon(values)
    for value in values if field == "exp_epsilon" else ():
        if not 1.0 <= value < math.inf:
            refuse("--exp-epsilon", f"expected finite numbers of at least 1, got {value!r}")
    return field, values


def _bounds_of(pair: "Pair", question: _Question, options: Options) -> Any:
    """Return the bounds for all numbers of compositions and values, in one axis after that of the directions."""
    from pbdist import Accountant

    ask = getattr(Accountant().add(pair), question.name)
    rounds, points = zip(*product(options.compositions, question.points), strict=True)
    return ask(list(points), repeats=list(rounds), tolerance=options.tolerance, direction=options.direction)


def _joined(found: list[Any]) -> Any:
    """Return answers for several mechanisms, about the same neighbours, as one."""
    import numpy as np

    first = found[0]
    arrays = [name for name, value in vars(first).items() if hasattr(value, "ndim")]
    return replace(first, **{name: np.concatenate([getattr(one, name) for one in found], axis=-1) for name in arrays})


epsilon = _command(
    "epsilon",
    Option("--delta D..", "delta, from 0 to below 1", NUMBER),
    example="--family SubsampledGaussian --scale 1.1 --rate 0.01 --compositions 1000 --delta 1e-5",
)
delta = _command("delta", *EPSILONS, example="--family Laplace --scale 20 --compositions 16 --epsilon 0.5 1")
