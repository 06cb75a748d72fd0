"""``pbdist plot`` as users call it."""

import sys
from xml.etree import ElementTree

import pytest

from pbdist.cli import main
from pbdist.cli.plot import KINDS
from tests.report.plots.pictures import BRACKETED, GAUSSIAN, KEPT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(finished_store):
    return str(finished_store(GAUSSIAN))


CHOSEN = {"noise": ["--mechanism", "Gaussian"]}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_written(kind, finished_store, tmp_path, capsys):
    where = str(finished_store(KEPT if kind == "tradeoff" else GAUSSIAN))
    assert main(["plot", kind, where, *CHOSEN.get(kind, []), "-o", str(tmp_path / "one.svg")]) == 0
    assert "one.svg" in capsys.readouterr().out
    ElementTree.parse(tmp_path / "one.svg")  # noqa: S314 -- written here
    assert [path.name for path in tmp_path.iterdir()] == ["one.svg"]


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("SVG", b"<?xml")])
def test_the_ending_says_the_format(store, tmp_path, suffix, start):
    file = tmp_path / f"plot.{suffix}"
    file.write_text("an earlier one", encoding="utf-8")
    options = ["--mechanism", "Gaussian", "--scale", "2", "4", "--exp-epsilon", "2", "--delta", "1e-5"]
    assert main(["plot", "epsilon-delta", store, *options, "--compositions", "1", "4", "-o", str(file)]) == 0
    assert file.read_bytes().startswith(start)


def test_several_stores_in_one_plot(store, finished_store, tmp_path):
    file = tmp_path / "both.svg"
    other = str(finished_store(BRACKETED))
    assert main(["plot", "compare", store, other, "--compositions", "4", "-o", str(file)]) == 0


def test_a_store_that_lacks_a_value_is_named(store, finished_store, tmp_path, capsys):
    other = str(finished_store(BRACKETED))
    assert main(["plot", "epsilon-delta", store, other, "--scale", "16", "3", "-o", str(tmp_path / "one.svg")]) == 2
    refused = capsys.readouterr().err
    assert refused.startswith("pbdist: error: --scale: expected a stored value, ")
    assert "got 3, in gaussian; scale: expected" in refused
    assert refused.endswith("got 16, in bracketed\n")


def test_without_matplotlib_the_extra_is_named(store, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["plot", "epsilon-delta", store, "-o", str(tmp_path / "plot.svg")]) == 2
    assert "pip install 'pbdist[figures]'" in capsys.readouterr().err
