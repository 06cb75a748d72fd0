"""What becomes of items on real Dask workers: results, exceptions, killed workers, none left."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import pytest
from distributed import Client, LocalCluster, protocol

from pbdist.errors import InvalidInputError, WorkersLostError
from pbdist.run import dask_executor
from pbdist.run.clients import local_cluster
from pbdist.run.dask_executor import DaskExecutor
from pbdist.run.events import Failure, SerialExecutor, attempt
from tests.run.processes import PATIENCE, until

pytestmark = pytest.mark.slow


@pytest.mark.slow(reason="a worker process is killed and another one starts")
def test_results_exceptions_and_killed_workers(workers: LocalCluster) -> None:
    def task(item: int) -> int:
        if item == 3:
            raise ValueError("no 3\nplease")
        if item == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item

    with DaskExecutor(scheduler=workers.scheduler_address) as executor:
        assert executor.workers.startswith("2 workers on scheduler tcp://")
        assert executor.parallelism == 2
        found = {done.item: done.result for done in executor.run(task, range(8))}
    assert set(found) == set(range(8))
    computed = {item: result for item, result in found.items() if not isinstance(result, Failure)}
    assert computed == {item: item * item for item in computed}
    # What waits on a worker that dies is taken to have killed it too.
    others = [result for item, result in found.items() if item not in {3, 5, *computed}]
    assert all(isinstance(result, Failure) and result.killed for result in others)
    assert {0, 1} <= set(computed)
    raised, killed = found[3], found[5]
    assert isinstance(raised, Failure)
    assert (raised.cause, raised.killed) == ("ValueError: no 3 please", False)
    assert isinstance(killed, Failure)
    assert killed.killed
    assert killed.cause.startswith("the workers that computed it died")


def test_items_are_taken_when_there_is_room(workers: LocalCluster) -> None:
    taken = []

    def items() -> Iterator[int]:
        for item in range(1000):
            taken.append(item)
            yield item

    with DaskExecutor(scheduler=workers.scheduler_address) as executor:
        for position, _ in enumerate(executor.run(abs, items())):
            # Three a worker are on their way.
            assert len(taken) <= position + 1 + 3 * 2
            if position == 50:
                break
    assert len(taken) < 100


def test_the_scheduler_keeps_little_of_the_items_that_it_has_handed_out(workers: LocalCluster) -> None:
    """It remembers its last thousand messages to every worker, and cells of batches are in them."""
    items = [tuple((f"Gaussian {item}", 1.0 + cell) for cell in range(2_000)) for item in range(100)]

    def kept(dask_scheduler: Any) -> int:
        logs = [comm.recent_message_log for comm in dask_scheduler.stream_comms.values()]
        return sum(len(protocol.pickle.dumps(message)) for log in logs for message in log)

    with DaskExecutor(scheduler=workers.scheduler_address) as executor, Client(workers) as client:
        before = client.run_on_scheduler(kept)
        assert [done.result for done in executor.run(len, items)] == [2_000] * 100
        grown = client.run_on_scheduler(kept) - before
    assert 0 < grown < 0.5 * sum(len(protocol.pickle.dumps(item)) for item in items)


def test_no_task_asks_for_all_workers(workers: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousand of them the answer takes longer than most tasks."""
    asked: list[int] = []
    ask = Client.scheduler_info

    def counted(self: Client, n_workers: int = -1, **rest: object) -> object:
        asked.append(n_workers)
        return ask(self, n_workers=n_workers, **rest)

    with DaskExecutor(scheduler=workers.scheduler_address) as executor:
        monkeypatch.setattr(Client, "scheduler_info", counted)
        # Now and then, whatever is done meanwhile: here the clock stands still.
        monkeypatch.setattr(dask_executor, "time", SimpleNamespace(monotonic=lambda: 1000.0))
        monkeypatch.setattr(dask_executor, "_LOOK_SECONDS", PATIENCE)
        assert len(list(executor.run(abs, range(300)))) == 300
    assert asked == [0]


def test_what_is_put_back_while_the_last_items_run_is_computed(workers: LocalCluster) -> None:
    class Growing(Iterator[int]):
        left = [1, 2]  # noqa: RUF012

        def __next__(self) -> int:
            if not self.left:
                raise StopIteration
            return self.left.pop()

    for executor in (SerialExecutor(), DaskExecutor(scheduler=workers.scheduler_address)):
        growing = Growing()
        growing.left = [1, 2]
        found = []
        with executor:
            for done in executor.run(abs, growing):
                found.append(done.item)
                if len(found) == 2:
                    growing.left = [7]
        assert sorted(found) == [1, 2, 7]


def test_no_worker_any_more_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, gate = tmp_path / "scheduler.json", tmp_path / "never"
    with pytest.raises(
        InvalidInputError, match=r"--scheduler: .* is no address, .* and no scheduler file: FileNotFoundError"
    ):
        DaskExecutor(scheduler=file).__enter__()
    monkeypatch.setattr(dask_executor, "_LOOK_SECONDS", 0.1)

    def task(item: int) -> int:
        while item and not gate.exists():
            time.sleep(0.1)
        return os.getpid()

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        client.write_scheduler_file(file)
        with DaskExecutor(scheduler=file, lost_seconds=0.5) as executor:
            results = executor.run(task, [0, 1])
            pid = next(results).result
            assert isinstance(pid, int)
            for nanny in cluster.workers.values():
                nanny.close_gracefully()  # It does not start another one.
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(WorkersLostError, match=r"no worker is left on scheduler .*, for 0.5 s$"):
                next(results)


@pytest.mark.slow(reason="starts a cluster of its own")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"worker.memory.pause": 0.001, "worker.memory.terminate": False}, "workers 0 are paused"),
        ({"scheduler.allowed-failures": 10**6}, "workers 0 start again and again"),
    ],
)
def test_workers_that_finish_nothing_end_the_run(
    settings: dict[str, float], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_executor, "_LOOK_SECONDS", 0.2)

    def deadly(item: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return item

    cluster = local_cluster(1, "4GiB")
    cluster.start_timeout = 30.0
    told = f"no result on this machine for 6 s: {words}, most likely for want of memory: start fewer workers"
    with (
        dask.config.set({f"distributed.{name}": value for name, value in settings.items()}),
        DaskExecutor(cluster, lost_seconds=6.0) as executor,
    ):
        if "paused" in words:
            until(
                lambda: all(one["status"] == "paused" for one in dask_executor._workers_of(executor._client).values())
            )
        # Longer than a worker lives here.
        cluster.start_timeout = 6.0
        with pytest.raises(WorkersLostError, match=f"^{told}"):
            list(executor.run(deadly, range(4)))


def test_an_attempt_tells_that_the_store_cannot_be_read(tmp_path: Path) -> None:
    found = attempt(Path.read_bytes, tmp_path)
    assert isinstance(found, Failure)
    assert found.store
    assert found.cause.startswith("IsADirectoryError: ")
