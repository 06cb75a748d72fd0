"""What the documentation says is so: files and links exist, commands parse, code runs and prints what it says.

`.ci/run` builds the site itself, where any warning is an error. The code of other pages than the README runs at night.
"""

import doctest
import importlib
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import click
import pytest

import pbdist
from pbdist.cli import main
from pbdist.cli.entry import commands as command_line
from pbdist.mechanisms import MECHANISMS
from pbdist.sizing.systems import load_systems
from pbdist.study import load_study
from pbdist.study.load import Addition, load_asked
from pbdist.study.starter import shipped_names
from tests.studies import write_study

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
README = ROOT / "README.md"
ALL = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "data" / "README.md", *PAGES]
ALL += sorted((ROOT / "cluster").glob("*.md"))
INVENTORIES = sorted((ROOT / "docs" / "inventories").glob("*.txt"))
#: The modules whose docstrings have examples.
EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "pbdist").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)
#: Of pages that ask between the points of small stores.
WIDE = pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning")
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


def test_files_and_links_that_are_named_exist() -> None:
    """Files that the changelog names may be gone."""
    missing = []
    for page in ALL:
        named = re.findall(r"`([\w/]+(?:\.py|/))`", text_of(page)) if page.name != "CHANGELOG.md" else []
        folders = [ROOT / base for base in ("", "pbdist", "tests")]
        missing += [(page.name, name) for name in named if not any((folder / name).exists() for folder in folders)]
        for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
            target, _, anchor = link.partition("#")
            path = page.parent / target if target else page
            elsewhere = target.startswith(("https://", "http://"))
            if not elsewhere and (not path.exists() or (anchor and anchor not in anchors(path))):
                missing.append((page.name, link))
    assert missing == []


def test_theorems_that_are_named_are_where_it_says() -> None:
    """Each has a number of its own. Those of other people's papers have their authors before them."""
    pages = {page.stem: text_of(page) for page in PAGES}
    numbers = re.findall(r"\*\*Theorem (\d+) \(", pages["theory"] + pages["pld"])
    assert len(numbers) == len(set(numbers))
    named = [
        (path.name, page, number)
        for path in [*PAGES, *(ROOT / "pbdist").rglob("*.py")]
        for numbers, page in re.findall(
            r"Theorems? ([\d, and]+?),? (?:of|in) (?:docs/|\[|``docs/)(\w+)\.md", path.read_text(encoding="utf-8")
        )
        for number in re.findall(r"\d+", numbers)
    ]
    assert named
    assert [each for each in named if f"**Theorem {each[2]} (" not in pages[each[1]]] == []


def test_every_public_name_is_described_once() -> None:
    """Of modules that are described as a whole the build of the site checks each name."""
    text = "".join(map(text_of, sorted((ROOT / "docs" / "reference").glob("*.md"))))
    described = Counter(re.findall(r"^\.\. auto(?:class|function|exception):: pbdist\.(\w+)$", text, re.MULTILINE))
    # The page of mechanisms lists the classes of the registry itself.
    assert ".. mechanism-classes::" in text
    assert described == Counter(set(pbdist.__all__) - {"__version__", *MECHANISMS})


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_names_of_other_libraries_exist(path: Path) -> None:
    address, *lines = [line for line in text_of(path).splitlines() if line and line[0] != "#"]
    assert re.fullmatch(r"https://[\w./]+/", address)
    assert lines
    for line in lines:
        role, name, page = line.split()
        assert role in {"py:class", "py:data", "py:exception", "py:obj"}
        assert page.partition("#")[0].endswith(".html")
        home, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(home or "builtins"), last) or name == "None"


@pytest.mark.slow
@pytest.mark.parametrize("module", EXAMPLES)
def test_the_examples_of_docstrings_come_out_as_they_say(
    module: str, stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(stores)
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


def parsed(line: list[str]) -> dict[str, Any]:
    """Return the options of a command."""
    name, *rest = line[2:] if line[0] == "--import" else line
    with click.Context(command_line, info_name="pbdist") as whole:
        return command_line.commands[name].make_context(name, rest, parent=whole).params


def test_commands_parse_and_their_files_and_systems_exist() -> None:
    systems = {system.name for system in load_systems()}
    wrong = []
    for line in [line for page in ALL for line in commands(page)]:
        try:
            options = parsed(line)
        except (click.UsageError, pbdist.InvalidInputError, KeyError) as error:
            wrong.append((line, error))
            continue
        files = [word for word in line if word.startswith(("pipelines/", "cluster/"))]
        wrong += [(line, file) for file in files if not (ROOT / file).is_file()]
        store = next((word for word in line if re.fullmatch(r"data/[\w-]+\.zarr", word)), "data/my-study.zarr")
        study = ROOT / "pipelines" / f"{Path(store).stem}.yaml"
        wrong += [(line, store)] if store != "data/my-study.zarr" and not study.is_file() else []
        known = {options.get("system")} if options.get("systems") else {None, *systems}
        wrong += [(line, "system")] if options.get("system") not in known else []
        named = {str(options["study"])} if options.get("study") else set()
        wrong += [(line, name) for name in named if not name.endswith(".yaml") and name not in shipped_names()]
    assert wrong == []


def test_the_readme_has_the_lines_that_are_copied() -> None:
    assert [line for line in COPIED if f"\n{line}\n" not in text_of(README)] == []


def run_blocks(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a page's blocks of Python, one after the other, and compare what they print with what follows."""
    found = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", text_of(page), re.DOTALL | re.MULTILINE)
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = DIALING[: DIALING.index("      - {mean: 13000")] + DIALING[DIALING.index("compositions") :]
    store = tmp_path / "data" / "vuvuzela-dialing.zarr"
    assert main(["run", str(write_study(tmp_path, first)), "--store", str(store), "--serial"]) == 0
    monkeypatch.chdir(tmp_path)
    run_blocks(README, capsys)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=WIDE) for name in ("plots", "queries", "sharing", "tutorial-vuvuzela")),
        *("index", "tutorial-dp-sgd", "tutorial-telemetry", "coming-from"),
    ],
)
def test_the_python_of_other_pages_prints_what_it_says(
    name: str, stores: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(stores)
    run_blocks(ROOT / "docs" / f"{name}.md", capsys)


@pytest.mark.nightly
def test_the_python_of_sizing_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer rounds where the page has so many that the search takes half a minute."""
    sized, size_of = [], pbdist.size

    def size_quickly(*arguments: Any, compositions: int, **others: Any) -> pbdist.SizedNoise:
        sized.append(compositions)
        return size_of(*arguments, compositions=min(compositions, 100), **others)

    monkeypatch.setattr(pbdist, "size", size_quickly)
    run_blocks(ROOT / "docs" / "sizing.md", capsys)
    assert sized == [100, 65_536]


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(3), ids=["one scale", "families", "mean and scale"])
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
    (table,) = [block for block in blocks(README, "text") if "target: " in block]
    rounds = int(re.findall(r"r = (\d+)", table)[0])
    rows = [line.split() for line in table.splitlines()[2:]]
    assert len(rows) == 3
    scales = {"20000": 1130.0, "13000": 770.0, "4100": 833.0, "1600": 320.0}
    for label, reading, *pieces in rows:
        kind = {"dialing-laplace": pbdist.Laplace, "proposed-gaussian": pbdist.Gaussian}[label]
        whole = pieces if pieces[0] != "none" else ["none", "inf", *pieces[1:]]
        for mean, bound in (whole[:2], whole[2:]):
            if mean == "none":
                continue
            count = pbdist.NoisyCount(kind(scales[mean]), mean=float(mean), shift=2, reading=reading)
            found = pbdist.privacy_bounds(count, compositions=rounds, epsilon=0.6931471805599453)
            # Printed numbers are rounded outwards.
            if mean == whole[0]:
                assert found.delta_lower.item() <= float(bound) <= 1e-4
            else:
                assert 1e-4 < float(bound) <= found.delta_upper.item()


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
