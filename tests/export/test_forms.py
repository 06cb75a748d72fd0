"""Every form of an export holds what the study holds, exactly."""

import json
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import xarray as xr

import pbdist
from tests.export.stores import FIRST, FORMS, RELEASES, ROWS, open_export
from tests.studies import TINY, Finished

pytestmark = pytest.mark.slow


def exported(store: Path, folder: Path, form: str) -> Path:
    out = folder / f"out{form}"
    assert pbdist.export_study(store, out).path == out
    return out


def assert_identical(found: xr.Dataset, expected: xr.Dataset) -> None:
    """Equal with the index, and alike without it to the last attribute; those of the whole are the export's."""
    assert found.equals(expected)
    assert {*found.indexes} == {*expected.indexes}
    found, expected = (each.reset_index("cell").drop_attrs(deep=False) for each in (found, expected))
    assert found.identical(expected)


@pytest.mark.parametrize("form", [".zarr", ".nc"])
@pytest.mark.parametrize("which", ["extended", "one part", "without a tolerance", "release plans"])
def test_arrays_equal_the_bounds_of_the_study(
    store: Path, finished_store: Finished, tmp_path: Path, form: str, which: str
) -> None:
    stores = {
        "extended": lambda: store,
        "one part": lambda: finished_store(FIRST),
        "without a tolerance": lambda: finished_store(TINY),
        "release plans": lambda: finished_store(RELEASES),
    }
    path = stores[which]()
    study = pbdist.open_study(path)
    assert len(study.parts) > 1 or which != "extended"
    out = exported(path, tmp_path, form)
    with open_export(out) as found:
        assert_identical(found, study.bounds)
    if form == ".zarr":
        assert "delta_upper" in json.loads((out / "zarr.json").read_text())["consolidated_metadata"]["metadata"]


def test_rows_are_those_of_the_frame(store: Path, tmp_path: Path) -> None:
    frame = pbdist.open_study(store).frame(direction="each")
    assert len(frame) == ROWS
    parquet = pd.read_parquet(exported(store, tmp_path, ".parquet"))
    pd.testing.assert_frame_equal(parquet, frame, check_exact=True)
    text = ["noise", "kind", "mechanism", "setting", "direction", "status"]
    # A column of text without any is taken for numbers otherwise.
    read = pd.read_csv(exported(store, tmp_path, ".csv"), dtype=dict.fromkeys(text, "str"))
    read[text] = read[text].fillna("")
    pd.testing.assert_frame_equal(read, frame, check_exact=True, check_dtype=False)
    assert (read["mechanism"] == 'a "b", <c>').sum() == ROWS / 5


def test_floats_of_a_csv_are_exact_and_special_values_are_told(store: Path, tmp_path: Path) -> None:
    """The standard library reads it too: δ of 0 has the logarithm -inf, and what is not there is empty."""
    lines = exported(store, tmp_path, ".csv").read_text(encoding="utf-8").splitlines()
    head = lines[0].split(",")
    simple = [line.replace('"', "").split(",") for line in lines[1:] if "RandomizedResponse" in line]
    point = dict(zip(reversed(head), reversed(simple[-1]), strict=False))
    found = pbdist.open_study(store).bounds.sel(kind="RandomizedResponse").isel(cell=0)
    at = found.sel(direction="B||A", compositions=4, epsilon=2.0)
    assert [float(point[name]) for name in ("delta_lower", "delta_upper")] == [at.delta_lower, at.delta_upper]
    # The decimals are bounds themselves.
    assert Decimal(point["delta_lower"]) <= Decimal(at.delta_lower.item())
    assert Decimal(point["delta_upper"]) >= Decimal(at.delta_upper.item())
    one = at = found.sel(direction="A||B", compositions=1, epsilon=0.5)
    assert one.delta_upper == 0.0
    line = next(
        line for line in lines if line.split('",')[-1].startswith("RandomizedResponse") and "A||B,1,0.5," in line
    )
    assert line.endswith(",0.0,0.0,-inf,-inf,true,computed")
    assert ",,," in line
    assert "nan" not in "".join(lines).lower()


def test_lower_bounds_that_are_not_known_are_empty_in_rows(finished_store: Finished, tmp_path: Path) -> None:
    store = finished_store(RELEASES)
    for form in (".parquet", ".csv"):
        out = exported(store, tmp_path, form)
        read = pd.read_parquet(out) if form == ".parquet" else pd.read_csv(out)
        of = read[read.mechanism == "unattained"]
        assert (of.status == "upper only").all()
        assert of[["delta_lower", "log_delta_lower"]].isna().all(axis=None)
        assert of.delta_upper.notna().all()
        others = read[read.mechanism != "unattained"]
        assert (others.status == "computed").all()
        assert others.delta_lower.notna().all()
    nulls = pq.read_table(tmp_path / "out.parquet").column("delta_lower").null_count
    assert nulls == len(of)
    with open_export(exported(store, tmp_path, ".zarr")) as arrays:
        assert "no lower bound is known of 4 points" in arrays.attrs["comment"]


def test_the_same_store_gives_the_same_bytes(store: Path, tmp_path: Path) -> None:
    for form in FORMS:
        one, other = (pbdist.export_study(store, tmp_path / f"{name}{form}").path for name in ("one", "other"))
        files = [
            {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
            if out.is_dir()
            else {Path(): out.read_bytes()}
            for out in (one, other)
        ]
        assert files[0] == files[1]
    texts = [(tmp_path / f"{name}.csv-metadata.json").read_text() for name in ("one", "other")]
    assert texts[0] == texts[1]


def test_digest_and_provenance_travel_along(store: Path, tmp_path: Path) -> None:
    study = pbdist.open_study(store)
    abouts = {}
    with open_export(exported(store, tmp_path, ".zarr")) as arrays:
        abouts[".zarr"] = arrays.attrs
    with open_export(exported(store, tmp_path, ".nc")) as arrays:
        whole = {"points", "parts", "study"}
        abouts[".nc"] = {name: json.loads(value) if name in whole else value for name, value in arrays.attrs.items()}
    exported(store, tmp_path, ".csv")
    abouts[".csv"] = json.loads((tmp_path / "out.csv-metadata.json").read_text())["about"]
    metadata = pq.read_metadata(exported(store, tmp_path, ".parquet")).metadata
    abouts[".parquet"] = json.loads(metadata[b"pbdist_export"])
    for about in abouts.values():
        assert about["complete"] == 1
        assert about["study_digest"] == study.spec.digest
        assert [part["part"] for part in about["parts"]] == [part.part for part in study.parts]
        assert {part["provenance"]["pbdist"] for part in about["parts"]} == {pbdist.__version__}
        assert about["points"] == {"all": ROWS // 2, "missing": 0, "failed": 0, "damaged": 0, "upper_only": 0}
    described = pq.read_schema(tmp_path / "out.parquet").field("delta_upper").metadata
    assert described == {b"description": b"upper bound on delta(epsilon) after r-fold composition"}


@pytest.mark.slow(reason="all forms, of many chunks")
def test_a_study_in_many_chunks_is_the_same(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one cell, which lie across all parts."""
    whole = {form: exported(store, tmp_path, form) for form in FORMS}
    monkeypatch.setattr("pbdist.export.write._CHUNK_BYTES", 1)
    (tmp_path / "small").mkdir()
    for form, path in whole.items():
        out = exported(store, tmp_path / "small", form)
        if form in (".zarr", ".nc"):
            with open_export(out) as one, open_export(path) as other:
                assert_identical(one, other)
        elif form == ".csv":
            assert out.read_bytes() == path.read_bytes()
        else:
            assert pq.read_table(out).equals(pq.read_table(path))
    assert len(list((tmp_path / "small/out.zarr/delta_upper/c").iterdir())) == 5
    assert pq.read_metadata(tmp_path / "small/out.parquet").num_row_groups == 5
