"""A folder and an object store keep the same promises."""

import os
import pickle
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pbdist.errors import InvalidInputError, NotAStoreError, StoreRefusedError, StoreUnreachableError
from pbdist.query import open_study
from pbdist.store import LocalPlace, Place, check_store, create_or_open, hold, open_store, place_at, restore
from pbdist.store.place import _as_os_errors
from pbdist.study import StudySpec, load_study, plan_study
from tests.s3_server import Bucket, fresh_bucket, started_server
from tests.store.test_store import SMALL, created, write_batch
from tests.studies import files_of, write_study

pytestmark = pytest.mark.slow


@pytest.fixture(params=["folder", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        (tmp_path / "s.zarr").mkdir()
        return place_at(tmp_path / "s.zarr")
    return place_at(f"{request.getfixturevalue('bucket').url}/s.zarr")


@pytest.fixture
def small(tmp_path: Path) -> StudySpec:
    return load_study(write_study(tmp_path, SMALL))


def contents(place: Place) -> dict[str, bytes]:
    return {name: place.read(name) for name, _ in place.names()}


def test_files_are_written_read_and_listed(place: Place) -> None:
    assert list(place.names()) == []
    with pytest.raises(FileNotFoundError):
        place.read("a/b")
    place.write("a/b", b"hello")
    place.write("a/b", b"world!")
    assert place.read("a/b") == b"world!"
    place.write("c", b"x")
    assert sorted(place.names()) == [("a/b", 6), ("c", 1)]
    assert list(place.names("a")) == [("a/b", 6)]
    assert list(place.names("b")) == []
    assert place.folders() == ["a"]
    assert place.inner("a").read("b") == b"world!"
    assert pickle.loads(pickle.dumps(place)).read("c") == b"x"  # noqa: S301 -- just pickled
    assert list(place.at_once(lambda number: number + 1, [1, 2, 3])) == [2, 3, 4]
    place.remove("c")
    place.remove("c")
    assert list(place.names()) == [("a/b", 6)]


def test_one_of_many_creates_a_folder(place: Place) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda number: place.create("f", {"x": b"x", "head": bytes([number])}), range(8)))
    assert sum(made) == 1
    assert place.read("f/head") == bytes([made.index(True)])
    assert place.read("f/x") == b"x"
    assert not place.create("f", {"head": b"other"})


def test_what_a_killed_process_left_is_removed_by_the_next_writer(tmp_path: Path) -> None:
    place = place_at(tmp_path / "s.zarr")
    assert isinstance(place, LocalPlace)
    assert place.create("", {"zarr.json": b"{}"})
    partial = tmp_path / ".s.zarr.partial"
    (partial / "torn").mkdir(parents=True)
    (partial / "torn" / "file").write_text("torn")
    with hold(place):
        place.write("a", b"x")
    assert not partial.exists()
    assert files_of(tmp_path / "s.zarr").keys() == {"a", "zarr.json"}


def test_a_store_that_was_moved_is_not_created_again(tmp_path: Path) -> None:
    place = place_at(tmp_path / "s.zarr")
    place.create("", {"zarr.json": b"{}"})
    (tmp_path / "s.zarr").rename(tmp_path / "moved.zarr")
    for one in (place, place.inner("extension-001")):
        with pytest.raises(FileNotFoundError, match="the store is gone"):
            one.write("bounds/0", b"x")
    assert not (tmp_path / "s.zarr").exists()


def test_a_store_behind_a_link_is_written_where_it_lies(tmp_path: Path, small: StudySpec) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "s.zarr").mkdir()
    os.rmdir(tmp_path / "disk" / "s.zarr")
    stored = created(tmp_path / "disk" / "s.zarr", plan_study(small, 2))
    (tmp_path / "link.zarr").symlink_to(Path(stored.place.url))
    write_batch(open_store(tmp_path / "link.zarr"), 0)
    assert check_store(Path(stored.place.url)).healthy
    assert (tmp_path / "link.zarr").is_symlink()


@pytest.mark.parametrize("where", ["s3://bucket", "s3:///x", "s3://b/../x", "gs://bucket/x", "", "a\0b"])
def test_what_is_no_place_is_refused(where: str) -> None:
    with pytest.raises(InvalidInputError, match="expected a path or a URL s3://BUCKET/PREFIX"):
        place_at(where)


def test_a_store_in_an_object_store_has_the_bytes_of_one_in_a_folder(
    bucket: Bucket, small: StudySpec, tmp_path: Path
) -> None:
    place = place_at(f"{bucket.url}/far/s.zarr")
    for where in (place_at(tmp_path / "s.zarr"), place):
        stored = create_or_open(where, plan_study(small, 1))
        assert stored == open_store(where)
        for index in range(2):
            write_batch(stored, index)
        assert check_store(where).healthy
    expected = contents(place_at(tmp_path / "s.zarr"))
    assert contents(place) == expected
    bounds = open_study(place).delta("ApproximateDP", compositions=1, epsilon=0.5)
    assert 0.0 < bounds.lower <= bounds.upper < 1e-5
    # As after a creation that was interrupted.
    for name in ("zarr.json", "scale/0", "pair/0", "states/zarr.json"):
        place.remove(name)
    restore(place, small, lambda study: plan_study(study, 1))
    assert contents(place) == expected


def test_an_object_store_that_refuses_is_reported_on_one_line(bucket: Bucket, small: StudySpec) -> None:
    with pytest.raises(StoreRefusedError, match="bucket does not exist: check the name of the bucket") as caught:
        create_or_open(place_at("s3://nowhere/s.zarr"), plan_study(small))
    assert "\n" not in str(caught.value)
    place = place_at(f"{bucket.url}/something/else")
    place.write("words.txt", b"words")
    with pytest.raises(NotAStoreError, match="got something else"):
        create_or_open(place, plan_study(small))
    with pytest.raises(NotAStoreError, match="got nothing there"):
        open_store(f"{bucket.url}/nothing/here")


@pytest.mark.parametrize("text", ["<Code>AccessDenied</Code>", "HTTP error: error sending request"])
def test_what_to_do_is_said_where_an_object_store_does_not_answer(text: str) -> None:
    words = ": check the name of the bucket, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL$"
    with pytest.raises((StoreRefusedError, StoreUnreachableError), match=words), _as_os_errors("s3://b/x", "n"):
        raise ValueError(text)


def test_a_full_disk_leaves_the_store_as_it_was(small: StudySpec, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the system refuses to write more, in the middle of a file."""
    stored = created(tmp_path / "s.zarr", plan_study(small, 1))
    write_batch(stored, 0)
    before = contents(stored.place)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        with pytest.raises(OSError, match="File too large") as caught:
            write_batch(stored, 1)
        with pytest.raises(InvalidInputError, match="File too large"):
            created(tmp_path / "new.zarr", plan_study(small))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "new.zarr").exists()
    assert before.items() <= contents(stored.place).items()
    assert check_store(Path(stored.place.url)).missing == (("", 1),)
    write_batch(stored, 1)
    assert check_store(Path(stored.place.url)).healthy


def test_another_environment_has_another_client(bucket: Bucket) -> None:
    place_at(f"{bucket.url}/moved").write("name", b"first")
    with started_server() as another, fresh_bucket(another, bucket.name):
        place_at(f"{bucket.url}/moved").write("name", b"second")
    assert place_at(f"{bucket.url}/moved").read("name") == b"first"
