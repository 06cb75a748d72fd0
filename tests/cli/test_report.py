"""``pbdist report`` as users call it."""

import pytest

import pbdist
from pbdist.cli import main
from tests.report.pages.reading import read_page

pytestmark = pytest.mark.slow

MINE = """\
format: 1
systems:
  - name: mine
    description: Counting queries.
    observation: {kind: Gaussian, sensitivity: 1}
    targets:
      - {compositions: 1, epsilon: 1, delta: 1e-6, example: the whole target}
"""


def report(*arguments):
    return main(["report", *map(str, arguments)])


def test_a_page_with_the_targets_of_a_study_file(tiny_store, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert report(tiny_store, "--study", tiny_store.parent / "study.yaml", "-o", out) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{out}\n"
    assert printed.err == ""
    page = read_page(out.read_text(encoding="utf-8"))
    assert "meet (ε ln 2, δ 0.2) after 4 rounds" in page.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html"]
    # The same command replaces it.
    assert report(tiny_store, "--exp-epsilon", 2, "--delta", 0.2, "--compositions", 4, "-o", out) == 0


def test_pictures_lie_beside_markdown(tiny_store, tmp_path):
    # The same command replaces them.
    for _ in range(2):
        assert report(tiny_store, "-o", tmp_path / "a page.md") == 0
    pictures = sorted(path.name for path in tmp_path.glob("a-page-picture-*.svg"))
    assert pictures
    assert all(picture in (tmp_path / "a page.md").read_text(encoding="utf-8") for picture in pictures)


def test_a_pdf(tiny_store, tmp_path):
    assert report(tiny_store, "-o", tmp_path / "page.pdf") == 0
    first = (tmp_path / "page.pdf").read_bytes()
    assert first.startswith(b"%PDF")
    assert report(tiny_store, "-o", tmp_path / "page.pdf") == 0
    assert (tmp_path / "page.pdf").read_bytes() == first


def test_an_incomplete_store_is_reported_with_exit_code_1(store_copy, tmp_path, capsys):
    from tests.batches import remove_batch
    from tests.studies import TINY

    store = store_copy(TINY)
    remove_batch(store, 0)
    assert report(store, "-o", tmp_path / "page.html") == 1
    assert "some results are missing or damaged" in capsys.readouterr().err
    assert "not complete" in read_page((tmp_path / "page.html").read_text(encoding="utf-8")).alarms[0]


def test_a_study_file_of_another_store_is_refused_by_its_option(tiny_store, tmp_path, capsys):
    assert report(tiny_store, "--study", "quickstart", "-o", tmp_path / "page.html") == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"pbdist: error: --study: expected the study of {tiny_store}: ")
    assert printed.count("\n") == 1


def test_what_is_no_store_is_told(tmp_path, capsys):
    assert report("no-such.zarr", "-o", tmp_path / "page.html") == 2
    printed = capsys.readouterr().err
    assert "no-such.zarr: expected a pbdist store" in printed
    assert printed.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_system_is_sized_for_its_page(tmp_path, capsys):
    out = tmp_path / "page.html"
    goal = ("--compositions", 4, "--epsilon", 1, "--delta", 1e-3, "--tolerance", 0.2)
    assert report("--system", "counting-laplace", *goal, "-o", out) == 0
    assert capsys.readouterr().err == ""
    tables = read_page(out.read_text(encoding="utf-8")).tables
    (rows,) = [rows for caption, rows in tables.items() if caption.startswith("Noise that meets the target")]
    scale, _, upper, less, lower = map(float, rows[1][1:])
    assert upper <= 1e-3 < lower
    bounds = pbdist.privacy_bounds(pbdist.Laplace(scale), compositions=4, epsilon=1.0)
    assert upper >= bounds.delta_lower.item()
    assert pbdist.privacy_bounds(pbdist.Laplace(less), compositions=4, epsilon=1.0).delta_upper.item() >= lower
    assert less == pytest.approx(scale * 0.8, rel=1e-5)


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--size-store", "no-such.zarr", "no-such.zarr: expected a pbdist store, got nothing there: correct the path"),
        ("--tolerance", "5", "--tolerance: expected a number from 1e-6 to 0.5, got '5'"),
    ],
)
def test_wrong_input_of_a_system_writes_no_page(tmp_path, capsys, option, value, problem):
    code = report("--system", "counting-laplace", option, value, "-o", tmp_path / "page.html")
    printed = capsys.readouterr()
    assert (code, printed.out, printed.err.count("\n")) == (2, "", 1)
    assert problem in printed.err
    assert list(tmp_path.iterdir()) == []


def test_a_store_of_any_study_takes_the_sizes_of_a_system(store_copy, tmp_path, monkeypatch):
    from tests.studies import TINY

    path, store, out = tmp_path / "mine.yaml", store_copy(TINY), tmp_path / "page.md"
    path.write_text(MINE, encoding="utf-8")
    sized = ("--systems", path, "--system", "mine", "--tolerance", 0.1, "--size-store", store, "-o", out)
    assert report(*sized) == 0
    first = out.read_text(encoding="utf-8")

    def compute(*_, **__):
        raise AssertionError

    # The second time every bound of the sizes is there.
    for module in ("pbdist.query.refine", "pbdist.sizing.target"):
        monkeypatch.setattr(f"{module}.bounds_table", compute)
    assert report(*sized) == 0
    assert out.read_text(encoding="utf-8") == first


def test_a_system_of_ones_own_is_a_file(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text(MINE, encoding="utf-8")
    assert report("--systems", path, "--system", "mine", "-o", tmp_path / "page.html") == 0
    assert "<h1>Noise for mine</h1>" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert report("--systems", path, "--system", "other", "-o", tmp_path / "page.html") == 2
    assert "--system: expected one of mine, got 'other'" in capsys.readouterr().err
