"""The options that name a mechanism: its kind, and a parameter for each key of the entries of study files."""

import argparse
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pbdist.cli.parser import add_late

if TYPE_CHECKING:
    from pbdist.study.words import NamedPair

#: Parameters of these names have other ones here, as options of questions have theirs.
_TAKEN = ("epsilon", "delta", "exp_epsilon", "compositions", "tolerance", "direction", "format", "json", "strict")
_PREFIX = "parameter_"
_FIELD = re.compile(r"(?P<name>\w+)(?P<rest>.*?): ", re.DOTALL)
#: So many kinds are listed beside a parameter; it is one of most where there are more.
_MOST_LISTED = 5


def add_mechanism_options(parser: argparse.ArgumentParser) -> None:
    """Add the options, once they are needed: they follow from the mechanisms, which take long to import."""
    add_late(parser, _add)


def _add(parser: argparse.ArgumentParser) -> None:
    from pbdist.mechanisms import described
    from pbdist.study.entry_kinds import study_kinds
    from pbdist.study.words import word_parameters

    known = study_kinds()
    parser.add_argument("--family", metavar="KIND", choices=known, help=f"the mechanism: {', '.join(known)}")
    group = parser.add_argument_group(
        "parameters of the mechanism",
        "Each of several values of a number is answered. A mechanism within another one is a YAML\n"
        "  mapping, as '{kind: Laplace, scale: 500}', or its kind alone with its parameters beside it.",
    )
    for parameter in word_parameters():
        what = described(parameter.kinds).replace("%", "%%")
        group.add_argument(
            _option(parameter.name),
            dest=_PREFIX + parameter.name,
            metavar="FILE" if parameter.files else "X",
            nargs="+",
            help=f"{what} ({_listed(parameter.kinds)})" if len(set(parameter.kinds.values())) == 1 else what,
        )


def _listed(kinds: Iterable[str]) -> str:
    named = tuple(kinds)
    return ", ".join(named) if len(named) <= _MOST_LISTED else f"{', '.join(named[:_MOST_LISTED])}, .."


def given_parameters(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the words that are given for each parameter."""
    every = vars(options).items()
    return {
        name.removeprefix(_PREFIX): words for name, words in every if name.startswith(_PREFIX) and words is not None
    }


def named_pairs(family: str | None, words: Mapping[str, list[str]]) -> "list[NamedPair]":
    """Return the mechanisms that are named; errors name the options."""
    from pbdist.errors import InvalidInputError
    from pbdist.study.words import pairs_of_words

    if family is None:
        raise InvalidInputError("--family: expected a kind of mechanism, got none")
    try:
        return pairs_of_words(family, words)
    except InvalidInputError as error:
        found = _FIELD.match(str(error))
        if found is None:
            raise
        at = f"{found['rest'].removeprefix('.')}: " if found["rest"] else ""
        raise InvalidInputError(f"{_option(found['name'])}: {at}{str(error)[found.end() :]}") from None


def column_name(name: str) -> str:
    """Return what a parameter is called beside questions for ε and δ, as in the columns of a store."""
    return f"pair_{name}" if name in _TAKEN else name


def _option(name: str) -> str:
    return f"--{column_name(name).replace('_', '-')}"
