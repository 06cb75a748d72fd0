"""What a run costs beside the bounds: many tiny cells, and cells that keep the cores busy.

``python -m tests.benchmarks.scale tiny 100000`` and ``python -m tests.benchmarks.scale busy`` start a scheduler and
workers, each a process of its own, run a study on them, and print tables for ``docs/scale.md``.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

_STUDIES = {
    # Closed form, a millisecond each.
    "tiny": """\
format: 1
name: tiny
mechanisms:
  - {{kind: Gaussian, scale: {{linspace: [1, 100, {cells}]}}}}
compositions: [1, 16]
epsilon: [0.1, 1]
""",
    # Half a second each, nearly all of it transforms.
    "busy": """\
format: 1
name: busy
mechanisms:
  - {{kind: Laplace, scale: {{linspace: [2, 40, {cells}]}}}}
method: buckets
buckets: 100000
compositions: [1, 4, 16, 64]
epsilon: {{linspace: [0, 1, 9]}}
""",
}
_SAMPLE_SECONDS = 0.5


@dataclass(frozen=True)
class Measured:
    """A run by its log, and the resident memory of client and scheduler over the time, in MiB."""

    seconds: float
    worker_seconds: float
    kernel_seconds: float
    cells: int
    memory: list[tuple[float, float, float]]


def run(kind: str, cells: int, workers: int) -> Measured:
    """Run a study on a scheduler and workers in processes of their own."""
    with tempfile.TemporaryDirectory() as folder, _cluster(Path(folder), workers) as scheduler:
        study, log = Path(folder, "study.yaml"), Path(folder, "log.jsonl")
        study.write_text(_STUDIES[kind].format(cells=cells), encoding="utf-8")
        arguments = [str(study), "--store", str(Path(folder, "s.zarr")), "--log", str(log)]
        arguments += ["--scheduler", str(Path(folder, "scheduler.json"))]
        command = [sys.executable, "-m", "pbdist", "run", *arguments]
        memory: list[tuple[float, float, float]] = []
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
            began, processes = time.monotonic(), (psutil.Process(client.pid), psutil.Process(scheduler.pid))
            while client.poll() is None:
                try:
                    sizes = [process.memory_info().rss / 2**20 for process in processes]
                except psutil.NoSuchProcess:
                    break
                memory.append((time.monotonic() - began, sizes[0], sizes[1]))
                time.sleep(_SAMPLE_SECONDS)
        if client.returncode:
            raise RuntimeError(f"the run ended with {client.returncode}")
        events: list[dict[str, Any]] = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        batches = [event for event in events if event["event"] == "batch_finished"]
        of_workers, of_kernels = (sum(one[name] for one in batches) for name in ("seconds", "kernel_seconds"))
        return Measured(events[-1]["seconds"], of_workers, of_kernels, events[-1]["cells"], memory)


@contextmanager
def _cluster(folder: Path, workers: int) -> Iterator["subprocess.Popen[bytes]"]:
    file = ["--scheduler-file", str(folder / "scheduler.json")]
    dask = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with ExitStack() as stack:
        arguments = ["--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0"]
        processes = [subprocess.Popen([*dask, "scheduler", *file, *arguments], **quiet)]
        stack.callback(lambda: [process.terminate() for process in processes] + [p.wait() for p in processes])
        while not (folder / "scheduler.json").exists():
            time.sleep(0.1)
        for _ in range(workers):
            arguments = ["--nthreads", "1", "--memory-limit", "4GiB", "--dashboard-address", "127.0.0.1:0"]
            processes.append(subprocess.Popen([*dask, "worker", *file, *arguments], **quiet))
        yield processes[0]


def tiny(cells: int) -> None:
    """Print what a tiny cell costs beside its bounds, and the memory of client and scheduler over the run."""
    found = run("tiny", cells, workers=2)
    beside = found.seconds - found.kernel_seconds / 2
    print(f"{found.cells:,} cells in {found.seconds:.1f} s on 2 workers, of which bounds {found.kernel_seconds:.1f} s:")
    print(f"{1e3 * beside / found.cells:.3f} ms a cell beside the bounds")
    whole = found.memory[-1][0]
    beside = whole - found.kernel_seconds / 2
    print(
        f"{1e3 * beside / found.cells:.3f} ms a cell for the whole command, {whole:.1f} s from its start to its end\n"
    )
    print("| seconds | client, MiB | scheduler, MiB |\n|---|---|---|")
    step = max(1, len(found.memory) // 20)
    for at, client, scheduler in found.memory[::step]:
        print(f"| {at:.0f} | {client:.0f} | {scheduler:.0f} |")


def busy(cells: int) -> None:
    """Print how much faster two workers are than one, and the share of the bounds in the workers' time."""
    one, two = (run("busy", cells, workers) for workers in (1, 2))
    print("| workers | seconds | worker seconds | of these bounds |\n|---|---|---|---|")
    for workers, found in ((1, one), (2, two)):
        share = found.kernel_seconds / found.worker_seconds
        print(f"| {workers} | {found.seconds:.1f} | {found.worker_seconds:.1f} | {share:.1%} |")
    print(f"\n2 workers are {one.seconds / two.seconds:.2f} times as fast as 1")


if __name__ == "__main__":
    {"tiny": tiny, "busy": busy}[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 96)
