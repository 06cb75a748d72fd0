"""What the documentation says is so: files and links exist, commands parse, code runs and prints what it says."""

import argparse
import dataclasses
import doctest
import importlib
import inspect
import re
import shlex
import typing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

import pbdist
from pbdist.cli import main
from pbdist.cli.entry import command_parser
from pbdist.mechanisms import Pair
from pbdist.run import events
from pbdist.sizing.systems import load_systems
from pbdist.study import load_study
from pbdist.study.addition import Addition
from pbdist.study.load import load_asked
from pbdist.study.shipped import shipped_names
from tests.studies import write_study

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
README = ROOT / "README.md"
ALL = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "data" / "README.md", *PAGES]
ALL += sorted((ROOT / "cluster").glob("*.md"))
#: The modules whose docstrings have examples.
EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "pbdist").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)
#: Pages that show how pbdist is called.
WITH_COMMANDS = [
    README,
    *(
        ROOT / "docs" / f"{name}.md"
        for name in ("sizing", "studies", "running", "queries", "sharing", "plots", "reports")
    ),
]
#: Lines that other programs and people copy from the README.
COPIED = (
    "python3.11 -m venv .venv && .venv/bin/pip install . && .venv/bin/pbdist run pipelines/vuvuzela-dialing.yaml",
    ".venv/bin/pip install '.[test]' && .venv/bin/pytest",
)
#: The part of the shipped dialing study that the README and the tutorial ask for.
DIALING = """\
format: 1
name: vuvuzela-dialing
mechanisms:
  - label: dialing-laplace
    kind: NoisyCount
    shift: 2
    reading: [clamp-and-ceil, redraw-and-floor, shift-inside]
    settings:
      - {mean: 8000, noise: {kind: Laplace, scale: 500}}
      - {mean: 13000, noise: {kind: Laplace, scale: 770}}
      - {mean: 20000, noise: {kind: Laplace, scale: 1130}}
  - label: proposed-gaussian
    kind: NoisyCount
    shift: 2
    reading: [clamp-and-ceil, redraw-and-floor, shift-inside]
    settings:
      - {mean: 1600, noise: {kind: Gaussian, scale: 320}}
      - {mean: 4100, noise: {kind: Gaussian, scale: 833}}
compositions: [1024, 8192]
exp_epsilon: [1, 2]
"""


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of code of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(page), re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    prose = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^#+ (.*)", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def commands(page: Path) -> list[list[str]]:
    """The words of every call of pbdist in the page's blocks, without its name."""
    lines = "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    calls = [part for line in lines for part in line.partition(" #")[0].partition(" > ")[0].split(" && ")]
    words = [shlex.split(call) for call in calls if re.match(r"(?:\.venv/bin/)?pbdist ", call)]
    return [line[1:] for line in words]


def same(printed: str, told: str) -> bool:
    """Whether two texts are the same word for word, numbers with a point up to 0.1 %."""
    pattern = r"\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+|\w+|[^\w\s]"
    one, other = (re.findall(pattern, re.sub(r"[─-╿]", " ", text)) for text in (printed, told))
    return len(one) == len(other) and all(
        left == right or ("." in left and "." in right and float(left) == pytest.approx(float(right), rel=1e-3))
        for left, right in zip(one, other, strict=True)
    )


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stores that the pages open, with the part of each study that they ask for."""
    folder = tmp_path_factory.mktemp("docs")
    quickstart = text_of(ROOT / "pipelines" / "quickstart.yaml")
    laplace, _, others = quickstart.replace("[100, 200, 400]", "[200, 400]").partition("  - kind: Gaussian")
    for number, text in enumerate((laplace + others[others.index("\ncompositions:") :], DIALING)):
        study = write_study(folder, text, f"{number}.yaml")
        store = folder / "data" / f"{load_study(study).name}.zarr"
        assert main(["run", str(study), "--store", str(store), "--serial"]) == 0
    return folder


@cache
def parser() -> argparse.ArgumentParser:
    return command_parser()


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_are_named_exist(page: Path) -> None:
    """Those of the changelog may be gone."""
    named = re.findall(r"`([\w/]+(?:\.py|/))`", text_of(page)) if page.name != "CHANGELOG.md" else []
    missing = [name for name in named if not any((ROOT / base / name).exists() for base in ("", "pbdist", "tests"))]
    assert missing == []


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        target, _, anchor = link.partition("#")
        if target.startswith(("https://", "http://")):
            continue
        path = page.parent / target if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            wrong.append(link)
    assert wrong == []


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_sentence_is_taken_for_a_list_or_for_emphasis(page: Path) -> None:
    """A line that begins with a number and a dot is an item of a list, and emphasis has asterisks, not underscores."""
    numbered = re.compile(r" *\d+[.)] ")
    prose = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    paragraphs = [paragraph.splitlines() for paragraph in re.split(r"\n\s*\n", prose.strip())]
    assert [
        line for first, *rest in paragraphs if not numbered.match(first) for line in rest if numbered.match(line)
    ] == []
    inline = [token for token in MarkdownIt("commonmark").enable("table").parse(prose) if token.type == "inline"]
    emphasis = [token for part in inline for token in part.children or [] if token.type in {"em_open", "strong_open"}]
    assert [token.markup for token in emphasis if "_" in token.markup] == []


@pytest.mark.parametrize("page", [README, ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda page: page.name)
def test_the_glossary_is_linked(page: Path) -> None:
    if page.name not in {"glossary.md", "pld.md", "benchmarks.md", "results.md"}:
        assert "glossary.md)" in text_of(page)


def test_every_page_is_linked_from_the_readme() -> None:
    text = text_of(README)
    assert [page.name for page in PAGES if f"](docs/{page.name})" not in text] == []


def test_every_theorem_has_one_number_and_a_line_in_the_table() -> None:
    text = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("theory.md", "pld.md"))
    numbers = [int(number) for number in re.findall(r"\*\*Theorem (\d+) \(", text)]
    assert len(numbers) == len(set(numbers)) >= 20
    table = re.findall(r"^\|[^|]+\|([\d, ]+)\|", text, re.MULTILINE)
    assert {int(number) for row in table for number in row.split(",")} == set(numbers)


def test_theorems_that_are_named_are_where_it_says() -> None:
    """Those of other people's papers have their authors before them."""
    sources = [*PAGES, *(ROOT / "pbdist").rglob("*.py")]
    named = [
        (path.name, page, number)
        for path in sources
        for numbers, page in re.findall(
            r"Theorems? ([\d, and]+?),? (?:of|in) (?:docs/|\[|``docs/)(\w+)\.md", path.read_text(encoding="utf-8")
        )
        for number in re.findall(r"\d+", numbers)
    ]
    assert named
    pages = {page.stem: page.read_text(encoding="utf-8") for page in PAGES}
    missing = [each for each in named if f"**Theorem {each[2]} (" not in pages[each[1]]]
    assert missing == []


@pytest.mark.parametrize("module", EXAMPLES)
def test_the_examples_of_docstrings_come_out_as_they_say(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


@cache
def shipped_systems() -> set[str]:
    return {system.name for system in load_systems()}


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_parse_and_their_files_and_systems_exist(page: Path) -> None:
    systems = shipped_systems()
    wrong = []
    for line in commands(page):
        try:
            options = vars(parser().parse_args(line))
        except (argparse.ArgumentError, SystemExit) as error:
            wrong.append((line, error))
            continue
        files = [word for word in line if word.startswith(("pipelines/", "cluster/"))]
        wrong += [(line, file) for file in files if not (ROOT / file).is_file()]
        store = next((word for word in line if re.fullmatch(r"data/[\w-]+\.zarr", word)), "data/my-study.zarr")
        study = ROOT / "pipelines" / f"{Path(store).stem}.yaml"
        wrong += [(line, store)] if store != "data/my-study.zarr" and not study.is_file() else []
        wrong += [(line, "system")] if options.get("system") not in {None, *systems} else []
        named = {str(options[name]) for name in ("study", "like", "show") if options.get(name) is not None}
        wrong += [(line, name) for name in named if not name.endswith(".yaml") and name not in shipped_names()]
    assert wrong == []
    assert commands(page) or page not in WITH_COMMANDS


def test_the_readme_has_every_command_and_the_lines_that_are_copied() -> None:
    text = text_of(README)
    assert [line for line in COPIED if f"\n{line}\n" not in text] == []
    named = {line[0] for line in commands(README)}
    (commands_of,) = (one for one in parser()._actions if isinstance(one, argparse._SubParsersAction))
    assert named == set(commands_of.choices)


def run_blocks(page: Path, part: slice, capsys: pytest.CaptureFixture[str]) -> None:
    """Run some of a page's blocks of Python, one after the other, and compare what they print with what follows."""
    found = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", text_of(page), re.DOTALL | re.MULTILINE)[
        part
    ]
    assert found
    names: dict[str, object] = {"pbdist": pbdist}
    for code, told in found:
        capsys.readouterr()
        exec(code, names)  # noqa: S102 -- our own text
        printed = capsys.readouterr().out
        if told:
            assert same(printed, told), printed


@pytest.mark.slow
def test_the_python_of_the_readme_prints_what_it_says(
    stores: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(stores)
    run_blocks(README, slice(None), capsys)
    # A first result takes three lines, and says both bounds.
    code, *_ = blocks(README, "python")
    assert len(code.split("\n\n")[-1].splitlines()) + 1 == len([line for line in code.splitlines() if line]) == 3
    for told in blocks(README, "text"):
        numbers = told.split()
        if len(numbers) == 2:
            assert float(numbers[0]) <= float(numbers[1]) <= 1.001 * float(numbers[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plots.md", "queries.md", "sharing.md", "store-format.md", "tutorial-vuvuzela.md"])
@pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning")
def test_the_python_of_a_page_about_stores_runs(
    name: str, stores: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(stores)
    run_blocks(ROOT / "docs" / name, slice(None), capsys)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["index.md", "tutorial-dp-sgd.md", "tutorial-telemetry.md", "coming-from.md"])
def test_the_python_of_a_page_without_stores_prints_what_it_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_blocks(ROOT / "docs" / name, slice(None), capsys)


@pytest.mark.slow
def test_the_python_of_sizing_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer rounds where the page has so many that the search takes half a minute."""
    sized, size_of = [], pbdist.size

    def size_quickly(*arguments: Any, compositions: int, **others: Any) -> pbdist.SizedNoise:
        sized.append(compositions)
        return size_of(*arguments, compositions=min(compositions, 100), **others)

    monkeypatch.setattr(pbdist, "size", size_quickly)
    run_blocks(ROOT / "docs" / "sizing.md", slice(None), capsys)
    assert sized == [100, 65_536]


@pytest.mark.parametrize(
    "number", [0, 1, pytest.param(2, marks=pytest.mark.slow)], ids=["one scale", "several goals", "mean and scale"]
)
def test_sizes_are_printed_as_the_page_says(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    page = ROOT / "docs" / "sizing.md"
    assert main(commands(page)[number]) == 0
    printed = capsys.readouterr().out
    assert same(printed, blocks(page, "text")[number]), printed


@pytest.mark.slow
def test_the_lines_of_the_study_in_the_readme_hold() -> None:
    (table,) = [block for block in blocks(README, "text") if "Which noise settings" in block]
    rounds = int(re.findall(r"after (\d+) compositions", table)[0])
    rows = [line.split() for line in table.splitlines()[2:]]
    assert len(rows) == 4
    for label, reading, scale, mean, lower, upper, meets in rows:
        noise = {"dialing-laplace": pbdist.Laplace, "proposed-gaussian": pbdist.Gaussian}[label](float(scale))
        count = pbdist.NoisyCount(noise, mean=float(mean), shift=2, reading=reading)
        bounds = pbdist.privacy_bounds(count, compositions=rounds, epsilon=0.6931471805599453)
        # Printed numbers have three digits, rounded outwards.
        assert float(lower) <= bounds.delta_lower.item() <= bounds.delta_upper.item() <= float(upper)
        assert float(upper) <= 1.01 * float(lower)
        assert meets == {True: "yes", False: "no"}[float(upper) <= 1e-4]


def test_studies_of_the_pages_load(tmp_path: Path) -> None:
    whole, entries, stated, new, plans = blocks(ROOT / "docs" / "studies.md", "yaml")
    assert load_study(write_study(tmp_path, whole)).name == "my-study"
    rest = "format: 1\nname: dialing\ncompositions: [1]\nepsilon: [0]\n"
    assert len(load_study(write_study(tmp_path, rest + entries)).cells) == 4
    assert len(load_study(write_study(tmp_path, rest + plans)).cells) == 1
    assert [one.value for _, one in load_study(write_study(tmp_path, rest + stated)).adjacency] == ["replace-one"]
    asked = load_asked(write_study(tmp_path, new))
    assert isinstance(asked, Addition)
    added = asked.onto([load_study(write_study(tmp_path, whole))])
    assert (len(added.cells), added.compositions, len(added.epsilon)) == (2, (1, 4096), 10)
    (systems,) = blocks(ROOT / "docs" / "sizing.md", "yaml")
    assert [system.name for system in load_systems(write_study(tmp_path, systems))] == ["my-messenger"]


def test_the_defaults_of_a_study_file_are_those_that_are_told(tmp_path: Path) -> None:
    whole, *_ = blocks(ROOT / "docs" / "studies.md", "yaml")
    fewer = [line for line in whole.splitlines() if not line.startswith(("method", "tolerance", "floor", "direction"))]
    assert len(fewer) == len(whole.splitlines()) - 4
    told, default = load_study(write_study(tmp_path, whole)), load_study(write_study(tmp_path, "\n".join(fewer)))
    assert told.digest == default.digest


def test_the_mechanisms_of_the_readme_are_all_with_their_parameters() -> None:
    table = text_of(README).partition("\n## Mechanisms\n")[2].partition("\n## ")[0]
    calls = re.findall(r"`(\w+)\(([^`]*)\)`", table)
    public = {name: getattr(pbdist, name) for name in pbdist.__all__}
    kinds = {name for name, kind in public.items() if inspect.isclass(kind) and issubclass(kind, Pair)}
    assert {name for name, _ in calls} == kinds
    for name, parameters in calls:
        if ".." not in parameters:
            assert parameters.split(", ") in (list(inspect.signature(public[name]).parameters), ["pair"]), name


@pytest.mark.parametrize(
    ("head", "page"), [("| protocol, rounds |", "results.md"), ("| what | other library |", "benchmarks.md")]
)
def test_numbers_of_the_readme_are_those_of_the_pages(head: str, page: str) -> None:
    table = text_of(README).partition(head)[2].partition("\n\n")[0]
    numbers = set(re.findall(r"(?<![\w.,-])\d[\d,]*\.\d+(?:e-\d+)?(?!\.\d)", table)) - {"0.6.0", "0.2.0"}
    assert len(numbers) > 5
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert [number for number in numbers if number not in text] == []


def test_events_of_the_log_are_all_with_their_fields() -> None:
    table = (ROOT / "docs" / "running.md").read_text(encoding="utf-8").partition("| event | fields |")[2]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE))
    kinds = {re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).lower(): kind for kind in typing.get_args(events.Event)}
    assert set(rows) == {*kinds, "run_stopped"}
    wanted = {name: {field.name for field in dataclasses.fields(kind)} for name, kind in kinds.items()}
    assert {name: fields - set(re.findall(r"`(\w+)`", rows[name])) for name, fields in wanted.items()} == {
        name: set() for name in wanted
    }
