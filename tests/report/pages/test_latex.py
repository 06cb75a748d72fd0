"""What LaTeX engines need of the article: nothing undeclared, whole numbers, columns that fit, PDF files they read."""

import ast
import re
from pathlib import Path

import pytest

import pbdist
from pbdist.query.formats import escaped
from pbdist.report.pages.document import ALARM, Column, Document, Notice, Paragraph, Picture, Table
from pbdist.report.pages.files import report_files
from pbdist.report.pages.latex import GAP, LINE, MARK, layout_of, written_latex
from pbdist.report.sheet import new_sheet, saved
from tests.report.pages.test_writers import HOSTILE, document_of

#: Commands of LaTeX itself and of the packages that the article loads: array, booktabs, geometry, graphicx, longtable.
KNOWN = frozenset(
    re.findall(
        r"\S+",
        """
        documentclass usepackage IfFileExists newcommand setlength makeatletter makeatother begin end section
        subsection par parindent parskip LTleft emergencystretch ifdim dimexpr pagegoal pagetotal relax
        baselineskip newpage fi linewidth itemsep parsep bigskip smallskip hrule nobreak makebox parbox
        raggedright raggedleft strut LARGE bfseries textbf ttfamily item centering includegraphics small
        footnotesize scriptsize tiny tabcolsep multicolumn toprule midrule bottomrule endfirsthead endhead
        endfoot addlinespace arraybackslash allowbreak mbox ensuremath char textbackslash textasciicircum
        textasciitilde textless textgreater textbar textendash textemdash textquoteleft textquoteright
        textquotedblleft textquotedblright ldots ss ae AE o O l L oe OE i r u v H d c alpha beta delta varepsilon
        mu xi rho Delta Pi Sigma sigma times le ge infty surd Vert cdot
        """,
    )
)
PLACES = re.compile(r"[0-9.]+(?=em})")
LONG = "proposed-laplace (Laplace noise, scale 827.1234567890123, mean 10000, shift 2, reading clamp-and-ceil)"


def table_of(*rows: tuple[str, ...], numbers: tuple[int, ...] = ()) -> Table:
    names = (f"the name of column {index}, a long one" for index in range(len(rows[0])))
    return Table("all of it", tuple(Column(name, index in numbers) for index, name in enumerate(names)), rows)


@pytest.mark.parametrize("text", [*HOSTILE, LONG], ids=range(len(HOSTILE) + 1))
def test_every_command_and_environment_is_one_that_is_declared(text):
    written = written_latex(document_of(text), ["picture.pdf"])
    own = set(re.findall(r"\\newcommand\{\\([a-z]+)\}", written))
    # A letter after a backslash is printed, or is an accent.
    commands = set(re.findall(r"\\([a-zA-Z]+|.)", written.replace(r"\\", "").replace(r"\@beginparpenalty", "")))
    assert commands <= KNOWN | own | set("{}$&#%_\"'`^~=.")
    bare = re.sub(r"\\[{}$&#%_]", "", written)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert written.isascii()
    opened = []
    for kind, name in re.findall(r"\\(begin|end)\{([a-z]+)\}", written):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert not opened
    assert "\n\n\n" not in written


@pytest.mark.slow
def test_every_letter_that_pbdist_writes_itself_is_printed_as_it_is():
    root = Path(pbdist.__file__).parent
    # Without the tables of letters, which are no texts.
    others = {root / "query/latex.py", root / "query/formats.py"}
    files = {path for room in ("report/pages", "query", "sizing") for path in (root / room).glob("*.py")} - others
    sources = [path.read_text(encoding="utf-8") for path in files]
    trees = [ast.parse(source) for source in sources if not source.isascii()]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = [one.value for one in nodes if isinstance(one, ast.Constant) and id(one) not in docstrings]
    letters = {letter for text in texts if isinstance(text, str) for letter in text if letter.isprintable()}
    assert {"ε", "δ"} <= letters
    assert not [letter for letter in letters if escaped(letter).startswith("U+")]


def test_no_line_breaks_in_a_number():
    text = "at most 1.5e-05, at least 2e-300"
    document = Document(text, text, (Paragraph(text), table_of((text, "1.5e-05"), numbers=(1,))))
    written = written_latex(document, [])
    assert r"1.5e\mbox{-}05" in written
    assert not re.search(r"[0-9]e-[0-9]", written)
    assert r"$1.5\times 10^{-5}$" in written


def test_the_power_of_e_is_set_as_one():
    assert escaped("e^ε = 2, e^x") == r"e\ensuremath{^{\varepsilon}} = 2, e\textasciicircum{}x"


@pytest.mark.parametrize(
    "table",
    [
        table_of(("1", "2.30000e-308"), numbers=(0, 1)),
        table_of((LONG, "5.77327e-5", "5.77328e-5", "will do"), numbers=(1, 2)),
        table_of((LONG, LONG, "1.17283e-11", LONG, "3.72320e-4", "0 undecided"), numbers=(2, 4)),
        table_of(tuple(["2.30000e-308"] * 12), numbers=tuple(range(12))),
        table_of(("x" * 10_000, "1"), numbers=(1,)),
        table_of(("漢字" * 40, "M" * 24, "")),
    ],
    ids=range(6),
)
def test_columns_fit_into_a_line(table):
    layout = layout_of(table)
    points = {"small": 9.25, "footnotesize": 8.5, "scriptsize": 8.0, "tiny": 6.83}[layout.size]
    assert sum(layout.widths) * points + GAP * (len(table.columns) - 1) <= LINE * (1 + 1e-9)
    assert min(layout.widths) > 0
    written = written_latex(Document("t", "a", (table,)), [])
    assert len(PLACES.findall(written.split(r"\begin{longtable}")[1].splitlines()[0])) == len(table.columns)


def test_a_column_is_as_wide_as_its_numbers_and_words():
    layout = layout_of(table_of((LONG, LONG, "1.17283e-11", LONG, "3.72320e-4", "0 undecided"), numbers=(2, 4)))
    # In Latin Modern of 9 points 1.17283 × 10^-11 is 6.97 em wide, "827.1234567890123," 9.2 em and "(Laplace" 3.9 em.
    assert layout.widths[2] > 6.97
    assert min(layout.widths[index] for index in (0, 1, 3)) > 9.2
    assert layout.folded
    short = layout_of(table_of(("1", "2.30000e-308"), numbers=(0, 1)))
    assert short.size == "small"
    assert not short.folded


def test_a_notice_may_go_on_on_the_next_page():
    written = written_latex(Document("t", "a", (Notice(ALARM, "bad", ("it is",) * 200),)), [])
    assert r"\fbox" not in written
    assert written.count("\\item ") == 200


@pytest.mark.slow
def test_a_picture_ends_as_a_pdf_file_ends_and_is_known_as_ours(tmp_path):
    sheet = new_sheet(2, 2)
    sheet.add_subplot().plot([1, 2])
    picture = Picture("p", "d", saved(sheet, "pdf"), kind="pdf")
    (_, written), _ = report_files(Document("t", "a", (picture,)), tmp_path / "r.tex", "latex")
    assert re.search(rb"\nstartxref\n[0-9]+\n%%EOF\n\Z", written)
    assert MARK.encode() in written
    table = int(written.split()[-2])
    assert written[table:].startswith(b"xref\n")
