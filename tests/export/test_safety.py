"""An export is whole or not there, never overwrites, and never looks complete if it is not."""

import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pbdist
from pbdist.export import export_study
from pbdist.mechanisms import Pair
from pbdist.store import BatchWriter, create_or_open, open_parts
from pbdist.store.layout import bounds_file
from pbdist.study import StudySpec, load_study, plan_study
from pbdist.table import BoundsTable, bounds_table
from tests.batches import damage_batch
from tests.export.stores import FIRST, FORMS, ROWS, open_export
from tests.processes import run_code
from tests.studies import files_of, write_study

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_overwritten(store: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / f"out{form}"
    out.write_text("years of work")
    with pytest.raises(pbdist.InvalidInputError, match=r"out: .* exists already: choose another path"):
        export_study(store, out)
    out.unlink()
    out.symlink_to(tmp_path / "nowhere")
    with pytest.raises(pbdist.InvalidInputError, match="exists already"):
        export_study(store, out)
    out.unlink()
    (tmp_path / "out.csv-metadata.json").write_text("somebody's")
    if form == ".csv":
        with pytest.raises(pbdist.InvalidInputError, match=r"out: .*out\.csv-metadata\.json exists already"):
            export_study(store, out)
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv-metadata.json"]


@pytest.mark.parametrize("form", FORMS)
def test_what_appears_meanwhile_is_not_overwritten(
    store: Path, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / f"out{form}"

    def late(*_: object) -> dict[str, object]:
        out.mkdir()
        (out / "thesis.tex").write_text("years of work")
        return {}

    monkeypatch.setattr("pbdist.export.write.about_study", late)
    with pytest.raises(pbdist.InvalidInputError, match="exists already"):
        export_study(store, out)
    assert files_of(tmp_path).keys() == {f"out{form}/thesis.tex"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("out.txt", r"a name that ends in \.zarr, \.nc, \.parquet, \.csv, got 'out.txt'"),
        (".csv", "a name that ends in"),
        ("none/out.csv", "a path in a folder that exists"),
        ("s3://bucket/out.zarr", "a path on this machine"),
    ],
)
def test_paths_that_are_refused(copy: Path, tmp_path: Path, name: str, expected: str) -> None:
    before = files_of(tmp_path)
    with pytest.raises(pbdist.InvalidInputError, match=f"out: expected {expected}"):
        export_study(copy, name if "://" in name else tmp_path / name)
    assert files_of(tmp_path) == before


@pytest.mark.parametrize(("form", "moment"), [(".zarr", "finish"), (".nc", "finish"), (".csv", "publish")])
def test_a_killed_export_leaves_nothing_that_looks_whole(store: Path, tmp_path: Path, form: str, moment: str) -> None:
    """SIGKILL in a process of its own, before the end is written, or when all of it is and only the name is not."""
    killed = "lambda *_: os.kill(os.getpid(), signal.SIGKILL)"
    patch = (
        f"from pbdist.export import write; write.about_study = {killed}"
        if moment == "finish"
        else f"from pathlib import Path; Path.rename = {killed}"
    )
    out = tmp_path / f"out{form}"
    code = f"import os, signal, pbdist; {patch}; pbdist.export_study({str(store)!r}, {str(out)!r})"
    assert run_code(code).returncode == -signal.SIGKILL
    left = [path.name for path in tmp_path.iterdir()]
    assert left
    assert all(name.startswith(f".out{form}.") and ".partial" in name for name in left)
    # It does not stand in the way of the next one.
    assert export_study(store, out).points == ROWS // 2


def test_an_error_leaves_nothing_behind(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pbdist.export.write.about_study", full)
    for form in FORMS:
        with pytest.raises(OSError, match="No space left"):
            export_study(store, tmp_path / f"out{form}")
        assert list(tmp_path.iterdir()) == []


def incomplete_store(folder: Path) -> Path:
    """A store of four cells: the second failed, the third was changed afterwards, the fourth is not computed."""
    study = load_study(write_study(folder, FIRST))
    stored = create_or_open(folder / "s.zarr", plan_study(study, 1))
    for index in range(3):
        writer = BatchWriter(stored.head, index, study.cells[index : index + 1])
        if index == 1:
            writer.fail("ValueError: no luck")
        else:
            writer.add(table_of(study.cells[index].pair, study))
        writer.commit()
    changed = folder / "s.zarr" / bounds_file(2)
    content = bytearray(changed.read_bytes())
    content[-1] ^= 1
    changed.write_bytes(bytes(content))
    return folder / "s.zarr"


def table_of(pair: Pair, study: StudySpec) -> BoundsTable:
    return bounds_table(
        [(pair, 1)],
        compositions=study.compositions,
        epsilon=study.epsilon,
        tolerance=0.01,
        joint_directions=True,
    )


@pytest.mark.parametrize("form", FORMS)
def test_an_incomplete_store_is_refused_or_said_to_be_incomplete(tmp_path: Path, form: str) -> None:
    store, out = incomplete_store(tmp_path), tmp_path / f"out{form}"
    with pytest.raises(pbdist.StoreIncompleteError, match=r"expected a complete and sound store.*--allow-incomplete"):
        export_study(store, out)
    assert not out.exists()
    found = export_study(store, out, allow_incomplete=True)
    assert found.lacking == "6 missing, 6 failed, 6 damaged"
    if form in (".zarr", ".nc"):
        with open_export(out) as arrays:
            assert arrays.attrs["comment"].startswith("INCOMPLETE: of 24 points 6 missing, 6 failed, 6 damaged")
            assert not arrays.attrs["complete"]
            known = arrays.delta_upper.notnull().all(["direction", "compositions", "epsilon"])
            assert known.values.tolist() == [True, False, False, False]
            assert not arrays.within_tolerance.values[1:].any()
            # The changed chunk would be read as sound numbers otherwise.
            assert np.isnan(arrays.delta_lower.values[2]).all()
    else:
        read = pd.read_parquet(out) if form == ".parquet" else pd.read_csv(out)
        assert read.groupby("cell").status.unique().str.join("").tolist() == [
            "computed",
            "failed",
            "damaged",
            "missing",
        ]
        assert read[read.status != "computed"].filter(like="delta_").isna().all(axis=None)


def test_damage_without_anything_missing_is_refused_too(copy: Path, tmp_path: Path) -> None:
    damage_batch(copy, 0)
    with pytest.raises(pbdist.StoreIncompleteError, match="damaged points"):
        export_study(copy, tmp_path / "out.csv")
    # Other metadata make all numbers those of other points: never allowed.
    (copy / "epsilon/zarr.json").write_text("{}")
    with pytest.raises(pbdist.StoreDamagedError, match=r"epsilon/zarr\.json missing or changed"):
        export_study(copy, tmp_path / "out.csv", allow_incomplete=True)
    assert not (tmp_path / "out.csv").exists()


def test_a_lost_part_is_no_complete_study(copy: Path, tmp_path: Path) -> None:
    last = Path(open_parts(copy)[-1].place.url)
    for path in (*sorted(last.rglob("*"), reverse=True), last):
        path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(pbdist.StoreIncompleteError):
        export_study(copy, tmp_path / "out.zarr")
    export_study(copy, tmp_path / "out.zarr", allow_incomplete=True)
    with open_export(tmp_path / "out.zarr") as arrays:
        assert arrays.attrs["comment"].startswith("INCOMPLETE: ")


@pytest.mark.parametrize(("form", "package"), [(".nc", "h5netcdf"), (".parquet", "pyarrow")])
def test_a_missing_package_is_named(
    store: Path, tmp_path: Path, form: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == package else object())
    with pytest.raises(pbdist.MissingDependencyError, match=rf"needs {package}: pip install 'pbdist\[export\]'"):
        export_study(store, tmp_path / f"out{form}")
    assert os.listdir(tmp_path) == []
