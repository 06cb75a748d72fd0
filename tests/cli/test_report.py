"""``pbdist report`` as users call it."""

import pytest

from pbdist.cli import main
from tests.report.pages.reading import read_page

pytestmark = pytest.mark.slow


def report(*arguments):
    return main(["report", *map(str, arguments)])


def test_a_page_with_the_targets_of_a_study_file(tiny_store, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert report(tiny_store, "--study", tiny_store.parent / "study.yaml", "-o", out) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{out}\n"
    assert "report: reading every file" in printed.err
    page = read_page(out.read_text(encoding="utf-8"))
    assert any("δ ≤ 0.2 at ε = ln 2" in caption for caption in page.tables)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html"]
    # It is ours: the same command makes it again.
    assert report(tiny_store, "--exp-epsilon", 2, "--delta", 0.2, "--compositions", 4, "-o", out) == 0


@pytest.mark.slow(reason="three formats, each with its pictures")
def test_pictures_lie_beside_markdown_and_latex(tiny_store, tmp_path):
    for name, end in (("page.md", "svg"), ("other page.tex", "pdf")):
        assert report(tiny_store, "-o", tmp_path / name) == 0
        text = (tmp_path / name).read_text(encoding="utf-8")
        stem = name.partition(".")[0].replace(" ", "-")
        pictures = sorted(path.name for path in tmp_path.glob(f"{stem}-picture-*.{end}"))
        assert pictures
        assert all(picture in text for picture in pictures)
    # They are ours too: the same command makes them again.
    assert report(tiny_store, "-o", tmp_path / "page.md") == 0


def test_a_pdf(tiny_store, tmp_path):
    assert report(tiny_store, "-o", tmp_path / "page", "--format", "pdf") == 0
    first = (tmp_path / "page").read_bytes()
    assert first.startswith(b"%PDF")
    assert report(tiny_store, "-o", tmp_path / "page", "--format", "pdf") == 0
    assert (tmp_path / "page").read_bytes() == first


def test_an_incomplete_store_is_reported_with_exit_code_1(store_copy, tmp_path, capsys):
    from tests.batches import remove_batch
    from tests.studies import TINY

    store = store_copy(TINY)
    remove_batch(store, 0)
    assert report(store, "-o", tmp_path / "page.html") == 1
    assert "the page begins with what is not" in capsys.readouterr().err
    assert "not complete" in read_page((tmp_path / "page.html").read_text(encoding="utf-8")).alarms[0]


def test_files_of_others_are_left_alone(tiny_store, tmp_path, capsys):
    out = tmp_path / "page.html"
    out.write_text("<p>mine</p>", encoding="utf-8")
    assert report(tiny_store, "-o", out) == 2
    assert "expected a new file, or one that pbdist report has written" in capsys.readouterr().err
    assert out.read_text(encoding="utf-8") == "<p>mine</p>"
    (tmp_path / "other-picture-2.svg").write_text("<svg/>", encoding="utf-8")
    assert report(tiny_store, "-o", tmp_path / "other.md") == 2
    assert not (tmp_path / "other.md").exists()
    (tmp_path / "link.html").symlink_to(out)
    assert report(tiny_store, "-o", tmp_path / "link.html") == 2


def test_what_is_no_store_is_told(tmp_path, capsys):
    assert report("no-such.zarr", "-o", tmp_path / "page.html") == 2
    assert "no-such.zarr: expected a pbdist store" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_system_is_sized_for_its_page(tmp_path, capsys):
    out = tmp_path / "page.html"
    goal = ("--compositions", 4, "--epsilon", 1, "--delta", 1e-3, "--tolerance", 0.2)
    assert report("--system", "counting-laplace", *goal, "-o", out) == 0
    assert "report: sizing: Laplace, 4 rounds" in capsys.readouterr().err
    page = read_page(out.read_text(encoding="utf-8"))
    (table,) = [rows for caption, rows in page.tables.items() if caption.startswith("The smallest noise found")]
    name, found, upper, refuted, lower = table[1]
    assert name == "Laplace"
    assert float(upper) <= 1e-3 < float(lower)
    import pbdist

    scale, less = (float(text.split()[1]) for text in (found, refuted))
    bounds = pbdist.privacy_bounds(pbdist.Laplace(scale), compositions=4, epsilon=1.0)
    assert float(upper) >= bounds.delta_lower.item()
    assert pbdist.privacy_bounds(pbdist.Laplace(less), compositions=4, epsilon=1.0).delta_upper.item() >= float(lower)
    assert less == scale * 0.8
    assert "Every scale below a refuted one is refuted too" in page.text
