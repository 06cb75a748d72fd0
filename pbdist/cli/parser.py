"""An argument parser that says what a misspelt command, option or value is likely to mean.

Options may be added late, when the command is used: those that follow from what takes long to import.
"""

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

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
