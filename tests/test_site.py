"""What the documentation site is made of: every page has a place, every public name a description, every link a name.

`.ci/run` builds the site itself, where any warning is an error.
"""

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

import pbdist
from pbdist import granularity

DOCS = Path(__file__).parents[1] / "docs"
INDEX = DOCS / "index.md"
INVENTORIES = sorted((DOCS / "inventories").glob("*.txt"))
#: What is public in pbdist and no object to describe.
LEFT_OUT = {"__version__"}


def toctrees(page: Path) -> list[str]:
    """The pages that a page has below it, without their suffix."""
    trees = re.findall(r"^```{toctree}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    entries = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    return [re.sub(r".*<(.*)>", r"\1", entry) for entry in entries]


def test_every_page_has_one_place_in_the_site() -> None:
    below = toctrees(INDEX) + [f"clusters/{entry}" for entry in toctrees(DOCS / "clusters" / "profiles.md")]
    pages = [path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")]
    assert Counter(below) == Counter(page for page in pages if page != "index" and not page.startswith("_build"))


def test_every_public_name_is_described_once() -> None:
    """Of modules that are described as a whole the build checks each name."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "reference").glob("*.md")))
    described = Counter(re.findall(r"^\.\. auto(?:class|function|exception):: pbdist\.(\w+)$", text, re.MULTILINE))
    assert described == Counter(set(pbdist.__all__) - LEFT_OUT)
    assert ".. automodule:: pbdist.granularity\n   :members:\n" in text
    assert all(getattr(granularity, name).__doc__ for name in granularity.__all__)


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_names_of_other_libraries_exist(path: Path) -> None:
    address, *lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    assert re.fullmatch(r"https://[\w./]+/", address)
    assert lines
    for line in lines:
        role, name, page = line.split()
        assert role in {"py:class", "py:data", "py:exception", "py:obj"}
        assert page.partition("#")[0].endswith(".html")
        home, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(home or "builtins"), last) or name == "None"
