"""One giant cell over two workers of 1 GiB: ``python -m tests.benchmarks.giant [LOG2_BUCKETS] [--compare]``.

Prints the time of each kind of task, the projected and the measured peak memory of the workers, and, with
``--compare`` (5 GB of memory at 2^25 buckets), whether the numbers are bit by bit those computed in memory.
"""

import argparse
import tempfile
import time

from distributed import Client, LocalCluster

from pbdist import Gaussian
from pbdist.buckets import projected_bytes
from pbdist.run import giant
from pbdist.run.dask_executor import DaskExecutor
from pbdist.run.giant import ExecutorMapper, Scratch
from pbdist.store import LocalPlace
from pbdist.study.columns import Cell
from pbdist.study.spec import StudySpec
from pbdist.table import bounds_table
from tests.benchmarks.side_by_side import peak_bytes

WORKER_BYTES = 1 << 30


class _Timed(ExecutorMapper):
    """Adds up the time and the number of each kind of task."""

    def __init__(self, executor: DaskExecutor) -> None:
        super().__init__(executor)
        self.kinds: dict[str, tuple[int, float]] = {}

    def map(self, function, items):
        began = time.perf_counter()
        results = list(super().map(function, items))
        name = getattr(function, "func", function).__name__
        count, seconds = self.kinds.get(name, (0, 0.0))
        self.kinds[name] = count + len(items), seconds + time.perf_counter() - began
        return iter(results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("exponent", nargs="?", type=int, default=25)
    parser.add_argument("--compare", action="store_true")
    arguments = parser.parse_args()
    study = StudySpec(
        name="giant",
        cells=(Cell("gaussian", Gaussian(20.0), None),),
        method="buckets",
        tolerance=None,
        buckets=1 << arguments.exponent,
        compositions=(1, 2, 4),
        epsilon=(0.1, 0.5, 1.0),
    )
    cell = study.cells[0]
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=WORKER_BYTES, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
        DaskExecutor(scheduler=cluster.scheduler_address) as executor,
    ):
        mapper = _Timed(executor)
        began = time.perf_counter()
        table = giant.compute(study, cell, mapper, Scratch(LocalPlace(f"{folder}/s.zarr")), WORKER_BYTES)
        print(f"2^{arguments.exponent} buckets: {time.perf_counter() - began:.0f} s")
        for name, (count, seconds) in mapper.kinds.items():
            print(f"  {name:16} {count:5} tasks {seconds:7.1f} s")
        measured = max(client.run(peak_bytes).values())
        layout = giant.layout_of(study, WORKER_BYTES)
        projected = giant.BASE_BYTES + projected_bytes(1 << arguments.exponent, layout)
        print(f"worker: {measured / 2**20:.0f} MiB measured, {projected / 2**20:.0f} MiB projected")
        print(f"this process: {peak_bytes() / 2**20:.0f} MiB")
    print(table.delta_lower[0], table.delta_upper[0], sep="\n")
    if arguments.compare:
        began = time.perf_counter()
        whole = bounds_table(
            [(cell.pair, 1)],
            compositions=study.compositions,
            epsilon=study.epsilon,
            method="buckets",
            buckets=study.buckets,
        )
        same = all(
            getattr(whole, name).tobytes() == getattr(table, name).tobytes() for name in ("delta_lower", "delta_upper")
        )
        print(f"in memory: {time.perf_counter() - began:.0f} s, {'the same' if same else 'OTHER'} bits")


if __name__ == "__main__":
    main()
