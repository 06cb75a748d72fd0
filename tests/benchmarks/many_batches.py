"""What a store of many batches costs: a run with nothing to do, its status, its files; and one in an object store.

``python -m tests.benchmarks.many_batches disk 100000`` and ``python -m tests.benchmarks.many_batches s3 1000`` make a
store of batches of one cell, all with the bounds of the first one, and print a table for ``docs/scale.md``. The
object store is a server on this machine behind a proxy that holds each request back for 50 ms.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from pbdist.run.task import cell_bounds
from pbdist.store import BatchWriter, create_or_open
from pbdist.study import load_study, plan_study
from tests.s3_server import fresh_bucket
from tests.store.tcp_proxy import TcpProxy

_STUDY = """\
format: 1
name: many
mechanisms:
  - {{kind: Gaussian, scale: {{linspace: [1, 100, {batches}]}}}}
compositions: [1, 16]
epsilon: [0.1, 1]
"""
_DELAY_SECONDS = 0.05


def make(study_file: Path, where: str, batches: int) -> None:
    """Make a store with all batches."""
    study_file.write_text(_STUDY.format(batches=batches), encoding="utf-8")
    study = load_study(study_file)
    stored = create_or_open(where, replace(plan_study(study), cells_per_batch=1))
    table = cell_bounds(study, study.cells[0])
    began = time.process_time()
    for index in range(stored.batches):
        writer = BatchWriter(stored.head, index, study.cells[index : index + 1])
        writer.add(table)
        writer.commit()
    print(f"write a batch: {1000 * (time.process_time() - began) / batches:.2f} ms of a core")


def seconds_of(*command: str) -> tuple[float, float]:
    """Return the seconds that a command takes, and those of a processor."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "pbdist", *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - began, busy


def tell(what: str, seconds: float, busy: float) -> None:
    """Print a row."""
    print(f"| {what} | {seconds:.1f} s | {busy:.1f} s |")


@contextmanager
def distant(bucket: str) -> Iterator[TcpProxy]:
    """Start an object store behind a proxy, which does not delay anything yet."""
    with (
        fresh_bucket(name=bucket) as found,
        TcpProxy("127.0.0.1", found.server.port) as proxy,
        patch.dict(os.environ, AWS_ENDPOINT_URL=proxy.address),
    ):
        yield proxy


def on_disk(batches: int) -> None:
    """Print what a finished store on this disk costs."""
    with tempfile.TemporaryDirectory() as folder:
        file, store = Path(folder, "many.yaml"), Path(folder, "s.zarr")
        # Only the making is quick: nothing that is timed writes.
        with patch.object(os, "fsync"):
            make(file, str(store), batches)
        tell("a run with nothing to do", *seconds_of("run", str(file), "--store", str(store)))
        tell("status", *seconds_of("status", str(store)))
        tell("status --check", *seconds_of("status", str(store), "--check"))
        print(f"files and folders a batch: {sum(1 for _ in store.rglob('*')) / batches:.2f}")


def far_away(batches: int) -> None:
    """Print what a store costs in an object store where each request takes 50 ms; half of its shards are joined."""
    with tempfile.TemporaryDirectory() as folder, distant("many") as proxy:
        file, url = Path(folder, "many.yaml"), "s3://many/s.zarr"
        make(file, url, batches)
        proxy.delay = _DELAY_SECONDS
        tell("a run with nothing to do", *seconds_of("run", str(file), "--store", url))
        tell("status", *seconds_of("status", url))


if __name__ == "__main__":
    {"disk": on_disk, "s3": far_away}[sys.argv[1]](int(sys.argv[2]))
