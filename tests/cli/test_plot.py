"""``pbdist plot`` as users call it."""

import sys
from xml.etree import ElementTree

import pytest

from pbdist.cli import main
from pbdist.cli.plot import KINDS
from tests.report.plots.pictures import BRACKETED, GAUSSIAN, KEPT


@pytest.fixture(scope="module")
def store(finished_store):
    return str(finished_store(GAUSSIAN))


CHOSEN = {"noise": ["--mechanism", "Gaussian"], "losses": ["--mechanism", "Laplace"]}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_written(kind, finished_store, tmp_path, capsys):
    where = str(finished_store(KEPT if kind in ("losses", "tradeoff") else GAUSSIAN))
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


def test_nothing_is_written_into_a_store_or_where_no_folder_is(store, tmp_path, capsys):
    assert main(["plot", "brackets", store, "-o", f"{store}/one.png"]) == 2
    assert "--output: expected a file outside the stores" in capsys.readouterr().err
    assert main(["plot", "brackets", store, "-o", str(tmp_path / "none" / "one.png")]) == 2
    assert "--output: expected a file in a folder that exists" in capsys.readouterr().err


def test_several_stores_in_one_plot(store, finished_store, tmp_path):
    file = tmp_path / "both.svg"
    other = str(finished_store(BRACKETED))
    assert main(["plot", "compare", store, other, "--compositions", "4", "-o", str(file)]) == 0
    assert main(["plot", "brackets", other, "-o", str(file)]) == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["epsilon-delta", "STORE", "-o", "a.jpg"], "--output: expected a file that ends in .svg, .png or .pdf"),
        (["epsilon-delta", "STORE", "--width", "1"], "--width: expected 5 to 40 inches, got 1"),
        (["epsilon-delta", "STORE", "--width", "nan"], "--width: expected 5 to 40 inches, got nan"),
        (["epsilon-delta", "STORE", "--epsilon", "1"], "--epsilon: expected it together with --delta"),
        (["epsilon-delta", "STORE", "--over", "noise"], "--over: expected none for epsilon-delta"),
        (["brackets", "STORE", "--exp-epsilon", "0.5"], "--exp-epsilon: expected a finite number of at least 1"),
        (["compare", "STORE", "--compositions", "1", "4"], "--compositions: expected one number for compare"),
        (["compare", "STORE", "--over", "noise", "--delta", "0.1"], "--delta: expected none for compare over noise"),
        (["noise", "STORE", "STORE"], "stores: expected one store for noise, got 2"),
        (["compare", "STORE", "STORE"], "stores: expected each store once"),
        (["noise", "STORE"], "mechanism: expected settings with one kind of amount"),
        (["losses", "STORE"], "mechanism: expected at most 1 settings"),
        (["epsilon-delta", "STORE", "--mechanism", "gaussian"], "mechanism: expected one of Gaussian, Randomized"),
        (["epsilon-delta", "nowhere.zarr"], "expected a pbdist store, got nothing there"),
    ],
)
def test_wrong_input_is_one_line_and_no_file(store, tmp_path, capsys, arguments, told):
    file = tmp_path / "plot.svg"
    given = [store if one == "STORE" else one for one in arguments]
    assert main(["plot", *given, *([] if "-o" in given else ["-o", str(file)])]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert not file.exists()


def test_without_matplotlib_the_extra_is_named(store, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["plot", "epsilon-delta", store, "-o", str(tmp_path / "plot.svg")]) == 2
    assert "pip install 'pbdist[figures]'" in capsys.readouterr().err
