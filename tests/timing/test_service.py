"""The service and the client of data/timing, for real, on the loopback interface."""

import asyncio
import csv
import multiprocessing
import platform
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from data.timing.client import Counts, Tally, alternating, measure
from data.timing.delay import UNIT_NS, GaussianDelay
from data.timing.measure import main
from data.timing.service import ANSWER_BYTES, Settings, serve
from pbdist import load_histograms

pytestmark = pytest.mark.nightly
PLAIN = b"GET /plain HTTP/1.1\r\nHost: localhost\r\n\r\n"
EXTRA = PLAIN.replace(b"plain", b"extra")


def with_service(settings: Settings, use: Callable[[int], Awaitable[None]]) -> None:
    """Run a service and its user in one event loop."""

    async def both() -> None:
        ours, theirs = multiprocessing.Pipe()
        serving = asyncio.ensure_future(serve(settings, theirs))
        while not ours.poll():
            await asyncio.sleep(0.001)
        try:
            await asyncio.wait_for(use(ours.recv()), 60)
        finally:
            ours.close()
            await serving
            theirs.close()

    asyncio.run(both())


def tally(width_ns: int = 10_000, bins: int = 50) -> Tally:
    return Tally(Counts(width_ns, bins), Counts(width_ns, bins))


def test_answers_have_one_length_and_connections_are_kept() -> None:
    async def use(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in (PLAIN, EXTRA, PLAIN):
            writer.write(request[:20])
            await writer.drain()
            await asyncio.sleep(0.001)
            writer.write(request[20:])
            answer = await reader.readexactly(ANSWER_BYTES)
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
            assert answer.endswith(b"\r\n\r\n00000000")
        # Two requests at once get two answers.
        writer.write(PLAIN + EXTRA)
        assert (await reader.readexactly(2 * ANSWER_BYTES)).count(b"200 OK") == 2
        writer.close()

    with_service(Settings(work_bytes=1_000), use)


@pytest.mark.parametrize("request_", [b"GET /other HTTP/1.1\r\n\r\n", b"POST /plain HTTP/1.1\r\n\r\n", b"x" * 9_000])
def test_other_requests_are_refused(request_: bytes) -> None:
    async def use(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_)
        assert (await reader.read()).startswith(b"HTTP/1.1 404 ")
        writer.close()

    with_service(Settings(work_bytes=1), use)


def test_undelayed_times_are_counted_by_side_and_half() -> None:
    counted = tally()

    async def use(port: int) -> None:
        await measure(port, alternating(300, 20), counted)

    with_service(Settings(work_bytes=200_000), use)
    sums = {which: sum(counts) for which, counts in counted.times.counts.items()}
    assert sums == {(0, 0): 160, (0, 1): 140, (1, 0): 160, (1, 1): 140}
    assert counted.answers == 600
    assert counted.rest.counts == counted.times.counts


def test_no_answer_is_earlier_than_its_delay_and_many_wait_together() -> None:
    counted, delay = tally(100_000, 5_000), GaussianDelay(100)
    connections = 40

    async def use(port: int) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await measure(port, alternating(200, 10), counted, connections=connections, ramp_s=0.01)
        # Together they have waited longer than it took.
        waited = sum(bin_ * count for counts in counted.times.counts.values() for bin_, count in enumerate(counts))
        assert loop.time() - begun < waited * counted.times.width_ns * 1e-9 / 2

    with_service(Settings(work_bytes=1_000, scale=delay.scale, deadline=10), use)
    assert sum(map(sum, counted.times.counts.values())) == 400
    # A rest below 0 would be counted as 0 too: look at the times themselves.
    assert all(
        sum(counts[: delay.mean * UNIT_NS // counted.times.width_ns // 4]) == 0
        for counts in counted.times.counts.values()
    )


def test_what_breaks_is_told() -> None:
    async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()

    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 500 Internal Server Error\r\n" + bytes(200))
        writer.close()

    async def both(handler: Callable[..., Awaitable[None]], words: str) -> None:
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        async with server:
            with pytest.raises(ConnectionError, match=words):
                await measure(server.sockets[0].getsockname()[1], alternating(5, 1), tally())

    asyncio.run(both(hangs_up, "got a closed connection|reset by peer"))
    asyncio.run(both(refuses, "expected an answer of"))


def test_sides_and_halves_alternate_in_blocks() -> None:
    assert list(alternating(5, 2)) == [
        *[(0, 0)] * 2, *[(1, 0)] * 2, *[(0, 1)] * 2, *[(1, 1)] * 2, (0, 0), (1, 0),
    ]  # fmt: skip


def test_mixed_sides_come_in_random_order_and_as_often() -> None:
    drawn = [list(alternating(60, 20, mixed=True)) for _ in range(2)]
    assert drawn[0] != drawn[1]
    for order in drawn:
        for start in (0, 40, 80):
            assert sorted(order[start : start + 40]) == sorted([(side, start // 40 % 2) for side in (0, 1)] * 20)


def test_times_beyond_the_last_bin_are_in_it() -> None:
    counts = Counts(10, 3)
    for time in (-5, 0, 9, 10, 25, 10**12):
        counts.add((1, 0), time)
    assert counts.counts[1, 0] == [3, 1, 2]


def test_the_command_writes_files_that_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--requests", "300", "--delayed-requests", "200", "--scales-ms", "2", "--load", "1_000"]
    main([*sizes, "--out", str(tmp_path)])
    facts = yaml.safe_load((tmp_path / "provenance.yaml").read_text(encoding="utf-8"))
    assert [one["file"] for one in facts["measurements"]] == [
        "undelayed.csv",
        "delayed-2ms.csv",
        "delayed-2ms-blocks.csv",
    ]
    assert [one["order"] for one in facts["measurements"]] == ["blocks", "random", "blocks"]
    assert [one["requests"]["b"] for one in facts["measurements"]] == [300, 200, 200]
    assert facts["measurements"][1]["delay_scale_us"] == 2_000
    for one, total in zip(facts["measurements"], (300, 200, 200), strict=True):
        pair = load_histograms(tmp_path / one["file"])
        assert sum(pair.p) == sum(pair.q) == total
        with (tmp_path / one["file"]).open(encoding="utf-8") as file:
            assert all(int(row["a"]) == int(row["a_first"]) + int(row["a_second"]) for row in csv.DictReader(file))
    assert load_histograms(tmp_path / "delayed-2ms-rest.csv").outcomes > 1
    # One measurement again leaves the others as they are.
    main([*sizes, "--requests", "70", "--only", "undelayed", "--out", str(tmp_path)])
    again = yaml.safe_load((tmp_path / "provenance.yaml").read_text(encoding="utf-8"))
    assert [one["requests"]["a"] for one in again["measurements"]] == [70, 200, 200]
    assert again["measurements"][1:] == facts["measurements"][1:]
    with pytest.raises(SystemExit):
        main(["--deadline-us", "15"])
    assert "expected whole units of 10 µs, got 15" in capsys.readouterr().err


def test_nothing_of_a_person_or_a_place_is_told(tmp_path: Path) -> None:
    main(["--requests", "1", "--scales-ms", "--out", str(tmp_path / "new")])
    text = (tmp_path / "new" / "provenance.yaml").read_text(encoding="utf-8")
    assert set(yaml.safe_load(text)) == {
        "script", "options", "python", "kernel", "cpu", "cores", "other_load_was_present", "measurements",
    }  # fmt: skip
    assert [name for name in (platform.node(), str(tmp_path), str(Path.home())) if name in text] == []
