"""What the commands share of their output: exit codes, the console, letters, and warnings of wide answers."""

import codecs
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from types import SimpleNamespace
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


#: What is written where an encoding lacks a letter.
_SPELT = {
    **{"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "η": "eta", "λ": "lambda", "μ": "mu"},
    **{"π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "Δ": "Delta", "Σ": "Sigma", "Φ": "Phi"},
    **{"≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "∞": "inf", "−": "-", "–": "-", "—": "-", "×": "x", "·": "*"},
    **{"²": "^2", "√": "sqrt ", "…": "..", "→": "->", "∈": "in", "↔": "<->", "‖": "||", "’": "'", "“": '"', "”": '"'},
}
#: The handler of letters that an encoding lacks.
SPELLING = "pbdist.spelling"


def _spell(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_SPELT.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


codecs.register_error(SPELLING, _spell)


def spelt(text: str) -> str:
    """Return a text with words for the letters that stdout lacks, such as those of Greek."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, SPELLING).decode(encoding)


def page() -> "Console":
    """Return the console of stdout, 100 characters wide where it is not a terminal."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=100)


def chosen_format(options: SimpleNamespace) -> str:
    """Return the format that is asked for."""
    from pbdist.errors import InvalidInputError

    if options.json and options.format not in (None, "json"):
        raise InvalidInputError(f"--json: expected none beside --format {options.format}, got one")
    return "json" if options.json else options.format or "table"


def print_sheet(sheet: "Sheet", form: str) -> None:
    """Print a sheet in any format but JSON."""
    from pbdist.query.formats import as_table, as_text

    if form == "table":
        print_all(as_table(sheet))
    else:
        print(as_text(sheet, form), end="")


def print_all(what: "RenderableType") -> None:
    """Print something on the page, made as wide as it needs: a number that is cut would be another number."""
    from rich.console import Console
    from rich.measure import Measurement

    what = _spelt_all(what)
    console, wide = page(), Console(width=_WIDEST)
    needed = Measurement.get(wide, wide.options, what).minimum
    console.width = max(console.width, needed)
    console.print(what)


def _spelt_all(what: "RenderableType") -> "RenderableType":
    """Return what is printed in letters that stdout has, before it is known how wide that is."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if isinstance(what, str | Text):
        return spelt(str(what)) if spelt(str(what)) != str(what) else what
    if isinstance(what, Group):
        return Group(*map(_spelt_all, what.renderables))
    for column in what.columns if isinstance(what, Table) else ():
        column.header = _spelt_all(column.header)
        column._cells[:] = map(_spelt_all, column._cells)
    return what


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
            tell(f"pbdist: warning: {PbdistError(str(message))}")

        showing: Any = warnings
        showing.showwarning = show
        yield printed


#: Seconds until the first sign, and between two of them; without a terminal the second one is the first sign.
_FIRST, _NEXT, _WITHOUT_TERMINAL = 2.0, 1.0, 10.0
#: Clears the line of a terminal from the cursor on.
_CLEAR = "\x1b[K"


def tell(text: str) -> None:
    """Print a line on stderr, over a sign of life if one stands there."""
    print(f"{_CLEAR if sys.stderr.isatty() else ''}{text}", file=sys.stderr, flush=True)


class _Steps:
    """How far a computation is: of what the command counts, and of what is computed for the present one of these."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self._counted = self._heard = ""
        self._left: float | None = None
        self._part = self.began, "", 0

    def count(self, what: str, reached: int, of: int) -> None:
        """Note how many parts are done, where there are several."""
        if of > 1:
            self._counted, self._heard = f": {what} {reached + 1} of {of}", ""
            self._left = (time.monotonic() - self.began) / reached * (of - reached) if reached else None

    def hear(self, what: str, reached: int, of: int) -> None:
        """Note a step that the computation reports."""
        self._heard = f": {what} {reached} of {of}"
        since, before, first = self._part
        if before != what or reached < first:
            self._part = time.monotonic(), what, reached
        elif reached > first and not self._counted:
            self._left = (time.monotonic() - since) / (reached - first) * (of - reached)

    def __str__(self) -> str:
        """Return one line."""
        left = "" if self._left is None else f", about {max(self._left, 1.0):.0f} s left"
        return f"computing for {time.monotonic() - self.began:.0f} s{self._counted}{self._heard}{left}"


@contextmanager
def sign_of_life() -> Iterator[Callable[[str, int, int], None]]:
    """Tell on stderr how long something computes, its steps, and about how long it will take.

    A terminal has one line, renewed each second. Elsewhere a line is added when the time has doubled. Yields what
    counts parts that the command knows of: called with their name, how many are done, and how many there are.
    """
    steps, done, terminal = _Steps(), Event(), sys.stderr.isatty()

    def tell_on() -> None:
        wait = _FIRST if terminal else _WITHOUT_TERMINAL
        while not done.wait(wait):
            # On a terminal, what is printed next begins on the same line.
            print(steps, end=f"{_CLEAR}\r" if terminal else "\n", file=sys.stderr, flush=True)
            wait = _NEXT if terminal else time.monotonic() - steps.began

    teller = Thread(target=tell_on, daemon=True)
    teller.start()
    try:
        with heard_by(steps.hear):
            yield steps.count
    finally:
        done.set()
        teller.join()
        if terminal:
            print(end=_CLEAR, file=sys.stderr, flush=True)
