"""The output of the commands: exit codes, letters, warnings, and how far a computation is."""

import codecs
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import log
from threading import Event, Thread
from typing import Any

from pbdist.errors import PrecisionWarning, printable
from pbdist.progress import heard_by
from pbdist.tables import Sheet

FAILED, WRONG, MISSED, NOT_FOUND = 1, 2, 3, 4

#: The formats of answers.
FORMATS = ("table", "csv", "markdown", "latex", "json")
EXIT_CODES = """\
exit codes:
    0  done
    1  some cells could not be computed, or the store is not complete, not sound or not right
    2  wrong input: one line on stderr, or a line for each error of a file
    3  done, with --strict: bounds miss the tolerance; they hold, and are printed or stored
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

_GREEK = "alpha beta gamma delta epsilon eta lambda mu pi rho sigma tau Delta Sigma Phi"
_SIGNS = '<= >= != ~ inf - - - x * ^2 .. -> in <-> || \' " "'
#: Spellings of letters that an encoding lacks.
_SPELT = dict(zip("αβγδεηλμπρστΔΣΦ≤≥≠≈∞−–—×·²…→∈↔‖’“”", f"{_GREEK} {_SIGNS}".split(), strict=True))
_SPELT["√"] = "sqrt "
_SPELT |= {**dict.fromkeys("━─", "-"), **dict.fromkeys("┃│", "|"), **dict.fromkeys("┏┳┓┡╇┩└┴┘", "+")}
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


def print_sheet(sheet: Sheet, form: str) -> None:
    """Print a sheet in any format."""
    print(sheet.table(spelt) if form == "table" else sheet.text(form).rstrip("\n"))


def print_json(found: object) -> None:
    """Print values as JSON, unrounded."""
    print(json.dumps(found, indent=2, allow_nan=False))


@contextmanager
def printed_warnings() -> Iterator[list[str]]:
    """Print every warning of pbdist as one line on stderr, despite any warning filters; yield the printed texts."""
    printed: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", PrecisionWarning)
        plain = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, PrecisionWarning):
                printed.append(str(message))
                warn(str(message))
            else:
                plain(message, category, *where)

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


def warn(text: str) -> None:
    """Print a warning on stderr, in one line."""
    tell(f"pbdist: warning: {printable(text)}")


class Steps:
    """How far a computation is: parts that the command counts, and steps that are reported within the present part."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        #: Returns how many seconds all of it will take, where that is known before any step is done.
        self.projected: Callable[[], float] | None = None
        self._counted = self._heard = ""
        self._left: float | None = None
        #: Since when a quantity climbs, which one, from where, and how far it is.
        self._climb = self.began, "", 0, 0
        self._again = False

    def count(self, what: str, reached: int, of: int) -> None:
        """Note how many parts are done, where there are several."""
        if of > 1:
            self._counted, self._heard = f": {what} {reached + 1} of {of}", ""
            self._left = (time.monotonic() - self.began) / reached * (of - reached) if reached else None

    def hear(self, what: str, reached: int, of: int) -> None:
        """Note a step that the computation reports."""
        self._heard = f": {what} {reached} of {of}"
        since, before, first, last = self._climb
        if before != what or reached < last:
            # A quantity that begins again may begin again any number of times.
            self._again |= before == what
            since, first = time.monotonic(), reached
        self._climb = since, what, first, reached
        if not self._counted and not self._again and 0 < first < reached:
            # Rounds are doubled, other steps are one like the other.
            doubled = what.endswith("r =")
            done, to_do = (log(reached / first), log(of / reached)) if doubled else (reached - first, of - reached)
            self._left = (time.monotonic() - since) / done * to_do

    def __str__(self) -> str:
        """Return one line."""
        seconds, left = time.monotonic() - self.began, None if self._again and not self._counted else self._left
        if left is None and self.projected is not None:
            left = self.projected() - seconds
        about = f", about {max(left, 1.0):.0f} s left" if left is not None and left > 0.0 else ""
        return f"computing for {seconds:.0f} s{self._counted}{self._heard}{about}"


@contextmanager
def sign_of_life() -> Iterator[Steps]:
    """Print on stderr how long a computation takes, its steps, and about how long it will take.

    A terminal has one line, renewed each second. Elsewhere a line is added when the time has doubled.
    """
    steps, done, terminal = Steps(), Event(), sys.stderr.isatty()

    def print_on() -> None:
        wait = _FIRST if terminal else _WITHOUT_TERMINAL
        while not done.wait(wait):
            # On a terminal, the next output begins on the same line.
            print(steps, end=f"{_CLEAR}\r" if terminal else "\n", file=sys.stderr, flush=True)
            wait = _NEXT if terminal else time.monotonic() - steps.began

    printer = Thread(target=print_on, daemon=True)
    printer.start()
    try:
        with heard_by(steps.hear):
            yield steps
    finally:
        done.set()
        printer.join()
        if terminal:
            print(end=_CLEAR, file=sys.stderr, flush=True)
