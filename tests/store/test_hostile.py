"""Files that are too large, and paths that lead out of a store: nothing there is read or changed."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pbdist.errors import StoreDamagedError
from pbdist.store import check_store, open_store, place_at
from pbdist.store.create import write_parts
from pbdist.store.layout import shard_record
from pbdist.store.results import record_document
from tests.store.commands import LARGER, ask, in_a_process, run, state_of
from tests.studies import write_study

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "name",
    ["zarr.json", "delta_lower/c/0/0/0/0", "pair/zarr.json", "extensions/001/zarr.json", "refinements/zarr.json"],
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
    for path in ("extensions/../../outside/001", f"{outside}/001"):
        write_parts(place_at(store), {path: digest})
        assert check_store(store).damaged
        assert ask(*run(store))[0] == 0
        assert check_store(store).healthy
    assert state_of(outside) == before


@pytest.mark.parametrize("name", ["/dev/zero", "../outside/thesis.tex", ""])
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
