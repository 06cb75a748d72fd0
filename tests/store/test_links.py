"""Links and other irregular files in a store: nothing behind them is read or changed."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pbdist.run.giant import scratch_at, scratch_of
from pbdist.store import check_store, open_store
from pbdist.store.files import IrregularError
from tests.store.commands import LARGER, QUERY, REFINED, STUDY, ask, assert_refused, in_a_process, run, state_of
from tests.studies import TINY, files_of, write_study

pytestmark = pytest.mark.slow


def test_an_extension_that_is_a_link_is_neither_emptied_nor_written_to(tmp_path: Path, outside: Path) -> None:
    write_study(tmp_path, STUDY)
    store = tmp_path / "s.zarr"
    assert ask(*run(store))[0] == 0
    (store / "extensions").mkdir()
    (store / "extensions/001").symlink_to(outside)
    write_study(tmp_path, LARGER)
    before, there = state_of(outside), files_of(store)
    assert_refused(ask(*run(store)), store / "extensions/001", f"link to '{outside}'")
    assert state_of(outside) == before
    assert files_of(store) == there
    code, text = ask("status", store, "--check")
    assert (code, "damaged: extensions/001: a link" in text) == (1, True)
    (store / "extensions/001").unlink()
    assert ask(*run(store))[0] == 0
    assert check_store(store).healthy


LINKED = (
    *("delta_lower/c", "commits", "states/cell-000000/A_TO_B", "extensions/001", "refinements/000001"),
    *("zarr.json", "delta_upper/c/0/0/0/0", "commits/shard-000000/zarr.json"),
)


@pytest.mark.parametrize("name", LINKED)
def test_what_was_moved_away_and_linked_is_refused_by_every_command(store: Path, outside: Path, name: str) -> None:
    (store / name).rename(outside / "moved")
    (store / name).symlink_to(outside / "moved")
    before, there = state_of(outside), files_of(store)
    for arguments in (run(store), ("query", store, *QUERY, "0.25"), ("verify", store, "--sample", 2)):
        assert_refused(ask(*arguments), store / name, "link")
    code, text = ask("status", store, "--check")
    assert code == 1
    # Where a head is a link there is nothing more to check.
    named = f"damaged: {name}: a link" in text or f"damaged: {store / name}: expected a" in text
    assert named, text
    assert state_of(outside) == before
    assert files_of(store) == there
    (store / name).unlink()
    (outside / "moved").rename(store / name)
    assert check_store(store).healthy


def fifo(path: Path, _: Path) -> str:
    os.mkfifo(path)
    return "named pipe"


def endless(path: Path, _: Path) -> str:
    path.symlink_to("/dev/zero")
    return "link to '/dev/zero'"


def nowhere(path: Path, outside: Path) -> str:
    path.symlink_to(outside / "nothing")
    return "link"


def unix_socket(path: Path, _: Path) -> str:
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        # The path of a socket is short.
        os.chdir(path.parent)
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)
    return "socket"


@pytest.mark.parametrize(
    ("name", "make"),
    [
        *(("zarr.json", make) for make in (fifo, endless, nowhere, unix_socket)),
        ("delta_lower/c/0/0/0/0", fifo),
        ("refinements/000001", nowhere),
    ],
)
def test_what_is_no_file_is_refused_by_every_command(
    store: Path, outside: Path, make: Callable[[Path, Path], str], name: str
) -> None:
    path = store / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    kind = make(path, outside)
    before = state_of(outside)
    give = in_a_process if make in {fifo, endless} and name == "zarr.json" else ask
    for arguments in (run(store), ("query", store, *QUERY, "0.25"), ("verify", store, "--sample", 1)):
        assert_refused(give(*arguments), path, kind)
    code, text = give("status", store, "--check")
    assert code == 1
    assert f"got a {kind}" in text or f"damaged: {name}: a {kind.split(' to ')[0]}" in text
    assert state_of(outside) == before
    assert sorted(os.listdir(outside)) == ["a.pbdist-block", "b.partial", "c", "thesis.tex", "zarr.json"]


@pytest.mark.parametrize("make", [fifo, endless])
def test_a_lock_that_is_no_file_is_refused(store: Path, outside: Path, make: Callable[[Path, Path], str]) -> None:
    lock = store.parent / ".s.zarr.lock"
    kind = make(lock, outside)
    before, there = state_of(outside), files_of(store)
    assert_refused(in_a_process(*run(store)), lock, kind)
    refined = [item.replace("0.25", "0.375") for item in REFINED]
    assert_refused(in_a_process("query", store, *refined), lock, kind)
    assert in_a_process("query", store, *QUERY)[0] == 0
    code, text = in_a_process("status", store)
    assert (code, f"got a {kind}" in text) == (1, True)
    assert state_of(outside) == before
    assert files_of(store) == there
    assert os.path.lexists(lock)


def test_nothing_is_removed_by_way_of_a_linked_scratch(store: Path, outside: Path) -> None:
    linked = store.parent / ".s.zarr.scratch"
    linked.symlink_to(outside)
    before = state_of(outside)
    assert_refused(ask(*run(store)), linked, "link to")
    scratch = scratch_of(str(store))
    for action in (scratch.clear, lambda: scratch.write("a", np.ones(3)), lambda: scratch.remove("a")):
        with pytest.raises(IrregularError, match="expected a folder or nothing, got a link"):
            action()
    assert state_of(outside) == before


def test_the_folder_that_a_caller_gives_for_scratch_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "large-disk").mkdir()
    (tmp_path / "scratch").symlink_to(tmp_path / "large-disk")
    scratch = scratch_at(str(tmp_path / "scratch"))
    scratch.write("a/b", np.ones(3))
    assert scratch.read("a/b").tolist() == [1.0, 1.0, 1.0]
    assert (tmp_path / "large-disk/a/b.pbdist-block").is_file()
    scratch.clear()
    assert os.listdir(tmp_path / "large-disk") == []


def test_a_store_that_is_a_link_or_lies_behind_one_works(tmp_path: Path) -> None:
    (tmp_path / "disk/deep").mkdir(parents=True)
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    link, real = tmp_path / "data/s.zarr", tmp_path / "disk/deep/real.zarr"
    write_study(tmp_path, STUDY)
    command = ("run", tmp_path / "study.yaml", "--store")
    assert ask(*command, real, "--serial")[0] == 0
    link.symlink_to("deep/real.zarr")
    write_study(tmp_path, LARGER)
    assert ask(*command, link, "--serial")[0] == 0
    assert ask("query", link, *QUERY)[0] == 0
    assert ask("query", link, *REFINED)[0] == 0
    assert ask("status", link, "--check")[0] == 0
    assert ask("verify", link, "--sample", 2)[0] == 0
    assert (real / "extensions/001/zarr.json").is_file()
    assert (real / "refinements/000001/zarr.json").is_file()
    assert open_store(link).study.name == "linked"
    assert sorted(os.listdir(tmp_path / "disk")) == ["deep", "s.zarr"]
    assert os.listdir(tmp_path / "disk/deep") == ["real.zarr"]


def test_a_store_that_is_a_link_to_nothing_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    store = tmp_path / "s.zarr"
    store.symlink_to(tmp_path / "nowhere" / "x")
    path = write_study(tmp_path, TINY)
    code, text = ask("run", path, "--store", store, "--serial")
    assert code == 2
    assert f"{store}: expected a store or nothing, got a link to '{tmp_path / 'nowhere' / 'x'}'" in text
    assert not (tmp_path / "nowhere").exists()
