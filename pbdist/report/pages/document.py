"""The parts of a report, made once and written by a template for each format."""

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pbdist.errors import printable
from pbdist.rounding import exact, exponential
from pbdist.tables import Column, Sheet

#: Kinds of notices: what makes a page unfit to rely on, what to know, and what is as it should be.
ALARM, NOTE, SOUND = "alarm", "note", "sound"


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
class Table(Block):
    """A table with a caption: what is printed of a sheet; the first column names the rows."""

    caption: str
    sheet: Sheet

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, each with its head."""
        return self.sheet.printed_columns

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The texts of the rows."""
        return self.sheet.printed_rows[: self.sheet.most]


@dataclass(frozen=True)
class Picture(Block):
    """A drawing as an SVG file, what it is called and what it shows, and its curves for those who do not see it."""

    title: str
    description: str
    data: bytes
    curves: str = ""


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


def command(*words: str) -> str:
    """Return words as one command line, which holds nothing that is not seen: it is copied into a terminal."""
    return shlex.join(map(printable, words))


def text_table(caption: str, heads: Sequence[str], rows: Iterable[tuple[str, ...]]) -> Table:
    """Return a table of texts."""
    return Table(caption, Sheet(tuple(Column(head, head, number=False) for head in heads), tuple(rows)))


def epsilon_text(epsilon: float) -> str:
    """Return an ε exactly: as a number of nats, or as the logarithm of a shorter one."""
    number, power = exact(epsilon), exponential(epsilon)
    logarithm = f"ln {exact(power)}"
    return logarithm if epsilon > 0.0 and math.isfinite(power) and len(logarithm) < len(number) else number
