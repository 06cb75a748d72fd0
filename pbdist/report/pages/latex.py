"""Write a report as a LaTeX article; pictures are PDF files beside it.

pdfLaTeX and LuaLaTeX compile it (docs/reports.md names the packages). It is ASCII, and nothing in the text of a report
is read as a command: each character is a letter, an escaped one or named.
"""

import re
from collections.abc import Iterator, Sequence

from pbdist.query.latex import as_number, escaped
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
from pbdist.report.pages.latex_columns import GAP, layout_of

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
