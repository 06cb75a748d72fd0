"""An argument parser that says what a misspelt command, option or value is likely to mean.

Options may be added late, when the command is used: those that follow from what takes long to import.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

if TYPE_CHECKING:
    from pbdist.cli.families import NamedPair

#: What commands are added to.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
_CHOICE = re.compile(r"invalid choice: '(?P<wrong>[^']*)' \(choose from (?P<known>.*)\)")


class Parser(argparse.ArgumentParser):
    """As `argparse.ArgumentParser`; its errors end with a suggestion, where a known name is alike."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        #: What adds options that are not there yet.
        self.late: list[Callable[[argparse.ArgumentParser], None]] = []

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Refuse unknown options here, where those of the command are known."""
        complete(self)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._near_option(unknown)}")
        return found, unknown

    def format_help(self) -> str:
        """Return the help, with all options."""
        complete(self)
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, with a suggestion where a choice was misspelt; exit with code 2."""
        from pbdist.errors import printable
        from pbdist.suggestions import did_you_mean

        choice = _CHOICE.search(message)
        if choice is not None:
            known = re.findall(r"[\w.-]+", choice["known"])
            message += did_you_mean(choice["wrong"], known)
        super().error(printable(message))

    def _near_option(self, unknown: Sequence[str]) -> str:
        """Return which option the first unknown one may mean."""
        from pbdist.suggestions import did_you_mean

        options = [name for name in self._option_string_actions if name.startswith("--")]
        wrong = next((text.partition("=")[0] for text in unknown if text.startswith("--")), "")
        return did_you_mean(wrong, options)


def add_command(
    commands: Commands, name: str, about: str, description: str | None, exits: str
) -> argparse.ArgumentParser:
    """Add a command whose description and exit codes are printed line by line."""
    raw = argparse.RawDescriptionHelpFormatter
    return commands.add_parser(name, help=about, description=description, epilog=exits, formatter_class=raw)


def add_point(parser: argparse.ArgumentParser, what: str = "", **settings: Any) -> None:
    """Add the options of which one gives ε."""
    point = parser.add_mutually_exclusive_group()
    point.add_argument("--epsilon", metavar="E", type=float, help=f"{what}epsilon, in nats", **settings)
    point.add_argument("--exp-epsilon", metavar="Y", type=float, help=f"{what}e to the power of epsilon", **settings)


def given_options(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Return those of some options that are given."""
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def add_late(parser: argparse.ArgumentParser, add: Callable[[argparse.ArgumentParser], None]) -> None:
    """Let `add` add options to a parser once they are needed: when it parses, or prints its help."""
    if isinstance(parser, Parser):
        parser.late.append(add)


def complete(parser: argparse.ArgumentParser) -> None:
    """Add the options of a parser that were left for later."""
    if isinstance(parser, Parser):
        late, parser.late = parser.late, []
        for add in late:
            add(parser)


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
    from pbdist.cli.families import family_parameters
    from pbdist.mechanisms import described
    from pbdist.study.entries import study_kinds

    known = study_kinds()
    parser.add_argument("--family", metavar="KIND", choices=known, help=f"the mechanism: {', '.join(known)}")
    group = parser.add_argument_group(
        "parameters of the mechanism",
        "Each of several values of a number is answered. A mechanism within another one is a YAML\n"
        "  mapping, as '{kind: Laplace, scale: 500}', or its kind alone with its parameters beside it.",
    )
    for name, kinds in family_parameters().items():
        what = described(kinds).replace("%", "%%")
        group.add_argument(
            _option(name),
            dest=_PREFIX + name,
            metavar="FILE" if name == "file" else "X",
            nargs="+",
            help=f"{what} ({_listed(kinds)})" if len(set(kinds.values())) == 1 else what,
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
    from pbdist.cli.families import pairs_of_family
    from pbdist.errors import InvalidInputError

    if family is None:
        raise InvalidInputError("--family: expected a kind of mechanism, got none")
    try:
        return pairs_of_family(family, words)
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
