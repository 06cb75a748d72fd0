"""What the documentation points to exists, and its examples hold."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
#: The modules whose docstrings have examples.
EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "pbdist").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+(?:\.py|/))`", text)
    missing = [name for name in named if not any((ROOT / base / name).exists() for base in ("", "pbdist", "tests"))]
    missing += [link for link in re.findall(r"\]\((\w[\w./-]*)\)", text) if not (page.parent / link).exists()]
    assert missing == []


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


def test_the_python_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """All paragraphs but those that open the store of a study."""
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    paragraphs = [part for part in block.split("\n\n") if "open_study" not in part]
    assert len(paragraphs) >= 3
    exec("\n\n".join(paragraphs), {})  # noqa: S102 -- our own text
    printed = capsys.readouterr().out.split()
    assert float(printed[-2]) <= float(printed[-1]) <= 1.001 * float(printed[-2])
