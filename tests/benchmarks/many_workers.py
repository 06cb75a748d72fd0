"""Tasks a second with a thousand workers known to a scheduler.

``python -m tests.benchmarks.many_workers 1000 3000 4`` starts a scheduler in a process of its own and a thousand real
workers of one thread each, many in one process, and has `DaskExecutor.run` do 3,000 trivial tasks. Four of the workers
work; the others are known to the scheduler, and paused, because two cores cannot do the work of a thousand machines.
With 1000 for the last number all of them work. It prints a row for ``docs/scale.md``: workers, those that work,
tasks a second, and milliseconds of a processor that a task costs in the driver, in the scheduler and in all workers.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from distributed import Client

from pbdist.run.dask_executor import DaskExecutor

#: Starts workers in this process; it ends with its standard input.
_WORKERS = """
import asyncio, sys
import dask
from distributed import Worker
from distributed.core import Status

async def main(file, count, working):
    async with asyncio.TaskGroup() as group:
        limit = asyncio.Semaphore(20)
        workers = []
        async def start(number):
            async with limit:
                worker = await Worker(
                    scheduler_file=file, nthreads=1, memory_limit=0, dashboard=False, local_directory=".",
                )
                workers.append(worker)
                if number >= working:
                    worker.status = Status.paused
                    for callback in worker.periodic_callbacks.values():
                        callback.stop()
        for number in range(count):
            group.create_task(start(number))
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    import os; os._exit(0)

with dask.config.set({
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "60s",
    "distributed.admin.tick.interval": "60s",
}):
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""
_PROCESSES = 2


@dataclass(frozen=True)
class Measured:
    """Workers that the scheduler knew, tasks that were done, and the seconds that they took.

    And the processor's seconds of this process, of the scheduler, and of all workers together.
    """

    workers: int
    tasks: int
    seconds: float
    driver: float
    scheduler: float
    all_workers: float

    @property
    def rate(self) -> float:
        """Tasks a second."""
        return self.tasks / self.seconds


def measure(workers: int, tasks: int, working: int) -> Measured:
    """Have trivial tasks done, after as many as fill the window of the executor."""
    with _cluster(workers, working) as (file, processes), DaskExecutor(scheduler=file) as executor:
        known = executor.parallelism
        results = executor.run(abs, range(3 * known + 3 * tasks))
        # The first ones fill the window and meet every worker, and the last ones empty it: neither says how a long run
        # goes on.
        for _ in range(tasks):
            next(results)
        began, before = time.perf_counter(), _processor_seconds(processes)
        for _ in range(tasks):
            next(results)
        seconds, after = time.perf_counter() - began, _processor_seconds(processes)
        driver, scheduler, *rest = (end - start for start, end in zip(before, after, strict=True))
        return Measured(known, tasks, seconds, driver, scheduler, sum(rest))


def _processor_seconds(processes: list["subprocess.Popen[bytes]"]) -> list[float]:
    found = [psutil.Process(), *(psutil.Process(process.pid) for process in processes)]
    return [sum(process.cpu_times()[:2]) for process in found]


@contextmanager
def _cluster(workers: int, working: int) -> Iterator[tuple[Path, list["subprocess.Popen[bytes]"]]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "scheduler.json")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        hub = [sys.executable, "-m", "dask", "scheduler", "--scheduler-file", str(file)]
        hub += ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        # Workers that are paused do not show that they are alive.
        environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "1h"}
        processes = [subprocess.Popen(hub, env=environment, **quiet)]
        try:
            while not file.exists():
                time.sleep(0.1)
            for number in range(_PROCESSES):
                shares = (str(_share(count, number)) for count in (workers, working))
                command = [sys.executable, "-c", _WORKERS, str(file), *shares]
                processes.append(subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, **quiet))
            with Client(scheduler_file=str(file)) as client:
                # Not those that work alone, as `wait_for_workers` has it.
                while client.scheduler_info(n_workers=0)["n_workers"] < workers:
                    time.sleep(0.5)
            yield file, processes
        finally:
            for process in processes:
                process.kill()
                process.communicate()


def _share(count: int, number: int) -> int:
    return count // _PROCESSES + (number < count % _PROCESSES)


def main(workers: int, tasks: int, working: int) -> None:
    """Print how many tasks a second were done."""
    found = measure(workers, tasks, working)
    parts = (1e3 * part / found.tasks for part in (found.driver, found.scheduler, found.all_workers))
    print(f"| {found.workers:,} | {working:,} | {found.rate:,.1f} | {' | '.join(f'{part:.2g}' for part in parts)} |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
