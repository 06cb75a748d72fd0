"""Tasks a second with a thousand workers known to a scheduler.

``python -m tests.benchmarks.many_workers 1000`` starts a scheduler in a process of its own, a thousand real workers of
one thread each, many in one process and each with its own connections and heartbeats, and has `DaskExecutor.run` do
trivial tasks on them. It prints a row for ``docs/benchmarks.md``.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from distributed import Client

from pbdist.run.dask_executor import DaskExecutor

#: Starts workers in this process; it ends with its standard input.
_WORKERS = """
import asyncio, sys
import dask
from distributed import Worker

async def main(file, count):
    async with asyncio.TaskGroup() as group:
        limit = asyncio.Semaphore(20)
        workers = []
        async def start():
            async with limit:
                workers.append(await Worker(
                    scheduler_file=file, nthreads=1, memory_limit=0, dashboard=False, local_directory=".",
                ))
        for _ in range(count):
            group.create_task(start())
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    import os; os._exit(0)

with dask.config.set({
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "60s",
    "distributed.admin.tick.interval": "60s",
}):
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""
_PROCESSES = 2


@dataclass(frozen=True)
class Measured:
    """Workers that the scheduler knew, tasks that were done, and the seconds that they took."""

    workers: int
    tasks: int
    seconds: float

    @property
    def rate(self) -> float:
        """Tasks a second."""
        return self.tasks / self.seconds


def measure(workers: int, tasks: int) -> Measured:
    """Have trivial tasks done, after as many as fill the window of the executor."""
    with _cluster(workers) as file, DaskExecutor(scheduler_file=file) as executor:
        known = executor.parallelism
        results = executor.run(abs, range(3 * known + 2 * tasks))
        # The first ones fill the window, and the last ones empty it: neither says how a long run goes on.
        for _ in range(tasks // 2):
            next(results)
        began = time.perf_counter()
        for _ in range(tasks):
            next(results)
        return Measured(known, tasks, time.perf_counter() - began)


@contextmanager
def _cluster(workers: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "scheduler.json")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        hub = [sys.executable, "-m", "dask", "scheduler", "--scheduler-file", str(file)]
        hub += ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        processes = [subprocess.Popen(hub, **quiet)]
        try:
            while not file.exists():
                time.sleep(0.1)
            shares = [workers // _PROCESSES + (number < workers % _PROCESSES) for number in range(_PROCESSES)]
            for share in shares:
                command = [sys.executable, "-c", _WORKERS, str(file), str(share)]
                processes.append(subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, **quiet))
            with Client(scheduler_file=str(file)) as client:
                client.wait_for_workers(workers, timeout=500)
            yield file
        finally:
            for process in processes:
                process.kill()
                process.wait()


def main(workers: int, tasks: int) -> None:
    """Print how many tasks a second were done."""
    found = measure(workers, tasks)
    print(f"| {found.workers:,} | {found.rate:,.0f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3000)
