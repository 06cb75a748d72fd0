"""Stores with damage in all copies: what follows from the rest is restored, all else is computed again."""

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from pbdist.errors import InvalidInputError, StoreDamagedError
from pbdist.query import open_study
from pbdist.run import SerialExecutor, run_study
from pbdist.store import check_store, open_parts, open_store
from pbdist.study import StudySpec, load_study
from pbdist.study.extension import missing_parts
from tests.store.commands import ask
from tests.studies import files_of, write_study

pytestmark = pytest.mark.slow

BASE = """\
format: 1
name: base
mechanisms:
  - {kind: Laplace, scale: [2, 3]}
method: buckets
buckets: 20
factors: 1.5
compositions: [1, 2]
epsilon: [0, 0.5]
"""
#: Each extends the one before: by a setting, then by an r, in a part with all cells.
TEXTS = (BASE, BASE.replace("[2, 3]", "[2, 3, 5]"), BASE.replace("[2, 3]", "[2, 3, 5]").replace("[1, 2]", "[1, 2, 4]"))
FIRST, SECOND = "extensions/001", "extensions/002"


def run(study: StudySpec, where: Path) -> None:
    run_study(study, where, SerialExecutor(), lambda _: None, check=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[StudySpec]]:
    folder = tmp_path_factory.mktemp("recovery")
    studies = [load_study(write_study(folder, text)) for text in TEXTS]
    for study in studies:
        run(study, folder / "s.zarr")
    assert [part.part for part in open_parts(folder / "s.zarr")] == ["", FIRST, SECOND]
    return folder / "s.zarr", studies


@pytest.fixture
def store(made: tuple[Path, list[StudySpec]], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made[0], tmp_path / "s.zarr"))


@pytest.fixture
def studies(made: tuple[Path, list[StudySpec]]) -> list[StudySpec]:
    return made[1]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("part", ["", FIRST, SECOND])
def test_cells_of_a_part_are_found_by_each_study_that_was_ever_run(
    store: Path, studies: list[StudySpec], part: str
) -> None:
    before = files_of(store)
    for study in studies:
        flip(store / part / "pair/c/0")
        assert not check_store(store).healthy
        run(study, store)
        assert files_of(store) == before


def test_a_part_whose_cells_nobody_knows_is_computed_anew_if_it_is_asked_for(tmp_path: Path) -> None:
    # In another order than that of the study that made the part.
    texts = (BASE, *(BASE.replace("[2, 3]", f"[2, 3, {more}]") for more in ("5, 7", "7, 5", "7, 9")))
    base, extended, other, foreign = (load_study(write_study(tmp_path, text)) for text in texts)
    path = tmp_path / "s.zarr"
    run(base, path)
    run(extended, path)
    flip(path / FIRST / "pair/c/0")
    damaged = files_of(path)
    # What is lost may be what neither of these asks for: it stays.
    for study in (base, foreign):
        with pytest.raises(StoreDamagedError, match="run the study file that added extensions/001 to the store"):
            run(study, path)
        assert files_of(path) == damaged
    with pytest.warns(UserWarning, match=r"extensions/001: which cells .* they are computed anew"):
        run(other, path)
    assert check_store(path).healthy
    assert [cell.pair for part in open_parts(path) for cell in part.study.cells] == [cell.pair for cell in other.cells]


@pytest.mark.parametrize(("part", "damage"), [(FIRST, flip), (SECOND, Path.unlink)])
def test_a_part_without_any_head_is_known_again(
    store: Path, studies: list[StudySpec], part: str, damage: object
) -> None:
    before = files_of(store)
    for name in ("zarr.json", "commits/zarr.json"):
        damage(store / part / name)  # type: ignore[operator]
    with pytest.raises(StoreDamagedError, match="both damaged"):
        open_parts(store)
    broken = files_of(store)
    with pytest.raises(StoreDamagedError, match="run the study file"):
        run(studies[0], store)
    assert files_of(store) == broken
    run(studies[2], store)
    assert files_of(store) == before


def test_a_store_without_any_head_is_known_again(store: Path, studies: list[StudySpec]) -> None:
    before = files_of(store)
    for name in ("zarr.json", "commits/zarr.json"):
        flip(store / name)
    for look in (open_store, check_store):
        with pytest.raises(StoreDamagedError, match="both damaged"):
            look(store)
    with pytest.raises(StoreDamagedError, match="run the study file"):
        run(studies[2], store)
    run(studies[0], store)
    assert files_of(store) == before


def remove(store: Path, *names: str) -> None:
    for name in names:
        shutil.rmtree(store / name) if (store / name).is_dir() else (store / name).unlink()


LIST = "extensions/zarr.json"
HEADS_OF_SECOND = (f"{SECOND}/zarr.json", f"{SECOND}/commits/zarr.json")


@pytest.mark.parametrize("lost", [(LIST,), (LIST, f"{SECOND}/zarr.json")])
def test_a_lost_list_of_parts_is_made_anew_by_every_study(
    store: Path, studies: list[StudySpec], lost: tuple[str, ...]
) -> None:
    before = files_of(store)
    for study in studies:
        remove(store, *lost)
        run(study, store)
        assert files_of(store) == before


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        (("extensions",), f"expected {FIRST}, {SECOND}, of which the root .* that extended the store last"),
        ((LIST, SECOND), f"expected {SECOND}, of which the root .* that extended the store last"),
        ((LIST, *HEADS_OF_SECOND), rf"{SECOND}: .* both damaged: .* added {SECOND} to the store \(study digest"),
    ],
)
def test_lost_parts_are_not_forgotten_and_the_advice_is_right(
    store: Path, studies: list[StudySpec], lost: tuple[str, ...], told: str
) -> None:
    before = files_of(store)
    remove(store, *lost)
    left = files_of(store)
    for study in studies[:1] if "extensions" in lost else studies[:2]:
        with pytest.raises(StoreDamagedError, match=told):
            run(study, store)
        # Nothing is lost: at most the list of parts is put back.
        assert {name: content for name, content in files_of(store).items() if name in left} == left
    gone = not {"zarr.json"} <= {name.rpartition("/")[2] for name in lost if name != LIST}
    with pytest.warns(UserWarning, match="cannot be read any more") if gone else nullcontext():
        run(studies[2], store)
    assert check_store(store).healthy
    # Two parts at once are cut in another way than one after the other.
    assert "extensions" in lost or files_of(store) == before
    assert missing_parts([part.study for part in open_parts(store)], studies[2]) == ()


@pytest.mark.parametrize(
    ("part", "name"), [("", "pair/c/0"), (FIRST, "mechanism/zarr.json"), (SECOND, "epsilon/zarr.json")]
)
def test_the_advice_names_the_study_file_that_repairs(
    store: Path, studies: list[StudySpec], part: str, name: str
) -> None:
    before = files_of(store)
    flip(store / part / name)
    points = {
        "": r"made the store \(2 noise settings, 2 r from 1 to 2, 2 ε from 0 to 0.5\)",
        FIRST: rf"added {FIRST} to the store \(1 noise setting, 2 r from 1 to 2, 2 ε from 0 to 0.5\)",
        SECOND: rf"added {SECOND} to the store \(3 noise settings, r = 4, 2 ε from 0 to 0.5\)",
    }
    with pytest.raises(StoreDamagedError, match=f"run the study file that {points[part]}$"):
        open_study(store).bounds.load()
    code, text = ask("status", store, "--check")
    repaired = f"run the study file that added {part} to the store" if part else "run the study again"
    assert (code, f": {repaired} with --check to compute them anew" in text) == (1, True)
    run(studies[("", FIRST, SECOND).index(part)], store)
    assert files_of(store) == before


def test_an_interrupted_extension_is_forgotten_by_the_small_study(
    tmp_path: Path, studies: list[StudySpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.zarr"
    run(studies[0], path)
    before = files_of(path)

    def killed(*_: object) -> None:
        (path / FIRST).mkdir(parents=True)
        (path / FIRST / "zarr.json").write_text("torn")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pbdist.store.create.write_skeleton", killed)
        with pytest.raises(KeyboardInterrupt):
            run(studies[1], path)
    assert not check_store(path).healthy
    run(studies[0], path)
    assert check_store(path).healthy
    after = files_of(path)
    del after["extensions/zarr.json"]
    assert after == before


def test_a_store_inside_another_is_refused(store: Path, studies: list[StudySpec]) -> None:
    before = files_of(store)
    for inner in ("inner.zarr", "extensions/003", "deep/er/inner.zarr"):
        with pytest.raises(InvalidInputError, match="expected a path outside of other stores"):
            run(studies[0], store / inner)
    assert files_of(store) == before
