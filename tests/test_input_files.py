"""What is no file, or too large or too deep a one, is refused and not read, wherever a user names a file."""

import os
from pathlib import Path

import pytest

from pbdist.cli import main
from pbdist.errors import InvalidInputError
from pbdist.input_files import read_input
from pbdist.mechanisms import load_histograms
from tests.studies import TINY, write_study


def _histogram_study(folder: Path, name: str) -> Path:
    path = folder / "study.yaml"
    head = "format: 1\nname: h\nmethod: tight\ncompositions: [1]\nepsilon: [0]\nmechanisms:\n"
    path.write_text(f"{head}  - {{label: h, kind: Histogram, file: {name}}}\n")
    return path


def _commands(path: Path) -> dict[str, tuple[object, ...]]:
    """Each command that takes a file, with the path in its place."""
    study = write_study(path.parent, TINY)
    return {
        "plan": ("plan", path),
        "run": ("run", path, "--store", path.parent / "new.zarr"),
        "cluster": ("run", study, "--store", path.parent / "new.zarr", "--cluster", path),
        "size": ("size", "--system", "Vuvuzela", "--systems", path),
    }


def _special(path: Path, kind: str) -> str:
    """Put something at a path that is no readable file; return what the refusal calls it."""
    if kind == "pipe":
        os.mkfifo(path)
        return "no regular file"
    if kind == "folder":
        path.mkdir()
        return "folder"
    path.touch()
    os.truncate(path, 10 << 40)
    return "10,995,116,277,760 bytes"


def _refused(capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...]) -> str:
    code = main([str(argument) for argument in arguments])
    text = capsys.readouterr().err
    assert (code, text.count("\n"), "Traceback" in text) == (2, 1, False), text
    return text


@pytest.mark.parametrize("kind", ["pipe", "folder", "sparse"])
def test_what_is_no_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    path = tmp_path / "given.yaml"
    what = _special(path, kind)
    for name, arguments in _commands(path).items():
        text = _refused(capsys, arguments)
        assert (name, what in text) == (name, True), text
        assert str(path) in text
    what = _special(tmp_path / "h.csv", kind)
    assert what in _refused(capsys, ("plan", _histogram_study(tmp_path, "h.csv")))
    with pytest.raises(InvalidInputError, match=what):
        load_histograms(tmp_path / "h.csv")


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("[" * 200_000, 1, "nesting"),
        ("a:\n" + "- " * 100_000, 2, "nesting"),
        ("format: 1\nmechanisms: " + "{a: " * 50_000, 2, "nesting"),
        ("? " * 100_000, 1, "nesting"),
    ],
)
def test_deep_files_are_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: int, what: str
) -> None:
    path = tmp_path / "given.yaml"
    path.write_text(text)
    for arguments in _commands(path).values():
        told = _refused(capsys, arguments)
        assert f"{path}:{line}: " in told
        assert what in told
        assert len(told) < 300 + len(str(path))


def test_long_keys_and_lines_are_cut_in_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "given.yaml"
    path.write_text(f"{'k' * 900}: 1\n&{'a' * 900} b: *{'a' * 900}\n")
    assert main(["plan", str(path)]) == 2
    assert len(max(capsys.readouterr().err.splitlines(), key=len)) < 330 + len(str(path))
    (tmp_path / "h.csv").write_text(f"bin,a,b\n{'x' * (1 << 20)}\n")
    with pytest.raises(InvalidInputError, match="line 2: expected CSV, got: field larger"):
        load_histograms(tmp_path / "h.csv")


def test_a_file_of_the_largest_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_input(path, 5) == b"12345"
    with pytest.raises(OSError, match="5 bytes, more than the 4 that are allowed"):
        read_input(path, 4)
