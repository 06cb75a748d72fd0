"""An argument parser that says what a misspelt command, option or value is likely to mean."""

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

__all__ = ["Parser"]

_CHOICE = re.compile(r"invalid choice: '(?P<wrong>[^']*)' \(choose from (?P<known>.*)\)")


class Parser(argparse.ArgumentParser):
    """As `argparse.ArgumentParser`; its errors end with a suggestion, where a known name is alike."""

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Refuse unknown options here, where those of the command are known."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._near_option(unknown)}")
        return found, unknown

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
