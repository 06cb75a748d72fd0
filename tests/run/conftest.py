"""One Dask cluster on this machine for all tests of a session, and workers that start in a third of a second."""

from collections.abc import Iterator
from multiprocessing import get_context

import dask
import pytest
from distributed import LocalCluster, utils

#: What workers import: their processes are forked by a server that has it.
_PRELOADED = ["__main__", "pytest", "distributed.nanny", "distributed.worker", "pbdist.cli", "pbdist.run.dask_executor"]


@pytest.fixture(autouse=True)
def quick_workers() -> Iterator[None]:
    """Have nannies of this process fork their workers; a command in a process of its own starts them as users do."""
    get_context("forkserver").set_forkserver_preload(_PRELOADED)
    utils._forkserver_preload_set = True  # Dask would preload less.
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        yield


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as found,
    ):
        yield found


@pytest.fixture
def workers(cluster: LocalCluster) -> LocalCluster:
    """A cluster of two workers, for tests that do not harm it; workers that die are started again."""
    cluster.wait_for_workers(2)
    return cluster
