"""The studies that come with pbdist are found by name."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pbdist.errors import InvalidInputError, StudyFileError
from pbdist.quantities import duration
from pbdist.study import load_study, plan_study
from pbdist.study.starter import find_study, shipped_names, shipped_study, write_copy

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "pipelines").glob("*.yaml"), *(ROOT / "pipelines/records").glob("*.yaml")])


def test_all_studies_of_the_checkout_are_there_under_their_names() -> None:
    assert shipped_names() == tuple(sorted(path.stem for path in FILES)) == tuple(sorted(PLANS))
    for path in FILES:
        assert shipped_study(path.stem).read_text(encoding="utf-8") == path.read_text(encoding="utf-8")


#: The digest of each study, how many cells a batch has, and its projected time on one core: what the files of its store
#: depend on.
PLANS = {
    "bucket-convergence-1e3": ("c4eaea6a7c16b8f0", 1, "0.897 s"),
    "almanac-dp-sgd": ("3014eae287f9d673", 8, "33.6 min"),
    "almanac-dp-sgd-tenth": ("88f1f8f492014585", 16, "2.92 min"),
    "bucket-convergence-1e4-r512": ("80a886afd4393b92", 1, "0.742 s"),
    "bucket-convergence-1e4": ("0aa4ae13dc5f18e2", 1, "1.25 s"),
    "bucket-convergence-1e5": ("755e673206c58897", 1, "4.45 s"),
    "bucket-convergence-1e6": ("50744b922e3dd2cd", 1, "34.5 s"),
    "bucket-convergence-1e7": ("d2b156385230ac52", 1, "2.57 min"),
    "bucket-convergence": ("42ba802efda58ceb", 1, "0.468 s"),
    "census-2020": ("b443da68eb2c0798", 1, "0.313 s"),
    "evaluation": ("e6507063c20bcf43", 1, "4.07 s"),
    "hospitals": ("a7f7d498948a8a80", 1, "1.24 s"),
    "laplace-against-gauss": ("b6ac627c4046a2e9", 1, "0.227 s"),
    "mechanisms": ("0a30986dcb23e562", 1, "0.627 s"),
    "optimal-mechanisms": ("e5cca178f9187da2", 1, "1.05 s"),
    "random-allocation": ("ff87529aad19da36", 1, "3.37 min"),
    "quickstart": ("0d00980d70845325", 1, "0.445 s"),
    "sizing-counting-gaussian": ("22e375101367f83c", 64, "1.47 s"),
    "sizing-counting-laplace": ("15d86417337a0db8", 32, "2.43 min"),
    "sizing-dp-sgd": ("1483fd81ae8b8754", 32, "68.5 s"),
    "vuvuzela-conversation": ("1815c5d07e59a514", 1, "17.2 s"),
    "vuvuzela-dialing": ("733054063788f980", 1, "4.66 s"),
}


#: Planned every night: thousands of cells.
LARGE = ("almanac-dp-sgd", "almanac-dp-sgd-tenth")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_is_what_it_always_was_and_so_are_its_copies(path: Path, tmp_path: Path) -> None:
    study = load_study(path)
    # The default store of each is its own.
    assert (study.name, study.digest[:16]) == (path.stem, PLANS[path.stem][0])
    # Targets off the grids would add to them.
    assert (study.target_compositions, study.target_epsilon) == ((), ())
    write_copy(tmp_path / "mine.yaml", path.stem)
    copied = load_study(tmp_path / "mine.yaml")
    assert (copied.name, copied.digest, copied.targets) == ("mine", study.digest, study.targets)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly) if name in LARGE else name for name in shipped_names()]
)
def test_batches_and_projected_times_never_change(name: str) -> None:
    plan = plan_study(load_study(shipped_study(name)))
    assert (plan.cells_per_batch, duration(plan.seconds)) == PLANS[name][1:]


def test_studies_need_nothing_beside_them() -> None:
    """A wheel has the study files alone."""
    assert [path.name for path in FILES if "file:" in path.read_text(encoding="utf-8")] == []


@pytest.mark.slow
def test_an_installed_package_has_them_beside_its_modules(tmp_path: Path) -> None:
    """As the wheel's build hook puts them there."""
    shutil.copytree(ROOT / "pbdist", tmp_path / "site/pbdist", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "site/pbdist/studies").mkdir()
    shutil.copy(ROOT / "pipelines/quickstart.yaml", tmp_path / "site/pbdist/studies/quickstart.yaml")
    code = "from pbdist.study.starter import *; print(*shipped_names(), find_study('quickstart'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site"), "PATH": ""},
    )
    assert done.stdout.split() == ["quickstart", str(tmp_path / "site/pbdist/studies/quickstart.yaml")]


def test_a_file_wins_over_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = find_study("quickstart")
    assert shipped.is_absolute()
    (tmp_path / "quickstart").mkdir()
    assert find_study("quickstart") == shipped
    (tmp_path / "quickstart").rmdir()
    (tmp_path / "quickstart").write_text("format: 1\n")
    assert find_study("quickstart") == Path("quickstart")
    (tmp_path / "x.yaml").write_text("format: 1\n")
    assert find_study("x.yaml") == Path("x.yaml")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("quikstart", "got 'quikstart': did you mean quickstart?"),
        ("vuvuzela_dialing", "did you mean vuvuzela-dialing?"),
        ("nothing", "got 'nothing': pbdist studies lists the names"),
    ],
)
def test_unknown_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError) as caught:
        find_study(given)
    assert str(caught.value).startswith("study: expected the name of a study that comes with pbdist")
    assert str(caught.value).endswith(words)


def test_paths_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for given in ("pipelines/quickstart.yaml", "quickstart.yml"):
        with pytest.raises(StudyFileError, match=rf"^{given}: study: .*did you mean quickstart\?$"):
            find_study(given)
    # Nothing is like these: reading them says what is wrong.
    for given in ("absent.yaml", "some/where/absent", "../absent"):
        assert find_study(given) == Path(given)
    with pytest.raises(InvalidInputError, match="study: expected the name of a study that comes with pbdist, got ''"):
        find_study("")


def test_only_names_are_shown() -> None:
    for name in ("../quickstart", "quickstart.yaml", "", "evaluate"):
        with pytest.raises(InvalidInputError, match=r"study: expected the name of a study that comes with pbdist"):
            shipped_study(name)


def test_the_whole_almanac_goes_on_from_its_tenth() -> None:
    whole, tenth = (load_study(ROOT / f"pipelines/{name}.yaml") for name in ("almanac-dp-sgd", "almanac-dp-sgd-tenth"))
    settings = [{(cell.pair.scale, cell.pair.rate) for cell in study.cells} for study in (whole, tenth)]  # type: ignore[attr-defined]
    assert [len(one) for one in settings] == [10_291, 1_004]
    assert settings[1] < settings[0]
    assert (whole.compositions, whole.epsilon, whole.floor) == (tenth.compositions, tenth.epsilon, tenth.floor)
