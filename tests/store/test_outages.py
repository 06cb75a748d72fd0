"""An object store behind a connection that is cut, or that loses answers: a real server behind a real proxy."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pbdist.errors import InvalidInputError, StoreRefusedError, StoreUnreachableError
from pbdist.query import open_study
from pbdist.run import SerialExecutor, run_study
from pbdist.store import ObjectPlace, hold, holder, place_at, with_patience
from pbdist.study import load_study
from tests.s3_server import Bucket
from tests.store.tcp_proxy import TcpProxy
from tests.store.test_damage import SMALL
from tests.studies import write_study

pytestmark = pytest.mark.slow


@pytest.fixture
def proxy(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[TcpProxy]:
    with TcpProxy("127.0.0.1", bucket.server.port) as found:
        monkeypatch.setenv("AWS_ENDPOINT_URL", found.address)
        yield found


@pytest.fixture
def url(bucket: Bucket) -> str:
    return f"{bucket.url}/s.zarr"


def mended_after(seconds: float, proxy: TcpProxy) -> threading.Timer:
    proxy.cut()
    timer = threading.Timer(seconds, proxy.mend)
    timer.start()
    return timer


def test_every_request_outlives_an_outage(proxy: TcpProxy, url: str) -> None:
    place = place_at(url)
    place.write("a", b"1")
    # Each begins while the store is away.
    for request, expected in (
        (lambda: place.read("a"), b"1"),
        (lambda: place.write("a", b"2"), None),
        (lambda: place.create("b", b"3"), True),
        (lambda: place.create("b", b"4"), False),
        (lambda: place.exchange("b", b"3", b"5"), True),
        (lambda: place.exchange("b", b"3", b"6"), False),
        (lambda: list(place.names()), [("a", 1), ("b", 1)]),
        (lambda: place.remove("a"), None),
        (lambda: list(place.names()), [("b", 1)]),
    ):
        timer = mended_after(0.3, proxy)
        assert request() == expected
        timer.join()
    assert place.read("b") == b"5"


@pytest.mark.nightly
def test_a_listing_goes_on_where_it_was_cut(proxy: TcpProxy, url: str) -> None:
    place = place_at(url)
    expected = [(f"{number:04d}", 1) for number in range(1100)]
    for name, _ in expected:
        place.write(name, b"x")
    found = []
    for position, item in enumerate(place.names()):
        found.append(item)
        if position == 10:
            mended_after(0.6, proxy)
    assert found == expected


def test_what_was_done_by_a_request_whose_answer_was_lost_is_known(proxy: TcpProxy, url: str) -> None:
    place = place_at(url)
    proxy.lost_answers = 1
    assert place.create("a", b"mine")
    assert proxy.lost_answers == 0
    assert not place.create("a", b"others")
    for number in (1, 2, 3):
        # Of the read before the write, of the write, or of both.
        before, after = f"{number}".encode(), f"{number} anew".encode()
        place.write("b", before)
        proxy.lost_answers = number
        assert place.exchange("b", before, after)
        assert place.read("b") == after
        assert not place.exchange("b", before, b"late")


def test_what_goes_on_for_longer_is_told_on_one_line(proxy: TcpProxy, url: str) -> None:
    place = with_patience(place_at(url), 1.0)
    proxy.cut()
    began = time.monotonic()
    with pytest.raises(StoreUnreachableError, match=r"a: expected to reach the object store, got: ") as caught:
        place.read("a")
    assert time.monotonic() - began >= 1.0
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreUnreachableError):
        list(place.names())


@pytest.mark.usefixtures("proxy")
def test_what_is_refused_is_not_asked_again() -> None:
    place = ObjectPlace("s3://nowhere/s.zarr", patience=1000.0)
    for request in (lambda: place.write("a", b""), lambda: place.read("a"), lambda: list(place.names())):
        with pytest.raises(StoreRefusedError, match="NoSuchBucket"):
            request()


@pytest.mark.nightly
def test_a_lease_is_neither_lost_nor_taken_in_an_outage(
    proxy: TcpProxy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    # Dead by the clock soon after the cut, for whoever looks on.
    monkeypatch.setattr("pbdist.store.lock.STALE_SECONDS", 1.0)
    with hold(url, refresh=0.3) as held:
        held.watched_by(lambda error: seen.append(error is None))
        mended_after(3.0, proxy).join()
        # The other comes at the first moment, and looks on for as long as a holder takes to come back.
        with pytest.raises(InvalidInputError, match="a run writes to: process"), hold(url, refresh=4.0):
            pass
        assert held.confirmed()
        assert False in seen
        assert seen[-1]
    assert holder(url) is None


def test_a_query_of_a_store_that_stays_away_says_so(proxy: TcpProxy, url: str, tmp_path: Path) -> None:
    run_study(load_study(write_study(tmp_path, SMALL)), url, SerialExecutor(), lambda _: None)
    study = open_study(with_patience(place_at(url), 1.0))
    proxy.cut()
    with pytest.raises(StoreUnreachableError, match="expected to reach the object store"):
        study.bounds["delta_upper"].load()
