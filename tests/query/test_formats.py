"""Answers in every format: the same rows, bounds rounded outwards, and labels that are nothing but text."""

import csv
import io
import json
import math
import re
import unicodedata
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from pbdist.cli import main
from pbdist.cli.output import print_sheet
from pbdist.errors import printable
from pbdist.query.formats import Column, Sheet, Shown, as_csv, as_latex, as_markdown, as_table, escaped
from pbdist.query.printing import NONE_MEETS, NOT_FOUND
from pbdist.rounding import exact, rounded_down, rounded_up
from tests.studies import Finished

#: What labels may hold: of a study file every printable character, of a store that somebody made anything.
LABELS = (
    "plain",
    "a|b",
    "a & b \\",
    "x_y^2",
    "50% of {all} $5 #1 ~",
    "\\input{/etc/passwd}",
    "\\\\",
    "[bracket]",
    "*star*",
    "--dash---",
    "quote\"s' `ticks`",
    "<b>bold</b>",
    "=SUM(A1)",
    "-1+2",
    " @cmd",
    "+1",
    "naïve Größe Łódź – …",
    "中文",
    "δ ε Σ × ≤",
    "new\nline\r\nand\x00nul\x1b[31m\u202eabc",
    "[bold]markup[/bold]",
    "^^5c",
    "http://evil.example www.evil.example",
    ":smile:",
    "1. list",
    "# head",
    "![img](x)",
    "&amp; &#38;",
)
COLUMNS = (
    Column("mechanism", "mechanism", number=False),
    Column("exp_epsilon", "e^ε"),
    Column("delta_lower", "δ lower"),
    Column("hidden", "", printed=False),
    Column("why_wide", "", number=False),
)
SHEET = Sheet(
    columns=COLUMNS,
    rows=tuple((label, 2.0, Shown("9.1e-7", 9.123456789e-07), True, None) for label in LABELS),
    caption=LABELS,
    notes=LABELS,
)


def test_csv_is_read_back_as_it_was() -> None:
    text = as_csv(SHEET)
    assert all(character.isprintable() or character == "\n" for character in text)
    head, *rows = csv.reader(io.StringIO(text), strict=True)
    assert head == [column.name for column in COLUMNS]
    assert [row[1:] for row in rows] == [["2.0", "9.123456789e-07", "true", ""]] * len(LABELS)
    for (found, *_), label in zip(rows, LABELS, strict=True):
        formula = label.strip()[0] in "=+-@"
        assert found == ("'" if formula else "") + printable(label)
    # Every text is quoted, no number is.
    assert text.splitlines()[1] == '"plain",2.0,9.123456789e-07,true,'
    # A line break in a label makes no line of its own.
    assert len(text.splitlines()) == 1 + len(LABELS)


@pytest.mark.parametrize("value", [0.1, 5e-324, 1e300, -745.2, math.inf, -math.inf, math.nan, None])
def test_csv_has_floats_whole(value: float | None) -> None:
    sheet = Sheet((Column("x", "x"), Column("y", "y")), ((value, 1),))
    _, [found, one] = csv.reader(io.StringIO(as_csv(sheet)))
    assert one == "1"
    assert found == "" if value is None or math.isnan(value) else float(found) == value


def test_markdown_shows_what_was_written() -> None:
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(as_markdown(SHEET))
    inline = [token for token in tokens if token.type == "inline"]
    # Nothing but text: no emphasis, code, link, image, entity or HTML.
    assert {child.type for token in inline for child in token.children or []} <= {"text", "text_special"}
    shown = ["".join(child.content for child in token.children or []) for token in inline]
    labels = [printable(label).strip() for label in LABELS]
    assert shown[: len(LABELS)] == shown[-len(LABELS) :] == labels
    assert not any(token.type in {"heading_open", "bullet_list_open", "ordered_list_open", "hr"} for token in tokens)
    cells = shown[len(LABELS) : -len(LABELS)]
    width = len(SHEET.printed_columns)
    assert cells[:width] == ["mechanism", "e^ε", "δ lower", ""]
    assert cells[width::width] == labels
    assert cells[width + 2 :: width] == ["9.1e-7"] * len(LABELS)


def test_markdown_makes_no_links_of_addresses() -> None:
    text = as_markdown(SHEET)
    assert "http://" not in text
    assert "www." not in text


def test_markdown_rows_have_as_many_cells_as_columns() -> None:
    table = [line for line in as_markdown(SHEET).splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(LABELS)
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in table} == {1 + len(SHEET.printed_columns)}


#: What a text in LaTeX is made of, when nothing of it has a meaning of its own.
_SAFE = re.compile(
    r"""
      \\[{}$&\#%_]                                              # an escaped character
    | \\(?:text\w+|ldots|ss|ae|AE|oe|OE|o|O|l|L|i)\{\}          # a symbol
    | \{\\char(?:34|39|96)\} | \{[\[*]\} | \{\}
    | \\ensuremath\{\\[A-Za-z]+\}
    | \\[`'^~=u."rHvdc]\{[A-Za-z]\}                             # an accent
    | [A-Za-z0-9 .,:;!?()/+=@\]-]
    """,
    re.VERBOSE,
)


@pytest.mark.parametrize("label", LABELS)
def test_labels_have_no_meaning_in_latex(label: str) -> None:
    text = escaped(label)
    assert text.isascii()
    assert _SAFE.sub("", text) == ""
    assert text.count("{") - text.count("\\{") == text.count("}") - text.count("\\}")
    assert "--" not in text
    # What is left to read is what was written, letter by letter.
    letters = re.sub(r"\\(?:text\w+|ldots|ensuremath)|\\char\d+|U\+[0-9A-F]{4,}", "", text)
    assert [x for x in letters if x.isdigit()] == [x for x in printable(label) if x.isascii() and x.isdigit()]


def test_latex_is_a_tabular_with_whole_rows() -> None:
    lines = as_latex(SHEET).splitlines()
    start, end = lines.index("\\midrule"), lines.index("\\bottomrule")
    assert lines[0] == "% needs \\usepackage{booktabs}"
    assert "\\noindent\\begin{tabular}{lrrl}" in lines
    rows = [lines[start - 1], *lines[start + 1 : end]]
    assert len(rows) == 1 + len(LABELS)
    assert all(line.endswith(" \\\\") for line in rows)
    assert {len(re.findall(r"(?<!\\)&", line)) for line in rows} == {3}
    assert rows[0] == r"mechanism & $e^{\varepsilon}$ & \ensuremath{\delta} lower &  \\"
    assert rows[1] == r"plain & $2$ & $9.1\times 10^{-7}$ &  \\"
    # A comment would swallow the rest of a line.
    assert not any(re.search(r"(?<!\\)%", line) for line in lines[1:])


@pytest.mark.parametrize(
    ("text", "found"),
    [("-12.5", "$-12.5$"), ("1e+300", r"$1\times 10^{300}$"), ("-inf", r"$-\infty$"), ("not known", "not known")],
)
def test_numbers_in_latex(text: str, found: str) -> None:
    sheet = Sheet((Column("x", "x"),), ((Shown(text, 0.0),),))
    assert as_latex(sheet).splitlines()[5] == f"{found} \\\\"


def test_a_printed_table_takes_nothing_for_markup() -> None:
    console = Console(width=300, file=io.StringIO(), force_terminal=False)
    console.print(as_table(SHEET))
    out = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[bold]markup[/bold]" in out
    assert not any(unicodedata.category(character) in {"Cc", "Cf"} for character in out if character != "\n")


def test_numbers_that_are_no_bounds_are_whole() -> None:
    for value in (0.1, math.log(2.0), 1e-12, 200.0, 1.0 / 3.0):
        assert float(exact(value)) == value
    assert exact(200.0) == "200"


@pytest.mark.parametrize("value", [0.1, 1.0 / 3.0, 4.9e-324, 5.77325664e-05, 123456.789, 0.49999999, 2.0])
def test_rounding_is_outwards(value: float) -> None:
    for digits in (3, 6, 9):
        assert Decimal(rounded_down(value, digits)) <= Decimal(value) <= Decimal(rounded_up(value, digits))


# The command line.

STUDY = """\
format: 1
name: labels
mechanisms:
  - {label: "=a|b & c_d", kind: Laplace, scale: [2, 3]}
tolerance: 0.01
compositions: [1, 4]
epsilon: [0, 0.25, 0.5]
"""
LABEL = "=a|b & c_d"
QUESTIONS: dict[str, list[str]] = {
    "delta": ["--scale", "2", "2.5", "--compositions", "1", "3", "4", "--epsilon", "0.1", "0.25"],
    "each": ["--scale", "2", "--compositions", "4", "--exp-epsilon", "1.1", "1.2", "--direction", "each"],
    "epsilon": ["--scale", "2", "3", "--compositions", "4", "--delta", "0.1", "0.3", "1e-9"],
    "compositions": ["--scale", "2", "3", "--epsilon", "0.25", "--delta", "0.1", "0.9"],
}


@pytest.fixture(scope="module")
def store(finished_store: Finished) -> Path:
    return finished_store(STUDY)


def asked(store: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["query", str(store), *options]) == 0
    return capsys.readouterr().out


def flat(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row each, or one for each direction, as the other formats have them."""
    found = []
    for answer in answers:
        apart = {key: value for key, value in answer.items() if "||" in key}
        common = {key: value for key, value in answer.items() if key not in apart}
        found += [{**common, "direction": key, **value} for key, value in apart.items()] or [common]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_every_format_has_the_same_rows(
    store: Path, question: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    ask = QUESTIONS[question]
    found = json.loads(asked(store, capsys, *ask, "--format", "json"))
    assert found == json.loads(asked(store, capsys, *ask, "--json"))
    assert found["mechanism"] == LABEL
    rows = flat(found["answers"])
    # CSV: the same floats; infinite ones, which JSON has not, by name.
    table = list(csv.DictReader(io.StringIO(asked(store, capsys, *ask, "--format", "csv"))))
    assert len(table) == len(rows)
    for row, answer in zip(table, rows, strict=True):
        assert row.pop("mechanism") == f"'{LABEL}"
        assert row.pop("adjacency") == found["adjacency"] == "as-stated"
        assert row.keys() == answer.keys()
        for name, value in answer.items():
            if isinstance(value, bool):
                assert row[name] == str(value).lower()
            elif isinstance(value, int | float):
                assert float(row[name]) == value
            elif value is None:
                assert row[name] in {"", "inf", "-inf"}
            else:
                assert row[name] == value
    # The others: rounded outwards.
    lines = [line for line in asked(store, capsys, *ask, "--format", "markdown").splitlines() if line.startswith("| ")]
    heads = [cell.strip() for cell in lines[0].split("|")[1:-1]]
    markdown = [
        dict(zip(heads, map(str.strip, line.split(" | ")), strict=True))
        for line in (line[2:].removesuffix(" |") for line in lines[1:])
    ]
    latex = asked(store, capsys, *ask, "--format", "latex")
    printed = asked(store, capsys, *ask)
    for row, answer in zip(markdown, rows, strict=True):
        for name, value in answer.items():
            head = name.replace("log_", "ln ").replace("_", " ").replace("delta", "δ").replace("epsilon", "ε")
            head = head.replace("compositions", "r")
            if value is None or not name.endswith(("lower", "upper")):
                continue
            if row[head] in {NOT_FOUND, NONE_MEETS}:
                continue
            told, true = Decimal(row[head]), Decimal(value)
            assert told <= true if name.endswith("lower") else told >= true
            assert told == pytest.approx(true, rel=Decimal("1e-4"))
            # No number is cut, however narrow the page is.
            assert f" {row[head]} " in re.sub("[│┃]", " ", printed)
            mantissa = row[head].partition("e")[0]
            assert f"${mantissa}" in latex
        why = answer["why_wide"]
        marks = {f"wide: {why}", f"because {why}"} if why else {""}
        assert row[""] in marks if "" in row else why is None
    if any(answer["why_wide"] for answer in rows):
        assert "wide" in printed


def test_one_point_is_a_row_too(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["--scale", "2", "--compositions", "4", "--epsilon", "0.25"]
    maximum = json.loads(asked(store, capsys, *ask, "--json"))["bounds"]["maximum"]
    [row] = csv.DictReader(io.StringIO(asked(store, capsys, *ask, "--format", "csv")))
    assert {name: float(row[name]) for name in maximum} == maximum


def test_formats_that_contradict_are_refused(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["query", str(store), "--scale", "2", "--compositions", "4", "--epsilon", "0.25"]
    assert main([*ask, "--json", "--format", "csv"]) == 2
    assert capsys.readouterr().err == "pbdist: error: --json: expected none beside --format csv, got one\n"
    assert main([*ask, "--json", "--format", "json"]) == 0
    capsys.readouterr()
    assert main([*ask, "--format", "xml"]) == 2
    assert "--format: expected one of table, csv, markdown, latex, json, got 'xml'" in capsys.readouterr().err


def test_a_page_is_as_wide_as_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = tuple(f"{1 + column / 7:.12f}" for column in range(20))
    columns = tuple(Column(f"c{column}", "δ") for column in range(20))
    print_sheet(Sheet(columns, (tuple(Shown(text, 0.0) for text in numbers),)), "table")
    assert set(numbers) <= set(re.split(r"[\s│]+", capsys.readouterr().out))
