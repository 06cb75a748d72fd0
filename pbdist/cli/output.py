"""What the commands share of their output: exit codes, the console, letters, and warnings of wide answers."""

import codecs
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import log
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from pbdist.errors import printable
from pbdist.progress import Hearer, heard_by

if TYPE_CHECKING:
    from pbdist.tables import Sheet

FAILED, WRONG, MISSED, NOT_FOUND = 1, 2, 3, 4

#: What answers are printed as.
FORMATS = ("table", "csv", "markdown", "latex", "json")
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

_GREEK = "alpha beta gamma delta epsilon eta lambda mu pi rho sigma tau Delta Sigma Phi"
_SIGNS = '<= >= != ~ inf - - - x * ^2 .. -> in <-> || \' " "'
#: What is written where an encoding lacks a letter.
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


def print_sheet(sheet: "Sheet", form: str) -> None:
    """Print a sheet in any format."""
    print(sheet.table(spelt) if form == "table" else sheet.text(form).rstrip("\n"))


def print_json(found: object) -> None:
    """Print values as JSON, unrounded."""
    print(json.dumps(found, indent=2, allow_nan=False))


@contextmanager
def printed_warnings() -> Iterator[list[str]]:
    """Print every warning of pbdist as one line on stderr, despite any warning filters; yield the printed texts."""
    from pbdist.errors import PrecisionWarning

    printed: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", PrecisionWarning)
        plain = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if not issubclass(category, PrecisionWarning):
                plain(message, category, *where)
                return
            printed.append(str(message))
            warn(str(message))

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


def whole(found: bool) -> int:
    """Return the exit code of a page; where not everything is there it is said."""
    if not found:
        warn("not everything is there or sound: the page begins with what is not")
    return 0 if found else FAILED


class _Steps:
    """How far a computation is: of what the command counts, and of what is computed for the present one of these."""

    def __init__(self, projected: Callable[[], float] | None) -> None:
        self.began = time.monotonic()
        self._projected = projected
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
            # What begins anew may do so any number of times.
            self._again |= reached < last and before == what
            since, first = time.monotonic(), reached
        self._climb = since, what, first, reached
        if self._counted or self._again or not 0 < first < reached:
            return
        # Rounds are doubled, other steps are one like the other.
        doubled = what.endswith("r =")
        done, to_do = (log(reached / first), log(of / reached)) if doubled else (reached - first, of - reached)
        self._left = (time.monotonic() - since) / done * to_do

    def __str__(self) -> str:
        """Return one line."""
        seconds, left = time.monotonic() - self.began, None if self._again and not self._counted else self._left
        if left is None and not self._again and self._projected is not None:
            left = self._projected() - seconds
        about = "" if left is None or left <= 0.0 else f", about {max(left, 1.0):.0f} s left"
        return f"computing for {seconds:.0f} s{self._counted}{self._heard}{about}"


@contextmanager
def sign_of_life(projected: Callable[[], float] | None = None) -> Iterator[Hearer]:
    """Tell on stderr how long something computes, its steps, and about how long it will take.

    A terminal has one line, renewed each second. Elsewhere a line is added when the time has doubled. Yields what
    counts parts that the command knows of: called with their name, how many are done, and how many there are.
    `projected` returns how many seconds it will take in all; it is called only when that is printed.
    """
    steps, done, terminal = _Steps(projected), Event(), sys.stderr.isatty()

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


def answered(action: Callable[[Hearer], int], *, strict: bool, projected: Callable[[], float] | None = None) -> int:
    """Call what prints answers and return the exit code; with `strict` those that are too wide have their own.

    `action` is called with what `sign_of_life` yields, and `projected` is as there.
    """
    with printed_warnings() as missed, sign_of_life(projected) as count:
        code = action(count)
    return MISSED if strict and missed and not code else code
