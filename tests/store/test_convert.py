"""Stores of formats 3 and 4 are made new in format 5, with the same numbers.

``format-3`` and ``format-4`` hold stores that ``pbdist run`` of their ``study.yaml`` made when those formats were the
newest. That of format 4 has two cells a batch in its first part, a second part, kept states, a refinement, and in each
part a cell that could not be computed.
"""

import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

from pbdist.cli import main
from pbdist.errors import InvalidInputError, NotAStoreError, PbdistError, StoreDamagedError, StoreFormatError
from pbdist.query import open_study
from pbdist.run import SerialExecutor, run_study
from pbdist.store import (
    BatchWriter,
    StoredStudy,
    check_store,
    convert_store,
    create_or_open,
    extend,
    hold,
    join_shard,
    open_parts,
    open_store,
    place_at,
    read_cell,
    read_refinements,
    read_state,
    read_values,
    read_within,
)
from pbdist.store.files import IrregularError
from pbdist.store.layout import BOUNDS, COMPUTED, WITHIN, batch_file, shard_record
from pbdist.study import Plan, load_study, plan_study
from pbdist.study.spec import within_tolerance
from pbdist.table import BoundsTable
from pbdist.types import Direction
from tests.store.commands import state_of
from tests.store.s3_server import s3_server
from tests.studies import files_of, results_of

HERE = Path(__file__).parent
OLD = {3: HERE / "format-3/old.zarr", 4: HERE / "format-4/old.zarr"}
FAILED = (("", 1, "ValueError: on purpose"), ("extensions/001", 1, "ValueError: on purpose"))
#: In the first part of format 4 the second batch is that of a cell with this number.
LAST = 2


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD[4], tmp_path / "old.zarr"))


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return tmp_path / "new.zarr"


@pytest.mark.parametrize("version", [3, 4])
def test_it_holds_the_numbers_of_the_old_store_bit_for_bit(version: int, new: Path) -> None:
    path, before = OLD[version], state_of(OLD[version])
    found = convert_store(path, new)
    assert state_of(path) == before
    parts = open_parts(new)
    assert (found.format, found.parts, found.refinements) == (version, len(parts), 1)
    assert (found.missing, found.damaged, found.left) == ((), (), 0)
    assert found.failed == (() if version == 3 else FAILED)
    assert found.batches == sum(part.batches for part in parts)
    for part in parts:
        plain, joined = zarr.open_group(path / part.part, mode="r"), zarr.open_group(new / part.part, mode="r")
        assert part.head.digest == plain.attrs["study_digest"] == joined.attrs["study_digest"]
        assert part.cells_per_batch == plain.attrs["cells_per_batch"]
        names = {name for name, _ in plain.arrays()}
        # Parameters of kinds that came later have columns in every new store.
        later = {"eta", "k"}
        assert {name for name, _ in joined.arrays()} - names == later | ({WITHIN} if version == 3 else set())
        for name in names:
            expected = np.asarray(plain[name])
            assert same_bits(np.asarray(joined[name]), expected), name
            if name in (*BOUNDS, *COMPUTED):
                assert same_bits(read_values(part, name, slice(None)), expected)
            elif name == WITHIN:
                assert np.array_equal(read_within(part, slice(None)), expected)
    first = xr.open_zarr(path, consolidated=False, chunks=None)
    shown = open_study(new).bounds.sel(epsilon=first.epsilon)
    assert all(same_bits(shown[name].values, first[name].values) for name in BOUNDS)
    assert check_store(new).damaged == check_store(new).strays == ()
    for folder in ("states", "extensions/001/states", "refinements"):
        assert files_of(new / folder) == files_of(path / folder)
    assert (new / "states").is_dir() is (version == 4)
    assert not (new / "commits/batches").exists()


def test_where_the_tolerance_is_met_follows_from_the_bounds_of_format_3(new: Path) -> None:
    convert_store(OLD[3], new)
    stored, within = open_store(new), open_study(new).bounds.within_tolerance
    assert (stored.study.floor, stored.study.direction) == (1e-40, "each")
    lower, upper = (read_values(stored, f"delta_{side}", slice(None)) for side in ("lower", "upper"))
    assert np.array_equal(within.values, upper <= 1.01 * lower)
    assert not within.sel(mechanism="Laplace", scale=1e12, epsilon=1e-13).values.any()
    judged = stored.results.record(0)
    # No bounds but 0 are at most the floor, and none are infinitely close.
    asked = (upper[0] > 0.0).any(axis=0)
    assert judged is not None
    assert (judged.points, judged.missed) == (asked.sum(), (asked & ~within.values[0].all(axis=0)).sum())


@pytest.mark.parametrize("version", [3, 4])
def test_it_is_the_store_that_this_version_writes_of_the_same_results(version: int, tmp_path: Path, new: Path) -> None:
    convert_store(OLD[version], new)
    place, converted = place_at(tmp_path / "written.zarr"), open_parts(new)
    plans = [plan_study(part.study, part.cells_per_batch) for part in converted]
    parts = extend([create_or_open(place, plans[0])], plans[1:])
    for part, source, plan in zip(parts, converted, plans, strict=True):
        write_again(part, source, plan)
    expected = results_of(Path(place.url))
    assert {name: digest for name, digest in results_of(new).items() if "refinements/" not in name} == expected
    assert any(name.startswith("states/") for name in expected) is (version == 4)


def test_every_batch_keeps_its_provenance(old: Path, new: Path) -> None:
    convert_store(old, new)
    recorded = zarr.open_group(old / "commits/batch-000000", mode="r").attrs["commit"]["provenance"]
    stored = open_store(new)
    records = [stored.results.record(index) for index in range(stored.batches)]
    assert [record.provenance for record in records if record] == [recorded] * 2
    assert stored.root["provenance"] != recorded
    assert read_refinements(stored)[0].epsilon == (0.25,)


def test_the_next_run_computes_what_failed(old: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(old), str(new)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        f"converted: {old}, format 4, to {new}, format 5",
        "copied: 5 batches in 2 parts, 1 refinements, each compared with its checksum",
        "failed: cell 1: ValueError: on purpose",
        "failed: cell 1 (extensions/001): ValueError: on purpose",
        f"not complete: pbdist run STUDY --store {new} computes the rest",
    ]
    before = read_cell(open_store(new), 0)
    run_study(load_study(HERE / "format-4/study.yaml"), new, SerialExecutor(), lambda _: None)
    assert check_store(new).healthy
    assert all(same_bits(values, before[name]) for name, values in read_cell(open_store(new), 0).items())
    assert main(["status", str(new), "--check"]) == 0


def harm(path: Path) -> str:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    return "other content"


@pytest.mark.parametrize(
    "file",
    [
        "delta_upper/c/1/0/0/0",
        "loss_width/c/1",
        "within_tolerance/c/1/0/0/0",
        "states/cell-000002/A_TO_B/r-3/zarr.json",
        "commits/batch-000001/zarr.json",
    ],
)
def test_a_batch_with_a_damaged_file_is_told_and_not_copied(old: Path, new: Path, file: str) -> None:
    problem = harm(old / file)
    before = state_of(old)
    found = convert_store(old, new)
    assert found.damaged == ((file, problem),)
    assert (found.batches, found.missing, found.whole) == (4, (), False)
    stored = open_store(new)
    # The other batch is there, in a file of its own until the shard can be joined.
    assert (new / batch_file(0)).is_file()
    assert not (new / shard_record(0)).exists()
    assert math.isfinite(read_cell(stored, 0)["delta_upper"][0, 0, 0])
    assert np.isnan(read_cell(stored, LAST)["delta_upper"]).all()
    assert files_of(new / "states/cell-000002") == {}
    check = check_store(new)
    assert (check.missing, check.damaged, check.strays) == ((("", 1),), (), ())
    run_study(load_study(HERE / "format-4/study.yaml"), new, SerialExecutor(), lambda _: None)
    assert check_store(new).healthy
    assert state_of(old) == before


def test_what_is_missing_is_told(old: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(old / "commits/batch-000001")
    (old / "extensions/001/delta_lower/c/0/0/0/0").unlink()
    (old / "refinements/000001/zarr.json").unlink()
    assert main(["convert", str(old), str(new)]) == 1
    printed = capsys.readouterr().out
    assert "copied: 3 batches in 2 parts, each" in printed
    assert "missing: batch 1\n" in printed
    assert "damaged, not copied: extensions/001/delta_lower/c/0/0/0/0: missing\n" in printed
    assert "damaged, not copied: refinements/000001/zarr.json: missing or other content\n" in printed
    assert read_refinements(open_store(new)) == ()
    check = check_store(new)
    assert (check.missing, check.damaged) == ((("", 1), ("extensions/001", 0)), ())


def test_a_part_that_cannot_be_read_is_left_to_the_next_run(old: Path, new: Path) -> None:
    for name in ("zarr.json", "commits/zarr.json"):
        harm(old / "extensions/001" / name)
    found = convert_store(old, new)
    assert [name for name, _ in found.damaged] == ["extensions/001"]
    assert (found.parts, found.batches, found.left) == (1, 2, 0)
    # The new store says itself that it lacks a part.
    assert open_store(new).others_told == ("extensions/001",)
    run_study(load_study(HERE / "format-4/study.yaml"), new, SerialExecutor(), lambda _: None)
    assert check_store(new).healthy
    assert len(open_parts(new)) == 2


def test_heads_and_the_list_of_parts_are_made_anew(old: Path, new: Path) -> None:
    for name in ("zarr.json", "extensions/001/commits/zarr.json", "extensions/zarr.json", "scale/c/0"):
        harm(old / name)
    assert convert_store(old, new).damaged == ()
    assert len(open_parts(new)) == 2
    assert check_store(new).damaged == ()


def test_an_interrupted_extension_stays_one(old: Path, new: Path) -> None:
    shutil.rmtree(old / "extensions/001")
    (old / "extensions/zarr.json").unlink()
    found = convert_store(old, new)
    assert (found.parts, found.left, found.whole) == (1, 1, False)
    assert open_study(new).where == str(new)
    run_study(load_study(HERE / "format-4/study.yaml"), new, SerialExecutor(), lambda _: None)
    assert check_store(new).healthy


def test_wrong_stores_and_paths_are_refused_before_any_work(old: Path, new: Path, tmp_path: Path) -> None:
    present = tmp_path / "present.zarr"
    convert_store(OLD[3], present)
    before = state_of(tmp_path)
    refused: list[tuple[Any, Any, type[PbdistError], str]] = [
        (tmp_path / "none.zarr", new, NotAStoreError, "got nothing there"),
        (tmp_path, new, NotAStoreError, "got something else"),
        (present, new, StoreFormatError, "expected a store of format 3 or 4, got format 5"),
        (old, old, InvalidInputError, "expected nothing at .*old.zarr, got something there"),
        (old, tmp_path, InvalidInputError, "got something there"),
        (old, old / "new.zarr", InvalidInputError, "new store: expected a path outside of other stores"),
        (old, present / "a/new.zarr", InvalidInputError, "new store: expected a path outside of other stores"),
        (old, "gs://bucket/new.zarr", InvalidInputError, "expected a path or a URL"),
    ]
    for source, target, error, message in refused:
        with pytest.raises(error, match=message):
            convert_store(source, target)
    with hold(old), pytest.raises(InvalidInputError, match="expected a store at rest"):
        convert_store(old, new)
    with hold(new), pytest.raises(InvalidInputError, match="expected a store at rest"):
        convert_store(old, new)
    for name in ("zarr.json", "commits/zarr.json"):
        harm(old / name)
    with pytest.raises(StoreDamagedError, match="got both damaged"):
        convert_store(old, new)
    for name in ("zarr.json", "commits/zarr.json"):
        harm(old / name)
    assert {name: content[2] for name, content in state_of(tmp_path).items()} == {n: c[2] for n, c in before.items()}


def test_nothing_is_left_of_a_conversion_that_ends_early(old: Path, new: Path) -> None:
    target = old / "extensions/001/loss_width/c/0"
    target.rename(old.parent / "elsewhere")
    target.symlink_to(old.parent / "elsewhere")
    with pytest.raises(IrregularError, match="expected a file or nothing, got a link"):
        convert_store(old, new)
    assert sorted(path.name for path in old.parent.iterdir()) == ["elsewhere", "old.zarr"]


def test_an_earlier_store_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    for version, path in OLD.items():
        study = load_study(path.parent / "study.yaml")
        before, message = state_of(path), rf"got format {version}: pbdist convert {path} NEW_STORE makes a new store"
        with pytest.raises(StoreFormatError, match=message):
            open_study(path)
        copy = Path(shutil.copytree(path, tmp_path / f"{version}.zarr"))
        with pytest.raises(StoreFormatError, match=f"pbdist convert {copy}"):
            run_study(study, copy, SerialExecutor(), lambda _: None)
        assert files_of(copy) == files_of(path)
        assert state_of(path) == before


@pytest.fixture
def bucket() -> Iterator[str]:
    with s3_server("bucket"):
        yield "s3://bucket"


def test_from_and_to_an_object_store(bucket: str, new: Path) -> None:
    convert_store(OLD[3], new)
    around = place_at(f"{bucket}/stores")
    source, target = around.inner("old.zarr"), around.inner("new.zarr")
    for path in OLD[3].rglob("*"):
        if path.is_file():
            source.write(path.relative_to(OLD[3]).as_posix(), path.read_bytes())
    harm_at = "delta_upper/c/2/0/0/0"
    whole = source.read(harm_at)
    source.write(harm_at, whole[:-1])
    assert convert_store(source, target).damaged == ((harm_at, f"{len(whole) - 1} bytes instead of {len(whole)}"),)
    assert read_refinements(open_store(target))
    source.write(harm_at, whole)
    with pytest.raises(InvalidInputError, match=r"expected nothing at s3://bucket/stores/new\.zarr"):
        convert_store(source, target)
    for name, _ in list(target.names()):
        target.remove(name)
    assert convert_store(source, target).whole
    assert {name: target.read(name) for name, _ in target.names()} == {
        path.relative_to(new).as_posix(): path.read_bytes() for path in new.rglob("*") if path.is_file()
    }
    # The lease beside it is given back.
    assert {name.split("/")[0] for name, _ in around.names()} == {"old.zarr", "new.zarr"}


def same_bits(found: Any, expected: Any) -> bool:
    if expected.dtype.kind != "f":
        return bool(np.array_equal(found, expected))
    return found.shape == expected.shape and found.tobytes() == expected.tobytes()


def write_again(part: StoredStudy, source: StoredStudy, plan: Plan) -> None:
    """Write the results of a part as a run does."""
    study = part.study
    for batch in plan.batches:
        cells = study.cells[batch.start : batch.stop]
        writer = BatchWriter(part, batch, cells)
        for number in range(batch.start, batch.stop):
            causes = source.results.failed(batch.index)
            if number in causes:
                writer.fail(causes[number])
                continue
            values = read_cell(source, number)
            within = read_within(source, number)
            if not study.keep_states:
                assert np.array_equal(within, within_tolerance(study, *(values[f"log_delta_{s}"] for s in SIDES)))
            writer.add(
                BoundsTable(
                    compositions=np.array(study.compositions),
                    epsilon=np.array(study.epsilon),
                    method=study.method,
                    loss_width=float(values["loss_width"]),
                    half_width=None,
                    **{name: values[name] for name in BOUNDS},
                    states=states_of(source, number) if study.keep_states else {},
                    within=within,
                )
            )
        writer.commit()
    for shard in range(part.head.shards):
        assert join_shard(part.head, shard).lacking == ()


SIDES = ("lower", "upper")


def states_of(source: StoredStudy, number: int) -> dict[tuple[Direction, int], Any]:
    found = {r: read_state(source, number, Direction.A_TO_B, r) for r in source.study.compositions}
    return {(direction, r): state for r, state in found.items() for direction in Direction}
