"""What the commands share of their output: exit codes, the console, and warnings of wide answers."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["EXIT_CODES", "FAILED", "MISSED", "WRONG", "page", "printed_warnings"]

FAILED, WRONG, MISSED = 1, 2, 3

EXIT_CODES = """\
exit codes:
    0  done: everything asked for is there
    1  some cells could not be computed, or the store is not complete, not sound or not right
    2  something in the input is wrong: the one line on stderr names it
    3  done, with --strict: bounds miss the tolerance that was asked for; they hold, and are told or stored
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP: the same command goes on where this one stopped
"""


def page() -> "Console":
    """Return the console of stdout, 100 characters wide where it is not a terminal."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=100)


@contextmanager
def printed_warnings() -> Iterator[list[str]]:
    """Print every `PrecisionWarning` as one line on stderr, despite any warning filters; yield the printed texts."""
    from pbdist.errors import PbdistError, PrecisionWarning

    printed: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", PrecisionWarning)
        plain = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if not issubclass(category, PrecisionWarning):
                plain(message, category, *where)
                return
            printed.append(str(message))
            print(f"pbdist: warning: {PbdistError(str(message))}", file=sys.stderr)

        showing: Any = warnings
        showing.showwarning = show
        yield printed
