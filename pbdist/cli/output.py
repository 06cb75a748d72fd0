"""What the commands share of their output: exit codes, the console, and warnings of wide answers."""

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from pbdist.progress import heard_by

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from pbdist.query.formats import Sheet

FAILED, WRONG, MISSED, NOT_FOUND = 1, 2, 3, 4

#: What answers are printed as.
FORMATS = ("table", "csv", "markdown", "latex", "json")
#: Wider than any printed table.
_WIDEST = 100_000

EXIT_CODES = """\
exit codes:
    0  done: everything asked for is there
    1  some cells could not be computed, or the store is not complete, not sound or not right
    2  something in the input is wrong: stderr names it in one line, or all that is wrong with a file in one line each
    3  done, with --strict: bounds miss the tolerance that was asked for; they hold, and are told or stored
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP: the same command goes on where this one stopped, or anew
"""
BOUND_EXITS = """\
exit codes:
    0  answered
    2  something in the input is wrong: the one line on stderr says what
    3  answered, with --strict: bounds are wider than the tolerance; they hold
    4  no bound was found for some row
  130  interrupted
"""


def page() -> "Console":
    """Return the console of stdout, 100 characters wide where it is not a terminal."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=100)


def add_formats(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the format of the answers."""
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        choices=FORMATS,
        help=f"how answers are printed: {', '.join(FORMATS)} (default: table); csv and json are unrounded",
    )
    parser.add_argument("--json", action="store_true", help="the same as --format json")


def chosen_format(options: argparse.Namespace) -> str:
    """Return the format that is asked for."""
    from pbdist.errors import InvalidInputError

    if options.json and options.format not in (None, "json"):
        raise InvalidInputError(f"--json: expected none beside --format {options.format}, got one")
    return "json" if options.json else options.format or "table"


def print_sheet(sheet: "Sheet", form: str) -> None:
    """Print a sheet in any format but JSON."""
    print(sheet.text(form), end="")


def print_all(what: "RenderableType") -> None:
    """Print something on the page, made as wide as it needs: a number that is cut would be another number."""
    from rich.console import Console
    from rich.measure import Measurement

    console, wide = page(), Console(width=_WIDEST)
    needed = Measurement.get(wide, wide.options, what).minimum
    console.width = max(console.width, needed)
    console.print(what)


@contextmanager
def printed_warnings() -> Iterator[list[str]]:
    """Print every warning of pbdist as one line on stderr, despite any warning filters; yield the printed texts."""
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


#: Seconds until the first sign, and between two of them.
_FIRST, _NEXT = 2.0, 1.0
#: Clears the line of a terminal from the cursor on.
_CLEAR = "\x1b[K"


@contextmanager
def sign_of_life() -> Iterator[None]:
    """Tell on stderr how long something computes, and the last step that it reported; nothing where no terminal is."""
    if not sys.stderr.isatty():
        yield
        return
    began, done, heard = time.monotonic(), Event(), [""]

    def hear(what: str, reached: int, of: int) -> None:
        heard[0] = f": {what} {reached} of {of}"

    def tell() -> None:
        wait = _FIRST
        while not done.wait(wait):
            # What is printed next begins on the same line.
            line = f"computing for {time.monotonic() - began:.0f} s{heard[0]}"
            print(line, end=f"{_CLEAR}\r", file=sys.stderr, flush=True)
            wait = _NEXT

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        with heard_by(hear):
            yield
    finally:
        done.set()
        teller.join()
        print(end=_CLEAR, file=sys.stderr, flush=True)
