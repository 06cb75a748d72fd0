"""The output of the commands: exit codes, letters, warnings, and how far a computation is."""

import codecs
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from threading import Event, Thread
from typing import Any

from pbdist.errors import PrecisionWarning, printable
from pbdist.progress import heard_by
from pbdist.tables import Sheet

FAILED, WRONG, MISSED = 1, 2, 3

#: The formats of answers.
FORMATS = ("table", "csv", "markdown", "latex", "json")
EXIT_CODES = """\
\b
Exit codes:
    0  done; of status and verify: the store is complete and sound
    1  something could not be computed, or a store is incomplete, damaged or wrong
    2  wrong input, or not answerable from a store: one line on stderr, or one for each error of a file
    3  done, with --strict: bounds miss the tolerance; they hold, and are printed or stored
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP
"""


#: Spellings of letters that an encoding lacks, and the name of the handler that prints them.
_LETTERS = "αβγδεηλμπρστΔΣΦ≤≥≠≈∞−–—×·²√…→∈↔‖’“”━─┃│┏┳┓┡╇┩└┴┘"
_WORDS = (
    "alpha beta gamma delta epsilon eta lambda mu pi rho sigma tau Delta Sigma Phi <= >= != ~ inf - - - x * ^2 sqrt"
)
_WORDS += ' .. -> in <-> || \' " " - - | |' + 9 * " +"
_SPELT, SPELLING = dict(zip(_LETTERS, _WORDS.split(), strict=True)), "pbdist.spelling"


def _spell(error: Any) -> tuple[str, int]:
    return "".join(_SPELT.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


codecs.register_error(SPELLING, _spell)


def spelt(text: str) -> str:
    """Return a text with words for the letters that stdout lacks, such as those of Greek."""
    return text.encode(sys.stdout.encoding or "utf-8", SPELLING).decode(sys.stdout.encoding or "utf-8")


def print_sheet(sheet: Sheet, form: str) -> None:
    """Print a sheet in any format."""
    print(sheet.table(spelt) if form == "table" else sheet.text(form).rstrip("\n"))


def print_json(found: object) -> None:
    """Print values as JSON, unrounded."""
    print(json.dumps(found, indent=2, allow_nan=False))


@contextmanager
def printed_warnings() -> Iterator[list[str]]:
    """Print every warning as one line on stderr, those of pbdist despite any warning filters; yield these."""
    printed: list[str] = []

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        warn(str(message))
        if issubclass(category, PrecisionWarning):
            printed.append(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", PrecisionWarning)
        warnings.showwarning = show
        yield printed


#: Seconds to the first sign of life; between two on a terminal; and to the first one on a pipe before any step.
_FIRST, _NEXT, _SILENT = 2.0, 1.0, 10.0
#: Clears the line of a terminal from the cursor on.
_CLEAR = "\x1b[K"


def warn(text: str) -> None:
    """Print a warning on stderr, in one line, over a sign of life if one stands there."""
    print(f"{_CLEAR if sys.stderr.isatty() else ''}pbdist: warning: {printable(text)}", file=sys.stderr, flush=True)


class Steps:
    """How far a computation is: parts that take about the same time, one within another, and the last step of a part.

    The time that is left is estimated from the parts that are done, or else from the projected time of all.
    """

    def __init__(self) -> None:
        self.began = time.monotonic()
        #: Whether anything was reported.
        self.begun = False
        #: Returns how many seconds all of it will take, where that is known before any step is done.
        self.projected: Callable[[], float] | None = None
        #: How many parts are done, and how many there are, by their names; the outermost first.
        self._parts: dict[str, tuple[int, int]] = {}
        self._step: list[str] = []

    def part(self, what: str, done: int, of: int) -> None:
        """Note how many parts are done; those within them begin anew."""
        self.begun = True
        outer = {name: self._parts[name] for name in takewhile(lambda name: name != what, self._parts)}
        self._parts, self._step = {**outer, what: (done, of)} if done < of else outer, []

    def hear(self, what: str, reached: int, of: int) -> None:
        """Note a step that the computation reports."""
        self.begun, self._step = True, [f"{what} {reached} of {of}"]

    def __str__(self) -> str:
        """Return one line."""
        seconds, parts, share = time.monotonic() - self.began, self._parts, 0.0
        for done, of in reversed(parts.values()):
            share = (done + share) / of
        whole = self.projected() if self.projected else 0.0
        whole = seconds / share if share and whole < seconds else whole
        about = f", about {max(whole - seconds, 1.0):.0f} s left" if whole > seconds else ""
        counts = [f"{what} {done + 1} of {of}" for what, (done, of) in parts.items() if of > 1]
        return ": ".join([f"computing for {seconds:.0f} s", *counts, *self._step]) + about


@contextmanager
def sign_of_life() -> Iterator[Steps]:
    """Print on stderr how long a computation takes, its steps, and about how long it will take.

    A terminal has one line, renewed each second. Elsewhere a line is added when the time has doubled.
    """
    steps, done, terminal = Steps(), Event(), sys.stderr.isatty()

    def print_on() -> None:
        wait = _FIRST
        while not done.wait(wait):
            seconds, wait = time.monotonic() - steps.began, _NEXT
            # While modules are imported, the input may still be refused, which is one line.
            if terminal or steps.begun or seconds > _SILENT:
                # On a terminal, the next output begins on the same line.
                print(steps, end=f"{_CLEAR}\r" if terminal else "\n", file=sys.stderr, flush=True)
                wait = _NEXT if terminal else seconds

    printer = Thread(target=print_on, daemon=True)
    printer.start()
    try:
        with heard_by(steps.hear, steps.part):
            yield steps
    finally:
        done.set()
        printer.join()
        if terminal:
            print(end=_CLEAR, file=sys.stderr, flush=True)
