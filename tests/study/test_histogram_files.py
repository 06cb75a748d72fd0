"""Histograms that a study file takes from files of counts."""

from pathlib import Path

import pytest

from pbdist import Histogram, open_study, privacy_bounds
from pbdist.errors import StudyFileError
from tests.studies import compute_store
from tests.study.test_load import pairs, study


def test_histograms_in_files_become_part_of_the_study(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "both.csv").write_text("bin,a,b,c\n1,5,2,1\n2,1,3,9\n")
    (inner / "side.csv").write_text("bin,count\n2,4\n7,1\n")
    (tmp_path / "other.csv").write_text("bin,count\n2,1\n8,3\n")
    found = pairs(
        inner,
        """\
  - {kind: Histogram, file: both.csv}
  - {kind: Histogram, file: [side.csv, ../other.csv]}
  - {kind: Histogram, file: both.csv, columns: [bin, c, b]}
""",
    )
    assert found == [
        Histogram([5, 1], [2, 3]),
        Histogram([4, 1, 0], [1, 0, 3]),
        Histogram([1, 9], [2, 3]),
    ]


def test_the_digest_depends_on_what_is_in_a_file_and_not_on_where_it_is(tmp_path: Path) -> None:
    digests = []
    for name, text in (("x.csv", "bin,a,b\n1,5,2\n2,1,3\n"), ("y.csv", "bin,b,a\n2,3,1\n1,2,5\n3,0,0\n")):
        (tmp_path / name).write_text(text)
        digests.append(study(tmp_path, f"  - {{kind: Histogram, file: {name}}}\n").digest)
    digests.append(study(tmp_path, "  - {kind: Histogram, p: [5, 1], q: [2, 3]}\n").digest)
    (tmp_path / "x.csv").write_text("bin,a,b\n1,5,2\n2,1,4\n")
    changed = study(tmp_path, "  - {kind: Histogram, file: x.csv}\n").digest
    assert digests == [digests[0]] * 3
    assert changed != digests[0]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("file: none.csv", "file: {folder}none.csv: expected a readable file, got: No such file or directory"),
        ("file: t.csv", "file: {folder}t.csv: line 3: column 'a': expected a count"),
        ("file: 3", "file: expected the path of a file, or of two files, got 3"),
        ("file: [t.csv, t.csv, t.csv]", "file: expected the path of a file, or of two files, got ["),
        ("file: t.csv\n    columns: t", "columns: expected a list of names, got 't'"),
        ("file: t.csv\n    columns: [a, b]", "columns: expected 3 different names, as in"),
        (
            "file: t.csv\n    p: [1, 2]",
            "p: expected one of kind, file, columns, label, adjacency, settings, got an unknown key",
        ),
    ],
)
def test_wrong_files_of_histograms(tmp_path: Path, entry: str, words: str) -> None:
    (tmp_path / "t.csv").write_text("bin,a,b\n1,5,2\n2,-1,3\n")
    with pytest.raises(StudyFileError) as caught:
        study(tmp_path, f"  - kind: Histogram\n    {entry}\n")
    line = 5 + entry.count("\n")
    expected = words.format(folder=f"{tmp_path}/")
    assert str(caught.value).startswith(f"{tmp_path}/study.yaml:{line}: mechanisms[0].{expected}")


def test_a_store_needs_the_file_no_more(tmp_path: Path) -> None:
    counts = tmp_path / "times.csv"
    counts.write_text("bin,a,b\n1,5,2\n2,1,3\n")
    text = "format: 1\nname: s\nmechanisms:\n  - {kind: Histogram, file: times.csv}\ncompositions: 3\nepsilon: 0.5\n"
    store = compute_store(tmp_path, text)
    counts.unlink()
    answer = open_study(store).delta("Histogram", compositions=3, epsilon=0.5)
    direct = privacy_bounds(Histogram([5, 1], [2, 3]), compositions=3, epsilon=0.5)
    assert (answer.lower.item(), answer.upper.item()) == (direct.delta_lower.item(), direct.delta_upper.item())
