"""Every change of any file of a store is found, or harmless, and a run with --check brings back the same bytes."""

import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from pbdist import open_study
from pbdist.cli import main
from pbdist.errors import PbdistError, StoreDamagedError
from pbdist.run import SerialExecutor, run_study
from pbdist.store import check_store, open_parts
from pbdist.study import StudySpec, load_study
from tests.effort import times
from tests.store.test_store import LARGER, SMALL
from tests.studies import files_of, write_study

pytestmark = pytest.mark.slow

#: Extended by a setting and by an r, at once.
TEXTS = (SMALL, LARGER)
REFINED = ("--mechanism", "Laplace", "--scale", "2", "--compositions", "1", "--epsilon", "0.25", "--refine")
QUESTION = {"mechanism": "Laplace", "scale": 2, "compositions": 1, "epsilon": [0.0, 0.25, 0.5]}


def run(study: StudySpec, where: Path) -> None:
    run_study(study, where, SerialExecutor(), lambda _: None, check=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[StudySpec]]:
    """A complete store with kept states, two parts that extend it, and a point that a query has added."""
    folder = tmp_path_factory.mktemp("damage")
    studies = [load_study(write_study(folder, text)) for text in TEXTS]
    for study in studies:
        run(study, folder / "s.zarr")
    assert main(["query", str(folder / "s.zarr"), *REFINED]) == 0
    assert len(open_parts(folder / "s.zarr")) == 3
    assert check_store(folder / "s.zarr").healthy
    return folder / "s.zarr", studies


@pytest.fixture
def store(made: tuple[Path, list[StudySpec]], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made[0], tmp_path / "s.zarr"))


@pytest.fixture
def whole(made: tuple[Path, list[StudySpec]]) -> StudySpec:
    return made[1][-1]


def flip(path: Path, generator: random.Random | None = None) -> None:
    data = bytearray(path.read_bytes())
    place = len(data) // 2 if generator is None else generator.randrange(len(data))
    data[place] ^= 1 if generator is None else 1 << generator.randrange(8)
    path.write_bytes(data)


def truncate(path: Path, generator: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: generator.randrange(len(data))])


def damage(store: Path, generator: random.Random) -> list[Path]:
    """Change one file, or exchange two, and return them."""
    names = sorted(path for path in store.rglob("*") if path.is_file())
    path = generator.choice(names)
    kind = generator.randrange(4)
    if kind == 0:
        flip(path, generator)
    elif kind == 1:
        truncate(path, generator)
    elif kind == 2:
        path.unlink()
    else:
        other = generator.choice([one for one in names if one.read_bytes() != path.read_bytes()])
        mine, its = path.read_bytes(), other.read_bytes()
        path.write_bytes(its)
        other.write_bytes(mine)
        return [path, other]
    return [path]


def answers(store: Path) -> np.ndarray:
    return np.array([open_study(store).delta(**QUESTION).upper, open_study(store).delta(**QUESTION).lower])


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
def test_each_of_many_damages_is_found_and_mended_and_never_read_as_a_number(store: Path, whole: StudySpec) -> None:
    before, expected = files_of(store), answers(store)
    contents = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    generator = random.Random(2026)  # noqa: S311 -- no secret
    for _ in range(times(120)):
        changed = damage(store, generator)
        with suppress(PbdistError):
            assert not check_store(store).healthy, changed
        try:
            found = answers(store)
        except (PbdistError, OSError):
            pass
        else:
            # Perhaps wider, as a refined point or a state is lost.
            assert (found[0] >= expected[0]).all(), changed
            assert (found[1] <= expected[1]).all(), changed
        of_query = any("refined-" in str(path) for path in changed)
        if not of_query:
            run(whole, store)
            assert files_of(store) == before, changed
        for path, content in contents.items():
            if not path.exists() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)


@pytest.mark.parametrize("harm", [flip, Path.unlink])
@pytest.mark.parametrize("part", ["", "extension-001", "extension-002"])
def test_attributes_of_a_part_are_restored_by_every_study_that_the_store_is_for(
    made: tuple[Path, list[StudySpec]], store: Path, part: str, harm: Callable[[Path], object], tmp_path: Path
) -> None:
    before = files_of(store)
    for study in made[1]:
        harm(store / part / "zarr.json")
        assert not open_and_complete(store)
        run(study, store)
        assert files_of(store) == before
    harm(store / "zarr.json")
    harmed = files_of(store)
    other = load_study(write_study(tmp_path, SMALL.replace("buckets: 40", "buckets: 42")))
    with pytest.raises(StoreDamagedError, match="run the study that made it again"):
        run(other, store)
    assert files_of(store) == harmed


def open_and_complete(store: Path) -> bool:
    try:
        return open_study(store).complete
    except StoreDamagedError:
        return False


def test_results_of_another_study_and_exchanged_ones_are_found(store: Path, tmp_path: Path, whole: StudySpec) -> None:
    """They have sound checksums of zstd, and the right shape."""
    before = files_of(store)
    other = tmp_path / "other.zarr"
    run(load_study(write_study(tmp_path, SMALL.replace("scale: 2", "scale: 3"))), other)
    for name in ("bounds/0.0.0.0.0", "details/0.0"):
        shutil.copy(other / name, store / name)
    assert not check_store(store).healthy
    with pytest.raises(StoreDamagedError, match="a checksum differs"):
        open_parts(store)[0].values("delta_upper", slice(None))
    run(whole, store)
    assert files_of(store) == before
    for name in ("bounds/{}.0.0.0.0", "details/{}.0"):
        first, second = store / name.format(0), store / name.format(1)
        mine, its = first.read_bytes(), second.read_bytes()
        first.write_bytes(its)
        second.write_bytes(mine)
    assert {name for name, _ in check_store(store).damaged} == {"bounds/0.0.0.0.0", "bounds/1.0.0.0.0"}
    run(whole, store)
    assert files_of(store) == before


def test_foreign_files_do_no_harm(store: Path, whole: StudySpec) -> None:
    for name in ("notes.txt", "bounds.csv", "deep/er/zarr.json", "extension-009/x"):
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_text("years of work")
    before = files_of(store)
    check = check_store(store)
    assert check.healthy
    assert set(check.strays) == {"notes.txt", "bounds.csv", "deep/er/zarr.json", "extension-009/x"}
    run(whole, store)
    assert files_of(store) == before


def test_links_to_nothing_and_groups_of_others_hide_no_results(store: Path, whole: StudySpec) -> None:
    for link in ("bounds/-", "details/1", "nowhere"):
        (store / link).symlink_to("none")
    (store / "loop").symlink_to("loop")
    (store / "extension-009").mkdir()
    (store / "extension-009" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    found = check_store(store)
    assert found.healthy
    assert {"nowhere", "loop", "extension-009/zarr.json"} <= set(found.strays)
    run(whole, store)


@pytest.mark.parametrize("name", ["bounds/0.0.0.0.0", "scale/0", "zarr.json", "details"])
def test_a_folder_in_place_of_a_file_and_the_reverse_are_refused_with_a_remedy(
    store: Path, whole: StudySpec, name: str
) -> None:
    if (store / name).is_dir():
        shutil.rmtree(store / name)
        (store / name).touch()
    else:
        (store / name).unlink()
        (store / name).mkdir()
    before = files_of(store)
    with pytest.raises(
        (OSError, PbdistError), match="a folder is where a file of the store belongs, or the reverse: move"
    ):
        run(whole, store)
    assert files_of(store) == before
    assert not [path for path in store.parent.iterdir() if path.name.startswith(".")]
    (shutil.rmtree if (store / name).is_dir() else Path.unlink)(store / name)
    run(whole, store)
    assert check_store(store).healthy


def test_without_a_check_a_run_computes_what_is_missing_or_empty(store: Path, whole: StudySpec) -> None:
    before = files_of(store)
    (store / "bounds/0.0.0.0.0").write_bytes(b"")
    (store / "extension-001/details/0.0").unlink()
    assert [part.progress().missing for part in open_parts(store)][:2] == [[0], [0]]
    run_study(whole, store, SerialExecutor(), lambda _: None)
    assert files_of(store) == before


def test_damaged_points_of_a_query_are_computed_again_when_they_are_needed(store: Path) -> None:
    before = files_of(store)
    (refined,) = store.glob("refined-*")
    (refined / "bounds/0.0.0.0.0").write_bytes(b"torn")
    assert not check_store(store).healthy
    assert main(["query", str(store), *REFINED]) == 0
    assert files_of(store) == before
