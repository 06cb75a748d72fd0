"""What CONTRIBUTING.md says of commands, variables, rooms and files is so."""

import ast
import re
import sysconfig
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
#: Commands, and the package of an extra that brings each.
TOOLS = {
    "ruff": "ruff",
    "mypy": "mypy",
    "lint-imports": "import-linter",
    "pytest": "pytest",
    "nox": "nox",
    "pre-commit": "pre-commit",
}
#: Commands that every machine has.
SYSTEM = {"python", "python3.11", "pip"}


def section(title: str) -> str:
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str, head: str) -> list[list[str]]:
    """The cells of the table of a section whose head begins so."""
    lines = section(title).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {head} |")) + 2
    table = lines[start:]
    end = next((number for number, line in enumerate(table) if not line.startswith("|")), len(table))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[:end]]


def commands() -> list[list[str]]:
    """The words of every command, in blocks and in the table of tests."""
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL))
    quoted = "\n".join(re.findall(r"`(\S+(?: [^`]+)?)`", "\n".join(row[0] for row in rows("Tests", "command"))))
    single = re.split(r" && | \| |\n", f"{blocks}\n{quoted}")
    words = [re.findall(r"\"[^\"]*\"|'[^']*'|\S+", one) for one in single if one.strip()]
    return [[word for word in line if not re.fullmatch(r"[A-Z_]+=\d+", word)] for line in words]


def test_commands_exist() -> None:
    names = {line[0].removeprefix(".venv/bin/") for line in commands()}
    assert {"ruff", "mypy", "lint-imports", "pytest", "nox", "pre-commit", ".ci/run"} <= names
    unknown = {name for name in names - set(TOOLS) - SYSTEM if not (ROOT / name).is_file()}
    assert unknown == set()
    packages = {extra: {re.split(r"[^\w-]", one)[0] for one in EXTRAS[extra]} for extra in ("test", "dev")}
    assert {TOOLS[name] for name in names & set(TOOLS)} <= packages["test"] | packages["dev"]
    here = Path(sysconfig.get_path("scripts"))
    assert [name for name in names & set(TOOLS) if TOOLS[name] in packages["test"] and not (here / name).exists()] == []


def test_extras_and_modules_of_commands_exist() -> None:
    extras = {name for found in re.findall(r"\.\[([\w,]+)\]", TEXT) for name in found.split(",")}
    assert extras == {"test", "dev"} <= set(EXTRAS)
    modules = [line[line.index("-m") + 1] for line in commands() if line[0].startswith("python") and "-m" in line]
    own = [module for module in modules if module != "venv"]
    assert own
    assert [module for module in own if not (ROOT / (module.replace(".", "/") + ".py")).is_file()] == []


def test_sessions_of_nox_exist() -> None:
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    sessions = {one.name for one in functions if any("session" in ast.unparse(each) for each in one.decorator_list)}
    named = set(re.findall(r"nox -s (\w+)", TEXT))
    assert named
    assert named <= sessions
    default = next(node.value for node in tree.body if ast.unparse(node).startswith("nox.options.sessions"))
    assert ast.literal_eval(default) == ["lint", "quick"]


def test_markers_and_folders_of_pytest_exist() -> None:
    markers = {marker.partition(":")[0] for marker in PROJECT["tool"]["pytest"]["ini_options"]["markers"]}
    calls = [line for line in commands() if line[0].endswith("pytest")]
    expressions = [line[line.index("-m") + 1].strip('"') for line in calls if "-m" in line]
    named = {word for one in expressions for word in one.split()} - {"not", "and", "or"}
    assert named == {"slow", "cluster", "browser", "opacus"} == markers
    # What is given replaces the default expression: it must leave out itself what the default leaves out.
    for expression in expressions:
        assert "slow" not in expression or "not cluster and not browser and not opacus" in expression
    assert all((ROOT / word).exists() for line in calls for word in line if word.startswith("tests/"))


def test_variables_are_read_in_one_place_with_these_defaults() -> None:
    listed = {name.strip("`"): default for name, _, default in rows("Tests", "variable")}
    text = (ROOT / "tests/effort.py").read_text(encoding="utf-8")
    assert dict(re.findall(r'environ\.get\("(PBDIST_\w+)", "(\w+)"\)', text)) == listed
    others = [path for path in (ROOT / "tests").rglob("*.py") if path.name not in {"effort.py", Path(__file__).name}]
    reading = [
        path.name for path in others if re.search(r'environ(?:\.get\(|\[)"PBDIST_', path.read_text(encoding="utf-8"))
    ]
    assert reading == []
    assert set(re.findall(r"PBDIST_\w+", TEXT)) == set(listed)


def test_tests_that_take_the_effort_are_listed_with_their_numbers() -> None:
    taking = {}
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if re.search(r"^from tests\.effort import .*\btimes$", text, re.MULTILINE):
            taking[f"`{path.relative_to(ROOT).as_posix()}`"] = re.findall(r"\btimes\((\w+)", text)
    listed = dict(rows("Tests", "tests"))
    assert set(listed) == set(taking)
    for file, text in listed.items():
        number = text.partition(" ")[0]
        assert number in taking[file] or not number.isdigit()


def test_rooms_are_the_layers_of_the_imports() -> None:
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    names = [name for layer in layers for name in layer.split(" | ")]
    expected = [f"`{name}/`" if (ROOT / "pbdist" / name).is_dir() else f"`{name}.py`" for name in names]
    named = [row[0] for row in rows("Rooms", "room")]
    assert named == expected
    assert [name for name in named if not (ROOT / "pbdist" / name.strip("`")).exists()] == []


def test_rooms_of_one_layer_are_told() -> None:
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    head = " ".join(section("Rooms").partition("\n| room")[0].split())
    for layer in layers:
        names = layer.split(" | ")
        if len(names) > 1:
            assert ", ".join(f"`{name}`" for name in names[:-1]) + f" and `{names[-1]}`" in head


@pytest.mark.parametrize("change", rows("Where to change what", "change"), ids=lambda row: row[0])
def test_files_to_change_exist(change: list[str]) -> None:
    named = re.findall(r"`([\w./-]+[./][\w/]+)`|`([\w/]+/)`", change[1])
    paths = [one or other for one, other in named]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_file_that_is_named_exists() -> None:
    named = set(re.findall(r"`([\w./-]*(?:/|\.(?:py|txt|toml|yaml|md)))`", TEXT))
    assert len(named) > 40
    assert [name for name in named if not any((ROOT / base / name).exists() for base in ("", "pbdist"))] == []
