"""Answers in every format: the same rows, bounds rounded outwards, and labels that are nothing but text."""

import csv
import io
import json
import math
import re
import unicodedata
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas
import pytest
import xarray
from markdown_it import MarkdownIt

import pbdist
from pbdist.accounting import dpsgd_noise
from pbdist.cli import main
from pbdist.errors import printable
from pbdist.query import open_study
from pbdist.query.noise_choice import target_sheet
from pbdist.results import NONE_MEETS, NOT_FOUND, DeltaBounds
from pbdist.rounding import exact, rounded_down, rounded_up, whole_down, whole_up
from pbdist.tables import Column, Sheet, Shown, as_number, escaped, value_of
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
    "![img](x)",
    "&amp; &#38;",
)
COLUMNS = (
    Column("mechanism", "mechanism", number=False),
    Column("exp_epsilon", "e^ε"),
    Column("delta", "δ lower"),
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
    text = SHEET.csv()
    assert all(character.isprintable() or character == "\n" for character in text)
    head, *rows = csv.reader(io.StringIO(text), strict=True)
    assert head == [column.name for column in COLUMNS]
    assert [row[1:] for row in rows] == [["2.0", "9.123456789e-07", "true", ""]] * len(LABELS)
    for (found, *_), label in zip(rows, LABELS, strict=True):
        assert found == printable(label)
    # Every text is quoted, no number is.
    assert text.splitlines()[1] == '"plain",2.0,9.123456789e-07,true,'
    # A line break in a label makes no line of its own.
    assert len(text.splitlines()) == 1 + len(LABELS)


@pytest.mark.parametrize("value", [0.1, 5e-324, 1e300, -745.2, math.inf, -math.inf, math.nan, None])
def test_csv_has_floats_whole(value: float | None) -> None:
    sheet = Sheet((Column("x", "x"), Column("y", "y")), ((value, 1),))
    _, [found, one] = csv.reader(io.StringIO(sheet.csv()))
    assert one == "1"
    assert found == "" if value is None or math.isnan(value) else float(found) == value


def test_markdown_shows_what_was_written() -> None:
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(SHEET.markdown())
    inline = [token for token in tokens if token.type == "inline"]
    # Nothing but text: no emphasis, code, link, image, entity or HTML.
    assert {child.type for token in inline for child in token.children or []} <= {"text", "text_special"}
    shown = ["".join(child.content for child in token.children or []) for token in inline]
    labels = [printable(label).strip() for label in LABELS]
    assert shown[: len(LABELS)] == shown[-len(LABELS) :] == labels
    cells = shown[len(LABELS) : -len(LABELS)]
    width = len(SHEET.printed_columns)
    assert cells[:width] == ["mechanism", "e^ε", "δ lower", ""]
    assert cells[width::width] == labels
    assert cells[width + 2 :: width] == ["9.1e-7"] * len(LABELS)


def test_markdown_rows_have_as_many_cells_as_columns() -> None:
    table = [line for line in SHEET.markdown().splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(LABELS)
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in table} == {1 + len(SHEET.printed_columns)}


#: What a text in LaTeX is made of, when nothing of it has a meaning of its own.
_SAFE = re.compile(r"\\[{}$&#%_]|\\text\w+\{\}|\{[\[*]\}|\\ensuremath\{\\[A-Za-z]+\}|[^\\{}$&#%_^~\[*]")


@pytest.mark.parametrize("label", LABELS)
def test_labels_have_no_meaning_in_latex(label: str) -> None:
    text = escaped(label)
    assert _SAFE.sub("", text) == ""
    # What is left to read is what was written, letter by letter.
    letters = re.sub(r"\\(?:text\w+|ensuremath)", "", text)
    assert [x for x in letters if x.isdigit()] == [x for x in printable(label) if x.isdigit()]


def test_latex_is_a_tabular_with_whole_rows() -> None:
    lines = SHEET.latex().splitlines()
    start, end = lines.index("\\midrule"), lines.index("\\bottomrule")
    assert lines[0] == "% needs \\usepackage{booktabs}"
    assert "\\noindent\\begin{tabular}{lrrl}" in lines
    rows = [lines[start - 1], *lines[start + 1 : end]]
    assert len(rows) == 1 + len(LABELS)
    assert all(line.endswith(" \\\\") for line in rows)
    assert {len(re.findall(r"(?<!\\)&", line)) for line in rows} == {3}
    assert rows[0] == r"mechanism & e\ensuremath{^{\varepsilon}} & \ensuremath{\delta} lower &  \\"
    assert rows[1] == r"plain & $2$ & $9.1\times 10^{-7}$ &  \\"
    # A comment would swallow the rest of a line.
    assert not any(re.search(r"(?<!\\)%", line) for line in lines[1:])


@pytest.mark.parametrize(
    ("text", "found"),
    [("-12.5", "$-12.5$"), ("1e+300", r"$1\times 10^{300}$"), ("-inf", r"$-\infty$"), ("not known", "not known")],
)
def test_numbers_in_latex(text: str, found: str) -> None:
    sheet = Sheet((Column("x", "x"),), ((Shown(text, 0.0),),))
    assert sheet.latex().splitlines()[5] == f"{found} \\\\"


def test_a_printed_table_takes_nothing_for_markup() -> None:
    out = str(SHEET)
    assert "[bold]markup[/bold]" in out
    assert not any(unicodedata.category(character) in {"Cc", "Cf"} for character in out if character != "\n")
    # However wide letters are, numbers stand under their heads.
    numbers = [line for line in out.splitlines() if " 9.1e-7 " in line]
    assert len({sum(2 if unicodedata.east_asian_width(x) == "W" else 1 for x in line) for line in numbers}) == 1


def test_numbers_that_are_no_bounds_are_whole() -> None:
    for value in (0.1, math.log(2.0), 1e-12, 200.0, 1.0 / 3.0):
        assert float(exact(value)) == value
    assert exact(200.0) == "200"


@pytest.mark.parametrize("value", [0.1, 1.0 / 3.0, 4.9e-324, 5.77325664e-05, 123456.789, 0.49999999, 2.0])
def test_rounding_is_outwards(value: float) -> None:
    for digits in (3, 6, 9):
        assert Decimal(rounded_down(value, digits)) <= Decimal(value) <= Decimal(rounded_up(value, digits))
    # With all digits they are read back as they were.
    assert Decimal(whole_down(value)) <= Decimal(value) <= Decimal(whole_up(value))
    assert float(whole_down(value)) == float(whole_up(value)) == value


def test_bounds_are_rounded_outwards_in_every_form() -> None:
    low, high = 0.1, 0.2
    assert Decimal(repr(high)) < Decimal(high)
    found = DeltaBounds(*(np.array([value]) for value in (low, high, math.log(low), math.log(high))))
    sheet = found.sheet
    [row] = csv.DictReader(io.StringIO(sheet.csv()))
    # Parsed as decimals, not as floats.
    [answer] = json.loads(sheet.json(), parse_float=Decimal)["answers"]
    cells = [line.split("|")[1:5] for line in sheet.markdown().splitlines()][-1]
    tex = [text.strip(" $") for text in sheet.latex().splitlines()[-3].removesuffix(" \\\\").split("&")[:4]]
    told = str(sheet).splitlines()[-2].strip("│").split("│")
    html = re.findall(r"<td[^>]*>([^<]*)</td>", sheet._repr_html_())
    true = {
        "delta_lower": low,
        "delta_upper": high,
        "log_delta_lower": math.log(low),
        "log_delta_upper": math.log(high),
    }
    for column, (name, value) in enumerate(true.items()):
        texts = (row[name], str(answer[name]), cells[column], tex[column], told[column], html[column])
        for text in texts:
            written = Decimal(text.strip())
            assert written <= Decimal(value) if name.endswith("lower") else written >= Decimal(value)
        assert float(row[name]) == float(answer[name]) == value


def test_columns_may_say_that_they_are_bounds() -> None:
    below = next(value for value in (0.1 * n for n in range(1, 99)) if Decimal(repr(value)) < Decimal(value))
    above = next(value for value in (0.1 * n for n in range(1, 99)) if Decimal(repr(value)) > Decimal(value))
    columns = Column("enough", "enough", side="upper"), Column("less", "less", side="lower"), Column("plain", "plain")
    several = Column("scanned", "", printed=False, side="lower")
    sheet = Sheet((*columns, several), ((below, above, below, (above, None)),))
    [answer] = json.loads(sheet.json(), parse_float=Decimal)["answers"]
    [row] = csv.DictReader(io.StringIO(sheet.csv()))
    assert row["scanned"] == f"{answer['scanned'][0]},"
    for enough, less, plain in ((answer["enough"], answer["less"], answer["plain"]), [*row.values()][:3]):
        assert Decimal(enough) > Decimal(below)
        assert Decimal(less) < Decimal(above)
        assert str(plain) == repr(below)
    assert (float(answer["enough"]), [*map(float, answer["scanned"][:1])]) == (below, [above])


#: The columns of sizes and of targets that are bounds: noise that is enough is rounded up, refuted noise down.
ENOUGH = {"scale", "mean", "expected_messages", "expected_bytes", "noise_multiplier", "delta_upper"}
REFUTED = {"delta_lower", *(f"refuted_{name}" for name in ("scale", "mean", "noise_multiplier", "delta_lower"))}


def check_rounding(sheet: Sheet) -> set[str]:
    """Check the bounds of a sheet in every form, and return the names of those that it has."""
    lines = list(csv.DictReader(io.StringIO(sheet.csv())))
    answers = json.loads(sheet.json(), parse_float=Decimal)["answers"]
    found = set()
    for row, texts, line, answer in zip(sheet.rows, sheet.printed_rows, lines, answers, strict=True):
        printed = {column.name: text for column, text in zip(sheet.printed_columns, texts, strict=True)}
        for column, cell in zip(sheet.columns, row, strict=True):
            name, value = column.name, value_of(cell)
            if value is None or name not in ENOUGH | REFUTED:
                continue
            assert isinstance(value, float)
            assert float(line[name]) == float(answer[name]) == value
            for text in (line[name], answer[name], *([printed[name]] if column.printed else [])):
                assert Decimal(text) >= Decimal(value) if name in ENOUGH else Decimal(text) <= Decimal(value)
            if column.printed:
                text = printed[name]
                assert all(f" {text} " in form for form in (f"{sheet}".replace("│", " "), sheet.markdown()))
                assert str(as_number(text)) in sheet.latex()
            found.add(name)
    return found


@pytest.mark.slow
def test_noise_that_is_enough_is_rounded_up_and_refuted_noise_down() -> None:
    target = {"compositions": 2, "epsilon": 0.7, "delta": 1e-3, "tolerance": 0.1}
    poisson = pbdist.size_families("NoisyCount", noise="Poisson", shift=1, message_bytes=3.7, **target)
    whole = {"scale", "delta_upper", "delta_lower", "refuted_scale", "refuted_delta_lower"}
    assert check_rounding(poisson.sheet) == {*whole, "expected_messages", "expected_bytes"}
    assert check_rounding(pbdist.size_families("Gaussian, Laplace", **target).sheet) == whole
    multipliers = dpsgd_noise(examples=1000, batch=100, epochs=[1, 3], epsilon=[0.7, 2.0], delta=1e-3)
    assert check_rounding(multipliers.sheet) == {
        *("noise_multiplier", "delta_upper", "refuted_noise_multiplier", "refuted_delta_lower")
    }


@pytest.mark.slow
def test_bounds_at_a_target_are_rounded_outwards(store: Path) -> None:
    sheet = target_sheet(open_study(store), compositions=4, epsilon=0.25, delta=0.2)
    assert check_rounding(sheet) == {"delta_lower", "delta_upper"}


def test_json_says_once_the_value_that_rows_share() -> None:
    columns = Column("mechanism", "", shared=True), Column("within_tolerance", "")
    sheet = Sheet(columns, ((None, 1.0), ("Laplace", math.nan)))
    found = {"mechanism": "Laplace", "note": "δ", "answers": [{"within_tolerance": 1.0}, {"within_tolerance": None}]}
    assert json.loads(sheet.json({"note": "δ"})) == found
    assert json.loads(Sheet(columns, ()).json()) == {"answers": []}


@pytest.mark.slow
def test_answers_are_written_by_pandas_and_xarray(store: Path, tmp_path: Path) -> None:
    found = open_study(store).delta(LABEL, scale=[2, 3], compositions=4, epsilon=0.25)
    frame = found.frame()
    assert frame.delta_upper.tolist() == found.upper.tolist()
    frame.to_parquet(tmp_path / "a.parquet")
    assert pandas.read_parquet(tmp_path / "a.parquet").delta_upper.tolist() == found.upper.tolist()
    dataset = frame[["scale", "delta_lower", "delta_upper"]].to_xarray()
    dataset.to_netcdf(tmp_path / "a.nc")
    dataset.to_zarr(tmp_path / "a.zarr", zarr_format=2)
    with xarray.open_dataset(tmp_path / "a.nc") as read:
        assert read.delta_upper.values.tolist() == found.upper.tolist()
    assert xarray.open_zarr(tmp_path / "a.zarr", chunks=None).delta_upper.values.tolist() == found.upper.tolist()


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
    rows = found["answers"]
    # CSV: the same floats; infinite ones, which JSON has not, by name.
    table = list(csv.DictReader(io.StringIO(asked(store, capsys, *ask, "--format", "csv"))))
    assert len(table) == len(rows)
    for row, answer in zip(table, rows, strict=True):
        assert row.pop("mechanism") == LABEL
        assert row.pop("adjacency") == found["adjacency"] == "as-stated"
        assert row.pop("setting") == answer.pop("setting")
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
    [answer] = json.loads(asked(store, capsys, *ask, "--json"))["answers"]
    [row] = csv.DictReader(io.StringIO(asked(store, capsys, *ask, "--format", "csv")))
    names = ("delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper")
    assert {name: float(row[name]) for name in names} == {name: answer[name] for name in names}
    # In Python it prints as the command does.
    with pytest.warns(pbdist.PrecisionWarning) if answer["why_wide"] else nullcontext():
        found = open_study(store).delta(LABEL, scale=2, compositions=4, epsilon=0.25)
    assert f"{found}\n" == asked(store, capsys, *ask)


def test_formats_that_contradict_are_refused(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["query", str(store), "--scale", "2", "--compositions", "4", "--epsilon", "0.25"]
    assert main([*ask, "--json", "--format", "csv"]) == 2
    assert capsys.readouterr().err == "pbdist: error: --json: cannot be combined with --format\n"
    assert main([*ask, "--format", "xml"]) == 2
    assert "--format: expected one of table, csv, markdown, latex, json, got 'xml'" in capsys.readouterr().err


def test_a_page_is_as_wide_as_its_numbers() -> None:
    numbers = tuple(f"{1 + column / 7:.12f}" for column in range(20))
    columns = tuple(Column(f"c{column}", "δ") for column in range(20))
    text = str(Sheet(columns, (tuple(Shown(text, 0.0) for text in numbers),)))
    assert set(numbers) <= set(text.replace("│", " ").split())


def test_the_last_text_takes_several_lines() -> None:
    sheet = Sheet((Column("n", "n"), Column("t", "t", number=False)), ((1, "word " * 60), (2, "short")))
    lines = str(sheet).splitlines()
    assert max(map(len, lines)) <= 100
    assert [line[:4] for line in lines[3:6]] == ["│ 1 ", "│   ", "│   "]
