"""Write a report as a LaTeX article; pictures are PDF files beside it.

pdfLaTeX and LuaLaTeX compile it (docs/reports.md names the packages). It is ASCII, and nothing in the text of a report
is read as a command: each character is a letter, an escaped one or named.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pbdist.query.formats import as_number, escaped
from pbdist.report.pages.document import (
    ALARM,
    Block,
    Bullets,
    Command,
    Document,
    Heading,
    Notice,
    Paragraph,
    Picture,
    Table,
    broken,
)

#: The length of a line of an A4 page with margins of 20 mm, in points, and what stands between two columns.
LINE, GAP = 483.0, 8.0
#: Sizes of letters, each with its em in points; the smallest is for tables that fit in no other.
_SIZES = (("small", 9.25), ("footnotesize", 8.5), ("scriptsize", 8.0), ("tiny", 6.83))
#: Widths of letters in em, a little more than those of Latin Modern.
_NARROW, _WIDE, _OTHER = frozenset(" .,;:!|'`()[]ijltfrI/-"), frozenset("mwMW%@&+=<>—…×≤≥∞"), 0.54
_BOLD = 1.17
_NUMBER = re.compile(r"-?[0-9][0-9.,]*e[-+]?([0-9]+)")
#: TeX may break a line there: after a hyphen, but not after that of a number.
_PIECES = re.compile(r" |(?<=[^\W\d_]-)(?=[^\W\d_])")


class Layout(NamedTuple):
    """A size of letters, the widths of the columns in its em, and whether texts have more than one line."""

    size: str
    widths: tuple[float, ...]
    folded: bool


def layout_of(table: Table) -> Layout:
    """Return the widths of a table in a line: all of each text if they fit, else at least each word and number."""
    columns = list(zip(*([[column.name for column in table.columns], *table.rows]), strict=True))
    wanted = [max(_width(text, bold=not row) for row, text in enumerate(texts)) for texts in columns]
    # A long name of a short column has several lines.
    needed = [
        max(_width(piece, bold=not row) for row, text in enumerate(texts) for piece in _pieces(text))
        for texts in columns
    ]
    short = [max([least, *map(_width, texts[1:])]) for least, texts in zip(needed, columns, strict=True)]
    size, em = next(((size, em) for size, em in _SIZES if sum(needed) <= _room(table, em)), _SIZES[-1])
    room = _room(table, em)
    for widths in (wanted, short):
        if sum(widths) <= room:
            return Layout(size, tuple(widths), folded=False)
    if sum(needed) > room:
        return Layout(size, tuple(room * one / sum(needed) for one in needed), folded=True)
    left = (room - sum(needed)) / (sum(short) - sum(needed))
    return Layout(
        size, tuple(least + left * (most - least) for least, most in zip(needed, short, strict=True)), folded=True
    )


def _room(table: Table, em: float) -> float:
    return (LINE - GAP * (len(table.columns) - 1)) / em


def _pieces(text: str) -> list[str]:
    """Return the parts of a text in which no line breaks."""
    return [piece for part in broken(text) for piece in _PIECES.split(part)] or [""]


def _width(text: str, *, bold: bool = False) -> float:
    """Return about how wide a text is printed, in em."""
    found = _NUMBER.fullmatch(text)
    if found:
        # Mantissa, times 10, and small digits above.
        return 0.52 * (found.start(1) - 2) + 2.4 + 0.45 * (len(found[1]) + 1)
    width = sum(map(_letter, text))
    return 0.3 + (_BOLD * width if bold else width)


def _letter(letter: str) -> float:
    if letter in _NARROW:
        return 0.36
    if letter in _WIDE:
        return 0.86
    if letter.isascii():
        return 0.77 if letter.isupper() else _OTHER
    # A letter that is printed as its code.
    code = escaped(letter)
    return 0.72 * len(code) if code.startswith("U+") else 0.77


#: The files of this writer begin with it.
MARK = "% pbdist report"
_HEAD = r"""
\documentclass[a4paper,10pt]{article}
\usepackage[T1]{fontenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage{array,booktabs,graphicx,longtable}
\usepackage[margin=20mm]{geometry}
\setlength{\parindent}{0pt}
\setlength{\parskip}{0.5em}
\setlength{\LTleft}{0pt}
\setlength{\emergencystretch}{3em}
% A heading does not stand alone at the foot of a page, nor what announces a list.
\newcommand{\pbdistroom}{\par\ifdim\dimexpr\pagegoal-\pagetotal\relax<10\baselineskip\newpage\fi}
\makeatletter\@beginparpenalty=10000\makeatother
\newcommand{\pbdistlist}{\setlength{\itemsep}{0.2em}\setlength{\parskip}{0pt}\setlength{\parsep}{0pt}}
% Between two lines: a box could not go on on the next page.
\newcommand{\pbdistnotice}[1]{\par\bigskip\hrule height 0.8pt\nobreak\smallskip{\raggedright #1\par}\nobreak\smallskip
  \hrule height 0.8pt\bigskip}
% As wide as the line, but not as a part of the table.
\newcommand{\pbdistcaption}[1]{\makebox[0pt][l]{\parbox[t]{\linewidth}{\raggedright #1\strut}}}
"""
#: A hyphen in a number, as in 1e-5: no line breaks after it.
_EXPONENT = re.compile(r"(?<=[0-9]e)-(?=[0-9])")


def written_latex(document: Document, pictures: Sequence[str]) -> str:
    """Return the article; `pictures` are the names of the PDF files of its pictures, in order."""
    names = iter(pictures)
    body = "\n".join("\n".join(_block(block, names)) + "\n" for block in document.blocks)
    return (
        f"{MARK}{_HEAD}\\begin{{document}}\n{{\\LARGE\\bfseries {_text(document.title)}\\par}}\n\n"
        f"{_text(document.about)}\n\n{body}\n\\end{{document}}\n"
    )


def _text(text: str) -> str:
    return r"\allowbreak{}".join(_EXPONENT.sub(r"\\mbox{-}", escaped(piece)) for piece in broken(text))


def _block(block: Block, pictures: Iterator[str]) -> Iterator[str]:
    match block:
        case Heading(text, level):
            yield f"\\pbdistroom\\{'section' if level == 2 else 'subsection'}*{{\\raggedright {_text(text)}}}"
        case Paragraph(text):
            yield _text(text)
        case Bullets(items):
            yield from _bullets(items)
        case Command(text):
            yield f"{{\\ttfamily\\small\\raggedright {_breakable(text)}\\par}}"
        case Notice(kind, title, items):
            mark = "Warning: " if kind == ALARM else ""
            yield f"\\pbdistnotice{{\\textbf{{{mark}{_text(title)}}}"
            yield from _bullets(items)
            yield "}"
        case Table():
            yield from _table(block)
        case Picture(title, description):
            yield "\\begin{minipage}{\\linewidth}\\centering"
            yield f"\\includegraphics[width=0.92\\linewidth]{{{next(pictures)}}}\\par\\smallskip"
            yield f"\\raggedright\\small {_text(title)}. {_text(description)}\\par\\end{{minipage}}\\par"


def _breakable(text: str) -> str:
    """Return a command line that breaks between words, and within long ones."""
    return " ".join(r"\allowbreak{}".join(map(escaped, broken(word))) for word in text.split(" "))


def _bullets(items: Sequence[str]) -> Iterator[str]:
    if items:
        yield r"\begin{itemize}\pbdistlist"
        yield from (f"\\item {{}}{_text(item)}" for item in items)
        yield r"\end{itemize}"


def _table(table: Table) -> Iterator[str]:
    layout = layout_of(table)
    head = " & ".join(f"\\textbf{{{_text(column.name)}}}" for column in table.columns) + r" \\"
    # A row of several lines is told from the next one.
    end = r" \\\addlinespace[0.3em]" if layout.folded else r" \\"
    yield f"{{\\{layout.size}\\setlength{{\\tabcolsep}}{{{GAP / 2:g}pt}}"
    yield f"\\begin{{longtable}}{{{_columns(table, layout.widths)}}}"
    caption = f"\\pbdistcaption{{{_text(table.caption)}}}"
    yield f"\\multicolumn{{{len(table.columns)}}}{{@{{}}l@{{}}}}{{{caption}}}\\\\[0.2em]"
    yield f"\\toprule\n{head}\n\\midrule\n\\endfirsthead\n\\toprule\n{head}\n\\midrule\n\\endhead"
    yield "\\bottomrule\n\\endfoot"
    for row in table.rows:
        cells = (_cell(text, number=column.number) for text, column in zip(row, table.columns, strict=True))
        yield " & ".join(f"{{}}{cell}" for cell in cells) + end
    yield "\\end{longtable}}"


def _cell(text: str, *, number: bool) -> str:
    return as_number(text) or _text(text) if number else _text(text)


def _columns(table: Table, widths: Sequence[float]) -> str:
    told = []
    for column, width in zip(table.columns, widths, strict=True):
        side = r"\raggedleft" if column.number else r"\raggedright"
        told.append(f">{{{side}\\arraybackslash}}p{{{width:.2f}em}}")
    return "@{}" + "".join(told) + "@{}"
