"""Names and texts that steer a terminal, or are markup: no command prints them as they are."""

from dataclasses import replace
from pathlib import Path

import pytest

from pbdist import open_study
from pbdist.cli import main
from pbdist.run import SerialExecutor, run_study
from pbdist.study import load_study
from tests.studies import TINY, write_study

pytestmark = pytest.mark.slow

#: The colour of a terminal in both of its forms, its bell, a turned direction, an invisible sign, markup of rich.
HOSTILE = "\x1b[31mred\x9b2J\x07\u202e\u2066\u200b[bold]x[/bold][/]"


def _printed(arguments: tuple[object, ...], capsys: pytest.CaptureFixture[str]) -> str:
    main([str(argument) for argument in arguments])
    whole = "".join(capsys.readouterr())
    assert all(letter.isprintable() or letter == "\n" for letter in whole), (arguments, whole)
    return whole


def test_paths_and_descriptions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / HOSTILE.replace("/", "")
    folder.mkdir()
    study = write_study(folder, TINY + 'description: "a\\e[31m\\u009b2J\\u202E[bold]"\n')
    store = folder / "s.zarr"
    for arguments in (
        ("plan", study),
        ("run", study, "--store", store, "--serial"),
        ("status", store, "--check"),
        ("query", store),
        ("verify", store, "--sample", 1),
        ("export", store, folder / "e.csv"),
        ("new", folder / "n.yaml"),
        ("run", f"{HOSTILE}.yaml"),
        ("run", study, "--cluster", HOSTILE),
        ("query", store, "--mechanism", HOSTILE, "--compositions", 4, "--epsilon", 0),
        ("size", "--systems", HOSTILE, "--system", HOSTILE),
        ("status", HOSTILE),
        (HOSTILE,),
        ("status", store, HOSTILE),
    ):
        assert _printed(arguments, capsys)


def test_what_a_store_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = load_study(write_study(tmp_path, TINY.partition("targets")[0]))
    cells = (replace(spec.cells[0], label=HOSTILE), *spec.cells[1:])
    run_study(replace(spec, name=HOSTILE, cells=cells), tmp_path / "s.zarr", SerialExecutor(), lambda _: None)
    for arguments in (
        ("status", tmp_path / "s.zarr"),
        ("query", tmp_path / "s.zarr"),
        *(("query", tmp_path / "s.zarr", "--format", form) for form in ("csv", "markdown", "latex", "json")),
        ("query", tmp_path / "s.zarr", "--mechanism", HOSTILE, "--compositions", 4, "--epsilon", 0),
        ("verify", tmp_path / "s.zarr", "--sample", 2),
    ):
        assert "bold" in _printed(arguments, capsys) or "--sample" in arguments
    study = open_study(tmp_path / "s.zarr")
    assert study._repr_html_().isprintable()
    _printed(("explore", tmp_path / "s.zarr", "--export", tmp_path / "o.html"), capsys)
    page = (tmp_path / "o.html").read_text(encoding="utf-8")
    title = page.partition("<title>")[2].partition("</title>")[0]
    assert title.isprintable()
