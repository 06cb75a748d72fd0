"""Links and other things that are no regular files, put into a store by somebody: nothing is read or changed there."""

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from pbdist.cli import main
from pbdist.errors import StoreDamagedError
from pbdist.run.giant import scratch_at, scratch_of
from pbdist.store import check_store, hold, open_store, place_at
from pbdist.store.commit import record_document, record_file
from pbdist.store.irregular import IrregularError, OversizeError
from pbdist.store.skeleton import write_extensions
from tests.studies import TINY, files_of, write_study

STUDY = """\
format: 1
name: linked
mechanisms:
  - {label: Laplace, kind: Laplace, scale: [2, 3]}
method: buckets
buckets: 40
keep_states: true
compositions: [1]
epsilon: [0, 0.5]
"""
LARGER = STUDY.replace("[2, 3]", "[2, 3, 5]")
QUERY = ("--mechanism", "Laplace", "--scale", "2", "--compositions", "1", "--epsilon", "0.5")
REFINED = ("--mechanism", "Laplace", "--scale", "2", "--compositions", "1", "--epsilon", "0.25", "--refine")
#: The most memory and time of a process that meets what has no end.
MOST_MEMORY, MOST_SECONDS = 6 << 30, 60

Answer = tuple[int, str]
Asked = Callable[..., Answer]


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Asked:
    """Give a command and return its exit code and all that it prints."""

    def ask(*arguments: object) -> Answer:
        code = main([str(argument) for argument in arguments])
        told = capsys.readouterr()
        return code, told.out + told.err

    return ask


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete store with kept states, a part that extends it, and a point that a query has added."""
    folder = tmp_path_factory.mktemp("made")
    for text in (STUDY, LARGER):
        assert main(["run", str(write_study(folder, text)), "--store", str(folder / "s.zarr"), "--serial"]) == 0
    assert main(["query", str(folder / "s.zarr"), *REFINED]) == 0
    return folder / "s.zarr"


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "s.zarr")
    write_study(tmp_path, LARGER)
    return tmp_path / "s.zarr"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with what somebody would not like to lose."""
    folder = tmp_path / "outside"
    (folder / "c").mkdir(parents=True)
    for name in ("thesis.tex", "zarr.json", "c/0", "a.pbdist-block", "b.partial"):
        (folder / name).write_text("years of work")
    return folder


def state_of(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Kind, time of the last change and content of all that lies in a folder, and of the folder itself."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in (folder, *sorted(folder.rglob("*")))
    }


def run(store: Path) -> tuple[object, ...]:
    return "run", store.parent / "study.yaml", "--store", store, "--serial"


def assert_refused(answer: Answer, path: Path, what: str) -> None:
    code, told = answer
    errors = [line for line in told.splitlines() if line.startswith("pbdist: error: ")]
    assert (code, len(errors)) == (2, 1), told
    assert str(path) in errors[0]
    assert f"got a {what}" in errors[0]
    assert "Traceback" not in told


def in_a_process(*arguments: object) -> tuple[int, str]:
    """As `asked`, in a process of limited memory and time: nothing may wait, or read, without an end."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    done = subprocess.run(
        [sys.executable, "-m", "pbdist", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=MOST_SECONDS,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, limits[1])),
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    return done.returncode, done.stdout + done.stderr


def test_an_extension_that_is_a_link_is_neither_emptied_nor_written_to(
    tmp_path: Path, outside: Path, asked: Asked
) -> None:
    write_study(tmp_path, STUDY)
    store = tmp_path / "s.zarr"
    assert asked(*run(store))[0] == 0
    (store / "extensions").mkdir()
    (store / "extensions/001").symlink_to(outside)
    write_study(tmp_path, LARGER)
    before, there = state_of(outside), files_of(store)
    assert_refused(asked(*run(store)), store / "extensions/001", f"link to '{outside}'")
    assert state_of(outside) == before
    assert files_of(store) == there
    code, told = asked("status", store, "--check")
    assert (code, "damaged: extensions/001: a link" in told) == (1, True)
    (store / "extensions/001").unlink()
    assert asked(*run(store))[0] == 0
    assert check_store(store).healthy


FOLDERS = (
    "delta_lower",
    "delta_lower/c",
    "delta_lower/c/0",
    "loss_width/c",
    "scale",
    "commits",
    "commits/batch-000000",
    "states",
    "states/cell-000000/A_TO_B",
    "extensions",
    "extensions/001",
    "extensions/001/log_delta_upper/c",
    "refinements",
    "refinements/000001",
)
FILES = (
    "zarr.json",
    "delta_upper/zarr.json",
    "delta_upper/c/0/0/0/0",
    "epsilon/c/0",
    "pair/c/0",
    "commits/zarr.json",
    "commits/batch-000000/zarr.json",
    "extensions/zarr.json",
    "extensions/001/zarr.json",
    "refinements/zarr.json",
    "refinements/000001/zarr.json",
)
#: What a query of another noise setting has no need of.
UNQUERIED = {"extensions/001/log_delta_upper/c"}


@pytest.mark.parametrize("name", [*FOLDERS, *FILES])
def test_what_was_moved_away_and_linked_is_refused_by_every_command(
    store: Path, outside: Path, asked: Asked, name: str
) -> None:
    (store / name).rename(outside / "moved")
    (store / name).symlink_to(outside / "moved")
    before, there = state_of(outside), files_of(store)
    commands = {
        "run": run(store),
        "query": ("query", store, *QUERY, "0.25"),
        "verify": ("verify", store, "--sample", 2),
    }
    for command, arguments in commands.items():
        if command != "query" or name not in UNQUERIED:
            assert_refused(asked(*arguments), store / name, "link")
    code, told = asked("status", store, "--check")
    assert code == 1
    # Where a head is a link there is nothing more to check.
    named = f"damaged: {name}: a link" in told or f"damaged: {store / name}: expected a" in told
    assert named, told
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


@pytest.mark.parametrize("make", [fifo, endless, nowhere, unix_socket])
@pytest.mark.parametrize("name", ["zarr.json", "delta_lower/c/0/0/0/0", "refinements/000001"])
def test_what_is_no_file_is_refused_by_every_command(
    store: Path, outside: Path, make: Callable[[Path, Path], str], name: str
) -> None:
    path = store / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    kind = make(path, outside)
    before = state_of(outside)
    ask = in_a_process if make in {fifo, endless} and name == "zarr.json" else in_this_process
    for arguments in (run(store), ("query", store, *QUERY, "0.25"), ("verify", store, "--sample", 1)):
        assert_refused(ask(*arguments), path, kind)
    code, told = ask("status", store, "--check")
    assert code == 1
    assert f"got a {kind}" in told or f"damaged: {name}: a {kind.split(' to ')[0]}" in told
    assert state_of(outside) == before
    assert sorted(os.listdir(outside)) == ["a.pbdist-block", "b.partial", "c", "thesis.tex", "zarr.json"]


def in_this_process(*arguments: object) -> Answer:
    told = StringIO()
    with redirect_stdout(told), redirect_stderr(told):
        code = main([str(argument) for argument in arguments])
    return code, told.getvalue()


@pytest.mark.parametrize("make", [fifo, endless, nowhere, unix_socket])
def test_a_lock_that_is_no_file_is_refused(store: Path, outside: Path, make: Callable[[Path, Path], str]) -> None:
    lock = store.parent / ".s.zarr.lock"
    kind = make(lock, outside)
    before, there = state_of(outside), files_of(store)
    ask = in_a_process if make in {fifo, endless} else in_this_process
    assert_refused(ask(*run(store)), lock, kind)
    assert_refused(ask("query", store, *[item.replace("0.25", "0.375") for item in REFINED]), lock, kind)
    assert ask("query", store, *QUERY)[0] == 0
    code, told = ask("status", store)
    assert (code, f"got a {kind}" in told) == (1, True)
    assert state_of(outside) == before
    assert files_of(store) == there
    assert os.path.lexists(lock)


def test_a_lock_that_is_another_name_of_a_file_is_not_written(store: Path, outside: Path, asked: Asked) -> None:
    for make in (Path.symlink_to, Path.hardlink_to):
        lock = store.parent / ".s.zarr.lock"
        make(lock, outside / "thesis.tex")
        before = state_of(outside)
        assert_refused(asked(*run(store)), lock, "link to" if make == Path.symlink_to else "file that has another name")
        with pytest.raises(IrregularError), hold(store):
            pass
        assert state_of(outside) == before
        lock.unlink()


def test_nothing_is_written_or_removed_by_way_of_a_linked_scratch(store: Path, outside: Path, asked: Asked) -> None:
    linked = store.parent / ".s.zarr.scratch"
    linked.symlink_to(outside)
    before = state_of(outside)
    assert_refused(asked(*run(store)), linked, "link to")
    scratch = scratch_of(str(store))
    for action in (scratch.clear, lambda: scratch.write("a", np.ones(3)), lambda: scratch.remove("a")):
        with pytest.raises(IrregularError, match="expected a folder or nothing, got a link"):
            action()
    linked.unlink()
    scratch.write("b/c", np.ones(3))
    (linked / "d").symlink_to(outside)
    scratch.clear()
    with pytest.raises(IrregularError):
        scratch.write("d/a", np.ones(3))
    assert os.listdir(linked) == ["d"]
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


def test_a_store_that_is_a_link_or_lies_behind_one_works(tmp_path: Path, asked: Asked) -> None:
    (tmp_path / "disk/deep").mkdir(parents=True)
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    link, real = tmp_path / "data/s.zarr", tmp_path / "disk/deep/real.zarr"
    write_study(tmp_path, STUDY)
    command = ("run", tmp_path / "study.yaml", "--store")
    assert asked(*command, real, "--serial")[0] == 0
    link.symlink_to("deep/real.zarr")
    write_study(tmp_path, LARGER)
    assert asked(*command, link, "--serial")[0] == 0
    assert asked("query", link, *QUERY)[0] == 0
    assert asked("query", link, *REFINED)[0] == 0
    assert asked("status", link, "--check")[0] == 0
    assert asked("verify", link, "--sample", 2)[0] == 0
    assert (real / "extensions/001/zarr.json").is_file()
    assert (real / "refinements/000001/zarr.json").is_file()
    assert open_store(link).study.name == "linked"
    assert sorted(os.listdir(tmp_path / "disk")) == ["deep", "s.zarr"]
    assert os.listdir(tmp_path / "disk/deep") == ["real.zarr"]


def test_a_link_that_is_in_nobodys_way_is_told_and_does_no_harm(store: Path, outside: Path, asked: Asked) -> None:
    for name in ("notes", "zarr.json.0123.partial"):
        (store / name).symlink_to(outside)
    os.mkfifo(store / "pipe.partial")
    unfinished = store.parent / f".s.zarr.{'0' * 32}.partial"
    unfinished.symlink_to(outside)
    before = state_of(outside)
    assert asked(*run(store))[0] == 0
    code, told = asked("status", store, "--check")
    assert code == 0
    for line in ("notes: a link", "zarr.json.0123.partial: a link", "pipe.partial: a named pipe"):
        assert f"stray, no harm: {line}" in told
    assert state_of(outside) == before
    assert unfinished.is_symlink()


def test_a_point_is_not_added_by_way_of_a_link(store: Path, outside: Path, asked: Asked) -> None:
    (store / "refinements/000002").symlink_to(outside)
    before, there = state_of(outside), files_of(store)
    arguments = ("query", store, *[item.replace("0.25", "0.375") for item in REFINED])
    assert_refused(asked(*arguments), store / "refinements/000002", "link to")
    # Nor where it is put there after the look at the store.
    with pytest.raises(IrregularError, match="refinements/000002: expected a folder or nothing"):
        place_at(store).create("refinements/000002/zarr.json", b"x")
    (store / "refinements/000002").unlink()
    (store / "refinements/000002").mkdir()
    (store / "refinements/000002/zarr.json").symlink_to(outside / "new")
    with pytest.raises(IrregularError, match=r"zarr\.json: expected a file or nothing, got a link"):
        place_at(store).create("refinements/000002/zarr.json", b"x")
    assert state_of(outside) == before
    shutil.rmtree(store / "refinements/000002")
    assert files_of(store) == there


def test_a_chunk_that_is_another_name_of_a_file_is_replaced(store: Path, outside: Path, asked: Asked) -> None:
    whole, chunk = files_of(store), store / "delta_lower/c/0/0/0/0"
    chunk.unlink()
    chunk.hardlink_to(outside / "thesis.tex")
    before = state_of(outside)
    assert asked(*run(store))[0] == 0
    assert state_of(outside) == before
    assert files_of(store) == whole


@pytest.mark.parametrize(
    "name",
    [
        "zarr.json",
        "commits/zarr.json",
        "commits/batch-000000/zarr.json",
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
    code, told = in_a_process("status", store, "--check")
    assert (code, name in told, "Traceback" in told) == (1, True, False)
    lost = pytest.warns(UserWarning, match="points that a query had added") if "000001" in name else nullcontext()
    with lost:
        assert in_this_process(*run(store))[0] == 0
    assert check_store(store).healthy
    assert (store / name).stat().st_size < 1 << 20


def test_a_list_of_parts_that_leads_out_of_the_store_is_no_list(store: Path, outside: Path, asked: Asked) -> None:
    """The list is sealed by a checksum, which anybody can compute."""
    (outside / "001").mkdir()
    (outside / "001/thesis.tex").write_text("more work")
    digest = open_store(store).root["study_digest"]
    before = state_of(outside)
    # A part that cannot be read would be emptied, and computed anew, where the study has points that no other part has.
    write_study(store.parent, LARGER.replace("5]", "5, 7]"))
    for path in ("extensions/../../outside/001", "../outside/001", f"{outside}/001", "outside/001"):
        write_extensions(place_at(store), {path: digest})
        assert check_store(store).damaged
        assert asked(*run(store))[0] == 0
        assert check_store(store).healthy
    assert state_of(outside) == before


@pytest.mark.parametrize("name", ["/dev/zero", "../../../../../../../dev/zero", "../outside/thesis.tex", "", "a//b"])
def test_a_commit_record_that_names_what_is_not_in_the_store_is_damage(store: Path, asked: Asked, name: str) -> None:
    stored = open_store(store)
    record = json.loads((store / record_file(0)).read_text())["attributes"]["commit"]
    files = {**record["files"], name: {"bytes": 13, "sha256": "0" * 64}}
    stored.place.write(record_file(0), record_document(stored.head, 0, files, {}))
    code, told = in_a_process("status", store, "--check")
    assert (code, f"damaged: {name}: missing" in told) == (1, True)
    assert asked(*run(store))[0] == 0
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


def test_a_store_that_is_a_link_to_nothing_is_refused_and_nothing_is_made(tmp_path: Path, asked: Asked) -> None:
    store = tmp_path / "s.zarr"
    store.symlink_to(tmp_path / "nowhere" / "x")
    path = write_study(tmp_path, TINY)
    code, told = asked("run", path, "--store", store, "--serial")
    assert code == 2
    assert f"{store}: expected a store or nothing, got a link to '{tmp_path / 'nowhere' / 'x'}'" in told
    assert not (tmp_path / "nowhere").exists()


def test_a_check_tells_what_is_to_be_removed_before_a_run(store: Path, outside: Path, asked: Asked) -> None:
    chunk = next(path for path in sorted(store.rglob("0")) if path.is_file())
    chunk.unlink()
    chunk.symlink_to(outside / "thesis.tex")
    code, told = asked("status", store, "--check")
    assert code == 1
    assert "remove or put back the 1 that are no files, and run the study again" in told
