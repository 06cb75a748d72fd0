"""``pbdist figure`` as users call it."""

import pytest

from pbdist.cli import main
from tests.processes import run_code
from tests.report.figures.test_figure_file import PLAIN


@pytest.fixture
def figure(tmp_path):
    path = tmp_path / "figure.yaml"
    path.write_text(PLAIN, encoding="utf-8")
    return path


def options(tmp_path):
    return ["--folder", str(tmp_path / "out"), "--stores", str(tmp_path / "stores")]


@pytest.mark.slow
def test_one_figure(figure, tmp_path, capsys):
    assert main(["figure", str(figure), *options(tmp_path)]) == 0
    printed = capsys.readouterr()
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["example.csv", "example.png", "example.svg"]
    assert all(name in printed.out for name in names)
    assert "example: study" in printed.err
    assert (tmp_path / "stores" / "example.zarr").is_dir()


@pytest.mark.nightly
def test_several_figures_at_once(figure, tmp_path, capsys):
    other = tmp_path / "other.yaml"
    other.write_text(PLAIN.replace("name: example", "name: other"), encoding="utf-8")
    assert main(["figure", str(figure), str(other), *options(tmp_path), "--formats", "csv", "--workers", "2"]) == 0
    printed = capsys.readouterr()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["example.csv", "other.csv"]
    assert "example.csv" in printed.out
    assert "other: " in printed.err


def test_a_theorem_that_says_nothing_is_told(tmp_path, capsys):
    path = tmp_path / "figure.yaml"
    curve = "{label: CDP, mechanism: {kind: Laplace, scale: 3, truncate: [-9, 9]}, theorem: concentrated}"
    path.write_text(f"{PLAIN}      - {curve}\n", encoding="utf-8")
    assert main(["figure", str(path), *options(tmp_path)]) == 2
    assert "expected a mechanism that some (ξ, ρ) fits" in capsys.readouterr().err


@pytest.mark.slow
def test_without_matplotlib_it_is_told_what_to_install(figure, tmp_path):
    program = (
        "import sys; sys.modules['matplotlib'] = None; from pbdist.cli import main;"
        f"sys.exit(main(['figure', {str(figure)!r}, '--folder', {str(tmp_path)!r}, '--stores', {str(tmp_path)!r}]))"
    )
    ended = run_code(program)
    assert ended.returncode == 2
    assert "figures need matplotlib: pip install 'pbdist[figures]'" in ended.stderr
