"""The parts of a report, made once and written by a template for each format."""

import hashlib
import math
import re
import shlex
from dataclasses import dataclass

from pbdist.results import NOT_KNOWN
from pbdist.rounding import exact, rounded_down, rounded_up
from pbdist.study.spec import exponential

#: Kinds of notices: what makes a page unfit to rely on, what to know, and what is as it should be.
ALARM, NOTE, SOUND = "alarm", "note", "sound"
#: Letters of a name from a store that are shown.
_LONGEST = 120
#: A zero-width space: a line may break there.
BREAK = "\u200b"
_LONG, _PIECE = re.compile(r"\S{25,}"), re.compile(r".{1,14}")


class Block:
    """A part of a page."""

    @property
    def form(self) -> str:
        """What the templates call it: its class in small letters."""
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Heading(Block):
    """A heading of level 2 or 3; the title of the page is level 1."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph(Block):
    """A paragraph of text; a `lead` one is the answer, which stands out."""

    text: str
    lead: bool = False


@dataclass(frozen=True)
class Bullets(Block):
    """A list."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Command(Block):
    """A command line to copy."""

    text: str


@dataclass(frozen=True)
class Notice(Block):
    """What a reader has to know: a title and sentences, of the kind `ALARM`, `NOTE` or `SOUND`."""

    kind: str
    title: str
    items: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """A column of a table; numbers stand at the right."""

    name: str
    number: bool = False


@dataclass(frozen=True)
class Table(Block):
    """A table with a caption; the first column names the rows."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture(Block):
    """A drawing as an SVG file, what it is called, and what it shows for those who do not see it."""

    title: str
    description: str
    data: bytes


@dataclass(frozen=True)
class Document:
    """A report: its title, what it is in a sentence, the blocks of its page, and the titled sections of its appendix.

    It is `whole` if everything that it is about is there and sound.
    """

    title: str
    about: str
    blocks: tuple[Block, ...]
    appendix: tuple[tuple[str, tuple[Block, ...]], ...] = ()
    whole: bool = True

    @property
    def everything(self) -> tuple[Block, ...]:
        """The blocks of the page and of the appendix, where sections are headings."""
        behind = [one for title, blocks in self.appendix for one in (Heading(title, 3), *blocks)]
        return (*self.blocks, *([Heading("Appendix"), *behind] if behind else []))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """All pictures, in order."""
        return tuple(block for block in self.everything if isinstance(block, Picture))


def plain(text: str) -> str:
    """Return text in which every character is seen: others, as controls and marks that turn the direction, are named.

    Names and causes in a store are anybody's text.
    """
    return "".join(letter if letter.isprintable() else f"[U+{ord(letter):04X}]" for letter in text)


def broken(text: str) -> str:
    """Return text with a `BREAK` after every 14 letters of its long words."""
    return _LONG.sub(lambda word: BREAK.join(_PIECE.findall(word[0])), text)


def named(text: str) -> str:
    """Return a name from a store as `plain` text; of a long one the ends, its length, and what tells it from others."""
    if len(text) <= _LONGEST:
        return plain(text) if text.strip() else "(no name)"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain(text[:60])}…{plain(text[-20:])} ({len(text):,} characters, SHA-256 {digest}…)"


def command(*words: str) -> str:
    """Return words as one command line; characters that are not seen are named."""
    return shlex.join(map(plain, words))


def bracket_text(lower: float, upper: float, *, attained: bool = True) -> tuple[str, str]:
    """Return a lower and an upper bound in 6 digits, rounded outwards; in words what is none."""
    if math.isnan(upper):
        return "not computed", "not computed"
    return rounded_down(lower) if attained and not math.isnan(lower) else NOT_KNOWN, rounded_up(upper)


def epsilon_text(epsilon: float) -> str:
    """Return an ε exactly: as a number of nats, or as the logarithm of a shorter one."""
    number, power = exact(epsilon), exponential(epsilon)
    logarithm = f"ln {exact(power)}"
    return logarithm if epsilon > 0.0 and math.isfinite(power) and len(logarithm) < len(number) else number
