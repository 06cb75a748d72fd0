"""Files that are too large, and paths that lead out of a store: nothing there is read or changed."""

import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numcodecs.zstd import Zstd

from pbdist.errors import StoreDamagedError
from pbdist.store import LocalPlace, check_store, open_store, place_at
from pbdist.store.arrays import decode_chunk
from pbdist.store.create import write_parts
from pbdist.store.files import OversizeError
from pbdist.store.layout import batch_file, shard_record
from pbdist.store.records import record_document
from pbdist.store.results import read_loose
from tests.store.commands import LARGER, QUERY, ask, in_a_process, run, state_of
from tests.store.mutations import files_of
from tests.store.sealing import Sealing
from tests.studies import write_study


@pytest.mark.parametrize(
    "name",
    [
        "zarr.json",
        "commits/zarr.json",
        "commits/shard-000000/zarr.json",
        "delta_lower/c/0/0/0/0",
        "scale/c/0",
        "pair/zarr.json",
        "states/cell-000000/A_TO_B/r-1/zarr.json",
        "extensions/zarr.json",
        "extensions/001/zarr.json",
        "refinements/zarr.json",
        "refinements/000001/zarr.json",
    ],
)
def test_a_file_beyond_all_measure_is_damage_and_is_not_read(store: Path, name: str) -> None:
    """Ten terabytes, of which none is on the disk."""
    os.truncate(store / name, 10 << 40)
    assert (store / name).stat().st_size == 10 << 40
    code, text = in_a_process("status", store, "--check")
    assert (code, name in text, "Traceback" in text) == (1, True, False)
    code, text = ask(*run(store))
    assert (code, text.count("pbdist: warning: "), "points that a query had added" in text) == (
        0,
        *((1, True) if "000001" in name else (0, False)),
    )
    assert check_store(store).healthy
    assert (store / name).stat().st_size < 1 << 20


def test_a_list_of_parts_that_leads_out_of_the_store_is_no_list(store: Path, outside: Path) -> None:
    """The list is sealed by a checksum, which anybody can compute."""
    (outside / "001").mkdir()
    (outside / "001/thesis.tex").write_text("more work")
    digest = open_store(store).root["study_digest"]
    before = state_of(outside)
    # A part that cannot be read would be emptied, and computed anew, where the study has points that no other part has.
    write_study(store.parent, LARGER.replace("5]", "5, 7]"))
    for path in ("extensions/../../outside/001", "../outside/001", f"{outside}/001", "outside/001"):
        write_parts(place_at(store), {path: digest})
        assert check_store(store).damaged
        assert ask(*run(store))[0] == 0
        assert check_store(store).healthy
    assert state_of(outside) == before


@pytest.mark.parametrize("name", ["/dev/zero", "../../../../../../../dev/zero", "../outside/thesis.tex", "", "a//b"])
def test_a_commit_record_that_names_what_is_not_in_the_store_is_damage(store: Path, name: str) -> None:
    stored = open_store(store)
    record = stored.results.shard(0)
    assert record is not None
    entry = {"bytes": 13, "sha256": "0" * 64}
    batches = {index: replace(one, states={**one.states, name: entry}) for index, one in record.batches.items()}
    for changed in (replace(record, files={**record.files, name: entry}), replace(record, batches=batches)):
        stored.place.write(shard_record(0), record_document(stored.head, 0, changed))
        code, text = in_a_process("status", store, "--check")
        assert (code, f"damaged: {shard_record(0)}: other content" in text) == (1, True)
    assert ask(*run(store))[0] == 0
    assert check_store(store).healthy


def test_every_way_to_write_stays_below_the_top(tmp_path: Path, outside: Path) -> None:
    place = place_at(tmp_path / "s.zarr")
    place.write("a/b", b"x")
    (tmp_path / "s.zarr/linked").symlink_to(outside)
    (tmp_path / "s.zarr/file").symlink_to(outside / "thesis.tex")
    before = state_of(outside)
    for name in ("linked/thesis.tex", "linked/new", "linked/deep/new", "file"):
        for action in (
            lambda name=name: place.read(name),
            lambda name=name: place.write(name, b"x"),
            lambda name=name: place.create(name, b"x"),
            lambda name=name: place.exchange(name, b"years of work", b"x"),
            lambda name=name: place.remove(name),
            lambda: place.inner("linked").write("new", b"x"),
            lambda: list(place.inner("linked").names()),
        ):
            with pytest.raises(StoreDamagedError, match=r"expected a .* or nothing, got a link to"):
                action()
    for name in ("../outside/new", "a/../../outside/new", f"{outside}/new", ".", "a/", ""):
        with pytest.raises(OSError, match="expected a name below the folder"):
            place.write(name, b"x")
        with pytest.raises(FileNotFoundError):
            place.read(name)
    assert list(place.names()) == [("a/b", 1)]
    assert state_of(outside) == before


def test_a_lease_that_somebody_else_has_written_goes_back(tmp_path: Path) -> None:
    place = place_at(tmp_path)
    place.write("lease", b"theirs, and longer")
    assert not place.exchange("lease", b"mine", b"new")
    assert not place.exchange("lease", b"theirs, and shorter", b"new")
    assert not place.exchange("lease", b"theirs, and lonker", b"new")
    assert place.read("lease") == b"theirs, and longer"
    assert os.listdir(tmp_path) == ["lease"]


def test_a_file_is_not_read_beyond_what_belongs_there(tmp_path: Path) -> None:
    place = place_at(tmp_path)
    place.write("a", b"12345")
    assert place.read("a", 5) == b"12345"
    with pytest.raises(OversizeError, match="at most 4 bytes, got 5 bytes"):
        place.read("a", 4)
    assert place.zarr_store(lambda _: 5) == place.zarr_store(lambda _: 4)


#: One frame of 8 GiB of zeros in 256 KiB: 65,536 blocks of 128 KiB that each repeat one byte, the last one marked.
_BLOCKS = 1 << 16
_REPEATED = struct.pack("<I", (1 << 17) << 3 | 1 << 1)[:3] + b"\0"
_LAST = struct.pack("<I", (1 << 17) << 3 | 1 << 1 | 1)[:3] + b"\0"
_BODY = _REPEATED * (_BLOCKS - 1) + _LAST
#: With and without the length of what it becomes.
_BOMBS = {
    "told": b"\x28\xb5\x2f\xfd" + bytes([0b11000000, 0x38]) + struct.pack("<Q", _BLOCKS << 17) + _BODY,
    "untold": b"\x28\xb5\x2f\xfd" + bytes([0b00000000, 0x38]) + _BODY,
}


@pytest.mark.parametrize("kind", _BOMBS)
@pytest.mark.parametrize("name", ["pair/c/0", "states/cell-000000/A_TO_B/r-1/"])
def test_what_would_become_gigabytes_is_not_decompressed(store: Path, name: str, kind: str) -> None:
    files = files_of(store)
    sealing = Sealing(files)
    name = next(one for one in files if one.startswith(name) and "/c/" in one)
    for one, data in sealing.sealed({**files, name: _BOMBS[kind]}).items():
        (store / one).write_bytes(data)
    for command in (("query", store, *QUERY, "--json"), ("verify", store, "--sample", 1)):
        code, text = in_a_process(*command)
        assert (code in (0, 1, 2), "Traceback" in text) == (True, False), text


@pytest.mark.parametrize("kind", _BOMBS)
def test_a_chunk_of_results_becomes_no_more_than_its_numbers(kind: str) -> None:
    with pytest.raises(ValueError, match="more than 8,192 bytes"):
        decode_chunk(_BOMBS[kind], (4, 2, 16, 8), "delta_upper")
    with pytest.raises(ValueError, match="more than 2,147,483,647 bytes"):
        decode_chunk(_BOMBS[kind], (1 << 40,), "delta_upper")


@pytest.mark.parametrize("count", [1, 255, 256, 257, 10_000, 70_000])
def test_the_length_that_a_chunk_tells_is_read_whatever_its_form(count: int) -> None:
    values = np.arange(count, dtype="<f8")
    data = bytes(Zstd(level=3, checksum=True).encode(values))
    assert decode_chunk(data, (count,), "delta_upper").tobytes() == values.tobytes()
    if count > 1:
        with pytest.raises(ValueError, match="has more than"):
            decode_chunk(data, (count - 1,), "delta_upper")


def test_a_state_has_no_more_numbers_than_its_chunk(store: Path) -> None:
    files = files_of(store)
    sealing = Sealing(files)
    name = next(one for one in files if one.startswith("states/cell-000000/A_TO_B/r-1/") and "/c/" in one)
    name = f"{name.partition('/c/')[0]}/zarr.json"
    content = json.loads(files[name])
    for shape in ([1 << 28, 1 << 28], [1 << 28, 1]):
        content["shape"] = content["chunk_grid"]["configuration"]["chunk_shape"] = shape
        content["dimension_names"] = ["mass", "place"]
        for one, data in sealing.sealed({**files, name: json.dumps(content).encode()}).items():
            (store / one).write_bytes(data)
        code, text = in_a_process("query", store, *QUERY, "--json")
        assert (code in (0, 1, 2), "Traceback" in text) == (True, False), text


def test_a_sparse_file_of_a_batch_is_not_read_far(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = open_store(store).head
    file = store / batch_file(0)
    file.parent.mkdir(parents=True)
    read: list[int] = []
    plain = LocalPlace.read_range

    def counted(place: LocalPlace, name: str, start: int | None, length: int) -> bytes:
        data = plain(place, name, start, length)
        read.append(len(data))
        return data

    monkeypatch.setattr(LocalPlace, "read_range", counted)
    for begin in (b"", b"{"):
        file.write_bytes(begin)
        os.truncate(file, 10 << 40)
        assert read_loose(head, 0) is None
    assert sum(read) < 1 << 20
    assert in_a_process("status", store)[0] == 0


def test_a_number_of_cells_without_their_columns_is_no_root(store: Path) -> None:
    files = files_of(store)
    sealing = Sealing(files)
    for name in ("zarr.json", "commits/zarr.json"):
        content = json.loads(files[name])
        root = content["attributes"].get("copy_of_root", content["attributes"])
        root["study"]["cells"] = 10**12
        files[name] = json.dumps(content, sort_keys=True).encode()
    for one, data in sealing.sealed(files).items():
        (store / one).write_bytes(data)
    for command in (("status", store), ("status", store, "--check"), ("query", store, "--json")):
        code, text = in_a_process(*command)
        assert (code in (1, 2), "Traceback" in text) == (True, False), text
