"""Every place keeps the same promises: a folder, an object store, and the memory of tests."""

import pickle
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from obstore.exceptions import GenericError

from pbdist.errors import InvalidInputError, NotAStoreError, StoreRefusedError
from pbdist.query import open_study
from pbdist.store import (
    Place,
    check_store,
    create_or_open,
    objects,
    open_parts,
    open_store,
    place_at,
    restore_parts,
)
from pbdist.store.files import OversizeError
from pbdist.study import StudySpec, load_study, plan_study
from tests.s3_server import Bucket, fresh_bucket, started_server
from tests.store.memory_place import MemoryPlace
from tests.store.test_damage import SMALL
from tests.store.test_store import write_batch
from tests.studies import write_study

pytestmark = pytest.mark.slow


@pytest.fixture(params=["folder", "objects", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "memory":
        return MemoryPlace({})
    if request.param == "folder":
        return place_at(tmp_path / "s.zarr")
    return place_at(f"{request.getfixturevalue('bucket').url}/s.zarr")


@pytest.fixture
def small(tmp_path: Path) -> StudySpec:
    return load_study(write_study(tmp_path, SMALL))


def contents(place: Place) -> dict[str, bytes]:
    return {name: place.read(name) for name, _ in place.names()}


def test_a_place_keeps_what_it_promises(place: Place) -> None:
    assert list(place.names()) == []
    with pytest.raises(FileNotFoundError):
        place.read("a/b")
    place.write("a/b", b"hello")
    place.write("a/b", b"world!")
    assert place.read("a/b") == b"world!"
    assert place.read("a/b", 6) == b"world!"
    parts = [place.read_range("a/b", *part) for part in ((1, 3), (4, 9), (6, 2), (9, 2), (None, 2), (None, 9))]
    assert parts == [b"orl", b"d!", b"", b"", b"d!", b"world!"]
    place.write("empty", b"")
    assert place.read_range("empty", 0, 3) == place.read_range("empty", None, 3) == b""
    place.remove("empty")
    with pytest.raises(FileNotFoundError):
        place.read_range("orange", 0, 3)
    with pytest.raises(OversizeError, match="a/b: expected a file of at most 5 bytes, got 6 bytes"):
        place.read("a/b", 5)
    assert not place.create("a/b", b"x")
    assert place.create("c", b"x")
    assert not place.exchange("c", b"y", b"z")
    assert not place.exchange("d", b"y", b"z")
    assert place.exchange("c", b"x", b"z")
    assert sorted(place.names()) == [("a/b", 6), ("c", 1)]
    assert list(place.names("a")) == [("a/b", 6)]
    assert list(place.names("b")) == []
    assert place.inner("a").read("b") == b"world!"
    assert pickle.loads(pickle.dumps(place)).read("c") == b"z"  # noqa: S301 -- just pickled
    place.remove("c")
    place.remove("c")
    place.remove("c/d")
    assert list(place.names()) == [("a/b", 6)]


def test_files_are_removed_together_those_that_are_there(place: Place) -> None:
    names = [f"a/{number}" for number in range(20)]
    for name in (*names[::2], "a/x", "b"):
        place.write(name, b"x")
    place.remove_all(names)
    assert [name for name, _ in place.names()] in (["a/x", "b"], ["b", "a/x"])
    place.remove_all(names)
    place.remove_all([])


def test_a_server_that_removes_one_at_a_time_does_that(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_at(f"{bucket.url}/s.zarr")
    for name in ("a", "b", "c"):
        place.write(name, b"x")
    made = objects._client

    class Single:
        """A client of a server without the request that removes many."""

        def __init__(self, *settings: Any) -> None:
            self._client = made(*settings)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._client, name)

        def delete(self, names: str | list[str]) -> None:
            if not isinstance(names, str):
                raise GenericError("Generic S3 error: .. <Code>NotImplemented</Code> .. status code: 405")
            self._client.delete(names)

    monkeypatch.setattr(objects, "_client", Single)
    place.remove_all(["a", "c", "d"])
    assert [name for name, _ in place.names()] == ["b"]


@pytest.mark.usefixtures("bucket")
def test_a_refusal_is_no_empty_object() -> None:
    """Also where the name of the object sounds like another answer."""
    place = place_at("s3://no-such-range/s.zarr")
    with pytest.raises(StoreRefusedError, match="NoSuchBucket"):
        place.read_range("orange", 0, 3)


def test_one_of_many_wins(place: Place) -> None:
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(lambda number: place.create("lock", bytes([number])), range(8)))
        assert sum(created) == 1
        before = place.read("lock")
        assert before == bytes([created.index(True)])
        exchanged = list(pool.map(lambda number: place.exchange("lock", before, bytes([number])), range(100, 108)))
    assert sum(exchanged) == 1
    assert place.read("lock") == bytes([100 + exchanged.index(True)])


@pytest.mark.parametrize("where", ["s3://bucket", "s3:///x", "s3://b/../x", "gs://bucket/x", "", "a\0b"])
def test_what_is_no_place_is_refused(where: str) -> None:
    with pytest.raises(InvalidInputError, match="expected a path or a URL s3://BUCKET/PREFIX"):
        place_at(where)


def test_a_store_is_created_committed_damaged_and_mended(place: Place, small: StudySpec) -> None:
    stored = create_or_open(place, plan_study(small, 1))
    assert stored == open_store(place)
    write_batch(stored, 0)
    assert [stored.results.is_sound(index) for index in range(2)] == [True, False]
    assert check_store(place).missing == (("", 1),)
    write_batch(stored, 1)
    assert check_store(place).healthy
    bounds = open_study(place).lookup("ApproximateDP", compositions=1, epsilon=0.5)
    assert 0.0 < bounds.maximum[0] <= bounds.maximum[1] < 1e-5
    expected = contents(place)
    place.remove("zarr.json")
    place.remove("epsilon/c/0")
    assert len(check_store(place).damaged) == 2
    restore_parts(open_parts(place), small)
    assert contents(place) == expected


def test_a_half_created_store_in_an_object_store_is_completed_and_is_that_in_a_folder(
    bucket: Bucket, small: StudySpec, tmp_path: Path
) -> None:
    place = place_at(f"{bucket.url}/s.zarr")
    for where in (place_at(tmp_path / "s.zarr"), place):
        write_batch(create_or_open(where, plan_study(small, 2)), 0)
    expected = contents(place_at(tmp_path / "s.zarr"))
    assert contents(place) == expected
    for name in ("zarr.json", "scale/c/0", "pair/c/0", "states/zarr.json"):
        place.remove(name)
    restore_parts([create_or_open(place, plan_study(small))], small)
    assert contents(place) == expected


def test_an_object_store_that_is_not_what_it_should_be_is_told_on_one_line(bucket: Bucket, small: StudySpec) -> None:
    with pytest.raises(InvalidInputError, match="NoSuchBucket: The specified bucket does not exist") as caught:
        create_or_open("s3://nowhere/s.zarr", plan_study(small))
    assert "\n" not in str(caught.value)
    place = place_at(f"{bucket.url}/something/else")
    place.write("words.txt", b"words")
    with pytest.raises(NotAStoreError, match="got something else"):
        create_or_open(place, plan_study(small))
    with pytest.raises(NotAStoreError, match="got nothing there"):
        open_store(f"{bucket.url}/nothing/here")


def test_a_full_disk_leaves_the_store_as_it_was(small: StudySpec, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the system refuses to write more, in the middle of a file."""
    stored = create_or_open(tmp_path / "s.zarr", plan_study(small, 1))
    write_batch(stored, 0)
    before = contents(stored.place)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        with pytest.raises(OSError, match="File too large") as caught:
            write_batch(stored, 1)
        with pytest.raises(InvalidInputError, match="File too large"):
            create_or_open(tmp_path / "new.zarr", plan_study(small))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.zarr", "study.yaml"]
    after = contents(stored.place)
    assert {name: after[name] for name in before} == before
    assert check_store(stored.path).missing == (("", 1),)
    write_batch(stored, 1)
    assert check_store(stored.path).healthy


def test_another_environment_has_another_client(bucket: Bucket) -> None:
    place_at(f"{bucket.url}/moved").write("name", b"first")
    with started_server() as another, fresh_bucket(another, bucket.name):
        place_at(f"{bucket.url}/moved").write("name", b"second")
    assert place_at(f"{bucket.url}/moved").read("name") == b"first"
