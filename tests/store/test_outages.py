"""An object store behind a connection that is cut, or that loses answers: a real server behind a real proxy."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pbdist.errors import BatchError, StoreRefusedError, StoreUnreachableError
from pbdist.query import open_study
from pbdist.run import SerialExecutor, run_study
from pbdist.run.events import BatchFinished, Event
from pbdist.store import ObjectPlace, check_store, place_at, with_patience
from pbdist.study import load_study
from tests.run.processes import LIGHT
from tests.s3_server import Bucket
from tests.store.tcp_proxy import TcpProxy
from tests.store.test_store import SMALL
from tests.studies import Finished, write_study

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
    for request, expected in (
        (lambda: place.read("a"), b"1"),
        (lambda: place.write("a", b"2"), None),
        (lambda: place.create("b", {"c": b"3"}), True),
        (lambda: place.create("b", {"c": b"4"}), False),
        (lambda: list(place.names()), [("a", 1), ("b/c", 1)]),
        (place.folders, ["b"]),
        (lambda: place.remove("a"), None),
        (lambda: list(place.names()), [("b/c", 1)]),
    ):
        timer = mended_after(0.3, proxy)
        assert request() == expected
        timer.join()


def test_a_request_whose_answer_was_lost_is_recognised(proxy: TcpProxy, url: str) -> None:
    place = place_at(url)
    proxy.lost_answers = 1
    assert place.create("", {"a": b"mine"})
    assert proxy.lost_answers == 0
    assert not place.create("", {"a": b"others"})


def test_a_longer_outage_is_reported_on_one_line(proxy: TcpProxy, url: str) -> None:
    place = with_patience(place_at(url), 1.0)
    proxy.cut()
    began = time.monotonic()
    with pytest.raises(StoreUnreachableError, match=r"a: the object store does not answer as it should: ") as caught:
        place.read("a")
    assert time.monotonic() - began >= 0.9
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreUnreachableError):
        list(place.names())


@pytest.mark.usefixtures("proxy")
def test_what_is_refused_is_not_asked_again() -> None:
    place = ObjectPlace("s3://nowhere/s.zarr", patience=1000.0)
    for request in (lambda: place.write("a", b""), lambda: place.read("a"), lambda: list(place.names())):
        with pytest.raises(StoreRefusedError, match="NoSuchBucket"):
            request()


def test_a_query_of_a_store_that_stays_away_says_so(proxy: TcpProxy, url: str, tmp_path: Path) -> None:
    run_study(load_study(write_study(tmp_path, SMALL)), url, SerialExecutor(), lambda _: None)
    study = open_study(with_patience(place_at(url), 1.0))
    proxy.cut()
    with pytest.raises(StoreUnreachableError, match="the object store does not answer"):
        study.bounds["delta_upper"].load()


@pytest.mark.parametrize(("away", "patience"), [(2.0, 60.0), (30.0, 1.0)])
def test_a_run_waits_for_its_store_or_ends_in_one_line_and_loses_nothing(
    proxy: TcpProxy, url: str, tmp_path: Path, finished_store: Finished, away: float, patience: float
) -> None:
    study, cut = load_study(write_study(tmp_path, LIGHT)), False
    timers = []

    def listen(event: Event) -> None:
        nonlocal cut
        if isinstance(event, BatchFinished) and not cut:
            cut = True
            timers.append(mended_after(away, proxy))

    if patience > away:
        run_study(study, url, SerialExecutor(), listen, patience=patience)
    else:
        with pytest.raises(BatchError, match=r"the store cannot be written: .*the same command goes on") as caught:
            run_study(study, url, SerialExecutor(), listen, patience=patience)
        assert "\n" not in str(caught.value)
        timers[0].cancel()
        proxy.mend()
        run_study(study, url, SerialExecutor(), listen)
    assert check_store(url).healthy
    far, near = place_at(url), place_at(finished_store(LIGHT))
    assert all(far.read(name) == near.read(name) for name, _ in near.names() if not name.endswith("zarr.json"))
